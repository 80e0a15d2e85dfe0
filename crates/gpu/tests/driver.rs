//! The driver of the emulator: what it refuses, and how a device that has broken down shows.

#![allow(clippy::unwrap_used)] // helpers outside of #[test] functions

use onebit_gpu::{
    driver::{Command, Driver, DriverError, Place, Sim, SimOptions},
    kernels::object,
};
use std::time::Duration;

fn sim(memory: usize) -> Sim {
    Sim::new(SimOptions { memory, ..SimOptions::default() })
}

fn at(buffer: onebit_gpu::driver::Buffer) -> Place {
    Place { buffer, offset: 0 }
}

/// `scale`: y = 3 x for `count` numbers in a buffer of 256.
fn tripled(driver: &mut Sim, count: u32) -> (Command, Place) {
    let x = driver.allocate(1024, "x").unwrap();
    let y = driver.allocate(1024, "y").unwrap();
    let bytes: Vec<u8> = (0..256u16).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    driver.write(at(x), &bytes).unwrap();
    let kernel = driver.kernel("elementwise", object("elementwise").unwrap().bytes, "scale").unwrap();
    let numbers = vec![count, 3f32.to_bits()];
    (Command::Dispatch { kernel, grid: [count.div_ceil(256), 1, 1], pointers: vec![at(x), at(y)], numbers }, at(y))
}

#[test]
fn lists_run_as_often_as_wanted() {
    let mut driver = sim(1 << 20);
    let (command, y) = tripled(&mut driver, 256);
    let copy = Command::Copy { from: y, to: Place { offset: 0, ..y }, bytes: 0 };
    let list = driver.record(&[command, copy]).unwrap();
    for _ in 0..2 {
        let ticket = driver.submit(list).unwrap();
        let times = driver.wait(ticket, Duration::from_secs(1)).unwrap();
        assert!(times.ended >= times.began);
        assert!(matches!(driver.wait(ticket, Duration::from_secs(1)), Err(DriverError::Misuse(_))), "it was waited for");
    }
    let mut out = [0; 1024];
    driver.read(y, &mut out).unwrap();
    assert_eq!(f32::from_le_bytes(out[4 * 200..4 * 201].try_into().unwrap()), 600.0);
    driver.forget(list);
    assert!(matches!(driver.submit(list), Err(DriverError::Misuse(_))));
}

#[test]
fn memory_is_counted() {
    let mut driver = sim(10_000);
    let a = driver.allocate(9000, "a").unwrap();
    let refused = driver.allocate(2000, "the cache").unwrap_err();
    assert_eq!(refused, DriverError::OutOfMemory { what: "the cache".into(), needed: 2000, available: 10_000 - 9216 });
    assert_eq!(refused.to_string(), "the cache needs 2000 bytes of device memory, but 784 are left");
    driver.free(a);
    assert!(driver.allocate(2000, "b").is_ok());
    assert!(matches!(driver.write(at(a), &[1]), Err(DriverError::Misuse(_))), "it was given back");
    assert!(matches!(driver.allocate(usize::MAX, "all"), Err(DriverError::OutOfMemory { .. })));
}

#[test]
fn code_that_is_not_for_it_is_refused() {
    let mut driver = sim(1 << 20);
    let code = object("norm").unwrap().bytes;
    // The processor in an ELF header's flags (LLVM's AMDGPU usage, "EF_AMDGPU_MACH"): 0x4a is gfx1151, 0x41 is gfx1100.
    let mut other = code.to_vec();
    assert_eq!(other[0x30], 0x4a);
    other[0x30] = 0x41;
    match driver.kernel("norm", &other, "norm") {
        Err(DriverError::Architecture { object, device, .. }) => assert_eq!((object.as_str(), device.as_str()), ("norm", "gfx1151")),
        other => panic!("{other:?}"),
    }
    for end in [0, 40, code.len() / 2, code.len() - 1] {
        assert!(
            matches!(driver.kernel("norm", &code[..end], "norm"), Err(DriverError::Code { .. } | DriverError::Architecture { .. })),
            "{end}"
        );
    }
    assert!(matches!(driver.kernel("norm", code, "nothing"), Err(DriverError::Code { why, .. }) if why.contains("round_columns")));
    assert!(driver.kernel("norm", code, "norm").is_ok());
}

/// What goes wrong is told by who waits, and by everything afterwards.
#[test]
fn a_device_that_has_broken_down_stays_so() {
    let mut lost = sim(1 << 20);
    let (command, y) = tripled(&mut lost, 100_000);
    let list = lost.record(&[command]).unwrap();
    let ticket = lost.submit(list).unwrap();
    match lost.wait(ticket, Duration::from_secs(1)) {
        Err(DriverError::Lost(why)) => assert!(why.contains("out of bounds") && why.contains("scale"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(lost.read(y, &mut [0]), Err(DriverError::Lost(_))));
    assert!(matches!(lost.submit(list), Err(DriverError::Lost(_))));

    let mut slow = Sim::new(SimOptions { memory: 1 << 20, most_instructions: 10, ..SimOptions::default() });
    let (command, _) = tripled(&mut slow, 256);
    let list = slow.record(&[command]).unwrap();
    let ticket = slow.submit(list).unwrap();
    assert!(matches!(slow.wait(ticket, Duration::from_secs(1)), Err(DriverError::Timeout(_))));
}

#[test]
fn places_outside_of_buffers_are_refused_when_recorded() {
    let mut driver = sim(1 << 20);
    let (command, y) = tripled(&mut driver, 256);
    let Command::Dispatch { kernel, grid, mut pointers, numbers } = command else { panic!() };
    pointers[1].offset = 1025;
    assert!(matches!(driver.record(&[Command::Dispatch { kernel, grid, pointers, numbers }]), Err(DriverError::Misuse(_))));
    assert!(matches!(driver.record(&[Command::Copy { from: y, to: y, bytes: 1025 }]), Err(DriverError::Misuse(_))));
}
