//! The hot footer of version 3.

use std::io::Write;

use super::*;
use crate::bytes_codec::checksum;
use crate::bytes_codec::put_bytes;
use crate::dictionary::{Entries, read_place};
use crate::fields::{self, FieldRecord};
use crate::render::RENDERER_VERSION;
use crate::table::pack_block;

/// Entries of the dictionaries have heads; see [`Dictionary`].
pub(crate) const ENTRY_HEADS: u64 = 1;
/// The feature of lists in forms that version 2 does not have.
pub(crate) const LISTS: u64 = 1 << 1;
/// The split has several row groups.
pub(crate) const ROW_GROUPS: u64 = 1 << 2;
/// Documents are made again from columns.
pub(crate) const RENDERED: u64 = 1 << 3;
/// The feature of documents that first landed in other splits.
pub(crate) const ORIGINS: u64 = 1 << 5;
/// The feature of times with nanoseconds.
pub(crate) const NANOS: u64 = 1 << 6;
/// The feature of fields of which the dictionaries have nothing.
pub(crate) const UNINDEXED_FIELDS: u64 = 1 << 7;
/// The feature of pages in which the lengths of texts come before the texts.
pub(crate) const TEXT_LENGTHS: u64 = 1 << 8;
/// The feature of blocks of dictionaries in streams.
pub(crate) const STREAMS: u64 = 1 << 9;
/// The feature of lists that are left to the column.
pub(crate) const COLUMN_LISTS: u64 = 1 << 10;
/// The feature of identities that clients gave.
pub(crate) const CLIENT_IDS: u64 = 1 << 11;
/// The feature of pages of scan copies in streams.
pub(crate) const PAGE_STREAMS: u64 = 1 << 12;
/// The feature of dates of fields with nanoseconds.
pub(crate) const DATE_NANOS: u64 = 1 << 13;
/// The features that this reader knows.
const REQUIRED_KNOWN: u64 = ENTRY_HEADS
    | LISTS
    | ROW_GROUPS
    | RENDERED
    | ORIGINS
    | NANOS
    | UNINDEXED_FIELDS
    | TEXT_LENGTHS
    | STREAMS
    | COLUMN_LISTS
    | CLIENT_IDS
    | PAGE_STREAMS
    | DATE_NANOS;
/// The rules that make the keys of the text dictionary.
const ANALYSER: u64 = 2;
const WRITER: &str = concat!("frostline ", env!("CARGO_PKG_VERSION"));

/// A hot footer of more bytes is not one of ours, and so is a body that unpacks to more.
const PACKED_BYTES_MAX: usize = 1 << 20;
const BODY_BYTES_MAX: usize = 4 << 20;

const TIME: u8 = 0;
const SOURCE: u8 = 1;
const TIME_NANOS: u8 = 2;
const ID: u8 = 3;
const VERSION: u8 = 4;
const DYNAMIC: u8 = 5;
const SEQ_NO: u8 = 6;

const TEXT: u64 = 2;
const EXACT: u64 = 3;
const PAIRS: u64 = 4;
const DIGEST: u64 = 5;
const STORED: u64 = 6;
const OF_ORIGINS: u64 = 7;

/// The first row group begins after the four bytes that every Parquet file begins with.
const FIRST_GROUP: u64 = 4;

/// What the digest, or the origins, begin with where they are in the hot footer, instead of a table's form.
const HERE: u8 = 0;

/// What the hot footer of a split says, before it is decided what of it has to be outside.
pub(crate) struct Contents {
    pub(crate) id: SplitId,
    /// The features that a reader must know.
    pub(crate) required: u64,
    pub(crate) rows: u32,
    pub(crate) rows_without_time: u32,
    pub(crate) times: Option<(i64, i64)>,
    /// The columns that belong to no field.
    pub(crate) own: Vec<Chunk>,
    /// Where documents are made again from columns; of none where `_source` has them.
    pub(crate) groups: Vec<RowGroup>,
    pub(crate) fields: Vec<FieldRecord>,
    pub(crate) text: Dictionary,
    pub(crate) exact: Dictionary,
    pub(crate) pairs: Dictionary,
    pub(crate) digest: DigestPlace,
    pub(crate) origins: Option<OriginsPlace>,
    pub(crate) lists: ByteRange,
}

