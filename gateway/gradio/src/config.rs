//! The two documents a client fetches before anything else: what exists, and what the parameters are called.
use serde_json::{Value, json};

pub const API_PREFIX: &str = "/gradio_api";
pub const API_NAME: &str = "chat";
/// The one function there is.
pub const FN_INDEX: u64 = 0;
/// The same for every replica; a string, because an integer of 64 bits loses digits in JavaScript.
pub const APP_ID: &str = "agent-chat-1";
/// Clients compare this with their own minimum.
const GRADIO_VERSION: &str = "6.31.0";
const OUTPUT_COMPONENT: u64 = 100;

/// The published parameters in order. The last two make the three-argument call legal: a client throws
/// before it sends a key that is no parameter.
pub const PARAMETERS: [Parameter; 6] = [
    Parameter { name: "message", component: "Multimodaltextbox" },
    Parameter { name: "conversation_id", component: "Textbox" },
    Parameter { name: "action", component: "Textbox" },
    Parameter { name: "client_message_id", component: "Textbox" },
    Parameter { name: "text", component: "Textbox" },
    Parameter { name: "files", component: "Json" },
];

#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub component: &'static str,
}

/// `/config`. Has no `root`: every client then talks to the URL it was given, whatever proxies do.
pub fn config(title: &str, max_file_bytes: u64) -> Value {
    let inputs: Vec<u64> = (1..).take(PARAMETERS.len()).collect();
    let mut components: Vec<Value> =
        inputs.iter().zip(PARAMETERS).map(|(id, p)| component(*id, p.component)).collect();
    components.push(component(OUTPUT_COMPONENT, "Json"));
    json!({
        "version": GRADIO_VERSION,
        "mode": "chat_interface",
        "title": title,
        "api_prefix": API_PREFIX,
        "protocol": "sse_v3",
        "app_id": APP_ID,
        "components": components,
        "dependencies": [dependency(&inputs)],
        "connect_heartbeat": false,
        "enable_queue": true,
        "show_error": true,
        "max_file_size": max_file_bytes,
        "run_history": false,
        "space_id": null,
        "is_colab": false,
        "username": null,
        "auth_required": false,
    })
}

/// `/info`.
pub fn info() -> Value {
    let parameters: Vec<Value> = PARAMETERS.iter().map(parameter).collect();
    json!({
        "named_endpoints": {
            "/chat": {
                "parameters": parameters,
                "returns": [{
                    "label": "Response",
                    "type": {"type": {}, "description": "any valid json"},
                    "python_type": {"type": "str | float | bool | list | dict", "description": ""},
                    "component": "Json",
                }],
                "show_api": true,
                "api_visibility": "public",
                "description": "",
            },
        },
        "unnamed_endpoints": {},
    })
}

fn component(id: u64, kind: &str) -> Value {
    let kind = kind.to_lowercase();
    json!({
        "id": id,
        "type": kind,
        "props": {"name": kind},
        "skip_api": false,
        "component_class_id": kind,
    })
}

fn dependency(inputs: &[u64]) -> Value {
    json!({
        "id": FN_INDEX,
        "targets": [],
        "inputs": inputs,
        "outputs": [OUTPUT_COMPONENT],
        "backend_fn": true,
        "queue": true,
        "api_name": API_NAME,
        "show_api": true,
        "api_visibility": "public",
        "types": {"generator": true, "cancel": false},
        "connection": "sse",
        "cancels": [],
        "zerogpu": false,
    })
}

fn parameter(parameter: &Parameter) -> Value {
    let (kind, python, default) = match parameter.name {
        "message" => {
            (any(), "dict(text: str, files: list[filepath])", json!({"text": "", "files": []}))
        }
        "files" => (any(), "list[filepath]", Value::Null),
        _ => (json!({"type": "string"}), "str", Value::Null),
    };
    json!({
        "label": parameter.name,
        "parameter_name": parameter.name,
        "parameter_has_default": true,
        "parameter_default": default,
        "type": kind,
        "python_type": {"type": python, "description": ""},
        "component": parameter.component,
        "example_input": null,
    })
}

fn any() -> Value {
    json!({"type": {}, "description": "any valid json"})
}

#[cfg(test)]
mod tests;
