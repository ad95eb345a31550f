//! Letters as they are shown: what the user wrote only where it was asked for, a token never.
use contract::ids::{ConversationId, TurnId, UserId};
use serde::Serialize;
use serde_json::Value;
use shared::bus::dead_letter::{Letter, Outline};
use shared::runtime::clock;
use time::OffsetDateTime;

use crate::view::{self, View};

#[derive(Debug, Serialize)]
pub struct Listed {
    dead_letters: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    seq: u64,
    at: Option<String>,
    age_ms: Option<u64>,
    conversation_id: Option<ConversationId>,
    turn_id: Option<TurnId>,
    user_id: Option<UserId>,
    kind: Option<String>,
    attempts: Option<u64>,
    reason: String,
}

impl Line {
    fn of(outline: &Outline, now: OffsetDateTime) -> Self {
        Self {
            seq: outline.seq,
            at: outline.at.map(clock::rfc3339),
            age_ms: outline.at.map(|at| view::millis(view::age(at, now))),
            conversation_id: outline.conversation,
            turn_id: outline.turn,
            user_id: outline.user.clone(),
            kind: outline.kind.clone(),
            attempts: outline.attempts,
            reason: outline.reason.clone(),
        }
    }
}

impl Listed {
    pub fn of(letters: &[Outline], now: OffsetDateTime) -> Self {
        Self { dead_letters: letters.iter().map(|outline| Line::of(outline, now)).collect() }
    }
}

impl View for Listed {
    fn text(&self) -> String {
        if self.dead_letters.is_empty() {
            return "no dead letters\n".to_owned();
        }
        let header = ["SEQ", "WHEN", "CONVERSATION", "TURN", "USER", "KIND", "ATTEMPTS", "REASON"];
        let rows: Vec<_> = self
            .dead_letters
            .iter()
            .map(|line| {
                [
                    line.seq.to_string(),
                    view::or_dash(line.at.as_ref()),
                    view::or_dash(line.conversation_id.as_ref()),
                    view::or_dash(line.turn_id.as_ref()),
                    view::or_dash(line.user_id.as_ref()),
                    view::or_dash(line.kind.as_ref()),
                    view::or_dash(line.attempts.as_ref()),
                    line.reason.clone(),
                ]
            })
            .collect();
        view::table(header, &rows)
    }
}

#[derive(Debug, Serialize)]
pub struct Shown {
    seq: u64,
    at: Option<String>,
    reason: String,
    attempts: Option<u64>,
    /// Whether it can be read as a job.
    readable: bool,
    job: Value,
}

impl Shown {
    pub fn of(letter: &Letter, with_content: bool) -> Self {
        let outline = &letter.outline;
        let job = match (&letter.job, with_content) {
            (_, true) => letter.body.clone(),
            (Some(_), false) => without_content(letter.body.clone()),
            // Nobody knows what is in it.
            (None, false) => hidden(&letter.body),
        };
        Self {
            seq: outline.seq,
            at: outline.at.map(clock::rfc3339),
            reason: outline.reason.clone(),
            attempts: outline.attempts,
            readable: letter.job.is_some(),
            job,
        }
    }
}

impl View for Shown {
    fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

fn without_content(mut job: Value) -> Value {
    if let Some(text) = job.get_mut("text") {
        *text = hidden(text);
    }
    for file in job.get_mut("files").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(name) = file.get_mut("name") {
            *name = hidden(name);
        }
    }
    job
}

fn hidden(value: &Value) -> Value {
    let bytes = value.as_str().map_or_else(|| value.to_string().len(), str::len);
    Value::String(format!("({bytes} bytes; --content shows them)"))
}

#[cfg(test)]
mod tests;
