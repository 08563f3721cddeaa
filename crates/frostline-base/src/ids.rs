//! Identifiers, validated when they are created.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The name of an index: 1 to 200 of `a-z 0-9 . _ -`, starting with a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IndexName(String);

impl IndexName {
    /// The name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IndexName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
        let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if starts_well && name.len() <= 200 && name.chars().all(allowed) {
            return Ok(IndexName(name.to_owned()));
        }
        Err(Error::invalid(format!(
            "{name:?} is not an index name: use 1 to 200 of a-z, 0-9, '.', '_' and '-', starting with a letter or a digit"
        )))
    }
}

impl TryFrom<String> for IndexName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl From<IndexName> for String {
    fn from(name: IndexName) -> String {
        name.0
    }
}

impl fmt::Display for IndexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A split's identity: 128 random bits, written as 32 hexadecimal digits.
///
/// Random rather than sequential, so that object keys that start with it spread over a bucket's
/// partitions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SplitId(u128);

impl SplitId {
    /// The identity made of these random bits.
    pub const fn from_random(bits: u128) -> Self {
        SplitId(bits)
    }

    /// The bits.
    pub fn bits(self) -> u128 {
        self.0
    }
}

impl FromStr for SplitId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let bits = u128::from_str_radix(text, 16).ok().filter(|_| digits);
        bits.map(SplitId)
            .ok_or_else(|| Error::invalid(format!("{text:?} is not a split id of 32 hexadecimal digits")))
    }
}

impl TryFrom<String> for SplitId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<SplitId> for String {
    fn from(id: SplitId) -> String {
        id.to_string()
    }
}

impl fmt::Display for SplitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SplitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
