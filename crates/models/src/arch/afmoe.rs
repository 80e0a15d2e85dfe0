//! AFMoE, the architecture of Trinity (Arcee AI 2025): norms before and behind, normalised queries and keys, gated attention (Qiu et al.
//! 2025, arXiv:2505.06708), positions in the layers with a window only, and the mixture of experts of DeepSeek-V3. Reference:
//! transformers' `models/afmoe`.

use super::{
    Arch,
    blocks::*,
    mixture::{Implied, Mixture, SHARED_EXPERTS},
    windows::periodic_masks,
};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Function, Graph, Mask, RopeStyle, Value};

pub(crate) static AFMOE: Arch = Arch {
    hf: &["afmoe"],
    gguf: &["afmoe"],
    tensors: &[TRUNK, OWN, ATTENTION, QK_NORMS, FFN, EXPERTS, SHARED_EXPERTS],
    ignored: &[],
    plan,
};

const OWN: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm"),
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.pre_mlp_layernorm"),
    tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_mlp_layernorm"),
    tensor("blk.{}.attn_gate", "model.layers.{}.self_attn.gate_proj"),
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.mlp.router.gate"),
    tensor("blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.expert_bias"),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let scaled = s.implied("mup_enabled", s.is_gguf())?;
    s.hf_only(!scaled, "its embedding is not scaled (`mup_enabled`), as GGUF files of `afmoe` mean");
    let c = Decoder { embed_scale: if scaled { (c.width as f32).sqrt() } else { 1.0 }, ..c };
    let heads = Heads::read(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let period = s.optional_size("global_attn_every_n_layers", "")?.unwrap_or(4);
    s.hf_only(period != 4, "its layers that see all are not each fourth, as GGUF files of `afmoe` mean");
    let masks = periodic_masks(s, c.layers, period)?;
    let implied = Implied { says_normalize: false, shared: 2, ..Implied::SIGMOID };
    let mixture = Mixture::read(s, c.layers, &implied)?;
    Ok(c.build(g, |g, layer, x| {
        let mask = masks[layer];
        let prepare = |g: &mut Graph<'_>, q, name: &str| {
            let q = g.head_norm(q, &format!("{name}_norm"), heads.head, c.eps);
            if mask == Mask::Causal { q } else { g.rope(q, heads.head, &rope) }
        };
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let [q, k, v] = heads.project(g, x);
            let (q, k) = (prepare(g, q, "attn_q"), prepare(g, k, "attn_k"));
            let y = heads.attend(g, [q, k, v], mask);
            let gate = g.linear(x, "attn_gate", g.width(y));
            let y = g.glu(gate, y, Function::Sigmoid);
            let y = g.linear(y, "attn_output", c.width);
            g.rms_norm(y, "post_attention_norm", c.eps)
        });
        c.residual(g, x, "ffn_norm", |g, x| {
            let y = mixture.build(g, layer, x);
            g.rms_norm(y, "post_ffw_norm", c.eps)
        })
    }))
}
