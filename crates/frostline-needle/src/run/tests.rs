use super::*;
use crate::testing::{Stored, id, key, run, scope};

fn writer() -> RunWriter {
    RunWriter::new(scope(), key(), id(0))
}

fn sealed(writer: RunWriter) -> Stored {
    let mut bytes = Vec::new();
    Stored::of(&writer.seal(&mut bytes).unwrap(), bytes)
}

fn has(stored: &Stored, term: &str, field: Option<&str>) -> bool {
    stored.ask(Term::Token(term), field, Kinds::TEXT).contains(0)
}

#[test]
fn a_term_is_in_its_fields_alone() {
    let mut writer = writer();
    let (host, message) = (writer.field("host"), writer.field("message"));
    writer.add(host, Term::Token("web-1"));
    writer.add(message, Term::Token("web-1"));
    writer.add(message, Term::Token("error"));
    writer.add(message, Term::Token("error"));
    assert_eq!(writer.field("host"), host);
    let stored = sealed(writer);
    assert!(has(&stored, "web-1", Some("host")) && has(&stored, "web-1", Some("message")));
    assert!(has(&stored, "error", Some("message")) && has(&stored, "error", None));
    assert!(!has(&stored, "error", Some("host")) && !has(&stored, "error", Some("other")));
    assert!(!has(&stored, "absent", None));
    assert_eq!((stored.open().entries(), stored.open().pairs()), (2, 2));
}

#[test]
fn a_whole_value_is_not_a_token() {
    let mut writer = writer();
    let field = writer.field("path");
    writer.add(field, Term::Value(b"/a b"));
    let stored = sealed(writer);
    assert!(stored.ask(Term::Value(b"/a b"), Some("path"), Kinds::TEXT).contains(0));
    assert!(!has(&stored, "/a b", Some("path")));
}

#[test]
fn values_without_terms_may_be_anything() {
    let mut writer = writer();
    let (took, at) = (writer.field("took"), writer.field("at"));
    writer.add(took, Term::Token("17"));
    writer.leave_out(took, Kinds::FRACTION);
    writer.leave_out(at, Kinds::DATE);
    let stored = sealed(writer);
    let may = |field, kinds| stored.ask(Term::Token("1.5"), field, kinds).contains(0);
    assert!(may(Some("took"), Kinds::FRACTION) && !may(Some("took"), Kinds::WHOLE));
    assert!(!may(Some("at"), Kinds::FRACTION | Kinds::TEXT) && may(Some("at"), Kinds::ALL));
    assert!(may(None, Kinds::FRACTION) && may(None, Kinds::DATE) && !may(None, Kinds::TEXT));
}

#[test]
fn a_split_without_terms_has_none() {
    let stored = sealed(writer());
    assert_eq!(stored.open().pages(), 0);
    assert_eq!(stored.open().page(key().hash(Term::Token("a"))), None);
    assert!(!has(&stored, "a", None));
}

#[test]
fn terms_of_a_megabyte_are_terms() {
    let mut writer = writer();
    let field = writer.field("message");
    let (long, other) = ("a".repeat(1 << 20), "b".repeat(1 << 20));
    writer.add(field, Term::Token(&long));
    let stored = sealed(writer);
    assert!(has(&stored, &long, Some("message")) && !has(&stored, &other, Some("message")));
    assert!(stored.0.len() < 300);
}

/// Far more fields than are named: a term in one that is not named may be in every field.
#[test]
fn a_hundred_thousand_fields_are_bounded() {
    let mut writer = writer();
    for number in 0..100_000 {
        let field = writer.field(&format!("f{number:06}"));
        writer.add(field, Term::Token("common"));
        if number == 3 || number == 99_999 {
            writer.add(field, Term::Token(&format!("in-{number}")));
        }
    }
    let stored = sealed(writer);
    let segment = stored.open();
    assert!(segment.memory_bytes() < 8 << 20, "{}", segment.memory_bytes());
    assert!(has(&stored, "in-3", Some("f000003")) && !has(&stored, "in-3", Some("f000004")));
    assert!(has(&stored, "in-99999", Some("f099999")) && has(&stored, "in-99999", None));
    assert!(has(&stored, "common", Some("f000000")) && has(&stored, "common", Some("f099998")));
}

#[test]
fn equal_terms_give_equal_bytes() {
    let fields = [("a", "x"), ("b", "y"), ("c", "x")];
    let of = |order: &[usize]| {
        let mut writer = writer();
        for at in order {
            let field = writer.field(fields[*at].0);
            writer.add(field, Term::Token(fields[*at].1));
        }
        sealed(writer)
    };
    assert_eq!(of(&[0, 1, 2]), of(&[2, 2, 1, 0]));
    let model = fields.map(|(field, token)| (field.to_owned(), [token.to_owned()].into()));
    assert_eq!(of(&[0, 1, 2]), run(0, &model.into()));
}

/// Words that every line has, and more distinct ones than are remembered at once, again and again.
#[test]
fn repeated_terms_take_no_memory() {
    let mut repeated = writer();
    let mut once = writer();
    for round in 0..40 {
        for word in 0..30_000 {
            let word = format!("word-{word}");
            for name in ["a", "b"] {
                let field = repeated.field(name);
                repeated.add(field, Term::Token(&word));
                if round == 0 {
                    let field = once.field(name);
                    once.add(field, Term::Token(&word));
                }
            }
        }
    }
    assert!(repeated.memory_bytes() <= 60_000 * 32 + (RECENT + FULL_MIN) * 16, "{}", repeated.memory_bytes());
    assert_eq!(sealed(repeated), sealed(once));
}
