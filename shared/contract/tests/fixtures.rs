//! Golden JSON of every job, event and control message: what these types write and read. The suites in
//! `tests/clients` read the same files, so a change here is a change for every client.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of a test")]
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use contract::control::{Cancel, SessionAnswer, SessionAsk, WorkerAnswer, WorkerAsk};
use contract::error_code::ErrorCode;
use contract::event::{Envelope, Event};
use contract::file_warning::FileWarning;
use contract::ids::{ConversationId, SessionToken, TurnId, UserId};
use contract::job::{Job, JobKind, Locale};
use contract::{limits, subject};
use expect_test::expect_file;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A function that names a value's variant, and the list of all names: a new variant doesn't compile without one.
macro_rules! variants {
    ($function:ident, $all:ident, $type:ty, { $($pattern:pat => $name:literal,)+ }) => {
        const $all: &[&str] = &[$($name),+];

        fn $function(value: &$type) -> &'static str {
            match value {
                $($pattern => $name,)+
            }
        }
    };
}

variants!(job_kind, JOB_KINDS, JobKind, {
    JobKind::Message => "message",
    JobKind::Confirm { .. } => "confirm",
    JobKind::Deny { .. } => "deny",
    JobKind::Resume => "resume",
});

variants!(event_type, EVENT_TYPES, Event, {
    Event::Queued(_) => "queued",
    Event::Attempt { .. } => "attempt",
    Event::StreamToken { .. } => "stream_token",
    Event::ToolStart { .. } => "tool_start",
    Event::ToolProgress { .. } => "tool_progress",
    Event::ToolEnd { .. } => "tool_end",
    Event::ToolError { .. } => "tool_error",
    Event::ConfirmRequired(_) => "confirm_required",
    Event::ConfirmResolved { .. } => "confirm_resolved",
    Event::Warning { .. } => "warning",
    Event::Rewind { .. } => "rewind",
    Event::StreamGap { .. } => "stream_gap",
    Event::Message { .. } => "message",
    Event::Error { .. } => "error",
    Event::TurnEnd(_) => "turn_end",
    Event::Session(_) => "session",
});

variants!(ask_kind, ASK_KINDS, SessionAsk, {
    SessionAsk::Join { .. } => "join",
    SessionAsk::Claim { .. } => "claim",
});

variants!(worker_ask_kind, WORKER_ASK_KINDS, WorkerAsk, {
    WorkerAsk::Report => "report",
    WorkerAsk::Drain { .. } => "drain",
});

variants!(worker_answer_kind, WORKER_ANSWER_KINDS, WorkerAnswer, {
    WorkerAnswer::Report(_) => "report",
    WorkerAnswer::Drained { .. } => "drained",
});

variants!(answer_kind, ANSWER_KINDS, SessionAnswer, {
    SessionAnswer::Open => "open",
    SessionAnswer::Closed { .. } => "closed",
    SessionAnswer::Released { .. } => "released",
});

#[test]
fn every_job_kind_has_a_fixture_and_survives_a_round_trip() {
    let kinds = fixtures("job", &|text| job_kind(&check_round_trip::<Job>(text).kind));
    assert_eq!(kinds, JOB_KINDS.iter().copied().collect());
}

#[test]
fn every_event_type_has_a_fixture_and_survives_a_round_trip() {
    let types = fixtures("event", &|text| event_type(&check_round_trip::<Envelope>(text).event));
    assert_eq!(types, EVENT_TYPES.iter().copied().collect());
}

#[test]
fn every_control_message_has_a_fixture_and_survives_a_round_trip() {
    let kinds = fixtures("control", &|text| {
        let value: Value = serde_json::from_str(text).unwrap();
        if value.get("ask").is_some() {
            ask_kind(&check_round_trip(text))
        } else if value.get("answer").is_some() {
            answer_kind(&check_round_trip(text))
        } else {
            check_round_trip::<Cancel>(text);
            "cancel"
        }
    });
    let all = ASK_KINDS.iter().chain(ANSWER_KINDS).chain(&["cancel"]).copied().collect();
    assert_eq!(kinds, all);
}

