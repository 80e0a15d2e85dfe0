//! BERT with rotary positions: Nomic BERT (Nussbaum et al. 2024, arXiv:2402.01613) with gated feed-forward layers, its successor with a
//! mixture of experts in every other layer (Nussbaum & Duderstadt 2025, arXiv:2502.07972), and Jina embeddings 3 (Sturua et al. 2024,
//! arXiv:2409.10173). Reference: transformers' `models/nomic_bert` and `jina_embeddings_v3`, and the code that came with the checkpoints.

use super::{
    Arch,
    bert::HEADS,
    encoder::{Encoder, add_token_types},
};
use crate::{
    Result,
    names::{Entry, part, tensor},
    rope::Rotary,
    settings::Settings,
};
use onebit_plan::{Binary, Function, Graph, Mask, Route, Score, Value};

pub(crate) static NOMIC_BERT: Arch =
    Arch { hf: &["nomic_bert"], gguf: &["nomic-bert"], tensors: &[EMBEDDINGS, LAYERS, GATED], ignored: HEADS, plan: nomic };

pub(crate) static NOMIC_BERT_MOE: Arch = Arch {
    hf: &["nomic-bert-moe"],
    gguf: &["nomic-bert-moe"],
    tensors: &[EMBEDDINGS, LAYERS, FFN, EXPERTS],
    ignored: &[HEADS[0], HEADS[1], "*mlp.experts.bias"],
    plan: nomic_mixture,
};

pub(crate) static JINA_EMBEDDINGS_V3: Arch = Arch {
    hf: &["jina_embeddings_v3"],
    gguf: &["jina-bert-v3"],
    tensors: &[ADAPTED_EMBEDDINGS, ADAPTED_LAYERS, LAYERS, FFN],
    // Adapters are for tasks that somebody asks for; without one they have no part in it.
    ignored: &[HEADS[0], HEADS[1], HEADS[2], "*.parametrizations.weight.0.lora_A", "*.parametrizations.weight.0.lora_B"],
    plan: jina,
};

const EMBEDDINGS: &[Entry] = &[
    tensor("token_embd", "model.embeddings.word_embeddings"),
    tensor("token_types", "model.embeddings.token_type_embeddings"),
    tensor("token_embd_norm", "model.emb_ln").or("model.embeddings.LayerNorm"),
];

const LAYERS: &[Entry] = &[
    tensor("blk.{}.attn_qkv", "model.encoder.layers.{}.attn.Wqkv"),
    tensor("blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"),
    tensor("blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"),
    tensor("blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"),
    tensor("blk.{}.attn_output", "model.encoder.layers.{}.attn.out_proj").or("model.layers.{}.self_attn.o_proj"),
    tensor("blk.{}.attn_output_norm", "model.encoder.layers.{}.norm1").or("model.layers.{}.post_attention_layernorm"),
    tensor("blk.{}.layer_output_norm", "model.encoder.layers.{}.norm2").or("model.layers.{}.post_mlp_layernorm"),
];

const GATED: &[Entry] = &[
    tensor("blk.{}.ffn_up", "model.encoder.layers.{}.mlp.fc11").or("model.layers.{}.mlp.up_proj"),
    tensor("blk.{}.ffn_gate", "model.encoder.layers.{}.mlp.fc12").or("model.layers.{}.mlp.gate_proj"),
    tensor("blk.{}.ffn_down", "model.encoder.layers.{}.mlp.fc2").or("model.layers.{}.mlp.down_proj"),
];

const FFN: &[Entry] = &[
    tensor("blk.{}.ffn_up", "model.encoder.layers.{}.mlp.fc1").or("model.layers.{}.mlp.fc1"),
    tensor("blk.{}.ffn_down", "model.encoder.layers.{}.mlp.fc2").or("model.layers.{}.mlp.fc2"),
];

const EXPERTS: &[Entry] = &[
    tensor("blk.{}.ffn_gate_inp", "model.encoder.layers.{}.mlp.router.layer"),
    part("blk.{}.ffn_up_exps", "model.encoder.layers.{}.mlp.experts.mlp.w1", 0, 1),
    part("blk.{}.ffn_down_exps", "model.encoder.layers.{}.mlp.experts.mlp.w2", 0, 1).transposed(),
    tensor("blk.{}.ffn_shift", "model.encoder.layers.{}.mlp.experts.bias"),
];

/// Beside matrices that have adapters, which are `original` then.
const ADAPTED_EMBEDDINGS: &[Entry] = &[
    adapted("token_embd", "model.embeddings.word_embeddings", "model.embeddings.word_embeddings.parametrizations.weight.original"),
    adapted(
        "token_types",
        "model.embeddings.token_type_embeddings",
        "model.embeddings.token_type_embeddings.parametrizations.weight.original",
    ),
    EMBEDDINGS[2],
];

const ADAPTED_LAYERS: &[Entry] = &[
    adapted("blk.{}.attn_qkv", "model.encoder.layers.{}.mixer.Wqkv", "model.encoder.layers.{}.mixer.Wqkv.parametrizations.weight.original"),
    adapted(
        "blk.{}.attn_output",
        "model.encoder.layers.{}.mixer.out_proj",
        "model.encoder.layers.{}.mixer.out_proj.parametrizations.weight.original",
    )
    .or("model.layers.{}.self_attn.o_proj"),
    adapted("blk.{}.ffn_up", "model.encoder.layers.{}.mlp.fc1", "model.encoder.layers.{}.mlp.fc1.parametrizations.weight.original")
        .or("model.layers.{}.mlp.fc1"),
    adapted("blk.{}.ffn_down", "model.encoder.layers.{}.mlp.fc2", "model.encoder.layers.{}.mlp.fc2.parametrizations.weight.original")
        .or("model.layers.{}.mlp.fc2"),
];

