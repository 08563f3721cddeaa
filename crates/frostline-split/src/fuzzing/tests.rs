use std::path::PathBuf;

use frostline_base::{ByteRange, SplitId};
use proptest::prelude::*;

use super::*;
use crate::origins::{Origin, OriginsWriter};
use crate::pack::{Pack, PackedFooter};
use crate::postings::{FormWriter, put_stored};
use crate::{DocumentForm, Entry, Identity, Mapping, SplitWriter, WriterOptions};

proptest! {
    #[test]
    fn any_bytes_pass_every_door(bytes: Vec<u8>) {
        hot_footer(&bytes);
        footer_body(&bytes);
        footer_body_2(&bytes);
        directory(&bytes);
        dictionary_block(&bytes);
        postings(&bytes);
        digest(&bytes);
        origins(&bytes);
        column_page(&bytes);
        row_group(&bytes);
    }
}

/// A split with a column of every type, lists, dynamic fields, stored postings and rows without time.
fn split(options: WriterOptions) -> (Vec<u8>, ByteRange) {
    let mut writer = SplitWriter::new(Mapping::dynamic().with_column_budget(9), options);
    for row in 0..400 {
        let time = if row % 40 == 39 {
            String::new()
        } else {
            format!(r#""@timestamp":"2024-03-01T10:{:02}:00Z","#, row % 60)
        };
        let document = format!(
            r#"{{{time}"ok":{},"status":{},"took":{}.5,"at":"2024-02-{:02}","ip":"10.0.0.{}","message":"GET /{} found","tags":["x","y{}","{:016x}"],"sizes":[1,{row}],"d{}":{row}}}"#,
            row % 3 == 0,
            200 + row % 7,
            row,
            1 + row % 28,
            row % 11,
            row % 13,
            row % 2,
            (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            row % 3,
        );
        match row % 5 {
            0 => {
                let identity = Identity { id: format!("id {row}"), version: row, seq_no: row * row };
                writer.add_identified(document.as_bytes(), &identity).unwrap();
            }
            _ => writer.add(document.as_bytes()).unwrap(),
        }
    }
    let mut file = Vec::new();
    let sealed = writer.seal(SplitId::from_random(1), &mut file).unwrap();
    (file, sealed.footer)
}

fn cut<'a>(file: &'a [u8], range: &ByteRange) -> &'a [u8] {
    &file[range.start as usize..range.end as usize]
}

/// What each fuzz target starts from, by target and name.
fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let (file, footer) = split(WriterOptions::default());
    let front = &cut(&file, &footer)[..(footer.end - footer.start) as usize - 8];
    let unpack = |front: &[u8], frame: usize, at: usize| {
        let number = |at: usize| u32::from_le_bytes(front[at..at + 4].try_into().unwrap()) as usize;
        crate::unpack::unpack(&front[frame..frame + number(at)], number(at + 4)).unwrap()
    };
    let (old_file, old_footer) = split(WriterOptions { version: 2, ..WriterOptions::default() });
    let old = cut(&old_file, &old_footer);
    let mut seeds = vec![
        ("split_footer", "footer-3".to_owned(), front.to_vec()),
        ("split_footer", "footer".to_owned(), old[..old.len() - 8].to_vec()),
        ("split_body", "body-3".to_owned(), unpack(front, 28, 20)),
        ("split_body_2", "body".to_owned(), unpack(old, 28, 12)),
        ("row_group", "documents".to_owned(), row_group_of_documents()),
    ];
    seeds.extend(outside());
    seeds.extend(dictionaries(&file, cut(&file, &footer), "-3"));
    seeds.extend(dictionaries(&old_file, old, ""));
    let mut rows: RoaringBitmap = (0..500).step_by(2).chain(70_000..90_000).collect();
    rows.optimize();
    let mut bitmap = vec![2];
    rows.serialize_into(&mut bitmap).unwrap();
    seeds.push(("postings", "bitmap".to_owned(), bitmap));
    seeds.extend(lists());
    seeds.push(("dictionary_block", "pairs".to_owned(), pairs()));
    seeds.extend(all_forms_of_origins());
    seeds.extend(columns());
    seeds.push(("pack", "two-splits".to_owned(), pack()));
    seeds
}

/// The directory of a pack, without its magic and checksum.
fn pack() -> Vec<u8> {
    let footer = |n| PackedFooter { split: SplitId::from_random(n), times: None, footer: vec![0; 1_000] };
    let (file, about) = Pack::write(vec![footer(1), footer(2)]).unwrap();
    let directory = &file[8..Pack::directory(about.splits).end as usize - 8];
    assert!(Pack::decode(directory, 0, 2_000).is_ok());
    directory.to_vec()
}

