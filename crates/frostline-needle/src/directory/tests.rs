use std::collections::BTreeMap;

use frostline_base::ErrorKind;
use proptest::prelude::*;

use super::*;
use crate::field_table::Missing;
use crate::testing::{id, key, scope};

fn directory() -> Directory {
    let fields = ["host", "message"].map(|name| (name.to_owned(), Missing::default()));
    let table = FieldTable::of_fields(BTreeMap::from(fields), Missing::default());
    let table = table.with_sets([Box::from([0u16]), Box::from([0u16, 1])]);
    let splits = (0..40).map(id).collect();
    let mut directory = Directory::new(scope(), key().check(), splits, 40, table).unwrap();
    (directory.entries, directory.pairs) = (1_000, 9_000);
    directory.starts = vec![0, 7, 1 << 30];
    directory.offsets = vec![8, 60_000, 120_000, 150_000];
    directory
}

#[test]
fn a_directory_reads_back() {
    assert_eq!(Directory::decode(&directory().encode()).unwrap(), directory());
}

#[test]
fn a_changed_bit_or_a_missing_byte_is_noticed() {
    let bytes = directory().encode();
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let error = Directory::decode(&changed).unwrap_err();
        // A changed version cannot be told from a newer one.
        let expected = if (8..12).contains(&(bit / 8)) { ErrorKind::Invalid } else { ErrorKind::Corrupt };
        assert_eq!(error.kind(), expected, "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert_eq!(Directory::decode(&bytes[..length]).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn a_newer_version_is_named() {
    let mut bytes = directory().encode();
    bytes[8] = 2;
    let error = Directory::decode(&bytes).unwrap_err();
    assert_eq!(
        (error.kind(), error.fact("version"), error.fact("known")),
        (ErrorKind::Invalid, Some("2"), Some("1"))
    );
}

#[test]
fn the_number_of_splits_is_bounded() {
    let build = |count: usize| {
        let table = FieldTable::of_fields(BTreeMap::new(), Missing::default());
        Directory::new(scope(), 0, (0..count).map(id).collect(), 40, table).map(drop)
    };
    assert!(build(1).is_ok() && build(SPLITS_MAX).is_ok());
    for count in [0, SPLITS_MAX + 1] {
        assert_eq!(build(count).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_page_is_found_by_the_upper_half_of_the_hash() {
    let directory = directory();
    let page = |upper: u64| directory.page_of(TermHash(upper << 32 | 0xffff));
    assert_eq!((page(0), page(6), page(7), page(u64::from(u32::MAX))), (Some(0), Some(0), Some(1), Some(2)));
    assert_eq!(directory.range(2..3), Some(120_000..150_000));
}

proptest! {
    #[test]
    fn keys_are_long_enough_for_what_a_segment_grows_to(
        pairs in 1u64..1 << 40,
        splits in 1usize..=1_024,
        more in 0usize..1_024,
    ) {
        let grows_to = (splits + more).min(1_024);
        let bits = key_bits_for(pairs, splits, grows_to);
        let grown = pairs as f64 * grows_to as f64 / splits as f64;
        prop_assert!(bits == 64 || grown.max(1.0) / 2f64.powi(bits as i32) <= 2f64.powi(-12));
        let bits_min = if more > 0 { KEY_BITS_GROWING_MIN } else { KEY_BITS_MIN };
        prop_assert!(bits <= bits_min || grown.max(1.0) / 2f64.powi(bits as i32) > 2f64.powi(-12 - 1 - 4) * 0.99);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
        let _ = Directory::decode_checked(&bytes);
        let _ = Directory::decode(&bytes);
    }
}
