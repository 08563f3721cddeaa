//! The loop that keeps requests outstanding, and its fast-forward.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::pool::{Counters, Flow, Pool};
use super::{FileSystem, Job, Outcome, Point, Stack};

/// Completions that are watched before a jump, at least.
const WATCHED: u64 = 4096;
/// So many times more are watched where one of several volumes is drained: the others wait for it, so the rate
/// is that of the few requests that happen to be its own.
const WATCHED_DRAINED: u64 = 4;
/// Stretches after which a regime that keeps flickering counts as steady.
const PATIENCE: u32 = 64;
/// Time that a write into memory takes, seconds, where the stack has no cache that says so.
const MEMORY_S: f64 = 50e-6;
/// Stored sizes are whole sectors of 4 KiB (ashift 12), and a record that saves less than an eighth is stored
/// as it is: OpenZFS' rule, taken for btrfs too.
const SECTOR: u64 = 4096;

pub(super) struct ClosedLoop<'a> {
    pool: Pool,
    file_system: &'a FileSystem,
    job: &'a Job,
    hit_part: f64,
    hit_s: f64,
    random: SmallRng,
    /// When each outstanding request is done (the bits of a positive `f64` sort like the number), and its slot.
    pending: BinaryHeap<Reverse<(u64, u32)>>,
    issued: Vec<f64>,
    /// Where each slot goes on, for sequential jobs.
    positions: Vec<u64>,
    now: f64,
    tally: Tally,
}

/// What the job got so far.
#[derive(Default)]
struct Tally {
    requests: f64,
    device_bytes: f64,
    device_units: f64,
    reads: u64,
    hits: u64,
    /// Requests that were played one by one.
    played: u64,
    /// Latency in seconds and how many requests it stands for.
    latencies: Vec<(f64, f64)>,
    /// Bytes by minute.
    minutes: Vec<f64>,
}

/// What a run settles into.
pub(super) struct Drained {
    pub(super) mib_per_s: f64,
    pub(super) played: u64,
    pub(super) volumes_after_s: Option<f64>,
    pub(super) instance_after_s: Option<f64>,
}

/// A stretch that was played request by request.
struct Stretch {
    from: f64,
    requests: u64,
    /// Its first entry in the list of latencies.
    first_latency: usize,
    before: Counters,
    after: Counters,
    flow: Flow,
}

