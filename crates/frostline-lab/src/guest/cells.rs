//! Cells of the warm-tier study that need a guest: one stack on throttled disks, one job of fio.
//!
//! [`run_cell`] creates the stack, writes the files without disk limits (a disk of 5 MB/s would take
//! longer to fill than to measure), empties every cache (and fills that of OpenZFS if its size is not limited),
//! measures, and
//! removes the stack. The lab's runner takes the samples, in interleaved blocks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::machine::{Aio, Backing, Cache};
use super::storage::{Arc, COUNTERS, Counters, FioResult, Job, Layout, MOUNT, Stack, parse_fio};
use super::{Accel, Disk, Guest, Limits, Machine};
use crate::record::Gate;

/// A data cache that answers more than this part of reads voids a figure that is said to be the disks'.
const HIT_RATE_MAX: f64 = 0.02;
/// Direct I/O without compression moves what the application asked for; less came from a cache.
const DEVICE_PART_MIN: f64 = 0.9;
/// A throttled disk that moves more than this part of its limit was not throttled.
const LIMIT_USE_MAX: f64 = 1.15;
/// Above this part of time in which something waited for a CPU, a sample is marked as contended.
const CONTENDED_PERCENT: f64 = 15.0;
/// Of the pinned cache: room for metadata, and far below the files.
const PINNED_MIB: u32 = 96;

/// Bytes a second of the one large disk; each of the four has a quarter of it. With five times as much, the emulated CPU was the
/// bottleneck of OpenZFS where data compresses.
pub const ONE_BPS: u64 = 20_000_000;

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellSpec {
    /// What is made on the disks.
    pub layout: Layout,
    /// What is done there.
    pub job: Job,
}

/// What a cell gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// By name of the metric: `mb_per_s`, `read_mb_per_s`, `write_mb_per_s`, `iops`, `read_p50_ms`, `read_p99_ms`,
    /// `write_p99_ms`, `device_part`, `limit_use`, `arc_hit_rate`, `compress_ratio`, `cpu_wait_percent`.
    pub values: BTreeMap<String, f64>,
    /// Whether the values are what they are said to be.
    pub gates: Vec<Gate>,
    /// What does not void the values and must be known.
    pub notes: Vec<String>,
    /// What every tool printed.
    pub raw: Value,
}

impl CellSpec {
    /// A cell with the study's mix, 75 % reads by 16 processes. OpenZFS before 2.3 takes requests one at a time of each process,
    /// whatever the depth: fewer processes than the published 16 leave some of its disks idle.
    pub fn new(stack: Stack, volumes: &[&str], compressible_percent: u32) -> CellSpec {
        let job = Job {
            rw: "randrw".to_owned(),
            read_percent: 75,
            block_kib: 128,
            depth: 4,
            jobs: 16,
            engine: "libaio".to_owned(),
            direct: true,
            file_mib: 32,
            seconds: 20,
            compressible_percent,
            seed: 1,
        };
        let layout = Layout {
            stack,
            volumes: volumes.iter().map(|serial| (*serial).to_owned()).collect(),
            record_kib: 128,
            compression: "off".to_owned(),
            arc: Arc::Pinned(PINNED_MIB),
        };
        CellSpec { layout, job }
    }
}

/// The serial numbers of the four small disks.
pub const FOUR: [&str; 4] = ["four-a", "four-b", "four-c", "four-d"];
/// That of the disk which is as fast as those together.
pub const ONE: &str = "one";

/// The machine that cells run on: 512 MiB, of which OpenZFS before 2.3 takes half for its cache by itself,
/// which is half of the files; in the published runs it may have been two fifths.
pub fn machine(accel: Accel, folder: &Path) -> Machine {
    let disk = |serial: &str, bytes, bps| Disk {
        serial: serial.to_owned(),
        backing: Backing::New(bytes),
        limits: Limits::bytes_per_s(bps),
        group: None,
        io_thread: None,
        queues: Some(1),
        aio: Aio::IoUring,
        cache: Cache::None,
    };
    let mut machine = Machine::new("cells", folder.to_owned(), accel);
    machine.memory_mib = 512;
    let four = FOUR.iter().map(|serial| disk(serial, 2 << 30, ONE_BPS / 4));
    machine.disks = four.chain([disk(ONE, 8 << 30, ONE_BPS)]).collect();
    machine
}

