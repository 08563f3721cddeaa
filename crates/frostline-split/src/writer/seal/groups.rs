//! Writes row groups with all that their documents are made from, instead of `_source`.
//!
//! A row group packs to a size that is read for one document. What the columns of a group say of a document is
//! checked here: it is rendered from what is about to be stored, and stored whole if that gives other bytes.
//!
//! A column of which a scan would read little in each row group, and one that a dictionary makes smaller, is stored
//! once more, in one piece after the groups. Of the others, a scan reads the pages in the groups, which have no
//! dictionary then.

use std::collections::HashMap;
use std::ops::Range;

use super::*;
use crate::bytes_codec::checksum;
use crate::document::{Document, parse_document};
use crate::documents::{GROUP_SOURCE_BYTES_MAX, GroupColumn, write_directory};
use crate::footer::{PageBounds, RowGroup};
use crate::render::{Parts, Row, Shape, Shaper};
use crate::values::Moment;
use crate::writer::DocumentForm;
use crate::writer::chunk::EncodedChunk;

/// What one read for a document should take.
const GROUP_BYTES: usize = 224 << 10;
/// What it takes at most, unless a group has one row.
const GROUP_BYTES_MAX: usize = 256 << 10;
/// Columns are also stored once more where pages without a dictionary take over so many percent of those with one.
const PLAIN_PERCENT_MAX: usize = 125;
/// About what the Parquet footer says of one column of a row group.
const DESCRIBED_BYTES: usize = 120;
/// Documents are rendered if that leaves at most so many percent of what they and their columns take.
const RENDERED_PERCENT_MAX: usize = 85;
/// Splits of fewer rows have their documents stored: there is little to save.
const ROWS_MIN: usize = 4_096;
/// Shapes that were read are kept as long as they take no more memory.
const SHAPES_BYTES_MAX: usize = 8 << 20;

/// What is written instead of `_source`.
pub(super) struct Plan {
    pub(super) columns: Vec<Column>,
    /// Which of them are stored once more.
    copied: Vec<bool>,
}

/// What is written of the row groups.
pub(super) struct Written {
    pub(super) chunks: Vec<Chunk>,
    pub(super) stats: Vec<ColumnStats>,
    pub(super) groups: Vec<RowGroup>,
    /// Whether some column has the lengths of its texts before them.
    pub(super) has_lengths: bool,
    /// Whether some copy has pages in streams.
    pub(super) has_streams: bool,
    /// What the row groups take beside these chunks.
    pub(super) further_bytes: u64,
}

