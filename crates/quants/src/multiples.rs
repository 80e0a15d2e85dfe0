//! Scales that are small multiples of a unit which the block shares.
//!
//! The search of [`crate::search`], one storey higher: with the multiples fixed, the best unit follows from least
//! squares; with the unit fixed, each group tries the multiples next to its ideal scale.

use crate::search::{self, Fit, Levels, inverse, to_f16};

/// The multiples that a type can store: `first + step * code` with `low <= code <= high`.
#[derive(Clone, Copy)]
pub(crate) struct Multiples {
    pub(crate) low: i32,
    pub(crate) high: i32,
    pub(crate) first: f32,
    pub(crate) step: f32,
}

impl Multiples {
    /// Codes that are the multiples themselves.
    pub(crate) const fn whole(low: i32, high: i32) -> Self {
        Self { low, high, first: 0.0, step: 1.0 }
    }

    fn multiple(&self, code: i32) -> f32 {
        self.first + self.step * code as f32
    }

    fn code(&self, multiple: f32) -> i32 {
        (((multiple - self.first) / self.step).round() as i32).clamp(self.low, self.high)
    }
}

/// The unit, a binary16, and each group's code.
#[derive(Clone)]
pub(crate) struct Unit<const GROUPS: usize> {
    pub(crate) d: f32,
    pub(crate) codes: [i32; GROUPS],
    multiples: Multiples,
}

impl<const GROUPS: usize> Unit<GROUPS> {
    /// The scale of a group.
    pub(crate) fn scale(&self, g: usize) -> f32 {
        self.d * self.multiples.multiple(self.codes[g])
    }
}

/// The unit and codes with the least error found for a block whose `GROUPS` groups have `SIZE` values each.
///
/// `ideal(x, w)` finds the best scale of a group by itself; `fit(x, w, s)` tells how scale `s` fits a group.
pub(crate) fn best_unit<const GROUPS: usize, const SIZE: usize>(
    x: &[f32; 256],
    w: &[f32; 256],
    multiples: Multiples,
    ideal: impl Fn(&[f32; SIZE], &[f32; SIZE]) -> f32,
    fit: impl Fn(&[f32; SIZE], &[f32; SIZE], f32) -> Fit,
) -> Unit<GROUPS> {
    const { assert!(GROUPS * SIZE == 256) };
    let (x, w) = (x.as_chunks::<SIZE>().0, w.as_chunks::<SIZE>().0);
    let ideal = std::array::from_fn(|g| ideal(&x[g], &w[g]));
    let fit = |g: usize, s: f32| fit(&x[g], &w[g], s);
    let peak = search::peak(&ideal);
    let mut best = (f32::INFINITY, Unit { d: 0.0, codes: [multiples.low.max(0); GROUPS], multiples });
    if peak == 0.0 {
        return best.1;
    }
    // The largest scale takes one of the last few multiples.
    for end in [multiples.high, multiples.low] {
        if end != 0 {
            for inside in 0..3 {
                let d = peak / multiples.multiple(end - inside * end.signum());
                let d = to_f16(d);
                let codes = ideal.map(|s| multiples.code(s * inverse(d)));
                descend(&mut best, Unit { d, codes, multiples }, 2, 0, &fit);
            }
        }
    }
    // From the best of these on, codes may move.
    let start = best.1.clone();
    descend(&mut best, start, 3, 1, &fit);
    best.1
}

/// [`best_unit`] for codes of single values.
pub(crate) fn best_scales<L: Levels, const GROUPS: usize, const SIZE: usize>(
    x: &[f32; 256],
    w: &[f32; 256],
    multiples: Multiples,
) -> Unit<GROUPS> {
    best_unit::<GROUPS, SIZE>(x, w, multiples, |x, w| search::best_scale::<L>(x, w), |x, w, s| search::fit::<L>(x, w, s))
}

/// The codes of such a block.
pub(crate) fn codes<L: Levels, const GROUPS: usize, const SIZE: usize>(x: &[f32; 256], unit: &Unit<GROUPS>) -> [i8; 256] {
    let mut out = [0; 256];
    for (g, (x, out)) in x.as_chunks::<SIZE>().0.iter().zip(out.as_chunks_mut::<SIZE>().0).enumerate() {
        *out = search::codes::<L, SIZE>(x, unit.scale(g));
    }
    out
}

/// Alternates between codes, which move by up to `reach`, and the unit, and keeps what is best.
fn descend<const GROUPS: usize>(
    best: &mut (f32, Unit<GROUPS>),
    mut unit: Unit<GROUPS>,
    steps: usize,
    reach: i32,
    fit: &impl Fn(usize, f32) -> Fit,
) {
    let multiples = unit.multiples;
    for _ in 0..steps {
        let (mut total, mut rq, mut qq) = (0.0, 0.0, 0.0);
        for (g, code) in unit.codes.iter_mut().enumerate() {
            let mut least = (f32::INFINITY, *code, Fit::default());
            for near in (*code - reach).max(multiples.low)..=(*code + reach).min(multiples.high) {
                let f = fit(g, unit.d * multiples.multiple(near));
                if f.error < least.0 {
                    least = (f.error, near, f);
                }
            }
            *code = least.1;
            let multiple = multiples.multiple(*code);
            total += least.0;
            rq += multiple * least.2.rq;
            qq += multiple * multiple * least.2.qq;
        }
        if total < best.0 {
            *best = (total, unit.clone());
        }
        let next = to_f16(unit.d + if qq > 0.0 { rq / qq } else { 0.0 });
        if next == unit.d || multiples.low == 0 && next < 0.0 {
            return;
        }
        unit.d = next;
    }
}
