//! The one way to connect.
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::{ConnectOptions, Event, ServerAddr};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{OnceCell, watch};
use tracing::{error, info, warn};

use crate::bus::retry::jitter;
use crate::bus::{ANSWER_WITHIN, Bus, Disturbances};
use crate::runtime::tls;

/// A dead peer is noticed after about two of these.
const PING_EVERY: Duration = Duration::from_secs(10);
const RECONNECT_AFTER: Duration = Duration::from_millis(150);
const RECONNECT_JITTER: Duration = Duration::from_millis(150);
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// How long `connect` itself waits for the first connection.
const FIRST_CONNECTION_WITHIN: Duration = Duration::from_secs(10);
/// A Direct Get batch, and a burst of tokens, must fit.
const SUBSCRIPTION_CAPACITY: usize = 8_192;

#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `nats://` or `tls://` addresses; one entry may hold several, separated by commas.
    pub urls: Vec<String>,
    /// Shown by the server, e.g. `gateway/<pod>`.
    pub name: String,
    /// Private per role, so that no other role can read the answers, e.g. `_INBOX_gw`.
    pub inbox_prefix: String,
    pub credentials_file: Option<PathBuf>,
    pub nkey_seed: Option<SecretString>,
    pub token: Option<SecretString>,
    pub ca_file: Option<PathBuf>,
    /// Messages buffered per subscription; `None` is 8192.
    pub subscription_capacity: Option<usize>,
    pub unreachable: Unreachable,
}

/// What becomes of a connection that can't be made.
#[derive(Clone, Copy, Debug, Default)]
pub enum Unreachable {
    /// Services wait for their servers.
    #[default]
    TryOn,
    /// People want to know why.
    FailWithin(Duration),
}

/// Waits a while for the first connection, then goes on trying in the background: ask `is_connected`.
/// Fails only for a configuration that can't work, unless `unreachable` says otherwise.
pub async fn connect(config: Config) -> anyhow::Result<Bus> {
    tls::install_provider();
    let addresses = addresses(&config.urls)?;
    let (disturbed, disturbances) = watch::channel(Disturbances::default());
    let options = options(&config, disturbed).await?;
    let (options, patience) = match config.unreachable {
        Unreachable::TryOn => (options.retry_on_initial_connect(), FIRST_CONNECTION_WITHIN),
        Unreachable::FailWithin(patience) => (options, patience),
    };
    let client = tokio::time::timeout(patience, options.connect(addresses))
        .await
        .context("connecting to NATS")?
        .context("connecting to NATS")?;
    let js = ContextBuilder::new().timeout(ANSWER_WITHIN).build(client.clone());
    let bus = Bus { client, js, disturbances, uploads: Arc::new(OnceCell::new()) };
    if !bus.connected_within(FIRST_CONNECTION_WITHIN).await {
        warn!("NATS can't be reached yet, trying on");
    }
    Ok(bus)
}

async fn options(
    config: &Config,
    disturbed: watch::Sender<Disturbances>,
) -> anyhow::Result<ConnectOptions> {
    let capacity = config.subscription_capacity.unwrap_or(SUBSCRIPTION_CAPACITY);
    let disturbed = Arc::new(disturbed);
    let mut options = ConnectOptions::new()
        .name(&config.name)
        .subscription_capacity(capacity)
        .ping_interval(PING_EVERY)
        .connection_timeout(CONNECT_WITHIN)
        .request_timeout(Some(ANSWER_WITHIN))
        .reconnect_delay_callback(reconnect_delay)
        .event_callback(move |event| {
            note(&event, &disturbed);
            std::future::ready(())
        });
    if !config.inbox_prefix.is_empty() {
        options = options.custom_inbox_prefix(&config.inbox_prefix);
    }
    anyhow::ensure!(
        config.credentials_file.is_none() || config.nkey_seed.is_none(),
        "NATS_CREDS and NATS_NKEY exclude each other"
    );
    if let Some(file) = &config.credentials_file {
        let reading = || format!("reading NATS credentials {}", file.display());
        options = options.credentials_file(file).await.with_context(reading)?;
    }
    if let Some(seed) = &config.nkey_seed {
        options = options.nkey(seed.expose_secret().to_owned());
    }
    if let Some(token) = &config.token {
        options = options.token(token.expose_secret().to_owned());
    }
    if let Some(file) = &config.ca_file {
        options = options.add_root_certificates(file.clone()).require_tls(true);
    }
    Ok(options)
}

fn addresses(urls: &[String]) -> anyhow::Result<Vec<ServerAddr>> {
    let addresses = urls
        .iter()
        .flat_map(|url| url.split(','))
        .map(str::trim)
        .filter(|url| !url.is_empty())
        .map(|url| url.parse().context("a NATS address is not valid"))
        .collect::<anyhow::Result<Vec<ServerAddr>>>()?;
    anyhow::ensure!(!addresses.is_empty(), "no NATS address given");
    Ok(addresses)
}

/// The client's own back-off grows to four seconds, which would all be outage.
fn reconnect_delay(attempt: usize) -> Duration {
    if attempt <= 1 { jitter(RECONNECT_JITTER) } else { RECONNECT_AFTER + jitter(RECONNECT_JITTER) }
}

fn note(event: &Event, disturbed: &watch::Sender<Disturbances>) {
    match event {
        Event::Connected => {
            info!("Connected to NATS");
            disturbed.send_modify(|counts| counts.connects += 1);
        }
        Event::SlowConsumer(_) => disturbed.send_modify(|counts| counts.overflows += 1),
        Event::Disconnected => warn!("Lost the connection to NATS"),
        Event::LameDuckMode => info!("The NATS server is about to stop"),
        Event::Draining | Event::Closed => info!(%event, "The NATS connection ends"),
        // A missing permission shows up here and nowhere else.
        Event::ServerError(_) => error!(%event, "NATS reports an error: {event}"),
        Event::ClientError(_) => error!(%event, "The NATS client reports an error: {event}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(urls: &[&str]) -> anyhow::Result<usize> {
        let urls: Vec<_> = urls.iter().map(|url| (*url).to_owned()).collect();
        addresses(&urls).map(|addresses| addresses.len())
    }

    #[test]
    fn one_variable_may_hold_several_addresses() {
        assert_eq!(parse(&["nats://a:4222,nats://b:4222", " c "]).unwrap(), 3);
    }

    #[test]
    fn no_address_is_an_error() {
        assert!(parse(&[""]).is_err());
        assert!(parse(&["nats://:port"]).is_err());
    }

    #[test]
    fn a_reconnect_never_waits_long() {
        for attempt in 0..100 {
            assert!(reconnect_delay(attempt) <= Duration::from_millis(300));
        }
    }
}
