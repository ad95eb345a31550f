//! The stateless edge: the Gradio wire protocol, REST and files in front; NATS and Postgres behind.
//!
//! Read in this order: [`config`] every variable, [`app`] what handlers share, [`http`] the route table,
//! [`auth`] who is calling, [`error`] how a refusal looks, [`submissions`] the open streams.
pub mod app;
pub mod auth;
pub mod config;
pub mod error;
pub mod files;
pub mod http;
pub mod ownership;
pub mod submissions;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

use crate::app::App;

/// Serves until the shutdown token is cancelled; then open streams have `grace` to end before they are cut.
pub async fn serve(app: Arc<App>, listener: TcpListener) -> anyhow::Result<()> {
    let (shutdown, grace) = (app.shutdown.clone(), app.config.grace);
    let token = shutdown.token();
    let stopping = token.clone();
    // A frame is small and must not wait for the acknowledgement of the one before it.
    let listener = listener.tap_io(|socket| {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "Can't set TCP_NODELAY: {error}");
        }
    });
    let server = axum::serve(listener, http::router(app))
        .with_graceful_shutdown(async move { stopping.cancelled().await });
    let deadline = async {
        token.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        served = server.into_future() => served.context("serving")?,
        () = deadline => tracing::warn!("Cutting connections that outlived {} s", grace.as_secs()),
    }
    if !shutdown.wait(Duration::from_secs(5)).await {
        tracing::warn!("Some tasks did not end in time");
    }
    Ok(())
}