/// Whether the documents are rendered, by what some of them take; `stored` are the columns if they are not.
pub(super) fn plan(stored: &[Column], arranged: &Arranged, writer: &SplitWriter) -> Result<Option<Plan>> {
    let form = writer.options.documents;
    let rows = arranged.order.len();
    let chosen = match form {
        DocumentForm::Stored => false,
        DocumentForm::Rendered => rows > 0,
        DocumentForm::Smaller => rows >= ROWS_MIN,
    };
    if !chosen || writer.options.version < 3 {
        return Ok(None);
    }
    let own = |kind| Column { name: footer::own_name(kind).to_owned(), kind };
    let fields = stored.iter().filter(|column| column.kind != ColumnKind::Source).cloned();
    let parts = [ColumnKind::Shape, ColumnKind::Residual, ColumnKind::Raw].map(own);
    let columns: Vec<Column> = fields.chain(parts).collect();
    let mut groups = GroupWriter::new(&columns, vec![true; columns.len()], arranged, writer)?;
    let (mut sizes, mut plain) = (vec![0; columns.len()], vec![0; columns.len()]);
    let rows_max = writer.options.group_rows_max.max(1);
    let starts = [0, rows.saturating_sub(rows_max) / 2];
    let samples = if rows > 2 * rows_max { &starts[..] } else { &starts[..1] };
    let (fields, mut copied) = (columns.len() - 3, vec![false; columns.len()]);
    let (mut source_bytes, mut of_columns, mut groups_count) = (0, 0, 0);
    for start in samples {
        let sample = groups.limit(*start..rows.min(start + rows_max));
        source_bytes += stored_bytes(&sample, arranged, writer)?;
        let (mut group, mut documents) = (sample.clone(), groups.take_apart(&sample)?);
        let mut with_dictionaries = groups.encode(&group, &documents, 0)?;
        of_columns += with_dictionaries[..fields].iter().map(|chunk| chunk.bytes.len()).sum::<usize>();
        // Of wide documents a group has few, and each column of it costs the same however few they are.
        while let Some(fewer) = shortened(&group, packed_bytes(&with_dictionaries)) {
            group = fewer;
            documents = groups.take_apart(&group)?;
            with_dictionaries = groups.encode(&group, &documents, 0)?;
        }
        groups.copied.iter_mut().for_each(|copied| *copied = !*copied);
        let without = groups.encode(&group, &documents, 0)?;
        groups.copied.iter_mut().for_each(|copied| *copied = !*copied);
        for (sizes, chunks) in [(&mut sizes, with_dictionaries), (&mut plain, without)] {
            for (size, chunk) in sizes.iter_mut().zip(chunks) {
                *size += chunk.bytes.len() * sample.len() / group.len();
            }
        }
        groups_count += sample.len().div_ceil(group.len());
    }
    let mut rendered = DESCRIBED_BYTES * columns.len() * groups_count + sizes[fields..].iter().sum::<usize>();
    for ((column, copied), (size, plain)) in
        columns.iter().zip(&mut copied).zip(sizes.iter().zip(&plain)).take(fields)
    {
        let is_scanned = match column.kind {
            ColumnKind::Field { field, .. } | ColumnKind::FieldNanos { field, .. } => {
                let mapped = writer.mapping.field(&arranged.readings[usize::from(field)].path);
                !mapped.is_some_and(Field::is_without_doc_values)
            }
            _ => true,
        };
        // Times are asked for by most questions.
        *copied = column.kind == ColumnKind::Time
            || is_scanned && *plain < writer.options.scanned_bytes_min * groups_count
            || plain * 100 > size * PLAIN_PERCENT_MAX;
        rendered += if *copied { 2 * size } else { *plain };
    }
    let pays = rendered * 100 <= (source_bytes + of_columns) * RENDERED_PERCENT_MAX;
    Ok((pays || form == DocumentForm::Rendered).then_some(Plan { columns, copied }))
}

fn packed_bytes(chunks: &[EncodedChunk]) -> usize {
    chunks.iter().map(|chunk| chunk.bytes.len()).sum()
}

/// The first rows of a group that packs to so many bytes, if that is more than one read should take.
fn shortened(group: &Range<usize>, bytes: usize) -> Option<Range<usize>> {
    let fewer = || (group.len() * GROUP_BYTES / bytes).clamp(1, group.len() - 1);
    (bytes > GROUP_BYTES_MAX && group.len() > 1).then(|| group.start..group.start + fewer())
}

/// What the documents of some rows take where they are stored.
fn stored_bytes(rows: &Range<usize>, arranged: &Arranged, writer: &SplitWriter) -> Result<usize> {
    let column = Column { name: SOURCE_COLUMN.to_owned(), kind: ColumnKind::Source };
    let schema = parquet_schema(std::slice::from_ref(&column))?;
    let descriptor = schema.columns().first().ok_or_else(|| Error::internal("a schema has no column"))?;
    let every: Vec<u32> = (0..rows.len() as u32).collect();
    let cells = SourceCells { writer, order: &arranged.order[rows.clone()] };
    let input = ColumnInput {
        name: column.name,
        kind: column.kind,
        split_rows: rows.len() as u32,
        rows: &every,
        numbers: &every,
        cells: &cells,
        distinct: None,
        page_bytes_max: Some(writer.options.source_page_bytes.saturating_sub(64)),
    };
    let encoded =
        ChunkEncoder::new(writer.options.source_zstd_level, false)?.encode(&input, descriptor, 0)?;
    Ok(encoded.bytes.len())
}

