//! Which machines go on which nodes: exact if the search ends within its budget, else greedy with an upper
//! bound. Whole numbers only, so the answer is the same everywhere.
//!
//! The search goes node by node. On each it tries every mix of machines that fits the node's cores and
//! memory, and remembers the best completion for what is left over. Machines that need several nodes are
//! tried first, with their cores in every way on every set of nodes. Their memory is divided last, out of what
//! the others leave ([`memory`]).

mod memory;

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use self::memory::{Need, divide, steps, whole_steps};

pub(super) use self::memory::STEP_MIB;

/// Mixes tried before the search gives up; under a second. Hosts of up to 8 nodes with a few sizes of
/// machines take some thousands.
pub(super) const MIXES_MAX: u64 = 200_000;

/// Mixes that a search may still try.
pub(super) type Mixes = Cell<u64>;

/// What a node can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) cores: u32,
    pub(super) mib: u64,
    /// Preference among nodes that are otherwise equal, for those with devices.
    pub(super) near: u32,
}

impl Room {
    fn holds(&self, cores: u32, mib: u64) -> bool {
        self.cores >= cores && self.mib >= mib
    }

    fn take(&mut self, cores: u32, mib: u64) {
        self.cores -= cores;
        self.mib -= mib;
    }
}

/// Alike machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// Cores of each part, largest first. A machine has one part, or one for each node that it spans.
    pub(super) cores: Vec<u32>,
    /// Memory of all parts.
    pub(super) mib: u64,
    pub(super) vcpus: u32,
    pub(super) count: u32,
}

impl Kind {
    pub(super) fn spans(&self) -> bool {
        self.cores.len() > 1
    }

    /// Whether one machine has room on the empty host.
    pub(super) fn fits(&self, rooms: &[Room]) -> bool {
        place(rooms, self, &by(rooms, |room| u64::from(room.cores))).is_some()
    }

    fn cores_all(&self) -> u32 {
        self.cores.iter().sum()
    }
}

/// Where a part of a machine goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) node: usize,
    pub(super) mib: u64,
}

/// How sure it is that no better placement exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// Every placement was considered.
    Exact,
    /// Everything is placed, though perhaps not as evenly as possible.
    AllPlaced,
    /// A greedy placement; no placement can hold more vCPUs than this.
    AtMost(u64),
}

/// Where each machine goes.
#[derive(Clone, Debug)]
pub(super) struct Packing {
    pub(super) score: Score,
    /// By kind, by machine placed: the place of each part.
    pub(super) spots: Vec<Vec<Vec<Spot>>>,
    pub(super) proof: Proof,
}

/// What is better, most important first: more vCPUs placed, more machines of what is listed first, memory of machines that
/// span nodes divided evenly (sum of squares), load spread evenly (sum of squares of cores used), nodes near devices. Each
/// part adds up over nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    pub(super) vcpus: u64,
    pub(super) counts: Vec<u32>,
    uneven: Reverse<u128>,
    spread: Reverse<u64>,
    near: u64,
}

impl Score {
    fn zero(kinds: usize) -> Score {
        Score { vcpus: 0, counts: vec![0; kinds], uneven: Reverse(0), spread: Reverse(0), near: 0 }
    }

    fn plus(mut self, other: &Score) -> Score {
        self.vcpus += other.vcpus;
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.uneven.0 += other.uneven.0;
        self.spread.0 += other.spread.0;
        self.near += other.near;
        self
    }
}

/// How many of each kind can be placed. Deducts the mixes that it tried from `budget`. Faster than [`pack`] if all can be
/// placed, because it does not search for the best spread.
pub(super) fn counts(rooms: &[Room], kinds: &[Kind], budget: &Mixes) -> Packing {
    let greedy = greedy(rooms, kinds);
    let all = kinds.iter().zip(&greedy.score.counts).all(|(kind, placed)| kind.count == *placed);
    if all { greedy } else { pack_within(rooms, kinds, budget) }
}

/// The best placement of `kinds` on `rooms`.
pub(super) fn pack(rooms: &[Room], kinds: &[Kind]) -> Packing {
    pack_within(rooms, kinds, &Mixes::new(MIXES_MAX))
}

