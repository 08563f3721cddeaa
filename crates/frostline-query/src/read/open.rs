//! Opens splits: the handle that all queries share, and the splits and needle segments that are already open.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use frostline_base::{Cost, Meter, ObjectRef, ReadRanges, Share, SplitId, read_decoded};
use frostline_catalog::{Index, SplitEntry};
use frostline_needle::{Segment, TermKey};
use frostline_split::Split;
use frostline_store::{Prices, Repository};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::read::memory::{Budget, Memory, Permits};
use crate::read::numbered::{KnownVersions, Numbered};
use crate::read::packs::Packs;
use crate::read::segments::{self, LeftByNeedle, OpenSegments, Segments};
use crate::read::unpacked::{Unpacked, UnpackedOfSplit};
use crate::{Error, Result};

/// Reads splits through a cache or a store, and remembers the hot footers of those it opened.
#[derive(Debug)]
pub struct Searcher {
    pub(crate) reader: Arc<dyn ReadRanges>,
    pub(crate) settings: Settings,
    pub(crate) prices: Prices,
    pub(crate) simulated: bool,
    /// What all queries together may hold.
    pub(crate) memory: Arc<dyn MemoryPool>,
    /// By their objects: a table that was restored has the splits of another as objects of its own.
    open: Cache<ObjectRef, Arc<OpenSplit>, ByMemory>,
    unpacked: Arc<Unpacked>,
    pub(crate) segments: Segments,
    pub(crate) left_by_needle: LeftByNeedle,
    pub(crate) packs: Packs,
    versions: KnownVersions,
    /// What is being read and decoded at one time, by all queries.
    pub(crate) reads: Permits,
}

/// How much a [`Searcher`] may use.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Splits that one query asks at the same time.
    pub splits_in_flight: usize,
    /// Memory of all queries together: three quarters for what they hold, a quarter for what is being read.
    pub memory_bytes_max: usize,
    /// What one query may hold.
    pub query_bytes_max: usize,
    /// Memory of the hot footers that are kept open between queries.
    pub open_bytes_max: u64,
    /// Memory of the blocks of dictionaries that are kept unpacked between queries.
    pub unpacked_bytes_max: u64,
    /// Memory of the directories of needle segments, which are also kept.
    pub segment_bytes_max: u64,
    /// Memory of the directories of packs, which are also kept.
    pub pack_bytes_max: u64,
    /// A pack is read for so many splits that are opened; fewer are opened one by one.
    pub pack_splits_min: usize,
    /// Number of groups into which the splits of a query are divided. Each is searched by its own plan leaf.
    pub groups: usize,
    /// Whether every plan is written to bytes and read back before it runs, as one that travels is.
    pub through_bytes: bool,
    /// Whether digests may answer aggregations and say which values a field has. Off, the columns are read instead, for
    /// the same answer.
    pub use_digests: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            splits_in_flight: 128,
            memory_bytes_max: 2 << 30,
            query_bytes_max: 1 << 30,
            open_bytes_max: 512 << 20,
            unpacked_bytes_max: 128 << 20,
            segment_bytes_max: 512 << 20,
            pack_bytes_max: 64 << 20,
            pack_splits_min: 16,
            groups: 1,
            through_bytes: false,
            use_digests: true,
        }
    }
}

/// A split whose hot footer has been read and verified.
#[derive(Debug)]
pub(crate) struct OpenSplit {
    pub(crate) entry: Arc<SplitEntry>,
    pub(crate) split: Split,
    pub(crate) unpacked: UnpackedOfSplit,
}

impl Searcher {
    /// A searcher of what is in `repository`, read through `reader`: the repository itself or a cache of it.
    pub fn new(repository: &Repository, reader: Arc<dyn ReadRanges>, settings: Settings) -> Arc<Searcher> {
        let (prices, simulated) = (repository.prices().clone(), repository.is_simulated());
        let splits = usize::try_from(settings.open_bytes_max / OPEN_BYTES_TYPICAL).unwrap_or(usize::MAX);
        let open = Cache::with_weighter(splits.max(16), settings.open_bytes_max, ByMemory);
        let unpacked = Unpacked::new(settings.unpacked_bytes_max);
        let reads = Permits::new(settings.memory_bytes_max / 4);
        let memory = Arc::new(GreedyMemoryPool::new(settings.memory_bytes_max / 4 * 3));
        let segments = Segments::new(settings.segment_bytes_max);
        let left_by_needle = LeftByNeedle::default();
        let packs = Packs::new(settings.pack_bytes_max);
        let versions = KnownVersions::default();
        Arc::new(Searcher {
            reader,
            settings,
            prices,
            simulated,
            memory,
            open,
            unpacked,
            segments,
            left_by_needle,
            packs,
            versions,
            reads,
        })
    }

    /// Bytes that queries hold now, and what all of them may hold.
    pub fn memory_held(&self) -> (usize, usize) {
        (self.memory.reserved(), self.settings.memory_bytes_max / 4 * 3)
    }

    /// Bytes of memory kept between queries: hot footers of open splits, and unpacked blocks of dictionaries.
    pub fn memory_kept(&self) -> (u64, u64) {
        (self.open.weight(), self.unpacked.bytes())
    }

