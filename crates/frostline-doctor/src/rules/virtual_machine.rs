//! Virtual machine definitions: libvirt domains on this host or given as files, OpenStack flavors
//! and images, and the host that runs them.

use super::{NOTHING, ROOT};
use crate::facts::vm::{DiskDevice, Interface, Machine, Offer};
use crate::host::Host;
use crate::rule::{Checked, Confidence, Fix, Found, Rule, Severity, Side};
use crate::tree::Fact;

const LIBVIRT: &str = "https://libvirt.org/formatdomain.html";
const FLAVORS: &str = "https://docs.openstack.org/nova/latest/configuration/extra-specs.html";
const IMAGES: &str = "https://docs.openstack.org/glance/latest/admin/useful-image-properties.html";
const DEFINITIONS: &[&str] = &["/etc/libvirt/qemu/*.xml", "/run/libvirt/qemu/*.xml"];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "V01",
        name: "machine-with-one-network-queue",
        title: "A virtual machine is defined with one network queue",
        reads: &["/etc/libvirt/qemu/*.xml", "/run/libvirt/qemu/*.xml", "flavor and image JSON"],
        threshold: "a virtio interface without queues and 4 or more virtual CPUs; an OpenStack flavor of 4 or more without hw:vif_multiqueue_enabled",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: ROOT,
        explanation: "This is the host's side of rule N02: one virtual CPU handles all packets.",
        fixes: &[
            Fix::typed(
                Side::OpenStack,
                "For all machines of the flavor (an image has hw_vif_multiqueue_enabled)",
                &["openstack flavor set --property hw:vif_multiqueue_enabled=true {flavor}"],
                &["openstack flavor unset --property hw:vif_multiqueue_enabled {flavor}"],
            ),
            Fix::typed(
                Side::Libvirt,
                "As many queues as virtual CPUs",
                &["<driver name='vhost' queues='{queues}'/>"],
                &["<driver name='vhost'/>"],
            ),
        ],
        gain: "In the published case 2.0-2.2 Gb/s became 10-12 Gb/s",
        verify: "in the guest `ethtool -l DEV`",
        sources: &[LIBVIRT, FLAVORS],
        check: network_queues,
    },
    Rule {
        id: "V02",
        name: "unpinned-machine",
        title: "A large virtual machine may run on any CPU and any node's memory",
        reads: DEFINITIONS,
        threshold: "8 or more virtual CPUs without vcpupin or numatune; a flavor of 8 or more without hw:cpu_policy=dedicated",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: ROOT,
        explanation: "The scheduler moves the machine's CPUs between sockets while its memory stays, and other machines share its cores. In the published study, pinning to nodes let two machines each reach 70-90 % of their host.",
        fixes: &[
            Fix::typed(
                Side::OpenStack,
                "Dedicated CPUs within one node",
                &[
                    "openstack flavor set --property hw:cpu_policy=dedicated --property hw:numa_nodes=1 {flavor}",
                ],
                &["openstack flavor unset --property hw:cpu_policy --property hw:numa_nodes {flavor}"],
            ),
            Fix::typed(
                Side::Libvirt,
                "Pin each virtual CPU to a host CPU, with memory of the same node",
                &[
                    "<cputune><vcpupin vcpu='0' cpuset='{cpu}'/> ... </cputune>",
                    "<numatune><memory mode='strict' nodeset='{node}'/></numatune>",
                ],
                &["remove both elements"],
            ),
        ],
        gain: "Steadier latency and throughput; measure it",
        verify: "`virsh vcpuinfo {machine}`; `numastat -p PID`",
        sources: &[LIBVIRT, FLAVORS],
        check: unpinned,
    },
    Rule {
        id: "V03",
        name: "emulator-on-machine-cpus",
        title: "The emulator's own threads run on the machine's pinned CPUs",
        reads: DEFINITIONS,
        threshold: "vcpupin without emulatorpin; dedicated CPUs without hw:emulator_threads_policy",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: ROOT,
        explanation: "The machine's I/O and display threads then take time from its virtual CPUs at random.",
        fixes: &[
            Fix::typed(
                Side::OpenStack,
                "Reserve CPUs for the emulator",
                &["openstack flavor set --property hw:emulator_threads_policy=share {flavor}"],
                &["openstack flavor unset --property hw:emulator_threads_policy {flavor}"],
            ),
            Fix::typed(
                Side::Libvirt,
                "Use a CPU beside the machine's",
                &["<emulatorpin cpuset='{cpu}'/>"],
                &["remove the element"],
            ),
        ],
        gain: "Fewer latency spikes under I/O",
        verify: "`virsh emulatorpin {machine}`",
        sources: &[LIBVIRT, FLAVORS],
        check: emulator,
    },
    Rule {
        id: "V04",
        name: "unsafe-disk-cache",
        title: "A disk's cache mode loses data or wastes speed",
        reads: DEFINITIONS,
        threshold: "cache unsafe (high); writethrough or directsync; io threads with cache none",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: ROOT,
        explanation: "unsafe ignores the guest's flushes: a crash of the host loses acknowledged data and file systems. writethrough makes each write wait. none with native or io_uring bypasses the host's page cache and honours flushes.",
        fixes: &[Fix::typed(
            Side::Libvirt,
            "Use no host cache, and asynchronous requests",
            &["<driver name='qemu' cache='none' io='native'/>"],
            &["<driver name='qemu' cache='{was_cache}' io='{was_io}'/>"],
        )],
        gain: "unsafe: data survives; writethrough: writes as fast as the disk",
        verify: "`virsh dumpxml {machine} | grep cache=`",
        sources: &[LIBVIRT, "https://www.qemu.org/docs/master/system/qemu-block-drivers.html"],
        check: cache_mode,
    },
    Rule {
        id: "V05",
        name: "disk-without-io-thread",
        title: "Disks of a large machine are served by QEMU's main loop",
        reads: DEFINITIONS,
        threshold: "a virtio disk without iothread and 4 or more virtual CPUs",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: ROOT,
        explanation: "One thread serves all disks, the console and the monitor. With a thread for each disk, or several with iothread-vq-mapping since QEMU 9.0, disks work in parallel.",
        fixes: &[Fix::typed(
            Side::Libvirt,
            "Use a thread for each disk",
            &["<iothreads>1</iothreads>", "<driver name='qemu' iothread='1' queues='{queues}'/>"],
            &["remove iothreads and iothread="],
        )],
        gain: "Tens of percent of IOPS with several busy disks",
        verify: "`virsh iothreadinfo {machine}`",
        sources: &[LIBVIRT],
        check: io_thread,
    },
    Rule {
        id: "V06",
        name: "emulated-devices-defined",
        title: "A machine is defined with emulated disks or network devices",
        reads: &["/etc/libvirt/qemu/*.xml", "/run/libvirt/qemu/*.xml", "image JSON"],
        threshold: "a disk on ide or sata, an interface of model e1000, rtl8139 or unspecified; image hw_disk_bus ide or sata, hw_vif_model e1000 or rtl8139",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: ROOT,
        explanation: "Every access to an emulated device stops the virtual CPU; virtio uses a shared ring in memory instead.",
        fixes: &[
            Fix::typed(
                Side::OpenStack,
                "Use virtio for machines of the image",
                &["openstack image set --property hw_disk_bus=virtio --property hw_vif_model=virtio {image}"],
                &["openstack image unset --property hw_disk_bus --property hw_vif_model {image}"],
            ),
            Fix::typed(
                Side::Libvirt,
                "Use virtio",
                &["<target dev='vda' bus='virtio'/>", "<model type='virtio'/>"],
                &["the former bus and model"],
            ),
        ],
        gain: "Several times the throughput",
        verify: "`lsblk -o NAME,TRAN`, `ethtool -i DEV` in the guest",
        sources: &[LIBVIRT, IMAGES],
        check: emulated,
    },
    Rule {
        id: "V07",
        name: "narrow-cpu-model",
        title: "A machine does not see the host's CPU",
        reads: DEFINITIONS,
        threshold: "no cpu mode, or custom",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: ROOT,
        explanation: "A generic model lacks AVX, AES and CRC instructions that checksums, compression and TLS use. With the host's CPU, live migration needs identical hosts.",
        fixes: &[Fix::typed(
            Side::Libvirt,
            "Expose the host's CPU",
            &["<cpu mode='host-passthrough'/>"],
            &["<cpu mode='{was}'/>"],
        )],
        gain: "Several times for AES and CRC32, little for other work",
        verify: "flags of /proc/cpuinfo in the guest: aes, avx2, pclmulqdq",
        sources: &[LIBVIRT],
        check: cpu_model,
    },
    Rule {
        id: "V08",
        name: "large-machine-without-huge-pages",
        title: "A large machine is defined without huge pages",
        reads: DEFINITIONS,
        threshold: "16 GiB or more without memoryBacking hugepages; a flavor without hw:mem_page_size",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: ROOT,
        explanation: "See M05, which examines the running machine: transparent huge pages may already provide most of the gain.",
        fixes: &[
            Fix::typed(
                Side::OpenStack,
                "Huge pages, which the hosts must have reserved",
                &["openstack flavor set --property hw:mem_page_size=large {flavor}"],
                &["openstack flavor unset --property hw:mem_page_size {flavor}"],
            ),
            Fix::typed(
                Side::Libvirt,
                "Huge pages",
                &["<memoryBacking><hugepages/></memoryBacking>"],
                &["remove the element"],
            ),
        ],
        gain: "5-15 % for work with random memory accesses",
        verify: "HugePages_Free of the host falls when the machine starts",
        sources: &["https://docs.openstack.org/nova/latest/admin/huge-pages.html"],
        check: huge_pages,
    },
    Rule {
        id: "V09",
        name: "oversubscribed-host",
        title: "Virtual CPUs outnumber the host's",
        reads: &["/etc/libvirt/qemu/*.xml", "/run/libvirt/qemu/*.xml", "/sys/devices/system/cpu/online"],
        threshold: "the sum of virtual CPUs of machines over the host's CPUs; medium above twice",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: ROOT,
        explanation: "This is fine while machines are idle. As soon as they are busy at the same time, they steal CPU time from each other (C01 in the guests). The published policy: two machines of 20 CPUs on a host of 40, so that no machines share a core.",
        fixes: &[Fix::typed(
            Side::Host,
            "Move machines to other hosts, or give the important ones dedicated cores (V02)",
            &["virsh migrate --live {machine} qemu+ssh://{other}/system"],
            &[],
        )],
        gain: "No stolen time",
        verify: "column st of `vmstat 1` in the guests",
        sources: &["https://docs.openstack.org/nova/latest/admin/cpu-topologies.html"],
        check: oversubscribed,
    },
    Rule {
        id: "V10",
        name: "no-vhost",
        title: "Packets of a machine go through QEMU instead of the kernel",
        reads: &["/proc/*/cmdline"],
        threshold: "a QEMU process with a tap device and without vhost",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "vhost moves packets between the tap device and the machine in a kernel thread, without waking QEMU for each batch.",
        fixes: &[
            Fix::typed(
                Side::Service,
                "Load the module; libvirt then uses it for machines that start",
                &["modprobe vhost_net"],
                &["modprobe -r vhost_net"],
            ),
            Fix::typed(Side::Host, "On QEMU's command line", &["-netdev tap,vhost=on,..."], &["vhost=off"]),
        ],
        gain: "About twice the packets, half the latency",
        verify: "threads vhost-PID in `ps -eL`",
        sources: &["https://www.qemu.org/docs/master/system/devices/net.html"],
        check: no_vhost,
    },
    Rule {
        id: "V11",
        name: "hpet-in-machine",
        title: "A machine has a slow timer",
        reads: DEFINITIONS,
        threshold: "timer hpet not present='no'",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: ROOT,
        explanation: "Each access to an emulated HPET exits from the virtual CPU; guests use it only if nothing better is available, but some poll it.",
        fixes: &[Fix::typed(
            Side::Libvirt,
            "Remove the timer",
            &["<clock offset='utc'><timer name='hpet' present='no'/></clock>"],
            &["<timer name='hpet' present='yes'/>"],
        )],
        gain: "About one percent of a host CPU for each idle machine",
        verify: "C07 in the guest",
        sources: &[LIBVIRT],
        check: hpet,
    },
];