fn pack_within(rooms: &[Room], kinds: &[Kind], budget: &Mixes) -> Packing {
    let mut search = Search { whole: rooms, kinds, mixes: 0, mixes_max: budget.get(), best: None };
    search.spanning(0, 0, None, &mut rooms.to_vec(), &mut Vec::new());
    let exhausted = search.mixes > search.mixes_max;
    budget.set(search.mixes_max.saturating_sub(search.mixes));
    let best = search.best.take();
    if !exhausted && let Some(best) = best {
        return best;
    }
    let greedy = greedy(rooms, kinds);
    let mut packing = match best {
        Some(found) if found.score >= greedy.score => found,
        _ => greedy,
    };
    packing.proof = proof_of_greedy(rooms, kinds, &packing);
    packing
}

struct Search<'a> {
    whole: &'a [Room],
    kinds: &'a [Kind],
    mixes: u64,
    mixes_max: u64,
    best: Option<Packing>,
}

/// Best completion from a node on, by [`State`].
type Memo = HashMap<State, (Score, Vec<u32>)>;

/// What is left from a node on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    node: usize,
    /// Machines, by kind.
    left: Vec<u32>,
    /// Steps of memory by node that machines spanning it can use. Of the nodes before this one, what the mixes left.
    free: Vec<u64>,
}

/// A machine that spans nodes: its kind and the node of each part.
type Spanning = (usize, Vec<usize>);

