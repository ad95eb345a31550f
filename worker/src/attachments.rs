//! The files of a conversation: fetched and read once, by a child process ([`documents`]), and stored from then on.
pub mod extraction;

use std::collections::HashSet;
use std::time::Duration;

use agent::documents::Document;
use bytes::Bytes;
use contract::event::Event;
use contract::job::{FileRef, Job, Locale};
use contract::limits;
use documents::failure::Failure;
use shared::bus::files::{self, FileError};
use shared::runtime::clock;
use shared::store::attachments::{self, Attachment, NewAttachment};
use tracing::{info, warn};
use uuid::Uuid;

use self::extraction::Extraction;
use crate::app::App;
use crate::driver::Stop;

/// The first argument by which this program starts itself to read one file.
pub const SUBCOMMAND: &str = "extract-document";

/// So many of a conversation's files the model is told of: those of the message, and the newest before.
const FILES: u32 = 15;
/// Pictures of one request.
const PICTURES: usize = limits::FILES_PER_MESSAGE;
/// The bus may lose one answer.
const FETCHES: u32 = 2;
const FETCH_PAUSE: Duration = Duration::from_millis(300);

/// What a turn knows of its conversation's files; earlier ones first.
#[derive(Clone, Debug, Default)]
pub struct Files(Vec<Known>);

#[derive(Clone, Debug)]
struct Known {
    file: FileRef,
    extraction: Extraction,
    earlier: bool,
}

/// Reads what has not been read, and stores it; the first worker that stores a file's text stores it for all.
/// What failed for a reason that may pass is stored, too, until a later reading brings more: of this message's files
/// and of those of the message `before`, whose turn may also have been cancelled. May be dropped at any point.
pub async fn read(app: &App, job: &Job, epoch: i64, before: &[FileRef]) -> Result<Files, Stop> {
    let mut stored = list(app, job).await?;
    let mut fleeting = Vec::new();
    let own: HashSet<&str> = job.files.iter().map(|file| file.blob.as_str()).collect();
    let mut seen: HashSet<&str> = HashSet::new();
    let mut saved = false;
    for file in before.iter().chain(&job.files).filter(|file| seen.insert(&file.blob)) {
        if stored.iter().any(|attachment| attachment.file.blob == file.blob && is_final(attachment))
        {
            continue;
        }
        match extract(app, job, file).await? {
            (Extraction::Unavailable, _) => fleeting.push(file),
            (extraction, picture) => {
                save(app, job, epoch, file, &extraction, picture).await?;
                saved = true;
            }
        }
    }
    if saved {
        stored = list(app, job).await?;
    }
    let known = |attachment: Attachment| Known {
        extraction: Extraction::parse(attachment.extraction),
        earlier: !own.contains(attachment.file.blob.as_str()),
        file: attachment.file,
    };
    let mut files: Vec<Known> = stored.into_iter().map(known).collect();
    files.extend(fleeting.into_iter().map(|file| Known {
        file: file.clone(),
        extraction: Extraction::Unavailable,
        earlier: !own.contains(file.blob.as_str()),
    }));
    files.sort_by_key(|known| !known.earlier);
    Ok(Files(files))
}

impl Files {
    /// For [`agent::documents::quote`]; `takes_pictures`: whether the model does.
    pub fn documents(&self, locale: Locale, takes_pictures: bool) -> Vec<Document> {
        let shown = if takes_pictures { self.pictures() } else { Vec::new() };
        let document = |known: &Known| {
            let place = shown.iter().position(|blob| *blob == known.file.blob);
            known.extraction.document(&known.file.name, known.earlier, place, locale)
        };
        self.0.iter().map(document).collect()
    }

    /// The pictures a model may see, by their blobs: this message's, then the newest before.
    pub fn pictures(&self) -> Vec<String> {
        let of = |earlier: bool| {
            self.0
                .iter()
                .filter(move |known| known.earlier == earlier && known.extraction.is_picture())
        };
        let blobs = of(false).chain(of(true).rev()).map(|known| known.file.blob.clone());
        blobs.take(PICTURES).collect()
    }

