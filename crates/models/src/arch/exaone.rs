//! EXAONE 3 (LG AI Research 2024, arXiv:2408.03541): Llama by other names. Reference: transformers' `models/exaone`.

use super::{
    Arch,
    llama::{Family, plan},
};
use crate::{
    names::{Entry, tensor},
    rope::Rotary,
};

pub(crate) static EXAONE: Arch = Arch {
    hf: &["exaone"],
    gguf: &["exaone"],
    tensors: &[TENSORS],
    ignored: &["*.rotary.inv_freq"],
    plan: |s, g| plan(s, g, &Family { rotary: Rotary { base: 500_000.0, ..Rotary::HALVES }, ..Family::default() }),
};

const TENSORS: &[Entry] = &[
    tensor("token_embd", "transformer.wte"),
    tensor("output_norm", "transformer.ln_f"),
    tensor("output", "lm_head"),
    tensor("blk.{}.attn_norm", "transformer.h.{}.ln_1"),
    tensor("blk.{}.attn_q", "transformer.h.{}.attn.attention.q_proj"),
    tensor("blk.{}.attn_k", "transformer.h.{}.attn.attention.k_proj"),
    tensor("blk.{}.attn_v", "transformer.h.{}.attn.attention.v_proj"),
    tensor("blk.{}.attn_qkv", ""),
    tensor("blk.{}.attn_output", "transformer.h.{}.attn.attention.out_proj"),
    tensor("blk.{}.ffn_norm", "transformer.h.{}.ln_2"),
    tensor("blk.{}.ffn_gate", "transformer.h.{}.mlp.c_fc_0"),
    tensor("blk.{}.ffn_up", "transformer.h.{}.mlp.c_fc_1"),
    tensor("blk.{}.ffn_down", "transformer.h.{}.mlp.c_proj"),
];
