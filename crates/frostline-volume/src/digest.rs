//! What names chunks, blocks and pages.

use std::fmt;

use frostline_base::bytes_codec::Cursor;
use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// The BLAKE3 hash of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// The start of a page's digest, which tells whether the page changed.
pub(crate) type PageSum = [u8; 16];

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Digest> {
        let bytes = cursor.take(32)?;
        <[u8; 32]>::try_from(bytes).map(Digest).map_err(|_| Error::internal("32 bytes are not 32 bytes"))
    }

    /// `Corrupt` unless this is the digest of `bytes`.
    pub(crate) fn check(&self, bytes: &[u8], what: &str) -> Result<()> {
        match Digest::of(bytes) == *self {
            true => Ok(()),
            false => Err(Error::corrupt(format!("{what} does not have its digest")).with("digest", self)),
        }
    }
}

/// The sum of one page.
pub(crate) fn page_sum(page: &[u8]) -> PageSum {
    let mut sum = PageSum::default();
    sum.copy_from_slice(&blake3::hash(page).as_bytes()[..16]);
    sum
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = Error;

    fn try_from(text: String) -> Result<Digest> {
        let digest = blake3::Hash::from_hex(text.as_bytes());
        digest
            .map(|hash| Digest(*hash.as_bytes()))
            .map_err(|_| Error::invalid(format!("{text:?} is not a digest")))
    }
}
