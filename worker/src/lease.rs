//! The proof that a turn is still this worker's, by a clock that needs nobody's answer.
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How long the lease is ours for certain: its term counts from *before* the question was sent whose answer was yes.
/// Whoever wakes up behind that moment, frozen or starved, may have a successor already. Clones share it.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Parts>);

/// The lease may be another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unproved;

#[derive(Debug)]
struct Parts {
    term: Duration,
    until: watch::Sender<Instant>,
    concluding: AtomicBool,
    concluded: AtomicBool,
}

impl Lease {
    /// `asked`: before the lease was asked for.
    pub fn new(asked: Instant, term: Duration) -> Self {
        let until = watch::Sender::new(asked + term);
        let (concluding, concluded) = (AtomicBool::new(false), AtomicBool::new(false));
        Self(Arc::new(Parts { term, until, concluding, concluded }))
    }

    pub fn until(&self) -> Instant {
        *self.0.until.borrow()
    }

    /// `asked`: before a renewal was asked for that was granted.
    pub fn renewed(&self, asked: Instant) {
        self.0.until.send_replace(asked + self.0.term);
    }

    /// Tells of every renewal.
    pub fn renewals(&self) -> watch::Receiver<Instant> {
        self.0.until.subscribe()
    }

    /// Makes the turn's last commit, which gives the lease back. What is still owed behind it anybody may do, since the
    /// turn has ended and its events are stored.
    pub async fn conclude<T, E>(&self, commit: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        self.0.concluding.store(true, Ordering::SeqCst);
        let done = commit.await;
        self.0.concluding.store(false, Ordering::SeqCst);
        if done.is_ok() {
            self.0.concluded.store(true, Ordering::SeqCst);
        }
        done
    }

    /// A lease that is gone may have been given back by the commit that is under way.
    pub fn is_concluding(&self) -> bool {
        self.0.concluding.load(Ordering::SeqCst)
    }

    /// There is no lease any more, and none is needed.
    pub fn is_concluded(&self) -> bool {
        self.0.concluded.load(Ordering::SeqCst)
    }

    pub fn holds(&self) -> bool {
        Instant::now() < self.until()
    }

    /// To be asked right before anything that others can see.
    pub fn check(&self) -> Result<(), Unproved> {
        if self.holds() { Ok(()) } else { Err(Unproved) }
    }

    /// Polls `work` only while the proof holds: whatever it waited for, it goes no step further behind its end.
    pub async fn guard<T, E: From<Unproved>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut work = pin!(work);
        std::future::poll_fn(|context| match self.check() {
            Ok(()) => work.as_mut().poll(context),
            Err(unproved) => Poll::Ready(Err(unproved.into())),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Duration = Duration::from_secs(60);

    fn ended() -> Lease {
        Lease::new(Instant::now() - TERM, TERM)
    }

    #[test]
    fn the_term_counts_from_the_question() {
        let asked = Instant::now() - Duration::from_secs(59);
        let lease = Lease::new(asked, TERM);
        assert!(lease.holds());
        assert_eq!(lease.until(), asked + TERM);
        assert_eq!(ended().check(), Err(Unproved));
    }

    #[test]
    fn an_answer_that_took_too_long_proves_nothing() {
        let lease = ended();
        lease.renewed(Instant::now() - TERM);
        assert!(!lease.holds());
        lease.renewed(Instant::now());
        assert!(lease.holds());
    }

    #[tokio::test]
    async fn work_goes_on_while_the_lease_holds() {
        let lease = Lease::new(Instant::now(), TERM);
        assert_eq!(lease.guard(async { Ok::<_, Unproved>(7) }).await, Ok(7));
    }

    #[tokio::test]
    async fn a_step_behind_the_end_is_not_made() {
        let lease = Lease::new(Instant::now(), TERM);
        let mut steps = 0;
        let work = async {
            steps += 1;
            // The worker is frozen here, past the end of its lease.
            lease.renewed(Instant::now() - TERM);
            tokio::task::yield_now().await;
            steps += 1;
            Ok(())
        };
        assert_eq!(lease.guard(work).await, Err::<(), _>(Unproved));
        assert_eq!(steps, 1);
    }
}
