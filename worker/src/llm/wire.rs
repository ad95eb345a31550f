//! The HTTP side of one model request: status and content type are judged, the byte stream is made safe to parse.
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde_json::Value;

use super::chunk::StreamedError;

/// An answer larger than this is cut off: nobody reads it.
const ANSWER_BYTES: usize = 32 * 1024 * 1024;
/// The parser looks through an unfinished line again and again.
const LINE_BYTES: usize = 1024 * 1024;
/// So much of an error body is read to classify it. It is never logged or passed on.
const ERROR_BODY_BYTES: usize = 4 * 1024;
const ERROR_BODY_WAIT: Duration = Duration::from_secs(2);

/// The server answered, but not with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpFailure {
    #[error("the model's server answered with status {status}")]
    Status { status: u16, retry_after: Option<Duration>, filtered: bool },
    #[error("the model's server answered with something other than an event stream")]
    NotAStream,
}

/// What the byte stream told besides its events.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    done: Arc<AtomicBool>,
}

impl Seen {
    /// Whether `[DONE]` came: the server meant to end here.
    pub fn done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }
}

/// Sends the request once. Retries are the caller's.
pub async fn send(
    http: reqwest::Client,
    factory: HttpRequestFactory,
    seen: Seen,
) -> Result<Response, OpenAIError> {
    let request = factory.build().await?;
    let response = http.execute(request).await?;
    if !response.status().is_success() {
        return Err(OpenAIError::Boxed(Box::new(refusal(response).await)));
    }
    if !may_be_stream(response.headers()) {
        return Err(OpenAIError::Boxed(Box::new(HttpFailure::NotAStream)));
    }
    let (status, headers) = (response.status(), response.headers().clone());
    let body = reqwest::Body::wrap_stream(Cleaned::new(response.bytes_stream(), seen));
    let mut cleaned = http::Response::new(body);
    *cleaned.status_mut() = status;
    *cleaned.headers_mut() = headers;
    Ok(Response::from(cleaned))
}

async fn refusal(response: Response) -> HttpFailure {
    let status = response.status();
    let retry_after = retry_after(response.headers(), SystemTime::now());
    let filtered = status == StatusCode::BAD_REQUEST && is_filtered(response).await;
    HttpFailure::Status { status: status.as_u16(), retry_after, filtered }
}

async fn is_filtered(response: Response) -> bool {
    let read = async {
        let mut body = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(Ok(piece)) = stream.next().await {
            body.extend_from_slice(&piece);
            if body.len() >= ERROR_BODY_BYTES {
                break;
            }
        }
        body
    };
    let Ok(body) = tokio::time::timeout(ERROR_BODY_WAIT, read).await else { return false };
    let Ok(value) = serde_json::from_slice::<Value>(&body) else { return false };
    value.get("error").is_some_and(|error| StreamedError::read(error).filtered)
}

/// Seconds, or an HTTP date.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date =
        time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc2822).ok()?;
    SystemTime::from(date).duration_since(now).ok()
}

/// Servers forget the type of a stream, but a JSON document or a page is never one.
fn may_be_stream(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return true };
    let value = value.to_str().unwrap_or_default().to_ascii_lowercase();
    let kind = value.split(';').next().unwrap_or_default().trim();
    matches!(
        kind,
        "" | "text/event-stream"
            | "text/plain"
            | "application/octet-stream"
            | "application/x-ndjson"
    )
}

/// A byte stream without BOM and without invalid UTF-8, of bounded size, whose last event is closed.
///
/// The parser behind it panics on a BOM, never recovers from an invalid byte and drops a last event without a blank
/// line. A dropped `Cleaned` drops the response, and with it the socket.
pub(super) struct Cleaned<S> {
    inner: Pin<Box<S>>,
    /// Bytes not passed on yet: a possible BOM at the start, a character cut at the end.
    held: Vec<u8>,
    started: bool,
    ended: bool,
    total: usize,
    line: LineStart,
    seen: Seen,
}

impl<S> Cleaned<S> {
    pub(super) fn new(inner: S, seen: Seen) -> Self {
        Self {
            inner: Box::pin(inner),
            held: Vec::new(),
            started: false,
            ended: false,
            total: 0,
            line: LineStart::default(),
            seen,
        }
    }

    pub(super) fn push(&mut self, piece: &[u8]) -> Bytes {
        self.held.extend_from_slice(piece);
        if !self.started {
            if BOM.starts_with(&self.held) && self.held.len() < BOM.len() {
                return Bytes::new();
            }
            if self.held.starts_with(BOM) {
                self.held.drain(..BOM.len());
            }
            self.started = true;
        }
        let text = take_text(&mut self.held, false);
        self.line.watch(&text, &self.seen);
        Bytes::from(text)
    }

    pub(super) fn close(&mut self) -> Bytes {
        self.ended = true;
        let mut text = take_text(&mut self.held, true);
        text.push_str("\n\n");
        self.line.watch(&text, &self.seen);
        Bytes::from(text)
    }
}

const BOM: &[u8] = "\u{feff}".as_bytes();

impl<S, E> Stream for Cleaned<S>
where
    S: Stream<Item = Result<Bytes, E>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            match self.inner.as_mut().poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Some(Ok(self.close()))),
                Poll::Ready(Some(Err(error))) => {
                    self.ended = true;
                    return Poll::Ready(Some(Err(std::io::Error::other(error))));
                }
                Poll::Ready(Some(Ok(piece))) => {
                    self.total += piece.len();
                    if self.total > ANSWER_BYTES || self.line.length > LINE_BYTES {
                        self.ended = true;
                        return Poll::Ready(Some(Err(std::io::Error::other(
                            "the answer is too large",
                        ))));
                    }
                    let bytes = self.push(&piece);
                    if !bytes.is_empty() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
            }
        }
    }
}

/// Takes the text out of `held`; a character that is cut at the end stays unless `all` is wanted.
fn take_text(held: &mut Vec<u8>, all: bool) -> String {
    let mut text = String::with_capacity(held.len());
    let mut rest = Vec::new();
    let mut chunks = held.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        let invalid = chunk.invalid();
        let cut = chunks.peek().is_none() && is_cut_character(invalid);
        if cut && !all {
            rest = invalid.to_vec();
        } else if !invalid.is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    *held = rest;
    text
}

/// Whether these bytes may become a character when more come.
fn is_cut_character(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Finds a line that says `data: [DONE]`.
#[derive(Debug, Default)]
struct LineStart {
    /// No more than its beginning.
    line: String,
    length: usize,
}

impl LineStart {
    fn watch(&mut self, text: &str, seen: &Seen) {
        for c in text.chars() {
            if c != '\n' && c != '\r' {
                self.length += c.len_utf8();
                if self.line.len() < 32 {
                    self.line.push(c);
                }
                continue;
            }
            if self.line.strip_prefix("data:").is_some_and(|data| data.trim() == "[DONE]") {
                seen.done.store(true, Ordering::Release);
            }
            self.line.clear();
            self.length = 0;
        }
    }
}
