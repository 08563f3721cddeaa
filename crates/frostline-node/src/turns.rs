//! One read answers all who asked before it began.
//!
//! However many ask at the same time, at most two reads follow each other for them, and none is given what was read before
//! it asked.

use parking_lot::{Mutex, MutexGuard};

/// The reads of one thing.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    reading: tokio::sync::Mutex<()>,
    numbers: Mutex<Numbers>,
}

/// The numbers of reads, from 1.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    begun: u64,
    succeeded: u64,
    failed: u64,
}

impl Turns {
    /// The outcome of `read`; none if one that began after this call has succeeded instead.
    pub(crate) async fn read<T, E>(&self, read: impl Future<Output = Result<T, E>>) -> Option<Result<T, E>> {
        let asked = self.numbers().begun;
        let turn = self.reading.lock().await;
        let Numbers { succeeded, failed, .. } = *self.numbers();
        if succeeded > asked {
            return None;
        }
        if failed > asked {
            // Whoever waited for it does not wait again for each of the others.
            drop(turn);
            return Some(read.await);
        }
        let number = self.begin();
        let outcome = read.await;
        self.end(number, outcome.is_ok());
        Some(outcome)
    }

    fn begin(&self) -> u64 {
        let mut numbers = self.numbers();
        numbers.begun += 1;
        numbers.begun
    }

    fn end(&self, number: u64, succeeded: bool) {
        let mut numbers = self.numbers();
        if succeeded {
            numbers.succeeded = number;
        } else {
            numbers.failed = number;
        }
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock()
    }
}

#[cfg(test)]
mod tests;
