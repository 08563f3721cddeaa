//! Encodes one column of a split as one Parquet column chunk.
//!
//! Values arrive as (row, value number) pairs and distinct values in order, so that a dictionary is
//! written without hashing and a stretch of nulls costs nothing. Pages end at whole rows: after
//! [`PAGE_VALUES_MAX`] values or about [`PAGE_BYTES`] of them, whichever comes first. Pages of long texts are
//! larger, as long as they pack well.

use std::io::Write;

use bytes::Bytes;
use frostline_base::{Error, Result};
use parquet::basic::{BoundaryOrder, Encoding, EncodingMask};
use parquet::column::page::{CompressedPage, Page as ParquetPage, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder};
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use crate::bytes_codec::checksum;
use crate::columns::compression;
use crate::footer::{Bounds, Chunk, ColumnKind, Page, PageBounds};
use crate::mapping::ValueType;
use crate::page_streams::{self, Numbers};
use crate::streams::BytesPacker;
use crate::writer::encode::{RleEncoder, put_delta_packed};

/// A page is closed before it holds more values, unless its first row alone does.
const PAGE_VALUES_MAX: usize = 20_000;
/// No page has more rows, with or without a value.
const PAGE_ROWS_MAX: u32 = 1 << 20;
/// A page is closed before it holds more bytes of values, unless its first row alone does.
const PAGE_BYTES: usize = 128 << 10;
/// The same where texts are long: they have much in common.
const LONG_PAGE_BYTES: usize = 1 << 20;
/// Texts are long if they take so many bytes on average.
const LONG_BYTES_MIN: usize = 64;
/// Reading one row costs a page and a dictionary: neither is larger when packed, unless it is of one row.
const PACKED_BYTES_MAX: usize = 192 << 10;
/// Dictionaries of text are no larger before they are packed,
const DICTIONARY_BYTES_MAX: usize = 1 << 20;
/// but for those of copies, which only Frostline reads.
const COPY_DICTIONARY_BYTES_MAX: usize = 4 << 20;
/// Nor are those of numbers, of which the differences take little room.
const NUMBERS_BYTES_MAX: usize = 256 << 10;
/// Texts take this share less, in percent, where their lengths come first, or these do not.
const LENGTHS_SAVING_MIN: usize = 2;
/// Pages are in streams if the first takes this share less, in percent.
const STREAMS_SAVING_MIN: usize = 2;
/// Texts of more bytes on average are not tried.
const LENGTHS_TEXT_BYTES_MAX: usize = 100;
/// The level that costs least for what it saves.
const QUICK_LEVEL: i32 = 3;
/// So many pages of a chunk are compressed at both levels, to see whether the higher one pays.
const TRIED_PAGES: usize = 4;
/// Bounds of text in the Parquet page index are cut to this.
const TEXT_BOUND_BYTES_MAX: usize = 64;

/// What the values of a column physically are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Physical {
    Boolean,
    Int32,
    Int64,
    Double,
    Bytes,
}

impl Physical {
    pub(crate) fn of(kind: ColumnKind) -> Physical {
        match kind {
            ColumnKind::Time | ColumnKind::Version | ColumnKind::SeqNo => Physical::Int64,
            ColumnKind::Nanos | ColumnKind::FieldNanos { .. } => Physical::Int32,
            ColumnKind::Id
            | ColumnKind::Source
            | ColumnKind::Shape
            | ColumnKind::Residual
            | ColumnKind::Raw
            | ColumnKind::Dynamic { .. } => Physical::Bytes,
            ColumnKind::Field { ty, .. } => match ty {
                ValueType::Boolean => Physical::Boolean,
                ValueType::Long | ValueType::Date => Physical::Int64,
                ValueType::Double => Physical::Double,
                ValueType::Big | ValueType::Ip | ValueType::Text => Physical::Bytes,
            },
        }
    }
}

/// Gives the values that a column's numbers stand for.
pub(crate) trait Cells {
    fn bits(&self, _number: u32) -> u64 {
        0
    }
    fn bytes(&self, _number: u32) -> &[u8] {
        &[]
    }
}

