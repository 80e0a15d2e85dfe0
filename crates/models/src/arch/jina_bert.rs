//! Jina embeddings 2 (Günther et al. 2023, arXiv:2310.19923): BERT with linear biases by the distance, both ways, in place of positions,
//! and gated feed-forward layers. The one for code normalises queries and keys, and adds to the input of attention twice. Reference: the
//! code that came with the checkpoints, `jina-bert-implementation` and `jina-bert-v2-qk-post-norm`.

use super::{
    Arch,
    bert::{EMBEDDINGS, HEADS},
    blocks::Heads,
    encoder::{Encoder, add_token_types},
};
use crate::{
    Result,
    names::{Entry, part, tensor},
    settings::Settings,
};
use onebit_plan::{Function, Graph, Mask, Value};

pub(crate) static JINA_BERT_V2: Arch =
    Arch { hf: &["jina-bert-v2"], gguf: &["jina-bert-v2"], tensors: &[EMBEDDINGS, ATTENTION, FFN], ignored: HEADS, plan };

pub(crate) static JINA_BERT_V2_CODE: Arch =
    Arch { hf: &["jina-bert-v2-code"], gguf: &["jina-bert-v2"], tensors: &[EMBEDDINGS, ATTENTION, CODE_FFN], ignored: HEADS, plan };

const ATTENTION: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.encoder.layer.{}.attention.self.query"),
    tensor("blk.{}.attn_k", "model.encoder.layer.{}.attention.self.key"),
    tensor("blk.{}.attn_v", "model.encoder.layer.{}.attention.self.value"),
    tensor("blk.{}.attn_q_norm", "model.encoder.layer.{}.attention.self.layer_norm_q"),
    tensor("blk.{}.attn_k_norm", "model.encoder.layer.{}.attention.self.layer_norm_k"),
    tensor("blk.{}.attn_output", "model.encoder.layer.{}.attention.output.dense"),
    tensor("blk.{}.attn_output_norm", "model.encoder.layer.{}.attention.output.LayerNorm"),
    tensor("blk.{}.attn_norm_2", "model.encoder.layer.{}.layer_norm_1"),
];

const FFN: &[Entry] = &[
    part("blk.{}.ffn_gate", "model.encoder.layer.{}.mlp.gated_layers.weight", 0, 2),
    part("blk.{}.ffn_up", "model.encoder.layer.{}.mlp.gated_layers.weight", 1, 2),
    tensor("blk.{}.ffn_down", "model.encoder.layer.{}.mlp.wo"),
    tensor("blk.{}.layer_output_norm", "model.encoder.layer.{}.mlp.layernorm"),
];

/// The gate comes behind what it gates.
const CODE_FFN: &[Entry] = &[
    part("blk.{}.ffn_gate", "model.encoder.layer.{}.mlp.up_gated_layer.weight", 1, 2),
    part("blk.{}.ffn_up", "model.encoder.layer.{}.mlp.up_gated_layer.weight", 0, 2),
    tensor("blk.{}.ffn_down", "model.encoder.layer.{}.mlp.down_layer"),
    tensor("blk.{}.layer_output_norm", "model.encoder.layer.{}.layer_norm_2"),
];

/// The largest exponent of the slopes.
const MAX: f32 = 8.0;

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let e = Encoder::read(s, 1e-12)?;
    let kind = s.text_or("feed_forward_type", "", "geglu")?;
    if kind != "geglu" {
        return Err(s.wrong("feed_forward_type", "", format!("is `{kind}`; known is geglu")));
    }
    let heads = Heads { alibi: Some((MAX, 1.0)), ..e.heads };
    let x = g.embed("token_embd", e.c.width, 1.0);
    let x = add_token_types(s, g, x, 2)?;
    let x = e.c.norm(g, x, "token_embd_norm");
    let has = |g: &Graph<'_>, norm: &str| g.has(&format!("{norm}.weight"), &[e.c.width]);
    let attention = |g: &mut Graph<'_>, _, x| {
        let prepare = |g: &mut Graph<'_>, q, name: &str| {
            let norm = format!("{name}_norm");
            if has(g, &norm) { e.c.norm(g, q, &norm) } else { q }
        };
        let y = heads.attention(g, x, Mask::Full, prepare);
        if !has(g, "attn_norm_2") {
            return y;
        }
        let y = g.add(x, y);
        e.c.norm(g, y, "attn_output_norm")
    };
    let feed_forward = |g: &mut Graph<'_>, _, x| {
        // llama.cpp's files may hold both in one matrix.
        if g.has("ffn_gate.weight", &[e.inner, e.c.width]) {
            g.gated_ffn(x, e.inner, Function::Gelu)
        } else {
            g.fused_gated_ffn(x, e.inner, Function::Gelu)
        }
    };
    Ok(e.build_with(g, x, |g| if has(g, "attn_norm_2") { "attn_norm_2" } else { "attn_output_norm" }, attention, feed_forward))
}
