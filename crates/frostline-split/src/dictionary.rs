//! A sorted dictionary from keys to [`Postings`], in compressed blocks of about 16 KiB that are located by
//! a sparse index in the hot footer.
//!
//! A split has two. The keys of the **text** dictionary are [`TextKey`]s: token first, so that a search
//! over all fields reads the same block as a search over one field. The keys of the **exact** dictionary
//! are [`exact_key`] and [`ip_key`]: field first, so that a prefix or a range of one field's
//! values is a range of keys.
//!
//! Reading has two steps, with the caller's read between them: [`Dictionary::blocks`] returns
//! the byte ranges, [`Dictionary::scan`] decodes them. A key that is in no block is in no row.

use std::collections::HashMap;
use std::io::Write;

use arrow::datatypes::ToByteSlice;
use frostline_base::{ByteRange, Error, Result};
use xxhash_rust::xxh3::xxh3_128;

use crate::bytes_codec::{Cursor, checksum, put_varint};
use crate::postings::{Postings, decode_deltas, deltas_bytes, put_deltas, put_stored, skip_deltas};
use crate::text_index::Form;

/// Exact values up to this many bytes are keys as they are; see [`exact_key`].
pub const EXACT_BYTES_MAX: usize = 128;
/// How much of a longer value starts its key.
pub const EXACT_PREFIX_BYTES: usize = 64;

const BLOCK_RAW_BYTES: usize = 16 << 10;
/// No block that a writer makes is larger; a reader refuses to decompress more.
const BLOCK_RAW_BYTES_MAX: usize = 256 << 10;

const BLOCK_PLAIN: u8 = 0;
const BLOCK_ZSTD: u8 = 1;

pub(crate) fn put_text_key(out: &mut Vec<u8>, token: &[u8], form: Form, field: u16) {
    out.extend_from_slice(token);
    out.push(form as u8);
    out.extend_from_slice(&field.to_be_bytes());
}

/// A key of the text dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextKey<'a> {
    /// The token, or what its form says of it.
    pub token: &'a str,
    /// What is held of the token.
    pub form: Form,
    /// The number of the field.
    pub field: u16,
}

impl<'a> TextKey<'a> {
    /// Takes a key apart; none where it is no key of a text dictionary.
    pub fn split(key: &'a [u8]) -> Option<TextKey<'a>> {
        let (front, field) = key.split_last_chunk::<2>()?;
        let (form, token) = front.split_last()?;
        let (token, form) = (std::str::from_utf8(token).ok()?, Form::of(*form)?);
        Some(TextKey { token, form, field: u16::from_be_bytes(*field) })
    }
}

/// The exact dictionary's key of a text `value` in field number `field`.
///
/// A value of more than [`EXACT_BYTES_MAX`] bytes is keyed by its first [`EXACT_PREFIX_BYTES`], then
/// 0xFF, then its 128-bit hash: whoever finds it must still compare the column's value.
pub fn exact_key(value: &str, field: u16) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + value.len().min(EXACT_BYTES_MAX));
    put_exact_key(&mut key, value.as_bytes(), field);
    key
}

pub(crate) fn put_exact_key(out: &mut Vec<u8>, value: &[u8], field: u16) {
    out.extend_from_slice(&field.to_be_bytes());
    match value.split_at_checked(EXACT_PREFIX_BYTES) {
        Some((prefix, _)) if value.len() > EXACT_BYTES_MAX => {
            out.extend_from_slice(prefix);
            out.push(0xff);
            out.extend_from_slice(&xxh3_128(value).to_be_bytes());
        }
        _ => out.extend_from_slice(value),
    }
}

/// Whether the exact dictionary keys `value` by a hash, so that a match must be verified.
pub fn is_hashed(value: &str) -> bool {
    value.len() > EXACT_BYTES_MAX
}

/// The exact dictionary's key of an IP address (IPv4 mapped into IPv6) in field number `field`.
pub fn ip_key(address: &[u8; 16], field: u16) -> Vec<u8> {
    [&field.to_be_bytes()[..], address].concat()
}

/// Keys from `start` up to and without `end`; no `end` means all that follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        KeyRange { start: Vec::new(), end: None }
    }

    /// `key` alone.
    pub fn exact(key: Vec<u8>) -> Self {
        let mut end = key.clone();
        end.push(0);
        KeyRange { start: key, end: Some(end) }
    }

    /// Keys that start with `prefix`.
    pub fn prefix(prefix: Vec<u8>) -> Self {
        let mut end = prefix.clone();
        while end.last() == Some(&0xff) {
            end.pop();
        }
        let end = end.pop().map(|last| [&end[..], &[last + 1]].concat());
        KeyRange { start: prefix, end }
    }

    /// The whole `token` in every field of the text dictionary.
    pub fn token(token: &str) -> Self {
        Self::prefix([token.as_bytes(), &[Form::Whole as u8]].concat())
    }

    /// Keys from `start` up to and without `end`.
    pub fn between(start: Vec<u8>, end: Option<Vec<u8>>) -> Self {
        KeyRange { start, end }
    }

    /// Whether `key` is inside.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && !self.ends_before(key)
    }

    fn ends_before(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_some_and(|end| key >= end)
    }
}

