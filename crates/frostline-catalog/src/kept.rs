//! Versions that are kept for snapshots and mounted indices: one object beside the pins names the files of each.
//!
//! The object is a checkpoint of the version, so that the version opens when its log has expired, and when its index
//! was deleted. It is written before the record that names it, and deleted after that record:
//!
//! - One that a record of the repository log names keeps its files.
//! - One that no record names keeps them, too, until the grace of orphans is over: its record may be about to come.
//!   Afterwards it is deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};

use frostline_base::{Error, Result};
use frostline_commits::objects;

use crate::checkpoint;
use crate::index::Index;
use crate::log::{Log, decoded};
use crate::pin::{self, Pin};
use crate::repository_log::IndexRecord;
use crate::shared::{AT_ONCE, Shared};
use crate::snapshot::Kept;
use crate::split_entry::split_path;
use crate::state::State;

/// Times that the repository log is read again because what it named was deleted meanwhile.
const LOST_MAX: usize = 10;

impl Index {
    /// Opens the index of a record, which may be mounted.
    pub(crate) async fn open_recorded(shared: Arc<Shared>, log: Log, record: &IndexRecord) -> Result<Index> {
        let Some(mounted) = &record.mounted else { return Index::open(shared, log).await };
        let state = read(&log, &mounted.kept()).await?;
        let state = state.ok_or_else(|| lost(&log, &mounted.kept()))?;
        Ok(Index::of_mount(shared, log, state, record.table.clone().unwrap_or_default()))
    }

    /// Keeps the newest version until [`delete`], and returns it. No writer gets in the way: this version is pinned first,
    /// so that no vacuum deletes what is live now or later. One that did not see the pin has read no version after the one
    /// that is kept, so it deletes nothing of that either.
    pub(crate) async fn keep_newest(&self) -> Result<(Index, Kept)> {
        let guard = self.guard().await?;
        let kept = self.keep_guarded(&guard).await;
        if let Err(error) = self.end_guard(&guard).await {
            tracing::warn!(index = %self.name(), ?error, "a version stays pinned for an hour");
        }
        kept
    }

    async fn keep_guarded(&self, guard: &Pin) -> Result<(Index, Kept)> {
        let newest = self.refresh().await?;
        let kept = Kept { version: newest.version(), id: self.shared.new_id() };
        let now_ms = self.shared.now_ms();
        checkpoint::write_beside(&newest.log, &newest.state, &kept.path(&newest.log.folder), now_ms).await?;
        if self.shared.clock.now_us() < guard.until_us {
            return Ok((newest, kept));
        }
        delete(&newest.log, [&kept]).await?;
        let what = format!("writing which files the index {} has took longer than an hour", self.name());
        Err(Error::unavailable(what))
    }
}

/// The version that is kept; none where its object is not there.
pub(crate) async fn read(log: &Log, kept: &Kept) -> Result<Option<State>> {
    let path = kept.path(&log.folder);
    let Some(bytes) = objects::get(log.store().as_ref(), &path).await? else { return Ok(None) };
    let (folder, version) = (log.folder.clone(), kept.version);
    let decode = move |objects: &[_]| {
        let base = checkpoint::read(&folder, version, objects)?;
        State::replay(&folder, base, &[])
    };
    checkpoint::decode(vec![(path, bytes)], decode).await.map(Some)
}

/// Keeps the same version once more. `NotFound` where it is no longer kept.
pub(crate) async fn again(shared: &Shared, log: &Log, kept: &Kept) -> Result<Kept> {
    let path = kept.path(&log.folder);
    let bytes = objects::get(log.store().as_ref(), &path).await?;
    let bytes = bytes.ok_or_else(|| Error::not_found("the snapshot was deleted").with("object", &path))?;
    let again = Kept { version: kept.version, id: shared.new_id() };
    checkpoint::put(log, &again.path(&log.folder), bytes).await?;
    Ok(again)
}

/// Ends keeping these.
pub(crate) async fn delete(log: &Log, kept: impl IntoIterator<Item = &Kept>) -> Result<()> {
    let paths = kept.into_iter().map(|kept| kept.path(&log.folder)).collect();
    objects::delete(log.store().as_ref(), paths).await
}

/// The paths below the folder of a table that are kept: by records of the newest repository log, and by `young` ones,
/// which a record may name soon. Read after everything by which files to delete are found.
pub(crate) async fn held(shared: &Shared, log: &Log, young: &[Kept]) -> Result<Held> {
    let mut registry = shared.registry_as_read().await?;
    for _ in 0..LOST_MAX {
        let named: BTreeSet<Kept> = registry.kept(log.folder.as_ref()).collect();
        let mut held = Held { paths: BTreeSet::new(), named };
        let reads =
            held.named.iter().chain(young).map(|kept| async move { Ok((kept, read(log, kept).await?)) });
        let reads = reads.collect::<Vec<_>>();
        let mut states = futures::stream::iter(reads).buffer_unordered(AT_ONCE);
        let (mut missing, mut paths) = (None, BTreeSet::new());
        while let Some((kept, state)) = states.try_next().await? {
            match state {
                Some(state) => paths.extend(paths_of(&state)),
                None if held.named.contains(kept) => missing = Some(kept.clone()),
                // Whoever made it gave up.
                None => {}
            }
        }
        drop(states);
        held.paths = paths;
        let Some(missing) = missing else { return Ok(held) };
        // What it was of may have been deleted just now, and another record may name the version by another object.
        let newest = shared.registry_as_read().await?;
        if newest.version == registry.version {
            return Err(lost(log, &missing));
        }
        registry = newest;
    }
    Err(Error::unavailable("snapshots are deleted all the time: try again").with("index", &log.index))
}

/// What is kept of one table.
pub(crate) struct Held {
    /// Paths below its folder.
    pub(crate) paths: BTreeSet<String>,
    /// What records name.
    pub(crate) named: BTreeSet<Kept>,
}

impl Held {
    /// Whether the object of that name, below the folder of a deleted index, pins a version that is still there: a point in
    /// time of a mounted index.
    pub(crate) fn is_pin(&self, below: &str, now_us: i64) -> bool {
        let pin = below.strip_prefix("_pins/").and_then(pin::of_name);
        let is_there = |version| self.named.iter().any(|kept| kept.version == version);
        pin.is_some_and(|(version, until_us)| until_us > now_us && is_there(version))
    }
}

/// Everything below the folder of its table that a version names.
pub(crate) fn paths_of(state: &State) -> impl Iterator<Item = String> {
    let splits = state.splits.values().map(|split| split_path(split.id));
    let files = state.files.values().map(|file| file.path());
    splits.chain(files).chain(state.foreign.values().map(|file| decoded(&file.path)))
}

fn lost(log: &Log, kept: &Kept) -> Error {
    Error::corrupt("the object that names the files of a snapshot is gone")
        .with("index", &log.index)
        .with("object", kept.path(&log.folder))
}
