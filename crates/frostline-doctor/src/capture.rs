//! Captures: copies of the files that the rules read, in a folder to send to a colleague.
//!
//! A capture has `sample0/` (everything), `sample1/` (the counters, some seconds later) and
//! `capture.json`, with the size and a checksum of every file. A file that was truncated, changed or lost counts as damaged,
//! and what a rule would have read in it as unknown. [`redacted`] defines what is kept of each file. [`names`] defines which
//! names are kept; every other name becomes a number, in paths and in contents.

mod names;
mod redacted;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::facts::config;
use crate::host::{FROSTLINE_FILES, Host, JVM_FILES, LIBVIRT_FILES, Process, SEARCH_FILES, Said};
use crate::live::{self, COUNTERS};
use crate::tree::{TABLE_BYTES_MAX, Tree};

use names::Names;
use redacted::Redactor;

/// Version 2 has a checksum of each file.
const FORMAT: u32 = 2;

/// Files, beside the counters and those of services.
const FILES: &[&str] = &[
    "proc/cmdline",
    "proc/cpuinfo",
    "proc/fs/ext4/*/options",
    "proc/meminfo",
    "proc/mounts",
    "proc/mdstat",
    "proc/self/mountinfo",
    "proc/swaps",
    "proc/uptime",
    "proc/version",
    "proc/irq/*/effective_affinity_list",
    "proc/irq/*/smp_affinity_list",
    "proc/sys/kernel/osrelease",
    "proc/net/bonding/*",
    "proc/sys/net/core/netdev_budget",
    "proc/sys/net/core/netdev_budget_usecs",
    "proc/sys/net/core/netdev_max_backlog",
    "proc/sys/net/core/rps_sock_flow_entries",
    "proc/sys/net/core/somaxconn",
    "proc/sys/net/ipv4/tcp_rmem",
    "proc/sys/net/ipv4/tcp_wmem",
    "proc/sys/net/netfilter/nf_conntrack_count",
    "proc/sys/net/netfilter/nf_conntrack_max",
    "proc/sys/vm/dirty_background_bytes",
    "proc/sys/vm/dirty_background_ratio",
    "proc/sys/vm/dirty_bytes",
    "proc/sys/vm/dirty_ratio",
    "proc/sys/vm/max_map_count",
    "proc/sys/vm/nr_hugepages",
    "proc/sys/vm/swappiness",
    "proc/sys/vm/zone_reclaim_mode",
    "etc/fstab",
    "etc/default/irqbalance",
    "etc/sysconfig/irqbalance",
    "sys/block/*/size",
    "sys/block/*/device/model",
    "sys/block/*/device/vendor",
    "sys/block/*/device/numa_node",
    "sys/block/*/device/device/numa_node",
    "sys/block/*/loop/dio",
    "sys/block/*/mq/*/cpu_list",
    "sys/block/*/queue/physical_block_size",
    "sys/block/*/queue/read_ahead_kb",
    "sys/block/*/queue/rotational",
    "sys/block/*/queue/scheduler",
    "sys/block/*/queue/write_cache",
    "sys/bus/pci/devices/*/class",
    "sys/bus/pci/devices/*/current_link_speed",
    "sys/bus/pci/devices/*/current_link_width",
    "sys/bus/pci/devices/*/max_link_speed",
    "sys/bus/pci/devices/*/max_link_width",
    "sys/class/dmi/id/product_name",
    "sys/class/dmi/id/sys_vendor",
    "sys/class/net/*/bonding/mode",
    "sys/class/net/*/bridge/stp_state",
    "sys/class/net/*/device/numa_node",
    "sys/class/net/*/duplex",
    "sys/class/net/*/mtu",
    "sys/class/net/*/operstate",
    "sys/class/net/*/queues/rx-*/rps_cpus",
    "sys/class/net/*/queues/rx-*/rps_flow_cnt",
    "sys/class/net/*/queues/tx-*/tx_maxrate",
    "sys/class/net/*/queues/tx-*/xps_cpus",
    "sys/class/net/*/speed",
    "sys/devices/system/clocksource/clocksource0/available_clocksource",
    "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "sys/devices/system/cpu/cpu*/cpuidle/state*/disable",
    "sys/devices/system/cpu/cpu0/cpuidle/state*/latency",
    "sys/devices/system/cpu/cpu0/cpuidle/state*/name",
    "sys/devices/system/cpu/online",
    "sys/devices/system/edac/mc/mc*/ce_count",
    "sys/devices/system/edac/mc/mc*/seconds_since_reset",
    "sys/devices/system/edac/mc/mc*/ue_count",
    "sys/devices/system/node/node*/cpulist",
    "sys/fs/ext4/*/errors_count",
    "sys/kernel/mm/ksm/*",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/module/nvme_core/parameters/io_timeout",
    "sys/module/zfs/parameters/zfs_arc_max",
];

