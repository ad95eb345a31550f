//! While NATS or Postgres is gone or frozen every route answers soon and says so; nothing that was refused is
//! done later.
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::database::Database;
use tests::gradio::{Client, Submission};
use tests::llm::reply::Reply;
use tests::process::wait_until;
use tests::proxy::Proxy;
use tests::{place, token};

/// "A few seconds", on a machine that has other things to do.
const SOON: Duration = Duration::from_secs(9);
/// Python clients don't wait longer for a join.
const JOIN_WITHIN: Duration = Duration::from_secs(5);
const REFUSED: &str = "this was refused";

fn message(text: &str, conversation: &str) -> Submission {
    Submission::new(text, Some(conversation), None)
}

/// A user with a past: a file, a conversation, a turn under way.
struct Scene {
    cluster: Cluster,
    alice: Client,
    running: String,
    file: String,
}

impl Scene {
    async fn start(cluster: Cluster) -> Scene {
        // Once more for each worker that takes it over.
        let long = || Reply::text(&"word ".repeat(600)).every_ms(100);
        cluster.model.on("long", (0..5).map(|_| long()));
        let mut alice = cluster.client("alice");
        assert_eq!(alice.say("c1", "hello").await.text(), "Done.");
        let running = alice.submit(message("long", "c2")).await;
        alice.until(&running, "stream_token").await;
        let (status, paths) = upload(&cluster.url()).await;
        assert_eq!(status, 200, "{paths}");
        let file = paths[0].as_str().unwrap().to_owned();
        Scene { cluster, alice, running, file }
    }

    async fn ready(&self) {
        let ready = async || self.cluster.ready_count().await == 2;
        wait_until("everything ready", Duration::from_secs(60), ready).await;
    }

    async fn not_ready(&self) {
        let url = format!("{}/healthz/ready", self.cluster.url());
        let refused = async || {
            let answer = place::http().get(&url).send().await;
            answer.is_ok_and(|answer| answer.status() == 503)
        };
        wait_until("the gateway not ready", Duration::from_secs(15), refused).await;
    }

    /// None of it is done later, and the conversations are free.
    async fn nothing_was_half_done(&mut self) {
        for conversation in ["r1", "r2", "r3"] {
            assert_eq!(self.alice.say(conversation, "and now?").await.text(), "Done.");
        }
        let asked = json!(self.cluster.model.requests()).to_string();
        assert!(!asked.contains(REFUSED), "a refused message was answered");
    }
}

async fn upload(base: &str) -> (u16, Value) {
    let body = "--b\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a.csv\"\r\n\r\na,b\r\n--b--\r\n";
    let request = place::http().post(format!("{base}/gradio_api/upload"));
    let request = request.header("content-type", "multipart/form-data; boundary=b").body(body);
    answer(request.bearer_auth(token::user("alice"))).await
}

/// Status and body; a text that is no JSON comes as a string.
async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.timeout(Duration::from_secs(60)).send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Within the time, in the form that clients know.
async fn told(what: &str, within: Duration, asking: impl Future<Output = (u16, Value)>) {
    let started = Instant::now();
    let (status, body) = asking.await;
    let took = started.elapsed();
    assert_eq!((status, &body["code"]), (503, &json!("UNAVAILABLE")), "{what}: {body}");
    assert!(took < within, "{what} took {took:?}");
}

/// The same on a stream that has nothing else to say.
async fn told_on_stream(base: &str, path: &str) {
    let started = Instant::now();
    let request = place::http().get(format!("{base}{path}")).bearer_auth(token::user("alice"));
    let (status, body) = answer(request).await;
    assert!(status == 200 && body.to_string().contains("can't be reached"), "{path}: {body}");
    assert!(started.elapsed() < Duration::from_secs(16), "{path} took {:?}", started.elapsed());
}

