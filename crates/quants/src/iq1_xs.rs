//! IQ1_XS, IQ1_XXS and IQ1_XXXS (unsloth's fork of llama.cpp): IQ1_S with 1024, 512 and 256 of its points.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..34 | low 8 bits of the codes |
//! | 34..42, in IQ1_XS | high 2 bits of the codes, four to a byte, lowest first |
//! | 34..42, in IQ1_XXS | per 32 values a byte: four high bits of codes, and then as the next |
//! | 42..46 in IQ1_XS, 34..38 in IQ1_XXXS | per 32 values a nibble, the even one low: 3 bits of scale, and a bit set where the shift is down |
//!
//! `w = d * (2 scale + 1) * (point ± 1/8)`; in codes, eighths. Layouts: `block_iq1_xs`, `block_iq1_xxs`, `block_iq1_xxxs` in the
//! fork's `ggml-common.h` (branch iq1-narrow).

use crate::WeightType;
use crate::bits::{crumb, nibble};
use crate::block::{self, Block, f16_at};
use crate::codes::Codes;
use crate::grids;
use crate::iq1::{eighths, scale};

/// Ternary grid points of 8 values in blocks of 256, 1.4375 bits.
pub const IQ1_XS: WeightType = WeightType::new(&XS_INFO);
/// Ternary grid points of 8 values in blocks of 256, 1.3125 bits.
pub const IQ1_XXS: WeightType = WeightType::new(&XXS_INFO);
/// Ternary grid points of 8 values in blocks of 256, 1.1875 bits.
pub const IQ1_XXXS: WeightType = WeightType::new(&XXXS_INFO);

static XS_INFO: crate::TypeInfo = block::info::<Narrow, 256, 46>("IQ1_XS", Some(64), None);
static XXS_INFO: crate::TypeInfo = block::info::<Narrow, 256, 42>("IQ1_XXS", Some(65), None);
static XXXS_INFO: crate::TypeInfo = block::info::<Narrow, 256, 38>("IQ1_XXXS", Some(66), None);

struct Narrow;

/// Fills a block from its points: `high(p)` are the bits above the eighth of code p, `rest(g)` the nibble of 32 values.
fn split(b: &[u8], grid: &[u16], high: impl Fn(usize) -> u8, rest: impl Fn(usize) -> u8, out: &mut Codes) {
    let d = f16_at(b, 0);
    for (g, codes) in out.codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let rest = u16::from(rest(g));
        out.scales[g] = scale(d, rest);
        for (i, codes) in codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let p = 4 * g + i;
            *codes = eighths(grid[usize::from(u16::from_le_bytes([b[2 + p], high(p)]))], rest >> 3);
        }
    }
}

impl Block<256, 46> for Narrow {
    const GROUP: usize = 32;

    fn split(b: &[u8; 46], out: &mut Codes) {
        split(b, &grids::IQ1_XS, |p| crumb(&b[34..], p), |g| nibble(&b[42..], g), out);
    }
}

impl Block<256, 42> for Narrow {
    const GROUP: usize = 32;

    fn split(b: &[u8; 42], out: &mut Codes) {
        split(b, &grids::IQ1_XXS, |p| b[34 + p / 4] >> (p % 4) & 1, |g| b[34 + g] >> 4, out);
    }
}

impl Block<256, 38> for Narrow {
    const GROUP: usize = 32;

    fn split(b: &[u8; 38], out: &mut Codes) {
        split(b, &grids::IQ1_XXXS, |_| 0, |g| nibble(&b[34..], g), out);
    }
}
