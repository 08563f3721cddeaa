//! Filling a mounted snapshot behind its users, in the order of its [`stages`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use frostline_base::Result;
use frostline_store::{Fills, fill, pause_filling};

use super::lazy::{Lazy, lock};
use super::stages::{self, Batch, FillStage, Known, Stages};
use crate::traces::Traces;

/// Fetches all that is absent, at most so many bytes of files a second. Chunks that cannot be had are tried again after
/// all others.
pub(super) async fn hydrate(lazy: &Arc<Lazy>, traces: &Traces, rate: Option<u64>) {
    let (mut stages, chunks) = (Stages::new(&lazy.tree), Chunks(lazy));
    let first = stages.start();
    // What it starts with is fetched while it is read what comes after.
    let planned = async { stages.others(&Known::read(lazy, traces).await) };
    let (others, ()) = tokio::join!(planned, fill(&chunks, first.clone().into(), rate));
    let all = [first, others].concat();
    stages::note(lazy, stages::parts(&lazy.tree, &all));
    loop {
        fill(&chunks, all.clone().into(), rate).await;
        *lock(&lazy.counts.filling) = None;
        if lazy.counts.absent_bytes.load(Ordering::Relaxed) == 0 {
            return;
        }
        pause_filling().await;
    }
}

struct Chunks<'a>(&'a Arc<Lazy>);

impl Fills for Chunks<'_> {
    type Batch = Batch;

    fn absent(&self, batch: Batch) -> Option<(Batch, u64)> {
        let batch = Batch { chunks: self.0.absent_of(batch.chunks), ..batch };
        let bytes = batch.chunks.iter().map(|chunk| u64::from(self.0.tree.chunks[*chunk].bytes)).sum();
        (!batch.chunks.is_empty()).then_some((batch, bytes))
    }

    fn is_waited_for(&self) -> bool {
        self.0.counts.waiting.load(Ordering::Relaxed) > 0
    }

    async fn fetch(&self, batch: &Batch) -> Result<()> {
        *lock(&self.0.counts.filling) = Some::<FillStage>(batch.stage);
        self.0.prefetch(&batch.chunks).await.map(drop)
    }
}
