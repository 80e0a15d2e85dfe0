//! Which settings of a checkpoint nothing reads, and which of those change nothing.

use crate::{
    names::matches,
    settings::{Settings, short},
};
use onebit_formats::Meta;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Settings of `config.json` that change no logit, with `*`: how models are trained, saved, and used by programs; what other heads
/// than the language model's need; how reference code computes, not what. Whether there are biases, the tensors tell.
const INERT: &[&str] = &[
    // names, files, and how they are stored
    "model_type",
    "architectures",
    "auto_map*",
    "*_name_or_path",
    "name_or_path",
    "transformers_version",
    "tokenizer_class",
    "license*",
    "*torch_dtype",
    "dtype",
    "quantization_config*",
    "compression_config*",
    // of the parts that see and hear, and the text model's own, which is read by itself
    "text_config*",
    "vision_*",
    "image_*",
    "video_*",
    "audio_*",
    "projector_*",
    "multimodal_*",
    "mm_*",
    // tokens that programs put in and look for
    "*_token_id",
    "*_token_index",
    "*_token_ids",
    // training
    "*initializer*",
    "init_*",
    "*_init_scheme",
    "*_init_variance_scale",
    "*dropout*",
    "*_pdrop",
    "layerdrop",
    "*_aux_loss_coef",
    "*_aux_loss",
    "*_loss_coefficient",
    "*_loss_coef",
    "*_loss_scaling_factor",
    "*_jitter_noise",
    "rescale_prenorm_residual",
    "gradient_checkpointing",
    "is_training",
    "lambda_std_dev",
    // widths that the tensors have
    "expand",
    "mamba_expand",
    "qk_head_dim",
    // for how long the model was trained, where no stretching of the rotation reads it
    "*original_max_position_embeddings",
    "rope_parameters.max_position_embeddings",
    // how reference code computes
    "use_cache",
    "pretraining_tp",
    "output_router_logits",
    "torchscript",
    "num_logits_to_keep",
    "*attn_impl",
    "attn_implementation",
    "_attn_implementation*",
    "*chunk_size_feed_forward",
    "mamba_chunk_size",
    "use_flash_attn*",
    "*softmax_in_fp32",
    "residual_in_fp32",
    "reorder_and_upcast_attn",
    "slow_but_exact",
    "use_mamba_kernels",
    "use_mambapy",
    "use_associative_scan",
    "use_mem_eff_path",
    "use_long_context",
    "init_device",
    "attn_config.model_type",
    "*output_attentions",
    "*output_hidden_states",
    "*return_dict",
    "*_ssm_cache_dtype",
    "enable_moe_fp32_combine",
    "is_decoder",
    "*is_encoder_decoder",
    // other heads than the language model's
    "classifier_*",
    "summary_*",
    "*id2label*",
    "*label2id*",
    "problem_type",
    "add_cross_attention",
    // whether there are biases, which the tensors tell
    "mlp_bias",
    "attention_bias",
    "attention_out_bias",
    "qkv_bias",
    "use_qkv_bias",
    "lm_head_bias",
    "conv_bias",
    "use_conv_bias",
    "mamba_conv_bias",
    "mamba_proj_bias",
    "projectors_bias",
    "add_bias_linear",
];

/// A decoder that has it guesses masked tokens, unless its family is known not to.
const MASK: &str = "mask_token_id";

/// Keys of GGUF files that tell nothing of the plan, or are read elsewhere (`rotated`, the tokenizer, the file's parts); and widths that
/// the tensors have, where nothing else depends on them.
const INERT_METADATA: &[&str] = &[
    "general.*",
    "tokenizer.*",
    "split.*",
    "quantize.*",
    "prism.*",
    "onebit.*",
    "*.ssm.inner_size",
    "*.attention.head_count_kv",
    "*.attention.key_length",
    "*.attention.value_length",
    // text has equal positions in all of them
    "*.rope.dimension_sections",
];