/// One column: value `numbers[i]` in row `rows[i]`, rows ascending.
pub(crate) struct ColumnInput<'a> {
    pub(crate) name: String,
    pub(crate) kind: ColumnKind,
    pub(crate) split_rows: u32,
    pub(crate) rows: &'a [u32],
    pub(crate) numbers: &'a [u32],
    pub(crate) cells: &'a dyn Cells,
    /// The distinct values, ascending, and where each number stands among them; numbers are then
    /// places in it.
    pub(crate) distinct: Option<usize>,
    /// A page is closed before it holds more bytes of values; by what they are where this is not given.
    pub(crate) page_bytes_max: Option<usize>,
}

/// A column chunk ready for the file.
pub(crate) struct EncodedChunk {
    pub(crate) bytes: Bytes,
    pub(crate) close: ColumnCloseResult,
    pub(crate) chunk: Chunk,
    pub(crate) bounds: Option<Bounds>,
    pub(crate) nulls: u64,
    pub(crate) values: usize,
}

/// Encodes columns, reusing its buffers.
pub(crate) struct ChunkEncoder {
    compressor: PageCompressor,
    /// Whether the lengths of texts may come before them.
    may_have_lengths: bool,
    /// Of copies.
    streams: Option<BytesPacker>,
    levels: Vec<u8>,
    values: Vec<u8>,
    body: Vec<u8>,
    whole: Vec<i64>,
    bits: Vec<u64>,
}

/// A page while its rows are known but not yet encoded: rows `start..end` hold values `first..last`, which take
/// about `bytes`.
struct PageCut {
    rows: (u32, u32),
    values: (usize, usize),
    bytes: usize,
}

impl ChunkEncoder {
    /// Packs pages at this level, or at [`QUICK_LEVEL`] where a higher one saves little.
    pub(crate) fn new(zstd_level: i32, may_have_lengths: bool) -> Result<Self> {
        let compressor = PageCompressor::new(zstd_level)?;
        let (streams, levels, values, body, whole, bits) = Default::default();
        Ok(ChunkEncoder { compressor, may_have_lengths, streams, levels, values, body, whole, bits })
    }

    /// For columns that only Frostline reads: pages may be in streams.
    pub(crate) fn of_copies(zstd_level: i32) -> Result<Self> {
        let streams = Some(BytesPacker::new(zstd_level)?);
        Ok(ChunkEncoder { streams, ..ChunkEncoder::new(zstd_level, true)? })
    }

