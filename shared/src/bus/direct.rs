//! Direct Get: reads messages of a stream by sequence and subject, one or many.
//!
//! A batch comes without flow control and the client drops what its buffer can't hold, so every message is
//! checked against the one before it (`Nats-Last-Sequence`); after a hole only the part before it counts.
use std::time::Duration;

use async_nats::client::Request;
use async_nats::{HeaderMap, Message, StatusCode, Subscriber};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio::time::timeout;

use crate::bus::{ANSWER_WITHIN, Bus, Error, bounded};
use crate::runtime::clock;

const SEQUENCE: &str = "Nats-Sequence";
const LAST_SEQUENCE: &str = "Nats-Last-Sequence";
const PENDING: &str = "Nats-Num-Pending";
const SUBJECT: &str = "Nats-Subject";
const TIME_STAMP: &str = "Nats-Time-Stamp";

/// Most messages of one answer; the buffer of a subscription is larger.
pub(crate) const BATCH: usize = 500;
/// Many readers may each hold a page.
const PAGE_BYTES: usize = 512 * 1024;
/// Silence inside a batch: the rest of it was dropped.
const NEXT_WITHIN: Duration = Duration::from_millis(300);
const END_OF_BATCH: u16 = 204;
const NOT_FOUND: u16 = 404;
const TOO_MANY_RESULTS: u16 = 413;

/// A stored message, or its copy on a live subject.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    pub seq: u64,
    /// Live: the message before it on its subject. Batch: the message before it in the answer.
    pub previous: u64,
    pub subject: String,
    pub headers: HeaderMap,
    pub payload: Bytes,
}

/// A gapless part of what was asked for.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub messages: Vec<Fetched>,
    /// Nothing more is stored.
    pub complete: bool,
}

#[derive(Debug)]
pub(crate) enum LastOfEach {
    All(Vec<Fetched>),
    TooMany,
}

#[derive(Serialize)]
struct Query<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_by_subj: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_by_subj: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multi_last: Option<&'a [&'a str]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_bytes: Option<usize>,
}

#[derive(Deserialize)]
struct Found {
    message: Option<StoredMessage>,
    error: Option<Refusal>,
}

/// Bytes are in base64.
#[derive(Deserialize)]
struct StoredMessage {
    seq: u64,
    #[serde(default)]
    data: String,
}

#[derive(Deserialize)]
struct Refusal {
    code: u16,
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

const NOTHING: Query<'_> = Query {
    seq: None,
    last_by_subj: None,
    next_by_subj: None,
    multi_last: None,
    batch: None,
    max_bytes: None,
};

/// The newest message on the filter's subjects.
pub(crate) async fn last(bus: &Bus, stream: &str, filter: &str) -> Result<Option<Fetched>, Error> {
    if is_literal(filter) {
        // The one form that needs no right to read the whole stream.
        return one(bus, format!("$JS.API.DIRECT.GET.{stream}.{filter}"), Bytes::new()).await;
    }
    let query = Query { last_by_subj: Some(filter), ..NOTHING };
    one(bus, format!("$JS.API.DIRECT.GET.{stream}"), encode(&query)).await
}

/// What the newest message on this subject holds. Asks the stream's leader: unlike that of [`last`], the answer is
/// never older than what was acknowledged before.
pub(crate) async fn last_at_leader(
    bus: &Bus,
    stream: &str,
    subject: &str,
) -> Result<Option<Bytes>, Error> {
    found(&newest_at_leader(bus, stream, subject).await?)
}

/// The leader's sequence of the newest message on the filter's subjects; zero if there is none.
pub(crate) async fn last_seq_at_leader(
    bus: &Bus,
    stream: &str,
    filter: &str,
) -> Result<u64, Error> {
    let found = stored(&newest_at_leader(bus, stream, filter).await?)?;
    Ok(found.map_or(0, |message| message.seq))
}

async fn newest_at_leader(bus: &Bus, stream: &str, filter: &str) -> Result<Bytes, Error> {
    if !bus.is_connected() {
        return Err(Error::Disconnected);
    }
    let query = encode(&Query { last_by_subj: Some(filter), ..NOTHING });
    let request = Request::new().payload(query).timeout(Some(ANSWER_WITHIN));
    let to = format!("$JS.API.STREAM.MSG.GET.{stream}");
    let answer = timeout(ANSWER_WITHIN, bus.client.send_request(to, request)).await;
    Ok(answer.map_err(|_| Error::Timeout)??.payload)
}

