//! The reference backend: dashboards, git, deployments, tasks and maintenance behind two identities.
//!
//! A call must carry the service's token, the user's token, an `Idempotency-Key` and a `traceparent`; what the
//! user may do is decided here, at every call. Effects are counted by idempotency key. A test can delay, fail,
//! cut or silence any operation, and withdraw permissions. The same as a program: `tests/src/bin/backend.rs`,
//! steered under `/__test/`.
mod data;
mod identity;
mod listener;
mod operation;
mod serve;
mod world;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::place;

/// The service that may act for users.
pub const CLIENT_ID: &str = "agent";
pub const CLIENT_SECRET: &str = "agent-client-secret";

/// A running backend; ends with this value.
pub struct Backend {
    url: String,
    desk: Arc<Desk>,
    task: JoinHandle<()>,
}

/// What happens to calls of one operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// Name of an operation, e.g. `deploy`; `*` for all.
    pub operation: String,
    pub kind: FaultKind,
    /// So many calls, then never again; `None`: always.
    #[serde(default)]
    pub times: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Answers as usual, so many milliseconds later. The effect comes with the answer.
    DelayMs(u64),
    /// Answers with this status and a FastAPI-like body; no effect.
    Status(u16),
    /// Answers 503 and asks for so many seconds of patience; no effect.
    BusyFor(u64),
    /// Resets the connection; no effect.
    CutBefore,
    /// The effect happens, then the connection is reset.
    CutAfter,
    /// No effect and no answer while the caller keeps the connection.
    NeverAnswer,
    /// Redirects to another host.
    RedirectTo(String),
    /// Answers 200 with this as the body, whatever it is; no effect.
    Body(String),
}

/// One call that passed the two identities.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    pub operation: String,
    pub service: String,
    pub user: String,
    pub idempotency_key: String,
    pub traceparent: String,
    pub path: String,
    pub query: String,
    pub body: Value,
    pub status: u16,
}

/// Something that changed the world.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    pub operation: String,
    pub user: String,
    pub idempotency_key: String,
    pub target: String,
    pub body: Value,
    pub answer: Value,
}

/// State shared by the server's tasks and the test.
#[derive(Default)]
struct Desk {
    secrets: Mutex<Vec<String>>,
    world: Mutex<world::World>,
    faults: Mutex<Vec<Fault>>,
    calls: Mutex<Vec<Call>>,
    effects: Mutex<Vec<Effect>>,
    /// What no correct worker sends; fails the test at the end.
    violations: Mutex<Vec<String>>,
    refused: Mutex<Vec<String>>,
    permissions: Mutex<identity::Permissions>,
    service_tokens: Mutex<ServiceTokens>,
}

struct ServiceTokens {
    lifetime: Duration,
    issued: u32,
}

impl Default for ServiceTokens {
    fn default() -> Self {
        Self { lifetime: Duration::from_secs(600), issued: 0 }
    }
}

impl Backend {
    pub async fn start(secret: &str) -> Backend {
        Self::start_at(secret, 0).await.unwrap()
    }

    pub async fn start_at(secret: &str, port: u16) -> std::io::Result<Backend> {
        Self::start_on(secret, place::loopback(port)).await
    }

    pub async fn start_on(secret: &str, address: SocketAddr) -> std::io::Result<Backend> {
        let listener = listener::Cuttable::bind(address).await?;
        let url = format!("http://127.0.0.1:{}", listener.port());
        let desk =
            Arc::new(Desk { secrets: Mutex::new(vec![secret.to_owned()]), ..Desk::default() });
        let task = tokio::spawn(serve::run(listener, Arc::clone(&desk), CancellationToken::new()));
        Ok(Backend { url, desk, task })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn service_token_url(&self) -> String {
        format!("{}/api/auth/service-token", self.url)
    }

    /// From now on also takes tokens that are signed with this.
    pub fn take_secret(&self, secret: &str) {
        self.desk.secrets.lock().unwrap().push(secret.to_owned());
    }

    pub fn fault(&self, operation: &str, kind: FaultKind, times: Option<u32>) {
        self.desk.faults.lock().unwrap().push(Fault {
            operation: operation.to_owned(),
            kind,
            times,
        });
    }

    pub fn clear_faults(&self) {
        self.desk.faults.lock().unwrap().clear();
    }

    /// From now on `user` may not do `operation`.
    pub fn revoke(&self, user: &str, operation: &str) {
        self.desk.permissions.lock().unwrap().set(user, operation, false);
    }

    pub fn grant(&self, user: &str, operation: &str) {
        self.desk.permissions.lock().unwrap().set(user, operation, true);
    }

    pub fn service_token_lifetime(&self, lifetime: Duration) {
        self.desk.service_tokens.lock().unwrap().lifetime = lifetime;
    }

    pub fn service_tokens_issued(&self) -> u32 {
        self.desk.service_tokens.lock().unwrap().issued
    }

    /// Calls that passed both identities, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.desk.calls.lock().unwrap().clone()
    }

    pub fn calls_of(&self, operation: &str) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.operation == operation).collect()
    }

    pub fn effects(&self) -> Vec<Effect> {
        self.desk.effects.lock().unwrap().clone()
    }

    pub fn effects_of(&self, operation: &str) -> Vec<Effect> {
        self.effects().into_iter().filter(|effect| effect.operation == operation).collect()
    }

    /// Calls that no correct worker makes; whoever takes them answers for them.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut *self.desk.violations.lock().unwrap())
    }

    /// Calls turned away for a missing or wrong identity or permission.
    pub fn refused(&self) -> Vec<String> {
        self.desk.refused.lock().unwrap().clone()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
        let violations = self.take_violations();
        if !std::thread::panicking() {
            assert!(
                violations.is_empty(),
                "the backend got calls no correct worker sends: {violations:#?}"
            );
        }
    }
}
