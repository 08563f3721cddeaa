//! Follows files as they grow, rotate, appear and disappear.
//!
//! Every file is read through the handle that was opened, so a renamed file is read to its end. Identity is
//! by content, as for files that are read once (see [`crate::identity`]): a restart resumes at the position in the
//! catalog, and a copy of a log, also a compressed one, is recognised as the log that was read before.
//!
//! - **Rotation by rename**: the handle continues with the renamed file; the new one at the old path is a new file.
//! - **Rotation by copy and truncation**: a file that is shorter than what was read of it, or begins differently, is
//!   a new one from then on. Its copy, if it is followed as well, resumes where the original was left. While the
//!   original exists, a file that equals its beginning, or is its compressed form, is a copy and waits.
//! - A file that has not changed for a minute is closed, including its last line even without a line end, and opened
//!   again when it changes.
//! - A compressed file is read once it has not changed between two scans.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Pause;
use super::reader::{Feed, IDLE_US, Reader, Stopped, no_lines};
use crate::blocks::Upto;
use crate::content::{Content, Recognised};
use crate::identity::HEAD_BYTES_MAX;
use crate::inputs::{Own, Skipped, files_of, matches_of};

const POLL: Duration = Duration::from_millis(250);
const SCAN_US: i64 = 1_000_000;
/// Bytes read of one file before the others get their turn.
const TURN_BYTES: u64 = 8 << 20;
const COMPARED_BYTES: usize = 256 << 10;

/// The files that are followed.
pub(super) struct Follower<'a> {
    reader: &'a mut Reader,
    own: Own,
    /// Files, directories and patterns.
    watched: Vec<PathBuf>,
    tails: BTreeMap<FileId, Tail>,
    /// Files that are read to their end.
    closed: BTreeMap<FileId, Closed>,
    /// Compressed files as they were in the last scan.
    packed: BTreeMap<FileId, Stamp>,
    copies: BTreeMap<FileId, Copy>,
    /// Paths that were already reported as unreadable.
    noted: BTreeSet<PathBuf>,
    scanned_us: Option<i64>,
    renewed_us: i64,
    /// Since when data waits to be sealed.
    waiting_us: Option<i64>,
}

/// Device and inode: they identify a file while a handle holds it, or while nothing about it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileId(u64, u64);

/// Metadata that changes when a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: (i64, i64),
}

/// A file that is being read.
struct Tail {
    content: Content,
    feed: Feed,
    /// Its first bytes and how many were read: a file that begins differently, or is shorter, has been rewritten.
    head: Vec<u8>,
    bytes_read: u64,
    grown_us: i64,
}

/// A file that was read to its end, with its state at that time.
struct Closed {
    path: PathBuf,
    stamp: Stamp,
}

/// A file that so far equals the start of another.
struct Copy {
    of: FileId,
    stamp: Stamp,
}

impl FileId {
    fn of(metadata: &Metadata) -> FileId {
        FileId(metadata.dev(), metadata.ino())
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp { bytes: metadata.len(), modified: (metadata.mtime(), metadata.mtime_nsec()) }
    }
}

impl<'a> Follower<'a> {
    pub(super) fn new(reader: &'a mut Reader, own: Own, watched: Vec<PathBuf>) -> Self {
        let renewed_us = reader.run.clock.now_us();
        Follower {
            reader,
            own,
            watched,
            tails: BTreeMap::new(),
            closed: BTreeMap::new(),
            packed: BTreeMap::new(),
            copies: BTreeMap::new(),
            noted: BTreeSet::new(),
            scanned_us: None,
            renewed_us,
            waiting_us: None,
        }
    }

    /// Reads until the run is cancelled. The whole lines that exist then are still ingested.
    pub(super) fn follow(mut self, pause: &mut dyn Pause) -> Result<(), Stopped> {
        let missing =
            self.watched.iter().filter(|argument| !matches_of(argument).iter().any(|path| path.exists()));
        missing.for_each(|argument| (self.reader.run.tell)(&format!("waiting for {}", argument.display())));
        loop {
            let is_last = self.reader.run.cancel.is_cancelled();
            let mut is_busy = self.read_on()?;
            if is_last {
                self.deal_lines()?;
                let tails = self
                    .tails
                    .values_mut()
                    .filter_map(|tail| tail.feed.blocks.unfinished().map(|_| tail.feed.source.name.clone()));
                self.reader.report.unfinished.extend(tails);
                return Ok(());
            }
            let now_us = self.now_us();
            if self.scanned_us.is_none_or(|scanned_us| now_us - scanned_us >= SCAN_US) {
                self.scanned_us = Some(now_us);
                if now_us - self.renewed_us >= self.reader.renew_after_us() / 2 {
                    // Every file is identified again, and its record is kept.
                    self.renewed_us = now_us;
                    self.closed.clear();
                }
                is_busy |= self.scan()?;
            }
            self.seal_if_due()?;
            if self.reader.run.is_stopped() {
                return Err(Stopped);
            }
            if !is_busy {
                pause.pause(POLL);
            }
        }
    }

