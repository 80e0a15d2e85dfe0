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

/// Parts that see and hear.
const IGNORED: &[&str] = &["model.audio_tower.*", "model.embed_audio.*", "model.embed_vision.*"];

const NORMS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm"),
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.pre_feedforward_layernorm"),
    tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"),
    tensor("blk.{}.layer_output_scale", "model.layers.{}.layer_scalar"),
];

const PER_LAYER: &[Entry] = &[
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
    let per_layer = PerLayer { width: s.count_or("hidden_size_per_layer_input", "", 0)?, act };
    let x = g.embed("token_embd", c.width, c.embed_scale);
    let extra = per_layer.embed(g, x, &c);
    let mut caches: Vec<StateId> = vec![];
    let x = g.layers(c.layers, x, |g, i, x| {
        let layer = &layers[i];
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let cache = layer.shares.and_then(|of| caches.get(of).copied());
            let (y, cache) = layer.attention(g, x, cache, c.eps);
            caches.push(cache);
            c.norm(g, y, "post_attention_norm")
        });
        let x = c.residual(g, x, "ffn_norm", |g, x| {
            let y = g.gated_ffn(x, if wide && layer.shares.is_some() { 2 * inner } else { inner }, act);
            c.norm(g, y, "post_ffw_norm")
        });
        let x = per_layer.add(g, i, x, extra, &c);
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
        // Text is seen one way.
        "vision" => Ok(()),
        other => Err(s.wrong("use_bidirectional_attention", "", format!("is `{other}`; only causal attention is known here"))),
    }
}

/// An embedding of each token for each layer, which joins the stream at its end, gated by it.
struct PerLayer {
    /// Numbers for each layer; 0 where there is no such embedding.
    width: usize,
    act: Function,
}

impl PerLayer {
    /// For all layers: a table's row, and what a matrix makes of the token's embedding `x`, in equal parts.
    fn embed(&self, g: &mut Graph<'_>, x: Value, c: &Decoder) -> Option<Value> {
        let width = c.layers * self.width;
        if width == 0 {
            return None;
        }
        let token = g.embed("per_layer_token_embd", width, (self.width as f32).sqrt());
        let y = g.linear(x, "per_layer_model_proj", width);
        let y = g.scale(y, 1.0 / (c.width as f32).sqrt());
        let y = g.head_norm(y, "per_layer_proj_norm", self.width, c.eps);
        let y = g.add(y, token);
        Some(g.scale(y, std::f32::consts::FRAC_1_SQRT_2))
    }

    /// The stream with what layer `layer` adds of it.
    fn add(&self, g: &mut Graph<'_>, layer: usize, x: Value, extra: Option<Value>, c: &Decoder) -> Value {
        let Some(extra) = extra else { return x };
        let part = g.slice(extra, 1, layer * self.width, self.width);
        let gate = g.linear(x, "inp_gate", self.width);
        let y = g.glu(gate, part, self.act);
        let y = g.linear(y, "proj", c.width);
        let y = c.norm(g, y, "post_norm");
        g.add(x, y)
    }
}

/// An attention layer.
struct Layer {
    heads: Heads,
    mask: Mask,
    rope: Rope,
    /// Whether values are keys before norm and rotation.
    values_are_keys: bool,
    /// The layer whose keys and values it looks at, where it has none.
    shares: Option<usize>,
}

impl Layer {
    /// The output, and the cache that was looked at: `cache`, or one of its own.
    fn attention(&self, g: &mut Graph<'_>, x: Value, cache: Option<StateId>, eps: f32) -> (Value, StateId) {
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
        let y = g.attention_in(cache, q, kv, &spec);
        (g.linear(y, "attn_output", g.width(x)), cache)
    }
}

/// The attention layers: those with a window, and those that see all, whose heads may have another size.
fn layers(s: &Settings<'_>, c: &Decoder) -> Result<Vec<Layer>> {
    const SHARED: &str = "num_kv_shared_layers";
    let usual = Heads::read(s, c.width)?;
    let masks = masks(s, c.layers)?;
    let same = s.bool_or("attention_k_eq_v", "", false)?;
    let shared = s.count_or(SHARED, "", 0)?;
    let own = c.layers.saturating_sub(shared);
    let one = |i: usize| {
        let full = masks[i] == Mask::Causal;
        let heads = heads(s, i, full, same, usual)?;
        let keys = if full { RopeKeys::FULL } else { RopeKeys::SLIDING };
        let rope = s.rotary(heads.head, Rotary { keys, base: if full { 1e6 } else { 1e4 }, ..Rotary::HALVES })?;
        let last = || masks[..own].iter().rposition(|mask| *mask == masks[i]);
        let shares = if i < own {
            None
        } else {
            Some(
                last()
                    .ok_or_else(|| s.wrong(SHARED, "", format!("is {shared}; no layer is left whose keys and values could be shared")))?,
            )
        };
        Ok(Layer { heads, mask: masks[i], rope, values_are_keys: same && full, shares })
    };
    let layers = (0..c.layers).map(one).collect::<Result<Vec<Layer>>>()?;
    let differs =
        |l: &Layer| l.shares.is_some_and(|of| (layers[of].heads.kv_heads, layers[of].heads.head) != (l.heads.kv_heads, l.heads.head));
    match layers.iter().any(differs) {
        true => Err(s.wrong(SHARED, "", format!("is {shared}, but heads of these layers have other sizes than those they share with"))),
        false => Ok(layers),
    }
}

/// What each layer sees: five of six have a window where no list tells. The last one sees all in any case.
fn masks(s: &Settings<'_>, layers: usize) -> Result<Vec<Mask>> {
    let Some(window) = s.window()? else { return Err(s.wrong("sliding_window", "", "is missing")) };
    let windowed = Mask::Window(window);
    let mut masks = match listed_masks(s, layers, windowed)? {
        Some(masks) => masks,
        None => (0..layers).map(|i| if (i + 1) % 6 == 0 { Mask::Causal } else { windowed }).collect(),
    };
    if let Some(last) = masks.last_mut() {
        *last = Mask::Causal;
    }
    Ok(masks)
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
