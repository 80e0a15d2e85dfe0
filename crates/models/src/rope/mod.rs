//! Rotary frequencies from settings, in f32 as transformers computes them (`modeling_rope_utils.py`) and GGUF files imply them.

mod axes;
mod gguf;
mod hub;
mod scaling;

use crate::{Result, settings::Settings};
pub(crate) use axes::{Axes, SECTIONS};
use onebit_formats::Meta;
use onebit_plan::{Rope, RopeStyle};
use scaling::{Scaling, magnitude};

/// Where the settings of a rotation are: configurations may tell kinds of layers apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RopeKeys {
    /// The object of parameters in `config.json`, by all its names.
    pub(crate) objects: &'static [&'static str],
    /// Names that the base had outside of it.
    pub(crate) base: &'static str,
    /// The base in GGUF files.
    pub(crate) gguf_base: &'static str,
    /// The number of dimensions that turn in GGUF files.
    pub(crate) gguf_dims: &'static str,
    /// Whether the stretching in GGUF files is meant for it.
    pub(crate) gguf_stretches: bool,
}

impl RopeKeys {
    /// Of all layers, or of those that see the whole context.
    pub(crate) const FULL: Self = Self {
        objects: &["rope_scaling.full_attention", "rope_scaling", "rope_parameters.full_attention", "rope_parameters"],
        base: "rope_theta|rotary_emb_base|attn_config.rope_theta|rope_freq_constant",
        gguf_base: "rope.freq_base",
        gguf_dims: "rope.dimension_count",
        gguf_stretches: true,
    };

    /// Of the layers with a sliding window, where they have one of their own: the context's stretching is not for them.
    pub(crate) const SLIDING: Self = Self {
        objects: &["rope_parameters.sliding_attention"],
        base: "rope_local_base_freq",
        gguf_base: "rope.freq_base_swa",
        gguf_dims: "rope.dimension_count",
        gguf_stretches: false,
    };

    /// The same where the heads have another size than those of layers that see all.
    pub(crate) const SLIDING_HEADS: Self = Self { gguf_dims: "rope.dimension_count_swa", ..Self::SLIDING };

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
    /// Numbers in the head that a stated part is one of, where that is more than what may turn.
    pub(crate) whole_head: Option<usize>,
    /// Where the settings are.
    pub(crate) keys: RopeKeys,
    /// Whether GGUF files mean a YaRN that rounds the range of dimensions to whole ones.
    pub(crate) whole: bool,
    /// What GGUF files of the architecture hold of YaRN's growth of the temperature, for a growth of one.
    pub(crate) growth_unit: f64,
    /// How the axes of a position share the pairs, where the settings say that there are several.
    pub(crate) axes: Axes,
}

impl Rotary {
    /// As most have it: Hugging Face checkpoints pair halves, the base is 10000, all of a head turns, in all layers.
    pub(crate) const fn new(gguf: RopeStyle) -> Self {
        Self {
            hf: RopeStyle::Halves,
            gguf,
            base: 10_000.0,
            part: 1.0,
            whole_head: None,
            keys: RopeKeys::FULL,
            whole: true,
            growth_unit: 0.1,
            axes: Axes::Runs,
        }
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

    /// The keys with the one object that `config.json` has. Where it has the old and the new one, the old one counts, and alone: this is
    /// how transformers reads them (`RotaryEmbeddingConfigMixin`).
    fn stated(&self, keys: RopeKeys) -> RopeKeys {
        let stated = |object: &&str| self.own_json(object).and_then(|v| v.as_object()).is_some_and(|object| !object.is_empty());
        match keys.objects.iter().position(stated) {
            Some(i) => RopeKeys { objects: &keys.objects[i..=i], ..keys },
            None => keys,
        }
    }

    /// The rotary embedding of heads of `head` numbers.
    pub(crate) fn rotary(&self, head: usize, implied: Rotary) -> Result<Rope> {
        let implied = Rotary { keys: self.stated(implied.keys), ..implied };
        let keys = &implied.keys;
        let part_key = keys.key("partial_rotary_factor") + "|partial_rotary_factor|rotary_pct";
        let default = if self.is_gguf() { 10_000.0 } else { implied.base };
        let mut base = self.float_or(&format!("{}|{}", keys.key("rope_theta"), keys.base), keys.gguf_base, default)?;
        let kind = if self.is_gguf() { String::new() } else { self.rope_kind(keys)? };
        let part = if self.is_gguf() { 1.0 } else { self.optional_float(&part_key, "")?.unwrap_or(implied.part) };
        if !(0.0..=1.0).contains(&part) {
            return Err(self.wrong(&part_key, "", format!("is {part}; from 0 to 1 are allowed")));
        }
        let turned = implied.whole_head.map_or((head as f64 * part) as usize, |whole| (whole as f64 * part).round() as usize);
        let proportional = kind == "proportional";
        let dims = match self.is_gguf() {
            true => self.size_or("", keys.gguf_dims, head)?,
            false if proportional => head,
            false => turned,
        };
        // transformers turns one more dimension where the number is odd.
        let odd = !dims.is_multiple_of(2);
        if dims.next_multiple_of(2) > head || odd && self.is_gguf() {
            return Err(self.wrong(
                &part_key,
                keys.gguf_dims,
                format!("makes {dims} dimensions of a head's {head} turn; an even number up to that is needed"),
            ));
        }
        self.note(keys.gguf_dims, Meta::Unsigned(dims as u64));
        self.hf_only(odd, "an odd number of dimensions of a head turn");
        if let Some(alpha) = self.fixed_growth(keys, &kind, dims)? {
            base *= alpha.powf(dims as f64 / (dims as f64 - 2.0));
            self.note(keys.gguf_base, Meta::Float(base));
        }
        let base = base as f32;
        let scaling = match self.is_gguf() {
            true if keys.gguf_stretches => self.gguf_scaling(dims, &implied)?,
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
        let axes = self.axes(keys, implied.axes, frequencies.len())?;
        Ok(Rope { style, scale: scaling.scale(), longer: scaling.longer(&plain, base), frequencies, axes })
    }

    /// The factor on attention scores that goes with a stretched context where both parts of a product grow with it (DeepSeek-V2).
    pub(crate) fn yarn_temperature(&self, dims: usize) -> Result<f32> {
        let keys = &self.stated(RopeKeys::FULL);
        let scaling =
            if self.is_gguf() { self.gguf_scaling(dims, &Rotary::PAIRS)? } else { self.hf_scaling(keys, &self.rope_kind(keys)?, dims)? };
        let Scaling::Yarn(yarn) = scaling else { return Ok(1.0) };
        Ok(if yarn.growth == 0.0 { 1.0 } else { magnitude(yarn.factor, yarn.growth).powi(2) as f32 })
    }
}
