//! Whether the secrets can be used. Nothing of them is kept or shown.
use contract::ids::TurnId;
use contract::limits;
use contract::secret::UserToken;
use secrecy::{ExposeSecret as _, SecretString};
use shared::runtime::env::Env;
use shared::runtime::seal::{SealError, Sealer};
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    pub name: &'static str,
    pub state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Good,
    /// Not set here.
    Absent,
    Bad(String),
}

/// `SEAL_KEY`, `SEAL_KEYS_PREVIOUS`, `JWT_SECRET`, `SERVICE_CLIENT_SECRET`.
pub fn check_all(env: &Env) -> Vec<Secret> {
    let long_enough = |name: &'static str, least: usize| {
        let state = match env.optional_secret(name) {
            None => State::Absent,
            Some(secret) if secret.expose_secret().len() < least => {
                State::Bad(format!("has less than {least} bytes"))
            }
            Some(_) => State::Good,
        };
        Secret { name, state }
    };
    let mut secrets = vec![Secret { name: "SEAL_KEY", state: seal_key(env) }];
    let previous = env.list("SEAL_KEYS_PREVIOUS").into_iter().map(SecretString::from);
    // An older key is as good as the key it was.
    let bad = previous.filter_map(|key| round_trip(&key).err()).next();
    if let Some(error) = bad {
        secrets.push(Secret { name: "SEAL_KEYS_PREVIOUS", state: State::Bad(error.to_string()) });
    }
    secrets.push(long_enough("JWT_SECRET", limits::JWT_SECRET_BYTES));
    secrets.push(long_enough("SERVICE_CLIENT_SECRET", limits::SERVICE_SECRET_BYTES));
    secrets
}

fn seal_key(env: &Env) -> State {
    match env.optional_secret("SEAL_KEY") {
        None => State::Absent,
        Some(key) => match round_trip(&key) {
            Ok(()) => State::Good,
            Err(error) => State::Bad(error.to_string()),
        },
    }
}

/// Seals something and opens it again.
fn round_trip(key: &SecretString) -> Result<(), SealError> {
    let sealer = Sealer::from_keys(key, &[])?;
    let turn = TurnId(Uuid::now_v7());
    let sealed = sealer.seal(turn, &UserToken::new("doctor".to_owned()))?;
    let opened = sealer.open(turn, &sealed)?;
    if opened.expose() == "doctor" { Ok(()) } else { Err(SealError::Forged) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dGVzdHMtYW5kLWRlbW8tb25seS0zMi1ieXRlcy1rZXk=";

    fn check(variables: &'static [(&str, &str)]) -> Vec<(&'static str, State)> {
        let env = Env::from_lookup(move |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        check_all(&env).into_iter().map(|secret| (secret.name, secret.state)).collect()
    }

    #[test]
    fn good_secrets_are_good() {
        let found = check(&[
            ("SEAL_KEY", KEY),
            ("SEAL_KEYS_PREVIOUS", KEY),
            ("JWT_SECRET", "0123456789abcdef0123456789abcdef"),
            ("SERVICE_CLIENT_SECRET", "0123456789abcdef"),
        ]);
        assert!(found.iter().all(|(_, state)| *state == State::Good), "{found:?}");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_value() {
        let found = check(&[
            ("SEAL_KEY", "c2hvcnQ="),
            ("SEAL_KEYS_PREVIOUS", "dGVzdHMtYW5kLWRlbW8tb25seS0zMi1ieXRlcy1rZXk=,%%"),
            ("JWT_SECRET", "0123456789"),
        ]);
        let bad = |text: &str| State::Bad(text.to_owned());
        let key = "a sealing key must be 32 bytes in base64";
        let expected = [
            ("SEAL_KEY", bad(key)),
            ("SEAL_KEYS_PREVIOUS", bad(key)),
            ("JWT_SECRET", bad("has less than 32 bytes")),
            ("SERVICE_CLIENT_SECRET", State::Absent),
        ];
        assert_eq!(found, expected);
    }
}
