//! Taking a snapshot of a directory.
//!
//! 1. The log gets an entry: a snapshot begins, on top of the newest one of its volume.
//! 2. The directory is looked at. Files that look as they did in the base are not read; see [`is_unchanged`].
//! 3. The others are read chunk by chunk, in the order in which a reader will probably want them. A chunk that the base
//!    has is not stored again; one of which few pages changed is stored as these pages.
//! 4. The directory is looked at again. Where it is not what it was, the snapshot is refused. Of a running PostgreSQL,
//!    its log is read instead.
//! 5. Where a directory may change, what was replaced or appeared meanwhile is read now. A file is one that was there:
//!    never the length of one and the contents of another, and no name is left out that was there all the time.
//! 6. The tree is written, then the log gets the entry that makes the snapshot exist.

mod chunks;
mod packer;
mod postgres;
mod psql;
mod summaries;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use rustix::fs::{Mode, OFlags};

use frostline_base::{Error, Result};

use crate::btree;
use crate::digest::Digest;
use crate::freeze::{self, Frozen};
use crate::log::{Consistency, LogEntry, Running, Snapshot, State, Totals, VolumeName};
use crate::mount;
use crate::order;
use crate::patterns;
use crate::scan::{self, Found, Links, Scan, Scope};
use crate::seal::{self, VolumeKey};
use crate::tree::{
    DATA, Entry, Meta, Node, Pack, SnapshotId, Time, Tree, chunk_numbers, chunk_range, encode, tree_key,
};
use crate::volumes::Volumes;
use chunks::{Base, Job, Read, Source};
use packer::{Packed, Packer};
pub(crate) use postgres::{TABLESPACE_LINKS, TABLESPACE_MAP};
use summaries::{Changed, Mark, Relation};

/// A job reads about so many bytes.
const JOB_BYTES: u64 = 1 << 20;
/// And no more files than this.
const JOB_READS_MAX: usize = 256;
/// A file that changed so shortly before its base was begun is read again: its times may not have moved.
const RACY_MS: i64 = 2_000;
/// Changed paths that a refusal names.
const NAMED_MAX: usize = 5;
/// Lists of packs that are asked for at once.
const LISTS_AT_ONCE: usize = 16;
/// Files that are held open at once.
const OPEN_MAX: usize = 64;

/// How to take a snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotOptions {
    /// The name of the machine, for people.
    pub host: String,
    /// Read every file, however it looks.
    pub rehash: bool,
    /// Take a directory that changes while it is read.
    pub crash_consistent: bool,
    /// Freeze the file system while it is read.
    pub freeze: bool,
    /// The directory is that of a running PostgreSQL: how to connect to it.
    pub postgres: Option<String>,
    /// Names and paths to leave out.
    pub exclude: Vec<glob::Pattern>,
    /// Do not enter other file systems.
    pub one_file_system: bool,
    /// A pack ends when it has so many bytes.
    pub pack_bytes: usize,
    /// Threads that read and pack.
    pub threads: usize,
    /// Set it to stop.
    pub cancel: Arc<AtomicBool>,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        SnapshotOptions {
            host: String::new(),
            rehash: false,
            crash_consistent: false,
            freeze: false,
            postgres: None,
            exclude: Vec::new(),
            one_file_system: false,
            pack_bytes: 32 << 20,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            cancel: Arc::default(),
        }
    }
}

/// How far a snapshot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotProgress {
    /// Bytes that will be read.
    pub bytes: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that are stored for them.
    pub stored_bytes: u64,
}

/// A snapshot that was taken.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Its record.
    pub snapshot: Snapshot,
    /// What changed while it was read; empty unless the directory may change.
    pub changed: Vec<String>,
    /// Packs of the previous snapshot that are gone or have another length. Their data was read and stored again.
    pub lost: Vec<String>,
    /// What the summaries of a running PostgreSQL were good for, where it has some and there is a snapshot before.
    pub summaries: Option<Summaries>,
}

/// What the summaries that PostgreSQL has of its log were good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summaries {
    /// So many bytes of relations were known to be as before, and not read.
    Used(u64),
    /// They were of no use, for this reason.
    Unused(String),
}

