//! A sorted dictionary from keys to [`Postings`]: a [`Table`] of entries.
//!
//! A split has two. The keys of the **text** dictionary are [`TextKey`]s: token first, so that a search
//! over all fields reads the same block as a search over one field. The keys of the **exact** dictionary
//! are [`exact_key`] and [`ip_key`]: field first, so that a prefix or a range of one field's
//! values is a range of keys.
//!
//! A text that is one token but for case and punctuation around it is in both only where it must be. Where no other
//! row has the token, the text is held with the token's entry, which begins with a *head* that says so, and the exact
//! dictionary does without it. Entries of versions 1 and 2 have no head.
//!
//! Reading has two steps, with the caller's read between them: [`Table::blocks`] returns
//! the byte ranges, [`Dictionary::scan`] decodes them. A key that is in no block is in no row.

use std::collections::HashMap;
use std::io::Write;

use arrow::datatypes::ToByteSlice;
use frostline_base::{ByteRange, Error, Result};
use xxhash_rust::xxh3::xxh3_128;

use crate::bytes_codec::{Cursor, put_bytes, put_varint};
use crate::footer;
use crate::postings::{
    FormWriter, Postings, decode_deltas, deltas_bytes, put_deltas, put_stored, skip_deltas,
};
use crate::table::{BLOCK_RAW_BYTES_MAX, Block, KeyRange, Table, read_key, unpack_block};
use crate::text_index::Form;

/// Exact values up to this many bytes are keys as they are; see [`exact_key`].
pub const EXACT_BYTES_MAX: usize = 128;
/// How much of a longer value starts its key.
pub const EXACT_PREFIX_BYTES: usize = 64;

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

impl KeyRange {
    /// The whole `token` in every field of the text dictionary.
    pub fn token(token: &str) -> Self {
        Self::prefix([token.as_bytes(), &[Form::Whole as u8]].concat())
    }
}

/// One dictionary of one split.
#[derive(Clone, Debug, PartialEq)]
pub struct Dictionary {
    table: Table,
    postings: ByteRange,
    split_rows: u32,
    has_heads: bool,
}

/// What a dictionary holds of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// In the text dictionary: the value of the field that is the token but for case and punctuation around it, and
    /// that the exact dictionary does not have. The rows of the token are its rows.
    pub value: Option<&'a str>,
    /// The rows.
    pub postings: Postings,
    /// How many bytes the entry takes in its block before that is packed.
    pub bytes: usize,
}

/// The bits of a head that are not the list's: the lowest two say whether a value is held.
const HEAD_BITS: u32 = 4;
const NO_VALUE: u64 = 0;
/// The token itself is the value.
const TOKEN_IS_VALUE: u64 = 1;
/// The value follows.
const VALUE_FOLLOWS: u64 = 2;

impl Dictionary {
    /// With its stored postings at `postings`, in a split of `split_rows` rows.
    pub(crate) fn new(table: Table, postings: ByteRange, split_rows: u32, has_heads: bool) -> Dictionary {
        Dictionary { table, postings, split_rows, has_heads }
    }

    /// Whether values can be held with their tokens, so that who looks for a value asks both dictionaries.
    pub fn holds_values_with_tokens(&self) -> bool {
        self.has_heads
    }

    /// Where its blocks are.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Where its stored postings are.
    pub(crate) fn lists(&self) -> ByteRange {
        self.postings.clone()
    }

