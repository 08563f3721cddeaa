//! Making a directory again from a snapshot, many chunks at once.
//!
//! - Nothing is written outside of the directory and of those that the caller names for tablespaces: every name is made in its parent's open directory, and no link is
//!   followed on the way, whatever somebody else puts there meanwhile.
//! - Until it is whole, the directory has a file `.frostline-restore`. A restore that was stopped goes on when it is
//!   run again: it reads what is there and fetches what differs.
//! - Files that a run left out, because their data was damaged, get their names in a further run only when they are whole.

mod beneath;
mod place;
mod select;
mod tablespace;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{StreamExt as _, TryStreamExt as _};
use rustix::fs::Advice;

use frostline_base::{ByteRange, Error, Result};

use crate::digest::Digest;
use crate::log::Snapshot;
use crate::patterns;
use crate::reader::{Fetched, Target, batches, fetch_sound, is_damage, targets};
use crate::scan;
use crate::snapshot::blocking;
use crate::tree::{Entry, Node, Tree, show_path};
use crate::verify::{VolumeFault, fault};
use crate::volumes::Volumes;
use beneath::Beneath;
use place::{Names, Unset};
pub(crate) use place::{Place, times};
pub use select::Selection;
pub use tablespace::{Tablespace, TablespaceMapping};

/// A batch of chunks has about so many stored bytes.
const BATCH_BYTES: u64 = 8 << 20;

/// How to restore.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// Batches of chunks on their way at the same time, each of about 8 MiB.
    pub batches: usize,
    /// Directories for tablespaces of PostgreSQL. All others are restored inside of the directory.
    pub tablespaces: Vec<TablespaceMapping>,
    /// What is restored.
    pub selection: Selection,
    /// Set it to stop.
    pub cancel: Arc<AtomicBool>,
}

impl Default for RestoreOptions {
    fn default() -> Self {
        RestoreOptions {
            batches: 8,
            tablespaces: Vec::new(),
            selection: Selection::default(),
            cancel: Arc::default(),
        }
    }
}

/// How far a restore is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreProgress {
    /// Bytes of data in the files.
    pub bytes: u64,
    /// Bytes that are in place.
    pub done_bytes: u64,
}

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Names, with that of the directory itself.
    pub entries: u64,
    /// Files, which may have several names.
    pub files: u64,
    /// Bytes that were fetched and written.
    pub written_bytes: u64,
    /// Bytes that an earlier run had written.
    pub found_bytes: u64,
    /// Entries whose owner could not be set.
    pub owners_not_set: u64,
    /// Entries that are not set-user-ID or set-group-ID because their owner could not be set.
    pub set_ids_not_set: u64,
    /// Extended attributes that could not be set.
    pub attributes_not_set: u64,
    /// What is damaged or lost, and the first of these for each further name of a file. The files that need it are left out,
    /// under each of their names, and the restore stays unfinished.
    pub faults: Vec<VolumeFault>,
    /// Where the tablespaces of PostgreSQL are.
    pub tablespaces: Vec<Tablespace>,
}

