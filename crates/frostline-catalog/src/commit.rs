//! Changes an index: one conditional put of the next version, retried if another writer was first.
//!
//! Guarantees:
//! - A commit is applied completely and once, or not at all (see [`frostline_commits`]).
//! - Concurrent writers lose nothing: the second one reads the first one's commit, checks that its own change
//!   is still valid, merges the mappings and takes the next version.

use std::fmt;
use std::sync::Arc;

use frostline_base::{Error, Result, SplitId};
use frostline_commits::Appended;
use frostline_split::Mapping;
use serde_json::json;

use crate::actions::{Commit, ENGINE, MetaData, Remove, Txn};
use crate::file_entry::{self, FileEntry};
use crate::index::Index;
use crate::schema::{self, Settings};
use crate::split_entry::SplitEntry;

/// What one commit does, atomically.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Splits that become live. Their objects must be complete before the commit.
    pub add: Vec<SplitEntry>,
    /// Splits that are removed. Each must be live, or the commit is a `Conflict`.
    pub remove: Vec<SplitId>,
    /// Fields to merge into the index's mapping.
    pub mapping: Option<Mapping>,
    /// How an author changes the mapping, from that of the version that the change is committed to.
    pub amend: Option<Amend>,
    /// The settings of the index from now on.
    pub settings: Option<Settings>,
    /// The settings that the change follows from: if the index has others by then, the commit is a `Conflict`.
    pub because_of: Option<Settings>,
    /// Sources and the position of each with this change in: any number that means something to the writer. Each
    /// must still be where the version that the change is committed to has it, or the commit is a `Conflict`.
    pub progress: Vec<(String, i64)>,
    /// As `progress`, of sources that may be forgotten `passing_ms` later, or with the others if that is sooner.
    pub passing: Vec<(String, i64)>,
    /// How long those of `passing` are kept at least.
    pub passing_ms: i64,
    /// Further files that become part of the index. Their objects must be whole before this is committed. The first one
    /// raises the table's protocol for writers, not for readers: see `docs/format/catalog.md`.
    pub files_add: Vec<FileEntry>,
    /// Further files that stop being part of it, as they were added. Each must be one, or the commit is a `Conflict`.
    pub files_remove: Vec<FileEntry>,
    /// What the history calls it, such as `ingest`, `merge` or `delete`.
    pub operation: String,
    /// The rows stay the same and only move to other splits, as in a merge. Tools that follow the table's
    /// changes then skip it.
    pub rearranges: bool,
}

/// Says what to merge into a mapping. An error is that of the commit.
#[derive(Clone)]
pub struct Amend(Arc<Amended>);

type Amended = dyn Fn(&Mapping) -> Result<Mapping> + Send + Sync;

impl Amend {
    /// One that asks this for each version that the commit is tried on.
    pub fn new(amend: impl Fn(&Mapping) -> Result<Mapping> + Send + Sync + 'static) -> Amend {
        Amend(Arc::new(amend))
    }
}

impl fmt::Debug for Amend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Amend").finish_non_exhaustive()
    }
}

impl Change {
    /// The sources that it moves.
    fn sources(&self) -> impl Iterator<Item = &String> {
        self.progress.iter().chain(&self.passing).map(|(source, _)| source)
    }
}

impl Index {
    /// Applies `change` to the newest version and returns the version that has it.
    ///
    /// `Conflict` when the change no longer makes sense: a split to remove is gone, a split to add is there,
    /// another writer moved one of its sources since this version, or the settings that it follows from have changed. `Unavailable` when the store does not answer: the change
    /// may then be applied, so open the index again and look at [`Index::progress`]. `NotFound` when the index
    /// was deleted. A change that changes nothing writes nothing.
    ///
    /// One PUT, and one GET of the repository log, where nobody interferes. Each version lost to another writer adds one PUT
    /// and three GETs. Every
    /// `checkpoint_commits` versions a checkpoint is written before this returns; its failure is logged only.
    pub async fn commit(&self, change: Change) -> Result<Index> {
        self.check_unmounted()?;
        let id = self.shared.new_id();
        let base = if self.is_stale() { self.refresh().await? } else { self.clone() };
        let plan = |base: &Index| {
            base.state.protocol.check_writable()?;
            self.check_unmoved(&change, base)?;
            base.plan(&change, &id)
        };
        match self.log.commits.append(base, plan).await? {
            Appended { base, entry: None } => Ok(base),
            Appended { base, entry: Some(commit) } => {
                // The table may have been deleted, its log with it, before this commit.
                self.shared.confirm(&self.log, commit.version).await?;
                base.advance(&commit).await
            }
        }
    }

