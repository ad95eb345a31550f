//! What is to be done for one submission, and in which conversation.
use std::time::Duration;

use contract::error_code::ErrorCode;
use contract::event::Attach;
use contract::ids::{ConversationId, TurnId};
use gradio::request::Action;
use uuid::Uuid;

use crate::app::App;
use crate::ownership::conversation_for;
use crate::submissions::accept::Submission;
use crate::submissions::attach::{self, Found};
use crate::submissions::dispatch::Work;

/// A database that is frozen must not hold the answer to a join: its client is told on the stream.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(2);

/// The conversation and what is to be done in it.
#[derive(Debug)]
pub struct Plan {
    pub conversation: ConversationId,
    pub attach: Option<Attach>,
    pub work: Work,
}

impl Plan {
    pub fn refused(code: ErrorCode) -> Self {
        Self {
            // Nothing of a refusal may show up in a conversation that isn't the caller's.
            conversation: ConversationId(Uuid::new_v4()),
            attach: None,
            work: Work::Refuse(code),
        }
    }

    /// Shows a turn of this conversation from its start.
    pub fn attached(conversation: ConversationId, attach: Attach) -> Self {
        Self { conversation, attach: Some(attach), work: Work::Nothing }
    }
}

/// `turn` names the conversation that the submission starts if it names none itself.
pub async fn plan(app: &App, submission: &Submission, turn: TurnId) -> Plan {
    let planning = tokio::time::timeout(LOOK_UP_WITHIN, try_plan(app, submission, turn));
    match planning.await {
        Ok(Ok(plan)) => plan,
        Ok(Err(code)) => Plan::refused(code),
        Err(_) => {
            tracing::warn!(turn.id = %turn, "Can't look up the conversation of turn {turn} in time");
            Plan::refused(ErrorCode::Unavailable)
        }
    }
}

async fn try_plan(app: &App, submission: &Submission, turn: TurnId) -> Result<Plan, ErrorCode> {
    let conversation = match &submission.call.conversation {
        Some(reference) => conversation_for(app, &submission.caller.user, reference).await?,
        None => turn.new_conversation(),
    };
    let plan = |work: Work| Plan { conversation, attach: None, work };
    Ok(match submission.call.action {
        Action::Attach { after } => {
            match attach::find(app, &submission.caller.user, conversation, after).await? {
                Found::Turn { turn_id, session } => {
                    Plan::attached(conversation, Attach { turn_id, session, after })
                }
                Found::Ended(events) => plan(Work::Tell(events)),
            }
        }
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
    })
}
