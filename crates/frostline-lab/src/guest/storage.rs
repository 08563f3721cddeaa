//! Storage stacks in a guest: scripts for the guest's shell, and parsers of
//! their output.
//!
//! Every stack is mounted on [`MOUNT`] and called [`NAME`], one at a time. Disks are named by their serial
//! numbers. Nothing here runs anything: [`super::cells`] does.

use std::collections::BTreeMap;
use std::str::FromStr;

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where a stack is mounted inside.
pub const MOUNT: &str = "/mnt/cell";
/// What a pool, a volume group or an array is called.
pub const NAME: &str = "cell";

/// Bytes that /proc/diskstats counts as one sector, whatever the disk's own are.
const SECTOR_BYTES: u64 = 512;
/// Chunk of md and LVM stripes, as the published record size.
const STRIPE_KIB: u32 = 128;

/// A file system over one disk or a stripe of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stack {
    /// ext4 on one disk.
    Ext4,
    /// XFS on one disk.
    Xfs,
    /// btrfs, data striped over all disks.
    Btrfs,
    /// An OpenZFS pool of all disks, each a top-level device.
    Zfs,
    /// ext4 on md RAID 0.
    MdExt4,
    /// XFS on md RAID 0.
    MdXfs,
    /// ext4 on a striped logical volume.
    LvmExt4,
    /// XFS on a striped logical volume.
    LvmXfs,
}

const STACKS: &[(&str, Stack)] = &[
    ("ext4", Stack::Ext4),
    ("xfs", Stack::Xfs),
    ("btrfs", Stack::Btrfs),
    ("zfs", Stack::Zfs),
    ("md-ext4", Stack::MdExt4),
    ("md-xfs", Stack::MdXfs),
    ("lvm-ext4", Stack::LvmExt4),
    ("lvm-xfs", Stack::LvmXfs),
];

impl FromStr for Stack {
    type Err = Error;

    fn from_str(text: &str) -> Result<Stack> {
        let found = STACKS.iter().find(|(name, _)| *name == text);
        found.map(|(_, stack)| *stack).ok_or_else(|| {
            let names: Vec<&str> = STACKS.iter().map(|(name, _)| *name).collect();
            Error::invalid(format!("no stack is called `{text}`; there are {}", names.join(", ")))
        })
    }
}

impl std::fmt::Display for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = STACKS.iter().find(|(_, stack)| stack == self).map_or("?", |(name, _)| name);
        f.write_str(name)
    }
}

/// What a stack is made with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// The stack.
    pub stack: Stack,
    /// Serial numbers of its disks.
    pub volumes: Vec<String>,
    /// OpenZFS' recordsize, KiB.
    pub record_kib: u32,
    /// `off`, `lz4`, `zstd` (OpenZFS, btrfs) or `lzo` (btrfs).
    pub compression: String,
    /// How much of memory OpenZFS may cache in.
    pub arc: Arc,
}

/// OpenZFS' cache. The others bypass the page cache with direct I/O, which OpenZFS before 2.3 ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arc {
    /// `primarycache=metadata`, and at most so many MiB: reads come from the disks.
    Pinned(u32),
    /// As installed: half of memory before 2.3, since then the larger of 5/8 of it and all but 1 GiB.
    Free,
}

impl Layout {
    /// Refuses what its tools would refuse.
    pub fn check(&self) -> Result<()> {
        let several = !matches!(self.stack, Stack::Ext4 | Stack::Xfs);
        if self.volumes.is_empty() || (self.volumes.len() > 1 && !several) {
            return Err(Error::invalid(format!("{} on {} disks", self.stack, self.volumes.len())));
        }
        let known: &[&str] = match self.stack {
            Stack::Zfs => &["off", "lz4", "zstd"],
            Stack::Btrfs => &["off", "lzo", "zstd"],
            _ => &["off"],
        };
        if !known.contains(&self.compression.as_str()) {
            return Err(Error::invalid(format!(
                "{} has no compression `{}`; there are {}",
                self.stack,
                self.compression,
                known.join(", ")
            )));
        }
        if self.stack == Stack::Zfs
            && !(self.record_kib.is_power_of_two() && (4..=1024).contains(&self.record_kib))
        {
            return Err(Error::invalid(format!(
                "a record of {} KiB; OpenZFS takes powers of two from 4 to 1024",
                self.record_kib
            )));
        }
        if !self.volumes.iter().all(|serial| serial.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')) {
            return Err(Error::invalid("the serial number of a disk is letters, digits and dashes"));
        }
        Ok(())
    }

