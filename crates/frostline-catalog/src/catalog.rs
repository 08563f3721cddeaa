//! The indices of a repository: made, opened, listed and deleted.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt as _;
use object_store::ObjectStore;
use object_store::path::Path;
use serde_json::json;

use frostline_base::{Clock, Error, ErrorKind, IndexName, Result};
use frostline_commits::{Replica as _, objects};
use frostline_split::Mapping;
use frostline_store::Repository;

use crate::actions::{Commit, Protocol};
use crate::index::{Index, no_such_index};
use crate::log::Log;
use crate::schema::{self, Settings};

/// The indices of one repository. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Catalog {
    shared: Arc<Shared>,
}

/// What every index of a catalog needs.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) clock: Arc<dyn Clock>,
    seed: RandomState,
    ids: AtomicU64,
}

impl Shared {
    /// A name that no other commit in any process has: the process's own random seed, hashed with a count.
    pub(crate) fn new_id(&self) -> String {
        let count = self.ids.fetch_add(1, Ordering::Relaxed);
        let now_us = self.clock.now_us();
        let half = |which: u8| self.seed.hash_one((which, count, now_us));
        let hex = format!("{:016x}{:016x}", half(0), half(1));
        let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
        format!("{}-{}-{}-{}-{}", part(0..8), part(8..12), part(12..16), part(16..20), part(20..32))
    }
}

impl Catalog {
    /// The indices of `repository`.
    pub fn new(repository: &Repository, clock: Arc<dyn Clock>) -> Catalog {
        Catalog::on(repository.object_store(), clock)
    }

    /// The indices below the root of `store`.
    pub fn on(store: Arc<dyn ObjectStore>, clock: Arc<dyn Clock>) -> Catalog {
        let shared = Shared { store, clock, seed: RandomState::new(), ids: AtomicU64::new(0) };
        Catalog { shared: Arc::new(shared) }
    }

    /// Makes an index. `Conflict` when there is one of that name, or something left of one whose deletion was
    /// cut short: delete it again first. One LIST and one PUT, and what opening costs.
    pub async fn create(&self, name: &IndexName, mapping: Mapping, settings: Settings) -> Result<Index> {
        settings.check()?;
        let log = self.log(name);
        let listing = log.commits.list_from(0).await?;
        if !listing.is_empty() {
            // Never cleaned up here: another process may be making the index anew at this moment.
            return Err(match self.open(name).await {
                Ok(_) => Error::conflict(format!("there is already an index {name}")),
                Err(e) if e.kind() == ErrorKind::NotFound => Error::conflict(format!(
                    "an earlier index {name} is only half deleted; delete it again first"
                )),
                Err(e) => e,
            });
        }
        let id = self.shared.new_id();
        let commit = self.first_commit(&log, &id, &mapping, &settings)?;
        if !log.commits.put(0, &commit).await? {
            return Err(Error::conflict(format!("there is already an index {name}")));
        }
        self.open(name).await
    }

    /// The newest version of an index; see [`Index`]. `NotFound` when there is none. With a checkpoint: one
    /// GET of the hint, then one LIST beside one GET for each 8 MiB of checkpoint, then one GET for each commit
    /// after it; three round trips in a row.
    pub async fn open(&self, name: &IndexName) -> Result<Index> {
        Index::open(Arc::clone(&self.shared), self.log(name)).await
    }

