//! Every variable of the worker, with default and unit.
use std::path::PathBuf;
use std::time::Duration;

use contract::limits;
use secrecy::SecretString;
use shared::runtime::env::{Env, Problem};

#[derive(Clone, Debug)]
pub struct Config {
    /// `WORKER_NAME`: who owns a lease. Default `worker-<pid>`.
    pub name: String,
    /// `WORKER_SLOTS` (8): turns run at once.
    pub slots: usize,
    /// `WORKER_HEALTH_LISTEN`: address of `/healthz/*`; off when empty.
    pub health_listen: Option<String>,
    /// `NATS_URL` (nats://127.0.0.1:4222): servers, separated by commas.
    pub nats_urls: Vec<String>,
    /// `NATS_NKEY`: seed of a key. `NATS_CREDS`: credentials file. `NATS_CA`: CA file.
    pub nats_nkey: Option<SecretString>,
    pub nats_credentials: Option<PathBuf>,
    pub nats_ca: Option<PathBuf>,
    /// `NATS_REPLICAS` (1): as given to the migration step; compared at start.
    pub nats_replicas: usize,
    /// `DATABASE_URL`. `DATABASE_POOL` (16): connections.
    pub database_url: SecretString,
    pub database_pool: u32,
    /// `SEAL_KEY`: base64 of 32 bytes; `SEAL_KEYS_PREVIOUS`: older ones, separated by commas.
    pub seal_key: SecretString,
    pub seal_keys_previous: Vec<SecretString>,
    pub timing: Timing,
    pub backend: Backend,
    pub model: Model,
    pub documents: Documents,
    /// `HISTORY_TOKENS` (4000): history given to the model, in tokens.
    pub history_tokens: usize,
    /// `CONFIRM_TOOLS`: tools that need a confirmation besides the three fixed ones, separated by commas.
    pub confirm_tools: Vec<String>,
    /// `IDEMPOTENT_TOOLS`: tools whose calls the backend makes once per `Idempotency-Key`, separated by commas.
    pub idempotent_tools: Vec<String>,
    /// `TURNS_PER_USER` (4): live turns of one user.
    pub turns_per_user: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// `ACK_WAIT_MS` (15000): the consumer's; checked at start.
    pub ack_wait: Duration,
    /// `HEARTBEAT_MS` (4000): lease renewal and in-progress ack.
    pub heartbeat: Duration,
    /// `LEASE_MS` (15000).
    pub lease: Duration,
    /// `DRAIN_S` (25): running turns may finish so long after SIGTERM.
    pub drain: Duration,
    /// `CONFIRMATION_TTL_S` (900).
    pub confirmation_ttl: Duration,
    /// `TOKEN_COALESCE_MS` (25): least time between token events of a busy stream.
    pub coalesce: Duration,
    /// `TOOL_PROGRESS_AFTER_MS` (30000), `TOOL_PROGRESS_EVERY_MS` (5000).
    pub progress_after: Duration,
    pub progress_every: Duration,
}

#[derive(Clone, Debug)]
pub struct Backend {
    /// `BACKEND_URL`.
    pub url: String,
    /// `BACKEND_PATHS`: JSON object of path overrides.
    pub paths: Option<String>,
    /// `SERVICE_TOKEN_URL` (`<BACKEND_URL>/api/auth/service-token`).
    pub token_url: String,
    /// `SERVICE_CLIENT_ID` (agent), `SERVICE_CLIENT_SECRET`.
    pub client_id: String,
    pub client_secret: SecretString,
    /// `BACKEND_TIMEOUT_S` (600): the longest any call may take.
    pub call_timeout: Duration,
}

