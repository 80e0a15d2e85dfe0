//! Falcon-H1 (Zuo et al. 2025, arXiv:2507.22448): attention and Mamba 2 side by side in each layer, with a factor on nearly
//! everything. Reference: transformers' `models/falcon_h1`.

use super::{
    Arch,
    blocks::*,
    jamba::{HYBRID_FFN, HYBRID_TRUNK},
    mamba2::{GateAndNorm, HYBRID_MAMBA2, Mamba2},
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Binary, Graph, Mask, RopeStyle, Value};

pub(crate) static FALCON_H1: Arch = Arch {
    hf: &["falcon_h1"],
    gguf: &["falcon-h1"],
    tensors: &[FFN_NORM, HYBRID_TRUNK, HYBRID_MAMBA2, ATTENTION, HYBRID_FFN],
    ignored: &[],
    plan,
};

/// GGUF files have this name without a suffix.
const FFN_NORM: &[Entry] = &[tensor("blk.{}.ffn_norm", "model.layers.{}.pre_ff_layernorm.weight")];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let factor = |key: &str| -> Result<f32> { Ok(s.optional_float(key, "")?.filter(|_| !s.is_gguf()).unwrap_or(1.0) as f32) };
    let c = Decoder { embed_scale: factor("embedding_multiplier")?, logit_scale: factor("lm_head_multiplier")?, ..Decoder::read(s)? };
    let heads = Heads::read(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let [attention_in, attention_out, ssm_in, ssm_out, key] =
        ["attention_in_multiplier", "attention_out_multiplier", "ssm_in_multiplier", "ssm_out_multiplier", "key_multiplier"].map(factor);
    let (attention_in, attention_out, ssm_in, ssm_out, key) = (attention_in?, attention_out?, ssm_in?, ssm_out?, key?);
    let [gate_factor, down_factor] = factors(s, "mlp_multipliers")?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation("silu")?;
    let normalised = if s.is_gguf() { has_norm(s) } else { s.bool_or("mamba_rms_norm", "", false)? };
    let after = match normalised {
        false => GateAndNorm::GateOnly,
        true if !s.is_gguf() && s.bool_or("mamba_norm_before_gate", "", true)? => {
            s.hf_only(true, "its mixers are normalised before they are gated");
            GateAndNorm::NormFirst(c.eps)
        }
        true => GateAndNorm::GateFirst(c.eps),
    };
    let mixer_factors = factors(s, "ssm_multipliers")?;
    let mixer = Mamba2 { factors: mixer_factors, ..Mamba2::read(s, c.width, act, after)? };
    let held: [(&str, &[f32]); 12] = [
        ("token_embd.weight", &[c.embed_scale]),
        ("output.weight", &[c.logit_scale]),
        ("attn_q.weight", &[attention_in]),
        ("attn_k.weight", &[attention_in * key]),
        ("attn_k.bias", &[key]),
        ("attn_v.weight", &[attention_in]),
        ("attn_output", &[attention_out]),
        ("ssm_out", &[ssm_out]),
        ("ffn_gate", &[gate_factor]),
        ("ffn_down", &[down_factor]),
        ("ssm_in.weight", &mixer.row_factors(ssm_in)),
        ("ssm_in.bias", &mixer.row_factors(1.0)),
    ];
    if c.embed_scale != c.logit_scale {
        s.note_own_output();
    }
    held.into_iter().for_each(|(name, factors)| s.note_factors(name, factors));
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let y = g.scale(x, ssm_in);
            let y = mixer.build(g, y);
            let y = g.scale(y, ssm_out);
            let z = g.scale(x, attention_in);
            let z = heads.attention(g, z, Mask::Causal, |g, q, name| {
                let q = if name == "attn_k" { g.scale(q, key) } else { q };
                g.rope(q, heads.head, &rope)
            });
            let z = g.scale(z, attention_out);
            g.add(y, z)
        });
        let h = g.plain_norm(x, c.width, c.eps);
        let h = g.with_weight(h, Binary::Mul, "ffn_norm");
        let gate = g.linear(h, "ffn_gate", inner);
        let gate = g.scale(gate, gate_factor);
        let up = g.linear(h, "ffn_up", inner);
        let h = g.glu(gate, up, act);
        let y = g.linear(h, "ffn_down", c.width);
        let y = g.scale(y, down_factor);
        g.add(x, y)
    }))
}

/// Whether the mixers of a GGUF file have norms.
fn has_norm(s: &Settings<'_>) -> bool {
    s.checkpoint.tensor("blk.0.ssm_norm.weight").is_some()
}

/// A list of `N` factors, all one where there is none.
fn factors<const N: usize>(s: &Settings<'_>, key: &str) -> Result<[f32; N]> {
    let Some(value) = (if s.is_gguf() { None } else { s.json(key) }) else { return Ok([1.0; N]) };
    let list: Option<Vec<f32>> = value.as_array().and_then(|list| list.iter().map(|v| v.as_f64().map(|x| x as f32)).collect());
    let list: [f32; N] =
        list.and_then(|list| list.try_into().ok()).ok_or_else(|| s.wrong(key, "", format!("should be a list of {N} numbers")))?;
    Ok(list)
}