    /// Encodes a column that will be at byte `offset` of the file.
    pub(crate) fn encode(
        &mut self,
        input: &ColumnInput<'_>,
        column: &ColumnDescPtr,
        offset: u64,
    ) -> Result<EncodedChunk> {
        let physical = Physical::of(input.kind);
        self.compressor.next_chunk();
        let texts_max = if self.streams.is_some() { COPY_DICTIONARY_BYTES_MAX } else { DICTIONARY_BYTES_MAX };
        let mut dictionary = input.distinct.filter(|distinct| pays(input, physical, *distinct, texts_max));
        let mut sink = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut sink);
        let mut uncompressed = 0u64;
        let mut dictionary_page = None;
        if let Some(distinct) = dictionary {
            self.values.clear();
            for number in 0..distinct as u32 {
                put_plain(&mut self.values, input.cells, physical, number);
            }
            let buf = self.compressor.compress(&self.values)?;
            if buf.len() > PACKED_BYTES_MAX {
                dictionary = None;
            } else {
                let (num_values, encoding) = (distinct as u32, Encoding::PLAIN);
                let page = ParquetPage::DictionaryPage { buf, num_values, encoding, is_sorted: false };
                let page = CompressedPage::new(page, self.values.len());
                let spec = pages.write_page(page).map_err(internal)?;
                uncompressed += spec.uncompressed_size as u64;
                dictionary_page = Some(spec.compressed_size as u32);
            }
        }
        let encoding = match (physical, dictionary) {
            (_, Some(_)) => Encoding::RLE_DICTIONARY,
            (Physical::Int32 | Physical::Int64, None) => Encoding::DELTA_BINARY_PACKED,
            (Physical::Bytes, None) if self.lengths_pay(input)? => Encoding::DELTA_LENGTH_BYTE_ARRAY,
            _ => Encoding::PLAIN,
        };
        let has_streams = self.streams_pay(input, encoding, dictionary.unwrap_or(0))?;
        let encoding = match encoding {
            Encoding::DELTA_BINARY_PACKED if has_streams => Encoding::PLAIN,
            other => other,
        };
        let mut cutter = Cutter::new(input, physical, dictionary.is_some());
        let (mut cuts, mut sizes) = (Vec::new(), Vec::new());
        while let Some(cut) = cutter.next() {
            let num_values = self.encode_page(input, &cut, encoding, dictionary.unwrap_or(0));
            let buf = match has_streams {
                true => self.in_streams(input, &cut, dictionary)?,
                false => self.compressor.compress(&self.body)?,
            };
            if cutter.is_too_large(&cut, buf.len()) {
                continue;
            }
            let (def_level_encoding, rep_level_encoding) = (Encoding::RLE, Encoding::RLE);
            let page = ParquetPage::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                statistics: None,
            };
            let page = CompressedPage::new(page, self.body.len());
            let spec = pages.write_page(page).map_err(internal)?;
            uncompressed += spec.uncompressed_size as u64;
            sizes.push((spec.compressed_size as u32, num_values));
            cuts.push(cut);
        }
        sink.flush().map_err(crate::writer::cannot_write)?;
        let bytes = Bytes::from(sink.into_inner().map_err(internal)?);
        let chunk = chunk_of(input, offset, &bytes, dictionary_page, &cuts, &sizes, physical)?;
        let has_lengths = encoding == Encoding::DELTA_LENGTH_BYTE_ARRAY;
        let chunk = Chunk { has_lengths, has_streams, ..chunk };
        finish(input, column, physical, encoding, bytes, chunk, &cuts, &sizes, uncompressed)
    }

    /// Whether the first page of texts is smaller if their lengths come before them.
    fn lengths_pay(&mut self, input: &ColumnInput<'_>) -> Result<bool> {
        if !self.may_have_lengths || mean_bytes(input) > LENGTHS_TEXT_BYTES_MAX {
            return Ok(false);
        }
        let Some(cut) = Cutter::new(input, Physical::Bytes, false).next() else { return Ok(false) };
        let mut bytes = |encoding| {
            self.encode_page(input, &cut, encoding, 0);
            self.compressor.quickly(&self.body).map(|packed| packed.len())
        };
        let (plain, lengths_first) = (bytes(Encoding::PLAIN)?, bytes(Encoding::DELTA_LENGTH_BYTE_ARRAY)?);
        Ok(lengths_first * 100 <= plain * (100 - LENGTHS_SAVING_MIN))
    }

    /// Whether the first page is smaller in streams.
    fn streams_pay(&mut self, input: &ColumnInput<'_>, encoding: Encoding, distinct: usize) -> Result<bool> {
        let physical = Physical::of(input.kind);
        let dictionary = (encoding == Encoding::RLE_DICTIONARY).then_some(distinct);
        let has_numbers = dictionary.is_some() || matches!(physical, Physical::Int64 | Physical::Double);
        if self.streams.is_none() || input.kind.is_list() || !has_numbers {
            return Ok(false);
        }
        let Some(cut) = Cutter::new(input, physical, dictionary.is_some()).next() else { return Ok(false) };
        self.encode_page(input, &cut, encoding, distinct);
        let ordinary = self.compressor.quickly(&self.body)?.len();
        let in_streams = self.in_streams(input, &cut, dictionary)?.len();
        Ok(in_streams * 100 <= ordinary * (100 - STREAMS_SAVING_MIN))
    }

    /// The page whose body was built, of single values.
    fn in_streams(
        &mut self,
        input: &ColumnInput<'_>,
        cut: &PageCut,
        dictionary: Option<usize>,
    ) -> Result<Bytes> {
        let packer = self.streams.as_mut().ok_or_else(|| Error::internal("only copies are in streams"))?;
        let numbers = &input.numbers[cut.values.0..cut.values.1];
        self.bits.clear();
        let levels = &self.body[..size_of::<u32>() + self.levels.len()];
        let mut packed = Vec::new();
        let numbers = match (dictionary, Physical::of(input.kind)) {
            (Some(distinct), _) => {
                self.bits.extend(numbers.iter().map(|number| u64::from(*number)));
                Numbers::Places(place_bits(distinct), &self.bits)
            }
            (None, physical) => {
                self.bits.extend(numbers.iter().map(|number| input.cells.bits(*number)));
                let of = if physical == Physical::Double { Numbers::Doubles } else { Numbers::Whole };
                of(&self.bits)
            }
        };
        page_streams::pack(packer, levels, &numbers, &mut packed)?;
        Ok(packed.into())
    }

    /// Builds the body of a page; returns how many values it holds, nulls and empty rows included.
    fn encode_page(
        &mut self,
        input: &ColumnInput<'_>,
        cut: &PageCut,
        encoding: Encoding,
        distinct: usize,
    ) -> u32 {
        let (rows, numbers) =
            (&input.rows[cut.values.0..cut.values.1], &input.numbers[cut.values.0..cut.values.1]);
        self.body.clear();
        let count = if input.kind.is_list() {
            self.put_list_levels(rows, cut.rows)
        } else {
            self.put_scalar_levels(rows, cut.rows)
        };
        match (encoding, Physical::of(input.kind)) {
            (Encoding::RLE_DICTIONARY, _) => {
                let bits = place_bits(distinct);
                self.body.push(bits);
                let mut indices = RleEncoder::new(u32::from(bits));
                numbers.iter().for_each(|number| indices.push(*number, 1, &mut self.body));
                indices.finish(&mut self.body);
            }
            (Encoding::DELTA_BINARY_PACKED, _) => {
                self.put_whole(numbers.iter().map(|number| input.cells.bits(*number) as i64));
            }
            (Encoding::DELTA_LENGTH_BYTE_ARRAY, _) => {
                let texts = || numbers.iter().map(|number| input.cells.bytes(*number));
                self.put_whole(texts().map(|text| text.len() as i64));
                texts().for_each(|text| self.body.extend_from_slice(text));
            }
            (_, Physical::Boolean) => {
                for eight in numbers.chunks(8) {
                    let bits =
                        eight.iter().rev().fold(0, |bits, n| bits << 1 | (input.cells.bits(*n) & 1) as u8);
                    self.body.push(bits);
                }
            }
            (_, physical) => {
                numbers.iter().for_each(|n| put_plain(&mut self.body, input.cells, physical, *n));
            }
        }
        count
    }

    fn put_whole(&mut self, numbers: impl Iterator<Item = i64>) {
        self.whole.clear();
        self.whole.extend(numbers);
        put_delta_packed(&self.whole, &mut self.body);
    }

    fn put_scalar_levels(&mut self, rows: &[u32], (start, end): (u32, u32)) -> u32 {
        let mut present = RleEncoder::new(1);
        self.levels.clear();
        let mut next = start;
        for row in rows {
            if *row > next {
                present.push(0, (row - next) as usize, &mut self.levels);
            }
            present.push(1, 1, &mut self.levels);
            next = row + 1;
        }
        if end > next {
            present.push(0, (end - next) as usize, &mut self.levels);
        }
        present.finish(&mut self.levels);
        self.put_levels();
        end - start
    }

    fn put_list_levels(&mut self, rows: &[u32], (start, end): (u32, u32)) -> u32 {
        let (mut repeated, mut defined) = (RleEncoder::new(1), RleEncoder::new(2));
        let mut definitions = Vec::new();
        self.levels.clear();
        let (mut next, mut count) = (start, 0);
        for row in rows {
            let again = *row < next;
            if *row > next {
                repeated.push(0, (row - next) as usize, &mut self.levels);
                defined.push(0, (row - next) as usize, &mut definitions);
                count += row - next;
            }
            repeated.push(u32::from(again), 1, &mut self.levels);
            defined.push(3, 1, &mut definitions);
            count += 1;
            next = row + 1;
        }
        if end > next {
            repeated.push(0, (end - next) as usize, &mut self.levels);
            defined.push(0, (end - next) as usize, &mut definitions);
            count += end - next;
        }
        repeated.finish(&mut self.levels);
        defined.finish(&mut definitions);
        self.put_levels();
        self.levels = definitions;
        self.put_levels();
        count
    }

    fn put_levels(&mut self) {
        self.body.extend_from_slice(&(self.levels.len() as u32).to_le_bytes());
        self.body.extend_from_slice(&self.levels);
    }
}