impl Volumes {
    /// Restores a snapshot into a directory that is new or empty, or that an earlier restore of it left unfinished. Leaves
    /// out files with damaged data; see [`Restored::faults`].
    pub async fn restore(
        &self,
        snapshot: &Snapshot,
        directory: &Path,
        options: &RestoreOptions,
        progress: impl Fn(RestoreProgress) + Send + Sync,
    ) -> Result<Restored> {
        patterns::check(options.selection.include.iter().chain(&options.selection.exclude))?;
        let mut tree = self.tree(snapshot).await?;
        let name = snapshot.name().to_string();
        let mut in_snapshot = match tablespace::read(&self.repository, &tree).await {
            // The map is a file of the snapshot; its damage is reported with that of the others.
            Err(error) if is_damage(&error) && options.tablespaces.is_empty() => Vec::new(),
            read => read.map_err(|e| {
                e.context("cannot read which tablespaces the snapshot has: restore without --tablespace")
            })?,
        };
        let selected = options.selection.apply(&mut tree);
        selected.map_err(|e| Error::new(e.kind(), format!("{} in {name}", e.what())))?;
        let moved = tablespace::resolve(&in_snapshot, &tree, directory, &options.tablespaces)?;
        in_snapshot.retain(|of| of.is_in(&tree));
        tablespace::relink(&mut tree, &moved);
        let tablespaces = in_snapshot.iter().map(|of| of.shown(directory, &moved)).collect();
        let tree = Arc::new(tree);
        let what = match options.selection.name() {
            Some(selection) => format!("{} {selection}", snapshot.id),
            None => snapshot.id.to_string(),
        };
        let (path, of) = (directory.to_owned(), Arc::clone(&tree));
        let (place, found) = blocking(move || {
            let mut place = Place::claim_with(&path, &what, &moved)?;
            place.set_aside(&of);
            let found = place.make(&of)?;
            Ok((place, found))
        })
        .await?;
        let is_file = |entry: &&Entry| matches!(entry.node, Node::File { .. });
        let files = tree.entries.iter().filter(is_file).count() as u64;
        let mut done = Restored { entries: tree.entries.len() as u64, files, ..Restored::default() };
        let bytes_of = |target: &Target| u64::from(tree.chunks[target.chunk].bytes);
        let total: u64 = targets(&tree).iter().map(bytes_of).sum();
        let missing = self.missing(&tree, &place, found).await?;
        done.found_bytes = total - missing.iter().map(bytes_of).sum::<u64>();
        let mut at = RestoreProgress { bytes: total, done_bytes: done.found_bytes };
        progress(at);
        let writes = batches(&tree, missing, BATCH_BYTES).into_iter().map(|batch| {
            let (tree, names) = (Arc::clone(&tree), place.names());
            async move {
                let chunks = batch.iter().map(|target| &tree.chunks[target.chunk]);
                let fetched = fetch_sound(&self.repository, &tree.packs, chunks).await?;
                blocking(move || write(&tree, names, &batch, &fetched)).await
            }
        });
        let mut writes = futures::stream::iter(writes).buffer_unordered(options.batches.max(1));
        let mut damaged = HashSet::new();
        while let Some((bytes, lost)) = writes.try_next().await? {
            done.written_bytes += bytes;
            at.done_bytes += bytes;
            progress(at);
            for (target, error) in lost {
                damaged.insert(tree.entries[target.file].path.clone());
                done.faults.push(fault(&name, Some((&tree, target)), error)?);
            }
            if options.cancel.load(Ordering::Relaxed) {
                return Err(Error::stopped("the restore was stopped: run it again to go on"));
            }
        }
        drop(writes);
        done.faults.extend(of_further_names(&tree, &damaged, &done.faults));
        done.faults.sort_by(|a, b| (&a.file, a.offset).cmp(&(&b.file, b.offset)));
        let unset = blocking(move || {
            place.settle(&tree, &damaged)?;
            match damaged.is_empty() {
                true => place.finish(&tree),
                false => place.dress_all(&tree, &damaged),
            }
        })
        .await?;
        let Unset { owners: owners_not_set, set_ids: set_ids_not_set, attributes: attributes_not_set } =
            unset;
        Ok(Restored { owners_not_set, set_ids_not_set, attributes_not_set, tablespaces, ..done })
    }

    /// The chunks that are not in place.
    async fn missing(&self, tree: &Arc<Tree>, place: &Place, found: Vec<bool>) -> Result<Vec<Target>> {
        let (there, mut missing): (Vec<Target>, Vec<Target>) =
            targets(tree).into_iter().partition(|target| found[target.file]);
        let checks = there.chunks(64).map(|targets| {
            let (tree, names, targets) = (Arc::clone(tree), place.names(), targets.to_vec());
            blocking(move || differing(&tree, names, targets))
        });
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let checks: Vec<_> = checks.collect();
        let differing: Vec<Vec<Target>> =
            futures::stream::iter(checks).buffered(threads).try_collect().await?;
        missing.extend(differing.into_iter().flatten());
        Ok(missing)
    }
}

/// A fault of each damaged file again, for each further name of it.
fn of_further_names(tree: &Tree, damaged: &HashSet<Vec<u8>>, faults: &[VolumeFault]) -> Vec<VolumeFault> {
    let mut first: HashMap<&str, &VolumeFault> = HashMap::new();
    for fault in faults {
        let known = first.entry(fault.file.as_deref().unwrap_or_default()).or_insert(fault);
        if fault.offset < known.offset {
            *known = fault;
        }
    }
    let of_link = |entry: &Entry| match &entry.node {
        Node::HardLink(target) if damaged.contains(target) => {
            let fault = *first.get(show_path(target).as_str())?;
            Some(VolumeFault { file: Some(entry.show()), ..fault.clone() })
        }
        _ => None,
    };
    tree.entries.iter().filter_map(of_link).collect()
}

