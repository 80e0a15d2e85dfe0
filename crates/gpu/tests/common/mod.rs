//! A device in software with the code objects, and what tests compute with.
#![allow(dead_code, unused_imports, clippy::unwrap_used)] // not all tests use all of it

pub(crate) mod oracle;
#[path = "../../../rdna/tests/common/random.rs"]
mod random;

pub(crate) use random::Random;

use half::f16;
use onebit_gpu::kernels::object;
use onebit_quants::WeightType;
use rdna::{Arg, Checks, CodeObject, Device, Launch, LaunchError, Module, Options, Stats};
use std::collections::HashMap;

impl Random {
    /// In [-1, 1), more often near 0.
    pub(crate) fn number(&mut self) -> f32 {
        let mut one = || (self.word() >> 8) as f32 / (1 << 23) as f32 - 1.0;
        one() * one()
    }

    pub(crate) fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.number()).collect()
    }
}

/// The device, its loaded code objects, and every argument that was made.
pub(crate) struct Gpu {
    pub(crate) device: Device,
    modules: HashMap<String, Module>,
}

impl Gpu {
    /// With all checks: races, reads of what nothing wrote, misaligned accesses.
    pub(crate) fn checked() -> Self {
        Self::new(Checks::ALL)
    }

    pub(crate) fn new(checks: Checks) -> Self {
        let device = Device::new(Options { checks, max_instructions: 2_000_000_000, ..Options::default() });
        Self { device, modules: HashMap::new() }
    }

    /// A buffer with these bytes; one byte at least, so that there is an address.
    pub(crate) fn upload(&mut self, bytes: &[u8]) -> u64 {
        self.device.upload(if bytes.is_empty() { &[0; 4] } else { bytes }, "buffer").unwrap()
    }

    pub(crate) fn floats(&mut self, numbers: &[f32]) -> u64 {
        self.upload(&numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())
    }

