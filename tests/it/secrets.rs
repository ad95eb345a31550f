//! After a run with everything in it, no token and no key is at rest anywhere: not in NATS, Postgres or any log.
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jsonwebtoken::Algorithm;
use serde_json::json;
use tests::backend;
use tests::cluster::{Cluster, SEAL_KEY};
use tests::database::{Database, execute};
use tests::gradio::{Client, Submission};
use tests::llm::reply::Reply;
use tests::process::{scratch, wait_until};
use tests::{llm, place, token};

/// In a claim of every user token.
const CLAIM: &str = "a-claim-that-nobody-but-the-backend-shall-read";
/// In a message, an upload and an answer: what does get stored, and where.
const SAID: &str = "a-word-that-may-be-stored-anywhere";

fn jwt(lifetime: Duration) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let claims = json!({"sub": "alice", "exp": (now + lifetime).as_secs(), "note": CLAIM});
    token::sign(&claims, token::SECRET, Algorithm::HS256)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_and_no_key_is_at_rest() {
    let builder = Cluster::builder().gateway_env("LOG", "trace").worker_env("LOG", "trace");
    let mut cluster = builder.database(Database::durable().await).start().await;
    // The clock of the short one runs.
    let (long, short) = (jwt(Duration::from_secs(3_600)), jwt(Duration::from_secs(2)));
    let turn = everything(&mut cluster, &long, &short).await;

    let secrets = secrets(&[&long, &short]);
    let tables = tables(cluster.database.url()).await;
    execute(cluster.database.url(), "CHECKPOINT").await.unwrap();
    cluster.database.server().unwrap().stop();
    let store = cluster.nats.dir().to_owned();
    let data = cluster.database.server().unwrap().dir().to_owned();
    let logs = cluster.log_dir().to_owned();
    let places = [tables.as_path(), &data, &store, &logs];
    for place in places {
        assert_eq!(found(place, &secrets), [""; 0]);
    }
    // The search sees what is there.
    for (place, text) in places.iter().zip([SAID, SAID, SAID, &turn]) {
        assert_ne!(found(place, &[text.to_owned()]), [""; 0], "{text} in {}", place.display());
    }
}

#[test]
fn a_planted_token_is_found() {
    let (dir, long) = (scratch("planted"), jwt(Duration::from_secs(60)));
    let secrets = secrets(&[&long]);
    for (number, secret) in secrets.iter().enumerate() {
        let file = dir.join(number.to_string());
        let bytes = [b"\xff\xfe\x00".as_slice(), secret.as_bytes(), b"\x80\x00"].concat();
        std::fs::write(&file, bytes).unwrap();
        assert_ne!(found(&dir, &secrets), [""; 0], "{secret}");
        std::fs::remove_file(&file).unwrap();
    }
    assert_eq!(found(&dir, &secrets), [""; 0]);
}

/// Message, tools, confirm, upload, cancel, a token that runs out, three deaths of a worker, the end of a gateway.
/// Returns the id of a turn.
async fn everything(cluster: &mut Cluster, long: &str, short: &str) -> String {
    let deploy =
        Reply::call("deploy_dashboard", json!({"dashboard_id": "42", "environment_id": "prod"}));
    let search = || Reply::call("search_dashboards", json!({"search": SAID}));
    cluster.model.on("deploy", [search(), deploy, Reply::text(SAID)]);
    cluster.model.on("cancel", [Reply::text("one two three four five six seven").every_ms(200)]);
    cluster.model.on("open", [Reply::text("one two three four five six seven").every_ms(200)]);
    cluster.model.on("late", [search().after_ms(2_500), Reply::text(SAID)]);
    cluster.model.on("deadly", (0..5).map(|_| Reply::text("deadly").every_ms(50).then_hang()));
    let mut late = Client::new(&cluster.url(), short);
    let submission = Submission::new("late", Some("late"), None);
    let running_out = late.submit(submission).await;
    let mut alice = Client::new(&cluster.url(), long);
    upload(&cluster.url(), long).await;
    assert!(alice.say("c", &format!("deploy {SAID}")).await.card().is_some());
    assert_eq!(alice.act("c", "confirm", "").await.text(), SAID);
    let cancelled = alice.submit(Submission::new("cancel", Some("c"), None)).await;
    alice.until(&cancelled, "stream_token").await;
    alice.cancel(&cancelled).await;
    assert_eq!(alice.finish(&cancelled).await.status(), Some("cancelled"));
    assert_eq!(late.finish(&running_out).await.error_code(), Some("UNAUTHORIZED"));
    assert_eq!(alice.act("late", "resume", "").await.text(), SAID);

    let asked = cluster.model.exchanges().len();
    let deadly = alice.submit(Submission::new("deadly", Some("deadly"), None)).await;
    for attempt in 1..=3 {
        cluster.model.wait("the attempt", |seen| seen.len() == asked + attempt).await;
        cluster.restart_worker(0).await;
    }
    let turn = alice.finish(&deadly).await;
    assert_eq!(turn.error_code(), Some("WORKER_CRASHED"), "{:#?}", turn.values);

    let open = alice.submit(Submission::new("open", Some("open"), None)).await;
    alice.until(&open, "stream_token").await;
    waiting_job_is_sealed(cluster, &secrets(&[long, short])).await;
    assert!(cluster.gateway(0).terminate(Duration::from_secs(20)));
    running_jobs_end(cluster).await;
    deadly
}

