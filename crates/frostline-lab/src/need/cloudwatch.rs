//! What `aws cloudwatch get-metric-data` and `get-metric-statistics` print of a volume's metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use frostline_base::{Error, Result};
use serde_json::Value;

use super::{SECONDS_MAX, Sample, Trace};

/// The metrics of AWS/EBS that are needed, each as a sum over the period.
const METRICS: [&str; 4] = ["VolumeReadOps", "VolumeReadBytes", "VolumeWriteOps", "VolumeWriteBytes"];
/// Units of requests and of bytes.
const UNITS: [&str; 2] = ["Count", "Bytes"];
/// Bytes that requests of a volume can have on average.
const REQUEST_BYTES: std::ops::RangeInclusive<f64> = 512.0..=16_777_216.0;
/// So many equal steps in a row that are longer than the period are another period, not holes.
const OTHER_PERIOD_MIN: usize = 3;
/// The name of a volume where labels have none.
const UNNAMED: &str = "the volume";
/// Longest period that metrics have.
const PERIOD_MAX: i64 = 86_400;

/// Values by second, for each of [`METRICS`].
type Series = [BTreeMap<i64, f64>; 4];

/// A trace of each volume.
pub(super) fn read(files: &[(&Path, String)]) -> Result<Vec<Trace>> {
    let (mut volumes, mut notes): (BTreeMap<String, Series>, Vec<String>) = (BTreeMap::new(), Vec::new());
    for (path, text) in files {
        let origin = path.display().to_string();
        let document: Value = serde_json::from_str(text).map_err(|e| {
            let cut = if e.is_eof() { "; it is cut" } else { "" };
            let (line, column) = (e.line(), e.column());
            let wanted = "it should be the output of `aws cloudwatch get-metric-data`";
            Error::invalid(format!("{origin}: line {line}, column {column}: not JSON{cut}; {wanted}"))
        })?;
        match (document["MetricDataResults"].as_array(), document["Datapoints"].as_array()) {
            (Some(results), _) => metric_data(&origin, results, &mut volumes)?,
            (None, Some(points)) => {
                let label = document["Label"].as_str().unwrap_or_default();
                metric_statistics(&origin, label, points, &mut volumes)?;
            }
            (None, None) => {
                let what =
                    "it is neither what `aws cloudwatch get-metric-data` prints nor `get-metric-statistics`";
                return Err(Error::invalid(format!("{origin}: {what}")));
            }
        }
        if document["NextToken"].is_string() {
            notes.push(format!("{origin} is one page of several (NextToken): the rest is not counted."));
        }
        let partial = document["MetricDataResults"].as_array().into_iter().flatten();
        if partial.filter_map(|result| result["StatusCode"].as_str()).any(|status| status != "Complete") {
            notes.push(format!("{origin}: the service says that its answer is not complete."));
        }
    }
    volumes.into_iter().map(|(volume, series)| trace(volume, &series, &notes)).collect()
}

/// Which metric of which volume a label names.
fn place(label: &str) -> Option<(String, usize)> {
    let metric = METRICS.iter().position(|metric| label.contains(metric))?;
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let volume = label.split(|c| !is_of_name(c)).find(|word| word.starts_with("vol-"));
    Some((volume.unwrap_or(UNNAMED).to_owned(), metric))
}

fn metric_data(origin: &str, results: &[Value], volumes: &mut BTreeMap<String, Series>) -> Result<()> {
    for (at, result) in results.iter().enumerate() {
        let wrong = |what: String| Error::invalid(format!("{origin}: MetricDataResults[{at}]{what}"));
        let names = ["Label", "Id"].map(|name| result[name].as_str().unwrap_or_default());
        // An id begins with a small letter, so that it can only resemble the metric's name.
        let Some((volume, metric)) = names.iter().find_map(|name| place(name)) else { continue };
        let (Some(times), Some(values)) = (result["Timestamps"].as_array(), result["Values"].as_array())
        else {
            return Err(wrong(" needs Timestamps and Values".to_owned()));
        };
        if times.len() != values.len() {
            return Err(wrong(format!(" has {} times for {} values", times.len(), values.len())));
        }
        let times: Vec<i64> = times
            .iter()
            .enumerate()
            .map(|(i, time)| second(time).map_err(|what| wrong(format!(".Timestamps[{i}]: {what}"))))
            .collect::<Result<_>>()?;
        // Newest first unless it was asked otherwise; but one of both.
        let is_falling = times.first() > times.last();
        if let Some(i) =
            times.windows(2).position(|pair| (pair[0] > pair[1]) != is_falling && pair[0] != pair[1])
        {
            return Err(wrong(format!(".Timestamps[{}]: the clock goes back", i + 1)));
        }
        let series = volumes.entry(volume).or_default();
        for (i, (time, value)) in times.into_iter().zip(values).enumerate() {
            let value = count(value).and_then(|value| put(&mut series[metric], time, value));
            value.map_err(|what| wrong(format!(".Values[{i}]: {what}")))?;
        }
    }
    Ok(())
}

