//! LFM2 (Liquid AI 2025, arXiv:2511.23404): short convolutions with gates before and behind, and some layers of attention; and its
//! mixture of experts. Reference: transformers' `models/lfm2`, `lfm2_moe`.

use super::{
    Arch,
    blocks::*,
    hybrid::{attention_layers, listed},
    mixture::{Implied, Mixture},
};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Function, Graph, Mask, RopeStyle, Value};

pub(crate) static LFM2: Arch = Arch {
    hf: &["lfm2"],
    gguf: &["lfm2"],
    tensors: &[LFM_TRUNK, LFM_ATTENTION, LFM_FFN],
    ignored: &[],
    plan: |s, g| {
        let inner = inner(s)?;
        plan(s, g, |g, _, x| g.gated_ffn(x, inner, Function::Silu))
    },
};

pub(crate) static LFM2_MOE: Arch = Arch {
    hf: &["lfm2_moe"],
    gguf: &["lfm2moe"],
    tensors: &[LFM_TRUNK, LFM_ATTENTION, LFM_FFN, LFM_EXPERTS],
    ignored: &[],
    plan: |s, g| {
        let corrected = s.implied("use_expert_bias", true)?;
        let mixture =
            Mixture::read(s, s.layers()?, &Implied { corrected, shared: 0, dense: 2, says_normalize: !s.is_gguf(), ..Implied::SIGMOID })?;
        plan(s, g, |g, layer, x| mixture.build(g, layer, x))
    },
};

/// Names outside of feed-forward layers. GGUF files call the norm before the output one of the embedding, as checkpoints do.
pub(crate) const LFM_TRUNK: &[Entry] = &[
    tensor("token_embd", "model.embed_tokens"),
    tensor("token_embd_norm", "model.embedding_norm"),
    tensor("output", "lm_head"),
    tensor("blk.{}.attn_norm", "model.layers.{}.operator_norm"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.ffn_norm"),
    tensor("blk.{}.shortconv.in_proj", "model.layers.{}.conv.in_proj"),
    tensor("blk.{}.shortconv.conv", "model.layers.{}.conv.conv"),
    tensor("blk.{}.shortconv.out_proj", "model.layers.{}.conv.out_proj"),
];

/// Names of attention.
pub(crate) const LFM_ATTENTION: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"),
    tensor("blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"),
    tensor("blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"),
    tensor("blk.{}.attn_output", "model.layers.{}.self_attn.out_proj"),
    tensor("blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_layernorm"),
    tensor("blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_layernorm"),
];

/// Names of a gated feed-forward layer.
pub(crate) const LFM_FFN: &[Entry] = &[
    tensor("blk.{}.ffn_gate", "model.layers.{}.feed_forward.w1"),
    tensor("blk.{}.ffn_up", "model.layers.{}.feed_forward.w3"),
    tensor("blk.{}.ffn_down", "model.layers.{}.feed_forward.w2"),
];

const FUSED: &str = "model.layers.{}.feed_forward.experts.gate_up_proj";
const LFM_EXPERTS: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.feed_forward.gate"),
    tensor("blk.{}.exp_probs_b.bias", "model.layers.{}.feed_forward.expert_bias"),
    tensor("blk.{}.ffn_gate_exps", "model.layers.{}.feed_forward.experts.{e}.w1").or_fused("", FUSED, 0, 2),
    tensor("blk.{}.ffn_up_exps", "model.layers.{}.feed_forward.experts.{e}.w3").or_fused("", FUSED, 1, 2),
    tensor("blk.{}.ffn_down_exps", "model.layers.{}.feed_forward.experts.{e}.w2").or_fused(
        "",
        "model.layers.{}.feed_forward.experts.down_proj",
        0,
        1,
    ),
];

/// The layers, whose feed-forward part `feed_forward` makes.
fn plan(s: &Settings<'_>, g: &mut Graph<'_>, feed_forward: impl Fn(&mut Graph<'_>, usize, Value) -> Value) -> Result<Value> {
    let c = lfm_decoder(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { base: 1e6, ..Rotary::new(RopeStyle::Halves) })?;
    let usual = listed(s, "full_attn_idxs");
    let attention = attention_layers(s, c.layers, heads.kv_heads, |layer| usual.as_ref().is_none_or(|listed| listed(layer)))?;
    let kernel = s.size_or("conv_L_cache", "shortconv.l_cache", 3)?;
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| match attention[layer] {
            true => heads.attention(g, x, Mask::Causal, |g, q, name| {
                let q = g.head_norm(q, &format!("{name}_norm"), heads.head, c.eps);
                g.rope(q, heads.head, &rope)
            }),
            false => short_conv(g, x, kernel),
        });
        c.residual(g, x, "ffn_norm", |g, x| feed_forward(g, layer, x))
    }))
}

/// The trunk, whose final norm has another name than elsewhere.
pub(crate) fn lfm_decoder(s: &Settings<'_>) -> Result<Decoder> {
    let eps = s.epsilon("norm_eps|block_norm_eps", "attention.layer_norm_rms_epsilon")?;
    Ok(Decoder { output_norm: "token_embd_norm", ..Decoder::with_norm(s, Norm::Rms, eps)? })
}

/// `out(c * conv(b * x))`, with `b`, `c` and `x` projected from the input.
pub(crate) fn short_conv(g: &mut Graph<'_>, x: Value, kernel: usize) -> Value {
    let width = g.width(x);
    let all = g.linear(x, "shortconv.in_proj", 3 * width);
    let [b, c, x] = [0, 1, 2].map(|i| g.slice(all, 1, i * width, width));
    let y = g.mul(b, x);
    let y = g.causal_conv(y, "shortconv.conv", kernel, None);
    let y = g.mul(c, y);
    g.linear(y, "shortconv.out_proj", width)
}

/// The width of the feed-forward layers, which `config.json` may state before it is adjusted.
fn inner(s: &Settings<'_>) -> Result<usize> {
    const KEYS: (&str, &str) = ("block_ff_dim|intermediate_size", "feed_forward_length");
    let stated = s.size(KEYS.0, KEYS.1)?;
    if s.is_gguf() || !s.bool_or("block_auto_adjust_ff_dim", "", true)? {
        return Ok(stated);
    }
    let by = s.float_or("block_ffn_dim_multiplier", "", 1.0)?;
    let adjusted = (by * (2 * stated / 3) as f64) as usize;
    let inner = adjusted.next_multiple_of(s.size_or("block_multiple_of", "", 256)?);
    s.note(KEYS.1, Meta::Unsigned(inner as u64));
    Ok(inner)
}