/// The blocks of both dictionaries of a split, and some of their lists.
fn dictionaries(file: &[u8], footer: &[u8], version: &str) -> Vec<(&'static str, String, Vec<u8>)> {
    let split = Split::open(footer).unwrap();
    let mut seeds = Vec::new();
    for (name, dictionary) in [("text", split.text()), ("exact", split.exact())] {
        let mut stored: Vec<ByteRange> = Vec::new();
        for (number, block) in dictionary.table().blocks(&KeyRange::all()).unwrap().into_iter().enumerate() {
            let bytes = cut(file, &block.range);
            let keep = |entry: Entry<'_>| match entry.postings {
                Postings::Stored { range, .. } if stored.len() < 2 => stored.push(range),
                _ => {}
            };
            dictionary.scan(&block, bytes, &KeyRanges::all(), keep).unwrap();
            if let [2, streams @ ..] = bytes {
                seeds.push(("dictionary_streams", format!("{name}-{number}"), streams.to_vec()));
            }
            let mut raw = crate::table::unpack_entries(bytes).unwrap();
            raw.truncate(2_000);
            seeds.push(("dictionary_block", format!("{name}{version}-{number}"), raw));
        }
        for (number, range) in stored.iter().enumerate() {
            seeds.push(("postings", format!("{name}{version}-{number}"), cut(file, range)[4..].to_vec()));
        }
    }
    seeds
}

fn unpack_block(bytes: &[u8]) -> Vec<u8> {
    crate::table::unpack_block(bytes, 1 << 20).unwrap()
}

