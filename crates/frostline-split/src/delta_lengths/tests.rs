use frostline_base::ErrorKind;

use super::*;
use crate::bytes_codec::put_varint;

/// A list in blocks of 128 with four parts each, differences of so many bits.
fn list(count: u64, bits: u8) -> Vec<u8> {
    let mut out = Vec::new();
    [128, 4, count, 10].into_iter().for_each(|number| put_varint(&mut out, number));
    let mut left = count.saturating_sub(1);
    while left > 0 {
        out.push(1);
        let parts = left.div_ceil(32).min(4);
        out.extend((0..4).map(|part| if part < parts { bits } else { 99 }));
        out.extend(vec![0x5a; parts as usize * usize::from(bits) * 4]);
        left -= left.min(128);
    }
    out
}

#[test]
fn lists_are_as_long_as_they_say() {
    for (count, bits) in [(0, 3), (1, 3), (2, 3), (33, 0), (129, 7), (1000, 32)] {
        let one = list(count, bits);
        check(&one, 1, 1000).unwrap();
        check(&[&one[..], &list(20, 5), b"texts"].concat(), 2, 1000).unwrap();
        for end in 0..one.len() {
            assert_eq!(check(&one[..end], 1, 1000).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}

#[test]
fn more_lengths_than_values_are_refused() {
    for values in [
        list(21, 0),
        [list(3, 4), list(21, 4)].concat(),
        // 2^40 lengths in one block of 2^40 that are all alike; blocks of nothing.
        vec![0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0, 0, 0],
        vec![0, 1, 20, 0],
        vec![128, 1, 0, 20, 0],
        vec![128, 1, 3, 20, 0],
    ] {
        assert_eq!(check(&values, 2, 20).unwrap_err().kind(), ErrorKind::Corrupt, "{values:?}");
    }
}
