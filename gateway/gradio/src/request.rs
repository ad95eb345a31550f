//! The body of `queue/join` or `call/chat` as a [`ChatCall`], in every form that stock clients send.
use contract::limits;
use serde_json::{Map, Value};

use crate::config::{FN_INDEX, PARAMETERS};

pub const SESSION_HASH_CHARS: usize = 128;
/// How many parameters there were before `client_message_id`.
const FORMER_PARAMETERS: usize = 5;

/// `queue/join`.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub session_hash: String,
    pub call: ChatCall,
}

/// `call/chat`.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainCall {
    pub session_hash: Option<String>,
    pub call: ChatCall,
}

/// One submission as the client meant it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatCall {
    pub text: String,
    /// `FileData` objects as they came: claims of the client.
    pub files: Vec<Value>,
    /// What the client calls the conversation; `None` asks for a new one.
    pub conversation: Option<String>,
    pub action: Action,
    /// The client's own id of this message: repeated, it means the same turn.
    pub message_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Action {
    #[default]
    None,
    Confirm {
        call: Option<String>,
    },
    Deny {
        call: Option<String>,
    },
    Resume,
    Attach {
        /// Cursor: show what came after it; 0 is everything.
        after: u64,
    },
    /// A word without a meaning: the message counts as a plain one, which never confirms anything.
    Unknown,
}

/// Answered as JSON with a `detail`, before anything is accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the body is not valid JSON")]
    NotJson,
    #[error("session_hash is missing")]
    NoSession,
    #[error("session_hash has more than {SESSION_HASH_CHARS} characters")]
    SessionTooLong,
    #[error("there is no function with index {0}")]
    UnknownFunction(String),
    #[error("{field} must be {expected}")]
    WrongType { field: &'static str, expected: &'static str },
    #[error("the cursor of an attach must be a number")]
    Cursor,
    #[error(
        "client_message_id must be a text of 1 to {max} characters, without control characters, that is no action",
        max = limits::CLIENT_MESSAGE_ID_CHARS
    )]
    MessageId,
}

impl Refused {
    /// Never 422: Python's client reads that one as something else.
    pub const fn status(&self) -> u16 {
        match self {
            Self::UnknownFunction(_) => 404,
            Self::NotJson
            | Self::NoSession
            | Self::SessionTooLong
            | Self::WrongType { .. }
            | Self::Cursor
            | Self::MessageId => 400,
        }
    }
}

pub fn parse_join(body: &[u8]) -> Result<Join, Refused> {
    let body = object(body)?;
    let session_hash = session_hash(&body)?.ok_or(Refused::NoSession)?;
    function(&body)?;
    Ok(Join { session_hash, call: chat_call(&body)? })
}

/// `call/chat`: `{"data": …, "session_hash"?}`, or the named parameters themselves.
pub fn parse_call(body: &[u8]) -> Result<PlainCall, Refused> {
    let body = object(body)?;
    let session_hash = session_hash(&body)?;
    let body = if body.contains_key("data") { body } else { named_body(body) };
    Ok(PlainCall { session_hash, call: chat_call(&body)? })
}

fn named_body(parameters: Map<String, Value>) -> Map<String, Value> {
    Map::from_iter([("data".to_owned(), Value::Object(parameters))])
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Refused> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(body)) => Ok(body),
        Ok(_) => Err(Refused::WrongType { field: "the body", expected: "an object" }),
        Err(_) => Err(Refused::NotJson),
    }
}

fn session_hash(body: &Map<String, Value>) -> Result<Option<String>, Refused> {
    let hash = text_of(body.get("session_hash"), "session_hash")?;
    if hash.as_ref().is_some_and(|hash| hash.chars().count() > SESSION_HASH_CHARS) {
        return Err(Refused::SessionTooLong);
    }
    Ok(hash)
}

fn function(body: &Map<String, Value>) -> Result<(), Refused> {
    match body.get("fn_index") {
        None | Some(Value::Null) => Ok(()),
        Some(index) if index.as_u64() == Some(FN_INDEX) => Ok(()),
        Some(index) => Err(Refused::UnknownFunction(index.to_string().chars().take(40).collect())),
    }
}

/// The parameters of one call; blank ones (`null` and `""`) are absent.
#[derive(Default)]
struct Named<'a> {
    message: Option<&'a Value>,
    conversation: Option<&'a Value>,
    action: Option<&'a Value>,
    message_id: Option<&'a Value>,
    text: Option<&'a Value>,
    files: Option<&'a Value>,
}

fn chat_call(body: &Map<String, Value>) -> Result<ChatCall, Refused> {
    let named = match body.get("data") {
        None | Some(Value::Null) => Named::default(),
        Some(Value::Array(data)) => positional(data),
        Some(Value::Object(data)) => by_name(|name| data.get(name)),
        Some(_) => {
            return Err(Refused::WrongType { field: "data", expected: "an array or an object" });
        }
    };
    let (message_text, message_files) = message(named.message)?;
    let event = event_data(body.get("event_data"));
    let text = text_of(named.text, "text")?.or(message_text).unwrap_or_default();
    let action = text_of(named.action, "action")?.or(event.action);
    let message_id = text_of(named.message_id, "client_message_id")?.or(event.message_id);
    Ok(ChatCall {
        // Postgres takes no NUL.
        text: text.replace('\0', "\u{fffd}"),
        files: files_of(named.files, "files")?.or(message_files).unwrap_or_default(),
        conversation: text_of(named.conversation, "conversation_id")?.or(event.conversation),
        action: action.map_or(Ok(Action::None), |word| parse_action(&word))?,
        message_id: message_id.map(parse_message_id).transpose()?,
    })
}

