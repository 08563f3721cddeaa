//! The files of a mounted snapshot while not all of their data is in place, whoever passes the calls on.
//!
//! - A file that is not whole has a second name in the folder `absent`: its number in the tree. The name goes after the
//!   data is on the disk, so a file without one is whole, whatever happens. Renames and links need no record.
//! - A page is in place once its bit says so, and the bit is set after the data. Only absent pages are filled, under the
//!   lock of the file, so what was written is never overwritten with what the snapshot has.
//! - What is acknowledged as synced survives a restart of the machine: first the data is synced, then the bits, then the
//!   answer leaves. What was only written survives the end of this process.

mod native;
mod unplaced;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FallocateFlags, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use tokio::sync::Notify;

use frostline_base::{ByteRange, Error, ErrorKind, Result, chain};
use frostline_store::Repository;

use super::MountMode;
use super::failures::Failures;
use super::lease::Lease;
use super::pages::Pages;
use super::place::Hidden;
use super::stages::{FillPart, FillStage};
use super::touched::Touched;
use super::untouched::{Untouched, looks_untouched};
use crate::btree;
use crate::piece::{CHUNK_BYTES, PAGE_BYTES, all_pages};
use crate::reader::{assemble, fetch};
use crate::restore::{begin_writeback, data_in, times};
use crate::scan;
use crate::snapshot::blocking;
use crate::tree::{Node, PieceRef, Tree, chunk_numbers};
use unplaced::{Decoded, Unplaced};

const CHUNK: u64 = CHUNK_BYTES as u64;
const PAGE: u64 = PAGE_BYTES as u64;
/// Chunks that are brought at once for who wants many.
const AT_ONCE: usize = 32;
/// Chunks that a reader who reads on is ahead of at most.
const AHEAD_MAX: usize = 16;
/// The attribute with a program's rights, which every write takes away.
pub(super) const CAPABILITY: &str = "security.capability";

/// The files of a snapshot that is mounted.
pub(super) struct Lazy {
    repository: Repository,
    pub(super) tree: Arc<Tree>,
    /// The folder of the second names.
    absent: PathBuf,
    /// Its path is by this descriptor.
    _hidden: Hidden,
    /// A directory on the file system of the files.
    root: File,
    pages: Pages,
    untouched: Untouched,
    touched: Touched,
    /// By inode.
    files: HashMap<u64, Arc<LazyFile>>,
    /// The same in the order of their chunks.
    in_order: Vec<Arc<LazyFile>>,
    flights: Flights,
    unplaced: Unplaced,
    /// A chunk that was fetched behind the users and for which the disk has no room.
    unfit: Mutex<Option<(usize, Arc<Vec<u8>>)>>,
    /// Threads that use files themselves.
    workers: Mutex<HashSet<i32>>,
    /// Held by all tasks that use files.
    pub(super) lease: Lease,
    pub(super) mode: MountMode,
    pub(super) counts: Counts,
}

/// A file that was not whole when the snapshot was mounted.
#[derive(Debug)]
pub(super) struct LazyFile {
    /// Among the entries of the tree.
    entry: usize,
    /// Its length in the snapshot.
    bytes: u64,
    chunks: Range<usize>,
    /// Where they are in the file, in chunks.
    numbers: Vec<u64>,
    whole: AtomicBool,
    /// Whoever writes holds it.
    lock: Mutex<()>,
    /// Whoever syncs it for others who wait holds it.
    settling: Mutex<()>,
    ahead: Mutex<Ahead>,
    /// Where its root is if it is an index of PostgreSQL, once its first page is in place.
    root: OnceLock<Option<u64>>,
}

/// What a sequential reader will want.
#[derive(Debug, Default)]
struct Ahead {
    /// The chunk after the last one that was fetched for a reader.
    next: usize,
    window: usize,
}

/// What was asked for and done.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Reads and writes that found all they need.
    pub(super) hits: AtomicU64,
    /// Those that waited.
    pub(super) misses: AtomicU64,
    /// Those that wait now.
    pub(super) waiting: AtomicUsize,
    /// Bytes of chunks that were fetched.
    pub(super) fetched_bytes: AtomicU64,
    /// Bytes of pages that are not in place.
    pub(super) absent_bytes: AtomicU64,
    /// Chunks that the repository could not give.
    pub(super) damaged: Mutex<HashSet<usize>>,
    failures: Failures,
    /// Why what was fetched last behind the users could not be kept, or not be had.
    pub(super) trouble: Mutex<Option<String>>,
    /// What is fetched behind the users now, and in which order all of it is.
    pub(super) filling: Mutex<Option<FillStage>>,
    pub(super) order: Mutex<Vec<FillPart>>,
}

/// What users wanted.
pub(super) struct Seen {
    pub(super) tree: Arc<Tree>,
    /// In this order: files among the entries, and numbers of chunks in them.
    pub(super) wanted: Vec<(usize, u64)>,
    /// The files of which it is seen: they were not whole when this process began.
    pub(super) files: Vec<usize>,
}

/// Chunks that are being fetched.
#[derive(Debug, Default)]
struct Flights {
    chunks: Mutex<HashSet<usize>>,
    landed: Notify,
}

/// Chunks that one task fetches; dropping it lets others try.
struct Claimed<'a> {
    flights: &'a Flights,
    chunks: Vec<usize>,
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        let mut flying = self.flights.chunks.lock();
        flying.retain(|chunk| !self.chunks.contains(chunk));
        drop(flying);
        self.flights.landed.notify_waiters();
    }
}

/// The second name of a file.
pub(super) fn second_name(entry: usize) -> String {
    entry.to_string()
}

