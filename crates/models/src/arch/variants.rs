//! Checkpoints that are told apart by more than their `model_type`.

use serde_json::{Map, Value};

/// The architecture's name, which may not be the `model_type` that `config.json` states.
pub(crate) fn variant<'a>(model_type: &'a str, config: &Map<String, Value>) -> &'a str {
    let text = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
    let is_true = |key: &str| config.get(key).and_then(Value::as_bool) == Some(true);
    match model_type {
        // The first Baichuan was trained without a z-loss, and with an output matrix as it is.
        "baichuan" if config.contains_key("z_loss_weight") || config.get("vocab_size") == Some(&125_696.into()) => "baichuan2",
        "bailing_moe" if is_true("moe_router_enable_expert_bias") || is_true("use_qk_norm") => "bailing_moe_v2",
        "bailing_moe" if is_true("norm_head") => "bailing_moe_norm_head",
        "llada" if config.contains_key("num_experts") => "llada_moe",
        "t5" | "mt5" | "umt5" if is_encoder(config) => "t5_encoder",
        "bert" if text("position_embedding_type") == "alibi" => {
            if is_of_code(config, "qk-post-norm") {
                "jina-bert-v2-code"
            } else {
                "jina-bert-v2"
            }
        }
        "nomic_bert" if config.get("moe_every_n_layers").and_then(Value::as_u64).is_some_and(|n| n > 0) => "nomic-bert-moe",
        "xlm-roberta" if text("position_embedding_type") == "rotary" => "jina_embeddings_v3",
        "gemma3_text" if is_true("use_bidirectional_attention") => "gemma-embedding",
        // Grok 2 goes by the name of another model.
        "git" if is_grok(config) => "grok-2",
        other => other,
    }
}

/// Whether the code that came with the checkpoint is of a repository whose name has `part`.
fn is_of_code(config: &Map<String, Value>, part: &str) -> bool {
    let files = config.get("auto_map").and_then(Value::as_object);
    files.into_iter().flat_map(|files| files.values()).filter_map(Value::as_str).any(|file| file.contains(part))
}

/// Whether the checkpoint says that it is a Grok.
fn is_grok(config: &Map<String, Value>) -> bool {
    classes(config).any(|name| name == "Grok1ForCausalLM")
}

/// Whether the checkpoint says that it is the encoder of a T5 alone.
fn is_encoder(config: &Map<String, Value>) -> bool {
    classes(config).any(|name| name.ends_with("T5EncoderModel"))
}

/// The classes of the reference code.
fn classes(config: &Map<String, Value>) -> impl Iterator<Item = &str> {
    config.get("architectures").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
