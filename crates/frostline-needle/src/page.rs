//! A page: the entries whose keys lie between two bounds.
//!
//! ```text
//! checksum u32 | entries | groups | bits of a low part u8 | greatest high part
//! bits: how often each class of groups occurs (24 numbers); field sets: count, each: gap to the one before, how often
//! length of each block of 256 entries
//! high parts (a bit vector) | low parts (packed bits) | blocks
//! ```
//!
//! Keys are an Elias-Fano list, so that one is found by counting bits. The groups of an entry (field set and
//! splits) are coded by the page's own frequencies, 256 entries a block, so that a lookup decodes one block.

use bytes::Bytes;
use frostline_base::bytes_codec::{Cursor, put_varint};
use frostline_base::{Error, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::range_coder::{Decoder, Encoder, TOTAL_MAX};

/// No page is longer, unless entries that cannot be told apart by 32 bits of their hashes fill it.
pub(crate) const PAGE_BYTES_MAX: usize = 64 << 10;
/// What no reader accepts.
pub(crate) const PAGE_BYTES_REFUSED: usize = 1 << 20;
/// No entry has more groups; see [`crate::field_table::ANY_FIELD`].
pub(crate) const GROUPS_MAX: usize = 255;
const BLOCK_ENTRIES: usize = 256;

/// Of groups of so many splits the first and the last are coded before the others.
const SPAN_MIN: u32 = 4;

/// A group's class is the logarithm of how many splits it has, or this one where it has all of them.
const EVERYWHERE: u32 = 11;
const CLASSES: u32 = 12;
/// Classes of groups behind which the entry has another one, then those of last groups.
const SYMBOLS: u32 = 2 * CLASSES;

/// That a split has the term in these fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pair {
    /// The number of the set of fields in the segment.
    pub(crate) fields: u32,
    /// The number of the split in the segment.
    pub(crate) split: u16,
}

/// What a page is, as the directory knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Of the checksum: another one for each page of each segment.
    pub(crate) seed: u64,
    /// No key of the page is smaller.
    pub(crate) first_key: u64,
    /// No key is greater.
    pub(crate) last_key: u64,
    /// How many splits the segment covers.
    pub(crate) splits: u16,
    /// How many field sets the segment has.
    pub(crate) field_sets: u32,
}

/// Entries in the order of their keys.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    keys: Vec<u64>,
    /// Where the pairs of each entry end.
    ends: Vec<u32>,
    pairs: Vec<Pair>,
}

impl Entries {
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds an entry with a greater key than all before; its pairs ascend.
    pub(crate) fn push(&mut self, key: u64, pairs: &[Pair]) {
        debug_assert!(self.keys.last().is_none_or(|last| *last < key) && pairs.is_sorted());
        self.keys.push(key);
        self.pairs.extend_from_slice(pairs);
        self.ends.push(self.pairs.len() as u32);
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.ends.clear();
        self.pairs.clear();
    }

    pub(crate) fn key(&self, at: usize) -> u64 {
        self.keys[at]
    }

    fn pairs(&self, at: usize) -> &[Pair] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.pairs[start as usize..self.ends[at] as usize]
    }
}

/// The groups of an entry.
pub(crate) fn groups(pairs: &[Pair]) -> impl Iterator<Item = &[Pair]> {
    pairs.chunk_by(|a, b| a.fields == b.fields)
}

fn class(count: usize, splits: u16) -> u32 {
    if count == usize::from(splits) { EVERYWHERE } else { count.ilog2() }
}

/// The counts of splits that are in a class: the first, and how many.
fn counts_of(class: u32, splits: u16) -> (u32, u32) {
    let all = u32::from(splits);
    if class == EVERYWHERE { (all, 1) } else { (1 << class, all.saturating_sub(1 << class).min(1 << class)) }
}

/// How often each of some numbers occurs.
#[derive(Debug, Default)]
struct Frequencies {
    /// Ascending.
    numbers: Vec<u32>,
    /// Where the share of each begins, and where the last one ends.
    starts: Vec<u32>,
}

impl Frequencies {
    fn new() -> Frequencies {
        Frequencies { numbers: Vec::new(), starts: vec![0] }
    }

    fn total(&self) -> u32 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn push(&mut self, number: u32, count: u32) -> Result<()> {
        let total = self.total().checked_add(count).filter(|total| *total <= TOTAL_MAX);
        self.numbers.push(number);
        self.starts.push(total.ok_or_else(|| Error::corrupt("a page has too many groups"))?);
        Ok(())
    }

