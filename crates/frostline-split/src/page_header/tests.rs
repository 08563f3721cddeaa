use frostline_base::ErrorKind;

use super::*;

/// The header of a data page of 20 rows, as the Parquet writer writes it.
const DATA: [u8; 17] =
    [0x15, 0x00, 0x15, 0x28, 0x15, 0x2c, 0x2c, 0x15, 0x28, 0x15, 0x00, 0x15, 0x06, 0x15, 0x06, 0x00, 0x00];

fn refused(page: &[u8]) {
    assert_eq!(check(page).unwrap_err().kind(), ErrorKind::Corrupt, "{page:?}");
}

#[test]
fn headers_of_pages_pass_and_what_follows_is_not_looked_at() {
    check(&DATA).unwrap();
    check(&[&DATA[..], &[0xff; 40]].concat()).unwrap();
    // Kind 2, a dictionary of seven values that is sorted, and one that does not say so.
    for sorted in [&[0x11][..], &[0x12], &[]] {
        let front = [0x15, 0x04, 0x15, 0x28, 0x15, 0x2c, 0x4c, 0x15, 0x0e, 0x15, 0x00];
        check(&[&front[..], sorted, &[0, 0]].concat()).unwrap();
    }
}

#[test]
fn every_cut_and_every_other_field_is_refused() {
    for end in 0..DATA.len() {
        refused(&DATA[..end]);
    }
    // A list, a set and a map of two thousand million, each as a field 8 behind all others.
    for ty in [0x19, 0x1a, 0x1b] {
        let mut page = DATA[..DATA.len() - 1].to_vec();
        page.extend([0x20 | ty, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0]);
        refused(&page);
    }
    // A structure within itself, without end.
    refused(&[0x5c; 100_000]);
    // A known field of another type, and a number that is written out.
    refused(&[0x18, 0x01, 0x00, 0x00]);
    refused(&[0x05, 0x02, 0x00, 0x00]);
    // A number of more than 32 bits.
    refused(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00]);
}