/// Writes all row groups, then the columns that are stored once more.
pub(super) fn write<W: Write + Send>(
    file: &mut File<'_, W>,
    plan: &Plan,
    arranged: &Arranged,
    writer: &SplitWriter,
) -> Result<Written> {
    let mut groups = GroupWriter::new(&plan.columns, plan.copied.clone(), arranged, writer)?;
    let rows_max = writer.options.group_rows_max.max(1);
    let (mut start, mut rows_next, mut at) = (0, rows_max, MAGIC_BYTES);
    let rows = arranged.order.len();
    let mut scans: Vec<Scan> = plan.columns.iter().map(|_| Scan::default()).collect();
    let mut written = Written {
        chunks: Vec::new(),
        stats: Vec::new(),
        groups: Vec::new(),
        has_lengths: false,
        has_streams: false,
        further_bytes: 0,
    };
    while start < rows {
        let mut group = groups.limit(start..rows.min(start + rows_next));
        let (chunks, bytes) = loop {
            let documents = groups.take_apart(&group)?;
            let chunks = groups.encode(&group, &documents, at)?;
            let bytes = packed_bytes(&chunks);
            match shortened(&group, bytes) {
                Some(fewer) => group = fewer,
                None => break (chunks, bytes),
            }
        };
        rows_next = (group.len() * GROUP_BYTES / bytes.max(1)).clamp(1, rows_max);
        let directory = groups.directory(&chunks);
        let mut out = file.next_row_group().map_err(internal)?;
        let mut whole = Vec::with_capacity(bytes + directory.len());
        for (scan, encoded) in scans.iter_mut().zip(chunks) {
            scan.add(&encoded);
            written.has_lengths |= encoded.chunk.has_lengths;
            let mut close = encoded.close;
            (close.column_index, close.offset_index) = (None, None);
            out.append_column(&encoded.bytes, close).map_err(internal)?;
            whole.extend_from_slice(&encoded.bytes);
        }
        out.close().map_err(internal)?;
        file.write_all(&directory).map_err(cannot_write)?;
        whole.extend_from_slice(&directory);
        let end = at + whole.len() as u64;
        written.groups.push(RowGroup {
            rows: group.start as u32..group.end as u32,
            range: at..end,
            directory_bytes: directory.len() as u32,
            checksum: checksum(&whole),
        });
        (at, start) = (end, group.end);
    }
    let mut further = at - MAGIC_BYTES;
    // Row groups follow each other from the beginning of the file.
    leave_empty(file, writer.options.empty_bytes)?;
    let mut copies = ColumnsWriter::of_copies(arranged, writer, file.bytes_written() as u64)?;
    for ((column, scan), (descriptor, copied)) in
        plan.columns.iter().zip(scans).zip(groups.descriptors.iter().zip(&plan.copied))
    {
        if matches!(column.kind, ColumnKind::Shape | ColumnKind::Residual | ColumnKind::Raw) {
            continue;
        }
        copies.keep_stats(column, scan.bounds_of_all, scan.nulls);
        if *copied {
            let encoded = copies.encode(column, descriptor)?;
            file.write_all(&encoded.bytes).map_err(cannot_write)?;
            copies.at += encoded.bytes.len() as u64;
            written.has_lengths |= encoded.chunk.has_lengths;
            written.has_streams |= encoded.chunk.has_streams;
            copies.chunks.push(encoded.chunk);
        } else {
            let chunk = scan.chunk(column);
            further -= chunk.bytes();
            copies.chunks.push(chunk);
        }
    }
    (written.chunks, written.stats, written.further_bytes) = (copies.chunks, copies.stats, further);
    Ok(written)
}

