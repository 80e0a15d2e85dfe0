//! llama.cpp reads what `convert` writes, and computes the same.
//!
//! Needs a Python with the package xllamacpp: `python3`, or the one that `ONEBIT_PEERS` names. Skipped, loudly, without.

mod common;

use common::{Outcome, Raw, Tensors, llama_cpp_logits as logits, python, unread};
use onebit_formats::Checkpoint;
use onebit_models::{Options, convert};
use onebit_plan::{Batch, Device, Span};
use onebit_quants::F32;
use onebit_reference::{
    Reference,
    check::{self, Expected},
    evidence::{self, Form},
};
use serde_json::{Map, Value};
use std::path::Path;

/// Most that a logit may differ, as a share of their standard deviation. Most families differ by some 1e-6; but llama.cpp looks GELU
/// up in a table of f16, and knows no lower bound of the steps of Nemotron-H.
const BAR: f64 = 8e-3;

/// What a model reads: tokens, and the source that they answer to where there is an encoder.
type Read<'a> = (&'a [u32], Option<&'a [u32]>);

/// The largest difference at each position, in standard deviations.
fn differences(found: &[f32], expected: &[f32], positions: usize, deviation: f64) -> Vec<f64> {
    assert_eq!(found.len(), expected.len());
    let vocabulary = found.len() / positions;
    let off = |(a, b): (&[f32], &[f32])| a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs()) / deviation).fold(0.0, f64::max);
    found.chunks(vocabulary).zip(expected.chunks(vocabulary)).map(off).collect()
}

