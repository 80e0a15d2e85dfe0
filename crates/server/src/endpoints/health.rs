//! `GET /health`: 503 with progress while the model loads, 200 when it answers, 503 again when the server stops.

use crate::answer;
use crate::error::ApiError;
use crate::state::App;
use axum::extract::State;
use axum::response::Response;
use serde_json::json;
use std::sync::Arc;

pub(super) async fn handle(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    app.serving()?;
    Ok(answer::json(&json!({ "status": "ok" })))
}