impl Volumes {
    /// Takes a snapshot of `directory` as the newest one of `volume`. Nothing of it is there unless all of it is.
    ///
    /// `Conflict` where the directory changed meanwhile, or a prune took the snapshot for abandoned.
    pub async fn snapshot(
        &self,
        directory: &Path,
        volume: &VolumeName,
        options: &SnapshotOptions,
        progress: impl Fn(SnapshotProgress) + Send + Sync,
    ) -> Result<Taken> {
        let directory =
            std::fs::canonicalize(directory).map_err(|e| scan::failed("look at", directory, &e))?;
        self.check_place(&directory, options)?;
        let id = SnapshotId::from_random((self.random)());
        let state = self.begin(id, volume, options).await?;
        let begun = state.running.get(&id).cloned();
        let begun = begun.ok_or_else(|| Error::internal("a snapshot was begun and is not there"))?;
        let base = begun.base.and_then(|base| state.snapshots.get(&base).cloned());
        let writing = Writing { volumes: self, directory, options, begun, base };
        match writing.run(state, progress).await {
            Ok(taken) => Ok(taken),
            Err(error) => {
                if let Err(error) = self.abandon(id).await {
                    tracing::warn!(?error, "what a snapshot left behind stays until a prune");
                }
                Err(error)
            }
        }
    }

    /// The repository, if it is a directory.
    fn local_repository(&self) -> Option<PathBuf> {
        let repository = frostline_store::local_directory(self.repository.url())?;
        Some(std::fs::canonicalize(&repository).unwrap_or(repository))
    }

    /// What is written while it is read would never end, and what is frozen cannot be written.
    fn check_place(&self, directory: &Path, options: &SnapshotOptions) -> Result<()> {
        patterns::check(&options.exclude)?;
        let repository = self.local_repository();
        if let Some(repository) = repository.as_deref().filter(|repository| repository.starts_with(directory))
        {
            return Err(Error::invalid(format!(
                "the repository {} is in the directory {}",
                repository.display(),
                directory.display()
            )));
        }
        if options.postgres.is_some() && (options.freeze || options.crash_consistent) {
            return Err(Error::invalid(
                "a backup of PostgreSQL needs neither --freeze nor --crash-consistent",
            ));
        }
        mount::check_whole(directory)?;
        if options.freeze { freeze::check(directory, repository.as_deref()) } else { Ok(()) }
    }

    pub(crate) async fn begin(
        &self,
        id: SnapshotId,
        volume: &VolumeName,
        options: &SnapshotOptions,
    ) -> Result<Arc<State>> {
        let (entry_id, now_ms) = ((self.random)(), self.now_ms());
        let plan = |state: &State| {
            let base = state.of(volume).last().copied();
            if let Some(base) = base {
                self.check_key(base)?;
            }
            let base = base.map(|snapshot| snapshot.id);
            let host = if self.key.is_some() { String::new() } else { options.host.clone() };
            let volume = volume.clone();
            let begin = Running { id, volume, base, host, started_ms: now_ms };
            Ok(Some(LogEntry { begin: Some(begin), ..LogEntry::new(entry_id, now_ms, "begin") }))
        };
        self.log.append(self.log.read().await?, plan).await
    }

    /// A volume is encrypted with one key from its first snapshot on, or not at all.
    fn check_key(&self, base: &Snapshot) -> Result<()> {
        let is_mixed = base.key.is_none() && self.key.is_some();
        match is_mixed {
            true => Err(Error::invalid(format!(
                "the volume {} is not encrypted: begin another one with --name to encrypt it",
                base.volume
            ))),
            false => seal::check(self.key.as_ref(), base).map(drop),
        }
    }

    /// Which of these packs are gone or have another length. One LIST for each snapshot that wrote some of them.
    async fn lost_packs(&self, packs: &[Pack]) -> Result<Vec<u32>> {
        let mut missing: HashMap<(String, u64), u32> =
            packs.iter().zip(0..).map(|(pack, at)| ((pack.object().key, pack.bytes), at)).collect();
        let writers: BTreeSet<SnapshotId> = packs.iter().map(|pack| pack.writer).collect();
        let lists = writers.into_iter().map(|writer| self.repository.list(&format!("{DATA}/{writer}")));
        let mut there = futures::stream::iter(lists).flatten_unordered(LISTS_AT_ONCE);
        while let Some(object) = there.try_next().await? {
            missing.remove(&(object.key, object.bytes));
        }
        let mut lost: Vec<u32> = missing.into_values().collect();
        lost.sort_unstable();
        Ok(lost)
    }

    /// Gives up a begun snapshot, then deletes what it wrote.
    async fn abandon(&self, id: SnapshotId) -> Result<()> {
        let (entry_id, now_ms) = ((self.random)(), self.now_ms());
        let plan = |state: &State| {
            let entry = LogEntry { abandon: vec![id], ..LogEntry::new(entry_id, now_ms, "abandon") };
            Ok(state.running.contains_key(&id).then_some(entry))
        };
        let state = self.log.append(self.log.read().await?, plan).await?;
        // The put that committed it may have gone without an answer.
        if state.snapshots.contains_key(&id) {
            return Ok(());
        }
        let objects = self.repository.list(&format!("{DATA}/{id}"));
        let keys: Vec<String> = objects.map_ok(|object| object.key).try_collect().await?;
        self.repository.delete(keys).await
    }
}

