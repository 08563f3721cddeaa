//! One index's transaction log as objects: the only file that names keys below `_delta_log`.
//!
//! A commit file is created with a conditional put and never written again. What a put answered is one of
//! three things ([`Put`]), since a put that timed out may have been applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions};

use frostline_base::{ByteRange, Error, IndexName, Result};

use crate::actions::Commit;

/// A checkpoint longer than this is read in pieces of this size, all at once.
const PIECE_BYTES: u64 = 8 << 20;
/// Commit files read at the same time.
const READS_AT_ONCE: usize = 32;

#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) index: IndexName,
}

/// What a conditional put answered.
#[derive(Debug)]
pub(crate) enum Put {
    /// The object was created by this put.
    Created,
    /// An object is there. It may still be this very put's, when a layer below repeated it.
    Exists,
    /// No answer: applied, not applied, or about to be.
    Unknown(Error),
}

/// What a listing of the log shows.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) commits: BTreeMap<u64, ObjectMeta>,
    pub(crate) checkpoints: BTreeMap<u64, Parts>,
    /// Everything else that lies in the log.
    pub(crate) others: Vec<ObjectMeta>,
}

/// The objects of one checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    objects: BTreeMap<u64, ObjectMeta>,
    of: u64,
}

impl Log {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, index: IndexName) -> Self {
        Log { store, index }
    }

    /// The prefix of everything that belongs to the index.
    pub(crate) fn root(&self) -> Path {
        Path::from(self.index.as_str())
    }

    pub(crate) fn commit_path(&self, version: u64) -> Path {
        self.file(&format!("{version:020}.json"))
    }

    pub(crate) fn checkpoint_path(&self, version: u64) -> Path {
        self.file(&format!("{version:020}.checkpoint.parquet"))
    }

    pub(crate) fn hint_path(&self) -> Path {
        self.file("_last_checkpoint")
    }

    fn file(&self, name: &str) -> Path {
        Path::from(format!("{}/_delta_log/{name}", self.index))
    }

    /// One commit, or `None` when that version is not there. One GET.
    pub(crate) async fn commit(&self, version: u64) -> Result<Option<Commit>> {
        let path = self.commit_path(version);
        match get(self.store.as_ref(), &path).await? {
            Some(bytes) => Commit::parse(version, path.as_ref(), &bytes).map(Some),
            None => Ok(None),
        }
    }

    /// These commits, all asked for at once; each must be there.
    pub(crate) async fn commits(&self, versions: impl IntoIterator<Item = u64>) -> Result<Vec<Commit>> {
        let reads = versions.into_iter().map(|version| async move {
            let found = self.commit(version).await?;
            found.ok_or_else(|| {
                Error::corrupt("a commit file is missing from the log")
                    .with("object", self.commit_path(version))
            })
        });
        futures::stream::iter(reads).buffered(READS_AT_ONCE).try_collect().await
    }

    /// Creates the file of one version. One PUT.
    pub(crate) async fn create_commit(&self, version: u64, bytes: Bytes) -> Result<Put> {
        let path = self.commit_path(version);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&path, bytes.into(), options).await {
            Ok(_) => Ok(Put::Created),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(Put::Exists)
            }
            Err(e) => match failed(e, &path) {
                e if e.kind() == frostline_base::ErrorKind::Unavailable => Ok(Put::Unknown(e)),
                e => Err(e),
            },
        }
    }

    /// The version that `_last_checkpoint` names. One GET. A hint that cannot be read is no hint: the listing
    /// finds what it would have named.
    pub(crate) async fn hint(&self) -> Result<Option<u64>> {
        let path = self.hint_path();
        let Some(bytes) = get(self.store.as_ref(), &path).await? else { return Ok(None) };
        let version =
            serde_json::from_slice::<serde_json::Value>(&bytes).ok().and_then(|h| h.get("version")?.as_u64());
        if version.is_none() {
            tracing::warn!(object = %path, "the checkpoint hint cannot be read; listing the whole log instead");
        }
        Ok(version)
    }

    /// The log from `version` on. One LIST for each thousand objects.
    pub(crate) async fn list_from(&self, version: u64) -> Result<Listing> {
        let prefix = Path::from(format!("{}/_delta_log", self.index));
        // '-' sorts before '.', so this lies just before every object of that version.
        let offset = self.file(&format!("{version:020}-"));
        let mut objects = self.store.list_with_offset(Some(&prefix), &offset);
        let mut listing = Listing::default();
        while let Some(object) = objects.next().await {
            listing.push(object.map_err(|e| failed(e, &prefix))?);
        }
        Ok(listing)
    }

    /// All bytes of a checkpoint object: the first piece, then the others at once.
    pub(crate) async fn checkpoint_bytes(&self, path: &Path) -> Result<Option<Bytes>> {
        let first = GetOptions { range: Some((0..PIECE_BYTES).into()), ..GetOptions::default() };
        let first = match self.store.get_opts(path, first).await {
            Ok(first) => first,
            // An empty object has no first piece, and stores say so in different words.
            Err(_) => return get(self.store.as_ref(), path).await,
        };
        let bytes_total = first.meta.size;
        let first = first.bytes().await.map_err(|e| failed(e, path))?;
        if first.len() as u64 >= bytes_total {
            return Ok(Some(first));
        }
        let reads = pieces(first.len() as u64..bytes_total).map(|range| self.store.get_range(path, range));
        let rest = futures::future::try_join_all(reads).await.map_err(|e| failed(e, path))?;
        let mut whole = Vec::with_capacity(usize::try_from(bytes_total).unwrap_or_default());
        whole.extend_from_slice(&first);
        rest.iter().for_each(|piece| whole.extend_from_slice(piece));
        Ok(Some(whole.into()))
    }
}

