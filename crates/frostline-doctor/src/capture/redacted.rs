//! What a capture keeps of each file: what a rule reads, with every name replaced.
//!
//! Each table is parsed and written again from the parsed values, so only what this file names is kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::facts::vm::{self, Machine};
use crate::facts::{self, config};
use crate::tree::Tree;

use super::names::Names;

/// Mount options that a rule reads or a printed command repeats.
const MOUNT_OPTIONS: &[&str] = &[
    "acl",
    "attr2",
    "barrier",
    "bind",
    "dax",
    "delalloc",
    "dirsync",
    "discard",
    "grpquota",
    "i_version",
    "inode32",
    "inlinecrypt",
    "inode64",
    "journal_async_commit",
    "lazytime",
    "mand",
    "noatime",
    "noacl",
    "nobarrier",
    "nodatacow",
    "nodatasum",
    "nodelalloc",
    "nodev",
    "nodiratime",
    "nodiscard",
    "noexec",
    "noquota",
    "nosuid",
    "nosymfollow",
    "prjquota",
    "relatime",
    "ro",
    "rw",
    "ssd",
    "strictatime",
    "sync",
    "user_xattr",
    "usrquota",
];

/// Mount options whose value is no name.
const MOUNT_VALUES: &[&str] = &[
    "barrier",
    "commit",
    "compress",
    "compress-force",
    "data",
    "dax",
    "discard",
    "errors",
    "logbsize",
    "logbufs",
    "space_cache",
    "stripe",
    "subvolid",
    "sunit",
    "swidth",
];

/// Options of the kernel's command line that a rule reads, or that help a reader of the capture.
const KERNEL_OPTIONS: &[&str] = &[
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.max_cstate",
    "isolcpus",
    "mitigations",
    "nohz_full",
    "numa_balancing",
    "nvme_core.io_timeout",
    "processor.max_cstate",
    "transparent_hugepage",
];

/// Values of settings that are neither numbers nor names.
const VALUES: &[&str] = &[
    "all",
    "always",
    "async",
    "auto",
    "continue",
    "data",
    "data_cold",
    "data_content",
    "data_frozen",
    "data_hot",
    "data_warm",
    "disabled",
    "domain",
    "f",
    "false",
    "gzip",
    "ingest",
    "journal",
    "local",
    "lz4",
    "lzo",
    "madvise",
    "managed_irq",
    "master",
    "metadata",
    "ml",
    "n",
    "never",
    "no",
    "nohz",
    "none",
    "nosmt",
    "off",
    "on",
    "ordered",
    "panic",
    "remote_apply",
    "remote_cluster_client",
    "remote_write",
    "remount-ro",
    "request",
    "search",
    "standard",
    "t",
    "transform",
    "true",
    "try",
    "v2",
    "warm",
    "writeback",
    "y",
    "yes",
    "zle",
    "zlib",
    "zstd",
];

/// The version of a kernel without what its builder appended.
fn version(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).unwrap_or(text.len());
    text[..end].trim_end_matches(['.', '-'])
}

/// The value of a setting if it is a number, a size, a word that is no name, or a list of these.
pub(super) fn value(text: &str) -> &str {
    let is_plain = |word: &str| {
        let letters = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        // An address has more dots.
        let is_size = letters.len() < word.len()
            && letters.len() < 4
            && word.bytes().filter(|byte| *byte == b'.').count() < 2
            && letters.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'%');
        is_size || VALUES.iter().any(|known| known.eq_ignore_ascii_case(word))
    };
    let mut words = text.split([' ', ',', ':', '/', '[', ']']).filter(|word| !word.is_empty());
    if words.all(is_plain) { text } else { "REDACTED" }
}

/// One of `known`, or a word for others.
fn one_of<'a>(text: &'a str, known: &[&str]) -> &'a str {
    if text.is_empty() || known.contains(&text) { text } else { "other" }
}

