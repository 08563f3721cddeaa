//! Keeps the indices of a repository in shape while documents come: retention, merging, vacuum.
//!
//! [`Upkeep::run`] is the one loop: a round over all indices, then a pause. In a round an index is asked for its newest
//! version, unless it rests: one that has not changed rests twice as long each time, at most [`UpkeepOptions::rest_max`].
//! Then, in this order, splits that are too old are removed, splits are merged until the policy has nothing left, needle
//! segments and packs are written if there are many to join, and what no version needs is vacuumed when that is due. Each
//! step is a commit of its own, which other writers may be ahead of: then a later round does it.
//!
//! What happens depends on the catalog, the policy and the clock that is passed in. Several processes may do this to the same
//! indices: nothing is lost, but they merge the same splits, and one of them in vain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use frostline_base::{Clock, Error, ErrorKind, IndexName, Result, SplitId};
use frostline_catalog::{
    Catalog, Change, DataStream, Index, Lifecycle, RecordChange, Records, Settings, SplitEntry, Vacuum,
};
use frostline_needle::KIND;
use frostline_store::Repository;
use futures::future::{Either, select};
use serde::Serialize;
use serde_json::Value;

use super::figures::{UpkeepCounts, add};
use crate::merge::{Merge, MergeCounts, MergePolicy, Merging};
use crate::needle::{self, Extent, Terms};
use crate::packs::{self, HeldFooters, PACK_SPLITS_MIN, Packs};
use crate::pipeline::{Cancel, Random};
use crate::settings;

/// Runs of single splits that gather before they are merged. A search reads a page of each.
const RUNS_MAX: usize = 64;
/// Commits that are lost to other writers before a later round tries again.
const CONFLICTS_MAX: u32 = 8;
/// The setting of an index.
const RETENTION: &str = "retention_ms";
/// How long documents stay in an index that were older than it keeps them when it was restored: time for whoever restored it
/// to keep them for longer.
pub const RESTORED_STAYS: Duration = Duration::from_secs(24 * 3_600);

/// What [`Upkeep`] does, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpkeepOptions {
    /// The pause between two rounds.
    pub every: Duration,
    /// The longest time for which an index that does not change is not looked at.
    pub rest_max: Duration,
    /// Which splits are merged; none merges nothing.
    pub merge: Option<MergePolicy>,
    /// What is vacuumed; none vacuums nothing.
    pub vacuum: Option<Vacuum>,
    /// The time between two vacuums of an index.
    pub vacuum_every: Duration,
}

impl Default for UpkeepOptions {
    fn default() -> Self {
        UpkeepOptions {
            every: Duration::from_secs(5),
            rest_max: Duration::from_secs(300),
            merge: Some(MergePolicy { memory_bytes_max: 512 << 20, ..MergePolicy::gradual() }),
            vacuum: Some(Vacuum::default()),
            vacuum_every: Duration::from_secs(3_600),
        }
    }
}

/// What a round did to an index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Splits that were removed because all their documents are older than the retention.
    pub splits_expired: u64,
    /// Documents in them.
    pub documents_expired: u64,
    /// Merges made.
    pub merges: u64,
    /// Objects that a vacuum deleted.
    pub objects_deleted: u64,
}

/// How long documents of an index are kept; none for ever: as long as its own settings say, or else the lifecycle of the data
/// stream that it belongs to.
pub fn retention(index: &Index, records: Option<&Records>) -> Result<Option<Duration>> {
    let own = own_retention(index.settings())?;
    let of_stream = || {
        let (_, stream) = records?.stream_of(index.name())?;
        let lifecycle = stream.lifecycle.as_ref().filter(|lifecycle| lifecycle.enabled)?;
        Some(Duration::from_millis(lifecycle.retention_ms?))
    };
    Ok(own.or_else(of_stream))
}

