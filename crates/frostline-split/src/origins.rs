//! Where the documents of a merged split first landed, which is their `_id`.
//!
//! A split whose documents came to it first has no origins: its documents are numbered by its own identity and their
//! rows. One into which documents were merged has a [`Table`] of two kinds of entries, each a key, a varint length and
//! a value. A *piece* is 4,096 rows.
//!
//! ```text
//! 0 | split, 16 bytes | piece u32    varint smallest row | varint largest row - smallest
//! 1 | piece u32                      varint origins | each: split, 16 bytes | varint row of its first document
//!                                    u8 form | the origins of the rows
//! ```
//!
//! The first kind finds an `_id`; the second, which names its splits by itself, tells the `_id`s of rows. Form 0 has for
//! each row the number of its origin, in as few bits as the greatest takes; form 1 has runs: varint origin, varint
//! length - 1. The rows of an origin then follow one another. Where they do not, form 2 has runs of such rows, with a
//! signed varint of the rows skipped after the origin's number.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use frostline_base::{Error, Result, SplitId};
use roaring::RoaringBitmap;

use crate::bytes_codec::{Cursor, put_bytes, put_varint};
use crate::footer::{OriginsPlace, put_signed, read_signed};
use crate::reader::Split;
use crate::table::{
    BLOCK_RAW_BYTES_MAX, Block, BlockBuilder, KeyRange, Table, TableWriter, read_key, unpack_block,
};
use crate::unpack::unpack_at_most;

/// The rows of a piece. Its value stays below 192 KiB, whatever their origins are.
const PIECE_ROWS: u32 = 4_096;

const FINDS: u8 = 0;
const TELLS: u8 = 1;

const BITS: u8 = 0;
const RUNS: u8 = 1;
const RUNS_WITH_GAPS: u8 = 2;

/// The split and the row in which a document first landed, written as `split-row`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The split.
    pub split: SplitId,
    /// The row in it.
    pub row: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.split, self.row)
    }
}

impl FromStr for Origin {
    type Err = Error;

    fn from_str(text: &str) -> Result<Origin> {
        let parts =
            text.split_once('-').and_then(|(split, row)| Some((split.parse().ok()?, row.parse().ok()?)));
        let origin = parts.map(|(split, row)| Origin { split, row });
        // Each document has one `_id`, not several spellings of it.
        let origin = origin.filter(|origin| origin.to_string() == text);
        origin.ok_or_else(|| Error::invalid(format!("{text:?} is not a split and a row")))
    }
}

impl Split {
    /// Whether documents first landed in other splits.
    pub fn has_origins(&self) -> bool {
        self.footer.origins.is_some()
    }

    /// The table of origins; of no block where the hot footer has them, or there are none.
    pub fn origins_table(&self) -> Table {
        match &self.footer.origins {
            Some(OriginsPlace::Table(table)) => table.clone(),
            _ => Table::default(),
        }
    }

    /// The keys of [`Split::origins_table`] with the origins of these rows.
    pub fn origin_keys(&self, rows: &RoaringBitmap) -> Vec<KeyRange> {
        pieces(rows).map(|piece| KeyRange::exact(tells(piece))).collect()
    }