/// Of these chunks those that the files do not have.
fn differing(tree: &Tree, names: Names, targets: Vec<Target>) -> Result<Vec<Target>> {
    let mut files = Files::new(tree, names);
    let mut differing = Vec::new();
    for target in targets {
        let chunk = &tree.chunks[target.chunk];
        let mut bytes = vec![0; chunk.bytes as usize];
        let read = files.get(target.file)?.read_exact_at(&mut bytes, target.offset);
        if read.is_err() || Digest::of(&bytes) != chunk.digest {
            differing.push(target);
        }
    }
    Ok(differing)
}

/// Writes chunks where files have data. Returns the bytes written and the damaged chunks.
fn write(
    tree: &Tree,
    names: Names,
    batch: &[Target],
    fetched: &Fetched,
) -> Result<(u64, Vec<(Target, Error)>)> {
    let mut files = Files::new(tree, names);
    let (mut written, mut damaged) = (0, Vec::new());
    for run in batch.chunk_by(|a, b| tree.chunks[a.chunk].pieces == tree.chunks[b.chunk].pieces) {
        let Some(first) = run.first() else { continue };
        let bytes = match fetched.assemble(tree, &tree.chunks[first.chunk]) {
            Ok(bytes) => bytes,
            Err(error) => {
                damaged.extend(run.iter().map(|target| (*target, error.clone())));
                continue;
            }
        };
        for target in run {
            let Node::File { extents, .. } = &tree.entries[target.file].node else { continue };
            for part in data_in(extents, target.offset..target.offset + bytes.len() as u64) {
                let of_chunk = (part.start - target.offset) as usize..(part.end - target.offset) as usize;
                let path = Path::new(&tree.entries[target.file].show()).to_owned();
                files
                    .get(target.file)?
                    .write_all_at(&bytes[of_chunk], part.start)
                    .map_err(|e| scan::failed("write", &path, &e))?;
            }
            begin_writeback(files.get(target.file)?, target.offset, bytes.len());
            written += bytes.len() as u64;
        }
    }
    Ok((written, damaged))
}

/// Lets the kernel begin to write to the disk, so that a later sync has less to wait for.
pub(crate) fn begin_writeback(file: &File, offset: u64, bytes: usize) {
    // Linux begins to write what is dirty, and drops only what is not. That it is refused costs nothing but time.
    let _ = rustix::fs::fadvise(file, offset, NonZeroU64::new(bytes as u64), Advice::DontNeed);
}

/// The parts of a range that are data.
pub(crate) fn data_in(extents: &[ByteRange], range: ByteRange) -> impl Iterator<Item = ByteRange> + '_ {
    let first = extents.partition_point(|extent| extent.end <= range.start);
    let end = range.end;
    extents[first..]
        .iter()
        .take_while(move |extent| extent.start < end)
        .map(move |extent| extent.start.max(range.start)..extent.end.min(range.end))
}

/// Open files of a tree; the last ones are kept open.
struct Files<'a> {
    tree: &'a Tree,
    names: Names,
    beneath: Beneath,
    open: HashMap<usize, File>,
}

impl<'a> Files<'a> {
    fn new(tree: &'a Tree, names: Names) -> Files<'a> {
        Files { tree, beneath: names.beneath(), names, open: HashMap::new() }
    }

    fn get(&mut self, file: usize) -> Result<&File> {
        const OPEN_MAX: usize = 64;
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(&file) {
            self.open.clear();
        }
        match self.open.entry(file) {
            std::collections::hash_map::Entry::Occupied(open) => Ok(open.into_mut()),
            std::collections::hash_map::Entry::Vacant(place) => {
                let path = self.names.of(self.tree, file);
                let opened = self.beneath.open_file(path);
                let opened = opened.map_err(|e| scan::failed("open", &shown(path), &e.into()))?;
                Ok(place.insert(opened))
            }
        }
    }
}

fn shown(path: &[u8]) -> PathBuf {
    show_path(path).into()
}

#[cfg(test)]
mod tests;
