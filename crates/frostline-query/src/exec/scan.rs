//! The state of one running leaf: the splits it searches, the rows it has found in them, and its report.
//!
//! A [`Scan`] lives as long as one leaf runs, and is shared only by that leaf's tasks.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};
use frostline_base::{Meter, chain};
use frostline_catalog::{Index, SplitEntry};
use frostline_split::{row_numbers, row_parts};
use futures::FutureExt;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use tokio::sync::OnceCell;

use crate::errors::internal;
use crate::exec::objects::{OBJECTS_BYTES, read_keys};
use crate::exec::report::{Counts, Failure, Report};
use crate::exec::results::Results;
use crate::exec::splits::Splits;
use crate::filter::Filter;
use crate::prune::Target;
use crate::read::memory::{Room, Window, reservation};
use crate::read::once::Once;
use crate::read::open::{OpenSplit, Searcher};
use crate::read::output::{self, Output};
use crate::read::packs::{Context, Expected, PackFile};
use crate::read::shown::Shown;
use crate::read::view::View;
use crate::select::Rows;
use crate::{Error, ErrorKind, Result};

/// The context of a leaf in its process, which is never serialized.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) searcher: Arc<Searcher>,
    /// The cache of partial answers of aggregations.
    pub(crate) results: Option<Arc<Results>>,
    /// What the queries of this session may hold together.
    pub(crate) memory: Arc<dyn MemoryPool>,
}

impl Local {
    pub(crate) fn new(searcher: &Arc<Searcher>, results: Option<Arc<Results>>) -> Local {
        Local { searcher: Arc::clone(searcher), results, memory: searcher.budget() }
    }

    /// The context that a plan's session provides.
    pub(crate) fn of(context: &TaskContext) -> Result<Arc<Local>> {
        let local = context.session_config().get_extension::<Local>();
        local.ok_or_else(|| Error::internal("a plan runs in a session that reads no repository"))
    }
}

/// A filter over some splits, and what evaluating it has shown so far.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) local: Arc<Local>,
    pub(crate) targets: Vec<Target>,
    pub(crate) meter: Arc<Meter>,
    packs: Arc<[PackFile]>,
    /// Where the footers of the splits are that are about to be opened.
    expected: Mutex<Option<Arc<Expected>>>,
    tally: Tally,
    /// The matching rows of each target, once they are known.
    selected: Vec<OnceCell<Rows>>,
    /// The memory of these rows.
    memory: MemoryReservation,
    /// What is worked on at one time.
    pub(crate) window: Window,
    /// Whether unreadable splits are skipped and reported, or fail the query.
    partial: bool,
    /// What was read of documents, where they are shown.
    pub(crate) shown: Option<Shown>,
}

/// The outcomes of the splits, counted while a leaf runs.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) answered_digest: AtomicU64,
    opened: AtomicU64,
    empty: AtomicU64,
    matched: AtomicU64,
    failed: Mutex<BTreeMap<u32, Failure>>,
}

