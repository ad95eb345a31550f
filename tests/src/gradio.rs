//! A small Gradio client: joins, reads the session's event stream, cancels, attaches, calls the simple API.
//!
//! Strict where the stock clients are: an unknown message, a frame that is no plain `data:` line, a value
//! after the completion or a second completion fails the test.
mod inbox;
pub mod raw;
pub mod turn;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::place;
use inbox::Inbox;
use turn::Turn;

/// No step of a test takes longer.
const PATIENCE: Duration = Duration::from_secs(40);

/// One user's client object: one session, any number of submissions, one stream at a time.
pub struct Client {
    base: String,
    token: String,
    session: String,
    http: reqwest::Client,
    inbox: Arc<Inbox>,
    reader: Option<JoinHandle<()>>,
}

/// What is submitted.
#[derive(Clone, Debug)]
pub struct Submission {
    body: Value,
}

impl Submission {
    /// A message, in the form `[{text, files}, conversation, action]`.
    pub fn new(text: &str, conversation: Option<&str>, action: Option<&str>) -> Self {
        Self::raw(json!([{"text": text, "files": []}, conversation, action, null, null, null]))
    }

    /// The `data` array as it is.
    pub fn raw(data: Value) -> Self {
        Self { body: json!({"data": data, "fn_index": 0}) }
    }

    /// With the client's own id of the message.
    #[must_use]
    pub fn named(mut self, message_id: &str) -> Self {
        self.body["data"][3] = json!(message_id);
        self
    }

    /// Any further field of the body, e.g. `event_data`.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.body[key] = value;
        self
    }
}

impl Client {
    pub fn new(base: &str, token: &str) -> Client {
        let session = uuid::Uuid::new_v4().simple().to_string()[..11].to_owned();
        Client {
            base: base.to_owned(),
            token: token.to_owned(),
            session,
            http: place::http(),
            inbox: Arc::default(),
            reader: None,
        }
    }

    /// Another session of the same user, as another tab would have.
    pub fn another_tab(&self) -> Client {
        Client::new(&self.base, &self.token)
    }

    pub fn session(&self) -> &str {
        &self.session
    }

    /// Uses a session hash that somebody else may have.
    pub fn set_session(&mut self, session: &str) {
        session.clone_into(&mut self.session);
    }

    pub fn set_token(&mut self, token: &str) {
        token.clone_into(&mut self.token);
    }

    /// Sends this `traceparent` from now on.
    pub fn set_trace(&mut self, traceparent: &str) {
        let value = reqwest::header::HeaderValue::from_str(traceparent).unwrap();
        let headers = reqwest::header::HeaderMap::from_iter([(
            reqwest::header::HeaderName::from_static("traceparent"),
            value,
        )]);
        self.http = reqwest::Client::builder().no_proxy().default_headers(headers).build().unwrap();
    }

    /// From now on talks to another gateway.
    pub fn move_to(&mut self, base: &str) {
        base.clone_into(&mut self.base);
    }

    /// Submits a message and reads until it is complete.
    pub async fn say(&mut self, conversation: &str, text: &str) -> Turn {
        let event = self.submit(Submission::new(text, Some(conversation), None)).await;
        self.finish(&event).await
    }

    /// Submits an action (`confirm`, `deny`, ...) and reads until it is complete.
    pub async fn act(&mut self, conversation: &str, action: &str, text: &str) -> Turn {
        let event = self.submit(Submission::new(text, Some(conversation), Some(action))).await;
        self.finish(&event).await
    }

    /// Joins, opens the event stream if none is open, and gives the event's id.
    pub async fn submit(&mut self, submission: Submission) -> String {
        let (status, answer) = self.join(submission).await;
        assert_eq!(status, 200, "joining: {answer}");
        let event = answer["event_id"]
            .as_str()
            .unwrap_or_else(|| panic!("no event_id in {answer}"))
            .to_owned();
        self.open_stream();
        event
    }

    /// The bare join: status and answer.
    pub async fn join(&self, submission: Submission) -> (u16, Value) {
        let mut body = submission.body;
        if body.get("session_hash").is_none() {
            body["session_hash"] = json!(self.session);
        }
        self.post("/gradio_api/queue/join", &body).await
    }

