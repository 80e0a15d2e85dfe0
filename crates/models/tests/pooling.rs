//! How embeddings are made, as sentence-transformers' folders and GGUF files say it.

mod common;

use common::{Outcome, changed, changed_gguf, data};
use onebit_formats::{Checkpoint, Meta, safetensors};
use onebit_models::{Options, convert, pooling, prompts};
use onebit_plan::{Function, Pool, Pooling};
use onebit_quants::F32;
use serde_json::{Value, json};
use std::{fs, path::Path};
use tempfile::TempDir;

/// A model's folder with modules behind the transformer: each its kind, its folder, and its settings.
fn folder(modules: &[(&str, &str, Value)]) -> Outcome<TempDir> {
    let folder = changed(&data("modernbert_local"), |_, _| {})?;
    let mut list = vec![json!({ "idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer" })];
    for (kind, name, config) in modules {
        list.push(json!({ "path": name, "type": format!("sentence_transformers.models.{kind}") }));
        if !name.is_empty() && !name.contains('/') && !config.is_null() {
            fs::create_dir_all(folder.path().join(name))?;
            fs::write(folder.path().join(name).join("config.json"), config.to_string())?;
        }
    }
    fs::write(folder.path().join("modules.json"), Value::from(list).to_string())?;
    Ok(folder)
}

/// A dense layer's weights: rows that count up.
fn weights(folder: &Path, outputs: usize, inputs: usize, bias: bool) -> Outcome {
    let mut writer = safetensors::Writer::new(folder.join("model.safetensors"));
    writer.tensor("linear.weight", F32, &[outputs, inputs])?;
    if bias {
        writer.tensor("linear.bias", F32, &[outputs])?;
    }
    let mut data = writer.begin()?;
    let numbers = |n: usize| (0..n).flat_map(|i| (i as f32).to_le_bytes()).collect::<Vec<u8>>();
    data.write("linear.weight", &numbers(outputs * inputs))?;
    if bias {
        data.write("linear.bias", &numbers(outputs))?;
    }
    data.finish()?;
    Ok(())
}

fn read(path: &Path) -> Outcome<Result<Option<Pooling>, String>> {
    Ok(pooling(&Checkpoint::open(path)?).map_err(|error| error.to_string()))
}

