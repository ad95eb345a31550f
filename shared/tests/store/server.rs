//! One Postgres per test process, and a migrated database in it for every test.
//!
//! The binaries are in `POSTGRES_BIN`, or in `.tools/postgres/bin` of a parent folder.
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use secrecy::SecretString;
use shared::runtime::env::Env;
use sqlx::{Connection, PgConnection};

const TEMPLATE: &str = "migrated";

pub static SERVER: LazyLock<Server> = LazyLock::new(Server::start);
static DATABASES: AtomicU32 = AtomicU32::new(0);

pub struct Server {
    port: u16,
    /// The keeper stops the server as soon as this end is closed, however this process ends.
    _keeper: (Child, ChildStdin),
}

impl Server {
    fn start() -> Self {
        let bin = binaries();
        let folder = std::env::temp_dir().join(format!("store-test-{}", std::process::id()));
        let data = folder.join("data");
        std::fs::create_dir_all(&folder).unwrap();
        let prefix = as_ordinary_user();
        run(command(&prefix, &bin.join("initdb")).arg("-D").arg(&data).args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
        ]));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self { port, _keeper: keeper(&prefix, &bin, &folder, port) };
        std::thread::spawn(move || runtime().block_on(prepare(port))).join().unwrap();
        server
    }

    pub fn url(&self, database: &str) -> SecretString {
        url(self.port, database)
    }

    /// A database of its own for one test.
    pub async fn database(&self) -> SecretString {
        let name = format!("t{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        self.admin(&format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}")).await;
        self.url(&name)
    }

    pub async fn admin(&self, sql: &str) {
        let mut admin = connect(self.port, "postgres").await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut admin).await.unwrap();
        admin.close().await.unwrap();
    }
}

async fn prepare(port: u16) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut admin = loop {
        match connect(port, "postgres").await {
            Ok(admin) => break admin,
            Err(error) => assert!(Instant::now() < deadline, "Postgres does not start: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    sqlx::raw_sql("CREATE DATABASE migrated").execute(&mut admin).await.unwrap();
    admin.close().await.unwrap();
    shared::store::migrate::run(&url(port, TEMPLATE)).await.unwrap();
}

async fn connect(port: u16, database: &str) -> sqlx::Result<PgConnection> {
    PgConnection::connect(&format!("postgres://postgres@127.0.0.1:{port}/{database}")).await
}

fn url(port: u16, database: &str) -> SecretString {
    SecretString::from(format!("postgres://postgres@127.0.0.1:{port}/{database}"))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A shell that waits for the end of its input and then stops the server and removes its data.
fn keeper(prefix: &[&'static str], bin: &Path, folder: &Path, port: u16) -> (Child, ChildStdin) {
    let script = r#"exec 3<&0; "$@" </dev/null >"$FOLDER/log" 2>&1 & server=$!
        cat <&3 >/dev/null; kill -INT $server; wait $server; rm -rf "$FOLDER""#;
    let mut child = Command::new("sh")
        .args(["-c", script, "keeper"])
        .args(prefix)
        .arg(bin.join("postgres"))
        .arg("-D")
        .arg(folder.join("data"))
        .args(["-h", "127.0.0.1", "-p", &port.to_string()])
        .args(["-c", "unix_socket_directories=", "-c", "max_connections=300", "-c", "fsync=off"])
        .args(["-c", "full_page_writes=off", "-c", "shared_buffers=64MB"])
        .env("FOLDER", folder)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take().unwrap();
    (child, stdin)
}

fn binaries() -> PathBuf {
    if let Some(folder) = Env::process().optional("POSTGRES_BIN") {
        return PathBuf::from(folder);
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found =
        here.ancestors().map(|folder| folder.join(".tools/postgres/bin")).find(|bin| bin.exists());
    found.expect("set POSTGRES_BIN to the folder of initdb and postgres, or run tests/setup.sh")
}

/// Postgres refuses to run as root; inside a user namespace root looks like anybody.
fn as_ordinary_user() -> Vec<&'static str> {
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout.trim_ascii() == b"0" {
        vec!["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]
    } else {
        Vec::new()
    }
}

fn command(prefix: &[&'static str], program: &Path) -> Command {
    match prefix {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
