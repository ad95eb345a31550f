//! Every number the specification promises.
use std::time::Duration;

/// FR-028: longer messages are cut to this many characters, the mark included.
pub const MESSAGE_CHARS: usize = 100_000;
pub const TRUNCATION_MARK: &str = "[...truncated]";
/// A sentence end within this many characters of the cut is preferred.
pub const SENTENCE_WINDOW_CHARS: usize = 1_000;
pub const TITLE_GRAPHEMES: usize = 60;
pub const CONVERSATION_NAME_CHARS: usize = 128;
pub const CLIENT_MESSAGE_ID_CHARS: usize = 128;
/// The same submission of the same session within this time may be the repeat of one whose answer was lost.
pub const REPEAT_WINDOW: Duration = Duration::from_secs(5);
pub const HISTORY_TOKENS: usize = 4_000;

pub const FILE_BYTES: u64 = 10 * 1024 * 1024;
pub const FILES_PER_MESSAGE: usize = 5;
/// Body of `queue/join`: a message of 200,000 characters and file references fit.
pub const JOIN_BODY_BYTES: usize = 2 * 1024 * 1024;
/// `max_msg_size` of jobs and events, minus room for headers.
pub const NATS_MESSAGE_BYTES: usize = 250_000;
/// Longer answers travel as tokens only (`TurnEnd::text` absent).
pub const ANSWER_IN_ONE_EVENT_BYTES: usize = 200_000;
/// A tool result is shown and given to the model up to this size.
pub const TOOL_OUTPUT_BYTES: usize = 64 * 1024;

pub const STEPS_PER_TURN: u32 = 16;
/// The same call with the same arguments so many times in a row ends the turn.
pub const REPEATED_CALLS: u32 = 3;
pub const TURNS_PER_USER: u32 = 4;
/// The attempt that dies as this number is a poison job.
pub const ATTEMPTS_PER_TURN: u32 = 3;

pub const CONFIRMATION_TTL: Duration = Duration::from_secs(15 * 60);
/// FR-026: a decision waits this long for the primary turn's clean-up.
pub const RESUME_WAIT: Duration = Duration::from_secs(2);
/// A plain message waits this long for the previous turn's ack.
pub const SUBMIT_WAIT: Duration = Duration::from_millis(300);
pub const TOOL_PROGRESS_AFTER: Duration = Duration::from_secs(30);
pub const TOOL_PROGRESS_EVERY: Duration = Duration::from_secs(5);
pub const SSE_HEARTBEAT: Duration = Duration::from_secs(15);
/// P8: a completion stays behind the answer to its join by at least this much.
pub const COMPLETION_AFTER_JOIN: Duration = Duration::from_millis(150);
/// A client must have seen `close_stream` after this long.
pub const CLOSE_SETTLE: Duration = Duration::from_millis(250);
/// So long a closed stream's owner keeps answering joins.
pub const CLOSE_LINGER: Duration = Duration::from_secs(3);
/// A job older than this is not started.
pub const JOB_EXPIRY: Duration = Duration::from_secs(60 * 60);

/// Defaults of a worker; what must agree with them is in docs/operations.md.
pub const LEASE: Duration = Duration::from_secs(15);
pub const HEARTBEAT: Duration = Duration::from_secs(4);
pub const DRAIN: Duration = Duration::from_secs(25);
pub const WORKER_CONNECTIONS: u32 = 16;
pub const GATEWAY_CONNECTIONS: u32 = 10;
/// HS256 with a shorter key can be guessed.
pub const JWT_SECRET_BYTES: usize = 32;
pub const SERVICE_SECRET_BYTES: usize = 16;
