//! Logs of fio (`write_lat_log` and its kin): a line for each request, or with `log_avg_msec` one for each window.
//!
//! A line is `time in ms, value, direction, size in bytes[, offset], priority`, with the offset if fio had `log_offset`; in
//! windows the size is 0 and the value is KiB/s in a log of `_bw`, requests a second in one of `_iops`. Several logs are
//! those of jobs at the same time; of those that list the same requests of one job, one is read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use frostline_base::{Error, Result};

use super::{NAMED_MAX, SECONDS_MAX, Sample, Trace};

/// The part of the time that a window may be longer than the others.
const WINDOW_SLACK: f64 = 1.5;

/// One line.
#[derive(Clone, Copy)]
struct Line {
    ms: u64,
    value: f64,
    write: bool,
    bytes: u64,
    offset: Option<u64>,
}

/// The trace of all logs together.
pub(super) fn read(files: &[(&Path, String)]) -> Result<Trace> {
    let mut requests: BTreeMap<u64, Sample> = BTreeMap::new();
    let (mut windows, mut kinds): (BTreeMap<u64, Sample>, [usize; 2]) = (BTreeMap::new(), [0; 2]);
    let mut places = [0_u64; 2];
    let mut window_ms = None;
    let (mut trims, mut holes) = (0_u64, Vec::new());
    let repeated = repeated(files);
    for (path, text) in files.iter().filter(|(path, _)| !repeated.contains(path)) {
        let origin = path.display().to_string();
        let kind = Kind::of(path);
        let mut before: [Option<Line>; 2] = [None, None];
        let mut lines = 0_u64;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |what: &str| Error::invalid(format!("{origin}: line {}: {what}", at + 1));
            let Some(line) = parse(line).map_err(|what| wrong(&what))? else {
                trims += 1;
                continue;
            };
            lines += 1;
            // The last line of either direction: one of them may have no requests for a while.
            let logged = before.iter().flatten().map(|line: &Line| line.ms).max().unwrap_or(0);
            let last = before[usize::from(line.write)].replace(line);
            if last.is_some_and(|last| last.ms > line.ms) {
                let from = last.map_or(0, |last| last.ms);
                return Err(wrong(&format!("the clock goes back, from {from} to {} ms", line.ms)));
            }
            if line.bytes > 0 {
                add(requests.entry(line.ms / 1000).or_default(), line.write, 1.0, line.bytes as f64);
                if let (Some(offset), Some(last)) = (line.offset, last) {
                    places[0] += 1;
                    places[1] +=
                        u64::from(last.offset.is_some_and(|at| at.checked_add(last.bytes) == Some(offset)));
                }
                continue;
            }
            let step = line.ms.saturating_sub(logged);
            let usual = *window_ms.get_or_insert(step.max(1));
            if step as f64 > usual as f64 * WINDOW_SLACK {
                holes.push(format!("{origin}: line {}: nothing was logged for {} ms", at + 1, step - usual));
            }
            // The ends of windows differ by a millisecond or two.
            let window = windows.entry((line.ms + usual / 2) / usual).or_default();
            let seconds = usual as f64 / 1000.0;
            match kind {
                Kind::Bandwidth => add(window, line.write, 0.0, line.value * 1024.0 * seconds),
                Kind::Iops => add(window, line.write, line.value * seconds, 0.0),
                _ => {
                    return Err(wrong(
                        "with log_avg_msec a log has no requests: give the logs of _bw and _iops",
                    ));
                }
            }
            kinds[usize::from(kind == Kind::Iops)] += 1;
        }
        if lines == 0 {
            return Err(Error::invalid(format!("{origin}: it has no request")));
        }
    }
    let mut trace = Trace { device: "the job of fio".to_owned(), holes, ..Trace::default() };
    if !repeated.is_empty() {
        let names: Vec<String> =
            repeated.iter().take(NAMED_MAX).map(|path| path.display().to_string()).collect();
        let more = match repeated.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        trace.notes.push(format!(
            "{}{more}: left out, as another log of the same job has these requests.",
            names.join(", ")
        ));
    }
    if trims > 0 {
        trace.notes.push(format!("{trims} lines are of trims, which are left out."));
    }
    match (requests.is_empty(), window_ms) {
        (false, None) => {
            trace.samples = seconds(requests)?;
            trace.following = (places[0] > 0).then(|| places[1] as f64 / places[0] as f64);
        }
        (true, Some(window_ms)) => {
            if let Some(missing) = ["_bw", "_iops"].iter().zip(kinds).find(|(_, lines)| *lines == 0) {
                let what = format!("the log of {} is missing beside the others", missing.0);
                return Err(Error::invalid(what));
            }
            let seconds = window_ms as f64 / 1000.0;
            let sample = |(window, sample): (u64, Sample)| {
                // A window is logged at its end.
                Sample { start: Some(window.saturating_sub(1) as f64 * seconds), seconds, ..sample }
            };
            trace.samples = windows.into_iter().map(sample).collect();
        }
        _ => {
            return Err(Error::invalid(
                "some logs have a line for each request and some do not: give one kind",
            ));
        }
    }
    Ok(trace)
}

