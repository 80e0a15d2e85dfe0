//! Falcon (Almazrouei et al. 2023, arXiv:2311.16867): attention and feed-forward layer side by side, on one norm (7B, 11B) or a norm
//! each (40B, 180B), with one key and value for all heads or for groups of them; the RefinedWeb models (rw-1b) have linear
//! biases, and one after the other. Reference code: transformers' `modeling_falcon.py`, which rounds the biases to bf16; here
//! they are exact.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static FALCON: Arch = Arch {
    hf: &["falcon", "RefinedWebModel", "RefinedWeb"],
    gguf: &["falcon"],
    tensors: &[TRUNK, LAYERS],
    ignored: &["*.self_attention.maybe_rotary.inv_freq"],
    plan,
};

const TRUNK: &[Entry] = &[tensor("token_embd", "model.word_embeddings"), tensor("output_norm", "model.ln_f"), tensor("output", "lm_head")];

const LAYERS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.h.{}.ln_mlp").or("model.h.{}.input_layernorm"),
    tensor("blk.{}.attn_norm_2", "model.h.{}.ln_attn"),
    tensor("blk.{}.ffn_norm", "model.h.{}.post_attention_layernorm"),
    tensor("blk.{}.attn_qkv", "model.h.{}.self_attention.query_key_value").ordered(|s| Ok(heads(s)?.ungrouped())),
    tensor("blk.{}.attn_output", "model.h.{}.self_attention.dense"),
    tensor("blk.{}.ffn_up", "model.h.{}.mlp.dense_h_to_4h"),
    tensor("blk.{}.ffn_down", "model.h.{}.mlp.dense_4h_to_h"),
];

/// Each key/value head lies behind its queries.
fn heads(s: &Settings<'_>) -> Result<Heads> {
    let (width, heads) = (Decoder::width(s)?, Heads::count(s)?);
    let shared = s.implied("multi_query", true)? && !s.implied(NEW, false)?;
    let kv_heads = if shared { 1 } else { s.optional_size("num_kv_heads|n_head_kv", "")?.unwrap_or(heads) };
    let usual = Heads::with(s, width, heads, kv_heads)?;
    let alibi = s.implied("alibi|use_alibi", false)?.then_some((8.0, usual.scale));
    s.hf_only(alibi.is_some(), "it has linear biases");
    let biased = s.implied("bias", false)?;
    s.hf_only(biased, "it has biases");
    Ok(Heads { alibi, biased, fused: Fused::runs(if s.is_gguf() { 1 } else { kv_heads }), ..usual })
}

/// The architecture of 40B and later.
const NEW: &str = "new_decoder_architecture";

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read_layer_norm(s, "layer_norm_epsilon")?;
    let heads = heads(s)?;
    let rope = if heads.alibi.is_none() { Some(s.rope(heads.head, RopeStyle::Halves)?) } else { None };
    let inner = feed_forward_width(s, c.width)?;
    let act = s.activation("gelu")?;
    let new = s.implied(NEW, false)?;
    let parallel = new || s.implied("parallel_attn", true)?;
    s.hf_only(!parallel, "its attention and feed-forward layers follow each other");
    let norms = s.optional_size("num_ln_in_parallel_attn", "")?.unwrap_or(if new { 2 } else { 1 });
    let two = if s.is_gguf() { g.has("blk.0.attn_norm_2.weight", &[c.width]) } else { new && norms == 2 };
    Ok(c.build(g, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| if let Some(rope) = &rope { g.rope(q, heads.head, rope) } else { q };
        let attention = |g: &mut Graph<'_>, x| heads.attention(g, x, Mask::Causal, turn);
        let feed_forward = |g: &mut Graph<'_>, x| g.ffn(x, inner, act);
        if parallel {
            let norms = if two { ["attn_norm_2", "attn_norm"] } else { ["attn_norm"; 2] };
            return c.parallel_with(g, x, norms, attention, feed_forward);
        }
        let x = c.residual(g, x, "attn_norm", attention);
        c.residual(g, x, "ffn_norm", feed_forward)
    }))
}
