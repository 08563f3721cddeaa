//! Builds the indexes: postings of tokens and of whole values, and the rows that have a value.
//!
//! It handles one reading of one field at a time: its rows are grouped by value, its values by token, and the
//! postings of a token are the union of those of its values. Entries of the exact dictionary are produced
//! in order and compressed at once, but for values that are held with their token. Tokens are collected and sorted at
//! the end, because the text dictionary is ordered by token before field, and short keys are cut by their neighbours.

use std::io::Write;

use frostline_base::Result;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::dictionary::{
    PostingsSink, Stored, ip_key, put_entry, put_exact_key, put_short_entry, rows_inside,
};
use crate::mapping::ValueType;
use crate::postings::INLINE_BYTES_MAX;
use crate::streams::EntryLayout;
use crate::table::{TableWriter, shared_prefix};
use crate::term::{TakeTerms, Term, each_term};
use crate::text_index::{Form, each_key, token_of_text};
use crate::tokenizer::Tokenizer;
use crate::values::{parse_ip, value_token};
use crate::writer::pairs::{PairsWriter, Words};
use crate::writer::values::Values;

/// The hot footer holds a list for each reading, so only short ones are in it.
const EXISTS_INLINE_BYTES_MAX: usize = 16;
/// Keys of more rows are not short, because the values of all of them would be read.
const SHORT_ROWS_MAX: u64 = 16;
/// How much of a key is kept behind what it shares with another: the byte that differs, and two by which most
/// keys that are not there differ.
const SHORT_BEYOND_SHARED: usize = 3;
/// A text of more entries is not cut, because the entries of a short text are in one block.
const SHORT_ENTRIES_MAX: usize = 1_024;

/// The rows of one reading of one field: value `numbers[i]` of `distinct` in row `rows[i]`.
pub(crate) struct ReadingRows<'a> {
    pub(crate) field: u16,
    pub(crate) ty: ValueType,
    pub(crate) rows: &'a [u32],
    pub(crate) numbers: &'a [u32],
    /// The values, ascending.
    pub(crate) distinct: &'a [u32],
    pub(crate) values: &'a Values,
    /// Whether reading the value of a row costs little, so that keys can be short.
    pub(crate) can_be_verified: bool,
    /// Whether the dictionaries have its tokens and values.
    pub(crate) is_indexed: bool,
    /// Whether pairs of its frequent words are collected.
    pub(crate) has_pairs: bool,
    /// What its columns take, where lists can be left to them.
    pub(crate) column_bytes: Option<u64>,
}

/// Groups of numbers: group `g` is `members[starts[g]..starts[g + 1]]`.
#[derive(Default)]
pub(crate) struct Groups {
    starts: Vec<u32>,
    members: Vec<u32>,
}

impl Groups {
    /// Groups `members` by `keys`, which are below `groups`; members of a group keep their order, and
    /// one that repeats is kept once.
    pub(crate) fn fill(&mut self, groups: usize, keys: &[u32], members: impl Iterator<Item = u32>) {
        self.starts.clear();
        self.starts.resize(groups + 1, 0);
        for key in keys {
            self.starts[*key as usize + 1] += 1;
        }
        for group in 0..groups {
            self.starts[group + 1] += self.starts[group];
        }
        self.members.clear();
        self.members.resize(keys.len(), 0);
        let mut ends: Vec<u32> = self.starts[..groups].to_vec();
        for (key, member) in keys.iter().zip(members) {
            let end = &mut ends[*key as usize];
            let is_first = *end == self.starts[*key as usize];
            if is_first || self.members[*end as usize - 1] != member {
                self.members[*end as usize] = member;
                *end += 1;
            }
        }
        self.close_gaps(&ends);
    }

    /// Members that repeated left room at the ends of their groups.
    fn close_gaps(&mut self, ends: &[u32]) {
        let mut at = 0usize;
        for (group, end) in ends.iter().enumerate() {
            let (start, end) = (self.starts[group] as usize, *end as usize);
            self.starts[group] = at as u32;
            if start != at {
                self.members.copy_within(start..end, at);
            }
            at += end - start;
        }
        if let Some(last) = self.starts.last_mut() {
            *last = at as u32;
        }
        self.members.truncate(at);
    }

