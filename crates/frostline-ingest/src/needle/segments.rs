//! The segments of an index: which there are, and merging them.
//!
//! Runs of single splits are joined to segments, and segments of like size to larger ones, of up to 1,024 splits. A merge
//! streams from the store and into it, and takes effect by one commit that adds the result and removes its inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use frostline_base::{ByteRange, Error, ErrorKind, Result, Share, SplitId};
use frostline_catalog::{FileEntry, Index};
use frostline_needle::{About, Input, KIND, MergeOptions, SPLITS_MAX, Segment, Written, merge};
use frostline_store::Repository;
use futures::StreamExt as _;

use super::Terms;
use crate::documents::BlockingReads;
use crate::exchange::Exchange;
use crate::pipeline::{Cancel, Random};
use crate::seal::{file_entry, new_id};

/// While a run goes on, smaller segments are merged as soon as they have so many splits together.
const SPLITS_MIN: usize = 32;
/// More segments are not merged at once, so that reading ahead of each is worth a request.
const INPUTS_MAX: usize = 64;
/// Directories that are read at the same time.
const READS_AT_ONCE: usize = 16;
/// Memory for what a merge reads ahead of all its inputs together.
const READ_AHEAD_BYTES: u64 = 128 << 20;
const READ_BYTES_MAX: u64 = 8 << 20;
/// A merge hands its output on in pieces.
const CHUNK_BYTES: usize = 1 << 20;

/// How much is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    /// Runs, and what is not much larger.
    Small,
    /// All that are not as large as can be.
    Growing,
    /// The same. Large ones are opened before, to find those of which most splits are gone.
    All,
}

/// What merging did to the segments of an index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joined {
    /// Segments that were replaced or removed.
    pub(crate) before: u64,
    /// Segments that replaced them.
    pub(crate) after: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
}

/// A segment that the catalog names and this version can read.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) file: Arc<FileEntry>,
    pub(crate) about: About,
}

/// The segments that an index names, except those that this version cannot read.
pub(crate) fn known(index: &Index) -> impl Iterator<Item = Known> {
    let known = |file: &Arc<FileEntry>| {
        let about = About::of_splits(&file.kind, &file.about)?;
        Some(Known { file: Arc::clone(file), about })
    };
    index.files().filter_map(known)
}

/// The segments that cover no live split, as far as the catalog says it.
pub(crate) fn dead_files(index: &Index, is_live: impl Fn(SplitId) -> bool) -> Vec<FileEntry> {
    known(index).filter(|one| one.about.is_dead(&is_live)).map(|one| FileEntry::clone(&one.file)).collect()
}

/// A segment and the outcome of opening it.
pub(crate) type Opened = (Known, Result<Arc<Segment>>);

/// Reads and writes the segments of one index.
#[derive(Clone)]
pub(crate) struct Segments {
    pub(crate) repository: Repository,
    pub(crate) random: Random,
    pub(crate) terms: Terms,
    pub(crate) cancel: Cancel,
}

impl Segments {
    /// Opens a segment. Two that are equally named are equal, so an error is lasting unless it is `Unavailable`.
    pub(crate) async fn open(&self, known: &Known) -> Result<Arc<Segment>> {
        let object = &known.file.object;
        let range = known.about.directory(object.bytes);
        let range =
            range.ok_or_else(|| Error::corrupt("the catalog says an impossible directory of a segment"))?;
        let meter = Default::default();
        let reads = frostline_base::ReadRanges::read_ranges(
            &self.repository,
            object,
            std::slice::from_ref(&range),
            Share::Footer,
            &meter,
        );
        let directory = reads.await?.into_iter().next().unwrap_or_default();
        self.terms.open(&directory).map(Arc::new).map_err(|error| error.with("object", &object.key))
    }

    /// Opens many, each with its outcome.
    pub(crate) async fn open_all(&self, all: Vec<Known>) -> Vec<Opened> {
        let opens = all.into_iter().map(|known| async move {
            let opened = self.open(&known).await;
            (known, opened)
        });
        futures::stream::iter(opens).buffered(READS_AT_ONCE).collect().await
    }

