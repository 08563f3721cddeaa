//! `lab need`: the need of a volume that is in use, derived from what was counted of its load.
//!
//! Every source ([`iostat`], [`cloudwatch`], [`fio_log`], [`capture`]) becomes a [`Trace`]: requests and bytes of reads
//! and of writes, over stretches of time that need not touch. [`derive`](derive()) makes the need of it, which `lab decide`
//! takes:
//!
//! 1. Where the load has two levels, the higher one at least half as much again and not for most of the time, the higher
//!    one is a peak, for its part of the day.
//! 2. A level is the rate that 99 % of its time does not exceed, in requests or in bytes, whichever asks for more.
//! 3. Sizes and mix are averages over the requests of the higher level.
//!
//! A hole in an export is named and counts as no time at all: it is neither idle nor busy.

pub mod args;
mod capture;
mod cloudwatch;
mod fio_log;
mod iostat;

use frostline_base::{Error, Result};
use frostline_show::show_count;
use serde::Serialize;

use crate::decide::{Need, Peak};

const MIB: f64 = 1_048_576.0;
/// The part of a level's time whose rate the need covers.
const COVERED: f64 = 0.99;
/// The least ratio of two levels, by which the higher one is a peak.
const PEAK_MIN: f64 = 1.5;
/// The part of the time from which on the higher level is the load, not its peak.
const PEAK_PART_MAX: f64 = 0.5;
/// Below this a trace says little about a day.
const DAY_SECONDS_MIN: f64 = 20.0 * 3600.0;
/// Part of the requests that follow the one before, from which on they count as sequential.
const FOLLOWING_MIN: f64 = 0.75;
/// Holes that are named; more are counted.
const NAMED_MAX: usize = 5;
/// Longest stretch that a trace may cover, seconds: beyond it a time is damaged.
const SECONDS_MAX: f64 = 10.0 * 366.0 * 86_400.0;

/// What was done in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// How long it was.
    pub seconds: f64,
    /// Requests that read.
    pub reads: f64,
    /// Bytes of them.
    pub read_bytes: f64,
    /// Requests that wrote.
    pub writes: f64,
    /// Bytes of them.
    pub write_bytes: f64,
}

impl Sample {
    fn mib_per_s(&self) -> f64 {
        (self.read_bytes + self.write_bytes) / MIB / self.seconds
    }

    fn iops(&self) -> f64 {
        (self.reads + self.writes) / self.seconds
    }
}

/// What was counted of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The device, as its source names it.
    pub device: String,
    /// In order of time.
    pub samples: Vec<Sample>,
    /// What is missing, with its place.
    pub holes: Vec<String>,
    /// Part of the requests that began where the one before ended; absent where the source has no places.
    pub following: Option<f64>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// One direction of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Side {
    /// Requests a second over all of the time.
    pub iops: f64,
    /// MiB a second over all of the time.
    pub mib_per_s: f64,
    /// Bytes of a request on average.
    pub bytes: f64,
    /// Most requests a second in a sample.
    pub peak_iops: f64,
    /// Most MiB a second in a sample.
    pub peak_mib_per_s: f64,
}

