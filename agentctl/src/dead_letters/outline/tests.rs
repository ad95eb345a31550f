use expect_test::expect;
use serde_json::json;

use super::*;

fn letter() -> Letter {
    let body = json!({
        "v": 1, "kind": "message", "turn_id": "0199c1a2-0001-7000-8000-000000000001",
        "conversation_id": "5f0c7d1e-6a55-4d0b-9f43-3d2a5b9c1e77", "session": "s1", "user_id": "alice",
        "text": "my secret plan", "files": [{"blob": "b1", "name": "salaries.xlsx", "mime": "", "size": 7}],
        "created_at": "2026-11-30T20:00:00Z", "expires_at": "2026-11-30T21:00:00Z",
    });
    let job = serde_json::from_value(body.clone()).unwrap();
    let outline = Outline {
        seq: 3,
        at: clock::parse("2026-11-30T20:01:00Z").ok(),
        reason: "attempts exhausted".to_owned(),
        attempts: Some(3),
        conversation: "5f0c7d1e-6a55-4d0b-9f43-3d2a5b9c1e77".parse().ok(),
        turn: "0199c1a2-0001-7000-8000-000000000001".parse().ok(),
        user: UserId::try_from("alice".to_owned()).ok(),
        kind: Some("message".to_owned()),
    };
    Letter { outline, job: Some(job), body }
}

#[test]
fn a_list_has_a_line_per_letter() {
    let bare = Outline {
        seq: 4,
        at: None,
        reason: "missing field `kind`".to_owned(),
        attempts: None,
        conversation: None,
        turn: None,
        user: None,
        kind: None,
    };
    let now = clock::parse("2026-11-30T20:05:00Z").unwrap();
    expect![[r#"
        SEQ  WHEN                      CONVERSATION                          TURN                                  USER   KIND     ATTEMPTS  REASON
        3    2026-11-30T20:01:00.000Z  5f0c7d1e-6a55-4d0b-9f43-3d2a5b9c1e77  0199c1a2-0001-7000-8000-000000000001  alice  message  3         attempts exhausted
        4    -                         -                                     -                                     -      -        -         missing field `kind`
    "#]].assert_eq(&Listed::of(&[letter().outline, bare], now).text());
    assert_eq!(Listed::of(&[], now).text(), "no dead letters\n");
}

#[test]
fn what_the_user_wrote_is_shown_on_demand_only() {
    expect![[r#"
        {
          "seq": 3,
          "at": "2026-11-30T20:01:00.000Z",
          "reason": "attempts exhausted",
          "attempts": 3,
          "readable": true,
          "job": {
            "v": 1,
            "kind": "message",
            "turn_id": "0199c1a2-0001-7000-8000-000000000001",
            "conversation_id": "5f0c7d1e-6a55-4d0b-9f43-3d2a5b9c1e77",
            "session": "s1",
            "user_id": "alice",
            "text": "(14 bytes; --content shows them)",
            "files": [
              {
                "blob": "b1",
                "name": "(13 bytes; --content shows them)",
                "mime": "",
                "size": 7
              }
            ],
            "created_at": "2026-11-30T20:00:00Z",
            "expires_at": "2026-11-30T21:00:00Z"
          }
        }"#]]
    .assert_eq(&Shown::of(&letter(), false).text());
    let open = Shown::of(&letter(), true).text();
    assert!(open.contains("my secret plan") && open.contains("salaries.xlsx"), "{open}");
}

#[test]
fn of_what_cannot_be_read_nothing_is_shown_unasked() {
    let unreadable = Letter { job: None, ..letter() };
    let shown = Shown::of(&unreadable, false).text();
    assert!(!shown.contains("plan") && shown.contains("\"readable\": false"), "{shown}");
    assert!(Shown::of(&unreadable, true).text().contains("my secret plan"));
}
