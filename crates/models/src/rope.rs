//! Rotary frequencies from settings, in f32 as transformers computes them (`modeling_rope_utils.py`) and GGUF files imply them.

use crate::{
    Result,
    settings::{Settings, short},
};
use onebit_formats::Meta;
use onebit_plan::{Longer, Rope, RopeStyle, Stretch};
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
    /// Each divided by a factor of its own, with other factors for contexts beyond the original one.
    Long(LongRope),
    /// The base grows with the context beyond the original one.
    Dynamic { factor: f32, original: usize },
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
    /// Growth of the scores' factor with the context (DeepSeek-V2's `mscale_all_dim`); 0 where there is none.
    growth: f64,
}

/// LongRoPE (Ding et al. 2024, arXiv:2402.13753).
#[derive(Clone, Debug, PartialEq)]
struct LongRope {
    /// Divisors, one for each frequency, up to `original` tokens and beyond.
    short: Vec<f32>,
    long: Vec<f32>,
    original: usize,
    /// Factors on what is turned, up to `original` tokens and beyond.
    short_scale: f64,
    long_scale: f64,
}

/// Where the settings of a rotation are: configurations may tell kinds of layers apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RopeKeys {
    /// The object of parameters in `config.json`, by all its names.
    pub(crate) objects: &'static [&'static str],
    /// Names that the base had outside of it.
    pub(crate) base: &'static str,
    /// The base in GGUF files.
    pub(crate) gguf_base: &'static str,
    /// Whether the stretching in GGUF files is meant for it.
    pub(crate) gguf_stretches: bool,
}

impl RopeKeys {
    /// Of all layers, or of those that see the whole context.
    pub(crate) const FULL: Self = Self {
        objects: &["rope_parameters.full_attention", "rope_parameters", "rope_scaling"],
        base: "rope_theta|rotary_emb_base|attn_config.rope_theta",
        gguf_base: "rope.freq_base",
        gguf_stretches: true,
    };

    /// Of the layers with a sliding window, where they have one of their own: the context's stretching is not for them.
    pub(crate) const SLIDING: Self = Self {
        objects: &["rope_parameters.sliding_attention"],
        base: "rope_local_base_freq",
        gguf_base: "rope.freq_base_swa",
        gguf_stretches: false,
    };

    /// The key of a parameter in `config.json`.
    fn key(&self, name: &str) -> String {
        self.objects.iter().map(|object| format!("{object}.{name}")).collect::<Vec<_>>().join("|")
    }
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
    /// Where the settings are.
    pub(crate) keys: RopeKeys,
    /// Whether GGUF files mean a YaRN that rounds the range of dimensions to whole ones.
    pub(crate) whole: bool,
}

impl Rotary {
    /// As most have it: Hugging Face checkpoints pair halves, the base is 10000, all of a head turns, in all layers.
    pub(crate) const fn new(gguf: RopeStyle) -> Self {
        Self { hf: RopeStyle::Halves, gguf, base: 10_000.0, part: 1.0, keys: RopeKeys::FULL, whole: true }
    }

    /// Adjacent dimensions are paired in both.
    pub(crate) const PAIRS: Self = Self { hf: RopeStyle::Pairs, ..Self::new(RopeStyle::Pairs) };

    /// Halves are paired in both.
    pub(crate) const HALVES: Self = Self::new(RopeStyle::Halves);
}

