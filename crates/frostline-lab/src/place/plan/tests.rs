use proptest::prelude::*;

use super::*;
use crate::place::topology::FORMAT;
use crate::place::topology::tests::{NODES_2, TWO_CPUS, TWO_SOCKETS, synthetic, topology};

fn plan_with(xml: &str, vms: &str, policy: &Policy) -> Plan {
    Plan::make(&topology(xml), &vms.parse().expect(vms), policy).expect("a plan")
}

fn plan(xml: &str, vms: &str) -> Plan {
    plan_with(xml, vms, &Policy::default())
}

fn said<'a>(mut lines: impl Iterator<Item = &'a String>, what: &str) -> bool {
    lines.any(|line| line.contains(what))
}

#[test]
fn the_published_policy_two_machines_of_20_on_a_host_of_40_one_per_node() {
    let plan = plan(TWO_SOCKETS, "20x2");
    assert!(plan.is_complete());
    assert_eq!(plan.proof, Proof::Exact);
    let nodes: Vec<_> = plan.machines.iter().map(|m| (m.name.as_str(), m.nodes())).collect();
    assert_eq!(nodes, [("vm20-1", vec![0]), ("vm20-2", vec![1])]);
    let siblings: Vec<u32> = plan.machines[0].cells[0].pins.iter().map(|pin| pin.cpu).collect();
    assert_eq!(siblings[..4], [0, 20, 1, 21]);
    assert_eq!(plan.machines[1].cpus(), [(10..20).collect::<Vec<u32>>(), (30..40).collect()].concat());
    assert!(plan.machines.iter().all(|m| m.guest_threads == 2 && m.queues == 20 && m.page_kib == 1 << 20));
    // It leaves nothing to the host, which is said.
    assert!(said(plan.notes.iter(), "no CPU of node 0-1 is kept for the host"));
    assert!(said(
        plan.notes.iter(),
        "emulator and I/O threads of vm20-1, vm20-2 take time from their own vCPUs"
    ));
    assert!(said(plan.notes.iter(), "ens2f0 is on node 1: packets of vm20-1 cross to it"));
}

#[test]
fn cpus_that_no_machine_gets_are_the_host_s() {
    // CPU 0 without its sibling.
    let xml = TWO_SOCKETS.replace("0x000000ff,0xffffffff", "0x000000ff,0xffefffff");
    let policy = Policy { reserve: Reserve::Cpus(vec![0]), ..Policy::default() };
    let plan = plan_with(&xml, "4x2", &policy);
    assert!(said(plan.notes.iter(), "or on CPUs 0, which no machine gets"), "{:?}", plan.notes);
    assert!(!said(plan.notes.iter(), "no CPU of node"), "{:?}", plan.notes);
}

/// What every plan keeps: no CPU twice, a core in one machine, memory of the machine's own nodes and no more than is there;
/// what is not placed has a reason.
fn check_plan(plan: &Plan, host: &Topology, case: &str) {
    let mut used = std::collections::BTreeSet::new();
    for machine in &plan.machines {
        let pins: usize = machine.cells.iter().map(|cell| cell.pins.len()).sum();
        assert_eq!(pins as u32, machine.vcpus, "{case}");
        assert!(machine.cpus().iter().all(|cpu| used.insert(*cpu)), "{case}: a CPU is used twice");
        for cell in &machine.cells {
            let node = host.nodes.iter().find(|node| node.id == cell.node).expect("a node of the host");
            let cpus: Vec<u32> = node.cores.iter().flat_map(|core| core.cpus.clone()).collect();
            assert!(cell.cpus.iter().all(|cpu| cpus.contains(cpu)), "{case}: a CPU of another node");
            let whole = |core: &crate::place::topology::Core| {
                let mine = core.cpus.iter().filter(|cpu| cell.cpus.contains(cpu)).count();
                mine == 0 || mine == core.cpus.len()
            };
            assert!(node.cores.iter().all(whole), "{case}: a core is divided");
        }
    }
    for node in &host.nodes {
        let cells =
            plan.machines.iter().flat_map(|machine| &machine.cells).filter(|cell| cell.node == node.id);
        assert!(
            cells.map(|cell| cell.memory_mib).sum::<u64>() <= node.memory_mib,
            "{case}: more memory than there is"
        );
    }
    assert!(plan.unplaced.iter().all(|group| group.missing > 0 && !group.why.is_empty()), "{case}");
}

