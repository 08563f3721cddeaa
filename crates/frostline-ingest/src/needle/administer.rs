//! What people ask of an index's needle segments: their state, to make them again, to check them, to do without.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{Error, ErrorKind, IndexName, Result, SplitId, chain};
use frostline_catalog::{Catalog, Change, FileEntry, Index, SplitEntry};
use frostline_needle::{About, Input, KIND, RunWriter, Segment, compare};
use frostline_split::{SplitWriter, WriterOptions};
use frostline_store::Repository;
use futures::StreamExt as _;
use serde::Serialize;

use super::segments::{Extent, Known, Opened, Read, Segments, input, known};
use super::{Terms, sealed};
use crate::documents::{BlockingReads, Documents, Known as KnownBy};
use crate::pipeline::{Cancel, Random};
use crate::seal::{file_entry, new_id};
use crate::settings;

/// Runs that are made before they are committed, and splits of a segment that are checked at once.
const SPLITS_AT_ONCE: usize = 32;
/// Documents of a split whose terms are taken at once.
const DOCUMENT_BYTES: u64 = 64 << 20;
/// Memory for one split whose terms are taken again: its documents in a writer, and the terms.
const SPLIT_MEMORY_BYTES: u64 = 512 << 20;
const READ_BYTES: u64 = 1 << 20;
/// Commits that are lost to other writers before a run gives up.
const CONFLICTS_MAX: u32 = 8;

/// What an index's needle segments are.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The index.
    pub index: IndexName,
    /// Whether the terms of new splits are written to segments.
    pub enabled: bool,
    /// Live splits.
    pub splits: usize,
    /// Those that a readable segment covers. The others are opened by every search.
    pub covered: usize,
    /// Bytes of all segments.
    pub bytes: u64,
    /// The segments that the index names.
    pub segments: Vec<SegmentStatus>,
}

/// One segment.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentStatus {
    /// Its object.
    pub object: String,
    /// The object's length.
    pub bytes: u64,
    /// Splits that it covers.
    pub splits: usize,
    /// Those of them that are live.
    pub live: usize,
    /// Whether it can be asked.
    pub state: SegmentState,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Whether a segment can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SegmentState {
    /// It is asked.
    Readable,
    /// It is missing, damaged, or made under another key.
    Damaged,
    /// Another version of Frostline made it in a way that this one does not know.
    Unknown,
}

/// A split or a segment, and what is wrong with it.
#[derive(Clone, Debug, Serialize)]
pub struct Unread {
    /// Its object.
    pub object: String,
    /// What is wrong.
    pub what: String,
}

impl Unread {
    fn new(object: &str, error: &Error) -> Unread {
        Unread { object: object.to_owned(), what: chain(error) }
    }
}

/// What [`Needles::rebuild`] did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rebuilt {
    /// Splits whose terms were read again.
    pub splits: u64,
    /// Segments that the index names afterwards.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Segments that were removed because they could not be read, or to make them again.
    pub removed: u64,
    /// Splits that could not be read, and stay without a segment.
    pub failed: Vec<Unread>,
    /// Whether it was stopped before its end.
    pub cancelled: bool,
}

/// What [`Needles::verify`] found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verified {
    /// Segments checked.
    pub segments: u64,
    /// Live splits whose terms were compared with those of a segment.
    pub splits: u64,
    /// Live splits that no readable segment covers.
    pub uncovered: u64,
    /// What is wrong.
    pub faults: Vec<Unread>,
}

/// The needle segments of a repository's indices, for people who administer them.
pub struct Needles {
    repository: Repository,
    catalog: Catalog,
    random: Random,
    cancel: Cancel,
    threads: usize,
}

impl Needles {
    /// Of the indices of `catalog`, which are in `repository`. Within `memory_bytes_max`, but at least one split at a time.
    pub fn new(repository: &Repository, catalog: &Catalog, random: Random, memory_bytes_max: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let threads = cores.min(memory_bytes_max / SPLIT_MEMORY_BYTES).max(1) as usize;
        let (repository, catalog) = (repository.clone(), catalog.clone());
        Needles { repository, catalog, random, cancel: Cancel::default(), threads }
    }

