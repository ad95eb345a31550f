//! CallModel → pieces of a completion → inputs.
use agent::input::{Input, ModelFailure, ModelOutput, ProposedCall};

use crate::llm::{Completion, LlmFailure, Piece, Raw};
use crate::tools::Registry;

/// The next input of the running completion; never ready without one.
pub async fn next(completion: &mut Option<Completion>, tools: &Registry) -> Input {
    let Some(running) = completion else { return std::future::pending().await };
    let input = match running.next().await {
        Ok(Piece::Text(text)) => return Input::ModelText(text),
        Ok(Piece::Done(raw)) => Input::ModelFinished(output(raw, tools)),
        Err(failure) => Input::ModelFailed(reason(&failure)),
    };
    *completion = None;
    input
}

fn output(raw: Raw, tools: &Registry) -> ModelOutput {
    let proposed = |call: crate::llm::RawCall| ProposedCall {
        arguments: tools.check(&call.name, &call.arguments),
        id: call.id,
        name: call.name,
    };
    ModelOutput {
        tool_calls: raw.calls.into_iter().map(proposed).collect(),
        finish: raw.finish,
        usage: raw.usage,
    }
}

fn reason(failure: &LlmFailure) -> ModelFailure {
    match failure {
        LlmFailure::Unavailable { .. } => ModelFailure::Unavailable,
        LlmFailure::Malformed => ModelFailure::Malformed,
        LlmFailure::Refused => ModelFailure::Refused,
    }
}
