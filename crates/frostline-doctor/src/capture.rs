//! Captures: copies of the files that the rules read, in a folder to send to a colleague.
//!
//! A capture has `sample0/` (everything), `sample1/` (the counters, some seconds later) and
//! `capture.json`, with the size and a checksum of every file: one that is cut, changed or lost is known as damaged, and
//! what a rule would have read in it as unknown. Data that identifies the host or its users is removed: configuration files and command lines are
//! reduced to what a rule reads, mounts of other hosts lose their sources, and host names, addresses, serial numbers and secrets are replaced in the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use frostline_base::{Error, Result};
use regex::Regex;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::facts::config;
use crate::host::{FROSTLINE_FILES, Host, JVM_FILES, LIBVIRT_FILES, Said};
use crate::live::{self, COUNTERS};
use crate::tree::{TABLE_BYTES_MAX, Tree};

/// Version 2 has a checksum of each file.
const FORMAT: u32 = 2;

/// Files, beside the counters and those of services.
const FILES: &[&str] = &[
    "proc/cmdline",
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/mounts",
    "proc/mdstat",
    "proc/swaps",
    "proc/uptime",
    "proc/version",
    "proc/irq/*/effective_affinity_list",
    "proc/irq/*/smp_affinity_list",
    "proc/sys/kernel/osrelease",
    "proc/net/bonding/*",
    "proc/sys/net/core/*",
    "proc/sys/net/ipv4/tcp_rmem",
    "proc/sys/net/ipv4/tcp_wmem",
    "proc/sys/net/netfilter/nf_conntrack_count",
    "proc/sys/net/netfilter/nf_conntrack_max",
    "proc/sys/vm/*",
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

/// File systems of other hosts, also where their source looks like a name of this one.
const REMOTE_KINDS: &[&str] = &[
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "coda",
    "davfs",
    "glusterfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "orangefs",
    "pvfs2",
    "smb3",
    "smbfs",
];

/// Options of mounts whose values name a host or a user, on whatever file system.
const NAMING_OPTIONS: &[&str] = &[
    "addr",
    "clientaddr",
    "cred",
    "credentials",
    "dom",
    "domain",
    "host",
    "ip",
    "mountaddr",
    "mounthost",
    "owner",
    "pass",
    "password",
    "server",
    "user",
    "username",
    "workgroup",
];

/// Options of remote file systems whose values are no names.
const REMOTE_KEPT: &[&str] =
    &["cache", "local_lock", "lookupcache", "mountproto", "nfsvers", "proto", "sec", "vers", "xprtsec"];

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

/// Words of the kernel's command line that a rule reads, or a reader of the capture wants.
const KERNEL_KEPT: &[&str] = &[
    "isolcpus=",
    "nohz_full=",
    "init_on_alloc=",
    "init_on_free=",
    "hugepages",
    "default_hugepagesz=",
    "transparent_hugepage=",
    "nvme_core.",
    "mitigations=",
    "intel_idle.",
    "processor.",
    "numa_balancing=",
];

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
    let mut files = facts(&tree);
    let (counters, later, seconds) = match root == Path::new("/") {
        true => {
            files.extend(live::commands(&tree));
            live::samples(&tree, interval)
        }
        // Of a copy of a host nothing grows.
        false => (live::snapshot(&tree, COUNTERS), BTreeMap::new(), 0.0),
    };
    let is_counter: BTreeSet<String> = counters.keys().cloned().collect();
    files.extend(counters);
    let redactor = Redactor::new(&tree);
    let mut machines = Vec::new();
    let mut header = Header { format: FORMAT, seconds, ..Header::default() };
    for (sample, files) in [("sample0", &files), ("sample1", &later)] {
        for (path, bytes) in files {
            // Counters hold numbers and devices; a host that is called "cpu" must not spoil them.
            let text = String::from_utf8_lossy(bytes);
            let text = if is_counter.contains(path) { text.into_owned() } else { redactor.redact(&text) };
            let path = format!("{sample}/{}", redactor.path(path, &mut machines));
            write(&out.join(&path), text.as_bytes())?;
            header.files.insert(path, (text.len() as u64, xxh3_64(text.as_bytes())));
        }
    }
    let count = header.files.len();
    write(&out.join("capture.json"), header.checked()?.text()?.as_bytes())?;
    Ok(count)
}

