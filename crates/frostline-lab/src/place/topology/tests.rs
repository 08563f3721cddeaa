use frostline_base::ErrorKind;
use proptest::prelude::*;

use super::*;

/// Two packages of ten cores with two threads, 192 GiB each, a card and an NVMe disk at the second: made by
/// `lstopo --input 'package:2 [numa(memory=206158430208)] core:10 pu:2(indexes=2*20:20*1)' --of xml` and
/// `hwloc-annotate`, devices and page sizes added by hand and read back by lstopo.
pub(in crate::place) const TWO_SOCKETS: &str = include_str!("../../../fixtures/topology/two-sockets-40.xml");
/// A small virtual machine, as its lstopo wrote it.
pub(in crate::place) const TWO_CPUS: &str = include_str!("../../../fixtures/topology/two-cpus.xml");
/// `lstopo --input 'node:2 core:10 pu:2' --of xml`: siblings are neighbours, no page but the ordinary one.
pub(in crate::place) const NODES_2: &str = include_str!("../../../fixtures/topology/node2-core10-pu2.xml");

const SYNTHETIC: &str = include_str!("../../../fixtures/topology/synthetic.txt");

/// Hosts of hwloc's synthetic descriptions: the description, (nodes, cores, threads of a core), and what hwloc says.
pub(in crate::place) fn synthetic() -> Vec<(&'static str, [u32; 3], &'static str)> {
    let one = |section: &'static str| {
        let (title, xml) = section.split_once('\n').expect("a host has a title");
        let (description, counts) = title.rsplit_once(" = ").expect("a title has counts");
        let counts: Vec<u32> = counts.split(' ').map(|count| count.parse().expect("a count")).collect();
        (description, counts.try_into().expect("three counts"), xml)
    };
    SYNTHETIC.split("\n== ").skip(1).map(one).collect()
}

pub(in crate::place) fn topology(xml: &str) -> Topology {
    Topology::parse(xml.as_bytes()).expect("a fixture is a topology")
}

#[test]
fn nodes_cores_siblings_devices_and_distances_are_read() {
    let host = topology(TWO_SOCKETS);
    assert_eq!((host.nodes.len(), host.cores(), host.threads()), (2, 20, 2));
    assert_eq!(host.nodes[0].cores[0].cpus, [0, 20]);
    assert_eq!(host.nodes[1].cores[9].cpus, [19, 39]);
    assert_eq!(host.nodes[1].memory_mib, 192 * 1024);
    assert_eq!(host.nodes[0].page_kib, [4, 2048, 1 << 20]);
    assert_eq!(host.distances, Some(vec![vec![10, 21], vec![21, 10]]));
    let devices: Vec<_> = host.devices.iter().map(|d| (d.name.as_str(), d.kind, d.node)).collect();
    assert_eq!(devices, [("ens2f0", DeviceKind::Network, Some(1)), ("nvme0n1", DeviceKind::Block, Some(1))]);
    assert!(host.notes.is_empty());
}

#[test]
fn synthetic_hosts_are_read() {
    let hosts = synthetic();
    assert!(hosts.len() >= 20);
    for (description, [nodes, cores, threads], xml) in hosts {
        let host = topology(xml);
        let read = [host.nodes.len() as u32, host.cores(), host.threads()];
        assert_eq!(read, [nodes, cores, threads], "{description}");
    }
}

#[test]
fn a_real_machine_is_read() {
    let host = topology(TWO_CPUS);
    assert_eq!((host.nodes.len(), host.cores(), host.threads()), (1, 2, 1));
    assert_eq!(host.kernel.as_deref(), Some("6.18.44"));
    assert_eq!(host.cpu_vendor.as_deref(), Some("GenuineIntel"));
    assert_eq!(host.architecture.as_deref(), Some("x86_64"));
    assert_eq!(host.nodes[0].memory_mib, 12442611712 >> 20);
    // The only node is near everything.
    let devices: Vec<_> = host.devices.iter().map(|d| (d.name.as_str(), d.node)).collect();
    assert_eq!(devices, [("vda", Some(0)), ("eth0", Some(0))]);
}

#[test]
fn siblings_are_found_whatever_their_numbers() {
    let host = topology(NODES_2);
    assert_eq!(host.nodes[0].cores[0].cpus, [0, 1]);
    assert_eq!(host.nodes[1].cores[0].cpus, [20, 21]);
}

#[test]
fn what_is_exported_is_read_back() {
    for xml in [TWO_SOCKETS, TWO_CPUS, NODES_2] {
        let host = topology(xml);
        let json = serde_json::to_vec(&host).expect("a topology is JSON");
        assert_eq!(Topology::parse(&json).expect("our own JSON"), host);
    }
}

#[test]
fn hwloc_3_is_read_too() {
    let mut xml = TWO_SOCKETS.replace("topology version=\"2.0\"", "topology version=\"3.0\"");
    xml =
        xml.replace("osdev_type=\"2\"", "osdev_type=\"16\"").replace("osdev_type=\"0\"", "osdev_type=\"1\"");
    assert_eq!(topology(&xml), topology(TWO_SOCKETS));
}

