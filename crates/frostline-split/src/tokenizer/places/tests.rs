use proptest::prelude::*;

use super::*;
use crate::tokenizer::query_pieces;

/// What is found, as it is written, in the order of the text.
fn found(text: &str, fill: impl Fn(&mut Places)) -> Vec<String> {
    let mut places = Places::default();
    fill(&mut places);
    let (mut ranges, mut steps) = (Vec::new(), u64::MAX);
    assert!(places.find(text, &mut steps, |range| ranges.push(range)));
    ranges.sort_by_key(|range| (range.start, range.end));
    ranges.into_iter().map(|range| text[range].to_owned()).collect()
}

fn check_pieces(text: &str, query: &str, expected: &[&str]) {
    let add =
        |places: &mut Places| query_pieces(query).iter().for_each(|piece| places.add_piece(piece, false));
    assert_eq!(found(text, add), expected, "{query:?} in {text:?}");
}

fn check_start(text: &str, start: &str, expected: &[&str]) {
    let add = |places: &mut Places| places.add_piece(&Piece::start(start).unwrap(), true);
    assert_eq!(found(text, add), expected, "{start:?} in {text:?}");
}

fn check_phrase(text: &str, phrase: Phrase, expected: &[&str]) {
    let mut places = Places::default();
    places.add_phrase(phrase);
    let mut ranges = Vec::new();
    assert!(places.find(text, &mut u64::MAX.clone(), |range| ranges.push(text[range].to_owned())));
    assert_eq!(ranges, expected, "{text:?}");
}

#[test]
fn pieces_are_found_between_word_boundaries() {
    check_pieces("GET /a then get /b", "get", &["GET", "get"]);
    check_pieces("10.0.0.12 10.0.0.1:443 x10.0.0.1", "10.0.0.1", &["10.0.0.1"]);
    check_pieces(r"C:\Windows\System32\cmd.exe", r"system32\cmd.exe", &[r"System32\cmd.exe"]);
    check_pieces("a.b.c a.b", "a.b b", &["a.b", "b", "a.b", "b"]);
    check_pieces("中国人", "国", &["国"]);
    check_pieces("nothing", "thing", &[]);
}

#[test]
fn what_is_written_longer_than_in_lower_case_is_found_where_it_is_written() {
    // Three bytes of a capital sharp s are two in lower case; two of a dotted capital i are three.
    check_pieces("ẞẞ İx end", "end", &["end"]);
    check_pieces("ẞẞ İx end", "ßß", &["ẞẞ"]);
    check_start("ẞẞ İx end", "en", &["end"]);
    check_phrase("ẞẞ İx end", Phrase::new("ßß i\u{307}x"), &["ẞẞ İx"]);
}

#[test]
fn starts_reach_to_the_end_of_their_word() {
    check_start("powershell.exe v1.0#powershell", "powershell.e", &["powershell.exe"]);
    check_start("errors error terror", "err", &["errors", "error"]);
    check_start(r"a\system32\cmd.exe", r"system32\", &[r"system32\cmd"]);
}

#[test]
fn phrases_are_found_whatever_is_between_their_words() {
    check_phrase("web-1, web 1; web/12", Phrase::new("web 1"), &["web-1", "web 1"]);
    check_phrase("a a b a b", Phrase::new("a b"), &["a b", "a b"]);
    check_phrase("not found, not fountain", Phrase::with_prefix("not fou"), &["not found", "not fountain"]);
    check_phrase("a b", Phrase::with_prefix("b"), &["b"]);
}

#[test]
fn tokens_come_with_their_places() {
    let mut places = Vec::new();
    each_place("-A.b", |token, range| places.push((token.to_owned(), range)));
    let place = |token: &str, range| (token.to_owned(), range);
    assert_eq!(places, [place("a", 1..2), place("b", 3..4), place("a.b", 1..4), place("-a.b", 0..4)]);
}

#[test]
fn the_search_ends_where_it_takes_too_long() {
    let mut places = Places::default();
    places.add_piece(&query_pieces("b")[0], false);
    let mut steps = 2;
    assert!(!places.find("a a a b", &mut steps, |_| panic!("found")));
    assert_eq!(steps, 0);
    assert!(Places::default().is_empty() && !places.is_empty());
}

proptest! {
    #[test]
    fn what_is_found_is_what_matches(text in "[aAbB. /\\-ẞ中]{0,24}", query in "[ab. /中]{1,6}", open_ended: bool) {
        for piece in query_pieces(&query) {
            let mut places = Places::default();
            places.add_piece(&piece, open_ended);
            let mut found = 0;
            let is_complete = places.find(&text, &mut u64::MAX.clone(), |range| {
                found += 1;
                assert!(text.get(range).is_some());
            });
            prop_assert!(is_complete);
            let mut tokenizer = Tokenizer::new();
            let matches = if open_ended {
                piece.starts_in(&text, &mut tokenizer)
            } else {
                piece.is_in(&text, &mut tokenizer)
            };
            prop_assert_eq!(found > 0, matches);
        }
        let mut places = Places::default();
        places.add_phrase(Phrase::new(&query));
        let mut found = 0;
        let is_complete = places.find(&text, &mut u64::MAX.clone(), |_| found += 1);
        prop_assert!(is_complete);
        prop_assert_eq!(found > 0, Phrase::new(&query).is_in(&text));
    }
}
