//! Names of span attributes. The `gen_ai` ones are those of the semantic conventions, whose constants are deprecated
//! in the Rust crate because they moved to a repository of their own.
pub const OPERATION: &str = "gen_ai.operation.name";
pub const PROVIDER: &str = "gen_ai.provider.name";
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub const CONVERSATION: &str = "gen_ai.conversation.id";
pub const TOOL_NAME: &str = "gen_ai.tool.name";
pub const TOOL_CALL: &str = "gen_ai.tool.call.id";
pub const FIRST_TOKEN_S: &str = "gen_ai.response.time_to_first_chunk";

pub const ERROR_TYPE: &str = "error.type";
pub const METHOD: &str = "http.request.method";
pub const ROUTE: &str = "http.route";
pub const STATUS: &str = "http.response.status_code";
pub const MESSAGING: &str = "messaging.system";
pub const DESTINATION: &str = "messaging.destination.name";
pub const MESSAGING_OPERATION: &str = "messaging.operation.name";

/// Ours.
pub const TURN: &str = "agentchat.turn.id";
pub const ATTEMPT: &str = "agentchat.turn.attempt";
pub const OUTCOME: &str = "agentchat.turn.outcome";
