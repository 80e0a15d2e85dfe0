//! Settings and tensors that contradict themselves: one clear error that names the file and the key.

mod common;

use common::{Outcome, Tensors, changed, folder, gguf_file, refusal};
use onebit_formats::{Checkpoint, Meta};
use onebit_models::{Options, convert, load};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// The error for a fixture with one setting changed in `config.json`.
fn json_error(fixture: &str, key: &str, value: Value) -> Outcome<String> {
    let out = folder(fixture, |config, _| {
        if value.is_null() {
            config.remove(key);
        } else {
            config.insert(key.into(), value);
        }
    })?;
    refusal(out.path())
}

/// The error for a fixture with one pair changed in its GGUF form.
fn gguf_error(fixture: &str, key: &str, value: Option<Meta>) -> Outcome<String> {
    let out = gguf_file(fixture, |pairs, _| match value {
        Some(value) => {
            pairs.insert(key.into(), value);
        }
        None => {
            pairs.remove(key);
        }
    })?;
    refusal(&out.path().join("model.gguf"))
}

#[test]
fn settings_of_a_folder() -> Outcome {
    let cases = [
        ("llama", "num_hidden_layers", json!(0), "from 1 to"),
        ("llama", "num_hidden_layers", json!(-3), "a whole number"),
        ("llama", "num_hidden_layers", json!(3.5), "a whole number"),
        ("llama", "num_hidden_layers", json!("3"), "a whole number"),
        ("llama", "num_hidden_layers", json!(1u64 << 31), "from 1 to"),
        ("llama", "num_hidden_layers", json!(100_000), "more than there are tensors"),
        ("llama", "num_attention_heads", json!(0), "from 1 to"),
        ("llama", "num_key_value_heads", json!(3), "does not divide 4 heads"),
        ("llama", "hidden_size", Value::Null, "is missing"),
        ("llama", "hidden_act", json!("xielu"), "`xielu`, which is not known"),
        ("llama", "rms_norm_eps", json!(7), "from 0 to 1"),
        ("llama", "rope_parameters", json!({ "rope_type": "spiral" }), "`spiral`, which is not known"),
        ("llama", "rope_parameters", json!({ "rope_type": "linear" }), "is missing"),
        ("llama", "rope_parameters", json!(500_000.0), "should be an object"),
        ("llama", "rope_scaling", json!("yarn"), "should be an object"),
        ("llama", "text_config", json!([]), "should be an object"),
        ("llama", "rope_parameters", json!({ "partial_rotary_factor": 2.0 }), "from 0 to 1"),
        ("llama", "max_position_embeddings", json!(0), "from 1 to"),
        ("llama", "vocab_size", json!(255), "[255, 64]"),
        ("llama", "model_type", Value::Null, "names the architecture"),
        ("qwen3_moe", "num_experts_per_tok", json!(9), "there are 8 experts"),
        ("qwen3_5_text", "layer_types", json!(["full_attention"]), "1 entries for 3 layers"),
        ("qwen3_5_text", "layer_types", json!(["mamba", "mamba", "mamba"]), "known are linear_attention"),
        ("qwen3_5_text", "linear_num_value_heads", json!(5), "do not divide"),
    ];
    for (fixture, key, value, expected) in cases {
        let error = json_error(fixture, key, value.clone())?;
        let named =
            ["rope_parameters", "model_type", "vocab_size"].contains(&key) || error.contains("config.json: ") && error.contains(key);
        assert!(error.contains(expected) && named, "{key} = {value}: {error}");
    }
    Ok(())
}

/// A copy of a shared fixture with one setting changed; none where there are no shared fixtures.
fn varied(fixture: &str, key: &str, value: &Value) -> Outcome<Option<TempDir>> {
    let Some(source) = onebit_reference::check::folder(fixture) else { return Ok(None) };
    let change = |config: &mut Map<String, Value>, _: &mut Tensors| {
        config.insert(key.into(), value.clone());
    };
    changed(&source, change).map(Some)
}