/// What the values are, by the name that fio gave the file; of logs with the same requests the first kind is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Latency,
    Completion,
    Submission,
    Bandwidth,
    Iops,
    Other,
}

const KINDS: [(&str, Kind); 5] = [
    ("_lat", Kind::Latency),
    ("_clat", Kind::Completion),
    ("_slat", Kind::Submission),
    ("_bw", Kind::Bandwidth),
    ("_iops", Kind::Iops),
];

impl Kind {
    fn of(path: &Path) -> Kind {
        Kind::and_job(path).0
    }

    /// The kind, and what the names of a job's logs have in common: `k_clat.1.log` is of `k` and `.1.log`.
    fn and_job(path: &Path) -> (Kind, PathBuf, String) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The name of a job may have dots of its own.
        let dotted = format!("{name}.");
        let place = |(word, kind): &(&str, Kind)| {
            let at = dotted.rfind(&format!("{word}."))?;
            Some((at, at + word.len(), *kind))
        };
        match KINDS.iter().filter_map(place).max_by_key(|(at, ..)| *at) {
            Some((at, end, kind)) => (kind, path.with_file_name(&name[..at]), name[end..].to_owned()),
            None => (Kind::Other, path.to_owned(), String::new()),
        }
    }
}

/// The logs that are empty or have a line for each request, beside another one of the same job that has these requests.
fn repeated<'a>(files: &'a [(&'a Path, String)]) -> Vec<&'a Path> {
    let lists_requests = |text: &str| {
        let first = text.lines().find_map(|line| parse(line).ok().flatten());
        first.is_some_and(|line| line.bytes > 0)
    };
    // By folder and name of the job.
    type Logs<'a> = Vec<(bool, Kind, &'a Path)>;
    let mut jobs: BTreeMap<(PathBuf, String), Logs<'_>> = BTreeMap::new();
    for (path, text) in files {
        let is_empty = text.trim().is_empty();
        if is_empty || lists_requests(text) {
            let (kind, folder, rest) = Kind::and_job(path);
            jobs.entry((folder, rest)).or_default().push((is_empty, kind, path));
        }
    }
    let mut repeated = Vec::new();
    for mut logs in jobs.into_values() {
        logs.sort();
        repeated.extend(logs.into_iter().skip(1).map(|(.., path)| path));
    }
    repeated
}

/// The parts of a line; none for a trim.
fn parse(line: &str) -> std::result::Result<Option<Line>, String> {
    let words: Vec<&str> = line.split(',').map(str::trim).collect();
    let [ms, value, direction, bytes, rest @ ..] = words.as_slice() else {
        return Err("a line has a time, a value, a direction and a size, with commas between".to_owned());
    };
    let number = |text: &str, what: &str| {
        text.parse::<u64>().map_err(|_| format!("the {what} `{text}` is not a whole number"))
    };
    let ms = number(ms, "time")?;
    if ms as f64 > SECONDS_MAX * 1000.0 {
        return Err(format!("the time {ms} ms is longer than any run: run fio without log_unix_epoch"));
    }
    let value = value.parse::<f64>().ok().filter(|value| (0.0..=1e15).contains(value));
    let value = value.ok_or_else(|| format!("the value `{}` is not a number from 0 up", words[1]))?;
    let bytes = number(bytes, "size")?;
    // The last column is the priority, so that an offset has one after it.
    let offset = rest.first().filter(|_| rest.len() > 1).map(|text| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).map_err(|_| format!("the offset `{text}` is not a number")),
        None => number(text, "offset"),
    });
    let write = match *direction {
        "0" => false,
        "1" => true,
        "2" => return Ok(None),
        other => return Err(format!("the direction `{other}` is none of 0, 1 and 2")),
    };
    Ok(Some(Line { ms, value, write, bytes, offset: offset.transpose()? }))
}

fn add(sample: &mut Sample, write: bool, requests: f64, bytes: f64) {
    match write {
        true => (sample.writes, sample.write_bytes) = (sample.writes + requests, sample.write_bytes + bytes),
        false => (sample.reads, sample.read_bytes) = (sample.reads + requests, sample.read_bytes + bytes),
    }
}

/// A sample for every second with requests, and one for every stretch without: that is idle, not a hole.
fn seconds(requests: BTreeMap<u64, Sample>) -> Result<Vec<Sample>> {
    // The last second is not whole.
    let last = requests.keys().next_back().copied().unwrap_or_default();
    let (mut samples, mut next) = (Vec::new(), 0);
    for (second, sample) in requests.into_iter().filter(|(second, _)| *second < last) {
        if second > next {
            let (start, seconds) = (Some(next as f64), (second - next) as f64);
            samples.push(Sample { start, seconds, ..Sample::default() });
        }
        samples.push(Sample { start: Some(second as f64), seconds: 1.0, ..sample });
        next = second + 1;
    }
    if samples.is_empty() {
        return Err(Error::invalid("the logs cover less than a second: too little to say anything"));
    }
    Ok(samples)
}
