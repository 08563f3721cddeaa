//! Encodes collected documents as a split, front to back.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::io::Write;
use std::sync::Arc;

use arrow::datatypes::{Field as ArrowField, Schema};
use frostline_base::{ByteRange, Doubles, Error, Result, SplitId};
use parquet::arrow::ArrowSchemaConverter;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};

use crate::columns::{TextAs, arrow_type};
use crate::dictionary::{Dictionary, Entries, Leaving, PostingsSink};
use crate::digest::{
    BUCKET_US, CELLS_MAX, DigestValue, DigestWriter, NumberFacts, Numbers, Squares, VALUES_MAX, ValueCount,
    ValueCounts, count_by,
};
use crate::distribution::{DISTRIBUTION_COUNT_MIN, Distribution};
use crate::document::Value;
use crate::dynamic;
use crate::fields::{FieldRecord, field_key};
use crate::footer::{
    self, Chunk, ColumnKind, Contents, DigestPlace, HotDigest, OriginsPlace, SplitField, Unsummed,
};
use crate::identities::ID_FIELD_NUMBER;
use crate::mapping::{DYNAMIC_COLUMN, Field, Mapping, NANOS_COLUMN, SOURCE_COLUMN, TIME_COLUMN, ValueType};
use crate::origins::{Origin, OriginsWriter};
use crate::term::TakeTerms;
use crate::values::parse_big;
use crate::writer::chunk::{Cells, ChunkEncoder, ColumnInput, EncodedChunk, internal};
use crate::writer::index::{IndexParts, IndexWriter, ReadingRows};
use crate::writer::values::Values;
use crate::writer::{
    ColumnStats, NO_TIME, PartBytes, Sealed, SplitWriter, WriterOptions, cannot_write, stat_values,
};

mod groups;

use groups::Written;

/// The key-value metadata of the Parquet footer that names the format's version.
const VERSION_KEY: &str = "frostline.split.version";
/// The key-value metadata that says where the hot footer is, as `start..end`.
const FOOTER_KEY: &str = "frostline.split.footer";

const MAGIC_BYTES: u64 = 4;

/// Keys can be short in fields in which verifying a row reads no more.
const VERIFIED_BYTES_MAX: u64 = 192 << 10;

pub(crate) fn seal(
    writer: SplitWriter,
    id: SplitId,
    out: &mut (impl Write + Send),
    terms: Option<&mut dyn TakeTerms>,
) -> Result<Sealed> {
    let unpacked_bytes = writer.unpacked_bytes();
    let (arranged, writer) = Arranged::new(writer);
    let order = arranged.order.clone();
    let stored = plan_columns(&arranged);
    let plan = groups::plan(&stored, &arranged, &writer)?;
    let columns = plan.as_ref().map_or(&stored, |plan| &plan.columns);
    let further_times = further_times(&arranged, &writer);
    let mut out = Holding { out, held: None };
    let mut file = open_file(&mut out, columns, &arranged, &writer)?;
    let mut written = match &plan {
        None => write_columns(&mut file, columns, &arranged, &writer)?,
        Some(plan) => groups::write(&mut file, plan, &arranged, &writer)?,
    };
    let column_stats = std::mem::take(&mut written.stats);
    let index_start = file.bytes_written() as u64;
    let (contents, parts_of_index) =
        write_index(&mut file, index_start, id, written, arranged, &writer, terms)?;
    let outside = file.bytes_written() as u64;
    let WriterOptions { zstd_level, hot_footer_bytes_max, version, .. } = writer.options;
    let hot = match version {
        2 => footer::version_2::write(&contents, zstd_level)?,
        _ => footer::write(&contents, &mut FileEnd(&mut file), outside, hot_footer_bytes_max, zstd_level)?,
    };
    let start = file.bytes_written() as u64;
    let hot_bytes = hot.bytes();
    let range = start..start + hot_bytes as u64;
    // The hot footer has a checksum of what follows it, and that says where the hot footer is: the file goes
    // on as if the hot footer were written, and what follows is held until it is.
    file.flush().map_err(cannot_write)?;
    file.inner_mut().held = Some(Vec::new());
    file.write_all(&vec![0; hot_bytes]).map_err(cannot_write)?;
    file.append_key_value_metadata(KeyValue::new(VERSION_KEY.to_owned(), version.to_string()));
    file.append_key_value_metadata(KeyValue::new(
        FOOTER_KEY.to_owned(),
        format!("{}..{}", range.start, range.end),
    ));
    file.finish().map_err(internal)?;
    let bytes = file.bytes_written() as u64;
    drop(file);
    out.release(hot, hot_bytes)?;
    let parts = PartBytes {
        footer: range.end - outside,
        parquet_footer: bytes - range.end + MAGIC_BYTES,
        ..parts_of_index
    };
    Ok(Sealed {
        bytes,
        footer: range,
        rows: contents.rows,
        rows_without_time: contents.rows_without_time,
        times: contents.times.map(|times| further_times.into_iter().fold(times, cover)),
        mapping: writer.mapping,
        column_stats,
        source_bytes: writer.source_bytes,
        unpacked_bytes,
        parts,
        order,
    })
}

