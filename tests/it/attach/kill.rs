//! The gateway is killed at every frame that its client reads.
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tests::cluster::Cluster;
use tests::cluster::spare::Gateway;
use tests::gradio::Submission;
use tests::gradio::raw::Kept;

use super::{follow, open, script, shown};

/// Gateways that are killed again and again, side by side.
const VICTIMS: usize = 5;
const PACE_MS: u64 = 30;

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_killed_at_any_frame_costs_nothing() {
    let slots = [("WORKER_SLOTS", "16"), ("TURNS_PER_USER", "100")];
    let builder = Cluster::builder().gateways(2).workers(2);
    let cluster = slots.iter().fold(builder, |b, (name, value)| b.worker_env(name, value));
    let cluster = cluster.start().await;
    let frames = undisturbed(&cluster).await;
    assert!(frames[0] > 15 && frames[1] > 8, "the script is too short: {frames:?}");
    let next = AtomicUsize::new(0);
    let lane = async |name: String| {
        let mut victim = cluster.spare_gateway(&name).await;
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            if number > frames[0] {
                return;
            }
            for (submission, last) in story(&cluster, number).into_iter().zip(frames) {
                let conversation = conversation(number);
                let at = number.min(last);
                let (client, witness) =
                    broken(&cluster, &mut victim, (&conversation, submission), at).await;
                assert!(client.is_complete && witness.is_complete, "{at}: {client:?}{witness:?}");
                assert_eq!(client.values, witness.values, "killed after frame {at}");
                victim.restart().await;
            }
        }
    };
    join_all((0..VICTIMS).map(|number| lane(format!("victim-{number}")))).await;
    assert_eq!(cluster.backend.effects().len(), frames[0] + 2, "one deployment each");
}

fn conversation(number: usize) -> String {
    format!("conversation-{number}-")
}

/// The turn up to its card, and the one after the yes. A client can send each again.
fn story(cluster: &Cluster, number: usize) -> [Submission; 2] {
    let conversation = conversation(number);
    let ask = script(cluster, &conversation, PACE_MS);
    let ask = Submission::new(&ask, Some(&conversation), None).named("ask");
    [ask, Submission::new("", Some(&conversation), Some("confirm")).named("yes")]
}

/// How many frames a client gets of the two turns that nobody disturbs; what it gets is what is told again.
async fn undisturbed(cluster: &Cluster) -> [usize; 2] {
    let number = usize::MAX;
    let mut frames = [0; 2];
    for (count, submission) in frames.iter_mut().zip(story(cluster, number)) {
        let (mut raw, event) = open(&cluster.client_at(0, "alice"), submission).await;
        let live = Kept::of(raw.read_all().await, &event);
        *count = raw.frames().len();
        let again = shown(&cluster.client_at(1, "alice"), &conversation(number), "attach").await;
        assert_eq!(live, again);
    }
    frames
}

/// What the client of a gateway that dies after so many frames has in the end, and what one sees who attached
/// elsewhere as soon as the join was answered.
async fn broken(
    cluster: &Cluster,
    victim: &mut Gateway,
    (conversation, submission): (&str, Submission),
    frames: usize,
) -> (Kept, Kept) {
    let alice = victim.client("alice");
    let (status, answer) = alice.join(submission.clone()).await;
    assert_eq!(status, 200, "{answer}");
    let event = answer["event_id"].as_str().unwrap();
    let other = cluster.client_at(1, "alice");
    let witness = shown(&other, conversation, "attach");
    let client = async {
        let mut kept = Kept::default();
        if frames == 0 {
            victim.kill();
        } else {
            let mut raw = alice.raw_stream().await;
            raw.read_frames(frames).await;
            victim.kill();
            kept.take(&raw, event);
        }
        let next = cluster.client_at(0, "alice");
        let on = match kept.values.last() {
            Some(_) => super::attach(conversation, &kept.action()),
            // Nothing was heard of the turn: it is asked for again.
            None => submission,
        };
        follow(&mut kept, &next, on).await;
        kept
    };
    let (witness, client) = tokio::join!(witness, client);
    (client, witness)
}
