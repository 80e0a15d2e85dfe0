//! Phi-3 (Abdin et al. 2024, arXiv:2404.14219) and Phi-4: Llama with queries, keys and values of one matrix, gate and up of
//! another, and LongRoPE.

use super::{Arch, blocks::*};
use crate::{Result, settings::Settings};
use onebit_plan::{Graph, RopeStyle, Value};

pub(crate) static PHI3: Arch =
    Arch { hf: &["phi3"], gguf: &["phi3"], tensors: &[TRUNK, PRE_NORMS, FUSED_ATTENTION, FUSED_FFN], ignored: &[], plan };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    // Old configurations call LongRoPE `su`, and even `yarn`; no other way to stretch a context was published.
    const PARAMETERS: [&str; 2] = ["rope_parameters", "rope_scaling"];
    let parameter = |name: &str| PARAMETERS.map(|object| format!("{object}.{name}")).join("|");
    let kind = s.text_or(&format!("{}|{}", parameter("rope_type"), parameter("type")), "", "default")?;
    if kind != "default" && s.json(&parameter("long_factor")).is_none() {
        let what = format!("is `{kind}`, but only `default`, and LongRoPE with its factors, are known here for Phi-3");
        return Err(s.wrong("rope_type", "", what));
    }
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    // Some GGUF files state a window, which llama.cpp does not heed.
    let masks = masks(s, c.layers, if s.is_gguf() { None } else { s.window()? }, 0)?;
    Ok(c.build(g, |g, layer, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, masks[layer], turn));
        c.residual(g, x, "ffn_norm", |g, x| g.fused_gated_ffn(x, inner, act))
    }))
}
