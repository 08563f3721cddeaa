//! The hot footer: everything needed to open a split, in one range of the file.
//!
//! ```text
//! magic "FROSTHF1" | version u32 | body packed u32 | body raw u32 | digest packed u32 | digest raw u32
//! body (zstd) | digest (zstd) | XXH3-64 of the file after the hot footer | XXH3-64 of all before
//! ```
//!
//! Integers of the frame are little-endian. The body is decompressed at once, the digest on demand.
//! Unknown bytes at the end of the body are ignored, so that a later writer may add
//! to it without a new version.

use std::ops::Range;

use frostline_base::{ByteRange, Error, Result};
use xxhash_rust::xxh3::xxh3_64;

use crate::bytes_codec::{Cursor, put_bytes, put_varint};
use crate::dictionary::Dictionary;
use crate::mapping::ValueType;

/// What this crate writes.
pub const FORMAT_VERSION: u32 = 2;
/// The oldest version that it reads.
pub const FORMAT_VERSION_OLDEST: u32 = 1;

const MAGIC: &[u8; 8] = b"FROSTHF1";
const FRAME_BYTES: usize = 28;
const CHECKSUM_BYTES: usize = 8;
/// The checksum of what follows the hot footer, and the hot footer's own.
const CHECKSUMS_BYTES: usize = 2 * CHECKSUM_BYTES;
/// A footer that unpacks to more is not one of ours.
const RAW_BYTES_MAX: usize = 1 << 30;

/// What one column of the Parquet schema is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Time,
    Source,
    /// Old splits do not say which type a value has.
    Dynamic {
        typed: bool,
    },
    Field {
        field: u16,
        ty: ValueType,
        list: bool,
    },
}

impl ColumnKind {
    pub(crate) fn is_list(self) -> bool {
        matches!(self, ColumnKind::Dynamic { .. } | ColumnKind::Field { list: true, .. })
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
    /// How many rows have a value.
    pub rows_with_value: u32,
}

/// A page of a column chunk, in file order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Page {
    pub(crate) bytes: u32,
    pub(crate) rows: u32,
    pub(crate) checksum: u32,
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

/// Where one column is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chunk {
    pub(crate) name: String,
    pub(crate) kind: ColumnKind,
    pub(crate) offset: u64,
    pub(crate) dictionary: Option<Page>,
    pub(crate) pages: Vec<Page>,
    pub(crate) bounds: Vec<PageBounds>,
}

impl Chunk {
    /// The bytes of the chunk in the file.
    pub(crate) fn range(&self) -> ByteRange {
        let pages: u64 = self.pages.iter().map(|p| u64::from(p.bytes)).sum();
        self.offset..self.offset + self.dictionary_bytes() + pages
    }

    pub(crate) fn dictionary_bytes(&self) -> u64 {
        self.dictionary.as_ref().map_or(0, |page| u64::from(page.bytes))
    }
}