/// How long documents of an index are kept by its own settings. [`set_retention`] sets it.
pub fn own_retention(settings: &Settings) -> Result<Option<Duration>> {
    let Some(value) = settings.others.get(RETENTION).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let retention_ms = value.as_u64().filter(|ms| *ms > 0 && *ms <= i64::MAX as u64 / 1_000);
    let wrong =
        || Error::invalid("retention_ms of the index is not a number of milliseconds").with("value", value);
    retention_ms.map(|ms| Some(Duration::from_millis(ms))).ok_or_else(wrong)
}

/// Keeps the documents of an index so long, by their times; `None` for ever. A round of [`Upkeep`] removes splits of which every
/// document with a time is older. Documents without a time go with their split; a split of only such stays.
pub async fn set_retention(index: Index, retention: Option<Duration>) -> Result<Index> {
    let kept_ms = retention.map(retention_ms).transpose()?;
    settings::change(index, |settings| keep(settings, kept_ms)).await
}

/// Settings of a new index that keeps documents so long.
pub fn retaining(retention: Option<Duration>) -> Result<Settings> {
    let mut settings = Settings::default();
    keep(&mut settings, retention.map(retention_ms).transpose()?);
    Ok(settings)
}

fn keep(settings: &mut Settings, kept_ms: Option<u64>) {
    match kept_ms {
        Some(ms) => drop(settings.others.insert(RETENTION.to_owned(), Value::from(ms))),
        None => drop(settings.others.remove(RETENTION)),
    }
}

/// Sets how long a data stream keeps documents, in all of its indices, those to come among them; `None` for ever. `NotFound`
/// where there is no such stream.
pub async fn set_stream_retention(
    catalog: &Catalog,
    stream: &IndexName,
    retention: Option<Duration>,
) -> Result<Records> {
    let lifecycle = Lifecycle::new(true, retention.map(retention_ms).transpose()?);
    set_lifecycle(catalog, std::slice::from_ref(stream), Some(&lifecycle)).await
}

/// Sets the lifecycles of data streams, or removes them. `NotFound` where one of the streams is missing.
pub async fn set_lifecycle(
    catalog: &Catalog,
    streams: &[IndexName],
    lifecycle: Option<&Lifecycle>,
) -> Result<Records> {
    let plan = |records: &Records| {
        let mut changes = Vec::new();
        for name in streams {
            let missing = || Error::not_found(format!("there is no data stream {name}"));
            let mut stream = DataStream::clone(records.data_streams().get(name).ok_or_else(missing)?);
            if stream.lifecycle.as_ref() != lifecycle {
                stream.lifecycle = lifecycle.cloned();
                changes.push(RecordChange::DataStream(name.clone(), Some(stream)));
            }
        }
        Ok(changes)
    };
    catalog.change_records("lifecycle", plan).await
}

/// A retention in milliseconds. `Invalid` where it is none, or longer than any time.
pub fn retention_ms(retention: Duration) -> Result<u64> {
    match u64::try_from(retention.as_millis()) {
        Ok(ms) if ms > 0 && ms <= i64::MAX as u64 / 1_000 => Ok(ms),
        _ => Err(Error::invalid("a retention has at least a millisecond, and less than 292,000 years")),
    }
}

/// Keeps the indices of a repository in shape.
pub struct Upkeep {
    repository: Repository,
    catalog: Catalog,
    clock: Arc<dyn Clock>,
    random: Random,
    options: UpkeepOptions,
    cancel: Cancel,
    rounds: tokio::sync::Mutex<Rounds>,
    counts: Arc<UpkeepCounts>,
    merges: Arc<MergeCounts>,
}

/// What earlier rounds left.
#[derive(Default)]
struct Rounds {
    indices: BTreeMap<IndexName, Seen>,
    /// When the folders of deleted indices were vacuumed.
    vacuumed_us: Option<i64>,
}

/// An index as the last round left it.
struct Seen {
    /// It knows which splits cannot be merged.
    merging: Merging,
    segments: usize,
    /// It is not looked at before.
    rests_until_us: i64,
    rest_us: i64,
    vacuumed_us: Option<i64>,
    /// There may be something to vacuum.
    has_waste: bool,
}

