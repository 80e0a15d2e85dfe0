//! Models that write text as scorers of pairs: asked whether a document answers a query, they are as sure as `yes` is likelier than `no`
//! (Qwen3-Reranker, Zhang et al. 2025, arXiv:2506.05176, and the code of its model card; Qwen3-VL-Reranker). Their sequence-classifying
//! copies have the difference of the two words' rows as `score`, and llama.cpp's files have both rows as `cls.output`.

use super::Ranking;
use crate::{Error, Result};
use onebit_formats::{Checkpoint, Meta, Source, Tensor};
use onebit_plan::{Dense, Edit, Function, Part, Pool, Pooling, Weight};
use serde_json::Value;

/// What a family's pairs are written into, in the form in which llama.cpp's files hold it.
const PROMPTS: &[(&[&str], &str)] = &[
    (
        &["qwen3"],
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ),
    (
        &["qwen3_vl", "qwen3vl"],
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a search query, retrieve relevant candidates that answer the query.<Query>:{query}\n<Document>:{document}<|im_end|>\n<|im_start|>assistant\n",
    ),
];

const YES: &str = "yes";
const NO: &str = "no";

/// How a model of `family` scores pairs, where it is one of these; `None` too where its vocabulary lacks the words.
pub(super) fn ranking(checkpoint: &Checkpoint, family: &str) -> Result<Option<Ranking>> {
    let Some((_, prompt)) = PROMPTS.iter().find(|(families, _)| families.contains(&family)) else { return Ok(None) };
    let stated = checkpoint.metadata.text("tokenizer.chat_template.rerank")?;
    let prompt = stated.unwrap_or(prompt);
    if !prompt.split_once("{query}").is_some_and(|(_, rest)| rest.contains("{document}")) {
        let what = "has no places for {query} and {document}, in this order".into();
        return Err(Error::Setting { path: checkpoint.path.clone(), key: "tokenizer.chat_template.rerank".into(), what });
    }
    let Some((weight, inputs)) = difference(checkpoint)? else { return Ok(None) };
    let last = Dense { weight, bias: None, inputs, f: Some(Function::Sigmoid), norm: None };
    let pooling = Pooling { pool: Pool::Last, dense: vec![last] };
    Ok(Some(Ranking { pooling, second: None, prompt: Some(prompt.into()) }))
}

/// What the last state is multiplied with: the row of `yes` less that of `no`, and its length.
fn difference(checkpoint: &Checkpoint) -> Result<Option<(Vec<f32>, usize)>> {
    let find = |names: &[&str]| names.iter().find_map(|name| checkpoint.tensor(name));
    let less = |yes: Vec<f32>, no: Vec<f32>| yes.iter().zip(no).map(|(yes, no)| yes - no).collect::<Vec<f32>>();
    if let Some(head) = find(&["score.weight", "cls.output.weight"]) {
        return match head.rows() {
            1 => Ok(Some((head.to_f32(), head.columns()))),
            2 => {
                let yes = usize::from(second_is_yes(checkpoint)?);
                Ok(Some((less(row(checkpoint, head, yes)?, row(checkpoint, head, 1 - yes)?), head.columns())))
            }
            _ => Ok(None),
        };
    }
    let matrix = find(match checkpoint.source {
        Source::Gguf => &["output.weight", "token_embd.weight"],
        Source::HuggingFace => {
            &["lm_head.weight", "model.embed_tokens.weight", "model.language_model.embed_tokens.weight", "embed_tokens.weight"]
        }
    });
    let (Some(matrix), Some(yes), Some(no)) = (matrix, id(checkpoint, YES)?, id(checkpoint, NO)?) else { return Ok(None) };
    if yes.max(no) >= matrix.rows() {
        return Ok(None);
    }
    Ok(Some((less(row(checkpoint, matrix, yes)?, row(checkpoint, matrix, no)?), matrix.columns())))
}

/// Whether a head's rows are those of `no` and `yes`, as its labels tell; llama.cpp's converter has `yes` first.
fn second_is_yes(checkpoint: &Checkpoint) -> Result<bool> {
    let architecture = checkpoint.metadata.text("general.architecture")?.unwrap_or_default();
    let labels = checkpoint.metadata.texts(&format!("{architecture}.classifier.output_labels"))?;
    Ok(labels.is_some_and(|labels| labels.get(1) == Some(YES.as_bytes())))
}

fn row(checkpoint: &Checkpoint, matrix: &Tensor, row: usize) -> Result<Vec<f32>> {
    let part = Part { tensor: matrix.clone(), rows: row..row + 1 };
    let wrong =
        |error: onebit_plan::Error| Error::Setting { path: checkpoint.path.clone(), key: matrix.name().into(), what: error.to_string() };
    Ok(Weight::join(matrix.name(), vec![part], vec![1, matrix.columns()], Edit::None).map_err(wrong)?.to_f32())
}

/// The id of a word that is one token.
fn id(checkpoint: &Checkpoint, word: &str) -> Result<Option<usize>> {
    if checkpoint.source == Source::Gguf {
        let Some(Meta::Texts(tokens)) = checkpoint.metadata.get("tokenizer.ggml.tokens") else { return Ok(None) };
        return Ok(tokens.iter().position(|token| token == word.as_bytes()));
    }
    let Some(text) = checkpoint.sidecar("tokenizer.json")? else { return Ok(None) };
    let tokenizer: Value = serde_json::from_str(&text).unwrap_or_default();
    let id = tokenizer.pointer("/model/vocab").and_then(|vocabulary| vocabulary.get(word)).and_then(Value::as_u64);
    Ok(id.and_then(|id| usize::try_from(id).ok()))
}
