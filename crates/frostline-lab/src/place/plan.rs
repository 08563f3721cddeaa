//! From topology, machines and policy to a [`Plan`]: every vCPU with its CPU, every machine with its memory,
//! pages, queues and threads, and for what does not fit, why and what would.

use std::collections::{BTreeMap, BTreeSet};

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::cost::Unpinned;
use super::pack::{self, Kind, Mixes, Packing, Proof, Room, STEP_MIB};
use super::request::{Emulator, Group, Memory, Pages, Policy, Reserve, Threads, Wanted};
use super::topology::{Core, DeviceKind, Node, Topology};

mod advice;

/// Queue pairs of a tap device by the kernel's major version: 1 before 3.0, 8 with 3.x, 256 from 4.0 on
/// (`MAX_TAP_QUEUES` of drivers/net/tun.c; nova/virt/libvirt/vif.py has the same table).
const TAP_QUEUES: [(u32, u32); 3] = [(4, 256), (3, 8), (0, 1)];

/// Huge pages pay off when the memory is at least this many of them; and less is lost to rounding.
const PAGES_MIN: u64 = 16;

/// A placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The host in short.
    pub host: Host,
    /// What stays with the host, by node.
    pub reserved: Vec<NodeShare>,
    /// The machines that are placed, in the order asked for.
    pub machines: Vec<Machine>,
    /// What is not placed.
    pub unplaced: Vec<Unplaced>,
    /// What is left over, by node.
    pub free: Vec<NodeShare>,
    /// How sure it is that there is no better placement.
    pub proof: Proof,
    /// What would make everything fit, each tried by planning again. Empty if everything fits.
    pub would_fit: Vec<String>,
    /// Remarks that a reader needs.
    pub notes: Vec<String>,
    /// What the same machines without pinning would have to expect.
    pub unpinned: Unpinned,
}

/// The host in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Where the topology comes from.
    pub source: String,
    /// NUMA nodes with CPUs.
    pub nodes: u32,
    /// Physical cores that count.
    pub cores: u32,
    /// Their hardware threads.
    pub cpus: u32,
    /// Hardware threads per core.
    pub threads: u32,
    /// Memory of those nodes.
    pub memory_mib: u64,
    /// Relative latency from node to node, 10 being local, if the firmware states it.
    pub distances: Option<Vec<Vec<u32>>>,
    /// The processor's maker, if known.
    pub cpu_vendor: Option<String>,
    /// Its instruction set, if known.
    pub architecture: Option<String>,
}

/// CPUs and memory of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShare {
    /// The node.
    pub node: u32,
    /// Its CPUs.
    pub cpus: Vec<u32>,
    /// Memory.
    pub memory_mib: u64,
}

/// A placed machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// `vm` with its size and number, such as `vm20-1`.
    pub name: String,
    /// Its vCPUs.
    pub vcpus: u32,
    /// Its part on each node; more than one only if no node holds it whole.
    pub cells: Vec<Cell>,
    /// Whether the memory was requested, or is its cores' part of the node's.
    pub memory_asked: bool,
    /// Threads per core that the guest is shown.
    pub guest_threads: u32,
    /// Where the emulator's and the I/O threads run.
    pub emulator_cpus: Vec<u32>,
    /// Whose CPUs those are.
    pub emulator_on: EmulatorOn,
    /// Disks.
    pub disks: u32,
    /// I/O threads of each disk.
    pub iothreads_per_disk: u32,
    /// Queue pairs of the network interface.
    pub queues: u32,
    /// Size of the pages of its memory.
    pub page_kib: u64,
}

/// A machine's part on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The node.
    pub node: u32,
    /// Each vCPU and its CPU.
    pub pins: Vec<Pin>,
    /// All hardware threads of its cores; no other machine has one of them.
    pub cpus: Vec<u32>,
    /// Its memory on this node; 0 if neither asked for nor known.
    pub memory_mib: u64,
    /// Third-level caches that its cores are below.
    pub l3_caches: u32,
}

/// A vCPU on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The guest's CPU.
    pub vcpu: u32,
    /// The host's CPU.
    pub cpu: u32,
}

