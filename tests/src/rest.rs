//! The REST side of a user: history, list, archive, the active gate.
use serde_json::Value;

use crate::place;

pub struct Rest {
    base: String,
    token: String,
    http: reqwest::Client,
}

impl Rest {
    pub fn new(base: &str, token: &str) -> Rest {
        Rest { base: base.to_owned(), token: token.to_owned(), http: place::http() }
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.send(self.http.get(self.url(path))).await
    }

    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.send(self.http.post(self.url(path)).json(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> (u16, Value) {
        self.send(self.http.patch(self.url(path)).json(&body)).await
    }

    pub async fn delete(&self, path: &str) -> (u16, Value) {
        self.send(self.http.delete(self.url(path))).await
    }

    /// Messages of a conversation, oldest first.
    pub async fn history(&self, conversation: &str) -> Vec<Value> {
        let (status, page) = self
            .get(&format!("/api/assistant/history?conversation_id={conversation}&limit=100"))
            .await;
        assert_eq!(status, 200, "history: {page}");
        page["items"].as_array().cloned().unwrap_or_default()
    }

    pub async fn active(&self, conversation: &str) -> Value {
        let (status, gate) =
            self.get(&format!("/api/agent/conversations/{conversation}/active")).await;
        assert_eq!(status, 200, "active: {gate}");
        gate
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> (u16, Value) {
        let response = request.bearer_auth(&self.token).send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}
