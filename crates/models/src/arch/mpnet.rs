//! MPNet (Song et al. 2020, arXiv:2004.09297): BERT with a bias on the scores by distance, in T5's buckets, that all layers share.
//! Reference: transformers' `models/mpnet`.

use super::{
    Arch,
    bert::{EMBEDDINGS, HEADS, POSITIONS},
    encoder::Encoder,
    relative::{distances, t5_bucket},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value, ops::Relative};

pub(crate) static MPNET: Arch = Arch { hf: &["mpnet"], gguf: &[], tensors: &[EMBEDDINGS, POSITIONS, LAYERS], ignored: IGNORED, plan };

/// The table of biases becomes a part of the plan.
const IGNORED: &[&str] = &["*encoder.relative_attention_bias.weight", HEADS[0], HEADS[1], HEADS[2], HEADS[3], HEADS[4], HEADS[5], HEADS[9]];

const LAYERS: &[Entry] = &[
    tensor("position_bias", "model.encoder.relative_attention_bias"),
    tensor("blk.{}.attn_q", "model.encoder.layer.{}.attention.attn.q"),
    tensor("blk.{}.attn_k", "model.encoder.layer.{}.attention.attn.k"),
    tensor("blk.{}.attn_v", "model.encoder.layer.{}.attention.attn.v"),
    tensor("blk.{}.attn_output", "model.encoder.layer.{}.attention.attn.o"),
    tensor("blk.{}.attn_output_norm", "model.encoder.layer.{}.attention.LayerNorm"),
    tensor("blk.{}.ffn_up", "model.encoder.layer.{}.intermediate.dense"),
    tensor("blk.{}.ffn_down", "model.encoder.layer.{}.output.dense"),
    tensor("blk.{}.layer_output_norm", "model.encoder.layer.{}.output.LayerNorm"),
];

/// The row of the first token in the table of positions, whatever the padding token is.
const FIRST: usize = 2;
/// Buckets that are used, however many the table has, and the distance from which on all are in the last.
const BUCKETS: usize = 32;
const FARTHEST: usize = 128;

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let e = Encoder::read(s, 1e-12)?;
    let act = s.activation("gelu")?;
    let rows = s.size_or("relative_attention_num_buckets", "", BUCKETS)?;
    if rows < BUCKETS {
        return Err(s.wrong("relative_attention_num_buckets", "", format!("is {rows}, but {BUCKETS} are used")));
    }
    let table = g.constant("position_bias.weight", &[rows, e.heads.heads]);
    let fixed = (0..e.heads.heads).flat_map(|h| (0..BUCKETS).map(move |b| (h, b))).map(|(h, b)| table[b * e.heads.heads + h]).collect();
    let buckets = distances(FARTHEST, |d| t5_bucket(d, true, BUCKETS, FARTHEST));
    let relative = Relative { buckets, count: BUCKETS, fixed: Some(fixed), of_query: None, of_key: None };
    g.limit_context(g.context().saturating_sub(FIRST).max(1));
    let x = g.embed("token_embd", e.c.width, 1.0);
    let y = g.embed_position("position_embd", e.c.width, FIRST);
    let x = g.add(x, y);
    let x = e.c.norm(g, x, "token_embd_norm");
    let attention = |g: &mut Graph<'_>, _, x| {
        let qkv = e.heads.project(g, x);
        let y = e.heads.attend_apart(g, qkv, Mask::Full, Some(relative.clone()));
        g.linear(y, "attn_output", e.c.width)
    };
    Ok(e.build(g, x, attention, |g, _, x| g.ffn(x, e.inner, act)))
}