impl LazyFile {
    /// A file of the tree with data.
    pub(super) fn of(tree: &Tree, entry: usize) -> Option<LazyFile> {
        let Node::File { bytes, extents, chunks } = &tree.entries.get(entry)?.node else { return None };
        if chunks.is_empty() {
            return None;
        }
        Some(LazyFile {
            entry,
            bytes: *bytes,
            chunks: chunks.clone(),
            numbers: chunk_numbers(extents).collect(),
            whole: AtomicBool::new(false),
            lock: Mutex::default(),
            settling: Mutex::default(),
            ahead: Mutex::default(),
            root: OnceLock::new(),
        })
    }

    /// As long as this is held nobody writes to it, and it is not filled.
    pub(super) fn still(&self) -> MutexGuard<'_, ()> {
        self.lock.lock()
    }

    /// Whether all of its data is in place and on the disk.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    fn chunk_bytes(&self, number: u64) -> u64 {
        self.bytes.saturating_sub(number * CHUNK).min(CHUNK)
    }

    fn all(&self, number: u64) -> u64 {
        all_pages(self.chunk_bytes(number).div_ceil(PAGE) as usize)
    }

    /// The chunks that a range of the file touches: where in the tree, where in the file, and which pages.
    fn touched(&self, range: &ByteRange) -> impl Iterator<Item = (usize, u64, u64)> {
        let range = range.start.min(self.bytes)..range.end.min(self.bytes);
        let first = self.numbers.partition_point(|number| (number + 1) * CHUNK <= range.start);
        let of = move |at: usize| {
            let is_in = |number: &&u64| **number * CHUNK < range.end && !range.is_empty();
            let number = *self.numbers.get(at).filter(is_in)?;
            let start = range.start.saturating_sub(number * CHUNK).min(CHUNK);
            let end = (range.end - number * CHUNK).min(CHUNK);
            let pages = all_pages(end.div_ceil(PAGE) as usize) & !all_pages((start / PAGE) as usize);
            Some((self.chunks.start + at, number, pages))
        };
        (first..self.numbers.len()).map_while(of)
    }

    /// The pages at the ends of a range that it covers only in part: a write needs their data, besides [`LazyFile::end`].
    fn edges(&self, range: &ByteRange) -> [ByteRange; 2] {
        let page = |at: u64| at / PAGE * PAGE;
        let first = page(range.start);
        let last = page(range.end.saturating_sub(1));
        let is_covered = |start: u64| range.start <= start && range.end >= (start + PAGE).min(self.bytes);
        [first, last].map(|start| if is_covered(start) { start..start } else { start..start + PAGE })
    }

    /// The range of a file of `bytes` bytes whose data must be in place before the file is extended to `end`. If it was
    /// truncated within a page, only its length tells which part of that page is the snapshot's.
    fn end(&self, bytes: u64, end: u64) -> ByteRange {
        if bytes < end.min(self.bytes) { bytes - bytes % PAGE..bytes } else { 0..0 }
    }
}

impl Lazy {
    /// The files of `tree` that have a second name in the folder `absent`; `root` is a directory beside them.
    pub(super) fn open(
        repository: &Repository,
        tree: Arc<Tree>,
        hidden: Hidden,
        root: File,
        pages: Pages,
        untouched: Untouched,
        mode: MountMode,
    ) -> Result<Lazy> {
        let mut lazy = Lazy {
            repository: repository.clone(),
            tree: Arc::clone(&tree),
            absent: hidden.path().join("absent"),
            _hidden: hidden,
            root,
            pages,
            untouched,
            touched: Touched::new(tree.chunks.len()),
            files: HashMap::new(),
            in_order: Vec::new(),
            flights: Flights::default(),
            unplaced: Unplaced::default(),
            unfit: Mutex::default(),
            workers: Mutex::default(),
            lease: Lease::default(),
            mode,
            counts: Counts::default(),
        };
        let mut absent_bytes = 0;
        for file in (0..tree.entries.len()).filter_map(|entry| LazyFile::of(&tree, entry)) {
            let path = lazy.second(&file);
            let failed = |e: io::Error| scan::failed("open", &path, &e);
            match std::fs::symlink_metadata(&path) {
                Ok(meta) => {
                    let file = Arc::new(file);
                    lazy.files.insert(meta.ino(), Arc::clone(&file));
                    lazy.in_order.push(Arc::clone(&file));
                    // Others may still have it open if they read it themselves.
                    if meta.nlink() == 1 && mode == MountMode::Fuse {
                        // Its last other name went, and this process with it.
                        lazy.give_up(&file).map_err(failed)?;
                    } else if meta.len() < file.bytes {
                        // It was cut: nothing behind its end is wanted any more.
                        let open = lazy.open_file(&file).map_err(failed)?;
                        lazy.touch(&file)
                            .and_then(|()| lazy.keep_cut(&file, &open, meta.len()))
                            .map_err(failed)?;
                    } else if lazy.untouched.has(file.entry)
                        && !looks_untouched(&path, &tree.entries[file.entry])
                    {
                        let open = lazy.open_file(&file).map_err(failed)?;
                        lazy.dress(&file, &open).map_err(failed)?;
                    }
                    absent_bytes += lazy.absent_in(&file);
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(failed(e)),
            }
        }
        lazy.counts.absent_bytes.store(absent_bytes, Ordering::Relaxed);
        Ok(lazy)
    }

    /// The file of an inode, if it was not whole at first.
    pub(super) fn file(&self, inode: u64) -> Option<&Arc<LazyFile>> {
        self.files.get(&inode)
    }

    fn second(&self, file: &LazyFile) -> PathBuf {
        self.absent.join(second_name(file.entry))
    }

    fn open_file(&self, file: &LazyFile) -> io::Result<File> {
        File::options().read(true).write(true).open(self.second(file))
    }

    fn absent_in(&self, file: &LazyFile) -> u64 {
        let all = 0..file.bytes;
        let pages = |(chunk, number, _)| self.absent_bytes(file, number, !self.pages.get(chunk));
        file.touched(&all).map(pages).sum()
    }

    /// Bytes of these pages of a chunk.
    fn absent_bytes(&self, file: &LazyFile, number: u64, pages: u64) -> u64 {
        let pages = pages & file.all(number);
        let bytes = u64::from(pages.count_ones()) * PAGE;
        let last = file.chunk_bytes(number).div_ceil(PAGE) - 1;
        match pages & (1 << last) {
            0 => bytes,
            _ => bytes - ((last + 1) * PAGE - file.chunk_bytes(number)),
        }
    }

    /// Marks pages as in place. Its caller holds the lock of the file.
    fn set(&self, file: &LazyFile, chunk: usize, number: u64, pages: u64) -> io::Result<()> {
        let new = self.pages.set(chunk, pages & file.all(number))?;
        if file.all(number) & !self.pages.get(chunk) == 0 {
            self.unplaced.forget(chunk);
            self.counts.damaged.lock().remove(&chunk);
        }
        let bytes = self.absent_bytes(file, number, new);
        // While files are opened, nothing is counted yet.
        let _ = self
            .counts
            .absent_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |absent| Some(absent.saturating_sub(bytes)));
        Ok(())
    }

