use super::*;
use crate::place::topology::tests::{NODES_2, TWO_CPUS, TWO_SOCKETS, topology};

/// The same probability by counting all placements of the other machines' vCPUs.
fn counted(busy: u64, own: u64, cpus: u64, threads: u64) -> f64 {
    // The vCPU looked at is on CPU 0; the others of its machine are on the CPUs that the choice leaves.
    let others = (busy - own) as u32;
    let (mut all, mut hit) = (0_u64, 0_u64);
    for choice in 0_u32..1 << (cpus - 1) {
        if choice.count_ones() == others {
            all += 1;
            let siblings = (1_u32 << (threads - 1)) - 1;
            hit += u64::from(choice & siblings != 0);
        }
    }
    hit as f64 / all as f64
}

#[test]
fn shared_cores_are_what_counting_gives() {
    for (busy, own, cpus, threads) in
        [(8, 4, 8, 2), (6, 2, 8, 2), (12, 4, 12, 4), (5, 5, 8, 2), (3, 1, 12, 4)]
    {
        let (formula, count) = (shared(busy, own, cpus, threads), counted(busy, own, cpus, threads));
        assert!((formula - count).abs() < 1e-12, "{busy} {own} {cpus} {threads}: {formula} {count}");
    }
}

fn unpinned(xml: &str, vms: &str) -> Unpinned {
    Unpinned::of(&topology(xml), &vms.parse().expect(vms))
}

#[test]
fn the_published_host_without_pinning() {
    let cost = unpinned(TWO_SOCKETS, "20x2");
    assert!((cost.shared_cores - 20.0 / 39.0).abs() < 1e-12);
    assert!((cost.remote_memory - 0.5).abs() < 1e-12);
    assert!((cost.latency.expect("the fixture has distances") - 1.55).abs() < 1e-12);
    assert_eq!(cost.steal, 0.0);
}

#[test]
fn more_vcpus_than_cpus_wait() {
    let cost = unpinned(TWO_SOCKETS, "20x3");
    assert!((cost.steal - 1.0 / 3.0).abs() < 1e-12);
    assert!(cost.statements.iter().any(|s| s.text.contains("60 busy vCPUs on 40 CPUs wait at least 33 %")));
}

#[test]
fn nothing_is_said_of_what_the_host_does_not_have() {
    let cost = unpinned(TWO_CPUS, "1x2");
    assert_eq!((cost.shared_cores, cost.remote_memory, cost.latency), (0.0, 0.0, None));
    assert!(cost.statements.iter().all(|s| s.label == Label::Documented));
    assert_eq!(unpinned(NODES_2, "20x2").latency, None);
}
