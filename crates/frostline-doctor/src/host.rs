//! The host that the rules examine, read from a tree, with counters read once or twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use frostline_model::catalogue::{Catalogue, Kind};
use frostline_model::{Limits, VolumeSpec};

use crate::facts::config::{self, Heap};
use crate::facts::interrupts::{Interrupts, Row};
use crate::facts::vm::{self, Machine, Offer};
use crate::facts::{self, Disk, Mount};
use crate::rule::Found;
use crate::tree::{Absent, Fact, TABLE_BYTES_MAX, Tree, Why};

/// What the classes of volumes are promised to do.
static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::latest);

/// Number of processes examined, those with the lowest ids.
const PROCESSES_MAX: usize = 8192;
/// Seconds from which a process is taken for a server.
const LASTING_S: f64 = 10.0;
/// Files that one PostgreSQL configuration may include.
const INCLUDES_MAX: usize = 64;

/// What a directory is for, which decides what its mount options may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// A write-ahead or transaction log: what was acknowledged must be there after a power cut.
    Log,
    /// A copy of what is safe elsewhere: may lose everything.
    Cache,
    /// Files of a database: must be consistent after a power cut.
    Database,
}

impl Role {
    fn strictness(self) -> u8 {
        match self {
            Role::Cache => 0,
            Role::Database => 1,
            Role::Log => 2,
        }
    }
}

/// What only the user knows.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Directories and what they are for; the longest prefix counts.
    pub roles: Vec<(String, Role)>,
    /// Devices and their class of cloud volume, such as `nvme1n1` and `st1`.
    pub volumes: Vec<(String, String)>,
}

/// A file system with all of its mounts.
#[derive(Debug)]
pub(crate) struct FileSystem<'a> {
    pub(crate) first: &'a Mount,
    pub(crate) mounts: Vec<&'a Mount>,
}

impl<'a> FileSystem<'a> {
    /// The mount through which its options can be changed without changing anything else.
    pub(crate) fn remountable(&self) -> Option<&'a Mount> {
        self.mounts.iter().copied().find(|mount| mount.is_remountable())
    }

    /// Where it is mounted, for a reader.
    pub(crate) fn points(&self) -> String {
        let points: Vec<&str> = self.mounts.iter().map(|mount| mount.point.as_str()).collect();
        points.join(", ")
    }

    /// A finding on it: its object is every mount, and the commands name the one that can be changed.
    pub(crate) fn found(&self, observed: impl Into<String>) -> Found {
        let found = Found::new(self.points(), observed).with("device", &self.first.device);
        let visible = || self.mounts.iter().copied().find(|mount| mount.is_visible());
        match self.remountable().or_else(visible) {
            Some(mount) => found.with("point", &mount.point),
            None => found,
        }
    }
}

/// A network device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nic {
    /// `eth0`; unknown when only `/proc/interrupts` is there.
    pub(crate) name: Option<String>,
    /// `virtio0` or a PCI address.
    pub(crate) bus: String,
    pub(crate) driver: String,
    pub(crate) rx_queues: usize,
    pub(crate) tx_queues: usize,
    /// The interrupt vectors that the driver has for receive queues, if interrupts are known.
    pub(crate) vectors: usize,
}

/// A block device that is not a loop device, RAM or a partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) name: String,
    pub(crate) bytes: f64,
    pub(crate) queues: usize,
    pub(crate) model: String,
    /// `st1`, `gp3`, as the user said.
    pub(crate) class: Option<String>,
}

/// A process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// The last part of the program's path, else what the kernel calls it.
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
}

/// A PostgreSQL server, or a configuration of one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Postgres {
    /// Its `postgresql.conf`.
    pub(crate) config: String,
    /// Its data directory, if that is known.
    pub(crate) data: Option<String>,
    /// What is in effect of its files (with `ALTER SYSTEM`) and its command line; the last one of a name wins.
    pub(crate) settings: BTreeMap<String, String>,
}

/// Where a virtual machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cloud {
    Amazon,
    Google,
    Azure,
    OpenStack,
    Other,
}

/// What a disk did between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskLoad {
    /// Requests that read.
    pub reads: f64,
    /// Bytes of them.
    pub read_bytes: f64,
    /// Requests that wrote.
    pub writes: f64,
    /// Bytes of them.
    pub write_bytes: f64,
}

/// What the kernel counts in, whatever the device's own sectors are.
const SECTOR_BYTES: f64 = 512.0;

/// One host. What was expensive to parse is parsed once; the rest is read when asked for.
#[derive(Debug)]
pub struct Host {
    tree: Tree,
    first: Option<Tree>,
    second: Option<Tree>,
    /// Seconds between the samples.
    pub(crate) seconds: f64,
    pub(crate) said: Said,
    /// What services keep where, by their arguments and settings.
    inferred: Vec<(String, Role)>,
    /// What of them could not be read.
    not_inferred: Option<Absent>,
    interrupts: Fact<Interrupts>,
    later_interrupts: Option<Fact<Interrupts>>,
    mounts: Fact<Vec<Mount>>,
    processes: Fact<Vec<Process>>,
    cpus: Fact<Vec<u32>>,
    machines: Fact<Vec<(String, Machine)>>,
}

impl Host {
    /// A host of which nothing was counted twice: rules that need rates are unknown.
    pub fn once(tree: Tree, said: Said) -> Host {
        Host::read(tree, None, None, 0.0, said)
    }

    /// A host whose counters were read from `first` and, `seconds` later, from `second`; everything else is
    /// in `tree`.
    pub fn twice(tree: Tree, first: Tree, second: Tree, seconds: f64, said: Said) -> Host {
        Host::read(tree, Some(first), Some(second), seconds, said)
    }

