//! Verifies candidate rows on their values.

use std::collections::BTreeSet;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::Int32Type;
use frostline_split::{
    EXACT_PREFIX_BYTES, Entry, HeldText, KeyRange, Postings, Says, SplitField, TextAs, Tokenizer, exact_key,
    text_key, token_of_text, tokens_of_texts,
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

    /// Rows with one of these values as written. A value is in one entry: those that are found need no candidates.
    pub(super) async fn texts_equal(
        self,
        field: &SplitField,
        texts: &BTreeSet<String>,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        let mut tokenizer = Tokenizer::new();
        let (mut exact, mut tokens) = (KeysOfTexts::new(), KeysOfTexts::new());
        let mut keys = TextKeys::default();
        for text in texts {
            let key = exact_key(text, field.number);
            keys.exact.push(KeyRange::exact(key.clone()));
            exact.insert((key, text));
            if let Some(token) = token_of_text(&mut tokenizer, text) {
                keys.tokens.push(KeyRange::exact(text_key(token, field.number)));
                tokens.insert((token.as_bytes().to_vec(), text));
            }
        }
        let found = self.entries_of(field, &keys).await?;
        let known: BTreeSet<&str> = found.iter().filter_map(|entry| entry.text.as_deref()).collect();
        let left: BTreeSet<&str> =
            texts.iter().map(String::as_str).filter(|text| !known.contains(text)).collect();
        let may_be_left = |entry: &TextEntry| {
            let of_entry = if entry.is_token { &tokens } else { &exact };
            let mut of_start = of_entry
                .range((entry.start.clone(), "")..)
                .map_while(|(key, text)| key.starts_with(&entry.start).then_some(*text));
            of_start.any(|text| left.contains(text))
        };
        let found = found.iter().filter_map(|entry| match &entry.text {
            Some(text) => texts.contains(text).then(|| (Says::Yes, entry.postings.clone())),
            None => may_be_left(entry).then(|| (Says::Maybe, entry.postings.clone())),
        });
        self.texts_of(field, found.collect(), among, |text| left.contains(text)).await
    }

    /// Rows with a value as written that starts with `start` and `holds`: from dictionaries or from the column,
    /// whichever is smaller. Values that their keys have not whole are verified.
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
            let found =
                self.entries_of(field, &keys).await?.into_iter().filter_map(|entry| match entry.text {
                    Some(text) => holds(&text).then_some((Says::Yes, entry.postings)),
                    None => Some((Says::Maybe, entry.postings)),
                });
            return self.texts_of(field, found.collect(), among, holds).await;
        }
        let rows = among.cloned().unwrap_or_else(|| all(self.split().rows()));
        self.verify(field, &rows, holds).await
    }

    /// The keys of tokens with which texts can be held in this split.
    fn token_keys(self, keys: &TextKeys) -> &[KeyRange] {
        if self.split().text().holds_values_with_tokens() { &keys.tokens } else { &[] }
    }

    /// The entries of whole values that these keys name, and the short ones that may stand for one.
    async fn entries_of(self, field: &SplitField, keys: &TextKeys) -> Result<Vec<TextEntry>> {
        let of_key = |entry: Entry<'_>| {
            let text = exact_text(entry.key).filter(|_| !entry.is_short).map(str::to_owned);
            Some(TextEntry { is_token: false, start: entry.key.to_vec(), text, postings: entry.postings })
        };
        let of_token = |entry: Entry<'_>| {
            let key = entry.text_key().filter(|key| key.field == field.number)?;
            let text = match entry.value? {
                HeldText::Written(text) => Some(text.to_owned()),
                HeldText::InColumn => None,
            };
            let start = key.token.as_bytes().to_vec();
            Some(TextEntry { is_token: true, start, text, postings: entry.postings })
        };
        let (mut text, exact) = try_join(
            self.scan(self.split().text(), self.token_keys(keys), &of_token),
            self.scan(self.split().exact(), &keys.exact, &of_key),
        )
        .await?;
        text.extend(exact);
        Ok(text)
    }

    /// The rows of these lists: those whose keys say yes, and of the others those with a value for which `holds`.
    async fn texts_of(
        self,
        field: &SplitField,
        found: Vec<(Says, Postings)>,
        among: Option<&RoaringBitmap>,
        holds: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<RoaringBitmap> {
        let (sure, unsure): (Vec<_>, Vec<_>) = found.into_iter().partition(|(says, _)| *says == Says::Yes);
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

/// An entry of whole values.
struct TextEntry {
    /// Whether it is in the text dictionary.
    is_token: bool,
    /// Its key, without form and field in the text dictionary.
    start: Vec<u8>,
    /// The value; none where only the column has it.
    text: Option<String>,
    postings: Postings,
}

/// Texts by their keys.
type KeysOfTexts<'t> = BTreeSet<(Vec<u8>, &'t str)>;

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
