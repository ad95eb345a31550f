//! What parent and child say to each other: one line of JSON each.
use serde::{Deserialize, Serialize};

use crate::extracted::{Piece, Usage};
use crate::failure::{Failure, Why};
use crate::limits::Limits;

/// First line to the child; the file's bytes follow up to the end of the stream.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub name: String,
    pub size: usize,
    pub limits: Limits,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Piece(Piece),
    /// The last one.
    End {
        end: Result<Option<Why>, Failure>,
        usage: Usage,
    },
}
