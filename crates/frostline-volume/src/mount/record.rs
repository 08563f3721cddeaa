//! Recording what the users of a mount want first, for the mounts after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use frostline_base::Result;

use super::lazy::Lazy;
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

    /// Records what is left.
    pub(super) async fn end(mut self) {
        // What it was about to write is written below.
        self.task.shutdown().await;
        if self.of.lazy.wanted_count() > self.of.written.load(Ordering::Relaxed)
            && tokio::time::timeout(END_MAX, self.of.write()).await.is_err()
        {
            tracing::warn!("the repository does not answer: it was not recorded what was read first");
        }
    }
}

impl Recorded {
    async fn write(&self) {
        let (before, lazy) = (self.traces.newest().await, Arc::clone(&self.lazy));
        let done: Result<usize> = async {
            let (trace, wanted) = blocking(move || {
                let wanted = lazy.wanted();
                Ok((before.after(&lazy.tree, &wanted, |entry| lazy.can_see(entry)), wanted.len()))
            })
            .await?;
            self.traces.put(&trace).await.map(|()| wanted)
        }
        .await;
        match done {
            Ok(wanted) => self.written.store(wanted, Ordering::Relaxed),
            Err(error) => tracing::warn!(?error, "it was not recorded what was read first"),
        }
    }
}