/// Packs pages at one of two levels.
struct PageCompressor {
    quick: zstd::bulk::Compressor<'static>,
    /// Of the level that was asked for, where it is higher.
    thorough: Option<zstd::bulk::Compressor<'static>>,
    packed: Vec<u8>,
    /// How many pages of the chunk were packed at both levels, and what they took together.
    tried: (usize, [usize; 2]),
}

impl PageCompressor {
    fn new(zstd_level: i32) -> Result<Self> {
        let compressor = |level| zstd::bulk::Compressor::new(level).map_err(crate::writer::cannot_write);
        let quick = compressor(zstd_level.min(QUICK_LEVEL))?;
        let thorough = (zstd_level > QUICK_LEVEL).then(|| compressor(zstd_level)).transpose()?;
        Ok(PageCompressor { quick, thorough, packed: Vec::new(), tried: Default::default() })
    }

    /// Packs what is not kept.
    fn quickly(&mut self, body: &[u8]) -> Result<Bytes> {
        pack(&mut self.quick, body, &mut self.packed)
    }

    /// The pages that follow are of another column.
    fn next_chunk(&mut self) {
        self.tried = Default::default();
    }

    fn compress(&mut self, body: &[u8]) -> Result<Bytes> {
        let PageCompressor { quick, thorough, packed, tried: (pages, [quickly, thoroughly]) } = self;
        let Some(thorough) = thorough else { return pack(quick, body, packed) };
        if *pages >= TRIED_PAGES {
            // A higher level also makes some pages larger, and all of them dearer.
            let pays = *thoroughly * 100 <= *quickly * 97;
            return pack(if pays { thorough } else { quick }, body, packed);
        }
        let (quick, thorough) = (pack(quick, body, packed)?, pack(thorough, body, packed)?);
        *pages += 1;
        *quickly += quick.len();
        *thoroughly += thorough.len();
        Ok(if thorough.len() < quick.len() { thorough } else { quick })
    }
}

