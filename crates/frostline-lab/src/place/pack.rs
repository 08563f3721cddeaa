//! Which machines go on which nodes: exact if the search ends within its budget, else greedy with an upper
//! bound. Whole numbers only, so the answer is the same everywhere.
//!
//! The search goes node by node. On each it tries every mix of machines that fits the node's cores and
//! memory, and remembers the best completion for what is left over. Machines that need several nodes are
//! tried on every set of nodes first.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};

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
    fn holds(&self, piece: &Piece) -> bool {
        self.cores >= piece.cores && self.mib >= piece.mib
    }

    fn take(&mut self, piece: &Piece, times: u32) {
        self.cores -= piece.cores * times;
        self.mib -= piece.mib * u64::from(times);
    }
}

/// What a machine needs of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) cores: u32,
    pub(super) mib: u64,
}

/// Alike machines: one piece each, or one for each node that the machine spans, largest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) pieces: Vec<Piece>,
    pub(super) vcpus: u32,
    pub(super) count: u32,
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
    /// By kind, by machine placed: the node of each piece.
    pub(super) nodes: Vec<Vec<Vec<usize>>>,
    pub(super) proof: Proof,
}

/// What is better, most important first: more vCPUs placed, more machines of what is listed first, load
/// spread evenly (sum of squares of cores used), nodes near devices. Each part adds up over nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    pub(super) vcpus: u64,
    pub(super) counts: Vec<u32>,
    spread: Reverse<u64>,
    near: u64,
}

impl Score {
    fn zero(kinds: usize) -> Score {
        Score { vcpus: 0, counts: vec![0; kinds], spread: Reverse(0), near: 0 }
    }

