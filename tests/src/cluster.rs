//! A whole fleet on this machine: real NATS and Postgres, gateways and workers as processes, fakes in this one.
//!
//! Tests that use it run on a multi-threaded runtime, because the end of a [`Cluster`] blocks.
mod jobs;
pub mod spare;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::agentctl::Agentctl;
use crate::backend::{self, Backend};
use crate::database::{self, Database};
use crate::gradio::Client;
use crate::llm::{self, Model};
use crate::nats::Nats;
use crate::place;
use crate::process::{Process, scratch, wait_until};
use crate::rest::Rest;
use crate::roundrobin::RoundRobin;
use crate::token;

/// 32 bytes in base64.
pub const SEAL_KEY: &str = "dGVzdHMtYW5kLWRlbW8tb25seS0zMi1ieXRlcy1rZXk=";
const ACK_WAIT: Duration = Duration::from_secs(2);
const READY_WITHIN: Duration = Duration::from_secs(30);

pub type Settings = BTreeMap<String, String>;

/// What the migration step is told besides the two addresses.
pub fn migrate_settings() -> Settings {
    settings(&[("ACK_WAIT_MS", &millis(ACK_WAIT)), ("LOG", "info")])
}

fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}

fn settings(pairs: &[(&str, &str)]) -> Settings {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub struct Builder {
    gateways: usize,
    workers: usize,
    gateway_env: Settings,
    worker_env: Settings,
    migrate_env: Settings,
    nats_proxied: Option<String>,
    database: Option<Database>,
    ack_wait: Duration,
    previous: Option<PathBuf>,
}

pub struct Cluster {
    pub nats: Nats,
    pub database: Database,
    pub backend: Backend,
    pub model: Model,
    gateways: Vec<Node>,
    workers: Vec<Node>,
    front: Option<RoundRobin>,
    worker_env: Settings,
    dir: PathBuf,
    expects_jobs_left: bool,
}

/// A gateway or worker: its process, and how to start it again.
struct Node {
    process: Process,
    path: PathBuf,
    name: String,
    env: Settings,
    port: u16,
}

impl Builder {
    pub fn gateways(mut self, count: usize) -> Self {
        self.gateways = count;
        self
    }

    pub fn workers(mut self, count: usize) -> Self {
        self.workers = count;
        self
    }

    pub fn gateway_env(mut self, name: &str, value: &str) -> Self {
        self.gateway_env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub fn worker_env(mut self, name: &str, value: &str) -> Self {
        self.worker_env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// For the step before the services start.
    pub fn migrate_env(mut self, name: &str, value: &str) -> Self {
        self.migrate_env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Workers reach NATS at this address, e.g. through a proxy.
    pub fn workers_reach_nats_at(mut self, url: &str) -> Self {
        self.nats_proxied = Some(url.to_owned());
        self
    }

    /// Of the consumer and of the leases; heartbeats come four times as often.
    pub fn ack_wait(mut self, ack_wait: Duration) -> Self {
        self.ack_wait = ack_wait;
        self
    }

    /// Every second gateway and every second worker is a program of this folder: those of another release.
    pub fn every_second_of(mut self, folder: PathBuf) -> Self {
        self.previous = Some(folder);
        self
    }

    /// Uses this migrated database.
    pub fn database(mut self, database: Database) -> Self {
        self.database = Some(database);
        self
    }

    pub async fn start(self) -> Cluster {
        let nats = Nats::start().await;
        self.start_with(nats).await
    }

    pub async fn start_with(self, nats: Nats) -> Cluster {
        let (gateway, worker) = (place::program("gateway"), place::program("worker"));
        let database = match self.database {
            Some(database) => database,
            None => Database::fresh().await,
        };
        let (replicas, ack_wait) = (nats.replicas().to_string(), millis(self.ack_wait));
        let topology = settings(&[("NATS_REPLICAS", &replicas), ("ACK_WAIT_MS", &ack_wait)]);
        let mut migrating = migrate_settings();
        migrating.extend(topology.clone());
        migrating.extend(self.migrate_env);
        database::migrate(&gateway, &nats.url(), database.url(), &migrating);
        let backend = Backend::start(token::SECRET).await;
        let model = Model::start().await;
        let mut gateway_env = gateway_settings(&nats.url(), database.url());
        gateway_env.extend(topology.clone());
        gateway_env.extend(self.gateway_env);
        let worker_nats = self.nats_proxied.unwrap_or_else(|| nats.url());
        let mut worker_env = worker_settings(&worker_nats, database.url(), &backend, &model);
        worker_env.extend(topology);
        worker_env.extend(settings(&[
            ("HEARTBEAT_MS", &millis(self.ack_wait / 4)),
            ("LEASE_MS", &ack_wait),
        ]));
        worker_env.extend(self.worker_env);
        let dir = scratch("logs");
        let node = |program: &'static str, path: &Path, number: usize, env: &Settings| {
            let previous = self.previous.as_ref().filter(|_| number % 2 == 1);
            let path = previous.map_or_else(|| path.to_owned(), |folder| folder.join(program));
            Node::start(program, &path, &format!("{program}-{number}"), env.clone(), &dir)
        };
        let gateways =
            (0..self.gateways).map(|i| node("gateway", &gateway, i, &gateway_env)).collect();
        let workers = (0..self.workers).map(|i| node("worker", &worker, i, &worker_env)).collect();
        let mut cluster = Cluster {
            nats,
            database,
            backend,
            model,
            gateways,
            workers,
            front: None,
            worker_env,
            dir,
            expects_jobs_left: false,
        };
        for node in cluster.gateways.iter_mut().chain(&mut cluster.workers) {
            node.wait_ready().await;
        }
        if cluster.gateways.len() > 1 {
            let targets = (0..cluster.gateways.len()).map(|i| cluster.gateway_url(i)).collect();
            cluster.front = Some(RoundRobin::start(targets).await);
        }
        cluster
    }
}

impl Cluster {
    pub fn builder() -> Builder {
        Builder {
            gateways: 1,
            workers: 1,
            gateway_env: Settings::new(),
            worker_env: Settings::new(),
            migrate_env: Settings::new(),
            nats_proxied: None,
            database: None,
            ack_wait: ACK_WAIT,
            previous: None,
        }
    }

    /// One gateway, one worker.
    pub async fn start() -> Cluster {
        Self::builder().start().await
    }

    /// Where clients go: the only gateway, or a round robin over all of them.
    pub fn url(&self) -> String {
        self.front.as_ref().map_or_else(|| self.gateway_url(0), |front| front.url().to_owned())
    }

    pub fn gateway_url(&self, index: usize) -> String {
        format!("http://127.0.0.1:{}", self.gateways[index].port)
    }

    /// Where a worker serves its probes and metrics.
    pub fn worker_url(&self, index: usize) -> String {
        format!("http://127.0.0.1:{}", self.workers[index].port)
    }

    /// A Gradio client of this user.
    pub fn client(&self, user: &str) -> Client {
        Client::new(&self.url(), &token::user(user))
    }

    pub fn client_at(&self, gateway: usize, user: &str) -> Client {
        Client::new(&self.gateway_url(gateway), &token::user(user))
    }

    pub fn rest(&self, user: &str) -> Rest {
        Rest::new(&self.url(), &token::user(user))
    }

    /// The operator's tool, with the variables of gateway and worker.
    pub fn agentctl(&self) -> Agentctl {
        let nodes = self.gateways.iter().chain(&self.workers);
        let mut env: Settings = nodes.flat_map(|node| node.env.clone()).collect();
        env.insert("USER".to_owned(), "olga".to_owned());
        Agentctl::new(env)
    }

    /// What Prometheus would read of the gateway at `index`.
    pub async fn gateway_metrics(&self, index: usize) -> String {
        self.gateways[index].metrics().await
    }

    pub async fn worker_metrics(&self, index: usize) -> String {
        self.workers[index].metrics().await
    }

    /// `kill -9`.
    pub fn kill_worker(&mut self, index: usize) {
        self.workers[index].process.kill();
    }

    pub fn kill_gateway(&mut self, index: usize) {
        self.gateways[index].process.kill();
    }

    pub fn worker(&mut self, index: usize) -> &mut Process {
        &mut self.workers[index].process
    }

    /// What its workers are configured with, but for name and port.
    pub fn worker_settings(&self) -> &Settings {
        &self.worker_env
    }

    /// How many workers were started.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    pub fn gateway(&mut self, index: usize) -> &mut Process {
        &mut self.gateways[index].process
    }

    pub async fn restart_worker(&mut self, index: usize) {
        self.workers[index].restart(&self.dir);
        self.workers[index].wait_ready().await;
    }

    pub async fn restart_gateway(&mut self, index: usize) {
        self.gateways[index].restart(&self.dir);
        self.gateways[index].wait_ready().await;
    }

    /// How many gateways and workers say that they are ready.
    pub async fn ready_count(&self) -> usize {
        let asked = self.gateways.iter().chain(&self.workers).map(Node::ready_request);
        let answers = futures_util::future::join_all(asked.map(is_success)).await;
        answers.into_iter().filter(|ready| *ready).count()
    }

    /// One more worker, configured like the first.
    pub async fn add_worker(&mut self) {
        self.add_worker_with(&[]).await;
    }

    /// One more worker, configured like the first but for these variables.
    pub async fn add_worker_with(&mut self, different: &[(&str, &str)]) {
        self.start_worker_with(different);
        if let Some(node) = self.workers.last_mut() {
            node.wait_ready().await;
        }
    }

    /// The same, without waiting until it is ready.
    pub fn start_worker_with(&mut self, different: &[(&str, &str)]) {
        let program = place::program("worker");
        let mut env = self.workers[0].env.clone();
        env.extend(settings(different));
        let name = format!("worker-{}", self.workers.len());
        self.workers.push(Node::start("worker", &program, &name, env, &self.dir));
    }

    /// One more gateway, configured like the first but for these variables; clients reach it at [`Self::gateway_url`].
    pub async fn add_gateway_with(&mut self, different: &[(&str, &str)]) -> usize {
        let mut env = self.gateways[0].env.clone();
        env.extend(settings(different));
        let index = self.gateways.len();
        let name = format!("gateway-{index}");
        let mut node = Node::start("gateway", &place::program("gateway"), &name, env, &self.dir);
        node.wait_ready().await;
        self.gateways.push(node);
        index
    }

    /// Where gateways and workers write their logs.
    pub fn log_dir(&self) -> &Path {
        &self.dir
    }

    /// This test ends with unfinished jobs on purpose.
    pub fn expect_jobs_left(&mut self) {
        self.expects_jobs_left = true;
    }

    fn print_logs(&self) {
        for node in self.gateways.iter().chain(&self.workers) {
            eprintln!(
                "---- {} ({})\n{}",
                node.name,
                node.process.log().display(),
                node.process.log_tail(60)
            );
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print_logs();
            return;
        }
        if self.expects_jobs_left
            || self.workers.iter_mut().all(|worker| worker.process.exited().is_some())
        {
            return;
        }
        if let Err(problem) = jobs::wait_for_none(&self.nats.monitor_url()) {
            self.print_logs();
            panic!("{problem}");
        }
    }
}

impl Node {
    fn start(
        program: &'static str,
        path: &Path,
        name: &str,
        mut env: Settings,
        dir: &Path,
    ) -> Node {
        let port = place::free_port();
        let address = format!("127.0.0.1:{port}");
        match program {
            "gateway" => env.insert("GATEWAY_LISTEN".to_owned(), address),
            _ => env.insert("WORKER_HEALTH_LISTEN".to_owned(), address),
        };
        if program == "worker" {
            env.insert("WORKER_NAME".to_owned(), name.to_owned());
        }
        let process = Self::spawn(path, name, &env, dir);
        Node { process, path: path.to_owned(), name: name.to_owned(), env, port }
    }

    fn restart(&mut self, dir: &Path) {
        self.process.kill();
        self.process = Self::spawn(&self.path, &self.name, &self.env, dir);
    }

    async fn wait_ready(&mut self) {
        let request = self.ready_request();
        let process = &mut self.process;
        let ready = || {
            if let Some(status) = process.exited() {
                panic!("{} ended with {status}:\n{}", process.name(), process.log_tail(30));
            }
            is_success(request.try_clone().unwrap())
        };
        wait_until(&format!("{} ready", self.name), READY_WITHIN, ready).await;
    }

    async fn metrics(&self) -> String {
        let url = format!("http://127.0.0.1:{}/metrics", self.port);
        let answer = place::http().get(url).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", self.name);
        answer.text().await.unwrap()
    }

    fn ready_request(&self) -> reqwest::RequestBuilder {
        let url = format!("http://127.0.0.1:{}/healthz/ready", self.port);
        place::http().get(url).timeout(Duration::from_secs(5))
    }

    fn spawn(path: &Path, name: &str, env: &Settings, dir: &Path) -> Process {
        let mut command = Command::new(path);
        command.env_clear().envs(env);
        Process::start(name, command, &dir.join(format!("{name}.log")))
    }
}

async fn is_success(request: reqwest::RequestBuilder) -> bool {
    request.send().await.is_ok_and(|answer| answer.status().is_success())
}

pub fn gateway_settings(nats_url: &str, database_url: &str) -> Settings {
    settings(&[
        ("NATS_URL", nats_url),
        ("DATABASE_URL", database_url),
        ("JWT_SECRET", token::SECRET),
        ("SEAL_KEY", SEAL_KEY),
        ("SERVICE_CLIENT_ID", backend::CLIENT_ID),
        ("SERVICE_CLIENT_SECRET", backend::CLIENT_SECRET),
        ("GATEWAY_NOTICE_MS", "200"),
        ("ACK_WAIT_MS", &millis(ACK_WAIT)),
        ("LOG", "info"),
    ])
}

fn worker_settings(
    nats_url: &str,
    database_url: &str,
    backend: &Backend,
    model: &Model,
) -> Settings {
    settings(&[
        ("NATS_URL", nats_url),
        ("DATABASE_URL", database_url),
        ("SEAL_KEY", SEAL_KEY),
        ("BACKEND_URL", backend.url()),
        ("SERVICE_TOKEN_URL", &backend.service_token_url()),
        ("SERVICE_CLIENT_ID", backend::CLIENT_ID),
        ("SERVICE_CLIENT_SECRET", backend::CLIENT_SECRET),
        ("OPENAI_BASE_URL", model.url()),
        ("OPENAI_API_KEY", llm::API_KEY),
        ("OPENAI_MODEL", llm::MODEL),
        ("DRAIN_S", "5"),
        ("LOG", "info"),
    ])
}