/// Settings with a meaning that is not known here are refused, not ignored.
#[test]
fn settings_that_are_not_known() -> Outcome {
    for (fixture, key, value, expected) in [
        ("olmo", "clip_qkv", json!(-1.0), "`clip_qkv` is -1, but should be positive"),
        ("bloom", "apply_residual_connection_post_layernorm", json!(true), "behind the norm"),
        ("mpt", "logit_scale", json!(0.5), "`logit_scale` is 0.5"),
        ("mpt", "norm_type", json!("low_precision_rmsnorm"), "kinds of layernorm"),
        ("gpt_neo", "attention_types", json!([[["global"], 2]]), "for 3 layers"),
        ("gptj", "rotary_dim", json!(18), "a head has 16 numbers"),
        ("gemma2", "use_bidirectional_attention", json!(true), "only causal attention"),
        ("phi3", "rope_parameters", json!({ "rope_type": "yarn", "factor": 4.0 }), "is `yarn`, but only `default`"),
    ] {
        let Some(folder) = varied(fixture, key, &value)? else { continue };
        let error = refusal(folder.path())?;
        assert!(error.contains(expected) && error.contains("config.json"), "{key} = {value}: {error}");
    }
    Ok(())
}

/// Models that run, and that a GGUF file of their architecture cannot describe.
#[test]
fn settings_that_gguf_files_cannot_say() -> Outcome {
    for (fixture, key, value, expected) in [
        ("starcoder2", "use_bias", json!(false), "it has no biases"),
        ("starcoder2", "sliding_window", json!(8), "sliding window"),
        ("phi3", "sliding_window", json!(8), "sliding window"),
        ("gemma2", "query_pre_attn_scalar", json!(32), "another `query_pre_attn_scalar`"),
        ("gemma2", "layer_types", json!(["full_attention", "sliding_attention", "full_attention"]), "do not come at a period"),
        ("gemma2", "final_logit_softcapping", Value::Null, "does not bound scores or logits"),
        ("gemma3_text", "layer_types", json!(["full_attention", "sliding_attention", "full_attention"]), "do not come at a period"),
        ("exaone4", "max_position_embeddings", json!(500), "a model of 64 layers"),
        ("olmoe", "max_position_embeddings", json!(500), "as many heads for keys"),
        ("nemotron", "hidden_act", json!("relu"), "mean `relu2`"),
    ] {
        let Some(folder) = varied(fixture, key, &value)? else { continue };
        let checkpoint = Checkpoint::open(folder.path())?;
        load(&checkpoint)?;
        let error = convert(&checkpoint, &folder.path().join("x.gguf"), &Options::default(), &mut |_| {});
        assert!(error.as_ref().is_err_and(|e| e.to_string().contains(expected)), "{key} = {value}: {error:?}");
    }
    Ok(())
}

#[test]
fn settings_of_a_gguf_file() -> Outcome {
    let cases = [
        ("llama", "llama.block_count", Some(Meta::Float(3.0)), "non-negative integer"),
        ("llama", "llama.block_count", Some(Meta::Signed(-1)), "non-negative integer"),
        ("llama", "llama.block_count", Some(Meta::Unsigned(0)), "from 1 to"),
        ("llama", "llama.block_count", Some(Meta::Unsigned(1 << 31)), "from 1 to"),
        ("llama", "llama.block_count", Some(Meta::Unsigned(1000)), "more than there are tensors"),
        ("llama", "llama.attention.head_count", Some(Meta::Unsigned(0)), "from 1 to"),
        ("llama", "llama.attention.head_count_kv", Some(Meta::Unsigned(3)), "does not divide"),
        ("llama", "llama.rope.dimension_count", Some(Meta::Unsigned(18)), "of a head's 16"),
        ("llama", "llama.rope.dimension_count", Some(Meta::Unsigned(7)), "an even number"),
        ("llama", "llama.context_length", Some(Meta::Unsigned(0)), "from 1 to"),
        ("llama", "llama.rope.scaling.type", Some(Meta::Text("spiral".into())), "`spiral`"),
        ("llama", "llama.rope.freq_base", Some(Meta::Float(f64::NAN)), "finite"),
        ("llama", "llama.attention.layer_norm_rms_epsilon", None, "is missing"),
        ("llama", "general.architecture", Some(Meta::Text("perceiver".into())), "is not known"),
        ("llama", "general.architecture", None, "is missing"),
        ("qwen3_moe", "qwen3moe.expert_used_count", Some(Meta::Unsigned(9)), "there are 8 experts"),
    ];
    for (fixture, key, value, expected) in cases {
        let error = gguf_error(fixture, key, value.clone())?;
        let named = key == "general.architecture" || error.contains(key);
        assert!(error.contains(expected) && error.contains("model.gguf") && named, "{key} = {value:?}: {error}");
    }
    Ok(())
}

