//! Divides the host's CPUs among guests that must not disturb each other.

use std::fs;
use std::path::Path;

use frostline_doctor::facts::cpu_list;

/// What one of several guests gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// CPUs of the host.
    pub cpus: Vec<u32>,
    /// The NUMA node that they are all of, where the kernel knows nodes.
    pub node: Option<u32>,
}

/// The shares of `count` guests: a NUMA node each where there are enough, otherwise equal parts of all CPUs in
/// their order. More guests than CPUs get the same CPU.
pub fn shares(count: usize) -> Vec<Share> {
    shares_of(Path::new("/sys/devices/system"), count)
}

/// How many CPUs are online; at least one.
pub fn online() -> u32 {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    (cpu_list(&list).len() as u32).max(1)
}

fn shares_of(system: &Path, count: usize) -> Vec<Share> {
    let list =
        |path: &str| fs::read_to_string(system.join(path)).map_or_else(|_| Vec::new(), |l| cpu_list(&l));
    // A node may have memory only.
    let nodes: Vec<Share> = list("node/online")
        .into_iter()
        .map(|node| Share { cpus: list(&format!("node/node{node}/cpulist")), node: Some(node) })
        .filter(|share| !share.cpus.is_empty())
        .collect();
    if nodes.len() >= count {
        return nodes.into_iter().take(count).collect();
    }
    let mut all = list("cpu/online");
    if all.is_empty() {
        all.push(0);
    }
    (0..count)
        .map(|at| {
            let (from, to) = (at * all.len() / count, (at + 1) * all.len() / count);
            let cpus = all[from..to.max(from + 1)].to_vec();
            let node = nodes.iter().find(|node| cpus.iter().all(|cpu| node.cpus.contains(cpu)));
            Share { node: node.and_then(|node| node.node), cpus }
        })
        .collect()
}

#[cfg(test)]
mod tests;
