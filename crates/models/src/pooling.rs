//! How a checkpoint wants embeddings made of its hidden states: by `modules.json` and the folders that it names
//! (sentence-transformers), or by `pooling_type` in GGUF.

use crate::{Error, Result, settings::short};
use onebit_formats::{Checkpoint, Module, Source};
use onebit_plan::{Dense, Function, Pool, Pooling};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, path::PathBuf};

/// `pooling_type` in GGUF, by number: llama.cpp's `llama_pooling_type`.
const GGUF_POOLS: [Pool; 4] = [Pool::None, Pool::Mean, Pool::Cls, Pool::Last];
/// Of models that score pairs of texts.
const GGUF_RANK: u64 = 4;

/// Switches of `1_Pooling/config.json`, and the names that newer files have in `pooling_mode`.
const MODES: [(&str, &str, Pool); 6] = [
    ("pooling_mode_cls_token", "cls", Pool::Cls),
    ("pooling_mode_mean_tokens", "mean", Pool::Mean),
    ("pooling_mode_lasttoken", "lasttoken", Pool::Last),
    ("pooling_mode_max_tokens", "max", Pool::Max),
    ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pool::MeanSqrtLen),
    ("pooling_mode_weightedmean_tokens", "weightedmean", Pool::WeightedMean),
];

/// Most modules in a list, and most numbers in a vector.
const MOST_MODULES: usize = 16;
const WIDEST: u64 = 1 << 16;

/// What the checkpoint says of embeddings; `None` where it says nothing.
///
/// # Errors
/// When it asks for something that is not known, or what it names is not there.
pub fn pooling(checkpoint: &Checkpoint) -> Result<Option<Pooling>> {
    match checkpoint.source {
        Source::Gguf => of_gguf(checkpoint),
        Source::HuggingFace => of_modules(checkpoint),
    }
}

/// What a model wants before texts of one kind or another, such as queries and documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompts {
    /// By name.
    pub texts: BTreeMap<String, String>,
    /// The name of the one that stands before all texts of which nothing else is said.
    pub usual: Option<String>,
}

/// The prompts in `config_sentence_transformers.json`; none where there is no such file.
///
/// # Errors
/// When it holds something else than texts, or the usual prompt is none of them.
pub fn prompts(checkpoint: &Checkpoint) -> Result<Prompts> {
    const FILE: &str = "config_sentence_transformers.json";
    let Some(text) = checkpoint.sidecar(FILE)? else { return Ok(Prompts::default()) };
    let wrong = |key: &str, what: String| fault(beside(checkpoint, FILE), key, what);
    let config: Map<String, Value> =
        serde_json::from_str(&text).map_err(|e| wrong("config_sentence_transformers", format!("should be an object: {e}")))?;
    let texts: BTreeMap<String, String> = match config.get("prompts") {
        None | Some(Value::Null) => BTreeMap::new(),
        Some(prompts) => BTreeMap::deserialize(prompts).map_err(|_| wrong("prompts", "should be texts by name".into()))?,
    };
    let usual = match config.get("default_prompt_name") {
        None | Some(Value::Null) => None,
        Some(name) => match name.as_str().filter(|name| texts.contains_key(*name)) {
            Some(name) => Some(name.to_string()),
            None => return Err(wrong("default_prompt_name", format!("is {}, which is none of the prompts", short(name)))),
        },
    };
    Ok(Prompts { texts, usual })
}

/// The number that GGUF has for a pooling.
pub(crate) fn gguf_number(pool: Pool) -> Option<u64> {
    GGUF_POOLS.iter().position(|known| *known == pool).map(|n| n as u64)
}

fn fault(path: PathBuf, key: &str, what: impl Into<String>) -> Error {
    Error::Setting { path, key: key.into(), what: what.into() }
}

fn of_gguf(checkpoint: &Checkpoint) -> Result<Option<Pooling>> {
    let Some(architecture) = checkpoint.metadata.text("general.architecture")? else { return Ok(None) };
    let key = format!("{architecture}.pooling_type");
    let Some(number) = checkpoint.metadata.unsigned(&key)? else { return Ok(None) };
    let wrong = |what: String| fault(checkpoint.path.clone(), &key, what);
    if number == GGUF_RANK {
        return Err(wrong("is 4 (rank): the model scores pairs of texts, and makes no embeddings".into()));
    }
    let pool = usize::try_from(number).ok().and_then(|n| GGUF_POOLS.get(n));
    let pool = pool.ok_or_else(|| wrong(format!("is {number}; known are 0 (none), 1 (mean), 2 (cls), 3 (last)")))?;
    Ok(Some(Pooling::from(*pool)))
}

