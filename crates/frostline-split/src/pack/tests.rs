use std::ops::Range;

use frostline_base::ErrorKind;
use proptest::prelude::*;

use super::*;

fn id(n: u128) -> SplitId {
    SplitId::from_random(n << 64 | 7)
}

fn footers(numbers: Range<u128>) -> Vec<PackedFooter> {
    let times = |n: u128| Some((1_000 - n as i64, 2_000 + n as i64));
    numbers
        .map(|n| PackedFooter { split: id(n), times: times(n), footer: format!("footer {n}").into() })
        .collect()
}

fn open(file: &[u8], about: &PackAbout) -> Result<Pack> {
    let directory = Pack::directory(about.splits);
    Pack::open(&file[directory.start as usize..directory.end as usize], file.len() as u64)
}

fn content<'f>(file: &'f [u8], place: &ByteRange) -> &'f [u8] {
    &file[place.start as usize..place.end as usize]
}

proptest! {
    #[test]
    fn what_is_written_is_found(
        contents in proptest::collection::btree_map(any::<u128>(), (any::<Option<(i64, i64)>>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..100),
    ) {
        let of = |(n, (times, footer)): (&u128, &(_, Vec<u8>))| PackedFooter { split: SplitId::from_random(*n), times: *times, footer: footer.clone() };
        let footers = contents.iter().map(of).collect();
        let (file, about) = Pack::write(footers).unwrap();
        let about = PackAbout::read(&about.to_json()).unwrap();
        let pack = open(&file, &about).unwrap();
        prop_assert_eq!((pack.len(), about.splits), (contents.len(), contents.len()));
        for (n, (_, footer)) in &contents {
            prop_assert_eq!(content(&file, pack.place(SplitId::from_random(*n)).unwrap()), &footer[..]);
        }
        prop_assert_eq!(pack.place(SplitId::from_random(1)).is_some(), contents.contains_key(&1));
    }

    #[test]
    fn any_bytes_are_a_pack_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzzing::pack(&bytes);
        let _ = Pack::open(&bytes, 100);
    }
}

#[test]
fn contents_are_in_the_order_of_their_times() {
    let (file, about) = Pack::write(footers(0..3)).unwrap();
    let pack = open(&file, &about).unwrap();
    let starts: Vec<u64> = (0..3).map(|n| pack.place(id(n)).unwrap().start).collect();
    assert!(starts[2] < starts[1] && starts[1] < starts[0]);
    assert_eq!(about.times, Some((998, 2_002)));
    let mut some = footers(0..3);
    some[1].times = None;
    assert_eq!(
        Pack::write(some).unwrap().1.times,
        None,
        "a split without times may be asked about at any time"
    );
}

#[test]
fn few_splits_are_named() {
    let (_, about) = Pack::write(footers(0..64)).unwrap();
    assert_eq!(about.named.len(), 64);
    assert!(about.is_dead(|_| false) && !about.is_dead(|split| split == id(3)));
    let (_, about) = Pack::write(footers(0..65)).unwrap();
    assert!(about.named.is_empty() && !about.is_dead(|_| false));
}

#[test]
fn what_is_too_much_is_refused() {
    assert_eq!(Pack::write(footers(0..1_025)).unwrap_err().kind(), ErrorKind::Invalid);
    let long = vec![PackedFooter { split: id(0), times: None, footer: vec![0; (64 << 10) + 1] }];
    assert_eq!(Pack::write(long).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_changed_or_missing_byte_of_the_directory_is_noticed() {
    let (file, about) = Pack::write(footers(0..5)).unwrap();
    let directory = &file[..Pack::directory(about.splits).end as usize];
    for at in 0..directory.len() {
        let mut changed = directory.to_vec();
        changed[at] ^= 1;
        assert_eq!(Pack::open(&changed, file.len() as u64).unwrap_err().kind(), ErrorKind::Corrupt, "{at}");
        assert_eq!(Pack::open(&directory[..at], file.len() as u64).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    assert_eq!(Pack::open(directory, file.len() as u64 - 1).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_newer_format_is_no_pack_for_this_reader() {
    let (mut file, about) = Pack::write(footers(0..2)).unwrap();
    let end = Pack::directory(about.splits).end as usize;
    file[8] = 2;
    let sum = xxh3_64(&file[..end - 8]);
    file[end - 8..end].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(open(&file, &about).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(PackAbout::read(&serde_json::json!({"format": 2, "splits": 2})), None);
    assert_eq!(PackAbout::read(&serde_json::json!({"format": 1, "splits": 5_000})), None);
    assert_eq!(PackAbout::read(&serde_json::json!("packs")), None);
}
