use frostline_base::ErrorKind;

use super::*;

/// The header of a data page of 20 rows, as the Parquet writer writes it.
const DATA: [u8; 17] =
    [0x15, 0x00, 0x15, 0x28, 0x15, 0x2c, 0x2c, 0x15, 0x28, 0x15, 0x00, 0x15, 0x06, 0x15, 0x06, 0x00, 0x00];

fn refused(page: &[u8]) {
    assert_eq!(of_split(page, false).unwrap_err().kind(), ErrorKind::Corrupt, "{page:?}");
}

#[test]
fn headers_of_pages_pass_and_what_follows_is_not_looked_at() {
    of_split(&DATA, false).unwrap();
    of_split(&[&DATA[..], &[0xff; 40]].concat(), false).unwrap();
    // Kind 2, a dictionary of seven values that is sorted, and one that does not say so.
    for sorted in [&[0x11][..], &[0x12], &[]] {
        let front = [0x15, 0x04, 0x15, 0x28, 0x15, 0x2c, 0x4c, 0x15, 0x0e, 0x15, 0x00];
        of_split(&[&front[..], sorted, &[0, 0]].concat(), false).unwrap();
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

#[test]
fn a_header_says_what_the_page_holds() {
    let header = of_split(&DATA, false).unwrap();
    let expected = PageHeader {
        header_bytes: DATA.len(),
        is_dictionary: false,
        unpacked_bytes: 20,
        packed_bytes: 22,
        values: 20,
        has_lengths: false,
    };
    assert_eq!(header, expected);
    assert_eq!(of_any(&DATA).unwrap(), expected);
    // Version 2: 20 values, 1 null, 20 rows, plain, 2 bytes of levels, not packed; statistics and a checksum.
    let second = [
        &[0x15, 0x06, 0x15, 0x28, 0x15, 0x2c, 0x15, 0x07][..],
        &[0x4c, 0x15, 0x28, 0x15, 0x02, 0x15, 0x28, 0x15, 0x00, 0x15, 0x04, 0x15, 0x00, 0x12],
        &[0x1c, 0x18, 0x01, b'x', 0x00, 0x00, 0x00],
    ];
    let second = second.concat();
    assert_eq!(of_any(&second).unwrap(), PageHeader { header_bytes: second.len(), ..expected });
    refused(&second);
}

#[test]
fn claims_beyond_reason_are_refused() {
    let dictionary = |values: &[u8], encoding| {
        [&[0x15, 0x04, 0x15, 0x28, 0x15, 0x2c, 0x4c, 0x15][..], values, &[0x15, encoding, 0, 0]].concat()
    };
    of_split(&dictionary(&[0x28], 0), false).unwrap();
    for page in
        [dictionary(&[0x2a], 0), dictionary(&[0xfe, 0xff, 0xff, 0xff, 0x0f], 0), dictionary(&[0x27], 0)]
    {
        refused(&page);
        assert_eq!(of_any(&page).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    // An index page, a size of -1, and one of 2^32 + 20 that the reader would take for 20.
    for front in [
        &[0x15, 0x02, 0x15, 0x28][..],
        &[0x15, 0x00, 0x15, 0x01],
        &[0x15, 0x00, 0x15, 0xa8, 0x80, 0x80, 0x80, 0x20],
    ] {
        let page = [front, &DATA[4..]].concat();
        refused(&page);
        assert_eq!(of_any(&page).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    // Lengths by differences: the reader makes room for as many as they say.
    for encoding in [0x0c, 0x0e] {
        let mut page = DATA;
        page[10] = encoding;
        refused(&page);
        assert!(of_any(&page).unwrap().has_lengths);
        // A column may have those of whole texts, not those of texts that share their starts.
        assert_eq!(
            of_split(&page, true).map(|header| header.has_lengths).ok(),
            (encoding == 0x0c).then_some(true)
        );
    }
    refused(&dictionary(&[0x28], 0x10));
}