    /// The chunks of a range of which some page is wanted and absent.
    fn missing(&self, file: &LazyFile, range: &ByteRange) -> Vec<usize> {
        if file.is_whole() || range.is_empty() {
            return Vec::new();
        }
        let touched = file.touched(range);
        touched
            .filter(|(chunk, _, pages)| pages & !self.pages.get(*chunk) != 0)
            .map(|(chunk, ..)| chunk)
            .collect()
    }

    /// Whether all of a range is in place.
    pub(super) fn has(&self, file: &LazyFile, range: &ByteRange) -> bool {
        self.missing(file, range).is_empty()
    }

    /// Whether a write needs no fetching. False if the file's length cannot be read.
    pub(super) fn has_for_write(&self, file: &LazyFile, open: &File, range: &ByteRange) -> bool {
        let has_end = |meta: std::fs::Metadata| self.has(file, &file.end(meta.len(), range.end));
        file.is_whole()
            || file.edges(range).iter().all(|edge| self.has(file, edge)) && open.metadata().is_ok_and(has_end)
    }

    pub(super) fn count_hit(&self) {
        self.counts.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// A user wants this range.
    pub(super) fn note(&self, file: &LazyFile, range: &ByteRange) {
        file.touched(range).for_each(|(chunk, ..)| self.touched.note(chunk));
    }

    /// How many chunks users wanted since this process began.
    pub(super) fn wanted_count(&self) -> usize {
        self.touched.count()
    }

    /// What users wanted since then.
    pub(super) fn seen(&self) -> Seen {
        let place = |chunk: usize| {
            let file = self.of_chunk(chunk)?;
            Some((file.entry, *file.numbers.get(chunk - file.chunks.start)?))
        };
        Seen {
            tree: Arc::clone(&self.tree),
            wanted: self.touched.in_order().into_iter().filter_map(place).collect(),
            files: self.in_order.iter().map(|file| file.entry).collect(),
        }
    }

    /// Brings all of a range in place, for who waits. `NOSPC` if the disk has no room for it.
    pub(super) async fn need(self: &Arc<Lazy>, file: &LazyFile, range: ByteRange) -> io::Result<()> {
        self.note(file, &range);
        if self.has(file, &range) {
            return Ok(());
        }
        self.waiting(self.bring_parts(file, &range)).await
    }

    async fn waiting<T>(&self, what: impl Future<Output = T>) -> T {
        self.counts.misses.fetch_add(1, Ordering::Relaxed);
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        let done = what.await;
        self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// Brings a range in place that may be all of a file, a part at a time: what is on its way is in memory.
    async fn bring_parts(self: &Arc<Lazy>, file: &LazyFile, range: &ByteRange) -> io::Result<()> {
        let numbers: Vec<u64> = file.touched(range).map(|(_, number, _)| number).collect();
        for part in numbers.chunks(AT_ONCE) {
            let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
            let part = range.start.max(first * CHUNK)..range.end.min((last + 1) * CHUNK);
            if !self.bring_range(file, &part, Decoded::new()).await?.is_empty() {
                return Err(Errno::NOSPC.into());
            }
        }
        Ok(())
    }

    /// Reads from an open file, for a reader who waits for what is absent. What the disk has no room for is read from
    /// memory.
    pub(super) async fn read(
        self: &Arc<Lazy>,
        file: &LazyFile,
        open: &File,
        range: ByteRange,
    ) -> io::Result<Vec<u8>> {
        let missing = self.missing(file, &range);
        let known = self.unplaced.of(&missing);
        if known.len() == missing.len() {
            self.count_hit();
            return self.read_over(file, open, &range, &known);
        }
        let unplaced = self.waiting(self.bring_range(file, &range, known)).await?;
        self.read_over(file, open, &range, &unplaced)
    }

    /// Reads what is in place, and all else of these chunks.
    fn read_over(
        &self,
        file: &LazyFile,
        open: &File,
        range: &ByteRange,
        unplaced: &Decoded,
    ) -> io::Result<Vec<u8>> {
        if unplaced.is_empty() {
            return scan::read(open, range);
        }
        let _still = file.lock.lock();
        let mut bytes = scan::read(open, range)?;
        let end = range.start + bytes.len() as u64;
        for (chunk, number, pages) in file.touched(&(range.start..end)) {
            let Some(fetched) = unplaced.get(&chunk) else { continue };
            let first = number * CHUNK;
            for run in runs(pages & !self.pages.get(chunk)) {
                let from = (first + run.start * PAGE).max(range.start);
                let to = (first + run.end * PAGE).min(first + fetched.len() as u64).min(end);
                if from < to {
                    bytes[(from - range.start) as usize..(to - range.start) as usize]
                        .copy_from_slice(&fetched[(from - first) as usize..(to - first) as usize]);
                }
            }
        }
        Ok(bytes)
    }

    /// What a write of this range needs.
    pub(super) async fn need_for_write(
        self: &Arc<Lazy>,
        file: &LazyFile,
        open: &File,
        range: &ByteRange,
    ) -> io::Result<()> {
        for edge in file.edges(range) {
            self.need(file, edge).await?;
        }
        self.need_to_end(file, open, range.end).await
    }

    /// Fetches what a file needs before it is extended to `end`.
    pub(super) async fn need_to_end(
        self: &Arc<Lazy>,
        file: &LazyFile,
        open: &File,
        end: u64,
    ) -> io::Result<()> {
        self.need(file, file.end(open.metadata()?.len(), end)).await
    }

    /// Brings all of a range in place but these chunks. Which chunks are not, because the disk has no room for them.
    async fn bring_range(
        self: &Arc<Lazy>,
        file: &LazyFile,
        range: &ByteRange,
        mut unplaced: Decoded,
    ) -> io::Result<Decoded> {
        loop {
            let mut missing = self.missing(file, range);
            missing.retain(|chunk| !unplaced.contains_key(chunk));
            let Some(last) = missing.last() else { return Ok(unplaced) };
            let landed = self.flights.landed.notified();
            let claimed = self.claim(&missing);
            if claimed.chunks.is_empty() {
                if self.is_flying(&missing) {
                    landed.await;
                }
                continue;
            }
            let ahead = self.ahead(file, missing.first().copied().unwrap_or(*last), last + 1);
            if ahead.is_empty() && self.unplaced.is_empty() && self.root(file).is_some() {
                self.expect_leaves(file, last + 1);
            }
            let ahead = self.claim(&ahead.collect::<Vec<_>>());
            match self.bring(&[claimed.chunks.as_slice(), &ahead.chunks].concat()).await {
                Ok(brought) => {
                    unplaced.extend(brought);
                    continue;
                }
                // A repository that does not answer has been waited for long enough.
                Err(e) if e.kind() == ErrorKind::Unavailable => {
                    return Err(self.told(file, claimed.chunks.first().copied().unwrap_or(*last), &e));
                }
                Err(_) => {}
            }
            // One of them is at fault: is it one that is wanted?
            for chunk in missing.iter().filter(|chunk| claimed.chunks.contains(chunk)) {
                let brought = self.bring(std::slice::from_ref(chunk)).await;
                unplaced.extend(brought.map_err(|e| self.told(file, *chunk, &e))?);
            }
        }
    }

    /// Chunks that will be wanted after these, if the reader reads on.
    fn ahead(&self, file: &LazyFile, first: usize, end: usize) -> Range<usize> {
        let mut ahead = file.ahead.lock();
        ahead.window = match first <= ahead.next && ahead.next <= end && ahead.next > 0 {
            true => (ahead.window * 2).clamp(1, AHEAD_MAX),
            false => 0,
        };
        if !self.unplaced.is_empty() {
            // The memory for what the disk has no room for is for what is wanted now.
            ahead.window = 0;
        }
        let until = (end + ahead.window).min(file.chunks.end);
        ahead.next = until;
        end..until
    }

    /// Fetches what is behind an inner page of an index beside it: the next read of who waits for the page wants a leaf.
    fn expect_leaves(self: &Arc<Lazy>, file: &LazyFile, first: usize) {
        let leaves: Vec<usize> = (first..file.chunks.end).take(btree::LEAF_CHUNKS).collect();
        let lazy = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = lazy.prefetch(&leaves).await {
                tracing::debug!(?error, "leaves of an index are fetched when they are read");
            }
        });
    }

