use bytes::Bytes;
use frostline_base::ErrorKind;
use object_store::path::Path;

use super::*;
use crate::checkpoint::{read, read_removed};

const SOUND: &[u8] = include_bytes!("../../../../../fuzz/seeds/catalog_checkpoint/three-versions");

/// Refused by the check of this name, before the reader saw any of it.
#[track_caller]
fn refused(file: &[u8], why: &str) {
    let objects = [(Path::from("checkpoint"), Bytes::copy_from_slice(file))];
    for refused in [read(&Path::from("logs"), 1, &objects).map(drop), read_removed(&objects).map(drop)] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt);
        let source = std::error::Error::source(&refused).map(ToString::to_string).unwrap_or_default();
        assert!(source.contains(why), "{refused:?}");
    }
}

/// A file of no pages whose footer is this.
fn file(footer: &[u8]) -> Vec<u8> {
    [b"PAR1", footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

/// A footer with this schema, no rows, no row groups.
fn schema(elements: &[u8], count: u8) -> Vec<u8> {
    file(&[&[0x15, 0x02, 0x19, 0xfc, count][..], elements, &[0x16, 0x00, 0x19, 0x0c, 0x00]].concat())
}

#[test]
fn what_once_hung_does_not_reach_the_parquet_reader() {
    refused(include_bytes!("../../../../../fuzz/seeds/catalog_checkpoint/list-of-nothing"), "booleans");
    refused(
        include_bytes!("../../../../../fuzz/seeds/catalog_checkpoint/list-of-nothing-nested"),
        "booleans",
    );
    // Behind the fields that there are, in a field 20.
    refused(&file(&[0x15, 0x02, 0x09, 0x28, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00]), "booleans");
    // Row groups that are not there, for which the reader makes room.
    refused(&file(&[0x15, 0x02, 0x39, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00]), "longer");
}

#[test]
fn columns_are_a_tree() {
    // A name, and how many children.
    let element = |children: u8| [0x48, 0x01, b'a', 0x15, children << 1, 0x00];
    check_footer(&schema(&[element(2), element(0), element(1), element(0)].concat(), 4)).unwrap();
    check_footer(&schema(&[element(1); 64].concat().into_iter().chain(element(0)).collect::<Vec<_>>(), 65))
        .unwrap();
    let deep: Vec<u8> = [element(1); 100].concat().into_iter().chain(element(0)).collect();
    for (elements, count) in [
        (deep, 101),
        (element(1).to_vec(), 1),
        ([element(0), element(0)].concat(), 2),
        ([element(2), element(0)].concat(), 2),
        // Children by the thousand million, and less than none.
        ([0x48, 0x01, b'a', 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x00].to_vec(), 1),
        ([0x48, 0x01, b'a', 0x15, 0x01, 0x00].to_vec(), 1),
    ] {
        refused(&schema(&elements, count), "tree");
    }
}

#[test]
fn chunks_and_pages_claim_no_more_than_the_file_bears() {
    // A sound checkpoint passes; each claim of it that grows does not.
    let sound = Bytes::from_static(SOUND);
    check_footer(&sound).unwrap();
    let metadata = parquet::file::metadata::ParquetMetaDataReader::new().parse_and_finish(&sound).unwrap();
    let chunks: Vec<_> = metadata.row_groups().iter().flat_map(|group| group.columns()).collect();
    let mut pages = Pages::of(&sound);
    chunks.iter().try_for_each(|chunk| pages.add(chunk)).unwrap();
    assert!(pages.largest > 0 && pages.values > 0);

    let of = |change: &dyn Fn(
        parquet::file::metadata::ColumnChunkMetaDataBuilder,
    ) -> parquet::file::metadata::ColumnChunkMetaDataBuilder| {
        let chunk = change(chunks[0].clone().into_builder()).build().unwrap();
        let refused = Pages::of(&sound).add(&chunk).unwrap_err();
        (refused.kind(), refused.to_string())
    };
    for offset in [-1, i64::MAX, SOUND.len() as i64] {
        let (kind, what) = of(&|chunk| chunk.set_dictionary_page_offset(None).set_data_page_offset(offset));
        assert!(kind == ErrorKind::Corrupt && what.contains("outside"), "{what}");
    }
    for bytes in [-1, i64::MAX, SOUND.len() as i64] {
        let (kind, what) = of(&|chunk| chunk.set_total_compressed_size(bytes));
        assert!(kind == ErrorKind::Corrupt && what.contains("outside"), "{what}");
    }
    let (kind, _) = of(&|chunk| chunk.set_compression(Compression::LZO));
    assert_eq!(kind, ErrorKind::Invalid);
    let (_, what) = of(&|chunk| chunk.set_total_compressed_size(8));
    assert!(what.contains("page="), "{what}");

    // The same chunks over and over.
    let mut pages = Pages::of(&sound);
    let again = (0..100).flat_map(|_| &chunks).try_for_each(|chunk| pages.add(chunk)).unwrap_err();
    assert!(again.to_string().contains("in each other"), "{again}");
}

/// A data page of version 1 that claims so much, then 8 bytes.
fn page(unpacked: u32, values: u32) -> Vec<u8> {
    let mut page = vec![0x15, 0x00, 0x15];
    put(&mut page, unpacked << 1);
    page.extend([0x15, 0x10, 0x2c, 0x15]);
    put(&mut page, values << 1);
    page.extend([0x15, 0x00, 0x15, 0x06, 0x15, 0x06, 0x00, 0x00]);
    page.extend([0; 8]);
    page
}

fn put(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[test]
fn a_page_that_claims_too_much_is_refused() {
    let check = |page: Vec<u8>, codec| {
        let page = Bytes::from(page);
        let mut pages = Pages::of(&page);
        pages.page(0, page.len(), codec).map(|_| ()).map_err(|e| e.to_string())
    };
    let snappy = Compression::SNAPPY;
    check(page(8, 20), Compression::UNCOMPRESSED).unwrap();
    check(page(20_000, 5_000), snappy).unwrap();
    assert!(check(page(9, 20), Compression::UNCOMPRESSED).unwrap_err().contains("longer"));
    assert!(check(page(1 << 30, 20), snappy).unwrap_err().contains("bytes=1073741824"));
    assert!(check(page(1 << 20, 20), snappy).unwrap_err().contains("too many decompressed bytes"));
    assert!(check(page(8, 1 << 20), snappy).unwrap_err().contains("too many values"));
    let mut short = page(8, 20);
    short.pop();
    assert!(check(short, snappy).unwrap_err().contains("longer"));
}

/// Written by the Python packages deltalake 1.6 and pyarrow 26.
#[test]
fn what_other_programs_write_is_read() {
    let deltalake: &[u8] = include_bytes!("../../../../../fuzz/seeds/catalog_checkpoint/deltalake");
    let snappy = include_bytes!("../../../../../fuzz/seeds/catalog_checkpoint/pyarrow-snappy");
    let pages_2 = include_bytes!("../../../../../fuzz/seeds/catalog_checkpoint/pyarrow-pages-2");
    let lengths = include_bytes!("../../../../../fuzz/seeds/catalog_checkpoint/pyarrow-lengths");
    for (file, foreign, removed) in [(deltalake, 12, 2), (snappy, 9, 3), (pages_2, 9, 3), (lengths, 9, 3)] {
        let objects = [(Path::from("checkpoint"), Bytes::from_static(file))];
        let base = read(&Path::from("logs"), 1, &objects).unwrap();
        assert_eq!((base.splits.len(), base.foreign.len()), (0, foreign));
        assert_eq!(base.metadata.unwrap().partition_columns, ["p"]);
        assert_eq!(read_removed(&objects).unwrap().len(), removed);
    }
}
