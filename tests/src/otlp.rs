//! A collector that keeps the spans it is sent.
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1;
use prost::Message as _;
use tokio::task::JoinHandle;

#[derive(Clone, Debug)]
pub struct Span {
    /// Service that sent it.
    pub service: String,
    pub name: String,
    /// Hexadecimal; `parent` is empty at the root.
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub attributes: HashMap<String, String>,
    /// Ids of the spans it is linked to, with their traces.
    pub links: Vec<(String, String)>,
    pub failed: bool,
}

#[derive(Default)]
struct Kept {
    spans: Mutex<Vec<Span>>,
    /// Everything as it came, to look for what must not be there.
    raw: Mutex<Vec<u8>>,
}

pub struct Collector {
    url: String,
    kept: Arc<Kept>,
    task: JoinHandle<()>,
}

impl Collector {
    pub async fn start() -> Collector {
        let kept = Arc::new(Kept::default());
        let router = Router::new().route("/v1/traces", post(take)).with_state(kept.clone());
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Collector { url, kept, task }
    }

    /// The value of `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn spans(&self) -> Vec<Span> {
        self.kept.spans.lock().unwrap().clone()
    }

    /// Whether `text` stands anywhere in what was sent.
    pub fn holds(&self, text: &str) -> bool {
        let raw = self.kept.raw.lock().unwrap();
        raw.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(kept): State<Arc<Kept>>, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body.clone()).unwrap();
    kept.raw.lock().unwrap().extend_from_slice(&body);
    let mut spans = kept.spans.lock().unwrap();
    for of_resource in request.resource_spans {
        let resource = attributes(of_resource.resource.unwrap_or_default().attributes);
        let service = resource.get("service.name").cloned().unwrap_or_default();
        let sent = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.extend(sent.map(|sent| span(&service, sent)));
    }
}

fn span(service: &str, sent: v1::Span) -> Span {
    let links = sent.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect();
    Span {
        service: service.to_owned(),
        name: sent.name,
        trace: hex(&sent.trace_id),
        id: hex(&sent.span_id),
        parent: hex(&sent.parent_span_id),
        attributes: attributes(sent.attributes),
        links,
        failed: sent.status.is_some_and(|s| s.code == v1::status::StatusCode::Error as i32),
    }
}

fn attributes(pairs: Vec<KeyValue>) -> HashMap<String, String> {
    pairs
        .into_iter()
        .map(|pair| (pair.key, text(pair.value.and_then(|value| value.value))))
        .collect()
}

fn text(value: Option<any_value::Value>) -> String {
    match value {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        Some(any_value::Value::DoubleValue(number)) => number.to_string(),
        Some(any_value::Value::BoolValue(flag)) => flag.to_string(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