    fn read(tree: Tree, first: Option<Tree>, second: Option<Tree>, seconds: f64, said: Said) -> Host {
        let table = |tree: &Tree| -> Fact<Interrupts> {
            let text = tree.text_up_to("proc/interrupts", TABLE_BYTES_MAX)?;
            Interrupts::parse(&text)
                .ok_or_else(|| Absent::damaged("proc/interrupts", "has no header of CPUs"))
        };
        let interrupts = table(first.as_ref().unwrap_or(&tree));
        let later_interrupts = second.as_ref().filter(|_| seconds > 0.0).map(table);
        let mounts = mounts(&tree);
        let cpus = cpus(&tree, &interrupts);
        let machines = machines(&tree);
        let second = second.filter(|_| seconds > 0.0);
        tree.take_trouble();
        let processes = processes(&tree).and_then(|all| match tree.take_trouble() {
            Some(trouble) => Err(trouble),
            None => Ok(all),
        });
        let inferred = inferred(&tree, &processes);
        let trouble = tree.take_trouble();
        // Whose files are where is not known without the processes.
        let unread = processes.as_ref().err().filter(|absent| !absent.is_missing()).cloned();
        let not_inferred = unread.or(trouble).filter(|absent| absent.why != Why::Denied);
        Host {
            tree,
            first,
            second,
            seconds,
            said,
            inferred,
            not_inferred,
            interrupts,
            later_interrupts,
            mounts,
            processes,
            cpus,
            machines,
        }
    }

    /// The same host with files that are read before its own.
    #[must_use]
    pub(crate) fn with_files(mut self, files: BTreeMap<String, Vec<u8>>) -> Host {
        self.tree = self.tree.with_files(files);
        self
    }

    /// The tree of everything that is not a counter.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// What a check could not read, although it is there, since this was asked last.
    pub(crate) fn take_trouble(&self) -> Option<Absent> {
        let samples = [self.first.as_ref(), self.second.as_ref()].into_iter().flatten();
        // All of them, so that none is left for the next check.
        let troubles: Vec<Absent> =
            std::iter::once(&self.tree).chain(samples).filter_map(Tree::take_trouble).collect();
        troubles.into_iter().next()
    }

    /// What a file does not hold that should, as trouble: also for a rule that can do without.
    fn damaged(&self, path: &str, what: &str) -> Absent {
        let absent = Absent::damaged(path, what);
        self.tree.note(&absent);
        absent
    }

