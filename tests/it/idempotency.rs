//! A submission that is repeated is one turn, whatever got lost, wherever it is repeated.
use std::time::Duration;

use contract::event::{Envelope, Event, TurnEnd, TurnStatus};
use contract::ids::{SessionToken, TurnId};
use contract::{job::Job, subject};
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::gradio::{Client, Submission, turn::Turn};
use tests::llm::reply::Reply;
use tests::process::wait_until;
use tests::proxy::Proxy;
use tests::token;

const ANSWER: &str = "one two three four five six";

fn message(text: &str, conversation: &str) -> Submission {
    Submission::new(text, Some(conversation), None)
}

async fn fleet() -> Cluster {
    Cluster::builder().gateways(2).workers(2).start().await
}

/// A client of the first gateway whose answers can be lost.
async fn behind_proxy(cluster: &Cluster, user: &str) -> (Proxy, Client) {
    let proxy = Proxy::start(cluster.gateway_url(0).trim_start_matches("http://")).await;
    let url = format!("http://127.0.0.1:{}", proxy.port());
    (proxy, Client::new(&url, &token::user(user)))
}

/// What a turn said, but for its ids and cursors.
fn story(turn: &Turn) -> String {
    tests::transcript::of(turn)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_an_id_sent_three_times_is_one_turn() {
    let cluster = fleet().await;
    let branch = json!({"dashboard_id": "42", "name": "fix-filters"});
    let answer = Reply::text(ANSWER).every_ms(100);
    cluster.model.on("branch", [Reply::call("create_branch", branch), answer]);
    let (proxy, mut alice) = behind_proxy(&cluster, "alice").await;
    let ask = || message("create a branch fix-filters", "c1").named("m-1");
    proxy.lose_answers(2);
    alice.join_in_vain(ask()).await;
    alice.join_in_vain(ask()).await;
    let event = alice.submit(ask()).await;
    let turn = alice.finish(&event).await;
    assert_eq!((turn.text(), turn.tokens().as_str()), (ANSWER, ANSWER), "{:#?}", turn.values);
    assert_eq!(turn.all("tool_end").len(), 1);
    assert_eq!(alice.events(), std::slice::from_ref(&event), "somebody else's event on the stream");
    alice.closed().await;

    // After its end, in the same session, in another one, at another gateway, as a plain call.
    let again = alice.submit(ask()).await;
    assert_ne!(again, event);
    let mut others = [cluster.client_at(1, "alice"), alice.another_tab()];
    let shown = [alice.finish(&again).await, repeated(&mut others[0], ask()).await];
    for repeat in shown.iter().chain([&repeated(&mut others[1], ask()).await]) {
        assert_eq!(story(repeat), story(&turn));
    }
    let call = json!([{"text": "create a branch fix-filters"}, "c1", null, "m-1"]);
    assert!(alice.call(call).await.contains(ANSWER));

    assert_eq!(cluster.model.requests().len(), 2, "one turn of two steps");
    assert_eq!(cluster.backend.effects().len(), 1, "{:?}", cluster.backend.effects());
    assert_eq!(cluster.rest("alice").history("c1").await.len(), 2);
}

async fn repeated(client: &mut Client, submission: Submission) -> Turn {
    let event = client.submit(submission).await;
    client.finish(&event).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_belongs_to_one_message_of_one_user_in_one_conversation() {
    let cluster = fleet().await;
    let mut alice = cluster.client("alice");
    assert_eq!(repeated(&mut alice, message("hello", "c1").named("m-1")).await.text(), "Done.");
    let refused = repeated(&mut alice, message("something else", "c1").named("m-1")).await;
    assert_eq!(refused.error_code(), Some("IDEMPOTENCY_CONFLICT"), "{:#?}", refused.values);
    assert_eq!(refused.one("error")["retryable"], false);
    let decision = Submission::new("hello", Some("c1"), Some("confirm")).named("m-1");
    assert_eq!(repeated(&mut alice, decision).await.error_code(), Some("IDEMPOTENCY_CONFLICT"));
    assert_eq!(cluster.model.requests().len(), 1);

    assert_eq!(repeated(&mut alice, message("hello", "c2").named("m-1")).await.text(), "Done.");
    let mut bob = cluster.client("bob");
    assert_eq!(repeated(&mut bob, message("hello", "c1").named("m-1")).await.text(), "Done.");
    assert_eq!(cluster.model.requests().len(), 3);
    let (status, answer) = alice.join(message("hello", "c1").named("confirm")).await;
    assert_eq!(status, 400, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("client_message_id"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_first_message_starts_one_conversation() {
    let cluster = fleet().await;
    cluster.model.on("hello", [Reply::text(ANSWER).every_ms(100)]);
    let (proxy, mut alice) = behind_proxy(&cluster, "alice").await;
    let ask = || Submission::new("hello", None, None).named("m-1");
    proxy.lose_answers(1);
    alice.join_in_vain(ask()).await;
    let mut tab = cluster.client_at(1, "alice");
    let (first, second) = tokio::join!(repeated(&mut alice, ask()), repeated(&mut tab, ask()));
    let conversation = |turn: &Turn| turn.one("turn_end")["conversation_id"].clone();
    assert_eq!((first.text(), second.text()), (ANSWER, ANSWER));
    assert_eq!(conversation(&first), conversation(&second));
    let (_, list) = cluster.rest("alice").get("/api/assistant/conversations").await;
    assert_eq!(list["total"], 1, "{list}");
    assert_eq!(cluster.model.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_racing_submits_are_one_turn() {
    let cluster = fleet().await;
    cluster.model.on("hello", [Reply::text(ANSWER).every_ms(150)]);
    let ask = || message("hello", "c1").named("m-1");
    let clients = (0..10).map(|number| {
        let mut client = cluster.client_at(number % 2, "alice");
        let mut twice = cluster.client_at((number / 2) % 2, "alice");
        twice.set_session(client.session());
        async move {
            let clicked =
                async { twice.join(ask()).await.1["event_id"].as_str().map(str::to_owned) };
            let (first, second) = tokio::join!(repeated(&mut client, ask()), clicked);
            [first, client.finish(&second.unwrap()).await]
        }
    });
    for turn in futures_util::future::join_all(clients).await.iter().flatten() {
        assert_eq!((turn.text(), turn.status()), (ANSWER, Some("completed")), "{:#?}", turn.values);
        assert_eq!(turn.tokens(), ANSWER);
    }
    assert_eq!(cluster.model.requests().len(), 1);
    assert_eq!(cluster.rest("alice").history("c1").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_after_the_log_has_forgotten_tells_the_stored_answer() {
    let cluster = fleet().await;
    let mut alice = cluster.client("alice");
    let ask = || message("hello", "c1").named("m-1");
    assert_eq!(repeated(&mut alice, ask()).await.text(), "Done.");
    alice.closed().await;
    let context = async_nats::jetstream::new(cluster.nats.client().await);
    let log = context.get_stream(subject::STREAM_EVENTS).await.unwrap();
    log.purge().await.unwrap();
    let mut tab = cluster.client_at(1, "alice");
    // The stream would still say `duplicate` if it were asked: its memory of ids is another one.
    let told = repeated(&mut tab, ask()).await;
    assert_eq!(told.types(), ["stream_gap", "turn_end", "plain"], "{:#?}", told.values);
    assert_eq!(told.text(), "Done.");
    let other = repeated(&mut tab, message("good bye", "c1").named("m-1")).await;
    assert_eq!(other.error_code(), Some("IDEMPOTENCY_CONFLICT"), "{:#?}", other.values);
    assert_eq!(cluster.model.requests().len(), 1);
}

/// What was refused before it began has not been sent: its id is not used up.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_message_can_be_sent_again_under_its_id() {
    let cluster = fleet().await;
    cluster.model.on("hello", [Reply::text(ANSWER).every_ms(150)]);
    let mut alice = cluster.client("alice");
    let first = alice.submit(message("hello", "c1")).await;
    alice.until(&first, "stream_token").await;
    let mut tab = cluster.client_at(1, "alice");
    let ask = || message("and this?", "c1").named("m-2");
    for _ in 0..2 {
        let busy = repeated(&mut tab, ask()).await;
        assert_eq!(busy.error_code(), Some("CONVERSATION_BUSY"), "{:#?}", busy.values);
    }
    alice.finish(&first).await;
    let answered = repeated(&mut tab, ask()).await;
    assert_eq!(answered.text(), "Done.", "{:#?}", answered.values);
    assert_eq!(story(&repeated(&mut tab, ask()).await), story(&answered));
    assert_eq!(cluster.model.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_id_a_lost_answer_is_noticed() {
    let cluster = fleet().await;
    cluster.model.on("hello", [Reply::text(ANSWER).every_ms(50)]);
    let (proxy, mut alice) = behind_proxy(&cluster, "alice").await;
    proxy.lose_answers(1);
    alice.join_in_vain(Submission::new("hello", None, None)).await;
    let turn = repeated(&mut alice, Submission::new("hello", None, None)).await;
    assert_eq!(turn.text(), ANSWER);
    alice.closed().await;
    assert_eq!(cluster.model.requests().len(), 1);
    assert_eq!(alice.events().len(), 1);

    // Who has read the answer and says the same again means it.
    let second = repeated(&mut alice, Submission::new("hello", None, None)).await;
    assert_eq!(second.text(), "Done.");
    let third = repeated(&mut alice, Submission::new("hello", None, None)).await;
    assert_eq!(third.text(), "Done.");
    assert_eq!(cluster.model.requests().len(), 3);
}

/// Two clicks: the second is refused at once, and neither hangs.
#[tokio::test(flavor = "multi_thread")]
async fn without_an_id_the_same_words_beside_an_open_stream_are_a_message_of_their_own() {
    let cluster = fleet().await;
    cluster.model.on("hello", [Reply::text(ANSWER).every_ms(200)]);
    let mut alice = cluster.client("alice");
    let first = alice.submit(message("hello", "c1")).await;
    let second = alice.submit(message("hello", "c1")).await;
    assert_ne!(first, second);
    let (first, second) = (alice.finish(&first).await, alice.finish(&second).await);
    assert_eq!(first.text(), ANSWER);
    assert_eq!(second.error_code(), Some("CONVERSATION_BUSY"), "{:#?}", second.values);
    assert_eq!(cluster.model.requests().len(), 1);
}

/// A gateway that gives a job up may be wrong about it: the job is there, and finds its turn ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_turn_was_refused_is_not_run() {
    let cluster = Cluster::start().await;
    let bus = cluster.nats.client().await;
    let context = async_nats::jetstream::new(bus);
    for age_ms in [0, 5_000] {
        let job = job(age_ms);
        let address = (job.conversation_id, &job.session, job.turn_id);
        let error = Event::Error {
            code: contract::error_code::ErrorCode::Unavailable,
            detail: String::new(),
            extra: None,
        };
        let end = Event::TurnEnd(TurnEnd {
            status: TurnStatus::Rejected,
            text: None,
            usage: None,
            timings: None,
        });
        for (n, event) in [(1, error), (2, end)] {
            let ts = job.created_at.clone();
            let envelope = Envelope { v: 1, turn_id: job.turn_id, attempt: 0, n, event, ts };
            let subject = subject::event(address.0, address.1, address.2);
            publish(&context, subject, serde_json::to_value(&envelope).unwrap()).await;
        }
        let subject = subject::job(job.conversation_id);
        publish(&context, subject, serde_json::to_value(&job).unwrap()).await;
        let jobs = context.get_stream(subject::STREAM_JOBS).await.unwrap();
        let gone = || async { jobs.get_info().await.unwrap().state.messages == 0 };
        wait_until("the job gone", Duration::from_secs(10), gone).await;
    }
    assert_eq!(cluster.model.requests().len(), 0);
    let (status, list) =
        cluster.rest("alice").get("/api/assistant/history?conversation_id=late").await;
    assert_eq!(status, 404, "what was given up is no message of the user's: {list}");
}

fn job(age_ms: i64) -> Job {
    let name = if age_ms > 0 { "late" } else { "new" };
    let user = contract::ids::UserId::try_from("alice".to_owned()).unwrap();
    let at = |ms: i64| {
        let at = time::OffsetDateTime::now_utc() + time::Duration::milliseconds(ms);
        at.format(&time::format_description::well_known::Rfc3339).unwrap()
    };
    Job {
        v: 1,
        kind: contract::job::JobKind::Message,
        turn_id: TurnId(uuid::Uuid::now_v7()),
        conversation_id: contract::ids::ConversationId::from_reference(&user, name).unwrap(),
        conversation_ref: Some(name.to_owned()),
        session: SessionToken::try_from("nobody".to_owned()).unwrap(),
        user_id: user,
        user_token: None,
        text: "hello".to_owned(),
        files: Vec::new(),
        locale: contract::job::Locale::En,
        created_at: at(-age_ms),
        expires_at: at(60_000),
    }
}

async fn publish(context: &async_nats::jetstream::Context, subject: String, message: Value) {
    let payload = serde_json::to_vec(&message).unwrap();
    context.publish(subject, payload.into()).await.unwrap().await.unwrap();
}