/// A path of control groups with numbers instead of the names of virtual machines and containers, which are
/// in the names of their scopes.
fn without_machine(path: &str, known: &mut Vec<String>) -> String {
    let rename = |part: &str| -> String {
        if !part.ends_with(".scope") || part.starts_with("session-") || part.starts_with("init.") {
            return part.to_owned();
        }
        let at = known.iter().position(|name| name == part).unwrap_or_else(|| {
            known.push(part.to_owned());
            known.len() - 1
        });
        format!("scope-{at}.scope")
    };
    path.split('/').map(rename).collect::<Vec<_>>().join("/")
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, bytes))
        .map_err(|e| Error::invalid(format!("cannot write {}", path.display())).with_source(e))
}

/// What is not a counter: files, links, and the kept parts of what services say.
fn facts(tree: &Tree) -> BTreeMap<String, Vec<u8>> {
    let mut files = live::snapshot(tree, FILES);
    for path in LINKS.iter().flat_map(|pattern| tree.glob(pattern).unwrap_or_default()) {
        if let Ok(target) = tree.link(&path) {
            files.insert(format!("{path}.link"), target.into_bytes());
        }
    }
    for path in ["proc/mounts", "etc/fstab"] {
        if let Some(text) = files.get_mut(path) {
            *text = mounts(&String::from_utf8_lossy(text)).into_bytes();
        }
    }
    if let Some(line) = files.get_mut("proc/cmdline") {
        *line = kept_words(&String::from_utf8_lossy(line)).into_bytes();
    }
    // Flags of the first CPU say that this is a virtual machine; the rest is of no use.
    if let Some(info) = files.get_mut("proc/cpuinfo") {
        info.truncate(8192);
    }
    let running = crate::host::processes(tree);
    for server in crate::host::postgres(tree, running.as_deref().map_err(Clone::clone)).unwrap_or_default() {
        let text = kept(&server.settings, POSTGRES_KEPT, " = ");
        files.insert(server.config.trim_start_matches('/').to_owned(), text.into_bytes());
        if let Some(data) = server.data {
            let log = format!("{}/pg_wal", data.trim_start_matches('/'));
            files.extend(tree.link(&log).ok().map(|folder| (format!("{log}.link"), folder.into_bytes())));
        }
    }
    for file in crate::host::search_files(running.as_deref().map_err(Clone::clone)).unwrap_or_default() {
        if let Ok(text) = tree.text(&file.path) {
            files.insert(file.path, kept(&config::yaml(&text), SEARCH_KEPT, ": ").into_bytes());
        }
    }
    let mut keep = |patterns: &[&str], part: &dyn Fn(&str) -> String| {
        for path in patterns.iter().flat_map(|pattern| tree.glob(pattern).unwrap_or_default()) {
            if let Ok(text) = tree.text(&path) {
                files.insert(path, part(&text).into_bytes());
            }
        }
    };
    keep(JVM_FILES, &|text| {
        text.lines().filter(|line| line.contains("-Xm")).map(|line| format!("{line}\n")).collect()
    });
    keep(FROSTLINE_FILES, &|text| {
        let settings = config::frostline(text);
        let data = settings.data.map(|data| format!("data = {data:?}\n")).unwrap_or_default();
        format!("{data}volumes = {:?}\n", settings.volumes)
    });
    files.extend(machines(tree));
    files.extend(processes(tree));
    files
}

fn kept(settings: &BTreeMap<String, String>, names: &[&str], separator: &str) -> String {
    let line = |name: &&str| settings.get(*name).map(|value| format!("{name}{separator}{value}\n"));
    names.iter().filter_map(line).collect()
}

