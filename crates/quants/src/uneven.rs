//! Levels that are not evenly spaced, and how the IQ_K and IQ_KS types of ik_llama.cpp store which is meant.
//!
//! A group of values uses the levels as they are or all shifted up by the same number, which a bit tells. Codes lie in planes
//! (see `bits`); one of 3, 5 or 6 bits is split over two.

use crate::codes::Codes;

/// Levels, lowest first, and by how much the other choice is higher.
pub(crate) struct Uneven<const N: usize> {
    pub(crate) levels: [i8; N],
    pub(crate) shift: i8,
}

/// `iq2nl_values` in ik_llama.cpp's `ggml-common.h`, as all of these.
pub(crate) static TWO: Uneven<4> = Uneven { levels: [-31, -13, 1, 17], shift: 5 };
/// `iq3nl_values`.
pub(crate) static THREE: Uneven<8> = Uneven { levels: [-63, -40, -23, -10, 1, 13, 28, 47], shift: 4 };
/// `iq4k_values`.
pub(crate) static FOUR: Uneven<16> = Uneven { levels: crate::iq4::VALUES, shift: 4 };
/// `iq5nl_values`.
pub(crate) static FIVE: Uneven<32> = Uneven {
    levels: [
        -126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6, //
        -1, 5, 11, 17, 23, 29, 36, 43, 51, 59, 68, 77, 87, 97, 109, 121,
    ],
    shift: 2,
};
/// `iq6nl_values`.
pub(crate) static SIX: Uneven<64> = Uneven {
    levels: [
        -127, -121, -115, -109, -104, -98, -93, -88, -84, -79, -74, -70, -66, -62, -58, -54, //
        -51, -47, -44, -40, -37, -34, -31, -28, -25, -22, -19, -16, -13, -11, -8, -5, //
        -2, 0, 3, 6, 9, 12, 14, 17, 20, 23, 27, 30, 33, 36, 40, 44, //
        47, 51, 55, 59, 63, 68, 72, 77, 82, 87, 92, 98, 103, 109, 115, 121,
    ],
    shift: 1,
};

impl<const N: usize> Uneven<N> {
    /// Fills 256 values in groups of `GROUP`: `code(i)`, below `N`, is that of value i; `group(g)` are the scale of group g and whether
    /// its levels are shifted.
    pub(crate) fn split<const GROUP: usize>(&self, code: impl Fn(usize) -> u8, group: impl Fn(usize) -> (f32, bool), out: &mut Codes) {
        for (g, codes) in out.codes.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
            let (scale, shifted) = group(g);
            out.scales[g] = scale;
            let shift = if shifted { self.shift } else { 0 };
            for (i, q) in codes.iter_mut().enumerate() {
                *q = self.levels[usize::from(code(g * GROUP + i))] + shift;
            }
        }
    }
}
