//! Fields whose text their author has compared by other words than those of the index.
//!
//! No key says what a value is by another analysis, so the values of the rows that are left are read: every condition
//! beside them is asked first.

use std::collections::BTreeSet;

use frostline_split::{Analysis, SplitField, ValueType};
use roaring::RoaringBitmap;

use crate::Result;
use crate::filter::pattern::Matcher;
use crate::filter::words::{folded, is_one_of, phrases};
use crate::filter::{Bound, FieldRef, Filter, Minimum};
use crate::read::view::View;
use crate::select::equal::scalar_text;
use crate::select::{Rows, at_least};

impl View<'_> {
    /// The rows that match such a condition.
    pub(super) async fn analyzed(
        self,
        field: &FieldRef,
        analysis: &Analysis,
        filter: &Filter,
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let texts = self.readings(field).await?.into_iter().map(|(reading, _)| reading);
        let texts: Vec<&SplitField> = texts.filter(|reading| reading.ty == ValueType::Text).collect();
        let rows = match filter {
            Filter::Equals { values, .. } => {
                let wanted = values.iter().map(|value| analysis.fold(&scalar_text(value)).into_owned());
                let wanted: BTreeSet<String> = wanted.collect();
                self.texts_for_which(&texts, among, |text| wanted.contains(analysis.fold(text).as_ref()))
                    .await?
            }
            Filter::Match { text, minimum, prefix_last, .. } => {
                return self.with_words(&texts, analysis, (text, minimum, *prefix_last), among).await;
            }
            Filter::Phrase { text, prefix_last, .. } => {
                let phrase = analysis.asked(text);
                let holds = |own: &str| phrases(&analysis.words(own), &phrase, *prefix_last).next().is_some();
                self.texts_for_which(&texts, among, holds).await?
            }
            Filter::Pattern { pattern, case_insensitive, .. } => {
                let matcher = Matcher::new(&folded(pattern, analysis), *case_insensitive)?;
                let holds = |text: &str| analysis.words(text).iter().any(|word| matcher.is_match(&word.text));
                self.texts_for_which(&texts, among, holds).await?
            }
            Filter::Range { lower, upper, .. } => {
                let (lower, upper) = (bound(lower, analysis), bound(upper, analysis));
                let holds = |text: &str| is_between(&analysis.fold(text), &lower, &upper);
                self.texts_for_which(&texts, among, holds).await?
            }
            _ => RoaringBitmap::new(),
        };
        Ok(Rows::Some(rows))
    }

    /// Rows with enough of the words of a text, in whichever of their values.
    async fn with_words(
        self,
        texts: &[&SplitField],
        analysis: &Analysis,
        (text, minimum, prefix_last): (&str, &Minimum, bool),
        among: Option<&RoaringBitmap>,
    ) -> Result<Rows> {
        let asked = analysis.asked_once(text, prefix_last);
        let needed = match minimum {
            Minimum::All => asked.len(),
            Minimum::Count(count) => (*count).max(1),
        };
        let mut found = Vec::with_capacity(asked.len());
        for (words, is_start) in &asked {
            let holds = |text: &str| analysis.words(text).iter().any(|own| is_one_of(own, words, *is_start));
            found.push(Rows::Some(self.texts_for_which(texts, among, holds).await?));
        }
        Ok(if found.is_empty() { Rows::none() } else { at_least(needed, found, self.split().rows()) })
    }

    async fn texts_for_which(
        self,
        texts: &[&SplitField],
        among: Option<&RoaringBitmap>,
        holds: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<RoaringBitmap> {
        let mut found = RoaringBitmap::new();
        for reading in texts {
            let rows = self.rows_with_value(reading, among).await?;
            found |= self.verify(reading, &rows, &holds).await?;
        }
        Ok(found)
    }
}

/// A bound as text; none where it is open, or no text.
fn bound(bound: &Bound, analysis: &Analysis) -> Option<Option<(String, bool)>> {
    let (edge, is_included) = match bound {
        Bound::Open => return Some(None),
        Bound::Included(edge) => (edge, true),
        Bound::Excluded(edge) => (edge, false),
    };
    Some(Some((analysis.fold(edge.text.as_deref()?).into_owned(), is_included)))
}

/// Whether a text is between two bounds; it is not, where one of them is none of text.
fn is_between(
    text: &str,
    lower: &Option<Option<(String, bool)>>,
    upper: &Option<Option<(String, bool)>>,
) -> bool {
    let is_above =
        |(bound, is_included): &(String, bool)| text > bound.as_str() || *is_included && text == bound;
    let is_below =
        |(bound, is_included): &(String, bool)| text < bound.as_str() || *is_included && text == bound;
    lower.as_ref().is_some_and(|bound| bound.as_ref().is_none_or(is_above))
        && upper.as_ref().is_some_and(|bound| bound.as_ref().is_none_or(is_below))
}
