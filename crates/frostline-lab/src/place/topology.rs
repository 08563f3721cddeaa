//! The host as the planner sees it: NUMA nodes, cores with their hardware threads, and devices.
//!
//! It is read from what hwloc exports ([`hwloc`]) or from the JSON of an earlier `--export-topology`.
//! Either way [`Topology::check`] holds afterwards: ids are unique, no CPU is in two cores, every core has
//! the same number of threads.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};

pub(super) mod hwloc;

/// Version of the JSON. A newer one is refused.
pub const FORMAT: u32 = 1;

/// Larger files are refused. The export of a host with 384 CPUs has 350 kB.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Linux stops at 1024 nodes.
const NODES_MAX: usize = 1024;

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// [`FORMAT`].
    pub format: u32,
    /// Where it comes from, such as `hwloc 2.9.0, Linux`.
    pub source: String,
    /// The kernel's release, which limits the queues of a tap device.
    pub kernel: Option<String>,
    /// The processor's maker as CPUID says it, such as `AuthenticAMD`.
    pub cpu_vendor: Option<String>,
    /// The instruction set as `uname -m` says it, such as `x86_64`.
    pub architecture: Option<String>,
    /// Nodes that have CPUs, by ascending id.
    pub nodes: Vec<Node>,
    /// Network cards and disks.
    pub devices: Vec<Device>,
    /// Relative latency from node to node as the firmware states it (ACPI SLIT, 10 is local), in the order
    /// of `nodes`.
    pub distances: Option<Vec<Vec<u32>>>,
    /// CPUs that no machine gets because their core has another number of threads than most.
    pub uneven_cpus: Vec<u32>,
    /// What was left out, in words.
    pub notes: Vec<String>,
}

/// A NUMA node with CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The kernel's number of it.
    pub id: u32,
    /// Its memory, 0 if unknown.
    pub memory_mib: u64,
    /// Sizes of pages the host can have here, in KiB, ascending. Empty if unknown.
    pub page_kib: Vec<u64>,
    /// Its cores in hwloc's order: neighbours share caches.
    pub cores: Vec<Core>,
}

/// A core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// The kernel's numbers of its hardware threads, ascending.
    pub cpus: Vec<u32>,
    /// Cores with the same number share a third-level cache.
    pub l3: u32,
}

/// A device whose place matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The kernel's name, such as `eth0`.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// The node it is attached to; absent if it is attached to none or all.
    pub node: Option<u32>,
}

/// What a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A network interface.
    Network,
    /// A block device.
    Block,
}