fn pack(
    compressor: &mut zstd::bulk::Compressor<'static>,
    body: &[u8],
    packed: &mut Vec<u8>,
) -> Result<Bytes> {
    packed.clear();
    packed.reserve(zstd::zstd_safe::compress_bound(body.len()));
    compressor.compress_to_buffer(body, packed).map_err(crate::writer::cannot_write)?;
    Ok(Bytes::copy_from_slice(packed))
}

/// Whether a dictionary is worth its page.
fn pays(input: &ColumnInput<'_>, physical: Physical, distinct: usize, texts_max: usize) -> bool {
    if physical == Physical::Boolean || distinct == 0 || distinct * 2 > input.numbers.len() {
        return false;
    }
    let bytes_max = if physical == Physical::Bytes { texts_max } else { NUMBERS_BYTES_MAX };
    let mut bytes = 0;
    for number in 0..distinct as u32 {
        bytes += plain_bytes(input.cells, physical, number);
        if bytes > bytes_max {
            return false;
        }
    }
    true
}

/// How many bits a place in a dictionary takes.
fn place_bits(distinct: usize) -> u8 {
    (distinct as u32).saturating_sub(1).checked_ilog2().map_or(1, |log| log as u8 + 1)
}

/// How long texts are on average.
fn mean_bytes(input: &ColumnInput<'_>) -> usize {
    let bytes: usize = input.numbers.iter().map(|number| input.cells.bytes(*number).len()).sum();
    bytes / input.numbers.len().max(1)
}

fn plain_bytes(cells: &dyn Cells, physical: Physical, number: u32) -> usize {
    match physical {
        Physical::Boolean => 1,
        Physical::Int32 => 4,
        Physical::Int64 | Physical::Double => 8,
        Physical::Bytes => 4 + cells.bytes(number).len(),
    }
}

fn put_plain(out: &mut Vec<u8>, cells: &dyn Cells, physical: Physical, number: u32) {
    match physical {
        Physical::Bytes => {
            let bytes = cells.bytes(number);
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        }
        Physical::Int32 => out.extend_from_slice(&(cells.bits(number) as u32).to_le_bytes()),
        _ => out.extend_from_slice(&cells.bits(number).to_le_bytes()),
    }
}

