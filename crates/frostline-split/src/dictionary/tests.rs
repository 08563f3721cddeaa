use std::collections::BTreeMap;

use proptest::prelude::*;

use roaring::RoaringBitmap;

use super::*;
use crate::table::{KeyRanges, TableWriter};

/// No list is left to a column.
const NEVER: Leaving = Leaving { inline_bytes_max: 128, column_bytes_max: 0, part: 0 };

/// A dictionary of these keys, and its file: postings first, then the blocks.
fn build(keys: &BTreeMap<Vec<u8>, Vec<u32>>, split_rows: u32, form: Entries) -> (Dictionary, Vec<u8>) {
    let mut postings_file = Vec::new();
    let mut sink = PostingsSink::new(&mut postings_file, 0, split_rows, 3, NEVER).unwrap();
    let mut writer = TableWriter::new(3).unwrap();
    for (key, rows) in keys {
        let (mut list, mut entry) = (Vec::new(), Vec::new());
        sink.put(&mut list, rows, crate::postings::INLINE_BYTES_MAX, None).unwrap();
        put_entry(&mut entry, Some(key).filter(|key| has_value(key)).map(|_| &b"v"[..]), b"", &list).unwrap();
        writer.add(key, if form == Entries::WithoutHeads { &list } else { &entry }).unwrap();
    }
    let range = sink.finish().range;
    let table = writer.finish(&mut postings_file, range.end).unwrap();
    (Dictionary::new(table, range, split_rows, form), postings_file)
}

/// Some have a value.
fn has_value(key: &[u8]) -> bool {
    key.len().is_multiple_of(2)
}

fn found(dictionary: &Dictionary, file: &[u8], keys: &KeyRange) -> BTreeMap<Vec<u8>, Vec<u32>> {
    let mut found = BTreeMap::new();
    for block in dictionary.table().blocks(keys).unwrap() {
        let bytes = &file[block.range.start as usize..block.range.end as usize];
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let visit = |Entry { key, is_short, value, postings, bytes }: Entry<'_>| {
            after.push((key.to_vec(), postings.clone(), bytes));
            let has_value = dictionary.entries != Entries::WithoutHeads && has_value(key);
            assert_eq!((is_short, value), (false, has_value.then_some(HeldText::Written("v"))));
            let rows: RoaringBitmap = match postings {
                Postings::All => (0..dictionary.split_rows).collect(),
                Postings::Rows(rows) => rows,
                Postings::Stored { range, .. } => {
                    let bytes = &file[range.start as usize..range.end as usize];
                    crate::decode_postings(bytes, dictionary.split_rows).unwrap()
                }
                Postings::Column(list) => panic!("{list:?}"),
            };
            found.insert(key.to_vec(), rows.iter().collect());
        };
        let (unpacked, ranges) = (UnpackedBlock::new(&block, bytes).unwrap(), KeyRanges::from(keys));
        let again = |entry: Entry<'_>| before.push((entry.key.to_vec(), entry.postings, entry.bytes));
        dictionary.scan_unpacked(&unpacked, &ranges, again).unwrap();
        dictionary.scan_unpacked(&unpacked, &ranges, visit).unwrap();
        assert_eq!(before, after, "a block that is kept");
    }
    found
}

fn forms() -> impl Strategy<Value = Entries> {
    prop::sample::select(vec![Entries::WithoutHeads, Entries::Text, Entries::Exact])
}

