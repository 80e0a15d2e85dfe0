//! BLOOM (BigScience 2022, arXiv:2211.05100): linear biases on the scores in place of positions (ALiBi, Press et al. 2021,
//! arXiv:2108.12409), a norm behind the embedding, and biases everywhere. Reference code: transformers' `modeling_bloom.py`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value};

pub(crate) static BLOOM: Arch = Arch { hf: &["bloom"], gguf: &["bloom"], tensors: &[TRUNK, LAYERS], ignored: &[], plan };

const TRUNK: &[Entry] = &[
    tensor("token_embd", "model.word_embeddings"),
    tensor("token_embd_norm", "model.word_embeddings_layernorm"),
    tensor("output_norm", "model.ln_f"),
    tensor("output", "lm_head"),
];

const LAYERS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.h.{}.input_layernorm"),
    tensor("blk.{}.attn_qkv", "model.h.{}.self_attention.query_key_value").ordered(|s| Ok(heads(s)?.ungrouped())),
    tensor("blk.{}.attn_output", "model.h.{}.self_attention.dense"),
    tensor("blk.{}.ffn_norm", "model.h.{}.post_attention_layernorm"),
    tensor("blk.{}.ffn_up", "model.h.{}.mlp.dense_h_to_4h"),
    tensor("blk.{}.ffn_down", "model.h.{}.mlp.dense_4h_to_h"),
];

/// Each head has its query, key and value in a run.
fn heads(s: &Settings<'_>) -> Result<Heads> {
    let heads = Heads::read(s, Decoder::width(s)?)?;
    Ok(Heads { biased: true, alibi: Some((8.0, 1.0)), fused: Fused::runs(if s.is_gguf() { 1 } else { heads.heads }), ..heads })
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    const KEY: &str = "apply_residual_connection_post_layernorm";
    if s.implied(KEY, false)? {
        return Err(s.wrong(KEY, "", "is true; residual connections behind the norm are not known here"));
    }
    let c = Decoder::read_layer_norm(s, "layer_norm_epsilon")?;
    let heads = heads(s)?;
    let inner = feed_forward_width(s, c.width)?;
    let act = s.activation("gelu_new")?;
    let x = g.embed("token_embd", c.width, 1.0);
    let x = c.norm(g, x, "token_embd_norm");
    Ok(c.build_on(g, x, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, |_, q, _| q));
        c.residual(g, x, "ffn_norm", |g, x| g.ffn(x, inner, act))
    }))
}
