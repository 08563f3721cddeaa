use std::ops::Range;

use frostline_base::{ErrorKind, SplitId};
use proptest::prelude::*;

use super::*;
use crate::footer::Footer;
use crate::reader::Split;
use crate::{DocumentForm, FieldType, SplitWriter, WriterOptions};

fn write(documents: &[String], mapping: Mapping, form: DocumentForm) -> (Vec<u8>, Range<u64>) {
    let options = WriterOptions { documents: form, ..WriterOptions::default() };
    let mut writer = SplitWriter::new(mapping, options);
    documents.iter().for_each(|document| writer.add(document.as_bytes()).unwrap());
    let mut file = Vec::new();
    let sealed = writer.seal(SplitId::from_random(9), &mut file).unwrap();
    (file, sealed.footer)
}

fn open(file: &[u8], footer: &Range<u64>) -> Split {
    Split::open(&file[footer.start as usize..footer.end as usize]).unwrap()
}

fn groups(file: &[u8], footer: &Range<u64>) -> Vec<RowGroup> {
    Footer::decode(&file[footer.start as usize..footer.end as usize]).unwrap().groups
}

fn read(file: &[u8], split: &Split, rows: Option<&RoaringBitmap>) -> Result<Vec<String>> {
    let read = split.documents(rows)?;
    let cut = |range: &ByteRange| Bytes::copy_from_slice(&file[range.start as usize..range.end as usize]);
    let bytes = read.ranges().iter().map(cut).collect();
    let batches = read.decode(bytes)?;
    let documents = batches.iter().flat_map(|batch| batch.column(0).as_binary::<i32>().iter().flatten());
    Ok(documents.map(|document| String::from_utf8(document.to_vec()).unwrap()).collect())
}

/// Documents as services log them, in order of time, with ids that do not repeat.
fn logs(count: usize) -> Vec<String> {
    let log = |n: u64| {
        let id = xxhash_rust::xxh3::xxh3_128(&n.to_le_bytes());
        let (host, status, took) = ((id >> 64) % 7, 200 + n % 3 * 102, id % 100_000);
        format!(
            r#"{{"@timestamp":"2024-05-01T10:{:02}:{:02}.{:03}Z","id":"{id:032x}","host":"web-{host}","status":{status},"took":{}.{:03},"path":"/a/b/{host}","tags":["web","v{host}"]}}"#,
            n / 60_000 % 60,
            n / 1_000 % 60,
            n % 1_000,
            took / 1_000,
            took % 1_000,
        )
    };
    (0..count as u64).map(log).collect()
}

#[test]
fn a_hit_is_one_read_of_its_row_group() {
    let documents = logs(20_000);
    let (file, footer) = write(&documents, Mapping::dynamic(), DocumentForm::Rendered);
    let split = open(&file, &footer);
    assert!(split.renders_documents() && !split.has_column(SOURCE_COLUMN));
    assert!(split.unread_pages(&[SOURCE_COLUMN]).is_empty());
    let groups = groups(&file, &footer);
    assert_eq!(groups.len(), 5);
    for row in [0, 4_095, 4_096, 19_999] {
        let wanted = RoaringBitmap::from_iter([row]);
        let read_one = split.documents(Some(&wanted)).unwrap();
        let [range] = read_one.ranges() else { panic!("{row} is not one read") };
        assert!(range.end - range.start <= 256 << 10, "{range:?}");
        assert_eq!(read(&file, &split, Some(&wanted)).unwrap(), [documents[row as usize].clone()]);
        assert_eq!(
            split.read_together(row + 1),
            (row / 4_096 + 1).min(4) * 4_096 + if row < 16_384 { 0 } else { 3_616 }
        );
    }
    let wanted = RoaringBitmap::from_iter([3, 5_000, 5_001, 19_000]);
    assert_eq!(split.documents(Some(&wanted)).unwrap().ranges().len(), 3);
    let expected: Vec<_> = wanted.iter().map(|row| documents[row as usize].clone()).collect();
    assert_eq!(read(&file, &split, Some(&wanted)).unwrap(), expected);
    assert_eq!(read(&file, &split, None).unwrap(), documents);
    let nothing = split.documents(Some(&RoaringBitmap::new())).unwrap();
    assert!(nothing.ranges().is_empty() && nothing.decode(Vec::new()).unwrap().is_empty());
    let beyond = split.documents(Some(&RoaringBitmap::from_iter([20_000]))).unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::Invalid);
}

