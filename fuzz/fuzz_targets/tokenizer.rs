//! Text analysis: the guarantees at the head of the tokenizer's module, for a
//! phrase (the first line) and a text.
#![no_main]

use std::collections::HashSet;

use frostline_split::{TOKEN_BYTES_MAX, contains_phrase, phrase_tokens, query_tokens, tokenize};

libfuzzer_sys::fuzz_target!(|bytes: &str| {
    let (phrase, text) = bytes.split_once('\n').unwrap_or(("found", bytes));
    let mut tokens = HashSet::new();
    tokenize(text, |token| {
        assert!(!token.is_empty() && token.len() <= TOKEN_BYTES_MAX);
        tokens.insert(token.to_owned());
    });
    // A piece between white space, taken as a query, finds the text.
    for piece in text.split_whitespace() {
        for token in query_tokens(piece) {
            assert!(tokens.contains(&token), "{piece:?} is looked up as {token:?}");
        }
    }
    if contains_phrase(text, phrase) {
        for token in phrase_tokens(phrase) {
            assert!(tokens.contains(&token), "{phrase:?} needs {token:?}");
        }
    }
    assert_eq!(contains_phrase(text, text), !phrase_tokens(text).is_empty());
});
