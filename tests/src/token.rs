//! Users and their tokens, as the sign-in of a product would issue them.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

/// For tests and the demo only; at least 32 bytes, as the gateway demands.
pub const SECRET: &str = "not-a-secret-only-for-tests-and-demo-0123456789";

fn now() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(elapsed.as_secs()).unwrap()
}

pub fn sign(claims: &Value, secret: &str, algorithm: Algorithm) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes()).unwrap();
    jsonwebtoken::encode(&Header::new(algorithm), claims, &key).unwrap()
}

/// A user's token that is good for an hour.
pub fn user(name: &str) -> String {
    user_for(name, Duration::from_secs(3_600))
}

pub fn user_for(name: &str, lifetime: Duration) -> String {
    user_with(name, lifetime, SECRET)
}

pub fn user_with(name: &str, lifetime: Duration, secret: &str) -> String {
    let exp = now() + i64::try_from(lifetime.as_secs()).unwrap();
    sign(&json!({"sub": name, "exp": exp}), secret, Algorithm::HS256)
}

/// Expired a while ago, longer than any leeway.
pub fn expired(name: &str) -> String {
    sign(&json!({"sub": name, "exp": now() - 600}), SECRET, Algorithm::HS256)
}

pub fn service(client: &str, lifetime: Duration) -> String {
    let exp = now() + i64::try_from(lifetime.as_secs()).unwrap();
    sign(&json!({"sub": client, "exp": exp, "typ": "service"}), SECRET, Algorithm::HS256)
}
