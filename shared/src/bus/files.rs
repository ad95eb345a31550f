//! Uploads in and out of the Object Store.
use std::collections::HashMap;
use std::time::Duration;

use async_nats::jetstream::object_store::{
    GetErrorKind, Object, ObjectInfo, ObjectMetadata, PutErrorKind,
};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use crate::bus::{ANSWER_WITHIN, Bus, Error};

const NAME: &str = "name";
const MIME: &str = "mime";
const OWNER: &str = "owner";
const READ_WITHIN: Duration = Duration::from_secs(30);

/// What is known about a stored file. `name` is the user's; untrusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileMeta {
    pub name: String,
    pub mime: String,
    /// Who uploaded it.
    pub owner: String,
    /// Set by the store.
    pub size_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error(transparent)]
    Bus(#[from] Error),
    /// The source of the upload failed.
    #[error("reading the file: {0}")]
    Source(String),
    #[error("the file is larger than {max_bytes} bytes")]
    TooLarge { max_bytes: u64 },
}

/// Stores under `blob` and returns the size. Takes as long as `data` does: limit that.
pub async fn put(
    bus: &Bus,
    blob: &str,
    meta: &FileMeta,
    mut data: impl AsyncRead + Send + Unpin,
) -> Result<u64, FileError> {
    if !bus.is_connected() {
        return Err(Error::Disconnected.into());
    }
    let fields = [(NAME, &meta.name), (MIME, &meta.mime), (OWNER, &meta.owner)];
    let described = ObjectMetadata {
        name: blob.to_owned(),
        metadata: fields.map(|(key, value)| (key.to_owned(), value.clone())).into(),
        ..ObjectMetadata::default()
    };
    let stored = bus.uploads().await?.put(described, &mut data).await;
    stored.map(|info| info.size as u64).map_err(|error| match error.kind() {
        PutErrorKind::ReadChunks => FileError::Source(error.to_string()),
        PutErrorKind::InvalidName
        | PutErrorKind::PublishChunks
        | PutErrorKind::PublishMetadata
        | PutErrorKind::PurgeOldChunks
        | PutErrorKind::TimedOut
        | PutErrorKind::Other => Error::Unexpected(error.to_string()).into(),
    })
}

/// Its description and content; `None` when it is not, or no longer, there.
pub async fn get(
    bus: &Bus,
    blob: &str,
) -> Result<Option<(FileMeta, impl AsyncRead + Send + Unpin + use<>)>, FileError> {
    Ok(open(bus, blob).await?)
}

/// The whole file in memory.
pub async fn read(
    bus: &Bus,
    blob: &str,
    max_bytes: u64,
) -> Result<Option<(FileMeta, Bytes)>, FileError> {
    let Some((meta, content)) = open(bus, blob).await? else { return Ok(None) };
    if meta.size_bytes > max_bytes {
        return Err(FileError::TooLarge { max_bytes });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.size_bytes).unwrap_or_default());
    let mut limited = content.take(max_bytes);
    match timeout(READ_WITHIN, limited.read_to_end(&mut bytes)).await {
        Ok(Ok(_)) => Ok(Some((meta, Bytes::from(bytes)))),
        Ok(Err(error)) => Err(Error::Unexpected(error.to_string()).into()),
        Err(_) => Err(Error::Timeout.into()),
    }
}

async fn open(bus: &Bus, blob: &str) -> Result<Option<(FileMeta, Object)>, Error> {
    if !bus.is_connected() {
        return Err(Error::Disconnected);
    }
    let opened = timeout(ANSWER_WITHIN, bus.uploads().await?.get(blob)).await;
    match opened.map_err(|_| Error::Timeout)? {
        Ok(object) => Ok(Some((describe(object.info()), object))),
        Err(error) => match error.kind() {
            GetErrorKind::NotFound | GetErrorKind::InvalidName => Ok(None),
            GetErrorKind::TimedOut => Err(Error::Timeout),
            GetErrorKind::ConsumerCreate | GetErrorKind::BucketLink | GetErrorKind::Other => {
                Err(Error::Unexpected(error.to_string()))
            }
        },
    }
}

fn describe(info: &ObjectInfo) -> FileMeta {
    let field = |fields: &HashMap<String, String>, name| fields.get(name).cloned();
    FileMeta {
        name: field(&info.metadata, NAME).unwrap_or_default(),
        mime: field(&info.metadata, MIME).unwrap_or_default(),
        owner: field(&info.metadata, OWNER).unwrap_or_default(),
        size_bytes: info.size as u64,
    }
}
