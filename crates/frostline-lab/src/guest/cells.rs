//! Cells of the warm-tier study that need a guest: one stack on throttled disks, one job of fio.
//!
//! [`run_cell`] makes the stack, writes the files with the disks' limits lifted (a disk of 25 MB/s would take
//! longer to fill than to measure), empties every cache (and fills that of OpenZFS where it is free), measures, and
//! takes the stack away. [`run`] measures
//! all [`cells`] in interleaved blocks and keeps what every tool printed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use frostline_base::{Error, Result};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::machine::{Aio, Backing};
use super::storage::{Arc, COUNTERS, Counters, FioResult, Job, Layout, MOUNT, Stack, parse_fio};
use super::{Accel, Disk, Facts, Guest, Image, Limits, Machine, io};
use crate::host::ledger::Ledger;
use crate::record::{Gate, Sample};

/// A data cache that answers more than this part of reads voids a figure that is said to be the disks'.
const HIT_RATE_MAX: f64 = 0.02;
/// Direct I/O without compression moves what the application asked for; less came from a cache.
const DEVICE_PART_MIN: f64 = 0.9;
/// A throttled disk that moves more than this part of its limit was not throttled.
const LIMIT_USE_MAX: f64 = 1.15;
/// Below this part of the limits, something else than the disks was the bottleneck: the emulated CPU.
const LIMIT_USE_LOW: f64 = 0.9;
/// Above this part of time in which something waited for a CPU, a sample is marked as contended.
const CONTENDED_PERCENT: f64 = 15.0;
/// Of the pinned cache: room for metadata, and far below the files.
const PINNED_MIB: u32 = 96;

/// Bytes a second of the one large disk; each of the four has a quarter of it. Far below what an emulated guest can
/// move on a quiet machine of two CPUs; on a busy one, less is needed for the disks to be what is measured.
pub const ONE_BPS: u64 = 100_000_000;

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

    fn compressed(mut self, name: &str) -> CellSpec {
        self.layout.compression = name.to_owned();
        self
    }

    fn cached(mut self) -> CellSpec {
        self.layout.arc = Arc::Free;
        self
    }
}

/// The serial numbers of the four small disks.
pub const FOUR: [&str; 4] = ["four-a", "four-b", "four-c", "four-d"];
/// That of the disk which is as fast as those together.
pub const ONE: &str = "one";

/// The machine that [`cells`] run on: 512 MiB, of which OpenZFS before 2.3 takes half for its cache by itself,
/// which is half of the files; in the published runs it may have been two fifths.
pub fn machine(accel: Accel, folder: &Path) -> Machine {
    machine_of(accel, folder, ONE_BPS)
}

/// [`machine`] with another limit of the large disk, bytes a second.
pub fn machine_of(accel: Accel, folder: &Path, one_bps: u64) -> Machine {
    let disk = |serial: &str, bytes, bps| Disk {
        serial: serial.to_owned(),
        backing: Backing::New(bytes),
        limits: Limits::bytes_per_s(bps),
        group: None,
        io_thread: None,
        queues: Some(1),
        aio: Aio::IoUring,
        direct: true,
    };
    let mut machine = Machine::new("cells", folder.to_owned(), accel);
    machine.memory_mib = 512;
    let four = FOUR.iter().map(|serial| disk(serial, 2 << 30, one_bps / 4));
    machine.disks = four.chain([disk(ONE, 8 << 30, one_bps)]).collect();
    machine
}

/// The cells, by name. `ext4-one` is there twice: what differs between the two is noise.
pub fn cells() -> Vec<(String, CellSpec)> {
    let mut cells = Vec::new();
    for (data, percent) in [("random", 0), ("half", 50)] {
        let zfs = || CellSpec::new(Stack::Zfs, &FOUR, percent);
        let mut add = |name: &str, cell| cells.push((format!("{name}/{data}"), cell));
        add("zfs-lz4-four/pinned", zfs().compressed("lz4"));
        add("zfs-lz4-four/free", zfs().compressed("lz4").cached());
        add("ext4-one", CellSpec::new(Stack::Ext4, &[ONE], percent));
        add("ext4-one-of-four", CellSpec::new(Stack::Ext4, &FOUR[..1], percent));
    }
    let mut add = |name: &str, cell| cells.push((name.to_owned(), cell));
    add("ext4-one-again/random", CellSpec::new(Stack::Ext4, &[ONE], 0));
    add("zfs-off-four/pinned/half", CellSpec::new(Stack::Zfs, &FOUR, 50));
    add("zfs-lz4-one/pinned/half", CellSpec::new(Stack::Zfs, &[ONE], 50).compressed("lz4"));
    add("md-ext4-four/random", CellSpec::new(Stack::MdExt4, &FOUR, 0));
    add("lvm-ext4-four/random", CellSpec::new(Stack::LvmExt4, &FOUR, 0));
    cells
}

