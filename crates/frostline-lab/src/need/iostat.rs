//! Reports of sysstat's `iostat -dxt`, as text and as JSON.

use std::collections::BTreeMap;

use frostline_base::{Error, Result};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::{SECONDS_MAX, Sample, Trace};

/// How iostat prints a time, by locale and S_TIME_FORMAT. Of the formats that match every time, the one with the shortest
/// span counts: if day and month are exchanged, two successive days are a month apart.
const TIMES: [&str; 8] = [
    "%Y-%m-%dT%H:%M:%S%z",
    "%Y-%m-%dT%H:%M:%SZ",
    "%m/%d/%y %H:%M:%S",
    "%m/%d/%Y %I:%M:%S %p",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%y %H:%M:%S",
    "%d/%m/%Y %H:%M:%S",
    "%Y-%m-%d %H:%M:%S",
];
/// Columns of requests, and of data with its bytes each.
const DATA: [(&str, &str, f64); 4] = [
    ("rkB/s", "wkB/s", 1024.0),
    ("rMB/s", "wMB/s", 1_048_576.0),
    ("rsec/s", "wsec/s", 512.0),
    ("rGB/s", "wGB/s", 1_073_741_824.0),
];
/// Equal steps in a row, other than the interval, that are no holes but another interval.
const OTHER_INTERVAL_MIN: usize = 3;
const NO_REPORT: &str =
    "no report with requests a second is in it: it should be the output of `iostat -dxt SECONDS`";

/// Requests and bytes a second: reads, their bytes, writes, theirs.
type Rates = [f64; 4];

/// One report.
struct Report {
    /// Where it begins in the file, in words.
    place: String,
    time: String,
    /// Whether it is the first of a run of iostat, and so can be the average since boot.
    is_first: bool,
    rates: BTreeMap<String, Rates>,
    /// What is wrong in it.
    cut: Option<String>,
}

/// A trace of each device. The first report of each run of iostat is left out: without `-y`, it is the average since boot.
pub(super) fn read(origin: &str, text: &str) -> Result<Vec<Trace>> {
    let reports = match text.trim_start().starts_with('{') {
        true => of_json(origin, text)?,
        false => of_text(origin, text)?,
    };
    if reports.len() < 3 {
        let what = match reports.len() {
            0 => NO_REPORT.to_owned(),
            n => format!("it has {n} of iostat's reports; it takes three, of which the first is since boot"),
        };
        return Err(Error::invalid(format!("{origin}: {what}")));
    }
    let ends = ends(origin, &reports)?;
    let intervals = intervals(origin, &reports, &ends)?;
    let mut traces: BTreeMap<&str, Trace> = BTreeMap::new();
    for report in &reports {
        for device in report.rates.keys() {
            let device = device.as_str();
            traces.entry(device).or_insert_with(|| Trace {
                device: device.to_owned(),
                notes: vec![
                    "The first report of each run of iostat is left out: it can be the average since boot."
                        .to_owned(),
                ],
                ..Trace::default()
            });
        }
    }
    for ((report, times), interval) in reports.iter().skip(1).zip(ends.windows(2)).zip(&intervals[1..]) {
        let step = times[1] - times[0];
        for (device, trace) in &mut traces {
            if is_longer(step, *interval) {
                trace.holes.push(format!(
                    "{origin}: {}: {:.0} s without a report before {}",
                    report.place,
                    step - interval,
                    report.time
                ));
            }
            if report.is_first {
                continue;
            }
            match (report.rates.get(*device), &report.cut) {
                (Some([reads, read_bytes, writes, write_bytes]), _) => trace.samples.push(Sample {
                    start: Some(times[1] - interval),
                    seconds: *interval,
                    reads: reads * interval,
                    read_bytes: read_bytes * interval,
                    writes: writes * interval,
                    write_bytes: write_bytes * interval,
                }),
                (None, Some(cut)) => trace.holes.push(format!("{origin}: {cut}")),
                (None, None) => {
                    trace.holes.push(format!("{origin}: {}: {device} is not in this report", report.place));
                }
            }
        }
    }
    Ok(traces.into_values().collect())
}

/// Whether a step between reports is longer than their interval: times are whole seconds.
fn is_longer(step: f64, interval: f64) -> bool {
    step > interval * 1.5 + 1.0
}

