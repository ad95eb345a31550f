//! What is sent.
use agent::effect::ModelRequest;
use agent::message::{Message, ToolCall};
use agent::tool::{SideEffect, ToolSpec};
use expect_test::expect;
use serde_json::json;

use super::mock::{DONE, Mock, Reply, data, finish, finish_uncounted, question, text, transcript};
use crate::llm::{Llm, Pictures, Piece};

#[tokio::test]
async fn a_request_as_servers_expect_it() {
    let mock =
        Mock::start(vec![Reply::stream([&text("Hi"), &finish("stop"), DONE].concat())]).await;
    let request = conversation();
    let spec = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: "Lists.".to_owned(),
        parameters: json!({"type": "object"}),
        effect: SideEffect::Read,
    };
    let llm = Llm::new(mock.config()).unwrap();
    transcript(llm.stream(&request, &Pictures::new(), &[spec("list_tasks"), spec("hidden")])).await;
    let seen = &mock.requests()[0];
    expect![[r#"
        {
          "messages": [
            {
              "role": "system",
              "content": "Be brief."
            },
            {
              "role": "user",
              "content": "Привет"
            },
            {
              "role": "assistant",
              "tool_calls": [
                {
                  "type": "function",
                  "id": "a1",
                  "function": {
                    "name": "list_tasks",
                    "arguments": "{\"page\":2}"
                  }
                }
              ]
            },
            {
              "role": "tool",
              "content": "[]",
              "tool_call_id": "a1"
            },
            {
              "role": "assistant",
              "content": "None."
            }
          ],
          "model": "test-model",
          "stream": true,
          "stream_options": {
            "include_usage": true
          },
          "tools": [
            {
              "type": "function",
              "function": {
                "name": "list_tasks",
                "description": "Lists.",
                "parameters": {
                  "type": "object"
                }
              }
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&seen.body).unwrap());
    assert!(seen.head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{}", seen.head);
    assert!(seen.head.contains("authorization: Bearer sk-test"), "{}", seen.head);
    assert!(!seen.head.to_lowercase().contains("accept-encoding"), "{}", seen.head);
}

#[tokio::test]
async fn without_a_key_or_usage_nothing_is_said_of_them() {
    let mock =
        Mock::start(vec![Reply::stream([&text("Hi"), &finish("stop"), DONE].concat())]).await;
    let mut config = mock.config();
    config.api_key = secrecy::SecretString::from("");
    config.stream_options = false;
    transcript(Llm::new(config).unwrap().stream(&question(), &Pictures::new(), &[])).await;
    let seen = &mock.requests()[0];
    assert!(!seen.head.to_lowercase().contains("authorization"), "{}", seen.head);
    assert!(seen.body.get("stream_options").is_none());
    assert!(seen.body.get("tools").is_none());
}

#[tokio::test]
async fn usage_is_the_servers_count_or_ours() {
    let usage = |chunk: &str| {
        [&text("Hello there"), &finish_uncounted("stop"), &data(chunk), DONE].concat()
    };
    for (chunk, input, output) in [
        (
            r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}"#,
            7,
            3,
        ),
        (r#"{"choices":[],"usage":{"prompt_tokens":7}}"#, 7, 0),
        (
            r#"{"choices":[{"index":0,"usage":{"prompt_tokens":"5","completion_tokens":2.0}}],"usage":null}"#,
            5,
            2,
        ),
    ] {
        let mock = Mock::start(vec![Reply::stream(usage(chunk))]).await;
        assert_eq!(counted(&mock).await, (input, output), "{chunk}");
    }
    let mock = Mock::start(vec![Reply::stream(usage("{}"))]).await;
    let (input, output) = counted(&mock).await;
    assert!(input > 0 && output == 2, "{input} {output}");
}

async fn counted(mock: &Mock) -> (u64, u64) {
    let mut completion = mock.ask();
    loop {
        if let Piece::Done(raw) = completion.next().await.unwrap() {
            return (raw.usage.input_tokens, raw.usage.output_tokens);
        }
    }
}

/// One message of every kind.
fn conversation() -> ModelRequest {
    let call = ToolCall {
        id: "a1".to_owned(),
        name: "list_tasks".to_owned(),
        arguments: json!({"page": 2}),
    };
    ModelRequest {
        messages: vec![
            Message::System { content: "Be brief.".to_owned() },
            Message::user("Привет"),
            Message::Assistant { content: String::new(), tool_calls: vec![call] },
            Message::Tool { tool_call_id: "a1".to_owned(), content: "[]".to_owned() },
            Message::Assistant { content: "None.".to_owned(), tool_calls: vec![] },
        ],
        tools: vec!["list_tasks".to_owned()],
    }
}
