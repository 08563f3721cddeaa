use std::collections::BTreeMap;

use bytes::Bytes;

use super::*;
use crate::field_table::{FieldTable, Missing};
use crate::page::Page;
use crate::testing::{id, scope};

/// A segment of 64 splits, keys of 64 bits and many sets of fields.
fn writer(out: &mut Vec<u8>) -> SegmentWriter<&mut Vec<u8>> {
    let fields =
        (0..200).map(|number| (format!("f{number:03}"), Missing::default())).collect::<BTreeMap<_, _>>();
    let sets = (0..10_000u32).map(|n| Box::from([(n / 100) as u16, (100 + n % 100) as u16]));
    let table = FieldTable::of_fields(fields, Missing::default()).with_sets(sets);
    let directory = Directory::new(scope(), 1, (0..64).map(id).collect(), 64, table).unwrap();
    SegmentWriter::new(directory, out).unwrap()
}

fn pairs(key: u64) -> Vec<Pair> {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    vec![Pair { fields: (mixed % 10_000) as u32, split: (mixed % 64) as u16 }]
}

fn written(keys: impl Iterator<Item = u64> + Clone) -> Directory {
    let mut bytes = Vec::new();
    let mut writer = writer(&mut bytes);
    keys.clone().for_each(|key| writer.push(key, &mut pairs(key)).unwrap());
    let written = writer.finish().unwrap();
    let directory = &bytes[written.directory.start as usize..written.directory.end as usize];
    let directory = Directory::decode(directory).unwrap();
    assert_eq!((directory.entries, directory.starts.len()), (keys.clone().count() as u64, written.pages));
    for key in keys.step_by(37) {
        let at = directory.page_of(crate::TermHash(key)).unwrap();
        let range = directory.range(at..at + 1).unwrap();
        let page = Bytes::copy_from_slice(&bytes[range.start as usize..range.end as usize]);
        let page = Page::open(&page, directory.frame(directory.seed(), at, directory.starts[at])).unwrap();
        let mut found = Vec::new();
        page.find(key, |pair| found.push(pair)).unwrap();
        assert_eq!(found, pairs(key), "{key}");
    }
    directory
}

/// Sets of fields that hardly repeat take more than is estimated, so that pages have to be cut once more.
#[test]
fn no_page_is_longer_than_64_kib() {
    let directory = written((0..30_000u64).map(|n| n << 48 | n));
    let lengths: Vec<u64> = directory.offsets.windows(2).map(|at| at[1] - at[0]).collect();
    assert!(
        lengths.len() > 2 && lengths.iter().all(|length| *length <= PAGE_BYTES_MAX as u64),
        "{lengths:?}"
    );
}

#[test]
fn entries_that_the_directory_cannot_tell_apart_are_in_one_page() {
    let keys = (0..40_000u64).map(|n| if n < 4_000 { n } else { 1 << 32 | n });
    let directory = written(keys);
    assert_eq!(directory.starts, [0, 1]);
}

#[test]
fn a_page_without_end_is_refused() {
    let mut bytes = Vec::new();
    let mut writer = writer(&mut bytes);
    for key in 0..900_000 {
        writer.push(key, &mut pairs(key)).unwrap();
    }
    assert!(writer.finish().is_err());
}

#[test]
fn an_entry_of_too_many_groups_is_one_of_any_field() {
    let mut pairs: Vec<Pair> =
        (0..300).rev().map(|fields| Pair { fields, split: (fields % 64) as u16 }).collect();
    normalise(&mut pairs);
    assert_eq!(pairs, (0..64).map(|split| Pair { fields: ANY_FIELD, split }).collect::<Vec<_>>());
}
