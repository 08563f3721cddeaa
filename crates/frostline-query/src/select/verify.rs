//! Verifies candidate rows on their values.

use frostline_split::{EXACT_PREFIX_BYTES, KeyRange, SplitField, exact_key};
use roaring::RoaringBitmap;

use crate::Result;
use crate::read::fields::{self, FieldValue};
use crate::read::view::View;
use crate::select::narrow;

impl View<'_> {
    /// Those of `candidates` that have a value in the text field for which `holds`.
    pub(super) async fn verify(
        self,
        field: &SplitField,
        candidates: &RoaringBitmap,
        mut holds: impl FnMut(&str) -> bool + Send,
    ) -> Result<RoaringBitmap> {
        self.keep(field, candidates, |value| matches!(value, FieldValue::Text(text) if holds(text))).await
    }

    /// Those of `rows` that have a value of this reading which `holds`.
    pub(super) async fn keep(
        self,
        field: &SplitField,
        rows: &RoaringBitmap,
        mut holds: impl FnMut(&FieldValue<'_>) -> bool + Send,
    ) -> Result<RoaringBitmap> {
        let mut found = RoaringBitmap::new();
        if rows.is_empty() {
            return Ok(found);
        }
        fields::for_each_value(self, field, rows, |row, value| {
            if !found.contains(row) && holds(&value) {
                found.insert(row);
            }
        })
        .await?;
        Ok(found)
    }

    /// Rows with a value as written that starts with `start` and `holds`: from the exact dictionary, which
    /// has long values cut, so those are verified.
    pub(super) async fn texts_where(
        self,
        field: &SplitField,
        start: &str,
        among: Option<&RoaringBitmap>,
        holds: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<RoaringBitmap> {
        let prefix = exact_prefix(field.number, start);
        let found = self.scan(self.split().exact(), &[KeyRange::prefix(prefix)], &|_| true).await?;
        let mut sure = Vec::new();
        let mut unsure = Vec::new();
        for (key, postings) in found {
            match exact_text(&key) {
                Some(text) if holds(text) => sure.push(postings),
                Some(_) => {}
                None => unsure.push(postings),
            }
        }
        let rows = self.union(sure).await?.bitmap(self.split().rows());
        let candidates = narrow(self.union(unsure).await?.bitmap(self.split().rows()), among) - &rows;
        Ok(rows | self.verify(field, &candidates, holds).await?)
    }
}

/// The start of the keys of exact values that start with `prefix`: no longer than what the key of a very
/// long value keeps of it.
pub(super) fn exact_prefix(field: u16, prefix: &str) -> Vec<u8> {
    let mut key = exact_key("", field);
    key.extend(prefix.bytes().take(EXACT_PREFIX_BYTES));
    key
}

/// The value of a key of the exact dictionary; none where the key holds a long value's start and hash.
pub(super) fn exact_text(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(2..)?).ok()
}
