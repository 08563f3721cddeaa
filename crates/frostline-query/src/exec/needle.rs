//! Asks needle segments which splits need not be opened: once for a query, after the catalog's times, with one round of
//! requests.
//!
//! Asking never fails and changes no answer. Splits stay that no open segment covers, whose segment is not worth its
//! pages, or of which a page cannot be read.

use std::sync::Arc;

use frostline_base::{Cost, Meter, ObjectRef, Result, Share, SplitId, read_decoded};
use frostline_catalog::Index;
use frostline_needle::{Covering, Kinds, Lookup, Needle, SplitSet, TermHash, TermKey};
use frostline_split::{TERMS_VERSION, ValueType};
use futures::future::join_all;
use roaring::RoaringBitmap;

use crate::exec::results::{Key, Results};
use crate::exec::scan::spawned;
use crate::exec::splits::Splits;
use crate::filter::Filter;
use crate::read::open::Searcher;
use crate::read::segments::{OfIndex, OpenSegments};
use crate::select::terms::{Ask, Terms};

/// Opening a split takes so many requests at least: of its hot footer and of a block of its dictionary.
const OPENING_REQUESTS: usize = 2;

/// What is asked for a filter.
#[derive(Debug)]
pub(crate) struct Question {
    terms: Terms,
    /// In the order of [`Terms::asks`].
    asks: Vec<Asked>,
    indices: Vec<Arc<Index>>,
    /// Of each index.
    open: Vec<OfIndex>,
    /// Of each index whether a split, by its place, may hold matches as far as it is known.
    left: Vec<Vec<bool>>,
    /// The segments that are asked: the number of the index, and which of its coverings.
    asked: Vec<(usize, usize)>,
    pages: usize,
    splits: usize,
}

/// What a page is asked for.
#[derive(Debug)]
struct Asked {
    term: TermHash,
    field: Option<String>,
    kinds: Kinds,
}

impl Asked {
    fn new(ask: &Ask, key: &TermKey) -> Asked {
        Asked { term: key.of_split(&ask.term), field: ask.path.clone(), kinds: kinds(&ask.without_terms) }
    }
}

impl Question {
    /// What may rule out some of these splits, of these indices, of which the segments are opened for it. None where
    /// asking cannot pay: a segment is not asked whose pages are as many as the requests of opening its splits, nor are all
    /// together if their pages are as many as those of opening all of their splits but one. Who asks mostly finds
    /// something.
    pub(crate) async fn of(
        searcher: &Searcher,
        indices: &[Arc<Index>],
        splits: &Splits,
        terms: Terms,
        opening: &Meter,
    ) -> Option<Question> {
        if terms.asks().is_empty() || splits.len() < 2 {
            return None;
        }
        let OpenSegments { key, of_indices: open } = searcher.segments_of(indices, opening).await;
        let asks = terms.asks().into_iter().map(|ask| Asked::new(ask, &key));
        let left = indices.iter().map(|index| splits.places_in(index)).collect();
        let (asks, indices) = (asks.collect(), indices.to_vec());
        let mut question =
            Question { asks, terms, indices, open, left, asked: Vec::new(), pages: 0, splits: 0 };
        let lookups = lookups(&question.asks);
        for (index, (of, left)) in question.open.iter().zip(&question.left).enumerate() {
            for (number, covering) in of.needle.coverings().iter().enumerate() {
                let live = covering.live().filter(|place| left.get(*place as usize) == Some(&true)).count();
                let pages = covering.pages(&lookups).len();
                if pages < live * OPENING_REQUESTS {
                    question.asked.push((index, number));
                    question.pages += pages;
                    question.splits += live;
                }
            }
        }
        drop(lookups);
        let others = question.splits.checked_sub(1)?;
        (question.pages < others * OPENING_REQUESTS).then_some(question)
    }

    /// The pages that are read.
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    /// The splits that may be ruled out.
    pub(crate) fn splits(&self) -> usize {
        self.splits
    }