/// A snapshot that is being written.
struct Writing<'a> {
    volumes: &'a Volumes,
    directory: PathBuf,
    options: &'a SnapshotOptions,
    begun: Running,
    base: Option<Snapshot>,
}

impl Writing<'_> {
    async fn run(
        &self,
        state: Arc<State>,
        progress: impl Fn(SnapshotProgress) + Send + Sync,
    ) -> Result<Taken> {
        let (base, lost) = self.read_base().await?;
        let freeze = || Frozen::begin(&self.directory, self.volumes.local_repository().as_deref());
        let frozen = self.options.freeze.then(freeze).transpose()?;
        let (started_ms, started) = (self.volumes.now_ms(), Instant::now());
        // The first write through a mapping to a clean page updates the times, so pages are cleaned before the scan.
        let watches = frozen.is_none();
        if watches {
            self.sync(vec![self.directory.clone()]).await?;
        }
        let backup = self.begin_backup().await?;
        let (backup, mut found) = self.scan(backup).await?;
        let places = found.places(self.options.one_file_system);
        if frozen.is_some() {
            freeze::check_scan(&places)?;
        } else if backup.is_none() {
            // Pages that became dirty between that sync and the scan, and those of other file systems, are cleaned, too.
            self.sync(places).await?;
        }
        let mut packer = Packer::new(self.volumes, self.begun.id, &base.tree.packs, self.options.pack_bytes)?;
        let mut storing = Storing {
            packer: &mut packer,
            packed: Packed::default(),
            progress: &progress,
            at: SnapshotProgress::default(),
        };
        let mut plan = Plan::default();
        let (mut mark, mut summaries) = (None, None);
        let backup = match backup {
            None => None,
            Some(backup) => {
                plan.given.insert(postgres::CONTROL.to_vec(), backup.control.clone());
                mark = backup.mark(self.begun.id);
                let (backup, changed) = self.changed_blocks(backup).await?;
                match changed {
                    Some(Ok(changed)) => {
                        plan.unchanged = Some(Unchanged::of(changed, &backup, &found, &base))
                    }
                    Some(Err(reason)) => summaries = Some(Summaries::Unused(reason)),
                    None => {}
                }
                Some(backup)
            }
        };
        self.add(&mut plan, &found, 0, &base).await?;
        self.store(&mut plan, &base, &mut storing).await?;
        let is_backup = backup.is_some();
        let changed = match backup {
            None => {
                let (changed, second) = self.changes(&found, &plan.vanished).await?;
                if !changed.is_empty() {
                    self.read_again(&mut found, Some(second), &mut plan, &base, &mut storing).await?;
                }
                changed
            }
            Some(backup) => {
                self.read_again(&mut found, None, &mut plan, &base, &mut storing).await?;
                self.end_backup(backup, &mut found, &mut plan, &base, &mut storing).await?;
                Vec::new()
            }
        };
        // Something may have been mounted since the names were looked at.
        let found = blocking(move || mount::check_mounts(&found).map(|()| found)).await?;
        let packed = storing.packed;
        packer.finish().await?;
        if let Some(frozen) = frozen {
            frozen.thaw()?;
        }
        if plan.unchanged.is_some() {
            summaries = Some(Summaries::Used(plan.known_bytes));
        }
        let mut totals = Totals { read_bytes: plan.bytes, ..packer.totals() };
        let tree = assemble(found, plan, packed, base, packer.into_packs(), self.volumes.key.clone())?;
        count(&tree, &mut totals);
        let (bytes, head_bytes) = encode(&tree, self.begun.id)?;
        drop(tree);
        let end = bytes.len() - crate::tree::TAIL_BYTES as usize;
        totals.stored_bytes += bytes.len() as u64;
        let snapshot = Snapshot {
            id: self.begun.id,
            volume: self.begun.volume.clone(),
            number: 0,
            base: self.begun.base,
            // Files are trusted by it, so it is the earliest that it may be by a clock that was set back meanwhile.
            started_ms: started_ms.min(self.volumes.now_ms() - started.elapsed().as_millis() as i64),
            finished_ms: 0,
            host: self.begun.host.clone(),
            directory: match self.volumes.key {
                Some(_) => String::new(),
                None => self.directory.display().to_string(),
            },
            consistency: match () {
                () if is_backup => Consistency::Backup,
                () if !changed.is_empty() => Consistency::Changing,
                () if self.options.freeze => Consistency::Frozen,
                () => Consistency::Unchanged,
            },
            tree_bytes: bytes.len() as u64,
            head_bytes,
            head: Digest::of(&bytes[end - head_bytes as usize..end]),
            key: self.volumes.key.as_ref().map(VolumeKey::id),
            totals,
        };
        self.volumes.repository.put(&tree_key(self.begun.id), Bytes::from(bytes)).await?;
        let snapshot = self.commit(state, snapshot).await?;
        if let Some(mark) = mark {
            self.remember(mark).await;
        }
        Ok(Taken { snapshot, changed, lost, summaries })
    }

    /// What changed since the base, or why that is not known. None where nothing would be gained.
    async fn changed_blocks(
        &self,
        backup: postgres::Backup,
    ) -> Result<(postgres::Backup, Option<Result<Changed, String>>)> {
        let base = self.base.as_ref().filter(|base| !self.options.rehash && backup.mark(base.id).is_some());
        let Some(base) = base.map(|base| (base.id, base.name())) else { return Ok((backup, None)) };
        let directory = self.directory.clone();
        blocking(move || {
            let changed = match summaries::read_mark(&directory, base.0) {
                Some(mark) => backup.changed(&mark),
                None => Err(format!(
                    "{} was not taken of this directory as it is, or without summaries (summarize_wal)",
                    base.1
                )),
            };
            Ok((backup, Some(changed)))
        })
        .await
    }

    /// Without a mark the next snapshot reads more.
    async fn remember(&self, mark: Mark) {
        let (directory, base) = (self.directory.clone(), self.begun.base);
        let written = blocking(move || {
            let path = directory.join(summaries::MARKS);
            summaries::write_mark(&directory, mark, base).map_err(|e| scan::failed("write", &path, &e))
        });
        if let Err(error) = written.await {
            tracing::warn!(%error, "the next snapshot cannot use the server's summaries");
        }
    }

    /// The base without lost data, and the names of the lost packs.
    async fn read_base(&self) -> Result<(Arc<Base>, Vec<String>)> {
        let tree = match &self.base {
            Some(base) => self.volumes.tree(base).await?,
            None => Tree::default(),
        };
        let lost = self.volumes.lost_packs(&tree.packs).await?;
        let names = lost.iter().filter_map(|pack| tree.packs.get(*pack as usize));
        let names = names.map(|pack| pack.object().key).collect();
        Ok((Arc::new(Base::new(tree, &lost.into_iter().collect())), names))
    }

    /// Syncs the file systems that these are on.
    async fn sync(&self, places: Vec<PathBuf>) -> Result<()> {
        blocking(move || {
            for place in places {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let open = rustix::fs::open(&place, flags, Mode::empty());
                if let Err(error) = open.and_then(rustix::fs::syncfs) {
                    tracing::debug!(%error, place = %place.display(), "cannot sync the file system");
                }
            }
            Ok(())
        })
        .await
    }

    async fn begin_backup(&self) -> Result<Option<postgres::Backup>> {
        let Some(conninfo) = self.options.postgres.clone() else { return Ok(None) };
        let (directory, name) = (self.directory.clone(), self.begun.id.to_string());
        blocking(move || postgres::Backup::begin(&conninfo, &directory, &name)).await.map(Some)
    }

    /// Ends the backup, and stores what it needs besides the directory.
    async fn end_backup(
        &self,
        backup: postgres::Backup,
        found: &mut Scan,
        plan: &mut Plan,
        base: &Arc<Base>,
        storing: &mut Storing<'_, '_, impl Fn(SnapshotProgress) + Sync>,
    ) -> Result<()> {
        let directory = self.directory.clone();
        let mut stopped = blocking(move || backup.stop(&directory)).await?;
        let root = found.entries.first().map(|root| root.entry.meta.clone()).unwrap_or_default();
        let first = found.entries.len();
        found.entries.append(&mut stopped.log);
        for (file, bytes) in stopped.files(&root, self.volumes.now_ms()) {
            plan.given.insert(file.entry.path.clone(), bytes);
            found.entries.push(file);
        }
        self.add(plan, found, first, base).await?;
        self.store(plan, base, storing).await
    }

    /// Looks at the directory, and at the tablespaces of the server that is backed up.
    async fn scan(&self, backup: Option<postgres::Backup>) -> Result<(Option<postgres::Backup>, Scan)> {
        let (exclude, one_file_system) = (self.options.exclude.clone(), self.options.one_file_system);
        let left_out = backup.is_some().then_some(postgres::is_left_out as _);
        let (directory, scope) = (self.directory.clone(), Scope { exclude, one_file_system, left_out });
        blocking(move || {
            let mut scan = scan::scan(&directory, &scope)?;
            if !scope.one_file_system {
                mount::leave_out_hidden(&mut scan);
            }
            if let Some(backup) = &backup {
                scan.unlink(b"pg_wal");
                backup.add_tablespaces(&mut scan, &directory, &scope)?;
            }
            mount::check_scan(&scan)?;
            scan.link();
            Ok((backup, scan))
        })
        .await
    }

    /// Adds which files have to be read, from `first` on, and where they have data.
    async fn add(&self, plan: &mut Plan, scan: &Scan, first: usize, base: &Base) -> Result<()> {
        let trusted_ms = self
            .base
            .as_ref()
            .filter(|_| !self.options.rehash)
            .map(|base| base.started_ms.saturating_sub(RACY_MS));
        let mut unsure = Vec::new();
        for (number, found) in scan.entries.iter().enumerate().skip(first) {
            let Node::File { .. } = found.entry.node else { continue };
            let before = base.file(&found.entry);
            match before {
                Some(before) if trusted_ms.is_some_and(|ms| is_unchanged(&found.entry, before, ms)) => {
                    plan.kept.insert(number, before.node.clone());
                }
                _ => unsure.push(number),
            }
        }
        let paths = scan.entries.iter().map(|found| found.entry.path.as_slice());
        let cluster = order::cluster(paths);
        let rank = |number: &usize| {
            let entry = &scan.entries[*number].entry;
            let Node::File { bytes, .. } = entry.node else { return u8::MAX };
            order::rank(&entry.path, bytes, cluster.as_deref())
        };
        unsure.sort_by_cached_key(|number| (rank(number), *number));
        for number in unsure {
            let found = &scan.entries[number];
            let path = scan.place(&found.entry.path);
            match found.extents(&path)? {
                Some(extents) => {
                    plan.push(number, found, Source::Path(path, found.identity), extents, base);
                }
                None => drop(plan.vanished.insert(number)),
            }
        }
        if cluster.is_some() {
            let is_relation = |number: &usize| rank(number) == order::LARGE;
            let roots = plan.roots(is_relation).await?;
            let rank = |read: &Read| match rank(&read.file) {
                order::LARGE if read.range.start == 0 => order::START,
                order::LARGE if roots.get(&read.file).is_some_and(|root| read.range.contains(root)) => {
                    order::START
                }
                rank => rank,
            };
            plan.reads.sort_by_cached_key(rank);
        }
        Ok(())
    }

    /// Reads what the plan says and stores what is new.
    async fn store(
        &self,
        plan: &mut Plan,
        base: &Arc<Base>,
        storing: &mut Storing<'_, '_, impl Fn(SnapshotProgress) + Sync>,
    ) -> Result<()> {
        let Storing { packer, packed, progress, at } = storing;
        for (file, at, chunk) in plan.known.drain(..) {
            packed.chunks.entry(file).or_default().insert(at, base.tree.chunks[chunk].clone());
        }
        at.bytes = plan.bytes;
        progress(*at);
        let reads = std::mem::take(&mut plan.reads);
        let jobs = plan.jobs(&reads);
        let directories = chunks::Directories::new(&self.volumes.repository, base);
        let done = jobs.map(|job| chunks::run(job, Arc::clone(base), &directories));
        let mut done = futures::stream::iter(done).buffered(self.options.threads.max(1) * 2);
        while let Some(job) = done.try_next().await? {
            if self.options.cancel.load(Ordering::Relaxed) {
                return Err(Error::stopped("the snapshot was stopped"));
            }
            for ready in job {
                at.read_bytes += ready.read_bytes;
                packer.push(ready, base, packed).await?;
            }
            at.stored_bytes = packer.totals().stored_bytes;
            progress(*at);
        }
        drop(done);
        plan.vanished.extend(packed.vanished.drain());
        Ok(())
    }

    /// What is not as it was at the first look, and a second look. `Conflict` unless that is allowed.
    async fn changes(&self, first: &Scan, vanished: &HashSet<usize>) -> Result<(Vec<String>, Scan)> {
        let (_, second) = self.scan(None).await?;
        let before: HashMap<&[u8], &Found> =
            first.entries.iter().map(|f| (f.entry.path.as_slice(), f)).collect();
        let after: HashSet<&[u8]> = second.entries.iter().map(|f| f.entry.path.as_slice()).collect();
        let is_other =
            |found: &&Found| !before.get(found.entry.path.as_slice()).is_some_and(|f| f.is_same(found));
        let changed = second.entries.iter().filter(is_other);
        let gone = first.entries.iter().filter(|found| !after.contains(found.entry.path.as_slice()));
        let mut changed: Vec<String> = changed.chain(gone).map(|found| found.entry.show()).collect();
        let told: HashSet<String> = changed.iter().cloned().collect();
        let vanished = vanished.iter().map(|number| first.entries[*number].entry.show());
        changed.extend(vanished.filter(|path| !told.contains(path)));
        if changed.is_empty() || self.options.crash_consistent {
            return Ok((changed, second));
        }
        let named = changed.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
        let more = match changed.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Err(Error::conflict(format!(
            "{} changed while it was read ({named}{more}): stop what writes to it, read a snapshot of the file system, use --freeze, use --postgres for a running PostgreSQL, or accept files of different moments with --crash-consistent",
            self.directory.display()
        )))
    }

    /// Reads what was replaced, or appeared, since the first look: files that were others when they were to be read, and
    /// what a second look found. What is gone is left out, unless it was read before.
    async fn read_again(
        &self,
        found: &mut Scan,
        second: Option<Scan>,
        plan: &mut Plan,
        base: &Arc<Base>,
        storing: &mut Storing<'_, '_, impl Fn(SnapshotProgress) + Sync>,
    ) -> Result<()> {
        let mut unread = std::mem::take(&mut plan.vanished);
        let mut again = unread.clone();
        if let Some(second) = second {
            let (replaced, new) = self.differences(found, second)?;
            again.extend(replaced);
            for new in new {
                if !new.is_directory() {
                    unread.insert(found.entries.len());
                    again.insert(found.entries.len());
                }
                found.entries.push(new);
            }
        }
        let paths: HashSet<&[u8]> = again.iter().map(|at| found.entries[*at].entry.path.as_slice()).collect();
        let is_of = |found: &Found| matches!(&found.entry.node, Node::HardLink(to) if paths.contains(&**to));
        let further: Vec<usize> = (0..found.entries.len()).filter(|at| is_of(&found.entries[*at])).collect();
        unread.extend(&further);
        again.extend(&further);
        let mut links = Links::default();
        for (number, found) in found.entries.iter_mut().enumerate() {
            if !again.contains(&number) {
                links.link(found);
            }
        }
        let mut again: Vec<usize> = again.into_iter().collect();
        again.sort_by(|a, b| found.entries[*a].entry.path.cmp(&found.entries[*b].entry.path));
        for numbers in again.chunks(OPEN_MAX) {
            let paths = numbers.iter().map(|number| found.entries[*number].entry.path.clone());
            let paths: Vec<(PathBuf, Vec<u8>)> = paths.map(|path| (found.place(&path), path)).collect();
            let look = |(full, path): (PathBuf, _)| Ok((scan::found_open(&full, path)?, full));
            let looked: Vec<_> = blocking(move || paths.into_iter().map(look).collect::<Result<_>>()).await?;
            for (number, (looked, full)) in numbers.iter().zip(looked) {
                let Some((mut now, file)) = looked else {
                    if unread.contains(number) {
                        plan.gone.insert(*number);
                    }
                    continue;
                };
                if now.is_directory() {
                    return Err(self.another_kind(&now));
                }
                plan.forget(*number);
                storing.packed.chunks.remove(number);
                links.link(&mut now);
                if let (Some(file), Node::File { bytes, .. }) = (file, &now.entry.node) {
                    let extents = scan::extents(&file, *bytes)
                        .map_err(|e| scan::failed("find the holes of", &full, &e.into()))?;
                    plan.push(*number, &now, Source::Open(full, Arc::new(file)), extents, base);
                }
                found.entries[*number] = now;
            }
            self.store(plan, base, storing).await?;
        }
        Ok(())
    }

    /// What is another file at the second look than at the first, and what the first did not find.
    fn differences(&self, first: &Scan, second: Scan) -> Result<(Vec<usize>, Vec<Found>)> {
        let before: HashMap<&[u8], usize> =
            first.entries.iter().enumerate().map(|(at, found)| (found.entry.path.as_slice(), at)).collect();
        let (mut replaced, mut new) = (Vec::new(), Vec::new());
        for found in second.entries {
            let Some(number) = before.get(found.entry.path.as_slice()) else {
                new.push(found);
                continue;
            };
            let before = &first.entries[*number];
            if before.is_directory() != found.is_directory() {
                return Err(self.another_kind(&found));
            }
            if !found.is_directory() && before.identity != found.identity {
                replaced.push(*number);
            }
        }
        Ok((replaced, new))
    }

    fn another_kind(&self, found: &Found) -> Error {
        Error::conflict(format!(
            "{} was made a directory, or was one, while {} was read: take the snapshot again",
            found.entry.show(),
            self.directory.display()
        ))
    }

    async fn commit(&self, state: Arc<State>, snapshot: Snapshot) -> Result<Snapshot> {
        let (id, entry_id, now_ms) = (snapshot.id, (self.volumes.random)(), self.volumes.now_ms());
        let plan = |state: &State| {
            if !state.running.contains_key(&id) {
                return Err(Error::conflict(
                    "a prune took this snapshot for abandoned because it had written nothing for long: take it again",
                ));
            }
            Ok(Some(LogEntry::of(snapshot.clone(), entry_id, now_ms)))
        };
        let state = self.volumes.log.append(state, plan).await?;
        let lost = || Error::internal("a snapshot was committed and is not there");
        state.snapshots.get(&id).cloned().ok_or_else(lost)
    }
}

