//! The chat page of the demo, with two people to sign in as: through nginx where there is one, else by this program.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;
use tests::place;
use tests::process::Process;

use crate::fleet::Fleet;
use crate::ports::Ports;

const GRADIO: &str = "/api/agent/gradio";

pub struct Page {
    pub url: String,
    nginx: Option<Process>,
}

/// What serves the page where there is no nginx.
struct Site {
    root: PathBuf,
    gateway: String,
    http: reqwest::Client,
}

impl Page {
    pub fn is_built() -> bool {
        built().join("index.html").exists()
    }

    pub async fn start(home: &Path, ports: &Ports, fleet: &Fleet) -> Result<Page, String> {
        let root = home.join("web");
        let _ = std::fs::remove_dir_all(&root);
        copy(&built(), &root)
            .and_then(|()| std::fs::write(root.join("chat-config.json"), config(fleet)))
            .map_err(|e| format!("the page can't be copied to {}: {e}", root.display()))?;
        let url = format!("http://127.0.0.1:{}", ports.page);
        let nginx = match nginx() {
            Some(program) => Some(start_nginx(&program, home, &root, ports)?),
            None => {
                let gateway = format!("http://127.0.0.1:{}", ports.gateway);
                let site = Arc::new(Site { root, gateway, http: place::http() });
                serve(ports.page, site).await.map_err(|e| format!("the page: {e}"))?;
                None
            }
        };
        Ok(Page { url, nginx })
    }

    pub fn process(&mut self) -> Option<&mut Process> {
        self.nginx.as_mut()
    }
}

fn built() -> PathBuf {
    place::repository().join("web/dist")
}

fn nginx() -> Option<PathBuf> {
    let named = place::variable("NGINX_BIN").map(PathBuf::from);
    let under_tools = place::repository().join(".tools/bin/nginx");
    let usual = ["/usr/sbin/nginx", "/usr/local/bin/nginx", "/opt/homebrew/bin/nginx"];
    named
        .into_iter()
        .chain([under_tools])
        .chain(usual.map(PathBuf::from))
        .find(|path| path.exists())
}

/// The demo's login: whoever opens the page may be either of them.
fn config(fleet: &Fleet) -> String {
    let user = |name: &str, token: &str, en: &str, ru: &str| json!({"name": name, "token": fleet.get(token), "about": {"en": en, "ru": ru}});
    let users = [
        user(
            "alice",
            "USER_TOKEN",
            "Administrator: deploys and migrates",
            "Администратор: деплоит и переносит",
        ),
        user("bob", "READER_TOKEN", "Reader: only looks", "Читатель: только смотрит"),
    ];
    json!({"token_key": "agentchat:demo-token", "demo_users": users}).to_string()
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn start_nginx(program: &Path, home: &Path, root: &Path, ports: &Ports) -> Result<Process, String> {
    let run = home.join("nginx");
    let template = std::fs::read_to_string(place::repository().join("web/nginx.conf"))
        .map_err(|e| format!("web/nginx.conf: {e}"))?;
    let text = template
        .replace("${NGINX_LISTEN}", &format!("127.0.0.1:{}", ports.page))
        .replace("${NGINX_RUN}", &run.display().to_string())
        .replace("${GATEWAY_SERVERS}", &format!("server 127.0.0.1:{} max_fails=0;", ports.gateway))
        .replace("${WEB_ROOT}", &root.display().to_string());
    let file = run.join("nginx.conf");
    std::fs::create_dir_all(&run)
        .and_then(|()| std::fs::write(&file, text))
        .map_err(|e| format!("{}: {e}", file.display()))?;
    let mut command = Command::new(program);
    command.args(["-e", "stderr", "-p"]).arg(&run).arg("-c").arg(&file);
    Ok(Process::start("nginx", command, &home.join("nginx.log")))
}

async fn serve(port: u16, site: Arc<Site>) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let app = Router::new().fallback(answer).with_state(site);
    tokio::spawn(async move {
        let _ = axum::serve(listener, app).await;
    });
    Ok(())
}

async fn answer(State(site): State<Arc<Site>>, request: Request) -> Response {
    let path = request.uri().path();
    if path.starts_with("/api/") { site.forward(request).await } else { site.file(path) }
}

impl Site {
    fn file(&self, path: &str) -> Response {
        let name = path.trim_start_matches('/');
        let name = if name.is_empty() { "index.html" } else { name };
        let is_plain = name.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
        let Some(bytes) = is_plain.then(|| std::fs::read(self.root.join(name)).ok()).flatten()
        else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let kind = match name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("json") => "application/json",
            Some("svg") => "image/svg+xml",
            Some("woff2") => "font/woff2",
            Some(_) | None => "application/octet-stream",
        };
        ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], bytes).into_response()
    }

    async fn forward(&self, request: Request) -> Response {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let url = format!("{}{}", self.gateway, path.strip_prefix(GRADIO).unwrap_or(path));
        let (head, body) = request.into_parts();
        let mut headers = head.headers;
        for name in [header::CONNECTION, header::HOST, header::CONTENT_LENGTH] {
            headers.remove(name);
        }
        let outgoing = self
            .http
            .request(head.method, url)
            .headers(headers)
            .body(reqwest::Body::wrap_stream(body.into_data_stream()));
        match outgoing.send().await {
            Ok(answer) => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = answer.status();
                for (name, value) in answer.headers() {
                    if ![header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH]
                        .contains(name)
                    {
                        response.headers_mut().insert(name.clone(), value.clone());
                    }
                }
                *response.body_mut() = Body::from_stream(answer.bytes_stream());
                response
            }
            Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
        }
    }
}