    /// The places of the splits that may hold matches among those of which it was made.
    async fn ask(self, searcher: &Arc<Searcher>, splits: &Splits) -> Left {
        let (question, meter) = (Arc::new(self), Arc::new(Meter::default()));
        let asked = question.asked.iter().map(|(index, number)| {
            let (question, searcher) = (Arc::clone(&question), Arc::clone(searcher));
            let (meter, index, number) = (Arc::clone(&meter), *index, *number);
            spawned(async move { question.ask_one(index, number, &searcher, &meter).await })
        });
        let answers = join_all(asked).await;
        let (mut left, mut whole) = (question.left.clone(), true);
        for ((index, number), answer) in question.asked.iter().zip(answers) {
            let covering = &question.open[*index].needle.coverings()[*number];
            let may_match = answer.unwrap_or_else(|error| {
                let object = question.object(*index, covering).key.as_str();
                tracing::warn!(object, ?error, "a needle segment gives no answer: its splits are opened");
                whole = false;
                covering.all()
            });
            for place in covering.ruled_out(may_match) {
                left[*index][place as usize] = false;
            }
        }
        // A split does not say its own identity.
        for own in question.terms.asks().into_iter().filter_map(Ask::own_split) {
            for ((index, left), before) in question.indices.iter().zip(&mut left).zip(&question.left) {
                if let Ok(place) = index.splits().binary_search_by_key(&own, |split| split.id) {
                    left[place] = before[place];
                }
            }
        }
        Left { places: splits.at_places(&question.indices, &left), cost: meter.cost(), whole }
    }

    /// The splits of one segment that may hold matches.
    async fn ask_one(
        &self,
        index: usize,
        number: usize,
        searcher: &Searcher,
        meter: &Meter,
    ) -> Result<SplitSet> {
        let (covering, lookups) = (&self.open[index].needle.coverings()[number], lookups(&self.asks));
        let pages = covering.pages(&lookups);
        let bytes: u64 = pages.iter().map(|page| page.end - page.start).sum();
        let _room = searcher.reads.acquire(usize::try_from(bytes).unwrap_or(usize::MAX)).await;
        let (reader, object) = (searcher.reader.as_ref(), self.object(index, covering));
        let decode = |pages: Vec<_>| covering.answer(&lookups, &pages);
        let answers = read_decoded(reader, object, &pages, Share::Index, meter, decode).await?;
        Ok(self.terms.splits(covering.all(), &mut answers.into_iter()))
    }

    fn object(&self, index: usize, covering: &Covering) -> &ObjectRef {
        &self.open[index].segments[covering.place()].0
    }
}

fn lookups(asks: &[Asked]) -> Vec<Lookup<'_>> {
    asks.iter()
        .map(|Asked { term, field, kinds }| Lookup { term: *term, field: field.as_deref(), kinds: *kinds })
        .collect()
}

/// What values may be that match: values of these types and all that have terms.
fn kinds(without_terms: &[ValueType]) -> Kinds {
    let with_terms = Kinds::TEXT | Kinds::WHOLE | Kinds::ADDRESS | Kinds::BOOLEAN;
    without_terms.iter().fold(with_terms, |kinds, ty| kinds | Kinds::without_terms(*ty))
}

/// What asking leaves.
struct Left {
    places: RoaringBitmap,
    cost: Cost,
    /// Whether every segment that was asked has answered.
    whole: bool,
}

