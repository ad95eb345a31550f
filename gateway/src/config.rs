//! Every variable of the gateway, with default and unit. Problems are reported all at once.
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use contract::limits;
use secrecy::{ExposeSecret, SecretString};
use shared::bus;
use shared::bus::topology;
use shared::runtime::env::{Env, Problem};
use shared::runtime::seal::Sealer;
use shared::store::pool;

use crate::{auth, connections, load};

pub struct Config {
    /// `GATEWAY_LISTEN`, default 127.0.0.1:8080.
    pub listen: SocketAddr,
    /// `GATEWAY_PREFIX`: serve everything below this path too, e.g. `/api/agent/gradio`.
    pub prefix: Option<String>,
    /// `JWT_SECRET`, at least 32 bytes: signs users' and services' tokens.
    pub jwt_secret: SecretString,
    /// `JWT_SECRETS_PREVIOUS`: older ones whose tokens are good until they end, separated by commas.
    pub jwt_secrets_previous: Vec<SecretString>,
    /// `JWT_LEEWAY_S` (5), `JWT_AUDIENCE`, `JWT_ISSUER`.
    pub tokens: auth::Rules,
    /// `SERVICE_CLIENT_ID`, `SERVICE_CLIENT_SECRET`, `SERVICE_TOKEN_TTL_S` (300): without the first two the
    /// gateway issues no service tokens.
    pub service: Option<ServiceClient>,
    /// `GATEWAY_NOTICE_MS` (2000): told to stop, the gateway serves on for so long, with readiness off.
    pub notice: Duration,
    /// `GATEWAY_CONNECTIONS` (20000), `GATEWAY_IDLE_S` (65), `GATEWAY_STALL_S` (30).
    pub connections: connections::Bounds,
    /// `GATEWAY_STREAMS` (10000), `GATEWAY_STREAMS_PER_USER` (100), `GATEWAY_JOBS_PER_USER` (32).
    pub load: load::Limits,
    /// `GATEWAY_GRACE_S` (20): open streams have so long to end on shutdown.
    pub grace: Duration,
    /// `SEAL_KEY`, `SEAL_KEYS_PREVIOUS`: 32 bytes in base64 each.
    pub seal_key: SecretString,
    pub seal_keys_previous: Vec<SecretString>,
    /// `NATS_URL`, `NATS_CREDS` or `NATS_NKEY`, `NATS_CA`.
    pub nats: bus::connect::Config,
    pub topology: topology::Options,
    /// `DATABASE_URL`, `DATABASE_CONNECTIONS` (10).
    pub database: pool::Config,
}

/// Who may fetch a service token here.
pub struct ServiceClient {
    pub id: String,
    pub secret: SecretString,
    pub ttl: Duration,
}

/// What `gateway migrate` needs.
pub struct MigrateConfig {
    pub nats: bus::connect::Config,
    /// `NATS_REPLICAS` (1), `ACK_WAIT_MS` (15000).
    pub topology: topology::Options,
    /// `DATABASE_URL`
    pub database_url: SecretString,
}

impl Config {
    pub fn load(env: Env) -> Result<Self, Vec<Problem>> {
        let seal_key = env.secret("SEAL_KEY");
        let seal_keys_previous = secrets(&env, "SEAL_KEYS_PREVIOUS");
        if !seal_key.expose_secret().is_empty()
            && let Err(error) = Sealer::from_keys(&seal_key, &seal_keys_previous)
        {
            env.report("SEAL_KEY", error);
        }
        let config = Self {
            listen: env.number("GATEWAY_LISTEN", SocketAddr::from(([127, 0, 0, 1], 8080))),
            prefix: prefix(&env),
            jwt_secret: jwt_secret(&env),
            jwt_secrets_previous: jwt_secrets_previous(&env),
            tokens: auth::Rules {
                leeway: env.seconds("JWT_LEEWAY_S", Duration::from_secs(5)),
                audience: env.optional("JWT_AUDIENCE"),
                issuer: env.optional("JWT_ISSUER"),
            },
            service: service(&env),
            notice: env.millis("GATEWAY_NOTICE_MS", Duration::from_secs(2)),
            connections: connections::Bounds {
                connections: env.number("GATEWAY_CONNECTIONS", 20_000),
                idle: env.seconds("GATEWAY_IDLE_S", Duration::from_secs(65)),
                stall: env.seconds("GATEWAY_STALL_S", Duration::from_secs(30)),
            },
            load: load::Limits {
                streams: env.number("GATEWAY_STREAMS", 10_000),
                streams_per_user: env.number("GATEWAY_STREAMS_PER_USER", 100),
                jobs_per_user: env.number("GATEWAY_JOBS_PER_USER", 32),
            },
            grace: env.seconds("GATEWAY_GRACE_S", Duration::from_secs(20)),
            seal_key,
            seal_keys_previous,
            nats: nats(&env, "_INBOX_gw"),
            topology: topology_options(&env),
            database: pool::Config {
                url: env.secret("DATABASE_URL"),
                max_connections: env.number("DATABASE_CONNECTIONS", limits::GATEWAY_CONNECTIONS),
                application_name: "gateway".to_owned(),
                acquire_timeout: Duration::from_secs(3),
            },
        };
        env.finish()?;
        Ok(config)
    }
}

