//! Segments together: which of all live splits may hold a term.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{ByteRange, Error, SplitId};
use roaring::RoaringBitmap;

use crate::segment::{Lookup, Segment};
use crate::split_set::SplitSet;

/// Segments, and the live splits that each of them answers for.
///
/// Safe by construction: an answer leaves out a live split only where a segment covers it and a page that was read
/// and verified does not name it. Every other split is in the answer: those that no segment covers, and those of a
/// page that could not be read.
#[derive(Debug)]
pub struct Needle {
    segments: Vec<Covering>,
    /// Live splits that no segment covers.
    uncovered: RoaringBitmap,
}

#[derive(Debug)]
struct Covering {
    segment: Arc<Segment>,
    /// Number in the segment and number among the live splits, where this segment answers for a live split.
    splits: Vec<(u16, u32)>,
}

/// What has to be read for some lookups.
#[derive(Debug)]
pub struct Plan<'a> {
    needle: &'a Needle,
    lookups: &'a [Lookup<'a>],
    reads: Vec<PageRead>,
}

/// A page of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRead {
    /// The place of the segment among those that the [`Needle`] was made of.
    pub segment: usize,
    /// The page's bytes in its file.
    pub range: ByteRange,
}

/// What the pages say.
#[derive(Debug)]
pub struct Answer {
    /// For each lookup the live splits that may hold it, by their places among the live ones. Unite and intersect
    /// them; their complements mean nothing.
    pub splits: Vec<RoaringBitmap>,
    /// The pages that were not read or are damaged, and why. Their segments' splits are in the answers.
    pub damage: Vec<(PageRead, Error)>,
}

impl Needle {
    /// For the live splits of a table. Where several segments cover a split, the first of them answers for it; one
    /// that answers for none is never read.
    pub fn new(live: &[SplitId], segments: Vec<Arc<Segment>>) -> Needle {
        let mut numbers: HashMap<SplitId, u32> = live.iter().copied().zip(0..).collect();
        let mut uncovered: RoaringBitmap = (0..live.len() as u32).collect();
        let segments = segments.into_iter().map(|segment| {
            let own = |(at, split): (usize, &SplitId)| Some((at as u16, numbers.remove(split)?));
            let splits: Vec<(u16, u32)> = segment.splits().iter().enumerate().filter_map(own).collect();
            uncovered -= splits.iter().map(|(_, live)| *live).collect::<RoaringBitmap>();
            Covering { segment, splits }
        });
        let segments = segments.collect();
        Needle { segments, uncovered }
    }

    /// The live splits that no segment covers, by their places among the live ones.
    pub fn uncovered(&self) -> &RoaringBitmap {
        &self.uncovered
    }

    /// Which pages answer these lookups, each page once.
    pub fn plan<'a>(&'a self, lookups: &'a [Lookup<'a>]) -> Plan<'a> {
        let mut reads = Vec::new();
        for (number, covering) in self.segments.iter().enumerate().filter(|(_, one)| !one.splits.is_empty()) {
            let mut ranges: Vec<ByteRange> =
                lookups.iter().filter_map(|lookup| covering.segment.page(lookup.term)).collect();
            ranges.sort_unstable_by_key(|range| range.start);
            ranges.dedup();
            reads.extend(ranges.into_iter().map(|range| PageRead { segment: number, range }));
        }
        Plan { needle: self, lookups, reads }
    }
}

impl Plan<'_> {
    /// The pages to read, all at the same time.
    pub fn reads(&self) -> &[PageRead] {
        &self.reads
    }

    /// The answers from the pages, in the order of [`Plan::reads`]. A page that could not be read is its error;
    /// one that is left out at the end counts as not read.
    pub fn answer(&self, pages: impl IntoIterator<Item = Result<Bytes, Error>>) -> Answer {
        let mut pages: Vec<Result<Bytes, Error>> = pages.into_iter().collect();
        pages.resize_with(self.reads.len(), || {
            Err(Error::unavailable("a page of a needle segment was not read"))
        });
        let mut answer =
            Answer { splits: vec![self.needle.uncovered.clone(); self.lookups.len()], damage: Vec::new() };
        for (number, covering) in self.needle.segments.iter().enumerate() {
            let first = self.reads.partition_point(|read| read.segment < number);
            let last = self.reads.partition_point(|read| read.segment <= number);
            let (reads, pages) = (&self.reads[first..last], &mut pages[first..last]);
            for (lookup, live) in self.lookups.iter().zip(&mut answer.splits) {
                let splits = covering.answer(lookup, reads, pages);
                let chosen = covering.splits.iter().filter(|(at, _)| splits.contains(*at));
                live.extend(chosen.map(|(_, live)| *live));
            }
            for (read, page) in reads.iter().zip(pages) {
                if let Err(error) = page {
                    answer.damage.push((read.clone(), error.clone()));
                }
            }
        }
        answer
    }
}

impl Covering {
    /// A page that turns out to be damaged becomes its error.
    fn answer(
        &self,
        lookup: &Lookup<'_>,
        reads: &[PageRead],
        pages: &mut [Result<Bytes, Error>],
    ) -> SplitSet {
        let range = self.segment.page(lookup.term);
        let at = range.and_then(|range| reads.iter().position(|read| read.range == range));
        let none = Ok(Bytes::new());
        let page = at.and_then(|at| pages.get(at)).unwrap_or(&none);
        let answer = page.as_ref().map_err(Error::clone).and_then(|page| self.segment.answer(lookup, page));
        match (answer, at.and_then(|at| pages.get_mut(at))) {
            (Ok(splits), _) => splits,
            (Err(error), place) => {
                if let Some(place) = place {
                    *place = Err(error);
                }
                self.segment.all()
            }
        }
    }
}

#[cfg(test)]
mod tests;
