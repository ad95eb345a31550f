//! The session reader: live events first, the stream wherever they leave a gap (NATS republishes at most once).
//!
//! All state is in `self`, so `next` may be dropped at every await and called again.
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use contract::event::{Envelope, Event, SessionRecord};
use contract::ids::{SessionToken, TurnId};
use contract::subject::{self, EventAddress};
use futures_util::StreamExt as _;
use futures_util::stream::SelectAll;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::bus::direct::{self, Fetched, LastOfEach};
use crate::bus::events::tracker::Tracker;
use crate::bus::events::{Incoming, Look, SessionReader, Stored, first};
use crate::bus::{Bus, Error};
use crate::runtime::telemetry::metrics;

/// Silence after which the open turns are compared with the stream.
const IDLE: Duration = Duration::from_secs(2);
/// Every so many comparisons, turns nobody has heard of are looked for as well.
const EVERYWHERE_EVERY: u32 = 4;
/// A replica that lags behind catches up in this many reads.
const REPAIR_TRIES: u32 = 20;
const REPAIR_PAUSE: Duration = Duration::from_millis(50);
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// A buffer that overflows does so many times a second.
const OVERFLOW_PAUSE: Duration = Duration::from_millis(100);

impl SessionReader {
    /// Subscribes, then looks what the stream holds; the server sees the two in this order. Names the turns that
    /// were not delivered to their end, the newest last: `next` gives all their events from the first on.
    /// With `only`, no other turn counts.
    pub async fn open(
        bus: &Bus,
        session: &SessionToken,
        only: Option<TurnId>,
    ) -> Result<(Self, Vec<EventAddress>), Error> {
        let disturbances = bus.disturbances();
        let subscriber = bus.subscribe(subject::live_of_session(session)).await?;
        let mut live = SelectAll::new();
        live.push(subscriber);
        let record = read_record(bus, session).await?;
        let mut reader = Self {
            bus: bus.clone(),
            filter: subject::events_of_session(session),
            live,
            disturbances,
            tracker: Tracker::default(),
            record,
            idle_at: Instant::now() + IDLE,
            idle_checks: 0,
            look: Look::Nowhere,
        };
        let backlog = reader.plan_backlog(only).await?;
        Ok((reader, backlog))
    }

    /// The session's own record as it was when the reader was opened.
    pub fn record(&self) -> &SessionRecord {
        &self.record
    }

    /// How far a turn has been read; `None` if it is not one of this reader's.
    pub fn reached(&self, turn: TurnId) -> Option<u64> {
        self.tracker.last(turn)
    }

    /// Reads another turn, of any session, too: `next` gives its events from the first on. False if the stream
    /// has none so far.
    pub async fn follow(&mut self, address: &EventAddress) -> Result<bool, Error> {
        let live = self.bus.subscribe(subject::live_of_turn(address.turn)).await?;
        let last = direct::last(&self.bus, subject::STREAM_EVENTS, &event_subject(address)).await?;
        self.live.push(live);
        if let Some(last) = &last {
            self.tracker.seen_in_stream(address.clone(), last.seq);
        }
        Ok(last.is_some())
    }

    /// Takes what comes live and remembers only that it came; `next` reads it from the stream. For times in which
    /// nobody takes events: what the server sends must not pile up. Waits for ever; cancel-safe.
    pub async fn skim(&mut self) -> Infallible {
        loop {
            tokio::select! {
                Ok(()) = self.disturbances.changed() => self.disturbed().await,
                Some(message) = self.live.next() => {
                    let fetched = Fetched::from_live(message);
                    let place = fetched.and_then(|event| Some((subject::parse_event(&event.subject)?, event.seq)));
                    if let Some((address, seq)) = place.filter(|(address, _)| !is_record(address)) {
                        self.tracker.seen_in_stream(address, seq);
                    }
                }
                else => std::future::pending().await,
            }
        }
    }

    /// Makes `next` look into the stream for turns it has not heard of.
    pub fn recheck(&mut self) {
        self.look = Look::Everywhere;
    }