/// The block of the pairs of a split.
fn pairs() -> Vec<u8> {
    let options = WriterOptions { pairs_column_bytes_min: 0, ..WriterOptions::default() };
    let mut writer = SplitWriter::new(Mapping::dynamic(), options);
    for row in 0..100 {
        let found = if row % 2 == 0 { "found" } else { "not found, not there" };
        writer.add(format!(r#"{{"message":"GET /{row:x} {found}"}}"#).as_bytes()).unwrap();
    }
    let mut file = Vec::new();
    let sealed = writer.seal(SplitId::from_random(1), &mut file).unwrap();
    let split = Split::open(cut(&file, &sealed.footer)).unwrap();
    let blocks = split.pairs().table().blocks(&KeyRange::all()).unwrap();
    crate::table::unpack_entries(cut(&file, &blocks[0].range)).unwrap()
}

/// A stored list of each other form.
fn lists() -> impl Iterator<Item = (&'static str, String, Vec<u8>)> {
    let stored = |rows: &[u32], split_rows| {
        let mut out = Vec::new();
        put_stored(&mut FormWriter::new(split_rows, 3).unwrap(), &mut out, rows).unwrap();
        out.split_off(4)
    };
    let rows = |has: fn(u32) -> bool| (0..4_000).filter(|row| has(*row)).collect::<Vec<u32>>();
    let hash = |row: u32| xxhash_rust::xxh3::xxh3_64(&row.to_le_bytes());
    let random: Vec<u32> = (0..4_000).filter(|row| hash(*row) % 25 == 0).collect();
    let lists = [
        ("gaps", 1, stored(&[5, 6, 800, 70_000], ROWS)),
        ("rice", 3, stored(&random, ROWS)),
        ("runs", 4, stored(&rows(|row| row / 900 % 2 == 1), ROWS)),
        ("gaps-packed", 5, stored(&rows(|row| matches!(row % 50, 0 | 9 | 30)), ROWS)),
        ("runs-packed", 6, stored(&rows(|row| row / 13 % 2 == 1), ROWS)),
        ("segments", 7, stored(&[random, vec![ROWS, 2 * ROWS - 1]].concat(), 3 * ROWS)),
    ];
    lists.into_iter().map(|(name, form, list)| {
        assert_eq!(list[0], form, "{name}");
        ("postings", name.to_owned(), list)
    })
}

/// Origins of each form.
fn all_forms_of_origins() -> impl Iterator<Item = (&'static str, String, Vec<u8>)> {
    [("bits", 1, 5, 1), ("runs", 90, 1, 1), ("gaps", 90, 1, 3)].into_iter().map(|(name, run, turns, step)| {
        let origin = |row: u32| {
            let (split, row) =
                if turns > 1 { (row % turns, row / turns) } else { (row / run, row % run * step) };
            Origin { split: SplitId::from_random(u128::from(split)), row }
        };
        ("origins", name.to_owned(), OriginsWriter::new((0..SEED_ROWS).map(origin)).block().unwrap())
    })
}

/// A block of the index of a table of many blocks.
fn index_block() -> Vec<u8> {
    let mut writer = crate::table::TableWriter::new(3).unwrap();
    (0..9_000u32).for_each(|key| writer.add(&key.to_be_bytes(), &[0; 16]).unwrap());
    let mut file = Vec::new();
    let table = writer.finish(&mut Vec::new(), 4).unwrap().spill(&mut file, 0, 3).unwrap();
    unpack_block(cut(&file, &table.index_blocks(&[KeyRange::all()])[0].range))
}

/// What a split has outside its hot footer, and its digest.
fn outside() -> Vec<(&'static str, String, Vec<u8>)> {
    let options =
        WriterOptions { hot_footer_bytes_max: 0, source_page_bytes: 1_000, ..WriterOptions::default() };
    let (file, footer) = split(options);
    let footer = Footer::decode(cut(&file, &footer)).unwrap();
    let mut seeds = Vec::new();
    let mut directory = |name: &str, which: usize, raw: Vec<u8>| {
        seeds.push(("split_directory", name.to_owned(), [vec![which as u8], raw].concat()));
    };
    directory("index", 0, index_block());
    let source = footer.own.iter().find_map(|own| own.outside.clone()).unwrap();
    directory("pages", 1, crate::unpack::unpack(cut(&file, &source.0.range), source.1).unwrap());
    let block = &footer.fields.missing(Wanted::All)[0];
    footer.fields.keep(block, cut(&file, &block.range)).unwrap();
    directory("fields", 2 + footer.fields.known().count(), unpack_block(cut(&file, &block.range)));
    let split = Split::from_footer(footer);
    let digest = &split.digest_table().blocks(&KeyRange::all()).unwrap()[0];
    seeds.push(("digest", "block".to_owned(), unpack_block(cut(&file, &digest.range))));
    seeds
}

/// The pages of every column of a small split, and those of the copies of another.
fn columns() -> Vec<(&'static str, String, Vec<u8>)> {
    let stored = columns_of(DocumentForm::Stored).into_iter();
    let copies = columns_of(DocumentForm::Rendered).into_iter().filter(|(_, chunk, _)| chunk.has_streams);
    let seeds = stored.map(|(name, _, seed)| (name, seed));
    let seeds = seeds.chain(copies.map(|(name, _, seed)| (format!("{name}-streams"), seed)));
    seeds.map(|(name, seed)| ("column_page", name, seed)).collect()
}

fn columns_of(documents: DocumentForm) -> Vec<(String, Chunk, Vec<u8>)> {
    let options = WriterOptions { documents, ..WriterOptions::default() };
    let mut writer = SplitWriter::new(Mapping::dynamic().with_column_budget(11), options);
    for row in 0..20 {
        let document = format!(
            r#"{{"@timestamp":"2024-03-01T10:{row:02}:00Z","ok":{},"status":{},"took":{row}.5,"at":"2024-02-03","ip":"10.0.0.{}","host":"web-{}","id":"{:032x}","tags":["x","y{}"],"sizes":[1,{row}],"d{}":{row},"e{}":1}}"#,
            row % 3 == 0,
            200 + row % 3,
            row % 3,
            row % 2,
            xxhash_rust::xxh3::xxh3_128(&[row]),
            row % 2,
            row % 3,
            row % 4,
        );
        writer.add(document.as_bytes()).unwrap();
    }
    let mut file = Vec::new();
    let sealed = writer.seal(SplitId::from_random(1), &mut file).unwrap();
    let footer = Footer::decode(cut(&file, &sealed.footer)).unwrap();
    let seed = |chunk: &Chunk| {
        let kind = (0..=255).find(|byte| same(column_kind(*byte), chunk.kind)).unwrap();
        let kind = if chunk.has_lengths { kind | LENGTHS } else { kind };
        let kind = if chunk.has_streams { kind | STREAMS } else { kind };
        let mut bytes = vec![kind, footer.rows as u8];
        bytes.extend((chunk.dictionary_bytes() as u16).to_le_bytes());
        bytes.extend(cut(&file, &chunk.range()));
        (chunk.name.clone(), chunk.clone(), bytes)
    };
    let own = footer.own.iter().filter_map(|own| own.chunk.get());
    own.chain(footer.fields.known().flat_map(|record| &record.chunks)).map(seed).collect()
}

/// A row group of a few documents, the pages of which are checked only when they are decoded.
fn row_group_of_documents() -> Vec<u8> {
    let options = WriterOptions { documents: DocumentForm::Rendered, ..WriterOptions::default() };
    let mut writer = SplitWriter::new(Mapping::dynamic(), options);
    for row in 0..3 {
        let document = format!(
            r#"{{"@timestamp":"2024-03-01 10:0{row}:00","n":[{row},1E{row}],"took":1.{row}0,"host":"web-{row}"}}"#
        );
        writer.add(document.as_bytes()).unwrap();
    }
    let mut file = Vec::new();
    let sealed = writer.seal(SplitId::from_random(1), &mut file).unwrap();
    let footer = Footer::decode(cut(&file, &sealed.footer)).unwrap();
    let group = &footer.groups[0];
    // Its columns have their places in the file: what is before them stays.
    let mut bytes = file[..group.range.end as usize].to_vec();
    bytes.push(3);
    bytes.extend((group.directory_bytes as u16).to_le_bytes());
    bytes
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
            "split_body" => {
                assert!(footer::decode_body(&mut Cursor::new(&bytes), footer::ENTRY_HEADS).is_ok())
            }
            "split_directory" => assert!(directory(&bytes), "{name}"),
            "postings" => {
                let split_rows = if name == "segments" { 3 * ROWS } else { ROWS };
                assert!(crate::postings::decode_checked(Cursor::new(&bytes), split_rows).is_ok(), "{name}");
            }
            "origins" => assert!(origins(&bytes), "{name}"),
            "dictionary_streams" => assert!(dictionary_streams(&bytes), "{name}"),
            "digest" => assert!(Digest::of_block(&bytes).is_ok()),
            "row_group" => assert!(row_group(&bytes), "{name}"),
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