/// Every route that needs NATS.
async fn without_nats(scene: &Scene) {
    let (alice, base) = (&scene.alice, scene.cluster.url());
    let join = |submission| async move { alice.join(submission).await };
    let plain = json!({"data": [{"text": REFUSED}, "r3", null]});
    let get = |path: &str| {
        answer(place::http().get(format!("{base}{path}")).bearer_auth(token::user("alice")))
    };
    let cancel = json!({"event_id": scene.running, "session_hash": alice.session(), "fn_index": 0});
    let (file, call) = (&scene.file, format!("/gradio_api/call/chat/{}", scene.running));
    let fresh = alice.another_tab();
    let session = format!("/gradio_api/queue/data?session_hash={}", fresh.session());
    tokio::join!(
        told("join", JOIN_WITHIN, join(message(REFUSED, "r1"))),
        told("join with an id", JOIN_WITHIN, join(message(REFUSED, "r2").named("m-1"))),
        told("join of a new one", JOIN_WITHIN, join(Submission::new(REFUSED, None, None))),
        told("attach", JOIN_WITHIN, join(Submission::new("", Some("c1"), Some("attach")))),
        told("call", JOIN_WITHIN, alice.post("/gradio_api/call/chat", &plain)),
        told("cancel", JOIN_WITHIN, alice.post("/gradio_api/cancel", &cancel)),
        told("upload", SOON, upload(&base)),
        told("file", SOON, get(&format!("/gradio_api/file={file}"))),
        told("active", SOON, get("/api/agent/conversations/c1/active")),
        told_on_stream(&base, &call),
        told_on_stream(&base, &session),
        scene.not_ready(),
    );
    let (status, history) = get("/api/assistant/history?conversation_id=c1").await;
    assert_eq!(status, 200, "{history}");
}