    /// A fact that was read before, as if it were read now.
    fn known<'a, T: ?Sized>(&'a self, fact: std::result::Result<&'a T, &'a Absent>) -> Fact<&'a T> {
        fact.map_err(|absent| {
            self.tree.note(absent);
            absent.clone()
        })
    }

    pub(crate) fn text(&self, path: &str) -> Fact<String> {
        self.tree.text(path)
    }

    /// A file of one word.
    pub(crate) fn word(&self, path: &str) -> Fact<String> {
        let text = self.tree.text(path)?;
        let word = text.lines().next().unwrap_or("").trim().to_owned();
        if word.is_empty() { Err(self.damaged(path, "is empty")) } else { Ok(word) }
    }

    /// A file of one number.
    pub(crate) fn number(&self, path: &str) -> Fact<f64> {
        let word = self.word(path)?;
        let number = word.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
        number.filter(|n| n.is_finite()).ok_or_else(|| self.damaged(path, "is not a number"))
    }

    /// A number, or `otherwise` where the kernel has no such file.
    pub(crate) fn number_or(&self, path: &str, otherwise: f64) -> Fact<f64> {
        match self.number(path) {
            Err(e) if e.is_missing() => Ok(otherwise),
            other => other,
        }
    }

    /// A counter file, parsed: what it held first, and later.
    pub(crate) fn twice_parsed<T>(&self, path: &str, parse: impl Fn(&str) -> T) -> Fact<(T, T)> {
        let second = self.second.as_ref().ok_or_else(|| Absent::new(path, Why::Once));
        let first = self.first.as_ref().unwrap_or(&self.tree).text(path)?;
        let second = second?.text(path)?;
        Ok((parse(&first), parse(&second)))
    }

    /// Days since boot.
    pub(crate) fn days_up(&self) -> Fact<f64> {
        Ok(self.number("proc/uptime")? / 86_400.0)
    }

    /// A counter file that has been read at least once: since boot.
    pub(crate) fn counted(&self, path: &str) -> Fact<String> {
        self.first.as_ref().unwrap_or(&self.tree).text(path)
    }

    /// The rate, per second, of each name of a file of rows with a name and numbers: the first number.
    pub(crate) fn rates(&self, path: &str) -> Fact<BTreeMap<String, f64>> {
        let (before, after) = self.twice_parsed(path, facts::rows)?;
        if after.is_empty() {
            return Err(Absent::damaged(path, "has no rows"));
        }
        let rate = |(name, now): (String, Vec<f64>)| {
            let was = before.get(&name)?.first()?;
            Some((name, (now.first()? - was).max(0.0) / self.seconds))
        };
        Ok(after.into_iter().filter_map(rate).collect())
    }

    /// The rate of a file of one number.
    pub(crate) fn rate_of(&self, path: &str) -> Fact<f64> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let (before, after) = self.twice_parsed(path, number)?;
        let rate = before.zip(after).map(|(before, after)| (after - before).max(0.0) / self.seconds);
        rate.ok_or_else(|| Absent::damaged(path, "is not a number"))
    }

    /// The numbers of CPUs that are online.
    pub(crate) fn cpus(&self) -> Fact<&[u32]> {
        self.known(self.cpus.as_deref())
    }

    /// The interrupts to judge: those between the samples if there were enough to judge by, else since
    /// boot. With them, their rate per second if it is known.
    pub(crate) fn interrupts(&self) -> Fact<&Interrupts> {
        self.known(self.interrupts.as_ref())
    }

    /// Interrupts of the rows that `which` takes, by column, and their rate per second if known. Those
    /// between the samples are judged if there were 1,000 of them, else all since boot.
    pub(crate) fn interrupts_of(&self, which: impl Fn(&Row) -> bool) -> Fact<(Vec<f64>, Option<f64>)> {
        let first = self.interrupts()?;
        let Some(later) = &self.later_interrupts else { return Ok((first.sum(which), None)) };
        let later = self.known(later.as_ref())?;
        let between = later.since(first).sum(&which);
        let total: f64 = between.iter().sum();
        let judged = if total >= 1000.0 { between } else { later.sum(which) };
        Ok((judged, Some(total / self.seconds)))
    }

    pub(crate) fn mounts(&self) -> Fact<&[Mount]> {
        self.known(self.mounts.as_deref())
    }

    /// The file systems, in the order in which they were mounted first.
    pub(crate) fn file_systems(&self) -> Fact<Vec<FileSystem<'_>>> {
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        let mut all: Vec<FileSystem<'_>> = Vec::new();
        for mount in self.mounts()? {
            // In captures without mountinfo, several file systems may share a source that is no device.
            let by_device = Some(mount.device.as_str()).filter(|device| device.starts_with("/dev/"));
            let key = mount.info.as_ref().map_or(by_device, |info| Some(info.number.as_str()));
            match key.map(|key| *known.entry(key).or_insert(all.len())) {
                Some(at) if at < all.len() => all[at].mounts.push(mount),
                _ => all.push(FileSystem { first: mount, mounts: vec![mount] }),
            }
        }
        Ok(all)
    }

    pub(crate) fn processes(&self) -> Fact<&[Process]> {
        self.known(self.processes.as_deref())
    }

    /// The servers of these names.
    pub(crate) fn running(&self, names: &[&str]) -> Fact<Vec<&Process>> {
        self.servers(|process| names.contains(&process.name.as_str()))
    }

    /// The search nodes.
    pub(crate) fn search_servers(&self) -> Fact<Vec<&Process>> {
        self.servers(Process::is_search)
    }

    /// Whether a search node runs; where no processes are known, whether one may.
    pub(crate) fn search_may_run(&self) -> Fact<bool> {
        match self.search_servers() {
            Err(e) if e.is_missing() => Ok(true),
            servers => servers.map(|servers| !servers.is_empty()),
        }
    }

    /// Databases, search nodes and virtual machines: what needs most of a host.
    pub(crate) fn large_servers(&self) -> Fact<Vec<&Process>> {
        let databases = ["postgres", "mysqld", "mongod", "redis-server"];
        self.servers(|process| {
            let doctor = || process.arguments.iter().any(|argument| argument == "doctor");
            databases.contains(&process.name.as_str())
                || process.is_search()
                || process.is_qemu()
                || process.name == "frostline" && !doctor()
        })
    }

    /// The virtual machines.
    pub(crate) fn guests(&self) -> Fact<Vec<&Process>> {
        self.servers(Process::is_qemu)
    }

    /// The processes that `which` takes and that stay: a command of a server's name that prints its version is
    /// none.
    fn servers(&self, which: impl Fn(&Process) -> bool) -> Fact<Vec<&Process>> {
        let stays = |process: &&Process| self.age_s(process.pid).is_none_or(|age| age >= LASTING_S);
        Ok(self.processes()?.iter().filter(|process| which(process)).filter(stays).collect())
    }

    /// Seconds since a process started, if that is known.
    fn age_s(&self, pid: u32) -> Option<f64> {
        let uptime: f64 = self.word("proc/uptime").ok()?.split_whitespace().next()?.parse().ok()?;
        let stat = self.text(&format!("proc/{pid}/stat")).ok()?;
        // Field 22, in hundredths of a second; the name, field 2, may hold anything.
        let started: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
        Some(uptime - started / 100.0)
    }

    /// A field of `/proc/PID/status`, such as `VmRSS` (kB).
    pub(crate) fn status(&self, pid: u32, field: &str) -> Fact<String> {
        let path = format!("proc/{pid}/status");
        let text = self.text(&path)?;
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.map(|value| value.trim().to_owned()).ok_or_else(|| Absent::damaged(&path, "lacks a field"))
    }

    /// The definitions of virtual machines on this host, by file.
    pub(crate) fn machines(&self) -> Fact<&[(String, Machine)]> {
        self.known(self.machines.as_deref())
    }

    /// OpenStack flavors and images that were given as files.
    pub(crate) fn offers(&self) -> Fact<Vec<Offer>> {
        let mut offers = Vec::new();
        for path in self.tree.glob("openstack/*.json")? {
            offers.push(vm::openstack(&self.text(&path)?).map_err(|why| Absent::damaged(&path, &why))?);
        }
        Ok(offers)
    }

    /// Bytes of memory of the host.
    pub(crate) fn memory(&self) -> Fact<f64> {
        self.meminfo("MemTotal")
    }

    /// A line of `/proc/meminfo` in bytes (or a count, for `HugePages_…`).
    pub(crate) fn meminfo(&self, name: &str) -> Fact<f64> {
        let rows = facts::rows(&self.text("proc/meminfo")?);
        let scale = if name.starts_with("HugePages_") { 1.0 } else { 1024.0 };
        let value = rows.get(name).and_then(|row| row.first()).map(|kib| kib * scale);
        value.ok_or_else(|| Absent::damaged("proc/meminfo", &format!("lacks {name}")))
    }

    /// The first two numbers of the kernel's version.
    pub(crate) fn kernel(&self) -> Fact<(u32, u32)> {
        let path = "proc/sys/kernel/osrelease";
        facts::version(&self.word(path)?).ok_or_else(|| Absent::damaged(path, "is not a version"))
    }

    /// Whether this is a virtual machine, by what the CPU says and who made the board.
    pub(crate) fn is_guest(&self) -> Fact<bool> {
        let flags = self.tree.text_up_to("proc/cpuinfo", 64 << 10);
        let by_cpu =
            flags.as_ref().is_ok_and(|text| text.split_whitespace().any(|word| word == "hypervisor"));
        if by_cpu || self.cloud().is_some() || self.tree.has("proc/device-tree/hypervisor") {
            return Ok(true);
        }
        flags.map(|_| false)
    }

    /// Whose virtual machine this is, if its board says.
    pub(crate) fn cloud(&self) -> Option<Cloud> {
        let vendor = self.word("sys/class/dmi/id/sys_vendor").ok()?;
        let product = self.word("sys/class/dmi/id/product_name").unwrap_or_default();
        match vendor.as_str() {
            "Amazon EC2" if product.contains("metal") => None,
            "Amazon EC2" => Some(Cloud::Amazon),
            "Google" => Some(Cloud::Google),
            "Microsoft Corporation" if product.contains("Virtual") => Some(Cloud::Azure),
            "OpenStack Foundation" => Some(Cloud::OpenStack),
            "QEMU" | "KVM" | "Xen" | "VMware, Inc." => Some(Cloud::Other),
            _ => None,
        }
    }

    /// The CPUs of each NUMA node.
    pub(crate) fn nodes(&self) -> Fact<BTreeMap<u32, Vec<u32>>> {
        let mut nodes = BTreeMap::new();
        for path in self.tree.glob("sys/devices/system/node/node*/cpulist")? {
            let number = path.split('/').find_map(|part| part.strip_prefix("node")?.parse().ok());
            if let Some(number) = number {
                let text = self.text(&path)?;
                let cpus = facts::cpu_list(&text);
                // A node of memory alone has none.
                if cpus.is_empty() && !text.trim().is_empty() {
                    return Err(self.damaged(&path, "is not a list of CPUs"));
                }
                nodes.insert(number, cpus);
            }
        }
        Ok(nodes)
    }

    /// Network devices that have hardware or a hypervisor behind them.
    pub(crate) fn nics(&self) -> Fact<Vec<Nic>> {
        let names = match self.tree.list("sys/class/net") {
            Err(e) if e.is_missing() => return self.nics_by_interrupts(),
            names => names?,
        };
        let mut nics = Vec::new();
        for name in names {
            let net = format!("sys/class/net/{name}");
            let Ok(device) = self.tree.link(&format!("{net}/device")) else { continue };
            let bus = device.rsplit('/').next().unwrap_or("").to_owned();
            let driver = self.tree.link(&format!("{net}/device/driver")).ok();
            let driver =
                driver.and_then(|link| link.rsplit('/').next().map(str::to_owned)).unwrap_or_default();
            let queues = self.tree.list(&format!("{net}/queues"))?;
            let count = |kind: &str| queues.iter().filter(|queue| queue.starts_with(kind)).count();
            let (rx_queues, tx_queues) = (count("rx-"), count("tx-"));
            let mut nic = Nic { name: Some(name), bus, driver, rx_queues, tx_queues, vectors: 0 };
            if let Ok(interrupts) = self.interrupts() {
                nic.vectors = interrupts.rows.iter().filter(|row| nic.is_receive(row)).count();
            }
            nics.push(nic);
        }
        Ok(nics)
    }

    /// Without /sys: the virtio network devices that `/proc/interrupts` names by their receive queues.
    fn nics_by_interrupts(&self) -> Fact<Vec<Nic>> {
        let mut nics: BTreeMap<String, Nic> = BTreeMap::new();
        for row in &self.interrupts()?.rows {
            let Some((bus, queue)) = row.action().split_once("-input.") else { continue };
            let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if bus.strip_prefix("virtio").is_some_and(is_number) && is_number(queue) {
                let driver = "virtio_net".to_owned();
                let nic = nics.entry(bus.to_owned()).or_insert_with(|| Nic {
                    bus: bus.to_owned(),
                    driver,
                    ..Nic::default()
                });
                nic.rx_queues += 1;
                nic.tx_queues += 1;
                nic.vectors += 1;
            }
        }
        Ok(nics.into_values().collect())
    }

    /// Block devices that are neither partitions nor made of memory or files.
    pub(crate) fn blocks(&self) -> Fact<Vec<Block>> {
        let mut blocks = Vec::new();
        for name in self.tree.list("sys/block")? {
            if ["loop", "ram", "zram", "sr", "fd"].iter().any(|made| name.starts_with(made)) {
                continue;
            }
            let at = format!("sys/block/{name}");
            let bytes = self.number(&format!("{at}/size")).unwrap_or(0.0) * 512.0;
            let queues = self.tree.list(&format!("{at}/mq")).map_or(0, |queues| queues.len());
            let model = self.word(&format!("{at}/device/model")).unwrap_or_default();
            let said = self.said.volumes.iter().find(|(device, _)| *device == name);
            blocks.push(Block { bytes, queues, model, class: said.map(|(_, class)| class.clone()), name });
        }
        Ok(blocks)
    }

    /// What `/sys/block/DEVICE/queue/NAME` says, if it does.
    pub(crate) fn queue(&self, device: &str, name: &str) -> Option<String> {
        self.word(&format!("sys/block/{device}/queue/{name}")).ok()
    }

    /// Whether a disk has a cache that loses writes in a power cut.
    pub(crate) fn is_written_back(&self, disk: &str) -> Fact<bool> {
        let path = format!("sys/block/{disk}/queue/write_cache");
        match self.word(&path)?.as_str() {
            "write back" => Ok(true),
            "write through" => Ok(false),
            _ => Err(self.damaged(&path, "is neither write back nor write through")),
        }
    }

    /// What each disk did between the samples.
    pub(crate) fn disks(&self) -> Fact<BTreeMap<String, Disk>> {
        let (before, after) = self.twice_parsed("proc/diskstats", facts::diskstats)?;
        if after.is_empty() {
            return Err(Absent::damaged("proc/diskstats", "has no devices"));
        }
        let since = |now: Disk, was: &Disk| {
            let d = |now: f64, was: f64| (now - was).max(0.0);
            Disk {
                reads: d(now.reads, was.reads),
                read_sectors: d(now.read_sectors, was.read_sectors),
                read_ms: d(now.read_ms, was.read_ms),
                writes: d(now.writes, was.writes),
                write_sectors: d(now.write_sectors, was.write_sectors),
                write_ms: d(now.write_ms, was.write_ms),
                busy_ms: d(now.busy_ms, was.busy_ms),
            }
        };
        Ok(after
            .into_iter()
            .filter_map(|(name, now)| before.get(&name).map(|was| (name, since(now, was))))
            .collect())
    }

    /// What each whole disk did between the samples, and the seconds between them.
    ///
    /// Absent where nothing was counted twice, and damaged where a counter went back: the host was started anew between.
    pub fn disk_loads(&self) -> Fact<(BTreeMap<String, DiskLoad>, f64)> {
        let (before, after) = self.twice_parsed("proc/diskstats", facts::diskstats)?;
        let whole: BTreeSet<String> = self.tree.list("sys/block").unwrap_or_default().into_iter().collect();
        let mut loads = BTreeMap::new();
        for (name, now) in after {
            let Some(was) = before.get(&name).filter(|_| whole.is_empty() || whole.contains(&name)) else {
                continue;
            };
            let load = DiskLoad {
                reads: now.reads - was.reads,
                read_bytes: (now.read_sectors - was.read_sectors) * SECTOR_BYTES,
                writes: now.writes - was.writes,
                write_bytes: (now.write_sectors - was.write_sectors) * SECTOR_BYTES,
            };
            let counts = [load.reads, load.read_bytes, load.writes, load.write_bytes];
            if counts.iter().any(|count| *count < 0.0) {
                return Err(Absent::damaged("proc/diskstats", &format!("the counters of {name} went back")));
            }
            loads.insert(name, load);
        }
        Ok((loads, self.seconds))
    }

    /// The whole disks at the bottom of what a file system is mounted from: `/dev/sda1` is `sda`, and `/dev/md0` the disks
    /// of its members, also of encrypted or logical volumes.
    pub(crate) fn disks_below(&self, device: &str) -> Vec<String> {
        let Some(name) = device.strip_prefix("/dev/") else { return Vec::new() };
        let name = self
            .tree
            .link(device.trim_start_matches('/'))
            .map_or(name.to_owned(), |link| link.rsplit('/').next().unwrap_or(name).to_owned());
        let whole = self.tree.list("sys/block").unwrap_or_default();
        let mut disks = BTreeSet::new();
        let (mut above, mut left) = (BTreeSet::new(), vec![name]);
        while let Some(name) = left.pop() {
            // The longest name that begins it: sda1 is of sda, nvme0n1p1 of nvme0n1.
            let begins = whole.iter().filter(|disk| name.starts_with(disk.as_str()));
            let Some(disk) = begins.max_by_key(|disk| disk.len()).filter(|disk| above.insert(*disk)) else {
                continue;
            };
            match self.tree.list(&format!("sys/block/{disk}/slaves")) {
                Ok(members) if !members.is_empty() => left.extend(members),
                _ => drop(disks.insert(disk.clone())),
            }
        }
        disks.into_iter().collect()
    }

    /// What a mount is for: what the user said of paths on it, else what services keep there. A mount that
    /// serves a log and a cache is judged as a log.
    pub(crate) fn role_of(&self, mount: &Mount) -> Option<Role> {
        let mounts = self.mounts().ok()?;
        let holds =
            |path: &str| mounts.iter().filter(|m| is_below(path, &m.point)).max_by_key(|m| m.point.len());
        let on_it = |roles: &'_ [(String, Role)]| {
            roles
                .iter()
                .filter(|(path, _)| holds(path).is_some_and(|m| m.point == mount.point))
                .cloned()
                .collect::<Vec<_>>()
        };
        if let Some(absent) = &self.not_inferred {
            self.tree.note(absent);
        }
        let strictest = |roles: &mut dyn Iterator<Item = Role>| roles.max_by_key(|role| role.strictness());
        let said = strictest(&mut on_it(&self.said.roles).into_iter().map(|(_, role)| role));
        said.or_else(|| strictest(&mut on_it(&self.inferred).into_iter().map(|(_, role)| role)))
    }

    /// The role of a file system: log or database if any of its mounts has that role, cache if all of them do.
    pub(crate) fn role_of_all(&self, file_system: &FileSystem<'_>) -> Option<Role> {
        let roles: Vec<(&Mount, Option<Role>)> =
            file_system.mounts.iter().map(|mount| (*mount, self.role_of(mount))).collect();
        let strictest = roles.iter().filter_map(|(_, role)| *role).max_by_key(|role| role.strictness());
        let is_cache = |(mount, role): &(&Mount, Option<Role>)| {
            // A bind mount of a directory of the cache.
            let below = |(other, role): &(&Mount, Option<Role>)| {
                let inner = mount.info.as_ref().zip(other.info.as_ref());
                *role == Some(Role::Cache)
                    && inner.is_some_and(|(inner, all)| is_below(&inner.root, &all.root))
            };
            role.is_some() || roles.iter().any(below)
        };
        strictest.filter(|role| *role != Role::Cache || roles.iter().all(is_cache))
    }

    /// The PostgreSQL servers that run; where no processes are known, every configuration.
    pub(crate) fn postgres(&self) -> Fact<Vec<Postgres>> {
        postgres(&self.tree, self.processes())
    }

    /// The mount that holds a path.
    pub(crate) fn mount_of(&self, path: &str) -> Fact<Option<&Mount>> {
        let holds = self.mounts()?.iter().filter(|mount| is_below(path, &mount.point));
        Ok(holds.max_by_key(|mount| mount.point.len()))
    }

    /// The heaps of Elasticsearch and OpenSearch nodes: by command line if they run, else by file.
    pub(crate) fn search_heaps(&self) -> Fact<Vec<(String, Heap)>> {
        let mut found = Vec::new();
        for process in self.search_servers().unwrap_or_default() {
            let who = format!("process {}", process.pid);
            let heap = config::heap(process.arguments.iter().map(String::as_str));
            found.push((who.clone(), heap.map_err(|what| self.damaged(&who, &what))?));
        }
        if found.is_empty() && self.search_may_run()? {
            for pattern in JVM_FILES {
                for path in self.tree.glob(pattern)? {
                    let heap = config::heap(self.text(&path)?.lines());
                    found.push((path.clone(), heap.map_err(|what| self.damaged(&path, &what))?));
                }
            }
        }
        Ok(found)
    }

    /// The settings of Elasticsearch and OpenSearch nodes, by file.
    pub(crate) fn search_nodes(&self) -> Fact<Vec<(String, BTreeMap<String, String>)>> {
        if !self.search_may_run()? {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for file in search_files(self.processes())? {
            match self.text(&file.path) {
                Ok(text) if is_cut(&text) => {
                    return Err(Absent::damaged(&file.path, "ends in the middle of a line"));
                }
                Ok(text) => found.push((file.path, config::yaml(&text))),
                Err(e) if e.is_missing() && !file.is_named => {}
                Err(e) => return Err(e),
            }
        }
        Ok(found)
    }
}

