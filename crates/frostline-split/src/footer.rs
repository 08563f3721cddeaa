//! The hot footer: everything needed to open a split, in one range of the file.
//!
//! ```text
//! magic "FROSTHF1" | version u32 = 3 | required u64 | body packed u32 | body raw u32
//! body (zstd) | XXH3-64 of the file after the hot footer | XXH3-64 of all before
//! ```
//!
//! Integers of the frame are little-endian. `required` has a bit for each feature without which the split cannot
//! be read correctly; a reader refuses bits that it does not know. Unknown bytes at the end of the body are ignored,
//! and so are tables and parts of a kind that a reader does not know.
//!
//! What does not fit is outside, and read when it is needed: blocks of [fields](crate::fields), the indexes of
//! [tables](crate::table), and the pages of `_source` and `_dynamic`. [`version_2`] has the older forms.

mod body;
pub(crate) mod version_2;

use std::ops::Range;

use std::sync::{Arc, OnceLock};

use frostline_base::{ByteRange, Error, Result, SplitId};
use xxhash_rust::xxh3::xxh3_64;

use crate::bytes_codec::{Cursor, put_varint};
use crate::dictionary::Dictionary;
use crate::digest::Digest;
use crate::fields::FieldTable;
use crate::mapping::{
    DYNAMIC_COLUMN, ID_COLUMN, NANOS_COLUMN, RAW_COLUMN, RESIDUAL_COLUMN, SEQ_NO_COLUMN, SHAPE_COLUMN,
    SOURCE_COLUMN, TIME_COLUMN, VERSION_COLUMN, ValueType,
};
use crate::table::{Block, Table};
use crate::unpack::unpack;

pub(crate) use body::{
    CLIENT_IDS, COLUMN_LISTS, Contents, DATE_NANOS, ENTRY_HEADS, LISTS, NANOS, ORIGINS, PAGE_STREAMS,
    RENDERED, ROW_GROUPS, STREAMS, TEXT_LENGTHS, UNINDEXED_FIELDS, decode_body, write,
};

/// What this crate writes.
pub const FORMAT_VERSION: u32 = 3;
/// The oldest version that it reads.
pub const FORMAT_VERSION_OLDEST: u32 = 1;

const MAGIC: &[u8; 8] = b"FROSTHF1";
const CHECKSUM_BYTES: usize = 8;
/// The checksum of what follows the hot footer, and the hot footer's own.
const CHECKSUMS_BYTES: usize = 2 * CHECKSUM_BYTES;

/// Flags of a chunk.
const HAS_DICTIONARY: u8 = 1;
const HAS_BOUNDS: u8 = 2;
const HAS_SKIPS: u8 = 4;
const HAS_LENGTHS: u8 = 8;
const HAS_STREAMS: u8 = 16;

/// What one column of the Parquet schema is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Time,
    /// The nanoseconds of times.
    Nanos,
    /// The identities that clients gave,
    Id,
    /// the versions of these documents,
    Version,
    /// and their sequence numbers.
    SeqNo,
    Source,
    /// What documents are made again from, beside the other columns: their shapes,
    Shape,
    /// the literals in them,
    Residual,
    /// and those that are stored whole.
    Raw,
    /// Old splits do not say which type a value has.
    Dynamic {
        typed: bool,
    },
    Field {
        field: u16,
        ty: ValueType,
        list: bool,
    },
    /// The nanoseconds of a field's dates.
    FieldNanos {
        field: u16,
        list: bool,
    },
}

impl ColumnKind {
    /// Whether it says by what a document is known, and nothing of what is in it.
    pub(crate) fn is_of_identity(self) -> bool {
        matches!(self, ColumnKind::Id | ColumnKind::Version | ColumnKind::SeqNo)
    }

    pub(crate) fn is_list(self) -> bool {
        matches!(
            self,
            ColumnKind::Dynamic { .. }
                | ColumnKind::Residual
                | ColumnKind::Field { list: true, .. }
                | ColumnKind::FieldNanos { list: true, .. }
        )
    }
}

