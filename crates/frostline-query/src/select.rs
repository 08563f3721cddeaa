//! Which rows of one split match a filter.
//!
//! A filter is answered from dictionaries and postings where they can answer it exactly. What they can
//! only narrow down (a phrase, a very long value) is verified on the values themselves, and what they
//! do not hold (fractions, dates, wide ranges of numbers) is read from the column's pages, only where
//! the page's bounds leave it open. The answer is always exact.
//!
//! Everything that can be asked of the store at once is asked at once: the dictionary blocks of all
//! terms of a filter travel together, then the postings that are not inside the blocks, then pages.

use bytes::Bytes;
use frostline_base::{Meter, ReadRanges, Share};
use frostline_split::{
    Block, Dictionary, DigestValue, EXACT_PREFIX_BYTES, KeyRange, Phrase, Postings, Split, SplitField,
    ValueType, decode_postings, exact_key, is_hashed, phrase_tokens, query_tokens, split_text_key, text_key,
};
use futures::future::{BoxFuture, FutureExt, try_join_all};
use roaring::RoaringBitmap;

use crate::filter::pattern::Matcher;
use crate::filter::{Bound, FieldRef, Filter, Minimum, Number, Pattern, Scalar};
use crate::prune;
use crate::read::fields::{self, FieldValue};
use crate::read::open::OpenSplit;
use crate::{Error, Result};

/// A range that holds no more values than this is answered by their postings, and by the column otherwise.
const EQUALITIES_MAX: usize = 64;

/// The rows of a split that match.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rows {
    /// All of them.
    All,
    /// These.
    Some(RoaringBitmap),
}

impl Rows {
    pub(crate) fn none() -> Rows {
        Rows::Some(RoaringBitmap::new())
    }

    /// How many, in a split of `rows` rows.
    pub(crate) fn count(&self, rows: u32) -> u64 {
        match self {
            Rows::All => u64::from(rows),
            Rows::Some(bitmap) => bitmap.len(),
        }
    }

    /// As a set, in a split of `rows` rows.
    pub(crate) fn bitmap(self, rows: u32) -> RoaringBitmap {
        match self {
            Rows::All => all(rows),
            Rows::Some(bitmap) => bitmap,
        }
    }

    fn and(self, other: Rows) -> Rows {
        match (self, other) {
            (Rows::All, rows) | (rows, Rows::All) => rows,
            (Rows::Some(a), Rows::Some(b)) => Rows::Some(a & b),
        }
    }

    fn is_none(&self) -> bool {
        matches!(self, Rows::Some(bitmap) if bitmap.is_empty())
    }
}

fn all(rows: u32) -> RoaringBitmap {
    let mut bitmap = RoaringBitmap::new();
    bitmap.insert_range(0..rows);
    bitmap
}

/// One split as a query sees it: what is open of it, and how to read the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) open: &'a OpenSplit,
    pub(crate) reader: &'a dyn ReadRanges,
    pub(crate) meter: &'a Meter,
}

