//! One index at one version: its live splits, its mapping, and the progress of its sources.

use std::fmt;
use std::sync::Arc;

use frostline_base::{Error, IndexName, Result, SplitId};
use frostline_commits::{Replica, Start};
use frostline_split::Mapping;

use crate::access::{BLOCKED_INDEX, Block};
use crate::actions::Commit;
use crate::file_entry::{FileEntry, file_path};
use crate::log::Log;
use crate::schema::{self, KeptMapping, Settings};
use crate::shared::Shared;
use crate::split_entry::{ForeignFile, SplitEntry, split_key};
use crate::state::{Base, State};
use crate::{checkpoint, history};

/// One index at one version. Cheap to clone and immutable: [`Index::refresh`] and
/// [`Index::commit`] return the next version.
#[derive(Clone)]
pub struct Index {
    pub(crate) shared: Arc<Shared>,
    pub(crate) log: Log,
    pub(crate) state: Arc<State>,
    /// When the log was last seen to end at this version.
    pub(crate) checked_us: i64,
    /// The newest checkpoint that this process knows of.
    pub(crate) checkpoint: Option<u64>,
    /// What is seen of the fields, if not all.
    pub(crate) seen: Option<Arc<Seen>>,
    /// Whether it is a version of a snapshot: then nothing is written, and there is no later version.
    pub(crate) is_mounted: bool,
}

/// Whether a field is seen.
pub type IsSeen = Arc<dyn Fn(&str) -> bool + Send + Sync>;

pub(crate) struct Seen {
    mapping: KeptMapping,
    is_seen: IsSeen,
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

    /// The table's identity, which changes if an index is deleted and re-created under the same name.
    pub fn table_id(&self) -> &str {
        &self.state.metadata.id
    }

    /// The identity that needle segments of the index bear: its table's, or that of the one that it was mounted or restored
    /// from, whose splits it has.
    pub fn terms_table(&self) -> &str {
        schema::terms_table(&self.state.metadata)
    }

    /// The fields.
    pub fn mapping(&self) -> &Mapping {
        &self.kept_mapping().mapping
    }

    /// A hash of them: of indices for which it is the same [`Index::mapping`] is, too. It is made once.
    pub fn mapping_digest(&self) -> u128 {
        self.kept_mapping().digest()
    }

    fn kept_mapping(&self) -> &KeptMapping {
        self.seen.as_ref().map_or(&self.state.described.mapping, |seen| &seen.mapping)
    }

    /// The same version, to be asked for whoever sees only some of the fields.
    ///
    /// Queries know no other fields, and documents are shown without them. Nothing is committed to it.
    #[must_use]
    pub fn with_fields(&self, is_seen: IsSeen) -> Index {
        let mapping = KeptMapping::new(self.state.described.mapping.mapping.seen(|path| is_seen(path)));
        Index { seen: Some(Arc::new(Seen { mapping, is_seen })), ..self.clone() }
    }

    /// Which fields of documents are seen; none where all are.
    pub fn fields_seen(&self) -> Option<&IsSeen> {
        self.seen.as_ref().map(|seen| &seen.is_seen)
    }

    /// The settings stored with the index.
    pub fn settings(&self) -> &Settings {
        &self.state.described.settings
    }

    /// The live splits, sorted by identity.
    pub fn splits(&self) -> &[Arc<SplitEntry>] {
        self.state.splits.row()
    }

    /// The live split of that identity.
    pub fn split(&self, id: SplitId) -> Option<&Arc<SplitEntry>> {
        self.state.splits.get(&id)
    }

    /// Live files that another tool committed. Their rows cannot be searched, and the answer to a query must say
    /// so.
    pub fn foreign(&self) -> &[Arc<ForeignFile>] {
        self.state.foreign.row()
    }

