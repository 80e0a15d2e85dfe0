//! Qwen4 (Qwen Team 2026): Gated DeltaNet, gated attention and experts as in Qwen3.5, on several residual streams, with hashed n-grams in
//! some layers, and with attention over the blocks of tokens that an indexer chooses (QSA). Reference: transformers'
//! `models/qwen4_exp`.
//!
//! Of checkpoints that also see, the text model runs; the layers that predict further tokens (MTP) are left aside.

use super::{
    Arch,
    blocks::*,
    hyper::Streams,
    ngram::Ngrams,
    qwen3_5::{DELTA, Delta, GATED_NORMS, gated_attention, linear_layers},
};
use crate::{
    Result,
    names::{Entry, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Function, Graph, Rope, RopeStyle, Value};

pub(crate) static QWEN4_EXP: Arch = Arch {
    hf: &["qwen4_exp_text", "qwen4_exp"],
    gguf: &[],
    tensors: &[GATED_NORMS, HYPER, NGRAM, INDEXER, DELTA, ATTENTION, EXPERTS, SHARED_EXPERT],
    // What hashes are made of follows from the settings.
    ignored: &[
        "mtp.*",
        "*.ple_embedding.layer_multipliers",
        "*.ple_embedding.ngram_heads_offsets",
        "*.ple_embedding.ngram_heads_vocab_sizes",
    ],
    plan,
};

const HYPER: &[Entry] = &[
    tensor("blk.{}.hc_attn_norm", "model.layers.{}.attn_hyper_connection.hc_norm").add_one(),
    tensor("blk.{}.hc_attn_down", "model.layers.{}.attn_hyper_connection.input_mix_weight_down"),
    tensor("blk.{}.hc_attn_up", "model.layers.{}.attn_hyper_connection.input_mix_weight_up"),
    tensor("blk.{}.hc_attn_inject", "model.layers.{}.attn_hyper_connection.block_inject_weight"),
    tensor("blk.{}.hc_ffn_norm", "model.layers.{}.mlp_hyper_connection.hc_norm").add_one(),
    tensor("blk.{}.hc_ffn_down", "model.layers.{}.mlp_hyper_connection.input_mix_weight_down"),
    tensor("blk.{}.hc_ffn_up", "model.layers.{}.mlp_hyper_connection.input_mix_weight_up"),
    tensor("blk.{}.hc_ffn_inject", "model.layers.{}.mlp_hyper_connection.block_inject_weight"),
    tensor("output_hc_norm", "model.hyper_connection_mixer.hc_norm").add_one(),
    tensor("output_hc_down", "model.hyper_connection_mixer.input_mix_weight_down"),
    tensor("output_hc_up", "model.hyper_connection_mixer.input_mix_weight_up"),
];

const NGRAM: &[Entry] = &[
    tensor("blk.{}.ngram_embd", "model.layers.{}.ple.ple_embedding.ngram_embedding.shard_{e}")
        .or("model.layers.{}.ple.ple_embedding.ngram_embedding"),
    tensor("blk.{}.ngram_k", "model.layers.{}.ple.key_proj"),
    tensor("blk.{}.ngram_v", "model.layers.{}.ple.value_proj"),
    tensor("blk.{}.ngram_k_norm", "model.layers.{}.ple.norm_key").add_one(),
    tensor("blk.{}.ngram_q_norm", "model.layers.{}.ple.norm_query").add_one(),
    tensor("blk.{}.ngram_conv_norm", "model.layers.{}.ple.norm_conv").add_one(),
    tensor("blk.{}.ngram_conv", "model.layers.{}.ple.conv1d"),
];

const INDEXER: &[Entry] = &[
    tensor("blk.{}.attn_index", "model.layers.{}.self_attn.indexer.index_qk_proj"),
    tensor("blk.{}.attn_index_q_norm", "model.layers.{}.self_attn.indexer.q_layernorm").add_one(),
    tensor("blk.{}.attn_index_k_norm", "model.layers.{}.self_attn.indexer.k_layernorm").add_one(),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary::new(RopeStyle::Halves))?;
    let linear = linear_layers(s, c.layers, &["indexed_attention", "full_attention"])?;
    let delta = Delta { gate: output_gate(s)?, ..Delta::read(s)? };
    let streams = Streams::read(s, c.width, c.eps)?;
    let ngrams = Ngrams::read(s, c.width, &linear)?;
    let indexer = Indexer::read(s, &rope)?;
    let moe = Moe::read(s, true, true)?;
    let x = g.embed("token_embd", c.width, c.embed_scale);
    let x = streams.start(g, x);
    let x = g.layers(c.layers, x, |g, layer, x| {
        let x = ngrams.as_ref().map_or(x, |n| n.add(g, layer, x, &streams));
        let x = streams.block(g, x, "hc_attn", |g, x| {
            if linear[layer] {
                let projected = delta.project(g, x);
                return delta.build(g, &projected, c);
            }
            let only = indexer.choose(g, x, &rope, c.eps);
            let prepare = |g: &mut Graph<'_>, q, name: &str| {
                let q = g.head_norm(q, name, heads.head, c.eps);
                g.rope(q, heads.head, &rope)
            };
            gated_attention(g, x, &heads, prepare, |g, q, k, v, spec| g.sparse_attention(q, k, v, only, spec))
        });
        streams.block(g, x, "hc_ffn", |g, x| moe.build(g, x))
    });
    let x = g.select(x);
    let (_, x) = streams.mix(g, x, "output_hc");
    Ok(c.logits(g, x))
}