impl<'a> View<'a> {
    pub(crate) fn split(&self) -> &'a Split {
        &self.open.split
    }

    pub(crate) async fn read(&self, ranges: &[std::ops::Range<u64>], share: Share) -> Result<Vec<Bytes>> {
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        self.reader.read_ranges(&self.open.entry.object, ranges, share, self.meter).await
    }

    /// The rows that match `filter`; with `among`, those of them that are in it.
    pub(crate) fn select(
        self,
        filter: &'a Filter,
        among: Option<&'a RoaringBitmap>,
    ) -> BoxFuture<'a, Result<Rows>> {
        async move {
            match filter {
                Filter::All => Ok(among.map_or(Rows::All, |rows| Rows::Some(rows.clone()))),
                Filter::None => Ok(Rows::none()),
                Filter::And(parts) => self.select_all(parts, among).await,
                Filter::AtLeast { minimum, parts } => self.select_at_least(*minimum, parts, among).await,
                Filter::Not(part) => {
                    let rows = self.select(part, among).await?.bitmap(self.split().rows());
                    let base = among.cloned().unwrap_or_else(|| all(self.split().rows()));
                    Ok(Rows::Some(base - rows))
                }
                leaf => {
                    let rows = self.select_leaf(leaf, among).await?;
                    Ok(match among {
                        Some(among) => rows.and(Rows::Some(among.clone())),
                        None => rows,
                    })
                }
            }
        }
        .boxed()
    }

    /// Parts that the index answers are asked together; only what they leave is asked of the values.
    async fn select_all(self, parts: &'a [Filter], among: Option<&'a RoaringBitmap>) -> Result<Rows> {
        let (by_index, by_values): (Vec<_>, Vec<_>) = parts.iter().partition(|p| !self.reads_values(p));
        let found = try_join_all(by_index.into_iter().map(|part| self.select(part, None))).await?;
        let start = among.map_or(Rows::All, |rows| Rows::Some(rows.clone()));
        let mut left = found.into_iter().fold(start, Rows::and);
        for part in by_values {
            if left.is_none() {
                break;
            }
            left = match &left {
                Rows::All => self.select(part, None).await?,
                Rows::Some(rows) => self.select_within(part, rows).await?,
            };
        }
        Ok(left)
    }

    async fn select_within(self, part: &Filter, rows: &RoaringBitmap) -> Result<Rows> {
        let view = View { ..self };
        view.select(part, Some(rows)).await
    }

    async fn select_at_least(
        self,
        minimum: usize,
        parts: &'a [Filter],
        among: Option<&'a RoaringBitmap>,
    ) -> Result<Rows> {
        let found = try_join_all(parts.iter().map(|part| self.select(part, among))).await?;
        Ok(at_least(minimum, found, self.split().rows()))
    }

    /// Whether answering may read column pages, so that it is better asked of few rows.
    fn reads_values(&self, filter: &Filter) -> bool {
        match filter {
            Filter::All | Filter::None | Filter::Exists { .. } | Filter::Ids(_) | Filter::Match { .. } => {
                false
            }
            Filter::Equals { .. } => false,
            Filter::Range { field, .. } => !field.is_time(),
            Filter::Phrase { .. } | Filter::Pattern { .. } => true,
            Filter::And(parts) | Filter::AtLeast { parts, .. } => parts.iter().any(|p| self.reads_values(p)),
            Filter::Not(part) => self.reads_values(part),
        }
    }

    async fn select_leaf(self, filter: &Filter, among: Option<&RoaringBitmap>) -> Result<Rows> {
        match filter {
            Filter::Equals { field, values } => self.equals(field, values, among).await,
            Filter::Match { field, text, minimum, prefix_last } => {
                self.matches(field.as_ref(), text, minimum, *prefix_last, among).await
            }
            Filter::Phrase { field, text, prefix_last } => {
                self.phrase(field.as_ref(), text, *prefix_last, among).await
            }
            Filter::Range { field, lower, upper } => self.range(field, lower, upper, among).await,
            Filter::Exists { field } => self.exists(field).await,
            Filter::Pattern { field, pattern, case_insensitive } => {
                self.pattern(field.as_ref(), pattern, *case_insensitive, among).await
            }
            Filter::Ids(ids) => Ok(self.ids(ids)),
            Filter::All => Ok(Rows::All),
            Filter::None | Filter::And(_) | Filter::AtLeast { .. } | Filter::Not(_) => {
                Err(Error::internal("a compound filter was evaluated as a leaf"))
            }
        }
    }

    fn ids(&self, ids: &[String]) -> Rows {
        let prefix = format!("{}-", self.open.entry.id);
        let rows = ids.iter().filter_map(|id| id.strip_prefix(&prefix)?.parse::<u32>().ok());
        Rows::Some(rows.filter(|row| *row < self.split().rows()).collect())
    }

    async fn exists(self, field: &FieldRef) -> Result<Rows> {
        let wanted = self.split().fields().iter().filter(|reading| field.exists_by(reading));
        let postings = wanted.map(|field| self.split().exists(field.number)).collect::<Result<Vec<_>>>()?;
        let rows = self.union(postings).await?;
        if !field.is_time() {
            return Ok(rows);
        }
        let mut rows = rows.bitmap(self.split().rows());
        rows.insert_range(0..self.rows_with_time());
        Ok(Rows::Some(rows))
    }

    /// Rows that have a time come first.
    pub(crate) fn rows_with_time(&self) -> u32 {
        self.split().rows().saturating_sub(self.split().rows_without_time())
    }

    async fn equals(
        self,
        field: &FieldRef,
        values: &[Scalar],
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let readings = self.readings(field).map(|(reading, _)| self.equals_reading(reading, values, among));
        let found = try_join_all(readings).await?;
        let rows = if field.is_time() { self.time_equals(values).await? } else { RoaringBitmap::new() };
        Ok(Rows::Some(found.into_iter().fold(rows, |a, b| a | b)))
    }

    /// The readings that this split has of a field, and whether whole values are asked for.
    fn readings(self, field: &FieldRef) -> impl Iterator<Item = (&'a SplitField, bool)> {
        field.in_split(self.split().fields())
    }

    /// Rows in which a reading of whole values, or the time, equals a text.
    async fn equals_whole(
        self,
        field: &FieldRef,
        text: &str,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        let text = [Scalar::Text(text.to_owned())];
        let mut rows = if field.is_time() { self.time_equals(&text).await? } else { RoaringBitmap::new() };
        for (reading, _) in self.readings(field).filter(|(_, exact)| *exact) {
            rows |= self.equals_reading(reading, &text, among).await?;
        }
        Ok(rows)
    }

    async fn time_equals(self, values: &[Scalar]) -> Result<RoaringBitmap> {
        let mut rows = RoaringBitmap::new();
        for value in values {
            let Some((start_us, end_us)) = fields::time_span(value) else { continue };
            rows |= self.rows_in_time(frostline_base::TimeRange { start_us, end_us }).await?;
        }
        Ok(rows)
    }

    /// Values that no dictionary holds whole: fractions, dates, very long text.
    async fn equal_values(
        self,
        field: &SplitField,
        wanted: &[Scalar],
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        match field.ty {
            ValueType::Text => {
                let texts: Vec<String> = wanted.iter().map(scalar_text).collect();
                let keys = texts.iter().map(|t| KeyRange::exact(exact_key(t, field.number)));
                let candidates = self.rows_of(Lookup { exact: keys.collect(), ..Lookup::default() }).await?;
                let candidates = narrow(candidates, among);
                self.verify(field, &candidates, |text| texts.iter().any(|t| t == text)).await
            }
            ValueType::Date => {
                let spans: Vec<(i64, i64)> = wanted.iter().filter_map(fields::time_span).collect();
                let inside = |t: i64| spans.iter().any(|(start, end)| *start <= t && t < *end);
                self.scan_longs(field, among, &inside, |low, high| {
                    spans.iter().any(|(start, end)| low < *end && high >= *start)
                })
                .await
            }
            _ => {
                let numbers: Vec<f64> = wanted.iter().filter_map(scalar_f64).collect();
                let inside = |n: f64| numbers.contains(&n);
                self.scan_doubles(field, among, &inside, |low, high| {
                    numbers.iter().any(|n| low <= *n && *n <= high)
                })
                .await
            }
        }
    }

    async fn matches(
        self,
        field: Option<&FieldRef>,
        text: &str,
        minimum: &Minimum,
        prefix_last: bool,
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let tokens = distinct(query_tokens(text));
        let last = tokens.len().saturating_sub(1);
        let fields: Option<Vec<&SplitField>> = field.map(|field| self.words_of(field).collect());
        let per_token = tokens.iter().enumerate().map(|(at, token)| {
            let prefix = prefix_last && at == last;
            self.token_rows(fields.as_deref(), token, prefix)
        });
        let found = try_join_all(per_token).await?;
        let needed = match minimum {
            Minimum::All => tokens.len(),
            Minimum::Count(count) => (*count).max(1),
        };
        let mut rows = match tokens.len() {
            0 => RoaringBitmap::new(),
            _ => at_least(needed, found.into_iter().map(Rows::Some).collect(), self.split().rows())
                .bitmap(self.split().rows()),
        };
        if let Some(field) = field {
            rows |= self.equals_whole(field, text, among).await?;
        }
        // Readings that are not analysed compare the whole text.
        for field in fields.unwrap_or_default() {
            if matches!(field.ty, ValueType::Double | ValueType::Date | ValueType::Ip) {
                let whole = [Scalar::Text(text.trim().to_owned())];
                rows |= self.equals_reading(field, &whole, among).await?;
            }
        }
        Ok(Rows::Some(rows))
    }

    /// The readings of a field whose words are asked for.
    fn words_of(self, field: &FieldRef) -> impl Iterator<Item = &'a SplitField> {
        self.readings(field).filter(|(_, exact)| !exact).map(|(reading, _)| reading)
    }

    async fn equals_reading(
        self,
        field: &SplitField,
        values: &[Scalar],
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        let mut lookup = Lookup::default();
        let mut by_value = Vec::new();
        for value in values {
            match equality_key(field, value) {
                Equality::Nothing => {}
                Equality::Text(key) => lookup.text.push(KeyRange::exact(key)),
                Equality::Exact(key) => lookup.exact.push(KeyRange::exact(key)),
                Equality::ExactRange(range) => lookup.exact.push(range),
                Equality::Values => by_value.push(value.clone()),
            }
        }
        let mut rows = self.rows_of(lookup).await?;
        if !by_value.is_empty() {
            rows |= self.equal_values(field, &by_value, among).await?;
        }
        Ok(rows)
    }

    /// Rows with a value that holds the token, in the given fields or in any.
    async fn token_rows(
        self,
        fields: Option<&[&SplitField]>,
        token: &str,
        prefix: bool,
    ) -> Result<RoaringBitmap> {
        let range = if prefix { KeyRange::prefix(token.as_bytes().to_vec()) } else { KeyRange::token(token) };
        let numbers: Option<Vec<u16>> = fields.map(|fields| fields.iter().map(|f| f.number).collect());
        let wanted = |key: &[u8]| {
            let Some((_, number)) = split_text_key(key) else { return false };
            numbers.as_ref().is_none_or(|numbers| numbers.contains(&number))
        };
        let found = self.scan(self.split().text(), &[range], &wanted).await?;
        let postings = found.into_iter().map(|(_, postings)| postings).collect();
        Ok(self.union(postings).await?.bitmap(self.split().rows()))
    }

    async fn phrase(
        self,
        field: Option<&FieldRef>,
        text: &str,
        prefix_last: bool,
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let fields: Vec<&SplitField> = match field {
            Some(field) => self.words_of(field).collect(),
            None => self.split().fields().iter().collect(),
        };
        let (analysed, typed): (Vec<&SplitField>, Vec<&SplitField>) =
            fields.into_iter().partition(|f| f.ty == ValueType::Text);
        let mut rows = self.phrase_in_text(&analysed, text, prefix_last, among).await?;
        if let Some(field) = field {
            rows |= self.equals_whole(field, text, among).await?;
            for field in typed {
                rows |= self.equals_reading(field, &[Scalar::Text(text.trim().to_owned())], among).await?;
            }
        }
        Ok(Rows::Some(rows))
    }

    async fn phrase_in_text(
        self,
        fields: &[&SplitField],
        text: &str,
        prefix_last: bool,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        let mut tokens = distinct(phrase_tokens(text));
        if tokens.is_empty() {
            return Ok(RoaringBitmap::new());
        }
        let last = if prefix_last { tokens.pop() } else { None };
        let mut ranges: Vec<KeyRange> = tokens.iter().map(|t| KeyRange::token(t)).collect();
        ranges.extend(last.iter().map(|t| KeyRange::prefix(t.as_bytes().to_vec())));
        let found = self.scan(self.split().text(), &ranges, &|_| true).await?;
        let one_word =
            ranges.len() == 1 && query_tokens(text).len() == 1 && phrase_tokens(text) == query_tokens(text);
        let mut rows = RoaringBitmap::new();
        for field in fields {
            let mut candidates: Option<RoaringBitmap> = None;
            for range in &ranges {
                let of_range = found.iter().filter(|(key, _)| {
                    range.contains(key) && split_text_key(key).is_some_and(|(_, n)| n == field.number)
                });
                let postings = of_range.map(|(_, postings)| postings.clone()).collect();
                let here = self.union(postings).await?.bitmap(self.split().rows());
                candidates = Some(candidates.map_or(here.clone(), |c| c & here));
                if candidates.as_ref().is_some_and(RoaringBitmap::is_empty) {
                    break;
                }
            }
            let candidates = narrow(candidates.unwrap_or_default(), among);
            rows |= if one_word || candidates.is_empty() {
                candidates
            } else {
                let mut phrase = if prefix_last { Phrase::with_prefix(text) } else { Phrase::new(text) };
                self.verify(field, &candidates, |value| phrase.is_in(value)).await?
            };
        }
        Ok(rows)
    }

    async fn pattern(
        self,
        field: Option<&FieldRef>,
        pattern: &Pattern,
        case_insensitive: bool,
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let words: Option<Vec<u16>> = field.map(|f| self.words_of(f).map(|f| f.number).collect());
        let mut rows = Rows::none();
        if words.as_ref().is_none_or(|words| !words.is_empty()) {
            let matcher = Matcher::for_tokens(pattern, case_insensitive)?;
            let wanted = |key: &[u8]| {
                let Some((token, number)) = split_text_key(key) else { return false };
                let here = words.as_ref().is_none_or(|numbers| numbers.contains(&number));
                here && matcher.is_match(token)
            };
            let range = KeyRange::prefix(matcher.literal_prefix().as_bytes().to_vec());
            let found = self.scan(self.split().text(), &[range], &wanted).await?;
            rows = self.union(found.into_iter().map(|(_, postings)| postings).collect()).await?;
        }
        let whole = field.into_iter().flat_map(|field| self.readings(field)).filter(|(_, exact)| *exact);
        let matcher = Matcher::new(pattern, case_insensitive)?;
        for (reading, _) in whole {
            let found = self.exact_pattern(reading, &matcher, among).await?;
            rows = Rows::Some(rows.bitmap(self.split().rows()) | found);
        }
        Ok(rows)
    }

    async fn exact_pattern(
        self,
        field: &SplitField,
        matcher: &Matcher,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        if field.ty != ValueType::Text {
            return Ok(RoaringBitmap::new());
        }
        let start = matcher.literal_prefix();
        self.texts_where(field, start, among, |text| matcher.is_match(text)).await
    }

    async fn range(
        self,
        field: &FieldRef,
        lower: &Bound,
        upper: &Bound,
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let mut rows = match field.is_time() {
            true => self.rows_in_time(prune::bounds(lower, upper)).await?,
            false => RoaringBitmap::new(),
        };
        for (reading, _) in self.readings(field) {
            rows |= self.range_of(reading, lower, upper, among).await?;
        }
        Ok(Rows::Some(rows))
    }

    async fn range_of(
        self,
        field: &SplitField,
        lower: &Bound,
        upper: &Bound,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        match field.ty {
            ValueType::Long => {
                let Some(span) = LongSpan::new(lower, upper) else { return Ok(RoaringBitmap::new()) };
                if let Some(rows) = self.few_longs(field, &span).await? {
                    return Ok(rows);
                }
                self.scan_longs(field, among, &|n| span.contains(n), |low, high| span.overlaps(low, high))
                    .await
            }
            ValueType::Date => {
                let span = prune::bounds(lower, upper);
                if span.is_empty() {
                    return Ok(RoaringBitmap::new());
                }
                let overlaps = |low: i64, high: i64| low < span.end_us && high >= span.start_us;
                self.scan_longs(field, among, &|t| span.contains(t), overlaps).await
            }
            ValueType::Double => {
                let Some((above, below)) = fields::double_tests(lower, upper) else {
                    return Ok(RoaringBitmap::new());
                };
                self.scan_doubles(field, among, &|n| above(n) && below(n), |low, high| {
                    above(high) && below(low)
                })
                .await
            }
            ValueType::Boolean => Ok(RoaringBitmap::new()),
            ValueType::Ip => {
                let Some(range) = fields::ip_key_range(field.number, lower, upper) else {
                    return Ok(RoaringBitmap::new());
                };
                self.rows_of(Lookup { exact: vec![range], ..Lookup::default() }).await
            }
            ValueType::Text => self.text_range(field, lower, upper, among).await,
        }
    }

    async fn text_range(
        self,
        field: &SplitField,
        lower: &Bound,
        upper: &Bound,
        among: Option<&RoaringBitmap>,
    ) -> Result<RoaringBitmap> {
        let Some(inside) = fields::text_test(lower, upper) else { return Ok(RoaringBitmap::new()) };
        self.texts_where(field, "", among, inside).await
    }

    /// Rows with a value as written that starts with `start` and `holds`: from the exact dictionary, which
    /// has long values cut, so those are verified.
    async fn texts_where(
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
        let candidates = narrow(self.union(unsure).await?.bitmap(self.split().rows()), among);
        Ok(rows | self.verify(field, &candidates, holds).await?)
    }

    /// A range of numbers as a handful of equalities, where the digest lists all values of the field.
    async fn few_longs(self, field: &SplitField, span: &LongSpan) -> Result<Option<RoaringBitmap>> {
        let digest = self.open.digest()?;
        let Some(counts) = digest.values(field.number)? else { return Ok(None) };
        let inside: Vec<KeyRange> = counts
            .values
            .iter()
            .filter_map(|count| match count.value {
                DigestValue::Long(n) if span.contains(n) => {
                    Some(KeyRange::exact(text_key(&n.to_string(), field.number)))
                }
                _ => None,
            })
            .collect();
        if inside.len() > EQUALITIES_MAX {
            return Ok(None);
        }
        Ok(Some(self.rows_of(Lookup { text: inside, ..Lookup::default() }).await?))
    }

    pub(crate) async fn rows_in_time(self, range: frostline_base::TimeRange) -> Result<RoaringBitmap> {
        let mut rows = RoaringBitmap::new();
        if range.is_empty() {
            return Ok(rows);
        }
        let known = self.split().rows_in_time(range);
        rows.insert_range(known.certain);
        let mut unsure = RoaringBitmap::new();
        for part in known.unsure {
            unsure.insert_range(part);
        }
        if !unsure.is_empty() {
            let times = fields::times(self, &unsure).await?;
            rows.extend(
                unsure
                    .iter()
                    .zip(times)
                    .filter(|(_, t)| t.is_some_and(|t| range.contains(t)))
                    .map(|(r, _)| r),
            );
        }
        Ok(rows)
    }

    async fn scan_longs(
        self,
        field: &SplitField,
        among: Option<&RoaringBitmap>,
        inside: &(dyn Fn(i64) -> bool + Sync),
        overlaps: impl Fn(i64, i64) -> bool,
    ) -> Result<RoaringBitmap> {
        let rows = fields::rows_in_pages(self, field, among, overlaps, |_, _| false);
        self.keep(field, &rows, |value| matches!(value, FieldValue::Long(n) if inside(*n))).await
    }

    async fn scan_doubles(
        self,
        field: &SplitField,
        among: Option<&RoaringBitmap>,
        inside: &(dyn Fn(f64) -> bool + Sync),
        overlaps: impl Fn(f64, f64) -> bool,
    ) -> Result<RoaringBitmap> {
        let rows = fields::rows_in_pages(self, field, among, |_, _| false, overlaps);
        self.keep(field, &rows, |value| matches!(value, FieldValue::Double(n) if inside(*n))).await
    }

    /// Those of `candidates` that have a value in the text field for which `holds`.
    async fn verify(
        self,
        field: &SplitField,
        candidates: &RoaringBitmap,
        mut holds: impl FnMut(&str) -> bool + Send,
    ) -> Result<RoaringBitmap> {
        self.keep(field, candidates, |value| matches!(value, FieldValue::Text(text) if holds(text))).await
    }

    /// Those of `rows` that have a value of this reading which `holds`.
    async fn keep(
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
            if holds(&value) {
                found.insert(row);
            }
        })
        .await?;
        Ok(found)
    }

    /// The union of the postings of every key in the ranges.
    async fn rows_of(self, lookup: Lookup) -> Result<RoaringBitmap> {
        let (text, exact) = futures::future::try_join(
            self.scan(self.split().text(), &lookup.text, &|_| true),
            self.scan(self.split().exact(), &lookup.exact, &|_| true),
        )
        .await?;
        let postings = text.into_iter().chain(exact).map(|(_, postings)| postings).collect();
        Ok(self.union(postings).await?.bitmap(self.split().rows()))
    }

    /// Every wanted key inside the ranges with its postings; all blocks are read at once.
    async fn scan(
        self,
        dictionary: &Dictionary,
        ranges: &[KeyRange],
        wanted: &(dyn Fn(&[u8]) -> bool + Sync),
    ) -> Result<Vec<(Vec<u8>, Postings)>> {
        let wanted_blocks: Vec<(&KeyRange, Block)> = ranges
            .iter()
            .flat_map(|range| dictionary.blocks(range).into_iter().map(move |block| (range, block)))
            .collect();
        let mut distinct: Vec<&Block> = wanted_blocks.iter().map(|(_, block)| block).collect();
        distinct.sort_by_key(|block| block.number);
        distinct.dedup_by_key(|block| block.number);
        let bytes: Vec<_> = distinct.iter().map(|block| block.range.clone()).collect();
        let read = self.read(&bytes, Share::Index).await?;
        let mut found = Vec::new();
        for (range, block) in &wanted_blocks {
            let at = distinct.binary_search_by_key(&block.number, |b| b.number);
            let Some(bytes) = at.ok().and_then(|at| read.get(at)) else { continue };
            dictionary.scan(block, bytes, range, |key, postings| {
                if wanted(key) {
                    found.push((key.to_vec(), postings));
                }
            })?;
        }
        Ok(found)
    }

    async fn union(self, postings: Vec<Postings>) -> Result<Rows> {
        let mut rows = RoaringBitmap::new();
        let mut stored = Vec::new();
        for posting in postings {
            match posting {
                Postings::All => return Ok(Rows::All),
                Postings::Rows(bitmap) => rows |= bitmap,
                Postings::Stored { range, .. } => stored.push(range),
            }
        }
        for bytes in self.read(&stored, Share::Index).await? {
            rows |= decode_postings(&bytes, self.split().rows())?;
        }
        Ok(Rows::Some(rows))
    }
}

