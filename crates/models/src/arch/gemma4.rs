//! Gemma 4 (Google DeepMind 2026): Gemma 3 with values that are normalised too, heads of another size in the layers that see all, a small
//! embedding of each token for each layer, and last layers that look at the keys and values of earlier ones. Reference:
//! transformers' `models/gemma4`.
//!
//! Of checkpoints that also see or hear, the text model runs.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::{RopeKeys, Rotary},
    settings::Settings,
};
use onebit_plan::{AttentionSpec, Binary, Function, Graph, Mask, Rope, StateId, Value};

pub(crate) static GEMMA4: Arch = Arch {
    hf: &["gemma4_text", "gemma4"],
    gguf: &[],
    tensors: &[TRUNK, NORMS, PER_LAYER, ATTENTION, QK_NORMS, FFN],
    ignored: IGNORED,
    plan,
};

/// Parts that see and hear, and what published checkpoints hold beyond need.
pub(super) const IGNORED: &[&str] = &[
    "model.audio_tower.*",
    "model.embed_audio.*",
    "model.embed_vision.*",
    // Of layers that look at the keys and values of others. Where they are needed, they must be there.
    "*.self_attn.k_proj.weight",
    "*.self_attn.v_proj.weight",
    "*.self_attn.k_norm.weight",
    // Of Gemma 3n, where its settings do without.
    "*.altup.correct_output_scale",
];

pub(super) const NORMS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm"),
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.pre_feedforward_layernorm"),
    tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"),
    tensor("blk.{}.layer_output_scale", "model.layers.{}.layer_scalar"),
];

pub(super) const PER_LAYER: &[Entry] = &[
    tensor("per_layer_token_embd", "model.embed_tokens_per_layer"),
    tensor("per_layer_model_proj", "model.per_layer_model_projection"),
    tensor("per_layer_proj_norm", "model.per_layer_projection_norm"),
    tensor("blk.{}.inp_gate", "model.layers.{}.per_layer_input_gate"),
    tensor("blk.{}.proj", "model.layers.{}.per_layer_projection"),
    tensor("blk.{}.post_norm", "model.layers.{}.post_per_layer_input_norm"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let logit_softcap = s.optional_positive("final_logit_softcapping", "")?.map(|cap| cap as f32);
    let c = Decoder { embed_scale: (c.width as f32).sqrt(), logit_softcap, ..c };
    refuse(s)?;
    let layers = layers(s, &c)?;
    let act = s.activation("gelu_pytorch_tanh")?;
    let inner = s.size("intermediate_size", "")?;
    let wide = s.bool_or("use_double_wide_mlp", "", false)?;
    let per_layer = PerLayer::read(s, act)?;
    let x = g.embed("token_embd", c.width, c.embed_scale);
    let extra = per_layer.embed(g, x, &c);
    let mut caches: Vec<StateId> = vec![];
    let x = g.layers(c.layers, x, |g, i, x| {
        let layer = &layers[i];
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let y = layer.attention(g, x, &mut caches, c.eps);
            c.norm(g, y, "post_attention_norm")
        });
        let x = c.residual(g, x, "ffn_norm", |g, x| {
            let y = g.gated_ffn(x, if wide && layer.shares.is_some() { 2 * inner } else { inner }, act);
            c.norm(g, y, "post_ffw_norm")
        });
        let x = match extra {
            Some(extra) => {
                let y = per_layer.part(g, i, x, extra, &c);
                g.add(x, y)
            }
            None => x,
        };
        g.with_short_weight(x, Binary::Mul, "layer_output_scale", 1)
    });
    let x = g.select(x);
    let x = c.norm(g, x, c.output_norm);
    Ok(c.logits(g, x))
}

/// Refuses what is not known here.
fn refuse(s: &Settings<'_>) -> Result<()> {
    if s.bool_or("enable_moe_block", "", false)? {
        return Err(s.wrong("enable_moe_block", "", "is true; layers with experts are not known here"));
    }
    match s.text_or("use_bidirectional_attention", "", "vision")?.as_str() {
        // Text is seen one way; what sees says how images are.
        "vision" => Ok(()),
        other => Err(s.wrong("use_bidirectional_attention", "", format!("is `{other}`; only causal attention is known here"))),
    }
}

