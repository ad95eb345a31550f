//! Service tokens.
use serde_json::json;

use crate::stand::{SERVICE_SECRET, Stand, read};

const PATH: &str = "/api/auth/service-token";

#[tokio::test]
async fn a_client_with_the_secret_gets_a_service_token() {
    let stand = Stand::start_bare().await;
    let url = format!("{}{PATH}", stand.base);
    let pair = [("client_id", "agent"), ("client_secret", SERVICE_SECRET)];
    let json = json!({ "client_id": "agent", "client_secret": SERVICE_SECRET });
    let form = format!(
        "grant_type=client_credentials&{}={}&{}={}",
        pair[0].0, pair[0].1, pair[1].0, pair[1].1
    );
    let requests = [
        stand.http.post(&url).json(&json),
        stand
            .http
            .post(&url)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form),
        stand.http.post(&url).basic_auth("agent", Some(SERVICE_SECRET)),
    ];
    for request in requests {
        let (status, answer) = read(request.send().await.unwrap()).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!((&answer["token_type"], &answer["expires_in"]), (&json!("bearer"), &json!(60)));
        let token = answer["access_token"].as_str().unwrap();
        assert_eq!(stand.app.verifier.service(token), Ok("agent".to_owned()));
        // It is no user's token.
        let list = stand.http.get(format!("{}/api/assistant/conversations", stand.base));
        assert_eq!(read(list.bearer_auth(token).send().await.unwrap()).await.0, 401);
    }
}

#[tokio::test]
async fn anybody_else_gets_none() {
    let stand = Stand::start_bare().await;
    let url = format!("{}{PATH}", stand.base);
    let user = tests::token::user("anna");
    for body in [
        json!({ "client_id": "agent", "client_secret": "wrong" }),
        json!({ "client_id": "other", "client_secret": SERVICE_SECRET }),
        json!({ "client_id": "agent" }),
        json!([]),
    ] {
        let answer = read(stand.http.post(&url).json(&body).send().await.unwrap()).await;
        assert_eq!(answer, (401, json!({ "detail": "UNAUTHORIZED" })), "{body}");
    }
    let answer = read(stand.http.post(&url).bearer_auth(user).send().await.unwrap()).await;
    assert_eq!(answer.0, 401);
}