/// Findings of every machine for which `says` says something.
fn each(host: &Host, says: impl Fn(&Machine) -> Option<Found>) -> Fact<Vec<Found>> {
    Ok(host
        .machines()?
        .iter()
        .filter_map(|(_, machine)| Some(says(machine)?.with("machine", &machine.name)))
        .collect())
}

/// The same for flavors.
fn each_flavor(host: &Host, says: impl Fn(&Offer) -> Option<Found>) -> Fact<Vec<Found>> {
    let flavors = host.offers()?;
    Ok(flavors
        .iter()
        .filter(|o| !o.is_image)
        .filter_map(|o| Some(says(o)?.with("flavor", &o.name)))
        .collect())
}

fn network_queues(host: &Host) -> Checked {
    let single = |i: &&Interface| i.model == "virtio" && i.queues < 2 && !i.passed_through;
    let mut found = each(host, |machine| {
        let single = machine.interfaces.iter().filter(single).count();
        let interfaces = frostline_show::show_count(single as u64, "interface");
        let says = format!("{interfaces} with one queue for {} virtual CPUs", machine.vcpus);
        (single > 0 && machine.vcpus >= 4)
            .then(|| Found::new(&machine.name, says).with("queues", machine.vcpus))
    })?;
    found.extend(each_flavor(host, |flavor| {
        let on = flavor.is_true(&["hw:vif_multiqueue_enabled"]);
        let says = format!("machines of {} virtual CPUs get one network queue", flavor.vcpus);
        (!on && flavor.vcpus >= 4).then(|| Found::new(&flavor.name, says).with("queues", flavor.vcpus))
    })?);
    Ok(found)
}