/// A column over all row groups.
#[derive(Default)]
struct Scan {
    offset: u64,
    end: u64,
    row: u32,
    has_lengths: bool,
    pages: Vec<footer::Page>,
    bounds: Vec<PageBounds>,
    bounds_of_all: Option<footer::Bounds>,
    nulls: u64,
}

impl Scan {
    fn add(&mut self, encoded: &EncodedChunk) {
        let chunk = &encoded.chunk;
        let mut skip = chunk.offset + chunk.dictionary_bytes() - self.end;
        if self.pages.is_empty() {
            (self.offset, skip) = (chunk.offset, 0);
        }
        for page in &chunk.pages {
            self.pages.push(footer::Page { skip, ..page.clone() });
            skip = 0;
        }
        let shifted = |rows: &Range<u32>| rows.start + self.row..rows.end + self.row;
        let bounds = chunk.bounds.iter();
        self.bounds.extend(bounds.map(|page| PageBounds { rows: shifted(&page.rows), values: page.values }));
        self.has_lengths |= chunk.has_lengths;
        self.row += chunk.pages.iter().map(|page| page.rows).sum::<u32>();
        self.end = chunk.range().end;
        self.nulls += encoded.nulls;
        self.bounds_of_all = match (self.bounds_of_all, encoded.bounds) {
            (Some(all), Some(group)) => Some(all.cover(group)),
            (all, group) => all.or(group),
        };
    }

    fn chunk(self, column: &Column) -> Chunk {
        let (name, kind) = (column.name.clone(), column.kind);
        let Scan { offset, has_lengths, pages, bounds, .. } = self;
        Chunk { name, kind, offset, dictionary: None, has_lengths, has_streams: false, pages, bounds }
    }
}

/// The documents of some rows, taken apart; rows are counted in the group.
#[derive(Default)]
struct TakenApart {
    /// The distinct shapes, ascending, and the place among them of each row that has one.
    shapes: Vec<Vec<u8>>,
    shape_rows: Vec<u32>,
    shape_numbers: Vec<u32>,
    literals: Vec<Vec<u8>>,
    literal_rows: Vec<u32>,
    raw_rows: Vec<u32>,
}

struct GroupWriter<'a> {
    columns: &'a [Column],
    descriptors: Vec<ColumnDescPtr>,
    copied: Vec<bool>,
    arranged: &'a Arranged,
    writer: &'a SplitWriter,
    dynamic: (Vec<u32>, DynamicCells),
    encoder: ChunkEncoder,
    document: Document,
    shaper: Shaper,
    readings: HashMap<(&'a str, ValueType), usize>,
    /// Shapes that were read, and the arranged reading of each of their readings.
    shapes: HashMap<Vec<u8>, (Shape, Vec<Option<usize>>)>,
    shapes_bytes: usize,
    /// Where the next value of each reading is.
    next: Vec<usize>,
}

