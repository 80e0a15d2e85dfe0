//! DBRX (Databricks 2024): a mixture of experts with LayerNorm without biases, and a bound on queries, keys and values. Reference
//! code: transformers' `modeling_dbrx.py`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, part, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static DBRX: Arch = Arch { hf: &["dbrx"], gguf: &["dbrx"], tensors: &[TRUNK, LAYERS], ignored: &[], plan };

const TRUNK: &[Entry] = &[tensor("token_embd", "model.wte"), tensor("output_norm", "model.norm_f"), tensor("output", "lm_head")];

const LAYERS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.blocks.{}.norm_attn_norm.norm_1"),
    tensor("blk.{}.attn_qkv", "model.blocks.{}.norm_attn_norm.attn.Wqkv"),
    tensor("blk.{}.attn_output", "model.blocks.{}.norm_attn_norm.attn.out_proj"),
    tensor("blk.{}.attn_output_norm", "model.blocks.{}.norm_attn_norm.norm_2"),
    tensor("blk.{}.ffn_gate_inp", "model.blocks.{}.ffn.router.layer"),
    part("blk.{}.ffn_gate_exps", "model.blocks.{}.ffn.experts.mlp.w1", 0, 1),
    part("blk.{}.ffn_up_exps", "model.blocks.{}.ffn.experts.mlp.v1", 0, 1),
    part("blk.{}.ffn_down_exps", "model.blocks.{}.ffn.experts.mlp.w2", 0, 1).transposed(),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    // PyTorch's default; the configuration has no word for it.
    let c = Decoder::read_layer_norm(s, "")?;
    let kv_heads = s.optional_size("attn_config.kv_n_heads", "")?.unwrap_or(1);
    let clip = s.optional_positive("attn_config.clip_qkv", "attention.clamp_kqv")?;
    s.hf_only(clip.is_none(), "it has no bound on queries, keys and values");
    let heads = Heads { clip: clip.map(|x| x as f32), ..Heads::with(s, c.width, Heads::count(s)?, kv_heads)? };
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    const NORM: &str = "ffn_config.moe_normalize_expert_weights";
    let norm = s.json(NORM).and_then(|v| v.as_f64());
    if norm.is_some_and(|p| p != 1.0) {
        return Err(s.wrong(
            NORM,
            "",
            format!("is {}, but weights of experts sum to one or are left as they are", norm.unwrap_or_default()),
        ));
    }
    // The class's default is one; a `null` leaves them.
    let left = s.json("ffn_config").and_then(|c| c.get("moe_normalize_expert_weights")).is_some_and(|v| v.is_null());
    s.hf_only(left, "the weights of its experts do not sum to one");
    let moe = Moe::read(s, !left, false)?;
    Ok(c.build(g, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, turn));
        c.residual(g, x, "attn_output_norm", |g, x| moe.build(g, x))
    }))
}