/// Whose CPUs the emulator's and the I/O threads run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmulatorOn {
    /// One CPU more than the machine's vCPUs.
    Own,
    /// Reserved CPUs of the host on the machine's node.
    HostNear,
    /// The idle sibling of the machine's last vCPU.
    Spare,
    /// Reserved CPUs of the host on another node.
    HostFar,
    /// The machine's own vCPUs are disturbed, since nothing is left.
    Vcpus,
}

/// Machines that are not placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unplaced {
    /// What was requested.
    pub group: Group,
    /// How many of them are missing.
    pub missing: u32,
    /// Why, with each node's figures.
    pub why: String,
}

impl Plan {
    /// Plans `wanted` on `topology`. What cannot be placed is part of the answer; a policy that the host
    /// cannot follow (reserving more than there is) is `Invalid`.
    pub fn make(topology: &Topology, wanted: &Wanted, policy: &Policy) -> Result<Plan> {
        let draft = Draft::best(topology, wanted, policy, &pack::pack)?;
        let mut plan = draft.plan(wanted);
        plan.check_pages()?;
        plan.would_fit = advice::would_fit(topology, wanted, policy, &plan)?;
        Ok(plan)
    }

    fn check_pages(&self) -> Result<()> {
        let broken = |m: &&Machine| m.cells.iter().any(|c| !(c.memory_mib * 1024).is_multiple_of(m.page_kib));
        match self.machines.iter().find(broken) {
            Some(machine) => Err(Error::invalid(format!(
                "the memory of {} on each of its nodes is not a whole number of pages of {} KiB",
                machine.name, machine.page_kib
            ))),
            None => Ok(()),
        }
    }

    /// Whether every machine is placed.
    pub fn is_complete(&self) -> bool {
        self.unplaced.is_empty()
    }
}

impl Machine {
    /// Memory over all nodes.
    pub fn memory_mib(&self) -> u64 {
        self.cells.iter().map(|cell| cell.memory_mib).sum()
    }

    /// All its CPUs, ascending.
    pub fn cpus(&self) -> Vec<u32> {
        let all: BTreeSet<u32> = self.cells.iter().flat_map(|cell| cell.cpus.iter().copied()).collect();
        all.into_iter().collect()
    }

    /// Its nodes.
    pub fn nodes(&self) -> Vec<u32> {
        self.cells.iter().map(|cell| cell.node).collect()
    }
}

/// Plans without advice, for trying alternatives within `budget` mixes: how many of each group are placed.
fn placed(topology: &Topology, wanted: &Wanted, policy: &Policy, budget: &Mixes) -> Result<Vec<u32>> {
    let counts = |rooms: &[Room], kinds: &[Kind]| pack::counts(rooms, kinds, budget);
    Ok(Draft::best(topology, wanted, policy, &counts)?.packing.score.counts)
}

/// A packing with what it was made from.
struct Draft<'a> {
    topology: &'a Topology,
    policy: &'a Policy,
    /// Reserved cores by node, as indexes into the node's cores.
    reserved: Vec<BTreeSet<usize>>,
    /// vCPUs of each part, by group.
    shapes: Vec<Vec<u32>>,
    kinds: Vec<Kind>,
    packing: Packing,
}

