//! `GET /props`, in llama-server's shape: what the server does where a request does not say.

use super::slots;
use crate::answer;
use crate::error::ApiError;
use crate::state::App;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use onebit_text::ChatTemplate;
use serde_json::json;
use std::sync::Arc;

pub(super) async fn handle(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    if !app.options.props {
        return Err(ApiError::unable("The server does not tell its properties: start it with `--props`"));
    }
    let model = app.watched(query.as_deref())?;
    let template = model.template.iter().flat_map(ChatTemplate::sources).next();
    Ok(answer::json(&json!({
        "default_generation_settings": {
            "n_ctx": model.engine.context(),
            "params": slots::params(&model.sampling),
            "prompt": "",
        },
        "total_slots": model.engine.config().max_sequences,
        "model_alias": model.name,
        "chat_template": template,
        "modalities": { "vision": model.tower.is_some(), "audio": false },
        "build_info": concat!("1bit ", env!("CARGO_PKG_VERSION")),
        "is_sleeping": false,
    })))
}