/// The smallest and the largest date among the values of the time field that are not the time of their document.
fn further_times(arranged: &Arranged, writer: &SplitWriter) -> Vec<i64> {
    let mut readings = arranged.readings.iter();
    let dates = readings.find(|r| r.ty == ValueType::Date && *r.path == *writer.mapping.time_field());
    let ends = dates.map(|dates| [dates.distinct.first(), dates.distinct.last()]);
    ends.into_iter().flatten().flatten().map(|number| writer.values.bits(*number) as i64).collect()
}

fn cover((first, last): (i64, i64), time_us: i64) -> (i64, i64) {
    (first.min(time_us), last.max(time_us))
}

/// An output that buffers what is written to it once this is requested.
struct Holding<'a, W> {
    out: &'a mut W,
    held: Option<Vec<u8>>,
}

impl<W: Write> Holding<'_, W> {
    /// Writes the hot footer in place of the `hot_bytes` that are held first, and what is held after them.
    fn release(self, hot: Unsummed, hot_bytes: usize) -> Result<()> {
        let held = self.held.unwrap_or_default();
        let tail = held.get(hot_bytes..).unwrap_or_default();
        self.out.write_all(&hot.sum(tail)).map_err(cannot_write)?;
        self.out.write_all(tail).map_err(cannot_write)?;
        self.out.flush().map_err(cannot_write)
    }
}

impl<W: Write> Write for Holding<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.held {
            Some(held) => held.write(bytes),
            None => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// The rows in their final order, their values grouped by reading.
struct Arranged {
    /// The place in the writer of each row.
    order: Vec<u32>,
    /// Times of the rows that have one, ascending.
    times: Vec<i64>,
    /// The nanoseconds of these; none where all are whole microseconds.
    nanos: Vec<u16>,
    /// The rows of documents that clients gave identities.
    identified: Vec<u32>,
    /// Readings in the order of their field numbers.
    readings: Vec<ArrangedReading>,
    rows: Vec<u32>,
    numbers: Vec<u32>,
}

/// One reading: its values are `span` of the arranged rows and numbers.
struct ArrangedReading {
    path: Arc<str>,
    ty: ValueType,
    dynamic: bool,
    span: std::ops::Range<usize>,
    /// The distinct values, ascending; `numbers` are places in it.
    distinct: Vec<u32>,
    /// Of dates with nanoseconds.
    micros: Option<Micros>,
    has_scalar: bool,
    has_list: bool,
}

/// The distinct microseconds of dates with nanoseconds.
struct Micros {
    /// A date of each, ascending.
    distinct: Vec<u32>,
    /// Their places, by those of the dates.
    places: Vec<u32>,
}

impl Micros {
    fn new(dates: &[u32], values: &Values) -> Micros {
        let mut micros = Micros { distinct: Vec::new(), places: Vec::with_capacity(dates.len()) };
        for date in dates {
            if micros.distinct.last().is_none_or(|last| values.bits(*last) != values.bits(*date)) {
                micros.distinct.push(*date);
            }
            micros.places.push(micros.distinct.len() as u32 - 1);
        }
        micros
    }
}

impl ArrangedReading {
    /// What a column has of these values: places among the distinct ones.
    fn column_numbers<'n>(&self, numbers: &'n [u32], kind: ColumnKind) -> (Cow<'n, [u32]>, &[u32]) {
        match &self.micros {
            Some(micros) if matches!(kind, ColumnKind::Field { .. }) => {
                let places = numbers.iter().map(|number| micros.places[*number as usize]);
                (places.collect(), &micros.distinct)
            }
            _ => (numbers.into(), &self.distinct),
        }
    }
}

impl Arranged {
    fn new(mut writer: SplitWriter) -> (Arranged, SplitWriter) {
        writer.values.close();
        let mut order: Vec<u32> = (0..writer.rows.len() as u32).collect();
        order.sort_by_key(|row| {
            let row = &writer.rows[*row as usize];
            (row.time, row.nanos)
        });
        let times =
            order.iter().map(|row| writer.rows[*row as usize].time).take_while(|time| *time != NO_TIME);
        let times: Vec<i64> = times.collect();
        let has_nanos = writer.has_nanos && writer.options.version != 2;
        let timed = order.iter().take(if has_nanos { times.len() } else { 0 });
        let nanos = timed.map(|row| writer.rows[*row as usize].nanos).collect();
        let rows = (0..).zip(&order).filter(|_| writer.options.version != 2);
        let identified = rows.filter(|(_, place)| writer.identities.get(**place).is_some());
        let identified = identified.map(|(row, _)| row).collect();
        let mut by_name: Vec<u16> = (0..writer.readings.len() as u16).collect();
        by_name.sort_by(|a, b| {
            let (a, b) = (&writer.readings[usize::from(*a)], &writer.readings[usize::from(*b)]);
            field_key(&a.path, a.ty).cmp(&field_key(&b.path, b.ty))
        });
        let spans = spans_of(&writer, &by_name);
        let (rows, mut numbers) = scatter(&writer, &order, &by_name, &spans);
        writer.numbers = Vec::new();
        let mut place_of = vec![u32::MAX; writer.values.len()];
        let readings = by_name.iter().zip(spans).map(|(reading, span)| {
            let reading = &writer.readings[usize::from(*reading)];
            let distinct =
                number_distinct(&mut numbers[span.clone()], &writer.values, reading.ty, &mut place_of);
            let (path, ty, dynamic) = (Arc::clone(&reading.path), reading.ty, reading.dynamic);
            let micros = reading.has_nanos.then(|| Micros::new(&distinct, &writer.values));
            ArrangedReading {
                path,
                ty,
                dynamic,
                span,
                distinct,
                micros,
                has_scalar: reading.scalar,
                has_list: reading.list,
            }
        });
        let readings = readings.collect();
        (Arranged { order, times, nanos, identified, readings, rows, numbers }, writer)
    }

