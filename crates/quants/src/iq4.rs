//! IQ4_NL and IQ4_XS: 4-bit codes that name one of 16 unevenly spaced values.
//!
//! IQ4_NL, 32 values, is Q4_0 with [`VALUES`] in place of `q - 8`:
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..18 | byte j holds value j in its low and value j + 16 in its high nibble |
//!
//! IQ4_XS, 256 values with a 6-bit scale per 32:
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..4 | bits 2 g and 2 g + 1 of this u16 are the high bits of scale g |
//! | 4..8 | low 4 bits of the scales, two to a byte, the even one in the low nibble |
//! | 8..136 | 8 groups of 16 bytes, each placed as in IQ4_NL |
//!
//! `w = d * (scale - 32) * VALUES[q]`. Layouts: `block_iq4_nl` and `block_iq4_xs` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16, u16_at};
use crate::codes::Codes;
use crate::multiples::{self, Multiples};
use crate::search::{self, Ladder, Levels, places};

/// Unevenly spaced 4-bit values in blocks of 32.
pub const IQ4_NL: WeightType = WeightType::new(&NL_INFO);
/// Unevenly spaced 4-bit values in blocks of 256 = 8 * 32, with scales of 6 bits.
pub const IQ4_XS: WeightType = WeightType::new(&XS_INFO);

static NL_INFO: crate::TypeInfo = block::info::<Nl, 32, 18>("IQ4_NL", Some(20), Some(block::encode::<Nl, 32, 18>));
static XS_INFO: crate::TypeInfo = block::info::<Xs, 256, 136>("IQ4_XS", Some(23), Some(block::encode::<Xs, 256, 136>));

/// What the codes mean: `kvalues_iq4nl` in ggml's `ggml-common.h`.
pub(crate) const VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

struct Nl;

impl Block<32, 18> for Nl {
    const GROUP: usize = 32;

    fn split(b: &[u8; 18], out: &mut Codes) {
        out.scales[0] = f16_at(b, 0);
        look_up(&b[2..], &mut out.codes);
    }
}

struct Xs;

impl Block<256, 136> for Xs {
    const GROUP: usize = 32;

    fn split(b: &[u8; 136], out: &mut Codes) {
        let (d, high) = (f16_at(b, 0), u16_at(b, 2));
        for g in 0..8 {
            let low = b[4 + g / 2] >> (4 * (g % 2)) & 15;
            out.scales[g] = d * f32::from((low | ((high >> (2 * g)) as u8 & 3) << 4) as i8 - 32);
        }
        look_up(&b[8..], &mut out.codes);
    }
}

fn look_up(bytes: &[u8], codes: &mut [i8]) {
    for (b, q) in bytes.as_chunks::<16>().0.iter().zip(codes.as_chunks_mut::<32>().0) {
        for j in 0..16 {
            q[j] = VALUES[usize::from(b[j] & 15)];
            q[j + 16] = VALUES[usize::from(b[j] >> 4)];
        }
    }
}

struct Uneven;

impl Levels for Uneven {
    const LOWEST: f32 = VALUES[0] as f32;
    const HIGHEST: f32 = VALUES[15] as f32;
    const STEP: f32 = 24.0;

    #[inline(always)]
    fn nearest(t: f32) -> f32 {
        const LADDER: Ladder<16> = Ladder { levels: VALUES };
        LADDER.nearest(t)
    }
}

impl EncodeBlock<32, 18> for Nl {
    fn encode(x: &[f32; 32], w: &[f32; 32]) -> [u8; 18] {
        let d = search::best_f16_scale::<Uneven>(x, w);
        let mut b = [0; 18];
        put_f16(&mut b, 0, d);
        put(&search::codes::<Uneven, 32>(x, d), &mut b[2..]);
        b
    }
}

impl EncodeBlock<256, 136> for Xs {
    fn encode(x: &[f32; 256], w: &[f32; 256]) -> [u8; 136] {
        let unit = multiples::best_scales::<Uneven, 8, 32>(x, w, Multiples::whole(-32, 31));
        let mut b = [0; 136];
        put_f16(&mut b, 0, unit.d);
        for (g, code) in unit.codes.iter().enumerate() {
            let code = (code + 32) as u8;
            b[2 + g / 4] |= (code >> 4) << (2 * (g % 4));
            b[4 + g / 2] |= (code & 15) << (4 * (g % 2));
        }
        put(&multiples::codes::<Uneven, 8, 32>(x, &unit), &mut b[8..]);
        b
    }
}

/// Writes what [`look_up`] reads.
fn put(levels: &[i8], bytes: &mut [u8]) {
    static PLACES: [u8; 256] = places(&VALUES);
    for (q, b) in levels.as_chunks::<32>().0.iter().zip(bytes.as_chunks_mut::<16>().0) {
        let place = |i: usize| PLACES[usize::from(q[i] as u8)];
        for (j, b) in b.iter_mut().enumerate() {
            *b = place(j) | place(j + 16) << 4;
        }
    }
}
