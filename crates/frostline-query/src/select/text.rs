//! Texts with given words, a phrase, or a token that matches a pattern.
//!
//! Keys are checked first: some are sufficient for a row to match, others are necessary. Rows that have
//! all necessary keys but no sufficient one are verified on their texts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use frostline_split::{
    CUT_START_BYTES, Entry, Form, KeyRange, Keys, Phrase, Piece, PieceKeys, Postings, Says, SplitField,
    TextKey, Tokenizer, ValueType, Wanted, is_joiner, phrase_words, query_pieces,
};
use futures::future::{try_join, try_join_all};
use roaring::RoaringBitmap;

use crate::Result;
use crate::filter::intervals::Seeker;
use crate::filter::pattern::{Matcher, TokenPattern};
use crate::filter::{FieldRef, Intervals, Minimum, Pattern, Scalar};
use crate::read::fields;
use crate::read::view::View;
use crate::select::equal::Equalities;
use crate::select::lookup::{Found, Lookup, Said};
use crate::select::pairs::{PhraseLists, PhrasePairs};
use crate::select::{Rows, all, at_least, narrow};

impl<'a> View<'a> {
    /// Whether keys alone cannot tell which rows have the pieces of a text.
    pub(super) fn leaves_to_values(self, text: &str, prefix_last: bool) -> bool {
        let pieces = query_pieces(text);
        let (version, last) = (self.split().version(), pieces.len().saturating_sub(1));
        pieces
            .iter()
            .enumerate()
            .any(|(at, piece)| !PieceKeys::of(piece, version, prefix_last && at == last).needed.is_empty())
    }

    pub(super) async fn matches(
        self,
        field: Option<&FieldRef>,
        text: &str,
        minimum: &Minimum,
        prefix_last: bool,
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let readings = self.words_of(field).await?;
        let pieces = query_pieces(text);
        let last = pieces.len().saturating_sub(1);
        let found = pieces
            .iter()
            .enumerate()
            .map(|(at, piece)| self.rows_of_piece(&readings, piece, prefix_last && at == last, among));
        let found = try_join_all(found).await?;
        let needed = match minimum {
            Minimum::All => pieces.len(),
            Minimum::Count(count) => (*count).max(1),
        };
        let rows = match pieces.len() {
            0 => Rows::none(),
            _ => at_least(needed, found.into_iter().map(Rows::Some).collect(), self.split().rows()),
        };
        let Some(field) = field else { return Ok(rows) };
        let whole = self.equals_whole(field, text, among).await?;
        // Readings that are not analysed compare the whole text as well; a piece that is all of it was compared.
        let trimmed = text.trim();
        let values: &[Scalar] = match pieces.as_slice() {
            [only] if only.written() == trimmed => &[],
            _ => &[Scalar::Text(trimmed.to_owned())],
        };
        let typed: Vec<&SplitField> =
            readings.into_iter().filter(|reading| reading.ty != ValueType::Text).collect();
        let typed = self.equal_in(&typed, values, among).await?;
        Ok(Rows::Some(rows.bitmap(self.split().rows()) | whole | typed))
    }

