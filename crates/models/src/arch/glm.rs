//! GLM-4 (GLM Team 2024, arXiv:2406.12793): Llama with half of each head that turns, in adjacent pairs in all checkpoints, biases on
//! queries, keys and values, and gate and up of one matrix. Those of 2025 (`glm4`) also have norms behind both layers. ChatGLM 2 and 3
//! (Zeng et al. 2022, arXiv:2210.02414), and GLM-4 as it was first published, differ from it in names. Reference: transformers'
//! `models/glm`, `glm4`, and `modeling_chatglm.py` of THUDM/chatglm3-6b.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Graph, Mask, Value};

pub(crate) static GLM: Arch = Arch {
    hf: &["glm"],
    gguf: &["chatglm"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FUSED_FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, false),
};

pub(crate) static GLM4: Arch = Arch {
    hf: &["glm4"],
    gguf: &["glm4"],
    tensors: &[TRUNK, PRE_NORMS, POST_NORMS, ATTENTION, FUSED_FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, true),
};

pub(crate) static CHATGLM: Arch = Arch {
    hf: &["chatglm"],
    gguf: &["chatglm"],
    tensors: &[CHATGLM_TENSORS],
    ignored: &["*.rotary_pos_emb.inv_freq"],
    plan: |s, g| {
        for (key, known) in [
            ("apply_residual_connection_post_layernorm", false),
            ("rmsnorm", true),
            ("post_layer_norm", true),
            ("original_rope", true),
            ("add_bias_linear", false),
        ] {
            if s.implied(key, known)? != known {
                return Err(s.wrong(key, "", format!("is {}, but models with {known} are known only", !known)));
            }
        }
        plan(s, g, false)
    },
};

const CHATGLM_TENSORS: &[Entry] = &[
    tensor("token_embd", "model.embedding.word_embeddings"),
    tensor("output_norm", "model.encoder.final_layernorm"),
    tensor("output", "model.output_layer"),
    tensor("blk.{}.attn_norm", "model.encoder.layers.{}.input_layernorm"),
    tensor("blk.{}.attn_qkv", "model.encoder.layers.{}.self_attention.query_key_value"),
    tensor("blk.{}.attn_output", "model.encoder.layers.{}.self_attention.dense"),
    tensor("blk.{}.ffn_norm", "model.encoder.layers.{}.post_attention_layernorm"),
    tensor("blk.{}.ffn_up", "model.encoder.layers.{}.mlp.dense_h_to_4h"),
    tensor("blk.{}.ffn_down", "model.encoder.layers.{}.mlp.dense_4h_to_h"),
];

/// Heads of keys and values: ChatGLM says first whether it groups them.
fn heads(s: &Settings<'_>, width: usize) -> Result<Heads> {
    if s.json("multi_query_attention").is_none() {
        return Heads::read(s, width);
    }
    let count = Heads::count(s)?;
    let grouped = s.bool_or("multi_query_attention", "", false)?;
    let heads = Heads::with(s, width, count, if grouped { s.size("multi_query_group_num", "")? } else { count })?;
    Ok(Heads { biased: s.bool_or("add_qkv_bias", "", false)?, ..heads })
}

const POST_NORMS: &[Entry] = &[
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_self_attn_layernorm"),
    tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_mlp_layernorm"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>, peri: bool) -> Result<Value> {
    let c = Decoder::with_norm(s, Norm::Rms, s.epsilon("rms_norm_eps|layernorm_epsilon", "attention.layer_norm_rms_epsilon")?)?;
    let heads = heads(s, c.width)?;
    let base = 10_000.0 * s.float_or("rope_ratio", "", 1.0)?;
    let rope = s.rotary(heads.head, Rotary { part: 0.5, base, ..Rotary::PAIRS })?;
    let inner = s.size("intermediate_size|ffn_hidden_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    let after = |g: &mut Graph<'_>, y, norm: &str| if peri { g.rms_norm(y, norm, c.eps) } else { y };
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let y = heads.attention(g, x, Mask::Causal, |g, q, _| g.rope(q, heads.head, &rope));
            after(g, y, "post_attention_norm")
        });
        c.residual(g, x, "ffn_norm", |g, x| {
            let y = g.fused_gated_ffn(x, inner, act);
            after(g, y, "post_ffw_norm")
        })
    }))
}
