//! In which order a mounted snapshot is filled, as far as nobody waits for a read.
//!
//! 1. What a PostgreSQL needs to start and to answer: control files, transaction status, catalogs, the start of each table
//!    and the root of each index, and of its log what it will read.
//! 2. The chunks of `autoprewarm.blocks`. The file is in no order, so those with most blocks come first.
//! 3. The trace of earlier mounts.
//! 4. All else, in the order of the packs, but what a server has of its log without need comes last.
//!
//! Each chunk is in one stage, the first that wants it; so are all that are equal to it, which are fetched with it.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use frostline_base::Result;
use serde::{Deserialize, Serialize};

use super::lazy::Lazy;
use crate::autoprewarm::{self, Hot};
use crate::control::{Control, Sizes};
use crate::order;
use crate::reader::{Target, cut, runs, sort, targets};
use crate::scan::joined;
use crate::snapshot::blocking;
use crate::trace::Trace;
use crate::traces::Traces;
use crate::tree::{Finder, Node, Tree};

/// A batch of chunks has about so many stored bytes.
const BATCH_BYTES: u64 = 4 << 20;
/// How long filling waits for what decides its order.
const KNOWN_MAX: Duration = Duration::from_secs(30);
/// No control file is longer.
const CONTROL_BYTES: u64 = 64 << 10;

/// Why something is fetched that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FillStage {
    /// A server needs it to start.
    Start,
    /// The server's buffers held it, as its `autoprewarm.blocks` says.
    Autoprewarm,
    /// Users of earlier mounts of the volume wanted it.
    Trace,
    /// It is absent.
    Rest,
}

/// A stage of filling, and the bytes of files that it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillPart {
    /// Which it is.
    pub stage: FillStage,
    /// Bytes of its chunks, whether they are in place or not.
    pub bytes: u64,
}

/// Chunks that are fetched at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) stage: FillStage,
    pub(super) chunks: Vec<usize>,
}

/// What is known of what will be wanted.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) control: Option<Control>,
    pub(super) hot: Option<Hot>,
    pub(super) trace: Arc<Trace>,
}

impl Known {
    /// Reads it from the snapshot and the repository. What cannot be read, or not in time, is not known.
    pub(super) async fn read(lazy: &Arc<Lazy>, traces: &Traces) -> Known {
        let trace = in_time(traces.newest());
        let Some(cluster) = cluster(&lazy.tree) else {
            return Known { trace: trace.await.unwrap_or_default(), ..Known::default() };
        };
        let path = |name: &str| joined(&cluster, name.as_bytes());
        let (control_path, list_path) = (path("global/pg_control"), path(autoprewarm::FILE));
        let (control, list, trace) = tokio::join!(
            in_time(stored(lazy, &control_path, CONTROL_BYTES)),
            in_time(stored(lazy, &list_path, autoprewarm::BYTES_MAX)),
            trace
        );
        let control = control.flatten().and_then(|bytes| Control::read(&bytes));
        let sizes = control.as_ref().map(|control| control.sizes).unwrap_or_default();
        let (tree, hot) = (Arc::clone(&lazy.tree), list.flatten());
        let hot = blocking(move || Ok(hot.and_then(|text| hot_of(&text, &tree, &cluster, sizes)))).await;
        let hot = hot.unwrap_or_default();
        Known { control, hot, trace: trace.unwrap_or_default() }
    }
}

/// The blocks of a list, told what of it is of no use.
fn hot_of(text: &[u8], tree: &Tree, cluster: &[u8], sizes: Sizes) -> Option<Hot> {
    let hot = Hot::of(text, tree, cluster, sizes);
    match &hot {
        None => tracing::info!("autoprewarm.blocks is not what PostgreSQL writes, and is not used"),
        Some(hot) if hot.unknown > 0 => tracing::info!(
            used = hot.blocks,
            unknown = hot.unknown,
            "autoprewarm.blocks names blocks that are not in the snapshot"
        ),
        Some(_) => {}
    }
    hot
}

/// What is read, unless it takes so long that filling had better begin without it.
async fn in_time<T>(read: impl Future<Output = T>) -> Option<T> {
    let read = tokio::time::timeout(KNOWN_MAX, read).await;
    read.inspect_err(|_| {
        tracing::warn!("the repository is slow: fetching starts without all that decides its order")
    })
    .ok()
}

/// The beginning of a file as the snapshot has it; none if there is no such file, or it cannot be had.
async fn stored(lazy: &Arc<Lazy>, path: &[u8], bytes_max: u64) -> Option<Vec<u8>> {
    let file = Finder::new(&lazy.tree).file(path)?;
    let read: Result<Vec<u8>> = lazy.stored(file, bytes_max).await;
    let path = lazy.tree.entries[file].show();
    read.inspect_err(|error| {
        tracing::info!(?error, path, "a file cannot be read that says what to fetch first")
    })
    .ok()
}

fn cluster(tree: &Tree) -> Option<Vec<u8>> {
    order::cluster(tree.entries.iter().map(|entry| entry.path.as_slice()))
}

/// The chunks of a tree while they are divided into stages.
pub(super) struct Stages {
    tree: Arc<Tree>,
    cluster: Option<Vec<u8>>,
    /// In the order of the packs.
    sorted: Vec<Target>,
    /// Where runs of equal chunks begin among them, and the end of all.
    starts: Vec<usize>,
    /// The run of each chunk.
    run_of: Vec<usize>,
    taken: Vec<bool>,
}

