//! What operators ask of a worker: how it is, and to drain.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use contract::control::{WorkerAnswer, WorkerAsk, WorkerReport, WorkerSettings};
use shared::bus::workers::{Desk, Reply};
use shared::runtime::clock;
use tracing::{info, warn};

use crate::app::App;

const LISTEN_PAUSE: Duration = Duration::from_secs(1);

/// Counts the jobs in hand.
#[derive(Clone, Default)]
pub struct Occupancy(Arc<AtomicU64>);

pub struct Occupied(Occupancy);

impl Occupancy {
    /// One more, until the answer is dropped.
    #[must_use]
    pub fn enter(&self) -> Occupied {
        self.0.fetch_add(1, Ordering::Relaxed);
        Occupied(self.clone())
    }

    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub struct Operator {
    app: App,
    desk: Desk,
    started_at: String,
    /// Those who asked for the drain want to hear its end.
    drained_for: Vec<Reply>,
}

impl Operator {
    /// Waits for NATS if it has to.
    pub async fn listen(app: &App) -> Self {
        let desk = loop {
            match Desk::open(&app.bus).await {
                Ok(desk) => break desk,
                Err(error) => {
                    let error = format!("{error:#}");
                    warn!(error, "Operators can't be heard yet; trying again");
                    tokio::time::sleep(LISTEN_PAUSE).await;
                }
            }
        };
        let started_at = clock::rfc3339(clock::now());
        Self { app: app.clone(), desk, started_at, drained_for: Vec::new() }
    }

    /// Answers questions as long as `work` goes on.
    pub async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            done = work => done,
            () = self.serve() => std::future::pending().await,
        }
    }

    /// The last word to those who asked for the drain.
    pub async fn farewell(&self, handed_over: u64) {
        let worker = self.app.config.name.clone();
        let answer = WorkerAnswer::Drained { worker, handed_over };
        for reply in &self.drained_for {
            send(reply, &answer).await;
        }
    }

    async fn serve(&mut self) {
        loop {
            let (ask, reply) = self.desk.next().await;
            match ask {
                WorkerAsk::Report => {}
                WorkerAsk::Drain { worker, .. } if worker != self.app.config.name => continue,
                WorkerAsk::Drain { by, .. } => {
                    info!(by, "Stopping as {by} asks for it");
                    self.drained_for.push(reply.clone());
                    self.app.shutdown.trigger();
                }
            }
            send(&reply, &WorkerAnswer::Report(self.report())).await;
        }
    }

    fn report(&self) -> WorkerReport {
        let config = &self.app.config;
        WorkerReport {
            worker: config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            slots: u64::try_from(config.slots).unwrap_or(u64::MAX),
            running: self.app.occupancy.count(),
            draining: self.app.shutdown.token().is_cancelled(),
            started_at: self.started_at.clone(),
            clock: clock::rfc3339(clock::now()),
            settings: WorkerSettings {
                ack_wait_ms: millis(config.timing.ack_wait),
                lease_ms: millis(config.timing.lease),
                heartbeat_ms: millis(config.timing.heartbeat),
                drain_ms: millis(config.timing.drain),
                database_pool: u64::from(config.database_pool),
            },
        }
    }
}

async fn send(reply: &Reply, answer: &WorkerAnswer) {
    if let Err(error) = reply.send(answer).await {
        warn!(error = format!("{error:#}"), "An operator could not be answered");
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
