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

fn numbers(splits: &RoaringBitmap) -> Vec<u32> {
    splits.iter().collect()
}

/// Two segments of four splits each, and a live split that none of them covers, in front of the others.
fn two() -> (Needle, Vec<Stored>) {
    let stored = vec![merged(&runs(0..4), 4), merged(&runs(4..8), 4)];
    let live = ids([90].into_iter().chain(0..8));
    (Needle::new(&live, stored.iter().map(Stored::open).collect()), stored)
}

fn read(stored: &[Stored], plan: &Plan<'_>) -> Vec<Result<Bytes, Error>> {
    plan.reads().iter().map(|read| Ok(stored[read.segment].read(&read.range))).collect()
}

#[test]
fn a_split_that_no_segment_covers_is_in_every_answer() {
    let (needle, stored) = two();
    let lookups = [lookup("own5"), lookup("rest1"), lookup("absent")];
    let plan = needle.plan(&lookups);
    // One page of each segment answers all of them.
    assert_eq!(plan.reads().len(), 2);
    let answer = plan.answer(read(&stored, &plan));
    assert!(answer.damage.is_empty());
    assert_eq!(numbers(&answer.splits[0]), [0, 6]);
    assert_eq!(numbers(&answer.splits[1]), [0, 2, 4, 6, 8]);
    assert_eq!(numbers(&answer.splits[2]), [0]);
    assert_eq!(numbers(&(&answer.splits[0] & &answer.splits[1])), [0, 6]);
    assert_eq!(numbers(needle.uncovered()), [0]);
}

#[test]
fn a_page_that_is_damaged_or_not_read_opens_all_splits_of_its_segment() {
    let (needle, stored) = two();
    let lookups = [lookup("own5"), lookup("own1")];
    let plan = needle.plan(&lookups);
    let broken = |bytes: &Bytes| bytes.iter().map(|byte| byte ^ 1).collect::<Bytes>();
    let pages = || read(&stored, &plan).into_iter();
    type Pages = Vec<Result<Bytes, Error>>;
    let cases: [(Pages, ErrorKind); 4] = [
        (
            pages().map(|page| page.map(|page| broken(&page))).take(1).chain(pages().skip(1)).collect(),
            ErrorKind::Corrupt,
        ),
        (pages().map(|_| Ok(Bytes::new())).take(1).chain(pages().skip(1)).collect(), ErrorKind::Corrupt),
        (pages().rev().take(1).chain(pages().skip(1)).collect(), ErrorKind::Corrupt),
        (
            [Err(Error::unavailable("late"))].into_iter().chain(pages().skip(1)).collect(),
            ErrorKind::Unavailable,
        ),
    ];
    for (pages, kind) in cases {
        let answer = plan.answer(pages);
        assert_eq!(numbers(&answer.splits[0]), [0, 1, 2, 3, 4, 6]);
        assert_eq!(numbers(&answer.splits[1]), [0, 1, 2, 3, 4]);
        let [(read, error)] = &answer.damage[..] else { panic!("{:?}", answer.damage) };
        assert_eq!((read, error.kind()), (&plan.reads()[0], kind));
    }
    let answer = plan.answer([]);
    assert_eq!(numbers(&answer.splits[0]), (0..9).collect::<Vec<_>>());
    assert_eq!(answer.damage.len(), 2);
}

#[test]
fn a_segment_of_dead_splits_is_not_read() {
    let stored = [merged(&runs(0..4), 4), merged(&runs(4..8), 4)];
    let needle = Needle::new(&ids([5, 6]), stored.iter().map(Stored::open).collect());
    let lookups = [lookup("all")];
    let plan = needle.plan(&lookups);
    assert_eq!(plan.reads().iter().map(|read| read.segment).collect::<Vec<_>>(), [1]);
    assert_eq!(numbers(&plan.answer(read(&stored, &plan)).splits[0]), [0, 1]);
}

/// While segments are exchanged for a merged one, both are there.
#[test]
fn the_first_segment_that_covers_a_split_answers_for_it() {
    let parts = runs(0..4);
    let mut stored = vec![merged(&parts, 4)];
    stored.extend(parts);
    stored.extend(runs(4..5));
    let needle = Needle::new(&ids(0..5), stored.iter().map(Stored::open).collect());
    let lookups = [lookup("rest0")];
    let plan = needle.plan(&lookups);
    assert_eq!(plan.reads().iter().map(|read| read.segment).collect::<Vec<_>>(), [0, 5]);
    assert_eq!(numbers(&plan.answer(read(&stored, &plan)).splits[0]), [0, 2, 4]);
}

#[test]
fn without_segments_every_split_is_opened() {
    let needle = Needle::new(&ids(0..3), Vec::new());
    let lookups = [lookup("absent")];
    let answer = needle.plan(&lookups).answer([]);
    assert_eq!(numbers(&answer.splits[0]), [0, 1, 2]);
    assert!(answer.damage.is_empty());
}