impl Tally {
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Scan {
    pub(crate) fn new(
        local: Arc<Local>,
        splits: &Splits,
        filter: &Filter,
        meter: Arc<Meter>,
        partial: bool,
    ) -> Scan {
        let targets = splits.targets(filter);
        let selected = targets.iter().map(|_| OnceCell::new()).collect();
        let memory = reservation(&local.memory, "matching rows");
        let window = Window::new(&local.memory, local.searcher.settings.query_bytes_max / 4);
        let (packs, expected, tally) = (splits.packs(), Mutex::default(), Tally::default());
        Scan { local, targets, meter, packs, expected, tally, selected, memory, window, partial, shown: None }
    }

    /// The same of a search that shows so many of the documents, which have their times in this field.
    pub(crate) fn showing(self, shown: usize, time_field: &str) -> Scan {
        let shown = Some(Shown::new(time_field, shown, self.targets.len()));
        Scan { shown, ..self }
    }

    /// Says which targets are about to be opened, in this order, so that many are opened with few requests. Others
    /// can be opened, and these need not be.
    pub(crate) async fn expect(&self, numbers: impl Iterator<Item = usize>) {
        if self.packs.is_empty() {
            return;
        }
        let searcher = &self.local.searcher;
        let entries = numbers.map(|number| self.targets[number].entry.as_ref());
        let entries: Vec<&SplitEntry> = entries.filter(|entry| !searcher.is_open(entry)).collect();
        let context = Context {
            reader: Arc::clone(&searcher.reader),
            meter: Arc::clone(&self.meter),
            memory: Arc::clone(&self.local.memory),
            bytes_max: searcher.settings.query_bytes_max,
            splits_min: searcher.settings.pack_splits_min,
        };
        let expected = Expected::of(&searcher.packs, &self.packs, &entries, context).await;
        *self.expected.lock() = Some(Arc::new(expected));
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How many splits are searched concurrently.
    pub(crate) fn in_flight(&self) -> usize {
        self.local.searcher.settings.splits_in_flight
    }

    pub(crate) async fn open(&self, target: &Target) -> Result<Arc<OpenSplit>> {
        let expected = self.expected.lock().clone();
        let packed = async { expected?.take(target.entry.id).await };
        self.local.searcher.open(&target.entry, packed, &self.meter).await
    }

    pub(crate) fn view<'a>(&'a self, open: &'a OpenSplit) -> View<'a> {
        View {
            open,
            reader: self.local.searcher.reader.as_ref(),
            reads: &self.local.searcher.reads,
            meter: &self.meter,
            shown: self.shown.as_ref(),
        }
    }

    /// The matching rows of one split, computed once.
    pub(crate) async fn select(&self, target: &Target, open: &OpenSplit) -> Result<&Rows> {
        self.selected[target.number].get_or_try_init(|| self.look(target, open)).await
    }

    async fn look(&self, target: &Target, open: &OpenSplit) -> Result<Rows> {
        let once = Once::new(self.view(open));
        // The parts of a filter are not all asked at once, but what they ask is known.
        let mut named = Vec::new();
        target.filter.each_field(&mut |field| named.push(field.clone()));
        once.view().know_fields(&named.iter().collect::<Vec<_>>()).await?;
        let rows = once.view().select(&target.filter, None).await?;
        self.memory.try_grow(rows.bytes()).map_err(internal)?;
        self.keep_documents(target, &rows);
        Tally::count(&self.tally.opened);
        if rows == Rows::none() {
            Tally::count(&self.tally.empty);
        }
        self.tally.matched.fetch_add(rows.count(open.split.rows()), Ordering::Relaxed);
        Ok(rows)
    }

    /// Of the documents that were read to find these rows, keeps those that may be shown, unless memory is short.
    fn keep_documents(&self, target: &Target, rows: &Rows) {
        let Some(shown) = &self.shown else { return };
        let kept = shown.retain(target.entry.id, |row| match rows {
            Rows::All => true,
            Rows::Some(rows) => rows.contains(row),
        });
        if self.memory.try_grow(kept).is_err() {
            shown.retain(target.entry.id, |_| false);
        }
    }

    /// How many rows of one split match; a split of which all rows match is not opened for this.
    pub(crate) async fn count(&self, target: &Target) -> Result<u64> {
        if *target.filter == Filter::All {
            let count = || async {
                Tally::count(&self.tally.answered_digest);
                self.tally.matched.fetch_add(target.entry.rows, Ordering::Relaxed);
                Ok::<Rows, Error>(Rows::All)
            };
            self.selected[target.number].get_or_try_init(count).await?;
            return Ok(target.entry.rows);
        }
        let open = self.open(target).await?;
        Ok(self.select(target, &open).await?.count(open.split.rows()))
    }

    /// Counts the matching rows of all splits, or stops once there are more than `limit`.
    pub(crate) async fn count_up_to(self: &Arc<Self>, limit: u64) -> Result<()> {
        // What the catalog knows costs no read.
        let (known, unknown): (Vec<&Target>, Vec<&Target>) =
            self.targets.iter().partition(|target| *target.filter == Filter::All);
        let wave = if limit == u64::MAX { usize::MAX } else { WAVE_SPLITS };
        for target in known {
            self.count(target).await?;
        }
        if limit == u64::MAX {
            self.expect(unknown.iter().map(|target| target.number)).await;
        }
        for wave in unknown.chunks(wave) {
            if self.matched() > limit {
                break;
            }
            let numbers: Vec<usize> = wave.iter().map(|target| target.number).collect();
            let counted = stream::iter(numbers).map(|number| {
                let scan = Arc::clone(self);
                apart(Arc::clone(self), number, async move {
                    let target = &scan.targets[number];
                    scan.tolerate(target, scan.count(target).await)
                })
            });
            let mut counted = counted.buffer_unordered(self.in_flight());
            while counted.try_next().await?.is_some() {}
        }
        Ok(())
    }

    /// How many rows were found to match, in all searched splits.
    pub(crate) fn matched(&self) -> u64 {
        self.tally.matched.load(Ordering::Relaxed)
    }

    /// Turns the failure of one split into an absence, if partial answers are allowed and the fault is
    /// the split's and not the query's.
    pub(crate) fn tolerate<T>(&self, target: &Target, result: Result<T>) -> Result<Option<T>> {
        let error = match result {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        let kind = match error.kind() {
            ErrorKind::Corrupt => "corrupt_split_exception",
            ErrorKind::NotFound => "missing_split_exception",
            ErrorKind::Denied => "access_denied_exception",
            ErrorKind::Refused => "refused_split_exception",
            ErrorKind::Unavailable => "unavailable_split_exception",
            _ => return Err(error),
        };
        if !self.partial {
            return Err(error);
        }
        let failure = Failure {
            ordinal: target.ordinal,
            split: target.entry.id,
            object: target.entry.object.key.clone(),
            kind: kind.to_owned(),
            reason: chain(&error),
        };
        let mut failed = self.tally.failed.lock();
        failed.entry(target.ordinal).or_insert(failure);
        Ok(None)
    }

    /// Whether a split failed, and is reported so.
    pub(crate) fn has_failed(&self, ordinal: u32) -> bool {
        self.tally.failed.lock().contains_key(&ordinal)
    }

    /// The report on `splits`, including those that the filter rules out. The cost is the meter's, which
    /// other scans may share.
    pub(crate) fn report(&self, splits: &Splits) -> Report {
        let failed = self.tally.failed.lock().clone();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Report {
            answered: splits.ordinals().filter(|ordinal| !failed.contains_key(ordinal)).collect(),
            failed: failed.into_values().collect(),
            matched: self.matched(),
            counts: Counts {
                answered_digest: count(&self.tally.answered_digest),
                opened: count(&self.tally.opened),
                empty: count(&self.tally.empty),
            },
            cost: self.meter.cost(),
        }
    }
}

impl Searcher {
    /// Reads the hot footers of all splits of an index, from packs where it has any: for a cache on the way.
    pub async fn read_footers(self: &Arc<Self>, index: &Arc<Index>, meter: &Arc<Meter>) -> Result<()> {
        let splits = Splits::of(self, std::slice::from_ref(index));
        let scan =
            Scan::new(Arc::new(Local::new(self, None)), &splits, &Filter::All, Arc::clone(meter), false);
        scan.expect(0..scan.targets.len()).await;
        let scan = Arc::new(scan);
        // A read takes kilobytes before it starts, so each is made when its turn comes.
        let opened = stream::iter(0..scan.targets.len()).map(|number| {
            let scan = Arc::clone(&scan);
            spawned(async move { scan.open(&scan.targets[number]).await.map(drop) })
        });
        let mut opened = opened.buffer_unordered(scan.in_flight());
        while opened.try_next().await?.is_some() {}
        Ok(())
    }
}

/// Splits searched concurrently when not all have to be.
pub(crate) const WAVE_SPLITS: usize = 16;

/// Splits of at most so many rows are searched where their query is, if it has at most so many splits: another thread
/// takes longer to wake than one of them takes.
const SMALL_ROWS: u64 = 8_192;
const SMALL_SPLITS: usize = 64;

/// Runs `work` on one split of a scan, as a separate task where that is faster. What panics fails as a task does.
pub(crate) async fn apart<T: Send + 'static>(
    scan: Arc<Scan>,
    number: usize,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    if scan.targets.len() > SMALL_SPLITS || scan.targets[number].entry.rows > SMALL_ROWS {
        return spawned(work).await;
    }
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.map_err(|_| Error::internal("a part of the query failed unexpectedly"))?
}

/// Runs `work` as a separate task, so that many splits use many cores. The task is aborted when its waiter is
/// dropped.
pub(crate) async fn spawned<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match SpawnedTask::spawn(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::internal("a part of the query failed unexpectedly").with_source(error)),
    }
}

