//! `rdna`: runs, disassembles and describes code objects for gfx1151.
#![allow(clippy::print_stdout)] // what it is asked for

use clap::{Args, Parser, Subcommand};
use rdna::{Arg, Checks, CodeObject, Device, Launch, Options, isa};
use std::{error::Error, path::PathBuf, process::ExitCode};

#[derive(Parser)]
#[command(name = "rdna", version, about = "Runs gfx1151 (RDNA 3.5) code objects in software")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a kernel
    Run(Box<RunArgs>),
    /// Prints the instructions of all functions
    Dis {
        /// The code object
        file: PathBuf,
    },
    /// Describes the kernels as JSON
    Info {
        /// The code object
        file: PathBuf,
    },
    /// Lists the operations that are known, as a table
    Operations,
}

#[derive(Args)]
struct RunArgs {
    /// The code object
    file: PathBuf,
    /// The kernel
    kernel: String,
    /// The kernel's arguments in order: u32:7, i32:-3, u64:7, f32:1.5, f64:-1.5; 64@zero and 64@rand are buffers of 64 bytes, @FILE one
    /// with the file's contents; a file after > gets a buffer's contents afterwards: 4096@zero>out.bin
    #[arg(long, num_args = 0.., value_name = "ARG")]
    args: Vec<String>,
    /// Workgroups: X, X,Y or X,Y,Z
    #[arg(long, default_value = "1", value_parser = dimensions)]
    grid: [u32; 3],
    /// Work-items of a workgroup
    #[arg(long, default_value = "32", value_parser = dimensions)]
    block: [u32; 3],
    /// LDS bytes beyond what the kernel declares
    #[arg(long, default_value_t = 0)]
    lds: u32,
    /// Threads to spread workgroups over
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Looks for races, uninitialized reads and misaligned accesses (slow)
    #[arg(long)]
    check: bool,
    /// Shows each instruction on standard error
    #[arg(long)]
    trace: bool,
    /// Prints what was executed as JSON
    #[arg(long)]
    stats: bool,
    /// Gives up after so many instructions
    #[arg(long, default_value_t = u64::MAX)]
    max_instructions: u64,
}

fn dimensions(text: &str) -> Result<[u32; 3], String> {
    let numbers = text.split(',').map(|n| n.parse::<u32>().map_err(|e| format!("{n:?}: {e}"))).collect::<Result<Vec<_>, _>>()?;
    match numbers[..] {
        [x] => Ok([x, 1, 1]),
        [x, y] => Ok([x, y, 1]),
        [x, y, z] => Ok([x, y, z]),
        _ => Err(format!("{} numbers: one to three are wanted", numbers.len())),
    }
}

/// A buffer of the command line: address, bytes, and the file that gets its contents.
type Buffer = (u64, usize, Option<PathBuf>);

/// Reads an argument, making its buffer.
fn argument(device: &mut Device, text: &str, buffers: &mut Vec<Buffer>) -> Result<Arg, Box<dyn Error>> {
    let wrong = || {
        format!(
            "argument {text:?}: wanted a number with its type (u32:7, i32:-3, u64:7, f32:1.5, f64:-1.5) or a buffer (64@zero, 64@rand, @FILE)"
        )
    };
    if let Some((bytes, rest)) = text.split_once('@') {
        let (source, output) = rest.split_once('>').map_or((rest, None), |(source, file)| (source, Some(PathBuf::from(file))));
        let contents = match (bytes, source) {
            ("", file) => std::fs::read(file).map_err(|e| format!("{file}: {e}"))?,
            (bytes, "zero") => vec![0; bytes.parse::<u32>().map_err(|_| wrong())? as usize],
            (bytes, "rand") => random(bytes.parse::<u32>().map_err(|_| wrong())? as usize),
            _ => return Err(wrong().into()),
        };
        let address = device.upload(&contents, &format!("argument {text}"))?;
        buffers.push((address, contents.len(), output));
        return Ok(Arg::Pointer(address));
    }
    let (kind, number) = text.split_once(':').ok_or_else(wrong)?;
    Ok(match kind {
        "u32" => Arg::U32(number.parse().map_err(|_| wrong())?),
        "i32" => Arg::U32(number.parse::<i32>().map_err(|_| wrong())? as u32),
        "u64" => Arg::U64(number.parse().map_err(|_| wrong())?),
        "f32" => Arg::F32(number.parse().map_err(|_| wrong())?),
        "f64" => Arg::F64(number.parse().map_err(|_| wrong())?),
        _ => return Err(wrong().into()),
    })
}

/// The same bytes each time (xorshift).
fn random(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(&mut next).take(bytes).collect()
}

fn read(file: &PathBuf) -> Result<CodeObject, Box<dyn Error>> {
    let bytes = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    CodeObject::read(&bytes).map_err(|e| format!("{}: {e}", file.display()).into())
}

fn run(args: &RunArgs) -> Result<(), Box<dyn Error>> {
    let object = read(&args.file)?;
    object.kernel(&args.kernel)?;
    let options = Options {
        threads: args.threads,
        checks: if args.check { Checks::ALL } else { Checks::NONE },
        max_instructions: args.max_instructions,
        trace: args.trace,
        ..Options::default()
    };
    let mut device = Device::new(options);
    let module = device.load(object)?;
    let mut buffers = Vec::new();
    let kernel_args = args.args.iter().map(|text| argument(&mut device, text, &mut buffers)).collect::<Result<Vec<_>, _>>()?;
    let launch = Launch { grid: args.grid, block: args.block, args: &kernel_args, dynamic_lds: args.lds };
    let start = std::time::Instant::now();
    let stats = device.launch(&module, &args.kernel, &launch)?;
    let seconds = start.elapsed().as_secs_f64();
    for (address, bytes, file) in buffers {
        if let Some(file) = file {
            let mut contents = vec![0; bytes];
            device.read(address, &mut contents)?;
            std::fs::write(&file, contents).map_err(|e| format!("{}: {e}", file.display()))?;
        }
    }
    if args.stats {
        let mut report = serde_json::to_value(&stats)?;
        report["seconds"] = seconds.into();
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}

fn dis(file: &PathBuf) -> Result<(), Box<dyn Error>> {
    let object = read(file)?;
    for (name, lines) in rdna::disassemble(&object, isa::Isa::of(isa::Level::detect())) {
        println!("{name}:");
        for (pc, words, text) in lines {
            let words: Vec<_> = words.iter().map(|w| format!("{w:08X}")).collect();
            println!("\t{text:<58} // {pc:012X}: {}", words.join(" "));
        }
    }
    Ok(())
}

fn info(file: &PathBuf) -> Result<(), Box<dyn Error>> {
    let object = read(file)?;
    let report = serde_json::json!({ "code_object_version": object.version, "kernels": object.kernels });
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

fn operations() {
    let isa = isa::Isa::of(isa::Level::detect());
    for encoding in isa::ENCODINGS {
        for op in isa.operations(encoding) {
            println!("{encoding:?} {:#05x} {}", op.code, op.name);
        }
    }
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => run(&args),
        Command::Dis { file } => dis(&file),
        Command::Info { file } => info(&file),
        Command::Operations => {
            operations();
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rdna: {error}");
            ExitCode::FAILURE
        }
    }
}