impl<'a> Draft<'a> {
    /// The draft that places most; of equal ones the one with fewer machines over several nodes, then the
    /// one that leaves more to the host.
    fn best(
        topology: &'a Topology,
        wanted: &Wanted,
        policy: &'a Policy,
        pack: &dyn Fn(&[Room], &[Kind]) -> Packing,
    ) -> Result<Draft<'a>> {
        let rank = |draft: &Draft<'_>| {
            let counts = &draft.packing.score.counts;
            let spanning = draft.kinds.iter().zip(counts).filter(|(kind, _)| kind.spans());
            let spanning: u32 = spanning.map(|(_, count)| *count).sum();
            (draft.packing.score.vcpus, counts.clone(), std::cmp::Reverse(spanning))
        };
        let mut best: Option<Draft<'a>> = None;
        for reserved in reservations(topology, &policy.reserve)? {
            let draft = Draft::with(topology, wanted, policy, reserved, pack)?;
            if best.as_ref().is_none_or(|best| rank(&draft) > rank(best)) {
                best = Some(draft);
            }
        }
        best.ok_or_else(|| Error::internal("no reservation was tried"))
    }

    fn with(
        topology: &'a Topology,
        wanted: &Wanted,
        policy: &'a Policy,
        reserved: Vec<BTreeSet<usize>>,
        pack: &dyn Fn(&[Room], &[Kind]) -> Packing,
    ) -> Result<Draft<'a>> {
        if wanted.groups.iter().any(|group| group.memory_mib.is_some())
            && topology.nodes.iter().any(|node| node.memory_mib == 0)
        {
            return Err(Error::invalid(
                "the topology does not say how much memory each node has: export it with `lstopo --of xml` on the host itself, or ask for machines without @MEMORY",
            ));
        }
        let rooms: Vec<Room> = topology
            .nodes
            .iter()
            .zip(&reserved)
            .map(|(node, kept)| room(topology, node, kept, policy))
            .collect();
        let mut shapes = Vec::new();
        let mut kinds = Vec::new();
        for group in &wanted.groups {
            let (shape, kind) = shape(group, topology.threads(), policy, &rooms);
            shapes.push(shape);
            kinds.push(kind);
        }
        let packing = pack(&rooms, &kinds);
        Ok(Draft { topology, policy, reserved, shapes, kinds, packing })
    }

    fn plan(&self, wanted: &Wanted) -> Plan {
        let reserved = self.reserved_shares();
        let mut machines = self.machines(wanted);
        self.give_memory(wanted, &mut machines);
        for machine in &mut machines {
            machine.page_kib = self.page_kib(machine);
            (machine.emulator_cpus, machine.emulator_on) = self.emulator(machine, &reserved);
        }
        let free = self.free_shares(&machines, &reserved);
        let unplaced = self.unplaced(wanted, &free);
        let mut plan = Plan {
            host: host(self.topology),
            unpinned: Unpinned::of(self.topology, wanted),
            reserved,
            machines,
            unplaced,
            free,
            proof: self.packing.proof,
            would_fit: Vec::new(),
            notes: Vec::new(),
        };
        plan.notes = advice::notes(self.topology, self.policy, &plan);
        plan
    }

    fn reserved_shares(&self) -> Vec<NodeShare> {
        let share = |(node, kept): (&Node, &BTreeSet<usize>)| NodeShare {
            node: node.id,
            cpus: cpus_of(kept.iter().map(|core| &node.cores[*core])),
            memory_mib: self.policy.reserved_mib(node.memory_mib),
        };
        self.topology.nodes.iter().zip(&self.reserved).map(share).collect()
    }

    /// Machines with their CPUs, in the order asked for; memory, pages and emulator are still open.
    fn machines(&self, wanted: &Wanted) -> Vec<Machine> {
        // Larger parts choose their cores first, so that they find whole caches free.
        let mut parts: Vec<(u32, usize, usize, usize)> = Vec::new();
        for (group, machines) in self.packing.spots.iter().enumerate() {
            for machine in 0..machines.len() {
                let cores = self.kinds[group].cores.iter().enumerate();
                parts.extend(cores.map(|(part, cores)| (*cores, group, machine, part)));
            }
        }
        parts.sort_by_key(|(cores, group, machine, part)| {
            (std::cmp::Reverse(*cores), *group, *machine, *part)
        });
        let mut free: Vec<Vec<&Core>> =
            self.topology.nodes.iter().zip(&self.reserved).map(unreserved).collect();
        let mut cores: BTreeMap<(usize, usize, usize), Vec<&Core>> = BTreeMap::new();
        for (count, group, machine, part) in parts {
            let node = self.packing.spots[group][machine][part].node;
            cores.insert((group, machine, part), take_cores(&mut free[node], count as usize));
        }
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        let mut out = Vec::new();
        for (group, wanted) in wanted.groups.iter().enumerate() {
            for (machine, spots) in self.packing.spots[group].iter().enumerate() {
                let number = numbers.entry(wanted.vcpus).or_default();
                *number += 1;
                let name = format!("vm{}-{number}", wanted.vcpus);
                let parts =
                    spots.iter().zip(&self.shapes[group]).enumerate().map(|(part, (spot, vcpus))| Part {
                        node: self.topology.nodes[spot.node].id,
                        vcpus: *vcpus,
                        mib: spot.mib,
                        cores: &cores[&(group, machine, part)],
                    });
                out.push(self.machine(name, wanted, parts.collect()));
            }
        }
        out
    }

    fn machine(&self, name: String, group: &Group, mut parts: Vec<Part<'_>>) -> Machine {
        parts.sort_by_key(|part| part.node);
        let threads = self.topology.threads();
        let siblings = self.policy.threads == Threads::Siblings && threads > 1;
        let mut next = 0;
        let mut cells = Vec::new();
        for Part { node, vcpus, mib, cores } in &parts {
            let slots = cores.iter().flat_map(|core| if siblings { &core.cpus[..] } else { &core.cpus[..1] });
            let pins = slots.take(*vcpus as usize).zip(next..).map(|(cpu, vcpu)| Pin { vcpu, cpu: *cpu });
            let pins: Vec<Pin> = pins.collect();
            next += vcpus;
            let l3: BTreeSet<u32> = cores.iter().map(|core| core.l3).collect();
            let cpus = cpus_of(cores.iter().copied());
            cells.push(Cell { node: *node, pins, cpus, memory_mib: *mib, l3_caches: l3.len() as u32 });
        }
        let even = parts.iter().all(|part| part.vcpus.is_multiple_of(threads));
        Machine {
            name,
            vcpus: group.vcpus,
            cells,
            memory_asked: group.memory_mib.is_some(),
            guest_threads: if siblings && even { threads } else { 1 },
            emulator_cpus: Vec::new(),
            emulator_on: EmulatorOn::Vcpus,
            disks: self.policy.disks,
            iothreads_per_disk: self.policy.iothreads_per_disk,
            queues: group.vcpus.min(self.queues_max()),
            page_kib: 4,
        }
    }

    fn queues_max(&self) -> u32 {
        let major =
            self.topology.kernel.as_deref().and_then(|release| release.split('.').next()?.parse().ok());
        let of_kernel = TAP_QUEUES.iter().find(|(from, _)| major.unwrap_or(u32::MAX) >= *from);
        self.policy.queues_max.unwrap_or(of_kernel.map_or(1, |(_, queues)| *queues)).max(1)
    }

    /// Memory as asked; where nothing was asked, each machine gets its cores' part of what the others leave of
    /// its nodes, and alike machines get alike parts.
    fn give_memory(&self, wanted: &Wanted, machines: &mut [Machine]) {
        let group_of: Vec<usize> = self.group_of_machines();
        let mut asked = vec![(0_u64, 0_u64); self.topology.nodes.len()];
        for cell in machines.iter().filter(|machine| machine.memory_asked).flat_map(|machine| &machine.cells)
        {
            let at = self.node_at(cell.node);
            asked[at].0 += cell.memory_mib;
            asked[at].1 += self.cores_in(cell);
        }
        let per_core: Vec<u64> =
            (0..self.topology.nodes.len()).map(|at| self.spare_per_core(at, asked[at])).collect();
        for group in 0..wanted.groups.len() {
            if wanted.groups[group].memory_mib.is_some() {
                continue;
            }
            let mut cells: Vec<&mut Cell> = machines
                .iter_mut()
                .zip(&group_of)
                .filter(|(_, of)| **of == group)
                .flat_map(|(machine, _)| &mut machine.cells)
                .collect();
            let share = |cell: &Cell| per_core[self.node_at(cell.node)] * self.cores_in(cell) / 1024;
            let least = cells.iter().map(|cell| share(cell)).min().unwrap_or(0);
            // Whole GiB where there are many of them, so that the largest pages can be used.
            let step = match self.policy.pages {
                Pages::Kib(kib) => (kib / 1024).max(STEP_MIB),
                Pages::Auto if least >= PAGES_MIN * 1024 => 1024,
                Pages::Auto => STEP_MIB,
            };
            cells.iter_mut().for_each(|cell| cell.memory_mib = least / step * step);
        }
    }

    /// KiB for each core of the node `at` that is neither reserved nor of a machine with `asked` (MiB, cores).
    fn spare_per_core(&self, at: usize, asked: (u64, u64)) -> u64 {
        let node = &self.topology.nodes[at];
        let usable = node.memory_mib - self.policy.reserved_mib(node.memory_mib);
        let cores = (node.cores.len() - self.reserved[at].len()) as u64;
        (usable.saturating_sub(asked.0) * 1024).checked_div(cores.saturating_sub(asked.1)).unwrap_or(0)
    }

    fn group_of_machines(&self) -> Vec<usize> {
        let groups = self.packing.spots.iter().enumerate();
        groups.flat_map(|(group, machines)| machines.iter().map(move |_| group)).collect()
    }

    fn node_at(&self, id: u32) -> usize {
        self.topology.nodes.iter().position(|node| node.id == id).unwrap_or(0)
    }

    fn cores_in(&self, cell: &Cell) -> u64 {
        cell.cpus.len() as u64 / u64::from(self.topology.threads())
    }

    fn page_kib(&self, machine: &Machine) -> u64 {
        if let Pages::Kib(kib) = self.policy.pages {
            return kib;
        }
        let listed = &self.topology.nodes[self.node_at(machine.cells[0].node)].page_kib;
        // Exports without a kernel list no sizes but the ordinary one; 2 MiB is what nearly every host has.
        let mut sizes: Vec<u64> = if listed.len() > 1 { listed[1..].to_vec() } else { vec![2048] };
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let suits = |kib: &u64| {
            machine.cells.iter().all(|cell| {
                let memory = cell.memory_mib * 1024;
                memory >= PAGES_MIN * kib && memory.is_multiple_of(*kib)
            })
        };
        sizes.into_iter().find(suits).unwrap_or(listed.first().copied().unwrap_or(4))
    }

    fn emulator(&self, machine: &Machine, reserved: &[NodeShare]) -> (Vec<u32>, EmulatorOn) {
        let pinned: BTreeSet<u32> =
            machine.cells.iter().flat_map(|cell| &cell.pins).map(|pin| pin.cpu).collect();
        let spare: Vec<u32> = machine.cpus().into_iter().filter(|cpu| !pinned.contains(cpu)).collect();
        if self.policy.emulator == Emulator::Own {
            return (own_cpus(machine, &spare, self.policy.threads, self.topology), EmulatorOn::Own);
        }
        let of = |near: bool| {
            let nodes = machine.nodes();
            let shares = reserved.iter().filter(move |share| nodes.contains(&share.node) == near);
            shares.flat_map(|share| share.cpus.iter().copied()).collect::<Vec<u32>>()
        };
        let spare_siblings = if self.policy.threads == Threads::Siblings { spare } else { Vec::new() };
        [
            (of(true), EmulatorOn::HostNear),
            (spare_siblings, EmulatorOn::Spare),
            (of(false), EmulatorOn::HostFar),
        ]
        .into_iter()
        .find(|(cpus, _)| !cpus.is_empty())
        .unwrap_or_else(|| (pinned.into_iter().collect(), EmulatorOn::Vcpus))
    }

    fn free_shares(&self, machines: &[Machine], reserved: &[NodeShare]) -> Vec<NodeShare> {
        let cells: Vec<&Cell> = machines.iter().flat_map(|machine| &machine.cells).collect();
        let share = |(node, kept): (&Node, &NodeShare)| {
            let here = || cells.iter().filter(|cell| cell.node == node.id);
            let taken: BTreeSet<u32> =
                here().flat_map(|cell| &cell.cpus).chain(&kept.cpus).copied().collect();
            let all = cpus_of(node.cores.iter());
            let memory: u64 = here().map(|cell| cell.memory_mib).sum();
            NodeShare {
                node: node.id,
                cpus: all.into_iter().filter(|cpu| !taken.contains(cpu)).collect(),
                memory_mib: (node.memory_mib - kept.memory_mib).saturating_sub(memory),
            }
        };
        self.topology.nodes.iter().zip(reserved).map(share).collect()
    }

    fn unplaced(&self, wanted: &Wanted, free: &[NodeShare]) -> Vec<Unplaced> {
        let mut out = Vec::new();
        for (group, wanted) in wanted.groups.iter().enumerate() {
            let missing = wanted.count - self.packing.score.counts[group];
            if missing > 0 {
                let why = advice::why(self.topology, wanted, &self.kinds[group], free);
                out.push(Unplaced { group: wanted.clone(), missing, why });
            }
        }
        out
    }
}

