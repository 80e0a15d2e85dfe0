//! F16: IEEE 754 binary16, little endian.

use crate::{TypeInfo, WeightType};
use half::f16;

/// IEEE 754 binary16.
pub const F16: WeightType = WeightType::new(&INFO);

static INFO: TypeInfo =
    TypeInfo { name: "F16", ggml_id: Some(1), values: 1, bytes: 2, header: 0, decode, encode: Some(encode), codes: None };

fn decode(blocks: &[u8], out: &mut [f32]) {
    for (b, o) in blocks.as_chunks::<2>().0.iter().zip(out) {
        *o = f16::from_le_bytes(*b).to_f32();
    }
}

fn encode(row: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
    for (v, o) in row.iter().zip(out.as_chunks_mut::<2>().0) {
        *o = f16::from_f32(*v).to_le_bytes();
    }
}
