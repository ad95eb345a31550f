//! What is left on the screen: rewinds applied, what was told twice folded, ids numbered.
use std::collections::HashMap;

use serde_json::Value;

use super::script::unmark;
use crate::gradio::turn::Turn;

/// Names for ids, by the order in which they come.
#[derive(Default)]
pub struct Names {
    known: HashMap<String, String>,
}

impl Names {
    pub fn of(&mut self, kind: &str, id: &str) -> String {
        let next = self.known.values().filter(|name| name.starts_with(kind)).count() + 1;
        self.known.entry(id.to_owned()).or_insert_with(|| format!("{kind}{next}")).clone()
    }
}

/// One thing on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Text(u64, String),
    Line(String),
}

/// One line per thing. `tokens` gets the whole streamed text, as it is.
pub fn fold(turn: &Turn, names: &mut Names, tokens: &mut String) -> Vec<String> {
    let mut items: Vec<Item> = Vec::new();
    for value in &turn.values {
        let meta = &value["metadata"];
        match meta["type"].as_str() {
            Some("stream_token") => {
                let token = meta["token"].as_str().unwrap_or_default();
                items.push(Item::Text(cursor(&meta["cursor"]), token.to_owned()));
            }
            Some("rewind") => {
                let to = cursor(&meta["to_cursor"]);
                items.retain(|item| !matches!(item, Item::Text(at, _) if *at > to));
            }
            Some("tool_progress") => {}
            kind => {
                let line = Item::Line(line(kind, value, names));
                if !items.contains(&line) {
                    items.push(line);
                }
            }
        }
    }
    lines(items, tokens)
}

fn lines(items: Vec<Item>, tokens: &mut String) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut text = String::new();
    let mut put = |text: &mut String, lines: &mut Vec<String>| {
        if !text.is_empty() {
            lines.push(format!("text {:?}", unmark(text).0));
            tokens.push_str(text);
            text.clear();
        }
    };
    for item in items {
        match item {
            Item::Text(_, token) => text.push_str(&token),
            Item::Line(line) => {
                put(&mut text, &mut lines);
                lines.push(line);
            }
        }
    }
    put(&mut text, &mut lines);
    // Calls that run at the same time end in any order.
    for run in lines.chunk_by_mut(|a, b| a.starts_with("result ") && b.starts_with("result ")) {
        run.sort();
    }
    lines
}

fn cursor(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn line(kind: Option<&str>, value: &Value, names: &mut Names) -> String {
    let meta = &value["metadata"];
    let text = |key: &str| meta[key].as_str().unwrap_or("?");
    let mut call = || names.of("call", text("tool_call_id"));
    match kind {
        None => format!("plain {:?}", unmark(value["content"].as_str().unwrap_or_default()).0),
        Some("tool_start") => format!("start {} {} {}", call(), text("tool"), meta["input"]),
        Some("tool_end") => format!("result {} {}", call(), meta["output"]),
        Some("tool_error") => format!("result {} {}", call(), text("code")),
        Some("confirm_required") => {
            let calls: Vec<String> = ids(&meta["calls"], names);
            let card = names.of("card", text("confirmation_id"));
            format!("card {card} {}", calls.join(" "))
        }
        Some("confirm_resolved") => {
            let card = names.of("card", text("confirmation_id"));
            format!("resolved {card} {} {}", text("result"), meta["reason"])
        }
        Some("error" | "warning") => format!("{} {}", kind.unwrap_or_default(), text("code")),
        Some("turn_end") => format!("end {}", text("status")),
        Some(other) => other.to_owned(),
    }
}

fn ids(calls: &Value, names: &mut Names) -> Vec<String> {
    let calls = calls.as_array().into_iter().flatten();
    calls.map(|call| names.of("call", call["tool_call_id"].as_str().unwrap_or("?"))).collect()
}

#[cfg(test)]
mod tests;