/// Settings that families have, and their reference code leaves alone or says in another way too.
const NEEDLESS: &[(&[&str], &[&str])] = &[
    (LATENT, &["head_dim", "num_key_value_heads"]),
    (&["bailing_hybrid"], &["linear_conv_kernel_dim"]),
    (&["arctic"], &["moe_train_capacity_factor"]),
    (&["baichuan2"], &["z_loss_weight"]),
    (&["bailing_moe_norm_head"], &["norm_head", "norm_softmax", "use_bias"]),
    (
        &["bailing_moe_v2"],
        &["moe_router_enable_expert_bias", "moe_shared_expert_intermediate_size", "norm_head", "router_dtype", "use_bias"],
    ),
    (&["chatglm"], &["apply_query_key_layer_scaling"]),
    (&["openelm"], &["normalization_layer_name", "num_gqa_groups", "rope_max_length"]),
    (&["qwen"], &["no_bias", "scale_attn_weights", "use_logn_attn"]),
    (&["kimi_linear"], &["linear_attn_config.kda_layers"]),
    (&["dbrx", "gpt_bigcode"], &["num_key_value_heads"]),
    (&["doge"], &["num_experts", "num_experts_per_tok", "norm_topk_prob"]),
    (&["falcon_h1"], &["mamba_d_ssm", "mamba_norm_before_gate"]),
    (&["falcon"], &["parallel_attn"]),
    (&["mamba", "falcon_mamba", "mamba2", "nemotron_h", "zamba2"], &["chunk_size", "time_step_*", "use_bias"]),
    (&["jetmoe"], &["num_attention_heads"]),
    (&["modernbert-decoder"], &["decoder_bias", "local_attention", "norm_bias"]),
    (&["zaya"], &["rope_parameters.hybrid_sliding.*"]),
    (&["gemma3n_text"], &["altup_coef_clip"]),
    (&["gemma4_text"], &["moe_intermediate_size", "num_experts"]),
    (&["lfm2"], &["block_ffn_dim_multiplier", "block_multiple_of"]),
    (&["mpt"], &["attn_config.attn_uses_sequence_id", "embedding_fraction", "learned_pos_emb", "no_bias"]),
    (
        &["nemotron_h"],
        &[
            "moe_*",
            "mtp_layers_block_type",
            "n_*",
            "norm_topk_prob",
            "num_experts_per_tok",
            "routed_scaling_factor",
            "sliding_window",
            "topk_group",
        ],
    ),
    (&["olmo_hybrid"], &["linear_a_log_*", "linear_dt_*"]),
    (
        &["llada"],
        &[
            "alibi_bias_max",
            "attention_layer_norm_with_affine",
            "bias_for_layer_norm",
            "block_group_size",
            "embedding_size",
            "flash_attention",
            "layer_norm_with_affine",
            "mlp_ratio",
            "precision",
            "rope_full_precision",
        ],
    ),
    (&["llada_moe"], &["dense_intermediate_size", "moe_router_score_function", "routed_scaling_factor", "router_*"]),
    (&["t5", "mt5", "umt5", "t5_encoder"], &["dense_act_fn", "is_gated_act"]),
    (&["qwen4_exp_text"], &["number_of_conv_states", "split_ngram_parts"]),
    (
        &["zamba2"],
        &[
            "attention_hidden_size",
            "hybrid_layer_ids",
            "kv_channels",
            "num_query_groups",
            "rope_parameters.rope_theta",
            "rope_parameters.rope_type",
        ],
    ),
];

/// Objects whose parts are read one by one: that the whole was looked for explains none of them.
const BY_PART: &[&str] = &["rope_parameters", "rope_scaling"];

/// Families with latent attention.
const LATENT: &[&str] = &[
    "axk1",
    "bailing_hybrid",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "glm4_moe_lite",
    "glm_moe_dsa",
    "kimi_linear",
    "longcat_flash",
    "mistral4",
    "minicpm3",
    "youtu",
];

