use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use super::*;

#[tokio::test]
async fn what_does_not_fit_is_dropped_at_once_and_a_flush_waits_for_the_rest() {
    let behind = Arc::new(Behind::new(2));
    let (open, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let done = Arc::new(AtomicU64::new(0));
    let push = |number: u64, bytes: usize| {
        let (worker, gate, done) = (Arc::clone(&behind), Arc::clone(&gate), Arc::clone(&done));
        behind.push(number, bytes, move || {
            tokio::task::spawn_blocking(move || {
                worker.work(|_| {
                    let _ = gate.lock().recv();
                    done.fetch_add(1, Ordering::SeqCst);
                })
            });
        })
    };
    assert!(push(0, 2 * BYTES_MAX), "one alone may be large");
    assert!(!push(1, 1));
    open.send(()).unwrap();
    behind.flush().await;
    assert!((2..10).all(|number| push(number, BYTES_MAX / 8)));
    assert!(!push(10, 1));
    (0..8).for_each(|_| open.send(()).unwrap());
    behind.flush().await;
    assert_eq!(done.load(Ordering::SeqCst), 9);
    assert!(push(11, 1));
    drop(open);
    behind.flush().await;
}
