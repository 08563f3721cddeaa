//! Writes splits: collects documents, then seals them into one file.
//!
//! Documents are parsed once, when they are added. The writer keeps their bytes (which become
//! `_source`) and a list of value numbers; a repeated value is stored once. Sealing sorts the rows
//! by time, encodes one column after the other, then one index after the other, and streams to the
//! output. Only the end of the file is ever held in memory: hot footer, page index and Parquet footer.
//!
//! **Memory.** Before sealing: the documents' bytes, at most [`WriterOptions::source_bytes_max`] and
//! one document, plus 4 bytes for each value of each row, plus every distinct value once with 21 bytes
//! beside it. Sealing adds 8 bytes for each value of each row and the text dictionary (each distinct
//! token of each field once, with about 40 bytes and its short postings), plus, for one field at a
//! time, its column chunk and 8 bytes for each token of each of its distinct values.
//! [`SplitWriter::memory_bytes`] reports the first; [`SplitWriter::is_full`] says when to seal. The
//! measured peak is in `docs/format/split.md`.

use std::io::Write;
use std::sync::Arc;

use frostline_base::{ByteRange, Error, Result, SplitId};

use crate::document::{Document, Limits, Value, parse_document};
use crate::footer::{Bounds, FORMAT_VERSION};
use crate::identities::{Identity, KnownIdentities};
use crate::mapping::{Mapping, Placement, ValueType};
use crate::origins::{KnownOrigins, Origin};
use crate::postings::INLINE_BYTES_MAX;
use crate::term::TakeTerms;
use crate::values::Moment;
pub(crate) use crate::writer::encode::RleEncoder;
pub(crate) use crate::writer::index::Groups;
use crate::writer::values::{TEXT_BYTES_MAX, Values, type_of};

mod chunk;
mod encode;
mod index;
mod pairs;
mod seal;
mod terms;
mod values;

/// Rows without time sort after all others.
pub(crate) const NO_TIME: i64 = i64::MAX;

const SOURCE_CHUNK_BYTES: usize = 4 << 20;
/// A writer is full before field numbers run out.
const READINGS_FULL: usize = 50_000;
const NO_READING: u16 = u16::MAX;

/// How large a split becomes and how hard it is compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// What a document may be.
    pub limits: Limits,
    /// Full at this many rows.
    pub rows_max: u32,
    /// Full at this many bytes of documents.
    pub source_bytes_max: u64,
    /// Full at this many bytes of [`SplitWriter::memory_bytes`].
    pub memory_bytes_max: u64,
    /// Of dictionaries and the hot footer.
    pub zstd_level: i32,
    /// Of columns. Where a level above 3 saves less than 3 %, a column has level 3.
    pub column_zstd_level: i32,
    /// Of `_source`, likewise.
    pub source_zstd_level: i32,
    /// How documents are kept.
    pub documents: DocumentForm,
    /// Documents that are made again are in row groups of at most this many.
    pub group_rows_max: usize,
    /// Their columns are stored once more, for scans, where a scan would read fewer bytes of each row group.
    pub scanned_bytes_min: usize,
    /// A page of `_source` holds at most this many bytes before compression, or one document; fewer where these do
    /// not pack to 192 KiB.
    pub source_page_bytes: usize,
    /// A hot footer that would be larger leaves to other parts of the file what it can.
    pub hot_footer_bytes_max: usize,
    /// Pairs of frequent words are kept of the fields whose columns take more bytes.
    #[doc(hidden)]
    pub pairs_column_bytes_min: u64,
    /// Longer lists are not in the entries of dictionaries.
    #[doc(hidden)]
    pub list_inline_bytes_max: usize,
    /// Lists of a field are left to its columns where these have dictionaries and take at most so many bytes,
    #[doc(hidden)]
    pub list_column_bytes_max: u64,
    /// or the list takes at least this part of them.
    #[doc(hidden)]
    pub list_column_part: u64,
    /// Zeros before the columns, or after the row groups, for tests of what reads far into a file.
    #[doc(hidden)]
    pub empty_bytes: u64,
    /// The version of the format; 2 is for tests of what reads older splits.
    #[doc(hidden)]
    pub version: u32,
}