const fn adapted(gguf: &'static str, hf: &'static str, original: &'static str) -> Entry {
    tensor(gguf, hf).or_fused("", original, 0, 1)
}

fn nomic(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    check(s, &["silu", "swiglu"])?;
    plan(s, g, [1000.0, 1e-12], 2, |g, e, _, x| g.gated_ffn(x, e.inner, Function::Silu))
}

fn jina(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    let act = s.activation("gelu")?;
    plan(s, g, [20_000.0, 1e-5], 1, |g, e, _, x| g.ffn(x, e.inner, act))
}

fn nomic_mixture(s: &Settings<'_>, g: &mut Graph<'_>) -> Result<Value> {
    const TOP_K: (&str, &str) = ("moe_top_k", "expert_used_count");
    check(s, &["gelu"])?;
    let experts = s.size_to("num_experts", "expert_count", 1 << 14)?;
    let top_k = s.size(TOP_K.0, TOP_K.1)?;
    if top_k > experts {
        return Err(s.wrong(TOP_K.0, TOP_K.1, format!("is {top_k}, but there are {experts} experts")));
    }
    let every = s.size("moe_every_n_layers", "moe_every_n_layers")?;
    plan(s, g, [1000.0, 1e-12], 2, |g, e, layer, x| {
        if layer % every != 1 {
            return g.ffn(x, e.inner, Function::Gelu);
        }
        let logits = g.linear(x, "ffn_gate_inp", experts);
        let route = g.route(logits, Route::new(top_k, Score::Softmax));
        let y = g.chosen_linear(x, route, "ffn_up_exps", experts, e.inner);
        let y = g.apply(y, Function::Gelu);
        let y = g.chosen_sum(y, route, "ffn_down_exps", experts, e.c.width);
        if !g.has(SHIFT, &[e.c.width]) || g.constant(SHIFT, &[e.c.width]).iter().all(|x| *x == 0.0) {
            return y;
        }
        s.unread_by_llama_cpp(true, "its mixtures have a bias");
        g.with_weight(y, Binary::Add, SHIFT)
    })
}

/// What is added to the sum of a layer's chosen experts.
const SHIFT: &str = "ffn_shift";

/// `base` and `eps` are those of the rotation and of norms where nothing says, `types` the kinds of tokens.
fn plan(
    s: &Settings<'_>,
    g: &mut Graph<'_>,
    [base, eps]: [f64; 2],
    types: usize,
    feed_forward: impl Fn(&mut Graph<'_>, &Encoder, usize, Value) -> Value,
) -> Result<Value> {
    let e = Encoder::read(s, eps as f32)?;
    s.unread_by_llama_cpp(e.heads.heads * e.heads.head != e.c.width, "its heads together are not as wide as its stream");
    // Beyond what it was trained for, the base of its positions grows, unless the factor is absent.
    if let (Some(_), Some(trained)) = (s.optional_positive("rotary_scaling_factor", "")?, s.optional_size("max_trained_positions", "")?) {
        g.limit_context(trained);
    }
    let rope = s.rotary(e.heads.head, Rotary { base, ..Rotary::HALVES })?;
    let x = g.embed("token_embd", e.c.width, 1.0);
    let x = add_token_types(s, g, x, types)?;
    let x = e.c.norm(g, x, "token_embd_norm");
    let attention = |g: &mut Graph<'_>, _, x| e.heads.attention(g, x, Mask::Full, |g, q, _| g.rope(q, e.heads.head, &rope));
    Ok(e.build(g, x, attention, |g, layer, x| feed_forward(g, &e, layer, x)))
}

/// What the checkpoints that came with code of their own can ask for, and no published one does; `acts` are the functions known.
fn check(s: &Settings<'_>, acts: &[&str]) -> Result<()> {
    if s.is_gguf() {
        return Ok(());
    }
    let act = s.text_or("hidden_act|activation_function", "", acts[0])?;
    if !acts.contains(&act.as_str()) {
        return Err(s.wrong("activation_function", "", format!("is `{act}`; known is {}", acts.join(", "))));
    }
    for key in ["rotary_emb_fraction", "ffn_div"] {
        let part = s.optional_float(key, "")?.unwrap_or(1.0);
        if part != 1.0 {
            return Err(s.wrong(key, "", format!("is {part}; known is 1")));
        }
    }
    if s.count_or("num_shared_experts", "", 0)? > 0 {
        return Err(s.wrong("num_shared_experts", "", "is not 0, which is not known here"));
    }
    const SWITCHES: &[&str] = &[
        "prenorm",
        "use_rms_norm",
        "rotary_emb_interleaved",
        "parallel_block",
        "causal",
        "moe_normalize_expert_weights",
        "expert_choice_router",
    ];
    for key in SWITCHES.iter().copied() {
        if s.bool_or(key, "", false)? {
            return Err(s.wrong(key, "", "is true, which is not known here"));
        }
    }
    Ok(())
}
