//! A PostgreSQL server of one's own, and a database per test made from a migrated template.
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::cluster::{Settings, migrate_settings};
use crate::nats::Nats;
use crate::place;
use crate::process::{Process, scratch, wait_until};

pub const TEMPLATE: &str = "migrated";

pub struct Server {
    process: Process,
    port: u16,
    dir: PathBuf,
    durable: bool,
}

impl Server {
    /// Starts a server on `dir`, which is made by initdb if it does not exist.
    pub async fn start(dir: &Path, port: u16, durable: bool) -> Server {
        if !dir.join("PG_VERSION").exists() {
            initdb(dir);
        }
        let process = Self::spawn(dir, port, durable);
        let server = Server { process, port, dir: dir.to_owned(), durable };
        server.ready().await;
        server
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    pub async fn restart(&mut self) {
        self.process.kill();
        self.start_again().await;
    }

    /// After [`Self::stop`], on the same port and folder.
    pub async fn start_again(&mut self) {
        self.process = Self::spawn(&self.dir, self.port, self.durable);
        self.ready().await;
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// An orderly end, as SIGINT asks for: sessions are cut, everything is written.
    pub fn stop(&mut self) {
        let pid = self.process.pid().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).stderr(Stdio::null()).status();
        for _ in 0..500 {
            if self.process.exited().is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.process.kill();
    }

    fn spawn(dir: &Path, port: u16, durable: bool) -> Process {
        let mut command = as_ordinary_user(&place::postgres().join("postgres"), dir);
        command.arg("-D").arg(dir);
        let port = format!("port={port}");
        let mut settings =
            vec![port.as_str(), "listen_addresses=127.0.0.1", "unix_socket_directories="];
        settings.extend(["max_connections=300", "log_min_messages=warning"]);
        if !durable {
            settings.extend(["fsync=off", "synchronous_commit=off", "full_page_writes=off"]);
        }
        for setting in settings {
            command.args(["-c", setting]);
        }
        Process::start("postgres", command, &dir.join("server.log"))
    }

    async fn ready(&self) {
        let port = self.port;
        let url = self.url("postgres");
        let answers = || {
            let url = url.clone();
            async move {
                tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
                    && execute(&url, "SELECT 1").await.is_ok()
            }
        };
        wait_until(
            &format!("postgres ready ({})", self.dir.display()),
            Duration::from_secs(30),
            answers,
        )
        .await;
    }
}

/// Runs one statement on a connection of its own.
pub async fn execute(url: &str, statement: &str) -> Result<(), sqlx::Error> {
    use sqlx::{Connection as _, Executor as _};
    let mut connection = sqlx::PgConnection::connect(url).await?;
    connection.execute(sqlx::AssertSqlSafe(statement.to_owned())).await?;
    connection.close().await
}

/// The server refuses to run as root: then it is run as another user, with files that stay ours if possible.
fn as_ordinary_user(program: &Path, dir: &Path) -> Command {
    if std::fs::metadata("/proc/self").map_or(1, |meta| meta.uid()) != 0 {
        return Command::new(program);
    }
    let namespace = ["--user", "--map-user=1000", "--map-group=1000", "--"];
    static WORKS: OnceLock<bool> = OnceLock::new();
    let works = WORKS.get_or_init(|| {
        let mut probe = Command::new("unshare");
        probe.args(namespace).arg("true").stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    });
    let mut command;
    if *works {
        command = Command::new("unshare");
        command.args(namespace);
    } else {
        let _ = Command::new("chown").args(["-R", "nobody:nogroup"]).arg(dir).status();
        command = Command::new("setpriv");
        command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]);
    }
    command.arg(program);
    command
}

fn initdb(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    let mut command = as_ordinary_user(&place::postgres().join("initdb"), dir);
    command.arg("-D").arg(dir).args([
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C.UTF-8",
        "--no-sync",
    ]);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "initdb on {}: {error}", dir.display());
}

/// A database of one's own on the server of this process, migrated.
pub struct Database {
    url: String,
    /// Where it has a server to itself.
    server: Option<Server>,
}

