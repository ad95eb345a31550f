//! What the model is sent, and what a turn's `parts` store.
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    System {
        content: String,
    },
    User {
        content: String,
        /// Pictures that go with it, by the names under which the shell finds them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<String>,
    },
    Assistant {
        #[serde(default)]
        content: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    Tool {
        tool_call_id: String,
        content: String,
    },
}

/// A call as the model made it. Its id is unique among the messages of one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: Value,
}

impl Message {
    /// A user's message of text alone.
    pub fn user(content: impl Into<String>) -> Self {
        Self::User { content: content.into(), images: Vec::new() }
    }

    pub fn content(&self) -> &str {
        match self {
            Self::System { content }
            | Self::User { content, images: _ }
            | Self::Assistant { content, tool_calls: _ }
            | Self::Tool { tool_call_id: _, content } => content,
        }
    }

    pub fn images(&self) -> &[String] {
        match self {
            Self::User { images, .. } => images,
            Self::System { .. } | Self::Assistant { .. } | Self::Tool { .. } => &[],
        }
    }

    /// The calls of an assistant message; none for any other.
    pub fn calls(&self) -> &[ToolCall] {
        match self {
            Self::Assistant { tool_calls, .. } => tool_calls,
            Self::System { .. } | Self::User { .. } | Self::Tool { .. } => &[],
        }
    }
}
