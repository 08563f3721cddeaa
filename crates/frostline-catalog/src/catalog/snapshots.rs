//! Snapshots: made, deleted, restored into new indices, and mounted.
//!
//! What keeps a version is written before the record that names it and deleted after it, so that a crash leaves nothing
//! but what a vacuum removes. The record is put only if what it is of is still there at that entry of the repository log.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use object_store::{CopyOptions, ObjectStoreExt as _};
use serde_json::{Map, Value, json};

use frostline_base::{Error, ErrorKind, IndexName, Result};
use frostline_commits::objects;

use super::{Catalog, LOST_MAX};
use crate::access::CLOSED;
use crate::actions::{Commit, ENGINE, MetaData, Txn};
use crate::index::Index;
use crate::kept;
use crate::log::Log;
use crate::names::Alias;
use crate::records::{self, INDEX_SETTINGS, RecordChange};
use crate::repository_log::{
    IndexRecord, Record, Registry, RetiredRecord, mounted_key, numbered_folder, retired_key, snapshot_key,
};
use crate::shared::AT_ONCE;
use crate::snapshot::{Kept, Mounted, SNAPSHOT_INDICES_MAX, SNAPSHOTS_MAX, Snapshot, SnapshotIndex};
use crate::state::State;

/// Half of the grace that vacuum has by default for what no record names yet.
const WORK_MS_MAX: i64 = 12 * 3_600_000;
/// Actions in a commit of a restored table.
const COMMIT_ACTIONS: usize = 10_000;

/// An index that a snapshot is to have, as it was when it was kept.
struct Taken {
    name: IndexName,
    log: Log,
    kept: Kept,
    about: SnapshotIndex,
}

/// How an index is brought back.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The index in the snapshot.
    pub index: IndexName,
    /// What it is called from now on.
    pub name: IndexName,
    /// The aliases that it gets.
    pub aliases: BTreeMap<IndexName, Alias>,
    /// Its settings in the repository log.
    pub settings: Option<Value>,
}

impl Restored {
    /// The index under a name, without aliases and settings.
    pub fn named(index: IndexName, name: IndexName) -> Restored {
        Restored { index, name, aliases: BTreeMap::new(), settings: None }
    }
}

impl Catalog {
    /// Makes a snapshot of the newest versions of some indices. `Conflict` where there is one of that name, `NotFound`
    /// where an index is gone by then. It is there with all of its indices or not at all.
    ///
    /// Cost: the repository log and a PUT of its entry; for each index, that of opening it and of a checkpoint.
    pub async fn make_snapshot(
        &self,
        name: &str,
        indices: &[IndexName],
        metadata: Option<Value>,
    ) -> Result<Arc<Snapshot>> {
        let started_ms = self.shared.now_ms();
        let registry = self.shared.registry().await?;
        check_room(&registry, name, indices.len())?;
        let mut takes = Vec::new();
        for index in indices {
            takes.push(self.take(index));
        }
        let taken: Vec<Result<Taken>> = futures::stream::iter(takes).buffered(AT_ONCE).collect().await;
        let (taken, failed): (Vec<_>, Vec<_>) = taken.into_iter().partition(Result::is_ok);
        let taken: Vec<Taken> = taken.into_iter().flatten().collect();
        if let Some(Err(e)) = failed.into_iter().next() {
            self.give_up(&taken).await;
            return Err(e);
        }
        let id = self.shared.new_id();
        let snapshot = |registry: &Registry| {
            let each = taken.iter().map(|taken| (taken.name.clone(), with_names(registry, taken)));
            Snapshot {
                id: id.clone(),
                started_ms,
                ended_ms: self.shared.now_ms(),
                indices: each.collect(),
                metadata: metadata.clone(),
                others: Map::new(),
            }
        };
        let empty = self.shared.entry("snapshot");
        let plan = |registry: &Registry| {
            check_room(registry, name, taken.len())?;
            self.check_in_time(started_ms)?;
            for taken in &taken {
                let now = registry.indices.get(&taken.name);
                let is_there = now
                    .is_some_and(|now| now.folder == taken.about.folder && is_table(now, &taken.about.table));
                is_there.then_some(()).ok_or_else(|| {
                    Error::not_found(format!("the index {} was deleted meanwhile", taken.name))
                })?;
            }
            let mut entry = empty.clone();
            entry.puts = vec![Record::snapshot(name, &snapshot(registry))?];
            Ok(Some(entry))
        };
        match self.shared.repository_log.append(registry, plan).await {
            Ok(registry) => {
                let made = registry.snapshots.get(name).cloned().ok_or_else(|| no_such_snapshot(name))?;
                self.check_kept(name, &made).await?;
                Ok(made)
            }
            Err(e) => {
                if is_certain(&e) {
                    self.give_up(&taken).await;
                }
                Err(e)
            }
        }
    }

