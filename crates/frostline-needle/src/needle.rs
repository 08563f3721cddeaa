//! Segments together: which of them answers for which live split.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{ByteRange, Error, Result, SplitId};

use crate::segment::{Lookup, Segment};
use crate::split_set::SplitSet;

/// Some live splits, and the segments that answer for them.
///
/// A live split is ruled out only where a segment covers it and a page that was read and verified does not name it.
/// Whoever asks keeps every other split: those that no segment covers, those of a segment that is not asked, and those
/// of a segment whose answer is an error.
#[derive(Debug, Default)]
pub struct Needle {
    coverings: Vec<Covering>,
}

/// A segment, and the live splits that it answers for: at least one.
#[derive(Debug)]
pub struct Covering {
    place: usize,
    segment: Arc<Segment>,
    /// Number in the segment and number among the live splits.
    splits: Vec<(u16, u32)>,
}

impl Needle {
    /// For these live splits. Where several segments cover a split, the first of them answers for it.
    pub fn new(live: &[SplitId], segments: impl IntoIterator<Item = Arc<Segment>>) -> Needle {
        let mut numbers: HashMap<SplitId, u32> = live.iter().copied().zip(0..).collect();
        let coverings = segments.into_iter().enumerate().map(|(place, segment)| {
            let own = |(at, split): (usize, &SplitId)| Some((at as u16, numbers.remove(split)?));
            let splits = segment.splits().iter().enumerate().filter_map(own).collect();
            Covering { place, segment, splits }
        });
        Needle { coverings: coverings.filter(|covering| !covering.splits.is_empty()).collect() }
    }

    /// The segments that answer for live splits, in the order given.
    pub fn coverings(&self) -> &[Covering] {
        &self.coverings
    }
}

impl Covering {
    /// The place of the segment among those that the [`Needle`] was made of.
    pub fn place(&self) -> usize {
        self.place
    }

    /// The live splits that it answers for, by their places among all of them.
    pub fn live(&self) -> impl Iterator<Item = u32> + '_ {
        self.splits.iter().map(|(_, live)| *live)
    }

    /// All splits of the segment.
    pub fn all(&self) -> SplitSet {
        self.segment.all()
    }

    /// The pages that answer these lookups, each once.
    pub fn pages(&self, lookups: &[Lookup<'_>]) -> Vec<ByteRange> {
        let pages = lookups.iter().filter_map(|lookup| self.segment.page(lookup.term));
        let mut pages: Vec<ByteRange> = pages.collect();
        pages.sort_unstable_by_key(|page| page.start);
        pages.dedup();
        pages
    }

    /// For each lookup the splits that may hold it, from the bytes of [`Covering::pages`]. Unite and intersect them:
    /// their complements mean nothing. `Corrupt` where one of the pages is damaged or another one.
    pub fn answer(&self, lookups: &[Lookup<'_>], pages: &[Bytes]) -> Result<Vec<SplitSet>> {
        let ranges = self.pages(lookups);
        let answers = lookups.iter().map(|lookup| {
            let range = self.segment.page(lookup.term);
            let at = range.and_then(|range| ranges.iter().position(|other| *other == range));
            let none = Bytes::new();
            let page = at.map_or(Some(&none), |at| pages.get(at));
            let page = page.ok_or_else(|| Error::corrupt("a page of a needle segment was not read"))?;
            self.segment.answer(lookup, page)
        });
        answers.collect()
    }

    /// Those of the live splits that are ruled out where no others than these of the segment may match.
    pub fn ruled_out(&self, may_match: SplitSet) -> impl Iterator<Item = u32> + '_ {
        self.splits.iter().filter(move |(at, _)| !may_match.contains(*at)).map(|(_, live)| *live)
    }
}

#[cfg(test)]
mod tests;
