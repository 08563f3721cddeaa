//! Which rows of one split match a filter.
//!
//! A filter is answered from dictionaries and postings if they can answer it exactly. If they can
//! only narrow the set (a phrase, a path inside a path, a very long value), the values
//! themselves are verified. What they do not contain (fractions, dates, wide ranges of numbers) is read from the
//! column's pages, but only from pages whose bounds do not decide it. The answer is always exact.
//!
//! - [`lookup`]: keys of the dictionaries and their postings;
//! - [`pages`]: values between bounds, from times and pages;
//! - [`verify`]: candidates against their values;
//! - [`equal`]: values equal to a value; [`text`]: texts with the given words, phrases and patterns; [`pairs`]: phrases
//!   of frequent words;
//! - [`ids`]: documents by `_id`; [`nested`]: documents by one object in them; [`points`]: documents by places;
//!   [`ranges`]: documents by ranges;
//! - [`terms`]: what a split has where a filter matches in it, before it is opened.
//!
//! Independent reads happen at the same time: the dictionary blocks of all
//! terms of a filter together, then the postings that are not inside the blocks, then pages.

mod analyzed;
mod equal;
mod ids;
mod lookup;
mod nested;
mod pages;
mod pairs;
mod points;
mod ranges;
pub(crate) mod terms;
mod text;
mod verify;

use frostline_split::{Origin, SplitField, Wanted};
use futures::future::{BoxFuture, FutureExt, try_join_all};
use roaring::RoaringBitmap;

use crate::filter::{FieldRef, Filter};
use crate::read::view::View;
use crate::{Error, Result};

pub(crate) use equal::scalar_text;

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

    /// About how much memory they take.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Rows::All => 0,
            Rows::Some(bitmap) => bitmap.serialized_size(),
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

impl<'a> View<'a> {
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
    fn reads_values(self, filter: &Filter) -> bool {
        match filter {
            leaf if leaf.analyzed().is_some() => true,
            Filter::All | Filter::None | Filter::Exists { .. } | Filter::Ids(_) => false,
            Filter::Equals { field, .. } => self.is_unindexed(field),
            Filter::Range { field, .. } => !field.is_time(),
            Filter::Match { field, text, prefix_last, .. } => {
                self.leaves_to_values(text, *prefix_last)
                    || field.as_ref().is_some_and(|field| self.is_unindexed(field))
            }
            Filter::Phrase { .. }
            | Filter::Pattern { .. }
            | Filter::Intervals { .. }
            | Filter::Nested(_)
            | Filter::Points { .. }
            | Filter::Ranges { .. } => true,
            Filter::And(parts) | Filter::AtLeast { parts, .. } => parts.iter().any(|p| self.reads_values(p)),
            Filter::Not(part) => self.reads_values(part),
        }
    }

    /// Whether a field is known to have values that are not indexed.
    fn is_unindexed(self, field: &FieldRef) -> bool {
        let readings = field.in_split(self.split());
        readings.is_ok_and(|readings| readings.iter().any(|(reading, _)| !reading.is_indexed))
    }

    async fn select_leaf(self, filter: &Filter, among: Option<&RoaringBitmap>) -> Result<Rows> {
        if let Some((field, analysis)) = filter.analyzed() {
            return self.analyzed(field, analysis, filter, among).await;
        }
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
            Filter::Intervals { field, intervals } => self.intervals(field, intervals, among).await,
            Filter::Ids(ids) => Ok(Rows::Some(self.with_ids(ids).await?)),
            Filter::Nested(nested) => self.nested(nested, among).await,
            Filter::Points { field, shape, relation } => self.points(field, shape, *relation, among).await,
            Filter::Ranges { field, span, relation } => self.ranges(field, span, *relation, among).await,
            Filter::All => Ok(Rows::All),
            Filter::None | Filter::And(_) | Filter::AtLeast { .. } | Filter::Not(_) => {
                Err(Error::internal("a compound filter was evaluated as a leaf"))
            }
        }
    }

    async fn exists(self, field: &FieldRef) -> Result<Rows> {
        let wanted: Vec<Wanted<'_>> = field.exists_by().collect();
        self.know(&wanted).await?;
        let mut postings = Vec::new();
        for wanted in wanted {
            for reading in self.split().find(wanted)? {
                postings.push(self.split().exists(reading.number)?);
            }
        }
        let rows = self.union(postings).await?;
        if !field.is_time() {
            return Ok(rows);
        }
        let mut rows = rows.bitmap(self.split().rows());
        rows.insert_range(0..self.rows_with_time());
        Ok(Rows::Some(rows))
    }

    /// The readings that this split has of a field, and whether whole values are requested.
    async fn readings(self, field: &FieldRef) -> Result<Vec<(&'a SplitField, bool)>> {
        self.know_fields(&[field]).await?;
        field.in_split(self.split())
    }
}

/// The `_id`s that documents may have to which no client gave one.
pub(crate) fn origins_of(ids: &[String]) -> impl Iterator<Item = Origin> {
    ids.iter().filter_map(|id| id.parse().ok())
}

fn narrow(rows: RoaringBitmap, among: Option<&RoaringBitmap>) -> RoaringBitmap {
    match among {
        Some(among) => rows & among,
        None => rows,
    }
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
