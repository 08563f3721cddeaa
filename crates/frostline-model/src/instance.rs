//! The cap of a machine over all of its volumes.

use frostline_base::{Error, Result};

use super::bucket::{Bucket, SLACK_S};
use super::volume::Io;
use crate::catalogue::{Catalogue, Constant};

/// The largest request that counts as one at the machine, bytes. Not documented for machines; taken from the
/// solid-state volumes.
const UNIT_BYTES: u64 = 256 * 1024;

/// What a machine lets through: MB/s and I/O operations a second, each with its own 30 minutes a day at the
/// maximum where the catalogue says so. Shared by the volumes of a host.
///
/// Documented is only "maximum performance for 30 minutes at least once every 24 hours, after which they revert
/// to their baseline". Here that is a bucket that holds (maximum - base) x 30 minutes, fills while use is below
/// the base, and starts full; how the vendor refills it is not documented.
#[derive(Clone, Debug)]
pub struct Instance {
    name: String,
    bytes: Bucket,
    ops: Bucket,
    served: [f64; 2],
    done: f64,
}

impl Instance {
    /// The machine type `name`; `time_scale` divides its burst minutes and keeps the rates.
    ///
    /// # Errors
    ///
    /// `NotFound` with the nearest name; `Invalid` for a time scale below 1.
    pub fn new(catalogue: &Catalogue, name: &str, time_scale: f64) -> Result<Instance> {
        if !time_scale.is_finite() || time_scale < 1.0 {
            return Err(Error::invalid(format!("a time scale is a number from 1 up, not {time_scale}")));
        }
        let kind = catalogue.instance(name)?;
        let value = |constant: &Option<Constant>| constant.as_ref().map_or(0.0, |constant| constant.value);
        let burst_s = value(&kind.burst_minutes_per_day) * 60.0 / time_scale;
        let bucket = |base: f64, max: f64| {
            // Without burst minutes the maximum is sustained.
            let base = if burst_s > 0.0 { base } else { max };
            let capacity = (max - base) * burst_s;
            Bucket::new(base, max, capacity, capacity)
        };
        Ok(Instance {
            name: name.to_owned(),
            bytes: bucket(value(&kind.base_mb_per_s) * 1e6, value(&kind.max_mb_per_s) * 1e6),
            ops: bucket(value(&kind.base_iops), value(&kind.max_iops)),
            served: [0.0; 2],
            done: f64::NEG_INFINITY,
        })
    }

    /// Name of the type.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// MiB/s that it sustains.
    pub fn base_mib_per_s(&self) -> f64 {
        self.bytes.base / super::MIB
    }

    /// MiB/s at its maximum.
    pub fn max_mib_per_s(&self) -> f64 {
        self.bytes.burst.max(self.bytes.base) / super::MIB
    }

    /// I/O operations a second that it sustains.
    pub fn base_iops(&self) -> f64 {
        self.ops.base
    }

    /// I/O operations a second at its maximum.
    pub fn max_iops(&self) -> f64 {
        self.ops.burst.max(self.ops.base)
    }

    /// Seconds a day at the maximum; absent where the maximum is sustained.
    pub fn burst_s(&self) -> Option<f64> {
        self.bytes.bursts().then(|| self.bytes.capacity / (self.bytes.burst - self.bytes.base))
    }

    /// Takes one request of one of its volumes at `now` and returns when it has passed; the request is done when
    /// its volume is done too. Never earlier than `now`.
    pub fn admit(&mut self, now: f64, io: Io) -> f64 {
        if io.bytes == 0 {
            return now;
        }
        let since = now.max(self.done - SLACK_S);
        self.bytes.idle_until(since);
        self.ops.idle_until(since);
        let amounts = [io.bytes as f64, io.bytes.div_ceil(UNIT_BYTES) as f64];
        self.served = [self.served[0] + amounts[0], self.served[1] + amounts[1]];
        let by_bytes = self.bytes.serve(amounts[0]);
        let by_ops = self.ops.serve(amounts[1]);
        let done = by_bytes.max(by_ops).max(now);
        self.done = self.done.max(done);
        done
    }

    /// The buckets of bytes and of operations, for the simulator's fast-forward.
    pub fn buckets(&self) -> [&Bucket; 2] {
        [&self.bytes, &self.ops]
    }

    /// Bytes and operations served so far.
    pub fn served(&self) -> [f64; 2] {
        self.served
    }

    /// Lets `seconds` pass in which it continued as it did.
    pub fn skip(&mut self, seconds: f64, served_per_s: [f64; 2], drained_s: [f64; 2]) {
        self.bytes.skip(seconds, served_per_s[0], drained_s[0]);
        self.ops.skip(seconds, served_per_s[1], drained_s[1]);
        self.done += seconds;
    }
}
