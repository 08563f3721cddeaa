//! Deleting an index: its name, then its table, then its objects.
//!
//! The entry in the repository log is the deletion. What follows only tidies up, and may be cut short at any write:
//! deleting the name again finishes it, and an index that was made anew under that name has another folder.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;
use object_store::path::Path;
use serde_json::json;

use frostline_base::{Error, ErrorKind, IndexName, Result};
use frostline_commits::{Replica as _, objects};

use super::Shared;
use crate::actions::Commit;
use crate::index::Index;
use crate::log::Log;
use crate::repository_log::{IndexRecord, Registry, index_key};
use crate::vacuum::is_ours;

impl Shared {
    pub(super) async fn delete(self: &Arc<Self>, name: &IndexName) -> Result<()> {
        let registry = self.registry().await?;
        let registry = match registry.indices.get(name) {
            Some(record) => self.retire(&registry, name, &Arc::clone(record)).await?,
            None => registry,
        };
        let folders = registry.unpurged(name);
        if folders.is_empty() {
            return Err(registry.no_such_index(name.as_str()));
        }
        for folder in folders {
            self.purge(name, &folder).await?;
        }
        Ok(())
    }

    /// Takes the index out of the repository log, unless somebody else did.
    async fn retire(
        &self,
        registry: &Arc<Registry>,
        name: &IndexName,
        record: &IndexRecord,
    ) -> Result<Arc<Registry>> {
        let mut entry = self.entry("delete");
        entry.removes = vec![index_key(name)];
        entry.puts = vec![self.retired(name, record.table.clone(), &record.folder, false)?];
        let plan = |registry: &Registry| {
            let is_there = registry.indices.get(name).is_some_and(|there| there.folder == record.folder);
            Ok(is_there.then(|| entry.clone()))
        };
        self.repository_log.append(Arc::clone(registry), plan).await
    }

    /// Removes the table in the folder of a deleted index, and says so in the repository log.
    async fn purge(self: &Arc<Self>, name: &IndexName, folder: &str) -> Result<()> {
        let log = self.table(name, folder);
        let mut foreign = BTreeSet::new();
        match Index::open(Arc::clone(self), log.clone()).await {
            Ok(index) => {
                foreign = index.state.foreign.values().map(|file| log.object(&file.path)).collect();
                self.drop_table(index).await?;
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            // A table too broken to open can still be deleted.
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Invalid) => {
                tracing::warn!(index = %name, error = ?e, "deleting an index that cannot be opened");
            }
            Err(e) => return Err(e),
        }
        self.remove_all(&log, &foreign).await?;
        let registry = self.registry().await?;
        let Some(retired) = registry.retired.get(folder) else { return Ok(()) };
        let mut entry = self.entry("purge");
        entry.puts = vec![self.retired(name, retired.table.clone(), folder, true)?];
        let plan = |registry: &Registry| {
            let waits = registry.retired.get(folder).is_some_and(|retired| !retired.purged);
            Ok(waits.then(|| entry.clone()))
        };
        self.repository_log.append(Arc::clone(&registry), plan).await.map(drop)
    }

    /// The table's last commit: whoever has the index open learns from it that it is gone.
    async fn drop_table(&self, index: Index) -> Result<()> {
        let log = index.log.commits.clone();
        let id = self.new_id();
        let last = |index: &Index| {
            let info = json!({
                "timestamp": self.now_ms(),
                "operation": "drop",
                "operationParameters": {},
                "engineInfo": crate::ENGINE,
                "txnId": id,
                "frostlineTable": index.table_id(),
                "frostlineDropped": true,
            });
            Ok(Some(Commit { version: index.next(), info, ..Commit::default() }))
        };
        match log.append(index, last).await {
            // Somebody else wrote it.
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            appended => appended.map(|_| ()),
        }
    }

    /// Removes the table's own objects: what makes it look like one first, its last commit at the very end, so that
    /// whoever missed all of this still runs into it. What else lies in the folder is not ours.
    async fn remove_all(&self, log: &Log, foreign: &BTreeSet<Path>) -> Result<()> {
        let store = self.store.as_ref();
        let listing = log.commits.list_from(0).await?;
        let last = listing.newest().map(|version| log.commits.entry_path(version));
        let is_last = |path: &Path| Some(path) == last.as_ref();
        // Without its beginning the log is no table, in whatever order the rest of it goes.
        let beginning = listing
            .entries
            .keys()
            .next()
            .map(|v| log.commits.entry_path(*v))
            .into_iter()
            .filter(|p| !is_last(p));
        let checkpoints =
            listing.checkpoints.values().flat_map(|parts| parts.objects()).map(|o| o.location.clone());
        let commits = listing.entries.values().map(|o| o.location.clone()).filter(|p| !is_last(p));
        objects::delete(store, vec![log.commits.hint_path()]).await?;
        objects::delete(store, checkpoints.collect()).await?;
        objects::delete(store, beginning.collect()).await?;
        objects::delete(store, commits.collect()).await?;
        let mut rest = Vec::new();
        let mut found = self.store.list(Some(&log.folder));
        while let Some(object) = found.next().await {
            let path = object.map_err(|e| objects::failed(e, &log.folder))?.location;
            let below = log.below(&path);
            let is_ours = below.starts_with("_delta_log/") || is_ours(below) || foreign.contains(&path);
            rest.extend(Some(path).filter(|path| is_ours && !is_last(path)));
        }
        objects::delete(store, rest).await?;
        objects::delete(store, last.into_iter().collect()).await
    }

    /// Whether the repository log names the table. The repository log's cost.
    pub(crate) async fn lives(&self, log: &Log) -> Result<bool> {
        let registry = self.registry().await?;
        Ok(registry.indices.get(&log.index).is_some_and(|index| index.folder == log.folder.as_ref()))
    }

    /// What reading the log gave; `NotFound` where something is missing because the index was deleted meanwhile.
    pub(crate) async fn unless_deleted<T>(&self, log: &Log, read: Result<T>) -> Result<T> {
        if !read.as_ref().is_err_and(|e| e.kind() == ErrorKind::Corrupt) {
            return read;
        }
        let registry = self.registry_as_read().await?;
        match registry.indices.get(&log.index) {
            Some(index) if index.folder == log.folder.as_ref() => read,
            _ => Err(Error::not_found(format!("the index {} was deleted", log.index))),
        }
    }

    /// After a commit: `NotFound` where the index was deleted before it. The table's folder is never used again, so
    /// the stray commit harms nobody; it is removed all the same.
    pub(crate) async fn confirm(&self, log: &Log, version: u64) -> Result<()> {
        if self.lives(log).await? {
            return Ok(());
        }
        let stray = log.commits.entry_path(version);
        if let Err(error) = objects::delete(self.store.as_ref(), vec![stray]).await {
            tracing::warn!(index = %log.index, ?error, "a commit to a deleted index stays behind");
        }
        Err(Error::not_found(format!("the index {} was deleted; nothing was written to it", log.index)))
    }
}