#[test]
fn a_group_ends_before_it_takes_more_than_a_read_should() {
    // Random text: 4,096 documents of it would be 4 MB packed.
    let text = |n: u32| {
        (0..32u32)
            .map(|part| format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&(n * 64 + part).to_le_bytes())))
            .collect::<String>()
    };
    let mut documents: Vec<String> =
        (0..2_000).map(|n| format!(r#"{{"n":{n},"text":"{}"}}"#, text(n))).collect();
    documents.push(format!(
        r#"{{"n":2000,"text":"{}"}}"#,
        (0..1_000).map(|n| text(n + 10_000)).collect::<String>()
    ));
    let (file, footer) = write(&documents, Mapping::dynamic(), DocumentForm::Rendered);
    let groups = groups(&file, &footer);
    assert!(groups.len() > 4);
    for group in &groups {
        let bytes = group.range.end - group.range.start;
        assert!(bytes <= 257 << 10 || group.rows.len() == 1, "{group:?}");
    }
    assert_eq!(groups.last().unwrap().rows, 2_000..2_001);
    assert_eq!(read(&file, &open(&file, &footer), None).unwrap(), documents);
}

#[test]
fn columns_are_stored_once_more_where_a_scan_would_read_many_small_pages() {
    let documents = logs(20_000);
    let (stored, stored_footer) = write(&documents, Mapping::dynamic(), DocumentForm::Stored);
    let (file, footer) = write(&documents, Mapping::dynamic(), DocumentForm::Rendered);
    let (before, split) = (open(&stored, &stored_footer), open(&file, &footer));
    let end = groups(&file, &footer).last().unwrap().range.end;
    for (name, is_copied) in [
        ("_timestamp", true),
        ("host__text", true),
        ("tags__text_list", true),
        ("took__double", true),
        // Its pages have at least 32 KiB in each row group.
        ("id__text", false),
    ] {
        let range = split.column_range(name).unwrap();
        assert_eq!(range.start >= end, is_copied, "{name}");
        assert_eq!(before.page_bounds(name).is_empty(), split.page_bounds(name).is_empty());
        let column = |file: &[u8], split: &Split, rows: Option<&RoaringBitmap>| {
            let read = split.columns(&[name], rows, TextAs::Plain).unwrap();
            let cut =
                |range: &ByteRange| Bytes::copy_from_slice(&file[range.start as usize..range.end as usize]);
            let bytes = read.ranges().iter().map(cut).collect();
            let schema = Arc::clone(read.schema());
            concat_batches(&schema, &read.decode(bytes).unwrap()).unwrap()
        };
        let some = RoaringBitmap::from_iter([1, 4_095, 4_096, 9_000, 19_999]);
        for rows in [None, Some(&some)] {
            assert_eq!(column(&stored, &before, rows), column(&file, &split, rows), "{name}");
        }
        // A scan takes as many requests as of a stored split, or one for each row group, and about as many bytes.
        let scan = split.columns(&[name], None, TextAs::Plain).unwrap();
        assert_eq!(scan.ranges().len(), if is_copied { 1 } else { groups(&file, &footer).len() }, "{name}");
        let bytes: u64 = scan.ranges().iter().map(|range| range.end - range.start).sum();
        assert_eq!(bytes, split.column_bytes(name));
        assert!(bytes * 4 <= before.column_bytes(name) * 5, "{name}");
    }
}

#[test]
fn a_field_without_doc_values_has_no_digest_and_no_copy_that_costs_much() {
    let named =
        |document: String| document.replace("web-", "the machine on the left, in the rack of number ");
    let documents: Vec<String> = logs(9_000).into_iter().map(named).collect();
    let declared = |doc_values: bool| {
        let field = |ty: &str| serde_json::json!({"type": ty, "doc_values": doc_values});
        let fields = serde_json::json!({"took": field("double"), "host": field("keyword")});
        Mapping::from_elasticsearch_json(&serde_json::json!({"properties": fields})).unwrap()
    };
    let written = |doc_values| {
        let (file, footer) = write(&documents, declared(doc_values), DocumentForm::Rendered);
        let (split, end) = (open(&file, &footer), groups(&file, &footer).last().unwrap().range.end);
        assert_eq!(read(&file, &split, None).unwrap(), documents);
        let is_copied =
            ["took__double", "host__text"].map(|name| split.column_range(name).unwrap().start >= end);
        let numbers = ["took", "host"].map(|path| split.readings(path).next().unwrap().number);
        let digest = split.digest(&numbers, true, []).unwrap().unwrap();
        (is_copied, numbers.map(|number| digest.fields().any(|other| other == number)), file.len())
    };
    let (with, without) = (written(true), written(false));
    assert_eq!((with.0, with.1), ([true, true], [true, true]));
    assert_eq!((without.0, without.1), ([false, true], [false, false]), "the host repeats its values");
    assert!(with.2 - without.2 > 12_000, "{} and {} bytes", with.2, without.2);
}

#[test]
fn documents_are_rendered_where_that_takes_less() {
    let is_rendered = |documents: &[String]| {
        let (file, footer) = write(documents, Mapping::dynamic(), DocumentForm::Smaller);
        open(&file, &footer).renders_documents()
    };
    let documents = logs(5_000);
    assert!(is_rendered(&documents));
    assert!(!is_rendered(&documents[..4_000]));
    let bytes = |documents: &[String], form| write(documents, Mapping::dynamic(), form).0.len();
    let (rendered, stored) =
        (bytes(&documents, DocumentForm::Rendered), bytes(&documents, DocumentForm::Stored));
    assert!(rendered * 10 <= stored * 8, "{rendered} instead of {stored} bytes");
    // Documents that hardly pack: their columns are as large, and would be there twice.
    let numbers = |n: u64| (0..20).map(|m| format!("\"f{m}\":\"{n:x}{m}\"")).collect::<Vec<_>>().join(",");
    let few: Vec<String> = (0..5_000).map(|n| format!("{{{}}}", numbers(n))).collect();
    assert!(!is_rendered(&few));
    let (rendered, stored) = (bytes(&few, DocumentForm::Rendered), bytes(&few, DocumentForm::Stored));
    assert!(rendered * 100 > stored * 85, "{rendered} instead of {stored} bytes");
}

/// Each has 150 of 1,500 fields, so a row group has few of them, and each column of it a page, a header and a description.
#[test]
fn texts_of_a_dictionary_are_written_with_the_escapes_that_they_need() {
    // Few values of many rows; one of each list is null or missing, and addresses are texts of their own.
    let paths = [
        r#""C:\\logs""#,
        r#""a \"b\"""#,
        r#""tab\there""#,
        r#""plain""#,
        r#""\u00e9t\u00e9""#,
        r#""été\u007f""#,
        "null",
    ];
    let hosts = [r#""10.0.0.1""#, r#""::ffff:10.0.0.2""#, r#""2001:db8::1""#, r#""no address""#];
    let document = |n: usize| {
        let id = xxhash_rust::xxh3::xxh3_128(&n.to_le_bytes());
        let host = if n % 5 == 4 { String::new() } else { format!(r#","host":{}"#, hosts[n % hosts.len()]) };
        format!(
            r#"{{"@timestamp":"2024-05-01T10:00:{:02}.{:03}Z","id":"{id:032x}","path":{}{host},"status":{}}}"#,
            n / 1_000,
            n % 1_000,
            paths[n % paths.len()],
            n % 3
        )
    };
    let documents: Vec<String> = (0..3_000).map(document).collect();
    let mut mapping = Mapping::dynamic();
    mapping.declare("host", FieldType::Ip).unwrap();
    let (file, footer) = write(&documents, mapping, DocumentForm::Rendered);
    let split = open(&file, &footer);
    assert!(split.renders_documents() && split.has_dictionary("path__text"));
    assert_eq!(read(&file, &split, None).unwrap(), documents);
    // Of fewer rows than the dictionary has texts, each text is looked at when it is written.
    for first in 0..paths.len() as u32 {
        let wanted = RoaringBitmap::from_iter([first, first + 100]);
        let expected: Vec<_> = wanted.iter().map(|row| documents[row as usize].clone()).collect();
        assert_eq!(read(&file, &split, Some(&wanted)).unwrap(), expected);
    }
}

#[test]
fn wide_documents_of_few_rows_a_group_are_stored() {
    let wide = |n: u64| {
        let field = |m: u64| {
            let random = xxhash_rust::xxh3::xxh3_64(&(n * 1_000 + m).to_le_bytes());
            format!("\"g{}\":{}", m * 10 + random % 10, random >> 8 & 0xfffff)
        };
        format!("{{{}}}", (0..150).map(field).collect::<Vec<_>>().join(","))
    };
    let documents: Vec<String> = (0..4_100).map(wide).collect();
    let bytes = |form| write(&documents, Mapping::dynamic().with_column_budget(2_000), form).0.len();
    let [rendered, stored, smaller] =
        [DocumentForm::Rendered, DocumentForm::Stored, DocumentForm::Smaller].map(bytes);
    assert!(rendered * 100 > stored * 85, "{rendered} instead of {stored} bytes");
    assert_eq!(smaller, stored);
}

#[test]
fn what_cannot_be_rendered_is_stored_whole() {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100));
    let fields = (0..5_100).map(|n| format!("\"f{n}\":{n}")).collect::<Vec<_>>().join(",");
    let documents = [
        r#"{"n":1,"x":-0.0}"#.to_owned(),
        r#"{"n":2,"x":1E5,"y":1E6,"z":1E7}"#.to_owned(),
        deep,
        format!("{{{fields}}}"),
        "{}".to_owned(),
        r#"{"n":3,"x":[1.0,1.00,-0.0,1e400]}"#.to_owned(),
    ];
    let limits = crate::Limits { depth_max: 128, fields_max: 10_000, ..crate::Limits::default() };
    for budget in [1_000, 0] {
        let options = WriterOptions {
            documents: DocumentForm::Rendered,
            limits: limits.clone(),
            ..WriterOptions::default()
        };
        let mut writer = SplitWriter::new(Mapping::dynamic().with_column_budget(budget), options);
        documents.iter().for_each(|document| writer.add(document.as_bytes()).unwrap());
        let mut file = Vec::new();
        let sealed = writer.seal(SplitId::from_random(9), &mut file).unwrap();
        assert_eq!(read(&file, &open(&file, &sealed.footer), None).unwrap(), documents);
    }
}

#[test]
fn declared_and_mixed_fields_come_back() {
    let mut mapping = Mapping::dynamic();
    mapping.declare("code", FieldType::Keyword).unwrap();
    mapping.declare("at", FieldType::Date).unwrap();
    let document = |n: usize| match n % 4 {
        0 => format!(
            r#"{{"code":{n},"at":{n},"m":[{n},"x{n}",{n}.5,true,[{n}]],"@timestamp":{}}}"#,
            1_700_000_000 + n
        ),
        1 => format!(
            r#"{{"code":"{n}","at":"2024-01-01","m":"{n}","deep":{{"m":[{{"a":{n}}},{{"a":"b"}},{{"a":null}}]}}}}"#
        ),
        2 => format!(
            r#"{{"m":18446744073709551616,"@timestamp":["2024-05-01T00:00:00.{n:03}+02:00","2024-05-02"]}}"#
        ),
        _ => format!(r#"{{ "m" : "10.0.0.{}" , "deep.m.a" : {n} }}"#, n % 200),
    };
    let documents: Vec<String> = (0..500).map(document).collect();
    for budget in [1_000, 3, 0] {
        let (file, footer) =
            write(&documents, mapping.clone().with_column_budget(budget), DocumentForm::Rendered);
        let mut found = read(&file, &open(&file, &footer), None).unwrap();
        let mut expected = documents.clone();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}

/// A row group of which the directory is another one, whose checksum matches.
fn with_directory(file: &[u8], group: &RowGroup, directory: &[u8]) -> (RowGroup, Bytes) {
    let columns_end = group.range.end - u64::from(group.directory_bytes);
    let mut bytes = file[group.range.start as usize..columns_end as usize].to_vec();
    bytes.extend_from_slice(directory);
    let (range, directory_bytes) =
        (group.range.start..group.range.start + bytes.len() as u64, directory.len() as u32);
    (RowGroup { range, directory_bytes, checksum: checksum(&bytes), ..group.clone() }, bytes.into())
}

#[test]
fn a_forged_directory_is_corrupt() {
    let documents = logs(50);
    let (file, footer) = write(&documents, Mapping::dynamic(), DocumentForm::Rendered);
    let [group] = &groups(&file, &footer)[..] else { panic!("not one group") };
    let directory_start = (group.range.end - u64::from(group.directory_bytes)) as usize;
    let columns = || read_directory(&file[directory_start..group.range.end as usize], 50).unwrap();
    let every: RoaringBitmap = (0..50).collect();
    let outcome = |columns: Vec<GroupColumn>| {
        let (group, bytes) = with_directory(&file, group, &write_directory(&columns));
        render(&group, &every, &bytes).map(|_| ()).map_err(|error| error.kind())
    };
    assert_eq!(outcome(columns()), Ok(()));
    for at in 0..columns().len() {
        // Without one of the columns, and with one that is elsewhere.
        let mut fewer = columns();
        let removed = fewer.remove(at);
        assert_eq!(outcome(fewer), Err(ErrorKind::Corrupt), "{}", removed.chunk.name);
        let mut moved = columns();
        moved[at].chunk.offset += 1 << 40;
        assert_eq!(outcome(moved), Err(ErrorKind::Corrupt), "{}", removed.chunk.name);
    }
    // Two columns with each other's values.
    let mut swapped = columns();
    let place = |name: &str| columns().iter().position(|column| column.chunk.name == name).unwrap();
    let (host, id) = (place("host__text"), place("took__double"));
    let reading = swapped[host].reading.take();
    swapped[host].reading = swapped[id].reading.replace(reading.unwrap());
    assert_eq!(outcome(swapped), Err(ErrorKind::Corrupt));
}

/// Also of columns that no shape names.
#[test]
fn every_byte_of_a_row_group_is_checked() {
    let (mut file, footer) = write(&logs(50), Mapping::dynamic(), DocumentForm::Rendered);
    let split = open(&file, &footer);
    let range = groups(&file, &footer)[0].range.clone();
    for at in (range.start as usize..range.end as usize).step_by(37) {
        file[at] ^= 4;
        assert_eq!(read(&file, &split, None).unwrap_err().kind(), ErrorKind::Corrupt, "{at}");
        file[at] ^= 4;
    }
    assert_eq!(read(&file, &split, None).unwrap(), logs(50));
}

proptest! {
    #[test]
    fn a_changed_directory_is_corrupt_or_gives_documents(at: prop::sample::Index, with in 1u8.., cut in 0usize..40) {
        let documents = logs(20);
        let (file, footer) = write(&documents, Mapping::dynamic(), DocumentForm::Rendered);
        let group = groups(&file, &footer).remove(0);
        let start = (group.range.end - u64::from(group.directory_bytes)) as usize;
        let mut directory = file[start..group.range.end as usize].to_vec();
        let at = at.index(directory.len());
        directory[at] ^= with;
        if cut < 10 {
            directory.truncate(at);
        }
        let every: RoaringBitmap = (0..20).collect();
        let (group, bytes) = with_directory(&file, &group, &directory);
        if let Err(error) = render(&group, &every, &bytes) {
            prop_assert!(matches!(error.kind(), ErrorKind::Corrupt), "{error}");
        }
    }
}
