//! What every index of a catalog needs: the store, the clock, identities, and the repository log with what it is begun
//! from.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt as _, TryStreamExt as _};
use object_store::ObjectStore;
use object_store::path::Path;
use serde_json::Map;

use frostline_base::{Clock, Error, ErrorKind, IndexName, Result};
use frostline_commits::objects;

use crate::actions::Commit;
use crate::log::Log;
use crate::repository_log::{IndexRecord, LogEntry, Record, Registry, RepositoryLog, RetiredRecord};

/// Indices opened or examined concurrently.
pub(crate) const AT_ONCE: usize = 16;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) repository_log: RepositoryLog,
    seed: RandomState,
    ids: AtomicU64,
}

impl Shared {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, clock: Arc<dyn Clock>) -> Self {
        let repository_log = RepositoryLog::new(Arc::clone(&store));
        Shared { store, clock, repository_log, seed: RandomState::new(), ids: AtomicU64::new(0) }
    }

    /// A name that nothing else in any process has: the process's own random seed, hashed with a count.
    pub(crate) fn new_id(&self) -> String {
        let count = self.ids.fetch_add(1, Ordering::Relaxed);
        let now_us = self.clock.now_us();
        let half = |which: u8| self.seed.hash_one((which, count, now_us));
        let hex = format!("{:016x}{:016x}", half(0), half(1));
        let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
        format!("{}-{}-{}-{}-{}", part(0..8), part(8..12), part(12..16), part(16..20), part(20..32))
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_us() / 1_000
    }

    /// The table of that name in that folder.
    pub(crate) fn table(&self, name: &IndexName, folder: &str) -> Log {
        Log::new(Arc::clone(&self.store), name.clone(), folder)
    }

    /// An entry for the repository log that says nothing yet.
    pub(crate) fn entry(&self, operation: &str) -> LogEntry {
        LogEntry::new(self.new_id(), self.now_ms(), operation)
    }

    /// The record of an index that is there.
    pub(crate) fn live(&self, name: &IndexName, table: Option<String>, folder: &str) -> Result<Record> {
        Record::index(name, &IndexRecord::new(table, folder, self.now_ms()))
    }

    /// The record of an index that was deleted.
    pub(crate) fn retired(&self, name: &IndexName, table: Option<String>, folder: &str) -> Result<Record> {
        let (index, deleted_ms) = (name.clone(), self.now_ms());
        let record = RetiredRecord { index, table, deleted_ms, purged: false, others: Map::new() };
        Record::retired(folder, &record)
    }

    /// The newest state of the repository log. Where there is none, the log is begun with the indices that are there.
    pub(crate) async fn registry(&self) -> Result<Arc<Registry>> {
        match self.repository_log.read().await? {
            Some(registry) => Ok(registry),
            None => self.repository_log.begin(self.adopt().await?).await,
        }
    }

    /// The newest state of the repository log, or what it would begin with. Writes nothing.
    pub(crate) async fn registry_as_read(&self) -> Result<Arc<Registry>> {
        if let Some(registry) = self.repository_log.read().await? {
            return Ok(registry);
        }
        let mut registry = Registry::default();
        registry.apply(&self.adopt().await?)?;
        Ok(Arc::new(registry))
    }

    /// The key of the repository's term hashes, if there is one.
    pub(crate) async fn term_key(&self) -> Result<Option<[u8; 16]>> {
        match self.seen_term_key()? {
            None => self.registry_as_read().await?.term_key(),
            seen => Ok(seen),
        }
    }

    /// The same, without a request.
    pub(crate) fn seen_term_key(&self) -> Result<Option<[u8; 16]>> {
        self.repository_log.seen().map_or(Ok(None), |registry| registry.term_key())
    }

    /// The entry that names every table that is in a folder of its own. One LIST for the folders; for each, one
    /// LIST and one GET.
    async fn adopt(&self) -> Result<LogEntry> {
        let root = Path::default();
        let found = self.store.list_with_delimiter(None).await.map_err(|e| objects::failed(e, &root))?;
        let names =
            found.common_prefixes.iter().filter_map(|folder| folder.filename()?.parse::<IndexName>().ok());
        let looks = names.collect::<BTreeSet<_>>().into_iter().map(|name| self.look_at(name));
        let found: Vec<Option<Record>> = futures::stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
        let mut entry = self.entry("adopt");
        entry.puts = found.into_iter().flatten().collect();
        Ok(entry)
    }

    async fn look_at(&self, name: IndexName) -> Result<Option<Record>> {
        let log = self.table(&name, name.as_str());
        let listing = log.commits.list_from(0).await?;
        let newest = match listing.newest() {
            None => None,
            Some(version) => match log.commits.entry(version).await {
                // A commit that cannot be read is an index in need of repair, not an absent one.
                Err(e) if e.kind() == ErrorKind::Corrupt => None,
                read => read?,
            },
        };
        let table = newest.as_ref().and_then(Commit::table_id).map(str::to_owned);
        let begins = listing.entries.contains_key(&0) || listing.checkpoint().is_some();
        if begins && !newest.is_some_and(|newest| newest.drops_index()) {
            return self.live(&name, table, name.as_str()).map(Some);
        }
        // What is left of a deletion that was cut short: deleting again finishes it.
        (!listing.is_empty()).then(|| self.retired(&name, table, name.as_str())).transpose()
    }

    /// Whether the repository log names the table. The repository log's cost.
    pub(crate) async fn lives(&self, log: &Log) -> Result<bool> {
        let registry = self.registry().await?;
        Ok(registry.indices.get(&log.index).is_some_and(|index| index.is_table_in(&log.folder)))
    }

    /// What reading the log gave; `NotFound` where something is missing because the index was deleted meanwhile.
    pub(crate) async fn unless_deleted<T>(&self, log: &Log, read: Result<T>) -> Result<T> {
        if !read.as_ref().is_err_and(|e| e.kind() == ErrorKind::Corrupt) {
            return read;
        }
        let registry = self.registry_as_read().await?;
        match registry.indices.get(&log.index) {
            Some(index) if index.is_table_in(&log.folder) => read,
            _ => Err(Error::not_found(format!("the index {} was deleted", log.index))),
        }
    }

    /// After a commit: `NotFound` where the index was deleted before it. The table's folder is never used again, so
    /// the stray commit harms nobody; it is removed nevertheless.
    pub(crate) async fn confirm(&self, log: &Log, version: u64) -> Result<()> {
        if self.lives(log).await? {
            return Ok(());
        }
        let stray = log.commits.entry_path(version);
        if let Err(error) = objects::delete(self.store.as_ref(), vec![stray]).await {
            tracing::warn!(index = %log.index, ?error, "a stray commit to a deleted index could not be removed");
        }
        Err(Error::not_found(format!("the index {} was deleted; nothing was written to it", log.index)))
    }
}