#[test]
fn every_message_to_and_from_workers_has_a_fixture_and_survives_a_round_trip() {
    let asks = fixtures("worker/ask", &|text| worker_ask_kind(&check_round_trip(text)));
    assert_eq!(asks, WORKER_ASK_KINDS.iter().copied().collect());
    let answers = fixtures("worker/answer", &|text| worker_answer_kind(&check_round_trip(text)));
    assert_eq!(answers, WORKER_ANSWER_KINDS.iter().copied().collect());
}

#[test]
fn only_a_turn_end_is_terminal() {
    for (path, text) in files("event") {
        let envelope: Envelope = serde_json::from_str(&text).unwrap();
        let terminal = event_type(&envelope.event) == "turn_end";
        assert_eq!(envelope.event.is_terminal(), terminal, "{}", path.display());
    }
}

#[test]
fn a_job_may_leave_out_what_has_a_default() {
    let mut value: Value = serde_json::from_str(&read("job/message.bare.json")).unwrap();
    let complete: Job = serde_json::from_value(value.clone()).unwrap();
    let object = value.as_object_mut().unwrap();
    object.remove("locale");
    object.remove("text");
    object.insert("added_later".to_owned(), json!(true));
    let short: Job = serde_json::from_value(value).unwrap();
    assert_eq!(short, Job { text: String::new(), locale: Locale::En, ..complete });
}

#[test]
fn an_event_may_carry_fields_that_were_added_later() {
    let mut value: Value = serde_json::from_str(&read("event/stream_token.json")).unwrap();
    let plain: Envelope = serde_json::from_value(value.clone()).unwrap();
    value.as_object_mut().unwrap().insert("added_later".to_owned(), json!(1));
    value["data"].as_object_mut().unwrap().insert("added_later".to_owned(), json!(1));
    assert_eq!(serde_json::from_value::<Envelope>(value).unwrap(), plain);
}

#[test]
fn error_codes() {
    let codes = ErrorCode::ALL.map(|code| {
        json!({
            "code": code,
            "http_status": code.http_status(),
            "retryable": code.is_retryable(),
            "en": code.text(Locale::En),
            "ru": code.text(Locale::Ru),
        })
    });
    check("error_codes.json", &json!(codes));
}

#[test]
fn file_warnings() {
    let warnings = FileWarning::ALL.map(
        |code| json!({ "code": code, "en": code.text(Locale::En), "ru": code.text(Locale::Ru) }),
    );
    check("file_warnings.json", &json!(warnings));
}

#[test]
fn names_on_nats() {
    let conversation: ConversationId = "5f0c7d1e-6a55-4d0b-9f43-3d2a5b9c1e77".parse().unwrap();
    let session = SessionToken::try_from("3c9909afec25354d551dae21590bb26e".to_owned()).unwrap();
    let turn: TurnId = "0199c1a2-0001-7000-8000-000000000001".parse().unwrap();
    let names = json!({
        "conversation_id": conversation,
        "session": session,
        "turn_id": turn,
        "streams": {
            "jobs": subject::STREAM_JOBS,
            "events": subject::STREAM_EVENTS,
            "control": subject::STREAM_CONTROL,
            "dead_letters": subject::STREAM_DEAD_LETTERS,
        },
        "consumer": subject::CONSUMER_WORKERS,
        "bucket": subject::BUCKET_UPLOADS,
        "subjects": {
            "job": subject::job(conversation),
            "event": subject::event(conversation, &session, turn),
            "events_of_session": subject::events_of_session(&session),
            "events_of_conversation": subject::events_of_conversation(conversation),
            "events_of_turn": subject::events_of_turn(turn),
            "session_record": subject::session_record(&session),
            "live_of_session": subject::live_of_session(&session),
            "live_of_conversation": subject::live_of_conversation(conversation),
            "live_of_turn": subject::live_of_turn(turn),
            "cancel": subject::cancel(turn),
            "dead_letter": subject::dead_letter(conversation),
            "session_control": subject::session_control(&session),
            "workers": subject::WORKERS,
        },
        "headers": {
            "message_id": subject::HEADER_MESSAGE_ID,
            "expected_last_subject_sequence": subject::HEADER_EXPECTED_LAST_SUBJECT_SEQUENCE,
            "schema": subject::HEADER_SCHEMA,
            "traceparent": subject::HEADER_TRACEPARENT,
            "tracestate": subject::HEADER_TRACESTATE,
        },
    });
    check("names.json", &names);
}

