//! Q8_KV (ik_llama.cpp): values of 8 bits with one scale per row. Made for caches of keys and values; files may hold it too.
//!
//! | bytes of a row | field |
//! |---|---|
//! | 0..4 | `d`: f32 |
//! | 4..8 | the sum of all `q`: i32; only products need it |
//! | 8.. | `q`: i8 |
//!
//! `w = d * q`. Layout: `dequantize_row_q8_KV` in ik_llama.cpp's `iqk_quantize.cpp`.

use crate::WeightType;
use crate::block::{self, RowBlock, f32_at};
use crate::codes::Codes;

/// 8-bit values, symmetric, with a scale for the row.
pub const Q8_KV: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::row_info::<Layout, 32, 32, 8>("Q8_KV", Some(151));

struct Layout;

impl RowBlock<32, 32, 8> for Layout {
    const GROUP: usize = 32;

    fn split(header: &[u8; 8], b: &[u8; 32], out: &mut Codes) {
        out.scales[0] = f32_at(header, 0);
        for (q, b) in out.codes.iter_mut().zip(b) {
            *q = *b as i8;
        }
    }
}