    /// Of sorted numbers.
    fn count(numbers: &[u32]) -> Result<Frequencies> {
        let mut frequencies = Frequencies::new();
        for same in numbers.chunk_by(|a, b| a == b) {
            frequencies.push(same[0], same.len() as u32)?;
        }
        Ok(frequencies)
    }

    fn share(&self, at: usize) -> (u32, u32) {
        (self.starts[at], self.starts[at + 1] - self.starts[at])
    }

    fn put(&self, number: u32, coder: &mut Encoder) {
        if let Ok(at) = self.numbers.binary_search(&number) {
            let (start, size) = self.share(at);
            coder.put(start, size, self.total());
        }
    }

    fn take(&self, coder: &mut Decoder) -> u32 {
        let point = coder.peek(self.total());
        let at = self.starts.partition_point(|start| *start <= point) - 1;
        let (start, size) = self.share(at);
        coder.take(start, size, self.total());
        self.numbers[at]
    }
}

/// Encodes the entries of this range, at least one, of which `frame` says more.
pub(crate) fn encode(entries: &Entries, range: std::ops::Range<usize>, frame: &Frame) -> Result<Vec<u8>> {
    let (mut classes, mut sets) = (Vec::new(), Vec::new());
    for at in range.clone() {
        each_group(entries.pairs(at), frame.splits, |symbol, group| {
            classes.push(symbol);
            sets.push(group[0].fields);
        });
    }
    classes.sort_unstable();
    sets.sort_unstable();
    let (classes, sets) = (Frequencies::count(&classes)?, Frequencies::count(&sets)?);

    let (mut blocks, mut lengths) = (Vec::new(), Vec::new());
    let mut coder = Encoder::new();
    for first in range.clone().step_by(BLOCK_ENTRIES) {
        let start = blocks.len();
        for at in first..range.end.min(first + BLOCK_ENTRIES) {
            each_group(entries.pairs(at), frame.splits, |symbol, group| {
                classes.put(symbol, &mut coder);
                sets.put(group[0].fields, &mut coder);
                let (least, counts) = counts_of(symbol % CLASSES, frame.splits);
                coder.put_even(group.len() as u32 - least, counts);
                put_splits(group, u32::from(frame.splits), &mut coder);
            });
        }
        coder.finish_into(&mut blocks);
        lengths.push(blocks.len() - start);
    }

    let keys = &entries.keys[range];
    let count = keys.len() as u64;
    let last = keys.last().map_or(0, |key| key - frame.first_key);
    let low_bits = (last / count).checked_ilog2().unwrap_or(0);
    let high_max = last >> low_bits;

    let mut out = vec![0; 4];
    put_varint(&mut out, count);
    put_varint(&mut out, u64::from(classes.total()));
    out.push(low_bits as u8);
    put_varint(&mut out, high_max);
    let mut bits = BitWriter::default();
    for symbol in 0..SYMBOLS {
        let at = classes.numbers.binary_search(&symbol);
        bits.put_gamma(at.map_or(0, |at| classes.share(at).1));
    }
    bits.put_gamma(sets.numbers.len() as u32);
    let mut next = 0;
    for (at, number) in sets.numbers.iter().enumerate() {
        bits.put_gamma(number - next);
        bits.put_gamma(sets.share(at).1 - 1);
        next = number + 1;
    }
    out.extend(bits.bytes);
    lengths.iter().for_each(|length| put_varint(&mut out, *length as u64));
    let mut highs = vec![0u8; (count + high_max + 1).div_ceil(8) as usize];
    let mut lows = BitWriter::default();
    for (at, key) in keys.iter().enumerate() {
        let from_first = key - frame.first_key;
        let bit = (from_first >> low_bits) as usize + at;
        highs[bit / 8] |= 1 << (bit % 8);
        lows.put(get_low(from_first, low_bits), low_bits);
    }
    out.extend(highs);
    out.extend(lows.bytes);
    out.extend(blocks);
    let sum = checksum(&out[4..], frame.seed);
    out[..4].copy_from_slice(&sum.to_le_bytes());
    Ok(out)
}

fn each_group<'a>(pairs: &'a [Pair], splits: u16, mut visit: impl FnMut(u32, &'a [Pair])) {
    let mut groups = groups(pairs).peekable();
    while let Some(group) = groups.next() {
        let is_last = if groups.peek().is_none() { CLASSES } else { 0 };
        visit(class(group.len(), splits) + is_last, group);
    }
}

