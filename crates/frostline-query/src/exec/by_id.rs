//! Documents by `_id`, with where they are: for whoever replaces them.
//!
//! A split that cannot be read fails only the `_id`s that it may have, as far as its needle segment tells.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt32Type;
use bytes::Bytes;
use datafusion::execution::memory_pool::MemoryReservation;
use frostline_base::{Meter, SplitId};
use frostline_catalog::{Index, Located, LookedUp, Numbers, SplitEntry, UnknownId};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use roaring::RoaringBitmap;

use crate::errors::internal;
use crate::exec::needle::{matching, may_have};
use crate::exec::order::{Document, Documents};
use crate::exec::scan::{Local, Scan, spawned};
use crate::exec::splits::Splits;
use crate::filter::Filter;
use crate::prune::Target;
use crate::read::memory::{Room, reservation};
use crate::read::open::{OpenSplit, Searcher};
use crate::read::output::{Output, Parts, bytes_of, read_rows};
use crate::{Error, ErrorKind, Result};

/// More would not be asked of needle segments at once.
const IDS_AT_ONCE: usize = 100;
const LOOKUPS_AT_ONCE: usize = 4;
/// A text is held as it was read, and once more by whoever shows or changes it.
const COPIES: usize = 2;

impl Searcher {
    /// The documents of these `_id`s, each given once, in one version of an index.
    ///
    /// Takes as much memory as one query may: texts count as memory of queries until they are dropped. An `_id` is unknown if its documents take more than is left (`Exhausted`),
    /// or a split that may have it is damaged or gone (`Corrupt`). Any other failure fails the whole.
    pub async fn by_id(
        self: &Arc<Self>,
        index: &Arc<Index>,
        ids: &[String],
        with_text: bool,
    ) -> Result<LookedUp> {
        let lookup = Arc::new(Lookup {
            local: Arc::new(Local::new(self, None)),
            index: Arc::clone(index),
            parts: Parts { source: with_text, numbers: true },
        });
        // Texts come one after the other, so that memory that runs out has those that came first.
        let at_once = if with_text { 1 } else { LOOKUPS_AT_ONCE };
        let lookups: Vec<_> = ids.chunks(IDS_AT_ONCE).map(|ids| Lookup::run(&lookup, ids)).collect();
        let found = stream::iter(lookups).buffered(at_once);
        let add = |mut all: LookedUp, found: LookedUp| async move {
            all.add(found);
            Ok(all)
        };
        found.try_fold(LookedUp::default(), add).await
    }

    /// The documents of these rows of splits of this version of an index, with their texts where these are wanted, which
    /// count as memory of queries until they are dropped.
    ///
    /// `Exhausted` if they take more memory than one query may.
    pub async fn at_rows(
        self: &Arc<Self>,
        index: &Arc<Index>,
        rows: &BTreeMap<SplitId, RoaringBitmap>,
        with_text: bool,
    ) -> Result<Vec<Located>> {
        let lookup = Lookup {
            local: Arc::new(Local::new(self, None)),
            index: Arc::clone(index),
            parts: Parts { source: with_text, numbers: true },
        };
        let all = Splits::of(self, std::slice::from_ref(index));
        let wanted = all.ordinals().zip(all.entries()).filter(|(_, entry)| rows.contains_key(&entry.id));
        let splits = all.only(wanted.map(|(ordinal, _)| ordinal));
        let (local, meter) = (Arc::clone(&lookup.local), Arc::new(Meter::default()));
        let scan = Scan::new(local, &splits, &Filter::All, meter, false);
        scan.expect(0..scan.targets.len()).await;
        let (mut found, memory) = (Vec::new(), reservation(&lookup.local.memory, "documents by row"));
        for target in &scan.targets {
            let Some(rows) = rows.get(&target.entry.id) else { continue };
            let open = scan.open(target).await?;
            let (batch, _room) = lookup.of_rows(&scan, target, &open, rows).await?;
            memory.try_grow(batch.get_array_memory_size() * COPIES).map_err(internal)?;
            found.extend(documents(target.entry.id, &batch, &memory)?);
        }
        Ok(found)
    }
}

/// What is looked up.
struct Lookup {
    local: Arc<Local>,
    index: Arc<Index>,
    parts: Parts,
}

impl Lookup {
    /// Looks up fewer at a time where memory is short.
    fn run<'a>(self: &'a Arc<Self>, ids: &'a [String]) -> BoxFuture<'a, Result<LookedUp>> {
        Box::pin(async move {
            match self.once(ids).await {
                Err(error) if error.kind() == ErrorKind::Exhausted => match ids {
                    [id] => {
                        let unknown = vec![UnknownId { id: id.clone(), split: None, error }];
                        Ok(LookedUp { unknown, ..LookedUp::default() })
                    }
                    _ => {
                        let (first, second) = ids.split_at(ids.len() / 2);
                        let mut all = self.run(first).await?;
                        all.add(self.run(second).await?);
                        Ok(all)
                    }
                },
                found => found,
            }
        })
    }