/// What can be outside, by where the body has it.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Text,
    Exact,
    Pairs,
    Digest,
    Origins,
    Own(usize),
}

/// A body in the making: the places of what went outside.
struct Body<'c> {
    contents: &'c Contents,
    text: Table,
    exact: Table,
    pairs: Table,
    digest: DigestPlace,
    origins: Option<OriginsPlace>,
    /// Of each column of our own, where its pages are described and the length of that unpacked.
    own: Vec<Option<(Block, usize)>>,
    blocks: Vec<fields::RawFields>,
    /// Where each block of fields is; none for those that the body has.
    places: Vec<Option<Block>>,
}

/// The hot footer of a split, of at most `bytes_max` bytes if that can be. What does not fit is written to `out`, which
/// is at byte `start` of the file.
pub(crate) fn write(
    contents: &Contents,
    out: &mut impl Write,
    start: u64,
    bytes_max: usize,
    zstd_level: i32,
) -> Result<Unsummed> {
    let blocks = fields::write_blocks(&contents.fields);
    let mut body = Body {
        contents,
        text: contents.text.table().clone(),
        exact: contents.exact.table().clone(),
        pairs: contents.pairs.table().clone(),
        digest: contents.digest.clone(),
        origins: contents.origins.clone(),
        own: vec![None; contents.own.len()],
        places: vec![None; blocks.len()],
        blocks,
    };
    let mut outside = Counted { out, at: start };
    let whole = body.pack(zstd_level)?;
    if whole.bytes() <= bytes_max.min(PACKED_BYTES_MAX) && body.encode().len() <= BODY_BYTES_MAX {
        return Ok(whole);
    }
    let packed: Vec<(Block, Vec<u8>)> =
        body.blocks.iter().map(|block| pack_block(&block.raw, 0, zstd_level)).collect::<Result<_>>()?;
    body.places = packed.iter().map(|(block, _)| Some(block.clone())).collect();
    while body.pack(zstd_level)?.bytes() > bytes_max && body.spill_largest(&mut outside, zstd_level)? {}
    // What is left is for the blocks of fields, most of them first.
    let mut left = bytes_max.saturating_sub(body.pack(zstd_level)?.bytes());
    let mut by_bytes: Vec<usize> = (0..packed.len()).collect();
    by_bytes.sort_by_key(|at| packed[*at].1.len());
    let mut here = Vec::new();
    for at in by_bytes {
        let Some(rest) = left.checked_sub(packed[at].1.len()) else { break };
        (left, body.places[at]) = (rest, None);
        here.push(at);
    }
    while body.pack(zstd_level)?.bytes() > bytes_max {
        let Some(at) = here.pop() else { break };
        body.places[at] = Some(packed[at].0.clone());
    }
    for (place, (block, bytes)) in body.places.iter_mut().zip(&packed) {
        if let Some(place) = place {
            place.range = outside.write(bytes)?;
            place.checksum = block.checksum;
        }
    }
    let hot = body.pack(zstd_level)?;
    if hot.bytes() > PACKED_BYTES_MAX || body.encode().len() > BODY_BYTES_MAX {
        return Err(Error::exhausted("the hot footer of this split would be too large: seal smaller splits"));
    }
    Ok(hot)
}

/// An output that knows where it is in the file.
struct Counted<'a, W> {
    out: &'a mut W,
    at: u64,
}

impl<W: Write> Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> Result<ByteRange> {
        self.out.write_all(bytes).map_err(crate::writer::cannot_write)?;
        let start = self.at;
        self.at += bytes.len() as u64;
        Ok(start..self.at)
    }
}

