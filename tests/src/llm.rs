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
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;
use tokio::task::JoinHandle;

use reply::Reply;

use crate::place;

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
    pub traceparent: String,
    pub asked_at: Instant,
    pub chunks_sent: usize,
    /// When the peer closed the connection before the answer had been written.
    pub hung_up_at: Option<Instant>,
    pub finished: bool,
}

struct Script {
    phrase: String,
    replies: VecDeque<Reply>,
    by_step: bool,
}

impl Script {
    fn next(&mut self, newest: &str, step: usize) -> Option<Reply> {
        if !self.by_step {
            return self.replies.pop_front();
        }
        // Other turns have other calls.
        let mut hasher = DefaultHasher::new();
        (newest, step).hash(&mut hasher);
        let name = format!("call_{:016x}", hasher.finish());
        self.replies.get(step).map(|reply| reply.clone().with_call_ids(&name))
    }
}

#[derive(Default)]
struct Desk {
    scripts: Mutex<Vec<Script>>,
    queue: Mutex<VecDeque<Reply>>,
    /// What to answer when no script fits.
    fallback: Mutex<Fallback>,
    exchanges: Mutex<Vec<Exchange>>,
    forgets_requests: AtomicBool,
    violations: Mutex<Vec<String>>,
    changed: tokio::sync::Notify,
}

/// Says what to answer to a request.
pub type Rule = Arc<dyn Fn(&Value) -> Reply + Send + Sync>;

#[derive(Clone, Default)]
enum Fallback {
    /// A short plain text.
    #[default]
    Text,
    /// Rules that choose tools from Russian and English phrases.
    Demo,
    Rule(Rule),
}

impl Model {
    pub async fn start() -> Model {
        Self::start_at(0).await.unwrap()
    }

    pub async fn start_at(port: u16) -> std::io::Result<Model> {
        Self::start_on(place::loopback(port)).await
    }

    pub async fn start_on(address: SocketAddr) -> std::io::Result<Model> {
        let listener = tokio::net::TcpListener::bind(address).await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let desk = Arc::new(Desk::default());
        let task = tokio::spawn(serve::run(listener, Arc::clone(&desk)));
        Ok(Model { url, desk, task })
    }

    /// Follow the demo's rules where no script fits.
    pub fn follow_demo_rules(&self) {
        *self.desk.fallback.lock().unwrap() = Fallback::Demo;
    }

    /// Follow this rule where no script fits.
    pub fn follow(&self, rule: Rule) {
        *self.desk.fallback.lock().unwrap() = Fallback::Rule(rule);
    }

    /// The value of `OPENAI_BASE_URL`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The answers to requests whose newest user message contains `phrase`, in this order. The latest
    /// script that fits and still has an answer is followed.
    pub fn on(&self, phrase: &str, replies: impl IntoIterator<Item = Reply>) {
        self.add(phrase, replies, false);
    }

    /// As [`Model::on`], but the answer goes by the step of the turn: however often the same step is asked,
    /// by whatever worker, it gets the same answer.
    pub fn on_steps(&self, phrase: &str, replies: impl IntoIterator<Item = Reply>) {
        self.add(phrase, replies, true);
    }

    fn add(&self, phrase: &str, replies: impl IntoIterator<Item = Reply>, by_step: bool) {
        let (phrase, replies) = (phrase.to_owned(), replies.into_iter().collect());
        self.desk.scripts.lock().unwrap().push(Script { phrase, replies, by_step });
    }

    /// The answer to the next request that no phrase fits.
    pub fn queue(&self, reply: Reply) {
        self.desk.queue.lock().unwrap().push_back(reply);
    }

    /// From now on exchanges have no body: a long run would fill the memory.
    pub fn forget_requests(&self) {
        self.desk.forgets_requests.store(true, Ordering::SeqCst);
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
        let (newest, step) = (demo::newest_user_text(body), demo::step(body));
        let mut scripts = self.scripts.lock().unwrap();
        let mut fitting = scripts.iter_mut().rev().filter(|s| newest.contains(&s.phrase));
        if let Some(reply) = fitting.find_map(|script| script.next(&newest, step)) {
            return reply;
        }
        drop(scripts);
        if let Some(reply) = self.queue.lock().unwrap().pop_front() {
            return reply;
        }
        match &*self.fallback.lock().unwrap() {
            Fallback::Text => Reply::text("Done."),
            Fallback::Demo => demo::choose(body),
            Fallback::Rule(rule) => rule(body),
        }
    }

    fn open(&self, body: Value, traceparent: &str) -> usize {
        let mut exchanges = self.exchanges.lock().unwrap();
        let asked_at = Instant::now();
        let forgets = self.forgets_requests.load(Ordering::SeqCst);
        let body = if forgets { Value::Null } else { body };
        exchanges.push(Exchange {
            body,
            traceparent: traceparent.to_owned(),
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
