//! A nats-server of the test's own, and things to send.
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use contract::event::{Envelope, Event, Queued, TurnEnd, TurnStatus};
use contract::ids::{ConversationId, SessionToken, TurnId, UserId};
use contract::job::{Job, JobKind, Locale};
use shared::bus::connect::{self, Config};
use shared::bus::{Bus, topology};
use shared::runtime::env::Env;
use uuid::Uuid;

pub struct Server {
    child: Child,
    port: u16,
    dir: PathBuf,
}

impl Server {
    pub fn start() -> Self {
        let (port, dir) = (free_port(), scratch());
        let child = spawn(port, &dir, &[]);
        Self { child, port, dir }
    }

    /// A server with everything declared, and a connection.
    pub async fn ready() -> (Self, Bus) {
        let server = Self::start();
        let bus = server.connect().await;
        topology::apply(&bus, &topology::Options::default()).await.unwrap();
        (server, bus)
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// On the same port and store.
    pub fn start_again(&mut self) {
        self.child = spawn(self.port, &self.dir, &[]);
    }

    pub async fn connect(&self) -> Bus {
        self.connect_with(None).await
    }

    pub async fn connect_with(&self, subscription_capacity: Option<usize>) -> Bus {
        connect(vec![self.url()], subscription_capacity).await
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

/// Three servers that replicate to each other.
pub struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    pub fn start() -> Self {
        let routes = [(); 3].map(|()| free_port());
        let listed: Vec<_> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let listed = listed.join(",");
        let start = |(index, route): (usize, u16)| {
            let (port, dir) = (free_port(), scratch());
            let (name, own) = (format!("n{index}"), format!("nats://127.0.0.1:{route}"));
            let cluster =
                ["-n", &name, "--cluster_name", "c", "--cluster", &own, "--routes", &listed];
            Server { child: spawn(port, &dir, &cluster), port, dir }
        };
        Self { servers: routes.into_iter().enumerate().map(start).collect() }
    }

    pub async fn connect(&self) -> Bus {
        let urls = self.servers.iter().map(Server::url).collect();
        connect(urls, None).await
    }

    /// By its name, `n0` to `n2`.
    pub fn kill(&mut self, name: &str) {
        let index: usize = name.trim_start_matches('n').parse().unwrap();
        self.servers[index].kill();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

async fn connect(urls: Vec<String>, subscription_capacity: Option<usize>) -> Bus {
    let config = Config {
        urls,
        name: "test".to_owned(),
        inbox_prefix: "_INBOX_test".to_owned(),
        subscription_capacity,
        ..Config::default()
    };
    let bus = connect::connect(config).await.unwrap();
    assert!(bus.is_connected());
    bus
}

/// Below the range from which outgoing connections take theirs.
fn free_port() -> u16 {
    let random = || 10_000 + (Uuid::new_v4().as_u128() % 20_000) as u16;
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(random).find(is_free).unwrap()
}

fn scratch() -> PathBuf {
    let dir = std::env::temp_dir().join(format!("bus-{}", Uuid::new_v4()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn spawn(port: u16, dir: &Path, more: &[&str]) -> Child {
    Command::new(binary())
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
        .arg(dir)
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn binary() -> PathBuf {
    if let Some(path) = Env::process().optional("NATS_SERVER_BIN") {
        return PathBuf::from(path);
    }
    let mut places = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    places
        .find_map(|folder| Some(folder.join(".tools/bin/nats-server")).filter(|path| path.exists()))
        .expect("no nats-server: run the tests' setup script or set NATS_SERVER_BIN")
}

/// Ends a test that hangs.
pub async fn within<F: Future>(seconds: u64, work: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(seconds), work).await.expect("the test hangs")
}

pub fn conversation() -> ConversationId {
    ConversationId(Uuid::new_v4())
}

pub fn turn() -> TurnId {
    TurnId(Uuid::now_v7())
}

pub fn session(name: &str) -> SessionToken {
    SessionToken::try_from(name.to_owned()).unwrap()
}

pub fn job(conversation_id: ConversationId) -> Job {
    Job {
        v: 1,
        kind: JobKind::Message,
        turn_id: turn(),
        conversation_id,
        conversation_ref: None,
        session: session("s1"),
        user_id: UserId::try_from("user".to_owned()).unwrap(),
        user_token: Some("v1.sealed.token".to_owned()),
        text: "hello".to_owned(),
        files: Vec::new(),
        locale: Locale::En,
        created_at: "2026-11-30T20:00:00.000Z".to_owned(),
        expires_at: "2026-11-30T21:00:00.000Z".to_owned(),
    }
}

pub fn envelope(turn_id: TurnId, attempt: u32, n: u64, event: Event) -> Envelope {
    Envelope { v: 1, turn_id, attempt, n, event, ts: "2026-11-30T20:00:00.000Z".to_owned() }
}

pub fn queued(turn_id: TurnId) -> Envelope {
    let queued = Queued {
        user_id: UserId::try_from("user".to_owned()).unwrap(),
        session_hash: "hash".to_owned(),
        conversation_ref: None,
        ahead: 0,
        attach: None,
        digest: None,
    };
    envelope(turn_id, 0, 0, Event::Queued(queued))
}

pub fn token(turn_id: TurnId, attempt: u32, n: u64) -> Envelope {
    envelope(turn_id, attempt, n, Event::StreamToken { token: format!("{n} ") })
}

pub fn end(turn_id: TurnId, attempt: u32, n: u64) -> Envelope {
    let end = TurnEnd { status: TurnStatus::Completed, text: None, usage: None, timings: None };
    envelope(turn_id, attempt, n, Event::TurnEnd(end))
}
