//! One session over several gateways: joins around the closing moment, takeover, a gateway that dies.
use std::time::Duration;

use tests::cluster::Cluster;
use tests::gradio::Submission;
use tests::llm::reply::Reply;
use tests::proxy::Proxy;

/// The stock JavaScript client does it two thousand times (`tests/clients`).
const ROUNDS: u64 = 150;

#[tokio::test(flavor = "multi_thread")]
async fn a_join_around_the_closing_moment_is_never_lost() {
    let cluster = Cluster::builder().gateways(2).workers(2).start().await;
    let mut alice = cluster.client("alice");
    let mut first = alice.submit(Submission::new("hello", Some("c0"), None)).await;
    for round in 1..=ROUNDS {
        let turn = alice.finish(&first).await;
        assert_eq!(turn.text(), "Done.", "round {round}");
        tokio::time::sleep(Duration::from_millis(round % 13)).await;
        first =
            alice.submit(Submission::new("hello", Some(&format!("c{}", round % 7)), None)).await;
    }
    alice.finish(&first).await;
    alice.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_reader_takes_over_and_the_first_is_closed() {
    let cluster = Cluster::builder().gateways(2).start().await;
    cluster.model.on("hello", [Reply::text("a b c d e f g h i j k l").every_ms(150)]);
    let mut first = cluster.client_at(0, "alice");
    let event = first.submit(Submission::new("hello", Some("c1"), None)).await;
    let before = first.until(&event, "stream_token").await;
    let mut second = cluster.client_at(1, "alice");
    second.set_session(first.session());
    second.open_stream();
    first.closed().await;
    let after = second.finish(&event).await;
    assert_eq!(after.text(), "a b c d e f g h i j k l");
    assert!(
        !before.tokens().is_empty() && after.tokens().len() < after.text().len(),
        "{}",
        after.tokens()
    );
    second.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_stream_goes_on_after_its_gateway_died() {
    let mut cluster = Cluster::builder().gateways(2).start().await;
    cluster.model.on("hello", [Reply::text("a b c d e f g h i j").every_ms(150)]);
    let mut alice = cluster.client_at(0, "alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&event, "stream_token").await;
    cluster.kill_gateway(0);
    let mut again = cluster.client_at(1, "alice");
    again.set_session(alice.session());
    again.open_stream();
    let turn = again.finish(&event).await;
    assert_eq!(turn.text(), "a b c d e f g h i j");
    again.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_session_is_told_so() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    alice.open_stream();
    alice.closed().await;
    let frames = alice.loose_frames();
    assert_eq!(frames.len(), 1, "{frames:#?}");
    assert_eq!(frames[0]["session_not_found"], true);
    assert_eq!(alice.say("c1", "hello").await.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_session_repeats_nothing() {
    let cluster = Cluster::builder().gateways(2).start().await;
    let mut alice = cluster.client("alice");
    alice.say("c1", "hello").await;
    alice.closed().await;
    let mut again = cluster.client("alice");
    again.set_session(alice.session());
    again.open_stream();
    again.closed().await;
    assert_eq!(again.events(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_link_between_worker_and_nats_is_mended() {
    let nats = tests::nats::Nats::start().await;
    let proxy = Proxy::start(nats.url().trim_start_matches("nats://")).await;
    let through = format!("nats://127.0.0.1:{}", proxy.port());
    let cluster = Cluster::builder().workers_reach_nats_at(&through).start_with(nats).await;
    cluster.model.on("hello", [Reply::text("a b c d e f g h i j").every_ms(100)]);
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&event, "stream_token").await;
    proxy.cut();
    let turn = alice.finish(&event).await;
    assert_eq!(
        (turn.text(), turn.tokens().as_str()),
        ("a b c d e f g h i j", "a b c d e f g h i j"),
        "{:#?}",
        turn.values
    );
}
