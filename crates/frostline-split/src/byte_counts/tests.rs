use frostline_base::SplitId;

use super::*;
use crate::table::KeyRange;
use crate::table::Table;
use crate::{Mapping, Sealed, SplitWriter, Wanted, WriterOptions};

fn sealed(options: WriterOptions) -> (Vec<u8>, Sealed) {
    let options = WriterOptions { pairs_column_bytes_min: 0, ..options };
    let mut writer = SplitWriter::new(Mapping::dynamic().with_column_budget(8), options);
    for row in 0..4_000u32 {
        let id = xxhash_rust::xxh3::xxh3_128(&row.to_le_bytes());
        let document = format!(
            r#"{{"@timestamp":"2024-03-01T10:{:02}:00Z","id":"{id:032x} {id:08b} is new","status":{},"host":"web-{}","twin":"web-{}","tags":["x","y{}"],"a":{row},"b":{},"c":1}}"#,
            row % 60,
            200 + row % 7,
            id % 3,
            id % 3,
            row % 3,
            row % 90,
        );
        writer.add(document.as_bytes()).unwrap();
    }
    let mut file = Vec::new();
    let sealed = writer.seal(SplitId::from_random(1), &mut file).unwrap();
    (file, sealed)
}

fn blocks(file: &[u8], table: &Table) -> Vec<Block> {
    let index = table.index_blocks(&[KeyRange::all()]);
    let read = index.iter().map(|block| (block, cut(file, &block.range)));
    let whole = if index.is_empty() { table.clone() } else { table.with_index(read).unwrap() };
    whole.blocks(&KeyRange::all()).unwrap()
}

fn cut<'a>(file: &'a [u8], range: &ByteRange) -> &'a [u8] {
    &file[range.start as usize..range.end as usize]
}

fn counted(file: &[u8], sealed: &Sealed) -> SplitBytes {
    let split = Split::open(cut(file, &sealed.footer)).unwrap();
    let own = split.unread_pages(&split.column_names().collect::<Vec<_>>());
    for block in split.unread_fields(Wanted::All).into_iter().chain(own) {
        split.keep(&block, cut(file, &block.range)).unwrap();
    }
    let mut counts = ByteCounts::new(&split).unwrap();
    for block in blocks(file, split.text().table()) {
        counts.text_block(&block, cut(file, &block.range)).unwrap();
    }
    for block in blocks(file, split.exact().table()) {
        counts.exact_block(&block, cut(file, &block.range)).unwrap();
    }
    for block in blocks(file, split.pairs().table()) {
        counts.pairs_block(&block, cut(file, &block.range)).unwrap();
    }
    for block in blocks(file, &split.digest_table()) {
        counts.digest_block(&block, cut(file, &block.range)).unwrap();
    }
    counts.finish(file.len() as u64, &sealed.footer).unwrap()
}

#[test]
fn every_byte_is_of_one_part_and_what_belongs_to_fields_of_one_field() {
    let small = WriterOptions { hot_footer_bytes_max: 0, ..WriterOptions::default() };
    let old = WriterOptions { version: 2, ..WriterOptions::default() };
    let documents = crate::DocumentForm::Rendered;
    let rendered = WriterOptions { documents, ..WriterOptions::default() };
    let small_rendered = WriterOptions { documents, ..small.clone() };
    let stored = WriterOptions { list_column_bytes_max: 0, list_column_part: 0, ..WriterOptions::default() };
    for options in [WriterOptions::default(), small, old, stored, rendered, small_rendered] {
        let (file, sealed) = sealed(options.clone());
        let SplitBytes { parts, fields } = counted(&file, &sealed);
        assert_eq!(parts, sealed.parts);
        assert_eq!(parts.all(), file.len() as u64);
        let all = |part: fn(&FieldBytes) -> u64| fields.values().map(part).sum::<u64>();
        assert_eq!(all(|of| of.text_dictionary), parts.text_dictionary);
        assert_eq!(all(|of| of.exact_dictionary), parts.exact_dictionary);
        assert_eq!(all(|of| of.postings), parts.postings);
        assert_eq!((all(|of| of.pairs), fields["id"].pairs), (parts.pairs, parts.pairs));
        assert_eq!(parts.pairs > 0, options.version > 2);
        // `_timestamp`, and `_dynamic` with what is beyond the column budget, are of no field.
        assert!(all(|of| of.columns) > 0 && all(|of| of.columns) < parts.columns);
        assert!(all(|of| of.digest) <= parts.digest);
        let of = |path: &str| fields[path];
        // No two documents have the same words there.
        assert!(of("id").text_dictionary > parts.text_dictionary / 2);
        assert!(of("id").columns > of("status").columns);
        // Two fields with the same rows name the same lists, if these are not left to their columns.
        let is_stored = options.list_column_bytes_max == 0 || options.version == 2;
        assert_eq!(of("host").postings > 0, is_stored);
        assert!(of("host").postings.abs_diff(of("twin").postings) < 10);
    }
}

#[test]
fn parts_that_overlap_are_corrupt() {
    let (file, sealed) = sealed(WriterOptions::default());
    let split = Split::open(cut(&file, &sealed.footer)).unwrap();
    let counts = ByteCounts::new(&split).unwrap();
    let early = 100..100 + (sealed.footer.end - sealed.footer.start);
    let error = counts.finish(file.len() as u64, &early).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::Corrupt);
}
