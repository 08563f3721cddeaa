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
    lacks("4x3@26GiB,1x1@17GiB", "each needs 1 core (1 CPU) and 17GiB on one node; left: ");
    lacks("8x1@31GiB", "each needs 8 cores (8 CPUs) and 31GiB on one node; left: ");
    lacks(
        "4x2@26GiB",
        "each needs 2 cores (2 CPUs) on each of 2 nodes and 26GiB on them, being larger than one",
    );
}

/// Nodes of so many cores and GiB, of which 1 GiB each is reserved.
fn host_with(nodes: &[(u32, u64)]) -> (Topology, Policy) {
    let cores: Vec<u32> = nodes.iter().map(|(cores, _)| *cores).collect();
    let mut host = host_of(&cores, 1, 0);
    host.nodes.iter_mut().zip(nodes).for_each(|(node, (_, gib))| node.memory_mib = gib << 10);
    (host, Policy { reserve: Reserve::Cores(0), reserve_memory_mib: Some(1024), ..Policy::default() })
}

/// The most vCPUs that rule 2 lets `machines` (cores and GiB) have on such nodes, by trying every subset of the machines and
/// every node for every part.
fn most_vcpus(nodes: &[(u32, u64)], machines: &[(u32, u64)]) -> u32 {
    let gib: Vec<u64> = nodes.iter().map(|(_, gib)| gib - 1).collect();
    // A place is the cores on each node.
    let places_of = |(cores, need): &(u32, u64)| {
        let of_parts = |parts: usize| {
            let parts = parts as u32;
            let part = |part| cores / parts + u32::from(part < cores % parts);
            let mut places = vec![vec![0; nodes.len()]];
            for part in (0..parts).map(part) {
                let on = |(place, node): (&Vec<u32>, usize)| {
                    let is_free = place[node] == 0 && nodes[node].0 >= part;
                    is_free.then(|| {
                        place.iter().enumerate().map(|(n, c)| if n == node { part } else { *c }).collect()
                    })
                };
                let all = places.iter().flat_map(|place| (0..nodes.len()).map(move |node| (place, node)));
                places = all.filter_map(on).collect();
            }
            places.retain(|place| {
                (0..nodes.len()).filter(|n| place[*n] > 0).map(|n| gib[n]).sum::<u64>() >= *need
            });
            places.sort();
            places.dedup();
            places
        };
        (1..=nodes.len().min(*cores as usize))
            .map(of_parts)
            .find(|places| !places.is_empty())
            .unwrap_or_default()
    };
    let places: Vec<Vec<Vec<u32>>> = machines.iter().map(places_of).collect();
    most_of(nodes, &gib, machines, &places, &mut Vec::new())
}

fn most_of(
    nodes: &[(u32, u64)],
    gib: &[u64],
    machines: &[(u32, u64)],
    places: &[Vec<Vec<u32>>],
    taken: &mut Vec<(u64, Vec<u32>)>,
) -> u32 {
    let Some(((cores, need), rest)) = machines.split_first() else { return 0 };
    let mut best = most_of(nodes, gib, rest, &places[1..], taken);
    for place in &places[0] {
        taken.push((*need, place.clone()));
        let is_free = |node: usize| taken.iter().map(|(_, place)| place[node]).sum::<u32>() <= nodes[node].0;
        // Each part has a huge page. The rest can be divided if no set of the machines needs more than all of its nodes
        // have (Hall).
        let parts_on = |node: usize| taken.iter().filter(|(_, place)| place[node] > 0).count() as u64;
        let parts_of = |place: &[u32]| place.iter().filter(|cores| **cores > 0).count() as u64;
        let has_memory = |set: usize| {
            let of_set =
                || taken.iter().enumerate().filter(|(n, _)| (set >> n) & 1 == 1).map(|(_, taken)| taken);
            let on = (0..gib.len()).filter(|node| of_set().any(|(_, place)| place[*node] > 0));
            let needed: u64 = of_set().map(|(need, place)| need * 512 - parts_of(place)).sum();
            needed <= on.map(|node| (gib[node] * 512).saturating_sub(parts_on(node))).sum()
        };
        if (0..nodes.len()).all(is_free) && (1..1 << taken.len()).all(has_memory) {
            best = best.max(cores + most_of(nodes, gib, rest, &places[1..], taken));
        }
        taken.pop();
    }
    best
}