/// Lines of mounts without what names a host or a user; comments are left out.
fn mounts(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(source), Some(point), Some(kind)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        if source.starts_with('#') {
            continue;
        }
        let is_remote = is_remote(source, kind);
        let options = words.next().unwrap_or("defaults").split(',');
        let options: Vec<String> = options.map(|option| mount_option(option, is_remote)).collect();
        let source = if is_remote { "REMOTE" } else { source };
        out += &format!("{source} {point} {kind} {}", options.join(","));
        words.for_each(|word| out += &format!(" {word}"));
        out.push('\n');
    }
    out
}

/// Whether a file system is, or may be, elsewhere. FUSE has local ones, whose source is the name of the program.
fn is_remote(source: &str, kind: &str) -> bool {
    if source.starts_with('/') && !source.starts_with("//") {
        return false;
    }
    let is_other_fuse = kind.starts_with("fuse.") && !kind.ends_with(source);
    REMOTE_KINDS.contains(&kind) || is_other_fuse || source.starts_with("//") || source.contains([':', '@'])
}

/// An option without a value that names a host or a user. Of remote file systems only values that cannot are kept.
fn mount_option(option: &str, is_remote: bool) -> String {
    let Some((key, value)) = option.split_once('=') else { return option.to_owned() };
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let names = NAMING_OPTIONS.contains(&key) || ["uid", "gid"].contains(&key) && !is_number;
    let is_kept = !names && (!is_remote || is_number || REMOTE_KEPT.contains(&key));
    if is_kept { option.to_owned() } else { format!("{key}=REDACTED") }
}

fn kept_words(line: &str) -> String {
    let words = line.split_whitespace().filter(|word| KERNEL_KEPT.iter().any(|kept| word.starts_with(kept)));
    words.collect::<Vec<_>>().join(" ") + "\n"
}

/// Definitions of virtual machines under numbers instead of names.
fn machines(tree: &Tree) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut numbers: Vec<String> = Vec::new();
    for path in LIBVIRT_FILES.iter().flat_map(|pattern| tree.glob(pattern).unwrap_or_default()) {
        let Some((folder, name)) = path.rsplit_once('/') else { continue };
        let Ok(text) = tree.text(&path) else { continue };
        let number = numbers.iter().position(|known| known == name).unwrap_or_else(|| {
            numbers.push(name.to_owned());
            numbers.len() - 1
        });
        let text = with_one_name(&text, &format!("machine-{number}"));
        files.insert(format!("{folder}/machine-{number}.xml"), text.into_bytes());
    }
    files
}

/// An XML text with the content of its first `<name>` replaced, and without free text and the image's paths.
fn with_one_name(text: &str, name: &str) -> String {
    let mut text = text.to_owned();
    for element in ["name", "title", "description", "metadata"] {
        if let Some((start, rest)) = text.split_once(&format!("<{element}>"))
            && let Some((_, end)) = rest.split_once(&format!("</{element}>"))
        {
            let value = if element == "name" { name } else { "" };
            text = format!("{start}<{element}>{value}</{element}>{end}");
        }
    }
    text
}

