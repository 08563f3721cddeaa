use std::collections::BTreeMap;

use frostline_base::{ErrorKind, SplitId};
use proptest::prelude::*;

use super::*;
use crate::dictionary::Dictionary as Entries;
use crate::postings::{Postings, decode_postings};
use crate::table::{KeyRange, KeyRanges};
use crate::{DocumentForm, Mapping, Sealed, SplitWriter, WriterOptions};

/// All lists are left to their columns that can be.
const LEFT: u64 = u64::MAX;
/// None is.
const STORED: u64 = 0;

fn seal(documents: &[String], column_bytes_max: u64, form: DocumentForm) -> (Bytes, Sealed) {
    let options = WriterOptions {
        list_column_bytes_max: column_bytes_max,
        list_column_part: 0,
        documents: form,
        group_rows_max: 100,
        ..WriterOptions::default()
    };
    seal_with(documents, options)
}

fn seal_with(documents: &[String], options: WriterOptions) -> (Bytes, Sealed) {
    let mut writer = SplitWriter::new(Mapping::dynamic(), options);
    documents.iter().for_each(|document| writer.add(document.as_bytes()).unwrap());
    let mut file = Vec::new();
    let sealed = writer.seal(SplitId::from_random(1), &mut file).unwrap();
    (file.into(), sealed)
}

fn cut(file: &Bytes, range: &ByteRange) -> Bytes {
    file.slice(range.start as usize..range.end as usize)
}

fn open(file: &Bytes, sealed: &Sealed) -> Split {
    let split = Split::open(&cut(file, &sealed.footer)).unwrap();
    for block in split.unread_fields(Wanted::All) {
        split.keep(&block, &cut(file, &block.range)).unwrap();
    }
    split
}

fn entries(file: &Bytes, dictionary: &Entries) -> BTreeMap<Vec<u8>, Postings> {
    let mut entries = BTreeMap::new();
    for block in dictionary.table().blocks(&KeyRange::all()).unwrap() {
        let visit = |entry: crate::Entry<'_>| drop(entries.insert(entry.key.to_vec(), entry.postings));
        dictionary.scan(&block, &cut(file, &block.range), &KeyRanges::all(), visit).unwrap();
    }
    entries
}

fn left(entries: &BTreeMap<Vec<u8>, Postings>) -> Vec<ColumnList> {
    let lists = entries.values().filter_map(|postings| match postings {
        Postings::Column(list) => Some(list.clone()),
        _ => None,
    });
    lists.collect()
}

/// The rows of lists of one field, read from the columns.
fn read(file: &Bytes, split: &Split, lists: Vec<ColumnList>) -> Result<Vec<RoaringBitmap>> {
    let read = split.column_lists(lists.first().map_or(0, ColumnList::field), lists)?;
    let bytes = read.ranges().iter().map(|range| cut(file, range)).collect();
    read.decode(bytes)
}

/// The rows of each key.
fn rows_of(
    file: &Bytes,
    split: &Split,
    entries: &BTreeMap<Vec<u8>, Postings>,
) -> BTreeMap<Vec<u8>, RoaringBitmap> {
    // All lists of a field together.
    let mut by_field: BTreeMap<u16, Vec<ColumnList>> = BTreeMap::new();
    left(entries).into_iter().for_each(|list| by_field.entry(list.field()).or_default().push(list));
    let mut of_columns: BTreeMap<u16, std::vec::IntoIter<RoaringBitmap>> = by_field
        .into_iter()
        .map(|(field, lists)| (field, read(file, split, lists).unwrap().into_iter()))
        .collect();
    let rows = entries.iter().map(|(key, postings)| {
        let rows = match postings {
            Postings::All => (0..split.rows()).collect(),
            Postings::Rows(rows) => rows.clone(),
            Postings::Stored { range, .. } => decode_postings(&cut(file, range), split.rows()).unwrap(),
            Postings::Column(list) => of_columns.get_mut(&list.field()).unwrap().next().unwrap(),
        };
        assert_eq!(rows.len(), postings.count(split.rows()));
        (key.clone(), rows)
    });
    rows.collect()
}

