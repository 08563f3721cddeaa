//! Reads that may be answered by what the node has seen, where the repository does not answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use frostline_catalog::{Index, Pin};

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

/// Versions of points in time that were opened, by their tables, and until when they are kept as far as it is known here.
#[derive(Debug, Default)]
pub(crate) struct Pinned(BTreeMap<(String, u64), (Arc<Index>, i64)>);

/// More are not remembered: most are versions that nobody else has open.
const PINNED_MAX: usize = 32;

impl Pinned {
    pub(crate) fn put(&mut self, index: &Arc<Index>, until_us: i64, now_us: i64) {
        self.0.retain(|_, (_, until_us)| *until_us > now_us);
        let key = (index.table_id().to_owned(), index.version());
        let until_us = self.0.get(&key).map_or(until_us, |(_, known)| until_us.max(*known));
        self.0.insert(key, (Arc::clone(index), until_us));
        if self.0.len() > PINNED_MAX {
            let first = self.0.iter().min_by_key(|(_, (_, until_us))| *until_us).map(|(key, _)| key.clone());
            first.and_then(|first| self.0.remove(&first));
        }
    }

    /// None where it is not known, or has ended as far as that is.
    pub(crate) fn get(&self, pin: &Pin, now_us: i64) -> Option<Arc<Index>> {
        let (index, until_us) = self.0.get(&(pin.table_id.clone(), pin.version))?;
        (*until_us > now_us).then(|| Arc::clone(index))
    }

    pub(crate) fn remove(&mut self, pin: &Pin) {
        self.0.remove(&(pin.table_id.clone(), pin.version));
    }
}