    fn split_rows(&self) -> u32 {
        self.order.len() as u32
    }
}

/// Where the values of each reading go, by field number.
fn spans_of(writer: &SplitWriter, by_name: &[u16]) -> Vec<std::ops::Range<usize>> {
    let mut counts = vec![0usize; writer.readings.len()];
    for number in &writer.numbers {
        counts[usize::from(writer.values.reading(*number))] += 1;
    }
    let mut at = 0;
    let spans = by_name.iter().map(|reading| {
        let start = at;
        at += counts[usize::from(*reading)];
        start..at
    });
    spans.collect()
}

/// Rows and numbers of all values, grouped by reading, each group in row order.
fn scatter(
    writer: &SplitWriter,
    order: &[u32],
    by_name: &[u16],
    spans: &[std::ops::Range<usize>],
) -> (Vec<u32>, Vec<u32>) {
    let mut next = vec![0usize; by_name.len()];
    for (reading, span) in by_name.iter().zip(spans) {
        next[usize::from(*reading)] = span.start;
    }
    let (mut rows, mut numbers) = (vec![0u32; writer.numbers.len()], vec![0u32; writer.numbers.len()]);
    for (row, place) in order.iter().enumerate() {
        let place = *place as usize;
        let start = place.checked_sub(1).map_or(0, |before| writer.rows[before].numbers_end);
        for number in &writer.numbers[start as usize..writer.rows[place].numbers_end as usize] {
            let at = &mut next[usize::from(writer.values.reading(*number))];
            (rows[*at], numbers[*at]) = (row as u32, *number);
            *at += 1;
        }
    }
    (rows, numbers)
}

/// Replaces value numbers by places among the distinct values in their order, which it returns.
fn number_distinct(numbers: &mut [u32], values: &Values, ty: ValueType, place_of: &mut [u32]) -> Vec<u32> {
    let mut distinct = Vec::new();
    for number in numbers.iter() {
        let place = &mut place_of[*number as usize];
        if *place == u32::MAX {
            *place = 0;
            distinct.push(*number);
        }
    }
    distinct.sort_unstable_by(|a, b| compare(values, ty, *a, *b));
    for (place, number) in distinct.iter().enumerate() {
        place_of[*number as usize] = place as u32;
    }
    numbers.iter_mut().for_each(|number| *number = place_of[*number as usize]);
    distinct
}

fn compare(values: &Values, ty: ValueType, a: u32, b: u32) -> Ordering {
    match ty {
        ValueType::Boolean => values.bits(a).cmp(&values.bits(b)),
        ValueType::Long => (values.bits(a) as i64).cmp(&(values.bits(b) as i64)),
        ValueType::Date => values.moment(a).cmp(&values.moment(b)),
        ValueType::Double => f64::from_bits(values.bits(a)).total_cmp(&f64::from_bits(values.bits(b))),
        ValueType::Big => big(values.text(a)).cmp(&big(values.text(b))),
        ValueType::Ip | ValueType::Text => values.bytes(a).cmp(values.bytes(b)),
    }
}

fn big(digits: &str) -> i128 {
    parse_big(digits).unwrap_or_default()
}

/// A column to be: its name, what it is, and which reading's.
#[derive(Clone)]
struct Column {
    name: String,
    kind: ColumnKind,
}

fn plan_columns(arranged: &Arranged) -> Vec<Column> {
    let mut columns = vec![Column { name: TIME_COLUMN.to_owned(), kind: ColumnKind::Time }];
    if !arranged.nanos.is_empty() {
        columns.push(Column { name: NANOS_COLUMN.to_owned(), kind: ColumnKind::Nanos });
    }
    if !arranged.identified.is_empty() {
        let own = |kind| Column { name: footer::own_name(kind).to_owned(), kind };
        columns.extend([ColumnKind::Id, ColumnKind::Version, ColumnKind::SeqNo].map(own));
    }
    for (field, reading) in arranged.readings.iter().enumerate().filter(|(_, reading)| !reading.dynamic) {
        let (field, ty) = (field as u16, reading.ty);
        let lists = reading.has_scalar.then_some(false).into_iter().chain(reading.has_list.then_some(true));
        for list in lists {
            let name = Mapping::column_name(&reading.path, ty, list);
            columns.push(Column { name, kind: ColumnKind::Field { field, ty, list } });
            columns.extend(reading.micros.as_ref().map(|_| Column {
                name: Mapping::nanos_column_name(&reading.path, list),
                kind: ColumnKind::FieldNanos { field, list },
            }));
        }
    }
    if arranged.readings.iter().any(|reading| reading.dynamic) {
        columns.push(Column { name: DYNAMIC_COLUMN.to_owned(), kind: ColumnKind::Dynamic { typed: true } });
    }
    columns.push(Column { name: SOURCE_COLUMN.to_owned(), kind: ColumnKind::Source });
    columns
}