/// Says where pages begin and end, one after the other.
struct Cutter<'a> {
    input: &'a ColumnInput<'a>,
    physical: Physical,
    dictionary: bool,
    /// The first row of the next page, and its first value.
    start: u32,
    first: usize,
    bytes_max: usize,
    /// What `bytes_max` is where pages pack well.
    packing_well: usize,
}

impl<'a> Cutter<'a> {
    fn new(input: &'a ColumnInput<'a>, physical: Physical, dictionary: bool) -> Self {
        let bytes_max = input.page_bytes_max.unwrap_or_else(|| {
            let texts = physical == Physical::Bytes && !dictionary;
            if texts && mean_bytes(input) >= LONG_BYTES_MIN { LONG_PAGE_BYTES } else { PAGE_BYTES }
        });
        Cutter { input, physical, dictionary, start: 0, first: 0, bytes_max, packing_well: bytes_max }
    }

    /// The next page; the same again until [`Cutter::is_too_large`] has heard of it.
    fn next(&self) -> Option<PageCut> {
        let Cutter { input, start, first, .. } = *self;
        if start >= input.split_rows {
            return None;
        }
        let rows_end = input.split_rows.min(start.saturating_add(PAGE_ROWS_MAX));
        let (mut at, mut bytes) = (first, 0);
        for row in input.rows[first..].chunk_by(|a, b| a == b) {
            let end = at + row.len();
            let row_bytes: usize = input.numbers[at..end].iter().map(|number| self.bytes(*number)).sum();
            let full = end - first > PAGE_VALUES_MAX || bytes + row_bytes > self.bytes_max;
            if row[0] >= rows_end || at > first && full {
                return Some(PageCut { rows: (start, row[0].min(rows_end)), values: (first, at), bytes });
            }
            (at, bytes) = (end, bytes + row_bytes);
        }
        Some(PageCut { rows: (start, rows_end), values: (first, at), bytes })
    }

    /// About how many bytes a value takes in a page.
    fn bytes(&self, number: u32) -> usize {
        match self.physical {
            _ if self.dictionary => 2,
            // Differences take about half of what the numbers do.
            Physical::Int64 => 4,
            Physical::Int32 => 2,
            physical => plain_bytes(self.input.cells, physical, number),
        }
    }

    /// Whether a page that packs to so many bytes must be smaller: then the next one begins where it does and has
    /// half of its values. Otherwise the next one begins where it ends.
    fn is_too_large(&mut self, cut: &PageCut, packed_bytes: usize) -> bool {
        let rows = &self.input.rows[cut.values.0..cut.values.1];
        if packed_bytes > PACKED_BYTES_MAX && rows.first() != rows.last() {
            self.bytes_max = cut.bytes / 2;
            return true;
        }
        if packed_bytes * 3 < PACKED_BYTES_MAX {
            self.bytes_max = self.bytes_max.saturating_mul(2).min(self.packing_well);
        }
        (self.start, self.first) = (cut.rows.1, cut.values.1);
        false
    }
}

fn bounds_of(input: &ColumnInput<'_>, physical: Physical, cut: &PageCut) -> Option<Bounds> {
    let numbers = &input.numbers[cut.values.0..cut.values.1];
    let whole = || numbers.iter().map(|number| input.cells.bits(*number) as i64);
    let fraction = || numbers.iter().map(|number| f64::from_bits(input.cells.bits(*number)));
    match physical {
        Physical::Int32 | Physical::Int64 | Physical::Boolean => {
            Some(Bounds::Long(whole().min()?, whole().max()?))
        }
        Physical::Double => {
            let (min, max) = (fraction().reduce(f64::min)?, fraction().reduce(f64::max)?);
            // Zero has two signs and Parquet wants the bounds to hold both.
            let min = if min == 0.0 { -0.0 } else { min };
            Some(Bounds::Double(min, if max == 0.0 { 0.0 } else { max }))
        }
        Physical::Bytes => None,
    }
}

