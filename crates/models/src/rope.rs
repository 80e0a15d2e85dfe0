//! Rotary frequencies from settings, in f32 as transformers computes them (`modeling_rope_utils.py`) and GGUF files imply them.

use crate::{Result, settings::Settings};
use onebit_formats::Meta;
use onebit_plan::{Rope, RopeStyle};
use std::f32::consts::TAU;

/// How the frequencies are stretched for a longer context.
#[derive(Clone, Debug, PartialEq)]
enum Scaling {
    /// Not.
    None,
    /// All divided by a factor (Chen et al. 2023, arXiv:2306.15595).
    Linear(f32),
    /// Slow ones divided, fast ones kept, a smooth passage between (Llama 3.1).
    Llama3 { factor: f32, low: f32, high: f32, original: f32 },
    /// The same idea in the number of turns (Peng et al. 2023, arXiv:2309.00071).
    Yarn(Yarn),
}

#[derive(Clone, Debug, PartialEq)]
struct Yarn {
    factor: f64,
    /// Turns over the original context above which a dimension is kept, and below which it is divided.
    beta_fast: f64,
    beta_slow: f64,
    original: f64,
    truncate: bool,
    /// Factor on what is turned.
    attention: f64,
}

/// The parameters' object has had two names.
macro_rules! parameter {
    ($name:literal) => {
        concat!("rope_parameters.", $name, "|rope_scaling.", $name)
    };
}

/// What an architecture implies of its rotary embedding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotary {
    /// The dimensions that are paired in Hugging Face checkpoints.
    pub(crate) hf: RopeStyle,
    /// Those that are paired in GGUF files.
    pub(crate) gguf: RopeStyle,
    /// The base, where `config.json` does not say.
    pub(crate) base: f64,
    /// The part of a head that turns, where `config.json` does not say.
    pub(crate) part: f64,
}

impl Rotary {
    /// As most have it: Hugging Face checkpoints pair halves, the base is 10000, all of a head turns.
    pub(crate) fn new(gguf: RopeStyle) -> Self {
        Self { hf: RopeStyle::Halves, gguf, base: 10_000.0, part: 1.0 }
    }
}