/// Settings that say what another one, where it is there, says too.
const SAID_BY: &[(&str, &str)] = &[
    ("first_k_dense_replace", "mlp_layer_types"),
    ("sliding_window_pattern", "layer_types"),
    ("_sliding_window_pattern", "layer_types"),
    ("interleave_moe_layer_step", "moe_layers"),
    ("no_rope_layer_interval", "no_rope_layers"),
    ("attention_layers", "attention_types"),
    ("sliding_window", "use_sliding_window"),
    ("max_window_layers", "use_sliding_window"),
];

/// What became of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// The plan was made by it, or it was looked at.
    Read,
    /// It changes no logit.
    Inert,
    /// Nothing read it, and it could change the answer.
    Unread,
}

impl Settings<'_> {
    /// All settings of the checkpoint: their keys, their values, and what became of each.
    pub(crate) fn all(&self) -> Vec<(String, String, Fate)> {
        let looked_for = self.looked_for();
        let mut all = vec![];
        let mut add = |key: &str, value: String, read: bool, inert: &dyn Fn() -> bool| {
            let fate = if read {
                Fate::Read
            } else if inert() {
                Fate::Inert
            } else {
                Fate::Unread
            };
            all.push((key.to_string(), value, fate));
        };
        for (key, value) in &self.checkpoint.metadata.pairs {
            let inert = || matches!(value, Meta::Unsigned(0)) || INERT_METADATA.iter().any(|pattern| matches(pattern, key));
            add(key, brief(value), looked_for.contains(key), &inert);
        }
        for config in &self.configs {
            leaves(config, "", &mut |path, value| {
                let read = looked_for.iter().any(|k| path == k || !BY_PART.contains(&k.as_str()) && is_within(path, k));
                add(path, short(value), read, &|| value.is_null() || self.changes_nothing(path, value, &looked_for));
            });
        }
        all
    }

    /// Settings that could change the answer and were not looked for: their keys and values.
    pub(crate) fn unexplained(&self) -> Vec<(String, String)> {
        let unread = self.all().into_iter().filter(|(.., fate)| *fate == Fate::Unread);
        unread.map(|(key, value, _)| (key, value)).collect()
    }

    /// Whether a setting of `config.json` that nothing read changes nothing.
    fn changes_nothing(&self, path: &str, value: &Value, looked_for: &BTreeSet<String>) -> bool {
        let any = |patterns: &[&str]| patterns.iter().any(|pattern| matches(pattern, path));
        let of_family = |(families, keys): &(&[&str], &[&str])| families.iter().any(|f| self.family.contains(f)) && any(keys);
        let said = |(key, by): &(&str, &str)| path == *key && looked_for.contains(*by) && self.json(by).is_some();
        let full = |kinds: &Vec<Value>| path == "layer_types" && kinds.iter().all(|kind| kind == "full_attention");
        any(INERT) && path != MASK || NEEDLESS.iter().any(of_family) || SAID_BY.iter().any(said) || value.as_array().is_some_and(full)
    }
}

/// Whether a path in `config.json` leads through `object`.
fn is_within(path: &str, object: &str) -> bool {
    path.strip_prefix(object).is_some_and(|rest| rest.starts_with('.'))
}

/// A value of GGUF metadata for a message.
fn brief(value: &Meta) -> String {
    match value {
        Meta::Unsigned(n) => n.to_string(),
        Meta::Signed(n) => n.to_string(),
        Meta::Float(x) => x.to_string(),
        Meta::Bool(b) => b.to_string(),
        Meta::Text(text) => short(&text.as_str().into()),
        list => list.kind().to_string(),
    }
}

fn leaves(config: &Map<String, Value>, within: &str, each: &mut dyn FnMut(&str, &Value)) {
    for (key, value) in config {
        let path = format!("{within}{key}");
        match value.as_object().filter(|o| !o.is_empty()) {
            Some(object) => leaves(object, &format!("{path}."), each),
            None => each(&path, value),
        }
    }
}
