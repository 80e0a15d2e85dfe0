//! Llama (Touvron et al. 2023, arXiv:2302.13971; with grouped heads arXiv:2307.09288) and what is shaped like it:
//! Mistral (Jiang et al. 2023, arXiv:2310.06825) and its mixture of experts Mixtral (Jiang et al. 2024, arXiv:2401.04088), CWM,
//! InternLM 1 and 3, XVERSE, Aquila (BAAI 2023), Skywork (Wei et al. 2023, arXiv:2310.19341), openPangu Embedded (Huawei 2025),
//! IQuest-Coder (IQuest Lab 2026), Orion with LayerNorm (Chen et al. 2024, arXiv:2401.12246), Arcee AFM with its feed-forward layer without a gate, and SmolLM3, some
//! layers of which do not know positions (Yang et al. 2025, arXiv:2501.18795).

use super::{Arch, blocks::*};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Graph, RopeStyle, Value};

pub(crate) static LLAMA: Arch = Arch {
    hf: &["llama", "mistral", "ministral", "mixtral", "cwm", "internlm3", "aquila", "skywork", "iquestcoder"],
    gguf: &["llama"],
    tensors: &[TRUNK, PRE_NORMS, INTERLEAVED_ATTENTION, FFN, MIXTRAL_EXPERTS],
    ignored: &[],
    plan: |s, g| plan(s, g, &Family::default()),
};

pub(crate) static MINISTRAL3: Arch = Arch {
    hf: &["ministral3"],
    gguf: &["mistral3"],
    tensors: &[TRUNK, PRE_NORMS, INTERLEAVED_ATTENTION, FFN],
    ignored: &[],
    plan: |s, g| {
        plan(
            s,
            g,
            &Family { grows: true, rotary: Rotary { base: 1e6, growth_unit: 1.0, ..Rotary::new(RopeStyle::Pairs) }, ..Family::default() },
        )
    },
};

pub(crate) static ARCEE: Arch = Arch {
    hf: &["arcee"],
    gguf: &["arcee"],
    tensors: &[TRUNK, PRE_NORMS, INTERLEAVED_ATTENTION, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, &Family { act: "relu2", gated: false, ..Family::default() }),
};

pub(crate) static SMOLLM3: Arch = Arch {
    hf: &["smollm3"],
    gguf: &["smollm3"],
    tensors: &[TRUNK, PRE_NORMS, INTERLEAVED_ATTENTION, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, &Family { without_positions: without_positions(s)?, ..Family::default() }),
};

pub(crate) static XVERSE: Arch = Arch {
    hf: &["xverse"],
    gguf: &["xverse"],
    tensors: &[TRUNK, PRE_NORMS, INTERLEAVED_ATTENTION, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, &Family::default()),
};

pub(crate) static INTERNLM: Arch = Arch {
    hf: &["internlm"],
    gguf: &[],
    tensors: &[TRUNK, PRE_NORMS, INTERLEAVED_ATTENTION, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, &Family { bias: "bias", ..Family::default() }),
};

pub(crate) static ORION: Arch = Arch {
    hf: &["orion"],
    gguf: &["orion"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, &Family { layer_norm: true, rotary: Rotary::HALVES, ..Family::default() }),
};

pub(crate) static PANGU_EMBEDDED: Arch = Arch {
    hf: &["PanguEmbedded", "pangu_embedded"],
    gguf: &["pangu-embedded"],
    tensors: &[TRUNK, PRE_NORMS, ATTENTION, FFN],
    ignored: &[],
    plan: |s, g| plan(s, g, &Family { bias: "bias", rotary: Rotary::HALVES, ..Family::default() }),
};

pub(super) const MIXTRAL_EXPERTS: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.gate"),
    tensor("blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.experts.{e}.w1"),
    tensor("blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.experts.{e}.w3"),
    tensor("blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.experts.{e}.w2"),
];

