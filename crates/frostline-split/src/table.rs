//! A table: entries with ascending keys, in compressed blocks that a sparse index locates.
//!
//! The dictionaries and the digest are tables; what follows the key of an entry is their own. The index has the
//! place of each block and a separator: the shortest key above every key of the block before. It is in the hot
//! footer. One that does not fit there is itself cut into *index blocks*, and the hot footer has the places of
//! these.
//!
//! Reading has two steps, with the caller's read between them: [`Table::blocks`] returns places, and whoever
//! knows the entries decodes them. Where [`Table::index_blocks`] names any, these are read before.

use std::io::Write;

use frostline_base::{ByteRange, Error, Result};

use crate::bytes_codec::{Cursor, checksum, put_varint};
use crate::footer;
use crate::streams::{EntryLayout, StreamPacker, join};
use crate::unpack::unpack_at_most;

/// About how much a block holds before compression.
const BLOCK_RAW_BYTES: usize = 16 << 10;
/// The same of entries that can be taken apart, which pack better.
const ENTRIES_RAW_BYTES: usize = 32 << 10;
/// No block that a writer makes is larger, save where a table says otherwise; a reader refuses to decompress more.
pub(crate) const BLOCK_RAW_BYTES_MAX: usize = 256 << 10;

/// How many blocks an index block locates at most.
const INDEX_BLOCK_ENTRIES: usize = 512;

const BLOCK_PLAIN: u8 = 0;
const BLOCK_ZSTD: u8 = 1;
const BLOCK_STREAMS: u8 = 2;

/// A block is in streams if it is smaller by at least one part in so many.
const STREAMS_MARGIN: usize = 32;

/// Keys from `start` up to and without `end`; no `end` means all that follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub(crate) start: Vec<u8>,
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

    /// Keys from `start` up to and without `end`.
    pub fn between(start: Vec<u8>, end: Option<Vec<u8>>) -> Self {
        KeyRange { start, end }
    }

    /// Whether `key` is inside.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && !self.ends_before(key)
    }

    pub(crate) fn ends_before(&self, key: &[u8]) -> bool {
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

    /// Every key.
    pub fn all() -> Self {
        KeyRanges::from(&KeyRange::all())
    }

    /// A range that all of them are in.
    pub(crate) fn hull(&self) -> &KeyRange {
        &self.hull
    }

    /// Whether one of them has a place for a longer key that starts with `prefix`, and whose next byte is `byte` or
    /// above.
    pub(crate) fn meet(&self, prefix: &[u8], byte: u8) -> bool {
        let begins = |start: &Vec<u8>| start.as_slice() <= prefix || start.starts_with(prefix);
        let before = self.starts.partition_point(begins);
        let end = before.checked_sub(1).and_then(|at| self.ends.get(at));
        end.is_some_and(|end| {
            end.as_deref().is_none_or(|end| match end.strip_prefix(prefix) {
                Some(rest) => rest > [byte].as_slice(),
                None => end > prefix,
            })
        })
    }

    /// Whether `key` is in one of them.
    pub fn contains(&self, key: &[u8]) -> bool {
        let before = self.starts.partition_point(|start| start.as_slice() <= key);
        let end = before.checked_sub(1).and_then(|at| self.ends.get(at));
        end.is_some_and(|end| end.as_deref().is_none_or(|end| key < end))
    }
}

impl From<&KeyRange> for KeyRanges {
    fn from(range: &KeyRange) -> Self {
        KeyRanges::new([range])
    }
}

/// The index of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    entries: Vec<IndexEntry>,
    /// The entries name index blocks.
    has_index_blocks: bool,
}

/// A piece of a split, to be read from `range`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its bytes in the split.
    pub range: ByteRange,
    pub(crate) checksum: u32,
}

impl Table {
    /// About how much memory its index takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.iter().map(|entry| size_of::<IndexEntry>() + entry.separator.len()).sum()
    }
}

