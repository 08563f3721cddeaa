//! Reading the matching rows of an index as a DataFusion plan: the one way in which hits, sorts and SQL
//! get at rows.
//!
//! A [`Scan`] is a question already pruned by the catalog. [`scan_exec`] runs it: many splits at once,
//! each opened, asked for its rows by index, and read only where columns are wanted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::execution_plan::EmissionType;
use frostline_base::{Meter, SplitId};
use frostline_catalog::Index;
use frostline_split::SOURCE_COLUMN;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use roaring::RoaringBitmap;
use tokio::sync::OnceCell;

use crate::exec::leaf::{Leaf, LeafExec};
use crate::filter::Filter;
use crate::prune::{self, Target};
use crate::read::open::{OpenSplit, Searcher};
use crate::read::output::{Of, Output};
use crate::read::view::View;
use crate::select::Rows;
use crate::{Error, ErrorKind, Result};

/// A filter over one version of an index, and what answering it has cost so far.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) searcher: Arc<Searcher>,
    pub(crate) index: Arc<Index>,
    pub(crate) targets: Vec<Target>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) tally: Tally,
    /// The matching rows of each target, once they are known.
    selected: Vec<OnceCell<Rows>>,
    /// Whether splits that cannot be read are left out and reported, or fail the query.
    pub(crate) partial: bool,
}

/// What became of the splits, counted while a query runs.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) pruned_time: AtomicU64,
    pub(crate) pruned_stats: AtomicU64,
    pub(crate) answered_digest: AtomicU64,
    pub(crate) opened: AtomicU64,
    pub(crate) matched: AtomicU64,
    failures: Mutex<Vec<Failure>>,
}

/// A split that could not be read.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) split: SplitId,
    pub(crate) object: String,
    pub(crate) kind: ErrorKind,
    pub(crate) reason: String,
}

impl Tally {
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The splits that could not be read, each once.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        self.failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn failed(&self, failure: Failure) {
        let mut failures = self.failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !failures.iter().any(|f| f.split == failure.split) {
            failures.push(failure);
        }
    }
}

impl Scan {
    pub(crate) fn new(
        searcher: Arc<Searcher>,
        index: Arc<Index>,
        filter: &Filter,
        meter: Arc<Meter>,
        partial: bool,
    ) -> Scan {
        let targets = prune::targets(index.splits(), filter);
        let tally = Tally::default();
        tally.pruned_time.store((index.splits().len() - targets.len()) as u64, Ordering::Relaxed);
        let selected = targets.iter().map(|_| OnceCell::new()).collect();
        Scan { searcher, index, targets, meter, tally, selected, partial }
    }

    pub(crate) async fn open(&self, target: &Target) -> Result<Arc<OpenSplit>> {
        self.searcher.open(&target.entry, &self.meter).await
    }

    pub(crate) fn view<'a>(&'a self, open: &'a OpenSplit) -> View<'a> {
        View { open, reader: self.searcher.reader.as_ref(), meter: &self.meter }
    }

    /// The matching rows of one split, looked for once.
    pub(crate) async fn select(&self, target: &Target, open: &OpenSplit) -> Result<&Rows> {
        self.selected[target.number].get_or_try_init(|| self.look(target, open)).await
    }

    async fn look(&self, target: &Target, open: &OpenSplit) -> Result<Rows> {
        let rows = self.view(open).select(&target.filter, None).await?;
        Tally::count(if rows == Rows::none() { &self.tally.pruned_stats } else { &self.tally.opened });
        self.tally.matched.fetch_add(rows.count(open.split.rows()), Ordering::Relaxed);
        Ok(rows)
    }

    /// How many rows of one split match; a split all of whose rows do is not opened for that.
    pub(crate) async fn count(&self, target: &Target) -> Result<u64> {
        if target.filter == Filter::All {
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

    /// How many rows were found to match, in all splits that were asked.
    pub(crate) fn matched(&self) -> u64 {
        self.tally.matched.load(Ordering::Relaxed)
    }

    /// Turns the failure of one split into an absence, where partial answers are allowed and the fault is
    /// the split's and not the question's.
    pub(crate) fn tolerate<T>(&self, target: &Target, result: Result<T>) -> Result<Option<T>> {
        let error = match result {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        let of_the_split = matches!(
            error.kind(),
            ErrorKind::Corrupt | ErrorKind::NotFound | ErrorKind::Unavailable | ErrorKind::Denied
        );
        if !self.partial || !of_the_split {
            return Err(error);
        }
        self.tally.failed(Failure {
            split: target.entry.id,
            object: target.entry.object.key.clone(),
            kind: error.kind(),
            reason: crate::chain(&error),
        });
        Ok(None)
    }
}

/// Runs `work` as a task of its own, so that many splits use many cores.
pub(crate) async fn spawned<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::internal("a part of the query died").with_source(error)),
    }
}

