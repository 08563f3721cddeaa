//! One index at one version: its live splits, its mapping, how far its sources have been taken in.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;

use frostline_base::{Error, IndexName, Result, SplitId};
use frostline_split::Mapping;

use crate::actions::Commit;
use crate::catalog::Shared;
use crate::log::{Listing, Log};
use crate::schema::Settings;
use crate::split_entry::{ForeignFile, SplitEntry, split_key};
use crate::state::{Base, State};
use crate::{checkpoint, history, vacuum};

/// Versions that a refresh reads one after the other before it lists what is left.
const STEPS_MAX: usize = 3;

/// One index at one version. Cheap to clone; what it says never changes: [`Index::refresh`] and
/// [`Index::commit`] give back the next one.
#[derive(Clone)]
pub struct Index {
    pub(crate) shared: Arc<Shared>,
    pub(crate) log: Log,
    pub(crate) state: Arc<State>,
    /// When the log was last seen to end at this version.
    pub(crate) checked_us: i64,
    /// The newest checkpoint that this process knows of.
    pub(crate) checkpoint: Option<u64>,
}

impl Index {
    /// The index's name.
    pub fn name(&self) -> &IndexName {
        &self.log.index
    }

    /// The version of the log that this is.
    pub fn version(&self) -> u64 {
        self.state.version
    }

    /// The table's identity: another one after an index of the same name was deleted and made again.
    pub fn table_id(&self) -> &str {
        &self.state.metadata.id
    }

    /// The fields.
    pub fn mapping(&self) -> &Mapping {
        &self.state.described.mapping
    }

    /// The settings stored with the index.
    pub fn settings(&self) -> &Settings {
        &self.state.described.settings
    }

    /// The live splits, sorted by identity.
    pub fn splits(&self) -> &[Arc<SplitEntry>] {
        &self.state.splits
    }

    /// The live split of that identity.
    pub fn split(&self, id: SplitId) -> Option<&Arc<SplitEntry>> {
        self.state.split(id)
    }

    /// Live files that another tool committed. Their rows cannot be searched: whoever answers a query says
    /// so.
    pub fn foreign(&self) -> &[Arc<ForeignFile>] {
        &self.state.foreign
    }

    /// The position up to which `source` has been taken in: the one of the last commit that named it.
    pub fn progress(&self, source: &str) -> Option<i64> {
        self.state.progress.get(source).copied()
    }

    /// The key below the repository's root where the object of a new split must be put before it is
    /// committed.
    pub fn split_key(&self, id: SplitId) -> String {
        split_key(&self.log.index, id)
    }

    /// The newest version. One GET when nothing changed (it answers "not found"); one more for each new
    /// version, and one LIST when there are three or more. `NotFound` when the index was deleted, as long as its
    /// last commit is there.
    ///
    /// An index that was not refreshed for half of `log_retention_ms` is opened afresh instead: the commits
    /// it would look for may be gone.
    pub async fn refresh(&self) -> Result<Index> {
        if self.is_stale() {
            return Index::open(Arc::clone(&self.shared), self.log.clone()).await;
        }
        let checked_us = self.shared.clock.now_us();
        let commits = self.newer_commits().await?;
        if commits.is_empty() {
            return Ok(Index { checked_us, ..self.clone() });
        }
        let state = Arc::new(self.state.after(&self.log.index, &commits)?);
        warn_of_foreign(&self.log, &state, self.state.foreign.len());
        Ok(Index { state, checked_us, ..self.clone() })
    }

    /// Writes a checkpoint of this version, through which the index opens faster. Commits do it by
    /// themselves every `checkpoint_commits` versions.
    pub async fn checkpoint(&self) -> Result<Index> {
        checkpoint::write(&self.log, self.version()).await?;
        Ok(Index { checkpoint: Some(self.version()), ..self.clone() })
    }

    /// What each of the newest `limit` versions did, newest first. One GET each. Versions whose commit
    /// files have expired are left out.
    pub async fn history(&self, limit: usize) -> Result<Vec<history::Event>> {
        history::read(&self.log, self.version(), limit).await
    }

    /// Deletes the objects that no live or recent version names. See [`vacuum::Vacuum`].
    pub async fn vacuum(&self, wanted: &vacuum::Vacuum) -> Result<vacuum::Vacuumed> {
        vacuum::run(self, wanted).await
    }

    pub(crate) fn is_stale(&self) -> bool {
        let age_ms = self.shared.clock.now_us().saturating_sub(self.checked_us) / 1_000;
        age_ms > self.settings().log_retention_ms / 2
    }