/// Checksums the pages and says where they are.
fn chunk_of(
    input: &ColumnInput<'_>,
    offset: u64,
    bytes: &[u8],
    dictionary: Option<u32>,
    cuts: &[PageCut],
    sizes: &[(u32, u32)],
    physical: Physical,
) -> Result<Chunk> {
    let mut rest = bytes;
    let mut page = |bytes: u32, rows: u32| -> Result<Page> {
        let (held, after) = rest
            .split_at_checked(bytes as usize)
            .ok_or_else(|| Error::internal("a column chunk is shorter than its pages"))?;
        rest = after;
        Ok(Page { bytes, rows, checksum: checksum(held), skip: 0 })
    };
    let dictionary = dictionary.map(|bytes| page(bytes, 0)).transpose()?;
    let pages = cuts.iter().zip(sizes).map(|(cut, (bytes, _))| page(*bytes, cut.rows.1 - cut.rows.0));
    let pages = pages.collect::<Result<Vec<_>>>()?;
    let kept = matches!(physical, Physical::Int64 | Physical::Double);
    let bounds = cuts
        .iter()
        .filter(|_| kept)
        .map(|cut| PageBounds { rows: cut.rows.0..cut.rows.1, values: bounds_of(input, physical, cut) });
    let bounds = bounds.collect();
    let (name, kind) = (input.name.clone(), input.kind);
    Ok(Chunk { name, kind, offset, dictionary, has_lengths: false, has_streams: false, pages, bounds })
}

/// The chunk with the metadata that other Parquet readers go by.
fn finish(
    input: &ColumnInput<'_>,
    column: &ColumnDescPtr,
    physical: Physical,
    encoding: Encoding,
    bytes: Bytes,
    chunk: Chunk,
    cuts: &[PageCut],
    sizes: &[(u32, u32)],
    uncompressed: u64,
) -> Result<EncodedChunk> {
    let values: u64 = sizes.iter().map(|(_, values)| u64::from(*values)).sum();
    let nulls = values - input.numbers.len() as u64;
    let first_page = chunk.dictionary_bytes() as i64;
    let mut encodings = vec![Encoding::RLE, encoding];
    encodings.extend(chunk.dictionary.as_ref().map(|_| Encoding::PLAIN));
    let whole = PageCut { rows: (0, input.split_rows), values: (0, input.numbers.len()), bytes: 0 };
    let bounds = bounds_of(input, physical, &whole);
    let mut metadata = ColumnChunkMetaData::builder(column.clone())
        .set_compression(compression())
        .set_encodings_mask(EncodingMask::new_from_encodings(encodings.iter()))
        .set_num_values(values as i64)
        .set_total_compressed_size(bytes.len() as i64)
        .set_total_uncompressed_size(uncompressed as i64)
        .set_data_page_offset(first_page)
        .set_dictionary_page_offset(chunk.dictionary.as_ref().map(|_| 0));
    if let Some(statistics) = statistics(physical, bounds, nulls) {
        metadata = metadata.set_statistics(statistics);
    }
    let column_index = if matches!(input.kind, ColumnKind::Source | ColumnKind::Raw) {
        None
    } else {
        column_index(input, physical, column, cuts, sizes)?
    };
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: u64::from(input.split_rows),
        metadata: metadata.build().map_err(internal)?,
        bloom_filter: None,
        column_index,
        offset_index: Some(offset_index(first_page, cuts, sizes)),
    };
    Ok(EncodedChunk { bytes, close, chunk, bounds, nulls, values: input.numbers.len() })
}

fn statistics(physical: Physical, bounds: Option<Bounds>, nulls: u64) -> Option<Statistics> {
    let nulls = Some(nulls);
    match (physical, bounds) {
        (Physical::Boolean, Some(Bounds::Long(min, max))) => {
            Some(Statistics::boolean(Some(min != 0), Some(max != 0), None, nulls, false))
        }
        (Physical::Int32, Some(Bounds::Long(min, max))) => {
            Some(Statistics::int32(Some(min as i32), Some(max as i32), None, nulls, false))
        }
        (Physical::Int64, Some(Bounds::Long(min, max))) => {
            Some(Statistics::int64(Some(min), Some(max), None, nulls, false))
        }
        (_, Some(Bounds::Double(min, max))) => {
            Some(Statistics::double(Some(min), Some(max), None, nulls, false))
        }
        _ => None,
    }
}

