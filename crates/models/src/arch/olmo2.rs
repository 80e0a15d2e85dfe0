//! OLMo 2 (Team OLMo 2024, arXiv:2501.00656): Llama with its norms after attention and feed-forward layer instead of before,
//! and with queries and keys normalised over all heads at once.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static OLMO2: Arch =
    Arch { hf: &["olmo2"], gguf: &["olmo2"], tensors: &[TRUNK, POST_NORMS, ATTENTION, QK_NORMS, FFN], ignored: &[], plan };

const POST_NORMS: &[Entry] = &[
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"),
    tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    let prepare = |g: &mut Graph<'_>, q, name: &str| {
        let q = g.rms_norm(q, &format!("{name}_norm"), c.eps);
        g.rope(q, heads.head, &rope)
    };
    Ok(c.build(g, |g, _, x| {
        let y = heads.attention(g, x, Mask::Causal, prepare);
        let y = g.rms_norm(y, "post_attention_norm", c.eps);
        let x = g.add(x, y);
        let y = g.gated_ffn(x, inner, act);
        let y = g.rms_norm(y, "post_ffw_norm", c.eps);
        g.add(x, y)
    }))
}
