//! The state of the log at one version, and as a checkpoint.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use frostline_base::{Error, Result};

use super::record::{
    FORMAT_FIRST, LogEntry, Running, Snapshot, SnapshotName, VolumeName, check_format, damaged,
};
use crate::tree::SnapshotId;

/// Which snapshots there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    /// The number of the last entry.
    version: Option<u64>,
    pub(crate) snapshots: BTreeMap<SnapshotId, Snapshot>,
    pub(crate) removed: BTreeMap<SnapshotId, Removed>,
    pub(crate) running: BTreeMap<SnapshotId, Running>,
}

/// A snapshot that is no longer there, but whose objects still are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Removed {
    pub(crate) snapshot: Snapshot,
    pub(crate) removed_ms: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Checkpoint {
    format: u32,
    version: u64,
    snapshots: Vec<Snapshot>,
    removed: Vec<Removed>,
    running: Vec<Running>,
}

impl State {
    pub(crate) fn next(&self) -> u64 {
        self.version.map_or(0, |version| version.saturating_add(1))
    }

    /// Applies the next entry.
    pub(crate) fn apply(&mut self, entry: LogEntry) {
        let LogEntry { number, time_ms, begin, snapshot, remove, forget, abandon, .. } = entry;
        if let Some(begin) = begin {
            self.running.insert(begin.id, Running { started_ms: time_ms, ..begin });
        }
        if let Some(snapshot) = snapshot {
            self.running.remove(&snapshot.id);
            self.snapshots.insert(snapshot.id, Snapshot { number, finished_ms: time_ms, ..snapshot });
        }
        for id in remove {
            if let Some(snapshot) = self.snapshots.remove(&id) {
                self.removed.insert(id, Removed { snapshot, removed_ms: time_ms });
            }
        }
        forget.iter().for_each(|id| drop(self.removed.remove(id)));
        abandon.iter().for_each(|id| drop(self.running.remove(id)));
        self.version = Some(number);
    }

    /// The snapshots of a volume, oldest first.
    pub(crate) fn of(&self, volume: &VolumeName) -> Vec<&Snapshot> {
        let mut of: Vec<&Snapshot> = self.snapshots.values().filter(|s| s.volume == *volume).collect();
        of.sort_by_key(|snapshot| snapshot.number);
        of
    }

    /// `NotFound` if a volume has no snapshot. The error names the volumes that have some.
    pub(crate) fn check(&self, volume: &VolumeName) -> Result<()> {
        let volumes: BTreeSet<&str> = self.snapshots.values().map(|s| s.volume.as_str()).collect();
        if volumes.contains(volume.as_str()) {
            return Ok(());
        }
        let known: Vec<&str> = volumes.into_iter().collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(Error::not_found(format!("there is no snapshot of volume {volume}; volumes: {known}")))
    }

    /// The snapshot that is meant. `NotFound` says what there is.
    pub(crate) fn find(&self, name: &SnapshotName) -> Result<&Snapshot> {
        self.check(&name.volume)?;
        let of_volume = self.of(&name.volume);
        let found = of_volume.iter().rev().find(|s| name.number.is_none_or(|number| s.number == number));
        found.copied().ok_or_else(|| {
            let names: Vec<String> = of_volume.iter().map(|s| s.name().to_string()).collect();
            Error::not_found(format!("there is no snapshot {name}; there is {}", names.join(", ")))
        })
    }

    pub(crate) fn write_checkpoint(&self) -> Result<(u64, Vec<u8>)> {
        let version = self.version.unwrap_or_default();
        let removed = self.removed.values().map(|removed| &removed.snapshot);
        let of = self.snapshots.values().chain(removed);
        let checkpoint = Checkpoint {
            format: of.map(Snapshot::format).max().unwrap_or(FORMAT_FIRST),
            version,
            snapshots: self.snapshots.values().cloned().collect(),
            removed: self.removed.values().cloned().collect(),
            running: self.running.values().cloned().collect(),
        };
        let bytes = serde_json::to_vec(&checkpoint)
            .map_err(|e| Error::internal("a checkpoint cannot be written as JSON").with_source(e))?;
        Ok((version, bytes))
    }

    pub(crate) fn read_checkpoint(version: u64, objects: &[(Path, Bytes)]) -> Result<State> {
        let [(path, bytes)] = objects else {
            return Err(Error::corrupt("a checkpoint of the log of volumes is not one object"));
        };
        check_format(path.as_ref(), bytes)?;
        let read: Checkpoint =
            serde_json::from_slice(bytes).map_err(|e| damaged(path.as_ref()).with_source(e))?;
        if read.version != version {
            return Err(damaged(path.as_ref()).with("version", read.version));
        }
        Ok(State {
            version: Some(version),
            snapshots: read.snapshots.into_iter().map(|s| (s.id, s)).collect(),
            removed: read.removed.into_iter().map(|r| (r.snapshot.id, r)).collect(),
            running: read.running.into_iter().map(|r| (r.id, r)).collect(),
        })
    }
}
