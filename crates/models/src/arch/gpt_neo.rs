//! GPT-Neo (Black et al. 2021): GPT-2 with scores that are not scaled, with a window on some layers, and without biases on queries,
//! keys and values. Reference code: transformers' `modeling_gpt_neo.py`.

use super::{Arch, blocks::*, gpt2::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value};

pub(crate) static GPT_NEO: Arch = Arch {
    hf: &["gpt_neo"],
    gguf: &[],
    tensors: &[GPT_TRUNK, GPT_NORMS, MATRICES],
    ignored: &["*.attn.attention.bias", "*.attn.attention.masked_bias"],
    plan,
};

const MATRICES: &[Entry] = &[
    tensor("blk.{}.attn_q", "model.h.{}.attn.attention.q_proj"),
    tensor("blk.{}.attn_k", "model.h.{}.attn.attention.k_proj"),
    tensor("blk.{}.attn_v", "model.h.{}.attn.attention.v_proj"),
    tensor("blk.{}.attn_output", "model.h.{}.attn.attention.out_proj"),
    tensor("blk.{}.ffn_up", "model.h.{}.mlp.c_fc"),
    tensor("blk.{}.ffn_down", "model.h.{}.mlp.c_proj"),
];

/// What each layer sees: `attention_types` lists kinds and how often they follow each other.
fn masks(s: &Settings<'_>, layers: usize) -> Result<Vec<Mask>> {
    const KEY: &str = "attention_types";
    let window = s.size_or("window_size", "", 256)?;
    let wrong = || s.wrong(KEY, "", format!("should name global or local for {layers} layers, as in [[[\"global\", \"local\"], 12]]"));
    let mut masks = vec![];
    let usual = serde_json::json!([[["global", "local"], layers.div_ceil(2)]]);
    for run in s.json(KEY).unwrap_or(&usual).as_array().ok_or_else(wrong)? {
        let kinds = run.get(0).and_then(|kinds| kinds.as_array()).ok_or_else(wrong)?;
        let times = run.get(1).and_then(|n| n.as_u64()).ok_or_else(wrong)?;
        for _ in 0..times.min(layers as u64) {
            for kind in kinds {
                masks.push(match kind.as_str() {
                    Some("global") => Mask::Causal,
                    Some("local") => Mask::Window(window),
                    _ => return Err(wrong()),
                });
            }
            if masks.len() > layers {
                return Err(wrong());
            }
        }
    }
    if masks.len() == layers { Ok(masks) } else { Err(wrong()) }
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read_layer_norm(s, "layer_norm_epsilon")?;
    let heads = Heads { scale: 1.0, ..Heads::read(s, c.width)? };
    let inner = feed_forward_width(s, c.width)?;
    let act = s.activation("gelu_new")?;
    let masks = masks(s, c.layers)?;
    let x = g.embed("token_embd", c.width, 1.0);
    let positions = g.embed_position("position_embd", c.width, 0);
    let x = g.add(x, positions);
    Ok(c.build_on(g, x, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, masks[layer], |_, q, _| q));
        c.residual(g, x, "ffn_norm", |g, x| g.ffn(x, inner, act))
    }))
}
