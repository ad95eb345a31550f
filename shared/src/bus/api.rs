//! Questions to JetStream itself.
use async_nats::client::Request;
use bytes::Bytes;
use serde_json::Value;

use crate::bus::{ANSWER_WITHIN, Bus, Error};

/// One request below `$JS.API.`; what JetStream refuses is an error.
pub(crate) async fn ask(bus: &Bus, what: &str, body: Bytes) -> Result<Value, Error> {
    // A disconnected client would buffer the request and send it at some later time.
    if !bus.is_connected() {
        return Err(Error::Disconnected);
    }
    let request = Request::new().payload(body).timeout(Some(ANSWER_WITHIN));
    let answer = bus.client.send_request(format!("$JS.API.{what}"), request);
    let answer =
        tokio::time::timeout(ANSWER_WITHIN, answer).await.map_err(|_| Error::Timeout)??;
    let answer: Value = serde_json::from_slice(&answer.payload)
        .map_err(|error| Error::Unexpected(error.to_string()))?;
    let Some(error) = answer.get("error") else { return Ok(answer) };
    let code = error["err_code"].as_u64().unwrap_or_default();
    let text = error["description"].as_str().unwrap_or_default().to_owned();
    Err(Error::Refused { code, text })
}