#[test]
fn every_synthetic_host_is_planned_or_refused_with_a_reason() {
    for (description, .., xml) in synthetic() {
        // As it is, with a node that has half of the memory, and with one whose memory is not known.
        for part in [2, 1, 0] {
            let mut host = topology(xml);
            if let Some(last) = host.nodes.last_mut() {
                last.memory_mib = last.memory_mib * part / 2;
            }
            let spread =
                Policy { threads: Threads::OnePerCore, emulator: Emulator::Own, ..Policy::default() };
            let requests =
                [("4x64", Policy::default()), ("3x2,1x4", spread), ("20x2@3GiB", Policy::default())];
            for (vms, policy) in requests {
                let case = format!("{description}, memory {part}/2, {vms}");
                let wanted: Wanted = vms.parse().expect(vms);
                match Plan::make(&host, &wanted, &policy) {
                    Ok(plan) => {
                        check_plan(&plan, &host, &case);
                        let missing: u32 = plan.unplaced.iter().map(|group| group.missing).sum();
                        let all: u32 = wanted.groups.iter().map(|group| group.count).sum();
                        assert_eq!(plan.machines.len() as u32 + missing, all, "{case}");
                    }
                    Err(e) => assert_eq!(e.kind(), frostline_base::ErrorKind::Invalid, "{case}: {e}"),
                }
            }
        }
    }
}

/// Equal machines that fit a node: each node holds as many as its cores allow.
#[test]
fn equal_machines_fill_every_node_of_a_synthetic_host() {
    for (description, [nodes, cores, threads], xml) in synthetic() {
        let host = topology(xml);
        let policy = Policy { reserve: Reserve::Cores(0), ..Policy::default() };
        for of_cores in [1, 2, 3] {
            let fit = nodes * (cores / nodes / of_cores);
            if fit == 0 {
                continue;
            }
            let vms = format!("{}x{}@16MiB", of_cores * threads, fit + 1);
            let plan = Plan::make(&host, &vms.parse().expect("a request"), &policy).expect("a plan");
            assert_eq!(plan.machines.len() as u32, fit, "{description}, {vms}");
        }
    }
}

#[test]
fn three_of_20_do_not_fit_and_what_would_is_said() {
    let plan = plan(TWO_SOCKETS, "20x3");
    assert_eq!((plan.machines.len(), plan.unplaced[0].missing), (2, 1));
    assert_eq!(
        plan.unplaced[0].why,
        "each needs 10 cores (20 CPUs) on one node; left: node 0 has 0 cores (0 CPUs), node 1 has 0 cores (0 CPUs)"
    );
    assert_eq!(plan.would_fit, ["10 CPUs each: 10x3", "2 hosts like this one, filled one after the other"]);
}

#[test]
fn memory_can_be_what_does_not_fit() {
    let plan = plan(TWO_SOCKETS, "4x3@150GiB");
    assert_eq!(plan.unplaced[0].missing, 1);
    assert!(
        plan.unplaced[0].why.contains("2 cores (4 CPUs) and 150GiB on one node"),
        "{}",
        plan.unplaced[0].why
    );
    assert!(said(plan.would_fit.iter(), "94GiB each: 4x3@94GiB"), "{:?}", plan.would_fit);
}

#[test]
fn a_reserve_that_costs_a_machine_is_named_as_the_way_out() {
    let policy = Policy { reserve: Reserve::Cores(1), ..Policy::default() };
    let plan = plan_with(TWO_SOCKETS, "20x2", &policy);
    assert!(!plan.is_complete());
    assert!(said(plan.would_fit.iter(), "--reserve auto"));
    assert!(said(plan.would_fit.iter(), "18 CPUs each: 18x2"), "{:?}", plan.would_fit);
}

#[test]
fn what_is_spare_stays_with_the_host() {
    let plan = plan(TWO_SOCKETS, "18x2");
    let kept: Vec<_> = plan.reserved.iter().map(|share| share.cpus.clone()).collect();
    assert_eq!(kept, [vec![0, 20], vec![10, 30]]);
    assert!(plan.machines.iter().all(|m| m.emulator_on == EmulatorOn::HostNear));
    assert_eq!(plan.machines[1].emulator_cpus, [10, 30]);
    // A machine that fits a node only without its reserved core costs that node's alone.
    let one = super::tests::plan(TWO_SOCKETS, "20x1");
    assert_eq!(one.machines[0].nodes(), [1]);
    assert_eq!(one.reserved[0].cpus, [0, 20]);
    assert!(one.reserved[1].cpus.is_empty());
}