/// In what the families differ.
pub(super) struct Family {
    /// The activation that GGUF files imply.
    pub(super) act: &'static str,
    /// Whether the feed-forward layer has a gate.
    pub(super) gated: bool,
    /// Layers that do not turn queries and keys.
    pub(super) without_positions: Vec<usize>,
    /// How queries and keys turn.
    pub(super) rotary: Rotary,
    /// Whether queries grow with the position, as the settings of the rotation say (Ministral 3).
    pub(super) grows: bool,
    /// The setting that says whether queries, keys and values have biases.
    pub(super) bias: &'static str,
    /// Whether norms are LayerNorms, whatever the epsilon is called.
    pub(super) layer_norm: bool,
}

impl Default for Family {
    fn default() -> Self {
        Self {
            act: "silu",
            gated: true,
            without_positions: vec![],
            rotary: Rotary::new(RopeStyle::Pairs),
            grows: false,
            bias: "attention_bias",
            layer_norm: false,
        }
    }
}

/// The layers of SmolLM3 without positions: each fourth, unless the configuration says otherwise.
fn without_positions(s: &Settings<'_>) -> Result<Vec<usize>> {
    let layers = s.layers()?;
    let each = |n: usize| (0..layers).filter(|i| (i + 1) % n == 0).collect::<Vec<usize>>();
    let chosen = match s.per_layer("no_rope_layers", layers)? {
        Some(turn) => (0..layers).filter(|i| turn[*i].as_u64() == Some(0)).collect(),
        None => each(s.optional_size("no_rope_layer_interval", "")?.unwrap_or(4)),
    };
    s.hf_only(chosen != each(4), "its layers without positions are not each fourth, as GGUF files of `smollm3` mean");
    Ok(chosen)
}

/// How queries grow: by how much, and over how many tokens.
pub(super) fn growth(s: &Settings<'_>) -> Result<Option<(f32, usize)>> {
    let Some(beta) = s.optional_float("rope_parameters.llama_4_scaling_beta", "attention.temperature_scale")? else { return Ok(None) };
    let every = s.size_to("rope_parameters.original_max_position_embeddings", "rope.scaling.original_context_length", 1 << 31)?;
    Ok(Some((beta as f32, every)).filter(|_| beta != 0.0))
}

pub(super) fn plan(s: &Settings<'_>, g: &mut Graph<'_>, family: &Family) -> Result<Value> {
    let c = if family.layer_norm { Decoder::read_layer_norm(s, "rms_norm_eps")? } else { Decoder::read(s)? };
    let heads = Heads { biased: s.implied(family.bias, false)?, ..Heads::read(s, c.width)? };
    let rope = s.rotary(heads.head, family.rotary)?;
    let inner = s.size("intermediate_size", "feed_forward_length")?;
    let act = s.activation(family.act)?;
    let window = if s.implied("use_sliding_window", true)? { s.optional_size("sliding_window", "")? } else { None };
    let masks = masks(s, c.layers, window, 0)?;
    let growth = if family.grows { growth(s)? } else { None };
    let mixture = s.optional_size("num_local_experts", "expert_count")?.is_some();
    let moe = if mixture { Some(Moe::read(s, true, false)?) } else { None };
    Ok(c.build(g, |g, layer, x| {
        let turns = !family.without_positions.contains(&layer);
        let turn = |g: &mut Graph<'_>, q, name: &str| {
            let q = if turns { g.rope(q, heads.head, &rope) } else { q };
            match growth {
                Some((beta, every)) if name == "attn_q" => g.position_scale(q, beta, every, 0),
                _ => q,
            }
        };
        let x = c.residual(g, x, "attn_norm", |g, x| heads.attention(g, x, masks[layer], turn));
        c.residual(g, x, "ffn_norm", |g, x| match &moe {
            Some(moe) => moe.build(g, x),
            None if family.gated => g.gated_ffn(x, inner, act),
            None => g.ffn(x, inner, act),
        })
    }))
}