/// Whether a file need not be read: its length, inode and times are those of the base, and it was last changed clearly
/// before the base was begun. The time of the last change cannot be set by a program.
fn is_unchanged(now: &Entry, before: &Entry, trusted_ms: i64) -> bool {
    let (Node::File { bytes, .. }, Node::File { bytes: bytes_before, .. }) = (&now.node, &before.node) else {
        return false;
    };
    let times = |meta: &Meta| (meta.modified, meta.changed, meta.inode);
    let is_old = |time: Time| {
        time.seconds.saturating_mul(1_000).saturating_add(i64::from(time.nanos / 1_000_000)) < trusted_ms
    };
    now.path == before.path
        && bytes == bytes_before
        && times(&now.meta) == times(&before.meta)
        && is_old(now.meta.changed)
}

/// What was stored, and whom it is told.
struct Storing<'a, 'b, P> {
    packer: &'a mut Packer<'b>,
    packed: Packed,
    progress: &'a P,
    at: SnapshotProgress,
}

/// What is to be read.
#[derive(Default)]
struct Plan {
    /// Contents that are not those of the file at that path.
    given: HashMap<Vec<u8>, Bytes>,
    /// Files that are as in the base, and what they are there.
    kept: HashMap<usize, Node>,
    /// Files that were others, or gone, when they were to be read.
    vanished: HashSet<usize>,
    /// What is left out because it is gone.
    gone: HashSet<usize>,
    /// Files to read: their paths and extents.
    files: HashMap<usize, FilePlan>,
    /// Their chunks that were not read yet, in the order of storing.
    reads: Vec<Read>,
    bytes: u64,
    /// What a server says of them.
    unchanged: Option<Unchanged>,
    /// Their chunks that are as in the base: the file, where in it, and the chunk there.
    known: Vec<(usize, u64, usize)>,
    known_bytes: u64,
}