/// The interval of each report: the usual step of the iostat that printed it.
fn intervals(origin: &str, reports: &[Report], ends: &[f64]) -> Result<Vec<f64>> {
    let mut intervals = Vec::new();
    for run in reports.chunk_by(|_, next| !next.is_first) {
        let ends = &ends[intervals.len()..][..run.len()];
        let steps: Vec<f64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut sorted = steps.clone();
        sorted.sort_by(f64::total_cmp);
        // Of one report alone nothing is counted.
        let interval = sorted.get(sorted.len() / 2).copied().unwrap_or(1.0);
        // Of reports each second two may have the same time.
        if interval < 1.0 || interval > 1.0 && sorted[0] == 0.0 {
            let twice = |pair: &&[Report]| pair[0].time == pair[1].time;
            let time = run.windows(2).find(twice).map_or("", |pair| pair[1].time.as_str());
            return Err(Error::invalid(format!("{origin}: several reports have the time {time}")));
        }
        let is_other = |steps: &[f64]| {
            let (all, usual) = (steps.iter().sum(), interval * steps.len() as f64);
            steps.iter().all(|step| *step == steps[0]) && (is_longer(all, usual) || is_longer(usual, all))
        };
        if let Some(at) = steps.windows(OTHER_INTERVAL_MIN).position(is_other) {
            return Err(Error::invalid(format!(
                "{origin}: {}: from here on reports are {} s apart, others {interval} s: give files of one interval, or join \
                 them with the line that each iostat begins with",
                run[at + 1].place,
                steps[at]
            )));
        }
        intervals.extend(run.iter().map(|_| interval));
    }
    Ok(intervals)
}

/// The end of each report, in seconds.
fn ends(origin: &str, reports: &[Report]) -> Result<Vec<f64>> {
    let read = |format: &&str| -> Option<Vec<f64>> {
        reports.iter().map(|report| second(format, &report.time)).collect()
    };
    let span = |times: &[f64]| {
        let ends =
            times.iter().fold((f64::MAX, f64::MIN), |ends, time| (ends.0.min(*time), ends.1.max(*time)));
        ends.1 - ends.0
    };
    let Some(times) = TIMES.iter().filter_map(read).min_by(|a, b| span(a).total_cmp(&span(b))) else {
        let known = |time: &str| TIMES.iter().any(|format| second(format, time).is_some());
        let odd = reports.iter().find(|report| !known(&report.time)).unwrap_or(&reports[0]);
        return Err(Error::invalid(format!(
            "{origin}: {}: the time `{}` cannot be read: run iostat with S_TIME_FORMAT=ISO",
            odd.place, odd.time
        )));
    };
    if let Some(at) = times.windows(2).position(|pair| pair[1] < pair[0]) {
        let (before, after) = (&reports[at], &reports[at + 1]);
        return Err(Error::invalid(format!(
            "{origin}: {}: the clock goes back, from {} to {}: give the part before or after; \
             if daylight saving time ended, run iostat with S_TIME_FORMAT=ISO, which prints the time zone",
            after.place, before.time, after.time
        )));
    }
    match span(&times) {
        seconds if seconds > SECONDS_MAX => {
            Err(Error::invalid(format!("{origin}: its times are {:.0} days apart", seconds / 86_400.0)))
        }
        _ => Ok(times),
    }
}

/// Seconds since 1970. A time without a zone counts as UTC.
fn second(format: &str, text: &str) -> Option<f64> {
    let time = match format.contains("%z") {
        true => Timestamp::strptime(format, text).ok()?,
        false => DateTime::strptime(format, text).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp(),
    };
    Some(time.as_second() as f64)
}

/// Which columns hold requests and bytes, and bytes of the latter's unit.
struct Columns {
    at: [usize; 4],
    bytes: f64,
    count: usize,
}

impl Columns {
    fn of(header: &[&str]) -> Option<Columns> {
        let place = |name: &str| header.iter().position(|column| *column == name);
        let (read, write, bytes) = DATA.iter().find(|(read, ..)| place(read).is_some())?;
        let at = [place("r/s")?, place(read)?, place("w/s")?, place(write)?];
        Some(Columns { at, bytes: *bytes, count: header.len() })
    }

