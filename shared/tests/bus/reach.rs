//! What becomes of a connection that can't be made.
use std::time::Duration;

use shared::bus::connect::{Config, Unreachable, connect};

use crate::server::{Server, within};

#[tokio::test]
async fn people_are_told_why_at_once() {
    let mut server = Server::start();
    let bus = server.connect().await;
    drop(bus);
    let unreachable = Unreachable::FailWithin(Duration::from_secs(3));
    let config = Config { urls: vec![server.url()], unreachable, ..Config::default() };
    assert!(within(10, connect(config.clone())).await.unwrap().is_connected());
    server.kill();
    let error = within(10, connect(config)).await.err().unwrap();
    let error = format!("{error:#}");
    assert!(error.contains("connecting to NATS: IO error: Connection refused"), "{error}");
}
