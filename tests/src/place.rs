//! Where things are found on this machine: programs, the repository, free ports.
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::SystemTime;

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The same, or what is in the file that `NAME_FILE` names.
pub fn secret(name: &str) -> Option<String> {
    variable(name).or_else(|| {
        let text = std::fs::read_to_string(variable(&format!("{name}_FILE"))?).ok()?;
        Some(text.trim().to_owned())
    })
}

fn tool(variable_name: &str, under_tools: &str) -> PathBuf {
    let path = variable(variable_name)
        .map_or_else(|| repository().join(".tools").join(under_tools), PathBuf::from);
    assert!(
        path.exists(),
        "{} is missing: run tests/setup.sh (or set {variable_name})",
        path.display()
    );
    path
}

pub fn nats_server() -> PathBuf {
    tool("NATS_SERVER_BIN", "bin/nats-server")
}

/// The folder that holds `initdb` and `postgres`.
pub fn postgres() -> PathBuf {
    tool("POSTGRES_BIN", "postgres/bin")
}

/// The folder in which Cargo put the programs of the profile that this program was built with.
pub fn target() -> PathBuf {
    if let Some(dir) = variable("CARGO_BIN_DIR") {
        return PathBuf::from(dir);
    }
    let me = std::env::current_exe().unwrap();
    let dir = me.parent().unwrap();
    let in_deps = dir.ends_with("deps") || dir.ends_with("examples");
    if in_deps { dir.parent().unwrap().to_owned() } else { dir.to_owned() }
}

/// The program `name` of this workspace, built if its sources are newer.
pub fn program(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(build_if_stale);
    let path = target().join(name);
    assert!(path.exists(), "{} is missing: run cargo build --workspace --bins", path.display());
    path
}

fn build_if_stale() {
    if variable("CARGO_BIN_DIR").is_some() {
        return;
    }
    let target = target();
    let lock = File::create(target.join(".programs.lock")).unwrap();
    lock.lock().unwrap();
    let stamp = target.join(".programs.built");
    let built = std::fs::metadata(&stamp)
        .and_then(|meta| meta.modified())
        .unwrap_or(SystemTime::UNIX_EPOCH);
    let newest = ["gateway", "worker", "agentctl", "shared", "migrations", "Cargo.lock"]
        .iter()
        .map(|part| newest_change(&repository().join(part)))
        .max()
        .unwrap();
    let present = ["gateway", "worker", "agentctl"].iter().all(|name| target.join(name).exists());
    if present && newest < built {
        return;
    }
    let started = SystemTime::now();
    let mut cargo = Command::new(variable("CARGO").unwrap_or_else(|| "cargo".to_owned()));
    cargo.current_dir(repository()).args(["build", "--quiet", "--workspace", "--bins"]);
    cargo.env("CARGO_TARGET_DIR", target.parent().unwrap());
    // What Cargo tells a test about its package makes some build scripts, and all that depends on them, run again.
    for (name, _) in std::env::vars() {
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    match target.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(profile) => {
            cargo.args(["--profile", profile]);
        }
    }
    assert!(cargo.status().unwrap().success(), "building the programs failed");
    let file = File::create(&stamp).unwrap();
    file.set_modified(started).unwrap();
}

fn newest_change(path: &Path) -> SystemTime {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return SystemTime::UNIX_EPOCH };
    if meta.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        return entries
            .map(|entry| newest_change(&entry.path()))
            .max()
            .unwrap_or(SystemTime::UNIX_EPOCH);
    }
    meta.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}

pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// `<NAME>_LISTEN`, else `<NAME>_PORT` on loopback, else `port` there.
pub fn listen(name: &str, port: u16) -> SocketAddr {
    let set = |what: &str| variable(&format!("{name}_{what}"));
    match set("LISTEN") {
        Some(address) => address.parse().unwrap(),
        None => loopback(set("PORT").map_or(port, |text| text.parse().unwrap())),
    }
}

/// A port nobody listens on, from below the range that the system gives to outgoing connections. As long as this
/// process lives no other one gets it from here: a program may listen seconds later.
pub fn free_port() -> u16 {
    static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let claims = std::env::temp_dir().join("agentchat-ports");
    std::fs::create_dir_all(&claims).unwrap();
    for _ in 0..1_000 {
        let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
        let port = 12_000 + u16::try_from(random % 20_000).unwrap();
        let claim = File::create(claims.join(port.to_string())).unwrap();
        let is_free = || std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
        if claim.try_lock().is_ok() && is_free() {
            TAKEN.lock().unwrap().push(claim);
            return port;
        }
    }
    panic!("no free port");
}

/// The HTTP client of harness and tests: no proxy, no time limit on a stream.
pub fn http() -> reqwest::Client {
    static PROVIDER: OnceLock<()> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder()
        .no_proxy()
        .connect_timeout(std::time::Duration::from_secs(5))
        .build()
        .unwrap()
}

/// Returns on SIGINT or SIGTERM.
pub async fn until_told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt()).unwrap();
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
