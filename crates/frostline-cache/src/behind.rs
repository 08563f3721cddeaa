//! Background work: a bounded queue and a few threads.
//!
//! Pushing never blocks. Work that does not fit is dropped, so a slow volume causes pages not to be cached, but no
//! delay.

use std::collections::{BTreeSet, VecDeque};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

/// Bytes that may be queued or in progress. A single larger piece of work is allowed.
const BYTES_MAX: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct Behind<W> {
    queue: Mutex<Queue<W>>,
    threads_max: usize,
    /// The number of the oldest piece of work that is not finished.
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
    /// A queue for this many threads.
    pub(crate) fn new(threads_max: usize) -> Self {
        let queue =
            Queue { waiting: VecDeque::new(), under_way: BTreeSet::new(), bytes: 0, next: 0, threads: 0 };
        Behind { queue: Mutex::new(queue), threads_max: threads_max.max(1), done: watch::Sender::new(0) }
    }

    /// Queues a piece of work of this many bytes, and returns whether it fitted. If another thread may run, `start` is
    /// called: it must start a thread that calls [`Behind::work`].
    pub(crate) fn push(&self, work: W, bytes: usize, start: impl FnOnce()) -> bool {
        let mut queue = self.queue();
        if queue.bytes > 0 && queue.bytes + bytes > BYTES_MAX {
            // Dropping the work may take locks of its own.
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

    /// Works until the queue is empty.
    pub(crate) fn work(&self, mut each: impl FnMut(&W)) {
        let mut thread = Thread { behind: self, works: true };
        while let Some((number, bytes, work)) = thread.next() {
            let ended = Ended { behind: self, number, bytes };
            each(&work);
            drop(work);
            drop(ended);
        }
    }

    /// Waits until everything that was pushed before is finished.
    pub(crate) async fn flush(&self) {
        let wanted = self.queue().next;
        // The sender lives as long as `self`.
        let _ = self.done.subscribe().wait_for(|done| *done >= wanted).await;
    }

    fn queue(&self) -> MutexGuard<'_, Queue<W>> {
        self.queue.lock()
    }
}

/// A running thread; it counts as one until it finds no more work, or panics.
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
            // Atomic with finding no work, so a concurrent push starts another thread.
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

/// Signals the end of a piece of work, however it ended.
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
