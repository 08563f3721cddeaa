//! Blocks of dictionary entries in streams.
//!
//! Lengths, text, field numbers and row numbers follow one another in an entry, so that one code for all of them fits
//! none. A block in streams has the same entries taken apart: what is alike is together, and packed by itself. Reading
//! puts the entries together again, and what reads them sees the bytes of a plain block.
//!
//! | stream | what it has |
//! |---|---|
//! | shared, rests | numbers: of each entry how many bytes of the key before it has, and how many follow |
//! | heads | numbers: of each entry the head, or what its list begins with |
//! | values | numbers: the lengths of the values that follow heads |
//! | single | numbers: the rows of lists of one row |
//! | gaps | numbers: all of longer lists |
//! | stored | numbers: the places of stored lists |
//! | tails | for each of the last bytes of keys, from the end, those of all rests that have it |
//! | text | rests without tails |
//! | held | the values that follow heads |
//!
//! Bytes whose count is known are a varint, and what it says: 0 one byte, which all of them are; their count the bytes as
//! they are; less a zstd frame of so many bytes, without its magic number. Numbers are a byte, and what it says: 0 a
//! varint of how many bytes they take as varints, and these; else *planes*, of how many bytes the largest number is: the
//! lowest bytes of all, the next, and so on. Planes are best for what has no order, such as the rows of random ids,
//! varints for what repeats.

use frostline_base::{Error, Result};
use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, compress_bound};

use crate::bytes_codec::{Cursor, put_varint};
use crate::dictionary::{HEAD_BITS, VALUE_BITS, VALUE_FOLLOWS};
use crate::unpack::{ZSTD_MAGIC, unpack_bare};
use crate::writer::cannot_write;

/// No key has more bytes at its end that are not text.
const TAIL_BYTES_MAX: usize = 3;
const HAS_HEADS: u8 = 4;

/// Numbers that are varints.
const VARINTS: u8 = 0;
/// Of how many bytes a number is.
const PLANES_MAX: u8 = 8;
const PLANES_ZSTD_LEVEL: i32 = 1;
const PLANES_MATCH_BYTES_MIN: u32 = 7;
/// A table of this many bits is cleared for each plane.
const PLANES_HASH_LOG: u32 = 10;

/// What the entries of a table have, so far as it says how to take them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryLayout {
    /// Whether a head follows the key, or else a list.
    has_heads: bool,
    /// How many bytes at the end of a key are form and field number.
    tail_bytes: usize,
}

impl EntryLayout {
    /// Of the text dictionary.
    pub(crate) const TEXT: EntryLayout = EntryLayout { has_heads: true, tail_bytes: 3 };
    /// Of the exact dictionary, whose keys begin with the field.
    pub(crate) const EXACT: EntryLayout = EntryLayout { has_heads: true, tail_bytes: 0 };
    /// Of pairs.
    pub(crate) const PAIRS: EntryLayout = EntryLayout { has_heads: false, tail_bytes: 2 };

    fn byte(self) -> u8 {
        self.tail_bytes as u8 | if self.has_heads { HAS_HEADS } else { 0 }
    }

    pub(crate) fn of(byte: u8) -> Option<EntryLayout> {
        let layout =
            EntryLayout { has_heads: byte & HAS_HEADS != 0, tail_bytes: usize::from(byte & !HAS_HEADS) };
        (layout.tail_bytes <= TAIL_BYTES_MAX).then_some(layout)
    }

    /// Whether a value follows a head, and what the list begins with.
    fn of_head(self, head: u64) -> (bool, u64) {
        match self.has_heads {
            true => (head & VALUE_BITS == VALUE_FOLLOWS, head >> HEAD_BITS),
            false => (false, head),
        }
    }
}

/// Where the numbers of a list go.
enum Numbers {
    None,
    Single,
    Gaps(u64),
    Stored,
}

impl Numbers {
    /// Of a list that begins with this number.
    fn of(list: u64) -> Numbers {
        match list {
            0 => Numbers::None,
            1 => Numbers::Stored,
            2 => Numbers::Single,
            more => Numbers::Gaps(more - 1),
        }
    }
}

/// How many numbers the place of a stored list has.
const STORED_NUMBERS: u64 = 3;

