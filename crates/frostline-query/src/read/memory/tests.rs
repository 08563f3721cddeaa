use datafusion::execution::memory_pool::GreedyMemoryPool;

use super::*;
use crate::ErrorKind;

fn pool(all: &Arc<dyn MemoryPool>, bytes_max: usize) -> Arc<dyn MemoryPool> {
    Arc::new(Budget::new(all, bytes_max))
}

fn refused(result: DataFusionResult<()>) -> String {
    let error = internal(result.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    error.to_string()
}

#[test]
fn a_query_beyond_its_budget_is_refused_and_others_go_on() {
    let all: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1_000));
    let (one, other) = (pool(&all, 600), pool(&all, 600));
    let (a, b, c) = (reservation(&one, "a"), reservation(&one, "b"), reservation(&other, "c"));
    a.try_grow(400).unwrap();
    b.try_grow(150).unwrap();
    let said = refused(b.try_grow(100));
    assert!(
        said.contains("holds 550") && said.contains("may hold 600") && said.contains("--query-memory"),
        "{said}"
    );
    c.try_grow(450).unwrap();
    // It has room left, but all together have not.
    let said = refused(c.try_grow(1));
    assert!(said.contains("together hold 1000") && said.contains("--memory"), "{said}");
    drop(a);
    c.try_grow(150).unwrap();
    refused(c.try_grow(1));
    drop((b, c));
    assert_eq!((one.reserved(), other.reserved(), all.reserved()), (0, 0, 0));
}

#[tokio::test]
async fn work_waits_for_its_turn_and_is_refused_beyond_the_budget() {
    let all: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 * PIECE));
    let window = Window::new(&pool(&all, 16 * PIECE), 4 * PIECE);
    let first = window.room(3 * PIECE).await.unwrap();
    let second = window.room(2 * PIECE);
    futures::pin_mut!(second);
    assert!(futures::poll!(second.as_mut()).is_pending());
    first.resize(PIECE).unwrap();
    assert!(futures::poll!(second.as_mut()).is_pending(), "it is still at work");
    drop(first);
    let second = second.await.unwrap();
    assert_eq!(all.reserved(), 2 * PIECE);
    drop(second);
    // What is larger than the window works alone, and what is larger than the budget not at all.
    drop(window.room(10 * PIECE).await.unwrap());
    assert_eq!(window.room(17 * PIECE).await.unwrap_err().kind(), ErrorKind::Exhausted);
    window.room(PIECE).await.unwrap();
}