    /// What the user is told of this message's files. `cut`: places of documents that did not fit as a whole.
    pub fn warnings(&self, locale: Locale, takes_pictures: bool, cut: &[usize]) -> Vec<Event> {
        let own = self.0.iter().enumerate().filter(|(_, known)| !known.earlier);
        own.flat_map(|(place, known)| {
            known.extraction.warnings(
                &known.file.name,
                takes_pictures,
                cut.contains(&place),
                locale,
            )
        })
        .collect()
    }
}

/// A file whose reader died is read again when a message names it again.
fn is_final(attachment: &Attachment) -> bool {
    !Extraction::parse(attachment.extraction.clone()).may_change()
}

async fn list(app: &App, job: &Job) -> Result<Vec<Attachment>, Stop> {
    attachments::list(&app.pool, job.conversation_id, FILES).await.map_err(|error| {
        Stop::Unavailable(anyhow::Error::new(error).context("listing attachments"))
    })
}

async fn save(
    app: &App,
    job: &Job,
    epoch: i64,
    file: &FileRef,
    extraction: &Extraction,
    picture: Option<String>,
) -> Result<(), Stop> {
    let extraction = extraction.render().map_err(Stop::Broken)?;
    let new = NewAttachment {
        id: Uuid::now_v7(),
        conversation: job.conversation_id,
        epoch,
        user: &job.user_id,
        file,
        extraction: &extraction,
        image: picture.as_deref(),
        now: clock::now(),
    };
    Ok(attachments::save(&app.pool, &new).await?)
}

/// One file's text, and its picture as a `data:` URL.
async fn extract(
    app: &App,
    job: &Job,
    file: &FileRef,
) -> Result<(Extraction, Option<String>), Stop> {
    let bytes = match fetch(app, job, file).await? {
        Fetched::Content(bytes) => bytes,
        Fetched::Is(extraction) => return Ok((extraction, None)),
    };
    match app.reader.read(&file.name, &bytes).await {
        Ok(mut extracted) => {
            let (cpu_ms, peak_bytes) = (extracted.usage.cpu_ms, extracted.usage.peak_bytes);
            info!(
                size_bytes = bytes.len(),
                cpu_ms,
                peak_bytes,
                "Read a {}",
                extracted.kind.label()
            );
            let image = extracted.image.take();
            let picture = image.map(|image| format!("data:{};base64,{}", image.mime, image.base64));
            Ok((Extraction::of(extracted, picture.is_some()), picture))
        }
        Err(failure) => {
            info!(size_bytes = bytes.len(), "A file could not be read: {}", failure.code());
            Ok((Extraction::Failed { failure }, None))
        }
    }
}

enum Fetched {
    Content(Bytes),
    /// There is nothing to read.
    Is(Extraction),
}

async fn fetch(app: &App, job: &Job, file: &FileRef) -> Result<Fetched, Stop> {
    for attempt in 1..=FETCHES {
        match files::read(&app.bus, &file.blob, limits::FILE_BYTES).await {
            Ok(Some((meta, _))) if !meta.owner.is_empty() && meta.owner != job.user_id.as_str() => {
                warn!("A job names another user's file; it is taken for gone");
                return Ok(Fetched::Is(Extraction::Gone));
            }
            Ok(Some((_, bytes))) => return Ok(Fetched::Content(bytes)),
            Ok(None) => return Ok(Fetched::Is(Extraction::Gone)),
            Err(FileError::TooLarge { .. }) => {
                return Ok(Fetched::Is(Extraction::Failed { failure: Failure::TooLarge }));
            }
            Err(error @ (FileError::Bus(_) | FileError::Source(_))) => {
                warn!(%error, attempt, "A file could not be fetched");
                if !app.bus.is_connected() {
                    return Err(Stop::Unavailable(
                        anyhow::Error::new(error).context("fetching a file"),
                    ));
                }
                tokio::time::sleep(FETCH_PAUSE).await;
            }
        }
    }
    Ok(Fetched::Is(Extraction::Unavailable))
}