/// The need, and what it was derived from.
#[derive(Clone, Debug, Serialize)]
pub struct Derived {
    /// As `lab decide --need` takes it.
    pub text: String,
    /// The same, by its parts.
    pub need: Need,
    /// The device.
    pub device: String,
    /// Samples that count.
    pub samples: usize,
    /// Seconds of them.
    pub seconds: f64,
    /// Reads.
    pub reads: Side,
    /// Writes.
    pub writes: Side,
    /// What is missing, with its place; it counts as no time.
    pub holes: Vec<String>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// The need of a trace; `sequential` says what its source cannot.
///
/// # Errors
/// Invalid for a trace without requests, or without time.
pub fn derive(trace: &Trace, sequential: bool) -> Result<Derived> {
    let samples: Vec<Sample> = trace.samples.iter().copied().filter(|sample| sample.seconds > 0.0).collect();
    let seconds: f64 = samples.iter().map(|sample| sample.seconds).sum();
    let (reads, writes) = (side(&samples, seconds, true), side(&samples, seconds, false));
    if samples.is_empty() || reads.iops + writes.iops <= 0.0 {
        let what = if samples.is_empty() { "no whole sample" } else { "no requests" };
        return Err(Error::invalid(format!("{}: {what}; there is no need to derive", trace.device)));
    }
    let (low, high) = levels(&samples);
    let busy = if high.is_empty() { &low } else { &high };
    let sum = |of: fn(&Sample) -> f64| busy.iter().map(of).sum::<f64>();
    let (read_count, write_count) = (sum(|sample| sample.reads), sum(|sample| sample.writes));
    let read_percent = tenth(100.0 * read_count / (read_count + write_count).max(f64::MIN_POSITIVE));
    let random = !(sequential || trace.following.is_some_and(|part| part >= FOLLOWING_MIN));
    let mut need = Need {
        random,
        read_percent,
        read_bytes: block(sum(|sample| sample.read_bytes), read_count),
        write_bytes: block(sum(|sample| sample.write_bytes), write_count),
        mib_per_s: 0.0,
        peak: None,
        latency: None,
    };
    // A side without requests has no size of its own.
    if read_count == 0.0 {
        need.read_bytes = need.write_bytes;
    }
    if write_count == 0.0 {
        need.write_bytes = need.read_bytes;
    }
    let level = |samples: &[Sample]| {
        let by_iops = covered(samples, Sample::iops) * need.bytes() / MIB;
        hundredth(covered(samples, Sample::mib_per_s).max(by_iops))
    };
    let (base, most) = (level(&low).max(0.01), level(busy).max(0.01));
    need.mib_per_s = base;
    let busy_seconds: f64 = high.iter().map(|sample| sample.seconds).sum();
    if !high.is_empty() && most > base {
        let hours_per_day = hundredth(24.0 * busy_seconds / seconds);
        need.peak = Some(Peak { mib_per_s: most, hours_per_day });
    }
    Ok(Derived {
        text: need.to_string(),
        notes: notes(trace, &need, seconds, sequential),
        need,
        device: trace.device.clone(),
        samples: samples.len(),
        seconds,
        reads,
        writes,
        holes: trace.holes.clone(),
    })
}

fn side(samples: &[Sample], seconds: f64, reads: bool) -> Side {
    let of = |sample: &Sample| match reads {
        true => (sample.reads, sample.read_bytes),
        false => (sample.writes, sample.write_bytes),
    };
    let (count, bytes) = samples.iter().map(of).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let most = |rate: &dyn Fn(&Sample) -> f64| samples.iter().map(rate).fold(0.0, f64::max);
    let seconds = seconds.max(f64::MIN_POSITIVE);
    Side {
        iops: count / seconds,
        mib_per_s: bytes / MIB / seconds,
        bytes: if count > 0.0 { bytes / count } else { 0.0 },
        peak_iops: most(&|sample| of(sample).0 / sample.seconds),
        peak_mib_per_s: most(&|sample| of(sample).1 / MIB / sample.seconds),
    }
}

/// The samples of the lower level and those of the peak: the split of the sorted rates by which the two sides differ most
/// (Otsu, "A threshold selection method from gray-level histograms", 1979). No peak where they do not differ enough.
fn levels(samples: &[Sample]) -> (Vec<Sample>, Vec<Sample>) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| a.mib_per_s().total_cmp(&b.mib_per_s()));
    let total: f64 = sorted.iter().map(|sample| sample.seconds).sum();
    let all: f64 = sorted.iter().map(|sample| sample.mib_per_s() * sample.seconds).sum();
    let (mut time, mut sum, mut best, mut at) = (0.0, 0.0, 0.0, sorted.len());
    for (i, sample) in sorted.iter().enumerate().take(sorted.len() - 1) {
        time += sample.seconds;
        sum += sample.mib_per_s() * sample.seconds;
        let difference = (all - sum) / (total - time) - sum / time;
        let between = time * (total - time) * difference * difference;
        if between > best {
            (best, at) = (between, i + 1);
        }
    }
    let high = sorted.split_off(at);
    let mean = |samples: &[Sample]| {
        let seconds: f64 = samples.iter().map(|sample| sample.seconds).sum();
        (samples.iter().map(|sample| sample.mib_per_s() * sample.seconds).sum::<f64>(), seconds)
    };
    let ((low_sum, low_seconds), (high_sum, high_seconds)) = (mean(&sorted), mean(&high));
    let is_peak = !high.is_empty()
        && high_sum / high_seconds >= PEAK_MIN * low_sum / low_seconds
        && high_seconds / total <= PEAK_PART_MAX;
    if is_peak { (sorted, high) } else { (samples.to_vec(), Vec::new()) }
}

