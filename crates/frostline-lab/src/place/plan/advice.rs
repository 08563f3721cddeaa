//! Explanations of a plan: why a machine does not fit, what would, and notes on those that do.

use frostline_base::Result;
use frostline_show::show_count;

use super::{EmulatorOn, Machine, NodeShare, Plan, amount, placed};
use crate::place::pack::{Kind, MIXES_MAX, Mixes, Proof};
use crate::place::request::{Emulator, Group, Policy, Reserve, Threads, Wanted};
use crate::place::topology::{Device, DeviceKind, Topology};

/// More hosts than this are not counted.
const HOSTS_MAX: usize = 64;
/// Nodes named in a reason; those with the most cores left come first.
const NODES_SHOWN: usize = 4;
/// Machines named in a remark.
const NAMES_SHOWN: usize = 4;
/// Devices remarked on; a card with virtual functions has hundreds.
const DEVICES_SHOWN: usize = 8;

/// Why a machine of this kind is not placed.
pub(super) fn why(topology: &Topology, group: &Group, kind: &Kind, free: &[NodeShare]) -> String {
    let threads = topology.threads();
    let with = |cores: u32| {
        let cpus = show_count(u64::from(cores * threads), "CPU");
        format!("{} ({cpus})", show_count(u64::from(cores), "core"))
    };
    let and = |mib: u64| group.memory_mib.map_or(String::new(), |_| format!(" and {}", amount(mib)));
    let mut shares: Vec<&NodeShare> = free.iter().collect();
    shares.sort_by_key(|share| (std::cmp::Reverse(share.cpus.len()), share.node));
    let left = shares.iter().take(NODES_SHOWN).map(|share| {
        let cores = share.cpus.len() as u32 / threads;
        format!("node {} has {}{}", share.node, with(cores), and(share.memory_mib))
    });
    let mut left = left.collect::<Vec<_>>().join(", ");
    if shares.len() > NODES_SHOWN {
        left.push_str(", the other nodes no more");
    }
    let memory = and(kind.mib);
    let needs = match kind.cores[..] {
        [cores] => format!("{}{memory} on one node", with(cores)),
        [most, .., least] if most == least => {
            let n = kind.cores.len();
            let memory = if memory.is_empty() { memory } else { format!("{memory} on them") };
            format!("{} on each of {n} nodes{memory}, being larger than one", with(most))
        }
        _ => {
            let cores: Vec<String> = kind.cores.iter().map(|cores| with(*cores)).collect();
            format!("{}{memory} on {} nodes, being larger than one", cores.join(" + "), cores.len())
        }
    };
    format!("each needs {needs}; left: {left}")
}

/// What would make everything fit. Each alternative was planned: within one budget of mixes for all, then greedily.
pub(super) fn would_fit(
    topology: &Topology,
    wanted: &Wanted,
    policy: &Policy,
    plan: &Plan,
) -> Result<Vec<String>> {
    if plan.is_complete() {
        return Ok(Vec::new());
    }
    // One for all: there are dozens of alternatives.
    let budget = &Mixes::new(MIXES_MAX);
    let mut out = Vec::new();
    let mut tries = |what: &str, policy: Policy| -> Result<()> {
        if fits(topology, wanted, &policy, budget)? {
            out.push(what.to_owned());
        }
        Ok(())
    };
    if policy.reserve != Reserve::Auto {
        tries(
            "--reserve auto: with fewer cores for the host",
            Policy { reserve: Reserve::Auto, ..policy.clone() },
        )?;
    }
    if policy.threads == Threads::OnePerCore {
        tries(
            "--threads siblings: a vCPU on each hardware thread",
            Policy { threads: Threads::Siblings, ..policy.clone() },
        )?;
    }
    if policy.emulator == Emulator::Own {
        tries(
            "--emulator host: no CPU for each machine's emulator",
            Policy { emulator: Emulator::Host, ..policy.clone() },
        )?;
    }
    for unplaced in &plan.unplaced {
        let Some(at) = wanted.groups.iter().position(|group| *group == unplaced.group) else { continue };
        out.extend(smaller(topology, wanted, policy, at, budget)?);
        out.extend(leaner(topology, wanted, policy, at, budget)?);
    }
    out.extend(more_hosts(topology, wanted, policy, budget)?);
    Ok(out)
}

