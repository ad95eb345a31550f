//! The demo's rules: which tools a Russian or English phrase asks for, and what to say about the results.
mod answer;
mod intent;

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::reply::Reply;
use intent::Intent;

/// Time between two tokens of a demo answer.
const PACE_MS: u64 = 25;

pub fn newest_user_text(request: &Value) -> String {
    let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let newest = messages.iter().rev().find(|message| message["role"] == "user").map(text_of);
    let newest = newest.unwrap_or_default();
    // Behind the files that are quoted before it.
    newest
        .rsplit_once("\n\nThe user's message:\n")
        .map_or(newest.clone(), |(_, own)| own.to_owned())
}

/// How often the model has answered the newest user message.
pub fn step(request: &Value) -> usize {
    let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let since = messages.iter().rev().take_while(|message| message["role"] != "user");
    since.filter(|message| message["role"] == "assistant").count()
}

fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

/// A request, as the rules see it.
struct View<'a> {
    text: String,
    russian: bool,
    messages: &'a [Value],
    /// Results that came after the newest user message: tool and content.
    results: Vec<(String, String)>,
    tools: &'a [Value],
    first_answer: bool,
}

impl<'a> View<'a> {
    fn of(request: &'a Value) -> Self {
        let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let text = newest_user_text(request);
        let newest = messages.iter().rposition(|message| message["role"] == "user").unwrap_or(0);
        let mut results = Vec::new();
        for (index, message) in messages.iter().enumerate().skip(newest) {
            if message["role"] == "tool" {
                let id = &message["tool_call_id"];
                let calls = messages[..index]
                    .iter()
                    .rev()
                    .flat_map(|m| m["tool_calls"].as_array().into_iter().flatten());
                let tool = calls
                    .clone()
                    .find(|call| call["id"] == *id)
                    .and_then(|call| call["function"]["name"].as_str());
                results.push((tool.unwrap_or_default().to_owned(), text_of(message)));
            }
        }
        let spoke =
            |message: &Value| message["role"] == "assistant" && !text_of(message).is_empty();
        let russian = text.chars().any(|c| ('\u{400}'..='\u{4ff}').contains(&c));
        Self {
            russian,
            messages,
            results,
            tools: request["tools"].as_array().map_or(&[][..], Vec::as_slice),
            first_answer: !messages[..newest].iter().any(spoke),
            text,
        }
    }

    fn schema_of(&self, tool: &str) -> Option<&Value> {
        let offered = self.tools.iter().find(|offered| offered["function"]["name"] == tool);
        offered.map(|offered| &offered["function"]["parameters"])
    }

    /// The dashboard that is meant: a number in the text, else the last one that was talked about.
    fn dashboard(&self) -> Option<u64> {
        let known = |message: &Value| {
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let mut called = calls.filter_map(|call| {
                let arguments = call["function"]["arguments"].as_str()?;
                let arguments: Value = serde_json::from_str(arguments).ok()?;
                let id = &arguments["dashboard_id"];
                id.as_u64().or_else(|| id.as_str()?.parse().ok())
            });
            called
                .next_back()
                .or_else(|| (message["role"] == "user").then(|| number_in(&text_of(message)))?)
        };
        number_in(&self.text).or_else(|| self.messages.iter().rev().find_map(known))
    }
}

pub fn number_in(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit())
        .find(|digits| (1..=6).contains(&digits.len()))?
        .parse()
        .ok()
}

/// The answer to a request.
pub fn choose(request: &Value) -> Reply {
    let view = View::of(request);
    if let Some(reply) = drill(&view.text) {
        return reply;
    }
    if view.tools.is_empty()
        && view.results.is_empty()
        && view.messages.len() <= 3
        && view.text.len() > 1_500
    {
        return Reply::text(if view.russian {
            "Краткое содержание беседы."
        } else {
            "A summary of the conversation."
        });
    }
    if view.results.is_empty() {
        let calls = calls(&view);
        if !calls.is_empty() {
            let opening = answer::opening(&view);
            let mut reply = Reply::text(&opening).every_ms(PACE_MS);
            for (tool, arguments) in calls {
                reply = reply.and_call(&tool, arguments);
            }
            return reply;
        }
    }
    Reply::text(&answer::closing(&view)).every_ms(PACE_MS)
}

/// Words that make the model behave in a certain way, for client suites and load.
fn drill(text: &str) -> Option<Reply> {
    let mut words = text.split_whitespace();
    let number = |words: &mut std::str::SplitWhitespace<'_>, default: u64| {
        words.next().and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    let reply = match words.next()? {
        "stream" => Reply::text(
            "Один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать.",
        )
        .every_ms(60),
        "slow" => Reply::text(&"ещё слово ".repeat(35)).every_ms(100),
        "pause" => Reply::text("Before the pause. ")
            .and_pause(Duration::from_secs(20))
            .and_text("After the pause."),
        "error" => Reply::refusal(400),
        "article" => {
            let count = number(&mut words, 200);
            let pace = number(&mut words, 10);
            Reply::text(&answer::article(usize::try_from(count).unwrap_or(200))).every_ms(pace)
        }
        "bench" => {
            let count = number(&mut words, 50);
            let pace = number(&mut words, 20);
            let text = "token ".repeat(usize::try_from(count).unwrap_or(50));
            Reply::text(text.trim_end()).every_ms(pace)
        }
        _ => return None,
    };
    Some(reply)
}

