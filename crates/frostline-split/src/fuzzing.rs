//! Entry points for fuzzers: each decoder without its checksum, which a fuzzer would never get past. Any
//! bytes must give a value or an error.

use arrow::array::AsArray;
use bytes::Bytes;
use frostline_base::{Error, Result, TimeRange};
use roaring::RoaringBitmap;

use crate::bytes_codec::{Cursor, checksum};
use crate::columns::{ColumnRead, TextAs};
use crate::dictionary::{Dictionary, Entries};
use crate::digest::Digest;
use crate::document::{Document, Limits, Value, parse_document};
use crate::documents::DocumentRead;
use crate::fields::{self, Wanted};
use crate::footer::{self, Chunk, ColumnKind, DigestPlace, Footer, HotDigest, Page, RowGroup};
use crate::mapping::{Mapping, ValueType};
use crate::origins::{each_entry, read_piece};
use crate::pack::Pack;
use crate::pairs::PairKey;
use crate::postings::Postings;
use crate::reader::Split;
use crate::render::{DocumentRow, Parts, Row, Shape, Shaper, is_json};
use crate::streams::{EntryLayout, StreamPacker, join};
use crate::table::{BLOCK_RAW_BYTES_MAX, KeyRange, KeyRanges, Table, read_index_block};
use crate::values::Moment;

/// A document, which is made again as it was, or a shape, which takes the values of any row. All that is made is JSON.
pub fn render(bytes: &[u8]) {
    let (mut document, mut parts, mut out) = (Document::new(), Parts::default(), Vec::new());
    if parse_document(bytes, &Mapping::dynamic(), &Limits::default(), &mut document).is_ok() {
        Shaper::default().take_apart(bytes, &document, &mut parts);
        let shape = Shape::read(&parts.shape).unwrap_or_else(|e| panic!("{e}"));
        let rendered = shape.render(&mut DocumentRow::new(&document, &shape, &parts.literals), &mut out);
        assert!(rendered.is_ok() && out == bytes);
    }
    if let Ok(shape) = Shape::read(bytes) {
        out.clear();
        let rendered = shape.render(&mut Endless(shape.readings().map(|(_, ty)| ty).collect()), &mut out);
        assert!(rendered.is_err() || is_json(&out));
    }
}

/// A row group: what its two last bytes say is the length of its directory, and the byte before is its rows.
pub fn row_group(bytes: &[u8]) -> bool {
    let Some((front, [rows, low, high])) = bytes.split_last_chunk::<3>() else { return false };
    let directory_bytes = u32::from(u16::from_le_bytes([*low, *high]));
    let rows = 0..u32::from(*rows).max(1);
    let (range, checksum) = (0..front.len() as u64, checksum(front));
    let group = RowGroup { rows: rows.clone(), range, directory_bytes, checksum };
    let read = DocumentRead::rendered(&[group], None);
    let documents = read.decode(vec![Bytes::copy_from_slice(front)]);
    documents.is_ok_and(|batches| {
        let texts = || batches.iter().flat_map(|batch| batch.column(0).as_binary::<i32>());
        assert!(texts().flatten().all(is_json));
        texts().count() == rows.len()
    })
}

/// A row that never runs out of values.
struct Endless(Vec<ValueType>);

impl Row for Endless {
    fn next_value(&mut self, reading: usize) -> Option<Value<'_>> {
        Some(match self.0.get(reading)? {
            ValueType::Boolean => Value::Boolean(true),
            ValueType::Long => Value::Long(i64::MIN),
            ValueType::Double => Value::Double(-1.5e-300),
            ValueType::Big => Value::Big("-99999999999999999999"),
            ValueType::Date => Value::Date(Moment { time_us: i64::MAX, nanos: 999 }),
            ValueType::Ip => Value::Ip("2001:db8::1"),
            ValueType::Text => Value::Text("a/<é\u{1}\""),
        })
    }

    fn time(&mut self) -> Option<Moment> {
        Some(Moment { time_us: -1, nanos: 7 })
    }

    fn next_literal(&mut self) -> Option<&str> {
        Some("1e5")
    }
}

/// Rows of the split that postings and dictionary entries are read for.
const ROWS: u32 = 1 << 20;
/// Rows of the split whose directory is read.
const SEED_ROWS: u32 = 400;

/// A hot footer whose checksum matched.
pub fn hot_footer(bytes: &[u8]) {
    if let Ok(footer) = Footer::decode_checked(bytes) {
        let _ = Split::from_footer(footer).digest(&[], true, []);
    }
}

