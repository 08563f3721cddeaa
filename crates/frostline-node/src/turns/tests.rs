use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use tokio::sync::Semaphore;

use super::*;

/// Reads that end when they are let.
#[derive(Default)]
struct Source {
    turns: Turns,
    reads: AtomicU64,
    fails: bool,
}

impl Source {
    async fn ask(&self, gate: &Semaphore) -> Option<Result<u64, ()>> {
        let read = async {
            let number = self.reads.fetch_add(1, Ordering::SeqCst) + 1;
            gate.acquire().await.unwrap().forget();
            if self.fails { Err(()) } else { Ok(number) }
        };
        self.turns.read(read).await
    }
}

/// One asks, its read begins, and nine more ask before it ends.
async fn crowd(fails: bool) -> (Vec<Option<Result<u64, ()>>>, u64) {
    let (source, gate) = (Arc::new(Source { fails, ..Source::default() }), Arc::new(Semaphore::new(0)));
    let mut asked = Vec::new();
    for _ in 0..10 {
        let (source, gate) = (Arc::clone(&source), Arc::clone(&gate));
        asked.push(tokio::spawn(async move { source.ask(&gate).await }));
        tokio::task::yield_now().await;
    }
    assert_eq!(source.reads.load(Ordering::SeqCst), 1);
    gate.add_permits(10);
    let answers = join_all(asked).await.into_iter().map(Result::unwrap).collect();
    (answers, source.reads.load(Ordering::SeqCst))
}

#[tokio::test]
async fn those_who_wait_share_a_read_that_began_after_they_asked() {
    let (answers, reads) = crowd(false).await;
    assert_eq!(reads, 2);
    assert_eq!(answers[..3], [Some(Ok(1)), Some(Ok(2)), None]);
    assert!(answers[3..].iter().all(Option::is_none));
}

#[tokio::test]
async fn one_who_asks_after_a_read_has_ended_reads() {
    let (source, gate) = (Source::default(), Semaphore::new(2));
    assert_eq!(source.ask(&gate).await, Some(Ok(1)));
    assert_eq!(source.ask(&gate).await, Some(Ok(2)));
}

#[tokio::test]
async fn a_read_that_fails_makes_all_who_wait_read_for_themselves() {
    let (answers, reads) = crowd(true).await;
    assert_eq!(reads, 10);
    assert!(answers.iter().all(|answer| *answer == Some(Err(()))));
}

#[tokio::test]
async fn a_read_that_is_given_up_keeps_nobody_from_reading() {
    let (source, gate) = (Source::default(), Semaphore::new(0));
    {
        let mut first = std::pin::pin!(source.ask(&gate));
        assert!(futures::poll!(first.as_mut()).is_pending());
    }
    gate.add_permits(1);
    assert_eq!(source.ask(&gate).await, Some(Ok(2)));
}
