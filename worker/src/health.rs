//! `/healthz/live`, `/healthz/ready` and `/metrics`, in a few lines of HTTP/1.1: the worker serves nothing else.
use std::time::Duration;

use anyhow::Context as _;
use shared::runtime::telemetry::metrics;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::app::App;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

pub async fn serve(app: App, address: String) -> anyhow::Result<()> {
    let listener =
        TcpListener::bind(&address).await.with_context(|| format!("listening on {address}"))?;
    let stop = app.shutdown.token();
    app.clone().shutdown.spawn("health", async move {
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        let answer = answer(&app, stream);
                        let _ = tokio::time::timeout(REQUEST_TIMEOUT, answer).await;
                    }
                }
                () = stop.cancelled() => return,
            }
        }
    });
    Ok(())
}

async fn answer(app: &App, mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = [0; 1024];
    let read = stream.read(&mut request).await?;
    let head = String::from_utf8_lossy(request.get(..read).unwrap_or_default());
    if head.split_whitespace().nth(1) == Some("/metrics") {
        return metrics_page(stream).await;
    }
    let (status, body) = match head.split_whitespace().nth(1) {
        Some("/healthz/live") => ("200 OK", "live\n"),
        Some("/healthz/ready") if app.shutdown.token().is_cancelled() => {
            ("503 Service Unavailable", "draining\n")
        }
        Some("/healthz/ready") if app.doubt.is_raised() => {
            ("503 Service Unavailable", "Postgres does not answer\n")
        }
        Some("/healthz/ready") if app.bus.is_connected() => ("200 OK", "ready\n"),
        Some("/healthz/ready") => ("503 Service Unavailable", "NATS is not connected\n"),
        Some(_) | None => ("404 Not Found", "not found\n"),
    };
    write(stream, status, "text/plain", body).await
}

async fn metrics_page(stream: TcpStream) -> std::io::Result<()> {
    match metrics::page() {
        Ok(page) => write(stream, "200 OK", metrics::CONTENT_TYPE, &page).await,
        Err(error) => {
            write(stream, "500 Internal Server Error", "text/plain", &format!("{error:#}\n")).await
        }
    }
}

async fn write(
    mut stream: TcpStream,
    status: &str,
    content_type: &str,
    body: &str,
) -> std::io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
