//! Lengths and characters of texts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What an entry of the characters takes.
const ENTRY: usize = 24;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Texts {
    count: u64,
    /// Lengths in characters; the shortest means nothing while the count is 0.
    shortest: u64,
    longest: u64,
    total: u64,
    characters: BTreeMap<char, u64>,
}

impl Texts {
    pub(super) fn add(&mut self, text: &str) {
        let mut length = 0;
        for character in text.chars() {
            length += 1;
            *self.characters.entry(character).or_default() += 1;
        }
        let one = Texts { count: 1, shortest: length, longest: length, total: length, ..Texts::default() };
        self.merge(one);
    }

    pub(super) fn merge(&mut self, other: Texts) {
        if other.count == 0 {
            return;
        }
        self.shortest = if self.count == 0 { other.shortest } else { self.shortest.min(other.shortest) };
        self.longest = self.longest.max(other.longest);
        self.count = self.count.saturating_add(other.count);
        self.total = self.total.saturating_add(other.total);
        for (character, count) in other.characters {
            let known = self.characters.entry(character).or_default();
            *known = known.saturating_add(count);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.characters.len() * ENTRY
    }

    /// Each character with its share of all, the most frequent first.
    fn shares(&self) -> Vec<(char, f64)> {
        let mut all: Vec<(char, u64)> = self.characters.iter().map(|(c, n)| (*c, *n)).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        all.into_iter().map(|(character, count)| (character, count as f64 / self.total as f64)).collect()
    }

    fn entropy(&self) -> f64 {
        // No negative zero where there is one character.
        0.0 - self.shares().iter().map(|(_, share)| share * share.log2()).sum::<f64>()
    }

    pub(super) fn value(&self, name: &str) -> Option<f64> {
        let some = self.count > 0;
        match name {
            "count" => Some(self.count as f64),
            "min_length" => some.then_some(self.shortest as f64),
            "max_length" => some.then_some(self.longest as f64),
            "avg_length" => some.then(|| self.total as f64 / self.count as f64),
            "entropy" => Some(self.entropy()),
            _ => None,
        }
    }

    pub(super) fn json(&self, show_distribution: bool) -> Map<String, Value> {
        let some = self.count > 0;
        let mut out = Map::new();
        out.insert("count".to_owned(), json!(self.count));
        out.insert("min_length".to_owned(), json!(some.then_some(self.shortest)));
        out.insert("max_length".to_owned(), json!(some.then_some(self.longest)));
        out.insert("avg_length".to_owned(), json!(self.value("avg_length")));
        out.insert("entropy".to_owned(), json!(self.entropy()));
        if show_distribution {
            let shares = self.shares().into_iter().map(|(c, share)| (c.to_string(), json!(share)));
            out.insert("distribution".to_owned(), Value::Object(shares.collect()));
        }
        out
    }
}

/// The names of its values.
pub(super) const VALUES: &[&str] = &["count", "min_length", "max_length", "avg_length", "entropy"];