    /// Checks that what names the files of a new snapshot is still there, and ends the snapshot where it is not: a vacuum
    /// that waits for nothing may have read the records before this one.
    async fn check_kept(&self, name: &str, made: &Snapshot) -> Result<()> {
        for (index, about) in &made.indices {
            let path = about.kept().path(&self.shared.table(index, &about.folder).folder);
            match self.shared.store.head(&path).await {
                Ok(_) => {}
                Err(object_store::Error::NotFound { .. }) => {
                    self.delete_snapshot(name, &made.id).await?;
                    let what = format!("a vacuum took what the snapshot [{name}] began with: try again");
                    return Err(Error::unavailable(what));
                }
                Err(e) => return Err(objects::failed(e, &path)),
            }
        }
        Ok(())
    }

    /// Deletes a snapshot of that name and identity. Whether it was there. Its files are there as long as anything else names them, and
    /// then until a vacuum.
    ///
    /// Cost: the repository log and a PUT of its entry, and DELETEs.
    pub async fn delete_snapshot(&self, name: &str, id: &str) -> Result<bool> {
        let registry = self.shared.registry().await?;
        let Some(snapshot) = registry.snapshots.get(name).filter(|snapshot| snapshot.id == id).cloned()
        else {
            return Ok(false);
        };
        let mut entry = self.shared.entry("delete snapshot");
        entry.removes = vec![snapshot_key(name)];
        let plan = |registry: &Registry| {
            let is_there = registry.snapshots.get(name).is_some_and(|there| there.id == id);
            Ok(is_there.then(|| entry.clone()))
        };
        self.shared.repository_log.append(registry, plan).await?;
        for (index, about) in &snapshot.indices {
            let log = self.shared.table(index, &about.folder);
            // It is gone without this, too: a vacuum deletes what no record names.
            if let Err(error) = kept::delete(&log, [&about.kept()]).await {
                tracing::warn!(snapshot = name, %index, ?error, "what kept the files of a snapshot is left to vacuum");
            }
        }
        Ok(true)
    }

    /// The version of an index that a snapshot has, to be looked at.
    pub async fn open_in_snapshot(&self, snapshot: &Snapshot, index: &IndexName) -> Result<Index> {
        let about = in_snapshot(snapshot, index)?;
        let log = self.shared.table(index, &about.folder);
        let state = self.kept_state(&log, &about.kept()).await?;
        Ok(Index::of_mount(Arc::clone(&self.shared), log, state, about.table.clone()))
    }

    /// Makes an index whose documents are those of a snapshot, from then on independent of it. `Conflict` where there is an index of the
    /// name. It is there complete or not at all; what an interrupted call has copied a vacuum removes.
    ///
    /// Cost: the repository log and two PUTs of its entries, a GET for the version, a copy of each of its objects in
    /// the store, and a PUT for each 10,000 of them.
    pub async fn restore_snapshot(&self, name: &str, wanted: &Restored) -> Result<Index> {
        let started_ms = self.shared.now_ms();
        let registry = self.shared.registry().await?;
        let snapshot = registry.snapshots.get(name).cloned().ok_or_else(|| no_such_snapshot(name))?;
        let about = in_snapshot(&snapshot, &wanted.index)?;
        check_free(&registry, &wanted.name)?;
        let from = self.shared.table(&wanted.index, &about.folder);
        let state = self.kept_state(&from, &about.kept()).await?;
        let table = self.shared.new_id();
        let to = self.shared.table(&wanted.name, &numbered_folder(&wanted.name, &table));
        let registry = self.reserve(registry, &to, &table).await?;
        let copies = kept::paths_of(&state).filter(|path| state.foreign.get(path).is_none());
        let copies = copies.map(|path| copy(&from, &to, path));
        let mut copies = futures::stream::iter(copies).buffer_unordered(AT_ONCE);
        while copies.try_next().await?.is_some() {
            self.check_in_time(started_ms)?;
        }
        drop(copies);
        for commit in self.commits(&to, &table, &state)? {
            if !to.commits.put(commit.version, &commit).await? {
                return Err(Error::conflict(
                    "another writer wrote into the folder of a table that is being restored",
                ));
            }
        }
        let mut entry = self.shared.entry("restore");
        entry.removes = vec![retired_key(to.folder.as_ref())];
        entry.puts = vec![self.shared.live(&wanted.name, Some(table), to.folder.as_ref())?];
        let plan = |registry: &Registry| {
            check_free(registry, &wanted.name)?;
            self.check_in_time(started_ms)?;
            let mut entry = entry.clone();
            records::add(&mut entry, registry, changes(registry, wanted))?;
            Ok(Some(entry))
        };
        self.shared.repository_log.append(registry, plan).await?;
        self.open(&wanted.name).await
    }

