//! Changing an index: one conditional put of the next version, tried again when somebody else was first.
//!
//! Guarantees:
//! - A commit is applied wholly, once, or not at all.
//! - Two writers at once lose nothing: who comes second reads what came first, checks that its own change
//!   still makes sense, merges the mappings and takes the next version.
//! - A put without an answer is *unknown*. It is resolved by reading the version back and comparing the
//!   commit's identity; until a version is known to be filled, the very same bytes are put to it again and
//!   nothing else, so a late put can neither apply a change twice nor overtake it.

use std::sync::Arc;

use frostline_base::{Error, ErrorKind, Result, SplitId};
use frostline_split::Mapping;
use serde_json::json;

use crate::actions::{Commit, MetaData, Remove, Txn};
use crate::index::Index;
use crate::log::Put;
use crate::schema;
use crate::split_entry::SplitEntry;

/// Versions that a commit loses to others before it gives up.
const LOST_MAX: usize = 100;
/// Puts of one version without an answer before a commit gives up.
const UNKNOWN_MAX: usize = 8;

/// What one commit does, all of it or nothing.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Splits that become live. Their objects must be whole before this is committed.
    pub add: Vec<SplitEntry>,
    /// Splits that stop being live. Each must be live, or the commit is a `Conflict`.
    pub remove: Vec<SplitId>,
    /// Fields to merge into the index's mapping.
    pub mapping: Option<Mapping>,
    /// Sources and the position up to which this change takes them in. A position at or below the one already
    /// committed is a `Conflict`: somebody has taken these documents in.
    pub progress: Vec<(String, i64)>,
    /// What the history calls it, such as `ingest`, `merge` or `delete`.
    pub operation: String,
    /// The rows stay the same and only move to other splits, as in a merge. Tools that follow the table's
    /// changes then skip it.
    pub rearranges: bool,
}

impl Index {
    /// Applies `change` to the newest version and gives back the version that has it.
    ///
    /// `Conflict` when the change no longer makes sense: a split to remove is gone, a split to add is there, or a
    /// source's position was reached by somebody else. `Unavailable` when the store does not answer: the change
    /// may then be applied, so open the index again and look at [`Index::progress`]. `NotFound` when the index
    /// was deleted. A change that changes nothing writes nothing.
    ///
    /// One PUT where nobody interferes. Each version lost to another writer adds one PUT and three GETs. Every
    /// `checkpoint_commits` versions a checkpoint is written before this returns; its failure is logged only.
    pub async fn commit(&self, change: Change) -> Result<Index> {
        let id = self.shared.new_id();
        let mut base = if self.is_stale() { self.refresh().await? } else { self.clone() };
        for _ in 0..LOST_MAX {
            base.state.protocol.check_writable()?;
            let Some(commit) = base.plan(&change, &id)? else { return Ok(base) };
            if base.try_put(&commit, &id).await? {
                return base.advance(&commit).await;
            }
            base = base.refresh().await?;
        }
        Err(Error::conflict(format!("other writers of index {} were always first", self.name()))
            .with("attempts", LOST_MAX))
    }

    /// The commit that applies `change` right after this version; `None` when there is nothing to do.
    fn plan(&self, change: &Change, id: &str) -> Result<Option<Commit>> {
        self.check(change)?;
        let metadata = self.grown(change.mapping.as_ref())?;
        if change.add.is_empty()
            && change.remove.is_empty()
            && change.progress.is_empty()
            && metadata.is_none()
        {
            return Ok(None);
        }
        let now_ms = self.shared.clock.now_us() / 1_000;
        let data_change = !change.rearranges;
        let removed = change.remove.iter().filter_map(|id| self.state.split(*id)).collect::<Vec<_>>();
        let version = self.version() + 1;
        let txn = |(source, position): &(String, i64)| Txn {
            app_id: source.clone(),
            version: *position,
            last_updated: Some(now_ms),
        };
        Ok(Some(Commit {
            version,
            key: self.log.commit_path(version).to_string(),
            info: self.info(change, id, now_ms, &removed),
            protocol: None,
            metadata,
            txns: change.progress.iter().map(txn).collect(),
            removes: removed
                .iter()
                .map(|split| split.to_remove(now_ms, data_change))
                .collect::<Vec<Remove>>(),
            adds: change.add.iter().map(|split| split.to_add(now_ms, data_change)).collect(),
        }))
    }

    /// Whether `change` makes sense after this version.
    fn check(&self, change: &Change) -> Result<()> {
        for entry in &change.add {
            entry.check(self.name()).map_err(|why| {
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
            return Err(Error::conflict("a split to remove is not live any more").with("split", id));
        }
        if let Some(source) = twice(change.progress.iter().map(|(source, _)| source)) {
            return Err(Error::invalid("a change names a source twice").with("source", source));
        }
        for (source, position) in &change.progress {
            if let Some(reached) = self.progress(source).filter(|reached| reached >= position) {
                return Err(Error::conflict("the source was already taken in up to there")
                    .with("source", source)
                    .with("position", position)
                    .with("reached", reached));
            }
        }
        Ok(())
    }

    /// The metadata with `mapping` merged in, where that changes it.
    fn grown(&self, mapping: Option<&Mapping>) -> Result<Option<MetaData>> {
        let Some(wanted) = mapping else { return Ok(None) };
        let mut merged = self.mapping().clone();
        if !merged.merge(wanted)? {
            return Ok(None);
        }
        let mut metadata = self.state.metadata.clone();
        schema::set_mapping(&mut metadata, &merged)?;
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
            "engineInfo": crate::ENGINE,
            "txnId": id,
            "frostlineTable": self.table_id(),
        })
    }

    /// Whether this commit filled its version; false when another one did.
    pub(crate) async fn try_put(&self, commit: &Commit, id: &str) -> Result<bool> {
        let bytes = bytes::Bytes::from(commit.render()?);
        let mut last = None;
        for _ in 0..UNKNOWN_MAX {
            match self.log.create_commit(commit.version, bytes.clone()).await? {
                Put::Created => return Ok(true),
                Put::Exists => {}
                Put::Unknown(e) => last = Some(e),
            }
            match self.log.commit(commit.version).await {
                Ok(Some(there)) => return Ok(there.id() == Some(id)),
                Ok(None) => {}
                Err(e) if e.kind() == ErrorKind::Unavailable => last = Some(e),
                Err(e) => return Err(e),
            }
        }
        let unknown =
            Error::unavailable("the store did not answer; whether the commit was applied is not known")
                .with("index", self.name())
                .with("version", commit.version);
        Err(match last {
            Some(e) => unknown.with_source(e),
            None => unknown,
        })
    }

    /// This index after its own commit, with a checkpoint written when one is due.
    async fn advance(&self, commit: &Commit) -> Result<Index> {
        let state = self.state.after(self.name(), std::slice::from_ref(commit))?;
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
        look && self.log.hint().await.is_ok_and(late)
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