    /// Makes and mounts it, on disks whose content is lost.
    pub fn make(&self) -> String {
        let disks: Vec<String> = self.volumes.iter().map(|serial| device(serial)).collect();
        let (disks, count) = (disks.join(" "), self.volumes.len());
        let wipe = format!("mkdir -p {MOUNT}\nfor disk in {disks}; do wipefs -qa $disk; done\n");
        let mount = |device: &str| format!("mount -o noatime {device} {MOUNT}\n");
        // Nothing is left to be initialised while somebody measures; few inodes, or that would take minutes.
        let ext4 = |device: &str| {
            let now = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
            format!("mkfs.ext4 -q -F -i 1048576 -J size=32 -E {now} {device}\n{}", mount(device))
        };
        let xfs = |device: &str| format!("mkfs.xfs -q -f -K {device}\n{}", mount(device));
        let md = format!(
            "mdadm --quiet --create /dev/md0 --run --level=0 --raid-devices={count} --chunk={STRIPE_KIB} \
             --force --metadata=1.2 {disks}\n"
        );
        let lvm = format!(
            "pvcreate -q -q -ffy {disks}\nvgcreate -q -q {NAME} {disks}\n\
             lvcreate -q -q -y -Wn -i {count} -I {STRIPE_KIB}k -l 100%FREE -n data {NAME}\n"
        );
        wipe + &match self.stack {
            Stack::Ext4 => ext4(&disks),
            Stack::Xfs => xfs(&disks),
            Stack::MdExt4 => md + &ext4("/dev/md0"),
            Stack::MdXfs => md + &xfs("/dev/md0"),
            Stack::LvmExt4 => lvm + &ext4("/dev/cell/data"),
            Stack::LvmXfs => lvm + &xfs("/dev/cell/data"),
            Stack::Btrfs => self.btrfs(&disks),
            Stack::Zfs => self.zpool(&disks),
        }
    }

    fn btrfs(&self, disks: &str) -> String {
        let profile = if self.volumes.len() > 1 { "-d raid0 -m raid1" } else { "-d single -m dup" };
        let compress = match self.compression.as_str() {
            "off" => String::new(),
            name => format!(",compress={name}"),
        };
        format!(
            "mkfs.btrfs -q -f -K {profile} {disks}\nbtrfs device scan >/dev/null\n\
             mount -o noatime{compress} {} {MOUNT}\n",
            device(&self.volumes[0])
        )
    }

    fn zpool(&self, disks: &str) -> String {
        let cache = if self.arc == Arc::Free { "all" } else { "metadata" };
        // ashift cannot be changed later, and virtio disks claim sectors of 512 bytes; 12 is what is advised for SSDs.
        format!(
            "modprobe zfs\n{}zpool create -f -o ashift=12 -O atime=off -O xattr=sa -O compression={} \
             -O recordsize={}K -O primarycache={cache} -m {MOUNT} {NAME} {disks}\n",
            self.arc.set(),
            self.compression,
            self.record_kib
        )
    }

    /// Empties every cache of what was written: a pool is exported and imported, others are unmounted.
    pub fn cool(&self) -> String {
        let again = match self.stack {
            // The labels are on the first partition of each disk.
            Stack::Zfs => format!("zpool export {NAME}\nzpool import -d /dev/disk/by-id {NAME}\n"),
            _ => format!(
                "source=$(findmnt -n -o SOURCE {MOUNT}) options=$(findmnt -n -o OPTIONS {MOUNT})\n\
                 umount {MOUNT}\nmount -o \"$options\" \"$source\" {MOUNT}\n"
            ),
        };
        format!("sync\n{again}echo 3 >/proc/sys/vm/drop_caches\n")
    }

    /// Takes it away, also what is left of one that was made only in part.
    pub fn remove(&self) -> String {
        let disks: Vec<String> = self.volumes.iter().map(|serial| device(serial)).collect();
        let stack = match self.stack {
            Stack::Zfs => format!("zpool destroy -f {NAME} 2>/dev/null"),
            Stack::MdExt4 | Stack::MdXfs => {
                format!(
                    "mdadm --quiet --stop /dev/md0 2>/dev/null; mdadm --quiet --zero-superblock {}",
                    disks.join(" ")
                )
            }
            Stack::LvmExt4 | Stack::LvmXfs => {
                format!("vgremove -q -q -ffy {NAME} 2>/dev/null; pvremove -q -q -ffy {}", disks.join(" "))
            }
            Stack::Ext4 | Stack::Xfs | Stack::Btrfs => "true".to_owned(),
        };
        format!(
            "! mountpoint -q {MOUNT} || umount {MOUNT}\n{stack}\n\
             for disk in {}; do wipefs -qa $disk; done 2>/dev/null\ntrue\n",
            disks.join(" ")
        )
    }

