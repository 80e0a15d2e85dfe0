//! Weights per second of a Q4_0 matrix-vector product, for each instruction-set level of the host.
//!
//! `cargo bench -p rdna`; `RDNA_THREADS` spreads workgroups over threads.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use rdna::{Arg, Checks, CodeObject, Device, Launch, Options, isa::Level};
use std::time::Instant;

const ROWS: u32 = 2048;
const BLOCKS: u32 = 128;

fn main() {
    let threads = std::env::var("RDNA_THREADS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for level in Level::available() {
        let mut best = f64::MAX;
        let mut device = Device::new(Options { threads, level, checks: Checks::NONE, ..Options::default() });
        let object = CodeObject::read(include_bytes!("../tests/data/matvec.co")).unwrap();
        let module = device.load(object).unwrap();
        let blocks = u64::from(ROWS * BLOCKS);
        let codes = device.upload(&vec![0x5a; blocks as usize * 16], "codes").unwrap();
        let scales = device.upload(&[0x00, 0x3c].repeat(blocks as usize), "scales").unwrap();
        let x = device.upload(&vec![3; BLOCKS as usize * 32], "x").unwrap();
        let x_scales = device.upload(&vec![0; BLOCKS as usize * 8], "x scales").unwrap();
        let y = device.allocate(u64::from(ROWS) * 4, "y").unwrap();
        let args = [Arg::Pointer(codes), Arg::Pointer(scales), Arg::Pointer(x), Arg::Pointer(x_scales), Arg::Pointer(y), Arg::U32(BLOCKS)];
        let launch = Launch { grid: [ROWS / 4, 1, 1], block: [128, 1, 1], args: &args, dynamic_lds: 0 };
        let mut instructions = 0;
        for _ in 0..9 {
            let start = Instant::now();
            instructions = device.launch(&module, "matvec_q4_0", &launch).unwrap().instructions;
            best = best.min(start.elapsed().as_secs_f64());
        }
        let weights = blocks as f64 * 32.0;
        println!(
            "{level:?}, {threads} threads: {:.2} G weights/s, {:.1} M wave instructions/s",
            weights / best / 1e9,
            instructions as f64 / best / 1e6
        );
    }
}