/// What of a machine goes on a node.
struct Part<'t> {
    node: u32,
    vcpus: u32,
    mib: u64,
    cores: &'t Vec<&'t Core>,
}

/// Which cores are reserved, by node; for `auto` the choices in order of preference.
fn reservations(topology: &Topology, reserve: &Reserve) -> Result<Vec<Vec<BTreeSet<usize>>>> {
    let first = |count: usize| (0..count).collect::<BTreeSet<usize>>();
    let each = |count: usize| topology.nodes.iter().map(|_| first(count)).collect::<Vec<_>>();
    match reserve {
        Reserve::Auto => {
            let of_first_node =
                (0..topology.nodes.len()).map(|node| first(usize::from(node == 0))).collect::<Vec<_>>();
            let one_each = topology.nodes.iter().all(|node| node.cores.len() > 1).then(|| each(1));
            Ok(one_each.into_iter().chain([of_first_node, each(0)]).collect())
        }
        Reserve::Cores(count) => {
            match topology.nodes.iter().find(|node| node.cores.len() < *count as usize) {
                Some(node) => Err(Error::invalid(format!(
                    "{count} cores of each node cannot be reserved: node {} has {}",
                    node.id,
                    node.cores.len()
                ))),
                None => Ok(vec![each(*count as usize)]),
            }
        }
        Reserve::Cpus(cpus) => {
            let kept = |core: &Core| core.cpus.iter().any(|cpu| cpus.binary_search(cpu).is_ok());
            let of = |node: &Node| (0..node.cores.len()).filter(|core| kept(&node.cores[*core])).collect();
            let known: BTreeSet<u32> = topology
                .nodes
                .iter()
                .flat_map(|node| &node.cores)
                .flat_map(|core| &core.cpus)
                .copied()
                .collect();
            match cpus.iter().find(|cpu| !known.contains(cpu) && !topology.uneven_cpus.contains(cpu)) {
                Some(cpu) => Err(Error::invalid("a CPU to reserve is not on this host").with("cpu", cpu)),
                None => Ok(vec![topology.nodes.iter().map(of).collect()]),
            }
        }
    }
}