/// Symbolic links, kept as files that hold their target.
const LINKS: &[&str] = &[
    "dev/mapper/*",
    "sys/block/*/slaves/*",
    "sys/class/net/*/device",
    "sys/class/net/*/device/driver",
    "sys/class/net/*/master",
];

/// Settings of PostgreSQL that a rule reads.
const POSTGRES_KEPT: &[&str] = &[
    "data_directory",
    "fsync",
    "full_page_writes",
    "huge_pages",
    "max_wal_size",
    "random_page_cost",
    "shared_buffers",
    "synchronous_commit",
];

/// Settings of search nodes that a rule reads.
const SEARCH_KEPT: &[&str] = &[
    "bootstrap.memory_lock",
    "index.translog.durability",
    "node.roles",
    "node.search.cache.size",
    "path.data",
    "xpack.searchable.snapshot.shared_cache.size",
];

/// Programs that a rule looks for, besides virtual machine monitors.
const PROGRAMS: &[&str] =
    &["frostline", "irqbalance", "java", "mongod", "mysqld", "oracle", "postgres", "redis-server"];

/// Virtual machine monitors.
const MONITORS: &[&str] =
    &["qemu-kvm", "qemu-system-aarch64", "qemu-system-i386", "qemu-system-ppc64", "qemu-system-x86_64"];

#[derive(Debug, Default, Serialize, Deserialize)]
struct Header {
    format: u32,
    seconds: f64,
    /// (bytes, XXH3) of each file, by its path.
    files: BTreeMap<String, (u64, u64)>,
    /// XXH3 of this header with 0 in its place.
    check: u64,
}

impl Header {
    fn checked(self) -> Result<Header> {
        let header = Header { check: 0, ..self };
        let check = xxh3_64(header.text()?.as_bytes());
        Ok(Header { check, ..header })
    }

    fn text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| Error::internal("cannot write a header").with_source(e))
    }

    /// The header of a capture, or what is the matter with it.
    fn parse(text: &str) -> Result<Header> {
        let header: Header = serde_json::from_str(text)
            .map_err(|e| Error::invalid("capture.json is damaged").with_source(e))?;
        if header.format != FORMAT {
            let what = format!("this is a capture of version {}; only {FORMAT} is read", header.format);
            return Err(Error::invalid(what));
        }
        let check = header.check;
        let header = header.checked()?;
        if header.check != check || !header.seconds.is_finite() || header.seconds < 0.0 {
            return Err(Error::invalid("capture.json is damaged: its checksum does not match"));
        }
        Ok(header)
    }
}

/// The host whose files are below `root`: this one for `/`, sampled `interval` apart; a capture; or any other
/// copy of a host's files, of which nothing was counted twice.
pub fn open(root: &Path, interval: Duration, said: Said) -> Result<Host> {
    if root == Path::new("/") {
        return live::host(Tree::open(root)?, interval, said);
    }
    let tree = Tree::open(root)?;
    if !tree.has("sample0") {
        return Ok(Host::once(tree, said));
    }
    captured(&tree, said).map_err(|e| {
        let what = format!(
            "cannot read the capture {}; --root {}/sample0 reads its files unchecked",
            root.display(),
            root.display()
        );
        Error::invalid(what).with_source(e)
    })
}

/// The host of the capture whose folder is `tree`.
fn captured(tree: &Tree, said: Said) -> Result<Host> {
    let text = tree.text_up_to("capture.json", TABLE_BYTES_MAX).unwrap_or_default();
    let header = Header::parse(&text)?;
    let sample = |name: &str| sample(tree, &header, name);
    Ok(Host::twice(sample("sample0"), sample("sample0"), sample("sample1"), header.seconds, said))
}

/// One sample of a capture: its files as they were written, and which are not any more.
fn sample(capture: &Tree, header: &Header, name: &str) -> Tree {
    let (mut files, mut damaged) = (Vec::new(), Vec::new());
    for (path, (bytes, check)) in &header.files {
        let Some(inner) = path.strip_prefix(name).and_then(|rest| rest.strip_prefix('/')) else { continue };
        match capture.bytes(path, TABLE_BYTES_MAX) {
            Ok(text) if text.len() as u64 == *bytes && xxh3_64(&text) == *check => {
                files.push((inner.to_owned(), text));
            }
            _ => damaged.push(inner.to_owned()),
        }
    }
    Tree::from_files(files).with_damaged(damaged)
}

