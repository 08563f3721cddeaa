//! Reads the host's description from /proc and /sys: the machine of a run, and what the gates compare before
//! and after each sample. Changes nothing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use frostline_base::{Error, Result};

use crate::record::Machine;

/// Bytes of the sectors that the kernel counts in, whatever the device's own are
/// (Documentation/block/stat.rst of Linux).
const SECTOR_BYTES: u64 = 512;

/// The machine that this runs on. What cannot be read is left empty.
pub fn machine() -> Machine {
    let cpuinfo = read("/proc/cpuinfo");
    let memory_kib = number_after(&read("/proc/meminfo"), "MemTotal:").unwrap_or(0);
    Machine {
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        cpu: value_after(&cpuinfo, "model name").unwrap_or_default(),
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        memory_bytes: memory_kib * 1024,
        os: value_after(&read("/etc/os-release"), "PRETTY_NAME").unwrap_or_default(),
        hypervisor: hypervisor(&cpuinfo),
    }
}

/// MiB of memory that can be had without swapping; 0 where it cannot be read.
pub fn available_mib() -> u64 {
    number_after(&read("/proc/meminfo"), "MemAvailable:").unwrap_or(0) / 1024
}

fn hypervisor(cpuinfo: &str) -> Option<String> {
    let named = read("/sys/class/dmi/id/sys_vendor").trim().to_owned();
    let is_guest = value_after(cpuinfo, "flags").is_some_and(|f| f.split(' ').any(|f| f == "hypervisor"));
    is_guest.then(|| if named.is_empty() { "unknown hypervisor".to_owned() } else { named })
}

/// `some avg10` of /proc/pressure/cpu: percent of the last 10 s in which something waited for a CPU.
/// Absent where the kernel does not count it.
pub fn cpu_pressure() -> Option<f64> {
    parse_pressure(&read("/proc/pressure/cpu"))
}

/// For how long a thread has waited for CPUs, if the kernel counts it.
#[derive(Debug)]
pub struct WaitedForCpu(Option<File>);

impl WaitedForCpu {
    /// Of the thread that calls this.
    pub fn of_this_thread() -> WaitedForCpu {
        WaitedForCpu(File::open("/proc/thread-self/schedstat").ok())
    }

    /// So far.
    pub fn so_far(&self) -> Option<Duration> {
        let mut text = [0; 80];
        let bytes = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        parse_waited(std::str::from_utf8(&text[..bytes]).ok()?)
    }
}

/// Nanoseconds on a CPU, waiting for one, and how often.
fn parse_waited(text: &str) -> Option<Duration> {
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

fn parse_pressure(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split(' ').find_map(|field| field.strip_prefix("avg10="))?.parse().ok()
}

/// CPU time of the whole machine since boot, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// All of it.
    pub total: u64,
    /// What the hypervisor gave to others while a CPU here was ready to run.
    pub steal: u64,
}

impl CpuTime {
    /// As of now; zero where it cannot be read.
    pub fn now() -> CpuTime {
        parse_cpu_time(&read("/proc/stat")).unwrap_or_default()
    }

    /// Percent of the time since `earlier` that was stolen.
    pub fn steal_percent_since(&self, earlier: CpuTime) -> f64 {
        let total = self.total.saturating_sub(earlier.total);
        if total == 0 {
            return 0.0;
        }
        100.0 * self.steal.saturating_sub(earlier.steal) as f64 / total as f64
    }
}

/// user nice system idle iowait irq softirq steal (guest time is within user: proc(5)).
fn parse_cpu_time(stat: &str) -> Option<CpuTime> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).map_while(|f| f.parse().ok()).collect();
    let total = fields.iter().take(8).fold(0_u64, |sum, field| sum.saturating_add(*field));
    Some(CpuTime { total, steal: *fields.get(7)? })
}

/// Bytes that a block device has moved since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Read from it.
    pub read: u64,
    /// Written to it.
    pub written: u64,
    /// Flushes that it finished.
    pub flushes: u64,
}

impl DeviceBytes {
    /// What `/dev/NAME` has moved; the sum over several is [`std::ops::Add`].
    ///
    /// # Errors
    /// NotFound if there is no such block device.
    pub fn of(device: &Path) -> Result<DeviceBytes> {
        let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = Path::new("/sys/class/block").join(&name).join("stat");
        let text = fs::read_to_string(&path)
            .map_err(|e| Error::not_found(format!("no block device {}", device.display())).with_source(e))?;
        DeviceBytes::parse(&text).ok_or_else(|| Error::corrupt(format!("cannot read {}", path.display())))
    }

    /// Reads a line of `/sys/block/NAME/stat` (Documentation/block/stat.rst): read sectors are the 3rd field, written the
    /// 7th, flushes the 16th.
    pub fn parse(stat: &str) -> Option<DeviceBytes> {
        let fields: Vec<u64> = stat.split_whitespace().map_while(|f| f.parse().ok()).collect();
        Some(DeviceBytes {
            read: fields.get(2)?.saturating_mul(SECTOR_BYTES),
            written: fields.get(6)?.saturating_mul(SECTOR_BYTES),
            flushes: fields.get(15).copied().unwrap_or(0),
        })
    }

    /// What was moved since `earlier`.
    #[must_use]
    pub fn since(self, earlier: DeviceBytes) -> DeviceBytes {
        DeviceBytes {
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
            flushes: self.flushes.saturating_sub(earlier.flushes),
        }
    }
}

impl std::ops::Add for DeviceBytes {
    type Output = DeviceBytes;

    fn add(self, other: DeviceBytes) -> DeviceBytes {
        DeviceBytes {
            read: self.read.saturating_add(other.read),
            written: self.written.saturating_add(other.written),
            flushes: self.flushes.saturating_add(other.flushes),
        }
    }
}

/// The settings of a device's queue that decide figures, by name.
pub fn queue_settings(device: &Path) -> BTreeMap<String, String> {
    let name = device.file_name().unwrap_or_default();
    let folder = Path::new("/sys/block").join(name).join("queue");
    [
        "write_cache",
        "scheduler",
        "read_ahead_kb",
        "nr_requests",
        "logical_block_size",
        "rotational",
        "nomerges",
    ]
    .iter()
    .filter_map(|file| {
        let value = fs::read_to_string(folder.join(file)).ok()?;
        Some(((*file).to_owned(), value.trim().to_owned()))
    })
    .collect()
}

/// Bytes that an ordinary user may still write to the file system of `folder`.
///
/// # Errors
/// As the system says.
pub fn free_bytes(folder: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(folder).map_err(|e| {
        Error::unavailable(format!("cannot ask for the free space of {}", folder.display())).with_source(e)
    })?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// The file systems that the kernel has, from /proc/filesystems. A module that is not loaded is not there.
pub fn file_systems() -> Vec<String> {
    read("/proc/filesystems").lines().filter_map(|line| line.rsplit('\t').next().map(str::to_owned)).collect()
}

/// Empty if it cannot be read: every caller has an answer for "not there".
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first line `name : value` or `NAME="value"`.
fn value_after(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let value = line[name.len()..].trim_start_matches([' ', '\t', ':', '=']);
    Some(value.trim().trim_matches('"').to_owned())
}

fn number_after(text: &str, name: &str) -> Option<u64> {
    value_after(text, name)?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests;
