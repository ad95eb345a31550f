//! Clients that take nothing, send nothing, or want too much: they cost little, and others don't notice.
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::backend::FaultKind;
use tests::cluster::Cluster;
use tests::gradio::{Client, Submission};
use tests::llm::reply::Reply;
use tests::process::{Process, wait_until};
use tests::token;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

const MIB: u64 = 1024 * 1024;
const READERS: usize = 50;
/// Of the shown turn.
const STEPS: usize = 15;
const CALLS_PER_STEP: usize = 8;

fn message(text: &str, conversation: &str) -> Submission {
    Submission::new(text, Some(conversation), None)
}

/// Tool results of 7 MB altogether, and a short answer.
fn heavy(cluster: &Cluster, phrase: &str) {
    let rows = json!({"items": ["x".repeat(60_000)], "total": 1});
    cluster.backend.fault("search_dashboards", FaultKind::Body(rows.to_string()), None);
    let call = |n: usize| json!({"search": format!("part {n}")});
    let step = |step: usize| {
        (0..CALLS_PER_STEP)
            .map(|n| step * CALLS_PER_STEP + n)
            .fold(Reply::text(""), |reply, n| reply.and_call("search_dashboards", call(n)))
            .after_ms(100)
    };
    cluster.model.on(phrase, (0..STEPS).map(step).chain([Reply::text("All read.")]));
}

/// Opens the session's stream on a bare socket with a small buffer, and reads nothing of it.
async fn stalled(cluster: &Cluster, client: &Client, user: &str) -> TcpStream {
    let path = format!("/gradio_api/queue/data?session_hash={}", client.session());
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
        token::user(user)
    );
    let mut socket = connect(&cluster.gateway_url(0)).await;
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

async fn connect(url: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    socket.connect(url.trim_start_matches("http://").parse().unwrap()).await.unwrap()
}

