//! Terms, and the keyed hash that stands for them.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// What a document can be found by. Both are compared byte for byte: whoever writes and whoever asks has
/// normalised them in the same way, which the analyser's number in [`crate::Scope`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Term<'a> {
    /// A token of a value: of a text, or the one token of a number, a boolean or an address.
    Token(&'a str),
    /// A whole value.
    Value(&'a [u8]),
}

/// The secret key of a repository's term hashes.
///
/// Without it nobody can choose terms that fall on one key or into one page, however much log text they write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TermKey {
    first: u64,
    second: u64,
}

/// The hash of a term under a [`TermKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TermHash(pub(crate) u64);

const TOKEN: u8 = 0;
const VALUE: u8 = 1;
const CHECK: u8 = 2;

impl TermKey {
    /// The key made of these random bytes.
    pub fn from_random(bytes: [u8; 16]) -> TermKey {
        let bits = u128::from_le_bytes(bytes);
        TermKey { first: bits as u64, second: (bits >> 64) as u64 }
    }

    /// The hash of a term, of any length.
    pub fn hash(&self, term: Term<'_>) -> TermHash {
        match term {
            Term::Token(token) => TermHash(self.sip(TOKEN, token.as_bytes())),
            Term::Value(value) => TermHash(self.sip(VALUE, value)),
        }
    }

    /// A number by which segments of another key are told apart. It does not give the key away.
    pub(crate) fn check(&self) -> u64 {
        self.sip(CHECK, b"frostline needle")
    }

    /// SipHash-1-3 of the bytes and the kind behind them, so that no token hashes like a value.
    fn sip(&self, kind: u8, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.first, self.second);
        hasher.write(bytes);
        hasher.write(&[kind]);
        hasher.finish()
    }
}

impl fmt::Debug for TermKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TermKey(secret)")
    }
}

#[cfg(test)]
mod tests;
