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

use super::Catalog;
use crate::access::CLOSED;
use crate::actions::{Commit, ENGINE, MetaData, Txn};
use crate::index::Index;
use crate::kept;
use crate::log::Log;
use crate::names::Alias;
use crate::records::{self, INDEX_SETTINGS, RecordChange, TAKEN};
use crate::repository_log::{
    IndexRecord, Record, Registry, RetiredRecord, mounted_key, numbered_folder, retired_key, snapshot_key,
};
use crate::schema;
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

/// A table that is being made of another one's version.
struct Restoring {
    from: Log,
    to: Log,
    table: String,
    state: State,
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
    /// Makes a snapshot of the newest versions of some indices, and of those data streams, as far as they are of these
    /// indices. `Conflict` with the fact [`TAKEN`] where there is one of that name, `NotFound` where an index is gone by
    /// then. It is there with all of its indices or not at all, whatever is written to them meanwhile.
    ///
    /// Cost: the repository log and a PUT of its entry; for each index, that of opening and refreshing it, of a
    /// checkpoint, and a PUT and a DELETE of what keeps its files meanwhile.
    pub async fn make_snapshot(
        &self,
        name: &str,
        indices: &[IndexName],
        streams: &[IndexName],
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
            let indices: BTreeMap<IndexName, SnapshotIndex> = each.collect();
            let streams = streams.iter().filter_map(|stream| {
                let there = registry.data_streams.get(stream)?;
                let own = there.with_indices(|index| indices.contains_key(index).then(|| index.clone()))?;
                Some((stream.clone(), own))
            });
            Snapshot {
                id: id.clone(),
                started_ms,
                ended_ms: self.shared.now_ms(),
                data_streams: streams.collect(),
                indices,
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

    /// Makes indices whose documents are those of a snapshot, from then on independent of it; with `stream`, its name in the
    /// snapshot and its new one, as those of a data stream: others of its indices have no place in it. `Conflict` with the
    /// fact [`TAKEN`] where a name is taken. All are there complete or not at all; what an interrupted call has copied a
    /// vacuum removes.
    ///
    /// Cost: the repository log and two PUTs of its entries; for each index, a GET for the version, a copy of each of its
    /// objects in the store, and a PUT for each 10,000 of them.
    pub async fn restore_snapshot(
        &self,
        name: &str,
        wanted: &[Restored],
        stream: Option<(&IndexName, &IndexName)>,
    ) -> Result<()> {
        let started_ms = self.shared.now_ms();
        let registry = self.shared.registry().await?;
        let snapshot = registry.snapshots.get(name).cloned().ok_or_else(|| no_such_snapshot(name))?;
        let stream = match stream {
            None => None,
            Some((of, as_name)) => {
                let new_name = |index: &IndexName| {
                    let each = wanted.iter().find(|each| each.index == *index);
                    each.map(|each| each.name.clone())
                };
                let there = snapshot.data_streams.get(of).and_then(|there| there.with_indices(new_name));
                let missing = || Error::not_found(format!("the snapshot has no data stream {of}"));
                Some((as_name.clone(), there.ok_or_else(missing)?))
            }
        };
        let names = wanted.iter().map(|each| &each.name).chain(stream.iter().map(|(name, _)| name));
        let names: Vec<&IndexName> = names.collect();
        names.iter().try_for_each(|name| check_free(&registry, name))?;
        let mut tables = Vec::new();
        for each in wanted {
            let about = in_snapshot(&snapshot, &each.index)?;
            let from = self.shared.table(&each.index, &about.folder);
            let state = self.kept_state(&from, &about.kept()).await?;
            let table = self.shared.new_id();
            let to = self.shared.table(&each.name, &numbered_folder(&each.name, &table));
            tables.push(Restoring { from, to, table, state });
        }
        let registry = self.reserve(registry, &tables).await?;
        let mut copies = Vec::new();
        for Restoring { from, to, state, .. } in &tables {
            let paths = kept::paths_of(state).filter(|path| state.foreign.get(path).is_none());
            copies.extend(paths.map(|path| copy(from, to, path)));
        }
        let mut copies = futures::stream::iter(copies).buffer_unordered(AT_ONCE);
        while copies.try_next().await?.is_some() {
            self.check_in_time(started_ms)?;
        }
        drop(copies);
        let mut entry = self.shared.entry("restore");
        for (Restoring { to, table, state, .. }, each) in tables.iter().zip(wanted) {
            for commit in self.commits(to, table, state)? {
                if !to.commits.put(commit.version, &commit).await? {
                    return Err(Error::conflict(
                        "another writer wrote into the folder of a table that is being restored",
                    ));
                }
            }
            let now_ms = self.shared.now_ms();
            let record = IndexRecord::new(Some(table.clone()), to.folder.as_ref(), now_ms);
            let record = IndexRecord { restored_ms: Some(now_ms), ..record };
            entry.removes.push(retired_key(to.folder.as_ref()));
            entry.puts.push(Record::index(&each.name, &record)?);
        }
        let plan = |registry: &Registry| {
            names.iter().try_for_each(|name| check_free(registry, name))?;
            self.check_in_time(started_ms)?;
            let mut entry = entry.clone();
            let stream = stream.clone().map(|(name, stream)| RecordChange::DataStream(name, Some(stream)));
            let changes = changes(registry, wanted).into_iter().chain(stream);
            records::add(&mut entry, registry, changes.collect())?;
            Ok(Some(entry))
        };
        self.shared.repository_log.append(registry, plan).await.map(drop)
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
        let mounted = Mounted {
            version: about.version,
            kept: kept.id.clone(),
            snapshot: name.to_owned(),
            of: wanted.index.clone(),
        };
        let record = IndexRecord::new(Some(self.shared.new_id()), &about.folder, started_ms);
        let record = IndexRecord { mounted: Some(mounted), ..record };
        let mut entry = self.shared.entry("mount");
        entry.puts = vec![Record::index(&wanted.name, &record)?];
        let plan = |registry: &Registry| {
            check_free(registry, &wanted.name)?;
            self.check_in_time(started_ms)?;
            // As long as the snapshot is there, so are the files.
            let is_there = registry.snapshots.get(name).is_some_and(|there| there.id == snapshot.id);
            is_there.then_some(()).ok_or_else(|| no_such_snapshot(name))?;
            let mut entry = entry.clone();
            records::add(&mut entry, registry, changes(registry, std::slice::from_ref(wanted)))?;
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
        let index = self.open(name).await?;
        let (index, kept) = match index.is_mounted() {
            false => index.keep_newest().await?,
            true => match self.records().await?.mounted(name) {
                Some(mounted) => {
                    let kept = kept::again(&self.shared, &index.log, &mounted.kept()).await?;
                    (index, kept)
                }
                None => return Err(Error::not_found(format!("the index {name} was deleted"))),
            },
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

    /// Records the folders of tables to come as those of deleted indices, so that a vacuum knows them if the tables never
    /// come.
    async fn reserve(&self, registry: Arc<Registry>, tables: &[Restoring]) -> Result<Arc<Registry>> {
        let mut entry = self.shared.entry("begin restore");
        for Restoring { to, table, .. } in tables {
            let record = RetiredRecord {
                index: to.index.clone(),
                table: Some(table.clone()),
                deleted_ms: self.shared.now_ms(),
                purged: true,
                others: Map::new(),
            };
            entry.puts.push(Record::retired(to.folder.as_ref(), &record)?);
        }
        let is_used =
            |registry: &Registry| tables.iter().any(|each| registry.has_had(each.to.folder.as_ref()));
        let plan = |registry: &Registry| match is_used(registry) {
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
            name: Some(log.index.to_string()),
            created_time: Some(now_ms),
            ..schema::copied(&state.metadata, table.to_owned())
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
        about.routing.retain(|index, _| index == name);
        about.write.take_if(|write| write != name);
        (alias.clone(), about)
    });
    SnapshotIndex {
        settings: registry.other(INDEX_SETTINGS, name.as_str()).cloned(),
        aliases: aliases.collect(),
        ..taken.about.clone()
    }
}

/// The records that indices get which are restored or mounted.
fn changes(registry: &Registry, wanted: &[Restored]) -> Vec<RecordChange> {
    let mut aliases: BTreeMap<&IndexName, Alias> = BTreeMap::new();
    for each in wanted {
        for (alias, about) in &each.aliases {
            let all = aliases.entry(alias).or_insert_with(|| match registry.aliases.get(alias) {
                Some(there) => Alias::clone(there),
                None => {
                    let mut none = about.clone();
                    none.indices.clear();
                    none.filters.clear();
                    none.routing.clear();
                    none.write = None;
                    none
                }
            });
            all.indices.insert(each.name.clone());
            let filter = about.filters.get(&each.index);
            all.filters.extend(filter.map(|filter| (each.name.clone(), filter.clone())));
            let routing = about.routing.get(&each.index);
            all.routing.extend(routing.map(|routing| (each.name.clone(), routing.clone())));
            if all.write.is_none() && about.write.as_ref() == Some(&each.index) {
                all.write = Some(each.name.clone());
            }
        }
    }
    let settings = wanted.iter().filter_map(|each| {
        let mut settings = each.settings.clone();
        let members = settings.as_mut()?.as_object_mut()?;
        members.remove(CLOSED);
        let is_empty = members.is_empty();
        let name = each.name.to_string();
        (!is_empty).then(|| RecordChange::Other { kind: INDEX_SETTINGS, name, value: settings })
    });
    let aliases = aliases.into_iter().map(|(alias, all)| RecordChange::Alias(alias.clone(), Some(all)));
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
        true => {
            let what = format!("there is already an index, an alias or a data stream {name}");
            Err(Error::conflict(what).with(TAKEN, name))
        }
        false => Ok(()),
    }
}

fn check_room(registry: &Registry, name: &str, indices: usize) -> Result<()> {
    if registry.snapshots.contains_key(name) {
        return Err(Error::conflict(format!("there is already a snapshot {name}")).with(TAKEN, name));
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