    pub(crate) fn get(&self, group: usize) -> &[u32] {
        &self.members[self.starts[group] as usize..self.starts[group + 1] as usize]
    }
}

/// Unites lists of rows, reusing its buffers.
struct Union {
    bits: Vec<u64>,
    rows: Vec<u32>,
}

impl Union {
    fn new(split_rows: u32) -> Self {
        Union { bits: vec![0; split_rows.div_ceil(64) as usize], rows: Vec::new() }
    }

    /// The rows that are in any of the groups of `rows` that `members` names.
    fn of<'a>(&'a mut self, members: &[u32], rows: &'a Groups) -> &'a [u32] {
        if let [only] = members {
            return rows.get(*only as usize);
        }
        let total: usize = members.iter().map(|member| rows.get(*member as usize).len()).sum();
        self.rows.clear();
        // Reading back the bitmap costs a step for each of its words, sorting some for each row.
        if total >= self.bits.len() / 4 {
            self.unite_bits(members, rows);
        } else {
            members.iter().for_each(|member| self.rows.extend_from_slice(rows.get(*member as usize)));
            self.rows.sort_unstable();
            self.rows.dedup();
        }
        &self.rows
    }

    fn unite_bits(&mut self, members: &[u32], rows: &Groups) {
        for member in members {
            for row in rows.get(*member as usize) {
                self.bits[*row as usize / 64] |= 1 << (row % 64);
            }
        }
        for (word, bits) in self.bits.iter_mut().enumerate() {
            let mut left = std::mem::take(bits);
            while left != 0 {
                self.rows.push(word as u32 * 64 + left.trailing_zeros());
                left &= left - 1;
            }
        }
    }
}

const NO_NUMBER: u32 = u32::MAX;

/// A token of a field and where its encoded postings are.
struct TokenEntry {
    /// The token's first bytes, its form behind them, as a number that sorts like them.
    head: u64,
    key: u32,
    /// The value that is held with it, or [`NO_NUMBER`].
    value: u32,
    postings: u64,
    field: u16,
    can_be_short: bool,
    key_bytes: u16,
    postings_bytes: u16,
}

/// The tokens of one reading while they are being counted.
#[derive(Default)]
struct Tokens {
    /// Each with its form behind it.
    text: Vec<u8>,
    /// Where each ends, its hash, and the last value that had it.
    entries: Vec<(u32, u32, u32)>,
    table: HashTable<u32>,
}

impl Tokens {
    fn clear(&mut self) {
        self.text.clear();
        self.entries.clear();
        self.table.clear();
    }

    fn get(&self, token: u32) -> &[u8] {
        token_at(&self.text, &self.entries, token)
    }

    /// The number of a whole token, [`NO_NUMBER`] where no value had it.
    fn number(&self, token: &str) -> u32 {
        let (token, form) = (token.as_bytes(), Form::Whole as u8);
        let hash = hash(token, form);
        self.table.find(hash, |n| self.is(*n, token, form, hash)).copied().unwrap_or(NO_NUMBER)
    }

    fn is(&self, number: u32, token: &[u8], form: u8, hash: u64) -> bool {
        self.entries[number as usize].1 == hash as u32
            && self.get(number).split_last() == Some((&form, token))
    }

    /// The number of `token`, and whether `value` has it for the first time.
    fn intern(&mut self, token: &str, form: Form, value: u32) -> (u32, bool) {
        let (token, form) = (token.as_bytes(), form as u8);
        let hash = hash(token, form);
        if let Some(known) = self.table.find(hash, |n| self.is(*n, token, form, hash)) {
            let last = &mut self.entries[*known as usize].2;
            let is_new = std::mem::replace(last, value) != value;
            return (*known, is_new);
        }
        let number = self.entries.len() as u32;
        self.text.extend_from_slice(token);
        self.text.push(form);
        self.entries.push((self.text.len() as u32, hash as u32, value));
        let (text, entries) = (&self.text, &self.entries);
        self.table.insert_unique(hash, number, |n| {
            token_at(text, entries, *n).split_last().map_or(0, |(form, token)| self::hash(token, *form))
        });
        (number, true)
    }
}

