//! CallModel → pieces of a completion → inputs.
use agent::effect::ModelRequest;
use agent::input::{Finish, Input, ModelFailure, ModelOutput, ProposedCall};
use opentelemetry::trace::Status;
use shared::runtime::telemetry::attr;
use shared::runtime::trace::Trace;
use tokio::time::Instant;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::app::App;
use crate::llm::{Completion, LlmFailure, Pictures, Piece, Raw};
use crate::metrics;
use crate::tools::Registry;

/// A completion under way. Dropping it closes the socket to the model, and the span.
pub struct Running {
    completion: Completion,
    span: Span,
    asked: Instant,
    /// Text came.
    spoke: bool,
}

/// Asks the model; belongs to `trace`, where the turn stands.
pub fn ask(app: &App, request: &ModelRequest, pictures: &Pictures, trace: &Trace) -> Running {
    let model = app.llm.model();
    let span = info_span!("model", otel.name = format!("chat {model}"), otel.kind = "client");
    span.set_attribute(attr::OPERATION, "chat");
    span.set_attribute(attr::PROVIDER, "openai");
    span.set_attribute(attr::REQUEST_MODEL, model.to_owned());
    let completion =
        app.llm.within(trace.within(&span)).stream(request, pictures, app.tools.specs());
    Running { completion, span, asked: Instant::now(), spoke: false }
}

/// The next input of the running completion; never ready without one.
pub async fn next(completion: &mut Option<Running>, tools: &Registry) -> Input {
    let Some(running) = completion else { return std::future::pending().await };
    let input = match running.completion.next().await {
        Ok(Piece::Text(text)) => {
            running.speaks();
            return Input::ModelText(text);
        }
        Ok(Piece::Done(raw)) => {
            running.is_done(&raw);
            Input::ModelFinished(output(raw, tools))
        }
        Err(failure) => {
            running.has_failed(failure);
            Input::ModelFailed(reason(&failure))
        }
    };
    *completion = None;
    input
}

impl Running {
    fn speaks(&mut self) {
        if !self.spoke {
            self.spoke = true;
            let waited = self.asked.elapsed().as_secs_f64();
            metrics::MODEL_FIRST_TOKEN.record(waited, &[]);
            self.span.set_attribute(attr::FIRST_TOKEN_S, waited);
        }
    }

    fn is_done(&self, raw: &Raw) {
        let (input, output) = (raw.usage.input_tokens, raw.usage.output_tokens);
        metrics::TOKENS.add(input, &metrics::label("kind", "input"));
        metrics::TOKENS.add(output, &metrics::label("kind", "output"));
        self.span.set_attribute(attr::INPUT_TOKENS, signed(input));
        self.span.set_attribute(attr::OUTPUT_TOKENS, signed(output));
        self.span.set_attribute(attr::FINISH_REASONS, finish(raw.finish));
    }

    fn has_failed(&self, failure: LlmFailure) {
        let kind = match failure {
            LlmFailure::Unavailable { .. } => "unavailable",
            LlmFailure::Malformed => "malformed",
            LlmFailure::Refused => "refused",
        };
        self.span.set_attribute(attr::ERROR_TYPE, kind);
        self.span.set_status(Status::error(failure.to_string()));
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn finish(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool_calls",
        Finish::ContentFilter => "content_filter",
        Finish::Missing => "missing",
    }
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
