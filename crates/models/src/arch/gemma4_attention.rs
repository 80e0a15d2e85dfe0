//! The attention of Gemma 3n and 4: layers with a window and layers that see all, whose heads may have another size, and last layers
//! that look at the keys and values of earlier ones.

use super::blocks::*;
use crate::{
    Result,
    rope::{RopeKeys, Rotary},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{AttentionSpec, Graph, Mask, Rope, StateId, Value};

/// An attention layer.
pub(super) struct Layer {
    heads: Heads,
    mask: Mask,
    rope: Rope,
    /// Whether values are keys before norm and rotation.
    values_are_keys: bool,
    /// The layer whose keys and values it looks at, where it has none.
    pub(super) shares: Option<usize>,
}

impl Layer {
    /// The output. `caches` are those of the layers before; that of this layer is added.
    pub(super) fn attention(&self, g: &mut Graph<'_>, x: Value, caches: &mut Vec<StateId>, eps: f32) -> Value {
        let cache = self.shares.and_then(|of| caches.get(of).copied());
        let Heads { heads, kv_heads, head, .. } = self.heads;
        let prepare = |g: &mut Graph<'_>, x, norm: &str| {
            let x = g.head_norm(x, norm, head, eps);
            g.rope(x, head, &self.rope)
        };
        let q = g.linear(x, "attn_q", heads * head);
        let q = prepare(g, q, "attn_q_norm");
        let spec = AttentionSpec { scale: 1.0, mask: self.mask, ..AttentionSpec::causal(heads, kv_heads, head) };
        let (kv, cache) = match cache {
            Some(cache) => {
                // No op needs what checkpoints hold all the same, but llama.cpp wants it in GGUF files of Gemma 3n.
                let inputs = g.width(x);
                let unused = [("attn_k.weight", vec![kv_heads * head, inputs]), ("attn_v.weight", vec![kv_heads * head, inputs])];
                for (name, shape) in unused.into_iter().chain([("attn_k_norm.weight", vec![head])]) {
                    g.optional_weight(name, &shape);
                }
                (None, cache)
            }
            None => {
                let k = g.linear(x, "attn_k", kv_heads * head);
                let v = if self.values_are_keys { k } else { g.linear(x, "attn_v", kv_heads * head) };
                let v = g.plain_norm(v, head, eps);
                (Some([prepare(g, k, "attn_k_norm"), v]), g.kv_cache(&spec))
            }
        };
        caches.push(cache);
        let y = g.attention_in(cache, q, kv, &spec);
        g.linear(y, "attn_output", g.width(x))
    }
}

/// What is known of a layer before it is known which others it shares with.
pub(super) struct Kind {
    pub(super) mask: Mask,
    pub(super) heads: Heads,
    pub(super) values_are_keys: bool,
}

/// The attention layers of Gemma 4.
pub(super) fn layers(s: &Settings<'_>, c: &Decoder) -> Result<Vec<Layer>> {
    let mut masks = masks(s, c.layers, 6)?;
    if !s.is_gguf() {
        // The last one sees all, whatever the list says.
        if let Some(last) = masks.last_mut() {
            *last = Mask::Causal;
        }
        note_masks(s, &masks);
    }
    let heads = if s.is_gguf() { gguf_heads(s, &masks)? } else { hf_heads(s, c, &masks)? };
    let same = s.implied("attention_k_eq_v", false)?;
    let without_values = |i: usize| s.checkpoint.tensor(&format!("blk.{i}.attn_v.weight")).is_none();
    let kinds = masks.iter().zip(&heads).enumerate().map(|(i, (mask, heads))| {
        let values_are_keys = if s.is_gguf() { without_values(i) } else { same && *mask == Mask::Causal };
        Kind { mask: *mask, heads: *heads, values_are_keys }
    });
    let layers = attention_layers(s, &kinds.collect::<Vec<_>>(), RopeKeys::SLIDING_HEADS, 0)?;
    if let Some(full) = layers.iter().find(|layer| layer.mask == Mask::Causal) {
        s.note_divisors(full.heads.head);
    }
    Ok(layers)
}

/// Attention layers. The last `num_kv_shared_layers` look at the keys and values of the last one before them that sees the same. `sliding`
/// says where the settings of the rotation are for layers with a window; GGUF files that do not say it mean `implied` shared layers.
pub(super) fn attention_layers(s: &Settings<'_>, kinds: &[Kind], sliding: RopeKeys, implied: usize) -> Result<Vec<Layer>> {
    const SHARED: (&str, &str) = ("num_kv_shared_layers", "attention.shared_kv_layers");
    let shared = s.count_or(SHARED.0, SHARED.1, if s.is_gguf() { implied } else { 0 })?;
    let own = &kinds[..kinds.len().saturating_sub(shared)];
    let one = |(i, kind): (usize, &Kind)| {
        let Kind { mask, heads, values_are_keys } = *kind;
        let (keys, base) = if mask == Mask::Causal { (RopeKeys::FULL, 1e6) } else { (sliding, 1e4) };
        let rope = s.rotary(heads.head, Rotary { keys, base, ..Rotary::HALVES })?;
        let like = |other: &Kind| mask == other.mask && (heads.head, heads.kv_heads) == (other.heads.head, other.heads.kv_heads);
        let shares = own.iter().rposition(like);
        if i >= own.len() && shares.is_none() {
            let what = format!("is {shared}, but layer {i} finds no layer before them with keys and values like its own");
            return Err(s.wrong(SHARED.0, SHARED.1, what));
        }
        Ok(Layer { heads, mask, rope, values_are_keys, shares: shares.filter(|_| i >= own.len()) })
    };
    kinds.iter().enumerate().map(one).collect()
}

