//! One request to the backend, and what its failure leaves open.
use std::time::Duration;

use agent::input::ToolOutcome;
use agent::tool::SideEffect;
use contract::error_code::ErrorCode;
use contract::job::Locale;
use contract::secret::UserToken;
use contract::subject;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode, Url};
use tracing::warn;

use super::reply::{self, Blame, Body};
use super::service_token::ServiceToken;
use super::{Identity, Request, failed};

const USER_HEADER: HeaderName = HeaderName::from_static("x-user-jwt");
const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// More of an answer is not read.
const BODY_BYTES: usize = 2 * 1024 * 1024;

pub struct Attempt<'a> {
    pub http: &'a reqwest::Client,
    pub method: Method,
    pub url: Url,
    pub request: &'a Request,
    pub user: &'a UserToken,
    pub service: ServiceToken,
    pub identity: &'a Identity<'a>,
    pub side_effect: SideEffect,
}

/// An attempt without an outcome of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// 401: nothing happened.
    Unauthorized(Blame),
    /// The request was not sent.
    NotSent,
    /// It may have been carried out: no answer, half an answer, or one from a machine in between.
    Lost,
    /// The backend said that it did nothing now and may do so later.
    Busy { status: u16, retry_after: Option<Duration> },
}

impl Failure {
    pub fn may_be_repeated(self, side_effect: SideEffect) -> bool {
        match (self, side_effect) {
            (Self::Unauthorized(_), _) | (_, SideEffect::Once) => false,
            (
                Self::NotSent | Self::Lost | Self::Busy { .. },
                SideEffect::Read | SideEffect::Idempotent,
            ) => true,
        }
    }

    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => retry_after,
            Self::Unauthorized(_) | Self::NotSent | Self::Lost => None,
        }
    }

    /// What the tool ends with when nothing more is tried.
    pub fn outcome(self, side_effect: SideEffect, locale: Locale) -> ToolOutcome {
        match (self, side_effect) {
            (Self::Unauthorized(_), _) => ToolOutcome::TokenExpired,
            (Self::NotSent, _) | (Self::Lost, SideEffect::Read) => {
                failed(ErrorCode::Unavailable, locale)
            }
            (Self::Lost, SideEffect::Idempotent | SideEffect::Once) => ToolOutcome::OutcomeUnknown,
            (Self::Busy { status, .. }, _) => reply::refusal(status, None, locale),
        }
    }
}

impl Attempt<'_> {
    pub async fn make(&self) -> Result<ToolOutcome, Failure> {
        let Some(headers) = self.headers() else { return Ok(ToolOutcome::TokenExpired) };
        let mut builder = self.http.request(self.method.clone(), self.url.clone()).headers(headers);
        if let Some(body) = &self.request.body {
            builder = builder.json(body);
        }
        let sent = builder.send().await;
        let response = sent.map_err(|error| {
            let unsent = error.is_connect() || error.is_builder();
            warn!(route = self.request.route.name(), unsent, "The backend gave no answer");
            if unsent { Failure::NotSent } else { Failure::Lost }
        })?;
        self.judge(response).await
    }

    async fn judge(&self, response: Response) -> Result<ToolOutcome, Failure> {
        let status = response.status();
        let locale = self.identity.locale;
        let retry_after = retry_after(response.headers());
        let challenge = response.headers().get(reqwest::header::WWW_AUTHENTICATE).cloned();
        let is_html = reply::is_page(response.headers());
        if matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT) {
            warn!(
                route = self.request.route.name(),
                status = status.as_u16(),
                "The backend is not behind its gateway"
            );
            return Err(Failure::Lost);
        }
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            return Err(Failure::Busy { status: status.as_u16(), retry_after });
        }
        let body = match read(response).await {
            Ok(bytes) => Body { bytes: bytes.0, cut: bytes.1, is_html },
            // A refusal is one, with or without its text.
            Err(()) if !status.is_success() => Body { bytes: Vec::new(), cut: false, is_html },
            Err(()) => return Err(Failure::Lost),
        };
        if status == StatusCode::UNAUTHORIZED {
            let challenge = challenge.as_ref().and_then(|value| value.to_str().ok());
            return Err(Failure::Unauthorized(reply::blame(challenge, &body)));
        }
        if status.is_success() {
            return Ok(reply::success(status, body, locale).await);
        }
        warn!(
            route = self.request.route.name(),
            status = status.as_u16(),
            "The backend refused a call"
        );
        Ok(reply::refusal(status.as_u16(), Some(&body), locale))
    }

    /// None if the user's token can't be one.
    fn headers(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        let mut service =
            HeaderValue::from_str(&format!("Bearer {}", self.service.expose())).ok()?;
        service.set_sensitive(true);
        let user = self.user.expose().trim();
        let user = user.strip_prefix("Bearer ").unwrap_or(user).trim();
        let mut user = HeaderValue::from_str(user).ok()?;
        user.set_sensitive(true);
        headers.insert(AUTHORIZATION, service);
        headers.insert(USER_HEADER, user);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let texts = [
            (KEY_HEADER, Some(self.identity.idempotency_key)),
            (
                HeaderName::from_static(subject::HEADER_TRACEPARENT),
                self.identity.trace.traceparent.as_deref(),
            ),
            (
                HeaderName::from_static(subject::HEADER_TRACESTATE),
                self.identity.trace.tracestate.as_deref(),
            ),
        ];
        for (name, text) in texts {
            if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
                headers.insert(name, value);
            }
        }
        Some(headers)
    }
}

/// The body, and whether there was more.
async fn read(mut response: Response) -> Result<(Vec<u8>, bool), ()> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|_| ())? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > BODY_BYTES {
            bytes.truncate(BODY_BYTES);
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: f64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