    fn now_us(&self) -> i64 {
        self.reader.run.clock.now_us()
    }

    /// Reads what was appended to the open files; returns whether some may have more.
    fn read_on(&mut self) -> Result<bool, Stopped> {
        let mut is_busy = false;
        for id in self.tails.keys().copied().collect::<Vec<_>>() {
            let Some(mut tail) = self.tails.remove(&id) else { continue };
            if tail.is_written_anew() {
                // The next scan opens it as what it is then. Complete lines still belong to the old content.
                self.reader.place_rest(&mut tail.feed, Upto::Lines)?;
                self.forget(id);
                self.scanned_us = None;
                continue;
            }
            let count = self.read_tail(&mut tail)?;
            is_busy |= count >= TURN_BYTES;
            let now_us = self.now_us();
            if count > 0 {
                tail.grown_us = now_us;
            }
            if now_us - tail.grown_us < IDLE_US {
                self.tails.insert(id, tail);
                continue;
            }
            self.reader.place_rest(&mut tail.feed, Upto::End)?;
            self.forget(id);
            if let Ok(metadata) = tail.content.metadata() {
                let stamp = Stamp { bytes: tail.bytes_read, ..Stamp::of(&metadata) };
                self.close(id, stamp, Path::new(&tail.feed.source.name));
            }
        }
        Ok(is_busy)
    }

    fn read_tail(&mut self, tail: &mut Tail) -> Result<u64, Stopped> {
        let mut count = 0;
        while count < TURN_BYTES {
            match tail.feed.blocks.fill(&mut tail.feed.reader) {
                Ok(0) => break,
                Ok(more) => count += more as u64,
                Err(error) => {
                    self.note(Path::new(&tail.feed.source.name), &error);
                    break;
                }
            }
            self.reader.place_rest(&mut tail.feed, Upto::Full)?;
        }
        tail.bytes_read += count;
        Ok(count)
    }

    /// A file that has changed its identity cannot be another file's original.
    fn forget(&mut self, id: FileId) {
        self.copies.retain(|_, copy| copy.of != id);
    }

    /// Finds files that are new or have changed; returns whether there are some. The longest come first, so that an
    /// original comes before the copies that are being made of it.
    fn scan(&mut self) -> Result<bool, Stopped> {
        let mut files = Vec::new();
        let (paths, skipped) = files_of(&self.own, &self.watched);
        for Skipped { name, reason } in skipped {
            self.note(Path::new(&name), &io::Error::other(reason));
        }
        for path in paths {
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let (id, stamp) = (FileId::of(&metadata), Stamp::of(&metadata));
            if self.closed.get(&id).is_some_and(|closed| closed.stamp != stamp) {
                self.closed.remove(&id);
                self.forget(id);
            }
            files.push((path, id, stamp));
        }
        let is_known = |id: &FileId, stamp: &Stamp| {
            self.tails.contains_key(id)
                || self.closed.contains_key(id)
                || self.copies.get(id).is_some_and(|copy| copy.stamp == *stamp)
        };
        let there: BTreeSet<FileId> = files.iter().map(|(_, id, _)| *id).collect();
        let new = files.into_iter().filter(|(_, id, stamp)| stamp.bytes > 0 && !is_known(id, stamp));
        let mut changed: Vec<_> =
            new.map(|(path, _, stamp)| (std::cmp::Reverse(stamp.bytes), path)).collect();
        self.closed.retain(|id, _| there.contains(id));
        self.packed.retain(|id, _| there.contains(id));
        self.copies.retain(|id, _| there.contains(id));
        changed.sort();
        let mut is_busy = false;
        for (_, path) in changed {
            match Content::open(&path, &self.reader.run.counters.bytes_read) {
                Ok(content) => is_busy |= self.take(path, content)?,
                Err(error) => self.note(&path, &error),
            }
        }
        Ok(is_busy)
    }

