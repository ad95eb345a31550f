//! Which events a stream shows: those of its session's turns, and those of turns it is attached to.
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use contract::error_code::ErrorCode;
use contract::event::{Attach, Event};
use contract::ids::{SessionToken, TurnId};
use contract::subject::{self, EventAddress};
use gradio::session::{EventPlace, Input};
use shared::bus::events::{self, SessionReader, Stored};
use shared::bus::{Bus, Error, jobs};

const FOLLOW_TRIES: u32 = 4;
const FOLLOW_PAUSE: Duration = Duration::from_millis(250);
const REPLAY_PAUSE: Duration = Duration::from_millis(250);

pub struct Reading {
    bus: Bus,
    reader: SessionReader,
    session: SessionToken,
    /// Show this submission only.
    only: Option<TurnId>,
    /// Submissions that show the events of another turn.
    attached: HashMap<TurnId, Vec<TurnId>>,
    /// Where the turn is that each of the session's submissions shows.
    places: HashMap<TurnId, EventAddress>,
    /// What late submissions have missed of turns that are being read already. Comes before everything else.
    replays: VecDeque<Replay>,
}

/// Events of a turn up to `upto`, for one submission.
struct Replay {
    event_id: TurnId,
    address: EventAddress,
    from: u64,
    upto: u64,
    read: VecDeque<Stored>,
    /// Anything at all was found.
    is_there: bool,
}

/// One event, for all who show its turn or for one of them.
pub enum Next {
    Stored(Stored),
    Replayed(TurnId, Stored),
    /// The stream has forgotten the turn that this submission shows.
    Forgotten(TurnId),
}

impl Reading {
    /// Also names the submissions that were not delivered to their end.
    pub async fn open(
        bus: &Bus,
        session: &SessionToken,
        only: Option<TurnId>,
    ) -> Result<(Self, Vec<TurnId>), Error> {
        let (reader, backlog) = SessionReader::open(bus, session, only).await?;
        let reading = Self {
            bus: bus.clone(),
            reader,
            session: session.clone(),
            only,
            attached: HashMap::new(),
            places: HashMap::new(),
            replays: VecDeque::new(),
        };
        Ok((reading, backlog.into_iter().map(|address| address.turn).collect()))
    }

    pub fn record(&self) -> &contract::event::SessionRecord {
        self.reader.record()
    }

    pub fn recheck(&mut self) {
        self.reader.recheck();
    }

    /// See [`SessionReader::confirm`].
    pub async fn confirm(&mut self) -> Result<bool, Error> {
        self.reader.confirm().await
    }

    /// Cancel-safe.
    pub async fn next(&mut self) -> Next {
        while let Some(replay) = self.replays.front_mut() {
            if let Some(stored) = replay.read.pop_front() {
                return Next::Replayed(replay.event_id, stored);
            }
            if replay.from > replay.upto {
                let (event_id, is_there) = (replay.event_id, replay.is_there);
                self.replays.pop_front();
                if !is_there {
                    return Next::Forgotten(event_id);
                }
                continue;
            }
            if let Err(error) = replay.read_on(&self.bus).await {
                tracing::debug!(%error, "A turn can't be read again");
                tokio::time::sleep(REPLAY_PAUSE).await;
            }
        }
        Next::Stored(self.reader.next().await)
    }

    /// While nobody takes events. Waits for ever; cancel-safe.
    pub async fn skim(&mut self) -> Infallible {
        self.reader.skim().await
    }

    pub fn address(&self, turn: TurnId) -> Option<&EventAddress> {
        self.places.get(&turn)
    }

    /// The machine's inputs for one event; for an `attach` its turn is read, too, from now on.
    pub async fn inputs(&mut self, next: Next) -> Vec<Input> {
        let stored = match next {
            Next::Replayed(event_id, stored) => return vec![input(event_id, stored)],
            Next::Forgotten(event_id) => return vec![forgotten(event_id)],
            Next::Stored(stored) => stored,
        };
        let turn = stored.address.turn;
        let mut attached = None;
        if let Event::Queued(queued) = &stored.envelope.event
            && self.is_own(&stored)
        {
            let conversation = stored.address.conversation;
            attached = queued.attach.clone().map(|Attach { turn_id, session, .. }| EventAddress {
                conversation,
                session,
                turn: turn_id,
            });
            let place = attached.as_ref().unwrap_or(&stored.address);
            self.places.insert(turn, place.clone());
        }
        let mut inputs = self.routed(&stored);
        if let Some(address) = attached
            && !self.attach(turn, address).await
        {
            inputs.push(forgotten(turn));
        }
        inputs
    }

    fn routed(&self, stored: &Stored) -> Vec<Input> {
        let turn = stored.address.turn;
        let own = self.is_own(stored).then_some(turn);
        let shown = self.attached.get(&turn).into_iter().flatten().copied();
        own.into_iter().chain(shown).map(|event_id| input(event_id, stored.clone())).collect()
    }

    fn is_own(&self, stored: &Stored) -> bool {
        let address = &stored.address;
        address.session == self.session && self.only.is_none_or(|only| only == address.turn)
    }

    /// False when there is nothing to show.
    async fn attach(&mut self, event_id: TurnId, address: EventAddress) -> bool {
        let showing = self.attached.entry(address.turn).or_default();
        if showing.contains(&event_id) {
            return true;
        }
        let is_followed = !showing.is_empty();
        showing.push(event_id);
        if let Some(upto) = self.reader.reached(address.turn) {
            self.replays.push_back(Replay::new(event_id, address, upto));
            return true;
        }
        if is_followed {
            return true;
        }
        for _ in 0..FOLLOW_TRIES {
            match self.follow(&address).await {
                Ok(is_there) => return is_there,
                Err(error) => {
                    tracing::warn!(turn.id = %address.turn, %error, "Can't read turn {}: {error}", address.turn);
                    tokio::time::sleep(FOLLOW_PAUSE).await;
                }
            }
        }
        false
    }

    /// Whether there are events, or will be: a live turn's may be gone.
    async fn follow(&mut self, address: &EventAddress) -> Result<bool, Error> {
        if self.reader.follow(address).await? {
            return Ok(true);
        }
        let job = jobs::active(&self.bus, address.conversation).await?;
        Ok(job.is_some_and(|job| job.turn_id == address.turn))
    }
}

impl Replay {
    fn new(event_id: TurnId, address: EventAddress, upto: u64) -> Self {
        Self { event_id, address, from: 1, upto, read: VecDeque::new(), is_there: false }
    }

    async fn read_on(&mut self, bus: &Bus) -> Result<(), Error> {
        let EventAddress { conversation, session, turn } = &self.address;
        let subject = subject::event(*conversation, session, *turn);
        let (stored, complete) = events::page(bus, &subject, self.from).await?;
        let last = stored.last().map_or(self.upto, |last| last.seq);
        self.is_there |= !stored.is_empty();
        self.read.extend(stored.into_iter().filter(|stored| stored.seq <= self.upto));
        self.from = if complete { self.upto + 1 } else { last + 1 };
        Ok(())
    }
}

/// There were events as the submission was made: asked again, the gateway knows better.
fn forgotten(event_id: TurnId) -> Input {
    Input::Fail { event_id, code: ErrorCode::Unavailable }
}

fn input(event_id: TurnId, stored: Stored) -> Input {
    let conversation = stored.address.conversation.to_string();
    let place = EventPlace { seq: stored.seq, conversation };
    Input::Event { event_id, place, envelope: Box::new(stored.envelope) }
}
