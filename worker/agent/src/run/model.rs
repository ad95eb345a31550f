//! What the model says: text, calls, or nothing that can be used.
use contract::error_code::ErrorCode;
use contract::event::{Event, TurnStatus};
use contract::job::Locale;
use contract::limits;

use super::Run;
use super::results;
use super::state::Step;
use crate::effect::Effect;
use crate::input::{Arguments, Finish, ModelFailure, ModelOutput};

/// Between the texts of two steps.
const SEPARATOR: &str = "\n\n";

enum Notice {
    Cut,
    Filtered,
}

impl Run {
    pub(super) fn handle_model_text(&mut self, delta: &str) -> Vec<Effect> {
        if delta.is_empty() {
            return Vec::new();
        }
        let token = results::without_nul(delta).into_owned();
        let mut effects = Vec::new();
        if self.step.said.is_empty() && !self.text.is_empty() {
            self.text.push_str(SEPARATOR);
            effects.push(Effect::Emit(Event::StreamToken { token: SEPARATOR.to_owned() }));
        }
        self.text.push_str(&token);
        self.step.said.push_str(&token);
        effects.push(Effect::Emit(Event::StreamToken { token }));
        effects
    }

    pub(super) fn handle_model_finished(&mut self, output: ModelOutput) -> Vec<Effect> {
        self.usage.input_tokens += output.usage.input_tokens;
        self.usage.output_tokens += output.usage.output_tokens;
        let calls = !output.tool_calls.is_empty();
        let text = !self.step.said.trim().is_empty();
        let cut_short = |arguments: &Arguments| matches!(arguments, Arguments::Unparsable { .. });
        match output.finish {
            Finish::Missing => self.malformed(),
            Finish::ContentFilter => self.refused(),
            Finish::Length if calls => self.malformed(),
            Finish::Length if text => self.complete(Some(&Notice::Cut)),
            Finish::Stop | Finish::ToolCalls | Finish::Length => {
                if output.tool_calls.iter().any(|call| cut_short(&call.arguments)) {
                    self.malformed()
                } else if calls {
                    self.propose(output.tool_calls)
                } else if text {
                    self.complete(None)
                } else {
                    self.malformed()
                }
            }
        }
    }

    pub(super) fn handle_model_failed(&mut self, failure: ModelFailure) -> Vec<Effect> {
        match failure {
            ModelFailure::Unavailable => vec![self.fail(ErrorCode::LlmUnavailable)],
            ModelFailure::Malformed => self.malformed(),
            ModelFailure::Refused => self.refused(),
        }
    }

    /// Nothing of this answer is used. The model is asked once more, and only once.
    fn malformed(&mut self) -> Vec<Effect> {
        if self.step.retried || self.usage.steps >= limits::STEPS_PER_TURN {
            return vec![self.fail(ErrorCode::LlmUnavailable)];
        }
        let mut effects = Vec::new();
        if !self.step.said.is_empty() {
            effects.push(Effect::WithdrawStep);
        }
        self.text.truncate(self.step.text_from);
        self.usage.steps += 1;
        self.step = Step { text_from: self.text.len(), retried: true, ..Step::default() };
        effects.push(Effect::CallModel(self.request()));
        effects
    }

    fn refused(&mut self) -> Vec<Effect> {
        if self.step.said.trim().is_empty() {
            vec![self.fail(ErrorCode::LlmRefused)]
        } else {
            self.complete(Some(&Notice::Filtered))
        }
    }

    fn complete(&mut self, notice: Option<&Notice>) -> Vec<Effect> {
        let warning = notice.map(|notice| Effect::Emit(notice.warning(self.locale)));
        let end = self.end(TurnStatus::Completed, None);
        warning.into_iter().chain([end]).collect()
    }
}

impl Notice {
    fn warning(&self, locale: Locale) -> Event {
        let (code, en, ru) = match self {
            Self::Cut => (
                "ANSWER_CUT",
                "The answer reached its length limit and was cut.",
                "Ответ достиг предела длины и обрезан.",
            ),
            Self::Filtered => (
                "ANSWER_FILTERED",
                "The language model's content filter stopped the answer here.",
                "Фильтр содержимого языковой модели остановил ответ здесь.",
            ),
        };
        let detail = match locale {
            Locale::En => en,
            Locale::Ru => ru,
        };
        Event::Warning { code: code.to_owned(), detail: detail.to_owned() }
    }
}
