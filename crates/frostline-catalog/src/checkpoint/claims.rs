//! Checks what a checkpoint claims against its size before the Parquet reader uses it.
//!
//! A checkpoint has no checksum of ours, because other programs write them, too. A checkpoint that passes is read in
//! time
//! and memory bounded by its size:
//!
//! - The footer has the structure that the reader expects, anything else in it is skipped within
//!   bounds ([`frostline_split::thrift`]), and its columns are one shallow tree.
//! - The column chunks are inside the file and together no longer than it, so no page is read twice.
//! - Every page begins with a valid header ([`frostline_split::page_header`]) and decompresses to at most
//!   [`PAGE_BYTES_MAX`]. All pages together have a limited number of values and bytes per byte of the file.
//! - Texts with delta-encoded lengths have no more lengths than values. Few
//!   programs write such pages; they are decompressed to check this.

use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{Error, Result};
use frostline_split::delta_lengths;
use frostline_split::page_header::{self, PageHeader};
use frostline_split::thrift::{Seen, Shape, Type, walk};
use parquet::basic::{Compression, Encoding};
use parquet::column::page::Page;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;

const MAGIC: &[u8; 4] = b"PAR1";
const SCHEMA_DEPTH_MAX: usize = 64;
const PAGE_BYTES_MAX: u64 = 256 << 20;
/// A row names a file or a writer, which takes some bytes even when compressed; about thirty columns are read of it,
/// and its tags are several values in two of them.
const VALUES_PER_BYTE_MAX: u64 = 256;
/// Maximum decompressed bytes for each compressed byte of repetitive text.
const UNPACKED_PER_BYTE_MAX: u64 = 1024;
/// Maximum decoded size of a checkpoint, whatever its own size.
const DECODED_BYTES_MIN: u64 = 1 << 30;

/// Checks the footer of `file` and the pages of all of its columns.
pub(super) fn check(file: &Bytes) -> Result<()> {
    check_footer(file)?;
    let metadata = ParquetMetaDataReader::new()
        .parse_and_finish(file)
        .map_err(|e| Error::corrupt("there is no Parquet footer").with_source(e))?;
    let mut pages = Pages::of(file);
    metadata.row_groups().iter().flat_map(RowGroupMetaData::columns).try_for_each(|chunk| pages.add(chunk))
}

/// `Corrupt` unless `file` ends with a footer that the reader can process.
pub(super) fn check_footer(file: &[u8]) -> Result<()> {
    let none = || Error::corrupt("there is no Parquet footer");
    let (front, magic) = file.split_last_chunk::<4>().ok_or_else(none)?;
    let (front, bytes) = front.split_last_chunk::<4>().ok_or_else(none)?;
    let start = front.len().checked_sub(u32::from_le_bytes(*bytes) as usize);
    let footer = start.filter(|_| magic == MAGIC).and_then(|start| front.get(start..)).ok_or_else(none)?;
    let mut tree = Tree::default();
    let end = walk(footer, &FILE, &mut |seen| match seen {
        Seen::Int("SchemaElement", 5, children) => tree.children(children),
        Seen::End("SchemaElement") => tree.element(),
        Seen::End("FileMetaData") => tree.end(),
        _ => Ok(()),
    });
    end.map(drop)
}

/// `Corrupt` if the data decoded from `file` exceeds the limit of a checkpoint: a forged one may contain one
/// long text in every row.
pub(super) fn check_decoded(file: &[u8], bytes: usize) -> Result<()> {
    if bytes as u64 > DECODED_BYTES_MIN + UNPACKED_PER_BYTE_MAX * file.len() as u64 {
        return Err(Error::corrupt("a decoded checkpoint is too large").with("bytes", bytes));
    }
    Ok(())
}

/// The columns, each after its group. The reader follows them recursively and allocates space for as
/// many children as a group claims.
#[derive(Default)]
struct Tree {
    elements: usize,
    children: usize,
    /// How many children each open group still lacks.
    open: Vec<usize>,
}

impl Tree {
    fn children(&mut self, count: i64) -> Result<()> {
        self.children = usize::try_from(count).map_err(|_| no_tree())?;
        Ok(())
    }

    fn element(&mut self) -> Result<()> {
        match self.open.last_mut() {
            Some(lacking) => *lacking -= 1,
            None if self.elements > 0 => return Err(no_tree()),
            None => {}
        }
        self.elements += 1;
        self.open.push(std::mem::take(&mut self.children));
        while self.open.pop_if(|lacking| *lacking == 0).is_some() {}
        if self.open.len() > SCHEMA_DEPTH_MAX {
            return Err(no_tree());
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        if self.open.is_empty() { Ok(()) } else { Err(no_tree()) }
    }
}

fn no_tree() -> Error {
    Error::corrupt("the columns are not a tree, or nested too deeply")
}

/// The pages of some columns, counted.
pub(super) struct Pages<'a> {
    file: &'a Bytes,
    packed: u64,
    unpacked: u64,
    values: u64,
    /// The decompressed size of the largest of them.
    pub(super) largest: u64,
}

