//! What the backend's answer means: a result, a task that goes on, a refusal in words for people, or a bad token.
use agent::input::ToolOutcome;
use contract::error_code::ErrorCode;
use contract::job::Locale;
use contract::limits;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::Value;

use super::{failed, output};

/// A backend's own words are passed on up to this length.
const DETAIL_CHARS: usize = 300;

pub struct Body {
    pub bytes: Vec<u8>,
    /// There was more.
    pub cut: bool,
    pub is_html: bool,
}

/// Whose token a 401 is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    User,
    Service,
    Unclear,
}

pub fn is_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.to_ascii_lowercase().contains("html")
}

/// By the challenge, or by the code or the words of the body.
pub fn blame(challenge: Option<&str>, body: &Body) -> Blame {
    let parsed = serde_json::from_slice::<Value>(&body.bytes).unwrap_or_default();
    let said = format!("{} {}", challenge.unwrap_or_default(), words(&parsed).join(" "))
        .to_ascii_lowercase();
    match (said.contains("user"), said.contains("service")) {
        (true, false) => Blame::User,
        (false, true) => Blame::Service,
        (true, true) | (false, false) => Blame::Unclear,
    }
}

/// 2xx. Large bodies are parsed off the async threads.
pub async fn success(status: StatusCode, body: Body, locale: Locale) -> ToolOutcome {
    if body.bytes.len() <= limits::TOOL_OUTPUT_BYTES {
        return judge(status, &body, locale);
    }
    let judged = tokio::task::spawn_blocking(move || judge(status, &body, locale)).await;
    judged.unwrap_or_else(|_| failed(ErrorCode::ToolFailure, locale))
}

fn judge(status: StatusCode, body: &Body, locale: Locale) -> ToolOutcome {
    let Some(value) = value_of(body) else { return failed(ErrorCode::ToolFailure, locale) };
    if status == StatusCode::ACCEPTED {
        ToolOutcome::Accepted { task: value }
    } else {
        ToolOutcome::Ok(value)
    }
}

/// None for a page: that is a proxy or a login form, not a result.
fn value_of(body: &Body) -> Option<Value> {
    let text = String::from_utf8_lossy(&body.bytes);
    let text = text.trim_start_matches('\u{feff}').trim();
    if body.is_html || text.starts_with("<!") || text.to_ascii_lowercase().starts_with("<html") {
        return None;
    }
    if body.cut {
        return Some(output::beginning(text.as_bytes()));
    }
    if text.is_empty() {
        return Some(Value::Object(serde_json::Map::new()));
    }
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    Some(output::fit(value))
}

/// Any other status, in words: ours, with the backend's own where they are fit to be shown.
pub fn refusal(status: u16, body: Option<&Body>, locale: Locale) -> ToolOutcome {
    let code = if status == 403 { ErrorCode::Forbidden } else { ErrorCode::ToolFailure };
    let base = explanation(status, locale).unwrap_or_else(|| code.text(locale));
    let detail = body.filter(|_| (400..500).contains(&status)).and_then(detail_of);
    let text = match detail {
        Some(detail) => format!("{base} {detail}"),
        None => base.to_owned(),
    };
    ToolOutcome::Failed { code, text }
}

fn explanation(status: u16, locale: Locale) -> Option<&'static str> {
    let (en, ru) = match status {
        403 => return None,
        404 => ("Nothing was found under this id.", "По этому идентификатору ничего не найдено."),
        409 => (
            "This conflicts with the current state; nothing was changed.",
            "Это противоречит текущему состоянию; ничего не изменено.",
        ),
        413 => ("The request was too large.", "Запрос слишком велик."),
        400 | 422 => ("The backend did not accept these values.", "Бэкенд не принял эти значения."),
        429 => (
            "Too many requests at the moment. Try again in a minute.",
            "Сейчас слишком много запросов. Попробуйте через минуту.",
        ),
        503 => (
            "The backend is busy at the moment. Try again later.",
            "Бэкенд сейчас занят. Попробуйте позже.",
        ),
        300..=399 => (
            "The backend sent us elsewhere, which is not followed. Its address needs a look.",
            "Бэкенд перенаправил запрос в другое место; переход не выполнен. Проверьте его адрес.",
        ),
        500..=599 => (
            "The backend failed while it worked on this. Try again later.",
            "В бэкенде произошла ошибка. Попробуйте позже.",
        ),
        _ => return None,
    };
    match locale {
        Locale::En => Some(en),
        Locale::Ru => Some(ru),
    }
}

fn detail_of(body: &Body) -> Option<String> {
    if body.is_html || body.cut {
        return None;
    }
    let value: Value = serde_json::from_slice(&body.bytes).ok()?;
    let said = words(&value).join("; ");
    presentable(&said)
}

/// The messages of the error shapes in use: `{detail}`, `{detail: [{loc, msg}]}`, `{error: {message}}`, `{message}`.
fn words(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, 0, &mut found);
    found
}

fn collect(value: &Value, depth: u8, found: &mut Vec<String>) {
    match value {
        Value::String(text) if depth > 0 => found.push(text.clone()),
        Value::Array(items) if depth > 0 => {
            items.iter().take(5).for_each(|item| collect(item, depth, found))
        }
        Value::Object(map) if depth < 3 => {
            if let Some(problem) = field_problem(map) {
                found.push(problem);
                return;
            }
            for key in ["code", "detail", "error", "errors", "message", "title"] {
                if let Some(inner) = map.get(key) {
                    collect(inner, depth + 1, found);
                }
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {}
    }
}

/// FastAPI: `{"loc": ["body", "name"], "msg": "field required"}`.
fn field_problem(map: &serde_json::Map<String, Value>) -> Option<String> {
    let message = map.get("msg")?.as_str()?;
    let place: Vec<&str> =
        map.get("loc")?.as_array()?.iter().skip(1).filter_map(Value::as_str).collect();
    Some(format!("{}: {message}", place.join(".")))
}

/// A sentence for people; none if it smells of machinery: markup, addresses, statements, stack traces.
fn presentable(text: &str) -> Option<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let machinery = [
        "<",
        ">",
        "://",
        "localhost",
        ".svc",
        ".local",
        ".internal",
        "select ",
        "insert into",
        "update ",
        "delete from",
        " where ",
        "sqlstate",
        "psycopg",
        "sqlalchemy",
        "asyncpg",
        "traceback",
        "exception",
        "errno",
        "stack",
        ".py",
        ".rs:",
        "/usr/",
        "/app/",
        "bearer",
        "jwt",
        "password",
        "secret",
        "eyj",
        "\\",
    ];
    let lower = text.to_lowercase();
    let leaks = machinery.iter().any(|sign| lower.contains(sign))
        || lower.split_whitespace().any(is_address);
    (!text.is_empty()
        && !leaks
        && text.chars().count() <= DETAIL_CHARS
        && !text.chars().any(char::is_control))
    .then_some(text)
}

/// An IP address or `host:port`.
fn is_address(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    if word.parse::<std::net::IpAddr>().is_ok() {
        return true;
    }
    let Some((host, port)) = word.rsplit_once(':') else { return false };
    host.contains(|c: char| c.is_ascii_alphabetic() || c == '.')
        && port.len() >= 2
        && port.bytes().all(|byte| byte.is_ascii_digit())
}