fn fits(topology: &Topology, wanted: &Wanted, policy: &Policy, budget: &Mixes) -> Result<bool> {
    let counts = placed(topology, wanted, policy, budget)?;
    Ok(counts.iter().zip(&wanted.groups).all(|(placed, group)| *placed == group.count))
}

/// The largest size of group `at` with which all fits.
fn smaller(
    topology: &Topology,
    wanted: &Wanted,
    policy: &Policy,
    at: usize,
    budget: &Mixes,
) -> Result<Option<String>> {
    let step = if policy.threads == Threads::Siblings { topology.threads() } else { 1 };
    let sizes = wanted.groups[at].vcpus.saturating_sub(1) / step;
    let with = |size: u64| {
        let mut wanted = wanted.clone();
        wanted.groups[at].vcpus = size as u32 * step;
        wanted
    };
    let best = largest(u64::from(sizes), |size| fits(topology, &with(size), policy, budget))?;
    Ok(best.map(|size| format!("{} CPUs each: {}", size as u32 * step, with(size).groups[at])))
}

/// The most memory of group `at` with which all fits.
fn leaner(
    topology: &Topology,
    wanted: &Wanted,
    policy: &Policy,
    at: usize,
    budget: &Mixes,
) -> Result<Option<String>> {
    let Some(mib) = wanted.groups[at].memory_mib else { return Ok(None) };
    // In whole GiB; less than that is no machine to plan for.
    let with = |gib: u64| {
        let mut wanted = wanted.clone();
        wanted.groups[at].memory_mib = Some(gib * 1024);
        wanted
    };
    let best = largest(mib.saturating_sub(1) / 1024, |gib| fits(topology, &with(gib), policy, budget))?;
    Ok(best.map(|gib| format!("{gib}GiB each: {}", with(gib).groups[at])))
}