    /// The origins of these rows, in row order, given the blocks that can hold [`Split::origin_keys`], in order.
    pub fn origins<'b>(
        &self,
        rows: &RoaringBitmap,
        read: impl IntoIterator<Item = (&'b Block, &'b [u8])>,
    ) -> Result<Vec<Origin>> {
        let (mut left, mut origins) = (rows.iter().peekable(), Vec::with_capacity(rows.len() as usize));
        self.each_origin_entry(read, |key, value| {
            let piece = key.strip_prefix(&[TELLS]).and_then(piece_of);
            let is_in_piece = |row: &u32| Some(row / PIECE_ROWS) == piece;
            if let Some(piece) = piece
                && left.peek().is_some_and(is_in_piece)
            {
                let of_rows = read_piece(value, self.piece_rows(piece))?;
                while let Some(row) = left.next_if(is_in_piece) {
                    origins.extend(of_rows.get((row % PIECE_ROWS) as usize));
                }
            }
            Ok(())
        })?;
        match origins.len() as u64 == rows.len() {
            true => Ok(origins),
            false => Err(Error::corrupt("a split does not say where its documents first landed")),
        }
    }

    /// The keys of [`Split::origins_table`] that find documents of these splits.
    pub fn origin_split_keys(&self, splits: impl IntoIterator<Item = SplitId>) -> Vec<KeyRange> {
        splits.into_iter().map(|split| KeyRange::prefix(finds(split))).collect()
    }

    /// The rows that may have one of these origins, given the blocks that can hold [`Split::origin_split_keys`].
    pub fn rows_near_origins<'b>(
        &self,
        origins: &BTreeSet<Origin>,
        read: impl IntoIterator<Item = (&'b Block, &'b [u8])>,
    ) -> Result<RoaringBitmap> {
        let mut rows = RoaringBitmap::new();
        self.each_origin_entry(read, |key, value| {
            let Some((split, piece)) =
                key.strip_prefix(&[FINDS]).and_then(|key| key.split_first_chunk::<16>())
            else {
                return Ok(());
            };
            let split = SplitId::from_random(u128::from_be_bytes(*split));
            let mut cursor = Cursor::new(value);
            let (first, more) = (cursor.varint_u32()?, cursor.varint_u32()?);
            let within = Origin { split, row: first }..=Origin { split, row: first.saturating_add(more) };
            if let Some(piece) = piece_of(piece)
                && origins.range(within).next().is_some()
            {
                let start = u64::from(piece) * u64::from(PIECE_ROWS);
                rows.insert_range(rows_between(start, start + u64::from(self.piece_rows(piece))));
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// How many rows a piece has; none beyond the last.
    fn piece_rows(&self, piece: u32) -> u32 {
        let start = u64::from(piece) * u64::from(PIECE_ROWS);
        u64::from(self.rows()).saturating_sub(start).min(u64::from(PIECE_ROWS)) as u32
    }

    fn each_origin_entry<'b>(
        &self,
        read: impl IntoIterator<Item = (&'b Block, &'b [u8])>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        match &self.footer.origins {
            None => Ok(()),
            Some(OriginsPlace::Footer { packed, raw_bytes }) => {
                each_entry(&unpack_at_most(packed, BLOCK_RAW_BYTES_MAX.min(*raw_bytes))?, &mut visit)
            }
            Some(OriginsPlace::Table(_)) => read.into_iter().try_for_each(|(block, bytes)| {
                block.check(bytes)?;
                each_entry(&unpack_block(bytes, BLOCK_RAW_BYTES_MAX)?, &mut visit)
            }),
        }
    }
}

fn rows_between(start: u64, end: u64) -> std::ops::Range<u32> {
    let row = |row: u64| u32::try_from(row).unwrap_or(u32::MAX);
    row(start)..row(end)
}

/// Visits the entries of an unpacked block.
pub(crate) fn each_entry(raw: &[u8], visit: &mut impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    let (mut cursor, mut key) = (Cursor::new(raw), Vec::new());
    while !cursor.is_empty() {
        read_key(&mut cursor, &mut key)?;
        visit(&key, cursor.bytes()?)?;
    }
    Ok(())
}

/// The pieces that have any of these rows.
fn pieces(rows: &RoaringBitmap) -> impl Iterator<Item = u32> {
    let mut last = None;
    let pieces = rows.iter().map(|row| row / PIECE_ROWS);
    pieces.filter(move |piece| last.replace(*piece) != Some(*piece))
}

fn piece_of(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.try_into().ok()?))
}

fn finds(split: SplitId) -> Vec<u8> {
    [&[FINDS][..], &split.bits().to_be_bytes()].concat()
}

fn tells(piece: u32) -> Vec<u8> {
    [&[TELLS][..], &piece.to_be_bytes()].concat()
}

/// The origins of documents as they come. The last ones may have none.
#[derive(Debug, Default)]
pub(crate) struct KnownOrigins {
    splits: Vec<SplitId>,
    numbers: HashMap<SplitId, u32>,
    /// For each document the number of its split and its row there.
    rows: Vec<Option<(NonZeroU32, u32)>>,
}

