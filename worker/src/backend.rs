//! The REST backend behind the tools: every call carries the service's identity and the user's, here and only here.
//!
//! [`paths`] says where an operation lives, [`service_token`] keeps the service's own token fresh, [`user_token`]
//! looks at the user's, [`attempt`] makes one request, [`reply`] turns the answer into a tool's outcome.
pub mod attempt;
pub mod output;
pub mod paths;
pub mod reply;
pub mod service_token;
pub mod user_token;

use std::sync::Arc;
use std::time::Duration;

use agent::input::ToolOutcome;
use agent::tool::SideEffect;
use anyhow::Context as _;
use contract::error_code::ErrorCode;
use contract::job::Locale;
use contract::secret::UserToken;
use secrecy::SecretString;
use serde_json::Value;
use shared::runtime::trace::Trace;
use tracing::{debug, warn};

use self::attempt::{Attempt, Failure};
use self::paths::{Paths, Route};
use self::reply::Blame;
use self::service_token::ServiceTokens;
use crate::backoff;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Servers close idle connections after five seconds or later.
const POOL_IDLE: Duration = Duration::from_secs(4);
const READ_ATTEMPTS: u32 = 3;
const BACKOFF: Duration = Duration::from_millis(200);
const BACKOFF_CAP: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct BackendConfig {
    pub base_url: String,
    /// JSON object of path overrides, see [`paths`].
    pub paths: Option<String>,
    pub token_url: String,
    pub client_id: String,
    pub client_secret: SecretString,
    /// No call takes longer than this, whatever the user is willing to wait.
    pub call_timeout: Duration,
}

impl From<&crate::config::Backend> for BackendConfig {
    fn from(config: &crate::config::Backend) -> Self {
        Self {
            base_url: config.url.clone(),
            paths: config.paths.clone(),
            token_url: config.token_url.clone(),
            client_id: config.client_id.clone(),
            client_secret: config.client_secret.clone(),
            call_timeout: config.call_timeout,
        }
    }
}

/// One operation of the backend, as a tool asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub route: Route,
    /// Values of the path's placeholders; encoded here.
    pub path: Vec<(&'static str, String)>,
    pub query: Vec<(&'static str, String)>,
    pub body: Option<Value>,
}

/// On whose behalf, and which call it is.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    pub token: Option<&'a UserToken>,
    pub idempotency_key: &'a str,
    pub trace: &'a Trace,
    pub locale: Locale,
}

/// A client of the backend. Cheap to clone.
#[derive(Clone)]
pub struct Backend(Arc<Parts>);

struct Parts {
    paths: Paths,
    tokens: ServiceTokens,
    /// For reads: connections are kept.
    kept: reqwest::Client,
    /// For side effects: every call has a fresh connection, so that one the server has just closed can't leave open
    /// whether the request arrived.
    fresh: reqwest::Client,
    call_timeout: Duration,
}

impl Backend {
    pub fn new(config: BackendConfig) -> anyhow::Result<Self> {
        let paths = Paths::new(&config.base_url, config.paths.as_deref())?;
        let client = || {
            reqwest::Client::builder()
                .connect_timeout(CONNECT_TIMEOUT)
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
        };
        let kept =
            client().pool_idle_timeout(POOL_IDLE).build().context("making the HTTP client")?;
        let fresh = client().pool_max_idle_per_host(0).build().context("making the HTTP client")?;
        let tokens = ServiceTokens::new(
            fresh.clone(),
            config.token_url,
            config.client_id,
            config.client_secret,
        )?;
        Ok(Self(Arc::new(Parts { paths, tokens, kept, fresh, call_timeout: config.call_timeout })))
    }

    /// Makes the call and says how it went. `side_effect` decides what may be repeated.
    pub async fn call(
        &self,
        identity: &Identity<'_>,
        request: &Request,
        side_effect: SideEffect,
    ) -> ToolOutcome {
        let Some(token) = identity.token else { return ToolOutcome::TokenExpired };
        if user_token::is_expired(token, shared::runtime::clock::now()) {
            return ToolOutcome::TokenExpired;
        }
        let locale = identity.locale;
        let (method, url) = match self.0.paths.locate(request) {
            Ok(place) => place,
            Err(problem) => {
                return ToolOutcome::Failed {
                    code: ErrorCode::InvalidArguments,
                    text: problem.to_string(),
                };
            }
        };
        let Ok(service) = self.0.tokens.get().await else {
            return failed(ErrorCode::Unavailable, locale);
        };
        let mut attempt = Attempt {
            http: if side_effect == SideEffect::Read { &self.0.kept } else { &self.0.fresh },
            method,
            url,
            request,
            user: token,
            service,
            identity,
            side_effect,
        };
        let patient = tokio::time::timeout(self.0.call_timeout, self.persist(&mut attempt)).await;
        patient.unwrap_or_else(|_| {
            warn!(route = request.route.name(), "The backend did not answer in time");
            timed_out(side_effect, locale)
        })
    }

    /// Repeats what may be repeated.
    async fn persist(&self, attempt: &mut Attempt<'_>) -> ToolOutcome {
        let (side_effect, locale) = (attempt.side_effect, attempt.identity.locale);
        let mut renewed = false;
        let mut tries = 1;
        loop {
            let failure = match attempt.make().await {
                Ok(outcome) => return outcome,
                Err(failure) => failure,
            };
            if let Failure::Unauthorized(blame) = failure {
                if renewed || blame == Blame::User {
                    return unauthorized(blame, locale);
                }
                renewed = true;
                let Ok(service) = self.0.tokens.renew(&attempt.service).await else {
                    return failed(ErrorCode::Unavailable, locale);
                };
                attempt.service = service;
                continue;
            }
            if tries >= READ_ATTEMPTS || !failure.may_be_repeated(side_effect) {
                return failure.outcome(side_effect, locale);
            }
            debug!(route = attempt.request.route.name(), tries, "Asking the backend again");
            tokio::time::sleep(backoff::pause(BACKOFF, tries, failure.retry_after(), BACKOFF_CAP))
                .await;
            tries += 1;
        }
    }
}

/// After a fresh service token was refused as well, the user's is left, unless the backend says otherwise.
fn unauthorized(blame: Blame, locale: Locale) -> ToolOutcome {
    match blame {
        Blame::User | Blame::Unclear => ToolOutcome::TokenExpired,
        Blame::Service => {
            warn!("The backend refuses the service's own token");
            failed(ErrorCode::Unavailable, locale)
        }
    }
}

fn timed_out(side_effect: SideEffect, locale: Locale) -> ToolOutcome {
    match side_effect {
        SideEffect::Read => failed(ErrorCode::Unavailable, locale),
        SideEffect::Idempotent | SideEffect::Once => ToolOutcome::OutcomeUnknown,
    }
}

fn failed(code: ErrorCode, locale: Locale) -> ToolOutcome {
    ToolOutcome::Failed { code, text: code.text(locale).to_owned() }
}

#[cfg(test)]
mod tests;
