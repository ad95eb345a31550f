//! History and the append of older clients.
use serde_json::{Value, json};

use crate::stand::Stand;

#[tokio::test]
async fn an_append_is_stored_once_however_often_it_is_sent() {
    let stand = Stand::start().await;
    let id = stand.conversation("anna").await;
    let path = format!("/api/assistant/conversations/{id}/messages");
    let turn = "0199aaaa-0000-7000-8000-000000000001";
    let question = json!({ "role": "user", "content": "Привет", "turn_id": turn });
    let answer = json!({ "role": "assistant", "content": "Здравствуйте", "turn_id": turn });
    let (status, first) = stand.post("anna", &path, question.clone()).await;
    assert_eq!((status, &first["content"]), (201, &json!("Привет")), "{first}");
    assert_eq!(stand.post("anna", &path, answer).await.0, 201);
    assert_eq!(stand.post("anna", &path, question).await, (200, first));
    let own = json!({ "role": "user", "content": "Ещё", "id": "client-7" });
    assert_eq!(stand.post("anna", &path, own.clone()).await.0, 201);
    assert_eq!(stand.post("anna", &path, own).await.0, 200);

    let (_, history) =
        stand.get("anna", &format!("/api/assistant/history?conversation_id={id}")).await;
    assert_eq!(texts(&history), ["Привет", "Здравствуйте", "Ещё"]);
    assert_eq!((&history["total"], &history["next_cursor"]), (&json!(3), &Value::Null));
    let roles: Vec<_> =
        history["items"].as_array().unwrap().iter().map(|item| item["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
}

#[tokio::test]
async fn history_is_read_from_the_newest_page_back() {
    let stand = Stand::start().await;
    let id = stand.conversation("anna").await;
    let path = format!("/api/assistant/conversations/{id}/messages");
    for n in 0..5 {
        let body = json!({ "role": "user", "content": n.to_string(), "id": n.to_string() });
        assert_eq!(stand.post("anna", &path, body).await.0, 201);
    }
    let history = format!("/api/assistant/history?conversation_id={id}");
    let (_, newest) = stand.get("anna", &format!("{history}&limit=2")).await;
    assert_eq!(texts(&newest), ["3", "4"]);
    let cursor = newest["next_cursor"].as_str().unwrap();
    let (_, older) = stand.get("anna", &format!("{history}&limit=2&cursor={cursor}")).await;
    assert_eq!(texts(&older), ["1", "2"]);
    let (_, numbered) = stand.get("anna", &format!("{history}&page=3&page_size=2")).await;
    assert_eq!(texts(&numbered), ["0"]);
    assert_eq!((&numbered["total"], &numbered["has_next"]), (&json!(5), &json!(false)));
}

#[tokio::test]
async fn a_bad_append_or_question_is_refused_with_reasons() {
    let stand = Stand::start().await;
    let id = stand.conversation("anna").await;
    let path = format!("/api/assistant/conversations/{id}/messages");
    let bad = json!({ "role": "system", "turn_id": "x", "id": "x".repeat(200) });
    let (status, body) = stand.post("anna", &path, bad).await;
    assert_eq!(status, 422);
    let named: Vec<_> = body["detail"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["loc"].to_string())
        .collect();
    let expected =
        ["role", "content", "turn_id", "id"].map(|name| format!("[\"body\",\"{name}\"]"));
    assert_eq!(named, expected);
    assert_eq!(stand.get("anna", "/api/assistant/history").await.0, 422);
    let odd = format!("/api/assistant/history?conversation_id={id}&order=asc");
    assert_eq!(stand.get("anna", &odd).await.0, 422);
}

fn texts(history: &Value) -> Vec<&str> {
    let items = history["items"].as_array().unwrap();
    items.iter().map(|item| item["content"].as_str().unwrap()).collect()
}