fn found(answer: &[u8]) -> Result<Option<Bytes>, Error> {
    let Some(StoredMessage { data, .. }) = stored(answer)? else { return Ok(None) };
    let payload = STANDARD.decode(data).map_err(|error| unexpected(&error.to_string()))?;
    Ok(Some(Bytes::from(payload)))
}

fn stored(answer: &[u8]) -> Result<Option<StoredMessage>, Error> {
    let answer: Found =
        serde_json::from_slice(answer).map_err(|error| unexpected(&error.to_string()))?;
    match answer {
        Found { error: Some(error), .. } if error.code == NOT_FOUND => Ok(None),
        Found { error: Some(Refusal { err_code: code, description: text, .. }), .. } => {
            Err(Error::Refused { code, text })
        }
        Found { message: Some(message), .. } => Ok(Some(message)),
        Found { .. } => Err(unexpected("neither a message nor an error")),
    }
}

fn unexpected(what: &str) -> Error {
    Error::Unexpected(format!("answer of a stream: {what}"))
}

/// The oldest message at or after `seq` on the filter's subjects.
pub(crate) async fn next(
    bus: &Bus,
    stream: &str,
    filter: &str,
    seq: u64,
) -> Result<Option<Fetched>, Error> {
    let query = Query { seq: Some(seq.max(1)), next_by_subj: Some(filter), ..NOTHING };
    one(bus, format!("$JS.API.DIRECT.GET.{stream}"), encode(&query)).await
}

/// The message with this sequence.
pub(crate) async fn at(bus: &Bus, stream: &str, seq: u64) -> Result<Option<Fetched>, Error> {
    let query = Query { seq: Some(seq), ..NOTHING };
    one(bus, format!("$JS.API.DIRECT.GET.{stream}"), encode(&query)).await
}

/// Up to `batch` messages from `seq` on, and not many more bytes than one page may have.
pub(crate) async fn page(
    bus: &Bus,
    stream: &str,
    filter: &str,
    (seq, batch): (u64, usize),
) -> Result<Page, Error> {
    let query = Query {
        seq: Some(seq.max(1)),
        next_by_subj: Some(filter),
        batch: Some(batch),
        max_bytes: Some(PAGE_BYTES),
        ..NOTHING
    };
    match many(bus, stream, &query).await? {
        Answer::Messages(page) => Ok(page),
        Answer::TooMany => Err(Error::Unexpected("too many results for a batch".to_owned())),
    }
}

/// The newest message of every subject that one of the filters matches, by sequence.
pub(crate) async fn last_of_each(
    bus: &Bus,
    stream: &str,
    filters: &[&str],
) -> Result<LastOfEach, Error> {
    let mut messages: Vec<Fetched> = Vec::new();
    loop {
        // A subject that moves on in between comes again, with its newer message.
        let seq = messages.last().map(|last| last.seq + 1);
        let query = Query { seq, multi_last: Some(filters), batch: Some(BATCH), ..NOTHING };
        let page = match many(bus, stream, &query).await? {
            Answer::Messages(page) => page,
            Answer::TooMany => return Ok(LastOfEach::TooMany),
        };
        messages.extend(page.messages);
        if page.complete {
            return Ok(LastOfEach::All(messages));
        }
    }
}

impl Fetched {
    /// From a live subject, where the subject is the message's own.
    pub(crate) fn from_live(message: Message) -> Option<Self> {
        let headers = message.headers?;
        let (seq, previous) = (number(&headers, SEQUENCE)?, number(&headers, LAST_SEQUENCE)?);
        let subject = message.subject.to_string();
        Some(Self { seq, previous, subject, headers, payload: message.payload })
    }

    fn from_answer(message: Message) -> Result<Self, Error> {
        let headers = message.headers.unwrap_or_default();
        let seq = number(&headers, SEQUENCE);
        let subject = headers.get(SUBJECT).map(|subject| subject.as_str().to_owned());
        let (Some(seq), Some(subject)) = (seq, subject) else {
            return Err(Error::Unexpected("a stored message without its place".to_owned()));
        };
        let previous = number(&headers, LAST_SEQUENCE).unwrap_or(0);
        Ok(Self { seq, previous, subject, headers, payload: message.payload })
    }

