//! Ways to say who the client is.
use axum::http::HeaderValue;
use std::time::Duration;

use super::*;

#[test]
fn basic_json_and_form_say_the_same() {
    let basic = headers(header::AUTHORIZATION, "Basic YWdlbnQ6czpl4oKs");
    assert_eq!(given(&basic, b""), Some(("agent".to_owned(), "s:e€".to_owned())));
    let json = headers(header::CONTENT_TYPE, "application/json");
    let body = br#"{"client_id":"agent","client_secret":"s&e","grant_type":"client_credentials"}"#;
    assert_eq!(given(&json, body), Some(("agent".to_owned(), "s&e".to_owned())));
    let form = headers(header::CONTENT_TYPE, "application/x-www-form-urlencoded; charset=utf-8");
    let body = b"grant_type=client_credentials&client_id=agent&client_secret=s%26e+x";
    assert_eq!(given(&form, body), Some(("agent".to_owned(), "s&e x".to_owned())));
}

#[test]
fn half_of_it_is_nothing() {
    let none = HeaderMap::new();
    for body in [
        &b""[..],
        b"[]",
        b"{",
        br#"{"client_id":"agent"}"#,
        br#"{"client_id":1,"client_secret":2}"#,
    ] {
        assert_eq!(given(&none, body), None);
    }
    let basic = headers(header::AUTHORIZATION, "Basic !!");
    assert_eq!(given(&basic, b""), None);
}

#[test]
fn both_halves_must_be_right() {
    let secret = "a-client-secret-of-some-length";
    let client = ServiceClient {
        id: "agent".to_owned(),
        secret: secret.into(),
        ttl: Duration::from_secs(60),
    };
    let answer = |id: &str, secret: &str| {
        let (client_id, client_secret) = (id.to_owned(), secret.to_owned());
        matches(&client, &Credentials { client_id, client_secret })
    };
    assert!(answer("agent", secret));
    assert!(!answer("agent", "a-client-secret-of-some-lengtH"));
    assert!(!answer("agents", secret));
    assert!(!answer("agent", ""));
    assert!(!answer("", ""));
}

fn given(headers: &HeaderMap, body: &[u8]) -> Option<(String, String)> {
    let given = basic(headers).or_else(|| in_body(headers, body))?;
    Some((given.client_id, given.client_secret))
}

fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
}
