//! Parsers of a host's files. All are total: any text gives a value, without the parts that could not be
//! parsed, and memory use is a small multiple of the text.

use std::collections::{BTreeMap, BTreeSet};

pub(crate) mod config;
pub mod interrupts;
pub(crate) mod vm;

/// CPUs that any list or mask may name.
pub(crate) const CPUS_MAX: u32 = 8192;

/// The CPUs of a kernel list such as `0-3,8` (also `0-31:2/4`, read as `0-31`).
pub fn cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let part = part.split(':').next().unwrap_or("").trim().trim_start_matches('^');
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.parse::<u32>(), to.parse::<u32>()) {
            cpus.extend(from..to.saturating_add(1).min(CPUS_MAX));
        }
        if cpus.len() > CPUS_MAX as usize {
            break;
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// The CPUs of a kernel mask such as `00000000,0000ffff`.
pub(crate) fn cpu_mask(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for (group, word) in text.trim().rsplit(',').take((CPUS_MAX / 32) as usize).enumerate() {
        let word = u32::from_str_radix(word.trim(), 16).unwrap_or(0);
        cpus.extend((0..32).filter(|bit| word >> bit & 1 == 1).map(|bit| group as u32 * 32 + bit));
    }
    cpus
}

/// The mask of these CPUs as the kernel writes it: groups of 32 bits, most significant first.
pub fn mask_of(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(1, |max| max / 32 + 1);
    let word = |group: u32| {
        cpus.iter().filter(|cpu| *cpu / 32 == group).fold(0u32, |word, cpu| word | 1 << (cpu % 32))
    };
    let words: Vec<String> = (0..groups).rev().map(|group| format!("{:08x}", word(group))).collect();
    words.join(",")
}

/// `1 / sum(p^2)`: how many CPUs would share the work equally for the same concentration (the inverse
/// Herfindahl index). 0 without work.
pub fn effective(counts: &[f64]) -> f64 {
    let total: f64 = counts.iter().sum();
    if total <= 0.0 {
        return 0.0;
    }
    1.0 / counts.iter().map(|count| (count / total).powi(2)).sum::<f64>()
}

/// Rows of a name and numbers: `cpu0 1 2 3`, `node_hit 7`, `NET_RX: 1 2`, `MemTotal: 8 kB`.
pub(crate) fn rows(text: &str) -> BTreeMap<String, Vec<f64>> {
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let numbers = words.map_while(|word| word.parse().ok()).collect();
        rows.insert(name.trim_end_matches(':').to_owned(), numbers);
    }
    rows
}

/// `/proc/net/snmp` and `netstat`: a line of names, then a line of values, each after the same prefix.
pub(crate) fn paired_lines(text: &str) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.windows(2) {
        let (Some((a, names)), Some((b, numbers))) = (pair[0].split_once(':'), pair[1].split_once(':'))
        else {
            continue;
        };
        if a == b {
            for (name, number) in names.split_whitespace().zip(numbers.split_whitespace()) {
                if let Ok(number) = number.parse() {
                    values.entry(format!("{a}.{name}")).or_insert(number);
                }
            }
        }
    }
    values
}

/// A CPU's row of `/proc/net/softnet_stat`. Its counters have 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Softnet {
    pub(crate) cpu: u32,
    pub(crate) packets: u32,
    pub(crate) dropped: u32,
    /// Times that the budget of a round was used up.
    pub(crate) squeezed: u32,
}

/// `/proc/net/softnet_stat`: a row for each online CPU, whose number is in column 13 since Linux 5.10.
pub(crate) fn softnet(text: &str) -> Vec<Softnet> {
    let row = |(at, line): (usize, &str)| {
        let words: Vec<u32> =
            line.split_whitespace().map_while(|w| u32::from_str_radix(w, 16).ok()).collect();
        let [packets, dropped, squeezed, ..] = words[..] else { return None };
        let cpu = words.get(12).copied().unwrap_or(at as u32);
        Some(Softnet { cpu, packets, dropped, squeezed })
    };
    text.lines().take(CPUS_MAX as usize).enumerate().filter_map(row).collect()
}

