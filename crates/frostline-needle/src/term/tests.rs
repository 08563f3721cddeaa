use super::*;

const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Stored in every segment, so never another one.
#[test]
fn the_hash_of_a_term_is_that_of_the_format() {
    let key = TermKey::from_random(KEY);
    assert_eq!(key.hash(Term::Token("powershell.exe")), TermHash(TOKEN_HASH));
    assert_eq!(key.hash(Term::Value(b"powershell.exe")), TermHash(VALUE_HASH));
    assert_ne!(key.check(), TermKey::from_random([0; 16]).check());
}

/// By another implementation of SipHash-1-3.
const TOKEN_HASH: u64 = 0x3655_961f_01b1_9873;
const VALUE_HASH: u64 = 0xe3a1_4d87_203a_a0b1;

#[test]
fn another_key_hashes_otherwise() {
    let (one, other) = (TermKey::from_random(KEY), TermKey::from_random([9; 16]));
    assert_ne!(one.hash(Term::Token("a")), other.hash(Term::Token("a")));
}

#[test]
fn a_term_of_a_megabyte_differs_by_its_last_byte() {
    let (key, mut term) = (TermKey::from_random(KEY), "x".repeat(1 << 20));
    let before = key.hash(Term::Token(&term));
    term.pop();
    term.push('y');
    assert_ne!(key.hash(Term::Token(&term)), before);
}

#[test]
fn the_key_is_not_printed() {
    assert_eq!(format!("{:?}", TermKey::from_random(KEY)), "TermKey(secret)");
}
