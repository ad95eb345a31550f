//! What operators and workers say to each other (core NATS: nothing of it is stored).
use std::time::Duration;

use async_nats::{Message, StatusCode, Subject, Subscriber};
use bytes::Bytes;
use contract::control::{WorkerAnswer, WorkerAsk, WorkerReport};
use contract::subject;
use futures_util::StreamExt as _;
use serde::Serialize;
use time::OffsetDateTime;
use tokio::time::Instant;
use tracing::warn;

use crate::bus::{Bus, Error, bounded};
use crate::runtime::clock;

/// Nobody knows how many workers there are: the last one has answered when it was quiet for so long.
const QUIET: Duration = Duration::from_millis(800);
/// Longest wait for a first answer, and for all of them.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// A worker's answer and the time it took by this host's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub report: WorkerReport,
    pub asked_at: OffsetDateTime,
    pub heard_at: OffsetDateTime,
}

/// Asks every worker how it is. Takes a second; three if none answers.
pub async fn reports(bus: &Bus) -> Result<Vec<Heard>, Error> {
    let asked_at = clock::now();
    let mut answers = ask(bus, &WorkerAsk::Report).await?;
    let until = Instant::now() + ANSWERS_WITHIN;
    let (mut heard, mut wait) = (Vec::new(), until);
    while let Some(answer) = next(&mut answers, wait.min(until)).await {
        if let WorkerAnswer::Report(report) = answer {
            heard.push(Heard { report, asked_at, heard_at: clock::now() });
            wait = Instant::now() + QUIET;
        }
    }
    Ok(heard)
}

/// A worker that was told to drain.
pub struct Draining {
    answers: Subscriber,
    /// How it was as it began to drain.
    pub report: WorkerReport,
}

/// Tells one worker to do what it does on SIGTERM; `None` if no worker of that name answers.
pub async fn drain(bus: &Bus, worker: &str, by: &str) -> Result<Option<Draining>, Error> {
    let ask_drain = WorkerAsk::Drain { worker: worker.to_owned(), by: by.to_owned() };
    let mut answers = ask(bus, &ask_drain).await?;
    let until = Instant::now() + ANSWERS_WITHIN;
    while let Some(answer) = next(&mut answers, until).await {
        if let WorkerAnswer::Report(report) = answer {
            return Ok(Some(Draining { answers, report }));
        }
    }
    Ok(None)
}

impl Draining {
    /// How many turns were handed over; `None` if the worker has not ended in time.
    pub async fn drained(&mut self, within: Duration) -> Option<u64> {
        let until = Instant::now() + within;
        loop {
            if let WorkerAnswer::Drained { handed_over, .. } =
                next(&mut self.answers, until).await?
            {
                return Some(handed_over);
            }
        }
    }
}

/// Where a worker hears what operators ask.
pub struct Desk {
    bus: Bus,
    asks: Subscriber,
}

/// Where the answers to one question go.
#[derive(Clone)]
pub struct Reply {
    bus: Bus,
    to: Subject,
}

impl Desk {
    /// Returns when the server knows the subscription.
    pub async fn open(bus: &Bus) -> Result<Self, Error> {
        let asks = bus.subscribe(subject::WORKERS.to_owned()).await?;
        bus.round_trip().await?;
        Ok(Self { bus: bus.clone(), asks })
    }

    /// Waits for ever; cancel-safe. Skips what it can't read.
    pub async fn next(&mut self) -> (WorkerAsk, Reply) {
        loop {
            let Some(message) = self.asks.next().await else {
                // The client was closed: nobody can ask any more.
                return std::future::pending().await;
            };
            match (serde_json::from_slice(&message.payload), message.reply) {
                (Ok(ask), Some(to)) => return (ask, Reply { bus: self.bus.clone(), to }),
                (Ok(_), None) => warn!("An operator's question has no reply subject"),
                (Err(error), _) => warn!(%error, "An operator's question can't be read"),
            }
        }
    }
}

impl Reply {
    pub async fn send(&self, answer: &WorkerAnswer) -> Result<(), Error> {
        let payload = encode(answer)?;
        bounded(self.bus.client.publish(self.to.clone(), payload)).await
    }
}

async fn ask(bus: &Bus, ask: &WorkerAsk) -> Result<Subscriber, Error> {
    if !bus.is_connected() {
        return Err(Error::Disconnected);
    }
    let inbox = bus.client.new_inbox();
    let answers = bus.subscribe(inbox.clone()).await?;
    let payload = encode(ask)?;
    bounded(bus.client.publish_with_reply(subject::WORKERS, inbox, payload)).await?;
    Ok(answers)
}

/// `None`: nobody listens, or the time is up.
async fn next(answers: &mut Subscriber, until: Instant) -> Option<WorkerAnswer> {
    loop {
        let message: Message = tokio::time::timeout_at(until, answers.next()).await.ok()??;
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            return None;
        }
        match serde_json::from_slice(&message.payload) {
            Ok(answer) => return Some(answer),
            Err(error) => warn!(%error, "A worker's answer can't be read"),
        }
    }
}

fn encode<T: Serialize>(message: &T) -> Result<Bytes, Error> {
    let encoded = serde_json::to_vec(message);
    encoded.map(Bytes::from).map_err(|error| Error::Unexpected(error.to_string()))
}