#[test]
fn cpus_that_are_not_allowed_are_left_out() {
    let all = "allowed_cpuset=\"0x000000ff,0xffffffff\"";
    let xml = TWO_SOCKETS.replace(all, "allowed_cpuset=\"0x000000ff,0xffeffffe\"");
    assert_ne!(xml, TWO_SOCKETS);
    let host = topology(&xml);
    assert_eq!(host.nodes[0].cores.len(), 9);
    assert_eq!(host.notes, ["2 CPUs are not allowed to be used (cgroup) and are left out"]);
}

#[test]
fn a_core_with_another_number_of_threads_stays_with_the_host() {
    let all = "allowed_cpuset=\"0x000000ff,0xffffffff\"";
    let xml = TWO_SOCKETS.replace(all, "allowed_cpuset=\"0x000000ff,0xffefffff\"");
    let host = topology(&xml);
    assert_eq!(host.nodes[0].cores[0].cpus, [1, 21]);
    assert_eq!(host.uneven_cpus, [0]);
}

#[test]
fn memory_without_cpus_is_said_and_left_out() {
    let memory =
        "<object type=\"NUMANode\" os_index=\"2\" cpuset=\"0x0\" nodeset=\"0x4\" local_memory=\"1\"/>";
    let xml = NODES_2.replacen("<object type=\"Group\"", &format!("{memory}<object type=\"Group\""), 1);
    let host = topology(&xml);
    assert_eq!(host.nodes.len(), 2);
    assert_eq!(host.notes, ["node 2 has no usable CPU of its own: its memory is left out"]);
}

#[test]
fn hostile_files_are_errors() {
    let deep = format!("<topology version=\"2.0\">{}", "<object type=\"Group\">".repeat(100_000));
    let wide = format!(
        "<topology version=\"2.0\"><object type=\"Machine\" allowed_cpuset=\"{}0x1\"/></topology>",
        "0xffffffff,".repeat(10_000)
    );
    let laughs = "<!DOCTYPE topology [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]>\
        <topology version=\"2.0\"><object type=\"&b;\"/></topology>";
    let twice = TWO_SOCKETS.replace("type=\"PU\" os_index=\"20\"", "type=\"PU\" os_index=\"0\"");
    let files: [(&str, &str); 16] = [
        ("", "neither"),
        ("\u{0}\u{1}\u{2}", "neither"),
        ("lstopo: command not found", "neither"),
        ("{}", "not the JSON"),
        ("{\"format\":", "not the JSON"),
        ("<html/>", "not a topology of hwloc"),
        ("<topology/>", "only the XML of hwloc 2 and 3"),
        ("<topology version=\"1.0\"/>", "only the XML of hwloc 2 and 3"),
        ("<topology version=\"2.0\"/>", "no NUMA node"),
        ("<topology version=\"2.0\"><object/></topology>", "an attribute is missing"),
        ("<topology version=\"2.0\"></object>", "damaged"),
        ("<topology version=\"2.0\"/><topology version=\"2.0\"/>", "not a topology"),
        (&deep, "nested too deeply"),
        (&wide, "too large"),
        (laughs, "cannot be read"),
        (&twice, "a CPU is in two cores"),
    ];
    for (text, expected) in files {
        let error = Topology::parse(text.as_bytes()).expect_err(expected);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.what().contains(expected), "{} does not say {expected}", error.what());
    }
}

#[test]
fn json_that_contradicts_itself_is_an_error() {
    let good = topology(TWO_SOCKETS);
    type Damage = fn(&mut Topology);
    let broken: [(&str, Damage); 7] = [
        ("newer", |t| t.format += 1),
        ("two cores", |t| t.nodes[1].cores[0].cpus = vec![0, 20]),
        ("different numbers of threads", |t| t.nodes[0].cores[3].cpus.truncate(1)),
        ("ascending", |t| t.nodes.reverse()),
        ("no core", |t| t.nodes[0].cores.clear()),
        ("distances", |t| t.distances = Some(vec![vec![10]])),
        ("control characters", |t| t.devices[0].name = "\u{1b}[2J".into()),
    ];
    for (expected, damage) in broken {
        let mut bad = good.clone();
        damage(&mut bad);
        let error = Topology::parse(&serde_json::to_vec(&bad).expect("JSON")).expect_err(expected);
        assert!(error.what().contains(expected), "{} does not say {expected}", error.what());
    }
}

#[test]
fn a_missing_file_is_not_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Topology::read(&folder.path().join("none.xml")).expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_damaged_file_is_a_topology_or_an_error(
        cut in 0..TWO_CPUS.len(),
        changes in proptest::collection::vec((0..TWO_CPUS.len(), any::<u8>()), 0..6),
    ) {
        let mut bytes = TWO_CPUS.as_bytes().to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        // Every other case is also cut off.
        if cut % 2 == 0 {
            bytes.truncate(cut);
        }
        match Topology::parse(&bytes) {
            Ok(topology) => prop_assert!(topology.check().is_ok()),
            Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Invalid),
        }
    }
}