/// What is read of each split of a scan.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) scan: Arc<Scan>,
    pub(crate) outputs: Arc<[Output]>,
    /// This many rows of each split suffice.
    pub(crate) limit: Option<usize>,
}

impl Reading {
    /// The matching rows of all splits, column by column, split by split in any order, as `streams` parallel
    /// streams.
    pub(crate) fn batches(self, streams: usize) -> BoxStream<'static, Result<RecordBatch>> {
        let in_flight = (self.scan.in_flight() / streams).max(1);
        let reading = self.clone();
        let expected = async move { reading.expect().await };
        let waves = stream::iter(self.waves(in_flight));
        let rows = waves.flat_map(move |wave| {
            let reading = self.clone();
            stream::iter(wave)
                .map(move |number| {
                    let reading = reading.clone();
                    spawned(async move { reading.start(number).await })
                })
                .buffer_unordered(in_flight)
                .map_ok(SplitRows::batches)
                .try_flatten_unordered(in_flight)
        });
        stream::once(expected).flat_map(|()| stream::empty()).chain(rows).boxed()
    }

    /// The targets that are read together. Where some rows suffice, a few splits may have them: one is read first, then
    /// twice as many at a time, until whoever reads has enough.
    fn waves(&self, in_flight: usize) -> Vec<Range<usize>> {
        let all = self.scan.targets.len();
        let mut waves = Vec::new();
        let (mut start, mut size) = (0, if self.limit.is_none() { in_flight } else { 1 });
        while start < all {
            // What many splits have none of is not in the next few either.
            let end = if size >= in_flight { all } else { all.min(start + size) };
            waves.push(start..end);
            (start, size) = (end, size * 2);
        }
        waves
    }

    /// All splits that have to be opened are, unless the reader stops when it has enough.
    async fn expect(&self) {
        let opens = |target: &&Target| !self.outputs.is_empty() || *target.filter != Filter::All;
        if self.limit.is_none() {
            self.scan.expect(self.scan.targets.iter().filter(opens).map(|target| target.number)).await;
        }
    }

    /// Opens a split and finds its rows; none if it cannot be read and partial answers are allowed.
    async fn start(self, number: usize) -> Result<SplitRows> {
        let target = &self.scan.targets[number];
        let chunks = self.chunks(target).await;
        let (open, chunks) = self.scan.tolerate(target, chunks)?.unwrap_or_default();
        Ok(SplitRows { reading: self, number, open, chunks: chunks.into(), room: None })
    }

    async fn chunks(&self, target: &Target) -> Result<(Option<Arc<OpenSplit>>, Vec<RoaringBitmap>)> {
        if self.outputs.is_empty() && *target.filter == Filter::All {
            let mut rows = RoaringBitmap::new();
            rows.insert_range(0..u32::try_from(self.scan.count(target).await?).unwrap_or(u32::MAX));
            return Ok((None, vec![rows]));
        }
        let open = self.scan.open(target).await?;
        let rows = self.scan.select(target, &open).await?.clone().bitmap(open.split.rows());
        let rows = match self.limit {
            Some(limit) => row_parts(&rows).next(limit).into_iter().collect(),
            None => rows,
        };
        let chunk_rows = self.chunk_rows(&open).await?;
        Ok((Some(open), chunks(rows, chunk_rows)))
    }

    /// Rows read at a time: all of a split for a few narrow columns, fewer for whole documents.
    async fn chunk_rows(&self, open: &OpenSplit) -> Result<usize> {
        let all = u64::from(open.split.rows().max(1));
        let rows = Rows::All.bitmap(open.split.rows());
        let row_bytes = output::bytes_of(self.scan.view(open), &self.outputs, &rows).await? as u64 / all;
        let chunk_bytes = (self.scan.local.searcher.settings.query_bytes_max as u64 / 16).min(CHUNK_BYTES);
        Ok(usize::try_from(chunk_bytes / row_bytes.max(1)).unwrap_or(usize::MAX).max(CHUNK_ROWS_MIN))
    }
}

