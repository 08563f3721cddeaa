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
//! A key can be *short*: cut soon behind what tells it from every other key. No other key starts with a short one, so a
//! key that is looked for is there, or the one short key that it starts with stands for it or for a key that is not
//! looked for. Only the values of its rows tell. [`Dictionary::scan`] therefore also visits the short keys that may
//! stand for one that is looked for.
//!
//! Reading has two steps, with the caller's read between them: [`Table::blocks`] returns
//! the byte ranges, [`Dictionary::scan`] decodes them. A key that is in no block is in no row. Who reads a block often
//! keeps it as an [`UnpackedBlock`].

use std::collections::HashMap;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::ToByteSlice;
use frostline_base::{ByteRange, Error, Result};
use xxhash_rust::xxh3::xxh3_128;

use crate::bytes_codec::{Cursor, put_bytes, put_varint};
use crate::column_lists::ColumnList;
use crate::footer;
use crate::postings::{
    FormWriter, Postings, decode_deltas, deltas_bytes, put_deltas, put_stored, skip_deltas,
};
use crate::table::{Block, KeyRange, KeyRanges, Table, read_key, unpack_entries};
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
    /// Whether the token is only the start of the one that the key stands for, which is longer.
    pub is_short: bool,
}

impl<'a> TextKey<'a> {
    /// Takes a key apart that is not short; none where it is no key of a text dictionary.
    pub fn split(key: &'a [u8]) -> Option<TextKey<'a>> {
        let (front, field) = key.split_last_chunk::<2>()?;
        let (form, token) = front.split_last()?;
        let (token, form) = (std::str::from_utf8(token).ok()?, Form::of(*form)?);
        Some(TextKey { token, form, field: u16::from_be_bytes(*field), is_short: false })
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

/// One block of a dictionary, checked and unpacked. Where it is scanned again, that begins near the first wanted key.
#[derive(Debug)]
pub struct UnpackedBlock {
    range: ByteRange,
    raw: Box<[u8]>,
    was_scanned: AtomicBool,
    starts: OnceLock<Box<[Start]>>,
}

/// An entry at which a scan may begin: no short key before it can stand for a key that is not below it.
#[derive(Debug)]
struct Start {
    key: Box<[u8]>,
    /// Where the entry begins, and how many bytes its key takes there.
    at: usize,
    key_bytes: usize,
}

/// About how many bytes of entries are from one [`Start`] to the next.
const START_BYTES: usize = 1 << 10;

impl UnpackedBlock {
    /// Of the bytes at the block's range.
    pub fn new(block: &Block, bytes: &[u8]) -> Result<UnpackedBlock> {
        block.check(bytes)?;
        let raw = unpack_entries(bytes).map_err(|e| e.with("range", format!("{:?}", block.range)))?;
        let (was_scanned, starts) = Default::default();
        Ok(UnpackedBlock { range: block.range.clone(), raw: raw.into(), was_scanned, starts })
    }

    /// About how many bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<UnpackedBlock>() + self.raw.len() + self.raw.len() / START_BYTES * 2 * size_of::<Start>()
    }
}

/// One dictionary of one split.
#[derive(Clone, Debug, PartialEq)]
pub struct Dictionary {
    table: Table,
    postings: ByteRange,
    split_rows: u32,
    entries: Entries,
}

/// What the entries of a dictionary are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entries {
    /// Of either dictionary in versions 1 and 2.
    WithoutHeads,
    /// Of the text dictionary.
    Text,
    /// Of the exact dictionary.
    Exact,
}

impl Entries {
    /// Of both dictionaries of a split.
    pub(crate) fn of_split(have_heads: bool) -> [Entries; 2] {
        if have_heads { [Entries::Text, Entries::Exact] } else { [Entries::WithoutHeads; 2] }
    }

    /// What the longer key starts with that a short one stands for, and the least byte that can follow.
    fn start(self, short: &[u8]) -> (&[u8], u8) {
        match self {
            // Behind the token are form and field, and no token has a byte as low as a form.
            Entries::Text => (short.get(..short.len().saturating_sub(3)).unwrap_or_default(), 3),
            _ => (short, 0),
        }
    }
}

/// What a dictionary holds of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Whether the key is cut, so that its rows are candidates for every key that starts like it.
    pub is_short: bool,
    /// In the text dictionary: the value of the field that is the token but for case and punctuation around it, and
    /// that the exact dictionary does not have. The rows of the token are its rows.
    pub value: Option<HeldText<'a>>,
    /// The rows.
    pub postings: Postings,
    /// How many bytes the entry takes in its block before that is packed.
    pub bytes: usize,
}