#[derive(Clone, Debug)]
pub struct Model {
    /// `OPENAI_BASE_URL` (<https://api.openai.com/v1>).
    pub base_url: String,
    /// `OPENAI_API_KEY`; may be empty for servers that want none.
    pub api_key: SecretString,
    /// `OPENAI_MODEL`.
    pub name: String,
    /// `LLM_FIRST_TOKEN_TIMEOUT_S` (60).
    pub first_token_timeout: Duration,
    /// `LLM_IDLE_TIMEOUT_S` (60): silence in the middle of an answer.
    pub idle_timeout: Duration,
    /// `LLM_TOTAL_TIMEOUT_S` (600): one answer.
    pub total_timeout: Duration,
    /// `LLM_MAX_TOKENS`: cap of one answer; the server's own when not set.
    pub max_tokens: Option<u32>,
    /// `LLM_IMAGES` (false): the model takes images.
    pub images: bool,
    /// `LLM_STREAM_OPTIONS` (true): ask for token usage; some servers refuse the field.
    pub stream_options: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Documents {
    /// `DOCUMENT_READERS` (2): child processes that read uploads at a time.
    pub readers: usize,
    /// `DOCUMENT_BYTES` (60000): text of one file in the model's context.
    pub file_bytes: usize,
    /// `DOCUMENTS_BYTES` (100000): text of all files in the model's context.
    pub message_bytes: usize,
}

impl Config {
    /// Reads the configuration; reports every problem at once.
    pub fn load(env: Env) -> Result<Self, Vec<Problem>> {
        let backend_url = env.required("BACKEND_URL");
        let config = Self {
            name: env
                .string("WORKER_NAME", &format!("worker-{}-{}", hostname(), std::process::id())),
            slots: env.number("WORKER_SLOTS", 8),
            health_listen: env.optional("WORKER_HEALTH_LISTEN"),
            nats_urls: nats_urls(&env),
            nats_nkey: env.optional_secret("NATS_NKEY"),
            nats_credentials: env.optional("NATS_CREDS").map(PathBuf::from),
            nats_ca: env.optional("NATS_CA").map(PathBuf::from),
            nats_replicas: env.number("NATS_REPLICAS", 1),
            database_url: env.secret("DATABASE_URL"),
            database_pool: env.number("DATABASE_POOL", limits::WORKER_CONNECTIONS),
            seal_key: env.secret("SEAL_KEY"),
            seal_keys_previous: env
                .list("SEAL_KEYS_PREVIOUS")
                .into_iter()
                .map(SecretString::from)
                .collect(),
            timing: Timing::load(&env),
            backend: Backend {
                token_url: env.string("SERVICE_TOKEN_URL", &default_token_url(&backend_url)),
                url: backend_url,
                paths: env.optional("BACKEND_PATHS"),
                client_id: env.string("SERVICE_CLIENT_ID", "agent"),
                client_secret: env.secret("SERVICE_CLIENT_SECRET"),
                call_timeout: env.seconds("BACKEND_TIMEOUT_S", Duration::from_secs(600)),
            },
            model: Model {
                base_url: env.string("OPENAI_BASE_URL", "https://api.openai.com/v1"),
                api_key: SecretString::from(env.string("OPENAI_API_KEY", "")),
                name: env.required("OPENAI_MODEL"),
                first_token_timeout: env
                    .seconds("LLM_FIRST_TOKEN_TIMEOUT_S", Duration::from_secs(60)),
                idle_timeout: env.seconds("LLM_IDLE_TIMEOUT_S", Duration::from_secs(60)),
                total_timeout: env.seconds("LLM_TOTAL_TIMEOUT_S", Duration::from_secs(600)),
                max_tokens: env.optional("LLM_MAX_TOKENS").map(|_| env.number("LLM_MAX_TOKENS", 0)),
                images: env.switch("LLM_IMAGES", false),
                stream_options: env.switch("LLM_STREAM_OPTIONS", true),
            },
            documents: Documents {
                readers: env.number("DOCUMENT_READERS", 2),
                file_bytes: env.number("DOCUMENT_BYTES", 60_000),
                message_bytes: env.number("DOCUMENTS_BYTES", 100_000),
            },
            history_tokens: env.number("HISTORY_TOKENS", limits::HISTORY_TOKENS),
            confirm_tools: env.list("CONFIRM_TOOLS"),
            idempotent_tools: env.list("IDEMPOTENT_TOOLS"),
            turns_per_user: env.number("TURNS_PER_USER", limits::TURNS_PER_USER),
        };
        config.check(&env);
        env.finish().map(|()| config)
    }

    fn check(&self, env: &Env) {
        if self.slots == 0 {
            env.report("WORKER_SLOTS", "must be at least 1");
        }
        if self.documents.readers == 0 {
            env.report("DOCUMENT_READERS", "must be at least 1");
        }
        let timing = &self.timing;
        if timing.heartbeat * 2 > timing.ack_wait || timing.heartbeat * 2 > timing.lease {
            env.report("HEARTBEAT_MS", "must be at most half of ACK_WAIT_MS and of LEASE_MS");
        }
        if timing.lease > timing.ack_wait {
            env.report("LEASE_MS", "must be at most ACK_WAIT_MS");
        }
    }
}

impl Timing {
    fn load(env: &Env) -> Self {
        Self {
            ack_wait: env.millis("ACK_WAIT_MS", Duration::from_secs(15)),
            heartbeat: env.millis("HEARTBEAT_MS", limits::HEARTBEAT),
            lease: env.millis("LEASE_MS", limits::LEASE),
            drain: env.seconds("DRAIN_S", limits::DRAIN),
            confirmation_ttl: env.seconds("CONFIRMATION_TTL_S", limits::CONFIRMATION_TTL),
            coalesce: env.millis("TOKEN_COALESCE_MS", Duration::from_millis(25)),
            progress_after: env.millis("TOOL_PROGRESS_AFTER_MS", limits::TOOL_PROGRESS_AFTER),
            progress_every: env.millis("TOOL_PROGRESS_EVERY_MS", limits::TOOL_PROGRESS_EVERY),
        }
    }
}

fn nats_urls(env: &Env) -> Vec<String> {
    let urls = env.list("NATS_URL");
    if urls.is_empty() { vec!["nats://127.0.0.1:4222".to_owned()] } else { urls }
}

fn default_token_url(backend_url: &str) -> String {
    format!("{}/api/auth/service-token", backend_url.trim_end_matches('/'))
}

/// The pod's name on Kubernetes. Read from the kernel: the variable is not exported everywhere.
fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(40).collect()
}