/// The unpacked body of a hot footer, and its digest still packed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Footer {
    pub(crate) version: u32,
    pub(crate) rows: u32,
    pub(crate) rows_without_time: u32,
    pub(crate) times: Option<(i64, i64)>,
    pub(crate) fields: Vec<SplitField>,
    /// Encoded postings of each field, by number.
    pub(crate) exists: Vec<Vec<u8>>,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) text: Dictionary,
    pub(crate) exact: Dictionary,
    pub(crate) digest: Vec<u8>,
    pub(crate) digest_raw_bytes: u32,
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
    pub(crate) fn encode(&self, zstd_level: i32) -> Result<Unsummed> {
        let raw = self.encode_body();
        let body = zstd::bulk::compress(&raw, zstd_level).map_err(crate::writer::cannot_write)?;
        let mut out = Vec::with_capacity(FRAME_BYTES + body.len() + self.digest.len() + CHECKSUMS_BYTES);
        out.extend_from_slice(MAGIC);
        for number in
            [self.version as usize, body.len(), raw.len(), self.digest.len(), self.digest_raw_bytes as usize]
        {
            let number = u32::try_from(number).map_err(|_| {
                Error::exhausted("the hot footer of this split would be over 4 GiB: seal smaller splits")
            })?;
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&body);
        out.extend_from_slice(&self.digest);
        Ok(Unsummed(out))
    }

    fn encode_body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, u64::from(self.rows));
        put_varint(&mut out, u64::from(self.rows_without_time));
        if let Some((first, last)) = self.times {
            put_signed(&mut out, first);
            put_signed(&mut out, last);
        }
        put_varint(&mut out, self.fields.len() as u64);
        for (field, exists) in self.fields.iter().zip(&self.exists) {
            put_field(&mut out, field);
            put_bytes(&mut out, exists);
        }
        put_varint(&mut out, self.chunks.len() as u64);
        for chunk in &self.chunks {
            put_chunk(&mut out, chunk);
        }
        self.text.encode(&mut out);
        self.exact.encode(&mut out);
        out
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
        let version = frame.u32_le()?;
        if !(FORMAT_VERSION_OLDEST..=FORMAT_VERSION).contains(&version) {
            return Err(Error::invalid(format!(
                "the split has format version {version}, this version of Frostline reads versions {FORMAT_VERSION_OLDEST} to {FORMAT_VERSION}"
            )));
        }
        let body_packed = frame.u32_le()? as usize;
        let body_raw = frame.u32_le()? as usize;
        let digest_packed = frame.u32_le()? as usize;
        let digest_raw_bytes = frame.u32_le()?;
        let body = unpack(frame.take(body_packed)?, body_raw)?;
        let digest = frame.take(digest_packed)?.to_vec();
        let mut footer = decode_body(&mut Cursor::new(&body), digest, digest_raw_bytes)?;
        footer.version = version;
        footer.tail_checksum = if frame.is_empty() { None } else { Some(frame.u64_le()?) };
        Ok(footer)
    }
}

/// Unpacks a zstd frame that is said to hold `raw_bytes`.
pub(crate) fn unpack(packed: &[u8], raw_bytes: usize) -> Result<Vec<u8>> {
    // zstd packs at most about a thousandfold save for runs; a claim far beyond is not trusted with memory.
    let believable = raw_bytes <= RAW_BYTES_MAX && raw_bytes / 65_536 <= packed.len();
    let raw = believable.then(|| zstd::bulk::decompress(packed, raw_bytes).ok()).flatten();
    raw.filter(|raw| raw.len() == raw_bytes)
        .ok_or_else(|| Error::corrupt("a part of a hot footer cannot be decompressed"))
}

pub(crate) fn decode_body(cursor: &mut Cursor<'_>, digest: Vec<u8>, digest_raw_bytes: u32) -> Result<Footer> {
    let rows = cursor.varint_u32()?;
    let rows_without_time = cursor.varint_u32()?;
    if rows_without_time > rows {
        return Err(Error::corrupt("a split has more rows without time than rows"));
    }
    let timed = rows > rows_without_time;
    let times = if timed { Some((read_signed(cursor)?, read_signed(cursor)?)) } else { None };
    let (mut fields, mut exists) = (Vec::new(), Vec::new());
    for number in 0..cursor.varint_usize()? {
        let number =
            u16::try_from(number).map_err(|_| Error::corrupt("a split has more fields than numbers"))?;
        fields.push(read_field(cursor, number, rows)?);
        exists.push(cursor.bytes()?.to_vec());
    }
    let mut chunks = Vec::new();
    for _ in 0..cursor.varint_usize()? {
        chunks.push(read_chunk(cursor, rows, &fields)?);
    }
    let text = Dictionary::decode(cursor, rows)?;
    let exact = Dictionary::decode(cursor, rows)?;
    Ok(Footer {
        version: FORMAT_VERSION,
        rows,
        rows_without_time,
        times,
        fields,
        exists,
        chunks,
        text,
        exact,
        digest,
        digest_raw_bytes,
        tail_checksum: None,
    })
}