    /// Opens the newest version: `_last_checkpoint` (one GET); then, at once, one LIST from there and the
    /// checkpoint itself (one GET for each 8 MiB); then the commits after it, at once (one GET each).
    pub(crate) async fn open(shared: Arc<Shared>, log: Log) -> Result<Index> {
        let checked_us = shared.clock.now_us();
        let hint = log.hint().await?;
        let (base, versions) = match find(&log, hint).await? {
            Some(found) => found,
            // The hint named what is not there (any more): the whole listing knows.
            None => find(&log, None).await?.unwrap_or_default(),
        };
        let checkpoint = base.version;
        if base.version.is_none() && versions.is_empty() {
            return Err(no_such_index(&log.index));
        }
        let commits = log.commits(versions).await?;
        let state = Arc::new(State::replay(&log.index, base, &commits)?);
        state.described.settings.check()?;
        warn_of_foreign(&log, &state, 0);
        Ok(Index { shared, log, state, checked_us, checkpoint })
    }

    async fn newer_commits(&self) -> Result<Vec<Commit>> {
        let mut commits: Vec<Commit> = Vec::new();
        let mut next = self.version() + 1;
        while commits.len() < STEPS_MAX {
            let Some(commit) = self.log.commit(next).await? else { return Ok(commits) };
            let dropped = commit.drops_index();
            commits.push(commit);
            if dropped {
                return Ok(commits);
            }
            next += 1;
        }
        let listing = self.log.list_from(next).await?;
        commits.extend(self.log.commits(listing.commits_after(Some(next - 1), &self.log)?).await?);
        Ok(commits)
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("name", &self.name().as_str())
            .field("version", &self.version())
            .field("splits", &self.splits().len())
            .finish_non_exhaustive()
    }
}

/// The newest checkpoint and the versions after it. `None` when the hint names a checkpoint that is not
/// there.
async fn find(log: &Log, hint: Option<u64>) -> Result<Option<(Base, Vec<u64>)>> {
    let from = hint.unwrap_or(0);
    let path = log.checkpoint_path(from);
    let hinted = async {
        match hint {
            Some(_) => log.checkpoint_bytes(&path).await,
            None => Ok(None),
        }
    };
    let (listing, hinted) = futures::future::try_join(log.list_from(from), hinted).await?;
    if listing.is_empty() {
        return Ok(None);
    }
    let objects = match (hinted, listing.checkpoint()) {
        // Another writer may have gone on since the hint was written: the newer checkpoint wins when
        // commits between the two are gone already.
        (Some(bytes), _) if listing.commits_after(hint, log).is_ok() => Some((from, vec![(path, bytes)])),
        (_, Some((version, paths))) => Some((version, read_all(log, paths).await?)),
        _ if hint.is_some() => return Ok(None),
        _ => None,
    };
    let Some((version, objects)) = objects else {
        return Ok(Some((Base::default(), whole_log(&listing, log)?)));
    };
    let versions = listing.commits_after(Some(version), log)?;
    let index = log.index.clone();
    let base = checkpoint::decode(objects, move |objects| checkpoint::read(&index, version, objects)).await?;
    Ok(Some((base, versions)))
}

/// All versions of a log without a checkpoint. What does not begin at version 0 is the rest of a deleted
/// index, or not a log at all.
fn whole_log(listing: &Listing, log: &Log) -> Result<Vec<u64>> {
    if !listing.commits.contains_key(&0) {
        return Err(no_such_index(&log.index));
    }
    listing.commits_after(None, log)
}

pub(crate) async fn read_all(log: &Log, paths: Vec<Path>) -> Result<Vec<(Path, Bytes)>> {
    let reads = paths.into_iter().map(|path| async move {
        let bytes = log.checkpoint_bytes(&path).await?;
        let gone = || {
            Error::unavailable("a checkpoint went away while it was read; try again").with("object", &path)
        };
        let bytes = bytes.ok_or_else(gone)?;
        Ok((path, bytes))
    });
    futures::future::try_join_all(reads).await
}

pub(crate) fn no_such_index(index: &IndexName) -> Error {
    Error::not_found(format!("there is no index {index}"))
}

fn warn_of_foreign(log: &Log, state: &State, known: usize) {
    if state.foreign.len() > known {
        tracing::warn!(
            index = %log.index,
            version = state.version,
            files = state.foreign.len(),
            "another tool committed files that Frostline cannot search"
        );
    }
}

#[cfg(test)]
mod tests;