fn offset_index(first_page: i64, cuts: &[PageCut], sizes: &[(u32, u32)]) -> OffsetIndexMetaData {
    let mut offset = first_page;
    let locations = cuts.iter().zip(sizes).map(|(cut, (bytes, _))| {
        let (compressed_page_size, first_row_index) = (*bytes as i32, i64::from(cut.rows.0));
        let location = PageLocation { offset, compressed_page_size, first_row_index };
        offset += i64::from(*bytes);
        location
    });
    OffsetIndexMetaData { page_locations: locations.collect(), unencoded_byte_array_data_bytes: None }
}

fn column_index(
    input: &ColumnInput<'_>,
    physical: Physical,
    column: &ColumnDescPtr,
    cuts: &[PageCut],
    sizes: &[(u32, u32)],
) -> Result<Option<parquet::file::page_index::column_index::ColumnIndexMetaData>> {
    let mut index = ColumnIndexBuilder::new(column.physical_type());
    for (cut, (_, values)) in cuts.iter().zip(sizes) {
        let present = cut.values.1 - cut.values.0;
        let nulls = i64::from(*values) - present as i64;
        if present == 0 {
            index.append(true, Vec::new(), Vec::new(), nulls);
            continue;
        }
        let bounds = match bounds_of(input, physical, cut) {
            Some(Bounds::Long(min, max)) if physical == Physical::Boolean => {
                Some((vec![min as u8], vec![max as u8]))
            }
            Some(Bounds::Long(min, max)) if physical == Physical::Int32 => {
                Some(((min as i32).to_le_bytes().to_vec(), (max as i32).to_le_bytes().to_vec()))
            }
            Some(Bounds::Long(min, max)) => Some((min.to_le_bytes().to_vec(), max.to_le_bytes().to_vec())),
            Some(Bounds::Double(min, max)) => Some((min.to_le_bytes().to_vec(), max.to_le_bytes().to_vec())),
            None => text_bounds(input, cut),
        };
        let Some((min, max)) = bounds else { return Ok(None) };
        index.append(false, min, max, nulls);
    }
    let order =
        if input.kind == ColumnKind::Time { BoundaryOrder::ASCENDING } else { BoundaryOrder::UNORDERED };
    index.set_boundary_order(order);
    index.build().map(Some).map_err(internal)
}

/// Bounds of texts, cut short where they are long; `None` where no short upper bound exists.
fn text_bounds(input: &ColumnInput<'_>, cut: &PageCut) -> Option<(Vec<u8>, Vec<u8>)> {
    let numbers = || input.numbers[cut.values.0..cut.values.1].iter();
    let (min, max) = if input.distinct.is_some() {
        // Numbers of distinct values are in the values' order.
        (input.cells.bytes(*numbers().min()?), input.cells.bytes(*numbers().max()?))
    } else {
        let bytes = || numbers().map(|number| input.cells.bytes(*number));
        (bytes().min()?, bytes().max()?)
    };
    Some((lower_bound(min), upper_bound(max)?))
}

fn cut_text(text: &[u8]) -> &str {
    let text = std::str::from_utf8(text).unwrap_or_default();
    &text[..text.floor_char_boundary(TEXT_BOUND_BYTES_MAX)]
}

fn lower_bound(text: &[u8]) -> Vec<u8> {
    cut_text(text).as_bytes().to_vec()
}

/// The text, or where it is long the least shorter text above all that start like it.
fn upper_bound(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() <= TEXT_BOUND_BYTES_MAX {
        return Some(text.to_vec());
    }
    let mut short = cut_text(text).to_owned();
    while let Some(last) = short.pop() {
        let above = char::from_u32(u32::from(last) + 1);
        if let Some(above) = above.filter(|c| c.len_utf8() == last.len_utf8()) {
            short.push(above);
            return Some(short.into_bytes());
        }
    }
    None
}

pub(crate) fn internal(e: ParquetError) -> Error {
    match e {
        ParquetError::External(cause) => Error::unavailable("the split cannot be written").with_source(cause),
        other => Error::internal("the Parquet writer refused a column").with_source(other),
    }
}