#[test]
fn settings_that_tensors_contradict() -> Outcome {
    for (fixture, key, value) in [
        ("llama", "llama.block_count", 2), // layers that nothing explains
        ("llama", "llama.block_count", 4), // a layer that is missing
        ("llama", "llama.embedding_length", 32),
        ("llama", "llama.attention.head_count", 8),
        ("llama", "llama.feed_forward_length", 1 << 20),
        ("qwen3_moe", "qwen3moe.expert_count", 16),
        ("qwen3_moe", "qwen3moe.expert_count", 1 << 14),
        ("qwen3_5_text", "qwen35.ssm.conv_kernel", 1),
        ("qwen3_5_text", "qwen35.ssm.inner_size", 3),
        ("qwen3_5_text", "qwen35.ssm.group_count", 4),
    ] {
        let error = gguf_error(fixture, key, Some(Meta::Unsigned(value)))?;
        let tells = ["tensor", "`qwen35.ssm"].iter().any(|t| error.contains(t)) || error.contains("kernel");
        assert!(tells && error.contains("model.gguf"), "{key} = {value}: {error}");
    }
    Ok(())
}

#[test]
fn tensors_missing_extra_or_of_another_shape() -> Outcome {
    let out = folder("llama", |_, tensors| {
        tensors.remove("model.layers.1.self_attn.k_proj.weight");
    })?;
    let error = refusal(out.path())?;
    assert!(error.contains("`model.layers.1.self_attn.k_proj.weight` is missing"), "{error}");

    let out = folder("llama", |_, tensors| {
        let copy = tensors["model.norm.weight"].clone();
        tensors.insert("model.layers.0.self_attn.q_norm.weight".into(), copy);
    })?;
    let error = refusal(out.path())?;
    assert!(error.contains("does not explain 1 of the tensors: model.layers.0.self_attn.q_norm.weight"), "{error}");

    let out = folder("llama", |_, tensors| {
        tensors.remove("model.layers.2.mlp.gate_proj.weight");
    })?;
    let error = refusal(out.path())?;
    assert!(error.contains("`model.layers.2.mlp.gate_proj.weight` is missing"), "{error}");

    let out = folder("qwen3_moe", |_, tensors| {
        tensors.remove("model.layers.2.mlp.experts.7.up_proj.weight");
    })?;
    let error = refusal(out.path())?;
    assert!(error.contains("model.layers.2.mlp.experts"), "{error}");

    let out = folder("llama", |_, tensors| {
        let t = tensors.get_mut("model.layers.0.mlp.up_proj.weight").expect("is there");
        t.shape = vec![64, 128];
    })?;
    let error = refusal(out.path())?;
    assert!(error.contains("`model.layers.0.mlp.up_proj.weight` has shape [64, 128]") && error.contains("[128, 64]"), "{error}");

    let out = gguf_file("llama", |_, tensors| {
        let t = tensors.get_mut("rope_freqs.weight").expect("llama3 scaling writes it");
        t.bytes[3] ^= 0x80; // the first divisor becomes negative
    })?;
    let error = refusal(&out.path().join("model.gguf"))?;
    assert!(error.contains("`rope_freqs.weight` should hold 8 positive numbers"), "{error}");
    Ok(())
}
