//! StarCoder 2 (Lozhkov et al. 2024, arXiv:2402.19173): Llama with LayerNorm, with biases everywhere, and with a feed-forward layer
//! without a gate.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, RopeStyle, Value};

pub(crate) static STARCODER2: Arch =
    Arch { hf: &["starcoder2"], gguf: &["starcoder2"], tensors: &[TRUNK, PRE_NORMS, ATTENTION, PLAIN_FFN], ignored: &[], plan };

const PLAIN_FFN: &[Entry] = &[tensor("blk.{}.ffn_up", "model.layers.{}.mlp.c_fc"), tensor("blk.{}.ffn_down", "model.layers.{}.mlp.c_proj")];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read_layer_norm(s, "norm_epsilon")?;
    let biased = s.implied("use_bias", true)?;
    s.hf_only(!biased, "it has no biases");
    let heads = Heads { biased, ..Heads::read(s, c.width)? };
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("gelu_pytorch_tanh")?;
    let masks = masks(s, c.layers, s.optional_size("sliding_window", "")?, 0)?;
    Ok(c.build(g, |g, layer, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, masks[layer], turn));
        c.residual(g, x, "ffn_norm", |g, x| g.ffn(x, inner, act))
    }))
}
