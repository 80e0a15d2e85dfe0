//! Answers as server-sent events.
//!
//! The body is pulled: nothing is taken from the engine before the connection has room for it, so a slow reader costs what
//! the engine keeps for it (at most the tokens that it asked for) and one frame here. When the connection goes, the body is
//! dropped, and with it the engine's streams.

use crate::error::ApiError;
use crate::generation::{Begun, failed};
use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;
use onebit_engine::{Event, Finish, Logprobs, Token};
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Bytes after which a frame is sent although more events wait.
const FRAME: usize = 16 << 10;

/// How an endpoint writes its events. One value writes one answer; `choice` says which choice an event is of.
pub(crate) trait Format: Send + Unpin + 'static {
    /// Before all else.
    fn begin(&mut self, _out: &mut Events) {}
    /// What the prompt's own tokens got.
    fn prompt(&mut self, _choice: usize, _logprobs: Vec<Option<Logprobs>>, _out: &mut Events) {}
    /// A token.
    fn token(&mut self, choice: usize, token: Token, out: &mut Events);
    /// The end of a choice.
    fn finish(&mut self, choice: usize, finish: Finish, out: &mut Events);
    /// After all choices have ended without a fault.
    fn end(&mut self, out: &mut Events);
    /// A fault ends the answer.
    fn fail(&mut self, error: &ApiError, out: &mut Events) {
        out.json(&error.body());
    }
}

/// The text of events that are to be sent.
#[derive(Default)]
pub(crate) struct Events(Vec<u8>);

impl Events {
    /// Adds an event that carries JSON.
    pub(crate) fn json(&mut self, data: &impl Serialize) {
        self.0.extend_from_slice(b"data: ");
        if let Err(error) = serde_json::to_writer(&mut self.0, data) {
            // Only maps with keys that are no strings could fail, and none are sent.
            tracing::error!(%error, "an event could not be written");
        }
        self.0.extend_from_slice(b"\n\n");
    }

    /// Adds an event that has a name.
    pub(crate) fn named(&mut self, name: &str, data: &impl Serialize) {
        self.0.extend_from_slice(b"event: ");
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(b'\n');
        self.json(data);
    }

    /// Adds the event by which OpenAI's API ends a stream.
    pub(crate) fn done(&mut self) {
        self.0.extend_from_slice(b"data: [DONE]\n\n");
    }
}

/// The answer that streams what is generated in the given format.
///
/// A fault on the way is sent as an event `{"error": {...}}`, after which the stream ends: without `[DONE]`, so that nobody
/// takes it for complete.
pub(crate) fn respond(begun: Begun, format: impl Format) -> Response {
    let body = EventBody { begun: Some(begun), format, begins: true };
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Keeps nginx from gathering events before it passes them on.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct EventBody<F> {
    /// None when all is said.
    begun: Option<Begun>,
    format: F,
    begins: bool,
}

impl<F: Format> HttpBody for EventBody<F> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let Some(begun) = &mut this.begun else { return Poll::Ready(None) };
        let mut out = Events::default();
        if std::mem::take(&mut this.begins) {
            this.format.begin(&mut out);
        }
        let mut ended = false;
        while !ended && out.0.len() < FRAME {
            match begun.poll_next(context) {
                Poll::Pending => break,
                Poll::Ready(None) => {
                    this.format.end(&mut out);
                    ended = true;
                }
                Poll::Ready(Some((choice, event))) => match event {
                    Event::Prompt(logprobs) => this.format.prompt(choice, logprobs, &mut out),
                    // Never where text is written.
                    Event::Embedding(_) => {}
                    Event::Token(token) => this.format.token(choice, token, &mut out),
                    Event::Finished(finish) => this.format.finish(choice, finish, &mut out),
                    Event::Failed(error) => {
                        this.format.fail(&failed(&error), &mut out);
                        ended = true;
                    }
                },
            }
        }
        if ended {
            // The other choices of an answer that failed have no reader any more.
            this.begun = None;
        }
        if out.0.is_empty() {
            return if ended { Poll::Ready(None) } else { Poll::Pending };
        }
        Poll::Ready(Some(Ok(Frame::data(out.0.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.begun.is_none()
    }
}