/// The matching rows of a scan, column by column, as a plan of at most `partitions` streams; `limit` rows
/// of each split are enough.
pub(crate) fn scan_exec(
    scan: Arc<Scan>,
    outputs: Vec<Output>,
    limit: Option<usize>,
    partitions: usize,
) -> LeafExec<Reading> {
    let fields: Vec<Field> = outputs.iter().map(Output::field).collect();
    let partitions = partitions.clamp(1, scan.targets.len().max(1));
    let reading = Reading { scan, outputs: outputs.into(), limit };
    LeafExec::new(reading, Arc::new(Schema::new(fields)), partitions, EmissionType::Incremental)
}

/// What a scan reads of each split.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    scan: Arc<Scan>,
    outputs: Arc<[Output]>,
    limit: Option<usize>,
}

impl Leaf for Reading {
    const NAME: &'static str = "ScanExec";

    fn scan(&self) -> &Scan {
        &self.scan
    }

    fn describe(&self) -> String {
        let names: Vec<&str> = self.outputs.iter().map(|output| output.name.as_str()).collect();
        let limit = self.limit.map(|limit| format!(" limit={limit}")).unwrap_or_default();
        format!("columns=[{}]{limit}", names.join(", "))
    }

    fn batches(
        &self,
        stream: usize,
        streams: usize,
        context: &TaskContext,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let numbers: Vec<usize> = (stream..self.scan.targets.len()).step_by(streams).collect();
        let memory = MemoryConsumer::new(format!("ScanExec[{stream}]")).register(context.memory_pool());
        let reading = self.clone();
        let in_flight = (self.scan.searcher.settings.splits_in_flight / streams).max(1);
        stream::iter(numbers)
            .map(move |number| {
                let (reading, memory) = (reading.clone(), memory.new_empty());
                spawned(async move { reading.start(number, memory).await })
            })
            .buffer_unordered(in_flight)
            .map_ok(SplitRows::batches)
            .try_flatten_unordered(in_flight)
            .boxed()
    }
}

impl Reading {
    /// Opens a split and finds its rows; none where it cannot be read and partial answers are allowed.
    async fn start(self, number: usize, memory: MemoryReservation) -> Result<SplitRows> {
        let target = &self.scan.targets[number];
        let chunks = self.chunks(target).await;
        let (open, chunks) = self.scan.tolerate(target, chunks)?.unwrap_or_default();
        Ok(SplitRows { reading: self, number, open, chunks: chunks.into(), memory })
    }

    async fn chunks(&self, target: &Target) -> Result<(Option<Arc<OpenSplit>>, Vec<RoaringBitmap>)> {
        if self.outputs.is_empty() && target.filter == Filter::All {
            let mut rows = RoaringBitmap::new();
            rows.insert_range(0..u32::try_from(self.scan.count(target).await?).unwrap_or(u32::MAX));
            return Ok((None, vec![rows]));
        }
        let open = self.scan.open(target).await?;
        let rows = self.scan.select(target, &open).await?.clone().bitmap(open.split.rows());
        let rows = match self.limit {
            Some(limit) => rows.iter().take(limit).collect(),
            None => rows,
        };
        let chunk_rows = self.chunk_rows(&open);
        Ok((Some(open), chunks(rows, chunk_rows)))
    }

    /// Rows that are read at a time: all of a split for a few narrow columns, fewer for whole documents.
    fn chunk_rows(&self, open: &OpenSplit) -> usize {
        let rows = u64::from(open.split.rows().max(1));
        let wide = self.outputs.iter().filter(|output| output.of == Of::Source).count() as u64;
        let source = open.split.column_range(SOURCE_COLUMN).map_or(0, |range| range.end - range.start);
        let row_bytes = 16 * self.outputs.len() as u64 + wide * SOURCE_PACKED * (source / rows);
        usize::try_from(CHUNK_BYTES / row_bytes.max(1)).unwrap_or(usize::MAX).max(CHUNK_ROWS_MIN)
    }
}