fn parquet_schema(columns: &[Column]) -> Result<SchemaDescriptor> {
    let fields: Vec<ArrowField> =
        columns.iter().map(|c| ArrowField::new(&c.name, arrow_type(c.kind, TextAs::Plain), true)).collect();
    ArrowSchemaConverter::new().convert(&Schema::new(fields)).map_err(internal)
}

type File<'a, W> = SerializedFileWriter<&'a mut W>;

fn open_file<'a, W: Write + Send>(
    out: &'a mut W,
    columns: &[Column],
    arranged: &Arranged,
    writer: &SplitWriter,
) -> Result<File<'a, W>> {
    let schema = parquet_schema(columns)?;
    let by_time = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
    let properties = WriterProperties::builder()
        .set_created_by(format!("frostline split format {}", writer.options.version))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_max_row_group_row_count(Some(arranged.order.len()))
        .set_sorting_columns(Some(vec![by_time]))
        .build();
    SerializedFileWriter::new(out, schema.root_schema_ptr(), Arc::new(properties)).map_err(internal)
}

fn leave_empty<W: Write + Send>(file: &mut File<'_, W>, bytes: u64) -> Result<()> {
    let zeros = vec![0; bytes.min(1 << 20) as usize];
    let mut left = bytes;
    while left > 0 {
        let here = left.min(zeros.len() as u64);
        file.write_all(&zeros[..here as usize]).map_err(cannot_write)?;
        left -= here;
    }
    Ok(())
}

/// Values by their place among a reading's distinct ones.
struct ReadingCells<'a> {
    values: &'a Values,
    distinct: &'a [u32],
    kind: ColumnKind,
}

impl Cells for ReadingCells<'_> {
    fn bits(&self, number: u32) -> u64 {
        let value = self.distinct[number as usize];
        match self.kind {
            ColumnKind::FieldNanos { .. } => u64::from(self.values.nanos(value)),
            _ => self.values.bits(value),
        }
    }

    fn bytes(&self, number: u32) -> &[u8] {
        self.values.bytes(self.distinct[number as usize])
    }
}

/// Times by row.
struct TimeCells<'a>(&'a [i64]);

impl Cells for TimeCells<'_> {
    fn bits(&self, number: u32) -> u64 {
        self.0[number as usize] as u64
    }
}

/// The nanoseconds of times by row.
struct NanosCells<'a>(&'a [u16]);

impl Cells for NanosCells<'_> {
    fn bits(&self, number: u32) -> u64 {
        u64::from(self.0[number as usize])
    }
}

/// What clients call documents, by row.
struct IdentityCells<'a> {
    kind: ColumnKind,
    writer: &'a SplitWriter,
    order: &'a [u32],
}

impl Cells for IdentityCells<'_> {
    fn bits(&self, number: u32) -> u64 {
        let identity = self.writer.identities.get(self.order[number as usize]);
        identity.map_or(
            0,
            |held| if self.kind == ColumnKind::Version { held.version } else { held.seq_no } as u64,
        )
    }

    fn bytes(&self, number: u32) -> &[u8] {
        let identity = self.writer.identities.get(self.order[number as usize]);
        identity.map_or(&[], |held| self.writer.identities.id(held).as_bytes())
    }
}

/// Documents by row.
struct SourceCells<'a> {
    writer: &'a SplitWriter,
    order: &'a [u32],
}

impl Cells for SourceCells<'_> {
    fn bytes(&self, number: u32) -> &[u8] {
        self.writer.source_of(&self.writer.rows[self.order[number as usize] as usize])
    }
}

/// Pairs.
struct DynamicCells(Vec<Vec<u8>>);

impl Cells for DynamicCells {
    fn bytes(&self, number: u32) -> &[u8] {
        &self.0[number as usize]
    }
}

struct ColumnsWriter<'a> {
    encoder: ChunkEncoder,
    source_encoder: ChunkEncoder,
    arranged: &'a Arranged,
    writer: &'a SplitWriter,
    at: u64,
    chunks: Vec<Chunk>,
    stats: Vec<ColumnStats>,
}

fn write_columns<W: Write + Send>(
    file: &mut File<'_, W>,
    columns: &[Column],
    arranged: &Arranged,
    writer: &SplitWriter,
) -> Result<Written> {
    let descriptors = file.schema_descr().columns().to_vec();
    leave_empty(file, writer.options.empty_bytes)?;
    let mut columns_writer = ColumnsWriter::new(arranged, writer, file.bytes_written() as u64)?;
    let mut group = file.next_row_group().map_err(internal)?;
    for (column, descriptor) in columns.iter().zip(&descriptors) {
        columns_writer.write(column, descriptor, &mut group)?;
    }
    group.close().map_err(internal)?;
    let ColumnsWriter { chunks, stats, .. } = columns_writer;
    let has_lengths = chunks.iter().any(|chunk| chunk.has_lengths);
    Ok(Written { chunks, stats, groups: Vec::new(), has_lengths, has_streams: false, further_bytes: 0 })
}