fn hash(token: &[u8], form: u8) -> u64 {
    // Forms differ in all bits of their hashes.
    xxh3_64(token) ^ u64::from(form).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn token_at<'a>(text: &'a [u8], entries: &[(u32, u32, u32)], token: u32) -> &'a [u8] {
    let start = token.checked_sub(1).map_or(0, |before| entries[before as usize].0);
    &text[start as usize..entries[token as usize].0 as usize]
}

/// The tables of an index, in order but without their places, and the lists that were stored before them.
pub(crate) struct IndexParts {
    pub(crate) text: TableWriter,
    pub(crate) exact: TableWriter,
    pub(crate) pairs: TableWriter,
    pub(crate) stored: Stored,
}

/// Collects the index of a split.
pub(crate) struct IndexWriter<'a, W> {
    sink: PostingsSink<'a, W>,
    exact: ExactWriter,
    has_heads: bool,
    entries: Vec<TokenEntry>,
    keys: Vec<u8>,
    postings: Vec<u8>,
    rows_of_value: Groups,
    values_of_token: Groups,
    tokens: Tokens,
    tokenizer: Tokenizer,
    token_stream: Vec<u32>,
    value_ends: Vec<u32>,
    words: Words,
    /// How many rows have each token.
    rows_of_token: Vec<u32>,
    pairs: PairsWriter,
    /// Of each value the token with which it could be held.
    token_of_value: Vec<u32>,
    /// Whether it is.
    is_held: Vec<bool>,
    union: Union,
    exists: Vec<u32>,
}

impl<'a, W: Write> IndexWriter<'a, W> {
    /// Of a split whose entries have heads, so that values can be held with their tokens, or of an older one.
    pub(crate) fn new(
        sink: PostingsSink<'a, W>,
        split_rows: u32,
        zstd_level: i32,
        has_heads: bool,
    ) -> Result<Self> {
        Ok(IndexWriter {
            sink,
            exact: ExactWriter { table: table(EntryLayout::EXACT, has_heads, zstd_level)?, held: None },
            has_heads,
            entries: Vec::new(),
            keys: Vec::new(),
            postings: Vec::new(),
            rows_of_value: Groups::default(),
            values_of_token: Groups::default(),
            tokens: Tokens::default(),
            tokenizer: Tokenizer::new(),
            token_stream: Vec::new(),
            value_ends: Vec::new(),
            words: Words::default(),
            rows_of_token: Vec::new(),
            pairs: PairsWriter::default(),
            token_of_value: Vec::new(),
            is_held: Vec::new(),
            union: Union::new(split_rows),
            exists: Vec::new(),
        })
    }

    /// Adds a reading; readings come in the order of their field numbers. Returns the encoded postings
    /// of the rows that have a value, and how many they are. Hands its terms to `terms`.
    pub(crate) fn add(
        &mut self,
        reading: &ReadingRows<'_>,
        mut terms: Option<&mut dyn TakeTerms>,
    ) -> Result<(Vec<u8>, u32)> {
        self.rows_of_value.fill(reading.distinct.len(), reading.numbers, reading.rows.iter().copied());
        match reading.ty {
            _ if !reading.is_indexed => self.hand_terms(reading, terms.take()),
            ValueType::Text => {
                self.add_tokens(reading, terms.take())?;
                self.add_exact(reading)?;
            }
            ValueType::Ip => {
                self.add_tokens(reading, None)?;
                self.add_exact(reading)?;
            }
            ValueType::Long | ValueType::Big | ValueType::Boolean => self.add_tokens(reading, None)?,
            ValueType::Double | ValueType::Date => {}
        }
        if let Some(terms) = terms {
            let values = reading.distinct.iter().map(|value| reading.values.value(*value, reading.ty));
            values.for_each(|value| terms.term(Term::of_value(&value)));
        }
        self.exists.clear();
        self.exists.extend_from_slice(reading.rows);
        self.exists.dedup();
        let mut encoded = Vec::new();
        self.sink.put(&mut encoded, &self.exists, EXISTS_INLINE_BYTES_MAX, None)?;
        Ok((encoded, self.exists.len() as u32))
    }

    /// Adds the identities that clients gave, after all readings, as one whose values are not tokens.
    pub(crate) fn add_ids(&mut self, ids: &ReadingRows<'_>) -> Result<()> {
        self.rows_of_value.fill(ids.distinct.len(), ids.numbers, ids.rows.iter().copied());
        self.is_held.clear();
        self.is_held.resize(ids.distinct.len(), false);
        self.add_exact(ids)
    }

