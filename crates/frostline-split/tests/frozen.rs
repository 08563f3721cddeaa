//! Splits of each format version, written once and read by every later reader. `FROSTLINE_BLESS=1`
//! writes the newest anew, which is right only while its version has not been released.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use frostline_base::SplitId;
use frostline_split::{
    Dictionary, DigestValue, DocumentForm, Entry, FORMAT_VERSION, FORMAT_VERSION_OLDEST, HeldText, KeyRange,
    KeyRanges, Mapping, Postings, Split, SplitWriter, TextAs, ValueType, WriterOptions, exact_key, text_key,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

const DOCUMENTS: [&str; 4] = [
    r#"{"@timestamp":"2024-03-01T10:00:02Z","status":404,"client":{"ip":"10.0.0.7"},"message":"GET /b not found","took":1.5}"#,
    r#"{"@timestamp":"2024-03-01T10:00:01Z","status":200,"client":{"ip":"10.0.0.8"},"message":"GET /a ok","tags":["x","y"]}"#,
    r#"{"@timestamp":"2024-03-01T10:10:00Z","status":"none","message":"GET /c","ok":true,"at":"2024-02-29"}"#,
    r#"{"message":"no time here"}"#,
];

/// Names and versions, the newest last.
const FROZEN: [(&str, u32); 7] = [
    ("version-1", 1),
    ("version-2", 2),
    ("version-3", 3),
    ("version-3-hot-digest", 3),
    ("version-3-keys", 3),
    ("version-3-short-keys", 3),
    ("version-3-rendered", 3),
];

fn file(name: &str) -> Bytes {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.parquet"));
    let is_newest = FROZEN.last().is_some_and(|(newest, _)| *newest == name);
    if is_newest && std::env::var_os("FROSTLINE_BLESS").is_some() {
        let options = WriterOptions { documents: DocumentForm::Rendered, ..WriterOptions::default() };
        let mut writer = SplitWriter::new(Mapping::dynamic(), options);
        DOCUMENTS.iter().for_each(|document| writer.add(document.as_bytes()).unwrap());
        let mut out = Vec::new();
        writer.seal(SplitId::from_random(3), &mut out).unwrap();
        std::fs::write(&path, out).unwrap();
    }
    std::fs::read(path).unwrap().into()
}

fn cut(file: &Bytes, range: &Range<u64>) -> Bytes {
    file.slice(range.start as usize..range.end as usize)
}

/// The hot footer, found as a program would that knows only the file.
fn open(file: &Bytes, version: u32) -> Split {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone()).unwrap();
    let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let value = |key: &str| pairs.iter().find(|pair| pair.key == key).unwrap().value.clone().unwrap();
    assert_eq!(value("frostline.split.version"), version.to_string());
    let range = value("frostline.split.footer");
    let (start, end) = range.split_once("..").unwrap();
    Split::open(&cut(file, &(start.parse().unwrap()..end.parse().unwrap()))).unwrap()
}

/// An entry's rows, whether its key is short, and what is held with it.
type Found = (Vec<u32>, bool, Option<String>);

fn entries(file: &Bytes, dictionary: &Dictionary, key: Vec<u8>) -> Vec<Found> {
    let keys = KeyRange::exact(key);
    let mut entries = Vec::new();
    for block in dictionary.table().blocks(&keys).unwrap() {
        let visit = |entry: Entry<'_>| {
            let Postings::Rows(rows) = entry.postings else { panic!("{:?}", entry.postings) };
            let value = entry.value.map(|value| match value {
                HeldText::Written(text) => text.to_owned(),
                HeldText::InColumn => "in the column".to_owned(),
            });
            entries.push((rows.iter().collect(), entry.is_short, value));
        };
        dictionary.scan(&block, &cut(file, &block.range), &KeyRanges::from(&keys), visit).unwrap();
    }
    entries
}

fn rows(file: &Bytes, dictionary: &Dictionary, key: Vec<u8>) -> Vec<u32> {
    entries(file, dictionary, key).into_iter().flat_map(|(rows, ..)| rows).collect()
}

#[test]
fn every_version_is_still_read() {
    FROZEN.iter().for_each(|(name, version)| check(name, *version));
    let versions: BTreeSet<u32> = FROZEN.iter().map(|(_, version)| *version).collect();
    assert!(versions.into_iter().eq(FORMAT_VERSION_OLDEST..=FORMAT_VERSION));
}