/// Command lines with only what a rule reads, and the status of processes that a rule looks at.
fn processes(tree: &Tree) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for process in crate::host::processes(tree).unwrap_or_default() {
        let folder = format!("proc/{}", process.pid);
        let wanted = process.is_qemu() || process.is_search();
        let main = |argument: &&String| {
            let kept =
                ["-Xm", "org.elasticsearch.", "org.opensearch.", "tap,", "-Des.path.", "-Dopensearch.path."];
            kept.iter().any(|kept| argument.starts_with(kept))
                || (process.is_qemu()
                    && ["mem-path", "hugetlb=on"].iter().any(|kept| argument.contains(kept)))
        };
        // Children of a server have a title instead of a command line.
        let is_title = process.arguments.first().is_some_and(|first| first.contains(':'));
        let mut line = vec![format!("{}{}", process.name, if is_title { ":" } else { "" })];
        if wanted {
            line.extend(process.arguments.iter().filter(main).cloned());
        }
        if process.name == "postgres" {
            let place = |pair: &&[String]| pair[0] == "-D" || pair[1].starts_with("config_file=");
            line.extend(process.arguments.windows(2).filter(place).flatten().cloned());
            if let Ok(folder) = tree.link(&format!("{folder}/cwd")) {
                files.insert(format!("proc/{}/cwd.link", process.pid), folder.into_bytes());
            }
        }
        files.insert(format!("{folder}/cmdline"), line.join("\0").into_bytes());
        let server = ["postgres", "mysqld", "mongod", "redis-server"]
            .iter()
            .any(|name| process.name.starts_with(name));
        if wanted || server {
            let names: &[&str] = if process.is_qemu() {
                &["stat", "status", "limits", "smaps_rollup"]
            } else {
                &["stat", "status", "limits"]
            };
            for name in names {
                if let Ok(text) = tree.text(&format!("{folder}/{name}")) {
                    files.insert(format!("{folder}/{name}"), text.into_bytes());
                }
            }
        }
    }
    files
}

/// Takes out of a text what names a host, its users and its secrets.
struct Redactor {
    rules: Vec<(Regex, &'static str)>,
}

impl Redactor {
    fn new(tree: &Tree) -> Redactor {
        let mut rules = Vec::new();
        let mut add = |pattern: &str, with: &'static str| {
            if let Ok(pattern) = Regex::new(pattern) {
                rules.push((pattern, with));
            }
        };
        for path in ["proc/sys/kernel/hostname", "etc/hostname"] {
            let name = tree.text(path).unwrap_or_default();
            let short = name.trim().split('.').next().unwrap_or("").to_owned();
            if short.len() > 1 && short != "localhost" {
                add(&format!(r"(?i)\b{}(?:\.[a-z0-9-]+)*\b", regex::escape(&short)), "HOST");
            }
        }
        add(
            r#"(?i)(pass(?:word|wd|phrase)?|secret|token|credentials?|(?:api|access|private|auth)[-_]?key)([\w.-]*["']?[=:\s\x00]+)('[^']*'|"[^"]*"|[^\s\x00'"<>,]+)"#,
            "${1}${2}REDACTED",
        );
        add(r"://[^/@\s\x00]+@", "://REDACTED@");
        add(r"(?i)\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", "UUID");
        add(r"(?i)(serial(?:=|>))[^<,\s\x00]+", "${1}REDACTED");
        add(r"(?i)\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b", "MAC");
        add(r"\b(?:\d{1,3}\.){3}\d{1,3}\b", "IP");
        add(
            r"(?i)\b(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}\b|\b(?:[0-9a-f]{1,4}:){2,6}:(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4})*)?|\b[0-9a-f]{2,4}::[0-9a-f:]*",
            "IP",
        );
        add(r"/home/[^/\s\x00]+", "/home/USER");
        Redactor { rules }
    }

    /// A path without what names somebody. The kernel's own names stay, even on a host that is called "vm".
    fn path(&self, path: &str, machines: &mut Vec<String>) -> String {
        if let Some(group) = path.strip_prefix("sys/fs/cgroup/") {
            return format!("sys/fs/cgroup/{}", without_machine(&self.redact(group), machines));
        }
        match path.strip_prefix("home/").and_then(|rest| rest.split_once('/')) {
            Some((_, rest)) => format!("home/USER/{rest}"),
            None => path.to_owned(),
        }
    }

    fn redact(&self, text: &str) -> String {
        self.rules.iter().fold(text.to_owned(), |text, (pattern, with)| match pattern.is_match(&text) {
            true => pattern.replace_all(&text, *with).into_owned(),
            false => text,
        })
    }
}

#[cfg(test)]
mod tests;
