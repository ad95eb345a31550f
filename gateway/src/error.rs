//! How a refusal looks on the wire, in one place.
//!
//! `{"detail": string, "code": string}` with the status of the code; `401 {"detail": "UNAUTHORIZED"}`;
//! `422 {"detail": [{"loc", "msg", "type"}]}` for parameters of REST routes; text for a file that is too large.
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::error_code::ErrorCode;
use contract::job::Locale;
use serde::Serialize;
use serde_json::json;
use shared::store;

#[derive(Debug)]
pub enum ApiError {
    /// The code's status and its own sentence.
    Code(ErrorCode),
    /// The code's status and a sentence that says more. It is shown to the user.
    Explained(ErrorCode, String),
    /// Query parameters or body fields of a REST route that mean nothing.
    Parameters(Vec<BadParameter>),
    /// A shape that the Gradio protocol prescribes: this status with `{"detail": …}`.
    Protocol(StatusCode, String),
    /// Gradio's text answer to an upload above the limit.
    FileTooLarge { limit_bytes: u64 },
    /// Postgres or NATS can't be reached; logged here, the caller sees `UNAVAILABLE`.
    Unavailable(anyhow::Error),
    /// Nobody's fault but ours; logged here, the caller sees `INTERNAL`.
    Internal(anyhow::Error),
}

/// One entry of a 422 answer, in the form that FastAPI clients know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadParameter {
    /// `["query", "limit"]` or `["body", "title"]`.
    pub loc: [String; 2],
    pub msg: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
}

impl BadParameter {
    pub fn query(name: &str, kind: &'static str, msg: impl Into<String>) -> Self {
        Self { loc: ["query".to_owned(), name.to_owned()], msg: msg.into(), kind }
    }

    pub fn path(name: &str, kind: &'static str, msg: impl Into<String>) -> Self {
        Self { loc: ["path".to_owned(), name.to_owned()], msg: msg.into(), kind }
    }

    pub fn body(name: &str, kind: &'static str, msg: impl Into<String>) -> Self {
        Self { loc: ["body".to_owned(), name.to_owned()], msg: msg.into(), kind }
    }
}

impl ApiError {
    pub const UNAUTHORIZED: Self = Self::Code(ErrorCode::Unauthorized);
    pub const NOT_FOUND: Self = Self::Code(ErrorCode::NotFound);

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::Explained(ErrorCode::BadRequest, detail.into())
    }
}

impl From<ErrorCode> for ApiError {
    fn from(code: ErrorCode) -> Self {
        Self::Code(code)
    }
}

impl From<anyhow::Error> for ApiError {
    fn from(error: anyhow::Error) -> Self {
        Self::Internal(error)
    }
}

impl From<store::Error> for ApiError {
    fn from(error: store::Error) -> Self {
        if is_outage(&error) {
            Self::Unavailable(error.into())
        } else {
            Self::Internal(error.into())
        }
    }
}

/// Whether the database can't be reached, as opposed to refusing a statement.
fn is_outage(error: &store::Error) -> bool {
    match error {
        store::Error::Pool(_) | store::Error::TimedOut => true,
        store::Error::Hot(error) => error.as_db_error().is_none(),
        store::Error::Row(error) => matches!(
            **error,
            sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed
        ),
        store::Error::Corrupt { .. } => false,
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        match self {
            Self::Code(code) => coded(code, code.text(Locale::En)),
            Self::Explained(code, detail) => coded(code, &detail),
            Self::Parameters(detail) => {
                (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({ "detail": detail })))
                    .into_response()
            }
            Self::Protocol(status, detail) => {
                (status, Json(json!({ "detail": detail }))).into_response()
            }
            Self::FileTooLarge { limit_bytes } => {
                let text =
                    format!("File size exceeded maximum allowed size of {limit_bytes} bytes.");
                (StatusCode::PAYLOAD_TOO_LARGE, text).into_response()
            }
            Self::Unavailable(error) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "Something can't be reached: {error:#}"
                );
                coded(ErrorCode::Unavailable, ErrorCode::Unavailable.text(Locale::En))
            }
            Self::Internal(error) => {
                tracing::error!(error = format!("{error:#}"), "A request failed: {error:#}");
                coded(ErrorCode::Internal, ErrorCode::Internal.text(Locale::En))
            }
        }
    }
}

fn coded(code: ErrorCode, detail: &str) -> Response {
    let status =
        StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if code == ErrorCode::Unauthorized {
        let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
        return (status, challenge, Json(json!({ "detail": code.as_str() }))).into_response();
    }
    let body = Json(json!({ "detail": detail, "code": code.as_str() }));
    let mut response = (status, body).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
    }
    response
}

#[cfg(test)]
mod tests;
