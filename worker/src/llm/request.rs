//! A model request as the JSON of Chat Completions.
use agent::message::{Message, ToolCall};
use agent::tool::ToolSpec;
use async_openai::types::chat::{
    ChatCompletionMessageToolCall, ChatCompletionMessageToolCalls,
    ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
    ChatCompletionRequestMessageContentPartImage, ChatCompletionRequestMessageContentPartText,
    ChatCompletionRequestSystemMessage, ChatCompletionRequestToolMessage,
    ChatCompletionRequestUserMessage, ChatCompletionRequestUserMessageContent,
    ChatCompletionRequestUserMessageContentPart, ChatCompletionStreamOptions, ChatCompletionTool,
    ChatCompletionTools, CreateChatCompletionRequest, FunctionCall, FunctionObject, ImageUrl,
};

use super::{LlmConfig, Pictures};

/// The body of a streaming request. `tools` are those the model may see; `max_tokens` bounds the answer.
pub fn body(
    config: &LlmConfig,
    messages: &[Message],
    pictures: &Pictures,
    tools: Vec<&ToolSpec>,
    max_tokens: Option<u32>,
) -> CreateChatCompletionRequest {
    let mut request = CreateChatCompletionRequest {
        model: config.model.clone(),
        messages: messages.iter().map(|one| message(one, pictures)).collect(),
        stream: Some(true),
        ..CreateChatCompletionRequest::default()
    };
    if config.stream_options {
        request.stream_options = Some(ChatCompletionStreamOptions {
            include_usage: Some(true),
            include_obfuscation: None,
        });
    }
    if !tools.is_empty() {
        request.tools = Some(tools.into_iter().map(tool).collect());
    }
    limit(&mut request, config, max_tokens);
    request
}

/// The maker's own models refuse the old key, other servers don't know the new one.
#[expect(deprecated, reason = "compatible servers know only `max_tokens`")]
fn limit(request: &mut CreateChatCompletionRequest, config: &LlmConfig, max_tokens: Option<u32>) {
    if config.base_url.contains("openai.com") || config.base_url.contains("openai.azure.com") {
        request.max_completion_tokens = max_tokens;
    } else {
        request.max_tokens = max_tokens;
    }
}

fn message(message: &Message, pictures: &Pictures) -> ChatCompletionRequestMessage {
    match message {
        Message::System { content } => {
            ChatCompletionRequestSystemMessage::from(content.as_str()).into()
        }
        Message::User { content, images } => user(content, images, pictures).into(),
        Message::Assistant { content, tool_calls } => assistant(content, tool_calls).into(),
        Message::Tool { tool_call_id, content } => ChatCompletionRequestToolMessage {
            content: content.as_str().into(),
            tool_call_id: tool_call_id.clone(),
        }
        .into(),
    }
}

/// Pictures that are no longer there are left out.
fn user(content: &str, images: &[String], pictures: &Pictures) -> ChatCompletionRequestUserMessage {
    let seen: Vec<&String> = images.iter().filter_map(|name| pictures.get(name)).collect();
    if seen.is_empty() {
        return ChatCompletionRequestUserMessage::from(content);
    }
    let text = ChatCompletionRequestMessageContentPartText {
        text: content.to_owned(),
        prompt_cache_breakpoint: None,
    };
    let image = |url: &String| ChatCompletionRequestMessageContentPartImage {
        image_url: ImageUrl { url: url.clone(), detail: None },
        prompt_cache_breakpoint: None,
    };
    let parts: Vec<ChatCompletionRequestUserMessageContentPart> =
        std::iter::once(text.into()).chain(seen.into_iter().map(|url| image(url).into())).collect();
    ChatCompletionRequestUserMessageContent::Array(parts).into()
}

fn assistant(content: &str, calls: &[ToolCall]) -> ChatCompletionRequestAssistantMessage {
    let tool_calls: Vec<_> = calls.iter().map(tool_call).collect();
    ChatCompletionRequestAssistantMessage {
        content: (!content.is_empty() || tool_calls.is_empty()).then(|| content.into()),
        tool_calls: (!tool_calls.is_empty()).then_some(tool_calls),
        ..ChatCompletionRequestAssistantMessage::default()
    }
}

fn tool_call(call: &ToolCall) -> ChatCompletionMessageToolCalls {
    ChatCompletionMessageToolCalls::Function(ChatCompletionMessageToolCall {
        id: call.id.clone(),
        function: FunctionCall { name: call.name.clone(), arguments: call.arguments.to_string() },
    })
}

fn tool(spec: &ToolSpec) -> ChatCompletionTools {
    ChatCompletionTools::Function(ChatCompletionTool {
        function: FunctionObject {
            name: spec.name.clone(),
            description: Some(spec.description.clone()),
            parameters: Some(spec.parameters.clone()),
            strict: None,
        },
    })
}