impl Settings<'_> {
    /// The rotary embedding of heads of `head` numbers, as most have it. `gguf` is the pairing that GGUF files of the architecture
    /// are stored for.
    pub(crate) fn rope(&self, head: usize, gguf: RopeStyle) -> Result<Rope> {
        self.rotary(head, Rotary::new(gguf))
    }

    /// The rotary embedding of heads of `head` numbers.
    pub(crate) fn rotary(&self, head: usize, implied: Rotary) -> Result<Rope> {
        const PART: &str = "rope_parameters.partial_rotary_factor|rope_scaling.partial_rotary_factor|partial_rotary_factor|rotary_pct";
        let base =
            self.float_or("rope_parameters.rope_theta|rope_theta", "rope.freq_base", if self.is_gguf() { 10_000.0 } else { implied.base })?
                as f32;
        let dims = if self.is_gguf() {
            self.size_or("", "rope.dimension_count", head)?
        } else {
            let part = self.optional_float(PART, "")?.unwrap_or(implied.part);
            if !(0.0..=1.0).contains(&part) {
                return Err(self.wrong(PART, "", format!("is {part}; from 0 to 1 are allowed")));
            }
            (head as f64 * part) as usize
        };
        if dims > head || !dims.is_multiple_of(2) {
            return Err(self.wrong(
                PART,
                "rope.dimension_count",
                format!("makes {dims} dimensions of a head's {head} turn; an even number up to that is needed"),
            ));
        }
        self.note("rope.dimension_count", Meta::Unsigned(dims as u64));
        let scaling = if self.is_gguf() { self.gguf_scaling()? } else { self.hf_scaling()? };
        let plain = Rope::frequencies(base, dims);
        let mut frequencies = scaling.apply(&plain, base);
        if self.is_gguf() {
            self.divide_by_tensor(&mut frequencies)?;
        } else {
            self.note_scaling(&scaling, &plain, &frequencies);
        }
        let scale = if let Scaling::Yarn(yarn) = &scaling { yarn.attention as f32 } else { 1.0 };
        Ok(Rope { style: if self.is_gguf() { implied.gguf } else { implied.hf }, frequencies, scale })
    }

    fn hf_scaling(&self) -> Result<Scaling> {
        let positive = |key: &str| -> Result<f64> {
            match self.optional_float(key, "")? {
                Some(x) if x > 0.0 => Ok(x),
                Some(x) => Err(self.wrong(key, "", format!("is {x}, but should be positive"))),
                None => Err(self.wrong(key, "", "is missing")),
            }
        };
        let original = || -> Result<f64> {
            const KEY: &str =
                concat!("original_max_position_embeddings|", parameter!("original_max_position_embeddings"), "|max_position_embeddings");
            positive(KEY)
        };
        const TYPE: &str = concat!(parameter!("rope_type"), "|", parameter!("type"));
        Ok(match self.text_or(TYPE, "", "default")?.as_str() {
            "default" | "mrope" => Scaling::None, // mrope: all its positions are equal for text
            "linear" => Scaling::Linear(positive(parameter!("factor"))? as f32),
            "llama3" => Scaling::Llama3 {
                factor: positive(parameter!("factor"))? as f32,
                low: positive(parameter!("low_freq_factor"))? as f32,
                high: positive(parameter!("high_freq_factor"))? as f32,
                original: original()? as f32,
            },
            "yarn" => {
                let original = original()?;
                let factor = match self.optional_float(parameter!("factor"), "")? {
                    Some(_) => positive(parameter!("factor"))?,
                    None => positive("max_position_embeddings")? / original,
                };
                let optional =
                    |key: &str, default: f64| Ok::<_, crate::Error>(self.optional_float(key, "")?.filter(|x| *x != 0.0).unwrap_or(default));
                let (m, all) = (optional(parameter!("mscale"), 0.0)?, optional(parameter!("mscale_all_dim"), 0.0)?);
                let inferred = if m != 0.0 && all != 0.0 { magnitude(factor, m) / magnitude(factor, all) } else { magnitude(factor, 1.0) };
                Scaling::Yarn(Yarn {
                    factor,
                    beta_fast: optional(parameter!("beta_fast"), 32.0)?,
                    beta_slow: optional(parameter!("beta_slow"), 1.0)?,
                    original,
                    truncate: self.bool_or(parameter!("truncate"), "", true)?,
                    attention: self.optional_float(parameter!("attention_factor"), "")?.unwrap_or(inferred),
                })
            }
            other => {
                return Err(self.wrong(
                    "rope_type",
                    "",
                    format!("is `{other}`, which is not known; known are default, linear, llama3, yarn"),
                ));
            }
        })
    }

    fn gguf_scaling(&self) -> Result<Scaling> {
        let factor = || self.float_or("", "rope.scaling.factor", 1.0);
        Ok(match self.text_or("", "rope.scaling.type", "linear")?.as_str() {
            "none" => Scaling::None,
            "linear" => match factor()? {
                1.0 => Scaling::None,
                factor => Scaling::Linear(factor as f32),
            },
            "yarn" => {
                let factor = factor()?;
                let context = self.float_or("", "context_length", 1.0)?;
                Scaling::Yarn(Yarn {
                    factor,
                    beta_fast: self.float_or("", "rope.scaling.yarn_beta_fast", 32.0)?,
                    beta_slow: self.float_or("", "rope.scaling.yarn_beta_slow", 1.0)?,
                    original: self.float_or("", "rope.scaling.original_context_length", context)?,
                    truncate: true,
                    attention: self.float_or("", "rope.scaling.attn_factor", 1.0)? * magnitude(factor, 1.0),
                })
            }
            other => {
                return Err(self.wrong("", "rope.scaling.type", format!("is `{other}`, which is not known; known are none, linear, yarn")));
            }
        })
    }

    /// GGUF files hold the divisors of Llama 3's scaling, one for each frequency, as a tensor.
    fn divide_by_tensor(&self, frequencies: &mut [f32]) -> Result<()> {
        let Some(tensor) = self.checkpoint.tensor(DIVISORS) else { return Ok(()) };
        let divisors = if tensor.values() == frequencies.len() { tensor.to_f32() } else { vec![] };
        if divisors.is_empty() || divisors.iter().any(|d| !d.is_finite() || *d <= 0.0) {
            let source = onebit_plan::Error::invalid(format!("tensor `{DIVISORS}` should hold {} positive numbers", frequencies.len()));
            return Err(crate::Error::Plan { path: self.checkpoint.path.clone(), source });
        }
        frequencies.iter_mut().zip(divisors).for_each(|(f, d)| *f /= d);
        Ok(())
    }

    /// Notes the scaling as GGUF has it.
    fn note_scaling(&self, scaling: &Scaling, plain: &[f32], stretched: &[f32]) {
        let kind = |name: &str, factor: f64| {
            self.note("rope.scaling.type", Meta::Text(name.into()));
            self.note("rope.scaling.factor", Meta::Float(factor));
        };
        match scaling {
            Scaling::None => {}
            Scaling::Linear(factor) => kind("linear", f64::from(*factor)),
            Scaling::Llama3 { .. } => self.note_tensor(DIVISORS, plain.iter().zip(stretched).map(|(p, s)| p / s).collect()),
            Scaling::Yarn(yarn) => {
                kind("yarn", yarn.factor);
                self.note("rope.scaling.original_context_length", Meta::Unsigned(yarn.original as u64));
                self.note("rope.scaling.yarn_beta_fast", Meta::Float(yarn.beta_fast));
                self.note("rope.scaling.yarn_beta_slow", Meta::Float(yarn.beta_slow));
                self.note("rope.scaling.attn_factor", Meta::Float(yarn.attention / magnitude(yarn.factor, 1.0)));
                self.hf_only(!yarn.truncate, "its YaRN does not round the range of dimensions to whole ones");
            }
        }
    }
}

/// The tensor of divisors in GGUF files.
const DIVISORS: &str = "rope_freqs.weight";

/// YaRN's growth of the attention's temperature with the context.
fn magnitude(factor: f64, by: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * by * factor.ln() + 1.0 }
}

impl Scaling {
    /// The stretched frequencies.
    fn apply(&self, plain: &[f32], base: f32) -> Vec<f32> {
        match self {
            Self::None => plain.to_vec(),
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
        }
    }
}

impl Yarn {
    fn apply(&self, plain: &[f32], base: f32) -> Vec<f32> {
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