/// The settings of `kept`, with every name in them replaced.
pub(super) fn settings(
    settings: &BTreeMap<String, String>,
    kept: &[&str],
    separator: &str,
    names: &mut Names,
) -> String {
    let mut out = String::new();
    for name in kept {
        let Some(text) = settings.get(*name) else { continue };
        let text = match *name {
            "data_directory" => names.path(text),
            "path.data" => list(config::items(text).into_iter().map(|folder| names.path(folder))),
            // An unknown role may still be a data role.
            "node.roles" => list(config::items(text).into_iter().map(|role| match value(role) {
                "REDACTED" if role.starts_with("data") => "data_other".to_owned(),
                known => known.to_owned(),
            })),
            _ => value(text).to_owned(),
        };
        out += &format!("{name}{separator}{text}\n");
    }
    out
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// The heap in options of a JVM.
pub(super) fn heap<'a>(options: impl Iterator<Item = &'a str>) -> Vec<String> {
    let one = |option: &'a str| {
        let (versions, option) = config::of_versions(option.trim());
        let name = ["-Xms", "-Xmx"].into_iter().find(|name| option.starts_with(name))?;
        Some(format!("{versions}{name}{}", value(&option[name.len()..])))
    };
    options.filter_map(one).collect()
}

/// What a rule reads of a search node's command line.
pub(super) fn search_arguments(arguments: &[String], names: &mut Names) -> Vec<String> {
    let one = |argument: &String| {
        let main = [("org.elasticsearch.", "Elasticsearch"), ("org.opensearch.", "OpenSearch")]
            .into_iter()
            .find(|(package, _)| argument.starts_with(package));
        if let Some((package, class)) = main {
            let is_node = argument.contains(".bootstrap.");
            return Some(if is_node {
                format!("{package}bootstrap.{class}")
            } else {
                format!("{package}other")
            });
        }
        let (name, path) = argument.split_once('=')?;
        let is_path = ["-Des.path.", "-Dopensearch.path."]
            .iter()
            .any(|prefix| name.strip_prefix(prefix).is_some_and(|name| ["conf", "home"].contains(&name)));
        is_path.then(|| format!("{name}={}", names.path(path)))
    };
    let mut kept = heap(arguments.iter().map(String::as_str));
    kept.extend(arguments.iter().filter_map(one));
    kept
}

/// Where a PostgreSQL server keeps its files. Its settings are kept with those of its configuration file.
pub(super) fn postgres_arguments(arguments: &[String], names: &mut Names) -> Vec<String> {
    let mut kept = Vec::new();
    if let Some(folder) = config::postgres_folder(arguments) {
        kept.extend(["-D".to_owned(), names.path(&folder)]);
    }
    let set = config::postgres_arguments(arguments);
    if let Some((_, file)) = set.iter().rfind(|(name, _)| name == "config_file") {
        kept.extend(["-c".to_owned(), format!("config_file={}", names.path(file))]);
    }
    kept
}

/// What a rule reads of QEMU's command line: its tap devices, and whether its memory is of huge pages, mounted
/// at one of `pools`.
pub(super) fn monitor_arguments(arguments: &[String], pools: &[&str], names: &mut Names) -> Vec<String> {
    let mut kept = Vec::new();
    for argument in arguments {
        if argument.starts_with("tap,") || argument.contains("\"type\":\"tap\"") {
            let fast = ["vhost=on", "vhostfd", "\"vhost\":true"].iter().any(|word| argument.contains(word));
            kept.push(if fast { "tap,vhost=on" } else { "tap," }.to_owned());
        }
        if argument.contains("mem-path") {
            let pool = pools.iter().filter(|pool| argument.contains(**pool)).max_by_key(|pool| pool.len());
            kept.push(format!("mem-path={}", pool.map(|pool| names.path(pool)).unwrap_or_default()));
        }
        if argument.contains("hugetlb=on") {
            kept.push("hugetlb=on".to_owned());
        }
    }
    kept
}

/// The lines that begin with one of `names`, of which only numbers can follow.
pub(super) fn rows(text: &str, names: &[&str]) -> Vec<u8> {
    lines(text, |line| names.iter().any(|name| line.starts_with(name)).then(|| line.to_owned())).into_bytes()
}

