//! File systems in a guest that are kept for all cells of a run: OpenZFS pools and ext4 over emulated volumes.
//!
//! A [`Kept`] file system is made once, and each [`Data`] set in it is laid out once, without limits. A sample then
//! only runs fio there and reads the counters, so that cells can take turns in any order. Scripts and parsers;
//! nothing here runs anything.

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::storage::{Stack, device};

/// Processes of the job, as published. OpenZFS before 2.3 takes the requests of each one at a time.
pub const JOBS: u32 = 16;
/// Requests of each in flight: 64 together keep eight volumes busy, and a slowed volume is soon done with what is left
/// when the time is up; the published 1,024 would take it half a minute.
const DEPTH: u32 = 4;
/// Files of a data set, and MiB of each.
const FILES: u32 = 16;
const FILE_MIB: u32 = 16;
/// Bytes that OpenZFS lets be dirty. By default a tenth of memory, and it would be minutes until slowed volumes are written to as fast
/// as the job writes; the published runs lasted ten minutes. It closes a transaction group at a fifth of this, so that one
/// also has few of the records that are written in random order, and hardly any neighbours: it puts those of one group in the
/// order of the file.
const DIRTY_BYTES: u64 = 16 << 20;
/// Bytes of a data set.
pub const DATA_BYTES: u64 = (FILES as u64 * FILE_MIB as u64) << 20;
/// Seconds before a sample in which the job already runs: as long as OpenZFS lets pass between two transaction groups.
pub const RAMP_S: u64 = 5;
/// What OpenZFS may cache, MiB: a quarter of a data set, and the least that it takes. A sample begins with nothing cached.
const ARC_MIB: u32 = 64;

/// A file system that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// Its name, and that of its folder below `/mnt`.
    pub name: String,
    /// ext4 on one disk, or an OpenZFS pool of several.
    pub stack: Stack,
    /// Serial numbers of its disks.
    pub volumes: Vec<String>,
}

/// A set of files in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Data {
    /// OpenZFS' recordsize, KiB.
    pub record_kib: u32,
    /// `off` or `lz4`.
    pub compression: String,
    /// How much of the data compresses away, percent.
    pub compressible_percent: u32,
    /// Whether records lie in random order, as after each was rewritten.
    pub aged: bool,
}

impl Kept {
    /// Makes it, on disks whose content is lost.
    ///
    /// # Errors
    ///
    /// `Invalid` for a stack that cannot be kept.
    pub fn make(&self) -> Result<String> {
        let disks: Vec<String> = self.volumes.iter().map(|serial| device(serial)).collect();
        let (name, all) = (&self.name, disks.join(" "));
        // Cloud volumes are NVMe disks, which say that they do not rotate, whatever is behind them. OpenZFS joins
        // neighbouring requests up to 128 KiB there, and up to 1 MiB on disks that rotate.
        let quiet = format!(
            "mkdir -p /mnt/{name}\nfor disk in {all}; do wipefs -qa $disk\n\
             echo 0 >/sys/block/$(basename $(readlink -f $disk))/queue/rotational; done\n"
        );
        match self.stack {
            Stack::Ext4 if disks.len() == 1 => Ok(format!(
                "{quiet}mkfs.ext4 -q -F -i 1048576 -J size=32 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 {all}\n\
                 mount -o noatime {all} /mnt/{name}\n"
            )),
            Stack::Zfs => Ok(format!(
                "{quiet}modprobe zfs\ncd /sys/module/zfs/parameters\necho {arc} >zfs_arc_max\n\
                 echo {DIRTY_BYTES} >zfs_dirty_data_max\n\
                 zpool create -f -o ashift=12 -O atime=off -O xattr=sa -O mountpoint=none {name} {all}\n",
                arc = u64::from(ARC_MIB) << 20
            )),
            other => Err(Error::invalid(format!("{other} on {} disks is not kept for cells", disks.len()))),
        }
    }

    fn folder(&self, data: &Data) -> String {
        format!("/mnt/{}/{}", self.name, data.name())
    }

