//! Who calls: the service by its token, for a user by theirs; and what that user may do.
use std::collections::HashMap;
use std::time::Duration;

use axum::http::HeaderMap;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use super::operation::Operation;
use super::{CLIENT_ID, CLIENT_SECRET};
use crate::token;

/// Users whose name starts with this only read; everybody else may do everything.
const READER: &str = "bob";

#[derive(Default)]
pub struct Permissions {
    /// (user, operation) -> allowed, where a test or an administrator said so.
    set: HashMap<(String, String), bool>,
}

impl Permissions {
    pub fn set(&mut self, user: &str, operation: &str, allowed: bool) {
        self.set.insert((user.to_owned(), operation.to_owned()), allowed);
    }

    pub fn allows(&self, user: &str, operation: Operation) -> bool {
        let said = self.set.get(&(user.to_owned(), operation.name().to_owned()));
        said.copied().unwrap_or(!user.starts_with(READER) || !operation.changes_something())
    }
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    #[serde(default)]
    typ: Option<String>,
}

pub struct Identities {
    pub service: String,
    pub user: String,
}

/// Both identities, or the status and the reason why not.
pub fn of(headers: &HeaderMap, secrets: &[String]) -> Result<Identities, (u16, String)> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let service = bearer.ok_or((401, "no service token".to_owned()))?;
    let service = claims(service, secrets).map_err(|e| (401, format!("service token: {e}")))?;
    if service.typ.as_deref() != Some("service") {
        return Err((401, "a user token where a service token belongs".to_owned()));
    }
    let user = text("x-user-jwt").ok_or((401, "no user token".to_owned()))?;
    if user.starts_with("Bearer ") {
        return Err((401, "X-User-JWT holds `Bearer `".to_owned()));
    }
    let user = claims(user, secrets).map_err(|e| (401, format!("user token: {e}")))?;
    if user.typ.is_some() {
        return Err((401, "a service token where a user token belongs".to_owned()));
    }
    Ok(Identities { service: service.sub, user: user.sub })
}

/// Signed with any of these.
fn claims(text: &str, secrets: &[String]) -> Result<Claims, String> {
    let mut validation = Validation::new(Algorithm::HS256);
    validation.leeway = 0;
    let mut refused = "no secret".to_owned();
    for secret in secrets {
        let key = DecodingKey::from_secret(secret.as_bytes()).map_err(|e| e.to_string())?;
        match jsonwebtoken::decode::<Claims>(text, &key, &validation) {
            Ok(data) => return Ok(data.claims),
            Err(error) => refused = error.to_string(),
        }
    }
    Err(refused)
}

/// The service's own sign-in: client id and secret as JSON, as a form or as basic authentication.
pub fn service_sign_in(headers: &HeaderMap, body: &[u8], lifetime: Duration) -> Option<String> {
    use base64::Engine as _;
    let basic = headers.get("authorization").and_then(|value| value.to_str().ok());
    let basic = basic.and_then(|value| value.strip_prefix("Basic "));
    let basic =
        basic.and_then(|value| base64::engine::general_purpose::STANDARD.decode(value).ok());
    let in_body = |key: &str| {
        let json = serde_json::from_slice::<serde_json::Value>(body).ok();
        if let Some(value) = json.as_ref().and_then(|json| json.get(key)?.as_str()) {
            return Some(value.to_owned());
        }
        let text = String::from_utf8_lossy(body).into_owned();
        text.split('&').find_map(|pair| pair.strip_prefix(&format!("{key}=")).map(str::to_owned))
    };
    let by_header =
        basic.is_some_and(|pair| pair == format!("{CLIENT_ID}:{CLIENT_SECRET}").as_bytes());
    let by_body = in_body("client_id").as_deref() == Some(CLIENT_ID)
        && in_body("client_secret").as_deref() == Some(CLIENT_SECRET);
    (by_header || by_body).then(|| token::service(CLIENT_ID, lifetime))
}
