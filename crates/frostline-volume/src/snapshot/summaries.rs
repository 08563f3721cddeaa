//! Which parts of relations changed since the snapshot before, as PostgreSQL 17 and later sum it up from its log.
//!
//! What is not told to have changed is taken from that snapshot, the *base*, without being read. That is right only where
//! all of this holds, and else files are read as they are without summaries:
//! - **The directory has the base in its past.** Whoever takes a snapshot leaves a [`Mark`] in the directory. A restored
//!   directory has none, and one that was put back to an earlier time has an earlier one, though their timelines and
//!   positions in the log may be the same.
//! - **The summaries cover the log** from where the base began to where this backup begins, on one timeline. What changed
//!   later is in the log that the snapshot has.
//! - **The base has pages of the same kind**: the same system, size of blocks and checksums.
//! - **The relation is logged.** Only main forks are taken from the base, and none of an unlogged relation. Of a relation
//!   that was made, truncated or removed meanwhile, everything is read.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use rustix::fs::{Gid, Mode, Uid};
use serde::{Deserialize, Serialize};

use super::psql::{Session, position};
use crate::piece::CHUNK_BYTES;
use crate::tree::SnapshotId;

/// The file with the marks, in the server's directory.
pub(super) const MARKS: &str = "frostline_snapshots.json";
/// Volumes whose newest snapshots are remembered.
const MARKS_MAX: usize = 16;
/// How often it is asked whether the server has summed up its log, a tenth of a second after the other.
const POLLS_MAX: usize = 300;

/// That a snapshot was taken of the directory that this is in, and of what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) snapshot: SnapshotId,
    /// Where the backup began.
    pub(super) start: String,
    #[serde(flatten)]
    pub(super) pages: Pages,
}

/// What has to be equal for pages of two backups to be of one history and form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pages {
    pub(super) system: String,
    pub(super) timeline: u32,
    pub(super) checksums: String,
    pub(super) block_bytes: u64,
    /// A relation is in files of so many.
    pub(super) file_bytes: u64,
}

/// Which chunks of relations changed.
#[derive(Debug)]
pub(super) struct Changed {
    file_bytes: u64,
    block_bytes: u64,
    relations: HashMap<Relation, Chunks>,
}

/// A relation, or all of a database: then its number is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Relation {
    pub(super) tablespace: u32,
    pub(super) database: u32,
    pub(super) number: u32,
}

/// Those of a relation, over all of its files.
#[derive(Debug, PartialEq, Eq)]
enum Chunks {
    All,
    Some(HashSet<u64>),
}

/// A stretch of the log that is summed up.
type Summary = (u32, String, String);

/// A relation's tablespace, database and number, whether blocks were cut off, and its chunks.
type Row = (u32, u32, u32, bool, Option<HashSet<u64>>);

impl Changed {
    /// What changed from the base to now, or why that is not known.
    pub(super) fn since(base: &Mark, now: &Mark, conninfo: &str) -> Result<Changed, String> {
        if base.pages != now.pages {
            return Err(
                "the server's timeline, checksums or sizes are not those of the snapshot before".to_owned()
            );
        }
        let Pages { block_bytes, file_bytes, timeline, .. } = now.pages;
        let chunk_bytes = CHUNK_BYTES as u64;
        let is_known = block_bytes > 0
            && chunk_bytes.is_multiple_of(block_bytes)
            && file_bytes > 0
            && file_bytes.is_multiple_of(chunk_bytes);
        let positions = position(&base.start).zip(position(&now.start));
        let (from, to) = positions.filter(|_| is_known).ok_or("the server has sizes that are not known")?;
        let refused = |e: frostline_base::Error| format!("the server's summaries cannot be read: {e}");
        let mut session = Session::open(conninfo).map_err(refused)?;
        let summaries = covering(&mut session, timeline, from, to)?;
        let values = summaries.iter().map(|(_, start, end)| format!("('{start}'::pg_lsn, '{end}'::pg_lsn)"));
        let values = values.collect::<Vec<_>>().join(", ");
        let rows: Vec<Row> = match summaries.is_empty() {
            true => Vec::new(),
            false => session
                .rows(&format!(
                    "SELECT json_build_array(reltablespace::bigint, reldatabase::bigint, relfilenode::bigint, \
                     bool_or(is_limit_block), \
                     json_agg(DISTINCT relblocknumber / {}) FILTER (WHERE NOT is_limit_block)) \
                     FROM (VALUES {values}) AS summary (first, last), \
                     pg_wal_summary_contents({timeline}, first, last) WHERE relforknumber = 0 \
                     GROUP BY reltablespace, reldatabase, relfilenode;",
                    chunk_bytes / block_bytes
                ))
                .map_err(refused)?,
        };
        Ok(Changed::of_rows(&now.pages, rows))
    }

    fn of_rows(pages: &Pages, rows: Vec<Row>) -> Changed {
        let relation = |(tablespace, database, number, is_cut, chunks): Row| {
            let chunks = if is_cut { Chunks::All } else { Chunks::Some(chunks.unwrap_or_default()) };
            (Relation { tablespace, database, number }, chunks)
        };
        let relations = rows.into_iter().map(relation).collect();
        Changed { file_bytes: pages.file_bytes, block_bytes: pages.block_bytes, relations }
    }

