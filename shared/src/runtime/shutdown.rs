//! Signals, the token that tells everybody to stop, and the only place that starts tasks.
use std::future::Future;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, debug_span, error, info};

/// One per process; clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    token: CancellationToken,
    tracker: TaskTracker,
}

impl Shutdown {
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task that `wait` waits for.
    #[expect(clippy::disallowed_methods, reason = "the one place that starts tasks")]
    pub fn spawn<F>(&self, name: &'static str, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tokio::spawn(self.tracker.track_future(task.instrument(debug_span!("task", task = name))))
    }

    /// Cancelled when the process shall stop.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    pub fn trigger(&self) {
        self.token.cancel();
    }

    /// Triggers on SIGTERM and SIGINT.
    pub fn on_signals(&self) {
        let shutdown = self.clone();
        self.spawn("signals", async move {
            let name = tokio::select! {
                name = signalled() => name,
                () = shutdown.token.cancelled() => return,
            };
            info!(signal = name, "Stopping on {name}");
            shutdown.trigger();
        });
    }

    /// Waits until every task has ended; false if some still run after `grace`, or when one more signal comes:
    /// whoever sends it is in a hurry.
    pub async fn wait(&self, grace: Duration) -> bool {
        self.tracker.close();
        tokio::select! {
            biased;
            () = self.tracker.wait() => true,
            () = tokio::time::sleep(grace) => false,
            name = signalled() => {
                info!(signal = name, "Not waiting any longer, on another {name}");
                false
            }
        }
    }
}

/// The next SIGTERM or SIGINT.
async fn signalled() -> &'static str {
    let (terminate, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    let (mut terminate, mut interrupt) = match (terminate, interrupt) {
        (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
        (Err(error), _) | (_, Err(error)) => {
            error!(%error, "Can't listen for signals: {error}");
            return std::future::pending().await;
        }
    };
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_ends_when_the_last_task_ends() {
        let shutdown = Shutdown::new();
        let token = shutdown.token();
        shutdown.spawn("until stopped", async move { token.cancelled().await });
        assert!(!shutdown.wait(Duration::from_millis(10)).await);
        shutdown.trigger();
        assert!(shutdown.wait(Duration::from_secs(5)).await);
    }
}