/// llama.cpp, with attention in f32, computes `expected` for `ids` from the converted folder, and the most likely tokens are the same.
fn witnessed(python: &str, family: &str, folder: &Path, (ids, source): Read<'_>, expected: &[f32], deviation: f64) -> Outcome {
    let temporary = tempfile::tempdir()?;
    let file = temporary.path().join("model.gguf");
    let made = convert(&Checkpoint::open(folder)?, &file, &Options { ty: Some(F32) }, &mut |_| {})?;
    assert_eq!(unread(&made), None, "{}", folder.display());
    let found = logits(python, &file, ids, source)?;
    let vocabulary = found.len() / ids.len();
    let rows = || found.chunks(vocabulary).zip(expected.chunks(vocabulary));
    let differences = differences(&found, expected, ids.len(), deviation);
    let worst = differences.iter().copied().fold(0.0, f64::max);
    eprintln!("{}: {worst:.1e}", folder.display());
    assert!(worst < BAR, "{} differs: {differences:?}", folder.display());
    // The most likely tokens are the same, where the next is not as close.
    let best = |row: &[f32]| (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap_or(0);
    for (i, (a, b)) in rows().enumerate() {
        let behind = f64::from(b[best(b)] - b[best(a)]) / deviation;
        assert!(behind < 2.0 * BAR, "the most likely token at position {i} is {}, but should be {}", best(a), best(b));
    }
    evidence::record(family, Form::Gguf, "llama.cpp", worst);
    Ok(())
}

fn agrees(name: &str) -> Outcome {
    let (Some(python), Some(folder)) = (python(), check::folder(name)) else { return Ok(()) };
    let expected = Expected::open(&folder)?;
    let source = expected.sources.as_ref().map(|[long, _]| &long[..]);
    let temporary = tempfile::tempdir()?;
    let file = temporary.path().join("model.gguf");
    let made = convert(&Checkpoint::open(&folder)?, &file, &Options { ty: Some(F32) }, &mut |_| {})?;
    if let Some(why) = unread(&made) {
        // It refuses the file, or computes something else.
        let off = |found: Vec<f32>| differences(&found, &expected.long_logits, expected.long.len(), expected.deviation());
        let runs = logits(&python, &file, &expected.long, source).is_ok_and(|found| off(found).into_iter().all(|off| off < BAR));
        assert!(!runs, "{name}: llama.cpp runs it, but is said not to: {why}");
        eprintln!("{name}: {why}");
        return Ok(());
    }
    witnessed(&python, name, &folder, (&expected.long, source), &expected.long_logits, expected.deviation())
}

/// Our logits of `ids`, `[tokens, vocabulary]`, for settings that no fixture has.
fn reference(folder: &Path, ids: &[u32]) -> Outcome<Vec<f32>> {
    let model = onebit_models::load(&Checkpoint::open(folder)?)?;
    let mut exe = Reference.load(model, &check::limits(), &mut |_| {})?;
    let pages: Vec<u32> = (0..8).collect();
    let n = ids.len();
    let spans = [Span { len: n, start: 0, pages: &pages, slot: 0, outputs: n }];
    Ok(exe.step(&Batch::text(ids, &spans))?.to_vec())
}

/// Stretched contexts, whose frequencies `rope.rs` checks.
fn stretched(parameters: Value) -> Outcome {
    let Some(python) = python() else { return Ok(()) };
    let folder = common::folder("llama", |config, _| {
        config.insert("rope_parameters".into(), parameters);
    })?;
    let expected = Expected::open(folder.path())?;
    let ours = reference(folder.path(), &expected.long)?;
    witnessed(&python, "llama", folder.path(), (&expected.long, None), &ours, expected.deviation())
}

#[test]
fn linear() -> Outcome {
    stretched(serde_json::json!({ "rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0 }))
}

#[test]
fn yarn() -> Outcome {
    stretched(serde_json::json!({ "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 16.0,
        "attention_factor": 1.3, "original_max_position_embeddings": 128 }))
}

/// A setting that the fixture does not have, or leaves where it does nothing: our logits, which it must change.
fn varied(name: &str, change: impl FnOnce(&mut Map<String, Value>, &mut Tensors)) -> Outcome {
    let (Some(python), Some(source)) = (python(), check::folder(name)) else { return Ok(()) };
    let folder = common::changed(&source, change)?;
    let expected = Expected::open(&source)?;
    let ours = reference(folder.path(), &expected.long)?;
    let worst = ours.iter().zip(&expected.long_logits).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
    assert!(worst > 0.1 * expected.deviation(), "the change makes a difference of {worst} only");
    witnessed(&python, name, folder.path(), (&expected.long, None), &ours, expected.deviation())
}

#[test]
fn clipped() -> Outcome {
    varied("olmo", |config, _| {
        config.insert("clip_qkv".into(), 0.5.into());
    })
}

#[test]
fn side_by_side() -> Outcome {
    varied("stablelm", |config, tensors| {
        config.insert("use_parallel_residual".into(), true.into());
        tensors.retain(|name, _| !name.contains("post_attention_layernorm"));
    })
}

/// GPT-NeoX has attention and feed-forward layer side by side unless it says otherwise.
#[test]
fn one_after_the_other() -> Outcome {
    varied("gpt_neox", |config, _| {
        config.insert("use_parallel_residual".into(), false.into());
    })
}

#[test]
fn linear_biases_with_a_bound() -> Outcome {
    varied("mpt", |config, _| {
        config.insert("attn_config".into(), serde_json::json!({ "alibi": true, "alibi_bias_max": 4, "clip_qkv": 0.5 }));
    })
}

/// Falcon 11B has one norm for both.
#[test]
fn one_norm() -> Outcome {
    varied("falcon", |config, tensors| {
        config.insert("num_ln_in_parallel_attn".into(), 1.into());
        let names: Vec<String> = tensors.keys().filter(|name| name.contains("ln_mlp")).cloned().collect();
        for name in names {
            tensors.remove(&name.replace("ln_mlp", "ln_attn"));
            if let Some(tensor) = tensors.remove(&name) {
                tensors.insert(name.replace("ln_mlp", "input_layernorm"), tensor);
            }
        }
    })
}

#[test]
fn softcapped() -> Outcome {
    varied("gemma2", |config, _| {
        config.insert("attn_logit_softcapping".into(), 1.5.into());
        config.insert("final_logit_softcapping".into(), 3.0.into());
    })
}

/// Factors that the weights of the file hold.
#[test]
fn factors() -> Outcome {
    varied("falcon_h1", |config, _| {
        let factors = serde_json::json!({
            "embedding_multiplier": 2.0, "lm_head_multiplier": 0.9, "attention_in_multiplier": 1.5, "attention_out_multiplier": 0.7,
            "ssm_in_multiplier": 1.25, "ssm_out_multiplier": 0.6, "key_multiplier": 0.4, "mlp_multipliers": [0.8, 1.75],
            "ssm_multipliers": [0.5, 1.5, 0.75, 1.25, 3.0],
        });
        config.extend(factors.as_object().cloned().unwrap_or_default());
    })
}

/// llama.cpp knows dots.llm1 with keys and values for each head only: those that heads share are given to each.
#[test]
fn dots1_without_groups() -> Outcome {
    let (Some(python), Some(source)) = (python(), check::folder("dots1")) else { return Ok(()) };
    let expected = Expected::open(&source)?;
    let folder = common::changed(&source, |config, tensors| {
        let number = |key: &str| config[key].as_u64().unwrap_or(0) as usize;
        let (heads, shared) = (number("num_attention_heads"), number("num_key_value_heads"));
        for (_, t) in tensors.iter_mut().filter(|(name, _)| name.contains("k_proj") || name.contains("v_proj")) {
            let head = t.bytes.len() / shared;
            t.bytes = t.bytes.chunks(head).flat_map(|rows| rows.repeat(heads / shared)).collect();
            t.shape[0] *= heads / shared;
        }
        config.insert("num_key_value_heads".into(), heads.into());
    })?;
    witnessed(&python, "dots1", folder.path(), (&expected.long, None), &expected.long_logits, expected.deviation())
}

/// llama.cpp takes windows of 4096 tokens in SmallThinker, whatever the file says.
#[test]
fn smallthinker_with_its_window() -> Outcome {
    varied("smallthinker", |config, _| {
        config.insert("sliding_window_size".into(), 4096.into());
    })
}

/// llama.cpp leaves out attention where there is no feed-forward layer behind it: compared without those layers.
#[test]
fn nemotron_nas_with_feed_forward_layers() -> Outcome {
    varied("nemotron_nas", |config, tensors| {
        config.insert("num_hidden_layers".into(), 3.into());
        if let Some(Value::Array(blocks)) = config.get_mut("block_configs") {
            blocks.truncate(3);
        }
        tensors.retain(|name, _| !name.contains("layers.3.") && !name.contains("layers.4."));
    })
}

/// gpt-oss was trained with YaRN whose range is not rounded to whole dimensions, which llama.cpp does: compared without YaRN.
#[test]
fn gpt_oss_without_yarn() -> Outcome {
    varied("gpt_oss", |config, _| {
        config.insert("rope_parameters".into(), serde_json::json!({ "rope_type": "default", "rope_theta": 150_000.0 }));
    })
}

/// llama.cpp tells Baichuan's models apart by their layers: 32 turn, 40 have linear biases.
#[test]
fn baichuan_with_its_layers() -> Outcome {
    let Some(python) = python() else { return Ok(()) };
    for (name, layers) in [("baichuan", 32), ("baichuan2", 32), ("baichuan2_13b", 40)] {
        let folder = common::folder(name, |config, tensors| {
            config.insert("num_hidden_layers".into(), layers.into());
            for i in 2..layers {
                let (from, to) = (format!("layers.{}.", i % 2), format!("layers.{i}."));
                let copies: Vec<_> =
                    tensors.iter().filter(|(n, _)| n.contains(&from)).map(|(n, t)| (n.replace(&from, &to), t.clone())).collect();
                tensors.extend(copies);
            }
        })?;
        let expected = Expected::open(folder.path())?;
        let ours = reference(folder.path(), &expected.long)?;
        witnessed(&python, name, folder.path(), (&expected.long, None), &ours, expected.deviation())?;
    }
    Ok(())
}

/// As Kimi Linear is published: with queries made in one step. Not every llama.cpp reads the other form.
#[test]
fn kimi_linear() -> Outcome {
    varied("kimi_linear", |config, tensors| {
        config.insert("q_lora_rank".into(), Value::Null);
        let name = |module: &str| format!("model.layers.1.self_attn.{module}.weight");
        let Some(up) = tensors.remove(&name("q_b_proj")) else { return };
        let row = up.bytes.len() / up.shape[0];
        let shape = vec![up.shape[0], 2 * up.shape[1]];
        let bytes = up.bytes.chunks(row).flat_map(|row| [row, row].concat()).collect();
        tensors.insert(name("q_proj"), Raw { ty: up.ty, shape, bytes });
        ["q_a_proj", "q_a_layernorm"].into_iter().for_each(|module| drop(tensors.remove(&name(module))));
    })
}

/// llama.cpp has indexers with heads of 64 numbers or a multiple only.
#[test]
fn indexers_with_longer_heads() -> Outcome {
    for name in ["deepseek_v32", "glm_moe_dsa"] {
        varied(name, |config, tensors| {
            let head = config["index_head_dim"].as_u64().unwrap_or(0) as usize;
            config.insert("index_head_dim".into(), (2 * head).into());
            let doubled = |name: &str| [".wq_b.", ".wk.", ".k_norm."].iter().any(|module| name.contains(&format!("indexer{module}")));
            tensors.iter_mut().filter(|(name, _)| doubled(name)).for_each(|(_, t)| *t = t.doubled(head));
        })?;
    }
    Ok(())
}

/// The sizes that llama.cpp has built in for Gemma 3n: 20 layers with keys and values of their own, of which ten have sparse gates and each
/// fifth sees all, 64 numbers between the matrices of LAuReL, and 256 of an embedding for each layer.
#[test]
fn gemma3n_with_its_sizes() -> Outcome {
    const LAYERS: usize = 22;
    varied("gemma3n_text", |config, tensors| {
        let kind = |i: usize| if (i + 1).is_multiple_of(5) { "full_attention" } else { "sliding_attention" };
        config.insert("layer_types".into(), (0..LAYERS).map(kind).collect());
        config.insert("activation_sparsity_pattern".into(), (0..LAYERS).map(|i| if i < 10 { 0.95 } else { 0.0 }).collect());
        config.insert("intermediate_size".into(), vec![128; LAYERS].into());
        let sizes = [("num_hidden_layers", LAYERS), ("laurel_rank", 64), ("hidden_size_per_layer_input", 256)];
        config.extend(sizes.map(|(key, n)| (key.into(), n.into())));
        for i in 2..LAYERS {
            let (from, to) = (format!("layers.{}.", i % 2), format!("layers.{i}."));
            let copies: Vec<_> =
                tensors.iter().filter(|(name, _)| name.contains(&from)).map(|(name, t)| (name.replace(&from, &to), t.clone())).collect();
            tensors.extend(copies);
        }
        let width = config["hidden_size"].as_u64().unwrap_or(0) as usize;
        let vocabulary = config["vocab_size"].as_u64().unwrap_or(0) as usize;
        for (name, t) in tensors.iter_mut() {
            let module = name.trim_end_matches(".weight").rsplit('.').next().unwrap_or_default();
            // What a layer adds is made small, or 22 of these would make much of what GELU in f16 leaves out.
            if module.starts_with("post_") || module.ends_with("_coefs") {
                *t = t.scaled(0.03);
                continue;
            }
            let shape: &[usize] = match module {
                "linear_left" => &[64, width],
                "linear_right" => &[width, 64],
                "embed_tokens_per_layer" => &[vocabulary, 256 * LAYERS],
                "per_layer_model_projection" => &[256 * LAYERS, width],
                "per_layer_projection_norm" => &[256],
                "per_layer_input_gate" => &[256, width],
                "per_layer_projection" => &[width, 256],
                _ => continue,
            };
            // The numbers that are there, again and again, in a row that is never in step with the matrix.
            let values = t.values();
            let (count, by) = (shape.iter().product(), if module == "per_layer_input_gate" { 0.1 } else { 1.0 });
            *t = Raw::new(shape, &(0..count).map(|i| by * values[(i + i / values.len()) % values.len()]).collect::<Vec<_>>());
        }
    })
}

/// llama.cpp turns all layers of Mellum by the base of those that see the whole context.
#[test]
fn mellum_with_one_base() -> Outcome {
    varied("mellum_in_gguf", |config, _| {
        config["rope_parameters"]["sliding_attention"] = config["rope_parameters"]["full_attention"].clone();
    })
}

/// llama.cpp computes of Phi-3.5-MoE's files what Mixtral is, of whose names the same tensors are made here: so they are where it looks for
/// them, and as it wants them.
#[test]
fn phimoe_as_mixtral() -> Outcome {
    let (Some(python), Some(source)) = (python(), check::folder("phimoe")) else { return Ok(()) };
    // Published checkpoints have biases, without which llama.cpp does not load it.
    let biased = |config: &mut Map<String, Value>, tensors: &mut Tensors| {
        config.extend([("attention_bias".into(), true.into()), ("lm_head_bias".into(), true.into())]);
        let projections = ["q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight", "lm_head.weight"];
        let named: Vec<(String, usize)> = tensors
            .iter()
            .filter(|(name, _)| projections.iter().any(|p| name.ends_with(p)))
            .map(|(name, t)| (name.clone(), t.shape[0]))
            .collect();
        for (name, rows) in named {
            let values: Vec<f32> = (0..rows).map(|i| 0.1 * ((i * 7 % 13) as f32 - 6.0)).collect();
            tensors.insert(name.replace(".weight", ".bias"), Raw::new(&[rows], &values));
        }
        tensors.iter_mut().filter(|(name, _)| name.ends_with("norm.bias")).for_each(|(_, t)| *t = t.scaled(0.0));
    };
    let phimoe = common::changed(&source, biased)?;
    let mixtral = common::changed(&source, |config, tensors| {
        biased(config, tensors);
        config.insert("model_type".into(), "mixtral".into());
        tensors.retain(|name, _| !name.ends_with("norm.bias"));
    })?;
    let expected = Expected::open(&source)?;
    let ours = reference(mixtral.path(), &expected.long)?;
    let file = phimoe.path().join("model.gguf");
    let made = convert(&Checkpoint::open(phimoe.path())?, &file, &Options { ty: Some(F32) }, &mut |_| {})?;
    assert!(unread(&made).is_some_and(|why| why.contains("takes LayerNorm for RMSNorm")), "{:?}", made.remarks);
    let found = logits(&python, &file, &expected.long, None)?;
    let worst = differences(&found, &ours, expected.long.len(), expected.deviation()).into_iter().fold(0.0, f64::max);
    assert!(worst < BAR, "{worst}");
    Ok(())
}

macro_rules! tests {
    ($($name:ident: $form:ident,)*) => { $(tests! { @ $form $name })* };
    (@ gguf $name:ident) => { #[test] fn $name() -> Outcome { agrees(stringify!($name)) } };
    (@ gguf_alone $name:ident) => {};
    (@ hub_only $name:ident) => {};
}
onebit_reference::fixtures!(tests);
