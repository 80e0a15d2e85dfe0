//! Ling and Ring (Ling Team 2025, arXiv:2503.05139, arXiv:2510.22115): Llama's attention with queries, keys and values of one matrix, and
//! DeepSeek's mixtures; in the second generation with normalised queries and keys of which a half turns. Reference:
//! `modeling_bailing_moe.py` of inclusionAI/Ling-lite, and `modeling_bailing_moe_v2.py` of inclusionAI/Ling-mini-2.0.

use super::{
    Arch,
    baichuan::UNIT_HEAD,
    blocks::*,
    glm4_moe::{DOTS, Family, SARVAM, plan},
    mixture::{Implied, SHARED_EXPERTS},
};
use crate::{
    names::{Entry, tensor},
    rope::Rotary,
};
use onebit_plan::{RopeStyle, Score};

pub(crate) static BAILING_MOE: Arch = Arch {
    hf: &["bailing_moe"],
    gguf: &["bailingmoe"],
    tensors: &[INTERLEAVED, SARVAM, TRUNK, PRE_NORMS, FFN, EXPERTS, SHARED_EXPERTS],
    ignored: &[],
    plan: |s, g| {
        let implied = Implied { score: Score::Softmax, corrected: false, shared: 0, dense: 0, best: 1, ..Implied::SIGMOID };
        let rotary = Rotary { base: 600_000.0, ..Rotary::new(RopeStyle::Pairs) };
        plan(s, g, &Family { implied, rotary, qk_norm: false, bias: "use_qkv_bias", ..DOTS })
    },
};

/// The same with an output matrix whose rows have the length one.
pub(crate) static BAILING_MOE_NORM_HEAD: Arch = Arch {
    hf: &["bailing_moe_norm_head"],
    tensors: &[UNIT_HEAD, INTERLEAVED, SARVAM, TRUNK, PRE_NORMS, FFN, EXPERTS, SHARED_EXPERTS],
    ..BAILING_MOE
};

pub(crate) static BAILING_MOE_V2: Arch = Arch {
    hf: &["bailing_moe_v2"],
    gguf: &["bailingmoe2"],
    tensors: &[SARVAM, TRUNK, PRE_NORMS, FFN, EXPERTS, SHARED_EXPERTS],
    ignored: &[],
    plan: |s, g| {
        let implied = Implied { scale: 2.5, shared: 1, dense: 0, ..Implied::SIGMOID };
        let rotary = Rotary { base: 600_000.0, part: 0.5, ..Rotary::HALVES };
        plan(s, g, &Family { implied, rotary, bias: "use_qkv_bias", ..DOTS })
    },
};

const INTERLEAVED: &[Entry] = &[tensor("blk.{}.attn_qkv", "model.layers.{}.attention.query_key_value").ordered(|s| {
    let heads = Heads::read(s, Decoder::width(s)?)?;
    Ok(heads.ungrouped_pairs(s.rope(heads.head, RopeStyle::Pairs)?.dims()))
})];
