//! One volume that serves requests under its limits.

use std::fmt;
use std::str::FromStr;

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::bucket::{Bucket, Rate, SLACK_S};
use super::spec::{Currency, Limits, VolumeSpec};
use crate::catalogue::Catalogue;

/// One request to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Whether it writes.
    pub write: bool,
    /// First byte on the volume.
    pub offset: u64,
    /// Length; a request of 0 bytes (a flush) passes at once and is not charged.
    pub bytes: u64,
}

/// What a volume's bucket holds when it begins.
///
/// For gp2 the vendor documents a full one; for st1 and sc1 nothing is documented, so `Full` is an assumption
/// that reports must print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// As much as it can hold.
    #[default]
    Full,
    /// Nothing.
    Empty,
    /// So many credits (MiB for st1 and sc1, I/O operations for gp2) before any time scale.
    Credits(f64),
}

impl FromStr for Balance {
    type Err = Error;

    fn from_str(text: &str) -> Result<Balance> {
        match text {
            "full" => Ok(Balance::Full),
            "empty" => Ok(Balance::Empty),
            _ => match text.parse::<f64>() {
                Ok(credits) if credits.is_finite() && credits >= 0.0 => Ok(Balance::Credits(credits)),
                _ => Err(Error::invalid(format!(
                    "a balance is `full`, `empty` or a number of credits, not `{text}`"
                ))),
            },
        }
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Balance::Full => f.write_str("full"),
            Balance::Empty => f.write_str("empty"),
            Balance::Credits(credits) => write!(f, "{credits}"),
        }
    }
}

/// What a volume did up to some moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Requests of more than 0 bytes.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Requests that continued the I/O unit of the one before and cost nothing more.
    pub merged: u64,
    /// I/O units that were charged.
    pub units: u64,
    /// Credits that were charged: MiB for classes with throughput credits, else I/O units.
    pub charged: f64,
    /// Credits that are left, in the same unit; 0 for a class without a bucket.
    pub credits: f64,
    /// Credits that the bucket can hold, after the time scale; 0 for a class without a bucket.
    pub bucket: f64,
    /// Seconds of full speed that the credits pay for; absent where nothing bursts.
    pub burst_left_s: Option<f64>,
    /// Seconds in which at least one request was held back by the limits.
    pub throttled_s: f64,
    /// Seconds served at the base rate with an empty bucket.
    pub drained_s: f64,
    /// When the bucket was first empty, in the caller's time.
    pub first_empty_s: Option<f64>,
}

/// One volume's buckets; the same code in virtual and in real time.
///
/// Latency below the limits is not in here: a request that nothing holds back is done when its work at the
/// allowed rate is.
#[derive(Clone, Debug)]
pub struct Volume {
    limits: Limits,
    credits: Bucket,
    ops: Rate,
    bytes: Rate,
    /// The end of the last request by direction, and how much of its last unit is still free.
    streams: [Stream; 2],
    done: f64,
    account: Account,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    end: u64,
    free: u64,
}

impl Volume {
    /// A volume of `spec` as the catalogue describes it.
    ///
    /// `time_scale` divides the bucket and keeps the rates, so that a burst is over sooner; 1 is a real volume.
    ///
    /// # Errors
    ///
    /// As [`VolumeSpec::limits`]; `Invalid` for a time scale below 1, or a balance above the bucket or below 0.
    pub fn new(catalogue: &Catalogue, spec: &VolumeSpec, start: Balance, time_scale: f64) -> Result<Volume> {
        Self::with_limits(spec.limits(catalogue)?, start, time_scale)
    }