/// A job is erased as it is acked: this is the moment to see one in the store.
async fn waiting_job_is_sealed(cluster: &Cluster, secrets: &[String]) {
    let store = cluster.nats.dir();
    let stored = || async { !found(store, &["\"user_token\":\"v1.".to_owned()]).is_empty() };
    wait_until("a sealed token in the store", Duration::from_secs(5), stored).await;
    assert_eq!(found(store, secrets), [""; 0]);
}

async fn running_jobs_end(cluster: &Cluster) {
    let none = || async {
        let page = cluster.nats.page("/jsz?streams=1").await;
        let streams = page["account_details"][0]["stream_detail"].as_array().unwrap().clone();
        streams.iter().any(|s| s["name"] == "AGENT_JOBS" && s["state"]["messages"] == 0)
    };
    wait_until("no job left", Duration::from_secs(10), none).await;
}

async fn upload(base: &str, user: &str) {
    let body = format!(
        "--B\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a.csv\"\r\n\r\n{SAID}\r\n--B--\r\n"
    );
    let request = place::http().post(format!("{base}/gradio_api/upload")).bearer_auth(user);
    let request = request.header("content-type", "multipart/form-data; boundary=B").body(body);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200, "{:?}", answer.text().await);
}

/// What must not be found. The first part of a token is that of every token, those of the service included.
fn secrets(tokens: &[&str]) -> Vec<String> {
    let keys = [SEAL_KEY, backend::CLIENT_SECRET, llm::API_KEY, token::SECRET, CLAIM];
    let parts = tokens.iter().flat_map(|token| token.split('.'));
    keys.into_iter().chain(parts).map(str::to_owned).collect()
}

/// Every table as text, in files of a folder: large values are compressed in the data files.
async fn tables(url: &str) -> PathBuf {
    let dir = scratch("tables");
    let pool = sqlx::PgPool::connect(url).await.unwrap();
    let names = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'";
    let names: Vec<String> = sqlx::query_scalar(names).fetch_all(&pool).await.unwrap();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        let rows = sqlx::AssertSqlSafe(format!("SELECT t::text FROM \"{name}\" t"));
        let rows: Vec<String> = sqlx::query_scalar(rows).fetch_all(&pool).await.unwrap();
        std::fs::write(dir.join(name), rows.join("\n")).unwrap();
    }
    pool.close().await;
    dir
}

/// Which files below `dir` contain one of the texts. A file may vanish while its server runs.
fn found(dir: &Path, texts: &[String]) -> Vec<String> {
    let mut hits = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            hits.extend(found(&path, texts));
            continue;
        }
        let read = std::fs::read(&path);
        if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            continue;
        }
        let bytes = read.unwrap();
        let content = String::from_utf8_lossy(&bytes);
        for text in texts.iter().filter(|text| content.contains(text.as_str())) {
            hits.push(format!("{} has {text}", path.display()));
        }
    }
    hits
}
