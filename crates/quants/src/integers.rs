//! I8, I16, I32 and I64: little-endian integers. They carry tables rather than weights; as f32, the two widest round.

use crate::{TypeInfo, WeightType};

/// Signed bytes.
pub const I8: WeightType = WeightType::new(&INFO_8);
/// Signed 16-bit integers.
pub const I16: WeightType = WeightType::new(&INFO_16);
/// Signed 32-bit integers.
pub const I32: WeightType = WeightType::new(&INFO_32);
/// Signed 64-bit integers.
pub const I64: WeightType = WeightType::new(&INFO_64);

static INFO_8: TypeInfo = info("I8", 24, 1, |b, o| decode(b, o, |b: &[u8; 1]| b[0] as i8 as f32));
static INFO_16: TypeInfo = info("I16", 25, 2, |b, o| decode(b, o, |b| i16::from_le_bytes(*b) as f32));
static INFO_32: TypeInfo = info("I32", 26, 4, |b, o| decode(b, o, |b| i32::from_le_bytes(*b) as f32));
static INFO_64: TypeInfo = info("I64", 27, 8, |b, o| decode(b, o, |b| i64::from_le_bytes(*b) as f32));

const fn info(name: &'static str, id: u32, bytes: usize, decode: fn(&[u8], &mut [f32])) -> TypeInfo {
    TypeInfo { name, ggml_id: Some(id), values: 1, bytes, decode, encode: None, codes: None }
}

fn decode<const BYTES: usize>(blocks: &[u8], out: &mut [f32], value: impl Fn(&[u8; BYTES]) -> f32) {
    for (b, o) in blocks.as_chunks::<BYTES>().0.iter().zip(out) {
        *o = value(b);
    }
}
