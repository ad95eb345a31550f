//! How much this gateway takes on at once. What it counts is its own only, and gone with the process.
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contract::error_code::ErrorCode;
use contract::ids::{ConversationId, TurnId, UserId};
use futures_util::future::join_all;
use shared::bus::{Bus, jobs};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Streams that only tell their clients that there are too many.
const REFUSING_STREAMS: usize = 256;
/// Bodies being read, and messages on their way to the queue, in KiB.
const MEMORY_KIB: usize = 64 * 1024;
/// How often it is looked up whether a user's jobs are done, while they have too many.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// So many submissions of a user may wait for that; each keeps what it carries in memory.
const WAITING: usize = 8;
const USERS_REMEMBERED: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub streams: usize,
    pub streams_per_user: usize,
    pub jobs_per_user: usize,
}

pub struct Load {
    limits: Limits,
    streams: Arc<Semaphore>,
    refusing: Arc<Semaphore>,
    heartbeats: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    streaming: Counts,
    jobs: Mutex<HashMap<UserId, UserJobs>>,
}

type Counts = Arc<Mutex<HashMap<UserId, usize>>>;

/// The place of one open stream.
pub struct StreamSlot {
    _all: OwnedSemaphorePermit,
    /// Who is counted.
    user: Option<(UserId, Counts)>,
}

/// What became of a stream's request for a place.
pub enum Place {
    Open(StreamSlot),
    /// Open it, and tell each of its submissions this.
    Refuse(ErrorCode, StreamSlot),
    /// Not even that.
    Away(ErrorCode),
}

/// The jobs of a user that may still be on the queue.
#[derive(Default)]
struct UserJobs {
    jobs: Vec<(TurnId, Option<ConversationId>)>,
    looked: Option<Instant>,
    looking: Arc<tokio::sync::Mutex<()>>,
}

/// The place of one job; without [`Self::published`] it is free again in the end.
pub struct JobPlace {
    app: Arc<Load>,
    user: UserId,
    turn: TurnId,
    kept: bool,
}