impl Upkeep {
    /// Of the indices of `catalog`, which are in `repository`.
    pub fn new(
        repository: &Repository,
        catalog: &Catalog,
        clock: Arc<dyn Clock>,
        random: Random,
        options: UpkeepOptions,
    ) -> Upkeep {
        let (repository, catalog) = (repository.clone(), catalog.clone());
        let (cancel, rounds) = (Cancel::default(), Default::default());
        let (counts, merges) = (Arc::default(), Arc::default());
        Upkeep { repository, catalog, clock, random, options, cancel, rounds, counts, merges }
    }

    /// What it does is counted here.
    pub fn counts(&self) -> &Arc<UpkeepCounts> {
        &self.counts
    }

    /// Counts its merges there, by index.
    #[must_use]
    pub fn counting_merges(self, merges: &Arc<MergeCounts>) -> Upkeep {
        Upkeep { merges: Arc::clone(merges), ..self }
    }

    /// Makes rounds until `stop` is there. What is being done then is ended; a merge whose split is not being sealed yet is
    /// dropped. Failures are told, and the next round tries again.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        loop {
            let round = std::pin::pin!(self.round());
            let is_last = match select(round, &mut stop).await {
                Either::Left((kept, _)) => {
                    tell(kept);
                    false
                }
                Either::Right(((), round)) => {
                    self.cancel.cancel();
                    tell(round.await);
                    true
                }
            };
            let pause = std::pin::pin!(tokio::time::sleep(self.options.every));
            if is_last || matches!(select(pause, &mut stop).await, Either::Right(_)) {
                return;
            }
        }
    }

    /// One round over all indices, one after the other: what was done to those that were looked at.
    pub async fn round(&self) -> Result<Vec<(IndexName, Result<Kept>)>> {
        let done = self.make_round().await;
        self.count(&done);
        done
    }

    /// Counts what a round did.
    fn count(&self, done: &Result<Vec<(IndexName, Result<Kept>)>>) {
        let counts = &self.counts;
        add(&counts.rounds, 1);
        let Ok(done) = done else { return add(&counts.failures, 1) };
        for kept in done.iter().filter_map(|(_, kept)| kept.as_ref().ok()) {
            add(&counts.merges, kept.merges);
            add(&counts.splits_expired, kept.splits_expired);
            add(&counts.documents_expired, kept.documents_expired);
            add(&counts.objects_deleted, kept.objects_deleted);
        }
        match done.iter().filter(|(_, kept)| kept.is_err()).count() as u64 {
            0 => counts.last_whole_us.store(self.clock.now_us(), Ordering::Relaxed),
            failed => add(&counts.failures, failed),
        }
    }

    async fn make_round(&self) -> Result<Vec<(IndexName, Result<Kept>)>> {
        let mut rounds = self.rounds.lock().await;
        let now_us = self.clock.now_us();
        let records = self.catalog.records().await?;
        // Those that are mounted stay as they are.
        let names = records.indices().filter(|name| records.mounted(name).is_none()).cloned();
        let names: Vec<IndexName> = names.collect();
        rounds.indices.retain(|name, _| names.binary_search(name).is_ok());
        let tables: BTreeSet<&str> = records.indices().filter_map(|name| records.table_id(name)).collect();
        self.merges.retain(|table| tables.contains(table));
        let mut all = Vec::new();
        for name in names {
            let rests = rounds.indices.get(&name).is_some_and(|seen| seen.rests_until_us > now_us);
            if rests || self.cancel.is_cancelled() {
                continue;
            }
            let seen = rounds.indices.remove(&name);
            let kept = self.look_at(&name, seen).await.map(|(seen, kept)| {
                rounds.indices.insert(name.clone(), seen);
                kept
            });
            all.push((name, kept));
        }
        if let Some(vacuum) = self.options.vacuum.as_ref().filter(|_| self.is_due(rounds.vacuumed_us)) {
            self.catalog.vacuum_deleted(vacuum).await?;
            rounds.vacuumed_us = Some(now_us);
        }
        Ok(all)
    }

    async fn look_at(&self, name: &IndexName, seen: Option<Seen>) -> Result<(Seen, Kept)> {
        let (mut seen, has_changed) = match seen {
            None => (self.see(self.catalog.open(name).await?).await?, true),
            Some(mut seen) => {
                let (before, index) =
                    (seen.merging.index(), self.catalog.refresh(seen.merging.index()).await?);
                let is_same = index.table_id() == before.table_id() && index.settings() == before.settings();
                let has_changed = !is_same || index.version() != before.version();
                match is_same {
                    true => seen.merging.continue_at(&index),
                    false => seen = self.see(index).await?,
                }
                (seen, has_changed)
            }
        };
        let mut kept = Kept::default();
        self.expire(&mut seen.merging, &mut kept).await?;
        self.merge(&mut seen, &mut kept).await?;
        seen.has_waste |= has_changed;
        if let Some(vacuum) =
            self.options.vacuum.as_ref().filter(|_| seen.has_waste && self.is_due(seen.vacuumed_us))
        {
            let vacuumed = seen.merging.index().vacuum(vacuum).await?;
            kept.objects_deleted = vacuumed.deleted.len() as u64;
            seen.vacuumed_us = Some(self.clock.now_us());
            seen.has_waste = vacuumed.kept > 0;
        }
        let every_us = micros(self.options.every);
        let longer_us = seen.rest_us.saturating_mul(2).min(micros(self.options.rest_max));
        seen.rest_us = if has_changed { every_us } else { longer_us };
        // Rounds come a little late.
        seen.rests_until_us = self.clock.now_us().saturating_add(seen.rest_us - every_us / 2);
        Ok((seen, kept))
    }

    /// An index that is seen for the first time.
    async fn see(&self, index: Index) -> Result<Seen> {
        let terms = Terms::of(&self.catalog, &index, &self.random).await?;
        let merge = Merge::new(&self.repository, &self.catalog, Arc::clone(&self.random))
            .with_cancel(&self.cancel)
            .counting(&self.merges);
        let policy = self.options.merge.clone().unwrap_or_default();
        Ok(Seen {
            merging: merge.merging(index, terms, &policy),
            segments: 0,
            rests_until_us: i64::MIN,
            rest_us: 0,
            vacuumed_us: None,
            has_waste: true,
        })
    }

    fn is_due(&self, vacuumed_us: Option<i64>) -> bool {
        let every_us = micros(self.options.vacuum_every);
        vacuumed_us.is_none_or(|last| self.clock.now_us().saturating_sub(last) >= every_us)
    }

    /// Removes the splits of which every document with a time is too old.
    async fn expire(&self, merging: &mut Merging, kept: &mut Kept) -> Result<()> {
        let mut index = merging.index().clone();
        for _ in 0..CONFLICTS_MAX {
            // They were read with the index.
            let old = self.expired(&index)?;
            if old.is_empty() {
                merging.continue_at(&index);
                return Ok(());
            }
            let is_live = |split| !old.contains_key(&split) && index.split(split).is_some();
            let dead =
                needle::dead_files(&index, is_live).into_iter().chain(packs::dead_files(&index, is_live));
            let change = Change {
                remove: old.keys().copied().collect(),
                files_remove: dead.collect(),
                because_of: Some(index.settings().clone()),
                operation: "retention".to_owned(),
                ..Change::default()
            };
            match index.commit(change).await {
                Ok(without) => {
                    let (without, old) = self.put_back(&index, without, old).await?;
                    kept.splits_expired = old.len() as u64;
                    kept.documents_expired = old.values().sum();
                    if kept.splits_expired > 0 {
                        let (splits, documents) = (kept.splits_expired, kept.documents_expired);
                        tracing::info!(index = %index.name(), splits, documents, "removed what is older than is kept");
                    }
                    merging.continue_at(&without);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    index = self.catalog.refresh(&index).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::conflict("other writers keep changing the index"))
    }

    /// The splits of an index that are too old by the newest records that were read.
    fn expired(&self, index: &Index) -> Result<BTreeMap<SplitId, u64>> {
        let records = self.catalog.seen_records();
        let retention = retention(index, records.as_ref())?;
        let restored_ms = records.and_then(|records| records.restored_ms(index.name()));
        let now_us = self.clock.now_us();
        Ok(retention.map(|retention| expired(index, retention, restored_ms, now_us)).unwrap_or_default())
    }

    /// The index without the splits that are too old by now, and which these are: a stream may have come to keep documents
    /// for longer just before they were removed `before`. The commit has read the records again after it was made.
    async fn put_back(
        &self,
        before: &Index,
        without: Index,
        mut removed: BTreeMap<SplitId, u64>,
    ) -> Result<(Index, BTreeMap<SplitId, u64>)> {
        let still_old = self.expired(before)?;
        let wanted = removed.keys().filter(|id| !still_old.contains_key(id));
        let wanted: Vec<SplitEntry> =
            wanted.filter_map(|id| before.split(*id)).map(|split| SplitEntry::clone(split)).collect();
        if wanted.is_empty() {
            return Ok((without, removed));
        }
        removed.retain(|id, _| still_old.contains_key(id));
        let operation = "retention ended".to_owned();
        let index = without.commit(Change { add: wanted, operation, ..Change::default() }).await;
        let lost = |e: Error| e.context("documents that are kept for longer by now could not be put back");
        Ok((index.map_err(lost)?, removed))
    }

    /// Merges splits, and what is beside them.
    async fn merge(&self, seen: &mut Seen, kept: &mut Kept) -> Result<()> {
        let merges_before = seen.merging.report().merges;
        while let Some(group) = seen.merging.next_group().filter(|_| self.options.merge.is_some()) {
            match seen.merging.merge(&group).await {
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(error) => tracing::warn!(?error, "splits are not merged"),
                Ok(()) => {}
            }
        }
        kept.merges = seen.merging.report().merges - merges_before;
        let segments = |index: &Index| index.files().filter(|file| file.kind == KIND).count();
        if segments(seen.merging.index()) > seen.segments + RUNS_MAX {
            seen.merging.merge_segments(Extent::Small).await?;
            seen.segments = segments(seen.merging.index());
        }
        let index = seen.merging.index().clone();
        if index.settings().needle {
            let (repository, random) = (self.repository.clone(), Arc::clone(&self.random));
            let (cancel, held) = (self.cancel.clone(), HeldFooters::default());
            let packs = Packs { repository, random, cancel, splits_min: PACK_SPLITS_MIN, held };
            seen.merging.continue_at(&packs.write_if_many(index).await?);
        }
        Ok(())
    }
}

impl std::fmt::Debug for Upkeep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upkeep").field("repository", &self.repository).finish_non_exhaustive()
    }
}