fn mean() -> (&'static str, &'static str, Value) {
    ("Pooling", "1_Pooling", json!({ "pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false }))
}

#[test]
fn ways_of_pooling() -> Outcome {
    assert_eq!(read(&data("modernbert_local"))?, Ok(None));
    for (config, pool) in [
        (json!({ "word_embedding_dimension": 32, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false }), Pool::Cls),
        (json!({ "pooling_mode_mean_tokens": true }), Pool::Mean),
        (json!({ "pooling_mode_lasttoken": true }), Pool::Last),
        (json!({ "pooling_mode_max_tokens": true }), Pool::Max),
        (json!({ "pooling_mode_mean_sqrt_len_tokens": true }), Pool::MeanSqrtLen),
        (json!({ "pooling_mode_weightedmean_tokens": true }), Pool::WeightedMean),
        (json!({ "pooling_mode": "cls" }), Pool::Cls),
        (json!({ "pooling_mode": "mean", "include_prompt": false }), Pool::Mean),
        (json!({ "pooling_mode": "lasttoken", "pooling_mode_lasttoken": true }), Pool::Last),
    ] {
        let folder = folder(&[("Pooling", "1_Pooling", config.clone()), ("Normalize", "2_Normalize", Value::Null)])?;
        assert_eq!(read(folder.path())?, Ok(Some(pool.into())), "{config}");
    }
    Ok(())
}

#[test]
fn dense_layers() -> Outcome {
    let dense = |f: &str| json!({ "in_features": 32, "out_features": 2, "bias": false, "activation_function": f });
    for (f, expected) in [
        ("torch.nn.modules.linear.Identity", None),
        ("torch.nn.modules.activation.Tanh", Some(Function::Tanh)),
        ("torch.nn.modules.activation.ReLU", Some(Function::Relu)),
        ("torch.nn.modules.activation.GELU", Some(Function::Gelu)),
    ] {
        let folder = folder(&[mean(), ("Dense", "2_Dense", dense(f))])?;
        weights(&folder.path().join("2_Dense"), 2, 32, false)?;
        let found = read(folder.path())??.unwrap_or_else(|| Pool::None.into());
        assert_eq!((found.pool, found.dense.len(), found.width(32), found.fault(32)), (Pool::Mean, 1, 2, None));
        let layer = &found.dense[0];
        assert_eq!((layer.f, layer.inputs, layer.weight[33], &layer.bias), (expected, 32, 33.0, &None));
        let refused = convert(&Checkpoint::open(folder.path())?, &folder.path().join("x.gguf"), &Options::default(), &mut |_| {});
        assert!(refused.is_err_and(|error| error.to_string().contains("no place for the dense layers")));
    }
    // As sentence-transformers has it where nothing is said.
    let folder = folder(&[mean(), ("Dense", "2_Dense", json!({ "in_features": 32, "out_features": 2 }))])?;
    weights(&folder.path().join("2_Dense"), 2, 32, true)?;
    let found = read(folder.path())??.unwrap_or_else(|| Pool::None.into());
    assert_eq!((found.dense[0].f, found.dense[0].bias.as_deref()), (Some(Function::Tanh), Some(&[0.0, 1.0][..])));
    Ok(())
}

/// What is not known, is not there, or does not fit, by name.
#[test]
fn refusals() -> Outcome {
    let dense = json!({ "in_features": 32, "out_features": 2, "bias": false, "activation_function": "torch.nn.modules.linear.Identity" });
    let with = |key: &str, value: Value| {
        let mut dense = dense.clone();
        dense[key] = value;
        ("Dense", "2_Dense", dense)
    };
    let cases = [
        (vec![("Pooling", "1_Pooling", json!({}))], "1_Pooling/config.json: `pooling_mode` is missing"),
        (
            vec![("Pooling", "1_Pooling", json!({ "pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true }))],
            "several ways of pooling",
        ),
        (vec![("Pooling", "1_Pooling", json!({ "pooling_mode": "mean", "pooling_mode_cls_token": true }))], "several ways of pooling"),
        (vec![("Pooling", "1_Pooling", json!({ "pooling_mode": ["mean", "cls"] }))], "`pooling_mode` is [\"mean\",\"cls\"]"),
        (vec![("Pooling", "1_Pooling", json!({ "pooling_mode_best": true }))], "`pooling_mode_best` is true"),
        (vec![("Pooling", "1_Pooling", Value::Null)], "names `1_Pooling`, which is not there"),
        (vec![("Pooling", "../other", Value::Null)], "must be a plain name"),
        (vec![("Pooling", "", Value::Null)], "must be a plain name"),
        (vec![("CLIPModel", "0_CLIP", Value::Null)], "has \"sentence_transformers.models.CLIPModel\" where it is not known"),
        (vec![("Dense", "2_Dense", dense.clone())], "where it is not known"),
        (vec![mean(), mean()], "where it is not known"),
        (vec![("Normalize", "2_Normalize", Value::Null)], "where it is not known"),
        (vec![mean(), ("Dense", "2_Dense", dense.clone())], "2_Dense: `linear.weight` is missing"),
        (vec![mean(), with("out_features", json!(3))], "`linear.weight` has shape [2, 32], but should have [3, 32]"),
        (vec![mean(), with("in_features", json!(0))], "`in_features` should be a number from 1 to 65536"),
        (vec![mean(), with("in_features", json!(1u64 << 40))], "`in_features` should be a number from 1 to 65536"),
        (vec![mean(), with("bias", json!(true))], "`linear.bias` is missing"),
        (vec![mean(), with("activation_function", json!("my.Own"))], "`activation_function` is \"my.Own\""),
        (vec![mean(), with("module_input_name", json!("token_embeddings"))], "layers for each token are not known"),
        (vec![mean(); 16], "`modules` has 17 entries; 16 are the most"),
    ];
    for (modules, part) in cases {
        let folder = folder(&modules)?;
        if modules.get(1).is_some_and(|module| module.0 == "Dense") && !part.starts_with("2_Dense: `linear.weight`") {
            weights(&folder.path().join("2_Dense"), 2, 32, false)?;
        }
        let found = read(folder.path())?;
        assert!(found.as_ref().is_err_and(|error| error.contains(part)), "{part}: {found:?}");
    }
    let folder = folder(&[mean()])?;
    for text in ["", "{}", "[1]", "[{\"type\": 1}]"] {
        fs::write(folder.path().join("modules.json"), text)?;
        assert!(read(folder.path())?.is_err(), "{text}");
    }
    Ok(())
}

#[test]
fn numbers_of_gguf() -> Outcome {
    let of = |number: u64| -> Outcome<Result<Option<Pooling>, String>> {
        let folder = changed_gguf(&data("modernbert_local"), |pairs, _| {
            pairs.insert("modern-bert.pooling_type".into(), Meta::Unsigned(number));
        })?;
        read(&folder.path().join("model.gguf"))
    };
    for (number, pool) in [(0, Pool::None), (1, Pool::Mean), (2, Pool::Cls), (3, Pool::Last)] {
        assert_eq!(of(number)?, Ok(Some(pool.into())));
    }
    assert!(of(4)?.is_err_and(|error| error.contains("scores pairs of texts")));
    assert!(of(5)?.is_err_and(|error| error.contains("`modern-bert.pooling_type` is 5; known are 0 (none)")));
    // What a folder says is what its GGUF form says.
    let folder = folder(&[("Pooling", "1_Pooling", json!({ "pooling_mode": "cls" }))])?;
    let file = folder.path().join("x.gguf");
    convert(&Checkpoint::open(folder.path())?, &file, &Options::default(), &mut |_| {})?;
    assert_eq!(read(&file)?, Ok(Some(Pool::Cls.into())));
    Ok(())
}

#[test]
fn prompts_by_name() -> Outcome {
    let folder = folder(&[mean()])?;
    let file = folder.path().join("config_sentence_transformers.json");
    let read = |text: &str| -> Outcome<Result<onebit_models::Prompts, String>> {
        fs::write(&file, text)?;
        Ok(prompts(&Checkpoint::open(folder.path())?).map_err(|error| error.to_string()))
    };
    assert_eq!(prompts(&Checkpoint::open(data("modernbert_local"))?)?, onebit_models::Prompts::default());
    let found = read(r#"{ "prompts": { "query": "find: ", "document": "" }, "default_prompt_name": null }"#)??;
    assert_eq!((found.texts.len(), found.texts["query"].as_str(), found.usual), (2, "find: ", None));
    let found = read(r#"{ "prompts": { "query": "find: " }, "default_prompt_name": "query" }"#)??;
    assert_eq!(found.usual.as_deref(), Some("query"));
    for (text, part) in [
        ("[]", "should be an object"),
        (r#"{ "prompts": ["query"] }"#, "`prompts` should be texts by name"),
        (r#"{ "prompts": { "query": 1 } }"#, "`prompts` should be texts by name"),
        (r#"{ "default_prompt_name": "query" }"#, "`default_prompt_name` is \"query\", which is none of the prompts"),
    ] {
        let found = read(text)?;
        assert!(found.as_ref().is_err_and(|error| error.contains(part)), "{text}: {found:?}");
    }
    Ok(())
}