    /// Stops between two splits when `cancel` is set.
    #[must_use]
    pub fn with_cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// Which segments there are, and how many splits they cover. Reads their directories, and writes nothing.
    pub async fn status(&self, name: &IndexName) -> Result<Status> {
        let index = self.catalog.open(name).await?;
        let opened = self.open_all(&index).await?;
        let covered = covered(&index, &opened);
        let readable: BTreeSet<SplitId> = known(&index).map(|one| one.file.id).collect();
        let mut segments: Vec<SegmentStatus> = opened
            .iter()
            .map(|(one, opened)| {
                let splits = opened.as_ref().map_or(&one.about.named[..], |segment| segment.splits());
                SegmentStatus {
                    object: one.file.object.key.clone(),
                    bytes: one.file.object.bytes,
                    splits: one.about.splits,
                    live: splits.iter().filter(|id| index.split(**id).is_some()).count(),
                    state: if opened.is_ok() { SegmentState::Readable } else { SegmentState::Damaged },
                    error: opened.as_ref().err().map(|error| Unread::new("", error).what),
                }
            })
            .collect();
        let others = index.files().filter(|file| file.kind == KIND && !readable.contains(&file.id));
        segments.extend(others.map(|file| SegmentStatus {
            object: file.object.key.clone(),
            bytes: file.object.bytes,
            splits: 0,
            live: 0,
            state: SegmentState::Unknown,
            error: None,
        }));
        Ok(Status {
            index: name.clone(),
            enabled: index.settings().needle,
            splits: index.splits().len(),
            covered: covered.len(),
            bytes: segments.iter().map(|segment| segment.bytes).sum(),
            segments,
        })
    }

