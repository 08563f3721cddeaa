//! The folder of a run: each sample is on disk before the next one begins.
//!
//! `samples.ndjson` is appended and synced and is authoritative; `run.json` is rewritten and replaced
//! atomically; `study.toml` is the study as it was. An incomplete last line is removed on resume. What a method has
//! written is there after a power cut once it returned, the names of files and folders included.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use frostline_base::{Error, Result};

use crate::host::{io, make_folders, replace, sync_entry};
use crate::record::{Run, Sample};
use crate::report;

const SAMPLES: &str = "samples.ndjson";
const RUN: &str = "run.json";
const STUDY: &str = "study.toml";
const RAW: &str = "raw";

/// A run's folder, open for more samples, which nobody else adds meanwhile.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    file: File,
    samples: Vec<Sample>,
    taken: BTreeSet<(String, u32)>,
}

impl Journal {
    /// A new run in `folder`.
    ///
    /// # Errors
    /// Conflict if a run is there already, or begins there at this moment; otherwise as the system.
    pub fn create(folder: &Path, study: &str) -> Result<Journal> {
        if folder.join(SAMPLES).exists() || folder.join(RUN).exists() {
            return Err(Error::conflict(format!(
                "{} holds a run; continue it with --resume, or choose another --out",
                folder.display()
            )));
        }
        make_folders(&folder.join(RAW))?;
        replace(&folder.join(STUDY), study.as_bytes())?;
        let journal = Journal::open(folder)?;
        sync_entry(&folder.join(SAMPLES))?;
        Ok(journal)
    }

    /// The run in `folder` as far as it came, its study's text and its header.
    ///
    /// # Errors
    /// NotFound if there is none, Conflict while it is running, Corrupt if it cannot be read, Invalid if a newer version
    /// wrote it.
    pub fn resume(folder: &Path) -> Result<(Journal, String, Run)> {
        let run = report::read_run(folder)?;
        let text = folder.join(STUDY);
        let study = fs::read_to_string(&text).map_err(|e| io(e, "cannot read", &text))?;
        // A run may have been archived without its raw files.
        make_folders(&folder.join(RAW))?;
        Ok((Journal::open(folder)?, study, run))
    }

    fn open(folder: &Path) -> Result<Journal> {
        let path = folder.join(SAMPLES);
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|e| io(e, "cannot open", &path))?;
        // Before the samples are read, to which whoever runs it adds. The kernel unlocks it with the process.
        file.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => Error::conflict(format!(
                "the run in {} is running: wait for its end, or stop it",
                folder.display()
            )),
            TryLockError::Error(e) => io(e, "cannot lock", &path),
        })?;
        let samples = read_samples(&path)?;
        let taken = samples.iter().map(|sample| (sample.cell.clone(), sample.block)).collect();
        Ok(Journal { folder: folder.to_path_buf(), file, samples, taken })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All samples so far.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Whether the cell has its sample of the block.
    pub fn has(&self, cell: &str, block: u32) -> bool {
        self.taken.contains(&(cell.to_owned(), block))
    }

    /// The path below `raw/` of a sample's files, without their extensions.
    pub fn raw(&self, name: &str) -> PathBuf {
        self.folder.join(RAW).join(name)
    }

    /// Adds a sample. It is on disk when this returns.
    ///
    /// # Errors
    /// As the system.
    pub fn append(&mut self, sample: Sample) -> Result<()> {
        let mut line = serde_json::to_vec(&sample)
            .map_err(|e| Error::internal("cannot encode a sample").with_source(e))?;
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.map_err(|e| io(e, "cannot write", &self.folder.join(SAMPLES)))?;
        self.taken.insert((sample.cell.clone(), sample.block));
        self.samples.push(sample);
        Ok(())
    }

    /// Puts `run` in place of the one that is there.
    ///
    /// # Errors
    /// As the system.
    pub fn write_run(&self, run: &Run) -> Result<()> {
        let text = serde_json::to_vec_pretty(run)
            .map_err(|e| Error::internal("cannot encode a run").with_source(e))?;
        replace(&self.folder.join(RUN), &text)
    }
}

impl Drop for Journal {
    /// A child that another thread starts has the file open until it runs its program, and would keep it locked.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// All samples of the file; a last line without its end is removed from it.
fn read_samples(path: &Path) -> Result<Vec<Sample>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(io(e, "cannot read", path)),
    };
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() {
        let file = OpenOptions::new().write(true).open(path).map_err(|e| io(e, "cannot open", path))?;
        file.set_len(whole as u64).map_err(|e| io(e, "cannot cut", path))?;
    }
    let lines = bytes[..whole].split(|b| *b == b'\n').filter(|line| !line.is_empty());
    lines
        .enumerate()
        .map(|(at, line)| {
            serde_json::from_slice(line).map_err(|e| {
                Error::corrupt(format!("{}, line {}, is not a sample", path.display(), at + 1)).with_source(e)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
