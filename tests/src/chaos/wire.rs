//! What stands between one worker and everything it talks to: counts its messages, and strikes at one of them.
//!
//! Counting starts when the worker asks for its first job. At the chosen message the wire does what it was told to, at once and for all
//! four channels together: what was sent before that message has arrived, nothing that comes after it does. So
//! a death here is exact to the message, though the signal itself takes a moment to reach the process.
mod relay;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::fault::{Fault, Point};
use super::message::{Channel, Message};

/// What a channel does with what it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// Nothing passes, in neither direction; it waits for the gate to open.
    Held,
    /// Connections are reset, new ones are closed at once.
    Cut,
    /// The worker is dead: what it sent is delivered, its connections end.
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gates([Gate; 4]);

impl Gates {
    const OPEN: Self = Self([Gate::Open; 4]);

    fn of(self, channel: Channel) -> Gate {
        self.0[channel as usize]
    }

    fn set(&mut self, channel: Channel, gate: Gate) {
        self.0[channel as usize] = gate;
    }
}

/// A counted message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub point: Point,
    pub channel: Channel,
    pub delivery: Delivery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Never,
    /// Before the fault struck, or as it did.
    Prompt,
    /// After the fault had struck.
    Late,
}

/// When and where the fault struck.
#[derive(Clone, Debug)]
pub struct Strike {
    pub fault: Fault,
    pub at: Instant,
    pub wall: SystemTime,
    pub point: Point,
    /// Its place among the counted messages, from 1.
    pub number: usize,
}

/// What to do, and at which message.
#[derive(Clone, Debug)]
pub struct Trap {
    pub fault: Fault,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Point(Point),
    /// The message of this number, from 1, whatever it is.
    Number(usize),
}

pub struct Wire {
    ports: [u16; 4],
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    gates: watch::Sender<Gates>,
    struck: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// For a job: from then on messages are counted.
    asked: bool,
    notes: Vec<Note>,
    seen: HashMap<String, usize>,
    trap: Option<Trap>,
    strike: Option<Strike>,
}

/// What becomes of a message.
enum Admission {
    Pass,
    /// Deliver it as the last thing this connection brings.
    PassAndEnd,
    /// The gate is closed, for a while.
    Hold,
    /// It is the end of this connection.
    Drop,
}

impl Wire {
    /// `targets`: `host:port` per channel, in the order of [`Channel::ALL`].
    pub async fn start(targets: [String; 4], trap: Option<Trap>) -> Wire {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { trap, ..State::default() }),
            gates: watch::Sender::new(Gates::OPEN),
            struck: watch::Sender::new(false),
        });
        let (mut ports, mut tasks) = ([0; 4], Vec::new());
        for (channel, target) in Channel::ALL.into_iter().zip(targets) {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            ports[channel as usize] = listener.local_addr().unwrap().port();
            let shared = Arc::clone(&shared);
            tasks.push(tokio::spawn(relay::accept(listener, target, channel, shared)));
        }
        Wire { ports, shared, tasks }
    }

    pub fn address(&self, channel: Channel) -> String {
        format!("127.0.0.1:{}", self.ports[channel as usize])
    }

    /// Returns when the fault has struck; never, if it doesn't.
    pub async fn struck(&self) -> Strike {
        let mut struck = self.shared.struck.subscribe();
        let _ = struck.wait_for(|struck| *struck).await;
        self.strike().expect("a strike that is told of is noted")
    }

    pub fn strike(&self) -> Option<Strike> {
        self.shared.state.lock().unwrap().strike.clone()
    }

    pub fn notes(&self) -> Vec<Note> {
        self.shared.state.lock().unwrap().notes.clone()
    }

    /// Everything passes again; what was held back goes first.
    pub fn heal(&self) {
        self.shared.gates.send_replace(Gates::OPEN);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.shared.gates.send_replace(Gates([Gate::Cut; 4]));
    }
}

impl Shared {
    /// Counts a message, unless it was counted before, and says what becomes of it.
    fn admit(&self, channel: Channel, message: &Message, counted: &mut Option<usize>) -> Admission {
        let mut state = self.state.lock().unwrap();
        state.asked |= message.asks_for_a_job;
        if counted.is_none()
            && state.asked
            && let Some(label) = &message.label
        {
            *counted = Some(state.count(channel, label));
            if let Some(index) = *counted
                && state.trap_is_at(index)
            {
                return self.strike(&mut state, channel, index);
            }
        }
        self.at_gate(channel)
    }

    fn at_gate(&self, channel: Channel) -> Admission {
        match self.gates.borrow().of(channel) {
            Gate::Open => Admission::Pass,
            Gate::Held => Admission::Hold,
            Gate::Cut | Gate::Dead => Admission::Drop,
        }
    }

    fn strike(&self, state: &mut State, channel: Channel, index: usize) -> Admission {
        let Some(trap) = state.trap.take() else { return Admission::Pass };
        state.strike = Some(Strike {
            fault: trap.fault,
            at: Instant::now(),
            wall: SystemTime::now(),
            point: state.notes[index].point.clone(),
            number: index + 1,
        });
        self.gates.send_modify(|gates| {
            for channel in Channel::ALL {
                if let Some(gate) = gate(trap.fault, channel) {
                    gates.set(channel, gate);
                }
            }
        });
        self.struck.send_replace(true);
        if trap.fault == Fault::KillAfter {
            return Admission::PassAndEnd;
        }
        self.at_gate(channel)
    }

    fn delivered(&self, note: Option<usize>) {
        let Some(index) = note else { return };
        let mut state = self.state.lock().unwrap();
        let is_late = state.strike.as_ref().is_some_and(|strike| match strike.fault {
            Fault::KillAfter => strike.number != index + 1,
            Fault::KillBefore
            | Fault::Freeze
            | Fault::CutNats
            | Fault::StallNats
            | Fault::CutPostgres
            | Fault::StallPostgres => true,
        });
        state.notes[index].delivery = if is_late { Delivery::Late } else { Delivery::Prompt };
    }
}

impl State {
    fn count(&mut self, channel: Channel, label: &str) -> usize {
        let seen = self.seen.entry(label.to_owned()).or_default();
        *seen += 1;
        let point = Point { label: label.to_owned(), occurrence: *seen };
        self.notes.push(Note { point, channel, delivery: Delivery::Never });
        self.notes.len() - 1
    }

    fn trap_is_at(&self, index: usize) -> bool {
        match self.trap.as_ref().map(|trap| &trap.place) {
            Some(Place::Point(point)) => *point == self.notes[index].point,
            Some(Place::Number(number)) => *number == index + 1,
            None => false,
        }
    }
}

/// What the fault does to a channel, if anything.
fn gate(fault: Fault, channel: Channel) -> Option<Gate> {
    match (fault, channel) {
        (Fault::KillBefore | Fault::KillAfter, _) => Some(Gate::Dead),
        (Fault::Freeze, _) => Some(Gate::Held),
        (Fault::CutNats, Channel::Nats) | (Fault::CutPostgres, Channel::Postgres) => {
            Some(Gate::Cut)
        }
        (Fault::StallNats, Channel::Nats) | (Fault::StallPostgres, Channel::Postgres) => {
            Some(Gate::Held)
        }
        (Fault::CutNats | Fault::StallNats | Fault::CutPostgres | Fault::StallPostgres, _) => None,
    }
}