fn check_most(nodes: &[(u32, u64)], machines: &[(u32, u64)]) {
    let (host, policy) = host_with(nodes);
    let group = |(vcpus, gib): &(u32, u64)| Group { vcpus: *vcpus, count: 1, memory_mib: Some(gib << 10) };
    let wanted = Wanted { groups: machines.iter().map(group).collect() };
    let case = format!("{nodes:?}, {machines:?}");
    let plan = Plan::make(&host, &wanted, &policy).expect(&case);
    check_plan(&plan, &host, &case);
    for machine in &plan.machines {
        assert!(machine.cells.iter().all(|cell| cell.memory_mib > 0), "{case}: a node without memory");
        let fits =
            |(cores, gib): &(u32, u64)| *cores >= machine.vcpus && (gib - 1) << 10 >= machine.memory_mib();
        assert_eq!(machine.cells.len() == 1, nodes.iter().any(fits), "{case}");
    }
    for share in &plan.free {
        let cells = plan.machines.iter().flat_map(|m| &m.cells).filter(|cell| cell.node == share.node);
        let used: u64 = cells.map(|cell| cell.memory_mib).sum();
        assert!(used + 1024 <= nodes[share.node as usize].1 << 10, "{case}: more memory than there is");
    }
    assert_eq!(plan.machines.iter().map(|m| m.vcpus).sum::<u32>(), most_vcpus(nodes, machines), "{case}");
    assert_eq!(plan.proof, Proof::Exact, "{case}");
}

#[test]
fn parts_go_where_they_fit() {
    // The node with fewer cores has the memory.
    check_most(&[(6, 4), (4, 16)], &[(9, 9)]);
    // The larger part must be on the second node.
    check_most(&[(2, 24), (2, 16)], &[(3, 7), (1, 17)]);
    // The memory depends on what the others leave.
    check_most(&[(5, 16), (5, 16), (5, 2), (5, 16)], &[(2, 15), (6, 11), (4, 4)]);
    // Two machines that share a node must divide it as the others of their nodes have it.
    check_most(&[(2, 4), (2, 4), (2, 4)], &[(3, 4), (3, 5)]);
}

#[test]
fn memory_is_as_equal_as_the_nodes_of_the_host_allow() {
    let (host, policy) = host_with(&[(4, 8), (4, 24), (4, 24)]);
    let plan = Plan::make(&host, &"8@28GiB".parse().expect("one"), &policy).expect("a plan");
    let cells: Vec<_> =
        plan.machines[0].cells.iter().map(|cell| (cell.node, cell.memory_mib >> 10)).collect();
    assert_eq!(cells, [(1, 14), (2, 14)]);
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
    fn no_placement_holds_more(
        nodes in proptest::collection::vec((1_u32..6, 0_usize..5), 2..5),
        machines in proptest::collection::vec((0_u32..1000, 0_u64..1000), 1..4),
    ) {
        let nodes: Vec<(u32, u64)> = nodes.into_iter().map(|(cores, gib)| (cores, [2, 4, 8, 16, 24][gib])).collect();
        // Each takes up to its part of the host, so that many hosts are nearly full.
        let n = machines.len() as u64;
        let cores = (nodes.iter().map(|(cores, _)| cores).sum::<u32>() / n as u32).max(1);
        let gib = (nodes.iter().map(|(_, gib)| gib - 1).sum::<u64>() / n).max(1);
        let machines: Vec<(u32, u64)> = machines.iter().map(|(c, g)| (1 + c * cores / 1000, 1 + g * gib / 1000)).collect();
        check_most(&nodes, &machines);
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