    /// Where the root of an index is. Of a file whose first page is absent nothing is known.
    fn root(&self, file: &LazyFile) -> Option<u64> {
        if let Some(known) = file.root.get() {
            return *known;
        }
        if !self.has(file, &(0..btree::HEAD_BYTES as u64)) {
            return None;
        }
        let _held = self.lease.hold().ok()?;
        let _working = self.working();
        let mut head = [0; btree::HEAD_BYTES];
        let read = self.open_file(file).and_then(|open| open.read_exact_at(&mut head, 0));
        *file.root.get_or_init(|| read.ok().and_then(|()| btree::root(&head)))
    }

    /// The chunks with the roots of indexes whose first pages are in place.
    pub(super) fn roots(&self) -> Vec<usize> {
        let chunk = |file: &Arc<LazyFile>| {
            let root = if file.chunks.len() > 1 { self.root(file)? } else { return None };
            Some(file.chunks.start + file.numbers.binary_search(&(root / CHUNK)).ok()?)
        };
        self.files.values().filter_map(chunk).collect()
    }

    /// Those of these chunks that nobody fetches yet and that are not whole.
    fn claim(&self, wanted: &[usize]) -> Claimed<'_> {
        let mut flying = self.flights.chunks.lock();
        let is_free = |chunk: &&usize| self.is_absent(**chunk) && flying.insert(**chunk);
        let chunks = wanted.iter().filter(is_free).copied().collect();
        Claimed { flights: &self.flights, chunks }
    }

    fn is_flying(&self, chunks: &[usize]) -> bool {
        let flying = self.flights.chunks.lock();
        chunks.iter().any(|chunk| flying.contains(chunk))
    }

    fn of_chunk(&self, chunk: usize) -> Option<&Arc<LazyFile>> {
        let after = self.in_order.partition_point(|file| file.chunks.start <= chunk);
        self.in_order.get(after.checked_sub(1)?).filter(|file| file.chunks.contains(&chunk))
    }

    fn is_absent(&self, chunk: usize) -> bool {
        self.of_chunk(chunk).is_some_and(|file| {
            let number = file.numbers.get(chunk - file.chunks.start).copied().unwrap_or_default();
            !file.is_whole() && file.all(number) & !self.pages.get(chunk) != 0
        })
    }

    /// Those of these chunks that are absent.
    pub(super) fn absent_of(&self, mut chunks: Vec<usize>) -> Vec<usize> {
        chunks.retain(|chunk| self.is_absent(*chunk));
        chunks
    }

    /// What a fault of the repository or of the disk is to a reader.
    fn told(&self, file: &LazyFile, chunk: usize, error: &Error) -> io::Error {
        let number = file.numbers.get(chunk - file.chunks.start).copied().unwrap_or_default();
        let path = self.tree.entries[file.entry].show();
        let cause = chain(error);
        match self.counts.failures.add(file.entry, &cause) {
            Some(1) => tracing::error!(
                file = path,
                offset = number * CHUNK,
                error = cause,
                "cannot read a chunk of a mounted snapshot"
            ),
            Some(times) => tracing::error!(file = path, times, "chunks of it still cannot be read"),
            None => {}
        }
        if error.kind() == ErrorKind::Corrupt || error.kind() == ErrorKind::NotFound {
            self.counts.damaged.lock().insert(chunk);
        }
        let errno = if error.kind() == ErrorKind::Exhausted { Errno::NOSPC } else { Errno::IO };
        errno.into()
    }

    /// Fetches chunks and puts their absent pages in place, for readers who wait. Which are not in place, because the disk
    /// has no room for them.
    async fn bring(self: &Arc<Lazy>, chunks: &[usize]) -> Result<Decoded> {
        let put = |lazy: &Lazy, chunk: usize, bytes: Arc<Vec<u8>>, unplaced: &mut Decoded| match lazy
            .fill(chunk, &bytes)
        {
            Err(e) if e.kind() == ErrorKind::Exhausted => {
                lazy.unplaced.keep(chunk, &bytes);
                unplaced.insert(chunk, bytes);
                Ok(())
            }
            done => done,
        };
        self.bring_with(chunks, put).await
    }

    /// Fetches those of these chunks that are not in memory, and does this with each.
    async fn bring_with<T: Default + Send + 'static>(
        self: &Arc<Lazy>,
        chunks: &[usize],
        put: impl Fn(&Lazy, usize, Arc<Vec<u8>>, &mut T) -> Result<()> + Send + 'static,
    ) -> Result<T> {
        let known = self.unplaced.of(chunks);
        let unknown: Vec<usize> = chunks.iter().copied().filter(|chunk| !known.contains_key(chunk)).collect();
        let pieces = self.pieces(&unknown).await?;
        let (lazy, chunks) = (Arc::clone(self), chunks.to_vec());
        blocking(move || {
            let mut done = T::default();
            for chunk in chunks {
                let bytes = match known.get(&chunk) {
                    Some(bytes) => Arc::clone(bytes),
                    None => Arc::new(lazy.assemble(chunk, &pieces)?),
                };
                put(&lazy, chunk, bytes, &mut done)?;
            }
            Ok(done)
        })
        .await
    }

    /// The same for nobody in particular: what the disk has no room for is an error, and nothing is fetched until there is
    /// room.
    async fn bring_behind(self: &Arc<Lazy>, chunks: &[usize]) -> Result<()> {
        self.check_room(chunks).await?;
        let put = |lazy: &Lazy, chunk: usize, bytes: Arc<Vec<u8>>, (): &mut ()| {
            let filled = lazy.fill(chunk, &bytes);
            if filled.as_ref().is_err_and(|e| e.kind() == ErrorKind::Exhausted) {
                *lazy.unfit.lock() = Some((chunk, bytes));
            }
            filled
        };
        self.bring_with(chunks, put).await
    }

    /// `Exhausted` if the disk was full, and has no room now for the chunk that did not fit and for these.
    async fn check_room(self: &Arc<Lazy>, chunks: &[usize]) -> Result<()> {
        let Some((unfit, bytes)) = self.unfit.lock().clone() else { return Ok(()) };
        let wanted_bytes: u64 = match self.mode {
            MountMode::Fuse => chunks.iter().map(|chunk| self.lacking_bytes(*chunk)).sum(),
            // All of its space is allocated.
            MountMode::Fanotify => 0,
        };
        let lazy = Arc::clone(self);
        blocking(move || {
            // A quota is known only to a write.
            lazy.fill(unfit, &bytes)?;
            let disk = rustix::fs::fstatvfs(&lazy.root);
            let has_room =
                |disk: rustix::fs::StatVfs| disk.f_bfree.saturating_mul(disk.f_frsize) >= wanted_bytes;
            match disk.map(has_room) {
                Ok(true) => *lazy.unfit.lock() = None,
                Ok(false) => return Err(scan::failed("fill", &lazy.absent, &Errno::NOSPC.into())),
                Err(e) => return Err(scan::failed("look at", &lazy.absent, &e.into())),
            }
            Ok(())
        })
        .await
    }

    /// How much a chunk will occupy that it does not yet.
    fn lacking_bytes(&self, chunk: usize) -> u64 {
        let Some(file) = self.of_chunk(chunk) else { return 0 };
        let Node::File { extents, .. } = &self.tree.entries[file.entry].node else { return 0 };
        let number = file.numbers.get(chunk - file.chunks.start).copied().unwrap_or_default();
        let data = data_in(extents, number * CHUNK..number * CHUNK + file.chunk_bytes(number));
        let data_bytes: u64 = data.map(|part| part.end - part.start).sum();
        data_bytes.min(self.absent_bytes(file, number, !self.pages.get(chunk)))
    }

    /// Puts in place what the disk had no room for, as far as it has now.
    fn place_unplaced(&self) {
        for (chunk, bytes) in self.unplaced.all() {
            if self.fill(chunk, &bytes).is_err() {
                return;
            }
            self.unplaced.forget(chunk);
        }
    }

    /// The beginning of a file as the snapshot has it, whatever users made of it.
    pub(super) async fn stored(self: &Arc<Lazy>, entry: usize, bytes_max: u64) -> Result<Vec<u8>> {
        let Node::File { bytes, extents, chunks } = &self.tree.entries[entry].node else {
            return Err(Error::internal("what is no file is read"));
        };
        let length = (*bytes).min(bytes_max);
        let starts = chunk_numbers(extents).map(|number| number * CHUNK).zip(chunks.clone());
        let wanted: Vec<(u64, usize)> = starts.take_while(|(start, _)| *start < length).collect();
        let mut stored = vec![0; length as usize];
        for part in wanted.chunks(AT_ONCE) {
            let chunks: Vec<usize> = part.iter().map(|(_, chunk)| *chunk).collect();
            let hold = |_: &Lazy, chunk, bytes, held: &mut Decoded| {
                held.insert(chunk, bytes);
                Ok(())
            };
            let held = self.bring_with(&chunks, hold).await?;
            for (start, bytes) in part.iter().filter_map(|(start, chunk)| Some((start, held.get(chunk)?))) {
                let room = &mut stored[*start as usize..];
                let bytes = &bytes[..bytes.len().min(room.len())];
                room[..bytes.len()].copy_from_slice(bytes);
            }
        }
        Ok(stored)
    }

    async fn pieces(&self, chunks: &[usize]) -> Result<HashMap<PieceRef, Bytes>> {
        let refs = chunks.iter().map(|chunk| &self.tree.chunks[*chunk]);
        tokio::select! {
            pieces = fetch(&self.repository, &self.tree.packs, refs) => pieces,
            () = self.lease.over() => Err(Error::unavailable("the mount has ended")),
        }
    }

    fn assemble(&self, chunk: usize, pieces: &HashMap<PieceRef, Bytes>) -> Result<Vec<u8>> {
        let Tree { key, packs, chunks, .. } = &*self.tree;
        let bytes = assemble(key.as_ref(), packs, &chunks[chunk], pieces)?;
        self.counts.fetched_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if self.counts.damaged.lock().remove(&chunk) {
            self.counts.failures.clear();
        }
        Ok(bytes)
    }

    /// Fetches those of these chunks that are absent, for nobody in particular. False if one of them could not be had; an
    /// error if the disk is full, or the repository does not answer or gives nothing.
    pub(super) async fn prefetch(self: &Arc<Lazy>, chunks: &[usize]) -> Result<bool> {
        let claimed = self.claim(chunks);
        let done = self.bring_behind(&claimed.chunks).await;
        *self.counts.trouble.lock() = done.as_ref().err().map(ToString::to_string);
        let Err(error) = done else { return Ok(true) };
        if matches!(error.kind(), ErrorKind::Exhausted | ErrorKind::Unavailable) {
            return Err(error);
        }
        let mut failed = 0;
        for chunk in &claimed.chunks {
            if let Err(error) = self.bring_behind(std::slice::from_ref(chunk)).await
                && let Some(file) = self.of_chunk(*chunk)
            {
                self.told(file, *chunk, &error);
                failed += 1;
            }
        }
        // Who is not let in anywhere need not ask for everything.
        if error.kind() == ErrorKind::Denied && failed == claimed.chunks.len() {
            return Err(error);
        }
        Ok(failed == 0)
    }

    /// Puts the absent pages of a chunk in place. The times of the file and its rights stay.
    fn fill(&self, chunk: usize, bytes: &[u8]) -> Result<()> {
        let Some(file) = self.of_chunk(chunk) else { return Ok(()) };
        let entry = &self.tree.entries[file.entry];
        let Node::File { extents, .. } = &entry.node else { return Ok(()) };
        let number = file.numbers.get(chunk - file.chunks.start).copied().unwrap_or_default();
        let filled = || {
            let _held = self.lease.hold()?;
            let _working = self.working();
            let _writing = file.lock.lock();
            let absent = file.all(number) & !self.pages.get(chunk);
            if absent == 0 || file.is_whole() {
                return Ok(());
            }
            let open = self.open_file(file)?;
            let length = open.metadata()?.len();
            // Who writes to it itself has moved its time since.
            let keeps = self.mode == MountMode::Fuse || self.untouched.has(file.entry);
            let kept = if keeps { Some(Kept::of(&open)?) } else { None };
            let put = || {
                for run in runs(absent) {
                    let start = number * CHUNK;
                    let (first, end) = (start + run.start * PAGE, start + run.end * PAGE);
                    let range = first..end.min(start + bytes.len() as u64).min(length).max(first);
                    let mut end = range.start;
                    for part in data_in(extents, range.clone()) {
                        punch(&open, end..part.start)?;
                        open.write_all_at(
                            &bytes[(part.start - start) as usize..(part.end - start) as usize],
                            part.start,
                        )?;
                        end = part.end;
                    }
                    punch(&open, end..range.end)?;
                }
                Ok(())
            };
            let put: io::Result<()> = put();
            // A disk that is full has taken a part of it.
            if let Some(kept) = kept {
                kept.put_back(&open)?;
            }
            put?;
            if length < file.bytes && !length.is_multiple_of(PAGE) && length / CHUNK == number {
                // Only its length tells what was cut off its last page, and from here on anybody may change that length.
                open.sync_data()?;
                self.set(file, chunk, number, absent)?;
                return self.pages.sync(&self.pages.unsynced(chunk..chunk + 1));
            }
            begin_writeback(&open, number * CHUNK, bytes.len());
            self.set(file, chunk, number, absent)
        };
        filled().map_err(|e: io::Error| scan::failed("write", &PathBuf::from(entry.show()), &e))
    }

    /// A user is about to change a file, its times or its rights: no later process puts them back.
    pub(super) fn touch(&self, file: &LazyFile) -> io::Result<()> {
        let _held = self.lease.hold()?;
        if file.is_whole() { Ok(()) } else { self.untouched.remove(file.entry) }
    }

    /// Gives a file that nobody changed its time and its rights, which filling it may have cost.
    fn dress(&self, file: &LazyFile, open: &File) -> io::Result<()> {
        let meta = &self.tree.entries[file.entry].meta;
        if let Some((name, rights)) = meta.attributes.iter().find(|(name, _)| name == CAPABILITY.as_bytes()) {
            rustix::fs::fsetxattr(open, name.as_slice(), rights, XattrFlags::empty())?;
        }
        Ok(rustix::fs::futimens(open, &times(meta))?)
    }

    /// Writes to an open file, as much as the disk takes; what [`Lazy::need_for_write`] says is in place. How many bytes
    /// it took, and why no more.
    pub(super) fn write(
        &self,
        file: &LazyFile,
        open: &File,
        offset: u64,
        data: &[u8],
    ) -> io::Result<(usize, io::Result<()>)> {
        let _held = self.lease.hold()?;
        let _writing = file.lock.lock();
        self.touch(file)?;
        let range = offset..offset + data.len() as u64;
        file.edges(&range).iter().for_each(|edge| self.note(file, edge));
        let (mut written, stopped) = write_most(open, data, offset);
        let end = offset + written as u64;
        let page = end / PAGE * PAGE;
        if end < (page + PAGE).min(file.bytes) && !self.has(file, &(page..end)) {
            // The snapshot's data will be put over a page that was not written in full.
            written = page.saturating_sub(offset) as usize;
        }
        for (chunk, number, pages) in file.touched(&(offset..offset + written as u64)) {
            self.set(file, chunk, number, pages)?;
        }
        Ok((written, stopped))
    }

    /// Cuts or extends a file; what [`Lazy::need_to_end`] says is in place.
    pub(super) fn cut(&self, file: &LazyFile, open: &File, bytes: u64) -> io::Result<()> {
        let _held = self.lease.hold()?;
        let _writing = file.lock.lock();
        self.touch(file)?;
        open.set_len(bytes)?;
        self.keep_cut(file, open, bytes)
    }

    /// What was behind a new end will be zeros and never what the snapshot has there: that is on the disk before anybody
    /// can extend the file again.
    fn keep_cut(&self, file: &LazyFile, open: &File, bytes: u64) -> io::Result<()> {
        if bytes >= file.bytes || file.is_whole() {
            return Ok(());
        }
        for (chunk, number, pages) in file.touched(&(bytes.next_multiple_of(PAGE)..file.bytes)) {
            self.set(file, chunk, number, pages)?;
        }
        open.sync_all()?;
        self.pages.sync(&self.pages.unsynced(file.chunks.clone()))
    }

    /// Allocates, or makes holes, in which case all of the range has to be in place.
    pub(super) fn allocate(
        &self,
        file: &LazyFile,
        open: &File,
        mode: FallocateFlags,
        range: &ByteRange,
    ) -> io::Result<()> {
        let _held = self.lease.hold()?;
        let _writing = file.lock.lock();
        self.touch(file)?;
        allocate(open, mode, range)
    }

    /// What was written before is on the disk when this returns.
    pub(super) fn sync(&self, file: &LazyFile, open: &File, only_data: bool) -> io::Result<()> {
        let _held = self.lease.hold()?;
        let words = match file.is_whole() {
            true => Vec::new(),
            false => self.pages.unsynced(file.chunks.clone()),
        };
        if only_data {
            open.sync_data()?
        } else {
            open.sync_all()?
        }
        self.pages.sync(&words)
    }

    /// The first byte from `at` on that is data, or that is none, as `lseek` tells it.
    pub(super) fn seek(&self, file: &LazyFile, open: &File, at: u64, data: bool) -> io::Result<u64> {
        let _still = file.lock.lock();
        let end = open.metadata()?.len();
        if at >= end {
            return Err(Errno::NXIO.into());
        }
        let Node::File { extents, .. } = &self.tree.entries[file.entry].node else { return Ok(at) };
        let mut ranges = scan::extents(open, end)?;
        for (chunk, number, pages) in file.touched(&(0..file.bytes.min(end))) {
            for run in runs(pages & !self.pages.get(chunk)) {
                let start = number * CHUNK;
                // A file that was cut may end within a page.
                let run = start + run.start * PAGE..end.min(start + run.end * PAGE);
                ranges.extend(data_in(extents, run));
            }
        }
        ranges.sort_by_key(|range| range.start);
        if data {
            let found = ranges.iter().find(|range| range.end > at).map(|range| range.start.max(at));
            return found.ok_or_else(|| Errno::NXIO.into());
        }
        let mut hole = at;
        for range in ranges {
            if range.start > hole {
                break;
            }
            hole = hole.max(range.end);
        }
        Ok(hole.min(end))
    }

    /// The last name of a file and its last user went: nothing of it is wanted.
    pub(super) fn give_up(&self, file: &LazyFile) -> io::Result<()> {
        let _held = self.lease.hold()?;
        let _writing = file.lock.lock();
        if file.is_whole() {
            return Ok(());
        }
        for (chunk, number, pages) in file.touched(&(0..file.bytes)) {
            self.set(file, chunk, number, pages)?;
        }
        std::fs::remove_file(self.second(file))?;
        file.whole.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether nothing but its second name is left of a file.
    pub(super) fn is_nameless(&self, file: &LazyFile) -> bool {
        !file.is_whole() && std::fs::symlink_metadata(self.second(file)).is_ok_and(|meta| meta.nlink() == 1)
    }

    /// Looks at an open file with nobody writing to it or making it whole; its names are those that users see.
    pub(super) fn stat(
        &self,
        file: &LazyFile,
        open: impl std::os::fd::AsFd,
    ) -> rustix::io::Result<rustix::fs::Stat> {
        let _still = file.lock.lock();
        let mut stat = rustix::fs::fstat(open)?;
        if !file.is_whole() {
            stat.st_nlink -= 1;
        }
        Ok(stat)
    }

    /// Lets files that have all of their data go, after it is on the disk. How many are not whole after that.
    pub(super) fn checkpoint(&self) -> Result<usize> {
        let failed = |e: io::Error| scan::failed("sync", &self.absent, &e);
        let _held = self.lease.hold().map_err(|e| failed(e.into()))?;
        self.place_unplaced();
        let words = self.pages.unsynced(0..self.tree.chunks.len());
        let lacks = |file: &LazyFile| !self.has(file, &(0..file.bytes));
        let (absent, full): (Vec<_>, Vec<_>) =
            self.in_order.iter().filter(|file| !file.is_whole()).partition(|file| lacks(file));
        if words.is_empty() && full.is_empty() {
            return Ok(absent.len());
        }
        rustix::fs::syncfs(&self.root).map_err(|e| failed(e.into()))?;
        self.pages.sync(&words).map_err(failed)?;
        for file in full {
            let _writing = file.lock.lock();
            match std::fs::remove_file(self.second(file)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
                _ => file.whole.store(true, Ordering::Release),
            }
        }
        Ok(absent.len())
    }
}

