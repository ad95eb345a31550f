//! All jobs there are, queued or running: without what their users wrote, and without their tokens.
use std::time::Duration;

use contract::ids::{ConversationId, TurnId, UserId};
use contract::job::{Job, JobKind};
use contract::subject;
use time::OffsetDateTime;

use crate::bus::direct::{self, Fetched};
use crate::bus::retry::Patience;
use crate::bus::{Bus, Error};

/// A job can be large.
const PAGE: usize = 20;
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// By the server's clock.
    pub stored_at: Option<OffsetDateTime>,
    pub conversation: Option<ConversationId>,
    /// `None`: the job can't be read.
    pub content: Option<Content>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub turn: TurnId,
    pub user: UserId,
    pub kind: JobKind,
}

/// Oldest first.
pub async fn list(bus: &Bus) -> Result<Vec<Entry>, Error> {
    let (mut entries, mut seq) = (Vec::new(), 1);
    let mut patience = Patience::new(PATIENCE);
    loop {
        match direct::page(bus, subject::STREAM_JOBS, subject::JOBS_ALL, (seq, PAGE)).await {
            Ok(page) => {
                seq = page.messages.last().map_or(seq, |last| last.seq + 1);
                entries.extend(page.messages.iter().map(entry));
                if page.complete {
                    return Ok(entries);
                }
                patience = Patience::new(PATIENCE);
            }
            // With the stream missing, trying on helps nobody.
            Err(error @ Error::NoResponders) => return Err(error),
            Err(error) if error.is_transient() && patience.pause(bus).await => {}
            Err(error) => return Err(error),
        }
    }
}

fn entry(message: &Fetched) -> Entry {
    let job = serde_json::from_slice::<Job>(&message.payload).ok();
    Entry {
        stored_at: message.stored_at(),
        conversation: message.subject.rsplit('.').next().and_then(|id| id.parse().ok()),
        content: job.map(|job| Content { turn: job.turn_id, user: job.user_id, kind: job.kind }),
    }
}
