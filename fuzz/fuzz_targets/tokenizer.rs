//! Text analysis: the guarantees at the head of the tokenizer's module, for a
//! phrase (the first line) and a text.
#![no_main]

use std::collections::HashSet;

use frostline_split::{Tokenizer, contains_phrase, phrase_words, query_pieces, tokenize};

libfuzzer_sys::fuzz_target!(|bytes: &str| {
    let (phrase, text) = bytes.split_once('\n').unwrap_or(("found", bytes));
    let mut tokens = HashSet::new();
    tokenize(text, |token| {
        assert!(!token.is_empty());
        tokens.insert(token.to_owned());
    });
    let mut tokenizer = Tokenizer::new();
    for piece in query_pieces(text) {
        assert!(piece.is_in(text, &mut tokenizer), "{piece:?} is not in its text");
    }
    if contains_phrase(text, phrase) {
        for word in phrase_words(phrase) {
            assert!(tokens.contains(word.text()), "{phrase:?} needs {word:?}");
        }
    }
    assert_eq!(contains_phrase(text, text), !phrase_words(text).is_empty());
});
