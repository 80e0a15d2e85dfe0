//! Encoders against the hidden states that transformers computed, from safetensors and from the GGUF file made of them, which llama.cpp
//! reads too.

mod common;

use common::{Outcome, Raw, changed, llama_cpp, python, unread};
use onebit_formats::Checkpoint;
use onebit_models::{Options, convert, load};
use onebit_plan::{Batch, Device, Span};
use onebit_quants::F32;
use onebit_reference::{
    Reference,
    check::{self, ExpectedStates},
    evidence::{self, Form},
};
use std::path::Path;
use tempfile::TempDir;

fn agrees(family: &str, path: &Path, folder: &Path) -> Outcome {
    let model = load(&Checkpoint::open(path)?)?;
    let report = check::encoder(&Reference, model, &ExpectedStates::open(folder)?, &check::limits())?;
    eprintln!("{}\n{report}", path.display());
    report.hold(check::BAR)?;
    assert!(report.cases.iter().all(|c| c.identical), "{report}");
    evidence::record(family, Form::of(path), evidence::author(folder), report.worst());
    Ok(())
}

fn fixture(name: &str) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    agrees(name, &folder, &folder)
}

/// The GGUF form of a folder.
fn converted(folder: &Path) -> Outcome<TempDir> {
    let temporary = tempfile::tempdir()?;
    convert(&Checkpoint::open(folder)?, &temporary.path().join("model.gguf"), &Options { ty: Some(F32) }, &mut |_| {})?;
    Ok(temporary)
}

fn gguf(name: &str) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    agrees(name, &converted(&folder)?.path().join("model.gguf"), &folder)
}

/// As [`gguf`], of a file that llama.cpp cannot run as it is meant.
fn gguf_alone(name: &str) -> Outcome {
    gguf(name)
}

fn hub_only(name: &str) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    let outcome = convert(&Checkpoint::open(&folder)?, &tempfile::tempdir()?.path().join("x.gguf"), &Options::default(), &mut |_| {});
    assert!(matches!(outcome, Err(onebit_models::Error::Convert { .. })), "{outcome:?}");
    Ok(())
}

/// Most that a number of llama.cpp's vectors may differ, as a share of the states' standard deviation: it looks GELU up in a table of
/// f16.
const BAR: f64 = 6e-3;

/// llama.cpp pools the states of the converted folder to the mean that transformers computed. Where `convert` says that it does not run
/// the file, it refuses a tensor for its shape.
fn witnessed(name: &str) -> Outcome {
    let (Some(python), Some(folder)) = (python(), check::folder(name)) else { return Ok(()) };
    let expected = ExpectedStates::open(&folder)?;
    pooled_alike(name, &python, &folder, &expected)
}

/// llama.cpp has no bias behind mixtures: without it, its mean is that of our states, of which the fixture tells that they are right.
#[test]
fn mixtures_without_their_bias() -> Outcome {
    const NAME: &str = "nomic_bert_moe";
    let (Some(python), Some(source)) = (python(), check::folder(NAME)) else { return Ok(()) };
    let folder = changed(&source, |_, tensors| {
        for (_, bias) in tensors.iter_mut().filter(|(name, _)| name.ends_with("experts.bias")) {
            *bias = bias.scaled(0.0);
        }
    })?;
    let mut expected = ExpectedStates::open(&source)?;
    let mut exe = Reference.load(load(&Checkpoint::open(folder.path())?)?, &check::limits(), &mut |_| {})?;
    let (pages, n) = ((0..8).collect::<Vec<u32>>(), expected.tokens.len());
    let states = exe.step(&Batch::text(&expected.tokens, &[Span { len: n, start: 0, pages: &pages, slot: 0, outputs: n }]))?;
    let width = states.len() / n;
    let mean = |i: usize| states.iter().skip(i).step_by(width).sum::<f32>() / n as f32;
    let (with, without) = (expected.embedding.clone(), (0..width).map(mean).collect::<Vec<_>>());
    assert!(check::difference(&with, &without) > 0.01, "the bias does nothing");
    expected.embedding = without;
    pooled_alike(NAME, &python, folder.path(), &expected)
}

fn pooled_alike(name: &str, python: &str, folder: &Path, expected: &ExpectedStates) -> Outcome {
    let ids = expected.tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let temporary = tempfile::tempdir()?;
    let file = temporary.path().join("model.gguf");
    let made = convert(&Checkpoint::open(folder)?, &file, &Options { ty: Some(F32) }, &mut |_| {})?;
    let text = llama_cpp(python, &file, &["--embed", &ids]);
    if let Some(why) = unread(&made) {
        let error = text.err().map_or_else(|| "it runs".into(), |error| error.to_string());
        assert!(error.contains("has wrong shape"), "{name}: {why}; llama.cpp says: {error}");
        return Ok(());
    }
    let text = text?;
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("1"), "the pooling is not the mean");
    let vector: Vec<f32> = lines.next().unwrap_or_default().split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let worst = check::difference(&vector, &expected.embedding) / expected.deviation();
    eprintln!("{name}: {worst:.1e}");
    assert!(worst < BAR, "{name} differs by {worst}");
    evidence::record(name, Form::Gguf, "llama.cpp", worst);
    Ok(())
}

