use std::process::Command;

use super::*;
use crate::place::request::{Policy, Reserve};
use crate::place::topology::Topology;
use crate::place::topology::tests::{TWO_CPUS, TWO_SOCKETS, topology};

fn around() -> Surroundings {
    Surroundings { bridge: "br0".into(), io: DiskIo::Native }
}

fn files_of(host: &Topology, vms: &str, policy: &Policy, target: Target) -> BTreeMap<String, String> {
    let plan = Plan::make(host, &vms.parse().expect(vms), policy).expect("a plan");
    let files = emit(&plan, target, &around()).expect("files");
    files.into_iter().map(|file| (file.name, file.text)).collect()
}

fn files(vms: &str, target: Target) -> BTreeMap<String, String> {
    files_of(&topology(TWO_SOCKETS), vms, &Policy::default(), target)
}

fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_domain_pins_cpus_memory_and_threads() {
    let files = files("18x2", Target::Libvirt);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["host.sh", "vm18-1.xml", "vm18-2.xml"]);
    let domain = &files["vm18-2.xml"];
    has(
        domain,
        &[
            "<vcpu placement=\"static\">18</vcpu>",
            "<vcpupin vcpu=\"0\" cpuset=\"11\"/>",
            "<vcpupin vcpu=\"1\" cpuset=\"31\"/>",
            "<vcpupin vcpu=\"17\" cpuset=\"39\"/>",
            "<emulatorpin cpuset=\"10,30\"/>",
            "<iothreadpin iothread=\"1\" cpuset=\"10,30\"/>",
            "<memory mode=\"strict\" nodeset=\"1\"/>",
            "<page size=\"1048576\" unit=\"KiB\"/>",
            "<topology sockets=\"1\" cores=\"9\" threads=\"2\"/>",
            "<driver name=\"qemu\" type=\"raw\" cache=\"none\" io=\"native\" queues=\"18\" iothread=\"1\"/>",
            "<driver name=\"vhost\" queues=\"18\"/>",
        ],
    );
    assert_eq!(domain.matches("<vcpupin").count(), 18);
    has(
        &files["host.sh"],
        &["IRQBALANCE_BANNED_CPULIST=1-9,11-19,21-29,31-39", "hugepages-1048576kB/nr_hugepages"],
    );
}

#[test]
fn a_domain_over_two_nodes_has_virtual_nodes_with_the_host_s_distances() {
    let domain = &files("24", Target::Libvirt)["vm24-1.xml"];
    has(
        domain,
        &[
            "<memnode cellid=\"1\" mode=\"strict\" nodeset=\"1\"/>",
            "<cell id=\"1\" cpus=\"12-23\"",
            "<sibling id=\"0\" value=\"21\"/>",
            "<topology sockets=\"2\" cores=\"6\" threads=\"2\"/>",
        ],
    );
}

#[test]
fn several_io_threads_share_the_queues_of_a_disk() {
    let policy = Policy { disks: 2, iothreads_per_disk: 2, ..Policy::default() };
    let host = topology(TWO_SOCKETS);
    let domain = &files_of(&host, "8", &policy, Target::Libvirt)["vm8-1.xml"];
    has(domain, &["<iothreads>4</iothreads>", "<iothread id=\"3\"/>", "dev=\"vdb\"", "vm8-1-2.raw"]);
    let script = &files_of(&host, "8", &policy, Target::Qemu)["vm8-1.sh"];
    has(script, &["\"iothread-vq-mapping\":[{\"iothread\":\"io3\"},{\"iothread\":\"io4\"}]"]);
}

#[test]
fn a_script_starts_stopped_pins_and_continues() {
    let script = &files("20x2", Target::Qemu)["vm20-2.sh"];
    has(
        script,
        &[
            "-smp 20,sockets=1,cores=10,threads=2",
            "host-nodes=1,policy=bind,prealloc=on",
            "vhost=on,queues=20",
            "mq=on,vectors=42",
            "pin 'CPU 0/KVM' 10\npin 'CPU 1/KVM' 30",
            "  -S &",
        ],
    );
    let (pins, cont) = (script.rfind("pin 'CPU 19/KVM' 39"), script.rfind("\"execute\":\"cont\""));
    assert!(pins.expect("pinned") < cont.expect("continued"));
}

#[test]
fn openstack_gets_a_flavor_for_each_size_and_the_host_s_settings() {
    let found = files("18x2", Target::Openstack);
    let flavors = &found["flavors.sh"];
    assert_eq!(flavors.matches("openstack flavor create").count(), 1);
    has(
        flavors,
        &[
            "hw:cpu_policy=dedicated",
            "hw:cpu_thread_policy=require",
            "hw:numa_nodes=1",
            "hw:mem_page_size=1048576KiB",
            "hw:emulator_threads_policy=share",
            "hw:vif_multiqueue_enabled=true",
        ],
    );
    has(&found["nova.conf"], &["cpu_dedicated_set = 1-9,11-19,21-29,31-39", "cpu_shared_set = 0,10,20,30"]);
    let full = files("20x2", Target::Openstack);
    has(&full["nova.conf"], &["cpu_dedicated_set = 0-39", "cpu_shared_set stays unset"]);
    assert!(!full["flavors.sh"].contains("emulator_threads_policy"));
}