impl Search<'_> {
    /// Tries every set of nodes, and every way of having the parts on them, for the machines that span several, from kind
    /// `kind` on, of which the last one is on `last`; the rest is packed node by node.
    fn spanning(
        &mut self,
        kind: usize,
        placed: u32,
        last: Option<Layout>,
        free: &mut [Room],
        machines: &mut Vec<Spanning>,
    ) {
        let Some(this) = self.kinds.get(kind) else { return self.leaf(free, machines) };
        if this.spans() && placed < this.count {
            let of = free.len();
            let first = last.or_else(|| Layout::first(of, &this.cores));
            for layout in std::iter::successors(first, |layout| layout.next(of)) {
                self.mixes += 1;
                if self.mixes > self.mixes_max {
                    return;
                }
                if !layout.parts().all(|(node, cores)| free[node].cores >= cores) {
                    continue;
                }
                machines.push((kind, layout.node_of_each(&this.cores)));
                if divide(memory_of(free), &self.needs(machines)).is_some() {
                    layout.parts().for_each(|(node, cores)| free[node].cores -= cores);
                    self.spanning(kind, placed + 1, Some(layout.clone()), free, machines);
                    layout.parts().for_each(|(node, cores)| free[node].cores += cores);
                }
                machines.pop();
            }
        }
        self.spanning(kind + 1, 0, None, free, machines);
    }

    fn needs<'m>(&self, machines: &'m [Spanning]) -> Vec<Need<'m>> {
        let need = |(kind, nodes): &'m Spanning| Need { steps: steps(self.kinds[*kind].mib), nodes };
        machines.iter().map(need).collect()
    }

    fn leaf(&mut self, free: &[Room], machines: &[Spanning]) {
        let needs = self.needs(machines);
        let usable = |node: usize, room: &Room| {
            let of_node = needs.iter().filter(|need| need.nodes.contains(&node));
            // Of more, no machine has a use; so that more states are alike.
            whole_steps(room.mib).min(of_node.map(|need| need.steps).sum())
        };
        let mut state = State {
            node: 0,
            left: self.kinds.iter().map(|kind| if kind.spans() { 0 } else { kind.count }).collect(),
            free: free.iter().enumerate().map(|(node, room)| usable(node, room)).collect(),
        };
        let mut memo = Memo::new();
        let Some(mut score) = self.complete(&state, free, &needs, &mut memo) else { return };
        for (kind, _) in machines {
            score.counts[*kind] += 1;
            score.vcpus += u64::from(self.kinds[*kind].vcpus);
        }
        if self.best.as_ref().is_some_and(|best| best.score >= score) {
            return;
        }
        let mut spots = vec![Vec::new(); self.kinds.len()];
        while let Some((_, mix)) = memo.get(&state) {
            for (kind, count) in mix.iter().enumerate() {
                let spot = Spot { node: state.node, mib: self.kinds[kind].mib };
                spots[kind].extend((0..*count).map(|_| vec![spot]));
            }
            state = self.after(&state, free, mix);
        }
        let Some(parts) = divide(state.free, &needs) else { return };
        for ((kind, nodes), parts) in machines.iter().zip(parts) {
            spots[*kind].push(spots_of(self.kinds[*kind].mib, nodes, &parts));
        }
        self.best = Some(Packing { score, spots, proof: Proof::Exact });
    }

    /// What is left behind the state's node when it takes `mix`.
    fn after(&self, state: &State, free: &[Room], mix: &[u32]) -> State {
        let State { node, left, free: steps } = state;
        let taken: u64 = mix.iter().zip(self.kinds).map(|(count, kind)| u64::from(*count) * kind.mib).sum();
        let mut steps = steps.clone();
        steps[*node] = steps[*node].min(whole_steps(free[*node].mib - taken));
        let left = left.iter().zip(mix).map(|(left, used)| left - used).collect();
        State { node: node + 1, left, free: steps }
    }

    /// The best score of the nodes from the state's on; `None` when the budget is used up.
    fn complete(
        &mut self,
        state: &State,
        free: &[Room],
        needs: &[Need<'_>],
        memo: &mut Memo,
    ) -> Option<Score> {
        let Some(room) = free.get(state.node) else {
            let parts = divide(state.free.clone(), needs)?;
            let square = |part: &u64| u128::from(*part) * u128::from(*part);
            let uneven = Reverse(parts.iter().flatten().map(square).sum());
            return Some(Score { uneven, ..Score::zero(state.left.len()) });
        };
        if let Some((score, _)) = memo.get(state) {
            return Some(score.clone());
        }
        let mut mixes = Vec::new();
        self.mixes_of(*room, &state.left, &mut Vec::new(), &mut mixes)?;
        let mut best: Option<(Score, Vec<u32>)> = None;
        for mix in mixes {
            let rest = self.after(state, free, &mix);
            // The machines that span this node must have enough memory left.
            if rest.free != state.free && divide(rest.free.clone(), needs).is_none() {
                continue;
            }
            let score = self.complete(&rest, free, needs, memo)?.plus(&self.score_of(state.node, room, &mix));
            if best.as_ref().is_none_or(|(most, _)| score > *most) {
                best = Some((score, mix));
            }
        }
        // There is always the mix of nothing.
        let best = best?;
        let score = best.0.clone();
        memo.insert(state.clone(), best);
        Some(score)
    }

    /// Every mix of the machines `left` that fits `room`, larger counts first.
    fn mixes_of(
        &mut self,
        room: Room,
        left: &[u32],
        mix: &mut Vec<u32>,
        mixes: &mut Vec<Vec<u32>>,
    ) -> Option<()> {
        let Some(kind) = self.kinds.get(mix.len()) else {
            self.mixes += 1;
            mixes.push(mix.clone());
            return (self.mixes <= self.mixes_max).then_some(());
        };
        let by_cores = room.cores / kind.cores[0].max(1);
        let by_memory = room.mib.checked_div(kind.mib).unwrap_or(u64::MAX);
        let most = u64::from(left[mix.len()].min(by_cores)).min(by_memory) as u32;
        for count in (0..=most).rev() {
            let mut rest = room;
            rest.take(kind.cores[0] * count, kind.mib * u64::from(count));
            mix.push(count);
            self.mixes_of(rest, left, mix, mixes)?;
            mix.pop();
        }
        Some(())
    }

    fn score_of(&self, node: usize, room: &Room, mix: &[u32]) -> Score {
        let cores: u32 = mix.iter().zip(self.kinds).map(|(n, kind)| n * kind.cores[0]).sum();
        let used = u64::from(self.whole[node].cores - room.cores + cores);
        Score {
            vcpus: mix.iter().zip(self.kinds).map(|(n, kind)| u64::from(*n) * u64::from(kind.vcpus)).sum(),
            counts: mix.to_vec(),
            uneven: Reverse(0),
            spread: Reverse(used * used),
            near: u64::from(cores) * u64::from(room.near),
        }
    }
}

/// Nodes, ascending, and the cores of the part on each. Layouts of the same cores have an order: by nodes, then by cores,
/// larger ones first.
#[derive(Clone, Debug)]
struct Layout {
    nodes: Vec<usize>,
    cores: Vec<u32>,
}