    /// Looks into the stream once more and misses nothing that was stored before: what a replica says that lags behind
    /// the leader doesn't count. True if there is something for `next`.
    pub async fn confirm(&mut self) -> Result<bool, Error> {
        let newest =
            direct::last_seq_at_leader(&self.bus, subject::STREAM_EVENTS, &self.filter).await?;
        let found = self.last_of_each_turn().await?;
        if found.upto < newest {
            return Err(Error::Unexpected("a replica that lags behind".to_owned()));
        }
        for event in found.events {
            self.tracker.seen_in_stream(event.address, event.seq);
        }
        Ok(self.tracker.has_ready() || self.tracker.repair().is_some())
    }

    /// The next event. Waits for ever, also while NATS is away; cancel-safe.
    pub async fn next(&mut self) -> Stored {
        loop {
            if let Some(stored) = self.tracker.pop_ready() {
                return stored;
            }
            if let Err(error) = self.catch_up().await {
                debug!(%error, "A session's events can't be compared with the stream");
                tokio::time::sleep(RETRY_PAUSE).await;
                continue;
            }
            if self.is_behind() {
                continue;
            }
            self.listen().await;
        }
    }

    fn is_behind(&mut self) -> bool {
        self.tracker.has_ready() || self.look != Look::Nowhere || self.tracker.repair().is_some()
    }

    /// Waits for one live event, or for a reason to look into the stream.
    async fn listen(&mut self) {
        // Not biased: while a buffer overflows, both reasons must get their turn.
        tokio::select! {
            Ok(()) = self.disturbances.changed() => self.disturbed().await,
            Some(message) = self.live.next() => {
                self.idle_at = Instant::now() + IDLE;
                if let Some(event) = Fetched::from_live(message).and_then(Incoming::read)
                    && !is_record(&event.address)
                {
                    self.tracker.take_live(event);
                }
            }
            () = tokio::time::sleep_until(self.idle_at) => {
                self.idle_at = Instant::now() + IDLE;
                self.idle_checks = self.idle_checks.wrapping_add(1);
                let everywhere = self.idle_checks.is_multiple_of(EVERYWHERE_EVERY);
                self.look = if everywhere { Look::Everywhere } else { Look::OpenTurns };
            }
        }
    }

    async fn disturbed(&mut self) {
        self.look = Look::Everywhere;
        // Many subscriptions may overflow at once: one look is enough for a while.
        tokio::time::sleep(OVERFLOW_PAUSE).await;
        self.disturbances.borrow_and_update();
    }

    /// One step of what is due: a repair, else a comparison.
    async fn catch_up(&mut self) -> Result<(), Error> {
        if self.tracker.repair().is_some() {
            return self.repair().await;
        }
        match self.look {
            Look::Nowhere => return Ok(()),
            Look::OpenTurns => self.look_at_open_turns().await?,
            Look::Everywhere => {
                self.look_at_open_turns().await?;
                self.look_for_turns().await?;
            }
        }
        self.look = Look::Nowhere;
        Ok(())
    }

    async fn look_at_open_turns(&mut self) -> Result<(), Error> {
        for (address, known) in self.tracker.open_turns() {
            let subject = event_subject(&address);
            let found = direct::last(&self.bus, subject::STREAM_EVENTS, &subject).await?;
            if let Some(message) = found.filter(|message| message.seq > known) {
                self.tracker.seen_in_stream(address, message.seq);
            }
        }
        Ok(())
    }

    async fn look_for_turns(&mut self) -> Result<(), Error> {
        for event in self.last_of_each_turn().await?.events {
            self.tracker.seen_in_stream(event.address, event.seq);
        }
        Ok(())
    }

    /// Reads one page of the first repair.
    async fn repair(&mut self) -> Result<(), Error> {
        let Some(repair) = self.tracker.repair() else { return Ok(()) };
        let address = repair.address.clone();
        let from = self.tracker.last(address.turn).unwrap_or(0) + 1;
        let (subject, asked) = (event_subject(&address), (from, direct::BATCH));
        let page = direct::page(&self.bus, subject::STREAM_EVENTS, &subject, asked).await?;
        for event in page.messages.into_iter().filter_map(Incoming::read) {
            self.tracker.take_stored(event);
        }
        if page.complete {
            self.conclude_repair(&address).await;
        }
        Ok(())
    }

