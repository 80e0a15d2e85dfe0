//! The search for grid points: what [`crate::search`] does for single values, for types whose codes name 4 or 8 values at once.
//!
//! At a given scale the best point for a handful of values is the nearest of the grid, but the grids are too large to
//! look through for each scale that is tried. So every way of rounding the values to the grid's levels has a short list
//! of the points next to it, made once, and only those are compared, with the weights.

use crate::search::{self, Best, Fit, inverse};

/// Points in each list. Twice as many lower the error by less than 0.1%.
const NEAR: usize = 8;

/// A grid with its lists.
pub(crate) struct Lattice<const D: usize> {
    points: Vec<[f32; D]>,
    /// Between neighbouring levels.
    bounds: Vec<f32>,
    /// By the number whose digits (lowest first, base: count of levels) are the levels that the values round to.
    near: Vec<[u16; NEAR]>,
}

impl<const D: usize> Lattice<D> {
    /// From points whose coordinates are among `levels`, which ascend, all multiplied by `unit`.
    pub(crate) fn new(points: &[[i8; D]], levels: &[i8], unit: i8) -> Self {
        let base = levels.len();
        let mut near = Vec::with_capacity(base.pow(D as u32));
        for number in 0..base.pow(D as u32) {
            let mut rest = number;
            let place = std::array::from_fn::<i32, D, _>(|_| {
                let level = levels[rest % base];
                rest /= base;
                i32::from(level)
            });
            // Ascending by distance; of the last of these a nearer point takes the place.
            let mut list = [(i32::MAX, 0); NEAR];
            for (code, point) in points.iter().enumerate() {
                let distance = place.iter().zip(point).map(|(a, b)| (a - i32::from(*b)).pow(2)).sum::<i32>();
                if distance < list[NEAR - 1].0 {
                    let at = list.partition_point(|l| l.0 <= distance);
                    list[at..].rotate_right(1);
                    list[at] = (distance, code as u16);
                }
            }
            near.push(list.map(|l| l.1));
        }
        let value = |level: i8| f32::from(level) * f32::from(unit);
        Self {
            points: points.iter().map(|p| p.map(value)).collect(),
            bounds: levels.windows(2).map(|l| 0.5 * (value(l[0]) + value(l[1]))).collect(),
            near,
        }
    }

    /// Codes of points near `t`.
    fn near(&self, t: &[f32; D]) -> &[u16; NEAR] {
        let mut levels = [0u32; D];
        for bound in &self.bounds {
            for (level, t) in levels.iter_mut().zip(t) {
                *level += u32::from(t > bound);
            }
        }
        let base = self.bounds.len() as u32 + 1;
        &self.near[levels.iter().rev().fold(0, |number, level| number * base + level) as usize]
    }

    /// The best point for `t` with weights `w`: its squared distance and its code.
    fn nearest(&self, t: &[f32; D], w: &[f32; D]) -> (f32, u16) {
        let mut best = (f32::INFINITY, 0);
        for code in self.near(t) {
            let distance = self.distance(*code, t, w);
            if distance < best.0 {
                best = (distance, *code);
            }
        }
        best
    }

    #[inline(always)]
    fn distance(&self, code: u16, t: &[f32; D], w: &[f32; D]) -> f32 {
        let point = &self.points[usize::from(code)];
        let mut parts = [0.0; 4];
        for i in 0..D {
            let r = t[i] - point[i];
            parts[i % 4] += w[i] * r * r;
        }
        (parts[0] + parts[2]) + (parts[1] + parts[3])
    }

    /// As [`Self::nearest`] for sizes `t`, when one value must have the wrong sign: also which.
    fn nearest_flipped(&self, t: &[f32; D], w: &[f32; D]) -> (f32, u16, usize) {
        let mut best = (f32::INFINITY, 0, 0);
        for code in self.near(t) {
            let distance = self.distance(*code, t, w);
            if distance >= best.0 {
                continue;
            }
            // (t + p)^2 - (t - p)^2 = 4 t p.
            let point = &self.points[usize::from(*code)];
            for i in 0..D {
                let flipped = distance + 4.0 * w[i] * t[i] * point[i];
                if flipped < best.0 {
                    best = (flipped, *code, i);
                }
            }
        }
        best
    }
}

