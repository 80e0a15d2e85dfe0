//! DeciLM (Deci 2023) and Nemotron by architecture search (Bercovich et al. 2024, arXiv:2411.19146): Llama whose layers differ. Each has
//! its own number of keys, or a matrix in place of attention, or none; and a feed-forward layer of its own width, a matrix, or none.
//! Reference: `modeling_decilm.py` of nvidia/Llama-3_3-Nemotron-Super-49B-v1.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Graph, Mask, RopeStyle, Value};
use serde_json::Value as Json;

pub(crate) static DECI: Arch = Arch {
    hf: &["nemotron-nas", "deci"],
    gguf: &["deci"],
    tensors: &[TRUNK, PRE_NORMS, MATRICES, INTERLEAVED_ATTENTION, FFN],
    ignored: &[],
    plan,
};

/// Where a matrix stands for attention, GGUF files call it as if it were attention's last.
const MATRICES: &[Entry] = &[
    tensor("blk.{}.attn_output", "model.layers.{}.self_attn.o_proj").or("model.layers.{}.self_attn.linear_attn"),
    tensor("blk.{}.ffn_linear", "model.layers.{}.mlp.linear_mlp"),
];

/// A part of a layer: of its own size, a matrix, or not there.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    /// Keys of an attention layer, or the width of a feed-forward layer.
    Sized(usize),
    Matrix,
    Missing,
}

/// Attention and feed-forward layer.
type Layer = [Part; 2];

const BLOCKS: &str = "block_configs";
const KEYS: &str = "num_key_value_heads_per_layer";
const GGUF_KEYS: [&str; 3] = ["attention.head_count", "attention.head_count_kv", "feed_forward_length"];

fn layers(s: &Settings<'_>, c: &Decoder, heads: usize) -> Result<Vec<Layer>> {
    let layers = if s.is_gguf() {
        gguf_layers(s, c.layers)?
    } else if let Some(blocks) = s.per_layer(BLOCKS, c.layers)? {
        blocks.into_iter().map(|block| layer(s, block, c.width, heads)).collect::<Result<_>>()?
    } else {
        let inner = Part::Sized(s.size("intermediate_size", "")?);
        let usual = s.optional_size("num_key_value_heads", "")?.unwrap_or(heads);
        let keys = match s.per_layer(KEYS, c.layers)? {
            Some(list) => list.into_iter().map(|v| v.as_u64().unwrap_or(0) as usize).collect(),
            None => vec![usual; c.layers],
        };
        keys.into_iter().map(|keys| [Part::Sized(keys), inner]).collect()
    };
    if let Some(keys) =
        layers.iter().find_map(|[a, _]| if let Part::Sized(n) = a { (!heads.is_multiple_of(*n)).then_some(n) } else { None })
    {
        return Err(s.wrong(&format!("{BLOCKS}|{KEYS}"), GGUF_KEYS[1], format!("has a layer with {keys} keys for {heads} heads")));
    }
    s.hf_only(layers.iter().any(|[_, f]| *f == Part::Matrix), "it has matrices in place of feed-forward layers");
    let counts: [fn(&Layer, usize) -> usize; 3] = [
        |[a, _], heads| if *a == Part::Missing { 0 } else { heads },
        |[a, _], _| if let Part::Sized(keys) = a { *keys } else { 0 },
        |[_, f], _| if let Part::Sized(inner) = f { *inner } else { 0 },
    ];
    for (key, count) in GGUF_KEYS.into_iter().zip(counts) {
        s.note(key, Meta::Integers(layers.iter().map(|layer| count(layer, heads) as i64).collect()));
    }
    Ok(layers)
}

/// As a block of the configuration says. What it leaves out is as usual.
fn layer(s: &Settings<'_>, block: &Json, width: usize, heads: usize) -> Result<Layer> {
    let wrong = |what: String| s.wrong(BLOCKS, "", what);
    let part = |name: &str, size: &str, sized: &dyn Fn(f64) -> Option<usize>| {
        let Some(part) = block.get(name) else { return Err(wrong(format!("has a block without `{name}`"))) };
        let says = |key: &str| part.get(key).and_then(Json::as_bool) == Some(true);
        for key in ["window_length", "num_sink_tokens", "sparsify"] {
            if part.get(key).is_some_and(|v| !v.is_null()) {
                return Err(wrong(format!("has a block with `{key}`, which is not known here")));
            }
        }
        match part.get(size).and_then(Json::as_f64) {
            _ if says("no_op") => Ok(Part::Missing),
            _ if says("replace_with_linear") => Ok(Part::Matrix),
            None => Ok(Part::Missing),
            Some(n) => sized(n).map(Part::Sized).ok_or_else(|| wrong(format!("has a block whose `{size}` is {n}, which is not possible"))),
        }
    };
    let keys = |per_key: f64| (per_key >= 1.0 && per_key.fract() == 0.0).then(|| heads.checked_div(per_key as usize)).flatten();
    // `_ffn_mult_to_intermediate_size`
    let inner = |by: f64| (by > 0.0 && by < 1024.0).then(|| ((2.0 * by * width as f64 / 3.0) as usize).next_multiple_of(256));
    Ok([part("attention", "n_heads_in_group", &keys)?, part("ffn", "ffn_mult", &inner)?])
}

/// Zero stands for what is not there: for queries too, where attention is missing; for keys alone, where it is a matrix.
fn gguf_layers(s: &Settings<'_>, layers: usize) -> Result<Vec<Layer>> {
    let counts = |key: &str| match s.integers(key) {
        None => Ok(vec![s.size("", key)? as i64; layers]),
        Some(list) if list.len() == layers && list.iter().all(|n| (0..=1 << 20).contains(n)) => Ok(list.to_vec()),
        Some(_) => Err(s.wrong("", key, format!("should be a list of {layers} counts up to {}", 1 << 20))),
    };
    let [queries, keys, widths] = GGUF_KEYS.map(counts);
    let one = |((queries, keys), inner): ((i64, i64), i64)| {
        let attention = match (queries, keys) {
            (0, _) => Part::Missing,
            (_, 0) => Part::Matrix,
            (_, keys) => Part::Sized(keys as usize),
        };
        [attention, if inner == 0 { Part::Missing } else { Part::Sized(inner as usize) }]
    };
    Ok(queries?.into_iter().zip(keys?).zip(widths?).map(one).collect())
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let count = Heads::count(s)?;
    if !c.width.is_multiple_of(count) {
        return Err(s.wrong("num_attention_heads", GGUF_KEYS[0], format!("is {count}, which does not divide the width {}", c.width)));
    }
    let head = c.width / count;
    for key in ["attention.key_length", "attention.value_length"] {
        s.note(key, Meta::Unsigned(head as u64));
    }
    let layers = layers(s, &c, count)?;
    let rope = s.rope(head, RopeStyle::Pairs)?;
    let act = s.activation("silu")?;
    Ok(c.build(g, |g, i, x| {
        let [attention, feed_forward] = layers[i];
        let x = match attention {
            Part::Missing => x,
            Part::Matrix => c.residual(g, x, "attn_norm", |g, x| g.linear(x, "attn_output", c.width)),
            Part::Sized(keys) => c.residual(g, x, "attn_norm", |g, x| {
                Heads::new(count, keys, head).attention(g, x, Mask::Causal, |g, q, _| g.rope(q, head, &rope))
            }),
        };
        match feed_forward {
            Part::Missing => x,
            Part::Matrix => c.residual(g, x, "ffn_norm", |g, x| g.linear(x, "ffn_linear", c.width)),
            Part::Sized(inner) => c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act)),
        }
    }))
}
