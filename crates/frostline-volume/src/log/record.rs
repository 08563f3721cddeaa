//! Entries of the log, and the record of a snapshot.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use frostline_base::{Error, Result};
use frostline_commits::Entry;

use crate::digest::Digest;
use crate::seal::KeyId;
use crate::tree::SnapshotId;

/// The version of the log's format. A higher one is refused.
pub(super) const FORMAT: u32 = 2;
/// That of what an earlier version can read, too.
pub(super) const FORMAT_FIRST: u32 = 1;

/// The name of a volume: 1 to 200 letters, digits, `.`, `_` and `-`, starting with a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VolumeName(String);

/// A snapshot by name: `VOLUME@NUMBER`, or `VOLUME` for its newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotName {
    /// The volume.
    pub volume: VolumeName,
    /// The number of the snapshot, or the newest.
    pub number: Option<u64>,
}

/// The record of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its identity, which its objects are named by.
    pub id: SnapshotId,
    /// The volume.
    pub volume: VolumeName,
    /// The number of its entry in the log.
    #[serde(default)]
    pub number: u64,
    /// The snapshot that it was written on top of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<SnapshotId>,
    /// When reading began, milliseconds since 1970 UTC.
    pub started_ms: i64,
    /// When it was committed.
    pub finished_ms: i64,
    /// The machine; empty if it is encrypted.
    pub host: String,
    /// The directory; empty if it is encrypted.
    pub directory: String,
    /// What is known of changes while it was read.
    pub consistency: Consistency,
    /// The length of the tree.
    pub tree_bytes: u64,
    /// The length of its head.
    pub head_bytes: u64,
    /// The digest of its head.
    pub head: Digest,
    /// The key that it is encrypted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
    /// Counts.
    pub totals: Totals,
}

/// What is known of changes while a directory was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Consistency {
    /// Nothing changed from the first look to the last.
    Unchanged,
    /// The file system was frozen.
    Frozen,
    /// A running PostgreSQL made a backup possible: its log makes one moment of what was read.
    Backup,
    /// Something changed: files may be of different moments.
    Changing,
}

/// What a snapshot holds, and what it added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Names of every kind.
    pub entries: u64,
    /// Files.
    pub files: u64,
    /// Bytes of files, holes included.
    pub bytes: u64,
    /// Bytes of their chunks.
    pub data_bytes: u64,
    /// Bytes that were read from the directory.
    pub read_bytes: u64,
    /// Bytes of objects that were written for it.
    pub stored_bytes: u64,
    /// Chunks that were stored whole.
    pub chunks_full: u64,
    /// Chunks that were stored as the pages that changed.
    pub chunks_delta: u64,
}

/// A snapshot that is being written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) id: SnapshotId,
    pub(crate) volume: VolumeName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<SnapshotId>,
    pub(crate) host: String,
    #[serde(default)]
    pub(crate) started_ms: i64,
}

/// One entry of the log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogEntry {
    pub(crate) format: u32,
    pub(crate) id: String,
    pub(crate) time_ms: i64,
    pub(crate) operation: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) begin: Option<Running>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) snapshot: Option<Snapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) remove: Vec<SnapshotId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) forget: Vec<SnapshotId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) abandon: Vec<SnapshotId>,
    #[serde(skip)]
    pub(crate) number: u64,
}

impl LogEntry {
    /// An entry with an identity that no other has.
    pub(crate) fn new(id: u128, time_ms: i64, operation: &str) -> LogEntry {
        LogEntry {
            format: FORMAT_FIRST,
            id: format!("{id:032x}"),
            time_ms,
            operation: operation.to_owned(),
            ..LogEntry::default()
        }
    }

    /// The entry that makes a snapshot exist.
    pub(crate) fn of(snapshot: Snapshot, id: u128, time_ms: i64) -> LogEntry {
        let format = snapshot.format();
        LogEntry { format, snapshot: Some(snapshot), ..LogEntry::new(id, time_ms, "snapshot") }
    }

    pub(crate) fn numbered(self, number: u64) -> LogEntry {
        LogEntry { number, ..self }
    }
}

impl Entry for LogEntry {
    fn decode(number: u64, key: &str, bytes: &[u8]) -> Result<LogEntry> {
        check_format(key, bytes)?;
        let entry: LogEntry = serde_json::from_slice(bytes).map_err(|e| damaged(key).with_source(e))?;
        Ok(entry.numbered(number))
    }

    fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|e| Error::internal("an entry cannot be written as JSON").with_source(e))
    }

    fn id(&self) -> Option<&str> {
        Some(&self.id)
    }
}

/// `Invalid` for what a newer version wrote.
pub(super) fn check_format(key: &str, bytes: &[u8]) -> Result<()> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let Format { format } = serde_json::from_slice(bytes).map_err(|e| damaged(key).with_source(e))?;
    match format <= FORMAT {
        true => Ok(()),
        false => Err(Error::invalid("the log of volumes was written by a newer version")
            .with("object", key)
            .with("format", format)
            .with("known", FORMAT)),
    }
}

pub(super) fn damaged(key: &str) -> Error {
    Error::corrupt("an object of the log of volumes cannot be read").with("object", key)
}

impl VolumeName {
    /// The name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for VolumeName {
    type Err = Error;

    fn from_str(name: &str) -> Result<VolumeName> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.len() <= 200;
        match is_name && name.chars().all(allowed) {
            true => Ok(VolumeName(name.to_owned())),
            false => Err(Error::invalid(format!(
                "{name:?} is not the name of a volume: use 1 to 200 letters, digits, '.', '_' and '-', starting with a letter or a digit"
            ))),
        }
    }
}

impl FromStr for SnapshotName {
    type Err = Error;

    fn from_str(name: &str) -> Result<SnapshotName> {
        let Some((volume, number)) = name.split_once('@') else {
            return Ok(SnapshotName { volume: name.parse()?, number: None });
        };
        let number = number.parse().map_err(|_| {
            Error::invalid(format!("{name:?} is not the name of a snapshot: write VOLUME or VOLUME@NUMBER"))
        })?;
        Ok(SnapshotName { volume: volume.parse()?, number: Some(number) })
    }
}

impl TryFrom<String> for VolumeName {
    type Error = Error;

    fn try_from(name: String) -> Result<VolumeName> {
        name.parse()
    }
}

impl From<VolumeName> for String {
    fn from(name: VolumeName) -> String {
        name.0
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "{}@{number}", self.volume),
            None => write!(f, "{}", self.volume),
        }
    }
}

impl Snapshot {
    /// The version of the format that its record needs.
    pub(super) fn format(&self) -> u32 {
        let is_new = self.key.is_some() || self.consistency == Consistency::Backup;
        if is_new { FORMAT } else { FORMAT_FIRST }
    }

    /// `VOLUME@NUMBER`.
    pub fn name(&self) -> SnapshotName {
        SnapshotName { volume: self.volume.clone(), number: Some(self.number) }
    }
}
