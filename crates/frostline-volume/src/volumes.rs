//! The volumes of a repository.

use std::fmt;
use std::sync::Arc;

use frostline_base::{Clock, Result};
use frostline_store::Repository;

use crate::log::{Log, Snapshot, SnapshotName, VolumeName};
use crate::reader;
use crate::seal::{self, VolumeKey};
use crate::tree::{Entry, Tree};

/// Draws the names of snapshots.
pub type Random = Arc<dyn Fn() -> u128 + Send + Sync>;

/// The volumes of a repository. Cheap to clone.
#[derive(Clone)]
pub struct Volumes {
    pub(crate) repository: Repository,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Random,
    pub(crate) log: Log,
    pub(crate) key: Option<VolumeKey>,
}

impl Volumes {
    /// Those in `repository`. No request is made.
    pub fn new(repository: &Repository, clock: Arc<dyn Clock>, random: Random) -> Volumes {
        let log = Log::new(repository.object_store());
        Volumes { repository: repository.clone(), clock, random, log, key: None }
    }

    /// The same with the key of encrypted volumes: what is stored is encrypted with it.
    pub fn with_key(self, key: Option<VolumeKey>) -> Volumes {
        Volumes { key, ..self }
    }

    /// The snapshots of a volume, oldest first. `NotFound` names the known volumes.
    pub async fn list_of(&self, volume: &VolumeName) -> Result<Vec<Snapshot>> {
        let state = self.log.read().await?;
        state.check(volume)?;
        Ok(state.of(volume).into_iter().cloned().collect())
    }

    /// Every snapshot, by volume, oldest first.
    pub async fn list(&self) -> Result<Vec<Snapshot>> {
        let mut all: Vec<Snapshot> = self.log.read().await?.snapshots.values().cloned().collect();
        all.sort_by(|a, b| (&a.volume, a.number).cmp(&(&b.volume, b.number)));
        Ok(all)
    }

    /// The record of a snapshot. `NotFound` says what there is.
    pub async fn find(&self, name: &SnapshotName) -> Result<Snapshot> {
        Ok(self.log.read().await?.find(name)?.clone())
    }

    /// What a snapshot holds, in the byte order of the paths.
    pub async fn entries(&self, snapshot: &Snapshot) -> Result<Vec<Entry>> {
        Ok(self.tree(snapshot).await?.entries)
    }

    pub(crate) async fn tree(&self, snapshot: &Snapshot) -> Result<Tree> {
        let tree = async {
            let key = seal::check(self.key.as_ref(), snapshot)?;
            reader::tree(&self.repository, snapshot, key).await
        };
        tree.await.map_err(|e| e.context(format!("cannot open the snapshot {}", snapshot.name())))
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_us() / 1_000
    }
}

impl fmt::Debug for Volumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volumes").field("repository", &self.repository).finish_non_exhaustive()
    }
}