    /// How it is mounted or configured, in the words of its own tools, for the record.
    pub fn describe(&self) -> String {
        let more = match self.stack {
            Stack::Zfs => format!(
                "zfs get -H -o property,value,source recordsize,compression,compressratio,primarycache,atime {NAME}\n\
                 zpool list -v -H {NAME}\necho zfs_arc_max $(cat /sys/module/zfs/parameters/zfs_arc_max)\n"
            ),
            Stack::MdExt4 | Stack::MdXfs => "cat /proc/mdstat\n".to_owned(),
            Stack::LvmExt4 | Stack::LvmXfs => "lvs --noheadings -o +stripes,stripe_size\n".to_owned(),
            _ => String::new(),
        };
        format!("grep ' {MOUNT} ' /proc/mounts\n{more}")
    }
}

impl Arc {
    /// A module parameter that is 0 keeps what was set before, so the default is computed.
    fn set(self) -> String {
        let bytes = match self {
            Arc::Pinned(mib) => (u64::from(mib) << 20).to_string(),
            Arc::Free => "$free".to_owned(),
        };
        format!(
            "kib=$(sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo)\n\
             case $(cat /sys/module/zfs/version) in\n\
             0.*|2.[012].*) free=$((kib * 1024 / 2)) ;;\n\
             *) free=$((kib * 1024 / 8 * 5)); rest=$((kib * 1024 - (1 << 30)))\n\
             [ $rest -le $free ] || free=$rest ;;\nesac\n\
             echo {bytes} >/sys/module/zfs/parameters/zfs_arc_max\n"
        )
    }
}

/// A job of fio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What is done: `randrw`, `read`, `write` and so on.
    pub rw: String,
    /// Part of reads in a mix, percent.
    pub read_percent: u32,
    /// Size of a request, KiB.
    pub block_kib: u32,
    /// Requests of one process in flight.
    pub depth: u32,
    /// Processes, each with a file of its own.
    pub jobs: u32,
    /// fio's engine, such as `libaio`.
    pub engine: String,
    /// Whether O_DIRECT is requested.
    pub direct: bool,
    /// Size of each file, MiB.
    pub file_mib: u32,
    /// For how long, s; 0 goes once through the files.
    pub seconds: u64,
    /// How much of the data compresses away, percent.
    pub compressible_percent: u32,
    /// Of fio's offsets.
    pub seed: u64,
}

impl Job {
    /// Writes the files that a measurement then works on, with the same data.
    pub fn fill(&self) -> Job {
        let rw = "write".to_owned();
        Job { rw, block_kib: 1024, depth: 2, seconds: 0, ..self.clone() }
    }

    /// fio's command line. Its result is JSON on standard output.
    ///
    /// fio's defaults would deceive: preallocated files never compress on btrfs, buffers that are not
    /// filled again repeat, and all runs would visit the same offsets.
    pub fn command(&self) -> String {
        let compress = if self.compressible_percent > 0 {
            format!(
                " --buffer_compress_percentage={} --buffer_compress_chunk=4096",
                self.compressible_percent
            )
        } else {
            String::new()
        };
        let time = match self.seconds {
            0 => " --end_fsync=1".to_owned(),
            seconds => format!(" --time_based --runtime={seconds}"),
        };
        format!(
            "fio --name=cell --directory={MOUNT} --filename_format='f.$jobnum' --output-format=json \
             --rw={} --rwmixread={} --bs={}k --iodepth={} --numjobs={} --ioengine={} --direct={} --size={}M \
             --group_reporting --fallocate=none --refill_buffers{compress} --randrepeat=0 --randseed={}{time}",
            self.rw,
            self.read_percent,
            self.block_kib,
            self.depth,
            self.jobs,
            self.engine,
            u8::from(self.direct),
            self.file_mib,
            self.seed
        )
    }
}

/// What fio measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FioResult {
    /// Reads.
    pub read: Direction,
    /// Writes.
    pub write: Direction,
    /// How long its processes ran, s.
    pub seconds: f64,
}

/// One direction of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// Bytes that the job moved.
    pub bytes: u64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Requests a second.
    pub iops: f64,
    /// Median time to completion, ms; 0 if nothing was done or fio did not measure it.
    pub p50_ms: f64,
    /// 99 % were faster, ms.
    pub p99_ms: f64,
    /// 99.9 % were faster, ms.
    pub p999_ms: f64,
}