/// The mounts, from `mountinfo`. Captures of earlier builds have only `/proc/mounts`.
pub(crate) fn mounts(tree: &Tree) -> Fact<Vec<Mount>> {
    let path = "proc/self/mountinfo";
    let (path, mut mounts) = match tree.text_up_to(path, TABLE_BYTES_MAX) {
        Err(e) if e.is_missing() => ("proc/mounts", facts::mounts(&tree.text("proc/mounts")?)),
        text => (path, facts::mountinfo(&text?)),
    };
    let disks = tree.text_up_to("proc/diskstats", TABLE_BYTES_MAX).unwrap_or_default();
    let numbers = facts::device_numbers(&disks);
    for mount in mounts.iter_mut().filter(|mount| mount.kind == "ext4") {
        let disk = mount.info.as_ref().and_then(|info| numbers.get(&info.number));
        let options = disk.and_then(|disk| tree.text(&format!("proc/fs/ext4/{disk}/options")).ok());
        // It begins with how the file system is mounted.
        let is_whole = |options: &&String| options.lines().any(|option| ["ro", "rw"].contains(&option));
        let options = options.as_ref().filter(is_whole);
        mount.is_complete = options.is_some();
        for option in options.iter().flat_map(|options| options.lines()) {
            if !["ro", "rw"].contains(&option) && !mount.has(option) {
                mount.options.push(option.to_owned());
            }
        }
    }
    // A host has at least its root.
    if mounts.is_empty() { Err(Absent::damaged(path, "names no mount")) } else { Ok(mounts) }
}