    /// Merges the segments of the index as far as `extent` says, and removes those that cover nothing any more. What
    /// cannot be read is told and left as it is. The index as it is then.
    pub(crate) async fn merge(&self, mut index: Index, extent: Extent) -> Result<(Index, Joined)> {
        let (mut joined, mut exchange) = (Joined::default(), Exchange::new(&self.repository, "needle"));
        let (mut left, mut live) = (BTreeSet::new(), BTreeMap::new());
        if extent == Extent::All {
            let large = known(&index).filter(|one| one.about.named.is_empty()).collect();
            for (one, opened) in self.open_all(large).await {
                match opened {
                    Ok(segment) => drop(live.insert(one.file.id, live_splits(&index, segment.splits()))),
                    Err(error) => pass_over(&one, &error, &mut left)?,
                }
            }
        }
        while !self.cancel.is_cancelled() {
            let Some(group) = plan(&index, extent, &left, &live) else { break };
            let added = match self.join(&index, &group).await {
                Ok(added) => added,
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(error) => {
                    self.pass_over_unreadable(&group, &error, &mut left).await?;
                    continue;
                }
            };
            let removed = group.iter().map(|one| FileEntry::clone(&one.file)).collect();
            if exchange.commit(&mut index, added.as_ref(), removed).await? {
                joined.before += group.len() as u64;
                joined.after += u64::from(added.is_some());
                joined.bytes += added.map_or(0, |added| added.object.bytes);
            }
        }
        Ok((index, joined))
    }

    /// Uploads the segment that a group becomes; none where no split of the group is live.
    async fn join(&self, index: &Index, group: &[Known]) -> Result<Option<FileEntry>> {
        let mut inputs = Vec::new();
        for (known, opened) in self.open_all(group.to_vec()).await {
            inputs.push((known, opened?));
        }
        let covered = inputs.iter().flat_map(|(_, segment)| segment.splits());
        let splits: BTreeSet<SplitId> = covered.copied().filter(|id| index.split(*id).is_some()).collect();
        if splits.is_empty() {
            return Ok(None);
        }
        let (id, count) = (new_id(&self.random), splits.len());
        let read_bytes = (READ_AHEAD_BYTES / inputs.len().max(1) as u64).min(READ_BYTES_MAX);
        let grows_to = if count * 2 > SPLITS_MAX { count } else { SPLITS_MAX };
        let options = MergeOptions { grows_to, read_bytes };
        let reads = BlockingReads::new(&self.repository);
        let (sender, mut receiver) = tokio::sync::mpsc::channel(2);
        let merged = tokio::task::spawn_blocking(move || {
            let inputs = inputs.into_iter().map(|(known, segment)| input(&reads, &known, segment)).collect();
            let mut out = Chunks { sender: sender.clone(), chunk: BytesMut::new() };
            let merged = merge(inputs, |split| splits.contains(&split), options, &mut out);
            if let Err(error) = &merged {
                // Or what was written so far would be uploaded as if it were all. Where nobody listens, the upload failed.
                let _ = sender.blocking_send(Err(error.clone()));
            }
            merged
        });
        let key = index.file_key(id, KIND);
        let chunks = Box::pin(futures::stream::poll_fn(move |context| receiver.poll_recv(context)));
        let uploaded = self.repository.upload(&key, chunks).await;
        let merged = merged
            .await
            .map_err(|error| Error::internal("merging needle segments was cut short").with_source(error))?;
        let (bytes, Written { about, bytes: written, .. }) = (uploaded?, merged?);
        if bytes != written {
            return Err(Error::internal("a merged needle segment does not have the stated length"));
        }
        Ok(Some(file_entry(index, id, KIND, bytes, about.to_json())))
    }

    /// After a merge has failed: finds out which of the group cannot be read. Where all can, the group is left alone.
    async fn pass_over_unreadable(
        &self,
        group: &[Known],
        failure: &Error,
        left: &mut BTreeSet<SplitId>,
    ) -> Result<()> {
        let before = left.len();
        for (one, opened) in self.open_all(group.to_vec()).await {
            let damage = match opened {
                Ok(segment) => self.damaged_pages(&one, &segment).await?.into_iter().next(),
                Err(error) => Some(error),
            };
            if let Some(error) = damage {
                pass_over(&one, &error, left)?;
            }
        }
        if left.len() == before {
            tracing::warn!(error = ?failure, "needle segments are not merged");
            left.extend(group.iter().map(|one| one.file.id));
        }
        Ok(())
    }

    /// Reads every page of a segment. The errors of those that are damaged, and one if the object is missing.
    pub(crate) async fn damaged_pages(&self, known: &Known, segment: &Arc<Segment>) -> Result<Vec<Error>> {
        let (reads, known, segment) =
            (BlockingReads::new(&self.repository), known.clone(), Arc::clone(segment));
        let check = move || {
            let mut damage = Vec::new();
            let pages: Vec<(usize, ByteRange)> = segment.page_ranges().enumerate().collect();
            for some in pages.chunks(64) {
                let ranges: Vec<ByteRange> = some.iter().map(|(_, range)| range.clone()).collect();
                let read = match reads.read(&known.file.object, &ranges, Share::Index) {
                    Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                    Err(error) => {
                        damage.push(error);
                        break;
                    }
                    Ok(read) => read,
                };
                for ((number, _), page) in some.iter().zip(read) {
                    let named =
                        |error: Error| error.with("object", &known.file.object.key).with("page", number);
                    damage.extend(segment.check_page(*number, &page).map_err(named).err());
                }
            }
            Ok(damage)
        };
        tokio::task::spawn_blocking(check)
            .await
            .map_err(|error| Error::internal("checking a needle segment was cut short").with_source(error))?
    }
}

