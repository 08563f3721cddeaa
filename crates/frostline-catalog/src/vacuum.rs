//! Deletes objects that are no longer needed: removed splits, orphans, expired log files.
//!
//! Guarantees:
//! - An object that a live version names, or one of the newest `versions_keep` versions, or any version younger
//!   than `retain_ms`, or a pinned version ([`crate::Pin`]), or a snapshot ([`crate::Snapshot`]), is never deleted.
//! - Nothing is deleted whose name no split, pin or log file of ours can have, whatever is in the folder: an object of
//!   another program, or another repository.
//! - An object that no version ever named is deleted once it is older than `orphan_grace_ms`. The bucket is listed
//!   *before* the newest version is read, so a split that was uploaded before and committed meanwhile is seen as live.
//!   A writer must commit an uploaded split within the grace.
//! - Killed at any moment it leaves an index that opens as before: only what is needed by none is ever gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt as _;
use object_store::ObjectMeta;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use frostline_base::{Error, Result};
use frostline_commits::{Listing, objects};

use crate::answers;
use crate::checkpoint;
use crate::file_entry::{self, file_of_path};
use crate::index::Index;
use crate::kept;
use crate::log::{Log, decoded};
use crate::pin::{self, Pins};
use crate::shared::Shared;
use crate::snapshot::Kept;
use crate::split_entry::split_of_path;

const HOUR_MS: i64 = 3_600_000;

/// What a vacuum may delete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vacuum {
    /// Splits removed less than this ago stay, so that searches over an older version can finish. At most
    /// `file_retention_ms` of the index's settings.
    pub retain_ms: i64,
    /// So many newest versions stay whole, at least one.
    pub versions_keep: u64,
    /// Objects that no version names stay this long after they were written: a writer may be about to commit
    /// them.
    pub orphan_grace_ms: i64,
    /// Only say what would be deleted.
    pub dry_run: bool,
}

impl Default for Vacuum {
    fn default() -> Self {
        Vacuum { retain_ms: 24 * HOUR_MS, versions_keep: 1, orphan_grace_ms: 24 * HOUR_MS, dry_run: false }
    }
}

/// What a vacuum deleted, or would have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vacuumed {
    /// The newest version that it saw.
    pub version: u64,
    /// Every object, by key.
    pub deleted: Vec<Deleted>,
    /// Their bytes together.
    pub bytes: u64,
    /// Objects that no live version names and that stay for now, because they are too young.
    pub kept: u64,
    /// Nothing was deleted.
    pub dry_run: bool,
}

/// One deleted object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deleted {
    /// Its key below the repository's root.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// Why it is not needed.
    pub reason: Reason,
}

/// Why an object is not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// A commit removed it long enough ago.
    Removed,
    /// No commit that the log remembers named it.
    Orphan,
    /// It is a part of the log that a newer checkpoint stands for.
    Log,
    /// It is a pin whose time has come, or of a snapshot that is not there.
    Pin,
    /// It has answers that machines shared, and is a week old.
    Answers,
}

/// Whether the object of that name, below the folder of an index, is a split, a further file, a pin or of shared answers.
pub(crate) fn is_ours(below: &str) -> bool {
    let is_pin = below.strip_prefix("_pins/").is_some_and(|name| pin::of_name(name).is_some());
    let is_pin = is_pin || kept_of(below).is_some();
    is_pin || is_part(below) || answers::is_path(below)
}

/// What an object of that name, below the folder of an index, keeps for snapshots.
pub(crate) fn kept_of(below: &str) -> Option<Kept> {
    Kept::of_name(below.strip_prefix("_pins/")?)
}

fn is_part(below: &str) -> bool {
    split_of_path(below).is_some() || file_of_path(below).is_some()
}

impl Index {
    /// Deletes the objects that no live, recent or pinned version and no snapshot names. See [`Vacuum`]. A mounted index
    /// has nothing of its own to delete.
    pub async fn vacuum(&self, wanted: &Vacuum) -> Result<Vacuumed> {
        if self.is_mounted() {
            return Ok(Vacuumed { version: self.version(), dry_run: wanted.dry_run, ..Vacuumed::default() });
        }
        let done = run(self, wanted).await;
        self.shared.unless_deleted(&self.log, done).await
    }
}