/// Keys to look up in the two dictionaries.
#[derive(Default)]
struct Lookup {
    text: Vec<KeyRange>,
    exact: Vec<KeyRange>,
}

/// The start of the keys of exact values that start with `prefix`: no longer than what the key of a very
/// long value keeps of it.
fn exact_prefix(field: u16, prefix: &str) -> Vec<u8> {
    let mut key = exact_key("", field);
    key.extend(prefix.bytes().take(EXACT_PREFIX_BYTES));
    key
}

/// The value of a key of the exact dictionary; none where the key holds a long value's start and hash.
fn exact_text(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(2..)?).ok()
}

/// Whole numbers between two bounds, both ends inside.
pub(crate) struct LongSpan {
    first: i64,
    last: i64,
}

impl LongSpan {
    /// None where no whole number can be inside.
    fn new(lower: &Bound, upper: &Bound) -> Option<LongSpan> {
        let first = match lower {
            Bound::Open => i64::MIN,
            Bound::Included(edge) => fields::ceil(edge.number?)?,
            // A number below all whole numbers excludes none of them.
            Bound::Excluded(edge) => match fields::floor(edge.number?) {
                Some(whole) => whole.checked_add(1)?,
                None => i64::MIN,
            },
        };
        let last = match upper {
            Bound::Open => i64::MAX,
            Bound::Included(edge) => fields::floor(edge.number?)?,
            Bound::Excluded(edge) => match fields::ceil(edge.number?) {
                Some(whole) => whole.checked_sub(1)?,
                None => i64::MAX,
            },
        };
        (first <= last).then_some(LongSpan { first, last })
    }