impl<'a> GroupWriter<'a> {
    fn new(
        columns: &'a [Column],
        copied: Vec<bool>,
        arranged: &'a Arranged,
        writer: &'a SplitWriter,
    ) -> Result<GroupWriter<'a>> {
        let readings = arranged.readings.iter().enumerate();
        Ok(GroupWriter {
            columns,
            descriptors: parquet_schema(columns)?.columns().to_vec(),
            copied,
            arranged,
            writer,
            dynamic: dynamic_cells(arranged, &writer.values),
            encoder: ChunkEncoder::new(writer.options.column_zstd_level, true)?,
            document: Document::new(),
            shaper: Shaper::default(),
            readings: readings.map(|(at, reading)| ((&*reading.path, reading.ty), at)).collect(),
            shapes: HashMap::new(),
            shapes_bytes: 0,
            next: Vec::new(),
        })
    }

    fn source(&self, row: usize) -> &'a [u8] {
        self.writer.source_of(&self.writer.rows[self.arranged.order[row] as usize])
    }

    /// As many of these rows, at least one, as a group may have by the bytes of their documents.
    fn limit(&self, rows: Range<usize>) -> Range<usize> {
        let mut bytes = 0;
        let fitting = rows.clone().take_while(|row| {
            bytes += self.source(*row).len();
            bytes <= GROUP_SOURCE_BYTES_MAX
        });
        rows.start..rows.start + fitting.count().max(1)
    }

    fn take_apart(&mut self, rows: &Range<usize>) -> Result<TakenApart> {
        let first = |reading: &ArrangedReading| {
            let of = &self.arranged.rows[reading.span.clone()];
            reading.span.start + of.partition_point(|row| (*row as usize) < rows.start)
        };
        self.next = self.arranged.readings.iter().map(first).collect();
        let (mut taken, mut parts, mut made) = (TakenApart::default(), Parts::default(), Vec::new());
        let mut places: HashMap<Vec<u8>, u32> = HashMap::new();
        for row in rows.clone() {
            let (local, source) = ((row - rows.start) as u32, self.source(row));
            if !self.can_render(row, source, &mut parts, &mut made)? {
                taken.raw_rows.push(local);
                continue;
            }
            let place = match places.get(&parts.shape) {
                Some(place) => *place,
                None => {
                    places.insert(parts.shape.clone(), taken.shapes.len() as u32);
                    taken.shapes.push(parts.shape.clone());
                    taken.shapes.len() as u32 - 1
                }
            };
            taken.shape_rows.push(local);
            taken.shape_numbers.push(place);
            taken.literal_rows.extend(parts.literals.iter().map(|_| local));
            taken.literals.extend(parts.literals.drain(..).map(String::into_bytes));
        }
        taken.sort_shapes();
        Ok(taken)
    }

    /// Takes a document apart, and says whether that and what is stored of the row give it back.
    fn can_render(
        &mut self,
        row: usize,
        source: &[u8],
        parts: &mut Parts,
        made: &mut Vec<u8>,
    ) -> Result<bool> {
        let limits = &self.writer.options.limits;
        parse_document(source, &self.writer.mapping, limits, &mut self.document)
            .map_err(|e| Error::internal("a document that was taken is refused").with_source(e))?;
        self.shaper.take_apart(source, &self.document, parts);
        if parts.literals.iter().map(String::len).sum::<usize>() * 2 > source.len() {
            return Ok(false);
        }
        if !self.shapes.contains_key(&parts.shape) {
            let Ok(shape) = Shape::read(&parts.shape) else { return Ok(false) };
            let readings = shape.readings().map(|reading| self.readings.get(&reading).copied()).collect();
            self.shapes_bytes += parts.shape.len() + shape.memory_bytes();
            if self.shapes_bytes > SHAPES_BYTES_MAX {
                self.shapes.clear();
                self.shapes_bytes = parts.shape.len() + shape.memory_bytes();
            }
            self.shapes.insert(parts.shape.clone(), (shape, readings));
        }
        let Some((shape, readings)) = self.shapes.get(&parts.shape) else { return Ok(false) };
        let mut row = ArrangedRow {
            row: row as u32,
            readings,
            arranged: self.arranged,
            values: &self.writer.values,
            next: &mut self.next,
            literals: parts.literals.iter(),
            text: String::new(),
        };
        made.clear();
        Ok(shape.render(&mut row, made).is_ok() && made.as_slice() == source)
    }

    /// The chunks of all columns for these rows, the first of them at byte `at`.
    fn encode(&mut self, rows: &Range<usize>, documents: &TakenApart, at: u64) -> Result<Vec<EncodedChunk>> {
        let (mut chunks, mut at) = (Vec::with_capacity(self.columns.len()), at);
        for number in 0..self.columns.len() {
            let encoded = self.encode_column(number, rows, documents, at)?;
            at += encoded.bytes.len() as u64;
            chunks.push(encoded);
        }
        Ok(chunks)
    }

    fn encode_column(
        &mut self,
        number: usize,
        group: &Range<usize>,
        documents: &TakenApart,
        at: u64,
    ) -> Result<EncodedChunk> {
        let (column, arranged) = (&self.columns[number], self.arranged);
        let inside = |rows: &[u32]| {
            let place = |end: usize| rows.partition_point(|row| (*row as usize) < end);
            place(group.start)..place(group.end)
        };
        let local = |rows: &[u32]| rows.iter().map(|row| row - group.start as u32).collect::<Vec<u32>>();
        let every = |count: usize| (0..count as u32).collect::<Vec<u32>>();
        let raw = |row: &u32| self.source(group.start + *row as usize).to_vec();
        let (texts, times, nanos, identities, values);
        let cells: &dyn Cells;
        let (rows, numbers, mut distinct) = match column.kind {
            ColumnKind::Time | ColumnKind::Nanos => {
                let timed = group.start as u32..group.end.min(arranged.times.len()).max(group.start) as u32;
                cells = if column.kind == ColumnKind::Time {
                    times = TimeCells(&arranged.times);
                    &times
                } else {
                    nanos = NanosCells(&arranged.nanos);
                    &nanos
                };
                (every(timed.len()), timed.collect(), None)
            }
            ColumnKind::Id | ColumnKind::Version | ColumnKind::SeqNo => {
                let rows = &arranged.identified[inside(&arranged.identified)];
                identities = IdentityCells { kind: column.kind, writer: self.writer, order: &arranged.order };
                cells = &identities;
                (local(rows), rows.to_vec(), None)
            }
            ColumnKind::Dynamic { .. } => {
                let places = inside(&self.dynamic.0);
                cells = &self.dynamic.1;
                let numbers = (places.start as u32..places.end as u32).collect();
                (local(&self.dynamic.0[places]), numbers, None)
            }
            ColumnKind::Shape => {
                texts = DynamicCells(documents.shapes.clone());
                cells = &texts;
                let (rows, numbers) = (documents.shape_rows.clone(), documents.shape_numbers.clone());
                (rows, numbers, Some(documents.shapes.len()))
            }
            ColumnKind::Residual => {
                texts = DynamicCells(documents.literals.clone());
                cells = &texts;
                (documents.literal_rows.clone(), every(documents.literals.len()), None)
            }
            ColumnKind::Raw | ColumnKind::Source => {
                texts = DynamicCells(documents.raw_rows.iter().map(raw).collect());
                cells = &texts;
                (documents.raw_rows.clone(), every(documents.raw_rows.len()), None)
            }
            ColumnKind::Field { field, list, .. } | ColumnKind::FieldNanos { field, list } => {
                let reading = &arranged.readings[usize::from(field)];
                let span = inside(&arranged.rows[reading.span.clone()]);
                let span = reading.span.start + span.start..reading.span.start + span.end;
                let rows = local(&arranged.rows[span.clone()]);
                let (numbers, distinct) = reading.column_numbers(&arranged.numbers[span], column.kind);
                let both = reading.has_scalar && reading.has_list;
                let (rows, numbers) =
                    if both { rows_of_kind(&rows, &numbers, list) } else { (rows, numbers.into_owned()) };
                values = ReadingCells { values: &self.writer.values, distinct, kind: column.kind };
                cells = &values;
                (rows, numbers, None)
            }
        };
        // The values of a field are in order, and so are those that the group has.
        let is_field = matches!(column.kind, ColumnKind::Field { .. });
        let mut here = if is_field && self.copied[number] { numbers.clone() } else { Vec::new() };
        here.sort_unstable();
        here.dedup();
        let of_group = GroupCells { cells, numbers: &here };
        let mut numbers = numbers;
        let cells: &dyn Cells = if here.is_empty() { cells } else { &of_group };
        if !here.is_empty() {
            numbers.iter_mut().for_each(|n| *n = here.partition_point(|other| other < n) as u32);
            distinct = Some(here.len());
        }
        let input = ColumnInput {
            name: column.name.clone(),
            kind: column.kind,
            split_rows: group.len() as u32,
            rows: &rows,
            numbers: &numbers,
            cells,
            distinct,
            page_bytes_max: None,
        };
        self.encoder.encode(&input, &self.descriptors[number], at)
    }

    /// Where the columns of a group are, as far as they have a value.
    fn directory(&self, chunks: &[EncodedChunk]) -> Vec<u8> {
        let columns = self.columns.iter().zip(chunks).filter(|(_, encoded)| encoded.values > 0);
        let columns = columns.map(|(column, encoded)| {
            let reading = match column.kind {
                ColumnKind::Field { field, .. } | ColumnKind::FieldNanos { field, .. } => {
                    let reading = &self.arranged.readings[usize::from(field)];
                    Some((reading.path.to_string(), reading.ty))
                }
                _ => None,
            };
            // A document is made from all pages: nothing is asked of their bounds.
            GroupColumn { reading, chunk: Chunk { bounds: Vec::new(), ..encoded.chunk.clone() } }
        });
        write_directory(&columns.collect::<Vec<_>>())
    }
}