impl MigrateConfig {
    pub fn load(env: Env) -> Result<Self, Vec<Problem>> {
        let config = Self {
            nats: nats(&env, "_INBOX_mg"),
            topology: topology_options(&env),
            database_url: env.secret("DATABASE_URL"),
        };
        env.finish()?;
        Ok(config)
    }
}

fn jwt_secret(env: &Env) -> SecretString {
    let secret = env.secret("JWT_SECRET");
    let bytes = secret.expose_secret().len();
    if bytes > 0 && bytes < limits::JWT_SECRET_BYTES {
        env.report("JWT_SECRET", format!("must have at least {} bytes", limits::JWT_SECRET_BYTES));
    }
    secret
}

fn jwt_secrets_previous(env: &Env) -> Vec<SecretString> {
    let secrets = secrets(env, "JWT_SECRETS_PREVIOUS");
    if secrets.iter().any(|secret| secret.expose_secret().len() < limits::JWT_SECRET_BYTES) {
        let bytes = limits::JWT_SECRET_BYTES;
        env.report("JWT_SECRETS_PREVIOUS", format!("each must have at least {bytes} bytes"));
    }
    secrets
}

fn prefix(env: &Env) -> Option<String> {
    let prefix = env.optional("GATEWAY_PREFIX")?;
    let prefix = prefix.trim_end_matches('/');
    if prefix.is_empty() {
        return None;
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'.');
    if !prefix.starts_with('/') || prefix.contains("//") || !prefix.bytes().all(plain) {
        env.report("GATEWAY_PREFIX", "must be a path like /api/agent/gradio");
        return None;
    }
    Some(prefix.to_owned())
}

fn service(env: &Env) -> Option<ServiceClient> {
    let id = env.optional("SERVICE_CLIENT_ID");
    let secret = env.optional_secret("SERVICE_CLIENT_SECRET");
    let ttl = env.seconds("SERVICE_TOKEN_TTL_S", Duration::from_secs(300));
    if ttl < Duration::from_secs(30) {
        env.report("SERVICE_TOKEN_TTL_S", "must be at least 30");
    }
    match (id, secret) {
        (Some(id), Some(secret)) => {
            if secret.expose_secret().len() < limits::SERVICE_SECRET_BYTES {
                let problem = format!("must have at least {} bytes", limits::SERVICE_SECRET_BYTES);
                env.report("SERVICE_CLIENT_SECRET", problem);
            }
            Some(ServiceClient { id, secret, ttl })
        }
        (Some(_), None) => {
            env.report("SERVICE_CLIENT_SECRET", "is required with SERVICE_CLIENT_ID");
            None
        }
        (None, Some(_)) => {
            env.report("SERVICE_CLIENT_ID", "is required with SERVICE_CLIENT_SECRET");
            None
        }
        (None, None) => None,
    }
}

fn nats(env: &Env, inbox: &str) -> bus::connect::Config {
    let urls = env.list("NATS_URL");
    if urls.is_empty() {
        env.report("NATS_URL", "is required");
    }
    bus::connect::Config {
        urls,
        name: "gateway".to_owned(),
        inbox_prefix: inbox.to_owned(),
        nkey_seed: env.optional_secret("NATS_NKEY"),
        credentials_file: env.optional("NATS_CREDS").map(PathBuf::from),
        ca_file: env.optional("NATS_CA").map(PathBuf::from),
        ..bus::connect::Config::default()
    }
}

fn topology_options(env: &Env) -> topology::Options {
    topology::Options {
        replicas: env.number("NATS_REPLICAS", 1),
        ack_wait: env.millis("ACK_WAIT_MS", Duration::from_secs(15)),
    }
}

fn secrets(env: &Env, name: &str) -> Vec<SecretString> {
    env.list(name).into_iter().map(SecretString::from).collect()
}

#[cfg(test)]
mod tests;