/// The calls that the newest text asks for, among the tools that were offered.
fn calls(view: &View<'_>) -> Vec<(String, Value)> {
    let wanted = Intent::of(&view.text).map(|intent| intent.tools()).unwrap_or_default();
    let mut calls = Vec::new();
    for tool in wanted {
        if let Some(schema) = view.schema_of(tool) {
            calls.push(((*tool).to_owned(), arguments(view, schema)));
        }
    }
    calls
}

/// Values for the parameters that the schema names, as far as the text gives any.
fn arguments(view: &View<'_>, schema: &Value) -> Value {
    let mut arguments = Map::new();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let value = value_for(view, name, required.contains(&name.as_str()));
        if let Some(value) = value {
            arguments.insert(name.clone(), fit(value, property));
        }
    }
    Value::Object(arguments)
}

fn value_for(view: &View<'_>, name: &str, required: bool) -> Option<Value> {
    let text = view.text.to_lowercase();
    let environments = intent::environments(&text);
    let environment = environments.first().map(|id| json!(id));
    let quoted = intent::quoted(&view.text);
    match name {
        "dashboard_id" | "id" => Some(json!(view.dashboard().unwrap_or(42))),
        "dashboard_ids" => Some(json!([view.dashboard().unwrap_or(42)])),
        "environment_id" | "env_id" | "environment" => {
            environment.or_else(|| required.then(|| json!("prod")))
        }
        "source_env_id" => Some(json!(environments.first().copied().unwrap_or("staging"))),
        "target_env_id" => Some(json!(environments.get(1).copied().unwrap_or("prod"))),
        "replace_db" => required.then(|| json!(false)),
        "name" | "branch" | "branch_name" => Some(json!(
            quoted
                .unwrap_or_else(|| format!("feature/dashboard-{}", view.dashboard().unwrap_or(42)))
        )),
        "from_branch" => required.then(|| json!("main")),
        "message" => {
            let default = if view.russian {
                "Изменения из чата"
            } else {
                "Changes from the chat"
            };
            Some(json!(quoted.unwrap_or_else(|| default.to_owned())))
        }
        "files" => required.then(|| json!([])),
        "search" | "query" => intent::search_words(&text)
            .map(|words| json!(words))
            .or_else(|| required.then(|| json!(""))),
        "task_id" | "maintenance_id" | "event_id" => {
            Some(json!(intent::name_like_id(&text).unwrap_or_else(|| "task-3".to_owned())))
        }
        "duration_minutes" => Some(json!(number_in(&text).unwrap_or(30))),
        "active_only" => required.then(|| json!(true)),
        "params" => required.then(|| json!({})),
        _ => None,
    }
}

/// The same value in the type that the schema wants.
fn fit(value: Value, property: &Value) -> Value {
    let types = property["type"].to_string();
    match value {
        Value::Number(ref number) if types.contains("string") && !types.contains("integer") => {
            json!(number.to_string())
        }
        Value::Array(ref items) => {
            let inner = property["items"].clone();
            Value::Array(items.iter().map(|item| fit(item.clone(), &inner)).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            value
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, properties: Value) -> Value {
        json!({"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object", "properties": properties}}})
    }

    fn calls_for(texts: &[&str]) -> Vec<(String, Value)> {
        let messages: Vec<Value> =
            texts.iter().map(|text| json!({"role": "user", "content": text})).collect();
        let integer = json!({"type": "integer"});
        let string = json!({"type": "string"});
        let tools = json!([
            tool("search_dashboards", json!({"search": string})),
            tool("get_health_summary", json!({"environment_id": string})),
            tool("deploy_dashboard", json!({"dashboard_id": integer, "environment_id": string})),
            tool("create_branch", json!({"dashboard_id": string, "name": string})),
        ]);
        let request = json!({"messages": messages, "tools": tools});
        calls(&View::of(&request))
    }

    #[test]
    fn phrases_choose_tools_and_arguments() {
        let found = calls_for(&["покажи дашборды с проблемами валидации"]);
        assert_eq!(
            found,
            [
                ("search_dashboards".to_owned(), json!({})),
                ("get_health_summary".to_owned(), json!({}))
            ]
        );
        let found = calls_for(&["задеплой дашборд 42 на prod"]);
        let arguments = json!({"dashboard_id": 42, "environment_id": "prod"});
        assert_eq!(found, [("deploy_dashboard".to_owned(), arguments)]);
        let found = calls_for(&["покажи дашборд 17", "создай для него ветку"]);
        let arguments = json!({"dashboard_id": "17", "name": "feature/dashboard-17"});
        assert_eq!(found, [("create_branch".to_owned(), arguments)]);
    }
}
