//! Scales for groups of values: the search that all encoders share.
//!
//! A group `x` with weights `w` is stored as codes `q` and a scale `s` (and perhaps an offset `o`), and the encoder wants
//! the weighted squared error `sum w (x - s q - o)^2` small. For fixed codes the best `s` and `o` follow from linear
//! least squares; for a fixed scale the best codes are the nearest levels; what makes it hard is that both hang
//! together. So: start from many scales, improve each by alternating the two steps (Lloyd, "Least squares
//! quantization in PCM", 1982), and keep the best.
//!
//! All sums are of residuals, so that errors far below the values themselves do not drown in rounding.

use half::f16;

/// The values that a code can take before scaling.
pub(crate) trait Levels {
    /// The lowest level.
    const LOWEST: f32;
    /// The highest level.
    const HIGHEST: f32;
    /// The distance between levels near the ends.
    const STEP: f32 = 1.0;
    /// The level nearest to `t`.
    fn nearest(t: f32) -> f32;
}

/// The whole numbers from `LOW` to `HIGH`.
pub(crate) struct Whole<const LOW: i32, const HIGH: i32>;

impl<const LOW: i32, const HIGH: i32> Levels for Whole<LOW, HIGH> {
    const LOWEST: f32 = LOW as f32;
    const HIGHEST: f32 = HIGH as f32;

    #[inline(always)]
    fn nearest(t: f32) -> f32 {
        round(clamp(t, Self::LOWEST, Self::HIGHEST))
    }
}

/// Levels that are listed, in ascending order.
pub(crate) struct Ladder<const N: usize> {
    pub(crate) levels: [i8; N],
}

impl<const N: usize> Ladder<N> {
    /// The level nearest to `t`: one comparison per gap, no branch.
    #[inline(always)]
    pub(crate) fn nearest(&self, t: f32) -> f32 {
        let mut level = f32::from(self.levels[0]);
        for pair in self.levels.windows(2) {
            let (below, above) = (f32::from(pair[0]), f32::from(pair[1]));
            level += if t > 0.5 * (below + above) { above - below } else { 0.0 };
        }
        level
    }
}

/// The place of each level in a table of what codes mean; levels index it as `level as u8`. The first code wins where two mean the same.
pub(crate) const fn places(table: &[i8; 16]) -> [u8; 256] {
    let mut out = [0; 256];
    let mut code = 16;
    while code > 0 {
        code -= 1;
        out[table[code] as u8 as usize] = code as u8;
    }
    out
}

/// Rounds to the nearest whole number: a number of this size has no bits left for a fraction. `|t|` must be below 2^22.
#[inline(always)]
pub(crate) fn round(t: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0;
    (t + SHIFT) - SHIFT
}

/// Unlike `f32::clamp` one minimum and one maximum instruction.
#[inline(always)]
fn clamp(t: f32, low: f32, high: f32) -> f32 {
    let t = if t > low { t } else { low };
    if t < high { t } else { high }
}

/// `1 / s`, and zero where that is no useful number.
#[inline(always)]
pub(crate) fn inverse(s: f32) -> f32 {
    if s.abs() > 1e-37 { 1.0 / s } else { 0.0 }
}

/// The nearest binary16 that is finite.
pub(crate) fn to_f16(v: f32) -> f32 {
    f16::from_f32(v.clamp(-65504.0, 65504.0)).to_f32()
}

/// How well a scale fits a group, with the nearest codes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Fit {
    /// `sum w r^2`, where `r = x - s q` is what is left over.
    pub(crate) error: f32,
    /// `sum w r q`.
    pub(crate) rq: f32,
    /// `sum w q^2`.
    pub(crate) qq: f32,
}

impl Fit {
    /// What to add to the scale, the codes kept, for the least error.
    pub(crate) fn correction(self) -> f32 {
        if self.qq > 0.0 { self.rq / self.qq } else { 0.0 }
    }

    /// The error after that.
    pub(crate) fn corrected_error(self) -> f32 {
        self.error - self.correction() * self.rq
    }
}

/// Partial sums kept side by side, so that they can be vectors.
pub(crate) const LANES: usize = 8;

/// The sums of a [`Fit`] while they grow.
#[derive(Default)]
pub(crate) struct FitSums {
    error: [f32; LANES],
    rq: [f32; LANES],
    qq: [f32; LANES],
}

impl FitSums {
    /// Adds values `x` with weights `w` that are stored as `s q`.
    #[inline(always)]
    pub(crate) fn add(&mut self, x: &[f32; LANES], w: &[f32; LANES], s: f32, q: &[f32; LANES]) {
        for i in 0..LANES {
            let r = x[i] - s * q[i];
            let wq = w[i] * q[i];
            self.error[i] += w[i] * r * r;
            self.rq[i] += wq * r;
            self.qq[i] += wq * q[i];
        }
    }