fn room(topology: &Topology, node: &Node, kept: &BTreeSet<usize>, policy: &Policy) -> Room {
    let weight = |kind: DeviceKind| match kind {
        DeviceKind::Network => 2,
        DeviceKind::Block => 1,
    };
    // One card of each kind counts: ten functions of one card are not nearer than one.
    let near = [DeviceKind::Network, DeviceKind::Block]
        .into_iter()
        .filter(|kind| topology.devices.iter().any(|d| d.kind == *kind && d.node == Some(node.id)))
        .map(weight)
        .sum();
    Room {
        cores: (node.cores.len() - kept.len()) as u32,
        mib: node.memory_mib - policy.reserved_mib(node.memory_mib),
        near,
    }
}

/// vCPUs of each part of a machine, and what it needs: one part if any node holds it, else as few as the empty host can
/// hold; else one.
fn shape(group: &Group, threads: u32, policy: &Policy, rooms: &[Room]) -> (Vec<u32>, Kind) {
    let width = if policy.threads == Threads::Siblings { threads } else { 1 };
    let parts_max = group.vcpus.div_ceil(width).min(rooms.len() as u32);
    let divided = |parts| divided(group, parts, threads, policy);
    (1..=parts_max).map(divided).find(|(_, kind)| kind.fits(rooms)).unwrap_or_else(|| divided(1))
}