/// A reading of a field, as one split has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitField {
    /// Its number in the keys of this split's dictionaries.
    pub number: u16,
    /// The user's name of the field.
    pub path: String,
    /// The type of this reading.
    pub ty: ValueType,
    /// Whether some row has exactly one value, which is then in the scalar column.
    pub has_scalar: bool,
    /// Whether some row has several values, which are then in the list column.
    pub has_list: bool,
    /// Whether the values are in `_dynamic` and in no column of their own.
    pub dynamic: bool,
    /// Whether some of its dates are no whole microseconds; each of its columns has one of the nanoseconds beside it.
    pub has_nanos: bool,
    /// Whether the dictionaries have its tokens and whole values, as far as its type has any.
    pub is_indexed: bool,
    /// How many rows have a value.
    pub rows_with_value: u32,
}

/// A page of a column chunk, in file order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Page {
    pub(crate) bytes: u32,
    pub(crate) rows: u32,
    pub(crate) checksum: u32,
    /// How many bytes of other columns are between the page before and this one.
    pub(crate) skip: u64,
}

/// Smallest and largest value of some rows of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct PageBounds {
    /// The rows of the page.
    pub rows: Range<u32>,
    /// The smallest and the largest value; `None` where all are null.
    pub values: Option<Bounds>,
}

/// A smallest and a largest value, both inside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bounds {
    /// Of whole numbers, and of times in microseconds.
    Long(i64, i64),
    /// Of other numbers.
    Double(f64, f64),
}

impl Bounds {
    /// The bounds of both, which are of one kind.
    pub(crate) fn cover(self, other: Bounds) -> Bounds {
        match (self, other) {
            (Bounds::Long(min, max), Bounds::Long(least, most)) => {
                Bounds::Long(min.min(least), max.max(most))
            }
            (Bounds::Double(min, max), Bounds::Double(least, most)) => {
                Bounds::Double(min.min(least), max.max(most))
            }
            (bounds, _) => bounds,
        }
    }
}

/// Where one column is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chunk {
    pub(crate) name: String,
    pub(crate) kind: ColumnKind,
    pub(crate) offset: u64,
    pub(crate) dictionary: Option<Page>,
    /// Whether the lengths of a page's texts come before the texts (DELTA_LENGTH_BYTE_ARRAY).
    pub(crate) has_lengths: bool,
    /// Whether the pages, but for the dictionary, are [in streams](crate::page_streams).
    pub(crate) has_streams: bool,
    pub(crate) pages: Vec<Page>,
    pub(crate) bounds: Vec<PageBounds>,
}

impl Chunk {
    /// About how much memory it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let pages = self.pages.len() * size_of::<Page>() + self.bounds.len() * size_of::<PageBounds>();
        size_of::<Chunk>() + self.name.len() + pages
    }

    /// From its first byte in the file to its last.
    pub(crate) fn range(&self) -> ByteRange {
        let skipped: u64 = self.pages.iter().map(|page| page.skip).sum();
        self.offset..self.offset + self.bytes() + skipped
    }

    /// How many bytes it takes.
    pub(crate) fn bytes(&self) -> u64 {
        let pages: u64 = self.pages.iter().map(|page| u64::from(page.bytes)).sum();
        self.dictionary_bytes() + pages
    }

    pub(crate) fn dictionary_bytes(&self) -> u64 {
        self.dictionary.as_ref().map_or(0, |page| u64::from(page.bytes))
    }
}

/// A column that belongs to no field.
#[derive(Clone, Debug)]
pub(crate) struct OwnColumn {
    pub(crate) kind: ColumnKind,
    /// Its bytes in the file.
    pub(crate) range: ByteRange,
    /// Where its pages are described, with the length of that unpacked, unless the hot footer does.
    pub(crate) outside: Option<(Block, usize)>,
    pub(crate) chunk: OnceLock<Chunk>,
}

impl OwnColumn {
    fn here(chunk: Chunk) -> OwnColumn {
        OwnColumn { kind: chunk.kind, range: chunk.range(), outside: None, chunk: OnceLock::from(chunk) }
    }

    /// How many bytes it takes, or at most takes where its pages are not known.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunk.get().map_or(self.range.end - self.range.start, Chunk::bytes)
    }

    pub(crate) fn name(&self) -> &'static str {
        own_name(self.kind)
    }
}

pub(crate) fn own_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Time => TIME_COLUMN,
        ColumnKind::Nanos => NANOS_COLUMN,
        ColumnKind::Id => ID_COLUMN,
        ColumnKind::Version => VERSION_COLUMN,
        ColumnKind::SeqNo => SEQ_NO_COLUMN,
        ColumnKind::Dynamic { .. } => DYNAMIC_COLUMN,
        ColumnKind::Shape => SHAPE_COLUMN,
        ColumnKind::Residual => RESIDUAL_COLUMN,
        ColumnKind::Raw => RAW_COLUMN,
        ColumnKind::Source | ColumnKind::Field { .. } | ColumnKind::FieldNanos { .. } => SOURCE_COLUMN,
    }
}

