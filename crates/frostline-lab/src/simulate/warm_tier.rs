//! The warm tier study in the model: its stacks, its job, and the model's answers to its questions.
//!
//! The study ran 72 cells of OpenZFS 2.2.2 over 1 x 8, 2 x 4, 4 x 2 and 8 x 1 TiB of st1, and ext4 on one volume of
//! 8 TiB, with one fio line.

use frostline_base::{Error, Result};
use frostline_model::catalogue::Catalogue;
use frostline_model::{Instance, VolumeSpec, best_count};
use serde::{Deserialize, Serialize};

use super::{Cache, FileSystem, GIB, Job, KIB, Stack, simulate, simulate_only};

/// Ten minutes, as published.
pub const SECONDS: f64 = 600.0;
/// Block sizes of the study, KiB.
pub const BLOCK_KIB: [u64; 6] = [16, 32, 64, 128, 256, 512];
/// Record sizes of the study, KiB.
pub const RECORD_KIB: [u64; 3] = [32, 64, 128];
/// Volumes of the study's stripes; together 8 TiB.
pub const COUNTS: [u32; 4] = [1, 2, 4, 8];
/// Space of every stripe, GiB.
pub const TOTAL_GIB: f64 = 8192.0;

/// The study's fio line: 16 threads of depth 64 over 10 GiB each, 75 % random reads, random data.
pub fn job(block_kib: u64) -> Job {
    Job {
        read_percent: 75.0,
        block_bytes: block_kib * KIB,
        outstanding: 16 * 64,
        threads: 16,
        sequential: false,
        compression_ratio: 1.0,
        set_bytes: 160 * GIB,
    }
}

/// `total_gib` of `class` in `count` volumes under `file_system`.
pub fn stack(file_system: FileSystem, class: &str, total_gib: f64, count: u32) -> Stack {
    Stack::new(file_system, VolumeSpec::new(class, total_gib / f64::from(count)), count)
}

/// What the model answers, as numbers; [`Answers::lines`] says them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    /// 4 x 2 TiB over 1 x 8 TiB of st1 at 128 KiB random, full buckets, at the device.
    pub burst_ratio: f64,
    /// The same with empty buckets.
    pub drained_ratio: f64,
    /// Least number of volumes with the greatest burst for 8 TiB of st1.
    pub st1_best_count: u32,
    /// The same for sc1, the question that the study left open.
    pub sc1_best_count: u32,
    /// MiB/s of that burst of sc1.
    pub sc1_best_mib_per_s: f64,
    /// Minutes until 4 x 2 TiB of st1 fall from a full bucket to the base; absent if never.
    pub burst_minutes: Option<f64>,
    /// Hours for which 1 x 8 TiB holds its burst; absent if sustained.
    pub single_burst_hours: Option<f64>,
    /// The most that a stripe can do over one volume's burst at 128 KiB on the machine that the warm tier runs on,
    /// after the machine's 30 minutes.
    pub instance_ratio: f64,
    /// That machine.
    pub instance: String,
    /// MiB/s that it sustains.
    pub instance_mib_per_s: f64,
    /// What 64 GiB of ARC over the 160 GiB set do to the job's MiB/s, as a factor, at equal volumes.
    pub arc_factor: f64,
    /// OpenZFS (128k, no ARC) on 4 x 2 TiB over ext4 on 1 x 8 TiB, mean over the block sizes, without device latency.
    pub zfs_over_ext4: f64,
    /// The same with [`ASSUMED_LATENCY_MS`] on every request.
    pub zfs_over_ext4_at_latency: f64,
    /// The same without that, with aged records and the numbers that were fitted to measured cells.
    pub aged_over_ext4: f64,
    /// 8 x 1 TiB over 4 x 2 TiB of that OpenZFS, mean over the block sizes.
    pub aged_eight_over_four: f64,
    /// Its records of 128k over those of 32k on 4 x 2 TiB, mean over the block sizes.
    pub aged_128_over_32: f64,
}

/// Latency of an st1 request that the limits do not hold back, ms: an assumption, none is documented.
pub const ASSUMED_LATENCY_MS: f64 = 10.0;