/// The machine in so many `parts`, largest first, of at least a core.
fn divided(group: &Group, parts: u32, threads: u32, policy: &Policy) -> (Vec<u32>, Kind) {
    let width = if policy.threads == Threads::Siblings { threads } else { 1 };
    let cores = group.vcpus.div_ceil(width);
    let mut vcpus: Vec<u32> = if group.vcpus.is_multiple_of(parts) {
        vec![group.vcpus / parts; parts as usize]
    } else {
        (0..parts).map(|part| (cores / parts + u32::from(part < cores % parts)) * width).collect()
    };
    // The last core may be half used.
    let excess = vcpus.iter().sum::<u32>() - group.vcpus;
    if let Some(last) = vcpus.last_mut() {
        *last -= excess;
    }
    let own = |part: usize| u32::from(part == 0 && policy.emulator == Emulator::Own);
    let need = |(part, vcpus): (usize, &u32)| match policy.threads {
        Threads::Siblings => (vcpus + own(part)).div_ceil(threads),
        Threads::OnePerCore => vcpus + own(part),
    };
    let kind = Kind {
        cores: vcpus.iter().enumerate().map(need).collect(),
        mib: group.memory_mib.unwrap_or(0),
        vcpus: group.vcpus,
        count: group.count,
    };
    (vcpus, kind)
}