    /// Whether the chunk that begins at `at` in the relation's file of this number is as it was. The file has so many bytes.
    pub(super) fn is_kept(&self, relation: Relation, file: u64, at: u64, bytes: u64) -> bool {
        if bytes > self.file_bytes || !bytes.is_multiple_of(self.block_bytes) {
            return false;
        }
        let database = self.relations.get(&Relation { number: 0, ..relation });
        let Some(first) = file.checked_mul(self.file_bytes / CHUNK_BYTES as u64) else { return false };
        match (database, self.relations.get(&relation)) {
            (Some(_), _) | (_, Some(Chunks::All)) => false,
            (None, None) => true,
            (None, Some(Chunks::Some(changed))) => !changed.contains(&(first + at / CHUNK_BYTES as u64)),
        }
    }
}

/// The summaries from one position to another. Waits for those that the server has not written yet.
fn covering(session: &mut Session, timeline: u32, from: u64, to: u64) -> Result<Vec<Summary>, String> {
    for _ in 0..POLLS_MAX {
        let listed: Vec<Summary> = session
            .ask(
                "SELECT coalesce(json_agg(json_build_array(tli, start_lsn::text, end_lsn::text)), '[]') \
                 FROM pg_available_wal_summaries();",
            )
            .map_err(|e| format!("the server's summaries cannot be listed: {e}"))?;
        match chain(&listed, timeline, from, to) {
            Chain::Whole(summaries) => return Ok(summaries),
            Chain::Broken => {
                return Err(
                    "the server has no summaries of all of its log since the snapshot before".to_owned()
                );
            }
            Chain::Unfinished => {}
        }
        let waited = session.ask::<serde_json::Value>("SELECT to_json(pg_sleep(0.1)::text);");
        waited.map_err(|e| format!("the server ended the session: {e}"))?;
    }
    Err("the server has not summed up its log in time".to_owned())
}

#[derive(Debug, PartialEq, Eq)]
enum Chain {
    Whole(Vec<Summary>),
    /// The server may write more.
    Unfinished,
    /// There are later ones behind a gap, or none at all that begins early enough.
    Broken,
}

/// The summaries that follow each other from one position to another.
fn chain(listed: &[Summary], timeline: u32, from: u64, to: u64) -> Chain {
    let range = |summary: &Summary| position(&summary.1).zip(position(&summary.2));
    let ours = listed.iter().filter(|summary| summary.0 == timeline);
    let ours: Vec<(u64, u64, &Summary)> =
        ours.filter_map(|summary| range(summary).map(|(start, end)| (start, end, summary))).collect();
    let (mut at, mut all) = (from, Vec::new());
    while at < to {
        let next =
            ours.iter().filter(|(start, end, _)| *start <= at && at < *end).max_by_key(|(_, end, _)| *end);
        match next {
            Some((_, end, summary)) => {
                all.push((*summary).clone());
                at = *end;
            }
            None if ours.iter().any(|(start, ..)| *start > at) => return Chain::Broken,
            None => return Chain::Unfinished,
        }
    }
    Chain::Whole(all)
}

/// The relation that a file is the main fork of, by its path below the directory of a tablespace's databases, and the file's
/// number in it.
pub(super) fn relation(tablespace: u32, path: &[u8]) -> Option<(Relation, u64)> {
    let text = std::str::from_utf8(path).ok()?;
    let (database, name) = text.split_once('/')?;
    relation_in(tablespace, number(database)?, name)
}

/// The same of a file in a database's directory.
pub(super) fn relation_in(tablespace: u32, database: u32, name: &str) -> Option<(Relation, u64)> {
    let (relation, file) = match name.split_once('.') {
        Some((relation, file)) => (relation, number(file)?.into()),
        None => (name, 0),
    };
    Some((Relation { tablespace, database, number: number(relation)? }, file))
}

/// A number as the server writes it.
fn number(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_number)
}

/// The mark that a snapshot left in a directory. What cannot be read is no mark.
pub(super) fn read_mark(directory: &Path, snapshot: SnapshotId) -> Option<Mark> {
    read_marks(directory).into_iter().find(|mark| mark.snapshot == snapshot)
}

fn read_marks(directory: &Path) -> Vec<Mark> {
    let read = std::fs::read(directory.join(MARKS)).ok();
    read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Leaves a mark in a directory, in the place of that of the snapshot before. It belongs to whom the directory does: the
/// server's own backups read every file.
pub(super) fn write_mark(directory: &Path, mark: Mark, base: Option<SnapshotId>) -> std::io::Result<()> {
    let mut marks = read_marks(directory);
    marks.retain(|other| Some(other.snapshot) != base && other.snapshot != mark.snapshot);
    marks.push(mark);
    let marks = &marks[marks.len().saturating_sub(MARKS_MAX)..];
    let (path, new) = (directory.join(MARKS), directory.join(format!("{MARKS}.new")));
    let _ = std::fs::remove_file(&new);
    let written = || {
        let mut file = File::create_new(&new)?;
        let owner = rustix::fs::stat(directory)?;
        rustix::fs::fchown(&file, Some(Uid::from_raw(owner.st_uid)), Some(Gid::from_raw(owner.st_gid)))?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(owner.st_mode & 0o640))?;
        file.write_all(&serde_json::to_vec_pretty(marks)?)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        File::open(directory)?.sync_all()
    };
    written().inspect_err(|_| drop(std::fs::remove_file(&new)))
}

#[cfg(test)]
mod tests;
