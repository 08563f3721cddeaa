//! The workload that runs while the device is recorded, and what must survive a power cut.
//!
//! It has three patterns that programs rely on, and one that only creates work for the journal:
//!
//! - a new file is written and synced, and its directory is synced;
//! - one file grows by a record at a time, with `fdatasync`;
//! - a file is replaced: the next version is written beside it, synced, renamed over it, and the directory is synced;
//! - scratch files are created, renamed and deleted, and never synced.
//!
//! After each sync returns, a mark in the log records what is guaranteed from then on.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use super::Work;

const FILES_PREFIX: &str = "file-";
const GROWING: &str = "growing";
const REPLACED: &str = "replaced";
/// Begins every line of a file that was deleted before the workload began, and no line of a later one.
const STALE: &str = "stale";
const LINE: usize = 64;

/// What had been acknowledged by some point of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Promised {
    /// New files, counted from the first.
    pub(super) files: usize,
    /// Records of the growing file.
    pub(super) records: usize,
    /// Version of the replaced file; 0 is none.
    pub(super) version: usize,
}

/// What a mounted file system has against a promise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Acknowledged, and missing, short or of an older version.
    pub lost: Vec<String>,
    /// Acknowledged, and with other bytes.
    pub wrong: Vec<String>,
    /// Bytes of a deleted file, in any file.
    pub stale: Vec<String>,
}

/// The workload above, with so many steps.
pub(super) struct Standard {
    pub(super) steps: usize,
}

impl Work for Standard {
    fn run(&mut self, at: &Path, mark: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        run(at, self.steps, mark)
    }

    fn judge(&self, at: &Path, marks: &[&str]) -> Findings {
        judge(at, Promised::of(marks.iter().copied()))
    }
}

impl Promised {
    /// Adds up marks; others than those of the workload are passed over.
    pub(super) fn of<'a>(marks: impl Iterator<Item = &'a str>) -> Promised {
        let mut promised = Promised::default();
        for mark in marks {
            let Some((what, count)) = mark.split_once(' ') else { continue };
            let Ok(count) = count.parse() else { continue };
            match what {
                "files" => promised.files = count,
                "records" => promised.records = count,
                "version" => promised.version = count,
                _ => {}
            }
        }
        promised
    }
}

/// Writes up to `bytes` of stale lines, as many as there is room for, and deletes them, so that free blocks
/// are not zeroes.
pub(super) fn leave_stale_blocks(at: &Path, bytes: usize) -> io::Result<()> {
    let path = at.join("filler");
    let mut file = File::create(&path)?;
    let part = lines(STALE, 0, 1 << 20);
    for _ in 0..bytes >> 20 {
        match file.write_all(&part) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
            written => written?,
        }
    }
    file.sync_all()?;
    fs::remove_file(&path)?;
    sync(at)
}

/// Runs `steps` steps of all patterns in the file system at `at`, calling `mark` after every promise.
pub(super) fn run(at: &Path, steps: usize, mut mark: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    let mut growing = File::create(at.join(GROWING))?;
    for step in 0..steps {
        let mut file = File::create(at.join(file_name(step)))?;
        file.write_all(&file_content(step))?;
        file.sync_all()?;
        sync(at)?;
        mark(&format!("files {}", step + 1))?;

        growing.write_all(&record(step))?;
        growing.sync_data()?;
        if step == 0 {
            sync(at)?;
        }
        mark(&format!("records {}", step + 1))?;

        if step % 2 == 1 {
            churn(at, step)?;
        }
        if step % 3 == 2 {
            let version = step / 3 + 1;
            replace(at, version)?;
            mark(&format!("version {version}"))?;
        }
    }
    Ok(())
}

fn replace(at: &Path, version: usize) -> io::Result<()> {
    let next = at.join("replaced.next");
    let mut file = File::create(&next)?;
    file.write_all(&version_content(version))?;
    file.sync_all()?;
    fs::rename(&next, at.join(REPLACED))?;
    sync(at)
}