    /// A join whose answer gets lost on its way.
    pub async fn join_in_vain(&self, submission: Submission) {
        let mut body = submission.body;
        body["session_hash"] = json!(self.session);
        let url = format!("{}/gradio_api/queue/join", self.base);
        let request = self.http.post(url).bearer_auth(&self.token).json(&body);
        let answer = request.send().await;
        assert!(answer.is_err(), "the answer arrived: {answer:?}");
    }

    /// Opens the session's stream unless it is open.
    pub fn open_stream(&mut self) {
        if self.reader.as_ref().is_some_and(|reader| !reader.is_finished())
            && !self.inbox.is_closed()
        {
            return;
        }
        self.inbox.reopen();
        let url = format!("{}/gradio_api/queue/data?session_hash={}", self.base, self.session);
        let request = self.http.get(url).bearer_auth(&self.token);
        self.reader = Some(tokio::spawn(inbox::read(request, Arc::clone(&self.inbox))));
    }

    /// Drops the connection of the event stream, as a closed tab does.
    pub async fn hang_up(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.abort();
            let _ = reader.await;
        }
    }

    /// The event's frames, when it is complete.
    pub async fn finish(&self, event: &str) -> Turn {
        self.turn_when(event, "its completion", |turn| turn.completed.is_some()).await
    }

    /// The event's frames so far, as soon as one of this metadata type is there.
    pub async fn until(&self, event: &str, kind: &str) -> Turn {
        self.turn_when(event, kind, |turn| {
            turn.types().contains(&kind.to_owned()) || turn.completed.is_some()
        })
        .await
    }

    async fn turn_when(&self, event: &str, what: &str, done: impl Fn(&Turn) -> bool) -> Turn {
        let waited = tokio::time::timeout(PATIENCE, self.inbox.wait(event, done)).await;
        waited.unwrap_or_else(|_| {
            let seen = self.inbox.turn(event);
            panic!(
                "waiting for {what} of {event}; seen so far: {seen:#?}, stream: {:?}",
                self.inbox.trouble()
            )
        })
    }

    /// Waits for the end of the stream (`close_stream`, or a broken connection).
    pub async fn closed(&self) {
        let waited = tokio::time::timeout(PATIENCE, self.inbox.wait_closed()).await;
        assert!(waited.is_ok(), "the stream was not closed: {:?}", self.inbox.trouble());
    }

    /// Ids of all events of which a frame came.
    pub fn events(&self) -> Vec<String> {
        self.inbox.events()
    }

    /// Frames without an event: `unexpected_error` and the like.
    pub fn loose_frames(&self) -> Vec<Value> {
        self.inbox.loose()
    }

    /// What the stock clients send to stop a submission.
    pub async fn cancel(&self, event: &str) {
        let body = json!({"event_id": event, "session_hash": self.session, "fn_index": 0});
        let (status, answer) = self.post("/gradio_api/cancel", &body).await;
        assert_eq!((status, answer), (200, json!({"success": true})));
        self.post("/gradio_api/reset", &json!({"event_id": event})).await;
    }

    /// `POST call/chat` and the event stream of its answer, as text.
    pub async fn call(&self, data: Value) -> String {
        let (status, answer) = self.post("/gradio_api/call/chat", &json!({"data": data})).await;
        assert_eq!(status, 200, "calling: {answer}");
        let url =
            format!("{}/gradio_api/call/chat/{}", self.base, answer["event_id"].as_str().unwrap());
        let response = self.http.get(url).bearer_auth(&self.token).send().await.unwrap();
        tokio::time::timeout(PATIENCE, response.text())
            .await
            .expect("the call never ended")
            .unwrap()
    }

    /// Posts JSON with this client's token; an answer that is not JSON comes as a string.
    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.post_bytes(path, body.to_string().into_bytes()).await
    }

    pub async fn post_bytes(&self, path: &str, body: Vec<u8>) -> (u16, Value) {
        let request = self.http.post(format!("{}{path}", self.base)).bearer_auth(&self.token);
        let request =
            request.header("content-type", "application/json").timeout(PATIENCE).body(body);
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
        if !std::thread::panicking()
            && let Some(trouble) = self.inbox.breach()
        {
            panic!("a stock client would have failed: {trouble}");
        }
    }
}
