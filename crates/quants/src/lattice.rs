//! The search for grid points: what [`crate::search`] does for single values, for types whose codes name 4 or 8 values at once.
//!
//! At a given scale the best point for a handful of values is the nearest of the grid, but the grids are too large to
//! look through for each scale that is tried. So every way of rounding the values to the grid's levels has a short list
//! of the points next to it, made once, and only those are compared, with the weights.

use crate::search::{self, Best, Fit, FitSums, inverse};

/// Points in each list. Twice as many lower the error by less than 0.1%.
const NEAR: usize = 8;

/// Points next to a place, turned so that coordinate i of all lies side by side.
struct Near<const D: usize> {
    codes: [u16; NEAR],
    points: [[i8; NEAR]; D],
}

/// A grid with its lists. Its points have `D` coordinates, of `GAPS + 1` levels.
pub(crate) struct Lattice<const D: usize, const GAPS: usize> {
    /// Between neighbouring levels.
    bounds: [f32; GAPS],
    /// By the number whose digits (lowest first, base: count of levels) are the levels that the values round to.
    near: Vec<Near<D>>,
}

/// A point of a grid with its distance, squared and weighted, from what was looked for.
#[derive(Clone, Copy)]
struct Found<const D: usize> {
    distance: f32,
    code: u16,
    point: [f32; D],
}

impl<const D: usize, const GAPS: usize> Lattice<D, GAPS> {
    /// From points whose coordinates are among `levels`, which ascend, all multiplied by `unit`.
    pub(crate) fn new(points: &[[i8; D]], levels: &[i8], unit: i8) -> Self {
        let base = GAPS + 1;
        assert_eq!(levels.len(), base);
        let near = |number: usize| {
            let place = std::array::from_fn::<i32, D, _>(|i| i32::from(levels[number / base.pow(i as u32) % base]));
            // Ascending by distance; of the last of these a nearer point takes the place.
            let mut list = [(i32::MAX, 0); NEAR];
            for (code, point) in points.iter().enumerate() {
                let distance = place.iter().zip(point).map(|(a, b)| (a - i32::from(*b)).pow(2)).sum::<i32>();
                if distance < list[NEAR - 1].0 {
                    let at = list.partition_point(|l| l.0 <= distance);
                    list[at..].rotate_right(1);
                    list[at] = (distance, code);
                }
            }
            Near { codes: list.map(|l| l.1 as u16), points: std::array::from_fn(|i| list.map(|l| points[l.1][i] * unit)) }
        };
        Self {
            bounds: std::array::from_fn(|i| 0.5 * f32::from(unit) * (f32::from(levels[i]) + f32::from(levels[i + 1]))),
            near: (0..base.pow(D as u32)).map(near).collect(),
        }
    }

    /// Points near `t`.
    #[inline(always)]
    fn near(&self, t: &[f32; D]) -> &Near<D> {
        let mut levels = [0i32; D];
        for bound in &self.bounds {
            for (level, t) in levels.iter_mut().zip(t) {
                *level += i32::from(t > bound);
            }
        }
        &self.near[levels.iter().rev().fold(0, |number, level| number * (GAPS as i32 + 1) + level) as usize]
    }

    /// The best point for `t` with weights `w`. With `flip`, `t` are sizes and one value must have the wrong sign: then
    /// also the best point for that, and which value it is.
    #[inline(always)]
    fn nearest(&self, t: &[f32; D], w: &[f32; D], flip: bool) -> (Found<D>, Option<(Found<D>, usize)>) {
        let near = self.near(t);
        let mut distances = [0.0; NEAR];
        for i in 0..D {
            for (distance, p) in distances.iter_mut().zip(&near.points[i]) {
                let r = t[i] - f32::from(*p);
                *distance += w[i] * r * r;
            }
        }
        let nearest = near.least(&distances);
        if !flip {
            return (nearest, None);
        }
        // (t + p)^2 - (t - p)^2 = 4 t p.
        let mut costs = [f32::INFINITY; NEAR];
        for i in 0..D {
            let wt = 4.0 * w[i] * t[i];
            for (cost, p) in costs.iter_mut().zip(&near.points[i]) {
                let c = wt * f32::from(*p);
                *cost = if c < *cost { c } else { *cost };
            }
        }
        for (distance, cost) in distances.iter_mut().zip(&costs) {
            *distance += cost;
        }
        let flipped = near.least(&distances);
        let cost = |i: usize| w[i] * t[i] * flipped.point[i];
        let which = (1..D).fold(0, |which, i| if cost(i) < cost(which) { i } else { which });
        (nearest, Some((flipped, which)))
    }
}