/// The splits of a group: of larger ones the last and the first, because their splits are often neighbours, then
/// those between.
fn put_splits(group: &[Pair], splits: u32, coder: &mut Encoder) {
    let count = group.len() as u32;
    let [first, inner @ .., last] = group else { return put_inner(group, 0, splits, coder) };
    if count < SPAN_MIN {
        return put_inner(group, 0, splits, coder);
    }
    let (first, last) = (u32::from(first.split), u32::from(last.split));
    coder.put_even(last + 1 - count, splits + 1 - count);
    coder.put_even(first, last + 2 - count);
    put_inner(inner, first + 1, last, coder);
}

/// Splits from `start` to `end`: first the one in the middle, which bounds those on both sides of it. What has to
/// be there, because as many splits as there is room for follow, costs nothing.
fn put_inner(group: &[Pair], start: u32, end: u32, coder: &mut Encoder) {
    let (before, rest) = group.split_at(group.len() / 2);
    let Some((middle, after)) = rest.split_first() else { return };
    let least = start + before.len() as u32;
    let split = u32::from(middle.split);
    coder.put_even(split - least, end - after.len() as u32 - least);
    put_inner(before, start, split, coder);
    put_inner(after, split + 1, end, coder);
}

/// The reverse of [`put_splits`], ascending, for a `count` of 1 to `splits`.
fn take_splits(count: u32, splits: u32, coder: &mut Decoder, visit: &mut impl FnMut(u16)) {
    if count < SPAN_MIN {
        return take_inner(count, 0, splits, coder, visit);
    }
    let last = count - 1 + coder.even(splits + 1 - count);
    let first = coder.even(last + 2 - count);
    visit(first as u16);
    take_inner(count - 2, first + 1, last, coder, visit);
    visit(last as u16);
}

/// The reverse of [`put_inner`], ascending, for a `count` that is at most `end - start`.
fn take_inner(count: u32, start: u32, end: u32, coder: &mut Decoder, visit: &mut impl FnMut(u16)) {
    if count == 0 {
        return;
    }
    let before = count / 2;
    let after = count - before - 1;
    let least = start + before;
    let split = least + coder.even(end - after - least);
    take_inner(before, start, split, coder, visit);
    visit(split as u16);
    take_inner(after, split + 1, end, coder, visit);
}

/// Bits, the lowest first.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    /// How many bits of the last byte are free.
    free: u32,
}

impl BitWriter {
    /// A number of so many bits, at most 64.
    fn put(&mut self, value: u64, bits: u32) {
        let mut rest = u128::from(value) << ((8 - self.free) % 8);
        let mut left = bits;
        if self.free > 0 {
            if let Some(last) = self.bytes.last_mut() {
                *last |= rest as u8;
            }
            rest >>= 8;
            left = bits.saturating_sub(self.free);
        }
        self.bytes.extend(&rest.to_le_bytes()[..left.div_ceil(8) as usize]);
        self.free = if bits < self.free { self.free - bits } else { (8 - left % 8) % 8 };
    }

    /// A number in twice as many bits as it has and one.
    fn put_gamma(&mut self, value: u32) {
        let value = u64::from(value) + 1;
        let bits = value.ilog2();
        self.put(1 << bits, bits + 1);
        self.put(get_low(value, bits), bits);
    }
}

struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl BitReader<'_> {
    fn gamma(&mut self) -> Result<u32> {
        let zeros = get_bits(self.bytes, self.at, 64).trailing_zeros();
        if zeros > 31 || self.at > self.bytes.len() * 8 {
            return Err(Error::corrupt("a page of a needle segment ends before its end"));
        }
        let low = get_bits(self.bytes, self.at + zeros as usize + 1, zeros);
        self.at += 2 * zeros as usize + 1;
        Ok(((1 << zeros | low) - 1) as u32)
    }
}

/// Up to 64 bits; zeros behind the end.
fn get_bits(bytes: &[u8], at: usize, bits: u32) -> u64 {
    if bits == 0 {
        return 0;
    }
    let mut window = [0u8; 16];
    let from = bytes.get(at / 8..).unwrap_or_default();
    let length = from.len().min(window.len());
    window[..length].copy_from_slice(&from[..length]);
    (u128::from_le_bytes(window) >> (at % 8)) as u64 & (u64::MAX >> (64 - bits))
}

