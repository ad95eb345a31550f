//! One gateway with servers of its own, and a small REST client.
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gateway::app::App;
use gateway::auth::{Caller, Presented};
use gateway::config::Config;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, Method, Response};
use serde_json::Value;
use shared::bus::topology;
use shared::runtime::env::Env;
use shared::runtime::shutdown::Shutdown;
use shared::store::{migrate, pool};
use tests::database::Server;
use tests::nats::Nats;
use tests::{place, process, token};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub const PREFIX: &str = "/api/agent/gradio";
pub const SERVICE_SECRET: &str = "a-client-secret-that-is-long-enough";

pub struct Stand {
    pub app: Arc<App>,
    pub base: String,
    pub http: Client,
    pub serving: JoinHandle<()>,
    _servers: (Nats, Server),
}

/// Status and body of an answer.
pub type Answer = (u16, Value);

impl Stand {
    pub async fn start() -> Self {
        let stand = Self::start_bare().await;
        topology::apply(&stand.app.bus, &stand.app.config.topology).await.unwrap();
        migrate::run(&stand.app.config.database.url).await.unwrap();
        stand
    }

    /// Without streams and tables.
    #[expect(clippy::disallowed_methods, reason = "the server ends with the runtime of its test")]
    pub async fn start_bare() -> Self {
        let http = place::http();
        let nats = Nats::start().await;
        let data = process::scratch("gateway").join("data");
        let postgres = Server::start(&data, place::free_port(), false).await;
        let config = Config::load(env(&nats.url(), &postgres.url("postgres"))).ok().unwrap();
        let app = App::connect(config, Shutdown::new()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(gateway::serve(app.clone(), listener));
        Self { app, base, http, serving, _servers: (nats, postgres) }
    }

    pub fn caller(&self, user: &str) -> Caller {
        let bearer = HeaderValue::try_from(format!("Bearer {}", token::user(user))).unwrap();
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, bearer)]);
        let presented = self.app.verifier.present(&headers);
        let Presented::Valid(caller) = presented else { unreachable!("{presented:?}") };
        caller
    }

    /// The worker's kind of pool.
    pub fn hot(&self) -> pool::HotPool {
        pool::hot(&self.app.config.database).unwrap()
    }

    pub async fn get(&self, user: &str, path: &str) -> Answer {
        self.ask(Method::GET, user, path, None).await
    }

    pub async fn post(&self, user: &str, path: &str, body: Value) -> Answer {
        self.ask(Method::POST, user, path, Some(body)).await
    }

    pub async fn delete(&self, user: &str, path: &str) -> Answer {
        self.ask(Method::DELETE, user, path, None).await
    }

    pub async fn ask(&self, method: Method, user: &str, path: &str, body: Option<Value>) -> Answer {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        request = request.bearer_auth(token::user(user)).timeout(Duration::from_secs(20));
        if let Some(body) = body {
            request = request.json(&body);
        }
        read(request.send().await.unwrap()).await
    }

    /// A conversation of this user; its id.
    pub async fn conversation(&self, user: &str) -> String {
        let body = serde_json::json!({ "title": "A title" });
        let (status, made) = self.post(user, "/api/assistant/conversations", body).await;
        assert_eq!(status, 201, "{made}");
        made["id"].as_str().unwrap().to_owned()
    }
}

pub async fn read(response: Response) -> Answer {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn env(nats_url: &str, database_url: &str) -> Env {
    let settings = HashMap::from([
        ("JWT_SECRET", token::SECRET),
        ("SEAL_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
        ("NATS_URL", nats_url),
        ("DATABASE_URL", database_url),
        ("GATEWAY_PREFIX", PREFIX),
        ("GATEWAY_GRACE_S", "2"),
        ("SERVICE_CLIENT_ID", "agent"),
        ("SERVICE_CLIENT_SECRET", SERVICE_SECRET),
        ("SERVICE_TOKEN_TTL_S", "60"),
    ]);
    let settings: HashMap<String, String> =
        settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Env::from_lookup(move |name| settings.get(name).cloned())
}
