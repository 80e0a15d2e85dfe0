//! Multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434): keys and values of a token are made of one small vector, the latent,
//! and a part of the key that turns. The matrices that would make them are applied to the queries and to what the heads mix instead, so
//! that the cache holds the latent and the part that turns, and all heads share them.

use super::blocks::Decoder;
use crate::{
    Result,
    names::{Entry, Order, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{AttentionSpec, Graph, Rope, RopeStyle, Value};

/// Names below the module `$module` of a layer, whose output is projected by `$output`. GGUF files hold `attn_kv_b` as two stacks of
/// matrices, one for each head; older ones hold it whole.
macro_rules! latent {
    ($module:literal, $output:literal) => {
        &[
            tensor("blk.{}.attn_q", concat!("model.layers.{}.", $module, ".q_proj")),
            tensor("blk.{}.attn_q_a", concat!("model.layers.{}.", $module, ".q_a_proj")),
            tensor("blk.{}.attn_q_a_norm", concat!("model.layers.{}.", $module, ".q_a_layernorm")),
            tensor("blk.{}.attn_q_b", concat!("model.layers.{}.", $module, ".q_b_proj")),
            tensor("blk.{}.attn_kv_a_mqa", concat!("model.layers.{}.", $module, ".kv_a_proj_with_mqa")),
            tensor("blk.{}.attn_kv_a_norm", concat!("model.layers.{}.", $module, ".kv_a_layernorm")),
            tensor("blk.{}.attn_kv_b", concat!("model.layers.{}.", $module, ".kv_b_proj")),
            tensor("blk.{}.attn_k_b.weight", "")
                .of_heads("blk.{}.attn_kv_b.weight", concat!("model.layers.{}.", $module, ".kv_b_proj.weight"), false)
                .ordered(|_| Ok(Order::Transposed)),
            tensor("blk.{}.attn_v_b.weight", "").of_heads(
                "blk.{}.attn_kv_b.weight",
                concat!("model.layers.{}.", $module, ".kv_b_proj.weight"),
                true,
            ),
            tensor("blk.{}.attn_output", concat!("model.layers.{}.", $module, ".", $output)),
        ]
    };
}
/// Names of an attention layer.
pub(super) const LATENT: &[Entry] = latent!("self_attn", "o_proj");
/// Names of one of Ling 3.
pub(super) const BAILING_LATENT: &[Entry] = latent!("attention", "dense");

/// Names of an indexer.
pub(super) const INDEXER: &[Entry] = &[
    tensor("blk.{}.indexer.attn_q_b", "model.layers.{}.self_attn.indexer.wq_b"),
    tensor("blk.{}.indexer.attn_k", "model.layers.{}.self_attn.indexer.wk"),
    tensor("blk.{}.indexer.k_norm", "model.layers.{}.self_attn.indexer.k_norm"),
    tensor("blk.{}.indexer.proj", "model.layers.{}.self_attn.indexer.weights_proj"),
];

/// The matrices that make keys and values, of which GGUF files hold both in one.
pub(super) const WHOLE_LATENT: &[Entry] = &[
    tensor("blk.{}.attn_k_b.weight", "").of_heads(WHOLE.0, WHOLE.1, false).whole(),
    tensor("blk.{}.attn_v_b.weight", "").of_heads(WHOLE.0, WHOLE.1, true).whole(),
];
const WHOLE: (&str, &str) = ("blk.{}.attn_kv_b.weight", "model.layers.{}.self_attn.kv_b_proj.weight");

/// What chooses the tokens that a token attends to, the same for all heads (DeepSeek-AI 2025, arXiv:2512.02556).
#[derive(Clone, Debug)]
pub(super) struct Indexer {
    heads: usize,
    head: usize,
    /// Tokens that are chosen.
    top: usize,
    rope: Option<Rope>,
}

impl Indexer {
    /// `source` is what queries are made of. The scores' factors are left out, as they do not change the order.
    pub(super) fn build(&self, g: &mut Graph<'_>, x: Value, source: Value) -> Value {
        let q = g.linear(source, "indexer.attn_q_b", self.heads * self.head);
        let q = turned(g, q, self.head, self.rope.as_ref());
        let k = g.linear(x, "indexer.attn_k", self.head);
        let k = g.layer_norm(k, "indexer.k_norm", 1e-6);
        let k = turned(g, k, self.head, self.rope.as_ref());
        let weights = g.linear(x, "indexer.proj", self.heads);
        g.index(q, k, Some(weights), 1, self.top)
    }
}

/// The shape of the attention layers.
#[derive(Clone, Debug)]
pub(super) struct Latent {
    pub(super) heads: usize,
    /// Numbers of a head's query and key that do not turn, and that do.
    still: usize,
    turning: usize,
    /// Numbers of a head's value.
    value: usize,
    /// Width of the latent, and of what queries are made of where they are made in two steps.
    rank: usize,
    q_rank: Option<usize>,
    rope: Option<Rope>,
    /// Factor on the scores.
    scale: f32,
    /// Factors on the queries and on the latent.
    q_scale: f32,
    latent_scale: f32,
    /// Added to the mean squares of the inner norms.
    eps: f32,
    /// By how much queries grow, and over how many tokens.
    growth: Option<(f32, usize)>,
}

impl Latent {
    /// `style` is how Hugging Face checkpoints pair the dimensions that turn; `eps` the epsilon of the other norms.
    pub(super) fn read(s: &Settings<'_>, style: RopeStyle, eps: f32) -> Result<Self> {
        const HEADS: (&str, &str) = ("num_attention_heads", "attention.head_count");
        let heads = s.size(HEADS.0, HEADS.1)?;
        let rank = s.size("kv_lora_rank", "attention.kv_lora_rank")?;
        let q_rank = s.optional_size("q_lora_rank", "attention.q_lora_rank")?;
        let [still, turning, value] = if s.is_gguf() { gguf_widths(s, heads)? } else { hf_widths(s, heads)? };
        // Some state which part of a whole head turns.
        let stated = s.json("rope_parameters.partial_rotary_factor").is_some_and(|part| part.as_f64() != Some(1.0));
        let rope = s.rotary(turning, Rotary { hf: style, whole_head: stated.then_some(still + turning), ..Rotary::new(style) })?;
        if rope.dims() != turning {
            let what = format!("makes {} dimensions turn, but `qk_rope_head_dim` is {turning}", rope.dims());
            return Err(s.wrong("rope_parameters.partial_rotary_factor", "rope.dimension_count", what));
        }
        let rope = Some(rope);
        for (key, n) in [
            ("attention.head_count_kv", 1),
            ("attention.key_length", rank + turning),
            ("attention.value_length", rank),
            ("attention.key_length_mla", still + turning),
            ("attention.value_length_mla", value),
        ] {
            s.note(key, Meta::Unsigned(n as u64));
        }
        let scale = s.yarn_temperature(turning)? / ((still + turning) as f32).sqrt();
        // transformers leaves the epsilon of the inner norms at its default; llama.cpp knows only one.
        let eps = if s.is_gguf() { eps } else { 1e-6 };
        Ok(Self { heads, still, turning, value, rank, q_rank, rope, scale, q_scale: 1.0, latent_scale: 1.0, eps, growth: None })
    }

    /// Notes the widths as GGUF files state them that hold the matrices of keys and values whole.
    pub(super) fn note_whole(&self, s: &Settings<'_>) {
        for (key, n) in [
            ("attention.head_count_kv", self.heads),
            ("attention.key_length", self.still + self.turning),
            ("attention.value_length", self.value),
        ] {
            s.note(key, Meta::Unsigned(n as u64));
        }
    }

    /// The same with factors on the queries and on the latent.
    pub(super) fn scaled(self, q_scale: f32, latent_scale: f32) -> Self {
        Self { q_scale, latent_scale, ..self }
    }

    /// The same with queries that grow with the position.
    pub(super) fn growing(self, growth: Option<(f32, usize)>) -> Self {
        Self { growth, ..self }
    }

    /// An indexer for the same positions, which pairs dimensions in its own way.
    pub(super) fn indexer(&self, s: &Settings<'_>, style: RopeStyle) -> Result<Indexer> {
        let head = s.size("index_head_dim", "attention.indexer.key_length")?;
        if self.turning > head {
            return Err(s.wrong("index_head_dim", "attention.indexer.key_length", format!("is {head}, but {} turn", self.turning)));
        }
        Ok(Indexer {
            heads: s.size("index_n_heads", "attention.indexer.head_count")?,
            head,
            top: s.size("index_topk", "attention.indexer.top_k")?,
            rope: self.rope.clone().map(|rope| Rope { style, ..rope }),
        })
    }

    /// The same where nothing turns.
    pub(super) fn unturned(self) -> Self {
        Self { rope: None, ..self }
    }

    /// Attention over `x`; `prefix` stands before the names of all weights.
    pub(super) fn build(&self, g: &mut Graph<'_>, x: Value, prefix: &str) -> Value {
        self.build_indexed(g, x, prefix, |_, _| None)
    }

    /// Attention over the positions that `choose` gives, or over all. It is given what queries are made of.
    pub(super) fn build_indexed(
        &self,
        g: &mut Graph<'_>,
        x: Value,
        prefix: &str,
        choose: impl FnOnce(&mut Graph<'_>, Value) -> Option<Value>,
    ) -> Value {
        let y = self.mix_indexed(g, x, prefix, choose);
        g.linear(y, &format!("{prefix}attn_output"), g.width(x))
    }

    /// What the heads make of `x`.
    pub(super) fn mix(&self, g: &mut Graph<'_>, x: Value, prefix: &str) -> Value {
        self.mix_indexed(g, x, prefix, |_, _| None)
    }

    fn mix_indexed(&self, g: &mut Graph<'_>, x: Value, prefix: &str, choose: impl FnOnce(&mut Graph<'_>, Value) -> Option<Value>) -> Value {
        let &Self { heads, still, turning, value, rank, .. } = self;
        let name = |name: &str| format!("{prefix}{name}");
        let (source, q) = match self.q_rank {
            Some(rank) => {
                let q = g.linear(x, &name("attn_q_a"), rank);
                (g.rms_norm(q, &name("attn_q_a_norm"), self.eps), "attn_q_b")
            }
            None => (x, "attn_q"),
        };
        let q = g.linear(source, &name(q), heads * (still + turning));
        let q = g.scale(q, self.q_scale);
        let (q, q_turning) = (g.slice(q, heads, 0, still), g.slice(q, heads, still, turning));
        let q_turning = turned(g, q_turning, turning, self.rope.as_ref());

        let both = g.linear(x, &name("attn_kv_a_mqa"), rank + turning);
        let (latent, k_turning) = (g.slice(both, 1, 0, rank), g.slice(both, 1, rank, turning));
        let latent = g.rms_norm(latent, &name("attn_kv_a_norm"), self.eps);
        let latent = g.scale(latent, self.latent_scale);
        let k_turning = turned(g, k_turning, turning, self.rope.as_ref());

        // Where the matrices are not split yet, those of the keys are stored the other way.
        let whole = g.has(&name("attn_kv_b.weight"), &[heads * (still + value), rank]);
        let q = g.head_linear(q, &name("attn_k_b"), heads, rank, whole);
        let q = g.concat(q, q_turning, heads);
        let q = self.growth.map_or(q, |(beta, every)| g.position_scale(q, beta, every, 0));
        let k = g.concat(latent, k_turning, 1);
        let spec = AttentionSpec { key: rank + turning, value: rank, scale: self.scale, ..AttentionSpec::causal(heads, 1, rank) };
        let y = match choose(g, source) {
            Some(only) => g.sparse_attention(q, k, latent, only, &spec),
            None => g.attention(q, k, latent, &spec),
        };
        g.head_linear(y, &name("attn_v_b"), heads, value, false)
    }
}

fn turned(g: &mut Graph<'_>, x: Value, head: usize, rope: Option<&Rope>) -> Value {
    rope.map_or(x, |rope| g.rope(x, head, rope))
}

/// Numbers of a head that do not turn, that do, and of its value.
fn hf_widths(s: &Settings<'_>, heads: usize) -> Result<[usize; 3]> {
    let value = match s.optional_size("v_head_dim", "")? {
        Some(value) => value,
        None => s.size("hidden_size", "embedding_length")? / heads,
    };
    Ok([s.size("qk_nope_head_dim", "")?, s.size("qk_rope_head_dim", "")?, value])
}

/// The same from GGUF metadata, which has them under other names since matrices are split.
fn gguf_widths(s: &Settings<'_>, heads: usize) -> Result<[usize; 3]> {
    const KEY: &str = "attention.key_length";
    let key = match s.optional_size("", "attention.key_length_mla")? {
        Some(key) => key,
        None => s.size("", KEY)?,
    };
    let value = match s.optional_size("", "attention.value_length_mla")? {
        Some(value) => value,
        None => match s.optional_size("", "attention.value_length")? {
            Some(value) => value,
            None => Decoder::width(s)? / heads,
        },
    };
    let turning = s.size("", "rope.dimension_count")?;
    match key.checked_sub(turning).filter(|still| *still > 0) {
        Some(still) => Ok([still, turning, value]),
        None => Err(s.wrong("", KEY, format!("leaves nothing of {key} numbers beside the {turning} that turn"))),
    }
}
