//! Arctic (Snowflake 2024): beside Llama's attention, and a small feed-forward layer behind it, stands a mixture of experts, which sees
//! what attention saw. Reference: `modeling_arctic.py` of Snowflake/snowflake-arctic-base.

use super::{Arch, blocks::*, llama::MIXTRAL_EXPERTS};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static ARCTIC: Arch =
    Arch { hf: &["arctic"], gguf: &["arctic"], tensors: &[TRUNK, INTERLEAVED_ATTENTION, RESIDUAL, MIXTRAL_EXPERTS], ignored: &[], plan };

const RESIDUAL: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.residual_layernorm"),
    tensor("blk.{}.ffn_gate", "model.layers.{}.residual_mlp.w1"),
    tensor("blk.{}.ffn_up", "model.layers.{}.residual_mlp.w3"),
    tensor("blk.{}.ffn_down", "model.layers.{}.residual_mlp.w2"),
    tensor("blk.{}.ffn_norm_exps", "model.layers.{}.post_attention_layernorm"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    for (key, known) in [("parallel_attn_mlp_res", true), ("use_residual", true)] {
        if s.implied(key, known)? != known {
            return Err(s.wrong(key, "", "is false; without a feed-forward layer beside the mixture it is not known"));
        }
    }
    if s.optional_size("moe_layer_frequency", "")?.is_some_and(|every| every != 1) {
        return Err(s.wrong("moe_layer_frequency", "", "is not 1; layers without a mixture are not known"));
    }
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Pairs)?;
    let act = s.activation("silu")?;
    let moe = Moe::read(s, true, false)?;
    Ok(c.build(g, |g, _, x| {
        let y = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, |g, q, _| g.rope(q, heads.head, &rope)));
        let y = c.residual(g, y, "ffn_norm", |g, y| g.gated_ffn(y, c.width, act));
        let h = c.norm(g, x, "ffn_norm_exps");
        let z = moe.build(g, h);
        g.add(y, z)
    }))
}
