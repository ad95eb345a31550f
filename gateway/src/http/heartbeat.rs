//! `heartbeat/{session_hash}`: an endless stream. Old Python clients open it whatever `/config` says, and
//! come back without a pause when it ends. Says nothing about any session, so it needs no token.
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use contract::limits;
use futures_util::stream;

use crate::app::App;
use crate::submissions::stream::event_stream;

const ALIVE: Bytes = Bytes::from_static(b"data: ALIVE\n\n");

/// GET `heartbeat/{session_hash}`.
pub async fn heartbeat(State(app): State<Arc<App>>) -> Response {
    let stop = app.shutdown.token();
    let beats = stream::unfold((stop, true), |(stop, first)| async move {
        if !first {
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(limits::SSE_HEARTBEAT) => {}
            }
        }
        Some((Ok::<_, Infallible>(ALIVE), (stop, false)))
    });
    event_stream(Body::from_stream(beats))
}
