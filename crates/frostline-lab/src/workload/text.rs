//! Tools that print text, and iperf3's JSON.

use std::collections::BTreeMap;

use frostline_base::{Error, Result};
use regex::Regex;
use serde::Deserialize;

use super::Measured;

/// `131072000 bytes (131 MB, 125 MiB) copied, 0.2 s, 655 MB/s`: the rate is worked out from bytes and
/// seconds, since the printed one is rounded. Metrics: `mb_per_s` (10^6, as dd prints), `seconds`.
pub(super) fn dd(text: &str) -> Result<Measured> {
    let found = captures(r"(?m)^(\d+) bytes .*copied, ([0-9.e+-]+) s", text)?;
    let (bytes, seconds): (u64, f64) = (number(&found[0])?, number(&found[1])?);
    if seconds <= 0.0 {
        return Err(Error::corrupt("it took no time"));
    }
    let mut measured = Measured::default();
    measured.put("mb_per_s", bytes as f64 / seconds / 1e6)?;
    measured.put("seconds", seconds)?;
    measured.bytes = Some((0, bytes));
    Ok(measured)
}

/// sysbench 1.0 `cpu` (`events_per_s`) and `memory` (`mib_per_s`), with `p95_ms`.
pub(super) fn sysbench(text: &str) -> Result<Measured> {
    let mut measured = Measured::default();
    if let Ok(found) = captures(r"(?m)^\s*events per second:\s+([0-9.]+)", text) {
        measured.put("events_per_s", number(&found[0])?)?;
    }
    if let Ok(found) = captures(r"MiB transferred \(([0-9.]+) MiB/sec\)", text) {
        measured.put("mib_per_s", number(&found[0])?)?;
    }
    if measured.values.is_empty() {
        return Err(Error::corrupt("it has neither events nor MiB per second"));
    }
    let found = captures(r"(?m)^\s*95th percentile:\s+([0-9.]+)", text)?;
    measured.put("p95_ms", number(&found[0])?)?;
    Ok(measured)
}

/// What the receiver got, since the sender counts what is still in its socket. Metrics: `gbit_per_s`,
/// `retransmits`, `host_cpu_percent`.
pub(super) fn iperf3(text: &str) -> Result<Measured> {
    #[derive(Deserialize)]
    struct Output {
        error: Option<String>,
        end: Option<End>,
    }
    #[derive(Deserialize)]
    struct End {
        sum_received: Option<Sum>,
        sum_sent: Option<Sum>,
        cpu_utilization_percent: Option<Cpu>,
    }
    #[derive(Deserialize)]
    struct Sum {
        bits_per_second: f64,
        retransmits: Option<u64>,
    }
    #[derive(Deserialize)]
    struct Cpu {
        host_total: f64,
    }
    let output: Output =
        serde_json::from_str(text).map_err(|e| Error::corrupt("its JSON is not iperf3's").with_source(e))?;
    if let Some(error) = output.error {
        return Err(Error::unavailable(error));
    }
    let end = output.end.ok_or_else(|| Error::corrupt("it has no end"))?;
    let received = end.sum_received.ok_or_else(|| Error::corrupt("it does not say what was received"))?;
    let mut measured = Measured::default();
    measured.put("gbit_per_s", received.bits_per_second / 1e9)?;
    if let Some(retransmits) = end.sum_sent.and_then(|sent| sent.retransmits) {
        measured.put("retransmits", retransmits as f64)?;
    }
    if let Some(cpu) = end.cpu_utilization_percent {
        measured.put("host_cpu_percent", cpu.host_total)?;
    }
    Ok(measured)
}

/// pgbench's summary. Metrics: `tps`, `latency_mean_ms`; failed transactions are errors.
pub(super) fn pgbench(text: &str) -> Result<Measured> {
    let mut measured = Measured::default();
    measured.put("tps", number(&captures(r"(?m)^tps = ([0-9.]+)", text)?[0])?)?;
    let latency = captures(r"(?m)^latency average = ([0-9.]+) ms", text)?;
    measured.put("latency_mean_ms", number(&latency[0])?)?;
    if let Ok(failed) = captures(r"(?m)^number of failed transactions: (\d+)", text) {
        measured.errors = number(&failed[0])?;
    }
    Ok(measured)
}

/// The first group of each pattern as a number; `seconds` of wall time always.
pub(super) fn command(text: &str, patterns: &BTreeMap<String, String>, seconds: f64) -> Result<Measured> {
    let mut measured = Measured::default();
    measured.put("seconds", seconds)?;
    for (metric, pattern) in patterns {
        let found = captures(pattern, text).map_err(|e| e.with("metric", metric))?;
        let value = found.first().ok_or_else(|| Error::invalid(format!("`{pattern}` has no group ( )")))?;
        measured.put(metric, number(value)?)?;
    }
    Ok(measured)
}

fn captures(pattern: &str, text: &str) -> Result<Vec<String>> {
    let regex = Regex::new(pattern).map_err(|e| Error::invalid("not a regular expression").with_source(e))?;
    let found =
        regex.captures(text).ok_or_else(|| Error::corrupt(format!("nothing in it matches `{pattern}`")))?;
    Ok(found.iter().skip(1).map(|group| group.map_or("", |g| g.as_str()).to_owned()).collect())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::corrupt(format!("`{text}` is not a number")))
}
