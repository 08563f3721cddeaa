//! `lab need`: the need of a volume that is in use, derived from what was counted of its load.
//!
//! Every source ([`iostat`], [`cloudwatch`], [`fio_log`], [`capture`]) becomes a [`Trace`]: requests and bytes of reads
//! and of writes, over stretches of time that need not touch. [`derive`](derive()) makes the need of it, which `lab decide`
//! takes:
//!
//! 1. Where the load has two levels, the higher one at least half as much again and not for most of the time, the higher
//!    one is a peak. Its hours are those of the busiest day, of the longest stretch, or its part of 24, whichever is more.
//! 2. A level has a rate in bytes and one in requests, each of which 99 % of its time does not exceed.
//! 3. Mix and sizes are averages over the requests of the higher level. If they do not convert one of its rates into the
//!    other, sizes are larger or smaller. If the lower level has smaller requests, the need has its number of requests beside
//!    its bytes. If these, in the sizes of the peak, are no less than the higher level, there is one level.
//!
//! So a need asks for no more bytes and requests a second of a level than were counted.
//!
//! A hole in an export is named and counts as no time at all: it is neither idle nor busy.

pub mod args;
mod capture;
mod cloudwatch;
mod fio_log;
mod iostat;

use std::collections::BTreeMap;

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
/// The part by which requests of average sizes may be fewer or more than were counted.
const SIZE_SLACK: f64 = 0.05;
/// The size of requests of which there were none.
const BLOCK_BYTES: u64 = 4096;
/// The ratio of the peak's hours on one day to those on average from which on days differ.
const HOURS_DIFFER: f64 = 1.1;
/// Hours from which on a peak is the whole day.
const PEAK_HOURS_MAX: f64 = 23.99;
const DAY_SECONDS: f64 = 86_400.0;
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
    /// Second at which it began, since 1970 or since the log began; captures do not say.
    pub start: Option<f64>,
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
    let random = !(sequential || trace.following.is_some_and(|part| part >= FOLLOWING_MIN));
    let mut notes = trace.notes.clone();
    let (low, high) = levels(&samples);
    let hours = Hours::of(&high, seconds);
    let mut need = None;
    if !high.is_empty() && hours.most < PEAK_HOURS_MAX {
        need = two_levels(&low, &high, hours.most, random);
        if need.is_none() {
            notes.push(
                "Requests outside the peak are smaller and more frequent: the need has the peak's rate all day."
                    .to_owned(),
            );
        }
    }
    let need = need.unwrap_or_else(|| one_level(&samples, random));
    if need.peak.is_some() {
        notes.extend(hours.note());
    }
    notes.extend(notes_of(trace, &need, seconds, sequential));
    Ok(Derived {
        text: need.to_string(),
        notes,
        need,
        device: trace.device.clone(),
        samples: samples.len(),
        seconds,
        reads,
        writes,
        holes: trace.holes.clone(),
    })
}

/// The need of a load with a peak; none where the lower level's requests, in the peak's sizes, come to no less.
fn two_levels(low: &[Sample], high: &[Sample], hours_per_day: f64, random: bool) -> Option<Need> {
    let (base, most) = (Level::of(low), one_level(high, random));
    let peak = Peak { mib_per_s: most.mib_per_s, hours_per_day: hundredth(hours_per_day) };
    let mib_per_s = hundredth(base.mib_per_s);
    let is_more = base.iops * most.bytes() > mib_per_s * MIB;
    let requests_per_s = is_more.then(|| hundredth(base.iops));
    let need = Need { mib_per_s, requests_per_s, peak: Some(peak), ..most };
    (need.base_mib_per_s() < peak.mib_per_s).then_some(need)
}

