//! Sends responses at given times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// What is done when the time has come.
type Answer = Box<dyn FnOnce() + Send>;

/// One thread that gives each answer at its time, never before.
pub(super) struct Timer {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    earlier: Condvar,
}

#[derive(Default)]
struct Queue {
    due: BinaryHeap<Due>,
    number: u64,
}

struct Due {
    at: Instant,
    /// Answers that are due at the same time leave in the order of their requests.
    number: u64,
    answer: Answer,
}

impl Timer {
    pub(super) fn start() -> std::io::Result<Timer> {
        let shared = Arc::new(Shared { queue: Mutex::default(), earlier: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new().name("timer".into()).spawn(move || of_thread.run())?;
        Ok(Timer { shared })
    }

    pub(super) fn at(&self, at: Instant, answer: Answer) {
        let mut queue = self.shared.lock();
        queue.number += 1;
        let number = queue.number;
        let is_first = queue.due.peek().is_none_or(|first| at < first.at);
        queue.due.push(Due { at, number, answer });
        if is_first {
            self.shared.earlier.notify_one();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no answer runs under the lock")
    }

    fn run(&self) {
        // A thread's timers may otherwise fire 50 us late, to save power.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut queue = self.lock();
        loop {
            let wait = queue.due.peek().map(|first| first.at.saturating_duration_since(Instant::now()));
            queue = match wait {
                Some(Duration::ZERO) => {
                    let due = queue.due.pop().expect("it was just seen");
                    drop(queue);
                    (due.answer)();
                    self.lock()
                }
                Some(wait) => {
                    self.earlier.wait_timeout(queue, wait).expect("no answer runs under the lock").0
                }
                None => self.earlier.wait(queue).expect("no answer runs under the lock"),
            };
        }
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.number == other.number
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    /// The heap's greatest is what is due first.
    fn cmp(&self, other: &Due) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

#[cfg(test)]
mod tests;
