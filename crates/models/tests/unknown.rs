//! Checkpoints that go by an unknown name: they are understood by what they hold, or refused with what is not explained.

mod common;

use common::{Outcome, Raw, changed, changed_gguf, folder, refusal};
use onebit_formats::{Checkpoint, Meta};
use onebit_models::{describe, load, load_as};
use onebit_quants::{BF16, F32};
use onebit_reference::{
    Reference,
    check::{self, Expected},
};
use serde_json::{Map, Value, json};
use std::path::Path;

macro_rules! names {
    ($($name:ident: $form:ident,)*) => { const FIXTURES: &[&str] = &[$(stringify!($name)),*]; };
}
onebit_reference::fixtures!(names);

/// Nothing but their names tells these from Llama and Qwen3, whose rotation pairs other dimensions: the warning says so.
const LIKE_OTHERS: [&str; 2] = ["helium", "maincoder"];

/// What became of a checkpoint.
#[derive(PartialEq, Eq, Debug)]
enum Fate {
    Right,
    Wrong,
    Refused(String),
}

fn fate(path: &Path, expected: &Path) -> Outcome<Fate> {
    let model = match load(&Checkpoint::open(path)?) {
        Ok(model) => model,
        Err(error) => return Ok(Fate::Refused(error.to_string())),
    };
    let report = check::fixture(&Reference, model, &Expected::open(expected)?, &check::limits())?;
    Ok(if report.hold(check::BAR).is_ok() { Fate::Right } else { Fate::Wrong })
}

/// Whether an error says what is wrong and what to do.
fn is_helpful(error: &str) -> bool {
    error.contains("`mystery` is not known") && (error.contains("--family") || error.contains("needs a file of its own"))
}

fn forget_name(config: &mut Map<String, Value>) {
    config.insert("model_type".into(), "mystery".into());
}

fn forget_class(config: &mut Map<String, Value>) {
    forget_name(config);
    config.insert("architectures".into(), json!(["MysteryForCausalLM"]));
}

/// The class of the reference code tells the family, whose settings must all be accounted for.
#[test]
fn named_by_class() -> Outcome {
    let mut refused = vec![];
    for name in FIXTURES {
        let Some(source) = check::folder(name) else { return Ok(()) };
        let renamed = changed(&source, |config, _| forget_name(config))?;
        match fate(renamed.path(), &source)? {
            Fate::Right => {}
            Fate::Refused(error) if error.contains("settings that it does not read") => refused.push((name, error)),
            other => return Err(format!("{name}: {other:?}").into()),
        }
    }
    eprintln!("{} of {} run, not {refused:?}", FIXTURES.len() - refused.len(), FIXTURES.len());
    assert!(refused.len() * 10 < FIXTURES.len());
    Ok(())
}

/// Without a name of any kind, a checkpoint is right or refused.
#[test]
fn structure() -> Outcome {
    let mut right = vec![];
    for name in FIXTURES {
        let Some(source) = check::folder(name) else { return Ok(()) };
        let renamed = changed(&source, |config, _| forget_class(config))?;
        match fate(renamed.path(), &source)? {
            Fate::Right => right.push(*name),
            Fate::Refused(error) => assert!(is_helpful(&error), "{name}: {error}"),
            Fate::Wrong => assert!(LIKE_OTHERS.contains(name), "{name}: wrong logits"),
        }
    }
    eprintln!("{} of {} run: {}", right.len(), FIXTURES.len(), right.join(" "));
    // Decoders like Llama: biases, norms of queries and keys, windows, partial rotation, experts with shared ones, tied embeddings.
    for name in ["llama", "mistral", "ministral", "qwen2", "qwen3", "qwen3_moe", "glm4_moe", "olmoe", "solar_open", "seed_oss", "mixtral"] {
        assert!(right.contains(&name), "{name} is refused");
    }
    Ok(())
}

/// The same for GGUF files: right or refused, and never wrong.
#[test]
fn gguf_structure() -> Outcome {
    let mut right = vec![];
    for name in FIXTURES {
        let Some(source) = check::folder(name) else { return Ok(()) };
        // Some have no GGUF form.
        let Ok(renamed) = changed_gguf(&source, |pairs, _| rename(pairs)) else { continue };
        match fate(&renamed.path().join("model.gguf"), &source)? {
            Fate::Right => right.push(*name),
            Fate::Refused(error) => assert!(is_helpful(&error), "{name}: {error}"),
            Fate::Wrong => return Err(format!("{name}: wrong logits").into()),
        }
    }
    eprintln!("{} run: {}", right.len(), right.join(" "));
    for name in ["qwen3_moe", "seed_oss", "glm4_moe", "granite", "gemma3_text", "olmo2"] {
        assert!(right.contains(&name), "{name} is refused");
    }
    Ok(())
}

/// Another architecture's name, before the keys too.
fn rename(pairs: &mut std::collections::BTreeMap<String, Meta>) {
    let Some(Meta::Text(old)) = pairs.insert("general.architecture".into(), Meta::Text("mystery".into())) else { return };
    let key = |key: String| key.strip_prefix(&format!("{old}.")).map(|rest| format!("mystery.{rest}")).unwrap_or(key);
    *pairs = std::mem::take(pairs).into_iter().map(|(k, v)| (key(k), v)).collect();
}