/// What a server says of its relations.
struct Unchanged {
    changed: Changed,
    /// Those that files are of, and their numbers in them.
    files: HashMap<usize, (Relation, u64)>,
}

impl Unchanged {
    fn of(changed: Changed, backup: &postgres::Backup, scan: &Scan, base: &Base) -> Unchanged {
        let paths = || scan.entries.iter().map(|found| found.entry.path.as_slice());
        // Of an unlogged relation there is a fork to begin anew with.
        let unlogged: HashSet<&[u8]> = paths().filter_map(|path| path.strip_suffix(b"_init")).collect();
        let is_logged = |path: &[u8]| {
            let name = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
            let end = path[name..].iter().position(|byte| *byte == b'.').map_or(path.len(), |dot| name + dot);
            !unlogged.contains(&path[..end])
        };
        let relation = |(number, path): (usize, &[u8])| {
            let relation = backup.relation(path).filter(|_| base.has(path) && is_logged(path))?;
            Some((number, relation))
        };
        Unchanged { files: paths().enumerate().filter_map(relation).collect(), changed }
    }

    fn is_kept(&self, file: usize, at: u64, bytes: u64) -> bool {
        self.files
            .get(&file)
            .is_some_and(|(relation, number)| self.changed.is_kept(*relation, *number, at, bytes))
    }
}