/// `some avg10=…` of a pressure file, in percent.
pub(crate) fn pressure(text: &str, kind: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(kind))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
}

/// A line of `/proc/diskstats`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) reads: f64,
    pub(crate) read_sectors: f64,
    pub(crate) read_ms: f64,
    pub(crate) writes: f64,
    pub(crate) write_sectors: f64,
    pub(crate) write_ms: f64,
    pub(crate) busy_ms: f64,
}

/// The names of block devices by their numbers (`8:1`), from `/proc/diskstats`.
pub(crate) fn device_numbers(text: &str) -> BTreeMap<String, &str> {
    let lines = text.lines().map(|line| line.split_whitespace().take(3).collect::<Vec<_>>());
    let one = |words: Vec<_>| match words[..] {
        [major, minor, name] => Some((format!("{major}:{minor}"), name)),
        _ => None,
    };
    lines.filter_map(one).collect()
}

/// `/proc/diskstats` by device name (Documentation/admin-guide/iostats.rst).
pub(crate) fn diskstats(text: &str) -> BTreeMap<String, Disk> {
    let mut disks = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().take(13).collect();
        let [_, _, name, numbers @ ..] = words.as_slice() else { continue };
        let n: Vec<f64> = numbers.iter().map_while(|word| word.parse().ok()).collect();
        if let [reads, _, read_sectors, read_ms, writes, _, write_sectors, write_ms, _, busy_ms, ..] = n[..] {
            let disk = Disk { reads, read_sectors, read_ms, writes, write_sectors, write_ms, busy_ms };
            disks.insert((*name).to_owned(), disk);
        }
    }
    disks
}

/// A mounted file system, or a line of fstab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) device: String,
    pub(crate) point: String,
    pub(crate) kind: String,
    /// As `/proc/mounts` shows them: `ro` where the mount or its file system is read-only.
    pub(crate) options: Vec<String>,
    /// Whether these are all: tables of mounts lack what is a default in the superblock of an ext4.
    pub(crate) is_complete: bool,
    /// Where `mountinfo` was read.
    pub(crate) info: Option<MountInfo>,
}

/// What only `/proc/self/mountinfo` says of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountInfo {
    /// The device number of the file system (`8:1`), the same for all of its mounts.
    pub(crate) number: String,
    /// The directory of the file system that is mounted, escaped.
    pub(crate) root: String,
    /// Options of this mount, `ro` or `rw` first.
    pub(crate) flags: Vec<String>,
    /// Options of the file system, `ro` or `rw` first.
    pub(crate) shared: Vec<String>,
    /// Whether something is mounted over it, so its path leads elsewhere.
    pub(crate) is_hidden: bool,
}

impl Mount {
    pub(crate) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|o| o == option)
    }

    pub(crate) fn value(&self, option: &str) -> Option<&str> {
        self.options.iter().find_map(|o| o.strip_prefix(option)?.strip_prefix('='))
    }

    /// Whether its path leads to it, as far as known.
    pub(crate) fn is_visible(&self) -> bool {
        self.info.as_ref().is_none_or(|info| !info.is_hidden)
    }

    /// Whether a remount of the file system at this mount keeps both read-only or both writable.
    pub(crate) fn is_remountable(&self) -> bool {
        self.is_visible() && self.info.as_ref().is_some_and(|info| info.flags.first() == info.shared.first())
    }

    /// Whether device flushes are left out.
    pub(crate) fn is_nobarrier(&self) -> bool {
        self.has("nobarrier") || self.has("barrier=0")
    }
}

