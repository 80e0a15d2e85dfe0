//! What repeats between architectures.

use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{AttentionSpec, Graph, Mask, Value};

/// Names of the trunk of nearly all decoders.
pub(crate) const TRUNK: &[Entry] =
    &[tensor("token_embd", "model.embed_tokens"), tensor("output_norm", "model.norm"), tensor("output", "lm_head")];

/// Names of the norms before attention and feed-forward layer.
pub(crate) const PRE_NORMS: &[Entry] =
    &[tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm"), tensor("blk.{}.ffn_norm", "model.layers.{}.post_attention_layernorm")];

/// Names of an attention layer whose heads both sources store alike.
pub(crate) const ATTENTION: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"),
    tensor("blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"),
    tensor("blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"),
    tensor("blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"),
];

/// Names of the norms of queries and keys.
pub(crate) const QK_NORMS: &[Entry] =
    &[tensor("blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_norm"), tensor("blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_norm")];

/// Names of a gated feed-forward layer.
pub(crate) const FFN: &[Entry] = &[
    tensor("blk.{}.ffn_gate", "model.layers.{}.mlp.gate_proj"),
    tensor("blk.{}.ffn_up", "model.layers.{}.mlp.up_proj"),
    tensor("blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"),
];

/// A pre-norm decoder (Xiong et al. 2020, arXiv:2002.04745) with RMSNorm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder {
    pub(crate) width: usize,
    pub(crate) layers: usize,
    pub(crate) eps: f32,
}

impl Decoder {
    pub(crate) fn read(s: &Settings<'_>) -> Result<Self> {
        Ok(Self {
            width: s.size("hidden_size", "embedding_length")?,
            layers: s.layers()?,
            eps: s.epsilon("rms_norm_eps", "attention.layer_norm_rms_epsilon")?,
        })
    }

    /// Embedding, `layer` for each layer, final norm, logits.
    pub(crate) fn build(&self, g: &mut Graph<'_>, layer: impl FnMut(&mut Graph<'_>, usize, Value) -> Value) -> Value {
        let x = g.embed("token_embd", self.width, 1.0);
        let x = g.layers(self.layers, x, layer);
        let x = g.select(x);
        let x = g.rms_norm(x, "output_norm", self.eps);
        g.head(x)
    }

    /// `x + f(norm(x))`.
    pub(crate) fn residual(&self, g: &mut Graph<'_>, x: Value, norm: &str, f: impl FnOnce(&mut Graph<'_>, Value) -> Value) -> Value {
        let h = g.rms_norm(x, norm, self.eps);
        let y = f(g, h);
        g.add(x, y)
    }
}

/// Grouped-query attention with rotary embedding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head: usize,
}

impl Heads {
    /// The heads of a model of `width`.
    pub(crate) fn read(s: &Settings<'_>, width: usize) -> Result<Self> {
        let heads = s.size("num_attention_heads", "attention.head_count")?;
        let kv_heads = s.size_or("num_key_value_heads", "attention.head_count_kv", heads)?;
        if !heads.is_multiple_of(kv_heads) {
            return Err(s.wrong(
                "num_key_value_heads",
                "attention.head_count_kv",
                format!("is {kv_heads}, which does not divide {heads} heads"),
            ));
        }
        let head = match s.optional_size("head_dim", "attention.key_length")? {
            Some(head) => head,
            None if width.is_multiple_of(heads) => width / heads,
            None => {
                return Err(s.wrong(
                    "num_attention_heads",
                    "attention.head_count",
                    format!("is {heads}, which does not divide the width {width}"),
                ));
            }
        };
        s.note("attention.key_length", Meta::Unsigned(head as u64));
        let value = if s.is_gguf() { s.size_or("", "attention.value_length", head)? } else { head };
        if value != head {
            return Err(s.wrong("", "attention.value_length", format!("is {value}, but keys have {head} numbers in a head")));
        }
        s.note("attention.value_length", Meta::Unsigned(head as u64));
        Ok(Self { heads, kv_heads, head })
    }

    /// Attention over `x`: queries and keys pass `prepare` (norms, rotation), which gets their name.
    pub(crate) fn attention(
        &self,
        g: &mut Graph<'_>,
        x: Value,
        mask: Mask,
        prepare: impl Fn(&mut Graph<'_>, Value, &str) -> Value,
    ) -> Value {
        let width = g.width(x);
        let q = g.linear(x, "attn_q", self.heads * self.head);
        let k = g.linear(x, "attn_k", self.kv_heads * self.head);
        let v = g.linear(x, "attn_v", self.kv_heads * self.head);
        let q = prepare(g, q, "attn_q");
        let k = prepare(g, k, "attn_k");
        let y = g.attention(q, k, v, &AttentionSpec { mask, ..AttentionSpec::causal(self.heads, self.kv_heads, self.head) });
        g.linear(y, "attn_output", width)
    }
}