/// The CPU kept for the emulator by `own`: a spare sibling, or the first CPU of the spare core.
fn own_cpus(machine: &Machine, spare: &[u32], threads: Threads, topology: &Topology) -> Vec<u32> {
    let pinned: BTreeSet<u32> = machine.cells.iter().flat_map(|cell| &cell.pins).map(|pin| pin.cpu).collect();
    let idle_core = topology
        .nodes
        .iter()
        .flat_map(|node| &node.cores)
        .find(|core| spare.contains(&core.cpus[0]) && core.cpus.iter().all(|cpu| !pinned.contains(cpu)));
    match (threads, idle_core) {
        (Threads::OnePerCore, Some(core)) => core.cpus.clone(),
        _ => spare.to_vec(),
    }
}

fn unreserved<'t>((node, kept): (&'t Node, &BTreeSet<usize>)) -> Vec<&'t Core> {
    node.cores.iter().enumerate().filter(|(at, _)| !kept.contains(at)).map(|(_, core)| core).collect()
}

/// Takes `count` cores from `free`: below the third-level cache with the fewest free cores that still holds
/// them all, else from the caches with the most.
fn take_cores<'t>(free: &mut Vec<&'t Core>, count: usize) -> Vec<&'t Core> {
    let mut by_cache: BTreeMap<u32, usize> = BTreeMap::new();
    for core in free.iter() {
        *by_cache.entry(core.l3).or_default() += 1;
    }
    let whole =
        by_cache.iter().filter(|(_, cores)| **cores >= count).min_by_key(|(l3, cores)| (**cores, **l3));
    let mut order: Vec<(u32, usize)> = match whole {
        Some((l3, cores)) => vec![(*l3, *cores)],
        None => by_cache.into_iter().collect(),
    };
    order.sort_by_key(|(l3, cores)| (std::cmp::Reverse(*cores), *l3));
    let mut taken = Vec::new();
    for (l3, _) in order {
        let wanted = count - taken.len();
        let mut here: Vec<&Core> = Vec::new();
        free.retain(|core| {
            let take = core.l3 == l3 && here.len() < wanted;
            if take {
                here.push(core);
            }
            !take
        });
        taken.extend(here);
    }
    taken
}

fn cpus_of<'t>(cores: impl Iterator<Item = &'t Core>) -> Vec<u32> {
    let mut cpus: Vec<u32> = cores.flat_map(|core| core.cpus.iter().copied()).collect();
    cpus.sort_unstable();
    cpus
}

fn host(topology: &Topology) -> Host {
    Host {
        source: topology.source.clone(),
        nodes: topology.nodes.len() as u32,
        cores: topology.cores(),
        cpus: topology.cores() * topology.threads(),
        threads: topology.threads(),
        memory_mib: topology.nodes.iter().map(|node| node.memory_mib).sum(),
        distances: topology.distances.clone(),
        cpu_vendor: topology.cpu_vendor.clone(),
        architecture: topology.architecture.clone(),
    }
}

fn amount(mib: u64) -> String {
    Memory { mib }.to_string()
}

#[cfg(test)]
mod tests;
