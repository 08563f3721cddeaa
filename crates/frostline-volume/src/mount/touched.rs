//! Which chunks the users of a mount wanted, in the order in which they first did.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::trace::CHUNKS_MAX;

/// The chunks that were wanted. To note one that was noted before takes no lock.
#[derive(Debug)]
pub(super) struct Touched {
    seen: Vec<AtomicU64>,
    order: Mutex<Vec<usize>>,
}

impl Touched {
    /// None of so many.
    pub(super) fn new(chunks: usize) -> Touched {
        let seen = std::iter::repeat_with(AtomicU64::default).take(chunks.div_ceil(64)).collect();
        Touched { seen, order: Mutex::default() }
    }

    pub(super) fn note(&self, chunk: usize) {
        let Some(word) = self.seen.get(chunk / 64) else { return };
        let bit = 1 << (chunk % 64);
        if word.load(Ordering::Relaxed) & bit != 0 || word.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return;
        }
        let mut order = self.order.lock();
        if (order.len() as u64) < CHUNKS_MAX {
            order.push(chunk);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.order.lock().len()
    }

    pub(super) fn in_order(&self) -> Vec<usize> {
        self.order.lock().clone()
    }
}
