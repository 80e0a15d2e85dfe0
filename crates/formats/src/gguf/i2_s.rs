//! I2_S, bitnet.cpp's ternary weights: type 36, which mainline once had for something else.
//!
//! | bytes | field |
//! |---|---|
//! | 0..n / 4 | for each 128 values 32 bytes: bits 6 and 7 of byte j are value j, one added; bits 4 and 5 value 32 + j; and so on |
//! | n / 4..n / 4 + 4 | scale: f32 |
//! | to n / 4 + 32 | whatever |
//!
//! `w = trit * scale`; inputs are rounded to 8 bits, token by token. Layout: `quantize_i2_s` in `ggml-bitnet-mad.cpp` of bitnet.cpp, as
//! it is compiled for x86. Files made on ARM, or by builds without `ACT_PARALLEL`, have other orders under the same id, and nothing in
//! them tells; the published files have this one.

use crate::{
    Tensor,
    schemes::{
        matrix::{Codes, Groups, Made},
        scalars::Scalars,
    },
};

/// ggml's id.
pub(super) const ID: u32 = 36;
/// Values whose codes share bytes.
const RUN: usize = 128;
/// What follows the codes.
const TAIL: usize = 32;

/// The bytes of `values` in rows of `columns`, where that is a shape which the type has.
pub(super) fn bytes(values: usize, columns: usize) -> Option<usize> {
    if columns.is_multiple_of(RUN) { (values / 4).checked_add(TAIL) } else { None }
}

/// The tensor of these bytes, seen with `shape`.
pub(crate) fn tensor(stored: Tensor, shape: Vec<usize>) -> Tensor {
    let columns = shape.last().copied().unwrap_or(1);
    let codes = stored.values() - TAIL;
    let scale = stored.in_file().and_then(|b| b[codes..].first_chunk::<4>()).map_or(0.0, |b| f32::from_le_bytes(*b));
    let made = Made { name: stored.name().to_string(), shape, stored: vec![stored.clone()], scheme: "I2_S".into() };
    made.codes(Ternary { stored: Scalars::new(stored), scale, columns }, Groups::Even(columns), false)
}

#[derive(Debug)]
struct Ternary {
    stored: Scalars,
    scale: f32,
    columns: usize,
}

impl Codes for Ternary {
    fn codes(&self, row: usize, out: &mut [i8]) {
        let bytes = &self.stored.bytes()[row * self.columns / 4..][..self.columns / 4];
        for (run, bytes) in out.chunks_exact_mut(RUN).zip(bytes.chunks_exact(RUN / 4)) {
            for (i, q) in run.iter_mut().enumerate() {
                *q = (bytes[i % 32] >> (6 - 2 * (i / 32)) & 3) as i8 - 1;
            }
        }
    }
    fn line(&self, _: usize, _: usize) -> (f32, f32) {
        (self.scale, 0.0)
    }
    fn rounds_input(&self) -> bool {
        true
    }
}