impl<'a> ClosedLoop<'a> {
    pub(super) fn new(pool: Pool, stack: &'a Stack, job: &'a Job, seed: u64) -> ClosedLoop<'a> {
        let outstanding = outstanding(&stack.file_system, job);
        let part = job.set_bytes / u64::from(outstanding);
        let mut this = ClosedLoop {
            pool,
            file_system: &stack.file_system,
            job,
            hit_part: stack.cache.map_or(0.0, |cache| (cache.bytes as f64 / job.set_bytes as f64).min(1.0)),
            hit_s: stack.cache.map_or(MEMORY_S, |cache| cache.hit_ms / 1000.0),
            random: SmallRng::seed_from_u64(seed),
            pending: BinaryHeap::with_capacity(outstanding as usize),
            issued: vec![0.0; outstanding as usize],
            positions: (0..u64::from(outstanding)).map(|slot| slot * part).collect(),
            now: 0.0,
            tally: Tally::default(),
        };
        (0..outstanding).for_each(|slot| this.issue(slot));
        this
    }

    /// Plays and jumps until virtual time `end`.
    pub(super) fn run_until(&mut self, end: f64) {
        let mut last: Option<Flow> = None;
        let mut restless = 0;
        while self.now < end {
            let Some(stretch) = self.play(end, last.as_ref()) else { break };
            let is_steady = last.as_ref().is_some_and(|last| last.is_like(&stretch.flow));
            restless = if is_steady { 0 } else { restless + 1 };
            if is_steady || restless > PATIENCE {
                let seconds = self.pool.until_change_s(&stretch.flow, self.now).min(end - self.now);
                self.jump(&stretch, seconds);
            }
            last = Some(stretch.flow);
        }
    }

    /// Plays every request until virtual time `end`: what the jumps are compared with.
    #[cfg(test)]
    pub(super) fn play_until(&mut self, end: f64) {
        while self.now < end && self.play(end, None).is_some() {}
    }

    /// Goes on until nothing changes any more, and says what the job gets then.
    pub(super) fn run_until_steady(&mut self) -> Drained {
        let mut last: Option<Flow> = None;
        let mut mib_per_s = 0.0;
        // Each bucket empties at most once in a closed loop, so few stretches are needed; flicker ends it too.
        for _ in 0..PATIENCE {
            let Some(stretch) = self.play(f64::INFINITY, last.as_ref()) else { break };
            let seconds = self.now - stretch.from;
            mib_per_s = stretch.requests as f64 * self.job.block_bytes as f64 / seconds / super::MIB as f64;
            if last.as_ref().is_some_and(|last| last.is_like(&stretch.flow)) {
                let seconds = self.pool.until_change_s(&stretch.flow, self.now);
                if seconds.is_infinite() {
                    break;
                }
                self.jump(&stretch, seconds);
            }
            last = Some(stretch.flow);
        }
        let (volumes_after_s, instance_after_s) = self.pool.first_empty();
        Drained { mib_per_s, played: self.tally.played, volumes_after_s, instance_after_s }
    }

    pub(super) fn outcome(&mut self, seconds: f64) -> Outcome {
        let tally = &mut self.tally;
        tally.latencies.sort_by(|a, b| a.0.total_cmp(&b.0));
        let minute = |(i, bytes): (usize, &f64)| {
            let at_s = i as f64 * 60.0;
            let length = (seconds - at_s).min(60.0);
            Point { at_s, mib_per_s: bytes / length / super::MIB as f64 }
        };
        Outcome {
            mib_per_s: tally.requests * self.job.block_bytes as f64 / seconds / super::MIB as f64,
            iops: tally.requests / seconds,
            p50_ms: tally.quantile_ms(0.5),
            p99_ms: tally.quantile_ms(0.99),
            p999_ms: tally.quantile_ms(0.999),
            device_mib_per_s: tally.device_bytes / seconds / super::MIB as f64,
            device_units_per_s: tally.device_units / seconds,
            drained_after_s: None,
            instance_drained_after_s: None,
            drained_mib_per_s: 0.0,
            outstanding: outstanding(self.file_system, self.job),
            cache_hit_part: if tally.reads == 0 { 0.0 } else { tally.hits as f64 / tally.reads as f64 },
            series: tally
                .minutes
                .iter()
                .enumerate()
                .map(minute)
                .filter(|point| point.at_s < seconds)
                .collect(),
            played: 0,
            notes: Vec::new(),
        }
    }

    /// Simulates requests until enough have completed or `end` is reached; nothing if none completes before it.
    fn play(&mut self, end: f64, last: Option<&Flow>) -> Option<Stretch> {
        let before = self.pool.counters(self.now);
        let from = self.now;
        let first_latency = self.tally.latencies.len();
        let times = if last.is_some_and(Flow::is_drained) { WATCHED_DRAINED } else { 1 };
        let wanted = times * WATCHED.max(2 * self.issued.len() as u64);
        let mut requests = 0;
        while requests < wanted {
            let Some(&Reverse((bits, slot))) = self.pending.peek() else { break };
            let done = f64::from_bits(bits);
            if done > end {
                self.now = end;
                break;
            }
            self.pending.pop();
            self.now = done;
            self.tally.latencies.push((done - self.issued[slot as usize], 1.0));
            requests += 1;
            self.issue(slot);
        }
        self.tally.played += requests;
        let after = self.pool.counters(self.now);
        let seconds = self.now - from;
        if seconds <= 0.0 {
            return None;
        }
        let flow = Flow::between(&before, &after);
        let stretch = Stretch { from, requests, first_latency, before, after, flow };
        self.count(&stretch, from, self.now, 1.0);
        Some(stretch)
    }

    /// Passes `seconds` as if they were more of `stretch`.
    fn jump(&mut self, stretch: &Stretch, seconds: f64) {
        if seconds <= 0.0 {
            return;
        }
        let times = seconds / (self.now - stretch.from);
        self.pool.skip(seconds, &stretch.flow);
        let later = |bits: u64| (f64::from_bits(bits) + seconds).to_bits();
        let pending = std::mem::take(&mut self.pending).into_vec();
        self.pending =
            pending.into_iter().map(|Reverse((bits, slot))| Reverse((later(bits), slot))).collect();
        self.issued.iter_mut().for_each(|issued| *issued += seconds);
        for (_, weight) in &mut self.tally.latencies[stretch.first_latency..] {
            *weight += times;
        }
        let from = self.now;
        self.now += seconds;
        self.count(stretch, from, self.now, times);
    }

    /// Adds `times` the work of `stretch` to the tally, evenly between two moments.
    fn count(&mut self, stretch: &Stretch, from: f64, to: f64, times: f64) {
        let tally = &mut self.tally;
        tally.requests += stretch.requests as f64 * times;
        tally.device_bytes += (stretch.after.bytes - stretch.before.bytes) * times;
        tally.device_units += (stretch.after.units - stretch.before.units) * times;
        let bytes = stretch.requests as f64 * self.job.block_bytes as f64 * times;
        let per_s = bytes / (to - from);
        let mut at = from;
        while at < to {
            let minute = (at / 60.0) as usize;
            let until = ((minute + 1) as f64 * 60.0).min(to);
            if tally.minutes.len() <= minute {
                // A run after the end of the series only looks for the steady state: its minutes are not kept.
                if minute > MINUTES_KEPT {
                    break;
                }
                tally.minutes.resize(minute + 1, 0.0);
            }
            tally.minutes[minute] += per_s * (until - at);
            at = until;
        }
    }

    fn issue(&mut self, slot: u32) {
        self.pool.write_groups(self.now);
        let job = self.job;
        let offset = if job.sequential {
            let position = self.positions[slot as usize];
            let end = job.set_bytes - job.set_bytes % job.block_bytes;
            self.positions[slot as usize] = (position + job.block_bytes) % end.max(1);
            position - position % job.block_bytes
        } else {
            self.random.random_range(0..job.set_bytes / job.block_bytes) * job.block_bytes
        };
        let is_read = self.random.random::<f64>() * 100.0 < job.read_percent;
        let done =
            if is_read { self.read(offset, job.block_bytes) } else { self.write(offset, job.block_bytes) };
        self.issued[slot as usize] = self.now;
        self.pending.push(Reverse((done.to_bits(), slot)));
    }

    fn read(&mut self, offset: u64, bytes: u64) -> f64 {
        match self.file_system.record_bytes.filter(|_| self.file_system.scattered) {
            Some(record) => self.read_scattered(record, (offset + bytes).div_ceil(record) - offset / record),
            None if self.hits() => self.now + self.hit_s,
            None => {
                let (stored_at, stored) = self.stored(offset, bytes);
                self.pool.serve(self.now, false, stored_at, stored)
            }
        }
    }

    /// Reads `count` records, each wherever it is.
    fn read_scattered(&mut self, record: u64, count: u64) -> f64 {
        let stored = self.stored_record(record);
        let mut done = self.now;
        for _ in 0..count {
            let one = if self.hits() {
                self.now + self.hit_s
            } else {
                let index = self.random.random_range(0..self.pool.len());
                let place = self.random.random_range(0..self.job.set_bytes.max(2 * stored) / stored) * stored;
                self.pool.serve_record(self.now, index, place, stored)
            };
            done = done.max(one);
        }
        done
    }

    /// Whether the cache answers the next read, or record of one.
    fn hits(&mut self) -> bool {
        self.tally.reads += 1;
        let hit = self.hit_part > 0.0 && self.random.random::<f64>() < self.hit_part;
        self.tally.hits += u64::from(hit);
        hit
    }

    fn write(&mut self, offset: u64, bytes: u64) -> f64 {
        let record = self.file_system.record_bytes.unwrap_or(1);
        let is_partial = !offset.is_multiple_of(record) || !bytes.is_multiple_of(record);
        let first_read = match self.file_system.read_modify_write && is_partial {
            true => self.read(offset, bytes),
            false => self.now,
        };
        let (stored_at, stored) = self.stored(offset, bytes);
        match self.file_system.aggregate_bytes {
            Some(whole) => first_read.max(self.pool.append(self.now, stored, whole)).max(self.now + MEMORY_S),
            None => first_read.max(self.pool.serve(self.now, true, stored_at, stored)),
        }
    }

    /// Where a range is on the stripe, and how many bytes it takes there: whole records, compressed.
    fn stored(&self, offset: u64, bytes: u64) -> (u64, u64) {
        let Some(record) = self.file_system.record_bytes else { return (offset, bytes) };
        let first = offset / record;
        let count = (offset + bytes).div_ceil(record) - first;
        let stored = self.stored_record(record);
        (first * stored, count * stored)
    }

    fn stored_record(&self, record: u64) -> u64 {
        let ratio = if self.file_system.compress { self.job.compression_ratio } else { 1.0 };
        let sectors = ((record as f64 / ratio) as u64).div_ceil(SECTOR) * SECTOR;
        if sectors <= record - record / 8 { sectors } else { record }
    }
}

/// Minutes of a series that are kept: three days.
const MINUTES_KEPT: usize = 3 * 24 * 60;

fn outstanding(file_system: &FileSystem, job: &Job) -> u32 {
    if file_system.blocking { job.outstanding.min(job.threads) } else { job.outstanding }
}

impl Tally {
    /// The latency below which a part `q` of the requests lies; 0 without requests. The latencies are sorted.
    fn quantile_ms(&self, q: f64) -> f64 {
        let total: f64 = self.latencies.iter().map(|(_, weight)| weight).sum();
        let mut seen = 0.0;
        for (latency, weight) in &self.latencies {
            seen += weight;
            if seen >= q * total {
                return latency * 1000.0;
            }
        }
        self.latencies.last().map_or(0.0, |(latency, _)| latency * 1000.0)
    }
}
