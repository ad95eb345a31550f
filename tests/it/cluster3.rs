//! Three NATS servers whose leaders are killed again and again under load: a conversation has one turn at a time, and
//! every accepted submission is answered once.
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::{self, consumer};
use contract::event::Envelope;
use contract::ids::ConversationId;
use contract::subject::{self, EventAddress};
use futures_util::StreamExt as _;
use serde_json::json;
use tests::cluster::Cluster;
use tests::gradio::{Client, Submission};
use tests::llm::reply::Reply;
use tests::nats::Nats;

const CONVERSATIONS: usize = 6;
/// Clients that talk into the same conversation, at different gateways.
const RIVALS: usize = 3;
/// A new leader is there after 4 to 5 s; no lease and no delivery may end meanwhile.
const ACK_WAIT: Duration = Duration::from_secs(10);
/// Whose leaders are killed, in this order.
const VICTIMS: [&str; 4] =
    [subject::STREAM_JOBS, subject::STREAM_EVENTS, subject::STREAM_JOBS, subject::STREAM_EVENTS];

/// What became of one submission, by its event id.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    Refused(String),
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_that_die_under_load_cost_no_turn_and_double_none() {
    let nats = Nats::three().await;
    let builder = Cluster::builder().gateways(2).workers(2).ack_wait(ACK_WAIT);
    let mut cluster = builder.worker_env("TURNS_PER_USER", "100").start_with(nats).await;
    let change = Reply::call("run_validation", json!({"environment_id": "prod"}));
    cluster.model.on_steps("check", [change, Reply::text("All is well.").every_ms(40)]);

    let stop = Arc::new(AtomicBool::new(false));
    let rivals = (0..CONVERSATIONS * RIVALS).map(|number| {
        let conversation = format!("c{}", number % CONVERSATIONS);
        let client = cluster.client_at(number / CONVERSATIONS % 2, &conversation);
        tokio::spawn(talk(client, conversation, Arc::clone(&stop)))
    });
    let rivals: Vec<_> = rivals.collect();
    let client = cluster.nats.client().await;
    let context = ContextBuilder::new().timeout(Duration::from_millis(500)).build(client);
    for stream in VICTIMS {
        kill_the_leader(&mut cluster.nats, &context, stream).await;
    }
    stop.store(true, Ordering::SeqCst);
    let mut fates = HashMap::new();
    for rival in rivals {
        fates.extend(rival.await.unwrap());
    }
    every_answer_has_one_effect(&cluster, &fates);
    one_turn_at_a_time(&context, &fates).await;
}

/// Submits, reads to the end, submits again.
async fn talk(
    mut client: Client,
    conversation: String,
    stop: Arc<AtomicBool>,
) -> Vec<(String, Fate)> {
    let mut fates = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let text = format!("check {}", fates.len());
        let (status, answer) = client.join(Submission::new(&text, Some(&conversation), None)).await;
        if status != 200 {
            assert_eq!((status, &answer["code"]), (503, &json!("UNAVAILABLE")), "{answer}");
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        }
        client.open_stream();
        let event = answer["event_id"].as_str().unwrap().to_owned();
        let turn = client.finish(&event).await;
        let fate = match turn.error_code() {
            Some(code) => Fate::Refused(code.to_owned()),
            None => {
                let seen = (turn.text(), turn.tokens(), turn.all("turn_end").len());
                assert_eq!(seen, ("All is well.", "All is well.".to_owned(), 1), "{turn:#?}");
                Fate::Answered
            }
        };
        fates.push((event, fate));
        // The refused ones come again a little later.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    fates
}

async fn leader(context: &jetstream::Context, stream: &str) -> Option<usize> {
    let stream = context.get_stream(stream).await.ok()?;
    let leader = stream.cached_info().cluster.as_ref()?.leader.clone()?;
    leader.trim_start_matches('n').parse().ok()
}

/// Returns when another server leads and the killed one is back.
async fn kill_the_leader(nats: &mut Nats, context: &jetstream::Context, stream: &str) {
    tokio::time::sleep(Duration::from_secs(2)).await;
    let killed = loop {
        if let Some(leader) = leader(context, stream).await {
            break leader;
        }
    };
    nats.kill_node(killed);
    let replaced = || async { leader(context, stream).await.is_some_and(|new| new != killed) };
    tests::process::wait_until("another leader", Duration::from_secs(20), replaced).await;
    nats.start_node(killed);
    nats.ready().await;
}

/// Each change belongs to a turn that was answered, and was asked for once.
fn every_answer_has_one_effect(cluster: &Cluster, fates: &HashMap<String, Fate>) {
    let mut answered: Vec<&str> =
        fates.iter().filter(|(_, f)| **f == Fate::Answered).map(|(id, _)| id.as_str()).collect();
    answered.sort_unstable();
    assert!(answered.len() > 20, "only {} turns: {fates:?}", answered.len());
    for fate in fates.values() {
        if let Fate::Refused(code) = fate {
            assert!(["CONVERSATION_BUSY", "UNAVAILABLE"].contains(&code.as_str()), "{code}");
        }
    }
    let calls = cluster.backend.calls_of("start_task");
    let mut turns: Vec<&str> =
        calls.iter().filter_map(|call| call.idempotency_key.split(':').next()).collect();
    turns.sort_unstable();
    assert_eq!(turns, answered);
}

/// In the log of events, the turns of a conversation lie one behind the other, each with one end.
async fn one_turn_at_a_time(context: &jetstream::Context, fates: &HashMap<String, Fate>) {
    let mut spans: BTreeMap<ConversationId, BTreeMap<String, Vec<(u64, bool)>>> = BTreeMap::new();
    for (seq, address, envelope) in log(context).await {
        let by_worker = envelope.attempt > 0;
        if by_worker {
            let turns = spans.entry(address.conversation).or_default();
            let turn = turns.entry(address.turn.to_string()).or_default();
            turn.push((seq, envelope.event.is_terminal()));
        }
    }
    for turns in spans.values() {
        let mut ordered: Vec<_> = turns.iter().collect();
        ordered.sort_by_key(|(_, events)| events[0].0);
        let mut free_from = 0;
        for (turn, events) in ordered {
            let ends: Vec<u64> = events.iter().filter(|e| e.1).map(|e| e.0).collect();
            let last = events.last().unwrap().0;
            assert_eq!(ends, [last], "turn {turn} has not one end, as its last event: {events:?}");
            assert!(events[0].0 > free_from, "turn {turn} began before the one before it ended");
            free_from = last;
            assert_eq!(fates.get(turn), Some(&Fate::Answered), "turn {turn} was run");
        }
    }
    let run: usize = spans.values().map(BTreeMap::len).sum();
    assert_eq!(run, fates.values().filter(|fate| **fate == Fate::Answered).count());
}

async fn log(context: &jetstream::Context) -> Vec<(u64, EventAddress, Envelope)> {
    let stream = context.get_stream(subject::STREAM_EVENTS).await.unwrap();
    let last = stream.cached_info().state.last_sequence;
    let consumer = stream.create_consumer(consumer::pull::OrderedConfig::default()).await.unwrap();
    let mut messages = consumer.messages().await.unwrap();
    let mut log = Vec::new();
    while let Some(message) = messages.next().await {
        let message = message.unwrap();
        let seq = message.info().unwrap().stream_sequence;
        let address = subject::parse_event(&message.subject).unwrap();
        log.push((seq, address, serde_json::from_slice(&message.payload).unwrap()));
        if seq >= last {
            break;
        }
    }
    log
}
