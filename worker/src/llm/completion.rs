//! One answer of the model as a stream: deadlines, retries before the first piece, one end.
use std::pin::Pin;
use std::time::Duration;

use agent::input::Finish;
use async_openai::error::OpenAIError;
use async_openai::types::chat::CreateChatCompletionRequest;
use contract::event::Usage;
use futures_util::StreamExt;
use futures_util::stream::{self, Stream};
use tokio::time::Instant;
use tracing::warn;

use super::assemble::Assembler;
use super::chunk::{Chunk, StreamedError, Tokens};
use super::wire::{self, HttpFailure, Seen};
use super::{Endpoint, Llm, LlmFailure, Piece, Raw, RawCall, tokens};
use crate::backoff;

const ATTEMPTS: u32 = 3;
const BACKOFF: Duration = Duration::from_millis(250);
/// A server that asks for more patience than this is asked again all the same.
const RETRY_AFTER_CAP: Duration = Duration::from_secs(10);

type Item = Result<Piece, LlmFailure>;
pub type Items = Pin<Box<dyn Stream<Item = Item> + Send>>;
type Chunks = Pin<Box<dyn Stream<Item = Result<Chunk, OpenAIError>> + Send>>;

/// Text pieces, then `Done` or an error, then nothing. Nothing is sent before it is polled; polling is cancel-safe.
pub fn items(llm: Llm, body: CreateChatCompletionRequest) -> Items {
    let answer = Answer::new(llm, body);
    Box::pin(stream::unfold(answer, |mut answer| async move {
        let item = answer.next().await?;
        Some((item, answer))
    }))
}

struct Answer {
    llm: Llm,
    body: CreateChatCompletionRequest,
    phase: Phase,
    attempt: u32,
    /// The end of it all.
    deadline: Instant,
    /// When the next chunk must be here.
    due: Instant,
    seen: Seen,
    /// Text, a call or a thought came: from here on nothing is repeated.
    begun: bool,
    /// A chunk could not be read: something is missing.
    damaged: bool,
    text: String,
    calls: Assembler,
    finish: Option<String>,
    usage: Option<Tokens>,
}

enum Phase {
    Sending,
    Reading(Chunks),
    Over,
}

/// Why an attempt ended without an answer.
enum Lost {
    /// Asking again may help.
    Transient {
        retry_after: Option<Duration>,
    },
    Final(LlmFailure),
}

const UNAVAILABLE: LlmFailure = LlmFailure::Unavailable { retry_after: None };

impl Answer {
    fn new(llm: Llm, body: CreateChatCompletionRequest) -> Self {
        let now = Instant::now();
        Self {
            deadline: now + llm.config.total_timeout,
            due: now,
            llm,
            body,
            phase: Phase::Sending,
            attempt: 0,
            seen: Seen::default(),
            begun: false,
            damaged: false,
            text: String::new(),
            calls: Assembler::default(),
            finish: None,
            usage: None,
        }
    }

    async fn next(&mut self) -> Option<Item> {
        loop {
            let step = match &mut self.phase {
                Phase::Over => return None,
                Phase::Sending => self.send().await,
                Phase::Reading(chunks) => {
                    let until = self.due.min(self.deadline);
                    match tokio::time::timeout_at(until, chunks.next()).await {
                        Ok(Some(Ok(chunk))) => self.take(chunk),
                        Ok(Some(Err(error))) => self.stumble(&error),
                        Ok(None) => Ok(Some(self.end())),
                        Err(_) => {
                            warn!(begun = self.begun, "The model fell silent");
                            Err(Lost::Final(UNAVAILABLE))
                        }
                    }
                }
            };
            match step {
                Ok(None) => {}
                Ok(Some(item)) => return Some(self.hand_out(item)),
                Err(lost) => {
                    if let Some(failure) = self.again(lost).await {
                        return Some(self.hand_out(Err(failure)));
                    }
                }
            }
        }
    }

    /// Anything but text is the last item.
    fn hand_out(&mut self, item: Item) -> Item {
        if !matches!(item, Ok(Piece::Text(_))) {
            self.phase = Phase::Over;
        }
        item
    }

    async fn send(&mut self) -> Result<Option<Item>, Lost> {
        self.attempt += 1;
        self.seen = Seen::default();
        self.due = Instant::now() + self.llm.config.first_token_timeout;
        let (http, seen) = (self.llm.http.clone(), self.seen.clone());
        let service =
            tower::service_fn(move |factory| wire::send(http.clone(), factory, seen.clone()));
        let endpoint = Endpoint { config: self.llm.config.clone(), trace: self.llm.trace.clone() };
        let client =
            async_openai::Client::build(self.llm.http.clone(), endpoint).with_http_service(service);
        let chat = client.chat();
        let sending = chat.create_stream_byot::<_, Chunk>(&self.body);
        match tokio::time::timeout_at(self.due.min(self.deadline), sending).await {
            Ok(Ok(chunks)) => {
                self.phase = Phase::Reading(chunks);
                Ok(None)
            }
            Ok(Err(error)) => Err(refused(&error, self.attempt)),
            Err(_) => {
                warn!("The model's server did not answer in time");
                Err(Lost::Final(UNAVAILABLE))
            }
        }
    }

