//! fio's JSON (`--output-format=json`, fio 3.x).

use std::collections::BTreeMap;

use frostline_base::{Error, Result};
use serde::Deserialize;

use super::Measured;

const MIB: f64 = 1_048_576.0;
const NS_PER_MS: f64 = 1e6;
/// fio's names of the percentiles that are kept, and ours.
const PERCENTILES: &[(&str, &str)] =
    &[("50.000000", "p50"), ("95.000000", "p95"), ("99.000000", "p99"), ("99.900000", "p999")];

#[derive(Deserialize)]
struct Output {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    error: i64,
    #[serde(default)]
    total_err: u64,
    #[serde(default)]
    job_runtime: f64,
    read: Direction,
    write: Direction,
    #[serde(default)]
    sync: Sync,
}

/// One of a job's directions.
type Side = fn(&Job) -> &Direction;

#[derive(Deserialize)]
struct Direction {
    io_bytes: u64,
    bw_bytes: f64,
    iops: f64,
    /// Milliseconds.
    #[serde(default)]
    runtime: f64,
    #[serde(default)]
    total_ios: u64,
    #[serde(default)]
    clat_ns: Latency,
}

#[derive(Default, Deserialize)]
struct Sync {
    #[serde(default)]
    total_ios: u64,
    #[serde(default)]
    lat_ns: Latency,
}

#[derive(Default, Deserialize)]
struct Latency {
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

/// Throughput and requests of all jobs together; latencies of the slowest job, since percentiles of jobs
/// cannot be added (with `--group_reporting` there is one job). Metrics: `mib_per_s`, `iops`, and, for each
/// direction that there was, `read_` and `write_` of these and of `p50_ms` … `p999_ms`; for syncs
/// `sync_iops` and `sync_p50_ms` ….
pub(super) fn read(text: &str) -> Result<Measured> {
    // fio may print a note before its JSON.
    let json = text.find('{').map_or("", |at| &text[at..]);
    // What follows the document is not ours to judge.
    let mut documents = serde_json::Deserializer::from_str(json).into_iter::<Output>();
    let output = documents
        .next()
        .ok_or_else(|| Error::corrupt("there is no JSON in it"))?
        .map_err(|e| Error::corrupt("its JSON is not fio's").with_source(e))?;
    if output.jobs.is_empty() {
        return Err(Error::corrupt("it names no job"));
    }
    if let Some(job) = output.jobs.iter().find(|job| job.error != 0) {
        return Err(Error::unavailable(format!("a job ended with error {}", job.error)));
    }
    let mut measured = Measured::default();
    let sides: [(&str, Side); 2] = [("read", |job| &job.read), ("write", |job| &job.write)];
    let (mut bytes_per_s, mut iops, mut moved) = (0.0, 0.0, [0_u64; 2]);
    for (at, (name, side)) in sides.into_iter().enumerate() {
        let all: Vec<&Direction> = output.jobs.iter().map(side).collect();
        moved[at] = all.iter().fold(0, |sum: u64, d| sum.saturating_add(d.io_bytes));
        let bandwidth: f64 = all.iter().map(|d| d.bw_bytes).sum();
        let requests: f64 = all.iter().map(|d| d.iops).sum();
        (bytes_per_s, iops) = (bytes_per_s + bandwidth, iops + requests);
        if moved[at] > 0 {
            measured.put(&format!("{name}_mib_per_s"), bandwidth / MIB)?;
            measured.put(&format!("{name}_iops"), requests)?;
            put_latencies(&mut measured, name, all.iter().map(|d| &d.clat_ns))?;
        }
    }
    if moved == [0, 0] {
        return Err(Error::corrupt("no byte was moved"));
    }
    measured.put("mib_per_s", bytes_per_s / MIB)?;
    measured.put("iops", iops)?;
    put_syncs(&mut measured, &output.jobs)?;
    measured.bytes = Some((moved[0], moved[1]));
    measured.errors = output.jobs.iter().map(|job| job.total_err).sum();
    Ok(measured)
}

/// What was done from the start to one moment, of all jobs together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SoFar {
    /// Seconds since the start.
    pub seconds: f64,
    /// Requests that were done.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// The moments that fio printed with `--status-interval`. They are taken from the start of `text`; a document that is
/// not whole yet stays there.
///
/// # Errors
/// Corrupt if it is not what fio prints.
pub fn so_far(text: &mut String) -> Result<Vec<SoFar>> {
    let mut moments = Vec::new();
    let mut taken = 0;
    while let Some(at) = text[taken..].find('{').map(|at| taken + at) {
        // Only the brace that ends a document is at the start of a line. A document that is cut may be wrong in many ways.
        let Some(end) = text[at..].find("\n}\n").map(|end| at + end + 3) else { break };
        let output: Output = serde_json::from_str(&text[at..end])
            .map_err(|e| Error::corrupt("its JSON is not fio's").with_source(e))?;
        taken = end;
        let mut moment = SoFar::default();
        for side in output.jobs.iter().flat_map(|job| [&job.read, &job.write]) {
            moment.seconds = moment.seconds.max(side.runtime / 1000.0);
            moment.requests = moment.requests.saturating_add(side.total_ios);
            moment.bytes = moment.bytes.saturating_add(side.io_bytes);
        }
        moments.push(moment);
    }
    text.drain(..taken);
    Ok(moments)
}

fn put_syncs(measured: &mut Measured, jobs: &[Job]) -> Result<()> {
    let syncs: u64 = jobs.iter().fold(0, |sum, job| sum.saturating_add(job.sync.total_ios));
    // fio's job_runtime is in milliseconds, of all threads of a group together.
    let longest = jobs.iter().map(|job| job.job_runtime).fold(0.0, f64::max) / 1000.0;
    if syncs == 0 || longest <= 0.0 {
        return Ok(());
    }
    measured.put("sync_iops", syncs as f64 / longest)?;
    put_latencies(measured, "sync", jobs.iter().map(|job| &job.sync.lat_ns))
}

fn put_latencies<'a>(
    measured: &mut Measured,
    name: &str,
    latencies: impl Iterator<Item = &'a Latency> + Clone,
) -> Result<()> {
    for (theirs, ours) in PERCENTILES {
        let slowest = latencies
            .clone()
            .filter_map(|l| l.percentile.get(*theirs))
            .copied()
            .fold(None, |max, ns| Some(f64::max(max.unwrap_or(0.0), ns)));
        if let Some(ns) = slowest {
            measured.put(&format!("{name}_{ours}_ms"), ns / NS_PER_MS)?;
        }
    }
    Ok(())
}
