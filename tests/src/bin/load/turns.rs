//! One turn, sent and timed as lightly as possible: the generator shares the cores with what it measures.
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tests::{llm, place};

use crate::figures::Measured;

pub enum Target {
    /// Straight to the model, as the worker asks it.
    Model {
        url: String,
    },
    Gateway {
        url: String,
    },
}

pub struct Caller {
    token: String,
    http: reqwest::Client,
}

/// No turn takes longer, whatever is wrong.
const PATIENCE: Duration = Duration::from_secs(120);

impl Caller {
    pub fn new(token: &str) -> Caller {
        Caller { token: token.to_owned(), http: place::http() }
    }

    pub async fn turn(&self, target: &Target, text: &str, tokens: u64) -> Measured {
        let started = Instant::now();
        let turn = async {
            match target {
                Target::Model { url } => self.ask_model(url, text).await,
                Target::Gateway { url } => self.ask_gateway(url, text).await,
            }
        };
        let outcome = tokio::time::timeout(PATIENCE, turn).await;
        let turn = started.elapsed();
        let failed =
            |what: String| Measured { first_token: turn, turn, tokens: 0, failure: Some(what) };
        match outcome {
            Ok(Ok(Some(first))) => {
                Measured { first_token: first - started, turn, tokens, failure: None }
            }
            Ok(Ok(None)) => failed("no token".to_owned()),
            Ok(Err(problem)) => failed(problem),
            Err(_) => failed("took too long".to_owned()),
        }
    }

    async fn ask_model(&self, url: &str, text: &str) -> Result<Option<Instant>, String> {
        let body = json!({"model": llm::MODEL, "stream": true, "messages": [{"role": "user", "content": text}]});
        let request =
            self.http.post(format!("{url}/chat/completions")).bearer_auth(llm::API_KEY).json(&body);
        // The chunk that only names the role has an empty content.
        follow(
            request,
            |chunk| contains(chunk, b"\"content\":\"") && !contains(chunk, b"\"content\":\"\""),
            b"[DONE]",
        )
        .await
    }

    async fn ask_gateway(&self, url: &str, text: &str) -> Result<Option<Instant>, String> {
        let session = uuid::Uuid::new_v4().simple().to_string();
        let data = json!([{"text": text, "files": []}, null, null]);
        let body = json!({"data": data, "fn_index": 0, "session_hash": session});
        let join = self
            .http
            .post(format!("{url}/gradio_api/queue/join"))
            .bearer_auth(&self.token)
            .json(&body);
        let answer = join.send().await.map_err(|e| format!("join: {e}"))?;
        let status = answer.status();
        let answer: Value = answer.json().await.map_err(|e| format!("join: {status}: {e}"))?;
        if answer["event_id"].is_null() {
            return Err(format!("join: {status} {answer}"));
        }
        let stream = self.http.get(format!("{url}/gradio_api/queue/data?session_hash={session}"));
        follow(
            stream.bearer_auth(&self.token),
            |chunk| contains(chunk, b"stream_token"),
            b"close_stream",
        )
        .await
    }
}

/// When the first token came; an error if the stream ends without `last`. Hangs up there, as stock clients do.
async fn follow(
    request: reqwest::RequestBuilder,
    is_token: impl Fn(&[u8]) -> bool,
    last: &[u8],
) -> Result<Option<Instant>, String> {
    let response = request.send().await.map_err(|e| format!("stream: {e}"))?;
    if !response.status().is_success() {
        return Err(format!("stream: {}", response.status()));
    }
    let mut body = response.bytes_stream();
    let mut first = None;
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|e| format!("stream: {e}"))?;
        if first.is_none() && piece.split(|byte| *byte == b'\n').any(&is_token) {
            first = Some(Instant::now());
        }
        if contains(&piece, b"\"type\":\"error\"") {
            return Err(String::from_utf8_lossy(&piece).into_owned());
        }
        if contains(&piece, last) {
            return Ok(first);
        }
    }
    Err("the stream broke off".to_owned())
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}