/// What becomes of the gate of DeltaNet's output.
fn output_gate(s: &Settings<'_>) -> Result<Function> {
    const KEY: &str = "output_gate_type|hidden_act";
    match s.text_or(KEY, "", "silu")?.as_str() {
        "silu" => Ok(Function::Silu),
        "sigmoid" => Ok(Function::Sigmoid),
        other => Err(s.wrong(KEY, "", format!("is `{other}`; known are silu and sigmoid"))),
    }
}

/// Chooses blocks of tokens: their keys are means, normalised and turned to where the block begins.
#[derive(Clone, Copy, Debug)]
struct Indexer {
    heads: usize,
    head: usize,
    block: usize,
    top: usize,
}

impl Indexer {
    fn read(s: &Settings<'_>, rope: &Rope) -> Result<Self> {
        const BUDGET: &str = "indexer_budget";
        const HEAD: &str = "indexer_head_dim";
        let it =
            Self { heads: s.size("indexer_n_heads", "")?, head: s.size(HEAD, "")?, block: s.size("indexer_compress_ratio", "")?, top: 0 };
        let keys = s.size("indexer_kv_heads", "")?;
        if keys != 1 {
            return Err(s.wrong("indexer_kv_heads", "", format!("is {keys}; only one is known here")));
        }
        if rope.dims() > it.head {
            return Err(s.wrong(HEAD, "", format!("is {}, but {} dimensions turn", it.head, rope.dims())));
        }
        let budget = s.size(BUDGET, "")?;
        if !budget.is_multiple_of(it.block) {
            return Err(s.wrong(BUDGET, "", format!("is {budget}, which blocks of {} do not divide", it.block)));
        }
        Ok(Self { top: budget / it.block, ..it })
    }

    fn choose(&self, g: &mut Graph<'_>, x: Value, rope: &Rope, eps: f32) -> Value {
        let both = g.linear(x, "attn_index", (self.heads + 1) * self.head);
        let q = g.slice(both, 1, 0, self.heads * self.head);
        let q = g.head_norm(q, "attn_index_q_norm", self.head, eps);
        let q = g.rope(q, self.head, rope);
        let k = g.slice(both, 1, self.heads * self.head, self.head);
        let k = g.mean_of_last(k, self.block);
        let k = g.rms_norm(k, "attn_index_k_norm", eps);
        let k = g.shifted_rope(k, self.head, rope, 1 - self.block as i32);
        g.index(q, k, None, self.block, self.top)
    }
}