impl Entry<'_> {
    /// Its key in the text dictionary.
    pub fn text_key(&self) -> Option<TextKey<'_>> {
        TextKey::split(self.key).map(|key| TextKey { is_short: self.is_short, ..key })
    }
}

/// A value that is held with its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldText<'a> {
    /// As it is written.
    Written(&'a str),
    /// Only the column has it.
    InColumn,
}

/// The bits of a head that are not the list's: the lowest two say whether a value is held.
pub(crate) const HEAD_BITS: u32 = 4;
const SHORT: u64 = 8;
/// The bits of a head that say what value is held.
pub(crate) const VALUE_BITS: u64 = (1 << HEAD_BITS) - 1 - SHORT;
const NO_VALUE: u64 = 0;
/// The token itself is the value.
const TOKEN_IS_VALUE: u64 = 1;
/// The value follows.
pub(crate) const VALUE_FOLLOWS: u64 = 2;
/// The column has the value. Only of short keys.
const VALUE_IN_COLUMN: u64 = 3;

impl Dictionary {
    /// With its stored postings at `postings`, in a split of `split_rows` rows.
    pub(crate) fn new(table: Table, postings: ByteRange, split_rows: u32, entries: Entries) -> Dictionary {
        Dictionary { table, postings, split_rows, entries }
    }

    /// Whether values can be held with their tokens, so that who looks for a value asks both dictionaries.
    pub fn holds_values_with_tokens(&self) -> bool {
        self.entries == Entries::Text
    }

    /// Where its blocks are.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Where its stored postings are.
    pub(crate) fn lists(&self) -> ByteRange {
        self.postings.clone()
    }

    /// Calls `visit` with every entry of `keys` in `block`, ascending, and with those of short keys that may stand for
    /// one of `keys`; `bytes` are what is at the block's range.
    pub fn scan(
        &self,
        block: &Block,
        bytes: &[u8],
        keys: &KeyRanges,
        visit: impl FnMut(Entry<'_>),
    ) -> Result<()> {
        self.scan_unpacked(&UnpackedBlock::new(block, bytes)?, keys, visit)
    }

    /// [`Dictionary::scan`] of a block that is unpacked.
    pub fn scan_unpacked(
        &self,
        block: &UnpackedBlock,
        keys: &KeyRanges,
        mut visit: impl FnMut(Entry<'_>),
    ) -> Result<()> {
        let scanned = match block.was_scanned.swap(true, Ordering::Relaxed) {
            false => self.scan_raw(&block.raw, keys, &mut visit),
            true => self.starts(block).and_then(|starts| {
                let after = starts.partition_point(|start| *start.key <= *keys.hull().start);
                self.scan_from(&block.raw, starts[..after].last(), keys, &mut visit)
            }),
        };
        scanned.map_err(|e| e.with("range", format!("{:?}", block.range)))
    }

    /// Where scans of the block may begin.
    fn starts<'b>(&self, block: &'b UnpackedBlock) -> Result<&'b [Start]> {
        if let Some(starts) = block.starts.get() {
            return Ok(starts);
        }
        let mut cursor = Cursor::new(&block.raw);
        let (mut key, mut starts, mut last) = (Vec::new(), Vec::new(), 0);
        let mut short_start: Vec<u8> = Vec::new();
        while !cursor.is_empty() {
            let at = block.raw.len() - cursor.rest().len();
            read_key(&mut cursor, &mut key)?;
            let key_bytes = block.raw.len() - cursor.rest().len() - at;
            let Head { is_short, list, .. } = self.read_head(&mut cursor, &key)?;
            skip_list(list, &mut cursor)?;
            // Keys that are cut alike are side by side, and no other key starts like them.
            let is_beside = !short_start.is_empty() && key.starts_with(&short_start);
            if at >= last + START_BYTES && !is_beside {
                starts.push(Start { key: key.as_slice().into(), at, key_bytes });
                last = at;
            }
            if is_short {
                short_start.clear();
                short_start.extend_from_slice(self.entries.start(&key).0);
            }
        }
        Ok(block.starts.get_or_init(|| starts.into()))
    }