    /// The stream has no more: either the gap is closed, or a lagging replica answered.
    async fn conclude_repair(&mut self, address: &EventAddress) {
        let last = self.tracker.last(address.turn).unwrap_or(0);
        let Some(repair) = self.tracker.repair() else { return };
        let was_gap = u64::from(repair.held.is_some());
        let Some(held) = repair.held.clone().filter(|held| held.seq > last) else {
            metrics::GAPS_REPAIRED.add(was_gap, &[]);
            return self.tracker.end_repair();
        };
        if held.previous > last && repair.tries < REPAIR_TRIES {
            repair.tries += 1;
            return tokio::time::sleep(REPAIR_PAUSE).await;
        }
        if held.previous > last {
            warn!(turn.id = %address.turn, from = last, to = held.seq, "Events are gone from the stream");
        }
        self.tracker.take_stored(held);
        metrics::GAPS_REPAIRED.add(was_gap, &[]);
        self.tracker.end_repair();
    }

    async fn plan_backlog(&mut self, only: Option<TurnId>) -> Result<Vec<EventAddress>, Error> {
        let (mut backlog, mut lasts) = (Vec::new(), self.last_of_each_turn().await?.events);
        lasts.sort_by_key(|last| last.seq);
        for last in lasts {
            let (address, seq) = (last.address.clone(), last.seq);
            if only.is_some_and(|only| only != address.turn) || self.was_delivered(&last).await? {
                self.tracker.set(address, seq, true);
                continue;
            }
            let only_queued =
                last.envelope.as_ref().is_some_and(|e| matches!(e.event, Event::Queued(_)));
            if only_queued {
                self.tracker.take_stored(last);
            } else {
                self.tracker.seen_in_stream(address.clone(), seq);
            }
            backlog.push(address);
        }
        Ok(backlog)
    }

    async fn was_delivered(&self, event: &Incoming) -> Result<bool, Error> {
        let watermark = self.record.watermark;
        if event.seq <= watermark || self.record.done.contains(&event.address.turn) {
            return Ok(true);
        }
        if watermark == 0 {
            return Ok(false);
        }
        let oldest = first(&self.bus, &event_subject(&event.address)).await?;
        Ok(oldest.is_some_and(|oldest| oldest.seq <= watermark))
    }

    async fn last_of_each_turn(&self) -> Result<Lasts, Error> {
        let found =
            direct::last_of_each(&self.bus, subject::STREAM_EVENTS, &[&self.filter]).await?;
        let (mut newest, mut upto) = (BTreeMap::new(), 0);
        let mut note = |messages: Vec<Fetched>| {
            upto = messages.iter().map(|message| message.seq).fold(upto, u64::max);
            let events = messages.into_iter().filter_map(Incoming::read);
            for event in events.filter(|event| !is_record(&event.address)) {
                newest.insert(event.address.turn, event);
            }
        };
        match found {
            LastOfEach::All(messages) => note(messages),
            LastOfEach::TooMany => {
                let (mut seq, mut complete) = (self.record.watermark + 1, false);
                while !complete {
                    let asked = (seq, direct::BATCH);
                    let page = direct::page(&self.bus, subject::STREAM_EVENTS, &self.filter, asked)
                        .await?;
                    seq = page.messages.last().map_or(seq, |last| last.seq + 1);
                    complete = page.complete;
                    note(page.messages);
                }
            }
        }
        Ok(Lasts { events: newest.into_values().collect(), upto })
    }
}

/// The newest event of each turn.
struct Lasts {
    events: Vec<Incoming>,
    /// The highest sequence that whoever answered has on the session's subjects.
    upto: u64,
}

/// A replica that lags behind would have turns told again.
async fn read_record(bus: &Bus, session: &SessionToken) -> Result<SessionRecord, Error> {
    let subject = subject::session_record(session);
    let Some(newest) = direct::last_at_leader(bus, subject::STREAM_EVENTS, &subject).await? else {
        return Ok(SessionRecord::default());
    };
    match serde_json::from_slice(&newest) {
        Ok(Envelope { event: Event::Session(record), .. }) => Ok(record),
        Ok(_) | Err(_) => Ok(SessionRecord::default()),
    }
}

/// A session's own record travels under the nil turn.
fn is_record(address: &EventAddress) -> bool {
    address.turn.0.is_nil()
}

fn event_subject(address: &EventAddress) -> String {
    subject::event(address.conversation, &address.session, address.turn)
}