    /// The terms of a reading of which no tokens are collected.
    fn hand_terms(&mut self, reading: &ReadingRows<'_>, terms: Option<&mut dyn TakeTerms>) {
        let Some(terms) = terms else { return };
        for value in reading.distinct {
            let value = reading.values.value(*value, reading.ty);
            if !each_term(&mut self.tokenizer, &value, |term| terms.term(Some(term))) {
                terms.term(None);
            }
        }
    }

    /// The rows of value `number` of the reading added last, ascending and unique.
    pub(crate) fn rows_of_value(&self, number: usize) -> &[u32] {
        self.rows_of_value.get(number)
    }

    fn add_exact(&mut self, reading: &ReadingRows<'_>) -> Result<()> {
        let (keys, mut order) = exact_keys(reading);
        order.retain(|value| !self.is_held[*value as usize]);
        let mut postings = Vec::new();
        let mut members = Vec::new();
        let mut at = 0;
        while let Some(first) = order.get(at) {
            let key = keys.get(*first);
            members.clear();
            // Several spellings of one address, or texts that even a long hash cannot tell apart.
            members.extend(order[at..].iter().take_while(|number| keys.get(**number) == key));
            at += members.len();
            postings.clear();
            let rows = self.union.of(&members, &self.rows_of_value);
            self.sink.put(&mut postings, rows, INLINE_BYTES_MAX, reading.column_bytes)?;
            match self.has_heads {
                true => {
                    let can_be_short = reading.can_be_verified && reading.ty == ValueType::Text;
                    self.exact.add(key, &postings, can_be_short)?;
                }
                false => self.exact.table.add(key, &postings)?,
            }
        }
        Ok(())
    }

    fn add_tokens(&mut self, reading: &ReadingRows<'_>, terms: Option<&mut dyn TakeTerms>) -> Result<()> {
        self.collect_tokens(reading, terms);
        let (stream, ends) = (&self.token_stream, &self.value_ends);
        let owners = ends.iter().enumerate().flat_map(|(value, end)| {
            let start = value.checked_sub(1).map_or(0, |before| ends[before]);
            std::iter::repeat_n(value as u32, (*end - start) as usize)
        });
        self.values_of_token.fill(self.tokens.entries.len(), stream, owners);
        self.is_held.clear();
        self.is_held.resize(reading.distinct.len(), false);
        self.rows_of_token.clear();
        for token in 0..self.tokens.entries.len() as u32 {
            let values = self.values_of_token.get(token as usize);
            let rows = self.union.of(values, &self.rows_of_value);
            self.rows_of_token.push(rows.len() as u32);
            let is_in_all = |value: &&u32| {
                self.token_of_value[**value as usize] == token
                    && self.rows_of_value.get(**value as usize).len() == rows.len()
            };
            let held = values.iter().find(is_in_all);
            if let Some(value) = held {
                self.is_held[*value as usize] = true;
            }
            let (key, postings) = (self.keys.len() as u32, self.postings.len() as u64);
            self.sink.put(&mut self.postings, rows, INLINE_BYTES_MAX, reading.column_bytes)?;
            let text = self.tokens.get(token);
            self.keys.extend_from_slice(text);
            self.entries.push(TokenEntry {
                head: head(text),
                key,
                value: held.map_or(NO_NUMBER, |value| reading.distinct[*value as usize]),
                postings,
                field: reading.field,
                can_be_short: self.has_heads
                    && reading.can_be_verified
                    && reading.ty == ValueType::Text
                    && is_of_few_rows(&self.postings[postings as usize..]),
                key_bytes: text.len() as u16,
                postings_bytes: (self.postings.len() as u64 - postings) as u16,
            });
        }
        if reading.has_pairs { self.add_pairs(reading.field) } else { Ok(()) }
    }

    fn add_pairs(&mut self, field: u16) -> Result<()> {
        let IndexWriter { sink, pairs, words, rows_of_token, tokens, union, rows_of_value, .. } = self;
        let token = |token: u32| without_form(tokens.get(token));
        let rows_of = |values: &[u32]| union.of(values, rows_of_value).to_vec();
        pairs.add(sink, field, words, rows_of_token, token, rows_of)
    }

