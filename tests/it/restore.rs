//! A backup of Postgres alone brings the service back, as docs/operations.md says.
use serde_json::json;
use tests::cluster::Cluster;
use tests::llm::reply::Reply;

use crate::approval::card;

#[tokio::test(flavor = "multi_thread")]
async fn from_a_dump_of_the_database_everything_goes_on() {
    let lost = Cluster::start().await;
    let mut alice = lost.client("alice");
    assert_eq!(alice.say("c1", "remember the warehouse").await.text(), "Done.");
    card(&lost, &mut alice, "c2").await;
    let histories =
        [lost.rest("alice").history("c1").await, lost.rest("alice").history("c2").await];
    let dump = lost.database.dump();
    drop(lost);

    // NATS is new and empty.
    let cluster = Cluster::builder().database(dump.restore().await).start().await;
    let rest = cluster.rest("alice");
    assert_eq!([rest.history("c1").await, rest.history("c2").await], histories);
    let (status, found) = rest.get("/api/assistant/conversations?search=warehouses").await;
    assert_eq!((status, &found["total"]), (200, &json!(1)), "{found}");
    cluster.agentctl().run(&["doctor"]).await.ok();

    let mut alice = cluster.client("alice");
    cluster.model.on("deploy", [Reply::text("Deployed.")]);
    let confirmed = alice.act("c2", "confirm", "").await;
    assert_eq!(cluster.backend.effects_of("deploy").len(), 1, "{:#?}", confirmed.values);
    assert_eq!(alice.say("c1", "what was it?").await.text(), "Done.");
    let asked = cluster.model.requests().last().unwrap().to_string();
    assert!(asked.contains("remember the warehouse"), "{asked}");
}
