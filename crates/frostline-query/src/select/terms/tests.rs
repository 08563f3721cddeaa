use frostline_split::Mapping;

use super::*;
use crate::filter::{Bound, Pattern};

/// A mapping in which the fields are texts, with their whole values in `.keyword`.
fn field(name: &str) -> FieldRef {
    let mut mapping = Mapping::dynamic();
    mapping.place("a", ValueType::Text, false);
    mapping.place("b", ValueType::Text, false);
    FieldRef::resolve(&mapping, name)
}

fn value(text: &str, path: Option<&str>) -> Terms {
    let (term, path) = (Term::Value(text.to_owned().into()), path.map(str::to_owned));
    Terms::One(Ask { term, without_terms: Vec::new(), path })
}

fn equals(name: &str, value: Scalar) -> Filter {
    Filter::Equals { field: field(name), values: vec![value] }
}

fn match_all(field: Option<FieldRef>, text: &str, prefix_last: bool) -> Filter {
    Filter::Match { field, text: text.to_owned(), minimum: Minimum::All, prefix_last }
}

/// What holds where `words` are the only tokens.
fn holds(terms: &Terms, words: &[&str]) -> bool {
    terms.holds(&|ask| matches!(&ask.term, Term::Token(token) if words.contains(&token.as_ref())))
}

#[test]
fn a_value_is_asked_by_the_terms_of_its_types() {
    let text = |text: &str| Scalar::Text(text.to_owned());
    assert_eq!(Terms::of(&equals("a", text("x y"))), value("x y", Some("a")));
    let truth = Terms::of(&equals("a", Scalar::Boolean(true)));
    assert!(holds(&truth, &["true"]) && !holds(&truth, &["false"]));
    let terms = Terms::of(&equals("a", Scalar::Double(1.0)));
    assert!(holds(&terms, &["1"]) && holds(&terms, &["1.0"]) && !holds(&terms, &["2"]));
    assert_eq!(
        Terms::of(&equals("a", Scalar::Double(0.25))),
        Terms::One(Ask {
            term: Term::of_value(&Value::Text("0.25")).unwrap().into_owned(),
            without_terms: vec![ValueType::Double],
            path: Some("a".to_owned())
        })
    );
    let Terms::One(date) = Terms::of(&equals("a", text("2024-05-30"))) else { panic!("one term") };
    assert_eq!(date.without_terms, [ValueType::Date]);
    assert!(holds(&Terms::of(&equals("a", text("::ffff:10.0.0.1"))), &["10.0.0.1"]));
}

#[test]
fn a_match_is_asked_by_its_pieces() {
    let both = match_all(None, "Foo 10.0.0.1", false);
    assert!(holds(&Terms::of(&both), &["foo", "10.0.0.1"]));
    assert!(!holds(&Terms::of(&both), &["foo"]));
    assert!(holds(&Terms::of(&match_all(None, "foo ba", true)), &["foo"]));
    assert!(!holds(&Terms::of(&match_all(None, "foo ba", true)), &["ba"]));
    let one = |count| Filter::Match {
        field: Some(field("a")),
        text: "x y".to_owned(),
        minimum: Minimum::Count(count),
        prefix_last: false,
    };
    assert!(holds(&Terms::of(&one(1)), &["y"]) && !holds(&Terms::of(&one(2)), &["y"]));
    assert_eq!(Terms::of(&match_all(None, "--", false)), Terms::NONE);
    assert_eq!(Terms::of(&match_all(Some(field("unknown")), "x", false)), Terms::NONE);
}

