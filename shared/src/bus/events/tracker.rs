//! How far each turn of a session has been read, and what has to be read again. Pure.
use std::collections::{HashMap, VecDeque};

use contract::ids::TurnId;
use contract::subject::EventAddress;
use tracing::debug;

use crate::bus::events::{Incoming, Stored};

/// A part of a turn that has to come from the stream.
#[derive(Clone, Debug)]
pub(super) struct Repair {
    pub address: EventAddress,
    /// The live event that showed the gap; it follows the missing part.
    pub held: Option<Incoming>,
    /// Reads that did not close the gap yet.
    pub tries: u32,
}

#[derive(Clone, Debug)]
struct Progress {
    address: EventAddress,
    last: u64,
    ended: bool,
}

#[derive(Debug, Default)]
pub(super) struct Tracker {
    turns: HashMap<TurnId, Progress>,
    ready: VecDeque<Stored>,
    repairs: VecDeque<Repair>,
}

impl Tracker {
    /// Everything up to `last` is known; the caller has it or needs none of it.
    pub fn set(&mut self, address: EventAddress, last: u64, ended: bool) {
        self.turns.insert(address.turn, Progress { address, last, ended });
    }

    pub fn last(&self, turn: TurnId) -> Option<u64> {
        self.turns.get(&turn).map(|progress| progress.last)
    }

    pub fn has_ended(&self, turn: TurnId) -> bool {
        self.turns.get(&turn).is_some_and(|progress| progress.ended)
    }

    /// Turns that may still get events.
    pub fn open_turns(&self) -> Vec<(EventAddress, u64)> {
        let open = self.turns.values().filter(|progress| !progress.ended);
        open.map(|progress| (progress.address.clone(), progress.last)).collect()
    }

    pub fn pop_ready(&mut self) -> Option<Stored> {
        self.ready.pop_front()
    }

    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub fn repair(&mut self) -> Option<&mut Repair> {
        self.repairs.front_mut()
    }

    pub fn end_repair(&mut self) {
        self.repairs.pop_front();
    }

    /// The stream holds an event of this turn at `seq`.
    pub fn seen_in_stream(&mut self, address: EventAddress, seq: u64) {
        let turn = address.turn;
        let known = self.turns.get(&turn).is_some_and(|turn| turn.ended || turn.last >= seq);
        let planned = self.repairs.iter().any(|repair| repair.address.turn == turn);
        if !known && !planned {
            self.repairs.push_back(Repair { address, held: None, tries: 0 });
        }
    }

    /// A live event: it may come late, twice, or with others missing before it.
    pub fn take_live(&mut self, event: Incoming) {
        let last = self.last(event.address.turn).unwrap_or(0);
        if event.seq <= last {
            return;
        }
        if event.previous <= last {
            self.advance(event);
        } else if !self.has_ended(event.address.turn) {
            let address = event.address.clone();
            debug!(turn.id = %address.turn, last, seq = event.seq, "Events are missing");
            self.repairs.push_back(Repair { address, held: Some(event), tries: 0 });
        }
    }

    /// The next stored event of its turn, read from the stream.
    pub fn take_stored(&mut self, event: Incoming) {
        if event.seq > self.last(event.address.turn).unwrap_or(0) {
            self.advance(event);
        }
    }

    fn advance(&mut self, event: Incoming) {
        let progress = self.turns.entry(event.address.turn).or_insert_with(|| Progress {
            address: event.address.clone(),
            last: 0,
            ended: false,
        });
        progress.last = event.seq;
        if progress.ended {
            return;
        }
        if let Some(stored) = event.stored() {
            progress.ended = stored.envelope.event.is_terminal();
            self.ready.push_back(stored);
        }
    }
}

#[cfg(test)]
mod tests;
