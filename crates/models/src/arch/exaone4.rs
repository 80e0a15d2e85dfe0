//! EXAONE 4 (LG AI Research 2025, arXiv:2507.11407): norms after attention and feed-forward layer as in OLMo 2, normalised queries and
//! keys, and, where layers with a sliding window alternate with others, positions in the former only. Reference: transformers'
//! `models/exaone4`.

use super::{Arch, blocks::*, olmo2::POST_NORMS, windows::periodic_masks};
use crate::{Result, settings::Settings};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static EXAONE4: Arch =
    Arch { hf: &["exaone4"], gguf: &["exaone4"], tensors: &[TRUNK, POST_NORMS, ATTENTION, QK_NORMS, FFN], ignored: &["mtp.*"], plan };

/// Layers of the one model whose windows llama.cpp heeds.
const WINDOWED_IN_GGUF: usize = 64;

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let masks = periodic_masks(s, c.layers, 4)?;
    let hybrid = s.window()?.is_some();
    s.hf_only(hybrid && c.layers != WINDOWED_IN_GGUF, "GGUF files of its architecture mean windows in a model of 64 layers only");
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, layer, x| {
        let turns = !hybrid || masks[layer] != Mask::Causal;
        let prepare = |g: &mut Graph<'_>, q, name: &str| {
            let q = g.head_norm(q, &format!("{name}_norm"), heads.head, c.eps);
            if turns { g.rope(q, heads.head, &rope) } else { q }
        };
        let x = c.residual_after(g, x, "post_attention_norm", |g, x| heads.attention(g, x, masks[layer], prepare));
        c.residual_after(g, x, "post_ffw_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}