#[test]
fn memory_is_divided_as_the_nodes_have_it() {
    let host = |gib: &[u64]| {
        let mut host = host_of(&vec![4; gib.len()], 1, 8);
        host.nodes.iter_mut().zip(gib).for_each(|(node, gib)| node.memory_mib = gib << 10);
        host
    };
    let policy = Policy { reserve: Reserve::Cores(0), reserve_memory_mib: Some(1024), ..Policy::default() };
    let plan =
        |gib: &[u64], vms: &str| Plan::make(&host(gib), &vms.parse().expect(vms), &policy).expect("a plan");
    let cells = |gib: &[u64], vms: &str| {
        let plan = plan(gib, vms);
        check_plan(&plan, &host(gib), vms);
        let cells = plan.machines.iter().flat_map(|machine| &machine.cells);
        cells.map(|cell| (cell.node, cell.pins.len(), cell.memory_mib >> 10)).collect::<Vec<_>>()
    };
    // Equal parts where they fit, on as few nodes as possible.
    assert_eq!(cells(&[8, 24], "8x1@14GiB"), [(0, 4, 7), (1, 4, 7)]);
    assert_eq!(cells(&[8, 24], "8x1@24GiB"), [(0, 4, 7), (1, 4, 17)]);
    assert_eq!(cells(&[16, 24, 4], "4x1@36GiB"), [(0, 2, 15), (1, 2, 21)]);
    assert_eq!(cells(&[16, 8, 24, 4], "12x1@40GiB"), [(0, 4, 15), (1, 4, 7), (2, 4, 18)]);
    assert_eq!(cells(&[8, 24], "8x1@30GiB"), [(0, 4, 7), (1, 4, 23)]);
    let lacks = |vms: &str, why: &str| {
        let plan = plan(&[8, 24], vms);
        assert!(said(plan.unplaced.iter().map(|unplaced| &unplaced.why), why), "{:?}", plan.unplaced);
    };
    lacks("8x1@31GiB", "each needs 8 cores (8 CPUs) and 31GiB on one node; left: ");
    lacks(
        "4x2@26GiB",
        "each needs 2 cores (2 CPUs) and 19GiB + 2 cores (2 CPUs) and 7GiB on 2 nodes, being larger",
    );
}

#[test]
fn only_a_machine_larger_than_a_node_spans_nodes() {
    let plan = plan(TWO_SOCKETS, "24x1");
    let cells = &plan.machines[0].cells;
    assert_eq!(cells.iter().map(|cell| (cell.node, cell.pins.len())).collect::<Vec<_>>(), [(0, 12), (1, 12)]);
    assert_eq!(cells[1].pins[0].vcpu, 12);
    assert!(said(plan.notes.iter(), "which the software inside must know how to use: vm24-1"));
    let host = super::tests::plan(TWO_SOCKETS, "42x1");
    assert!(host.machines.is_empty());
    assert!(said(host.would_fit.iter(), "40 CPUs each: 40x1"), "{:?}", host.would_fit);
}

#[test]
fn a_machine_can_be_larger_than_a_node_by_its_memory_alone() {
    let plan = plan(TWO_SOCKETS, "4x1@301GiB");
    let cells: Vec<_> = plan.machines[0].cells.iter().map(|c| (c.node, c.pins.len(), c.memory_mib)).collect();
    assert_eq!(cells, [(0, 2, 301 * 512), (1, 2, 301 * 512)]);
    assert_eq!(plan.machines[0].page_kib, 2048);
}

#[test]
fn one_vcpu_per_core_leaves_siblings_idle() {
    let policy = Policy { threads: Threads::OnePerCore, ..Policy::default() };
    let plan = plan_with(TWO_SOCKETS, "8x2", &policy);
    let cell = &plan.machines[0].cells[0];
    assert_eq!(cell.pins.len(), 8);
    assert_eq!(cell.cpus.len(), 16);
    assert_eq!(plan.machines[0].guest_threads, 1);
    let twice = plan_with(TWO_SOCKETS, "20x2", &policy);
    assert!(said(twice.would_fit.iter(), "--threads siblings"), "{:?}", twice.would_fit);
}

#[test]
fn the_emulator_can_have_a_cpu_of_its_own() {
    let policy = Policy { emulator: Emulator::Own, reserve: Reserve::Cores(0), ..Policy::default() };
    let plan = plan_with(TWO_SOCKETS, "5x1,4x1", &policy);
    // Five vCPUs leave the sibling of the last one; four need a core more.
    assert_eq!(plan.machines[0].cpus().len(), 6);
    assert_eq!(plan.machines[0].emulator_cpus.len(), 1);
    assert_eq!(plan.machines[1].cpus().len(), 6);
    assert_eq!(plan.machines[1].emulator_cpus.len(), 2);
    assert!(plan.machines.iter().all(|m| m.emulator_on == EmulatorOn::Own));
}