    pub(super) async fn phrase(
        self,
        field: Option<&FieldRef>,
        text: &str,
        prefix_last: bool,
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let (texts, typed): (Vec<&SplitField>, Vec<&SplitField>) =
            self.words_of(field).await?.into_iter().partition(|reading| reading.ty == ValueType::Text);
        let version = self.split().version();
        let words = phrase_words(text);
        let ordered = Phrase::new(text);
        let keys = match words.as_slice() {
            [only] if ordered.words().len() == 1 => PieceKeys::of(only, version, prefix_last),
            words => {
                let last = ordered.last_word().filter(|_| prefix_last);
                let needed = words.iter().flat_map(|word| {
                    PieceKeys::of(word, version, last.as_deref() == Some(word.text())).necessary()
                });
                // What has all of it in one piece has the words one after another.
                let pieces = query_pieces(text);
                let is_all = |piece: &&Piece| Phrase::new(piece.text()).words() == ordered.words();
                let whole = pieces.first().filter(is_all).filter(|_| !prefix_last);
                let sure = whole.and_then(|piece| PieceKeys::of(piece, version, false).sure);
                PieceKeys { sure, needed: needed.collect() }
            }
        };
        let has_pairs = |field: &&SplitField| {
            let columns = fields::columns_of(field);
            field.is_indexed
                && !field.dynamic
                && columns.iter().all(|name| !self.split().has_dictionary(name))
        };
        let may_ask = !prefix_last && texts.iter().any(has_pairs);
        let pairs = PhrasePairs::new(ordered.words()).filter(|_| may_ask);
        let make = || {
            let mut phrase = if prefix_last { Phrase::with_prefix(text) } else { Phrase::new(text) };
            move |value: &str| phrase.is_in(value)
        };
        let value = [Scalar::Text(text.trim().to_owned())];
        let equal = Equalities::of(&typed, &value);
        let rows = self.rows_with(&texts, &keys, pairs, equal, among, make).await?;
        let Some(field) = field else { return Ok(Rows::Some(rows)) };
        let mut rows = rows | self.equals_whole(field, text, among).await?;
        if prefix_last && !text.is_empty() {
            let whole = self.readings(field).await?.into_iter();
            for (reading, _) in whole.filter(|(reading, exact)| *exact && reading.ty == ValueType::Text) {
                rows |= self.texts_where(reading, text, among, |own| own.starts_with(text)).await?;
            }
        }
        Ok(Rows::Some(rows))
    }

    pub(super) async fn pattern(
        self,
        field: Option<&FieldRef>,
        pattern: &Pattern,
        case_insensitive: bool,
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let readings = self.words_of(field).await?;
        let start = match pattern {
            Pattern::Prefix(prefix) => Piece::start(prefix),
            _ => None,
        };
        // What ends in a joiner also starts a whole with the joiners around it.
        let by_token = start.as_ref().is_none_or(|piece| piece.text().bytes().last().is_some_and(is_joiner));
        let mut rows = RoaringBitmap::new();
        if !readings.is_empty() {
            if by_token {
                rows |= self.rows_with_token(&readings, pattern, case_insensitive, among).await?;
            }
            if let Some(piece) = &start {
                rows |= self.rows_with_start(&readings, piece, among).await?;
            }
        }
        let whole = match field {
            Some(field) => self.readings(field).await?,
            None => Vec::new(),
        };
        let whole = whole.into_iter().filter(|(_, exact)| *exact);
        let matcher = Matcher::new(pattern, case_insensitive)?;
        for (reading, _) in whole.filter(|(reading, _)| reading.ty == ValueType::Text) {
            let start = matcher.literal_prefix();
            rows |= self.texts_where(reading, start, among, |text| matcher.is_match(text)).await?;
        }
        Ok(Rows::Some(rows))
    }

    /// Rows with a text in which words stand so. Whoever asks has told the words before.
    pub(super) async fn intervals(
        self,
        field: &FieldRef,
        intervals: &Intervals,
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let seeker = Seeker::new(intervals)?;
        let mut found = RoaringBitmap::new();
        let readings = self.words_of(Some(field)).await?.into_iter();
        for reading in readings.filter(|reading| reading.ty == ValueType::Text) {
            let rows = self.rows_with_value(reading, among).await?;
            let holds = |text: &str| match field.analysis() {
                None => seeker.is_in(text),
                Some(analysis) => {
                    let words = analysis.words(text);
                    let words: Vec<(usize, &str)> =
                        words.iter().map(|word| (word.at, word.text.as_ref())).collect();
                    seeker.is_among(&words)
                }
            };
            found |= self.verify(reading, &rows, holds).await?;
        }
        Ok(Rows::Some(found))
    }

