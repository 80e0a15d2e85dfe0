//! The routes, and a file for each endpoint.
//!
//! To add one: write a file with a `handle` that takes the shared [`App`] and the request, and name it in [`router`].

mod apply_template;
mod chat_completions;
mod completion;
mod completions;
mod detokenize;
mod embeddings;
mod health;
mod infill;
mod metrics;
mod models;
pub(crate) mod prompt;
mod props;
mod rerank;
mod responses;
mod slot_files;
mod slots;
mod tokenize;

use crate::error::ApiError;
use crate::json::Fields;
use crate::state::{App, Model};
use crate::{body, gate, json};
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::any::Any;
use std::sync::Arc;
use tower_http::catch_panic::CatchPanicLayer;

/// Everything that the server answers.
pub(crate) fn router(app: Arc<App>) -> Router {
    let health_and_models = Router::new()
        .route("/health", get(health::handle))
        .route("/v1/health", get(health::handle))
        .route("/models", get(models::list))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one));
    let watching = Router::new()
        .route("/metrics", get(metrics::handle))
        .route("/slots", get(slots::list))
        .route("/slots/{id}", post(slot_files::handle))
        .route("/props", get(props::handle));
    let openai = Router::new()
        .route("/chat/completions", post(chat_completions::handle))
        .route("/v1/chat/completions", post(chat_completions::handle))
        .route("/responses", post(responses::handle))
        .route("/v1/responses", post(responses::handle))
        .route("/v1/completions", post(completions::handle))
        .route("/v1/embeddings", post(embeddings::openai));
    let jina = Router::new()
        .route("/rerank", post(rerank::handle))
        .route("/reranking", post(rerank::handle))
        .route("/v1/rerank", post(rerank::handle))
        .route("/v1/reranking", post(rerank::handle));
    let llama_server_compatible = Router::new()
        .route("/completion", post(completion::handle))
        .route("/completions", post(completion::handle))
        .route("/infill", post(infill::handle))
        .route("/embedding", post(embeddings::llama))
        .route("/embeddings", post(embeddings::llama))
        .route("/tokenize", post(tokenize::handle))
        .route("/detokenize", post(detokenize::handle))
        .route("/apply-template", post(apply_template::handle));
    health_and_models
        .merge(watching)
        .merge(openai)
        .merge(jina)
        .merge(llama_server_compatible)
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app.clone())
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app, gate::pass))
}

async fn no_route(method: Method, uri: Uri) -> ApiError {
    ApiError::no_route(method.as_str(), &json::shorten(uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    ApiError::method(method.as_str(), &json::shorten(uri.path()))
}

fn panicked(panic: Box<dyn Any + Send>) -> Response {
    ApiError::internal(format!("a handler panicked: {}", panic_message(&panic))).into_response()
}

/// What a panic said.
pub(crate) fn panic_message(panic: &Box<dyn Any + Send>) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Receives a request's body, sees to the model that it names, and does `work` on it: rendering, tokenizing, which may take a while for a
/// large one.
async fn prepare<T, F>(app: &Arc<App>, body: Body, work: F) -> Result<(Arc<Model>, T), ApiError>
where
    T: Send + 'static,
    F: FnOnce(&App, &Model, Fields) -> Result<T, ApiError> + Send + 'static,
{
    let received = body::read(app, body).await?;
    let its_app = app.clone();
    let (received, fields) = off_the_threads(app, move || {
        let fields = json::object(&received.bytes, &its_app.options.limits)?;
        Ok((received, fields))
    })
    .await?;
    let model = app.model(fields.peek("model").and_then(serde_json::Value::as_str)).await?;
    let (its_app, its_model) = (app.clone(), model.clone());
    let done = off_the_threads(app, move || {
        drop(received);
        work(&its_app, &its_model, fields)
    });
    Ok((model, done.await?))
}

/// Does `work` off the threads that serve connections, by as many requests at a time as there are processors.
async fn off_the_threads<T, F>(app: &App, work: F) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, ApiError> + Send + 'static,
{
    let _turn = app.preparing.acquire().await.map_err(ApiError::internal)?;
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(ApiError::internal(format!("reading a request failed: {error}"))),
    }
}
