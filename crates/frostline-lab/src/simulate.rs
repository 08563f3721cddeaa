//! A closed loop over a stack of volumes in virtual time: hours of volume time in milliseconds.
//!
//! [`simulate`] keeps a [`Job`]'s requests outstanding against a [`Stack`]: a file system, over a stripe, over
//! volumes, under the cap of a machine, with an optional cache. Between two changes of regime (a bucket runs
//! empty) the rates are steady, so after some thousand requests the simulator jumps to just before
//! the next change instead of simulating every request. The same arguments give the same answer.
//!
//! `docs/lab/model.md` lists what the file system models omit.

mod closed_loop;
mod pool;

use frostline_base::{Error, Result};
use frostline_model::catalogue::Catalogue;
use frostline_model::{Balance, VolumeSpec};
use serde::{Deserialize, Serialize};

use closed_loop::ClosedLoop;
use pool::Pool;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Seconds between two transaction groups of OpenZFS, its default.
const ZFS_GROUP_S: f64 = 5.0;
/// Bytes that OpenZFS writes for one I/O unit of a volume: fitted to the run of `docs/studies/warm-tier-zfs.md`.
const ZFS_GATHERED_BYTES: u64 = 64 * KIB;
/// Requests of a transaction group to each volume beside the data: fitted to the same.
const ZFS_GROUP_REQUESTS: f64 = 1.0;

/// What a file system does to requests on their way to the stripe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileSystem {
    /// Its name.
    pub name: String,
    /// Data is read in whole records of this size; absent where exactly what is requested is read.
    pub record_bytes: Option<u64>,
    /// Whether records are stored compressed, by the job's ratio.
    pub compress: bool,
    /// Whether a write of part of a record reads the record first.
    pub read_modify_write: bool,
    /// Writes are gathered into sequential ones of this size; absent where each goes to its place.
    pub aggregate_bytes: Option<u64>,
    /// Whether each record has a place of its own, as after it was rewritten alone: neighbours in a file are read by
    /// requests of their own, to any volume.
    pub scattered: bool,
    /// What every volume writes in each interval beside data.
    pub group: Option<Group>,
    /// Whether a submission blocks until it is done, so that each thread of the job has one outstanding however
    /// deep its queue: `libaio` over buffered I/O (fio's manual; ZFS up to 2.2 serves O_DIRECT from its cache).
    pub blocking: bool,
}

/// What a transaction group writes beside the data: trees, maps of space, and its root.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Seconds between two.
    pub every_s: f64,
    /// Requests of at most an I/O unit to each volume.
    pub requests: f64,
}

impl FileSystem {
    /// ext4 with direct I/O, or a raw device: requests go where they are sent.
    pub fn ext4() -> FileSystem {
        FileSystem {
            name: "ext4".to_owned(),
            record_bytes: None,
            compress: false,
            read_modify_write: false,
            aggregate_bytes: None,
            scattered: false,
            group: None,
            blocking: false,
        }
    }

    /// XFS with direct I/O; in this model the same as ext4.
    pub fn xfs() -> FileSystem {
        FileSystem { name: "xfs".to_owned(), ..Self::ext4() }
    }

    /// OpenZFS up to 2.2, where direct I/O is accepted and ignored.
    pub fn zfs(record_bytes: u64, compress: bool) -> FileSystem {
        FileSystem {
            name: "zfs".to_owned(),
            record_bytes: Some(record_bytes),
            compress,
            read_modify_write: true,
            // The default of zfs_vdev_aggregation_limit.
            aggregate_bytes: Some(MIB),
            scattered: false,
            group: None,
            blocking: true,
        }
    }

    /// OpenZFS 2.1 with two numbers for its writes: how far they are gathered, and what its transaction groups cost.
    ///
    /// `scattered` where records were rewritten alone since they were laid out.
    pub fn zfs_measured(record_bytes: u64, compress: bool, scattered: bool) -> FileSystem {
        FileSystem {
            name: if scattered { "zfs-aged" } else { "zfs-fresh" }.to_owned(),
            aggregate_bytes: Some(ZFS_GATHERED_BYTES),
            scattered,
            group: Some(Group { every_s: ZFS_GROUP_S, requests: ZFS_GROUP_REQUESTS }),
            ..Self::zfs(record_bytes, compress)
        }
    }