/// The largest of 1 to `most` that is `good`, if being good stops at some point and does not come back.
fn largest(most: u64, good: impl Fn(u64) -> Result<bool>) -> Result<Option<u64>> {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if good(middle)? {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok((low > 0).then_some(low))
}

/// How many hosts like this one carry everything, filled one after the other.
fn more_hosts(
    topology: &Topology,
    wanted: &Wanted,
    policy: &Policy,
    budget: &Mixes,
) -> Result<Option<String>> {
    let mut left = wanted.clone();
    for hosts in 1..=HOSTS_MAX {
        let counts = placed(topology, &left, policy, budget)?;
        if counts.iter().all(|count| *count == 0) {
            return Ok(None);
        }
        for (group, count) in left.groups.iter_mut().zip(counts) {
            group.count -= count;
        }
        if left.groups.iter().all(|group| group.count == 0) {
            return Ok(Some(format!("{hosts} hosts like this one, filled one after the other")));
        }
    }
    Ok(None)
}

/// Remarks on a plan.
pub(super) fn notes(topology: &Topology, policy: &Policy, plan: &Plan) -> Vec<String> {
    let mut notes = topology.notes.clone();
    notes.extend(reserve_note(topology, policy, plan));
    notes.extend(spanning_note(plan));
    notes.extend(odd_note(topology, policy, plan));
    notes.extend(far_devices(topology, plan));
    notes.extend(emulator_note(plan));
    if topology.nodes.iter().any(|node| node.page_kib.len() < 2) {
        notes.push("the topology lists no huge pages: 2 MiB are assumed to exist".into());
    }
    if topology.kernel.is_none() && policy.queues_max.is_none() {
        notes.push(
            "the topology does not name the kernel: 4.0 or newer is assumed, with 256 queues for a tap"
                .into(),
        );
    }
    if plan.proof == Proof::AllPlaced {
        notes.push(
            "too many combinations to try: all is placed, perhaps not spread as evenly as possible".into(),
        );
    }
    if let Proof::AtMost(vcpus) = plan.proof {
        let placed: u64 = plan.machines.iter().map(|machine| u64::from(machine.vcpus)).sum();
        let bound = if placed == vcpus {
            "exactly that many are placed".into()
        } else {
            format!("{placed} are placed")
        };
        notes.push(format!(
            "too many combinations to try, so placed greedily: no placement holds more than {vcpus} vCPUs, {bound}"
        ));
    }
    notes
}

fn reserve_note(topology: &Topology, policy: &Policy, plan: &Plan) -> Option<String> {
    let empty: Vec<u32> = plan.reserved.iter().filter(|s| s.cpus.is_empty()).map(|s| s.node).collect();
    if empty.is_empty() {
        return None;
    }
    let why = if policy.reserve == Reserve::Auto && !plan.machines.is_empty() {
        "a reserved core would cost a machine"
    } else {
        "as asked"
    };
    let nodes = crate::place::list(&empty);
    let uneven = &topology.uneven_cpus;
    if !uneven.is_empty() {
        return Some(format!(
            "no core of node {nodes} that machines can get is kept for the host ({why}): interrupts, vhost and emulator \
             threads run on the machines' CPUs, on another node, or on CPUs {}, which no machine gets",
            crate::place::list(uneven)
        ));
    }
    Some(format!(
        "no CPU of node {nodes} is kept for the host ({why}): interrupts, vhost and emulator threads run on the \
         machines' CPUs or on another node"
    ))
}

fn spanning_note(plan: &Plan) -> Option<String> {
    let larger = names(plan, |machine| machine.cells.len() > 1)?;
    Some(format!(
        "larger than a node, so over several and shown as many virtual NUMA nodes, which the software inside must \
         know how to use: {larger}"
    ))
}

fn odd_note(topology: &Topology, policy: &Policy, plan: &Plan) -> Option<String> {
    let threads = topology.threads();
    if policy.threads != Threads::Siblings || threads == 1 {
        return None;
    }
    let odd = names(plan, |machine| machine.guest_threads == 1)?;
    Some(format!(
        "the guest is not told which vCPUs are siblings, since it does not fill the cores on each of its nodes \
         (a multiple of {threads} on each would): {odd}"
    ))
}

/// The first machines of which `is` holds, and how many more there are.
fn names(plan: &Plan, is: impl Fn(&Machine) -> bool) -> Option<String> {
    let all: Vec<&str> = plan.machines.iter().filter(|m| is(m)).map(|m| m.name.as_str()).collect();
    let shown = all.iter().take(NAMES_SHOWN).copied().collect::<Vec<_>>().join(", ");
    match all.len() {
        0 => None,
        n if n > NAMES_SHOWN => Some(format!("{shown} and {} more", n - NAMES_SHOWN)),
        _ => Some(shown),
    }
}

fn far_devices(topology: &Topology, plan: &Plan) -> Vec<String> {
    let far = |device: &Device| {
        let node = device.node?;
        let far = names(plan, |machine| !machine.nodes().contains(&node))?;
        let kind = match device.kind {
            DeviceKind::Network => "packets",
            DeviceKind::Block => "blocks",
        };
        Some(format!("{} is on node {node}: {kind} of {far} cross to it if they use it", device.name))
    };
    topology.devices.iter().filter_map(far).take(DEVICES_SHOWN).collect()
}

fn emulator_note(plan: &Plan) -> Option<String> {
    let on = |place: EmulatorOn| names(plan, |machine| machine.emulator_on == place);
    let own = |names| {
        format!("emulator and I/O threads of {names} take time from their own vCPUs: nothing else is left")
    };
    let far = |names| format!("emulator and I/O threads of {names} run on another node");
    on(EmulatorOn::Vcpus).map(own).or_else(|| on(EmulatorOn::HostFar).map(far))
}
