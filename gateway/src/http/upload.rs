//! Files in and out (GRADIO-PROTOCOL §8): size gate while streaming in, owner gate on the way out.
//!
//! A path issued here, `<unguessable id>/<safe name>`, is also the object's name in the bucket; only the user
//! who uploaded it can read it or attach it to a message.
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::multipart::{Field, MultipartError, MultipartRejection};
use axum::extract::{Multipart, Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::limits;
use futures_util::{Stream, stream};
use shared::bus::files::{self, FileError, FileMeta};
use tokio_util::io::{ReaderStream, StreamReader};
use uuid::Uuid;

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::files::name;

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

/// `POST /gradio_api/upload`, multipart, every file in a part named `files` -> 200, JSON array of issued
/// paths in the order of the parts. Other parts are ignored. 400 when it is not multipart or a file has no
/// usable name; 413 (text) when a file has more than `limits::FILE_BYTES` bytes.
pub async fn upload(
    State(app): State<Arc<App>>,
    caller: Caller,
    multipart: Result<Multipart, MultipartRejection>,
) -> Result<Json<Vec<String>>, ApiError> {
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
        match store(&app, &caller, &file_name, field).await {
            Ok(path) => paths.push(path),
            Err(error) => {
                drain(&mut multipart).await;
                return Err(error);
            }
        }
    }
    Ok(Json(paths))
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
    let body = Body::from_stream(ReaderStream::with_capacity(content, 64 * 1024));
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

async fn store(
    app: &App,
    caller: &Caller,
    file_name: &str,
    field: Field<'_>,
) -> Result<String, ApiError> {
    let Some(shown) = name::display(file_name) else {
        return Err(bad(&format!("Invalid file name: {file_name}")));
    };
    let path = name::issue(Uuid::new_v4(), &shown);
    let meta = FileMeta {
        name: shown,
        mime: field.content_type().unwrap_or_default().to_owned(),
        owner: caller.user.to_string(),
        size_bytes: 0,
    };
    let stopped = Stopped::default();
    let data = StreamReader::new(Box::pin(measured(field, limits::FILE_BYTES, stopped.clone())));
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

/// The part's chunks, until the limit is passed or the sender falls silent.
fn measured(
    field: Field<'_>,
    limit_bytes: u64,
    stopped: Stopped,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::try_unfold((field, 0_u64, stopped), move |(mut field, seen, stopped)| async move {
        match next_chunk(&mut field).await {
            Ok(None) => Ok(None),
            Ok(Some(chunk)) => {
                let seen = seen.saturating_add(chunk.len() as u64);
                if seen > limit_bytes {
                    return Err(stopped.because(ApiError::FileTooLarge { limit_bytes }));
                }
                Ok(Some((chunk, (field, seen, stopped))))
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
