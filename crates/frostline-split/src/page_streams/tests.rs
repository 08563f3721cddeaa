use frostline_base::ErrorKind;
use proptest::prelude::*;

use super::*;

const LEVELS: &[u8] = b"\x02\0\0\0\x06\x01";

fn packed(numbers: &Numbers<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    pack(&mut BytesPacker::new(3).unwrap(), LEVELS, numbers, &mut out).unwrap();
    out
}

fn unpacked(packed: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    unpack(packed, u32::MAX, &mut out).map(|()| out)
}

/// The body that a page of these numbers has.
fn plain(bits: &[u64]) -> Vec<u8> {
    let numbers = bits.iter().flat_map(|bits| bits.to_le_bytes());
    LEVELS.iter().copied().chain(numbers).collect()
}

/// The form that these numbers were packed in.
#[track_caller]
fn form(numbers: &Numbers<'_>) -> u8 {
    let packed = packed(numbers);
    if let Numbers::Whole(bits) | Numbers::Doubles(bits) = numbers {
        assert_eq!(unpacked(&packed).unwrap(), plain(bits));
    }
    let mut input = StreamReader::new(&packed, usize::MAX);
    let levels = input.cursor.varint().unwrap();
    assert_eq!(input.bytes(levels).unwrap(), LEVELS);
    input.cursor.varint().unwrap();
    input.cursor.u8().unwrap()
}

fn bits(doubles: &[f64]) -> Vec<u64> {
    doubles.iter().map(|double| double.to_bits()).collect()
}

#[test]
fn numbers_take_the_form_that_fits_them() {
    let scattered: Vec<u64> =
        (0..500u64).map(|n| xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes()) % 1_009).collect();
    assert_eq!(form(&Numbers::Whole(&scattered)), WHOLE);
    let times: Vec<u64> = scattered
        .iter()
        .scan(1 << 50, |at, step| {
            *at += step * 1_000;
            Some(*at)
        })
        .collect();
    assert_eq!(form(&Numbers::Whole(&times)), DIFFERENCES);
    assert!(packed(&Numbers::Whole(&times)).len() < 2 * times.len());
    let decimals: Vec<f64> = scattered.iter().map(|n| *n as f64 / 1e3).collect();
    assert_eq!(form(&Numbers::Doubles(&bits(&decimals))), DECIMALS);
    assert!(packed(&Numbers::Doubles(&bits(&decimals))).len() < 2 * decimals.len());
    // A zero below zero, what is no number, and what has more digits than any unit.
    for odd in [-0.0, f64::NAN, f64::NEG_INFINITY, 1.0 / 3.0, 1e300] {
        assert_eq!(form(&Numbers::Doubles(&bits(&[1.5, odd]))), WHOLE);
    }
    for few in [&[][..], &[u64::MAX], &[1 << 63, (1 << 63) - 1]] {
        form(&Numbers::Whole(few));
        form(&Numbers::Doubles(few));
    }
}

#[test]
fn places_come_back_as_the_parquet_reader_has_them() {
    let places: Vec<u64> = (0..300).map(|n| n * n % 37).collect();
    let mut body = LEVELS.to_vec();
    body.push(6);
    let mut encoder = RleEncoder::new(6);
    places.iter().for_each(|place| encoder.push(*place as u32, 1, &mut body));
    encoder.finish(&mut body);
    assert_eq!(unpacked(&packed(&Numbers::Places(6, &places))).unwrap(), body);
    assert_eq!(unpacked(&packed(&Numbers::Places(5, &places))).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn what_is_no_page_is_refused() {
    let times: Vec<u64> = (0..40).map(|n| n * 1_000).collect();
    for numbers in [Numbers::Whole(&times), Numbers::Doubles(&times), Numbers::Places(16, &times)] {
        let page = packed(&numbers);
        for end in 0..page.len() {
            assert_eq!(unpacked(&page[..end]).unwrap_err().kind(), ErrorKind::Corrupt);
        }
        assert_eq!(unpacked(&[&page[..], &[0]].concat()).unwrap_err().kind(), ErrorKind::Corrupt);
        let mut out = Vec::new();
        assert_eq!(unpack(&page, 39, &mut out).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    // No levels, a value, then an unknown form, places of no bits and of more than 32, and digits that no double has.
    for rest in
        [&[9, 0, 1, 0, 0][..], &[PLACES, 0, 1, 0, 0], &[PLACES, 33, 1, 0, 0], &[DECIMALS, 10, 0, 1, 1, 0, 0]]
    {
        assert_eq!(unpacked(&[&[0, 1], rest].concat()).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

proptest! {
    #[test]
    fn every_number_comes_back(numbers in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..300, any::<i16>().prop_map(|n| (f64::from(n) / 100.0).to_bits())], 0..60)) {
        for numbers in [Numbers::Whole(&numbers), Numbers::Doubles(&numbers)] {
            let (Numbers::Whole(bits) | Numbers::Doubles(bits) | Numbers::Places(_, bits)) = numbers;
            prop_assert_eq!(unpacked(&packed(&numbers)).unwrap(), plain(bits));
        }
    }

    #[test]
    fn any_bytes_are_a_page_or_refused(mut page in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = unpacked(&page);
        page.splice(0..0, [0, 3]);
        let _ = unpacked(&page);
    }
}
