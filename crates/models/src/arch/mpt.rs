//! MPT (MosaicML 2023): linear biases on the scores in place of positions, LayerNorm without biases, and a bound on queries, keys and
//! values; without linear biases, learned positions. Reference code: llm-foundry's `modeling_mpt.py`, and transformers'.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Graph, Mask, Value};

pub(crate) static MPT: Arch = Arch { hf: &["mpt"], gguf: &["mpt"], tensors: &[TRUNK, LAYERS], ignored: &[], plan };

const TRUNK: &[Entry] = &[
    tensor("token_embd", "model.wte"),
    tensor("position_embd", "model.wpe"),
    tensor("output_norm", "model.norm_f"),
    tensor("output", "lm_head"),
];

const LAYERS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.blocks.{}.norm_1"),
    tensor("blk.{}.attn_qkv", "model.blocks.{}.attn.Wqkv"),
    tensor("blk.{}.attn_output", "model.blocks.{}.attn.out_proj"),
    tensor("blk.{}.ffn_norm", "model.blocks.{}.norm_2"),
    tensor("blk.{}.ffn_up", "model.blocks.{}.ffn.up_proj"),
    tensor("blk.{}.ffn_down", "model.blocks.{}.ffn.down_proj"),
];

/// Refuses what llm-foundry knows and is not known here.
fn refuse_others(s: &Settings<'_>) -> Result<()> {
    for key in ["attn_config.qk_ln", "attn_config.prefix_lm", "attn_config.rope"] {
        if s.implied(key, false)? {
            return Err(s.wrong(key, "", "is true, which is not known here"));
        }
    }
    let (words, scaled) = (s.text_or("norm_type", "", "low_precision_layernorm")?, s.json("logit_scale"));
    if !words.contains("layernorm") {
        return Err(s.wrong("norm_type", "", format!("is `{words}`; kinds of layernorm are known")));
    }
    if let Some(scale) = scaled {
        return Err(s.wrong("logit_scale", "", format!("is {scale}, but scaled logits are not known here")));
    }
    let kind = s.text_or("attn_config.attn_type", "", "multihead_attention")?;
    if !["multihead_attention", "grouped_query_attention", "multiquery_attention"].contains(&kind.as_str()) {
        return Err(s.wrong("attn_config.attn_type", "", format!("is `{kind}`, which is not known")));
    }
    Ok(())
}

fn heads(s: &Settings<'_>, width: usize) -> Result<Heads> {
    let heads = Heads::count(s)?;
    let shared = s.text_or("attn_config.attn_type", "", "")? == "multiquery_attention";
    let kv_heads = s.optional_size("attn_config.kv_n_heads", "")?.unwrap_or(if shared { 1 } else { heads });
    let usual = Heads::with(s, width, heads, kv_heads)?;
    let scale = s.optional_positive("attn_config.softmax_scale", "")?.map_or(usual.scale, |x| x as f32);
    s.hf_only(scale != usual.scale, "its attention scores are scaled in another way");
    // GGUF files say with zero that there is none.
    let max = match s.bool_or("attn_config.alibi", "", true)? {
        _ if s.is_gguf() => s.optional_float("", "attention.max_alibi_bias")?.unwrap_or(0.0),
        true => s.float_or("attn_config.alibi_bias_max", "attention.max_alibi_bias", 8.0)?,
        false => 0.0,
    };
    s.note("attention.max_alibi_bias", Meta::Float(max));
    let clip = s.optional_float("attn_config.clip_qkv", "attention.clamp_kqv")?.filter(|x| *x != 0.0);
    Ok(Heads { scale, alibi: (max > 0.0).then_some((max as f32, 1.0)), clip: clip.map(|x| x as f32), ..usual })
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    refuse_others(s)?;
    let c = Decoder::read_layer_norm(s, "layer_norm_epsilon")?;
    let heads = heads(s, c.width)?;
    let inner = match s.is_gguf() {
        true => feed_forward_width(s, c.width)?,
        false => c.width * s.size_or("expansion_ratio", "", 4)?,
    };
    s.note("feed_forward_length", Meta::Unsigned(inner as u64));
    let act = s.activation("gelu")?;
    let x = g.embed("token_embd", c.width, 1.0);
    let x = match heads.alibi {
        Some(_) => x,
        None => {
            let positions = g.embed_position("position_embd", c.width, 0);
            g.add(x, positions)
        }
    };
    Ok(c.build_on(g, x, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Causal, |_, q, _| q));
        c.residual(g, x, "ffn_norm", |g, x| g.ffn(x, inner, act))
    }))
}