impl<'a> Pages<'a> {
    pub(super) fn of(file: &'a Bytes) -> Self {
        Pages { file, packed: 0, unpacked: 0, values: 0, largest: 0 }
    }

    /// Counts the pages of one more chunk; `Corrupt` if they claim too much.
    pub(super) fn add(&mut self, chunk: &ColumnChunkMetaData) -> Result<()> {
        let codec = chunk.compression();
        if matches!(codec, Compression::BROTLI(_) | Compression::LZO) {
            // Brotli's reader decompresses without a limit.
            return Err(Error::invalid("the compression of a column is not supported").with("codec", codec));
        }
        let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
        let within = usize::try_from(start).ok().zip(usize::try_from(chunk.compressed_size()).ok());
        let held = within.and_then(|(start, bytes)| Some((start, start.checked_add(bytes)?)));
        let (start, end) = held
            .filter(|(_, end)| *end <= self.file.len())
            .ok_or_else(|| Error::corrupt("a column is outside the file").with("start", start))?;
        self.packed += (end - start) as u64;
        self.check(self.packed, 1, "columns lie in each other")?;
        let (mut at, mut has_lengths) = (start, false);
        while at < end {
            let header = self.page(at, end, codec).map_err(|e| e.with("page", at))?;
            at += header.header_bytes + header.packed_bytes as usize;
            has_lengths |= header.has_lengths;
        }
        if has_lengths { check_lengths(self.file, chunk) } else { Ok(()) }
    }

    fn page(&mut self, at: usize, end: usize, codec: Compression) -> Result<PageHeader> {
        let header = page_header::of_any(self.file.get(at..end).unwrap_or_default())?;
        let left = end - at - header.header_bytes;
        let unpacked = u64::from(header.unpacked_bytes);
        let as_it_is = codec == Compression::UNCOMPRESSED;
        if header.packed_bytes as usize > left || as_it_is && header.packed_bytes != header.unpacked_bytes {
            return Err(Error::corrupt("a page is longer than its column"));
        }
        if unpacked > PAGE_BYTES_MAX {
            return Err(Error::corrupt("a page claims too many decompressed bytes").with("bytes", unpacked));
        }
        self.largest = self.largest.max(unpacked);
        self.unpacked += unpacked;
        self.values += u64::from(header.values);
        self.check(self.unpacked, UNPACKED_PER_BYTE_MAX, "pages claim too many decompressed bytes")?;
        self.check(self.values, VALUES_PER_BYTE_MAX, "pages claim too many values")?;
        Ok(header)
    }

    fn check(&self, count: u64, per_byte: u64, what: &str) -> Result<()> {
        if count > per_byte * self.file.len() as u64 {
            return Err(Error::corrupt(what).with("count", count).with("file_bytes", self.file.len()));
        }
        Ok(())
    }
}

/// `Corrupt` if a page of the chunk, whose headers are sound, has more lengths of texts than values.
fn check_lengths(file: &Bytes, chunk: &ColumnChunkMetaData) -> Result<()> {
    let unreadable = |e: ParquetError| Error::corrupt("a page cannot be decompressed").with_source(e);
    let pages = SerializedPageReader::new(Arc::new(file.clone()), chunk, 0, None).map_err(unreadable)?;
    for page in pages {
        let page = page.map_err(unreadable)?;
        let lists = match page.encoding() {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
            // What a text shares with the last one, and the rest.
            Encoding::DELTA_BYTE_ARRAY => 2,
            _ => continue,
        };
        let values = values_of(&page, chunk.column_descr())
            .ok_or_else(|| Error::corrupt("the levels of a page are longer than it, or of another kind"))?;
        delta_lengths::check(values, lists, page.num_values())?;
    }
    Ok(())
}

/// The part of a data page after the levels.
fn values_of<'a>(page: &'a Page, column: &ColumnDescriptor) -> Option<&'a [u8]> {
    let mut rest: &[u8] = page.buffer();
    match page {
        Page::DataPage { rep_level_encoding, def_level_encoding, .. } => {
            let levels =
                [(column.max_rep_level(), rep_level_encoding), (column.max_def_level(), def_level_encoding)];
            for (_, encoding) in levels.into_iter().filter(|(max, _)| *max > 0) {
                // Levels of another encoding, which is obsolete, do not state their length.
                if *encoding != Encoding::RLE {
                    return None;
                }
                let (bytes, after) = rest.split_first_chunk::<4>()?;
                rest = after.get(u32::from_le_bytes(*bytes) as usize..)?;
            }
            Some(rest)
        }
        Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
            rest.get(def_levels_byte_len.checked_add(*rep_levels_byte_len)? as usize..)
        }
        Page::DictionaryPage { .. } => Some(rest),
    }
}

// The fields of `parquet.thrift` that the reader knows. Encryption fields are not read here, so it skips them.

