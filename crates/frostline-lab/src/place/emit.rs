//! A plan as input for libvirt, QEMU or OpenStack, and the preparation of the host.
//!
//! The user must adapt the paths of disks and the bridge; everything else follows from the plan.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::list;
use super::plan::{Machine, Plan};

mod libvirt;
mod openstack;
mod qemu;

/// For whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Target {
    /// Domain XML for `virsh define`.
    Libvirt,
    /// Shell scripts that start QEMU and pin its threads.
    Qemu,
    /// Flavor properties and nova.conf.
    Openstack,
}

/// How guest disks do their I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DiskIo {
    /// Linux' native AIO, for block devices and preallocated files.
    Native,
    /// io_uring: QEMU 5.0, libvirt 6.3.
    IoUring,
}

/// What the plan does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The bridge of the network interfaces.
    pub bridge: String,
    /// How disks do their I/O.
    pub io: DiskIo,
}

/// A file to write or print.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmittedFile {
    /// Its name, without a directory.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// The file that every target has: what is to be done on the host.
pub(super) const HOST_SCRIPT: &str = "host.sh";

/// x86 interrupts reach this many CPUs without remapping (8-bit APIC ids, 255 being the broadcast).
const VCPUS_MAX: u32 = 255;

/// The files for `target`. A plan without memory is `Invalid`, since no machine can be made from it.
pub fn emit(plan: &Plan, target: Target, around: &Surroundings) -> Result<Vec<EmittedFile>> {
    let bridge_ok = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if around.bridge.is_empty() || around.bridge.len() > 15 || !around.bridge.chars().all(bridge_ok) {
        return Err(Error::invalid(format!("{:?} is not a name of a bridge", around.bridge)));
    }
    if plan.machines.iter().any(|machine| machine.memory_mib() == 0) {
        return Err(Error::invalid(
            "the topology does not say how much memory there is: export it with `lstopo --of xml` on the host itself",
        ));
    }
    if target != Target::Openstack && plan.machines.iter().any(|machine| machine.vcpus > VCPUS_MAX) {
        return Err(Error::invalid(format!(
            "a machine of more than {VCPUS_MAX} vCPUs needs a virtual IOMMU, which is not described"
        )));
    }
    if let Some(other) = plan.host.architecture.as_deref().filter(|known| *known != "x86_64")
        && target != Target::Openstack
    {
        return Err(Error::invalid(format!(
            "only machines of x86_64 hosts are described, and this is {other}"
        )));
    }
    let mut files = match target {
        Target::Openstack => openstack::files(plan),
        Target::Libvirt => plan
            .machines
            .iter()
            .map(|machine| {
                let text = libvirt::domain(plan, machine, around)?;
                Ok(EmittedFile { name: format!("{}.xml", machine.name), text })
            })
            .collect::<Result<Vec<_>>>()?,
        Target::Qemu => plan.machines.iter().map(|machine| qemu::script(plan, machine, around)).collect(),
    };
    files.insert(0, EmittedFile { name: HOST_SCRIPT.into(), text: host_script(plan) });
    Ok(files)
}

/// Huge pages by node and size in KiB.
fn huge_pages(plan: &Plan) -> BTreeMap<(u32, u64), u64> {
    let mut pages = BTreeMap::new();
    for machine in plan.machines.iter().filter(|machine| machine.page_kib >= 1024) {
        for cell in &machine.cells {
            *pages.entry((cell.node, machine.page_kib)).or_default() +=
                cell.memory_mib * 1024 / machine.page_kib;
        }
    }
    pages
}

/// CPUs of all machines.
fn machine_cpus(plan: &Plan) -> Vec<u32> {
    let mut cpus: Vec<u32> = plan.machines.iter().flat_map(Machine::cpus).collect();
    cpus.sort_unstable();
    cpus
}

/// What the host needs before the machines start. Run as root; the undo is beside each step.
fn host_script(plan: &Plan) -> String {
    let mut text = String::from(
        "#!/bin/sh\n# Prepares the host for the planned machines. Read it first; run it as root.\nset -eu\n",
    );
    for ((node, kib), count) in huge_pages(plan) {
        let file = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages");
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\n# {count} huge pages of {kib} KiB on node {node}. Memory that is in use fragments: read back what came\n\
             # of it, and for 1 GiB pages reserve at boot (hugepagesz=, hugepages={node}:{count}). Undo: echo 0.\n\
             echo {count} > {file}\n\
             test \"$(cat {file})\" -ge {count}"
        );
    }
    let _ = writeln!(
        text,
        "\n# Device interrupts stay off the machines' CPUs: put this line into /etc/default/irqbalance\n\
         # (Debian) or /etc/sysconfig/irqbalance, then restart irqbalance. Undo: remove the line.\n\
         # IRQBALANCE_BANNED_CPULIST={}",
        list(&machine_cpus(plan))
    );
    let reserved: Vec<u32> = plan.reserved.iter().flat_map(|share| share.cpus.iter().copied()).collect();
    if !reserved.is_empty() {
        let _ = writeln!(
            text,
            "\n# The host's own services stay on the reserved CPUs. Undo: systemctl revert system.slice user.slice\n\
             # systemctl set-property system.slice AllowedCPUs={0}\n# systemctl set-property user.slice AllowedCPUs={0}",
            list(&reserved).replace(',', " ")
        );
    }
    text
}

/// Number of the disk's first I/O thread; they are numbered from 1 over all disks.
fn first_iothread(machine: &Machine, disk: u32) -> u32 {
    disk * machine.iothreads_per_disk + 1
}

fn disk_path(machine: &Machine, disk: u32) -> String {
    format!("/var/lib/libvirt/images/{}-{disk}.raw", machine.name)
}

/// Sockets, cores and threads that the guest is shown: a socket for each node if the vCPUs divide evenly.
fn guest_topology(machine: &Machine) -> (u32, u32, u32) {
    let cells = machine.cells.len() as u32;
    let even = machine.cells.iter().all(|cell| cell.pins.len() == machine.cells[0].pins.len());
    let sockets = if even { cells } else { 1 };
    (sockets, machine.vcpus / machine.guest_threads / sockets, machine.guest_threads)
}

/// The guest's CPUs in a cell, which are consecutive, as the kernel writes them.
fn vcpus_of(cell: &super::plan::Cell) -> String {
    list(&cell.pins.iter().map(|pin| pin.vcpu).collect::<Vec<_>>())
}

/// The host's relative latency between the nodes of two cells of a machine.
fn distance(plan: &Plan, from: u32, to: u32) -> Option<u32> {
    // Shares are in the order of the topology's nodes, and so is the table.
    let at = |id: u32| plan.reserved.iter().position(|share| share.node == id);
    plan.host.distances.as_ref()?.get(at(from)?)?.get(at(to)?).copied()
}

#[cfg(test)]
mod tests;