/// A virtual machine as a rule sees it. A text that is no definition stays invalid.
pub(super) fn machine(text: &str, names: &mut Names) -> String {
    let Ok(machine) = vm::libvirt(text) else { return "<domain>".to_owned() };
    let Machine { vcpus, memory_mib, cpu_mode, pinned_vcpus, .. } = &machine;
    let mut out = format!(
        "<domain><name>{}</name><vcpu>{vcpus}</vcpu><memory>{}</memory><iothreads>{}</iothreads>",
        names.machine(&machine.name),
        memory_mib * 1024.0,
        machine.io_threads
    );
    let mut add = |is_so: bool, element: &str| out += if is_so { element } else { "" };
    let mode = one_of(cpu_mode, &["custom", "host-model", "host-passthrough", "maximum"]);
    add(!mode.is_empty(), &format!("<cpu mode='{mode}'/>"));
    add(true, "<cputune>");
    (0..*pinned_vcpus).for_each(|_| add(true, "<vcpupin/>"));
    add(machine.emulator_pinned, "<emulatorpin/>");
    add(true, "</cputune>");
    add(machine.numa_tuned, "<numatune/>");
    add(machine.huge_pages, "<memoryBacking><hugepages/></memoryBacking>");
    let present = |hpet| if hpet { "yes" } else { "no" };
    if let Some(hpet) = machine.hpet {
        add(true, &format!("<clock><timer name='hpet' present='{}'/></clock>", present(hpet)));
    }
    add(true, "<devices>");
    for interface in &machine.interfaces {
        let models = ["virtio", "e1000", "e1000e", "igb", "ne2k_pci", "rtl8139", "vmxnet3"];
        add(true, if interface.passed_through { "<interface type='hostdev'>" } else { "<interface>" });
        add(true, &format!("<model type='{}'/>", one_of(&interface.model, &models)));
        let driver = one_of(&interface.driver, &["qemu", "vfio", "vhost"]);
        add(true, &format!("<driver name='{driver}' queues='{}'/></interface>", interface.queues));
    }
    for disk in &machine.disks {
        let buses = ["fdc", "ide", "nvme", "sata", "scsi", "sd", "usb", "virtio", "xen"];
        let caches = ["default", "directsync", "none", "unsafe", "writeback", "writethrough"];
        add(true, if disk.is_cdrom { "<disk device='cdrom'>" } else { "<disk>" });
        let (target, bus) = (names.disk(&disk.target), one_of(&disk.bus, &buses));
        add(true, &format!("<target dev='{target}' bus='{bus}'/>"));
        let io = one_of(&disk.io, &["io_uring", "native", "threads"]);
        let cache = one_of(&disk.cache, &caches);
        let thread = if disk.io_thread { " iothread='1'" } else { "" };
        add(true, &format!("<driver cache='{cache}' io='{io}' queues='{}'{thread}/></disk>", disk.queues));
    }
    add(true, "</devices></domain>");
    out
}

/// What replaces names in the files of one host.
pub(super) struct Redactor {
    pub(super) names: Names,
    /// Network devices, and what they are attached to, whose names stand in the table of interrupts.
    renamed: Vec<(String, String)>,
}

impl Redactor {
    pub(super) fn new(tree: &Tree) -> Redactor {
        let mut names = Names::new(tree.list("sys/block").unwrap_or_default());
        let mut renamed = Vec::new();
        for nic in tree.list("sys/class/net").unwrap_or_default() {
            if let Ok(device) = tree.link(&format!("sys/class/net/{nic}/device")) {
                let bus = device.rsplit('/').next().unwrap_or_default();
                renamed.push((bus.to_owned(), names.bus(bus)));
            }
            let now = names.nic(&nic);
            renamed.push((nic, now));
        }
        renamed.retain(|(was, now)| was != now && !was.is_empty());
        Redactor { names, renamed }
    }

    /// A file under its new path, and what is kept of it.
    pub(super) fn file(&mut self, path: &str, text: &str) -> (String, String) {
        (self.place(path), self.content(path, text))
    }

    /// A symbolic link, of which the last part matters.
    pub(super) fn link(&mut self, path: &str, target: &str) -> (String, String) {
        let last = target.rsplit('/').next().unwrap_or_default();
        let parts: Vec<&str> = path.split('/').collect();
        let target = match parts[..] {
            ["sys", "class", "net", _, "master"] => self.names.nic(last),
            ["sys", "class", "net", _, "device"] => self.names.bus(last),
            ["sys", "class", "net", ..] => last.to_owned(),
            _ => self.names.disk(last),
        };
        (format!("{}.link", self.place(path)), format!("../{target}"))
    }

