//! The fields of a split: each reading with the rows that have a value and the place of its columns, by path.
//!
//! They are a list of entries in ascending order, cut into blocks. The hot footer has the blocks that fit there;
//! the others have a place in the file and are kept here once they were read. A reading that a caller holds is
//! from a block that is here, so what belongs to it can be asked without another read.

use std::collections::HashMap;
use std::sync::OnceLock;

use frostline_base::{Error, Result};

use crate::bytes_codec::{Cursor, put_bytes, put_varint};
use crate::footer::{Chunk, ColumnKind, SplitField, put_chunk, read_chunk, read_type, type_code};
use crate::mapping::{Mapping, ValueType};
use crate::table::{
    BLOCK_RAW_BYTES_MAX, Block, BlockBuilder, KeyRange, places_with, put_key, read_key, unpack_block,
};

/// Small blocks, so that most of many fields fit into the hot footer.
const BLOCK_RAW_BYTES: usize = 4 << 10;

/// About how many times more memory the fields of a block take than the block.
const BLOCK_UNPACKED: usize = 8;
/// The flag of a reading of which the dictionaries have nothing.
const UNINDEXED: u8 = 8;
/// The flag of dates with nanoseconds.
const HAS_NANOS: u8 = 16;

/// A reading, and what belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldRecord {
    pub(crate) field: SplitField,
    /// Encoded postings of the rows that have a value.
    pub(crate) exists: Vec<u8>,
    /// The column of single values and that of lists, as far as there are any, each followed by its nanoseconds.
    pub(crate) chunks: Vec<Chunk>,
}

impl FieldRecord {
    /// With the entries of its columns in the map of names.
    fn memory_bytes(&self) -> usize {
        let named = |chunk: &Chunk| {
            chunk.memory_bytes() + chunk.name.len() + 2 * size_of::<(String, (usize, usize))>()
        };
        let chunks: usize = self.chunks.iter().map(named).sum();
        size_of::<FieldRecord>() + self.field.path.len() + self.exists.len() + chunks
    }
}

/// The readings of a block, and the place of each of their columns among them.
#[derive(Clone, Debug, Default)]
struct Records {
    records: Vec<FieldRecord>,
    columns: HashMap<String, (usize, usize)>,
}

impl Records {
    fn new(records: Vec<FieldRecord>) -> Records {
        let columns = records.iter().enumerate().flat_map(|(record, of)| {
            of.chunks.iter().enumerate().map(move |(chunk, of)| (of.name.clone(), (record, chunk)))
        });
        let columns = columns.collect();
        Records { records, columns }
    }
}

/// A block of fields.
#[derive(Clone, Debug)]
struct FieldBlock {
    separator: Box<[u8]>,
    /// The numbers of its fields.
    numbers: std::ops::Range<usize>,
    /// Where it is, unless the hot footer has it.
    place: Option<Block>,
    records: OnceLock<Records>,
}

/// All readings of a split.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldTable {
    blocks: Vec<FieldBlock>,
    split_rows: u32,
}

/// Which fields are wanted of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// All of them.
    All,
    /// Those with this path.
    Path(&'a str),
    /// Those below this path.
    Below(&'a str),
    /// The one with this number.
    Number(u16),
}

impl Wanted<'_> {
    fn has(self, field: &SplitField) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Path(path) => field.path == path,
            Wanted::Below(path) => field.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')),
            Wanted::Number(number) => field.number == number,
        }
    }

    /// A range that holds the keys of the wanted fields, and perhaps others.
    fn keys(self) -> KeyRange {
        let start = |path: &str, next: u8| KeyRange::prefix([path.as_bytes(), &[next]].concat());
        match self {
            Wanted::Path(path) => start(path, 0),
            Wanted::Below(path) => start(path, b'.'),
            // A number is found by the numbers of the blocks.
            Wanted::All | Wanted::Number(_) => KeyRange::all(),
        }
    }
}

/// The key of a reading. Numbers follow the order of keys.
pub(crate) fn field_key(path: &str, ty: ValueType) -> Vec<u8> {
    [path.as_bytes(), &[0, type_code(ty)]].concat()
}

impl FieldTable {
    /// A table of which everything is here.
    pub(crate) fn whole(records: Vec<FieldRecord>, split_rows: u32) -> FieldTable {
        let numbers = 0..records.len();
        let records = OnceLock::from(Records::new(records));
        let block = FieldBlock { separator: Box::default(), numbers, place: None, records };
        FieldTable { blocks: vec![block], split_rows }
    }

    /// The blocks that can hold a wanted field.
    fn blocks_of(&self, wanted: Wanted<'_>) -> &[FieldBlock] {
        let places = match wanted {
            Wanted::Number(number) => {
                let at = self.place_of(number);
                at..self.blocks.len().min(at + 1)
            }
            _ => places_with(&self.blocks, |block| &block.separator, &wanted.keys()),
        };
        self.blocks.get(places).unwrap_or_default()
    }