/// Several [`KeyRange`]s, which may overlap, as one test.
#[derive(Clone, Debug)]
pub struct KeyRanges {
    hull: KeyRange,
    /// By their starts.
    starts: Vec<Vec<u8>>,
    /// Where each or one before it ends last; none where one has no end.
    ends: Vec<Option<Vec<u8>>>,
}

impl KeyRanges {
    /// The union of `ranges`.
    pub fn new<'r>(ranges: impl IntoIterator<Item = &'r KeyRange>) -> Self {
        let mut ranges: Vec<&KeyRange> = ranges.into_iter().collect();
        ranges.sort_by(|a, b| a.start.cmp(&b.start));
        let mut ends: Vec<Option<Vec<u8>>> = Vec::with_capacity(ranges.len());
        for range in &ranges {
            let end = match (ends.last(), &range.end) {
                (Some(None), _) | (_, None) => None,
                (Some(Some(last)), Some(end)) => Some(last.max(end).clone()),
                (None, Some(end)) => Some(end.clone()),
            };
            ends.push(end);
        }
        let starts: Vec<Vec<u8>> = ranges.iter().map(|range| range.start.clone()).collect();
        let none = || (Vec::new(), Some(Vec::new()));
        let (start, end) = starts.first().cloned().zip(ends.last().cloned()).unwrap_or_else(none);
        KeyRanges { hull: KeyRange { start, end }, starts, ends }
    }

    /// A range that all of them are in.
    pub fn hull(&self) -> &KeyRange {
        &self.hull
    }

    /// Whether `key` is in one of them.
    pub fn contains(&self, key: &[u8]) -> bool {
        let before = self.starts.partition_point(|start| start.as_slice() <= key);
        let end = before.checked_sub(1).and_then(|at| self.ends.get(at));
        end.is_some_and(|end| end.as_deref().is_none_or(|end| key < end))
    }
}

/// The block index of one dictionary of one split.
#[derive(Clone, Debug, PartialEq)]
pub struct Dictionary {
    blocks: Vec<IndexedBlock>,
    postings: ByteRange,
    split_rows: u32,
}

/// One block of a [`Dictionary`], to be read from `range` of the split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its place in the dictionary.
    pub number: usize,
    /// Its bytes in the split.
    pub range: ByteRange,
}

#[derive(Clone, Debug, PartialEq)]
struct IndexedBlock {
    /// Not above the block's first key, above every key of the block before.
    separator: Box<[u8]>,
    range: ByteRange,
    checksum: u32,
}

impl Dictionary {
    /// The blocks that can hold a key of `keys`, in order.
    pub fn blocks(&self, keys: &KeyRange) -> Vec<Block> {
        let first = self.blocks.partition_point(|b| *b.separator <= *keys.start).saturating_sub(1);
        let wanted = self.blocks.iter().enumerate().skip(first);
        wanted
            .take_while(|(_, b)| !keys.ends_before(&b.separator))
            .map(|(number, b)| Block { number, range: b.range.clone() })
            .collect()
    }

    /// How many blocks there are.
    pub fn blocks_count(&self) -> usize {
        self.blocks.len()
    }

    /// The bytes of the split that hold the blocks, and those that hold the postings.
    pub fn ranges(&self) -> (ByteRange, ByteRange) {
        let start = self.blocks.first().map_or(0, |b| b.range.start);
        (start..self.blocks.last().map_or(start, |b| b.range.end), self.postings.clone())
    }

    /// Calls `visit` with every key of `keys` in `block`, ascending; `bytes` are what is at its range.
    pub fn scan(
        &self,
        block: &Block,
        bytes: &[u8],
        keys: &KeyRange,
        mut visit: impl FnMut(&[u8], Postings),
    ) -> Result<()> {
        let indexed = self
            .blocks
            .get(block.number)
            .ok_or_else(|| Error::internal(format!("the dictionary has no block {}", block.number)))?;
        let located = |e: Error| e.with("block", block.number).with("range", format!("{:?}", indexed.range));
        if checksum(bytes) != indexed.checksum {
            return Err(located(Error::corrupt("the checksum of a dictionary block does not match")));
        }
        let raw = unpack_block(bytes).map_err(located)?;
        self.scan_raw(&raw, keys, &mut visit).map_err(located)
    }