    fn place(&mut self, path: &str) -> String {
        let parts: Vec<&str> = path.split('/').collect();
        let names = &mut self.names;
        match parts[..] {
            ["sys", "class", "net", nic, ..] => {
                path.replacen(&format!("/net/{nic}"), &format!("/net/{}", names.nic(nic)), 1)
            }
            ["proc", "net", "bonding", bond] => format!("proc/net/bonding/{}", names.nic(bond)),
            ["sys", "block", disk, ref rest @ ..] => {
                let disk = names.disk(disk);
                let rest = match rest {
                    ["slaves", member] => format!("slaves/{}", names.disk(member)),
                    rest => rest.join("/"),
                };
                format!("sys/block/{disk}/{rest}")
            }
            [root @ ("proc" | "sys"), "fs", "ext4", disk, file] => {
                format!("{root}/fs/ext4/{}/{file}", names.disk(disk))
            }
            ["sys", "fs", "cgroup", ref group @ ..] => {
                format!("sys/fs/cgroup/{}", names.group(&group.join("/")))
            }
            ["dev", ..] => names.device(&format!("/{path}")).trim_start_matches('/').to_owned(),
            ["commands", command] => match command.split_once('.') {
                Some(("ebs-stats", disk)) => format!("commands/ebs-stats.{}", names.disk(disk)),
                Some((command, nic)) => format!("commands/{command}.{}", names.nic(nic)),
                None => path.to_owned(),
            },
            _ => path.to_owned(),
        }
    }

    fn content(&mut self, path: &str, text: &str) -> String {
        let parts: Vec<&str> = path.split('/').collect();
        match parts[..] {
            ["proc", "mounts"] | ["etc", "fstab"] => self.mounts(text),
            ["proc", "self", "mountinfo"] => lines(text, |line| self.mountinfo(line)),
            ["proc", "fs", "ext4", _, "options"] => {
                lines(text, |option| mount_option(option, &mut self.names))
            }
            ["proc", "swaps"] => lines(text, |line| {
                Some(if line.starts_with("Filename") { "Filename" } else { "swap" }.to_owned())
            }),
            ["proc", "cmdline"] => kernel_options(text),
            ["proc", "cpuinfo"] => cpuinfo(text),
            ["proc", "version"] => builder(text),
            ["proc", "sys", "kernel", "osrelease"] => format!("{}\n", version(text)),
            ["proc", "mdstat"] => self.arrays(text),
            ["proc", "diskstats"] => lines(text, |line| self.diskstats(line)),
            ["proc", "interrupts"] => lines(text, |line| Some(self.interrupt(line))),
            ["proc", "net", "bonding", _] => lines(text, |line| self.bond(line)),
            ["etc", "default" | "sysconfig", "irqbalance"] => irqbalance(text),
            ["sys", "class", "dmi", "id", "sys_vendor"] => vendor(text),
            ["sys", "class", "dmi", "id", "product_name"] => product(text).to_owned(),
            ["sys", "block", _, "device", "model"] => model(text).to_owned(),
            ["sys", "block", _, "device", "vendor"] => {
                one_of(text.trim(), &["ATA", "NVMe", "QEMU"]).to_owned()
            }
            ["commands", command] => self.printed(command, text),
            _ => text.to_owned(),
        }
    }

    fn mounts(&mut self, text: &str) -> String {
        let mut out = String::new();
        for mount in facts::mounts(text) {
            let source = self.names.source(&mount.device, &mount.kind);
            let point = self.names.path(&mount.point);
            let kind = self.names.kind(&mount.kind);
            let options = mount_options(&mount.options, &mut self.names);
            let _ = writeln!(out, "{source} {point} {kind} {options} 0 0");
        }
        out
    }

    fn mountinfo(&mut self, line: &str) -> Option<String> {
        let (at, mount) = facts::mountinfo_line(line)?;
        let info = mount.info?;
        let names = &mut self.names;
        let (root, point) = (names.path(&facts::unescape(&info.root)), names.path(&mount.point));
        let (source, kind) = (names.source(&mount.device, &mount.kind), names.kind(&mount.kind));
        let flags = mount_options(&info.flags, names);
        let shared = mount_options(&info.shared, names);
        Some(format!(
            "{} {} {} {root} {point} {flags} - {kind} {source} {shared}",
            at.id, at.parent, info.number
        ))
    }

    fn arrays(&mut self, text: &str) -> String {
        let mut out = "Personalities :\n".to_owned();
        for array in facts::mdstat(text) {
            let _ = write!(out, "{} : active {}", self.names.disk(&array.name), array.level);
            for member in &array.members {
                let _ = write!(out, " {}[0]", self.names.disk(member));
            }
            out += if array.degraded { " (F)\n" } else { "\n" };
        }
        out
    }

