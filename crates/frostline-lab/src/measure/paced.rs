//! Requests at times that are set in advance, whatever the volume answers.
//!
//! fio has nothing that does this: before it sleeps until the next request is due, it waits for all that are outstanding,
//! and then sends at once what became due meanwhile. A volume gets bursts and idles between them, so that latency bends
//! well below its limit. (`io_submit_mode=offload`, which would not wait, hangs in fio 3.33.)
//!
//! Latency counts from when a request was due. What it had to wait for a CPU of this host is counted apart.

use std::fs::{File, OpenOptions};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use frostline_base::{Error, Result};
use rand::rngs::SmallRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use rustix::fs::OFlags;
use rustix::thread::{Timespec, nanosleep};

use super::curve::Point;
use super::load::{Load, OUTSTANDING};
use crate::host::facts::{self, WaitedForCpu};
use crate::host::io;
use crate::stats;

/// Longest sleep: how late a wish to stop may be seen.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Buffers begin at a multiple of this, as requests without the page cache need.
const ALIGNMENT: usize = 4096;

/// Requests to offer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paced {
    /// Whose requests; random ones.
    pub(super) load: Load,
    /// Size of the file.
    pub(super) data_bytes: u64,
    /// Requests a second.
    pub(super) iops: f64,
    /// For so long.
    pub(super) seconds: f64,
    /// Of the places.
    pub(super) seed: u64,
}

/// One request.
#[derive(Clone, Copy, Debug)]
struct Request {
    write: bool,
    offset: u64,
}

/// What a thread did.
#[derive(Debug, Default)]
struct Served {
    /// Latencies of reads and of writes.
    ms: [Vec<f64>; 2],
    /// When the last one was done.
    last: Option<Instant>,
    /// For how long its requests waited for a CPU, if the kernel counts that.
    waited: Duration,
    counts_waiting: bool,
}

impl Paced {
    /// Offers them to `file`, past the page cache, until the time is over or `is_stopped`.
    ///
    /// # Errors
    /// Of the file: it is never created.
    pub(super) fn to(self, file: &Path, is_stopped: impl Fn() -> bool + Sync) -> Result<Point> {
        let direct = OFlags::DIRECT.bits() as i32;
        let opened = OpenOptions::new().read(true).write(true).custom_flags(direct).open(file);
        let opened = opened.map_err(|e| io(e, "cannot open", file))?;
        let serve = |request, buffer: &mut [u8]| {
            request_of(&opened, request, buffer).map_err(|e| io(e, "cannot read and write", file))
        };
        self.through(serve, is_stopped)
    }

    /// The same through `serve`, which does a request with a buffer of random bytes.
    fn through(
        self,
        serve: impl Fn(Request, &mut [u8]) -> Result<()> + Sync,
        is_stopped: impl Fn() -> bool + Sync,
    ) -> Result<Point> {
        let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
        let is_over = || failed.load(Ordering::Relaxed) || is_stopped();
        let began = Instant::now();
        let one = |number: u32| {
            let served = self.one_after_the_other(began, number, &next, &serve, &is_over);
            failed.fetch_or(served.is_err(), Ordering::Relaxed);
            served
        };
        let one = &one;
        let served = std::thread::scope(|scope| -> Result<Vec<Served>> {
            let start = |number: u32| std::thread::Builder::new().spawn_scoped(scope, move || one(number));
            let started: std::io::Result<Vec<_>> = (0..OUTSTANDING).map(start).collect();
            let no_thread = |e| {
                failed.store(true, Ordering::Relaxed);
                Error::unavailable("cannot start a thread").with_source(e)
            };
            let ended = started.map_err(no_thread)?.into_iter().map(|thread| thread.join());
            ended.map(|thread| thread.unwrap_or_else(|_| Err(Error::internal("a thread panicked")))).collect()
        })?;
        Ok(self.point(began, &served))
    }

