//! The log of a repository's volumes: which snapshots exist, and which are being written.
//!
//! A snapshot exists if and only if the log says so. The log is in `_volumes/log` and has the protocol of
//! [`frostline_commits`].

mod record;
mod state;

use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

use frostline_base::{Error, Result};
use frostline_commits::{Appended, CommitLog, Layout, Replica, objects};

pub use record::{Consistency, Snapshot, SnapshotName, Totals, VolumeName};
pub(crate) use record::{LogEntry, Running};
pub(crate) use state::State;

const FOLDER: &str = "_volumes/log";
const LAYOUT: Layout = Layout { checkpoint_ending: "json", steps_max: 64 };
/// As long as the state is not larger than this, a checkpoint follows each entry.
const CHECKPOINT_BYTES_CHEAP: usize = 4096;
/// Number of entries between checkpoints of a larger state.
const CHECKPOINT_ENTRIES: u64 = 16;

/// The log of one repository.
#[derive(Clone, Debug)]
pub(crate) struct Log(CommitLog<LogEntry>);

/// The log as it was replayed.
#[derive(Clone)]
struct Seen {
    log: CommitLog<LogEntry>,
    state: Arc<State>,
}

impl Replica for Seen {
    fn next(&self) -> u64 {
        self.state.next()
    }

    async fn refresh(&self) -> Result<Seen> {
        let entries = self.log.newer(self.next()).await?;
        Ok(Seen { state: after(&self.state, entries), log: self.log.clone() })
    }
}

fn after(state: &Arc<State>, entries: Vec<LogEntry>) -> Arc<State> {
    let mut state = State::clone(state);
    entries.into_iter().for_each(|entry| state.apply(entry));
    Arc::new(state)
}

impl Log {
    pub(crate) fn new(store: Arc<dyn ObjectStore>) -> Log {
        Log(CommitLog::new(store, Path::from(FOLDER), LAYOUT))
    }

    /// The newest state. One GET of the hint, then at once one of the checkpoint and one for each entry after it.
    pub(crate) async fn read(&self) -> Result<Arc<State>> {
        let Some(replay) = self.0.replay().await? else { return Ok(Arc::default()) };
        let base = match replay.checkpoint {
            Some((version, objects)) => Arc::new(State::read_checkpoint(version, &objects)?),
            None => Arc::default(),
        };
        Ok(after(&base, replay.entries))
    }

    /// Appends the entry that `plan` makes of the newest state, and returns the state after it.
    pub(crate) async fn append(
        &self,
        base: Arc<State>,
        plan: impl Fn(&State) -> Result<Option<LogEntry>> + Send + Sync,
    ) -> Result<Arc<State>> {
        let base = Seen { log: self.0.clone(), state: base };
        let plan = |seen: &Seen| Ok(plan(&seen.state)?.map(|entry| entry.numbered(seen.next())));
        match self.0.append(base, plan).await? {
            Appended { base, entry: None } => Ok(base.state),
            Appended { base, entry: Some(entry) } => {
                let state = after(&base.state, vec![entry]);
                self.checkpoint(&state).await;
                Ok(state)
            }
        }
    }

    /// The entry is committed: without a checkpoint the log is only slower to read.
    async fn checkpoint(&self, state: &State) {
        let written = async {
            let (version, bytes) = state.write_checkpoint()?;
            if bytes.len() > CHECKPOINT_BYTES_CHEAP && !version.is_multiple_of(CHECKPOINT_ENTRIES) {
                return Ok(());
            }
            let hint = serde_json::json!({ "version": version, "sizeInBytes": bytes.len() }).to_string();
            for (path, bytes) in
                [(self.0.checkpoint_path(version), bytes), (self.0.hint_path(), hint.into_bytes())]
            {
                self.0.store().put(&path, bytes.into()).await.map_err(|e| objects::failed(e, &path))?;
            }
            Ok::<(), Error>(())
        };
        if let Err(error) = written.await {
            tracing::warn!(?error, "no checkpoint of the log of volumes written");
        }
    }
}

#[cfg(test)]
mod tests;