/// Entries taken apart.
#[derive(Default)]
struct Streams {
    shared: Vec<u64>,
    rests: Vec<u64>,
    heads: Vec<u64>,
    values: Vec<u64>,
    single: Vec<u64>,
    gaps: Vec<u64>,
    stored: Vec<u64>,
    tails: [Vec<u8>; TAIL_BYTES_MAX],
    text: Vec<u8>,
    held: Vec<u8>,
}

impl Streams {
    fn clear(&mut self) {
        let Streams { shared, rests, heads, values, single, gaps, stored, tails, text, held } = self;
        [shared, rests, heads, values, single, gaps, stored].into_iter().for_each(Vec::clear);
        tails.iter_mut().chain([text, held]).for_each(Vec::clear);
    }

    /// Adds the entries of a plain block.
    fn split(&mut self, raw: &[u8], layout: EntryLayout) -> Result<()> {
        let mut cursor = Cursor::new(raw);
        while !cursor.is_empty() {
            self.shared.push(cursor.varint()?);
            let rest = cursor.bytes()?;
            self.rests.push(rest.len() as u64);
            let (text, tail) = rest.split_at(rest.len().saturating_sub(layout.tail_bytes));
            self.text.extend_from_slice(text);
            tail.iter().rev().zip(&mut self.tails).for_each(|(byte, plane)| plane.push(*byte));
            let head = cursor.varint()?;
            self.heads.push(head);
            let (has_value, list) = layout.of_head(head);
            if has_value {
                let value = cursor.bytes()?;
                self.values.push(value.len() as u64);
                self.held.extend_from_slice(value);
            }
            let (numbers, count) = match Numbers::of(list) {
                Numbers::None => continue,
                Numbers::Single => (&mut self.single, 1),
                Numbers::Gaps(count) => (&mut self.gaps, count),
                Numbers::Stored => (&mut self.stored, STORED_NUMBERS),
            };
            for _ in 0..count {
                numbers.push(cursor.varint()?);
            }
        }
        Ok(())
    }
}

/// Packs blocks of entries in streams, reusing its buffers.
pub(crate) struct StreamPacker {
    layout: EntryLayout,
    streams: Streams,
    out: Vec<u8>,
    packer: BytesPacker,
}

impl StreamPacker {
    pub(crate) fn new(layout: EntryLayout, zstd_level: i32) -> Result<Self> {
        let packer = BytesPacker::new(zstd_level)?;
        Ok(StreamPacker { layout, streams: Streams::default(), out: Vec::new(), packer })
    }

    /// What follows the form of a block in streams, of the entries of a plain block.
    pub(crate) fn pack(&mut self, raw: &[u8]) -> Result<&[u8]> {
        let StreamPacker { layout, streams, out, packer } = self;
        streams.clear();
        streams.split(raw, *layout)?;
        out.clear();
        out.push(layout.byte());
        put_varint(out, streams.shared.len() as u64);
        let Streams { shared, rests, heads, values, single, gaps, stored, tails, text, held } = streams;
        for numbers in [shared, rests, heads, values, single, gaps, stored] {
            packer.put_numbers(out, numbers)?;
        }
        for bytes in tails[..layout.tail_bytes].iter().chain([&*text, &*held]) {
            packer.put_bytes(out, bytes)?;
        }
        Ok(out)
    }
}

/// Packs one stream after the other.
pub(crate) struct BytesPacker {
    texts: Compressor<'static>,
    /// Hardly looks for what repeats, which seldom pays in planes.
    planes: Compressor<'static>,
    bytes: Vec<u8>,
    frame: Vec<u8>,
    varints: Vec<u8>,
}

impl BytesPacker {
    pub(crate) fn new(zstd_level: i32) -> Result<Self> {
        let texts = Compressor::new(zstd_level).map_err(cannot_write)?;
        let mut planes = Compressor::new(PLANES_ZSTD_LEVEL).map_err(cannot_write)?;
        for parameter in [CParameter::MinMatch(PLANES_MATCH_BYTES_MIN), CParameter::HashLog(PLANES_HASH_LOG)]
        {
            planes.set_parameter(parameter).map_err(cannot_write)?;
        }
        Ok(BytesPacker { texts, planes, bytes: Vec::new(), frame: Vec::new(), varints: Vec::new() })
    }