    /// btrfs: with compression data is buffered and stored in extents of 128 KiB, without (and without data
    /// checksums) direct I/O goes through.
    pub fn btrfs(compress: bool) -> FileSystem {
        FileSystem {
            name: "btrfs".to_owned(),
            record_bytes: compress.then_some(128 * KIB),
            compress,
            read_modify_write: false,
            aggregate_bytes: compress.then_some(MIB),
            scattered: false,
            group: None,
            blocking: compress,
        }
    }
}

/// A cache that serves part of the reads: the ARC, or the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// Its size.
    pub bytes: u64,
    /// How long a hit takes, ms.
    pub hit_ms: f64,
}

/// What serves the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// The file system.
    pub file_system: FileSystem,
    /// Each volume of the stripe.
    pub volume: VolumeSpec,
    /// Volumes in the stripe.
    pub count: u32,
    /// Bytes that stay on one volume.
    pub chunk_bytes: u64,
    /// Type of the machine, if its cap counts.
    pub instance: Option<String>,
    /// A warm cache, if there is one.
    pub cache: Option<Cache>,
    /// Latency of each request below the limits, ms. The vendor documents none for st1 and sc1, so it is 0
    /// unless somebody measured one.
    pub latency_ms: f64,
    /// What the volumes' buckets hold at the start.
    pub start: Balance,
    /// Divides the buckets; 1 is real.
    pub time_scale: f64,
    /// Divides the rates and the buckets; 1 is real.
    pub slowed: f64,
}

impl Stack {
    /// `count` volumes of `volume` under `file_system`, full buckets, no machine, no cache, 1 MiB chunks.
    pub fn new(file_system: FileSystem, volume: VolumeSpec, count: u32) -> Stack {
        Stack {
            file_system,
            volume,
            count,
            chunk_bytes: MIB,
            instance: None,
            cache: None,
            latency_ms: 0.0,
            start: Balance::Full,
            time_scale: 1.0,
            slowed: 1.0,
        }
    }
}

/// What is asked of it: as fio would, with a fixed number outstanding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Reads in a hundred requests; the others write.
    pub read_percent: f64,
    /// Size of each request.
    pub block_bytes: u64,
    /// Requests outstanding over all threads.
    pub outstanding: u32,
    /// Threads, which is what is outstanding where submissions block.
    pub threads: u32,
    /// Whether each thread goes through its own part in order; otherwise places are random.
    pub sequential: bool,
    /// Bytes over compressed bytes of the data, 1 for random data.
    pub compression_ratio: f64,
    /// The bytes that places are chosen from.
    pub set_bytes: u64,
}

/// One minute of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Where it begins, seconds.
    pub at_s: f64,
    /// What the job got in it.
    pub mib_per_s: f64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What the job got over the whole run.
    pub mib_per_s: f64,
    /// The same in requests.
    pub iops: f64,
    /// Median latency, ms.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// MiB/s at the volumes, if a file system reads and writes more or less than requested.
    pub device_mib_per_s: f64,
    /// I/O units a second that the volumes charged.
    pub device_units_per_s: f64,
    /// Seconds until the first volume's bucket was empty, in this run or if it continued; absent if never.
    pub drained_after_s: Option<f64>,
    /// Seconds until the machine's maximum was used up; absent if never.
    pub instance_drained_after_s: Option<f64>,
    /// MiB/s that the job gets when every bucket that runs empty has.
    pub drained_mib_per_s: f64,
    /// Requests that were really outstanding.
    pub outstanding: u32,
    /// Part of the reads that the cache served.
    pub cache_hit_part: f64,
    /// Minute by minute.
    pub series: Vec<Point>,
    /// Requests that were played one by one, which is what the simulation costs; the others were jumped over.
    pub played: u64,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Runs `job` on `stack` for `seconds` of virtual time.
