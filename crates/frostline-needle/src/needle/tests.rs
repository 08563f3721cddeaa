use frostline_base::ErrorKind;

use super::*;
use crate::testing::{Fields, Stored, id, key, merged, run};
use crate::{Kinds, Term};

/// Runs of the splits of these numbers, each with a token of its own, one by whether it is even, and one of all.
fn runs(numbers: impl IntoIterator<Item = usize>) -> Vec<Stored> {
    let run = |number: usize| {
        let tokens = [format!("own{number}"), format!("rest{}", number % 2), "all".to_owned()];
        run(number, &Fields::from([("f".to_owned(), tokens.into())]))
    };
    numbers.into_iter().map(run).collect()
}

fn lookup(token: &str) -> Lookup<'static> {
    Lookup { term: key().hash(Term::Token(token)), field: Some("f"), kinds: Kinds::TEXT }
}

fn ids(numbers: impl IntoIterator<Item = usize>) -> Vec<SplitId> {
    numbers.into_iter().map(id).collect()
}

fn pages(stored: &[Stored], covering: &Covering, lookups: &[Lookup<'_>]) -> Vec<Bytes> {
    covering.pages(lookups).iter().map(|range| stored[covering.place()].read(range)).collect()
}

/// The live splits that each segment names for a token, which are those that it does not rule out.
fn named(needle: &Needle, stored: &[Stored], token: &str) -> Vec<Vec<u32>> {
    let lookups = [lookup(token)];
    let of = |covering: &Covering| {
        let answer = covering.answer(&lookups, &pages(stored, covering, &lookups)).unwrap();
        let ruled_out: Vec<u32> = covering.ruled_out(answer[0]).collect();
        covering.live().filter(|split| !ruled_out.contains(split)).collect()
    };
    needle.coverings().iter().map(of).collect()
}

/// Two segments of four splits each, and a live split that none of them covers, in front of the others.
fn two() -> (Needle, Vec<Stored>) {
    let stored = vec![merged(&runs(0..4), 4), merged(&runs(4..8), 4)];
    let live = ids([90].into_iter().chain(0..8));
    (Needle::new(&live, stored.iter().map(Stored::open)), stored)
}

#[test]
fn segments_name_live_splits_and_leave_those_that_they_do_not_cover() {
    let (needle, stored) = two();
    assert!(needle.coverings().iter().flat_map(Covering::live).eq(1..9));
    assert_eq!(named(&needle, &stored, "own5"), [vec![], vec![6]]);
    assert_eq!(named(&needle, &stored, "rest1"), [[2, 4], [6, 8]]);
    assert_eq!(named(&needle, &stored, "absent"), [[0; 0], []]);
}

#[test]
fn each_page_is_read_once_for_all_lookups() {
    let (needle, stored) = two();
    let lookups = [lookup("own5"), lookup("rest1"), lookup("absent")];
    for covering in needle.coverings() {
        assert_eq!(covering.pages(&lookups).len(), 1);
        let answers = covering.answer(&lookups, &pages(&stored, covering, &lookups)).unwrap();
        let each = lookups.map(|lookup| covering.answer(&[lookup], &pages(&stored, covering, &[lookup])));
        assert_eq!(answers, each.map(|answer| answer.unwrap()[0]));
    }
}

#[test]
fn a_page_that_is_damaged_or_another_one_or_missing_is_corrupt() {
    let (needle, stored) = two();
    let lookups = [lookup("own5"), lookup("own1")];
    let [one, other] = needle.coverings() else { panic!("two segments") };
    let right = pages(&stored, one, &lookups);
    one.answer(&lookups, &right).unwrap();
    let broken: Bytes = right[0].iter().map(|byte| byte ^ 1).collect();
    for wrong in [vec![broken], vec![Bytes::new()], pages(&stored, other, &lookups), vec![]] {
        assert_eq!(one.answer(&lookups, &wrong).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn a_segment_of_dead_splits_answers_for_none() {
    let stored = [merged(&runs(0..4), 4), merged(&runs(4..8), 4)];
    let needle = Needle::new(&ids([5, 6]), stored.iter().map(Stored::open));
    assert_eq!(needle.coverings().iter().map(Covering::place).collect::<Vec<_>>(), [1]);
    assert_eq!(named(&needle, &stored, "all"), [[0, 1]]);
}

/// While segments are exchanged for a merged one, both are there.
#[test]
fn the_first_segment_that_covers_a_split_answers_for_it() {
    let parts = runs(0..4);
    let mut stored = vec![merged(&parts, 4)];
    stored.extend(parts);
    stored.extend(runs(4..5));
    let needle = Needle::new(&ids(0..5), stored.iter().map(Stored::open));
    assert_eq!(needle.coverings().iter().map(Covering::place).collect::<Vec<_>>(), [0, 5]);
    assert_eq!(named(&needle, &stored, "rest0"), [vec![0, 2], vec![4]]);
}

#[test]
fn without_segments_no_split_is_covered() {
    assert!(Needle::new(&ids(0..3), []).coverings().is_empty());
}