/// Measures one cell for `seconds` in a guest that has its disks. The guest is left as it was found.
///
/// # Errors
///
/// `Invalid` for a stack that cannot be; `NotFound` for a disk that the guest does not have; `Unavailable` if a
/// tool fails inside, with what it said. The disks' limits and the stack are put back also then.
pub fn run_cell(guest: &mut Guest, cell: &CellSpec, seconds: u64) -> Result<Measured> {
    cell.layout.check()?;
    let mut limits = Vec::new();
    for serial in &cell.layout.volumes {
        let disk = guest.machine().disks.iter().find(|disk| disk.serial == *serial);
        let disk = disk.ok_or_else(|| Error::not_found(format!("the guest has no disk `{serial}`")))?;
        limits.push((serial.clone(), disk.limits));
    }
    let measured = measure(guest, cell, seconds, &limits);
    let mut restored = limits.iter().try_for_each(|(serial, was)| guest.set_limits(serial, *was));
    if let Err(error) = guest.run(&cell.layout.remove(), Duration::from_secs(120)) {
        restored = Err(error);
    }
    let measured = measured?;
    restored.map(|()| measured)
}

fn measure(
    guest: &mut Guest,
    cell: &CellSpec,
    seconds: u64,
    limits: &[(String, Limits)],
) -> Result<Measured> {
    let CellSpec { layout, job } = cell;
    let job = Job { seconds, ..job.clone() };
    for (serial, _) in limits {
        guest.set_limits(serial, Limits::default())?;
    }
    let mut steps = BTreeMap::new();
    let mut step = |guest: &mut Guest, what: &str, script: &str| {
        let begun = Instant::now();
        let printed = guest.must(what, script, Duration::from_secs(600))?;
        steps.insert(what.to_owned(), begun.elapsed().as_secs_f64());
        Ok::<String, Error>(printed)
    };
    step(guest, "making the stack", &layout.make())?;
    step(guest, "filling the files", &job.fill().command())?;
    step(guest, "emptying the caches", &layout.cool())?;
    if layout.stack == Stack::Zfs && layout.arc == Arc::Free {
        // A cache that is studied is as full as after a while of work, not as after an import.
        step(guest, "filling the cache", &format!("cat {MOUNT}/f.* >/dev/null"))?;
    }
    let described = step(guest, "describing the stack", &layout.describe())?;
    for (serial, was) in limits {
        guest.set_limits(serial, *was)?;
    }
    let counters = |guest: &mut Guest| guest.must("reading the counters", COUNTERS, Duration::from_secs(60));
    let before = counters(guest)?;
    let (begun, waited) = (Instant::now(), cpu_wait());
    let fio = guest.must("fio", &job.command(), Duration::from_secs(seconds * 3 + 120))?;
    let (took, waited) = (begun.elapsed(), cpu_wait().zip(waited).map(|(now, then)| now - then));
    let after = counters(guest)?;
    let sample = Readings {
        result: parse_fio(&fio)?,
        before: Counters::parse(&before)?,
        after: Counters::parse(&after)?,
        limit_bps: limits.iter().map(|(_, limits)| limits.bps).sum(),
        cpu_wait_percent: waited.map(|us| us as f64 / took.as_micros().max(1) as f64 * 100.0),
        ratio: compress_ratio(&described),
    };
    let (values, gates, notes) = (sample.values(layout), sample.gates(layout, &job), sample.notes());
    let fio: Value = serde_json::from_str(&fio[fio.find('{').unwrap_or(0)..]).unwrap_or(Value::Null);
    let raw = json!({"spec": cell, "command": job.command(), "described": described, "before": before,
        "after": after, "fio": fio, "seconds_of_steps": steps});
    Ok(Measured { values, gates, notes, raw })
}

/// Microseconds in which something on the host waited for a CPU, since boot; none without the kernel's PSI.
fn cpu_wait() -> Option<u64> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    text.lines().next()?.rsplit_once("total=")?.1.trim().parse().ok()
}