impl Settings<'_> {
    /// The rotary embedding of heads of `head` numbers, as most have it. `gguf` is the pairing that GGUF files of the architecture
    /// are stored for.
    pub(crate) fn rope(&self, head: usize, gguf: RopeStyle) -> Result<Rope> {
        self.rotary(head, Rotary::new(gguf))
    }

    /// The rotary embedding of heads of `head` numbers.
    pub(crate) fn rotary(&self, head: usize, implied: Rotary) -> Result<Rope> {
        let keys = &implied.keys;
        let part_key = keys.key("partial_rotary_factor") + "|partial_rotary_factor|rotary_pct";
        let default = if self.is_gguf() { 10_000.0 } else { implied.base };
        let mut base = self.float_or(&format!("{}|{}", keys.key("rope_theta"), keys.base), keys.gguf_base, default)?;
        let kind = if self.is_gguf() { String::new() } else { self.rope_kind(keys)? };
        let part = if self.is_gguf() { 1.0 } else { self.optional_float(&part_key, "")?.unwrap_or(implied.part) };
        if !(0.0..=1.0).contains(&part) {
            return Err(self.wrong(&part_key, "", format!("is {part}; from 0 to 1 are allowed")));
        }
        let turned = (head as f64 * part) as usize;
        let proportional = kind == "proportional";
        let dims = match self.is_gguf() {
            true => self.size_or("", "rope.dimension_count", head)?,
            false if proportional => head,
            false => turned,
        };
        // transformers turns one more dimension where the number is odd.
        let odd = !dims.is_multiple_of(2);
        if dims.next_multiple_of(2) > head || odd && self.is_gguf() {
            return Err(self.wrong(
                &part_key,
                "rope.dimension_count",
                format!("makes {dims} dimensions of a head's {head} turn; an even number up to that is needed"),
            ));
        }
        self.note("rope.dimension_count", Meta::Unsigned(dims as u64));
        self.hf_only(odd, "an odd number of dimensions of a head turn");
        if let Some(alpha) = self.fixed_growth(keys, &kind, dims)? {
            base *= alpha.powf(dims as f64 / (dims as f64 - 2.0));
            self.note(keys.gguf_base, Meta::Float(base));
        }
        let base = base as f32;
        let scaling = match self.is_gguf() {
            true if keys.gguf_stretches => self.gguf_scaling(dims, implied.whole)?,
            true => Scaling::None,
            false => self.hf_scaling(keys, &kind, dims)?,
        };
        let plain = Rope::frequencies(base, dims);
        let mut frequencies = scaling.apply(&plain, base);
        if proportional {
            // The whole head's frequencies, of which the slow ones do not turn.
            frequencies[turned / 2..].fill(0.0);
        }
        if !self.is_gguf() {
            self.note_scaling(&implied, &scaling, &plain, &frequencies, proportional);
        } else if keys.gguf_stretches {
            self.divide_by_tensor(&mut frequencies)?;
        }
        let style = if self.is_gguf() { implied.gguf } else { implied.hf };
        Ok(Rope { style, scale: scaling.scale(), longer: scaling.longer(&plain, base), frequencies })
    }

    /// The factor on attention scores that goes with a stretched context where both parts of a product grow with it (DeepSeek-V2).
    pub(crate) fn yarn_temperature(&self, dims: usize) -> Result<f32> {
        let keys = &RopeKeys::FULL;
        let scaling = if self.is_gguf() { self.gguf_scaling(dims, true)? } else { self.hf_scaling(keys, &self.rope_kind(keys)?, dims)? };
        let Scaling::Yarn(yarn) = scaling else { return Ok(1.0) };
        Ok(if yarn.growth == 0.0 { 1.0 } else { magnitude(yarn.factor, yarn.growth).powi(2) as f32 })
    }

    fn rope_kind(&self, keys: &RopeKeys) -> Result<String> {
        let key = format!("{}|{}", keys.key("rope_type"), keys.key("type"));
        self.text_or(&key, "", "default")
    }

    /// Hunyuan's way to write a base that is multiplied once and for all: a dynamic growth with `alpha`.
    fn fixed_growth(&self, keys: &RopeKeys, kind: &str, dims: usize) -> Result<Option<f64>> {
        let key = keys.key("alpha");
        let alpha = if kind == "dynamic" { self.optional_float(&key, "")?.filter(|alpha| *alpha != 0.0) } else { None };
        match alpha {
            Some(alpha) if alpha < 0.0 || dims <= 2 => {
                Err(self.wrong(&key, "", format!("is {alpha} for {dims} dimensions; a positive number for more than two is needed")))
            }
            alpha => Ok(alpha),
        }
    }

    fn hf_scaling(&self, keys: &RopeKeys, kind: &str, dims: usize) -> Result<Scaling> {
        let positive = |key: &str| -> Result<f64> {
            match self.optional_float(key, "")? {
                Some(x) if x > 0.0 => Ok(x),
                Some(x) => Err(self.wrong(key, "", format!("is {x}, but should be positive"))),
                None => Err(self.wrong(key, "", "is missing")),
            }
        };
        let parameter = |name: &str| positive(&keys.key(name));
        let original = || -> Result<f64> {
            let own = keys.key("original_max_position_embeddings");
            positive(&format!("original_max_position_embeddings|{own}|max_position_embeddings"))
        };
        // By how much the context grew, where no factor says so.
        let growth = |original: f64| match self.optional_float(&keys.key("factor"), "")? {
            Some(_) => parameter("factor"),
            None => Ok(positive("max_position_embeddings")? / original),
        };
        Ok(match kind {
            // mrope: all its positions are equal for text
            "default" | "mrope" => Scaling::None,
            "dynamic" if self.fixed_growth(keys, kind, dims)?.is_some() => Scaling::None,
            "dynamic" if dims > 2 => {
                Scaling::Dynamic { factor: parameter("factor")? as f32, original: self.size_to("max_position_embeddings", "", 1 << 31)? }
            }
            "proportional" => match self.optional_float(&keys.key("factor"), "")? {
                Some(_) => Scaling::Linear(parameter("factor")? as f32),
                None => Scaling::None,
            },
            "linear" => Scaling::Linear(parameter("factor")? as f32),
            "llama3" => Scaling::Llama3 {
                factor: parameter("factor")? as f32,
                low: parameter("low_freq_factor")? as f32,
                high: parameter("high_freq_factor")? as f32,
                original: original()? as f32,
            },
            // Phi 3 was first published with other names for the same.
            "longrope" | "su" | "yarn" if self.json(&keys.key("long_factor")).is_some() => {
                let original = original()?;
                let factor = growth(original)?;
                let inferred = if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / original.ln()).sqrt() };
                let attention = self.optional_float(&keys.key("attention_factor"), "")?.unwrap_or(inferred);
                let scale = |name: &str| Ok::<_, crate::Error>(self.optional_float(&keys.key(name), "")?.unwrap_or(attention));
                Scaling::Long(LongRope {
                    short: self.factors(&keys.key("short_factor"), dims)?,
                    long: self.factors(&keys.key("long_factor"), dims)?,
                    original: original as usize,
                    short_scale: scale("short_mscale")?,
                    long_scale: scale("long_mscale")?,
                })
            }
            "yarn" => {
                let original = original()?;
                let factor = growth(original)?;
                let optional = |name: &str, default: f64| {
                    Ok::<_, crate::Error>(self.optional_float(&keys.key(name), "")?.filter(|x| *x != 0.0).unwrap_or(default))
                };
                let (m, all) = (optional("mscale", 0.0)?, optional("mscale_all_dim", 0.0)?);
                let inferred = if m != 0.0 && all != 0.0 { magnitude(factor, m) / magnitude(factor, all) } else { magnitude(factor, 1.0) };
                Scaling::Yarn(Yarn {
                    factor,
                    beta_fast: optional("beta_fast", 32.0)?,
                    beta_slow: optional("beta_slow", 1.0)?,
                    original,
                    truncate: self.bool_or(&keys.key("truncate"), "", true)?,
                    attention: self.optional_float(&keys.key("attention_factor"), "")?.unwrap_or(inferred),
                    growth: all,
                })
            }
            other => {
                let known = "default, linear, dynamic, llama3, yarn, longrope (with its factors), proportional";
                return Err(self.wrong("rope_type", "", format!("is `{other}`, which is not known; known are {known}")));
            }
        })
    }

    /// A list of positive divisors, one for each frequency.
    fn factors(&self, key: &str, dims: usize) -> Result<Vec<f32>> {
        let found = self.json(key);
        let number = |v: &serde_json::Value| v.as_f64().map(|x| x as f32).filter(|x| *x > 0.0 && x.is_finite());
        let list: Option<Vec<f32>> = found.and_then(|v| v.as_array()).and_then(|list| list.iter().map(number).collect());
        list.filter(|list| list.len() == dims / 2).ok_or_else(|| {
            let found = found.map_or_else(|| "missing".into(), short);
            self.wrong(key, "", format!("should be a list of {} positive numbers, but is {found}", dims / 2))
        })
    }

    fn gguf_scaling(&self, dims: usize, whole: bool) -> Result<Scaling> {
        let factor = || self.float_or("", "rope.scaling.factor", 1.0);
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
                let growth = self.optional_float("", LOG_MULTIPLIER)?.unwrap_or(0.0) / 0.1;
                Scaling::Yarn(Yarn {
                    factor,
                    beta_fast: self.float_or("", "rope.scaling.yarn_beta_fast", 32.0)?,
                    beta_slow: self.float_or("", "rope.scaling.yarn_beta_slow", 1.0)?,
                    original: original()?,
                    truncate: whole,
                    attention: self.float_or("", "rope.scaling.attn_factor", 1.0)?
                        * if growth == 0.0 { magnitude(factor, 1.0) } else { 1.0 },
                    growth,
                })
            }
            other => {
                return Err(self.wrong("", "rope.scaling.type", format!("is `{other}`, which is not known; known are none, linear, yarn")));
            }
        })
    }

    /// A tensor of divisors, one for each frequency, where there is one.
    fn divisors(&self, name: &str, dims: usize) -> Result<Option<Vec<f32>>> {
        let Some(tensor) = self.checkpoint.tensor(name) else { return Ok(None) };
        let divisors = if tensor.values() == dims / 2 { tensor.to_f32() } else { vec![] };
        if divisors.is_empty() || divisors.iter().any(|d| !d.is_finite() || *d <= 0.0) {
            let source = onebit_plan::Error::invalid(format!("tensor `{name}` should hold {} positive numbers", dims / 2));
            return Err(crate::Error::Plan { path: self.checkpoint.path.clone(), source });
        }
        Ok(Some(divisors))
    }

    /// GGUF files hold the divisors of Llama 3's scaling, one for each frequency, as a tensor.
    fn divide_by_tensor(&self, frequencies: &mut [f32]) -> Result<()> {
        let divisors = self.divisors(DIVISORS, frequencies.len() * 2)?;
        frequencies.iter_mut().zip(divisors.into_iter().flatten()).for_each(|(f, d)| *f /= d);
        Ok(())
    }

    /// Notes the scaling as GGUF has it.
    fn note_scaling(&self, implied: &Rotary, scaling: &Scaling, plain: &[f32], stretched: &[f32], proportional: bool) {
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
                    self.note(LOG_MULTIPLIER, Meta::Float(0.1 * yarn.growth));
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

/// A tenth of [`Yarn::growth`] in GGUF files.
const LOG_MULTIPLIER: &str = "rope.scaling.yarn_log_multiplier";

/// The tensors of divisors in GGUF files.
const DIVISORS: &str = "rope_freqs.weight";
const SHORT_FACTORS: &str = "rope_factors_short.weight";
const LONG_FACTORS: &str = "rope_factors_long.weight";

/// The divisor of a dimension that does not turn.
const NEVER_TURNS: f32 = 1e30;

/// YaRN's growth of the attention's temperature with the context.
fn magnitude(factor: f64, by: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * by * factor.ln() + 1.0 }
}

impl Scaling {
    /// The stretched frequencies.
    fn apply(&self, plain: &[f32], base: f32) -> Vec<f32> {
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
    fn scale(&self) -> f32 {
        match self {
            Self::Yarn(yarn) => yarn.attention as f32,
            Self::Long(long) => long.short_scale as f32,
            _ => 1.0,
        }
    }

    /// What changes for longer contexts.
    fn longer(&self, plain: &[f32], base: f32) -> Option<Longer> {
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
