use std::path::PathBuf;

use frostline_base::ByteRange;
use proptest::prelude::*;

use super::*;
use crate::{Mapping, SplitWriter, WriterOptions};

proptest! {
    #[test]
    fn any_bytes_pass_every_door(bytes: Vec<u8>) {
        hot_footer(&bytes);
        footer_body(&bytes);
        dictionary_block(&bytes);
        postings(&bytes);
        digest(&bytes);
        column_page(&bytes);
    }
}

/// A split with a column of every type, lists, dynamic fields, stored postings and rows without time.
fn split() -> (Vec<u8>, ByteRange) {
    let mut writer = SplitWriter::new(Mapping::dynamic().with_column_budget(9), WriterOptions::default());
    for row in 0..400 {
        let time = if row % 40 == 39 {
            String::new()
        } else {
            format!(r#""@timestamp":"2024-03-01T10:{:02}:00Z","#, row % 60)
        };
        let document = format!(
            r#"{{{time}"ok":{},"status":{},"took":{}.5,"at":"2024-02-{:02}","ip":"10.0.0.{}","message":"GET /{} found","tags":["x","y{}"],"sizes":[1,{row}],"d{}":{row}}}"#,
            row % 3 == 0,
            200 + row % 7,
            row,
            1 + row % 28,
            row % 11,
            row % 13,
            row % 2,
            row % 3,
        );
        writer.add(document.as_bytes()).unwrap();
    }
    let mut file = Vec::new();
    let sealed = writer.seal(&mut file).unwrap();
    (file, sealed.footer)
}

fn cut<'a>(file: &'a [u8], range: &ByteRange) -> &'a [u8] {
    &file[range.start as usize..range.end as usize]
}

/// What each fuzz target starts from, by target and name.
fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let (file, footer) = split();
    let front = &cut(&file, &footer)[..(footer.end - footer.start) as usize - 8];
    let number = |at: usize| u32::from_le_bytes(front[at..at + 4].try_into().unwrap()) as usize;
    let (body, digest) = front[28..].split_at(number(12));
    let unpack = |packed, at| crate::footer::unpack(packed, number(at)).unwrap();
    let mut seeds = vec![
        ("split_footer", "footer".to_owned(), front.to_vec()),
        ("split_body", "body".to_owned(), unpack(body, 16)),
        ("digest", "digest".to_owned(), unpack(&digest[..number(20)], 24)),
    ];
    let split = Split::open(cut(&file, &footer)).unwrap();
    for (name, dictionary) in [("text", split.text()), ("exact", split.exact())] {
        let mut stored: Vec<ByteRange> = Vec::new();
        for block in dictionary.blocks(&KeyRange::all()) {
            let bytes = cut(&file, &block.range);
            let keep = |_: &[u8], postings| match postings {
                Postings::Stored { range, .. } if stored.len() < 2 => stored.push(range),
                _ => {}
            };
            dictionary.scan(&block, bytes, &KeyRange::all(), keep).unwrap();
            let mut raw = crate::dictionary::unpack_block(bytes).unwrap();
            raw.truncate(2_000);
            seeds.push(("dictionary_block", format!("{name}-{}", block.number), raw));
        }
        for (number, range) in stored.iter().enumerate() {
            seeds.push(("postings", format!("{name}-{number}"), cut(&file, range)[4..].to_vec()));
        }
    }
    let mut rows: RoaringBitmap = (0..500).step_by(2).chain(70_000..90_000).collect();
    rows.optimize();
    let mut bitmap = vec![2];
    rows.serialize_into(&mut bitmap).unwrap();
    seeds.push(("postings", "bitmap".to_owned(), bitmap));
    seeds.extend(columns());
    seeds
}

/// The pages of every column of a small split.
fn columns() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut writer = SplitWriter::new(Mapping::dynamic().with_column_budget(10), WriterOptions::default());
    for row in 0..20 {
        let document = format!(
            r#"{{"@timestamp":"2024-03-01T10:{row:02}:00Z","ok":{},"status":{},"took":{row}.5,"at":"2024-02-03","ip":"10.0.0.{}","host":"web-{}","tags":["x","y{}"],"sizes":[1,{row}],"d{}":{row},"e{}":1}}"#,
            row % 3 == 0,
            200 + row % 3,
            row % 3,
            row % 2,
            row % 2,
            row % 3,
            row % 4,
        );
        writer.add(document.as_bytes()).unwrap();
    }
    let mut file = Vec::new();
    let sealed = writer.seal(&mut file).unwrap();
    let footer = Footer::decode(cut(&file, &sealed.footer)).unwrap();
    let seed = |chunk: &Chunk| {
        let kind = (0..=255).find(|byte| same(column_kind(*byte), chunk.kind)).unwrap();
        let mut bytes = vec![kind, footer.rows as u8];
        bytes.extend((chunk.dictionary_bytes() as u16).to_le_bytes());
        bytes.extend(cut(&file, &chunk.range()));
        ("column_page", chunk.name.clone(), bytes)
    };
    footer.chunks.iter().map(seed).collect()
}

fn same(a: ColumnKind, b: ColumnKind) -> bool {
    match (a, b) {
        (ColumnKind::Field { ty: a, list: x, .. }, ColumnKind::Field { ty: b, list: y, .. }) => {
            a == b && x == y
        }
        _ => a == b,
    }
}

/// Seeds reach what they are for. `FROSTLINE_BLESS=1` writes them to `fuzz/seeds`.
#[test]
fn seeds_are_decoded() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for (target, name, bytes) in seeds() {
        match target {
            "split_footer" => assert!(Footer::decode_checked(&bytes).is_ok()),
            "split_body" => assert!(decode_body(&mut Cursor::new(&bytes), Vec::new(), 0).is_ok()),
            "postings" => assert!(crate::postings::decode_checked(Cursor::new(&bytes), ROWS).is_ok()),
            "digest" => assert!(Digest::decode(bytes.clone()).unwrap().fields().count() > 0),
            "column_page" => assert!(column_page(&bytes), "{name}"),
            _ => dictionary_block(&bytes),
        }
        if std::env::var_os("FROSTLINE_BLESS").is_some() {
            std::fs::create_dir_all(folder.join(target)).unwrap();
            std::fs::write(folder.join(target).join(name), bytes).unwrap();
        }
    }
}

/// What the Parquet reader would never be done with is refused before it.
#[test]
fn what_once_hung_does_not_reach_the_parquet_reader() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/column_page");
    // Two thousand million booleans of no bytes, to be skipped one by one.
    let bytes = std::fs::read(folder.join("list-of-nothing")).unwrap();
    let refused = read_column(&bytes, false).unwrap_err();
    assert_eq!(refused.kind(), frostline_base::ErrorKind::Corrupt);
    assert!(refused.to_string().contains("field=8 type=9"), "{refused}");
    // 32 repetition levels of 40 values, to be skipped until there are as many.
    let bytes = std::fs::read(folder.join("levels-without-end")).unwrap();
    let refused = read_column(&bytes, true).unwrap_err();
    assert_eq!(refused.kind(), frostline_base::ErrorKind::Corrupt);
    assert!(refused.to_string().contains("levels of a column page"), "{refused}");
}
