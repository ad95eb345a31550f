//! Submissions in, frames out: what stands between the Gradio routes and NATS.
//!
//! [`accept`] takes one submission, [`dispatch`] gets its job to a worker or tells the client why not,
//! [`attach`] finds the turn that an `attach` shall show, [`stream`] serves a session's event stream.
pub mod accept;
pub mod attach;
pub mod delivery;
pub mod dispatch;
pub mod outbox;
pub mod plan;
pub mod reading;
pub mod repeat;
pub mod stream;

use contract::ids::{InvalidId, SessionToken, UserId};
use shared::runtime::digest::sha256_hex;

/// The subject token of a user's session. Another user's `session_hash` gives another, empty session.
pub fn session_token(user: &UserId, session_hash: &str) -> Result<SessionToken, InvalidId> {
    let key = format!("{}\0{session_hash}", user.as_str());
    let mut token = sha256_hex(key.as_bytes());
    token.truncate(32);
    SessionToken::try_from(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_belongs_to_its_user() {
        let user = |name: &str| UserId::try_from(name.to_owned()).unwrap();
        let token = |name: &str, hash: &str| session_token(&user(name), hash).unwrap();
        assert_eq!(token("alice", "abc"), token("alice", "abc"));
        assert_ne!(token("alice", "abc"), token("bob", "abc"));
        assert_ne!(token("alice", "abc"), token("alice", "abd"));
        assert_eq!(token("alice", "*.>").as_str().len(), 32);
    }
}
