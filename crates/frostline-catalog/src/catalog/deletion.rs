//! Deleting an index: its name, then its table, then its objects.
//!
//! The entry in the repository log is the deletion. The rest only cleans up, and may be interrupted at any write:
//! deleting the name again finishes it, and an index that was re-created under that name has another folder.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;
use object_store::path::Path;
use serde_json::json;

use frostline_base::{Error, ErrorKind, IndexName, Result};
use frostline_commits::{Replica as _, objects};

use crate::actions::{Commit, ENGINE};
use crate::index::Index;
use crate::kept;
use crate::log::Log;
use crate::records::{self, RecordChange, Records};
use crate::repository_log::{IndexRecord, LogEntry, Record, Registry, RetiredRecord, index_key, mounted_key};
use crate::shared::Shared;
use crate::vacuum::{is_ours, kept_of};

pub(super) async fn delete(shared: &Arc<Shared>, name: &IndexName) -> Result<()> {
    let registry = shared.registry().await?;
    let registry = match registry.indices.get(name) {
        Some(record) => retire(shared, &registry, name, &Arc::clone(record)).await?,
        None => registry,
    };
    let folders = registry.unpurged(name);
    if folders.is_empty() {
        return Err(registry.no_such_index(name.as_str()));
    }
    purge_all(shared, name, folders).await
}

/// Deletes indices, and changes what `also` says of the records that are left, by one entry; then removes their objects.
pub(super) async fn delete_all(
    shared: &Arc<Shared>,
    names: &[IndexName],
    also: impl Fn(&Records) -> Result<Vec<RecordChange>> + Send + Sync,
) -> Result<()> {
    let registry = shared.registry().await?;
    let mut gone = Vec::new();
    for name in names {
        let record = registry.indices.get(name).ok_or_else(|| registry.no_such_index(name.as_str()))?;
        gone.push((name, Arc::clone(record)));
    }
    let mut removals = Vec::new();
    for (name, record) in &gone {
        removals.push((*name, removal(shared, name, record)?));
    }
    let entry = shared.entry("delete");
    let plan = |registry: &Registry| {
        let (mut entry, mut left) = (entry.clone(), registry.clone());
        for ((name, removal), (_, record)) in removals.iter().zip(&gone) {
            if left.indices.get(*name) != Some(record) {
                return Err(Error::conflict(format!("the index {name} was just deleted or made again")));
            }
            let mut step = removal.clone();
            records::add(&mut step, &left, records::without(&left, name))?;
            left.apply(&step)?;
            entry.then(step);
        }
        let mut last = LogEntry::default();
        let changes = also(&Records::of(Arc::new(left.clone())))?;
        records::add(&mut last, &left, changes)?;
        entry.then(last);
        Ok(Some(entry))
    };
    let registry = shared.repository_log.append(registry, plan).await?;
    for (name, record) in gone {
        match &record.mounted {
            Some(mounted) => kept::delete(&shared.table(name, &record.folder), [&mounted.kept()]).await?,
            None => purge_all(shared, name, registry.unpurged(name)).await?,
        }
    }
    Ok(())
}

/// What removes an index from the repository log, apart from the names that stand for it.
fn removal(shared: &Shared, name: &IndexName, record: &IndexRecord) -> Result<LogEntry> {
    let mut removal = LogEntry::default();
    match record.mounted {
        Some(_) => removal.removes = vec![mounted_key(name)],
        None => {
            removal.removes = vec![index_key(name)];
            removal.puts = vec![shared.retired(name, record.table.clone(), &record.folder)?];
        }
    }
    Ok(removal)
}

async fn purge_all(shared: &Arc<Shared>, name: &IndexName, folders: Vec<String>) -> Result<()> {
    for folder in folders {
        purge(shared, name, &folder).await?;
    }
    Ok(())
}

/// Removes the index from the repository log and from the names that stand for it, unless another writer did.
async fn retire(
    shared: &Shared,
    registry: &Arc<Registry>,
    name: &IndexName,
    record: &IndexRecord,
) -> Result<Arc<Registry>> {
    let mut entry = shared.entry("delete");
    entry.then(removal(shared, name, record)?);
    let plan = |registry: &Registry| {
        let is_there = registry.indices.get(name).is_some_and(|there| there.folder == record.folder);
        if !is_there {
            return Ok(None);
        }
        let mut entry = entry.clone();
        records::add(&mut entry, registry, records::without(registry, name))?;
        Ok(Some(entry))
    };
    shared.repository_log.append(Arc::clone(registry), plan).await
}

