//! Filling a mounted snapshot behind its users, in the order of its [`stages`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use frostline_base::Result;
use frostline_store::{Fills, Pace, fill, pause_filling};

use super::lazy::Lazy;
use super::stages::{self, Batch, FillStage, Known, Stages};
use crate::snapshot::blocking;
use crate::traces::Traces;

/// How long all else waits for what a server starts with, which may be lost.
const START_MAX: Duration = Duration::from_secs(60);

/// Fetches all that is absent, at most so many bytes of files a second. Chunks that cannot be had are tried again after
/// all others.
pub(super) async fn hydrate(lazy: &Arc<Lazy>, traces: &Traces, rate: Option<u64>) {
    if let Err(error) = in_order(lazy, traces, rate).await {
        tracing::error!(?error, "background fetching has stopped: only reads fetch data");
    }
}

async fn in_order(lazy: &Arc<Lazy>, traces: &Traces, rate: Option<u64>) -> Result<()> {
    let chunks = Chunks(lazy);
    // Sorting chunks takes long where there are many, and readers wait for nobody.
    let tree = Arc::clone(&lazy.tree);
    let begun = blocking(move || {
        let mut stages = Stages::new(&tree);
        let first = stages.start();
        Ok((stages, first))
    });
    let (mut stages, first) = begun.await?;
    *lazy.counts.order.lock() = stages::parts(&lazy.tree, &first);
    // The first stage is fetched while what decides the others is read.
    let mut pace = Pace::new(rate);
    let started = tokio::time::timeout(START_MAX, fill(&chunks, first.clone().into(), &mut pace));
    let at = Arc::clone(lazy);
    let planned = async {
        let known = Known::read(lazy, traces).await;
        blocking(move || {
            let others = stages.others(&known);
            *at.counts.order.lock() = stages::parts(&at.tree, &[first.as_slice(), &others].concat());
            Ok((stages, first, others))
        })
        .await
    };
    let (planned, _) = tokio::join!(planned, started);
    let ((stages, first, others), at) = (planned?, Arc::clone(lazy));
    let all = blocking(move || Ok([first, stages.roots(at.roots()), others].concat())).await?;
    loop {
        fill(&chunks, all.clone().into(), &mut pace).await;
        *lazy.counts.filling.lock() = None;
        if lazy.counts.absent_bytes.load(Ordering::Relaxed) == 0 {
            return Ok(());
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
        *self.0.counts.filling.lock() = Some::<FillStage>(batch.stage);
        self.0.prefetch(&batch.chunks).await.map(drop)
    }
}
