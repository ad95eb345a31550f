//! The cache of owners.
use uuid::Uuid;

use super::*;

#[test]
fn owners_are_remembered_and_bounded() {
    let owners = Owners::default();
    let anna = UserId::try_from("anna".to_owned()).unwrap();
    let first = ConversationId(Uuid::from_u128(0));
    owners.remember(first, &anna);
    for n in 1..OWNERS_CACHED as u128 {
        owners.remember(ConversationId(Uuid::from_u128(n)), &anna);
    }
    assert_eq!(owners.owner(first), Some(anna.clone()));
    owners.remember(ConversationId(Uuid::from_u128(1_000_000)), &anna);
    assert_eq!(owners.owner(first), Some(anna.clone()));
    for n in 2_000_000..2_000_000 + 2 * OWNERS_CACHED as u128 {
        owners.remember(ConversationId(Uuid::from_u128(n)), &anna);
    }
    assert_eq!(owners.owner(first), None);
    let generations = owners.0.lock().unwrap();
    assert!(generations.young.len() + generations.old.len() <= 2 * OWNERS_CACHED);
}