/// The decompressed body of a hot footer, and then whatever an open split answers without reading.
pub fn footer_body(bytes: &[u8]) {
    if let Ok(footer) = footer::decode_body(&mut Cursor::new(bytes), footer::ENTRY_HEADS) {
        ask(&Split::from_footer(footer));
    }
}

/// The same of version 2.
pub fn footer_body_2(bytes: &[u8]) {
    let digest = DigestPlace::Footer(HotDigest::new(Vec::new(), 0, false));
    if let Ok(footer) = footer::version_2::decode_body(&mut Cursor::new(bytes), digest) {
        ask(&Split::from_footer(footer));
    }
}

/// The directory of a pack, without its checksum.
pub fn pack(bytes: &[u8]) {
    if let Ok(pack) = Pack::decode(bytes, 0, 2_000) {
        assert!(pack.splits().all(|split| pack.place(split).is_some_and(|place| place.end <= 2_000)));
    }
}

fn ask(split: &Split) {
    for field in split.fields() {
        let _ = split.exists(field.number).map(|rows| rows.count(split.rows()));
        assert!(split.readings(&field.path).count() > 0);
        for wanted in [Wanted::Path(&field.path), Wanted::Below(&field.path), Wanted::Number(field.number)] {
            if let Ok(found) = split.find(wanted) {
                assert!(split.unread_fields(wanted).is_empty() && found.len() <= split.fields().count());
            }
        }
    }
    let _ = split.find(Wanted::All).map(|all| assert_eq!(all.len(), split.fields().count()));
    let hour_us = 3_600_000_000;
    for range in split.times().map(|(first, _)| [first, first.saturating_add(hour_us)]).into_iter().flatten()
    {
        split.rows_in_time(TimeRange { start_us: range, end_us: range.saturating_add(hour_us) });
    }
    let tables = [split.text().table(), split.exact().table(), split.pairs().table(), &split.digest_table()];
    for table in tables {
        table_answers(table);
    }
    // A column's memory grows with the split's number of rows, which is unverified here.
    let first_and_last: RoaringBitmap = split.rows().checked_sub(1).into_iter().chain([0]).collect();
    for name in split.column_names() {
        assert!(split.column_range(name).is_some());
        split.unread_pages(&[name]);
        for rows in [None, Some(&first_and_last)] {
            let _ = split.columns(&[name], rows, TextAs::Dictionary).map(|read| read.ranges().len());
        }
    }
}

fn table_answers(table: &Table) {
    let all = [KeyRange::all()];
    match table.blocks(&all[0]) {
        Ok(blocks) => assert!(blocks.len() == table.len() && table.index_blocks(&all).is_empty()),
        Err(_) => assert_eq!(table.index_blocks(&all).len(), table.len()),
    }
    let _ = table.blocks(&KeyRange::token("found"));
    table.range();
}

/// What is outside a hot footer, unpacked, after a byte that says which: a block of fields (and how many), an index
/// block, or the pages of a column. Whether it is such a part.
pub fn directory(bytes: &[u8]) -> bool {
    let Some((which, raw)) = bytes.split_first() else { return false };
    match which {
        0 => read_index_block(raw, &mut Vec::new()).is_ok(),
        1 => {
            let source = ColumnKind::Source;
            footer::read_chunk(&mut Cursor::new(raw), "c".to_owned(), source, SEED_ROWS).is_ok()
        }
        count => fields::read_block(raw, &(5..5 + usize::from(*count) - 2), SEED_ROWS).is_ok(),
    }
}

/// The raw bytes of a dictionary block, with heads or without.
pub fn dictionary_block(bytes: &[u8]) {
    let some = KeyRange::between(b"f".to_vec(), Some(b"t".to_vec()));
    let ranges = [KeyRanges::all(), KeyRanges::from(&some)];
    let forms = [Entries::WithoutHeads, Entries::Text, Entries::Exact];
    for (entries, keys) in forms.into_iter().flat_map(|form| ranges.iter().map(move |keys| (form, keys))) {
        // No block, and a mebibyte of postings for its entries to point into.
        let dictionary = Dictionary::new(Table::default(), 0..1 << 20, ROWS, entries);
        let _ = dictionary.scan_raw(bytes, keys, &mut |entry| {
            assert!(entry.is_short || keys.contains(entry.key));
            if let Some(pair) = PairKey::split(entry.key) {
                assert_eq!(pair.first.len() + pair.second.len() + 4, entry.key.len());
            }
            assert!(entries != Entries::WithoutHeads || !entry.is_short && entry.value.is_none());
            match entry.postings {
                Postings::Rows(rows) => assert!(rows.max().is_none_or(|max| max < ROWS)),
                Postings::Stored { range, .. } => assert!(range.start <= range.end && range.end <= 1 << 20),
                Postings::Column(list) => assert!(!entry.is_short && list.rows() <= ROWS),
                Postings::All => {}
            }
        });
    }
}

