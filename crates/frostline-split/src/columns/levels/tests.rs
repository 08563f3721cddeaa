use std::io::Write;

use frostline_base::ErrorKind;

use super::*;
use crate::bytes_codec::put_varint;

#[track_caller]
fn check(levels: &[u8], values: u32, sound: bool) {
    let front = (levels.len() as u32).to_le_bytes();
    let packed = zstd::bulk::compress(&[&front, levels, &[7; 90_000]].concat(), 3).unwrap();
    match check_repetition(&packed, values) {
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
    // More bytes than levels could take.
    check(&[0x02; 100], 40, false);
}

#[test]
fn what_does_not_unpack_is_refused() {
    for packed in [&b""[..], b"\x28\xb5\x2f\xfd", &zstd::bulk::compress(b"abc", 3).unwrap()] {
        assert_eq!(check_repetition(packed, 1).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    let mut cut = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    cut.write_all(&200u32.to_le_bytes()).unwrap();
    let cut = cut.finish().unwrap();
    assert_eq!(check_repetition(&cut, 1000).unwrap_err().kind(), ErrorKind::Corrupt);
}