    fn diskstats(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [major, minor, name, ref numbers @ ..] = words[..] else { return None };
        Some(format!("{major} {minor} {} {}", self.names.disk(name), numbers.join(" ")))
    }

    fn interrupt(&mut self, line: &str) -> String {
        let mut line = line.to_owned();
        // A device of another namespace of networks is not among those in /sys.
        let lower = line.to_ascii_lowercase();
        if let Some(end) = ["-txrx-", "-rx-", "-tx-", "-fp-"].iter().find_map(|queue| lower.find(queue)) {
            let start = line[..end].rfind(['-', ' ']).map_or(0, |at| at + 1);
            line = format!("{}{}{}", &line[..start], self.names.nic(&line[start..end]), &line[end..]);
        }
        for (was, now) in &self.renamed {
            if line.contains(was.as_str()) {
                let parts = line.split_inclusive(['-', ':', '@', '/', ' ', ',']);
                let one = |part: &str| {
                    let name = part.trim_end_matches(['-', ':', '@', '/', ' ', ',']);
                    if name == was { part.replacen(was.as_str(), now, 1) } else { part.to_owned() }
                };
                // A name with a separator in it is not one of the parts.
                line = match was.contains(['-', ':', '@', '/']) {
                    true => line.replace(was.as_str(), now),
                    false => parts.map(one).collect(),
                };
            }
        }
        // Those of the CPUs themselves are explained by the kernel, and no device is named.
        let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
        let Some((id, rest)) = line.split_once(':').filter(|(id, _)| is_number(&id.trim())) else {
            return line;
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let counts = words.iter().take_while(|word| is_number(word)).count();
        let (counts, what) = (words[..counts].join(" "), words[counts..].join(" "));
        format!("{id}: {counts} {}", self.names.interrupt(&what))
    }

    fn bond(&mut self, line: &str) -> Option<String> {
        let (name, value) = line.split_once(": ")?;
        match name.trim() {
            "Bonding Mode" | "Transmit Hash Policy" | "MII Status" | "Speed" => Some(line.trim().to_owned()),
            "Slave Interface" => Some(format!("{name}: {}", self.names.nic(value.trim()))),
            _ => None,
        }
    }

    /// What a command prints, as far as a rule reads it.
    fn printed(&mut self, command: &str, text: &str) -> String {
        let names = &mut self.names;
        match command.split_once('.').map_or(command, |(command, _)| command) {
            "df" => lines(text, |line| {
                let words: Vec<&str> = line.rsplitn(4, ' ').collect();
                let [free, total, kind, point] = words[..] else { return None };
                Some(format!("{} {} {total} {free}", names.path(point), names.kind(kind)))
            }),
            "zfs-get" => lines(text, |line| {
                let words: Vec<&str> = line.split('\t').collect();
                let [dataset, property, of, ..] = words[..] else { return None };
                Some(format!("{}\t{property}\t{}", names.path(dataset), value(of)))
            }),
            "zpool-ashift" => lines(text, |line| {
                let words: Vec<&str> = line.split('\t').collect();
                let [pool, "ashift", of, ..] = words[..] else { return None };
                Some(format!("{}\tashift\t{}", names.path(pool), value(of)))
            }),
            "tc-qdisc" => lines(text, |line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let after = |name: &str| words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
                match words[..] {
                    ["qdisc", kind, handle, "dev", dev, ..] => {
                        let parent =
                            after("parent").map_or("root".to_owned(), |parent| format!("parent {parent}"));
                        Some(format!("qdisc {kind} {handle} dev {} {parent}", names.nic(dev)))
                    }
                    ["Sent", ..] => Some(format!(" Sent (dropped {}", after("(dropped")?)),
                    _ => None,
                }
            }),
            "ss" => match facts::connections(text) {
                Some(connections) => connections.iter().map(connection).collect(),
                None => "none\n".to_owned(),
            },
            "ebs-stats" => match facts::ebs_exceeded(text) {
                Some((volume, instance)) => {
                    format!("volume exceeded: {volume}\ninstance exceeded: {instance}\n")
                }
                None => "none\n".to_owned(),
            },
            "ethtool" => match facts::supported_speed(text) {
                Some(speed) => format!("Supported link modes: {speed}baseT/Full\n"),
                None => String::new(),
            },
            "ethtool-S" => lines(text, |line| {
                let (name, count) = line.rsplit_once(':')?;
                let count: f64 = count.trim().parse().ok()?;
                Some(format!("{}: {count}", name.trim()))
            }),
            "ethtool-k" => lines(text, |line| {
                let (name, state) = line.split_once(": ")?;
                let is_fixed = state.trim_end().ends_with("[fixed]");
                let mut words = state.split_whitespace();
                let state = words.next().filter(|state| ["on", "off"].contains(state))?;
                let why = match words.next() {
                    None => "",
                    Some(_) if is_fixed => " [fixed]",
                    Some(_) => " [requested]",
                };
                Some(format!("{name}: {state}{why}"))
            }),
            "ethtool-l" | "ethtool-g" => lines(text, |line| {
                if line.starts_with("Current hardware settings") {
                    return Some("Current hardware settings:".to_owned());
                }
                let (name, count) = line.split_once(':')?;
                let count: u32 = count.trim().parse().ok()?;
                Some(format!("{name}:\t{count}"))
            }),
            _ => String::new(),
        }
    }
}