async fn run(index: &Index, wanted: &Vacuum) -> Result<Vacuumed> {
    wanted.check(index)?;
    let found = Objects::list(index).await?;
    let newest = Index::open(Arc::clone(&index.shared), index.log.clone()).await?;
    let now_ms = index.shared.clock.now_us() / 1_000;
    // After the newest version: a pin that is put later finds its version whole, or is refused.
    let Pins { pins, kept } = Pins::list(&newest.log).await?;
    let now_us = index.shared.clock.now_us();
    let (expired_pins, held): (Vec<_>, Vec<_>) = pins.into_iter().partition(|pin| pin.until_us <= now_us);
    let oldest_kept = (newest.version() + 1).saturating_sub(wanted.versions_keep);
    let oldest_kept = held.iter().map(|pin| pin.version).chain([oldest_kept]).min().unwrap_or(oldest_kept);
    // The log remembers when a split was removed. For a further file only the commit that did says it, as long as it is
    // there, so the versions that are young are read.
    let leaves_files = found
        .files
        .iter()
        .map(|object| index.log.below(&object.location))
        .any(|below| file_of_path(below).is_some() && newest.state.files.get(below).is_none());
    let young = |object: &ObjectMeta| {
        now_ms.saturating_sub(object.last_modified.timestamp_millis()) < wanted.retain_ms
    };
    let young_from = found.log.entries.iter().find(|(_, object)| leaves_files && young(object));
    let kept_from = young_from.map_or(u64::MAX, |(version, _)| *version).min(oldest_kept + 1);
    let mut named = Named::read(&newest, &found.log, kept_from, now_ms).await?;
    let is_orphan = |object: &ObjectMeta| is_old(object, now_ms, wanted.orphan_grace_ms);
    let young = kept.iter().filter(|(object, _)| !is_orphan(object)).map(|(_, kept)| kept.clone());
    // Last: what is recorded later is seen in the listing, or is of what is live.
    let held = kept::held(&index.shared, &newest.log, &young.collect::<Vec<_>>()).await?;
    named.kept.extend(held.paths);
    let mut done = Vacuumed { version: newest.version(), dry_run: wanted.dry_run, ..Vacuumed::default() };
    for object in &found.files {
        match named.verdict(index, object, wanted, now_ms) {
            Verdict::Live => {}
            Verdict::Young => done.kept += 1,
            Verdict::Unneeded(reason) => done.push(object, reason),
        }
    }
    for object in expired(&newest, &found.log, oldest_kept, now_ms) {
        done.push(object, Reason::Log);
    }
    for pin in &expired_pins {
        done.push(&pin.object, Reason::Pin);
    }
    for (object, _) in kept.iter().filter(|(object, kept)| is_orphan(object) && !held.named.contains(kept)) {
        done.push(object, Reason::Pin);
    }
    for object in found.answers.iter().filter(|object| answers::are_old(object, now_ms)) {
        done.push(object, Reason::Answers);
    }
    if !wanted.dry_run {
        let paths = done.deleted.iter().map(|deleted| Path::from(deleted.key.as_str()));
        objects::delete(index.log.store().as_ref(), paths.collect()).await?;
    }
    Ok(done)
}

/// Removes what is in the folders of deleted indices.
pub(crate) async fn deleted(
    shared: &Shared,
    tables: impl Iterator<Item = Log>,
    now_ms: i64,
    wanted: &Vacuum,
) -> Result<Vacuumed> {
    let mut done = Vacuumed { dry_run: wanted.dry_run, ..Vacuumed::default() };
    for table in tables {
        // After the table was deleted nothing more of it is kept but by what the newest repository log names.
        let held = kept::held(shared, &table, &[]).await?;
        let mut found = table.store().list(Some(&table.folder));
        let mut gone = Vec::new();
        while let Some(object) = found.next().await {
            let object = object.map_err(|e| objects::failed(e, &table.folder))?;
            let below = table.below(&object.location);
            if !below.starts_with("_delta_log/") && !is_ours(below) {
                continue;
            }
            let is_kept = kept_of(below).is_some_and(|kept| held.named.contains(&kept))
                || held.is_pin(below, now_ms.saturating_mul(1_000));
            if is_kept || held.paths.contains(below) || !is_old(&object, now_ms, wanted.orphan_grace_ms) {
                done.kept += 1;
                continue;
            }
            done.push(&object, Reason::Orphan);
            gone.push(object.location);
        }
        if !wanted.dry_run {
            objects::delete(table.store().as_ref(), gone).await?;
        }
    }
    Ok(done)
}

fn is_old(object: &ObjectMeta, now_ms: i64, grace_ms: i64) -> bool {
    now_ms.saturating_sub(object.last_modified.timestamp_millis()) >= grace_ms
}

impl Vacuum {
    fn check(&self, index: &Index) -> Result<()> {
        let retain_ms_max = index.settings().file_retention_ms;
        if self.versions_keep == 0 || self.retain_ms < 0 || self.orphan_grace_ms < 0 {
            return Err(Error::invalid("a vacuum keeps at least one version, and times are not negative"));
        }
        if self.retain_ms > retain_ms_max {
            return Err(Error::invalid("the log does not record removed splits for that long")
                .with("retain_ms", self.retain_ms)
                .with("file_retention_ms", retain_ms_max));
        }
        Ok(())
    }
}

impl Vacuumed {
    /// Counts what another vacuum did, too.
    pub fn merge(&mut self, other: Vacuumed) {
        self.deleted.extend(other.deleted);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.kept += other.kept;
    }