/// A block of a dictionary in streams, behind its form. Whether it is one.
pub fn dictionary_streams(bytes: &[u8]) -> bool {
    let (Some(layout), Ok(raw)) =
        (bytes.first().and_then(|byte| EntryLayout::of(*byte)), join(bytes, BLOCK_RAW_BYTES_MAX))
    else {
        return false;
    };
    assert!(raw.len() <= BLOCK_RAW_BYTES_MAX);
    let mut packer = StreamPacker::new(layout, 1).unwrap_or_else(|e| panic!("{e}"));
    let again = packer.pack(&raw).and_then(|packed| join(packed, raw.len()));
    assert!(again.is_ok_and(|again| again == raw));
    dictionary_block(&raw);
    true
}

/// A stored postings list whose checksum matched, of a split that has segments or not.
pub fn postings(bytes: &[u8]) {
    for split_rows in [ROWS, 3 * ROWS] {
        if let Ok(rows) = crate::postings::decode_checked(Cursor::new(bytes), split_rows) {
            assert!(rows.max().is_none_or(|max| max < split_rows));
        }
    }
}

/// A decompressed block of a digest, or a whole one of version 2.
pub fn digest(bytes: &[u8]) {
    for digest in [Digest::of_block(bytes), Digest::decode(bytes.to_vec())].into_iter().flatten() {
        digest.fields().for_each(|field| drop(digest.values(field)));
    }
}

/// An unpacked block of origins, of a split of [`SEED_ROWS`]. Whether it tells those of all rows.
pub fn origins(bytes: &[u8]) -> bool {
    let mut told = 0;
    let read = each_entry(bytes, &mut |_, value| {
        let origins = read_piece(value, SEED_ROWS);
        told += origins.as_ref().map_or(0, Vec::len);
        Ok(())
    });
    read.is_ok() && told == SEED_ROWS as usize
}

/// The pages of a column: a byte that names its type, one that says of how many rows, the length of the
/// dictionary page (two bytes, little-endian, zero for none), that page, a data page. Whether they are
/// such a column.
pub fn column_page(bytes: &[u8]) -> bool {
    let _ = read_column(bytes, true);
    read_column(bytes, false).is_ok()
}

/// Reads every row, or every third with dictionaries kept.
fn read_column(bytes: &[u8], in_part: bool) -> Result<()> {
    let none = || Error::invalid("these bytes do not describe a column");
    let ([first, rows, low, high], pages) = bytes.split_first_chunk::<4>().ok_or_else(none)?;
    let dictionary = usize::from(u16::from_le_bytes([*low, *high]));
    let (dictionary, page) = pages.split_at_checked(dictionary).ok_or_else(none)?;
    if page.is_empty() || *rows == 0 {
        return Err(none());
    }
    let (kind, rows) = (column_kind(*first), u32::from(*rows));
    let described =
        |page: &[u8], rows| Page { bytes: page.len() as u32, rows, checksum: checksum(page), skip: 0 };
    let chunk = Chunk {
        name: "c".to_owned(),
        kind,
        offset: 4,
        dictionary: (!dictionary.is_empty()).then(|| described(dictionary, 0)),
        has_lengths: first & LENGTHS != 0,
        has_streams: first & STREAMS != 0,
        pages: vec![described(page, rows)],
        bounds: Vec::new(),
    };
    let thirds: RoaringBitmap = (0..rows).step_by(3).collect();
    let (wanted, text_as) = if in_part { (Some(&thirds), TextAs::Dictionary) } else { (None, TextAs::Plain) };
    let read = ColumnRead::new(&[&chunk], rows, wanted, text_as)?;
    read.decode(vec![Bytes::copy_from_slice(pages)]).map(drop)
}

/// Set in the first byte where the lengths of texts may come before them.
const LENGTHS: u8 = 0x40;
/// Set in the first byte where the data page is in streams.
const STREAMS: u8 = 0x20;

fn column_kind(byte: u8) -> ColumnKind {
    match usize::from(byte & !(LENGTHS | STREAMS | 0x80)) {
        number if number < ValueType::ALL.len() => {
            ColumnKind::Field { field: 0, ty: ValueType::ALL[number], list: byte >= 0x80 }
        }
        7 => ColumnKind::Time,
        8 => ColumnKind::Dynamic { typed: byte >= 0x80 },
        _ => ColumnKind::Source,
    }
}

#[cfg(test)]
mod tests;