fn checksum(bytes: &[u8], seed: u64) -> u32 {
    xxh3_64_with_seed(bytes, seed) as u32
}

/// A page that was read.
#[derive(Debug)]
pub(crate) struct Page {
    frame: Frame,
    entries: usize,
    low_bits: u32,
    high_max: u64,
    classes: Frequencies,
    sets: Frequencies,
    highs: Bytes,
    lows: Bytes,
    blocks: Vec<Bytes>,
}

impl Page {
    /// `Corrupt` where the bytes are not this page.
    pub(crate) fn open(bytes: &Bytes, frame: Frame) -> Result<Page> {
        let mut cursor = Cursor::new(bytes);
        let expected = cursor.u32_le()?;
        if checksum(cursor.rest(), frame.seed) != expected {
            return Err(Error::corrupt("the checksum of a page of a needle segment does not match"));
        }
        Page::open_checked(&bytes.slice_ref(cursor.rest()), frame)
    }

    /// [`Page::open`] after its checksum: what a fuzzer should reach.
    pub(crate) fn open_checked(bytes: &Bytes, frame: Frame) -> Result<Page> {
        let mut cursor = Cursor::new(bytes);
        let impossible = || Error::corrupt("the numbers of a page of a needle segment contradict each other");
        let bits = bytes.len() as u64 * 8;
        let entries = cursor.varint()?;
        let groups = cursor.varint()?;
        let low_bits = u32::from(cursor.u8()?);
        let high_max = cursor.varint()?;
        if entries == 0
            || entries > bits
            || high_max > bits
            || low_bits > 63
            || high_max > frame.last_key >> low_bits
            || frame.splits == 0
        {
            return Err(impossible());
        }
        let (mut classes, mut last_groups) = (Frequencies::new(), 0);
        let mut numbers = BitReader { bytes: cursor.rest(), at: 0 };
        for symbol in 0..SYMBOLS {
            let count = numbers.gamma()?;
            if count > 0 {
                if counts_of(symbol % CLASSES, frame.splits).1 == 0 {
                    return Err(impossible());
                }
                classes.push(symbol, count)?;
                last_groups += if symbol < CLASSES { 0 } else { u64::from(count) };
            }
        }
        let sets = read_sets(&mut numbers, frame.field_sets)?;
        cursor.take(numbers.at.div_ceil(8))?;
        if u64::from(classes.total()) != groups || sets.total() != classes.total() || last_groups != entries {
            return Err(impossible());
        }
        let entries = entries as usize;
        let lengths = (0..entries.div_ceil(BLOCK_ENTRIES))
            .map(|_| cursor.varint_usize())
            .collect::<Result<Vec<_>>>()?;
        let highs = cursor.take((entries as u64 + high_max + 1).div_ceil(8) as usize)?;
        let lows = cursor.take((entries * low_bits as usize).div_ceil(8))?;
        let blocks = lengths.iter().map(|length| cursor.take(*length)).collect::<Result<Vec<_>>>()?;
        let ones: u64 = highs.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let blocks = blocks.into_iter().map(|block| bytes.slice_ref(block)).collect();
        let (highs, lows) = (bytes.slice_ref(highs), bytes.slice_ref(lows));
        if !cursor.is_empty() || ones != entries as u64 {
            return Err(impossible());
        }
        Ok(Page { frame, entries, low_bits, high_max, classes, sets, highs, lows, blocks })
    }

    /// Calls `visit` with every pair of the entry of this key, if there is one.
    pub(crate) fn find(&self, key: u64, mut visit: impl FnMut(Pair)) -> Result<()> {
        let Some(at) = self.position(key) else { return Ok(()) };
        let mut block = self.block(at / BLOCK_ENTRIES);
        for _ in 0..at % BLOCK_ENTRIES {
            self.take_entry(&mut block, &mut |_| ())?;
        }
        self.take_entry(&mut block, &mut visit)
    }

    /// The number of the entry of this key.
    fn position(&self, key: u64) -> Option<usize> {
        let from_first = key.checked_sub(self.frame.first_key)?;
        let high = from_first.checked_shr(self.low_bits)?;
        if high > self.high_max {
            return None;
        }
        let low = get_low(from_first, self.low_bits);
        let mut bit = self.after_zeros(high as usize)?;
        while self.high_bit(bit) {
            let at = bit - high as usize;
            if get_bits(&self.lows, at * self.low_bits as usize, self.low_bits) == low {
                return Some(at);
            }
            bit += 1;
        }
        None
    }