    /// [`Dictionary::scan`] without its checksum, for fuzzers.
    pub(crate) fn scan_raw(
        &self,
        raw: &[u8],
        keys: &KeyRange,
        visit: &mut dyn FnMut(&[u8], Postings),
    ) -> Result<()> {
        let mut cursor = Cursor::new(raw);
        let mut key = Vec::new();
        while !cursor.is_empty() {
            read_key(&mut cursor, &mut key)?;
            if keys.ends_before(&key) {
                return Ok(());
            }
            if key.as_slice() < keys.start.as_slice() {
                skip_postings(&mut cursor)?;
            } else {
                visit(&key, self.read_postings(&mut cursor)?);
            }
        }
        Ok(())
    }

    pub(crate) fn read_postings(&self, cursor: &mut Cursor<'_>) -> Result<Postings> {
        match cursor.varint_u32()? {
            0 => Ok(Postings::All),
            1 => {
                let (start, bytes, rows) = (cursor.varint()?, cursor.varint()?, cursor.varint_u32()?);
                let start = start.checked_add(self.postings.start);
                let range = start.and_then(|start| Some(start..start.checked_add(bytes)?));
                let range = range.filter(|range| range.end <= self.postings.end && rows <= self.split_rows);
                let range =
                    range.ok_or_else(|| Error::corrupt("a dictionary entry points outside its postings"))?;
                Ok(Postings::Stored { range, rows })
            }
            more => Ok(Postings::Rows(decode_deltas(cursor, more - 1, self.split_rows)?)),
        }
    }

    /// Appends the block index as it is in the hot footer.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (blocks, postings) = self.ranges();
        for number in [postings.start, postings.end - postings.start, blocks.start, self.blocks.len() as u64]
        {
            put_varint(out, number);
        }
        let mut before: &[u8] = &[];
        for block in &self.blocks {
            let shared = shared_prefix(before, &block.separator);
            put_varint(out, shared as u64);
            put_varint(out, (block.separator.len() - shared) as u64);
            out.extend_from_slice(&block.separator[shared..]);
            put_varint(out, block.range.end - block.range.start);
            out.extend_from_slice(&block.checksum.to_le_bytes());
            before = &block.separator;
        }
    }

    /// Reads what [`Dictionary::encode`] wrote.
    pub(crate) fn decode(cursor: &mut Cursor<'_>, split_rows: u32) -> Result<Dictionary> {
        let beyond = || Error::corrupt("a dictionary reaches past the end of any file");
        let start = cursor.varint()?;
        let postings = start..start.checked_add(cursor.varint()?).ok_or_else(beyond)?;
        let mut at = cursor.varint()?;
        let count = cursor.varint_usize()?;
        let mut blocks = Vec::new();
        let mut separator = Vec::new();
        for _ in 0..count {
            let before = separator.clone();
            read_key(cursor, &mut separator)?;
            if !blocks.is_empty() && separator <= before {
                return Err(Error::corrupt("the separators of a dictionary do not ascend"));
            }
            let end = at.checked_add(cursor.varint()?).ok_or_else(beyond)?;
            let checksum = cursor.u32_le()?;
            blocks.push(IndexedBlock { separator: separator.as_slice().into(), range: at..end, checksum });
            at = end;
        }
        Ok(Dictionary { blocks, postings, split_rows })
    }
}

/// Replaces `key` by the next front-coded key.
fn read_key(cursor: &mut Cursor<'_>, key: &mut Vec<u8>) -> Result<()> {
    let (shared, rest) = (cursor.varint_usize()?, cursor.varint_usize()?);
    if shared > key.len() {
        return Err(Error::corrupt("a front-coded key shares more than the key before it has"));
    }
    key.truncate(shared);
    key.extend_from_slice(cursor.take(rest)?);
    Ok(())
}

fn skip_postings(cursor: &mut Cursor<'_>) -> Result<()> {
    match cursor.varint_u32()? {
        0 => Ok(()),
        1 => skip_deltas(cursor, 3),
        more => skip_deltas(cursor, more - 1),
    }
}

fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

pub(crate) fn unpack_block(bytes: &[u8]) -> Result<Vec<u8>> {
    match bytes.split_first() {
        Some((&BLOCK_PLAIN, raw)) => Ok(raw.to_vec()),
        Some((&BLOCK_ZSTD, packed)) => zstd::bulk::decompress(packed, BLOCK_RAW_BYTES_MAX)
            .map_err(|e| Error::corrupt("a dictionary block cannot be decompressed").with_source(e)),
        _ => Err(Error::corrupt("a dictionary block has an unknown form")),
    }
}

/// Where stored postings go: appended to the file, each distinct list once.
pub(crate) struct PostingsSink<'a, W> {
    out: &'a mut W,
    start: u64,
    bytes: u64,
    split_rows: u32,
    scratch: Vec<u8>,
    /// Where each list is, by a hash of its rows, and how long.
    known: HashMap<u128, (u64, u64)>,
}

