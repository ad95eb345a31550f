//! Every variable that more than the doctor reads: the services' own.
use std::path::PathBuf;
use std::time::Duration;

use contract::ids::UserId;
use shared::bus::connect::{self, Unreachable};
use shared::runtime::env::{Env, Problem};
use shared::store::pool;

/// A person waits for the answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);

/// `NATS_URL` (nats://127.0.0.1:4222), `NATS_CREDS` or `NATS_NKEY`, `NATS_CA`.
pub fn nats(env: &Env) -> connect::Config {
    connect::Config {
        urls: vec![env.string("NATS_URL", "nats://127.0.0.1:4222")],
        name: "agentctl".to_owned(),
        inbox_prefix: "_INBOX_ctl".to_owned(),
        nkey_seed: env.optional_secret("NATS_NKEY"),
        credentials_file: env.optional("NATS_CREDS").map(PathBuf::from),
        ca_file: env.optional("NATS_CA").map(PathBuf::from),
        unreachable: Unreachable::FailWithin(CONNECT_WITHIN),
        ..connect::Config::default()
    }
}

/// `DATABASE_URL`.
pub fn database(env: &Env) -> pool::Config {
    pool::Config {
        url: env.secret("DATABASE_URL"),
        max_connections: 2,
        application_name: "agentctl".to_owned(),
        acquire_timeout: CONNECT_WITHIN,
    }
}

/// `--as`, else `USER`.
pub fn operator(env: &Env, given: Option<String>) -> Option<UserId> {
    let name = given.or_else(|| env.optional("USER"));
    let operator = name.and_then(|name| UserId::try_from(name).ok());
    if operator.is_none() {
        env.report("USER", "says not who you are: give --as NAME");
    }
    operator
}

/// What a command that needs to know who asks reads.
pub struct Acting {
    pub nats: connect::Config,
    pub operator: UserId,
}

impl Acting {
    pub fn load(env: &Env, given: Option<String>) -> Option<Self> {
        let (nats, operator) = (nats(env), operator(env, given));
        Some(Self { nats, operator: operator? })
    }
}

/// The value, unless there was a problem.
pub fn finished<T>(env: Env, value: Option<T>) -> Result<T, Vec<Problem>> {
    env.finish()?;
    value.ok_or_else(Vec::new)
}
