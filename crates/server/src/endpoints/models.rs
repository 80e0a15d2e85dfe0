//! `GET /v1/models` and `/v1/models/{id}`.

use crate::answer;
use crate::error::ApiError;
use crate::json::shorten;
use crate::shelf::Shown;
use crate::state::{App, Model};
use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let models: Vec<Value> = all(&app)?.iter().map(|shown| describe(&app, shown)).collect();
    Ok(answer::json(&json!({ "object": "list", "data": models })))
}

pub(super) async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let models = all(&app)?;
    let found = models.iter().find(|shown| shown.name == id || shown.aliases.contains(&id));
    found.map(|shown| answer::json(&describe(&app, shown))).ok_or_else(|| ApiError::no_model(&shorten(&id)))
}

/// All models that can be asked for.
fn all(app: &App) -> Result<Vec<Shown>, ApiError> {
    match app.shelf() {
        Some(shelf) => Ok(shelf.show()),
        None => {
            let (name, aliases) = (app.options.model.clone(), app.options.aliases.clone());
            let models = app.ready_models()?.into_iter();
            Ok(models
                .map(|model| Shown {
                    name: name.clone(),
                    aliases: aliases.clone(),
                    model: Some(model),
                    status: json!({ "value": "loaded" }),
                })
                .collect())
        }
    }
}

/// `status` is llama-server's; `meta` is known while the model is loaded.
fn describe(app: &App, shown: &Shown) -> Value {
    json!({
        "id": shown.name,
        "object": "model",
        "created": app.started,
        "owned_by": "1bit",
        "aliases": shown.aliases,
        "status": shown.status,
        "meta": shown.model.as_deref().map(meta),
    })
}

fn meta(model: &Model) -> Value {
    let info = &model.info;
    json!({
            "architecture": info.architecture,
            "n_vocab": model.engine.tokenizer().len(),
            "n_ctx": model.engine.context(),
            "n_ctx_train": info.trained_context,
            "n_embd": info.embedding,
            "n_params": info.parameters,
            "size": info.bytes,
            "weight_types": info.weight_types,
            "vision": model.tower.is_some(),
    })
}