    /// The commit that applies `change` right after this version; `None` when there is nothing to do.
    fn plan(&self, change: &Change, id: &str) -> Result<Option<Commit>> {
        self.check(change)?;
        let metadata = self.described_anew(change)?;
        if change.add.is_empty()
            && change.remove.is_empty()
            && change.sources().next().is_none()
            && change.files_add.is_empty()
            && change.files_remove.is_empty()
            && metadata.is_none()
        {
            return Ok(None);
        }
        let now_ms = self.shared.clock.now_us() / 1_000;
        let data_change = !change.rearranges;
        let removed = change.remove.iter().filter_map(|id| self.state.splits.get(id)).collect::<Vec<_>>();
        let version = self.version() + 1;
        let gone = change.files_remove.iter().map(|file| Ok(file_entry::removal(&file.path())));
        let domains = gone.chain(change.files_add.iter().map(FileEntry::to_action)).collect::<Result<_>>()?;
        // Any writer of the table then forgets the passing ones in time: it goes by when a source last moved.
        let earlier_ms = (self.settings().progress_retention_ms - change.passing_ms.max(0)).max(0);
        let txn = |moved_ms: i64| {
            move |(source, position): &(String, i64)| Txn {
                app_id: source.clone(),
                version: *position,
                last_updated: Some(moved_ms),
            }
        };
        let passing = change.passing.iter().map(txn(now_ms - earlier_ms));
        Ok(Some(Commit {
            version,
            key: self.log.commits.entry_path(version).to_string(),
            info: self.info(change, id, now_ms, &removed),
            protocol: self.state.protocol.naming_files().filter(|_| !change.files_add.is_empty()),
            metadata,
            txns: change.progress.iter().map(txn(now_ms)).chain(passing).collect(),
            domains,
            removes: removed
                .iter()
                .map(|split| split.to_remove(now_ms, data_change))
                .collect::<Vec<Remove>>(),
            adds: change.add.iter().map(|split| split.to_add(now_ms, data_change)).collect(),
        }))
    }

    /// Whether `change` makes sense after this version.
    fn check(&self, change: &Change) -> Result<()> {
        if change.because_of.as_ref().is_some_and(|settings| settings != self.settings()) {
            return Err(Error::conflict("another writer changed the settings of the index"));
        }
        for entry in &change.add {
            entry.check(&self.log.folder).map_err(|why| {
                Error::invalid(format!("a split to commit contradicts itself: {why}")).with("split", entry.id)
            })?;
            if self.split(entry.id).is_some() {
                return Err(Error::conflict("a split to add is already live").with("split", entry.id));
            }
        }
        if let Some(id) =
            twice(change.add.iter().map(|e| e.id)).or_else(|| twice(change.remove.iter().copied()))
        {
            return Err(Error::invalid("a change names a split twice").with("split", id));
        }
        if let Some(id) = change.remove.iter().find(|id| self.split(**id).is_none()) {
            return Err(Error::conflict("a split to remove is no longer live").with("split", id));
        }
        for file in &change.files_add {
            file.check(&self.log.folder)?;
            if self.state.files.get(&file.path()).is_some() {
                return Err(Error::conflict("a further file to add already exists").with("file", file.path()));
            }
        }
        if let Some(file) =
            change.files_remove.iter().find(|file| self.state.files.get(&file.path()).is_none())
        {
            return Err(
                Error::conflict("a further file to remove no longer exists").with("file", file.path())
            );
        }
        if let Some(source) = twice(change.sources()) {
            return Err(Error::invalid("a change names a source twice").with("source", source));
        }
        Ok(())
    }

