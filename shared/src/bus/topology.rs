//! Streams, consumer and bucket: declares them (idempotent), or checks that they are as declared.
mod wanted;

use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use async_nats::jetstream::consumer::{self, IntoConsumerConfig as _};
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream;
use bytes::Bytes;
use contract::subject;
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::info;

use crate::bus::{Bus, bounded};

/// Older servers accept fields they don't know and drop them.
const OLDEST_SERVER: (i64, i64, i64) = (2, 12, 0);
/// The server's `max_payload` must be at least this.
pub const LARGEST_MESSAGE_BYTES: i32 = 262_144;
const CONNECTED_WITHIN: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Copies of every message; `verify` takes any number.
    pub replicas: usize,
    /// So long a job stays with a worker that does not report.
    pub ack_wait: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { replicas: 1, ack_wait: Duration::from_secs(15) }
    }
}

/// One field that is not as wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{thing}: `{field}` is {found}, wanted {wanted}")]
pub struct Mismatch {
    pub thing: String,
    pub field: String,
    pub wanted: String,
    pub found: String,
}

/// Creates or updates everything. Several starters may do so at the same time.
pub async fn apply(bus: &Bus, options: &Options) -> anyhow::Result<()> {
    anyhow::ensure!(bus.connected_within(CONNECTED_WITHIN).await, "not connected to NATS");
    if let Some(mismatch) = server_version(bus) {
        anyhow::bail!("{mismatch}");
    }
    for wanted in wanted::streams(options) {
        Box::pin(apply_stream(bus, wanted)).await?;
    }
    Box::pin(apply_consumer(bus, wanted::workers(options))).await
}

/// What differs from what `apply` would make. Needs the right to read the definitions only.
pub async fn verify(bus: &Bus, options: &Options) -> anyhow::Result<Vec<Mismatch>> {
    let mut mismatches: Vec<_> = server_version(bus).into_iter().collect();
    for wanted in wanted::streams(options) {
        match find_stream(bus, &wanted.name).await? {
            Some(found) => mismatches.extend(
                compare(&stream_thing(&wanted.name), &wanted, &found)?
                    .into_iter()
                    .filter(|mismatch| mismatch.field != "num_replicas"),
            ),
            None => mismatches.push(missing(stream_thing(&wanted.name))),
        }
    }
    let wanted = wanted::workers(options).into_consumer_config();
    match find_consumer(bus).await? {
        Some(found) => mismatches.extend(compare(&consumer_thing(), &wanted, &found)?),
        None => mismatches.push(missing(consumer_thing())),
    }
    Ok(mismatches)
}

pub(super) fn stream_names() -> [String; 5] {
    wanted::streams(&Options::default()).map(|config| config.name)
}

async fn apply_stream(bus: &Bus, wanted: stream::Config) -> anyhow::Result<()> {
    let thing = stream_thing(&wanted.name);
    let found = match find_stream(bus, &wanted.name).await? {
        Some(found) => found,
        None => match bounded(bus.js.create_stream(wanted.clone())).await {
            Ok(created) => {
                info!("Created {thing}");
                created.cached_info().config.clone()
            }
            // Another starter was faster, perhaps with other options.
            Err(error) => find_stream(bus, &wanted.name).await?.with_context(|| {
                let reserved = wanted.max_bytes / wanted::MIB;
                format!("creating {thing}, which reserves {reserved} MiB of storage: {error}")
            })?,
        },
    };
    let differences = compare(&thing, &wanted, &found)?;
    if differences.is_empty() {
        return Ok(());
    }
    let updated = bounded(bus.js.update_stream(&wanted)).await.with_context(|| {
        format!("{thing} exists and the server refuses to change it ({})", list(&differences))
    })?;
    info!("Updated {thing}: {}", list(&differences));
    all_taken(&compare(&thing, &wanted, &updated.config)?)
}

async fn apply_consumer(bus: &Bus, wanted: consumer::pull::Config) -> anyhow::Result<()> {
    let (thing, config) = (consumer_thing(), wanted.clone().into_consumer_config());
    let differences = match find_consumer(bus).await? {
        Some(found) => compare(&thing, &config, &found)?,
        None => vec![missing(thing.clone())],
    };
    if differences.is_empty() {
        return Ok(());
    }
    let consumer = bounded(bus.js.create_consumer_on_stream(wanted, subject::STREAM_JOBS))
        .await
        .with_context(|| format!("creating or changing {thing} ({})", list(&differences)))?;
    info!("Created or updated {thing}");
    all_taken(&compare(&thing, &config, &consumer.cached_info().config)?)
}