impl Body<'_> {
    /// Moves what takes most bytes outside. False where nothing is left that can be.
    fn spill_largest(&mut self, out: &mut Counted<'_, impl Write>, zstd_level: i32) -> Result<bool> {
        let digest = self.digest.table().map(|table| (Part::Digest, table));
        let origins = self.origins.as_ref().and_then(OriginsPlace::table).map(|table| (Part::Origins, table));
        let tables = [(Part::Text, &self.text), (Part::Exact, &self.exact), (Part::Pairs, &self.pairs)];
        let tables = tables.into_iter().chain(digest).chain(origins);
        let tables = tables.filter(|(_, table)| table.can_spill());
        let mut parts: Vec<(usize, Part)> = tables.map(|(part, table)| (table.index_bytes(), part)).collect();
        for (at, chunk) in self.contents.own.iter().enumerate() {
            // A search by time reads no page before it knows the bounds of these.
            if self.own[at].is_none() && chunk.kind != ColumnKind::Time && chunk.pages.len() > 1 {
                parts.push((chunk_bytes(chunk).len(), Part::Own(at)));
            }
        }
        let Some((_, largest)) = parts.into_iter().max_by_key(|(bytes, _)| *bytes) else { return Ok(false) };
        let mut index = Vec::new();
        let mut spill = |table: &Table| table.spill(&mut index, out.at, zstd_level);
        match largest {
            Part::Text => self.text = spill(&self.text)?,
            Part::Exact => self.exact = spill(&self.exact)?,
            Part::Pairs => self.pairs = spill(&self.pairs)?,
            Part::Digest => {
                if let DigestPlace::Table(table) = &mut self.digest {
                    *table = spill(table)?;
                }
            }
            Part::Origins => {
                if let Some(OriginsPlace::Table(table)) = &mut self.origins {
                    *table = spill(table)?;
                }
            }
            Part::Own(at) => {
                let raw = chunk_bytes(&self.contents.own[at]);
                let packed = zstd::bulk::compress(&raw, zstd_level).map_err(crate::writer::cannot_write)?;
                let block = Block { range: out.write(&packed)?, checksum: checksum(&packed) };
                self.own[at] = Some((block, raw.len()));
                return Ok(true);
            }
        }
        out.write(&index)?;
        Ok(true)
    }

    fn pack(&self, zstd_level: i32) -> Result<Unsummed> {
        let raw = self.encode();
        let packed = zstd::bulk::compress(&raw, zstd_level).map_err(crate::writer::cannot_write)?;
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&self.contents.required.to_le_bytes());
        out.extend_from_slice(&(packed.len() as u32).to_le_bytes());
        out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
        out.extend_from_slice(&packed);
        Ok(Unsummed(out))
    }

    fn encode(&self) -> Vec<u8> {
        let Contents { id, rows, own, groups, lists, .. } = self.contents;
        let mut out = id.bits().to_be_bytes().to_vec();
        put_bytes(&mut out, WRITER.as_bytes());
        put_varint(&mut out, ANALYSER);
        put_varint(&mut out, if groups.is_empty() { 0 } else { RENDERER_VERSION });
        // Neither a cipher nor a key.
        out.extend_from_slice(&[0, 0]);
        put_varint(&mut out, u64::from(*rows));
        put_times(&mut out, self.contents);
        put_groups(&mut out, groups, *rows);
        put_varint(&mut out, own.len() as u64);
        for (chunk, outside) in own.iter().zip(&self.own) {
            out.push(match chunk.kind {
                ColumnKind::Time => TIME,
                ColumnKind::Nanos => TIME_NANOS,
                ColumnKind::Id => ID,
                ColumnKind::Version => VERSION,
                ColumnKind::SeqNo => SEQ_NO,
                ColumnKind::Dynamic { .. } => DYNAMIC,
                _ => SOURCE,
            });
            out.push(u8::from(outside.is_some()));
            match outside {
                None => put_chunk(&mut out, chunk),
                Some((block, raw_bytes)) => {
                    put_place(&mut out, &chunk.range());
                    put_place(&mut out, &block.range);
                    put_varint(&mut out, *raw_bytes as u64);
                    out.extend_from_slice(&block.checksum.to_le_bytes());
                }
            }
        }
        let index = |table: &Table| {
            let mut index = Vec::new();
            table.encode(&mut index);
            index
        };
        let here = |packed: &[u8], raw_bytes: usize| {
            let mut here = vec![HERE];
            put_varint(&mut here, raw_bytes as u64);
            here.extend_from_slice(packed);
            here
        };
        let digest = match &self.digest {
            DigestPlace::Table(table) => index(table),
            DigestPlace::Footer(digest) => here(&digest.packed, digest.raw_bytes),
        };
        let mut tables = vec![(TEXT, index(&self.text)), (EXACT, index(&self.exact)), (DIGEST, digest)];
        if self.pairs.len() > 0 {
            tables.push((PAIRS, index(&self.pairs)));
        }
        tables.extend(self.origins.as_ref().map(|origins| match origins {
            OriginsPlace::Table(table) => (OF_ORIGINS, index(table)),
            OriginsPlace::Footer { packed, raw_bytes } => (OF_ORIGINS, here(packed, *raw_bytes)),
        }));
        put_varint(&mut out, tables.len() as u64);
        for (kind, index) in tables {
            put_varint(&mut out, kind);
            put_bytes(&mut out, &index);
        }
        put_varint(&mut out, 1);
        put_varint(&mut out, STORED);
        put_place(&mut out, lists);
        out.extend_from_slice(&[0; 5]);
        fields::put_index(&mut out, &self.blocks, &self.places);
        for (block, _) in self.blocks.iter().zip(&self.places).filter(|(_, place)| place.is_none()) {
            put_bytes(&mut out, &block.raw);
        }
        out
    }
}

