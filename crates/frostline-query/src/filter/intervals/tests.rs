use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn word(word: &str) -> Intervals {
    Intervals::Word(word.to_owned())
}

fn all(order: Order, parts: Vec<Intervals>) -> Intervals {
    Intervals::AllOf { parts, order }
}

fn gaps(gaps: u64, of: Intervals) -> Intervals {
    Intervals::MaxGaps { gaps, of: Box::new(of) }
}

fn related(of: Intervals, how: Relation, others: Intervals) -> Intervals {
    Intervals::Related { of: Box::new(of), how, others: Box::new(others) }
}

fn has(intervals: &Intervals, text: &str) -> bool {
    Seeker::new(intervals).unwrap().is_in(text)
}

#[test]
fn words_stand_as_they_are_asked_to() {
    use Order::{NoOverlap, Ordered, Unordered};
    let cold_outside = |order| all(order, vec![word("cold"), word("outside")]);
    let texts = ["It is COLD there, outside", "outside it is cold", "cold outside", "cold"];
    let check = |intervals: Intervals, expected: [bool; 4]| {
        assert_eq!(texts.map(|text| has(&intervals, text)), expected, "{intervals:?}");
    };
    check(cold_outside(Unordered), [true, true, true, false]);
    check(cold_outside(Ordered), [true, false, true, false]);
    check(gaps(0, cold_outside(Unordered)), [false, false, true, false]);
    check(gaps(1, cold_outside(Ordered)), [true, false, true, false]);
    check(Intervals::AnyOf(vec![word("there"), word("is")]), [true, true, false, false]);
    check(Intervals::AnyOf(Vec::new()), [false; 4]);
    let starts = Intervals::Pattern { pattern: Pattern::Prefix("out".to_owned()), case_insensitive: false };
    check(all(Ordered, vec![word("cold"), starts]), [true, false, true, false]);
    // One word is in two parts, but not where parts may not overlap.
    let twice = |order| all(order, vec![word("cold"), Intervals::AnyOf(vec![word("cold"), word("hot")])]);
    check(twice(Unordered), [true; 4]);
    check(twice(NoOverlap), [false; 4]);
    // A word that is asked twice is there twice.
    let same = |order| all(order, vec![word("cold"), word("cold")]);
    for order in [Ordered, Unordered, NoOverlap] {
        check(same(order), [false; 4]);
        assert!(has(&same(order), "cold, cold rain"), "{order:?}");
    }
    // What is between them may be of another part.
    let close = |parts: [&str; 3]| gaps(0, all(Unordered, parts.map(word).to_vec()));
    for text in ["b a b", "x b a b x", "a b b"] {
        assert!(has(&close(["a", "b", "b"]), text) && has(&close(["b", "a", "b"]), text), "{text}");
    }
    assert!(!has(&close(["a", "b", "b"]), "b x a b"));
    // What comes third is outside of what the first two go over.
    let three = |order| all(order, vec![word("cold"), word("wet"), word("it")]);
    assert!(
        has(&three(Unordered), "cold rain makes it wet") && !has(&three(NoOverlap), "cold rain makes it wet")
    );
    assert!(has(&three(NoOverlap), "some like it cold and wet"));
}

#[test]
fn gaps_are_between_parts_and_not_inside_of_them() {
    use Order::{Ordered, Unordered};
    let pair = |first, last| all(Unordered, vec![word(first), word(last)]);
    let three = all(Unordered, vec![word("c"), word("d"), word("a")]);
    // These answers are those of OpenSearch 3.8.
    for (most, order, parts, text, expected) in [
        (0, Unordered, vec![three, word("d")], "c d d a", true),
        (0, Ordered, vec![pair("a", "b"), pair("d", "c")], "b a d a c", true),
        (0, Ordered, vec![pair("a", "b"), pair("d", "c")], "b a x d a c", false),
        (1, Ordered, vec![pair("a", "b"), pair("d", "c")], "b a x d a c", true),
        (0, Unordered, vec![pair("d", "a"), pair("c", "d")], "a c d", true),
        (0, Unordered, vec![pair("d", "b"), word("c")], "d c b", true),
        (0, Unordered, vec![pair("d", "b"), word("c")], "d b x c", false),
    ] {
        let asked = gaps(most, all(order, parts));
        assert_eq!(has(&asked, text), expected, "{asked:?} in {text:?}");
    }
}

#[test]
fn intervals_stand_to_others_as_they_are_asked_to() {
    use Relation::*;
    let pair = || all(Order::Unordered, vec![word("a"), word("c")]);
    let check = |how: Relation, other: &str, text: &str, expected: bool| {
        assert_eq!(has(&related(pair(), how, word(other)), text), expected, "{how:?} {other} in {text:?}");
    };
    check(Containing, "b", "a b c", true);
    check(Containing, "b", "b a c", false);
    check(NotContaining, "b", "a b c", false);
    check(NotContaining, "b", "a b c x a c", true);
    check(Before, "b", "a c b", true);
    check(Before, "b", "b a c", false);
    check(After, "b", "b a c", true);
    check(After, "b", "a c b", false);
    check(Overlapping, "b", "a b c", true);
    check(Overlapping, "b", "a c b", false);
    check(NotOverlapping, "b", "a b c", false);
    check(NotOverlapping, "b", "a c b", true);
    let inside = |how| related(word("b"), how, pair());
    assert!(has(&inside(ContainedBy), "a b c") && !has(&inside(ContainedBy), "b a c"));
    assert!(!has(&inside(NotContainedBy), "a b c") && has(&inside(NotContainedBy), "b a c"));
}

