//! What a run leaves behind, as text that is the same for every run of the script.
use serde_json::Value;
use uuid::Uuid;

use super::script::{Script, unmark};
use super::stage::Stage;
use super::transcript::{self, Names};
use crate::gradio::turn::Turn;

/// Compared line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub screen: Vec<String>,
    pub history: Vec<String>,
    pub effects: Vec<String>,
    /// Who did what, from the audit table.
    pub audit: Vec<String>,
}

/// An outcome, and what is wrong with it whatever it is compared with.
pub struct Found {
    pub outcome: Outcome,
    pub wrong: Vec<String>,
}

pub async fn find(
    stage: &Stage,
    script: &Script,
    user: &str,
    conversation: Uuid,
    turns: &[Turn],
) -> Found {
    let mut found = Found { outcome: Outcome::default(), wrong: Vec::new() };
    let mut names = Names::default();
    let mut streamed = Vec::new();
    for turn in turns {
        let mut tokens = String::new();
        found.outcome.screen.extend(transcript::fold(turn, &mut names, &mut tokens));
        let ends = turn.all("turn_end").len();
        found.check(ends == 1, || format!("{ends} turn_end values in one turn"));
        streamed.push(tokens);
    }
    let history = stage.cluster.rest(user).history(&conversation.to_string()).await;
    found.stored(&history, &streamed, turns, &mut names);
    found.effects(stage, script, user, &mut names);
    found.audit(stage, conversation, &mut names).await;
    found.leftovers(stage, conversation).await;
    found.wrong.extend(stage.cluster.model.take_violations());
    found.wrong.extend(stage.cluster.backend.take_violations());
    found
}

impl Found {
    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(what());
        }
    }

    /// The stored messages; the text must be, letter by letter, what was streamed.
    fn stored(
        &mut self,
        history: &[Value],
        streamed: &[String],
        turns: &[Turn],
        names: &mut Names,
    ) {
        let assistant = history.iter().filter(|message| message["role"] == "assistant");
        let texts: Vec<&str> =
            assistant.map(|message| message["content"].as_str().unwrap_or_default()).collect();
        let spoken: Vec<&str> =
            streamed.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        let written: Vec<&str> = texts.iter().copied().filter(|text| !text.is_empty()).collect();
        self.check(spoken == written, || format!("streamed {spoken:?}, stored {written:?}"));
        for (turn, tokens) in turns.iter().zip(streamed) {
            let plain = turn.values.last().filter(|value| value["metadata"]["type"].is_null());
            if let Some(value) = plain {
                let whole = value["content"].as_str().unwrap_or_default();
                self.check(whole == tokens, || format!("streamed {tokens:?}, at last {whole:?}"));
            }
        }
        for message in history {
            let (content, _) = unmark(message["content"].as_str().unwrap_or_default());
            let line = format!("{} {content:?} {}", message["role"], message["finish"]);
            self.outcome.history.push(line);
            for part in message["parts"].as_array().into_iter().flatten() {
                let line = self.part(part, names);
                self.outcome.history.push(line);
            }
        }
    }

    fn part(&mut self, part: &Value, names: &mut Names) -> String {
        let content = part["content"].as_str().unwrap_or_default();
        if let Some(id) = part["tool_call_id"].as_str() {
            return format!("  tool {} {content}", names.of("call", id));
        }
        let (text, numbers) = unmark(content);
        let mixed = numbers.windows(2).any(|pair| pair[0] != pair[1]);
        self.check(!mixed, || format!("one step's text comes from two answers: {content:?}"));
        let calls = part["tool_calls"].as_array().into_iter().flatten().map(|call| {
            let id = call["id"].as_str().unwrap_or_default();
            let name = call["name"].as_str().or(call["function"]["name"].as_str());
            format!(" {}:{}", names.of("call", id), name.unwrap_or_default())
        });
        format!("  {} {text:?}{}", part["role"], calls.collect::<String>())
    }

    fn effects(&mut self, stage: &Stage, script: &Script, user: &str, names: &mut Names) {
        let backend = &stage.cluster.backend;
        let mut reads: Vec<String> = Vec::new();
        let mut keys: Vec<String> = Vec::new();
        for call in backend.calls().into_iter().filter(|call| call.user == user) {
            let changes = !call.path.is_empty() && !call.body.is_null();
            if !changes {
                reads.push(format!("read {} {}", call.operation, call.query));
                continue;
            }
            let repeated = keys.contains(&call.idempotency_key);
            let allowed = call.operation == "deploy" && script.is_idempotent("deploy_dashboard");
            self.check(!repeated || allowed, || format!("{} was called twice", call.operation));
            keys.push(call.idempotency_key);
        }
        reads.sort();
        reads.dedup();
        let effects = backend.effects().into_iter().filter(|effect| effect.user == user);
        let mut effects: Vec<String> = effects
            .map(|effect| {
                let call = effect.idempotency_key.rsplit_once(':').map(|(_, id)| id.to_owned());
                let call = names.of("call", &call.unwrap_or_default());
                format!("{call} {} {} {}", effect.operation, effect.target, effect.body)
            })
            .collect();
        effects.sort();
        self.outcome.effects = reads.into_iter().chain(effects).collect();
    }

    async fn audit(&mut self, stage: &Stage, conversation: Uuid, names: &mut Names) {
        let rows: Vec<(String, String, String, Option<String>)> = sqlx::query_as(
            "SELECT operation, decision, outcome, tool_call_id FROM assistant_audit \
             WHERE conversation_id = $1",
        )
        .bind(conversation)
        .fetch_all(&stage.pool)
        .await
        .unwrap();
        let mut lines: Vec<String> = rows
            .into_iter()
            .map(|(operation, decision, outcome, call)| {
                let call = call.map_or_else(String::new, |id| names.of("call", &id));
                format!("audit {call} {operation} {decision} {outcome}")
            })
            .collect();
        lines.sort();
        self.outcome.audit = lines;
    }

    /// Nothing of the conversation waits or is held.
    async fn leftovers(&mut self, stage: &Stage, conversation: Uuid) {
        let questions = [
            (
                "leases are held",
                "SELECT count(*) FROM leases WHERE conversation_id = $1 AND until > '-infinity'",
            ),
            (
                "cards are open",
                "SELECT count(*) FROM confirmations WHERE conversation_id = $1 AND status = 'open'",
            ),
            ("checkpoints are left", "SELECT count(*) FROM checkpoints WHERE conversation_id = $1"),
            (
                "journal entries are left",
                "SELECT count(*) FROM checkpoint_writes WHERE conversation_id = $1",
            ),
            (
                "turns are not finished",
                "SELECT count(*) FROM turns WHERE conversation_id = $1 AND finished_at IS NULL",
            ),
        ];
        for (what, question) in questions {
            let count: i64 = sqlx::query_scalar(question)
                .bind(conversation)
                .fetch_one(&stage.pool)
                .await
                .unwrap();
            self.check(count == 0, || format!("{count} {what}"));
        }
    }
}
