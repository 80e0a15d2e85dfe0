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
    rope::{Axes, Rotary},
    settings::Settings,
};
use onebit_formats::Meta;
use onebit_plan::{Function, Graph, Rope, Value};

pub(crate) static QWEN4_EXP: Arch = Arch {
    hf: &["qwen4_exp_text", "qwen4_exp"],
    gguf: &["qwen4exp"],
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
    tensor("blk.{}.hc_attn_norm", "model.layers.{}.attn_hyper_connection.hc_norm").add_one().flat(),
    tensor("blk.{}.hc_attn_down", "model.layers.{}.attn_hyper_connection.input_mix_weight_down"),
    tensor("blk.{}.hc_attn_up", "model.layers.{}.attn_hyper_connection.input_mix_weight_up"),
    tensor("blk.{}.hc_attn_inject", "model.layers.{}.attn_hyper_connection.block_inject_weight"),
    tensor("blk.{}.hc_ffn_norm", "model.layers.{}.mlp_hyper_connection.hc_norm").add_one().flat(),
    tensor("blk.{}.hc_ffn_down", "model.layers.{}.mlp_hyper_connection.input_mix_weight_down"),
    tensor("blk.{}.hc_ffn_up", "model.layers.{}.mlp_hyper_connection.input_mix_weight_up"),
    tensor("blk.{}.hc_ffn_inject", "model.layers.{}.mlp_hyper_connection.block_inject_weight"),
    tensor("output_hc_norm", "model.hyper_connection_mixer.hc_norm").add_one().flat(),
    tensor("output_hc_down", "model.hyper_connection_mixer.input_mix_weight_down"),
    tensor("output_hc_up", "model.hyper_connection_mixer.input_mix_weight_up"),
];

const NGRAM: &[Entry] = &[
    tensor("blk.{}.ngram_embd", "model.layers.{}.ple.ple_embedding.ngram_embedding.shard_{e}")
        .or("model.layers.{}.ple.ple_embedding.ngram_embedding")
        .renamed("per_layer_token_embd.weight"),
    tensor("blk.{}.ple_key", "model.layers.{}.ple.key_proj"),
    tensor("blk.{}.ple_value", "model.layers.{}.ple.value_proj"),
    tensor("blk.{}.ple_norm_key", "model.layers.{}.ple.norm_key").add_one().flat(),
    tensor("blk.{}.ple_norm_query", "model.layers.{}.ple.norm_query").add_one().flat(),
    tensor("blk.{}.ple_norm_conv", "model.layers.{}.ple.norm_conv").add_one().flat(),
    tensor("blk.{}.ple_conv1d", "model.layers.{}.ple.conv1d"),
];

const INDEX_QUERIES_AND_KEYS: &str = "model.layers.{}.self_attn.indexer.index_qk_proj.weight";
const INDEXER: &[Entry] = &[
    tensor("blk.{}.indexer.q_proj", "").of_heads("", INDEX_QUERIES_AND_KEYS, false),
    tensor("blk.{}.indexer.k_proj", "").of_heads("", INDEX_QUERIES_AND_KEYS, true),
    tensor("blk.{}.indexer.q_norm", "model.layers.{}.self_attn.indexer.q_layernorm").add_one(),
    tensor("blk.{}.indexer.k_norm", "model.layers.{}.self_attn.indexer.k_layernorm").add_one(),
];

fn plan(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let c = Decoder::read(s)?;
    let heads = Heads::read(s, c.width)?;
    let rope = s.rotary(heads.head, Rotary { axes: Axes::Turns(&[11, 11, 10]), ..Rotary::HALVES })?;
    let linear = linear_layers(s, c.layers, &["indexed_attention", "full_attention"])?;
    let delta = Delta { gate: output_gate(s)?, ..Delta::read(s)? };
    let streams = Streams::read(s, c.width, c.eps)?;
    let ngrams = Ngrams::read(s, c.width, &linear, g.vocabulary())?;
    let indexer = Indexer::read(s, &rope, &linear)?;
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

/// What becomes of the gate of DeltaNet's output: a sigmoid in GGUF files.
fn output_gate(s: &Settings<'_>) -> Result<Function> {
    const KEY: &str = "output_gate_type|hidden_act";
    let word = if s.is_gguf() { "sigmoid".into() } else { s.text_or(KEY, "", "silu")? };
    s.hf_only(word != "sigmoid", "the gate of its linear attention is no sigmoid, which GGUF files of `qwen4exp` mean");
    match word.as_str() {
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
    fn read(s: &Settings<'_>, rope: &Rope, linear: &[bool]) -> Result<Self> {
        const BUDGET: (&str, &str) = ("indexer_budget", "attention.indexer.top_k");
        const HEAD: (&str, &str) = ("indexer_head_dim", "attention.indexer.key_length");
        let it = Self {
            heads: s.size("indexer_n_heads", "attention.indexer.head_count")?,
            head: s.size(HEAD.0, HEAD.1)?,
            block: block(s, linear)?,
            top: 0,
        };
        let keys = s.size_or("indexer_kv_heads", "", 1)?;
        if keys != 1 {
            return Err(s.wrong("indexer_kv_heads", "", format!("is {keys}; only one is known here")));
        }
        if rope.dims() > it.head {
            return Err(s.wrong(HEAD.0, HEAD.1, format!("is {}, but {} dimensions turn", it.head, rope.dims())));
        }
        let budget = s.size(BUDGET.0, BUDGET.1)?;
        if !budget.is_multiple_of(it.block) {
            return Err(s.wrong(BUDGET.0, BUDGET.1, format!("is {budget}, which blocks of {} do not divide", it.block)));
        }
        Ok(Self { top: budget / it.block, ..it })
    }

    fn choose(&self, g: &mut Graph<'_>, x: Value, rope: &Rope, eps: f32) -> Value {
        let q = g.linear(x, "indexer.q_proj", self.heads * self.head);
        let q = g.head_norm(q, "indexer.q_norm", self.head, eps);
        let q = g.rope(q, self.head, rope);
        let k = g.linear(x, "indexer.k_proj", self.head);
        let k = g.mean_of_last(k, self.block);
        let k = g.rms_norm(k, "indexer.k_norm", eps);
        let k = g.shifted_rope(k, self.head, rope, 1 - self.block as i32);
        g.index(q, k, None, self.block, self.top)
    }
}

/// Tokens in a block: in GGUF files the same number for each layer of attention, 0 for the others.
fn block(s: &Settings<'_>, linear: &[bool]) -> Result<usize> {
    const KEYS: (&str, &str) = ("indexer_compress_ratio", "attention.compress_ratios");
    let block = s.size(KEYS.0, KEYS.1)?;
    s.note(KEYS.1, Meta::Integers(linear.iter().map(|linear| if *linear { 0 } else { block as i64 }).collect()));
    Ok(block)
}
