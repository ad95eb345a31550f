//! Every instrument of the gateway, declared once. `docs/operations.md` lists them.
//!
//! Figures of the fleet come from one look at NATS and Postgres, made when the page is read and kept for a while.
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram};
use shared::bus::{jobs, survey};
use shared::runtime::clock;
use shared::runtime::telemetry::metrics::{GAPS_REPAIRED, counter, gauge, seconds, show};
use shared::store::overview::{self, Scope};
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::app::App;

pub static FIRST_TOKEN: LazyLock<Histogram<f64>> = LazyLock::new(|| {
    seconds("agentchat_gateway_first_token_seconds", "From a join to the first token of its answer")
});
/// Labels: `outcome`, which is `queued` or an error code.
pub static SUBMISSIONS: LazyLock<Counter<u64>> =
    LazyLock::new(|| counter("agentchat_gateway_submissions_total", "Joins that were answered"));
/// Labels: `reason`, an error code.
pub static REJECTED: LazyLock<Counter<u64>> = LazyLock::new(|| {
    counter("agentchat_gateway_rejected_total", "Requests refused because there were too many")
});
pub static CANCELS: LazyLock<Counter<u64>> =
    LazyLock::new(|| counter("agentchat_gateway_cancels_total", "Cancels that were asked for"));
/// Labels: `outcome`, which is `stored` or an error code.
pub static UPLOADS: LazyLock<Counter<u64>> =
    LazyLock::new(|| counter("agentchat_gateway_uploads_total", "Files that were sent"));

/// A look at the fleet costs NATS and Postgres a few questions.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const LOOK_WITHIN: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
struct Figures {
    waiting: f64,
    oldest_waiting: f64,
    cards: f64,
    oldest_card: f64,
    dead_letters: f64,
}

/// The last look; none while the fleet can't be seen, so that an old figure never passes for a new one.
#[derive(Default)]
pub struct Fleet {
    figures: Mutex<Option<Figures>>,
    looked: tokio::sync::Mutex<Option<Instant>>,
}

pub fn label(name: &'static str, value: &'static str) -> [KeyValue; 1] {
    [KeyValue::new(name, value)]
}

/// Makes the page complete before the first request.
pub fn register(app: &Arc<App>) {
    LazyLock::force(&FIRST_TOKEN);
    for counter in [&CANCELS, &GAPS_REPAIRED] {
        counter.add(0, &[]);
    }
    show(&SUBMISSIONS, "outcome", &["queued", "CONVERSATION_BUSY", "UNAVAILABLE"]);
    show(&REJECTED, "reason", &["QUEUE_FULL", "USER_BUSY"]);
    show(&UPLOADS, "outcome", &["stored", "FILE_TOO_LARGE", "FILE_TYPE"]);
    let bus = app.bus.clone();
    gauge("agentchat_nats_connected", "1 while NATS is connected", move || {
        Some(f64::from(u8::from(bus.is_connected())))
    });
    let load = app.load.clone();
    gauge("agentchat_gateway_streams_open", "Open event streams", move || {
        float(load.open_streams())
    });
    let pool = app.rows.clone();
    gauge("agentchat_db_connections", "Connections to the database", move || float(pool.size()));
    let pool = app.rows.clone();
    gauge("agentchat_db_connections_idle", "Those that wait for work", move || {
        float(pool.num_idle())
    });
    let fleet = |name, what, figure: fn(&Figures) -> f64| {
        let app = Arc::clone(app);
        gauge(name, what, move || app.fleet.last().as_ref().map(figure));
    };
    fleet("agentchat_jobs_waiting", "Jobs that no worker has taken", |seen| seen.waiting);
    fleet("agentchat_jobs_oldest_runnable_seconds", "Age of the oldest of them", |seen| {
        seen.oldest_waiting
    });
    fleet("agentchat_confirmations_open", "Confirmations that wait for a person", |seen| {
        seen.cards
    });
    fleet("agentchat_confirmation_oldest_seconds", "Age of the oldest of them", |seen| {
        seen.oldest_card
    });
    fleet("agentchat_dead_letters", "Dead letters that are kept", |seen| seen.dead_letters);
}

impl Fleet {
    fn last(&self) -> Option<Figures> {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks again if the last look is old. Several readers share one look.
    pub async fn look(&self, app: &App) {
        let mut looked = self.looked.lock().await;
        if looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return;
        }
        let seen = tokio::time::timeout(LOOK_WITHIN, figures(app)).await;
        let seen = seen.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer in time")));
        if let Err(error) = &seen {
            tracing::warn!("The fleet's figures can't be read: {error:#}");
        }
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner) = seen.ok();
        *looked = Some(Instant::now());
    }
}

async fn figures(app: &App) -> anyhow::Result<Figures> {
    let everything = Scope::default();
    let (survey, oldest, cards) = tokio::join!(
        survey::survey(&app.bus),
        jobs::oldest_waiting(&app.bus),
        overview::cards(&app.rows, &everything)
    );
    let (survey, oldest, cards) = (survey?, oldest?, cards?);
    let dead =
        survey.streams.iter().find(|stream| stream.name == contract::subject::STREAM_DEAD_LETTERS);
    Ok(Figures {
        waiting: survey.consumer.and_then(|consumer| float(consumer.pending)).unwrap_or_default(),
        oldest_waiting: oldest.map_or(0.0, age),
        cards: float(cards.open).unwrap_or_default(),
        oldest_card: cards.oldest_at.map_or(0.0, age),
        dead_letters: dead.and_then(|stream| float(stream.messages)).unwrap_or_default(),
    })
}

fn age(since: OffsetDateTime) -> f64 {
    (clock::now() - since).as_seconds_f64().max(0.0)
}

/// Exact up to 2^32, which no figure here reaches.
fn float(figure: impl TryInto<u32>) -> Option<f64> {
    figure.try_into().ok().map(f64::from)
}