impl<'a, W: Write> PostingsSink<'a, W> {
    /// Appends to `out`, which is at byte `start` of the file.
    pub(crate) fn new(out: &'a mut W, start: u64, split_rows: u32) -> Self {
        PostingsSink { out, start, bytes: 0, split_rows, scratch: Vec::new(), known: HashMap::new() }
    }

    pub(crate) fn range(&self) -> ByteRange {
        self.start..self.start + self.bytes
    }

    /// Where the list is, relative to the start, and how long.
    fn store(&mut self, rows: &[u32]) -> Result<(u64, u64)> {
        let rows_hash = xxh3_128(rows.to_byte_slice());
        if let Some(place) = self.known.get(&rows_hash) {
            return Ok(*place);
        }
        self.scratch.clear();
        put_stored(&mut self.scratch, rows);
        let place = (self.bytes, self.scratch.len() as u64);
        self.out.write_all(&self.scratch).map_err(crate::writer::cannot_write)?;
        self.bytes += place.1;
        self.known.insert(rows_hash, place);
        Ok(place)
    }

    /// Appends the entry's postings to `out`: the list itself where it is short.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, rows: &[u32], inline_bytes_max: usize) -> Result<()> {
        if rows.len() == self.split_rows as usize {
            put_varint(out, 0);
        } else if rows.len() <= inline_bytes_max && deltas_bytes(rows, inline_bytes_max) <= inline_bytes_max {
            put_varint(out, rows.len() as u64 + 1);
            put_deltas(out, rows);
        } else {
            let (at, bytes) = self.store(rows)?;
            for number in [1, at, bytes, rows.len() as u64] {
                put_varint(out, number);
            }
        }
        Ok(())
    }
}

/// Builds a dictionary from ascending keys. Holds the compressed blocks until they are written.
pub(crate) struct DictionaryWriter {
    packed: Vec<u8>,
    blocks: Vec<IndexedBlock>,
    raw: Vec<u8>,
    last_key: Vec<u8>,
    separator: Box<[u8]>,
    compressor: zstd::bulk::Compressor<'static>,
}

impl DictionaryWriter {
    pub(crate) fn new(zstd_level: i32) -> Result<Self> {
        Ok(DictionaryWriter {
            packed: Vec::new(),
            blocks: Vec::new(),
            raw: Vec::with_capacity(2 * BLOCK_RAW_BYTES),
            last_key: Vec::new(),
            separator: Box::default(),
            compressor: zstd::bulk::Compressor::new(zstd_level).map_err(crate::writer::cannot_write)?,
        })
    }

    /// Adds `key`, which must be above every key before it, with its encoded postings.
    pub(crate) fn add(&mut self, key: &[u8], postings: &[u8]) -> Result<()> {
        debug_assert!(self.last_key.as_slice() < key || (self.blocks.is_empty() && self.raw.is_empty()));
        if self.raw.len() >= BLOCK_RAW_BYTES {
            self.finish_block()?;
        }
        let shared = shared_prefix(&self.last_key, key);
        if self.raw.is_empty() {
            // The shortest key that tells this block from the one before.
            self.separator = if self.blocks.is_empty() { Box::default() } else { key[..shared + 1].into() };
            self.last_key.clear();
        }
        let shared = shared.min(self.last_key.len());
        put_varint(&mut self.raw, shared as u64);
        put_varint(&mut self.raw, (key.len() - shared) as u64);
        self.raw.extend_from_slice(&key[shared..]);
        self.raw.extend_from_slice(postings);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        Ok(())
    }

    fn finish_block(&mut self) -> Result<()> {
        let start = self.packed.len();
        let packed = self.compressor.compress(&self.raw).map_err(crate::writer::cannot_write)?;
        let (form, body) =
            if packed.len() < self.raw.len() { (BLOCK_ZSTD, &packed) } else { (BLOCK_PLAIN, &self.raw) };
        self.packed.push(form);
        self.packed.extend_from_slice(body);
        self.raw.clear();
        let checksum = checksum(&self.packed[start..]);
        let separator = std::mem::take(&mut self.separator);
        self.blocks.push(IndexedBlock { separator, range: start as u64..self.packed.len() as u64, checksum });
        Ok(())
    }

    /// Writes the blocks to `out`, which is at byte `start` of the file.
    pub(crate) fn finish(
        mut self,
        out: &mut impl Write,
        start: u64,
        postings: ByteRange,
        split_rows: u32,
    ) -> Result<Dictionary> {
        if !self.raw.is_empty() {
            self.finish_block()?;
        }
        out.write_all(&self.packed).map_err(crate::writer::cannot_write)?;
        for block in &mut self.blocks {
            block.range = block.range.start + start..block.range.end + start;
        }
        Ok(Dictionary { blocks: self.blocks, postings, split_rows })
    }
}

#[cfg(test)]
mod tests;
