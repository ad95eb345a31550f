//! Takes one submission: names its turn and conversation, stores `queued`, starts the rest in the background.
use std::sync::Arc;
use std::time::Duration;

use contract::SCHEMA_VERSION;
use contract::control::{SessionAnswer, SessionAsk};
use contract::error_code::ErrorCode;
use contract::event::{Attach, Envelope, Event, Queued};
use contract::ids::{ConversationId, SessionToken, TurnId};
use contract::job::Locale;
use contract::subject::EventAddress;
use gradio::request::{Action, ChatCall};
use shared::bus::control::{self, Asked};
use shared::bus::events;
use shared::runtime::clock;
use shared::runtime::trace::Trace;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::app::App;
use crate::auth::Caller;
use crate::ownership::conversation_for;
use crate::submissions::attach::{self, Found};
use crate::submissions::dispatch::{self, Work};
use crate::submissions::session_token;

/// Python clients wait 5 s for the answer to a join.
const SETTLE_WITHIN: Duration = Duration::from_secs(3);
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

/// Returns the event id, once the session's stream (if there is one) is bound to carry it. Everything that
/// must not be lost with a client's connection runs in a tracked task.
pub async fn submit(app: &Arc<App>, submission: Submission) -> Result<TurnId, ErrorCode> {
    let turn = TurnId(Uuid::now_v7());
    let hash = submission.session_hash.clone().unwrap_or_else(|| turn.to_string());
    let session = session_token(&submission.caller.user, &hash).map_err(|_| ErrorCode::Internal)?;
    if !app.bus.is_connected() {
        return Err(ErrorCode::Unavailable);
    }
    let (answer, queued) = oneshot::channel();
    let accepting =
        accept(app.clone(), submission, hash, EventSlot { turn, session: session.clone() }, answer);
    app.shutdown.spawn("submission", accepting);
    queued.await.map_err(|_| ErrorCode::Unavailable)?;
    settle(app, &session, turn).await;
    Ok(turn)
}

/// An answered join promises that its frames will be read: by the open stream, or by one that the client
/// opens after it has seen the old one closed.
async fn settle(app: &App, session: &SessionToken, turn: TurnId) {
    let ask = SessionAsk::Join { turn_id: turn };
    let until = Instant::now() + SETTLE_WITHIN;
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

/// Where a submission's own events go, but for the conversation.
struct EventSlot {
    turn: TurnId,
    session: SessionToken,
}

/// The conversation and what is to be done in it.
struct Plan {
    conversation: ConversationId,
    attach: Option<Attach>,
    work: Work,
}

/// The answer's sender is dropped without a word when nothing could be stored.
async fn accept(
    app: Arc<App>,
    submission: Submission,
    session_hash: String,
    slot: EventSlot,
    answer: oneshot::Sender<()>,
) {
    let plan = plan(&app, &submission).await;
    let EventSlot { turn, session } = slot;
    let queued = Queued {
        user_id: submission.caller.user.clone(),
        session_hash,
        conversation_ref: submission.call.conversation.clone(),
        ahead: 0,
        attach: plan.attach,
    };
    let envelope = Envelope {
        v: SCHEMA_VERSION,
        turn_id: turn,
        attempt: 0,
        n: 0,
        event: Event::Queued(queued),
        ts: clock::rfc3339(clock::now()),
    };
    let stored = events::publish_unfenced(
        &app.bus,
        plan.conversation,
        &session,
        &envelope,
        &submission.trace,
    )
    .await;
    if let Err(error) = stored {
        tracing::error!(turn.id = %turn, %error, "Can't queue turn {turn}: {error}");
        return;
    }
    let _ = answer.send(());
    let address = EventAddress { conversation: plan.conversation, session, turn };
    dispatch::dispatch(&app, submission, address, plan.work).await;
}

async fn plan(app: &App, submission: &Submission) -> Plan {
    let refused = |code: ErrorCode| Plan {
        // Nothing of a refusal may show up in a conversation that isn't the caller's.
        conversation: ConversationId(Uuid::new_v4()),
        attach: None,
        work: Work::Refuse(code),
    };
    let conversation = match conversation(app, submission).await {
        Ok(conversation) => conversation,
        Err(code) => return refused(code),
    };
    let plan = |work: Work| Plan { conversation, attach: None, work };
    match submission.call.action {
        Action::Attach { after } => match attach::find(app, submission, conversation).await {
            Ok(Found::Turn { turn_id, session }) => {
                let attach = Attach { turn_id, session, after };
                Plan { conversation, attach: Some(attach), work: Work::Nothing }
            }
            Ok(Found::Stored { text }) => plan(Work::Tell { text, after }),
            Err(code) => plan(Work::Refuse(code)),
        },
        Action::None | Action::Unknown
            if submission.call.text.trim().is_empty() && submission.call.files.is_empty() =>
        {
            plan(Work::Refuse(ErrorCode::BadRequest))
        }
        Action::None
        | Action::Unknown
        | Action::Confirm { .. }
        | Action::Deny { .. }
        | Action::Resume => plan(Work::Job),
    }
}

/// The conversation's id, if it is the caller's or nobody's so far.
async fn conversation(app: &App, submission: &Submission) -> Result<ConversationId, ErrorCode> {
    match &submission.call.conversation {
        Some(reference) => conversation_for(app, &submission.caller.user, reference).await,
        None => Ok(ConversationId(Uuid::new_v4())),
    }
}
