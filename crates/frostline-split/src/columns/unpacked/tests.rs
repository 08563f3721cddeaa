use frostline_base::ErrorKind;

use super::*;
use crate::bytes_codec::put_varint;

#[track_caller]
fn check(levels: &[u8], values: u32, sound: bool) {
    match count(levels, values) {
        Ok(()) => assert!(sound, "{levels:?} passed as {values}"),
        Err(e) => assert!(!sound && e.kind() == ErrorKind::Corrupt, "{levels:?} as {values}: {e:?}"),
    }
}

#[test]
fn levels_are_as_many_as_values() {
    // Runs of one value and groups of eight, alternately.
    let mut levels = Vec::new();
    for count in [1, 8, 300, 20_000] {
        put_varint(&mut levels, count << 1);
        levels.push(1);
        levels.extend([0x05, 0b1010_0110, 0b0000_1111]);
    }
    let values = 20_309 + 4 * 16;
    check(&levels, values, true);
    check(&levels, 100, true);
    check(&levels, values + 1, false);
    for end in 0..levels.len() {
        check(&levels[..end], values, false);
    }
    check(&[], 0, true);
}

#[test]
fn runs_that_lead_nowhere_are_refused() {
    // Runs of none, packed and not.
    check(&[0x00, 0x01, 0x10, 0x00], 8, false);
    check(&[0x01, 0x10, 0x00], 8, false);
    // Eight groups of which one is there, and a run whose value is not.
    check(&[0x11, 0xff], 40, false);
    check(&[0x50], 40, false);
    // A run of 2^31 values is one of 2^31 values; one of more does not fit.
    check(&[0xfe, 0xff, 0xff, 0xff, 0x0f, 0x00], u32::MAX >> 1, true);
    check(&[0xfe, 0xff, 0xff, 0xff, 0x1f, 0x00], 40, false);
}

#[test]
fn a_page_is_as_long_as_its_header_says() {
    // Four bytes of header, then two levels and a text.
    let body = b"\x02\0\0\0\x04\0text";
    let page = [b"head", &zstd::bulk::compress(body, 3).unwrap()[..]].concat();
    let header = PageHeader { header_bytes: 4, unpacked_bytes: 10, values: 2, ..PageHeader::default() };
    assert_eq!(unpack(&page, &header, true, false).unwrap(), [b"head", &body[..]].concat());
    let refused = |page: &[u8], header| {
        assert_eq!(unpack(page, &header, true, false).unwrap_err().kind(), ErrorKind::Corrupt);
    };
    for unpacked_bytes in [0, 9, 11, i32::MAX as u32] {
        refused(&page, PageHeader { unpacked_bytes, ..header });
    }
    refused(&page, PageHeader { values: 3, ..header });
    for end in 0..page.len() {
        refused(&page[..end], header);
    }
    // A dictionary has no levels, and what is no list none of repetition.
    unpack(&page, &PageHeader { values: 3, is_dictionary: true, ..header }, true, false).unwrap();
    unpack(&page, &PageHeader { values: 3, ..header }, false, false).unwrap();
}

#[test]
fn lengths_are_no_more_than_values() {
    let body = |count: u8, levels: &[u8]| {
        let levels = [&(levels.len() as u32).to_le_bytes(), levels].concat();
        // Blocks of 128 in four parts, so many lengths of four bytes (zigzag 8), no differences.
        let lengths = [&[0x80, 0x01, 0x04, count, 0x08][..], &[0, 0, 0, 0, 0]].concat();
        [levels, lengths, b"textmore".to_vec()].concat()
    };
    let read = |body: &[u8], is_list| {
        let page = zstd::bulk::compress(body, 3).unwrap();
        let unpacked_bytes = body.len() as u32;
        let header = PageHeader { unpacked_bytes, values: 2, has_lengths: true, ..PageHeader::default() };
        unpack(&page, &header, is_list, false)
    };
    read(&body(2, &[0x04, 1]), false).unwrap();
    for count in [3, 0x7f] {
        assert_eq!(read(&body(count, &[0x04, 1]), false).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    // Of lists they come after two lists of levels.
    let list = [&[2, 0, 0, 0, 0x04, 0][..], &body(2, &[0x04, 3])].concat();
    read(&list, true).unwrap();
    assert_eq!(read(&list, false).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(read(&[9, 0, 0, 0, 1], false).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_page_in_streams_is_as_long_as_its_header_says() {
    let mut page = b"head".to_vec();
    let mut packer = crate::streams::BytesPacker::new(3).unwrap();
    let numbers = [7, 9, 7];
    page_streams::pack(
        &mut packer,
        b"\x02\0\0\0\x06\x01",
        &page_streams::Numbers::Whole(&numbers),
        &mut page,
    )
    .unwrap();
    let header = PageHeader { header_bytes: 4, unpacked_bytes: 30, values: 3, ..PageHeader::default() };
    let mut body = b"head\x02\0\0\0\x06\x01".to_vec();
    numbers.iter().for_each(|number| body.extend(number.to_le_bytes()));
    assert_eq!(unpack(&page, &header, false, true).unwrap(), body);
    for header in [PageHeader { unpacked_bytes: 31, ..header }, PageHeader { values: 2, ..header }] {
        assert_eq!(unpack(&page, &header, false, true).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
