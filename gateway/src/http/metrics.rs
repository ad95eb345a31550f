//! The page that Prometheus reads.
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use shared::runtime::telemetry::metrics;

use crate::app::App;
use crate::http::layers;

/// What a proxy adds: the page is for the network inside.
const PROXIED: [&str; 3] = ["x-forwarded-for", "forwarded", "x-real-ip"];

/// `GET /metrics`. Whoever comes through a proxy finds nothing here.
pub async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    if PROXIED.iter().any(|name| headers.contains_key(*name)) {
        return layers::not_found().await.into_response();
    }
    app.fleet.look(&app).await;
    match metrics::page() {
        Ok(page) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response(),
        Err(error) => {
            tracing::error!("The metrics can't be written: {error:#}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
