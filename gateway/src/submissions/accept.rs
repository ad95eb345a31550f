//! Takes one submission: names its turn, stores `queued`, starts the rest in the background.
use std::sync::Arc;
use std::time::Duration;

use contract::SCHEMA_VERSION;
use contract::control::{SessionAnswer, SessionAsk};
use contract::error_code::ErrorCode;
use contract::event::{Envelope, Event, Queued};
use contract::ids::{SessionToken, TurnId};
use contract::job::Locale;
use contract::subject::EventAddress;
use gradio::request::{Action, ChatCall};
use shared::bus::control::{self, Asked};
use shared::bus::events::{self, Placed};
use shared::runtime::clock;
use shared::runtime::trace::Trace;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::app::App;
use crate::auth::Caller;
use crate::load::JobPlace;
use crate::submissions::dispatch::{self, Work};
use crate::submissions::plan::{Plan, plan};
use crate::submissions::{attach, repeat, session_token};

/// Python clients wait 5 s for the answer to a join. A submission that is not stored by then is refused.
const STORED_WITHIN: Duration = Duration::from_secs(3);
const ANSWERED_WITHIN: Duration = Duration::from_millis(4_300);
/// A closed stream may be known to have been seen sooner than it says.
const SETTLE_POLL: Duration = Duration::from_millis(25);

/// What a client submitted, and who it is.
#[derive(Clone, Debug)]
pub struct Submission {
    pub caller: Caller,
    /// `None`: the plain call API, where the event's id stands for the session.
    pub session_hash: Option<String>,
    pub call: ChatCall,
    /// Of the request's headers; the message itself may say more.
    pub locale: Locale,
    pub trace: Trace,
}

/// A submission whose `queued` is stored, and what is left to do.
pub struct Taken {
    pub event: EventSlot,
    pub pending: Option<(EventAddress, Work)>,
    /// Where the job is counted.
    pub place: Option<JobPlace>,
}

/// Where a submission's own events go, but for the conversation.
#[derive(Clone, Debug)]
pub struct EventSlot {
    pub turn: TurnId,
    pub session: SessionToken,
    pub session_hash: String,
}

/// Returns the event id, once the session's stream (if there is one) is bound to carry it. Everything that
/// must not be lost with a client's connection runs in a tracked task.
pub async fn submit(app: &Arc<App>, submission: Submission) -> Result<TurnId, ErrorCode> {
    if app.shutdown.token().is_cancelled() {
        return Err(ErrorCode::Unavailable);
    }
    // Who attaches comes from a stream that broke, perhaps with NATS.
    let is_attach = matches!(submission.call.action, Action::Attach { .. });
    let patience = if is_attach { attach::NATS_WITHIN } else { Duration::ZERO };
    if !app.bus.connected_within(patience).await {
        return Err(ErrorCode::Unavailable);
    }
    let until = Instant::now() + ANSWERED_WITHIN;
    let room = app.load.memory(submission.call.text.len()).ok_or(ErrorCode::QueueFull)?;
    let (answer, taken) = oneshot::channel();
    let accepting = accept(app.clone(), submission, answer);
    app.shutdown.spawn("submission", async move {
        accepting.await;
        drop(room);
    });
    let EventSlot { turn, session, .. } = taken.await.map_err(|_| ErrorCode::Unavailable)??;
    settle(app, &session, turn, until).await;
    Ok(turn)
}

/// An answered join promises that its frames will be read: by the open stream, or by one that the client
/// opens after it has seen the old one closed.
async fn settle(app: &App, session: &SessionToken, turn: TurnId, until: Instant) {
    let ask = SessionAsk::Join { turn_id: turn };
    while Instant::now() < until {
        let wait = match control::ask_session(&app.bus, session, &ask).await {
            Asked::NoOwner
            | Asked::Answer(SessionAnswer::Open | SessionAnswer::Released { .. }) => {
                return;
            }
            Asked::Answer(SessionAnswer::Closed { wait_ms: 0 }) => return,
            Asked::Answer(SessionAnswer::Closed { wait_ms }) => Duration::from_millis(wait_ms),
            Asked::Timeout => SETTLE_POLL,
        };
        tokio::time::sleep(wait.min(SETTLE_POLL)).await;
    }
    tracing::warn!(turn.id = %turn, "The join of turn {turn} is answered without knowing who will read it");
}

