//! What every provider demands of a request.
use super::Invalid;
use crate::message::Message;

pub(super) fn validate(messages: &[Message]) -> Result<(), Invalid> {
    let mut open: Vec<&str> = Vec::new();
    let mut user = false;
    for message in messages {
        if let Message::Tool { tool_call_id, .. } = message {
            let Some(at) = open.iter().position(|id| id == tool_call_id) else {
                return Err(Invalid::Orphan { id: tool_call_id.clone() });
            };
            open.remove(at);
            continue;
        }
        all_answered(&open)?;
        match message {
            Message::User { .. } => user = true,
            Message::Assistant { content, tool_calls } => {
                if content.is_empty() && tool_calls.is_empty() {
                    return Err(Invalid::EmptyAssistant);
                }
                for call in tool_calls {
                    if open.contains(&call.id.as_str()) {
                        return Err(Invalid::RepeatedCall { id: call.id.clone() });
                    }
                    open.push(&call.id);
                }
            }
            Message::System { .. } | Message::Tool { .. } => {}
        }
    }
    all_answered(&open)?;
    match messages.last() {
        Some(Message::Assistant { .. }) => Err(Invalid::NothingToAnswer),
        Some(Message::System { .. } | Message::User { .. } | Message::Tool { .. }) if user => {
            Ok(())
        }
        Some(_) | None => Err(Invalid::NoUserMessage),
    }
}

fn all_answered(open: &[&str]) -> Result<(), Invalid> {
    match open.first() {
        Some(id) => Err(Invalid::Unanswered { id: (*id).to_owned() }),
        None => Ok(()),
    }
}
