//! Create, list, archive, unarchive; one user never sees another's.
use contract::error_code::ErrorCode;
use gateway::auth::Caller;
use gateway::ownership::conversation_for;
use serde_json::{Value, json};

use crate::stand::Stand;

const PATH: &str = "/api/assistant/conversations";

#[tokio::test]
async fn a_conversation_is_created_listed_archived_and_brought_back() {
    let stand = Stand::start().await;
    let (status, made) = stand.post("anna", PATH, json!({ "title": "  Отчёт \n за май " })).await;
    assert_eq!((status, &made["title"]), (201, &json!("Отчёт за май")), "{made}");
    let id = made["id"].as_str().unwrap();
    let one = format!("{PATH}/{id}");

    let (status, list) = stand.get("anna", PATH).await;
    assert_eq!((status, &list["total"], &list["next_cursor"]), (200, &json!(1), &Value::Null));
    assert_eq!(list["items"], json!([made]));

    let archived = stand.delete("anna", &one).await;
    assert_eq!(archived, (200, json!({ "id": id, "is_archived": true })));
    assert_eq!(ids(&stand.get("anna", PATH).await.1), Vec::<String>::new());
    assert_eq!(ids(&stand.get("anna", &format!("{PATH}?archived_only=true")).await.1), [id]);
    assert_eq!(ids(&stand.get("anna", &format!("{PATH}?include_archived=1")).await.1), [id]);
    // Once more is no error.
    assert_eq!(stand.delete("anna", &one).await.0, 200);

    let back = stand.post("anna", &format!("{one}/unarchive"), json!({})).await;
    assert_eq!((back.0, &back.1["is_archived"]), (200, &json!(false)));
    assert_eq!(ids(&stand.get("anna", PATH).await.1), [id]);
}

#[tokio::test]
async fn names_live_in_each_users_own_space() {
    let stand = Stand::start().await;
    for user in ["anna", "boris"] {
        let body = json!({ "id": "conv-1", "title": user });
        let (status, made) = stand.post(user, PATH, body.clone()).await;
        assert_eq!((status, &made["id"], &made["title"]), (201, &json!("conv-1"), &json!(user)));
        let (status, again) = stand.post(user, PATH, body).await;
        assert_eq!((status, &again), (201, &made));
    }
    assert_eq!(stand.delete("anna", &format!("{PATH}/conv-1")).await.0, 200);
    assert_eq!(ids(&stand.get("boris", PATH).await.1), ["conv-1"]);
    assert_eq!(ids(&stand.get("anna", PATH).await.1), Vec::<String>::new());
}

#[tokio::test]
async fn another_users_conversation_answers_like_a_missing_one() {
    let stand = Stand::start().await;
    let hers = stand.conversation("anna").await;
    let missing = "0199aaaa-0000-7000-8000-000000000001";
    let not_found = (404, json!({ "detail": "Not found.", "code": "NOT_FOUND" }));
    for id in [hers.as_str(), missing, "no-such-name"] {
        let one = format!("{PATH}/{id}");
        assert_eq!(stand.delete("boris", &one).await, not_found);
        assert_eq!(stand.post("boris", &format!("{one}/unarchive"), json!({})).await, not_found);
        let message = json!({ "role": "user", "content": "hi" });
        assert_eq!(stand.post("boris", &format!("{one}/messages"), message).await, not_found);
        let history = format!("/api/assistant/history?conversation_id={id}");
        assert_eq!(stand.get("boris", &history).await, not_found);
        assert_eq!(
            stand.get("boris", &format!("/api/agent/conversations/{id}/active")).await,
            not_found
        );
    }
    assert_eq!(stand.post("boris", PATH, json!({ "id": hers })).await, not_found);
    assert_eq!(stand.get("boris", PATH).await.1["total"], json!(0));
    assert_eq!(stand.get("anna", PATH).await.1["total"], json!(1));
}

