//! Who is calling: the bearer JWT becomes a [`Caller`]. On for every route that `http::PUBLIC` does not name.
//!
//! HS256 and nothing else; `exp` and `sub` required, `nbf` respected. A token with `typ` "service" is no
//! user, and a user's token is no service, although one secret signs both (DECISIONS 21, 23).
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use contract::ids::UserId;
use contract::secret::UserToken;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::error::ApiError;

/// The authenticated user behind a request. As an extractor it refuses with 401.
#[derive(Clone, Debug)]
pub struct Caller {
    pub user: UserId,
    /// The JWT itself, to be sealed into jobs.
    pub token: UserToken,
    /// When the token ends, in seconds since 1970.
    pub expires_at: u64,
}

/// What a request to a public route says about its sender. As an extractor it never refuses.
#[derive(Clone, Debug)]
pub enum Presented {
    Valid(Caller),
    /// Signed by us for a user, but past its `exp`: good for naming the user, not for any work (P5).
    Expired(Caller),
    /// A header that proves nothing.
    Refused,
    Missing,
}

/// Why a token is not a user's, or not a service's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the authorization header is not one bearer token")]
    Header,
    #[error("the token is not valid")]
    Token,
    #[error("the token is for something else")]
    Purpose,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Clock difference that `exp` and `nbf` forgive.
    pub leeway: Duration,
    /// Required `aud` and `iss`, where the deployment has them.
    pub audience: Option<String>,
    pub issuer: Option<String>,
}

/// Keys and rules, built once.
pub struct Verifier {
    /// The secret that signs, then those it follows.
    decoding: Vec<DecodingKey>,
    encoding: EncodingKey,
    strict: Validation,
    /// The same without a look at `exp`.
    timeless: Validation,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: f64,
    #[serde(default)]
    typ: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct ServiceClaims<'a> {
    typ: &'a str,
    sub: &'a str,
    iat: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
}

const SERVICE: &str = "service";

impl Verifier {
    pub fn new(
        secret: &SecretString,
        previous: &[SecretString],
        rules: &Rules,
    ) -> anyhow::Result<Self> {
        let decoding = std::iter::once(secret)
            .chain(previous)
            .map(|secret| DecodingKey::from_secret(secret.expose_secret().as_bytes()));
        let secret = secret.expose_secret().as_bytes();
        let strict = validation(rules);
        let mut timeless = strict.clone();
        timeless.validate_exp = false;
        Ok(Self {
            decoding: decoding.collect::<Result<_, _>>()?,
            encoding: EncodingKey::from_secret(secret)?,
            strict,
            timeless,
        })
    }

    pub fn present(&self, headers: &HeaderMap) -> Presented {
        let token = match bearer(headers) {
            Ok(Some(token)) => token,
            Ok(None) => return Presented::Missing,
            Err(_) => return Presented::Refused,
        };
        match self.claims(token, &self.strict) {
            Ok(claims) => caller(token, claims).map_or(Presented::Refused, Presented::Valid),
            Err(Failure::Expired) => match self.claims(token, &self.timeless) {
                Ok(claims) => caller(token, claims).map_or(Presented::Refused, Presented::Expired),
                Err(Failure::Expired | Failure::Invalid) => Presented::Refused,
            },
            Err(Failure::Invalid) => Presented::Refused,
        }
    }

    /// The client id of a service token.
    pub fn service(&self, token: &str) -> Result<String, Refused> {
        let claims = self.claims(token, &self.strict).map_err(|_| Refused::Token)?;
        if is_service(&claims) { Ok(claims.sub) } else { Err(Refused::Purpose) }
    }

    /// A service token for `client_id`, valid from `now_s` for `ttl`.
    pub fn issue_service(
        &self,
        client_id: &str,
        now_s: u64,
        ttl: Duration,
    ) -> anyhow::Result<String> {
        let first = |set: &Option<std::collections::HashSet<String>>| {
            set.as_ref().and_then(|names| names.iter().next().cloned())
        };
        let (aud, iss) = (first(&self.strict.aud), first(&self.strict.iss));
        let claims = ServiceClaims {
            typ: SERVICE,
            sub: client_id,
            iat: now_s,
            exp: now_s.saturating_add(ttl.as_secs()),
            aud: aud.as_deref(),
            iss: iss.as_deref(),
        };
        Ok(jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.encoding)?)
    }

    fn claims(&self, token: &str, rules: &Validation) -> Result<Claims, Failure> {
        for key in &self.decoding {
            match jsonwebtoken::decode::<Claims>(token, key, rules) {
                Ok(data) => return Ok(data.claims),
                Err(error) if matches!(error.kind(), ErrorKind::ExpiredSignature) => {
                    return Err(Failure::Expired);
                }
                Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {}
                Err(_) => return Err(Failure::Invalid),
            }
        }
        Err(Failure::Invalid)
    }
}

enum Failure {
    Expired,
    Invalid,
}

fn validation(rules: &Rules) -> Validation {
    let mut validation = Validation::new(Algorithm::HS256);
    validation.leeway = rules.leeway.as_secs();
    validation.validate_nbf = true;
    let mut required = vec!["exp", "sub"];
    // Without a configured audience a token's own is nobody's business here.
    validation.validate_aud = rules.audience.is_some();
    if let Some(audience) = &rules.audience {
        validation.set_audience(&[audience]);
        required.push("aud");
    }
    if let Some(issuer) = &rules.issuer {
        validation.set_issuer(&[issuer]);
        required.push("iss");
    }
    validation.set_required_spec_claims(&required);
    validation
}

/// One `Authorization: Bearer <token>`. What a client makes of two tokens (`Bearer a, Bearer b`) is refused.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refused> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refused::Header);
    }
    let value = value.to_str().map_err(|_| Refused::Header)?;
    let (scheme, token) = value.split_once(' ').ok_or(Refused::Header)?;
    let token = token.trim();
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let valid =
        scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.bytes().all(plain);
    if valid { Ok(Some(token)) } else { Err(Refused::Header) }
}

fn caller(token: &str, claims: Claims) -> Result<Caller, Refused> {
    if !is_user(&claims) {
        return Err(Refused::Purpose);
    }
    let user = UserId::try_from(claims.sub).map_err(|_| Refused::Token)?;
    let token = UserToken::new(token.to_owned());
    // Saturates; the signature vouches for the number.
    Ok(Caller { user, token, expires_at: claims.exp as u64 })
}

fn is_service(claims: &Claims) -> bool {
    claims.typ.as_ref().and_then(serde_json::Value::as_str) == Some(SERVICE)
}

/// A user's token says nothing about its type, or that it is an access token. `service`, `refresh` and
/// whatever else an issuer may sign with the same secret is not one.
fn is_user(claims: &Claims) -> bool {
    let Some(typ) = &claims.typ else { return true };
    let allowed = ["user", "access", "bearer", "jwt"];
    typ.as_str().is_some_and(|typ| allowed.iter().any(|name| typ.eq_ignore_ascii_case(name)))
}

impl FromRequestParts<Arc<App>> for Presented {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        app: &Arc<App>,
    ) -> Result<Self, Self::Rejection> {
        if let Some(presented) = parts.extensions.get::<Self>() {
            return Ok(presented.clone());
        }
        Ok(app.verifier.present(&parts.headers))
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let Ok(presented) = Presented::from_request_parts(parts, app).await;
        match presented {
            Presented::Valid(caller) => Ok(caller),
            Presented::Expired(_) | Presented::Refused | Presented::Missing => {
                Err(ApiError::UNAUTHORIZED)
            }
        }
    }
}

#[cfg(test)]
mod tests;
