//! Snapshots of indices: a record of the repository log that names a version of each table.
//!
//! Nothing is copied, because splits never change: for each index there is one object beside its pins that names the
//! files of that version, and no vacuum or deletion removes these files while a record names the object.

use std::collections::BTreeMap;

use object_store::path::Path;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use frostline_base::IndexName;

use crate::names::{Alias, DataStream};

/// The most snapshots of a repository.
pub const SNAPSHOTS_MAX: usize = 500;
/// The most indices of all snapshots together, each counted in each snapshot: all are in the repository log.
pub const SNAPSHOT_INDICES_MAX: usize = 20_000;

/// Indices, each as it was at one version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its identity: another snapshot of the same name has another.
    pub id: String,
    /// When it was begun, in milliseconds since 1970 UTC.
    pub started_ms: i64,
    /// When it was complete.
    pub ended_ms: i64,
    /// The indices.
    pub indices: BTreeMap<IndexName, SnapshotIndex>,
    /// The data streams that it is of, each with those of its indices that are in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data_streams: BTreeMap<IndexName, DataStream>,
    /// What whoever made it says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Members that a newer version wrote.
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

/// An index in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotIndex {
    /// The folder of its table.
    pub folder: String,
    /// The table's identity.
    pub table: String,
    /// The version.
    pub version: u64,
    /// The identity of the object that names the version's files.
    pub(crate) kept: String,
    /// Splits.
    pub splits: u64,
    /// Documents in them.
    pub documents: u64,
    /// Bytes of its splits and further files.
    pub bytes: u64,
    /// The settings that the repository log has of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Value>,
    /// The aliases that it had, as far as they were of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<IndexName, Alias>,
    /// Members that a newer version wrote.
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

/// What an index that is mounted from a snapshot has in place of a log of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounted {
    /// The version.
    pub version: u64,
    /// The identity of the object that names the version's files.
    pub(crate) kept: String,
    /// The snapshot that it was mounted from, which may be gone.
    pub snapshot: String,
    /// The index in that snapshot.
    pub of: IndexName,
}

/// A version whose files stay as long as a record names this.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kept {
    pub(crate) version: u64,
    pub(crate) id: String,
}

impl Kept {
    /// The object that names the version's files, in the folder of its table.
    pub(crate) fn path(&self, folder: &Path) -> Path {
        Path::from(format!("{folder}/_pins/{:020}-{}.parquet", self.version, self.id))
    }

    /// What the name of such an object says.
    pub(crate) fn of_name(name: &str) -> Option<Kept> {
        let (version, id) = name.strip_suffix(".parquet")?.split_once('-')?;
        let is_version = version.len() == 20 && version.bytes().all(|b| b.is_ascii_digit());
        let is_id = id.len() == 36 && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
        let id = Some(id.to_owned()).filter(|_| is_version && is_id)?;
        Some(Kept { version: version.parse().ok()?, id })
    }
}

impl SnapshotIndex {
    pub(crate) fn kept(&self) -> Kept {
        Kept { version: self.version, id: self.kept.clone() }
    }
}

impl Mounted {
    pub(crate) fn kept(&self) -> Kept {
        Kept { version: self.version, id: self.kept.clone() }
    }
}