macro_rules! tests {
    ($($name:ident: $form:ident,)*) => {
        mod safetensors { $(#[test] fn $name() -> super::Outcome { super::fixture(stringify!($name)) })* }
        mod converted { $(#[test] fn $name() -> super::Outcome { super::$form(stringify!($name)) })* }
        mod llama_cpp { $(tests! { @ $form $name })* }
    };
    (@ gguf $name:ident) => { #[test] fn $name() -> super::Outcome { super::witnessed(stringify!($name)) } };
    (@ $form:ident $name:ident) => {};
}
onebit_reference::encoders!(tests);

/// llama.cpp takes the heads of Nomic BERT together for as wide as its stream: with twice as many of them it refuses the matrix of queries,
/// keys and values, which `convert` foretells.
#[test]
fn nomic_bert_with_more_heads() -> Outcome {
    let (Some(python), Some(source)) = (python(), check::folder("nomic_bert")) else { return Ok(()) };
    let folder = changed(&source, |config, tensors| {
        let heads = ["num_attention_heads", "n_head"].into_iter().find(|key| config.contains_key(*key)).unwrap_or_default();
        let count = config[heads].as_u64().unwrap_or(0);
        let width = config.get("hidden_size").or(config.get("n_embd")).and_then(|n| n.as_u64()).unwrap_or(0);
        let head = config.get("head_dim").and_then(|n| n.as_u64()).unwrap_or(width / count);
        config.extend([(heads.to_string(), (2 * count).into()), ("head_dim".into(), head.into())]);
        config.extend(config.contains_key("num_key_value_heads").then(|| ("num_key_value_heads".into(), (2 * count).into())));
        for (name, t) in tensors.iter_mut() {
            let rows = t.shape[0];
            if ["q_proj.", "k_proj.", "v_proj."].iter().any(|part| name.contains(part)) {
                *t = t.doubled(rows);
            } else if name.contains("Wqkv.") {
                *t = t.doubled(rows / 3);
            } else if name.contains("o_proj.weight") || name.contains("attn.out_proj.weight") {
                let (columns, values) = (t.shape[1], t.values());
                *t = Raw::new(&[rows, 2 * columns], &values.chunks(columns).flat_map(|row| [row, row].concat()).collect::<Vec<_>>());
            }
        }
    })?;
    let file = folder.path().join("model.gguf");
    let made = convert(&Checkpoint::open(folder.path())?, &file, &Options { ty: Some(F32) }, &mut |_| {})?;
    assert!(unread(&made).is_some_and(|why| why.contains("not as wide as its stream")), "{:?}", made.remarks);
    let error = llama_cpp(&python, &file, &["--embed", "5,6,7"]).err().map_or_else(|| "it runs".into(), |error| error.to_string());
    assert!(error.contains("'blk.0.attn_qkv.weight' has wrong shape"), "{error}");
    Ok(())
}

/// What is wrong with a model whose settings were changed.
fn refusal(name: &str, key: &str, value: serde_json::Value) -> Outcome<String> {
    let Some(source) = check::folder(name) else { return Ok("SKIPPED".into()) };
    let folder = changed(&source, |config, _| {
        config.insert(key.into(), value);
    })?;
    Ok(load(&Checkpoint::open(folder.path())?).err().map_or_else(|| "nothing".into(), |error| error.to_string()))
}

/// Settings that would change what comes out, and are not known.
#[test]
fn what_is_refused() -> Outcome {
    for (name, key, value, part) in [
        ("deberta_v3", "is_decoder", true.into(), "only encoders are known"),
        ("deberta_v3", "conv_kernel_size", 3.into(), "`conv_kernel_size` is not 0"),
        ("deberta_v3", "pos_att_type", "p2p".into(), "`pos_att_type` has `p2p`"),
        ("deberta_v3", "norm_rel_ebd", "batch_norm".into(), "`norm_rel_ebd` has `batch_norm`"),
        ("deberta_v3", "relative_attention", false.into(), "`relative_attention` is not true"),
        ("deberta_v3", "position_buckets", (1 << 20).into(), "at most 65536"),
        ("deberta_own", "type_vocab_size", (1 << 30).into(), "type_vocab_size"),
        ("modernbert_local", "layer_types", serde_json::json!(["full_attention", "full_attention"]), "2 entries for 3 layers"),
    ] {
        let found = refusal(name, key, value)?;
        assert!(found == "SKIPPED" || found.contains(part), "{name}, {key}: {found}");
    }
    Ok(())
}

/// Checkpoints that were made in TensorFlow have other names for the parameters of norms, and all behind the name of the family.
#[test]
fn names_of_old_checkpoints() -> Outcome {
    let Some(source) = check::folder("deberta_v3") else { return Ok(()) };
    let folder = changed(&source, |_, tensors| {
        let old = |name: &String| {
            format!("deberta.{}", name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"))
        };
        *tensors = tensors.iter().map(|(name, tensor)| (old(name), tensor.clone())).collect();
    })?;
    agrees("deberta_v3", folder.path(), folder.path())
}