/// What still comes, and how it ends.
async fn rest(mut socket: TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(30), socket.read_to_end(&mut bytes));
    let _ = read.await.unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn dropped(gateway: &Process) -> usize {
    gateway.log_tail(usize::MAX).matches("whose peer took nothing").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_never_read_are_dropped_and_cost_little() {
    let mut cluster =
        Cluster::builder().gateway_env("GATEWAY_STALL_S", "4").workers(2).start().await;
    let mut alice = cluster.client("alice");
    heavy(&cluster, "warm up");
    let warm = alice.say("c0", "warm up with sales dashboards").await;
    assert_eq!((warm.text(), warm.all("tool_end").len()), ("All read.", STEPS * CALLS_PER_STEP));
    let before = cluster.gateway(0).resident_bytes();

    heavy(&cluster, "everything");
    let event = alice.submit(message("everything of sales dashboards", "c1")).await;
    alice.until(&event, "tool_start").await;
    // Half of them from the turn's start, half when all of it is stored.
    let mut held = Vec::new();
    held.extend(followers(&cluster, READERS / 2).await);
    cluster.model.on("meanwhile", [Reply::text(&"a b c ".repeat(40)).every_ms(40)]);
    let mut bob = cluster.client("bob");
    let meanwhile = bob.say("c2", "meanwhile").await;
    assert_eq!(alice.finish(&event).await.text(), "All read.");
    held.extend(followers(&cluster, READERS - READERS / 2).await);

    let mut most = 0;
    let gateway = cluster.gateway(0);
    let all_dropped = || {
        most = most.max(gateway.resident_bytes());
        let count = dropped(gateway);
        async move { count == READERS }
    };
    wait_until("all of them dropped", Duration::from_secs(60), all_dropped).await;
    let grown = most.saturating_sub(before) / MIB;
    println!("{READERS} stalled readers: {} MiB before, {grown} MiB more", before / MIB);
    assert!(grown < 100, "{grown} MiB for {READERS} readers");

    let gaps = meanwhile.times.windows(2).map(|pair| pair[1] - pair[0]);
    assert_eq!(meanwhile.text(), "a b c ".repeat(40), "{:#?}", meanwhile.types());
    assert!(gaps.max().unwrap() < Duration::from_secs(3), "somebody else's tokens waited");

    // The session goes on where somebody reads.
    let (mut first, socket, followed) = held.swap_remove(0);
    drop(socket);
    first.open_stream();
    assert_eq!(first.finish(&followed).await.text(), "All read.");
}

/// Attached to the turn of `c1`, in sessions of their own.
async fn followers(cluster: &Cluster, count: usize) -> Vec<(Client, TcpStream, String)> {
    let one = async || {
        let client = cluster.client("alice");
        let (status, answer) = client.join(Submission::new("", Some("c1"), Some("attach"))).await;
        assert_eq!(status, 200, "{answer}");
        let socket = stalled(cluster, &client, "alice").await;
        (client, socket, answer["event_id"].as_str().unwrap().to_owned())
    };
    join_all((0..count).map(|_| one())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_senders_are_given_up() {
    let mut cluster = Cluster::builder().gateway_env("GATEWAY_IDLE_S", "2").start().await;
    let url = cluster.gateway_url(0);
    let post = "POST /gradio_api/queue/join HTTP/1.1\r\nHost: x\r\n";
    let heads = join_all((0..200).map(|_| async {
        let mut socket = connect(&url).await;
        socket.write_all(post.as_bytes()).await.unwrap();
        rest(socket).await
    }));
    let body = async {
        let bearer = format!("Authorization: Bearer {}\r\n", token::user("alice"));
        let head = format!(
            "{post}{bearer}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{"
        );
        let mut socket = connect(&url).await;
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(20), socket.read(&mut answer)).await;
        let count = read.unwrap().unwrap();
        String::from_utf8_lossy(&answer[..count]).into_owned()
    };
    let mut alice = cluster.client("alice");
    let (heads, body, turn) = tokio::join!(heads, body, alice.say("c1", "hello"));
    assert_eq!(turn.text(), "Done.");
    assert!(heads.iter().all(|answer| !answer.contains(" 200 ")), "{heads:?}");
    assert!(body.starts_with("HTTP/1.1 408 ") && body.contains("detail"), "{body}");
    assert!(cluster.gateway(0).exited().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_stream_too_many_is_told_so_and_the_client_can_go_on() {
    let cluster = Cluster::builder()
        .gateway_env("GATEWAY_STREAMS", "3")
        .gateway_env("GATEWAY_STREAMS_PER_USER", "2")
        .start()
        .await;
    let long = || Reply::text(&"word ".repeat(40)).every_ms(100);
    cluster.model.on("long", [long(), long()]);
    let mut streams = Vec::new();
    for number in 0..2 {
        let mut client = cluster.client("alice");
        let event = client.submit(message("long", &format!("c{number}"))).await;
        client.until(&event, "stream_token").await;
        streams.push((client, event));
    }
    let mut third = cluster.client("alice");
    let refused = third.say("c3", "hello").await;
    assert_eq!(refused.error_code(), Some("USER_BUSY"), "{:#?}", refused.values);
    assert_eq!(refused.one("error")["retryable"], true);
    third.closed().await;

    let mut bob = cluster.client("bob");
    assert_eq!(bob.say("c1", "hello").await.text(), "Done.");
    bob.closed().await;
    for (client, event) in &streams {
        assert_eq!(client.finish(event).await.text(), "word ".repeat(40));
        client.closed().await;
    }
    // The refused turn ran; it is there to be shown, on the same client.
    assert_eq!(third.act("c3", "attach", "").await.text(), "Done.");
}

/// Nobody works: a user's jobs pile up, but only so many, and then others' still fit.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_user_ends_in_refusals_and_another_is_served() {
    let mut cluster = Cluster::builder().gateway_env("GATEWAY_JOBS_PER_USER", "20").start().await;
    cluster.worker(0).freeze();
    let before = cluster.gateway(0).resident_bytes();
    let flood = cluster.client("alice");
    let large = "слово ".repeat(15_000);
    let joins = (0..300).map(|n| flood.join(message(&large, &format!("c{n}"))));
    let answers = join_all(joins).await;
    let refused: Vec<&Value> =
        answers.iter().filter(|(status, _)| *status == 429).map(|(_, answer)| answer).collect();
    let accepted = answers.iter().filter(|(status, _)| *status == 200).count();
    assert_eq!((accepted, refused.len()), (20, 280), "{:?}", answers[299]);
    assert_eq!(refused[0]["code"], "USER_BUSY");
    assert!(refused[0]["detail"].is_string());
    let grown = cluster.gateway(0).resident_bytes().saturating_sub(before) / MIB;
    println!("300 joins of 165 kB: {grown} MiB more");
    assert!(grown < 150, "{grown} MiB");

    let mut bob = cluster.client("bob");
    let event = bob.submit(message("hello", "c1")).await;
    cluster.worker(0).thaw();
    assert_eq!(bob.finish(&event).await.text(), "Done.");
    // What was accepted ends one way or the other, and then there is room again.
    let mut flood = flood;
    flood.open_stream();
    for (status, answer) in &answers {
        if *status == 200 {
            let turn = flood.finish(answer["event_id"].as_str().unwrap()).await;
            let code = turn.error_code();
            assert!(turn.text() == "Done." || code == Some("USER_BUSY"), "{:#?}", turn.values);
        }
    }
    flood.closed().await;
    assert_eq!(flood.say("again", "hello").await.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_told_at_once() {
    let mut cluster = Cluster::start().await;
    let context = async_nats::jetstream::new(cluster.nats.client().await);
    let jobs = context.get_stream(contract::subject::STREAM_JOBS).await.unwrap();
    let mut small = jobs.cached_info().config.clone();
    small.max_messages = 2;
    context.update_stream(&small).await.unwrap();
    cluster.worker(0).freeze();
    let mut waiting = Vec::new();
    for (user, conversation) in [("alice", "c1"), ("bob", "c1")] {
        let mut client = cluster.client(user);
        let event = client.submit(message("hello", conversation)).await;
        waiting.push((client, event));
    }
    let stored = async || jobs.get_info().await.unwrap().state.messages == 2;
    wait_until("two jobs", Duration::from_secs(10), stored).await;
    let mut carol = cluster.client("carol");
    let refused = carol.say("c1", "hello").await;
    assert_eq!(refused.error_code(), Some("QUEUE_FULL"), "{:#?}", refused.values);
    cluster.worker(0).thaw();
    for (client, event) in &waiting {
        assert_eq!(client.finish(event).await.text(), "Done.");
    }
    assert_eq!(carol.say("c1", "hello").await.text(), "Done.");
}