fn chunk_bytes(chunk: &Chunk) -> Vec<u8> {
    let mut out = Vec::new();
    put_chunk(&mut out, chunk);
    out
}

fn put_place(out: &mut Vec<u8>, range: &ByteRange) {
    put_varint(out, range.start);
    put_varint(out, range.end - range.start);
}

pub(super) fn put_times(out: &mut Vec<u8>, contents: &Contents) {
    put_varint(out, u64::from(contents.rows_without_time));
    if let Some((first, last)) = contents.times {
        put_signed(out, first);
        put_signed(out, last);
    }
}

/// Appends the row groups: that of all rows, or those of documents that are made again.
fn put_groups(out: &mut Vec<u8>, groups: &[RowGroup], rows: u32) {
    if groups.is_empty() {
        put_varint(out, 1);
        return put_varint(out, u64::from(rows));
    }
    put_varint(out, groups.len() as u64);
    for group in groups {
        put_varint(out, u64::from(group.rows.end - group.rows.start));
        put_varint(out, group.range.end - group.range.start);
        put_varint(out, u64::from(group.directory_bytes));
        out.extend_from_slice(&group.checksum.to_le_bytes());
    }
}

/// Reads what [`put_groups`] appended; of the group of all rows nothing is kept.
fn read_groups(cursor: &mut Cursor<'_>, rows: u32, rendered: bool) -> Result<Vec<RowGroup>> {
    let wrong = || Error::corrupt("the row groups of a split do not have its rows");
    if !rendered {
        let is_one = (cursor.varint()?, cursor.varint()?) == (1, u64::from(rows));
        return if is_one { Ok(Vec::new()) } else { Err(wrong()) };
    }
    let (mut groups, mut row, mut at): (Vec<RowGroup>, u32, u64) = (Vec::new(), 0, FIRST_GROUP);
    for _ in 0..cursor.varint_usize()? {
        let of_group = cursor.varint_u32()?;
        let (bytes, directory_bytes) = (cursor.varint_u32()?, cursor.varint_u32()?);
        let end = row.checked_add(of_group).filter(|end| *end <= rows && of_group > 0);
        let end = end.filter(|_| directory_bytes <= bytes).ok_or_else(wrong)?;
        let range = at..at + u64::from(bytes);
        at = range.end;
        groups.push(RowGroup { rows: row..end, range, directory_bytes, checksum: cursor.u32_le()? });
        row = end;
    }
    if row == rows && rows > 0 { Ok(groups) } else { Err(wrong()) }
}

