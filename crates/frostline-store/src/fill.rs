//! Bringing data near behind those who use it: many batches at once while nobody waits for a read, one while somebody
//! does, and at most so many bytes a second.

use std::collections::VecDeque;
use std::time::Duration;

use frostline_base::Result;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

/// Batches on their way while nobody waits for a read.
const BATCHES: usize = 16;
/// How long a full disk is left alone, and a repository that did not give all.
const PAUSE: Duration = Duration::from_secs(30);

/// What is filled, in batches.
pub trait Fills {
    /// A part of it that is fetched at once.
    type Batch;

    /// What of a batch is absent, and its bytes; none if all is there. It is asked again of a batch that has to wait.
    fn absent(&self, batch: Self::Batch) -> Option<(Self::Batch, u64)>;

    /// Whether somebody waits for a read now.
    fn is_waited_for(&self) -> bool;

    /// Fetches a batch. After an error filling pauses and goes on with others. Once one of them came through, the batch is
    /// tried again, and if it fails then, after all others.
    fn fetch(&self, batch: &Self::Batch) -> impl Future<Output = Result<()>>;
}

/// A batch that is to be fetched.
struct Part<B> {
    /// Where it is in the order.
    at: usize,
    batch: B,
    failures: u32,
}

/// How many bytes a second are fetched: a token bucket that holds those of one second, and is full at first.
#[derive(Debug)]
pub struct Pace {
    rate: Option<u64>,
    /// When the bucket is full again.
    paid_at: Instant,
}

impl Pace {
    /// At most so many bytes a second from now on.
    pub fn new(rate: Option<u64>) -> Pace {
        Pace { rate, paid_at: Instant::now() }
    }

    /// Begins with so many bytes, or tells when that is allowed.
    fn begin(&mut self, bytes: u64) -> std::result::Result<(), Instant> {
        const BURST: Duration = Duration::from_secs(1);
        let Some(rate) = self.rate else { return Ok(()) };
        let takes = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        let (now, paid_at) = (Instant::now(), self.paid_at + takes);
        if paid_at > now + BURST {
            return Err(paid_at - BURST);
        }
        // What was not used before fills the bucket, and no more.
        self.paid_at = paid_at.max(now + takes.min(BURST));
        Ok(())
    }
}

/// Fetches what is absent of these batches, in this order.
pub async fn fill<F: Fills>(of: &F, queue: VecDeque<F::Batch>, pace: &mut Pace) {
    let parts = queue.into_iter().enumerate().map(|(at, batch)| Part { at, batch, failures: 0 });
    let mut queue: VecDeque<Part<F::Batch>> = parts.collect();
    let mut failed: Vec<Part<F::Batch>> = Vec::new();
    let mut running = FuturesUnordered::new();
    let mut next_at = Instant::now();
    let mut fetched = 0_u64;
    loop {
        if queue.is_empty() && running.is_empty() {
            put_back(&mut failed, &mut queue, |part| {
                part.failures = 0;
                true
            });
        }
        let at_once = if of.is_waited_for() { 1 } else { BATCHES };
        while running.len() < at_once
            && Instant::now() >= next_at
            && let Some(Part { at, batch, failures }) = queue.pop_front()
        {
            let Some((batch, bytes)) = of.absent(batch) else { continue };
            let part = Part { at, batch, failures };
            if let Err(begins) = pace.begin(bytes) {
                next_at = begins;
                queue.push_front(part);
                break;
            }
            running.push(async move { (of.fetch(&part.batch).await, part, fetched) });
        }
        let paced = !queue.is_empty() && running.len() < at_once;
        tokio::select! {
            Some((done, mut part, fetched_before)) = running.next(), if !running.is_empty() => match done {
                Ok(()) => {
                    fetched += 1;
                    // It may not have been their own fault that these failed.
                    put_back(&mut failed, &mut queue, |part| part.failures == 1);
                }
                Err(error) => {
                    tracing::warn!(?error, "filling pauses");
                    part.failures += 1;
                    if part.failures == 1 || fetched == fetched_before {
                        // Others that are on their way go on: somebody may wait for what they bring.
                        next_at = Instant::now() + PAUSE;
                    }
                    failed.push(part);
                }
            },
            () = tokio::time::sleep_until(next_at), if paced => {}
            else => return,
        }
    }
}

/// Puts those of the failed parts in front of the others, in their order, that are to be tried again.
fn put_back<B>(
    failed: &mut Vec<Part<B>>,
    queue: &mut VecDeque<Part<B>>,
    is_tried: impl FnMut(&mut Part<B>) -> bool,
) {
    let mut again: Vec<Part<B>> = failed.extract_if(.., is_tried).collect();
    again.sort_by_key(|part| std::cmp::Reverse(part.at));
    again.into_iter().for_each(|part| queue.push_front(part));
}

/// Waits as long as a full disk is left alone.
pub async fn pause_filling() {
    tokio::time::sleep(PAUSE).await;
}

/// How fast something goes lately: when more of it was done, and how much was done then.
#[derive(Debug, Default)]
pub struct Speed(VecDeque<(Instant, u64)>);

impl Speed {
    /// Bytes a second, now that so many are done. What is done in steps has the speed of whole steps.
    pub fn at(&mut self, done_bytes: u64) -> u64 {
        const LATELY: Duration = Duration::from_secs(20);
        let now = Instant::now();
        if self.0.back().is_none_or(|(_, before)| *before != done_bytes) {
            self.0.push_back((now, done_bytes));
        }
        while self.0.len() > 2 && now.duration_since(self.0[1].0) >= LATELY {
            self.0.pop_front();
        }
        let (Some((first, before)), Some((last, _))) = (self.0.front(), self.0.back()) else { return 0 };
        let took = last.duration_since(*first);
        let step = took / (self.0.len() as u32 - 1).max(1);
        let idle = now.duration_since(*last);
        if idle > LATELY.max(2 * step) {
            return 0;
        }
        let seconds = (took + idle.saturating_sub(step)).as_secs_f64();
        if seconds > 0.0 { (done_bytes.saturating_sub(*before) as f64 / seconds) as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests;