impl TakenApart {
    fn sort_shapes(&mut self) {
        let mut order: Vec<u32> = (0..self.shapes.len() as u32).collect();
        order.sort_by(|a, b| self.shapes[*a as usize].cmp(&self.shapes[*b as usize]));
        let mut place_of = vec![0; order.len()];
        for (place, number) in order.iter().enumerate() {
            place_of[*number as usize] = place as u32;
        }
        self.shape_numbers.iter_mut().for_each(|number| *number = place_of[*number as usize]);
        self.shapes.sort();
    }
}

/// The values that a group has, by their place among these.
struct GroupCells<'a> {
    cells: &'a dyn Cells,
    numbers: &'a [u32],
}

impl Cells for GroupCells<'_> {
    fn bits(&self, number: u32) -> u64 {
        self.cells.bits(self.numbers[number as usize])
    }

    fn bytes(&self, number: u32) -> &[u8] {
        self.cells.bytes(self.numbers[number as usize])
    }
}

/// A row as the columns will have it.
struct ArrangedRow<'a> {
    row: u32,
    readings: &'a [Option<usize>],
    arranged: &'a Arranged,
    values: &'a Values,
    next: &'a mut [usize],
    literals: std::slice::Iter<'a, String>,
    /// Of a value in `_dynamic`.
    text: String,
}

impl Row for ArrangedRow<'_> {
    fn next_value(&mut self, reading: usize) -> Option<Value<'_>> {
        let number = (*self.readings.get(reading)?)?;
        let (reading, next) = (self.arranged.readings.get(number)?, self.next.get_mut(number)?);
        let rows = &self.arranged.rows[..reading.span.end];
        while rows.get(*next).is_some_and(|row| *row < self.row) {
            *next += 1;
        }
        let at = *next;
        rows.get(at).filter(|row| **row == self.row)?;
        *next += 1;
        let value = self.values.value(reading.distinct[self.arranged.numbers[at] as usize], reading.ty);
        if !reading.dynamic {
            return Some(value);
        }
        self.text = dynamic::value_text(&value);
        dynamic::read(&self.text, reading.ty)
    }

    fn time(&mut self) -> Option<Moment> {
        let row = self.row as usize;
        let time_us = *self.arranged.times.get(row)?;
        Some(Moment { time_us, nanos: self.arranged.nanos.get(row).copied().unwrap_or(0) })
    }

    fn next_literal(&mut self) -> Option<&str> {
        self.literals.next().map(String::as_str)
    }
}
