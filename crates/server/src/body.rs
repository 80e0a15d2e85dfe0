//! Reads a request's body within bounds of size, time, and memory over all connections.
//!
//! A request that is refused may still be sending. Closing the connection then would reset it, and the client would see that
//! instead of the answer; so what it sends is thrown away for a while ([`discard`]).

use crate::error::ApiError;
use crate::state::App;
use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A body, and the share of [`crate::Limits::bodies`] that it holds until it is dropped.
pub(crate) struct Received {
    pub(crate) bytes: BytesMut,
    _share: Option<OwnedSemaphorePermit>,
}

/// The whole body.
pub(crate) async fn read(app: &App, body: Body) -> Result<Received, ApiError> {
    let limits = &app.options.limits;
    let mut body = body;
    if body.size_hint().lower() > limits.body as u64 {
        discard(body).await;
        return Err(over(limits.body));
    }
    let reading = read_within(&mut body, limits.body, app.bodies.clone());
    let read = tokio::time::timeout(limits.body_time, reading).await.unwrap_or_else(|_| Err(ApiError::slow_body(limits.body_time)));
    if read.is_err() {
        discard(body).await;
    }
    read
}

/// Takes what a client still sends and drops it: up to 64 MiB, for up to 2 seconds.
pub(crate) async fn discard(mut body: Body) {
    let all = async {
        let mut left = 64usize << 20;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    // Whatever comes of it, the answer is sent.
    let _ = tokio::time::timeout(Duration::from_secs(2), all).await;
}

async fn read_within(body: &mut Body, limit: usize, budget: Arc<Semaphore>) -> Result<Received, ApiError> {
    let mut bytes = BytesMut::new();
    let mut share: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| ApiError::bad_request(format!("The request's body broke off: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(over(limit));
        }
        let more = u32::try_from(data.len()).ok().and_then(|n| budget.clone().try_acquire_many_owned(n).ok());
        let more = more.ok_or_else(|| ApiError::unavailable("too_many_bodies", "Too many large requests are being received").retry(1))?;
        match &mut share {
            Some(share) => share.merge(more),
            None => share = Some(more),
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Received { bytes, _share: share })
}

fn over(limit: usize) -> ApiError {
    ApiError::too_large(format!("The request's body is larger than the {limit} bytes that are allowed"))
}