#[test]
fn without_memory_the_answer_says_where_to_get_it() {
    let mut host = topology(TWO_SOCKETS);
    host.nodes.iter_mut().for_each(|node| node.memory_mib = 0);
    let asked = Plan::make(&host, &"2x2@4GiB".parse().unwrap(), &Policy::default()).unwrap_err();
    let plan = Plan::make(&host, &"2x2".parse().unwrap(), &Policy::default()).unwrap();
    let described = emit(&plan, Target::Libvirt, &around()).unwrap_err();
    for error in [asked, described] {
        assert!(error.to_string().contains("`lstopo --of xml` on the host itself"), "{error}");
    }
    let explained = crate::place::text::explain(&plan);
    assert!(explained.contains("40 CPUs, memory unknown\n") && !explained.contains("0MiB"), "{explained}");
}

#[test]
fn what_cannot_be_described_is_refused() {
    let mut host = topology(TWO_SOCKETS);
    let plan =
        |host: &Topology| Plan::make(host, &"4".parse().expect("one"), &Policy::default()).expect("a plan");
    for bridge in ["", "br0; reboot", "<br0>", "a_name_that_is_too_long"] {
        let around = Surroundings { bridge: bridge.into(), ..around() };
        assert!(emit(&plan(&host), Target::Libvirt, &around).is_err(), "{bridge:?} was accepted");
    }
    host.architecture = Some("aarch64".into());
    assert!(emit(&plan(&host), Target::Qemu, &around()).is_err());
    assert!(emit(&plan(&host), Target::Openstack, &around()).is_ok());
    host.architecture = None;
    host.nodes.iter_mut().for_each(|node| node.memory_mib = 0);
    assert!(emit(&plan(&host), Target::Libvirt, &around()).is_err());
}

#[test]
#[ignore = "needs virt-xml-validate: apt-get install libvirt-clients"]
fn domains_are_valid_by_libvirt_s_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = |disks| Policy { disks, ..Policy::default() };
    for (vms, disks) in [("20x2", 1), ("18x2,1x2", 3), ("24", 0), ("25@64GiB", 1), ("38", 2)] {
        let found = files_of(&topology(TWO_SOCKETS), vms, &policy(disks), Target::Libvirt);
        for (name, text) in found.iter().filter(|(name, _)| name.ends_with(".xml")) {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file");
            let run = Command::new("virt-xml-validate").arg(&path).arg("domain").output().expect("it runs");
            assert!(run.status.success(), "{vms}: {}\n{text}", String::from_utf8_lossy(&run.stderr));
        }
    }
}

/// The emitted arguments start a machine of this machine's size; emulated, with a user network, since KVM
/// and tap devices are not everywhere.
#[test]
#[ignore = "needs qemu-system-x86"]
fn qemu_accepts_the_arguments() {
    let folder = tempfile::tempdir().expect("a folder");
    let (disk, socket) = (folder.path().join("disk.raw"), folder.path().join("qmp"));
    std::fs::write(&disk, vec![0; 1 << 20]).expect("a disk");
    let policy =
        Policy { reserve: Reserve::Cores(0), pages: crate::place::Pages::Kib(4), ..Policy::default() };
    let plan = Plan::make(&topology(TWO_CPUS), &"2@128MiB".parse().expect("one"), &policy).expect("a plan");
    let arguments = qemu::arguments(&plan, &plan.machines[0], &around());
    let changed = arguments.iter().filter(|word| *word != "-S").map(|word| match word.as_str() {
        "q35,accel=kvm" => "q35,accel=tcg".to_owned(),
        "host" => "max".to_owned(),
        word if word.starts_with("tap,") => "user,id=n0".to_owned(),
        word if word.starts_with("virtio-net-pci,") => "virtio-net-pci,netdev=n0".to_owned(),
        word if word.starts_with("unix:") => format!("unix:{},server=on,wait=off", socket.display()),
        word => word.replace(&disk_path(&plan.machines[0], 1), &disk.display().to_string()),
    });
    let mut child = Command::new("qemu-system-x86_64")
        .args(changed)
        .args(["-S", "-monitor", "stdio"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("qemu runs");
    use std::io::Write as _;
    child.stdin.take().expect("its monitor").write_all(b"info numa\nquit\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    has(&said, &["1 nodes", "node 0 cpus: 0 1", "node 0 size: 128 MB"]);
}
