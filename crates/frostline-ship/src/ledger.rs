//! How far each input was delivered, in a file.
//!
//! The record has two marks for each input: up to where it was *sent*, written before the request, and up to where the
//! server has *acknowledged* it, written after. A later run knows the file by the first and resumes at the second, so
//! it gives the documents between them the same `_id`s again. The file is replaced whole and synced; a lock beside it
//! keeps a second process away.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use frostline_base::{Error, Result};
use frostline_ingest::{KnownInput, Reached};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

/// The record of one destination.
#[derive(Debug)]
pub(crate) struct Ledger {
    path: PathBuf,
    state: State,
    /// The number of the batch that is acknowledged next, and those that were acknowledged before their turn.
    next: u64,
    early: BTreeMap<u64, Vec<Reached>>,
    /// Holds the lock.
    _lock: File,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    version: u32,
    /// 128 random bits, so that `_id`s of different shippers differ.
    shipper: String,
    inputs: BTreeMap<String, Kept>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    acknowledged: Mark,
    sent: Mark,
    /// When this was written, in milliseconds since 1970.
    at_ms: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    offset: u64,
    hash: u64,
}

impl Mark {
    fn of(reached: &Reached) -> Mark {
        Mark { offset: reached.offset, hash: reached.hash }
    }
}

impl Ledger {
    /// Opens the record, or begins one for a `new` shipper. What is older than `oldest_ms` is forgotten. `Conflict`: another
    /// process has it. `Corrupt`: the file is none.
    pub(crate) fn open(path: &Path, new: u128, oldest_ms: i64) -> Result<Ledger> {
        let cannot = |verb: &str, path: &Path, error: io::Error| {
            Error::unavailable(format!("cannot {verb} {}", path.display())).with_source(error)
        };
        let folder = folder_of(path);
        fs::create_dir_all(folder).map_err(|error| cannot("make", folder, error))?;
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock_path = PathBuf::from(lock_path);
        let lock = File::options().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(|error| cannot("open", &lock_path, error))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => Error::conflict(format!(
                "another frostline ship uses {}: give this one a --state of its own",
                path.display()
            )),
            error => cannot("lock", &lock_path, error.into()),
        })?;
        let mut state = match fs::read(path) {
            Ok(text) => parse(&text).map_err(|error| error.with("file", path.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                State { version: VERSION, shipper: format!("{new:032x}"), inputs: BTreeMap::new() }
            }
            Err(error) => return Err(cannot("read", path, error)),
        };
        state.inputs.retain(|_, kept| kept.at_ms >= oldest_ms);
        Ok(Ledger { path: path.to_owned(), state, next: 0, early: BTreeMap::new(), _lock: lock })
    }

    /// What distinguishes this shipper's documents.
    pub(crate) fn shipper(&self) -> Result<u128> {
        u128::from_str_radix(&self.state.shipper, 16)
            .map_err(|error| Error::corrupt("the record has no shipper").with_source(error))
    }

    /// The inputs as a reader continues them.
    pub(crate) fn known(&self) -> Vec<KnownInput> {
        let inputs = self.state.inputs.iter();
        let known = inputs.map(|(input, kept)| KnownInput {
            input: input.clone(),
            offset: kept.sent.offset,
            hash: kept.sent.hash,
            resume: kept.acknowledged.offset,
            moved_us: kept.at_ms.saturating_mul(1_000),
        });
        known.collect()
    }

    /// Records that a batch will be sent.
    pub(crate) fn begin(&mut self, reached: &[Reached], now_ms: i64) -> Result<()> {
        let mut is_new = false;
        for reached in reached {
            let kept = self.state.inputs.entry(reached.input.clone()).or_default();
            if reached.offset > kept.sent.offset {
                (kept.sent, kept.at_ms, is_new) = (Mark::of(reached), now_ms, true);
            }
        }
        if is_new { self.write() } else { Ok(()) }
    }

    /// Records that the server has a batch, and all before it.
    pub(crate) fn end(&mut self, number: u64, reached: Vec<Reached>, now_ms: i64) -> Result<()> {
        self.early.insert(number, reached);
        let mut is_new = false;
        while let Some(reached) = self.early.remove(&self.next) {
            self.next += 1;
            for reached in &reached {
                let kept = self.state.inputs.entry(reached.input.clone()).or_default();
                (kept.acknowledged, kept.at_ms, is_new) = (Mark::of(reached), now_ms, true);
            }
        }
        if is_new { self.write() } else { Ok(()) }
    }

    fn write(&self) -> Result<()> {
        let written = || {
            let mut temporary = self.path.as_os_str().to_owned();
            temporary.push(".new");
            let mut file = File::create(&temporary)?;
            file.write_all(&serde_json::to_vec(&self.state)?)?;
            file.sync_all()?;
            fs::rename(&temporary, &self.path)?;
            File::open(folder_of(&self.path))?.sync_all()
        };
        written().map_err(|error: io::Error| {
            Error::unavailable(format!("cannot write {}", self.path.display())).with_source(error)
        })
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn parse(text: &[u8]) -> Result<State> {
    let state: State = serde_json::from_slice(text).map_err(|error| {
        Error::corrupt("the file is not a record of frostline ship: remove it to begin anew")
            .with_source(error)
    })?;
    match state.version {
        VERSION => Ok(state),
        version => Err(Error::invalid(format!("the record has version {version}, which is not known here"))),
    }
}

#[cfg(test)]
mod tests;
