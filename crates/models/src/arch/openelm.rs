//! OpenELM (Mehta et al. 2024, arXiv:2404.14619): layers of different sizes, with more heads and wider feed-forward layers the later they
//! come; queries and keys are normalised. Reference: `modeling_openelm.py` of apple/OpenELM-270M.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, part, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Graph, Mask, RopeStyle, Value};

pub(crate) static OPENELM: Arch = Arch { hf: &["openelm"], gguf: &["openelm"], tensors: &[TENSORS], ignored: &[], plan };

const TENSORS: &[Entry] = &[
    tensor("token_embd", "model.token_embeddings"),
    tensor("output_norm", "model.norm"),
    tensor("output", "lm_head"),
    tensor("blk.{}.attn_norm", "model.layers.{}.attn_norm"),
    tensor("blk.{}.attn_qkv", "model.layers.{}.attn.qkv_proj"),
    tensor("blk.{}.attn_q_norm", "model.layers.{}.attn.q_norm"),
    tensor("blk.{}.attn_k_norm", "model.layers.{}.attn.k_norm"),
    tensor("blk.{}.attn_output", "model.layers.{}.attn.out_proj"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.ffn_norm"),
    part("blk.{}.ffn_gate", "model.layers.{}.ffn.proj_1.weight", 0, 2),
    part("blk.{}.ffn_up", "model.layers.{}.ffn.proj_1.weight", 1, 2),
    tensor("blk.{}.ffn_down", "model.layers.{}.ffn.proj_2"),
];

/// The sizes of a layer.
#[derive(Clone, Copy)]
struct Layer {
    heads: Heads,
    inner: usize,
}

/// A count for each layer, which GGUF files state as a list, or as one number where all are alike.
fn counts(s: &Settings<'_>, hf: &str, gguf: &str, layers: usize) -> Result<Vec<usize>> {
    const MOST: usize = 1 << 20;
    let fits = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=MOST).contains(n));
    let found: Option<Vec<usize>> = match (s.is_gguf(), s.integers(gguf)) {
        (true, Some(list)) => list.iter().map(|n| fits(u64::try_from(*n).ok())).collect(),
        (true, None) => Some(vec![s.size("", gguf)?; layers]),
        (false, _) => s.per_layer(hf, layers)?.unwrap_or_default().into_iter().map(|n| fits(n.as_u64())).collect(),
    };
    let counts = found.filter(|list| list.len() == layers);
    let counts = counts.ok_or_else(|| s.wrong(hf, gguf, format!("should be a list of {layers} counts from 1 to {MOST}")))?;
    s.note(gguf, Meta::Integers(counts.iter().map(|n| *n as i64).collect()));
    Ok(counts)
}

/// The widths of the feed-forward layers: multiples of the model's, rounded to multiples of a divisor (`make_divisible`).
fn inner_widths(s: &Settings<'_>, width: usize, layers: usize) -> Result<Vec<usize>> {
    const KEYS: (&str, &str) = ("ffn_multipliers", "feed_forward_length");
    if s.is_gguf() {
        return counts(s, "", KEYS.1, layers);
    }
    let divisor = s.size("ffn_dim_divisor", "")?;
    let rounded = |by: f64| {
        let wanted = by * width as f64;
        let near = ((wanted + divisor as f64 / 2.0) as usize / divisor * divisor).max(divisor);
        if (near as f64) < 0.9 * wanted { near + divisor } else { near }
    };
    let factors = s.per_layer(KEYS.0, layers)?.unwrap_or_default().into_iter();
    let factors: Option<Vec<f64>> = factors.map(|v| v.as_f64().filter(|by| (0.0..=1024.0).contains(by))).collect();
    let factors = factors.filter(|list| list.len() == layers);
    let factors = factors.ok_or_else(|| s.wrong(KEYS.0, KEYS.1, format!("should be a list of {layers} factors up to 1024")))?;
    let widths: Vec<usize> = factors.into_iter().map(rounded).collect();
    s.note(KEYS.1, Meta::Integers(widths.iter().map(|n| *n as i64).collect()));
    Ok(widths)
}

fn read_layers(s: &Settings<'_>, c: &Decoder) -> Result<Vec<Layer>> {
    let head = s.size("head_dim", "attention.key_length")?;
    s.note("attention.value_length", Meta::Unsigned(head as u64));
    let queries = counts(s, "num_query_heads", "attention.head_count", c.layers)?;
    let keys = counts(s, "num_kv_heads", "attention.head_count_kv", c.layers)?;
    let widths = inner_widths(s, c.width, c.layers)?;
    let one = |((queries, keys), inner): ((usize, usize), usize)| {
        if queries % keys != 0 {
            let what = format!("has a layer with {keys}, which do not divide {queries} heads");
            return Err(s.wrong("num_kv_heads", "attention.head_count_kv", what));
        }
        Ok(Layer { heads: Heads::new(queries, keys, head), inner })
    };
    queries.into_iter().zip(keys).zip(widths).map(one).collect()
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    for (key, known) in [("ffn_with_glu", true), ("normalize_qk_projections", true), ("share_input_output_layers", true)] {
        if s.implied(key, known)? != known {
            return Err(s.wrong(key, "", format!("is {}, but models with {known} are known only", !known)));
        }
    }
    let c = Decoder::with_norm(s, Norm::Rms, s.epsilon_or("", "attention.layer_norm_rms_epsilon", 1e-6)?)?;
    let layers = read_layers(s, &c)?;
    let head = layers[0].heads.head;
    let rope = s.rope(head, RopeStyle::Halves)?;
    let act = s.activation_of("activation_fn_name", "silu")?;
    let prepare = |g: &mut Graph<'_>, q, name: &str| {
        let q = g.head_norm(q, &format!("{name}_norm"), head, c.eps);
        g.rope(q, head, &rope)
    };
    Ok(c.build(g, |g, layer, x| {
        let Layer { heads, inner } = layers[layer];
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, prepare));
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}