/// `/proc/mounts` or `/etc/fstab`.
pub(crate) fn mounts(text: &str) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let mut words = line.split_whitespace();
        if let (Some(device), Some(point), Some(kind)) = (words.next(), words.next(), words.next()) {
            let options = words.next().unwrap_or("").split(',').map(str::to_owned).collect();
            mounts.push(Mount {
                device: unescape(device),
                point: unescape(point),
                kind: kind.to_owned(),
                options,
                is_complete: kind != "ext4",
                info: None,
            });
        }
    }
    mounts
}

/// Bytes of a path, and mounts below each other, beyond which a mount counts as hidden.
const PATH_BYTES_MAX: usize = 4096;
const NESTED_MAX: usize = 64;

/// `/proc/self/mountinfo`.
pub(crate) fn mountinfo(text: &str) -> Vec<Mount> {
    let lines: Vec<(MountId, Mount)> = text.lines().filter_map(mountinfo_line).collect();
    let parents: BTreeMap<u64, u64> =
        lines.iter().filter(|(at, _)| at.id != at.parent).map(|(at, _)| (at.id, at.parent)).collect();
    // Which mounts have something mounted on them, and where.
    let covers: BTreeSet<(u64, &str)> = lines
        .iter()
        .filter(|(at, _)| at.id != at.parent)
        .map(|(at, mount)| (at.parent, &*mount.point))
        .collect();
    // Those on a directory that is itself covered.
    let is_below_cover = |(at, mount): &&(MountId, Mount)| {
        mount.point.len() > PATH_BYTES_MAX
            || above(&mount.point).any(|folder| covers.contains(&(at.parent, folder)))
    };
    let below: BTreeSet<u64> = lines.iter().filter(is_below_cover).map(|(at, _)| at.id).collect();
    let is_hidden = |(at, mount): &(MountId, Mount)| {
        let mut ancestors = std::iter::successors(Some(at.id), |id| parents.get(id).copied());
        covers.contains(&(at.id, &*mount.point))
            || ancestors.by_ref().take(NESTED_MAX).any(|id| below.contains(&id))
            || ancestors.next().is_some()
    };
    let hidden: Vec<bool> = lines.iter().map(is_hidden).collect();
    let mut mounts: Vec<Mount> = lines.into_iter().map(|(_, mount)| mount).collect();
    for (mount, is_hidden) in mounts.iter_mut().zip(hidden) {
        if let Some(info) = &mut mount.info {
            info.is_hidden = is_hidden;
        }
    }
    mounts
}

/// The number of a mount, and of the one that it is on.
pub(crate) struct MountId {
    pub(crate) id: u64,
    pub(crate) parent: u64,
}

pub(crate) fn mountinfo_line(line: &str) -> Option<(MountId, Mount)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut words = mount.split(' ');
    let at = MountId { id: words.next()?.parse().ok()?, parent: words.next()?.parse().ok()? };
    let (number, root, point, flags) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let mut words = file_system.split(' ');
    let (kind, device, shared) = (words.next()?, words.next()?, words.next()?);
    let list = |text: &str| -> Vec<String> { text.split(',').map(str::to_owned).collect() };
    let (flags, shared) = (list(flags), list(shared));
    let is_read_only = [&flags, &shared].iter().any(|options| options.iter().any(|option| option == "ro"));
    let mut options = vec![if is_read_only { "ro" } else { "rw" }.to_owned()];
    let is_mode = |option: &&String| *option == "ro" || *option == "rw";
    options.extend(flags.iter().chain(&shared).filter(|option| !is_mode(option)).cloned());
    let info =
        MountInfo { number: number.to_owned(), root: root.to_owned(), flags, shared, is_hidden: false };
    let (device, point) = (unescape(device), unescape(point));
    let (kind, is_complete) = (kind.to_owned(), kind != "ext4");
    Some((at, Mount { device, point, kind, options, is_complete, info: Some(info) }))
}

/// The directories above a path.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at.max(1)]).filter(move |folder| *folder != path)
}

