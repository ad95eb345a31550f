//! The client's side of the NATS protocol.
use contract::subject;
use serde_json::Value;

use super::Message;

#[derive(Default)]
pub struct Lines {
    buffer: Vec<u8>,
}

impl Lines {
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Message> {
        self.buffer.extend_from_slice(bytes);
        let mut messages = Vec::new();
        while let Some((head, length)) = whole(&self.buffer) {
            let bytes: Vec<u8> = self.buffer.drain(..length).collect();
            let label = label(&head, &bytes[head.len() + 2..]);
            let asks_for_a_job = head.contains(" $JS.API.CONSUMER.MSG.NEXT.");
            messages.push(Message { bytes, label, asks_for_a_job });
        }
        messages
    }
}

/// The first line and the length of the message that it begins, if all of it is here.
fn whole(buffer: &[u8]) -> Option<(String, usize)> {
    let end = buffer.windows(2).position(|pair| pair == b"\r\n")?;
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let payload = match head.split_whitespace().next() {
        Some("PUB" | "HPUB") => head.split_whitespace().last()?.parse::<usize>().ok()? + 2,
        Some(_) | None => 0,
    };
    let length = end + 2 + payload;
    (buffer.len() >= length).then_some((head, length))
}

fn label(head: &str, payload: &[u8]) -> Option<String> {
    let mut words = head.split_whitespace();
    let (verb, to) = (words.next()?, words.next()?);
    match verb {
        "SUB" if is_of(to, subject::CANCELS_ALL) => Some("nats SUB cancel".to_owned()),
        "PUB" | "HPUB" => publish(to, payload),
        _ => None,
    }
}

fn publish(to: &str, payload: &[u8]) -> Option<String> {
    let payload = payload.strip_suffix(b"\r\n").unwrap_or(payload);
    if to.starts_with("$JS.ACK.") {
        let word = String::from_utf8_lossy(payload);
        let word = word.split_whitespace().next().unwrap_or_default().to_owned();
        return (word != "+WPI").then(|| format!("nats {word}"));
    }
    if let Some(what) = to.strip_prefix("$JS.API.DIRECT.GET.") {
        let stream = what.split('.').next().unwrap_or_default();
        return Some(format!("nats GET {stream}"));
    }
    if is_of(to, subject::DEAD_LETTERS_ALL) {
        return Some("nats PUB dead letter".to_owned());
    }
    if !is_of(to, subject::EVENTS_ALL) {
        return None;
    }
    let json = payload.iter().position(|byte| *byte == b'{').map(|at| &payload[at..]);
    let body: Value = json.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
    Some(format!("nats EV {}", body["type"].as_str().unwrap_or("unreadable")))
}

fn is_of(subject: &str, all: &str) -> bool {
    all.split_once('*').is_some_and(|(stem, _)| subject.starts_with(stem))
}