fn unpinned(host: &Host) -> Checked {
    let mut found = each(host, |machine| {
        let pinned = machine.pinned_vcpus > 0 || machine.numa_tuned;
        let says = format!("{} virtual CPUs, none pinned, memory of any node", machine.vcpus);
        (!pinned && machine.vcpus >= 8).then(|| Found::new(&machine.name, says))
    })?;
    found.extend(each_flavor(host, |flavor| {
        let dedicated = flavor.get("hw:cpu_policy").is_some_and(|policy| policy == "dedicated");
        (!dedicated && flavor.vcpus >= 8)
            .then(|| Found::new(&flavor.name, format!("{} virtual CPUs share cores", flavor.vcpus)))
    })?);
    Ok(found)
}

fn emulator(host: &Host) -> Checked {
    let mut found = each(host, |machine| {
        let loose = machine.pinned_vcpus > 0 && !machine.emulator_pinned;
        loose.then(|| Found::new(&machine.name, "virtual CPUs are pinned, the emulator is not"))
    })?;
    found.extend(each_flavor(host, |flavor| {
        let dedicated = flavor.get("hw:cpu_policy").is_some_and(|policy| policy == "dedicated");
        let loose = dedicated && flavor.get("hw:emulator_threads_policy").is_none();
        loose.then(|| Found::new(&flavor.name, "CPUs are dedicated, the emulator runs on them"))
    })?);
    Ok(found)
}