/// Rows that are together in the file, with all columns that a document is made from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowGroup {
    pub(crate) rows: Range<u32>,
    pub(crate) range: ByteRange,
    /// How many bytes at its end say where in it the columns are.
    pub(crate) directory_bytes: u32,
    pub(crate) checksum: u32,
}

/// Where a split has its digest.
#[derive(Clone, Debug)]
pub(crate) enum DigestPlace {
    /// In the hot footer, as every digest of versions 1 and 2 and a small one of version 3; unpacked once.
    Footer(HotDigest),
    /// In a table by field.
    Table(Table),
}

/// A digest in the hot footer.
#[derive(Clone, Debug)]
pub(crate) struct HotDigest {
    packed: Vec<u8>,
    raw_bytes: usize,
    /// It has the form of a block of its table, not that of versions 1 and 2.
    is_block: bool,
    digest: OnceLock<Arc<Digest>>,
}

impl HotDigest {
    pub(crate) fn new(packed: Vec<u8>, raw_bytes: usize, is_block: bool) -> HotDigest {
        HotDigest { packed, raw_bytes, is_block, digest: OnceLock::new() }
    }

    pub(crate) fn read(&self) -> Result<Arc<Digest>> {
        if let Some(digest) = self.digest.get() {
            return Ok(Arc::clone(digest));
        }
        let raw = unpack(&self.packed, self.raw_bytes)?;
        let read = Arc::new(if self.is_block { Digest::of_block(&raw)? } else { Digest::decode(raw)? });
        Ok(Arc::clone(self.digest.get_or_init(|| read)))
    }
}

impl DigestPlace {
    pub(crate) fn table(&self) -> Option<&Table> {
        match self {
            DigestPlace::Footer(_) => None,
            DigestPlace::Table(table) => Some(table),
        }
    }
}

/// Where a split has the origins of its rows.
#[derive(Clone, Debug)]
pub(crate) enum OriginsPlace {
    /// In the hot footer, as the one block of a table.
    Footer {
        packed: Vec<u8>,
        raw_bytes: usize,
    },
    Table(Table),
}

impl OriginsPlace {
    pub(crate) fn table(&self) -> Option<&Table> {
        match self {
            OriginsPlace::Footer { .. } => None,
            OriginsPlace::Table(table) => Some(table),
        }
    }
}

/// An unpacked hot footer, of any version.
#[derive(Clone, Debug)]
pub(crate) struct Footer {
    pub(crate) version: u32,
    /// Versions 1 and 2 do not say it.
    pub(crate) id: Option<SplitId>,
    pub(crate) rows: u32,
    pub(crate) rows_without_time: u32,
    pub(crate) times: Option<(i64, i64)>,
    pub(crate) own: Vec<OwnColumn>,
    /// Where documents are made again from columns; of none where `_source` has them.
    pub(crate) groups: Vec<RowGroup>,
    pub(crate) fields: FieldTable,
    pub(crate) text: Dictionary,
    pub(crate) exact: Dictionary,
    /// Pairs of frequent words; of no block where the split has none.
    pub(crate) pairs: Dictionary,
    pub(crate) digest: DigestPlace,
    /// Whether lists of the dictionaries may be left to columns.
    pub(crate) leaves_lists: bool,
    /// None where documents are numbered by this split.
    pub(crate) origins: Option<OriginsPlace>,
    /// The checksum of the page index and the Parquet footer, which follow the hot footer; splits that were
    /// written before it was kept have none.
    pub(crate) tail_checksum: Option<u64>,
}

/// A hot footer but for its two checksums. Its length is known before the bytes that one of them is of.
pub(crate) struct Unsummed(Vec<u8>);

impl Unsummed {
    /// The length of the whole hot footer.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() + CHECKSUMS_BYTES
    }

    /// The hot footer of a file that continues with `tail`.
    pub(crate) fn sum(self, tail: &[u8]) -> Vec<u8> {
        let Unsummed(mut out) = self;
        out.extend_from_slice(&xxh3_64(tail).to_le_bytes());
        out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
        out
    }
}

