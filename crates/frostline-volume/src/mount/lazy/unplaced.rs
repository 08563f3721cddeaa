//! Chunks that were fetched for readers while the disk has no room for them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

/// The bytes of chunks.
pub(super) type Decoded = HashMap<usize, Arc<Vec<u8>>>;

/// How many chunks are kept: 16 MiB.
pub(super) const CHUNKS_MAX: usize = 32;

/// The chunks that were wanted last, least lately first.
#[derive(Debug, Default)]
pub(super) struct Unplaced(Mutex<VecDeque<(usize, Arc<Vec<u8>>)>>);

impl Unplaced {
    pub(super) fn keep(&self, chunk: usize, bytes: &Arc<Vec<u8>>) {
        let mut kept = self.0.lock();
        kept.retain(|(other, _)| *other != chunk);
        kept.push_back((chunk, Arc::clone(bytes)));
        if kept.len() > CHUNKS_MAX {
            kept.pop_front();
        }
    }

    /// Those of these chunks that are kept.
    pub(super) fn of(&self, chunks: &[usize]) -> Decoded {
        let mut kept = self.0.lock();
        let (wanted, others): (Vec<_>, Vec<_>) =
            kept.drain(..).partition(|(chunk, _)| chunks.contains(chunk));
        kept.extend(others);
        kept.extend(wanted.iter().cloned());
        wanted.into_iter().collect()
    }

    pub(super) fn all(&self) -> Vec<(usize, Arc<Vec<u8>>)> {
        self.0.lock().iter().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// A chunk is in place.
    pub(super) fn forget(&self, chunk: usize) {
        self.0.lock().retain(|(other, _)| *other != chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chunks_that_were_wanted_last_are_kept() {
        let unplaced = Unplaced::default();
        for chunk in 0..CHUNKS_MAX {
            unplaced.keep(chunk, &Arc::new(vec![chunk as u8]));
        }
        assert_eq!(*unplaced.of(&[0, 1_000]).into_values().next().unwrap(), [0]);
        for chunk in CHUNKS_MAX..2 * CHUNKS_MAX - 1 {
            unplaced.keep(chunk, &Arc::default());
        }
        let mut kept: Vec<usize> = unplaced.all().into_iter().map(|(chunk, _)| chunk).collect();
        assert_eq!((kept.len(), kept.remove(0)), (CHUNKS_MAX, 0));
        assert!(kept.into_iter().eq(CHUNKS_MAX..2 * CHUNKS_MAX - 1));
        unplaced.forget(0);
        assert!(unplaced.of(&[0]).is_empty() && !unplaced.is_empty());
    }
}