/// Findings of every disk that is no CD for which `says` says something.
fn each_disk(
    host: &Host,
    says: impl Fn(&Machine, &DiskDevice) -> Option<(Severity, String)>,
) -> Fact<Vec<Found>> {
    let mut found = Vec::new();
    for (_, machine) in host.machines()? {
        for disk in machine.disks.iter().filter(|disk| !disk.is_cdrom) {
            if let Some((severity, says)) = says(machine, disk) {
                let one = Found::new(format!("{} {}", machine.name, disk.target), says).severe(severity);
                let one = one.with("machine", &machine.name).with("queues", machine.vcpus);
                found.push(one.with("was_cache", &disk.cache).with("was_io", &disk.io));
            }
        }
    }
    Ok(found)
}

fn cache_mode(host: &Host) -> Checked {
    each_disk(host, |_, disk| match (disk.cache.as_str(), disk.io.as_str()) {
        ("unsafe", _) => Some((Severity::High, "cache=unsafe ignores the guest's flushes".to_owned())),
        (mode @ ("writethrough" | "directsync"), _) => {
            Some((Severity::Medium, format!("cache={mode} waits for each write")))
        }
        ("none", "threads") => Some((Severity::Low, "cache=none with a pool of threads".to_owned())),
        _ => None,
    })
}

