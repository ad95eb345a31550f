//! What a user saw, as a few lines of text for comparison.
use serde_json::Value;

use crate::gradio::turn::Turn;

/// One line per value; runs of tokens in one line, ids and times left out.
pub fn of(turn: &Turn) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut tokens = String::new();
    for value in &turn.values {
        let meta = &value["metadata"];
        let kind = meta["type"].as_str().unwrap_or("plain");
        if kind == "stream_token" {
            tokens.push_str(meta["token"].as_str().unwrap_or_default());
            continue;
        }
        if !tokens.is_empty() {
            lines.push(format!("tokens {:?}", std::mem::take(&mut tokens)));
        }
        lines.push(line(kind, meta, value["content"].as_str().unwrap_or_default()));
    }
    if !tokens.is_empty() {
        lines.push(format!("tokens {tokens:?}"));
    }
    lines.join("\n")
}

fn line(kind: &str, meta: &Value, content: &str) -> String {
    let text = |key: &str| meta[key].as_str().unwrap_or("?").to_owned();
    match kind {
        "plain" => format!("plain {content:?}"),
        "tool_start" => format!("tool_start {} {}", text("tool"), meta["input"]),
        "tool_end" => format!("tool_end {}", text("tool")),
        "tool_error" => {
            format!("tool_error {} {}", text("tool"), meta["code"].as_str().unwrap_or("-"))
        }
        "confirm_required" => {
            let calls = meta["calls"].as_array().into_iter().flatten();
            let tools: Vec<&str> = calls.filter_map(|call| call["tool"].as_str()).collect();
            format!("confirm_required {}", tools.join(", "))
        }
        "confirm_resolved" => match meta["reason"].as_str() {
            Some(reason) => format!("confirm_resolved {} ({reason})", text("result")),
            None => format!("confirm_resolved {}", text("result")),
        },
        "error" | "warning" => format!("{kind} {}", text("code")),
        "turn_end" => format!("turn_end {}", text("status")),
        other => other.to_owned(),
    }
}
