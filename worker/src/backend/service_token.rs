//! The service's own token: fetched once for all callers, renewed before it expires.
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tracing::warn;

const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// An answer of the token endpoint is small.
const ANSWER_BYTES: usize = 64 * 1024;
/// Without `expires_in`.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);
/// A token is renewed this long before its end, but at the earliest after four fifths of its life.
const RENEW_BEFORE: Duration = Duration::from_secs(30);
/// So long a failed fetch answers for all who ask.
const FAILURE_HOLDS: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub struct ServiceToken {
    value: Arc<SecretString>,
    renew_at: Instant,
    expires_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no service token")]
pub struct NoToken;

/// The cache. One fetch serves everybody who waits.
pub struct ServiceTokens {
    http: reqwest::Client,
    url: Url,
    client_id: String,
    client_secret: SecretString,
    current: Mutex<Arc<Generation>>,
}

/// One fetch and its result.
#[derive(Default)]
struct Generation {
    fetched: OnceCell<Result<ServiceToken, Instant>>,
    /// Still good while the fetch fails.
    previous: Option<ServiceToken>,
}

impl ServiceToken {
    pub fn expose(&self) -> &str {
        self.value.expose_secret()
    }
}

impl ServiceTokens {
    pub fn new(
        http: reqwest::Client,
        url: String,
        client_id: String,
        client_secret: SecretString,
    ) -> anyhow::Result<Self> {
        let url =
            Url::parse(&url).with_context(|| format!("SERVICE_TOKEN_URL `{url}` is not a URL"))?;
        Ok(Self { http, url, client_id, client_secret, current: Mutex::default() })
    }

    /// A token that is good for a while.
    pub async fn get(&self) -> Result<ServiceToken, NoToken> {
        self.get_at(Instant::now()).await
    }

    pub(super) async fn get_at(&self, now: Instant) -> Result<ServiceToken, NoToken> {
        let generation = self.generation(|token| token.renew_at <= now);
        self.resolve(&generation, now).await
    }

    /// A newer token than the one that was just refused.
    pub async fn renew(&self, refused: &ServiceToken) -> Result<ServiceToken, NoToken> {
        let generation = self.generation(|token| Arc::ptr_eq(&token.value, &refused.value));
        let token = self.resolve(&generation, Instant::now()).await?;
        if Arc::ptr_eq(&token.value, &refused.value) { Err(NoToken) } else { Ok(token) }
    }

    /// The running generation, or a new one when its token `is_stale`.
    fn generation(&self, is_stale: impl Fn(&ServiceToken) -> bool) -> Arc<Generation> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = match current.fetched.get() {
            None => return current.clone(),
            Some(Ok(token)) if !is_stale(token) => return current.clone(),
            Some(Ok(token)) => Some(token.clone()),
            Some(Err(failed_at)) if failed_at.elapsed() < FAILURE_HOLDS => return current.clone(),
            Some(Err(_)) => current.previous.clone(),
        };
        *current = Arc::new(Generation { fetched: OnceCell::new(), previous });
        current.clone()
    }

    async fn resolve(
        &self,
        generation: &Generation,
        now: Instant,
    ) -> Result<ServiceToken, NoToken> {
        let fetched = generation
            .fetched
            .get_or_init(|| async { self.fetch().await.map_err(|_| Instant::now()) })
            .await;
        if let Ok(token) = fetched {
            return Ok(token.clone());
        }
        let usable = |token: &&ServiceToken| token.expires_at > now;
        generation.previous.as_ref().filter(usable).cloned().ok_or(NoToken)
    }

    async fn fetch(&self) -> Result<ServiceToken, NoToken> {
        let asked_at = Instant::now();
        let answer = tokio::time::timeout(FETCH_TIMEOUT, self.ask()).await;
        let answer = answer.unwrap_or(Err("it did not answer in time".to_owned()));
        answer.and_then(|answer| read(&answer, asked_at)).map_err(|problem| {
            warn!("No service token from its endpoint: {problem}");
            NoToken
        })
    }

    async fn ask(&self) -> Result<Value, String> {
        let body = json!({
            "grant_type": "client_credentials",
            "client_id": self.client_id,
            "client_secret": self.client_secret.expose_secret(),
        });
        let sent = self.http.post(self.url.clone()).json(&body).send().await;
        let mut response = sent.map_err(|_| "it can't be reached".to_owned())?;
        if !response.status().is_success() {
            return Err(format!("status {}", response.status().as_u16()));
        }
        let mut bytes = Vec::new();
        while let Some(piece) =
            response.chunk().await.map_err(|_| "the answer broke off".to_owned())?
        {
            bytes.extend_from_slice(&piece);
            if bytes.len() > ANSWER_BYTES {
                return Err("the answer is too large".to_owned());
            }
        }
        serde_json::from_slice(&bytes).map_err(|_| "the answer is no JSON".to_owned())
    }
}

fn read(answer: &Value, asked_at: Instant) -> Result<ServiceToken, String> {
    let token =
        answer.get("access_token").and_then(Value::as_str).filter(|token| !token.is_empty());
    let token = token.ok_or("the answer has no `access_token`")?;
    let seconds = answer.get("expires_in").and_then(|value| {
        value.as_f64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()))
    });
    let lifetime = seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok())
        .map_or(DEFAULT_LIFETIME, |lifetime| lifetime.min(Duration::from_secs(24 * 3600)));
    let early = RENEW_BEFORE.min(lifetime / 5);
    Ok(ServiceToken {
        value: Arc::new(SecretString::from(token)),
        renew_at: asked_at + lifetime - early,
        expires_at: asked_at + lifetime,
    })
}
