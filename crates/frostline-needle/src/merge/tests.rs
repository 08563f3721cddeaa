use std::cell::RefCell;
use std::collections::BTreeSet;

use frostline_base::ErrorKind;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::testing::{Fields, Numbers, Stored, id, key, merged, run, scope};
use crate::{Kinds, RunWriter, Scope, Term, TermKey};

fn fields() -> impl Strategy<Value = Fields> {
    btree_map("[a-d]", btree_set("t[0-9]{1,2}", 0..30), 0..5)
}

/// What the model says: the splits that have the term in the field, or in any.
fn splits(model: &[Fields], token: &str, field: Option<&str>) -> SplitSet {
    let has = |fields: &Fields| {
        fields.iter().any(|(name, tokens)| field.is_none_or(|field| field == name) && tokens.contains(token))
    };
    (0..).zip(model).filter(|(_, fields)| has(fields)).map(|(number, _)| number).collect()
}

/// No two tokens of the model have the same key, so the answers are exactly the model's.
#[test]
fn tokens_of_the_model_have_keys_of_their_own() {
    let tokens = (0..10).map(|n| format!("t{n}")).chain((0..100).map(|n| format!("t{n:02}")));
    let keys: BTreeSet<u64> = tokens.map(|token| key().hash(Term::Token(&token)).0 >> 32).collect();
    assert_eq!(keys.len(), 110);
}

proptest! {
    #[test]
    fn a_merged_segment_answers_like_a_set(model in vec(fields(), 1..9), step in 1usize..4) {
        let runs: Vec<Stored> = model.iter().enumerate().map(|(number, fields)| run(number, fields)).collect();
        let at_once = merged(&runs, runs.len());
        let steps: Vec<Stored> = runs.chunks(step).map(|runs| merged(runs, SPLITS_MAX)).collect();
        prop_assert_eq!(&merged(&steps, runs.len()), &at_once);
        for number in 0..100 {
            let token = format!("t{number}");
            for field in [None, Some("a"), Some("b"), Some("d"), Some("e")] {
                let answer = at_once.ask(Term::Token(&token), field, Kinds::ALL);
                prop_assert_eq!(answer, splits(&model, &token, field), "{} in {:?}", token, field);
            }
        }
        let ids: Vec<_> = (0..model.len()).map(id).collect();
        prop_assert_eq!(at_once.open().splits().to_vec(), ids);
    }
}

/// Copies of a split are merged to the same bytes as splits of their own with the same terms.
#[test]
fn renamed_segments_are_those_of_copies() {
    let fields = |tokens: &str| {
        let tokens = tokens.split(' ').map(str::to_owned).collect();
        Fields::from([("f".to_owned(), tokens)])
    };
    let (one, other) = (fields("a b c"), fields("c d"));
    let copies = merged(&[run(0, &one), run(1, &other), run(2, &one), run(3, &one)], 4);
    let [first, second] = [run(7, &one), run(8, &other)];
    let named = |stored: &Stored, number| {
        let stored = stored.clone();
        let segment = stored.open().renamed("logs", vec![id(number)]).unwrap();
        Input { segment: Arc::new(segment), read: move |range: ByteRange| Ok(stored.read(&range)) }
    };
    let inputs = vec![named(&first, 0), named(&second, 1), named(&first, 2), named(&first, 3)];
    let mut bytes = Vec::new();
    let options = MergeOptions { grows_to: 4, ..MergeOptions::default() };
    let written = merge(inputs, |_| true, options, &mut bytes).unwrap();
    assert_eq!(Stored::of(&written, bytes), copies);

    let elsewhere = first.open().renamed("other logs", vec![id(5)]).unwrap();
    assert_eq!(elsewhere.directory().scope.table, "other logs");
    assert_eq!(elsewhere.splits(), [id(5)]);
    assert_eq!(first.open().renamed("logs", vec![id(1), id(2)]).unwrap_err().kind(), ErrorKind::Invalid);
}

/// Tokens that are in one split each, in several pages.
fn unique(splits: usize, tokens: usize) -> Vec<Stored> {
    let mut numbers = Numbers(11);
    (0..splits)
        .map(|number| {
            let tokens = (0..tokens).map(|_| format!("{:016x}", numbers.next())).collect();
            run(number, &Fields::from([("trace".to_owned(), tokens)]))
        })
        .collect()
}

