//! The traces of volumes in a repository: see [`Trace`].
//!
//! - The next mount may be on another machine, so they are kept where the snapshots are.
//! - Each has a number and an identity in its name; the highest number counts. Whoever writes one deletes those before
//!   it. Of two mounts that write at once the one that writes last is believed.
//! - A mount does without what cannot be read or written.
//! - None is written to a repository without a snapshot of its volume. The repository may be a directory on a disk that is
//!   no longer mounted, and must not be created again in the mount point.

use std::sync::Arc;

use futures::TryStreamExt as _;
use tokio::sync::OnceCell;

use frostline_base::{Error, ErrorKind, Meter, Result};
use frostline_store::Repository;

use crate::log::{Log, VolumeName};
use crate::seal::{Seal, VolumeKey};
use crate::snapshot::blocking;
use crate::trace::{OBJECT_BYTES_MAX, Trace};
use crate::volumes::Random;

/// Where the traces of all volumes are.
pub(crate) const TRACES: &str = "_volumes/traces";

/// Those of one volume.
pub(crate) struct Traces {
    repository: Repository,
    random: Random,
    volume: VolumeName,
    key: Option<VolumeKey>,
    newest: OnceCell<Arc<Trace>>,
}

impl Traces {
    pub(crate) fn new(
        repository: &Repository,
        random: &Random,
        volume: &VolumeName,
        key: Option<&VolumeKey>,
    ) -> Traces {
        Traces {
            repository: repository.clone(),
            random: Arc::clone(random),
            volume: volume.clone(),
            key: key.cloned(),
            newest: OnceCell::new(),
        }
    }

    /// That of the mounts before, empty if there is none that can be read. It is read once.
    pub(crate) async fn newest(&self) -> Arc<Trace> {
        let read = async {
            match self.read().await {
                Ok(trace) => Arc::new(trace.unwrap_or_default()),
                Err(error) => {
                    tracing::info!(?error, volume = %self.volume, "there is no trace of an earlier mount");
                    Arc::default()
                }
            }
        };
        Arc::clone(self.newest.get_or_init(|| read).await)
    }

    async fn read(&self) -> Result<Option<Trace>> {
        /// Another mount may write a newer one after the traces are listed, and delete what was listed.
        const LOOKS_MAX: usize = 5;
        let mut error = None;
        for _ in 0..LOOKS_MAX {
            let Some((_, newest)) = self.list().await?.pop() else { return Ok(None) };
            match self.repository.get_up_to(&newest, OBJECT_BYTES_MAX, &Meter::default()).await {
                Ok(object) => {
                    let seal = self.seal(&newest)?;
                    let trace = blocking(move || Trace::decode(&object, seal.as_ref())).await;
                    return trace.map(Some).map_err(|e| e.with("object", newest));
                }
                Err(gone) if gone.kind() == ErrorKind::NotFound => error = Some(gone),
                Err(error) => return Err(error),
            }
        }
        error.map_or(Ok(None), Err)
    }

    /// Writes a newer one in place of all others. `NotFound` if the repository has no snapshot of the volume.
    pub(crate) async fn put(&self, trace: &Trace) -> Result<()> {
        if Log::new(self.repository.object_store()).read().await?.of(&self.volume).is_empty() {
            let what = format!("{} has no snapshot of the volume {}", self.repository.url(), self.volume);
            return Err(Error::not_found(what));
        }
        let before = self.list().await?;
        let number = before.last().map_or(0, |(number, _)| number.saturating_add(1));
        let key = format!("{TRACES}/{}/{number:020}-{:032x}", self.volume, (self.random)());
        let object = trace.encode(self.seal(&key)?.as_ref())?;
        self.repository.put(&key, object.into()).await?;
        self.repository.delete(before.iter().map(|(_, key)| key)).await
    }

    /// Their numbers and keys, the newest last.
    async fn list(&self) -> Result<Vec<(u64, String)>> {
        let listed = self.repository.list(&format!("{TRACES}/{}", self.volume));
        let listed: Vec<_> = listed.try_collect().await?;
        let ours = |key: String| {
            let (volume, number) = parts(&key)?;
            (volume == self.volume.as_str()).then_some((number, key))
        };
        let mut traces: Vec<_> = listed.into_iter().filter_map(|object| ours(object.key)).collect();
        traces.sort();
        Ok(traces)
    }

    fn seal(&self, object: &str) -> Result<Option<Seal>> {
        self.key.as_ref().map(|key| key.of(object)).transpose()
    }
}

/// The volume and the number of a trace; `None` for what is none.
pub(crate) fn parts(key: &str) -> Option<(&str, u64)> {
    let (volume, name) = key.strip_prefix(TRACES)?.strip_prefix('/')?.split_once('/')?;
    let (number, id) = name.split_once('-')?;
    let is_name = number.len() == 20
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && id.len() == 32
        && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    Some((volume, number.parse().ok().filter(|_| is_name)?))
}

#[cfg(test)]
mod tests;
