//! `POST /api/auth/service-token`: the agent's own identity, for deployments whose backend issues none.
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use secrecy::ExposeSecret;
use serde::Serialize;
use serde_json::Value;

use crate::app::App;
use crate::config::ServiceClient;
use crate::error::ApiError;
use crate::http::input::RawBody;

/// `{"access_token": string, "token_type": "bearer", "expires_in": seconds}`
#[derive(Serialize)]
struct ServiceToken {
    access_token: String,
    token_type: &'static str,
    expires_in: u64,
}

struct Credentials {
    client_id: String,
    client_secret: String,
}

/// Takes `{client_id, client_secret}` as JSON or as a form, or HTTP Basic. 401 when they are wrong or
/// missing, 404 when this deployment issues no service tokens.
pub async fn issue(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let client = app.config.service.as_ref().ok_or(ApiError::NOT_FOUND)?;
    let given = basic(&headers).or_else(|| in_body(&headers, &body));
    let given = given.ok_or(ApiError::UNAUTHORIZED)?;
    if !matches(client, &given) {
        return Err(ApiError::UNAUTHORIZED);
    }
    let now_s = u64::try_from(shared::runtime::clock::now().unix_timestamp()).unwrap_or_default();
    let token = ServiceToken {
        access_token: app.verifier.issue_service(&client.id, now_s, client.ttl)?,
        token_type: "bearer",
        expires_in: client.ttl.as_secs(),
    };
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(token)).into_response())
}

/// Takes as long whatever is wrong.
fn matches(client: &ServiceClient, given: &Credentials) -> bool {
    let expected = (client.id.as_str(), client.secret.expose_secret());
    let id = equal(expected.0, &given.client_id);
    let secret = equal(expected.1, &given.client_secret);
    id & secret
}

/// Compares digests, so that neither time nor length tells how much was right.
fn equal(expected: &str, given: &str) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, expected.as_bytes());
    let tag = hmac::sign(&key, expected.as_bytes());
    hmac::verify(&key, given.as_bytes(), tag.as_ref()).is_ok()
}

fn basic(headers: &HeaderMap) -> Option<Credentials> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (id, secret) = decoded.split_once(':')?;
    Some(Credentials { client_id: id.to_owned(), client_secret: secret.to_owned() })
}

fn in_body(headers: &HeaderMap, body: &[u8]) -> Option<Credentials> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        return in_form(body);
    }
    let Ok(Value::Object(object)) = serde_json::from_slice(body) else { return None };
    let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(Credentials { client_id: text("client_id")?, client_secret: text("client_secret")? })
}

fn in_form(body: &[u8]) -> Option<Credentials> {
    let uri = format!("/?{}", std::str::from_utf8(body).ok()?).parse::<Uri>().ok()?;
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&uri).ok()?;
    let text =
        |name: &str| pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    Some(Credentials { client_id: text("client_id")?, client_secret: text("client_secret")? })
}

#[cfg(test)]
mod tests;