impl<'a> ColumnsWriter<'a> {
    /// A writer of columns from byte `at` of the file on.
    fn new(arranged: &'a Arranged, writer: &'a SplitWriter, at: u64) -> Result<ColumnsWriter<'a>> {
        Ok(ColumnsWriter {
            encoder: ChunkEncoder::new(writer.options.column_zstd_level, writer.options.version > 2)?,
            source_encoder: ChunkEncoder::new(writer.options.source_zstd_level, false)?,
            arranged,
            writer,
            at,
            chunks: Vec::new(),
            stats: Vec::new(),
        })
    }

    /// A writer of columns that are stored once more.
    fn of_copies(arranged: &'a Arranged, writer: &'a SplitWriter, at: u64) -> Result<ColumnsWriter<'a>> {
        let encoder = ChunkEncoder::of_copies(writer.options.column_zstd_level)?;
        Ok(ColumnsWriter { encoder, ..ColumnsWriter::new(arranged, writer, at)? })
    }

    fn write<W: Write + Send>(
        &mut self,
        column: &Column,
        descriptor: &ColumnDescPtr,
        group: &mut SerializedRowGroupWriter<'_, &mut W>,
    ) -> Result<()> {
        let encoded = self.encode(column, descriptor)?;
        self.at += encoded.bytes.len() as u64;
        self.keep_stats(column, encoded.bounds, encoded.nulls);
        self.chunks.push(encoded.chunk);
        group.append_column(&encoded.bytes, encoded.close).map_err(internal)
    }

    fn encode(&mut self, column: &Column, descriptor: &ColumnDescPtr) -> Result<EncodedChunk> {
        let arranged = self.arranged;
        let every: Vec<u32>;
        let (timed, all) = (arranged.times.len() as u32, arranged.split_rows());
        let input = |rows, numbers, cells, distinct, page_bytes_max| ColumnInput {
            name: column.name.clone(),
            kind: column.kind,
            split_rows: all,
            rows,
            numbers,
            cells,
            distinct,
            page_bytes_max,
        };
        match column.kind {
            ColumnKind::Time => {
                every = (0..timed).collect();
                let cells = TimeCells(&arranged.times);
                self.encoder.encode(&input(&every, &every, &cells, None, None), descriptor, self.at)
            }
            ColumnKind::Shape | ColumnKind::Residual | ColumnKind::Raw => {
                Err(Error::internal("only row groups have this column").with("column", &column.name))
            }
            ColumnKind::Nanos => {
                every = (0..timed).collect();
                let cells = NanosCells(&arranged.nanos);
                self.encoder.encode(&input(&every, &every, &cells, None, None), descriptor, self.at)
            }
            ColumnKind::Id | ColumnKind::Version | ColumnKind::SeqNo => {
                let rows = &arranged.identified;
                let cells = IdentityCells { kind: column.kind, writer: self.writer, order: &arranged.order };
                self.encoder.encode(&input(rows, rows, &cells, None, None), descriptor, self.at)
            }
            ColumnKind::Source => {
                every = (0..all).collect();
                let cells = SourceCells { writer: self.writer, order: &arranged.order };
                // Each text also takes four bytes of length, and the levels of a page a few.
                let page_bytes_max = self.writer.options.source_page_bytes.saturating_sub(64);
                self.source_encoder.encode(
                    &input(&every, &every, &cells, None, Some(page_bytes_max)),
                    descriptor,
                    self.at,
                )
            }
            ColumnKind::Dynamic { .. } => {
                let (rows, cells) = dynamic_cells(arranged, &self.writer.values);
                every = (0..rows.len() as u32).collect();
                self.encoder.encode(&input(&rows, &every, &cells, None, None), descriptor, self.at)
            }
            ColumnKind::Field { field, list, .. } | ColumnKind::FieldNanos { field, list } => {
                let reading = &arranged.readings[usize::from(field)];
                let rows = &arranged.rows[reading.span.clone()];
                let (numbers, distinct) =
                    reading.column_numbers(&arranged.numbers[reading.span.clone()], column.kind);
                let cells = ReadingCells { values: &self.writer.values, distinct, kind: column.kind };
                let distinct = matches!(column.kind, ColumnKind::Field { .. }).then_some(distinct.len());
                let both = reading.has_scalar && reading.has_list;
                let (some_rows, some_numbers) =
                    if both { rows_of_kind(rows, &numbers, list) } else { Default::default() };
                let (rows, numbers) =
                    if both { (&some_rows[..], &some_numbers[..]) } else { (rows, &numbers[..]) };
                self.encoder.encode(&input(rows, numbers, &cells, distinct, None), descriptor, self.at)
            }
        }
    }

    fn keep_stats(&mut self, column: &Column, bounds: Option<crate::footer::Bounds>, nulls: u64) {
        let ty = match column.kind {
            ColumnKind::Time => ValueType::Date,
            ColumnKind::Field { ty, list: false, .. }
                if !matches!(ty, ValueType::Big | ValueType::Ip | ValueType::Text) =>
            {
                ty
            }
            _ => return,
        };
        let bounds = bounds.map(|bounds| stat_values(ty, bounds));
        self.stats.push(ColumnStats { name: column.name.clone(), bounds, nulls });
    }
}