/// How a split keeps its documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DocumentForm {
    /// As they came, in the column `_source`, which other readers know.
    #[default]
    Stored,
    /// Made again from the columns, byte for byte.
    Rendered,
    /// Made again if that takes clearly less, else as they came.
    Smaller,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            limits: Limits::default(),
            rows_max: 1_000_000,
            source_bytes_max: 256 << 20,
            memory_bytes_max: 1 << 30,
            zstd_level: 3,
            column_zstd_level: 3,
            source_zstd_level: 3,
            documents: DocumentForm::Stored,
            // Of web logs, so many rows pack to what one read may take.
            group_rows_max: 4_096,
            // Storing 32 KiB for a month costs as much as 1.75 requests.
            scanned_bytes_min: 32 << 10,
            source_page_bytes: 1 << 20,
            hot_footer_bytes_max: 32 << 10,
            pairs_column_bytes_min: 192 << 10,
            list_inline_bytes_max: INLINE_BYTES_MAX,
            list_column_bytes_max: 128 << 10,
            list_column_part: 128,
            empty_bytes: 0,
            version: FORMAT_VERSION,
        }
    }
}

impl WriterOptions {
    /// For documents as they come, in small splits that are searched much and merged soon: a term is found in the
    /// dictionary alone, and a page has few documents. That takes more bytes, until they are merged.
    pub fn live() -> WriterOptions {
        WriterOptions {
            source_page_bytes: 128 << 10,
            list_inline_bytes_max: 1 << 10,
            list_column_bytes_max: 0,
            list_column_part: 0,
            ..WriterOptions::default()
        }
    }
}

/// What was written: what the catalog and Delta need to know of a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Sealed {
    /// The length of the file.
    pub bytes: u64,
    /// Where the hot footer is in it.
    pub footer: ByteRange,
    /// How many rows.
    pub rows: u32,
    /// How many of them have no time.
    pub rows_without_time: u32,
    /// First and last time, both inside. Further dates in the time field, which a document may have beside
    /// its time, are inside as well, so that no range of times that finds them passes the split over.
    pub times: Option<(i64, i64)>,
    /// The mapping as it became.
    pub mapping: Mapping,
    /// Of `_timestamp` and of the scalar columns of numbers, dates and booleans.
    pub column_stats: Vec<ColumnStats>,
    /// Bytes of the documents as they came.
    pub source_bytes: u64,
    /// About how much memory the documents took in the writer, without what was reserved for more of them.
    pub unpacked_bytes: u64,
    /// What the parts of the file take.
    pub parts: PartBytes,
    /// Which document each row is, counted in the order in which they were added.
    pub order: Vec<u32>,
}

/// What the parts of a split take, in bytes of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartBytes {
    /// The column `_source`.
    pub source: u64,
    /// All other columns, and the row groups of documents that are made again from them.
    pub columns: u64,
    /// The text dictionary.
    pub text_dictionary: u64,
    /// The exact dictionary.
    pub exact_dictionary: u64,
    /// Pairs of frequent words.
    pub pairs: u64,
    /// Postings outside the dictionaries.
    pub postings: u64,
    /// The hot footer, and what it leaves to other parts of the file.
    pub footer: u64,
    /// The digest.
    pub digest: u64,
    /// Where the documents of a merged split first landed.
    pub origins: u64,
    /// The Parquet footer and page index, for other readers, and the first bytes of the file.
    pub parquet_footer: u64,
}

impl PartBytes {
    /// The whole file.
    pub fn all(&self) -> u64 {
        self.source + self.columns + self.index() + self.origins + self.parquet_footer
    }

    /// Adds those of another split.
    pub fn add(&mut self, other: &PartBytes) {
        self.source += other.source;
        self.columns += other.columns;
        self.text_dictionary += other.text_dictionary;
        self.exact_dictionary += other.exact_dictionary;
        self.pairs += other.pairs;
        self.postings += other.postings;
        self.footer += other.footer;
        self.digest += other.digest;
        self.origins += other.origins;
        self.parquet_footer += other.parquet_footer;
    }

    /// Both dictionaries, pairs, postings and the hot footer: what searching needs beside the columns.
    pub fn index(&self) -> u64 {
        let dictionaries = self.text_dictionary + self.exact_dictionary + self.pairs;
        dictionaries + self.postings + self.footer + self.digest
    }
}

/// Statistics of one physical column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnStats {
    /// The column's physical name.
    pub name: String,
    /// Its smallest and largest value, both inside; `None` where all are null.
    pub bounds: Option<(StatValue, StatValue)>,
    /// How many rows are null.
    pub nulls: u64,
}

