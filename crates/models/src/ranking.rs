//! Heads of classification that score pairs of texts, such as a query and a document: what BERT's kin have on top of the first token's
//! state, and Rank in llama.cpp; and models that are asked for a word.

mod verdict;

use crate::{
    Error, Result,
    settings::{FUNCTIONS, function, short},
};
use onebit_formats::{Checkpoint, Source, Tensor};
use onebit_plan::{Dense, Function, LayerNorm, Pool, Pooling};
use serde_json::Value;
use std::sync::Arc;

/// How a model scores a pair of texts.
#[derive(Clone, Debug)]
pub struct Ranking {
    /// From the hidden states of both to one number.
    pub pooling: Pooling,
    /// What the second text's tokens are given besides, where the model tells two kinds of tokens apart.
    pub second: Option<Arc<[f32]>>,
    /// What both texts are written into, at `{query}` and `{document}`, where the model reads them as a prompt.
    pub prompt: Option<String>,
}

/// The head of a family.
struct Head {
    families: &'static [&'static str],
    /// Its first layer by its name, `*` being the family's prefix, and the function behind that.
    first: (&'static str, Function),
    /// The key in `config.json` that names another function.
    function: Option<&'static str>,
    /// A LayerNorm behind the first layer.
    norm: Option<&'static str>,
    /// The last layer.
    last: &'static str,
}

const HEADS: &[Head] = &[
    Head { families: &["bert"], ..Head::of("*pooler.dense", Function::Tanh, "classifier") },
    Head { families: &["roberta", "xlm-roberta", "mpnet"], ..Head::of("classifier.dense", Function::Tanh, "classifier.out_proj") },
    Head { families: &["electra"], ..Head::of("classifier.dense", Function::Gelu, "classifier.out_proj") },
    Head { families: &["distilbert"], ..Head::of("pre_classifier", Function::Relu, "classifier") },
    Head { families: &["deberta-v2"], function: Some("pooler_hidden_act"), ..Head::of("*pooler.dense", Function::Gelu, "classifier") },
    Head {
        families: &["modernbert"],
        function: Some("classifier_activation"),
        norm: Some("head.norm"),
        ..Head::of("head.dense", Function::Gelu, "classifier")
    },
];

/// In GGUF, by architecture.
const GGUF_HEADS: &[Head] = &[
    Head { families: &["bert"], ..Head::of("cls", Function::Tanh, "cls.output") },
    Head { families: &["modern-bert"], norm: Some("cls.norm"), ..Head::of("cls", Function::Gelu, "cls.output") },
];

impl Head {
    const fn of(first: &'static str, f: Function, last: &'static str) -> Self {
        Self { families: &[], first: (first, f), function: None, norm: None, last }
    }
}

/// How the model scores pairs; `None` where it has no head for that, or one for something else than one score.
///
/// # Errors
/// When a tensor of the head has the wrong shape, or a setting of it is not known.
pub fn ranking(checkpoint: &Checkpoint) -> Result<Option<Ranking>> {
    let text = |key: &str| checkpoint.config.get(key).and_then(Value::as_str);
    let gguf = checkpoint.source == Source::Gguf;
    let (heads, family) = match gguf {
        true => (GGUF_HEADS, checkpoint.metadata.text("general.architecture")?.unwrap_or_default()),
        false => (HEADS, text("model_type").unwrap_or_default()),
    };
    let Some(head) = heads.iter().find(|head| head.families.contains(&family)) else {
        return verdict::ranking(checkpoint, family);
    };
    let tensors = Tensors(checkpoint);
    let Some(last) = tensors.layer(head.last)?.filter(|last| last.outputs() == 1) else { return Ok(None) };
    let first = match tensors.layer(head.first.0)? {
        Some(first) => Some(Dense { f: Some(stated_function(checkpoint, head)?), norm: tensors.norm(head)?, ..first }),
        // GGUF files may have the last layer alone.
        None if gguf => None,
        None => return Ok(None),
    };
    let pool = match text("classifier_pooling").filter(|_| family == "modernbert") {
        None | Some("cls") => Pool::Cls,
        Some("mean") => Pool::Mean,
        Some(_) => return Err(fault(checkpoint, "classifier_pooling", "is neither `cls` nor `mean`".into())),
    };
    let kinds = tensors.find(if gguf { "token_types.weight" } else { "*embeddings.token_type_embeddings.weight" });
    let second = kinds.filter(|table| table.rows() > 1).map(|table| {
        let (numbers, width) = (table.to_f32(), table.columns());
        numbers[width..2 * width].iter().zip(&numbers[..width]).map(|(second, first)| second - first).collect()
    });
    let pooling = Pooling { pool, dense: first.into_iter().chain([last]).collect() };
    Ok(Some(Ranking { pooling, second, prompt: None }))
}

fn fault(checkpoint: &Checkpoint, key: &str, what: String) -> Error {
    Error::Setting { path: checkpoint.path.clone(), key: key.into(), what }
}

fn stated_function(checkpoint: &Checkpoint, head: &Head) -> Result<Function> {
    let Some((key, named)) = head.function.and_then(|key| Some((key, checkpoint.config.get(key)?))) else { return Ok(head.first.1) };
    let known = named.as_str().and_then(function);
    known.ok_or_else(|| fault(checkpoint, key, format!("is {}, which is not known; known are {FUNCTIONS}", short(named))))
}

/// The tensors of a head.
struct Tensors<'a>(&'a Checkpoint);

impl<'a> Tensors<'a> {
    /// By its name, which `*` begins where the family's name may stand before it.
    fn find(&self, name: &str) -> Option<&'a Tensor> {
        let named = |known: &str| match name.strip_prefix('*') {
            Some(end) => {
                known.strip_suffix(end).is_some_and(|family| family.is_empty() || family.ends_with('.') && family.matches('.').count() == 1)
            }
            None => known == name,
        };
        self.0.tensors.iter().find(|(known, _)| named(known)).map(|(_, tensor)| tensor)
    }

    /// A layer without its function.
    fn layer(&self, name: &str) -> Result<Option<Dense>> {
        let Some(weight) = self.find(&format!("{name}.weight")) else { return Ok(None) };
        let &[outputs, inputs] = weight.shape() else {
            return Err(fault(self.0, weight.name(), format!("has shape {:?}, but should be a matrix", weight.shape())));
        };
        let bias = self.vector(&format!("{name}.bias"), outputs)?;
        Ok(Some(Dense { weight: weight.to_f32(), bias, inputs, f: None, norm: None }))
    }

    fn norm(&self, head: &Head) -> Result<Option<LayerNorm>> {
        let Some(name) = head.norm else { return Ok(None) };
        let width = self.find(&format!("{}.weight", head.first.0)).map_or(0, Tensor::rows);
        let Some(weight) = self.vector(&format!("{name}.weight"), width)? else { return Ok(None) };
        let stated = match self.0.source {
            Source::Gguf => self.0.metadata.float("modern-bert.attention.layer_norm_epsilon")?,
            Source::HuggingFace => self.0.config.get("norm_eps").and_then(Value::as_f64),
        };
        let eps = stated.unwrap_or(1e-5) as f32;
        Ok(Some(LayerNorm { weight, bias: self.vector(&format!("{name}.bias"), width)?, eps }))
    }

    fn vector(&self, name: &str, len: usize) -> Result<Option<Vec<f32>>> {
        match self.find(name) {
            Some(tensor) if tensor.shape() == [len] => Ok(Some(tensor.to_f32())),
            Some(tensor) => Err(fault(self.0, name, format!("has shape {:?}, but should have [{len}]", tensor.shape()))),
            None => Ok(None),
        }
    }
}