impl Listing {
    pub(crate) fn push(&mut self, object: ObjectMeta) {
        match LogFile::of(object.location.filename().unwrap_or_default()) {
            LogFile::Commit(version) => {
                self.commits.insert(version, object);
            }
            LogFile::Checkpoint { version, part, of } => {
                // Parts of two different splittings of one version never make a whole: the larger count wins.
                let parts = self.checkpoints.entry(version).or_default();
                if of > parts.of {
                    *parts = Parts { objects: BTreeMap::new(), of };
                }
                if of == parts.of {
                    parts.objects.insert(part, object);
                }
            }
            LogFile::Other => self.others.push(object),
        }
    }

    /// The newest checkpoint that is whole.
    pub(crate) fn checkpoint(&self) -> Option<(u64, Vec<Path>)> {
        let newest = self.checkpoints.iter().rev().find(|(_, parts)| parts.is_whole())?;
        Some((*newest.0, newest.1.paths()))
    }

    /// The newest whole checkpoint of a version up to `version`.
    pub(crate) fn checkpoint_at_most(&self, version: u64) -> Option<u64> {
        self.checkpoints.range(..=version).rev().find(|(_, parts)| parts.is_whole()).map(|(at, _)| *at)
    }

    /// The versions after `base` that are there. A hole between two of them is `Corrupt`.
    pub(crate) fn commits_after(&self, base: Option<u64>, log: &Log) -> Result<Vec<u64>> {
        let first = base.map_or(0, |base| base + 1);
        let versions: Vec<u64> = self.commits.range(first..).map(|(version, _)| *version).collect();
        match versions.iter().zip(first..).find(|(found, wanted)| **found != *wanted) {
            None => Ok(versions),
            Some((_, missing)) => Err(Error::corrupt("a commit file is missing from the log")
                .with("object", log.commit_path(missing))),
        }
    }

    /// The newest version that a commit file has.
    pub(crate) fn newest_commit(&self) -> Option<u64> {
        self.commits.keys().next_back().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.commits.is_empty() && self.checkpoints.is_empty()
    }
}

impl Parts {
    fn is_whole(&self) -> bool {
        self.objects.len() as u64 == self.of
    }

    fn paths(&self) -> Vec<Path> {
        self.objects.values().map(|object| object.location.clone()).collect()
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &ObjectMeta> {
        self.objects.values()
    }
}

enum LogFile {
    Commit(u64),
    Checkpoint { version: u64, part: u64, of: u64 },
    Other,
}

impl LogFile {
    fn of(name: &str) -> LogFile {
        let fields: Vec<&str> = name.split('.').collect();
        let number =
            |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let version = fields.first().filter(|v| v.len() == 20).and_then(|v| number(v));
        match (version, fields.get(1..).unwrap_or_default()) {
            (Some(version), ["json"]) => LogFile::Commit(version),
            (Some(version), ["checkpoint", "parquet"]) => LogFile::Checkpoint { version, part: 1, of: 1 },
            (Some(version), ["checkpoint", part, of, "parquet"]) => match (number(part), number(of)) {
                (Some(part), Some(of)) if (1..=of).contains(&part) => {
                    LogFile::Checkpoint { version, part, of }
                }
                _ => LogFile::Other,
            },
            _ => LogFile::Other,
        }
    }
}

fn pieces(range: ByteRange) -> impl Iterator<Item = ByteRange> {
    let end = range.end;
    let starts = (0_u64..).map(move |i| range.start + i * PIECE_BYTES).take_while(move |start| *start < end);
    starts.map(move |start| start..end.min(start + PIECE_BYTES))
}

/// An object's bytes, or `None` when there is none. One GET.
pub(crate) async fn get(store: &dyn ObjectStore, path: &Path) -> Result<Option<Bytes>> {
    match store.get(path).await {
        Ok(found) => found.bytes().await.map(Some).map_err(|e| failed(e, path)),
        Err(e @ object_store::Error::NotFound { .. }) if !frostline_store::is_bucket_missing(&e) => Ok(None),
        Err(e) => Err(failed(e, path)),
    }
}

/// Deletes objects, in no particular order; one that is gone already is no error.
pub(crate) async fn delete(store: &dyn ObjectStore, paths: Vec<Path>) -> Result<()> {
    let wanted: BTreeSet<Path> = paths.into_iter().collect();
    let root = wanted.first().cloned().unwrap_or_default();
    let stream = futures::stream::iter(wanted.into_iter().map(Ok)).boxed();
    let mut deleted = store.delete_stream(stream);
    while let Some(outcome) = deleted.next().await {
        match outcome {
            Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
            Err(e) => return Err(failed(e, &root)),
        }
    }
    Ok(())
}

/// The error of a request that the store refused or did not answer, with what to do about it.
pub(crate) fn failed(e: object_store::Error, path: &Path) -> Error {
    frostline_store::explain("the repository", "reach", path.as_ref(), e)
}

#[cfg(test)]
mod tests;