async fn back(scene: &mut Scene) {
    scene.ready().await;
    // The cancel was tried on; the turn had not ended.
    let turn = scene.alice.finish(&scene.running).await;
    assert_eq!(turn.status(), Some("cancelled"), "{:?}", turn.types());
    scene.nothing_was_half_done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_nats_hangs_nobody() {
    let mut scene = Scene::start(Cluster::start().await).await;
    scene.cluster.nats.process().freeze();
    Box::pin(without_nats(&scene)).await;
    scene.cluster.nats.process().thaw();
    back(&mut scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_nats_hangs_nobody() {
    let mut scene = Scene::start(Cluster::start().await).await;
    scene.cluster.nats.kill();
    Box::pin(without_nats(&scene)).await;
    scene.cluster.nats.start_again().await;
    back(&mut scene).await;
}

/// Every route that needs Postgres. A message to a conversation with a name needs it only when it is answered.
async fn without_postgres(scene: &Scene) -> String {
    let (alice, base) = (&scene.alice, scene.cluster.url());
    let http = place::http();
    let ask = |request: reqwest::RequestBuilder| answer(request.bearer_auth(token::user("alice")));
    let rest = |path: &str| format!("{base}/api/assistant{path}");
    let (status, queued) = alice.join(message("hello", "c3")).await;
    assert_eq!(status, 200, "{queued}");
    let unknown = uuid::Uuid::new_v4().to_string();
    let mut tab = alice.another_tab();
    let title = json!({"title": "x"});
    let refused = async {
        let started = Instant::now();
        let turn = tab.say(&unknown, REFUSED).await;
        assert_eq!(turn.error_code(), Some("UNAVAILABLE"), "{:#?}", turn.values);
        assert!(started.elapsed() < SOON, "a refusal took {:?}", started.elapsed());
    };
    let history = rest("/history?conversation_id=c1");
    tokio::join!(
        refused,
        told("list", SOON, ask(http.get(rest("/conversations")))),
        told("history", SOON, ask(http.get(history))),
        told("create", SOON, ask(http.post(rest("/conversations")).json(&title))),
        told("archive", SOON, ask(http.delete(rest("/conversations/c1")))),
        told("active", SOON, ask(http.get(format!("{base}/api/agent/conversations/c1/active")))),
        scene.not_ready(),
    );
    queued["event_id"].as_str().unwrap().to_owned()
}

async fn back_with_postgres(scene: &mut Scene, queued: &str) {
    scene.ready().await;
    scene.alice.open_stream();
    assert_eq!(scene.alice.finish(queued).await.text(), "Done.");
    scene.alice.cancel(&scene.running).await;
    scene.alice.finish(&scene.running).await;
    scene.nothing_was_half_done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_postgres_hangs_nobody() {
    let cluster = Cluster::builder().database(Database::durable().await).start().await;
    let mut scene = Scene::start(cluster).await;
    scene.cluster.database.server().unwrap().process().freeze_family();
    let queued = without_postgres(&scene).await;
    scene.cluster.database.server().unwrap().process().thaw_family();
    back_with_postgres(&mut scene, &queued).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_postgres_hangs_nobody() {
    let cluster = Cluster::builder().database(Database::durable().await).start().await;
    let mut scene = Scene::start(cluster).await;
    scene.cluster.database.server().unwrap().stop();
    let queued = without_postgres(&scene).await;
    scene.cluster.database.server().unwrap().start_again().await;
    back_with_postgres(&mut scene, &queued).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_without_postgres_is_not_ready() {
    let mut cluster = Cluster::builder().database(Database::durable().await).start().await;
    let mut alice = cluster.client("alice");
    assert_eq!(alice.say("c1", "hello").await.text(), "Done.");
    cluster.database.server().unwrap().stop();
    let url = format!("{}/healthz/ready", cluster.worker_url(0));
    let refused = async || {
        let answer = place::http().get(&url).send().await;
        answer.is_ok_and(|answer| answer.status() == 503)
    };
    wait_until("the worker not ready", Duration::from_secs(20), refused).await;
    cluster.database.server().unwrap().start_again().await;
    let ready = async || cluster.ready_count().await == 2;
    wait_until("everything ready", Duration::from_secs(20), ready).await;
    assert_eq!(alice.say("c1", "hello again").await.text(), "Done.");
}

/// The job is stored, its acknowledgement is not heard: the client is told no, and no it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_refused_is_not_run_when_nats_is_back() {
    let nats = tests::nats::Nats::start().await;
    let proxy = Proxy::start(nats.url().trim_start_matches("nats://")).await;
    let through = format!("nats://127.0.0.1:{}", proxy.port());
    let mut cluster = Cluster::builder().gateway_env("NATS_URL", &through).start_with(nats).await;
    cluster.worker(0).freeze();
    proxy.swallow_after(" agent.v1.job.");
    let mut alice = cluster.client("alice");
    let event = alice.submit(message(REFUSED, "r1")).await;
    let gateway = cluster.gateway(0);
    let refused = format!("Refused turn {event}");
    let gave_up = || {
        let found = gateway.log_tail(usize::MAX).contains(&refused);
        async move { found }
    };
    wait_until("the gateway gave up", Duration::from_secs(40), gave_up).await;
    proxy.swallow(false);
    proxy.cut();
    assert_eq!(alice.finish(&event).await.error_code(), Some("UNAVAILABLE"));
    alice.closed().await;
    let log = async_nats::jetstream::new(cluster.nats.client().await);
    let log = log.get_stream(contract::subject::STREAM_EVENTS).await.unwrap();
    let turn: contract::ids::TurnId = event.parse().unwrap();
    let ended = async || {
        let last = log.direct_get_last_for_subject(contract::subject::events_of_turn(turn)).await;
        last.is_ok_and(|last| String::from_utf8_lossy(&last.payload).contains("rejected"))
    };
    wait_until("the refusal in the log", Duration::from_secs(40), ended).await;
    cluster.worker(0).thaw();
    assert_eq!(alice.say("r1", "and now?").await.text(), "Done.");
    let asked = json!(cluster.model.requests()).to_string();
    assert!(!asked.contains(REFUSED), "a refused message was answered");
}