impl Layout {
    /// The first of parts of these `cores`, largest first, on `of` nodes.
    fn first(of: usize, cores: &[u32]) -> Option<Layout> {
        let layout = || Layout { nodes: (0..cores.len()).collect(), cores: cores.to_vec() };
        (cores.len() <= of).then(layout)
    }

    fn next(&self, of: usize) -> Option<Layout> {
        let Layout { mut nodes, mut cores } = self.clone();
        // The next permutation: what is behind the last descent is ascending.
        if let Some(at) = (1..cores.len()).rev().find(|at| cores[at - 1] > cores[*at]) {
            let less = (at..cores.len()).rev().find(|other| cores[*other] < cores[at - 1])?;
            cores.swap(at - 1, less);
            cores[at..].reverse();
            return Some(Layout { nodes, cores });
        }
        cores.reverse();
        let size = nodes.len();
        let at = (0..size).rev().find(|at| nodes[*at] < of - size + at)?;
        let first = nodes[at] + 1 - at;
        (at..size).for_each(|i| nodes[i] = first + i);
        Some(Layout { nodes, cores })
    }

    fn parts(&self) -> impl Iterator<Item = (usize, u32)> {
        self.nodes.iter().copied().zip(self.cores.iter().copied())
    }

    /// The nodes of parts of these `cores`, in their order.
    fn node_of_each(&self, cores: &[u32]) -> Vec<usize> {
        let mut parts: Vec<(usize, u32)> = self.parts().collect();
        parts.sort_by_key(|(node, cores)| (Reverse(*cores), *node));
        debug_assert!(parts.iter().map(|(_, cores)| cores).eq(cores));
        parts.into_iter().map(|(node, _)| node).collect()
    }
}

fn memory_of(rooms: &[Room]) -> Vec<u64> {
    rooms.iter().map(|room| whole_steps(room.mib)).collect()
}

/// The places of a machine's parts of so many steps. A machine of an odd size has what the last step lacks less on the first.
fn spots_of(mib: u64, nodes: &[usize], parts: &[u64]) -> Vec<Spot> {
    let excess = parts.iter().sum::<u64>() * STEP_MIB - mib;
    let spot = |(nth, (node, part)): (usize, (&usize, &u64))| {
        let mib = part * STEP_MIB - if nth == 0 { excess } else { 0 };
        Spot { node: *node, mib }
    };
    nodes.iter().zip(parts).enumerate().map(spot).collect()
}

/// The nodes, those with the most of something first.
fn by(rooms: &[Room], most: impl Fn(&Room) -> u64) -> Vec<usize> {
    let mut nodes: Vec<usize> = (0..rooms.len()).collect();
    nodes.sort_by_key(|node| (Reverse(most(&rooms[*node])), *node));
    nodes
}

/// A place for one machine, preferably on the first of `nodes`. There is one if `free` has room for it.
fn place(free: &[Room], kind: &Kind, nodes: &[usize]) -> Option<Vec<Spot>> {
    if !kind.spans() {
        let node = nodes.iter().find(|node| free[**node].holds(kind.cores[0], kind.mib))?;
        return Some(vec![Spot { node: *node, mib: kind.mib }]);
    }
    let on = |nodes: &[usize]| {
        let nodes = choose(free, kind, nodes)?;
        let parts = divide(memory_of(free), &[Need { steps: steps(kind.mib), nodes: &nodes }])?;
        Some(spots_of(kind.mib, &nodes, &parts[0]))
    };
    on(nodes).or_else(|| on(&by(free, |room| room.mib)))
}

/// The node of each part: the first of `nodes` that can have parts together. As these sets are a matroid, no other set of
/// nodes that the cores allow has more of what `nodes` are sorted by.
fn choose(free: &[Room], kind: &Kind, nodes: &[usize]) -> Option<Vec<usize>> {
    let mut chosen: Vec<usize> = Vec::new();
    for node in nodes.iter().filter(|node| kind.mib == 0 || whole_steps(free[**node].mib) > 0) {
        let at = chosen.partition_point(|other| free[*other].cores < free[*node].cores);
        chosen.insert(at, *node);
        // The one with the fewest cores takes the smallest part, and so on.
        if !chosen.iter().zip(kind.cores.iter().rev()).all(|(node, cores)| free[*node].cores >= *cores) {
            chosen.remove(at);
        }
        if chosen.len() == kind.cores.len() {
            chosen.reverse();
            return Some(chosen);
        }
    }
    None
}

