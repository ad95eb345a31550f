//! One message of an event stream, as text: for `queue/data`, and for the plain call API.
use contract::ids::TurnId;
use serde_json::{Value, json};

/// What the server tells a client. Values are whole; the queue stream's edits are made as it is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    Estimation {
        event: TurnId,
        rank: u64,
    },
    Starts {
        event: TurnId,
    },
    /// The first value of an event is the value itself, a later one replaces it as a whole.
    Generating {
        event: TurnId,
        value: Value,
        first: bool,
    },
    Completed {
        event: TurnId,
        value: Value,
    },
    Heartbeat,
    /// No submission of this session is left; the body ends after it.
    Close,
    /// The session has nothing to tell; `close_stream` and the end of the body belong to it. Without them a
    /// JavaScript client would take the stream for open and never open another one.
    SessionNotFound,
    /// Nothing can be told for now. The stream ends as after `SessionNotFound`.
    Failed {
        text: &'static str,
    },
}

impl Frame {
    /// `data: {…}\n\n` and nothing else: Python clients refuse every other line.
    pub fn queue_text(&self) -> String {
        let text = format!("data: {}\n\n", self.queue_json());
        match self {
            Self::SessionNotFound | Self::Failed { .. } => text + &Self::Close.queue_text(),
            Self::Estimation { .. }
            | Self::Starts { .. }
            | Self::Generating { .. }
            | Self::Completed { .. }
            | Self::Heartbeat
            | Self::Close => text,
        }
    }

    /// With an `event:` line; `None` for what the plain form does not send.
    pub fn call_text(&self) -> Option<String> {
        match self {
            Self::Generating { value, .. } => Some(call("generating", &json!([value]))),
            Self::Completed { value, .. } => Some(call("complete", &json!([value]))),
            Self::Heartbeat => Some(call("heartbeat", &Value::Null)),
            Self::SessionNotFound => Some(call("error", &json!(NOT_FOUND))),
            Self::Failed { text } => Some(call("error", &json!(text))),
            Self::Estimation { .. } | Self::Starts { .. } | Self::Close => None,
        }
    }

    fn queue_json(&self) -> Value {
        match self {
            Self::Estimation { event, rank } => json!({
                "msg": "estimation", "event_id": event, "rank": rank, "queue_size": rank + 1, "rank_eta": null,
            }),
            Self::Starts { event } => {
                json!({"msg": "process_starts", "event_id": event, "eta": null})
            }
            Self::Generating { event, value, first } => {
                let data = if *first { json!([value]) } else { json!([[["replace", [], value]]]) };
                json!({
                    "msg": "process_generating", "event_id": event, "success": true, "time_limit": null,
                    "output": {"data": data, "is_generating": true},
                })
            }
            Self::Completed { event, value } => json!({
                "msg": "process_completed", "event_id": event, "success": true, "title": null,
                "output": {"data": [value], "is_generating": false},
            }),
            Self::Heartbeat => json!({"msg": "heartbeat", "event_id": null}),
            Self::Close => json!({"msg": "close_stream", "event_id": null}),
            Self::SessionNotFound => json!({
                "msg": "unexpected_error", "event_id": null, "message": NOT_FOUND,
                "session_not_found": true, "success": false,
            }),
            Self::Failed { text } => json!({
                "msg": "unexpected_error", "event_id": null, "message": text,
                "session_not_found": false, "success": false,
            }),
        }
    }
}

const NOT_FOUND: &str = "404: Not Found";

fn call(event: &str, data: &Value) -> String {
    format!("event: {event}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests;
