//! Planted faults, each found and told with its place; and the same kernels without the fault, in which nothing is found.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

mod common;

use common::kernels;
use rdna::{Arg, Checks, CodeObject, Device, Fault, Kind, Launch, LaunchError, Options};

/// An argument: a buffer of so many bytes that the host has written, or that nobody has, or a number.
#[derive(Clone, Copy)]
enum Given {
    Written(u64),
    Unwritten(u64),
    Number(u32),
}
use Given::{Number, Unwritten, Written};

fn device(checks: Checks) -> Device {
    Device::new(Options { checks, max_instructions: 1_000_000, ..Options::default() })
}

/// Runs a kernel on `grid` workgroups of 64; gives the first buffer's words afterwards.
fn run(checks: Checks, kernel: &str, grid: u32, given: &[Given]) -> Result<Vec<u32>, Box<Fault>> {
    let mut device = device(checks);
    let module = device.load(CodeObject::read(kernels::FAULTS).unwrap()).unwrap();
    let mut buffers = Vec::new();
    let mut args = Vec::new();
    for given in given {
        args.push(match *given {
            Number(n) => Arg::U32(n),
            Written(bytes) | Unwritten(bytes) => {
                let address = device.allocate(bytes, "buffer").unwrap();
                if matches!(given, Written(_)) {
                    device.write(address, &vec![0; bytes as usize]).unwrap();
                }
                buffers.push((address, bytes));
                Arg::Pointer(address)
            }
        });
    }
    let launch = Launch { grid: [grid, 1, 1], block: [64, 1, 1], args: &args, dynamic_lds: 0 };
    match device.launch(&module, kernel, &launch) {
        Ok(_) => Ok(buffers.first().map_or_else(Vec::new, |&(at, bytes)| device.read_words(at, bytes as usize / 4).unwrap())),
        Err(LaunchError::Fault(fault)) => Err(fault),
        Err(other) => panic!("{kernel}: {other}"),
    }
}

