//! Uploaded files that a message names: only paths that this service issued, and only to this user.
use contract::error_code::ErrorCode;
use contract::job::{FileRef, Locale};
use contract::limits;
use serde_json::Value;
use shared::bus::files;

use crate::app::App;
use crate::auth::Caller;

pub mod name;

/// Why a message's files are not taken, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTaken {
    pub code: ErrorCode,
    pub detail: String,
}

impl NotTaken {
    fn plain(code: ErrorCode, locale: Locale) -> Self {
        Self { code, detail: code.text(locale).to_owned() }
    }

    fn too_many(locale: Locale) -> Self {
        let most = limits::FILES_PER_MESSAGE;
        let detail = match locale {
            Locale::En => format!("A message takes at most {most} files."),
            Locale::Ru => format!("В сообщении может быть не больше {most} файлов."),
        };
        Self { code: ErrorCode::BadRequest, detail }
    }

    /// Says the same whether there never was such a file, it is somebody else's, or its day is over.
    fn gone(locale: Locale) -> Self {
        let detail = match locale {
            Locale::En => "A file is not there: uploads are kept for a day. Add it again.",
            Locale::Ru => "Файл не найден: загрузки хранятся сутки. Приложите его ещё раз.",
        };
        Self { code: ErrorCode::NotFound, detail: detail.to_owned() }
    }
}

/// The files that a message names: Gradio `FileData` objects, or issued paths alone.
///
/// `BAD_REQUEST` above `limits::FILES_PER_MESSAGE`, `FILE_UNREADABLE` for the `{}` that the JS client sends
/// after a failed upload, `NOT_FOUND` for any path that was not issued to this user (URLs included).
pub async fn resolve_files(
    app: &App,
    caller: &Caller,
    files: &[Value],
    locale: Locale,
) -> Result<Vec<FileRef>, NotTaken> {
    if files.len() > limits::FILES_PER_MESSAGE {
        return Err(NotTaken::too_many(locale));
    }
    let mut resolved = Vec::with_capacity(files.len());
    for file in files {
        let found = resolve(app, caller, file).await;
        resolved.push(found.map_err(|code| {
            let is_gone = code == ErrorCode::NotFound;
            if is_gone { NotTaken::gone(locale) } else { NotTaken::plain(code, locale) }
        })?);
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