fn by_name<'a>(get: impl Fn(&str) -> Option<&'a Value>) -> Named<'a> {
    let [message, conversation, action, message_id, text, files] =
        PARAMETERS.map(|p| get(p.name).filter(|value| !is_blank(value)));
    Named { message, conversation, action, message_id, text, files }
}

/// `data` as an array: the published parameters in order; or the form with an explicit `null` for the hidden
/// state of Gradio 5, which shifts what follows by one; or the parameters as they were before
/// `client_message_id`, from a client that read them then.
fn positional(data: &[Value]) -> Named<'_> {
    let at = |i: usize| data.get(i).filter(|value| !is_blank(value));
    let list = |i: usize| at(i).filter(|files| !is_empty_array(files));
    let (message, conversation, action) = (at(0), at(1), at(2));
    let named = Named { message, conversation, action, ..Named::default() };
    let plain = Named { message_id: at(3), text: list(4), files: list(5), ..named };
    if has_hidden_state(&plain) {
        return Named {
            message,
            conversation: at(2),
            action: at(3),
            message_id: list(4),
            ..Named::default()
        };
    }
    let filled = message.is_some_and(is_filled_message);
    let has_fifth_list = list(4).is_some_and(Value::is_array);
    if data.len() == FORMER_PARAMETERS && (has_fifth_list || !filled) {
        return Named {
            message,
            conversation,
            action,
            text: at(3),
            files: list(4),
            ..Named::default()
        };
    }
    plain
}

/// A caller who fills `text` leaves `message` empty; neither a conversation nor a message's id is named like an
/// action.
fn has_hidden_state(plain: &Named<'_>) -> bool {
    if plain.conversation.is_some() || plain.files.is_some() {
        return false;
    }
    let word = |value: Option<&Value>| value.and_then(Value::as_str).map(is_action);
    let filled = plain.message.is_some_and(is_filled_message);
    match (word(plain.action), word(plain.message_id)) {
        (Some(false), Some(true)) => true,
        (Some(false), None | Some(false)) => filled,
        (None, Some(true)) => filled,
        (None, None | Some(false)) | (Some(true), _) => false,
    }
}

fn is_filled_message(message: &Value) -> bool {
    match message {
        Value::Object(fields) => {
            fields.get("text").is_some_and(|text| !is_blank(text))
                || fields
                    .get("files")
                    .is_some_and(|files| !is_blank(files) && !is_empty_array(files))
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            !is_blank(message)
        }
    }
}

fn message(message: Option<&Value>) -> Result<(Option<String>, Option<Vec<Value>>), Refused> {
    match message {
        None => Ok((None, None)),
        Some(Value::String(text)) => Ok((Some(text.clone()), None)),
        Some(Value::Object(message)) => Ok((
            text_of(message.get("text"), "message.text")?,
            files_of(message.get("files"), "message.files")?,
        )),
        Some(_) => Err(Refused::WrongType { field: "message", expected: "a text or an object" }),
    }
}

/// What the third argument of `submit` says.
#[derive(Default)]
struct EventData {
    conversation: Option<String>,
    action: Option<String>,
    message_id: Option<String>,
}

/// A conversation; or a list of conversation, action and message id. Anything else means nothing.
fn event_data(data: Option<&Value>) -> EventData {
    let text = |value: Option<&Value>| {
        value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    match data {
        Some(Value::Array(data)) => EventData {
            conversation: text(data.first()),
            action: text(data.get(1)),
            message_id: text(data.get(2)),
        },
        Some(conversation @ Value::String(_)) => {
            EventData { conversation: text(Some(conversation)), ..EventData::default() }
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            EventData::default()
        }
    }
}

fn is_action(word: &str) -> bool {
    !matches!(parse_action(word), Ok(Action::Unknown))
}

fn parse_action(word: &str) -> Result<Action, Refused> {
    let word = word.trim();
    let (verb, rest) = match word.split_once(':') {
        Some((verb, rest)) => (verb, Some(rest).filter(|rest| !rest.is_empty())),
        None => (word, None),
    };
    let call = || rest.map(str::to_owned);
    Ok(match verb {
        "" => Action::None,
        "confirm" => Action::Confirm { call: call() },
        "deny" => Action::Deny { call: call() },
        "resume" if rest.is_none() => Action::Resume,
        "attach" => {
            let after = rest.map_or(Ok(0), str::parse).map_err(|_| Refused::Cursor)?;
            Action::Attach { after }
        }
        _ => Action::Unknown,
    })
}

/// A word that could be meant as an action is refused: taken for an id, it would hide what its sender wanted.
fn parse_message_id(id: String) -> Result<String, Refused> {
    let valid = id.chars().count() <= limits::CLIENT_MESSAGE_ID_CHARS
        && !id.chars().any(char::is_control)
        && !is_action(&id);
    if valid { Ok(id) } else { Err(Refused::MessageId) }
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(str::is_empty)
}

fn is_empty_array(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn text_of(value: Option<&Value>, field: &'static str) -> Result<Option<String>, Refused> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(_) => Err(Refused::WrongType { field, expected: "a text" }),
    }
}

fn files_of(value: Option<&Value>, field: &'static str) -> Result<Option<Vec<Value>>, Refused> {
    match value {
        Some(Value::Array(files)) => Ok(Some(files.clone()).filter(|files| !files.is_empty())),
        Some(value) if !is_blank(value) => Err(Refused::WrongType { field, expected: "a list" }),
        Some(_) | None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
