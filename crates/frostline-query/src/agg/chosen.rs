//! Which keys an aggregation over terms shows: its `include` and `exclude`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::keys::{Key, Real};
use super::wire;

/// The keys that are shown.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Chosen {
    pub include: Option<Include>,
    pub exclude: Option<Include>,
}

/// Some keys, by their texts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Include {
    Values(BTreeSet<String>),
    Pattern(#[serde(with = "wire::pattern")] regex::Regex),
    Partition { number: u64, of: u64 },
}

impl Chosen {
    /// Whether a key is shown.
    pub(super) fn keeps(&self, key: &Key) -> bool {
        let Chosen { include, exclude } = self;
        if include.is_none() && exclude.is_none() {
            return true;
        }
        let text = key.text();
        include.as_ref().is_none_or(|include| include.holds(key, &text))
            && exclude.as_ref().is_none_or(|exclude| !exclude.holds(key, &text))
    }
}

impl Include {
    fn holds(&self, key: &Key, text: &str) -> bool {
        match self {
            Include::Values(values) => values.contains(text),
            Include::Pattern(pattern) => pattern.is_match(text),
            Include::Partition { number, of } => partition(key, (*of).max(1)) == *number,
        }
    }
}

/// Which partition a key is in: the one that Elasticsearch puts it in.
fn partition(key: &Key, of: u64) -> u64 {
    let hash = match key {
        Key::Boolean(value) => mixed(i64::from(*value)),
        Key::Long(value) => mixed(*value),
        Key::Big(value) => mixed(*value as i64),
        Key::Double(Real(value)) => mixed(sortable(*value)),
        Key::Time(us) => mixed(us.div_euclid(1_000)),
        Key::Null | Key::Text(_) | Key::Address(_) | Key::Tuple(_) => {
            i64::from(murmur(key.text().as_bytes()))
        }
    };
    // Of more partitions than 63 bits count, the last are empty.
    i64::try_from(of).map_or(hash.unsigned_abs(), |of| hash.rem_euclid(of).unsigned_abs())
}

/// The bits of a double in the order of the doubles.
fn sortable(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// Variant 9 of David Stafford's finalizers of 64 bits.
fn mixed(value: i64) -> i64 {
    let z = value as u64;
    let z = (z ^ (z >> 32)).wrapping_mul(0x4cd6_944c_5cc2_0b6d);
    let z = (z ^ (z >> 29)).wrapping_mul(0xfc12_c5b1_9d32_59e9);
    (z ^ (z >> 32)) as i64
}

/// MurmurHash3 of 32 bits, with the seed that Elasticsearch gives it for partitions.
fn murmur(bytes: &[u8]) -> i32 {
    const SEED: u32 = 31;
    let scrambled = |k: u32| k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (blocks, rest) = bytes.as_chunks::<4>();
    let mut hash = blocks.iter().fold(SEED, |hash, block| {
        let mixed = (hash ^ scrambled(u32::from_le_bytes(*block))).rotate_left(13);
        mixed.wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    let tail = rest.iter().rev().fold(0u32, |tail, byte| (tail << 8) | u32::from(*byte));
    if !rest.is_empty() {
        hash ^= scrambled(tail);
    }
    hash ^= bytes.len() as u32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    (hash ^ (hash >> 16)) as i32
}

#[cfg(test)]
mod tests;
