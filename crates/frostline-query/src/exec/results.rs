//! Partial answers of splits, cached on disk between queries and processes, and [`shared`] between machines.
//!
//! A split never changes, so the result of an aggregation over it under a filter never expires. An entry is
//! a file named by the hash of (split, aggregation, filter) with its own checksum; an entry that does not
//! verify is treated as absent. Losing the folder costs time, never an answer.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use frostline_base::SplitId;
use frostline_store::Repository;
use xxhash_rust::xxh3::Xxh3;

use crate::{Error, Result};
use entry::{VERSION, sealed, unsealed};
use shared::{Shared, Worth};

mod entry;
pub(crate) mod shared;

/// The result cache.
#[derive(Debug)]
pub struct Results {
    folder: PathBuf,
    bytes_max: u64,
    split_bytes_min: u64,
    bytes: AtomicU64,
    shared: Option<Shared>,
}

/// What a file takes on disk is a multiple of this, on most file systems.
const BLOCK_BYTES: u64 = 4 << 10;

/// The key of one partial answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key(u128);

impl Key {
    pub(crate) fn new(split: SplitId, parts: &[&[u8]]) -> Key {
        let mut hash = Xxh3::with_seed(VERSION);
        hash.update(split.to_string().as_bytes());
        for part in parts {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Key(hash.digest128())
    }

    pub(crate) fn bits(&self) -> u128 {
        self.0
    }
}

impl Results {
    /// The cache in `folder`, which is created if it does not exist; it holds at most about `bytes_max`.
    pub fn open(folder: &Path, bytes_max: u64) -> Result<Results> {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::unavailable(format!("cannot make {}", folder.display())).with_source(e))?;
        let bytes = AtomicU64::new(0);
        let folder = folder.to_owned();
        let results = Results { folder, bytes_max, split_bytes_min: 0, bytes, shared: None };
        results.bytes.store(results.files().iter().map(|file| file.bytes).sum(), Ordering::Relaxed);
        Ok(results)
    }

    /// The same cache, which keeps no answers of splits smaller than this.
    pub fn of_splits_from(self, split_bytes_min: u64) -> Results {
        Results { split_bytes_min, ..self }
    }

    /// Whether answers of a split of so many bytes are kept.
    pub(crate) fn keeps(&self, split_bytes: u64) -> bool {
        split_bytes >= self.split_bytes_min
    }

    /// The same cache, which shares answers with other machines through the repository: the objects of an index with
    /// them are deleted with it, or by a vacuum.
    pub fn sharing(self, repository: &Repository, worth: Worth) -> Results {
        Results { shared: Some(Shared { repository: repository.clone(), worth }), ..self }
    }

    /// Where answers are shared; none if they are not.
    pub(crate) fn shared(&self) -> Option<&Shared> {
        self.shared.as_ref()
    }

    /// Removes every entry.
    pub fn clear(&self) {
        for file in self.files() {
            // The file is already gone, as intended.
            let _ = std::fs::remove_file(file.path);
        }
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Bytes that the entries take on disk.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) async fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.path(key);
        let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await.ok()?.ok()?;
        unsealed(&read).map(<[u8]>::to_vec)
    }

    /// Stores an answer. A failure is ignored: the answer will be computed again.
    pub(crate) async fn put(&self, key: &Key, body: Vec<u8>) {
        let entry = sealed(body);
        let bytes = on_disk(entry.len() as u64);
        let path = self.path(key);
        let written = tokio::task::spawn_blocking(move || {
            let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
            std::fs::write(&unfinished, entry)?;
            std::fs::rename(unfinished, path)
        });
        if !matches!(written.await, Ok(Ok(()))) {
            return;
        }
        let total = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if total > self.bytes_max {
            self.shrink();
        }
    }

    /// Removes the oldest entries until half of the capacity is free.
    fn shrink(&self) {
        let mut files = self.files();
        files.sort_by_key(|file| file.modified);
        let mut held: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            if held <= self.bytes_max / 2 {
                break;
            }
            if std::fs::remove_file(file.path).is_ok() {
                held -= file.bytes;
            }
        }
        self.bytes.store(held, Ordering::Relaxed);
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{:032x}", key.0))
    }

    fn files(&self) -> Vec<Entry> {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let metadata = entry.metadata().ok()?;
                let modified = metadata.modified().ok()?;
                metadata.is_file().then(|| Entry {
                    path: entry.path(),
                    bytes: on_disk(metadata.len()),
                    modified,
                })
            })
            .collect()
    }
}

/// The bytes that a file of this length takes.
fn on_disk(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES)
}

struct Entry {
    path: PathBuf,
    bytes: u64,
    modified: std::time::SystemTime,
}

#[cfg(test)]
mod tests;