    /// Where the block of the reading with this number is.
    fn place_of(&self, number: u16) -> usize {
        self.blocks.partition_point(|block| block.numbers.end <= usize::from(number))
    }

    /// The blocks to read before [`FieldTable::find`] can answer.
    pub(crate) fn missing(&self, wanted: Wanted<'_>) -> Vec<Block> {
        let unread = self.blocks_of(wanted).iter().filter(|block| block.records.get().is_none());
        unread.filter_map(|block| block.place.clone()).collect()
    }

    /// Keeps a block that was read; whether it is one of these.
    pub(crate) fn keep(&self, read: &Block, bytes: &[u8]) -> Result<bool> {
        let Some(block) = self.blocks.iter().find(|block| block.place.as_ref() == Some(read)) else {
            return Ok(false);
        };
        read.check(bytes)?;
        let raw = unpack_block(bytes, BLOCK_RAW_BYTES_MAX)?;
        let records = read_block(&raw, &block.numbers, self.split_rows)?;
        // Two queries may have read it at the same time.
        let _ = block.records.set(Records::new(records));
        Ok(true)
    }

    /// The wanted fields, by number. `Internal` where a block was not read that may have one.
    pub(crate) fn find(&self, wanted: Wanted<'_>) -> Result<Vec<&SplitField>> {
        let mut found = Vec::new();
        for block in self.blocks_of(wanted) {
            let unread = || Error::internal("fields of a split are wanted that were not read");
            let records = block.records.get().ok_or_else(unread)?;
            found
                .extend(records.records.iter().map(|record| &record.field).filter(|field| wanted.has(field)));
        }
        Ok(found)
    }

    /// Every reading that is here, by number.
    pub(crate) fn known(&self) -> impl Iterator<Item = &FieldRecord> {
        self.blocks.iter().filter_map(|block| block.records.get()).flat_map(|records| &records.records)
    }

    /// The reading with this number, if it is here.
    pub(crate) fn get(&self, number: u16) -> Option<&FieldRecord> {
        let block = self.blocks.get(self.place_of(number))?;
        block.records.get()?.records.get(usize::from(number).checked_sub(block.numbers.start)?)
    }

    /// The column of this name, if it is here.
    pub(crate) fn chunk(&self, name: &str) -> Option<&Chunk> {
        let mut here = self.blocks.iter().filter_map(|block| block.records.get());
        here.find_map(|records| {
            let (record, chunk) = records.columns.get(name)?;
            records.records.get(*record)?.chunks.get(*chunk)
        })
    }

    /// About how much memory the table takes once all of it is known.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_block = |block: &FieldBlock| {
            let records = match (block.records.get(), &block.place) {
                (Some(known), _) => known.records.iter().map(FieldRecord::memory_bytes).sum(),
                (None, Some(place)) => (place.range.end - place.range.start) as usize * BLOCK_UNPACKED,
                (None, None) => 0,
            };
            size_of::<FieldBlock>() + block.separator.len() + records
        };
        self.blocks.iter().map(of_block).sum()
    }

    /// Reads the index that [`FieldsWriter`] wrote.
    pub(crate) fn decode_index(cursor: &mut Cursor<'_>, split_rows: u32) -> Result<FieldTable> {
        let (mut at, count) = (cursor.varint()?, cursor.varint_usize()?);
        let (mut blocks, mut first): (Vec<FieldBlock>, usize) = (Vec::new(), 0);
        let mut separator = Vec::new();
        for _ in 0..count {
            read_key(cursor, &mut separator)?;
            if blocks.last().is_some_and(|last| separator.as_slice() <= &*last.separator) {
                return Err(Error::corrupt("the separators of a split's fields do not ascend"));
            }
            let end = first.checked_add(cursor.varint_usize()?).filter(|end| *end <= usize::from(u16::MAX));
            let end = end.ok_or_else(|| Error::corrupt("a split has more fields than numbers"))?;
            let place = match cursor.varint()? {
                0 => None,
                bytes => {
                    let beyond = || Error::corrupt("the fields of a split reach past the end of any file");
                    let range = at..at.checked_add(bytes).ok_or_else(beyond)?;
                    at = range.end;
                    Some(Block { range, checksum: cursor.u32_le()? })
                }
            };
            let separator = separator.as_slice().into();
            blocks.push(FieldBlock { separator, numbers: first..end, place, records: OnceLock::new() });
            first = end;
        }
        Ok(FieldTable { blocks, split_rows })
    }

    /// Reads the blocks that the hot footer has.
    pub(crate) fn decode_blocks(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        for block in self.blocks.iter_mut().filter(|block| block.place.is_none()) {
            let records = read_block(cursor.bytes()?, &block.numbers, self.split_rows)?;
            block.records = OnceLock::from(Records::new(records));
        }
        Ok(())
    }
}

