//! Forms in which the same weights are published: nested configurations, other prefixes, fused experts, extra parts.

mod common;

use common::{Outcome, Raw, Tensors, agrees, changed, changed_gguf, folder, gguf_file, refusal};
use onebit_formats::{Checkpoint, Meta};
use onebit_quants::{BF16, F32};
use onebit_reference::check;
use serde_json::{Map, Value, json};

fn rename(tensors: &mut Tensors, name: impl Fn(&str) -> String) {
    *tensors = std::mem::take(tensors).into_iter().map(|(n, t)| (name(&n), t)).collect();
}

fn vector(values: &[f32]) -> Raw {
    Raw { ty: F32, shape: vec![values.len()], bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
}

/// Checkpoints that also see hold the text model's settings in `text_config`, its tensors under another prefix, and more.
#[test]
fn text_model_of_a_vision_checkpoint() -> Outcome {
    let out = folder("qwen3_5_text", |config, tensors| {
        let mut text = std::mem::take(config);
        text.remove("architectures");
        config.insert("model_type".into(), json!("qwen3_5"));
        config.insert("tie_word_embeddings".into(), json!(false));
        config.insert("vision_config".into(), json!({ "hidden_size": 7, "num_hidden_layers": 9 }));
        config.insert("text_config".into(), text.into());
        rename(tensors, |n| n.replacen("model.", "model.language_model.", 1));
        tensors.insert("model.visual.patch_embed.proj.weight".into(), vector(&[1.0]));
        tensors.insert("mtp.layers.0.mlp.up_proj.weight".into(), vector(&[1.0]));
    })?;
    agrees("qwen3_5_text", out.path(), out.path())
}

/// The flagships with what their published checkpoints hold besides: parts that see and hear, and layers that predict further tokens.
#[test]
fn beside_the_text_model() -> Outcome {
    const SEES: &[&str] = &["model.visual.patch_embed.proj.weight", "mtp.fc.weight", "mtp.layers.0.self_attn.q_proj.weight"];
    const HEARS: &[&str] = &[
        "model.vision_tower.patch_embedder.input_proj.weight",
        "model.audio_tower.layers.0.norm_out.weight",
        "model.embed_vision.embedding_projection.weight",
        "model.embed_audio.embedding_projection.weight",
    ];
    for (name, outer, beside) in [
        ("qwen3_5_text", "qwen3_5", SEES),
        ("qwen3_5_moe_text", "qwen3_5_moe", SEES),
        ("qwen4_exp_text", "qwen4_exp", SEES),
        ("gemma3n_text", "gemma3n", HEARS),
        ("gemma4_text", "gemma4", HEARS),
        ("gemma4_moe", "gemma4", HEARS),
    ] {
        let Some(source) = check::folder(name) else { continue };
        let out = changed(&source, |config, tensors| {
            let mut text = std::mem::take(config);
            let tied = text.remove("tie_word_embeddings").unwrap_or_default();
            text.remove("architectures");
            config.insert("model_type".into(), json!(outer));
            config.insert("tie_word_embeddings".into(), tied);
            config.insert("text_config".into(), text.into());
            rename(tensors, |n| n.replacen("model.", "model.language_model.", 1));
            tensors.extend(beside.iter().map(|name| (name.to_string(), vector(&[1.0]))));
        })?;
        agrees(name, out.path(), out.path()).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

/// Layers that predict further tokens, counted beside the others or named apart.
#[test]
fn prediction_layers() -> Outcome {
    const NEXT: &[&str] =
        &["eh_proj", "enorm", "hnorm", "embed_tokens", "shared_head.head", "shared_head.norm", "self_attn.q_a_proj", "mlp.gate"];
    for name in ["deepseek_v3", "deepseek_v32", "glm_moe_dsa", "glm4_moe", "hy_v3"] {
        let Some(source) = check::folder(name) else { continue };
        let out = changed(&source, |config, tensors| {
            config.insert("num_nextn_predict_layers".into(), json!(1));
            let layers = &config["num_hidden_layers"];
            tensors.extend(NEXT.iter().map(|module| (format!("model.layers.{layers}.{module}.weight"), vector(&[1.0]))));
        })?;
        agrees(name, out.path(), out.path()).map_err(|e| format!("{name}: {e}"))?;
    }
    for name in ["longcat_flash", "mimo_v2_flash"] {
        let Some(source) = check::folder(name) else { continue };
        let out = changed(&source, |_, tensors| {
            tensors.extend(NEXT.iter().map(|module| (format!("model.mtp.layers.0.{module}.weight"), vector(&[1.0]))));
        })?;
        agrees(name, out.path(), out.path()).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

/// GGUF files may hold queries, keys and values apart where others of the architecture hold them in one matrix.
#[test]
fn split_attention_in_gguf() -> Outcome {
    for name in ["internlm2", "bailing_moe"] {
        let out = gguf_file(name, |pairs, tensors| {
            let number = |key: &str| {
                let of = |(k, v): (&String, &Meta)| {
                    if k.ends_with(key) { if let Meta::Unsigned(n) = v { Some(*n as usize) } else { None } } else { None }
                };
                pairs.iter().find_map(of).unwrap_or(0)
            };
            let (heads, keys, head) = (number(".head_count"), number(".head_count_kv"), number(".key_length"));
            let all: Vec<String> = tensors.keys().filter(|name| name.contains("attn_qkv.")).cloned().collect();
            for name in all {
                let Some(all) = tensors.remove(&name) else { continue };
                let row = all.bytes.len() / all.shape[0];
                let mut rest = &all.bytes[..];
                for (part, rows) in [("attn_q.", heads * head), ("attn_k.", keys * head), ("attn_v.", keys * head)] {
                    let (bytes, after) = rest.split_at(rows * row);
                    let shape = [&[rows], &all.shape[1..]].concat();
                    tensors.insert(name.replace("attn_qkv.", part), Raw { ty: all.ty, shape, bytes: bytes.to_vec() });
                    rest = after;
                }
            }
        })?;
        agrees(name, &out.path().join("model.gguf"), out.path())?;
    }
    Ok(())
}

/// What differs from Llama by its name alone, with the settings in their older form.
#[test]
fn llama_by_other_names() -> Outcome {
    for name in ["aquila", "skywork"] {
        let out = folder("llama", |config, _| {
            config.insert("model_type".into(), json!(name));
            let Some(Value::Object(mut stretched)) = config.remove("rope_parameters") else { return };
            config.insert("rope_theta".into(), stretched.remove("rope_theta").unwrap_or_default());
            config.insert("rope_scaling".into(), stretched.into());
        })?;
        agrees("llama", out.path(), out.path())?;
    }
    Ok(())
}

/// Contexts end where attention would begin to be another.
#[test]
fn context_of_plain_attention() -> Outcome {
    let context = |config: Value| -> Outcome<usize> {
        let out = folder("llama", |own, _| own.extend(config.as_object().cloned().unwrap_or_default()))?;
        Ok(onebit_models::load(&Checkpoint::open(out.path())?)?.plan.context)
    };
    assert_eq!(context(json!({ "max_position_embeddings": 512, "sparse_config": { "dense_len": 128 } }))?, 128);
    assert_eq!(context(json!({ "max_position_embeddings": 512, "seq_length": 64, "use_logn_attn": true }))?, 64);
    assert_eq!(context(json!({ "max_position_embeddings": 512, "seq_length": 64, "use_dynamic_ntk": false }))?, 512);
    Ok(())
}

/// Base models are saved without the outer name.
#[test]
fn without_prefix() -> Outcome {
    let out = folder("llama", |_, tensors| rename(tensors, |n| n.replacen("model.", "", 1)))?;
    agrees("llama", out.path(), out.path())
}

/// The oldest checkpoints were saved without the outer name, with their masks.
#[test]
fn gpt2_as_published() -> Outcome {
    for (name, outer, inner) in [("gpt2", "transformer.", ""), ("gpt_neox", "gpt_neox.", ""), ("opt", "model.decoder.", "decoder.")] {
        let Some(source) = check::folder(name) else { continue };
        let out = changed(&source, |_, tensors| {
            rename(tensors, |n| n.replacen(outer, inner, 1));
            if name == "gpt2" {
                tensors.insert("h.0.attn.bias".into(), vector(&[1.0]));
                tensors.insert("h.0.attn.masked_bias".into(), vector(&[-1e4]));
            }
        })?;
        agrees(name, out.path(), out.path())?;
    }
    Ok(())
}

/// Divides runs of rows of a matrix by factors.
fn divide(tensor: &mut Raw, runs: &[(usize, f32)]) {
    let columns = tensor.shape[1];
    let mut values = vec![0.0; tensor.shape.iter().product()];
    tensor.ty.decode(&tensor.bytes, &mut values);
    let mut at = 0;
    for (rows, by) in runs {
        values[at * columns..][..rows * columns].iter_mut().for_each(|x| *x /= by);
        at += rows;
    }
    assert_eq!(at, tensor.shape[0]);
    *tensor = Raw { ty: F32, bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(), ..tensor.clone() };
}

/// Falcon-H1 has factors in its settings, which GGUF files hold in the weights.
#[test]
fn factors_in_settings() -> Outcome {
    let Some(source) = check::folder("falcon_h1") else { return Ok(()) };
    let change = |config: &mut Map<String, Value>, tensors: &mut Tensors| {
        let factors = json!({
            "embedding_multiplier": 2.0, "lm_head_multiplier": 0.3, "attention_in_multiplier": 1.5, "attention_out_multiplier": 0.7,
            "ssm_in_multiplier": 1.25, "ssm_out_multiplier": 0.6, "key_multiplier": 0.4, "mlp_multipliers": [0.8, 1.75],
            "ssm_multipliers": [0.5, 1.5, 0.75, 1.25, 3.0],
        });
        config.extend(factors.as_object().cloned().unwrap_or_default());
        for (name, tensor) in tensors {
            let module = name.trim_end_matches(".weight").rsplit('.').next().unwrap_or_default();
            let by = match module {
                "embed_tokens" => 2.0,
                "lm_head" => 0.3,
                "q_proj" | "v_proj" => 1.5,
                "k_proj" => 1.5 * 0.4,
                "o_proj" => 0.7,
                "out_proj" => 0.6,
                "gate_proj" => 0.8,
                "down_proj" => 1.75,
                "in_proj" => {
                    let runs = [(128, 0.5), (128, 1.5), (16, 0.75), (16, 1.25), (8, 3.0)];
                    divide(tensor, &runs.map(|(rows, factor)| (rows, factor * 1.25)));
                    continue;
                }
                _ => continue,
            };
            let rows = tensor.shape[0];
            divide(tensor, &[(rows, by)]);
        }
    };
    let out = changed(&source, change)?;
    agrees("falcon_h1", out.path(), out.path())?;
    let file = changed_gguf(out.path(), |_, _| {})?;
    agrees("falcon_h1", &file.path().join("model.gguf"), file.path())
}

/// Newer checkpoints hold all experts of a layer in two tensors: gate above up, and down.
#[test]
fn fused_experts() -> Outcome {
    let out = folder("qwen3_moe", |_, tensors| {
        for layer in 0..3 {
            let base = format!("model.layers.{layer}.mlp.experts");
            let (mut gate_up, mut down) = (vec![], vec![]);
            for e in 0..8 {
                let mut take = |name: &str| tensors.remove(&format!("{base}.{e}.{name}.weight")).map(|t| t.bytes).unwrap_or_default();
                gate_up.extend(take("gate_proj"));
                gate_up.extend(take("up_proj"));
                down.extend(take("down_proj"));
            }
            tensors.insert(format!("{base}.gate_up_proj"), Raw { ty: BF16, shape: vec![8, 128, 64], bytes: gate_up });
            tensors.insert(format!("{base}.down_proj"), Raw { ty: BF16, shape: vec![8, 64, 64], bytes: down });
        }
    })?;
    agrees("qwen3_moe", out.path(), out.path())
}

/// GGUF files may hold them so too.
#[test]
fn fused_experts_in_gguf() -> Outcome {
    let out = gguf_file("qwen3_moe", |_, tensors| {
        for layer in 0..3 {
            let mut take = |name: &str| tensors.remove(&format!("blk.{layer}.{name}.weight")).map(|t| t.bytes).unwrap_or_default();
            let (gate, up) = (take("ffn_gate_exps"), take("ffn_up_exps"));
            let half = gate.len() / 8;
            let bytes = (0..8).flat_map(|e| [&gate, &up].map(|t| t[e * half..(e + 1) * half].to_vec())).flatten().collect();
            tensors.insert(format!("blk.{layer}.ffn_gate_up_exps.weight"), Raw { ty: BF16, shape: vec![8, 128, 64], bytes });
        }
    })?;
    agrees("qwen3_moe", &out.path().join("model.gguf"), out.path())
}

/// GGUF files may hold queries, keys and values in one matrix.
#[test]
fn fused_attention_in_gguf() -> Outcome {
    for name in ["glm", "olmo"] {
        let Some(source) = check::folder(name) else { continue };
        let out = changed_gguf(&source, |_, tensors| {
            for (layer, end) in (0..3).flat_map(|layer| [(layer, "weight"), (layer, "bias")]) {
                let mut take = |name: &str| tensors.remove(&format!("blk.{layer}.{name}.{end}"));
                let parts: Vec<Raw> = ["attn_q", "attn_k", "attn_v"].into_iter().filter_map(&mut take).collect();
                let Some(first) = parts.first() else { continue };
                let mut all = Raw { shape: first.shape.clone(), bytes: vec![], ty: first.ty };
                all.shape[0] = parts.iter().map(|p| p.shape[0]).sum();
                parts.iter().for_each(|p| all.bytes.extend(&p.bytes));
                tensors.insert(format!("blk.{layer}.attn_qkv.{end}"), all);
            }
        })?;
        agrees(name, &out.path().join("model.gguf"), out.path())?;
    }
    Ok(())
}

/// GGUF files count layers that predict further tokens among the others.
#[test]
fn prediction_layers_in_gguf() -> Outcome {
    let out = gguf_file("qwen3_5_text", |pairs, tensors| {
        pairs.insert("qwen35.block_count".into(), Meta::Unsigned(4));
        pairs.insert("qwen35.nextn_predict_layers".into(), Meta::Unsigned(1));
        tensors.insert("blk.3.nextn.eh_proj.weight".into(), vector(&[1.0; 32]));
    })?;
    agrees("qwen3_5_text", &out.path().join("model.gguf"), out.path())
}

/// The output matrix is the embedding table where the configuration says so, whatever else is in the file.
#[test]
fn tied() -> Outcome {
    let model = |tie: bool, head: bool| -> Outcome<Vec<String>> {
        let out = folder("llama", |config, tensors| {
            config.insert("tie_word_embeddings".into(), json!(tie));
            if !head {
                tensors.remove("lm_head.weight");
            }
        })?;
        let model = onebit_models::load(&Checkpoint::open(out.path())?)?;
        Ok(model.weights.iter().map(|w| w.name.clone()).collect())
    };
    let has_output = |weights: Vec<String>| weights.iter().any(|w| w == "output.weight");
    assert!(has_output(model(false, true)?));
    assert!(!has_output(model(true, true)?));
    assert!(!has_output(model(true, false)?));
    let error = model(false, false).map_err(|e| e.to_string());
    assert!(error.is_err_and(|e| e.contains("`lm_head.weight` is missing")));
    Ok(())
}

/// Old names of settings, and defaults.
#[test]
fn old_settings() -> Outcome {
    let out = folder("llama", |config, _| {
        let mut rope = config.remove("rope_parameters").unwrap_or_default();
        config.insert("rope_theta".into(), rope["rope_theta"].take());
        let fields = rope.as_object_mut().expect("an object");
        fields.remove("rope_theta");
        let kind = fields.remove("rope_type").unwrap_or_default();
        fields.insert("type".into(), kind);
        config.insert("rope_scaling".into(), rope);
        config.remove("head_dim");
    })?;
    agrees("llama", out.path(), out.path())
}

/// To ignore how weights are quantized gives nonsense.
#[test]
fn schemes_that_are_not_known_are_refused() -> Outcome {
    let out = folder("llama", |config, _| {
        config.insert("quantization_config".into(), json!({ "quant_method": "quip", "bits": 4 }));
    })?;
    let error = refusal(out.path())?;
    assert!(error.contains("config.json") && error.contains("quip"), "{error}");
    Ok(())
}
