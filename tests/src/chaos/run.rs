//! One run: a conversation is played while workers are struck; each has a successor.
use std::time::Duration;

use contract::event::Envelope;
use contract::ids::ConversationId;
use contract::subject;
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use super::events::{self, is_takeover};
use super::fault::Fault;
use super::outcome::{self, Found};
use super::script::Script;
use super::stage::{LEASE, Stage, Worker};
use super::wire::{Note, Strike, Trap};
use crate::gradio::turn::Turn;
use crate::gradio::{Client, Submission};

/// Nothing takes longer, on however slow a machine.
const DEADLINE: Duration = Duration::from_secs(90);
/// How long a busy conversation is asked again.
const BUSY_FOR: Duration = Duration::from_secs(20);
const EXITS_WITHIN: Duration = Duration::from_secs(20);
const JOBS_GONE_WITHIN: Duration = Duration::from_secs(15);
/// An outage lasts longer than a lease, and ends at the latest after two.
const SHORTEST_OUTAGE: Duration = LEASE.saturating_add(Duration::from_millis(300));
const LONGEST_OUTAGE: Duration = LEASE.saturating_mul(2);

/// What is played, and the traps of the workers in turn; whoever comes after them is left in peace.
#[derive(Clone, Debug)]
pub struct Plan {
    pub script: Script,
    pub traps: Vec<Trap>,
}

pub struct Report {
    pub strikes: Vec<Strike>,
    /// What each worker sent.
    pub notes: Vec<Vec<Note>>,
    pub found: Option<Found>,
    pub wrong: Vec<String>,
    pub takeovers: Vec<Takeover>,
    pub logs: String,
}

/// From a fault to the first event of the next worker.
#[derive(Clone, Copy, Debug)]
pub struct Takeover {
    pub fault: Fault,
    pub took: Duration,
    /// The next worker was ready so long after the fault.
    pub successor_ready: Duration,
}

impl Takeover {
    /// What it took beyond what it must: the job comes after the lease's length, to a worker that is there.
    pub fn delay(&self) -> Duration {
        self.took.saturating_sub(self.successor_ready.max(LEASE))
    }
}

pub async fn run(stage: &Stage, number: usize, plan: &Plan) -> Report {
    let mut play = Play {
        stage,
        plan,
        number,
        user: format!("user-{number}"),
        conversation: Uuid::new_v4(),
        cast: Vec::new(),
        entered: Vec::new(),
        sick: Vec::new(),
        wrong: Vec::new(),
    };
    let found = match timeout(DEADLINE, Box::pin(play.play())).await {
        Ok(found) => found,
        Err(_) => {
            play.wrong.push(format!("the run took longer than {DEADLINE:?}"));
            None
        }
    };
    play.report(found).await
}

struct Play<'a> {
    stage: &'a Stage,
    plan: &'a Plan,
    number: usize,
    user: String,
    conversation: Uuid,
    cast: Vec<Worker>,
    /// When each of the cast was ready.
    entered: Vec<Instant>,
    sick: Vec<Sick>,
    wrong: Vec<String>,
}

/// A worker that was struck and lives.
#[derive(Clone, Copy)]
struct Sick {
    index: usize,
    since: Instant,
    fault: Fault,
}