    async fn once(self: &Arc<Self>, ids: &[String]) -> Result<LookedUp> {
        let (searcher, indices) = (&self.local.searcher, std::slice::from_ref(&self.index));
        let filter = Filter::Ids(ids.to_vec());
        let splits = Splits::of(searcher, indices);
        let asked = matching(searcher, None, indices, &splits, &filter).await;
        let meter = Arc::new(Meter::default());
        let scan = Arc::new(Scan::new(Arc::clone(&self.local), &asked, &filter, Arc::clone(&meter), false));
        scan.expect(0..scan.targets.len()).await;
        let reads = stream::iter(0..scan.targets.len()).map(|number| {
            let (lookup, of_scan) = (Arc::clone(self), Arc::clone(&scan));
            let read = spawned(async move { lookup.of_split(&of_scan, &of_scan.targets[number]).await });
            async move { (number, read.await) }
        });
        let mut reads = reads.buffer_unordered(scan.in_flight());
        let (mut found, memory) = (LookedUp::default(), reservation(&self.local.memory, "documents by id"));
        while let Some((number, read)) = reads.next().await {
            let entry = &scan.targets[number].entry;
            let documents = read.and_then(|(batch, _room)| {
                memory.try_grow(batch.get_array_memory_size() * COPIES).map_err(internal)?;
                documents(entry.id, &batch, &memory)
            });
            match documents {
                Ok(documents) => found.documents.extend(documents),
                Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {
                    let may_have = may_have(searcher, &self.index, entry.id, ids, &meter).await;
                    let ids = ids.iter().zip(may_have).filter(|(_, may_have)| *may_have);
                    found.unknown.extend(ids.map(|(id, _)| unreadable(id, entry, &error)));
                }
                Err(error) => return Err(error),
            }
        }
        found.documents.retain(|document| found.unknown.iter().all(|unknown| unknown.id != document.id));
        Ok(found)
    }

    async fn of_split(&self, scan: &Scan, target: &Target) -> Result<(RecordBatch, Room)> {
        let open = scan.open(target).await?;
        let rows = scan.select(target, &open).await?.clone().bitmap(open.split.rows());
        self.of_rows(scan, target, &open, &rows).await
    }

    async fn of_rows(
        &self,
        scan: &Scan,
        target: &Target,
        open: &OpenSplit,
        rows: &RoaringBitmap,
    ) -> Result<(RecordBatch, Room)> {
        let outputs: Vec<Output> = Output::address().into_iter().chain(self.parts.outputs()).collect();
        let room = scan.window.room(bytes_of(scan.view(open), &outputs, rows).await?).await?;
        let batch = read_rows(scan.view(open), target.ordinal, &outputs, rows).await?;
        Ok((batch, room))
    }
}

fn unreadable(id: &str, entry: &SplitEntry, error: &Error) -> UnknownId {
    let what =
        format!("the split {} cannot be read, and may have the document: restore its object", entry.id);
    let error = Error::corrupt(what).with("object", &entry.object.key).with_source(error.clone());
    UnknownId { id: id.to_owned(), split: Some(entry.id), error }
}

/// The documents of a batch; the texts take their part of `memory` with them.
fn documents(split: SplitId, batch: &RecordBatch, memory: &MemoryReservation) -> Result<Vec<Located>> {
    let rows = batch.column_by_name("_row").and_then(|rows| rows.as_primitive_opt::<UInt32Type>());
    let rows = rows.ok_or_else(|| Error::internal("a lookup by _id without rows"))?;
    let documents = Documents::of(batch);
    let of_row = |(at, row): (usize, &u32)| {
        let Some(Document { id, source, numbers: Some((version, seq_no)) }) = documents.at(at) else {
            return Err(Error::corrupt("a document is not text"));
        };
        let text = source.map(|text| held(text.get().to_owned(), memory));
        Ok(Located { id, split, row: *row, numbers: Numbers { version, seq_no }, text })
    };
    rows.values().iter().enumerate().map(of_row).collect()
}

/// A text that holds its part of `memory`.
fn held(text: String, memory: &MemoryReservation) -> Bytes {
    struct Held {
        text: String,
        _memory: MemoryReservation,
    }
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            self.text.as_bytes()
        }
    }
    let bytes = (text.len() * COPIES).min(memory.size());
    Bytes::from_owner(Held { text, _memory: memory.split(bytes) })
}

#[cfg(test)]
mod tests;
