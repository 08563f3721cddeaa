//! The indices of a repository: created, opened, listed and deleted, all through the repository log.

mod deletion;
mod snapshots;

pub use snapshots::Restored;

use std::sync::Arc;

use futures::StreamExt as _;
use object_store::ObjectStore;
use serde_json::json;

use frostline_base::{Clock, Error, ErrorKind, IndexName, Result};
use frostline_commits::objects;
use frostline_split::Mapping;
use frostline_store::Repository;

use crate::access::Access;
use crate::actions::{Commit, ENGINE, Protocol};
use crate::expression::Resolve;
use crate::index::Index;
use crate::log::Log;
use crate::pin::Pin;
use crate::records::{self, RecordChange, Records};
use crate::repository_log::{IndexRecord, Record, Registry, numbered_folder};
use crate::schema::{self, Settings};
use crate::shared::{AT_ONCE, Shared};
use crate::vacuum::{self, Vacuum, Vacuumed};

/// Creations of one index that a writer loses to others before it gives up.
const LOST_MAX: usize = 10;

/// The indices of one repository. Cheap to clone; clones share the known state of the repository log.
///
/// In the costs below, "the repository log" means one GET in a process that has read it before. The first read is
/// one GET of a hint, then at once one of a checkpoint and one for each entry after it. It never needs a LIST,
/// except once in a repository that is older than the log.
#[derive(Clone, Debug)]
pub struct Catalog {
    shared: Arc<Shared>,
}

impl Catalog {
    /// The indices of `repository`.
    pub fn new(repository: &Repository, clock: Arc<dyn Clock>) -> Catalog {
        Catalog::on(repository.object_store(), clock)
    }

    /// The indices below the root of `store`.
    pub fn on(store: Arc<dyn ObjectStore>, clock: Arc<dyn Clock>) -> Catalog {
        Catalog { shared: Arc::new(Shared::new(store, clock)) }
    }

    /// Creates an index. `Conflict` if there is one of that name, or an alias or a data stream. It exists, complete, as soon as the
    /// repository log names it; an interrupted call leaves at most one object that is never read.
    ///
    /// Cost: the repository log, one LIST, one PUT of the table's first commit and one of the log's entry. The log's
    /// checkpoint and hint may follow. Against others that create it at the same time, a PUT and a DELETE more.
    pub async fn create(&self, name: &IndexName, mapping: Mapping, settings: Settings) -> Result<Index> {
        self.create_with(name, mapping, settings, |_| Ok(Vec::new())).await
    }

    /// The same, with what `also` says of the records at that time: the index and they are there at once or not at all.
    pub async fn create_with(
        &self,
        name: &IndexName,
        mapping: Mapping,
        settings: Settings,
        also: impl Fn(&Records) -> Result<Vec<RecordChange>> + Send + Sync,
    ) -> Result<Index> {
        settings.check()?;
        let registry = self.shared.registry().await?;
        let taken = || Error::conflict(format!("there is already an index {name}"));
        if registry.is_taken(name) {
            return Err(taken());
        }
        let table = self.shared.new_id();
        let mut folder = self.free_folder(&registry, name, &table).await?;
        let mut log = self.shared.table(name, &folder);
        let mut commit = self.first_commit(&log, &table, &mapping, &settings)?;
        if !log.commits.put(0, &commit).await? {
            // Another writer has just taken the folder. Only the repository log decides whose index exists.
            folder = numbered_folder(name, &table);
            log = self.shared.table(name, &folder);
            commit = self.first_commit(&log, &table, &mapping, &settings)?;
            log.commits.put(0, &commit).await?.then_some(()).ok_or_else(taken)?;
        }
        let mut entry = self.shared.entry("create");
        entry.puts = vec![self.shared.live(name, Some(table), &folder)?];
        let plan = |registry: &Registry| {
            if registry.is_taken(name) || registry.has_had(&folder) {
                return Err(taken());
            }
            let mut entry = entry.clone();
            records::add(&mut entry, registry, also(&Records::of(Arc::new(registry.clone())))?)?;
            Ok(Some(entry))
        };
        match self.shared.repository_log.append(registry, plan).await {
            Ok(_) => Index::first(Arc::clone(&self.shared), log, &commit),
            Err(e) if matches!(e.kind(), ErrorKind::Conflict | ErrorKind::Invalid | ErrorKind::NotFound) => {
                // Nobody knows this folder yet, so its object can be removed.
                objects::delete(self.shared.store.as_ref(), vec![log.commits.entry_path(0)]).await?;
                Err(e)
            }
            Err(e) => Err(e),
        }
    }