/// `1.88x` in the line of compressratio.
fn compress_ratio(described: &str) -> Option<f64> {
    let line = described.lines().find(|line| line.starts_with("compressratio"))?;
    line.split_whitespace().nth(1)?.trim_end_matches('x').parse().ok()
}

/// What was read around a measurement.
#[derive(Clone, Debug)]
struct Readings {
    result: FioResult,
    before: Counters,
    after: Counters,
    /// Of all its disks together.
    limit_bps: u64,
    cpu_wait_percent: Option<f64>,
    ratio: Option<f64>,
}

impl Readings {
    fn application_bytes(&self) -> u64 {
        self.result.read.bytes + self.result.write.bytes
    }

    /// Bytes that the disks moved for each byte of the application.
    fn device_part(&self, layout: &Layout) -> f64 {
        let disks = self.after.disks_since(&self.before, &layout.volumes);
        (disks.read_bytes + disks.written_bytes) as f64 / self.application_bytes().max(1) as f64
    }

    fn limit_use(&self, layout: &Layout) -> Option<f64> {
        let disks = self.after.disks_since(&self.before, &layout.volumes);
        let per_s = (disks.read_bytes + disks.written_bytes) as f64 / self.result.seconds.max(0.001);
        (self.limit_bps > 0).then(|| per_s / self.limit_bps as f64)
    }

    fn values(&self, layout: &Layout) -> BTreeMap<String, f64> {
        let FioResult { read, write, .. } = self.result;
        let always = [
            ("mb_per_s", (read.bytes_per_s + write.bytes_per_s) / 1e6),
            ("read_mb_per_s", read.bytes_per_s / 1e6),
            ("write_mb_per_s", write.bytes_per_s / 1e6),
            ("iops", read.iops + write.iops),
            ("read_p50_ms", read.p50_ms),
            ("read_p99_ms", read.p99_ms),
            ("write_p99_ms", write.p99_ms),
            ("device_part", self.device_part(layout)),
        ];
        let sometimes = [
            ("limit_use", self.limit_use(layout)),
            ("arc_hit_rate", self.hit_rate(layout)),
            ("compress_ratio", self.ratio),
            ("cpu_wait_percent", self.cpu_wait_percent),
        ];
        let sometimes = sometimes.into_iter().filter_map(|(name, value)| Some((name, value?)));
        always.into_iter().chain(sometimes).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn hit_rate(&self, layout: &Layout) -> Option<f64> {
        self.after.arc_hit_rate_since(&self.before).filter(|_| layout.stack == Stack::Zfs)
    }

    fn gates(&self, layout: &Layout, job: &Job) -> Vec<Gate> {
        let gate = |name: &str, what: String, passed| Gate { name: name.to_owned(), what, passed };
        let mut gates = Vec::new();
        let bytes = self.application_bytes();
        gates.push(gate("work", format!("{bytes} bytes in {:.1} s", self.result.seconds), bytes > 0));
        if let Some(used) = self.limit_use(layout) {
            let what = format!("the disks moved {:.2} of what they may, at most {LIMIT_USE_MAX}", used);
            gates.push(gate("limit", what, used <= LIMIT_USE_MAX));
        }
        if matches!(layout.arc, Arc::Pinned(_)) && layout.stack == Stack::Zfs {
            let rate = self.hit_rate(layout).unwrap_or(0.0);
            let what = format!("the ARC answered {:.2} % of data reads, at most 2 %", rate * 100.0);
            gates.push(gate("arc", what, rate <= HIT_RATE_MAX));
        }
        // btrfs with checksums takes the page cache even for direct I/O; compression moves fewer bytes.
        if job.direct && !matches!(layout.stack, Stack::Zfs | Stack::Btrfs) {
            let part = self.device_part(layout);
            let what =
                format!("the disks moved {part:.2} of the application's bytes, at least {DEVICE_PART_MIN}");
            gates.push(gate("device_bytes", what, part >= DEVICE_PART_MIN));
        }
        gates
    }

    fn notes(&self) -> Vec<String> {
        let contended = self.cpu_wait_percent.filter(|percent| *percent > CONTENDED_PERCENT);
        contended
            .map(|percent| format!("contended: something waited for a CPU in {percent:.0} % of the time"))
            .into_iter()
            .collect()
    }
}

#[cfg(test)]
mod tests;
