//! The needle segments that are open.
//!
//! A segment's directory is read once and kept between queries; so much memory holds those of the largest segments of
//! the indices that were asked last. What cannot be opened covers no split, so it costs requests and no answer. A segment
//! of one split is left alone: its directory and a page are as many requests as opening the split.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{
    ByteRange, Error, ErrorKind, Meter, ObjectRef, ReadRanges, Share, SplitId, read_decoded,
};
use frostline_catalog::{FileEntry, Index};
use frostline_needle::{About, Needle, Scope, Segment, TermKey};
use futures::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use roaring::RoaringBitmap;
use tokio::sync::OnceCell;

use crate::Result;
use crate::read::memory::Permits;

/// The segments of a repository that are open, at most so many bytes of them.
#[derive(Debug)]
pub(crate) struct Segments {
    bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The newest version of each table that was opened.
    newest: HashMap<String, u64>,
    /// By the keys of their objects: a copy of an index has the same segments as objects of its own.
    files: HashMap<String, File>,
    /// Which of them answer for which splits of each table.
    covered: HashMap<String, Covered>,
    openings: u64,
}

/// Of one version of a table, as far as its segments were open.
#[derive(Debug)]
struct Covered {
    version: u64,
    segments: Vec<SplitId>,
    needle: Arc<Needle>,
}

#[derive(Debug)]
struct File {
    table: String,
    bytes: u64,
    /// The last opening that wanted it.
    wanted: u64,
    opened: Opened,
}

/// None inside once it was seen that it cannot be opened.
type Opened = Arc<OnceCell<Option<Arc<Segment>>>>;

/// A segment that is wanted, opened or not.
struct Wanted<'a> {
    index: &'a Index,
    id: SplitId,
    object: &'a ObjectRef,
    directory: ByteRange,
    opened: Opened,
}

/// Open segments of each index, and the key by which they are asked.
#[derive(Debug)]
pub(crate) struct OpenSegments {
    pub(crate) key: TermKey,
    pub(crate) of_indices: Vec<OfIndex>,
}

/// Open segments of an index, those of many splits first.
#[derive(Debug, Default)]
pub(crate) struct OfIndex {
    pub(crate) segments: Vec<(ObjectRef, Arc<Segment>)>,
    /// For which of the live splits, by their places in the index, which of these answers.
    pub(crate) needle: Arc<Needle>,
}

/// About how many times an open segment is larger than its directory.
const DIRECTORY_PACKED: u64 = 4;

impl Segments {
    pub(crate) fn new(bytes_max: u64) -> Segments {
        Segments { bytes_max, state: Mutex::default() }
    }

