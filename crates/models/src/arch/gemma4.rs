//! Gemma 4 (Google DeepMind 2026): Gemma 3 with values that are normalised too, heads of another size in the layers that see all, a small
//! embedding of each token for each layer, last layers that look at the keys and values of earlier ones, and, in some models, experts
//! beside the feed-forward layer. Reference: transformers' `models/gemma4`.
//!
//! Of checkpoints that also see or hear, the text model runs.

use super::{Arch, blocks::*, gemma4_attention::layers};
use crate::{
    Result,
    names::{Entry, Order, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Binary, ExpertsSpec, Function, Graph, Route, Score, StateId, Value};

pub(crate) static GEMMA4: Arch = Arch {
    hf: &["gemma4_text", "gemma4"],
    gguf: &["gemma4"],
    tensors: &[TRUNK, NORMS, PER_LAYER, ATTENTION, QK_NORMS, FFN, GEMMA4_EXPERTS],
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
    "blk.*.attn_k.weight",
    "blk.*.attn_v.weight",
    "blk.*.attn_k_norm.weight",
    // Of Gemma 3n, where its settings do without.
    "*.altup.correct_output_scale",
];

pub(super) const NORMS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm"),
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.pre_feedforward_layernorm"),
    tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"),
    tensor("blk.{}.layer_output_scale.weight", "model.layers.{}.layer_scalar"),
];

pub(super) const PER_LAYER: &[Entry] = &[
    tensor("per_layer_token_embd", "model.embed_tokens_per_layer").ordered(for_each_token),
    tensor("per_layer_model_proj", "model.per_layer_model_projection"),
    tensor("per_layer_proj_norm", "model.per_layer_projection_norm"),
    tensor("blk.{}.inp_gate", "model.layers.{}.per_layer_input_gate"),
    tensor("blk.{}.proj", "model.layers.{}.per_layer_projection"),
    tensor("blk.{}.post_norm", "model.layers.{}.post_per_layer_input_norm"),
];

const GATE_UP: (&str, &str) = ("blk.{}.ffn_gate_up_exps.weight", "model.layers.{}.experts.gate_up_proj");
const GEMMA4_EXPERTS: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.router.proj"),
    tensor("blk.{}.ffn_gate_inp.scale", "model.layers.{}.router.scale"),
    tensor("blk.{}.ffn_down_exps.scale", "model.layers.{}.router.per_expert_scale"),
    tensor("blk.{}.ffn_gate_exps", "model.layers.{}.experts.{e}.gate_proj").or_fused(GATE_UP.0, GATE_UP.1, 0, 2),
    tensor("blk.{}.ffn_up_exps", "model.layers.{}.experts.{e}.up_proj").or_fused(GATE_UP.0, GATE_UP.1, 1, 2),
    tensor("blk.{}.ffn_down_exps", "model.layers.{}.experts.{e}.down_proj").or_fused("", "model.layers.{}.experts.down_proj", 0, 1),
    tensor("blk.{}.pre_ffw_norm_2", "model.layers.{}.pre_feedforward_layernorm_2"),
    tensor("blk.{}.post_ffw_norm_1", "model.layers.{}.post_feedforward_layernorm_1"),
    tensor("blk.{}.post_ffw_norm_2", "model.layers.{}.post_feedforward_layernorm_2"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let logit_softcap = logit_softcap(s)?;
    let c = Decoder { embed_scale: (c.width as f32).sqrt(), logit_softcap, ..c };
    refuse(s)?;
    let layers = layers(s, &c)?;
    let act = s.activation("gelu_pytorch_tanh")?;
    let shares: Vec<bool> = layers.iter().map(|layer| layer.shares.is_some()).collect();
    let inner = inner_widths(s, &shares)?;
    let experts = Experts::read(s, act)?;
    let per_layer = PerLayer::read(s, act)?;
    let x = g.embed("token_embd", c.width, c.embed_scale);
    let extra = per_layer.embed(g, x, &c);
    let mut caches: Vec<StateId> = vec![];
    let x = g.layers(c.layers, x, |g, i, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let y = layers[i].attention(g, x, &mut caches, c.eps);
            c.norm(g, y, "post_attention_norm")
        });
        let y = c.norm(g, x, "ffn_norm");
        let y = g.gated_ffn(y, inner[i], act);
        let y = experts.as_ref().map_or(y, |experts| experts.beside(g, x, y, &c));
        let y = c.norm(g, y, "post_ffw_norm");
        let x = g.add(x, y);
        let x = match extra {
            Some(extra) => {
                let y = per_layer.part(g, i, x, extra, &c);
                g.add(x, y)
            }
            None => x,
        };
        g.with_short_weight(x, Binary::Mul, "layer_output_scale.weight", 1)
    });
    let x = g.select(x);
    let x = c.norm(g, x, c.output_norm);
    Ok(c.logits(g, x))
}