/// The best of four: largest or densest machines first, each where the most room is (so that the load is
/// spread) or where the least is left over.
fn greedy(rooms: &[Room], kinds: &[Kind]) -> Packing {
    let largest = |kind: &Kind| (kind.cores_all(), 0);
    // vCPUs per thousand cores, then the larger.
    let densest = |kind: &Kind| (kind.vcpus * 1000 / kind.cores_all().max(1), kind.cores_all());
    let most_room = |room: &Room| u64::from(room.cores);
    let least_left = |room: &Room| u64::MAX - u64::from(room.cores);
    let tries = [
        greedy_by(rooms, kinds, largest, most_room),
        greedy_by(rooms, kinds, largest, least_left),
        greedy_by(rooms, kinds, densest, most_room),
        greedy_by(rooms, kinds, densest, least_left),
    ];
    let first = |best: Packing, next: Packing| if next.score > best.score { next } else { best };
    let [a, b, c, d] = tries;
    first(first(first(a, b), c), d)
}

fn greedy_by(
    rooms: &[Room],
    kinds: &[Kind],
    rank: impl Fn(&Kind) -> (u32, u32),
    order: impl Fn(&Room) -> u64,
) -> Packing {
    let mut free = rooms.to_vec();
    let mut by_rank: Vec<usize> = (0..kinds.len()).collect();
    by_rank.sort_by_key(|kind| Reverse(rank(&kinds[*kind])));
    let mut spots = vec![Vec::new(); kinds.len()];
    for at in by_rank {
        let kind = &kinds[at];
        for _ in 0..kind.count {
            let Some(machine) = place(&free, kind, &by(&free, &order)) else { break };
            kind.cores.iter().zip(&machine).for_each(|(cores, spot)| free[spot.node].take(*cores, spot.mib));
            spots[at].push(machine);
        }
    }
    let counts: Vec<u32> = spots.iter().map(|machines| machines.len() as u32).collect();
    let vcpus = counts.iter().zip(kinds).map(|(n, kind)| u64::from(*n) * u64::from(kind.vcpus)).sum();
    let square = |spot: &Spot| u128::from(steps(spot.mib)) * u128::from(steps(spot.mib));
    let spanning = spots.iter().flatten().filter(|machine| machine.len() > 1).flatten();
    let uneven = Reverse(spanning.map(square).sum());
    let used = |(room, left): (&Room, &Room)| u64::from(room.cores - left.cores);
    let spread = Reverse(rooms.iter().zip(&free).map(used).map(|used| used * used).sum());
    let near = rooms.iter().zip(&free).map(|pair| used(pair) * u64::from(pair.0.near)).sum();
    Packing { score: Score { vcpus, counts, uneven, spread, near }, spots, proof: Proof::AllPlaced }
}

/// All is placed, or at most as many vCPUs fit as if all cores were in one place and the last machine could be
/// placed in part (the fractional knapsack of Dantzig, which no placement exceeds).
fn proof_of_greedy(rooms: &[Room], kinds: &[Kind], packing: &Packing) -> Proof {
    let wanted: u64 = kinds.iter().map(|kind| u64::from(kind.vcpus) * u64::from(kind.count)).sum();
    if packing.score.vcpus == wanted {
        return Proof::AllPlaced;
    }
    let mut cores: u64 = rooms.iter().map(|room| u64::from(room.cores)).sum();
    let mut by_density: Vec<&Kind> = kinds.iter().filter(|kind| kind.cores_all() > 0).collect();
    // a/b > c/d without division.
    by_density.sort_by(|a, b| (b.vcpus * a.cores_all()).cmp(&(a.vcpus * b.cores_all())));
    let mut bound = 0;
    for kind in by_density {
        let need = u64::from(kind.cores_all());
        let whole = (cores / need).min(u64::from(kind.count));
        bound += whole * u64::from(kind.vcpus);
        cores -= whole * need;
        if whole < u64::from(kind.count) {
            bound += cores * u64::from(kind.vcpus) / need;
            break;
        }
    }
    Proof::AtMost(bound)
}

#[cfg(test)]
mod tests;
