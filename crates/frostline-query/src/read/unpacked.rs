//! Blocks of dictionaries that are kept unpacked between queries, within a bound: what a term of a small split costs is
//! mostly to read and unpack its block.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use frostline_split::{Block, UnpackedBlock};
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Those of all splits.
#[derive(Debug)]
pub(crate) struct Unpacked {
    /// By the number of the open split and where the block begins.
    blocks: Cache<(u64, u64), Arc<UnpackedBlock>, ByMemory>,
    opened: AtomicU64,
}

/// Those of one open split. They are dropped when it is closed.
#[derive(Debug)]
pub(crate) struct UnpackedOfSplit {
    of_all: Option<Arc<Unpacked>>,
    number: u64,
    /// Where each block begins that was kept.
    kept: Mutex<BTreeSet<u64>>,
}

/// About how much memory a block takes.
const BLOCK_BYTES_TYPICAL: u64 = 32 << 10;

impl Unpacked {
    /// At most so many bytes of memory.
    pub(crate) fn new(bytes_max: u64) -> Arc<Unpacked> {
        let blocks = usize::try_from(bytes_max / BLOCK_BYTES_TYPICAL).unwrap_or(usize::MAX);
        let blocks = Cache::with_weighter(blocks.max(16), bytes_max, ByMemory);
        Arc::new(Unpacked { blocks, opened: AtomicU64::new(0) })
    }

    /// Those of a split that was opened just now.
    pub(crate) fn of_split(self: &Arc<Unpacked>) -> UnpackedOfSplit {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        UnpackedOfSplit { of_all: Some(Arc::clone(self)), number, kept: Mutex::default() }
    }

    /// Bytes that are held.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.weight()
    }

    pub(crate) fn forget(&self) {
        self.blocks.clear();
    }
}

impl UnpackedOfSplit {
    /// Of a split of which none are kept.
    pub(crate) fn none() -> UnpackedOfSplit {
        UnpackedOfSplit { of_all: None, number: 0, kept: Mutex::default() }
    }

    /// What is kept of each of these blocks.
    pub(crate) fn of(&self, blocks: &[Block]) -> Vec<Option<Arc<UnpackedBlock>>> {
        let of_all = self.of_all.as_ref();
        blocks.iter().map(|block| of_all?.blocks.get(&(self.number, block.range.start))).collect()
    }

    /// Keeps this block, which reads as a dictionary's.
    pub(crate) fn keep(&self, block: &Block, unpacked: UnpackedBlock) {
        if let Some(of_all) = &self.of_all {
            self.kept.lock().insert(block.range.start);
            of_all.blocks.insert((self.number, block.range.start), Arc::new(unpacked));
        }
    }
}

impl Drop for UnpackedOfSplit {
    fn drop(&mut self) {
        if let Some(of_all) = &self.of_all {
            for &start in self.kept.get_mut().iter() {
                of_all.blocks.remove(&(self.number, start));
            }
        }
    }
}

#[derive(Clone, Debug)]
struct ByMemory;

impl Weighter<(u64, u64), Arc<UnpackedBlock>> for ByMemory {
    fn weight(&self, _: &(u64, u64), block: &Arc<UnpackedBlock>) -> u64 {
        block.memory_bytes() as u64
    }
}

#[cfg(test)]
mod tests;
