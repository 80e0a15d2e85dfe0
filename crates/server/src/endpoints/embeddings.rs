//! `POST /v1/embeddings` in OpenAI's shape, and `/embedding` in llama-server's: vectors that stand for texts.

use super::{prepare, prompt};
use crate::answer;
use crate::error::ApiError;
use crate::generation::{Generation, no_embeddings};
use crate::json::Fields;
use crate::params::{self, HARMLESS};
use crate::state::{App, Model};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use onebit_engine::{Form, Norm, Pool, Text};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;

/// The highest degree of a norm.
const DEGREE: i64 = 64;

pub(super) async fn openai(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let (model, asked) = prepare(&app, body, parse).await?;
    if model.engine.config().pooling.as_ref().is_some_and(|pooling| pooling.pool == Pool::None) {
        let message = "The model gives a vector for each token (pooling `none`), which has no place in OpenAI's answer; use /embedding";
        return Err(ApiError::bad_request(message));
    }
    let in_base64 = asked.base64;
    let embedded = embed(&model, asked).await?;
    let numbers = |vector: Vec<f32>| if in_base64 { Numbers::Base64(base64(&vector)) } else { Numbers::Plain(vector) };
    let vectors = embedded.vectors.into_iter().map(|mut of_text| of_text.pop().unwrap_or_default());
    let data: Vec<Datum> = vectors.enumerate().map(|(index, v)| Datum { object: "embedding", index, embedding: numbers(v) }).collect();
    let usage = json!({ "prompt_tokens": embedded.tokens, "total_tokens": embedded.tokens });
    Ok(answer::json(&List { object: "list", model: &model.name, data, usage }))
}

pub(super) async fn llama(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let (model, asked) = prepare(&app, body, parse).await?;
    if asked.base64 {
        return Err(ApiError::unsupported("encoding_format", "`base64` is for /v1/embeddings; here numbers are plain"));
    }
    let embedded = embed(&model, asked).await?;
    let texts: Vec<OfText> = embedded.vectors.into_iter().enumerate().map(|(index, embedding)| OfText { index, embedding }).collect();
    Ok(answer::json(&texts))
}

/// What is to be embedded, and how.
struct Asked {
    texts: Vec<Text>,
    base64: bool,
    form: Form,
}

fn parse(app: &App, model: &Model, mut fields: Fields) -> Result<Asked, ApiError> {
    params::model(&mut fields, app)?;
    let width = model.engine.embedding_width().filter(|_| model.ranks.is_none()).ok_or_else(no_embeddings)?;
    let (name, input) = match (fields.value("input"), fields.value("content")) {
        (Some(_), Some(_)) => return Err(ApiError::invalid("content", "`input` and `content` must not both be given")),
        (Some(input), None) => ("input", input),
        (None, Some(content)) => ("content", content),
        (None, None) => return Err(ApiError::invalid("input", "`input` is missing")),
    };
    let base64 = match fields.string("encoding_format")?.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => return Err(ApiError::invalid("encoding_format", "`encoding_format` must be `float` or `base64`")),
    };
    let dimensions = fields.integer("dimensions", 1..=width as i64)?.map(|n| n as usize);
    let norm = fields.integer("embd_normalize", -1..=DEGREE)?.and_then(Norm::numbered).unwrap_or(Norm::P(2));
    fields.pass_over(HARMLESS);
    fields.finish()?;
    let texts = prompt::several(name, input, model.engine.tokenizer(), app.options.limits.inputs)?;
    Ok(Asked { texts: texts.into_iter().map(|text| text.ids.into()).collect(), base64, form: Form { dimensions, norm } })
}

/// What came of it.
struct Embedded {
    /// Of each text: one, or one for each token.
    vectors: Vec<Vec<Vec<f32>>>,
    tokens: usize,
}

async fn embed(model: &Model, asked: Asked) -> Result<Embedded, ApiError> {
    let mut embedded = Embedded { vectors: Vec::with_capacity(asked.texts.len()), tokens: 0 };
    for mut text in Generation::embed_all(&model.engine, asked.texts, "input").await? {
        embedded.tokens += text.finish.usage.prompt;
        if let Some(pooling) = &model.engine.config().pooling {
            pooling.form(&mut text.vectors, asked.form);
        }
        embedded.vectors.push(text.vectors);
    }
    Ok(embedded)
}

/// OpenAI's answer.
#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    model: &'a str,
    data: Vec<Datum>,
    usage: serde_json::Value,
}

#[derive(Serialize)]
struct Datum {
    object: &'static str,
    index: usize,
    embedding: Numbers,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Numbers {
    Plain(Vec<f32>),
    Base64(String),
}

/// An entry of llama-server's.
#[derive(Serialize)]
struct OfText {
    index: usize,
    embedding: Vec<Vec<f32>>,
}

/// Of the numbers as little-endian f32.
fn base64(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}
