//! Reads columns of a split: first the byte ranges, then the values.
//!
//! The pages are ordinary Parquet pages, but no Parquet footer is read: the hot footer locates each
//! page, and Parquet metadata of only the wanted columns is built from it. [`ColumnRead::ranges`] are
//! exactly the pages with a wanted row, and the dictionary page of each column chunk that has
//! one. Every page's checksum, the structure of its header, the levels of a list and the lengths of texts that come first
//! are verified before it is decoded. The Parquet reader gets each page decompressed when it comes to it.

mod known;
mod unpacked;

pub use known::KnownTexts;

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field as ArrowField, Fields, Float64Type, Schema, SchemaRef};
use bytes::Bytes;
use frostline_base::{ByteRange, Error, Result};
use parking_lot::Mutex;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelectionPolicy, RowSelector,
};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData,
};
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::SchemaDescPtr;
use roaring::RoaringBitmap;

use crate::bytes_codec::checksum;
use crate::footer::{Chunk, ColumnKind, Page};
use crate::mapping::ValueType;
use crate::page_header::{self, PageHeader};
use crate::rows::runs;

const BATCH_ROWS: usize = 8192;

/// How text columns are handed back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextAs {
    /// As `Utf8`.
    #[default]
    Plain,
    /// Scalar `Text` and `Ip` columns, and shapes, as `Dictionary(Int32, Utf8)`.
    Dictionary,
}

/// The Arrow type of a column.
pub(crate) fn arrow_type(kind: ColumnKind, text_as: TextAs) -> DataType {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let list = |item| DataType::List(Arc::new(ArrowField::new("item", item, true)));
    match kind {
        ColumnKind::Time => ValueType::Date.arrow_type(),
        ColumnKind::Nanos => DataType::Int16,
        ColumnKind::Source | ColumnKind::Raw => DataType::Binary,
        ColumnKind::Shape if text_as == TextAs::Dictionary => dictionary,
        ColumnKind::Shape | ColumnKind::Id => DataType::Utf8,
        ColumnKind::Version | ColumnKind::SeqNo => DataType::Int64,
        ColumnKind::Dynamic { .. } | ColumnKind::Residual => list(DataType::Utf8),
        ColumnKind::FieldNanos { list: true, .. } => list(DataType::Int16),
        ColumnKind::FieldNanos { .. } => DataType::Int16,
        ColumnKind::Field { ty, list: true, .. } => list(ty.arrow_type()),
        ColumnKind::Field { ty: ValueType::Text | ValueType::Ip, .. } if text_as == TextAs::Dictionary => {
            dictionary
        }
        ColumnKind::Field { ty, .. } => ty.arrow_type(),
    }
}

/// The compression of every page of a split.
pub(crate) fn compression() -> Compression {
    Compression::ZSTD(ZstdLevel::default())
}

/// A read of some columns of some rows: fetch [`ColumnRead::ranges`], then [`ColumnRead::decode`].
#[derive(Clone, Debug)]
pub struct ColumnRead {
    ranges: Vec<ByteRange>,
    pages: Vec<WantedPage>,
    metadata: Option<ArrowReaderMetadata>,
    schema: SchemaRef,
    selection: Option<RowSelection>,
    rows: usize,
}

#[derive(Clone, Debug)]
struct WantedPage {
    /// The number of its range.
    range: usize,
    /// Its place in the file.
    place: ByteRange,
    checksum: u32,
    is_list: bool,
    has_lengths: bool,
    has_streams: bool,
}

impl WantedPage {
    fn located(&self, error: Error) -> Error {
        error.with("range", format!("{:?}", self.place))
    }
}