    fn take(&mut self, chunk: Chunk) -> Result<Option<Item>, Lost> {
        if let Some(error) = chunk.error {
            return Err(self.told_off(error));
        }
        if chunk.reasoning || !chunk.text.is_empty() || !chunk.calls.is_empty() {
            self.begun = true;
        }
        if self.begun {
            self.due = Instant::now() + self.llm.config.idle_timeout;
        }
        for part in chunk.calls {
            self.calls.add(part);
        }
        self.finish = chunk.finish.or(self.finish.take());
        self.usage = chunk.usage.or(self.usage);
        if chunk.text.is_empty() {
            return Ok(None);
        }
        self.text.push_str(&chunk.text);
        Ok(Some(Ok(Piece::Text(chunk.text))))
    }

    /// An error object inside the stream.
    fn told_off(&self, error: StreamedError) -> Lost {
        warn!(
            status = error.status,
            begun = self.begun,
            "The model's server reported an error inside its stream"
        );
        if error.filtered {
            return Lost::Final(LlmFailure::Refused);
        }
        match error.status {
            Some(status) if backoff::is_transient(status) => Lost::Transient { retry_after: None },
            None => Lost::Transient { retry_after: None },
            Some(_) => Lost::Final(UNAVAILABLE),
        }
    }

    fn stumble(&mut self, error: &OpenAIError) -> Result<Option<Item>, Lost> {
        if let OpenAIError::JSONDeserialize(..) = error {
            warn!("A chunk of the model's answer is no JSON");
            self.damaged = true;
            return Ok(None);
        }
        warn!(begun = self.begun, "The model's answer broke off");
        Err(Lost::Transient { retry_after: None })
    }

    fn end(&mut self) -> Item {
        let calls = std::mem::take(&mut self.calls).finish();
        let finish = finish_of(self.finish.as_deref(), !calls.is_empty(), self.seen.done());
        let text_is_whole = calls.is_empty() && !self.text.is_empty() && finish != Finish::Missing;
        if self.damaged && !text_is_whole {
            return Err(LlmFailure::Malformed);
        }
        let calls: Vec<RawCall> = calls
            .into_iter()
            .map(|call| RawCall { id: call.id, name: call.name, arguments: call.arguments })
            .collect();
        Ok(Piece::Done(Raw { usage: self.usage(&calls), calls, finish }))
    }

    /// As the server counted, else as we do.
    fn usage(&self, calls: &[RawCall]) -> Usage {
        let counted = self.usage.unwrap_or_else(|| {
            let asked = serde_json::to_string(&self.body.messages).unwrap_or_default();
            let called: usize = calls.iter().map(|call| tokens::count(&call.arguments)).sum();
            let output = tokens::count(&self.text) + called;
            Tokens { input: widen(tokens::count(&asked)), output: widen(output) }
        });
        Usage { input_tokens: counted.input, output_tokens: counted.output, steps: 0 }
    }

    /// Waits for the next attempt; a failure if there is none.
    async fn again(&mut self, lost: Lost) -> Option<LlmFailure> {
        let retry_after = match lost {
            Lost::Final(failure) => return Some(failure),
            Lost::Transient { retry_after } => retry_after,
        };
        let wait = backoff::pause(BACKOFF, self.attempt, retry_after, RETRY_AFTER_CAP);
        if self.begun || self.attempt >= ATTEMPTS || Instant::now() + wait >= self.deadline {
            return Some(LlmFailure::Unavailable { retry_after });
        }
        self.phase = Phase::Sending;
        self.damaged = false;
        self.finish = None;
        tokio::time::sleep(wait).await;
        None
    }
}

fn refused(error: &OpenAIError, attempt: u32) -> Lost {
    if let OpenAIError::Boxed(inner) = error
        && let Some(failure) = inner.downcast_ref::<HttpFailure>()
    {
        warn!(attempt, "{failure}");
        return match *failure {
            HttpFailure::NotAStream => Lost::Final(LlmFailure::Malformed),
            HttpFailure::Status { filtered: true, .. } => Lost::Final(LlmFailure::Refused),
            HttpFailure::Status { status, retry_after, .. } if backoff::is_transient(status) => {
                Lost::Transient { retry_after }
            }
            HttpFailure::Status { .. } => Lost::Final(UNAVAILABLE),
        };
    }
    warn!(attempt, "The model's server can't be reached");
    match error {
        OpenAIError::Reqwest(error) if error.is_builder() => Lost::Final(UNAVAILABLE),
        OpenAIError::Reqwest(_) => Lost::Transient { retry_after: None },
        OpenAIError::ApiError(_)
        | OpenAIError::JSONDeserialize(..)
        | OpenAIError::FileSaveError(_)
        | OpenAIError::FileReadError(_)
        | OpenAIError::StreamError(_)
        | OpenAIError::Boxed(_)
        | OpenAIError::InvalidArgument(_) => Lost::Final(UNAVAILABLE),
    }
}

fn finish_of(reason: Option<&str>, has_calls: bool, done: bool) -> Finish {
    let reason = reason.unwrap_or_default().to_ascii_lowercase();
    match reason.as_str() {
        "stop" | "eos" | "end_turn" | "stop_sequence" if has_calls => Finish::ToolCalls,
        "stop" | "eos" | "end_turn" | "stop_sequence" => Finish::Stop,
        "tool_calls" | "tool_use" | "function_call" => Finish::ToolCalls,
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "content_filter" | "safety" | "refusal" => Finish::ContentFilter,
        // A server that says `[DONE]` after calls meant to end there.
        "" if has_calls && done => Finish::ToolCalls,
        _ => Finish::Missing,
    }
}

fn widen(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
