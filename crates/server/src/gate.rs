//! What every request passes before an endpoint sees it.

use crate::body;
use crate::error::fresh_id;
use crate::guard::{self, Verdict};
use crate::state::App;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::Instant;

/// Checks who asks, and whether there is a model to answer; gives the answer an id; tells the log what was asked and what came
/// of it (and nothing of the texts).
pub(crate) async fn pass(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let begin = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_string());
    let mut response = match guard::check(&app.options, &app.keys.now(), &request) {
        Verdict::Answer(response) => {
            body::discard(request.into_body()).await;
            response
        }
        Verdict::Pass(cors) => {
            let serving = if guard::OPEN.contains(&path.as_str()) { Ok(()) } else { app.serving() };
            let mut response = match serving {
                Ok(()) => next.run(request).await,
                Err(error) => {
                    body::discard(request.into_body()).await;
                    error.into_response()
                }
            };
            response.headers_mut().extend(cors);
            response
        }
    };
    app.answered.count(response.status());
    let id = fresh_id("req-");
    let ms = begin.elapsed().as_secs_f32() * 1e3;
    tracing::debug!(id, %method, path = crate::json::shorten(&path), status = response.status().as_u16(), ms, "answered");
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}
