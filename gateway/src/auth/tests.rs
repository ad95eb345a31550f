//! The matrix of tokens.
use axum::http::HeaderValue;
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "a-secret-of-at-least-32-bytes-for-tests";

#[test]
fn one_valid_bearer_token_names_the_user() {
    check(&json!({ "sub": "anna", "exp": now() + 60 }), "valid anna");
    check(&json!({ "sub": "anna", "exp": now() + 60, "typ": "access" }), "valid anna");
    check(&json!({ "sub": "anna", "exp": now() as f64 + 60.5 }), "valid anna");
    check(&json!({ "sub": "anna", "exp": now() + 60, "nbf": now() - 60 }), "valid anna");
}

#[test]
fn clocks_may_differ_by_the_leeway_only() {
    check(&json!({ "sub": "anna", "exp": now() - 3 }), "valid anna");
    check(&json!({ "sub": "anna", "exp": now() - 9 }), "expired anna");
    check(&json!({ "sub": "anna", "exp": now() + 60, "nbf": now() + 3 }), "valid anna");
    check(&json!({ "sub": "anna", "exp": now() + 60, "nbf": now() + 9 }), "refused");
}

#[test]
fn claims_that_are_missing_or_of_another_kind_are_refused() {
    check(&json!({ "sub": "anna" }), "refused");
    check(&json!({ "exp": now() + 60 }), "refused");
    check(&json!({ "sub": "", "exp": now() + 60 }), "refused");
    check(&json!({ "sub": "a\nb", "exp": now() + 60 }), "refused");
    check(&json!({ "sub": 7, "exp": now() + 60 }), "refused");
    check(&json!({ "sub": "anna", "exp": "tomorrow" }), "refused");
    check(&json!({ "sub": "anna", "exp": null }), "refused");
    check(&json!({ "sub": "anna", "exp": now() + 60, "nbf": "now" }), "refused");
    check(&json!({ "sub": "anna", "exp": now() + 60, "aud": "another system" }), "valid anna");
}

#[test]
fn a_token_for_something_else_is_no_user() {
    for typ in [json!("service"), json!("SERVICE"), json!("refresh"), json!(1), json!(["user"])] {
        check(&json!({ "sub": "agent", "exp": now() + 60, "typ": typ }), "refused");
        check(&json!({ "sub": "agent", "exp": now() - 60, "typ": typ }), "refused");
    }
}

#[test]
fn only_hs256_with_our_secret_counts() {
    let claims = json!({ "sub": "anna", "exp": now() + 60 });
    let other = EncodingKey::from_secret(b"another-secret-of-at-least-32-bytes-xxx").unwrap();
    let ours = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    let foreign = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &other).unwrap();
    let stronger = jsonwebtoken::encode(&Header::new(Algorithm::HS512), &claims, &ours).unwrap();
    let good = sign(&claims);
    let mut parts = good.split('.');
    let (_, payload, signature) = (parts.next(), parts.next().unwrap(), parts.next().unwrap());
    // {"alg":"none","typ":"JWT"}
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";
    for token in [
        foreign,
        stronger,
        format!("{none}.{payload}."),
        format!("{none}.{payload}.{signature}"),
        format!("{}x", good),
        "x".to_owned(),
        "..".to_owned(),
    ] {
        assert_eq!(seen(&[&format!("Bearer {token}")]), "refused", "{token}");
    }
}

#[test]
fn an_expired_token_of_another_secret_names_nobody() {
    let claims = json!({ "sub": "anna", "exp": now() - 60 });
    let other = EncodingKey::from_secret(b"another-secret-of-at-least-32-bytes-xxx").unwrap();
    let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &other).unwrap();
    assert_eq!(seen(&[&format!("Bearer {token}")]), "refused");
}

#[test]
fn the_header_holds_exactly_one_bearer_token() {
    let token = sign(&json!({ "sub": "anna", "exp": now() + 60 }));
    assert_eq!(seen(&[]), "missing");
    assert_eq!(seen(&[&format!("bearer {token}")]), "valid anna");
    assert_eq!(seen(&[&format!("BEARER  {token} ")]), "valid anna");
    assert_eq!(seen(&[&token]), "refused");
    assert_eq!(seen(&["Bearer "]), "refused");
    assert_eq!(seen(&[&format!("Basic {token}")]), "refused");
    assert_eq!(seen(&[&format!("Bearer {token}, Bearer {token}")]), "refused");
    assert_eq!(seen(&[&format!("Bearer hf_x, Bearer {token}")]), "refused");
    assert_eq!(seen(&[&format!("Bearer {token}"), &format!("Bearer {token}")]), "refused");
}

