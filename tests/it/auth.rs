//! Who may: tokens on every request, sessions and events bound to their user, nothing leaked.
use std::time::Duration;

use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::gradio::{Client, Submission};
use tests::llm::reply::Reply;
use tests::{place, token};

fn far() -> i64 {
    4_000_000_000
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_token_is_refused_everywhere_in_the_same_shape() {
    let cluster = Cluster::start().await;
    let bad = [
        String::new(),
        "nonsense".to_owned(),
        token::expired("alice"),
        token::sign(
            &json!({"sub": "alice", "exp": far()}),
            "another secret, also thirty-two bytes long",
            Algorithm::HS256,
        ),
        token::sign(&json!({"sub": "alice", "exp": far()}), token::SECRET, Algorithm::HS384),
        token::sign(&json!({"sub": "alice"}), token::SECRET, Algorithm::HS256),
        token::sign(&json!({"exp": far()}), token::SECRET, Algorithm::HS256),
        token::service("agent", Duration::from_secs(60)),
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSIsImV4cCI6NDAwMDAwMDAwMH0.".to_owned(),
    ];
    for text in bad {
        let client = Client::new(&cluster.url(), &text);
        let (status, answer) = client.join(Submission::new("hello", Some("c1"), None)).await;
        assert_eq!((status, &answer["detail"]), (401, &json!("UNAUTHORIZED")), "{text}");
        let rest = tests::rest::Rest::new(&cluster.url(), &text);
        assert_eq!(rest.get("/api/assistant/conversations").await.0, 401, "{text}");
        assert_eq!(rest.get("/api/agent/conversations/c1/active").await.0, 401, "{text}");
    }
    assert_eq!(cluster.model.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_header_only_public_pages_answer() {
    let cluster = Cluster::start().await;
    let http = place::http();
    let status = async |path: &str| {
        http.get(format!("{}{path}", cluster.url())).send().await.unwrap().status().as_u16()
    };
    for path in
        ["/config", "/gradio_api/info", "/gradio_api/app_id", "/healthz/live", "/healthz/ready"]
    {
        assert_eq!(status(path).await, 200, "{path}");
    }
    for path in [
        "/api/assistant/conversations",
        "/api/assistant/history?conversation_id=x",
        "/api/agent/conversations/x/active",
    ] {
        assert_eq!(status(path).await, 401, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_expires_before_the_stream_ends_in_frames() {
    let cluster = Cluster::builder().gateway_env("JWT_LEEWAY_S", "0").start().await;
    let mut alice = Client::new(&cluster.url(), &token::user_for("alice", Duration::from_secs(1)));
    let (status, answer) = alice.join(Submission::new("hello", Some("c1"), None)).await;
    assert_eq!(status, 200, "{answer}");
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    alice.open_stream();
    let turn = alice.finish(answer["event_id"].as_str().unwrap()).await;
    assert!(turn.completed.is_some());
    alice.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_belongs_to_its_user() {
    let cluster = Cluster::start().await;
    cluster.model.on("hello", [Reply::text("my private answer").every_ms(100)]);
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    let mut mallory = cluster.client("mallory");
    mallory.set_session(alice.session());
    mallory.open_stream();
    mallory.closed().await;
    let frames = mallory.loose_frames();
    assert_eq!(frames.len(), 1, "{frames:#?}");
    assert_eq!(
        (&frames[0]["msg"], &frames[0]["session_not_found"]),
        (&json!("unexpected_error"), &json!(true))
    );
    let turn = alice.finish(&event).await;
    assert_eq!(turn.text(), "my private answer");
    let call = format!("{}/gradio_api/call/chat/{event}", cluster.url());
    let answer = place::http().get(call).bearer_auth(token::user("mallory")).send().await.unwrap();
    assert!(!answer.text().await.unwrap().contains("private"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_runs_out_in_the_middle_pauses_the_run() {
    let cluster = Cluster::start().await;
    let search = Reply::call("search_dashboards", json!({})).after_ms(2_500);
    cluster.model.on("dashboards", [search, Reply::text("Here they are.")]);
    let mut alice = Client::new(&cluster.url(), &token::user_for("alice", Duration::from_secs(2)));
    let turn = alice.say("c1", "show dashboards").await;
    assert_eq!(turn.error_code(), Some("UNAUTHORIZED"), "{:#?}", turn.values);
    let resumed = cluster.client("alice").act("c1", "resume", "").await;
    assert_eq!(resumed.text(), "Here they are.", "{:#?}", resumed.values);
    assert_eq!(resumed.all("tool_end").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_users_token_is_nowhere_in_the_clear() {
    let mut cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    crate::approval::card(&cluster, &mut alice, "c1").await;
    alice.act("c1", "confirm", "").await;
    // The signature is what makes it a secret.
    let needle = token::user("alice").rsplit('.').next().unwrap()[..20].to_owned();
    for log in [cluster.gateway(0).log_tail(100_000), cluster.worker(0).log_tail(100_000)] {
        assert!(!log.contains(&needle) && !log.contains("eyJ"), "a token in the log");
        assert!(!log.contains("deploy dashboard 42"), "the user's text in the log");
    }
    let pool = cluster.database.pool().await;
    let tables: Vec<String> =
        sqlx::query_scalar("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
            .fetch_all(&pool)
            .await
            .unwrap();
    assert!(tables.len() > 5, "{tables:?}");
    for table in tables {
        let statement =
            format!("SELECT count(*) FROM {table} t WHERE t::text LIKE '%' || $1 || '%'");
        let found: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(statement))
            .bind("eyJ")
            .fetch_one(&pool)
            .await
            .unwrap();
        assert_eq!(found, 0, "a token in table {table}");
    }
    for stream in messages(&cluster).await {
        assert!(!stream.contains("eyJ"), "a token on NATS: {stream}");
    }
}

/// Payloads of the event log.
async fn messages(cluster: &Cluster) -> Vec<String> {
    let context = async_nats::jetstream::new(cluster.nats.client().await);
    let stream = context.get_stream(contract::subject::STREAM_EVENTS).await.unwrap();
    let last = stream.cached_info().state.last_sequence;
    let mut found = Vec::new();
    for sequence in 1..=last {
        if let Ok(message) = stream.get_raw_message(sequence).await {
            found.push(String::from_utf8_lossy(&message.payload).into_owned());
        }
    }
    assert!(!found.is_empty());
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn config_names_no_secret_and_no_host() {
    let cluster = Cluster::start().await;
    let config: Value = place::http()
        .get(format!("{}/config", cluster.url()))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert!(config.get("root").is_none(), "{config}");
    let text = config.to_string();
    for secret in [token::SECRET, tests::cluster::SEAL_KEY, "127.0.0.1", "postgres://", "nats://"] {
        assert!(!text.contains(secret), "{secret}");
    }
}
