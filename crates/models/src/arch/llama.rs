//! Llama (Touvron et al. 2023, arXiv:2302.13971; with grouped heads arXiv:2307.09288) and what is shaped like it:
//! Mistral (Jiang et al. 2023, arXiv:2310.06825), CWM, Arcee AFM with its feed-forward layer without a gate, and SmolLM3,
//! some layers of which do not know positions (Yang et al. 2025, arXiv:2501.18795).

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, Order, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, RopeStyle, Value};

const TENSORS: &[&[Entry]] = &[TRUNK, PRE_NORMS, INTERLEAVED_ATTENTION, FFN];

pub(crate) static LLAMA: Arch =
    Arch { hf: &["llama", "mistral", "cwm"], gguf: &["llama"], tensors: TENSORS, ignored: &[], plan: |s, g| plan(s, g, "silu", &[]) };

pub(crate) static ARCEE: Arch =
    Arch { hf: &["arcee"], gguf: &["arcee"], tensors: TENSORS, ignored: &[], plan: |s, g| plan(s, g, "relu2", &[]) };

pub(crate) static SMOLLM3: Arch =
    Arch { hf: &["smollm3"], gguf: &["smollm3"], tensors: TENSORS, ignored: &[], plan: |s, g| plan(s, g, "silu", &without_positions(s)?) };

/// GGUF files hold the rotary dimensions of these in adjacent pairs.
const INTERLEAVED_ATTENTION: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.layers.{}.self_attn.q_proj").ordered(|s| pairs(s, |h| h.heads)),
    tensor("blk.{}.attn_k", "model.layers.{}.self_attn.k_proj").ordered(|s| pairs(s, |h| h.kv_heads)),
    tensor("blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"),
    tensor("blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"),
];

/// Dimensions `i` and `i + dims / 2` of each head, one after the other.
fn pairs(s: &Settings<'_>, count: impl Fn(&Heads) -> usize) -> Result<Order> {
    let heads = Heads::read(s, Decoder::read(s)?.width)?;
    let dims = s.rope(heads.head, RopeStyle::Pairs)?.dims();
    let row = |i: usize| if i < dims { i / 2 + i % 2 * dims / 2 } else { i };
    Ok(Order::Rows((0..count(&heads)).flat_map(|h| (0..heads.head).map(move |i| h * heads.head + row(i))).collect()))
}

/// The layers of SmolLM3 that do not turn queries and keys: each fourth, unless the configuration says otherwise.
fn without_positions(s: &Settings<'_>) -> Result<Vec<usize>> {
    let layers = s.layers()?;
    let fourth: Vec<usize> = (0..layers).filter(|i| (i + 1) % 4 == 0).collect();
    let listed = s.per_layer("no_rope_layers", layers)?;
    let chosen = match listed {
        Some(turn) => (0..layers).filter(|i| turn[*i].as_u64() == Some(0)).collect(),
        None => {
            let every = s.optional_size("no_rope_layer_interval", "")?.unwrap_or(4);
            (0..layers).filter(|i| (i + 1) % every == 0).collect()
        }
    };
    s.hf_only(chosen != fourth, "its layers without positions are not each fourth, as GGUF files of `smollm3` mean");
    Ok(chosen)
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, act: &str, without_positions: &[usize]) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Pairs)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation(act)?;
    let window = if s.implied("use_sliding_window", true)? { s.optional_size("sliding_window", "")? } else { None };
    let masks = masks(s, c.layers, window, 0)?;
    Ok(c.build(g, |g, layer, x| {
        let turn = |g: &mut Graph<'_>, q, _: &str| if without_positions.contains(&layer) { q } else { g.rope(q, heads.head, &rope) };
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, masks[layer], turn));
        c.residual(g, x, "ffn_norm", |g, x| {
            if g.has("ffn_gate.weight", &[inner, c.width]) {
                return g.gated_ffn(x, inner, act);
            }
            let h = g.linear(x, "ffn_up", inner);
            let h = g.apply(h, act);
            g.linear(h, "ffn_down", c.width)
        })
    }))
}