    /// [`Dictionary::scan`] without its checksum, for fuzzers.
    pub(crate) fn scan_raw(
        &self,
        raw: &[u8],
        keys: &KeyRanges,
        visit: &mut dyn FnMut(Entry<'_>),
    ) -> Result<()> {
        self.scan_from(raw, None, keys, visit)
    }

    fn scan_from(
        &self,
        raw: &[u8],
        mut start: Option<&Start>,
        keys: &KeyRanges,
        visit: &mut dyn FnMut(Entry<'_>),
    ) -> Result<()> {
        let mut cursor = Cursor::new(start.map_or(raw, |start| &raw[start.at..]));
        let mut key = start.map_or_else(Vec::new, |start| start.key.to_vec());
        while !cursor.is_empty() {
            let left = cursor.rest().len();
            match start.take() {
                Some(start) => drop(cursor.take(start.key_bytes)?),
                None => read_key(&mut cursor, &mut key)?,
            }
            // What a short key stands for is above it, too.
            if keys.hull().ends_before(&key) {
                return Ok(());
            }
            let Head { is_short, value, list } = self.read_head(&mut cursor, &key)?;
            let is_wanted = match is_short {
                true => {
                    let (start, next) = self.entries.start(&key);
                    keys.meet(start, next)
                }
                false => keys.contains(&key),
            };
            if is_wanted {
                let of = if is_short { &[][..] } else { &key };
                let postings = self.read_list(list, of, &mut cursor)?;
                let bytes = left - cursor.rest().len();
                visit(Entry { key: &key, is_short, value, postings, bytes });
            } else {
                skip_list(list, &mut cursor)?;
            }
        }
        Ok(())
    }

    fn read_head<'a, 'c: 'a>(&self, cursor: &mut Cursor<'c>, key: &'a [u8]) -> Result<Head<'a>> {
        if self.entries == Entries::WithoutHeads {
            return Ok(Head { is_short: false, value: None, list: cursor.varint_u32()? });
        }
        let unknown = || Error::corrupt("a dictionary entry has an unknown form");
        let head = cursor.varint()?;
        let list = u32::try_from(head >> HEAD_BITS).map_err(|_| unknown())?;
        let is_short = head & SHORT != 0;
        let value = match head & VALUE_BITS {
            NO_VALUE => None,
            TOKEN_IS_VALUE if !is_short => {
                Some(HeldText::Written(TextKey::split(key).ok_or_else(unknown)?.token))
            }
            VALUE_FOLLOWS if !is_short => {
                Some(HeldText::Written(std::str::from_utf8(cursor.bytes()?).map_err(|_| unknown())?))
            }
            VALUE_IN_COLUMN if is_short => Some(HeldText::InColumn),
            _ => return Err(unknown()),
        };
        Ok(Head { is_short, value, list })
    }

    /// Reads a list where it stands alone.
    pub(crate) fn read_postings(&self, cursor: &mut Cursor<'_>) -> Result<Postings> {
        let list = cursor.varint_u32()?;
        self.read_list(list, &[], cursor)
    }

    /// Reads what follows the number that a list begins with. Only lists of a whole `key` can be left to the column.
    fn read_list(&self, list: u32, key: &[u8], cursor: &mut Cursor<'_>) -> Result<Postings> {
        match list {
            0 => Ok(Postings::All),
            1 => {
                let (start, bytes, rows) = (cursor.varint()?, cursor.varint()?, cursor.varint_u32()?);
                let start = start.checked_add(self.postings.start);
                let range = start.and_then(|start| Some(start..start.checked_add(bytes)?));
                let range = range.filter(|range| range.end <= self.postings.end && rows <= self.split_rows);
                let range =
                    range.ok_or_else(|| Error::corrupt("a dictionary entry points outside its postings"))?;
                if bytes > 0 {
                    return Ok(Postings::Stored { range, rows });
                }
                let left = match self.entries {
                    Entries::WithoutHeads => None,
                    Entries::Text => TextKey::split(key).map(|key| ColumnList::of_token(&key, rows)),
                    Entries::Exact => ColumnList::of_value(key, rows),
                };
                left.map(Postings::Column)
                    .ok_or_else(|| Error::corrupt("a list is left to the column that has no key"))
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
        Ok(Dictionary::new(Table::decode_entries(cursor)?, postings, split_rows, Entries::WithoutHeads))
    }
}

/// A start and a length.
pub(crate) fn read_place(cursor: &mut Cursor<'_>) -> Result<ByteRange> {
    let start = cursor.varint()?;
    let end = start.checked_add(cursor.varint()?);
    end.map(|end| start..end)
        .ok_or_else(|| Error::corrupt("a part of a split reaches past the end of any file"))
}

/// How an entry begins.
struct Head<'a> {
    is_short: bool,
    value: Option<HeldText<'a>>,
    /// The number that its list begins with.
    list: u32,
}

/// Appends what follows the key of an entry: `value` is held with `token`, and `list` is what [`PostingsSink::put`]
/// appended.
pub(crate) fn put_entry(out: &mut Vec<u8>, value: Option<&[u8]>, token: &[u8], list: &[u8]) -> Result<()> {
    match value {
        None => put_headed(out, NO_VALUE, None, list),
        Some(value) if value == token => put_headed(out, TOKEN_IS_VALUE, None, list),
        Some(value) => put_headed(out, VALUE_FOLLOWS, Some(value), list),
    }
}

/// Appends what follows a short key.
pub(crate) fn put_short_entry(out: &mut Vec<u8>, holds_value: bool, list: &[u8]) -> Result<()> {
    put_headed(out, SHORT | if holds_value { VALUE_IN_COLUMN } else { NO_VALUE }, None, list)
}

fn put_headed(out: &mut Vec<u8>, bits: u64, follows: Option<&[u8]>, list: &[u8]) -> Result<()> {
    let mut list = Cursor::new(list);
    put_varint(out, list.varint()? << HEAD_BITS | bits);
    if let Some(value) = follows {
        put_bytes(out, value);
    }
    out.extend_from_slice(list.rest());
    Ok(())
}

/// How many rows a list has of what [`PostingsSink::put`] appended, if it has all of them in it.
pub(crate) fn rows_inside(list: &[u8]) -> Option<u64> {
    Cursor::new(list).varint().ok()?.checked_sub(1).filter(|rows| *rows > 0)
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
    leaving: Leaving,
    forms: FormWriter,
    required: u64,
    scratch: Vec<u8>,
    /// Where each list is, by a hash of its rows, and how long.
    known: HashMap<u128, (u64, u64)>,
}

/// When a list is left to the column of its field, of which all chunks have dictionaries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    /// If it would take more bytes in an entry, and
    pub(crate) inline_bytes_max: usize,
    /// the column takes at most so many,
    pub(crate) column_bytes_max: u64,
    /// or the list this part of them.
    pub(crate) part: u64,
}

/// The stored postings of a split.
pub(crate) struct Stored {
    pub(crate) range: ByteRange,
    /// The features that a reader needs for them.
    pub(crate) required: u64,
}

impl<'a, W: Write> PostingsSink<'a, W> {
    /// Appends to `out`, which is at byte `start` of a file of this format version.
    pub(crate) fn new(
        out: &'a mut W,
        start: u64,
        split_rows: u32,
        version: u32,
        leaving: Leaving,
    ) -> Result<Self> {
        let (scratch, known) = Default::default();
        let forms = FormWriter::new(split_rows, version)?;
        Ok(PostingsSink { out, start, bytes: 0, split_rows, leaving, forms, required: 0, scratch, known })
    }

    pub(crate) fn split_rows(&self) -> u32 {
        self.split_rows
    }

    pub(crate) fn finish(self) -> Stored {
        Stored { range: self.start..self.start + self.bytes, required: self.required }
    }

    /// Where the list is, relative to the start, and how long. Of no bytes where it is left to the column, which takes
    /// `column_bytes`.
    fn store(&mut self, rows: &[u32], column_bytes: Option<u64>) -> Result<(u64, u64)> {
        const LEFT: (u64, u64) = (0, 0);
        let Leaving { column_bytes_max, part, .. } = self.leaving;
        if column_bytes.is_some_and(|bytes| bytes <= column_bytes_max) {
            self.required |= footer::COLUMN_LISTS;
            return Ok(LEFT);
        }
        let rows_hash = xxh3_128(rows.to_byte_slice());
        if let Some(place) = self.known.get(&rows_hash) {
            return Ok(*place);
        }
        self.scratch.clear();
        let is_new = put_stored(&mut self.forms, &mut self.scratch, rows)?;
        if column_bytes.is_some_and(|bytes| bytes <= self.scratch.len() as u64 * part) {
            self.required |= footer::COLUMN_LISTS;
            return Ok(LEFT);
        }
        if is_new {
            self.required |= footer::LISTS;
        }
        let place = (self.bytes, self.scratch.len() as u64);
        self.out.write_all(&self.scratch).map_err(crate::writer::cannot_write)?;
        self.bytes += place.1;
        self.known.insert(rows_hash, place);
        Ok(place)
    }

    /// Appends a list to `out`: its number, then where it is, or the rows where they are few. With `column_bytes` it may
    /// be left to the column.
    pub(crate) fn put(
        &mut self,
        out: &mut Vec<u8>,
        rows: &[u32],
        inline_bytes_max: usize,
        column_bytes: Option<u64>,
    ) -> Result<()> {
        let inline_bytes_max = inline_bytes_max.min(self.leaving.inline_bytes_max);
        if rows.len() == self.split_rows as usize {
            put_varint(out, 0);
        } else if rows.len() <= inline_bytes_max && deltas_bytes(rows, inline_bytes_max) <= inline_bytes_max {
            put_varint(out, rows.len() as u64 + 1);
            put_deltas(out, rows);
        } else {
            let (at, bytes) = self.store(rows, column_bytes)?;
            for number in [1, at, bytes, rows.len() as u64] {
                put_varint(out, number);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