/// What stands for 8 values.
#[derive(Clone, Copy, Default)]
pub(crate) struct Octet {
    /// Codes of the points: one, or two of four values.
    pub(crate) codes: [u16; 2],
    /// Bit i is set where value i is negative.
    pub(crate) signs: u8,
    /// The values, without the scale.
    q: [f32; 8],
}

impl Octet {
    /// How the values fit `x` at scale `s`, added to `fit`.
    fn add_to(&self, fit: &mut Fit, x: &[f32; 8], w: &[f32; 8], s: f32) {
        for i in 0..8 {
            let q = self.q[i];
            let r = x[i] - s * q;
            fit.error += w[i] * r * r;
            fit.rq += w[i] * r * q;
            fit.qq += w[i] * q * q;
        }
    }
}

/// A grid whose points hold sizes, with signs of their own.
pub(crate) struct Signed<const D: usize> {
    pub(crate) lattice: Lattice<D>,
    /// Whether the number of negative signs among 8 values must be even.
    pub(crate) even: bool,
}

impl<const D: usize> Signed<D> {
    /// The best points and signs for 8 values at scale `s`, which is not negative.
    pub(crate) fn octet(&self, x: &[f32; 8], w: &[f32; 8], s: f32) -> Octet {
        let inverse = inverse(s);
        let t = x.map(|x| x.abs() * inverse);
        let mut signs = x.iter().enumerate().fold(0, |signs, (i, x)| signs | u8::from(*x < 0.0) << i);
        let mut codes = [0; 2];
        let (t, w) = (t.as_chunks::<D>().0, w.as_chunks::<D>().0);
        let flip = self.even && !signs.count_ones().is_multiple_of(2);
        let mut cheapest = (f32::INFINITY, 0, 0, 0);
        for (p, (t, w)) in t.iter().zip(w).enumerate() {
            let (distance, code) = self.lattice.nearest(t, w);
            codes[p] = code;
            if flip {
                let (flipped, code, i) = self.lattice.nearest_flipped(t, w);
                if flipped - distance < cheapest.0 {
                    cheapest = (flipped - distance, p, code, D * p + i);
                }
            }
        }
        if flip {
            codes[cheapest.1] = cheapest.2;
            signs ^= 1 << cheapest.3;
        }
        let mut q = [0.0; 8];
        for (p, q) in q.as_chunks_mut::<D>().0.iter_mut().enumerate() {
            *q = self.lattice.points[usize::from(codes[p])];
        }
        for (i, q) in q.iter_mut().enumerate() {
            *q = if signs >> i & 1 == 1 { -*q } else { *q };
        }
        Octet { codes, signs, q }
    }

    /// How scale `s` fits a group.
    pub(crate) fn fit(&self, x: &[f32], w: &[f32], s: f32) -> Fit {
        let mut fit = Fit::default();
        for (x, w) in x.as_chunks::<8>().0.iter().zip(w.as_chunks::<8>().0) {
            self.octet(x, w, s).add_to(&mut fit, x, w, s);
        }
        fit
    }
}

/// The best scale of a group whose points go up to `end`, with levels about `step` apart.
pub(crate) fn best_scale(x: &[f32], end: f32, step: f32, fit: impl Fn(f32) -> Fit) -> f32 {
    let mut best = Best::new();
    best.scan(search::peak(x).abs(), end, step, fit);
    best.scale
}

/// The best point for 8 values at scale `s` when all are shifted by `shift`, and how it fits.
pub(crate) fn shifted_octet(lattice: &Lattice<8>, x: &[f32; 8], w: &[f32; 8], s: f32, shift: f32) -> (Octet, Fit) {
    let inverse = inverse(s);
    let (_, code) = lattice.nearest(&x.map(|x| x * inverse - shift), w);
    let octet = Octet { codes: [code, 0], signs: 0, q: lattice.points[usize::from(code)].map(|p| p + shift) };
    let mut fit = Fit::default();
    octet.add_to(&mut fit, x, w, s);
    (octet, fit)
}
