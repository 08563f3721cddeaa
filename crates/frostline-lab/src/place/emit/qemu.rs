//! A script that starts QEMU stopped, pins its threads by name, and continues it.
//!
//! QEMU has no option that pins a vCPU. With `debug-threads=on` the threads are called `CPU 3/KVM` and
//! `IO io1`, so the script finds them in /proc before the guest executes anything.

use std::fmt::Write as _;

use super::{
    DiskIo, EmittedFile, Surroundings, disk_path, distance, first_iothread, guest_topology, vcpus_of,
};
use crate::place::list;
use crate::place::plan::{Machine, Plan};

/// Pins the thread called `$1` to the CPU `$2`.
const PIN: &str = r#"pin() {
  for task in /proc/"$qemu"/task/*; do
    if [ "$(cat "$task/comm")" = "$1" ]; then taskset -p -c "$2" "${task##*/}" > /dev/null; return; fi
  done
  echo "no thread $1" >&2
  exit 1
}
"#;

/// The script for `machine`.
pub(super) fn script(plan: &Plan, machine: &Machine, around: &Surroundings) -> EmittedFile {
    let name = &machine.name;
    let mut text = format!(
        "#!/bin/sh\n# {name}: run as root; needs taskset (util-linux) and socat. Before: host.sh, the disks, and a tap:\n\
         # ip tuntap add dev {name} mode tap{}; ip link set {name} master {} up\nset -eu\n\n\
         qmp() {{ printf '{{\"execute\":\"qmp_capabilities\"}}\\n%s\\n' \"$1\" | socat -t 5 - UNIX-CONNECT:/run/{name}.qmp; }}\n\
         rm -f /run/{name}.qmp\n\n",
        if machine.queues > 1 { " multi_queue" } else { "" },
        around.bridge
    );
    // Writing to a String cannot fail.
    let _ = writeln!(text, "qemu-system-x86_64 \\\n  {} &", words(&arguments(plan, machine, around)));
    let _ = writeln!(
        text,
        "qemu=$!\ntrap 'kill \"$qemu\" 2> /dev/null || true' EXIT\n\n\
         # The monitor answers when all threads are made.\n\
         until qmp '{{\"execute\":\"query-status\"}}' 2> /dev/null | grep -q prelaunch; do kill -0 \"$qemu\"; sleep 0.1; done\n\
         taskset -a -p -c {} \"$qemu\" > /dev/null",
        list(&machine.emulator_cpus)
    );
    text.push_str(PIN);
    for pin in machine.cells.iter().flat_map(|cell| &cell.pins) {
        let _ = writeln!(text, "pin 'CPU {}/KVM' {}", pin.vcpu, pin.cpu);
    }
    let _ = writeln!(
        text,
        "\n# Everything is in its place: let the guest run.\nqmp '{{\"execute\":\"cont\"}}' > /dev/null\nwait \"$qemu\""
    );
    EmittedFile { name: format!("{name}.sh"), text }
}

/// QEMU's arguments. The guest is stopped until `cont` is sent.
pub(super) fn arguments(plan: &Plan, machine: &Machine, around: &Surroundings) -> Vec<String> {
    let (sockets, cores, threads) = guest_topology(machine);
    let topoext = threads > 1 && plan.host.cpu_vendor.as_deref() == Some("AuthenticAMD");
    let mut words: Vec<String> = Vec::new();
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    add("-name", format!("{},debug-threads=on", machine.name));
    add("-machine", "q35,accel=kvm".into());
    add("-cpu", if topoext { "host,topoext=on".into() } else { "host".into() });
    add("-smp", format!("{},sockets={sockets},cores={cores},threads={threads}", machine.vcpus));
    add("-m", format!("{}M", machine.memory_mib()));
    for (at, cell) in machine.cells.iter().enumerate() {
        let huge = if machine.page_kib > 4 {
            format!(",hugetlb=on,hugetlbsize={}K", machine.page_kib)
        } else {
            String::new()
        };
        add(
            "-object",
            format!(
                "memory-backend-memfd,id=m{at},size={}M{huge},host-nodes={},policy=bind,prealloc=on,share=on",
                cell.memory_mib, cell.node
            ),
        );
        let cpus: String = vcpus_of(cell).split(',').map(|range| format!(",cpus={range}")).collect();
        add("-numa", format!("node,nodeid={at}{cpus},memdev=m{at}"));
    }
    for (src, from) in machine.cells.iter().enumerate() {
        for (dst, to) in machine.cells.iter().enumerate().filter(|(dst, _)| *dst != src) {
            if let Some(value) = distance(plan, from.node, to.node) {
                add("-numa", format!("dist,src={src},dst={dst},val={value}"));
            }
        }
    }
    for thread in 1..=machine.disks * machine.iothreads_per_disk {
        add("-object", format!("iothread,id=io{thread}"));
    }
    let aio = match around.io {
        DiskIo::Native => "native",
        DiskIo::IoUring => "io_uring",
    };
    for disk in 0..machine.disks {
        let path = disk_path(machine, disk + 1);
        add(
            "-blockdev",
            format!(
                "driver=raw,node-name=d{disk},cache.direct=on,file.driver=file,file.filename={path},file.aio={aio}"
            ),
        );
        add("-device", block(machine, disk));
    }
    add(
        "-netdev",
        format!(
            "tap,id=n0,ifname={},script=no,downscript=no,vhost=on{}",
            machine.name,
            if machine.queues > 1 { format!(",queues={}", machine.queues) } else { String::new() }
        ),
    );
    // A vector for each queue of each direction, one for the control queue, one for changes of settings.
    let queues = machine.queues;
    let mq = if queues > 1 { format!(",mq=on,vectors={}", 2 * queues + 2) } else { String::new() };
    add("-device", format!("virtio-net-pci,netdev=n0{mq}"));
    add("-qmp", format!("unix:/run/{}.qmp,server=on,wait=off", machine.name));
    add("-display", "none".into());
    words.extend(["-nodefaults".into(), "-S".into()]);
    words
}

fn block(machine: &Machine, disk: u32) -> String {
    let queues = machine.vcpus.min(256);
    let first = first_iothread(machine, disk);
    match machine.iothreads_per_disk {
        1 => format!("virtio-blk-pci,drive=d{disk},num-queues={queues},iothread=io{first}"),
        // Since QEMU 9.0; queues are distributed evenly.
        many => {
            let map: Vec<String> =
                (first..first + many).map(|thread| format!("{{\"iothread\":\"io{thread}\"}}")).collect();
            format!(
                "{{\"driver\":\"virtio-blk-pci\",\"drive\":\"d{disk}\",\"num-queues\":{queues},\"iothread-vq-mapping\":[{}]}}",
                map.join(",")
            )
        }
    }
}

/// One option a line, quoted for a shell where needed.
fn words(arguments: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:%+".contains(c);
    let quote = |word: &String| if word.chars().all(plain) { word.clone() } else { format!("'{word}'") };
    let mut text = String::new();
    for (at, word) in arguments.iter().enumerate() {
        if at > 0 {
            text.push_str(if word.starts_with('-') { " \\\n  " } else { " " });
        }
        text.push_str(&quote(word));
    }
    text
}
