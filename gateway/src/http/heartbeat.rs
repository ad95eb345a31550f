//! `heartbeat/{session_hash}`: an endless stream. Old Python clients open it whatever `/config` says, and
//! come back without a pause when it ends. Says nothing about any session, so it needs no token.
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use contract::error_code::ErrorCode;
use contract::limits;
use futures_util::stream;

use crate::app::App;
use crate::error::ApiError;
use crate::submissions::stream::event_stream;

const ALIVE: Bytes = Bytes::from_static(b"data: ALIVE\n\n");

/// GET `heartbeat/{session_hash}`.
pub async fn heartbeat(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let slot = app.load.heartbeat().ok_or(ErrorCode::QueueFull)?;
    let stop = app.shutdown.token();
    let beats = stream::unfold((stop, true, slot), |(stop, first, slot)| async move {
        if !first {
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(limits::SSE_HEARTBEAT) => {}
            }
        }
        Some((Ok::<_, Infallible>(ALIVE), (stop, false, slot)))
    });
    Ok(event_stream(Body::from_stream(beats)))
}
