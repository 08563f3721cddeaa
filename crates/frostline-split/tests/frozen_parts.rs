//! Splits with what only some splits have, written once and read by every later reader. `FROSTLINE_BLESS=1` writes those
//! that are missing.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Float64Type, Int16Type, Int64Type, TimestampMicrosecondType};
use bytes::Bytes;
use frostline_base::SplitId;
use frostline_split::{
    Block, Dictionary, DocumentForm, HeldText, Identity, KeyRange, KeyRanges, Mapping, Origin, PairKey,
    Postings, Split, SplitWriter, TextAs, Value, ValueType, WriterOptions, decode_postings, exact_key,
    ip_key, parse_ip, text_key,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Encoding;
use roaring::RoaringBitmap;

const ROWS: u32 = 14_000;

fn random(row: u32) -> u32 {
    xxhash_rust::xxh3::xxh3_64(&row.to_le_bytes()) as u32
}

/// Words, each with the form of its list and the rows that have it.
fn words() -> [(&'static str, u8, BTreeSet<u32>); 6] {
    let all = |has: fn(u32) -> bool| (0..ROWS).filter(|row| has(*row)).collect();
    let steps = std::iter::successors(Some(0), |row| Some(row + 65 + random(*row) % 63));
    let lengths = (0..).scan(0, |end, number| {
        let start = *end + 1 + random(number) % 128;
        *end = start + 1 + random(!number) % 128;
        Some(start..*end)
    });
    [
        ("gaps", 1, steps.take_while(|row| *row < ROWS).collect()),
        ("rare", 3, all(|row| random(row).is_multiple_of(25))),
        ("long", 2, all(|row| row / 700 % 2 == 1)),
        ("some", 4, lengths.flatten().take_while(|row| *row < ROWS).collect()),
        ("even", 5, all(|row| matches!(row % 50, 0 | 9 | 30))),
        ("runs", 6, all(|row| row / 13 % 2 == 1)),
    ]
}

/// A frozen split of these documents, some with where they first landed, the features that it requires, and what opening it gives.
fn open(name: &str, documents: impl Iterator<Item = (String, Option<Origin>)>) -> (Bytes, u64, Split) {
    open_mapped(name, Mapping::dynamic(), DocumentForm::Stored, documents)
}

fn open_mapped(
    name: &str,
    mapping: Mapping,
    form: DocumentForm,
    documents: impl Iterator<Item = (String, Option<Origin>)>,
) -> (Bytes, u64, Split) {
    open_written(name, mapping, form, |writer| {
        documents.for_each(|(document, origin)| match origin {
            Some(origin) => writer.add_of(document.as_bytes(), origin).unwrap(),
            None => writer.add(document.as_bytes()).unwrap(),
        });
    })
}

fn open_written(
    name: &str,
    mapping: Mapping,
    form: DocumentForm,
    write: impl FnOnce(&mut SplitWriter),
) -> (Bytes, u64, Split) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.parquet"));
    if std::env::var_os("FROSTLINE_BLESS").is_some() && !path.exists() {
        let options =
            WriterOptions { pairs_column_bytes_min: 0, documents: form, ..WriterOptions::default() };
        let mut writer = SplitWriter::new(mapping, options);
        write(&mut writer);
        let mut out = Vec::new();
        writer.seal(SplitId::from_random(4), &mut out).unwrap();
        std::fs::write(&path, out).unwrap();
    }
    let file: Bytes = std::fs::read(path).unwrap().into();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone()).unwrap();
    let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let place =
        pairs.iter().find(|pair| pair.key == "frostline.split.footer").unwrap().value.as_ref().unwrap();
    let (start, end) = place.split_once("..").unwrap();
    let footer = file.slice(start.parse::<usize>().unwrap()..end.parse().unwrap());
    // It is said before anything that depends on it.
    let required = u64::from_le_bytes(footer[12..20].try_into().unwrap());
    let split = Split::open(&footer).unwrap();
    (file, required, split)
}

