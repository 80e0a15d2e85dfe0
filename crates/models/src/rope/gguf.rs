//! What GGUF files say of a rotation, and what `convert` has to write.

use super::{
    Rotary,
    scaling::{LongRope, Scaling, Yarn, magnitude},
};
use crate::{Result, settings::Settings};
use onebit_formats::Meta;

/// [`Yarn::growth`] in GGUF files, in [`Rotary::growth_unit`]s.
const LOG_MULTIPLIER: &str = "rope.scaling.yarn_log_multiplier";

/// The tensors of divisors in GGUF files.
const DIVISORS: &str = "rope_freqs.weight";
const SHORT_FACTORS: &str = "rope_factors_short.weight";
const LONG_FACTORS: &str = "rope_factors_long.weight";

/// The divisor of a dimension that does not turn.
const NEVER_TURNS: f32 = 1e30;

impl Settings<'_> {
    pub(super) fn gguf_scaling(&self, dims: usize, implied: &Rotary) -> Result<Scaling> {
        let factor = || match self.optional_float("", "rope.scaling.factor")? {
            Some(factor) if factor != 0.0 => self.float_or("", "rope.scaling.factor", 1.0),
            // An older name; zero stands for none.
            _ => Ok(self.optional_float("", "rope.scale_linear")?.filter(|factor| *factor > 0.0).unwrap_or(1.0)),
        };
        let original = || {
            let context = self.float_or("", "context_length", 1.0)?;
            self.float_or("", "rope.scaling.original_context_length", context)
        };
        if let (Some(short), Some(long)) = (self.divisors(SHORT_FACTORS, dims)?, self.divisors(LONG_FACTORS, dims)?) {
            let scale = self.float_or("", "rope.scaling.attn_factor", 1.0)?;
            return Ok(Scaling::Long(LongRope { short, long, original: original()? as usize, short_scale: scale, long_scale: scale }));
        }
        Ok(match self.text_or("", "rope.scaling.type", "linear")?.as_str() {
            "none" => Scaling::None,
            "linear" => match factor()? {
                1.0 => Scaling::None,
                factor => Scaling::Linear(factor as f32),
            },
            "yarn" => {
                let factor = factor()?;
                let growth = self.optional_float("", LOG_MULTIPLIER)?.unwrap_or(0.0) / implied.growth_unit;
                Scaling::Yarn(Yarn {
                    factor,
                    beta_fast: self.float_or("", "rope.scaling.yarn_beta_fast", 32.0)?,
                    beta_slow: self.float_or("", "rope.scaling.yarn_beta_slow", 1.0)?,
                    original: original()?,
                    truncate: implied.whole,
                    attention: self.float_or("", "rope.scaling.attn_factor", 1.0)?
                        * if growth == 0.0 { magnitude(factor, 1.0) } else { 1.0 },
                    growth,
                })
            }
            "longrope" => {
                let what = format!("is `longrope`, but the tensors `{SHORT_FACTORS}` and `{LONG_FACTORS}` are missing");
                return Err(self.wrong("", "rope.scaling.type", what));
            }
            other => {
                let what = format!("is `{other}`, which is not known; known are none, linear, yarn, longrope");
                return Err(self.wrong("", "rope.scaling.type", what));
            }
        })
    }

    /// A tensor of divisors, one for each frequency, where there is one.
    pub(super) fn divisors(&self, name: &str, dims: usize) -> Result<Option<Vec<f32>>> {
        let Some(tensor) = self.checkpoint.tensor(name) else { return Ok(None) };
        let divisors = if tensor.values() == dims / 2 { tensor.to_f32() } else { vec![] };
        if divisors.is_empty() || divisors.iter().any(|d| !d.is_finite() || *d <= 0.0) {
            let source = onebit_plan::Error::invalid(format!("tensor `{name}` should hold {} positive numbers", dims / 2));
            return Err(crate::Error::Plan { path: self.checkpoint.path.clone(), source });
        }
        Ok(Some(divisors))
    }

    /// GGUF files hold the divisors of Llama 3's scaling, one for each frequency, as a tensor.
    pub(super) fn divide_by_tensor(&self, frequencies: &mut [f32]) -> Result<()> {
        let divisors = self.divisors(DIVISORS, frequencies.len() * 2)?;
        frequencies.iter_mut().zip(divisors.into_iter().flatten()).for_each(|(f, d)| *f /= d);
        Ok(())
    }

    /// Notes divisors that change nothing, where llama.cpp wants some and there are no others.
    pub(crate) fn note_divisors(&self, dims: usize) {
        if !self.noted_tensors().contains_key(DIVISORS) {
            self.note_tensor(DIVISORS, vec![1.0; dims / 2]);
        }
    }

    /// Notes the scaling as GGUF has it.
    pub(super) fn note_scaling(&self, implied: &Rotary, scaling: &Scaling, plain: &[f32], stretched: &[f32], proportional: bool) {
        if !implied.keys.gguf_stretches {
            return self.hf_only(plain != stretched, "it stretches the rotation of layers with a sliding window");
        }
        let divided_by_tensor = || {
            let divisor = |(p, s): (&f32, &f32)| if *s == 0.0 { NEVER_TURNS } else { p / s };
            self.note_tensor(DIVISORS, plain.iter().zip(stretched).map(divisor).collect());
        };
        let kind = |name: &str, factor: f64| {
            self.note("rope.scaling.type", Meta::Text(name.into()));
            self.note("rope.scaling.factor", Meta::Float(factor));
        };
        match scaling {
            _ if proportional => divided_by_tensor(),
            Scaling::None => {}
            Scaling::Linear(factor) => kind("linear", f64::from(*factor)),
            Scaling::Llama3 { .. } => divided_by_tensor(),
            Scaling::Yarn(yarn) => {
                kind("yarn", yarn.factor);
                self.note("rope.scaling.original_context_length", Meta::Unsigned(yarn.original as u64));
                self.note("rope.scaling.yarn_beta_fast", Meta::Float(yarn.beta_fast));
                self.note("rope.scaling.yarn_beta_slow", Meta::Float(yarn.beta_slow));
                let usual = if yarn.growth == 0.0 { magnitude(yarn.factor, 1.0) } else { 1.0 };
                self.note("rope.scaling.attn_factor", Meta::Float(yarn.attention / usual));
                if yarn.growth != 0.0 {
                    self.note(LOG_MULTIPLIER, Meta::Float(implied.growth_unit * yarn.growth));
                }
                self.hf_only(
                    yarn.truncate != implied.whole,
                    "its YaRN rounds the range of dimensions otherwise than GGUF files of its architecture mean",
                );
            }
            Scaling::Long(long) => {
                self.note_tensor(SHORT_FACTORS, long.short.clone());
                self.note_tensor(LONG_FACTORS, long.long.clone());
                self.note("rope.scaling.original_context_length", Meta::Unsigned(long.original as u64));
                self.note("rope.scaling.attn_factor", Meta::Float(long.short_scale));
                self.hf_only(long.short_scale != long.long_scale, "its LongRoPE scales long and short contexts differently");
            }
            // Up to the model's own context nothing grows.
            Scaling::Dynamic { .. } => self.note("rope.scaling.type", Meta::Text("none".into())),
        }
    }
}