fn of_modules(checkpoint: &Checkpoint) -> Result<Option<Pooling>> {
    const LIST: &str = "modules.json";
    let Some(text) = checkpoint.sidecar(LIST)? else { return Ok(None) };
    let wrong = |key: &str, what: String| fault(beside(checkpoint, LIST), key, what);
    let modules: Vec<Map<String, Value>> =
        serde_json::from_str(&text).map_err(|e| wrong("modules", format!("should be a list of objects: {e}")))?;
    if modules.len() > MOST_MODULES {
        return Err(wrong("modules", format!("has {} entries; {MOST_MODULES} are the most", modules.len())));
    }
    let mut pooling: Option<Pooling> = None;
    for module in &modules {
        let word = |key: &str| module.get(key).and_then(Value::as_str).unwrap_or_default();
        let (kind, folder) = (word("type"), word("path"));
        match (kind.rsplit('.').next().unwrap_or_default(), &mut pooling) {
            // The model itself, which was opened from its folder.
            ("Transformer", None) => {}
            ("Pooling", None) => pooling = Some(mode(&opened(checkpoint, folder)?)?.into()),
            ("Dense", Some(pooling)) => pooling.dense.push(dense(&opened(checkpoint, folder)?)?),
            // Whoever asks for embeddings says whether they are normalized.
            ("Normalize", Some(_)) => {}
            _ => {
                let kind = short(&Value::from(kind));
                return Err(wrong(
                    "type",
                    format!("has {kind} where it is not known: known are Transformer, Pooling, Dense and Normalize, in this order"),
                ));
            }
        }
    }
    Ok(pooling)
}

fn beside(checkpoint: &Checkpoint, name: &str) -> PathBuf {
    let folder = if checkpoint.path.is_dir() { Some(checkpoint.path.as_path()) } else { checkpoint.path.parent() };
    folder.map_or_else(|| name.into(), |folder| folder.join(name))
}

fn opened(checkpoint: &Checkpoint, folder: &str) -> Result<Module> {
    let missing = || fault(beside(checkpoint, "modules.json"), "path", format!("names `{folder}`, which is not there"));
    checkpoint.module(folder)?.ok_or_else(missing)
}

/// The one pooling that a module's configuration asks for.
fn mode(module: &Module) -> Result<Pool> {
    let wrong = |key: &str, what: String| fault(module.path.join("config.json"), key, what);
    let asked = |key: &str| module.config.get(key) == Some(&Value::Bool(true));
    let known = |key: &str| MODES.iter().any(|(switch, ..)| *switch == key);
    if let Some(other) = module.config.keys().find(|key| key.starts_with("pooling_mode_") && asked(key) && !known(key)) {
        return Err(wrong(other, "is true, and not known".into()));
    }
    let named = match module.config.get("pooling_mode") {
        None => None,
        Some(name) => match MODES.iter().find(|(_, mode, _)| name.as_str() == Some(mode)) {
            Some((_, _, pool)) => Some(*pool),
            None => return Err(wrong("pooling_mode", format!("is {}, which is not known", short(name)))),
        },
    };
    let switched: Vec<Pool> = MODES.iter().filter(|(key, ..)| asked(key)).map(|(_, _, pool)| *pool).collect();
    match (named, &switched[..]) {
        (Some(pool), []) => Ok(pool),
        (None, [pool]) => Ok(*pool),
        (Some(pool), [same]) if pool == *same => Ok(pool),
        (None, []) => Err(wrong("pooling_mode", "is missing: no way of pooling is asked for".into())),
        _ => Err(wrong("pooling_mode", "asks for several ways of pooling at once, which is not known".into())),
    }
}

fn dense(module: &Module) -> Result<Dense> {
    let wrong = |key: &str, what: String| fault(module.path.join("config.json"), key, what);
    let size = |key: &str| {
        let n = module.config.get(key).and_then(Value::as_u64).filter(|n| (1..=WIDEST).contains(n));
        n.map(|n| n as usize).ok_or_else(|| wrong(key, format!("should be a number from 1 to {WIDEST}")))
    };
    let (inputs, outputs) = (size("in_features")?, size("out_features")?);
    const FUNCTION: &str = "activation_function";
    let named = module.config.get(FUNCTION);
    let f = match named.map(|name| name.as_str().unwrap_or_default().rsplit('.').next().unwrap_or_default()) {
        Some("Identity") => None,
        // As sentence-transformers has it where nothing is said.
        None | Some("Tanh") => Some(Function::Tanh),
        Some("ReLU") => Some(Function::Relu),
        Some("GELU") => Some(Function::Gelu),
        Some("Sigmoid") => Some(Function::Sigmoid),
        Some("SiLU") => Some(Function::Silu),
        Some(_) => return Err(wrong(FUNCTION, format!("is {}, which is not known", named.map(short).unwrap_or_default()))),
    };
    for key in ["module_input_name", "module_output_name"] {
        if module.config.get(key).is_some_and(|name| name.as_str() != Some("sentence_embedding")) {
            return Err(wrong(key, "should be `sentence_embedding`: layers for each token are not known".into()));
        }
    }
    let tensor = |name: &str, shape: &[usize]| match module.tensors.get(name) {
        Some(t) if t.shape() == shape => Ok(Some(t.to_f32())),
        Some(t) => Err(fault(module.path.clone(), name, format!("has shape {:?}, but should have {shape:?}", t.shape()))),
        None => Ok(None),
    };
    let missing = || fault(module.path.clone(), "linear.weight", "is missing: there is no model.safetensors with it");
    let weight = tensor("linear.weight", &[outputs, inputs])?.ok_or_else(missing)?;
    let bias = tensor("linear.bias", &[outputs])?;
    match (module.config.get("bias").and_then(Value::as_bool), &bias) {
        (None | Some(true), None) => Err(fault(module.path.clone(), "linear.bias", "is missing")),
        _ => Ok(Dense { weight, bias, inputs, f, norm: None }),
    }
}
