//! Verifies candidate rows on their values.

use std::collections::{BTreeMap, BTreeSet};

use frostline_split::{
    EXACT_PREFIX_BYTES, Entry, Form, HeldText, KeyRange, KnownTexts, Postings, RowBits, Says, SplitField,
    TextAs, Tokenizer, ValueType, exact_key, ip_text, parse_ip, row_parts, text_key, token_of_text,
    tokens_of_texts,
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
        if candidates.is_empty() {
            return Ok(RoaringBitmap::new());
        }
        if let Some(found) = self.verify_on_documents(field, candidates, &mut holds).await? {
            return Ok(found);
        }
        let has_dictionary = fields::columns_of(field).iter().any(|name| self.split().has_dictionary(name));
        let text_as = if has_dictionary { TextAs::Dictionary } else { TextAs::Plain };
        let (mut numbers, mut known) = (row_parts(candidates), KnownTexts::default());
        let mut found = RowBits::new(self.split().rows());
        for (batch_rows, arrays) in fields::read_reading(self, field, candidates, text_as).await? {
            let numbers = numbers.next(batch_rows);
            for array in &arrays {
                if let Some(known) = known.of(array, &mut holds) {
                    let held = numbers.iter().zip(known).filter(|(_, holds)| *holds == Some(true));
                    held.for_each(|(row, _)| found.insert(*row));
                    continue;
                }
                fields::each_value(array, &numbers, &mut |row, value| {
                    if matches!(value, FieldValue::Text(text) if !found.contains(row) && holds(text)) {
                        found.insert(row);
                    }
                });
            }
        }
        Ok(found.rows())
    }

    /// Those of `rows` that have a value of this reading which `holds`.
    pub(super) async fn keep(
        self,
        field: &SplitField,
        rows: &RoaringBitmap,
        mut holds: impl FnMut(&FieldValue<'_>) -> bool + Send,
    ) -> Result<RoaringBitmap> {
        if rows.is_empty() {
            return Ok(RoaringBitmap::new());
        }
        let mut found = RowBits::new(self.split().rows());
        fields::for_each_value(self, field, rows, |row, value| {
            if !found.contains(row) && holds(&value) {
                found.insert(row);
            }
        })
        .await?;
        Ok(found.rows())
    }

    /// The rows (of `among`, or of all) that have a value of this reading.
    pub(super) async fn rows_with_value(
        self,
        field: &SplitField,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        let rows = self.union(vec![self.split().exists(field.number)?]).await?;
        Ok(narrow(rows.bitmap(self.split().rows()), among))
    }

    /// Rows with an address that `holds`, by the values.
    pub(super) async fn addresses_where(
        self,
        field: &SplitField,
        among: Option<&RoaringBitmap>,
        holds: impl Fn(&[u8; 16]) -> bool + Send + Sync,
    ) -> Result<RoaringBitmap> {
        let rows = self.rows_with_value(field, among).await?;
        let has_address = |text: &str| parse_ip(text).is_some_and(|address| holds(&address));
        self.keep(field, &rows, |value| matches!(value, FieldValue::Text(text) if has_address(text))).await
    }

    /// Rows with a value that is no text and whose one token `holds`, by the values.
    pub(super) async fn tokens_where(
        self,
        field: &SplitField,
        among: Option<&RoaringBitmap>,
        holds: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<RoaringBitmap> {
        if !matches!(field.ty, ValueType::Long | ValueType::Big | ValueType::Ip) {
            return Ok(RoaringBitmap::new());
        }
        let rows = self.rows_with_value(field, among).await?;
        let token = |value: &FieldValue<'_>| match value {
            FieldValue::Long(n) => Some(n.to_string()),
            FieldValue::Big(n) => Some(n.to_string()),
            FieldValue::Text(text) => parse_ip(text).map(|address| ip_text(&address)),
            FieldValue::Double(_) => None,
        };
        self.keep(field, &rows, |value| token(value).is_some_and(|token| holds(&token))).await
    }

    /// Rows with one of these values as written. A value is only in rows that have its token, so where the token's entry
    /// has the value, or few rows, which are candidates then, the exact dictionary is not asked.
    pub(super) async fn texts_equal(
        self,
        field: &SplitField,
        texts: &BTreeSet<String>,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        if !field.is_indexed {
            let rows = self.rows_with_value(field, among).await?;
            return self.verify(field, &rows, |text| texts.contains(text)).await;
        }
        let mut tokenizer = Tokenizer::new();
        let (mut tokens, mut exact) = (Vec::new(), KeysOfTexts::new());
        let key = |text: &str| exact_key(text, field.number);
        for text in texts {
            match token_of_text(&mut tokenizer, text) {
                Some(token) if self.split().text().holds_values_with_tokens() => {
                    tokens.push((token.to_owned(), text.as_str()));
                }
                _ => drop(exact.insert((key(text), text))),
            }
        }
        let of_tokens = tokens.iter().map(|(token, _)| KeyRange::exact(text_key(token, field.number)));
        let keys = TextKeys { exact: ranges(&exact), tokens: of_tokens.collect() };
        let (of_tokens, mut entries): (Vec<TextEntry>, Vec<TextEntry>) =
            self.entries_of(field, &keys, true).await?.into_iter().partition(|entry| entry.is_token);
        let of_tokens: BTreeMap<&[u8], &TextEntry> =
            of_tokens.iter().map(|entry| (entry.start.as_slice(), entry)).collect();

        let (mut found, mut unsettled) = (Vec::new(), KeysOfTexts::new());
        for (token, text) in tokens {
            // The entry of the token, or short ones that may be.
            let starts = (1..=token.len()).filter_map(|end| of_tokens.get(&token.as_bytes()[..end]));
            let entries = starts.filter(|entry| entry.is_short == (entry.start.len() < token.len()));
            let entries: Vec<&TextEntry> = entries.copied().collect();
            let rows: u64 = entries.iter().map(|entry| entry.postings.count(self.split().rows())).sum();
            match entries.iter().find(|entry| entry.text.as_deref() == Some(text)) {
                Some(entry) => found.push((Says::Yes, entry.postings.clone())),
                None if rows <= FEW_ROWS => {
                    found.extend(entries.iter().map(|entry| (Says::Maybe, entry.postings.clone())));
                }
                None => drop(unsettled.insert((key(text), text))),
            }
        }
        if !unsettled.is_empty() {
            let keys = TextKeys { exact: ranges(&unsettled), tokens: Vec::new() };
            entries.extend(self.entries_of(field, &keys, true).await?);
            exact.append(&mut unsettled);
        }
        let known: BTreeSet<&str> = entries.iter().filter_map(|entry| entry.text.as_deref()).collect();
        exact.retain(|(_, text)| !known.contains(text));
        let may_be_left = |entry: &TextEntry| {
            let mut of_start = exact.range((entry.start.clone(), "")..);
            of_start.next().is_some_and(|(key, _)| key.starts_with(&entry.start))
        };
        found.extend(entries.iter().filter_map(|entry| match &entry.text {
            Some(text) => texts.contains(text).then(|| (Says::Yes, entry.postings.clone())),
            None => may_be_left(entry).then(|| (Says::Maybe, entry.postings.clone())),
        }));
        self.texts_of(field, found, among, |text| texts.contains(text)).await
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
        if !field.is_indexed {
            let rows = self.rows_with_value(field, among).await?;
            return self.verify(field, &rows, holds).await;
        }
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
        let by_column: u64 = columns.iter().map(|name| self.split().column_bytes(name)).sum();
        // Among all values are those whose lists are left to the column.
        let reads_column = start.is_empty()
            && self.split().leaves_lists()
            && columns.iter().all(|name| self.split().has_dictionary(name));
        if by_keys <= by_column && !reads_column {
            let entries = self.entries_of(field, &keys, false).await?.into_iter();
            let found = entries.filter_map(|entry| match entry.text {
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

    /// The entries of whole values that these keys name, and the short ones that may stand for one; also of tokens
    /// without a value if these are wanted.
    async fn entries_of(
        self,
        field: &SplitField,
        keys: &TextKeys,
        with_tokens: bool,
    ) -> Result<Vec<TextEntry>> {
        let of_key = |entry: Entry<'_>| {
            let (start, is_short) = (entry.key.to_vec(), entry.is_short);
            let text = exact_text(entry.key).filter(|_| !is_short).map(str::to_owned);
            Some(TextEntry { is_token: false, start, is_short, text, postings: entry.postings })
        };
        let of_token = |entry: Entry<'_>| {
            let key = entry.text_key().filter(|key| key.field == field.number && key.form == Form::Whole)?;
            let (start, is_short) = (key.token.as_bytes().to_vec(), key.is_short);
            let text = match entry.value {
                Some(HeldText::Written(text)) => Some(text.to_owned()),
                Some(HeldText::InColumn) => None,
                None if with_tokens => None,
                None => return None,
            };
            Some(TextEntry { is_token: true, start, is_short, text, postings: entry.postings })
        };
        let (mut text, exact) = try_join(
            self.scan(self.split().text(), self.token_keys(keys), &of_token),
            self.scan(self.split().exact(), &keys.exact, &of_key),
        )
        .await?;
        text.extend(exact);
        Ok(text)
    }

    /// The rows of these lists: those whose keys say yes, and of the others those with a value for which `holds`. Where a
    /// list is left to the column, that tells all of it.
    async fn texts_of(
        self,
        field: &SplitField,
        found: Vec<(Says, Postings)>,
        among: Option<&RoaringBitmap>,
        holds: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<RoaringBitmap> {
        if found.iter().any(|(_, postings)| matches!(postings, Postings::Column(_))) {
            let rows = among.cloned().unwrap_or_else(|| all(self.split().rows()));
            return self.verify(field, &rows, holds).await;
        }
        let (sure, unsure): (Vec<_>, Vec<_>) = found.into_iter().partition(|(says, _)| *says == Says::Yes);
        let [sure, unsure] = [sure, unsure].map(|found| found.into_iter().map(|(_, rows)| rows).collect());
        let (sure, unsure) = try_join(self.union(sure), self.union(unsure)).await?;
        let [sure, unsure] = [sure, unsure].map(|rows| rows.bitmap(self.split().rows()));
        let candidates = narrow(unsure, among) - &sure;
        Ok(sure | self.verify(field, &candidates, holds).await?)
    }
}

/// Where the keys of some texts are.
#[derive(Default)]
struct TextKeys {
    exact: Vec<KeyRange>,
    /// The tokens with which they can be held.
    tokens: Vec<KeyRange>,
}

/// An entry of whole values, or of tokens with which they can be held.
struct TextEntry {
    /// Whether it is in the text dictionary.
    is_token: bool,
    /// Its key, without form and field in the text dictionary.
    start: Vec<u8>,
    is_short: bool,
    /// The value; none where only the column has it, if at all.
    text: Option<String>,
    postings: Postings,
}

/// Texts by their keys.
type KeysOfTexts<'t> = BTreeSet<(Vec<u8>, &'t str)>;

fn ranges(keys: &KeysOfTexts<'_>) -> Vec<KeyRange> {
    keys.iter().map(|(key, _)| KeyRange::exact(key.clone())).collect()
}

/// So many rows of a token are candidates for a value that is not held with it: a page of their column takes no more
/// than a block of the exact dictionary.
const FEW_ROWS: u64 = 16;

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
