//! The request: the machines, and how the host may be used.

use std::fmt;
use std::str::FromStr;

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// Machines in one request; each plan names every one.
const MACHINES_MAX: u32 = 1024;
/// Sizes of machines in one request; the search's work grows with each.
const GROUPS_MAX: usize = 32;
/// vCPUs of a machine: KVM's limit on x86 (`KVM_MAX_VCPUS` of Linux 6).
const VCPUS_MAX: u32 = 4096;
/// Memory of a machine, 1 PiB.
const MIB_MAX: u64 = 1 << 30;

/// The machines: `20x2,4x6@16GiB` is two of 20 CPUs and six of 4 CPUs with 16 GiB each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Alike machines each, in the order given, which is their order of importance.
    pub groups: Vec<Group>,
}

/// Machines that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// vCPUs of each.
    pub vcpus: u32,
    /// How many.
    pub count: u32,
    /// Memory of each; its cores' part of the node's memory if absent.
    pub memory_mib: Option<u64>,
}

impl Wanted {
    /// vCPUs of all machines.
    pub fn vcpus(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.vcpus) * u64::from(group.count)).sum()
    }
}

impl FromStr for Wanted {
    type Err = Error;

    fn from_str(text: &str) -> Result<Wanted> {
        let groups = text.split(',').map(str::parse).collect::<Result<Vec<Group>>>()?;
        let machines: u64 = groups.iter().map(|group| u64::from(group.count)).sum();
        if groups.len() > GROUPS_MAX {
            return Err(Error::invalid(format!(
                "{} sizes of machines are more than {GROUPS_MAX}",
                groups.len()
            )));
        }
        if machines > u64::from(MACHINES_MAX) {
            return Err(Error::invalid(format!("{machines} machines are more than {MACHINES_MAX}")));
        }
        Ok(Wanted { groups })
    }
}

impl FromStr for Group {
    type Err = Error;

    fn from_str(text: &str) -> Result<Group> {
        let bad = |why: &str| {
            Error::invalid(format!(
                "{text:?}: {why}; write SIZExCOUNT[@MEMORY], such as 20x2 or 20x2@180GiB for two machines of 20 CPUs"
            ))
        };
        let (size, memory) = match text.trim().split_once('@') {
            Some((size, memory)) => (size, Some(memory.parse::<Memory>()?.mib)),
            None => (text.trim(), None),
        };
        let (vcpus, count) = size.split_once(['x', 'X']).unwrap_or((size, "1"));
        let vcpus: u32 = vcpus.parse().map_err(|_| bad("the size is not a number of CPUs"))?;
        let count: u32 = count.parse().map_err(|_| bad("the count is not a number of machines"))?;
        if !(1..=VCPUS_MAX).contains(&vcpus) {
            return Err(bad("a machine has 1 to 4096 CPUs"));
        }
        if !(1..=MACHINES_MAX).contains(&count) {
            return Err(bad("there are 1 to 1024 machines"));
        }
        if memory == Some(0) {
            return Err(bad("a machine needs at least 1 MiB"));
        }
        Ok(Group { vcpus, count, memory_mib: memory })
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.vcpus, self.count)?;
        self.memory_mib.map_or(Ok(()), |mib| write!(f, "@{}", Memory { mib }))
    }
}

/// An amount of memory, such as `180GiB`. `K`, `M`, `G` and `T` are powers of 1024, with or without `iB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// In MiB.
    pub mib: u64,
}

impl FromStr for Memory {
    type Err = Error;

    fn from_str(text: &str) -> Result<Memory> {
        let bad = || Error::invalid(format!("{text:?} is not an amount of memory such as 512MiB or 180GiB"));
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (amount, unit) = text.split_at(digits);
        let amount: u64 = amount.parse().map_err(|_| bad())?;
        let shift = match unit {
            "M" | "MiB" => 0,
            "G" | "GiB" => 10,
            "T" | "TiB" => 20,
            _ => return Err(bad()),
        };
        let mib = amount.checked_mul(1 << shift).filter(|mib| *mib <= MIB_MAX).ok_or_else(bad)?;
        Ok(Memory { mib })
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mib >= 1024 && self.mib.is_multiple_of(1024) {
            write!(f, "{}GiB", self.mib / 1024)
        } else {
            write!(f, "{}MiB", self.mib)
        }
    }
}

