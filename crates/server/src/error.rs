//! Errors as OpenAI shapes them: `{"error": {"message", "type", "param", "code"}}`.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An answer that is an error. Its message is written for whoever sent the request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// OpenAI's `type`: what kind of fault, in one word.
    pub(crate) kind: &'static str,
    /// The field of the request that is at fault, such as `messages[2].role`.
    pub(crate) param: Option<String>,
    /// A name for programs to compare with.
    pub(crate) code: Option<&'static str>,
    /// After how many seconds another try may succeed.
    pub(crate) retry_after: Option<u32>,
    /// How far loading is, from 0 to 1, where that is why there is no answer.
    pub(crate) progress: Option<f32>,
}

const INVALID: &str = "invalid_request_error";

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: Option<&'static str>, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), kind, param: None, code, retry_after: None, progress: None }
    }

    /// 400 that is not about one field.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, None, message)
    }

    /// 400 for the value of `param`.
    pub(crate) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::bad_request(message).of(param).coded("invalid_value")
    }

    /// 400 for something that OpenAI's API or llama-server's has and this server has not.
    pub(crate) fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::bad_request(message).of(param).coded("unsupported_parameter")
    }

    /// 401.
    pub(crate) fn key(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, INVALID, Some("invalid_api_key"), message)
    }

    /// 403: the request comes from where it must not.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "permission_error", None, message)
    }

    /// 404 for a path.
    pub(crate) fn no_route(method: &str, path: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, INVALID, Some("unknown_url"), format!("Unknown request URL: {method} {path}"))
    }

    /// 404 for a model.
    pub(crate) fn no_model(name: &str) -> Self {
        let message = format!("The model `{name}` does not exist; GET /v1/models lists those that do");
        Self::new(StatusCode::NOT_FOUND, INVALID, Some("model_not_found"), message).of("model")
    }

    /// 405.
    pub(crate) fn method(method: &str, path: &str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, INVALID, Some("method_not_allowed"), format!("{method} is not allowed for {path}"))
    }

    /// 408: the body did not come in time.
    pub(crate) fn slow_body(limit: Duration) -> Self {
        let message = format!("The request's body did not arrive within {} seconds", limit.as_secs_f32());
        Self::new(StatusCode::REQUEST_TIMEOUT, INVALID, Some("request_timeout"), message)
    }

    /// 413.
    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID, Some("request_too_large"), message)
    }

    /// 429: the queue is full; in `wait` there may be room again.
    pub(crate) fn busy(wait: Duration) -> Self {
        let message = "All places are taken and the queue is full; try again later";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", Some("queue_full"), message)
            .retry(wait.as_secs_f64().ceil().clamp(1.0, 60.0) as u32)
    }

    /// 507: the disk, or what of it may be used, is full.
    pub(crate) fn storage(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "server_error", Some("storage"), message)
    }

    /// 501: the model, or the way in which it was loaded, cannot do it.
    pub(crate) fn unable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, "not_supported_error", Some("not_supported"), message)
    }

    /// 503: not now.
    pub(crate) fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable_error", Some(code), message)
    }

    /// 500. `detail` goes to the log, with the id that the message carries.
    pub(crate) fn internal(detail: impl std::fmt::Display) -> Self {
        let id = fresh_id("err-");
        tracing::error!(id, %detail, "a request failed through a fault of the server");
        let message = format!("The server failed to answer; its log tells more under the id {id}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", Some("internal_error"), message)
    }

    /// Names the field at fault.
    pub(crate) fn of(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Sets the code.
    pub(crate) fn coded(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Sets `Retry-After`.
    pub(crate) fn retry(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The JSON of the answer.
    pub(crate) fn body(&self) -> Value {
        let mut error = json!({ "message": self.message, "type": self.kind, "param": self.param, "code": self.code });
        if let Some(progress) = self.progress {
            error["progress"] = progress.into();
        }
        json!({ "error": error })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// `prefix` and 24 hexadecimal digits that do not repeat within a process, and hardly between two.
pub(crate) fn fresh_id(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let nanos = since_1970().as_nanos() as u64;
    format!("{prefix}{nanos:016x}{:08x}", count as u32)
}

/// An id for a call of a tool: nine letters and digits, which is the form that Mistral's templates ask for.
pub(crate) fn call_id() -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = since_1970().as_nanos() as u64;
    // An odd factor spreads what differs in the low digits over all of them.
    let mut rest = nanos.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
    let mut next = || {
        let digit = DIGITS[(rest % 36) as usize];
        rest /= 36;
        char::from(digit)
    };
    (0..9).map(|_| next()).collect()
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    since_1970().as_secs()
}

/// Zero where the clock stands before.
fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_shape_of_openai() {
        let error = ApiError::invalid("n", "`n` must be at least 1").body();
        let expected =
            r#"{"error":{"message":"`n` must be at least 1","type":"invalid_request_error","param":"n","code":"invalid_value"}}"#;
        assert_eq!(error.to_string(), expected);
        for (wait, seconds) in [(0, "1"), (1500, "2"), (61_000, "60"), (u64::MAX, "60")] {
            let error = ApiError::busy(Duration::from_millis(wait));
            assert_eq!(error.body()["error"]["param"], Value::Null);
            assert_eq!(error.into_response().headers()[header::RETRY_AFTER], seconds);
        }
    }

    #[test]
    fn ids_differ() {
        let (a, b) = (fresh_id("x-"), fresh_id("x-"));
        assert_ne!(a, b);
        assert_eq!(a.len(), 26);
    }
}
