//! What a request to the model must be like: the rules that real providers enforce, and some they should.
use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// No request of this system is larger without its pictures: history and tools have their budgets.
const REQUEST_BYTES: usize = 2 * 1024 * 1024;
/// Pictures of one request, and each one's Base64.
const PICTURES: usize = contract::limits::FILES_PER_MESSAGE;
const PICTURE_BYTES: usize = 1_000_000;
const PICTURE_SIDE: u32 = 2_048;

/// Everything that is wrong with a request.
pub fn violations(request: &Value, size_bytes: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    let pictures = check_pictures(request, &mut wrong);
    if size_bytes > REQUEST_BYTES + pictures {
        wrong.push(format!("a request of {size_bytes} bytes"));
    }
    if request["model"].as_str().is_none_or(str::is_empty) {
        wrong.push("no model".to_owned());
    }
    match request["messages"].as_array() {
        Some(messages) if !messages.is_empty() => check_messages(messages, &mut wrong),
        _ => wrong.push("no messages".to_owned()),
    }
    check_tools(request, &mut wrong);
    wrong
}

fn check_messages(messages: &[Value], wrong: &mut Vec<String>) {
    let mut open: Vec<String> = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    let mut conversation_began = false;
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or("none");
        if role != "tool" && !open.is_empty() {
            wrong.push(format!("message {index} ({role}) comes before the results of {open:?}"));
            open.clear();
        }
        match role {
            "system" | "developer" if conversation_began => {
                wrong.push(format!("message {index}: a system message in the middle"));
            }
            "system" | "developer" => check_text(message, index, wrong),
            "user" => {
                conversation_began = true;
                check_text(message, index, wrong);
            }
            "assistant" => {
                if !conversation_began {
                    wrong.push(format!("message {index}: the assistant speaks first"));
                    conversation_began = true;
                }
                open = check_assistant(message, index, &mut seen, wrong);
            }
            "tool" => check_result(message, index, &mut open, wrong),
            other => wrong.push(format!("message {index}: role `{other}`")),
        }
    }
    if !open.is_empty() {
        wrong.push(format!("calls without results: {open:?}"));
    }
    let last = messages.last().and_then(|message| message["role"].as_str()).unwrap_or("none");
    if !matches!(last, "user" | "tool") {
        wrong.push(format!("the last message is the {last}'s"));
    }
}

/// What all pictures take; they stand behind the text of a user's message.
fn check_pictures(request: &Value, wrong: &mut Vec<String>) -> usize {
    let (mut bytes, mut count) = (0, 0);
    let messages = request["messages"].as_array().into_iter().flatten();
    for (index, message) in messages.enumerate() {
        let Some(parts) = message["content"].as_array() else { continue };
        if message["role"] != "user" || parts.first().is_none_or(|part| part["type"] != "text") {
            wrong.push(format!("message {index}: parts, but not a user's text with pictures"));
        }
        for part in parts.iter().skip(1) {
            count += 1;
            let url = part["image_url"]["url"].as_str().unwrap_or_default();
            bytes += url.len();
            if part["type"] != "image_url" || !is_picture(url) {
                wrong.push(format!("message {index}: a part that is no picture of ours"));
            }
        }
    }
    if count > PICTURES {
        wrong.push(format!("{count} pictures"));
    }
    bytes
}

/// A `data:` URL of a PNG or JPEG that is what it says, and neither wide nor heavy.
fn is_picture(url: &str) -> bool {
    let Some((mime, base64)) =
        url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"))
    else {
        return false;
    };
    let Ok(bytes) = STANDARD.decode(base64) else { return false };
    let number = |at: usize| bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    let fits = |at| {
        number(at).map(u32::from_be_bytes).is_some_and(|side| (1..=PICTURE_SIDE).contains(&side))
    };
    let is_one = match mime {
        "image/png" => bytes.starts_with(b"\x89PNG\r\n\x1a\n") && fits(16) && fits(20),
        "image/jpeg" => bytes.starts_with(b"\xff\xd8\xff"),
        _ => false,
    };
    is_one && base64.len() <= PICTURE_BYTES
}

