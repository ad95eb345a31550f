//! ⑤ The story of one job: lease → load → drive → terminal event.
use std::time::Duration;

use agent::effect::Effect;
use agent::run::Run;
use contract::error_code::ErrorCode;
use contract::event::Event;
use contract::job::{Job, JobKind};
use contract::{limits, subject, text};
use shared::bus::control::CancelWatch;
use shared::bus::dead_letter;
use shared::bus::events::{self, Publisher};
use shared::bus::jobs::{Ack, Delivery};
use shared::runtime::clock;
use shared::store::lease;
use shared::store::turns::{self, BeginTurn, Begun, SavedRun, Started};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, error, info, info_span, warn};

use crate::app::App;
use crate::context;
use crate::driver::emit::Emitter;
use crate::driver::{Driver, Signals, Stop, Turn};

mod decision;
mod refusal;

/// How a job ended, as far as the queue is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its terminal event is out: remove it.
    Done,
    /// Somebody else holds the conversation, or something is down: bring it again after this long.
    Later(Duration),
    /// It can never be run, and has no conversation to tell.
    Unusable,
    /// The lease is another worker's: touch nothing.
    Lost,
}

/// A job comes back so soon when a store or the bus was down.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What the story needs of a delivery.
struct Story<'a> {
    app: &'a App,
    job: &'a Job,
    delivery: &'a Delivery,
    hand_over: CancellationToken,
    arrived: Instant,
}

pub async fn run(app: &App, delivery: &Delivery, hand_over: CancellationToken) -> Outcome {
    let job = match &delivery.payload {
        Ok(job) => job,
        Err(problem) => return unreadable(app, delivery, problem).await,
    };
    let span = info_span!("turn", turn.id = %job.turn_id, conversation.id = %job.conversation_id);
    let story = Story { app, job, delivery, hand_over, arrived: Instant::now() };
    async {
        match story.tell().await {
            Ok(outcome) => outcome,
            Err(Stop::Fenced) => {
                warn!("Another worker has taken this conversation over; this one stops");
                Outcome::Lost
            }
            Err(Stop::HandOver) => Outcome::Later(Duration::ZERO),
            Err(Stop::Unavailable(error)) => {
                error!(
                    error = format!("{error:#}"),
                    "The turn could not go on; its job comes back"
                );
                Outcome::Later(RETRY_AFTER)
            }
        }
    }
    .instrument(span)
    .await
}

async fn unreadable(app: &App, delivery: &Delivery, problem: &str) -> Outcome {
    error!(problem, "A job can't be read; it goes to the dead letters");
    match dead_letter::publish_unreadable(&app.bus, delivery.conversation, &delivery.raw, problem)
        .await
    {
        Ok(()) => Outcome::Unusable,
        Err(_) => Outcome::Later(RETRY_AFTER),
    }
}

