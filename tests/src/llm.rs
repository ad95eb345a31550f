//! A scripted OpenAI-compatible model server.
//!
//! A test says what the model answers: by a phrase in the newest user message ([`Model::on`]), or whatever
//! comes next ([`Model::queue`]). Every request is checked ([`check`]); one that no correct worker sends fails
//! the test when the model is dropped. As a program (`tests/src/bin/llm.rs`) it follows [`demo`] rules instead.
pub mod check;
pub mod demo;
pub mod reply;
mod serve;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;
use tokio::task::JoinHandle;

use reply::Reply;

pub const API_KEY: &str = "scripted-model-key";
pub const MODEL: &str = "scripted";

/// A running model; ends with this value.
pub struct Model {
    url: String,
    desk: Arc<Desk>,
    task: JoinHandle<()>,
}

/// One request and what became of its answer.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub body: Value,
    pub asked_at: Instant,
    pub chunks_sent: usize,
    /// When the peer closed the connection before the answer had been written.
    pub hung_up_at: Option<Instant>,
    pub finished: bool,
}

struct Script {
    phrase: String,
    replies: VecDeque<Reply>,
}

#[derive(Default)]
struct Desk {
    scripts: Mutex<Vec<Script>>,
    queue: Mutex<VecDeque<Reply>>,
    /// What to answer when no script fits.
    fallback: Mutex<Fallback>,
    exchanges: Mutex<Vec<Exchange>>,
    violations: Mutex<Vec<String>>,
    changed: tokio::sync::Notify,
}

#[derive(Clone, Default)]
enum Fallback {
    /// A short plain text.
    #[default]
    Text,
    /// Rules that choose tools from Russian and English phrases.
    Demo,
}

impl Model {
    pub async fn start() -> Model {
        Self::start_at(0).await.unwrap()
    }

    pub async fn start_at(port: u16) -> std::io::Result<Model> {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let desk = Arc::new(Desk::default());
        let task = tokio::spawn(serve::run(listener, Arc::clone(&desk)));
        Ok(Model { url, desk, task })
    }

    /// Follow the demo's rules where no script fits.
    pub fn follow_demo_rules(&self) {
        *self.desk.fallback.lock().unwrap() = Fallback::Demo;
    }

    /// The value of `OPENAI_BASE_URL`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The answers to requests whose newest user message contains `phrase`, in this order. The latest
    /// script that fits and still has an answer is followed.
    pub fn on(&self, phrase: &str, replies: impl IntoIterator<Item = Reply>) {
        let replies = replies.into_iter().collect();
        self.desk.scripts.lock().unwrap().push(Script { phrase: phrase.to_owned(), replies });
    }

    /// The answer to the next request that no phrase fits.
    pub fn queue(&self, reply: Reply) {
        self.desk.queue.lock().unwrap().push_back(reply);
    }

    pub fn exchanges(&self) -> Vec<Exchange> {
        self.desk.exchanges.lock().unwrap().clone()
    }

    /// Bodies of all requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.exchanges().into_iter().map(|exchange| exchange.body).collect()
    }

    /// Waits until `done` says yes to the exchanges so far.
    pub async fn wait(&self, what: &str, done: impl Fn(&[Exchange]) -> bool) {
        let waiting = async {
            loop {
                let changed = self.desk.changed.notified();
                if done(&self.exchanges()) {
                    return;
                }
                changed.await;
            }
        };
        let limit = std::time::Duration::from_secs(20);
        assert!(tokio::time::timeout(limit, waiting).await.is_ok(), "the model never saw: {what}");
    }

    /// What was wrong with the requests so far; a test that provokes it takes it away.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut *self.desk.violations.lock().unwrap())
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.task.abort();
        let violations = self.take_violations();
        if !std::thread::panicking() {
            assert!(violations.is_empty(), "the model got malformed requests: {violations:#?}");
        }
    }
}

impl Desk {
    fn choose(&self, body: &Value) -> Reply {
        let newest = demo::newest_user_text(body);
        let mut scripts = self.scripts.lock().unwrap();
        let fitting =
            scripts.iter_mut().rev().find(|s| newest.contains(&s.phrase) && !s.replies.is_empty());
        if let Some(reply) = fitting.and_then(|script| script.replies.pop_front()) {
            return reply;
        }
        drop(scripts);
        if let Some(reply) = self.queue.lock().unwrap().pop_front() {
            return reply;
        }
        match &*self.fallback.lock().unwrap() {
            Fallback::Text => Reply::text("Done."),
            Fallback::Demo => demo::choose(body),
        }
    }

    fn open(&self, body: Value) -> usize {
        let mut exchanges = self.exchanges.lock().unwrap();
        let asked_at = Instant::now();
        exchanges.push(Exchange {
            body,
            asked_at,
            chunks_sent: 0,
            hung_up_at: None,
            finished: false,
        });
        self.changed.notify_waiters();
        exchanges.len() - 1
    }

    fn update(&self, index: usize, change: impl FnOnce(&mut Exchange)) {
        change(&mut self.exchanges.lock().unwrap()[index]);
        self.changed.notify_waiters();
    }
}