impl Block {
    /// Verifies that `bytes` are the block.
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<()> {
        if checksum(bytes) == self.checksum {
            return Ok(());
        }
        let error = Error::corrupt("the checksum of a block does not match");
        Err(error.with("range", format!("{:?}", self.range)))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexEntry {
    /// Not above the block's first key, above every key of the block before.
    pub(crate) separator: Box<[u8]>,
    pub(crate) block: Block,
}

/// The places of the entries whose blocks can hold a key of `keys`; their separators ascend.
pub(crate) fn places_with<T>(
    entries: &[T],
    separator: impl Fn(&T) -> &[u8],
    keys: &KeyRange,
) -> std::ops::Range<usize> {
    let first = entries.partition_point(|entry| separator(entry) <= keys.start.as_slice()).saturating_sub(1);
    let end = entries.partition_point(|entry| !keys.ends_before(separator(entry)));
    first.min(end)..end
}

impl Table {
    /// The blocks that can hold a key of `keys`, in order. `Internal` where its index blocks were not read.
    pub fn blocks(&self, keys: &KeyRange) -> Result<Vec<Block>> {
        match self.has_index_blocks {
            true => Err(Error::internal("the index of a table is wanted that was not read")),
            false => Ok(self.entries_with(keys)),
        }
    }

    /// The index blocks to read before [`Table::blocks`] can say where the keys of `keys` are; none where the
    /// index is whole.
    pub fn index_blocks<'k>(&self, keys: impl IntoIterator<Item = &'k KeyRange>) -> Vec<Block> {
        let mut blocks = Vec::new();
        if self.has_index_blocks {
            keys.into_iter().for_each(|keys| blocks.extend(self.entries_with(keys)));
            blocks.sort_unstable_by_key(|block| block.range.start);
            blocks.dedup();
        }
        blocks
    }

    /// The table, as far as these index blocks say where its blocks are.
    pub fn with_index<'b>(&self, read: impl IntoIterator<Item = (&'b Block, &'b [u8])>) -> Result<Table> {
        let mut entries = Vec::new();
        for (block, bytes) in read {
            block.check(bytes)?;
            read_index_block(&unpack_block(bytes, BLOCK_RAW_BYTES_MAX)?, &mut entries)?;
        }
        Ok(Table { entries, has_index_blocks: false })
    }

    fn entries_with(&self, keys: &KeyRange) -> Vec<Block> {
        let places = places_with(&self.entries, |entry| &entry.separator, keys);
        self.entries[places].iter().map(|entry| entry.block.clone()).collect()
    }

    /// How many blocks the index names.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of the split that hold the blocks that the index names.
    pub(crate) fn range(&self) -> ByteRange {
        let start = self.entries.first().map_or(0, |entry| entry.block.range.start);
        start..self.entries.last().map_or(start, |entry| entry.block.range.end)
    }

    /// Appends the index as it is in a hot footer.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(1 + u8::from(self.has_index_blocks));
        self.encode_entries(out);
    }

    /// Reads what [`Table::encode`] wrote.
    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Table> {
        let has_index_blocks = match cursor.u8()? {
            levels @ (1 | 2) => levels == 2,
            levels => return Err(Error::corrupt("a table has an unknown form").with("levels", levels)),
        };
        Ok(Table { has_index_blocks, ..Table::decode_entries(cursor)? })
    }

    /// Appends the index without its form, as it is in versions 1 and 2.
    pub(crate) fn encode_entries(&self, out: &mut Vec<u8>) {
        put_varint(out, self.range().start);
        put_varint(out, self.entries.len() as u64);
        put_entries(out, &self.entries);
    }

    /// Reads what [`Table::encode_entries`] wrote.
    pub(crate) fn decode_entries(cursor: &mut Cursor<'_>) -> Result<Table> {
        let (start, count) = (cursor.varint()?, cursor.varint_usize()?);
        let mut entries = Vec::new();
        read_entries(cursor, start, Some(count), &mut entries)?;
        Ok(Table { entries, has_index_blocks: false })
    }

    /// Writes the index as index blocks to `out`, which is at byte `start` of the file.
    pub(crate) fn spill(&self, out: &mut impl Write, start: u64, zstd_level: i32) -> Result<Table> {
        let mut packer = BlockPacker::new(zstd_level)?;
        for piece in self.entries.chunks(INDEX_BLOCK_ENTRIES) {
            let Some(first) = piece.first() else { continue };
            let mut raw = Vec::new();
            put_varint(&mut raw, first.block.range.start);
            put_entries(&mut raw, piece);
            packer.pack(first.separator.clone(), &raw)?;
        }
        Ok(Table { has_index_blocks: true, ..packer.finish(out, start)? })
    }

    /// About how many bytes the index takes in a hot footer.
    pub(crate) fn index_bytes(&self) -> usize {
        let mut out = Vec::new();
        self.encode_entries(&mut out);
        out.len()
    }

    /// Whether [`Table::spill`] would make the index smaller.
    pub(crate) fn can_spill(&self) -> bool {
        !self.has_index_blocks && self.entries.len() > 1
    }
}

fn put_entries(out: &mut Vec<u8>, entries: &[IndexEntry]) {
    let mut before: &[u8] = &[];
    for IndexEntry { separator, block } in entries {
        put_key(out, before, separator);
        put_varint(out, block.range.end - block.range.start);
        out.extend_from_slice(&block.checksum.to_le_bytes());
        before = separator;
    }
}

