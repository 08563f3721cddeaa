//! Removing snapshots, and deleting what none needs.
//!
//! Guarantees:
//! - Whatever a snapshot refers to that is there, or is being written, or was removed less than `retain_ms` ago, stays.
//! - The objects are listed *before* the log is read, so each listed object was written by a snapshot that the log
//!   knows, or knew.
//! - Nothing is deleted that no snapshot of ours can have written, nor a mount of one.
//! - Stopped at any moment it leaves every snapshot whole; the next prune finishes.

mod policy;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;

use frostline_base::{Error, ErrorKind, Result};
use frostline_store::Listed;

use crate::log::{LogEntry, Snapshot, SnapshotName, State, VolumeName};
use crate::reader;
use crate::traces::{TRACES, parts};
use crate::tree::{DATA, SnapshotId, pack_key, tree_key};
use crate::volumes::Volumes;

const HOUR_MS: i64 = 3_600_000;
/// Heads of trees that are read at the same time.
const READS_AT_ONCE: usize = 16;

/// What to remove, and when to delete what is not needed.
#[derive(Clone, Debug)]
pub struct Prune {
    /// Snapshots to remove.
    pub remove: Vec<SnapshotName>,
    /// Of each volume (or of `volume` alone) only so many newest snapshots stay.
    pub keep_last: Option<usize>,
    /// Of each day, the newest snapshot stays, for so many days that have one. The oldest snapshot stays while there are
    /// fewer.
    pub keep_daily: Option<usize>,
    /// The same of weeks.
    pub keep_weekly: Option<usize>,
    /// The same of months.
    pub keep_monthly: Option<usize>,
    /// The volume that these are about.
    pub volume: Option<VolumeName>,
    /// The objects of removed snapshots stay this long, for the restores that have begun.
    pub retain_ms: i64,
    /// An unfinished snapshot that wrote nothing for so long is abandoned; with zero, every one is.
    pub abandoned_ms: i64,
    /// Only say what would be done.
    pub dry_run: bool,
}

impl Default for Prune {
    fn default() -> Self {
        Prune {
            remove: Vec::new(),
            keep_last: None,
            keep_daily: None,
            keep_weekly: None,
            keep_monthly: None,
            volume: None,
            retain_ms: 24 * HOUR_MS,
            abandoned_ms: 24 * HOUR_MS,
            dry_run: false,
        }
    }
}

impl Prune {
    fn keeps(&self) -> [Option<usize>; 4] {
        [self.keep_last, self.keep_daily, self.keep_weekly, self.keep_monthly]
    }

    /// The volumes of which only some snapshots stay.
    fn volumes<'a>(&self, state: &'a State) -> BTreeSet<&'a VolumeName> {
        let is_meant = |name: &&VolumeName| self.volume.as_ref().is_none_or(|volume| volume == *name);
        let all = state.snapshots.values().map(|snapshot| &snapshot.volume).filter(is_meant);
        if self.keeps() == [None; 4] { BTreeSet::new() } else { all.collect() }
    }

    /// The snapshots of a volume, oldest first, and why each stays. One without a reason goes.
    fn reasons<'a>(&self, state: &'a State, volume: &VolumeName) -> Vec<(&'a Snapshot, Vec<&'static str>)> {
        let mut of: Vec<&Snapshot> = state.of(volume);
        of.reverse();
        let taken_ms: Vec<i64> = of.iter().map(|snapshot| snapshot.started_ms).collect();
        let reasons = policy::reasons(self.keeps().map(Option::unwrap_or_default), &taken_ms);
        of.into_iter().zip(reasons).rev().collect()
    }
}

/// What becomes of a snapshot of a volume of which only some stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The snapshot.
    pub snapshot: String,
    /// When it was taken.
    pub started_ms: i64,
    /// Whether it stays.
    pub stays: bool,
    /// Why it stays.
    pub reasons: Vec<&'static str>,
}

/// What a prune did, or would have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Snapshots that were removed.
    pub removed: Vec<String>,
    /// All snapshots of volumes of which only some stay, oldest first.
    pub decisions: Vec<Decision>,
    /// Snapshots that stay although they were to go: one that is being written builds on them.
    pub needed: Vec<String>,
    /// Begun snapshots that were given up.
    pub abandoned: u64,
    /// Objects that were deleted.
    pub deleted: Vec<String>,
    /// Their bytes.
    pub deleted_bytes: u64,
    /// Objects that stay for a while because their snapshot was removed lately.
    pub retained: u64,
    /// Their bytes.
    pub retained_bytes: u64,
    /// Nothing was changed.
    pub dry_run: bool,
}

