//! Sealing, and everything that must not open.
use super::*;

const TURN: TurnId = TurnId(uuid::Uuid::from_u128(7));

fn key(byte: u8) -> SecretString {
    SecretString::from(STANDARD.encode([byte; 32]))
}

fn sealer(current: u8, previous: &[u8]) -> Sealer {
    let previous: Vec<_> = previous.iter().copied().map(key).collect();
    Sealer::from_keys(&key(current), &previous).unwrap()
}

#[test]
fn a_sealed_token_opens_for_its_turn_only() {
    let token = UserToken::new("header.payload.signature".to_owned());
    let sealed = sealer(1, &[]).seal(TURN, &token).unwrap();
    assert!(!sealed.contains("payload"));
    assert_eq!(sealer(1, &[]).open(TURN, &sealed), Ok(token));
    let other = TurnId(uuid::Uuid::from_u128(8));
    assert_eq!(sealer(1, &[]).open(other, &sealed), Err(SealError::Forged));
}

#[test]
fn a_previous_key_still_opens() {
    let token = UserToken::new("t".to_owned());
    let sealed = sealer(1, &[]).seal(TURN, &token).unwrap();
    assert_eq!(sealer(2, &[1]).open(TURN, &sealed), Ok(token));
    assert_eq!(sealer(2, &[]).open(TURN, &sealed), Err(SealError::UnknownKey));
}

#[test]
fn the_same_token_never_looks_the_same() {
    let (sealer, token) = (sealer(1, &[]), UserToken::new("t".to_owned()));
    assert_ne!(sealer.seal(TURN, &token).unwrap(), sealer.seal(TURN, &token).unwrap());
}

#[test]
fn nonsense_is_refused() {
    let sealer = sealer(1, &[]);
    let id = &sealer.current.id;
    for text in ["", "v1", "v2.a.b", &format!("v1.{id}.!"), &format!("v1.{id}.AAAA")] {
        assert_eq!(sealer.open(TURN, text), Err(SealError::Malformed), "{text}");
    }
    assert_eq!(Sealer::from_keys(&SecretString::from("AAAA"), &[]).err(), Some(SealError::BadKey));
}