/// Refuses what is not known here.
fn refuse(s: &Settings<'_>) -> Result<()> {
    match s.text_or("use_bidirectional_attention", "", "vision")?.as_str() {
        // Text is seen one way; what sees says how images are.
        "vision" => Ok(()),
        other => Err(s.wrong("use_bidirectional_attention", "", format!("is `{other}`; only causal attention is known here"))),
    }
}

/// The bound on the logits. llama.cpp takes one of 30 where it is not told that there is none.
pub(super) fn logit_softcap(s: &Settings<'_>) -> Result<Option<f32>> {
    const KEY: &str = "final_logit_softcapping";
    let cap = s.optional_float(KEY, KEY)?.unwrap_or(0.0);
    if cap < 0.0 {
        return Err(s.wrong(KEY, KEY, format!("is {cap}, but should be positive")));
    }
    s.note(KEY, Meta::Float(cap));
    Ok(Some(cap as f32).filter(|cap| *cap > 0.0))
}

/// Widths of the feed-forward layers: one for all, or a list; layers that look at the keys and values of others may have twice the width.
pub(super) fn inner_widths(s: &Settings<'_>, shares: &[bool]) -> Result<Vec<usize>> {
    const KEYS: (&str, &str) = ("intermediate_size", "feed_forward_length");
    let wide = s.implied("use_double_wide_mlp", false)?;
    let stated = s.sizes(KEYS.0, KEYS.1, shares.len())?;
    let widths: Vec<usize> = stated.iter().zip(shares).map(|(n, shares)| if wide && *shares { 2 * n } else { *n }).collect();
    s.note_sizes(KEYS.1, &widths);
    Ok(widths)
}

/// A mixture of experts beside the feed-forward layer, whose router sees the stream before any norm of the layer.
struct Experts {
    spec: ExpertsSpec,
    top_k: usize,
}

impl Experts {
    fn read(s: &Settings<'_>, act: Function) -> Result<Option<Self>> {
        let there = match s.is_gguf() {
            true => s.count_or("", "expert_count", 0)? > 0,
            false => s.bool_or("enable_moe_block", "", false)?,
        };
        if !there {
            return Ok(None);
        }
        const TOP_K: (&str, &str) = ("top_k_experts|num_experts_per_tok", "expert_used_count");
        let experts = s.size_to("num_experts", "expert_count", 1 << 14)?;
        let inner = s.size("moe_intermediate_size|expert_intermediate_size", "expert_feed_forward_length")?;
        let top_k = s.size(TOP_K.0, TOP_K.1)?;
        if top_k > experts {
            return Err(s.wrong(TOP_K.0, TOP_K.1, format!("is {top_k}, but there are {experts} experts")));
        }
        Ok(Some(Self { spec: ExpertsSpec::new(experts, inner, act), top_k }))
    }

    /// `y`, which the feed-forward layer makes of the stream `x`, and what the experts make of it, each normalised.
    fn beside(&self, g: &mut Graph<'_>, x: Value, y: Value, c: &Decoder) -> Value {
        let y = c.norm(g, y, "post_ffw_norm_1");
        let seen = g.plain_norm(x, c.width, c.eps);
        let seen = g.scale(seen, 1.0 / (c.width as f32).sqrt());
        let seen = g.with_weight(seen, Binary::Mul, "ffn_gate_inp.scale");
        let logits = g.linear(seen, "ffn_gate_inp", self.spec.experts);
        let factors = g.optional_weight("ffn_down_exps.scale", &[self.spec.experts]);
        let route = g.route(logits, Route { normalize: true, factors, ..Route::new(self.top_k, Score::Softmax) });
        let z = c.norm(g, x, "pre_ffw_norm_2");
        let z = g.experts(z, route, &self.spec);
        let z = c.norm(g, z, "post_ffw_norm_2");
        g.add(y, z)
    }
}

/// An embedding of each token for each layer, which joins the stream at its end, gated by it.
pub(super) struct PerLayer {
    /// Numbers for each layer; 0 where there is no such embedding.
    pub(super) width: usize,
    /// Rows of the table, where it has not one for each token.
    rows: Option<usize>,
    act: Function,
}

/// The table's rows in `config.json`, where they are not those of the vocabulary.
const TABLE_ROWS: &str = "vocab_size_per_layer_input";

/// GGUF files have a row for each token; those that are beyond the table have its first.
fn for_each_token(s: &Settings<'_>) -> Result<Order> {
    let vocabulary = s.vocabulary(None)?;
    let rows = s.optional_size_to(TABLE_ROWS, "", 1 << 24)?.unwrap_or(vocabulary);
    Ok(Order::Rows((0..vocabulary.max(rows)).map(|i| if i < rows { i } else { 0 }).collect()))
}

impl PerLayer {
    pub(super) fn read(s: &Settings<'_>, act: Function) -> Result<Self> {
        let rows = if s.is_gguf() { None } else { s.optional_size_to(TABLE_ROWS, "", 1 << 24)? };
        Ok(Self { width: s.count_or("hidden_size_per_layer_input", "embedding_length_per_layer_input", 0)?, rows, act })
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