impl Volumes {
    /// Removes snapshots and deletes what none needs. See [`Prune`].
    pub async fn prune(&self, wanted: &Prune) -> Result<Pruned> {
        if wanted.keeps().contains(&Some(0)) {
            return Err(Error::invalid("a prune keeps at least one snapshot of a volume"));
        }
        if wanted.retain_ms < 0 || wanted.abandoned_ms < 0 {
            return Err(Error::invalid("times are not negative"));
        }
        let listed: Vec<Listed> = self.repository.list(DATA).try_collect().await?;
        let traces: Vec<Listed> = self.repository.list(TRACES).try_collect().await?;
        let (entry_id, now_ms) = ((self.random)(), self.now_ms());
        let before = self.log.read().await?;
        let plan = |state: &State| {
            let change = Change::of(state, wanted, &listed, now_ms)?;
            Ok(change.entry(LogEntry::new(entry_id, now_ms, "prune")))
        };
        // Told even if another writer was first and the entry was made anew: what it removed is what went.
        let after = match wanted.dry_run {
            true => {
                let mut state = State::clone(&before);
                plan(&before)?.into_iter().for_each(|entry| state.apply(entry.numbered(before.next())));
                state.into()
            }
            false => self.log.append(before.clone(), plan).await?,
        };
        let gone = |snapshot: &&Snapshot| !after.snapshots.contains_key(&snapshot.id);
        let needed = Change::of(&before, wanted, &listed, now_ms)?.needed;
        let decide = |(snapshot, mut reasons): (&Snapshot, Vec<&'static str>)| {
            let stays = after.snapshots.contains_key(&snapshot.id);
            if needed.contains(&snapshot.id) {
                reasons.push("a snapshot that is being written builds on it");
            }
            let reasons = if stays { reasons } else { Vec::new() };
            Decision {
                snapshot: snapshot.name().to_string(),
                started_ms: snapshot.started_ms,
                stays,
                reasons,
            }
        };
        let volumes = wanted.volumes(&before).into_iter();
        let mut done = Pruned {
            decisions: volumes.flat_map(|volume| wanted.reasons(&before, volume)).map(decide).collect(),
            removed: names(before.snapshots.values().filter(gone)),
            needed: names(needed.iter().filter_map(|id| before.snapshots.get(id))),
            abandoned: before.running.keys().filter(|id| is_given_up(&before, &after, **id)).count() as u64,
            dry_run: wanted.dry_run,
            ..Pruned::default()
        };
        let (needed, retained) = self.needed(&after).await?;
        for object in listed {
            let Some(writer) = writer_of(&object.key) else { continue };
            if needed.contains(&object.key) || after.running.contains_key(&writer) {
                continue;
            }
            if retained.contains(&object.key) {
                done.retained += 1;
                done.retained_bytes += object.bytes;
                continue;
            }
            done.deleted_bytes += object.bytes;
            done.deleted.push(object.key);
        }
        for trace in stale(&after, traces) {
            done.deleted_bytes += trace.bytes;
            done.deleted.push(trace.key);
        }
        if !wanted.dry_run {
            self.repository.delete(&done.deleted).await?;
        }
        Ok(done)
    }

    /// The objects of the snapshots that are there, and of those that were removed lately.
    async fn needed(&self, state: &State) -> Result<(HashSet<String>, HashSet<String>)> {
        let there: Vec<&Snapshot> = state.snapshots.values().collect();
        let needed = self.objects_of(&there).await?;
        let removed: Vec<&Snapshot> = state.removed.values().map(|removed| &removed.snapshot).collect();
        let mut retained = HashSet::new();
        for snapshot in removed {
            match self.objects_of(&[snapshot]).await {
                Ok(objects) => retained.extend(objects),
                // One that is lost or damaged is of no use to anybody.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => {}
                Err(error) => return Err(error),
            }
        }
        Ok((needed, retained))
    }

    async fn objects_of(&self, snapshots: &[&Snapshot]) -> Result<HashSet<String>> {
        let heads = snapshots.iter().map(|snapshot| async move {
            let packs = reader::packs(&self.repository, snapshot).await;
            let packs = packs.map_err(|e| {
                e.context(format!(
                    "cannot read the snapshot {}; nothing is deleted, because it is not known what it needs",
                    snapshot.name()
                ))
            })?;
            let packs = packs.iter().map(|pack| pack_key(pack.writer, pack.number));
            Ok::<_, Error>(packs.chain([tree_key(snapshot.id)]).collect::<Vec<_>>())
        });
        let heads: Vec<_> = heads.collect();
        let keys: Vec<Vec<String>> =
            futures::stream::iter(heads).buffer_unordered(READS_AT_ONCE).try_collect().await?;
        Ok(keys.into_iter().flatten().collect())
    }
}

/// The names of snapshots, by volume, oldest first.
fn names<'a>(snapshots: impl Iterator<Item = &'a Snapshot>) -> Vec<String> {
    let mut sorted: Vec<&Snapshot> = snapshots.collect();
    sorted.sort_by_key(|snapshot| (&snapshot.volume, snapshot.number));
    sorted.into_iter().map(|snapshot| snapshot.name().to_string()).collect()
}

