//! Which turn an `attach` shows: the live one of the conversation, else the last one that the log still has.
use contract::error_code::ErrorCode;
use contract::event::{Event, TurnEnd, TurnStatus};
use contract::ids::{ConversationId, SessionToken, TurnId};
use contract::subject;
use shared::bus::events::{self, MultiLastError, Stored};
use shared::bus::jobs;
use shared::store::messages;

use crate::app::App;
use crate::submissions::accept::Submission;

pub enum Found {
    /// The log has events of this turn.
    Turn { turn_id: TurnId, session: SessionToken },
    /// Only the text is left.
    Stored { text: String },
}

pub async fn find(
    app: &App,
    submission: &Submission,
    conversation: ConversationId,
) -> Result<Found, ErrorCode> {
    let user = &submission.caller.user;
    let unavailable = |error: shared::bus::Error| {
        tracing::error!(conversation.id = %conversation, %error, "Can't look for a turn of {conversation}: {error}");
        ErrorCode::Unavailable
    };
    if let Some(job) = jobs::active(&app.bus, conversation).await.map_err(unavailable)? {
        return if job.user_id == *user {
            Ok(Found::Turn { turn_id: job.turn_id, session: job.session })
        } else {
            Err(ErrorCode::NotFound)
        };
    }
    if let Some(last) = last_turn(app, conversation).await.map_err(unavailable)? {
        let filter = subject::events_of_turn(last.address.turn);
        let first = events::first(&app.bus, &filter).await.map_err(unavailable)?;
        // A turn without its `queued` is too old to say whose it is; the database knows.
        match first.map(|first| first.envelope.event) {
            Some(Event::Queued(queued)) if queued.user_id == *user => {
                return Ok(Found::Turn {
                    turn_id: last.address.turn,
                    session: last.address.session,
                });
            }
            Some(Event::Queued(_)) => return Err(ErrorCode::NotFound),
            Some(_) | None => {}
        }
    }
    match messages::last_answer(&app.rows, user, conversation).await {
        Ok(Some(message)) => Ok(Found::Stored { text: message.content }),
        Ok(None) => Err(ErrorCode::NotFound),
        Err(error) => {
            tracing::error!(conversation.id = %conversation, %error, "Can't load the last answer of {conversation}: {error}");
            Err(ErrorCode::Unavailable)
        }
    }
}

/// The last event of the newest turn that a worker took.
async fn last_turn(
    app: &App,
    conversation: ConversationId,
) -> Result<Option<Stored>, shared::bus::Error> {
    let filter = subject::events_of_conversation(conversation);
    match events::multi_last(&app.bus, &filter).await {
        Ok(lasts) => Ok(lasts
            .into_iter()
            .filter(|last| was_run(&last.envelope.event))
            .max_by_key(|last| last.seq)),
        Err(MultiLastError::TooMany) => {
            let last = events::last(&app.bus, &filter).await?;
            Ok(last.filter(|last| was_run(&last.envelope.event)))
        }
        Err(MultiLastError::Bus(error)) => Err(error),
    }
}

/// Refused submissions, and those that only show another turn, end like this or have nothing but their `queued`.
fn was_run(last: &Event) -> bool {
    match last {
        Event::Queued(_) | Event::Session(_) => false,
        Event::TurnEnd(TurnEnd { status, .. }) => *status != TurnStatus::Rejected,
        Event::Attempt { .. }
        | Event::StreamToken { .. }
        | Event::ToolStart { .. }
        | Event::ToolProgress { .. }
        | Event::ToolEnd { .. }
        | Event::ToolError { .. }
        | Event::ConfirmRequired(_)
        | Event::ConfirmResolved { .. }
        | Event::Warning { .. }
        | Event::Rewind { .. }
        | Event::StreamGap { .. }
        | Event::Message { .. }
        | Event::Error { .. } => true,
    }
}