/// The octal escapes of mount tables (`\040` is a space).
pub(crate) fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let Some((first, rest)) = bytes.split_first() {
        let octal = rest.get(..3).filter(|_| *first == b'\\').and_then(|d| std::str::from_utf8(d).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            out.push(byte);
            bytes = &rest[3..];
        } else {
            out.push(*first);
            bytes = rest;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The word in brackets: the chosen one of `none [mq-deadline] kyber`, or the only one.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    let text = text.trim();
    match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some((chosen, _)) => Some(chosen),
        None if !text.is_empty() && !text.contains(' ') => Some(text),
        None => None,
    }
}

/// The first two numbers of a kernel release: `6.18.44-fc` is (6, 18).
pub(crate) fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.trim().split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// A column of `ethtool -l` or `-g`: (largest, current) of `name`.
pub(crate) fn ethtool_pair(text: &str, name: &str) -> Option<(u32, u32)> {
    let (most, now) = text.split_once("Current hardware settings")?;
    let value = |part: &str| {
        let line = part.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().parse().ok()
    };
    Some((value(most)?, value(now)?))
}

/// `name: number` lines, as of `ethtool -S`.
pub(crate) fn counters(text: &str) -> BTreeMap<String, f64> {
    let pair = |line: &str| {
        let (name, value) = line.trim().rsplit_once(':')?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// A TCP connection of `ss -tin`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Connection {
    /// The shortest round trip.
    pub(crate) minrtt_ms: f64,
    /// Bytes sent and acknowledged, or received, whichever is more.
    pub(crate) moved: f64,
    /// Time with data to send, and the parts of it that waited for a window or a buffer.
    pub(crate) busy_ms: f64,
    pub(crate) rwnd_limited_ms: f64,
    pub(crate) sndbuf_limited_ms: f64,
}

/// `ss -tinH`: a line of addresses and an indented line of values for each connection. None where lines are there
/// and none of them has values.
pub(crate) fn connections(text: &str) -> Option<Vec<Connection>> {
    let value = |line: &str, name: &str| {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix(':'))?;
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        word[..end].parse::<f64>().ok()
    };
    let one = |line: &str| {
        let get = |name: &str| value(line, name).unwrap_or(0.0);
        value(line, "rtt")?;
        Some(Connection {
            minrtt_ms: get("minrtt"),
            moved: get("bytes_acked").max(get("bytes_received")),
            busy_ms: get("busy"),
            rwnd_limited_ms: get("rwnd_limited"),
            sndbuf_limited_ms: get("sndbuf_limited"),
        })
    };
    let connections: Vec<Connection> = text.lines().filter_map(one).collect();
    (!connections.is_empty() || text.trim().is_empty()).then_some(connections)
}

/// `tc -s qdisc show`: kind, device and dropped packets of each discipline, by what names it. None without any.
pub(crate) fn qdiscs(text: &str) -> Option<BTreeMap<String, (String, String, f64)>> {
    let mut disciplines = BTreeMap::new();
    let mut last: Option<(String, String, String)> = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["qdisc", kind, handle, "dev", dev, ..] => {
                let parent = words.windows(2).find(|pair| pair[0] == "parent").map_or("root", |pair| pair[1]);
                last = Some((format!("{dev} {handle} {parent}"), kind.to_owned(), dev.to_owned()));
            }
            ["Sent", ..] => {
                let dropped = words.windows(2).find(|pair| pair[0] == "(dropped");
                let dropped = dropped.and_then(|pair| pair[1].trim_end_matches(',').parse().ok());
                if let (Some((key, kind, dev)), Some(dropped)) = (last.take(), dropped) {
                    disciplines.insert(key, (kind, dev, dropped));
                }
            }
            _ => {}
        }
    }
    (!disciplines.is_empty()).then_some(disciplines)
}

