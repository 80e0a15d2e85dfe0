//! GLM-4.5 (GLM-4.5 Team 2025, arXiv:2508.06471) and what is shaped like it: grouped-query attention with the mixture of experts of
//! DeepSeek-V3. dots.llm1 (Huo et al. 2025, arXiv:2506.05767), MiniMax-M2 (MiniMax 2025), Hy3 (Tencent 2026), Solar Open (Upstage 2026),
//! Sarvam (Sarvam AI 2026), and ERNIE 4.5 (Baidu 2025) and the first DeepSeek (Dai et al. 2024, arXiv:2401.06066), whose scores are a
//! softmax. Reference: transformers' `models/glm4_moe` and those of the others' names, and `modeling_deepseek.py` of
//! deepseek-ai/deepseek-moe-16b-base.

use super::{
    Arch,
    blocks::*,
    llama::MIXTRAL_EXPERTS,
    mixture::{CORRECTION, Implied, Mixture, SHARED_EXPERTS},
};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Graph, RopeStyle, Score, Value};

pub(crate) static GLM4_MOE: Arch = Arch {
    hf: &["glm4_moe"],
    gguf: &["glm4moe"],
    tensors: &[TRUNK, GLM_NORMS, ATTENTION, QK_NORMS, FFN, EXPERTS, CORRECTION, SHARED_EXPERTS],
    ignored: &[],
    plan: |s, g| plan(s, g, &Family { rotary: Rotary { part: 0.5, ..Rotary::HALVES }, ..GLM }),
};

pub(crate) static SOLAR_OPEN: Arch = Arch {
    hf: &["solar_open"],
    plan: |s, g| {
        let implied = Implied { dense: 0, ..Implied::SIGMOID };
        plan(s, g, &Family { implied, rotary: Rotary { base: 1e6, ..Rotary::HALVES }, ..GLM })
    },
    ..GLM4_MOE
};

pub(crate) static SARVAM_MOE: Arch = Arch {
    hf: &["sarvam_moe"],
    gguf: &["bailingmoe2"],
    tensors: &[SARVAM, TRUNK, PRE_NORMS, FFN, EXPERTS, SHARED_EXPERTS],
    ignored: &[],
    plan: |s, g| {
        let implied = Implied { scale: 2.5, ..Implied::SIGMOID };
        let rotary = Rotary { base: 8e6, ..Rotary::HALVES };
        plan(s, g, &Family { implied, rotary, qk_norm: true, bias: "attention_bias|use_qkv_bias", ..DOTS })
    },
};

pub(crate) static DOTS1: Arch = Arch {
    hf: &["dots1"],
    gguf: &["dots1"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, FFN, EXPERTS, CORRECTION, SHARED_EXPERTS],
    ignored: &[],
    plan: |s, g| {
        let heads = s.size("num_attention_heads", "attention.head_count")?;
        let keys = s.size_or("num_key_value_heads", "attention.head_count_kv", heads)?;
        s.unread_by_llama_cpp(heads != keys, "several of its heads share keys and values");
        plan(s, g, &Family { implied: Implied { normalize: false, shared: 0, dense: 0, ..Implied::SIGMOID }, ..DOTS })
    },
};

pub(crate) static HY_V3: Arch = Arch {
    hf: &["hy_v3"],
    gguf: &["hy_v3"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, FFN, HUNYUAN, EXPERTS],
    ignored: &[],
    plan: |s, g| {
        let implied = Implied { scale: 2.826, says_normalize: false, ..Implied::SIGMOID };
        plan(s, g, &Family { implied, rotary: Rotary { base: 11_158_840.0, ..Rotary::HALVES }, ..DOTS })
    },
};

pub(crate) static MINIMAX_M2: Arch = Arch {
    hf: &["minimax_m2"],
    gguf: &["minimax-m2"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, QK_NORMS, MIXTRAL_EXPERTS, MINIMAX],
    ignored: &[],
    plan: |s, g| {
        if s.text_or("qk_norm_type", "", "per_layer")? != "per_layer" {
            return Err(s.wrong("qk_norm_type", "", "is not `per_layer`, the only kind that is known"));
        }
        // llama.cpp takes the width of the experts from here.
        s.size("intermediate_size", "feed_forward_length")?;
        let implied = Implied { says_normalize: false, shared: 0, dense: 0, ..Implied::SIGMOID };
        plan(s, g, &Family { implied, rotary: Rotary { base: 5e6, ..Rotary::HALVES }, over_all: true, ..DOTS })
    },
};

pub(crate) static ERNIE4_5_MOE: Arch = Arch {
    hf: &["ernie4_5_moe"],
    gguf: &["ernie4_5-moe"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN, EXPERTS, ERNIE, SHARED_EXPERTS],
    ignored: &["model.mtp*"],
    plan: |s, g| {
        let floor = s.optional_float("moe_norm_min", "")?.unwrap_or(0.0);
        if floor > 1e-6 {
            return Err(s.wrong("moe_norm_min", "", format!("is {floor}; as a bound that matters it is not known")));
        }
        let implied = Implied { score: Score::Softmax, says_normalize: false, shared: 2, ..Implied::SIGMOID };
        let rotary = Rotary { base: 500_000.0, ..Rotary::PAIRS };
        plan(s, g, &Family { implied, rotary, qk_norm: false, bias: "use_bias", ..DOTS })
    },
};

