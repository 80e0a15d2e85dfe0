//! Quantization schemes of Hugging Face directories: tensors of codes and scales are brought together into the one tensor that the
//! model knows, handed out row by row.
//!
//! A scheme is one file. It takes the tensors of each quantized module out of the checkpoint (`reader`), checks their types and
//! shapes against the settings (`fields`), and puts back one tensor in one of few forms (`matrix`). So nothing else knows of schemes:
//! architectures find `model.layers.0.mlp.up_proj.weight`, devices pack its rows. A method or a value of a field that is not known is
//! refused by name.
//!
//! Roundings of activations, which some schemes describe too (FP8, NVFP4, W8A8), are not carried out: products are more exact without.
//! `bitnet` is the exception, whose models were trained with it; see the architecture.

mod auto_round;
mod awq;
mod bitnet;
mod bits;
mod bitsandbytes;
mod compressed_tensors;
mod fields;
mod fp4;
mod fp8;
mod gptq;
mod hqq;
pub(crate) mod matrix;
mod mlx;
mod modelopt;
mod mxfp4;
mod reader;
pub(crate) mod scalars;
mod torchao;

use crate::{Result, Tensor};
use fields::Fields;
use reader::Reader;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, path::Path};

/// Tensors by name.
type Tensors = BTreeMap<String, Tensor>;

/// A scheme's reader.
type Read = fn(&Fields<'_>, &mut Reader<'_>) -> Result<()>;

/// Schemes by `quant_method`.
static METHODS: &[(&str, Read)] = &[
    ("auto-round", auto_round::read),
    ("awq", awq::read),
    ("bitnet", bitnet::read),
    ("bitsandbytes", bitsandbytes::read),
    ("compressed-tensors", compressed_tensors::read),
    ("fbgemm_fp8", fp8::read),
    ("fp8", fp8::read),
    ("gptq", gptq::read),
    ("hqq", hqq::read),
    ("intel/auto-round", auto_round::read),
    ("metal", mlx::read_metal),
    ("modelopt", modelopt::read),
    ("mxfp4", mxfp4::read),
    ("torchao", torchao::read),
];

/// Brings the tensors of a directory with this `config.json` into the form that the model knows. `texts` are the `__metadata__` of
/// its files.
pub(crate) fn resolve(folder: &Path, config: &Map<String, Value>, texts: &BTreeMap<String, String>, tensors: Tensors) -> Result<Tensors> {
    let path = if folder.is_dir() { folder.join("config.json") } else { folder.with_file_name("config.json") };
    let Some((key, settings)) = settings(config) else { return Ok(tensors) };
    let fields = Fields::new(&path, key, settings)?;
    let mut reader = Reader::new(tensors, texts);
    method(&fields, key)?(&fields, &mut reader)?;
    Ok(reader.into_tensors())
}

/// Settings of MLX, which names no method and repeats them under `quantization_config`.
const MLX: &str = "quantization";

/// Where `config.json` tells of the scheme.
fn settings(config: &Map<String, Value>) -> Option<(&'static str, &Value)> {
    const KEYS: [&str; 3] = [MLX, "quantization_config", "compression_config"];
    let text = config.get("text_config").and_then(Value::as_object);
    let mut places = [Some(config), text].into_iter().flatten().flat_map(|c| KEYS.map(|key| (key, c.get(key))));
    places.find_map(|(key, value)| Some((key, value.filter(|v| !v.is_null())?)))
}

fn method(fields: &Fields<'_>, key: &str) -> Result<Read> {
    let Some(name) = fields.text("quant_method")? else {
        return if key == MLX {
            Ok(mlx::read)
        } else {
            Err(fields.wrong("quant_method", "is missing: it names the scheme by which the weights are quantized"))
        };
    };
    match METHODS.iter().find(|(method, _)| *method == name) {
        Some((_, read)) => Ok(*read),
        None => {
            let known: Vec<&str> = METHODS.iter().map(|(method, _)| *method).collect();
            let text = format!("is `{}`, a scheme that is not known; known are {}", fields::short(name), known.join(", "));
            Err(fields.wrong("quant_method", &text))
        }
    }
}
