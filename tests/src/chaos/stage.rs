//! Where runs take place one after the other: a gateway, a NATS server, a database, the fakes. Workers come and go.
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::message::Channel;
use super::script::{Actor, Script};
use super::wire::{Trap, Wire};
use crate::cluster::Cluster;
use crate::place;
use crate::process::{Process, scratch, wait_until};

/// As the workers are told: a lease, and the wait for an acknowledgement.
pub const LEASE: Duration = Duration::from_secs(2);
const READY_WITHIN: Duration = Duration::from_secs(30);

pub struct Stage {
    pub cluster: Cluster,
    pub pool: sqlx::PgPool,
    pub events: async_nats::jetstream::stream::Stream,
    pub bus: async_nats::Client,
    dir: PathBuf,
    http: reqwest::Client,
}

/// A worker and what stands between it and the world.
pub struct Worker {
    pub process: Process,
    pub wire: Wire,
}

impl Stage {
    pub async fn start() -> Stage {
        let cluster = Cluster::builder().workers(0).gateway_env("LOG", "warn").start().await;
        let pool = cluster.database.pool().await;
        let bus = cluster.nats.client().await;
        let context = async_nats::jetstream::new(bus.clone());
        let events = context.get_stream(contract::subject::STREAM_EVENTS).await.unwrap();
        Stage { cluster, pool, events, bus, dir: scratch("chaos"), http: place::http() }
    }

    /// The fakes begin anew.
    pub async fn set(&self, script: &Script) {
        let url = format!("{}/__test/reset", self.cluster.backend.url());
        self.http.post(url).json(&json!({})).send().await.unwrap();
        self.cluster.backend.take_violations();
        self.cluster.model.take_violations();
        let actor = Actor::new(script.clone());
        self.cluster.model.follow(Arc::new(move |request| actor.answer(request)));
    }

    /// A worker that is ready for the first job.
    pub async fn worker(&self, name: &str, script: &Script, trap: Option<Trap>) -> Worker {
        let cluster = &self.cluster;
        let settings = cluster.worker_settings();
        let host = |url: &str| {
            let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
            let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
            rest.split('/').next().unwrap_or_default().to_owned()
        };
        let database = cluster.database.url().to_owned();
        let targets = Channel::ALL.map(|channel| match channel {
            Channel::Nats => host(&cluster.nats.url()),
            Channel::Postgres => host(&database),
            Channel::Model => host(cluster.model.url()),
            Channel::Backend => host(cluster.backend.url()),
        });
        let direct = targets.clone();
        let wire = Wire::start(targets, trap).await;
        let port = place::free_port();
        let mut command = Command::new(place::program("worker"));
        command.env_clear();
        for (name, value) in settings {
            let through = Channel::ALL.into_iter().fold(value.clone(), |value, channel| {
                value.replace(&direct[channel as usize], &wire.address(channel))
            });
            command.env(name, through);
        }
        let database =
            database.replace(&direct[Channel::Postgres as usize], &wire.address(Channel::Postgres));
        command.env("DATABASE_URL", format!("{database}?sslmode=disable"));
        command.envs(script.settings.iter().copied());
        command.envs([("WORKER_NAME", name), ("WORKER_SLOTS", "2"), ("TOKEN_COALESCE_MS", "0")]);
        command.env("WORKER_HEALTH_LISTEN", format!("127.0.0.1:{port}"));
        let mut process = Process::start(name, command, &self.dir.join(format!("{name}.log")));
        let url = format!("http://127.0.0.1:{port}/healthz/ready");
        let ready = || {
            let ended = process.exited();
            assert!(ended.is_none(), "{name} ended: {}", process.log_tail(30));
            let request = self.http.get(&url).timeout(Duration::from_secs(2));
            async move { request.send().await.is_ok_and(|answer| answer.status().is_success()) }
        };
        wait_until(&format!("{name} ready"), READY_WITHIN, ready).await;
        Worker { process, wire }
    }
}
