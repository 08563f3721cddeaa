//! A running host: two samples of its counters, and the output of a few read-only commands.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use frostline_base::Result;

use crate::host::{Host, Said};
use crate::tree::{TABLE_BYTES_MAX, Tree};

/// What grows, as patterns below the root. Read twice, and kept in memory.
pub(crate) const COUNTERS: &[&str] = &[
    "proc/interrupts",
    "proc/softirqs",
    "proc/net/softnet_stat",
    "proc/net/snmp",
    "proc/net/netstat",
    "proc/stat",
    "proc/diskstats",
    "proc/vmstat",
    "proc/pressure/*",
    "proc/spl/kstat/zfs/arcstats",
    "sys/class/net/*/statistics/rx_packets",
    "sys/class/net/*/statistics/rx_missed_errors",
    "sys/class/net/*/statistics/rx_fifo_errors",
    "sys/class/net/*/statistics/tx_dropped",
    "sys/class/net/*/statistics/tx_packets",
    "sys/devices/system/node/node*/numastat",
    "sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count",
    "sys/fs/cgroup/*/cpu.stat",
    "sys/fs/cgroup/*/*/cpu.stat",
    "sys/fs/cgroup/*/*/*/cpu.stat",
];

/// How long a command may take, and what is kept of what it prints.
const COMMAND_MAX: Duration = Duration::from_secs(2);
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
const DEVICES_MAX: usize = 16;
/// How long disks may take to say their UUIDs.
const UUIDS_MAX: Duration = Duration::from_secs(30);

/// The files of `tree` that match `patterns`, each up to its limit.
pub(crate) fn snapshot(tree: &Tree, patterns: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for path in patterns.iter().flat_map(|pattern| tree.glob(pattern).unwrap_or_default()) {
        if let Ok(text) = tree.text_up_to(&path, TABLE_BYTES_MAX) {
            files.insert(path, text.into_bytes());
        }
    }
    files
}

/// The host whose `/` is `tree`, with counters taken `interval` apart.
pub(crate) fn host(tree: Tree, interval: Duration, said: Said) -> Result<Host> {
    let printed = commands(&tree);
    let (first, second, seconds) = samples(&tree, interval);
    let tree = tree.with_files(printed);
    Ok(Host::twice(tree, Tree::from_files(first), Tree::from_files(second), seconds, said))
}

/// What grows, twice, and the seconds between.
pub(crate) fn samples(tree: &Tree, interval: Duration) -> (Files, Files, f64) {
    let started = Instant::now();
    let sample = || {
        let mut files = snapshot(tree, COUNTERS);
        files.extend(printed_counters(tree));
        files
    };
    let first = sample();
    let between = Instant::now();
    wait(interval.saturating_sub(started.elapsed()));
    let second = sample();
    // Each sample takes a while; from the middle of one to the middle of the other.
    let seconds = (started.elapsed() + between.elapsed()).as_secs_f64() / 2.0;
    (first, second, seconds)
}

#[expect(clippy::disallowed_methods, reason = "the interval between the samples is what is measured")]
pub(crate) fn wait(interval: Duration) {
    std::thread::sleep(interval);
}

type Files = BTreeMap<String, Vec<u8>>;

/// Network devices with hardware or a hypervisor behind them.
fn nics(tree: &Tree) -> Vec<String> {
    let mut nics = tree.list("sys/class/net").unwrap_or_default();
    // A name that a command would take for an option.
    nics.retain(|nic| !nic.starts_with('-') && tree.has(&format!("sys/class/net/{nic}/device")));
    nics.truncate(DEVICES_MAX);
    nics
}

/// What commands print of counters: read twice.
fn printed_counters(tree: &Tree) -> Files {
    let mut files = Files::new();
    let mut keep = |name: String, arguments: &[&str]| {
        if let Some(output) = output(tree, arguments) {
            files.insert(format!("commands/{name}"), output);
        }
    };
    for nic in nics(tree) {
        keep(format!("ethtool-S.{nic}"), &["ethtool", "-S", &nic]);
    }
    keep("tc-qdisc".to_owned(), &["tc", "-s", "qdisc", "show"]);
    let disks = tree.list("sys/block").unwrap_or_default();
    let is_ebs = |disk: &&String| {
        tree.text(&format!("sys/block/{disk}/device/model"))
            .is_ok_and(|model| model.starts_with("Amazon Elastic Block Store"))
    };
    for disk in disks.iter().filter(is_ebs).take(DEVICES_MAX) {
        let device = format!("/dev/{disk}");
        keep(format!("ebs-stats.{disk}"), &["nvme", "amzn", "stats", &device]);
        keep(format!("ebs-stats.{disk}"), &["ebsnvme", "stats", &device]);
    }
    files
}

