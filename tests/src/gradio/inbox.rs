//! The reading side of a client: frames of the session's stream, sorted by event.
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::sync::Notify;

use super::turn::Turn;

#[derive(Default)]
pub struct Inbox {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    turns: HashMap<String, Turn>,
    loose: Vec<Value>,
    closed: bool,
    trouble: Option<String>,
    breach: Option<String>,
}

/// The messages that the stock clients know; any other one makes them fail.
const KNOWN: [&str; 8] = [
    "estimation",
    "process_starts",
    "process_generating",
    "process_completed",
    "log",
    "progress",
    "heartbeat",
    "unexpected_error",
];

pub async fn read(request: reqwest::RequestBuilder, inbox: std::sync::Arc<Inbox>) {
    let ending = follow(request, &inbox).await;
    let mut state = inbox.state.lock().unwrap();
    if let Err(trouble) = ending {
        state.trouble = Some(trouble);
    }
    state.closed = true;
    drop(state);
    inbox.changed.notify_waiters();
}

async fn follow(request: reqwest::RequestBuilder, inbox: &Inbox) -> Result<(), String> {
    let response = request.send().await.map_err(|e| format!("opening the stream: {e}"))?;
    if response.status() != 200 {
        let status = response.status();
        inbox.breach_of(format!("queue/data answered {status}, which kills a stock client"));
        return Err(format!("queue/data: {status}"));
    }
    let mut body = response.bytes_stream();
    let mut buffer = Vec::new();
    while let Some(piece) = body.next().await {
        buffer.extend_from_slice(&piece.map_err(|e| format!("reading the stream: {e}"))?);
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = buffer.drain(..end + 2).collect();
            // The stock clients hang up here, too.
            if inbox.take(&String::from_utf8_lossy(&block[..end])) {
                return Ok(());
            }
        }
    }
    Err("the stream ended without close_stream".to_owned())
}

impl Inbox {
    /// Sorts one frame in; true for `close_stream`.
    fn take(&self, block: &str) -> bool {
        let json = block.strip_prefix("data: ").filter(|json| !json.contains('\n'));
        let Some(frame) = json.and_then(|json| serde_json::from_str::<Value>(json).ok()) else {
            self.breach_of(format!("a frame that is no data line: {block:?}"));
            return false;
        };
        let kind = frame["msg"].as_str().unwrap_or_default().to_owned();
        if kind == "close_stream" {
            self.state.lock().unwrap().closed = true;
            self.changed.notify_waiters();
            return true;
        }
        if !KNOWN.contains(&kind.as_str()) {
            self.breach_of(format!("an unknown message: {frame}"));
        }
        let mut state = self.state.lock().unwrap();
        match frame["event_id"].as_str() {
            Some(event) => {
                let event = event.to_owned();
                let breach =
                    state.turns.entry(event).or_default().take(&kind, frame, Instant::now()).err();
                if state.breach.is_none() {
                    state.breach = breach;
                }
            }
            None if kind == "heartbeat" => {}
            None => state.loose.push(frame),
        }
        drop(state);
        self.changed.notify_waiters();
        false
    }

    fn breach_of(&self, what: String) {
        self.state.lock().unwrap().breach.get_or_insert(what);
    }

    pub fn turn(&self, event: &str) -> Turn {
        self.state.lock().unwrap().turns.get(event).cloned().unwrap_or_default()
    }

    pub async fn wait(&self, event: &str, done: impl Fn(&Turn) -> bool) -> Turn {
        loop {
            let changed = self.changed.notified();
            let turn = self.turn(event);
            if done(&turn) {
                return turn;
            }
            changed.await;
        }
    }

    pub async fn wait_closed(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_closed() {
                return;
            }
            changed.await;
        }
    }

    pub fn is_closed(&self) -> bool {
        self.state.lock().unwrap().closed
    }

    /// Called before a new stream is opened.
    pub fn reopen(&self) {
        let mut state = self.state.lock().unwrap();
        state.closed = false;
        state.trouble = None;
    }

    pub fn trouble(&self) -> Option<String> {
        self.state.lock().unwrap().trouble.clone()
    }

    pub fn breach(&self) -> Option<String> {
        self.state.lock().unwrap().breach.clone()
    }

    pub fn events(&self) -> Vec<String> {
        self.state.lock().unwrap().turns.keys().cloned().collect()
    }

    pub fn loose(&self) -> Vec<Value> {
        self.state.lock().unwrap().loose.clone()
    }
}