/// The fault is of that kind, names its kernel, and its instruction contains `text`.
fn assert_found(fault: &Fault, kernel: &str, kind: Kind, text: &str) {
    assert_eq!((fault.kind, fault.kernel.as_str()), (kind, kernel), "{fault}");
    assert!(fault.text.contains(text), "{fault}");
    // The place is that of an instruction with that text.
    let object = CodeObject::read(kernels::FAULTS).unwrap();
    let isa = rdna::isa::Isa::of(rdna::isa::Level::detect());
    let lines = rdna::disassemble(&object, isa).into_iter().flat_map(|(_, lines)| lines);
    assert!(lines.into_iter().any(|(pc, _, line)| pc == fault.pc && line == fault.text), "{fault}");
    let told = fault.to_string();
    for part in [kernel, &fault.text, &format!("pc {:#x}", fault.pc), &kind.to_string()] {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn lds_races_are_found() {
    let fault = run(Checks::ALL, "lds_race", 1, &[Written(256)]).unwrap_err();
    // The first wave reads what the second has not written yet.
    assert!([Kind::Race, Kind::Uninitialized].contains(&fault.kind), "{fault}");
    let races = Checks { races: true, ..Checks::NONE };
    let fault = run(races, "lds_race", 1, &[Written(256)]).unwrap_err();
    assert_found(&fault, "lds_race", Kind::Race, "ds_store_b32");
    assert_eq!(fault.wave, 1);
    assert_eq!(fault.lanes.count_ones(), 1);
    assert!(fault.detail.contains("wave 1 writes what wave 0 touched"), "{fault}");
    let words = run(Checks::ALL, "lds_fenced", 2, &[Written(512)]).unwrap();
    assert!((0..128).all(|i| words[i] == ((i as u32 % 64) ^ 32) * 3), "{words:?}");
}

#[test]
fn global_races_are_found() {
    let fault = run(Checks::ALL, "global_race", 2, &[Written(256)]).unwrap_err();
    assert_found(&fault, "global_race", Kind::Race, "global_store_b32");
    assert_eq!(fault.workgroup, [1, 0, 0]);
    let words = run(Checks::ALL, "global_apart", 2, &[Unwritten(512)]).unwrap();
    assert!((0..128).all(|i| words[i] == i as u32 / 64));
    let fault = run(Checks::ALL, "sum_race", 2, &[Written(4)]).unwrap_err();
    assert_eq!(fault.kind, Kind::Race, "{fault}");
}

#[test]
fn atomics_order_what_they_should() {
    assert_eq!(run(Checks::ALL, "sum_atomic", 3, &[Written(4)]).unwrap(), [192]);
    let mut device = device(Checks::ALL);
    let module = device.load(CodeObject::read(kernels::FAULTS).unwrap()).unwrap();
    let parts = device.allocate(40, "parts").unwrap();
    let count = device.upload(&[0; 4], "count").unwrap();
    let out = device.allocate(4, "out").unwrap();
    let args = [Arg::Pointer(parts), Arg::Pointer(count), Arg::Pointer(out)];
    device.launch(&module, "last_adds", &Launch { grid: [10, 1, 1], block: [64, 1, 1], args: &args, dynamic_lds: 0 }).unwrap();
    assert_eq!(device.read_words(out, 1).unwrap(), [55]);
    // The next launch may read what the last one wrote.
    device.write(count, &[0; 4]).unwrap();
    device.launch(&module, "last_adds", &Launch { grid: [4, 1, 1], block: [64, 1, 1], args: &args, dynamic_lds: 0 }).unwrap();
    assert_eq!(device.read_words(out, 1).unwrap(), [10]);
}

#[test]
fn uninitialized_reads_are_found() {
    let fault = run(Checks::ALL, "lds_unwritten", 1, &[Written(256)]).unwrap_err();
    assert_found(&fault, "lds_unwritten", Kind::Uninitialized, "ds_load_b32");
    assert_eq!((fault.lanes, fault.address), (1 << 16, Some(64)));
    let fault = run(Checks::ALL, "global_unwritten", 1, &[Unwritten(256), Written(256)]).unwrap_err();
    assert_found(&fault, "global_unwritten", Kind::Uninitialized, "global_load_b32");
    assert!(run(Checks::ALL, "global_unwritten", 1, &[Written(256), Unwritten(256)]).is_ok());
    let fault = run(Checks::ALL, "register_unwritten", 1, &[Written(256)]).unwrap_err();
    assert_found(&fault, "register_unwritten", Kind::Uninitialized, "global_store_b32");
}

#[test]
fn out_of_bounds_is_found_without_checks_too() {
    for checks in [Checks::NONE, Checks::ALL] {
        let fault = run(checks, "past_the_end", 2, &[Written(512), Written(512)]).unwrap_err();
        // With all checks the byte is first of all not written.
        if checks == Checks::NONE {
            assert_found(&fault, "past_the_end", Kind::OutOfBounds, "global_load_b32");
            assert_eq!((fault.workgroup, fault.wave, fault.lanes), ([1, 0, 0], 1, 1 << 31));
            assert!(fault.detail.contains("0 bytes past the end of \"buffer\" (512 bytes"), "{fault}");
        }
        let fault = run(checks, "store_past_the_end", 1, &[Written(256)]).unwrap_err();
        assert_found(&fault, "store_past_the_end", Kind::OutOfBounds, "global_store_b32");
        let fault = run(checks, "lds_past_the_end", 1, &[Written(256), Number(1000)]).unwrap_err();
        assert_found(&fault, "lds_past_the_end", Kind::OutOfBounds, "ds_load_b32");
    }
}

#[test]
fn misaligned_accesses_are_found() {
    let given = |offset| [Written(512), Written(256), Number(offset)];
    let fault = run(Checks::ALL, "misaligned", 1, &given(2)).unwrap_err();
    assert_found(&fault, "misaligned", Kind::Misaligned, "global_load_b32");
    assert_eq!(fault.lanes, u32::MAX);
    assert!(run(Checks::ALL, "misaligned", 1, &given(4)).is_ok());
    // The device itself can do it.
    assert!(run(Checks::NONE, "misaligned", 1, &given(1)).is_ok());
    let fault = run(Checks::ALL, "lds_misaligned", 1, &[Written(256), Number(3)]).unwrap_err();
    assert_found(&fault, "lds_misaligned", Kind::Misaligned, "ds_load_b32");
}

#[test]
fn traps_and_endless_kernels_end() {
    let fault = run(Checks::NONE, "trapped", 1, &[]).unwrap_err();
    assert_found(&fault, "trapped", Kind::Trap, "s_trap");
    let fault = run(Checks::NONE, "endless", 1, &[Written(4)]).unwrap_err();
    assert_eq!(fault.kind, Kind::Hang, "{fault}");
    let words = run(Checks::ALL, "stuck_barrier", 1, &[Written(256)]).unwrap();
    assert_eq!(words[..], [[0; 32], [1; 32]].concat());
}

#[test]
fn shapes_and_arguments_that_do_not_fit_are_refused() {
    let mut device = device(Checks::NONE);
    let module = device.load(CodeObject::read(kernels::FAULTS).unwrap()).unwrap();
    let out = device.allocate(4, "out").unwrap();
    let mut refused = |kernel: &str, grid, block, args: &[Arg], lds, part: &str| {
        let launch = Launch { grid, block, args, dynamic_lds: lds };
        let error = device.launch(&module, kernel, &launch).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    let one = [Arg::Pointer(out)];
    refused("nothing", [1; 3], [64, 1, 1], &one, 0, "no kernel \"nothing\"; there are: lds_race");
    refused("lds_race", [1; 3], [64, 1, 1], &[], 0, "takes 1 arguments, 0 were given");
    refused("lds_race", [1; 3], [64, 1, 1], &[Arg::U32(1)], 0, "argument 0");
    refused("lds_race", [1; 3], [512, 1, 1], &one, 0, "has 512 work-items: 1 to 256");
    refused("lds_race", [1; 3], [0, 1, 1], &one, 0, "has 0 work-items");
    refused("lds_race", [0, 1, 1], [64, 1, 1], &one, 0, "grid");
    refused("lds_race", [1; 3], [64, 1, 1], &one, 65536, "LDS");
}