fn keys() -> impl Strategy<Value = BTreeMap<Vec<u8>, Vec<u32>>> {
    let key = prop::collection::vec(prop::sample::select(vec![0u8, 1, 97, 98, 255]), 1..12);
    let rows = prop::collection::btree_set(0u32..5000, 1..300).prop_map(|rows| rows.into_iter().collect());
    prop::collection::btree_map(key, rows, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_range_of_keys_is_found(keys in keys(), start: prop::sample::Index, prefix in 1usize..4, form in forms()) {
        let (dictionary, file) = build(&keys, 5000, form);
        prop_assert_eq!(&found(&dictionary, &file, &KeyRange::all()), &keys);
        if let Some(key) = keys.keys().nth(start.index(keys.len().max(1))) {
            for range in [KeyRange::exact(key.clone()), KeyRange::prefix(key[..prefix.min(key.len())].to_vec())] {
                let expected = keys.iter().filter(|(key, _)| range.contains(key));
                let expected: BTreeMap<_, _> = expected.map(|(k, v)| (k.clone(), v.clone())).collect();
                prop_assert_eq!(found(&dictionary, &file, &range), expected);
            }
        }
    }

    #[test]
    fn the_block_index_reads_back(keys in keys()) {
        let (dictionary, _) = build(&keys, 5000, Entries::WithoutHeads);
        let mut out = Vec::new();
        dictionary.encode(&mut out);
        prop_assert_eq!(Dictionary::decode(&mut Cursor::new(&out), 5000).unwrap(), dictionary);
    }

    #[test]
    fn any_bytes_are_scanned_without_panic(bytes: Vec<u8>, form in forms()) {
        let (dictionary, _) = build(&BTreeMap::new(), 100, form);
        let _ = dictionary.scan_raw(&bytes, &KeyRanges::all(), &mut |_| {});
        let _ = Dictionary::decode(&mut Cursor::new(&bytes), 100);
        let _ = unpack_entries(&bytes);
    }
}

/// What a dictionary of this form reads of an entry with this head and list.
fn listed(form: Entries, key: &[u8], head: u64, list: &[u64]) -> Result<Postings> {
    let mut raw = Vec::new();
    crate::table::put_key(&mut raw, &[], key);
    put_varint(&mut raw, head);
    list.iter().for_each(|number| put_varint(&mut raw, *number));
    let mut found = Err(Error::internal("no entry was read"));
    let dictionary = Dictionary::new(Table::default(), 100..200, 50, form);
    dictionary.scan_raw(&raw, &KeyRanges::all(), &mut |entry| found = Ok(entry.postings))?;
    found
}

#[test]
fn only_whole_keys_of_a_field_have_lists_in_columns() {
    let left = [0, 0, 30];
    let key = crate::text_key("get", 7);
    let Postings::Column(list) = listed(Entries::Text, &key, 1 << HEAD_BITS, &left).unwrap() else {
        panic!()
    };
    assert_eq!((list.field(), list.rows()), (7, 30));
    let key = exact_key("GET", 7);
    let Postings::Column(list) = listed(Entries::Exact, &key, 1 << HEAD_BITS, &left).unwrap() else {
        panic!()
    };
    assert_eq!((list.field(), list.rows()), (7, 30));
    // Nothing says which rows these have: no heads, a short key, none of a field, more rows than there are.
    for wrong in [
        listed(Entries::WithoutHeads, &key, 1, &left),
        listed(Entries::Exact, &key, 1 << HEAD_BITS | SHORT, &left),
        listed(Entries::Exact, b"x", 1 << HEAD_BITS, &left),
        listed(Entries::Text, b"x", 1 << HEAD_BITS, &left),
        listed(Entries::Exact, &key, 1 << HEAD_BITS, &[0, 0, 51]),
    ] {
        assert_eq!(wrong.unwrap_err().kind(), frostline_base::ErrorKind::Corrupt);
    }
}

#[test]
fn a_text_key_comes_apart() {
    let key = crate::text_key("powershell.exe", 513);
    let expected = TextKey { token: "powershell.exe", form: Form::Whole, field: 513, is_short: false };
    assert_eq!(TextKey::split(&key), Some(expected));
    assert_eq!(TextKey::split(b"x"), None);
    assert_eq!(TextKey::split(b"x\x03\0\0"), None);
}

#[test]
fn long_values_are_keyed_by_their_hash() {
    let (a, b) = ("x".repeat(200), "x".repeat(201));
    assert_ne!(exact_key(&a, 1), exact_key(&b, 1));
    assert_eq!(exact_key(&a, 1).len(), 2 + 64 + 1 + 16);
    assert!(is_hashed(&a) && !is_hashed("x"));
}

proptest! {
    #[test]
    fn ranges_meet_the_prefix_of_what_they_contain(
        ranges in proptest::collection::vec(("[ab]{0,3}", proptest::option::of("[ab]{0,3}")), 0..5),
        prefix in "[ab]{0,3}",
    ) {
        let ranges = ranges.into_iter();
        let ranges: Vec<KeyRange> =
            ranges.map(|(start, end)| KeyRange::between(start.into_bytes(), end.map(String::into_bytes))).collect();
        let together = KeyRanges::new(&ranges);
        // Keys of a, b and what is between them: at most one byte longer than every end.
        let mut longer = vec![prefix.clone().into_bytes()];
        for at in 0.. {
            let Some(key) = longer.get(at).filter(|key| key.len() < prefix.len() + 4).cloned() else { break };
            longer.extend([b"a", b"b"].map(|byte| [&key[..], byte].concat()));
        }
        let has_any = longer.iter().skip(1).any(|key| ranges.iter().any(|range| range.contains(key)));
        prop_assert!(!has_any || together.meet(prefix.as_bytes(), b'a'));
        // It only meets what has room for a key; of these the least is the prefix and the byte.
        let room = [prefix.as_bytes(), b"a"].concat();
        let has_room = |range: &KeyRange| {
            let meets = KeyRanges::from(range).meet(prefix.as_bytes(), b'a');
            assert!(!meets || !range.ends_before(&room));
            meets
        };
        prop_assert_eq!(together.meet(prefix.as_bytes(), b'a'), ranges.iter().any(has_room));
    }

    #[test]
    fn ranges_together_contain_what_one_of_them_does(
        ranges in proptest::collection::vec(("[ab]{0,3}", proptest::option::of("[ab]{0,3}")), 0..5),
        key in "[ab]{0,4}",
    ) {
        let ranges: Vec<KeyRange> = ranges
            .into_iter()
            .map(|(start, end)| KeyRange::between(start.into_bytes(), end.map(String::into_bytes)))
            .collect();
        let expected = ranges.iter().any(|range| range.contains(key.as_bytes()));
        let together = KeyRanges::new(&ranges);
        prop_assert_eq!(together.contains(key.as_bytes()), expected);
        prop_assert!(!expected || together.hull().contains(key.as_bytes()));
    }
}

#[test]
fn short_keys_side_by_side_are_all_visited_again() {
    const FIELDS: u16 = 400;
    let (mut file, mut writer) = (Vec::new(), TableWriter::new(3).unwrap());
    let mut sink = PostingsSink::new(&mut file, 0, 100, 3, NEVER).unwrap();
    let mut add = |token: &str, field: u16, is_short: bool| {
        let (mut key, mut list, mut entry) = Default::default();
        put_text_key(&mut key, token.as_bytes(), Form::Whole, field);
        sink.put(&mut list, &[u32::from(field % 100)], 128, None).unwrap();
        match is_short {
            true => put_short_entry(&mut entry, false, &list).unwrap(),
            false => put_entry(&mut entry, None, b"", &list).unwrap(),
        }
        writer.add(&key, &entry).unwrap();
    };
    (0..FIELDS).for_each(|n| add(&format!("a{n:04}"), 0, false));
    (0..FIELDS).for_each(|field| add("bcd", field, true));
    (0..FIELDS).for_each(|n| add(&format!("e{n:04}"), 0, false));
    let range = sink.finish().range;
    let table = writer.finish(&mut file, range.end).unwrap();
    let dictionary = Dictionary::new(table, range, 100, Entries::Text);
    let mut exact = Vec::new();
    put_text_key(&mut exact, b"bcdefg", Form::Whole, 3);
    for (keys, fields) in [
        (KeyRange::token("bcdefg"), (0..FIELDS).collect::<Vec<_>>()),
        (KeyRange::exact(exact), (0..FIELDS).collect()),
        (KeyRange::token("bbb"), Vec::new()),
        (KeyRange::token("e0007"), vec![0]),
    ] {
        let all = dictionary.table().blocks(&KeyRange::all()).unwrap();
        let block = |block: &Block| {
            UnpackedBlock::new(block, &file[block.range.start as usize..block.range.end as usize]).unwrap()
        };
        let blocks: Vec<UnpackedBlock> = all.iter().map(block).collect();
        for time in 0..3 {
            let mut visited = Vec::new();
            for block in &blocks {
                let visit = |entry: Entry<'_>| visited.push(entry.text_key().unwrap().field);
                dictionary.scan_unpacked(block, &KeyRanges::from(&keys), visit).unwrap();
            }
            assert_eq!(visited, fields, "{keys:?}, time {time}");
        }
    }
}