impl Story<'_> {
    async fn tell(&self) -> Result<Outcome, Stop> {
        let (bus, job) = (&self.app.bus, self.job);
        let (begun, publisher, cancel) = tokio::join!(
            self.begin(),
            Publisher::open(bus, job.conversation_id, &job.session, job.turn_id),
            CancelWatch::open(bus, job.turn_id)
        );
        debug!(elapsed_us = elapsed_us(self.arrived), "Turn begun");
        let begun = begun.map_err(|error| {
            Stop::Unavailable(anyhow::Error::new(error).context("beginning a turn"))
        })?;
        let publisher = publisher.map_err(unavailable)?;
        let cancel = cancel.map_err(unavailable)?;
        match begun {
            Begun::Started(started) => self.started(*started, publisher, cancel).await,
            Begun::LeaseHeld => Ok(Outcome::Later(self.app.config.timing.lease / 5)),
            Begun::Finished { outbox } => self.finished(outbox, publisher).await,
            Begun::NotOwner => self.refuse(publisher, ErrorCode::NotFound).await,
            Begun::Archived if job.kind == JobKind::Message => {
                self.refuse(publisher, ErrorCode::NotFound).await
            }
            Begun::Archived => self.refuse(publisher, ErrorCode::CheckpointExpired).await,
            Begun::UserBusy => self.refuse(publisher, ErrorCode::UserBusy).await,
            Begun::Poisoned { attempt, epoch } => self.poisoned(attempt, epoch, publisher).await,
        }
    }

    async fn begin(&self) -> Result<Begun, shared::store::Error> {
        let (config, job) = (&self.app.config, self.job);
        if self.is_expired() {
            return Ok(Begun::Finished { outbox: refusal::expired(job) });
        }
        let title = refusal::title(job);
        let begin = BeginTurn {
            turn: job.turn_id,
            conversation: job.conversation_id,
            reference: job.conversation_ref.as_deref(),
            user: &job.user_id,
            kind: &job.kind,
            text: &text::truncate_message(&job.text),
            files: &job.files,
            title: &title,
            owner: &config.name,
            lease_ttl: config.timing.lease,
            max_attempts: limits::ATTEMPTS_PER_TURN,
            turns_per_user: config.turns_per_user,
            now: clock::now(),
        };
        turns::begin(&self.app.pool, &begin).await
    }

    fn is_expired(&self) -> bool {
        clock::parse(&self.job.expires_at).is_ok_and(|expires_at| expires_at < clock::now())
            && self.delivery.deliveries == 1
    }

    /// From here on the conversation is ours as long as the lease is renewed.
    async fn started(
        &self,
        started: Started,
        publisher: Publisher,
        cancel: CancelWatch,
    ) -> Result<Outcome, Stop> {
        let epoch = started.epoch;
        let attempt = started.attempt;
        let result = tokio::select! {
            biased;
            // On the heap: a turn's state is large, and this future is moved about.
            result = Box::pin(self.turn(started, publisher, cancel)) => result,
            () = self.hold(&self.delivery.ack, epoch) => Err(Stop::Fenced),
        };
        match &result {
            Ok(()) => info!(attempt, duration_ms = duration_ms(self.arrived), "Turn ended"),
            Err(Stop::Fenced) => {}
            Err(Stop::HandOver | Stop::Unavailable(_)) => self.release(epoch).await,
        }
        result.map(|()| Outcome::Done)
    }

    /// Renews the lease, and only then the job's ack wait. Returns when the lease is lost, or can't be proved any more.
    async fn hold(&self, ack: &Ack, epoch: i64) {
        let timing = &self.app.config.timing;
        let mut proved = Instant::now();
        loop {
            tokio::time::sleep(timing.heartbeat).await;
            let asked = Instant::now();
            let renewal =
                lease::renew(&self.app.pool, self.job.conversation_id, epoch, timing.lease);
            match tokio::time::timeout(timing.heartbeat, renewal).await {
                Ok(Ok(true)) => {
                    proved = asked;
                    if let Err(error) = ack.progress().await {
                        warn!(error = format!("{error:#}"), "The job's in-progress signal failed");
                    }
                }
                Ok(Ok(false)) => return,
                Ok(Err(_)) | Err(_) if proved.elapsed() >= timing.lease => return,
                Ok(Err(_)) | Err(_) => warn!("The lease could not be renewed; trying again"),
            }
        }
    }

    async fn release(&self, epoch: i64) {
        if let Err(error) = lease::release(&self.app.pool, self.job.conversation_id, epoch).await {
            warn!(error = format!("{error:#}"), "The lease could not be released; it will expire");
        }
    }

    async fn turn(
        &self,
        started: Started,
        publisher: Publisher,
        cancel: CancelWatch,
    ) -> Result<(), Stop> {
        let attempt = started.attempt;
        let (mut emitter, tail) = self.announce(publisher, attempt).await?;
        debug!(elapsed_us = elapsed_us(self.arrived), "Turn announced");
        let turn = self.bind(&started);
        let mut signals = Signals { cancel, hand_over: self.hand_over.clone() };
        match &started.checkpoint {
            Some(saved) if saved.turn_id == self.job.turn_id => {
                let run = restore(saved)?;
                self.rewind(&mut emitter, tail, saved.cursor).await?;
                let effects = run.recover();
                Driver::new(turn, run, emitter, Vec::new()).drive(effects, &mut signals).await
            }
            Some(_) | None => {
                if attempt > 1 {
                    let from = self.first_seq().await?;
                    self.rewind(&mut emitter, tail, from).await?;
                }
                match self.job.kind {
                    JobKind::Message => {
                        Box::pin(self.message(turn, started, emitter, &mut signals)).await
                    }
                    JobKind::Confirm { .. } | JobKind::Deny { .. } => {
                        Box::pin(decision::decide(turn, started, emitter, &mut signals)).await
                    }
                    JobKind::Resume => {
                        Box::pin(decision::resume(turn, started, emitter, &mut signals)).await
                    }
                }
            }
        }
    }

    /// Takes the turn's events over; also says where they ended before.
    async fn announce(&self, publisher: Publisher, attempt: u32) -> Result<(Emitter, u64), Stop> {
        let announcement = Event::Attempt { attempt, worker: self.app.config.name.clone() };
        let tail = publisher.last_seq();
        let mut emitter = self.emitter(publisher, attempt);
        match emitter.emit(announcement.clone()).await {
            Ok(()) => return Ok((emitter, tail)),
            Err(Stop::Fenced) => {}
            Err(stop @ (Stop::Unavailable(_) | Stop::HandOver)) => return Err(stop),
        }
        // An event of the worker before us came in between; the lease is ours, so it was its last.
        let mut emitter = self.reopened(attempt).await?;
        let tail = emitter.cursor();
        emitter.emit(announcement).await?;
        Ok((emitter, tail))
    }

    async fn message(
        &self,
        turn: Turn,
        mut started: Started,
        mut emitter: Emitter,
        signals: &mut Signals,
    ) -> Result<(), Stop> {
        let audit = decision::close_paused_run(&turn, &mut started, &mut emitter).await?;
        let (begin, user_cut) = context::gather(self.app, self.job, &started).await;
        debug!(elapsed_us = elapsed_us(self.arrived), "Context gathered");
        if user_cut {
            emitter.emit(refusal::cut_warning(begin.locale)).await?;
        }
        for warning in refusal::file_warnings(self.job) {
            emitter.emit(warning).await?;
        }
        let (run, effects): (Run, Vec<Effect>) = Run::begin(begin);
        Driver::new(turn, run, emitter, audit).drive(effects, signals).await
    }

    fn bind(&self, started: &Started) -> Turn {
        let job = self.job;
        let opened =
            job.user_token.as_deref().map(|sealed| self.app.sealer.open(job.turn_id, sealed));
        let token = match opened {
            Some(Ok(token)) => Some(token),
            Some(Err(error)) => {
                warn!(error = %error, "The user's token can't be opened; tools will ask for a new one");
                None
            }
            None => None,
        };
        let age = clock::parse(&job.created_at).map_or(Duration::ZERO, |created_at| {
            Duration::try_from(clock::now() - created_at).unwrap_or_default()
        });
        Turn {
            app: self.app.clone(),
            job: job.clone(),
            epoch: started.epoch,
            token,
            trace: self.delivery.trace.child(),
            queue: age.saturating_sub(self.arrived.elapsed()),
            started: self.arrived,
        }
    }

    fn emitter(&self, publisher: Publisher, attempt: u32) -> Emitter {
        let coalesce = self.app.config.timing.coalesce;
        Emitter::new(publisher, self.job.turn_id, attempt, self.delivery.trace.child(), coalesce)
    }

    async fn reopened(&self, attempt: u32) -> Result<Emitter, Stop> {
        let job = self.job;
        let publisher =
            Publisher::open(&self.app.bus, job.conversation_id, &job.session, job.turn_id).await;
        Ok(self.emitter(publisher.map_err(unavailable)?, attempt))
    }

    /// Withdraws what came after `cursor` from the worker before us.
    async fn rewind(&self, emitter: &mut Emitter, tail: u64, cursor: u64) -> Result<(), Stop> {
        if tail <= cursor {
            return Ok(());
        }
        emitter.emit(Event::Rewind { to_cursor: cursor.to_string() }).await
    }

    async fn first_seq(&self) -> Result<u64, Stop> {
        let job = self.job;
        let filter = subject::event(job.conversation_id, &job.session, job.turn_id);
        let first = events::first(&self.app.bus, &filter).await.map_err(unavailable)?;
        Ok(first.map_or(0, |stored| stored.seq))
    }
}

fn elapsed_us(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn duration_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn restore(saved: &SavedRun) -> Result<Run, Stop> {
    serde_json::from_value(saved.run.clone()).map_err(|error| {
        Stop::Unavailable(anyhow::Error::new(error).context("reading a checkpoint"))
    })
}

fn unavailable(error: shared::bus::Error) -> Stop {
    Stop::Unavailable(anyhow::Error::new(error))
}
