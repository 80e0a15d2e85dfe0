//! OPT (Zhang et al. 2022, arXiv:2205.01068): learned positions that start at 2, ReLU, and biases everywhere; its 350m normalises behind
//! each addition, and has an embedding that is narrower than the stream. And XGLM (Lin et al. 2021, arXiv:2112.10668): the
//! same with positions that are sines. Reference code: transformers' `modeling_opt.py` and `modeling_xglm.py`.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value};

pub(crate) static OPT: Arch = Arch { hf: &["opt"], gguf: &[], tensors: &[OPT_TRUNK, LAYERS], ignored: &[], plan: opt };

pub(crate) static XGLM: Arch =
    Arch { hf: &["xglm"], gguf: &[], tensors: &[XGLM_TRUNK, LAYERS], ignored: &["*embed_positions.weights"], plan: xglm };

const OPT_TRUNK: &[Entry] = &[
    tensor("token_embd", "model.embed_tokens"),
    tensor("position_embd", "model.embed_positions"),
    tensor("input_proj", "model.project_in"),
    tensor("output_proj", "model.project_out"),
    tensor("output_norm", "model.final_layer_norm"),
    tensor("output", "lm_head"),
];

const XGLM_TRUNK: &[Entry] =
    &[tensor("token_embd", "model.embed_tokens"), tensor("output_norm", "model.layer_norm"), tensor("output", "lm_head")];

const LAYERS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.self_attn_layer_norm"),
    tensor("blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"),
    tensor("blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"),
    tensor("blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"),
    tensor("blk.{}.attn_output", "model.layers.{}.self_attn.out_proj"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.final_layer_norm"),
    tensor("blk.{}.ffn_up", "model.layers.{}.fc1"),
    tensor("blk.{}.ffn_down", "model.layers.{}.fc2"),
];

/// Padding has the first positions, in both.
const FIRST_POSITION: usize = 2;

fn opt(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let norm = if s.implied("layer_norm_elementwise_affine", true)? { Norm::Layer } else { Norm::PlainLayer };
    let c = Decoder::with_norm(s, norm, 1e-5)?;
    let heads = Heads { biased: s.implied("enable_bias", true)?, ..Heads::read(s, c.width)? };
    let inner = feed_forward_width(s, c.width)?;
    let act = s.activation("relu")?;
    let before = s.implied("do_layer_norm_before", true)?;
    let last = before && !s.implied("_remove_final_layer_norm", false)?;
    let narrow = s.size_or("word_embed_proj_dim", "", c.width)?;
    let x = g.embed("token_embd", narrow, 1.0);
    let x = if narrow == c.width { x } else { g.linear(x, "input_proj", c.width) };
    let positions = g.embed_position("position_embd", c.width, FIRST_POSITION);
    let x = g.add(x, positions);
    let x = g.layers(c.layers, x, |g, _, x| {
        let attention = |g: &mut Graph<'_>, x| heads.attention(g, x, Mask::Causal, |_, q, _| q);
        let feed_forward = |g: &mut Graph<'_>, x| g.ffn(x, inner, act);
        if before {
            let x = c.residual(g, x, "attn_norm", attention);
            return c.residual(g, x, "ffn_norm", feed_forward);
        }
        let y = attention(g, x);
        let x = g.add(x, y);
        let x = c.norm(g, x, "attn_norm");
        let y = feed_forward(g, x);
        let x = g.add(x, y);
        c.norm(g, x, "ffn_norm")
    });
    let x = g.select(x);
    let x = if last { c.norm(g, x, "output_norm") } else { x };
    let x = if narrow == c.width { x } else { g.linear(x, "output_proj", narrow) };
    Ok(g.head(x))
}

/// Half of `width` frequencies, at least two, from 1 down to 1/10000, both ends among them; in f32 as the reference code has it.
pub(crate) fn even_sines(width: usize) -> Vec<f32> {
    let half = width / 2;
    let step = (10_000f64.ln() / (half - 1) as f64) as f32;
    (0..half).map(|i| (-(i as f32) * step).exp()).collect()
}

fn xglm(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::with_norm(s, Norm::Layer, 1e-5)?;
    let heads = Heads { biased: true, ..Heads::read(s, c.width)? };
    let inner = feed_forward_width(s, c.width)?;
    let act = s.activation("gelu")?;
    let scale = if s.implied("scale_embedding", true)? { (c.width as f32).sqrt() } else { 1.0 };
    if c.width < 4 || !c.width.is_multiple_of(2) {
        return Err(s.wrong("d_model", "", format!("is {}; sines and cosines need an even number from 4 on", c.width)));
    }
    let x = g.embed("token_embd", c.width, scale);
    let positions = g.sinusoid(even_sines(c.width), FIRST_POSITION);
    let x = g.add(x, positions);
    Ok(c.build_on(g, x, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, |_, q, _| q));
        c.residual(g, x, "ffn_norm", |g, x| g.ffn(x, inner, act))
    }))
}
