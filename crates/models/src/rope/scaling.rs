//! Ways to stretch a rotation for longer contexts, as formulas.

use onebit_plan::{Longer, Stretch};
use std::f32::consts::TAU;

/// How the frequencies are stretched for a longer context.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scaling {
    /// Not.
    None,
    /// All divided by a factor (Chen et al. 2023, arXiv:2306.15595).
    Linear(f32),
    /// Slow ones divided, fast ones kept, a smooth passage between (Llama 3.1).
    Llama3 { factor: f32, low: f32, high: f32, original: f32 },
    /// The same idea in the number of turns (Peng et al. 2023, arXiv:2309.00071).
    Yarn(Yarn),
    /// Each divided by a factor of its own, with other factors for contexts beyond the original one.
    Long(LongRope),
    /// The base grows with the context beyond the original one.
    Dynamic { factor: f32, original: usize },
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Yarn {
    pub(super) factor: f64,
    /// Turns over the original context above which a dimension is kept, and below which it is divided.
    pub(super) beta_fast: f64,
    pub(super) beta_slow: f64,
    pub(super) original: f64,
    pub(super) truncate: bool,
    /// Factor on what is turned.
    pub(super) attention: f64,
    /// Growth of the scores' factor with the context (DeepSeek-V2's `mscale_all_dim`); 0 where there is none.
    pub(super) growth: f64,
}

/// LongRoPE (Ding et al. 2024, arXiv:2402.13753).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LongRope {
    /// Divisors, one for each frequency, up to `original` tokens and beyond.
    pub(super) short: Vec<f32>,
    pub(super) long: Vec<f32>,
    pub(super) original: usize,
    /// Factors on what is turned, up to `original` tokens and beyond.
    pub(super) short_scale: f64,
    pub(super) long_scale: f64,
}

/// YaRN's growth of the attention's temperature with the context.
pub(super) fn magnitude(factor: f64, by: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * by * factor.ln() + 1.0 }
}

impl Scaling {
    /// The stretched frequencies.
    pub(super) fn apply(&self, plain: &[f32], base: f32) -> Vec<f32> {
        match self {
            Self::None | Self::Dynamic { .. } => plain.to_vec(),
            Self::Linear(factor) => plain.iter().map(|f| f / factor).collect(),
            Self::Llama3 { factor, low, high, original } => {
                let one = |f: &f32| {
                    let wavelength = TAU / f;
                    if wavelength > original / low {
                        f / factor
                    } else if wavelength < original / high {
                        *f
                    } else {
                        let smooth = (original / wavelength - low) / (high - low);
                        (1.0 - smooth) * f / factor + smooth * f
                    }
                };
                plain.iter().map(one).collect()
            }
            Self::Yarn(yarn) => yarn.apply(plain, base),
            Self::Long(long) => divided(plain, &long.short),
        }
    }

    /// Factor on what is turned.
    pub(super) fn scale(&self) -> f32 {
        match self {
            Self::Yarn(yarn) => yarn.attention as f32,
            Self::Long(long) => long.short_scale as f32,
            _ => 1.0,
        }
    }

    /// What changes for longer contexts.
    pub(super) fn longer(&self, plain: &[f32], base: f32) -> Option<Longer> {
        match self {
            Self::Long(long) => {
                let stretch = Stretch::Other { frequencies: divided(plain, &long.long), scale: long.long_scale as f32 };
                Some(Longer { beyond: long.original, stretch })
            }
            Self::Dynamic { factor, original } => Some(Longer { beyond: *original, stretch: Stretch::Base { base, factor: *factor } }),
            _ => None,
        }
    }
}

fn divided(plain: &[f32], by: &[f32]) -> Vec<f32> {
    plain.iter().zip(by).map(|(f, by)| f / by).collect()
}

impl Yarn {
    pub(super) fn apply(&self, plain: &[f32], base: f32) -> Vec<f32> {
        let dims = (plain.len() * 2) as f64;
        // The dimension that turns so often over the original context.
        let dimension = |turns: f64| dims * (self.original / (turns * std::f64::consts::TAU)).ln() / (2.0 * f64::from(base).ln());
        let (mut low, mut high) = (dimension(self.beta_fast), dimension(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        (low, high) = (low.max(0.0), high.min(dims - 1.0));
        if low == high {
            high += 0.001;
        }
        let one = |(i, f): (usize, &f32)| {
            let divided = ((i as f64 - low) as f32 / (high - low) as f32).clamp(0.0, 1.0);
            f / self.factor as f32 * divided + f * (1.0 - divided)
        };
        plain.iter().enumerate().map(one).collect()
    }
}