    /// Makes an index that reads the files of a snapshot where they are: nothing can be written to it. It keeps them also
    /// when the snapshot is deleted. `Conflict` where there is an index of the name.
    ///
    /// Cost: the repository log and a PUT of its entry, and a GET and a PUT of what names the version's files.
    pub async fn mount_snapshot(&self, name: &str, wanted: &Restored) -> Result<Index> {
        let registry = self.shared.registry().await?;
        let snapshot = registry.snapshots.get(name).cloned().ok_or_else(|| no_such_snapshot(name))?;
        let about = in_snapshot(&snapshot, &wanted.index)?;
        check_free(&registry, &wanted.name)?;
        let log = self.shared.table(&wanted.name, &about.folder);
        let kept = kept::again(&self.shared, &log, &about.kept()).await?;
        let started_ms = self.shared.now_ms();
        let record = IndexRecord {
            table: Some(self.shared.new_id()),
            folder: about.folder.clone(),
            created_ms: started_ms,
            mounted: Some(Mounted {
                version: about.version,
                kept: kept.id.clone(),
                snapshot: name.to_owned(),
                of: wanted.index.clone(),
            }),
            others: Map::new(),
        };
        let mut entry = self.shared.entry("mount");
        entry.puts = vec![Record::index(&wanted.name, &record)?];
        let plan = |registry: &Registry| {
            check_free(registry, &wanted.name)?;
            self.check_in_time(started_ms)?;
            // As long as the snapshot is there, so are the files.
            let is_there = registry.snapshots.get(name).is_some_and(|there| there.id == snapshot.id);
            is_there.then_some(()).ok_or_else(|| no_such_snapshot(name))?;
            let mut entry = entry.clone();
            records::add(&mut entry, registry, changes(registry, wanted))?;
            Ok(Some(entry))
        };
        if let Err(e) = self.shared.repository_log.append(registry, plan).await {
            if is_certain(&e) {
                kept::delete(&log, [&kept]).await?;
            }
            return Err(e);
        }
        self.open(&wanted.name).await
    }

    /// Ends a mount: the files stay for whatever else names them.
    pub(super) async fn unmount(
        &self,
        name: &IndexName,
        record: &IndexRecord,
        mounted: &Mounted,
    ) -> Result<()> {
        let registry = self.shared.registry().await?;
        let mut entry = self.shared.entry("unmount");
        entry.removes = vec![mounted_key(name)];
        let plan = |registry: &Registry| {
            if registry.indices.get(name).is_none_or(|there| there.table != record.table) {
                return Ok(None);
            }
            let mut entry = entry.clone();
            records::add(&mut entry, registry, records::without(registry, name))?;
            Ok(Some(entry))
        };
        self.shared.repository_log.append(registry, plan).await?;
        kept::delete(&self.shared.table(name, &record.folder), [&mounted.kept()]).await
    }

    /// Keeps the newest version of an index.
    async fn take(&self, name: &IndexName) -> Result<Taken> {
        let mut lost = 0;
        let (index, kept) = loop {
            let index = self.open(name).await?;
            let kept = match index.is_mounted() {
                false => index.keep().await,
                true => match self.records().await?.mounted(name) {
                    Some(mounted) => kept::again(&self.shared, &index.log, &mounted.kept()).await,
                    None => Err(Error::not_found(format!("the index {name} was deleted"))),
                },
            };
            match kept {
                Err(e) if e.kind() == ErrorKind::Conflict && lost < LOST_MAX => lost += 1,
                kept => break (index, kept?),
            }
        };
        let splits = index.splits();
        let bytes = splits.iter().map(|split| split.object.bytes);
        let about = SnapshotIndex {
            folder: index.log.folder.to_string(),
            table: index.table_id().to_owned(),
            version: index.version(),
            kept: kept.id.clone(),
            splits: splits.len() as u64,
            documents: splits.iter().map(|split| split.rows).sum(),
            bytes: bytes.chain(index.files().map(|file| file.object.bytes)).sum(),
            ..SnapshotIndex::default()
        };
        Ok(Taken { name: name.clone(), log: index.log.clone(), kept, about })
    }

