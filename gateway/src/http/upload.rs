//! Files in and out (GRADIO-PROTOCOL §8): gates for type and size while streaming in, owner gate on the way out.
//!
//! A path issued here, `<unguessable id>/<safe name>`, is also the object's name in the bucket; only the user
//! who uploaded it can read it or attach it to a message.
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::multipart::{Field, MultipartError, MultipartRejection};
use axum::extract::{Multipart, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::error_code::ErrorCode;
use contract::job::Locale;
use contract::{file_type, limits};
use futures_util::{Stream, TryStreamExt as _, stream};
use shared::bus::files::{self, FileError, FileMeta};
use tokio_util::io::{ReaderStream, StreamReader};
use uuid::Uuid;

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::files::name;
use crate::http::queue;
use crate::metrics;

/// Files in one request; a message takes fewer, but a client may upload ahead.
const FILES_PER_UPLOAD: usize = 20;
/// Parts in one request that are not files.
const OTHER_PARTS: usize = 20;
/// Parts that are not files are read over up to this size.
const OTHER_PART_BYTES: u64 = 64 * 1024;
/// What follows a refused file is read and thrown away for so long.
const DRAIN_WITHIN: Duration = Duration::from_secs(3);
/// A sender that is silent for so long is given up.
const CHUNK_DEADLINE: Duration = Duration::from_secs(30);
/// A store that is silent for so long is, too.
const STORE_CHUNK_WITHIN: Duration = Duration::from_secs(5);

/// `POST /gradio_api/upload`, multipart, every file in a part named `files` -> 200, JSON array of issued
/// paths in the order of the parts. Other parts are ignored. 400 when it is not multipart or a file has no
/// usable name; 413 (text) when a file has more than `limits::FILE_BYTES` bytes; 415 `FILE_TYPE` when its content
/// is not what its name says, or a program.
pub async fn upload(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    multipart: Result<Multipart, MultipartRejection>,
) -> Result<Json<Vec<String>>, ApiError> {
    let locale = queue::locale(&headers);
    let mut multipart = multipart.map_err(|_| bad("Invalid content type."))?;
    let (mut paths, mut others) = (Vec::new(), 0);
    while let Some(field) = next_part(&mut multipart).await? {
        let file_name = field.file_name().filter(|_| field.name() == Some("files"));
        let Some(file_name) = file_name.map(str::to_owned) else {
            others += 1;
            if others > OTHER_PARTS {
                return Err(bad("Too many parts."));
            }
            skip(field).await?;
            continue;
        };
        if paths.len() == FILES_PER_UPLOAD {
            return Err(bad(&format!("At most {FILES_PER_UPLOAD} files in one upload.")));
        }
        let stored = store(&app, &caller, (&file_name, locale), field).await;
        metrics::UPLOADS.add(1, &metrics::label("outcome", outcome(&stored)));
        match stored {
            Ok(path) => paths.push(path),
            Err(error) => {
                drain(&mut multipart).await;
                return Err(error);
            }
        }
    }
    Ok(Json(paths))
}

fn outcome(stored: &Result<String, ApiError>) -> &'static str {
    match stored {
        Ok(_) => "stored",
        Err(ApiError::Code(code) | ApiError::Explained(code, _)) => code.as_str(),
        Err(ApiError::FileTooLarge { .. }) => ErrorCode::FileTooLarge.as_str(),
        Err(ApiError::Unavailable(_)) => ErrorCode::Unavailable.as_str(),
        Err(ApiError::Internal(_)) => ErrorCode::Internal.as_str(),
        Err(ApiError::Parameters(_) | ApiError::Protocol(..)) => ErrorCode::BadRequest.as_str(),
    }
}

/// A client that is still sending as the connection closes never reads why.
async fn drain(multipart: &mut Multipart) {
    let rest = async {
        while let Ok(Some(mut field)) = multipart.next_field().await {
            while let Ok(Some(_)) = field.chunk().await {}
        }
    };
    let _ = tokio::time::timeout(DRAIN_WITHIN, rest).await;
}

