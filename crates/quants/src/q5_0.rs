//! Q5_0: 32 values of 5 bits with one scale.
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | `d`: f16 |
//! | 2..6 | `qh`: bit j is the highest bit of value j |
//! | 6..22 | `qs`: byte j holds the low bits of value j in its low and of value j + 16 in its high nibble |
//!
//! `w = d * (q - 16)`. Layout: `block_q5_0` in ggml's `ggml-common.h`.

use crate::WeightType;
use crate::block::{self, Block, EncodeBlock, f16_at, put_f16, u32_at};
use crate::codes::Codes;
use crate::search::{self, Whole};

/// 5-bit values in blocks of 32, symmetric.
pub const Q5_0: WeightType = WeightType::new(&INFO);

static INFO: crate::TypeInfo = block::info::<Layout, 32, 22>("Q5_0", Some(6), Some(block::encode::<Layout, 32, 22>));

struct Layout;

impl Block<32, 22> for Layout {
    const GROUP: usize = 32;

    fn split(b: &[u8; 22], out: &mut Codes) {
        out.scales[0] = f16_at(b, 0);
        let high = u32_at(b, 2);
        for j in 0..16 {
            let q = b[6 + j];
            out.codes[j] = (q & 15 | ((high >> j) as u8 & 1) << 4) as i8 - 16;
            out.codes[j + 16] = (q >> 4 | ((high >> (j + 16)) as u8 & 1) << 4) as i8 - 16;
        }
    }
}

type Levels = Whole<-16, 15>;

impl EncodeBlock<32, 22> for Layout {
    fn encode(x: &[f32; 32], w: &[f32; 32]) -> [u8; 22] {
        let d = search::best_f16_scale::<Levels>(x, w);
        let q = search::codes::<Levels, 32>(x, d).map(|q| (q + 16) as u8);
        let mut b = [0; 22];
        put_f16(&mut b, 0, d);
        pack(&q, &mut b[2..]);
        b
    }
}

/// Writes codes of 5 bits as Q5_0 and Q5_1 hold them: 32 high bits, then nibbles.
pub(crate) fn pack(q: &[u8; 32], b: &mut [u8]) {
    for j in 0..16 {
        b[4 + j] = q[j] & 15 | q[j + 16] << 4;
    }
    for (j, q) in q.iter().enumerate() {
        b[j / 8] |= (q >> 4) << (j % 8);
    }
}
