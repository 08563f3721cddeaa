//! A parsed listing of a log.

use std::collections::BTreeMap;

use object_store::ObjectMeta;
use object_store::path::Path;

use frostline_base::{Error, Result};

/// The objects of a log, by kind.
#[derive(Debug, Default)]
pub struct Listing {
    /// Entries, by number.
    pub entries: BTreeMap<u64, ObjectMeta>,
    /// Checkpoints, complete or not, by the number of the last entry that they contain.
    pub checkpoints: BTreeMap<u64, Parts>,
    /// Everything else.
    pub others: Vec<ObjectMeta>,
}

/// The objects of one checkpoint.
#[derive(Debug, Default)]
pub struct Parts {
    objects: BTreeMap<u64, ObjectMeta>,
    of: u64,
}

impl Listing {
    /// Adds an object by its name. `checkpoint_ending` is the last part of a checkpoint's name.
    pub fn push(&mut self, object: ObjectMeta, checkpoint_ending: &str) {
        match LogFile::of(object.location.filename().unwrap_or_default(), checkpoint_ending) {
            LogFile::Entry(number) => {
                self.entries.insert(number, object);
            }
            LogFile::Checkpoint { number, part, of } => {
                // Parts of different splittings of one checkpoint do not fit together: the larger count is used.
                let parts = self.checkpoints.entry(number).or_default();
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

    /// The newest complete checkpoint.
    pub fn checkpoint(&self) -> Option<(u64, Vec<Path>)> {
        self.checkpoint_at_most(u64::MAX)
    }

    /// The newest complete checkpoint up to that number.
    pub fn checkpoint_at_most(&self, number: u64) -> Option<(u64, Vec<Path>)> {
        let newest = self.checkpoints.range(..=number).rev().find(|(_, parts)| parts.is_whole())?;
        Some((*newest.0, newest.1.objects().map(|object| object.location.clone()).collect()))
    }

    /// The numbers of the entries after `base`, or all. A gap between two of them is `Corrupt`; the error names the
    /// entry of
    /// the log in `folder`.
    pub fn entries_after(&self, base: Option<u64>, folder: &Path) -> Result<Vec<u64>> {
        let first = base.map_or(0, |base| base.saturating_add(1));
        let numbers: Vec<u64> = self.entries.range(first..).map(|(number, _)| *number).collect();
        match numbers.iter().zip(first..).find(|(found, wanted)| **found != *wanted) {
            None => Ok(numbers),
            Some((_, missing)) => Err(missing_entry(&entry_path(folder, missing))),
        }
    }

    /// Whether all entries are there that follow the newest checkpoint, or of a listing without one, `first`.
    pub(crate) fn is_whole_from(&self, first: u64) -> bool {
        let first = self.checkpoint().map_or(first, |(number, _)| number.saturating_add(1));
        self.entries.range(first..).zip(first..).all(|((found, _), wanted)| *found == wanted)
    }

    /// The number of the newest entry.
    pub fn newest(&self) -> Option<u64> {
        self.entries.keys().next_back().copied()
    }

    /// Whether there is neither an entry nor a checkpoint.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.checkpoints.is_empty()
    }
}

impl Parts {
    fn is_whole(&self) -> bool {
        self.objects.len() as u64 == self.of
    }

    /// The objects, in order.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectMeta> {
        self.objects.values()
    }
}

pub(crate) fn entry_path(folder: &Path, number: u64) -> Path {
    Path::from(format!("{folder}/{number:020}.json"))
}

pub(crate) fn missing_entry(path: &Path) -> Error {
    Error::corrupt("a commit file is missing from the log").with("object", path)
}

enum LogFile {
    Entry(u64),
    Checkpoint { number: u64, part: u64, of: u64 },
    Other,
}

impl LogFile {
    fn of(name: &str, checkpoint_ending: &str) -> LogFile {
        let fields: Vec<&str> = name.split('.').collect();
        let parse =
            |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let number = fields.first().filter(|v| v.len() == 20).and_then(|v| parse(v));
        match (number, fields.get(1..).unwrap_or_default()) {
            (Some(number), ["json"]) => LogFile::Entry(number),
            (Some(number), ["checkpoint", ending]) if *ending == checkpoint_ending => {
                LogFile::Checkpoint { number, part: 1, of: 1 }
            }
            (Some(number), ["checkpoint", part, of, ending]) if *ending == checkpoint_ending => {
                match (parse(part), parse(of)) {
                    (Some(part), Some(of)) if (1..=of).contains(&part) => {
                        LogFile::Checkpoint { number, part, of }
                    }
                    _ => LogFile::Other,
                }
            }
            _ => LogFile::Other,
        }
    }
}

#[cfg(test)]
mod tests;
