//! OLMo 2 (Team OLMo 2024, arXiv:2501.00656): Llama with its norms after attention and feed-forward layer instead of before,
//! and with queries and keys normalised over all heads at once. OLMo 3 (Team Olmo 2025, arXiv:2512.13961) looks back over a window in
//! three of four layers, whose rotation is not stretched with the context. FlexOlmo (Shi et al. 2025, arXiv:2507.07024) has OLMoE's mixture
//! of experts. Reference: transformers' `models/olmo2`, `olmo3`, `flex_olmo`.

use super::{Arch, blocks::*, windows::periodic_masks};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::{RopeKeys, Rotary},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value};

pub(crate) static OLMO2: Arch = Arch {
    hf: &["olmo2", "olmo3"],
    gguf: &["olmo2"],
    tensors: &[TRUNK, POST_NORMS, ATTENTION, QK_NORMS, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, None),
};

pub(crate) static FLEX_OLMO: Arch = Arch {
    hf: &["flex_olmo"],
    gguf: &[],
    tensors: &[TRUNK, POST_NORMS, ATTENTION, QK_NORMS, EXPERTS],
    ignored: &[],
    plan: |s, g| plan(s, g, Some(Moe::read(s, false, false)?)),
};

pub(super) const POST_NORMS: &[Entry] = &[
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"),
    tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"),
];

/// The rotation of layers that see the whole context, and, in OLMo 3, of those that do not.
const FULL: Rotary = Rotary { base: 500_000.0, ..Rotary::HALVES };
const SLIDING: Rotary =
    Rotary { keys: RopeKeys { base: RopeKeys::FULL.base, gguf_base: RopeKeys::FULL.gguf_base, ..RopeKeys::SLIDING }, ..FULL };

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, moe: Option<Moe>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let masks = periodic_masks(s, c.layers, 4)?;
    let sliding = s.rotary(heads.head, SLIDING)?;
    let full = s.rotary(heads.head, FULL)?;
    let base = |kind: &str| s.json(&format!("rope_parameters.{kind}.rope_theta"));
    s.hf_only(base("sliding_attention") != base("full_attention"), "its kinds of layers turn by different bases");
    let feed_forward = FeedForward::read(s, c.layers, moe)?;
    Ok(c.build(g, |g, layer, x| {
        let rope = if masks[layer] == Mask::Causal { &full } else { &sliding };
        let prepare = |g: &mut Graph<'_>, q, name: &str| {
            let q = g.rms_norm(q, &format!("{name}_norm"), c.eps);
            g.rope(q, heads.head, rope)
        };
        let x = c.residual_after(g, x, "post_attention_norm", |g, x| heads.attention(g, x, masks[layer], prepare));
        c.residual_after(g, x, "post_ffw_norm", |g, x| feed_forward.build(g, layer, x))
    }))
}
