use proptest::prelude::*;

use super::*;
use crate::dictionary::Entries;
use crate::fields::{FieldRecord, Wanted};
use crate::mapping::Mapping;
use crate::table::{KeyRange, TableWriter};

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
        let _ = Footer::decode(&bytes);
        crate::fuzzing::footer_body(&bytes);
        crate::fuzzing::footer_body_2(&bytes);
        crate::fuzzing::directory(&bytes);
        for version in FORMAT_VERSION_OLDEST..=FORMAT_VERSION {
            let mut framed = [MAGIC.as_slice(), &version.to_le_bytes()].concat();
            framed.extend_from_slice(&bytes);
            let _ = Footer::decode_checked(&framed);
        }
    }

    #[test]
    fn signed_numbers_read_back(value: i64) {
        let mut out = Vec::new();
        put_signed(&mut out, value);
        prop_assert_eq!(read_signed(&mut Cursor::new(&out)).unwrap(), value);
    }
}

#[test]
fn another_version_is_named() {
    let mut bytes = [MAGIC.as_slice(), &7u32.to_le_bytes(), &[0; 16]].concat();
    bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
    let error = Footer::decode(&bytes).unwrap_err();
    assert!(error.to_string().contains("version 7"), "{error}");
}

#[test]
fn a_feature_that_is_not_known_is_refused_and_named() {
    let mut bytes =
        [MAGIC.as_slice(), &3u32.to_le_bytes(), &(1u64 << 40 | LISTS).to_le_bytes(), &[0; 16]].concat();
    bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
    let error = Footer::decode(&bytes).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
    let error = error.to_string();
    assert!(error.contains("newer version") && error.contains("features=0x10000000000"), "{error}");
}

#[test]
fn a_footer_cannot_ask_for_more_memory_than_it_could_fill() {
    assert!(unpack(&[0; 20], 1 << 30).is_err());
}

/// A table of this many keys, at the front of a file.
fn table(keys: u32) -> Table {
    let mut writer = TableWriter::new(3).unwrap();
    for key in 0..keys {
        let key = (u64::from(key) << 32 | xxh3_64(&key.to_le_bytes()) >> 32).to_be_bytes();
        writer.add(&key, &[7; 200]).unwrap();
    }
    writer.finish(&mut Vec::new(), 4).unwrap()
}

fn pages(name: String, kind: ColumnKind, count: u32, rows: u32) -> Chunk {
    let page = |n: u32| Page {
        bytes: 9_000 + n * 7 % 500,
        rows: rows / count,
        checksum: xxh3_64(&n.to_le_bytes()) as u32,
        skip: 0,
    };
    Chunk {
        name,
        kind,
        offset: 4,
        dictionary: None,
        has_lengths: false,
        has_streams: false,
        pages: (0..count).map(page).collect(),
        bounds: Vec::new(),
    }
}

/// Of a split with many fields and a large index.
fn contents(readings: u16) -> Contents {
    let rows = 100_000;
    let record = |number: u16| {
        let (path, ty) = (format!("service.name-{number:05}"), ValueType::Text);
        let kind = ColumnKind::Field { field: number, ty, list: false };
        let chunk = pages(Mapping::column_name(&path, ty, false), kind, 5, rows);
        let field = SplitField {
            number,
            path,
            ty,
            has_scalar: true,
            has_list: false,
            is_indexed: true,
            dynamic: false,
            has_nanos: false,
            rows_with_value: 1,
        };
        FieldRecord { field, exists: vec![2, 0], chunks: vec![chunk] }
    };
    Contents {
        groups: Vec::new(),
        id: SplitId::from_random(9),
        required: ENTRY_HEADS,
        rows,
        rows_without_time: rows,
        times: None,
        own: vec![
            pages(TIME_COLUMN.to_owned(), ColumnKind::Time, 5, rows),
            pages(SOURCE_COLUMN.to_owned(), ColumnKind::Source, 4_000, rows),
        ],
        fields: (0..readings).map(record).collect(),
        text: Dictionary::new(table(400_000), 0..4, rows, Entries::Text),
        exact: Dictionary::new(table(100_000), 0..4, rows, Entries::Exact),
        pairs: Dictionary::new(table(50_000), 0..4, rows, Entries::WithoutHeads),
        digest: DigestPlace::Table(table(u32::from(readings))),
        origins: None,
        lists: 0..4,
    }
}

#[test]
fn what_does_not_fit_into_the_hot_footer_is_read_from_outside() {
    let contents = contents(50_000);
    let mut outside = Vec::new();
    let start = 1_000;
    let hot = write(&contents, &mut outside, start, 32 << 10, 3).unwrap().sum(b"tail");
    assert!(hot.len() <= 32 << 10, "{} bytes", hot.len());
    let footer = Footer::decode(&hot).unwrap();
    let at = |block: &Block| {
        let range = &block.range;
        &outside[(range.start - start) as usize..(range.end - start) as usize]
    };
    for number in [0, 77, 49_999] {
        let path = &contents.fields[usize::from(number)].field.path;
        let unread = footer.fields.missing(Wanted::Path(path));
        assert!(
            unread.len() <= 1 && unread.iter().all(|block| block.range.end - block.range.start < 4 << 10)
        );
        unread.iter().for_each(|block| assert!(footer.fields.keep(block, at(block)).unwrap()));
        assert_eq!(footer.fields.get(number).unwrap(), &contents.fields[usize::from(number)]);
    }
    let tables = |text: &Dictionary, exact: &Dictionary, pairs: &Dictionary| {
        [text, exact, pairs].map(|dictionary| dictionary.table().clone())
    };
    let written = tables(&contents.text, &contents.exact, &contents.pairs);
    for (table, whole) in tables(&footer.text, &footer.exact, &footer.pairs).iter().zip(&written) {
        let key = |n: u64| {
            KeyRange::between((n << 32).to_be_bytes().to_vec(), Some(((n + 9) << 32).to_be_bytes().to_vec()))
        };
        for keys in [key(0), key(111_000), key(99_990), KeyRange::all()] {
            let index = table.index_blocks([&keys]);
            let table = match index.is_empty() {
                true => table.clone(),
                false => table.with_index(index.iter().map(|block| (block, at(block)))).unwrap(),
            };
            assert_eq!(table.blocks(&keys).unwrap(), whole.blocks(&keys).unwrap());
        }
    }
    let index = footer.text.table().index_blocks([&KeyRange::all()]);
    assert!(index.len() > 1, "this test is of more than one index block");
    assert!(footer.text.table().blocks(&KeyRange::all()).is_err());
    let source = footer.own.iter().find(|own| own.kind == ColumnKind::Source).unwrap();
    let (block, raw_bytes) = source.outside.as_ref().unwrap();
    source.keep(block, *raw_bytes, at(block), footer.rows).unwrap();
    assert_eq!(source.chunk.get(), Some(&contents.own[1]));
}