    fn plus(mut self, other: &Score) -> Score {
        self.vcpus += other.vcpus;
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
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
    let mut free = rooms.to_vec();
    search.spanning(0, 0, &[], &mut free, &mut vec![Vec::new(); kinds.len()]);
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

/// Best completion from a node on, by node and machines left.
type Memo = HashMap<(usize, Vec<u32>), (Score, Vec<u32>)>;

impl Search<'_> {
    /// Tries every set of nodes for the machines that span several, from kind `kind` on, of which the last
    /// one used `last`; the rest is packed node by node.
    fn spanning(
        &mut self,
        kind: usize,
        placed: u32,
        last: &[usize],
        free: &mut Vec<Room>,
        nodes: &mut Vec<Vec<Vec<usize>>>,
    ) {
        let Some(this) = self.kinds.get(kind) else { return self.leaf(free, nodes) };
        if this.pieces.len() > 1 && placed < this.count {
            for set in sets(free.len(), this.pieces.len(), last) {
                self.mixes += 1;
                if self.mixes > self.mixes_max {
                    return;
                }
                let mut by_cores = set.clone();
                by_cores.sort_by_key(|node| (Reverse(free[*node].cores), *node));
                let Some(order) = fit(free, &this.pieces, by_cores) else { continue };
                let before = free.clone();
                for (piece, node) in this.pieces.iter().zip(&order) {
                    free[*node].take(piece, 1);
                }
                nodes[kind].push(order);
                self.spanning(kind, placed + 1, &set, free, nodes);
                nodes[kind].pop();
                *free = before;
            }
        }
        self.spanning(kind + 1, 0, &[], free, nodes);
    }

    fn leaf(&mut self, free: &[Room], nodes: &[Vec<Vec<usize>>]) {
        let left: Vec<u32> =
            self.kinds.iter().map(|kind| if kind.pieces.len() == 1 { kind.count } else { 0 }).collect();
        let mut memo = Memo::new();
        let Some(mut score) = self.complete(0, &left, free, &mut memo) else { return };
        for (kind, machines) in nodes.iter().enumerate() {
            score.counts[kind] += machines.len() as u32;
            score.vcpus += machines.len() as u64 * u64::from(self.kinds[kind].vcpus);
        }
        if self.best.as_ref().is_some_and(|best| best.score >= score) {
            return;
        }
        let mut nodes = nodes.to_vec();
        let mut left = left;
        for node in 0..free.len() {
            let Some((_, mix)) = memo.get(&(node, left.clone())) else { break };
            for (kind, count) in mix.iter().enumerate() {
                nodes[kind].extend((0..*count).map(|_| vec![node]));
                left[kind] -= count;
            }
        }
        self.best = Some(Packing { score, nodes, proof: Proof::Exact });
    }

    /// The best score of nodes `node..` for the machines `left`; `None` when the budget is used up.
    fn complete(&mut self, node: usize, left: &[u32], free: &[Room], memo: &mut Memo) -> Option<Score> {
        if node == free.len() {
            return Some(Score::zero(left.len()));
        }
        let key = (node, left.to_vec());
        if let Some((score, _)) = memo.get(&key) {
            return Some(score.clone());
        }
        let mut mixes = Vec::new();
        self.mixes_of(free[node], left, &mut Vec::new(), &mut mixes)?;
        let mut best: Option<(Score, Vec<u32>)> = None;
        for mix in mixes {
            let rest: Vec<u32> = left.iter().zip(&mix).map(|(left, used)| left - used).collect();
            let score =
                self.complete(node + 1, &rest, free, memo)?.plus(&self.score_of(node, &free[node], &mix));
            if best.as_ref().is_none_or(|(most, _)| score > *most) {
                best = Some((score, mix));
            }
        }
        // There is always the mix of nothing.
        let best = best?;
        let score = best.0.clone();
        memo.insert(key, best);
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
        let piece = kind.pieces[0];
        let by_cores = room.cores / piece.cores.max(1);
        let by_memory = room.mib.checked_div(piece.mib).unwrap_or(u64::MAX);
        let most = u64::from(left[mix.len()].min(by_cores)).min(by_memory) as u32;
        for count in (0..=most).rev() {
            let mut rest = room;
            rest.take(&piece, count);
            mix.push(count);
            self.mixes_of(rest, left, mix, mixes)?;
            mix.pop();
        }
        Some(())
    }

    fn score_of(&self, node: usize, room: &Room, mix: &[u32]) -> Score {
        let cores: u32 = mix.iter().zip(self.kinds).map(|(n, kind)| n * kind.pieces[0].cores).sum();
        let used = u64::from(self.whole[node].cores - room.cores + cores);
        Score {
            vcpus: mix.iter().zip(self.kinds).map(|(n, kind)| u64::from(*n) * u64::from(kind.vcpus)).sum(),
            counts: mix.to_vec(),
            spread: Reverse(used * used),
            near: u64::from(cores) * u64::from(room.near),
        }
    }
}

/// The sets of `size` numbers below `n`, in lexicographic order, from `first` on.
fn sets(n: usize, size: usize, first: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let start = if first.is_empty() { (0..size).collect() } else { first.to_vec() };
    let next = move |set: &Vec<usize>| {
        let at = (0..size).rev().find(|at| set[*at] < n - size + at)?;
        let mut next = set.clone();
        (at..size).for_each(|i| next[i] = set[at] + 1 + i - at);
        Some(next)
    };
    std::iter::successors((size <= n).then_some(start), next)
}

/// The node of each piece: the first of `nodes` that holds it and has no other. This finds nodes if there are any, because a
/// node that holds a piece holds the smaller ones behind it.
fn fit(free: &[Room], pieces: &[Piece], mut nodes: Vec<usize>) -> Option<Vec<usize>> {
    let mut first = |piece| Some(nodes.remove(nodes.iter().position(|node| free[*node].holds(piece))?));
    pieces.iter().map(&mut first).collect()
}

/// The best of four: largest or densest machines first, each where the most room is (so that the load is
/// spread) or where the least is left over.
fn greedy(rooms: &[Room], kinds: &[Kind]) -> Packing {
    let largest = |kind: &Kind| (cores_of(kind), 0);
    // vCPUs per thousand cores, then the larger.
    let densest = |kind: &Kind| (kind.vcpus * 1000 / cores_of(kind).max(1), cores_of(kind));
    let most_room = |room: &Room| Reverse(u64::from(room.cores));
    let least_left = |room: &Room| Reverse(u64::MAX - u64::from(room.cores));
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

fn cores_of(kind: &Kind) -> u32 {
    kind.pieces.iter().map(|piece| piece.cores).sum()
}

fn greedy_by(
    rooms: &[Room],
    kinds: &[Kind],
    rank: impl Fn(&Kind) -> (u32, u32),
    order: impl Fn(&Room) -> Reverse<u64>,
) -> Packing {
    let mut free = rooms.to_vec();
    let mut by_rank: Vec<usize> = (0..kinds.len()).collect();
    by_rank.sort_by_key(|kind| Reverse(rank(&kinds[*kind])));
    let mut nodes = vec![Vec::new(); kinds.len()];
    for kind in by_rank {
        let pieces = &kinds[kind].pieces;
        for _ in 0..kinds[kind].count {
            let mut best: Vec<usize> = (0..free.len()).collect();
            best.sort_by_key(|node| (order(&free[*node]), *node));
            let Some(set) = fit(&free, pieces, best) else { break };
            pieces.iter().zip(&set).for_each(|(piece, node)| free[*node].take(piece, 1));
            nodes[kind].push(set);
        }
    }
    let counts: Vec<u32> = nodes.iter().map(|machines| machines.len() as u32).collect();
    let vcpus = counts.iter().zip(kinds).map(|(n, kind)| u64::from(*n) * u64::from(kind.vcpus)).sum();
    let used = |(room, left): (&Room, &Room)| u64::from(room.cores - left.cores);
    let spread = rooms.iter().zip(&free).map(used).map(|used| used * used).sum();
    let near = rooms.iter().zip(&free).map(|pair| used(pair) * u64::from(pair.0.near)).sum();
    Packing { score: Score { vcpus, counts, spread: Reverse(spread), near }, nodes, proof: Proof::AllPlaced }
}

/// All is placed, or at most as many vCPUs fit as if all cores were in one place and the last machine could be
/// placed in part (the fractional knapsack of Dantzig, which no placement exceeds).
fn proof_of_greedy(rooms: &[Room], kinds: &[Kind], packing: &Packing) -> Proof {
    let wanted: u64 = kinds.iter().map(|kind| u64::from(kind.vcpus) * u64::from(kind.count)).sum();
    if packing.score.vcpus == wanted {
        return Proof::AllPlaced;
    }
    let mut cores: u64 = rooms.iter().map(|room| u64::from(room.cores)).sum();
    let mut by_density: Vec<&Kind> = kinds.iter().filter(|kind| cores_of(kind) > 0).collect();
    // a/b > c/d without division.
    by_density.sort_by(|a, b| (b.vcpus * cores_of(a)).cmp(&(a.vcpus * cores_of(b))));
    let mut bound = 0;
    for kind in by_density {
        let need = u64::from(cores_of(kind));
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
