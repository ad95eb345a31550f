//! What the model is told at the start of a turn: the rules, a window of history, a summary of what fell out of it.
use std::time::Duration;

use agent::documents::{self, Budget};
use agent::history::{self, TurnHistory, Window};
use agent::message::Message;
use agent::prompt::{self, SystemPrompt};
use agent::run::Begin;
use agent::toolbox;
use contract::job::{FileRef, Job, Locale};
use shared::runtime::clock;
use shared::store::CommitError;
use shared::store::conversations;
use shared::store::messages::Role;
use shared::store::turns::{HistoryRow, Started};
use tracing::warn;
use uuid::Uuid;

use crate::app::App;
use crate::attachments::Files;
use crate::llm::tokens;

/// A summary that takes longer is done without: old turns are dropped.
const SUMMARY_TIMEOUT: Duration = Duration::from_secs(20);
const SUMMARY_TOKENS: u32 = 600;
/// The share of the budget kept word by word once a summary is made, so that the next turn needs none.
const KEPT_PER_CENT: usize = 60;
/// A user's own message may have so many tokens; more is cut.
const USER_TOKENS: usize = 32_000;

/// Everything the run starts from.
pub struct Gathered {
    pub begin: Begin,
    /// The user's message had to be cut.
    pub user_cut: bool,
    /// Places of the files that had to be.
    pub files_cut: Vec<usize>,
}

pub async fn gather(
    app: &App,
    job: &Job,
    started: &Started,
    files: &Files,
) -> Result<Gathered, CommitError> {
    let locale = job.locale.of_text(&job.text);
    let turns = turn_histories(&started.history);
    let summary = started.summary.as_ref().map(|summary| summary.text.clone());
    let (window, summary) = fit(app, job, started, &turns, summary).await?;
    let previous = tools_used(&turns);
    let names: Vec<String> = app.tools.specs().iter().map(|spec| spec.name.clone()).collect();
    let (user, user_cut) = cut_user(&job.text);
    let tools = toolbox::tools_for(&user, &previous, &names);
    let takes_pictures = app.config.model.images;
    let budget = Budget {
        file: app.config.documents.file_bytes,
        message: app.config.documents.message_bytes,
    };
    // Nobody can have written it into a file.
    let key = Uuid::new_v4().simple().to_string();
    let quoted = documents::quote(&key, &files.documents(locale, takes_pictures), budget, &user);
    let begin = Begin {
        origin: job.turn_id.to_string(),
        locale,
        system: system(locale),
        history: history::with_summary(summary.as_deref(), window.kept),
        tools,
        user: quoted.text,
        images: if takes_pictures { files.pictures() } else { Vec::new() },
        text_prefix: String::new(),
    };
    Ok(Gathered { begin, user_cut, files_cut: quoted.cut })
}

/// Files of the message before this one.
pub fn newest_files(started: &Started) -> &[FileRef] {
    let newest = started.history.iter().rev().find(|row| row.role == Role::User);
    newest.map_or(&[], |row| &row.files)
}

fn system(locale: Locale) -> String {
    let today = clock::now().date().to_string();
    SystemPrompt { locale, today: Some(today), extra: None }.render()
}

/// The window of history; what falls out of it is summarised once, and the summary is stored.
async fn fit(
    app: &App,
    job: &Job,
    started: &Started,
    turns: &[TurnHistory],
    summary: Option<String>,
) -> Result<(Window, Option<String>), CommitError> {
    let budget = app.config.history_tokens;
    let window = history::window(turns, budget, &tokens::count);
    if window.whole_turns_dropped == 0 {
        return Ok((window, summary));
    }
    let smaller = history::window(turns, budget * KEPT_PER_CENT / 100, &tokens::count);
    let covered = smaller.whole_turns_dropped;
    let dropped: Vec<Message> =
        turns.iter().take(covered).flat_map(|turn| turn.messages.clone()).collect();
    let request =
        prompt::summary_request(job.locale.of_text(&job.text), summary.as_deref(), &dropped);
    let made =
        tokio::time::timeout(SUMMARY_TIMEOUT, app.llm.complete(&request, SUMMARY_TOKENS)).await;
    let text = match made {
        Ok(Ok(text)) if !text.trim().is_empty() => text,
        Ok(Ok(_)) => return Ok((window, summary)),
        Ok(Err(error)) => {
            warn!(error = ?error, "Summarising failed; the oldest turns are left out");
            return Ok((window, summary));
        }
        Err(_) => {
            warn!("Summarising took too long; the oldest turns are left out");
            return Ok((window, summary));
        }
    };
    let upto = last_row_of_turn(&started.history, covered);
    if let Some(upto) = upto {
        let saved =
            conversations::save_summary(&app.pool, job.conversation_id, started.epoch, &text, upto)
                .await;
        match saved {
            Ok(()) => {}
            Err(fenced @ CommitError::Fenced) => return Err(fenced),
            Err(CommitError::Store(error)) => {
                warn!(error = format!("{error:?}"), "Storing a summary failed");
            }
        }
    }
    Ok((smaller, Some(text)))
}

/// A user's row starts a turn; an answer without one (after a decision) belongs to the turn that had paused.
fn turn_histories(rows: &[HistoryRow]) -> Vec<TurnHistory> {
    let mut turns: Vec<TurnHistory> = Vec::new();
    for row in rows {
        if row.role == Role::User || turns.is_empty() {
            turns.push(TurnHistory::default());
        }
        if let Some(turn) = turns.last_mut() {
            turn.messages.extend(messages(row));
        }
    }
    turns
}

fn messages(row: &HistoryRow) -> Vec<Message> {
    if row.role == Role::User {
        let names: Vec<&str> = row.files.iter().map(|file| file.name.as_str()).collect();
        return vec![Message::user(documents::attached(&row.content, &names))];
    }
    let parts =
        row.parts.clone().and_then(|parts| serde_json::from_value::<Vec<Message>>(parts).ok());
    match parts {
        Some(parts) if !parts.is_empty() => parts,
        Some(_) | None => {
            vec![Message::Assistant { content: row.content.clone(), tool_calls: Vec::new() }]
        }
    }
}

/// Id of the last row of the first `count` turns.
fn last_row_of_turn(rows: &[HistoryRow], count: usize) -> Option<i64> {
    let mut starts = rows
        .iter()
        .enumerate()
        .filter(|(at, row)| row.role == Role::User || *at == 0)
        .map(|(at, _)| at);
    let end = starts.nth(count).unwrap_or(rows.len());
    rows.get(..end)?.last().map(|row| row.id)
}

/// Tools of the newest turns: a follow-up such as "and for that one?" needs them again.
fn tools_used(turns: &[TurnHistory]) -> Vec<String> {
    let recent = turns.iter().rev().take(2);
    let calls = recent.flat_map(|turn| &turn.messages).flat_map(Message::calls);
    calls.map(|call| call.name.clone()).collect()
}

fn cut_user(text: &str) -> (String, bool) {
    // A token has at least one byte.
    if text.len() <= USER_TOKENS || tokens::count(text) <= USER_TOKENS {
        return (text.to_owned(), false);
    }
    let chars = text.chars().count();
    let room = chars * USER_TOKENS / tokens::count(text).max(1);
    (contract::text::truncate_to(text, room).into_owned(), true)
}
