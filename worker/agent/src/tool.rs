//! What a tool is to the model, and what a repetition of it would do.
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON schema of the arguments.
    pub parameters: Value,
    pub effect: SideEffect,
}

/// What happens when a call is made twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideEffect {
    /// Nothing: it only looks. Runs beside other reads, and again after a crash.
    Read,
    /// The same as once, under the same idempotency key.
    Idempotent,
    /// It would happen a second time.
    Once,
}