#[test]
fn lists_of_every_form_are_still_read() {
    let words = words();
    let documents = (0..ROWS).map(|row| {
        let words: Vec<&str> =
            words.iter().filter(|(_, _, rows)| rows.contains(&row)).map(|(word, _, _)| *word).collect();
        format!(r#"{{"@timestamp":{},"m":"{}"}}"#, 1_709_287_200_000u64 + u64::from(row), words.join(" "))
    });
    let (file, required, split) = open("version-3-lists", documents.map(|document| (document, None)));
    assert_eq!(required & 1 << 1, 1 << 1);
    let field = split.field("m", ValueType::Text).unwrap().number;
    for (word, form, rows) in &words {
        let keys = KeyRange::exact(text_key(word, field));
        let mut found = Vec::new();
        for block in split.text().table().blocks(&keys).unwrap() {
            let bytes = file.slice(block.range.start as usize..block.range.end as usize);
            split
                .text()
                .scan(&block, &bytes, &KeyRanges::from(&keys), |entry| found.push(entry.postings))
                .unwrap();
        }
        let Some(Postings::Stored { range, rows: count }) = found.pop() else { panic!("{word}") };
        let list = &file[range.start as usize..range.end as usize];
        assert_eq!(list[4], *form, "{word}");
        let read = decode_postings(list, split.rows()).unwrap();
        assert_eq!(read.len(), u64::from(count));
        assert!(read.iter().eq(rows.iter().copied()), "{word}");
    }
}

#[test]
fn texts_behind_their_lengths_are_still_read() {
    let id = |row: u32| format!("{:08x}{:08x}", random(row), random(!row));
    let rows = 800;
    let documents = (0..rows).map(|row| match row % 5 {
        0 => format!(r#"{{"@timestamp":{row},"id":"{}"}}"#, id(row)),
        1 => format!(r#"{{"@timestamp":{row},"id":["{}","{}"]}}"#, id(row), id(row + 1)),
        _ => format!(r#"{{"@timestamp":{row},"id":"{}"}}"#, &id(row)[row as usize % 16..]),
    });
    let (file, required, split) = open("version-3-text-lengths", documents.map(|document| (document, None)));
    assert_eq!(required & 1 << 8, 1 << 8);
    let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone()).unwrap();
    for column in reader.metadata().row_group(0).columns() {
        let is_id = column.column_path().parts()[0].starts_with("id__text");
        assert_eq!(column.encodings().any(|encoding| encoding == Encoding::DELTA_LENGTH_BYTE_ARRAY), is_id);
    }
    let theirs = reader.with_batch_size(rows as usize).build().unwrap().next().unwrap().unwrap();
    let some: RoaringBitmap = (0..rows).filter(|row| row % 7 < 2).collect();
    for wanted in [None, Some(&some)] {
        for text_as in [TextAs::Plain, TextAs::Dictionary] {
            let read = split.columns(&["id__text", "id__text_list"], wanted, text_as).unwrap();
            let ranges = read.ranges().iter().map(|r| file.slice(r.start as usize..r.end as usize));
            let batches = read.clone().decode(ranges.collect()).unwrap();
            let ours = arrow::compute::concat_batches(read.schema(), &batches).unwrap();
            let rows: Vec<u32> = wanted.map_or_else(|| (0..rows).collect(), |wanted| wanted.iter().collect());
            for (at, row) in rows.into_iter().enumerate() {
                for name in ["id__text", "id__text_list"] {
                    let value = |batch: &RecordBatch, at| {
                        let column = batch.column_by_name(name).unwrap();
                        arrow::util::display::array_value_to_string(column, at).unwrap()
                    };
                    assert_eq!(value(&ours, at), value(&theirs, row as usize), "{name}, row {row}");
                }
            }
        }
    }
    assert_eq!(theirs.column_by_name("id__text").unwrap().as_string::<i32>().value(0), id(0));
}

#[test]
fn pairs_of_frequent_words_are_still_read() {
    let rows = 600;
    let document = |row: u32| {
        let twice = if row.is_multiple_of(10) { ", the value" } else { "" };
        format!(r#"{{"@timestamp":{row},"m":"{row:x}: value set{twice}"}}"#)
    };
    let (file, _, split) = open("version-3-pairs", (0..rows).map(|row| (document(row), None)));
    let field = split.field("m", ValueType::Text).unwrap().number;
    let rows_of = |first: &str, second: &str| {
        let keys = PairKey::range(first, second);
        let mut found = Vec::new();
        for block in split.pairs().table().blocks(&keys).unwrap() {
            let bytes = file.slice(block.range.start as usize..block.range.end as usize);
            let visit = |entry: frostline_split::Entry<'_>| {
                assert_eq!(PairKey::split(entry.key), Some(PairKey { first, second, field }));
                found.push(entry.postings);
            };
            split.pairs().scan(&block, &bytes, &KeyRanges::from(&keys), visit).unwrap();
        }
        found.pop().map(|postings| match postings {
            Postings::All => (0..rows).collect::<Vec<u32>>(),
            Postings::Rows(rows) => rows.iter().collect(),
            Postings::Stored { range, .. } => {
                let list = &file[range.start as usize..range.end as usize];
                decode_postings(list, split.rows()).unwrap().iter().collect()
            }
            Postings::Column(list) => panic!("{list:?}"),
        })
    };
    let tenth: Vec<u32> = (0..rows).step_by(10).collect();
    assert_eq!(rows_of("", "").unwrap(), [31]);
    assert_eq!(rows_of("value", "set").unwrap().len(), rows as usize);
    assert_eq!(rows_of("set", "the").as_ref(), Some(&tenth));
    assert_eq!(rows_of("value", "").as_ref(), Some(&tenth));
    assert_eq!(rows_of("the", "set"), None);
}

#[test]
fn lists_that_are_left_to_the_column_are_still_read() {
    let rows = 1_200;
    let method = |row: u32| ["GET", "get", "POST"][random(row) as usize % 3];
    let status = |row: u32| 200 + random(!row) % 4;
    let address = |row: u32| format!("10.0.0.{}", random(row ^ 7) % 5);
    let document = |row: u32| {
        let tags = match row % 4 {
            0 => r#""new""#,
            1 => r#"["new","a new one"]"#,
            _ => r#"["old","one"]"#,
        };
        let (method, status, address) = (method(row), status(row), address(row));
        format!(
            r#"{{"@timestamp":{row},"method":"{method}","status":{status},"ip":"{address}","tags":{tags},"big":{}}}"#,
            10u128.pow(20) + u128::from(row % 3)
        )
    };
    let documents = (0..rows).map(|row| (document(row), None));
    let (file, required, split) = open("version-3-column-lists", documents);
    assert_eq!(required & 1 << 10, 1 << 10);
    let rows_of = |ty: ValueType, path: &str, token: Option<&str>, key: Option<Vec<u8>>| {
        let field = split.field(path, ty).unwrap().number;
        let dictionary = if token.is_some() { split.text() } else { split.exact() };
        let key = token.map(|token| text_key(token, field)).or(key).unwrap();
        let keys = KeyRange::exact(key);
        let mut found = Vec::new();
        for block in dictionary.table().blocks(&keys).unwrap() {
            let bytes = file.slice(block.range.start as usize..block.range.end as usize);
            dictionary
                .scan(&block, &bytes, &KeyRanges::from(&keys), |entry| found.push(entry.postings))
                .unwrap();
        }
        let Some(Postings::Column(list)) = found.pop() else { panic!("{path} {token:?}") };
        let read = split.column_lists(list.field(), vec![list]).unwrap();
        let bytes = |range: &std::ops::Range<u64>| file.slice(range.start as usize..range.end as usize);
        let bytes = read.ranges().iter().map(bytes).collect();
        read.decode(bytes).unwrap().pop().unwrap()
    };
    let all = |has: &dyn Fn(u32) -> bool| (0..rows).filter(|row| has(*row)).collect::<RoaringBitmap>();
    let number = |ty: ValueType, path: &str| split.field(path, ty).unwrap().number;
    let (text, ip) = (number(ValueType::Text, "method"), number(ValueType::Ip, "ip"));
    let token = |ty, path, token| rows_of(ty, path, Some(token), None);
    assert_eq!(token(ValueType::Text, "method", "get"), all(&|row| method(row) != "POST"));
    let exact = rows_of(ValueType::Text, "method", None, Some(exact_key("get", text)));
    assert_eq!(exact, all(&|row| method(row) == "get"));
    assert_eq!(token(ValueType::Text, "tags", "new"), all(&|row| row % 4 < 2));
    assert_eq!(token(ValueType::Text, "tags", "one"), all(&|row| row % 4 > 0));
    assert_eq!(token(ValueType::Long, "status", "203"), all(&|row| status(row) == 203));
    assert_eq!(token(ValueType::Big, "big", "100000000000000000002"), all(&|row| row % 3 == 2));
    assert_eq!(token(ValueType::Ip, "ip", "10.0.0.3"), all(&|row| address(row) == "10.0.0.3"));
    let key = ip_key(&parse_ip("10.0.0.4").unwrap(), ip);
    assert_eq!(rows_of(ValueType::Ip, "ip", None, Some(key)), all(&|row| address(row) == "10.0.0.4"));
}

#[test]
fn blocks_in_streams_are_still_read() {
    let rows = 1_000;
    let id = |row: u32| format!("{:08x}{:08x}", random(row), random(!row));
    // A value that follows its token, numbers of a few rows, words and pairs of words of many.
    let user = |row: u32| format!("User{}", random(row) % 75);
    let number_of = |row: u32| 100_000 + random(row + rows) % 150;
    let word = |row: u32, at: u32| format!("w{}", random(row * 4 + at + 2 * rows) % 20);
    let document = |row: u32| {
        let (id, user, number) = (id(row), user(row), number_of(row));
        let words = [word(row, 0), word(row, 1), word(row, 2)].join(" ");
        format!(r#"{{"@timestamp":{row},"id":"{id}","user":"{user}","n":{number},"m":"{words}, {row:x}"}}"#)
    };
    let (file, required, split) = open("version-3-streams", (0..rows).map(|row| (document(row), None)));
    assert_eq!(required & 1 << 9, 1 << 9);
    let scan = |dictionary: &Dictionary, keys: KeyRange| {
        let mut found: Vec<(Option<String>, Vec<u32>)> = Vec::new();
        for block in dictionary.table().blocks(&keys).unwrap() {
            let bytes = file.slice(block.range.start as usize..block.range.end as usize);
            assert_eq!(bytes[0], 2);
            let visit = |entry: frostline_split::Entry<'_>| {
                let value = entry.value.map(|value| match value {
                    HeldText::Written(text) => text.to_owned(),
                    HeldText::InColumn => "in the column".to_owned(),
                });
                let rows = match entry.postings {
                    Postings::All => (0..rows).collect(),
                    Postings::Rows(rows) => rows.iter().collect(),
                    Postings::Stored { range, .. } => {
                        let list = &file[range.start as usize..range.end as usize];
                        decode_postings(list, split.rows()).unwrap().iter().collect()
                    }
                    Postings::Column(list) => panic!("{list:?}"),
                };
                found.push((value, rows));
            };
            dictionary.scan(&block, &bytes, &KeyRanges::from(&keys), visit).unwrap();
        }
        found
    };
    let field = |path, ty| split.field(path, ty).unwrap().number;
    let (ids, users) = (field("id", ValueType::Text), field("user", ValueType::Text));
    let (numbers, m) = (field("n", ValueType::Long), field("m", ValueType::Text));
    let with = |has: &dyn Fn(u32) -> bool| (0..rows).filter(|row| has(*row)).collect::<Vec<u32>>();
    for row in (0..rows).step_by(37) {
        let of = |key: String, field| scan(split.text(), KeyRange::exact(text_key(&key, field)));
        let in_column = Some("in the column".to_owned());
        assert_eq!(of(id(row), ids), [(in_column, vec![row])]);
        let (user, number) = (user(row), number_of(row));
        let same_user = with(&|other| random(other) % 75 == random(row) % 75);
        assert_eq!(of(user.to_lowercase(), users), [(Some(user), same_user)]);
        assert_eq!(of(number.to_string(), numbers), [(None, with(&|other| number_of(other) == number))]);
        let (first, second) = (word(row, 0), word(row, 1));
        let has = with(&|other| (0..3).any(|at| word(other, at) == first));
        assert_eq!(of(first.clone(), m), [(None, has)]);
        let stand_together =
            with(&|other| (0..2).any(|at| word(other, at) == first && word(other, at + 1) == second));
        assert_eq!(scan(split.pairs(), PairKey::range(&first, &second)), [(None, stand_together)]);
        let text = format!("{first} {second} {}, {row:x}", word(row, 2));
        assert_eq!(scan(split.exact(), KeyRange::exact(exact_key(&text, m))), [(None, vec![row])]);
    }
}

#[test]
fn nanoseconds_are_still_read() {
    let rows = 300;
    // Two and three share a microsecond, and every tenth has no time.
    let nanos = |row: u32| u64::from(row / 3 * 1_000 + row % 3 * 333 + 1);
    let documents = (0..rows).rev().map(|row| match row % 10 {
        9 => (format!(r#"{{"row":{row}}}"#), None),
        _ => (format!(r#"{{"row":{row},"@timestamp":"2024-03-01T10:00:00.{:09}Z"}}"#, nanos(row)), None),
    });
    let (file, required, split) = open("version-3-nanoseconds", documents);
    assert_eq!(required & 1 << 6, 1 << 6);
    let names = ["_timestamp", "_timestamp_ns", "row__long"];
    let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone()).unwrap();
    let ids: BTreeSet<&str> = names.into_iter().collect();
    let theirs = reader.build().unwrap().next().unwrap().unwrap();
    let read = split.columns(&names, None, TextAs::Plain).unwrap();
    let ranges = read.ranges().iter().map(|range| file.slice(range.start as usize..range.end as usize));
    let ours = read.clone().decode(ranges.collect()).unwrap().remove(0);
    for name in ids {
        assert_eq!(ours.column_by_name(name), theirs.column_by_name(name), "{name}");
    }
    let times = ours.column(0).as_primitive::<TimestampMicrosecondType>();
    let rest = ours.column(1).as_primitive::<Int16Type>();
    let numbers = ours.column(2).as_primitive::<Int64Type>();
    let timed: Vec<u32> = (0..rows).filter(|row| row % 10 != 9).collect();
    for (at, row) in timed.iter().enumerate() {
        assert_eq!(numbers.value(at), i64::from(*row));
        let since = (times.value(at) - 1_709_287_200_000_000) as u64 * 1_000 + rest.value(at) as u64;
        assert_eq!(since, nanos(*row), "{row}");
    }
    assert_eq!((times.null_count(), rest.null_count()), (30, 30));
    assert_eq!(split.rows_without_time(), 30);
}

#[test]
fn nanoseconds_of_other_dates_are_still_read() {
    let rows = 300;
    // Three share a microsecond; every fifth row has a list, and every seventh none.
    let date = |number: u32| format!("\"2024-03-01T10:00:00.{:09}Z\"", number / 3 * 1_000 + number % 3 * 333);
    let numbers = |row: u32| match (row % 5, row % 7) {
        (_, 6) => vec![],
        (4, _) => vec![row, row + 1, row],
        _ => vec![row],
    };
    let documents = || {
        (0..rows).map(|row| {
            let dates = numbers(row).into_iter().map(date).collect::<Vec<_>>().join(",");
            match numbers(row).len() {
                1 => format!(r#"{{"@timestamp":{},"at":{dates},"far":{dates}}}"#, 1_709_287_200 + row),
                _ => format!(r#"{{"@timestamp":{},"at":[{dates}],"far":[{dates}]}}"#, 1_709_287_200 + row),
            }
        })
    };
    // The column budget leaves no column for `far`.
    let mapping = Mapping::dynamic().with_column_budget(1);
    for (name, form) in [
        ("version-3-date-nanoseconds", DocumentForm::Stored),
        ("version-3-date-nanoseconds-rendered", DocumentForm::Rendered),
    ] {
        let each = documents().map(|document| (document, None));
        let (file, required, split) = open_mapped(name, mapping.clone(), form, each);
        assert_eq!(required & 1 << 13, 1 << 13);
        let cut = |range: &std::ops::Range<u64>| file.slice(range.start as usize..range.end as usize);
        let names = ["at__date", "at__date_ns", "at__date_list", "at__date_list_ns", "_dynamic"];
        let read = split.columns(&names, None, TextAs::Plain).unwrap();
        let ours = read.clone().decode(read.ranges().iter().map(cut).collect()).unwrap().remove(0);
        let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone()).unwrap();
        let theirs: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
        let theirs = concat_batches(&theirs[0].schema(), &theirs).unwrap();
        for name in names {
            assert_eq!(ours.column_by_name(name), theirs.column_by_name(name), "{name}");
        }
        let far = split.field("far", ValueType::Date).unwrap();
        assert!(far.dynamic && far.has_nanos);
        let pairs = split.dynamic_pairs(far);
        let lists = |at: usize, row: usize| ours.column(at).as_list::<i32>().value(row);
        for row in 0..rows as usize {
            let expected: Vec<i64> = numbers(row as u32)
                .into_iter()
                .map(|number| 1_709_287_200_000_000_000 + i64::from(number / 3 * 1_000 + number % 3 * 333))
                .collect();
            let (times, nanos) = match expected.len() {
                1 => (ours.column(0).slice(row, 1), ours.column(1).slice(row, 1)),
                0 => {
                    assert!((0..4).all(|at| ours.column(at).is_null(row)));
                    continue;
                }
                _ => (lists(2, row), lists(3, row)),
            };
            let times = times.as_primitive::<TimestampMicrosecondType>().values().iter();
            let nanos = nanos.as_primitive::<Int16Type>().values().iter();
            let found: Vec<i64> = times.zip(nanos).map(|(us, ns)| us * 1_000 + i64::from(*ns)).collect();
            assert_eq!(found, expected);
            let dynamic = lists(4, row);
            let dynamic = dynamic.as_string::<i32>().iter().flatten().filter_map(|pair| pairs.value(pair));
            let dynamic: Vec<i128> = dynamic
                .map(|value| match value {
                    Value::Date(moment) => moment.ns(),
                    other => panic!("{other:?} is no date"),
                })
                .collect();
            assert_eq!(dynamic, expected.iter().copied().map(i128::from).collect::<Vec<_>>());
        }
        let read = split.documents(None).unwrap();
        let bytes = read.ranges().iter().map(cut).collect();
        let batches = read.decode(bytes).unwrap();
        let found = batches.iter().flat_map(|batch| batch.column(0).as_binary::<i32>().iter().flatten());
        assert!(found.eq(documents().map(String::into_bytes)));
    }
}

/// Three pieces: splits in turns, one after the other, and with rows left out.
#[test]
fn origins_of_every_form_are_still_read() {
    let rows = 12_000u32;
    let origin = |row: u32| {
        let (split, row) = match row / 4_096 {
            0 => (random(row) % 2, row),
            1 => (2 + row / 1_500, row % 1_500),
            _ => (9, row / 10 * 20 + row % 10),
        };
        Origin { split: SplitId::from_random(u128::from(split)), row }
    };
    // The first piece counts its rows.
    let mut next = [0, 0];
    let mut expected: Vec<Origin> = (0..rows).map(origin).collect();
    for origin in &mut expected[..4_096] {
        let next = &mut next[origin.split.bits() as usize];
        (origin.row, *next) = (*next, *next + 1);
    }
    let documents = (0..rows).zip(&expected).map(|(row, origin)| {
        (format!(r#"{{"@timestamp":{}}}"#, 1_709_287_200_000u64 + u64::from(row)), Some(*origin))
    });
    let (file, required, split) = open("version-3-origins", documents);
    assert_eq!(required & 1 << 5, 1 << 5);
    let read = |keys: Vec<KeyRange>| {
        let mut blocks: Vec<Block> =
            keys.iter().flat_map(|keys| split.origins_table().blocks(keys).unwrap()).collect();
        blocks.dedup();
        let cut = |block: &Block| file.slice(block.range.start as usize..block.range.end as usize);
        blocks.into_iter().map(|block| (block.clone(), cut(&block))).collect::<Vec<_>>()
    };
    let all = (0..rows).collect();
    let blocks = read(split.origin_keys(&all));
    let told = split.origins(&all, blocks.iter().map(|(block, bytes)| (block, bytes.as_ref()))).unwrap();
    assert!(told == expected);
    let one = BTreeSet::from([expected[11_999]]);
    let blocks = read(split.origin_split_keys([expected[11_999].split]));
    let near =
        split.rows_near_origins(&one, blocks.iter().map(|(block, bytes)| (block, bytes.as_ref()))).unwrap();
    assert!(near.iter().eq(8_192..rows));
}

/// Every third document has none; the others are known by short keys, whole ones and by a hash.
#[test]
fn identities_from_clients_are_still_read() {
    let rows = 600;
    let id = |row: u32| match row % 3 {
        0 => None,
        1 => Some(format!("{:08x}{:08x}", random(row), random(!row))),
        _ => Some(format!("{row}/{}", "long ".repeat(row as usize % 40))),
    };
    let (file, required, split) =
        open_written("version-3-identities", Mapping::dynamic(), DocumentForm::Stored, |writer| {
            for row in 0..rows {
                let document = format!(r#"{{"@timestamp":{row},"_id":"own","n":{row}}}"#);
                match id(row) {
                    Some(id) => {
                        let identity = Identity { id, version: i64::from(row), seq_no: -i64::from(row) };
                        writer.add_identified(document.as_bytes(), &identity).unwrap();
                    }
                    None => writer.add(document.as_bytes()).unwrap(),
                }
            }
        });
    assert_eq!(required & 1 << 11, 1 << 11);
    assert!(split.has_identities());
    let theirs = ParquetRecordBatchReaderBuilder::try_new(file.clone()).unwrap();
    let theirs = theirs.with_batch_size(rows as usize).build().unwrap().next().unwrap().unwrap();
    let read = split.columns(&["_id", "_version", "_seq_no"], None, TextAs::Plain).unwrap();
    let ranges = read.ranges().iter().map(|range| file.slice(range.start as usize..range.end as usize));
    let batches = read.clone().decode(ranges.collect()).unwrap();
    let ours = arrow::compute::concat_batches(read.schema(), &batches).unwrap();
    for name in ["_id", "_version", "_seq_no"] {
        assert_eq!(ours.column_by_name(name), theirs.column_by_name(name), "{name}");
    }
    let (mut short, mut whole) = (0, 0);
    for row in 0..rows {
        let (at, number) = (row as usize, |column: usize| ours.column(column).as_primitive::<Int64Type>());
        let Some(id) = id(row) else {
            assert!(ours.columns().iter().all(|column| column.is_null(at)));
            continue;
        };
        assert_eq!(ours.column(0).as_string::<i32>().value(at), id);
        assert_eq!((number(1).value(at), number(2).value(at)), (i64::from(row), -i64::from(row)));
        let (keys, mut found) = (split.id_key(&id), Vec::new());
        for block in split.exact().table().blocks(&keys).unwrap() {
            let bytes = file.slice(block.range.start as usize..block.range.end as usize);
            let visit = |entry: frostline_split::Entry<'_>| {
                *(if entry.is_short { &mut short } else { &mut whole }) += 1;
                let Postings::Rows(rows) = entry.postings else { panic!("{:?}", entry.postings) };
                found.extend(rows);
            };
            split.exact().scan(&block, &bytes, &KeyRanges::from(&keys), visit).unwrap();
        }
        assert_eq!(found, [row], "{id}");
    }
    assert!(short > 100 && whole > 0, "{short}, {whole}");
}

#[test]
fn fields_without_an_index_are_still_read() {
    let mapping = r#"{"properties":{"m":{"type":"text","index":false},"n":{"type":"long","index":false},"ok":{"type":"boolean","index":false}}}"#;
    let mapping = Mapping::from_elasticsearch_bytes(mapping.as_bytes()).unwrap();
    let document =
        |row| format!(r#"{{"@timestamp":{row},"m":"word {row}","n":{row},"ok":true,"k":"word {row}"}}"#);
    let (file, required, split) = open_mapped(
        "version-3-unindexed",
        mapping,
        DocumentForm::Stored,
        (0..20).map(|row| (document(row), None)),
    );
    assert_eq!(required & 1 << 7, 1 << 7);
    let is_indexed = |path, ty| split.field(path, ty).unwrap().is_indexed;
    assert!(!is_indexed("m", ValueType::Text) && !is_indexed("n", ValueType::Long));
    assert!(is_indexed("k", ValueType::Text) && is_indexed("ok", ValueType::Boolean));
    for dictionary in [split.text(), split.exact()] {
        for block in dictionary.table().blocks(&KeyRange::all()).unwrap() {
            let bytes = file.slice(block.range.start as usize..block.range.end as usize);
            let visit = |entry: frostline_split::Entry<'_>| {
                let of_text = entry.text_key().map(|key| key.field).filter(|_| dictionary == split.text());
                let field = of_text.unwrap_or_else(|| u16::from_be_bytes([entry.key[0], entry.key[1]]));
                assert!(split.fields().any(|of| of.number == field && of.is_indexed), "{:?}", entry.key);
            };
            dictionary.scan(&block, &bytes, &KeyRanges::all(), visit).unwrap();
        }
    }
    let m = split.field("m", ValueType::Text).unwrap();
    assert_eq!((m.rows_with_value, split.exists(m.number).unwrap()), (20, Postings::All));
}

/// The copies of five columns, which the row groups have as other readers know them.
#[test]
fn pages_in_streams_are_still_read() {
    let rows = 3_000;
    let took = |row: u32| f64::from(random(row) % 90_000) / 1e3;
    let odd = |row: u32| if row.is_multiple_of(100) { 1.0 / 3.0 } else { took(row) };
    let time = |row: u32| 1_709_287_200_000 + u64::from(row) * 2_500 + u64::from(random(row) % 900);
    let documents = (0..rows).map(|row| {
        let (time, bytes, shade) = (time(row), random(!row) % 60_000, random(row) % 11);
        let user = if row % 5 == 0 { String::new() } else { format!(r#","shade":"of {shade}""#) };
        let numbers = format!(r#""bytes":{bytes},"took":{:?},"odd":{:?}{user}"#, took(row), odd(row));
        (format!(r#"{{"@timestamp":{time},{numbers}}}"#), None)
    });
    let (file, required, split) =
        open_mapped("version-3-page-streams", Mapping::dynamic(), DocumentForm::Rendered, documents);
    assert_eq!(required & 1 << 12, 1 << 12);
    let names = ["_timestamp", "bytes__long", "odd__double", "shade__text", "took__double"];
    let read = split.columns(&names, None, TextAs::Plain).unwrap();
    let ranges = read.ranges().iter().map(|range| file.slice(range.start as usize..range.end as usize));
    let ours = concat_batches(read.schema(), &read.clone().decode(ranges.collect()).unwrap()).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone()).unwrap().build().unwrap();
    let theirs: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    let theirs = concat_batches(&theirs[0].schema(), &theirs).unwrap();
    for name in names {
        assert_eq!(ours.column_by_name(name), theirs.column_by_name(name), "{name}");
    }
    let times = ours.column(0).as_primitive::<TimestampMicrosecondType>();
    let (bytes, tooks) =
        (ours.column(1).as_primitive::<Int64Type>(), ours.column(4).as_primitive::<Float64Type>());
    for row in 0..rows {
        let at = row as usize;
        assert_eq!(times.value(at), time(row) as i64 * 1_000);
        assert_eq!(bytes.value(at), i64::from(random(!row) % 60_000));
        assert_eq!(tooks.value(at), took(row));
    }
    assert_eq!(ours.column(3).null_count(), 600);
}
