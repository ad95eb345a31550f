//! The model: any server that speaks Chat Completions, streamed, whatever it leaves out.
//!
//! [`request`] writes the body, [`wire`] judges the response and cleans its bytes, [`chunk`] reads one event,
//! [`assemble`] puts calls together, [`completion`] is the stream with its deadlines and retries, [`tokens`] counts.
pub mod assemble;
pub mod chunk;
pub mod completion;
pub mod request;
pub mod tokens;
pub mod wire;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent::effect::ModelRequest;
use agent::input::{Finish, ModelFailure};
use agent::message::Message;
use agent::tool::ToolSpec;
use async_openai::config::Config;
use contract::event::Usage;
use contract::subject;
use futures_util::StreamExt;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use shared::runtime::trace::Trace;

use self::completion::Items;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub struct LlmConfig {
    /// With the version, e.g. `https://api.openai.com/v1`.
    pub base_url: String,
    /// Empty for servers that want none.
    pub api_key: SecretString,
    pub model: String,
    /// From the request to the first piece of an answer, thoughts included.
    pub first_token_timeout: Duration,
    /// Silence in the middle of an answer.
    pub idle_timeout: Duration,
    /// A whole answer, retries included.
    pub total_timeout: Duration,
    /// Asks for the usage at the end; off for servers that refuse the key.
    pub stream_options: bool,
    /// Longest answer.
    pub max_tokens: Option<u32>,
}

impl LlmConfig {
    /// The defaults for everything a deployment rarely changes.
    pub fn new(base_url: &str, api_key: SecretString, model: &str) -> Self {
        Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            api_key,
            model: model.to_owned(),
            first_token_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            total_timeout: Duration::from_secs(600),
            stream_options: true,
            max_tokens: None,
        }
    }
}

impl From<&crate::config::Model> for LlmConfig {
    fn from(model: &crate::config::Model) -> Self {
        Self {
            first_token_timeout: model.first_token_timeout,
            idle_timeout: model.idle_timeout,
            total_timeout: model.total_timeout,
            stream_options: model.stream_options,
            max_tokens: model.max_tokens,
            ..Self::new(&model.base_url, model.api_key.clone(), &model.name)
        }
    }
}

/// `data:` URLs, by the names that messages have for them.
pub type Pictures = HashMap<String, String>;

/// What an answer consists of: text, then exactly one `Done`.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    Text(String),
    Done(Raw),
}

/// The end of an answer, its calls unchecked.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw {
    pub calls: Vec<RawCall>,
    pub finish: Finish,
    pub usage: Usage,
}

/// A call as the model wrote it; its id is never empty and unique within the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// Why there is no (further) answer. Text that came before stays valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LlmFailure {
    #[error("the language model can't be reached")]
    Unavailable { retry_after: Option<Duration> },
    #[error("the language model's answer can't be read")]
    Malformed,
    #[error("the language model refused the request")]
    Refused,
}

impl From<LlmFailure> for ModelFailure {
    fn from(failure: LlmFailure) -> Self {
        match failure {
            LlmFailure::Unavailable { retry_after: _ } => Self::Unavailable,
            LlmFailure::Malformed => Self::Malformed,
            LlmFailure::Refused => Self::Refused,
        }
    }
}

/// One answer in the making. Dropping it closes the socket to the model at once.
pub struct Completion {
    items: Items,
}

impl Completion {
    /// The next piece; after `Done` or an error there is none. Cancel-safe.
    pub async fn next(&mut self) -> Result<Piece, LlmFailure> {
        self.items.next().await.unwrap_or(Err(LlmFailure::Malformed))
    }
}

/// A client of one model. Cheap to clone.
#[derive(Clone)]
pub struct Llm {
    config: Arc<LlmConfig>,
    http: reqwest::Client,
    /// Sent along, so that a model's server can join the trace.
    trace: Trace,
}

impl Llm {
    pub fn new(config: LlmConfig) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            // A compressed stream is a buffered one.
            .no_gzip()
            .build()?;
        HeaderValue::from_str(config.api_key.expose_secret())
            .map_err(|_| anyhow::anyhow!("the model's API key can't stand in a header"))?;
        Ok(Self { config: Arc::new(config), http, trace: Trace::default() })
    }

    /// The same client, for requests that belong to `trace`.
    #[must_use]
    pub fn within(&self, trace: Trace) -> Self {
        Self { trace, ..self.clone() }
    }

    pub fn model(&self) -> &str {
        &self.config.model
    }

    /// An answer, piece by piece. Nothing is sent before the first `next`; dropping it closes the socket at once.
    /// `tools` are all there are; the request names those the model may see.
    pub fn stream(
        &self,
        request: &ModelRequest,
        pictures: &Pictures,
        tools: &[ToolSpec],
    ) -> Completion {
        let seen = tools.iter().filter(|tool| request.tools.contains(&tool.name)).collect();
        let body =
            request::body(&self.config, &request.messages, pictures, seen, self.config.max_tokens);
        Completion { items: completion::items(self.clone(), body) }
    }

    /// A short answer as a whole, without tools: summaries.
    pub async fn complete(
        &self,
        messages: &[Message],
        max_tokens: u32,
    ) -> Result<String, LlmFailure> {
        let body =
            request::body(&self.config, messages, &Pictures::new(), Vec::new(), Some(max_tokens));
        let mut completion = Completion { items: completion::items(self.clone(), body) };
        let mut text = String::new();
        loop {
            match completion.next().await? {
                Piece::Text(more) => text.push_str(&more),
                Piece::Done(raw) => return whole_text(text, raw.finish),
            }
        }
    }
}

fn whole_text(text: String, finish: Finish) -> Result<String, LlmFailure> {
    match finish {
        Finish::ContentFilter => Err(LlmFailure::Refused),
        Finish::Stop | Finish::Length if !text.trim().is_empty() => Ok(text),
        Finish::Stop | Finish::Length | Finish::ToolCalls | Finish::Missing => {
            Err(LlmFailure::Malformed)
        }
    }
}

/// Where requests go. Reads no environment, unlike the library's own.
#[derive(Clone)]
struct Endpoint {
    config: Arc<LlmConfig>,
    trace: Trace,
}

impl Config for Endpoint {
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let key = self.config.api_key.expose_secret();
        if !key.is_empty()
            && let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {key}"))
        {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(trace) = &self.trace.traceparent
            && let Ok(value) = HeaderValue::from_str(trace)
        {
            headers.insert(subject::HEADER_TRACEPARENT, value);
        }
        headers
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.config.base_url.trim_end_matches('/'))
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.config.base_url
    }

    fn api_key(&self) -> &SecretString {
        &self.config.api_key
    }
}

#[cfg(test)]
mod tests;