    /// The sums.
    #[inline(always)]
    pub(crate) fn fit(self) -> Fit {
        Fit { error: sum(self.error), rq: sum(self.rq), qq: sum(self.qq) }
    }
}

/// Fits the group with scale `s` and the nearest codes. The length is a multiple of 8.
#[inline(always)]
pub(crate) fn fit<L: Levels>(x: &[f32], w: &[f32], s: f32) -> Fit {
    let inverse = inverse(s);
    let mut sums = FitSums::default();
    for (x, w) in x.as_chunks::<LANES>().0.iter().zip(w.as_chunks::<LANES>().0) {
        sums.add(x, w, s, &x.map(|x| L::nearest(x * inverse)));
    }
    sums.fit()
}

/// The sum of partial sums.
pub(crate) fn sum(lanes: [f32; LANES]) -> f32 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (b + f)) + ((c + g) + (d + h))
}

/// The value that is largest in size.
pub(crate) fn peak(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |peak: f32, v| if v.abs() > peak.abs() { *v } else { peak })
}

/// The scale with the least error found.
pub(crate) fn best_scale<L: Levels>(x: &[f32], w: &[f32]) -> f32 {
    best_rounded_scale::<L>(x, w, |s| s)
}

/// The binary16 scale with the least error found.
pub(crate) fn best_f16_scale<L: Levels>(x: &[f32], w: &[f32]) -> f32 {
    let s = best_rounded_scale::<L>(x, w, to_f16);
    nearby_f16(s, |s| fit::<L>(x, w, s).error)
}

/// Scales tried per end of the levels, beside the one inside it.
const STARTS: usize = 6;

fn best_rounded_scale<L: Levels>(x: &[f32], w: &[f32], round: fn(f32) -> f32) -> f32 {
    let peak = peak(x);
    let mut best = Best::new(round);
    let fit = |s| fit::<L>(x, w, s);
    if L::HIGHEST == -L::LOWEST {
        best.scan(peak.abs(), L::HIGHEST, L::STEP, STARTS, fit);
    } else {
        best.scan(-peak, -L::LOWEST, L::STEP, STARTS, fit);
        best.scan(peak, L::HIGHEST, L::STEP, STARTS, fit);
    }
    best.scale
}

/// The binary16 near `s` that has the least error.
pub(crate) fn nearby_f16(s: f32, error: impl Fn(f32) -> f32) -> f32 {
    let middle = f16::from_f32(to_f16(s));
    let mut best = (error(middle.to_f32()), middle);
    for bits in [middle.to_bits().wrapping_sub(1), middle.to_bits().wrapping_add(1)] {
        let near = f16::from_bits(bits);
        if near.is_finite() && near.is_sign_negative() == middle.is_sign_negative() {
            let e = error(near.to_f32());
            if e < best.0 {
                best = (e, near);
            }
        }
    }
    best.1.to_f32()
}

/// The best scale so far.
pub(crate) struct Best {
    pub(crate) scale: f32,
    error: f32,
    /// To a number that can be stored.
    round: fn(f32) -> f32,
}

impl Best {
    pub(crate) fn new(round: fn(f32) -> f32) -> Self {
        Self { scale: 0.0, error: f32::INFINITY, round }
    }

    /// Tries scales that put the value `peak` near the level `end`, where levels are `step` apart: from half a step inside
    /// to well outside, which clips the value. The fewer levels there are, the more it pays to be clipped.
    pub(crate) fn scan(&mut self, peak: f32, end: f32, step: f32, starts: usize, fit: impl Fn(f32) -> Fit) {
        let steps = end / step;
        let most = (0.5 + 0.2 * steps.min(20.0)).max(3.0 - steps);
        for beyond in std::iter::once(-0.5).chain((0..starts).map(|k| most * k as f32 / (starts - 1) as f32)) {
            self.improve(peak / (end + beyond * step), &fit);
        }
    }

    /// Tries `s` and, while that looks like a new best, what least squares makes of it.
    fn improve(&mut self, s: f32, fit: impl Fn(f32) -> Fit) {
        let mut s = (self.round)(s);
        let mut last = f32::INFINITY;
        for _ in 0..8 {
            let f = fit(s);
            if f.error < self.error {
                (self.scale, self.error) = (s, f.error);
            }
            let next = (self.round)(s + f.correction());
            if next == s || f.error >= last || f.corrected_error() >= self.error {
                return;
            }
            (s, last) = (next, f.error);
        }
    }
}

/// The codes of a group: the nearest levels, as whole numbers.
pub(crate) fn codes<L: Levels, const N: usize>(x: &[f32], s: f32) -> [i8; N] {
    let inverse = inverse(s);
    let mut out = [0; N];
    for (q, x) in out.iter_mut().zip(x) {
        *q = L::nearest(x * inverse) as i8;
    }
    out
}
