//! The stored forms of a list of rows: which one a list has, how it is written and read.
//!
//! | form | body |
//! |---|---|
//! | 1 gaps | count, then varint gaps: how many rows are skipped since the one before |
//! | 2 bitmap | a serialized roaring bitmap |
//! | 3 Rice | count, `k u8`, then bits, low bit first: for each gap `g`, `g >> k` ones, a zero, the `k` low bits of `g` |
//! | 4 runs | count, then for each run: varint rows skipped, varint length - 1 |
//! | 5 gaps packed | varint raw length, zstd of the gaps without its magic number |
//! | 6 runs packed | the same of the runs |
//! | 7 segments | count, a varint length for each [`SEGMENT_ROWS`] rows (0: none is listed), then each as a list by itself |
//!
//! Versions 1 and 2 have the first two forms. A list has its smallest one, but a bitmap if it is little larger, because
//! it is read fastest. Only splits of more than [`SEGMENT_ROWS`] rows have segments: they bound what a packed list
//! unpacks to.

use frostline_base::{Error, Result};
use roaring::RoaringBitmap;

use super::{beyond, decode_deltas, put_deltas};
use crate::bytes_codec::{Cursor, put_varint, varint_bytes};
use crate::unpack::{ZSTD_MAGIC, unpack_bare};

const GAPS: u8 = 1;
const BITMAP: u8 = 2;
const RICE: u8 = 3;
const RUNS: u8 = 4;
const PACKED_GAPS: u8 = 5;
const PACKED_RUNS: u8 = 6;
const SEGMENTS: u8 = 7;

/// How many rows a segment is of, the last one of fewer.
const SEGMENT_ROWS: u32 = 1 << 20;
/// A bitmap is preferred if it is larger than the smallest form by at most one part in so many.
const BITMAP_MARGIN: usize = 3;
/// Gaps or runs of fewer bytes do not pack.
const PACKED_RAW_BYTES_MIN: usize = 64;
const ZSTD_LEVEL: i32 = 3;
/// A gap of 32 bits takes no more as a varint; a run takes two, and skips a row.
const RAW_BYTES_PER_ROW_MAX: u64 = 5;

/// Writes lists, reusing its buffers.
pub(crate) struct FormWriter {
    split_rows: u32,
    /// All forms, not only those of version 2.
    has_all: bool,
    compressor: zstd::bulk::Compressor<'static>,
    gaps: Packable,
    runs: Packable,
}

impl FormWriter {
    pub(crate) fn new(split_rows: u32, version: u32) -> Result<Self> {
        let compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(crate::writer::cannot_write)?;
        let (gaps, runs) = Default::default();
        Ok(FormWriter { split_rows, has_all: version > 2, compressor, gaps, runs })
    }

    /// Appends ascending, unique `rows`. Whether it took a form that version 2 does not have.
    pub(super) fn put(&mut self, out: &mut Vec<u8>, rows: &[u32]) -> Result<bool> {
        let start = out.len();
        if self.has_all && self.split_rows > SEGMENT_ROWS {
            self.put_segments(out, rows)?;
        } else {
            self.put_list(out, rows)?;
        }
        Ok(out[start] > BITMAP)
    }

    fn put_segments(&mut self, out: &mut Vec<u8>, rows: &[u32]) -> Result<()> {
        out.push(SEGMENTS);
        let segments = self.split_rows.div_ceil(SEGMENT_ROWS);
        put_varint(out, u64::from(segments));
        let (mut bodies, mut inside) = (Vec::new(), Vec::new());
        let mut rest = rows;
        for segment in 0..segments {
            let start = segment * SEGMENT_ROWS;
            let (here, after) = rest.split_at(rest.partition_point(|row| row - start < SEGMENT_ROWS));
            rest = after;
            inside.clear();
            inside.extend(here.iter().map(|row| row - start));
            let bytes_before = bodies.len();
            if !inside.is_empty() {
                self.put_list(&mut bodies, &inside)?;
            }
            put_varint(out, (bodies.len() - bytes_before) as u64);
        }
        out.extend_from_slice(&bodies);
        Ok(())
    }