/// Where PostgreSQL's settings are.
pub(crate) const POSTGRES_FILES: &[&str] = &[
    "etc/postgresql/*/*/postgresql.conf",
    "var/lib/pgsql/data/postgresql.conf",
    "var/lib/pgsql/*/data/postgresql.conf",
];
/// Where the JVM options of search nodes are.
pub(crate) const JVM_FILES: &[&str] = &[
    "etc/elasticsearch/jvm.options",
    "etc/elasticsearch/jvm.options.d/*.options",
    "etc/opensearch/jvm.options",
    "etc/opensearch/jvm.options.d/*.options",
];
/// Where packages put the settings of search nodes.
pub(crate) const SEARCH_FILES: &[&str] =
    &["etc/elasticsearch/elasticsearch.yml", "etc/opensearch/opensearch.yml"];
/// Where Frostline's own settings are.
pub(crate) const FROSTLINE_FILES: &[&str] = &[
    "etc/frostline/config.toml",
    "root/.config/frostline/config.toml",
    "home/*/.config/frostline/config.toml",
];
/// Where libvirt keeps its machines: defined, and running.
pub(crate) const LIBVIRT_FILES: &[&str] = &["etc/libvirt/qemu/*.xml", "run/libvirt/qemu/*.xml"];

impl Nic {
    /// How it is called: `eth0`, else `virtio0`.
    pub(crate) fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.bus)
    }

    /// A word for a shell that gives the name even where only the bus is known.
    pub(crate) fn shell_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("$(ls /sys/bus/virtio/devices/{}/net)", self.bus))
    }

    /// Whether an interrupt is of this device, whatever for.
    pub(crate) fn is_mine(&self, row: &Row) -> bool {
        let action = row.action();
        let virtio = action.strip_prefix(self.bus.as_str()).is_some_and(|rest| rest.starts_with('-'));
        let by_name = self.name.as_deref().is_some_and(|name| {
            action.split([':', '@', '/']).next().unwrap_or("").split('-').any(|part| part == name)
        });
        let by_bus = !self.bus.is_empty() && !self.bus.starts_with("virtio") && row.what.contains(&self.bus);
        row.is_device() && (virtio || by_name || by_bus)
    }

    /// Whether an interrupt is of one of this device's receive queues.
    pub(crate) fn is_receive(&self, row: &Row) -> bool {
        let action = row.action();
        let sends = action.contains("-output.") || action.to_ascii_lowercase().contains("-tx-");
        let other = action.ends_with("-config") || action.contains("async") || action.contains("mgmnt");
        self.is_mine(row) && !sends && !other
    }
}