/// How the host may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// CPUs that no machine gets.
    pub reserve: Reserve,
    /// Memory of each node that no machine gets; by default [`Policy::reserved_mib`].
    pub reserve_memory_mib: Option<u64>,
    /// How vCPUs use hardware threads.
    pub threads: Threads,
    /// Where the emulator's and the I/O threads run.
    pub emulator: Emulator,
    /// Size of the pages of guest memory.
    pub pages: Pages,
    /// Most queue pairs of a network interface; by default what the host's kernel allows.
    pub queues_max: Option<u32>,
    /// Disks of each machine.
    pub disks: u32,
    /// I/O threads of each disk.
    pub iothreads_per_disk: u32,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            reserve: Reserve::Auto,
            reserve_memory_mib: None,
            threads: Threads::Siblings,
            emulator: Emulator::Host,
            pages: Pages::Auto,
            queues_max: None,
            disks: 1,
            iothreads_per_disk: 1,
        }
    }
}

impl Policy {
    /// Memory kept for the host on a node of `memory_mib`: as asked, else a twentieth and at most 4 GiB (our
    /// choice; nova's default of 512 MiB for the whole host does not hold its own agents).
    pub fn reserved_mib(&self, memory_mib: u64) -> u64 {
        self.reserve_memory_mib.unwrap_or((memory_mib / 20).min(4096)).min(memory_mib)
    }
}

/// CPUs that stay with the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// The most of: a core of each node, a core of the first node, none; that costs no machine.
    Auto,
    /// This many cores of each node.
    Cores(u32),
    /// The cores of these CPUs.
    Cpus(Vec<u32>),
}

impl FromStr for Reserve {
    type Err = Error;

    fn from_str(text: &str) -> Result<Reserve> {
        let bad = || {
            Error::invalid(format!(
                "{text:?} is not `auto`, a number of cores per node such as 1, nor CPUs such as cpus:0-1,20-21"
            ))
        };
        if text == "auto" {
            return Ok(Reserve::Auto);
        }
        match text.strip_prefix("cpus:") {
            Some(list) => cpu_list(list).map(Reserve::Cpus).ok_or_else(bad),
            None => text.parse().map(Reserve::Cores).map_err(|_| bad()),
        }
    }
}

/// The numbers in a list as the kernel writes it, `0-1,20-21`.
fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (low.parse::<u32>().ok()?, high.parse::<u32>().ok()?);
        if high >= 1 << 16 || low > high {
            return None;
        }
        cpus.extend(low..=high);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// How vCPUs use hardware threads. Either way no core is shared by two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Threads {
    /// A vCPU on each thread of a core; the guest sees which are siblings.
    Siblings,
    /// One vCPU per core, its other threads idle.
    OnePerCore,
}

/// Where the emulator's and the I/O threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Emulator {
    /// On the host's reserved CPUs, of the machine's node if there are any.
    Host,
    /// On one more CPU of each machine, as nova's `isolate`.
    Own,
}

/// Size of the pages of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// The largest that the host has and that the memory is at least 16 of, else ordinary ones.
    Auto,
    /// This many KiB.
    Kib(u64),
}

impl FromStr for Pages {
    type Err = Error;

    fn from_str(text: &str) -> Result<Pages> {
        match text {
            "auto" => Ok(Pages::Auto),
            "4K" | "4KiB" | "small" => Ok(Pages::Kib(4)),
            "2M" | "2MiB" => Ok(Pages::Kib(2048)),
            "1G" | "1GiB" => Ok(Pages::Kib(1 << 20)),
            _ => Err(Error::invalid(format!("{text:?} is not a page size: auto, 4K, 2M or 1G"))),
        }
    }
}

#[cfg(test)]
mod tests;