    fn put_list(&mut self, out: &mut Vec<u8>, rows: &[u32]) -> Result<()> {
        let FormWriter { compressor, gaps, runs, .. } = self;
        gaps.clear();
        put_deltas(&mut gaps.raw, rows);
        let mut smallest = (varint_bytes(rows.len() as u32) + gaps.raw.len(), GAPS);
        let (mut rice, mut runs_count, mut margin) = (Rice::default(), 0, 0);
        if self.has_all {
            rice = Rice::of(rows);
            runs.clear();
            runs_count = put_runs(&mut runs.raw, rows);
            // What is larger before it is packed nearly always is so after it.
            let has_short_runs = runs.raw.len() > gaps.raw.len();
            let packed = if has_short_runs { gaps.pack(compressor)? } else { runs.pack(compressor)? };
            for (bytes, form) in [
                (rice.bytes(), RICE),
                (varint_bytes(runs_count) + runs.raw.len(), RUNS),
                (packed, if has_short_runs { PACKED_GAPS } else { PACKED_RUNS }),
            ] {
                if bytes < smallest.0 {
                    smallest = (bytes, form);
                }
            }
            margin = smallest.0 / BITMAP_MARGIN;
        }
        if bitmap_bytes_min(rows) <= smallest.0 + margin {
            let mut bitmap = RoaringBitmap::from_sorted_iter(rows.iter().copied()).unwrap_or_default();
            bitmap.optimize();
            if bitmap.serialized_size() <= smallest.0 + margin {
                out.push(BITMAP);
                // Writing to a Vec cannot fail.
                let _ = bitmap.serialize_into(&mut *out);
                return Ok(());
            }
        }
        out.push(smallest.1);
        match smallest.1 {
            RICE => rice.put(out, rows),
            RUNS => {
                put_varint(out, u64::from(runs_count));
                out.extend_from_slice(&runs.raw);
            }
            PACKED_GAPS => gaps.put(out),
            PACKED_RUNS => runs.put(out),
            _ => {
                put_varint(out, rows.len() as u64);
                out.extend_from_slice(&gaps.raw);
            }
        }
        Ok(())
    }
}

/// Less than what a bitmap takes: for each 65,536 rows it has a bit each, two bytes for each row listed, or four for each
/// run.
fn bitmap_bytes_min(rows: &[u32]) -> usize {
    let pieces = rows.chunk_by(|a, b| a >> 16 == b >> 16).map(|piece| {
        let runs = piece.chunk_by(|a, b| a + 1 == *b).count();
        (2 * piece.len()).min(4 * runs).min(8 << 10)
    });
    pieces.sum()
}

/// What a packed form is of, and its zstd frame.
#[derive(Default)]
struct Packable {
    raw: Vec<u8>,
    packed: Vec<u8>,
}

impl Packable {
    fn clear(&mut self) {
        self.raw.clear();
    }

    /// How many bytes [`Packable::put`] would append.
    fn pack(&mut self, compressor: &mut zstd::bulk::Compressor<'static>) -> Result<usize> {
        if self.raw.len() < PACKED_RAW_BYTES_MIN {
            return Ok(usize::MAX);
        }
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(self.raw.len()));
        compressor.compress_to_buffer(&self.raw, &mut self.packed).map_err(crate::writer::cannot_write)?;
        Ok(varint_bytes(self.raw.len() as u32) + self.packed.len() - ZSTD_MAGIC.len())
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.raw.len() as u64);
        out.extend_from_slice(&self.packed[ZSTD_MAGIC.len()..]);
    }
}

/// How a list takes fewest bits as Rice codes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rice {
    count: u32,
    /// How many low bits of a gap are written as they are.
    k: u32,
    bits: u64,
}

