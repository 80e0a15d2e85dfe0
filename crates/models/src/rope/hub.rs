//! What `config.json` says of a rotation.

use super::{
    RopeKeys,
    scaling::{LongRope, Scaling, Yarn, magnitude},
};
use crate::{
    Result,
    settings::{Settings, short},
};

impl Settings<'_> {
    pub(super) fn rope_kind(&self, keys: &RopeKeys) -> Result<String> {
        let key = format!("{}|{}", keys.key("rope_type"), keys.key("type"));
        self.text_or(&key, "", "default")
    }

    /// Hunyuan's way to write a base that is multiplied once and for all: a dynamic growth with `alpha`.
    pub(super) fn fixed_growth(&self, keys: &RopeKeys, kind: &str, dims: usize) -> Result<Option<f64>> {
        let key = keys.key("alpha");
        let alpha = if kind == "dynamic" { self.optional_float(&key, "")?.filter(|alpha| *alpha != 0.0) } else { None };
        match alpha {
            Some(alpha) if alpha < 0.0 || dims <= 2 => {
                Err(self.wrong(&key, "", format!("is {alpha} for {dims} dimensions; a positive number for more than two is needed")))
            }
            alpha => Ok(alpha),
        }
    }

    pub(super) fn hf_scaling(&self, keys: &RopeKeys, kind: &str, dims: usize) -> Result<Scaling> {
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
}
