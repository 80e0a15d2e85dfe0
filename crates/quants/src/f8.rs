//! F8_E4M3, F8_E5M2 and F8_E8M0: 8-bit floats as safetensors files hold them (OCP OFP8; NVIDIA, Arm and Intel,
//! arXiv:2209.05433; the last, a scale, from OCP Microscaling Formats 1.0).
//!
//! | type | sign, exponent, mantissa | bias | largest | infinity | NaN |
//! |---|---|---|---|---|---|
//! | F8_E4M3 (`fn`: finite) | 1, 4, 3 | 7 | 448 | none | 0x7f, 0xff |
//! | F8_E5M2 | 1, 5, 2 | 15 | 57344 | 0x7c, 0xfc | above them |
//! | F8_E8M0 (powers of two) | 0, 8, 0 | 127 | 2^127 | none | 0xff |
//!
//! GGUF has no ids for them.

use crate::{TypeInfo, WeightType};
use half::f16;

/// 8-bit floats with 3 bits of mantissa.
pub const F8_E4M3: WeightType = WeightType::new(&E4M3_INFO);
/// 8-bit floats with 2 bits of mantissa: the upper half of a binary16.
pub const F8_E5M2: WeightType = WeightType::new(&E5M2_INFO);
/// Powers of two, `2^(code - 127)`: scales.
pub const F8_E8M0: WeightType = WeightType::new(&E8M0_INFO);

static E4M3_INFO: TypeInfo = info("F8_E4M3", |blocks, out| decode(&E4M3, blocks, out));
static E5M2_INFO: TypeInfo = info("F8_E5M2", |blocks, out| {
    for (b, o) in blocks.iter().zip(out) {
        *o = f16::from_bits(u16::from(*b) << 8).to_f32();
    }
});
static E8M0_INFO: TypeInfo = info("F8_E8M0", |blocks, out| {
    for (b, o) in blocks.iter().zip(out) {
        *o = match *b {
            0xff => f32::NAN,
            // 2^-127 is below the normal numbers of f32.
            0 => f32::from_bits(1 << 22),
            code => f32::from_bits(u32::from(code) << 23),
        };
    }
});

const fn info(name: &'static str, decode: fn(&[u8], &mut [f32])) -> TypeInfo {
    TypeInfo { name, ggml_id: None, values: 1, bytes: 1, header: 0, decode, encode: None, codes: None }
}

/// The value of every E4M3 code.
static E4M3: [f32; 256] = {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        table[code] = e4m3(code as u8);
        code += 1;
    }
    table
};

/// The value of an E4M3 code.
pub(crate) const fn e4m3(code: u8) -> f32 {
    let (exponent, mantissa) = (code >> 3 & 15, code & 7);
    let size = match (exponent, mantissa) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa as f32 / 512.0,
        // 2^(exponent - 7), put together as bits.
        _ => (1.0 + mantissa as f32 / 8.0) * f32::from_bits((exponent as u32 + 120) << 23),
    };
    if code >> 7 == 1 { -size } else { size }
}

fn decode(table: &[f32; 256], blocks: &[u8], out: &mut [f32]) {
    for (b, o) in blocks.iter().zip(out) {
        *o = table[usize::from(*b)];
    }
}