impl Rice {
    fn of(rows: &[u32]) -> Rice {
        let count = rows.len() as u32;
        let skipped = rows.last().map_or(0, |last| last + 1 - count);
        // The best is within one of the logarithm of the mean gap's 0.69th part.
        let middle = (u64::from(skipped) * 69 / (u64::from(count.max(1)) * 100)).checked_ilog2().unwrap_or(0);
        let tried = [middle.saturating_sub(1), middle, middle + 1];
        let mut ones = [0u64; 3];
        for gap in gaps(rows) {
            for (ones, k) in ones.iter_mut().zip(tried) {
                *ones += u64::from(gap >> k);
            }
        }
        let sizes = tried.iter().zip(ones).map(|(k, ones)| (ones + u64::from(count) * u64::from(k + 1), *k));
        let (bits, k) = sizes.min().unwrap_or_default();
        Rice { count, k, bits }
    }

    fn bytes(self) -> usize {
        varint_bytes(self.count) + 1 + self.bits.div_ceil(8) as usize
    }

    fn put(self, out: &mut Vec<u8>, rows: &[u32]) {
        put_varint(out, u64::from(self.count));
        out.push(self.k as u8);
        let mut bits = BitWriter { out, pending: 0, filled: 0 };
        for gap in gaps(rows) {
            let mut ones = gap >> self.k;
            while ones >= 32 {
                bits.put(u64::from(u32::MAX), 32);
                ones -= 32;
            }
            // The ones end with a zero.
            bits.put((1 << ones) - 1, ones + 1);
            bits.put(u64::from(gap) & ((1 << self.k) - 1), self.k);
        }
        bits.finish();
    }
}

/// How many rows are skipped before each.
fn gaps(rows: &[u32]) -> impl Iterator<Item = u32> {
    let mut next = 0;
    rows.iter().map(move |row| row - std::mem::replace(&mut next, row + 1))
}

struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    filled: u32,
}

impl BitWriter<'_> {
    /// Appends the low `count` bits, at most 33; the others are zero.
    fn put(&mut self, bits: u64, count: u32) {
        self.pending |= bits << self.filled;
        self.filled += count;
        while self.filled >= 8 {
            self.out.push(self.pending as u8);
            self.pending >>= 8;
            self.filled -= 8;
        }
    }

    fn finish(self) {
        if self.filled > 0 {
            self.out.push(self.pending as u8);
        }
    }
}

/// Appends runs of rows that follow one another; returns how many.
fn put_runs(out: &mut Vec<u8>, rows: &[u32]) -> u32 {
    let (mut next, mut count) = (0, 0);
    for run in rows.chunk_by(|a, b| a + 1 == *b) {
        put_varint(out, u64::from(run[0] - next));
        put_varint(out, run.len() as u64 - 1);
        next = run[0] + run.len() as u32;
        count += 1;
    }
    count
}

/// Reads a list of a split of `split_rows` rows.
pub(super) fn read(cursor: &mut Cursor<'_>, split_rows: u32) -> Result<RoaringBitmap> {
    match cursor.rest().first() {
        Some(&SEGMENTS) if split_rows > SEGMENT_ROWS => {
            cursor.u8()?;
            read_segments(cursor, split_rows)
        }
        Some(&form) if form > BITMAP && split_rows > SEGMENT_ROWS => {
            Err(Error::corrupt("a postings list of a large split has no segments").with("form", form))
        }
        _ => read_list(cursor, split_rows),
    }
}

fn read_segments(cursor: &mut Cursor<'_>, split_rows: u32) -> Result<RoaringBitmap> {
    let segments = split_rows.div_ceil(SEGMENT_ROWS);
    if cursor.varint_u32()? != segments {
        return Err(Error::corrupt("a postings list does not have the segments of its split"));
    }
    let lengths = (0..segments).map(|_| cursor.varint_usize()).collect::<Result<Vec<_>>>()?;
    let mut all = RoaringBitmap::new();
    for (segment, length) in (0..).zip(lengths).filter(|(_, length)| *length > 0) {
        let start: u32 = segment * SEGMENT_ROWS;
        let rows = read_list(&mut Cursor::new(cursor.take(length)?), SEGMENT_ROWS.min(split_rows - start))?;
        all.append(rows.iter().map(|row| row + start))
            .map_err(|e| Error::internal("the segments of a postings list overlap").with_source(e))?;
    }
    end(cursor)?;
    Ok(all)
}

