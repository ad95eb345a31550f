//! A nats-server with JetStream of one's own, or three that replicate to each other.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::place;
use crate::process::{Process, scratch, wait_until};

/// One server, or the servers of one cluster.
pub struct Nats {
    nodes: Vec<Node>,
}

/// Of each role of docs/nats.conf, and of the server.
pub struct Keys {
    roles: Vec<(&'static str, nkeys::KeyPair)>,
    ca: rcgen::CertifiedKey<rcgen::KeyPair>,
}

impl Default for Keys {
    fn default() -> Self {
        Self::new()
    }
}

impl Keys {
    pub fn new() -> Keys {
        let roles = ["MIGRATE", "GATEWAY", "WORKER", "AGENTCTL"];
        let ca = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        Keys { roles: roles.map(|role| (role, nkeys::KeyPair::new_user())).into(), ca }
    }

    /// The value of `NATS_NKEY` for a role, e.g. `GATEWAY`.
    pub fn seed(&self, role: &str) -> String {
        let (_, pair) = self.roles.iter().find(|(name, _)| *name == role).unwrap();
        pair.seed().unwrap()
    }

    /// The certificate that clients trust.
    pub fn ca(&self) -> String {
        self.ca.cert.pem()
    }
}

struct Node {
    process: Process,
    port: u16,
    monitor: u16,
    dir: PathBuf,
    /// Name and routes, where there are several.
    cluster: Vec<String>,
}

impl Nats {
    /// On a free port, with a store that vanishes.
    pub async fn start() -> Nats {
        Self::start_at(place::free_port(), place::free_port(), &scratch("nats")).await
    }

    pub async fn start_at(port: u16, monitor: u16, dir: &Path) -> Nats {
        let nats = Nats { nodes: vec![Node::start(port, monitor, dir, Vec::new())] };
        nats.ready().await;
        nats
    }

    /// One that wants keys and TLS, with nothing allowed but what docs/nats.conf says.
    pub async fn restricted(keys: &Keys) -> Nats {
        let (dir, port, monitor) = (scratch("nats"), place::free_port(), place::free_port());
        let node = Node {
            process: spawn_restricted(port, monitor, &dir, keys),
            port,
            monitor,
            dir,
            cluster: Vec::new(),
        };
        let nats = Nats { nodes: vec![node] };
        nats.ready().await;
        nats
    }

    /// Three servers, `n0` to `n2`, for streams with three replicas.
    pub async fn three() -> Nats {
        let routes = [(); 3].map(|()| format!("nats://127.0.0.1:{}", place::free_port()));
        let node = |index: usize| {
            let name = format!("n{index}");
            let (own, all) = (routes[index].as_str(), routes.join(","));
            let options =
                ["-n", &name, "--cluster_name", "three", "--cluster", own, "--routes", &all];
            let options = options.iter().map(|option| (*option).to_owned()).collect();
            Node::start(place::free_port(), place::free_port(), &scratch("nats"), options)
        };
        let nats = Nats { nodes: (0..3).map(node).collect() };
        nats.ready().await;
        nats
    }

    /// Addresses of all servers, separated by commas.
    pub fn url(&self) -> String {
        self.nodes.iter().map(Node::url).collect::<Vec<_>>().join(",")
    }

    /// The value of `NATS_REPLICAS`.
    pub fn replicas(&self) -> usize {
        self.nodes.len()
    }

    /// Where the monitoring pages of the first server are, e.g. `/jsz`.
    pub fn monitor_url(&self) -> String {
        self.nodes[0].monitor_url()
    }

    /// A monitoring page of the first server, e.g. `/connz?subs=1`.
    pub async fn page(&self, path: &str) -> Value {
        let url = format!("{}{path}", self.monitor_url());
        place::http().get(url).send().await.unwrap().json().await.unwrap()
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.nodes[0].process
    }

    /// The store of the first server, with its log.
    pub fn dir(&self) -> &Path {
        &self.nodes[0].dir
    }

    pub async fn client(&self) -> async_nats::Client {
        let urls: Vec<async_nats::ServerAddr> =
            self.nodes.iter().map(|node| node.url().parse().unwrap()).collect();
        async_nats::connect(urls).await.unwrap()
    }

    /// `kill -9`; [`Self::start_again`] brings it back.
    pub fn kill(&mut self) {
        self.kill_node(0);
    }

    /// Starts it again on the same port and store.
    pub async fn start_again(&mut self) {
        self.start_node(0);
        self.ready().await;
    }

    pub async fn restart(&mut self) {
        self.kill();
        self.start_again().await;
    }

    pub fn kill_node(&mut self, index: usize) {
        self.nodes[index].process.kill();
    }

    /// Does not wait until it has caught up: [`Self::ready`] does.
    pub fn start_node(&mut self, index: usize) {
        self.nodes[index].process.kill();
        self.nodes[index].process = self.nodes[index].spawn();
    }

    /// Returns when every server is healthy and has all that the others have.
    pub async fn ready(&self) {
        let http = place::http();
        for node in &self.nodes {
            let url = format!("{}/healthz", node.monitor_url());
            let healthy = || async {
                http.get(&url).send().await.is_ok_and(|answer| answer.status().is_success())
            };
            wait_until("nats-server healthy", Duration::from_secs(30), healthy).await;
        }
    }
}

impl Node {
    fn start(port: u16, monitor: u16, dir: &Path, cluster: Vec<String>) -> Node {
        let process = spawn(port, monitor, dir, &cluster);
        Node { process, port, monitor, dir: dir.to_owned(), cluster }
    }

    fn spawn(&self) -> Process {
        spawn(self.port, self.monitor, &self.dir, &self.cluster)
    }

    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    fn monitor_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.monitor)
    }
}

fn spawn(port: u16, monitor: u16, dir: &Path, cluster: &[String]) -> Process {
    std::fs::create_dir_all(dir).unwrap();
    let mut command = Command::new(place::nats_server());
    let (port, monitor) = (port.to_string(), monitor.to_string());
    command.args(["-a", "127.0.0.1", "-p", &port, "-m", &monitor, "-c"]);
    command.arg(configuration(dir)).args(cluster);
    Process::start("nats", command, &dir.join("nats.log"))
}

/// Left to itself the server offers three quarters of what the disk has left, and refuses streams that reserve more.
fn configuration(dir: &Path) -> PathBuf {
    let file = dir.join("nats.conf");
    let store = dir.display();
    let text = format!("jetstream {{ store_dir: \"{store}\", max_file_store: 16GB }}\n");
    std::fs::write(&file, text).unwrap();
    file
}

fn spawn_restricted(port: u16, monitor: u16, dir: &Path, keys: &Keys) -> Process {
    let (certificate, key) = (dir.join("server.crt"), dir.join("server.key"));
    std::fs::write(&certificate, keys.ca()).unwrap();
    std::fs::write(&key, keys.ca.signing_key.serialize_pem()).unwrap();
    let (file, permissions) = (configuration(dir), place::repository().join("docs/nats.conf"));
    let mut text = std::fs::read_to_string(&file).unwrap();
    text += &format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n",
        certificate.display(),
        key.display()
    );
    text += &std::fs::read_to_string(permissions).unwrap();
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(place::nats_server());
    let (port, monitor) = (port.to_string(), monitor.to_string());
    command.args(["-a", "127.0.0.1", "-p", &port, "-m", &monitor, "-c"]).arg(file);
    for (role, pair) in &keys.roles {
        command.env(format!("{role}_NKEY"), pair.public_key());
    }
    Process::start("nats", command, &dir.join("nats.log"))
}