const PATTERN: &str = "attention.sliding_window_pattern";

/// What each layer sees: all but every `period`th have a window where no list tells.
pub(super) fn masks(s: &Settings<'_>, layers: usize, period: usize) -> Result<Vec<Mask>> {
    let Some(window) = s.window()? else { return Err(s.wrong("sliding_window", "attention.sliding_window", "is missing")) };
    let windowed = Mask::Window(window);
    let at_period = |period: usize| (0..layers).map(|i| if (i + 1) % period == 0 { Mask::Causal } else { windowed }).collect();
    let masks = match s.gguf_value(PATTERN) {
        Some(Meta::Unsigned(n)) if (1..1 << 20).contains(n) => at_period(*n as usize),
        Some(_) => {
            let kinds = s.flags(PATTERN, layers)?.unwrap_or_default();
            kinds.into_iter().map(|has| if has { windowed } else { Mask::Causal }).collect()
        }
        None => listed_masks(s, layers, windowed)?.unwrap_or_else(|| at_period(period)),
    };
    s.note("attention.sliding_window", Meta::Unsigned(window as u64));
    note_masks(s, &masks);
    Ok(masks)
}

fn note_masks(s: &Settings<'_>, masks: &[Mask]) {
    s.note(PATTERN, Meta::Bools(masks.iter().map(|mask| *mask != Mask::Causal).collect()));
}

const KEY: &str = "attention.key_length";
const SWA_KEY: &str = "attention.key_length_swa";
const KV_HEADS: &str = "attention.head_count_kv";

/// The heads of all layers in GGUF files.
fn gguf_heads(s: &Settings<'_>, masks: &[Mask]) -> Result<Vec<Heads>> {
    let heads = Heads::count(s)?;
    let full = s.size("", KEY)?;
    let swa = s.size_or("", SWA_KEY, full)?;
    for (key, length) in [("attention.value_length", full), ("attention.value_length_swa", swa)] {
        let value = s.size_or("", key, length)?;
        if value != length {
            return Err(s.wrong("", key, format!("is {value}, but keys have {length} numbers in a head")));
        }
    }
    let kv_heads = s.sizes("", KV_HEADS, masks.len())?;
    let one = |(mask, kv_heads): (&Mask, &usize)| checked(s, Heads::new(heads, *kv_heads, if *mask == Mask::Causal { full } else { swa }));
    masks.iter().zip(&kv_heads).map(one).collect()
}

/// The heads of all layers, of which `per_layer_config` may tell, or, of layers that see all, settings of their own.
fn hf_heads(s: &Settings<'_>, c: &Decoder, masks: &[Mask]) -> Result<Vec<Heads>> {
    let usual = Heads::read(s, c.width)?;
    let same = s.bool_or("attention_k_eq_v", "", false)?;
    let all = masks.iter().enumerate().map(|(i, mask)| checked(s, layer_heads(s, i, *mask == Mask::Causal, same, usual)?));
    let all: Vec<Heads> = all.collect::<Result<_>>()?;
    let lengths = |full: bool| masks.iter().zip(&all).filter(move |(mask, _)| (**mask == Mask::Causal) == full).map(|(_, h)| h.head);
    let full = lengths(true).next().unwrap_or(usual.head);
    let swa = lengths(false).next().unwrap_or(full);
    s.hf_only(lengths(true).any(|n| n != full) || lengths(false).any(|n| n != swa), "its layers of one kind have heads of several sizes");
    for (key, length) in [(KEY, full), ("attention.value_length", full), (SWA_KEY, swa), ("attention.value_length_swa", swa)] {
        s.note(key, Meta::Unsigned(length as u64));
    }
    s.note_sizes(KV_HEADS, &all.iter().map(|heads| heads.kv_heads).collect::<Vec<_>>());
    Ok(all)
}

fn layer_heads(s: &Settings<'_>, i: usize, full: bool, same: bool, usual: Heads) -> Result<Heads> {
    const OWN: &str = "per_layer_config";
    let (mut head, mut kv_heads) = (usual.head, usual.kv_heads);
    if let Some(all) = s.json(OWN) {
        for (name, _) in all.get(i.to_string()).and_then(|own| own.as_object()).into_iter().flatten() {
            let path = format!("{OWN}.{i}.{name}");
            match name.as_str() {
                "head_dim" => head = s.size(&path, "")?,
                "num_key_value_heads" => kv_heads = s.size(&path, "")?,
                _ => return Err(s.wrong(&path, "", "is not known; known are head_dim and num_key_value_heads")),
            }
        }
    } else if full {
        head = s.size("global_head_dim", "")?;
        kv_heads = s.optional_size("num_global_key_value_heads", "")?.filter(|_| same).unwrap_or(kv_heads);
    }
    Ok(Heads { head, kv_heads, value: head, ..usual })
}

/// Heads that share keys and values evenly.
fn checked(s: &Settings<'_>, heads: Heads) -> Result<Heads> {
    let Heads { heads: n, kv_heads, .. } = heads;
    match n.is_multiple_of(kv_heads) {
        true => Ok(heads),
        false => Err(s.wrong("num_key_value_heads", KV_HEADS, format!("is {kv_heads}, which does not divide {n} heads"))),
    }
}
