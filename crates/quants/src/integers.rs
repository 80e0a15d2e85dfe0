//! I8 to I64 and U8 to U64, little-endian integers, and BOOL. They carry tables, packed codes or masks rather than
//! weights; as f32, the widest round. The unsigned ones and BOOL are of safetensors; no GGUF has them.

use crate::{TypeInfo, WeightType};

/// Signed bytes.
pub const I8: WeightType = WeightType::new(&INFO_8);
/// Signed 16-bit integers.
pub const I16: WeightType = WeightType::new(&INFO_16);
/// Signed 32-bit integers.
pub const I32: WeightType = WeightType::new(&INFO_32);
/// Signed 64-bit integers.
pub const I64: WeightType = WeightType::new(&INFO_64);

/// Unsigned bytes.
pub const U8: WeightType = WeightType::new(&INFO_U8);
/// Unsigned 16-bit integers.
pub const U16: WeightType = WeightType::new(&INFO_U16);
/// Unsigned 32-bit integers.
pub const U32: WeightType = WeightType::new(&INFO_U32);
/// Unsigned 64-bit integers.
pub const U64: WeightType = WeightType::new(&INFO_U64);
/// Truth values, one byte each: 0, or anything else for true.
pub const BOOL: WeightType = WeightType::new(&INFO_BOOL);

static INFO_8: TypeInfo = info("I8", Some(24), 1, |b, o| decode(b, o, |b: &[u8; 1]| b[0] as i8 as f32));
static INFO_16: TypeInfo = info("I16", Some(25), 2, |b, o| decode(b, o, |b| i16::from_le_bytes(*b) as f32));
static INFO_32: TypeInfo = info("I32", Some(26), 4, |b, o| decode(b, o, |b| i32::from_le_bytes(*b) as f32));
static INFO_64: TypeInfo = info("I64", Some(27), 8, |b, o| decode(b, o, |b| i64::from_le_bytes(*b) as f32));
static INFO_U8: TypeInfo = info("U8", None, 1, |b, o| decode(b, o, |b: &[u8; 1]| b[0] as f32));
static INFO_U16: TypeInfo = info("U16", None, 2, |b, o| decode(b, o, |b| u16::from_le_bytes(*b) as f32));
static INFO_U32: TypeInfo = info("U32", None, 4, |b, o| decode(b, o, |b| u32::from_le_bytes(*b) as f32));
static INFO_U64: TypeInfo = info("U64", None, 8, |b, o| decode(b, o, |b| u64::from_le_bytes(*b) as f32));
static INFO_BOOL: TypeInfo = info("BOOL", None, 1, |b, o| decode(b, o, |b: &[u8; 1]| if b[0] == 0 { 0.0 } else { 1.0 }));

const fn info(name: &'static str, ggml_id: Option<u32>, bytes: usize, decode: fn(&[u8], &mut [f32])) -> TypeInfo {
    TypeInfo { name, ggml_id, values: 1, bytes, header: 0, decode, encode: None, codes: None }
}

fn decode<const BYTES: usize>(blocks: &[u8], out: &mut [f32], value: impl Fn(&[u8; BYTES]) -> f32) {
    for (b, o) in blocks.as_chunks::<BYTES>().0.iter().zip(out) {
        *o = value(b);
    }
}