    fn push(&mut self, object: &ObjectMeta, reason: Reason) {
        self.bytes = self.bytes.saturating_add(object.size);
        self.deleted.push(Deleted { key: object.location.to_string(), bytes: object.size, reason });
    }
}

/// What is below the index.
#[derive(Default)]
struct Objects {
    log: Listing,
    files: Vec<ObjectMeta>,
    answers: Vec<ObjectMeta>,
}

impl Objects {
    async fn list(index: &Index) -> Result<Objects> {
        let root = index.log.folder.clone();
        let mut found = Objects::default();
        let mut stream = index.log.store().list(Some(&root));
        while let Some(object) = stream.next().await {
            let object = object.map_err(|e| objects::failed(e, &root))?;
            let below = index.log.below(&object.location);
            match below.strip_prefix("_delta_log/") {
                Some(name) if !name.contains('/') => found.log.push(object, "parquet"),
                None if is_part(below) => found.files.push(object),
                None if answers::is_path(below) => found.answers.push(object),
                // Whatever it is, it is not ours.
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The paths that versions name.
struct Named {
    live: BTreeSet<String>,
    /// Removed, and when; only those that no live version names again.
    removed: BTreeMap<String, i64>,
    /// Removed by one of the versions that are kept whole.
    kept: BTreeSet<String>,
}

enum Verdict {
    Live,
    Young,
    Unneeded(Reason),
}

impl Named {
    async fn read(newest: &Index, listed: &Listing, kept_from: u64, now_ms: i64) -> Result<Named> {
        let version = newest.version();
        let checkpoint = listed.checkpoint().filter(|(at, _)| *at <= version);
        // A version is kept whole when nothing that a later one removed is deleted.
        let tail_from = checkpoint.as_ref().map_or(0, |(at, _)| at + 1);
        let first_unlisted = listed.newest().map_or(0, |listed| listed + 1);
        let there = |v: &u64| listed.entries.contains_key(v) || *v >= first_unlisted;
        let commits = newest.log.commits.entries((tail_from.min(kept_from)..=version).filter(there)).await?;
        let mut named = Named { live: live(newest), removed: BTreeMap::new(), kept: BTreeSet::new() };
        if let Some((_, paths)) = checkpoint {
            let parts = newest.log.commits.objects(paths).await?;
            for remove in checkpoint::decode(parts, checkpoint::read_removed).await? {
                named.removed.insert(decoded(&remove.path), remove.deletion_timestamp.unwrap_or(0));
            }
        }
        for commit in &commits {
            let committed_ms = commit.info.get("timestamp").and_then(Value::as_i64).unwrap_or(now_ms);
            for domain in commit.domains.iter().filter(|domain| domain.removed) {
                let Some((path, _)) = file_entry::read(&newest.log.folder, &commit.key, domain)? else {
                    continue;
                };
                if commit.version >= kept_from {
                    named.kept.insert(path.clone());
                }
                named.removed.insert(path, committed_ms);
            }
            for remove in &commit.removes {
                let path = decoded(&remove.path);
                if commit.version >= kept_from {
                    named.kept.insert(path.clone());
                }
                named.removed.insert(path, remove.deletion_timestamp.unwrap_or(now_ms));
            }
        }
        Ok(named)
    }

    fn verdict(&self, index: &Index, object: &ObjectMeta, wanted: &Vacuum, now_ms: i64) -> Verdict {
        let path = index.log.below(&object.location);
        if self.live.contains(path) {
            return Verdict::Live;
        }
        let written_ms = object.last_modified.timestamp_millis();
        let (since_ms, keep_ms, reason) = match self.removed.get(path) {
            Some(removed_ms) => (*removed_ms, wanted.retain_ms, Reason::Removed),
            None => (written_ms, wanted.orphan_grace_ms, Reason::Orphan),
        };
        let young = now_ms.saturating_sub(since_ms) < keep_ms;
        if young || self.kept.contains(path) { Verdict::Young } else { Verdict::Unneeded(reason) }
    }
}

/// The log files that a checkpoint stands for, from which every kept version can be made.
fn expired<'a>(newest: &Index, listed: &'a Listing, oldest_kept: u64, now_ms: i64) -> Vec<&'a ObjectMeta> {
    let Some((stands, _)) = listed.checkpoint_at_most(oldest_kept) else { return Vec::new() };
    let retention_ms = newest.settings().log_retention_ms;
    let old =
        |object: &&ObjectMeta| now_ms.saturating_sub(object.last_modified.timestamp_millis()) > retention_ms;
    let commits = listed.entries.range(..stands).map(|(_, object)| object);
    let checkpoints = listed.checkpoints.range(..stands).flat_map(|(_, parts)| parts.objects());
    commits.chain(checkpoints).filter(old).collect()
}

fn live(index: &Index) -> BTreeSet<String> {
    kept::paths_of(&index.state).collect()
}

#[cfg(test)]
mod tests;
