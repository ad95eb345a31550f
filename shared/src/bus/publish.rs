//! One publish into a stream, acknowledged.
use async_nats::client::Request;
use async_nats::{HeaderMap, HeaderValue, Subject};
use bytes::Bytes;
use contract::{SCHEMA_VERSION, subject};
use serde::Deserialize;

use crate::bus::{ANSWER_WITHIN, Bus, Error};
use crate::runtime::trace::Trace;

pub(crate) const WRONG_LAST_SEQUENCE: u64 = 10071;
pub(crate) const LIMIT_REACHED: u64 = 10077;
const MESSAGE_TOO_LARGE: u64 = 10054;

/// What the stream says about a stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub seq: u64,
    /// A message with this id was stored before; `seq` is its sequence.
    pub duplicate: bool,
}

#[derive(Deserialize)]
struct Answer {
    seq: Option<u64>,
    #[serde(default)]
    duplicate: bool,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// The headers every message of ours has.
pub(crate) fn headers(message_id: &str, trace: &Trace) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(subject::HEADER_MESSAGE_ID, message_id);
    headers.insert(subject::HEADER_SCHEMA, HeaderValue::from(SCHEMA_VERSION));
    trace.write_to(&mut headers);
    headers
}

/// One try. After `Timeout` the message may have been stored: try again only with the same id.
pub(crate) async fn once(
    bus: &Bus,
    subject: Subject,
    headers: HeaderMap,
    payload: Bytes,
) -> Result<Acknowledged, Error> {
    // A disconnected client would buffer the message and send it at some later time.
    if !bus.is_connected() {
        return Err(Error::Disconnected);
    }
    let request = Request::new().headers(headers).payload(payload).timeout(Some(ANSWER_WITHIN));
    let answer = tokio::time::timeout(ANSWER_WITHIN, bus.client.send_request(subject, request));
    let message = answer.await.map_err(|_| Error::Timeout)??;
    read(&message.payload)
}

fn read(payload: &[u8]) -> Result<Acknowledged, Error> {
    let unexpected = |what: String| Error::Unexpected(format!("publish answer: {what}"));
    let answer: Answer =
        serde_json::from_slice(payload).map_err(|error| unexpected(error.to_string()))?;
    match (answer.error, answer.seq) {
        (Some(error), _) if error.err_code == MESSAGE_TOO_LARGE => Err(Error::TooLarge),
        (Some(error), _) => Err(Error::Refused { code: error.err_code, text: error.description }),
        (None, Some(seq)) => Ok(Acknowledged { seq, duplicate: answer.duplicate }),
        (None, None) => Err(unexpected("no sequence".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_stream_are_understood() {
        let stored = br#"{"stream":"AGENT_EVENTS","seq":7}"#;
        assert_eq!(read(stored), Ok(Acknowledged { seq: 7, duplicate: false }));
        let again = br#"{"stream":"AGENT_EVENTS","seq":7,"duplicate":true}"#;
        assert_eq!(read(again), Ok(Acknowledged { seq: 7, duplicate: true }));
        let refused = br#"{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"AGENT_JOBS","seq":0}"#;
        let text = "maximum messages exceeded".to_owned();
        assert_eq!(read(refused), Err(Error::Refused { code: LIMIT_REACHED, text }));
        assert!(matches!(read(b"+OK"), Err(Error::Unexpected(_))));
    }
}
