//! The repository log: which indices exist, each with its table's identity and its folder.
//!
//! An index exists if and only if this log names it. The log is in `_frostline/log` and uses the same
//! protocol as an index's own log ([`frostline_commits`]). An entry puts and removes *records*: a kind, a name
//! and a value. Seven kinds are known here: `index`, `mounted_index`, `retired`, `key`, `alias`, `data_stream` and `snapshot`. Records of any other kind, and
//! unknown members of a known record, are preserved unchanged, because a newer version wrote them.
//!
//! - A folder belongs to one table forever. A reused name gets another folder, so that a slow
//!   writer of a deleted index can never write into the new one.
//! - Reading the newest state costs one GET in a process that has read it before; it never lists.

mod entry;
mod registry;

use std::sync::Arc;

use frostline_base::{Error, Result};
use frostline_commits::{Appended, CommitLog, Layout, Replica, objects};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use parking_lot::Mutex;

pub(crate) use entry::{LogEntry, Record};
pub use registry::index_of_folder;
use registry::write_checkpoint;
pub(crate) use registry::{
    ALIAS, DATA_STREAM, IndexRecord, Registry, RetiredRecord, index_key, is_own_kind, mounted_key,
    no_such_index, numbered_folder, read_checkpoint, retired_key, snapshot_key,
};

/// The folder of the log. The folder of an index never begins with an underscore.
const FOLDER: &str = "_frostline/log";
/// Few entries follow a checkpoint, and all are small, so they are read one by one instead of listed.
const LAYOUT: Layout = Layout { checkpoint_ending: "json", steps_max: 64 };
/// As long as the state is not larger than this, a checkpoint follows each entry.
const CHECKPOINT_BYTES_CHEAP: usize = 4096;
/// Number of entries between checkpoints of a larger state.
const CHECKPOINT_ENTRIES: u64 = 16;

/// The log of one repository, and its newest state that this process has seen.
#[derive(Debug)]
pub(crate) struct RepositoryLog {
    log: CommitLog<LogEntry>,
    seen: Mutex<Option<Arc<Registry>>>,
}

/// The log at one version, as [`CommitLog::append`] wants it.
#[derive(Clone)]
struct Seen {
    log: CommitLog<LogEntry>,
    registry: Arc<Registry>,
}

impl Replica for Seen {
    fn next(&self) -> u64 {
        next(&self.registry)
    }

    async fn refresh(&self) -> Result<Seen> {
        let entries = self.log.newer(self.next()).await?;
        Ok(Seen { registry: after(&self.registry, &entries)?, log: self.log.clone() })
    }
}

fn next(registry: &Registry) -> u64 {
    registry.version.map_or(0, |version| version + 1)
}

fn after(registry: &Arc<Registry>, entries: &[LogEntry]) -> Result<Arc<Registry>> {
    if entries.is_empty() {
        return Ok(Arc::clone(registry));
    }
    let mut registry = Registry::clone(registry);
    entries.iter().try_for_each(|entry| registry.apply(entry))?;
    Ok(Arc::new(registry))
}

impl RepositoryLog {
    pub(crate) fn new(store: Arc<dyn ObjectStore>) -> Self {
        RepositoryLog { log: CommitLog::new(store, Path::from(FOLDER), LAYOUT), seen: Mutex::new(None) }
    }

    /// The newest state that this process has seen, which may be outdated.
    pub(crate) fn seen(&self) -> Option<Arc<Registry>> {
        self.seen.lock().clone()
    }

    fn saw(&self, registry: Arc<Registry>) -> Arc<Registry> {
        let mut seen = self.seen.lock();
        if seen.as_ref().is_none_or(|seen| seen.version < registry.version) {
            *seen = Some(Arc::clone(&registry));
        }
        registry
    }

    /// The newest state; `None` in a repository that has no log yet. One GET if nothing is new. The first read is one
    /// GET
    /// of the hint, then at once one of the checkpoint and one for each entry after it.
    pub(crate) async fn read(&self) -> Result<Option<Arc<Registry>>> {
        if let Some(registry) = self.seen() {
            let entries = self.log.newer(next(&registry)).await?;
            return Ok(Some(self.saw(after(&registry, &entries)?)));
        }
        let Some(replay) = self.log.replay().await? else { return Ok(None) };
        let base = match replay.checkpoint {
            Some((version, objects)) => Arc::new(read_checkpoint(version, &objects)?),
            None => Arc::default(),
        };
        Ok(Some(self.saw(after(&base, &replay.entries)?)))
    }

    /// Starts the log of a repository that has none with these records, unless another writer is first.
    pub(crate) async fn begin(&self, entry: LogEntry) -> Result<Arc<Registry>> {
        if !self.log.list_from(0).await?.is_empty() {
            // Another writer has started it in the meantime, or its beginning is gone.
            let lost = || Error::corrupt("the repository log has lost its beginning").with("log", FOLDER);
            return self.read().await?.ok_or_else(lost);
        }
        if self.log.put(0, &entry).await? {
            return self.wrote(&Arc::default(), &entry).await;
        }
        self.read().await?.ok_or_else(|| {
            Error::unavailable("the store answered that the repository log exists and then that it does not")
        })
    }

    /// Appends the entry that `plan` derives from the newest state, and returns the state after it.
    pub(crate) async fn append(
        &self,
        base: Arc<Registry>,
        plan: impl Fn(&Registry) -> Result<Option<LogEntry>> + Send + Sync,
    ) -> Result<Arc<Registry>> {
        let base = Seen { log: self.log.clone(), registry: base };
        let plan = |seen: &Seen| {
            let entry = plan(&seen.registry)?;
            Ok(entry.map(|entry| entry.numbered(seen.next(), self.log.entry_path(seen.next()).as_ref())))
        };
        match self.log.append(base, plan).await? {
            Appended { base, entry: None } => Ok(self.saw(base.registry)),
            Appended { base, entry: Some(entry) } => self.wrote(&base.registry, &entry).await,
        }
    }

    /// The state after our own entry, with a checkpoint written when one is due.
    async fn wrote(&self, base: &Arc<Registry>, entry: &LogEntry) -> Result<Arc<Registry>> {
        let registry = self.saw(after(base, std::slice::from_ref(entry))?);
        let bytes = write_checkpoint(&registry)?;
        if bytes.len() <= CHECKPOINT_BYTES_CHEAP || entry.version.is_multiple_of(CHECKPOINT_ENTRIES) {
            let written = self.write_checkpoint(entry.version, bytes).await;
            // The entry is committed; without the checkpoint the log is only slower to read.
            if let Err(error) = written {
                tracing::warn!(
                    version = entry.version,
                    ?error,
                    "no checkpoint of the repository log written"
                );
            }
        }
        Ok(registry)
    }

    async fn write_checkpoint(&self, version: u64, bytes: Vec<u8>) -> Result<()> {
        let size = bytes.len();
        let hint = serde_json::json!({ "version": version, "sizeInBytes": size }).to_string();
        for (path, bytes) in
            [(self.log.checkpoint_path(version), bytes), (self.log.hint_path(), hint.into_bytes())]
        {
            self.log.store().put(&path, bytes.into()).await.map_err(|e| objects::failed(e, &path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