/// Adds the entries of an index block.
pub(crate) fn read_index_block(raw: &[u8], entries: &mut Vec<IndexEntry>) -> Result<()> {
    let mut cursor = Cursor::new(raw);
    let start = cursor.varint()?;
    read_entries(&mut cursor, start, None, entries)
}

/// Reads `count` entries, or all that are there, of blocks from `at` on.
fn read_entries(
    cursor: &mut Cursor<'_>,
    mut at: u64,
    count: Option<usize>,
    entries: &mut Vec<IndexEntry>,
) -> Result<()> {
    let mut separator = Vec::new();
    let mut read = 0;
    while count.map_or(!cursor.is_empty(), |count| read < count) {
        read_key(cursor, &mut separator)?;
        if entries.last().is_some_and(|last: &IndexEntry| separator.as_slice() <= &*last.separator) {
            return Err(Error::corrupt("the separators of a table do not ascend"));
        }
        let end = at.checked_add(cursor.varint()?);
        let end = end.ok_or_else(|| Error::corrupt("a table reaches past the end of any file"))?;
        let block = Block { range: at..end, checksum: cursor.u32_le()? };
        entries.push(IndexEntry { separator: separator.as_slice().into(), block });
        at = end;
        read += 1;
    }
    Ok(())
}

/// Appends `key`, front-coded.
pub(crate) fn put_key(out: &mut Vec<u8>, before: &[u8], key: &[u8]) {
    let shared = shared_prefix(before, key);
    put_varint(out, shared as u64);
    put_varint(out, (key.len() - shared) as u64);
    out.extend_from_slice(&key[shared..]);
}

/// Replaces `key` by the next front-coded key.
pub(crate) fn read_key(cursor: &mut Cursor<'_>, key: &mut Vec<u8>) -> Result<()> {
    let (shared, rest) = (cursor.varint_usize()?, cursor.varint_usize()?);
    if shared > key.len() {
        return Err(Error::corrupt("a front-coded key shares more than the key before it has"));
    }
    key.truncate(shared);
    key.extend_from_slice(cursor.take(rest)?);
    Ok(())
}

pub(crate) fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The entries of a block that holds at most `raw_bytes_max` of them.
pub(crate) fn unpack_block(bytes: &[u8], raw_bytes_max: usize) -> Result<Vec<u8>> {
    match bytes.split_first() {
        Some((&BLOCK_PLAIN, raw)) => Ok(raw.to_vec()),
        Some((&BLOCK_ZSTD, packed)) => unpack_at_most(packed, raw_bytes_max),
        _ => Err(Error::corrupt("a block has an unknown form")),
    }
}

/// The entries of a block of a dictionary, which may be in streams.
pub(crate) fn unpack_entries(bytes: &[u8]) -> Result<Vec<u8>> {
    match bytes.split_first() {
        Some((&BLOCK_STREAMS, packed)) => join(packed, BLOCK_RAW_BYTES_MAX),
        _ => unpack_block(bytes, BLOCK_RAW_BYTES_MAX),
    }
}

/// Cuts ascending entries into blocks.
pub(crate) struct BlockBuilder {
    raw: Vec<u8>,
    last_key: Vec<u8>,
    separator: Box<[u8]>,
    is_first: bool,
}

impl BlockBuilder {
    pub(crate) fn new() -> Self {
        let raw = Vec::with_capacity(2 * BLOCK_RAW_BYTES);
        BlockBuilder { raw, last_key: Vec::new(), separator: Box::default(), is_first: true }
    }

    /// How many bytes the entries of the block take so far.
    pub(crate) fn len(&self) -> usize {
        self.raw.len()
    }

    /// Adds an entry; `key` must be above every key before it, those of other blocks included.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        debug_assert!(self.is_first || self.last_key.as_slice() < key);
        if self.raw.is_empty() {
            // The shortest key that tells this block from the one before.
            let shared = shared_prefix(&self.last_key, key);
            self.separator = if self.is_first { Box::default() } else { key[..shared + 1].into() };
            self.is_first = false;
            self.last_key.clear();
        }
        put_key(&mut self.raw, &self.last_key, key);
        self.raw.extend_from_slice(value);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
    }

    /// The block's separator and entries; the next entry begins another. None where there is no entry.
    pub(crate) fn take(&mut self) -> Option<(Box<[u8]>, Vec<u8>)> {
        if self.raw.is_empty() {
            return None;
        }
        Some((std::mem::take(&mut self.separator), std::mem::take(&mut self.raw)))
    }
}