    /// The memory of one more query.
    pub(crate) fn budget(&self) -> Arc<dyn MemoryPool> {
        Arc::new(Budget::new(&self.memory, self.settings.query_bytes_max))
    }

    /// Opens the needle segments of an index that are not open yet, as a query would that asks them. What that cost.
    pub async fn open_segments(&self, index: &Arc<Index>) -> Cost {
        let meter = Meter::default();
        self.segments_of(std::slice::from_ref(index), &meter).await;
        meter.cost()
    }

    /// The needle segments of some indices.
    pub(crate) async fn segments_of(&self, indices: &[Arc<Index>], meter: &Meter) -> OpenSegments {
        self.segments.open(indices, self.reader.as_ref(), &self.reads, meter).await
    }

    /// Takes memory of queries for as long as what is returned lives. `Exhausted` where one query may not hold so much,
    /// or not so much is left.
    pub fn hold(&self, bytes: usize) -> Result<Memory> {
        Memory::take(&self.budget(), bytes)
    }

    /// The needle segment of a split, with its object and the key by which it is asked; none where it has none.
    pub(crate) async fn segment_of(
        &self,
        index: &Index,
        split: SplitId,
        meter: &Meter,
    ) -> Result<Option<(TermKey, ObjectRef, Arc<Segment>)>> {
        segments::of_split(index, split, self.reader.as_ref(), &self.reads, meter).await
    }

    /// All live splits of some indices, with numbers.
    pub(crate) fn numbered(&self, indices: &[Arc<Index>]) -> Arc<Numbered> {
        self.versions.of(indices)
    }

    /// Forgets every open split, needle segment and pack, as a restarted process would.
    pub fn forget(&self) {
        self.open.clear();
        self.unpacked.forget();
        self.versions.forget();
        self.segments.forget();
        self.left_by_needle.forget();
        self.packs.forget();
    }

    /// Closes the splits that an index no longer has, because they were merged, rewritten or deleted. A query that still reads
    /// the older version opens them again. `now` is none if the index was deleted.
    pub fn close_gone(&self, before: &Index, now: Option<&Index>) {
        let had = before.splits();
        let has = now.map_or(&[][..], Index::splits);
        let same = had.iter().zip(has).take_while(|(had, has)| Arc::ptr_eq(had, has)).count();
        for split in &had[same..] {
            let stays = now.and_then(|now| now.split(split.id)).is_some_and(|now| now.object == split.object);
            if !stays {
                self.open.remove(&split.object);
            }
        }
    }

    /// Whether a split is open.
    pub(crate) fn is_open(&self, split: &SplitEntry) -> bool {
        self.open.contains_key(&split.object)
    }

    /// The split, opened with at most one read, by its hot footer from a pack if there is one.
    pub(crate) async fn open(
        &self,
        entry: &Arc<SplitEntry>,
        packed: impl Future<Output = Option<Bytes>>,
        meter: &Meter,
    ) -> Result<Arc<OpenSplit>> {
        if let Some(open) = self.open.get(&entry.object) {
            return Ok(open);
        }
        // What a pack says wrongly of a split, the split says rightly.
        if let Some(footer) = packed.await
            && let Ok(split) = Split::open(&footer)
            && let Ok(open) = self.keep(entry, split)
        {
            return Ok(open);
        }
        let key = &entry.object.key;
        let footer = std::slice::from_ref(&entry.footer);
        let decode = |bytes: Vec<Bytes>| {
            let bytes = bytes.first().ok_or_else(|| Error::internal("a read of one range returned none"))?;
            Split::open(bytes).map_err(|e| e.with("object", key).with("range", format!("{:?}", entry.footer)))
        };
        let reader = self.reader.as_ref();
        self.keep(entry, read_decoded(reader, &entry.object, footer, Share::Footer, meter, decode).await?)
    }

    /// Keeps what was opened for the next who asks, unless it is not the split that the catalog names.
    fn keep(&self, entry: &Arc<SplitEntry>, split: Split) -> Result<Arc<OpenSplit>> {
        let key = &entry.object.key;
        if u64::from(split.rows()) != entry.rows {
            let what = format!("the split has {} rows and the catalog says {}", split.rows(), entry.rows);
            return Err(Error::corrupt(what).with("object", key));
        }
        if split.id().is_some_and(|id| id != entry.id) {
            return Err(
                Error::corrupt("the object is another split than the catalog says").with("object", key)
            );
        }
        let unpacked = self.unpacked.of_split();
        let open = Arc::new(OpenSplit { entry: Arc::clone(entry), split, unpacked });
        self.open.insert(entry.object.clone(), Arc::clone(&open));
        Ok(open)
    }
}
/// About how much memory an open split takes.
const OPEN_BYTES_TYPICAL: u64 = 64 << 10;

#[derive(Clone, Debug)]
struct ByMemory;

impl Weighter<ObjectRef, Arc<OpenSplit>> for ByMemory {
    fn weight(&self, _: &ObjectRef, open: &Arc<OpenSplit>) -> u64 {
        open.split.memory_bytes() as u64
    }
}

#[cfg(test)]
mod tests;
