//! Dead letters, as people look at them.
use contract::subject;
use shared::bus::{Error, dead_letter};

use crate::server::{Server, conversation, job};

#[tokio::test]
async fn letters_are_listed_shown_and_deleted() {
    let (_server, bus) = Server::ready().await;
    let jobs = [job(conversation()), job(conversation())];
    for job in &jobs {
        dead_letter::publish(&bus, job, "attempts exhausted", 4).await.unwrap();
    }
    let listed = dead_letter::list(&bus).await.unwrap();
    assert_eq!(listed.iter().map(|letter| letter.seq).collect::<Vec<_>>(), [1, 2]);
    let second = &listed[1];
    assert_eq!(second.turn, Some(jobs[1].turn_id));
    assert_eq!(second.conversation, Some(jobs[1].conversation_id));
    assert_eq!(second.user.as_ref(), Some(&jobs[1].user_id));
    assert_eq!((second.kind.as_deref(), second.attempts), (Some("message"), Some(4)));
    assert_eq!(second.reason, "attempts exhausted");
    assert!(second.at.is_some());

    let shown = dead_letter::get(&bus, 2).await.unwrap().unwrap();
    assert_eq!(&shown.outline, second);
    let bare = contract::job::Job { user_token: None, ..jobs[1].clone() };
    assert_eq!(shown.job, Some(bare));
    assert!(!shown.body.to_string().contains("sealed"), "{}", shown.body);

    assert!(dead_letter::delete(&bus, 2).await.unwrap());
    assert!(!dead_letter::delete(&bus, 2).await.unwrap());
    assert!(!dead_letter::delete(&bus, 99).await.unwrap());
    assert_eq!(dead_letter::get(&bus, 2).await.unwrap(), None);
    assert_eq!(dead_letter::list(&bus).await.unwrap(), listed[..1]);
}

#[tokio::test]
async fn there_may_be_many_letters_or_none() {
    let (_server, bus) = Server::ready().await;
    assert_eq!(dead_letter::list(&bus).await.unwrap(), []);
    for _ in 0..50 {
        dead_letter::publish(&bus, &job(conversation()), "expired", 1).await.unwrap();
    }
    let listed = dead_letter::list(&bus).await.unwrap();
    let sequences: Vec<u64> = listed.iter().map(|letter| letter.seq).collect();
    assert_eq!(sequences, (1..=50).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_no_job_is_shown_as_it_is() {
    let (_server, bus) = Server::ready().await;
    let raw = br#"{"kind":"message","user_token":"v1.secret","user_id":7}"#;
    dead_letter::publish_unreadable(&bus, None, raw, "missing field").await.unwrap();
    let foreign = r#"{"reason":"?","job":{"user_jwt":"secret","a":1}}"#;
    let to = subject::dead_letter(conversation());
    bus.js.publish(to, foreign.into()).await.unwrap().await.unwrap();
    let unreadable = dead_letter::get(&bus, 1).await.unwrap().unwrap();
    assert_eq!((unreadable.job, unreadable.outline.conversation), (None, None));
    assert_eq!(unreadable.body.to_string(), r#"{"kind":"message","user_id":7}"#);
    let careless = dead_letter::get(&bus, 2).await.unwrap().unwrap();
    assert_eq!(careless.body.to_string(), r#"{"a":1}"#);
}

#[tokio::test]
async fn without_the_stream_nobody_waits() {
    let server = Server::start();
    let bus = server.connect().await;
    assert_eq!(dead_letter::list(&bus).await, Err(Error::NoResponders));
}