    /// Handles a file that was opened; returns whether it is now followed.
    fn take(&mut self, path: PathBuf, content: Content) -> Result<bool, Stopped> {
        let Ok(metadata) = content.metadata() else { return Ok(false) };
        let (id, stamp) = (FileId::of(&metadata), Stamp::of(&metadata));
        if self.tails.contains_key(&id) {
            return Ok(false);
        }
        if !content.is_plain() {
            return self.take_packed(path, &content, id, stamp).map(|()| false);
        }
        let recognised = match content.recognise(&self.reader.known) {
            Ok(recognised) => recognised,
            Err(error) => {
                self.note(&path, &error);
                return Ok(false);
            }
        };
        if let Some(of) = self.original_of(&content, stamp.bytes, &recognised) {
            self.copies.insert(id, Copy { of, stamp });
            return Ok(false);
        }
        let no_text = no_lines(self.reader.run.format, &recognised.sample, true);
        if let Some(reason) = no_text {
            self.note(&path, &io::Error::other(reason));
        }
        if let Some((key, ingested)) = recognised.known.as_ref().filter(|_| recognised.is_done) {
            self.reader.renew(key, ingested.mark(true))?;
        }
        if recognised.is_done || no_text.is_some() {
            self.close(id, stamp, &path);
            return Ok(false);
        }
        // The first line identifies the file, so an incomplete one is waited for.
        let has_head = recognised.known.is_some()
            || recognised.sample.len() >= HEAD_BYTES_MAX
            || memchr::memchr(b'\n', &recognised.sample).is_some();
        if !has_head && !self.reader.is_idle(&content) {
            return Ok(false);
        }
        let head = recognised.sample.get(..HEAD_BYTES_MAX).unwrap_or(&recognised.sample).to_vec();
        match self.reader.feed_of(path.display().to_string(), &content, recognised) {
            Ok(feed) => {
                let (bytes_read, grown_us) = (feed.blocks.prefix().bytes(), self.now_us());
                self.copies.remove(&id);
                self.tails.insert(id, Tail { content, feed, head, bytes_read, grown_us });
                Ok(true)
            }
            Err(error) => {
                self.note(&path, &error);
                Ok(false)
            }
        }
    }