/// An embedding of each token for each layer, which joins the stream at its end, gated by it.
pub(super) struct PerLayer {
    /// Numbers for each layer; 0 where there is no such embedding.
    width: usize,
    /// Rows of the table, where it has not one for each token.
    rows: Option<usize>,
    act: Function,
}

impl PerLayer {
    pub(super) fn read(s: &Settings<'_>, act: Function) -> Result<Self> {
        let rows = s.optional_size_to("vocab_size_per_layer_input", "", 1 << 24)?;
        Ok(Self { width: s.count_or("hidden_size_per_layer_input", "", 0)?, rows, act })
    }

    /// For all layers: a table's row, and what a matrix makes of the token's embedding `x`, in equal parts.
    pub(super) fn embed(&self, g: &mut Graph<'_>, x: Value, c: &Decoder) -> Option<Value> {
        let width = c.layers * self.width;
        if width == 0 {
            return None;
        }
        let rows = self.rows.unwrap_or(g.vocabulary());
        let token = g.embed_first("per_layer_token_embd", rows, width, (self.width as f32).sqrt());
        let y = g.linear(x, "per_layer_model_proj", width);
        let y = g.scale(y, 1.0 / (c.width as f32).sqrt());
        let y = g.head_norm(y, "per_layer_proj_norm", self.width, c.eps);
        let y = g.add(y, token);
        Some(g.scale(y, std::f32::consts::FRAC_1_SQRT_2))
    }

    /// What layer `layer` makes of its part of `extra`, gated by `x`.
    pub(super) fn part(&self, g: &mut Graph<'_>, layer: usize, x: Value, extra: Value, c: &Decoder) -> Value {
        let part = g.slice(extra, 1, layer * self.width, self.width);
        let gate = g.linear(x, "inp_gate", self.width);
        let y = g.glu(gate, part, self.act);
        let y = g.linear(y, "proj", c.width);
        c.norm(g, y, "post_norm")
    }
}

/// An attention layer.
pub(super) struct Layer {
    pub(super) heads: Heads,
    pub(super) mask: Mask,
    pub(super) rope: Rope,
    /// Whether values are keys before norm and rotation.
    pub(super) values_are_keys: bool,
    /// The layer whose keys and values it looks at, where it has none.
    pub(super) shares: Option<usize>,
}

impl Layer {
    /// The output. `caches` are those of the layers before; that of this layer is added.
    pub(super) fn attention(&self, g: &mut Graph<'_>, x: Value, caches: &mut Vec<StateId>, eps: f32) -> Value {
        let cache = self.shares.and_then(|of| caches.get(of).copied());
        let Heads { heads, kv_heads, head, .. } = self.heads;
        let prepare = |g: &mut Graph<'_>, x, norm: &str| {
            let x = g.head_norm(x, norm, head, eps);
            g.rope(x, head, &self.rope)
        };
        let q = g.linear(x, "attn_q", heads * head);
        let q = prepare(g, q, "attn_q_norm");
        let spec = AttentionSpec { scale: 1.0, mask: self.mask, ..AttentionSpec::causal(heads, kv_heads, head) };
        let (kv, cache) = match cache {
            Some(cache) => (None, cache),
            None => {
                let k = g.linear(x, "attn_k", kv_heads * head);
                let v = if self.values_are_keys { k } else { g.linear(x, "attn_v", kv_heads * head) };
                let v = g.plain_norm(v, head, eps);
                (Some([prepare(g, k, "attn_k_norm"), v]), g.kv_cache(&spec))
            }
        };
        caches.push(cache);
        let y = g.attention_in(cache, q, kv, &spec);
        g.linear(y, "attn_output", g.width(x))
    }
}

