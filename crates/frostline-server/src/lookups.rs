//! Files that ingest pipelines look things up in: databases of addresses (`.mmdb`), and patterns of user agents (`.yml`,
//! `.yaml`), in one folder.
//!
//! They are read when the server starts and when they have changed. A file that cannot be used is told in the log, once,
//! and what it was before stays in use; so a file that is being copied does no harm. What is in use never changes: who
//! has it keeps it.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use frostline_base::{Error, Result};
use frostline_pipeline::{Addresses, Agents};
use parking_lot::RwLock;

/// The longest file, which is held in memory.
const FILE_BYTES_MAX: u64 = 2 << 30;

/// The files of a folder.
#[derive(Debug)]
pub(crate) struct Lookups {
    /// None where there are no files.
    folder: Option<PathBuf>,
    files: RwLock<BTreeMap<String, File>>,
}

#[derive(Clone, Debug)]
struct File {
    /// What it looked like when it was read.
    seen: Seen,
    /// None where it never could be used.
    held: Option<Held>,
}

#[derive(Clone, Debug)]
enum Held {
    Addresses(Arc<Addresses>),
    Agents(Arc<Agents>),
}

/// By what a file that has changed is told: its time, its length and which file it is.
type Seen = (i64, i64, u64, u64);

fn seen(metadata: &Metadata) -> Seen {
    (metadata.mtime(), metadata.mtime_nsec(), metadata.len(), metadata.ino())
}

impl Lookups {
    /// Reads the files of a folder. `Invalid` where there is no such folder.
    pub(crate) fn open(folder: Option<PathBuf>) -> Result<Lookups> {
        let lookups = Lookups { folder, files: RwLock::default() };
        lookups.read().map(|()| lookups)
    }

    /// Whether there are files that may change.
    pub(crate) fn has_folder(&self) -> bool {
        self.folder.is_some()
    }

    /// Uses the files as they are now, if they have changed and can be used.
    pub(crate) fn reload(&self) {
        if let Err(error) = self.read() {
            tracing::warn!(?error, "the files of ingest pipelines stay as they were");
        }
    }

    fn read(&self) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let before = self.files.read().clone();
        let cannot = |e| {
            Error::invalid(format!("cannot read the folder of --ingest-files, {}", folder.display()))
                .with_source(e)
        };
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(folder).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // What a link leads to counts. A file that is gone by now is not there.
            let Ok(metadata) = std::fs::metadata(entry.path()) else { continue };
            if name.starts_with('.') || !metadata.is_file() || Kind::of(&name).is_none() {
                continue;
            }
            let (seen, known) = (seen(&metadata), before.get(&name));
            let file = match known {
                Some(known) if known.seen == seen => known.clone(),
                _ => {
                    let held = read(&entry.path(), &name, metadata.len());
                    if let Err(error) = &held {
                        tracing::warn!(?error, file = %name, "a file of ingest pipelines cannot be used");
                    }
                    let held = held.ok().or_else(|| known.and_then(|known| known.held.clone()));
                    File { seen, held }
                }
            };
            files.insert(name, file);
        }
        *self.files.write() = files;
        Ok(())
    }

    fn held(&self, name: &str) -> Option<Held> {
        self.files.read().get(name)?.held.clone()
    }

    /// The database of a file, if there is one.
    pub(crate) fn addresses(&self, name: &str) -> Option<Arc<Addresses>> {
        match self.held(name)? {
            Held::Addresses(addresses) => Some(addresses),
            Held::Agents(_) => None,
        }
    }

    /// The patterns of a file, if there are any.
    pub(crate) fn agents(&self, name: &str) -> Option<Arc<Agents>> {
        match self.held(name)? {
            Held::Agents(agents) => Some(agents),
            Held::Addresses(_) => None,
        }
    }

    /// The files of databases that can be used.
    pub(crate) fn databases(&self) -> Vec<String> {
        let files = self.files.read();
        let is_database = |file: &File| matches!(file.held, Some(Held::Addresses(_)));
        files.iter().filter(|(_, file)| is_database(file)).map(|(name, _)| name.clone()).collect()
    }
}

enum Kind {
    Addresses,
    Agents,
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        match Path::new(name).extension()?.to_str()? {
            "mmdb" => Some(Kind::Addresses),
            "yml" | "yaml" => Some(Kind::Agents),
            _ => None,
        }
    }
}

fn read(path: &Path, name: &str, bytes: u64) -> Result<Held> {
    if bytes > FILE_BYTES_MAX {
        return Err(Error::invalid(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    let read = std::fs::read(path).map_err(|e| Error::unavailable("it cannot be read").with_source(e))?;
    match Kind::of(name) {
        Some(Kind::Agents) => {
            let text =
                String::from_utf8(read).map_err(|e| Error::invalid("it is not text").with_source(e))?;
            Ok(Held::Agents(Arc::new(Agents::parse(&text)?)))
        }
        _ => Ok(Held::Addresses(Arc::new(Addresses::read(read)?))),
    }
}

#[cfg(test)]
mod tests;