    /// Appends numbers in the smaller of their two forms.
    pub(crate) fn put_numbers(&mut self, out: &mut Vec<u8>, numbers: &[u64]) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let BytesPacker { texts, planes, bytes, frame, varints } = self;
        let start = out.len();
        let all = numbers.iter().fold(0, |all, number| all | number);
        let count = (u64::BITS - all.leading_zeros()).div_ceil(8).max(1);
        out.push(count as u8);
        for at in 0..count {
            bytes.clear();
            bytes.extend(numbers.iter().map(|number| (number >> (8 * at)) as u8));
            put_packed(planes, frame, out, bytes)?;
        }
        let planes_bytes = out.len() - start;
        bytes.clear();
        numbers.iter().for_each(|number| put_varint(bytes, *number));
        // Of one plane they are the same bytes, and nothing repeats where planes pack little.
        if bytes.len() == numbers.len() || planes_bytes >= bytes.len() / 4 * 3 {
            return Ok(());
        }
        varints.clear();
        varints.push(VARINTS);
        put_varint(varints, bytes.len() as u64);
        put_packed(texts, frame, varints, bytes)?;
        if varints.len() < planes_bytes {
            out.truncate(start);
            out.extend_from_slice(varints);
        }
        Ok(())
    }

    pub(crate) fn put_bytes(&mut self, out: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
        put_packed(&mut self.texts, &mut self.frame, out, bytes)
    }
}

/// Appends bytes whose count is known.
fn put_packed(
    compressor: &mut Compressor<'static>,
    frame: &mut Vec<u8>,
    out: &mut Vec<u8>,
    bytes: &[u8],
) -> Result<()> {
    let Some((first, rest)) = bytes.split_first() else { return Ok(()) };
    if rest.iter().all(|byte| byte == first) {
        out.extend_from_slice(&[0, *first]);
        return Ok(());
    }
    frame.clear();
    frame.reserve(compress_bound(bytes.len()));
    compressor.compress_to_buffer(bytes, frame).map_err(cannot_write)?;
    let packed = &frame[ZSTD_MAGIC.len()..];
    let body = if packed.len() < bytes.len() { packed } else { bytes };
    put_varint(out, body.len() as u64);
    out.extend_from_slice(body);
    Ok(())
}

/// The entries of a plain block of at most `raw_bytes_max`, from what follows the form of a block in streams.
pub(crate) fn join(packed: &[u8], raw_bytes_max: usize) -> Result<Vec<u8>> {
    let mut input = StreamReader::new(packed, raw_bytes_max);
    let layout = EntryLayout::of(input.cursor.u8()?).ok_or_else(|| unknown("layout"))?;
    let entries = input.cursor.varint()?;
    let shared = input.numbers(entries)?;
    let rests = input.numbers(entries)?;
    let heads = input.numbers(entries)?;
    let (mut with_value, mut single, mut gaps, mut stored) = (0u64, 0, 0u64, 0);
    for head in &heads {
        let (has_value, list) = layout.of_head(*head);
        with_value += u64::from(has_value);
        match Numbers::of(list) {
            Numbers::None => {}
            Numbers::Single => single += 1,
            Numbers::Gaps(count) => gaps = gaps.saturating_add(count),
            Numbers::Stored => stored += STORED_NUMBERS,
        }
    }
    let values = input.numbers(with_value)?;
    let mut single = input.numbers(single)?.into_iter();
    let mut gaps = input.numbers(gaps)?.into_iter();
    let mut stored = input.numbers(stored)?.into_iter();
    let tail_of = |rest: u64| rest.min(layout.tail_bytes as u64);
    let mut tails = Vec::with_capacity(layout.tail_bytes);
    for at in 0..layout.tail_bytes as u64 {
        tails.push(input.bytes(rests.iter().filter(|rest| **rest > at).count() as u64)?.into_iter());
    }
    let text = input.bytes(sum(rests.iter().map(|rest| rest - tail_of(*rest))))?;
    let held = input.bytes(sum(values.iter().copied()))?;
    if !input.cursor.is_empty() {
        return Err(left_over());
    }
    let (mut text, mut held) = (Cursor::new(&text), Cursor::new(&held));
    let mut values = values.into_iter();
    let mut raw = Vec::with_capacity(raw_bytes_max - input.left);
    for ((shared, rest), head) in shared.into_iter().zip(rests).zip(heads) {
        put_varint(&mut raw, shared);
        put_varint(&mut raw, rest);
        let tail = tail_of(rest);
        raw.extend_from_slice(text.take((rest - tail) as usize)?);
        raw.extend(tails[..tail as usize].iter_mut().rev().filter_map(Iterator::next));
        put_varint(&mut raw, head);
        let (has_value, list) = layout.of_head(head);
        if has_value && let Some(value) = values.next() {
            put_varint(&mut raw, value);
            raw.extend_from_slice(held.take(value as usize)?);
        }
        let (numbers, count) = match Numbers::of(list) {
            Numbers::None => continue,
            Numbers::Single => (&mut single, 1),
            Numbers::Gaps(count) => (&mut gaps, count),
            Numbers::Stored => (&mut stored, STORED_NUMBERS),
        };
        numbers.take(count as usize).for_each(|number| put_varint(&mut raw, number));
    }
    match raw.len() <= raw_bytes_max {
        true => Ok(raw),
        false => Err(too_long()),
    }
}

