//! Scale and offset of a group, `x ~ s q + o` with codes `0..=TOP`, and their sharing of units in a K block.
//!
//! The search is that of [`crate::search`] with one more unknown.

use crate::search::{LANES, Levels, Whole, inverse, nearby_f16, sum, to_f16};

/// How well a scale and an offset fit a group, with the nearest codes; `r = x - s q - o`.
#[derive(Clone, Copy, Default)]
struct Fit {
    /// `sum w r^2`
    error: f32,
    /// `sum w r`
    r: f32,
    /// `sum w r q`
    rq: f32,
    /// `sum w`
    w: f32,
    /// `sum w q`
    q: f32,
    /// `sum w q^2`
    qq: f32,
}

/// A scale and an offset.
pub(crate) type Line = (f32, f32);

#[inline(always)]
fn fit<L: Levels>(x: &[f32], w: &[f32], (s, o): Line) -> Fit {
    let inverse = inverse(s);
    let mut sums = [[0.0; LANES]; 6];
    for (x, w) in x.as_chunks::<LANES>().0.iter().zip(w.as_chunks::<LANES>().0) {
        for i in 0..LANES {
            let q = L::nearest((x[i] - o) * inverse);
            let r = x[i] - s * q - o;
            let (wr, wq) = (w[i] * r, w[i] * q);
            sums[0][i] += wr * r;
            sums[1][i] += wr;
            sums[2][i] += wr * q;
            sums[3][i] += w[i];
            sums[4][i] += wq;
            sums[5][i] += wq * q;
        }
    }
    let [error, r, rq, w, q, qq] = sums.map(sum);
    Fit { error, r, rq, w, q, qq }
}

impl Fit {
    /// The line with the least error for these codes: linear least squares. With `below`, offsets stay at or below zero.
    fn line(&self, (s, o): Line, below: bool) -> Line {
        let free = solve(self.qq, self.q, self.w, self.rq, self.r).map(|(ds, shift)| (s + ds, o + shift));
        match free {
            Some(line) if !(below && line.1 > 0.0) => line,
            _ if below && self.qq > 0.0 => (s + (self.rq + o * self.q) / self.qq, 0.0),
            _ => (s, o),
        }
    }
}

/// Solves `[a b; b c] (x, y) = (u, v)`, symmetric and positive, where it is not singular.
fn solve(a: f32, b: f32, c: f32, u: f32, v: f32) -> Option<(f32, f32)> {
    let [a, b, c, u, v] = [a, b, c, u, v].map(f64::from);
    let determinant = a * c - b * b;
    (determinant > 1e-9 * a * c).then(|| (((c * u - b * v) / determinant) as f32, ((a * v - b * u) / determinant) as f32))
}

/// Lowest and highest value.
fn ends(x: &[f32]) -> (f32, f32) {
    x.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
}

/// The line with the least error found. With `below`, its offset is at or below zero.
pub(crate) fn best_line<const TOP: i32>(x: &[f32], w: &[f32], below: bool) -> Line {
    let (low, high) = ends(x);
    let low = if below { low.min(0.0) } else { low };
    let range = (high - low).max(0.0);
    let mut best = (f32::INFINITY, (0.0, low));
    for extra in EXTRA {
        let s = range / (TOP as f32 + extra);
        for share in [0.0, 0.5, 1.0] {
            // How much of what is cut off is at the lower end.
            improve(&mut best, (s, low + share * extra * s), below, |line| fit::<Whole<0, TOP>>(x, w, line));
        }
    }
    best.1
}

/// How many steps more than codes have the range of the values is first taken for: more clips. One fewer makes the count
/// of steps even, so that the middle of the range is a level; weights that were ternary or 4-bit before need it.
const EXTRA: [f32; 5] = [-1.0, 0.0, 0.6, 1.4, 2.4];

/// Tries `line` and, while that looks like a new best, what least squares makes of it.
fn improve(best: &mut (f32, Line), line: Line, below: bool, fit: impl Fn(Line) -> Fit) {
    let mut line = (line.0, if below { line.1.min(0.0) } else { line.1 });
    let mut last = f32::INFINITY;
    for _ in 0..8 {
        let f = fit(line);
        if f.error < best.0 {
            *best = (f.error, line);
        }
        let next = f.line(line, below);
        // A descent seldom gains more than that.
        if f.error >= last || next == line || f.error > 1.6 * best.0 {
            return;
        }
        last = f.error;
        line = next;
    }
}

/// The line of binary16 numbers with the least error found.
pub(crate) fn best_f16_line<const TOP: i32>(x: &[f32], w: &[f32]) -> Line {
    let (s, o) = best_line::<TOP>(x, w, false);
    let error = |line| fit::<Whole<0, TOP>>(x, w, line).error;
    let o = to_f16(o);
    let s = nearby_f16(s, |s| error((s, o)));
    let o = nearby_f16(o, |o| error((s, o)));
    (s, o)
}

/// Codes of a group on a line.
pub(crate) fn codes<const TOP: i32, const N: usize>(x: &[f32], (s, o): Line) -> [u8; N] {
    let inverse = inverse(s);
    let mut out = [0; N];
    for (q, x) in out.iter_mut().zip(x) {
        *q = Whole::<0, TOP>::nearest((x - o) * inverse) as u8;
    }
    out
}

