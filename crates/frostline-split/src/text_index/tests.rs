use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::footer::{FORMAT_VERSION, FORMAT_VERSION_OLDEST};
use crate::tokenizer::{query_pieces, tests::texts};

/// The keys of a text in a split of that version, in field 7.
fn keys_of(text: &str, version: u32) -> BTreeSet<Vec<u8>> {
    let mut keys = BTreeSet::new();
    let emit = |token: &str, form: Form, _| {
        let held = match form {
            _ if version >= VERSION_OF_FORMS => Some(form),
            Form::Inner => None,
            Form::Whole | Form::Cut => Some(Form::Whole),
        };
        if let Some(form) = held {
            let mut key = Vec::new();
            put_text_key(&mut key, token.as_bytes(), form, 7);
            keys.insert(key);
        }
        true
    };
    each_key(&mut Tokenizer::new(), text, emit, |_| {});
    keys
}

fn any_of(keys: &Keys, dictionary: &BTreeSet<Vec<u8>>) -> bool {
    let named = |key: &&Vec<u8>| TextKey::split(key).is_some_and(|key| keys.says(&key) == Says::Yes);
    let found = dictionary.iter().filter(named).any(|key| {
        // What the test names must be in the ranges, or it would not be read.
        keys.ranges().iter().any(|range| range.contains(key))
    });
    assert_eq!(found, dictionary.iter().any(|key| named(&key)), "{keys:?} is not in its ranges");
    found
}

/// What the keys say of a text: that it has the piece, that it does not, or nothing.
fn decide(keys: &PieceKeys, dictionary: &BTreeSet<Vec<u8>>) -> Option<bool> {
    if keys.sure.as_ref().is_some_and(|keys| any_of(keys, dictionary)) {
        return Some(true);
    }
    let excluded = keys.needed.iter().any(|keys| !any_of(keys, dictionary));
    if excluded || keys.needed.is_empty() { Some(false) } else { None }
}

#[track_caller]
fn check(text: &str, piece: &str, version: u32, expected: Option<bool>) {
    let dictionary = keys_of(text, version);
    let [piece] = query_pieces(piece).try_into().unwrap();
    assert_eq!(
        decide(&PieceKeys::of(&piece, version, false), &dictionary),
        expected,
        "{piece:?} in {text:?}"
    );
}

#[test]
fn compounds_inside_compounds_are_decided_by_keys() {
    for (text, piece, expected) in [
        ("v1.0#powershell.exe", "powershell.exe", true),
        ("a-powershell.exe.bak", "powershell.exe", true),
        ("a-powershell.exes", "powershell.exe", false),
        ("10.0.0.12", "10.0.0.1", false),
        ("10.0.0.1", "0.0.1", true),
        ("x 10.0.0.1:443 y", "10.0.0.1", true),
        ("a:b@c:d", "b@c", true),
        ("b:a.c@d", "a.c@d", true),
        ("東京powershell.exe東京", "powershell.exe", true),
    ] {
        check(text, piece, FORMAT_VERSION, Some(expected));
    }
    // Version 1 has no keys inside compounds, but it has the words.
    check("v1.0-powershell.exe", "powershell.exe", 1, None);
    check("v1.0-powershell.exe", "powershell.dll", 1, Some(false));
}

#[test]
fn words_are_one_key_in_every_version() {
    for version in FORMAT_VERSION_OLDEST..=FORMAT_VERSION {
        check("powershell.exe", "powershell", version, Some(true));
        check("powershell.exe", "power", version, Some(false));
    }
    // 64 digits are a token like others in version 2, and may be the start and hash of another in version 1.
    let digits = "0123456789abcdef".repeat(4);
    check(&digits, &digits, 2, Some(true));
    check(&digits, &digits, 1, None);
}

#[test]
fn long_words_are_left_to_the_values() {
    let (one, other) = ("a".repeat(100), "a".repeat(101));
    check(&one, &one, FORMAT_VERSION, None);
    check(&one, &other, FORMAT_VERSION, Some(false));
    check(&one, &"a".repeat(64), FORMAT_VERSION, Some(false));
}

#[test]
fn a_key_says_what_it_may_be_cut_from() {
    let long = "q".repeat(100);
    for version in FORMAT_VERSION_OLDEST..=FORMAT_VERSION {
        let keys = keys_of(&long, version);
        let cut = |key: &Vec<u8>| TextKey::split(key).unwrap().cut(version).map(str::to_owned);
        assert_eq!(keys.iter().filter_map(cut).collect::<Vec<_>>(), ["q".repeat(CUT_START_BYTES)]);
    }
}

proptest! {
    #[test]
    fn keys_never_contradict_the_text(text in texts(), other in texts(), at in 0usize..40, length in 1usize..30) {
        let part: String = text.chars().skip(at).take(length).collect();
        for version in FORMAT_VERSION_OLDEST..=FORMAT_VERSION {
            let dictionary = keys_of(&text, version);
            for piece in query_pieces(&part).into_iter().chain(query_pieces(&other)) {
                let expected = piece.is_in(&text, &mut Tokenizer::new());
                let said = decide(&PieceKeys::of(&piece, version, false), &dictionary);
                prop_assert!(said.is_none_or(|said| said == expected), "{:?} {said:?} in version {version}", piece);
            }
            for piece in [Piece::start(&part), Piece::start(&other)].into_iter().flatten() {
                let expected = piece.starts_in(&text, &mut Tokenizer::new());
                let said = decide(&PieceKeys::of(&piece, version, true), &dictionary);
                prop_assert!(said.is_none_or(|said| said == expected), "{:?}… {said:?} in version {version}", piece);
            }
        }
    }

    #[test]
    fn what_a_text_is_held_with_is_one_of_its_tokens(text in texts(), start in 0usize..40) {
        let mut tokenizer = Tokenizer::new();
        let mut keys = BTreeSet::new();
        each_key(&mut tokenizer, &text, |token, form, _| keys.insert((token.to_owned(), form)), |_| {});
        let token = token_of_text(&mut tokenizer, &text).map(str::to_owned);
        let start: String = text.chars().take(start).collect();
        let range = tokens_of_texts(&start);
        if let Some(token) = token {
            let key = text_key(&token, 3);
            prop_assert!(range.is_some_and(|range| range.contains(&key)), "{:?} starts {:?}", start, text);
            prop_assert!(keys.contains(&(token, Form::Whole)));
        }
    }

    #[test]
    fn short_compounds_are_always_decided(text in texts(), other in texts()) {
        let dictionary = keys_of(&text, FORMAT_VERSION);
        let of = |piece: &Piece| piece.loosest() <= COMPOUND && piece.text().len() <= INNER_BYTES_MAX;
        for piece in query_pieces(&text).into_iter().chain(query_pieces(&other)).filter(of) {
            let said = decide(&PieceKeys::of(&piece, FORMAT_VERSION, false), &dictionary);
            prop_assert_eq!(said, Some(piece.is_in(&text, &mut Tokenizer::new())));
        }
    }
}
