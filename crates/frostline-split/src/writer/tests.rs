use bytes::Bytes;

use super::*;
use crate::{KeyRange, Postings, Split, TextAs, exact_key, text_key};

fn seal(documents: &[&str]) -> (Vec<u8>, Sealed) {
    let mut writer = SplitWriter::new(Mapping::dynamic(), WriterOptions::default());
    for document in documents {
        writer.add(document.as_bytes()).unwrap();
    }
    let mut file = Vec::new();
    let sealed = writer.seal(&mut file).unwrap();
    (file, sealed)
}

fn cut(file: &[u8], range: &std::ops::Range<u64>) -> Bytes {
    Bytes::copy_from_slice(&file[range.start as usize..range.end as usize])
}

fn rows_of(file: &[u8], split: &Split, dictionary: &crate::Dictionary, key: Vec<u8>) -> Vec<u32> {
    let keys = KeyRange::exact(key);
    let mut found = Vec::new();
    for block in dictionary.blocks(&keys) {
        let bytes = cut(file, &block.range);
        dictionary.scan(&block, &bytes, &keys, |_, postings| found.push(postings)).unwrap();
    }
    match found.as_slice() {
        [] => Vec::new(),
        [Postings::All] => (0..split.rows()).collect(),
        [Postings::Rows(rows)] => rows.iter().collect(),
        [Postings::Stored { range, .. }] => {
            crate::decode_postings(&cut(file, range), split.rows()).unwrap().iter().collect()
        }
        more => panic!("one key, {} postings", more.len()),
    }
}

#[test]
fn a_split_answers_what_was_written() {
    let (file, sealed) = seal(&[
        r#"{"@timestamp":"2024-01-02T00:00:00Z","status":404,"message":"GET /b failed","ip":"10.0.0.2"}"#,
        r#"{"@timestamp":"2024-01-01T00:00:00Z","status":200,"message":"GET /a ok","tags":["x","y"]}"#,
        r#"{"status":"none","message":"no time"}"#,
    ]);
    let split = Split::open(&cut(&file, &sealed.footer)).unwrap();
    assert_eq!((split.rows(), split.rows_without_time()), (3, 1));
    let field = |path: &str, ty| split.field(path, ty).unwrap().number;
    let text = |token: &str, field| rows_of(&file, &split, split.text(), text_key(token, field));
    assert_eq!(text("get", field("message", ValueType::Text)), [0, 1]);
    assert_eq!(text("failed", field("message", ValueType::Text)), [1]);
    assert_eq!(text("404", field("status", ValueType::Long)), [1]);
    assert_eq!(text("10.0.0.2", field("ip", ValueType::Ip)), [1]);
    let exact =
        rows_of(&file, &split, split.exact(), exact_key("no time", field("message", ValueType::Text)));
    assert_eq!(exact, [2]);
    let names: Vec<&str> = split.column_names().collect();
    let read = split.columns(&names, None, TextAs::Plain).unwrap();
    let bytes = read.ranges().iter().map(|range| cut(&file, range)).collect();
    let batches = read.decode(bytes).unwrap();
    assert_eq!(batches.iter().map(|b| b.num_rows()).sum::<usize>(), 3);
}
