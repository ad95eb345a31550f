//! An event stream byte by byte, for a client that loses its connection at any of them; and what a client keeps
//! of a turn over several streams (docs/protocol.md, "A stream that breaks").
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Client;

const PATIENCE: Duration = Duration::from_secs(60);

/// One reading of `queue/data`.
pub struct Raw {
    body: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    bytes: Vec<u8>,
    /// Of `bytes`, what the client has read.
    read: usize,
    ended: bool,
}

impl Client {
    /// Opens the session's stream for reading it here; [`Client::open_stream`] is another way.
    pub async fn raw_stream(&self) -> Raw {
        self.try_raw_stream().await.expect("queue/data can't be opened")
    }

    /// `None` if no gateway answers.
    pub async fn try_raw_stream(&self) -> Option<Raw> {
        let url = format!("{}/gradio_api/queue/data?session_hash={}", self.base, self.session);
        let opening = self.http.get(url).bearer_auth(&self.token).send();
        let response = tokio::time::timeout(PATIENCE, opening).await.unwrap().ok()?;
        let body = response.error_for_status().ok()?.bytes_stream();
        Some(Raw { body: Box::pin(body), bytes: Vec::new(), read: 0, ended: false })
    }
}

impl Raw {
    /// Reads so many bytes, or all there are.
    pub async fn read_bytes(&mut self, count: usize) -> &mut Self {
        while self.bytes.len() < count && self.more().await {}
        self.read = count.min(self.bytes.len());
        self
    }

    /// Reads so many whole frames, or all there are.
    pub async fn read_frames(&mut self, count: usize) -> &mut Self {
        while self.ends().len() < count && self.more().await {}
        let ends = self.ends();
        self.read =
            if count == 0 { 0 } else { ends.get(count - 1).copied().unwrap_or(self.bytes.len()) };
        self
    }

    /// Reads to the end of the body, however it ends.
    pub async fn read_all(&mut self) -> &mut Self {
        while self.more().await {}
        self.read = self.bytes.len();
        self
    }

    /// The whole frames of what was read; part of one at the end is lost.
    pub fn frames(&self) -> Vec<&str> {
        let mut start = 0;
        let ends = self.ends().into_iter().take_while(|end| *end <= self.read);
        let frame = |end| {
            let bytes = &self.bytes[std::mem::replace(&mut start, end)..end];
            std::str::from_utf8(bytes).unwrap().trim_end_matches('\n')
        };
        ends.map(frame).collect()
    }

    pub fn len(&self) -> usize {
        self.read
    }

    pub fn is_empty(&self) -> bool {
        self.read == 0
    }

    /// Where each frame ends.
    fn ends(&self) -> Vec<usize> {
        let pairs = self.bytes.windows(2).enumerate();
        pairs.filter(|(_, pair)| pair == b"\n\n").map(|(at, _)| at + 2).collect()
    }

    /// False at the end, and where the connection breaks.
    async fn more(&mut self) -> bool {
        if self.ended {
            return false;
        }
        let next = tokio::time::timeout(PATIENCE, self.body.next()).await;
        match next.unwrap_or_else(|_| panic!("a stream fell silent behind {:?}", self.frames())) {
            Some(Ok(piece)) => self.bytes.extend_from_slice(&piece),
            Some(Err(_)) | None => self.ended = true,
        }
        !self.ended
    }
}

/// The values of one turn, each as it was written.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Kept {
    pub values: Vec<String>,
    cursor: Option<String>,
    /// A completion came for it, and not from the gateway itself.
    pub is_complete: bool,
    /// The code of an error that the gateway itself told last.
    pub told: Option<String>,
}

#[derive(Deserialize)]
struct Message<'a> {
    msg: &'a str,
    event_id: Option<&'a str>,
    #[serde(borrow)]
    output: Option<Output<'a>>,
}

#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

impl Kept {
    pub fn of(raw: &Raw, event: &str) -> Kept {
        let mut kept = Kept::default();
        kept.take(raw, event);
        kept
    }

    /// Goes on with what another stream told of this turn, under that stream's event.
    pub fn take(&mut self, raw: &Raw, event: &str) {
        for frame in raw.frames() {
            let json = frame.strip_prefix("data: ").unwrap();
            let message: Message<'_> = serde_json::from_str(json).unwrap();
            if message.event_id == Some(event)
                && let Some(output) = message.output
            {
                self.take_value(whole(output.data[0].get()), message.msg == "process_completed");
            }
        }
    }

    fn take_value(&mut self, value: &str, completes: bool) {
        let parsed: Value = serde_json::from_str(value).unwrap();
        // What has no cursor is the gateway's own word, and no part of the turn.
        let Some(cursor) = parsed["metadata"]["cursor"].as_str() else {
            self.told = parsed["metadata"]["code"].as_str().map(str::to_owned);
            return;
        };
        self.cursor = Some(cursor.to_owned());
        self.is_complete |= completes;
        // The completion repeats the last value.
        if !(completes && self.values.last().is_some_and(|last| last == value)) {
            self.values.push(value.to_owned());
        }
    }

    /// What to attach with.
    pub fn action(&self) -> String {
        self.cursor.as_ref().map_or("attach".to_owned(), |cursor| format!("attach:{cursor}"))
    }

    pub fn cursor(&self) -> u64 {
        self.cursor.as_ref().map_or(0, |cursor| cursor.parse().unwrap())
    }

    /// Metadata types in order, runs of one type as one.
    pub fn types(&self) -> Vec<String> {
        let kind = |value: &String| {
            let value: Value = serde_json::from_str(value).unwrap();
            value["metadata"]["type"].as_str().unwrap_or("plain").to_owned()
        };
        let mut types: Vec<String> = self.values.iter().map(kind).collect();
        types.dedup();
        types
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (complete, told) = (self.is_complete, &self.told);
        write!(f, "complete: {complete}, told: {told:?}\n{}\n", self.values.join("\n"))
    }
}

/// A value comes as it is first, then as a replacement of everything.
fn whole(data: &str) -> &str {
    let replacement = data.strip_prefix(r#"[["replace",[],"#);
    replacement.and_then(|rest| rest.strip_suffix("]]")).unwrap_or(data)
}