    /// By the server's clock.
    pub(crate) fn stored_at(&self) -> Option<OffsetDateTime> {
        clock::parse(self.header(TIME_STAMP)?).ok()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.as_str())
    }
}

async fn one(bus: &Bus, subject: String, payload: Bytes) -> Result<Option<Fetched>, Error> {
    if !bus.is_connected() {
        return Err(Error::Disconnected);
    }
    let request = Request::new().payload(payload).timeout(Some(ANSWER_WITHIN));
    let answer = timeout(ANSWER_WITHIN, bus.client.send_request(subject, request)).await;
    let message = answer.map_err(|_| Error::Timeout)??;
    match message.status {
        None => Fetched::from_answer(message).map(Some),
        Some(StatusCode::NOT_FOUND) => Ok(None),
        Some(status) => Err(refusal(status, &message)),
    }
}

enum Answer {
    Messages(Page),
    TooMany,
}

/// One batch. A page that is not complete has at least one message, so that asking again makes progress.
async fn many(bus: &Bus, stream: &str, query: &Query<'_>) -> Result<Answer, Error> {
    if !bus.is_connected() {
        return Err(Error::Disconnected);
    }
    let inbox = bus.client.new_inbox();
    let mut answers = bounded(bus.client.subscribe(inbox.clone())).await?;
    let subject = format!("$JS.API.DIRECT.GET.{stream}");
    bounded(bus.client.publish_with_reply(subject, inbox, encode(query))).await?;
    collect(&mut answers, query.batch.unwrap_or(BATCH)).await
}

async fn collect(answers: &mut Subscriber, batch: usize) -> Result<Answer, Error> {
    let (mut page, mut previous, mut wait) = (Page::default(), 0, ANSWER_WITHIN);
    while page.messages.len() < batch {
        let message = match timeout(wait, answers.next()).await {
            Ok(Some(message)) => message,
            Ok(None) => return Err(Error::Disconnected),
            Err(_) if page.messages.is_empty() => return Err(Error::Timeout),
            Err(_) => break,
        };
        wait = NEXT_WITHIN;
        if let Some(status) = message.status {
            return end(status, &message, page);
        }
        let pending = message.headers.as_ref().and_then(|headers| number(headers, PENDING));
        let fetched = Fetched::from_answer(message)?;
        if fetched.previous != previous {
            return if page.messages.is_empty() {
                Err(Error::Timeout)
            } else {
                Ok(Answer::Messages(page))
            };
        }
        previous = fetched.seq;
        page.messages.push(fetched);
        page.complete = pending == Some(0);
        if page.complete {
            break;
        }
    }
    Ok(Answer::Messages(page))
}

/// The status message after a batch, or in place of one.
fn end(status: StatusCode, message: &Message, mut page: Page) -> Result<Answer, Error> {
    match status.as_u16() {
        END_OF_BATCH if page.messages.is_empty() => Err(Error::Timeout),
        END_OF_BATCH => Ok(Answer::Messages(page)),
        NOT_FOUND => {
            page.complete = true;
            Ok(Answer::Messages(page))
        }
        TOO_MANY_RESULTS => Ok(Answer::TooMany),
        _ => Err(refusal(status, message)),
    }
}

fn refusal(status: StatusCode, message: &Message) -> Error {
    if status == StatusCode::NO_RESPONDERS {
        return Error::NoResponders;
    }
    let text = message.description.clone().unwrap_or_default();
    Error::Refused { code: u64::from(status.as_u16()), text }
}

fn encode(query: &Query<'_>) -> Bytes {
    serde_json::to_vec(query).map(Bytes::from).unwrap_or_default()
}

fn is_literal(filter: &str) -> bool {
    !filter.contains(['*', '>'])
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.as_str().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_leader_are_understood() {
        let message = br#"{"type":"t","message":{"subject":"a","seq":7,"data":"e30=","time":"x"}}"#;
        assert_eq!(found(message), Ok(Some(Bytes::from_static(b"{}"))));
        let none = br#"{"type":"t","error":{"code":404,"err_code":10037,"description":"no message found"}}"#;
        assert_eq!(found(none), Ok(None));
        let away = br#"{"error":{"code":503,"err_code":10008,"description":"unavailable"}}"#;
        let text = "unavailable".to_owned();
        assert_eq!(found(away), Err(Error::Refused { code: 10008, text }));
        assert!(matches!(found(b"+OK"), Err(Error::Unexpected(_))));
    }
}
