//! Variables, good and bad.
use super::*;

fn env(pairs: &'static [(&'static str, &'static str)]) -> Env {
    Env::from_lookup(|name| {
        pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn every_problem_is_reported_at_once() {
    let env = env(&[("SLOTS", "many"), ("GRACE_S", "-1"), ("DEBUG", "perhaps")]);
    env.required("DATABASE_URL");
    assert_eq!(env.number("SLOTS", 8_usize), 8);
    assert_eq!(env.seconds("GRACE_S", Duration::from_secs(25)), Duration::from_secs(25));
    assert!(!env.switch("DEBUG", false));
    env.secret("SEAL_KEY");
    let names: Vec<_> = env.finish().unwrap_err().into_iter().map(|p| p.name).collect();
    assert_eq!(names, ["DATABASE_URL", "SLOTS", "GRACE_S", "DEBUG", "SEAL_KEY"]);
}

#[test]
fn a_problem_never_shows_the_value() {
    let env = env(&[("PORT", "hunter2")]);
    env.number("PORT", 1_u16);
    let problems = env.finish().unwrap_err();
    assert_eq!(problems[0].to_string(), "PORT: invalid digit found in string");
}

#[test]
fn an_empty_variable_is_not_set() {
    let env = env(&[("NAME", " "), ("URLS", "a, b,,"), ("WAIT_MS", "25")]);
    assert_eq!(env.string("NAME", "default"), "default");
    assert_eq!(env.optional("NAME"), None);
    assert_eq!(env.list("URLS"), ["a", "b"]);
    assert_eq!(env.millis("WAIT_MS", Duration::ZERO), Duration::from_millis(25));
    assert_eq!(env.finish(), Ok(()));
}

#[test]
fn a_variable_may_come_from_a_file() {
    let path = std::env::temp_dir().join(format!("env-file-{}", std::process::id()));
    std::fs::write(&path, " sealed\n").unwrap();
    let file = path.to_str().unwrap().to_owned();
    let env = Env::from_lookup(move |name| match name {
        "SEAL_KEY_FILE" | "BOTH_FILE" => Some(file.clone()),
        "BOTH" => Some("value".to_owned()),
        "LOST_FILE" => Some("/nowhere/at/all".to_owned()),
        _ => None,
    });
    assert_eq!(env.optional("SEAL_KEY").as_deref(), Some("sealed"));
    assert_eq!((env.optional("BOTH"), env.optional("LOST")), (None, None));
    std::fs::remove_file(&path).unwrap();
    let problems: Vec<_> = env.finish().unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        ["BOTH_FILE: is set together with BOTH", "LOST_FILE: can't be read: entity not found"]
    );
}
