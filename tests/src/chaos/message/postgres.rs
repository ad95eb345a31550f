//! The client's side of the Postgres protocol. What a server does at once (a query, or all up to a sync) is one message.
use std::collections::HashMap;

use super::Message;

#[derive(Default)]
pub struct Frames {
    buffer: Vec<u8>,
    /// Frames that the server doesn't act on before the next one.
    held: Vec<u8>,
    started: bool,
    /// Prepared statements of this connection by name.
    statements: HashMap<Vec<u8>, String>,
    bound: Option<String>,
}

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Message> {
        self.buffer.extend_from_slice(bytes);
        let mut messages = Vec::new();
        while let Some(length) = self.whole() {
            let frame: Vec<u8> = self.buffer.drain(..length).collect();
            if !self.started {
                self.started = true;
                messages.push(Message { bytes: frame, label: None, asks_for_a_job: false });
                continue;
            }
            let (acts, label) = self.read(&frame);
            self.held.extend(frame);
            if acts {
                messages.push(Message {
                    bytes: std::mem::take(&mut self.held),
                    label,
                    asks_for_a_job: false,
                });
            }
        }
        messages
    }

    /// Length of the first frame, if all of it is here. The very first frame has no type.
    fn whole(&self) -> Option<usize> {
        let skip = usize::from(self.started);
        let length = self.buffer.get(skip..skip + 4)?;
        let length = u32::from_be_bytes(length.try_into().ok()?);
        let length = skip + usize::try_from(length).ok()?;
        (self.buffer.len() >= length).then_some(length)
    }

    /// Whether the server acts on this frame, and on what.
    fn read(&mut self, frame: &[u8]) -> (bool, Option<String>) {
        let body = &frame[5..];
        let mut parts = body.split(|byte| *byte == 0);
        let first = parts.next().unwrap_or_default();
        let second = parts.next().unwrap_or_default();
        match frame[0] {
            b'P' => {
                let sql = String::from_utf8_lossy(second).into_owned();
                self.statements.insert(first.to_vec(), sql);
                (false, None)
            }
            b'B' => {
                self.bound = self.statements.get(second).cloned();
                (false, None)
            }
            b'Q' => (true, label(&String::from_utf8_lossy(first))),
            b'S' => (true, self.bound.take().and_then(|sql| label(&sql))),
            b'D' | b'E' | b'C' | b'H' => (false, None),
            _ => (true, None),
        }
    }
}

/// The stored function that is called, else the statement's first words.
fn label(sql: &str) -> Option<String> {
    if let Some(at) = sql.find("agent_") {
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let function: String = sql[at..].chars().take_while(|c| name(*c)).collect();
        let called = sql[at + function.len()..].starts_with('(');
        if called && !function.contains("renew") {
            return Some(format!("pg {function}"));
        }
    }
    let words: Vec<&str> = sql.split_whitespace().take(2).collect();
    let by_the_clock = sql.contains("until = clock_timestamp()") || sql.contains("renew");
    let session =
        matches!(words.first(), Some(&("BEGIN;" | "BEGIN" | "ROLLBACK" | "SET" | "SELECT")) | None);
    (!by_the_clock && !session).then(|| format!("pg {}", words.join(" ")))
}
