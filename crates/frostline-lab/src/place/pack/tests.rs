use proptest::prelude::*;

use super::*;

fn room(cores: u32) -> Room {
    Room { cores, mib: 1000, near: 0 }
}

fn kind(cores: u32, count: u32) -> Kind {
    Kind { cores: vec![cores], mib: 0, vcpus: cores, count }
}

fn spanning(cores: u32, nodes: usize, count: u32) -> Kind {
    Kind { cores: vec![cores; nodes], mib: 0, vcpus: cores * nodes as u32, count }
}

/// Cores used by node; panics if a node is overfull.
fn used(rooms: &[Room], kinds: &[Kind], packing: &Packing) -> Vec<u32> {
    let mut free = rooms.to_vec();
    for (kind, machines) in kinds.iter().zip(&packing.spots) {
        for spots in machines {
            assert_eq!(spots.len(), kind.cores.len());
            for (cores, Spot { node, mib }) in kind.cores.iter().zip(spots) {
                assert!(free[*node].holds(*cores, *mib), "node {node} is overfull");
                free[*node].take(*cores, *mib);
            }
        }
    }
    rooms.iter().zip(&free).map(|(room, left)| room.cores - left.cores).collect()
}

#[test]
fn load_is_spread_and_devices_decide_between_equals() {
    let kinds = [kind(2, 2), kind(4, 2)];
    assert_eq!(used(&[room(10), room(10)], &kinds, &pack(&[room(10), room(10)], &kinds)), [6, 6]);
    let near = [room(10), Room { near: 1, ..room(10) }];
    assert_eq!(used(&near, &[kind(4, 1)], &pack(&near, &[kind(4, 1)])), [0, 4]);
}

#[test]
fn largest_first_is_not_enough() {
    // Greedily 6 goes beside nothing else; only 5 + 5 and 6 + 4 fill both nodes.
    let (rooms, kinds) = ([room(10), room(10)], [kind(6, 1), kind(5, 2), kind(4, 1)]);
    let packing = pack(&rooms, &kinds);
    assert_eq!(packing.score.vcpus, 20);
    assert_eq!(packing.proof, Proof::Exact);
}

#[test]
fn of_equal_vcpus_the_first_listed_go_first() {
    let rooms = [room(10)];
    assert_eq!(pack(&rooms, &[kind(10, 1), kind(5, 2)]).score.counts, [1, 0]);
    assert_eq!(pack(&rooms, &[kind(5, 2), kind(10, 1)]).score.counts, [2, 0]);
}

#[test]
fn a_machine_over_several_nodes_leaves_room_for_the_others() {
    let rooms = [room(10), room(6), room(10)];
    let kinds = [spanning(6, 2, 1), kind(10, 1)];
    let packing = pack(&rooms, &kinds);
    assert_eq!(packing.score.counts, [1, 1]);
    used(&rooms, &kinds, &packing);
}

#[test]
fn when_the_search_gives_up_it_says_what_is_certain() {
    let rooms = vec![room(64); 32];
    let kinds: Vec<Kind> = (1..20).map(|cores| kind(cores, 12)).collect();
    let packing = pack(&rooms, &kinds);
    let wanted: u64 = kinds.iter().map(|k| u64::from(k.vcpus * k.count)).sum();
    assert!(wanted > 2048, "more is wanted than there is");
    used(&rooms, &kinds, &packing);
    let Proof::AtMost(bound) = packing.proof else { panic!("{:?}", packing.proof) };
    assert_eq!(bound, 2048);
    assert!(packing.score.vcpus <= bound && packing.score.vcpus * 10 >= bound * 9, "{}", packing.score.vcpus);
    let fewer: Vec<Kind> = (1..20).map(|cores| kind(cores, 8)).collect();
    assert_eq!(pack(&rooms, &fewer).proof, Proof::AllPlaced);
}

/// The most vCPUs by trying every node, or none, for every machine.
fn exhaustive(free: &mut Vec<Room>, machines: &[(u32, u64)]) -> u64 {
    let Some(((cores, mib), rest)) = machines.split_first() else { return 0 };
    let mut best = exhaustive(free, rest);
    for node in 0..free.len() {
        if free[node].holds(*cores, *mib) {
            free[node].take(*cores, *mib);
            best = best.max(u64::from(*cores) + exhaustive(free, rest));
            free[node].cores += cores;
            free[node].mib += mib;
        }
    }
    best
}

proptest! {
    #[test]
    fn nothing_holds_more(
        rooms in proptest::collection::vec((1_u32..9, 0_u64..9), 1..4),
        kinds in proptest::collection::vec((1_u32..6, 0_u64..5, 1_u32..4), 1..3),
    ) {
        let rooms: Vec<Room> = rooms.into_iter().map(|(cores, mib)| Room { cores, mib, near: 0 }).collect();
        let kinds: Vec<Kind> = kinds
            .into_iter()
            .map(|(cores, mib, count)| Kind { cores: vec![cores], mib, vcpus: cores, count })
            .collect();
        let machines: Vec<(u32, u64)> =
            kinds.iter().flat_map(|k| (0..k.count).map(|_| (k.cores[0], k.mib))).collect();
        let packing = pack(&rooms, &kinds);
        used(&rooms, &kinds, &packing);
        prop_assert_eq!(packing.proof, Proof::Exact);
        prop_assert_eq!(packing.score.vcpus, exhaustive(&mut rooms.clone(), &machines));
        prop_assert_eq!(counts(&rooms, &kinds, &Mixes::new(MIXES_MAX)).score.counts, packing.score.counts);
    }

    #[test]
    fn equal_machines_reach_the_sum_of_the_nodes(
        cores in proptest::collection::vec(1_u32..40, 1..9),
        size in 1_u32..24,
        more in 0_u32..3,
    ) {
        let rooms: Vec<Room> = cores.iter().map(|cores| room(*cores)).collect();
        let k: u32 = cores.iter().map(|cores| cores / size).sum();
        let packing = pack(&rooms, &[kind(size, k + more)]);
        prop_assert_eq!(packing.score.counts, vec![k]);
        prop_assert_eq!(packing.proof, Proof::Exact);
    }
}

#[test]
fn searches_share_a_budget() {
    let rooms = [room(20), room(20)];
    let kinds = [kind(7, 3), kind(6, 2), kind(5, 2)];
    let alone = Mixes::new(MIXES_MAX);
    counts(&rooms, &kinds, &alone);
    let used = MIXES_MAX - alone.get();
    assert!(used > 1);
    let shared = Mixes::new(used + 1);
    assert_eq!(counts(&rooms, &kinds, &shared).proof, Proof::Exact);
    assert_eq!(shared.get(), 1);
    assert!(matches!(counts(&rooms, &kinds, &shared).proof, Proof::AtMost(_)));
    assert_eq!(shared.get(), 0);
}
