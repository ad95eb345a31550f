use expect_test::{Expect, expect};
use shared::bus::jobs::listing::Content;

use super::*;

fn check(leases: &[LeaseRow], entries: &[Entry], cards: Cards, scope: &Scope, expected: Expect) {
    let now = clock::parse("2026-11-30T20:05:00Z").unwrap();
    expected.assert_eq(&Turns::of(leases, entries, cards, scope, now).text());
}

fn turn(n: u32) -> TurnId {
    format!("0199c1a2-0001-7000-8000-{n:012}").parse().unwrap()
}

fn conversation(n: u32) -> ConversationId {
    format!("5f0c7d1e-6a55-4d0b-9f43-{n:012}").parse().unwrap()
}

fn user(name: &str) -> UserId {
    UserId::try_from(name.to_owned()).unwrap()
}

fn lease(n: u32, left_ms: i64) -> LeaseRow {
    LeaseRow {
        conversation: conversation(n),
        turn: turn(n),
        user: "alice".to_owned(),
        owner: "worker-1".to_owned(),
        epoch: 7,
        left_ms,
        kind: Some("message".to_owned()),
        status: Some("running".to_owned()),
        attempt: Some(2),
        started_at: clock::parse("2026-11-30T20:03:48Z").ok(),
    }
}

fn entry(n: u32, name: &str) -> Entry {
    Entry {
        stored_at: clock::parse("2026-11-30T20:04:00Z").ok(),
        conversation: Some(conversation(n)),
        content: Some(Content { turn: turn(n), user: user(name), kind: JobKind::Resume }),
    }
}

const NO_CARDS: Cards = Cards { open: 0, oldest_at: None };

#[test]
fn nothing_runs() {
    check(
        &[],
        &[],
        NO_CARDS,
        &Scope::default(),
        expect![[r#"
            no turns
        "#]],
    );
}

#[test]
fn a_job_with_a_lease_runs_and_one_without_waits() {
    let unreadable = Entry { stored_at: None, conversation: None, content: None };
    let entries = [entry(1, "alice"), entry(2, "alice"), entry(3, "bob"), unreadable];
    let oldest_at = clock::parse("2026-11-30T19:00:00Z").ok();
    check(
        &[lease(1, 12_400), lease(2, -3_000)],
        &entries,
        Cards { open: 2, oldest_at },
        &Scope::default(),
        expect![[r#"
            STATUS   TURN                                  CONVERSATION                          USER   KIND        WORKER    ATTEMPT  STARTED                   AGE    LEASE
            running  0199c1a2-0001-7000-8000-000000000001  5f0c7d1e-6a55-4d0b-9f43-000000000001  alice  message     worker-1  2        2026-11-30T20:03:48.000Z  1m12s  12s
            stalled  0199c1a2-0001-7000-8000-000000000002  5f0c7d1e-6a55-4d0b-9f43-000000000002  alice  message     worker-1  2        2026-11-30T20:03:48.000Z  1m12s  expired 3s ago
            queued   0199c1a2-0001-7000-8000-000000000003  5f0c7d1e-6a55-4d0b-9f43-000000000003  bob    resume      -         -        -                         1m0s   -
            queued   -                                     -                                     -      unreadable  -         -        -                         -      -

            2 cards open, the oldest for 1h5m
        "#]],
    );
}

#[test]
fn waiting_jobs_are_narrowed_as_the_rest_is() {
    let entries = [entry(1, "alice"), entry(2, "bob")];
    let bob = Scope { user: Some(user("bob")), conversation: None };
    let cards = Cards { open: 1, oldest_at: clock::parse("2026-11-30T20:04:50Z").ok() };
    check(
        &[],
        &entries,
        cards,
        &bob,
        expect![[r#"
        STATUS  TURN                                  CONVERSATION                          USER  KIND    WORKER  ATTEMPT  STARTED  AGE   LEASE
        queued  0199c1a2-0001-7000-8000-000000000002  5f0c7d1e-6a55-4d0b-9f43-000000000002  bob   resume  -       -        -        1m0s  -

        1 card open, for 10s
    "#]],
    );
    let first = Scope { user: None, conversation: Some(conversation(1)) };
    check(
        &[],
        &entries,
        NO_CARDS,
        &first,
        expect![[r#"
        STATUS  TURN                                  CONVERSATION                          USER   KIND    WORKER  ATTEMPT  STARTED  AGE   LEASE
        queued  0199c1a2-0001-7000-8000-000000000001  5f0c7d1e-6a55-4d0b-9f43-000000000001  alice  resume  -       -        -        1m0s  -
    "#]],
    );
}

#[test]
fn a_conversations_name_needs_its_user() {
    let which = |user: Option<&str>, conversation: &str| Which {
        user: user.map(str::to_owned),
        conversation: Some(conversation.to_owned()),
    };
    let named = scope(&which(Some("alice"), "conv-1")).unwrap();
    let id = ConversationId::from_reference(&user("alice"), "conv-1").unwrap();
    assert_eq!(named.conversation, Some(id));
    assert!(scope(&which(None, &id.to_string())).is_ok());
    let error = scope(&which(None, "conv-1")).unwrap_err().to_string();
    assert_eq!(error, "--conversation is not an id; a name needs --user");
}
