//! GPT-NeoX (Black et al. 2022, arXiv:2204.06745) and Pythia: attention and feed-forward layer side by side with a norm each, a part of
//! each head that turns, and biases everywhere. Reference code: transformers' `modeling_gpt_neox.py`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static GPT_NEOX: Arch = Arch {
    hf: &["gpt_neox"],
    gguf: &["gptneox"],
    tensors: &[TRUNK, PRE_NORMS, MATRICES],
    ignored: &["*.attention.bias", "*.attention.masked_bias"],
    plan,
};

const TRUNK: &[Entry] =
    &[tensor("token_embd", "model.embed_in"), tensor("output_norm", "model.final_layer_norm"), tensor("output", "embed_out")];

const MATRICES: &[Entry] = &[
    tensor("blk.{}.attn_qkv", "model.layers.{}.attention.query_key_value").ordered(|s| Ok(heads(s)?.ungrouped())),
    tensor("blk.{}.attn_output", "model.layers.{}.attention.dense"),
    tensor("blk.{}.ffn_up", "model.layers.{}.mlp.dense_h_to_4h"),
    tensor("blk.{}.ffn_down", "model.layers.{}.mlp.dense_4h_to_h"),
];

/// Each head has its query, key and value in a run.
fn heads(s: &Settings<'_>) -> Result<Heads> {
    let heads = Heads::read(s, Decoder::width(s)?)?;
    let biased = s.implied("attention_bias", true)?;
    s.hf_only(!biased, "its attention has no biases");
    Ok(Heads { biased, fused: Fused::runs(if s.is_gguf() { 1 } else { heads.heads }), ..heads })
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read_layer_norm(s, "layer_norm_eps")?;
    let heads = heads(s)?;
    let rope = s.rotary(heads.head, Rotary { part: 0.25, ..Rotary::new(RopeStyle::Halves) })?;
    let inner = feed_forward_width(s, c.width)?;
    let act = s.activation("gelu")?;
    let parallel = s.bool_or("use_parallel_residual", "use_parallel_residual", true)?;
    s.note_own_output();
    Ok(c.build(g, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let attention = |g: &mut Graph<'_>, x| heads.attention(g, x, Mask::Causal, turn);
        let feed_forward = |g: &mut Graph<'_>, x| g.ffn(x, inner, act);
        if parallel {
            return c.parallel_with(g, x, ["attn_norm", "ffn_norm"], attention, feed_forward);
        }
        let x = c.residual(g, x, "attn_norm", attention);
        c.residual(g, x, "ffn_norm", feed_forward)
    }))
}
