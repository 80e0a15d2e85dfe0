//! GPT-J (Wang & Komatsuzaki 2021): attention and feed-forward layer side by side on one norm, a part of each head that turns in
//! adjacent pairs, and a bias on the logits; and CodeGen (Nijkamp et al. 2022, arXiv:2203.13474), the same with queries,
//! values and keys of one matrix. Reference code: transformers' `modeling_gptj.py` and `modeling_codegen.py`.

use super::{
    Arch,
    blocks::*,
    gpt2::{CAUSAL_MASKS, GPT_TRUNK},
};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static GPTJ: Arch = Arch {
    hf: &["gptj"],
    gguf: &[], // llama.cpp has the name only
    tensors: &[GPT_TRUNK, NORM_AND_FFN, ATTENTION],
    ignored: CAUSAL_MASKS,
    plan: |s, g| plan(s, g, Fused::PLAIN),
};

pub(crate) static CODEGEN: Arch = Arch {
    hf: &["codegen"],
    gguf: &[],
    tensors: &[GPT_TRUNK, NORM_AND_FFN, FUSED_ATTENTION],
    ignored: &["*.attn.causal_mask", "*.attn.bias", "*.attn.masked_bias"],
    // In four runs, for the four devices of its training, values before keys.
    plan: |s, g| plan(s, g, Fused { runs: 4, order: [0, 2, 1] }),
};

const NORM_AND_FFN: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.h.{}.ln_1"),
    tensor("blk.{}.ffn_up", "model.h.{}.mlp.fc_in"),
    tensor("blk.{}.ffn_down", "model.h.{}.mlp.fc_out"),
];

const ATTENTION: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.h.{}.attn.q_proj"),
    tensor("blk.{}.attn_k", "model.h.{}.attn.k_proj"),
    tensor("blk.{}.attn_v", "model.h.{}.attn.v_proj"),
    tensor("blk.{}.attn_output", "model.h.{}.attn.out_proj"),
];

const FUSED_ATTENTION: &[Entry] =
    &[tensor("blk.{}.attn_qkv", "model.h.{}.attn.qkv_proj"), tensor("blk.{}.attn_output", "model.h.{}.attn.out_proj")];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, fused: Fused) -> Result<Value> {
    let c = Decoder::read_layer_norm(s, "layer_norm_epsilon")?;
    let heads = Heads { fused, ..Heads::read(s, c.width)? };
    let dims = s.size_or("rotary_dim", "", 64)?;
    // A half more, so that rounding down gives the number back.
    let part = (dims as f64 + 0.5) / heads.head as f64;
    if dims > heads.head {
        return Err(s.wrong("rotary_dim", "", format!("is {dims}, but a head has {} numbers", heads.head)));
    }
    let rope = s.rotary(heads.head, Rotary { hf: RopeStyle::Pairs, part: part.min(1.0), ..Rotary::new(RopeStyle::Pairs) })?;
    let inner = feed_forward_width(s, c.width)?;
    let act = s.activation("gelu_new")?;
    Ok(c.build(g, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        c.parallel(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, turn), |g, x| g.ffn(x, inner, act))
    }))
}
