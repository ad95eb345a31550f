//! Whose a conversation is.
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use contract::error_code::ErrorCode;
use contract::ids::{ConversationId, UserId};
use shared::store::conversations;

use crate::app::App;

const OWNERS_CACHED: usize = 10_000;

/// The id behind what a client calls a conversation, if the caller may use it: their own, or one that
/// doesn't exist yet. Call it before anything is published under that id.
pub async fn conversation_for(
    app: &App,
    user: &UserId,
    reference: &str,
) -> Result<ConversationId, ErrorCode> {
    let id = id_of(user, reference).map_err(|_| ErrorCode::BadRequest)?;
    let is_name = reference.parse::<ConversationId>().is_err();
    if is_name {
        return Ok(id);
    }
    let owner = match app.owners.owner(id) {
        Some(owner) => Some(owner),
        None => conversations::owner_of(&app.rows, id).await.map_err(|error| {
            tracing::error!(conversation.id = %id, %error, "Can't look up the owner of conversation {id}");
            ErrorCode::Unavailable
        })?,
    };
    let Some(owner) = owner else { return Ok(id) };
    app.owners.remember(id, &owner);
    if owner == *user { Ok(id) } else { Err(ErrorCode::NotFound) }
}

/// The nil id is the place of session records, never of a conversation.
pub fn id_of(user: &UserId, reference: &str) -> Result<ConversationId, String> {
    let id = ConversationId::from_reference(user, reference).map_err(|error| error.to_string())?;
    if id.0.is_nil() { Err("a conversation can't have the nil id".to_owned()) } else { Ok(id) }
}

/// Who owns which conversation. An owner never changes, so an entry is never wrong; the number is bounded.
#[derive(Default)]
pub struct Owners(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<ConversationId, UserId>,
    old: HashMap<ConversationId, UserId>,
}

impl Owners {
    pub fn owner(&self, id: ConversationId) -> Option<UserId> {
        let generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.young.get(&id).or_else(|| generations.old.get(&id)).cloned()
    }

    pub fn remember(&self, id: ConversationId, owner: &UserId) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if generations.young.len() >= OWNERS_CACHED {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.entry(id).or_insert_with(|| owner.clone());
    }
}

#[cfg(test)]
mod tests;
