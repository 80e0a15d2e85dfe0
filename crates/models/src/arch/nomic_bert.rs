//! Nomic BERT (Nussbaum et al. 2024, arXiv:2402.01613): BERT with rotary positions and gated feed-forward layers. Reference: transformers'
//! `models/nomic_bert`, and the configuration of the checkpoints that came with code of their own.

use super::{
    Arch,
    bert::HEADS,
    encoder::{Encoder, add_token_types},
};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Function, Graph, Mask, Value};

pub(crate) static NOMIC_BERT: Arch =
    Arch { hf: &["nomic_bert"], gguf: &["nomic-bert"], tensors: &[EMBEDDINGS, LAYERS], ignored: HEADS, plan };

const EMBEDDINGS: &[Entry] = &[
    tensor("token_embd", "model.embeddings.word_embeddings"),
    tensor("token_types", "model.embeddings.token_type_embeddings"),
    tensor("token_embd_norm", "model.emb_ln").or("model.embeddings.LayerNorm"),
];

const LAYERS: &[Entry] = &[
    tensor("blk.{}.attn_qkv", "model.encoder.layers.{}.attn.Wqkv"),
    tensor("blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"),
    tensor("blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"),
    tensor("blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"),
    tensor("blk.{}.attn_output", "model.encoder.layers.{}.attn.out_proj").or("model.layers.{}.self_attn.o_proj"),
    tensor("blk.{}.attn_output_norm", "model.encoder.layers.{}.norm1").or("model.layers.{}.post_attention_layernorm"),
    tensor("blk.{}.ffn_up", "model.encoder.layers.{}.mlp.fc11").or("model.layers.{}.mlp.up_proj"),
    tensor("blk.{}.ffn_gate", "model.encoder.layers.{}.mlp.fc12").or("model.layers.{}.mlp.gate_proj"),
    tensor("blk.{}.ffn_down", "model.encoder.layers.{}.mlp.fc2").or("model.layers.{}.mlp.down_proj"),
    tensor("blk.{}.layer_output_norm", "model.encoder.layers.{}.norm2").or("model.layers.{}.post_mlp_layernorm"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let e = Encoder::read(s, 1e-12)?;
    check(s)?;
    // Beyond what it was trained for, the base of its positions grows, unless the factor is absent.
    if let (Some(_), Some(trained)) = (s.optional_positive("rotary_scaling_factor", "")?, s.optional_size("max_trained_positions", "")?) {
        g.limit_context(trained);
    }
    let rope = s.rotary(e.heads.head, Rotary { base: 1000.0, ..Rotary::HALVES })?;
    let x = g.embed("token_embd", e.c.width, 1.0);
    let x = add_token_types(s, g, x, 2)?;
    let x = e.c.norm(g, x, "token_embd_norm");
    let attention = |g: &mut Graph<'_>, _, x| e.heads.attention(g, x, Mask::Full, |g, q, _| g.rope(q, e.heads.head, &rope));
    Ok(e.build(g, x, attention, |g, _, x| g.gated_ffn(x, e.inner, Function::Silu)))
}

/// What the checkpoints that came with code of their own can ask for, and no published one does.
fn check(s: &Settings<'_>) -> Result<()> {
    if s.is_gguf() {
        return Ok(());
    }
    let act = s.text_or("hidden_act|activation_function", "", "silu")?;
    if !["silu", "swiglu"].contains(&act.as_str()) {
        return Err(s.wrong("activation_function", "", format!("is `{act}`; known is swiglu")));
    }
    let part = s.optional_float("rotary_emb_fraction", "")?.unwrap_or(1.0);
    if part != 1.0 {
        return Err(s.wrong("rotary_emb_fraction", "", format!("is {part}; known is 1")));
    }
    for key in ["prenorm", "use_rms_norm", "rotary_emb_interleaved", "parallel_block"] {
        if s.bool_or(key, "", false)? {
            return Err(s.wrong(key, "", "is true, which is not known here"));
        }
    }
    Ok(())
}