fn put_field(out: &mut Vec<u8>, field: &SplitField) {
    put_bytes(out, field.path.as_bytes());
    out.push(type_code(field.ty));
    out.push(u8::from(field.has_scalar) | u8::from(field.has_list) << 1 | u8::from(field.dynamic) << 2);
    put_varint(out, u64::from(field.rows_with_value));
}

fn read_field(cursor: &mut Cursor<'_>, number: u16, rows: u32) -> Result<SplitField> {
    let path = read_text(cursor)?;
    let ty = read_type(cursor.u8()?)?;
    let flags = cursor.u8()?;
    let rows_with_value = cursor.varint_u32()?;
    if rows_with_value > rows || flags > 7 {
        return Err(Error::corrupt("a field of a split is invalid").with("field", &path));
    }
    let (has_scalar, has_list, dynamic) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
    Ok(SplitField { number, path, ty, has_scalar, has_list, dynamic, rows_with_value })
}

fn put_chunk(out: &mut Vec<u8>, chunk: &Chunk) {
    put_bytes(out, chunk.name.as_bytes());
    match chunk.kind {
        ColumnKind::Time => out.push(0),
        ColumnKind::Source => out.push(1),
        ColumnKind::Dynamic { typed } => out.push(if typed { 5 } else { 2 }),
        ColumnKind::Field { field, list, .. } => {
            out.push(3 + u8::from(list));
            put_varint(out, u64::from(field));
        }
    }
    put_varint(out, chunk.offset);
    out.push(u8::from(chunk.dictionary.is_some()) | u8::from(!chunk.bounds.is_empty()) << 1);
    if let Some(page) = &chunk.dictionary {
        put_page(out, page);
    }
    put_varint(out, chunk.pages.len() as u64);
    for page in &chunk.pages {
        put_varint(out, u64::from(page.rows));
        put_page(out, page);
    }
    for bounds in &chunk.bounds {
        put_bounds(out, bounds.values.as_ref());
    }
}

fn read_chunk(cursor: &mut Cursor<'_>, rows: u32, fields: &[SplitField]) -> Result<Chunk> {
    let name = read_text(cursor)?;
    let kind = match cursor.u8()? {
        0 => ColumnKind::Time,
        1 => ColumnKind::Source,
        code @ (2 | 5) => ColumnKind::Dynamic { typed: code == 5 },
        code @ (3 | 4) => {
            let number = cursor.varint_usize()?;
            let field = fields.get(number).ok_or_else(|| Error::corrupt("a column belongs to no field"))?;
            ColumnKind::Field { field: field.number, ty: field.ty, list: code == 4 }
        }
        code => return Err(Error::corrupt("a column has an unknown kind").with("kind", code)),
    };
    let offset = cursor.varint()?;
    let flags = cursor.u8()?;
    let dictionary = if flags & 1 != 0 { Some(read_page(cursor, 0)?) } else { None };
    let count = cursor.varint_usize()?;
    let (mut pages, mut bounds) = (Vec::new(), Vec::new());
    let mut rows_read = 0u32;
    for _ in 0..count {
        let page_rows = cursor.varint_u32()?;
        let whole = rows_read.checked_add(page_rows).filter(|whole| *whole <= rows && page_rows > 0);
        rows_read =
            whole.ok_or_else(|| Error::corrupt("the pages of a column have more rows than the split"))?;
        pages.push(read_page(cursor, page_rows)?);
    }
    if rows_read != rows {
        return Err(
            Error::corrupt("the pages of a column have fewer rows than the split").with("column", &name)
        );
    }
    if flags & 2 != 0 {
        let mut start = 0;
        for page in &pages {
            bounds.push(PageBounds { rows: start..start + page.rows, values: read_bounds(cursor)? });
            start += page.rows;
        }
    }
    let chunk = Chunk { name, kind, offset, dictionary, pages, bounds };
    // Sums of 32-bit lengths: only the offset can make them overflow.
    if offset > u64::MAX / 2 {
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
    Ok(Page { bytes, rows, checksum: cursor.u32_le()? })
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

fn type_code(ty: ValueType) -> u8 {
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

fn read_type(code: u8) -> Result<ValueType> {
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
