//! What Prometheus reads. Every binary declares its own instruments in its `metrics.rs`; those of both are here.
//!
//! Names carry their unit, counters end in `_total`, labels have few values. No instrument is touched per token.
use std::sync::LazyLock;

use anyhow::Context as _;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider as _};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};

/// Of the page's answer.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// From a millisecond to a minute and a half.
const SECONDS: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 90.0,
];
/// What people and tools do takes longer.
const LONG_SECONDS: [f64; 14] =
    [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];

/// How long callers waited for a database connection, in seconds.
pub static POOL_WAIT: LazyLock<Histogram<f64>> =
    LazyLock::new(|| seconds("agentchat_db_pool_wait_seconds", "Wait for a database connection"));
/// Events that were read from the stream as they had not come live.
pub static GAPS_REPAIRED: LazyLock<Counter<u64>> = LazyLock::new(|| {
    counter("agentchat_gateway_gaps_repaired_total", "Gaps in live events filled from the stream")
});

struct Page {
    registry: Registry,
    /// Its end would be that of the meter.
    _provider: SdkMeterProvider,
    meter: Meter,
}

static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let registry = Registry::new();
    let exporter = opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        .scope_info_enabled(false)
        .without_target_info()
        .without_counter_suffixes()
        .build();
    let mut provider = SdkMeterProvider::builder();
    if let Ok(exporter) = exporter {
        provider = provider.with_reader(exporter);
    }
    let provider = provider.build();
    let meter = provider.meter("agentchat");
    Page { registry, _provider: provider, meter }
});

/// The page as Prometheus reads it.
pub fn page() -> anyhow::Result<String> {
    let families = PAGE.registry.gather();
    TextEncoder::new().encode_to_string(&families).context("writing the metrics")
}

/// A histogram of seconds.
pub fn seconds(name: &'static str, what: &'static str) -> Histogram<f64> {
    PAGE.meter.f64_histogram(name).with_description(what).with_boundaries(SECONDS.to_vec()).build()
}

pub fn long_seconds(name: &'static str, what: &'static str) -> Histogram<f64> {
    let histogram = PAGE.meter.f64_histogram(name).with_description(what);
    histogram.with_boundaries(LONG_SECONDS.to_vec()).build()
}

/// A counter; `name` ends in `_total`.
pub fn counter(name: &'static str, what: &'static str) -> Counter<u64> {
    PAGE.meter.u64_counter(name).with_description(what).build()
}

/// A figure that is looked up whenever the page is read; left out while there is none.
pub fn gauge(
    name: &'static str,
    what: &'static str,
    value: impl Fn() -> Option<f64> + Send + Sync + 'static,
) {
    let gauge = PAGE.meter.f64_observable_gauge(name).with_description(what);
    let _registered = gauge
        .with_callback(move |observer| {
            if let Some(value) = value() {
                observer.observe(value, &[]);
            }
        })
        .build();
}

/// Makes a counter visible before its first event, so that a rate over that event is right.
pub fn show(counter: &Counter<u64>, label: &'static str, values: &[&'static str]) {
    for value in values {
        counter.add(0, &[KeyValue::new(label, *value)]);
    }
}

pub(super) fn build_info(service: &'static str) {
    let gauge = PAGE.meter.u64_gauge("agentchat_build_info").with_description("Which version runs");
    let labels =
        [KeyValue::new("service", service), KeyValue::new("version", env!("CARGO_PKG_VERSION"))];
    gauge.build().record(1, &labels);
}