/// A bond of `/proc/net/bonding`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bond {
    pub(crate) mode: String,
    pub(crate) policy: Option<String>,
    pub(crate) members: Vec<BondMember>,
}

/// A device of a bond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BondMember {
    pub(crate) name: String,
    pub(crate) up: bool,
    /// `10000 Mbps`
    pub(crate) speed: String,
}

/// `/proc/net/bonding/BOND`. None without a mode, or with a member whose state is not told.
pub(crate) fn bond(text: &str) -> Option<Bond> {
    let mut bond = Bond::default();
    let mut told = 0;
    for line in text.lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        let value = value.trim().to_owned();
        match (name.trim(), bond.members.last_mut()) {
            ("Bonding Mode", _) => bond.mode = value,
            ("Transmit Hash Policy", _) => bond.policy = Some(value),
            ("Slave Interface", _) => bond.members.push(BondMember { name: value, ..BondMember::default() }),
            ("MII Status", Some(member)) => {
                member.up = value == "up";
                told += 1;
            }
            ("Speed", Some(member)) => member.speed = value,
            _ => {}
        }
    }
    (!bond.mode.is_empty() && told == bond.members.len()).then_some(bond)
}

/// The largest supported link mode of `ethtool DEV`, Mb/s.
pub(crate) fn supported_speed(text: &str) -> Option<f64> {
    let (_, modes) = text.split_once("Supported link modes:")?;
    let modes = modes.split_once("Supported pause").map_or(modes, |(modes, _)| modes);
    let speed = |mode: &str| mode.split_once("base")?.0.parse::<f64>().ok();
    modes.split_whitespace().filter_map(speed).max_by(f64::total_cmp)
}

/// A raid array of `/proc/mdstat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Array {
    pub(crate) name: String,
    pub(crate) level: String,
    pub(crate) members: Vec<String>,
    pub(crate) degraded: bool,
}

/// `/proc/mdstat`.
pub(crate) fn mdstat(text: &str) -> Vec<Array> {
    let mut arrays: Vec<Array> = Vec::new();
    for line in text.lines() {
        if let Some((name, rest)) = line.split_once(" : ").filter(|(name, _)| name.trim().starts_with("md")) {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let level =
                words.iter().find(|w| w.starts_with("raid") || **w == "linear").copied().unwrap_or("");
            let member = |word: &&str| word.split_once('[').map(|(name, _)| name.to_owned());
            let members = words.iter().filter_map(member).collect();
            let degraded = rest.contains("(F)") || rest.starts_with("inactive");
            arrays.push(Array { name: name.trim().to_owned(), level: level.to_owned(), members, degraded });
        } else if let (Some(array), Some((_, state))) = (arrays.last_mut(), line.rsplit_once('[')) {
            // The last column of the second line: [UU_U], an underscore for each missing member.
            let state = state.trim_end_matches(']');
            array.degraded |= state.contains('_') && state.chars().all(|c| c == 'U' || c == '_');
        }
    }
    arrays
}

/// Exceeded-performance counters of EBS in microseconds: (volume, instance), from `ebsnvme stats` or
/// `nvme amzn stats`, as text or JSON.
pub(crate) fn ebs_exceeded(text: &str) -> Option<(f64, f64)> {
    let mut sums: [Option<f64>; 2] = [None, None];
    let mut section = None;
    for line in text.lines() {
        let lower = line.to_ascii_lowercase();
        let number =
            line.rsplit([':', ' ']).find_map(|word| word.trim_matches([' ', ',', '"']).parse::<f64>().ok());
        if lower.contains("exceeded") {
            section = Some(usize::from(lower.contains("instance")));
        } else if !lower.contains("iops") && !lower.contains("throughput") {
            section = None;
        }
        if let (Some(which), Some(number)) = (section, number) {
            sums[which] = Some(sums[which].unwrap_or(0.0) + number);
        }
    }
    Some((sums[0]?, sums[1]?))
}

#[cfg(test)]
mod tests;
