//! The NATS server, its streams and its consumer.
use contract::subject;
use shared::bus::survey::{Server, StreamState, Survey};
use shared::bus::topology::{LARGEST_MESSAGE_BYTES, Mismatch};

use crate::doctor::facts::{Facts, JetStreamFacts};
use crate::doctor::report::Report;
use crate::view;

const MIGRATE: &str = "run `gateway migrate`";
/// Of its capacity, in per cent.
const NEARLY_FULL: u64 = 80;
/// Part of the jobs in hand that were delivered before, in per cent, and how many there must be.
const MANY_REDELIVERED: u64 = 25;
const SOME_REDELIVERED: u64 = 5;

pub fn apply(facts: &Facts, report: &mut Report) {
    let nats = match &facts.nats {
        Ok(nats) => nats,
        Err(problem) => {
            report.error(
                format!("NATS can't be reached: {problem}"),
                "look at NATS_URL, NATS_CREDS, NATS_CA and at the server",
            );
            return;
        }
    };
    server(&nats.server, report);
    match &nats.jetstream {
        Ok(jetstream) => {
            report.ok("JetStream answers");
            definitions(facts, jetstream, report);
            redelivery(&jetstream.survey, report);
            dead_letters(facts, &jetstream.survey, report);
            for stream in &jetstream.survey.streams {
                fill(stream, report);
                copies(facts, stream, report);
            }
        }
        Err(problem) => report.error(
            format!("JetStream does not answer: {problem}"),
            "switch JetStream on (`jetstream {}` in nats-server.conf) and give this user its rights",
        ),
    }
}

fn server(server: &Server, report: &mut Report) {
    if server.is_recent_enough {
        report.ok(format!("NATS {} is recent enough", server.version));
    } else {
        let what = format!("NATS {} ignores settings it does not know", server.version);
        report.error(what, "use nats-server 2.12 or newer");
    }
    let needed = u64::try_from(LARGEST_MESSAGE_BYTES).unwrap_or_default();
    let has = server.max_payload_bytes;
    if has >= needed {
        report.ok(format!("max_payload of NATS is {has} bytes, {needed} are needed"));
    } else {
        let what = format!("max_payload of NATS is {has} bytes, jobs and events need {needed}");
        report.error(what, "set `max_payload: 1MB` in nats-server.conf");
    }
}

fn definitions(facts: &Facts, jetstream: &JetStreamFacts, report: &mut Report) {
    let is_missing = |mismatch: &Mismatch| mismatch.field == "existence";
    let without_jobs = jetstream
        .mismatches
        .iter()
        .any(|mismatch| is_missing(mismatch) && mismatch.thing.ends_with(subject::STREAM_JOBS));
    let mut is_fine = true;
    for mismatch in &jetstream.mismatches {
        let thing = &mismatch.thing;
        // The server's version was judged above; a stream takes its consumer with it.
        let is_consequence = without_jobs && thing.starts_with("consumer");
        if mismatch.field == "version" || is_consequence {
            continue;
        }
        is_fine = false;
        if is_missing(mismatch) {
            report.error(format!("{thing} is missing"), MIGRATE);
        } else if mismatch.field == "ack_wait" {
            let wanted = view::millis(facts.settings.topology.ack_wait);
            let found = jetstream.survey.consumer.map_or(0, |found| view::millis(found.ack_wait));
            report.error(
                format!("{thing} has an ack wait of {found} ms, ACK_WAIT_MS here is {wanted}"),
                "set ACK_WAIT_MS alike everywhere, then run `gateway migrate`",
            );
        } else {
            report.error(mismatch.to_string(), MIGRATE);
        }
    }
    if is_fine {
        report.ok("streams and consumer are as wanted");
    }
}

fn redelivery(survey: &Survey, report: &mut Report) {
    let Some(consumer) = survey.consumer else { return };
    let (again, in_hand) = (consumer.redelivered, consumer.in_hand);
    if again >= SOME_REDELIVERED && again * 100 >= in_hand * MANY_REDELIVERED {
        report.warning(
            format!("{again} of {in_hand} jobs in hand were delivered before"),
            "look for workers that die, hang, or lose NATS or Postgres",
        );
    } else {
        report.ok(format!("{again} of {in_hand} jobs in hand were delivered before"));
    }
}

fn dead_letters(facts: &Facts, survey: &Survey, report: &mut Report) {
    let letters = subject::STREAM_DEAD_LETTERS;
    let Some(stream) = survey.streams.iter().find(|stream| stream.name == letters) else { return };
    let oldest = view::age_text(stream.oldest_at, facts.now);
    match stream.messages {
        0 => report.ok("no dead letters"),
        1 => report.warning(
            format!("1 dead letter waits, for {oldest}"),
            "settle it with `agentctl dead-letters`",
        ),
        many => report.warning(
            format!("{many} dead letters wait, the oldest for {oldest}"),
            "settle them with `agentctl dead-letters`",
        ),
    }
}

fn fill(stream: &StreamState, report: &mut Report) {
    let part = |used: u64, most: Option<u64>| {
        most.filter(|most| *most > 0).map(|most| used.saturating_mul(100) / most)
    };
    let by_bytes = part(stream.bytes, stream.max_bytes);
    let by_count = part(stream.messages, stream.max_messages);
    let per_cent = by_bytes.max(by_count).unwrap_or(0);
    let name = &stream.name;
    if per_cent < NEARLY_FULL {
        report.ok(format!("stream {name} is {per_cent} % full"));
    } else if stream.refuses_when_full {
        let what = format!("stream {name} is {per_cent} % full; it refuses what does not fit");
        report.error(what, "add workers, or look for what fills it");
    } else {
        let what = format!("stream {name} is {per_cent} % full; its oldest messages go early");
        report.warning(what, "look for what fills it");
    }
}

fn copies(facts: &Facts, stream: &StreamState, report: &mut Report) {
    let (name, has) = (&stream.name, stream.replicas);
    let wanted = u64::try_from(facts.settings.topology.replicas).unwrap_or(u64::MAX);
    if has != wanted {
        report.warning(
            format!("stream {name} has {has} copies, NATS_REPLICAS here is {wanted}"),
            "set NATS_REPLICAS alike everywhere, then run `gateway migrate`",
        );
    }
    if stream.missing_replicas > 0 {
        let missing = stream.missing_replicas;
        let what = format!("{missing} of {has} copies of stream {name} are away or behind");
        report.warning(what, "look at the NATS servers");
    }
}
