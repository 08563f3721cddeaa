//! The time in which a process may use the files of a place.
//!
//! When a mount ends, fetches and requests may still be on their way, and an abort stops no thread. The next process has
//! the place as soon as its lock is free. So all tasks ask before they use files, and the lease ends before the lock is free.

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
    /// As long as this is held, the lease does not end. `NOTCONN` once it is over.
    pub(super) fn hold(&self) -> rustix::io::Result<RwLockReadGuard<'_, bool>> {
        // Its holder may call others who hold it, also when its end is waited for.
        let is_over = self.is_over.read_recursive();
        if *is_over { Err(Errno::NOTCONN) } else { Ok(is_over) }
    }

    /// Waits until nobody holds it. Nobody does after that.
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
