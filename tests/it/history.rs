//! History: what the model is told, what is stored, what stays apart.
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::llm::reply::Reply;

/// Roles and texts of a request, the system's left out.
fn told(request: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let messages = request["messages"].as_array().unwrap().iter();
    messages
        .filter(|m| m["role"] != "system")
        .map(|m| (text(&m["role"]), text(&m["content"])))
        .collect()
}

fn said(role: &str, text: &str) -> (String, String) {
    (role.to_owned(), text.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_gets_the_turns_before() {
    let cluster = Cluster::start().await;
    cluster.model.queue(Reply::text("It is Sales."));
    let mut alice = cluster.client("alice");
    alice.say("c1", "show dashboard 42").await;
    alice.say("c1", "what about its owner?").await;
    let expected = [
        said("user", "show dashboard 42"),
        said("assistant", "It is Sales."),
        said("user", "what about its owner?"),
    ];
    assert_eq!(told(&cluster.model.requests()[1]), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_results_of_earlier_turns_stay_together() {
    let cluster = Cluster::start().await;
    let call = Reply::text("Looking. ").and_call("get_dashboard", json!({"dashboard_id": "42"}));
    cluster.model.on("dashboard 42", [call, Reply::text("Sales.")]);
    let mut alice = cluster.client("alice");
    alice.say("c1", "show dashboard 42").await;
    alice.say("c1", "thanks").await;
    let roles: Vec<String> =
        told(&cluster.model.requests()[2]).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pronoun_is_resolved_from_the_conversation() {
    let cluster = Cluster::start().await;
    cluster.model.follow_demo_rules();
    let mut alice = cluster.client("alice");
    alice.say("c1", "покажи дашборд 42").await;
    alice.say("c1", "создай для него ветку").await;
    let effects = cluster.backend.effects_of("create_branch");
    assert_eq!(effects.iter().map(|effect| effect.target.as_str()).collect::<Vec<_>>(), ["42"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_and_users_stay_apart() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    alice.say("c1", "my secret number is 7315").await;
    alice.say("c2", "what is my number?").await;
    cluster.client("bob").say("c1", "what is my number?").await;
    for request in &cluster.model.requests()[1..] {
        assert!(!request.to_string().contains("7315"), "{request}");
    }
    let (status, _) = cluster.rest("bob").get("/api/assistant/history?conversation_id=c2").await;
    assert_eq!(status, 404);
    let bobs = cluster.rest("bob").history("c1").await;
    assert_eq!(bobs.len(), 2, "{bobs:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_users_conversation_looks_as_if_it_did_not_exist() {
    let cluster = Cluster::start().await;
    let id = uuid::Uuid::new_v4().to_string();
    cluster.client("alice").say(&id, "hello").await;
    let mallory = cluster.rest("mallory");
    let nobody = uuid::Uuid::new_v4().to_string();
    for reference in [&id, &nobody] {
        let history =
            mallory.get(&format!("/api/assistant/history?conversation_id={reference}")).await;
        let active = mallory.get(&format!("/api/agent/conversations/{reference}/active")).await;
        let archive = mallory.delete(&format!("/api/assistant/conversations/{reference}")).await;
        assert_eq!((history.0, active.0, archive.0), (404, 404, 404));
        let body = json!({"role": "user", "content": "x"});
        let append =
            mallory.post(&format!("/api/assistant/conversations/{reference}/messages"), body).await;
        if *reference == id {
            assert_eq!(append.0, 404, "{}", append.1);
        }
    }
    assert_eq!(cluster.rest("alice").history(&id).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_survives_every_process() {
    let mut cluster = Cluster::start().await;
    cluster.model.queue(Reply::text("first answer"));
    cluster.client("alice").say("c1", "first question").await;
    cluster.kill_worker(0);
    cluster.kill_gateway(0);
    cluster.restart_worker(0).await;
    cluster.restart_gateway(0).await;
    cluster.client("alice").say("c1", "second question").await;
    let texts: Vec<Value> =
        cluster.rest("alice").history("c1").await.iter().map(|m| m["content"].clone()).collect();
    assert_eq!(texts, ["first question", "first answer", "second question", "Done."]);
    assert_eq!(told(&cluster.model.requests()[1]).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_turns_are_summed_up_when_they_do_not_fit() {
    let cluster = Cluster::builder().worker_env("HISTORY_TOKENS", "400").start().await;
    let mut alice = cluster.client("alice");
    for round in 0..6 {
        let padding = "lorem ipsum dolor sit amet ".repeat(20);
        alice.say("c1", &format!("question {round}: {padding}")).await;
    }
    let request = cluster.model.requests().pop().unwrap();
    let text = request.to_string();
    assert!(text.contains("question 5"), "the newest message must be there");
    assert!(
        !text.contains("question 0: lorem"),
        "the oldest should have gone: {} bytes",
        text.len()
    );
    let stored = cluster.rest("alice").history("c1").await;
    assert_eq!(stored.len(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_is_the_first_message() {
    let cluster = Cluster::start().await;
    let long = format!("покажи   все\nдашборды {}", "очень ".repeat(20));
    cluster.client("alice").say("c1", &long).await;
    cluster.client("alice").say("c1", "another message").await;
    let (_, list) = cluster.rest("alice").get("/api/assistant/conversations").await;
    let title = list["items"][0]["title"].as_str().unwrap();
    assert!(title.starts_with("покажи все дашборды очень"), "{title}");
    assert!(title.chars().count() <= 60, "{title}");
    assert_eq!(list["items"][0]["message_count"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_in_the_audit() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    crate::approval::card(&cluster, &mut alice, "c1").await;
    alice.act("c1", "confirm", "").await;
    let pool = cluster.database.pool().await;
    let rows: Vec<(String, String)> =
        sqlx::query_as("SELECT user_actor, operation FROM assistant_audit ORDER BY 2")
            .fetch_all(&pool)
            .await
            .unwrap();
    assert!(rows.iter().all(|(user, _)| user == "alice"), "{rows:?}");
    let operations: Vec<&str> = rows.iter().map(|(_, operation)| operation.as_str()).collect();
    for part in ["turn", "deploy_dashboard", "confirm"] {
        assert!(
            operations.iter().any(|operation| operation.contains(part)),
            "no {part} in {operations:?}"
        );
    }
}
