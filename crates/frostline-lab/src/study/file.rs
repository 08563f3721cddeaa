//! The structure of a study's file. Names in it are not resolved yet; `check` does that.

use std::collections::BTreeMap;

use frostline_base::Result;
use serde::Deserialize;
use toml::Spanned;

/// A word of the file, with where it stands.
pub(super) type Word = Spanned<String>;
/// Level by factor.
pub(super) type Selector = BTreeMap<Word, Word>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) notes: Vec<String>,
    #[serde(default)]
    pub(super) korean: BTreeMap<Word, String>,
    pub(super) image: Option<Spanned<String>>,
    pub(super) factors: Vec<Factor>,
    pub(super) setups: BTreeMap<String, Spanned<Setup>>,
    pub(super) workloads: BTreeMap<String, Spanned<Workload>>,
    pub(super) cells: Vec<Spanned<Group>>,
    #[serde(default)]
    pub(super) published: Vec<Published>,
    #[serde(default)]
    pub(super) comparisons: Vec<Spanned<Comparison>>,
    pub(super) control: Option<Spanned<Selector>>,
    /// Instead of one: of a study whose parts run by themselves, one for each.
    #[serde(default)]
    pub(super) controls: Vec<Spanned<Selector>>,
    pub(super) gates: Option<Spanned<Gates>>,
    pub(super) simulate: Option<Variant>,
    pub(super) quick: Option<Variant>,
    pub(super) full: Option<Variant>,
}

/// What is varied.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// Its name.
    pub name: String,
    /// What it means, for a person.
    pub means: String,
    /// Its levels.
    pub levels: Vec<String>,
}

/// Where cells run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In a plain folder.
    Folder,
    /// In a folder of the lab's own below a directory that the study names.
    Path,
    /// On a block device that the study names: read, or overwritten where `--destroy` names it too.
    Device,
    /// On one loop device on an ordinary file, unshaped.
    File,
    /// On emulated volumes.
    Volumes,
    /// In an emulated machine with throttled disks.
    Guest,
    /// In an emulated machine, on emulated volumes whose file systems are kept for all cells.
    Kept,
    /// In one or two guests at once.
    Guests,
    /// Nowhere but in the volume model.
    Model,
    /// Nowhere: the figures are those that were published.
    Published,
    /// Under the crash engine, which makes its own device.
    Crash,
    /// On a database that is restored for each sample.
    Restore,
}

/// On what cells run and how it is made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Where.
    pub place: Place,
    /// The directory, on the volume to be measured (a template).
    #[serde(default)]
    pub path: Option<String>,
    /// The block device (a template).
    #[serde(default)]
    pub device: Option<String>,
    /// Volumes as COUNTxSPEC, such as `4x2TiB` (a template).
    #[serde(default)]
    pub volumes: Option<String>,
    /// Class of the volumes, such as `st1`.
    #[serde(default)]
    pub class: Option<String>,
    /// Bytes after which a stripe goes to the next volume, such as `1m`: the volumes are then one device,
    /// striped by the emulation as md would; without it each is a device of its own.
    #[serde(default)]
    pub stripe: Option<String>,
    /// Balance of the burst buckets at the start of each sample: `full`, `empty`, or `cliff`, which is a
    /// full bucket divided by the variant's time scale (a template).
    #[serde(default)]
    pub bucket: Option<String>,
    /// What the rates and buckets of the volumes are divided by, where the host is too slow for real ones.
    #[serde(default)]
    pub slowed: Option<f64>,
    /// MiB of each device, or of all together where they are kept; the buckets are those of the volume's size nevertheless.
    #[serde(default)]
    pub device_mib: u64,
    /// Commands that make the file system, once a run (templates; `{device}`, `{devices}`).
    #[serde(default)]
    pub make: Vec<String>,
    /// The file system to mount, as mount(8) calls it.
    #[serde(default)]
    pub file_system: Option<String>,
    /// Mount options (a template).
    #[serde(default)]
    pub options: String,
    /// What the device says about its cache: `write back` or `write through` (a template).
    #[serde(default)]
    pub write_cache: Option<String>,
    /// MiB/s at which the device's volatile cache drains, on a device that is emulated for it (a template); `none` for an
    /// ordinary loop device.
    #[serde(default)]
    pub drain_mib_per_s: Option<String>,
    /// Tools that the commands run.
    #[serde(default)]
    pub tools: Vec<Word>,
    /// What is made in the guest.
    #[serde(default)]
    pub guest: Option<GuestStack>,
    /// The guests.
    #[serde(default)]
    pub machines: Option<Machines>,
    /// `free`, or `pinned` to the CPUs that the first of two guests would have (a template).
    #[serde(default)]
    pub pin: Option<String>,
    /// What this machine would have to have, where figures are only published.
    #[serde(default)]
    pub why: Option<String>,
}