impl KnownOrigins {
    /// Of the document at this place, the last so far.
    pub(crate) fn set(&mut self, place: usize, origin: Origin) {
        let number = *self.numbers.entry(origin.split).or_insert_with(|| {
            self.splits.push(origin.split);
            self.splits.len() as u32
        });
        self.rows.resize(place, None);
        self.rows.push(NonZeroU32::new(number).map(|number| (number, origin.row)));
    }

    /// Of the document at this place.
    pub(crate) fn get(&self, place: u32) -> Option<Origin> {
        let (number, row) = (*self.rows.get(place as usize)?)?;
        Some(Origin { split: *self.splits.get(number.get() as usize - 1)?, row })
    }

    /// All splits.
    pub(crate) fn splits(&self) -> &[SplitId] {
        &self.splits
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Option<(NonZeroU32, u32)>>() + self.splits.len() * 48
    }
}

/// The origins of the rows of a split, encoded.
pub(crate) struct OriginsWriter {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl OriginsWriter {
    /// Of rows in order.
    pub(crate) fn new(origins: impl IntoIterator<Item = Origin>) -> OriginsWriter {
        let (mut found, mut told) = (BTreeMap::new(), Vec::new());
        let mut left = origins.into_iter();
        for piece in 0u32.. {
            let origins: Vec<Origin> = left.by_ref().take(PIECE_ROWS as usize).collect();
            if origins.is_empty() {
                break;
            }
            for origin in &origins {
                let rows = found.entry((origin.split, piece)).or_insert((origin.row, origin.row));
                *rows = (rows.0.min(origin.row), rows.1.max(origin.row));
            }
            told.push((tells(piece), with_length(&put_piece(&origins))));
        }
        let entries = found.into_iter().map(|((split, piece), (first, last))| {
            let mut value = Vec::new();
            put_varint(&mut value, u64::from(first));
            put_varint(&mut value, u64::from(last - first));
            ([finds(split), piece.to_be_bytes().to_vec()].concat(), with_length(&value))
        });
        OriginsWriter { entries: entries.chain(told).collect() }
    }

    /// As one block; none where that would be larger than a block can be.
    pub(crate) fn block(&self) -> Option<Vec<u8>> {
        let mut block = BlockBuilder::new();
        self.entries.iter().for_each(|(key, entry)| block.add(key, entry));
        let block = block.take().map(|(_, entries)| entries).unwrap_or_default();
        (block.len() <= BLOCK_RAW_BYTES_MAX).then_some(block)
    }

    /// As a table.
    pub(crate) fn table(&self, zstd_level: i32) -> Result<TableWriter> {
        let mut table = TableWriter::new(zstd_level)?;
        self.entries.iter().try_for_each(|(key, entry)| table.add(key, entry))?;
        Ok(table)
    }
}

fn with_length(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 4);
    put_bytes(&mut out, value);
    out
}

/// A run of rows of one origin that follow one another in it.
struct Run {
    origin: u32,
    /// Rows of the origin that are not here, since its document before.
    skipped: i64,
    rows: u32,
}

/// The value of a piece.
fn put_piece(origins: &[Origin]) -> Vec<u8> {
    let (mut numbers, mut splits) = (HashMap::new(), Vec::new());
    let (mut of_rows, mut runs) = (Vec::with_capacity(origins.len()), Vec::<Run>::new());
    for origin in origins {
        let number = *numbers.entry(origin.split).or_insert_with(|| {
            splits.push((*origin, origin.row));
            splits.len() - 1
        });
        let (_, next) = &mut splits[number];
        let skipped = i64::from(origin.row) - i64::from(*next);
        // The greatest number of rows is below that of all numbers of 32 bits.
        *next = origin.row.saturating_add(1);
        of_rows.push(number as u32);
        match runs.last_mut() {
            Some(run) if run.origin == number as u32 && skipped == 0 => run.rows += 1,
            _ => runs.push(Run { origin: number as u32, skipped, rows: 1 }),
        }
    }
    let mut out = Vec::new();
    put_varint(&mut out, splits.len() as u64);
    for (origin, _) in &splits {
        out.extend_from_slice(&origin.split.bits().to_be_bytes());
        put_varint(&mut out, u64::from(origin.row));
    }
    let has_gaps = runs.iter().any(|run| run.skipped != 0);
    let mut body = Vec::new();
    for run in &runs {
        put_varint(&mut body, u64::from(run.origin));
        if has_gaps {
            put_signed(&mut body, run.skipped);
        }
        put_varint(&mut body, u64::from(run.rows - 1));
    }
    let bits = bits_of(splits.len() as u32);
    if !has_gaps && (of_rows.len() * bits as usize).div_ceil(8) < body.len() {
        out.push(BITS);
        put_bits(&mut out, &of_rows, bits);
    } else {
        out.push(if has_gaps { RUNS_WITH_GAPS } else { RUNS });
        out.extend_from_slice(&body);
    }
    out
}

