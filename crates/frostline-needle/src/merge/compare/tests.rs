use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::testing::{Fields, Stored, id, key, merged, run, scope};
use crate::{RunWriter, Term};

fn fields() -> impl Strategy<Value = Fields> {
    btree_map("[a-d]", btree_set("t[0-9]{1,2}", 0..30), 0..5)
}

fn compared(segment: &Stored, others: &[Stored]) -> BTreeMap<SplitId, Lost> {
    compare(segment.input(), others.iter().map(Stored::input).collect(), 100_000).unwrap()
}

proptest! {
    /// A segment says all of its runs, some of them, and itself. What one of them has more is lost.
    #[test]
    fn what_was_merged_is_said(model in vec(fields(), 1..9), at in 0usize..9, field in "[a-e]") {
        let mut runs: Vec<Stored> =
            model.iter().enumerate().map(|(number, fields)| run(number, fields)).collect();
        let segment = merged(&runs, runs.len());
        prop_assert_eq!(compared(&segment, &runs), BTreeMap::new());
        prop_assert_eq!(compared(&segment, &runs[..1]), BTreeMap::new());
        prop_assert_eq!(compared(&segment, &[merged(&runs, 1_024)]), BTreeMap::new());
        let at = at % runs.len();
        let mut more = model[at].clone();
        let is_new = more.entry(field).or_default().insert("t7".to_owned());
        runs[at] = run(at, &more);
        let lost = BTreeMap::from([(id(at), Lost { terms: 1, fields: 0 })]);
        prop_assert_eq!(compared(&segment, &runs), if is_new { lost } else { BTreeMap::new() });
    }
}

#[test]
fn values_without_terms_that_a_segment_does_not_know_are_lost() {
    let split = |kinds: Kinds| {
        let mut writer = RunWriter::new(scope(), key(), id(0));
        let took = writer.field("took");
        writer.add(took, Term::Token("1"));
        writer.leave_out(took, kinds);
        let mut bytes = Vec::new();
        Stored::of(&writer.seal(&mut bytes).unwrap(), bytes)
    };
    let other = run(1, &Fields::default());
    let segment = merged(&[other, split(Kinds::FRACTION)], 2);
    assert_eq!(compared(&segment, &[split(Kinds::FRACTION)]), BTreeMap::new());
    let lost = compared(&segment, &[split(Kinds::FRACTION | Kinds::DATE)]);
    assert_eq!(lost, BTreeMap::from([(id(0), Lost { terms: 0, fields: 1 })]));
}

#[test]
fn all_of_a_split_that_is_not_covered_is_lost() {
    let fields = Fields::from([("a".to_owned(), ["x".to_owned(), "y".to_owned()].into())]);
    let lost = compared(&run(0, &fields), &[run(1, &fields)]);
    assert_eq!(lost, BTreeMap::from([(id(1), Lost { terms: 2, fields: 0 })]));
}