/// Reads one stream after the other.
pub(crate) struct StreamReader<'a> {
    pub(crate) cursor: Cursor<'a>,
    /// How many bytes what is read may still take, of which each number takes one at least.
    left: usize,
}

impl<'a> StreamReader<'a> {
    pub(crate) fn new(packed: &'a [u8], bytes_max: usize) -> Self {
        StreamReader { cursor: Cursor::new(packed), left: bytes_max }
    }

    pub(crate) fn numbers(&mut self, count: u64) -> Result<Vec<u64>> {
        let count = self.count(count)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        match self.cursor.u8()? {
            VARINTS => {
                // Those of which more than a byte is needed take more of what is left.
                let bytes = self.cursor.varint_usize()?;
                if bytes < count || bytes - count > self.left {
                    return Err(too_long());
                }
                let bytes = self.packed(bytes)?;
                let mut cursor = Cursor::new(&bytes);
                let numbers = (0..count).map(|_| cursor.varint()).collect::<Result<Vec<u64>>>()?;
                if cursor.is_empty() { Ok(numbers) } else { Err(left_over()) }
            }
            planes if planes <= PLANES_MAX => {
                let mut numbers = vec![0; count];
                for at in 0..planes {
                    for (number, byte) in numbers.iter_mut().zip(self.packed(count)?) {
                        *number |= u64::from(byte) << (8 * at);
                    }
                }
                Ok(numbers)
            }
            _ => Err(unknown("numbers")),
        }
    }

    pub(crate) fn bytes(&mut self, count: u64) -> Result<Vec<u8>> {
        let count = self.count(count)?;
        self.packed(count)
    }

    fn count(&mut self, count: u64) -> Result<usize> {
        let count = usize::try_from(count).map_err(|_| too_long())?;
        self.left = self.left.checked_sub(count).ok_or_else(too_long)?;
        Ok(count)
    }

    fn packed(&mut self, count: usize) -> Result<Vec<u8>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        match self.cursor.varint_usize()? {
            0 => Ok(vec![self.cursor.u8()?; count]),
            bytes if bytes == count => Ok(self.cursor.take(bytes)?.to_vec()),
            bytes if bytes < count => unpack_bare(self.cursor.take(bytes)?, count),
            _ => Err(unknown("length")),
        }
    }
}

/// The sum, or more than any block may have.
fn sum(lengths: impl Iterator<Item = u64>) -> u64 {
    lengths.fold(0, u64::saturating_add)
}

fn too_long() -> Error {
    Error::corrupt("a block in streams states more than a block may have")
}

fn left_over() -> Error {
    Error::corrupt("a block in streams has bytes left over")
}

fn unknown(what: &'static str) -> Error {
    Error::corrupt("a block in streams has an unknown form").with("of", what)
}

#[cfg(test)]
mod tests;
