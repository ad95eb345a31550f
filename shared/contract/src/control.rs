//! What interrupts: a cancel, the talk between the gateways that serve one session, and that of operators with workers.
use serde::{Deserialize, Serialize};

use crate::ids::TurnId;

/// On `agent.v1.ctl.cancel.<turn>`: stop this turn. Stays there as a tombstone for a worker that starts later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub v: u32,
    pub turn_id: TurnId,
    /// Who asked: a user id, or a name for the log.
    pub by: String,
}

/// Request on `agent.v1.ses.<session>` (core NATS) to the gateway that serves the session's event stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum SessionAsk {
    /// Before a join is answered: will your stream carry this turn?
    Join { turn_id: TurnId },
    /// A newer reader is here: send `close_stream` and say what was delivered.
    Claim { reader: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum SessionAnswer {
    /// The stream is open and carries the turn: answer the join.
    Open,
    /// The stream was closed; answer the join after so many milliseconds, when the client must have seen that.
    Closed { wait_ms: u64 },
    /// Given up for the newer reader; what each unfinished turn had been told so far.
    Released { delivered: Vec<Delivered> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    pub turn_id: TurnId,
    /// Stream sequence of the last event that became a frame.
    pub seq: u64,
}

/// Request on `agent.v1.wk.all` (core NATS) to every worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum WorkerAsk {
    /// How are you? Every worker answers.
    Report,
    /// To the workers of this name: do what you do on SIGTERM.
    Drain {
        worker: String,
        /// A name for the log.
        by: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum WorkerAnswer {
    Report(WorkerReport),
    /// The last word of a worker that was asked to drain: nothing runs there any more.
    Drained {
        worker: String,
        /// Turns given back for another worker to go on with.
        handed_over: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// The name in its leases.
    pub worker: String,
    pub version: String,
    pub slots: u64,
    /// Jobs in hand.
    pub running: u64,
    pub draining: bool,
    /// RFC 3339, UTC, as the other one.
    pub started_at: String,
    /// The worker's clock as it answers.
    pub clock: String,
    pub settings: WorkerSettings,
}

/// What must agree with the consumer and with other workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSettings {
    pub ack_wait_ms: u64,
    pub lease_ms: u64,
    pub heartbeat_ms: u64,
    pub drain_ms: u64,
    pub database_pool: u64,
}
