//! Grok 1 and 2 (xAI 2024, 2025): norms before and behind, bounded attention scores and router logits, and a mixture of experts, beside
//! which Grok 2 has a feed-forward layer for all tokens. The weights of the chosen experts are left as the softmax over all gives them.
//! Reference: SGLang's `models/grok.py`. Grok 2's scores grow with the position after 1024 tokens, which is not known here: its context
//! ends there.

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{ExpertsSpec, Function, Graph, Mask, Route, Score, Value};

pub(crate) static GROK1: Arch = Arch { hf: &["grok-1"], gguf: &["grok"], tensors: &[GROK1_TENSORS, FFN], ignored: &[], plan };

pub(crate) static GROK2: Arch =
    Arch { hf: &["grok-2"], gguf: &["grok"], tensors: &[TRUNK, ATTENTION, FFN, GROK2_TENSORS], ignored: &[], plan };

/// It reads the GGUF files of both. As published in PyTorch's form; or as converted from JAX with the original's names.
const GROK1_TENSORS: &[Entry] = &[
    tensor("token_embd", "model.embed_tokens").or("transformer.in_out_embed"),
    tensor("output_norm.weight", "model.norm.scale").or("transformer.rms_norm.weight"),
    tensor("output", "lm_head"),
    tensor("blk.{}.attn_norm.weight", "model.layers.{}.pre_attn_norm.scale").or("transformer.decoder_layer.{}.rms_norm.weight"),
    tensor("blk.{}.attn_output_norm.weight", "model.layers.{}.post_attn_norm.scale").or("transformer.decoder_layer.{}.rms_norm_1.weight"),
    tensor("blk.{}.ffn_norm.weight", "model.layers.{}.pre_moe_norm.scale").or("transformer.decoder_layer.{}.rms_norm_2.weight"),
    tensor("blk.{}.layer_output_norm.weight", "model.layers.{}.post_moe_norm.scale").or("transformer.decoder_layer.{}.rms_norm_3.weight"),
    tensor("blk.{}.post_ffw_norm", ""),
    tensor("blk.{}.attn_q", "model.layers.{}.attn.q_proj").or("transformer.decoder_layer.{}.multi_head_attention.query"),
    tensor("blk.{}.attn_k", "model.layers.{}.attn.k_proj").or("transformer.decoder_layer.{}.multi_head_attention.key"),
    tensor("blk.{}.attn_v", "model.layers.{}.attn.v_proj").or("transformer.decoder_layer.{}.multi_head_attention.value"),
    tensor("blk.{}.attn_output", "model.layers.{}.attn.o_proj").or("transformer.decoder_layer.{}.multi_head_attention.linear"),
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.moe_block.gate").or("transformer.decoder_layer.{}.router"),
    tensor("blk.{}.ffn_gate_exps", "model.layers.{}.moe_block.experts.{e}.linear").or("transformer.decoder_layer.{}.moe.{e}.linear"),
    tensor("blk.{}.ffn_up_exps", "model.layers.{}.moe_block.experts.{e}.linear_v").or("transformer.decoder_layer.{}.moe.{e}.linear_v"),
    tensor("blk.{}.ffn_down_exps", "model.layers.{}.moe_block.experts.{e}.linear_1").or("transformer.decoder_layer.{}.moe.{e}.linear_1"),
];

const GROK2_TENSORS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.pre_attn_norm"),
    tensor("blk.{}.attn_output_norm", "model.layers.{}.post_attn_norm"),
    tensor("blk.{}.ffn_norm", "model.layers.{}.pre_moe_norm"),
    tensor("blk.{}.post_ffw_norm", "model.layers.{}.post_moe_norm"),
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.gate"),
    tensor("blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.experts.{e}.w1"),
    tensor("blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.experts.{e}.w3"),
    tensor("blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.experts.{e}.w2"),
];

/// The bound on attention scores and router logits.
const BOUND: f64 = 30.0;

/// The mixture, and the feed-forward layer beside it.
struct Feed {
    spec: ExpertsSpec,
    top_k: usize,
    /// Bound on the router's logits.
    bound: f32,
    /// Width of the layer for all tokens.
    residual: Option<usize>,
    act: Function,
}