/// Compresses blocks, and holds them until they are written.
struct BlockPacker {
    packed: Vec<u8>,
    entries: Vec<IndexEntry>,
    compressor: zstd::bulk::Compressor<'static>,
    /// Of entries that can be taken apart.
    streams: Option<StreamPacker>,
    has_streams: bool,
}

impl BlockPacker {
    fn new(zstd_level: i32) -> Result<Self> {
        let compressor = zstd::bulk::Compressor::new(zstd_level).map_err(crate::writer::cannot_write)?;
        let (packed, entries) = Default::default();
        Ok(BlockPacker { packed, entries, compressor, streams: None, has_streams: false })
    }

    fn pack(&mut self, separator: Box<[u8]>, raw: &[u8]) -> Result<()> {
        let start = self.packed.len();
        let packed = self.compressor.compress(raw).map_err(crate::writer::cannot_write)?;
        let (mut form, mut body) =
            if packed.len() < raw.len() { (BLOCK_ZSTD, packed.as_slice()) } else { (BLOCK_PLAIN, raw) };
        if let Some(streams) = &mut self.streams {
            let packed = streams.pack(raw)?;
            if packed.len() + body.len() / STREAMS_MARGIN < body.len() {
                (form, body) = (BLOCK_STREAMS, packed);
                self.has_streams = true;
            }
        }
        self.packed.push(form);
        self.packed.extend_from_slice(body);
        let checksum = checksum(&self.packed[start..]);
        let block = Block { range: start as u64..self.packed.len() as u64, checksum };
        self.entries.push(IndexEntry { separator, block });
        Ok(())
    }

    /// Writes the blocks to `out`, which is at byte `start` of the file.
    fn finish(mut self, out: &mut impl Write, start: u64) -> Result<Table> {
        out.write_all(&self.packed).map_err(crate::writer::cannot_write)?;
        for IndexEntry { block, .. } in &mut self.entries {
            block.range = block.range.start + start..block.range.end + start;
        }
        Ok(Table { entries: self.entries, has_index_blocks: false })
    }
}

/// Builds a table from ascending keys.
pub(crate) struct TableWriter {
    builder: BlockBuilder,
    packer: BlockPacker,
    block_raw_bytes: usize,
}

impl TableWriter {
    pub(crate) fn new(zstd_level: i32) -> Result<Self> {
        let (builder, packer) = (BlockBuilder::new(), BlockPacker::new(zstd_level)?);
        Ok(TableWriter { builder, packer, block_raw_bytes: BLOCK_RAW_BYTES })
    }

    /// Of entries that can be taken apart.
    pub(crate) fn of_entries(layout: EntryLayout, zstd_level: i32) -> Result<Self> {
        let mut writer = TableWriter::new(zstd_level)?;
        writer.packer.streams = Some(StreamPacker::new(layout, zstd_level)?);
        writer.block_raw_bytes = ENTRIES_RAW_BYTES;
        Ok(writer)
    }

    /// The features that a reader needs for the blocks, of which there are no more.
    pub(crate) fn required(&mut self) -> Result<u64> {
        self.finish_block()?;
        Ok(if self.packer.has_streams { footer::STREAMS } else { 0 })
    }

    /// Adds `key`, which must be above every key before it, with what follows it.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.builder.len() >= self.block_raw_bytes {
            self.finish_block()?;
        }
        self.builder.add(key, value);
        Ok(())
    }

    /// Adds `key`, which must be above every key before it, to the block that has the key before it.
    pub(crate) fn add_beside(&mut self, key: &[u8], value: &[u8]) {
        self.builder.add(key, value);
    }

    fn finish_block(&mut self) -> Result<()> {
        match self.builder.take() {
            Some((separator, raw)) => self.packer.pack(separator, &raw),
            None => Ok(()),
        }
    }

    /// Writes the blocks to `out`, which is at byte `start` of the file.
    pub(crate) fn finish(mut self, out: &mut impl Write, start: u64) -> Result<Table> {
        self.finish_block()?;
        self.packer.finish(out, start)
    }
}

/// Compresses `raw` as one block, for a place at byte `start` of the file.
pub(crate) fn pack_block(raw: &[u8], start: u64, zstd_level: i32) -> Result<(Block, Vec<u8>)> {
    let mut packer = BlockPacker::new(zstd_level)?;
    packer.pack(Box::default(), raw)?;
    let mut bytes = Vec::new();
    let range = packer.finish(&mut bytes, start)?.range();
    Ok((Block { range, checksum: checksum(&bytes) }, bytes))
}