struct FilePlan {
    source: Source,
    extents: Vec<std::ops::Range<u64>>,
}

impl Plan {
    fn push(
        &mut self,
        number: usize,
        found: &Found,
        source: Source,
        extents: Vec<std::ops::Range<u64>>,
        base: &Base,
    ) {
        let Node::File { bytes, .. } = found.entry.node else { return };
        let before = base.file(&found.entry).map(|entry| &entry.node);
        let before: HashMap<u64, usize> = match before {
            Some(Node::File { extents, chunks, .. }) => chunk_numbers(extents).zip(chunks.clone()).collect(),
            _ => HashMap::new(),
        };
        for chunk in chunk_numbers(&extents) {
            let range = chunk_range(chunk, bytes);
            let (length, base_chunk) = (range.end - range.start, before.get(&chunk).copied());
            let known = base_chunk.filter(|chunk| {
                u64::from(base.tree.chunks[*chunk].bytes) == length
                    && self.unchanged.as_ref().is_some_and(|of| of.is_kept(number, range.start, bytes))
            });
            if let Some(chunk) = known {
                self.known.push((number, range.start, chunk));
                self.known_bytes += length;
                continue;
            }
            self.bytes += length;
            self.reads.push(Read { file: number, range, base: base_chunk });
        }
        let source = self.given.get(&found.entry.path).cloned().map_or(source, Source::Bytes);
        self.files.insert(number, FilePlan { source, extents });
    }