fn check(name: &str, version: u32) {
    let file = file(name);
    let split = open(&file, version);
    assert_eq!(split.version(), version);
    assert_eq!((split.rows(), split.rows_without_time()), (4, 1));
    if version == 1 {
        // It is older than the checksum of the Parquet footer.
        assert!(!split.verify_parquet(&file[..4], &file[file.len() - 4..]).unwrap());
    }
    assert_eq!(split.times(), Some((1_709_287_201_000_000, 1_709_287_800_000_000)));
    let number = |path, ty| split.field(path, ty).unwrap().number;
    assert_eq!(rows(&file, split.text(), text_key("found", number("message", ValueType::Text))), [1]);
    assert_eq!(rows(&file, split.text(), text_key("404", number("status", ValueType::Long))), [1]);
    assert_eq!(rows(&file, split.text(), text_key("10.0.0.8", number("client.ip", ValueType::Ip))), [0]);
    assert_eq!(
        rows(&file, split.exact(), exact_key("no time here", number("message", ValueType::Text))),
        [3]
    );
    // Later features: a value that is one token is held with it; keys are cut.
    let (tag, message) = (number("tags", ValueType::Text), number("message", ValueType::Text));
    let is_rendered = name == "version-3-rendered";
    let is_short = name == "version-3-short-keys" || is_rendered;
    let holds_values = name == "version-3-keys" || is_short;
    let with_token = holds_values.then(|| "x".to_owned());
    assert_eq!(entries(&file, split.text(), text_key("x", tag)), [(vec![0], false, with_token)]);
    assert_eq!(rows(&file, split.exact(), exact_key("x", tag)).is_empty(), holds_values);
    assert_eq!(entries(&file, split.text(), text_key("found", message)), [(vec![1], is_short, None)]);
    let whole = exact_key("no time here", message);
    assert_eq!(entries(&file, split.exact(), whole), [(vec![3], is_short, None)]);
    let status = [number("status", ValueType::Long)];
    let table = split.digest_table();
    let mut blocks = Vec::new();
    for keys in split.digest_keys(&status, true) {
        blocks.extend(table.blocks(&keys).unwrap());
    }
    blocks.dedup();
    assert_eq!(!blocks.is_empty(), name == "version-3");
    let read: Vec<Bytes> = blocks.iter().map(|block| cut(&file, &block.range)).collect();
    let read = blocks.iter().zip(read.iter().map(|bytes| bytes.as_ref()));
    let digest = split.digest(&status, true, read).unwrap().unwrap();
    assert_eq!(digest.minutes(), [(28_488_120, 2), (28_488_130, 1)]);
    let counts = digest.values(status[0]).unwrap().unwrap();
    let counts: Vec<_> = counts.values.iter().map(|count| (count.value.clone(), count.rows)).collect();
    assert_eq!(counts, [(DigestValue::Long(200), 1), (DigestValue::Long(404), 1)]);
    let read = split.columns(&["status__long"], None, TextAs::Plain).unwrap();
    let bytes = read.ranges().iter().map(|range| cut(&file, range)).collect();
    let batch = &read.decode(bytes).unwrap()[0];
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(1), 404);
    assert_eq!(split.renders_documents(), is_rendered);
    let read = split.documents(None).unwrap();
    let bytes = read.ranges().iter().map(|range| cut(&file, range)).collect();
    let batches = read.decode(bytes).unwrap();
    let documents = batches[0].column(0).as_binary::<i32>();
    let by_time = [1, 0, 2, 3].map(|at| DOCUMENTS[at].as_bytes());
    assert!(documents.iter().flatten().eq(by_time));
}

#[test]
fn any_parquet_reader_reads_the_rows() {
    FROZEN.iter().for_each(|(name, _)| read_by_others(name));
}

fn read_by_others(name: &str) {
    let file = file(name);
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    let batch = arrow::compute::concat_batches(&schema, &batches).unwrap();
    assert_eq!(batch.num_rows(), 4);
    let tags = batch.column_by_name("tags__text_list").unwrap().as_list::<i32>().value(0);
    assert_eq!(tags.as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["x", "y"]);
}

/// What a program of version 2 says of a split: it checks the footer as a whole, then reads the version.
fn said_by_version_2(hot_footer: &[u8]) -> String {
    let (front, sum) = hot_footer.split_last_chunk::<8>().unwrap();
    assert_eq!(
        xxhash_rust::xxh3::xxh3_64(front),
        u64::from_le_bytes(*sum),
        "it would say that bytes are damaged"
    );
    assert!(front.starts_with(b"FROSTHF1"), "it would say that this is no hot footer");
    match u32::from_le_bytes(front[8..12].try_into().unwrap()) {
        version @ (1 | 2) => format!("version {version}"),
        version => {
            format!("the split has format version {version}, this version of Frostline reads versions 1 to 2")
        }
    }
}

#[test]
fn an_older_program_names_the_version_that_it_does_not_know() {
    for (name, says) in
        [("version-2", "version 2"), ("version-3", "the split has format version 3, this version")]
    {
        let file = file(name);
        let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone()).unwrap();
        let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let range = pairs.iter().find(|pair| pair.key == "frostline.split.footer").unwrap();
        let (start, end) = range.value.as_ref().unwrap().split_once("..").unwrap();
        let said = said_by_version_2(&cut(&file, &(start.parse().unwrap()..end.parse().unwrap())));
        assert!(said.starts_with(says), "{said}");
    }
}
