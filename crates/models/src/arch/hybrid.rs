//! Which layers of a hybrid are attention layers.

use crate::{Result, settings::Settings};
use onebit_formats::Meta;

/// The number of key heads of each layer in GGUF files, which is zero where a layer has no attention.
const KV_HEADS: &str = "attention.head_count_kv";

/// Which of `layers` are attention layers: those that `config.json` lists, else those that `usual` gives. To be asked after the heads
/// were read.
pub(crate) fn attention_layers(s: &Settings<'_>, layers: usize, kv_heads: usize, usual: impl Fn(usize) -> bool) -> Result<Vec<bool>> {
    if s.is_gguf() {
        return match s.integers(KV_HEADS) {
            Some(list) if list.len() >= layers => Ok(list.iter().take(layers).map(|n| *n != 0).collect()),
            Some(list) => Err(s.wrong("", KV_HEADS, format!("has {} entries for {layers} layers", list.len()))),
            None => Ok(vec![true; layers]),
        };
    }
    let attention = match s.per_layer("layer_types|layers_block_type", layers)? {
        Some(kinds) => kinds.into_iter().map(|kind| is_attention(s, kind)).collect::<Result<Vec<_>>>()?,
        None => (0..layers).map(usual).collect(),
    };
    note_attention_layers(s, &attention, kv_heads);
    Ok(attention)
}

/// Notes which layers are attention layers as GGUF files say it.
pub(crate) fn note_attention_layers(s: &Settings<'_>, attention: &[bool], kv_heads: usize) {
    s.note(KV_HEADS, Meta::Integers(attention.iter().map(|a| if *a { kv_heads as i64 } else { 0 }).collect()));
}

/// Whether a layer of `kind` is an attention layer.
fn is_attention(s: &Settings<'_>, kind: &serde_json::Value) -> Result<bool> {
    match kind.as_str() {
        Some("full_attention" | "attention") => Ok(true),
        Some("linear_attention" | "mamba" | "mamba2" | "conv" | "recurrent") => Ok(false),
        _ => Err(s.wrong("layer_types", "", format!("has {kind}; known are full_attention, linear_attention, mamba, conv and recurrent"))),
    }
}

/// Whether `list`, a list of layers in `config.json`, has each layer. `None` where there is no such list.
pub(crate) fn listed(s: &Settings<'_>, list: &str) -> Option<impl Fn(usize) -> bool> {
    let list: Vec<u64> = s.json(list)?.as_array()?.iter().filter_map(serde_json::Value::as_u64).collect();
    Some(move |layer: usize| list.contains(&(layer as u64)))
}