/// A value of [`ColumnStats`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StatValue {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Long(i64),
    /// Another number.
    Double(f64),
    /// Microseconds since 1970-01-01 UTC.
    Timestamp(i64),
}

/// Collects documents until they become a split.
pub struct SplitWriter {
    mapping: Mapping,
    options: WriterOptions,
    document: Document,
    readings: Vec<Reading>,
    /// The reading of each path of `document`, by type.
    reading_of: Vec<[u16; ValueType::ALL.len()]>,
    /// Of which kinds of values of each path the mapping knows what templates said, one bit for each.
    templated: Vec<u8>,
    touched: Vec<u16>,
    values: Values,
    source: Vec<Vec<u8>>,
    source_bytes: u64,
    rows: Vec<Row>,
    numbers: Vec<u32>,
    /// Where documents come from that did not land here first.
    origins: KnownOrigins,
    /// What clients call documents.
    identities: KnownIdentities,
    /// Some times are no whole microseconds.
    has_nanos: bool,
}

/// One reading of one field, as far as this split has it.
struct Reading {
    path: Arc<str>,
    ty: ValueType,
    dynamic: bool,
    scalar: bool,
    list: bool,
    /// Some of its dates are no whole microseconds.
    has_nanos: bool,
    /// How many values the document being added has.
    values_in_row: u32,
}

struct Row {
    time: i64,
    nanos: u16,
    source_chunk: u32,
    source_start: u32,
    source_bytes: u32,
    /// Where its numbers end.
    numbers_end: u32,
}

impl SplitWriter {
    /// A writer of documents of an index with this mapping.
    pub fn new(mapping: Mapping, options: WriterOptions) -> Self {
        SplitWriter {
            mapping,
            options,
            document: Document::new(),
            readings: Vec::new(),
            reading_of: Vec::new(),
            templated: Vec::new(),
            touched: Vec::new(),
            values: Values::default(),
            source: Vec::new(),
            source_bytes: 0,
            rows: Vec::new(),
            numbers: Vec::new(),
            origins: KnownOrigins::default(),
            identities: KnownIdentities::default(),
            has_nanos: false,
        }
    }

    /// Adds one JSON document. A refused document leaves the writer as it was. `Invalid` names what is
    /// wrong with the document; `Exhausted` says that the writer must be sealed first.
    pub fn add(&mut self, source: &[u8]) -> Result<()> {
        parse_document(source, &self.mapping, &self.options.limits, &mut self.document)?;
        self.add_parsed(source)
    }

    /// The same of a document as its author sends it, which is refused as well where it has a fault; with the identity that
    /// a client gave it, if any.
    pub fn add_new(&mut self, source: &[u8], identity: Option<&Identity>) -> Result<()> {
        identity.map_or(Ok(()), Identity::check)?;
        parse_document(source, &self.mapping, &self.options.limits, &mut self.document)?;
        self.document.check()?;
        let place = self.rows.len();
        self.add_parsed(source)?;
        if let Some(identity) = identity {
            self.identify(place, identity);
        }
        Ok(())
    }

    fn add_parsed(&mut self, source: &[u8]) -> Result<()> {
        self.check_room(source)?;
        self.reading_of.resize(self.document.path_count(), [NO_READING; ValueType::ALL.len()]);
        self.templated.resize(self.document.path_count(), 0);
        self.add_values()?;
        self.place_readings();
        for path in self.document.several_ranges() {
            self.mapping.note_several_ranges(path);
        }
        let (source_chunk, source_start) = self.keep_source(source);
        let time = self.document.time;
        let nanos = time.map_or(0, |time| time.nanos);
        if nanos > 0 && !std::mem::replace(&mut self.has_nanos, true) {
            self.mapping.note_nanos();
        }
        self.rows.push(Row {
            time: time.map_or(NO_TIME, |time| time.time_us),
            nanos,
            source_chunk,
            source_start,
            source_bytes: source.len() as u32,
            numbers_end: self.numbers.len() as u32,
        });
        Ok(())
    }

    /// Adds one JSON document that first landed elsewhere, likewise.
    pub fn add_of(&mut self, source: &[u8], origin: Origin) -> Result<()> {
        let place = self.rows.len();
        self.add(source)?;
        self.origins.set(place, origin);
        Ok(())
    }