    fn collect_tokens(&mut self, reading: &ReadingRows<'_>, mut terms: Option<&mut dyn TakeTerms>) {
        self.tokens.clear();
        self.token_stream.clear();
        self.value_ends.clear();
        self.token_of_value.clear();
        self.words.clear();
        let (tokens, stream, words) = (&mut self.tokens, &mut self.token_stream, &mut self.words);
        for (number, value) in reading.distinct.iter().enumerate() {
            let mut emit = |token: &str, form: Form, is_word: bool| {
                let known = tokens.entries.len();
                let (token, is_new) = tokens.intern(token, form, number as u32);
                if is_new {
                    stream.push(token);
                }
                if is_word && reading.has_pairs {
                    words.push(Some(token).filter(|_| form == Form::Whole));
                }
                tokens.entries.len() > known
            };
            let mut own = NO_NUMBER;
            if reading.ty == ValueType::Text {
                let text = reading.values.text(*value);
                let mut take = |term: Term<'_>| {
                    if let Some(terms) = &mut terms {
                        terms.term(Some(term));
                    }
                };
                let is_part =
                    each_key(&mut self.tokenizer, text, &mut emit, |part| take(Term::Token(part.into())));
                if !is_part {
                    take(Term::Value(text.into()));
                }
                let token = if self.has_heads { token_of_text(&mut self.tokenizer, text) } else { None };
                own = token.map_or(NO_NUMBER, |token| tokens.number(token));
            } else if let Some(token) = value_token(&reading.values.value(*value, reading.ty)) {
                emit(&token, Form::Whole, false);
            }
            self.token_of_value.push(own);
            words.end_value();
            self.value_ends.push(stream.len() as u32);
        }
    }

    /// The text dictionary and pairs in order, and the exact dictionary as it stands; also the stored postings. `values`
    /// are those of all readings.
    pub(crate) fn finish(self, zstd_level: i32, values: &Values) -> Result<IndexParts> {
        let IndexWriter { keys, postings, mut entries, has_heads, exact, pairs, sink, .. } = self;
        let token = |e: &TokenEntry| &keys[e.key as usize..e.key as usize + usize::from(e.key_bytes)];
        entries.sort_unstable_by(|a, b| {
            a.head.cmp(&b.head).then_with(|| token(a).cmp(token(b))).then_with(|| a.field.cmp(&b.field))
        });
        let list = |e: &TokenEntry| {
            &postings[e.postings as usize..e.postings as usize + usize::from(e.postings_bytes)]
        };
        let mut text = table(EntryLayout::TEXT, has_heads, zstd_level)?;
        let (mut key, mut rest) = (Vec::new(), Vec::new());
        let mut shared_before = 0;
        let mut groups = entries.chunk_by(|a, b| without_form(token(a)) == without_form(token(b))).peekable();
        while let Some(group) = groups.next() {
            let Some(own) = group.first().map(|entry| without_form(token(entry))) else { continue };
            let next = groups.peek().and_then(|group| group.first()).map(|entry| without_form(token(entry)));
            let shared_after = next.map_or(0, |next| shared_prefix(own, next));
            let can_be_short =
                group.len() <= SHORT_ENTRIES_MAX && group.iter().all(|entry| entry.can_be_short);
            let short = short_text(own, shared_before.max(shared_after)).filter(|_| can_be_short);
            shared_before = shared_after;
            for (at, entry) in group.iter().enumerate() {
                key.clear();
                key.extend_from_slice(short.unwrap_or(own));
                key.extend(token(entry).last());
                key.extend_from_slice(&entry.field.to_be_bytes());
                rest.clear();
                let value = (entry.value != NO_NUMBER).then(|| values.bytes(entry.value));
                match short {
                    Some(_) => put_short_entry(&mut rest, value.is_some(), list(entry))?,
                    None if has_heads => put_entry(&mut rest, value, own, list(entry))?,
                    None => rest.extend_from_slice(list(entry)),
                }
                match short {
                    Some(_) if at > 0 => text.add_beside(&key, &rest),
                    _ => text.add(&key, &rest)?,
                }
            }
        }
        let (exact, pairs) = (exact.finish()?, pairs.finish(zstd_level)?);
        Ok(IndexParts { text, exact, pairs, stored: sink.finish() })
    }
}