fn io_thread(host: &Host) -> Checked {
    each_disk(host, |machine, disk| {
        let main = disk.bus == "virtio" && !disk.io_thread && machine.vcpus >= 4;
        main.then(|| (Severity::Low, "is served by the main loop".to_owned()))
    })
}

fn emulated(host: &Host) -> Checked {
    let mut found = each_disk(host, |_, disk| {
        matches!(disk.bus.as_str(), "ide" | "sata").then(|| (Severity::High, format!("is on {}", disk.bus)))
    })?;
    found.extend(each(host, |machine| {
        let slow = |i: &&Interface| {
            !i.passed_through && matches!(i.model.as_str(), "" | "e1000" | "e1000e" | "rtl8139" | "ne2k_pci")
        };
        let first = machine.interfaces.iter().find(slow)?;
        let model = if first.model.is_empty() { "rtl8139, since none is said" } else { &first.model };
        Some(Found::new(&machine.name, format!("has a network device of model {model}")))
    })?);
    for image in host.offers()?.iter().filter(|offer| offer.is_image) {
        for (name, slow) in [("hw_disk_bus", ["ide", "sata"]), ("hw_vif_model", ["e1000", "rtl8139"])] {
            if let Some(value) = image.get(name).filter(|value| slow.contains(value)) {
                found.push(Found::new(&image.name, format!("{name} is {value}")).with("image", &image.name));
            }
        }
    }
    Ok(found)
}

fn cpu_model(host: &Host) -> Checked {
    each(host, |machine| {
        let narrow = matches!(machine.cpu_mode.as_str(), "" | "custom");
        let mode = if machine.cpu_mode.is_empty() { "not said: qemu64" } else { "custom" };
        narrow.then(|| Found::new(&machine.name, format!("the CPU model is {mode}")).with("was", "custom"))
    })
}

fn huge_pages(host: &Host) -> Checked {
    const LARGE_MIB: f64 = 16.0 * 1024.0;
    let mut found = each(host, |machine| {
        let small_pages = machine.memory_mib >= LARGE_MIB && !machine.huge_pages;
        small_pages.then(|| {
            Found::new(&machine.name, format!("{:.0} GiB in small pages", machine.memory_mib / 1024.0))
        })
    })?;
    found.extend(each_flavor(host, |flavor| {
        let small_pages = flavor.ram_mib >= LARGE_MIB && flavor.get("hw:mem_page_size").is_none();
        small_pages
            .then(|| Found::new(&flavor.name, format!("{:.0} GiB in small pages", flavor.ram_mib / 1024.0)))
    })?);
    Ok(found)
}

fn oversubscribed(host: &Host) -> Checked {
    let machines = host.machines()?;
    if machines.is_empty() {
        return Ok(Vec::new());
    }
    // A definition that was given alone says nothing of a host.
    if !host.tree().has("proc") && !host.tree().has("sys") {
        return Ok(Vec::new());
    }
    let cpus = host.cpus()?.len();
    let sum: u64 = machines.iter().map(|(_, machine)| u64::from(machine.vcpus)).sum();
    if sum <= cpus as u64 {
        return Ok(Vec::new());
    }
    let severity = if sum > 2 * cpus as u64 { Severity::Medium } else { Severity::Low };
    let says = format!("{} machines have {sum} virtual CPUs, the host {cpus}", machines.len());
    Ok(vec![Found::new("host", says).severe(severity)])
}

fn no_vhost(host: &Host) -> Checked {
    let mut found = Vec::new();
    for process in host.guests()? {
        let tap = |argument: &&String| argument.starts_with("tap,") || argument.contains("\"type\":\"tap\"");
        let slow = |argument: &&String| {
            !argument.contains("vhost=on")
                && !argument.contains("vhostfd")
                && !argument.contains("\"vhost\":true")
        };
        let count = process.arguments.iter().filter(tap).filter(slow).count();
        if count > 0 {
            found.push(Found::new(
                format!("process {}", process.pid),
                format!("{count} tap devices without vhost"),
            ));
        }
    }
    Ok(found)
}

fn hpet(host: &Host) -> Checked {
    each(host, |machine| (machine.hpet == Some(true)).then(|| Found::new(&machine.name, "has an HPET")))
}
