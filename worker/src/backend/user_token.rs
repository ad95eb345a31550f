//! What can be seen of a user's token without its key.
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::secret::UserToken;
use serde_json::Value;
use time::OffsetDateTime;

/// Whether the token says of itself that it is over. It isn't verified: the backend does that.
pub fn is_expired(token: &UserToken, now: OffsetDateTime) -> bool {
    expires_at(token).is_some_and(|exp| exp <= now.unix_timestamp())
}

fn expires_at(token: &UserToken) -> Option<i64> {
    let payload = token.expose().split('.').nth(1)?;
    let json = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&json).ok()?;
    let exp = claims.get("exp")?;
    exp.as_i64().or_else(|| format!("{:.0}", exp.as_f64()?.floor()).parse().ok())
}
