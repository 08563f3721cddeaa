//! Volumes striped together under the cap of a machine.

use frostline_base::Result;
use frostline_model::catalogue::Catalogue;
use frostline_model::{Bucket, Instance, Io, Volume};

use super::{Group, Stack};

/// Where bytes of the stripe go.
pub(super) struct Pool {
    volumes: Vec<Volume>,
    instance: Option<Instance>,
    chunk_bytes: u64,
    latency_s: f64,
    /// End of what was appended, per volume.
    appended: Vec<u64>,
    /// The volume that the next append goes to.
    next: usize,
    /// Bytes that wait to be gathered into an append.
    gathered: u64,
    group: Option<Group>,
    /// When the next group is written, and the part of a request that earlier ones left over.
    next_group: f64,
    owed: f64,
}

/// The part of the base rate by which a bucket must be overdrawn to count as draining.
const TRICKLE: f64 = 0.05;

/// Counters of a moment; the difference of two is what happened between.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    /// Credits charged by each bucket: the volumes', then the machine's bytes and operations.
    charged: Vec<f64>,
    drained_s: Vec<f64>,
    /// When each bucket is done with what it was charged for: work is charged when it is admitted, and what
    /// waits at one volume differs from moment to moment.
    clocks: Vec<f64>,
    pub(super) bytes: f64,
    pub(super) units: f64,
}

impl Pool {
    pub(super) fn new(catalogue: &Catalogue, stack: &Stack) -> Result<Pool> {
        let limits = stack.volume.limits(catalogue)?.slowed(stack.slowed);
        let volume = Volume::with_limits(limits, stack.start, stack.time_scale)?;
        let instance = stack.instance.as_deref().map(|name| Instance::new(catalogue, name, stack.time_scale));
        // Appends start far from the data, so that neither continues the other.
        const APPENDS_FROM: u64 = 1 << 60;
        Ok(Pool {
            volumes: vec![volume; stack.count as usize],
            instance: instance.transpose()?,
            chunk_bytes: stack.chunk_bytes,
            latency_s: stack.latency_ms / 1000.0,
            appended: vec![APPENDS_FROM; stack.count as usize],
            next: 0,
            gathered: 0,
            group: stack.file_system.group,
            next_group: stack.file_system.group.map_or(f64::INFINITY, |group| group.every_s),
            owed: 0.0,
        })
    }

    /// Reads or writes a range of the stripe and returns when all of its pieces are done.
    pub(super) fn serve(&mut self, now: f64, write: bool, offset: u64, bytes: u64) -> f64 {
        let (mut at, end, mut done) = (offset, offset + bytes, now);
        while at < end {
            let chunk = at / self.chunk_bytes;
            let within = at % self.chunk_bytes;
            let piece = (self.chunk_bytes - within).min(end - at);
            let index = (chunk % self.volumes.len() as u64) as usize;
            let place = chunk / self.volumes.len() as u64 * self.chunk_bytes + within;
            done = done.max(self.admit(now, index, Io { write, offset: place, bytes: piece }));
            at += piece;
        }
        done
    }

    /// Reads a record that is somewhere on volume `index`, at a place `at` that continues nothing.
    pub(super) fn serve_record(&mut self, now: f64, index: usize, at: u64, bytes: u64) -> f64 {
        self.admit(now, index, Io { write: false, offset: at, bytes })
    }

    /// How many volumes there are.
    pub(super) fn len(&self) -> usize {
        self.volumes.len()
    }

    /// Charges the groups that are due by `now`.
    pub(super) fn write_groups(&mut self, now: f64) {
        let Some(group) = self.group else { return };
        while self.next_group <= now {
            self.owed += group.requests;
            while self.owed >= 1.0 {
                self.owed -= 1.0;
                for index in 0..self.volumes.len() {
                    let offset = self.place(index, 4096);
                    self.admit(self.next_group, index, Io { write: true, offset, bytes: 4096 });
                }
            }
            self.next_group += group.every_s;
        }
    }

    /// Where the next append of volume `index` goes: it does not continue the one before, since something else was written
    /// between them.
    fn place(&mut self, index: usize, bytes: u64) -> u64 {
        let offset = self.appended[index];
        self.appended[index] += bytes + super::MIB;
        offset
    }

    /// Gathers `bytes` to write; when `whole` are there they go to the next volume as one sequential write, and
    /// the caller that filled it waits for it: so work comes no faster than the volumes take it.
    pub(super) fn append(&mut self, now: f64, bytes: u64, whole: u64) -> f64 {
        self.gathered += bytes;
        let mut done = now;
        while self.gathered >= whole {
            self.gathered -= whole;
            let index = self.next;
            let offset = self.place(index, whole);
            self.next = (index + 1) % self.volumes.len();
            done = done.max(self.admit(now, index, Io { write: true, offset, bytes: whole }));
        }
        done
    }