    /// Reads every page of every segment, then the terms of every live split that no whole segment covers, or of `all`, and
    /// writes segments of them. From then on the index has segments. Calls `on_progress` with the splits that are done and their total.
    pub async fn rebuild(
        &self,
        name: &IndexName,
        all: bool,
        on_progress: impl Fn(usize, usize) + Send + Sync,
    ) -> Result<Rebuilt> {
        let mut index = settings::change(self.catalog.open(name).await?, |set| set.needle = true).await?;
        let key = self.catalog.term_key_or((self.random)().to_le_bytes()).await?;
        let segments = self.segments(Terms::new(&index, key));
        let (mut covered, mut replaced) = (BTreeSet::new(), Vec::new());
        for (one, opened) in segments.open_all(known(&index).collect()).await {
            let is_whole = match &opened {
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error.clone()),
                Ok(segment) => !all && segments.damaged_pages(&one, segment).await?.is_empty(),
                Err(_) => false,
            };
            match opened {
                Ok(segment) if is_whole => covered.extend(segment.splits().iter().copied()),
                _ => replaced.push(FileEntry::clone(&one.file)),
            }
        }
        let splits = index.splits().iter().filter(|split| !covered.contains(&split.id));
        let splits: Vec<Arc<SplitEntry>> = splits.cloned().collect();
        let (total, mut done, mut report) = (splits.len(), 0, Rebuilt::default());
        on_progress(done, total);
        for some in splits.chunks(SPLITS_AT_ONCE) {
            if self.cancel.is_cancelled() {
                report.cancelled = true;
                return Ok(report);
            }
            let mut change = Change { operation: "needle".to_owned(), ..Change::default() };
            let mut runs = futures::stream::iter(some.to_vec())
                .map(|split| {
                    let (segments, index) = (&segments, &index);
                    async move { (Arc::clone(&split), segments.run_again(index, split).await) }
                })
                .buffer_unordered(self.threads);
            while let Some((split, run)) = runs.next().await {
                match run {
                    Ok(run) => change.files_add.push(run),
                    Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                    Err(error) => report.failed.push(Unread::new(&split.object.key, &error)),
                }
                done += 1;
                on_progress(done, total);
            }
            drop(runs);
            report.splits += change.files_add.len() as u64;
            index = index.commit(change).await?;
        }
        report.removed = replaced.len() as u64;
        index = self.remove(index, replaced).await?;
        let (index, _) = segments.merge(index, Extent::All).await?;
        report.segments = known(&index).count() as u64;
        report.bytes = known(&index).map(|one| one.file.object.bytes).sum();
        Ok(report)
    }

    /// Reads every page of every segment, and compares each with the documents of its live splits. Calls `on_progress`
    /// with the splits that are done and their total.
    pub async fn verify(
        &self,
        name: &IndexName,
        on_progress: impl Fn(usize, usize) + Send + Sync,
    ) -> Result<Verified> {
        let index = self.catalog.open(name).await?;
        let Some(key) = self.catalog.term_key().await? else {
            return Ok(Verified { uncovered: index.splits().len() as u64, ..Verified::default() });
        };
        let segments = self.segments(Terms::new(&index, key));
        let opened = segments.open_all(known(&index).collect()).await;
        let covered = covered(&index, &opened);
        let mut report =
            Verified { uncovered: (index.splits().len() - covered.len()) as u64, ..Verified::default() };
        let of = |segment: &Segment| -> Vec<Arc<SplitEntry>> {
            segment.splits().iter().filter_map(|id| index.split(*id).cloned()).collect()
        };
        let total = opened.iter().flat_map(|(_, opened)| opened).map(|segment| of(segment).len()).sum();
        let mut done = 0;
        on_progress(done, total);
        for (one, opened) in opened {
            report.segments += 1;
            let object = &one.file.object.key;
            let segment = match opened {
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(error) => {
                    report.faults.push(Unread::new(object, &error));
                    continue;
                }
                Ok(segment) => segment,
            };
            let live = of(&segment);
            let damage = segments.damaged_pages(&one, &segment).await?;
            if !damage.is_empty() {
                done += live.len();
                report.faults.extend(damage.iter().map(|error| Unread::new(object, error)));
                continue;
            }
            for some in live.chunks(SPLITS_AT_ONCE) {
                let (checked, faults) = segments.check(&index, &one, &segment, some, self.threads).await?;
                report.splits += checked;
                report.faults.extend(faults);
                done += some.len();
                on_progress(done, total);
            }
        }
        Ok(report)
    }

    /// Removes all segments of an index, and writes none until they are rebuilt. How many there were.
    pub async fn drop(&self, name: &IndexName) -> Result<u64> {
        let index = settings::change(self.catalog.open(name).await?, |set| set.needle = false).await?;
        let files: Vec<FileEntry> =
            index.files().filter(|file| file.kind == KIND).map(|file| FileEntry::clone(file)).collect();
        let removed = files.len() as u64;
        self.remove(index, files).await?;
        Ok(removed)
    }

    /// Removes those of the files that the index still has.
    async fn remove(&self, mut index: Index, mut files: Vec<FileEntry>) -> Result<Index> {
        for _ in 0..CONFLICTS_MAX {
            let there: BTreeSet<SplitId> = index.files().map(|file| file.id).collect();
            files.retain(|file| there.contains(&file.id));
            let operation = "needle".to_owned();
            let change = Change { files_remove: files.clone(), operation, ..Change::default() };
            match index.commit(change).await {
                // Another writer has merged some of them.
                Err(error) if error.kind() == ErrorKind::Conflict => index = index.refresh().await?,
                done => return done,
            }
        }
        Err(Error::conflict("other writers keep changing the needle segments of the index: try again"))
    }

    fn segments(&self, terms: Terms) -> Segments {
        let (repository, random) = (self.repository.clone(), Arc::clone(&self.random));
        Segments { repository, random, terms, cancel: self.cancel.clone() }
    }

    /// Every segment that this version can read, opened. Without the repository's key none can be.
    async fn open_all(&self, index: &Index) -> Result<Vec<Opened>> {
        let opened = match self.catalog.term_key().await? {
            Some(key) => self.segments(Terms::new(index, key)).open_all(known(index).collect()).await,
            None => {
                let missing = || Err(Error::invalid("the repository has no key of terms"));
                known(index).map(|one| (one, missing())).collect()
            }
        };
        let down = opened.iter().find_map(|(_, opened)| opened.as_ref().err());
        match down.filter(|error| error.kind() == ErrorKind::Unavailable) {
            Some(error) => Err(error.clone()),
            None => Ok(opened),
        }
    }
}

impl std::fmt::Debug for Needles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Needles").field("repository", &self.repository).finish_non_exhaustive()
    }
}

/// The live splits that a readable segment covers.
fn covered(index: &Index, opened: &[Opened]) -> BTreeSet<SplitId> {
    let splits = opened.iter().flat_map(|(_, opened)| opened).flat_map(|segment| segment.splits());
    splits.copied().filter(|id| index.split(*id).is_some()).collect()
}

impl Segments {
    /// Reads the documents of a split again and uploads the run of its terms.
    pub(super) async fn run_again(&self, index: &Index, split: Arc<SplitEntry>) -> Result<FileEntry> {
        let (run, about) = self.read_again(index, split).await?;
        let (id, bytes) = (new_id(&self.random), run.len() as u64);
        self.repository.put(&index.file_key(id, KIND), run).await?;
        Ok(file_entry(index, id, KIND, bytes, about.to_json()))
    }