impl Database {
    pub async fn fresh() -> Database {
        static SERVER: Mutex<Option<Server>> = Mutex::const_new(None);
        let mut server = SERVER.lock().await;
        if server.is_none() {
            let dir = scratch("postgres").join("data");
            copy(&migrated_data().await, &dir);
            *server = Some(Server::start(&dir, place::free_port(), false).await);
        }
        let server = server.as_ref().unwrap();
        let name = format!("t{}", uuid::Uuid::new_v4().simple());
        let statement = format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}");
        execute(&server.url("postgres"), &statement).await.unwrap();
        Database { url: server.url(&name), server: None }
    }

    /// On a server of its own that writes to disk before it answers, as in production.
    pub async fn durable() -> Database {
        let dir = scratch("postgres").join("data");
        copy(&migrated_data().await, &dir);
        let server = Server::start(&dir, place::free_port(), true).await;
        Database { url: server.url(TEMPLATE), server: Some(server) }
    }

    /// What `pg_dump` makes of it.
    pub fn dump(&self) -> Dump {
        let file = scratch("dump").join("agentchat.sql");
        tool("pg_dump", &[&self.url, "--file", file.to_str().unwrap()]);
        Dump(file)
    }

    pub fn server(&mut self) -> Option<&mut Server> {
        self.server.as_mut()
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Cuts every connection to this database, as a failover does.
    pub async fn terminate_backends(&self) {
        let statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        execute(&self.url, statement).await.unwrap();
    }

    pub async fn pool(&self) -> sqlx::PgPool {
        sqlx::postgres::PgPoolOptions::new().max_connections(3).connect(&self.url).await.unwrap()
    }
}

/// A backup of one database.
pub struct Dump(PathBuf);

impl Dump {
    /// In an empty database on another server.
    pub async fn restore(&self) -> Database {
        let dir = scratch("postgres").join("data");
        copy(&migrated_data().await, &dir);
        let server = Server::start(&dir, place::free_port(), false).await;
        execute(&server.url("postgres"), "CREATE DATABASE restored TEMPLATE template0")
            .await
            .unwrap();
        let url = server.url("restored");
        let file = self.0.to_str().unwrap();
        tool("psql", &[&url, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file", file]);
        Database { url, server: Some(server) }
    }
}

fn tool(name: &str, arguments: &[&str]) {
    let output = Command::new(place::postgres().join(name)).args(arguments).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A data folder with the template in it; made once per set of migrations, kept beside the programs.
async fn migrated_data() -> PathBuf {
    let gateway = place::program("gateway");
    let target = place::target();
    let dir = target.join(format!("postgres-{:016x}", migrations_hash()));
    let lock = std::fs::File::create(target.join(".postgres.lock")).unwrap();
    lock.lock().unwrap();
    if dir.join("PG_VERSION").exists() {
        return dir;
    }
    let building = scratch("template").join("data");
    let nats = Nats::start().await;
    let mut server = Server::start(&building, place::free_port(), false).await;
    execute(&server.url("postgres"), &format!("CREATE DATABASE {TEMPLATE}")).await.unwrap();
    migrate(&gateway, &nats.url(), &server.url(TEMPLATE), &migrate_settings());
    server.stop();
    let staged = dir.with_extension("new");
    let _ = std::fs::remove_dir_all(&staged);
    copy(&building, &staged);
    std::fs::rename(&staged, &dir).unwrap();
    dir
}

/// Runs the step that a deployment runs before its services start.
pub fn migrate(gateway: &Path, nats_url: &str, database_url: &str, settings: &Settings) {
    let mut command = Command::new(gateway);
    command.arg("migrate").env("NATS_URL", nats_url).env("DATABASE_URL", database_url);
    command.envs(settings);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "gateway migrate: {error}");
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success(), "copying {} to {}", from.display(), to.display());
}

fn migrations_hash() -> u64 {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in
        std::fs::read_dir(place::repository().join("migrations")).into_iter().flatten().flatten()
    {
        files.push(entry.path());
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    place::postgres().canonicalize().unwrap().hash(&mut hasher);
    for file in files {
        file.file_name().hash(&mut hasher);
        std::fs::read(&file).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}