fn lines(text: &str, mut one: impl FnMut(&str) -> Option<String>) -> String {
    text.lines().filter_map(|line| one(line).map(|line| line + "\n")).collect()
}

fn mount_options(options: &[String], names: &mut Names) -> String {
    let kept: Vec<String> = options.iter().filter_map(|option| mount_option(option, names)).collect();
    if kept.is_empty() { "defaults".to_owned() } else { kept.join(",") }
}

fn mount_option(option: &str, names: &mut Names) -> Option<String> {
    match option.split_once('=') {
        Some(("subvol", folder)) => Some(format!("subvol={}", names.path(&facts::unescape(folder)))),
        Some((name, of)) if MOUNT_VALUES.contains(&name) => Some(format!("{name}={}", value(of))),
        _ => MOUNT_OPTIONS.contains(&option).then(|| option.to_owned()),
    }
}

fn kernel_options(text: &str) -> String {
    let one = |word: &str| {
        let (name, of) = word.split_once('=')?;
        KERNEL_OPTIONS.contains(&name).then(|| format!("{name}={}", value(of)))
    };
    text.split_whitespace().filter_map(one).collect::<Vec<_>>().join(" ") + "\n"
}

/// Flags of the first CPU, one of which says that this is a virtual machine.
fn cpuinfo(text: &str) -> String {
    let is_kept = |line: &&str| ["flags", "Features"].iter().any(|name| line.starts_with(name));
    text.lines().find(is_kept).map_or_else(|| "flags :\n".to_owned(), |line| format!("{line}\n"))
}

/// The distributions whose kernels a rule knows.
fn builder(text: &str) -> String {
    let number = text.split_whitespace().nth(2).map_or("", version);
    let known = ["Debian", "Ubuntu", "Fedora", "Red Hat"].into_iter().find(|who| text.contains(who));
    format!("Linux version {number} {}\n", known.unwrap_or_default())
}

fn irqbalance(text: &str) -> String {
    lines(text, |line| {
        line.trim_start()
            .starts_with("IRQBALANCE_BANNED_CPU")
            .then(|| "IRQBALANCE_BANNED_CPULIST=".to_owned())
    })
}

fn vendor(text: &str) -> String {
    let known = [
        "Amazon EC2",
        "Google",
        "KVM",
        "Microsoft Corporation",
        "OpenStack Foundation",
        "QEMU",
        "VMware, Inc.",
        "Xen",
    ];
    one_of(text.trim(), &known).to_owned()
}

fn product(text: &str) -> &'static str {
    ["metal", "Virtual"].into_iter().find(|known| text.contains(known)).unwrap_or("other")
}

fn model(text: &str) -> &'static str {
    let text = text.trim();
    let known =
        ["Amazon Elastic Block Store", "QEMU HARDDISK"].into_iter().find(|known| text.starts_with(known));
    let part = || ["Instance Storage", "nvme_card"].into_iter().find(|known| text.contains(known));
    known.or_else(part).unwrap_or("other")
}

fn connection(one: &facts::Connection) -> String {
    format!(
        "rtt:0 minrtt:{} bytes_acked:{} busy:{}ms rwnd_limited:{}ms sndbuf_limited:{}ms\n",
        one.minrtt_ms, one.moved, one.busy_ms, one.rwnd_limited_ms, one.sndbuf_limited_ms
    )
}