static FILE: Shape = open(
    "FileMetaData",
    &[
        (1, Type::Int),
        (2, Type::List(&Type::Struct(&SCHEMA_ELEMENT))),
        (3, Type::Int),
        (4, Type::List(&Type::Struct(&ROW_GROUP))),
        (5, Type::List(&Type::Struct(&KEY_VALUE))),
        (6, Type::Binary),
        (7, Type::List(&Type::Struct(&COLUMN_ORDER))),
    ],
);
static SCHEMA_ELEMENT: Shape = open(
    "SchemaElement",
    &[
        (1, Type::Int),
        (2, Type::Int),
        (3, Type::Int),
        (4, Type::Binary),
        (5, Type::Int),
        (6, Type::Int),
        (7, Type::Int),
        (8, Type::Int),
        (9, Type::Int),
        (10, Type::Struct(&LOGICAL_TYPE)),
    ],
);
static LOGICAL_TYPE: Shape = open(
    "LogicalType",
    &[
        (1, NOTHING),
        (2, NOTHING),
        (3, NOTHING),
        (4, NOTHING),
        (5, Type::Struct(&open("DecimalType", &[(1, Type::Int), (2, Type::Int)]))),
        (6, NOTHING),
        (7, Type::Struct(&TIME)),
        (8, Type::Struct(&TIME)),
        (10, Type::Struct(&open("IntType", &[(1, Type::Byte), (2, Type::Bool)]))),
        (11, NOTHING),
        (12, NOTHING),
        (13, NOTHING),
        (14, NOTHING),
        (15, NOTHING),
        (16, Type::Struct(&open("VariantType", &[(1, Type::Byte)]))),
        (17, Type::Struct(&open("GeometryType", &[(1, Type::Binary)]))),
        (18, Type::Struct(&open("GeographyType", &[(1, Type::Binary), (2, Type::Int)]))),
    ],
);
const NOTHING: Type = Type::Struct(&Shape { name: "nothing", fields: &[], open: false });
static TIME: Shape = open("TimeType", &[(1, Type::Bool), (2, Type::Struct(&TIME_UNIT))]);
static TIME_UNIT: Shape = open("TimeUnit", &[(1, NOTHING), (2, NOTHING), (3, NOTHING)]);
static COLUMN_ORDER: Shape = open("ColumnOrder", &[(1, NOTHING)]);
static KEY_VALUE: Shape = open("KeyValue", &[(1, Type::Binary), (2, Type::Binary)]);
static ROW_GROUP: Shape = open(
    "RowGroup",
    &[
        (1, Type::List(&Type::Struct(&COLUMN_CHUNK))),
        (2, Type::Int),
        (3, Type::Int),
        (4, Type::List(&Type::Struct(&SORTING_COLUMN))),
        (5, Type::Int),
        (6, Type::Int),
        (7, Type::Int),
    ],
);
static SORTING_COLUMN: Shape = open("SortingColumn", &[(1, Type::Int), (2, Type::Bool), (3, Type::Bool)]);
static COLUMN_CHUNK: Shape = open(
    "ColumnChunk",
    &[
        (1, Type::Binary),
        (2, Type::Int),
        (3, Type::Struct(&COLUMN)),
        (4, Type::Int),
        (5, Type::Int),
        (6, Type::Int),
        (7, Type::Int),
    ],
);
static COLUMN: Shape = open(
    "ColumnMetaData",
    &[
        (1, Type::Int),
        (2, Type::List(&Type::Int)),
        (3, Type::List(&Type::Binary)),
        (4, Type::Int),
        (5, Type::Int),
        (6, Type::Int),
        (7, Type::Int),
        (8, Type::List(&Type::Struct(&KEY_VALUE))),
        (9, Type::Int),
        (10, Type::Int),
        (11, Type::Int),
        (12, Type::Struct(&STATISTICS)),
        (13, Type::List(&Type::Struct(&ENCODING_STATS))),
        (14, Type::Int),
        (15, Type::Int),
        (16, Type::Struct(&SIZE_STATISTICS)),
        (17, Type::Struct(&GEOSPATIAL_STATISTICS)),
    ],
);
static STATISTICS: Shape = open(
    "Statistics",
    &[
        (1, Type::Binary),
        (2, Type::Binary),
        (3, Type::Int),
        (4, Type::Int),
        (5, Type::Binary),
        (6, Type::Binary),
        (7, Type::Bool),
        (8, Type::Bool),
    ],
);
static ENCODING_STATS: Shape = open("PageEncodingStats", &[(1, Type::Int), (2, Type::Int), (3, Type::Int)]);
static SIZE_STATISTICS: Shape =
    open("SizeStatistics", &[(1, Type::Int), (2, Type::List(&Type::Int)), (3, Type::List(&Type::Int))]);
static GEOSPATIAL_STATISTICS: Shape =
    open("GeospatialStatistics", &[(1, Type::Struct(&BOX)), (2, Type::List(&Type::Int))]);
static BOX: Shape = open(
    "BoundingBox",
    &[
        (1, Type::Double),
        (2, Type::Double),
        (3, Type::Double),
        (4, Type::Double),
        (5, Type::Double),
        (6, Type::Double),
        (7, Type::Double),
        (8, Type::Double),
    ],
);

const fn open(name: &'static str, fields: &'static [(i16, Type)]) -> Shape {
    Shape { name, fields, open: true }
}

#[cfg(test)]
mod tests;
