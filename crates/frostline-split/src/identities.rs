//! Identities that clients give documents: what [`Split`] says of them, and how a writer holds them.
//!
//! A split with any has the columns `_id`, `_version` and `_seq_no`, which are null for its other documents, and its exact
//! dictionary has the identities as a field of the number that no reading has.

use frostline_base::{Error, Result};

use crate::dictionary::exact_key;
use crate::mapping::ID_COLUMN;
use crate::reader::Split;
use crate::table::KeyRange;

/// The longest identity.
pub const ID_BYTES_MAX: usize = 512;

/// The number of the field of identities in the exact dictionary.
pub(crate) const ID_FIELD_NUMBER: u16 = u16::MAX;

/// What a client calls a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its `_id`, of 1 to [`ID_BYTES_MAX`] bytes.
    pub id: String,
    /// How often a document of this `_id` was written, this one included.
    pub version: i64,
    /// Of two documents with one `_id`, the one with the greater number was written last.
    pub seq_no: i64,
}

impl Identity {
    /// `Invalid` where the `_id` is empty or too long.
    pub fn check(&self) -> Result<()> {
        match self.id.len() {
            0 => Err(Error::invalid("an _id has at least one character")),
            1..=ID_BYTES_MAX => Ok(()),
            bytes => Err(Error::invalid(format!("an _id has at most {ID_BYTES_MAX} bytes, not {bytes}"))),
        }
    }
}

impl Split {
    /// Whether clients gave some documents their identities.
    pub fn has_identities(&self) -> bool {
        self.column_range(ID_COLUMN).is_some()
    }

    /// The key of the exact dictionary under which the document is that a client calls `id`.
    pub fn id_key(&self, id: &str) -> KeyRange {
        KeyRange::exact(exact_key(id, ID_FIELD_NUMBER))
    }
}

/// The identities of documents as they come. The last ones may have none.
#[derive(Debug, Default)]
pub(crate) struct KnownIdentities {
    texts: String,
    of: Vec<Option<HeldIdentity>>,
}

/// The identity of one document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldIdentity {
    start: usize,
    bytes: u16,
    pub(crate) version: i64,
    pub(crate) seq_no: i64,
}

impl KnownIdentities {
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Of the document at this place, the last so far; checked.
    pub(crate) fn set(&mut self, place: usize, identity: &Identity) {
        let Identity { id, version, seq_no } = identity;
        let (start, bytes) = (self.texts.len(), id.len() as u16);
        self.texts.push_str(id);
        self.of.resize(place, None);
        self.of.push(Some(HeldIdentity { start, bytes, version: *version, seq_no: *seq_no }));
    }

    /// Of the document at this place.
    pub(crate) fn get(&self, place: u32) -> Option<&HeldIdentity> {
        self.of.get(place as usize)?.as_ref()
    }

    /// The `_id` of one of these.
    pub(crate) fn id(&self, held: &HeldIdentity) -> &str {
        &self.texts[held.start..held.start + usize::from(held.bytes)]
    }

    /// All of them.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.of.iter().flatten().map(|held| self.id(held))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.texts.capacity() + self.of.capacity() * size_of::<Option<HeldIdentity>>()
    }
}
