//! Filling a mounted snapshot behind its users, in the order of the packs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use super::lazy::Lazy;
use crate::reader::{batches, targets};

/// A batch of chunks has about so many stored bytes.
const BATCH_BYTES: u64 = 4 << 20;
/// Batches on their way while nobody waits for a read.
const BATCHES: usize = 8;
/// How long a full disk is left alone, and a repository that did not give all.
const PAUSE: Duration = Duration::from_secs(30);

/// Fetches all that is absent, at most so many bytes of files a second. While somebody waits for a read, one batch at a
/// time. Chunks that cannot be had are tried again after all others.
pub(super) async fn hydrate(lazy: &Arc<Lazy>, rate: Option<u64>) {
    loop {
        pass(lazy, rate).await;
        if lazy.counts.absent_bytes.load(Ordering::Relaxed) == 0 {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn pass(lazy: &Arc<Lazy>, rate: Option<u64>) {
    let mut queue: VecDeque<Vec<usize>> = batches(&lazy.tree, targets(&lazy.tree), BATCH_BYTES)
        .into_iter()
        .map(|batch| batch.into_iter().map(|target| target.chunk).collect())
        .collect();
    let mut running = FuturesUnordered::new();
    let mut next_at = Instant::now();
    loop {
        let at_once = if lazy.counts.waiting.load(Ordering::Relaxed) > 0 { 1 } else { BATCHES };
        while running.len() < at_once
            && (rate.is_none() || Instant::now() >= next_at)
            && let Some(batch) = queue.pop_front()
        {
            let batch = lazy.absent_of(batch);
            if batch.is_empty() {
                continue;
            }
            if let Some(rate) = rate {
                let bytes: u64 = batch.iter().map(|chunk| u64::from(lazy.tree.chunks[*chunk].bytes)).sum();
                next_at =
                    next_at.max(Instant::now()) + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            }
            running.push(async move { (lazy.prefetch(&batch).await, batch) });
        }
        let paced = rate.is_some() && !queue.is_empty() && running.len() < at_once;
        tokio::select! {
            Some((done, batch)) = running.next(), if !running.is_empty() => {
                if let Err(error) = done {
                    tracing::warn!(?error, "filling a mounted snapshot pauses");
                    queue.push_front(batch);
                    next_at = Instant::now() + PAUSE;
                    tokio::time::sleep_until(next_at).await;
                }
            }
            () = tokio::time::sleep_until(next_at), if paced => {}
            else => return,
        }
    }
}