    /// A file is to be read as another one.
    fn forget(&mut self, number: usize) {
        self.kept.remove(&number);
        self.files.remove(&number);
        if let Some(unchanged) = &mut self.unchanged {
            unchanged.files.remove(&number);
        }
    }

    /// Where the roots of indexes are, by file. Of a file that cannot be read, reading it will tell.
    async fn roots(&self, is_relation: impl Fn(&usize) -> bool) -> Result<HashMap<usize, u64>> {
        let source = |(number, file): (&usize, &FilePlan)| match &file.source {
            Source::Path(path, _) if is_relation(number) => Some((*number, path.clone())),
            _ => None,
        };
        let files: Vec<(usize, PathBuf)> = self.files.iter().filter_map(source).collect();
        let root = |(number, path): (usize, PathBuf)| {
            let mut head = [0; btree::HEAD_BYTES];
            File::open(path).and_then(|file| file.read_exact_at(&mut head, 0)).ok()?;
            Some((number, btree::root(&head)?))
        };
        blocking(move || Ok(files.into_iter().filter_map(root).collect())).await
    }

    fn jobs<'a>(&'a self, reads: &'a [Read]) -> impl Iterator<Item = Job> + 'a {
        let mut rest = reads;
        std::iter::from_fn(move || {
            let mut bytes = 0;
            let fits = |read: &&Read| {
                let is_first = bytes == 0;
                bytes += read.range.end - read.range.start;
                is_first || bytes <= JOB_BYTES
            };
            let count = rest.iter().take(JOB_READS_MAX).take_while(fits).count();
            let (job, others) = rest.split_at(count);
            rest = others;
            let source = |read: &Read| self.files.get(&read.file).map(|file| file.source.clone());
            (!job.is_empty())
                .then(|| Job(job.iter().filter_map(|read| Some((source(read)?, read.clone()))).collect()))
        })
    }
}