/// The need of a load without a peak: mix and sizes are averages, with sizes by which the rate takes all requests.
fn one_level(samples: &[Sample], random: bool) -> Need {
    let level = Level::of(samples);
    let sum = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>();
    let (reads, writes) = (sum(|sample| sample.reads), sum(|sample| sample.writes));
    let bytes = [sum(|sample| sample.read_bytes), sum(|sample| sample.write_bytes)];
    let part = level.mib_per_s * MIB / level.iops * (reads + writes) / (bytes[0] + bytes[1]);
    let part = if part.is_finite() && (part - 1.0).abs() > SIZE_SLACK { part } else { 1.0 };
    // A side without requests has no size of its own.
    let size = |bytes: f64, count: f64| (count > 0.0).then(|| block(bytes * part, count));
    let [read, write] = [size(bytes[0], reads), size(bytes[1], writes)];
    Need {
        random,
        read_percent: tenth(100.0 * reads / (reads + writes).max(f64::MIN_POSITIVE)),
        read_bytes: read.or(write).unwrap_or(BLOCK_BYTES),
        write_bytes: write.or(read).unwrap_or(BLOCK_BYTES),
        mib_per_s: hundredth(level.mib_per_s),
        requests_per_s: None,
        peak: None,
        latency: None,
    }
}

/// The rates that [`COVERED`] of the time do not exceed.
struct Level {
    mib_per_s: f64,
    iops: f64,
}

impl Level {
    fn of(samples: &[Sample]) -> Level {
        Level { mib_per_s: covered(samples, Sample::mib_per_s), iops: covered(samples, Sample::iops) }
    }
}

/// How long the peak lasts in a day.
struct Hours {
    /// What the need has.
    most: f64,
    /// Its part of the time.
    average: f64,
}

impl Hours {
    /// Of the samples of the peak, in a trace of so many `seconds`.
    fn of(high: &[Sample], seconds: f64) -> Hours {
        let mut high: Vec<Sample> = high.to_vec();
        high.sort_by(|a, b| a.start.unwrap_or(0.0).total_cmp(&b.start.unwrap_or(0.0)));
        let busy: f64 = high.iter().map(|sample| sample.seconds).sum();
        let average = DAY_SECONDS * busy / seconds;
        let mut days: BTreeMap<i64, f64> = BTreeMap::new();
        let (mut most, mut stretch, mut end) = (average, 0.0, f64::NEG_INFINITY);
        for (start, seconds) in high.iter().filter_map(|sample| Some((sample.start?, sample.seconds))) {
            // A sample may end a day and begin the next ones.
            let mut at = start;
            while at < start + seconds {
                let day = (at / DAY_SECONDS).floor();
                let until = ((day + 1.0) * DAY_SECONDS).min(start + seconds);
                *days.entry(day as i64).or_default() += until - at;
                at = until;
            }
            stretch = if start - end > seconds / 2.0 { seconds } else { stretch + seconds };
            end = start + seconds;
            most = most.max(stretch);
        }
        most = days.into_values().fold(most, f64::max);
        Hours { most: most / 3600.0, average: average / 3600.0 }
    }

    fn note(&self) -> Option<String> {
        (self.most > self.average * HOURS_DIFFER).then(|| {
            format!(
                "Days differ: the peak lasts up to {:.1} h, on average {:.1} h a day; the need takes every day to be like the longest.",
                self.most, self.average
            )
        })
    }
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

/// The average size: in whole KiB, of small requests in whole sectors.
fn block(bytes: f64, count: f64) -> u64 {
    let average = bytes / count;
    let unit = if average < 16_384.0 { 512.0 } else { 1024.0 };
    ((average / unit).round().max(1.0) * unit).min(67_108_864.0) as u64
}

fn notes_of(trace: &Trace, need: &Need, seconds: f64, sequential: bool) -> Vec<String> {
    let mut notes = Vec::new();
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

/// Up to the next hundredth, and not 0.
fn hundredth(value: f64) -> f64 {
    ((value * 100.0 - 1e-6).ceil() / 100.0).max(0.01)
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