impl<const D: usize> Near<D> {
    /// The first point with the least distance.
    #[inline(always)]
    fn least(&self, distances: &[f32; NEAR]) -> Found<D> {
        let mut best = (distances[0], 0);
        for (k, distance) in distances.iter().enumerate() {
            best = if *distance < best.0 { (*distance, k) } else { best };
        }
        let (distance, k) = best;
        Found { distance, code: self.codes[k], point: std::array::from_fn(|i| f32::from(self.points[i][k])) }
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
    pub(crate) q: [f32; 8],
}

/// A grid whose points hold sizes, with signs of their own.
pub(crate) struct Signed<const D: usize, const GAPS: usize> {
    pub(crate) lattice: Lattice<D, GAPS>,
    /// Whether the number of negative signs among 8 values must be even.
    pub(crate) even: bool,
}

impl<const D: usize, const GAPS: usize> Signed<D, GAPS> {
    /// The best points and signs for 8 values at scale `s`, which is not negative.
    #[inline(always)]
    pub(crate) fn octet(&self, x: &[f32; 8], w: &[f32; 8], s: f32) -> Octet {
        let inverse = inverse(s);
        let t = x.map(|x| x.abs() * inverse);
        let mut signs = x.iter().enumerate().fold(0, |signs, (i, x)| signs | u8::from(*x < 0.0) << i);
        let flip = self.even && !signs.count_ones().is_multiple_of(2);
        let mut codes = [0; 2];
        let mut q = [0.0; 8];
        let mut cheapest = (f32::INFINITY, 0, None);
        let parts = t.as_chunks::<D>().0.iter().zip(w.as_chunks::<D>().0).zip(q.as_chunks_mut::<D>().0);
        for (p, ((t, w), q)) in parts.enumerate() {
            let (nearest, flipped) = self.lattice.nearest(t, w, flip);
            (codes[p], *q) = (nearest.code, nearest.point);
            if let Some((found, which)) = flipped
                && found.distance - nearest.distance < cheapest.0
            {
                cheapest = (found.distance - nearest.distance, p, Some((found, which)));
            }
        }
        if let (_, p, Some((found, which))) = cheapest {
            codes[p] = found.code;
            q[D * p..][..D].copy_from_slice(&found.point);
            signs ^= 1 << (D * p + which);
        }
        for (i, q) in q.iter_mut().enumerate() {
            *q = if signs >> i & 1 == 1 { -*q } else { *q };
        }
        Octet { codes, signs, q }
    }

    /// How scale `s` fits a group.
    pub(crate) fn fit(&self, x: &[f32], w: &[f32], s: f32) -> Fit {
        let mut sums = FitSums::default();
        for (x, w) in x.as_chunks::<8>().0.iter().zip(w.as_chunks::<8>().0) {
            sums.add(x, w, s, &self.octet(x, w, s).q);
        }
        sums.fit()
    }
}

/// The best scale of a group whose points go up to `end`, with levels about `step` apart.
pub(crate) fn best_scale(x: &[f32], end: f32, step: f32, fit: impl Fn(f32) -> Fit) -> f32 {
    let mut best = Best::new(|s| s);
    // With many points a few starts find what many would.
    best.scan(search::peak(x).abs(), end, step, 3, fit);
    best.scale
}

/// The best point for 8 values at scale `s` when all are shifted by `shift`.
#[inline(always)]
pub(crate) fn shifted_octet<const GAPS: usize>(lattice: &Lattice<8, GAPS>, x: &[f32; 8], w: &[f32; 8], s: f32, shift: f32) -> Octet {
    let inverse = inverse(s);
    let found = lattice.nearest(&x.map(|x| x * inverse - shift), w, false).0;
    Octet { codes: [found.code, 0], signs: 0, q: found.point.map(|p| p + shift) }
}
