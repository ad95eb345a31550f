//! A stream that breaks, a page that is loaded again, a second tab: `attach` shows the turn from any gateway, and
//! the parts that a client reads make up what an unbroken stream tells, byte for byte.
mod cuts;
mod endings;
mod followers;
mod kill;
mod retention;
mod stopping;

use std::time::Duration;

use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::gradio::raw::{Kept, Raw};
use tests::gradio::{Client, Submission};
use tests::llm::reply::Reply;

/// Between two tries of a client that was told to come again.
const PAUSE: Duration = Duration::from_millis(50);

/// What a user says to get the scripted turn of this conversation: text, two reading tools, text, a card. A yes
/// to the card gives the tool's result and text.
fn script(cluster: &Cluster, conversation: &str, pace_ms: u64) -> String {
    let ask = format!("[{conversation}] покажи дашборды и выкати 42");
    let look = Reply::text("Сейчас посмотрю 🔎: ")
        .and_call("search_dashboards", json!({}))
        .and_call("list_environments", json!({}));
    let deploy = json!({"dashboard_id": "42", "environment_id": "prod"});
    let propose =
        Reply::text("нашла 財務 и «Продажи»; выкатываю…").and_call("deploy_dashboard", deploy);
    let done = Reply::text("Готово ✅, дашборд в проде.");
    let replies = [look, propose, done].map(|reply| reply.every_ms(pace_ms));
    cluster.model.on(&format!("[{conversation}]"), replies);
    ask
}

fn attach(conversation: &str, action: &str) -> Submission {
    Submission::new("", Some(conversation), Some(action))
}

/// Joins, however often the service asks to come again, and opens the stream.
async fn open(client: &Client, submission: Submission) -> (Raw, String) {
    loop {
        let (status, answer) = client.join(submission.clone()).await;
        if status == 200 {
            let event = answer["event_id"].as_str().unwrap().to_owned();
            return (client.raw_stream().await, event);
        }
        assert_eq!(status, 503, "{answer}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// What an `attach` of this client tells.
async fn shown(client: &Client, conversation: &str, action: &str) -> Kept {
    let mut kept = Kept::default();
    follow(&mut kept, client, attach(conversation, action)).await;
    kept
}

/// Reads on to the end of what `submission` shows.
async fn follow(kept: &mut Kept, client: &Client, submission: Submission) {
    let (mut raw, event) = open(client, submission).await;
    kept.take(raw.read_all().await, &event);
}

/// Metadata of the only value of this type.
#[track_caller]
fn one(kept: &Kept, kind: &str) -> Value {
    let found: Vec<Value> =
        kept.values.iter().map(metadata).filter(|metadata| metadata["type"] == kind).collect();
    assert_eq!(found.len(), 1, "{kind} in {kept:?}");
    found.into_iter().next().unwrap()
}

fn metadata(value: impl AsRef<str>) -> Value {
    serde_json::from_str::<Value>(value.as_ref()).unwrap()["metadata"].clone()
}

/// The last value: its text and its status.
#[track_caller]
fn end(kept: &Kept) -> (String, String) {
    let last: Value = serde_json::from_str(kept.values.last().unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&last["content"]), text(&last["metadata"]["status"]))
}

/// The text of the tokens.
fn tokens(kept: &Kept) -> String {
    let token = |value: &String| metadata(value)["token"].as_str().map(str::to_owned);
    kept.values.iter().filter_map(token).collect()
}