async fn find_stream(bus: &Bus, name: &str) -> anyhow::Result<Option<stream::Config>> {
    let answer = tokio::time::timeout(crate::bus::ANSWER_WITHIN, bus.js.get_stream(name)).await;
    match answer.with_context(|| format!("reading stream {name}"))? {
        Ok(found) => Ok(Some(found.cached_info().config.clone())),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(reason)
                if reason.error_code() == async_nats::jetstream::ErrorCode::STREAM_NOT_FOUND =>
            {
                Ok(None)
            }
            GetStreamErrorKind::JetStream(_)
            | GetStreamErrorKind::EmptyName
            | GetStreamErrorKind::InvalidStreamName
            | GetStreamErrorKind::Request => {
                Err(error).with_context(|| format!("reading stream {name}"))
            }
        },
    }
}

async fn find_consumer(bus: &Bus) -> anyhow::Result<Option<consumer::Config>> {
    let (stream, name) = (subject::STREAM_JOBS, subject::CONSUMER_WORKERS);
    let to = format!("$JS.API.CONSUMER.INFO.{stream}.{name}");
    let answer = bounded(bus.client.request(to, Bytes::new())).await;
    let answer = answer.context("reading the consumer")?.payload;
    let answer: Value = serde_json::from_slice(&answer).context("reading the consumer")?;
    if let Some(error) = answer.get("error") {
        // Neither consumer nor stream.
        let absent = matches!(error["err_code"].as_u64(), Some(10014 | 10059));
        anyhow::ensure!(absent, "reading the consumer: {error}");
        return Ok(None);
    }
    let config = answer.get("config").cloned().unwrap_or_default();
    Ok(Some(serde_json::from_value(config).context("reading the consumer")?))
}

/// Compares what was asked for with what the server has.
fn compare<T: Serialize>(thing: &str, wanted: &T, found: &T) -> anyhow::Result<Vec<Mismatch>> {
    let (wanted, found) = (fields(wanted)?, fields(found)?);
    let mut names: Vec<_> = wanted.keys().chain(found.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let shown = |fields: &Map<String, Value>, name: &str| {
        fields.get(name).map_or_else(|| "not set".to_owned(), Value::to_string)
    };
    Ok(names
        .into_iter()
        .filter(|name| wanted.get(*name) != found.get(*name))
        .map(|name| Mismatch {
            thing: thing.to_owned(),
            field: name.clone(),
            wanted: shown(&wanted, name),
            found: shown(&found, name),
        })
        .collect())
}

/// Fields as the server names them, without those that it fills in by itself.
fn fields<T: Serialize>(config: &T) -> anyhow::Result<Map<String, Value>> {
    let Value::Object(mut fields) = serde_json::to_value(config)? else {
        anyhow::bail!("a configuration is not an object");
    };
    fields.remove("metadata");
    fields.remove("placement");
    fields.retain(|name, value| !(value.is_null() || name == "compression" && value == "none"));
    Ok(fields)
}

pub(super) fn server_version(bus: &Bus) -> Option<Mismatch> {
    let (major, minor, patch) = OLDEST_SERVER;
    (!bus.client.is_server_compatible(major, minor, patch)).then(|| Mismatch {
        thing: "NATS server".to_owned(),
        field: "version".to_owned(),
        wanted: format!("at least {major}.{minor}.{patch}"),
        found: bus.client.server_info().version,
    })
}

fn all_taken(differences: &[Mismatch]) -> anyhow::Result<()> {
    anyhow::ensure!(differences.is_empty(), "the server ignored a setting: {}", list(differences));
    Ok(())
}

fn missing(thing: String) -> Mismatch {
    let (field, wanted, found) =
        ("existence".to_owned(), "present".to_owned(), "missing".to_owned());
    Mismatch { thing, field, wanted, found }
}

fn stream_thing(name: &str) -> String {
    format!("stream {name}")
}

fn consumer_thing() -> String {
    format!("consumer {}", subject::CONSUMER_WORKERS)
}

fn list(mismatches: &[impl fmt::Display]) -> String {
    mismatches.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