#[tokio::test]
async fn lists_are_cut_by_cursor_or_by_number() {
    let stand = Stand::start().await;
    for n in 0..5 {
        stand.post("anna", PATH, json!({ "title": format!("Title {n}") })).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let (status, page) = stand.get("anna", &format!("{PATH}?limit=2{cursor}")).await;
        assert_eq!((status, &page["total"]), (200, &json!(5)), "{page}");
        seen.extend(ids(&page));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let (_, all) = stand.get("anna", &format!("{PATH}?page=1&page_size=100")).await;
    assert_eq!(seen, ids(&all));
    assert_eq!((&all["page"], &all["page_size"]), (&json!(1), &json!(100)));
    let (_, second) = stand.get("anna", &format!("{PATH}?page=2&page_size=2")).await;
    assert_eq!((ids(&second).as_slice(), &second["has_next"]), (&seen[2..4], &json!(true)));
    let (_, last) = stand.get("anna", &format!("{PATH}?page=3&page_size=2")).await;
    assert_eq!((ids(&last).as_slice(), &last["has_next"]), (&seen[4..], &json!(false)));
    let (_, found) = stand.get("anna", &format!("{PATH}?search=title")).await;
    assert_eq!(ids(&found).len(), 5);
}

#[tokio::test]
async fn parameters_that_mean_nothing_are_refused_one_by_one() {
    let stand = Stand::start().await;
    let query = "color=red&limit=0&page=x&include_archived=perhaps&limit=2";
    let (status, body) = stand.get("anna", &format!("{PATH}?{query}")).await;
    assert_eq!(status, 422);
    let named: Vec<_> = body["detail"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| (problem["loc"][1].as_str().unwrap(), problem["type"].as_str().unwrap()))
        .collect();
    let expected = [
        ("limit", "repeated"),
        ("limit", "int_range"),
        ("page", "int_range"),
        ("include_archived", "bool_parsing"),
        ("color", "extra_forbidden"),
    ];
    assert_eq!(named, expected, "{body}");
    assert_eq!(stand.get("anna", &format!("{PATH}?cursor=nonsense")).await.0, 422);
    assert_eq!(stand.get("anna", &format!("{PATH}?cursor=x&page=1")).await.0, 422);

    assert_eq!(stand.post("anna", PATH, json!({ "title": 7 })).await.0, 422);
    assert_eq!(stand.post("anna", PATH, json!({ "id": "x".repeat(129) })).await.0, 422);
    assert_eq!(stand.post("anna", PATH, json!({ "id": "a\u{7}b" })).await.0, 422);
    assert_eq!(stand.post("anna", PATH, json!([1])).await.0, 400);
    let nil = "00000000-0000-0000-0000-000000000000";
    assert_eq!(stand.post("anna", PATH, json!({ "id": nil })).await.0, 422);
    assert_eq!(stand.delete("anna", &format!("{PATH}/{nil}")).await.0, 422);
}

fn ids(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_submission_may_use_its_users_conversations_and_new_ids_only() {
    let stand = Stand::start().await;
    let hers = stand.conversation("anna").await;
    let (anna, boris) = (stand.caller("anna"), stand.caller("boris"));
    let asked = async |caller: &Caller, reference: &str| {
        conversation_for(&stand.app, &caller.user, reference).await.map(|id| id.to_string())
    };
    let new = "0199aaaa-0000-7000-8000-000000000001";
    // Twice: once asked of the database, once of the cache.
    for _ in 0..2 {
        assert_eq!(asked(&anna, &hers).await, Ok(hers.clone()));
        assert_eq!(asked(&boris, &hers).await, Err(ErrorCode::NotFound));
        assert_eq!(asked(&boris, &hers.to_uppercase()).await, Err(ErrorCode::NotFound));
        assert_eq!(asked(&boris, new).await, Ok(new.to_owned()));
    }
    assert_ne!(asked(&anna, "conv-1").await, asked(&boris, "conv-1").await);
    for odd in ["00000000-0000-0000-0000-000000000000", "a\nb", &"x".repeat(129)] {
        assert_eq!(asked(&anna, odd).await, Err(ErrorCode::BadRequest), "{odd}");
    }
}
