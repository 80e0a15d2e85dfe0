//! Resampling as Pillow does it (`src/libImaging/Resample.c`), bit for bit: a filter as wide as the step between output pixels,
//! its weights rounded to 22 bits, first along rows, then along columns, with bytes in between; since Pillow 13 the other way round
//! where that leaves out more than twice as many rows as columns.

use crate::Picture;

/// A filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// A triangle.
    Bilinear,
    /// Keys' cubic with `a = -0.5`.
    Bicubic,
    /// A sinc of three lobes.
    Lanczos,
}

impl Filter {
    /// Pillow's number for it, as `preprocessor_config.json` has it under `resample`.
    pub fn from_pillow(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Lanczos),
            2 => Some(Self::Bilinear),
            3 => Some(Self::Bicubic),
            _ => None,
        }
    }

    /// Where it becomes zero.
    fn support(self) -> f64 {
        match self {
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    fn at(self, x: f64) -> f64 {
        const A: f64 = -0.5;
        let sinc = |x: f64| if x == 0.0 { 1.0 } else { (x * std::f64::consts::PI).sin() / (x * std::f64::consts::PI) };
        let d = x.abs();
        match self {
            Self::Bilinear if d < 1.0 => 1.0 - d,
            Self::Bicubic if d < 1.0 => ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0,
            Self::Bicubic if d < 2.0 => (((d - 5.0) * d + 8.0) * d - 4.0) * A,
            Self::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            _ => 0.0,
        }
    }
}

/// Bits of a weight behind the point.
const BITS: u32 = 32 - 8 - 2;

/// For one output pixel: the first input pixel, and the weights from there on.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

/// The taps of `to` output pixels over `from` input pixels.
fn taps(filter: Filter, from: usize, to: usize) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    let support = filter.support() * stretch;
    let one = |i: usize| {
        let center = (i as f64 + 0.5) * scale;
        let first = ((center - support + 0.5) as isize).max(0) as usize;
        let end = ((center + support + 0.5) as usize).min(from);
        let weight = |x: usize| filter.at((x as f64 - center + 0.5) * (1.0 / stretch));
        let weights: Vec<f64> = (first..end).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let round = |w: f64| {
            let w = if sum == 0.0 { w } else { w / sum } * f64::from(1 << BITS);
            (if w < 0.0 { w - 0.5 } else { w + 0.5 }) as i32
        };
        Taps { first, weights: weights.into_iter().map(round).collect() }
    };
    (0..to).map(one).collect()
}

/// The weighted sum of bytes that lie `step` apart.
fn mix(pixels: &[u8], start: usize, step: usize, weights: &[i32]) -> u8 {
    let products = weights.iter().zip(pixels[start..].iter().step_by(step)).map(|(w, p)| i64::from(*w) * i64::from(*p));
    ((products.sum::<i64>() + (1 << (BITS - 1))) >> BITS).clamp(0, 255) as u8
}

impl Picture {
    /// The picture in another size.
    pub fn resize(&self, height: usize, width: usize, filter: Filter) -> Self {
        let rows = |picture: &Self| if width == picture.width { picture.clone() } else { picture.resize_rows(width, filter) };
        let columns = |picture: &Self| if height == picture.height { picture.clone() } else { picture.resize_columns(height, filter) };
        let [lower, narrower] = [(self.height, height), (self.width, width)].map(|(from, to)| from as isize - to as isize);
        if lower > 0 && lower > 2 * narrower { rows(&columns(self)) } else { columns(&rows(self)) }
    }

    fn resize_rows(&self, width: usize, filter: Filter) -> Self {
        let taps = taps(filter, self.width, width);
        let mut pixels = Vec::with_capacity(self.height * width * 3);
        for row in self.pixels.chunks_exact(self.width * 3) {
            pixels.extend(taps.iter().flat_map(|t| (0..3).map(move |c| mix(row, t.first * 3 + c, 3, &t.weights))));
        }
        Self { width, height: self.height, pixels }
    }

    fn resize_columns(&self, height: usize, filter: Filter) -> Self {
        let run = self.width * 3;
        let mut pixels = Vec::with_capacity(height * run);
        let mut sums = vec![0i64; run];
        for t in taps(filter, self.height, height) {
            sums.fill(1 << (BITS - 1));
            for (weight, row) in t.weights.iter().zip(self.pixels[t.first * run..].chunks_exact(run)) {
                sums.iter_mut().zip(row).for_each(|(sum, p)| *sum += i64::from(*weight) * i64::from(*p));
            }
            pixels.extend(sums.iter().map(|sum| (sum >> BITS).clamp(0, 255) as u8));
        }
        Self { width: self.width, height, pixels }
    }
}
