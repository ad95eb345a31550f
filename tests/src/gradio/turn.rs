//! What a client saw of one submission.
use std::time::Instant;

use serde_json::Value;

#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// Values in order, the completion's repetition left out.
    pub values: Vec<Value>,
    /// When each value came.
    pub times: Vec<Instant>,
    /// The frame that completed it.
    pub completed: Option<Value>,
    pub completed_at: Option<Instant>,
}

impl Turn {
    /// Takes a frame in; says what a stock client would not have understood.
    pub fn take(&mut self, kind: &str, frame: Value, at: Instant) -> Result<(), String> {
        if self.completed.is_some() {
            let after = self.completed_at.map(|completed| at - completed);
            return Err(format!("a frame {after:?} after the completion: {frame}"));
        }
        match kind {
            "process_generating" => {
                let value = self.next_value(&frame["output"]["data"])?;
                self.values.push(value);
                self.times.push(at);
            }
            "process_completed" => {
                self.completed_at = Some(at);
                let last = &frame["output"]["data"][0];
                // Who attaches behind the last value gets nothing but the completion.
                if self.values.is_empty() {
                    self.values.push(last.clone());
                    self.times.push(at);
                }
                if frame["success"] == true && self.values.last() != Some(last) {
                    let seen = self.values.last().cloned();
                    self.completed = Some(frame.clone());
                    return Err(format!(
                        "the completion does not repeat the last value: {seen:?} and {frame}"
                    ));
                }
                self.completed = Some(frame);
            }
            _ => {}
        }
        Ok(())
    }

    /// The first value comes whole, later ones as one replacement of everything.
    fn next_value(&self, data: &Value) -> Result<Value, String> {
        let single = data.as_array().filter(|data| data.len() == 1).map(|data| data[0].clone());
        let value = single.ok_or_else(|| format!("output.data has not one element: {data}"))?;
        if self.values.is_empty() {
            return Ok(value);
        }
        let edits = value.as_array().filter(|edits| edits.len() == 1);
        match edits.and_then(|edits| edits[0].as_array()).map(Vec::as_slice) {
            Some([action, path, value])
                if action == "replace" && path == &serde_json::json!([]) =>
            {
                Ok(value.clone())
            }
            _ => Err(format!("not a whole replacement: {data}")),
        }
    }

    /// Metadata types in order; a plain message is `plain`, runs of tokens are one `stream_token`.
    pub fn types(&self) -> Vec<String> {
        let mut types: Vec<String> = self.values.iter().map(|v| kind(v).to_owned()).collect();
        types.dedup_by(|a, b| a == b && a == "stream_token");
        types
    }

    pub fn all(&self, wanted: &str) -> Vec<&Value> {
        self.values
            .iter()
            .filter(|value| kind(value) == wanted)
            .map(|value| &value["metadata"])
            .collect()
    }

    /// Metadata of the first value of this type.
    #[track_caller]
    pub fn one(&self, wanted: &str) -> &Value {
        let all = self.all(wanted);
        assert!(!all.is_empty(), "no {wanted} in {:#?}", self.values);
        all[0]
    }

    /// The streamed text, rewinds taken into account.
    pub fn tokens(&self) -> String {
        let mut pieces: Vec<(u64, &str)> = Vec::new();
        for value in &self.values {
            let meta = &value["metadata"];
            match kind(value) {
                "rewind" => {
                    let to = number(&meta["to_cursor"]);
                    pieces.retain(|(cursor, _)| *cursor <= to);
                }
                "stream_token" => pieces
                    .push((number(&meta["cursor"]), meta["token"].as_str().unwrap_or_default())),
                _ => {}
            }
        }
        pieces.into_iter().map(|(_, token)| token).collect()
    }

    /// The last value's content: the whole answer, if it ended plainly.
    pub fn text(&self) -> &str {
        self.values.last().and_then(|value| value["content"].as_str()).unwrap_or_default()
    }

    pub fn error_code(&self) -> Option<&str> {
        self.all("error").last().and_then(|error| error["code"].as_str())
    }

    /// The confirmation card, if the turn ended with one.
    pub fn card(&self) -> Option<&Value> {
        self.all("confirm_required").last().copied()
    }

    /// `status` of `turn_end`.
    pub fn status(&self) -> Option<&str> {
        self.all("turn_end").last().and_then(|end| end["status"].as_str())
    }

    pub fn cursor(&self) -> String {
        let last = self.values.iter().rev().find_map(|value| value["metadata"]["cursor"].as_str());
        last.unwrap_or_default().to_owned()
    }
}

fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn kind(value: &Value) -> &str {
    value["metadata"]["type"].as_str().unwrap_or("plain")
}
