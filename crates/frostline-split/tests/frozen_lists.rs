//! A split with a stored list of every form that a split of few rows has (no segments), written once and read by every later reader.
//! `FROSTLINE_BLESS=1` writes it anew, which is right only while no such split has been released.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use bytes::Bytes;
use frostline_base::SplitId;
use frostline_split::{
    KeyRange, Mapping, Postings, Split, SplitWriter, ValueType, WriterOptions, decode_postings, text_key,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

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

fn file() -> Bytes {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/version-3-lists.parquet");
    if std::env::var_os("FROSTLINE_BLESS").is_some() {
        let mut writer = SplitWriter::new(Mapping::dynamic(), WriterOptions::default());
        let words = words();
        for row in 0..ROWS {
            let mut document = format!(r#"{{"@timestamp":{},"m":"#, 1_709_287_200_000u64 + u64::from(row));
            let words: Vec<&str> =
                words.iter().filter(|(_, _, rows)| rows.contains(&row)).map(|(word, _, _)| *word).collect();
            write!(document, r#""{}"}}"#, words.join(" ")).unwrap();
            writer.add(document.as_bytes()).unwrap();
        }
        let mut out = Vec::new();
        writer.seal(SplitId::from_random(4), &mut out).unwrap();
        std::fs::write(&path, out).unwrap();
    }
    std::fs::read(path).unwrap().into()
}

#[test]
fn lists_of_every_form_are_still_read() {
    let file = file();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone()).unwrap();
    let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let place =
        pairs.iter().find(|pair| pair.key == "frostline.split.footer").unwrap().value.as_ref().unwrap();
    let (start, end) = place.split_once("..").unwrap();
    let footer = file.slice(start.parse::<usize>().unwrap()..end.parse().unwrap());
    // A program without these forms reads the bit that says so before anything else.
    assert_eq!(footer[12] & 2, 2);
    let split = Split::open(&footer).unwrap();
    let field = split.field("m", ValueType::Text).unwrap().number;
    for (word, form, rows) in words() {
        let keys = KeyRange::exact(text_key(word, field));
        let mut found = Vec::new();
        for block in split.text().table().blocks(&keys).unwrap() {
            let bytes = file.slice(block.range.start as usize..block.range.end as usize);
            split.text().scan(&block, &bytes, &keys, |entry| found.push(entry.postings)).unwrap();
        }
        let Some(Postings::Stored { range, rows: count }) = found.pop() else { panic!("{word}") };
        let list = &file[range.start as usize..range.end as usize];
        assert_eq!(list[4], form, "{word}");
        let read = decode_postings(list, split.rows()).unwrap();
        assert_eq!(read.len(), u64::from(count));
        assert!(read.iter().eq(rows), "{word}");
    }
}