    fn contains(&self, n: i64) -> bool {
        self.first <= n && n <= self.last
    }

    fn overlaps(&self, low: i64, high: i64) -> bool {
        low <= self.last && high >= self.first
    }
}

/// How one reading of a field answers "equals this value".
enum Equality {
    Nothing,
    Text(Vec<u8>),
    Exact(Vec<u8>),
    ExactRange(KeyRange),
    Values,
}

fn equality_key(field: &SplitField, value: &Scalar) -> Equality {
    match field.ty {
        ValueType::Boolean => match scalar_bool(value) {
            Some(value) => Equality::Text(text_key(if value { "true" } else { "false" }, field.number)),
            None => Equality::Nothing,
        },
        ValueType::Long => match scalar_i64(value) {
            Some(value) => Equality::Text(text_key(&value.to_string(), field.number)),
            None => Equality::Nothing,
        },
        ValueType::Ip => {
            fields::ip_equality(field.number, value).map_or(Equality::Nothing, Equality::ExactRange)
        }
        ValueType::Text => {
            let text = scalar_text(value);
            let key = exact_key(&text, field.number);
            if is_hashed(&text) { Equality::Values } else { Equality::Exact(key) }
        }
        ValueType::Double => scalar_f64(value).map_or(Equality::Nothing, |_| Equality::Values),
        ValueType::Date => fields::time_span(value).map_or(Equality::Nothing, |_| Equality::Values),
    }
}

