//! The event log of one conversation: the promises it keeps, and how long a takeover took.
use std::collections::HashMap;
use std::time::Duration;

use contract::event::{Envelope, Event};
use contract::ids::{ConversationId, TurnId};
use contract::subject;
use time::OffsetDateTime;
use uuid::Uuid;

use super::stage::Stage;
use super::wire::Strike;

/// No other worker has a dead one's job sooner; what is stored before this was on its way.
const NO_SOONER: Duration = Duration::from_millis(250);

pub struct Logged {
    pub stored_at: OffsetDateTime,
    pub envelope: Envelope,
}

pub async fn read(stage: &Stage, conversation: Uuid) -> Vec<Logged> {
    let filter = subject::events_of_conversation(ConversationId(conversation));
    let (mut events, mut from) = (Vec::new(), 1);
    while let Ok(message) = stage.events.direct_get_next_for_subject(&*filter, Some(from)).await {
        from = message.sequence + 1;
        let envelope = serde_json::from_slice(&message.payload).unwrap();
        events.push(Logged { stored_at: message.time, envelope });
    }
    events
}

/// One terminal event per turn, and nothing after it; attempts only grow; their numbers have no holes.
pub fn broken_promises(events: &[Logged]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut last: HashMap<TurnId, &Envelope> = HashMap::new();
    for Logged { envelope, .. } in events {
        let (turn, attempt, n) = (envelope.turn_id, envelope.attempt, envelope.n);
        let name = serde_json::to_value(envelope).unwrap()["type"].to_string();
        let before = last.insert(turn, envelope);
        if before.is_some_and(|before| before.event.is_terminal()) {
            wrong.push(format!("{name} {attempt}:{n} comes after the end of its turn"));
        }
        let place = before.map_or((0, 0), |before| (before.attempt, before.n));
        let follows = (attempt == place.0 && n == place.1 + 1) || (attempt > place.0 && n == 1);
        if !follows && before.is_some() {
            wrong.push(format!("{name} {attempt}:{n} comes after {}:{}", place.0, place.1));
        }
    }
    for (turn, last) in last {
        if !last.event.is_terminal() {
            wrong.push(format!("turn {turn} has no end"));
        }
    }
    wrong
}

/// From the strike to the next worker's first event in the same turn. None if the turn had ended, or if the
/// next worker was struck before it could say anything.
pub fn takeover(events: &[Logged], strike: &Strike, all: &[Strike]) -> Option<Duration> {
    let struck = OffsetDateTime::from(strike.wall);
    let before = events.iter().rfind(|event| event.stored_at <= struck)?;
    if before.envelope.event.is_terminal() {
        return None;
    }
    let next = events.iter().find(|event| {
        event.envelope.turn_id == before.envelope.turn_id
            && event.envelope.attempt > before.envelope.attempt
            && event.stored_at > struck + NO_SOONER
    })?;
    let between = |other: &Strike| {
        other.wall > strike.wall && OffsetDateTime::from(other.wall) < next.stored_at
    };
    if all.iter().any(between) {
        return None;
    }
    (next.stored_at - struck).try_into().ok()
}

/// Whether a worker took the turn over.
pub fn is_takeover(envelope: &Envelope) -> bool {
    envelope.attempt >= 2 && matches!(envelope.event, Event::Attempt { .. } | Event::TurnEnd(_))
}

#[cfg(test)]
mod tests;
