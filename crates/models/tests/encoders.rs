//! Encoders against the hidden states that transformers computed, from safetensors and from the GGUF file made of them, which llama.cpp
//! reads too.

mod common;

use common::{Outcome, changed, llama_cpp, python};
use onebit_formats::Checkpoint;
use onebit_models::{Options, convert, load};
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

fn hub_only(name: &str) -> Outcome {
    let Some(folder) = check::folder(name) else { return Ok(()) };
    let outcome = convert(&Checkpoint::open(&folder)?, &tempfile::tempdir()?.path().join("x.gguf"), &Options::default(), &mut |_| {});
    assert!(matches!(outcome, Err(onebit_models::Error::Convert { .. })), "{outcome:?}");
    Ok(())
}

/// Most that a number of llama.cpp's vectors may differ, as a share of the states' standard deviation: it looks GELU up in a table of
/// f16.
const BAR: f64 = 6e-3;

/// llama.cpp pools the states of the converted folder to the mean that transformers computed.
fn witnessed(name: &str) -> Outcome {
    let (Some(python), Some(folder)) = (python(), check::folder(name)) else { return Ok(()) };
    let expected = ExpectedStates::open(&folder)?;
    let ids = expected.tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let text = llama_cpp(&python, &converted(&folder)?.path().join("model.gguf"), &["--embed", &ids])?;
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
    (@ hub_only $name:ident) => {};
}
onebit_reference::encoders!(tests);

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