/// `GET` or `HEAD /gradio_api/file=<path>` -> the bytes, to be saved and not shown. 403 for every path that
/// was not issued to this user.
pub async fn file(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    let not_allowed =
        || ApiError::Protocol(StatusCode::FORBIDDEN, format!("File not allowed: {path}."));
    if !name::is_issued(&path) {
        return Err(not_allowed());
    }
    let found = files::get(&app.bus, &path).await.map_err(unavailable)?;
    let (meta, content) =
        found.filter(|(meta, _)| meta.owner == caller.user.as_str()).ok_or_else(not_allowed)?;
    let chunks = ReaderStream::with_capacity(content, 64 * 1024);
    let body = Body::from_stream(patient(chunks));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
        (header::CACHE_CONTROL, "private, no-store"),
    ];
    for (header, value) in fixed {
        headers.insert(header, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(meta.size_bytes));
    if let Ok(disposition) = HeaderValue::try_from(name::disposition(&meta.name)) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

/// Ends with an error when the store falls silent.
fn patient(
    chunks: impl Stream<Item = io::Result<Bytes>> + Send + Unpin,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::try_unfold(chunks, |mut chunks| async move {
        let next = tokio::time::timeout(STORE_CHUNK_WITHIN, chunks.try_next()).await;
        let chunk = next.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(chunk.map(|chunk| (chunk, chunks)))
    })
}

async fn store(
    app: &App,
    caller: &Caller,
    (file_name, locale): (&str, Locale),
    mut field: Field<'_>,
) -> Result<String, ApiError> {
    let Some(shown) = name::display(file_name) else {
        return Err(bad(&format!("Invalid file name: {file_name}")));
    };
    let head = head(&mut field).await?;
    let declared = field.content_type().unwrap_or_default().to_owned();
    let mime = match file_type::gate(&shown, &head.concat()) {
        Ok(Some(found)) => found.mime().to_owned(),
        Ok(None) => declared,
        Err(refused) => return Err(ApiError::Explained(ErrorCode::FileType, refused.text(locale))),
    };
    let path = name::issue(Uuid::new_v4(), &shown);
    let meta = FileMeta { name: shown, mime, owner: caller.user.to_string(), size_bytes: 0 };
    let stopped = Stopped::default();
    let chunks = measured((head.into(), field), limits::FILE_BYTES, stopped.clone());
    let data = StreamReader::new(Box::pin(chunks));
    match files::put(&app.bus, &path, &meta, data).await {
        Ok(size_bytes) => {
            tracing::debug!(size_bytes, "Stored an upload of {size_bytes} bytes");
            Ok(path)
        }
        Err(error) => Err(stopped.take().unwrap_or_else(|| unavailable(error))),
    }
}

/// Why an upload's source ended early; the store only sees that it did.
#[derive(Clone, Default)]
struct Stopped(Arc<Mutex<Option<ApiError>>>);

impl Stopped {
    fn because(&self, error: ApiError) -> io::Error {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        io::Error::other("upload stopped")
    }

    fn take(&self) -> Option<ApiError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The part's first chunks: enough of them to tell what it is.
async fn head(field: &mut Field<'_>) -> Result<Vec<Bytes>, ApiError> {
    let (mut head, mut bytes) = (Vec::new(), 0);
    while bytes < file_type::HEAD_BYTES
        && let Some(chunk) = next_chunk(field).await?
    {
        bytes += chunk.len();
        head.push(chunk);
    }
    Ok(head)
}

/// The part's chunks, until the limit is passed or the sender falls silent.
fn measured(
    part: (VecDeque<Bytes>, Field<'_>),
    limit_bytes: u64,
    stopped: Stopped,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::try_unfold((part, 0_u64, stopped), move |(mut part, seen, stopped)| async move {
        let next = match part.0.pop_front() {
            Some(chunk) => Ok(Some(chunk)),
            None => next_chunk(&mut part.1).await,
        };
        match next {
            Ok(None) => Ok(None),
            Ok(Some(chunk)) => {
                let seen = seen.saturating_add(chunk.len() as u64);
                if seen > limit_bytes {
                    return Err(stopped.because(ApiError::FileTooLarge { limit_bytes }));
                }
                Ok(Some((chunk, (part, seen, stopped))))
            }
            Err(error) => Err(stopped.because(error)),
        }
    })
}

async fn skip(mut field: Field<'_>) -> Result<(), ApiError> {
    let mut seen = 0_u64;
    while let Some(chunk) = next_chunk(&mut field).await? {
        seen = seen.saturating_add(chunk.len() as u64);
        if seen > OTHER_PART_BYTES {
            return Err(bad("A part that is not a file is too large."));
        }
    }
    Ok(())
}

async fn next_part(multipart: &mut Multipart) -> Result<Option<Field<'_>>, ApiError> {
    let next = tokio::time::timeout(CHUNK_DEADLINE, multipart.next_field()).await;
    next.map_err(|_| silent())?.map_err(|error| malformed(&error))
}

async fn next_chunk(field: &mut Field<'_>) -> Result<Option<Bytes>, ApiError> {
    let next = tokio::time::timeout(CHUNK_DEADLINE, field.chunk()).await;
    next.map_err(|_| silent())?.map_err(|error| malformed(&error))
}

fn bad(detail: &str) -> ApiError {
    ApiError::Protocol(StatusCode::BAD_REQUEST, detail.to_owned())
}

fn malformed(_: &MultipartError) -> ApiError {
    bad("The upload is incomplete or malformed.")
}

fn silent() -> ApiError {
    ApiError::Protocol(StatusCode::REQUEST_TIMEOUT, "The upload stopped.".to_owned())
}

fn unavailable(error: FileError) -> ApiError {
    ApiError::Unavailable(anyhow::Error::new(error).context("uploads"))
}