impl Footer {
    /// About how much memory it takes once all of it is known.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_own = |own: &OwnColumn| {
            let outside = own.outside.as_ref().map_or(0, |(_, unpacked)| *unpacked);
            size_of::<OwnColumn>() + own.chunk.get().map_or(outside, Chunk::memory_bytes)
        };
        let packed = match &self.digest {
            DigestPlace::Footer(digest) => digest.packed.len() + digest.raw_bytes,
            DigestPlace::Table(table) => table.memory_bytes(),
        };
        let origins = match &self.origins {
            Some(OriginsPlace::Footer { packed, .. }) => packed.len(),
            Some(OriginsPlace::Table(table)) => table.memory_bytes(),
            None => 0,
        };
        let dictionaries = [&self.text, &self.exact, &self.pairs].map(|one| one.table().memory_bytes());
        size_of::<Footer>()
            + self.own.iter().map(of_own).sum::<usize>()
            + self.groups.len() * size_of::<RowGroup>()
            + self.fields.memory_bytes()
            + dictionaries.iter().sum::<usize>()
            + packed
            + origins
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Footer> {
        let (front, sum) = bytes
            .split_last_chunk::<CHECKSUM_BYTES>()
            .ok_or_else(|| Error::corrupt("a hot footer is shorter than its frame"))?;
        if xxh3_64(front) != u64::from_le_bytes(*sum) {
            return Err(Error::corrupt("the checksum of a hot footer does not match"));
        }
        Self::decode_checked(front)
    }

    /// [`Footer::decode`] after its checksum: what a fuzzer should reach.
    pub(crate) fn decode_checked(front: &[u8]) -> Result<Footer> {
        let mut frame = Cursor::new(front);
        if frame.take(MAGIC.len())? != MAGIC {
            return Err(Error::corrupt("these bytes are not the hot footer of a split"));
        }
        match frame.u32_le()? {
            version @ (1 | 2) => version_2::decode(version, &mut frame),
            3 => body::decode(&mut frame),
            version => Err(Error::invalid(format!(
                "the split has format version {version}, this version of Frostline reads versions {FORMAT_VERSION_OLDEST} to {FORMAT_VERSION}"
            ))),
        }
    }

    /// The rows that have no time and the first and the last time, which are there unless all rows have none.
    fn decode_times(cursor: &mut Cursor<'_>, rows: u32) -> Result<(u32, Option<(i64, i64)>)> {
        let rows_without_time = cursor.varint_u32()?;
        if rows_without_time > rows {
            return Err(Error::corrupt("a split has more rows without time than rows"));
        }
        let timed = rows > rows_without_time;
        let times = if timed { Some((read_signed(cursor)?, read_signed(cursor)?)) } else { None };
        Ok((rows_without_time, times))
    }
}

