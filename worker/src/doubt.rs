//! Whether the database is to be trusted with new turns: a worker that can't reach it takes none from the others.
use std::time::Duration;

use shared::store::pool::{self, HotPool};
use tokio::sync::watch;
use tracing::{info, warn};

const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// An idle worker has no statement that could fail: it asks so often, and is more patient than while it doubts.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const IDLE_ANSWER_WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub struct Doubt(watch::Sender<bool>);

impl Doubt {
    /// A statement found no answer, or a turn had to stop for want of one.
    pub fn raise(&self) {
        if !self.0.send_replace(true) {
            warn!("The database may be out of reach; no new turns until it answers");
        }
    }

    pub fn is_raised(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for it; cancel-safe.
    pub async fn raised(&self) {
        let _ = self.0.subscribe().wait_for(|raised| *raised).await;
    }

    /// Raises it when the database stops answering though nobody asks it anything. Never returns.
    pub async fn watch(&self, database: &HotPool) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.is_raised() {
                continue;
            }
            match tokio::time::timeout(IDLE_ANSWER_WITHIN, pool::ping(database)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => self.raise(),
            }
        }
    }

    /// Returns when the database answers; cancel-safe.
    pub async fn settled(&self, database: &HotPool) {
        loop {
            match tokio::time::timeout(ANSWER_WITHIN, pool::ping(database)).await {
                Ok(Ok(())) => break,
                Ok(Err(_)) | Err(_) => pool::forget_idle(database),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.0.send_replace(false);
        info!("The database answers");
    }
}
