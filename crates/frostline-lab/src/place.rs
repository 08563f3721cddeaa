//! `lab place`: which virtual machines fit a host without sharing cores, and the configuration for libvirt, QEMU
//! and OpenStack.
//!
//! Rules: a core belongs to at most one machine, with all its hardware threads; a machine stays on one NUMA
//! node unless it is larger than any, with all of its memory there; cores and memory reserved for the host are not
//! used. Under these rules as many vCPUs as possible are placed ([`Proof`] says whether this is proven optimal), in
//! the order of the request if there is a choice, spread evenly over nodes. For n nodes with c_n free
//! cores and equal machines of v cores that is sum floor(c_n / v) machines.
//!
//! The topology is hwloc's ([`topology`]). Nothing here touches the host: the plan is text.

use std::path::{Path, PathBuf};

use frostline_base::{Error, Result};
use serde::Serialize;

use crate::host::{io, make_folders, output_file};

pub use cost::{Label, Statement, Unpinned};
pub use emit::{DiskIo, EmittedFile, Surroundings, Target, emit};
pub use pack::Proof;
pub use plan::{Cell, EmulatorOn, Host, Machine, NodeShare, Pin, Plan, Unplaced};
pub use request::{Emulator, Group, Memory, Pages, Policy, Reserve, Threads, Wanted};

mod cost;
mod emit;
mod pack;
mod plan;
mod request;
mod text;
pub mod topology;

/// Plan virtual machines on a host so that none shares a core or uses another NUMA node's memory.
#[derive(Clone, Debug, clap::Args)]
pub struct PlaceArgs {
    /// The host's topology, as written by `lstopo --of xml` or `--export-topology` [default: this machine].
    #[arg(long, value_name = "FILE")]
    pub host: Option<PathBuf>,
    /// The machines, size first: `20x2,4x6@16GiB` is two of 20 CPUs and six of 4 CPUs with 16 GiB each.
    /// Without memory a machine gets its cores' share of the node's memory. If not all fit, machines listed first
    /// have priority.
    #[arg(
        long,
        value_name = "SIZExCOUNT[@MEMORY],…",
        required_unless_present = "export_topology",
        conflicts_with = "export_topology"
    )]
    pub vms: Option<Wanted>,
    /// Only print the topology as JSON for --host.
    #[arg(long)]
    pub export_topology: bool,
    /// Cores reserved for the host: a number of cores per node, `cpus:LIST`, or `auto`: a core per node, or one, or
    /// none, whichever is the most that costs no machine.
    #[arg(long, default_value = "auto", value_name = "CORES")]
    pub reserve: Reserve,
    /// Memory of each node reserved for the host [default: a twentieth, at most 4 GiB].
    #[arg(long, value_name = "SIZE")]
    pub reserve_memory: Option<Memory>,
    /// One vCPU per hardware thread, or one per core.
    #[arg(long, value_enum, default_value = "siblings")]
    pub threads: Threads,
    /// Run emulator and I/O threads on the host's CPUs, or on one more CPU of each machine.
    #[arg(long, value_enum, default_value = "host")]
    pub emulator: Emulator,
    /// Page size of guest memory: auto, 4K, 2M or 1G.
    #[arg(long, default_value = "auto")]
    pub pages: Pages,
    /// Number of disks of each machine.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=26))]
    pub disks: u32,
    /// Number of I/O threads of each disk; more than one needs QEMU 9.0 and libvirt 10.0.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub iothreads: u32,
    /// Maximum number of queues of a network interface [default: the limit of the host's kernel].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub max_queues: Option<u32>,
    /// I/O mode of guest disks; always with cache=none.
    #[arg(long, value_enum, default_value = "native")]
    pub io: DiskIo,
    /// The network bridge in the output of --emit.
    #[arg(long, default_value = "br0", value_name = "NAME")]
    pub bridge: String,
    /// Write input for libvirt, QEMU or OpenStack instead of the explanation.
    #[arg(long, value_enum)]
    pub emit: Option<Target>,
    /// Write the output of --emit to files in this directory.
    #[arg(long, value_name = "DIR", requires = "emit")]
    pub output: Option<PathBuf>,
}

impl PlaceArgs {
    fn policy(&self) -> Policy {
        Policy {
            reserve: self.reserve.clone(),
            reserve_memory_mib: self.reserve_memory.map(|memory| memory.mib),
            threads: self.threads,
            emulator: self.emulator,
            pages: self.pages,
            queues_max: self.max_queues,
            disks: self.disks,
            iothreads_per_disk: self.iothreads,
        }
    }
}

/// The output of `lab place`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// For standard output.
    pub text: String,
    /// Whether every requested machine is placed.
    pub complete: bool,
}

/// The plan as text, or the output of `--emit`; with `json` one document that has both. Writes the
/// files of `--output`.
///
/// # Errors
/// `NotFound` without `lstopo` or the file; `Invalid` for what cannot be read or followed.
pub fn answer(args: &PlaceArgs, json: bool) -> Result<Answer> {
    args.output.as_deref().map_or(Ok(()), can_write)?;
    let topology = match &args.host {
        Some(path) => topology::Topology::read(path)?,
        None => topology::Topology::of_this_machine()?,
    };
    if args.export_topology {
        return Ok(Answer { text: document(&topology)?, complete: true });
    }
    let wanted = args.vms.as_ref().ok_or_else(|| Error::invalid("--vms is missing"))?;
    let plan = Plan::make(&topology, wanted, &args.policy())?;
    let around = Surroundings { bridge: args.bridge.clone(), io: args.io };
    let emitted = args.emit.map(|target| emit(&plan, target, &around)).transpose()?;
    if let (Some(folder), Some(files)) = (&args.output, &emitted) {
        write_files(folder, files)?;
    }
    let complete = plan.is_complete();
    let text = match (json, &emitted, &args.output) {
        (true, ..) => document(&Document { plan: &plan, complete, emitted: emitted.as_deref() })?,
        (false, Some(files), Some(folder)) => {
            files.iter().map(|file| format!("{}\n", folder.join(&file.name).display())).collect()
        }
        (false, Some(files), None) => {
            files.iter().map(|file| format!("# {}\n{}\n", file.name, file.text)).collect()
        }
        (false, None, _) => text::explain(&plan),
    };
    Ok(Answer { text, complete })
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    emitted: Option<&'a [EmittedFile]>,
}

fn document(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n")
        .map_err(|e| Error::internal("the plan cannot be written as JSON").with_source(e))
}

/// Whether files can be written in a folder, which need not exist. Changes nothing.
fn can_write(folder: &Path) -> Result<()> {
    let folder = std::path::absolute(folder).map_err(|e| io(e, "cannot write", folder))?;
    let missing = folder.ancestors().take_while(|above| !above.exists()).last();
    output_file(missing.unwrap_or(&folder.join(emit::HOST_SCRIPT))).map(drop)
}

fn write_files(folder: &Path, files: &[EmittedFile]) -> Result<()> {
    make_folders(folder)?;
    for file in files {
        let path = folder.join(&file.name);
        output_file(&path)?.write(file.text.as_bytes()).map_err(|e| io(e, "cannot write", &path))?;
    }
    Ok(())
}

/// Numbers in ascending order as the kernel lists CPUs: `0-9,20-29`.
fn list(numbers: &[u32]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in sorted {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range =
        |(low, high): &(u32, u32)| if low == high { low.to_string() } else { format!("{low}-{high}") };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