/// Splits of a thousandth of the size make no difference to the length of the merged keys.
#[test]
fn small_splits_do_not_shorten_the_keys_of_large_ones() {
    let mut runs = unique(6, 3_000);
    let small = (6..40).map(|number| run(number, &Fields::from([("f".to_owned(), ["a".to_owned()].into())])));
    runs.extend(small);
    let steps: Vec<Stored> = runs.chunks(10).rev().map(|runs| merged(runs, SPLITS_MAX)).collect();
    assert!(steps[0].open().pairs() < 11 && steps[3].open().pairs() > 18_000);
    let (segment, alone) = (merged(&steps, 40).open(), merged(&runs[..6], 6).open());
    assert_eq!(segment.directory().key_bits, alone.directory().key_bits);
}

/// With a fixed key the number is the same in every run.
#[test]
fn false_splits_keep_to_the_bound() {
    let segment = merged(&unique(40, 5_000), 40);
    let opened = segment.open();
    let directory = opened.directory();
    let range = directory.range(0..1).unwrap();
    let page =
        Page::open(&segment.read(&range), directory.frame(directory.seed(), 0, directory.starts[0])).unwrap();
    let (mut numbers, mut asked, mut wrong) = (Numbers(5), 0, 0);
    while asked < 400_000 {
        let hash = key().hash(Term::Token(&format!("absent {}", numbers.next())));
        if directory.page_of(hash) == Some(0) {
            asked += 1;
            page.find(directory.key(hash), |_| wrong += 1).unwrap();
        }
    }
    let expected = opened.false_splits() * f64::from(asked);
    assert!(opened.false_splits() <= 2f64.powi(-12), "{}", opened.false_splits());
    assert!((f64::from(wrong) - expected).abs() < 4.0 * expected.sqrt(), "{wrong} instead of {expected}");
}

#[test]
fn a_random_id_costs_at_most_26_bits() {
    let segment = merged(&unique(40, 500), 40);
    let bits = segment.0.len() as f64 * 8.0 / 20_000.0;
    assert!(bits < 26.0, "{bits}");
    assert!(segment.open().pages() <= 2);
}

#[test]
fn pages_stream_each_byte_once_and_little_at_a_time() {
    let segments = [merged(&unique(20, 4_000), SPLITS_MAX), merged(&unique(20, 4_000)[..3], SPLITS_MAX)];
    assert!(segments[0].open().pages() > 3);
    let reads = RefCell::new(vec![Vec::new(); 2]);
    for read_bytes in [0, 150_000] {
        reads.borrow_mut().iter_mut().for_each(Vec::clear);
        let input = |number: usize| {
            let (stored, reads) = (segments[number].clone(), &reads);
            let read = move |range: ByteRange| {
                reads.borrow_mut()[number].push(range.clone());
                Ok(stored.read(&range))
            };
            Input { segment: segments[number].open(), read }
        };
        let options = MergeOptions { read_bytes, ..MergeOptions::default() };
        merge(vec![input(0), input(1)], |_| true, options, std::io::sink()).unwrap();
        for (stored, ranges) in segments.iter().zip(reads.borrow().iter()) {
            assert!(
                ranges.iter().all(|range| range.end - range.start <= read_bytes.max(64 << 10)),
                "{ranges:?}"
            );
            assert!(ranges.windows(2).all(|two| two[0].end == two[1].start));
            let (first, last) = (ranges.first().unwrap(), ranges.last().unwrap());
            assert_eq!((first.start, last.end), (8, stored.directory_range().start));
        }
    }
}

fn three() -> Vec<Stored> {
    let tokens = |number: usize| [format!("own{number}"), "common".to_owned()].into();
    (0..3).map(|number| run(number, &Fields::from([("f".to_owned(), tokens(number))]))).collect()
}

#[test]
fn what_is_not_kept_leaves_no_entry() {
    let (runs, mut bytes) = (three(), Vec::new());
    let inputs = runs.iter().map(Stored::input).collect();
    let written = merge(inputs, |split| split != id(1), MergeOptions::default(), &mut bytes).unwrap();
    let stored = Stored::of(&written, bytes);
    assert_eq!(stored.open().splits(), [id(0), id(2)]);
    assert_eq!((written.entries, written.pairs), (3, 4));
    assert_eq!(stored.ask(Term::Token("own2"), None, Kinds::TEXT), SplitSet::from_iter([1]));
    assert!(stored.ask(Term::Token("own1"), None, Kinds::TEXT).is_empty());
}

#[test]
fn a_split_of_several_inputs_is_one_split() {
    let runs = three();
    let pair = merged(&runs[..2], SPLITS_MAX);
    let stored = merged(&[pair, runs[1].clone(), runs[2].clone()], 3);
    assert_eq!(stored.open().splits(), [id(0), id(1), id(2)]);
    assert_eq!(stored.ask(Term::Token("common"), Some("f"), Kinds::TEXT), SplitSet::first(3));
    assert_eq!(stored.ask(Term::Token("own1"), Some("f"), Kinds::TEXT), SplitSet::from_iter([1]));
}

