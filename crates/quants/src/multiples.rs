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
}

/// The unit and codes with the least error found. `ideal` holds each group's best scale by itself; `fit(g, s)` tells how
/// scale `s` fits group g.
pub(crate) fn best_unit<const GROUPS: usize>(ideal: &[f32; GROUPS], multiples: Multiples, fit: impl Fn(usize, f32) -> Fit) -> Unit<GROUPS> {
    let peak = search::peak(ideal);
    let mut best = (f32::INFINITY, Unit { d: 0.0, codes: [0; GROUPS] });
    if peak == 0.0 {
        return best.1;
    }
    let signed = multiples.low < 0;
    for end in [multiples.high, multiples.low] {
        if end <= 0 && !signed {
            continue;
        }
        for inside in [0, 1, 2] {
            let d = peak / multiples.multiple(end - inside * end.signum());
            descend(&mut best, to_f16(d), ideal, multiples, &fit);
        }
    }
    best.1
}

/// Alternates between codes and unit from `d` on, and keeps what is best.
fn descend<const GROUPS: usize>(
    best: &mut (f32, Unit<GROUPS>),
    d: f32,
    ideal: &[f32; GROUPS],
    multiples: Multiples,
    fit: &impl Fn(usize, f32) -> Fit,
) {
    let mut unit = Unit { d, codes: [0; GROUPS] };
    for (code, s) in unit.codes.iter_mut().zip(ideal) {
        *code = multiples.code(s * inverse(d));
    }
    for _ in 0..3 {
        let (mut total, mut rq, mut qq) = (0.0, 0.0, 0.0);
        for (g, code) in unit.codes.iter_mut().enumerate() {
            let mut least = (f32::INFINITY, *code, Fit::default());
            for near in (*code - 1).max(multiples.low)..=(*code + 1).min(multiples.high) {
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
        if next == unit.d || total > 1.05 * best.0 {
            return;
        }
        unit.d = next;
    }
}

/// [`best_unit`] for a block of 256 scalar codes in `GROUPS` groups of `SIZE`.
pub(crate) fn best_scales<L: Levels, const GROUPS: usize, const SIZE: usize>(
    x: &[f32; 256],
    w: &[f32; 256],
    multiples: Multiples,
) -> Unit<GROUPS> {
    let (x, w) = (x.as_chunks::<SIZE>().0, w.as_chunks::<SIZE>().0);
    let mut ideal = [0.0; GROUPS];
    for (g, s) in ideal.iter_mut().enumerate() {
        *s = search::best_scale::<L>(&x[g], &w[g]);
    }
    best_unit(&ideal, multiples, |g, s| search::fit::<L>(&x[g], &w[g], s))
}

/// The codes of such a block; multiples are the unit's codes themselves.
pub(crate) fn codes<L: Levels, const GROUPS: usize, const SIZE: usize>(x: &[f32; 256], unit: &Unit<GROUPS>) -> [i8; 256] {
    let mut out = [0; 256];
    for (g, (x, out)) in x.as_chunks::<SIZE>().0.iter().zip(out.as_chunks_mut::<SIZE>().0).enumerate() {
        *out = search::codes::<L, SIZE>(x, unit.d * unit.codes[g] as f32);
    }
    out
}