/// Reads a hot footer after its version.
pub(super) fn decode(frame: &mut Cursor<'_>) -> Result<Footer> {
    let required = frame.u64_le()?;
    let unknown = required & !REQUIRED_KNOWN;
    if unknown != 0 {
        let error =
            Error::invalid("a newer version of Frostline wrote the split, with features that this one lacks");
        return Err(error.with("features", format!("{unknown:#x}")));
    }
    let packed = frame.u32_le()? as usize;
    let raw = frame.u32_le()? as usize;
    if packed > PACKED_BYTES_MAX || raw > BODY_BYTES_MAX {
        return Err(Error::corrupt("a hot footer states an impossible length"));
    }
    let body = unpack(frame.take(packed)?, raw)?;
    let mut footer = decode_body(&mut Cursor::new(&body), required)?;
    footer.tail_checksum = Some(frame.u64_le()?);
    Ok(footer)
}

/// Reads the body of a split that has these features.
pub(crate) fn decode_body(cursor: &mut Cursor<'_>, required: u64) -> Result<Footer> {
    let id = cursor.take(16)?.try_into().map_err(|_| Error::internal("16 bytes are not 16 bytes"))?;
    let id = SplitId::from_random(u128::from_be_bytes(id));
    let _writer = cursor.bytes()?;
    let (analyser, renderer, cipher, _key) =
        (cursor.varint()?, cursor.varint()?, cursor.u8()?, cursor.bytes()?);
    if (analyser, cipher) != (ANALYSER, 0) || renderer > RENDERER_VERSION {
        let error = Error::invalid("a newer version of Frostline wrote the split");
        return Err(error.with("analyser", analyser).with("renderer", renderer).with("cipher", cipher));
    }
    let rows = cursor.varint_u32()?;
    let (rows_without_time, times) = Footer::decode_times(cursor, rows)?;
    let groups = read_groups(cursor, rows, renderer > 0)?;
    let mut own = Vec::new();
    for _ in 0..cursor.varint_usize()? {
        own.push(read_own(cursor, rows)?);
    }
    let Tables { text, exact, pairs, digest, origins } = read_tables(cursor)?;
    let origins = origins.filter(|_| required & ORIGINS != 0);
    if required & ORIGINS != 0 && origins.is_none() {
        return Err(Error::corrupt("a split does not say where its documents first landed"));
    }
    let lists = read_lists(cursor)?;
    let mut fields = FieldTable::decode_index(cursor, rows)?;
    fields.decode_blocks(cursor)?;
    let [text_entries, exact_entries] = Entries::of_split(required & ENTRY_HEADS != 0);
    Ok(Footer {
        version: FORMAT_VERSION,
        id: Some(id),
        rows,
        rows_without_time,
        times,
        own,
        groups,
        fields,
        text: Dictionary::new(text, lists.clone(), rows, text_entries),
        exact: Dictionary::new(exact, lists.clone(), rows, exact_entries),
        pairs: Dictionary::new(pairs, lists, rows, Entries::WithoutHeads),
        digest,
        leaves_lists: required & COLUMN_LISTS != 0,
        origins,
        tail_checksum: None,
    })
}

fn read_own(cursor: &mut Cursor<'_>, rows: u32) -> Result<OwnColumn> {
    let kind = match cursor.u8()? {
        TIME => ColumnKind::Time,
        TIME_NANOS => ColumnKind::Nanos,
        ID => ColumnKind::Id,
        VERSION => ColumnKind::Version,
        SEQ_NO => ColumnKind::SeqNo,
        SOURCE => ColumnKind::Source,
        DYNAMIC => ColumnKind::Dynamic { typed: true },
        code => return Err(Error::corrupt("a column has an unknown kind").with("kind", code)),
    };
    match cursor.u8()? {
        0 => Ok(OwnColumn::here(read_chunk(cursor, own_name(kind).to_owned(), kind, rows)?)),
        1 if kind != ColumnKind::Time => {
            let (range, place) = (read_place(cursor)?, read_place(cursor)?);
            let raw_bytes = cursor.varint_usize()?;
            let block = Block { range: place, checksum: cursor.u32_le()? };
            Ok(OwnColumn { kind, range, outside: Some((block, raw_bytes)), chunk: OnceLock::new() })
        }
        form => Err(Error::corrupt("the place of a column has an unknown form").with("form", form)),
    }
}