/// Metadata for the journal, without any guarantee.
fn churn(at: &Path, step: usize) -> io::Result<()> {
    let from = at.join(format!("scratch-{}", step % 7));
    let to = at.join(format!("scratch-{}", (step + 2) % 7));
    fs::create_dir_all(&from)?;
    fs::create_dir_all(&to)?;
    for nth in 0..6 {
        let made = from.join(format!("made-{step}-{nth}"));
        fs::write(&made, lines("scratch", step, 3000))?;
        let moved = to.join(format!("moved-{nth}"));
        fs::rename(made, &moved)?;
        if nth % 2 == 1 {
            fs::remove_file(moved)?;
        }
    }
    Ok(())
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Compares the file system at `at` with what was promised.
pub(super) fn judge(at: &Path, promised: Promised) -> Findings {
    let mut findings = Findings::default();
    for number in 0..promised.files {
        let name = file_name(number);
        findings.compare(&name, fs::read(at.join(&name)), &file_content(number));
    }
    let records: Vec<u8> = (0..promised.records).flat_map(record).collect();
    // What follows the promised records may be there or not.
    let grown = fs::read(at.join(GROWING)).map(|mut bytes| {
        bytes.truncate(records.len());
        bytes
    });
    if promised.records > 0 {
        findings.compare(GROWING, grown, &records);
    }
    if promised.version > 0 {
        findings.compare_version(fs::read(at.join(REPLACED)), promised.version);
    }
    findings.look_for_stale_bytes(at);
    findings
}

impl Findings {
    fn compare(&mut self, name: &str, found: io::Result<Vec<u8>>, wanted: &[u8]) {
        match found {
            Ok(bytes) if bytes == wanted => {}
            Ok(bytes) if wanted.starts_with(&bytes) => {
                self.lost.push(format!("{name} has {} of {} bytes", bytes.len(), wanted.len()));
            }
            Ok(bytes) => {
                let at = bytes.iter().zip(wanted).position(|(found, wanted)| found != wanted);
                let at = at.unwrap_or(bytes.len().min(wanted.len()));
                self.wrong.push(format!("{name} differs from byte {at} on"));
            }
            Err(error) => self.lost.push(format!("{name}: {error}")),
        }
    }

    /// A newer version than the promised one may be there, but whole.
    fn compare_version(&mut self, found: io::Result<Vec<u8>>, promised: usize) {
        let version = found.as_ref().ok().and_then(|bytes| version_of(bytes));
        match version {
            Some(version) if version < promised => {
                self.lost.push(format!("{REPLACED} has version {version} instead of {promised}"));
            }
            _ => self.compare(REPLACED, found, &version_content(version.unwrap_or(promised))),
        }
    }

    fn look_for_stale_bytes(&mut self, directory: &Path) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.look_for_stale_bytes(&path);
            } else if fs::read(&path).is_ok_and(|bytes| has_stale_line(&bytes)) {
                self.stale.push(format!("{} shows a deleted file", entry.file_name().display()));
            }
        }
    }
}

/// Blocks are whole lines, so that a line of another file begins where one of this would.
fn has_stale_line(bytes: &[u8]) -> bool {
    bytes.chunks(LINE).any(|line| line.starts_with(STALE.as_bytes()))
}

fn file_name(number: usize) -> String {
    format!("{FILES_PREFIX}{number}")
}

/// 1 to 13 KiB, so that files begin and end anywhere in a block.
fn file_content(number: usize) -> Vec<u8> {
    lines("file", number, 1000 + number * 1711 % 12_000)
}

fn record(number: usize) -> Vec<u8> {
    lines("record", number, 100 + number * 317 % 3000)
}

fn version_content(version: usize) -> Vec<u8> {
    lines("version", version, 5000)
}

fn version_of(content: &[u8]) -> Option<usize> {
    let line = std::str::from_utf8(content.get(..LINE)?).ok()?;
    line.strip_prefix("version ")?.split(' ').next()?.parse().ok()
}

/// `bytes` of lines that each say what and where they are, so that no two files are alike anywhere.
fn lines(what: &str, number: usize, bytes: usize) -> Vec<u8> {
    let mut content = Vec::with_capacity(bytes + LINE);
    for line in 0..bytes.div_ceil(LINE) {
        let text = format!("{what} {number} line {line} ");
        content.extend_from_slice(format!("{text:.<63}\n").as_bytes());
    }
    content.truncate(bytes);
    content
}

#[cfg(test)]
mod tests;