/// What other commands print, as the files that captures hold. A command that is not there leaves none.
pub(crate) fn commands(tree: &Tree) -> Files {
    let mut files = Files::new();
    let mut keep = |name: String, arguments: &[&str]| {
        if let Some(output) = output(tree, arguments) {
            files.insert(format!("commands/{name}"), output);
        }
    };
    for nic in nics(tree) {
        for option in ["l", "g", "k"] {
            keep(format!("ethtool-{option}.{nic}"), &["ethtool", &format!("-{option}"), &nic]);
        }
        keep(format!("ethtool.{nic}"), &["ethtool", &nic]);
    }
    keep("ss".to_owned(), &["ss", "-tinH", "state", "established"]);
    let mounts = tree.text("proc/mounts").map(|text| crate::facts::mounts(&text)).unwrap_or_default();
    if mounts.iter().any(|mount| mount.kind == "zfs") {
        let properties = "recordsize,atime,relatime,compression,primarycache,sync";
        keep(
            "zfs-get".to_owned(),
            &["zfs", "get", "-Hp", "-o", "name,property,value", "-t", "filesystem", properties],
        );
        keep("zpool-ashift".to_owned(), &["zpool", "get", "-Hp", "ashift"]);
    }
    files.insert("commands/df".to_owned(), room(&mounts).into_bytes());
    files
}

/// The file that holds the UUID of the file system with this device number, or what the kernel has instead. Captures have
/// none.
pub(crate) fn uuid_path(number: &str) -> String {
    format!("commands/uuid.{number}")
}

/// The UUIDs of the file systems whose options a fix may change. Read only for fixes, because a disk that does not
/// answer would block an examination.
pub(crate) fn uuids(tree: &Tree) -> Files {
    let mounts = tree.text("proc/self/mountinfo").map(|text| crate::facts::mountinfo(&text));
    let mut files = Files::new();
    let started = Instant::now();
    for mount in mounts.unwrap_or_default() {
        let is_fixed = ["ext4", "xfs", "btrfs"].contains(&mount.kind.as_str());
        let Some(info) = mount.info.filter(|_| is_fixed && mount.device.starts_with("/dev/")) else {
            continue;
        };
        if started.elapsed() < UUIDS_MAX && !files.contains_key(&uuid_path(&info.number)) {
            let printed = output(tree, &["blkid", "-p", "-s", "UUID", "-o", "value", &mount.device]);
            let printed = printed.filter(|uuid| !uuid.trim_ascii().is_empty());
            let known = printed.unwrap_or_else(|| kernel_id(tree, &info.number, &mount.point).into_bytes());
            files.insert(uuid_path(&info.number), known);
        }
    }
    files
}

/// What the kernel knows a file system by, as `kernel_id` of the script prints it: its id, which ext4 and btrfs take from their
/// UUID, and what the disk below it is.
pub(crate) fn kernel_id(tree: &Tree, number: &str, point: &str) -> String {
    // With its first word in front, as stat(1) prints it.
    let id = rustix::fs::statvfs(point).map(|room| format!("{:x}", room.f_fsid.rotate_left(32)));
    let block = format!("sys/dev/block/{number}");
    let disk = if tree.has(&format!("{block}/partition")) { format!("{block}/..") } else { block };
    let names = ["wwid", "device/wwid", "serial", "device/serial", "dm/uuid", "loop/backing_file", "diskseq"];
    let names = names.iter().filter_map(|name| tree.text(&format!("{disk}/{name}")).ok());
    let words: Vec<String> = id.ok().into_iter().chain(names).collect();
    words.iter().flat_map(|text| text.split_whitespace()).collect::<Vec<_>>().join(" ")
}

/// `POINT KIND TOTAL FREE` in bytes of each local file system. Others are left out: a server that does not
/// answer would hold the doctor.
fn room(mounts: &[crate::facts::Mount]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for mount in mounts.iter().filter(|mount| mount.device.starts_with("/dev/") || mount.kind == "zfs") {
        if !known.insert(&mount.device) {
            continue;
        }
        let Ok(room) = rustix::fs::statvfs(mount.point.as_str()) else { continue };
        let used = room.f_blocks.saturating_sub(room.f_bfree);
        let total = (used + room.f_bavail).saturating_mul(room.f_frsize);
        lines.push(format!(
            "{} {} {total} {}\n",
            mount.point,
            mount.kind,
            room.f_bavail.saturating_mul(room.f_frsize)
        ));
    }
    lines.concat()
}

/// What a program prints, if it is installed, succeeds and is quick.
fn output(tree: &Tree, arguments: &[&str]) -> Option<Vec<u8>> {
    let (program, rest) = arguments.split_first()?;
    let folder = ["usr/sbin", "usr/bin", "sbin", "bin"]
        .iter()
        .find(|folder| tree.has(&format!("{folder}/{program}")))?;
    let mut child = Command::new(format!("/{folder}/{program}"))
        .args(rest)
        .env_clear()
        .env("LC_ALL", "C")
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let stdout = child.stdout.take()?;
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        // Nobody listens after the time is up.
        let _ = send.send(bytes);
    });
    let bytes = receive.recv_timeout(COMMAND_MAX).ok();
    if bytes.is_none() {
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    bytes.filter(|_| status.success())
}
