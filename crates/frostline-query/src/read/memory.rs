//! The memory of queries: what all may hold together, what one may, and how many reads there are at a time.
//!
//! What a query keeps for longer than a read is reserved in its [`Budget`], and a query that would hold more is refused
//! while others go on. What is worked on at the same time waits in a [`Window`] instead, so that a small budget makes a
//! query slow before it makes it fail.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Result;
use crate::errors::internal;

/// What one query may hold, of what all may.
#[derive(Debug)]
pub(crate) struct Budget {
    all: Arc<dyn MemoryPool>,
    bytes_max: usize,
    held: AtomicUsize,
}

impl Budget {
    /// At most `bytes_max` out of the pool of all queries.
    pub(crate) fn new(all: &Arc<dyn MemoryPool>, bytes_max: usize) -> Budget {
        Budget { all: Arc::clone(all), bytes_max, held: AtomicUsize::new(0) }
    }

    fn take(&self, additional: usize) -> DataFusionResult<()> {
        let taken = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            held.checked_add(additional).filter(|held| *held <= self.bytes_max)
        });
        taken.map(drop).map_err(|held| {
            DataFusionError::ResourcesExhausted(format!(
                "it holds {held} bytes and needs {additional} more, but may hold {}; ask for fewer buckets, groups or \
                 columns or a shorter time, or allow more with --query-memory",
                self.bytes_max
            ))
        })
    }
}

impl MemoryPool for Budget {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.held.fetch_add(additional, Ordering::Relaxed);
        self.all.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.held.fetch_sub(shrink, Ordering::Relaxed);
        self.all.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> DataFusionResult<()> {
        self.take(additional)?;
        self.all.try_grow(reservation, additional).map_err(|_| {
            self.held.fetch_sub(additional, Ordering::Relaxed);
            DataFusionError::ResourcesExhausted(format!(
                "it needs {additional} bytes more, and all queries together hold {} of those that they may; try again \
                 when fewer run, or allow more with --memory",
                self.all.reserved()
            ))
        })
    }

    fn reserved(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.bytes_max)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({} of {})", self.name(), self.reserved(), self.bytes_max)
    }
}

/// Reserves memory under a name, at first none.
pub(crate) fn reservation(pool: &Arc<dyn MemoryPool>, name: &str) -> MemoryReservation {
    MemoryConsumer::new(name).register(pool)
}

/// Memory of queries that is taken until this is dropped.
#[derive(Debug)]
pub struct Memory {
    _memory: MemoryReservation,
}

impl Memory {
    pub(crate) fn take(pool: &Arc<dyn MemoryPool>, bytes: usize) -> Result<Memory> {
        let memory = reservation(pool, "answer");
        memory.try_grow(bytes).map_err(internal)?;
        Ok(Memory { _memory: memory })
    }
}

/// Permits that stand for memory.
#[derive(Debug)]
pub(crate) struct Permits {
    semaphore: Arc<Semaphore>,
    max: u32,
}

/// Permits are counted in pieces of so many bytes.
const PIECE: usize = 64 << 10;

impl Permits {
    pub(crate) fn new(bytes_max: usize) -> Permits {
        let max = u32::try_from(bytes_max / PIECE).unwrap_or(u32::MAX);
        let max = max.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize) as u32);
        Permits { semaphore: Arc::new(Semaphore::new(max as usize)), max }
    }

    /// Waits until so much is free; what is larger than all there is waits until it is alone.
    pub(crate) async fn acquire(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let permits = u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX).clamp(1, self.max);
        // It is never closed.
        Arc::clone(&self.semaphore).acquire_many_owned(permits).await.ok()
    }
}

/// Lets so many splits be worked on at a time as fit into a part of a query's memory.
#[derive(Debug)]
pub(crate) struct Window {
    permits: Permits,
    pool: Arc<dyn MemoryPool>,
}

impl Window {
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>, bytes_max: usize) -> Window {
        Window { permits: Permits::new(bytes_max), pool: Arc::clone(pool) }
    }

    /// Waits for its turn, and reserves about what the work will take. Whoever holds one must not wait for another.
    pub(crate) async fn room(&self, bytes: usize) -> Result<Room> {
        let permit = self.permits.acquire(bytes).await;
        let memory = reservation(&self.pool, "splits");
        memory.try_resize(bytes).map_err(internal)?;
        Ok(Room { memory, _permit: permit })
    }
}

/// Memory for the work on one split, until it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    memory: MemoryReservation,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// What is held now.
    pub(crate) fn resize(&self, bytes: usize) -> Result<()> {
        self.memory.try_resize(bytes).map_err(internal)
    }
}

#[cfg(test)]
mod tests;