/// What is not stored in time is refused, and then has no job.
async fn accept(
    app: Arc<App>,
    submission: Submission,
    answer: oneshot::Sender<Result<EventSlot, ErrorCode>>,
) {
    let taking = tokio::time::timeout(STORED_WITHIN, Box::pin(take(&app, &submission)));
    match taking.await.unwrap_or(Err(ErrorCode::Unavailable)) {
        Ok(Taken { event, pending, place }) => {
            let _ = answer.send(Ok(event));
            if let Some((address, work)) = pending {
                dispatch::dispatch(&app, submission, (address, work), place).await;
            }
        }
        Err(code) => {
            tracing::info!(code = code.as_str(), "Refused a submission: {}", code.as_str());
            let _ = answer.send(Err(code));
        }
    }
}

async fn take(app: &App, submission: &Submission) -> Result<Taken, ErrorCode> {
    let call = &submission.call;
    match (&call.message_id, &submission.session_hash) {
        _ if matches!(call.action, Action::Attach { .. }) => take_new(app, submission).await,
        (Some(id), _) => repeat::take_named(app, submission, id).await,
        (None, Some(_)) => repeat::take_unnamed(app, submission).await,
        (None, None) => take_new(app, submission).await,
    }
}

async fn take_new(app: &App, submission: &Submission) -> Result<Taken, ErrorCode> {
    let slot = slot(submission, fresh())?;
    let plan = plan(app, submission, slot.turn).await;
    take_as(app, submission, slot, plan).await
}

/// Stores a `queued` that can't have been stored before.
pub async fn take_as(
    app: &App,
    submission: &Submission,
    slot: EventSlot,
    plan: Plan,
) -> Result<Taken, ErrorCode> {
    let place = admit(app, submission, (slot.turn, &plan)).await?;
    let queueing = Queueing { slot: &slot, plan: &plan, digest: None, repeats: None };
    queue(app, submission, queueing).await?;
    Ok(Taken::new(slot, plan, place))
}

impl Taken {
    pub fn new(event: EventSlot, plan: Plan, place: Option<JobPlace>) -> Self {
        let (conversation, session) = (plan.conversation, event.session.clone());
        let address = EventAddress { conversation, session, turn: event.turn };
        Self { event, pending: Some((address, plan.work)), place }
    }
}

/// Before anything is stored: a user's jobs must not fill the queue.
pub async fn admit(
    app: &App,
    submission: &Submission,
    (turn, plan): (TurnId, &Plan),
) -> Result<Option<JobPlace>, ErrorCode> {
    match plan.work {
        Work::Job => app.load.job(&app.bus, &submission.caller.user, turn).await.map(Some),
        Work::Nothing | Work::Tell { .. } | Work::Refuse(_) => Ok(None),
    }
}

pub fn fresh() -> TurnId {
    TurnId(Uuid::now_v7())
}

/// Where the events of this turn go, if it is the submission's own.
pub fn slot(submission: &Submission, turn: TurnId) -> Result<EventSlot, ErrorCode> {
    let session_hash = submission.session_hash.clone().unwrap_or_else(|| turn.to_string());
    let session = session_token(&submission.caller.user, &session_hash);
    Ok(EventSlot { turn, session: session.map_err(|_| ErrorCode::Internal)?, session_hash })
}

/// One `queued` to be stored.
pub struct Queueing<'a> {
    pub slot: &'a EventSlot,
    pub plan: &'a Plan,
    pub digest: Option<String>,
    /// The message id that it shares with its repeats; its own if `None`.
    pub repeats: Option<&'a str>,
}

pub async fn queue(
    app: &App,
    submission: &Submission,
    queueing: Queueing<'_>,
) -> Result<Placed, ErrorCode> {
    let Queueing { slot, plan, digest, repeats } = queueing;
    let EventSlot { turn, session, session_hash } = slot.clone();
    let queued = Queued {
        user_id: submission.caller.user.clone(),
        session_hash,
        conversation_ref: submission.call.conversation.clone(),
        ahead: 0,
        attach: plan.attach.clone(),
        digest,
    };
    let envelope = Envelope {
        v: SCHEMA_VERSION,
        turn_id: turn,
        attempt: 0,
        n: 0,
        event: Event::Queued(queued),
        ts: clock::rfc3339(clock::now()),
    };
    let address = EventAddress { conversation: plan.conversation, session, turn };
    let placing =
        events::publish_queued(&app.bus, &address, &envelope, repeats, &submission.trace).await;
    placing.map_err(|error| {
        tracing::error!(turn.id = %turn, %error, "Can't queue turn {turn}: {error}");
        ErrorCode::Unavailable
    })
}
