//! The time during which a process may use the files of a place.
//!
//! When a mount ends, fetches and requests may still be in flight, and an abort stops no thread. The next process gets the
//! place as soon as its lock is free. So every task holds the lease while it uses files, and the lease ends before the lock
//! is free.

use parking_lot::{RwLock, RwLockReadGuard};
use rustix::io::Errno;
use tokio::sync::Notify;

/// A process has one for each place that it serves.
#[derive(Debug, Default)]
pub(super) struct Lease {
    is_over: RwLock<bool>,
    ended: Notify,
}

impl Lease {
    /// The lease does not end while this is held. `NOTCONN` once it is over.
    pub(super) fn hold(&self) -> rustix::io::Result<RwLockReadGuard<'_, bool>> {
        // A holder may call functions that hold it again, even while `end` waits.
        let is_over = self.is_over.read_recursive();
        if *is_over { Err(Errno::NOTCONN) } else { Ok(is_over) }
    }

    /// Ends the lease: waits until nobody holds it. After that, nobody can.
    pub(super) fn end(&self) {
        *self.is_over.write() = true;
        self.ended.notify_waiters();
    }

    /// Waits until it is over.
    pub(super) async fn over(&self) {
        let ended = self.ended.notified();
        if self.hold().is_ok() {
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_end_waits_for_who_holds_it_and_nobody_does_after_that() {
        let (lease, done) = (Lease::default(), parking_lot::Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            let held = lease.hold().unwrap();
            scope.spawn(|| {
                lease.end();
                done.lock().push("ended");
            });
            while lease.is_over.try_read().is_some() {
                std::thread::yield_now();
            }
            drop(lease.hold().unwrap());
            done.lock().push("used");
            drop(held);
        });
        assert_eq!(*done.lock(), ["used", "ended"]);
        assert_eq!(lease.hold().err(), Some(Errno::NOTCONN));
    }

    #[tokio::test]
    async fn who_waits_for_its_end_is_woken_and_finds_it_over() {
        let lease = Lease::default();
        tokio::join!(biased; lease.over(), async { lease.end() });
        lease.over().await;
    }
}