impl Block {
    /// Whether it is an EBS volume.
    pub(crate) fn is_ebs(&self) -> bool {
        self.model.starts_with("Amazon Elastic Block Store")
    }

    pub(crate) fn is_virtio(&self) -> bool {
        self.name.starts_with("vd")
    }

    pub(crate) fn is_nvme(&self) -> bool {
        self.name.starts_with("nvme")
    }

    /// Whether it consists of other devices.
    pub(crate) fn is_stacked(&self) -> bool {
        ["md", "dm-", "bcache", "drbd"].iter().any(|kind| self.name.starts_with(kind))
    }

    /// Whether the user said that it is of a class with throughput credits (st1, sc1).
    pub(crate) fn has_throughput_credits(&self) -> bool {
        let class = self.class.as_ref().and_then(|class| CATALOGUE.classes.get(class));
        class.is_some_and(|class| class.model == Kind::ThroughputCredits)
    }

    /// Its limits, by the class that the user said and its size.
    pub(crate) fn limits(&self) -> Fact<Limits> {
        let gib = self.bytes / 1_073_741_824.0;
        let limits = VolumeSpec::new(self.class.as_deref().unwrap_or(""), gib).limits(&CATALOGUE);
        limits.map_err(|e| Absent::damaged(&format!("sys/block/{}/size", self.name), &e.to_string()))
    }
}