/// Documents with values of every type that has lists, of few distinct ones.
fn documents(rows: usize, values: &[String]) -> Vec<String> {
    let mut state = 1u64;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    (0..rows)
        .map(|row| {
            let text = |next: &mut dyn FnMut(usize) -> usize| {
                serde_json::to_string(&values[next(values.len())]).unwrap()
            };
            let one = text(&mut next);
            // One, several or none.
            let some = match next(4) {
                0 => "null".to_owned(),
                1 => format!("[{},{}]", text(&mut next), text(&mut next)),
                _ => text(&mut next),
            };
            let mixed = if next(2) == 0 { next(5).to_string() } else { text(&mut next) };
            format!(
                r#"{{"@timestamp":{row},"one":{one},"some":{some},"mixed":{mixed},"long":{},"longs":[{},{}],"big":1{:024},"ip":"{}","ok":{}}}"#,
                next(7) as i64 - 3,
                next(4),
                next(4),
                next(3),
                ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2", "fe80::1"][next(4)],
                next(2) == 0,
            )
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn columns_have_the_lists_that_are_left_to_them(
        values in prop::collection::vec("([aAbß東-]{1,4}[ ./:-]?){1,5}", 1..12),
        long in "[a-c]{60,140}",
    ) {
        let values: Vec<String> = values.into_iter().chain([long]).collect();
        let documents = documents(700, &values);
        for form in [DocumentForm::Stored, DocumentForm::Rendered] {
            let (stored, left_out) = (seal(&documents, STORED, form), seal(&documents, LEFT, form));
            let (stored_split, split) = (open(&stored.0, &stored.1), open(&left_out.0, &left_out.1));
            prop_assert!(!stored_split.leaves_lists() && split.leaves_lists());
            for dictionary in [Split::text, Split::exact] {
                let expected = entries(&stored.0, dictionary(&stored_split));
                let entries = entries(&left_out.0, dictionary(&split));
                prop_assert!(left(&expected).is_empty());
                prop_assert_eq!(
                    rows_of(&left_out.0, &split, &entries),
                    rows_of(&stored.0, &stored_split, &expected)
                );
            }
        }
    }
}

#[test]
fn columns_have_lists_of_every_type() {
    let values = ["GET", "get", "GET /", "a-b-c"].map(str::to_owned);
    let (file, sealed) = seal(&documents(1_500, &values), LEFT, DocumentForm::Stored);
    let split = open(&file, &sealed);
    let fields = |dictionary: &Entries| {
        let lists = left(&entries(&file, dictionary));
        let name = |list: &ColumnList| {
            let field = split.fields().find(|field| field.number == list.field()).unwrap();
            (field.path.clone(), field.ty)
        };
        lists.iter().map(name).collect::<std::collections::BTreeSet<_>>()
    };
    let of = |names: &[(&str, ValueType)]| names.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect();
    use ValueType::{Big, Ip, Long, Text};
    let tokens =
        [("big", Big), ("ip", Ip), ("long", Long), ("longs", Long), ("mixed", Long), ("mixed", Text)];
    let tokens = [&tokens[..], &[("one", Text), ("some", Text)]].concat();
    assert_eq!(fields(split.text()), of(&tokens));
    assert_eq!(fields(split.exact()), of(&[("ip", Ip), ("mixed", Text), ("one", Text), ("some", Text)]));
}

#[test]
fn a_list_is_left_to_a_small_column_or_where_it_is_a_large_part_of_it() {
    // One row in 64 is rare.
    let value = |row: usize| match xxhash_rust::xxh3::xxh3_64(&row.to_le_bytes()) % 64 {
        0 => "rare",
        other => ["x", "y", "z"][other as usize % 3],
    };
    let documents: Vec<String> =
        (0..20_000).map(|row| format!(r#"{{"@timestamp":{row},"v":"{}"}}"#, value(row))).collect();
    let forms = |list_column_bytes_max: u64, list_column_part: u64| {
        let options = WriterOptions { list_column_bytes_max, list_column_part, ..WriterOptions::default() };
        let (file, sealed) = seal_with(&documents, options);
        let split = open(&file, &sealed);
        let column = split.column_bytes("v__text");
        let entries = entries(&file, split.text());
        let field = split.field("v", ValueType::Text).unwrap().number;
        let mut rows = rows_of(&file, &split, &entries);
        let is_left = ["rare", "x"].map(|token| {
            let key = crate::text_key(token, field);
            let expected = (0..20_000).filter(|row| value(*row as usize) == token);
            assert_eq!(rows.remove(&key), Some(expected.collect()));
            matches!(entries[&key], Postings::Column(_))
        });
        (column, is_left)
    };
    let (column, stored) = forms(0, 0);
    assert_eq!(stored, [false, false]);
    assert_eq!(forms(column - 1, 0).1, [false, false]);
    assert_eq!(forms(column, 0).1, [true, true]);
    assert_eq!(forms(0, 4).1, [false, true]);
    assert_eq!(forms(0, column).1, [true, true]);
}

#[test]
fn lists_are_only_left_to_columns_with_dictionaries() {
    // Nearly every value differs, and has a word that many have.
    let document = |row: usize| format!(r#"{{"@timestamp":{row},"v":"id-{row:x} seen","n":{row}}}"#);
    let documents: Vec<String> = (0..3_000).map(document).collect();
    let (file, sealed) = seal(&documents, LEFT, DocumentForm::Stored);
    let split = open(&file, &sealed);
    assert!(!split.has_dictionary("v__text") && !split.leaves_lists());
    assert!(left(&entries(&file, split.text())).is_empty());
}

#[test]
fn a_list_with_another_count_than_its_column_is_corrupt() {
    let documents = documents(800, &["GET".to_owned(), "POST".to_owned()]);
    let (file, sealed) = seal(&documents, LEFT, DocumentForm::Stored);
    let split = open(&file, &sealed);
    let list = left(&entries(&file, split.text())).remove(0);
    assert_eq!(read(&file, &split, vec![list.clone(), list.clone()]).unwrap().len(), 2);
    for rows in [0, list.rows - 1, list.rows + 1] {
        let error = read(&file, &split, vec![ColumnList { rows, ..list.clone() }]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
    // Of another field, of a field without lists, and of none.
    for field in [split.field("ok", ValueType::Boolean).unwrap().number, u16::MAX] {
        let error = read(&file, &split, vec![ColumnList { field, ..list.clone() }]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{field}");
    }
}

#[test]
fn a_list_in_a_damaged_column_is_corrupt() {
    let documents = documents(500, &["GET".to_owned(), "POST".to_owned()]);
    let (file, sealed) = seal(&documents, LEFT, DocumentForm::Stored);
    let split = open(&file, &sealed);
    let list = left(&entries(&file, split.text())).remove(0);
    let ranges = split.column_lists(list.field(), vec![list.clone()]).unwrap().ranges().to_vec();
    for at in ranges.into_iter().flatten() {
        let mut damaged = file.to_vec();
        damaged[at as usize] ^= 0x10;
        let error = read(&damaged.into(), &split, vec![list.clone()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{at}");
    }
}
