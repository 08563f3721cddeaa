//! Flavors with their extra specs, image properties, and the settings of nova-compute
//! (<https://docs.openstack.org/nova/latest/admin/cpu-topologies.html>).
//!
//! Nova chooses nodes and CPUs itself. With these settings it arrives at a placement of the same quality,
//! not necessarily at the same CPU numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{EmittedFile, machine_cpus};
use crate::place::list;
use crate::place::plan::{EmulatorOn, Machine, Plan};

/// `flavors.sh` and `nova.conf`.
pub(super) fn files(plan: &Plan) -> Vec<EmittedFile> {
    vec![
        EmittedFile { name: "flavors.sh".into(), text: flavors(plan) },
        EmittedFile { name: "nova.conf".into(), text: nova_conf(plan) },
    ]
}

fn flavors(plan: &Plan) -> String {
    let mut text = String::from(
        "#!/bin/sh\n# Flavors of the planned machines. Set the size of the root disk; run it with admin credentials.\n\
         # Undo: openstack flavor delete NAME\nset -eu\n",
    );
    let mut done: BTreeMap<String, ()> = BTreeMap::new();
    for machine in &plan.machines {
        let name = format!("pinned-{}cpu-{}mib", machine.vcpus, machine.memory_mib());
        if done.insert(name.clone(), ()).is_some() {
            continue;
        }
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\nopenstack flavor create {name} --vcpus {} --ram {} --disk \"${{ROOT_GIB:?}}\"\n\
             openstack flavor set {name}",
            machine.vcpus,
            machine.memory_mib()
        );
        for (key, value) in properties(plan, machine) {
            let _ = write!(text, " \\\n  --property {key}={value}");
        }
        text.push('\n');
    }
    text.push_str(
        "\n# The image, if it was made before Yoga's flavor property or is used with other flavors as well. A guest\n\
         # with an old driver still needs `ethtool -L eth0 combined N`, N being its vCPUs.\n\
         # openstack image set IMAGE --property hw_vif_multiqueue_enabled=true --property hw_disk_bus=virtio\n",
    );
    text
}

fn properties(plan: &Plan, machine: &Machine) -> Vec<(String, String)> {
    let mut out = vec![("hw:cpu_policy".to_owned(), "dedicated".to_owned())];
    let mut add = |key: &str, value: &str| out.push((key.to_owned(), value.to_owned()));
    // `isolate` refuses hosts with hyper-threading altogether; `prefer` fills siblings of a core first.
    if plan.host.threads > 1 && machine.guest_threads > 1 {
        add("hw:cpu_thread_policy", "require");
    } else if plan.host.threads > 1 {
        add("hw:cpu_thread_policy", "prefer");
    }
    let cells = machine.cells.len();
    add("hw:numa_nodes", &cells.to_string());
    let uneven = machine.cells.iter().any(|cell| cell.pins.len() != machine.cells[0].pins.len());
    for (at, cell) in machine.cells.iter().enumerate().filter(|_| uneven) {
        add(&format!("hw:numa_cpus.{at}"), &super::vcpus_of(cell));
        add(&format!("hw:numa_mem.{at}"), &cell.memory_mib.to_string());
    }
    let page = if machine.page_kib > 4 { format!("{}KiB", machine.page_kib) } else { "small".to_owned() };
    add("hw:mem_page_size", &page);
    match machine.emulator_on {
        EmulatorOn::Own => add("hw:emulator_threads_policy", "isolate"),
        EmulatorOn::HostNear | EmulatorOn::HostFar => add("hw:emulator_threads_policy", "share"),
        // Without reserved CPUs nova's default, the machine's own, is what the plan says.
        EmulatorOn::Spare | EmulatorOn::Vcpus => {}
    }
    if machine.queues > 1 {
        add("hw:vif_multiqueue_enabled", "true");
    }
    add("hw:pci_numa_affinity_policy", "preferred");
    out
}

fn nova_conf(plan: &Plan) -> String {
    let reserved: Vec<u32> = plan.reserved.iter().flat_map(|share| share.cpus.iter().copied()).collect();
    let mut dedicated = machine_cpus(plan);
    dedicated.extend(plan.free.iter().flat_map(|share| share.cpus.iter().copied()));
    dedicated.sort_unstable();
    let reserved_mib: u64 = plan.reserved.iter().map(|share| share.memory_mib).sum();
    let mut text = String::from(
        "# Of this host's nova-compute; restart it afterwards, with no machine on it.\n[DEFAULT]\n",
    );
    let _ = writeln!(
        text,
        "# Stays with the host, over all nodes. Huge pages (host.sh) are nova's to give away.\n\
         reserved_host_memory_mb = {reserved_mib}"
    );
    let _ = writeln!(text, "\n[compute]\ncpu_dedicated_set = {}", list(&dedicated));
    if reserved.is_empty() {
        text.push_str(
            "# No CPU is reserved: cpu_shared_set stays unset, emulator threads run on the machines' CPUs.\n",
        );
    } else {
        let _ = writeln!(
            text,
            "# Emulator and I/O threads of machines with hw:emulator_threads_policy=share.\ncpu_shared_set = {}",
            list(&reserved)
        );
    }
    let queues = plan.machines.iter().map(|machine| machine.queues).max().unwrap_or(1);
    let capped = plan.machines.iter().any(|machine| machine.queues < machine.vcpus);
    text.push_str(
        "\n[libvirt]\ncpu_mode = host-passthrough\n# cache=none; nova then chooses io=native for block devices and preallocated raw files.\n\
         disk_cachemodes = block=none,file=none\n",
    );
    if capped {
        let _ = writeln!(text, "max_queues = {queues}");
    }
    text.push_str(
        "\n[filter_scheduler]\n# Keep what is enabled and add:\n# enabled_filters = ...,NUMATopologyFilter\n",
    );
    text
}
