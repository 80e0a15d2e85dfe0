//! nanochat (Karpathy 2025): a small decoder without weights in its norms, of which one comes right after the embedding, with queries
//! and keys that turn backwards and are normalised then, squared ReLU, and bounded logits. Reference: transformers' `models/nanochat`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Rope, RopeStyle, Value};

pub(crate) static NANOCHAT: Arch = Arch { hf: &["nanochat"], gguf: &[], tensors: &[NANOCHAT_TENSORS, ATTENTION], ignored: &[], plan };

const NANOCHAT_TENSORS: &[Entry] = &[
    tensor("token_embd", "model.embed_tokens"),
    tensor("output", "lm_head"),
    tensor("blk.{}.ffn_up", "model.layers.{}.mlp.fc1"),
    tensor("blk.{}.ffn_down", "model.layers.{}.mlp.fc2"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let logit_softcap = s.optional_positive("final_logit_softcapping", "")?.map(|cap| cap as f32);
    let c = Decoder { logit_softcap, ..Decoder::read(s)? };
    let heads = Heads::read(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let backwards = Rope { frequencies: rope.frequencies.iter().map(|f| -f).collect(), ..rope };
    let inner = s.size("intermediate_size", "")?;
    let act = s.activation("relu2")?;
    let prepare = |g: &mut Graph<'_>, q, _: &str| {
        let q = g.rope(q, heads.head, &backwards);
        g.plain_norm(q, heads.head, c.eps)
    };
    let x = g.embed("token_embd", c.width, 1.0);
    let x = g.plain_norm(x, c.width, c.eps);
    let x = g.layers(c.layers, x, |g, _, x| {
        let h = g.plain_norm(x, c.width, c.eps);
        let y = heads.attention(g, h, Mask::Causal, prepare);
        let x = g.add(x, y);
        let h = g.plain_norm(x, c.width, c.eps);
        let y = g.ffn(h, inner, act);
        g.add(x, y)
    });
    let x = g.select(x);
    let x = g.plain_norm(x, c.width, c.eps);
    Ok(c.logits(g, x))
}
