//! Inputs and effects as lines for transcripts.
use contract::event::Event;
use contract::job::Locale;
use expect_test::Expect;

use super::world::{World, question};
use crate::effect::{Effect, Pause};
use crate::input::Input;
use crate::message::Message;
use crate::run::Begin;

/// Plays a turn and compares what the run asked for. A decision and a resumption start a turn.
#[track_caller]
pub(super) fn check(inputs: Vec<Input>, expected: Expect) {
    check_from(question(Locale::En), inputs, expected);
}

#[track_caller]
pub(super) fn check_from(begin: Begin, inputs: Vec<Input>, expected: Expect) {
    let (mut world, effects) = World::begin(begin);
    let mut lines = vec!["begin".to_owned()];
    lines.extend(effects.iter().map(effect));
    for input in inputs {
        lines.push(input_line(&input));
        if world.run.paused().is_some() && world.run.clone().handle(input.clone()).is_ok() {
            world.start_turn();
        }
        match world.feed(input) {
            Ok(effects) => lines.extend(effects.iter().map(effect)),
            Err(refused) => lines.push(format!("  ! {refused}")),
        }
    }
    lines.push("parts".to_owned());
    lines.extend(world.run.parts().iter().map(message));
    lines.push(format!("text {:?}, steps {}", world.run.text(), world.run.steps()));
    expected.assert_eq(&(lines.join("\n") + "\n"));
}

fn input_line(input: &Input) -> String {
    match input {
        Input::ModelText(text) => format!("text {text:?}"),
        Input::ModelFinished(output) => {
            let calls: Vec<String> = output
                .tool_calls
                .iter()
                .map(|call| format!(" {}:{}", call.id, call.name))
                .collect();
            format!("finish {:?}{}", output.finish, calls.concat())
        }
        Input::ModelFailed(failure) => format!("model failed {failure:?}"),
        Input::ToolProgress { call_id, elapsed_s } => format!("progress {call_id} {elapsed_s} s"),
        Input::ToolFinished { call_id, outcome } => format!("finished {call_id} {outcome:?}"),
        Input::ToolSettled { call_id, outcome } => format!("settled {call_id} {outcome:?}"),
        Input::Decided(decisions) => {
            let each = decisions.iter().map(|one| format!(" {} {:?}", one.call_id, one.verdict));
            format!("decided{}", each.collect::<String>())
        }
        Input::Resumed => "resumed".to_owned(),
        Input::Cancel => "cancel".to_owned(),
    }
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Emit(event) => format!("  emit {}", event_text(event)),
        Effect::Checkpoint => "  checkpoint".to_owned(),
        Effect::CallModel(request) => {
            let last = request.messages.last().map(message).unwrap_or_default();
            format!("  call model, {} messages, last{last}", request.messages.len())
        }
        Effect::CallTool(call) => format!("  call {} {} {}", call.id, call.name, call.arguments),
        Effect::WithdrawStep => "  withdraw step".to_owned(),
        Effect::Pause(Pause::Token) => "  pause for a token".to_owned(),
        Effect::Pause(Pause::Confirm { calls, prompt }) => {
            let ids: Vec<&str> = calls.iter().map(|call| call.tool_call_id.as_str()).collect();
            format!("  pause for {}: {prompt:?}", ids.join(", "))
        }
        Effect::End(end) => match &end.error {
            Some((code, detail)) => format!("  end {:?} {} {detail:?}", end.status, code.as_str()),
            None => format!("  end {:?}", end.status),
        },
    }
}

fn event_text(event: &Event) -> String {
    match event {
        Event::StreamToken { token } => format!("token {token:?}"),
        Event::ToolStart { tool_call_id, tool, .. } => format!("start {tool_call_id} {tool}"),
        Event::ToolEnd { tool_call_id, output, .. } => format!("end {tool_call_id} {output}"),
        Event::ToolError { tool_call_id, error, code, .. } => {
            format!("error {tool_call_id} {} {error:?}", code.map_or("-", |code| code.as_str()))
        }
        Event::ToolProgress { tool_call_id, elapsed_s, .. } => {
            format!("progress {tool_call_id} {elapsed_s} s")
        }
        Event::Warning { code, .. } => format!("warning {code}"),
        Event::Queued(_)
        | Event::Attempt { .. }
        | Event::ConfirmRequired(_)
        | Event::ConfirmResolved { .. }
        | Event::Rewind { .. }
        | Event::StreamGap { .. }
        | Event::Message { .. }
        | Event::Error { .. }
        | Event::TurnEnd(_)
        | Event::Session(_) => panic!("a run doesn't emit {event:?}"),
    }
}

fn message(message: &Message) -> String {
    match message {
        Message::System { content } => format!("  system {content:?}"),
        Message::User { content, .. } => format!("  user {content:?}"),
        Message::Assistant { content, tool_calls } => {
            let ids: Vec<String> = tool_calls.iter().map(|call| format!(" {}", call.id)).collect();
            format!("  assistant {content:?}{}", ids.concat())
        }
        Message::Tool { tool_call_id, content } => format!("  result {tool_call_id} {content}"),
    }
}