/// About how much memory the columns of one chunk of rows take.
const CHUNK_BYTES: u64 = 64 << 20;
/// No chunk is smaller: pages have about so many rows, and reading half a page costs a whole one.
const CHUNK_ROWS_MIN: usize = 20_000;
/// About how many times documents are larger than their packed pages.
const SOURCE_PACKED: u64 = 10;

fn chunks(rows: RoaringBitmap, chunk_rows: usize) -> Vec<RoaringBitmap> {
    if rows.is_empty() {
        return Vec::new();
    }
    if rows.len() as usize <= chunk_rows {
        return vec![rows];
    }
    let rows: Vec<u32> = rows.iter().collect();
    rows.chunks(chunk_rows).map(|chunk| chunk.iter().copied().collect()).collect()
}

/// The rows of one split that are still to be read.
struct SplitRows {
    reading: Reading,
    number: usize,
    /// None where only the number of rows is wanted.
    open: Option<Arc<OpenSplit>>,
    chunks: VecDeque<RoaringBitmap>,
    memory: MemoryReservation,
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
        let Reading { scan, outputs, .. } = self.reading.clone();
        let number = self.number;
        let read =
            spawned(async move { read_rows(&scan, &scan.targets[number], &open, &outputs, &rows).await });
        let read = read.await;
        let scan = &self.reading.scan;
        let batch = scan.tolerate(&scan.targets[number], read)?;
        if let Some(batch) = &batch {
            // What was handed on before is its reader's to account for.
            self.memory.try_resize(batch.get_array_memory_size()).map_err(internal)?;
        }
        Ok(batch)
    }
}

/// A batch without columns.
fn row_count(rows: u64) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(usize::try_from(rows).ok());
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)
        .map_err(crate::read::merge::arrow_error)
}

/// The outputs for the given rows of a split, in row order.
pub(crate) async fn read_rows(
    scan: &Scan,
    target: &Target,
    open: &OpenSplit,
    outputs: &[Output],
    rows: &RoaringBitmap,
) -> Result<RecordBatch> {
    let view = scan.view(open);
    let columns =
        futures::future::try_join_all(outputs.iter().map(|o| o.read(view, target.ordinal, rows))).await?;
    let fields: Vec<Field> = outputs.iter().map(Output::field).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len() as usize));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(crate::read::merge::arrow_error)
}

/// Row numbers as a column.
pub(crate) fn row_numbers(rows: &RoaringBitmap) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(rows.iter()))
}

/// The `_id`s of rows: split and row.
pub(crate) fn row_ids(split: SplitId, rows: &RoaringBitmap) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row_id(split, row))))
}

/// The `_id` of a row: a position, valid as long as the split lives.
pub(crate) fn row_id(split: SplitId, row: u32) -> String {
    format!("{split}-{row}")
}

/// Our error on its way through DataFusion.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// DataFusion's error as ours; an error of ours that went through it comes out as it was.
pub(crate) fn internal(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => Error::internal("the query failed").with_source(other),
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => internal(*inner),
        DataFusionError::Shared(inner) => match Arc::try_unwrap(inner) {
            Ok(inner) => internal(inner),
            Err(shared) => Error::internal(shared.to_string()),
        },
        DataFusionError::ResourcesExhausted(what) => {
            Error::exhausted(format!("the query needs more memory than it may use: {what}"))
        }
        DataFusionError::SQL(..) | DataFusionError::Plan(_) | DataFusionError::SchemaError(..) => {
            Error::invalid(error.strip_backtrace())
        }
        DataFusionError::NotImplemented(what) => Error::invalid(format!("not supported: {what}")),
        DataFusionError::ArrowError(..) | DataFusionError::Execution(_) => {
            Error::invalid(error.strip_backtrace())
        }
        other => Error::internal("the query failed").with_source(other),
    }
}

/// The type of split ordinals and row numbers.
pub(crate) const ADDRESS_TYPE: DataType = DataType::UInt32;
