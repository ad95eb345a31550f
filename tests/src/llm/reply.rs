//! One answer of the model, as a test writes it down.
use std::time::Duration;

use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) parts: Vec<Part>,
    pub(super) finish: Option<String>,
    pub(super) before: Duration,
    pub(super) pace: Duration,
    pub(super) ending: Ending,
}

#[derive(Clone, Debug)]
pub enum Part {
    Text(String),
    Call {
        id: String,
        tool: String,
        arguments: String,
    },
    /// A chunk's `delta`, as it is.
    Delta(Value),
    Pause(Duration),
}

#[derive(Clone, Debug)]
pub enum Ending {
    /// `finish_reason`, usage, `[DONE]`.
    Whole,
    /// The connection breaks off.
    Cut,
    /// Nothing more comes, the connection stays.
    Hang,
    /// No stream: a status with this body.
    Refusal { status: u16, retry_after_s: Option<u64>, body: String },
}

impl Reply {
    fn new(parts: Vec<Part>) -> Self {
        Self {
            parts,
            finish: None,
            before: Duration::ZERO,
            pace: Duration::ZERO,
            ending: Ending::Whole,
        }
    }

    /// An answer without any part yet.
    pub fn silence() -> Self {
        Self::new(Vec::new())
    }

    pub fn text(text: &str) -> Self {
        Self::new(vec![Part::Text(text.to_owned())])
    }

    pub fn call(tool: &str, arguments: Value) -> Self {
        Self::new(Vec::new()).and_call(tool, arguments)
    }

    pub fn and_text(mut self, text: &str) -> Self {
        self.parts.push(Part::Text(text.to_owned()));
        self
    }

    pub fn and_call(self, tool: &str, arguments: Value) -> Self {
        let id = format!("call_{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
        self.and_call_with_id(&id, tool, &arguments.to_string())
    }

    /// The arguments as the model writes them, valid JSON or not.
    pub fn and_call_with_id(mut self, id: &str, tool: &str, arguments: &str) -> Self {
        let (id, tool, arguments) = (id.to_owned(), tool.to_owned(), arguments.to_owned());
        self.parts.push(Part::Call { id, tool, arguments });
        self
    }

    /// Calls get this id and their number.
    pub fn with_call_ids(mut self, name: &str) -> Self {
        for (number, part) in self.parts.iter_mut().enumerate() {
            if let Part::Call { id, .. } = part {
                *id = format!("{name}_{number}");
            }
        }
        self
    }

    pub fn and_delta(mut self, delta: Value) -> Self {
        self.parts.push(Part::Delta(delta));
        self
    }

    pub fn and_pause(mut self, pause: Duration) -> Self {
        self.parts.push(Part::Pause(pause));
        self
    }

    /// A refusal with an OpenAI-like body.
    pub fn refusal(status: u16) -> Self {
        let body = json!({"error": {"message": "scripted refusal at host model.internal", "type": "server_error", "code": null}});
        let mut reply = Self::new(Vec::new());
        reply.ending = Ending::Refusal { status, retry_after_s: None, body: body.to_string() };
        reply
    }

    pub fn retry_after(mut self, seconds: u64) -> Self {
        if let Ending::Refusal { retry_after_s, .. } = &mut self.ending {
            *retry_after_s = Some(seconds);
        }
        self
    }

    /// So long before the first chunk.
    pub fn after_ms(mut self, ms: u64) -> Self {
        self.before = Duration::from_millis(ms);
        self
    }

    /// So long from one chunk to the next.
    pub fn every_ms(mut self, ms: u64) -> Self {
        self.pace = Duration::from_millis(ms);
        self
    }

    pub fn finish(mut self, reason: &str) -> Self {
        self.finish = Some(reason.to_owned());
        self
    }

    pub fn then_cut(mut self) -> Self {
        self.ending = Ending::Cut;
        self
    }

    pub fn then_hang(mut self) -> Self {
        self.ending = Ending::Hang;
        self
    }
}

/// Text as a model's tokens: words with the space before them, long ones in pieces.
pub fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    for ch in text.chars() {
        match tokens.last_mut() {
            Some(token) if !ch.is_whitespace() && token.chars().count() < 8 => token.push(ch),
            _ => tokens.push(ch.to_string()),
        }
    }
    tokens
}

/// The deltas of a part; a call's arguments come in pieces, as real servers send them.
pub(super) fn deltas(part: &Part, call_index: usize) -> Vec<Value> {
    match part {
        Part::Text(text) => {
            tokens(text).into_iter().map(|token| json!({"content": token})).collect()
        }
        Part::Call { id, tool, arguments } => {
            let function = json!({"name": tool, "arguments": ""});
            let first =
                json!({"index": call_index, "id": id, "type": "function", "function": function});
            let mut deltas = vec![json!({"tool_calls": [first]})];
            let chars: Vec<char> = arguments.chars().collect();
            for piece in chars.chunks(24) {
                let piece: String = piece.iter().collect();
                deltas.push(json!({"tool_calls": [{"index": call_index, "function": {"arguments": piece}}]}));
            }
            deltas
        }
        Part::Delta(delta) => vec![delta.clone()],
        Part::Pause(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_add_up_to_the_text() {
        for text in ["", "one two", "покажи дашборды с проблемами", "  a\n\nbcdefghijkl m "]
        {
            assert_eq!(tokens(text).concat(), text);
        }
    }
}
