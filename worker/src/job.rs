//! ⑤ The story of one job: lease → load → drive → terminal event.
use std::pin::pin;
use std::time::Duration;

use agent::effect::Effect;
use agent::input::Input;
use agent::run::Run;
use contract::error_code::ErrorCode;
use contract::event::Event;
use contract::job::{Job, JobKind};
use contract::{limits, subject, text};
use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture, Either};
use shared::bus::control::CancelWatch;
use shared::bus::events::{self, Publisher};
use shared::bus::jobs::Delivery;
use shared::bus::{self, dead_letter};
use shared::runtime::clock;
use shared::runtime::telemetry::{self, attr};
use shared::runtime::trace::Trace;
use shared::store::lease;
use shared::store::turns::{self, BeginTurn, Begun, SavedRun, Started};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span, debug, error, info, info_span, warn};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::app::App;
use crate::attachments::{self, Files};
use crate::context;
use crate::driver::emit::Emitter;
use crate::driver::{Driver, Signals, Stop, Turn};
use crate::lease::Lease;
use crate::metrics;

mod decision;
mod hold;
mod poison;
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
/// A gateway never gives a job up sooner after it made it.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(250);
/// A held lease may be given back early: so often somebody looks.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// A lease that is to end now has ended then.
const AT_ONCE: Duration = Duration::from_millis(20);

/// The turn's events and its cancel, on their way.
type Opened<'a> = BoxFuture<'a, (Result<Publisher, bus::Error>, Result<CancelWatch, bus::Error>)>;

/// What the story needs of a delivery.
struct Story<'a> {
    app: &'a App,
    job: &'a Job,
    delivery: &'a Delivery,
    hand_over: CancellationToken,
    /// Where the story stands in the job's trace.
    trace: Trace,
    arrived: Instant,
}

pub async fn run(app: &App, delivery: &Delivery, hand_over: CancellationToken) -> Outcome {
    let job = match &delivery.payload {
        Ok(job) => job,
        Err(problem) => return unreadable(app, delivery, problem).await,
    };
    let span = info_span!(
        "turn",
        otel.name = "process agent.v1.job",
        otel.kind = "consumer",
        turn.id = %job.turn_id,
        conversation.id = %job.conversation_id
    );
    delivery.trace.adopt(&span);
    span.set_attribute(attr::MESSAGING, "nats");
    span.set_attribute(attr::MESSAGING_OPERATION, "process");
    span.set_attribute(attr::OPERATION, "invoke_agent");
    span.set_attribute(attr::CONVERSATION, job.conversation_id.to_string());
    span.set_attribute(attr::TURN, job.turn_id.to_string());
    let trace = delivery.trace.within(&span);
    let story = Story { app, job, delivery, hand_over, trace, arrived: Instant::now() };
    if delivery.deliveries > 1 {
        metrics::REDELIVERIES.add(1, &[]);
    }
    let outcome = async {
        match story.tell().await {
            Ok(outcome) => outcome,
            Err(Stop::Fenced) => {
                warn!("Another worker has taken this conversation over; this one stops");
                Outcome::Lost
            }
            Err(Stop::Unproved) => {
                warn!("This worker can't prove that the turn is its own; it stops");
                Outcome::Lost
            }
            Err(Stop::HandOver) => Outcome::Later(Duration::ZERO),
            Err(Stop::Unavailable(error) | Stop::Broken(error)) => {
                error!(
                    error = format!("{error:#}"),
                    "The turn could not go on; its job comes back"
                );
                Outcome::Later(RETRY_AFTER)
            }
        }
    }
    .instrument(span)
    .await;
    if outcome == Outcome::Lost {
        metrics::FENCED.add(1, &[]);
    }
    outcome
}

async fn unreadable(app: &App, delivery: &Delivery, problem: &str) -> Outcome {
    error!(problem, "A job can't be read; it goes to the dead letters");
    match dead_letter::publish_unreadable(&app.bus, delivery.conversation, &delivery.raw, problem)
        .await
    {
        Ok(()) => {
            metrics::DEAD_LETTERS.add(1, &metrics::label("reason", metrics::UNREADABLE));
            Outcome::Unusable
        }
        Err(_) => Outcome::Later(RETRY_AFTER),
    }
}