    /// Adds one JSON document that a client gave this identity, likewise.
    pub fn add_identified(&mut self, source: &[u8], identity: &Identity) -> Result<()> {
        identity.check()?;
        let place = self.rows.len();
        self.add(source)?;
        self.identify(place, identity);
        Ok(())
    }

    fn identify(&mut self, place: usize, identity: &Identity) {
        if self.identities.is_empty() {
            self.mapping.note_identities();
        }
        self.identities.set(place, identity);
    }

    /// How many documents there are.
    pub fn rows(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Bytes of the documents as they came.
    pub fn source_bytes(&self) -> u64 {
        self.source_bytes
    }

    /// About how much memory is held.
    pub fn memory_bytes(&self) -> u64 {
        let source = self.source.iter().map(Vec::capacity).sum::<usize>();
        let rows = self.rows.capacity() * size_of::<Row>() + self.numbers.capacity() * 4;
        (source
            + rows
            + self.origins.memory_bytes()
            + self.identities.memory_bytes()
            + self.document.memory_bytes()) as u64
            + self.fields_bytes()
    }

    /// What the documents so far take of that.
    fn unpacked_bytes(&self) -> u64 {
        let rows = self.rows.len() * size_of::<Row>() + self.numbers.len() * 4;
        self.source_bytes + rows as u64 + self.fields_bytes()
    }

    fn fields_bytes(&self) -> u64 {
        let fields = self.readings.capacity() * 96 + self.reading_of.capacity() * 13;
        (fields + self.values.memory_bytes()) as u64
    }

    /// Whether it is time to seal.
    pub fn is_full(&self) -> bool {
        self.rows.len() >= self.options.rows_max as usize
            || self.source_bytes >= self.options.source_bytes_max
            || self.memory_bytes() >= self.options.memory_bytes_max
            || self.readings.len() >= READINGS_FULL
            || self.numbers.len() >= 1 << 31
    }

    /// The mapping as the documents so far made it.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Writes the split with this identity. `Invalid` where there is no document, `Unavailable` where `out` fails.
    pub fn seal(self, id: SplitId, out: &mut (impl Write + Send)) -> Result<Sealed> {
        self.seal_with(id, out, None)
    }

    /// The same, and hands the terms of all values and of `_id`s to `terms`.
    pub fn seal_with_terms(
        self,
        id: SplitId,
        out: &mut (impl Write + Send),
        terms: &mut dyn TakeTerms,
    ) -> Result<Sealed> {
        self.seal_with(id, out, Some(terms))
    }

    fn seal_with(
        self,
        id: SplitId,
        out: &mut (impl Write + Send),
        terms: Option<&mut dyn TakeTerms>,
    ) -> Result<Sealed> {
        if self.rows.is_empty() {
            return Err(Error::invalid("a split without documents cannot be written"));
        }
        let terms = match terms {
            Some(terms) => {
                self.id_terms(terms);
                Some(terms)
            }
            None => None,
        };
        seal::seal(self, id, out, terms)
    }

    fn check_room(&self, source: &[u8]) -> Result<()> {
        let values = self.document.values().len();
        let has_room = self.readings.len() + values < usize::from(NO_READING)
            || self.new_readings() + self.readings.len() < usize::from(NO_READING);
        if !has_room
            || self.numbers.len() + values >= u32::MAX as usize
            || self.values.len() + values >= u32::MAX as usize
        {
            return Err(Error::exhausted("the split has no room for another document: seal it first"));
        }
        if source.len() > TEXT_BYTES_MAX + 1 {
            return Err(Error::invalid(format!("the document has {} bytes, over 16 MiB", source.len())));
        }
        Ok(())
    }

    /// How many readings the document has that no document before it had.
    fn new_readings(&self) -> usize {
        let unknown = |path: u32, ty: ValueType| {
            self.reading_of.get(path as usize).is_none_or(|types| types[ty as usize] == NO_READING)
        };
        let all = self.document.values().map(|(path, value)| (path.0, type_of(&value)));
        all.filter(|(path, ty)| unknown(*path, *ty)).collect::<std::collections::HashSet<_>>().len()
    }

    fn add_values(&mut self) -> Result<()> {
        self.touched.clear();
        for ((path, value), kind) in self.document.values().zip(self.document.kinds()) {
            if let Some(kind) = kind
                && self.templated[path.0 as usize] & 1 << kind as u8 == 0
            {
                self.templated[path.0 as usize] |= 1 << kind as u8;
                let said = self.document.templated(path, kind);
                self.mapping.note_templated(self.document.path(path), kind, said);
            }
            let value = match value {
                // Version 2 has no nanoseconds.
                Value::Date(moment) if self.options.version == 2 => {
                    Value::Date(Moment::of_us(moment.time_us))
                }
                other => other,
            };
            let slots = &mut self.reading_of[path.0 as usize];
            let slot = &mut slots[type_of(&value) as usize];
            if *slot == NO_READING {
                *slot = self.readings.len() as u16;
                let text = self.document.path(path);
                self.mapping.note_objects_above(text);
                let path = text.into();
                let (dynamic, scalar, list, has_nanos) = (false, false, false, false);
                self.readings.push(Reading {
                    path,
                    ty: type_of(&value),
                    dynamic,
                    scalar,
                    list,
                    has_nanos,
                    values_in_row: 0,
                });
            }
            let slot = *slot;
            let reading = &mut self.readings[usize::from(slot)];
            reading.values_in_row += 1;
            if reading.values_in_row == 1 {
                self.touched.push(slot);
                let in_row = |slot: &u16| {
                    self.readings.get(usize::from(*slot)).is_some_and(|reading| reading.values_in_row > 0)
                };
                if slots.iter().filter(|slot| in_row(slot)).count() > 1 {
                    self.mapping.note_mixed_list(&self.readings[usize::from(slot)].path);
                }
            }
            if matches!(value, Value::Date(Moment { nanos: 1.., .. }))
                && !std::mem::replace(&mut self.readings[usize::from(slot)].has_nanos, true)
            {
                self.mapping.note_nanos_of(&self.readings[usize::from(slot)].path);
            }
            self.numbers.push(self.values.intern(slot, &value));
        }
        Ok(())
    }

    /// Tells the mapping of readings that became scalar or list with this document.
    fn place_readings(&mut self) {
        for number in &self.touched {
            let reading = &mut self.readings[usize::from(*number)];
            let list = std::mem::take(&mut reading.values_in_row) > 1;
            let known = if list { &mut reading.list } else { &mut reading.scalar };
            if !std::mem::replace(known, true) {
                reading.dynamic = self.mapping.place(&reading.path, reading.ty, list) == Placement::Dynamic;
            }
        }
    }

    /// Copies the document's bytes to where they stay; says where.
    fn keep_source(&mut self, source: &[u8]) -> (u32, u32) {
        let fits = self.source.last().is_some_and(|chunk| chunk.len() + source.len() <= chunk.capacity());
        if !fits {
            self.source.push(Vec::with_capacity(source.len().max(SOURCE_CHUNK_BYTES)));
        }
        self.source_bytes += source.len() as u64;
        let number = self.source.len().saturating_sub(1);
        let start = self.source.last_mut().map_or(0, |chunk| {
            chunk.extend_from_slice(source);
            chunk.len() - source.len()
        });
        (number as u32, start as u32)
    }

    fn source_of(&self, row: &Row) -> &[u8] {
        let start = row.source_start as usize;
        &self.source[row.source_chunk as usize][start..start + row.source_bytes as usize]
    }
}

impl std::fmt::Debug for SplitWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SplitWriter").field("rows", &self.rows()).finish_non_exhaustive()
    }
}

/// Bounds as statistics of a column of `ty`.
fn stat_values(ty: ValueType, bounds: Bounds) -> (StatValue, StatValue) {
    match (ty, bounds) {
        (ValueType::Boolean, Bounds::Long(min, max)) => {
            (StatValue::Boolean(min != 0), StatValue::Boolean(max != 0))
        }
        (ValueType::Date, Bounds::Long(min, max)) => (StatValue::Timestamp(min), StatValue::Timestamp(max)),
        (_, Bounds::Long(min, max)) => (StatValue::Long(min), StatValue::Long(max)),
        (_, Bounds::Double(min, max)) => (StatValue::Double(min), StatValue::Double(max)),
    }
}

pub(crate) fn cannot_write(e: std::io::Error) -> Error {
    Error::unavailable("the split cannot be written").with_source(e)
}

#[cfg(test)]
mod tests;
