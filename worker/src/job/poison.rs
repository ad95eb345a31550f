//! A turn whose workers died too often: it ends with what the user has seen of it.
use agent::effect::{Effect, PlannedCall};
use agent::message::Message;
use agent::run::Run;
use agent::tool::SideEffect;
use contract::error_code::ErrorCode;
use contract::event::{Event, TurnEnd, TurnStatus, Usage};
use contract::job::Locale;
use contract::{limits, subject};
use shared::bus::dead_letter;
use shared::bus::events::{self, Stored};
use shared::store::messages::Finish;
use shared::store::turns::{self, AssistantRow, Commit, RunChange, SavedRun};
use tracing::{error, warn};

use super::{Opened, Outcome, Story, restore, unavailable};
use crate::driver::Stop;
use crate::driver::commit::{audit, empty_commit};
use crate::lease::Lease;
use crate::metrics;

/// What is told to the model of a call that was left behind.
const LEFT: &str = "the turn was given up";

/// What is left of a turn.
#[derive(Default)]
struct Remains {
    text: String,
    parts: Vec<Message>,
    usage: Usage,
    /// Puts the screen right before the error comes.
    events: Vec<Event>,
}

impl Story<'_> {
    /// The letter goes out first: whoever dies between it and the commit comes here again, and the letter is known
    /// by its turn. Behind the commit a redelivery finds the events that are still owed.
    pub(super) async fn poisoned(
        &self,
        (attempt, epoch): (u32, i64),
        lease: &Lease,
        checkpoint: Option<SavedRun>,
        opened: Opened<'_>,
    ) -> Result<Outcome, Stop> {
        let publisher = opened.await.0.map_err(unavailable)?;
        error!(attempt, "A job is given up as its workers died; a copy goes to the dead letters");
        let remains = self.remains(checkpoint).await?;
        let code = ErrorCode::WorkerCrashed;
        let detail = code.text(self.locale()).to_owned();
        let mut events = remains.events;
        events.push(Event::Error { code, detail, extra: None });
        events.push(Event::TurnEnd(TurnEnd {
            status: TurnStatus::Failed,
            text: (remains.text.len() <= limits::ANSWER_IN_ONE_EVENT_BYTES)
                .then(|| remains.text.clone()),
            usage: Some(remains.usage),
            timings: None,
        }));
        let broken = |error: serde_json::Error| Stop::Broken(error.into());
        let parts = serde_json::to_value(&remains.parts).map_err(broken)?;
        let outbox = serde_json::to_value(&events).map_err(broken)?;
        let is_empty = remains.text.is_empty() && remains.parts.is_empty();
        let row = AssistantRow { text: remains.text, parts, finish: Finish::Failed };
        // This one is not tried.
        let tried = attempt.saturating_sub(1);
        dead_letter::publish(&self.app.bus, self.job, "attempts exhausted", tried)
            .await
            .map_err(unavailable)?;
        let reason = metrics::label("reason", metrics::ATTEMPTS_EXHAUSTED);
        metrics::DEAD_LETTERS.add(1, &reason);
        let commit = Commit {
            cursor: publisher.last_seq(),
            run: RunChange::Clear,
            assistant: (!is_empty).then_some(row),
            finish: Some((TurnStatus::Failed, outbox)),
            audit: vec![audit(self.job, "turn", code.as_str())],
            release_lease: true,
            ..empty_commit(self.job, epoch)
        };
        lease.conclude(turns::commit(&self.app.pool, &commit)).await?;
        self.tell_once(publisher, events).await
    }

    fn locale(&self) -> Locale {
        self.job.locale.of_text(&self.job.text)
    }

    async fn remains(&self, checkpoint: Option<SavedRun>) -> Result<Remains, Stop> {
        let job = self.job;
        let own = checkpoint.filter(|saved| saved.turn_id == job.turn_id);
        let from = own.as_ref().map_or(1, |saved| saved.cursor + 1);
        let filter = subject::event(job.conversation_id, &job.session, job.turn_id);
        let log = events::replay(&self.app.bus, &filter, from).await.map_err(unavailable)?;
        let shown = shown(&log);
        let Some(saved) = own else { return Ok(Remains::of_text(shown)) };
        match restore(&saved) {
            Ok(run) => Ok(Remains::of_run(&run, saved.cursor, &shown, self.locale())),
            Err(_) => {
                // It may be what the workers died of.
                warn!("The checkpoint of a turn that is given up can't be read");
                let log = events::replay(&self.app.bus, &filter, 1).await.map_err(unavailable)?;
                Ok(Remains::of_text(self::shown(&log)))
            }
        }
    }
}

impl Remains {
    fn of_text(text: String) -> Self {
        let mut remains = Self::default();
        remains.say(&text);
        remains
    }

    /// `shown` came after the checkpoint at `cursor`.
    fn of_run(run: &Run, cursor: u64, shown: &str, locale: Locale) -> Self {
        let mut remains = Self {
            text: run.text().to_owned(),
            parts: run.parts(),
            usage: run.usage(),
            events: Vec::new(),
        };
        remains.parts.extend(run.abandoned(LEFT));
        let (mut unsent, mut errors) = (Vec::new(), Vec::new());
        for effect in run.recover() {
            match effect {
                Effect::Emit(event) => unsent.push(event),
                Effect::CallTool(call) => errors.push(abandoned(call, locale)),
                Effect::Checkpoint
                | Effect::CallModel(_)
                | Effect::WithdrawStep
                | Effect::Pause(_)
                | Effect::End(_) => {}
            }
        }
        if !errors.is_empty() {
            // Nobody knows which of them the screen has: all of them again, each call with its end.
            remains.events.push(Event::Rewind { to_cursor: cursor.to_string() });
            remains.events.extend(unsent);
            remains.events.extend(errors);
        }
        remains.say(shown);
        remains
    }

    fn say(&mut self, text: &str) {
        self.text.push_str(text);
        if !text.trim().is_empty() {
            let content = text.trim_start().to_owned();
            self.parts.push(Message::Assistant { content, tool_calls: Vec::new() });
        }
    }
}

fn abandoned(call: PlannedCall, locale: Locale) -> Event {
    let (text, code) = match call.side_effect {
        SideEffect::Read => (ErrorCode::WorkerCrashed, None),
        SideEffect::Idempotent | SideEffect::Once => {
            (ErrorCode::OutcomeUnknown, Some(ErrorCode::OutcomeUnknown))
        }
    };
    let error = text.text(locale).to_owned();
    Event::ToolError { tool_call_id: call.id, tool: call.name, error, code }
}

/// The text that stands on the screen.
fn shown(log: &[Stored]) -> String {
    let mut pieces: Vec<(u64, &str)> = Vec::new();
    for stored in log {
        if let Event::StreamToken { token } = &stored.envelope.event {
            pieces.push((stored.seq, token));
        }
        if let Event::Rewind { to_cursor } = &stored.envelope.event {
            let to = to_cursor.parse().unwrap_or(u64::MAX);
            pieces.retain(|(seq, _)| *seq <= to);
        }
    }
    pieces.into_iter().map(|(_, token)| token).collect()
}