/// Memory of the columns of one chunk of rows at most, approximately.
const CHUNK_BYTES: u64 = 64 << 20;
/// No chunk is smaller: pages have about this many rows, and reading half a page costs a whole one.
const CHUNK_ROWS_MIN: usize = 20_000;

fn chunks(rows: RoaringBitmap, chunk_rows: usize) -> Vec<RoaringBitmap> {
    if rows.is_empty() {
        return Vec::new();
    }
    if rows.len() as usize <= chunk_rows {
        return vec![rows];
    }
    row_numbers(&rows).chunks(chunk_rows).map(|chunk| chunk.iter().copied().collect()).collect()
}

/// The remaining rows of one split.
struct SplitRows {
    reading: Reading,
    number: usize,
    /// None if only the number of rows is wanted.
    open: Option<Arc<OpenSplit>>,
    chunks: VecDeque<RoaringBitmap>,
    /// Of the rows that were read last.
    room: Option<Room>,
}

impl SplitRows {
    fn batches(self) -> BoxStream<'static, Result<RecordBatch>> {
        stream::try_unfold(self, |mut rows| async move {
            let batch = rows.next().await?;
            Ok(batch.map(|batch| (batch, rows)))
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(rows) = self.chunks.pop_front() else { return Ok(None) };
        let Some(open) = self.open.clone() else { return row_count(rows.len()).map(Some) };
        // What was handed on before is its reader's to account for.
        self.room = None;
        let Reading { scan, outputs, .. } = self.reading.clone();
        let ordinal = scan.targets[self.number].ordinal;
        let read = spawned(async move {
            let bytes = output::bytes_of(scan.view(&open), &outputs, &rows).await?;
            let objects = outputs.iter().filter(|output| output.objects().is_some()).count();
            let room = scan.window.room(bytes + objects * OBJECTS_BYTES).await?;
            let batch = read_keys(scan.view(&open), ordinal, &outputs, &rows).await?;
            room.resize(batch.get_array_memory_size())?;
            Ok((batch, room))
        });
        let read = read.await;
        let scan = &self.reading.scan;
        let Some((batch, room)) = scan.tolerate(&scan.targets[self.number], read)? else { return Ok(None) };
        self.room = Some(room);
        Ok(Some(batch))
    }
}

/// A batch without columns.
fn row_count(rows: u64) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(usize::try_from(rows).ok());
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)
        .map_err(crate::read::merge::arrow_error)
}
