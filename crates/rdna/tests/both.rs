//! One C++ source compiled for gfx1151 (stored) and for the host (now): the same operands give the same bits.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside of #[test] functions

mod common;

use common::{Random, kernels};
use rdna::{Arg, Checks, CodeObject, Device, Launch, Options};
use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    sync::OnceLock,
};

/// The source compiled by the host's C++ compiler, which building Rust needs anyway.
fn host_program() -> Option<&'static PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels/both.cpp");
        let program = std::env::temp_dir().join(format!("rdna-both-{}", std::process::id()));
        for compiler in ["c++", "g++", "clang++-19", "clang++"] {
            let flags = ["-O2", "-w", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-o"];
            let built = Command::new(compiler).args(flags).arg(&program).arg(source).stderr(Stdio::null()).status();
            if built.is_ok_and(|s| s.success()) {
                return Some(program);
            }
        }
        None
    };
    PROGRAM.get_or_init(build).as_ref()
}

fn operands(count: usize, r: &mut Random) -> Vec<u64> {
    let special = [
        0u64,
        1,
        2,
        7,
        31,
        63,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        u64::MAX,
        1 << 63,
        0x3f80_0000,
        0x7f80_0000,
        0x7fc0_0000,
        0x0080_0000,
        0x007f_ffff,
        0x3c00,
        0x7c00,
        0x7e00,
        0x3ff0_0000_0000_0000,
        0x7ff0_0000_0000_0000,
        0x7ff8_0000_0000_0000,
        0x000f_ffff_ffff_ffff,
    ];
    let mut one = || {
        let any = u64::from(r.word()) << 32 | u64::from(r.word());
        match r.below(6) {
            0 => special[r.below(special.len() as u32) as usize],
            1 => u64::from(r.below(1000)),
            // Floats of moderate size in both widths.
            2 => {
                any & 0x807f_ffff_ffff_ffff
                    | u64::from(0x3fe + r.below(4)) << 52 & 0x7ff0_0000_0000_0000
                    | (any & 0x807f_ffff)
                    | u64::from(0x7a + r.below(10)) << 23
            }
            _ => any,
        }
    };
    (0..count).map(|_| one()).collect()
}

fn host(list: &str, n: usize, operands: &[Vec<u64>; 3]) -> Option<Vec<u64>> {
    let mut child = Command::new(host_program()?).arg(list).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input: Vec<u8> = (n as u64).to_le_bytes().to_vec();
    input.extend(operands.iter().flatten().flat_map(|x| x.to_le_bytes()));
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{list}: {:?}", output.status);
    Some(output.stdout.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect())
}

fn emulated(file: &[u8], list: &str, n: usize, results: usize, operands: &[Vec<u64>; 3], checks: Checks) -> Vec<u64> {
    let mut device = Device::new(Options { threads: 2, checks, ..Options::default() });
    let module = device.load(CodeObject::read(file).unwrap()).unwrap();
    let bytes = |list: &[u64]| list.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let [a, b, c] = [0, 1, 2].map(|i| Arg::Pointer(device.upload(&bytes(&operands[i]), "operands").unwrap()));
    let out = device.allocate(results as u64 * 8, "results").unwrap();
    let args = [a, b, c, Arg::Pointer(out), Arg::U32(n as u32)];
    let launch = Launch { grid: [(n as u32).div_ceil(96), 1, 1], block: [96, 1, 1], args: &args, dynamic_lds: 0 };
    device.launch(&module, list, &launch).unwrap();
    let words = device.read_words(out, results * 2).unwrap();
    words.chunks_exact(2).map(|w| u64::from(w[0]) | u64::from(w[1]) << 32).collect()
}

/// Names of the lists in the source.
const LISTS: [&str; 5] = ["ints", "longs", "floats", "doubles", "halves"];

fn compare(object: &[u8], n: usize, checks: Checks) {
    let mut failures = Vec::new();
    for list in LISTS {
        let mut r = Random(common::seed() ^ list.len() as u64);
        let operands = [operands(n, &mut r), operands(n, &mut r), operands(n, &mut r)];
        let Some(want) = host(list, n, &operands) else {
            println!("SKIPPED: no C++ compiler (tried c++, g++, clang++)");
            return;
        };
        let got = emulated(object, list, n, want.len(), &operands, checks);
        let expressions = want.len() / n;
        for k in 0..expressions {
            let at = (0..n).find(|i| got[k * n + i] != want[k * n + i]);
            if let Some(i) = at {
                let [a, b, c] = [0, 1, 2].map(|o| operands[o][i]);
                failures.push(format!(
                    "{list}[{k}]: a {a:#x} b {b:#x} c {c:#x}: got {:#x}, the host {:#x}",
                    got[k * n + i],
                    want[k * n + i]
                ));
            }
        }
        println!("{list}: {expressions} expressions on {n} operands");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn optimized_code_gives_the_host_s_results() {
    compare(kernels::BOTH, common::rounds(1000, 300_000) as usize, Checks::NONE);
}

#[test]
fn unoptimized_code_gives_the_host_s_results() {
    compare(kernels::BOTH_O0, common::rounds(500, 50_000) as usize, Checks::NONE);
}

/// Correct code has no faults.
#[test]
fn checks_find_nothing_in_correct_code() {
    compare(kernels::BOTH, 64, Checks::ALL);
    compare(kernels::BOTH_O0, 64, Checks::ALL);
}