/// Tells what failed in a round.
fn tell(kept: Result<Vec<(IndexName, Result<Kept>)>>) {
    match kept {
        Err(error) => tracing::warn!(?error, "indices are not kept in shape: the next round tries again"),
        Ok(kept) => {
            for (index, kept) in kept {
                match kept {
                    Ok(kept) => tracing::debug!(%index, ?kept, "an index was looked at"),
                    Err(error) => {
                        tracing::warn!(%index, ?error, "an index is not kept in shape: a later round tries again")
                    }
                }
            }
        }
    }
}

/// The splits that retention removes, with their rows: those of which every document with a time is older. Of an index that
/// was just restored, those that were older by then stay for [`RESTORED_STAYS`].
pub fn expired(
    index: &Index,
    retention: Duration,
    restored_ms: Option<i64>,
    now_us: i64,
) -> BTreeMap<SplitId, u64> {
    let oldest_us = now_us.saturating_sub(micros(retention));
    let restored_us = restored_ms.map(|ms| ms.saturating_mul(1_000));
    let restored_us = restored_us.filter(|at| now_us < at.saturating_add(micros(RESTORED_STAYS)));
    let stays_us = restored_us.map_or(i64::MIN, |at| at.saturating_sub(micros(retention)));
    let is_old =
        |split: &&Arc<SplitEntry>| split.times.is_some_and(|(_, last)| (stays_us..oldest_us).contains(&last));
    index.splits().iter().filter(is_old).map(|split| (split.id, split.rows)).collect()
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