impl Feed {
    fn read(s: &Settings<'_>, g: &Graph<'_>, width: usize) -> Result<Self> {
        const INNER: (&str, &str) = ("intermediate_size", "feed_forward_length");
        let (experts, top_k) = Moe::counts(s)?;
        let inner = s.size(INNER.0, INNER.1)?;
        let expert = s.size_or("moe_intermediate_size", "expert_feed_forward_length", inner)?;
        // In GGUF files it is there where its tensors are.
        let beside = if s.is_gguf() { g.has("blk.0.ffn_up.weight", &[inner, width]) } else { s.bool_or("residual_moe", "", false)? };
        let act = s.activation("gelu_pytorch_tanh")?;
        Ok(Self {
            spec: ExpertsSpec::new(experts, expert, act),
            top_k,
            bound: s.float_or("router_logit_softcapping", "router_logit_softcapping", BOUND)? as f32,
            residual: beside.then_some(inner),
            act,
        })
    }

    fn build(&self, g: &mut Graph<'_>, x: Value) -> Value {
        let logits = g.linear(x, "ffn_gate_inp", self.spec.experts);
        let logits = softcap(g, logits, self.bound);
        let route = g.route(logits, Route::new(self.top_k, Score::Softmax));
        let y = g.experts(x, route, &self.spec);
        let Some(inner) = self.residual else { return y };
        let z = g.gated_ffn(x, inner, self.act);
        let sum = g.add(y, z);
        g.scale(sum, std::f32::consts::FRAC_1_SQRT_2)
    }
}

/// Refuses what the reference code knows and is not known here.
fn refuse_others(s: &Settings<'_>) -> Result<()> {
    let kind = s.text_or("rope_type", "", "original")?;
    if kind != "original" {
        return Err(s.wrong("rope_type", "", format!("is `{kind}`; only `original`, which does not stretch the context, is known")));
    }
    for (key, what) in [("sliding_window_size", "windows"), ("rope_rotate_half_dims", "heads that turn in part")] {
        if s.json(key).is_some_and(|v| v.as_i64().is_some_and(|n| n > 0) || v.as_bool() == Some(true)) {
            return Err(s.wrong(key, "", format!("asks for {what}, which are not known here")));
        }
    }
    let method = s.text_or("attn_logit_softcapping_method", "", "tanh")?;
    if method != "tanh" {
        return Err(s.wrong("attn_logit_softcapping_method", "", format!("is `{method}`; only `tanh` is known")));
    }
    Ok(())
}

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    refuse_others(s)?;
    let c = Decoder {
        embed_scale: s.float_or("embedding_multiplier_scale", "embedding_scale", 78.383_671_769_061_69)? as f32,
        logit_scale: s.float_or("output_multiplier_scale", "logit_scale", 0.577_350_269_189_625_7)? as f32,
        logit_softcap: s.optional_positive("final_logit_softcapping", "final_logit_softcapping")?.map(|x| x as f32),
        ..Decoder::read(s)?
    };
    let heads = Heads::read(s, c.width)?;
    let scale = s.float_or("attn_output_multiplier", "attention.output_scale", f64::from(heads.scale))? as f32;
    let bound = s.float_or("attn_logit_softcapping|max_attn_value", "attn_logit_softcapping", BOUND)? as f32;
    let heads = Heads { scale, softcap: Some(bound), ..heads };
    if let Some(tokens) = s.optional_size("attn_temperature_len", "attention.temperature_length")? {
        g.limit_context(tokens + 1);
    }
    let rope = s.rotary(heads.head, Rotary::HALVES)?;
    let feed = Feed::read(s, g, c.width)?;
    // GGUF files have either name.
    let behind = if g.has("blk.0.layer_output_norm.weight", &[c.width]) { "layer_output_norm" } else { "post_ffw_norm" };
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| {
            let y = heads.attention(g, x, Mask::Causal, |g, q, _| g.rope(q, heads.head, &rope));
            c.norm(g, y, "attn_output_norm")
        });
        c.residual(g, x, "ffn_norm", |g, x| {
            let y = feed.build(g, x);
            c.norm(g, y, behind)
        })
    }))
}