    /// Makes a data set and lays it out, file after file, or, if it is to be as after long use, record after record in random
    /// order: OpenZFS puts each where it is next, as it does when they are rewritten.
    pub fn lay_out(&self, data: &Data) -> String {
        let (folder, name) = (self.folder(data), &self.name);
        let set = format!("{name}/{}", data.name());
        // What does not compress is stored as it is either way, and trying takes an emulated CPU long.
        let compression = if data.compressible_percent == 0 { "off" } else { data.compression.as_str() };
        let (make, done) = match self.stack {
            Stack::Zfs => (
                format!(
                    "zfs create -o recordsize={}K -o compression={compression} -o mountpoint={folder} {set}\n",
                    data.record_kib
                ),
                format!("zfs set compression={} {set}\n", data.compression),
            ),
            _ => (format!("mkdir -p {folder}\n"), String::new()),
        };
        let how = match data.aged {
            true => format!("--rw=randwrite --file_service_type=random --bs={}k", data.record_kib),
            false => "--rw=write --file_service_type=sequential --bs=1M".to_owned(),
        };
        format!(
            "{make}cd {folder}\nfio --name=fill --filename={} {how} --size={}M --ioengine=psync --fallocate=none{} \
             --end_fsync=1 >/dev/null\n{done}{}",
            files(),
            FILE_MIB * FILES,
            compressible(data.compressible_percent),
            self.settle()
        )
    }

    /// Writes out what is still in memory.
    pub fn settle(&self) -> String {
        match self.stack {
            Stack::Zfs => format!("zpool sync {}\n", self.name),
            _ => "sync\n".to_owned(),
        }
    }

    /// What must be before a sample: nothing left to write, and nothing cached.
    pub fn ready(&self) -> String {
        format!("{}echo 3 >/proc/sys/vm/drop_caches\n", self.settle())
    }

    /// The sample. Prints what [`Said::parse`] reads.
    pub fn sample(&self, data: &Data, block_kib: u32, seconds: u64, seed: u64) -> String {
        let fio = format!(
            "fio --name=cell --directory={} --filename={} --file_service_type=random --output-format=json --rw=randrw \
             --rwmixread=75 --bs={block_kib}k --iodepth={DEPTH} --numjobs={JOBS} --ioengine=libaio --direct=1 --size={}M \
             --group_reporting --fallocate=none --norandommap --randrepeat=0 --randseed={seed}{} --time_based \
             --runtime={seconds} --ramp_time={RAMP_S} --write_lat_log=/tmp/sample --per_job_logs=0",
            self.folder(data),
            files(),
            FILE_MIB * FILES,
            compressible(data.compressible_percent)
        );
        format!(
            "marks() {{ head -n 1 /proc/stat\n\
             sed -n 's/^demand_data_\\(hits\\|misses\\) .* /\\1 /p' /proc/spl/kstat/zfs/arcstats 2>/dev/null || true; }}\n\
             rm -f /tmp/sample*\nbefore=$(marks)\n\
             fio=$({fio})\nafter=$(marks)\n\
             echo \"$before\"; echo +++; echo \"$after\"; echo +++; echo \"$fio\"; echo +++; cut -d, -f1 /tmp/sample_lat*.log; echo +++\n\
             {}",
            self.describe(data)
        )
    }

    /// How it is made, in the words of its own tools, for the record.
    fn describe(&self, data: &Data) -> String {
        match self.stack {
            Stack::Zfs => format!(
                "zfs get -H -o property,value recordsize,compression,compressratio,used {0}/{1}\n\
                 zpool list -H -o name,size,alloc,frag {0}\n",
                self.name,
                data.name()
            ),
            _ => format!("grep ' /mnt/{} ' /proc/mounts\n", self.name),
        }
    }
}

/// What a sample printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// fio's JSON.
    pub fio: String,
    /// The job's requests in each second.
    pub by_second: Vec<f64>,
    /// The part of the time in which the guest's CPUs were not idle.
    pub busy: f64,
    /// The part of reads of data that OpenZFS' cache answered; none without such reads.
    pub arc_hit_rate: Option<f64>,
    /// How it is made.
    pub described: String,
}