    /// Deletes what was kept for a snapshot that is not made after all.
    async fn give_up(&self, taken: &[Taken]) {
        for taken in taken {
            if let Err(error) = kept::delete(&taken.log, [&taken.kept]).await {
                tracing::warn!(index = %taken.name, ?error, "what was kept for a snapshot is left to vacuum");
            }
        }
    }

    async fn kept_state(&self, log: &Log, kept: &Kept) -> Result<State> {
        let state = kept::read(log, kept).await?;
        state.ok_or_else(|| Error::not_found("the snapshot was deleted").with("index", &log.index))
    }

    /// Records the folder of a table to come as one of a deleted index, so that a vacuum knows it if the table never comes.
    async fn reserve(&self, registry: Arc<Registry>, log: &Log, table: &str) -> Result<Arc<Registry>> {
        let record = RetiredRecord {
            index: log.index.clone(),
            table: Some(table.to_owned()),
            deleted_ms: self.shared.now_ms(),
            purged: true,
            others: Map::new(),
        };
        let mut entry = self.shared.entry("begin restore");
        entry.puts = vec![Record::retired(log.folder.as_ref(), &record)?];
        let plan = |registry: &Registry| match registry.has_had(log.folder.as_ref()) {
            true => Err(Error::conflict("a folder of that name was used before: try again")),
            false => Ok(Some(entry.clone())),
        };
        self.shared.repository_log.append(registry, plan).await
    }

    /// The commits of a new table that says what `state` does.
    fn commits(&self, log: &Log, table: &str, state: &State) -> Result<Vec<Commit>> {
        let now_ms = self.shared.now_ms();
        let commit = |version: u64| Commit {
            version,
            key: log.commits.entry_path(version).to_string(),
            info: json!({
                "timestamp": now_ms,
                "operation": "restore",
                "operationParameters": {},
                "isBlindAppend": true,
                "engineInfo": ENGINE,
                "txnId": self.shared.new_id(),
                "frostlineTable": table,
            }),
            ..Commit::default()
        };
        let metadata = MetaData {
            id: table.to_owned(),
            name: Some(log.index.to_string()),
            created_time: Some(now_ms),
            ..MetaData::clone(&state.metadata)
        };
        let mut commits =
            vec![Commit { protocol: Some(state.protocol.clone()), metadata: Some(metadata), ..commit(0) }];
        let adds: Vec<_> = state.splits.values().map(|split| split.to_add(now_ms, true)).collect();
        for adds in adds.chunks(COMMIT_ACTIONS) {
            commits.push(Commit { adds: adds.to_vec(), ..commit(commits.len() as u64) });
        }
        let files: Vec<_> = state.files.values().collect();
        for files in files.chunks(COMMIT_ACTIONS) {
            let domains = files.iter().map(|file| file.to_action()).collect::<Result<_>>()?;
            commits.push(Commit { domains, ..commit(commits.len() as u64) });
        }
        let txn = |(source, reached): (&String, &crate::state::Reached)| Txn {
            app_id: source.clone(),
            version: reached.position,
            last_updated: reached.moved_ms,
        };
        let txns: Vec<Txn> = state.progress.iter().map(txn).collect();
        for txns in txns.chunks(COMMIT_ACTIONS) {
            commits.push(Commit { txns: txns.to_vec(), ..commit(commits.len() as u64) });
        }
        Ok(commits)
    }

    /// A vacuum takes what no record names after some time for what nobody wants.
    fn check_in_time(&self, started_ms: i64) -> Result<()> {
        match self.shared.now_ms().saturating_sub(started_ms) > WORK_MS_MAX {
            true => Err(Error::unavailable(
                "it took longer than 12 hours, after which a vacuum may remove what is done",
            )),
            false => Ok(()),
        }
    }
}

