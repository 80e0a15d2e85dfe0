//! Hugging Face's `tokenizer.json`, as the `tokenizers` library (0.23) reads it.

mod decoders;
mod models;
mod normalizers;
mod pre_tokenizers;
mod processors;
mod vocab;

use super::{
    Parts, Tokenizer,
    added::AddedToken,
    config::Config,
    normalize::{self, normalize},
    split::{Pattern, Step},
    vocabulary::Vocabulary,
};
use crate::{Error, Result};
use models::ModelSpec;
use normalizers::NormalizerSpec;
use pre_tokenizers::StepSpec;
use processors::{Around, ProcessorSpec};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// `ends`: ids of tokens that end a generation, from other files.
pub(super) fn read(origin: &str, text: &str, config: Option<&str>, ends: &[u32]) -> Result<Tokenizer> {
    let file: File<'_> = serde_json::from_str(text).map_err(|e| Error::invalid(origin, e.to_string()))?;
    let config = Config::read(origin, config)?;
    let added = config.added_tokens(origin, file.added_tokens)?;
    let mut vocabulary = Vocabulary::new(origin, &file.model.vocab.tokens, &added)?;

    let mut normalizers = Vec::new();
    let mut steps = Vec::new();
    for spec in file.normalizer.iter() {
        spec.read(origin, &mut normalizers)?;
    }
    normalize::check_growth(origin, &normalizers)?;
    for spec in file.pre_tokenizer.iter() {
        spec.read(origin, &mut steps)?;
    }
    let byte_level = file.model.takes_bytes() && steps.pop_if(|step| matches!(step, Step::ByteLevel)).is_some();
    let model = file.model.read(origin, &mut vocabulary, byte_level)?;
    let mut around = Around::default();
    for spec in file.post_processor.iter() {
        spec.read(origin, &vocabulary, &mut around)?;
    }
    let Around { before, after, pair } = around;
    let normalized: HashMap<u32, String> =
        added.iter().filter(|t| t.normalized).map(|t| (t.id, normalize(&normalizers, &t.content).into_owned())).collect();
    let written = vocabulary.texts.iter().enumerate().map(|(id, text)| normalized.get(&(id as u32)).map_or(text, String::as_bytes));
    let output = decoders::output(origin, file.decoder.as_ref(), written)?;

    let bos = config.bos(origin, &vocabulary)?;
    let ends = ends.iter().copied().chain(config.eos(&vocabulary)).collect();
    let Vocabulary { texts, index, flags, .. } = vocabulary;
    Tokenizer::assemble(origin, Parts { texts, index, flags, added, normalizers, steps, model, output, before, after, pair, bos, ends })
}

#[derive(Deserialize)]
struct File<'a> {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<NormalizerSpec>,
    pre_tokenizer: Option<StepSpec>,
    post_processor: Option<ProcessorSpec>,
    decoder: Option<decoders::Spec>,
    #[serde(borrow)]
    model: ModelSpec<'a>,
    /// Not heeded, as in transformers, where each call says whether texts are cut and filled up.
    #[serde(rename = "truncation")]
    _truncation: Option<Truncation>,
    #[serde(rename = "padding")]
    _padding: Option<Padding>,
}

/// How the library would cut long texts.
#[derive(Deserialize)]
struct Truncation {
    #[serde(rename = "max_length")]
    _max_length: usize,
}

/// How the library would make texts of a batch equally long.
#[derive(Deserialize)]
struct Padding {
    #[serde(rename = "pad_id")]
    _pad_id: u32,
}

/// What a file asks for and this reader does not know, by its name.
fn unknown(origin: &str, part: &str, spec: &Value) -> Error {
    match spec.get("type").and_then(Value::as_str) {
        Some(name) => Error::unsupported(origin, format!("the {part} `{name}` with {spec}")),
        None => Error::invalid(origin, format!("the {part} has no type: {spec}")),
    }
}

/// What is looked for.
#[derive(Clone, Deserialize)]
pub(super) enum PatternSpec {
    /// This text.
    String(String),
    /// This regular expression.
    Regex(String),
}

impl PatternSpec {
    pub(super) fn read(&self, origin: &str) -> Result<Pattern> {
        match self {
            Self::String(text) if text.is_empty() => Err(Error::invalid(origin, "a pattern is empty")),
            Self::String(text) => Ok(Pattern::Literal(text.clone())),
            Self::Regex(regex) => Pattern::regex(origin, regex),
        }
    }
}

fn yes() -> bool {
    true
}
