//! Reads the documents of known rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::execution::TaskContext;
use frostline_base::Meter;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::agg::HitAddress;
use crate::errors::internal;
use crate::exec::found::Found;
use crate::exec::report::{Report, Told};
use crate::exec::scan::{Local, Scan, spawned};
use crate::exec::splits::Splits;
use crate::filter::Filter;
use crate::prune::Target;
use crate::read::memory::{Room, reservation};
use crate::read::output::{Output, Parts, bytes_of, read_rows};

/// Some rows of some splits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Fetch {
    pub(crate) splits: Splits,
    /// By the number of the split, ascending.
    rows: BTreeMap<u32, Vec<u32>>,
    parts: Parts,
    partial: bool,
}

impl Fetch {
    /// The documents at these addresses, which are in `splits`.
    pub(crate) fn new(
        splits: &Splits,
        addresses: impl Iterator<Item = HitAddress>,
        parts: Parts,
        partial: bool,
    ) -> Fetch {
        let mut rows: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for address in addresses {
            rows.entry(address.split).or_default().push(address.row);
        }
        for rows in rows.values_mut() {
            rows.sort_unstable();
            rows.dedup();
        }
        Fetch { splits: splits.only(rows.keys().copied()), rows, parts, partial }
    }

    /// The same, for a part of the splits.
    pub(crate) fn of(&self, splits: Splits) -> Fetch {
        let rows = splits.ordinals().filter_map(|split| Some((split, self.rows.get(&split)?.clone())));
        Fetch { rows: rows.collect(), splits, ..*self }
    }

    pub(crate) fn describe(&self) -> String {
        format!("documents={}", self.rows.values().map(Vec::len).sum::<usize>())
    }

    pub(crate) fn run(
        &self,
        context: &Arc<TaskContext>,
    ) -> Result<(BoxStream<'static, Result<RecordBatch>>, Told)> {
        let (local, meter) = (Local::of(context)?, Arc::new(Meter::default()));
        let scan = Arc::new(Scan::new(local, &self.splits, &Filter::All, meter, self.partial));
        let (fetch, told, splits) = (self.clone(), Arc::clone(&scan), self.splits.clone());
        let answer = async move { fetch.answer(scan).await?.write() };
        Ok((stream::once(answer).boxed(), Box::new(move || told.report(&splits))))
    }

    async fn answer(self, scan: Arc<Scan>) -> Result<Found> {
        let fetch = Arc::new(self);
        let in_flight = scan.in_flight();
        let parts = stream::iter(0..scan.targets.len()).map(|number| {
            let (fetch, scan) = (Arc::clone(&fetch), Arc::clone(&scan));
            spawned(async move {
                let target = &scan.targets[number];
                let parts = scan.tolerate(target, fetch.parts(&scan, target).await)?.unwrap_or_default();
                Ok(stream::iter(parts.into_iter().map(move |rows| Ok((number, rows)))))
            })
        });
        let parts = parts.buffer_unordered(in_flight).try_flatten();
        let reads = parts.map_ok(|(number, rows)| {
            let (fetch, scan) = (Arc::clone(&fetch), Arc::clone(&scan));
            spawned(async move {
                let target = &scan.targets[number];
                let read = scan.tolerate(target, fetch.read(&scan, target, &rows).await)?;
                Ok(read.map(|(batch, room)| (target.ordinal, batch, room)))
            })
        });
        let mut reads = std::pin::pin!(reads.try_buffer_unordered(in_flight));
        let (mut read, memory) = (Vec::new(), reservation(&scan.local.memory, "documents"));
        while let Some(part) = reads.try_next().await? {
            if let Some((ordinal, batch, _room)) = part {
                memory.try_grow(batch.get_array_memory_size() * COPIES).map_err(internal)?;
                read.push((ordinal, batch));
            }
        }
        // Of a split that failed nothing is shown.
        read.retain(|(ordinal, _)| !scan.has_failed(*ordinal));
        let hits = read.into_iter().map(|(_, batch)| batch).collect();
        let report = Report { matched: 0, ..scan.report(&fetch.splits) };
        Ok(Found { hits, state: None, report })
    }

    /// The rows of a split, in parts to read at the same time.
    async fn parts(&self, scan: &Scan, target: &Target) -> Result<Vec<RoaringBitmap>> {
        let rows = self.rows.get(&target.ordinal).into_iter().flatten().copied();
        let open = scan.open(target).await?;
        let mut rows: RoaringBitmap = rows.filter(|row| *row < open.split.rows()).collect();
        if rows.len() < ROWS_APART_MIN || !open.split.renders_documents() {
            return Ok(vec![rows]);
        }
        let mut parts = Vec::new();
        while let Some(first) = rows.min() {
            let mut part = rows.clone();
            part.remove_range(open.split.read_together(first.saturating_add(1))..);
            rows -= &part;
            parts.push(part);
        }
        Ok(parts)
    }

    async fn read(&self, scan: &Scan, target: &Target, rows: &RoaringBitmap) -> Result<(RecordBatch, Room)> {
        let open = scan.open(target).await?;
        let (view, outputs) = (scan.view(&open), self.outputs());
        let room = scan.window.room(bytes_of(view, &outputs, rows).await?).await?;
        let batch = read_rows(view, target.ordinal, &outputs, rows).await?;
        Ok((batch, room))
    }

    fn outputs(&self) -> Vec<Output> {
        Output::address().into_iter().chain(self.parts.outputs()).collect()
    }
}

/// Of so many documents those of each row group are rendered by themselves. Pages of columns that are shown beside fewer of
/// them would be read once for each row group.
const ROWS_APART_MIN: u64 = 1_024;
/// Where a part of a document is shown, it is held as it was read, as it was parsed, and as it is shown.
const COPIES: usize = 3;

#[cfg(test)]
mod tests;
