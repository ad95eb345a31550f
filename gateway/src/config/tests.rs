//! Good settings, and every problem at once.
use super::*;

const GOOD: &[(&str, &str)] = &[
    ("JWT_SECRET", "a-secret-of-at-least-32-bytes-for-tests"),
    ("SEAL_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
    ("NATS_URL", "nats://127.0.0.1:4222, nats://127.0.0.1:4223"),
    ("DATABASE_URL", "postgres://chat@127.0.0.1/chat"),
];

#[test]
fn four_variables_are_enough() {
    let config = Config::load(env(&[])).ok().unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.tokens.leeway, Duration::from_secs(5));
    assert_eq!(config.nats.urls.len(), 2);
    assert!(config.prefix.is_none() && config.service.is_none());
}

#[test]
fn every_problem_is_reported_at_once() {
    let problems = problems(&[
        ("JWT_SECRET", "short"),
        ("SEAL_KEY", "c2hvcnQ="),
        ("NATS_URL", ""),
        ("DATABASE_URL", ""),
        ("GATEWAY_LISTEN", "everywhere"),
        ("GATEWAY_PREFIX", "api//chat"),
        ("JWT_LEEWAY_S", "-1"),
        ("SERVICE_CLIENT_ID", "agent"),
        ("SERVICE_TOKEN_TTL_S", "5"),
    ]);
    let names: Vec<_> = problems.iter().map(|problem| problem.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "SEAL_KEY",
            "GATEWAY_LISTEN",
            "GATEWAY_PREFIX",
            "JWT_SECRET",
            "JWT_LEEWAY_S",
            "SERVICE_TOKEN_TTL_S",
            "SERVICE_CLIENT_SECRET",
            "NATS_URL",
            "DATABASE_URL",
        ]
    );
}

#[test]
fn no_problem_shows_a_secret() {
    for problem in problems(&[("JWT_SECRET", "hunter2"), ("SEAL_KEY", "hunter2")]) {
        assert!(!problem.to_string().contains("hunter2"), "{problem}");
    }
}

#[test]
fn a_secret_of_32_bytes_passes_and_one_byte_less_does_not() {
    assert!(Config::load(env(&[("JWT_SECRET", &"x".repeat(32))])).is_ok());
    assert_eq!(problems(&[("JWT_SECRET", &"x".repeat(31))]).len(), 1);
}

#[test]
fn a_prefix_loses_its_last_slash() {
    let prefix = |text: &str| Config::load(env(&[("GATEWAY_PREFIX", text)])).ok().unwrap().prefix;
    assert_eq!(prefix("/api/agent/gradio/").as_deref(), Some("/api/agent/gradio"));
    assert_eq!(prefix("/"), None);
    assert_eq!(problems(&[("GATEWAY_PREFIX", "/a{b}")]).len(), 1);
}

#[test]
fn service_tokens_need_both_halves() {
    let (id, secret) = ("SERVICE_CLIENT_ID", "SERVICE_CLIENT_SECRET");
    let both = Config::load(env(&[(id, "agent"), (secret, "a-client-secret-of-some-length")]));
    assert_eq!(both.ok().unwrap().service.unwrap().ttl, Duration::from_secs(300));
    assert_eq!(problems(&[(secret, "a-client-secret-of-some-length")]).len(), 1);
    assert_eq!(problems(&[(id, "agent"), (secret, "short")]).len(), 1);
}

fn problems(changes: &[(&str, &str)]) -> Vec<Problem> {
    Config::load(env(changes)).err().unwrap()
}

fn env(changes: &[(&str, &str)]) -> Env {
    let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let (changes, good) = (owned(changes), owned(GOOD));
    Env::from_lookup(move |wanted| {
        let found = changes.iter().chain(&good).find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.clone())
    })
}
