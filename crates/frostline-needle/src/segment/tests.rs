use std::path::PathBuf;

use frostline_base::ErrorKind;

use super::*;
use crate::testing::{Fields, Stored, id, key, merged, run, scope};
use crate::{Scope, Term};

/// Three splits, with terms in one, two and all of them.
fn runs() -> Vec<Stored> {
    (0..3)
        .map(|number| {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let own = format!("id-{number}");
            let mut fields = Fields::from([
                ("host".to_owned(), words(&["web", &own])),
                (
                    "message".to_owned(),
                    words(&["started", "web", if number < 2 { "failed" } else { "done" }]),
                ),
            ]);
            if number == 1 {
                fields.insert("user".to_owned(), words(&["alice"]));
            }
            run(number, &fields)
        })
        .collect()
}

const ANSWERS: [(&str, Option<&str>, &[u16]); 8] = [
    ("web", None, &[0, 1, 2]),
    ("web", Some("message"), &[0, 1, 2]),
    ("failed", Some("message"), &[0, 1]),
    ("failed", Some("host"), &[]),
    ("id-2", Some("host"), &[2]),
    ("id-2", None, &[2]),
    ("alice", Some("user"), &[1]),
    ("bob", None, &[]),
];

fn check(stored: &Stored) {
    for (term, field, expected) in ANSWERS {
        let splits = stored.ask(Term::Token(term), field, Kinds::TEXT);
        assert_eq!(splits.iter().collect::<Vec<_>>(), expected, "{term} in {field:?}");
    }
}

/// A segment of this version, which every later version has to read. `FROSTLINE_BLESS=1` writes it.
#[test]
fn a_segment_of_version_1_is_read() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/version-1.segment");
    let stored = merged(&runs(), 3);
    if std::env::var_os("FROSTLINE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &stored.0).unwrap();
    }
    let kept = Stored(std::fs::read(&path).unwrap().into());
    check(&kept);
    // As long as this version is written, so are these bytes.
    assert_eq!(stored, kept);
}

/// Every changed bit of the file is an error or changes no answer.
#[test]
fn a_changed_bit_never_hides_a_split() {
    let stored = merged(&runs(), 3);
    for bit in 0..stored.0.len() * 8 {
        let mut bytes = stored.0.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let changed = Stored(bytes.into());
        let Ok(range) = directory_range(&changed.0, changed.0.len() as u64) else { continue };
        let Ok(segment) = Segment::open(&changed.read(&range), &scope(), &key()) else { continue };
        for (term, field, expected) in ANSWERS {
            let lookup = Lookup { term: key().hash(Term::Token(term)), field, kinds: Kinds::TEXT };
            let page = segment.page(lookup.term).map_or(Bytes::new(), |range| changed.read(&range));
            match segment.answer(&lookup, &page) {
                Ok(splits) => assert_eq!(splits.iter().collect::<Vec<_>>(), expected, "bit {bit}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "bit {bit}"),
            }
        }
    }
}

#[test]
fn the_end_of_a_file_says_where_its_directory_is() {
    let stored = merged(&runs(), 3);
    let bytes = stored.0.len() as u64;
    let tail = stored.0.slice(stored.0.len() - 16..);
    assert_eq!(directory_range(&tail, bytes).unwrap(), stored.directory_range());
    for (tail, bytes) in [(tail.slice(1..), bytes), (tail.slice(..15), bytes), (tail.clone(), 40), (tail, 0)]
    {
        assert_eq!(directory_range(&tail, bytes).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn a_segment_of_another_table_analyser_or_key_is_refused() {
    let stored = merged(&runs(), 3);
    let directory = stored.read(&stored.directory_range());
    let refused = |scope: &Scope, key: &TermKey| Segment::open(&directory, scope, key).unwrap_err().kind();
    assert_eq!(refused(&Scope { table: "other".to_owned(), ..scope() }, &key()), ErrorKind::Invalid);
    assert_eq!(refused(&Scope { analyser: 4, ..scope() }, &key()), ErrorKind::Invalid);
    assert_eq!(refused(&scope(), &TermKey::from_random([8; 16])), ErrorKind::Invalid);
}

#[test]
fn a_page_of_another_segment_is_noticed() {
    let (one, other) = (merged(&runs(), 3), merged(&runs()[..2], 3));
    let lookup = Lookup { term: key().hash(Term::Token("web")), field: None, kinds: Kinds::TEXT };
    let page = other.read(&other.open().page(lookup.term).unwrap());
    assert_eq!(one.open().answer(&lookup, &page).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_segment_tells_what_it_is() {
    let segment = merged(&runs(), 3).open();
    assert_eq!(segment.fields().collect::<Vec<_>>(), ["host", "message", "user"]);
    assert_eq!((segment.entries(), segment.pairs(), segment.pages()), (8, 13, 1));
    assert_eq!(segment.splits(), [id(0), id(1), id(2)]);
    assert_eq!(segment.all(), SplitSet::first(3));
}

#[test]
fn every_page_is_checked() {
    let stored = merged(&runs(), 3);
    let segment = stored.open();
    let pages: Vec<_> = segment.page_ranges().collect();
    assert_eq!((pages.len(), pages[0].start), (segment.pages(), 8));
    assert_eq!(pages.last().unwrap().end, stored.directory_range().start);
    for (number, range) in pages.iter().enumerate() {
        let page = stored.read(range);
        segment.check_page(number, &page).unwrap();
        for at in 0..page.len() {
            let mut damaged = page.to_vec();
            damaged[at] ^= 4;
            assert_eq!(segment.check_page(number, &damaged.into()).unwrap_err().kind(), ErrorKind::Corrupt);
        }
        assert_eq!(segment.check_page(number + 1, &page).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
