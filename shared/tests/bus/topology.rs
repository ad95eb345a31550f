//! Declaring and checking streams, consumer and bucket.
use std::time::Duration;

use async_nats::jetstream::stream::Config;
use contract::subject;
use futures_util::future::join_all;
use shared::bus::topology::{Options, apply, verify};

use crate::server::{Server, within};

#[tokio::test]
async fn applying_twice_changes_nothing() {
    let (_server, bus) = Server::ready().await;
    let options = Options::default();
    apply(&bus, &options).await.unwrap();
    assert_eq!(verify(&bus, &options).await.unwrap(), []);
}

#[tokio::test]
async fn several_starters_at_once_agree() {
    let server = Server::start();
    let (a, b, c) = tokio::join!(server.connect(), server.connect(), server.connect());
    let options = Options::default();
    let starters = [&a, &b, &c].map(|bus| apply(bus, &options));
    for applied in within(30, join_all(starters)).await {
        applied.unwrap();
    }
    assert_eq!(verify(&a, &options).await.unwrap(), []);
}

#[tokio::test]
async fn an_empty_server_lacks_everything() {
    let server = Server::start();
    let bus = server.connect().await;
    let missing = verify(&bus, &Options::default()).await.unwrap();
    let things: Vec<_> = missing.iter().map(|mismatch| mismatch.thing.as_str()).collect();
    let expected = [
        "stream AGENT_JOBS",
        "stream AGENT_EVENTS",
        "stream AGENT_CTL",
        "stream AGENT_DLQ",
        "stream OBJ_agent_uploads",
        "consumer workers",
    ];
    assert_eq!(things, expected);
}

#[tokio::test]
async fn a_changed_setting_is_found_and_repaired() {
    let (_server, bus) = Server::ready().await;
    let stream = bus.js.get_stream("AGENT_JOBS").await.unwrap();
    let config = stream.cached_info().config.clone();
    bus.js.update_stream(Config { max_messages: 7, ..config }).await.unwrap();
    let options = Options { ack_wait: Duration::from_secs(2), ..Options::default() };
    let found: Vec<_> =
        verify(&bus, &options).await.unwrap().iter().map(ToString::to_string).collect();
    let expected = [
        "stream AGENT_JOBS: `max_msgs` is 7, wanted 5000",
        "consumer workers: `ack_wait` is 15000000000, wanted 2000000000",
    ];
    assert_eq!(found, expected);
    apply(&bus, &options).await.unwrap();
    assert_eq!(verify(&bus, &options).await.unwrap(), []);
}

#[tokio::test]
async fn a_difference_that_cannot_be_changed_is_named() {
    let server = Server::start();
    let bus = server.connect().await;
    let wrong = Config {
        name: "AGENT_JOBS".to_owned(),
        subjects: vec![subject::JOBS_ALL.to_owned()],
        ..Config::default()
    };
    bus.js.create_stream(wrong).await.unwrap();
    let error = format!("{:#}", apply(&bus, &Options::default()).await.unwrap_err());
    assert!(error.contains("stream AGENT_JOBS exists and the server refuses"), "{error}");
    assert!(error.contains("`retention` is \"limits\", wanted \"workqueue\""), "{error}");
}
