//! Every NATS name: streams, consumer, bucket, subjects, headers. No other file spells one.
use crate::ids::{ConversationId, SessionToken, TurnId};

pub const STREAM_JOBS: &str = "AGENT_JOBS";
pub const STREAM_EVENTS: &str = "AGENT_EVENTS";
pub const STREAM_CONTROL: &str = "AGENT_CTL";
pub const STREAM_DEAD_LETTERS: &str = "AGENT_DLQ";
pub const CONSUMER_WORKERS: &str = "workers";
pub const BUCKET_UPLOADS: &str = "agent_uploads";

pub const JOBS_ALL: &str = "agent.v1.job.*";
pub const EVENTS_ALL: &str = "agent.v1.ev.*.*.*";
pub const LIVE_DESTINATION: &str = "agent.v1.live.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}";
pub const CANCELS_ALL: &str = "agent.v1.ctl.cancel.*";
pub const DEAD_LETTERS_ALL: &str = "agent.v1.dlq.*";
/// Requests of operators to all workers (core NATS).
pub const WORKERS: &str = "agent.v1.wk.all";

pub const HEADER_MESSAGE_ID: &str = "Nats-Msg-Id";
pub const HEADER_EXPECTED_LAST_SUBJECT_SEQUENCE: &str = "Nats-Expected-Last-Subject-Sequence";
pub const HEADER_SCHEMA: &str = "Agent-Schema";
pub const HEADER_TRACEPARENT: &str = "traceparent";
pub const HEADER_TRACESTATE: &str = "tracestate";

pub fn job(conversation: ConversationId) -> String {
    format!("agent.v1.job.{conversation}")
}

pub fn event(conversation: ConversationId, session: &SessionToken, turn: TurnId) -> String {
    format!("agent.v1.ev.{conversation}.{session}.{turn}")
}

/// Stored events of every turn of a session.
pub fn events_of_session(session: &SessionToken) -> String {
    format!("agent.v1.ev.*.{session}.*")
}

/// Stored events of every turn of a conversation.
pub fn events_of_conversation(conversation: ConversationId) -> String {
    format!("agent.v1.ev.{conversation}.*.*")
}

/// Stored events of one turn whose conversation and session are not known.
pub fn events_of_turn(turn: TurnId) -> String {
    format!("agent.v1.ev.*.*.{turn}")
}

/// Where a session's own record is kept: the event subject with nil ids.
pub fn session_record(session: &SessionToken) -> String {
    event(ConversationId(uuid::Uuid::nil()), session, TurnId(uuid::Uuid::nil()))
}

pub fn live_of_session(session: &SessionToken) -> String {
    format!("agent.v1.live.*.{session}.*")
}

pub fn live_of_turn(turn: TurnId) -> String {
    format!("agent.v1.live.*.*.{turn}")
}

pub fn live_of_conversation(conversation: ConversationId) -> String {
    format!("agent.v1.live.{conversation}.*.*")
}

pub fn cancel(turn: TurnId) -> String {
    format!("agent.v1.ctl.cancel.{turn}")
}

pub fn dead_letter(conversation: ConversationId) -> String {
    format!("agent.v1.dlq.{conversation}")
}

/// Requests to the gateway that serves a session's event stream (core NATS).
pub fn session_control(session: &SessionToken) -> String {
    format!("agent.v1.ses.{session}")
}

/// What an event or live subject names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventAddress {
    pub conversation: ConversationId,
    pub session: SessionToken,
    pub turn: TurnId,
}

/// Reads `agent.v1.ev.…` and `agent.v1.live.…`.
pub fn parse_event(subject: &str) -> Option<EventAddress> {
    let mut tokens = subject.split('.');
    let (root, version, kind) = (tokens.next()?, tokens.next()?, tokens.next()?);
    if root != "agent" || version != "v1" || !(kind == "ev" || kind == "live") {
        return None;
    }
    let address = EventAddress {
        conversation: tokens.next()?.parse().ok()?,
        session: SessionToken::try_from(tokens.next()?.to_owned()).ok()?,
        turn: tokens.next()?.parse().ok()?,
    };
    tokens.next().is_none().then_some(address)
}
