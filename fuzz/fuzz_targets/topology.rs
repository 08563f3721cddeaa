//! A host's topology, hwloc's XML or our JSON, and a plan on whatever it says.
#![no_main]

use std::collections::BTreeSet;

use frostline_lab::place::topology::Topology;
use frostline_lab::place::{Plan, Policy, Wanted};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(topology) = Topology::parse(bytes) else { return };
    let wanted: Wanted = "6x2,3x3,1".parse().expect("three sizes");
    let Ok(plan) = Plan::make(&topology, &wanted, &Policy::default()) else { return };
    let mut given = BTreeSet::new();
    for cpu in plan.machines.iter().flat_map(|machine| machine.cpus()) {
        assert!(given.insert(cpu), "CPU {cpu} is given twice");
    }
});