    async fn read_again(&self, index: &Index, split: Arc<SplitEntry>) -> Result<(Bytes, About)> {
        let (reads, run) = (BlockingReads::new(&self.repository), self.terms.run(split.id));
        let mapping = index.mapping().clone();
        let read = move || {
            let options = WriterOptions { source_bytes_max: DOCUMENT_BYTES, ..WriterOptions::default() };
            let writer = || SplitWriter::new(mapping.clone(), options.clone());
            let (run, about) = read_terms(&reads, &split, run, writer)?;
            Ok((Bytes::from(run), about))
        };
        tokio::task::spawn_blocking(read).await.map_err(|error| {
            Error::internal("reading the terms of a split was cut short").with_source(error)
        })?
    }

    /// Compares a segment with the documents of some splits: how many could be read, and what is wrong.
    async fn check(
        &self,
        index: &Index,
        one: &Known,
        segment: &Arc<Segment>,
        splits: &[Arc<SplitEntry>],
        threads: usize,
    ) -> Result<(u64, Vec<Unread>)> {
        let mut runs = futures::stream::iter(splits.to_vec())
            .map(|split| async move { (Arc::clone(&split), self.read_again(index, split).await) })
            .buffered(threads);
        let (mut faults, mut inputs) = (Vec::new(), Vec::new());
        while let Some((split, run)) = runs.next().await {
            match run {
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(error) => faults.push(Unread::new(&split.object.key, &error)),
                Ok((bytes, about)) => inputs.push(self.in_memory(bytes, &about)?),
            }
        }
        let checked = inputs.len() as u64;
        let objects: BTreeMap<SplitId, &str> =
            splits.iter().map(|split| (split.id, split.object.key.as_str())).collect();
        let segment = input(&BlockingReads::new(&self.repository), one, Arc::clone(segment));
        let lost = tokio::task::spawn_blocking(move || compare(segment, inputs, READ_BYTES)).await.map_err(
            |error| Error::internal("comparing a needle segment was cut short").with_source(error),
        )??;
        faults.extend(lost.iter().map(|(split, lost)| Unread {
            object: one.file.object.key.clone(),
            what: format!(
                "the segment lacks {} terms of the split {}, and {} of its fields with values that have no term",
                lost.terms,
                objects.get(split).copied().unwrap_or_default(),
                lost.fields
            ),
        }));
        Ok((checked, faults))
    }

    fn in_memory(&self, bytes: Bytes, about: &About) -> Result<Input<Read>> {
        let missing = || Error::internal("a run of terms has no directory");
        let slice = move |bytes: &Bytes, range: std::ops::Range<u64>| {
            let within = range.end <= bytes.len() as u64 && range.start <= range.end;
            within.then(|| bytes.slice(range.start as usize..range.end as usize)).ok_or_else(missing)
        };
        let directory = slice(&bytes, about.directory(bytes.len() as u64).ok_or_else(missing)?)?;
        let segment = Arc::new(self.terms.open(&directory)?);
        Ok(Input { segment, read: Box::new(move |range| slice(&bytes, range)) })
    }
}

/// The run of a split that is sealed already, from its documents, some at a time.
fn read_terms(
    reads: &BlockingReads,
    split: &Arc<SplitEntry>,
    mut run: RunWriter,
    writer: impl Fn() -> SplitWriter,
) -> Result<(Vec<u8>, About)> {
    let mut documents = Documents::open(reads, split)?;
    let (is_merged, mut some) = (documents.is_merged(), writer());
    while documents.head(reads)?.is_some() {
        let Some((document, known)) = documents.next_document() else { break };
        let add = |some: &mut SplitWriter| match &known {
            KnownBy::Landed(_) if !is_merged => some.add(&document),
            known => known.add(&document, some),
        };
        let added = match add(&mut some) {
            Err(error) if error.kind() == ErrorKind::Exhausted && some.rows() > 0 => {
                std::mem::replace(&mut some, writer()).each_term(&mut run);
                add(&mut some)
            }
            added => added,
        };
        added.map_err(|error| error.context("a document of the index cannot be read"))?;
        if some.is_full() {
            std::mem::replace(&mut some, writer()).each_term(&mut run);
        }
    }
    some.each_term(&mut run);
    sealed(run)
}
