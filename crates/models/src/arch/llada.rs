//! LLaDA (Nie et al. 2025, arXiv:2502.09992): Llama that sees the whole text and guesses its masked tokens; and LLaDA-MoE (Zhu et al. 2025,
//! arXiv:2509.24389): the same with norms of queries and keys over each head, and with a mixture of experts.
//! Reference: `modeling_llada.py` and `modeling_lladamoe.py` of the published checkpoints.

use super::{Arch, blocks::*, denoiser::denoises};
use crate::{
    Result,
    names::{Entry, tensor},
    settings::Settings,
};
use onebit_plan::{Function, Graph, Mask, RopeStyle, Value};

pub(crate) static LLADA: Arch = Arch { hf: &["llada"], gguf: &["llada"], tensors: &[OLMO_NAMES], ignored: &[], plan };

/// Published as `llada` too.
pub(crate) static LLADA_MOE: Arch = Arch {
    hf: &["llada_moe", "lladamoe"],
    gguf: &["llada-moe"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, FFN, EXPERTS, SHARED],
    ignored: &[],
    plan: mixture,
};

/// As the code of the first OLMo has them.
const OLMO_NAMES: &[Entry] = &[
    tensor("token_embd", "model.transformer.wte"),
    tensor("output_norm", "model.transformer.ln_f"),
    tensor("output", "model.transformer.ff_out"),
    tensor("blk.{}.attn_norm", "model.transformer.blocks.{}.attn_norm"),
    tensor("blk.{}.attn_q", "model.transformer.blocks.{}.q_proj").ordered(pairs),
    tensor("blk.{}.attn_k", "model.transformer.blocks.{}.k_proj").ordered(pairs),
    tensor("blk.{}.attn_v", "model.transformer.blocks.{}.v_proj"),
    tensor("blk.{}.attn_output", "model.transformer.blocks.{}.attn_out"),
    GGUF_QKV,
    tensor("blk.{}.ffn_norm", "model.transformer.blocks.{}.ff_norm"),
    tensor("blk.{}.ffn_gate", "model.transformer.blocks.{}.ff_proj"),
    tensor("blk.{}.ffn_up", "model.transformer.blocks.{}.up_proj"),
    tensor("blk.{}.ffn_down", "model.transformer.blocks.{}.ff_out"),
];

const SHARED: &[Entry] = &[
    tensor("blk.{}.ffn_gate_shexp", "model.layers.{}.shared_expert.gate_proj"),
    tensor("blk.{}.ffn_up_shexp", "model.layers.{}.shared_expert.up_proj"),
    tensor("blk.{}.ffn_down_shexp", "model.layers.{}.shared_expert.down_proj"),
];

/// What OLMo's code can switch, and how LLaDA has it.
const SWITCHES: [(&str, bool); 6] = [
    ("alibi", false),
    ("attention_layer_norm", false),
    ("input_emb_norm", false),
    ("multi_query_attention", false),
    ("rope", true),
    ("scale_logits", false),
];
const WORDS: [(&str, &str); 2] = [("block_type", "llama"), ("layer_norm_type", "rms")];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    for (key, usual) in SWITCHES {
        if s.implied(key, usual)? != usual {
            return Err(s.wrong(key, "", format!("is {}, which no LLaDA has, and is not known here", !usual)));
        }
    }
    for (key, usual) in WORDS {
        let word = if s.is_gguf() { usual.into() } else { s.text_or(key, "", usual)? };
        if word != usual {
            return Err(s.wrong(key, "", format!("is `{word}`; known is `{usual}`")));
        }
    }
    denoises(s, g, false)?;
    let c = Decoder::read(s)?;
    let biased = s.implied("include_bias", false)? || s.implied("include_qkv_bias", false)?;
    s.unread_by_llama_cpp(biased, "it has biases");
    let heads = Heads { biased, ..Heads::read(s, c.width)? };
    let rope = s.rope(heads.head, RopeStyle::Pairs)?;
    let inner = s.size("mlp_hidden_size", "feed_forward_length")?;
    let act = s.activation_of("activation_type", "silu")?;
    Ok(c.build(g, |g, _, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Full, |g, q, _| g.rope(q, heads.head, &rope)));
        c.residual(g, x, "ffn_norm", |g, x| g.gated_ffn(x, inner, act))
    }))
}

fn mixture(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    denoises(s, g, false)?;
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rope(heads.head, RopeStyle::Halves)?;
    let normed = s.implied("qk_layernorm", true)?;
    s.hf_only(!normed, "its queries and keys are not normalised, as those in GGUF files of `llada-moe` are");
    let experts = Experts::read(s, c.layers)?;
    let prepare = |g: &mut Graph<'_>, q, name: &str| {
        let q = if normed { g.head_norm(q, &format!("{name}_norm"), heads.head, c.eps) } else { q };
        g.rope(q, heads.head, &rope)
    };
    Ok(c.build(g, |g, layer, x| {
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, Mask::Full, prepare));
        c.residual(g, x, "ffn_norm", |g, x| experts.build(g, layer, x))
    }))
}

/// The mixture, beside which some layers could have a common expert, and in place of which they could have one gated layer.
struct Experts {
    moe: Moe,
    dense: Vec<bool>,
    inner: usize,
    act: Function,
}

impl Experts {
    fn read(s: &Settings<'_>, layers: usize) -> Result<Self> {
        if s.implied("moe_router_enable_expert_bias", false)? {
            return Err(s.wrong("moe_router_enable_expert_bias", "", "is true, which no LLaDA-MoE has, and is not known here"));
        }
        if s.json("clip_qkv").is_some() {
            return Err(s.wrong("clip_qkv", "", "is set, which no LLaDA-MoE has, and is not known here"));
        }
        let moe = Moe::read(s, false, false)?;
        let shared = s.optional_size("shared_expert_intermediate_size", "")?;
        let listed = s.per_layer("moe_layer_freq", layers)?;
        let dense: Vec<bool> = (0..layers).map(|i| listed.as_ref().is_some_and(|list| list[i].as_u64() == Some(0))).collect();
        let any = dense.contains(&true);
        s.hf_only(shared.is_some() || any, "it has layers without a mixture, or a shared expert, which GGUF files of `llada-moe` have not");
        let inner = if any { s.size("dense_intermediate_size", "")? } else { 0 };
        Ok(Self { moe: shared.map_or(moe, |width| moe.with_shared(width)), dense, inner, act: s.activation("silu")? })
    }

    fn build(&self, g: &mut Graph<'_>, layer: usize, x: Value) -> Value {
        if self.dense[layer] { g.gated_ffn(x, self.inner, self.act) } else { self.moe.build(g, x) }
    }
}
