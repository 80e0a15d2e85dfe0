//! PLaMo 3 (Preferred Networks and NICT 2025): PLaMo 2 without Mamba, but with layers that have a sliding window and turn by another base.
//! Reference: `modeling_plamo.py` of pfnet/plamo-3-nict-8b-base.

use super::{
    Arch,
    blocks::*,
    plamo2::{PLAMO_LAYERS, layer},
    windows::periodic_masks,
};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::{RopeKeys, Rotary},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value};

pub(crate) static PLAMO3: Arch = Arch { hf: &["plamo3"], gguf: &["plamo3"], tensors: &[PLAMO_LAYERS, PLAMO_QK_NORMS], ignored: &[], plan };

/// Queries and keys of all heads have one norm.
const PLAMO_QK_NORMS: &[Entry] = &[
    tensor("blk.{}.attn_q_norm", "model.layers.layers.{}.mixer.q_norm").add_one(),
    tensor("blk.{}.attn_k_norm", "model.layers.layers.{}.mixer.k_norm").add_one(),
];

/// How layers turn that see the whole context, and those with a window.
const FULL: Rotary = Rotary { base: 1e6, ..Rotary::HALVES };
const SLIDING: Rotary = Rotary { keys: RopeKeys { base: "rope_local_theta", ..RopeKeys::SLIDING }, ..Rotary::HALVES };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let masks = periodic_masks(s, c.layers, 8)?;
    let (full, sliding) = (s.rotary(heads.head, FULL)?, s.rotary(heads.head, SLIDING)?);
    let feed_forward = (s.size("intermediate_size", "feed_forward_length")?, s.activation("silu")?);
    Ok(c.build(g, |g, i, x| {
        let prepare = |g: &mut Graph<'_>, q, name: &str| {
            let q = g.head_norm(q, &format!("{name}_norm"), heads.head, c.eps);
            g.rope(q, heads.head, if masks[i] == Mask::Causal { &full } else { &sliding })
        };
        layer(&c, g, x, feed_forward, |g, x| heads.attention(g, x, masks[i], prepare))
    }))
}