impl Story<'_> {
    async fn tell(&self) -> Result<Outcome, Stop> {
        let (bus, job) = (&self.app.bus, self.job);
        let open = || Publisher::open(bus, job.conversation_id, &job.session, job.turn_id);
        // A gateway that gave the job up has waited longer than that: then a look costs less than a beginning.
        if self.age() > GIVEN_UP_AFTER && has_ended(&open().await.map_err(unavailable)?) {
            info!("The turn has ended before; its job goes");
            return Ok(Outcome::Done);
        }
        let lease = Lease::new(Instant::now(), self.app.config.timing.lease);
        let opened: Opened<'_> =
            Box::pin(future::join(open(), CancelWatch::open(bus, job.turn_id)));
        // Side by side; but a lease that is taken is looked after at once, even if the bus takes its time.
        let (begun, opened) = match future::select(pin!(self.begin()), opened).await {
            Either::Left((begun, opened)) => (begun?, opened),
            Either::Right((opened, begun)) => (begun.await?, future::ready(opened).boxed()),
        };
        debug!(elapsed_us = elapsed_us(self.arrived), "Turn begun");
        match begun {
            Begun::Started(started) => {
                let (epoch, attempt) = (started.epoch, started.attempt);
                let turn = Box::pin(self.turn(*started, &lease, opened));
                self.own(epoch, &lease, turn).await?;
                info!(attempt, duration_ms = duration_ms(self.arrived), "Turn ended");
                Ok(Outcome::Done)
            }
            Begun::LeaseHeld => self.until_free().await,
            Begun::Finished { outbox } => self.finished(outbox, opened).await,
            Begun::NotOwner => self.refuse(opened, ErrorCode::NotFound).await,
            Begun::Archived if job.kind == JobKind::Message => {
                self.refuse(opened, ErrorCode::NotFound).await
            }
            Begun::Archived => self.refuse(opened, ErrorCode::CheckpointExpired).await,
            Begun::UserBusy => self.refuse(opened, ErrorCode::UserBusy).await,
            Begun::Poisoned { attempt, epoch, checkpoint } => {
                let ending = Box::pin(self.poisoned((attempt, epoch), &lease, checkpoint, opened));
                self.own(epoch, &lease, ending).await
            }
        }
    }

    /// Bounded by the time the job is ours without a sign of life, with room to withdraw.
    async fn begin(&self) -> Result<Begun, Stop> {
        let (app, job) = (self.app, self.job);
        let ack_wait = app.config.timing.ack_wait;
        let begun = tokio::time::timeout_at(self.arrived + ack_wait / 3 * 2, self.ask()).await;
        let error = match begun.unwrap_or(Err(shared::store::Error::TimedOut)) {
            Ok(begun) => return Ok(begun),
            Err(error) => error,
        };
        app.doubt.raise();
        let unheard =
            lease::give_back_unheard(&app.pool, job.conversation_id, job.turn_id, &app.config.name);
        let _ = tokio::time::timeout(ack_wait / 6, unheard).await;
        Err(stored(error, "beginning a turn"))
    }

    async fn ask(&self) -> Result<Begun, shared::store::Error> {
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

    /// The job is here and its lease is held: by a worker that lives, or by one that died a moment ago.
    async fn until_free(&self) -> Result<Outcome, Stop> {
        let remaining = lease::remaining(&self.app.pool, self.job.conversation_id)
            .await
            .map_err(|error| stored(error, "looking at a lease"))?;
        Ok(Outcome::Later((remaining + AT_ONCE).min(LOOK_AGAIN)))
    }

    async fn turn(&self, started: Started, lease: &Lease, opened: Opened<'_>) -> Result<(), Stop> {
        let (publisher, cancel) = opened.await;
        let publisher = publisher.map_err(unavailable)?;
        let cancel = cancel.map_err(unavailable)?;
        let attempt = started.attempt;
        let Some((mut emitter, tail)) = self.announce(publisher, attempt).await? else {
            return self.withdraw(started.epoch, lease).await;
        };
        debug!(elapsed_us = elapsed_us(self.arrived), "Turn announced");
        let turn = self.bind(&started, lease);
        if attempt == 1 {
            metrics::QUEUE_WAIT.record(turn.queue.as_secs_f64(), &[]);
        }
        Span::current().set_attribute(attr::ATTEMPT, i64::from(attempt));
        self.link_to_the_paused_turn(&started).await;
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

    /// Takes the turn's events over; also says where they ended before. `None`: nothing may follow them. From here on
    /// the fence keeps out whatever the worker before us has under way; what came in until now is behind us.
    async fn announce(
        &self,
        publisher: Publisher,
        attempt: u32,
    ) -> Result<Option<(Emitter, u64)>, Stop> {
        if has_ended(&publisher) {
            return Ok(None);
        }
        let announcement = Event::Attempt { attempt, worker: self.app.config.name.clone() };
        let mut emitter = self.emitter(publisher, attempt);
        match emitter.emit(announcement.clone()).await {
            Ok(()) => {}
            Err(Stop::Fenced) => {
                // By the gateway, which gave the turn up. Or by an event of the same attempt, as the database forgot
                // one: the lease is ours, so it was its last.
                let publisher = self.reopened().await?;
                if has_ended(&publisher) {
                    return Ok(None);
                }
                emitter = self.emitter(publisher, attempt);
                emitter.emit(announcement).await?;
            }
            Err(
                stop @ (Stop::Unproved | Stop::Unavailable(_) | Stop::Broken(_) | Stop::HandOver),
            ) => return Err(stop),
        }
        let tail = emitter.previous();
        Ok(Some((emitter, tail)))
    }

    async fn message(
        &self,
        turn: Turn,
        mut started: Started,
        mut emitter: Emitter,
        signals: &mut Signals,
    ) -> Result<(), Stop> {
        let audit = decision::close_paused_run(&turn, &mut started, &mut emitter).await?;
        let before = context::newest_files(&started);
        let reading = Box::pin(attachments::read(self.app, self.job, started.epoch, before));
        let (files, cancelled) = tokio::select! {
            biased;
            _ = signals.cancel.cancelled() => (Files::default(), true),
            () = signals.hand_over.cancelled() => return Err(Stop::HandOver),
            files = reading => (files?, false),
        };
        let gathered = context::gather(self.app, self.job, &started, &files).await?;
        debug!(elapsed_us = elapsed_us(self.arrived), "Context gathered");
        let locale = gathered.begin.locale;
        if gathered.user_cut {
            emitter.emit(refusal::cut_warning(locale)).await?;
        }
        let takes_pictures = self.app.config.model.images;
        for warning in files.warnings(locale, takes_pictures, &gathered.files_cut) {
            emitter.emit(warning).await?;
        }
        let (mut run, mut effects): (Run, Vec<Effect>) = Run::begin(gathered.begin);
        if cancelled {
            effects = run.handle(Input::Cancel).map_err(|error| Stop::Broken(error.into()))?;
        }
        Driver::new(turn, run, emitter, audit).drive(effects, signals).await
    }

    fn bind(&self, started: &Started, lease: &Lease) -> Turn {
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
        Turn {
            app: self.app.clone(),
            job: job.clone(),
            epoch: started.epoch,
            lease: lease.clone(),
            token,
            trace: self.trace.clone(),
            queue: self.age().saturating_sub(self.arrived.elapsed()),
            started: self.arrived,
        }
    }

    /// A decision comes in a request, and so in a trace, of its own; a link leads to the turn that asked for it.
    async fn link_to_the_paused_turn(&self, started: &Started) {
        let Some(saved) = &started.checkpoint else { return };
        let span = Span::current();
        if saved.turn_id == self.job.turn_id || !telemetry::is_recorded(&span) {
            return;
        }
        let last = events::last(&self.app.bus, &subject::events_of_turn(saved.turn_id)).await;
        if let Ok(Some(last)) = last {
            last.trace.link(&span);
        }
    }

    fn age(&self) -> Duration {
        clock::parse(&self.job.created_at).map_or(Duration::ZERO, |created_at| {
            Duration::try_from(clock::now() - created_at).unwrap_or_default()
        })
    }

    fn emitter(&self, publisher: Publisher, attempt: u32) -> Emitter {
        let coalesce = self.app.config.timing.coalesce;
        Emitter::new(publisher, self.job.turn_id, attempt, self.trace.clone(), coalesce)
    }

    async fn reopened(&self) -> Result<Publisher, Stop> {
        let job = self.job;
        let publisher =
            Publisher::open(&self.app.bus, job.conversation_id, &job.session, job.turn_id).await;
        publisher.map_err(unavailable)
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

/// Nothing comes after a `turn_end`, whoever wrote it.
fn has_ended(publisher: &Publisher) -> bool {
    publisher.tail().is_some_and(|tail| tail.envelope.event.is_terminal())
}

fn elapsed_us(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn duration_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn restore(saved: &SavedRun) -> Result<Run, Stop> {
    serde_json::from_value(saved.run.clone())
        .map_err(|error| Stop::Broken(anyhow::Error::new(error).context("reading a checkpoint")))
}

fn stored(error: shared::store::Error, doing: &'static str) -> Stop {
    let outage = error.is_outage();
    let error = anyhow::Error::new(error).context(doing);
    if outage { Stop::Unavailable(error) } else { Stop::Broken(error) }
}

fn unavailable(error: bus::Error) -> Stop {
    Stop::Unavailable(anyhow::Error::new(error))
}