/// What a K block with minima stores beside its codes: `s = d * scale`, `o = -dmin * min` in each group.
#[derive(Clone)]
pub(crate) struct Units<const GROUPS: usize> {
    pub(crate) d: f32,
    pub(crate) dmin: f32,
    pub(crate) scales: [u8; GROUPS],
    pub(crate) mins: [u8; GROUPS],
}

impl<const GROUPS: usize> Units<GROUPS> {
    /// The line of a group, rounded as decoding does.
    pub(crate) fn line(&self, g: usize) -> Line {
        (self.d * f32::from(self.scales[g]), -(self.dmin * f32::from(self.mins[g])))
    }
}

/// Units and multiples for a block of `GROUPS` groups, whose codes go to `TOP` and whose multiples go to `MOST`.
pub(crate) fn best_units<const GROUPS: usize, const TOP: i32, const MOST: i32>(x: &[f32; 256], w: &[f32; 256]) -> Units<GROUPS> {
    let size = 256 / GROUPS;
    let group = |g: usize| (&x[g * size..][..size], &w[g * size..][..size]);
    let fit = |g: usize, line: Line| {
        let (x, w) = group(g);
        fit::<Whole<0, TOP>>(x, w, line)
    };
    let mut ideal = [(0.0, 0.0); GROUPS];
    for (g, line) in ideal.iter_mut().enumerate() {
        let (x, w) = group(g);
        *line = best_line::<TOP>(x, w, true);
    }
    let top = ideal.iter().fold((0.0f32, 0.0f32), |top, line| (top.0.max(line.0), top.1.max(-line.1)));
    let multiple = |v: f32, unit: f32| (v * inverse(unit)).round().clamp(0.0, MOST as f32) as u8;

    let mut best: (f32, Units<GROUPS>) = (f32::INFINITY, Units { d: 0.0, dmin: 0.0, scales: [0; GROUPS], mins: [0; GROUPS] });
    // From each start one step without, then from the best some with the search around the multiples.
    for (a, b) in [(0.0, 0.0), (0.6, 0.6), (-0.6, -0.6), (1.3, 0.0), (0.0, 1.3)] {
        let mut units = best.1.clone();
        (units.d, units.dmin) = (to_f16(top.0 / (MOST as f32 - a)), to_f16(top.1 / (MOST as f32 - b)));
        for (g, line) in ideal.iter().enumerate() {
            (units.scales[g], units.mins[g]) = (multiple(line.0, units.d), multiple(-line.1, units.dmin));
        }
        descend(&mut best, units, 2, |units, g| fit(g, units.line(g)));
    }
    let start = best.1.clone();
    descend(&mut best, start, 4, |units, g| search_multiples(units, g, MOST as u8, |line| fit(g, line)));
    best.1
}

/// Alternates between the groups' multiples, which `choose` may change, and the units, and keeps what is best.
fn descend<const GROUPS: usize>(
    best: &mut (f32, Units<GROUPS>),
    mut units: Units<GROUPS>,
    steps: usize,
    choose: impl Fn(&mut Units<GROUPS>, usize) -> Fit,
) {
    for _ in 0..steps {
        let mut total = 0.0;
        let [mut ss, mut sm, mut mm, mut sr, mut mr] = [0.0; 5];
        for g in 0..GROUPS {
            let f = choose(&mut units, g);
            let (scale, min) = (f32::from(units.scales[g]), f32::from(units.mins[g]));
            total += f.error;
            ss += scale * scale * f.qq;
            sm -= scale * min * f.q;
            mm += min * min * f.w;
            sr += scale * f.rq;
            mr -= min * f.r;
        }
        if total < best.0 {
            *best = (total, units.clone());
        }
        let Some((d, dmin)) = solve(ss, sm, mm, sr, mr) else { return };
        let next = (to_f16(units.d + d), to_f16(units.dmin + dmin));
        if next == (units.d, units.dmin) || next.0 < 0.0 || next.1 < 0.0 {
            return;
        }
        (units.d, units.dmin) = next;
    }
}

/// Moves the multiples of group `g` by at most one each to where the error is least.
fn search_multiples<const GROUPS: usize>(units: &mut Units<GROUPS>, g: usize, most: u8, fit: impl Fn(Line) -> Fit) -> Fit {
    let mut best = fit(units.line(g));
    let mut at = (units.scales[g], units.mins[g]);
    let (scale, min) = at;
    let less = |v: u8| v.saturating_sub(1);
    let more = |v: u8| (v + 1).min(most);
    // Scale and minimum trade off against each other: one up, the other up.
    let near = [
        (scale, less(min)),
        (scale, more(min)),
        (less(scale), min),
        (more(scale), min),
        (less(scale), less(min)),
        (more(scale), more(min)),
    ];
    for (scale, min) in near {
        (units.scales[g], units.mins[g]) = (scale, min);
        let f = fit(units.line(g));
        if f.error < best.error {
            (best, at) = (f, (scale, min));
        }
    }
    (units.scales[g], units.mins[g]) = at;
    best
}