/// The traces that no mount reads any more: those of volumes that are no more, and all but the newest of the others.
fn stale(state: &State, traces: Vec<Listed>) -> Vec<Listed> {
    let there = state.snapshots.values().map(|snapshot| &snapshot.volume);
    let there: HashSet<&str> =
        there.chain(state.running.values().map(|running| &running.volume)).map(VolumeName::as_str).collect();
    // By volume, and of one in the order of their numbers.
    let mut newest: Vec<Listed> = Vec::new();
    let mut stale = Vec::new();
    for trace in traces.into_iter().filter(|trace| parts(&trace.key).is_some()) {
        let volume = |key: &str| parts(key).map(|(volume, _)| volume.to_owned());
        let last = newest.pop_if(|last| volume(&last.key) == volume(&trace.key));
        stale.extend(last);
        newest.push(trace);
    }
    let is_there = |trace: &Listed| parts(&trace.key).is_some_and(|(volume, _)| there.contains(volume));
    stale.extend(newest.into_iter().filter(|trace| !is_there(trace)));
    stale
}

fn is_given_up(before: &State, after: &State, id: SnapshotId) -> bool {
    before.running.contains_key(&id) && !after.running.contains_key(&id) && !after.snapshots.contains_key(&id)
}

/// The snapshot that an object was written for; `None` for what is not ours.
fn writer_of(key: &str) -> Option<SnapshotId> {
    let (writer, name) = key.strip_prefix(DATA)?.strip_prefix('/')?.split_once('/')?;
    let number = name.strip_suffix(".pack").unwrap_or_default();
    let is_pack = number.len() >= 6 && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_ours = name == "tree" || is_pack;
    writer.parse().ok().filter(|_| is_ours)
}

/// What a prune changes of a state.
#[derive(Default)]
struct Change {
    remove: BTreeSet<SnapshotId>,
    forget: Vec<SnapshotId>,
    abandon: Vec<SnapshotId>,
    needed: Vec<SnapshotId>,
}

impl Change {
    fn of(state: &State, wanted: &Prune, listed: &[Listed], now_ms: i64) -> Result<Change> {
        let mut change = Change { abandon: abandoned(state, wanted, listed, now_ms), ..Change::default() };
        let mut remove: BTreeSet<SnapshotId> = BTreeSet::new();
        for name in &wanted.remove {
            // A prune that lost to another one finds its work done.
            let is_gone = state.removed.values().any(|removed| removed.snapshot.name() == *name);
            if !is_gone {
                remove.insert(state.find(name)?.id);
            }
        }
        if let Some(volume) = &wanted.volume {
            state.check(volume)?;
        }
        for volume in wanted.volumes(state) {
            let gone = wanted.reasons(state, volume).into_iter().filter(|(_, reasons)| reasons.is_empty());
            remove.extend(gone.map(|(snapshot, _)| snapshot.id));
        }
        let running = state.running.values().filter(|running| !change.abandon.contains(&running.id));
        let bases: BTreeSet<SnapshotId> = running.filter_map(|running| running.base).collect();
        change.needed = remove.intersection(&bases).copied().collect();
        change.remove = remove.difference(&bases).copied().collect();
        let is_old = |removed_ms: i64| age_ms(removed_ms, now_ms) >= wanted.retain_ms;
        let old = state.removed.iter().filter(|(_, removed)| is_old(removed.removed_ms)).map(|(id, _)| *id);
        let now = change.remove.iter().copied().filter(|_| is_old(now_ms));
        change.forget = old.chain(now).collect();
        Ok(change)
    }

    fn entry(self, entry: LogEntry) -> Option<LogEntry> {
        let remove: Vec<SnapshotId> = self.remove.into_iter().collect();
        let is_empty = remove.is_empty() && self.forget.is_empty() && self.abandon.is_empty();
        (!is_empty).then_some(LogEntry { remove, forget: self.forget, abandon: self.abandon, ..entry })
    }
}

/// How old something is. If the clock that dated it was ahead, its age is 0: old enough only for a limit of 0.
fn age_ms(then_ms: i64, now_ms: i64) -> i64 {
    now_ms.saturating_sub(then_ms).max(0)
}

/// Begun snapshots that wrote nothing for long.
fn abandoned(state: &State, wanted: &Prune, listed: &[Listed], now_ms: i64) -> Vec<SnapshotId> {
    let mut newest: BTreeMap<SnapshotId, i64> = BTreeMap::new();
    for object in listed {
        if let Some(writer) = writer_of(&object.key) {
            let modified_ms = object.modified_us / 1_000;
            newest.entry(writer).and_modify(|ms| *ms = modified_ms.max(*ms)).or_insert(modified_ms);
        }
    }
    let last_ms =
        |id: &SnapshotId, started_ms: i64| newest.get(id).copied().unwrap_or(i64::MIN).max(started_ms);
    let running = state.running.iter();
    let is_old = |(id, of): &(&SnapshotId, &crate::log::Running)| {
        age_ms(last_ms(id, of.started_ms), now_ms) >= wanted.abandoned_ms
    };
    running.filter(is_old).map(|(id, _)| *id).collect()
}

#[cfg(test)]
mod tests;
