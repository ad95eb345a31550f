//! The route table, one line per route, and the order of the middleware.
//!
//! Everything needs a user's token unless [`PUBLIC`] names it. Every route is bounded in number and time but
//! the event streams. All of it is served at `/` and, where `GATEWAY_PREFIX` says
//! so, below that prefix too; a proxy that strips its prefix needs no configuration.
pub mod active;
pub mod call;
pub mod cancel;
pub mod config;
pub mod conversations;
pub mod gate;
pub mod health;
pub mod heartbeat;
pub mod input;
pub mod layers;
pub mod messages;
pub mod metrics;
pub mod paging;
pub mod queue;
pub mod token;
pub mod upload;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{delete, get, post};
use contract::limits;
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;

/// Stock Python clients give up after 5 s; a request that hangs longer than this is answered 503.
const SHORT_DEADLINE: Duration = Duration::from_secs(15);
const SHORT_REQUESTS: usize = 2_048;
/// For all files of one upload.
const UPLOAD_DEADLINE: Duration = Duration::from_secs(10 * 60);
const UPLOADS: usize = 256;

/// Routes without a user's token. `queue/data` and `cancel` look at the token themselves.
pub const PUBLIC: &[&str] = &[
    "/config",
    "/config/",
    "/gradio_api/info",
    "/gradio_api/app_id",
    "/gradio_api/startup-events",
    "/gradio_api/queue/status",
    "/gradio_api/queue/data",
    "/gradio_api/heartbeat/{session_hash}",
    "/gradio_api/cancel",
    "/gradio_api/reset",
    "/api/auth/service-token",
    "/healthz/live",
    "/healthz/ready",
    "/metrics",
];

pub fn router(app: Arc<App>) -> Router {
    let routes = routes(&app);
    let prefixed = match app.config.prefix.as_deref() {
        Some(prefix) => Router::new().nest(prefix, routes.clone()).merge(routes),
        None => routes,
    };
    prefixed
        .fallback(layers::not_found)
        .method_not_allowed_fallback(layers::method_not_allowed)
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(from_fn(layers::identify_and_log))
        .with_state(app)
}

/// Whether a matched path (as in the route table, with or without the prefix) needs no token.
pub fn is_public(matched: &str, prefix: Option<&str>) -> bool {
    let bare = prefix.and_then(|prefix| matched.strip_prefix(prefix)).unwrap_or(matched);
    PUBLIC.contains(&matched) || PUBLIC.contains(&bare)
}

fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let short_bounds = layers::Bounds::new(SHORT_REQUESTS, SHORT_DEADLINE, app.load.clone());
    let upload_bounds = layers::Bounds::passing(UPLOADS, UPLOAD_DEADLINE);
    let short =
        gradio().merge(rest()).route_layer(from_fn_with_state(short_bounds, layers::bounded));
    let uploads = uploads().route_layer(from_fn_with_state(upload_bounds, layers::bounded));
    short
        .merge(open_ended())
        .route_layer(DefaultBodyLimit::max(limits::JOIN_BODY_BYTES))
        .merge(uploads)
        .merge(probes())
        .route_layer(from_fn_with_state(app.clone(), gate::gate))
}

fn gradio() -> Router<Arc<App>> {
    Router::new()
        .route("/config", get(config::config))
        .route("/config/", get(config::config))
        .route("/gradio_api/info", get(config::info))
        .route("/gradio_api/app_id", get(config::app_id))
        .route("/gradio_api/startup-events", get(config::startup_events))
        .route("/gradio_api/queue/join", post(queue::join))
        .route("/gradio_api/queue/status", get(queue::status))
        .route("/gradio_api/cancel", post(cancel::cancel))
        .route("/gradio_api/reset", post(cancel::reset))
        .route("/gradio_api/call/{api}", post(call::submit))
        .route("/gradio_api/call/v2/{api}", post(call::submit_named))
}

fn rest() -> Router<Arc<App>> {
    Router::new()
        .route("/api/assistant/conversations", post(conversations::create).get(conversations::list))
        .route(
            "/api/assistant/conversations/{id}",
            delete(conversations::archive).patch(conversations::rename),
        )
        .route("/api/assistant/conversations/{id}/unarchive", post(conversations::unarchive))
        .route("/api/assistant/conversations/{id}/messages", post(messages::append))
        .route("/api/assistant/history", get(messages::history))
        .route("/api/agent/conversations/{id}/active", get(active::active))
        .route("/api/auth/service-token", post(token::issue))
}

fn open_ended() -> Router<Arc<App>> {
    Router::new()
        .route("/gradio_api/queue/data", get(queue::data))
        .route("/gradio_api/call/{api}/{event_id}", get(call::stream))
        .route("/gradio_api/call/v2/{api}/{event_id}", get(call::stream))
        .route("/gradio_api/heartbeat/{session_hash}", get(heartbeat::heartbeat))
}

fn uploads() -> Router<Arc<App>> {
    Router::new()
        .route("/gradio_api/upload", post(upload::upload).layer(DefaultBodyLimit::disable()))
        .route("/gradio_api/file={*path}", get(upload::file))
}

fn probes() -> Router<Arc<App>> {
    Router::new()
        .route("/healthz/live", get(health::live))
        .route("/healthz/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
}

#[cfg(test)]
mod tests;
