//! F64: IEEE 754 binary64, little endian.

use crate::{TypeInfo, WeightType};

/// IEEE 754 binary64; decoding rounds to f32.
pub const F64: WeightType = WeightType::new(&INFO);

static INFO: TypeInfo =
    TypeInfo { name: "F64", ggml_id: Some(28), values: 1, bytes: 8, header: 0, decode, encode: Some(encode), codes: None };

fn decode(blocks: &[u8], out: &mut [f32]) {
    for (b, o) in blocks.as_chunks::<8>().0.iter().zip(out) {
        *o = f64::from_le_bytes(*b) as f32;
    }
}

fn encode(row: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
    for (v, o) in row.iter().zip(out.as_chunks_mut::<8>().0) {
        *o = f64::from(*v).to_le_bytes();
    }
}
