//! How the memory of machines that span nodes is divided among their nodes.

/// Memory is divided in steps of this many MiB, the usual huge page.
pub(in crate::place) const STEP_MIB: u64 = 2;

/// Whole steps in `mib`, for what a node has.
pub(super) fn whole_steps(mib: u64) -> u64 {
    mib / STEP_MIB
}

/// Steps that hold `mib`, for what a machine needs.
pub(super) fn steps(mib: u64) -> u64 {
    mib.div_ceil(STEP_MIB)
}

/// A machine over several nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need<'a> {
    /// Steps over all nodes.
    pub(super) steps: u64,
    /// Its nodes.
    pub(super) nodes: &'a [usize],
}

/// The steps of each machine on each of its nodes, at least one on each, of `free` steps by node. `None` only if there is no
/// such division. The parts of one machine are as equal as the nodes allow; those of several that share nodes, nearly.
pub(super) fn divide(mut free: Vec<u64>, needs: &[Need<'_>]) -> Option<Vec<Vec<u64>>> {
    let mut parts = Vec::new();
    for need in needs {
        let least = u64::from(need.steps > 0);
        if need.steps < least * need.nodes.len() as u64 {
            return None;
        }
        for node in need.nodes {
            free[*node] = free[*node].checked_sub(least)?;
        }
        parts.push(vec![least; need.nodes.len()]);
    }
    for (need, parts) in needs.iter().zip(&mut parts) {
        level(&mut free, *need, parts);
    }
    for machine in 0..needs.len() {
        let mut missing = needs[machine].steps - parts[machine].iter().sum::<u64>();
        while missing > 0 {
            missing -= move_one_way(&mut free, needs, &mut parts, machine, missing)?;
        }
    }
    Some(parts)
}

/// Raises the parts towards equal ones. The node with the least memory takes its part or all that it has, and the others
/// what is left.
fn level(free: &mut [u64], need: Need<'_>, parts: &mut [u64]) {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|at| (free[need.nodes[*at]], std::cmp::Reverse(*at)));
    let mut left = need.steps;
    for (nth, at) in order.into_iter().enumerate() {
        let node = need.nodes[at];
        let part = (left / (parts.len() - nth) as u64).min(free[node] + parts[at]);
        free[node] -= part - parts[at];
        parts[at] = part;
        left -= part;
    }
}

/// Gives `machine` up to `missing` steps more, from a node with free memory, if need be by moving parts of other machines to
/// another of their nodes (an augmenting path of a maximum flow, the shortest). How many steps, or `None` if there is no way.
fn move_one_way(
    free: &mut [u64],
    needs: &[Need<'_>],
    parts: &mut [Vec<u64>],
    machine: usize,
    missing: u64,
) -> Option<u64> {
    // By node reached: the machine that gets memory there, and the place among its nodes that it leaves.
    let mut from: Vec<Option<(usize, Option<usize>)>> = vec![None; free.len()];
    let mut reached = needs[machine].nodes.to_vec();
    reached.iter().for_each(|node| from[*node] = Some((machine, None)));
    let mut at = 0;
    while free[*reached.get(at)?] == 0 {
        for (other, need) in needs.iter().enumerate() {
            let leaves = need.nodes.iter().position(|node| *node == reached[at]);
            let Some(leaves) = leaves.filter(|place| parts[other][*place] > 1) else { continue };
            for node in need.nodes {
                if from[*node].is_none() {
                    from[*node] = Some((other, Some(leaves)));
                    reached.push(*node);
                }
            }
        }
        at += 1;
    }
    let end = reached[at];
    let mut way = Vec::new();
    let mut next = Some(end);
    while let Some(node) = next {
        let (machine, leaves) = from[node]?;
        way.push((machine, needs[machine].nodes.iter().position(|of| *of == node)?, leaves));
        next = leaves.map(|place| needs[machine].nodes[place]);
    }
    let movable = way.iter().filter_map(|(machine, _, leaves)| Some(parts[*machine][(*leaves)?] - 1));
    let steps = movable.fold(missing.min(free[end]), u64::min);
    free[end] -= steps;
    for (machine, gets, leaves) in way {
        parts[machine][gets] += steps;
        leaves.into_iter().for_each(|place| parts[machine][place] -= steps);
    }
    Some(steps)
}