#[test]
fn what_has_no_terms_in_an_input_has_none_in_the_result() {
    let run_of = |number: usize, kinds: Option<Kinds>| {
        let mut writer = RunWriter::new(scope(), key(), id(number));
        let field = writer.field("took");
        kinds.into_iter().for_each(|kinds| writer.leave_out(field, kinds));
        let mut bytes = Vec::new();
        Stored::of(&writer.seal(&mut bytes).unwrap(), bytes)
    };
    let runs =
        [run_of(0, None), run_of(1, Some(Kinds::FRACTION)), run_of(2, Some(Kinds::FRACTION | Kinds::DATE))];
    let stored = merged(&runs, 3);
    let open = |field, kinds| stored.ask(Term::Token("1.5"), field, kinds).iter().collect::<Vec<_>>();
    assert_eq!(open(Some("took"), Kinds::FRACTION), [1, 2]);
    assert_eq!(open(None, Kinds::DATE), [2]);
    assert_eq!(open(Some("took"), Kinds::TEXT | Kinds::WHOLE), [0; 0]);
    assert_eq!(open(Some("other"), Kinds::ALL), [0; 0]);
}

/// A term whose sets of fields differ from split to split.
#[test]
fn a_term_of_too_many_sets_of_fields_is_in_any_field() {
    let runs: Vec<Stored> = (0..300)
        .map(|number| {
            let tokens: BTreeSet<String> = ["everywhere".to_owned()].into();
            let names = [format!("a{}", number % 20), format!("b{}", number / 20)];
            run(number, &names.map(|name| (name, tokens.clone())).into())
        })
        .collect();
    let stored = merged(&runs, 300);
    assert_eq!(stored.ask(Term::Token("everywhere"), None, Kinds::TEXT), SplitSet::first(300));
    assert_eq!(stored.ask(Term::Token("everywhere"), Some("a7"), Kinds::TEXT), SplitSet::first(300));
    let few = merged(&runs[..40], 40);
    assert_eq!(few.ask(Term::Token("everywhere"), Some("a7"), Kinds::TEXT), SplitSet::from_iter([7, 27]));
}

fn failure(inputs: Vec<Input<impl FnMut(ByteRange) -> Result<Bytes>>>) -> ErrorKind {
    merge(inputs, |_| true, MergeOptions::default(), std::io::sink()).unwrap_err().kind()
}

#[test]
fn a_damaged_page_ends_the_merge() {
    let stored = merged(&three(), 3);
    for damage in
        [|bytes: Bytes| bytes.slice(1..), |bytes: Bytes| bytes.iter().map(|byte| byte ^ 8).collect()]
    {
        let (segment, stored) = (stored.open(), stored.clone());
        let read = move |range: ByteRange| Ok(damage(stored.read(&range)));
        assert_eq!(failure(vec![Input { segment, read }]), ErrorKind::Corrupt);
    }
    let unread = |_: ByteRange| Err::<Bytes, _>(Error::unavailable("no network"));
    assert_eq!(failure(vec![Input { segment: stored.open(), read: unread }]), ErrorKind::Unavailable);
}

#[test]
fn segments_of_different_scopes_are_not_merged() {
    let empty = |scope: Scope, key: TermKey| {
        let mut bytes = Vec::new();
        let written = RunWriter::new(scope.clone(), key, id(0)).seal(&mut bytes).unwrap();
        let directory = &bytes[written.directory.start as usize..written.directory.end as usize];
        let segment = Arc::new(Segment::open(directory, &scope, &key).unwrap());
        Input { segment, read: |_: ByteRange| Ok(Bytes::new()) }
    };
    let analyser = Scope { analyser: 4, ..scope() };
    let table = Scope { table: "other".to_owned(), ..scope() };
    assert_eq!(failure(vec![empty(scope(), key()), empty(analyser, key())]), ErrorKind::Invalid);
    assert_eq!(failure(vec![empty(scope(), key()), empty(table, key())]), ErrorKind::Invalid);
    assert_eq!(
        failure(vec![empty(scope(), key()), empty(scope(), TermKey::from_random([1; 16]))]),
        ErrorKind::Invalid
    );
    assert_eq!(failure(vec![empty(scope(), key())].split_off(1)), ErrorKind::Invalid);
}

#[test]
fn more_splits_than_a_segment_covers_are_refused() {
    let runs: Vec<Stored> = (0..SPLITS_MAX + 1).map(|number| run(number, &Fields::new())).collect();
    assert_eq!(failure(runs.iter().map(Stored::input).collect()), ErrorKind::Invalid);
    assert_eq!(merged(&runs[1..], SPLITS_MAX).open().splits().len(), SPLITS_MAX);
}
