//! A backend with one answer for everything, and a token endpoint beside it.
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::input::ToolOutcome;
use agent::tool::SideEffect;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::job::Locale;
use contract::secret::UserToken;
use secrecy::SecretString;
use serde_json::{Value, json};
use shared::runtime::trace::Trace;

use crate::backend::paths::Route;
use crate::backend::service_token::ServiceTokens;
use crate::backend::{Backend, BackendConfig, Identity, Request};

/// One request as the server saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("-", |value| value.to_str().unwrap())
    }
}

type Answer = Box<dyn Fn(&Seen, usize) -> Response + Send + Sync>;

pub struct Desk {
    answer: Answer,
    calls: Mutex<Vec<Seen>>,
    token_requests: Mutex<Vec<Seen>>,
    pub tokens_issued: AtomicU32,
    /// Seconds, as `expires_in`.
    pub token_lifetime: Mutex<Value>,
    pub token_status: Mutex<u16>,
}

pub struct Mock {
    pub url: String,
    pub desk: Arc<Desk>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Mock {
    /// `answer` gets the request and how many came before it.
    #[expect(clippy::disallowed_methods, reason = "a test server; it ends with its Mock")]
    pub async fn start(answer: impl Fn(&Seen, usize) -> Response + Send + Sync + 'static) -> Self {
        shared::runtime::tls::install_provider();
        let desk = Arc::new(Desk {
            answer: Box::new(answer),
            calls: Mutex::default(),
            token_requests: Mutex::default(),
            tokens_issued: AtomicU32::new(0),
            token_lifetime: Mutex::new(json!(300)),
            token_status: Mutex::new(200),
        });
        let router = Router::new()
            .route("/token", axum::routing::post(token))
            .fallback(call)
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(desk.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, desk, task }
    }

    pub fn config(&self) -> BackendConfig {
        config(&self.url, &format!("{}/token", self.url))
    }

    pub fn backend(&self) -> Backend {
        Backend::new(self.config()).unwrap()
    }

    pub fn service_tokens(&self) -> ServiceTokens {
        let config = self.config();
        ServiceTokens::new(
            reqwest::Client::new(),
            config.token_url,
            config.client_id,
            config.client_secret,
        )
        .unwrap()
    }

    pub fn calls(&self) -> Vec<Seen> {
        self.desk.calls.lock().unwrap().clone()
    }

    pub fn token_requests(&self) -> Vec<Seen> {
        self.desk.token_requests.lock().unwrap().clone()
    }

    pub fn tokens_issued(&self) -> u32 {
        self.desk.tokens_issued.load(Ordering::SeqCst)
    }
}

pub fn config(url: &str, token_url: &str) -> BackendConfig {
    BackendConfig {
        base_url: url.to_owned(),
        paths: None,
        token_url: token_url.to_owned(),
        client_id: "agent".to_owned(),
        client_secret: SecretString::from("s3cret"),
        call_timeout: Duration::from_secs(20),
    }
}

async fn token(
    State(desk): State<Arc<Desk>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    desk.token_requests.lock().unwrap().push(Seen { method, uri, headers, body });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let status = *desk.token_status.lock().unwrap();
    if status != 200 {
        return answer(status, "no");
    }
    let n = desk.tokens_issued.fetch_add(1, Ordering::SeqCst) + 1;
    let lifetime = desk.token_lifetime.lock().unwrap().clone();
    axum::Json(
        json!({"access_token": format!("svc-{n}"), "token_type": "bearer", "expires_in": lifetime}),
    )
    .into_response()
}

async fn call(
    State(desk): State<Arc<Desk>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let seen = Seen { method, uri, headers, body };
    let before = {
        let mut calls = desk.calls.lock().unwrap();
        calls.push(seen.clone());
        calls.len() - 1
    };
    (desk.answer)(&seen, before)
}

pub fn answer(status: u16, body: impl Into<Body>) -> Response {
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(body.into())
        .unwrap()
}

pub fn ok() -> Response {
    answer(200, r#"{"ok":true}"#)
}

/// A token that says it ends then; its signature means nothing here.
pub fn user_token(exp: i64) -> UserToken {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let payload = part(json!({"sub": "anna", "exp": exp}));
    UserToken::new(format!("{}.{payload}.c2ln", part(json!({"alg": "HS256"}))))
}

pub fn valid_user() -> UserToken {
    user_token(4_102_444_800)
}

pub fn get(route: Route) -> Request {
    Request { route, path: Vec::new(), query: Vec::new(), body: None }
}

pub fn deploy() -> Request {
    Request {
        route: Route::DeployDashboard,
        path: vec![("dashboard_id", "42".to_owned())],
        query: Vec::new(),
        body: Some(json!({"environment_id": "prod"})),
    }
}

pub async fn read(backend: &Backend) -> ToolOutcome {
    perform(backend, &get(Route::ListTasks), SideEffect::Read).await
}

pub async fn once(backend: &Backend) -> ToolOutcome {
    perform(backend, &deploy(), SideEffect::Once).await
}

pub async fn perform(backend: &Backend, request: &Request, side_effect: SideEffect) -> ToolOutcome {
    let token = valid_user();
    let trace = Trace::root();
    let identity = Identity {
        token: Some(&token),
        idempotency_key: "key-1",
        trace: &trace,
        locale: Locale::En,
    };
    backend.call(&identity, request, side_effect).await
}
