//! An HTTP proxy that sends each request to the next gateway, with no stickiness at all.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::place;

pub struct RoundRobin {
    url: String,
    task: JoinHandle<()>,
}

struct Ring {
    /// Base URLs, without a slash at the end.
    targets: Vec<String>,
    next: AtomicUsize,
    http: reqwest::Client,
}

const HOP_BY_HOP: [HeaderName; 4] =
    [header::CONNECTION, header::TRANSFER_ENCODING, header::HOST, header::CONTENT_LENGTH];

impl RoundRobin {
    pub async fn start(targets: Vec<String>) -> RoundRobin {
        Self::start_at(targets, 0).await.unwrap()
    }

    pub async fn start_at(targets: Vec<String>, port: u16) -> std::io::Result<RoundRobin> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let ring = Arc::new(Ring { targets, next: AtomicUsize::new(0), http: place::http() });
        let app = Router::new().fallback(forward).with_state(ring);
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
            let _ = stream.set_nodelay(true);
        });
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Ok(RoundRobin { url, task })
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for RoundRobin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(State(ring): State<Arc<Ring>>, request: Request) -> Response {
    let index = ring.next.fetch_add(1, Ordering::SeqCst) % ring.targets.len();
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let url = format!("{}{path}", ring.targets[index]);
    let (head, body) = request.into_parts();
    let mut headers = head.headers;
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    let outgoing = ring
        .http
        .request(head.method, url)
        .headers(headers)
        .body(reqwest::Body::wrap_stream(body.into_data_stream()));
    match outgoing.send().await {
        Ok(answer) => {
            let mut response = Response::builder().status(answer.status());
            for (name, value) in answer.headers() {
                if !HOP_BY_HOP.contains(name) {
                    response = response.header(name, value);
                }
            }
            response.body(Body::from_stream(answer.bytes_stream())).unwrap()
        }
        Err(error) => (StatusCode::BAD_GATEWAY, format!("round robin: {error}")).into_response(),
    }
}