/// Ratios worth stating, as names of two cells.
pub fn comparisons() -> Vec<(&'static str, &'static str)> {
    vec![
        ("zfs-lz4-four/pinned/random", "ext4-one/random"),
        ("zfs-lz4-four/pinned/half", "ext4-one/half"),
        ("zfs-lz4-four/free/random", "ext4-one/random"),
        ("zfs-lz4-four/free/half", "ext4-one/half"),
        ("zfs-lz4-four/pinned/random", "ext4-one-of-four/random"),
        ("zfs-lz4-four/pinned/half", "ext4-one-of-four/half"),
        ("zfs-lz4-four/free/half", "ext4-one-of-four/half"),
        ("zfs-off-four/pinned/half", "ext4-one/half"),
        ("zfs-lz4-one/pinned/half", "ext4-one/half"),
        ("md-ext4-four/random", "ext4-one/random"),
        ("lvm-ext4-four/random", "ext4-one/random"),
        ("ext4-one-again/random", "ext4-one/random"),
    ]
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

/// How [`run`] measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Blocks: every cell runs once in each, in an order of its own.
    pub blocks: u32,
    /// Seconds that each sample measures.
    pub seconds: u64,
    /// Limit of the one large disk, bytes a second; see [`ONE_BPS`].
    pub one_bps: u64,
    /// Of the orders and of fio's offsets.
    pub seed: u64,
    /// Only the cells whose name begins with one of these; all, if there are none.
    pub only: Vec<String>,
}

/// What [`run`] found; `results.json` in its folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The guest.
    pub guest: Facts,
    /// Seconds that building the image took, when it was built.
    pub image_seconds: f64,
    /// How it was measured.
    pub plan: Plan,
    /// All samples, in the order in which they were taken.
    pub samples: Vec<Sample>,
    /// What must be known of single samples.
    pub notes: Vec<String>,
    /// Paired ratios of `mb_per_s`.
    pub ratios: Vec<Ratio>,
}

/// A ratio of two cells, block by block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Above the line.
    pub numerator: String,
    /// Below the line.
    pub denominator: String,
    /// One of each block in which both are valid, in order.
    pub values: Vec<f64>,
}

