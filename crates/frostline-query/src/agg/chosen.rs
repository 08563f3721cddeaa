//! Which keys an aggregation over terms shows: its `include` and `exclude`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::column::Scalar;
use super::distinct::value_hash;
use super::keys::{Key, mix};
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
        include.as_ref().is_none_or(|include| include.holds(&text))
            && exclude.as_ref().is_none_or(|exclude| !exclude.holds(&text))
    }
}

impl Include {
    fn holds(&self, text: &str) -> bool {
        match self {
            Include::Values(values) => values.contains(text),
            Include::Pattern(pattern) => pattern.is_match(text),
            Include::Partition { number, of } => {
                mix(value_hash(Scalar::Text(text))) % (*of).max(1) == *number
            }
        }
    }
}