impl Play<'_> {
    async fn play(&mut self) -> Option<Found> {
        self.stage.set(&self.plan.script).await;
        let live = subject::live_of_conversation(ConversationId(self.conversation));
        let mut live = self.stage.bus.subscribe(live).await.unwrap();
        self.enter().await;
        let client = self.stage.cluster.client(&self.user);
        let (conversation, script) = (self.conversation.to_string(), self.plan.script.clone());
        let mut client = tokio::spawn(converse(client, conversation, script));
        let turns = loop {
            let current = self.cast.len() - 1;
            let heal_at = self.sick.iter().map(|sick| sick.since + LONGEST_OUTAGE).min();
            tokio::select! {
                turns = &mut client => break turns,
                strike = self.cast[current].wire.struck(), if self.sick.iter().all(|sick| sick.index != current)
                    && self.plan.traps.len() > current => self.struck(current, &strike).await,
                Some(message) = live.next(), if !self.sick.is_empty() => {
                    let envelope: Option<Envelope> = serde_json::from_slice(&message.payload).ok();
                    if envelope.is_some_and(|envelope| is_takeover(&envelope)) {
                        self.heal_all(SHORTEST_OUTAGE).await;
                    }
                }
                () = sleep_until(heal_at.unwrap_or_else(Instant::now)), if heal_at.is_some() => {
                    self.heal_all(LONGEST_OUTAGE).await;
                }
            }
        };
        self.heal_all(SHORTEST_OUTAGE).await;
        self.no_job_left().await;
        self.dismiss();
        match turns {
            Ok(Ok(turns)) => {
                let (script, user) = (&self.plan.script, &self.user);
                Some(outcome::find(self.stage, script, user, self.conversation, &turns).await)
            }
            Ok(Err(problem)) => {
                self.wrong.push(problem);
                None
            }
            Err(panic) => {
                self.wrong.push(format!("the client gave up: {panic}"));
                None
            }
        }
    }

    /// The next worker starts.
    async fn enter(&mut self) {
        let index = self.cast.len();
        let name = format!("run{}-worker{index}", self.number);
        let trap = self.plan.traps.get(index).cloned();
        let worker = self.stage.worker(&name, &self.plan.script, trap).await;
        self.cast.push(worker);
        self.entered.push(Instant::now());
    }

    async fn struck(&mut self, index: usize, strike: &Strike) {
        let fault = self.plan.traps[index].fault;
        let worker = &mut self.cast[index];
        if fault.kills() {
            block_in_place(|| worker.process.kill());
        } else {
            if fault == Fault::Freeze {
                worker.process.freeze();
            }
            self.sick.push(Sick { index, since: strike.at.into(), fault });
        }
        self.enter().await;
    }

    /// Ends every outage, none before its time.
    async fn heal_all(&mut self, lasting: Duration) {
        for sick in std::mem::take(&mut self.sick) {
            sleep_until(sick.since + lasting).await;
            let worker = &self.cast[sick.index];
            worker.wire.heal();
            if sick.fault == Fault::Freeze {
                worker.process.thaw();
            }
        }
    }

    /// A worker may be struck when its client has its answer already, before its job is acknowledged.
    async fn replace_struck(&mut self) -> bool {
        let current = self.cast.len() - 1;
        let strike = self.cast[current].wire.strike();
        let is_new = self.sick.iter().all(|sick| sick.index != current);
        let Some(strike) = strike.filter(|_| is_new && self.plan.traps.len() > current) else {
            return false;
        };
        self.struck(current, &strike).await;
        self.heal_all(SHORTEST_OUTAGE).await;
        true
    }

    async fn no_job_left(&mut self) {
        let context = async_nats::jetstream::new(self.stage.bus.clone());
        let mut deadline = Instant::now() + JOBS_GONE_WITHIN;
        loop {
            if self.replace_struck().await {
                deadline = Instant::now() + JOBS_GONE_WITHIN;
            }
            let jobs = context.get_stream(subject::STREAM_JOBS).await.unwrap();
            let left = jobs.cached_info().state.messages;
            if left == 0 {
                return;
            }
            if Instant::now() > deadline {
                self.wrong.push(format!("{left} jobs are left"));
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Who was struck and lives must be able to leave in good order; after that nothing more can come from it.
    fn dismiss(&mut self) {
        for (worker, trap) in self.cast.iter_mut().zip(&self.plan.traps) {
            let was_struck = worker.wire.strike().is_some();
            if was_struck && !trap.fault.kills() {
                // Its very last message may have been the one.
                worker.wire.heal();
                worker.process.thaw();
                let left = block_in_place(|| worker.process.terminate(EXITS_WITHIN));
                let ended = worker.process.exited();
                if !left || !ended.is_some_and(|status| status.success()) {
                    self.wrong
                        .push(format!("the struck worker did not leave by itself: {ended:?}"));
                }
            }
        }
        for worker in &mut self.cast {
            block_in_place(|| worker.process.kill());
        }
    }

    async fn report(mut self, found: Option<Found>) -> Report {
        let log = events::read(self.stage, self.conversation).await;
        self.wrong.extend(events::broken_promises(&log));
        let strikes: Vec<Strike> =
            self.cast.iter().filter_map(|worker| worker.wire.strike()).collect();
        let takeover = |(strike, entered): (&Strike, &Instant)| {
            let took = events::takeover(&log, strike, &strikes)?;
            let successor_ready = entered.saturating_duration_since(strike.at.into());
            Some(Takeover { fault: strike.fault, took, successor_ready })
        };
        let takeovers =
            strikes.iter().zip(self.entered.iter().skip(1)).filter_map(takeover).collect();
        let tails = self.cast.iter().map(|worker| {
            format!("---- {}\n{}\n", worker.process.name(), worker.process.log_tail(40))
        });
        Report {
            strikes,
            notes: self.cast.iter().map(|worker| worker.wire.notes()).collect(),
            found,
            takeovers,
            logs: tails.collect(),
            wrong: self.wrong,
        }
    }
}

/// The user's side: a message, then a decision for every card.
async fn converse(
    mut client: Client,
    conversation: String,
    script: Script,
) -> Result<Vec<Turn>, String> {
    let mut turns = vec![client.say(&conversation, "go").await];
    let mut cards = 0;
    let mut busy_until = Instant::now() + BUSY_FOR;
    while let Some(card) = turns.last().and_then(Turn::card) {
        let calls = card["calls"].as_array().map_or(&[][..], Vec::as_slice);
        let first: Option<&Value> = calls.first();
        if first.is_none() {
            return Err(format!("a card without calls: {card}"));
        }
        let action = script.decision(cards);
        let submission = Submission::new("", Some(&conversation), Some(action));
        let event = client.submit(submission).await;
        let turn = client.finish(&event).await;
        if turn.error_code() == Some("CONVERSATION_BUSY") && Instant::now() < busy_until {
            // The job of the turn before is still there: nothing is lost, and the card stays.
            continue;
        }
        turns.push(turn);
        cards += 1;
        busy_until = Instant::now() + BUSY_FOR;
    }
    Ok(turns)
}
