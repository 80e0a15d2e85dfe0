//! Encoders that are shaped like Llama: EuroBERT (Boizard et al. 2025, arXiv:2503.05500), and NeoBERT (Le Breton et al. 2025,
//! arXiv:2502.19587), which has the query, key and value of each head in a run of rows, and feed-forward layers two thirds as wide as
//! stated. Reference: transformers' `models/eurobert`, and the `model.py` that came with NeoBERT's checkpoint.

use super::{Arch, blocks::*, encoder};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Function, Graph, Mask, Value};

pub(crate) static EUROBERT: Arch =
    Arch { hf: &["eurobert"], gguf: &["eurobert"], tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN], ignored: &["lm_head.*"], plan: eurobert };

pub(crate) static NEOBERT: Arch =
    Arch { hf: &["neobert"], gguf: &["neo-bert"], tensors: &[NEO_TRUNK, NEO_LAYERS], ignored: &["decoder.*"], plan: neobert };

const NEO_TRUNK: &[Entry] = &[tensor("token_embd", "model.encoder"), tensor("enc.output_norm", "model.layer_norm")];

const NEO_LAYERS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.transformer_encoder.{}.attention_norm"),
    tensor("blk.{}.attn_qkv", "model.transformer_encoder.{}.qkv").ordered(|s| Ok(heads_in_runs(s)?.ungrouped())),
    tensor("blk.{}.attn_output", "model.transformer_encoder.{}.wo"),
    tensor("blk.{}.ffn_norm", "model.transformer_encoder.{}.ffn_norm"),
    tensor("blk.{}.ffn_up", "model.transformer_encoder.{}.ffn.w12"),
    tensor("blk.{}.ffn_down", "model.transformer_encoder.{}.ffn.w3"),
];

fn eurobert(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    plan(s, g, &c, &Heads::read(s, c.width)?, Rotary::HALVES, |g, x| g.gated_ffn(x, inner, act))
}

fn neobert(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::with_norm(s, Norm::Rms, s.epsilon_or("norm_eps", "attention.layer_norm_rms_epsilon", 1e-6)?)?;
    let c = Decoder { output_norm: "enc.output_norm", ..c };
    let act = s.text_or("hidden_act", "", "swiglu")?;
    if !act.eq_ignore_ascii_case("swiglu") {
        return Err(s.wrong("hidden_act", "", format!("is `{act}`; known is swiglu")));
    }
    let inner =
        if s.is_gguf() { s.size("", "feed_forward_length")? } else { (2 * s.size("intermediate_size", "")? / 3).next_multiple_of(8) };
    s.note("feed_forward_length", Meta::Unsigned(inner as u64));
    plan(s, g, &c, &heads_in_runs(s)?, Rotary::PAIRS, |g, x| g.fused_gated_ffn(x, inner, Function::Silu))
}

fn heads_in_runs(s: &Settings<'_>) -> Result<Heads> {
    let heads = Heads::read(s, Decoder::width(s)?)?;
    Ok(Heads { fused: Fused::runs(if s.is_gguf() { 1 } else { heads.heads }), ..heads })
}

fn plan(
    s: &Settings<'_>,
    g: &mut Graph<'_>,
    c: &Decoder,
    heads: &Heads,
    rotary: Rotary,
    feed_forward: impl Fn(&mut Graph<'_>, Value) -> Value,
) -> Result<Value> {
    encoder::causes(s)?;
    let rope = s.rotary(heads.head, rotary)?;
    let x = g.embed("token_embd", c.width, 1.0);
    let x = g.layers(c.layers, x, |g, _, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| g.rope(q, heads.head, &rope);
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Full, turn));
        c.residual(g, x, "ffn_norm", &feed_forward)
    });
    Ok(encoder::end(c, g, x))
}