#[test]
fn queues_are_limited_by_the_kernel() {
    for (release, queues) in [("2.6.32-754.el6", 1), ("3.10.0-1160.el7", 8), ("4.18.0", 20), ("6.1.0", 20)] {
        let mut host = topology(TWO_SOCKETS);
        host.kernel = Some(release.into());
        let plan =
            Plan::make(&host, &"20x1".parse().expect("one machine"), &Policy::default()).expect("a plan");
        assert_eq!(plan.machines[0].queues, queues, "{release}");
    }
}

#[test]
fn pages_are_the_largest_that_the_memory_is_made_of() {
    let pages = |xml, vms| plan(xml, vms).machines[0].page_kib;
    assert_eq!(pages(TWO_SOCKETS, "4x1@16GiB"), 1 << 20);
    assert_eq!(pages(TWO_SOCKETS, "4x1@8GiB"), 2048);
    assert_eq!(pages(TWO_SOCKETS, "4x1@17000MiB"), 2048);
    assert_eq!(pages(TWO_SOCKETS, "4x1@17001MiB"), 4);
    assert!(said(plan(NODES_2, "4x1").notes.iter(), "2 MiB are assumed"));
    let policy = Policy { pages: Pages::Kib(1 << 20), ..Policy::default() };
    let odd = Plan::make(&topology(TWO_SOCKETS), &"4x1@1500MiB".parse().expect("one machine"), &policy);
    assert!(odd.is_err());
    assert_eq!(plan_with(TWO_SOCKETS, "4x1", &policy).machines[0].memory_mib() % 1024, 0);
}

#[test]
fn this_small_machine_carries_one_cpu_and_keeps_one() {
    let plan = plan(TWO_CPUS, "1");
    assert_eq!(plan.reserved[0].cpus, [0]);
    assert_eq!(plan.machines[0].cells[0].pins, [Pin { vcpu: 0, cpu: 1 }]);
}

#[test]
fn a_reserve_beyond_the_host_is_refused() {
    for reserve in [Reserve::Cores(11), Reserve::Cpus(vec![40])] {
        let policy = Policy { reserve, ..Policy::default() };
        assert!(Plan::make(&topology(TWO_SOCKETS), &"1".parse().expect("one"), &policy).is_err());
    }
    let policy = Policy { reserve: Reserve::Cpus(vec![20, 21]), ..Policy::default() };
    assert_eq!(plan_with(TWO_SOCKETS, "16x1", &policy).reserved[0].cpus, [0, 1, 20, 21]);
}

#[test]
fn memory_of_an_unknown_size_cannot_be_asked_for() {
    let mut host = topology(TWO_SOCKETS);
    host.nodes[0].memory_mib = 0;
    assert!(Plan::make(&host, &"4x1@1GiB".parse().expect("one"), &Policy::default()).is_err());
    assert!(Plan::make(&host, &"4x1".parse().expect("one"), &Policy::default()).is_ok());
}

/// A host of `nodes` with `cores` each; caches of four cores.
fn host_of(nodes: &[u32], threads: u32, gib: u64) -> Topology {
    let all: u32 = nodes.iter().sum();
    let mut first = 0;
    let mut out = Vec::new();
    for (id, cores) in nodes.iter().enumerate() {
        let core = |core: u32| Core { cpus: (0..threads).map(|t| core + t * all).collect(), l3: core / 4 };
        let cores: Vec<Core> = (first..first + cores).map(core).collect();
        first += cores.len() as u32;
        out.push(Node { id: id as u32, memory_mib: gib << 10, page_kib: vec![4, 2048, 1 << 20], cores });
    }
    Topology {
        format: FORMAT,
        source: "a test".into(),
        kernel: None,
        cpu_vendor: None,
        architecture: None,
        nodes: out,
        devices: Vec::new(),
        distances: None,
        uneven_cpus: Vec::new(),
        notes: Vec::new(),
    }
}