    fn rates(&self, words: &[&str]) -> Option<Rates> {
        if words.len() != self.count {
            return None;
        }
        // A locale may write a comma.
        let number = |at: usize| words[at].replace(',', ".").parse::<f64>().ok().filter(|n| is_rate(*n));
        let [reads, read, writes, write] = self.at;
        Some([number(reads)?, number(read)? * self.bytes, number(writes)?, number(write)? * self.bytes])
    }
}

fn is_rate(number: f64) -> bool {
    (0.0..=1e15).contains(&number)
}

fn of_text(origin: &str, text: &str) -> Result<Vec<Report>> {
    let (mut reports, mut columns): (Vec<Report>, Option<Columns>) = (Vec::new(), None);
    let mut time: Option<(usize, &str)> = None;
    let (mut is_first, mut is_cpu) = (true, false);
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let place = || format!("line {}", at + 1);
        match words.as_slice() {
            [] => (columns, is_cpu) = (None, false),
            // `Linux 6.1.0 (name) 11/24/26 _x86_64_ (2 CPU)`: another run of iostat begins, perhaps within a row that is cut.
            [.., last] if last.ends_with("CPU)") => (columns, is_first, is_cpu) = (None, true, false),
            // Without -d, percentages of the CPUs are between the time and the devices, in a row of their own.
            ["avg-cpu:", ..] => (columns, is_cpu) = (None, true),
            [first, ..] if first.trim_end_matches(':') == "Device" => {
                columns = Columns::of(&words);
                if columns.is_none() {
                    let what = "these columns do not tell reads from writes: run iostat with -x";
                    return Err(Error::invalid(format!("{origin}: {}: {what}", place())));
                }
                let Some((line, time)) = time.take() else {
                    let what = "this report has no time: run iostat with -t";
                    return Err(Error::invalid(format!("{origin}: {}: {what}", place())));
                };
                let place = format!("line {line}");
                let (time, rates) = (time.to_owned(), BTreeMap::new());
                reports.push(Report { place, time, is_first, rates, cut: None });
                is_first = false;
            }
            [device, ..] if columns.is_some() => {
                let (Some(columns), Some(report)) = (&columns, reports.last_mut()) else { continue };
                match columns.rates(&words) {
                    Some(rates) => {
                        report.rates.insert((*device).to_owned(), rates);
                    }
                    None => report.cut = Some(format!("{}: the row of {device} is cut", place())),
                }
            }
            [first, ..] if !is_cpu && first.starts_with(|c: char| c.is_ascii_digit()) => {
                time = Some((at + 1, line.trim()));
            }
            _ => {}
        }
    }
    Ok(reports)
}

fn of_json(origin: &str, text: &str) -> Result<Vec<Report>> {
    let document: Value = serde_json::from_str(text).map_err(|e| {
        let cut = if e.is_eof() { "; it is cut: iostat ends it when it ends itself" } else { "" };
        Error::invalid(format!("{origin}: line {}, column {}: not JSON{cut}", e.line(), e.column()))
    })?;
    let statistics = &document["sysstat"]["hosts"][0]["statistics"];
    let Some(statistics) = statistics.as_array() else {
        return Err(Error::invalid(format!("{origin}: {NO_REPORT}")));
    };
    let mut reports = Vec::new();
    for (at, report) in statistics.iter().enumerate() {
        let place = format!("report {}", at + 1);
        let Some(time) = report["timestamp"].as_str() else {
            return Err(Error::invalid(format!("{origin}: {place} has no time: run iostat with -t")));
        };
        let (mut rates, mut cut) = (BTreeMap::new(), None);
        for disk in report["disk"].as_array().into_iter().flatten() {
            let Some(device) = disk["disk_device"].as_str() else { continue };
            let number = |name: &str| disk[name].as_f64().filter(|number| is_rate(*number));
            let data = DATA
                .iter()
                .find_map(|(read, write, bytes)| Some((number(read)? * bytes, number(write)? * bytes)));
            match (number("r/s"), number("w/s"), data) {
                (Some(reads), Some(writes), Some((read, write))) => {
                    rates.insert(device.to_owned(), [reads, read, writes, write]);
                }
                _ if disk.get("tps").is_some() => {
                    let what = "reads and writes are not apart: run iostat with -x";
                    return Err(Error::invalid(format!("{origin}: {place}: {what}")));
                }
                _ => cut = Some(format!("{place}: {device} has no rates")),
            }
        }
        reports.push(Report { place, time: time.to_owned(), is_first: at == 0, rates, cut });
    }
    Ok(reports)
}
