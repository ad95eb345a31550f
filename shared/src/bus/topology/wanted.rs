//! The definitions themselves. Why each number is what it is: docs/adr on NATS.
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, ReplayPolicy, pull};
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Republish, RetentionPolicy, StorageType,
};
use contract::subject;

use crate::bus::topology::{LARGEST_MESSAGE_BYTES, Options};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub(super) const MIB: i64 = 1024 * 1024;
const UNLIMITED: i64 = -1;

pub(super) fn streams(options: &Options) -> [Config; 5] {
    [jobs(), events(), control(), dead_letters(), uploads()]
        .map(|config| Config { num_replicas: options.replicas, ..config })
}

/// One job per conversation, queued or running: the second publish is refused.
fn jobs() -> Config {
    Config {
        name: subject::STREAM_JOBS.to_owned(),
        subjects: vec![subject::JOBS_ALL.to_owned()],
        retention: RetentionPolicy::WorkQueue,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        max_messages_per_subject: 1,
        max_messages: 5_000,
        max_bytes: 512 * MIB,
        max_message_size: LARGEST_MESSAGE_BYTES,
        // Must exceed the longest turn: a running job that ages out would open the gate.
        max_age: DAY,
        duplicate_window: 10 * MINUTE,
        max_consumers: 16,
        ..base()
    }
}

/// What is stored is sent again on the live subjects, with its sequence.
fn events() -> Config {
    Config {
        name: subject::STREAM_EVENTS.to_owned(),
        subjects: vec![subject::EVENTS_ALL.to_owned()],
        max_messages_per_subject: 20_000,
        max_bytes: 2_048 * MIB,
        max_message_size: LARGEST_MESSAGE_BYTES,
        max_age: HOUR,
        duplicate_window: 2 * MINUTE,
        max_consumers: 1_000,
        republish: Some(Republish {
            source: subject::EVENTS_ALL.to_owned(),
            destination: subject::LIVE_DESTINATION.to_owned(),
            headers_only: false,
        }),
        ..base()
    }
}

/// Keeps the last cancel of each turn.
fn control() -> Config {
    Config {
        name: subject::STREAM_CONTROL.to_owned(),
        subjects: vec![subject::CANCELS_ALL.to_owned()],
        max_messages_per_subject: 1,
        max_bytes: 64 * MIB,
        max_message_size: 4_096,
        max_age: 2 * HOUR,
        duplicate_window: MINUTE,
        max_consumers: 16,
        ..base()
    }
}

fn dead_letters() -> Config {
    Config {
        name: subject::STREAM_DEAD_LETTERS.to_owned(),
        subjects: vec![subject::DEAD_LETTERS_ALL.to_owned()],
        max_bytes: 256 * MIB,
        max_message_size: 524_288,
        max_age: 14 * DAY,
        duplicate_window: 2 * MINUTE,
        max_consumers: 16,
        ..base()
    }
}

/// The stream below the Object Store bucket.
fn uploads() -> Config {
    let bucket = subject::BUCKET_UPLOADS;
    Config {
        name: format!("OBJ_{bucket}"),
        description: Some("Uploaded files, gone after a day".to_owned()),
        subjects: vec![format!("$O.{bucket}.C.>"), format!("$O.{bucket}.M.>")],
        discard: DiscardPolicy::New,
        allow_rollup: true,
        max_bytes: 2_048 * MIB,
        max_age: DAY,
        duplicate_window: 2 * MINUTE,
        // Each download is a consumer for its time.
        max_consumers: 1_000,
        ..base()
    }
}

fn base() -> Config {
    Config {
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        discard: DiscardPolicy::Old,
        max_messages: UNLIMITED,
        max_messages_per_subject: UNLIMITED,
        max_message_size: -1,
        allow_direct: true,
        ..Config::default()
    }
}

pub(super) fn workers(options: &Options) -> pull::Config {
    pull::Config {
        durable_name: Some(subject::CONSUMER_WORKERS.to_owned()),
        name: Some(subject::CONSUMER_WORKERS.to_owned()),
        description: Some("agent workers".to_owned()),
        deliver_policy: DeliverPolicy::All,
        ack_policy: AckPolicy::Explicit,
        replay_policy: ReplayPolicy::Instant,
        ack_wait: options.ack_wait,
        // A job that was given up would stay and block its conversation: workers count attempts.
        max_deliver: UNLIMITED,
        max_ack_pending: 5_000,
        // One waiting request per free slot of the fleet. Can't be changed later.
        max_waiting: 4_096,
        filter_subject: subject::JOBS_ALL.to_owned(),
        max_batch: 64,
        max_expires: MINUTE,
        ..pull::Config::default()
    }
}