/// How many bits a number below `count` takes.
fn bits_of(count: u32) -> u32 {
    u32::BITS - count.saturating_sub(1).leading_zeros()
}

fn put_bits(out: &mut Vec<u8>, numbers: &[u32], bits: u32) {
    let (mut held, mut filled) = (0u64, 0);
    for number in numbers {
        held |= u64::from(*number) << filled;
        filled += bits;
        while filled >= 8 {
            out.push(held as u8);
            (held, filled) = (held >> 8, filled - 8);
        }
    }
    if filled > 0 {
        out.push(held as u8);
    }
}

/// Reads the value of a piece of so many rows.
pub(crate) fn read_piece(value: &[u8], rows: u32) -> Result<Vec<Origin>> {
    let mut cursor = Cursor::new(value);
    let count = cursor.varint_u32()?;
    if count > rows {
        return Err(Error::corrupt("rows of a split have more origins than rows"));
    }
    // The row that comes next of each origin.
    let mut next = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let split = cursor.take(16)?.try_into().map_err(|_| Error::internal("16 bytes are not 16 bytes"))?;
        next.push(Origin {
            split: SplitId::from_random(u128::from_be_bytes(split)),
            row: cursor.varint_u32()?,
        });
    }
    let mut origins = Vec::with_capacity(rows as usize);
    let mut take = |number: usize, skipped: i64, rows: u32| {
        let origin = next.get_mut(number).ok_or_else(|| Error::corrupt("a row has an unknown origin"))?;
        let start = u32::try_from(i64::from(origin.row).saturating_add(skipped));
        let end = start.ok().and_then(|start| Some((start, start.checked_add(rows)?)));
        let (start, end) = end.ok_or_else(|| Error::corrupt("a row has an impossible origin"))?;
        origins.extend((start..end).map(|row| Origin { row, ..*origin }));
        origin.row = end;
        Ok(())
    };
    match cursor.u8()? {
        BITS => {
            let bits = bits_of(count);
            let packed = cursor.take((rows as usize * bits as usize).div_ceil(8))?;
            for row in 0..rows as usize {
                take(bits_at(packed, row * bits as usize, bits) as usize, 0, 1)?;
            }
        }
        form @ (RUNS | RUNS_WITH_GAPS) => {
            let mut left = rows;
            while left > 0 {
                let number = cursor.varint_usize()?;
                let skipped = if form == RUNS { 0 } else { read_signed(&mut cursor)? };
                let run = cursor.varint_u32()?.checked_add(1).filter(|run| *run <= left);
                let run =
                    run.ok_or_else(|| Error::corrupt("a run of origins has more rows than there are"))?;
                take(number, skipped, run)?;
                left -= run;
            }
        }
        form => return Err(Error::corrupt("origins have an unknown form").with("form", form)),
    }
    match cursor.is_empty() {
        true => Ok(origins),
        false => Err(Error::corrupt("origins do not end with the rows")),
    }
}

/// A number of so many bits, from this bit on.
fn bits_at(packed: &[u8], start: usize, bits: u32) -> u32 {
    let bytes = packed.get(start / 8..).unwrap_or_default().iter().take(5);
    let held = bytes.rev().fold(0u64, |held, byte| held << 8 | u64::from(*byte));
    ((held >> (start % 8)) & ((1u64 << bits) - 1)) as u32
}

#[cfg(test)]
mod tests;
