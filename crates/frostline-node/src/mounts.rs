//! Which indices are mounted on this machine: one small file for each, below the data directory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use frostline_base::{Cost, Error, IndexName, Result};
use serde::{Deserialize, Serialize};

/// No cache is smaller: a few regions are needed to be of any use.
const CACHE_BYTES_MIN: u64 = 1 << 20;

/// A mounted index: one that is searched through this machine's cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// The index.
    pub index: IndexName,
    /// The repository as it was named.
    pub repo: String,
    /// How much of the index is kept locally.
    pub tier: Tier,
    /// The cache's size for this index.
    pub cache_bytes: u64,
    /// Whether all of it is brought here.
    #[serde(default)]
    pub hydrate: Hydrate,
}

/// Whether all of a mounted index is brought here before it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hydrate {
    /// No: what is read comes here.
    #[default]
    Lazy,
    /// As fast as it can be.
    Now,
    /// At so many bytes a second.
    Rate(u64),
}

/// How much of an index is kept locally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// What is read often stays in the region cache, or all that was brought here.
    Frozen,
}

/// A mount and what it took.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// The mount.
    pub mount: Mount,
    /// Splits of the index.
    pub splits: usize,
    /// Their bytes.
    pub data_bytes: u64,
    /// Requests and bytes of fetching hot footers.
    pub cost: Cost,
    /// How long it took.
    pub took: Duration,
}

/// How large the cache of an index is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheSize {
    /// So many bytes.
    Bytes(u64),
    /// A percentage of the index as large as it is now.
    Percent(f64),
    /// Room for all of the index as large as it is now.
    Whole,
}

impl CacheSize {
    /// Bytes of cache for an index with `data_bytes` in its splits, of which all objects take `whole_bytes` of a cache.
    pub fn bytes(self, data_bytes: u64, whole_bytes: u64) -> u64 {
        let bytes = match self {
            CacheSize::Bytes(bytes) => bytes,
            CacheSize::Percent(percent) => (data_bytes as f64 * percent / 100.0) as u64,
            // It may grow a little.
            CacheSize::Whole => whole_bytes + whole_bytes / 16,
        };
        bytes.max(CACHE_BYTES_MIN)
    }
}

/// The mounts of one repository.
#[derive(Debug)]
pub struct Mounts {
    folder: PathBuf,
}

impl Mounts {
    pub(crate) fn of(data: &Path, repo_key: &str) -> Mounts {
        Mounts { folder: data.join("mounts").join(repo_key) }
    }

    /// All mounts, by name of the index. What cannot be read is not mounted.
    pub fn all(&self) -> Vec<Mount> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let mut mounts: Vec<Mount> = paths.filter_map(|path| read(&path)).collect();
        mounts.sort_by(|a, b| a.index.cmp(&b.index));
        mounts
    }

    /// The mount of an index.
    pub fn find(&self, index: &IndexName) -> Option<Mount> {
        read(&self.path(index)).filter(|mount| mount.index == *index)
    }

    pub(crate) fn put(&self, mount: &Mount) -> Result<()> {
        std::fs::create_dir_all(&self.folder).map_err(|e| failed("make", &self.folder, e))?;
        let path = self.path(&mount.index);
        let unfinished = path.with_extension("tmp");
        let text = serde_json::to_vec_pretty(mount)
            .map_err(|e| Error::internal("a mount cannot be written as JSON").with_source(e))?;
        std::fs::write(&unfinished, text)
            .and_then(|()| std::fs::rename(&unfinished, &path))
            .map_err(|e| failed("write", &path, e))
    }

    /// Whether there was one.
    pub(crate) fn remove(&self, index: &IndexName) -> Result<bool> {
        let path = self.path(index);
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("remove", &path, error)),
        }
    }

    fn path(&self, index: &IndexName) -> PathBuf {
        self.folder.join(format!("{index}.json"))
    }
}

/// The mount in a file. A damaged one costs the cache of its index, and no answer.
fn read(path: &Path) -> Option<Mount> {
    match std::fs::read(path).and_then(|text| Ok(serde_json::from_slice(&text)?)) {
        Ok(mount) => Some(mount),
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "a mount cannot be read: mount its index again");
            }
            None
        }
    }
}

fn failed(verb: &str, path: &Path, error: std::io::Error) -> Error {
    let what = format!("cannot {verb} {}", path.display());
    let error_of = match error.kind() {
        std::io::ErrorKind::PermissionDenied => Error::denied,
        std::io::ErrorKind::StorageFull => Error::exhausted,
        _ => Error::unavailable,
    };
    error_of(what).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_a_size_or_a_share_of_the_index_and_never_tiny() {
        assert_eq!(CacheSize::Bytes(5 << 20).bytes(1, 1), 5 << 20);
        assert_eq!(CacheSize::Percent(5.0).bytes(1 << 30, 1), (1 << 30) / 20);
        assert_eq!(CacheSize::Percent(0.1).bytes(1_000, 1), CACHE_BYTES_MIN);
        assert!(CacheSize::Whole.bytes(1 << 30, 2 << 30) > 2 << 30);
    }

    #[test]
    fn mounts_are_kept_by_name_and_a_damaged_one_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let mounts = Mounts::of(folder.path(), "key");
        let mount = |index: &str| Mount {
            index: index.parse().unwrap(),
            repo: "r".into(),
            tier: Tier::Frozen,
            cache_bytes: 1,
            hydrate: Hydrate::Lazy,
        };
        for name in ["web", "app"] {
            mounts.put(&mount(name)).unwrap();
        }
        let names = || -> Vec<String> { mounts.all().iter().map(|mount| mount.index.to_string()).collect() };
        let [app, web]: [IndexName; 2] = ["app", "web"].map(|index| index.parse().unwrap());
        assert_eq!(names(), ["app", "web"]);
        // Empty, cut short, of another index.
        for damaged in ["", "{", &serde_json::to_string(&mount("xeb")).unwrap()] {
            std::fs::write(folder.path().join("mounts/key/web.json"), damaged).unwrap();
            assert_eq!(names()[0], "app");
            assert!(mounts.find(&web).is_none() && mounts.find(&app).is_some());
        }
        mounts.put(&mount("web")).unwrap();
        assert_eq!(names(), ["app", "web"]);
        assert!(mounts.remove(&app).unwrap());
        assert!(!mounts.remove(&app).unwrap());
    }
}
