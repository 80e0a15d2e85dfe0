//! `POST /apply-template`, in llama-server's shape: the prompt that a chat becomes.

use super::prepare;
use crate::error::ApiError;
use crate::state::App;
use crate::{answer, messages, params};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use serde_json::json;
use std::sync::Arc;

pub(super) async fn handle(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let work = prepare(&app, body, |app, model, mut fields| {
        params::model(&mut fields, app)?;
        let prompt = messages::render(&mut fields, model, &app.options.limits)?;
        fields.finish()?;
        Ok(prompt.rendered.into_text())
    });
    let (_, prompt) = work.await?;
    Ok(answer::json(&json!({ "prompt": prompt })))
}