/// The entries of a block, which are of the fields with these numbers.
pub(crate) fn read_block(
    raw: &[u8],
    numbers: &std::ops::Range<usize>,
    split_rows: u32,
) -> Result<Vec<FieldRecord>> {
    let (mut cursor, mut key, mut records) = (Cursor::new(raw), Vec::new(), Vec::new());
    while !cursor.is_empty() {
        let before = key.clone();
        read_key(&mut cursor, &mut key)?;
        let number = u16::try_from(numbers.start + records.len()).ok();
        let number = number.filter(|_| records.len() < numbers.len() && (records.is_empty() || before < key));
        let number =
            number.ok_or_else(|| Error::corrupt("the fields of a block are not those of its index"))?;
        records.push(read_record(&key, number, &mut Cursor::new(cursor.bytes()?), split_rows)?);
    }
    match records.len() == numbers.len() {
        true => Ok(records),
        false => Err(Error::corrupt("a block has fewer fields than its index says")),
    }
}

fn read_record(key: &[u8], number: u16, cursor: &mut Cursor<'_>, split_rows: u32) -> Result<FieldRecord> {
    let wrong = || Error::corrupt("a field of a split is invalid").with("number", number);
    let (path, [0, ty]) = key.split_last_chunk::<2>().ok_or_else(wrong)? else { return Err(wrong()) };
    let path = std::str::from_utf8(path).map_err(|_| wrong())?.to_owned();
    let ty = read_type(*ty)?;
    let (flags, rows_with_value) = (cursor.u8()?, cursor.varint_u32()?);
    let is_indexed = flags & UNINDEXED == 0;
    let has_nanos = flags & HAS_NANOS != 0;
    if flags > 31
        || rows_with_value > split_rows
        || !is_indexed && ty == ValueType::Boolean
        || has_nanos && ty != ValueType::Date
    {
        return Err(wrong());
    }
    let (has_scalar, has_list, dynamic) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
    let exists = cursor.bytes()?.to_vec();
    let mut chunks = Vec::new();
    for (_, list) in [(has_scalar, false), (has_list, true)].into_iter().filter(|(has, _)| *has && !dynamic) {
        let name = Mapping::column_name(&path, ty, list);
        let kind = ColumnKind::Field { field: number, ty, list };
        chunks.push(read_chunk(cursor, name, kind, split_rows)?);
        if has_nanos {
            let name = Mapping::nanos_column_name(&path, list);
            let kind = ColumnKind::FieldNanos { field: number, list };
            chunks.push(read_chunk(cursor, name, kind, split_rows)?);
        }
    }
    let field = SplitField {
        number,
        path,
        ty,
        has_scalar,
        has_list,
        dynamic,
        has_nanos,
        is_indexed,
        rows_with_value,
    };
    Ok(FieldRecord { field, exists, chunks })
}

/// A block of fields before it has a place.
pub(crate) struct RawFields {
    separator: Box<[u8]>,
    pub(crate) raw: Vec<u8>,
    fields: usize,
}

/// Cuts fields, by number, into blocks.
pub(crate) fn write_blocks(records: &[FieldRecord]) -> Vec<RawFields> {
    let (mut blocks, mut builder, mut fields) = (Vec::new(), BlockBuilder::new(), 0);
    let mut close = |builder: &mut BlockBuilder, fields: &mut usize| {
        let taken = builder.take().map(|(separator, raw)| RawFields { separator, raw, fields: *fields });
        blocks.extend(taken);
        *fields = 0;
    };
    for record in records {
        if builder.len() >= BLOCK_RAW_BYTES {
            close(&mut builder, &mut fields);
        }
        let mut value = Vec::new();
        put_record(&mut value, record);
        let mut entry = Vec::with_capacity(value.len() + 5);
        put_bytes(&mut entry, &value);
        builder.add(&field_key(&record.field.path, record.field.ty), &entry);
        fields += 1;
    }
    close(&mut builder, &mut fields);
    blocks
}

fn put_record(out: &mut Vec<u8>, record: &FieldRecord) {
    let field = &record.field;
    let unindexed = if field.is_indexed { 0 } else { UNINDEXED };
    let nanos = if field.has_nanos { HAS_NANOS } else { 0 };
    let flags = u8::from(field.has_scalar) | u8::from(field.has_list) << 1 | u8::from(field.dynamic) << 2;
    out.push(flags | unindexed | nanos);
    put_varint(out, u64::from(field.rows_with_value));
    put_bytes(out, &record.exists);
    record.chunks.iter().for_each(|chunk| put_chunk(out, chunk));
}

/// Appends the index of `blocks`, of which those with a place are outside the hot footer.
pub(crate) fn put_index(out: &mut Vec<u8>, blocks: &[RawFields], places: &[Option<Block>]) {
    let first = places.iter().flatten().next();
    put_varint(out, first.map_or(0, |block| block.range.start));
    put_varint(out, blocks.len() as u64);
    let mut before: &[u8] = &[];
    for (block, place) in blocks.iter().zip(places) {
        put_key(out, before, &block.separator);
        put_varint(out, block.fields as u64);
        match place {
            None => out.push(0),
            Some(place) => {
                put_varint(out, place.range.end - place.range.start);
                out.extend_from_slice(&place.checksum.to_le_bytes());
            }
        }
        before = &block.separator;
    }
}
