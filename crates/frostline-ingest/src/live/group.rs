//! Gathers the requests of one index into groups.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use frostline_base::{IndexName, Result};
use frostline_catalog::Index;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep_until};

use super::{Appended, Request, Shared};

/// Groups of an index that are sealed, uploaded and committed at the same time.
const UNDER_WAY_MAX: usize = 2;

/// The writer of one index.
pub(super) struct Writer {
    pub(super) name: IndexName,
    pub(super) live: Arc<Shared>,
    queue: Mutex<Queue>,
    /// The queue has become longer.
    grown: Notify,
    under_way: Arc<Semaphore>,
    /// The index at the newest version that is known here.
    known: Mutex<Option<Index>>,
    /// Held by the group that is being committed.
    pub(super) turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<Request>,
    bytes: u64,
    /// A task makes groups of them.
    is_worked_on: bool,
    /// When the last group closed.
    closed_at: Option<Instant>,
    /// The keys of the requests that are here or under way, with requests of the same key, which wait for the outcome.
    keys: BTreeMap<String, Vec<Request>>,
}

impl Writer {
    pub(super) fn new(name: IndexName, live: &Arc<Shared>) -> Writer {
        Writer {
            name,
            live: Arc::clone(live),
            queue: Mutex::default(),
            grown: Notify::new(),
            under_way: Arc::new(Semaphore::new(UNDER_WAY_MAX)),
            known: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Puts a request into the group that gathers.
    pub(super) fn push(self: Arc<Self>, request: Request) {
        let mut queue = self.queue();
        if let Some(key) = request.append.key.clone() {
            if let Some(waiting) = queue.keys.get_mut(&key) {
                waiting.push(request);
                return;
            }
            queue.keys.insert(key, Vec::new());
        }
        queue.bytes += request.held.bytes;
        queue.requests.push_back(request);
        self.grown.notify_one();
        if !std::mem::replace(&mut queue.is_worked_on, true) {
            drop(queue);
            tokio::spawn(self.make_groups());
        }
    }

    /// Makes groups until there is no request.
    async fn make_groups(self: Arc<Self>) {
        // The semaphore is never closed.
        while let Ok(place) = Arc::clone(&self.under_way).acquire_owned().await {
            self.wait_until_closed().await;
            let Some(group) = self.take_group() else { return };
            let writer = Arc::clone(&self);
            tokio::spawn(async move {
                writer.land(group).await;
                drop(place);
            });
        }
    }

    /// Waits until the group that gathers is to close.
    async fn wait_until_closed(&self) {
        let options = &self.live.options;
        let mut closing = self.live.closing.subscribe();
        loop {
            let closes_at = {
                let queue = self.queue();
                if queue.requests.is_empty() || queue.bytes >= options.group_bytes {
                    return;
                }
                queue.closed_at.map(|closed| closed + options.group_after)
            };
            let Some(closes_at) = closes_at else { return };
            tokio::select! {
                () = sleep_until(closes_at) => return,
                _ = closing.wait_for(|is_closing| *is_closing) => return,
                () = self.grown.notified() => {}
            }
        }
    }

    /// The group, closed; none where there is no request, and then nobody works on the queue any more.
    fn take_group(&self) -> Option<Vec<Request>> {
        let mut queue = self.queue();
        let (mut group, mut bytes) = (Vec::new(), 0);
        while bytes < self.live.options.group_bytes {
            let Some(request) = queue.requests.pop_front() else { break };
            bytes += request.held.bytes;
            group.push(request);
        }
        queue.bytes -= bytes;
        if group.is_empty() {
            queue.is_worked_on = false;
            return None;
        }
        queue.closed_at = Some(Instant::now());
        Some(group)
    }

    /// Answers a request, and takes up those that waited for its outcome.
    pub(super) fn answer(self: &Arc<Self>, request: Request, answer: Result<Appended>) {
        let Request { append, answer: answered, held, stages, .. } = request;
        drop(stages);
        // A client that has gone is no reason to do anything else.
        let _ = answered.send(answer);
        drop(held);
        let waiting = append.key.and_then(|key| self.queue().keys.remove(&key));
        for request in waiting.into_iter().flatten() {
            Arc::clone(self).push(request);
        }
    }

    /// The index as it was last seen.
    pub(super) fn known(&self) -> Option<Index> {
        self.lock_known().clone()
    }

    /// Notes the newest version that was seen, or that the index is to be opened again.
    pub(super) fn note(&self, index: Option<Index>) {
        *self.lock_known() = index;
    }

    fn lock_known(&self) -> MutexGuard<'_, Option<Index>> {
        self.known.lock()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}
