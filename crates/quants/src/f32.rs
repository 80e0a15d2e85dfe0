//! F32: IEEE 754 binary32, little endian.

use crate::{TypeInfo, WeightType};

/// IEEE 754 binary32.
pub const F32: WeightType = WeightType::new(&INFO);

static INFO: TypeInfo =
    TypeInfo { name: "F32", ggml_id: Some(0), values: 1, bytes: 4, header: 0, decode, encode: Some(encode), codes: None };

fn decode(blocks: &[u8], out: &mut [f32]) {
    for (b, o) in blocks.as_chunks::<4>().0.iter().zip(out) {
        *o = f32::from_le_bytes(*b);
    }
}

fn encode(row: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
    for (v, o) in row.iter().zip(out.as_chunks_mut::<4>().0) {
        *o = v.to_le_bytes();
    }
}