    pub(crate) fn words(&mut self, words: &[u32]) -> u64 {
        self.upload(&words.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// A buffer that counts as not written.
    pub(crate) fn room(&mut self, bytes: usize) -> u64 {
        self.device.allocate(bytes as u64, "room").unwrap()
    }

    pub(crate) fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        self.device.read(address, &mut out).unwrap();
        out
    }

    pub(crate) fn read_floats(&self, address: u64, count: usize) -> Vec<f32> {
        self.device.read_words(address, count).unwrap().into_iter().map(f32::from_bits).collect()
    }

    /// Runs a kernel with pointers first, then 32-bit numbers, as drivers pass them.
    pub(crate) fn launch(&mut self, object_name: &str, kernel: &str, grid: [u32; 3], pointers: &[u64], numbers: &[u32]) -> Stats {
        self.try_launch(object_name, kernel, grid, pointers, numbers).unwrap_or_else(|e| panic!("{object_name}: {e}"))
    }

    pub(crate) fn try_launch(
        &mut self,
        name: &str,
        kernel: &str,
        grid: [u32; 3],
        pointers: &[u64],
        numbers: &[u32],
    ) -> Result<Stats, LaunchError> {
        if !self.modules.contains_key(name) {
            let object = CodeObject::read(object(name).unwrap_or_else(|| panic!("no object {name}")).bytes).unwrap();
            self.modules.insert(name.into(), self.device.load(object).unwrap());
        }
        let module = &self.modules[name];
        let threads = module.object().kernel(kernel).unwrap().max_workgroup;
        let args: Vec<Arg> = pointers.iter().map(|p| Arg::Pointer(*p)).chain(numbers.iter().map(|n| Arg::U32(*n))).collect();
        self.device.launch(module, kernel, &Launch { grid, block: [threads, 1, 1], args: &args, dynamic_lds: 0 })
    }
}

/// Rows of a weight type with random bytes whose values are finite and not huge, and these values.
pub(crate) fn random_rows(ty: WeightType, rows: usize, columns: usize, r: &mut Random) -> (Vec<u8>, Vec<f32>) {
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    let fine = |values: &[f32]| values.iter().all(|v| v.abs() < 1000.0);
    for _ in 0..rows {
        // A row's header is a scale in f32 or f16 by its size.
        let header: Vec<u8> = match ty.header_bytes() {
            0 => vec![],
            2 => 0x2c00u16.to_le_bytes().to_vec(),
            n => 0.0625f32.to_le_bytes().iter().copied().cycle().take(n).collect(),
        };
        let mut row = header.clone();
        for _ in 0..columns / ty.block_values() {
            let mut decoded = vec![0.0; ty.block_values()];
            let block = std::iter::repeat_with(|| (0..ty.block_bytes()).map(|_| r.word() as u8).collect::<Vec<u8>>()).find(|block| {
                ty.decode(&[&header[..], block].concat(), &mut decoded);
                fine(&decoded)
            });
            row.extend(block.unwrap());
        }
        let mut decoded = vec![0.0; columns];
        ty.decode(&row, &mut decoded);
        bytes.extend(row);
        values.extend(decoded);
    }
    (bytes, values)
}

/// Columns rounded as the kernels have them: codes, steps (scale, then sums of the first and the last 16 codes), and their values.
pub(crate) fn rounded(x: &[f32]) -> (Vec<u8>, Vec<u8>, Vec<f32>) {
    let (mut codes, mut steps, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for block in x.chunks(32) {
        let largest = block.iter().fold(0f32, |m, v| m.max(v.abs()));
        let (scale, inverse) = if largest < 1e-30 { (0.0, 0.0) } else { (largest / 127.0, 127.0 / largest) };
        let rounded: Vec<i8> = block.iter().map(|v| (v * inverse).round_ties_even() as i8).collect();
        let sum = |codes: &[i8]| codes.iter().map(|q| i16::from(*q)).sum::<i16>();
        steps.extend(scale.to_le_bytes());
        steps.extend(sum(&rounded[..16]).to_le_bytes());
        steps.extend(sum(&rounded[16..]).to_le_bytes());
        values.extend(rounded.iter().map(|q| f32::from(*q) * scale));
        codes.extend(rounded.iter().map(|q| *q as u8));
    }
    (codes, steps, values)
}

/// A block of a cache: its scale and codes, as llama.cpp's `quantize_row_q8_0_ref` and `quantize_row_q4_0_ref` have them.
fn cache_block(kind: &str, x: &[f32]) -> (f16, Vec<i8>) {
    let largest = x.iter().fold(0f32, |best, v| if v.abs() > best.abs() { *v } else { best });
    let scale = if kind == "q8" { largest.abs() / 127.0 } else { largest / -8.0 };
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let code = |v: &f32| if kind == "q8" { (v * inverse).round() as i8 } else { ((v * inverse + 8.5) as i8).min(15) - 8 };
    (f16::from_f32(scale), x.iter().map(code).collect())
}

/// The bytes that a cache has for a token's numbers: codes, then scales; and the numbers that these stand for.
pub(crate) fn stored(kind: &str, x: &[f32]) -> (Vec<u8>, Vec<u8>, Vec<f32>) {
    if kind == "f16" {
        let halves: Vec<f16> = x.iter().map(|v| f16::from_f32(*v)).collect();
        return (halves.iter().flat_map(|h| h.to_le_bytes()).collect(), vec![], halves.iter().map(|h| h.to_f32()).collect());
    }
    let (mut bytes, mut scales, mut values) = (vec![], vec![], vec![]);
    for block in x.chunks(32) {
        let (scale, codes) = cache_block(kind, block);
        scales.extend(scale.to_le_bytes());
        values.extend(codes.iter().map(|q| f32::from(*q) * scale.to_f32()));
        if kind == "q8" {
            bytes.extend(codes.iter().map(|q| *q as u8));
            continue;
        }
        for word in codes.chunks(8) {
            let nibbles = word.iter().enumerate().map(|(i, q)| ((*q + 8) as u32) << (4 * (i / 2 + i % 2 * 4)));
            bytes.extend(nibbles.fold(0, |all, n| all | n).to_le_bytes());
        }
    }
    (bytes, scales, values)
}

/// Asserts that each number is within `bound(i)` of what is wanted.
pub(crate) fn assert_near(what: &str, got: &[f32], want: &[f64], bound: impl Fn(usize) -> f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(*g) - w).abs() <= bound(i), "{what}: number {i} is {g}, want {w} within {}", bound(i));
    }
}