    /// The further files that the log names, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = &Arc<FileEntry>> {
        self.state.files.values()
    }

    /// The key of the repository's term hashes: what [`crate::Catalog::term_key`] gives and costs.
    pub async fn term_key(&self) -> Result<Option<[u8; 16]>> {
        self.shared.term_key().await
    }

    /// The position up to which `source` is ingested, from the last commit that named it.
    pub fn progress(&self, source: &str) -> Option<i64> {
        self.state.progress.get(source).map(|reached| reached.position)
    }

    /// When the position of `source` last moved, in milliseconds since 1970; `None` if unknown. The position
    /// expires [`Settings::progress_retention_ms`] later; commit it again to keep it.
    pub fn progress_moved_ms(&self, source: &str) -> Option<i64> {
        self.state.progress.get(source)?.moved_ms
    }

    /// Every source with its position, in the order of their names.
    pub fn sources(&self) -> impl Iterator<Item = (&str, i64)> {
        self.state.progress.iter().map(|(source, reached)| (source.as_str(), reached.position))
    }

    /// The key below the repository's root where the object of a new split must be put before it is
    /// committed.
    pub fn split_key(&self, id: SplitId) -> String {
        split_key(&self.log.folder, id)
    }

    /// The key below the repository's root where the object of a new further file must be put before it is committed.
    pub fn file_key(&self, id: SplitId, kind: &str) -> String {
        format!("{}/{}", self.log.folder, file_path(id, kind))
    }

    /// The newest version. One GET if nothing changed (it answers "not found"); one more for each new
    /// version, and one LIST if there are three or more. `NotFound` if the index was deleted, as long as its
    /// last commit exists.
    ///
    /// An index that was not refreshed for half of `log_retention_ms` is opened again instead, because the commits
    /// it would look for may have expired.
    pub async fn refresh(&self) -> Result<Index> {
        if self.is_mounted {
            return self.refresh_mount().await;
        }
        if self.is_stale() {
            return Index::open(Arc::clone(&self.shared), self.log.clone()).await;
        }
        let checked_us = self.shared.clock.now_us();
        let commits = self.log.commits.newer(self.version() + 1).await;
        let commits = self.shared.unless_deleted(&self.log, commits).await?;
        if commits.is_empty() {
            return Ok(Index { checked_us, ..self.clone() });
        }
        let state = Arc::new(self.state.after(&self.log.folder, &commits)?);
        warn_of_foreign(&self.log, &state, self.state.foreign.len());
        Ok(Index { state, checked_us, ..self.clone() })
    }

    /// Whether it is mounted from a snapshot: it is searched in place, and nothing changes it.
    pub fn is_mounted(&self) -> bool {
        self.is_mounted
    }

    /// Refuses what would change a mounted index.
    pub(crate) fn check_unmounted(&self) -> Result<()> {
        match self.is_mounted {
            false => Ok(()),
            true => Err(Error::invalid("the index is mounted from a snapshot, and nothing changes it")
                .with(BLOCKED_INDEX, self.name())
                .with("block", Block::Write.name())),
        }
    }

    /// The version of a snapshot, as an index with an identity of its own.
    pub(crate) fn of_mount(shared: Arc<Shared>, log: Log, state: State, table: String) -> Index {
        let checked_us = shared.clock.now_us();
        let metadata = Arc::new(schema::copied(&state.metadata, table));
        let state = Arc::new(State { metadata, ..state });
        Index { shared, log, state, checked_us, checkpoint: None, seen: None, is_mounted: true }
    }

    async fn refresh_mount(&self) -> Result<Index> {
        let checked_us = self.shared.clock.now_us();
        match self.lives().await? {
            true => Ok(Index { checked_us, ..self.clone() }),
            false => Err(Error::not_found(format!("the index {} was deleted", self.name()))),
        }
    }

    /// Whether the repository log names this very table, or this very mount.
    pub(crate) async fn lives(&self) -> Result<bool> {
        if !self.is_mounted {
            return self.shared.lives(&self.log).await;
        }
        let registry = self.shared.registry_as_read().await?;
        Ok(registry.indices.get(self.name()).is_some_and(|now| now.table.as_deref() == Some(self.table_id())))
    }

    /// Writes a checkpoint of this version, to speed up opening. Commits do this
    /// automatically every `checkpoint_commits` versions. `Invalid` where [`Index::commit`] is: a table with features that
    /// a checkpoint would have to preserve.
    pub async fn checkpoint(&self) -> Result<Index> {
        self.check_unmounted()?;
        self.state.protocol.check_writable()?;
        let now_ms = self.shared.clock.now_us() / 1_000;
        checkpoint::write(&self.log, &self.state, self.checkpoint, now_ms).await?;
        Ok(Index { checkpoint: Some(self.version()), ..self.clone() })
    }

    /// What each of the newest `limit` versions did, newest first. One GET each. Versions whose commit
    /// files have expired are left out.
    pub async fn history(&self, limit: usize) -> Result<Vec<history::Event>> {
        history::read(&self.log, self.version(), limit).await
    }

    pub(crate) fn is_stale(&self) -> bool {
        let age_ms = self.shared.clock.now_us().saturating_sub(self.checked_us) / 1_000;
        age_ms > self.settings().log_retention_ms / 2
    }

    /// Opens the newest version: `_last_checkpoint` (one GET); then, at once, one LIST from there and the
    /// checkpoint itself (one GET for each 8 MiB); then the commits after it, at once (one GET each).
    pub(crate) async fn open(shared: Arc<Shared>, log: Log) -> Result<Index> {
        let read = Index::read(Arc::clone(&shared), log.clone()).await;
        shared.unless_deleted(&log, read).await
    }

    async fn read(shared: Arc<Shared>, log: Log) -> Result<Index> {
        let checked_us = shared.clock.now_us();
        let Some(start) = log.commits.start().await? else {
            return Err(Error::not_found(format!("there is no index {}", log.index)));
        };
        Index::replay(shared, log, start, checked_us).await
    }

    /// Opens that version. The log may be longer, so refreshing this opens the index again.
    pub(crate) async fn open_at(shared: Arc<Shared>, log: Log, version: u64) -> Result<Index> {
        let read = async {
            let start = log.commits.start_up_to(version, 0).await.map_err(|e| e.with("index", &log.index))?;
            Index::replay(Arc::clone(&shared), log.clone(), start, i64::MIN).await
        };
        let read = read.await;
        shared.unless_deleted(&log, read).await
    }

    /// The version that `commit` created: the first.
    pub(crate) fn first(shared: Arc<Shared>, log: Log, commit: &Commit) -> Result<Index> {
        let state = State::replay(&log.folder, Base::default(), std::slice::from_ref(commit))?;
        let checked_us = shared.clock.now_us();
        Ok(Index {
            shared,
            log,
            state: Arc::new(state),
            checked_us,
            checkpoint: None,
            seen: None,
            is_mounted: false,
        })
    }

    async fn replay(shared: Arc<Shared>, log: Log, start: Start, checked_us: i64) -> Result<Index> {
        let checkpoint = start.checkpoint.as_ref().map(|(version, _)| *version);
        let folder = log.folder.clone();
        let base = match start.checkpoint {
            Some((version, objects)) => {
                let read = move |objects: &[_]| checkpoint::read(&folder, version, objects);
                checkpoint::decode(objects, read).await?
            }
            None => Base::default(),
        };
        let commits = log.commits.entries(start.entries).await?;
        let state = Arc::new(State::replay(&log.folder, base, &commits)?);
        state.described.settings.check()?;
        warn_of_foreign(&log, &state, 0);
        Ok(Index { shared, log, state, checked_us, checkpoint, seen: None, is_mounted: false })
    }
}

impl Replica for Index {
    fn next(&self) -> u64 {
        self.version() + 1
    }

    async fn refresh(&self) -> Result<Index> {
        Index::refresh(self).await
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("name", &self.name().as_str())
            .field("version", &self.version())
            .field("splits", &self.state.splits.len())
            .finish_non_exhaustive()
    }
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