/// The values of rows with several (`list`), or of rows with one.
fn rows_of_kind(rows: &[u32], numbers: &[u32], list: bool) -> (Vec<u32>, Vec<u32>) {
    let (mut some_rows, mut some_numbers) = (Vec::new(), Vec::new());
    let mut at = 0;
    for group in rows.chunk_by(|a, b| a == b) {
        if (group.len() > 1) == list {
            some_rows.extend_from_slice(group);
            some_numbers.extend_from_slice(&numbers[at..at + group.len()]);
        }
        at += group.len();
    }
    (some_rows, some_numbers)
}

/// The values of fields beyond the column budget, as pairs in row order.
fn dynamic_cells(arranged: &Arranged, values: &Values) -> (Vec<u32>, DynamicCells) {
    let mut texts: Vec<(u32, Vec<u8>)> = Vec::new();
    for reading in arranged.readings.iter().filter(|reading| reading.dynamic) {
        for at in reading.span.clone() {
            let value = values.value(reading.distinct[arranged.numbers[at] as usize], reading.ty);
            texts.push((arranged.rows[at], dynamic::pair(&reading.path, &value).into_bytes()));
        }
    }
    texts.sort_by_key(|(row, _)| *row);
    let (rows, texts) = texts.into_iter().unzip();
    (rows, DynamicCells(texts))
}

fn write_index<W: Write + Send>(
    file: &mut File<'_, W>,
    start: u64,
    id: SplitId,
    written: Written,
    arranged: Arranged,
    writer: &SplitWriter,
    mut terms: Option<&mut dyn TakeTerms>,
) -> Result<(Contents, PartBytes)> {
    let Written { chunks, groups, has_lengths, has_streams, further_bytes, .. } = written;
    let rows = arranged.split_rows();
    let level = writer.options.zstd_level;
    let rows_without_time = rows - arranged.times.len() as u32;
    let mut digest = DigestWriter::new(&arranged.times, rows_without_time);
    let buckets = count_by(arranged.times.iter().map(|time| time.div_euclid(BUCKET_US))).len();
    let mut fields = Vec::new();
    let mut out = FileEnd(file);
    let leaving = Leaving {
        inline_bytes_max: writer.options.list_inline_bytes_max,
        column_bytes_max: writer.options.list_column_bytes_max,
        part: writer.options.list_column_part,
    };
    let sink = PostingsSink::new(&mut out, start, rows, writer.options.version, leaving)?;
    let mut required = if writer.options.version == 2 { 0 } else { footer::ENTRY_HEADS };
    let has_heads = required != 0;
    let [text_entries, exact_entries] = Entries::of_split(has_heads);
    let mut index = IndexWriter::new(sink, rows, level, has_heads)?;
    for (number, reading) in arranged.readings.iter().enumerate() {
        let field = number as u16;
        let can_be_verified = bytes_of_a_value(&chunks, field, reading.dynamic) <= VERIFIED_BYTES_MAX;
        // Two lists cost less than reading the values of a column.
        let can_be_unindexed = has_heads && reading.ty != ValueType::Boolean;
        let mapped = writer.mapping.field(&reading.path);
        let is_indexed = !can_be_unindexed || !mapped.is_some_and(Field::is_unindexed);
        required |= if is_indexed { 0 } else { footer::UNINDEXED_FIELDS };
        let is_text = reading.ty == ValueType::Text && is_indexed;
        let has_pairs = has_heads && is_text && has_pairs(&chunks, field, &writer.options);
        let column_bytes = dictionary_column_bytes(&chunks, field).filter(|_| has_heads);
        let rows = ReadingRows {
            field,
            can_be_verified,
            is_indexed,
            has_pairs,
            column_bytes,
            ty: reading.ty,
            rows: &arranged.rows[reading.span.clone()],
            numbers: &arranged.numbers[reading.span.clone()],
            distinct: &reading.distinct,
            values: &writer.values,
        };
        let terms: Option<&mut dyn TakeTerms> = match &mut terms {
            Some(terms) => {
                terms.reading(&reading.path, reading.ty);
                Some(&mut **terms)
            }
            None => None,
        };
        let (exists, rows_with_value) = index.add(&rows, terms)?;
        if !mapped.is_some_and(Field::is_without_doc_values) {
            let counts = value_counts(&rows, reading, &index, &arranged.times, buckets);
            digest.add(field, numbers_of(&rows), counts);
        }
        let (path, ty, dynamic) = (reading.path.to_string(), reading.ty, reading.dynamic);
        let (has_scalar, has_list) = (reading.has_scalar, reading.has_list);
        let has_nanos = reading.micros.is_some();
        required |= if has_nanos { footer::DATE_NANOS } else { 0 };
        let field = SplitField {
            number: field,
            path,
            ty,
            has_scalar,
            has_list,
            dynamic,
            has_nanos,
            is_indexed,
            rows_with_value,
        };
        fields.push(FieldRecord { field, exists, chunks: Vec::new() });
    }
    if !arranged.identified.is_empty() {
        add_ids(&mut index, &chunks, &arranged, writer)?;
    }
    let IndexParts { mut text, mut exact, mut pairs, stored } = index.finish(level, &writer.values)?;
    let lists = stored.range;
    required |= stored.required;
    for table in [&mut text, &mut exact, &mut pairs] {
        required |= table.required()?;
    }
    required |= if groups.is_empty() { 0 } else { footer::ROW_GROUPS | footer::RENDERED };
    let text = text.finish(&mut out, lists.end)?;
    let exact_start = if text.len() == 0 { lists.end } else { text.range().end };
    let exact = exact.finish(&mut out, exact_start)?;
    let pairs_start = if exact.len() == 0 { exact_start } else { exact.range().end };
    let pairs = pairs.finish(&mut out, pairs_start)?;
    let digest_start = if pairs.len() == 0 { pairs_start } else { pairs.range().end };
    let is_block = writer.options.version != 2;
    let whole = if is_block { digest.block()? } else { digest.version_2() };
    let packed = zstd::bulk::compress(&whole, level).map_err(cannot_write)?;
    let digest = if packed.len() <= writer.options.hot_footer_bytes_max / 4 || !is_block {
        DigestPlace::Footer(HotDigest::new(packed, whole.len(), is_block))
    } else {
        DigestPlace::Table(digest.table(level)?.finish(&mut out, digest_start)?)
    };
    let origins_start = digest.table().map_or(digest_start, |table| digest_start.max(table.range().end));
    let origins = write_origins(&mut out, origins_start, id, &arranged.order, writer)?;
    let length = |range: ByteRange| range.end - range.start;
    required |= if has_lengths { footer::TEXT_LENGTHS } else { 0 };
    required |= if has_streams { footer::PAGE_STREAMS } else { 0 };
    required |= if origins.is_some() { footer::ORIGINS } else { 0 };
    required |= if arranged.nanos.is_empty() { 0 } else { footer::NANOS };
    required |= if arranged.identified.is_empty() { 0 } else { footer::CLIENT_IDS };
    let mut own = Vec::new();
    let mut parts = PartBytes { columns: further_bytes, ..PartBytes::default() };
    for chunk in chunks {
        let bytes = chunk.bytes();
        *(if chunk.kind == ColumnKind::Source { &mut parts.source } else { &mut parts.columns }) += bytes;
        match chunk.kind {
            ColumnKind::Field { field, .. } | ColumnKind::FieldNanos { field, .. } => {
                fields[usize::from(field)].chunks.push(chunk)
            }
            _ => own.push(chunk),
        }
    }
    let parts = PartBytes {
        text_dictionary: length(text.range()),
        exact_dictionary: length(exact.range()),
        pairs: length(pairs.range()),
        postings: length(lists.clone()),
        digest: digest.table().map_or(0, |table| length(table.range())),
        origins: origins.as_ref().and_then(OriginsPlace::table).map_or(0, |table| length(table.range())),
        ..parts
    };
    let contents = Contents {
        id,
        required,
        rows,
        rows_without_time,
        times: arranged.times.first().copied().zip(arranged.times.last().copied()),
        own,
        groups,
        fields,
        text: Dictionary::new(text, lists.clone(), rows, text_entries),
        exact: Dictionary::new(exact, lists.clone(), rows, exact_entries),
        pairs: Dictionary::new(pairs, lists.clone(), rows, Entries::WithoutHeads),
        digest,
        origins,
        lists,
    };
    Ok((contents, parts))
}