    /// The folder of a new index: its name if no index ever had that folder and it is empty; else its name
    /// and part of its table's random identity.
    async fn free_folder(&self, registry: &Registry, name: &IndexName, table: &str) -> Result<String> {
        if registry.has_had(name.as_str()) {
            return Ok(numbered_folder(name, table));
        }
        let folder = self.shared.table(name, name.as_str()).folder;
        let first = self.shared.store.list(Some(&folder)).next().await.transpose();
        let is_empty = first.map_err(|e| objects::failed(e, &folder))?.is_none();
        Ok(if is_empty { name.to_string() } else { numbered_folder(name, table) })
    }

    /// The newest version of an index; see [`Index`]. `NotFound` if there is none; the error suggests a similar name.
    ///
    /// Cost: the repository log, and at the same time one GET of a hint, then at once one LIST and one GET for each 8
    /// MiB of
    /// checkpoint, then one GET for each commit after it: three round trips in a row. An index that was re-created
    /// under its name costs those three after the repository log, if this process did not know it.
    pub async fn open(&self, name: &IndexName) -> Result<Index> {
        let seen = self.shared.repository_log.seen();
        let guess = seen.as_ref().and_then(|seen| seen.indices.get(name)).cloned();
        let guess = guess.unwrap_or_else(|| Arc::new(IndexRecord::unseen(name)));
        let guessed = self.open_recorded(name, &guess);
        let (registry, guessed) = futures::join!(self.shared.repository_log.read(), guessed);
        let registry = match registry? {
            // Somebody may have begun the repository log in the meantime, and then created the index.
            None if guessed.is_ok() => self.shared.repository_log.read().await?,
            read => read,
        };
        // Created before there was a repository log.
        let Some(registry) = registry else { return guessed };
        let record = registry.indices.get(name).ok_or_else(|| registry.no_such_index(name.as_str()))?;
        let is_guessed = record.folder == guess.folder && record.mounted == guess.mounted;
        let opened = if is_guessed { guessed } else { self.open_recorded(name, record).await };
        self.checked(name, record, opened).await
    }

    async fn open_recorded(&self, name: &IndexName, record: &IndexRecord) -> Result<Index> {
        Index::open_recorded(Arc::clone(&self.shared), self.shared.table(name, &record.folder), record).await
    }

    async fn open_version(&self, name: &IndexName, record: &IndexRecord, version: u64) -> Result<Index> {
        match &record.mounted {
            None => {
                let log = self.shared.table(name, &record.folder);
                Index::open_at(Arc::clone(&self.shared), log, version).await
            }
            Some(mounted) if mounted.version == version => self.open_recorded(name, record).await,
            Some(_) => Err(Error::not_found("a mounted index has one version only").with("index", name)),
        }
    }

