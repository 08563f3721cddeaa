//! Filling a mounted snapshot behind its users, in the order of the packs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use frostline_base::Result;
use frostline_store::{Fills, fill, pause_filling};

use super::lazy::Lazy;
use crate::reader::{batches, targets};

/// A batch of chunks has about so many stored bytes.
const BATCH_BYTES: u64 = 4 << 20;

/// Fetches all that is absent, at most so many bytes of files a second. Chunks that cannot be had are tried again after
/// all others.
pub(super) async fn hydrate(lazy: &Arc<Lazy>, rate: Option<u64>) {
    loop {
        let batches = batches(&lazy.tree, targets(&lazy.tree), BATCH_BYTES).into_iter();
        let chunks = batches.map(|batch| batch.into_iter().map(|target| target.chunk).collect());
        fill(&Chunks(lazy), chunks.collect(), rate).await;
        if lazy.counts.absent_bytes.load(Ordering::Relaxed) == 0 {
            return;
        }
        pause_filling().await;
    }
}

struct Chunks<'a>(&'a Arc<Lazy>);

impl Fills for Chunks<'_> {
    type Batch = Vec<usize>;

    fn absent(&self, batch: Vec<usize>) -> Option<(Vec<usize>, u64)> {
        let batch = self.0.absent_of(batch);
        let bytes = batch.iter().map(|chunk| u64::from(self.0.tree.chunks[*chunk].bytes)).sum();
        (!batch.is_empty()).then_some((batch, bytes))
    }

    fn is_waited_for(&self) -> bool {
        self.0.counts.waiting.load(Ordering::Relaxed) > 0
    }

    async fn fetch(&self, batch: &Vec<usize>) -> Result<()> {
        self.0.prefetch(batch).await.map(drop)
    }
}