/// Adds the identities that clients gave to the exact dictionary.
fn add_ids<W: Write>(
    index: &mut IndexWriter<'_, W>,
    chunks: &[Chunk],
    arranged: &Arranged,
    writer: &SplitWriter,
) -> Result<()> {
    let mut values = Values::default();
    let ids = arranged.identified.iter().filter_map(|row| {
        let held = writer.identities.get(arranged.order[*row as usize])?;
        Some(writer.identities.id(held))
    });
    let mut numbers: Vec<u32> = ids.map(|id| values.intern(0, &Value::Text(id))).collect();
    let mut place_of = vec![u32::MAX; values.len()];
    let distinct = number_distinct(&mut numbers, &values, ValueType::Text, &mut place_of);
    let largest = chunks.iter().filter(|chunk| chunk.kind == ColumnKind::Id).map(largest_read).max();
    index.add_ids(&ReadingRows {
        field: ID_FIELD_NUMBER,
        ty: ValueType::Text,
        rows: &arranged.identified,
        numbers: &numbers,
        distinct: &distinct,
        values: &values,
        can_be_verified: largest.unwrap_or(0) <= VERIFIED_BYTES_MAX,
        is_indexed: true,
        has_pairs: false,
        column_bytes: None,
    })
}

/// The origins of rows in this order, at byte `start` of the file; none where all land here first.
fn write_origins(
    out: &mut impl Write,
    start: u64,
    split: SplitId,
    order: &[u32],
    writer: &SplitWriter,
) -> Result<Option<OriginsPlace>> {
    let WriterOptions { version, zstd_level, hot_footer_bytes_max, .. } = writer.options;
    if writer.origins.splits().is_empty() || version == 2 {
        return Ok(None);
    }
    let origin = |(row, place): (u32, &u32)| writer.origins.get(*place).unwrap_or(Origin { split, row });
    let origins = OriginsWriter::new((0..).zip(order).map(origin));
    if let Some(block) = origins.block() {
        let packed = zstd::bulk::compress(&block, zstd_level).map_err(cannot_write)?;
        if packed.len() <= hot_footer_bytes_max / 4 {
            return Ok(Some(OriginsPlace::Footer { packed, raw_bytes: block.len() }));
        }
    }
    Ok(Some(OriginsPlace::Table(origins.table(zstd_level)?.finish(out, start)?)))
}

