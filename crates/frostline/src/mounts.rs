//! Which indices are mounted on this node: one small file each below the data directory.

use std::path::PathBuf;

use anyhow::{Context, Result};
use frostline_base::IndexName;
use serde::{Deserialize, Serialize};

use crate::config::Config;

/// A mounted index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub(crate) index: IndexName,
    /// The repository as it was named.
    pub(crate) repo: String,
    /// Where its bytes are kept near: nothing pinned, what is read often stays.
    pub(crate) tier: Tier,
    /// The cache's size for this index.
    pub(crate) cache_bytes: u64,
}

/// How much of an index is kept near.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tier {
    /// Nothing pinned; what is read often stays in the region cache.
    Frozen,
}

/// The mounts of one repository.
pub(crate) struct Mounts {
    folder: PathBuf,
}

impl Mounts {
    pub(crate) fn of(config: &Config, repo_key: &str) -> Mounts {
        Mounts { folder: config.data.join("mounts").join(repo_key) }
    }

    pub(crate) fn all(&self) -> Result<Vec<Mount>> {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Ok(Vec::new()) };
        let mut mounts = Vec::new();
        for entry in entries {
            let path = entry.with_context(|| format!("cannot read {}", self.folder.display()))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                let mount = serde_json::from_slice(&text)
                    .with_context(|| format!("{} is damaged: delete it and mount again", path.display()))?;
                mounts.push(mount);
            }
        }
        mounts.sort_by(|a: &Mount, b: &Mount| a.index.cmp(&b.index));
        Ok(mounts)
    }

    pub(crate) fn find(&self, index: &IndexName) -> Result<Option<Mount>> {
        Ok(self.all()?.into_iter().find(|mount| mount.index == *index))
    }

    pub(crate) fn put(&self, mount: &Mount) -> Result<()> {
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make {}", self.folder.display()))?;
        let path = self.path(&mount.index);
        let unfinished = path.with_extension("tmp");
        std::fs::write(&unfinished, serde_json::to_vec_pretty(mount)?)
            .and_then(|()| std::fs::rename(&unfinished, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Whether there was one.
    pub(crate) fn remove(&self, index: &IndexName) -> Result<bool> {
        let path = self.path(index);
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| format!("cannot remove {}", path.display())),
        }
    }

    fn path(&self, index: &IndexName) -> PathBuf {
        self.folder.join(format!("{index}.json"))
    }
}