    fn high_bit(&self, bit: usize) -> bool {
        self.highs.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }

    /// The first bit that has so many zeros before it.
    fn after_zeros(&self, mut zeros: usize) -> Option<usize> {
        if zeros == 0 {
            return Some(0);
        }
        for (at, word) in self.highs.chunks(8).enumerate() {
            let mut bytes = [u8::MAX; 8];
            bytes[..word.len()].copy_from_slice(word);
            let mut ones = u64::from_le_bytes(bytes);
            let here = ones.count_zeros() as usize;
            if zeros > here {
                zeros -= here;
                continue;
            }
            (1..zeros).for_each(|_| ones |= ones + 1);
            return Some(at * 64 + ones.trailing_ones() as usize + 1);
        }
        None
    }

    fn block(&self, number: usize) -> Block {
        let decoder = Decoder::new(self.blocks.get(number).cloned().unwrap_or_default());
        Block { decoder, groups_left: self.classes.total() }
    }

    fn take_entry(&self, block: &mut Block, visit: &mut impl FnMut(Pair)) -> Result<()> {
        let splits = u32::from(self.frame.splits);
        for _ in 0..GROUPS_MAX {
            // Forged blocks may go on for ever without spending a bit.
            let left = block.groups_left.checked_sub(1);
            block.groups_left =
                left.ok_or_else(|| Error::corrupt("a page has more groups than it counts"))?;
            let decoder = &mut block.decoder;
            let symbol = self.classes.take(decoder);
            let fields = self.sets.take(decoder);
            let (least, counts) = counts_of(symbol % CLASSES, self.frame.splits);
            let count = least + decoder.even(counts);
            take_splits(count, splits, decoder, &mut |split| visit(Pair { fields, split }));
            if symbol >= CLASSES {
                return Ok(());
            }
        }
        Err(Error::corrupt("an entry of a needle segment has too many groups"))
    }

    /// The entry behind the last one that `place` was used for: its key, its pairs into `pairs`.
    pub(crate) fn next_entry(&self, place: &mut Place, pairs: &mut Vec<Pair>) -> Result<Option<u64>> {
        if place.entry == self.entries {
            return Ok(None);
        }
        if place.entry.is_multiple_of(BLOCK_ENTRIES) {
            place.block = self.block(place.entry / BLOCK_ENTRIES);
        }
        // There are as many ones as entries.
        while !self.high_bit(place.bit) {
            place.bit += 1;
        }
        let high = (place.bit - place.entry) as u64;
        let low = get_bits(&self.lows, place.entry * self.low_bits as usize, self.low_bits);
        pairs.clear();
        self.take_entry(&mut place.block, &mut |pair| pairs.push(pair))?;
        place.entry += 1;
        place.bit += 1;
        let key = (high << self.low_bits | low).checked_add(self.frame.first_key);
        let key = key.filter(|key| *key <= self.frame.last_key);
        key.map(Some).ok_or_else(|| Error::corrupt("a key of a needle segment is too large"))
    }
}

/// How far the entries of a page have been read.
#[derive(Debug)]
pub(crate) struct Place {
    entry: usize,
    bit: usize,
    block: Block,
}

/// Where a block has been read to.
#[derive(Debug)]
struct Block {
    decoder: Decoder,
    /// No more are in the page.
    groups_left: u32,
}

impl Place {
    pub(crate) fn start() -> Place {
        Place { entry: 0, bit: 0, block: Block { decoder: Decoder::new(Bytes::new()), groups_left: 0 } }
    }
}

fn get_low(value: u64, bits: u32) -> u64 {
    value & ((1 << bits) - 1)
}

fn read_sets(numbers: &mut BitReader<'_>, field_sets: u32) -> Result<Frequencies> {
    let unknown = || Error::corrupt("a page names a set of fields that its segment does not have");
    let (mut sets, mut next) = (Frequencies::new(), 0u32);
    for _ in 0..numbers.gamma()? {
        let number = next.checked_add(numbers.gamma()?).filter(|number| *number < field_sets);
        let number = number.ok_or_else(unknown)?;
        sets.push(number, numbers.gamma()?.saturating_add(1))?;
        next = number + 1;
    }
    Ok(sets)
}

#[cfg(test)]
mod tests;
