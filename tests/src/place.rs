//! Where things are found on this machine: programs, the repository, free ports.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
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
    let lock = std::fs::File::create(target.join(".programs.lock")).unwrap();
    lock.lock().unwrap();
    let stamp = target.join(".programs.built");
    let built = std::fs::metadata(&stamp)
        .and_then(|meta| meta.modified())
        .unwrap_or(SystemTime::UNIX_EPOCH);
    let newest = ["gateway", "worker", "shared", "migrations", "Cargo.lock"]
        .iter()
        .map(|part| newest_change(&repository().join(part)))
        .max()
        .unwrap();
    let present = target.join("gateway").exists() && target.join("worker").exists();
    if present && newest < built {
        return;
    }
    let started = SystemTime::now();
    let mut cargo = Command::new(variable("CARGO").unwrap_or_else(|| "cargo".to_owned()));
    cargo.current_dir(repository()).args(["build", "--quiet", "--workspace", "--bins"]);
    cargo.env("CARGO_TARGET_DIR", target.parent().unwrap());
    match target.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(profile) => {
            cargo.args(["--profile", profile]);
        }
    }
    assert!(cargo.status().unwrap().success(), "building gateway and worker failed");
    let file = std::fs::File::create(&stamp).unwrap();
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

/// A port nobody listens on, from below the range that the system gives to outgoing connections.
pub fn free_port() -> u16 {
    for _ in 0..1_000 {
        let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
        let port = 12_000 + u16::try_from(random % 20_000).unwrap();
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
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