pub(crate) static DEEPSEEK: Arch = Arch {
    hf: &["deepseek"],
    gguf: &["deepseek"],
    tensors: &[TRUNK, PRE_NORMS, INTERLEAVED_ATTENTION, FFN, EXPERTS, SHARED_EXPERTS],
    ignored: &[],
    plan: |s, g| {
        let implied =
            Implied { score: Score::Softmax, corrected: false, normalize: false, shared: 2, dense: 0, best: 1, ..Implied::SIGMOID };
        plan(s, g, &Family { implied, rotary: Rotary::new(RopeStyle::Pairs), qk_norm: false, ..DOTS })
    },
};

/// GGUF files call the norm before the feed-forward layer after what it follows, as the Hub does.
const GLM_NORMS: &[Entry] = &[
    tensor("blk.{}.attn_norm", "model.layers.{}.input_layernorm"),
    tensor("blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"),
];

pub(super) const SARVAM: &[Entry] = &[
    tensor("token_embd", "model.word_embeddings"),
    tensor("blk.{}.attn_qkv", "model.layers.{}.attention.query_key_value"),
    tensor("blk.{}.attn_q_norm", "model.layers.{}.attention.query_layernorm"),
    tensor("blk.{}.attn_k_norm", "model.layers.{}.attention.key_layernorm"),
    tensor("blk.{}.attn_output", "model.layers.{}.attention.dense"),
    tensor("blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.gate.expert_bias"),
];

const HUNYUAN: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.mlp.router.gate"),
    tensor("blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.expert_bias").bare(),
    tensor("blk.{}.ffn_gate_shexp", "model.layers.{}.mlp.shared_mlp.gate_proj"),
    tensor("blk.{}.ffn_up_shexp", "model.layers.{}.mlp.shared_mlp.up_proj"),
    tensor("blk.{}.ffn_down_shexp", "model.layers.{}.mlp.shared_mlp.down_proj"),
];

const MINIMAX: &[Entry] = &[tensor("blk.{}.exp_probs_b.bias", "model.layers.{}.block_sparse_moe.e_score_correction_bias")];

const ERNIE: &[Entry] = &[tensor("blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.moe_statics.e_score_correction_bias")];

/// In what the families differ.
pub(super) struct Family {
    pub(super) implied: Implied,
    pub(super) rotary: Rotary,
    /// Whether queries and keys are normalised where the configuration does not say.
    pub(super) qk_norm: bool,
    /// Whether over all heads at once.
    pub(super) over_all: bool,
    pub(super) ffn_norm: &'static str,
    /// The setting that says whether queries, keys and values have biases.
    pub(super) bias: &'static str,
}

pub(super) const DOTS: Family = Family {
    implied: Implied::SIGMOID,
    rotary: Rotary::HALVES,
    qk_norm: true,
    over_all: false,
    ffn_norm: "ffn_norm",
    bias: "attention_bias",
};

const GLM: Family = Family { qk_norm: false, ffn_norm: "post_attention_norm", ..DOTS };

pub(super) fn plan(s: &Settings<'_>, g: &mut Graph<'_>, family: &Family) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads { biased: s.implied(family.bias, false)?, ..Heads::read(s, c.width)? };
    // MiniMax counts the dimensions that turn.
    let turned = if s.is_gguf() { None } else { s.optional_size("rotary_dim", "")? };
    let part = turned.map_or(family.rotary.part, |dims| dims as f64 / heads.head as f64);
    let rope = s.rotary(heads.head, Rotary { part, ..family.rotary })?;
    let normed = match s.is_gguf() {
        true => [heads.head, heads.heads * heads.head].iter().any(|n| g.has("blk.0.attn_q_norm.weight", &[*n])),
        false => s.bool_or("use_qk_norm", "", family.qk_norm)?,
    };
    // Of Ling 2 and Sarvam.
    if s.gguf_name == "bailingmoe2" {
        s.unread_by_llama_cpp(heads.heads * heads.head != c.width, "its heads together are not as wide as its stream");
        s.unread_by_llama_cpp(!normed, "its queries and keys are not normalised");
    }
    let first = s.optional_size("max_window_layers", "")?.unwrap_or(c.layers);
    let masks = masks(s, c.layers, s.optional_size("sliding_window", "")?, first)?;
    let mixture = Mixture::read(s, c.layers, &family.implied)?;
    Ok(c.build(g, |g, layer, x| {
        let prepare = |g: &mut Graph<'_>, q, name: &str| {
            let name = format!("{name}_norm");
            let q = match (normed, family.over_all) {
                (false, _) => q,
                (true, false) => g.head_norm(q, &name, heads.head, c.eps),
                (true, true) => g.rms_norm(q, &name, c.eps),
            };
            g.rope(q, heads.head, &rope)
        };
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, masks[layer], prepare));
        c.residual(g, x, family.ffn_norm, |g, x| mixture.build(g, layer, x))
    }))
}