fn check_text(message: &Value, index: usize, wrong: &mut Vec<String>) {
    let content = &message["content"];
    let some_text = content.as_str().is_some_and(|text| !text.is_empty());
    let some_parts = content.as_array().is_some_and(|parts| !parts.is_empty());
    if !some_text && !some_parts {
        wrong.push(format!("message {index} ({}) is empty", message["role"]));
    }
}

/// The ids of the calls that wait for results now.
fn check_assistant(
    message: &Value,
    index: usize,
    seen: &mut HashSet<String>,
    wrong: &mut Vec<String>,
) -> Vec<String> {
    let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
    if calls.is_empty() && message["content"].as_str().is_none_or(str::is_empty) {
        wrong.push(format!("message {index}: the assistant says nothing and calls nothing"));
    }
    if message.get("tool_calls").is_some_and(|calls| !calls.is_array())
        || message["tool_calls"] == serde_json::json!([])
    {
        wrong.push(format!("message {index}: tool_calls is present and empty"));
    }
    let mut open = Vec::new();
    for call in &calls {
        let id = call["id"].as_str().unwrap_or_default().to_owned();
        if id.is_empty() || !seen.insert(id.clone()) {
            wrong.push(format!("message {index}: call id `{id}` is missing or used twice"));
        }
        if call["type"] != "function"
            || call["function"]["name"].as_str().is_none_or(|name| !is_name(name))
        {
            wrong.push(format!("message {index}: call `{id}` names no function"));
        }
        let arguments = call["function"]["arguments"].as_str();
        let object = arguments
            .and_then(|text| serde_json::from_str::<Value>(text).ok())
            .is_some_and(|v| v.is_object());
        if !object {
            wrong.push(format!(
                "message {index}: arguments of `{id}` are no JSON object: {arguments:?}"
            ));
        }
        open.push(id);
    }
    open
}

fn check_result(message: &Value, index: usize, open: &mut Vec<String>, wrong: &mut Vec<String>) {
    let id = message["tool_call_id"].as_str().unwrap_or_default();
    match open.iter().position(|call| call == id) {
        Some(at) => {
            open.remove(at);
        }
        None => {
            wrong.push(format!("message {index}: a result for `{id}`, which waits for none here"))
        }
    }
    check_text(message, index, wrong);
}

fn is_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

fn check_tools(request: &Value, wrong: &mut Vec<String>) {
    let Some(tools) = request.get("tools") else { return };
    let list = tools.as_array().cloned().unwrap_or_default();
    if list.is_empty() {
        wrong.push("tools is present and empty".to_owned());
    }
    let mut names = HashSet::new();
    for tool in &list {
        let function = &tool["function"];
        let name = function["name"].as_str().unwrap_or_default().to_owned();
        if tool["type"] != "function" || !is_name(&name) || !names.insert(name.clone()) {
            wrong.push(format!("tool `{name}` has no valid name of its own"));
        }
        if function["description"].as_str().is_none_or(str::is_empty) {
            wrong.push(format!("tool `{name}` has no description"));
        }
        check_schema(&name, &function["parameters"], wrong);
    }
}

