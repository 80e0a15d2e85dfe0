//! Models quantized in each scheme of Hugging Face directories, against what transformers computes from the values that the scheme's
//! own package decodes (`tests/oracles/scheme_models.py`).

use onebit_cpu::Cpu;
use onebit_formats::{Checkpoint, safetensors::Writer};
use onebit_models::load;
use onebit_plan::{ActivationKind, Device, Limits};
use onebit_quants::WeightType;
use onebit_reference::{
    Reference,
    check::{self, Expected},
};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const FAMILIES: [&str; 3] = ["llama", "qwen3", "qwen3_moe"];

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/schemes")
}

fn json(path: &Path) -> Outcome<Map<String, Value>> {
    Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
}

struct Raw {
    ty: WeightType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// The tensors of a file.
fn raw(path: &Path) -> Outcome<BTreeMap<String, Raw>> {
    let raw = |t: &onebit_formats::Tensor| Raw { ty: t.ty(), shape: t.shape().to_vec(), bytes: t.bytes().into_owned() };
    Ok(Checkpoint::open(path)?.tensors.iter().map(|(name, t)| (name.clone(), raw(t))).collect())
}

/// A file's `__metadata__`.
fn texts(path: &Path) -> Outcome<BTreeMap<String, String>> {
    let bytes = fs::read(path)?;
    let len = u64::from_le_bytes(bytes[..8].try_into()?) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + len])?;
    Ok(serde_json::from_value(header.get("__metadata__").cloned().unwrap_or(Value::Object(Map::new())))?)
}

/// A model directory: what is not quantized, and matrices under the names of the modules that they are.
fn model(family: &str, scheme: &str, said: &Value) -> Outcome<TempDir> {
    let mut config = json(&data().join(family).join("config.json"))?;
    if let Some(said) = said.as_array() {
        config.insert(said[0].as_str().unwrap_or_default().into(), said[1].clone());
    }
    let file = data().join(format!("{scheme}.safetensors"));
    let (mut matrices, told) = (raw(&file)?, texts(&file)?);
    let mut tensors = raw(&data().join(family).join("model.safetensors"))?;
    let mut modules: Vec<(String, String)> = vec![("model.embed_tokens".into(), "e".into())];
    for (name, of) in json(&data().join(family).join("modules.json"))? {
        modules.push((name, of.as_str().unwrap_or_default().into()));
    }
    if scheme == "mxfp4" {
        // Experts only, under their own names; attention is plain.
        tensors.append(&mut matrices);
        matrices = raw(&data().join("plain.safetensors"))?;
        modules.retain(|(name, _)| name.contains("self_attn"));
    }
    let mut texts = BTreeMap::new();
    for (module, of) in &modules {
        for (name, t) in &matrices {
            let Some(part) = name.strip_prefix(of).filter(|part| part.starts_with('.')) else { continue };
            let raw = Raw { ty: t.ty, shape: t.shape.clone(), bytes: t.bytes.clone() };
            if of == "e" {
                tensors.remove("model.embed_tokens.weight");
            }
            tensors.insert(format!("{module}{part}"), raw);
        }
        if let Some(text) = told.get(&format!("{of}.weight")) {
            texts.insert(format!("{module}.weight"), text.clone());
        }
    }
    if scheme.starts_with("mlx") {
        tensors = stacked(tensors);
    }
    let out = tempfile::tempdir()?;
    fs::write(out.path().join("config.json"), serde_json::to_string(&config)?)?;
    let mut writer = Writer::new(out.path().join("model.safetensors"));
    texts.iter().for_each(|(name, text)| writer.text(name, text));
    let mut order: Vec<_> = tensors.iter().collect();
    order.sort_by_key(|(_, t)| std::cmp::Reverse(t.ty.block_bytes()));
    order.iter().try_for_each(|(name, t)| writer.tensor(name, t.ty, &t.shape))?;
    let mut data = writer.begin()?;
    order.iter().try_for_each(|(name, t)| data.write(name, &t.bytes))?;
    data.finish()?;
    Ok(out)
}

/// Experts as MLX stores them: all of a kind in one tensor.
fn stacked(tensors: BTreeMap<String, Raw>) -> BTreeMap<String, Raw> {
    let mut out: BTreeMap<String, Raw> = BTreeMap::new();
    for (name, t) in tensors {
        let Some((head, rest)) = name.split_once(".experts.") else {
            out.insert(name, t);
            continue;
        };
        let part = rest.split_once('.').map_or("", |(_, part)| part);
        let all = out.entry(format!("{head}.switch_mlp.{part}")).or_insert_with(|| Raw {
            ty: t.ty,
            shape: [&[0], &t.shape[..]].concat(),
            bytes: vec![],
        });
        all.shape[0] += 1;
        all.bytes.extend(t.bytes);
    }
    out
}

/// What transformers computes, with the first tokens as a prompt of their own.
fn expected(values: &Checkpoint, name: &str) -> Outcome<Expected> {
    let find = |name: &str| values.tensor(name).map(|t| t.to_f32()).ok_or_else(|| format!("no `{name}` in expected.safetensors"));
    let long: Vec<u32> = find("ids")?.iter().map(|id| *id as u32).collect();
    let long_logits = find(name)?;
    let (few, vocabulary) = (3, long_logits.len() / long.len());
    let (short, short_logits) = (long[..few].to_vec(), long_logits[..few * vocabulary].to_vec());
    Ok(Expected { short, short_logits, long, long_logits, greedy: vec![], margin: vec![], sources: None })
}

/// How far logits may be off: the packages of some schemes round values to 16 bits, and we do not.
fn bar(scheme: &str) -> f64 {
    let rounds = ["gptq", "awq", "auto-round", "bnb-int8"].iter().any(|s| scheme.starts_with(s));
    match scheme {
        "ct-nvfp4" => 0.03,
        _ if rounds => 5e-3,
        _ => check::BAR,
    }
}

#[test]
fn models_in_every_scheme() -> Outcome {
    let schemes = json(&data().join("schemes.json"))?;
    let values = Checkpoint::open(data().join("expected.safetensors"))?;
    let exact = Limits { pages: 24, ..check::limits() };
    let rounded = Limits { activations: ActivationKind::Int16, ..exact.clone() };
    let cpu = Cpu::new(Some(1));
    let (mut faults, mut ran) = (vec![], 0);
    for (scheme, said) in &schemes {
        for family in FAMILIES.iter().filter(|f| scheme != "mxfp4" || **f == "qwen3_moe") {
            let expected = expected(&values, &format!("{scheme}/{family}"))?;
            let folder = model(family, scheme, said)?;
            let mut check = |device: &dyn Device, limits: &Limits, bar: f64| -> Outcome {
                let report = check::fixture(device, load(&Checkpoint::open(folder.path())?)?, &expected, limits)?;
                ran += 1;
                eprintln!("{scheme}, {family}, {}: {:.1e}", device.name(), report.worst());
                Ok(report.hold(bar)?)
            };
            let runs =
                [(&Reference as &dyn Device, &exact, bar(scheme)), (&cpu, &exact, bar(scheme)), (&cpu, &rounded, bar(scheme) + 5e-3)];
            for (device, limits, bar) in runs {
                if let Err(e) = check(device, limits, bar) {
                    faults.push(format!("{scheme}, {family}, {}: {e}", device.name()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} of {ran}:\n{}", faults.len(), faults.join("\n"));
    assert!(ran > 400, "{ran} runs");
    Ok(())
}