/// Writes a capture of the host whose `/` is `root` to the new folder `out`, and returns how many files it
/// holds. Conflict if `out` is there.
pub fn capture(root: &Path, out: &Path, interval: Duration) -> Result<usize> {
    let tree = Tree::open(root)?;
    fs::create_dir(out).map_err(|e| {
        let out = out.display();
        match e.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Error::conflict(format!("{out} is there already: a capture needs a folder of its own"))
            }
            _ => Error::invalid(format!("cannot make the folder {out}")).with_source(e),
        }
    })?;
    let (counters, later, seconds, printed) = match root == Path::new("/") {
        true => {
            let (counters, later, seconds) = live::samples(&tree, interval);
            (counters, later, seconds, live::commands(&tree))
        }
        // Of a copy of a host nothing grows.
        false => (live::snapshot(&tree, COUNTERS), Files::new(), 0.0, Files::new()),
    };
    let mut redactor = Redactor::new(&tree);
    let mut header = Header { format: FORMAT, seconds, ..Header::default() };
    for (sample, files) in
        ["sample0", "sample1"].into_iter().zip(samples(&tree, [counters, later], printed, &mut redactor))
    {
        for (path, bytes) in files {
            let path = format!("{sample}/{path}");
            write(&out.join(&path), &bytes)?;
            header.files.insert(path, (bytes.len() as u64, xxh3_64(&bytes)));
        }
    }
    let count = header.files.len();
    // No file matches these checksums, so these files count as damaged: a rule that reads one knows that it exists.
    header.files.extend(unread(&tree).into_iter().map(|path| (format!("sample0/{path}"), (0, 0))));
    write(&out.join("capture.json"), header.checked()?.text()?.as_bytes())?;
    Ok(count)
}

/// Paths for configuration files that exist and cannot be read, made from patterns instead of their names.
fn unread(tree: &Tree) -> Vec<String> {
    let is_unread = |pattern: &&&str| match tree.glob(pattern) {
        Ok(paths) => paths.iter().any(|path| tree.text(path).is_err_and(|absent| !absent.is_missing())),
        Err(_) => true,
    };
    let patterns = JVM_FILES.iter().chain(SEARCH_FILES).chain(FROSTLINE_FILES).chain(LIBVIRT_FILES);
    patterns.filter(is_unread).map(|pattern| pattern.replace('*', "unread")).collect()
}

/// Files by their paths.
type Files = BTreeMap<String, Vec<u8>>;

/// The files of both samples: those of the host, its counters at both times, and the output of commands.
fn samples(
    tree: &Tree,
    [counters, later]: [Files; 2],
    printed: Files,
    redactor: &mut Redactor,
) -> [Files; 2] {
    let mut first = facts(tree, redactor);
    let mut redacted = |(path, bytes): (String, Vec<u8>)| {
        let (path, text) = redactor.file(&path, &String::from_utf8_lossy(&bytes));
        (path, text.into_bytes())
    };
    first.extend(counters.into_iter().chain(printed).map(&mut redacted));
    [first, later.into_iter().map(redacted).collect()]
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, bytes))
        .map_err(|e| Error::invalid(format!("cannot write {}", path.display())).with_source(e))
}