    /// The readings of a field whose words are requested; of every field without one.
    async fn words_of(self, field: Option<&FieldRef>) -> Result<Vec<&'a SplitField>> {
        let Some(field) = field else {
            self.know(&[Wanted::All]).await?;
            return self.split().find(Wanted::All);
        };
        let readings = self.readings(field).await?.into_iter();
        Ok(readings.filter(|(_, exact)| !exact).map(|(reading, _)| reading).collect())
    }

    /// Rows whose text has the piece, or that have a value of another type that it is written as.
    async fn rows_of_piece(
        self,
        readings: &[&SplitField],
        piece: &Piece,
        open_ended: bool,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        let (texts, typed): (Vec<&SplitField>, Vec<&SplitField>) =
            readings.iter().partition(|reading| reading.ty == ValueType::Text);
        let keys = PieceKeys::of(piece, self.split().version(), open_ended);
        let equal = Equalities::of(&typed, &[Scalar::Text(piece.written().to_owned())]);
        let make = || {
            let mut tokenizer = Tokenizer::new();
            move |text: &str| match open_ended {
                true => piece.starts_in(text, &mut tokenizer),
                false => piece.is_in(text, &mut tokenizer),
            }
        };
        // The one token of a number or an address may start with a piece, too.
        let asked = if open_ended { readings } else { &texts };
        let rows = self.rows_with(asked, &keys, None, equal, among, make).await?;
        let others = if open_ended { &typed[..] } else { &[] };
        Ok(rows | self.unindexed_with_start(others, piece, among).await?)
    }

    async fn rows_with_start(
        self,
        readings: &[&SplitField],
        piece: &Piece,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        let keys = PieceKeys::of(piece, self.split().version(), true);
        let make = || {
            let mut tokenizer = Tokenizer::new();
            move |text: &str| piece.starts_in(text, &mut tokenizer)
        };
        let rows = self.rows_with(readings, &keys, None, Equalities::default(), among, make).await?;
        Ok(rows | self.unindexed_with_start(readings, piece, among).await?)
    }

    /// Rows with a value that is no text, is not indexed and has a token that starts with the piece.
    async fn unindexed_with_start(
        self,
        readings: &[&SplitField],
        piece: &Piece,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        let mut rows = RoaringBitmap::new();
        for reading in readings.iter().filter(|reading| !reading.is_indexed && reading.ty != ValueType::Text)
        {
            rows |= self.tokens_where(reading, among, |token| token.starts_with(piece.text())).await?;
        }
        Ok(rows)
    }

    /// Rows that have sure keys in one of `readings`, or that may have them or the needed ones, and have a text that
    /// holds by a test that `make` makes; and rows in which something is equal. Where the `pairs` of a phrase decide,
    /// the needed keys, which are its words, are not asked.
    async fn rows_with<F: FnMut(&str) -> bool + Send>(
        self,
        readings: &[&SplitField],
        keys: &PieceKeys,
        pairs: Option<PhrasePairs<'_>>,
        equal: Equalities<'_>,
        among: Option<&RoaringBitmap>,
        make: impl Fn() -> F + Send + Sync,
    ) -> Result<RoaringBitmap> {
        let Equalities { lookup: Lookup { tokens, exact }, by_values } = equal;
        let asked: BTreeSet<u16> = readings.iter().map(|reading| reading.number).collect();
        let tokens: Vec<(Keys, BTreeSet<u16>)> =
            tokens.into_iter().map(|(token, fields)| (Keys::token(&token), fields)).collect();
        let of_piece = keys.sure.iter().chain(&keys.needed);
        let sets: Vec<&Keys> = of_piece.chain(tokens.iter().map(|(keys, _)| keys)).collect();
        let first_token = sets.len() - tokens.len();
        let is_wanted = |set: usize, key: &TextKey<'_>| {
            let fields = set.checked_sub(first_token).map_or(&asked, |at| &tokens[at].1);
            fields.contains(&key.field)
        };
        let by_words = async {
            let of_pairs = async {
                match &pairs {
                    Some(pairs) => self.pairs_of(pairs, &asked).await,
                    None => Ok(HashMap::new()),
                }
            };
            let (mut said, mut of_pairs) = try_join(self.said(&sets, &is_wanted), of_pairs).await?;
            let mut phrases = Vec::new();
            for reading in readings {
                let rows = self.rows_of_words(reading.number, &keys.needed, first_token, &said);
                let of_field = of_pairs.remove(&reading.number);
                phrases.extend(pairs.as_ref().and_then(|pairs| pairs.lists(reading, of_field, &rows)));
            }
            let is_decided =
                |said: &Said| phrases.iter().any(|phrase: &PhraseLists| phrase.field() == said.field);
            said.retain(|said| !is_decided(said));
            let texts = readings.iter().filter(|reading| reading.ty == ValueType::Text);
            let texts: BTreeSet<u16> = texts.map(|reading| reading.number).collect();
            let open = match keys.needed.is_empty() {
                true => BTreeSet::new(),
                false => leave_to_texts(&mut said, &texts, first_token),
            };
            let rows = try_join(self.rows_by_field(sets.len(), said), self.rows_of_phrases(phrases));
            rows.await.map(|(found, of_phrases)| (found, of_phrases, open))
        };
        let ((mut found, of_phrases, open), others) = try_join(
            by_words,
            try_join(
                self.rows_of(Lookup { exact, ..Lookup::default() }),
                try_join_all(by_values.iter().map(|(reading, left)| self.equal_values(reading, left, among))),
            ),
        )
        .await?;
        let equal = found.split_off(first_token);
        let mut rows = others.1.into_iter().fold(others.0, |a, b| a | b);
        let sufficient = if keys.sure.is_some() { Some(found.remove(0)) } else { None };
        let of_sets = equal.iter().chain(&sufficient).chain([&of_phrases]);
        for found in of_sets.flat_map(HashMap::values) {
            rows |= found.sure();
        }
        let mut left = Vec::new();
        for reading in readings.iter().filter(|reading| reading.ty == ValueType::Text) {
            if !reading.is_indexed {
                left.push((*reading, self.rows_with_value(reading, among).await? - &rows));
                continue;
            }
            let of_field = |of_set: &HashMap<u16, Found>| of_set.get(&reading.number).map(Found::possible);
            let first_needed = first_token - found.len();
            let known =
                (first_needed..).zip(&found).filter(|(set, _)| !open.contains(&(reading.number, *set)));
            let necessary = known.map(|(_, of_set)| of_field(of_set).unwrap_or_default());
            let mut candidates = necessary.reduce(|a, b| a & b).unwrap_or_else(|| match found.is_empty() {
                true => RoaringBitmap::new(),
                false => all(self.split().rows()),
            });
            let others = [sufficient.as_ref(), Some(&of_phrases)].into_iter().flatten();
            for found in others.filter_map(|of_set| of_set.get(&reading.number)) {
                candidates |= found.candidates();
            }
            left.push((*reading, narrow(candidates - &rows, among)));
        }
        let verified = left.iter().map(|(reading, candidates)| self.verify(reading, candidates, make()));
        Ok(try_join_all(verified).await?.into_iter().fold(rows, |a, b| a | b))
    }

    /// How many rows of a field have each of these words, of which `sets` are the last before `end`; those that are not
    /// here are in no row, or in how many is not known.
    fn rows_of_words<'k>(
        self,
        field: u16,
        words: &'k [Keys],
        end: usize,
        said: &[Said],
    ) -> HashMap<&'k str, u64> {
        let first = end - words.len();
        let mut rows = HashMap::new();
        for said in said.iter().filter(|said| said.field == field) {
            for (set, says) in &said.says {
                let word = set.checked_sub(first).and_then(|word| words.get(word)).and_then(Keys::whole);
                if let Some(word) = word.filter(|_| *says == Says::Yes) {
                    rows.insert(word, said.postings.count(self.split().rows()));
                }
            }
        }
        rows
    }

    /// Rows that have a token, or a whole with the joiners around it, that matches. The dictionary has the start of
    /// long tokens only, and no joiners around them: where that leaves it open, the texts are asked.
    async fn rows_with_token(
        self,
        readings: &[&SplitField],
        pattern: &Pattern,
        case_insensitive: bool,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        let tokens = TokenPattern::new(pattern, case_insensitive)?;
        let asked: BTreeMap<u16, &SplitField> =
            readings.iter().map(|reading| (reading.number, *reading)).collect();
        let version = self.split().version();
        let is_text = |number: u16| asked.get(&number).is_some_and(|reading| reading.ty == ValueType::Text);
        // Whether a key's token matches; none where that is left to the text.
        let says = |key: &TextKey<'_>| match key.cut(version) {
            _ if key.form == Form::Inner => Some(false),
            Some(start) if tokens.may_match(start) || tokens.is_match(key.token) => None,
            Some(_) => Some(false),
            None if tokens.is_match(key.token) => Some(true),
            None if tokens.may_match_with_joiners(key.token) && is_text(key.field) => None,
            None => Some(false),
        };
        // The field of a key that may have a match, and whether it has.
        let take = |entry: Entry<'_>| {
            let key = entry.text_key().filter(|key| asked.contains_key(&key.field))?;
            let said = says(&key);
            (said != Some(false)).then_some((key.field, said.is_some(), entry.postings))
        };
        let literal = tokens.literal_prefix();
        let literal = literal.get(..literal.floor_char_boundary(CUT_START_BYTES)).unwrap_or_default();
        let range = KeyRange::prefix(literal.as_bytes().to_vec());
        let mut sure = Vec::new();
        let mut open: BTreeMap<u16, Vec<Postings>> = BTreeMap::new();
        for (field, has_match, postings) in self.scan(self.split().text(), &[range], &take).await? {
            match has_match {
                true => sure.push(postings),
                false => open.entry(field).or_default().push(postings),
            }
        }
        let mut rows = self.union(sure).await?.bitmap(self.split().rows());
        for reading in readings.iter().filter(|reading| !reading.is_indexed) {
            rows |= match reading.ty {
                ValueType::Text => {
                    let candidates = self.rows_with_value(reading, among).await? - &rows;
                    let mut tokenizer = Tokenizer::new();
                    self.verify(reading, &candidates, |text| tokens.is_in(text, &mut tokenizer)).await?
                }
                _ => self.tokens_where(reading, among, |token| tokens.is_match(token)).await?,
            };
        }
        for (number, postings) in open {
            let Some(reading) = asked.get(&number) else { continue };
            let candidates = narrow(self.union(postings).await?.bitmap(self.split().rows()), among) - &rows;
            let mut tokenizer = Tokenizer::new();
            let has_match = |text: &str| tokens.is_in(text, &mut tokenizer);
            rows |= self.verify(reading, &candidates, has_match).await?;
        }
        Ok(rows)
    }
}

/// Takes out what the lists would say that are left to the columns of `texts`, because these are verified, which tells as
/// much. Returns the fields and those of their sets of keys before `end` of which not all rows are known then.
fn leave_to_texts(said: &mut Vec<Said>, texts: &BTreeSet<u16>, end: usize) -> BTreeSet<(u16, usize)> {
    let is_left = |said: &&Said| matches!(said.postings, Postings::Column(_)) && texts.contains(&said.field);
    let sets =
        said.iter().filter(is_left).flat_map(|said| said.says.iter().map(|(set, _)| (said.field, *set)));
    let open: BTreeSet<(u16, usize)> = sets.filter(|(_, set)| *set < end).collect();
    said.retain_mut(|Said { field, says, .. }| {
        says.retain(|(set, _)| !open.contains(&(*field, *set)));
        !says.is_empty()
    });
    open
}
