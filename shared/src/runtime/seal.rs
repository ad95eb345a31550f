//! Seals the user's token for the way through the job stream (AES-256-GCM), bound to its turn.
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use contract::ids::TurnId;
use contract::secret::UserToken;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use secrecy::{ExposeSecret, SecretString};

/// Seals with the current key, opens with the current and all previous ones. `v1.<key id>.<base64url(nonce|ciphertext)>`.
pub struct Sealer {
    current: Key,
    previous: Vec<Key>,
}

struct Key {
    id: String,
    key: LessSafeKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("a sealing key must be 32 bytes in base64")]
    BadKey,
    #[error("the sealed token is malformed")]
    Malformed,
    #[error("the token was sealed with a key that is not known here")]
    UnknownKey,
    #[error("the sealed token was changed, or belongs to another turn")]
    Forged,
    #[error("no randomness available")]
    NoRandomness,
}

impl Sealer {
    pub fn from_keys(current: &SecretString, previous: &[SecretString]) -> Result<Self, SealError> {
        let previous = previous.iter().map(Key::parse).collect::<Result<_, _>>()?;
        Ok(Self { current: Key::parse(current)?, previous })
    }

    pub fn seal(&self, turn: TurnId, token: &UserToken) -> Result<String, SealError> {
        let mut nonce = [0_u8; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
        let mut text = token.expose().as_bytes().to_vec();
        let sealing = Nonce::assume_unique_for_key(nonce);
        self.current
            .key
            .seal_in_place_append_tag(sealing, Aad::from(turn.0.as_bytes()), &mut text)
            .map_err(|_| SealError::Malformed)?;
        let mut sealed = nonce.to_vec();
        sealed.append(&mut text);
        Ok(format!("v1.{}.{}", self.current.id, URL_SAFE_NO_PAD.encode(sealed)))
    }

    pub fn open(&self, turn: TurnId, sealed: &str) -> Result<UserToken, SealError> {
        let rest = sealed.strip_prefix("v1.").ok_or(SealError::Malformed)?;
        let (id, body) = rest.split_once('.').ok_or(SealError::Malformed)?;
        let mut keys = std::iter::once(&self.current).chain(&self.previous);
        let key = keys.find(|key| key.id == id).ok_or(SealError::UnknownKey)?;
        let mut body = URL_SAFE_NO_PAD.decode(body).map_err(|_| SealError::Malformed)?;
        let (nonce, text) = body.split_at_mut_checked(NONCE_LEN).ok_or(SealError::Malformed)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::Malformed)?;
        let text = key
            .key
            .open_in_place(nonce, Aad::from(turn.0.as_bytes()), text)
            .map_err(|_| SealError::Forged)?;
        let text = std::str::from_utf8(text).map_err(|_| SealError::Malformed)?;
        Ok(UserToken::new(text.to_owned()))
    }
}

impl Key {
    fn parse(text: &SecretString) -> Result<Self, SealError> {
        let bytes = STANDARD.decode(text.expose_secret().trim()).map_err(|_| SealError::BadKey)?;
        let unbound = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| SealError::BadKey)?;
        let hash = digest::digest(&digest::SHA256, &bytes);
        let id = hash.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { id, key: LessSafeKey::new(unbound) })
    }
}

#[cfg(test)]
mod tests;
