//! A gateway that is told to stop: its clients are told to come again, and lose nothing by it.
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;
use tests::cluster::Cluster;
use tests::cluster::spare::Gateway;
use tests::gradio::raw::Kept;
use tests::gradio::{Client, Submission};
use tests::llm::reply::Reply;
use tests::process::wait_until;
use tests::roundrobin::RoundRobin;
use tests::{place, token};

use super::{PAUSE, attach, follow, open, script, shown};

const WITHIN: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_told_to_stop_sends_its_clients_on() {
    let notice = ("GATEWAY_NOTICE_MS", "2500");
    let cluster = Cluster::builder().gateways(1).gateway_env(notice.0, notice.1).start().await;
    let mut leaving = cluster.spare_gateway("leaving").await;
    let ask = script(&cluster, "c1-", 250);
    let alice = leaving.client("alice");
    let (mut raw, event) = open(&alice, Submission::new(&ask, Some("c1-"), None)).await;
    raw.read_frames(3).await;
    let (upload, finish_upload) = slow_upload(&leaving);
    let asked = Instant::now();
    leaving.ask_to_stop();

    // Readiness goes off while everything is still served.
    let rest = leaving.rest("alice");
    let unready = || async { rest.get("/healthz/ready").await.0 == 503 };
    wait_until("readiness off", WITHIN, unready).await;
    let (status, _) = rest.get("/api/assistant/conversations").await;
    assert_eq!(status, 200, "REST during the notice");
    let other = leaving.client("alice");
    let (mut late, late_event) = open(&other, Submission::new("hi", Some("c2"), None)).await;
    assert!(Kept::of(late.read_all().await, &late_event).is_complete, "a join in the notice");

    let mut kept = Kept::of(raw.read_all().await, &event);
    let last: Vec<Value> = raw.frames().iter().rev().take(3).map(|frame| json(frame)).collect();
    let kinds: Vec<&str> = last.iter().rev().map(|frame| frame["msg"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["process_generating", "process_completed", "close_stream"]);
    let closing = &last[1]["output"]["data"][0]["metadata"];
    assert_eq!(
        (closing["code"].as_str(), closing["retryable"].as_bool()),
        (Some("UNAVAILABLE"), Some(true))
    );
    assert_eq!(last[1]["success"], true);
    assert_eq!(kept.told.as_deref(), Some("UNAVAILABLE"));

    finish_upload.send(()).unwrap();
    assert_eq!(upload.await.unwrap(), 200, "an upload in flight");
    let status = leaving.ended(WITHIN).await;
    assert_eq!(status.code(), Some(0), "after {:?}", asked.elapsed());
    let refused = place::http().get(leaving.url()).send().await;
    assert!(refused.is_err_and(|error| error.is_connect()));

    let rest = attach("c1-", &kept.action());
    follow(&mut kept, &cluster.client_at(0, "alice"), rest).await;
    let whole = shown(&cluster.client_at(0, "alice"), "c1-", "attach").await;
    assert!(whole.is_complete);
    assert_eq!(kept.values, whole.values);
}

fn json(frame: &str) -> Value {
    serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap()
}

/// An upload whose second half is sent when told; its status.
fn slow_upload(
    gateway: &Gateway,
) -> (tokio::task::JoinHandle<u16>, tokio::sync::oneshot::Sender<()>) {
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    let head =
        "--b\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a.csv\"\r\n\r\na,b\n";
    let pieces = async_stream(head, finished);
    let request = place::http()
        .post(format!("{}/gradio_api/upload", gateway.url()))
        .bearer_auth(token::user("alice"))
        .header("content-type", "multipart/form-data; boundary=b")
        .body(reqwest::Body::wrap_stream(pieces));
    let upload = tokio::spawn(async move { request.send().await.unwrap().status().as_u16() });
    (upload, finish)
}

fn async_stream(
    head: &'static str,
    finished: tokio::sync::oneshot::Receiver<()>,
) -> impl futures_util::Stream<Item = Result<&'static str, std::io::Error>> {
    let tail = futures_util::stream::once(async move {
        finished.await.unwrap();
        Ok("1,2\r\n--b--\r\n")
    });
    futures_util::StreamExt::chain(futures_util::stream::iter([Ok(head)]), tail)
}

/// Two gateways behind a round robin are replaced in turn while twenty conversations stream.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_is_lossless_for_twenty_conversations() {
    let slots = [("WORKER_SLOTS", "16"), ("TURNS_PER_USER", "100")];
    let builder = Cluster::builder().gateways(1).workers(2);
    let cluster = slots.iter().fold(builder, |b, (name, value)| b.worker_env(name, value));
    let cluster = cluster.start().await;
    let mut gateways = [cluster.spare_gateway("a").await, cluster.spare_gateway("b").await];
    let front = RoundRobin::start(gateways.iter().map(Gateway::url).collect()).await;
    let base = front.url();
    let text = (0..40).map(|number| format!("слово{number} ")).collect::<String>();
    for number in 0..20 {
        cluster.model.on(&format!("[{number}]"), [Reply::text(&text).every_ms(60)]);
    }
    let talks = join_all((0..20).map(|number| talk(base, number)));
    let restarts = async {
        for round in 0..4 {
            let gateway = &mut gateways[round % 2];
            gateway.ask_to_stop();
            assert_eq!(gateway.ended(WITHIN).await.code(), Some(0), "round {round}");
            gateway.restart().await;
        }
    };
    let (talks, ()) = tokio::join!(talks, restarts);
    let attaches: usize = talks.iter().map(|(_, attaches)| attaches).sum();
    assert!(attaches > 0, "nobody noticed the restarts");
    for (number, (kept, _)) in talks.iter().enumerate() {
        let whole =
            shown(&cluster.client_at(0, "alice"), &format!("talk-{number}"), "attach").await;
        assert!(kept.is_complete && whole.is_complete);
        assert_eq!(kept.values, whole.values, "conversation {number}");
    }
    assert_eq!(cluster.model.requests().len(), 20, "no turn ran twice");
}

/// A client that comes again until its turn is complete, and how often it had to.
async fn talk(base: &str, number: usize) -> (Kept, usize) {
    let conversation = format!("talk-{number}");
    let (mut kept, mut tries) = (Kept::default(), 0);
    while !kept.is_complete {
        let client = Client::new(base, &token::user("alice"));
        let submission = match kept.values.last() {
            Some(_) => attach(&conversation, &kept.action()),
            None => Submission::new(&format!("[{number}]"), Some(&conversation), None).named("ask"),
        };
        let (status, answer) = client.join(submission).await;
        if status == 200
            && let Some(mut raw) = client.try_raw_stream().await
        {
            tries += 1;
            kept.take(raw.read_all().await, answer["event_id"].as_str().unwrap());
        } else {
            assert!([200, 502, 503].contains(&status), "{status} {answer}");
        }
        tokio::time::sleep(PAUSE).await;
    }
    (kept, tries - 1)
}
