//! Every instrument of the worker, declared once. `docs/operations.md` lists them.
use std::sync::LazyLock;

use contract::event::TurnStatus;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram};
use shared::runtime::telemetry::metrics::{POOL_WAIT, counter, gauge, long_seconds, seconds, show};

use crate::app::App;

pub static QUEUE_WAIT: LazyLock<Histogram<f64>> = LazyLock::new(|| {
    seconds("agentchat_worker_queue_wait_seconds", "From a job's creation to its first start")
});
pub static FIRST_TOKEN: LazyLock<Histogram<f64>> = LazyLock::new(|| {
    seconds("agentchat_worker_first_token_seconds", "From the start of a job to its first token")
});
pub static MODEL_FIRST_TOKEN: LazyLock<Histogram<f64>> = LazyLock::new(|| {
    seconds(
        "agentchat_worker_model_first_token_seconds",
        "From a request to the model to the first text of its answer",
    )
});
/// Labels: `outcome`.
pub static TURN: LazyLock<Histogram<f64>> = LazyLock::new(|| {
    long_seconds("agentchat_worker_turn_seconds", "From the start of a turn's job to its end")
});
/// Labels: `tool`, `outcome`.
pub static TOOL: LazyLock<Histogram<f64>> =
    LazyLock::new(|| long_seconds("agentchat_worker_tool_seconds", "Calls of tools"));
pub static CANCEL_LATENCY: LazyLock<Histogram<f64>> = LazyLock::new(|| {
    seconds(
        "agentchat_worker_cancel_latency_seconds",
        "From a cancel's arrival at the worker to the turn's end",
    )
});
pub static REDELIVERIES: LazyLock<Counter<u64>> = LazyLock::new(|| {
    counter("agentchat_worker_redeliveries_total", "Jobs that were delivered before")
});
pub static FENCED: LazyLock<Counter<u64>> = LazyLock::new(|| {
    counter(
        "agentchat_worker_fenced_total",
        "Turns this worker gave up as it could not prove them its own",
    )
});
/// Labels: `kind`.
pub static TOKENS: LazyLock<Counter<u64>> =
    LazyLock::new(|| counter("agentchat_worker_tokens_total", "Tokens of the model"));
pub static DELTAS: LazyLock<Counter<u64>> = LazyLock::new(|| {
    counter("agentchat_worker_coalesced_deltas_total", "Pieces of text that came from the model")
});
pub static TOKEN_EVENTS: LazyLock<Counter<u64>> = LazyLock::new(|| {
    counter("agentchat_worker_token_events_total", "Events those pieces were published as")
});
/// Labels: `reason`.
pub static DEAD_LETTERS: LazyLock<Counter<u64>> = LazyLock::new(|| {
    counter("agentchat_worker_dead_letters_total", "Jobs that were put to the dead letters")
});

/// Values of `reason`.
pub const UNREADABLE: &str = "unreadable";
pub const ATTEMPTS_EXHAUSTED: &str = "attempts_exhausted";

pub fn label(name: &'static str, value: &'static str) -> [KeyValue; 1] {
    [KeyValue::new(name, value)]
}

pub fn status(status: TurnStatus) -> &'static str {
    match status {
        TurnStatus::Completed => "completed",
        TurnStatus::Interrupted => "interrupted",
        TurnStatus::Cancelled => "cancelled",
        TurnStatus::Failed => "failed",
        TurnStatus::Rejected => "rejected",
    }
}

/// Makes the page complete before the first job.
pub fn register(app: &App) {
    for histogram in [&QUEUE_WAIT, &FIRST_TOKEN, &MODEL_FIRST_TOKEN, &CANCEL_LATENCY, &POOL_WAIT] {
        LazyLock::force(histogram);
    }
    for counter in [&REDELIVERIES, &FENCED, &DELTAS, &TOKEN_EVENTS] {
        counter.add(0, &[]);
    }
    show(&TOKENS, "kind", &["input", "output"]);
    show(&DEAD_LETTERS, "reason", &[UNREADABLE, ATTEMPTS_EXHAUSTED]);
    let slots = app.config.slots;
    gauge("agentchat_worker_slots", "Turns this worker runs at once", move || float(slots));
    let busy = app.occupancy.clone();
    gauge("agentchat_worker_slots_used", "Jobs in hand", move || float(busy.count()));
    let bus = app.bus.clone();
    gauge("agentchat_nats_connected", "1 while NATS is connected", move || {
        Some(f64::from(u8::from(bus.is_connected())))
    });
}

/// Exact up to 2^32, which no figure here reaches.
fn float(figure: impl TryInto<u32>) -> Option<f64> {
    figure.try_into().ok().map(f64::from)
}