impl ColumnRead {
    pub(crate) fn new(
        chunks: &[&Chunk],
        split_rows: u32,
        wanted: Option<&RoaringBitmap>,
        text_as: TextAs,
    ) -> Result<ColumnRead> {
        if wanted.and_then(RoaringBitmap::max).is_some_and(|max| max >= split_rows) {
            return Err(Error::invalid(format!(
                "a row is wanted that is not among the split's {split_rows}"
            )));
        }
        let rows = wanted.map_or(u64::from(split_rows), RoaringBitmap::len) as usize;
        let fields: Fields =
            chunks.iter().map(|c| ArrowField::new(&c.name, arrow_type(c.kind, text_as), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let empty = chunks.is_empty() || rows == 0;
        let metadata =
            if empty { None } else { Some(reader_metadata(chunks, split_rows, &schema).map_err(internal)?) };
        let (ranges, pages) = if empty { Default::default() } else { wanted_pages(chunks, wanted) };
        let selection = wanted.filter(|_| !empty).map(|wanted| select(wanted, split_rows));
        Ok(ColumnRead { ranges, pages, metadata, schema, selection, rows })
    }

    /// The bytes of the split to hand to [`ColumnRead::decode`], pages that touch joined.
    pub fn ranges(&self) -> &[ByteRange] {
        &self.ranges
    }

    /// The columns in the order asked.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows the batches will have together.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The wanted rows in row order. `bytes` are those of [`ColumnRead::ranges`], in that order.
    pub fn decode(self, bytes: Vec<Bytes>) -> Result<Vec<RecordBatch>> {
        let pages = self.verify(&bytes)?;
        let Some(metadata) = self.metadata else { return empty_batches(self.schema, self.rows) };
        let wrong = Arc::default();
        let file = PageFile {
            pages,
            end: self.ranges.last().map_or(0, |range| range.end),
            wrong: Arc::clone(&wrong),
        };
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
            .with_batch_size(BATCH_ROWS)
            // A mask would read the pages between the selected ones, which are not here.
            .with_row_selection_policy(RowSelectionPolicy::Selectors);
        if let Some(selection) = self.selection {
            builder = builder.with_row_selection(selection);
        }
        // The decoder is not ours, and a page forged to match its checksum may be malformed: if the decoder
        // panics on one, that is reported as a corrupt page.
        let decode = || Ok::<_, ParquetError>(builder.build()?.collect::<std::result::Result<Vec<_>, _>>()?);
        let batches = catch_unwind(AssertUnwindSafe(decode))
            .unwrap_or_else(|_| Err(ParquetError::General("the decoder panicked".to_owned())));
        let batches = batches.map_err(|e| {
            // What the reader was told of our own error is a text.
            let own = wrong.lock().take();
            own.unwrap_or_else(|| Error::corrupt("the pages of a column cannot be decoded").with_source(e))
        })?;
        let decoded: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if decoded != self.rows {
            return Err(Error::corrupt(format!("columns hold {decoded} of {} wanted rows", self.rows)));
        }
        batches.into_iter().map(one_zero).collect()
    }

    /// Checks every page as far as can be done before it is decompressed.
    fn verify(&self, bytes: &[Bytes]) -> Result<Vec<HeldPage>> {
        if bytes.len() != self.ranges.len() {
            return Err(Error::invalid(format!("{} ranges were read of {}", bytes.len(), self.ranges.len())));
        }
        let held = |page: &WantedPage| {
            let (range, bytes) = (self.ranges.get(page.range)?, bytes.get(page.range)?);
            let (start, end) = (page.place.start - range.start, page.place.end - range.start);
            let held = (end <= bytes.len() as u64).then(|| bytes.slice(start as usize..end as usize));
            held.filter(|held| checksum(held) == page.checksum)
        };
        let check = |page: &WantedPage| {
            let mismatch = || Error::corrupt("the checksum of a column page does not match");
            let bytes = held(page).ok_or_else(mismatch).map_err(|e| page.located(e))?;
            let header = page_header::of_split(&bytes, page.has_lengths).map_err(|e| page.located(e))?;
            Ok(HeldPage { page: page.clone(), header, bytes })
        };
        self.pages.iter().map(check).collect()
    }
}

/// The same rows with one zero among the doubles: what sorts them would tell `-0.0` from `0.0`, and what compares
/// them would not.
fn one_zero(batch: RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| {
        if let Some(doubles) = column.as_primitive_opt::<Float64Type>() {
            return Arc::new(doubles.unary::<_, Float64Type>(|value| value + 0.0)) as ArrayRef;
        }
        let Some(lists) = column.as_list_opt::<i32>() else { return Arc::clone(column) };
        let Some(doubles) = lists.values().as_primitive_opt::<Float64Type>() else {
            return Arc::clone(column);
        };
        let doubles = Arc::new(doubles.unary::<_, Float64Type>(|value| value + 0.0));
        let DataType::List(item) = lists.data_type() else { return Arc::clone(column) };
        Arc::new(ListArray::new(Arc::clone(item), lists.offsets().clone(), doubles, lists.nulls().cloned()))
    });
    RecordBatch::try_new_with_options(
        batch.schema(),
        columns.collect(),
        &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
    )
    .map_err(|e| Error::internal("columns do not fit their schema").with_source(e))
}

/// Batches of no column, or of no row.
fn empty_batches(schema: SchemaRef, rows: usize) -> Result<Vec<RecordBatch>> {
    if rows == 0 {
        return Ok(vec![RecordBatch::new_empty(schema)]);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(schema, Vec::new(), &options);
    batch
        .map(|batch| vec![batch])
        .map_err(|e| Error::internal("a batch without columns cannot be made").with_source(e))
}

/// The ranges of a [`ColumnRead`].
pub(crate) fn wanted_ranges(chunks: &[&Chunk], wanted: &RoaringBitmap) -> Vec<ByteRange> {
    wanted_pages(chunks, Some(wanted)).0
}

/// The pages of `chunks` that hold a wanted row, with the ranges that they join to.
fn wanted_pages(chunks: &[&Chunk], wanted: Option<&RoaringBitmap>) -> (Vec<ByteRange>, Vec<WantedPage>) {
    let mut pages: Vec<WantedPage> = chunks.iter().flat_map(|chunk| pages_of(chunk, wanted)).collect();
    pages.sort_by_key(|page| page.place.start);
    pages.dedup_by(|a, b| (&a.place, a.checksum) == (&b.place, b.checksum));
    let mut ranges: Vec<ByteRange> = Vec::new();
    for page in &mut pages {
        match ranges.last_mut() {
            Some(last) if last.end == page.place.start => last.end = page.place.end,
            _ => ranges.push(page.place.clone()),
        }
        page.range = ranges.len() - 1;
    }
    (ranges, pages)
}

/// The pages of `chunk` that hold a wanted row, whose range is not known yet.
fn pages_of(chunk: &Chunk, wanted: Option<&RoaringBitmap>) -> Vec<WantedPage> {
    let is_list = chunk.kind.is_list();
    let page = |at, page: &Page| WantedPage {
        range: 0,
        place: at..at + u64::from(page.bytes),
        checksum: page.checksum,
        is_list,
        has_lengths: chunk.has_lengths,
        has_streams: chunk.has_streams,
    };
    let (mut at, mut row) = (chunk.offset, 0u32);
    let mut pages: Vec<WantedPage> = chunk.dictionary.iter().map(|dictionary| page(at, dictionary)).collect();
    at += chunk.dictionary_bytes();
    for stored in &chunk.pages {
        at += stored.skip;
        let row_end = row + stored.rows;
        if wanted.is_none_or(|wanted| wanted.range_cardinality(row..row_end) > 0) {
            pages.push(page(at, stored));
        }
        (at, row) = (at + u64::from(stored.bytes), row_end);
    }
    pages
}

/// The wanted rows as runs to read and to skip.
fn select(wanted: &RoaringBitmap, split_rows: u32) -> RowSelection {
    let mut selectors: Vec<RowSelector> = Vec::new();
    let mut next = 0u32;
    for run in runs(wanted) {
        if run.start > next {
            selectors.push(RowSelector::skip((run.start - next) as usize));
        }
        selectors.push(RowSelector::select(run.len()));
        next = run.end;
    }
    if next < split_rows {
        selectors.push(RowSelector::skip((split_rows - next) as usize));
    }
    selectors.into()
}

/// Metadata as a Parquet reader would have read it, of a file of only these columns.
fn reader_metadata(
    chunks: &[&Chunk],
    rows: u32,
    schema: &SchemaRef,
) -> parquet::errors::Result<ArrowReaderMetadata> {
    let stored: Fields =
        chunks.iter().map(|c| ArrowField::new(&c.name, arrow_type(c.kind, TextAs::Plain), true)).collect();
    let descriptor: SchemaDescPtr = Arc::new(ArrowSchemaConverter::new().convert(&Schema::new(stored))?);
    let mut group = RowGroupMetaData::builder(Arc::clone(&descriptor)).set_num_rows(i64::from(rows));
    for (chunk, column) in chunks.iter().zip(descriptor.columns()) {
        let range = chunk.range();
        let first_page = chunk.offset + chunk.dictionary_bytes();
        let column = ColumnChunkMetaData::builder(Arc::clone(column))
            .set_compression(Compression::UNCOMPRESSED)
            .set_num_values(i64::from(rows))
            .set_total_compressed_size((range.end - range.start) as i64)
            .set_total_uncompressed_size((range.end - range.start) as i64)
            .set_data_page_offset(first_page as i64)
            .set_dictionary_page_offset(chunk.dictionary.as_ref().map(|_| chunk.offset as i64));
        group = group.add_column_metadata(column.build()?);
    }
    let file = FileMetaData::new(2, i64::from(rows), None, None, descriptor, None);
    let metadata: ParquetMetaData = ParquetMetaDataBuilder::new(file)
        .add_row_group(group.build()?)
        .set_offset_index(Some(vec![chunks.iter().map(|chunk| offset_index(chunk)).collect()]))
        .build();
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true).with_schema(Arc::clone(schema));
    ArrowReaderMetadata::try_new(Arc::new(metadata), options)
}

fn offset_index(chunk: &Chunk) -> OffsetIndexMetaData {
    let (mut offset, mut first_row_index) = ((chunk.offset + chunk.dictionary_bytes()) as i64, 0i64);
    let locations = chunk.pages.iter().map(|page| {
        offset += page.skip as i64;
        let location = PageLocation { offset, compressed_page_size: page.bytes as i32, first_row_index };
        offset += i64::from(page.bytes);
        first_row_index += i64::from(page.rows);
        location
    });
    OffsetIndexMetaData { page_locations: locations.collect(), unencoded_byte_array_data_bytes: None }
}

fn internal(e: ParquetError) -> Error {
    Error::internal("the columns of a split cannot be described to the Parquet reader").with_source(e)
}

/// A page that was read.
struct HeldPage {
    page: WantedPage,
    header: PageHeader,
    bytes: Bytes,
}

/// A file of which only some pages are here.
struct PageFile {
    /// By where they begin.
    pages: Vec<HeldPage>,
    end: u64,
    /// The page that could not be decompressed.
    wrong: Arc<Mutex<Option<Error>>>,
}

impl Length for PageFile {
    fn len(&self) -> u64 {
        self.end
    }
}

impl ChunkReader for PageFile {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        self.get_bytes(start, 0).map(Cursor::new)
    }

    /// The page that begins there, decompressed. The reader takes it as it comes, however long it is.
    fn get_bytes(&self, start: u64, _: usize) -> parquet::errors::Result<Bytes> {
        let missing = |_| ParquetError::General(format!("the page at {start} is wanted but was not read"));
        let at = self.pages.binary_search_by_key(&start, |held| held.page.place.start).map_err(missing)?;
        let HeldPage { page, header, bytes } = &self.pages[at];
        unpacked::unpack(bytes, header, page.is_list, page.has_streams).map_err(|e| {
            *self.wrong.lock() = Some(page.located(e));
            ParquetError::General("a page cannot be decompressed".to_owned())
        })
    }
}
