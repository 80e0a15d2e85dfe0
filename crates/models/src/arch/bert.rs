//! BERT (Devlin et al. 2018, arXiv:1810.04805): an encoder with learned positions and kinds of tokens, and its descendants that differ
//! in little: RoBERTa (Liu et al. 2019, arXiv:1907.11692) and XLM-RoBERTa (Conneau et al. 2019, arXiv:1911.02116) count positions from
//! behind the padding token, ELECTRA (Clark et al. 2020, arXiv:2003.10555) may have narrower embeddings, DistilBERT (Sanh et al. 2019,
//! arXiv:1910.01108) has no kinds of tokens. Reference: transformers' `models/bert`, `roberta`, `xlm_roberta`, `electra`, `distilbert`.

use super::{
    Arch,
    blocks::Heads,
    encoder::{Encoder, add_token_types},
};
use crate::{
    Result,
    names::{Entry, Order, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Graph, Mask, Value};

pub(crate) static BERT: Arch =
    Arch { hf: &["bert"], gguf: &["bert"], tensors: &[EMBEDDINGS, POSITIONS, LAYERS], ignored: HEADS, plan: |s, g| plan(s, g, 2) };

pub(crate) static ELECTRA: Arch =
    Arch { hf: &["electra"], gguf: &[], tensors: &[EMBEDDINGS, POSITIONS, LAYERS], ignored: HEADS, plan: |s, g| plan(s, g, 2) };

pub(crate) static ROBERTA: Arch = Arch {
    hf: &["roberta", "xlm-roberta"],
    gguf: &["bert"],
    tensors: &[EMBEDDINGS, LATER_POSITIONS, LAYERS],
    ignored: HEADS,
    plan: |s, g| {
        let first = first_position(s)?;
        let context = g.context().checked_sub(first).filter(|n| *n > 0);
        let Some(context) = context else {
            return Err(s.wrong("pad_token_id", "", format!("leaves no positions: the first is {first} of {}", g.context())));
        };
        s.note("context_length", Meta::Unsigned(context as u64));
        g.limit_context(context);
        plan(s, g, 2)
    },
};

pub(crate) static DISTILBERT: Arch =
    Arch { hf: &["distilbert"], gguf: &["bert"], tensors: &[EMBEDDINGS, POSITIONS, DISTILLED], ignored: HEADS, plan: |s, g| plan(s, g, 0) };

/// What stands on top of an encoder for other tasks than embedding.
pub(crate) const HEADS: &[&str] = &[
    "*pooler.*",
    "cls.*",
    "lm_head.*",
    "classifier.*",
    "pre_classifier.*",
    "qa_outputs.*",
    "vocab_*",
    "*generator_*",
    "*discriminator_*",
    "*position_ids",
    "*token_type_ids",
];

pub(crate) const EMBEDDINGS: &[Entry] = &[
    tensor("token_embd", "model.embeddings.word_embeddings"),
    tensor("token_types", "model.embeddings.token_type_embeddings"),
    tensor("token_embd_norm", "model.embeddings.LayerNorm"),
    tensor("token_embd_proj", "model.embeddings_project").or("model.embeddings.embed_proj"),
];

pub(crate) const POSITIONS: &[Entry] = &[tensor("position_embd", "model.embeddings.position_embeddings")];

/// GGUF files leave out the rows before the first position.
const LATER_POSITIONS: &[Entry] = &[tensor("position_embd", "model.embeddings.position_embeddings").ordered(|s| {
    let (first, rows) = (first_position(s)?, s.context()?);
    Ok(Order::Rows((first..rows).collect()))
})];

const LAYERS: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.encoder.layer.{}.attention.self.query"),
    tensor("blk.{}.attn_k", "model.encoder.layer.{}.attention.self.key"),
    tensor("blk.{}.attn_v", "model.encoder.layer.{}.attention.self.value"),
    tensor("blk.{}.attn_qkv", ""),
    tensor("blk.{}.attn_output", "model.encoder.layer.{}.attention.output.dense"),
    tensor("blk.{}.attn_output_norm", "model.encoder.layer.{}.attention.output.LayerNorm"),
    tensor("blk.{}.ffn_up", "model.encoder.layer.{}.intermediate.dense"),
    tensor("blk.{}.ffn_down", "model.encoder.layer.{}.output.dense"),
    tensor("blk.{}.layer_output_norm", "model.encoder.layer.{}.output.LayerNorm"),
];

const DISTILLED: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.transformer.layer.{}.attention.q_lin"),
    tensor("blk.{}.attn_k", "model.transformer.layer.{}.attention.k_lin"),
    tensor("blk.{}.attn_v", "model.transformer.layer.{}.attention.v_lin"),
    tensor("blk.{}.attn_output", "model.transformer.layer.{}.attention.out_lin"),
    tensor("blk.{}.attn_output_norm", "model.transformer.layer.{}.sa_layer_norm"),
    tensor("blk.{}.ffn_up", "model.transformer.layer.{}.ffn.lin1"),
    tensor("blk.{}.ffn_down", "model.transformer.layer.{}.ffn.lin2"),
    tensor("blk.{}.layer_output_norm", "model.transformer.layer.{}.output_layer_norm"),
];

/// The row of the first token in the table of positions: the one behind that of the padding token.
fn first_position(s: &Settings<'_>) -> Result<usize> {
    if s.is_gguf() { Ok(0) } else { Ok(s.count_or("pad_token_id", "", 1)? + 1) }
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, types: usize) -> Result<Value> {
    let e = Encoder::read(s, 1e-12)?;
    let act = s.activation("gelu")?;
    let width = s.size_or("embedding_size", "", e.c.width)?;
    let roberta = s.json("model_type").and_then(|v| v.as_str()).is_some_and(|name| name.contains("roberta"));
    let first = if roberta { first_position(s)? } else { 0 };
    let x = g.embed("token_embd", width, 1.0);
    let x = add_token_types(s, g, x, types)?;
    let y = g.embed_position("position_embd", width, first);
    let x = g.add(x, y);
    let x = e.c.norm(g, x, "token_embd_norm");
    let x = if width == e.c.width { x } else { g.linear(x, "token_embd_proj", e.c.width) };
    Ok(e.build(g, x, |g, _, x| both_ways(&e.heads, g, x), |g, _, x| g.ffn(x, e.inner, act)))
}

/// Attention to all of the text.
pub(crate) fn both_ways(heads: &Heads, g: &mut Graph<'_>, x: Value) -> Value {
    heads.attention(g, x, Mask::Full, |_, q, _| q)
}