/// Reads fio's JSON, behind whatever it said before.
///
/// # Errors
///
/// `Corrupt` if there is none; `Unavailable` if fio reports an error of the job.
pub fn parse_fio(text: &str) -> Result<FioResult> {
    let start = text.find('{').unwrap_or(text.len());
    let json: Value = serde_json::from_str(&text[start..])
        .map_err(|e| Error::corrupt(format!("fio printed no JSON but `{}`", shown(text))).with_source(e))?;
    let job = &json["jobs"][0];
    match job["error"].as_i64() {
        Some(0) => {}
        Some(code) => return Err(Error::unavailable(format!("fio failed with error {code}"))),
        None => return Err(Error::corrupt("fio reports no job")),
    }
    let (read, write) = (direction(&job["read"]), direction(&job["write"]));
    let longest = ["read", "write"].map(|side| job[side]["runtime"].as_f64().unwrap_or(0.0));
    Ok(FioResult { read, write, seconds: longest[0].max(longest[1]) / 1000.0 })
}

fn direction(json: &Value) -> Direction {
    let number = |name: &str| json[name].as_f64().unwrap_or(0.0);
    let percentile = |name: &str| json["clat_ns"]["percentile"][name].as_f64().unwrap_or(0.0) / 1e6;
    Direction {
        bytes: json["io_bytes"].as_u64().unwrap_or(0),
        bytes_per_s: number("bw_bytes"),
        iops: number("iops"),
        p50_ms: percentile("50.000000"),
        p99_ms: percentile("99.000000"),
        p999_ms: percentile("99.900000"),
    }
}

/// What the counters of a guest are at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// By serial number.
    pub disks: BTreeMap<String, DiskCounters>,
    /// OpenZFS' arcstats, by name; empty without OpenZFS.
    pub arc: BTreeMap<String, u64>,
}

/// Lines of /proc/diskstats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCounters {
    /// Requests that read, after merging.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Requests that wrote, after merging.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// Prints what [`Counters::parse`] reads.
pub const COUNTERS: &str = "for disk in /sys/block/vd*; do echo \"serial ${disk##*/} $(cat $disk/serial)\"; done\n\
                            sed 's/^/disk /' /proc/diskstats\n\
                            sed -n '3,$ s/^/arc /p' /proc/spl/kstat/zfs/arcstats 2>/dev/null || true\n";

impl Counters {
    /// Reads what [`COUNTERS`] prints.
    ///
    /// # Errors
    ///
    /// `Corrupt` if there is no disk.
    pub fn parse(text: &str) -> Result<Counters> {
        let mut serials = BTreeMap::new();
        let mut counters = Counters::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["serial", name, serial] => {
                    serials.insert(*name, *serial);
                }
                ["disk", _, _, name, reads, _, read, _, writes, _, written, ..] => {
                    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
                    let Some(serial) = serials.get(name) else { continue };
                    let disk = DiskCounters {
                        reads: number(reads),
                        read_bytes: number(read) * SECTOR_BYTES,
                        writes: number(writes),
                        written_bytes: number(written) * SECTOR_BYTES,
                    };
                    counters.disks.insert((*serial).to_owned(), disk);
                }
                ["arc", name, _, value] => {
                    // Some are negative at times; none of those is used.
                    counters.arc.insert((*name).to_owned(), value.parse().unwrap_or(0));
                }
                _ => {}
            }
        }
        if counters.disks.is_empty() {
            return Err(Error::corrupt(format!("the guest shows no disks: `{}`", shown(text))));
        }
        Ok(counters)
    }

    /// What the disks of `volumes` have done since `before`.
    pub fn disks_since(&self, before: &Counters, volumes: &[String]) -> DiskCounters {
        let of =
            |counters: &Counters, serial: &String| counters.disks.get(serial).copied().unwrap_or_default();
        volumes.iter().fold(DiskCounters::default(), |sum, serial| {
            let (now, then) = (of(self, serial), of(before, serial));
            DiskCounters {
                reads: sum.reads + now.reads.saturating_sub(then.reads),
                read_bytes: sum.read_bytes + now.read_bytes.saturating_sub(then.read_bytes),
                writes: sum.writes + now.writes.saturating_sub(then.writes),
                written_bytes: sum.written_bytes + now.written_bytes.saturating_sub(then.written_bytes),
            }
        })
    }

    /// The part of reads of file data that OpenZFS' cache answered since `before`, 0 to 1; none if there
    /// were no such reads.
    pub fn arc_hit_rate_since(&self, before: &Counters) -> Option<f64> {
        let since = |name: &str| {
            let of = |counters: &Counters| counters.arc.get(name).copied().unwrap_or(0);
            of(self).saturating_sub(of(before)) as f64
        };
        let (hits, misses) = (since("demand_data_hits"), since("demand_data_misses"));
        (hits + misses > 0.0).then(|| hits / (hits + misses))
    }
}

pub(super) fn device(serial: &str) -> String {
    format!("/dev/disk/by-id/virtio-{serial}")
}

fn shown(text: &str) -> String {
    text.chars().take(120).collect()
}

#[cfg(test)]
mod tests;