/// Training makes rows of queries and keys that turn together of like size: a GGUF file of which that shows is understood.
#[test]
fn weights_tell_the_pairing() -> Outcome {
    let source = common::data("llama");
    let scaled = |frequency: fn(usize) -> usize| {
        changed_gguf(&source, |pairs, tensors| {
            rename(pairs);
            for (_, t) in tensors.iter_mut().filter(|(name, _)| name.contains("attn_q.") || name.contains("attn_k.")) {
                let columns = t.shape[1];
                for (i, value) in t.bytes.chunks_exact_mut(2).enumerate() {
                    // A power of two is added to the exponent of a bf16.
                    let bits = u16::from_le_bytes([value[0], value[1]]) - ((frequency(i / columns % 16) as u16) << 7);
                    value.copy_from_slice(&bits.to_le_bytes());
                }
            }
        })
    };
    let pairs = load(&Checkpoint::open(scaled(|row| row / 2)?.path().join("model.gguf"))?)?;
    assert_eq!(pairs.plan.name, "llama");
    assert!(describe(&pairs).iter().any(|what| what.contains("adjacent dimensions together")));
    // The other way it is none like Llama, but nothing tells which of two others.
    let error = refusal(&scaled(|row| row % 8)?.path().join("model.gguf"))?;
    assert!(error.contains("several families that compute different things explain all tensors and settings: gemma, exaone."), "{error}");
    Ok(())
}

/// Norms around zero are those of families that add one, which nothing else of Gemma tells.
#[test]
fn weights_tell_what_norms_lack() -> Outcome {
    let Some(source) = check::folder("gemma") else { return Ok(()) };
    let renamed = changed(&source, |config, _| forget_class(config))?;
    let model = load(&Checkpoint::open(renamed.path())?)?;
    assert_eq!(model.plan.name, "gemma");
    assert!(describe(&model).iter().any(|what| what.contains("stored less one")));
    Ok(())
}

/// What nothing explains is listed, with the closest family and what to do.
#[test]
fn unexplained() -> Outcome {
    let setting = |key: &str, value: Value| {
        folder("llama", |config, _| {
            forget_class(config);
            config.insert(key.into(), value);
        })
    };
    for (key, value) in [
        ("residual_scale", json!(0.5)),
        ("attention_chunk_size", json!(8)),
        ("use_rope", json!(false)),
        ("attn_logit_softcapping", json!(50.0)),
        ("rope_parameters", json!({ "rope_type": "default", "rope_theta": 1e4, "twist": 3 })),
    ] {
        let error = refusal(setting(key, value)?.path()).map_err(|e| format!("{key}: {e}"))?;
        let key = if key == "rope_parameters" { "rope_parameters.twist" } else { key };
        for word in ["`mystery` is not known", "explains", "does not read", key, "--family", "adding-an-architecture.md"] {
            assert!(error.contains(word), "{key}: {error}");
        }
    }
    let tensor = folder("llama", |config, tensors| {
        forget_class(config);
        tensors.insert("model.layers.1.self_attn.twist.weight".into(), Raw { ty: F32, shape: vec![1], bytes: vec![0; 4] });
    })?;
    let error = refusal(tensor.path())?;
    assert!(error.contains("explains 30 of 31 tensors, but not model.layers.1.self_attn.twist.weight"), "{error}");
    let missing = folder("llama", |config, tensors| {
        forget_class(config);
        tensors.remove("model.layers.1.mlp.up_proj.weight");
    })?;
    let error = refusal(missing.path())?;
    assert!(error.contains("model.layers.1.mlp.up_proj.weight"), "{error}");
    // Code that a checkpoint brings is named in its settings, and stays where it is.
    let code = setting("auto_map", json!({ "AutoModelForCausalLM": "modeling_mystery.MysteryForCausalLM" }))?;
    std::fs::write(code.path().join("modeling_mystery.py"), "raise SystemExit(1)")?;
    assert_eq!(fate(code.path(), &common::data("llama"))?, Fate::Right);
    Ok(())
}

/// A mixture of experts has to say how it weighs them.
#[test]
fn unsaid() -> Outcome {
    let silent = folder("qwen3_moe", |config, _| {
        forget_class(config);
        ["norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"].iter().for_each(|key| drop(config.remove(*key)));
    })?;
    match load(&Checkpoint::open(silent.path())?) {
        Ok(model) => assert_eq!(model.plan.name, "qwen3_moe", "a family may imply it, the pattern does not"),
        Err(error) => assert!(error.to_string().contains("norm_topk_prob"), "{error}"),
    }
    Ok(())
}

/// A family that was asked for is taken whatever the checkpoint calls itself, and nothing else is.
#[test]
fn asked_for() -> Outcome {
    let renamed = folder("llama", |config, _| forget_class(config))?;
    let checkpoint = Checkpoint::open(renamed.path())?;
    assert_eq!(load_as(&checkpoint, Some("helium"))?.plan.name, "helium");
    let error = load_as(&checkpoint, Some("gpt2")).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("is missing"), "{error}");
    let error = load_as(&checkpoint, Some("mystery")).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("no family `mystery`") && error.contains("llama"), "{error}");
    Ok(())
}

/// A GGUF file that states another size of vocabulary than it has is read by its table, as llama.cpp does.
#[test]
fn vocabulary_by_the_table() -> Outcome {
    let source = common::data("llama");
    let out = changed_gguf(&source, |pairs, tensors| {
        pairs.insert("llama.vocab_size".into(), Meta::Unsigned(250));
        assert_eq!(tensors["token_embd.weight"].ty, BF16);
    })?;
    assert_eq!(load(&Checkpoint::open(out.path().join("model.gguf"))?)?.plan.vocabulary, 256);
    Ok(())
}
