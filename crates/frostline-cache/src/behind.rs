//! Work that is done behind the readers' backs: a bounded queue and a few threads.
//!
//! Pushing never waits. What does not fit is dropped, so a volume that cannot keep up costs what is not kept and no time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Bytes that may wait or be worked on. One piece of work alone may be larger.
const BYTES_MAX: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct Behind<W> {
    queue: Mutex<Queue<W>>,
    threads_max: usize,
    /// The number of the first piece of work that is not done.
    done: watch::Sender<u64>,
}

#[derive(Debug)]
struct Queue<W> {
    waiting: VecDeque<(u64, usize, W)>,
    under_way: BTreeSet<u64>,
    bytes: usize,
    next: u64,
    threads: usize,
}

impl<W> Behind<W> {
    /// A queue that so many threads work on.
    pub(crate) fn new(threads_max: usize) -> Self {
        let queue =
            Queue { waiting: VecDeque::new(), under_way: BTreeSet::new(), bytes: 0, next: 0, threads: 0 };
        Behind { queue: Mutex::new(queue), threads_max: threads_max.max(1), done: watch::Sender::new(0) }
    }

    /// Queues a piece of work of so many bytes, and says whether it did. Where one more thread may work, `start` is
    /// called: it has a thread call [`Behind::work`].
    pub(crate) fn push(&self, work: W, bytes: usize, start: impl FnOnce()) -> bool {
        let mut queue = self.queue();
        if queue.bytes > 0 && queue.bytes + bytes > BYTES_MAX {
            // What is dropped may take locks of its own.
            drop(queue);
            drop(work);
            return false;
        }
        let number = queue.next;
        queue.next += 1;
        queue.bytes += bytes;
        queue.waiting.push_back((number, bytes, work));
        let starts = queue.threads < self.threads_max;
        queue.threads += usize::from(starts);
        drop(queue);
        if starts {
            start();
        }
        true
    }

    /// Does what waits until nothing does.
    pub(crate) fn work(&self, mut each: impl FnMut(&W)) {
        let mut thread = Thread { behind: self, works: true };
        while let Some((number, bytes, work)) = thread.next() {
            let ended = Ended { behind: self, number, bytes };
            each(&work);
            drop(work);
            drop(ended);
        }
    }

    /// Waits until all that was pushed before is done.
    pub(crate) async fn flush(&self) {
        let wanted = self.queue().next;
        // The sender lives as long as this.
        let _ = self.done.subscribe().wait_for(|done| *done >= wanted).await;
    }

    fn queue(&self) -> MutexGuard<'_, Queue<W>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that works; it counts as one until it finds nothing more to do, or panics.
struct Thread<'a, W> {
    behind: &'a Behind<W>,
    works: bool,
}

impl<W> Thread<'_, W> {
    fn next(&mut self) -> Option<(u64, usize, W)> {
        let mut queue = self.behind.queue();
        let next = queue.waiting.pop_front();
        match &next {
            Some((number, ..)) => {
                queue.under_way.insert(*number);
            }
            // In one step with finding nothing: whoever pushes now starts another thread.
            None => {
                queue.threads -= 1;
                self.works = false;
            }
        }
        next
    }
}

impl<W> Drop for Thread<'_, W> {
    fn drop(&mut self) {
        if self.works {
            self.behind.queue().threads -= 1;
        }
    }
}

/// Tells who waits that a piece of work is over, however it ended.
struct Ended<'a, W> {
    behind: &'a Behind<W>,
    number: u64,
    bytes: usize,
}

impl<W> Drop for Ended<'_, W> {
    fn drop(&mut self) {
        let mut queue = self.behind.queue();
        queue.under_way.remove(&self.number);
        queue.bytes -= self.bytes;
        let waiting = queue.waiting.front().map_or(queue.next, |(number, ..)| *number);
        let first = queue.under_way.first().copied().unwrap_or(waiting).min(waiting);
        drop(queue);
        self.behind.done.send_if_modified(|done| {
            let later = first > *done;
            *done = first.max(*done);
            later
        });
    }
}

#[cfg(test)]
mod tests;