impl Said {
    /// Reads what the script of a sample prints.
    ///
    /// # Errors
    ///
    /// `Corrupt` if a part is missing.
    pub fn parse(text: &str) -> Result<Said> {
        let parts: Vec<&str> = text.split("+++\n").collect();
        let [before, after, fio, log, described] = parts.as_slice() else {
            return Err(Error::corrupt(format!("a sample printed {} parts, not 5", parts.len())));
        };
        let busy = busy_part(before, after).ok_or_else(|| Error::corrupt("no line of /proc/stat"))?;
        Ok(Said {
            fio: (*fio).to_owned(),
            by_second: seconds_of_log(log),
            busy,
            arc_hit_rate: hit_rate(before, after),
            described: (*described).to_owned(),
        })
    }
}

/// The part of the time in which the guest's CPUs were not idle, between two lines `cpu …` of /proc/stat.
fn busy_part(before: &str, after: &str) -> Option<f64> {
    let times = |text: &str| -> Option<(f64, f64)> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let all: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; guests are counted in user.
        Some((all.get(3)? + all.get(4)?, all.iter().take(8).sum()))
    };
    let ((idle, all), (idle_then, all_then)) = (times(after)?, times(before)?);
    (all > all_then).then(|| 1.0 - (idle - idle_then) / (all - all_then))
}

fn hit_rate(before: &str, after: &str) -> Option<f64> {
    let of = |text: &str, name: &str| -> Option<f64> {
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    let since = |name: &str| Some(of(after, name)? - of(before, name)?);
    let (hits, misses) = (since("hits ")?, since("misses ")?);
    (hits + misses > 0.0).then(|| hits / (hits + misses))
}

impl Data {
    /// Its name below the file system's.
    pub fn name(&self) -> String {
        let age = if self.aged { "aged" } else { "fresh" };
        format!("r{}-{}-c{}-{age}", self.record_kib, self.compression, self.compressible_percent)
    }
}

/// All files of a set, for fio: every process uses all of them. With a file of its own, a process whose file happens to be in the
/// cache would race ahead of the others, and so keep it there.
fn files() -> String {
    (0..FILES).map(|at| format!("f.{at}")).collect::<Vec<_>>().join(":")
}

/// fio's options for data of which so much compresses away.
fn compressible(percent: u32) -> String {
    match percent {
        0 => String::new(),
        percent => format!(" --buffer_compress_percentage={percent} --buffer_compress_chunk=4096"),
    }
}

/// The requests in each second, from the milliseconds at which each was done.
///
/// The first two and the last two, in which not every process is counted, are left out.
fn seconds_of_log(text: &str) -> Vec<f64> {
    let seconds: Vec<usize> =
        text.lines().filter_map(|line| Some(line.trim().parse::<usize>().ok()? / 1000)).collect();
    let Some((first, last)) = seconds.iter().min().zip(seconds.iter().max()) else { return Vec::new() };
    // More than a day is not of a sample.
    if last - first > 86_400 {
        return Vec::new();
    }
    let mut counts = vec![0.0; last - first + 1];
    seconds.iter().for_each(|second| counts[second - first] += 1.0);
    counts.get(2..counts.len().saturating_sub(2)).unwrap_or_default().to_vec()
}

/// The 95 % interval of the mean of a series whose neighbours are alike: of the means of four stretches of it, each as long as
/// a transaction group or longer. Nothing if the stretches were shorter than three values.
pub fn interval_of_means(values: &[f64]) -> Option<(f64, f64)> {
    const STRETCHES: usize = 4;
    /// Student's t for 95 % and three degrees of freedom.
    const T: f64 = 3.182;
    let length = values.len() / STRETCHES;
    if length < 3 {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let means: Vec<f64> = values.chunks_exact(length).take(STRETCHES).map(mean).collect();
    let centre = mean(&means);
    let variance = means.iter().map(|m| (m - centre).powi(2)).sum::<f64>() / (STRETCHES - 1) as f64;
    let half = T * (variance / STRETCHES as f64).sqrt();
    Some(((centre - half).max(0.0), centre + half))
}

#[cfg(test)]
mod tests;