impl Load {
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            streams: Arc::new(Semaphore::new(limits.streams)),
            refusing: Arc::new(Semaphore::new(REFUSING_STREAMS)),
            heartbeats: Arc::new(Semaphore::new(limits.streams)),
            memory: Arc::new(Semaphore::new(MEMORY_KIB)),
            streaming: Counts::default(),
            jobs: Mutex::default(),
        })
    }

    /// Room for so many bytes; `None` when there is none.
    pub fn memory(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(bytes.div_ceil(1024)).ok()?;
        Arc::clone(&self.memory).try_acquire_many_owned(kib).ok()
    }

    pub fn open_streams(&self) -> usize {
        self.limits.streams.saturating_sub(self.streams.available_permits())
    }

    /// Anybody may have a heartbeat; they take no place from the streams.
    pub fn heartbeat(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.heartbeats).try_acquire_owned().ok()
    }

    pub fn stream(&self, user: &UserId) -> Place {
        let refuse = |code: ErrorCode| match Arc::clone(&self.refusing).try_acquire_owned() {
            Ok(permit) => Place::Refuse(code, StreamSlot { _all: permit, user: None }),
            Err(_) => Place::Away(code),
        };
        let Ok(permit) = Arc::clone(&self.streams).try_acquire_owned() else {
            return refuse(ErrorCode::QueueFull);
        };
        let mut counts = self.streaming.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(user.clone()).or_default();
        if *count >= self.limits.streams_per_user {
            return refuse(ErrorCode::UserBusy);
        }
        *count += 1;
        let user = Some((user.clone(), Arc::clone(&self.streaming)));
        Place::Open(StreamSlot { _all: permit, user })
    }

    /// A place for one more job of the user's. Jobs that are done are noticed when there is none.
    pub async fn job(
        self: &Arc<Self>,
        bus: &Bus,
        user: &UserId,
        turn: TurnId,
    ) -> Result<JobPlace, ErrorCode> {
        let is_there = |turn, conversation| async move {
            matches!(jobs::active(bus, conversation).await, Ok(Some(job)) if job.turn_id == turn)
        };
        self.job_unless(is_there, user, turn).await
    }

    /// Of several that find no place at once, one looks which jobs are still there, for all of them.
    async fn job_unless<F: Future<Output = bool>>(
        self: &Arc<Self>,
        is_there: impl Fn(TurnId, ConversationId) -> F,
        user: &UserId,
        turn: TurnId,
    ) -> Result<JobPlace, ErrorCode> {
        let asked = Instant::now();
        let place = || JobPlace { app: Arc::clone(self), user: user.clone(), turn, kept: false };
        let Some(looking) = self.reserve(user, turn) else { return Ok(place()) };
        // One is the user's, one this one's.
        if Arc::strong_count(&looking) > 2 + WAITING {
            return Err(ErrorCode::UserBusy);
        }
        let _looking = looking.lock().await;
        if self.reserve(user, turn).is_none() {
            return Ok(place());
        }
        if let Some(looked) = self.looked(user) {
            if looked >= asked {
                return Err(ErrorCode::UserBusy);
            }
            tokio::time::sleep_until(looked + LOOK_EVERY).await;
        }
        let doubtful = self.look(user);
        let looks = doubtful.iter().map(|(turn, conversation)| is_there(*turn, *conversation));
        let there = join_all(looks).await;
        let gone = doubtful.iter().zip(there).filter(|(_, is_there)| !is_there);
        let gone = gone.map(|((turn, _), _)| *turn).collect();
        self.forget(user, &gone);
        self.reserve(user, turn).is_none().then(place).ok_or(ErrorCode::UserBusy)
    }

    /// Takes a place. If there is none: whose turn it is to look for one.
    fn reserve(&self, user: &UserId, turn: TurnId) -> Option<Arc<tokio::sync::Mutex<()>>> {
        let mut users = self.users();
        if users.len() >= USERS_REMEMBERED && !users.contains_key(user) {
            users.retain(|_, jobs| jobs.jobs.iter().any(|(_, published)| published.is_none()));
        }
        let jobs = users.entry(user.clone()).or_default();
        if jobs.jobs.len() >= self.limits.jobs_per_user {
            return Some(Arc::clone(&jobs.looking));
        }
        jobs.jobs.push((turn, None));
        None
    }

    fn looked(&self, user: &UserId) -> Option<Instant> {
        self.users().get(user)?.looked
    }

    /// The published jobs, which may be done.
    fn look(&self, user: &UserId) -> Vec<(TurnId, ConversationId)> {
        let mut users = self.users();
        let Some(jobs) = users.get_mut(user) else { return Vec::new() };
        jobs.looked = Some(Instant::now());
        let published =
            jobs.jobs.iter().filter_map(|(turn, conversation)| Some((*turn, (*conversation)?)));
        published.collect()
    }

    fn forget(&self, user: &UserId, gone: &BTreeSet<TurnId>) {
        if let Some(jobs) = self.users().get_mut(user) {
            jobs.jobs.retain(|(turn, _)| !gone.contains(turn));
        }
    }

    fn users(&self) -> MutexGuard<'_, HashMap<UserId, UserJobs>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobPlace {
    /// The job is on the queue: its place is free when it is done.
    pub fn published(mut self, conversation: ConversationId) {
        self.kept = true;
        let mut users = self.app.users();
        let Some(jobs) = users.get_mut(&self.user) else { return };
        if let Some(job) = jobs.jobs.iter_mut().find(|(turn, _)| *turn == self.turn) {
            job.1 = Some(conversation);
        }
    }
}

impl Drop for JobPlace {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let mut users = self.app.users();
        let Some(jobs) = users.get_mut(&self.user) else { return };
        jobs.jobs.retain(|(turn, _)| *turn != self.turn);
        if jobs.jobs.is_empty() {
            users.remove(&self.user);
        }
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let Some((user, counts)) = &self.user else { return };
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                counts.remove(user);
            }
        }
    }
}

#[cfg(test)]
mod tests;
