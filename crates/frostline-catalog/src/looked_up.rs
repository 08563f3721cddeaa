//! Documents that were looked up in a version of an index: what query finds, and ingest replaces.

use bytes::Bytes;
use frostline_base::{Error, SplitId};
use frostline_split::ShownSource;

/// What tells the documents of one `_id` from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Numbers {
    /// How many there were, this one included, since there was none.
    pub version: i64,
    /// It grows with each.
    pub seq_no: i64,
}

impl Numbers {
    /// Those of a document to which no client gave an `_id`.
    pub const FIRST: Numbers = Numbers { version: 1, seq_no: 0 };
}

/// A document, and where it is.
#[derive(Clone, Debug)]
pub struct Located {
    /// Its `_id`.
    pub id: String,
    /// The split that has it.
    pub split: SplitId,
    /// Its row there.
    pub row: u32,
    /// [`Numbers::FIRST`] where no client gave it an `_id`.
    pub numbers: Numbers,
    /// Byte for byte, where it was wanted.
    pub text: Option<Bytes>,
}

/// What was found of some `_id`s.
#[derive(Clone, Debug, Default)]
pub struct LookedUp {
    /// The documents, several of one `_id` where an index has several.
    pub documents: Vec<Located>,
    /// The `_id`s of which it cannot be told: none of the documents has one of them.
    pub unknown: Vec<UnknownId>,
    /// Which part of its documents their index shows, for who is shown them.
    pub source: ShownSource,
}

impl LookedUp {
    /// Adds what was found of other `_id`s.
    pub fn add(&mut self, other: LookedUp) {
        self.documents.extend(other.documents);
        self.unknown.extend(other.unknown);
    }
}

/// An `_id` of which it cannot be told whether there is a document.
#[derive(Clone, Debug)]
pub struct UnknownId {
    /// The `_id`.
    pub id: String,
    /// The split that may have it and cannot be read; none where the documents take too much memory.
    pub split: Option<SplitId>,
    /// Why.
    pub error: Error,
}