fn metric_statistics(
    origin: &str,
    label: &str,
    points: &[Value],
    volumes: &mut BTreeMap<String, Series>,
) -> Result<()> {
    let Some((volume, metric)) = place(label) else {
        let what = format!("the metric `{label}` is none of {}", METRICS.join(", "));
        return Err(Error::invalid(format!("{origin}: {what}")));
    };
    // These come in no order.
    let series = &mut volumes.entry(volume).or_default()[metric];
    for (at, point) in points.iter().enumerate() {
        let wrong = |what: String| Error::invalid(format!("{origin}: Datapoints[{at}]: {what}"));
        let time = second(&point["Timestamp"]).map_err(wrong)?;
        if point["Sum"].is_null() {
            return Err(wrong("it has no Sum: ask with --statistics Sum".to_owned()));
        }
        if let Some(unit) = point["Unit"].as_str().filter(|unit| !UNITS.contains(unit)) {
            return Err(wrong(format!("its unit is {unit}, not {}", UNITS.join(" or "))));
        }
        count(&point["Sum"]).and_then(|value| put(series, time, value)).map_err(wrong)?;
    }
    Ok(())
}

fn trace(volume: String, series: &Series, notes: &[String]) -> Result<Trace> {
    if let Some(missing) = METRICS.iter().zip(series).find(|(_, values)| values.is_empty()) {
        return Err(Error::invalid(format!("{volume}: the metric {} is missing", missing.0)));
    }
    let times: BTreeSet<i64> = series.iter().flat_map(|values| values.keys().copied()).collect();
    let times: Vec<i64> = times.into_iter().collect();
    let Some(period) = times.windows(2).map(|pair| pair[1] - pair[0]).min() else {
        return Err(Error::invalid(format!(
            "{volume}: one time says nothing about the period: it takes two"
        )));
    };
    let (first, last) = (times[0], times[times.len() - 1]);
    if period > PERIOD_MAX || (last - first) as f64 > SECONDS_MAX {
        return Err(Error::invalid(format!(
            "{volume}: its times are {period} s apart: no period is so long"
        )));
    }
    check_period(&volume, &times, period)?;
    check_sizes(&volume, series)?;
    let mut trace = Trace { device: volume, notes: notes.to_vec(), ..Trace::default() };
    trace.notes.push(format!(
        "A sample is the average over a period of {period} s: peaks within it are not seen. Requests are the cloud's, which splits and merges them."
    ));
    let mut before = first - period;
    for time in times {
        if time - before > period {
            let missing = (time - before) / period - 1;
            trace.holes.push(format!("{missing} periods without values before {}", show_time(time)));
        }
        before = time;
        let values = series.each_ref().map(|values| values.get(&time).copied());
        match values {
            [Some(reads), Some(read_bytes), Some(writes), Some(write_bytes)] => {
                // A time is where its period begins.
                let (start, seconds) = (Some(time as f64), period as f64);
                trace.samples.push(Sample { start, seconds, reads, read_bytes, writes, write_bytes });
            }
            _ => {
                let names = METRICS.iter().zip(values).filter(|(_, value)| value.is_none());
                let names: Vec<&str> = names.map(|(name, _)| *name).collect();
                trace.holes.push(format!("no {} at {}", names.join(", "), show_time(time)));
            }
        }
    }
    Ok(trace)
}

/// Exports may overlap, but a time has one value.
fn put(values: &mut BTreeMap<i64, f64>, time: i64, value: f64) -> std::result::Result<(), String> {
    match values.insert(time, value) {
        Some(other) if other != value => {
            Err(format!("{} already has the value {other}, not {value}", show_time(time)))
        }
        _ => Ok(()),
    }
}

/// Checks that the metrics are sums, of bytes and of requests: the average request must have a possible size.
fn check_sizes(volume: &str, series: &Series) -> Result<()> {
    let [reads, read_bytes, writes, write_bytes] = series;
    for (requests, bytes, names) in [(reads, read_bytes, &METRICS[..2]), (writes, write_bytes, &METRICS[2..])]
    {
        // Of the times that have both.
        let both = requests.iter().filter_map(|(time, requests)| Some((*requests, *bytes.get(time)?)));
        let (count, sum) = both.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if count > 0.0 && !REQUEST_BYTES.contains(&(sum / count)) {
            return Err(Error::invalid(format!(
                "{volume}: {} is {} bytes for each of {}: both must be sums (statistic Sum), in bytes and requests",
                names[1],
                (sum / count * 10.0).round() / 10.0,
                names[0]
            )));
        }
    }
    Ok(())
}

/// Checks that there is one period. A longer one would look like holes, and its sums like those of the shorter one.
fn check_period(volume: &str, times: &[i64], period: i64) -> Result<()> {
    let steps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let is_other = |steps: &[i64]| steps[0] > period && steps.iter().all(|step| *step == steps[0]);
    match steps.windows(OTHER_PERIOD_MIN).position(is_other) {
        Some(at) => Err(Error::invalid(format!(
            "{volume}: values from {} on are {} s apart, others {period} s: give exports with one period",
            show_time(times[at]),
            steps[at]
        ))),
        None => Ok(()),
    }
}

/// A time as text or as seconds since 1970.
fn second(value: &Value) -> std::result::Result<i64, String> {
    let parsed = match value {
        Value::String(text) => text.parse::<jiff::Timestamp>().ok().map(|time| time.as_second()),
        Value::Number(number) => number.as_f64().filter(|s| s.abs() < 1e11).map(|s| s as i64),
        _ => None,
    };
    parsed.ok_or_else(|| format!("the time {value} cannot be read"))
}

fn count(value: &Value) -> std::result::Result<f64, String> {
    let count = value.as_f64().filter(|count| (0.0..=1e18).contains(count));
    count.ok_or_else(|| format!("{value} is not a number from 0 up"))
}

fn show_time(second: i64) -> String {
    jiff::Timestamp::from_second(second).map_or_else(|_| second.to_string(), |time| time.to_string())
}
