//! Spans to a collector by OTLP over HTTP.
use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::{Level, Metadata};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::layer::Filter;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, filter};

use crate::runtime::env::Env;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const ENDPOINT_OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// Whose spans are part of a trace.
const OURS: [&str; 3] = ["gateway", "worker", "shared"];

/// None where no collector is named.
pub(super) fn provider(
    env: &Env,
    service: &'static str,
) -> anyhow::Result<Option<SdkTracerProvider>> {
    if env.optional(ENDPOINT).or_else(|| env.optional(ENDPOINT_OF_TRACES)).is_none() {
        return Ok(None);
    }
    // Reads endpoint, headers and time-out from the environment.
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .build()
        .context("setting up the OTLP exporter")?;
    let mut resource = Resource::builder();
    if env.optional("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name(format!("agentchat-{service}"));
    }
    let provider = SdkTracerProvider::builder()
        .with_resource(resource.build())
        .with_batch_exporter(exporter)
        .build();
    Ok(Some(provider))
}

/// Takes no log events: what they say stays on this machine.
pub(super) fn layer<S>(
    provider: &SdkTracerProvider,
) -> impl Layer<S> + Send + Sync + 'static + use<S>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let layer: OpenTelemetryLayer<S, SdkTracer> =
        tracing_opentelemetry::layer().with_tracer(provider.tracer("agentchat"));
    layer
        .with_tracked_inactivity(false)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_filter(wanted())
}

fn wanted<S>() -> impl Filter<S> + Send + Sync + 'static {
    filter::filter_fn(is_wanted)
}

fn is_wanted(metadata: &Metadata<'_>) -> bool {
    let of_ours = || {
        let root = metadata.target().split("::").next().unwrap_or_default();
        OURS.contains(&root)
    };
    metadata.is_span() && *metadata.level() <= Level::INFO && of_ours()
}