fn read_list(cursor: &mut Cursor<'_>, rows: u32) -> Result<RoaringBitmap> {
    let read = match cursor.u8()? {
        GAPS => {
            let count = cursor.varint_u32()?;
            let read = decode_deltas(cursor, count, rows)?;
            end(cursor)?;
            read
        }
        BITMAP => {
            let bitmap = RoaringBitmap::deserialize_from(cursor.rest())
                .map_err(|e| Error::corrupt("a postings bitmap cannot be read").with_source(e))?;
            if bitmap.max().is_some_and(|max| max >= rows) {
                return Err(beyond());
            }
            bitmap
        }
        RICE => read_rice(cursor, rows)?,
        RUNS => {
            let count = cursor.varint_u32()?;
            if count > rows {
                return Err(beyond());
            }
            let read = read_runs(cursor, Some(count), rows)?;
            end(cursor)?;
            read
        }
        PACKED_GAPS => {
            let raw = read_packed(cursor, rows)?;
            let mut cursor = Cursor::new(&raw);
            let mut read = Collector::new(raw.len(), rows);
            while !cursor.is_empty() {
                read.row(cursor.varint()?).ok_or_else(beyond)?;
            }
            read.finish()
        }
        PACKED_RUNS => {
            let raw = read_packed(cursor, rows)?;
            read_runs(&mut Cursor::new(&raw), None, rows)?
        }
        form => return Err(Error::corrupt("a postings list has an unknown form").with("form", form)),
    };
    Ok(read)
}

fn end(cursor: &Cursor<'_>) -> Result<()> {
    match cursor.is_empty() {
        true => Ok(()),
        false => Err(Error::corrupt("a postings list has bytes left over")),
    }
}

/// The gaps or runs of a list of `rows` rows at most.
fn read_packed(cursor: &mut Cursor<'_>, rows: u32) -> Result<Vec<u8>> {
    let raw_bytes = cursor.varint()?;
    if raw_bytes > u64::from(rows) * RAW_BYTES_PER_ROW_MAX {
        return Err(Error::corrupt("a postings list states an impossible length").with("length", raw_bytes));
    }
    unpack_bare(cursor.rest(), raw_bytes as usize)
}

/// Reads so many runs, or all that are there.
fn read_runs(cursor: &mut Cursor<'_>, count: Option<u32>, rows: u32) -> Result<RoaringBitmap> {
    let mut read = Collector::new(cursor.rest().len() / 2, rows);
    let mut runs = 0;
    while count.map_or(!cursor.is_empty(), |count| runs < count) {
        read.run(cursor.varint()?, cursor.varint()?).ok_or_else(beyond)?;
        runs += 1;
    }
    Ok(read.finish())
}

fn read_rice(cursor: &mut Cursor<'_>, rows: u32) -> Result<RoaringBitmap> {
    let (count, k, bytes) = (cursor.varint_u32()?, u32::from(cursor.u8()?), cursor.rest());
    if k > 31 || u64::from(count) * u64::from(k + 1) > bytes.len() as u64 * 8 {
        return Err(Error::corrupt("a postings list states an impossible length").with("length", count));
    }
    let mut bits = BitReader { bytes: [bytes, &[0; 8]].concat(), at: 0 };
    let mut read = Collector::new(count as usize, rows);
    for _ in 0..count {
        bits.gap(k).and_then(|gap| read.row(gap)).ok_or_else(beyond)?;
    }
    // What fills the last byte is left.
    match bits.at.div_ceil(8) == bytes.len() {
        true => Ok(read.finish()),
        false => Err(Error::corrupt("a postings list has bytes left over")),
    }
}

