//! Recording what the users of a mount want first, for the mounts after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use frostline_base::Result;

use super::lazy::{Lazy, Seen};
use crate::snapshot::blocking;
use crate::traces::Traces;

/// How often it is looked whether there is more to record, in case that the machine ends before the mount does.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// It is written again when there is so much more.
const GROWTH_DIVISOR: usize = 4;
/// At its end a process waits so long for a repository that does not answer.
const END_MAX: Duration = Duration::from_secs(10);

/// A trace that grows while a mount is used.
pub(super) struct Recording {
    of: Arc<Recorded>,
    task: JoinSet<()>,
}

struct Recorded {
    lazy: Arc<Lazy>,
    traces: Arc<Traces>,
    /// Chunks that the trace in the repository has of this mount.
    written: AtomicUsize,
}

impl Recording {
    pub(super) fn start(lazy: &Arc<Lazy>, traces: &Arc<Traces>) -> Recording {
        let of = Arc::new(Recorded {
            lazy: Arc::clone(lazy),
            traces: Arc::clone(traces),
            written: AtomicUsize::new(0),
        });
        let recorded = Arc::clone(&of);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut tried = 0;
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                let wanted = recorded.lazy.wanted_count();
                if wanted > tried + tried / GROWTH_DIVISOR {
                    tried = wanted;
                    recorded.write().await;
                }
            }
        });
        Recording { of, task }
    }

    /// Ends it. What remains to be recorded needs no file of the mount.
    pub(super) async fn end(mut self) -> Left {
        // What it was about to write remains.
        self.task.shutdown().await;
        let Recorded { lazy, traces, written } = &*self.of;
        let is_more = lazy.wanted_count() > written.load(Ordering::Relaxed);
        Left { traces: Arc::clone(traces), seen: is_more.then(|| lazy.seen()) }
    }
}

/// What remains to be recorded after a mount has ended.
pub(super) struct Left {
    traces: Arc<Traces>,
    seen: Option<Seen>,
}

impl Left {
    pub(super) async fn write(self) {
        let Some(seen) = self.seen else { return };
        match tokio::time::timeout(END_MAX, write(&self.traces, seen)).await {
            Ok(done) => drop(told(done)),
            Err(_) => {
                tracing::warn!("the repository does not answer: what was read first was not recorded");
            }
        }
    }
}

impl Recorded {
    async fn write(&self) {
        if let Some(wanted) = told(write(&self.traces, self.lazy.seen()).await) {
            self.written.store(wanted, Ordering::Relaxed);
        }
    }
}

/// Writes a trace, and returns how many chunks of this mount it has.
async fn write(traces: &Traces, seen: Seen) -> Result<usize> {
    let before = traces.newest().await;
    let (trace, wanted) = blocking(move || {
        let can_see = |entry| seen.files.binary_search(&entry).is_ok();
        Ok((before.after(&seen.tree, &seen.wanted, can_see), seen.wanted.len()))
    })
    .await?;
    traces.put(&trace).await.map(|()| wanted)
}

fn told(done: Result<usize>) -> Option<usize> {
    done.inspect_err(|error| tracing::warn!(?error, "what was read first was not recorded")).ok()
}