/// Removes the table in the folder of a deleted index, and records this in the repository log.
async fn purge(shared: &Arc<Shared>, name: &IndexName, folder: &str) -> Result<()> {
    let log = shared.table(name, folder);
    let mut foreign = BTreeSet::new();
    match Index::open(Arc::clone(shared), log.clone()).await {
        Ok(index) => {
            foreign = index.state.foreign.values().map(|file| log.object(&file.path)).collect();
            drop_table(shared, index).await?;
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        // A table that is too damaged to open can still be deleted.
        Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Invalid) => {
            tracing::warn!(index = %name, error = ?e, "deleting an index that cannot be opened");
        }
        Err(e) => return Err(e),
    }
    remove_all(shared, &log, &foreign).await?;
    let registry = shared.registry().await?;
    let Some(retired) = registry.retired.get(folder) else { return Ok(()) };
    let mut entry = shared.entry("purge");
    let purged = RetiredRecord { purged: true, ..RetiredRecord::clone(retired) };
    entry.puts = vec![Record::retired(folder, &purged)?];
    let plan = |registry: &Registry| {
        let waits = registry.retired.get(folder).is_some_and(|retired| !retired.purged);
        Ok(waits.then(|| entry.clone()))
    };
    shared.repository_log.append(Arc::clone(&registry), plan).await.map(drop)
}

/// The table's last commit, from which readers that have the index open learn that it is gone.
async fn drop_table(shared: &Shared, index: Index) -> Result<()> {
    let log = index.log.commits.clone();
    let id = shared.new_id();
    let last = |index: &Index| {
        let info = json!({
            "timestamp": shared.now_ms(),
            "operation": "drop",
            "operationParameters": {},
            "engineInfo": ENGINE,
            "txnId": id,
            "frostlineTable": index.table_id(),
            "frostlineDropped": true,
        });
        Ok(Some(Commit { version: index.next(), info, ..Commit::default() }))
    };
    match log.append(index, last).await {
        // Another writer wrote it.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        appended => appended.map(|_| ()),
    }
}

/// Removes the table's own objects: first those that make it look like a table, and its last commit at the very end,
/// so that
/// late readers and writers still find it. What snapshots name stays, and so do points in time of what is mounted from them;
/// what may be about to keep a version of one is left to vacuum. Anything else in the folder is not ours.
async fn remove_all(shared: &Shared, log: &Log, foreign: &BTreeSet<Path>) -> Result<()> {
    // No snapshot of a deleted index can be made any more.
    let held = kept::held(shared, log, &[]).await?;
    let now_us = shared.clock.now_us();
    let store = log.store().as_ref();
    let listing = log.commits.list_from(0).await?;
    let last = listing.newest().map(|version| log.commits.entry_path(version));
    let is_last = |path: &Path| Some(path) == last.as_ref();
    // Without its first entry the log is not a table, whatever remains of it.
    let beginning =
        listing.entries.keys().next().map(|v| log.commits.entry_path(*v)).into_iter().filter(|p| !is_last(p));
    let checkpoints =
        listing.checkpoints.values().flat_map(|parts| parts.objects()).map(|o| o.location.clone());
    let commits = listing.entries.values().map(|o| o.location.clone()).filter(|p| !is_last(p));
    objects::delete(store, vec![log.commits.hint_path()]).await?;
    objects::delete(store, checkpoints.collect()).await?;
    objects::delete(store, beginning.collect()).await?;
    objects::delete(store, commits.collect()).await?;
    let mut rest = Vec::new();
    let mut found = store.list(Some(&log.folder));
    while let Some(object) = found.next().await {
        let path = object.map_err(|e| objects::failed(e, &log.folder))?.location;
        let below = log.below(&path);
        let is_ours = below.starts_with("_delta_log/") || is_ours(below) || foreign.contains(&path);
        let is_held = held.paths.contains(below) || held.is_pin(below, now_us) || kept_of(below).is_some();
        rest.extend(Some(path).filter(|path| is_ours && !is_held && !is_last(path)));
    }
    objects::delete(store, rest).await?;
    objects::delete(store, last.into_iter().collect()).await
}