/// A table of entries, which can be taken apart if they have heads.
fn table(layout: EntryLayout, has_heads: bool, zstd_level: i32) -> Result<TableWriter> {
    if has_heads { TableWriter::of_entries(layout, zstd_level) } else { TableWriter::new(zstd_level) }
}

/// Whether the rows of an encoded list are few enough for a short key.
fn is_of_few_rows(list: &[u8]) -> bool {
    rows_inside(list).is_some_and(|rows| rows <= SHORT_ROWS_MAX)
}

fn without_form(token: &[u8]) -> &[u8] {
    token.split_last().map_or(token, |(_, text)| text)
}

/// The start of a text that tells it from all others, with which it shares at most `shared` bytes; none where that is
/// all of it.
fn short_text(text: &[u8], shared: usize) -> Option<&[u8]> {
    let begins_character = |at: &usize| text.get(*at).is_some_and(|byte| !(0x80..0xc0).contains(byte));
    let end = (shared + SHORT_BEYOND_SHARED..text.len()).find(begins_character)?;
    text.get(..end)
}

/// Writes the exact dictionary, each entry when the key after it is known.
struct ExactWriter {
    table: TableWriter,
    held: Option<HeldExact>,
}

struct HeldExact {
    key: Vec<u8>,
    list: Vec<u8>,
    can_be_short: bool,
    /// How many bytes the key shares with the one before it.
    shared: usize,
}

impl ExactWriter {
    /// Adds `key`, which must be above every key before it.
    fn add(&mut self, key: &[u8], list: &[u8], can_be_short: bool) -> Result<()> {
        let shared = self.held.as_ref().map_or(0, |held| shared_prefix(&held.key, key));
        let next = HeldExact { key: key.to_vec(), list: list.to_vec(), can_be_short, shared };
        let before = self.held.replace(next);
        self.write(before, shared)
    }

    /// Writes an entry whose key shares so many bytes with the one after it.
    fn write(&mut self, entry: Option<HeldExact>, shared_after: usize) -> Result<()> {
        let Some(HeldExact { key, list, can_be_short, shared }) = entry else { return Ok(()) };
        let end = shared.max(shared_after) + SHORT_BEYOND_SHARED;
        let short =
            key.get(..end).filter(|short| can_be_short && short.len() < key.len() && is_of_few_rows(&list));
        let mut rest = Vec::new();
        match short {
            Some(_) => put_short_entry(&mut rest, false, &list)?,
            None => put_entry(&mut rest, None, &[], &list)?,
        }
        self.table.add(short.unwrap_or(&key), &rest)
    }

    fn finish(mut self) -> Result<TableWriter> {
        let last = self.held.take();
        self.write(last, 0)?;
        Ok(self.table)
    }
}

/// The token's first eight bytes, so that most comparisons read no further.
fn head(token: &[u8]) -> u64 {
    let mut head = [0; 8];
    let bytes = token.len().min(8);
    head[..bytes].copy_from_slice(&token[..bytes]);
    u64::from_be_bytes(head)
}

/// Byte strings by number.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Keys {
    fn get(&self, number: u32) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.bytes[start as usize..self.ends[number as usize] as usize]
    }
}

/// The exact dictionary's key of each value, and the values in the order of their keys.
fn exact_keys(reading: &ReadingRows<'_>) -> (Keys, Vec<u32>) {
    let mut keys = Keys::default();
    for value in reading.distinct {
        let bytes = reading.values.bytes(*value);
        match reading.ty {
            ValueType::Ip => {
                let address = parse_ip(reading.values.text(*value)).unwrap_or_default();
                keys.bytes.extend_from_slice(&ip_key(&address, reading.field));
            }
            _ => put_exact_key(&mut keys.bytes, bytes, reading.field),
        }
        keys.ends.push(keys.bytes.len() as u32);
    }
    let mut order: Vec<u32> = (0..reading.distinct.len() as u32).collect();
    // Nearly in order already: only long texts and addresses move.
    order.sort_by(|a, b| keys.get(*a).cmp(keys.get(*b)));
    (keys, order)
}