/// At most how many bytes are read for the value of one row of a field: a dictionary page and a page of each column.
fn bytes_of_a_value(chunks: &[Chunk], field: u16, dynamic: bool) -> u64 {
    let has_values = |chunk: &&Chunk| match chunk.kind {
        ColumnKind::Field { field: of, .. } => of == field,
        ColumnKind::Dynamic { .. } => dynamic,
        _ => false,
    };
    chunks.iter().filter(has_values).map(largest_read).sum()
}

/// At most how many bytes are read for one row of a column.
fn largest_read(chunk: &Chunk) -> u64 {
    let pages = chunk.pages.iter().map(|page| u64::from(page.bytes));
    chunk.dictionary_bytes() + pages.max().unwrap_or(0)
}

/// Whether a phrase in a field is worth not to be read for in its texts: they are many, and in no dictionary page.
fn has_pairs(chunks: &[Chunk], field: u16, options: &WriterOptions) -> bool {
    let of_field = |chunk: &&Chunk| matches!(chunk.kind, ColumnKind::Field { field: of, .. } if of == field);
    let mut bytes = 0;
    for chunk in chunks.iter().filter(of_field) {
        if chunk.dictionary.is_some() {
            return false;
        }
        bytes += chunk.bytes();
    }
    bytes > options.pairs_column_bytes_min
}

/// What the columns of a field take, if there are any and all of them have dictionaries.
fn dictionary_column_bytes(chunks: &[Chunk], field: u16) -> Option<u64> {
    let of_field = |chunk: &&Chunk| matches!(chunk.kind, ColumnKind::Field { field: of, .. } if of == field);
    let bytes = |chunk: &Chunk| chunk.dictionary.as_ref().map(|_| chunk.bytes());
    let bytes: Option<Vec<u64>> = chunks.iter().filter(of_field).map(bytes).collect();
    bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| bytes.iter().sum())
}

/// The end of a file, after its row group.
struct FileEnd<'a, 'b, W: Write + Send>(&'a mut File<'b, W>);

impl<W: Write + Send> Write for FileEnd<'_, '_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn numbers_of(reading: &ReadingRows<'_>) -> Option<NumberFacts> {
    let (first, last) = (*reading.distinct.first()?, *reading.distinct.last()?);
    let bits = |number: u32| reading.values.bits(reading.distinct[number as usize]);
    let count = reading.numbers.len() as u64;
    let ends = (reading.values.bits(first), reading.values.bits(last));
    let (numbers, squares) = match reading.ty {
        ValueType::Long => {
            let all = || reading.numbers.iter().map(|number| i128::from(bits(*number) as i64));
            let squares = all().fold(0, |sum: i128, number| sum.saturating_add(number * number));
            let (min, max) = (ends.0 as i64, ends.1 as i64);
            (Numbers::Long { count, min, max, sum: all().sum() }, Squares::Long(squares))
        }
        ValueType::Double => {
            let all = || reading.numbers.iter().map(|number| f64::from_bits(bits(*number)));
            let squares = all().map(|number| number * number).collect::<Doubles>().value();
            let (min, max) = (f64::from_bits(ends.0), f64::from_bits(ends.1));
            (
                Numbers::Double { count, min, max, sum: all().collect::<Doubles>().value() },
                Squares::Double(squares),
            )
        }
        _ => return None,
    };
    let distribution = (count >= DISTRIBUTION_COUNT_MIN).then(|| {
        let mut counts = vec![0; reading.distinct.len()];
        reading.numbers.iter().for_each(|number| counts[*number as usize] += 1);
        let number = |value: u64| match reading.ty {
            ValueType::Long => value as i64 as f64,
            _ => f64::from_bits(value),
        };
        let numbers = reading.distinct.iter().map(|value| number(reading.values.bits(*value)));
        Distribution::of(numbers.zip(counts))
    });
    Some(NumberFacts { numbers, squares, distribution })
}

/// The value counts of a reading that has few values and never two in a row.
fn value_counts<W: Write>(
    rows: &ReadingRows<'_>,
    reading: &ArrangedReading,
    index: &IndexWriter<'_, W>,
    times: &[i64],
    buckets: usize,
) -> Option<ValueCounts> {
    let counted = !matches!(reading.ty, ValueType::Double | ValueType::Big | ValueType::Date);
    if !counted || reading.has_list || reading.distinct.len() > VALUES_MAX {
        return None;
    }
    let bucketed = reading.distinct.len() * buckets <= CELLS_MAX;
    let values = reading.distinct.iter().enumerate().map(|(number, value)| {
        let value = match rows.values.value(*value, reading.ty) {
            Value::Boolean(truth) => DigestValue::Boolean(truth),
            Value::Long(number) => DigestValue::Long(number),
            other => DigestValue::Text(dynamic::value_text(&other)),
        };
        let rows = index.rows_of_value(number);
        let timed = rows.iter().filter(|_| bucketed).filter_map(|row| times.get(*row as usize));
        ValueCount {
            value,
            rows: rows.len() as u32,
            buckets: count_by(timed.map(|time| time.div_euclid(BUCKET_US))),
        }
    });
    let values = values.collect();
    Some(ValueCounts { values, bucketed })
}