/// All intervals, the slow way: a part may lie anywhere, and what contains another is left out.
fn naive(intervals: &Intervals, words: &[String]) -> BTreeSet<(usize, usize)> {
    let least = |all: BTreeSet<(usize, usize)>| {
        let contains = |a: &(usize, usize), b: &(usize, usize)| a != b && a.0 <= b.0 && b.1 <= a.1;
        all.iter().filter(|one| !all.iter().any(|other| contains(one, other))).copied().collect()
    };
    match intervals {
        Intervals::Word(wanted) => {
            (0..words.len()).filter(|at| words[*at] == *wanted).map(|at| (at, at)).collect()
        }
        Intervals::AnyOf(parts) => least(parts.iter().flat_map(|part| naive(part, words)).collect()),
        Intervals::AllOf { parts, order } => {
            let mut sets = parts.iter().map(|part| naive(part, words));
            let first = sets.next().unwrap_or_default();
            let joined = sets.fold(first, |before, next| {
                let mut both = BTreeSet::new();
                for a in &before {
                    for b in &next {
                        let is_ordered = a.1 < b.0;
                        let fits = match order {
                            Order::Ordered => is_ordered,
                            Order::NoOverlap => is_ordered || b.1 < a.0,
                            Order::Unordered => true,
                        };
                        if fits {
                            both.insert((a.0.min(b.0), a.1.max(b.1)));
                        }
                    }
                }
                if *order == Order::NoOverlap { least(both) } else { both }
            });
            least(joined)
        }
        Intervals::Related { of, how, others } => {
            let others = naive(others, words);
            let holds = |own: &(usize, usize)| {
                let contains = |a: &(usize, usize), b: &(usize, usize)| a.0 <= b.0 && b.1 <= a.1;
                let overlaps = |other: &(usize, usize)| own.0 <= other.1 && other.0 <= own.1;
                match how {
                    Relation::After => others.iter().any(|other| other.1 < own.0),
                    Relation::Before => others.iter().any(|other| own.1 < other.0),
                    Relation::ContainedBy => others.iter().any(|other| contains(other, own)),
                    Relation::Containing => others.iter().any(|other| contains(own, other)),
                    Relation::NotContainedBy => !others.iter().any(|other| contains(other, own)),
                    Relation::NotContaining => !others.iter().any(|other| contains(own, other)),
                    Relation::NotOverlapping => !others.iter().any(overlaps),
                    Relation::Overlapping => others.iter().any(overlaps),
                }
            };
            naive(of, words).into_iter().filter(holds).collect()
        }
        other => panic!("{other:?} is not asked"),
    }
}

fn rule() -> impl Strategy<Value = Intervals> {
    let leaf = "[abc]".prop_map(Intervals::Word);
    leaf.prop_recursive(3, 12, 3, |inner| {
        let order = prop_oneof![Just(Order::Ordered), Just(Order::Unordered), Just(Order::NoOverlap)];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Intervals::AnyOf),
            (prop::collection::vec(inner.clone(), 1..4), order)
                .prop_map(|(parts, order)| Intervals::AllOf { parts, order }),
            (inner.clone(), relation(), inner).prop_map(|(of, how, others)| related(of, how, others)),
        ]
    })
}

fn relation() -> impl Strategy<Value = Relation> {
    use Relation::*;
    prop::sample::select(vec![
        After,
        Before,
        ContainedBy,
        Containing,
        NotContainedBy,
        NotContaining,
        NotOverlapping,
        Overlapping,
    ])
}

/// Whether a part is asked for several times in any order, which stands for several places.
fn repeats(intervals: &Intervals) -> bool {
    match intervals {
        Intervals::AnyOf(parts) => parts.iter().any(repeats),
        Intervals::AllOf { parts, order } => {
            let is_twice = |at: usize| parts[..at].contains(&parts[at]);
            (*order == Order::Unordered && (0..parts.len()).any(is_twice)) || parts.iter().any(repeats)
        }
        Intervals::Related { of, others, .. } => repeats(of) || repeats(others),
        _ => false,
    }
}

proptest! {
    #[test]
    fn the_shortest_intervals_are_found(rule in rule(), text in "([abcd] ){0,9}") {
        prop_assume!(!repeats(&rule));
        let phrase = Phrase::new(&text);
        let words: Vec<(usize, &str)> = phrase.words().iter().map(String::as_str).enumerate().collect();
        let all = found(&rule, &words, &mut std::iter::empty());
        let places: BTreeSet<(usize, usize)> = all.iter().map(|one| (one.start, one.end)).collect();
        prop_assert_eq!(places.len(), all.len());
        prop_assert_eq!(places, naive(&rule, phrase.words()));
        prop_assert!(all.windows(2).all(|pair| pair[0].start < pair[1].start && pair[0].end < pair[1].end));
        prop_assert!(all.iter().all(|one| one.gaps < one.words()));
    }
}