#[test]
fn conversation_references() {
    let rows = ["5f0c7d1e-6a55-4d0b-9f43-3d2a5b9c1e77", "conv-1", "мой чат", "a.b.*.>"];
    let ids = ["alice", "bob"].map(|user| {
        let user = UserId::try_from(user.to_owned()).unwrap();
        rows.map(|reference| {
            let id = ConversationId::from_reference(&user, reference).unwrap();
            json!({"user_id": user, "reference": reference, "conversation_id": id})
        })
    });
    check("conversation_ids.json", &json!(ids.concat()));
}

#[test]
fn limits_of_the_specification() {
    let numbers = json!({
        "message_chars": limits::MESSAGE_CHARS,
        "truncation_mark": limits::TRUNCATION_MARK,
        "title_graphemes": limits::TITLE_GRAPHEMES,
        "conversation_name_chars": limits::CONVERSATION_NAME_CHARS,
        "client_message_id_chars": limits::CLIENT_MESSAGE_ID_CHARS,
        "repeat_window_ms": limits::REPEAT_WINDOW.as_millis(),
        "file_bytes": limits::FILE_BYTES,
        "files_per_message": limits::FILES_PER_MESSAGE,
        "join_body_bytes": limits::JOIN_BODY_BYTES,
        "nats_message_bytes": limits::NATS_MESSAGE_BYTES,
        "answer_in_one_event_bytes": limits::ANSWER_IN_ONE_EVENT_BYTES,
        "tool_output_bytes": limits::TOOL_OUTPUT_BYTES,
        "steps_per_turn": limits::STEPS_PER_TURN,
        "repeated_calls": limits::REPEATED_CALLS,
        "turns_per_user": limits::TURNS_PER_USER,
        "attempts_per_turn": limits::ATTEMPTS_PER_TURN,
        "confirmation_ttl_s": limits::CONFIRMATION_TTL.as_secs(),
        "resume_wait_ms": limits::RESUME_WAIT.as_millis(),
        "submit_wait_ms": limits::SUBMIT_WAIT.as_millis(),
        "tool_progress_after_s": limits::TOOL_PROGRESS_AFTER.as_secs(),
        "tool_progress_every_s": limits::TOOL_PROGRESS_EVERY.as_secs(),
        "sse_heartbeat_s": limits::SSE_HEARTBEAT.as_secs(),
        "job_expiry_s": limits::JOB_EXPIRY.as_secs(),
    });
    check("limits.json", &numbers);
}

/// The file holds exactly what the type writes, and reading it gives the same value again.
#[track_caller]
fn check_round_trip<T: DeserializeOwned + Serialize>(text: &str) -> T {
    let read: T = serde_json::from_str(text).unwrap();
    let written = serde_json::to_string_pretty(&read).unwrap() + "\n";
    assert_eq!(written, text);
    read
}

fn check(file: &str, value: &Value) {
    let text = serde_json::to_string_pretty(value).unwrap() + "\n";
    expect_file![root().join(file)].assert_eq(&text);
}

/// Reads a folder's files and gives the variants found; a file is called `<variant>.json` or `<variant>.<case>.json`.
fn fixtures(folder: &str, variant_of: &dyn Fn(&str) -> &'static str) -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    for (path, text) in files(folder) {
        let variant = variant_of(&text);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(name.split('.').next(), Some(variant), "{name} holds a {variant}");
        seen.insert(variant);
    }
    seen
}

fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut paths: Vec<_> =
        fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), read_path(&path))).collect()
}

fn read(file: &str) -> String {
    read_path(&root().join(file))
}

fn read_path(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}