/// What is not a counter: files, links, and the kept parts of what services say.
fn facts(tree: &Tree, redactor: &mut Redactor) -> Files {
    let mut files = Files::new();
    for (path, bytes) in live::snapshot(tree, FILES) {
        let (path, text) = redactor.file(&path, &String::from_utf8_lossy(&bytes));
        files.insert(path, text.into_bytes());
    }
    let mut links: Vec<String> =
        LINKS.iter().flat_map(|pattern| tree.glob(pattern).unwrap_or_default()).collect();
    // A file system may be mounted by any name of its device.
    let mounts = crate::host::mounts(tree).unwrap_or_default();
    links.extend(mounts.iter().filter_map(|mount| Some(mount.device.strip_prefix('/')?.to_owned())));
    for path in links {
        if let Ok(target) = tree.link(&path) {
            let (path, target) = redactor.link(&path, &target);
            files.insert(path, target.into_bytes());
        }
    }
    let names = &mut redactor.names;
    let running = crate::host::processes(tree);
    for server in crate::host::postgres(tree, running.as_deref().map_err(Clone::clone)).unwrap_or_default() {
        let text = redacted::settings(&server.settings, POSTGRES_KEPT, " = ", names);
        files.insert(names.path(server.config.trim_start_matches('/')), text.into_bytes());
        if let Some(data) = server.data {
            let log = format!("{}/pg_wal", data.trim_start_matches('/'));
            if let Ok(folder) = tree.link(&log) {
                files.insert(format!("{}.link", names.path(&log)), names.path(&folder).into_bytes());
            }
        }
    }
    for file in crate::host::search_files(running.as_deref().map_err(Clone::clone)).unwrap_or_default() {
        if let Ok(text) = tree.text(&file.path) {
            let mut kept = redacted::settings(&config::yaml(&text), SEARCH_KEPT, ": ", names);
            if crate::host::is_cut(&text) {
                kept += "cut";
            }
            files.insert(names.path(&file.path), kept.into_bytes());
        }
    }
    let mut keep = |patterns: &[&str], kept: &mut dyn FnMut(&str, &str) -> (String, String)| {
        for path in patterns.iter().flat_map(|pattern| tree.glob(pattern).unwrap_or_default()) {
            if let Ok(text) = tree.text(&path) {
                let (path, text) = kept(&path, &text);
                files.insert(path, text.into_bytes());
            }
        }
    };
    keep(JVM_FILES, &mut |path, text| {
        let is_part = path.ends_with(".d") || path.contains(".d/");
        let path = if is_part { names.file(path, ".options") } else { names.path(path) };
        (path, redacted::heap(text.lines()).iter().map(|option| format!("{option}\n")).collect())
    });
    keep(FROSTLINE_FILES, &mut |path, text| {
        let Some(settings) = config::frostline(text) else {
            return (names.path(path), "no TOML\n".to_owned());
        };
        let data = settings.data.map(|data| format!("data = {:?}\n", names.path(&data))).unwrap_or_default();
        let volumes: Vec<String> = settings.volumes.iter().map(|folder| names.path(folder)).collect();
        (names.path(path), format!("{data}volumes = {volumes:?}\n"))
    });
    keep(LIBVIRT_FILES, &mut |path, text| (names.file(path, ".xml"), redacted::machine(text, names)));
    let pools: Vec<&str> =
        mounts.iter().filter(|mount| mount.kind == "hugetlbfs").map(|mount| mount.point.as_str()).collect();
    for process in running.unwrap_or_default() {
        files.extend(of_process(tree, &process, &pools, names));
    }
    files
}

/// For a process that a rule looks for, the arguments that are kept and its status. For any other, only that it runs.
fn of_process(tree: &Tree, process: &Process, pools: &[&str], names: &mut Names) -> Files {
    let folder = format!("proc/{}", process.pid);
    let known = PROGRAMS.iter().chain(MONITORS).find(|known| process.name == **known);
    let name = match known {
        Some(known) => known,
        None if process.is_qemu() => "qemu-system",
        None => return Files::from([(format!("{folder}/cmdline"), b"other".to_vec())]),
    };
    // Children of a server have a title instead of a command line.
    let is_title = process.arguments.first().is_some_and(|first| first.contains(':'));
    let mut line = vec![format!("{name}{}", if is_title { ":" } else { "" })];
    let mut files = Files::new();
    match name {
        "frostline" => line.extend(process.arguments.iter().find(|one| *one == "doctor").cloned()),
        "java" if process.is_search() => line.extend(redacted::search_arguments(&process.arguments, names)),
        "postgres" => {
            line.extend(redacted::postgres_arguments(&process.arguments, names));
            if let Ok(now) = tree.link(&format!("{folder}/cwd")) {
                files.insert(format!("{folder}/cwd.link"), names.path(&now).into_bytes());
            }
        }
        _ if process.is_qemu() => {
            line.extend(redacted::monitor_arguments(&process.arguments, pools, names));
            if let Ok(text) = tree.text(&format!("{folder}/smaps_rollup")) {
                files.insert(format!("{folder}/smaps_rollup"), redacted::rows(&text, &["AnonHugePages"]));
            }
        }
        _ => {}
    }
    files.insert(format!("{folder}/cmdline"), line.join("\0").into_bytes());
    if let Ok(text) = tree.text(&format!("{folder}/stat")) {
        let numbers = text.rsplit_once(')').map_or("", |(_, numbers)| numbers);
        files.insert(format!("{folder}/stat"), format!("{} ({name}){numbers}", process.pid).into_bytes());
    }
    if let Ok(text) = tree.text(&format!("{folder}/status")) {
        files.insert(format!("{folder}/status"), redacted::rows(&text, &["VmRSS", "Cpus_allowed_list"]));
    }
    if let Ok(text) = tree.text(&format!("{folder}/limits")) {
        files.insert(format!("{folder}/limits"), redacted::rows(&text, &["Max open files"]));
    }
    files
}

#[cfg(test)]
mod tests;
