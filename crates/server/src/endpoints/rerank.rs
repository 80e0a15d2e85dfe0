//! `POST /v1/rerank`, in the shape of Jina's API and llama-server's: documents by how well they answer a query.

use super::prepare;
use crate::answer;
use crate::error::ApiError;
use crate::generation::Generation;
use crate::json::{Fields, too_many, wrong_type};
use crate::params::{self, HARMLESS};
use crate::state::{App, Model};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use onebit_engine::Text;
use onebit_text::Encode;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn handle(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let (model, Asked { pairs, mut documents, top, return_documents }) = prepare(&app, body, parse).await?;
    let (mut scores, mut tokens) = (Vec::with_capacity(documents.len()), 0);
    for pair in Generation::embed_all(&model.engine, pairs, "documents").await? {
        tokens += pair.finish.usage.prompt;
        let score = pair.vectors.first().and_then(|vector| vector.first()).copied();
        scores.push((scores.len(), score.ok_or_else(|| ApiError::internal("a pair of texts without a score"))?));
    }
    // Of equals the first comes first.
    scores.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    scores.truncate(top);
    let result = |(index, score): (usize, f32)| {
        let mut result = json!({ "index": index, "relevance_score": score });
        if return_documents {
            result["document"] = json!({ "text": std::mem::take(&mut documents[index]) });
        }
        result
    };
    let results: Vec<Value> = scores.into_iter().map(result).collect();
    let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
    Ok(answer::json(&json!({ "model": model.name, "object": "list", "usage": usage, "results": results })))
}

struct Asked {
    pairs: Vec<Text>,
    documents: Vec<String>,
    /// How many of the best are told.
    top: usize,
    return_documents: bool,
}

fn parse(app: &App, model: &Model, mut fields: Fields) -> Result<Asked, ApiError> {
    params::model(&mut fields, app)?;
    let ranks = model.ranks.as_ref().ok_or_else(no_ranking)?;
    let query = fields.string("query")?.ok_or_else(|| ApiError::invalid("query", "`query` is missing"))?;
    // `texts` is the name of Hugging Face's text-embeddings-inference, which llama-server takes too.
    let (name, listed) = match (fields.value("documents"), fields.value("texts")) {
        (Some(_), Some(_)) => return Err(ApiError::invalid("texts", "`documents` and `texts` must not both be given")),
        (Some(documents), None) => ("documents", documents),
        (None, Some(texts)) => ("texts", texts),
        (None, None) => return Err(ApiError::invalid("documents", "`documents` is missing")),
    };
    let documents = read(name, listed, app.options.limits.inputs)?;
    let top = fields.integer("top_n", 1..=1 << 53)?.map_or(documents.len(), |n| n as usize);
    let return_documents = fields.boolean("return_documents")?.unwrap_or(false);
    fields.pass_over(HARMLESS);
    fields.finish()?;
    let tokenizer = model.engine.tokenizer();
    let pair = |document: &String| match &ranks.prompt {
        Some(prompt) => Some(Text::pair(
            prompted(prompt, &query, document, |text, special| {
                tokenizer.encode(text, Encode { add_special: false, parse_special: special })
            })?,
            0,
            None,
        )),
        None => {
            let (ids, start) = tokenizer.encode_pair(&query, document)?;
            Some(Text::pair(ids, start, ranks.second.as_deref()))
        }
    };
    let pairs: Option<Vec<Text>> = documents.iter().map(pair).collect();
    let pairs = pairs.ok_or_else(|| ApiError::unable("The model's vocabulary does not say how two texts are put together"))?;
    Ok(Asked { pairs, documents, top, return_documents })
}

/// The ids of a prompt with both texts in their places. Special tokens are read in the prompt only: in all lines before that of the query,
/// and behind the document.
fn prompted(prompt: &str, query: &str, document: &str, encode: impl Fn(&str, bool) -> Vec<u32>) -> Option<Vec<u32>> {
    let (head, rest) = prompt.split_once("{query}")?;
    let (between, end) = rest.split_once("{document}")?;
    let (before, line) = head.split_at(head.rfind('\n').map_or(0, |at| at + 1));
    let pair = [line, query, between, document].concat();
    Some([encode(before, true), encode(&pair, false), encode(end, true)].concat())
}

/// Documents are strings, or objects with a `text`.
fn read(name: &str, listed: Value, limit: usize) -> Result<Vec<String>, ApiError> {
    let Value::Array(list) = listed else { return Err(wrong_type(name, "an array", &listed)) };
    if list.is_empty() {
        return Err(ApiError::invalid(name, format!("`{name}` is empty")));
    }
    if list.len() > limit {
        return Err(too_many(name, list.len(), limit));
    }
    let read = |(i, document): (usize, Value)| match document {
        Value::String(text) => Ok(text),
        Value::Object(mut object) => match object.remove("text") {
            Some(Value::String(text)) => Ok(text),
            _ => Err(ApiError::invalid(format!("{name}[{i}]"), format!("`{name}[{i}]` has no `text`"))),
        },
        other => Err(wrong_type(&format!("{name}[{i}]"), "a string, or an object with a `text`", &other)),
    };
    list.into_iter().enumerate().map(read).collect()
}

fn no_ranking() -> ApiError {
    ApiError::unable("The model was not loaded to score documents: start the server with `--reranking` and a model that is made for it")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published of Qwen3-Reranker: prefix and suffix are encoded with their special tokens, the texts between them by themselves.
    #[test]
    fn a_prompt_around_two_texts() {
        let prompt = "<s>user\nJudge.\n<Query>: {query}\n<Document>: {document}<e>\n";
        let mut parts = std::cell::RefCell::new(vec![]);
        let encode = |text: &str, special| {
            parts.borrow_mut().push((text.to_string(), special));
            vec![text.len() as u32]
        };
        assert_eq!(prompted(prompt, "why {document}?", "so<e>", encode), Some(vec![15, 42, 4]));
        let wanted = [("<s>user\nJudge.\n", true), ("<Query>: why {document}?\n<Document>: so<e>", false), ("<e>\n", true)];
        assert_eq!(parts.get_mut().iter().map(|(text, special)| (text.as_str(), *special)).collect::<Vec<_>>(), wanted);
        assert_eq!(prompted("{document} {query}", "", "", |_, _| vec![]), None);
    }
}
