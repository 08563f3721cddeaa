//! Reads that may be answered by what the node has seen, where the repository does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

tokio::task_local! {
    /// Whether the work that runs was given what may be outdated.
    static OUTDATED: Arc<AtomicBool>;
}

/// Runs `work`, for which what the node has seen will do where the repository does not answer. Whether it was given any such.
/// The tasks that it spawns are given none.
pub async fn seen_will_do<T>(work: impl Future<Output = T>) -> (T, bool) {
    let outdated = Arc::new(AtomicBool::new(false));
    let done = OUTDATED.scope(Arc::clone(&outdated), work).await;
    (done, outdated.load(Ordering::Relaxed))
}

/// What was seen, for work that it will do for.
pub(crate) fn given<T>(seen: Option<T>) -> Option<T> {
    let seen = seen?;
    OUTDATED.try_with(|outdated| outdated.store(true, Ordering::Relaxed)).ok().map(|()| seen)
}