    /// Takes the next request whenever the one before is done.
    fn one_after_the_other(
        self,
        began: Instant,
        number: u32,
        next: &AtomicU64,
        serve: &impl Fn(Request, &mut [u8]) -> Result<()>,
        is_over: &impl Fn() -> bool,
    ) -> Result<Served> {
        // A thread's timers may otherwise fire 50 us late, to save power.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut random =
            SmallRng::seed_from_u64(self.seed.wrapping_mul(u64::from(OUTSTANDING)) + u64::from(number));
        let bytes = self.load.block_bytes();
        let mut room = vec![0; bytes as usize + ALIGNMENT];
        let from = room.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let buffer = &mut room[from..from + bytes as usize];
        let end = began + Duration::from_secs_f64(self.seconds);
        let waited = WaitedForCpu::of_this_thread();
        let mut served = Served::default();
        loop {
            let due_s = next.fetch_add(1, Ordering::Relaxed) as f64 / self.iops;
            // Nor if none is ever due, because the limit was 0.
            if !(due_s < self.seconds) {
                break;
            }
            let due = began + Duration::from_secs_f64(due_s);
            // Not what the thread waits for before that: it delays no request.
            let soon = due.checked_sub(SLEEP_MAX).unwrap_or(due);
            if !is_due(soon, is_over) {
                break;
            }
            let waited_before = waited.so_far();
            if !is_due(due, is_over) || Instant::now() >= end {
                break;
            }
            let write = !random.random_bool(self.load.read_percent() / 100.0);
            let offset = random.random_range(0..(self.data_bytes / bytes).max(1)) * bytes;
            if write {
                random.fill_bytes(buffer);
            }
            serve(Request { write, offset }, buffer)?;
            served.ms[usize::from(write)].push(due.elapsed().as_secs_f64() * 1e3);
            served.last = Some(Instant::now());
            let both = waited.so_far().zip(waited_before);
            served.waited += both.map_or(Duration::ZERO, |(after, before)| after.saturating_sub(before));
        }
        served.counts_waiting = waited.so_far().is_some();
        Ok(served)
    }

    fn point(self, began: Instant, served: &[Served]) -> Point {
        let last = served.iter().filter_map(|thread| thread.last).max();
        let seconds = last.map_or(0.0, |last| (last - began).as_secs_f64()).max(self.seconds);
        let sides = [0, 1].map(|side| -> Vec<f64> {
            served.iter().flat_map(|thread| thread.ms[side].iter().copied()).collect()
        });
        let slower = |part: f64| sides.iter().filter_map(|ms| stats::quantile(ms, part)).fold(0.0, f64::max);
        let total_ms: f64 = sides.iter().flatten().sum();
        let waited: Duration = served.iter().map(|thread| thread.waited).sum();
        let is_known = total_ms > 0.0 && served.iter().all(|thread| thread.counts_waiting);
        let iops = sides.iter().map(Vec::len).sum::<usize>() as f64 / seconds;
        Point {
            offered_iops: Some(self.iops),
            iops,
            mib_per_s: iops * self.load.block_bytes() as f64 / frostline_model::MIB,
            p50_ms: slower(0.5),
            p99_ms: slower(0.99),
            cpu_pressure: facts::cpu_pressure(),
            cpu_wait: is_known.then(|| waited.as_secs_f64() * 1e5 / total_ms),
        }
    }
}

/// Waits until `due`; not, and false, if it is over before.
fn is_due(due: Instant, is_over: impl Fn() -> bool) -> bool {
    loop {
        if is_over() {
            return false;
        }
        let left = due.saturating_duration_since(Instant::now()).min(SLEEP_MAX);
        if left.is_zero() {
            return true;
        }
        let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() });
    }
}

fn request_of(file: &File, request: Request, buffer: &mut [u8]) -> std::io::Result<()> {
    match request.write {
        true => file.write_all_at(buffer, request.offset),
        false => file.read_exact_at(buffer, request.offset),
    }
}

#[cfg(test)]
mod tests;