/// Guests that are measured at once. All texts are templates.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machines {
    /// `1` or `2`.
    pub count: String,
    /// Virtual CPUs of each: a number, `all` of the host's, `half` of them, or `many`: half of them, at least four.
    pub cpus: String,
    /// Memory of each, MiB.
    pub memory_mib: u32,
    /// `free`, or `pinned`: half of the host for each, a NUMA node where it has two.
    #[serde(default = "free")]
    pub pin: String,
    /// Queue pairs of the network interface: a number, or `each`: one for each virtual CPU.
    #[serde(default = "one")]
    pub queues: String,
    /// `on` where the host's kernel moves packets (vhost-net), `off` where QEMU does.
    #[serde(default = "off")]
    pub vhost: String,
    /// Whom a network tool talks to: the `host`, or the second `guest`, on another bridge.
    #[serde(default = "host")]
    pub server: String,
    /// `none`, or `rps`.
    #[serde(default = "none")]
    pub steering: String,
    /// Data disks of each, of `device_mib`: on volumes where the setup has some, otherwise on files.
    #[serde(default)]
    pub disks: u32,
    /// `local`, `shared` (the guests divide each), `network` (NBD of the host) or `nvme` (NVMe over TCP of another guest).
    #[serde(default = "local")]
    pub storage: String,
    /// `threads`, `native` or `io_uring`.
    #[serde(default = "io_uring")]
    pub aio: String,
    /// `none`, `writeback`, `writethrough` or `unsafe`.
    #[serde(default = "none")]
    pub cache: String,
    /// `main`, `one` for all disks or `each`.
    #[serde(default = "main")]
    pub io_threads: String,
}

/// QEMU's machine has no more without an IOMMU.
const CPUS_MAX: u32 = 255;
/// Linux' taps have no more.
const QUEUES_MAX: u32 = 256;

impl Machines {
    /// Virtual CPUs of each on a host of so many.
    ///
    /// # Errors
    /// Invalid for what is neither a word nor a number.
    pub fn cpus_on(&self, host: u32, levels: &BTreeMap<String, String>) -> Result<u32> {
        let half = (host / 2).max(1);
        let text = super::fill(&self.cpus, levels)?;
        let words = [("all", host), ("half", half), ("many", half.max(4))];
        let derived = words.iter().find(|(name, _)| *name == text);
        derived.map_or_else(
            || super::number(&text, "virtual CPUs", CPUS_MAX),
            |(_, cpus)| Ok((*cpus).min(CPUS_MAX)),
        )
    }

    /// Queue pairs of each with so many virtual CPUs.
    ///
    /// # Errors
    /// Invalid for what is neither a word nor a number.
    pub fn queues_on(&self, cpus: u32, levels: &BTreeMap<String, String>) -> Result<u16> {
        let text = super::fill(&self.queues, levels)?;
        let queues = if text == "each" { Ok(cpus) } else { super::number(&text, "queue pairs", QUEUES_MAX) };
        queues.map(|queues| queues as u16)
    }