/// Boots a guest on `image` and measures [`cells`] in it. `folder` gets `raw/<block>-<cell>.json`, `samples.ndjson` as it goes,
/// and `results.json` at the end. A cell that fails is reported and does not end the run.
pub fn run(
    ledger: &mut Ledger,
    image: &Image,
    accel: Accel,
    plan: &Plan,
    folder: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Results> {
    let raw = folder.join("raw");
    fs::create_dir_all(&raw).map_err(|e| io(e, "cannot make", &raw))?;
    let lines = folder.join("samples.ndjson");
    let mut lines = File::create(&lines).map_err(|e| io(e, "cannot write", &lines))?;
    let machine = machine_of(accel, &folder.join("guest"), plan.one_bps);
    let mut guest = Guest::boot(ledger, image, machine)?;
    let facts = guest.facts()?;
    progress(&format!(
        "guest of Linux {}, OpenZFS {}, {} up in {:.1} s",
        facts.kernel,
        facts.zfs.as_deref().unwrap_or("none"),
        facts.accel,
        facts.boot_s
    ));
    let chosen: Vec<(String, CellSpec)> = cells()
        .into_iter()
        .filter(|(name, _)| plan.only.is_empty() || plan.only.iter().any(|only| name.starts_with(only)))
        .collect();
    let mut order = rand::rngs::SmallRng::seed_from_u64(plan.seed);
    let begun = Instant::now();
    let (mut samples, mut notes): (Vec<Sample>, Vec<String>) = (Vec::new(), Vec::new());
    let mut results = None;
    for block in 0..plan.blocks {
        let mut chosen = chosen.clone();
        chosen.shuffle(&mut order);
        for (position, (name, mut cell)) in chosen.into_iter().enumerate() {
            cell.job.seed = plan.seed * 1000 + u64::from(block);
            let at_s = begun.elapsed().as_secs_f64();
            let measured = match run_cell(&mut guest, &cell, plan.seconds) {
                Ok(measured) => measured,
                Err(error) => {
                    progress(&format!("block {block}: {name}: {error}"));
                    notes.push(format!("block {block}, {name}: {error}"));
                    // A guest that is gone measures nothing more.
                    guest.run("true", Duration::from_secs(30))?;
                    continue;
                }
            };
            let file = format!("{block}-{}.json", name.replace('/', "-"));
            write(&raw.join(&file), &measured.raw)?;
            notes.extend(measured.notes.iter().map(|note| format!("block {block}, {name}: {note}")));
            let sample = Sample {
                cell: name,
                block,
                position: position as u32,
                at_s,
                seconds: begun.elapsed().as_secs_f64() - at_s,
                values: measured.values,
                gates: measured.gates,
                raw: file,
            };
            progress(&shown(&sample));
            let line = serde_json::to_string(&sample)
                .map_err(|e| Error::internal("cannot encode a sample").with_source(e))?;
            writeln!(lines, "{line}").map_err(|e| io(e, "cannot write to", folder))?;
            samples.push(sample);
        }
        // After each block, so that an interrupted run has its figures.
        let now = Results {
            guest: facts.clone(),
            image_seconds: image.manifest().kernel_seconds + image.manifest().root_seconds,
            plan: plan.clone(),
            samples: samples.clone(),
            notes: notes.clone(),
            ratios: ratios(&samples),
        };
        write(&folder.join("results.json"), &now)?;
        results = Some(now);
    }
    guest.shutdown()?;
    results.ok_or_else(|| Error::invalid("a plan of no blocks measures nothing"))
}

/// One line of progress.
fn shown(sample: &Sample) -> String {
    let value = |name: &str| sample.values.get(name).copied().unwrap_or(0.0);
    let voided: Vec<&str> =
        sample.gates.iter().filter(|gate| !gate.passed).map(|gate| gate.name.as_str()).collect();
    let voided = if voided.is_empty() { String::new() } else { format!(" VOID: {}", voided.join(", ")) };
    let cpu_bound = if value("limit_use") < LIMIT_USE_LOW { " (not limited by the disks)" } else { "" };
    format!(
        "block {} {:28} {:6.1} MB/s, limit used {:.2}{cpu_bound}, CPU wait {:.0} %, {:.0} s{voided}",
        sample.block,
        sample.cell,
        value("mb_per_s"),
        value("limit_use"),
        value("cpu_wait_percent"),
        sample.seconds
    )
}

fn ratios(samples: &[Sample]) -> Vec<Ratio> {
    let value = |cell: &str, block: u32| {
        let sample = samples.iter().find(|sample| sample.cell == cell && sample.block == block)?;
        sample.values.get("mb_per_s").copied().filter(|_| sample.is_valid())
    };
    let blocks = samples.iter().map(|sample| sample.block + 1).max().unwrap_or(0);
    let ratio = |(numerator, denominator): (&str, &str)| Ratio {
        numerator: numerator.to_owned(),
        denominator: denominator.to_owned(),
        values: (0..blocks)
            .filter_map(|block| {
                Some(value(numerator, block)? / value(denominator, block).filter(|v| *v > 0.0)?)
            })
            .collect(),
    };
    comparisons().into_iter().map(ratio).filter(|ratio| !ratio.values.is_empty()).collect()
}

fn write(file: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::internal("cannot encode a result").with_source(e))?;
    fs::write(file, text).map_err(|e| io(e, "cannot write", file))
}

/// The middle of `values`; none of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests;