    /// Checks the result of opening the table of `record` against the repository log.
    async fn checked(&self, name: &IndexName, record: &IndexRecord, opened: Result<Index>) -> Result<Index> {
        let is_it = |index: &Index| record.table.as_ref().is_none_or(|table| table == index.table_id());
        match &opened {
            Ok(index) if is_it(index) => return opened,
            Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => return opened,
            _ => {}
        }
        // Deleted just now and perhaps re-created, or damaged without a trace in the log.
        let registry = self.shared.registry_as_read().await?;
        let now = registry.indices.get(name).ok_or_else(|| registry.no_such_index(name.as_str()))?;
        if now.folder != record.folder || now.table != record.table {
            return Err(Error::conflict(format!("the index {name} was just re-created: try again")));
        }
        // The table may have been read before it was created, and the repository log afterwards.
        let opened = match opened {
            Err(e) if e.kind() == ErrorKind::NotFound => self.open_recorded(name, now).await,
            other => other,
        };
        match opened {
            Ok(index) if is_it(&index) => Ok(index),
            Ok(index) => Err(Error::corrupt(format!("the folder of the index {name} holds another table"))
                .with("folder", &record.folder)
                .with("table", index.table_id())),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                Err(Error::corrupt(format!("the index {name} has lost its Delta log; delete it"))
                    .with("folder", &record.folder)
                    .with_source(e))
            }
            damaged => damaged,
        }
    }

    /// The newest version of an open index, or of the one that was re-created under its name. `NotFound` if
    /// there is none of that name any more. Cost: that of [`Index::refresh`], and the repository log at the same time.
    pub async fn refresh(&self, index: &Index) -> Result<Index> {
        let (registry, refreshed) = futures::join!(self.shared.repository_log.read(), index.refresh());
        let Some(registry) = registry? else {
            // Created before there was a repository log.
            return refreshed;
        };
        let table = registry.indices.get(index.name()).and_then(|record| record.table.as_deref());
        if table == Some(index.table_id()) { refreshed } else { self.open(index.name()).await }
    }

    /// Opens an index into which documents are to be written. `Invalid` where it is closed or blocked for writes.
    pub async fn open_to_write(&self, name: &IndexName) -> Result<Index> {
        let index = self.open(name).await?;
        let records = self.seen_records();
        records.map_or(Ok(()), |records| records.check_access(name, Access::Write))?;
        Ok(index)
    }

    /// `Invalid` where an index is closed or blocked for writes by now. Whoever commits documents of somebody to an index that
    /// it has open asks before each commit: another process may have closed it. Cost: the repository log only.
    pub async fn check_writable(&self, name: &IndexName) -> Result<()> {
        self.records().await?.check_access(name, Access::Write)
    }

    /// The index of that name; it is created with this mapping and these settings if it does not exist. However many
    /// writers call this at the same time, all get the same index. `Invalid` where it is closed or blocked for writes.
    pub async fn open_or_create(
        &self,
        name: &IndexName,
        mapping: Mapping,
        settings: Settings,
    ) -> Result<Index> {
        self.open_or_create_with(name, mapping, settings, |_| Ok(Vec::new())).await
    }

    /// The same; where it creates the index, with what `also` says, as [`Catalog::create_with`] does.
    pub async fn open_or_create_with(
        &self,
        name: &IndexName,
        mapping: Mapping,
        settings: Settings,
        also: impl Fn(&Records) -> Result<Vec<RecordChange>> + Send + Sync,
    ) -> Result<Index> {
        let mut lost = 0;
        loop {
            match self.open_to_write(name).await {
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                opened => return opened,
            }
            match self.create_with(name, mapping.clone(), settings.clone(), &also).await {
                // Another writer created it in the meantime, and a third one may already have deleted it.
                Err(e) if e.kind() == ErrorKind::Conflict && lost < LOST_MAX => lost += 1,
                created => return created,
            }
        }
    }

    /// The names of the indices, sorted, including damaged ones. Cost: the repository log only.
    pub async fn list(&self) -> Result<Vec<IndexName>> {
        Ok(self.shared.registry_as_read().await?.indices.keys().cloned().collect())
    }

    /// The indices that an expression names, itself or by aliases and data streams, sorted, each once: `web,app`,
    /// `logs-*`, `*`, `logs-*,-logs-old`, `<logs-{now/d}>`; see [`Resolve`] for missing ones. Cost: the repository log only.
    pub async fn resolve(&self, expression: &str, how: Resolve) -> Result<Vec<IndexName>> {
        self.records().await?.resolve(expression, self.shared.clock.now_us(), how, |_| true)
    }

    /// Whether the name is an alias or a data stream, as far as this process has seen. Without a request.
    pub fn stands_for_others(&self, name: &IndexName) -> bool {
        self.shared.repository_log.seen().is_some_and(|registry| registry.stands_for_others(name))
    }

    /// The newest names and records that this process has seen, which may be outdated. Without a request.
    pub fn seen_records(&self) -> Option<Records> {
        self.shared.repository_log.seen().map(Records::of)
    }

    /// The newest names and records. Cost: the repository log only.
    pub async fn records(&self) -> Result<Records> {
        Ok(Records::of(self.shared.registry_as_read().await?))
    }

    /// Changes records by what `plan` says of the newest ones, all at once or not at all, and returns them as they are
    /// then. Where another writer is first, `plan` is asked again. `Conflict` where a name would mean two things.
    ///
    /// Cost: the repository log, and a PUT of its entry if there is any change. Its checkpoint and hint may follow.
    pub async fn change_records(
        &self,
        operation: &str,
        plan: impl Fn(&Records) -> Result<Vec<RecordChange>> + Send + Sync,
    ) -> Result<Records> {
        let empty = self.shared.entry(operation);
        let plan = |registry: &Registry| {
            let mut entry = empty.clone();
            records::add(&mut entry, registry, plan(&Records::of(Arc::new(registry.clone())))?)?;
            Ok((!entry.puts.is_empty() || !entry.removes.is_empty()).then_some(entry))
        };
        let registry = self.shared.registry().await?;
        Ok(Records::of(self.shared.repository_log.append(registry, plan).await?))
    }

    /// Opens the newest versions of the indices that an expression names, several at a time. A damaged one is an error
    /// beside its name and does not affect the others. Cost: the repository log once, then that of opening each, or of
    /// [`Index::refresh`] for those that `known` has open.
    pub async fn open_all(
        &self,
        expression: &str,
        how: Resolve,
        known: impl Fn(&IndexName) -> Option<Arc<Index>>,
    ) -> Result<Vec<(IndexName, Result<Index>)>> {
        let registry = self.shared.registry_as_read().await?;
        let now_us = self.shared.clock.now_us();
        let names = Records::of(Arc::clone(&registry)).resolve(expression, now_us, how, |_| true)?;
        let records = names.into_iter().filter_map(|name| {
            let record = Arc::clone(registry.indices.get(&name)?);
            let is_it = |index: &Arc<Index>| record.table.as_deref() == Some(index.table_id());
            let known = known(&name).filter(is_it);
            Some((name, record, known))
        });
        let opens = records.map(|(name, record, known)| async move {
            let opened = match known {
                Some(index) => index.refresh().await,
                None => self.open_recorded(&name, &record).await,
            };
            let opened = self.checked(&name, &record, opened).await;
            (name, opened)
        });
        Ok(futures::stream::iter(opens).buffered(AT_ONCE).collect().await)
    }

    /// An index as it was at `version`. `NotFound` when its log does not reach back to it. Splits of that version may
    /// have been vacuumed, unless it is pinned: see [`Index::pin`].
    ///
    /// The repository log, one LIST, one GET for each 8 MiB of checkpoint and one for each commit after it.
    pub async fn open_at(&self, name: &IndexName, version: u64) -> Result<Index> {
        let registry = self.shared.registry_as_read().await?;
        let record = registry.indices.get(name).ok_or_else(|| registry.no_such_index(name.as_str()))?;
        self.open_version(name, record, version).await
    }

    /// The version that a pin keeps. `NotFound` when the pin has expired or was ended, or the index was deleted.
    /// What [`Catalog::open_at`] costs, and one LIST at the same time.
    pub async fn open_pin(&self, pin: &Pin) -> Result<Index> {
        let (log, record) = self.pinned(pin).await?;
        let opened = self.open_version(&pin.index, &record, pin.version);
        let (held, opened) = futures::join!(pin.check(&log, self.shared.clock.now_us()), opened);
        held?;
        let index = opened?;
        if index.table_id() == pin.table_id { Ok(index) } else { Err(gone(pin)) }
    }

    /// Ends a pin before its time. Whether it was there. The repository log, one LIST and one DELETE.
    pub async fn unpin(&self, pin: &Pin) -> Result<bool> {
        match self.pinned(pin).await {
            Ok((log, _)) => pin.end(&log).await,
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The log of the index that a pin is of, and its record.
    async fn pinned(&self, pin: &Pin) -> Result<(Log, Arc<IndexRecord>)> {
        let registry = self.shared.registry_as_read().await?;
        let record = registry.indices.get(&pin.index).ok_or_else(|| gone(pin))?;
        if record.table.as_ref().is_some_and(|table| *table != pin.table_id) {
            return Err(gone(pin));
        }
        Ok((self.shared.table(&pin.index, &record.folder), Arc::clone(record)))
    }

    /// Deletes an index and its objects, and nothing else in its folder. `NotFound` if there is none of
    /// that name.
    ///
    /// The first write is an entry in the repository log. From then on the index is gone: it cannot be opened, and a
    /// commit to it returns `NotFound`, however late it comes. Then the objects are deleted. Calling this again
    /// finishes an
    /// interrupted deletion; the name is free at once. Objects that snapshots name stay, and so do all objects of an
    /// index that is mounted from one.
    pub async fn delete(&self, name: &IndexName) -> Result<()> {
        let registry = self.shared.registry().await?;
        match registry.indices.get(name).map(|record| (record, &record.mounted)) {
            Some((record, Some(mounted))) => self.unmount(name, record, mounted).await,
            _ => deletion::delete(&self.shared, name).await,
        }
    }

    /// Deletes indices and changes what `also` says of the records that are then left, all at once or not at all: an alias may
    /// take the name of an index that goes. `NotFound` where one of the indices is missing. Their objects are deleted
    /// afterwards, as by [`Catalog::delete`].
    pub async fn delete_with(
        &self,
        names: &[IndexName],
        also: impl Fn(&Records) -> Result<Vec<RecordChange>> + Send + Sync,
    ) -> Result<()> {
        deletion::delete_all(&self.shared, names, also).await
    }

    /// Removes what slow writers left in the folders of deleted indices, if it is older than the grace period of
    /// orphans.
    /// Cost: the repository log, and one LIST for each such folder.
    pub async fn vacuum_deleted(&self, wanted: &Vacuum) -> Result<Vacuumed> {
        let registry = self.shared.registry_as_read().await?;
        let retired = registry.retired.iter();
        let tables = retired.map(|(folder, retired)| self.shared.table(&retired.index, folder));
        vacuum::deleted(&self.shared, tables, self.shared.clock.now_us() / 1_000, wanted).await
    }

    /// The key of the repository's term hashes, if a writer has drawn one: it never changes. Cost: none in a process that
    /// has seen it, else the repository log.
    pub async fn term_key(&self) -> Result<Option<[u8; 16]>> {
        self.shared.term_key().await
    }

    /// The same; where there is none it is `random` from now on, unless another writer is first. Cost: what
    /// [`Catalog::term_key`] costs, and once in a repository a PUT of the log's entry.
    pub async fn term_key_or(&self, random: [u8; 16]) -> Result<[u8; 16]> {
        if let Some(key) = self.shared.seen_term_key()? {
            return Ok(key);
        }
        let mut entry = self.shared.entry("term key");
        entry.puts = vec![Record::term_key(random)?];
        let plan = |registry: &Registry| Ok(registry.term_key()?.is_none().then(|| entry.clone()));
        let registry = self.shared.registry().await?;
        let registry = self.shared.repository_log.append(registry, plan).await?;
        registry.term_key()?.ok_or_else(|| Error::internal("the repository log has lost the key of terms"))
    }

    fn first_commit(&self, log: &Log, table: &str, mapping: &Mapping, settings: &Settings) -> Result<Commit> {
        let now_ms = self.shared.now_ms();
        Ok(Commit {
            version: 0,
            key: log.commits.entry_path(0).to_string(),
            info: json!({
                "timestamp": now_ms,
                "operation": "create",
                "operationParameters": {},
                "isBlindAppend": true,
                "engineInfo": ENGINE,
                "txnId": self.shared.new_id(),
                "frostlineTable": table,
            }),
            protocol: Some(Protocol::ours()),
            metadata: Some(schema::metadata(&log.index, table.to_owned(), now_ms, mapping, settings)?),
            ..Commit::default()
        })
    }
}

fn gone(pin: &Pin) -> Error {
    Error::not_found("the index of this point in time was deleted").with("index", &pin.index)
}

#[cfg(test)]
mod tests;
