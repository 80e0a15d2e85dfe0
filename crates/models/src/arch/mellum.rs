//! Mellum 2 (JetBrains 2026): Qwen3's mixture of experts with layers that have a sliding window, and turn by another base. Reference:
//! transformers' `models/mellum`.

use super::{
    Arch,
    blocks::*,
    mixture::{Implied, Mixture},
    windows::flagged_masks,
};
use crate::{
    Result,
    rope::{RopeKeys, Rotary},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Score, Value};

pub(crate) static MELLUM: Arch =
    Arch { hf: &["mellum"], gguf: &["mellum"], tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, FFN, EXPERTS], ignored: &["mtp.*"], plan };

/// How layers turn that see the whole context, and those with a window.
const FULL: Rotary = Rotary { base: 500_000.0, ..Rotary::HALVES };
const SLIDING: Rotary = Rotary { keys: RopeKeys::SLIDING, ..Rotary::HALVES };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let window = s.window()?.map_or(Mask::Causal, Mask::Window);
    let masks = flagged_masks(s, c.layers, window, |_| false)?;
    let (full, sliding) = (s.rotary(heads.head, FULL)?, s.rotary(heads.head, SLIDING)?);
    let windows = masks.iter().any(|mask| *mask != Mask::Causal);
    s.unread_by_llama_cpp(windows && full != sliding, "its layers with a sliding window turn otherwise than those without");
    let implied = Implied { score: Score::Softmax, corrected: false, shared: 0, dense: 0, ..Implied::SIGMOID };
    let mixture = Mixture::read(s, c.layers, &implied)?;
    s.unread_by_llama_cpp((0..c.layers).any(|layer| !mixture.is_sparse(layer)), "it has layers without experts");
    Ok(c.build(g, |g, layer, x| {
        let prepare = |g: &mut Graph<'_>, q, name: &str| {
            let q = g.head_norm(q, &format!("{name}_norm"), heads.head, c.eps);
            g.rope(q, heads.head, if masks[layer] == Mask::Causal { &full } else { &sliding })
        };
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, masks[layer], prepare));
        c.residual(g, x, "ffn_norm", |g, x| mixture.build(g, layer, x))
    }))
}