fn policies() -> impl Strategy<Value = Policy> {
    let reserve = prop_oneof![Just(Reserve::Auto), (0_u32..2).prop_map(Reserve::Cores)];
    let threads = prop_oneof![Just(Threads::Siblings), Just(Threads::OnePerCore)];
    let emulator = prop_oneof![Just(Emulator::Host), Just(Emulator::Own)];
    (reserve, threads, emulator).prop_map(|(reserve, threads, emulator)| Policy {
        reserve,
        threads,
        emulator,
        ..Policy::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_plan_keeps_its_promises(
        nodes in proptest::collection::vec(2_u32..12, 1..5),
        threads in 1_u32..3,
        sizes in proptest::collection::vec((1_u32..30, 1_u32..5, proptest::option::of(1_u64..40)), 1..4),
        policy in policies(),
    ) {
        let host = host_of(&nodes, threads, 32);
        let groups = sizes.into_iter().map(|(vcpus, count, gib)| Group { vcpus, count, memory_mib: gib.map(|g| g << 10) });
        let wanted = Wanted { groups: groups.collect() };
        let plan = Plan::make(&host, &wanted, &policy).expect("a plan");

        // Nothing is given twice, and everything is somewhere.
        let mut given: Vec<u32> = plan.machines.iter().flat_map(Machine::cpus).collect();
        given.extend(plan.reserved.iter().chain(&plan.free).flat_map(|share| &share.cpus));
        given.sort_unstable();
        let all: Vec<u32> = (0..nodes.iter().sum::<u32>() * threads).collect();
        prop_assert_eq!(given, all);

        for machine in &plan.machines {
            // All vCPUs are pinned, each to a CPU of its cell, and a cell has whole cores of its node.
            let pins: Vec<Pin> = machine.cells.iter().flat_map(|cell| cell.pins.clone()).collect();
            prop_assert_eq!(pins.iter().map(|pin| pin.vcpu).collect::<Vec<_>>(), (0..machine.vcpus).collect::<Vec<_>>());
            for cell in &machine.cells {
                let node = &host.nodes[cell.node as usize];
                let cores: Vec<&Core> = node.cores.iter().filter(|core| cell.cpus.contains(&core.cpus[0])).collect();
                prop_assert_eq!(cores.iter().map(|core| core.cpus.len()).sum::<usize>(), cell.cpus.len());
                prop_assert!(cores.iter().all(|core| core.cpus.iter().all(|cpu| cell.cpus.contains(cpu))));
                prop_assert!(cell.pins.iter().all(|pin| cell.cpus.contains(&pin.cpu)));
            }
            // It is on one node if any node could hold it.
            let width = if policy.threads == Threads::Siblings { threads } else { 1 };
            let own = u32::from(policy.emulator == Emulator::Own);
            let cores = if policy.threads == Threads::Siblings {
                (machine.vcpus + own).div_ceil(width)
            } else {
                machine.vcpus + own
            };
            let usable = |share: &NodeShare| nodes[share.node as usize] - share.cpus.len() as u32 / threads;
            let mib = if machine.memory_asked { machine.memory_mib() } else { 0 };
            let fits_one = plan.reserved.iter().any(|s| usable(s) >= cores && (32 << 10) - s.memory_mib >= mib);
            prop_assert_eq!(machine.cells.len() == 1, fits_one);
            prop_assert!(!machine.emulator_cpus.is_empty());
        }

        // Memory stays within each node, and is what was asked for.
        for share in &plan.reserved {
            let cells = plan.machines.iter().flat_map(|m| &m.cells).filter(|cell| cell.node == share.node);
            prop_assert!(cells.map(|cell| cell.memory_mib).sum::<u64>() + share.memory_mib <= 32 << 10);
        }
        for group in &wanted.groups {
            let mut alike = plan.machines.iter().filter(|m| m.vcpus == group.vcpus && m.memory_asked);
            let asked: Vec<u64> = wanted.groups.iter().filter_map(|group| group.memory_mib).collect();
            prop_assert!(alike.all(|m| asked.contains(&m.memory_mib())));
        }

        // Placed and missing add up.
        let missing: u32 = plan.unplaced.iter().map(|unplaced| unplaced.missing).sum();
        let count: u32 = wanted.groups.iter().map(|group| group.count).sum();
        prop_assert_eq!(plan.machines.len() as u32 + missing, count);

        // The same again is the same.
        prop_assert_eq!(Plan::make(&host, &wanted, &policy).expect("a plan"), plan);
    }

    #[test]
    fn equal_machines_reach_the_published_formula(
        nodes in proptest::collection::vec(2_u32..16, 1..5),
        size in 1_u32..10,
        reserved in 0_u32..2,
    ) {
        // k = sum over nodes of floor((cores - reserved) / vcpu), one thread per core.
        let k: u32 = nodes.iter().map(|cores| (cores - reserved) / size).sum();
        prop_assume!(k > 0);
        let policy = Policy { reserve: Reserve::Cores(reserved), ..Policy::default() };
        let group = Group { vcpus: size, count: k + 1, memory_mib: None };
        let plan = Plan::make(&host_of(&nodes, 1, 32), &Wanted { groups: vec![group] }, &policy).expect("a plan");
        prop_assert_eq!(plan.machines.len() as u32, k);
        prop_assert_eq!(plan.unplaced[0].missing, 1);
    }
}