/// The tree of what was found and stored. `Conflict` where a file was not there any more and nobody looked again.
fn assemble(
    scan: Scan,
    plan: Plan,
    packed: Packed,
    base: Arc<Base>,
    packs: Vec<Pack>,
    key: Option<VolumeKey>,
) -> Result<Tree> {
    let Plan { mut kept, mut files, gone, vanished, .. } = plan;
    if let Some(number) = vanished.iter().next() {
        let path = scan.entries[*number].entry.show();
        return Err(Error::conflict(format!("{path} changed while it was read: take the snapshot again")));
    }
    let mut chunks = packed.chunks;
    let mut tree = Tree { key, packs, ..Tree::default() };
    let mut entries: Vec<(usize, Found)> =
        scan.entries.into_iter().enumerate().filter(|(number, _)| !gone.contains(number)).collect();
    // What was added later comes last.
    entries.sort_by(|(_, a), (_, b)| a.entry.path.cmp(&b.entry.path));
    for (number, found) in entries {
        let Found { mut entry, .. } = found;
        if let Node::File { extents, chunks: range, .. } = &mut entry.node {
            let first = tree.chunks.len();
            match kept.remove(&number) {
                Some(Node::File { extents: before, chunks, .. }) => {
                    *extents = before;
                    tree.chunks.extend(base.tree.chunks[chunks].iter().cloned());
                }
                _ => {
                    *extents = files.remove(&number).map(|file| file.extents).unwrap_or_default();
                    tree.chunks.extend(chunks.remove(&number).unwrap_or_default().into_values());
                }
            }
            *range = first..tree.chunks.len();
        }
        tree.entries.push(entry);
    }
    Ok(tree)
}

fn count(tree: &Tree, totals: &mut Totals) {
    totals.entries = tree.entries.len() as u64;
    for entry in &tree.entries {
        if let Node::File { bytes, .. } = entry.node {
            totals.files += 1;
            totals.bytes += bytes;
        }
    }
    totals.data_bytes = tree.chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum();
}

/// Runs what waits for a disk or a processor on a thread for that.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::internal("a thread ended before its work").with_source(error)),
    }
}

#[cfg(test)]
mod tests;