/// The splits, of all of these indices or some, that may hold matches of a filter: by their times, then by needle
/// segments. What these leave is remembered, and kept in `results`, so that the same filter asks them nothing again.
pub(crate) async fn matching(
    searcher: &Arc<Searcher>,
    results: Option<&Results>,
    indices: &[Arc<Index>],
    splits: &Splits,
    filter: &Filter,
) -> Splits {
    let (matching, terms) = (splits.matching(filter), Terms::of(filter));
    if terms.asks().is_empty() {
        return matching;
    }
    let Some(key) = kept_as(indices, &matching, filter) else { return matching };
    if let Some(places) = searcher.left_by_needle.get(&key.bits()) {
        return matching.left_by_needle(&places, Cost::default());
    }
    if let Some(results) = results
        && let Some(bytes) = results.get(&key).await
        && let Ok(places) = RoaringBitmap::deserialize_from(bytes.as_slice())
    {
        return matching.left_by_needle(&places, Cost::default());
    }
    let opening = Meter::default();
    let question = Question::of(searcher, indices, &matching, terms, &opening).await;
    let matching = matching.after_opening(opening.cost());
    let Some(question) = question else { return matching };
    let Left { places, cost, whole } = question.ask(searcher, &matching).await;
    let left = matching.left_by_needle(&places, cost);
    if whole {
        let mut bytes = Vec::new();
        if let Some(results) = results
            && places.serialize_into(&mut bytes).is_ok()
        {
            results.put(&key, bytes).await;
        }
        searcher.left_by_needle.insert(key.bits(), places);
    }
    left
}

/// Which of the documents with these `_id`s a split may have, as far as a needle segment tells: for a split that
/// cannot be read itself.
pub(crate) async fn may_have(
    searcher: &Searcher,
    index: &Arc<Index>,
    split: SplitId,
    ids: &[String],
    meter: &Meter,
) -> Vec<bool> {
    match told(searcher, index, split, ids, meter).await {
        Ok(Some(may_have)) => may_have,
        Ok(None) => vec![true; ids.len()],
        Err(error) => {
            tracing::warn!(%split, ?error, "a needle segment does not tell what a split has");
            vec![true; ids.len()]
        }
    }
}

/// The same; none where the split has no segment.
async fn told(
    searcher: &Searcher,
    index: &Arc<Index>,
    split: SplitId,
    ids: &[String],
    meter: &Meter,
) -> Result<Option<Vec<bool>>> {
    let Some((key, object, segment)) = searcher.segment_of(index, split, meter).await? else {
        return Ok(None);
    };
    let needle = Needle::new(&[split], [segment]);
    let Some(covering) = needle.coverings().first() else { return Ok(None) };
    let terms: Vec<Terms> = ids.iter().map(|id| Terms::of(&Filter::Ids(vec![id.clone()]))).collect();
    let asks: Vec<Asked> = terms.iter().flat_map(Terms::asks).map(|ask| Asked::new(ask, &key)).collect();
    let lookups = lookups(&asks);
    let decode = |pages: Vec<_>| covering.answer(&lookups, &pages);
    let (reader, pages) = (searcher.reader.as_ref(), covering.pages(&lookups));
    let mut answers = read_decoded(reader, &object, &pages, Share::Index, meter, decode).await?.into_iter();
    let may_have = terms.iter().map(|terms| {
        let may_match = terms.splits(covering.all(), &mut answers);
        covering.ruled_out(may_match).next().is_none()
            // A split does not say its own identity.
            || terms.asks().into_iter().any(|ask| ask.own_split() == Some(split))
    });
    Ok(Some(may_have.collect()))
}

/// Under which key it is kept what these indices' segments leave of these splits; none if there are no splits.
fn kept_as(indices: &[Arc<Index>], splits: &Splits, filter: &Filter) -> Option<Key> {
    let first = splits.entries().next()?.id;
    let files = indices.iter().flat_map(|index| index.files());
    let files: Vec<u8> = files.flat_map(|file| file.id.bits().to_le_bytes()).collect();
    // What is asked follows from the rule of terms.
    let rule = TERMS_VERSION.to_le_bytes();
    Some(Key::new(first, &[b"needle", &rule, &splits.digest(), &files, &postcard::to_allocvec(filter).ok()?]))
}

#[cfg(test)]
mod tests;