#[test]
fn audience_and_issuer_are_required_where_configured() {
    let rules =
        Rules { audience: Some("chat".to_owned()), issuer: Some("sso".to_owned()), ..rules() };
    let verifier = Verifier::new(&SECRET.into(), &[], &rules).unwrap();
    let seen = |claims: Value| describe(&verifier.present(&headers(&[&bearer_of(&claims)])));
    let exp = now() + 60;
    assert_eq!(seen(json!({ "sub": "a", "exp": exp, "aud": "chat", "iss": "sso" })), "valid a");
    assert_eq!(
        seen(json!({ "sub": "a", "exp": exp, "aud": ["x", "chat"], "iss": "sso" })),
        "valid a"
    );
    assert_eq!(seen(json!({ "sub": "a", "exp": exp, "aud": "chat" })), "refused");
    assert_eq!(seen(json!({ "sub": "a", "exp": exp, "iss": "sso" })), "refused");
    assert_eq!(seen(json!({ "sub": "a", "exp": exp, "aud": "x", "iss": "sso" })), "refused");
}

#[test]
fn a_service_token_is_a_service_and_a_user_token_is_not() {
    let verifier = verifier();
    let service = verifier.issue_service("agent", now(), Duration::from_secs(60)).unwrap();
    assert_eq!(verifier.service(&service), Ok("agent".to_owned()));
    assert_eq!(seen(&[&format!("Bearer {service}")]), "refused");
    let user = sign(&json!({ "sub": "anna", "exp": now() + 60 }));
    assert_eq!(verifier.service(&user), Err(Refused::Purpose));
    let old = verifier.issue_service("agent", now() - 100, Duration::from_secs(60)).unwrap();
    assert_eq!(verifier.service(&old), Err(Refused::Token));
}

#[test]
fn debug_output_shows_no_token() {
    let token = sign(&json!({ "sub": "anna", "exp": now() + 60 }));
    let presented = verifier().present(&headers(&[&format!("Bearer {token}")]));
    assert!(!format!("{presented:?}").contains(&token));
}

#[track_caller]
fn check(claims: &Value, expected: &str) {
    assert_eq!(seen(&[&bearer_of(claims)]), expected, "{claims}");
}

fn seen(values: &[&str]) -> String {
    describe(&verifier().present(&headers(values)))
}

fn describe(presented: &Presented) -> String {
    match presented {
        Presented::Valid(caller) => format!("valid {}", caller.user),
        Presented::Expired(caller) => format!("expired {}", caller.user),
        Presented::Refused => "refused".to_owned(),
        Presented::Missing => "missing".to_owned(),
    }
}

fn headers(values: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
    }
    headers
}

#[test]
fn tokens_of_an_older_secret_are_good_until_it_goes() {
    let newer = "another-secret-of-at-least-32-bytes-here";
    let headers = headers(&[&bearer_of(&json!({"sub": "alice", "exp": now() + 60}))]);
    let late = headers_of_expired();
    let rotated = Verifier::new(&newer.into(), &[SECRET.into()], &rules()).unwrap();
    assert!(matches!(rotated.present(&headers), Presented::Valid(_)));
    assert!(matches!(rotated.present(&late), Presented::Expired(_)));
    let own = rotated.issue_service("agent", now(), Duration::from_secs(60)).unwrap();
    let done = Verifier::new(&newer.into(), &[], &rules()).unwrap();
    assert!(matches!(done.present(&headers), Presented::Refused));
    assert_eq!(done.service(&own).unwrap(), "agent");
    assert!(verifier().service(&own).is_err());
}

fn headers_of_expired() -> HeaderMap {
    headers(&[&bearer_of(&json!({"sub": "alice", "exp": now() - 60}))])
}

fn bearer_of(claims: &Value) -> String {
    format!("Bearer {}", sign(claims))
}

fn sign(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).unwrap()
}

fn verifier() -> Verifier {
    Verifier::new(&SECRET.into(), &[], &rules()).unwrap()
}

fn rules() -> Rules {
    Rules { leeway: Duration::from_secs(5), audience: None, issuer: None }
}

fn now() -> u64 {
    jsonwebtoken::get_current_timestamp()
}