/// Copies an object of one table to the same path of another.
async fn copy(from: &Log, to: &Log, path: String) -> Result<()> {
    let (source, target) = (from.object(&path), to.object(&path));
    match from.store().copy_opts(&source, &target, CopyOptions::default()).await {
        Err(object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. }) => {
            let bytes = objects::get(from.store().as_ref(), &source).await?;
            let bytes = bytes
                .ok_or_else(|| Error::corrupt("an object of a snapshot is gone").with("object", &source))?;
            from.store().put(&target, bytes.into()).await.map(drop).map_err(|e| objects::failed(e, &target))
        }
        Err(object_store::Error::NotFound { .. }) => {
            Err(Error::corrupt("an object of a snapshot is gone").with("object", &source))
        }
        copied => copied.map_err(|e| objects::failed(e, &source)),
    }
}

/// What the records say of an index that a snapshot is made of.
fn with_names(registry: &Registry, taken: &Taken) -> SnapshotIndex {
    let name = &taken.name;
    let of_it = registry.aliases.iter().filter(|(_, alias)| alias.indices.contains(name));
    let aliases = of_it.map(|(alias, about)| {
        let mut about = Alias::clone(about);
        about.indices.retain(|index| index == name);
        about.filters.retain(|index, _| index == name);
        about.write.take_if(|write| write != name);
        (alias.clone(), about)
    });
    SnapshotIndex {
        settings: registry.other(INDEX_SETTINGS, name.as_str()).cloned(),
        aliases: aliases.collect(),
        ..taken.about.clone()
    }
}

/// The records that an index gets which is restored or mounted.
fn changes(registry: &Registry, wanted: &Restored) -> Vec<RecordChange> {
    let name = &wanted.name;
    let aliases = wanted.aliases.iter().map(|(alias, about)| {
        let mut all = registry.aliases.get(alias).map(|there| Alias::clone(there)).unwrap_or_else(|| {
            let mut none = about.clone();
            none.indices.clear();
            none.filters.clear();
            none.write = None;
            none
        });
        all.indices.insert(name.clone());
        all.filters.extend(about.filters.get(&wanted.index).map(|filter| (name.clone(), filter.clone())));
        if all.write.is_none() && about.write.as_ref() == Some(&wanted.index) {
            all.write = Some(name.clone());
        }
        RecordChange::Alias(alias.clone(), Some(all))
    });
    let mut settings = wanted.settings.clone();
    if let Some(settings) = settings.as_mut().and_then(Value::as_object_mut) {
        settings.remove(CLOSED);
    }
    let settings =
        settings.filter(|settings| settings.as_object().is_some_and(|members| !members.is_empty()));
    let settings = settings.map(|value| RecordChange::Other {
        kind: INDEX_SETTINGS,
        name: name.to_string(),
        value: Some(value),
    });
    aliases.chain(settings).collect()
}

fn in_snapshot<'a>(snapshot: &'a Snapshot, index: &IndexName) -> Result<&'a SnapshotIndex> {
    let about = snapshot.indices.get(index);
    about.ok_or_else(|| Error::not_found(format!("the snapshot has no index {index}")))
}

fn is_table(record: &IndexRecord, table: &str) -> bool {
    record.table.as_deref().is_none_or(|there| there == table)
}

fn check_free(registry: &Registry, name: &IndexName) -> Result<()> {
    match registry.is_taken(name) {
        true => Err(Error::conflict(format!("there is already an index, an alias or a data stream {name}"))),
        false => Ok(()),
    }
}

fn check_room(registry: &Registry, name: &str, indices: usize) -> Result<()> {
    if registry.snapshots.contains_key(name) {
        return Err(Error::conflict(format!("there is already a snapshot {name}")));
    }
    let kept: usize = registry.snapshots.values().map(|snapshot| snapshot.indices.len()).sum();
    if registry.snapshots.len() >= SNAPSHOTS_MAX || kept.saturating_add(indices) > SNAPSHOT_INDICES_MAX {
        return Err(Error::invalid(format!(
            "a repository has at most {SNAPSHOTS_MAX} snapshots, of {SNAPSHOT_INDICES_MAX} indices in all: delete old ones"
        )));
    }
    Ok(())
}

fn no_such_snapshot(name: &str) -> Error {
    Error::not_found(format!("there is no snapshot {name}"))
}

/// Whether an entry was surely not written.
fn is_certain(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Invalid | ErrorKind::NotFound)
}

#[cfg(test)]
mod tests;