impl OwnColumn {
    /// Keeps the description of its pages, which is what was read of `block`.
    pub(crate) fn keep(&self, block: &Block, raw_bytes: usize, bytes: &[u8], rows: u32) -> Result<()> {
        block.check(bytes)?;
        let raw = unpack(bytes, raw_bytes)?;
        let chunk = read_chunk(&mut Cursor::new(&raw), self.name().to_owned(), self.kind, rows)?;
        if chunk.range() != self.range {
            return Err(Error::corrupt("the pages of a column are not where the split says")
                .with("column", self.name()));
        }
        // Two queries may have read it at the same time.
        let _ = self.chunk.set(chunk);
        Ok(())
    }
}

/// The tables of a split.
struct Tables {
    text: Table,
    exact: Table,
    pairs: Table,
    digest: DigestPlace,
    origins: Option<OriginsPlace>,
}

/// Of tables of other kinds nothing is known.
fn read_tables(cursor: &mut Cursor<'_>) -> Result<Tables> {
    let (mut text, mut exact, mut pairs, mut origins) = (None, None, Table::default(), None);
    let mut digest = DigestPlace::Table(Table::default());
    for _ in 0..cursor.varint_usize()? {
        let (kind, index) = (cursor.varint()?, cursor.bytes()?);
        let mut index = Cursor::new(index);
        match kind {
            TEXT => text = Some(Table::decode(&mut index)?),
            EXACT => exact = Some(Table::decode(&mut index)?),
            PAIRS => pairs = Table::decode(&mut index)?,
            DIGEST => digest = read_digest(&mut index)?,
            OF_ORIGINS => origins = Some(read_origins(&mut index)?),
            _ => {}
        }
    }
    let missing = || Error::corrupt("a split has no dictionaries");
    let (text, exact) = (text.ok_or_else(missing)?, exact.ok_or_else(missing)?);
    Ok(Tables { text, exact, pairs, digest, origins })
}

fn read_digest(index: &mut Cursor<'_>) -> Result<DigestPlace> {
    Ok(match read_here(index)? {
        Some((packed, raw_bytes)) => DigestPlace::Footer(HotDigest::new(packed, raw_bytes, true)),
        None => DigestPlace::Table(Table::decode(index)?),
    })
}

fn read_origins(index: &mut Cursor<'_>) -> Result<OriginsPlace> {
    Ok(match read_here(index)? {
        Some((packed, raw_bytes)) => OriginsPlace::Footer { packed, raw_bytes },
        None => OriginsPlace::Table(Table::decode(index)?),
    })
}

/// A table of one block that the hot footer has, and its length unpacked; none where it has only the places of blocks.
fn read_here(index: &mut Cursor<'_>) -> Result<Option<(Vec<u8>, usize)>> {
    if index.rest().first() != Some(&HERE) {
        return Ok(None);
    }
    index.u8()?;
    let raw_bytes = index.varint_usize()?;
    Ok(Some((index.rest().to_vec(), raw_bytes)))
}

/// The place of the stored lists.
fn read_lists(cursor: &mut Cursor<'_>) -> Result<ByteRange> {
    let mut lists = 0..0;
    for _ in 0..cursor.varint_usize()? {
        let (kind, place) = (cursor.varint()?, read_place(cursor)?);
        let _raw_and_checksum = (cursor.varint()?, cursor.u32_le()?);
        if kind == STORED {
            lists = place;
        }
    }
    Ok(lists)
}