    /// Opens those of some indices that are not open yet, all at once. Those that no version in use names are forgotten.
    pub(crate) async fn open(
        &self,
        indices: &[Arc<Index>],
        reader: &dyn ReadRanges,
        reads: &Permits,
        meter: &Meter,
    ) -> OpenSegments {
        let of_each: Vec<Vec<Wanted<'_>>> = indices.iter().map(|index| self.wanted(index)).collect();
        let wanted: Vec<&Wanted<'_>> = of_each.iter().flatten().collect();
        let of_indices = indices.iter().map(|_| OfIndex::default()).collect();
        let mut open = OpenSegments { key: TermKey::from_random([0; 16]), of_indices };
        let Some(first) = wanted.first() else { return open };
        match first.index.term_key().await {
            Ok(Some(key)) => open.key = TermKey::from_random(key),
            Ok(None) => return open,
            Err(error) => {
                tracing::warn!(?error, "needle segments cannot be asked: all splits are opened");
                return open;
            }
        }
        let failed = Mutex::new(Vec::new());
        let read = async |wanted: &Wanted<'_>| {
            let Wanted { index, object, directory, .. } = wanted;
            let segment = read_segment(index, object, directory, &open.key, reader, reads, meter).await;
            segment.map(|segment| Some(Arc::new(segment))).or_else(|error| {
                let mut failed = failed.lock();
                failed.push(error.clone().with("object", &object.key));
                if is_settled(&error) { Ok(None) } else { Err(error) }
            })
        };
        join_all(wanted.iter().map(|wanted| wanted.opened.get_or_try_init(|| read(wanted)))).await;
        let failed = failed.into_inner();
        if let Some(error) = failed.first() {
            let segments = failed.len();
            tracing::warn!(segments, ?error, "needle segments cannot be read: their splits are opened");
        }
        let of_indices = indices.iter().zip(&of_each).map(|(index, wanted)| self.of_index(index, wanted));
        open.of_indices = of_indices.collect();
        open
    }

    /// Those of these segments of an index that are open.
    fn of_index(&self, index: &Index, wanted: &[Wanted<'_>]) -> OfIndex {
        let open = wanted.iter().filter_map(|wanted| Some((wanted, wanted.opened.get()?.as_ref()?)));
        let mut open: Vec<(&Wanted<'_>, &Arc<Segment>)> = open.collect();
        open.sort_by_key(|(_, segment)| Reverse(segment.splits().len()));
        let ids: Vec<SplitId> = open.iter().map(|(wanted, _)| wanted.id).collect();
        let segments = open.iter().map(|(wanted, segment)| (wanted.object.clone(), Arc::clone(segment)));
        let segments: Vec<_> = segments.collect();
        let is_known = |covered: &&Covered| covered.version == index.version() && covered.segments == ids;
        let known =
            self.state().covered.get(index.table_id()).filter(is_known).map(|of| Arc::clone(&of.needle));
        let needle = known.unwrap_or_else(|| {
            let live: Vec<SplitId> = index.splits().iter().map(|split| split.id).collect();
            let needle = Needle::new(&live, segments.iter().map(|(_, segment)| Arc::clone(segment)));
            let needle = Arc::new(needle);
            let covered = Covered { version: index.version(), segments: ids, needle: Arc::clone(&needle) };
            self.state().covered.insert(index.table_id().to_owned(), covered);
            needle
        });
        OfIndex { segments, needle }
    }

    pub(crate) fn forget(&self) {
        *self.state() = State::default();
    }

    /// What is to be read of an index, within the bounds of memory.
    fn wanted<'a>(&self, index: &'a Index) -> Vec<Wanted<'a>> {
        let mut files: Vec<(&FileEntry, About)> = index
            .files()
            .filter_map(|file| Some((file.as_ref(), About::of_splits(&file.kind, &file.about)?)))
            .filter(|(_, about)| about.splits > 1 && !about.is_dead(|split| index.split(split).is_some()))
            .collect();
        files.sort_by_key(|(file, about)| (Reverse(about.splits), file.id));
        let named: HashSet<&String> = files.iter().map(|(file, _)| &file.object.key).collect();

        let mut state = self.state();
        state.openings += 1;
        let (table, now, mut bytes_left) = (index.table_id(), state.openings, self.bytes_max);
        let newest = state.newest.entry(table.to_owned()).or_default();
        if index.version() >= *newest {
            *newest = index.version();
            state.files.retain(|key, file| file.table != table || named.contains(key));
        }
        let mut wanted = Vec::new();
        for (file, about) in files {
            let bytes = about.directory_bytes.saturating_mul(DIRECTORY_PACKED);
            let Some(directory) = about.directory(file.object.bytes).filter(|_| bytes <= bytes_left) else {
                continue;
            };
            bytes_left -= bytes;
            let new = || File { table: table.to_owned(), bytes, wanted: now, opened: Opened::default() };
            let known = state.files.entry(file.object.key.clone()).or_insert_with(new);
            known.wanted = now;
            let opened = Arc::clone(&known.opened);
            wanted.push(Wanted { index, id: file.id, object: &file.object, directory, opened });
        }
        state.shrink(self.bytes_max);
        wanted
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The tables are whole even if a thread died while it held the lock.
        self.state.lock()
    }
}