impl Topology {
    /// Reads an hwloc XML export or our JSON, distinguished by the first character.
    ///
    /// A file that is neither, or that contradicts itself, is `Invalid`.
    pub fn read(path: &Path) -> Result<Topology> {
        let name = path.display();
        let file = File::open(path).map_err(|e| open_error(e, path))?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| Error::invalid(format!("cannot read the topology {name}")).with_source(e))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(Error::invalid(format!("the topology {name} is larger than 16 MiB")));
        }
        Topology::parse(&bytes).map_err(|e| e.context(format!("the topology {name} cannot be used")))
    }

    /// Like [`Topology::read`], from memory.
    pub fn parse(bytes: &[u8]) -> Result<Topology> {
        let topology = match bytes.iter().find(|b| !b.is_ascii_whitespace()) {
            Some(b'{') => serde_json::from_slice::<Topology>(bytes)
                .map_err(|e| Error::invalid("this is not the JSON of --export-topology").with_source(e))?,
            Some(b'<') | Some(0xef) => hwloc::parse(bytes)?,
            _ => {
                return Err(Error::invalid(
                    "neither XML of `lstopo --of xml` nor JSON of `lab place --export-topology`",
                ));
            }
        };
        topology.check()?;
        Ok(topology)
    }

    /// Asks hwloc's `lstopo` about this machine.
    pub fn of_this_machine() -> Result<Topology> {
        let output = ["lstopo-no-graphics", "lstopo"]
            .iter()
            .find_map(|program| Command::new(program).args(["--of", "xml"]).output().ok())
            .ok_or_else(|| {
                Error::not_found(
                    "lstopo is not installed: `apt-get install hwloc-nox` (Debian, Ubuntu) or `dnf install hwloc`; \
                     or give --host FILE",
                )
            })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Error::unavailable(format!("lstopo failed: {}", said.trim())));
        }
        Topology::parse(&output.stdout)
            .map_err(|e| e.context("what lstopo says of this machine cannot be used"))
    }

    /// Hardware threads of each core.
    pub fn threads(&self) -> u32 {
        self.nodes.iter().flat_map(|n| &n.cores).map(|c| c.cpus.len() as u32).next().unwrap_or(1)
    }

    /// Physical cores.
    pub fn cores(&self) -> u32 {
        self.nodes.iter().map(|n| n.cores.len() as u32).sum()
    }

    /// Relative latency between two nodes of `nodes` by index, 10 being local; `None` if unknown.
    pub fn distance(&self, from: usize, to: usize) -> Option<u32> {
        self.distances.as_ref()?.get(from)?.get(to).copied()
    }

    fn check(&self) -> Result<()> {
        if self.format > FORMAT {
            return Err(
                Error::invalid("the topology was written by a newer version").with("format", self.format)
            );
        }
        if self.nodes.len() > NODES_MAX {
            return Err(
                Error::invalid("the topology has too many NUMA nodes").with("nodes", self.nodes.len())
            );
        }
        let names = self.devices.iter().map(|device| &device.name);
        let about = [&self.kernel, &self.cpu_vendor, &self.architecture].into_iter().flatten();
        let mut texts = names.chain(&self.notes).chain([&self.source]).chain(about);
        if texts.any(|text| text.chars().any(char::is_control)) {
            return Err(Error::invalid("a text of the topology has control characters"));
        }
        if self.nodes.is_empty() {
            return Err(Error::invalid("the topology has no NUMA node with CPUs"));
        }
        let mut cpus = BTreeSet::new();
        let threads = self.threads();
        for core in self.nodes.iter().flat_map(|n| &n.cores) {
            if core.cpus.len() as u32 != threads || threads == 0 {
                return Err(
                    Error::invalid("cores have different numbers of threads").with("first_cpu", first(core))
                );
            }
            if let Some(twice) = core.cpus.iter().find(|cpu| !cpus.insert(**cpu)) {
                return Err(Error::invalid("a CPU is in two cores").with("cpu", twice));
            }
        }
        if self.nodes.iter().any(|n| n.cores.is_empty()) {
            return Err(Error::invalid("a NUMA node has no core"));
        }
        if self.nodes.windows(2).any(|pair| pair[0].id >= pair[1].id) {
            return Err(Error::invalid("NUMA nodes are not in ascending order of their numbers"));
        }
        if self
            .nodes
            .iter()
            .any(|n| n.memory_mib > 1 << 40 || n.page_kib.iter().any(|p| !p.is_power_of_two()))
        {
            return Err(Error::invalid("a NUMA node's memory is not plausible"));
        }
        let n = self.nodes.len();
        match &self.distances {
            Some(rows) if rows.len() != n || rows.iter().any(|row| row.len() != n || row.contains(&0)) => {
                Err(Error::invalid("distances are not a table of positive numbers, node by node"))
            }
            _ => Ok(()),
        }
    }
}

fn first(core: &Core) -> String {
    core.cpus.first().map_or_else(|| "none".into(), u32::to_string)
}

fn open_error(error: std::io::Error, path: &Path) -> Error {
    let what = format!("cannot open the topology {}", path.display());
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(what),
        std::io::ErrorKind::PermissionDenied => Error::denied(what),
        _ => Error::invalid(what),
    }
    .with_source(error)
}

#[cfg(test)]
pub(super) mod tests;
