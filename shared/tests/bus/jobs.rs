//! One job per conversation, pulled one at a time, never lost.
use std::time::Duration;

use async_nats::jetstream::stream::Config;
use contract::subject;
use futures_util::future::join_all;
use shared::bus::jobs::{self, Accepted, Delivery, JobRefused, Puller};
use shared::bus::{Bus, dead_letter, topology};
use shared::runtime::trace::Trace;

use crate::server::{Server, conversation, job, within};

const BRIEFLY: Duration = Duration::from_millis(300);

async fn pull(puller: &mut Puller) -> Delivery {
    within(20, puller.pull(Duration::from_secs(20))).await.unwrap().unwrap()
}

async fn submit(bus: &Bus, job: &contract::job::Job) -> Result<Accepted, JobRefused> {
    jobs::publish(bus, job, &Trace::root()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_submissions_have_one_winner_per_conversation() {
    let (server, bus) = Server::ready().await;
    let buses = [bus.clone(), server.connect().await, server.connect().await];
    let mut racers = tokio::task::JoinSet::new();
    for index in 0..20 {
        let contested = conversation();
        for racer in 0..50 {
            let bus = buses[(index + racer) % buses.len()].clone();
            racers.spawn(async move { submit(&bus, &job(contested)).await });
        }
    }
    let (mut winners, mut busy) = (0, 0);
    for outcome in within(60, racers.join_all()).await {
        match outcome {
            Ok(accepted) => winners += u32::from(!accepted.duplicate),
            Err(JobRefused::Busy { turn_id: Some(_) }) => busy += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((winners, busy), (20, 980));
    assert_eq!(jobs::backlog(&bus).await.unwrap(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_opens_and_closes_all_the_time_is_never_a_full_queue() {
    let (_server, bus) = Server::ready().await;
    let contested = conversation();
    let mut racers = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let bus = bus.clone();
        racers.spawn(async move {
            let mut outcomes = Vec::new();
            for _ in 0..15 {
                outcomes.push(submit(&bus, &job(contested)).await);
            }
            outcomes
        });
    }
    let mut puller = Puller::new(&bus);
    let acking = async {
        loop {
            if let Ok(Some(delivery)) = puller.pull(Duration::from_secs(5)).await {
                delivery.ack.ack().await.unwrap();
            }
        }
    };
    let outcomes = tokio::select! {
        outcomes = within(60, racers.join_all()) => outcomes,
        () = acking => unreachable!(),
    };
    for outcome in outcomes.into_iter().flatten() {
        assert!(matches!(outcome, Ok(_) | Err(JobRefused::Busy { .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn submitting_again_is_harmless() {
    let (_server, bus) = Server::ready().await;
    let job = job(conversation());
    assert_eq!(submit(&bus, &job).await, Ok(Accepted { duplicate: false }));
    assert_eq!(submit(&bus, &job).await, Ok(Accepted { duplicate: true }));
    assert_eq!(jobs::active(&bus, job.conversation_id).await, Ok(Some(job)));
    assert_eq!(jobs::active(&bus, conversation()).await, Ok(None));
}

#[tokio::test]
async fn a_busy_conversation_names_its_turn_until_the_ack() {
    let (_server, bus) = Server::ready().await;
    let (first, second) = (job(conversation()), job(conversation()));
    let second = contract::job::Job { conversation_id: first.conversation_id, ..second };
    submit(&bus, &first).await.unwrap();
    let busy = Err(JobRefused::Busy { turn_id: Some(first.turn_id) });
    assert_eq!(submit(&bus, &second).await, busy);
    let delivery = pull(&mut Puller::new(&bus)).await;
    assert_eq!((delivery.conversation, delivery.deliveries), (Some(first.conversation_id), 1));
    assert_eq!(delivery.payload.as_ref(), Ok(&first));
    assert_eq!(submit(&bus, &second).await, busy);
    delivery.ack.progress(BRIEFLY).await.unwrap();
    delivery.ack.ack().await.unwrap();
    assert_eq!(submit(&bus, &second).await, Ok(Accepted { duplicate: false }));
}

#[tokio::test]
async fn a_full_queue_is_not_a_busy_conversation() {
    let (_server, bus) = Server::ready().await;
    let stream = bus.js.get_stream("AGENT_JOBS").await.unwrap();
    let config = stream.cached_info().config.clone();
    bus.js.update_stream(Config { max_messages: 2, ..config }).await.unwrap();
    let first = job(conversation());
    submit(&bus, &first).await.unwrap();
    submit(&bus, &job(conversation())).await.unwrap();
    assert_eq!(submit(&bus, &job(conversation())).await, Err(JobRefused::Full));
    assert_eq!(submit(&bus, &first).await, Ok(Accepted { duplicate: true }));
}

#[tokio::test]
async fn a_job_that_cannot_travel_is_refused() {
    let (mut server, bus) = Server::ready().await;
    let large = contract::job::Job { text: "x".repeat(300_000), ..job(conversation()) };
    assert_eq!(submit(&bus, &large).await, Err(JobRefused::TooLarge));
    bus.js.delete_stream("AGENT_JOBS").await.unwrap();
    let refused = submit(&bus, &job(conversation())).await;
    assert!(matches!(refused, Err(JobRefused::Unavailable(_))), "{refused:?}");
    server.kill();
    let refused = within(20, submit(&bus, &job(conversation()))).await;
    assert!(matches!(refused, Err(JobRefused::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn a_job_given_back_comes_again() {
    let (_server, bus) = Server::ready().await;
    submit(&bus, &job(conversation())).await.unwrap();
    let mut puller = Puller::new(&bus);
    pull(&mut puller).await.ack.nak(Duration::ZERO).await.unwrap();
    let again = pull(&mut puller).await;
    assert_eq!(again.deliveries, 2);
    again.ack.nak(Duration::from_millis(200)).await.unwrap();
    assert!(puller.pull(Duration::from_millis(50)).await.unwrap().is_none());
    let third = pull(&mut puller).await;
    third.ack.term().await.unwrap();
    assert_eq!(jobs::backlog(&bus).await.unwrap(), 0);
}

#[tokio::test]
async fn a_cancelled_pull_loses_no_job() {
    let (_server, bus) = Server::ready().await;
    let mut puller = Puller::new(&bus);
    let given_up = tokio::time::timeout(BRIEFLY, puller.pull(Duration::from_secs(30))).await;
    assert!(given_up.is_err());
    submit(&bus, &job(conversation())).await.unwrap();
    assert_eq!(pull(&mut puller).await.deliveries, 1);
}

/// A job that comes in the very moment of the withdrawal is handed out or stays at the server, whenever it comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawn_pull_loses_no_job() {
    let (_server, bus) = Server::ready().await;
    let expires = Duration::from_millis(200);
    let cases = (0..48).map(async |n: u64| {
        let mut puller = Puller::new(&bus);
        let _ = tokio::time::timeout(Duration::from_millis(10), puller.pull(expires)).await;
        let submitted = async {
            tokio::time::sleep(Duration::from_millis(n * 5)).await;
            submit(&bus, &job(conversation())).await.unwrap();
        };
        if let (Some(delivery), ()) = tokio::join!(puller.withdraw(), submitted) {
            delivery.ack.nak(Duration::ZERO).await.unwrap();
        }
        assert!(puller.withdraw().await.is_none());
    });
    join_all(cases).await;
    let mut puller = Puller::new(&bus);
    for _ in 0..48 {
        within(5, pull(&mut puller)).await.ack.ack().await.unwrap();
    }
    assert_eq!(jobs::backlog(&bus).await.unwrap(), 0);
}

#[tokio::test]
async fn a_sign_of_life_is_confirmed() {
    let (mut server, bus) = Server::ready().await;
    let options =
        topology::Options { ack_wait: Duration::from_secs(1), ..topology::Options::default() };
    topology::apply(&bus, &options).await.unwrap();
    submit(&bus, &job(conversation())).await.unwrap();
    let mut puller = Puller::new(&bus);
    let delivery = pull(&mut puller).await;
    let mut idle = Puller::new(&bus);
    let nobody_else = idle.pull(Duration::from_secs(3));
    let alive = async {
        for _ in 0..10 {
            delivery.ack.progress(Duration::from_secs(1)).await.unwrap();
            tokio::time::sleep(BRIEFLY).await;
        }
    };
    assert!(tokio::join!(nobody_else, alive).0.unwrap().is_none());
    server.kill();
    assert!(delivery.ack.progress(BRIEFLY).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn pulling_survives_a_restart() {
    let (mut server, bus) = Server::ready().await;
    let waiting = tokio::task::spawn_blocking({
        let bus = bus.clone();
        let runtime = tokio::runtime::Handle::current();
        move || runtime.block_on(async move { pull(&mut Puller::new(&bus)).await })
    });
    tokio::time::sleep(BRIEFLY).await;
    server.kill();
    tokio::time::sleep(BRIEFLY).await;
    server.start_again();
    assert!(bus.connected_within(Duration::from_secs(10)).await);
    let job = job(conversation());
    let submitted = async {
        while submit(&bus, &job).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within(10, submitted).await;
    let delivery = within(5, waiting).await.unwrap();
    assert_eq!((delivery.payload, delivery.deliveries), (Ok(job), 1));
}

#[tokio::test]
async fn a_silent_worker_loses_its_job() {
    let (_server, bus) = Server::ready().await;
    let options =
        topology::Options { ack_wait: Duration::from_secs(1), ..topology::Options::default() };
    topology::apply(&bus, &options).await.unwrap();
    submit(&bus, &job(conversation())).await.unwrap();
    let mut puller = Puller::new(&bus);
    let silent = pull(&mut puller).await;
    assert_eq!(pull(&mut puller).await.deliveries, 2);
    drop(silent);
}

#[tokio::test]
async fn what_is_not_a_job_says_why() {
    let (_server, bus) = Server::ready().await;
    let body = r#"{"user_token":"v1.secret"}"#;
    let to = subject::JOBS_ALL.replace('*', "nonsense");
    bus.js.publish(to, body.into()).await.unwrap().await.unwrap();
    let delivery = pull(&mut Puller::new(&bus)).await;
    assert_eq!(delivery.conversation, None);
    let reason = delivery.payload.unwrap_err();
    assert!(reason.contains("missing field"), "{reason}");
    dead_letter::publish_unreadable(&bus, None, &delivery.raw, &reason).await.unwrap();
    assert_eq!(dead_letters(&bus).await.len(), 1);
}

#[tokio::test]
async fn a_dead_letter_has_no_token() {
    let (_server, bus) = Server::ready().await;
    let job = job(conversation());
    dead_letter::publish(&bus, &job, "expired", 3).await.unwrap();
    dead_letter::publish(&bus, &job, "expired", 3).await.unwrap();
    let letters = dead_letters(&bus).await;
    assert_eq!(letters.len(), 1);
    assert!(letters[0].contains("expired") && letters[0].contains("hello"), "{letters:?}");
    assert!(!letters[0].contains("sealed"), "{letters:?}");
}

/// Every letter, checked for secrets.
async fn dead_letters(bus: &Bus) -> Vec<String> {
    let stream = bus.js.get_stream("AGENT_DLQ").await.unwrap();
    let mut letters = Vec::new();
    for sequence in 1..=stream.cached_info().state.last_sequence {
        let letter = stream.direct_get(sequence).await.unwrap();
        letters.push(String::from_utf8(letter.payload.to_vec()).unwrap());
    }
    assert!(letters.iter().all(|letter| !letter.contains("secret")), "{letters:?}");
    letters
}