struct BitReader {
    /// With eight zero bytes behind them.
    bytes: Vec<u8>,
    at: usize,
}

impl BitReader {
    /// How many bits a window has at least.
    const WINDOW: u32 = 57;

    fn window(&self) -> Option<u64> {
        let eight = self.bytes.get(self.at / 8..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*eight) >> (self.at % 8))
    }

    /// Reads ones, the zero that ends them and `k` bits. None where the bits end or are of no gap of 32 bits.
    fn gap(&mut self, k: u32) -> Option<u64> {
        let mut window = self.window()?;
        let mut ones = window.trailing_ones();
        if ones + 1 + k > Self::WINDOW {
            ones = self.ones()?;
            window = self.window()?;
        } else {
            window >>= ones + 1;
            self.at += ones as usize + 1;
        }
        self.at += k as usize;
        Some(u64::from(ones) << k | window & ((1 << k) - 1))
    }

    /// Reads ones and the zero that ends them.
    fn ones(&mut self) -> Option<u32> {
        let mut ones = 0u32;
        loop {
            let here = self.window()?.trailing_ones();
            ones = ones.checked_add(here)?;
            self.at += here as usize;
            if here < Self::WINDOW - 1 {
                self.at += 1;
                return Some(ones);
            }
        }
    }
}

/// Rows while they are read, ascending and below `rows`.
struct Collector {
    rows: u32,
    next: u32,
    into: Into,
}

enum Into {
    Few(RoaringBitmap),
    /// A bit for each row.
    Many(Vec<u64>),
}

impl Collector {
    /// For a list of about `items` rows or runs.
    fn new(items: usize, rows: u32) -> Self {
        // A bit for each row costs a step for each word of them.
        let into = match rows <= SEGMENT_ROWS && items >= rows as usize / 64 {
            true => Into::Many(vec![0; rows.div_ceil(64) as usize]),
            false => Into::Few(RoaringBitmap::new()),
        };
        Collector { rows, next: 0, into }
    }

    /// Adds the row after `gap` others; none where the split does not have it.
    #[inline]
    fn row(&mut self, gap: u64) -> Option<()> {
        let row = self.after(gap)?;
        match &mut self.into {
            Into::Few(bitmap) => push(bitmap, row),
            Into::Many(words) => *words.get_mut(row as usize / 64)? |= 1 << (row % 64),
        }
        self.next = row + 1;
        Some(())
    }

    /// The same of that row and the `further` that follow it.
    fn run(&mut self, gap: u64, further: u64) -> Option<()> {
        let start = self.after(gap)?;
        if further >= u64::from(self.rows - start) {
            return None;
        }
        self.next = start + further as u32 + 1;
        match &mut self.into {
            Into::Few(bitmap) => drop(bitmap.insert_range(start..self.next)),
            Into::Many(words) => set(words, start, self.next),
        }
        Some(())
    }

    fn after(&self, gap: u64) -> Option<u32> {
        (gap < u64::from(self.rows - self.next)).then(|| self.next + gap as u32)
    }

    fn finish(self) -> RoaringBitmap {
        match self.into {
            Into::Few(bitmap) => bitmap,
            Into::Many(words) => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                RoaringBitmap::from_lsb0_bytes(0, &bytes)
            }
        }
    }
}

/// Adds a row above all others. What it does would fill the loops that call it.
#[inline(never)]
fn push(bitmap: &mut RoaringBitmap, row: u32) {
    let _ = bitmap.try_push(row);
}

/// Sets the bits from `start` up to and without `end`.
fn set(words: &mut [u64], start: u32, end: u32) {
    let mut at = start;
    while at < end {
        let bits = (64 - at % 64).min(end - at);
        words[at as usize / 64] |= (u64::MAX >> (64 - bits)) << (at % 64);
        at += bits;
    }
}

#[cfg(test)]
mod tests;