/// The rate that [`COVERED`] of the time does not exceed.
fn covered(samples: &[Sample], rate: fn(&Sample) -> f64) -> f64 {
    let mut rates: Vec<(f64, f64)> = samples.iter().map(|sample| (rate(sample), sample.seconds)).collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted = COVERED * rates.iter().map(|(_, seconds)| seconds).sum::<f64>();
    let mut time = 0.0;
    for (rate, seconds) in &rates {
        time += seconds;
        if time >= wanted * (1.0 - 1e-9) {
            return *rate;
        }
    }
    rates.last().map_or(0.0, |(rate, _)| *rate)
}

/// The average size, in whole KiB.
fn block(bytes: f64, count: f64) -> u64 {
    if count <= 0.0 || bytes <= 0.0 {
        return 4096;
    }
    let kib = (bytes / count / 1024.0).round().clamp(1.0, 65_536.0);
    kib as u64 * 1024
}

fn notes(trace: &Trace, need: &Need, seconds: f64, sequential: bool) -> Vec<String> {
    let mut notes = trace.notes.clone();
    match trace.following {
        _ if sequential => {}
        Some(part) => notes.push(format!(
            "{:.0} % of the requests follow the one before: the need is {}.",
            part * 100.0,
            if need.random { "random" } else { "sequential" }
        )),
        None => notes.push(
            "The source does not say where requests went: the need is random; --sequential if they follow each other."
                .to_owned(),
        ),
    }
    if seconds < DAY_SECONDS_MIN {
        let hours = if need.peak.is_some() { ", and hours of the peak are their part of 24" } else { "" };
        notes.push(format!(
            "The samples cover {}: the need takes every day to be like them{hours}.",
            show_seconds(seconds)
        ));
    }
    notes
}

/// `6 s`, `3.5 h`.
fn show_seconds(seconds: f64) -> String {
    if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else if seconds < 7200.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3600.0)
    }
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Up to the next hundredth.
fn hundredth(value: f64) -> f64 {
    (value * 100.0 - 1e-6).ceil() / 100.0
}

impl Derived {
    /// What it was derived from, as lines.
    pub fn about(&self) -> Vec<String> {
        let side = |name: &str, side: &Side| match side.iops > 0.0 {
            true => format!(
                "{name}: {:.1} IOPS of {:.1} KiB, {:.2} MiB/s; at most {:.1} IOPS and {:.2} MiB/s in a sample",
                side.iops,
                side.bytes / 1024.0,
                side.mib_per_s,
                side.peak_iops,
                side.peak_mib_per_s
            ),
            false => format!("{name}: none"),
        };
        let samples = show_count(self.samples as u64, "sample");
        let mut lines = vec![
            format!("{}: {samples} over {}", self.device, show_seconds(self.seconds)),
            side("reads", &self.reads),
            side("writes", &self.writes),
        ];
        lines.extend(self.holes.iter().take(NAMED_MAX).map(|hole| format!("hole: {hole}")));
        if self.holes.len() > NAMED_MAX {
            lines.push(format!("and {} more", show_count((self.holes.len() - NAMED_MAX) as u64, "hole")));
        }
        lines.extend(self.notes.iter().cloned());
        lines
    }
}

/// The one trace that is asked for: that of `device`, or the only one with requests.
fn chosen(traces: Vec<Trace>, device: Option<&str>) -> Result<Trace> {
    let count = |trace: &Trace| trace.samples.iter().map(|sample| sample.reads + sample.writes).sum::<f64>();
    if let Some(device) = device {
        let names: Vec<String> = traces.iter().map(|trace| trace.device.clone()).collect();
        return traces.into_iter().find(|trace| trace.device == device).ok_or_else(|| {
            let near = frostline_show::suggestion(device, names.iter().map(String::as_str));
            let known = if near.is_empty() { format!("; there are {}", names.join(", ")) } else { near };
            Error::not_found(format!("--device {device}: nothing was counted of it{known}"))
        });
    }
    let mut busy: Vec<Trace> = traces.into_iter().filter(|trace| count(trace) > 0.0).collect();
    busy.sort_by(|a, b| count(b).total_cmp(&count(a)));
    let mut busy = busy.into_iter();
    match (busy.next(), busy.next()) {
        (Some(trace), None) => Ok(trace),
        (None, _) => Err(Error::invalid("no device has any request; there is no need to derive")),
        (Some(first), Some(second)) => {
            let mut names = vec![first.device, second.device];
            names.extend(busy.map(|trace| trace.device));
            let more = names.len().saturating_sub(NAMED_MAX);
            names.truncate(NAMED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            Err(Error::invalid(format!(
                "several devices have requests: name one with --device ({}{more})",
                names.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests;