    /// Calls `visit` with every entry of `keys` in `block`, ascending; `bytes` are what is at its range.
    pub fn scan(
        &self,
        block: &Block,
        bytes: &[u8],
        keys: &KeyRange,
        mut visit: impl FnMut(Entry<'_>),
    ) -> Result<()> {
        block.check(bytes)?;
        unpack_block(bytes, BLOCK_RAW_BYTES_MAX)
            .and_then(|raw| self.scan_raw(&raw, keys, &mut visit))
            .map_err(|e| e.with("range", format!("{:?}", block.range)))
    }

    /// [`Dictionary::scan`] without its checksum, for fuzzers.
    pub(crate) fn scan_raw(
        &self,
        raw: &[u8],
        keys: &KeyRange,
        visit: &mut dyn FnMut(Entry<'_>),
    ) -> Result<()> {
        let mut cursor = Cursor::new(raw);
        let mut key = Vec::new();
        while !cursor.is_empty() {
            let left = cursor.rest().len();
            read_key(&mut cursor, &mut key)?;
            if keys.ends_before(&key) {
                return Ok(());
            }
            let (value, list) = self.read_head(&mut cursor, &key)?;
            if key.as_slice() < keys.start.as_slice() {
                skip_list(list, &mut cursor)?;
            } else {
                let postings = self.read_list(list, &mut cursor)?;
                visit(Entry { key: &key, value, postings, bytes: left - cursor.rest().len() });
            }
        }
        Ok(())
    }

    /// The value that is held with a key, and the number that a list begins with.
    fn read_head<'a, 'c: 'a>(
        &self,
        cursor: &mut Cursor<'c>,
        key: &'a [u8],
    ) -> Result<(Option<&'a str>, u32)> {
        if !self.has_heads {
            return Ok((None, cursor.varint_u32()?));
        }
        let head = cursor.varint()?;
        let value = match head & ((1 << HEAD_BITS) - 1) {
            NO_VALUE => Some(None),
            TOKEN_IS_VALUE => TextKey::split(key).map(|key| Some(key.token)),
            VALUE_FOLLOWS => std::str::from_utf8(cursor.bytes()?).ok().map(Some),
            _ => None,
        };
        let list = u32::try_from(head >> HEAD_BITS).ok();
        value.zip(list).ok_or_else(|| Error::corrupt("a dictionary entry has an unknown form"))
    }

    /// Reads a list where it stands alone.
    pub(crate) fn read_postings(&self, cursor: &mut Cursor<'_>) -> Result<Postings> {
        let list = cursor.varint_u32()?;
        self.read_list(list, cursor)
    }

    /// Reads what follows the number that a list begins with.
    fn read_list(&self, list: u32, cursor: &mut Cursor<'_>) -> Result<Postings> {
        match list {
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

    /// Appends the dictionary as it is in the hot footer of version 2.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.postings.start);
        put_varint(out, self.postings.end - self.postings.start);
        self.table.encode_entries(out);
    }

    /// Reads what [`Dictionary::encode`] wrote.
    pub(crate) fn decode(cursor: &mut Cursor<'_>, split_rows: u32) -> Result<Dictionary> {
        let postings = read_place(cursor)?;
        Ok(Dictionary::new(Table::decode_entries(cursor)?, postings, split_rows, false))
    }
}

/// A start and a length.
pub(crate) fn read_place(cursor: &mut Cursor<'_>) -> Result<ByteRange> {
    let start = cursor.varint()?;
    let end = start.checked_add(cursor.varint()?);
    end.map(|end| start..end)
        .ok_or_else(|| Error::corrupt("a part of a split reaches past the end of any file"))
}

/// Appends the head of an entry, and `list` as [`PostingsSink::put`] appended it; `value` is held with `token`.
pub(crate) fn put_entry(out: &mut Vec<u8>, value: Option<&[u8]>, token: &[u8], list: &[u8]) -> Result<()> {
    let mut list = Cursor::new(list);
    let (value_bits, follows) = match value {
        None => (NO_VALUE, None),
        Some(value) if value == token => (TOKEN_IS_VALUE, None),
        Some(value) => (VALUE_FOLLOWS, Some(value)),
    };
    put_varint(out, list.varint()? << HEAD_BITS | value_bits);
    if let Some(value) = follows {
        put_bytes(out, value);
    }
    out.extend_from_slice(list.rest());
    Ok(())
}

fn skip_list(list: u32, cursor: &mut Cursor<'_>) -> Result<()> {
    match list {
        0 => Ok(()),
        1 => skip_deltas(cursor, 3),
        more => skip_deltas(cursor, more - 1),
    }
}

/// Where stored postings go: appended to the file, each distinct list once.
pub(crate) struct PostingsSink<'a, W> {
    out: &'a mut W,
    start: u64,
    bytes: u64,
    split_rows: u32,
    forms: FormWriter,
    required: u64,
    scratch: Vec<u8>,
    /// Where each list is, by a hash of its rows, and how long.
    known: HashMap<u128, (u64, u64)>,
}

/// The stored postings of a split.
pub(crate) struct Stored {
    pub(crate) range: ByteRange,
    /// The features that a reader needs for them.
    pub(crate) required: u64,
}

impl<'a, W: Write> PostingsSink<'a, W> {
    /// Appends to `out`, which is at byte `start` of a file of this format version.
    pub(crate) fn new(out: &'a mut W, start: u64, split_rows: u32, version: u32) -> Result<Self> {
        let (scratch, known) = Default::default();
        let forms = FormWriter::new(split_rows, version)?;
        Ok(PostingsSink { out, start, bytes: 0, split_rows, forms, required: 0, scratch, known })
    }

    pub(crate) fn finish(self) -> Stored {
        Stored { range: self.start..self.start + self.bytes, required: self.required }
    }

    /// Where the list is, relative to the start, and how long.
    fn store(&mut self, rows: &[u32]) -> Result<(u64, u64)> {
        let rows_hash = xxh3_128(rows.to_byte_slice());
        if let Some(place) = self.known.get(&rows_hash) {
            return Ok(*place);
        }
        self.scratch.clear();
        if put_stored(&mut self.forms, &mut self.scratch, rows)? {
            self.required |= footer::LISTS;
        }
        let place = (self.bytes, self.scratch.len() as u64);
        self.out.write_all(&self.scratch).map_err(crate::writer::cannot_write)?;
        self.bytes += place.1;
        self.known.insert(rows_hash, place);
        Ok(place)
    }

    /// Appends a list to `out`: its number, then where it is, or the rows where they are few.
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

#[cfg(test)]
mod tests;