    /// Its templates.
    pub(super) fn texts(&self) -> impl Iterator<Item = &String> {
        self.shape_texts().into_iter().chain([&self.count, &self.steering])
    }

    /// The templates of what is fixed when guests boot.
    pub(super) fn shape_texts(&self) -> [&String; 9] {
        [
            &self.cpus,
            &self.pin,
            &self.queues,
            &self.vhost,
            &self.server,
            &self.storage,
            &self.aio,
            &self.cache,
            &self.io_threads,
        ]
    }
}

fn free() -> String {
    "free".to_owned()
}

fn off() -> String {
    "off".to_owned()
}

fn host() -> String {
    "host".to_owned()
}

fn one() -> String {
    "1".to_owned()
}

fn none() -> String {
    "none".to_owned()
}

fn local() -> String {
    "local".to_owned()
}

fn io_uring() -> String {
    "io_uring".to_owned()
}

fn main() -> String {
    "main".to_owned()
}

/// A stack on the throttled disks of a guest. All texts are templates.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestStack {
    /// `zfs`, `ext4`, `md-ext4`, `lvm-ext4` and others of [`crate::guest::storage::Stack`].
    pub stack: String,
    /// `four` disks of 25 MB/s, `one` of 100 MB/s, or `one-of-four`; where file systems are kept, the setup's volumes.
    #[serde(default)]
    pub disks: String,
    /// Record size, such as `128k`.
    #[serde(default)]
    pub record: Option<String>,
    /// `off`, `lz4`, `zstd`.
    #[serde(default)]
    pub compression: Option<String>,
    /// `pinned` or `free`.
    #[serde(default)]
    pub arc: Option<String>,
    /// Bytes of a request, such as `128k`.
    pub block: String,
    /// `random`, or `half` for data that compresses to half.
    pub data: String,
    /// Where file systems are kept: `fresh`, with records in order, or `aged`, in random order as after they were rewritten.
    #[serde(default)]
    pub age: Option<String>,
}

/// What runs in a cell.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// `fio`, `dd`, `sysbench`, `iperf3`, `pgbench`, `command`, `guest-fio` (the job of [`crate::guest::cells`]),
    /// `crash-proof` (cuts and a seed) or `postgres-restore` (a [`crate::restore::Trial`]).
    pub tool: Spanned<String>,
    /// Its arguments (a template).
    #[serde(default)]
    pub arguments: String,
    /// Arguments of the same tool that lay out its data once a run (a template).
    #[serde(default)]
    pub layout: Option<String>,
    /// MiB of data, as `{data_mib}`.
    #[serde(default)]
    pub data_mib: u64,
    /// Whether it asks for direct I/O, so that the page cache must not grow.
    #[serde(default)]
    pub direct: bool,
    /// The file below `{directory}` whose pages are looked for in the page cache.
    #[serde(default)]
    pub data_file: Option<String>,
    /// In guests: how many processes of the tool each runs at once, with `{port}` one higher for each (a template);
    /// their rates are added up.
    #[serde(default)]
    pub processes: Option<String>,
    /// For `command`: what is read from what it prints, by metric; without it, the wall time.
    #[serde(default)]
    pub read: BTreeMap<String, String>,
    /// Whether the page cache, dentries and inodes are dropped before each sample. It is said when done.
    #[serde(default)]
    pub drop_caches: bool,
    /// Seconds that a sample takes beside those of the variant.
    #[serde(default)]
    pub overhead_s: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub(super) name: Word,
    pub(super) levels: BTreeMap<Word, Vec<Word>>,
    pub(super) setup: Word,
    pub(super) workload: Word,
    #[serde(default)]
    pub(super) requires: Vec<Word>,
    pub(super) gates: Option<Spanned<Gates>>,
    pub(super) model: Option<Model>,
    pub(super) blocks_max: Option<u32>,
}

