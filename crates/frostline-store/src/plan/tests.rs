#![allow(clippy::single_range_in_vec_init)] // A list of one range is what is meant.

use proptest::prelude::*;

use super::*;

fn object(bytes: u64) -> ObjectRef {
    ObjectRef { key: "k".into(), bytes }
}

fn check(wanted: &[ByteRange], requests: &[ByteRange]) {
    assert_eq!(Plan::new(&object(1_000), wanted, Share::Column, &SMALL).unwrap().requests, requests);
}

const SMALL: PlanOptions =
    PlanOptions { gap_bytes_max: 10, document_gaps_bytes_max: 60, request_bytes_max: 100, piece_bytes: 50 };

#[test]
fn a_read_of_documents_spans_its_smallest_gaps() {
    let check = |wanted: &[ByteRange], requests: &[ByteRange]| {
        assert_eq!(Plan::new(&object(1_000), wanted, Share::Source, &SMALL).unwrap().requests, requests);
    };
    check(&[], &[]);
    check(&[0..5], &[0..5]);
    check(&[0..5, 65..70], &[0..70]);
    check(&[0..5, 66..70], &[0..5, 66..70]);
    // Gaps of 40, 30 and 30: the two small ones are 60 together.
    check(&[0..5, 45..50, 80..85, 115..120], &[0..5, 45..120]);
    // Of equal gaps only as many as may be spent on.
    check(&[0..5, 35..40, 70..75, 105..110, 140..145], &[0..75, 105..110, 140..145]);
}

#[test]
fn neighbours_share_a_request() {
    check(&[], &[]);
    check(&[5..5], &[]);
    check(&[0..5, 15..20], &[0..20]);
    check(&[0..5, 16..20], &[0..5, 16..20]);
    check(&[16..20, 0..5, 0..5, 3..7], &[0..20]);
    check(&[0..100], &[0..100]);
    check(&[0..101], &[0..33, 33..67, 67..101]);
}

#[test]
fn ranges_outside_are_refused() {
    let options = PlanOptions::default();
    let refused = |range| Plan::new(&object(1_000), &[range], Share::Index, &options).unwrap_err().kind();
    assert_eq!(refused(990..1_001), frostline_base::ErrorKind::Corrupt);
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = 9..3;
    assert_eq!(refused(backwards), frostline_base::ErrorKind::Invalid);
}

#[test]
fn a_range_in_one_answer_is_not_copied() {
    let plan = Plan::new(&object(1_000), &[10..20, 22..30], Share::Column, &PlanOptions::default()).unwrap();
    let answer = Bytes::from(vec![1; 20]);
    let got = plan.assemble(&[10..20, 22..30], std::slice::from_ref(&answer)).unwrap();
    assert_eq!(got[1].as_ptr(), answer.slice(12..).as_ptr());
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_wanted(
        pairs in prop::collection::vec((0u64..5_000, 0u64..600), 0..40),
        gap_bytes_max in 0u64..200,
        request_bytes_max in 1u64..800,
        piece_bytes in 1u64..800,
        document_gaps_bytes_max in 0u64..2_000,
        share in prop::sample::select(vec![Share::Column, Share::Source]),
    ) {
        let bytes = Bytes::from((0..5_600u32).flat_map(|i| (i as u16).to_le_bytes()).collect::<Vec<u8>>());
        let wanted: Vec<ByteRange> = pairs.iter().map(|(start, length)| *start..start + length).collect();
        let options = PlanOptions { gap_bytes_max, document_gaps_bytes_max, request_bytes_max, piece_bytes };
        let plan = Plan::new(&object(bytes.len() as u64), &wanted, share, &options).unwrap();
        let slice = |r: &ByteRange| bytes.slice(r.start as usize..r.end as usize);
        for pair in plan.requests.windows(2) {
            prop_assert!(pair[0].end <= pair[1].start);
        }
        for request in &plan.requests {
            prop_assert!(!request.is_empty());
            prop_assert!(request.end - request.start <= request_bytes_max.max(piece_bytes));
        }
        let answers: Vec<Bytes> = plan.requests.iter().map(slice).collect();
        prop_assert_eq!(plan.assemble(&wanted, &answers).unwrap(), wanted.iter().map(slice).collect::<Vec<_>>());
    }
}