    /// Whether every source that `change` moves is in `newest` where it is in this version.
    fn check_unmoved(&self, change: &Change, newest: &Index) -> Result<()> {
        for source in change.sources() {
            let (seen, reached) = (self.progress(source), newest.progress(source));
            // One that was forgotten meanwhile was moved by nobody.
            if reached.is_some() && seen != reached {
                return Err(Error::conflict(
                    "another run ingests the same source: run again when it has ended",
                )
                .with("source", source)
                .with("seen", seen.unwrap_or_default())
                .with("reached", reached.unwrap_or_default()));
            }
        }
        Ok(())
    }

    /// The metadata with the mapping of `change` merged in and with its settings, where that changes it.
    fn described_anew(&self, change: &Change) -> Result<Option<MetaData>> {
        let mut mapping = self.mapping().clone();
        let mut has_grown = change.mapping.as_ref().map_or(Ok(false), |wanted| mapping.merge(wanted))?;
        if let Some(Amend(amend)) = &change.amend {
            has_grown |= mapping.merge(&amend(&mapping)?)?;
        }
        let settings = change.settings.as_ref().filter(|wanted| *wanted != self.settings());
        if !has_grown && settings.is_none() {
            return Ok(None);
        }
        let mut metadata = MetaData::clone(&self.state.metadata);
        if has_grown {
            schema::set_mapping(&mut metadata, &mapping)?;
            schema::limit_progress(&mut metadata, self.settings());
        }
        if let Some(settings) = settings {
            settings.check()?;
            schema::set_settings(&mut metadata, settings)?;
        }
        Ok(Some(metadata))
    }

    fn info(
        &self,
        change: &Change,
        id: &str,
        now_ms: i64,
        removed: &[&Arc<SplitEntry>],
    ) -> serde_json::Value {
        let rows = |splits: &mut dyn Iterator<Item = &SplitEntry>| -> u64 { splits.map(|s| s.rows).sum() };
        let added_bytes: u64 = change.add.iter().map(|s| s.object.bytes).sum();
        json!({
            "timestamp": now_ms,
            "operation": if change.operation.is_empty() { "commit" } else { &change.operation },
            "operationParameters": {},
            "operationMetrics": {
                "numFiles": change.add.len().to_string(),
                "numRemovedFiles": removed.len().to_string(),
                "numOutputRows": rows(&mut change.add.iter()).to_string(),
                "numRemovedRows": rows(&mut removed.iter().map(|s| &***s)).to_string(),
                "numOutputBytes": added_bytes.to_string(),
            },
            "readVersion": self.version(),
            "isBlindAppend": change.remove.is_empty(),
            "engineInfo": ENGINE,
            "txnId": id,
            "frostlineTable": self.table_id(),
        })
    }

    /// This index after its own commit, with a checkpoint written when one is due.
    async fn advance(&self, commit: &Commit) -> Result<Index> {
        let state = self.state.after(&self.log.folder, std::slice::from_ref(commit))?;
        let index = Index { state: Arc::new(state), checked_us: self.shared.clock.now_us(), ..self.clone() };
        if !index.checkpoint_is_due().await {
            return Ok(index);
        }
        match index.checkpoint().await {
            Ok(index) => Ok(index),
            Err(e) => {
                // The commit stands; the log opens without the checkpoint, only slower.
                tracing::warn!(index = %index.name(), version = index.version(), error = ?e, "no checkpoint written");
                Ok(index)
            }
        }
    }

    /// Every version that is a multiple of the interval, so that one of several writers does it; and when
    /// the ones that should have did not.
    async fn checkpoint_is_due(&self) -> bool {
        let interval = self.settings().checkpoint_commits;
        let version = self.version();
        if version.is_multiple_of(interval) {
            return true;
        }
        let late = |known: Option<u64>| version - known.unwrap_or(0).min(version) >= 2 * interval;
        let look = version % interval == interval / 2 && late(self.checkpoint);
        look && self.log.commits.hint().await.is_ok_and(late)
    }
}

fn twice<T: Ord + Copy>(names: impl Iterator<Item = T>) -> Option<T> {
    let mut names: Vec<T> = names.collect();
    names.sort_unstable();
    names.windows(2).find_map(|pair| match pair {
        [a, b] if a == b => Some(*a),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