pub(crate) fn scalar_text(value: &Scalar) -> String {
    match value {
        Scalar::Boolean(b) => b.to_string(),
        Scalar::Long(n) => n.to_string(),
        Scalar::Double(n) => {
            serde_json::Number::from_f64(*n).map_or_else(|| n.to_string(), |n| n.to_string())
        }
        Scalar::Text(text) => text.clone(),
    }
}

fn scalar_bool(value: &Scalar) -> Option<bool> {
    match value {
        Scalar::Boolean(b) => Some(*b),
        Scalar::Text(text) => text.trim().parse().ok(),
        Scalar::Long(_) | Scalar::Double(_) => None,
    }
}

fn scalar_i64(value: &Scalar) -> Option<i64> {
    match value {
        Scalar::Long(n) => Some(*n),
        Scalar::Double(n) => {
            let (below, above) = (fields::floor(Number::Double(*n))?, fields::ceil(Number::Double(*n))?);
            (below == above).then_some(below)
        }
        Scalar::Text(text) => {
            let text = text.trim();
            text.parse().ok().or_else(|| scalar_i64(&Scalar::Double(text.parse().ok()?)))
        }
        Scalar::Boolean(_) => None,
    }
}

fn scalar_f64(value: &Scalar) -> Option<f64> {
    match value {
        // A whole number that no double holds equals none.
        Scalar::Long(n) => Some(*n as f64).filter(|near| *near as i128 == i128::from(*n)),
        Scalar::Double(n) => Some(*n),
        Scalar::Text(text) => match text.trim().parse() {
            Ok(whole) => scalar_f64(&Scalar::Long(whole)),
            Err(_) => text.trim().parse().ok(),
        },
        Scalar::Boolean(_) => None,
    }
}

fn narrow(rows: RoaringBitmap, among: Option<&RoaringBitmap>) -> RoaringBitmap {
    match among {
        Some(among) => rows & among,
        None => rows,
    }
}

fn distinct(tokens: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    tokens.into_iter().filter(|token| seen.insert(token.clone())).collect()
}

/// Rows that are in at least `minimum` of the sets.
fn at_least(minimum: usize, sets: Vec<Rows>, rows: u32) -> Rows {
    if minimum == 0 {
        return Rows::All;
    }
    if minimum > sets.len() {
        return Rows::none();
    }
    if minimum == sets.len() {
        return sets.into_iter().fold(Rows::All, Rows::and);
    }
    // reached[n]: rows seen in more than n of the sets so far.
    let mut reached = vec![RoaringBitmap::new(); minimum];
    for set in sets {
        let set = set.bitmap(rows);
        for n in (1..minimum).rev() {
            let more = &reached[n - 1] & &set;
            reached[n] |= more;
        }
        reached[0] |= set;
    }
    Rows::Some(reached.swap_remove(minimum - 1))
}

#[cfg(test)]
mod tests;
