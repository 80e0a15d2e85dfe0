//! Nemotron-H (NVIDIA 2025, arXiv:2504.03624): each layer is one of Mamba 2, attention without positions, or a feed-forward layer of
//! squared ReLU. Reference: transformers' `models/nemotron_h`.

use super::{
    Arch,
    blocks::*,
    hybrid::note_attention_layers,
    mamba::BACKBONE,
    mamba2::{GateAndNorm, Mamba2, STACKED_MAMBA2},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Graph, Mask, Value};

pub(crate) static NEMOTRON_H: Arch =
    Arch { hf: &["nemotron_h"], gguf: &["nemotron_h"], tensors: &[BACKBONE, STACKED_MAMBA2, MIXERS], ignored: &["mtp.*"], plan };

const MIXERS: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.layers.{}.mixer.q_proj"),
    tensor("blk.{}.attn_k", "model.layers.{}.mixer.k_proj"),
    tensor("blk.{}.attn_v", "model.layers.{}.mixer.v_proj"),
    tensor("blk.{}.attn_output", "model.layers.{}.mixer.o_proj"),
    tensor("blk.{}.ffn_up", "model.layers.{}.mixer.up_proj"),
    tensor("blk.{}.ffn_down", "model.layers.{}.mixer.down_proj"),
];

/// What a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Mamba,
    Attention,
    FeedForward,
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::with_norm(s, Norm::Rms, s.epsilon("layer_norm_epsilon|rms_norm_eps|norm_eps", "attention.layer_norm_rms_epsilon")?)?;
    // llama.cpp wants both names.
    s.note("attention.layer_norm_epsilon", Meta::Float(f64::from(c.eps)));
    let heads = Heads::read(s, c.width)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation_of("mlp_hidden_act", "relu2")?;
    let layers = layers(s, c.layers, inner, heads.kv_heads)?;
    let mixer = Mamba2::read(s, c.width, s.activation_of("mamba_hidden_act", "silu")?, GateAndNorm::GateFirst(c.eps))?;
    // Steps have no upper bound. llama.cpp knows no lower one either, and no other file but ours states it.
    let least = s.optional_float("time_step_min|mamba_dt_min", "ssm.time_step_min")?.unwrap_or(if s.is_gguf() { 0.0 } else { 0.001 });
    let mixer = Mamba2 { steps: [least as f32, f32::INFINITY], ..mixer };
    Ok(c.build(g, |g, layer, x| {
        c.residual(g, x, "attn_norm", |g, x| match layers[layer] {
            Layer::Mamba => mixer.build(g, x),
            Layer::Attention => heads.attention(g, x, Mask::Causal, |_, q, _| q),
            Layer::FeedForward => g.ffn(x, inner, act),
        })
    }))
}

/// What each of `layers` is: `config.json` says so by words or by letters, GGUF files by what they have none of.
fn layers(s: &Settings<'_>, layers: usize, inner: usize, kv_heads: usize) -> Result<Vec<Layer>> {
    const WORDS: &str = "layers_block_type|layer_types";
    const LETTERS: &str = "hybrid_override_pattern";
    let unknown = |kind: &str| s.wrong(WORDS, "", format!("has `{kind}`; known are mamba, attention and mlp"));
    if s.is_gguf() {
        let list = |key: &str| {
            s.integers(key).filter(|l| l.len() >= layers).ok_or_else(|| s.wrong("", key, "should have an entry for each layer"))
        };
        let (kv, ffn) = (list("attention.head_count_kv")?, list("feed_forward_length")?);
        let one = |i: usize| match (kv[i], ffn[i]) {
            (0, 0) => Layer::Mamba,
            (0, _) => Layer::FeedForward,
            _ => Layer::Attention,
        };
        return Ok((0..layers).map(one).collect());
    }
    let kinds: Vec<Layer> = match s.per_layer(WORDS, layers)? {
        Some(words) => {
            let one = |word: &serde_json::Value| match word.as_str() {
                Some("linear_attention" | "mamba") => Ok(Layer::Mamba),
                Some("full_attention" | "attention") => Ok(Layer::Attention),
                Some("mlp") => Ok(Layer::FeedForward),
                _ => Err(unknown(&word.to_string())),
            };
            words.into_iter().map(one).collect::<Result<_>>()?
        }
        None => {
            let letters = s.text_or(LETTERS, "", "")?;
            let one = |letter: char| match letter {
                'M' => Ok(Layer::Mamba),
                '*' => Ok(Layer::Attention),
                '-' => Ok(Layer::FeedForward),
                _ => Err(unknown(&letter.to_string())),
            };
            letters.chars().map(one).collect::<Result<_>>()?
        }
    };
    if kinds.len() < layers {
        return Err(s.wrong(LETTERS, "", format!("has {} entries for {layers} layers", kinds.len())));
    }
    note_attention_layers(s, &kinds.iter().map(|k| *k == Layer::Attention).collect::<Vec<_>>(), kv_heads);
    let widths = kinds.iter().map(|k| if *k == Layer::FeedForward { inner as i64 } else { 0 });
    s.note("feed_forward_length", Meta::Integers(widths.collect()));
    Ok(kinds)
}
