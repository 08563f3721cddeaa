//! Where the documents are that a search matches, split by split: for whoever deletes them.

use std::collections::VecDeque;
use std::sync::Arc;

use frostline_base::{IndexName, Meter, SplitId};
use futures::stream::{self, StreamExt, TryStreamExt};
use roaring::RoaringBitmap;

use crate::Result;
use crate::answer::search::Search;
use crate::exec::scan::{Local, Scan, spawned};
use crate::exec::splits::Splits;
use crate::filter::Filter;
use crate::prune;
use crate::select::Rows;

/// Splits of which the rows are held at the same time.
const SPLITS_AT_ONCE: usize = 64;

/// Documents of one split that match, at least one.
#[derive(Clone, Debug)]
pub struct Matched {
    /// The index that has the split.
    pub index: IndexName,
    /// The split,
    pub split: SplitId,
    /// and the rows in it.
    pub rows: RoaringBitmap,
}

/// The documents that a query matches, some splits at a time.
pub struct Matches {
    local: Arc<Local>,
    left: VecDeque<(Splits, Filter)>,
}

impl Search {
    /// The same search among the documents of these `_id`s alone.
    pub fn among(mut self, ids: &[String]) -> Search {
        for reading in &mut self.readings {
            reading.filter = prune::and([reading.filter.clone(), Filter::Ids(ids.to_vec())].into_iter());
        }
        self
    }

    /// Where the documents are that the query matches, in the versions that are searched.
    pub async fn matches(self) -> Matches {
        let mut left = VecDeque::new();
        for (splits, reading) in self.asked().await.into_iter().zip(&self.readings) {
            let ordinals: Vec<u32> = splits.ordinals().collect();
            let parts = ordinals.chunks(SPLITS_AT_ONCE).map(|part| splits.only(part.iter().copied()));
            left.extend(parts.map(|part| (part, reading.filter.clone())));
        }
        Matches { local: Arc::new(self.local()), left }
    }
}

impl Matches {
    /// Those of the next splits; none once there are no more. A split that cannot be read is an error.
    pub async fn next(&mut self) -> Result<Option<Vec<Matched>>> {
        let Some((splits, filter)) = self.left.pop_front() else { return Ok(None) };
        let (local, meter) = (Arc::clone(&self.local), Arc::new(Meter::default()));
        let scan = Arc::new(Scan::new(local, &splits, &filter, meter, false));
        let opened = scan.targets.iter().filter(|target| *target.filter != Filter::All);
        scan.expect(opened.map(|target| target.number)).await;
        let reads = stream::iter(0..scan.targets.len()).map(|number| {
            let scan = Arc::clone(&scan);
            spawned(async move { Ok((number, rows(&scan, number).await?)) })
        });
        let mut reads = reads.buffered(scan.in_flight());
        let mut matched = Vec::new();
        while let Some((number, rows)) = reads.try_next().await? {
            let target = &scan.targets[number];
            if let Some((entry, index)) = splits.get(target.ordinal).filter(|_| !rows.is_empty()) {
                matched.push(Matched { index: index.name.clone(), split: entry.id, rows });
            }
        }
        Ok(Some(matched))
    }
}

/// The rows of one split. One of which all match is not opened.
async fn rows(scan: &Scan, number: usize) -> Result<RoaringBitmap> {
    let target = &scan.targets[number];
    if *target.filter == Filter::All {
        return Ok(Rows::All.bitmap(u32::try_from(target.entry.rows).unwrap_or(u32::MAX)));
    }
    let open = scan.open(target).await?;
    Ok(scan.select(target, &open).await?.clone().bitmap(open.split.rows()))
}

#[cfg(test)]
mod tests;