    /// Reads a compressed file that has not changed since the last scan. A truncated one may be a known file that is
    /// still being compressed: it waits until it changes.
    fn take_packed(
        &mut self,
        path: PathBuf,
        content: &Content,
        id: FileId,
        stamp: Stamp,
    ) -> Result<(), Stopped> {
        if self.packed.insert(id, stamp) != Some(stamp) {
            return Ok(());
        }
        let read = content.recognise(&self.reader.known).and_then(|recognised| {
            if let Some(error) = recognised.torn {
                return Err(error);
            }
            // What an open file has is not in the catalog yet: another with its beginning waits until it is closed.
            let begins_like =
                |tail: &Tail| !tail.head.is_empty() && recognised.sample.starts_with(&tail.head);
            let mut tails = self.tails.iter();
            let open = || tails.find(|(_, tail)| begins_like(tail)).map(|(id, _)| *id);
            if let Some(of) = self.open_file_of(&recognised).or_else(open) {
                self.copies.insert(id, Copy { of, stamp });
                return Ok(None);
            }
            self.close(id, stamp, &path);
            if let Some(reason) = no_lines(self.reader.run.format, &recognised.sample, true) {
                return Err(io::Error::other(reason));
            }
            if recognised.is_done {
                return Ok(None);
            }
            self.reader.feed_of(path.display().to_string(), content, recognised).map(Some)
        });
        let mut feed = match read {
            Ok(Some(feed)) => feed,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.close(id, stamp, &path);
                self.note(&path, &error);
                return Ok(());
            }
        };
        loop {
            self.reader.place_rest(&mut feed, Upto::Full)?;
            if self.reader.run.cancel.is_cancelled() {
                return Ok(());
            }
            match feed.blocks.fill(&mut feed.reader) {
                Ok(0) => return self.reader.place_rest(&mut feed, Upto::End),
                Ok(_) => {}
                Err(error) => {
                    self.note(&path, &error);
                    return self.reader.place_rest(&mut feed, Upto::Whole);
                }
            }
        }
    }

    /// The file that this is a copy of, as far as it goes: an open one that the catalog has under the same name, or
    /// one that begins with all its `bytes`. A file whose first line begins a longer known file may be the copy
    /// of one that is closed.
    fn original_of(&self, content: &Content, bytes: u64, recognised: &Recognised) -> Option<FileId> {
        if let Some(of) = self.open_file_of(recognised) {
            return Some(of);
        }
        let is_start_of = |original: &Content| is_same(content, original, bytes).unwrap_or(false);
        if let Some((of, _)) = self.tails.iter().find(|(_, tail)| is_start_of(&tail.content)) {
            return Some(*of);
        }
        let known = self.reader.known.candidates(&recognised.sample);
        if recognised.known.is_some() || known.iter().all(|known| known.offset <= bytes) {
            return None;
        }
        let is_start_of_closed = |id: FileId, closed: &Closed| {
            closed.stamp.bytes > bytes
                && Content::open(&closed.path, &Arc::default()).is_ok_and(|original| {
                    original.is_plain()
                        && original.metadata().is_ok_and(|metadata| FileId::of(&metadata) == id)
                        && is_start_of(&original)
                })
        };
        self.closed.iter().find(|(id, closed)| is_start_of_closed(**id, closed)).map(|(id, _)| *id)
    }

    /// The open file that the catalog has under the same name: another file with its content waits until it is closed.
    fn open_file_of(&self, recognised: &Recognised) -> Option<FileId> {
        let (key, _) = recognised.known.as_ref()?;
        let mut tails = self.tails.iter();
        tails.find(|(_, tail)| tail.feed.source.key.as_ref() == Some(key)).map(|(id, _)| *id)
    }

    /// Records a file that was read to its end.
    fn close(&mut self, id: FileId, stamp: Stamp, path: &Path) {
        self.closed.insert(id, Closed { path: path.to_owned(), stamp });
    }

    /// Seals data that has waited long enough, or is large enough.
    fn seal_if_due(&mut self) -> Result<(), Stopped> {
        let now_us = self.now_us();
        let has_lines = self.tails.values_mut().any(|tail| tail.feed.blocks.has_lines());
        if !has_lines && self.reader.batch_begun_us().is_none() {
            self.waiting_us = None;
            return Ok(());
        }
        let pending: u64 = self.tails.values().map(|tail| tail.feed.blocks.pending().len() as u64).sum();
        let waiting_us = *self.waiting_us.get_or_insert(now_us);
        let is_due = now_us - waiting_us >= self.reader.run.seal_after_us;
        if !is_due && pending < self.reader.run.batch_bytes {
            return Ok(());
        }
        self.deal_lines()?;
        self.reader.close();
        self.waiting_us = None;
        Ok(())
    }

    fn deal_lines(&mut self) -> Result<(), Stopped> {
        self.tails.values_mut().try_for_each(|tail| self.reader.place_rest(&mut tail.feed, Upto::Lines))
    }

    /// Reports once that a file cannot be read.
    fn note(&mut self, path: &Path, error: &io::Error) {
        if self.noted.insert(path.to_owned()) {
            let (name, reason) = (path.display().to_string(), error.to_string());
            (self.reader.run.tell)(&format!("skipped {name}: {reason}"));
            self.reader.report.skipped.push(Skipped { name, reason });
        }
    }
}

impl Tail {
    /// Whether the file is no longer the one that was read so far.
    fn is_written_anew(&self) -> bool {
        let Ok(metadata) = self.content.metadata() else { return false };
        if metadata.len() < self.bytes_read {
            return true;
        }
        // What was written anew may be as long as what was read.
        let mut head = vec![0; self.head.len()];
        self.content.read_at(&mut head, 0).is_ok_and(|count| head[..count] != self.head)
    }
}

/// Whether the first `bytes` bytes of two contents are the same.
fn is_same(one: &Content, other: &Content, bytes: u64) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]);
    let mut at = 0;
    while at < bytes {
        let wanted = (bytes - at).min(COMPARED_BYTES as u64) as usize;
        let count = one.read_at(&mut left[..wanted], at)?;
        if count == 0 || other.read_at(&mut right[..count], at)? != count || left[..count] != right[..count] {
            return Ok(false);
        }
        at += count as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