/// Asks the model the study's questions.
///
/// # Errors
///
/// `NotFound` or `Invalid` if the catalogue lacks st1, sc1 or r7g.xlarge.
pub fn answers(catalogue: &Catalogue) -> Result<Answers> {
    const INSTANCE: &str = "r7g.xlarge";
    let run = |stack: &Stack, kib: u64| simulate(catalogue, stack, &job(kib), SECONDS, 1);
    let four = stack(FileSystem::ext4(), "st1", TOTAL_GIB, 4);
    let one = stack(FileSystem::ext4(), "st1", TOTAL_GIB, 1);
    let (of_four, of_one) = (run(&four, 128)?, run(&one, 128)?);

    let machine = Instance::new(catalogue, INSTANCE, 1.0)?;
    let cached = Stack { cache: Some(Cache { bytes: 64 * GIB, hit_ms: 0.05 }), ..four.clone() };
    let mean = |ratio: &dyn Fn(u64) -> Result<f64>| {
        let ratios = BLOCK_KIB.into_iter().map(ratio).collect::<Result<Vec<f64>>>()?;
        Ok::<f64, Error>(ratios.iter().sum::<f64>() / ratios.len() as f64)
    };
    let zfs_over_ext4 = |latency_ms: f64| {
        let ratio = |kib| {
            let zfs = stack(FileSystem::zfs(128 * KIB, true), "st1", TOTAL_GIB, 4);
            let zfs = run(&Stack { latency_ms, ..zfs }, kib)?.mib_per_s;
            Ok(zfs / run(&Stack { latency_ms, ..one.clone() }, kib)?.mib_per_s)
        };
        mean(&ratio)
    };
    let aged = |record: u64, count: u32, kib: u64| {
        let zfs = FileSystem::zfs_measured(record * KIB, true, true);
        let stack = stack(zfs, "st1", TOTAL_GIB, count);
        Ok::<f64, Error>(simulate_only(catalogue, &stack, &job(kib), SECONDS, 1)?.mib_per_s)
    };
    let best = |class| best_count(catalogue, class, TOTAL_GIB, 16).unwrap_or((0, 0.0));
    Ok(Answers {
        burst_ratio: of_four.mib_per_s / of_one.mib_per_s,
        drained_ratio: of_four.drained_mib_per_s / of_one.drained_mib_per_s,
        st1_best_count: best("st1").0,
        sc1_best_count: best("sc1").0,
        sc1_best_mib_per_s: best("sc1").1,
        burst_minutes: of_four.drained_after_s.map(|seconds| seconds / 60.0),
        single_burst_hours: of_one.drained_after_s.map(|seconds| seconds / 3600.0),
        instance_ratio: of_four.mib_per_s.min(machine.base_mib_per_s()) / of_one.mib_per_s,
        instance: INSTANCE.to_owned(),
        instance_mib_per_s: machine.base_mib_per_s(),
        arc_factor: run(&cached, 128)?.mib_per_s / of_four.mib_per_s,
        zfs_over_ext4: zfs_over_ext4(0.0)?,
        zfs_over_ext4_at_latency: zfs_over_ext4(ASSUMED_LATENCY_MS)?,
        aged_over_ext4: mean(&|kib| Ok(aged(128, 4, kib)? / run(&one, kib)?.mib_per_s))?,
        aged_eight_over_four: mean(&|kib| Ok(aged(128, 8, kib)? / aged(128, 4, kib)?))?,
        aged_128_over_32: mean(&|kib| Ok(aged(128, 4, kib)? / aged(32, 4, kib)?))?,
    })
}

impl Answers {
    /// The answers as sentences.
    pub fn lines(&self) -> Vec<String> {
        vec![
            format!(
                "The plateau is a formula: burst is 250 MiB/s per TiB up to 500 a volume, so 8 TiB of st1 gain nothing beyond {} volumes.",
                self.st1_best_count
            ),
            format!(
                "At the device 4 x 2 TiB do {:.2} times 1 x 8 TiB while credits last and {:.2} times after.",
                self.burst_ratio, self.drained_ratio
            ),
            format!(
                "A full bucket lasts {} on 4 x 2 TiB and {} on 1 x 8 TiB: ten-minute runs see the burst only. That new st1 volumes start full is not documented.",
                or_sustained(self.burst_minutes, "minutes"),
                or_sustained(self.single_burst_hours, "hours")
            ),
            format!(
                "{} holds {:.0} MiB/s after 30 minutes a day: {:.2} times one volume's burst at 128 KiB is the most, whatever the stripe.",
                self.instance, self.instance_mib_per_s, self.instance_ratio
            ),
            format!(
                "64 GiB of ARC over the 160 GiB set alone make {:.2} times; direct I/O on ext4 got no cache.",
                self.arc_factor
            ),
            format!(
                "OpenZFS 2.2 blocks on submission, so the job's 1,024 outstanding requests are 16 there: 128k, no ARC, on 4 x 2 TiB does {:.1} times ext4 on 1 x 8 TiB on average without device latency, {:.1} times with {ASSUMED_LATENCY_MS} ms (assumed; published: 2.7).",
                self.zfs_over_ext4, self.zfs_over_ext4_at_latency
            ),
            format!(
                "With aged records, without ARC: {:.1} times ext4 on 1 x 8 TiB on average; 8 volumes do {:.2} times 4; records of 128k do {:.2} times those of 32k.",
                self.aged_over_ext4, self.aged_eight_over_four, self.aged_128_over_32
            ),
            format!(
                "sc1: {} volumes are the best for 8 TiB, {:.0} MiB/s; more add nothing.",
                self.sc1_best_count, self.sc1_best_mib_per_s
            ),
        ]
    }
}

fn or_sustained(length: Option<f64>, unit: &str) -> String {
    length.map_or_else(|| "sustained".to_owned(), |length| format!("{length:.1} {unit}"))
}