/// A segment as the plan sees it.
struct Candidate {
    known: Known,
    /// Live splits that it covers.
    splits: usize,
    /// Of the earliest of them, if it is known.
    times: Option<(i64, i64)>,
}

/// Which segments are merged next: those without live splits, else some of like size.
fn plan(
    index: &Index,
    extent: Extent,
    left: &BTreeSet<SplitId>,
    live: &BTreeMap<SplitId, usize>,
) -> Option<Vec<Known>> {
    let candidate = |known: Known| {
        let named = &known.about.named;
        let counted = || if named.is_empty() { known.about.splits } else { live_splits(index, named) };
        let splits = live.get(&known.file.id).copied().unwrap_or_else(counted);
        let times = named.iter().filter_map(|id| index.split(*id)?.times).min();
        Candidate { splits, times, known }
    };
    let (mut dead, mut growing) = (Vec::new(), Vec::new());
    for one in known(index).filter(|one| !left.contains(&one.file.id)).map(candidate) {
        match one.splits {
            0 => dead.push(one.known),
            1..SPLITS_MAX => growing.push(one),
            _ => {}
        }
    }
    if !dead.is_empty() {
        return Some(dead);
    }
    // Of equally many splits, neighbours in time share more terms, which cost less then.
    growing.sort_by_key(|one| (one.splits, one.times.is_none(), one.times, one.known.file.id));
    let splits: Vec<usize> = growing.iter().map(|one| one.splits).collect();
    let chosen = match extent {
        Extent::Small => of_small(&splits)?,
        Extent::Growing | Extent::All => of_like_size(&splits)?,
    };
    Some(growing.drain(chosen).map(|one| one.known).collect())
}

/// Of segments of so many splits, ascending, those that are small and enough together.
fn of_small(splits: &[usize]) -> Option<Range<usize>> {
    let count = splits.partition_point(|splits| *splits < SPLITS_MIN).min(INPUTS_MAX);
    (splits[..count].iter().sum::<usize>() >= SPLITS_MIN).then_some(0..count)
}

/// Of segments of so many splits, ascending, the first ones of which none has more than twice the splits of those before it
/// together. So the number of segments, and how often the terms of a split are written, grow with the logarithm of the
/// number of splits.
fn of_like_size(splits: &[usize]) -> Option<Range<usize>> {
    let group = |first: usize| {
        let (mut end, mut sum) = (first, 0);
        while end < splits.len().min(first + INPUTS_MAX)
            && sum + splits[end] <= SPLITS_MAX
            && (sum == 0 || splits[end] <= 2 * sum)
        {
            sum += splits[end];
            end += 1;
        }
        first..end
    };
    (0..splits.len()).map(group).find(|group| group.len() > 1)
}

fn live_splits(index: &Index, splits: &[SplitId]) -> usize {
    splits.iter().filter(|id| index.split(**id).is_some()).count()
}

/// Leaves a segment that cannot be read as it is. Not whether the store answers decides about that.
fn pass_over(one: &Known, error: &Error, left: &mut BTreeSet<SplitId>) -> Result<()> {
    if error.kind() == ErrorKind::Unavailable {
        return Err(error.clone());
    }
    let object = &one.file.object.key;
    tracing::warn!(%object, ?error, "a needle segment cannot be read: searches open all its splits");
    left.insert(one.file.id);
    Ok(())
}

/// How a merge reads a segment.
pub(crate) type Read = Box<dyn FnMut(ByteRange) -> Result<Bytes> + Send>;

pub(crate) fn input(reads: &BlockingReads, known: &Known, segment: Arc<Segment>) -> Input<Read> {
    let (reads, object) = (reads.clone(), known.file.object.clone());
    let read = move |range: ByteRange| {
        let read = reads.read(&object, std::slice::from_ref(&range), Share::Index)?;
        Ok(read.into_iter().next().unwrap_or_default())
    };
    Input { segment, read: Box::new(read) }
}

/// Hands what is written to an upload.
struct Chunks {
    sender: tokio::sync::mpsc::Sender<Result<Bytes>>,
    chunk: BytesMut,
}

impl Chunks {
    fn send(&mut self) -> io::Result<()> {
        let chunk = self.chunk.split().freeze();
        let stopped = |_| io::Error::other("the upload has stopped");
        if chunk.is_empty() { Ok(()) } else { self.sender.blocking_send(Ok(chunk)).map_err(stopped) }
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

#[cfg(test)]
mod tests;