impl Stages {
    pub(super) fn new(tree: &Arc<Tree>) -> Stages {
        let mut sorted = targets(tree);
        sort(tree, &mut sorted);
        let (mut starts, mut run_of, mut at) = (vec![0], vec![0; tree.chunks.len()], 0);
        for (number, run) in runs(tree, &sorted).enumerate() {
            run.iter().for_each(|target| run_of[target.chunk] = number);
            at += run.len();
            starts.push(at);
        }
        let taken = vec![false; starts.len() - 1];
        Stages { tree: Arc::clone(tree), cluster: cluster(tree), sorted, starts, run_of, taken }
    }

    /// What a server surely reads when it starts and when it answers first; nothing where there is none.
    pub(super) fn start(&mut self) -> Vec<Batch> {
        self.by_rank(|rank, _| rank <= order::START)
    }

    /// All that is left.
    pub(super) fn others(&mut self, known: &Known) -> Vec<Batch> {
        let needs_log = |name: &[u8]| known.control.as_ref().is_none_or(|control| control.needs_log(name));
        let mut batches = self.by_rank(|rank, name| rank == order::LOG && needs_log(name));
        if let Some(hot) = &known.hot {
            let mut chunks: Vec<usize> = hot.chunks.keys().copied().collect();
            // Neighbours are fetched together, so it is not counted more exactly.
            chunks.sort_by_key(|chunk| (Reverse(hot.chunks[chunk].max(1).ilog2()), self.run_of[*chunk]));
            batches.extend(self.take(FillStage::Autoprewarm, chunks));
        }
        batches.extend(self.take(FillStage::Trace, known.trace.chunks(&self.tree)));
        // What is left of the log is of before the last checkpoint, or was made for later.
        let is_log = |target: &Target| {
            let path = &self.tree.entries[target.file].path;
            self.cluster.is_some() && order::rank(path, 0, self.cluster.as_deref()) == order::LOG
        };
        let (log, rest): (Vec<Target>, Vec<Target>) = self.sorted.iter().partition(|target| is_log(target));
        let rest = rest.into_iter().chain(log).map(|target| target.chunk).collect();
        batches.extend(self.take(FillStage::Rest, rest));
        batches
    }

    /// The chunks of files of the server that are wanted by their rank and the name of the file, in the order of the ranks.
    fn by_rank(&mut self, is_wanted: impl Fn(u8, &[u8]) -> bool) -> Vec<Batch> {
        if self.cluster.is_none() {
            return Vec::new();
        }
        let mut chunks: Vec<(u8, usize, usize)> = Vec::new();
        for entry in &self.tree.entries {
            let Node::File { bytes, chunks: of_file, .. } = &entry.node else { continue };
            let rank = order::rank(&entry.path, *bytes, self.cluster.as_deref());
            let name = entry.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            for chunk in of_file.clone() {
                let is_start = rank == order::LARGE && chunk == of_file.start;
                let rank = if is_start { order::START } else { rank };
                if is_wanted(rank, name) {
                    chunks.push((rank, self.run_of[chunk], chunk));
                }
            }
        }
        chunks.sort_unstable();
        self.take(FillStage::Start, chunks.into_iter().map(|(.., chunk)| chunk).collect())
    }

    /// The roots of indexes, which are known once the first pages of these are in place. They are fetched before all that is
    /// left. Later stages that contain them find them in place.
    pub(super) fn roots(&self, roots: Vec<usize>) -> Vec<Batch> {
        self.batches(FillStage::Start, roots.into_iter().map(|chunk| self.run_of[chunk]).collect())
    }

    /// Those of these chunks that no stage has yet, and all that are equal to them.
    fn take(&mut self, stage: FillStage, chunks: Vec<usize>) -> Vec<Batch> {
        let mut wanted = Vec::new();
        for chunk in chunks {
            let run = self.run_of[chunk];
            if !std::mem::replace(&mut self.taken[run], true) {
                wanted.push(run);
            }
        }
        self.batches(stage, wanted)
    }

    fn batches(&self, stage: FillStage, wanted: Vec<usize>) -> Vec<Batch> {
        let runs = wanted.into_iter().map(|run| &self.sorted[self.starts[run]..self.starts[run + 1]]);
        let batches = cut(&self.tree, runs, BATCH_BYTES).into_iter();
        let chunks = |batch: Vec<Target>| batch.into_iter().map(|target| target.chunk).collect();
        batches.map(|batch| Batch { stage, chunks: chunks(batch) }).collect()
    }
}

/// The stages of these batches, and their bytes.
pub(super) fn parts(tree: &Tree, batches: &[Batch]) -> Vec<FillPart> {
    let mut parts: Vec<FillPart> = Vec::new();
    for batch in batches {
        let bytes = batch.chunks.iter().map(|chunk| u64::from(tree.chunks[*chunk].bytes)).sum::<u64>();
        match parts.last_mut() {
            Some(part) if part.stage == batch.stage => part.bytes += bytes,
            _ => parts.push(FillPart { stage: batch.stage, bytes }),
        }
    }
    parts
}

#[cfg(test)]
mod tests;