/// The input of the volume model for a cell. All texts are templates.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Class of the volumes.
    pub class: String,
    /// COUNTxSIZE.
    pub volumes: String,
    /// `full`, `empty` or `cliff`; without it, both `full` (as the plain metric) and `empty` (as `drained_`).
    #[serde(default)]
    pub bucket: Option<String>,
    /// Bytes after which a stripe goes to the next volume, such as `64k`; without it, volumes are not cut.
    #[serde(default)]
    pub stripe: Option<String>,
    /// `ext4`, `xfs`, `btrfs` or `openzfs`.
    pub file_system: String,
    /// Record size of OpenZFS.
    #[serde(default)]
    pub record: Option<String>,
    /// Whether the file system compresses.
    #[serde(default)]
    pub compress: bool,
    /// Bytes over stored bytes of the data where it does.
    #[serde(default)]
    pub compression_ratio: Option<f64>,
    /// `fresh` or `aged` records of OpenZFS, with numbers for its writes; without it, an idealised OpenZFS.
    #[serde(default)]
    pub age: Option<String>,
    /// GiB of the data that a cache holds.
    #[serde(default)]
    pub cache_gib: Option<f64>,
    /// What the rates and buckets of the volumes are divided by.
    #[serde(default)]
    pub slowed: Option<f64>,
    /// Percent of requests that read.
    pub read_percent: f64,
    /// Bytes of a request, such as `128k`.
    pub block: String,
    /// Requests that are kept outstanding.
    pub outstanding: u32,
    /// Threads that submit them; where submission blocks, each has one outstanding.
    pub threads: u32,
    /// GiB that places are chosen from.
    pub set_gib: f64,
    /// Whether requests go through the data in order; otherwise places are random.
    #[serde(default)]
    pub sequential: bool,
}

/// When a sample does not count. What is absent is not judged.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gates {
    /// Device bytes over application bytes, inclusive.
    #[serde(default)]
    pub device_bytes: Option<(f64, f64)>,
    /// Most percent of the last 10 s in which something waited for a CPU.
    #[serde(default)]
    pub cpu_pressure_max: Option<f64>,
    /// Most percent of CPU time stolen by the hypervisor.
    #[serde(default)]
    pub steal_percent_max: Option<f64>,
    /// Most percent of requests that the host's own disk held up beyond their volume's time.
    #[serde(default)]
    pub overrun_percent_max: Option<f64>,
    /// Largest part of the data file in the page cache after direct I/O.
    #[serde(default)]
    pub resident_max: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    pub(super) cell: Spanned<Selector>,
    pub(super) values: BTreeMap<String, f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Comparison {
    pub(super) name: String,
    pub(super) numerator: Spanned<Selector>,
    pub(super) denominator: Spanned<Selector>,
    pub(super) metric: String,
    pub(super) published: Option<f64>,
    pub(super) expected: Option<(f64, f64)>,
    /// Factors: one comparison for each of their levels.
    #[serde(default)]
    pub(super) each: Vec<Word>,
}

/// How much is done in a mode.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Groups of cells.
    pub cells: Vec<Spanned<String>>,
    /// Levels that are kept of these factors; a cell without the factor stays.
    #[serde(default)]
    pub levels: BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
    /// Seconds of a sample; for the model, of virtual time.
    pub seconds: f64,
    /// Fewest and most blocks.
    #[serde(default = "one_block")]
    pub blocks: (u32, u32),
    /// Buckets of `cliff` cells are divided by this.
    #[serde(default = "unscaled")]
    pub time_scale: f64,
    /// A cell stops when its ratios' 95 % intervals reach less than this to each side, as a part of 1.
    #[serde(default = "tight")]
    pub half_width: f64,
}

fn one_block() -> (u32, u32) {
    (1, 1)
}

fn unscaled() -> f64 {
    1.0
}

/// Ratios are worth reading to the nearest few percent; tighter costs blocks with the square.
fn tight() -> f64 {
    0.03
}