    /// The index of that name, made with this mapping and these settings when there is none.
    pub async fn open_or_create(
        &self,
        name: &IndexName,
        mapping: Mapping,
        settings: Settings,
    ) -> Result<Index> {
        match self.open(name).await {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
        match self.create(name, mapping, settings).await {
            // Another writer made it meanwhile.
            Err(e) if e.kind() == ErrorKind::Conflict => self.open(name).await,
            created => created,
        }
    }

    /// The names of the indices, sorted. One LIST for the folders; for each, one LIST and one GET tell whether it
    /// is an index: a folder without a log, or with what is left of a deleted index, is none.
    pub async fn list(&self) -> Result<Vec<IndexName>> {
        let root = Path::default();
        let found =
            self.shared.store.list_with_delimiter(None).await.map_err(|e| objects::failed(e, &root))?;
        let names =
            found.common_prefixes.iter().filter_map(|folder| folder.filename()?.parse::<IndexName>().ok());
        let checks = names.collect::<BTreeSet<_>>().into_iter().map(|name| async move {
            let is_index = self.is_index(&name).await;
            is_index.map(|is_index| is_index.then_some(name))
        });
        let checked: Vec<Result<Option<IndexName>>> =
            futures::stream::iter(checks).buffered(16).collect().await;
        checked.into_iter().filter_map(Result::transpose).collect()
    }

    /// Deletes an index and all its objects. `NotFound` when there is nothing of it.
    ///
    /// The first step is one commit that says that the index is gone. From then on nobody can open it or
    /// commit to it, and [`Index::refresh`] answers `NotFound`. Then its objects are removed: checkpoints and
    /// commits, then splits, and that last commit at the very end, so that a writer which missed all of this
    /// still runs into it. A deletion that was cut short is finished by calling this again. Deleting an index
    /// twice at once while making it anew is not safe: the slower deletion takes the new one with it.
    pub async fn delete(&self, name: &IndexName) -> Result<()> {
        let log = self.log(name);
        match self.open(name).await {
            Ok(index) => self.drop_index(index).await?,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let mut objects = self.shared.store.list(Some(&log.folder));
                if objects.next().await.is_none() {
                    return Err(no_such_index(name));
                }
            }
            // An index too broken to open can still be deleted.
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Invalid) => {
                tracing::warn!(index = %name, error = ?e, "deleting an index that cannot be opened");
            }
            Err(e) => return Err(e),
        }
        self.remove_all(&log).await
    }

    fn log(&self, name: &IndexName) -> Log {
        Log::new(Arc::clone(&self.shared.store), name.clone(), name.as_str())
    }

    fn first_commit(&self, log: &Log, id: &str, mapping: &Mapping, settings: &Settings) -> Result<Commit> {
        let now_ms = self.shared.clock.now_us() / 1_000;
        let table_id = self.shared.new_id();
        Ok(Commit {
            version: 0,
            key: log.commits.entry_path(0).to_string(),
            info: json!({
                "timestamp": now_ms,
                "operation": "create",
                "operationParameters": {},
                "isBlindAppend": true,
                "engineInfo": crate::ENGINE,
                "txnId": id,
                "frostlineTable": table_id,
            }),
            protocol: Some(Protocol::ours()),
            metadata: Some(schema::metadata(&log.index, table_id, now_ms, mapping, settings)?),
            ..Commit::default()
        })
    }

    async fn drop_index(&self, index: Index) -> Result<()> {
        let log = index.log.commits.clone();
        let id = self.shared.new_id();
        let drop = |index: &Index| {
            let info = json!({
                "timestamp": self.shared.clock.now_us() / 1_000,
                "operation": "drop",
                "operationParameters": {},
                "engineInfo": crate::ENGINE,
                "txnId": id,
                "frostlineTable": index.table_id(),
                "frostlineDropped": true,
            });
            Ok(Some(Commit { version: index.next(), info, ..Commit::default() }))
        };
        match log.append(index, drop).await {
            // Somebody else deleted it meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            dropped => dropped.map(|_| ()),
        }
    }

    /// Removes what is left of a deleted index: what makes it look like one first, its last commit last.
    async fn remove_all(&self, log: &Log) -> Result<()> {
        let store = self.shared.store.as_ref();
        let listing = log.commits.list_from(0).await?;
        let last = listing.newest().map(|version| log.commits.entry_path(version));
        let is_last = |path: &Path| Some(path) == last.as_ref();
        // Without its beginning the log is no index, in whatever order the rest of it goes.
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
        let mut objects = self.shared.store.list(Some(&log.folder));
        while let Some(object) = objects.next().await {
            let path = object.map_err(|e| objects::failed(e, &log.folder))?.location;
            rest.extend(Some(path).filter(|p| !is_last(p)));
        }
        objects::delete(store, rest).await?;
        objects::delete(store, last.into_iter().collect()).await
    }

    async fn is_index(&self, name: &IndexName) -> Result<bool> {
        let log = self.log(name);
        let listing = log.commits.list_from(0).await?;
        let begins = listing.entries.contains_key(&0) || listing.checkpoint().is_some();
        match listing.newest().filter(|_| begins) {
            None => Ok(begins),
            // A commit that cannot be read is an index in need of repair, not an absent one.
            Some(version) => match log.commits.entry(version).await {
                Ok(commit) => Ok(commit.is_some_and(|commit| !commit.drops_index())),
                Err(e) if e.kind() == ErrorKind::Corrupt => Ok(true),
                Err(e) => Err(e),
            },
        }
    }
}

#[cfg(test)]
mod tests;