fn check_schema(tool: &str, schema: &Value, wrong: &mut Vec<String>) {
    if schema["type"] != "object" {
        wrong.push(format!("the parameters of `{tool}` are no object schema"));
    }
    let properties = schema["properties"].as_object();
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        if properties.is_none_or(|properties| !properties.contains_key(name)) {
            wrong.push(format!("`{tool}` requires `{name}`, which it does not describe"));
        }
    }
    let text = schema.to_string();
    if text.contains("\"$ref\"") && !text.contains("\"$defs\"") {
        wrong.push(format!("the parameters of `{tool}` refer to a definition that is not there"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(messages: Value) -> Vec<String> {
        let request = json!({"model": "m", "messages": messages});
        violations(&request, 100)
    }

    fn call(id: &str) -> Value {
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]})
    }

    fn result(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": "1"})
    }

    #[test]
    fn a_call_with_its_result_is_right() {
        let user = json!({"role": "user", "content": "hi"});
        assert_eq!(
            wrong(json!([{"role": "system", "content": "s"}, user, call("a"), result("a")])),
            [""; 0]
        );
    }

    #[test]
    fn each_breach_is_seen() {
        let user = json!({"role": "user", "content": "hi"});
        let breaches = [
            json!([]),
            json!([user, call("a")]),
            json!([user, call("a"), user]),
            json!([user, result("a")]),
            json!([user, call("a"), result("a"), result("a")]),
            json!([user, call("a"), result("a"), call("a"), result("a")]),
            json!([call("a"), result("a")]),
            json!([user, {"role": "system", "content": "s"}, user]),
            json!([user, {"role": "assistant", "content": ""}, user]),
            json!([user, {"role": "assistant", "content": "done"}]),
            json!([{"role": "user", "content": ""}]),
            json!([{"role": "robot", "content": "x"}, user]),
        ];
        for messages in breaches {
            assert_ne!(wrong(messages.clone()), [""; 0], "{messages}");
        }
    }

    fn png(width: u32, bytes: usize) -> String {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        png.extend([width.to_be_bytes(), 8_u32.to_be_bytes()].concat());
        png.resize(bytes, 0);
        format!("data:image/png;base64,{}", STANDARD.encode(png))
    }

    #[test]
    fn pictures_are_looked_at() {
        let text = json!({"type": "text", "text": "look"});
        let picture = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        let user = |parts: &[Value]| json!([{"role": "user", "content": parts}]);
        let good = picture(&png(2_048, 99));
        assert_eq!(wrong(user(&[text.clone(), good.clone()])), [""; 0]);
        let mut many = vec![text.clone()];
        many.extend(vec![good.clone(); 6]);
        let breaches = [
            user(std::slice::from_ref(&good)),
            user(&many),
            user(&[text.clone(), text.clone()]),
            user(&[text.clone(), picture("https://example.com/a.png")]),
            user(&[text.clone(), picture("data:image/png;base64,AAAA")]),
            user(&[text.clone(), picture(&png(2_049, 99))]),
            user(&[text.clone(), picture(&png(0, 99))]),
            user(&[text.clone(), picture(&png(8, 800_000))]),
            json!([{"role": "system", "content": [text, good]}, {"role": "user", "content": "x"}]),
        ];
        for messages in breaches {
            assert_ne!(wrong(messages.clone()), [""; 0], "{messages}");
        }
    }

    #[test]
    fn pictures_have_a_room_of_their_own() {
        let large = png(8, 700_000);
        let parts = json!([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": large}}]);
        let request = json!({"model": "m", "messages": [{"role": "user", "content": parts}]});
        assert_eq!(violations(&request, REQUEST_BYTES + 900_000), [""; 0]);
        assert_ne!(violations(&request, REQUEST_BYTES + 1_000_000), [""; 0]);
    }

    #[test]
    fn a_tool_without_a_proper_schema_is_seen() {
        let user = json!({"role": "user", "content": "hi"});
        let tools = |tools: Value| {
            violations(&json!({"model": "m", "messages": [user], "tools": tools}), 9)
        };
        let good = json!({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}});
        assert_eq!(tools(json!([good])), [""; 0]);
        assert_ne!(tools(json!([])), [""; 0]);
        assert_ne!(tools(json!([good, good])), [""; 0]);
        let mut requiring = good.clone();
        requiring["function"]["parameters"]["required"] = json!(["x"]);
        assert_ne!(tools(json!([requiring])), [""; 0]);
    }
}
