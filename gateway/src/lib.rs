//! The stateless edge: the Gradio wire protocol, REST and files in front; NATS and Postgres behind.
//!
//! Read in this order: [`config`] every variable, [`app`] what handlers share, [`http`] the route table,
//! [`auth`] who is calling, [`error`] how a refusal looks, [`submissions`] the open streams.
pub mod app;
pub mod auth;
pub mod config;
pub mod connections;
pub mod error;
pub mod files;
pub mod http;
pub mod load;
pub mod metrics;
pub mod ownership;
pub mod submissions;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::App;

/// Serves until the shutdown token is cancelled; then open streams have `grace` to end before they are cut.
///
/// Told to stop, it serves for `notice` more, while its readiness keeps new traffic away.
pub async fn serve(app: Arc<App>, listener: TcpListener) {
    app.shutdown.spawn("notice", take_notice(app.clone()));
    let (shutdown, grace, bounds) =
        (app.shutdown.clone(), app.config.grace, app.config.connections);
    let cut = CancellationToken::new();
    connections::accept(listener, http::router(app), bounds, (&shutdown, &cut)).await;
    if shutdown.wait(grace).await {
        return;
    }
    tracing::warn!("Cutting connections that outlived {} s", grace.as_secs());
    cut.cancel();
    if !shutdown.wait(Duration::from_secs(5)).await {
        tracing::warn!("Some tasks did not end in time");
    }
}

async fn take_notice(app: Arc<App>) {
    let (stopping, shutdown) = (app.stopping.token(), app.shutdown.token());
    let notice = async {
        stopping.cancelled().await;
        tokio::time::sleep(app.config.notice).await;
        app.shutdown.trigger();
    };
    tokio::select! {
        () = notice => {}
        () = shutdown.cancelled() => {}
    }
}
