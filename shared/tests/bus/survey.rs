//! How full and busy everything is.
use std::time::Duration;

use contract::ids::UserId;
use contract::job::{Job, JobKind};
use shared::bus::jobs::listing::{self, Content};
use shared::bus::jobs::{self, Puller};
use shared::bus::survey::{ConsumerState, server, survey};
use shared::runtime::trace::Trace;

use crate::server::{Server, conversation, job, within};

#[tokio::test]
async fn a_server_without_anything_has_nothing() {
    let running = Server::start();
    let bus = running.connect().await;
    let found = survey(&bus).await.unwrap();
    assert_eq!((found.streams.len(), found.consumer, found.clock), (0, None, None));
    let server = server(&bus);
    assert!(server.is_recent_enough && server.max_payload_bytes == 1_048_576, "{server:?}");
}

#[tokio::test]
async fn jobs_are_counted_where_they_are() {
    let (_server, bus) = Server::ready().await;
    for _ in 0..3 {
        jobs::publish(&bus, &job(conversation()), &Trace::root()).await.unwrap();
    }
    let mut puller = Puller::new(&bus);
    let first = within(10, puller.pull(Duration::from_secs(10))).await.unwrap().unwrap();
    first.ack.nak(Duration::ZERO).await.unwrap();
    let mut in_hand = Vec::new();
    for _ in 0..3 {
        in_hand.push(within(10, puller.pull(Duration::from_secs(10))).await.unwrap().unwrap());
    }
    let waiting = tokio::time::timeout(Duration::from_millis(300), puller.pull(in_minutes())).await;
    assert!(waiting.is_err());
    let found = survey(&bus).await.unwrap();
    let expected = ConsumerState {
        ack_wait: Duration::from_secs(15),
        waiting_pulls: 1,
        pending: 0,
        in_hand: 3,
        redelivered: 1,
    };
    assert_eq!(found.consumer, Some(expected));
    assert_eq!(found.streams.len(), 5);
    let queue = &found.streams[0];
    assert_eq!((queue.name.as_str(), queue.messages, queue.replicas), ("AGENT_JOBS", 3, 1));
    assert_eq!((queue.max_messages, queue.refuses_when_full), (Some(5_000), true));
    assert!(queue.oldest_at.is_some() && found.streams[1].oldest_at.is_none());
    let events = &found.streams[1];
    assert_eq!((events.max_messages, events.refuses_when_full), (None, false));
    assert_eq!(events.max_bytes, Some(2_048 * 1_024 * 1_024));
    let clock = found.clock.unwrap();
    let slack = Duration::from_secs(1);
    assert!(clock.asked_at - slack < clock.at && clock.at < clock.heard_at + slack, "{clock:?}");
}

fn in_minutes() -> Duration {
    Duration::from_secs(60)
}

#[tokio::test]
async fn all_jobs_are_listed_without_their_content() {
    let (_server, bus) = Server::ready().await;
    assert_eq!(listing::list(&bus).await.unwrap(), []);
    let mut published = Vec::new();
    for _ in 0..50 {
        let job = Job { kind: JobKind::Resume, ..job(conversation()) };
        jobs::publish(&bus, &job, &Trace::root()).await.unwrap();
        published.push(job);
    }
    let listed = listing::list(&bus).await.unwrap();
    assert_eq!(listed.len(), 50);
    for (entry, job) in listed.iter().zip(&published) {
        assert_eq!(entry.conversation, Some(job.conversation_id));
        let user = UserId::try_from("user".to_owned()).unwrap();
        let content = Content { turn: job.turn_id, user, kind: JobKind::Resume };
        assert_eq!(entry.content, Some(content));
        assert!(entry.stored_at.is_some());
    }
    assert!(!format!("{listed:?}").contains("sealed"), "{listed:?}");
}
