//! What workers write to the event log, as it is stored: with attempts, in order, and when.
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use contract::event::{Envelope, Event};
use futures_util::StreamExt as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::nats::Nats;

/// Every live event of all turns.
const LIVE: &str = "agent.v1.live.>";
const PATIENCE: Duration = Duration::from_secs(40);

#[derive(Clone)]
pub struct Seen {
    pub at: Instant,
    pub envelope: Envelope,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Envelope { attempt, n, event, ts, .. } = &self.envelope;
        write!(f, "{ts} {attempt}.{n} {event:?}")
    }
}

pub struct EventLog {
    desk: Arc<Desk>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Desk {
    seen: Mutex<Vec<Seen>>,
    changed: Notify,
}

impl EventLog {
    /// Events from now on.
    pub async fn open(nats: &Nats) -> EventLog {
        let client = nats.client().await;
        let mut messages = client.subscribe(LIVE).await.unwrap();
        client.flush().await.unwrap();
        let desk = Arc::new(Desk::default());
        let noted = Arc::clone(&desk);
        let task = tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                let at = Instant::now();
                if let Ok(envelope) = serde_json::from_slice(&message.payload) {
                    noted.seen.lock().unwrap().push(Seen { at, envelope });
                    noted.changed.notify_waiters();
                }
            }
        });
        EventLog { desk, task }
    }

    /// The events of a turn so far.
    pub fn of(&self, turn: &str) -> Vec<Seen> {
        let is_its = |seen: &&Seen| seen.envelope.turn_id.to_string() == turn;
        self.desk.seen.lock().unwrap().iter().filter(is_its).cloned().collect()
    }

    /// The first event of the turn that `wanted` says yes to.
    pub async fn wait(&self, turn: &str, what: &str, wanted: impl Fn(&Envelope) -> bool) -> Seen {
        let waiting = async {
            loop {
                let changed = self.desk.changed.notified();
                if let Some(seen) = self.of(turn).into_iter().find(|seen| wanted(&seen.envelope)) {
                    return seen;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.unwrap_or_else(|_| panic!("no {what} of {turn}: {:#?}", self.of(turn)))
    }

    /// When a worker began its attempt at the turn.
    pub async fn attempt(&self, turn: &str, attempt: u32) -> Instant {
        let begins = |envelope: &Envelope| {
            envelope.attempt == attempt && matches!(envelope.event, Event::Attempt { .. })
        };
        self.wait(turn, &format!("attempt {attempt}"), begins).await.at
    }

    /// One writer after the other, each without a gap, and one end, which may be on its way to here.
    pub async fn check(&self, turn: &str) {
        self.wait(turn, "end", |envelope| envelope.event.is_terminal()).await;
        let seen = self.of(turn);
        let numbers: Vec<_> =
            seen.iter().map(|Seen { envelope: e, .. }| (e.attempt, e.n)).collect();
        for pair in numbers.windows(2) {
            let ((attempt, n), next) = (pair[0], pair[1]);
            let follows = next == (attempt, n + 1) || (next.0 > attempt && next.1 == 1);
            assert!(follows, "{next:?} after {:?}: {seen:#?}", pair[0]);
        }
        let ends: Vec<bool> = seen.iter().map(|seen| seen.envelope.event.is_terminal()).collect();
        assert_eq!(ends.iter().filter(|end| **end).count(), 1, "{seen:#?}");
        assert_eq!(ends.last(), Some(&true), "{seen:#?}");
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        self.task.abort();
    }
}
