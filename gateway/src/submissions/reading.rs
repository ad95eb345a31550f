//! Which events a stream shows: those of its session's turns, and those of turns it is attached to.
use std::collections::HashMap;
use std::time::Duration;

use contract::error_code::ErrorCode;
use contract::event::{Attach, Event};
use contract::ids::{SessionToken, TurnId};
use contract::subject::EventAddress;
use gradio::session::{EventPlace, Input};
use shared::bus::events::{SessionReader, Stored, TurnBacklog};
use shared::bus::{Bus, Error};

const FOLLOW_TRIES: u32 = 4;
const FOLLOW_PAUSE: Duration = Duration::from_millis(250);

pub struct Reading {
    reader: SessionReader,
    session: SessionToken,
    /// Show this submission only.
    only: Option<TurnId>,
    /// Submissions that show the events of another turn.
    attached: HashMap<TurnId, Vec<TurnId>>,
    /// Where each of the session's own turns is, for as long as its stream is open.
    places: HashMap<TurnId, EventAddress>,
}

impl Reading {
    pub async fn open(
        bus: &Bus,
        session: &SessionToken,
        only: Option<TurnId>,
    ) -> Result<(Self, Vec<TurnBacklog>), Error> {
        let (reader, mut backlog) = SessionReader::open(bus, session).await?;
        backlog.retain(|turn| only.is_none_or(|only| only == turn.address.turn));
        let reading = Self {
            reader,
            session: session.clone(),
            only,
            attached: HashMap::new(),
            places: HashMap::new(),
        };
        Ok((reading, backlog))
    }

    pub fn record(&self) -> &contract::event::SessionRecord {
        self.reader.record()
    }

    pub fn recheck(&mut self) {
        self.reader.recheck();
    }

    /// Cancel-safe.
    pub async fn next(&mut self) -> Stored {
        self.reader.next().await
    }

    pub fn address(&self, turn: TurnId) -> Option<&EventAddress> {
        self.places.get(&turn)
    }

    /// The machine's inputs for one event; for an `attach` those for everything its turn has told so far, too.
    pub async fn inputs(&mut self, stored: Stored) -> Vec<Input> {
        let turn = stored.address.turn;
        let mut attach = None;
        if let Event::Queued(queued) = &stored.envelope.event
            && self.is_own(&stored)
        {
            self.places.insert(turn, stored.address.clone());
            attach = queued.attach.clone();
        }
        let conversation = stored.address.conversation;
        let mut inputs = self.routed(stored);
        if let Some(attach) = attach {
            let address = EventAddress {
                conversation,
                session: attach.session.clone(),
                turn: attach.turn_id,
            };
            self.attach(turn, &attach, &address, &mut inputs).await;
        }
        inputs
    }

    fn routed(&self, stored: Stored) -> Vec<Input> {
        let turn = stored.address.turn;
        let own = self.is_own(&stored).then_some(turn);
        let shown = self.attached.get(&turn).into_iter().flatten().copied();
        let place =
            EventPlace { seq: stored.seq, conversation: stored.address.conversation.to_string() };
        own.into_iter()
            .chain(shown)
            .map(|event_id| Input::Event {
                event_id,
                place: place.clone(),
                envelope: Box::new(stored.envelope.clone()),
            })
            .collect()
    }

    fn is_own(&self, stored: &Stored) -> bool {
        let address = &stored.address;
        address.session == self.session && self.only.is_none_or(|only| only == address.turn)
    }

    async fn attach(
        &mut self,
        event_id: TurnId,
        attach: &Attach,
        address: &EventAddress,
        inputs: &mut Vec<Input>,
    ) {
        let showing = self.attached.entry(attach.turn_id).or_default();
        if showing.contains(&event_id) {
            return;
        }
        showing.push(event_id);
        for _ in 0..FOLLOW_TRIES {
            match self.reader.follow(address, 0).await {
                Ok(stored) if stored.is_empty() => break,
                Ok(stored) => {
                    for stored in stored {
                        inputs.extend(self.routed(stored));
                    }
                    return;
                }
                Err(error) => {
                    tracing::warn!(turn.id = %attach.turn_id, %error, "Can't read turn {}: {error}", attach.turn_id);
                    tokio::time::sleep(FOLLOW_PAUSE).await;
                }
            }
        }
        inputs.push(Input::Fail { event_id, code: ErrorCode::NotFound });
    }
}