/// The attention layers: those with a window, and those that see all, whose heads may have another size.
fn layers(s: &Settings<'_>, c: &Decoder) -> Result<Vec<Layer>> {
    let usual = Heads::read(s, c.width)?;
    let mut masks = masks(s, c.layers, 6)?;
    // The last one sees all, whatever the list says.
    if let Some(last) = masks.last_mut() {
        *last = Mask::Causal;
    }
    let same = s.bool_or("attention_k_eq_v", "", false)?;
    let kinds = masks.iter().enumerate().map(|(i, mask)| {
        let full = *mask == Mask::Causal;
        Ok((*mask, heads(s, i, full, same, usual)?, same && full))
    });
    attention_layers(s, kinds.collect::<Result<Vec<_>>>()?)
}

/// Attention layers of what they see, their heads, and whether their values are their keys. The last ones look at the keys and values of
/// the last one before them that sees the same.
pub(super) fn attention_layers(s: &Settings<'_>, kinds: Vec<(Mask, Heads, bool)>) -> Result<Vec<Layer>> {
    const SHARED: &str = "num_kv_shared_layers";
    let shared = s.count_or(SHARED, "", 0)?;
    let own = &kinds[..kinds.len().saturating_sub(shared)];
    let one = |(i, (mask, heads, values_are_keys)): (usize, &(Mask, Heads, bool))| {
        let full = *mask == Mask::Causal;
        let (keys, base) = if full { (RopeKeys::FULL, 1e6) } else { (RopeKeys::SLIDING, 1e4) };
        let rope = s.rotary(heads.head, Rotary { keys, base, ..Rotary::HALVES })?;
        let shares = own.iter().rposition(|(m, h, _)| m == mask && (h.head, h.kv_heads) == (heads.head, heads.kv_heads));
        if i >= own.len() && shares.is_none() {
            return Err(s.wrong(
                SHARED,
                "",
                format!("is {shared}, but layer {i} finds no layer before them with keys and values like its own"),
            ));
        }
        Ok(Layer { heads: *heads, mask: *mask, rope, values_are_keys: *values_are_keys, shares: shares.filter(|_| i >= own.len()) })
    };
    kinds.iter().enumerate().map(one).collect()
}

/// What each layer sees: all but every `period`th have a window where no list tells.
pub(super) fn masks(s: &Settings<'_>, layers: usize, period: usize) -> Result<Vec<Mask>> {
    let Some(window) = s.window()? else { return Err(s.wrong("sliding_window", "", "is missing")) };
    let windowed = Mask::Window(window);
    let usual = || (0..layers).map(|i| if (i + 1) % period == 0 { Mask::Causal } else { windowed }).collect();
    Ok(listed_masks(s, layers, windowed)?.unwrap_or_else(usual))
}

/// The heads of layer `i`, of which `per_layer_config` may tell, or, of layers that see all, settings of their own.
fn heads(s: &Settings<'_>, i: usize, full: bool, same: bool, usual: Heads) -> Result<Heads> {
    const KEY: &str = "per_layer_config";
    let (mut head, mut kv_heads) = (usual.head, usual.kv_heads);
    if let Some(all) = s.json(KEY) {
        for (name, _) in all.get(i.to_string()).and_then(|own| own.as_object()).into_iter().flatten() {
            let path = format!("{KEY}.{i}.{name}");
            match name.as_str() {
                "head_dim" => head = s.size(&path, "")?,
                "num_key_value_heads" => kv_heads = s.size(&path, "")?,
                _ => return Err(s.wrong(&path, "", "is not known; known are head_dim and num_key_value_heads")),
            }
        }
    } else if full {
        head = s.size("global_head_dim", "")?;
        kv_heads = s.optional_size("num_global_key_value_heads", "")?.filter(|_| same).unwrap_or(kv_heads);
    }
    if !usual.heads.is_multiple_of(kv_heads) {
        return Err(s.wrong(KEY, "", format!("has {kv_heads} key/value heads, which do not divide {} heads", usual.heads)));
    }
    Ok(Heads { head, kv_heads, ..usual })
}
