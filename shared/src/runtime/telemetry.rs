//! Logs: one JSON object a line on stderr, panics included.
use std::panic;

use tracing::{error, info};
use tracing_subscriber::EnvFilter;

use crate::runtime::env::Env;

/// Call once, first thing in `main`. The filter comes from `LOG`, else `RUST_LOG`, else it is `info`.
///
/// `async_openai` is always off: it logs request bodies, which hold what users wrote.
pub fn init(service: &str) {
    let env = Env::process();
    let wanted = env.optional("LOG").or_else(|| env.optional("RUST_LOG"));
    let wanted = wanted.unwrap_or_else(|| "info,async_nats=warn".to_owned());
    let filter = EnvFilter::new(format!("{wanted},async_openai=off"));
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(true)
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .finish();
    if tracing::subscriber::set_global_default(subscriber).is_err() {
        return;
    }
    log_panics();
    info!(service, version = env!("CARGO_PKG_VERSION"), "Starting {service}");
}

fn log_panics() {
    panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        error!(location, "Panicked at {location}: {message}");
    }));
}
