//! REST of the specification: create, list, history, append, archive, the active gate, service tokens.
use serde_json::{Value, json};
use tests::backend::{CLIENT_ID, CLIENT_SECRET};
use tests::cluster::Cluster;
use tests::gradio::Submission;
use tests::llm::reply::Reply;

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_created_listed_archived_and_brought_back() {
    let cluster = Cluster::start().await;
    let rest = cluster.rest("alice");
    let (status, made) = rest.post("/api/assistant/conversations", json!({"title": "Plans"})).await;
    assert_eq!((status, made["title"].as_str()), (201, Some("Plans")), "{made}");
    let id = made["id"].as_str().unwrap().to_owned();
    assert!(made["created_at"].is_string(), "{made}");
    let listed = |list: &Value| -> Vec<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let (_, list) = rest.get("/api/assistant/conversations").await;
    assert_eq!((listed(&list), &list["total"]), (vec![id.clone()], &json!(1)));

    let (status, _) = rest.delete(&format!("/api/assistant/conversations/{id}")).await;
    assert!(status < 300);
    let (_, list) = rest.get("/api/assistant/conversations").await;
    assert_eq!(listed(&list), [""; 0]);
    for filter in ["include_archived=true", "archived_only=true"] {
        let (_, list) = rest.get(&format!("/api/assistant/conversations?{filter}")).await;
        assert_eq!(listed(&list), std::slice::from_ref(&id), "{filter}");
    }
    let (status, _) =
        rest.post(&format!("/api/assistant/conversations/{id}/unarchive"), json!({})).await;
    assert_eq!(status, 200);
    let (_, list) = rest.get("/api/assistant/conversations").await;
    assert_eq!(listed(&list), [id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_renamed_by_its_owner_only() {
    let cluster = Cluster::start().await;
    let rest = cluster.rest("alice");
    let (_, made) = rest.post("/api/assistant/conversations", json!({"title": "Plans"})).await;
    let path = format!("/api/assistant/conversations/{}", made["id"].as_str().unwrap());
    let (status, renamed) = rest.patch(&path, json!({"title": "  Планы на\nквартал "})).await;
    assert_eq!((status, &renamed["title"]), (200, &json!("Планы на квартал")), "{renamed}");
    assert_eq!(renamed["updated_at"], made["updated_at"]);
    let (_, list) = rest.get("/api/assistant/conversations?search=квартал").await;
    assert_eq!(list["items"][0]["title"], "Планы на квартал");
    for body in [json!({}), json!({"title": " \n"})] {
        assert_eq!(rest.patch(&path, body.clone()).await.0, 422, "{body}");
    }
    let (status, _) = cluster.rest("bob").patch(&path, json!({"title": "mine"})).await;
    assert_eq!(status, 404);
    let (_, list) = rest.get("/api/assistant/conversations").await;
    assert_eq!(list["items"][0]["title"], "Планы на квартал");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_come_in_pages_and_nobody_elses() {
    let cluster = Cluster::start().await;
    let rest = cluster.rest("alice");
    for number in 0..5 {
        rest.post("/api/assistant/conversations", json!({"title": format!("talk {number}")})).await;
    }
    cluster.rest("bob").post("/api/assistant/conversations", json!({"title": "bob's"})).await;
    let mut titles = Vec::new();
    let mut cursor = String::new();
    loop {
        let (_, page) =
            rest.get(&format!("/api/assistant/conversations?limit=2&cursor={cursor}")).await;
        assert_eq!(page["total"], 5);
        titles.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|c| c["title"].as_str().unwrap().to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    titles.sort();
    assert_eq!(titles, ["talk 0", "talk 1", "talk 2", "talk 3", "talk 4"]);
    let (_, page) = rest.get("/api/assistant/conversations?page=3&page_size=2").await;
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_and_wrong_parameters_are_named() {
    let cluster = Cluster::start().await;
    let rest = cluster.rest("alice");
    for query in ["colour=red", "limit=0", "limit=many", "page=-1", "cursor=broken"] {
        let (status, answer) = rest.get(&format!("/api/assistant/conversations?{query}")).await;
        assert_eq!(status, 422, "{query}: {answer}");
        let name = query.split('=').next().unwrap();
        assert!(answer.to_string().contains(name), "{query}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_of_an_old_client_makes_no_second_copy() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.finish(&event).await;
    let rest = cluster.rest("alice");
    for (role, content) in [("user", "hello"), ("assistant", "Done.")] {
        for body in [
            json!({"role": role, "content": content, "turn_id": event}),
            json!({"role": role, "content": content}),
        ] {
            let (status, answer) =
                rest.post("/api/assistant/conversations/c1/messages", body).await;
            assert_eq!(status, 200, "{answer}");
        }
    }
    assert_eq!(rest.history("c1").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_tells_another_tab_about_a_live_turn() {
    let cluster = Cluster::start().await;
    cluster.model.on("hello", [Reply::text("a b c d e f").every_ms(150)]);
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&event, "stream_token").await;
    let live = cluster.rest("alice").active("c1").await;
    assert_eq!((&live["active"], live["turn_id"].as_str()), (&json!(true), Some(event.as_str())));
    assert!(live["started_at"].is_string() && live["cursor"].is_string(), "{live}");
    alice.finish(&event).await;
    alice.closed().await;
    tests::process::wait_until("the gate to open", std::time::Duration::from_secs(3), || async {
        cluster.rest("alice").active("c1").await["active"] == false
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn archiving_stops_a_live_turn() {
    let cluster = Cluster::start().await;
    cluster.model.on("hello", [Reply::text(&"word ".repeat(60)).every_ms(100)]);
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&event, "stream_token").await;
    let (status, answer) = cluster.rest("alice").delete("/api/assistant/conversations/c1").await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(alice.finish(&event).await.status(), Some("cancelled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_issues_service_tokens_and_takes_them_for_nothing_else() {
    let cluster = Cluster::start().await;
    let url = format!("{}/api/auth/service-token", cluster.url());
    let http = tests::place::http();
    let credentials = json!({"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET});
    let answer = http.post(&url).json(&credentials).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["token_type"], "bearer");
    assert!(answer["expires_in"].as_u64().unwrap() > 0);
    let wrong = json!({"client_id": CLIENT_ID, "client_secret": "guess"});
    assert_eq!(http.post(&url).json(&wrong).send().await.unwrap().status(), 401);
    let as_user = tests::rest::Rest::new(&cluster.url(), answer["access_token"].as_str().unwrap());
    assert_eq!(as_user.get("/api/assistant/conversations").await.0, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_can_get_their_service_token_from_the_gateway() {
    let port = tests::place::free_port();
    let cluster = Cluster::builder()
        .worker_env("SERVICE_TOKEN_URL", &format!("http://127.0.0.1:{port}/api/auth/service-token"))
        .start()
        .await;
    let target = cluster.url();
    let _front = tests::roundrobin::RoundRobin::start_at(vec![target], port).await.unwrap();
    let search = Reply::call("search_dashboards", json!({}));
    cluster.model.on("dashboards", [search, Reply::text("Ok.")]);
    let turn = cluster.client("alice").say("c1", "show dashboards").await;
    assert_eq!(turn.all("tool_end").len(), 1, "{:#?}", turn.values);
    assert_eq!(cluster.backend.service_tokens_issued(), 0);
}
