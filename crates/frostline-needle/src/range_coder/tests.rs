use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// The share of a symbol: its start, its size and the total.
fn share() -> impl Strategy<Value = (u32, u32, u32)> {
    (1..=TOTAL_MAX).prop_flat_map(|total| {
        (0..total).prop_flat_map(move |start| (Just(start), 1..=total - start, Just(total)))
    })
}

proptest! {
    #[test]
    fn symbols_read_back_and_cost_what_they_are_worth(shares in vec(share(), 0..300)) {
        let (mut encoder, mut out) = (Encoder::new(), Vec::new());
        shares.iter().for_each(|(start, size, total)| encoder.put(*start, *size, *total));
        encoder.finish_into(&mut out);
        let bits: f64 = shares.iter().map(|(_, size, total)| f64::from(*total).log2() - f64::from(*size).log2()).sum();
        // A part in 256 of a range is lost at most with each symbol.
        prop_assert!(out.len() as f64 * 8.0 <= bits + 16.0 + shares.len() as f64 * 0.006, "{} bytes for {bits} bits", out.len());
        let mut decoder = Decoder::new(out.into());
        for (start, size, total) in shares {
            let point = decoder.peek(total);
            prop_assert!((start..start + size).contains(&point));
            decoder.take(start, size, total);
        }
    }

    #[test]
    fn any_bytes_give_numbers_below_the_totals(bytes: Vec<u8>, totals in vec(0..=TOTAL_MAX, 0..200)) {
        let mut decoder = Decoder::new(bytes.into());
        for total in totals {
            prop_assert!(decoder.even(total) < total.max(1));
        }
    }
}

#[test]
fn a_carry_goes_through_bytes_that_are_full() {
    let shares =
        [(65_534, 1, 65_536), (65_535, 1, 65_536), (65_535, 1, 65_536), (0, 1, 3), (65_535, 1, 65_536)];
    for length in 0..=shares.len() {
        let (mut encoder, mut out) = (Encoder::new(), Vec::new());
        shares[..length].iter().for_each(|(start, size, total)| encoder.put(*start, *size, *total));
        encoder.finish_into(&mut out);
        let mut decoder = Decoder::new(out.into());
        for (start, size, total) in &shares[..length] {
            assert_eq!(decoder.peek(*total), *start);
            decoder.take(*start, *size, *total);
        }
    }
}

#[test]
fn a_coder_that_was_finished_begins_anew() {
    let (mut encoder, mut first, mut second) = (Encoder::new(), Vec::new(), Vec::new());
    for out in [&mut first, &mut second] {
        (0..50).for_each(|number| encoder.put_even(number, 1_000));
        encoder.finish_into(out);
    }
    assert_eq!(first, second);
}
