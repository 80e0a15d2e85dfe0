//! PLaMo 3 (Preferred Networks and NICT 2025): norms before and behind, of which those behind are stored as differences from small
//! numbers, so that each layer adds little at first; normalised queries and keys; layers with a sliding window that turn by another base.
//! Reference: `modeling_plamo.py` of pfnet/plamo-3-nict-8b-base.

use super::{Arch, blocks::*, windows::periodic_masks};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::{RopeKeys, Rotary},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value};

pub(crate) static PLAMO3: Arch = Arch { hf: &["plamo3"], gguf: &["plamo3"], tensors: &[TENSORS], ignored: &[], plan };

const TENSORS: &[Entry] = &[
    tensor("token_embd", "model.embed_tokens"),
    tensor("output_norm", "model.norm").add_one(),
    tensor("output", "lm_head"),
    tensor("blk.{}.attn_norm", "model.layers.layers.{}.pre_mixer_norm").add_one(),
    tensor("blk.{}.attn_qkv", "model.layers.layers.{}.mixer.qkv_proj"),
    tensor("blk.{}.attn_q_norm", "model.layers.layers.{}.mixer.q_norm").add_one(),
    tensor("blk.{}.attn_k_norm", "model.layers.layers.{}.mixer.k_norm").add_one(),
    tensor("blk.{}.attn_output", "model.layers.layers.{}.mixer.o_proj"),
    tensor("blk.{}.post_attention_norm", "model.layers.layers.{}.post_mixer_norm").add(0.2).bare(),
    tensor("blk.{}.ffn_norm", "model.layers.layers.{}.pre_mlp_norm").add_one(),
    tensor("blk.{}.ffn_up", "model.layers.layers.{}.mlp.gate_up_proj"),
    tensor("blk.{}.ffn_down", "model.layers.layers.{}.mlp.down_proj"),
    // 5^-1.5
    tensor("blk.{}.post_ffw_norm", "model.layers.layers.{}.post_mlp_norm").add(0.089_442_72).bare(),
];

/// How layers turn that see the whole context, and those with a window.
const FULL: Rotary = Rotary { base: 1e6, ..Rotary::HALVES };
const SLIDING: Rotary = Rotary { keys: RopeKeys { base: "rope_local_theta", ..RopeKeys::SLIDING }, ..Rotary::HALVES };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let masks = periodic_masks(s, c.layers, 8)?;
    let (full, sliding) = (s.rotary(heads.head, FULL)?, s.rotary(heads.head, SLIDING)?);
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, layer, x| {
        let mask = masks[layer];
        let prepare = |g: &mut Graph<'_>, q, name: &str| {
            let q = g.head_norm(q, &format!("{name}_norm"), heads.head, c.eps);
            g.rope(q, heads.head, if mask == Mask::Causal { &full } else { &sliding })
        };
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let y = heads.attention(g, x, mask, prepare);
            c.norm(g, y, "post_attention_norm")
        });
        c.residual(g, x, "ffn_norm", |g, x| {
            let y = g.fused_gated_ffn(x, inner, act);
            c.norm(g, y, "post_ffw_norm")
        })
    }))
}
