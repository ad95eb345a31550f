//! The shapes of refusals.
use super::*;

#[tokio::test]
async fn a_bad_token_is_exactly_what_stock_clients_show() {
    check(ApiError::UNAUTHORIZED, 401, r#"{"detail":"UNAUTHORIZED"}"#).await;
}

#[tokio::test]
async fn every_code_has_a_sentence_and_its_name() {
    check(ApiError::NOT_FOUND, 404, r#"{"detail":"Not found.","code":"NOT_FOUND"}"#).await;
    let busy = ApiError::Code(ErrorCode::ConversationBusy);
    let text = r#"{"detail":"An answer is still being written in this conversation.","code":"CONVERSATION_BUSY"}"#;
    check(busy, 409, text).await;
    let bad = ApiError::bad_request("The body is not valid JSON.");
    check(bad, 400, r#"{"detail":"The body is not valid JSON.","code":"BAD_REQUEST"}"#).await;
}

#[tokio::test]
async fn bad_parameters_are_a_list() {
    let error =
        ApiError::Parameters(vec![BadParameter::query("x", "extra_forbidden", "`x` is odd")]);
    let body = r#"{"detail":[{"loc":["query","x"],"msg":"`x` is odd","type":"extra_forbidden"}]}"#;
    check(error, 422, body).await;
}

#[tokio::test]
async fn a_large_file_is_refused_in_text() {
    let text = "File size exceeded maximum allowed size of 10485760 bytes.";
    check(ApiError::FileTooLarge { limit_bytes: 10_485_760 }, 413, text).await;
}

#[tokio::test]
async fn causes_stay_in_the_log() {
    let internal = ApiError::Internal(anyhow::anyhow!("relation \"x\" on db.internal"));
    let body = r#"{"detail":"Something went wrong. Try again.","code":"INTERNAL"}"#;
    check(internal, 500, body).await;
    let outage = ApiError::from(store::Error::Row(Box::new(sqlx::Error::PoolTimedOut)));
    let body =
        r#"{"detail":"The service can't be reached. Try again in a moment.","code":"UNAVAILABLE"}"#;
    check(outage, 503, body).await;
}

async fn check(error: ApiError, status: u16, body: &str) {
    let response = error.into_response();
    assert_eq!(response.status().as_u16(), status);
    let bytes = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), body);
}
