//! `POST /tokenize`, in llama-server's shape: the ids of a text.

use super::prepare;
use crate::answer::{self, token_bytes};
use crate::error::ApiError;
use crate::state::App;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use onebit_text::Encode;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn handle(State(app): State<Arc<App>>, body: Body) -> Result<Response, ApiError> {
    let work = prepare(&app, body, |_, model, mut fields| {
        let content = fields.string("content")?.ok_or_else(|| ApiError::invalid("content", "`content` is missing"))?;
        let encode = Encode {
            add_special: fields.boolean("add_special")?.unwrap_or(false),
            parse_special: fields.boolean("parse_special")?.unwrap_or(true),
        };
        let with_pieces = fields.boolean("with_pieces")?.unwrap_or(false);
        fields.pass_over(&["model"]);
        fields.finish()?;
        let tokenizer = model.engine.tokenizer();
        let ids = tokenizer.encode(&content, encode);
        if !with_pieces {
            return Ok(json!({ "tokens": ids }));
        }
        // A piece that is no whole character is given as its bytes.
        let piece = |id: &u32| {
            let bytes = token_bytes(tokenizer, *id);
            let piece = std::str::from_utf8(&bytes).map_or_else(|_| json!(bytes), |text| json!(text));
            json!({ "id": id, "piece": piece })
        };
        Ok(json!({ "tokens": ids.iter().map(piece).collect::<Vec<Value>>() }))
    });
    let (_, tokens) = work.await?;
    Ok(answer::json(&tokens))
}