///
/// # Errors
///
/// As [`VolumeSpec::limits`]; `Invalid` for a stack or a job that makes no sense.
pub fn simulate(catalogue: &Catalogue, stack: &Stack, job: &Job, seconds: f64, seed: u64) -> Result<Outcome> {
    let (mut run, mut outcome) = begun(catalogue, stack, job, seconds, seed)?;
    let drained = run.run_until_steady();
    outcome.drained_mib_per_s = drained.mib_per_s;
    outcome.played = drained.played;
    outcome.drained_after_s = drained.volumes_after_s;
    outcome.instance_drained_after_s = drained.instance_after_s;
    outcome.notes = notes(stack, job);
    Ok(outcome)
}

/// The same without what comes after those seconds: quick, for runs in which no bucket empties.
///
/// # Errors
///
/// As [`simulate`].
pub fn simulate_only(
    catalogue: &Catalogue,
    stack: &Stack,
    job: &Job,
    seconds: f64,
    seed: u64,
) -> Result<Outcome> {
    Ok(begun(catalogue, stack, job, seconds, seed)?.1)
}

fn begun<'a>(
    catalogue: &Catalogue,
    stack: &'a Stack,
    job: &'a Job,
    seconds: f64,
    seed: u64,
) -> Result<(ClosedLoop<'a>, Outcome)> {
    check(stack, job, seconds)?;
    let mut run = ClosedLoop::new(Pool::new(catalogue, stack)?, stack, job, seed);
    run.run_until(seconds);
    let outcome = run.outcome(seconds);
    Ok((run, outcome))
}

fn check(stack: &Stack, job: &Job, seconds: f64) -> Result<()> {
    let record = stack.file_system.record_bytes.unwrap_or(1);
    let rules = [
        (stack.count > 0, "a stack needs at least one volume"),
        (stack.chunk_bytes > 0 && record > 0, "chunks and records have at least one byte"),
        (stack.file_system.aggregate_bytes != Some(0), "writes are gathered into at least one byte"),
        (stack.latency_ms >= 0.0 && stack.latency_ms.is_finite(), "a latency is a number of ms from 0 up"),
        (
            stack.cache.is_none_or(|cache| cache.hit_ms > 0.0 && cache.hit_ms.is_finite()),
            "a hit of the cache takes more than 0 ms",
        ),
        ((0.0..=100.0).contains(&job.read_percent), "reads are 0 to 100 in a hundred"),
        (job.block_bytes > 0 && job.set_bytes >= job.block_bytes, "the set holds at least one block"),
        (job.outstanding > 0 && job.threads > 0, "a job has at least one request outstanding"),
        (
            job.compression_ratio >= 1.0 && job.compression_ratio.is_finite(),
            "a compression ratio is from 1 up",
        ),
        (seconds > 0.0 && seconds.is_finite(), "a run has more than 0 seconds"),
    ];
    match rules.into_iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(Error::invalid(rule)),
        None => Ok(()),
    }
}

fn notes(stack: &Stack, job: &Job) -> Vec<String> {
    let mut notes = Vec::new();
    if matches!(stack.start, Balance::Full) && ["st1", "sc1"].contains(&stack.volume.class.as_str()) {
        notes.push(
            "Buckets are taken as full at the start; for st1 and sc1 that is not documented.".to_owned(),
        );
    }
    if stack.latency_ms == 0.0 {
        notes.push(
            "Latency below the limits is taken as 0: what few outstanding requests get is too much."
                .to_owned(),
        );
    }
    if stack.file_system.blocking && job.outstanding > job.threads {
        notes.push(format!(
            "{} blocks on submission, so {} requests are outstanding, not {}.",
            stack.file_system.name, job.threads, job.outstanding
        ));
    }
    if stack.time_scale != 1.0 {
        notes.push(format!("Buckets are divided by {}.", stack.time_scale));
    }
    notes
}

#[cfg(test)]
mod tests;
