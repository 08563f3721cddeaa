//! Verifies candidate rows on their values.

use std::collections::BTreeSet;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::Int32Type;
use frostline_split::{
    EXACT_PREFIX_BYTES, Entry, KeyRange, SplitField, TextAs, TextKey, Tokenizer, exact_key, text_key,
    token_of_text, tokens_of_texts,
};
use futures::future::try_join;
use roaring::RoaringBitmap;

use crate::Result;
use crate::read::fields::{self, FieldValue};
use crate::read::view::View;
use crate::select::{all, narrow};

impl View<'_> {
    /// Those of `candidates` that have a value in the text field for which `holds`. Of a column with a dictionary each
    /// text is tested once for many rows.
    pub(super) async fn verify(
        self,
        field: &SplitField,
        candidates: &RoaringBitmap,
        mut holds: impl FnMut(&str) -> bool + Send,
    ) -> Result<RoaringBitmap> {
        let mut found = RoaringBitmap::new();
        if candidates.is_empty() {
            return Ok(found);
        }
        let has_dictionary = fields::columns_of(field).iter().any(|name| self.split().has_dictionary(name));
        let text_as = if has_dictionary { TextAs::Dictionary } else { TextAs::Plain };
        let mut numbers = candidates.iter();
        for (batch_rows, arrays) in fields::read_reading(self, field, candidates, text_as).await? {
            let numbers: Vec<u32> = numbers.by_ref().take(batch_rows).collect();
            for array in &arrays {
                if !keep_keys(array, &numbers, &mut found, &mut holds) {
                    fields::each_value(array, &numbers, &mut |row, value| {
                        if matches!(value, FieldValue::Text(text) if !found.contains(row) && holds(text)) {
                            found.insert(row);
                        }
                    });
                }
            }
        }
        Ok(found)
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

    /// Rows with one of these values as written.
    pub(super) async fn texts_equal(
        self,
        field: &SplitField,
        texts: &BTreeSet<String>,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        let mut tokenizer = Tokenizer::new();
        let mut keys = TextKeys::default();
        for text in texts {
            keys.exact.push(KeyRange::exact(exact_key(text, field.number)));
            if let Some(token) = token_of_text(&mut tokenizer, text) {
                keys.tokens.push(KeyRange::exact(text_key(token, field.number)));
            }
        }
        self.texts_with(field, &keys, among, |text| texts.contains(text)).await
    }

    /// Rows with a value as written that starts with `start` and `holds`: from dictionaries or from the column,
    /// whichever is smaller.
    pub(super) async fn texts_where(
        self,
        field: &SplitField,
        start: &str,
        among: Option<&RoaringBitmap>,
        holds: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<RoaringBitmap> {
        let exact = KeyRange::prefix(exact_prefix(field.number, start));
        let keys = TextKeys { exact: vec![exact], tokens: tokens_of_texts(start).into_iter().collect() };
        let (text, exact) = try_join(
            self.blocks_of(self.split().text().table(), self.token_keys(&keys)),
            self.blocks_of(self.split().exact().table(), &keys.exact),
        )
        .await?;
        let blocks = text.iter().chain(&exact).flatten();
        let by_keys: u64 = blocks.map(|block| block.range.end - block.range.start).sum();
        let columns = fields::columns_of(field);
        let column = columns.iter().filter_map(|name| self.split().column_range(name));
        let by_column: u64 = column.map(|range| range.end - range.start).sum();
        if by_keys <= by_column {
            return self.texts_with(field, &keys, among, holds).await;
        }
        let rows = among.cloned().unwrap_or_else(|| all(self.split().rows()));
        self.verify(field, &rows, holds).await
    }

    /// The keys of tokens with which texts can be held in this split.
    fn token_keys(self, keys: &TextKeys) -> &[KeyRange] {
        if self.split().text().holds_values_with_tokens() { &keys.tokens } else { &[] }
    }

    /// Rows with a value as written that `holds`, whose keys are among these. The exact dictionary has long values cut,
    /// so those are verified.
    async fn texts_with(
        self,
        field: &SplitField,
        keys: &TextKeys,
        among: Option<&RoaringBitmap>,
        holds: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<RoaringBitmap> {
        // Whether it holds, none where only the column can say.
        let of_key = |entry: Entry<'_>| match exact_text(entry.key) {
            Some(text) if !holds(text) => None,
            text => Some((text.is_some(), entry.postings)),
        };
        let of_token = |entry: Entry<'_>| {
            let is_own = TextKey::split(entry.key).is_some_and(|key| key.field == field.number);
            let has_value = is_own && entry.value.is_some_and(&holds);
            has_value.then_some((true, entry.postings))
        };
        let (text, exact) = try_join(
            self.scan(self.split().text(), self.token_keys(keys), &of_token),
            self.scan(self.split().exact(), &keys.exact, &of_key),
        )
        .await?;
        let (sure, unsure): (Vec<_>, Vec<_>) = text.into_iter().chain(exact).partition(|(holds, _)| *holds);
        let [sure, unsure] = [sure, unsure].map(|found| found.into_iter().map(|(_, rows)| rows).collect());
        let (sure, unsure) = try_join(self.union(sure), self.union(unsure)).await?;
        let [sure, unsure] = [sure, unsure].map(|rows| rows.bitmap(self.split().rows()));
        let candidates = narrow(unsure, among) - &sure;
        Ok(sure | self.verify(field, &candidates, holds).await?)
    }
}

/// Adds the rows whose text `holds`. False where the array is none of keys of a dictionary.
fn keep_keys(
    array: &ArrayRef,
    rows: &[u32],
    found: &mut RoaringBitmap,
    holds: &mut impl FnMut(&str) -> bool,
) -> bool {
    let Some(keys) = array.as_dictionary_opt::<Int32Type>() else { return false };
    let Some(texts) = keys.values().as_string_opt::<i32>() else { return false };
    let mut known: Vec<Option<bool>> = vec![None; texts.len()];
    for (row, key) in rows.iter().zip(keys.keys().iter()) {
        let Some(key) = key.and_then(|key| usize::try_from(key).ok()) else { continue };
        let Some(known) = known.get_mut(key) else { continue };
        if *known.get_or_insert_with(|| texts.is_valid(key) && holds(texts.value(key))) {
            found.insert(*row);
        }
    }
    true
}

/// Where the keys of some texts are.
#[derive(Default)]
struct TextKeys {
    exact: Vec<KeyRange>,
    /// The tokens with which they can be held.
    tokens: Vec<KeyRange>,
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