#[test]
fn what_cannot_be_asked_keeps_every_split() {
    let open = || Filter::Range { field: field("a"), lower: Bound::Open, upper: Bound::Open };
    let pattern = Filter::Pattern {
        field: Some(field("a")),
        pattern: Pattern::Wildcard("*x*".to_owned()),
        case_insensitive: false,
    };
    let x = || equals("a", Scalar::Text("x y".to_owned()));
    for filter in [
        Filter::All,
        open(),
        pattern,
        Filter::Exists { field: field("a") },
        Filter::Not(Box::new(x())),
        Filter::And(Vec::new()),
        equals("@timestamp", Scalar::Text("x y".to_owned())),
        equals("a", Scalar::Text("10.0.0.0/8".to_owned())),
        match_all(Some(field("@timestamp")), "x", false),
        Filter::AtLeast { minimum: 1, parts: vec![x(), open()] },
        Filter::Phrase { field: Some(field("a.keyword")), text: "x y".to_owned(), prefix_last: true },
    ] {
        assert_eq!(Terms::of(&filter), Terms::ALL, "{filter:?}");
    }
    assert_eq!(Terms::of(&Filter::And(vec![x(), open()])), value("x y", Some("a")));
    assert_eq!(Terms::of(&Filter::AtLeast { minimum: 2, parts: vec![x(), Filter::None] }), Terms::NONE);
    assert_eq!(Terms::of(&Filter::None), Terms::NONE);
}

#[test]
fn an_id_is_asked_by_its_split_and_as_what_a_client_gave() {
    let ids = |ids: &[&str]| Terms::of(&Filter::Ids(ids.iter().map(|id| (*id).to_owned()).collect()));
    let split = "0123456789abcdef0123456789abcdef";
    let (one, other) = (format!("{split}-7"), format!("{split}-8"));
    let asked = [split, &one, &other, "x"].map(|id| value(id, Some("_id")));
    assert_eq!(ids(&[&one, &other, "x"]), Terms::AtLeast(1, asked.to_vec()));
    assert_eq!(ids(&[&one]).asks()[0].own_split(), split.parse().ok());
    assert_eq!(ids(&["x"]), value("x", Some("_id")));
    // A document's own field of that name is no identity.
    let field = equals("a", Scalar::Text(split.to_owned()));
    assert_eq!(Terms::of(&field).asks()[0].own_split(), None);
}

#[test]
fn a_match_is_asked_as_a_whole_only_where_another_value_may_equal_it() {
    let asks = |text: &str| Terms::of(&match_all(Some(field("a")), text, false)).asks().len();
    assert_eq!(asks("not found"), 2);
    let negative = Terms::of(&match_all(Some(field("a")), "-5", false));
    assert!(holds(&negative, &["5"]) && holds(&negative, &["-5"]));
}

#[test]
fn no_more_is_asked_than_pays() {
    let values = |count: usize| {
        let values = (0..count).map(|n| Scalar::Text(format!("x {n}"))).collect();
        Filter::Equals { field: field("a"), values }
    };
    let asks = |filter: &Filter| Terms::of(filter).asks().len();
    assert_eq!(asks(&values(ASKS_MAX)), ASKS_MAX);
    assert_eq!(Terms::of(&values(ASKS_MAX + 1)), Terms::ALL);
    let few = || equals("b", Scalar::Text("x y".to_owned()));
    // Of what must all be the parts that ask least; of alternatives all or nothing.
    let both = Filter::And(vec![values(ASKS_MAX), few(), Filter::And(vec![values(3), values(4)])]);
    assert_eq!(asks(&both), 1 + 3 + 4);
    let either = Filter::AtLeast { minimum: 1, parts: vec![values(ASKS_MAX), few()] };
    assert_eq!(Terms::of(&either), Terms::ALL);
}

#[test]
fn splits_are_those_for_which_enough_parts_hold() {
    let ask = |name: &str| value(name, Some("a"));
    let terms = |minimum| {
        Terms::AtLeast(minimum, vec![ask("x"), Terms::AtLeast(1, vec![ask("y"), ask("z")]), ask("w")])
    };
    let set = |splits: &[u16]| splits.iter().copied().collect::<SplitSet>();
    let answers = [set(&[0, 1, 2]), set(&[1, 3]), set(&[2]), set(&[2, 3, 4])];
    let splits = |minimum| terms(minimum).splits(SplitSet::first(6), &mut answers.into_iter());
    assert_eq!(splits(1), set(&[0, 1, 2, 3, 4]));
    assert_eq!(splits(2), set(&[1, 2, 3]));
    assert_eq!(splits(3), set(&[2]));
    assert_eq!(Terms::ALL.splits(SplitSet::first(6), &mut answers.into_iter()), SplitSet::first(6));
    assert_eq!(Terms::NONE.splits(SplitSet::first(6), &mut answers.into_iter()), SplitSet::EMPTY);
}