impl State {
    /// Forgets what was not wanted for longest.
    fn shrink(&mut self, bytes_max: u64) {
        let mut bytes: u64 = self.files.values().map(|file| file.bytes).sum();
        if bytes <= bytes_max {
            return;
        }
        let mut oldest: Vec<(u64, String)> =
            self.files.iter().map(|(key, file)| (file.wanted, key.clone())).collect();
        oldest.sort_unstable();
        for (_, key) in oldest {
            if bytes <= bytes_max {
                break;
            }
            bytes -= self.files.remove(&key).map_or(0, |file| file.bytes);
        }
    }
}

async fn read_segment(
    index: &Index,
    object: &ObjectRef,
    directory: &ByteRange,
    key: &TermKey,
    reader: &dyn ReadRanges,
    reads: &Permits,
    meter: &Meter,
) -> Result<Segment> {
    let bytes = (directory.end - directory.start).saturating_mul(DIRECTORY_PACKED);
    let _room = reads.acquire(usize::try_from(bytes).unwrap_or(usize::MAX)).await;
    let scope = Scope::of_splits(index.terms_table());
    let decode = |bytes: Vec<Bytes>| Segment::open(&bytes.concat(), &scope, key);
    read_decoded(reader, object, std::slice::from_ref(directory), Share::Footer, meter, decode).await
}

/// A segment that answers for a split, read anew: the smallest, also one of this split alone. None where the index
/// has none.
pub(crate) async fn of_split(
    index: &Index,
    split: SplitId,
    reader: &dyn ReadRanges,
    reads: &Permits,
    meter: &Meter,
) -> Result<Option<(TermKey, ObjectRef, Arc<Segment>)>> {
    let Some(key) = index.term_key().await?.map(TermKey::from_random) else { return Ok(None) };
    let mut files: Vec<(&FileEntry, About)> = index
        .files()
        .filter_map(|file| Some((file.as_ref(), About::of_splits(&file.kind, &file.about)?)))
        .filter(|(_, about)| about.named.is_empty() || about.named.contains(&split))
        .collect();
    files.sort_by_key(|(_, about)| about.splits);
    for (file, about) in files {
        let Some(directory) = about.directory(file.object.bytes) else { continue };
        let segment = read_segment(index, &file.object, &directory, &key, reader, reads, meter).await?;
        if segment.splits().contains(&split) {
            return Ok(Some((key, file.object.clone(), Arc::new(segment))));
        }
    }
    Ok(None)
}

/// Whether another attempt would give the same error.
fn is_settled(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Invalid | ErrorKind::NotFound)
}

/// What segments left of the splits of some filters, by a key that stands for both. It never changes.
#[derive(Debug)]
pub(crate) struct LeftByNeedle(Cache<u128, Arc<RoaringBitmap>, BySize>);

const LEFT_BYTES_MAX: u64 = 16 << 20;
/// About how much memory is taken beside the places.
const LEFT_BYTES_LEAST: u64 = 256;

impl Default for LeftByNeedle {
    fn default() -> Self {
        LeftByNeedle(Cache::with_weighter(1024, LEFT_BYTES_MAX, BySize))
    }
}

impl LeftByNeedle {
    pub(crate) fn get(&self, key: &u128) -> Option<Arc<RoaringBitmap>> {
        self.0.get(key)
    }

    pub(crate) fn insert(&self, key: u128, places: RoaringBitmap) {
        self.0.insert(key, Arc::new(places));
    }

    pub(crate) fn forget(&self) {
        self.0.clear();
    }
}

#[derive(Clone, Debug)]
struct BySize;

impl Weighter<u128, Arc<RoaringBitmap>> for BySize {
    fn weight(&self, _: &u128, places: &Arc<RoaringBitmap>) -> u64 {
        LEFT_BYTES_LEAST + places.serialized_size() as u64
    }
}

#[cfg(test)]
mod tests;
