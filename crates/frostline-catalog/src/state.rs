//! What a version of the log says, in memory: the checkpoint plus the commits after it, replayed.
//!
//! A state never changes; [`State::after`] makes the next one, at the cost of what changed. Everything else is shared
//! between versions.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::path::Path;

use frostline_base::{Error, Result, SplitId};

use crate::actions::{Commit, MetaData, Protocol};
use crate::file_entry::{self, FileEntry};
use crate::schema::Described;
use crate::sorted::Sorted;
use crate::split_entry::{ForeignFile, LiveFile, SplitEntry, live_file, split_of_path};

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) version: u64,
    pub(crate) protocol: Protocol,
    pub(crate) metadata: Arc<MetaData>,
    pub(crate) described: Arc<Described>,
    pub(crate) splits: Sorted<SplitId, Arc<SplitEntry>>,
    /// By path.
    pub(crate) foreign: Sorted<String, Arc<ForeignFile>>,
    pub(crate) progress: Sorted<String, Reached>,
    /// By path.
    pub(crate) files: Sorted<String, Arc<FileEntry>>,
}

/// Where a source is, and since when if its writer said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) position: i64,
    pub(crate) moved_ms: Option<i64>,
}

/// What a checkpoint holds, or nothing yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base {
    pub(crate) version: Option<u64>,
    /// The object it was read from, for messages.
    pub(crate) at: String,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) metadata: Option<Arc<MetaData>>,
    pub(crate) splits: Sorted<SplitId, Arc<SplitEntry>>,
    pub(crate) foreign: Sorted<String, Arc<ForeignFile>>,
    pub(crate) progress: Sorted<String, Reached>,
    pub(crate) files: Sorted<String, Arc<FileEntry>>,
    /// When the last of the commits was made, by its writer's clock.
    pub(crate) newest_ms: Option<i64>,
}

/// Versions after which sources are looked over for those that may be forgotten.
const LOOKS_EVERY: u64 = 64;

/// What commits change, by key; the last change of each applies.
#[derive(Default)]
struct Changes {
    splits: BTreeMap<SplitId, Option<Arc<SplitEntry>>>,
    foreign: BTreeMap<String, Option<Arc<ForeignFile>>>,
    progress: BTreeMap<String, Option<Reached>>,
    files: BTreeMap<String, Option<Arc<FileEntry>>>,
}

impl State {
    /// The state after `commits`, which follow `base` without a hole.
    pub(crate) fn replay(folder: &Path, mut base: Base, commits: &[Commit]) -> Result<State> {
        base.apply(folder, commits)?;
        base.finish(None)
    }

    /// The state after `commits`, which follow this one without a hole.
    pub(crate) fn after(&self, folder: &Path, commits: &[Commit]) -> Result<State> {
        let mut base = Base {
            version: Some(self.version),
            at: String::new(),
            protocol: Some(self.protocol.clone()),
            metadata: Some(Arc::clone(&self.metadata)),
            splits: self.splits.clone(),
            foreign: self.foreign.clone(),
            progress: self.progress.clone(),
            files: self.files.clone(),
            newest_ms: None,
        };
        base.apply(folder, commits)?;
        base.finish(Some(self))
    }
}

impl Changes {
    fn take(&mut self, folder: &Path, commit: &Commit) -> Result<()> {
        for txn in &commit.txns {
            let reached = Reached { position: txn.version, moved_ms: txn.last_updated };
            self.progress.insert(txn.app_id.clone(), Some(reached));
        }
        for domain in &commit.domains {
            if let Some((path, file)) = file_entry::read(folder, &commit.key, domain)? {
                self.files.insert(path, file.map(Arc::new));
            }
        }
        for remove in &commit.removes {
            match split_of_path(&remove.path) {
                Some(id) => drop(self.splits.insert(id, None)),
                None => drop(self.foreign.insert(remove.path.clone(), None)),
            }
        }
        for add in &commit.adds {
            if add.deletion_vector.as_ref().is_some_and(|v| !v.is_null()) {
                return Err(Error::invalid(
                    "another tool deleted rows of a split in place, which Frostline cannot read",
                )
                .with("object", &commit.key)
                .with("split", &add.path));
            }
            let tags = add.tags.iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_deref()?)));
            match live_file(folder, &commit.key, &add.path, add.size, tags)? {
                LiveFile::Split(entry) => {
                    self.splits.insert(entry.id, Some(Arc::new(entry)));
                }
                LiveFile::Foreign(file) => {
                    self.foreign.insert(file.path.clone(), Some(Arc::new(file)));
                }
            }
        }
        Ok(())
    }
}

impl Base {
    fn apply(&mut self, folder: &Path, commits: &[Commit]) -> Result<()> {
        let mut changes = Changes::default();
        for commit in commits {
            self.apply_metadata(commit)?;
            changes.take(folder, commit)?;
        }
        self.splits = self.splits.after(changes.splits);
        self.foreign = self.foreign.after(changes.foreign);
        self.progress = self.progress.after(changes.progress);
        self.files = self.files.after(changes.files);
        Ok(())
    }

    fn apply_metadata(&mut self, commit: &Commit) -> Result<()> {
        if commit.drops_index() {
            return Err(Error::not_found("the index was deleted").with("object", &commit.key));
        }
        if let Some(protocol) = &commit.protocol {
            self.protocol = Some(protocol.clone());
        }
        if let Some(metadata) = &commit.metadata {
            self.metadata = Some(Arc::new(metadata.clone()));
            self.at.clone_from(&commit.key);
        }
        let ours = self.metadata.as_ref().map(|m| m.id.as_str());
        if commit.table_id().is_some_and(|id| Some(id) != ours) {
            return Err(Error::corrupt("a commit file belongs to an earlier index of this name; delete it")
                .with("object", &commit.key));
        }
        self.version = Some(commit.version);
        self.newest_ms = commit.info.get("timestamp").and_then(serde_json::Value::as_i64);
        Ok(())
    }

    /// Checks that nothing is missing. `before` lends its mapping when the metadata is still the same.
    fn finish(self, before: Option<&State>) -> Result<State> {
        let missing = |what: &str| Error::corrupt(format!("the log has no {what}")).with("object", &self.at);
        let version = self.version.ok_or_else(|| missing("version"))?;
        let protocol = self.protocol.ok_or_else(|| missing("protocol"))?;
        let metadata = self.metadata.ok_or_else(|| missing("metadata"))?;
        protocol.check_readable()?;
        let described = match before.filter(|before| Arc::ptr_eq(&before.metadata, &metadata)) {
            Some(before) => Arc::clone(&before.described),
            None => Arc::new(Described::read(&metadata, &self.at)?),
        };
        let Base { splits, foreign, mut progress, files, newest_ms, .. } = self;
        let is_due = before.is_none_or(|before| before.version / LOOKS_EVERY != version / LOOKS_EVERY);
        if let Some(now_ms) = newest_ms.filter(|_| is_due) {
            let forgotten_ms = now_ms.saturating_sub(described.settings.progress_retention_ms);
            let is_over = |reached: &Reached| reached.moved_ms.is_some_and(|moved| moved <= forgotten_ms);
            let over = progress.iter().filter(|(_, reached)| is_over(reached));
            progress = progress.after(over.map(|(source, _)| (source.clone(), None)).collect());
        }
        Ok(State { version, protocol, metadata, described, splits, foreign, progress, files })
    }
}
