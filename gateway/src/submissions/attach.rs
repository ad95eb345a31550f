//! Which turn an `attach` shows: the live one of the conversation, else the last one that the log still has, else
//! what the database knows of the last one.
use std::time::Duration;

use contract::error_code::ErrorCode;
use contract::event::{Event, TurnEnd, TurnStatus};
use contract::ids::{ConversationId, SessionToken, TurnId, UserId};
use contract::{limits, subject, text};
use shared::bus::events::{self, MultiLastError, Stored};
use shared::bus::{self, jobs};
use shared::store;
use shared::store::messages::{self, Finish};
use shared::store::turns::{self, StoredTurn};
use tokio::time::Instant;
use uuid::Uuid;

use crate::app::App;

/// A restart of NATS fits in.
pub const NATS_WITHIN: Duration = Duration::from_secs(2);
const NATS_PAUSE: Duration = Duration::from_millis(50);
/// Bytes of a text that certainly fit into one message, whatever has to be escaped.
const PIECE_BYTES: usize = 40_000;

#[derive(Debug)]
pub enum Found {
    /// The log has events of this turn, or will have some.
    Turn { turn_id: TurnId, session: SessionToken },
    /// Its events are gone. These say how it ended, in place of those after the cursor.
    Ended(Vec<Event>),
}

pub async fn find(
    app: &App,
    user: &UserId,
    conversation: ConversationId,
    after: u64,
) -> Result<Found, ErrorCode> {
    let until = Instant::now() + NATS_WITHIN;
    let logged = loop {
        let looked = tokio::select! {
            looked = in_the_log(app, user, conversation) => looked,
            () = app.bus.reconnected() => Err(bus::Error::Disconnected),
        };
        match looked {
            Ok(logged) => break logged?,
            Err(error) => {
                tokio::time::sleep(NATS_PAUSE).await;
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || !app.bus.connected_within(left).await {
                    tracing::error!(conversation.id = %conversation, %error, "Can't look for a turn of {conversation}: {error}");
                    return Err(ErrorCode::Unavailable);
                }
            }
        }
    };
    if let Some(found) = logged {
        return Ok(found);
    }
    match in_the_database(app, user, conversation).await {
        Ok(Some(stored)) => Ok(Found::Ended(ended(after, stored))),
        Ok(None) => Err(ErrorCode::NotFound),
        Err(error) => {
            tracing::error!(conversation.id = %conversation, %error, "Can't load the last answer of {conversation}: {error}");
            Err(ErrorCode::Unavailable)
        }
    }
}

async fn in_the_log(
    app: &App,
    user: &UserId,
    conversation: ConversationId,
) -> Result<Result<Option<Found>, ErrorCode>, bus::Error> {
    if let Some(job) = jobs::active(&app.bus, conversation).await? {
        let found = Found::Turn { turn_id: job.turn_id, session: job.session };
        return Ok(if job.user_id == *user { Ok(Some(found)) } else { Err(ErrorCode::NotFound) });
    }
    let Some(last) = last_turn(app, conversation).await? else { return Ok(Ok(None)) };
    let filter = subject::events_of_turn(last.address.turn);
    let first = events::first(&app.bus, &filter).await?;
    Ok(match first.map(|first| first.envelope.event) {
        Some(Event::Queued(queued)) if queued.user_id == *user => {
            let (turn_id, session) = (last.address.turn, last.address.session);
            Ok(Some(Found::Turn { turn_id, session }))
        }
        Some(Event::Queued(_)) => Err(ErrorCode::NotFound),
        // Without its `queued` a turn can't say whose it is, and its beginning is gone.
        Some(_) | None => Ok(None),
    })
}

/// The last event of the newest turn that a worker took, or is about to get.
async fn last_turn(app: &App, conversation: ConversationId) -> Result<Option<Stored>, bus::Error> {
    let filter = subject::events_of_conversation(conversation);
    match events::multi_last(&app.bus, &filter).await {
        Ok(lasts) => Ok(lasts.into_iter().filter(is_turn).max_by_key(|last| last.seq)),
        Err(MultiLastError::TooMany) => Ok(events::last(&app.bus, &filter).await?.filter(is_turn)),
        Err(MultiLastError::Bus(error)) => Err(error),
    }
}

/// Not a refused submission, nor one that only shows another turn.
fn is_turn(last: &Stored) -> bool {
    let by_worker = last.envelope.attempt > 0;
    match &last.envelope.event {
        // Its job is under way, or was lost with its gateway: then the stream finds out.
        Event::Queued(queued) => queued.attach.is_none(),
        Event::Warning { .. } => true,
        Event::TurnEnd(end) => by_worker && end.status != TurnStatus::Rejected,
        Event::Session(_) => false,
        Event::Attempt { .. }
        | Event::StreamToken { .. }
        | Event::ToolStart { .. }
        | Event::ToolProgress { .. }
        | Event::ToolEnd { .. }
        | Event::ToolError { .. }
        | Event::ConfirmRequired(_)
        | Event::ConfirmResolved { .. }
        | Event::Rewind { .. }
        | Event::StreamGap { .. }
        | Event::Message { .. }
        | Event::Error { .. } => by_worker,
    }
}

/// The last turn, or else the last answer that anybody stored.
async fn in_the_database(
    app: &App,
    user: &UserId,
    conversation: ConversationId,
) -> Result<Option<StoredTurn>, store::Error> {
    if let Some(turn) = turns::last(&app.rows, user, conversation).await?
        && turn.finished
    {
        return Ok(Some(turn));
    }
    let message = messages::last_answer(&app.rows, user, conversation).await?;
    Ok(message.map(|message| {
        let status = match message.finish {
            None | Some(Finish::Completed) => TurnStatus::Completed,
            Some(Finish::Interrupted) => TurnStatus::Interrupted,
            Some(Finish::Cancelled) => TurnStatus::Cancelled,
            Some(Finish::Failed) => TurnStatus::Failed,
        };
        StoredTurn {
            turn_id: message.turn_id.unwrap_or(TurnId(Uuid::nil())),
            finished: true,
            question: None,
            answer: Some(message.content),
            outbox: vec![end(status)],
        }
    }))
}

/// What a turn tells of which only the database knows.
pub fn ended(after: u64, turn: StoredTurn) -> Vec<Event> {
    let gap = Event::StreamGap { from: after.to_string(), to: String::new() };
    let mut outbox = turn.outbox;
    if !outbox.iter().any(Event::is_terminal) {
        outbox.push(end(TurnStatus::Completed));
    }
    let told = with_text(turn.answer.unwrap_or_default(), outbox);
    [gap].into_iter().chain(told).collect()
}

fn end(status: TurnStatus) -> Event {
    Event::TurnEnd(TurnEnd { status, text: None, usage: None, timings: None })
}

/// A card or an error would hide the text, and one event may not have room for it: then it comes before.
fn with_text(text: String, end: Vec<Event>) -> Vec<Event> {
    let is_told = matches!(end.as_slice(), [Event::TurnEnd(TurnEnd { text: Some(_), .. })]);
    let mut events = Vec::new();
    let mut rest = if is_told { "" } else { text.as_str() };
    while !rest.is_empty() {
        let (piece, _) = text::cut_bytes(rest, PIECE_BYTES);
        rest = &rest[piece.len()..];
        let piece = piece.to_owned();
        events.push(if events.is_empty() {
            Event::Message { content: piece }
        } else {
            Event::StreamToken { token: piece }
        });
    }
    events.extend(end);
    events
}

const _: () = assert!(PIECE_BYTES * 6 < limits::NATS_MESSAGE_BYTES);