impl Process {
    /// Whether it is an Elasticsearch or OpenSearch node.
    pub(crate) fn is_search(&self) -> bool {
        // The launcher of Elasticsearch 8 is a JVM, too, with a heap of 64 MiB.
        let main = |argument: &String| {
            (argument.starts_with("org.elasticsearch.") || argument.starts_with("org.opensearch."))
                && argument.contains(".bootstrap.")
        };
        self.name == "java" && self.arguments.iter().any(main)
    }

    /// What a search node was started with: `path.conf`, `path.home`.
    fn search_path(&self, name: &str) -> Option<&str> {
        self.arguments.iter().find_map(|argument| {
            ["-Des.", "-Dopensearch."]
                .iter()
                .find_map(|prefix| argument.strip_prefix(prefix)?.strip_prefix(name)?.strip_prefix('='))
        })
    }

    /// Whether it is a virtual machine.
    pub(crate) fn is_qemu(&self) -> bool {
        self.name.starts_with("qemu-system") || self.name == "qemu-kvm"
    }
}

fn is_below(path: &str, point: &str) -> bool {
    point == "/" || path.strip_prefix(point).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn cpus(tree: &Tree, interrupts: &Fact<Interrupts>) -> Fact<Vec<u32>> {
    let listed = tree.text("sys/devices/system/cpu/online").map(|text| facts::cpu_list(&text));
    match (listed, interrupts) {
        (Ok(cpus), _) if !cpus.is_empty() => Ok(cpus),
        (Ok(_), _) => Err(Absent::damaged("sys/devices/system/cpu/online", "names no CPU")),
        (Err(e), Ok(interrupts)) if e.is_missing() => Ok(interrupts.cpus.clone()),
        (Err(e), _) => Err(e),
    }
}

pub(crate) fn processes(tree: &Tree) -> Fact<Vec<Process>> {
    let mut pids: Vec<u32> = tree.list("proc")?.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    pids.truncate(PROCESSES_MAX);
    // Processes end while they are listed.
    Ok(pids.into_iter().filter_map(|pid| process(tree, pid)).collect())
}

fn process(tree: &Tree, pid: u32) -> Option<Process> {
    let line = tree.text_up_to(&format!("proc/{pid}/cmdline"), 64 << 10).ok()?;
    let arguments: Vec<String> =
        line.split(['\0', '\n']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    // Some servers replace their command line by a title: "postgres: 15/main: checkpointer".
    let title = arguments.first().map(|program| program.split(": ").next().unwrap_or_default());
    let program = title.map(|program| program.rsplit('/').next().unwrap_or_default());
    let name = program.map(|name| name.split([':', ' ']).next().unwrap_or_default().to_owned());
    let name = name.filter(|name| !name.is_empty());
    let name =
        name.or_else(|| tree.text(&format!("proc/{pid}/comm")).ok().map(|comm| comm.trim().to_owned()))?;
    Some(Process { pid, name, arguments })
}

/// A file with the settings of a search node.
pub(crate) struct SearchFile {
    pub(crate) path: String,
    /// Whether a node that runs was told to read it: then it is there.
    is_named: bool,
    /// Where that node keeps its data unless the file says so.
    data: Option<String>,
}

/// The settings that the search nodes were told to read; of others, and where none runs, those of packages.
pub(crate) fn search_files(processes: Fact<&[Process]>) -> Fact<Vec<SearchFile>> {
    let file = |path: String, is_named, data| SearchFile { path, is_named, data };
    let installed = || SEARCH_FILES.iter().map(|path| file((*path).to_owned(), false, None)).collect();
    let nodes: Vec<&Process> = match processes {
        Ok(all) => all.iter().filter(|process| process.is_search()).collect(),
        Err(e) if e.is_missing() => return Ok(installed()),
        Err(e) => return Err(e),
    };
    if nodes.is_empty() || nodes.iter().any(|node| node.search_path("path.conf").is_none()) {
        return Ok(installed());
    }
    let of = |node: &Process| {
        let folder = node.search_path("path.conf")?.trim_matches('/').to_owned();
        let kind = if node.arguments.iter().any(|argument| argument.starts_with("org.opensearch.")) {
            "opensearch"
        } else {
            "elasticsearch"
        };
        let data = node.search_path("path.home").map(|home| format!("{home}/data"));
        Some(file(format!("{folder}/{kind}.yml"), true, data))
    };
    Ok(nodes.into_iter().filter_map(of).collect())
}

/// Whether settings of a search node end in the middle of a line.
pub(crate) fn is_cut(text: &str) -> bool {
    text.lines().last().is_some_and(|line| !text.ends_with('\n') && !line.contains(':'))
}

/// See [`Host::postgres`].
pub(crate) fn postgres(tree: &Tree, processes: Fact<&[Process]>) -> Fact<Vec<Postgres>> {
    let mut found: Vec<Postgres> = Vec::new();
    match processes {
        Ok(all) => {
            for process in all.iter().filter(|process| process.name == "postgres") {
                let set = config::postgres_arguments(&process.arguments);
                let config =
                    set.iter().rfind(|(name, _)| name == "config_file").map(|(_, file)| file.clone());
                let folder = config::postgres_folder(&process.arguments);
                // Its children have neither; a server that was started without is in its data directory.
                let is_server = process.arguments.first().is_some_and(|program| !program.contains(':'));
                if !is_server {
                    continue;
                }
                let folder = folder.or_else(|| tree.link(&format!("proc/{}/cwd", process.pid)).ok());
                let Some(config) = config.or_else(|| Some(format!("{}/postgresql.conf", folder.as_ref()?)))
                else {
                    continue;
                };
                if !found.iter().any(|known| known.config == config) {
                    found.push(configuration(tree, config, folder, set)?);
                }
            }
        }
        Err(e) if e.is_missing() => {
            for path in
                POSTGRES_FILES.iter().map(|pattern| tree.glob(pattern)).collect::<Fact<Vec<_>>>()?.concat()
            {
                found.push(configuration(tree, format!("/{path}"), None, Vec::new())?);
            }
        }
        Err(e) => return Err(e),
    }
    Ok(found)
}

/// What a configuration file, `ALTER SYSTEM` and the command line set, in this order.
fn configuration(
    tree: &Tree,
    config: String,
    folder: Option<String>,
    arguments: Vec<(String, String)>,
) -> Fact<Postgres> {
    let mut settings = BTreeMap::new();
    let mut left = INCLUDES_MAX;
    include(tree, config.trim_start_matches('/'), &mut settings, &mut left)?;
    let said = arguments.iter().rfind(|(name, _)| name == "data_directory").map(|(_, folder)| folder);
    let data = said.or(settings.get("data_directory")).cloned().or(folder);
    if let Some(data) = &data {
        let path = format!("{}/postgresql.auto.conf", data.trim_start_matches('/'));
        match tree.text(&path) {
            Ok(text) => settings.extend(facts::config::postgres(&text)),
            Err(e) if e.is_missing() => {}
            Err(e) => return Err(e),
        }
    }
    settings.extend(arguments);
    Ok(Postgres { config, data, settings })
}

/// Adds the settings of a file, and of those that it includes where it includes them.
fn include(tree: &Tree, path: &str, settings: &mut BTreeMap<String, String>, left: &mut usize) -> Fact<()> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = |name: &str| match name.strip_prefix('/') {
        Some(absolute) => absolute.to_owned(),
        None => format!("{folder}/{name}"),
    };
    for (name, value) in config::postgres(&tree.text(path)?) {
        let files = match name.as_str() {
            "include" => vec![beside(&value)],
            "include_if_exists" => Some(beside(&value)).filter(|path| tree.has(path)).into_iter().collect(),
            "include_dir" => tree.glob(&format!("{}/*.conf", beside(&value)))?,
            _ => {
                settings.insert(name, value);
                continue;
            }
        };
        for file in files {
            // PostgreSQL refuses files that include themselves, at a depth of ten.
            *left = left.checked_sub(1).ok_or_else(|| Absent::damaged(path, "includes too many files"))?;
            include(tree, &file, settings, left)?;
        }
    }
    Ok(())
}

fn machines(tree: &Tree) -> Fact<Vec<(String, Machine)>> {
    let mut found: Vec<(String, Machine)> = Vec::new();
    for pattern in LIBVIRT_FILES {
        for path in tree.glob(pattern)? {
            let machine = vm::libvirt(&tree.text(&path)?).map_err(|why| Absent::damaged(&path, &why))?;
            if !found.iter().any(|(_, known)| known.name == machine.name) {
                found.push((path, machine));
            }
        }
    }
    Ok(found)
}

fn inferred(tree: &Tree, processes: &Fact<Vec<Process>>) -> Vec<(String, Role)> {
    let mut roles = Vec::new();
    let servers = processes.as_ref().map(|all| postgres(tree, Ok(all))).ok().and_then(Result::ok);
    for data in servers.into_iter().flatten().filter_map(|server| server.data) {
        // Where its log has a disk of its own.
        let log = tree.link(&format!("{}/pg_wal", data.trim_start_matches('/')));
        roles.extend(log.ok().map(|folder| (folder, Role::Log)));
        roles.push((data, Role::Database));
    }
    for file in search_files(processes.as_deref().map_err(Clone::clone)).unwrap_or_default() {
        let settings = tree.text(&file.path).map(|text| config::yaml(&text)).unwrap_or_default();
        let data = settings.get("path.data").cloned().or(file.data).unwrap_or_default();
        roles.extend(config::items(&data).into_iter().map(|folder| (folder.to_owned(), Role::Database)));
    }
    for path in FROSTLINE_FILES.iter().flat_map(|pattern| tree.glob(pattern).unwrap_or_default()) {
        let Ok(text) = tree.text(&path) else { continue };
        let Some(settings) = config::frostline(&text) else {
            tree.note(&Absent::damaged(&path, "is not TOML"));
            continue;
        };
        roles.extend(settings.volumes.into_iter().map(|folder| (folder, Role::Cache)));
        roles.extend(settings.data.map(|folder| (folder, Role::Log)));
    }
    roles
}
