//! What a version of the log says, in memory: the checkpoint plus the commits after it, replayed.
//!
//! A state never changes; [`State::after`] makes the next one. Entries are shared between versions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use object_store::path::Path;

use frostline_base::{Error, Result, SplitId};

use crate::actions::{Commit, MetaData, Protocol};
use crate::schema::Described;
use crate::split_entry::{ForeignFile, LiveFile, SplitEntry, live_file, split_of_path};

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) version: u64,
    pub(crate) protocol: Protocol,
    pub(crate) metadata: MetaData,
    pub(crate) described: Arc<Described>,
    /// Sorted by identity.
    pub(crate) splits: Vec<Arc<SplitEntry>>,
    /// Sorted by path.
    pub(crate) foreign: Vec<Arc<ForeignFile>>,
    pub(crate) progress: BTreeMap<String, i64>,
}

/// What a checkpoint holds, or nothing yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base {
    pub(crate) version: Option<u64>,
    /// The object it was read from, for messages.
    pub(crate) at: String,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) metadata: Option<MetaData>,
    pub(crate) splits: Vec<Arc<SplitEntry>>,
    pub(crate) foreign: Vec<Arc<ForeignFile>>,
    pub(crate) progress: BTreeMap<String, i64>,
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
            metadata: Some(self.metadata.clone()),
            splits: self.splits.clone(),
            foreign: self.foreign.clone(),
            progress: self.progress.clone(),
        };
        base.apply(folder, commits)?;
        base.finish(Some(self))
    }

    /// The live split of that identity.
    pub(crate) fn split(&self, id: SplitId) -> Option<&Arc<SplitEntry>> {
        let at = self.splits.binary_search_by_key(&id, |split| split.id).ok()?;
        self.splits.get(at)
    }
}

impl Base {
    fn apply(&mut self, folder: &Path, commits: &[Commit]) -> Result<()> {
        let mut splits: HashMap<SplitId, Option<Arc<SplitEntry>>> = HashMap::new();
        let mut foreign: HashMap<String, Option<Arc<ForeignFile>>> = HashMap::new();
        for commit in commits {
            self.apply_metadata(commit)?;
            for remove in &commit.removes {
                if let Some(id) = split_of_path(&remove.path) {
                    splits.insert(id, None);
                }
                foreign.insert(remove.path.clone(), None);
            }
            for add in &commit.adds {
                if add.deletion_vector.as_ref().is_some_and(|v| !v.is_null()) {
                    return Err(Error::invalid("another tool deleted rows of a split in place")
                        .with("object", &commit.key)
                        .with("split", &add.path));
                }
                let tags = add.tags.iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_deref()?)));
                match live_file(folder, &commit.key, &add.path, add.size, tags)? {
                    LiveFile::Split(entry) => {
                        splits.insert(entry.id, Some(Arc::new(entry)));
                    }
                    LiveFile::Foreign(file) => {
                        foreign.insert(file.path.clone(), Some(Arc::new(file)));
                    }
                }
            }
        }
        self.splits.retain(|split| !splits.contains_key(&split.id));
        self.splits.extend(splits.into_values().flatten());
        self.splits.sort_unstable_by_key(|split| split.id);
        self.foreign.retain(|file| !foreign.contains_key(&file.path));
        self.foreign.extend(foreign.into_values().flatten());
        self.foreign.sort_unstable_by(|a, b| a.path.cmp(&b.path));
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
            self.metadata = Some(metadata.clone());
            self.at.clone_from(&commit.key);
        }
        let ours = self.metadata.as_ref().map(|m| m.id.as_str());
        if commit.table_id().is_some_and(|id| Some(id) != ours) {
            return Err(Error::corrupt("a commit file belongs to an earlier index of this name; delete it")
                .with("object", &commit.key));
        }
        for txn in &commit.txns {
            self.progress.insert(txn.app_id.clone(), txn.version);
        }
        self.version = Some(commit.version);
        Ok(())
    }

    /// Checks that nothing is missing. `before` lends its mapping when the metadata is still the same.
    fn finish(self, before: Option<&State>) -> Result<State> {
        let missing = |what: &str| Error::corrupt(format!("the log has no {what}")).with("object", &self.at);
        let version = self.version.ok_or_else(|| missing("version"))?;
        let protocol = self.protocol.ok_or_else(|| missing("protocol"))?;
        let metadata = self.metadata.ok_or_else(|| missing("metadata"))?;
        protocol.check_readable()?;
        let described = match before.filter(|before| before.metadata == metadata) {
            Some(before) => Arc::clone(&before.described),
            None => Arc::new(Described::read(&metadata, &self.at)?),
        };
        let (splits, foreign, progress) = (self.splits, self.foreign, self.progress);
        Ok(State { version, protocol, metadata, described, splits, foreign, progress })
    }
}
