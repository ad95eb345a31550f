//! A model server that writes exactly the bytes a test names.
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::effect::ModelRequest;
use agent::message::Message;
use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::llm::{Completion, Llm, LlmConfig, Pictures, Piece};

/// What the server does after the bytes of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Close,
    Reset,
    /// Keeps the socket open and says nothing more.
    Hang,
}

#[derive(Clone, Debug)]
pub struct Reply {
    /// Written and flushed one by one.
    pub pieces: Vec<Vec<u8>>,
    pub then: Then,
}

impl Reply {
    /// A stream that ends as the socket closes.
    pub fn stream(body: impl Into<Vec<u8>>) -> Self {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        Self { pieces: vec![head.into(), body.into()], then: Then::Close }
    }

    /// A stream in one HTTP chunk, its end missing.
    pub fn chunked(body: &str) -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = format!("{:x}\r\n{body}\r\n", body.len());
        Self { pieces: vec![head.into(), chunk.into()], then: Then::Close }
    }

    pub fn status(line: &str, headers: &str, body: &str) -> Self {
        let reply = format!(
            "HTTP/1.1 {line}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        Self { pieces: vec![reply.into()], then: Then::Close }
    }

    pub fn then(mut self, then: Then) -> Self {
        self.then = then;
        self
    }
}

/// One request as the server saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub head: String,
    pub body: serde_json::Value,
    pub at: std::time::Instant,
}

pub struct Mock {
    pub url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    hung_up: Arc<tokio::sync::Notify>,
    task: tokio::task::JoinHandle<()>,
    llm: std::sync::OnceLock<Llm>,
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Mock {
    /// Answers the first request with the first reply and so on; the last one again and again.
    #[expect(clippy::disallowed_methods, reason = "a test server; it ends with its Mock")]
    pub async fn start(replies: Vec<Reply>) -> Self {
        shared::runtime::tls::install_provider();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let hung_up = Arc::new(tokio::sync::Notify::new());
        let (noted, notify) = (seen.clone(), hung_up.clone());
        let task = tokio::spawn(async move {
            let mut served = tokio::task::JoinSet::new();
            for turn in 0.. {
                let (socket, _) = listener.accept().await.unwrap();
                let reply = replies[turn.min(replies.len() - 1)].clone();
                served.spawn(serve(socket, reply, noted.clone(), notify.clone()));
            }
        });
        Self { url, seen, hung_up, task, llm: std::sync::OnceLock::new() }
    }

    pub fn requests(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Ready when a client has closed a socket on which the server was silent.
    pub async fn hung_up(&self) {
        self.hung_up.notified().await;
    }

    pub fn config(&self) -> LlmConfig {
        LlmConfig {
            first_token_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(5),
            ..LlmConfig::new(&self.url, SecretString::from("sk-test"), "test-model")
        }
    }

    pub fn ask(&self) -> Completion {
        self.llm.get_or_init(|| Llm::new(self.config()).unwrap()).stream(
            &question(),
            &Pictures::new(),
            &[],
        )
    }
}

pub fn question() -> ModelRequest {
    ModelRequest { messages: vec![Message::user("hi")], tools: Vec::new() }
}

async fn serve(
    mut socket: TcpStream,
    reply: Reply,
    seen: Arc<Mutex<Vec<Seen>>>,
    hung_up: Arc<tokio::sync::Notify>,
) {
    let (head, body) = read_request(&mut socket).await;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    seen.lock().unwrap().push(Seen { head, body, at: std::time::Instant::now() });
    socket.set_nodelay(true).unwrap();
    for piece in &reply.pieces {
        if socket.write_all(piece).await.is_err() {
            return;
        }
        socket.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    match reply.then {
        Then::Close => {
            let _ = socket.shutdown().await;
        }
        Then::Reset => {
            // What was written must arrive before the reset throws it away.
            tokio::time::sleep(Duration::from_millis(50)).await;
            socket.set_zero_linger().unwrap();
        }
        Then::Hang => {
            let _ = socket.read(&mut [0; 64]).await;
            hung_up.notify_one();
        }
    }
}

async fn read_request(socket: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let read = socket.read(&mut piece).await.unwrap_or(0);
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, _)) = text.split_once("\r\n\r\n") else {
            if read == 0 {
                return (text, Vec::new());
            }
            continue;
        };
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length:").map(|n| n.trim().to_owned())
        });
        let length: usize = length.map_or(0, |n| n.parse().unwrap());
        if bytes.len() >= head.len() + 4 + length || read == 0 {
            return (head.to_owned(), bytes.split_off(head.len() + 4));
        }
    }
}

/// Everything a completion says, one line each.
pub async fn transcript(mut completion: Completion) -> String {
    let mut lines = String::new();
    let mut text = String::new();
    loop {
        match completion.next().await {
            Ok(Piece::Text(piece)) => text.push_str(&piece),
            Ok(Piece::Done(raw)) => {
                flush(&mut lines, &text);
                for call in &raw.calls {
                    let id = if call.id.len() == 37 && call.id.starts_with("call_") {
                        "<fresh>"
                    } else {
                        &call.id
                    };
                    writeln!(lines, "call {} {} {}", call.name, id, call.arguments).unwrap();
                }
                writeln!(lines, "{:?}", raw.finish).unwrap();
                break;
            }
            Err(failure) => {
                flush(&mut lines, &text);
                writeln!(lines, "{failure:?}").unwrap();
                break;
            }
        }
    }
    lines
}

fn flush(lines: &mut String, text: &str) {
    if !text.is_empty() {
        writeln!(lines, "text {text:?}").unwrap();
    }
}

/// One event of a stream.
pub fn data(json: &str) -> String {
    format!("data: {json}\n\n")
}

/// A chunk with this delta.
pub fn delta(delta: &str) -> String {
    data(&format!(
        r#"{{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#
    ))
}

pub fn text(piece: &str) -> String {
    delta(&serde_json::json!({ "content": piece }).to_string())
}

/// The last chunk, with the server's count: ours costs a second for every test that needs it.
pub fn finish(reason: &str) -> String {
    let usage = r#""usage":{"prompt_tokens":1,"completion_tokens":1}"#;
    data(&format!(
        r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}],{usage}}}"#
    ))
}

pub fn finish_uncounted(reason: &str) -> String {
    data(&format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#))
}

pub const DONE: &str = "data: [DONE]\n\n";