    /// The same from limits that are known already.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), without those of the spec.
    pub fn with_limits(limits: Limits, start: Balance, time_scale: f64) -> Result<Volume> {
        if !time_scale.is_finite() || time_scale < 1.0 {
            return Err(Error::invalid(format!("a time scale is a number from 1 up, not {time_scale}")));
        }
        let credit = match start {
            Balance::Full => limits.bucket,
            Balance::Empty => 0.0,
            Balance::Credits(credits) if (0.0..=limits.bucket).contains(&credits) => credits,
            Balance::Credits(credits) => {
                return Err(Error::invalid(format!(
                    "the bucket holds 0 to {} credits, not {credits}",
                    limits.bucket
                )));
            }
        };
        Ok(Volume {
            credits: Bucket::new(limits.base, limits.burst, limits.bucket / time_scale, credit / time_scale),
            ops: Rate::new(limits.iops),
            bytes: Rate::new(limits.mib_per_s * super::MIB),
            streams: [Stream::default(); 2],
            done: f64::NEG_INFINITY,
            account: Account::default(),
            limits,
        })
    }

    /// What the catalogue made of the spec.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes one request at `now` and returns when it is done.
    ///
    /// Never earlier than `now`; requests are served in the order of admission. A `now` before an earlier one is
    /// allowed: that request waits its turn.
    pub fn admit(&mut self, now: f64, io: Io) -> f64 {
        if io.bytes == 0 {
            return now;
        }
        let units = self.units(io);
        let charge = units as f64 * self.limits.unit_credits();
        // A limit that did not hold the volume back stays at most SLACK_S behind the one that did.
        self.credits.idle_until(now.max(self.done - SLACK_S));
        let since = now.max(self.done) - SLACK_S;
        self.ops.idle_until(since);
        self.bytes.idle_until(since);
        let by_credits = self.credits.serve(charge);
        let by_ops = self.ops.serve(units as f64);
        let by_bytes = self.bytes.serve(io.bytes as f64);
        let done = by_credits.max(by_ops).max(by_bytes).max(now);
        self.note(now, done, io, units, charge);
        done
    }

    /// What the volume did up to `now`.
    pub fn account(&self, now: f64) -> Account {
        let bursts = self.credits.bursts();
        Account {
            credits: if bursts { self.credits.credit_at(now) } else { 0.0 },
            bucket: if bursts { self.credits.capacity } else { 0.0 },
            burst_left_s: self.credits.burst_left_s(now),
            drained_s: self.credits.drained_s(),
            first_empty_s: self.credits.first_empty(),
            ..self.account.clone()
        }
    }

    /// The bucket, for the simulator's fast-forward.
    pub fn bucket(&self) -> &Bucket {
        &self.credits
    }

    /// Credits charged so far.
    pub fn charged(&self) -> f64 {
        self.account.charged
    }

    /// Bytes and I/O units served so far.
    pub fn served(&self) -> (u64, u64) {
        (self.account.bytes, self.account.units)
    }

    /// Lets `seconds` pass in which the volume continued as it did, at `charged_per_s` credits.
    pub fn skip(&mut self, seconds: f64, charged_per_s: f64, drained_s: f64) {
        self.credits.skip(seconds, charged_per_s, drained_s);
        self.ops.skip(seconds);
        self.bytes.skip(seconds);
        self.done += seconds;
    }

    /// I/O units that this request costs: it is split at the unit's size, and one that continues the last of
    /// its direction first fills what is left of that one's last unit.
    fn units(&mut self, io: Io) -> u64 {
        let stream = &mut self.streams[usize::from(io.write)];
        let free = if stream.end == io.offset { stream.free } else { 0 };
        let beyond = io.bytes.saturating_sub(free);
        let units = beyond.div_ceil(self.limits.unit_bytes);
        let free = (free + units * self.limits.unit_bytes) - io.bytes;
        *stream = Stream { end: io.offset.saturating_add(io.bytes), free };
        units
    }

    fn note(&mut self, now: f64, done: f64, io: Io, units: u64, charge: f64) {
        let account = &mut self.account;
        account.requests += 1;
        account.bytes += io.bytes;
        account.units += units;
        account.charged += charge;
        account.merged += u64::from(units == 0);
        account.throttled_s += (done - now.max(self.done)).max(0.0);
        self.done = self.done.max(done);
    }
}

impl Limits {
    /// Credits that one I/O unit costs.
    pub fn unit_credits(&self) -> f64 {
        match self.currency {
            Currency::Mib => self.unit_bytes as f64 / super::MIB,
            Currency::Io => 1.0,
        }
    }
}
