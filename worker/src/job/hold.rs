//! Holding a turn: lease and job are renewed, each with its own deadline, and given back when the turn stops early.
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use shared::bus::ANSWER_WITHIN;
use shared::store::{lease, pool};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::Story;
use crate::driver::{SETTLE_WITHIN, Stop};
use crate::lease::Lease;

/// One try to give the lease back.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(2);
/// So long a database may be away that shall still learn that nobody died.
const GIVE_BACK_PATIENCE: Duration = Duration::from_secs(30);
const GIVE_BACK_PAUSE: Duration = Duration::from_millis(200);
/// Behind the time that calls have to settle; from then on nothing is waited for.
const OVERDUE: Duration = Duration::from_secs(1);

impl Story<'_> {
    /// Does `work` (on the heap: a turn's state is large, and this future is moved about) while lease and job are
    /// provably ours. What stops before its end is dropped where it stands, and the conversation is free for the
    /// next worker.
    pub(super) async fn own<T>(
        &self,
        epoch: i64,
        lease: &Lease,
        work: Pin<Box<impl Future<Output = Result<T, Stop>>>>,
    ) -> Result<T, Stop> {
        let result = tokio::select! {
            biased;
            result = lease.guard(work) => result,
            stop = self.keep_lease(epoch, lease) => Err(stop),
            stop = self.keep_job(lease) => Err(stop),
            () = self.overdue() => Err(Stop::HandOver),
        };
        match &result {
            Ok(_) | Err(Stop::Fenced) => {}
            Err(Stop::Broken(_)) => self.release(epoch).await,
            Err(Stop::HandOver | Stop::Unavailable(_) | Stop::Unproved) => {
                self.give_back(epoch).await;
            }
        }
        result
    }

    /// Returns when the lease is another's, and at the very moment from which it can't be proved.
    async fn keep_lease(&self, epoch: i64, lease: &Lease) -> Stop {
        let timing = &self.app.config.timing;
        let mut pause = timing.heartbeat;
        loop {
            let renewal = async {
                tokio::time::sleep(pause).await;
                let asked = Instant::now();
                let renewal =
                    lease::renew(&self.app.pool, self.job.conversation_id, epoch, timing.lease);
                (asked, tokio::time::timeout(timing.heartbeat, renewal).await)
            };
            let Ok((asked, answer)) = tokio::time::timeout_at(lease.until(), renewal).await else {
                warn!("The lease ended without an answer of the database");
                return Stop::Unproved;
            };
            match answer {
                Ok(Ok(true)) => {
                    lease.renewed(asked);
                    pause = timing.heartbeat;
                }
                Ok(_) | Err(_) if lease.is_concluded() => {
                    lease.renewed(asked);
                    pause = timing.heartbeat;
                }
                Ok(Ok(false)) if lease.is_concluding() => pause = timing.heartbeat / 4,
                Ok(Ok(false)) => return Stop::Fenced,
                Ok(Err(_)) | Err(_) => {
                    warn!("The lease could not be renewed; trying again");
                    self.app.doubt.raise();
                    pool::forget_idle(&self.app.pool);
                    pause = timing.heartbeat / 4;
                }
            }
        }
    }

    /// Tells the queue that the job is in work, each time the lease was renewed and only then: the job comes to
    /// another worker when its lease is over, not before. Returns when the queue can't have heard it for so long
    /// that the job is on its way to another worker.
    async fn keep_job(&self, lease: &Lease) -> Stop {
        let mut renewals = lease.renewals();
        let mut heard = self.arrived;
        loop {
            let sign = async {
                let _ = renewals.changed().await;
                self.sign_of_life().await
            };
            let until = heard + self.app.config.timing.ack_wait;
            match tokio::time::timeout_at(until, sign).await {
                Ok(asked) => heard = asked,
                Err(_) => {
                    warn!("The queue did not hear of the job in time; another worker may have it");
                    return Stop::Unproved;
                }
            }
        }
    }

    /// Until the queue confirms it; gives the time of the question.
    async fn sign_of_life(&self) -> Instant {
        let timing = &self.app.config.timing;
        let within = (timing.ack_wait / 2).min(ANSWER_WITHIN);
        loop {
            let asked = Instant::now();
            match self.delivery.ack.progress(within).await {
                Ok(()) => return asked,
                Err(error) => warn!(
                    error = format!("{error:#}"),
                    "The job's in-progress signal failed; trying again"
                ),
            }
            tokio::time::sleep(timing.heartbeat / 4).await;
        }
    }

    /// A turn that doesn't stop by itself on the hand-over, e.g. as it waits for a bus that is down.
    async fn overdue(&self) {
        self.hand_over.cancelled().await;
        tokio::time::sleep(SETTLE_WITHIN + OVERDUE).await;
    }

    async fn release(&self, epoch: i64) {
        let release = lease::release(&self.app.pool, self.job.conversation_id, epoch);
        if !matches!(tokio::time::timeout(GIVE_BACK_WITHIN, release).await, Ok(Ok(()))) {
            warn!("The lease could not be released; it will expire");
        }
    }

    /// Patient, since a turn that nobody gave back counts as one whose worker died; not during a shutdown.
    async fn give_back(&self, epoch: i64) {
        let deadline = Instant::now() + GIVE_BACK_PATIENCE;
        loop {
            let back = lease::give_back(&self.app.pool, self.job.conversation_id, epoch);
            match tokio::time::timeout(GIVE_BACK_WITHIN, back).await {
                Ok(Ok(())) => return debug!("The turn was given back"),
                Ok(Err(_)) | Err(_) => pool::forget_idle(&self.app.pool),
            }
            if self.hand_over.is_cancelled() || Instant::now() > deadline {
                return warn!("The lease could not be given back; it will expire");
            }
            tokio::time::sleep(GIVE_BACK_PAUSE).await;
        }
    }
}