    fn admit(&mut self, now: f64, index: usize, io: Io) -> f64 {
        let by_volume = self.volumes[index].admit(now, io);
        let by_instance = self.instance.as_mut().map_or(now, |instance| instance.admit(now, io));
        by_volume.max(by_instance) + self.latency_s
    }

    fn buckets(&self) -> impl Iterator<Item = &Bucket> {
        self.volumes.iter().map(Volume::bucket).chain(self.instance.iter().flat_map(Instance::buckets))
    }

    pub(super) fn counters(&self, now: f64) -> Counters {
        let machine = self.instance.iter().flat_map(Instance::served);
        let served = self.volumes.iter().map(Volume::served);
        let (bytes, units) = served.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Counters {
            charged: self.volumes.iter().map(Volume::charged).chain(machine).collect(),
            drained_s: self.buckets().map(Bucket::drained_s).collect(),
            clocks: self.buckets().map(|bucket| bucket.clock().max(now)).collect(),
            bytes: bytes as f64,
            units: units as f64,
        }
    }

    /// When the first bucket of a volume, and of the machine, was empty.
    pub(super) fn first_empty(&self) -> (Option<f64>, Option<f64>) {
        let first = |buckets: &mut dyn Iterator<Item = &Bucket>| {
            buckets.filter_map(Bucket::first_empty).min_by(f64::total_cmp)
        };
        let machine = first(&mut self.instance.iter().flat_map(Instance::buckets));
        (first(&mut self.volumes.iter().map(Volume::bucket)), machine)
    }

    /// Seconds until a bucket that `flow` drains is nearly empty; infinite if none is being drained.
    pub(super) fn until_change_s(&self, flow: &Flow, now: f64) -> f64 {
        let left = |(bucket, (charged_per_s, drained_part)): (&Bucket, (&f64, &f64))| {
            let drain = charged_per_s - bucket.base;
            // A trickle is the noise of the sample, not a drain: it would take weeks.
            let drains = bucket.bursts() && *drained_part == 0.0 && drain > bucket.base * TRICKLE;
            // One second of credits is left, so that the change itself is played.
            drains.then(|| ((bucket.credit_at(now) - bucket.base) / drain).max(0.0))
        };
        let rates = flow.charged_per_s.iter().zip(&flow.drained_part);
        self.buckets().zip(rates).filter_map(left).fold(f64::INFINITY, f64::min)
    }

    /// Lets `seconds` pass in which everything continues as in `flow`.
    pub(super) fn skip(&mut self, seconds: f64, flow: &Flow) {
        self.next_group += seconds;
        let rate = |i: usize| (flow.charged_per_s[i], flow.drained_part[i] * seconds);
        for (i, volume) in self.volumes.iter_mut().enumerate() {
            let (charged_per_s, drained_s) = rate(i);
            volume.skip(seconds, charged_per_s, drained_s);
        }
        if let Some(instance) = &mut self.instance {
            let (bytes, ops) = (rate(self.volumes.len()), rate(self.volumes.len() + 1));
            instance.skip(seconds, [bytes.0, ops.0], [bytes.1, ops.1]);
        }
    }
}

/// Rates of every bucket over a stretch of time.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    charged_per_s: Vec<f64>,
    /// Part of the time with an empty bucket.
    drained_part: Vec<f64>,
}

impl Flow {
    pub(super) fn between(before: &Counters, after: &Counters) -> Flow {
        let seconds = || before.clocks.iter().zip(&after.clocks).map(|(a, b)| (b - a).max(f64::MIN_POSITIVE));
        let rates =
            |a: &[f64], b: &[f64]| a.iter().zip(b).zip(seconds()).map(|((a, b), s)| (b - a) / s).collect();
        Flow {
            charged_per_s: rates(&before.charged, &after.charged),
            drained_part: rates(&before.drained_s, &after.drained_s),
        }
    }

    /// Whether any bucket is empty.
    pub(super) fn is_drained(&self) -> bool {
        self.drained_part.iter().any(|part| *part > 0.0)
    }

    /// Whether the same buckets are empty.
    pub(super) fn is_like(&self, other: &Flow) -> bool {
        self.drained_part.iter().zip(&other.drained_part).all(|(a, b)| (*a > 0.0) == (*b > 0.0))
    }
}
