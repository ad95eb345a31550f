//! Uploaded files that a message names: only paths that this service issued, and only to this user.
use contract::error_code::ErrorCode;
use contract::job::FileRef;
use contract::limits;
use serde_json::Value;
use shared::bus::files;

use crate::app::App;
use crate::auth::Caller;

pub mod name;

/// The files that a message names: Gradio `FileData` objects, or issued paths alone.
///
/// `BAD_REQUEST` above `limits::FILES_PER_MESSAGE`, `FILE_UNREADABLE` for the `{}` that the JS client sends
/// after a failed upload, `NOT_FOUND` for any path that was not issued to this user (URLs included).
pub async fn resolve_files(
    app: &App,
    caller: &Caller,
    files: &[Value],
) -> Result<Vec<FileRef>, ErrorCode> {
    if files.len() > limits::FILES_PER_MESSAGE {
        return Err(ErrorCode::BadRequest);
    }
    let mut resolved = Vec::with_capacity(files.len());
    for file in files {
        resolved.push(resolve(app, caller, file).await?);
    }
    Ok(resolved)
}

async fn resolve(app: &App, caller: &Caller, file: &Value) -> Result<FileRef, ErrorCode> {
    let text = |key: &str| file.get(key).and_then(Value::as_str);
    let path = file.as_str().or_else(|| text("path")).ok_or(ErrorCode::FileUnreadable)?;
    if !name::is_issued(path) {
        return Err(ErrorCode::NotFound);
    }
    let found = files::get(&app.bus, path).await.map_err(|error| {
        tracing::warn!(%error, "Can't look up an upload");
        ErrorCode::Unavailable
    })?;
    let (meta, _) = found.ok_or(ErrorCode::NotFound)?;
    if meta.owner != caller.user.as_str() {
        return Err(ErrorCode::NotFound);
    }
    let shown = text("orig_name").and_then(name::display).unwrap_or(meta.name);
    Ok(FileRef { blob: path.to_owned(), name: shown, mime: meta.mime, size: meta.size_bytes })
}