/// What filling a file may cost it: its times, and a program's rights.
struct Kept {
    times: Timestamps,
    rights: Option<Vec<u8>>,
}

impl Kept {
    fn of(open: &File) -> io::Result<Kept> {
        let stat = rustix::fs::fstat(open)?;
        let mut rights = vec![0; 256];
        let length = rustix::fs::fgetxattr(open, CAPABILITY, &mut rights[..]).ok();
        let time = |seconds, nanos| Timespec { tv_sec: seconds, tv_nsec: nanos };
        let times = Timestamps {
            last_access: time(stat.st_atime, stat.st_atime_nsec as _),
            last_modification: time(stat.st_mtime, stat.st_mtime_nsec as _),
        };
        Ok(Kept { times, rights: length.map(|length| rights[..length].to_vec()) })
    }

    fn put_back(&self, open: &File) -> io::Result<()> {
        if let Some(rights) = &self.rights {
            rustix::fs::fsetxattr(open, CAPABILITY, rights, XattrFlags::empty())?;
        }
        Ok(rustix::fs::futimens(open, &self.times)?)
    }
}

/// Writes as much as the disk takes: how many bytes, and why no more.
pub(super) fn write_most(open: &File, data: &[u8], offset: u64) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < data.len() {
        match open.write_at(&data[written..], offset + written as u64) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => written += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return (written, Err(e)),
        }
    }
    (written, Ok(()))
}

/// Allocates; after an error the file has the length that it had, whatever the disk took: the kernel remembers that one.
pub(super) fn allocate(open: &File, mode: FallocateFlags, range: &ByteRange) -> io::Result<()> {
    let bytes = open.metadata()?.len();
    let done = rustix::fs::fallocate(open, mode, range.start, range.end - range.start);
    if done.is_err() && open.metadata()?.len() > bytes {
        open.set_len(bytes)?;
    }
    Ok(done?)
}

/// Makes a hole, where a write that was not acknowledged may have left data.
fn punch(open: &File, range: ByteRange) -> io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(open, mode, range.start, range.end - range.start)?)
}

/// The runs of bits that are set.
fn runs(bits: u64) -> impl Iterator<Item = Range<u64>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bits.checked_shr(at).unwrap_or_default();
        if rest == 0 {
            return None;
        }
        let start = at + rest.trailing_zeros();
        let end = start + (bits >> start).trailing_ones();
        at = end;
        Some(u64::from(start)..u64::from(end))
    })
}

#[cfg(test)]
mod tests;