/// Appends where the pages of a column are.
pub(crate) fn put_chunk(out: &mut Vec<u8>, chunk: &Chunk) {
    put_varint(out, chunk.offset);
    let skips = chunk.pages.iter().any(|page| page.skip > 0);
    let flags = [
        (chunk.dictionary.is_some(), HAS_DICTIONARY),
        (!chunk.bounds.is_empty(), HAS_BOUNDS),
        (skips, HAS_SKIPS),
        (chunk.has_lengths, HAS_LENGTHS),
        (chunk.has_streams, HAS_STREAMS),
    ];
    out.push(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
    if let Some(page) = &chunk.dictionary {
        put_page(out, page);
    }
    put_varint(out, chunk.pages.len() as u64);
    for page in &chunk.pages {
        put_varint(out, u64::from(page.rows));
        if skips {
            put_varint(out, page.skip);
        }
        put_page(out, page);
    }
    for bounds in &chunk.bounds {
        put_bounds(out, bounds.values.as_ref());
    }
}

/// Reads what [`put_chunk`] appended, in a split of `rows` rows.
pub(crate) fn read_chunk(
    cursor: &mut Cursor<'_>,
    name: String,
    kind: ColumnKind,
    rows: u32,
) -> Result<Chunk> {
    let offset = cursor.varint()?;
    let flags = cursor.u8()?;
    let dictionary = if flags & HAS_DICTIONARY != 0 { Some(read_page(cursor, 0)?) } else { None };
    let count = cursor.varint_usize()?;
    let (mut pages, mut bounds) = (Vec::new(), Vec::new());
    let (mut rows_read, mut skipped) = (0u32, 0u64);
    for _ in 0..count {
        let page_rows = cursor.varint_u32()?;
        let whole = rows_read.checked_add(page_rows).filter(|whole| *whole <= rows && page_rows > 0);
        rows_read =
            whole.ok_or_else(|| Error::corrupt("the pages of a column have more rows than the split"))?;
        let skip = if flags & HAS_SKIPS != 0 { cursor.varint()? } else { 0 };
        skipped = skipped.saturating_add(skip);
        pages.push(Page { skip, ..read_page(cursor, page_rows)? });
    }
    if rows_read != rows {
        return Err(
            Error::corrupt("the pages of a column have fewer rows than the split").with("column", &name)
        );
    }
    if flags & HAS_BOUNDS != 0 {
        let mut start = 0;
        for page in &pages {
            bounds.push(PageBounds { rows: start..start + page.rows, values: read_bounds(cursor)? });
            start += page.rows;
        }
    }
    let (has_lengths, has_streams) = (flags & HAS_LENGTHS != 0, flags & HAS_STREAMS != 0);
    let chunk = Chunk { name, kind, offset, dictionary, has_lengths, has_streams, pages, bounds };
    // Sums of 32-bit lengths: only the offset and what is skipped can make them overflow.
    if offset.saturating_add(skipped) > i64::MAX as u64 {
        return Err(Error::corrupt("a column starts past the end of any file").with("column", &chunk.name));
    }
    Ok(chunk)
}

fn put_page(out: &mut Vec<u8>, page: &Page) {
    put_varint(out, u64::from(page.bytes));
    out.extend_from_slice(&page.checksum.to_le_bytes());
}

fn read_page(cursor: &mut Cursor<'_>, rows: u32) -> Result<Page> {
    let bytes = cursor.varint_u32()?;
    if bytes == 0 || bytes > i32::MAX as u32 {
        return Err(Error::corrupt("a page of a column has an impossible length"));
    }
    Ok(Page { bytes, rows, checksum: cursor.u32_le()?, skip: 0 })
}

fn put_bounds(out: &mut Vec<u8>, bounds: Option<&Bounds>) {
    match bounds {
        None => out.push(0),
        Some(Bounds::Long(min, max)) => {
            out.push(1);
            put_signed(out, *min);
            put_varint(out, max.wrapping_sub(*min) as u64);
        }
        Some(Bounds::Double(min, max)) => {
            out.push(2);
            out.extend_from_slice(&min.to_le_bytes());
            out.extend_from_slice(&max.to_le_bytes());
        }
    }
}

fn read_bounds(cursor: &mut Cursor<'_>) -> Result<Option<Bounds>> {
    match cursor.u8()? {
        0 => Ok(None),
        1 => {
            let min = read_signed(cursor)?;
            Ok(Some(Bounds::Long(min, min.wrapping_add(cursor.varint()? as i64))))
        }
        2 => {
            let (min, max) = (f64::from_bits(cursor.u64_le()?), f64::from_bits(cursor.u64_le()?));
            Ok(Some(Bounds::Double(min, max)))
        }
        code => Err(Error::corrupt("the bounds of a page have an unknown form").with("form", code)),
    }
}

pub(crate) fn read_text(cursor: &mut Cursor<'_>) -> Result<String> {
    let text = std::str::from_utf8(cursor.bytes()?);
    text.map(str::to_owned).map_err(|_| Error::corrupt("a name in the split is not UTF-8"))
}

pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

pub(crate) fn read_signed(cursor: &mut Cursor<'_>) -> Result<i64> {
    let folded = cursor.varint()?;
    Ok((folded >> 1) as i64 ^ -((folded & 1) as i64))
}

pub(crate) fn type_code(ty: ValueType) -> u8 {
    match ty {
        ValueType::Boolean => 0,
        ValueType::Long => 1,
        ValueType::Double => 2,
        ValueType::Date => 3,
        ValueType::Ip => 4,
        ValueType::Text => 5,
        ValueType::Big => 6,
    }
}

pub(crate) fn read_type(code: u8) -> Result<ValueType> {
    let types = [
        ValueType::Boolean,
        ValueType::Long,
        ValueType::Double,
        ValueType::Date,
        ValueType::Ip,
        ValueType::Text,
        ValueType::Big,
    ];
    types
        .get(usize::from(code))
        .copied()
        .ok_or_else(|| Error::corrupt("a field has an unknown type").with("type", code))
}

#[cfg(test)]
mod tests;
