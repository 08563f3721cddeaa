//! Memory: NUMA placement, page sizes, and shortage.

use super::cpu::remote_share;
use super::{NOTHING, TWO};
use crate::facts;
use crate::host::Host;
use crate::rule::{Checked, Confidence, Fix, Found, Rule, Severity, Side};
use crate::setting::{Change, Setting, Want};
use crate::tree::Absent;

const VM_SYSCTL: &str = "https://docs.kernel.org/admin-guide/sysctl/vm.html";
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "M01",
        name: "remote-memory",
        title: "Much memory is allocated from another NUMA node",
        reads: &["/sys/devices/system/node/node*/numastat"],
        threshold: "2 or more nodes; other_node over 10 % of a node's allocations between the samples, of at least 10,000",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: TWO,
        explanation: "A node provides memory to processes that run on another node. Remote memory has 1.5 to 2 times the latency and shares the link between sockets.",
        fixes: &[
            Fix::typed(
                Side::Libvirt,
                "Keep the machine within one node",
                &[
                    "<numatune><memory mode='strict' nodeset='{node}'/></numatune>",
                    "<cputune><vcpupin vcpu='0' cpuset='{cpus}'/> ... </cputune>",
                ],
                &["remove both elements"],
            ),
            Fix::typed(
                Side::OpenStack,
                "Do the same for all machines of a flavor",
                &[
                    "openstack flavor set --property hw:numa_nodes=1 --property hw:cpu_policy=dedicated {flavor}",
                ],
                &["openstack flavor unset --property hw:numa_nodes --property hw:cpu_policy {flavor}"],
            ),
            Fix::typed(
                Side::Service,
                "Keep the process within one node",
                &["numactl --cpunodebind={node} --membind={node} {command}"],
                &[],
            ),
        ],
        gain: "Lower and steadier latency of memory; how much depends on the sockets' link: measure it (the published 1.5-1.75 times was mostly false sharing of the test on the unpinned host)",
        verify: "`numastat` and `numastat -p PID`: other_node does not grow",
        sources: &[
            "https://docs.kernel.org/admin-guide/numastat.html",
            "https://libvirt.org/formatdomain.html#numa-node-tuning",
        ],
        check: remote_memory,
    },
    Rule {
        id: "M02",
        name: "remote-device",
        title: "A process is bound to a node and its device is on another",
        reads: &[
            "/sys/class/net/*/device/numa_node",
            "/sys/block/*/device/numa_node",
            "/sys/block/*/device/device/numa_node",
            "/proc/*/status",
        ],
        threshold: "2 or more nodes; a database, search node or virtual machine may run on one node only, and a network or NVMe device is on another",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "Interrupts and DMA of a device on the other socket cross the link between them for every packet or block.",
        fixes: &[
            Fix::typed(
                Side::OpenStack,
                "Place machines near their passed-through device",
                &["openstack flavor set --property hw:pci_numa_affinity_policy=required {flavor}"],
                &["openstack flavor unset --property hw:pci_numa_affinity_policy {flavor}"],
            ),
            Fix::typed(
                Side::Service,
                "Bind the process to the device's node",
                &["NUMAPolicy=bind", "NUMAMask={node}"],
                &["remove the lines"],
            ),
        ],
        gain: "A few microseconds per request; up to a third of a fast NIC's throughput",
        verify: "`lstopo` shows the device beside the process's CPUs",
        sources: &["https://docs.openstack.org/nova/latest/admin/networking.html"],
        check: remote_device,
    },
    Rule {
        id: "M03",
        name: "huge-pages-always",
        title: "Transparent huge pages are forced on a database or JVM",
        reads: &[
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/kernel/mm/transparent_hugepage/defrag",
            "/proc/*/cmdline",
        ],
        threshold: "enabled is always while PostgreSQL, MongoDB, Redis, Oracle or a JVM with a search node runs",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "Allocations may stall to compact memory, the memory of forked and sparse processes grows, and khugepaged moves pages under running queries. Programs that benefit request huge pages themselves (madvise).",
        fixes: &[Fix::here(
            "Use them only for programs that request them (add transparent_hugepage=madvise to the kernel's command line to keep it)",
            &[Change(
                Setting::Choice("/sys/kernel/mm/transparent_hugepage/enabled"),
                Want::Exactly("madvise"),
            )],
        )],
        gain: "Fewer latency spikes; measure it",
        verify: "compact_stall of /proc/vmstat does not grow",
        sources: &[
            "https://docs.kernel.org/admin-guide/mm/transhuge.html",
            "https://www.postgresql.org/docs/current/kernel-resources.html#LINUX-HUGE-PAGES",
        ],
        check: thp,
    },
    Rule {
        id: "M04",
        name: "swapping",
        title: "The host swaps",
        reads: &["/proc/vmstat", "/proc/sys/vm/swappiness"],
        threshold: "pswpin and pswpout together over 10 pages a second",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: TWO,
        explanation: "Memory of processes is written to disk and read back. A JVM's garbage collection touches all of its heap.",
        fixes: &[Fix::here(
            "Prefer to evict file pages",
            &[Change(Setting::Sysctl("vm.swappiness"), Want::Most("1"))],
        )],
        gain: "No pauses of seconds; but find out what uses the memory",
        verify: "columns si and so of `vmstat 1` are 0",
        sources: &[VM_SYSCTL],
        check: swapping,
    },
    Rule {
        id: "M05",
        name: "guest-without-huge-pages",
        title: "A large virtual machine has no huge pages",
        reads: &["/proc/*/cmdline", "/proc/*/status", "/proc/*/smaps_rollup", "/proc/meminfo"],
        threshold: "a QEMU process of over 16 GiB resident, without mem-path or hugetlb, and under half of it in transparent huge pages",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: super::ROOT,
        explanation: "In a virtual machine, every TLB miss walks two page tables. With 2 MiB pages there are 512 times fewer entries.",
        fixes: &[
            Fix::typed(
                Side::OpenStack,
                "Huge pages for machines of this flavor",
                &["openstack flavor set --property hw:mem_page_size=large {flavor}"],
                &["openstack flavor unset --property hw:mem_page_size {flavor}"],
            ),
            Fix::typed(
                Side::Libvirt,
                "Huge pages for this machine",
                &["<memoryBacking><hugepages/></memoryBacking>"],
                &["remove the element"],
            ),
            Fix::here(
                "Reserve them on the host, preferably at boot (hugepages=N)",
                &[Change(Setting::Sysctl("vm.nr_hugepages"), Want::Least("{pages}"))],
            ),
        ],
        gain: "5-15 % for work with random memory accesses",
        verify: "HugePages_Free of /proc/meminfo falls when the machine starts",
        sources: &[
            "https://docs.openstack.org/nova/latest/admin/huge-pages.html",
            "https://docs.kernel.org/admin-guide/mm/hugetlbpage.html",
        ],
        check: guest_pages,
    },
    Rule {
        id: "M06",
        name: "init-on-alloc-with-zfs",
        title: "Pages are zeroed for ZFS unnecessarily",
        reads: &["/proc/cmdline", "/proc/mounts", "/proc/spl/kstat/zfs/arcstats"],
        threshold: "ZFS is mounted, its kernel is Debian's, Ubuntu's or Fedora's, and init_on_alloc=0 is not on the kernel's command line",
        severity: Severity::Low,
        confidence: Confidence::Low,
        needs: NOTHING,
        explanation: "Distributions zero every allocated page, to prevent information leaks. ZFS overwrites its buffers anyway, so zeroing only costs ARC throughput. Turning it off gives up this protection.",
        fixes: &[Fix::typed(
            Side::Service,
            "In /etc/default/grub, then update-grub and reboot; weigh the loss of protection",
            &["GRUB_CMDLINE_LINUX_DEFAULT=\"... init_on_alloc=0\""],
            &["remove the word"],
        )],
        gain: "Reported: up to several tens of percent of ARC reads on some hosts; measure it",
        verify: "`grep init_on_alloc /proc/cmdline`; reads from the ARC before and after",
        sources: &["https://github.com/openzfs/zfs/issues/9910"],
        check: init_on_alloc,
    },
    Rule {
        id: "M07",
        name: "zone-reclaim",
        title: "A node reclaims its own pages instead of using another's",
        reads: &["/proc/sys/vm/zone_reclaim_mode"],
        threshold: "zone_reclaim_mode not 0, with 2 or more nodes",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "The page cache is evicted while the other node has free memory; file servers and databases stall in reclaim.",
        fixes: &[Fix::here(
            "Use the other node first",
            &[Change(Setting::Sysctl("vm.zone_reclaim_mode"), Want::Exactly("0"))],
        )],
        gain: "All memory serves as page cache",
        verify: "pgscan_direct of /proc/vmstat does not grow while memory is free",
        sources: &[VM_SYSCTL],
        check: zone_reclaim,
    },
    Rule {
        id: "M08",
        name: "killed-for-memory",
        title: "The kernel has killed processes because memory ran out",
        reads: &["/proc/vmstat"],
        threshold: "oom_kill above 0; medium if it grows between the samples or is over one a day since boot",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "A process requested memory, and the kernel killed a process to free some. Limits of control groups count, too.",
        fixes: &[Fix::typed(
            Side::Here,
            "Find out which process, and why",
            &["journalctl -k -g 'out of memory|oom-kill' | tail"],
            &[],
        )],
        gain: "Services that stay up",
        verify: "oom_kill of /proc/vmstat does not grow",
        sources: &["https://docs.kernel.org/admin-guide/mm/concepts.html"],
        check: killed,
    },
    Rule {
        id: "M09",
        name: "idle-huge-pages",
        title: "Memory is reserved as huge pages that nothing uses",
        reads: &["/proc/meminfo"],
        threshold: "free and unreserved huge pages hold over 5 % of memory",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "Configured huge pages are taken out of memory, and nothing else can use them.",
        fixes: &[Fix::here(
            "Keep only those in use",
            &[Change(Setting::Sysctl("vm.nr_hugepages"), Want::Most("{used}"))],
        )],
        gain: "The memory becomes available",
        verify: "HugePages_Free of /proc/meminfo",
        sources: &["https://docs.kernel.org/admin-guide/mm/hugetlbpage.html"],
        check: idle_pages,
    },
    Rule {
        id: "M10",
        name: "merging-across-nodes",
        title: "Same-page merging joins memory of different NUMA nodes",
        reads: &["/sys/kernel/mm/ksm/run", "/sys/kernel/mm/ksm/merge_across_nodes"],
        threshold: "KSM runs, merges across nodes, with 2 or more nodes",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "A page shared by machines on two sockets is remote for one of them, and ksmd scans all of memory to find such pages.",
        fixes: &[Fix::here(
            "Unmerge all pages and stop",
            &[Change(Setting::File("/sys/kernel/mm/ksm/run"), Want::Exactly("2"))],
        )],
        gain: "Local memory for pinned machines, at the cost of the memory that was saved",
        verify: "pages_sharing of /sys/kernel/mm/ksm is 0",
        sources: &["https://docs.kernel.org/admin-guide/mm/ksm.html"],
        check: ksm,
    },
    Rule {
        id: "M11",
        name: "memory-errors",
        title: "Memory modules report errors",
        reads: &["/sys/devices/system/edac/mc/mc*/ce_count", "/sys/devices/system/edac/mc/mc*/ue_count"],
        threshold: "uncorrected errors above 0, or over 24 corrected ones a day since boot (or the counter's reset)",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "Each corrected error costs an interrupt. They often precede uncorrected errors, which kill processes or the host.",
        fixes: &[Fix::typed(Side::Host, "Find and replace the module", &["ras-mc-ctl --error-count"], &[])],
        gain: "A host that stays up",
        verify: "the counters do not grow",
        sources: &["https://docs.kernel.org/admin-guide/RAS/main.html"],
        check: errors,
    },
    Rule {
        id: "M12",
        name: "writeback-storms",
        title: "Gigabytes of dirty data may accumulate before they are written",
        reads: &[
            "/proc/sys/vm/dirty_ratio",
            "/proc/sys/vm/dirty_background_ratio",
            "/proc/sys/vm/dirty_background_bytes",
            "/proc/meminfo",
        ],
        threshold: "dirty_background_ratio of memory over 1 GiB and dirty_background_bytes 0, with a database or search node running",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "Ratios refer to all memory, and an fsync may have to wait until everything that has gathered is written.",
        fixes: &[Fix::here(
            "Start writing at 64 MiB, throttle writers at 512 MiB (tuned's profile for PostgreSQL)",
            &[
                Change(Setting::Dirty("vm.dirty_background"), Want::Most("67108864")),
                Change(Setting::Dirty("vm.dirty"), Want::Most("536870912")),
            ],
        )],
        gain: "Checkpoints without stalls of seconds; rewritten pages are written more often",
        verify: "Dirty of /proc/meminfo stays low; p99 of commits during checkpoints",
        sources: &[
            VM_SYSCTL,
            "https://github.com/redhat-performance/tuned/blob/master/profiles/postgresql/tuned.conf",
        ],
        check: writeback,
    },
];

fn remote_memory(host: &Host) -> Checked {
    let nodes = host.nodes()?;
    let mut found = Vec::new();
    for (node, cpus) in nodes.iter().filter(|_| nodes.len() > 1) {
        let (share, pages) = remote_share(host, *node)?;
        if share > 0.1 && pages >= 10_000.0 {
            let says = format!("{:.0} % of its allocations were for processes on other nodes", 100.0 * share);
            let cpus = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            found.push(Found::new(format!("node {node}"), says).with("node", node).with("cpus", cpus));
        }
    }
    Ok(found)
}

fn remote_device(host: &Host) -> Checked {
    let nodes = host.nodes()?;
    if nodes.len() < 2 {
        return Ok(Vec::new());
    }
    let mut devices = Vec::new();
    for pattern in [
        "sys/class/net/*/device/numa_node",
        "sys/block/nvme*/device/numa_node",
        "sys/block/nvme*/device/device/numa_node",
    ] {
        for path in host.tree().glob(pattern)? {
            let node = host.number(&path)?;
            if node >= 0.0 {
                devices.push((
                    path.split('/')
                        .nth(if path.starts_with("sys/block") { 2 } else { 3 })
                        .unwrap_or("")
                        .to_owned(),
                    node as u32,
                ));
            }
        }
    }
    let mut found = Vec::new();
    for process in host.large_servers()? {
        let allowed = match host.status(process.pid, "Cpus_allowed_list") {
            Ok(allowed) => allowed,
            // It has ended.
            Err(e) if e.is_missing() => continue,
            Err(e) => return Err(e),
        };
        let allowed = facts::cpu_list(&allowed);
        let on: Vec<u32> = nodes
            .iter()
            .filter(|(_, cpus)| cpus.iter().any(|c| allowed.binary_search(c).is_ok()))
            .map(|(n, _)| *n)
            .collect();
        let [node] = on[..] else { continue };
        for (device, at) in devices.iter().filter(|(_, at)| *at != node) {
            let says = format!("{} runs on node {node}, {device} is on node {at}", process.name);
            found.push(Found::new(format!("process {}", process.pid), says).with("node", at));
        }
    }
    found.truncate(16);
    Ok(found)
}

fn thp(host: &Host) -> Checked {
    let path = "sys/kernel/mm/transparent_hugepage/enabled";
    let text = host.text(path)?;
    let now = facts::chosen(&text).filter(|now| ["always", "madvise", "never"].contains(now));
    let now = now.ok_or_else(|| Absent::damaged(path, "names no choice"))?;
    if now != "always" {
        return Ok(Vec::new());
    }
    let mut who: Vec<&str> = host
        .running(&["postgres", "mongod", "redis-server", "oracle"])?
        .iter()
        .map(|p| p.name.as_str())
        .collect();
    who.extend(host.search_servers()?.iter().map(|_| "a search node"));
    who.dedup();
    who.truncate(3);
    Ok(if who.is_empty() {
        Vec::new()
    } else {
        vec![Found::new(who.join(", "), "runs with transparent huge pages forced")]
    })
}

fn swapping(host: &Host) -> Checked {
    let rates = host.rates("proc/vmstat")?;
    let (Some(read), Some(written)) = (rates.get("pswpin"), rates.get("pswpout")) else {
        return Err(Absent::damaged("proc/vmstat", "lacks pswpin and pswpout"));
    };
    if read + written <= 10.0 {
        return Ok(Vec::new());
    }
    Ok(vec![Found::new(
        "memory",
        format!("{read:.0} pages a second come back from swap, {written:.0} go there"),
    )])
}

fn guest_pages(host: &Host) -> Checked {
    let mut found = Vec::new();
    for process in host.guests()? {
        let path = format!("proc/{}/smaps_rollup", process.pid);
        if process
            .arguments
            .iter()
            .any(|argument| argument.contains("mem-path") || argument.contains("hugetlb=on"))
        {
            continue;
        }
        let rss = host.status(process.pid, "VmRSS")?;
        let rss =
            rss.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0;
        if rss <= 16.0 * GIB {
            continue;
        }
        let huge = facts::rows(&host.text(&path)?)
            .remove("AnonHugePages")
            .and_then(|row| row.first().copied())
            .unwrap_or(0.0)
            * 1024.0;
        if huge < rss / 2.0 {
            let says =
                format!("{:.0} GiB resident, {:.0} % of it in huge pages", rss / GIB, 100.0 * huge / rss);
            let was = host.meminfo("HugePages_Total").unwrap_or(0.0);
            let pages = was + (rss / 2097152.0).ceil();
            found.push(Found::new(format!("process {}", process.pid), says).with("pages", pages));
        }
    }
    Ok(found)
}

fn init_on_alloc(host: &Host) -> Checked {
    if !host.mounts()?.iter().any(|mount| mount.kind == "zfs") {
        return Ok(Vec::new());
    }
    let line = host.text("proc/cmdline")?;
    let version = host.text("proc/version")?;
    let by_default = ["Debian", "Ubuntu", "Fedora", "Red Hat"].iter().any(|who| version.contains(who));
    if line.contains("init_on_alloc=0") || !(by_default || line.contains("init_on_alloc=1")) {
        return Ok(Vec::new());
    }
    Ok(vec![Found::new("kernel", "zeroes each page that ZFS allocates")])
}

fn zone_reclaim(host: &Host) -> Checked {
    let was = host.number_or("proc/sys/vm/zone_reclaim_mode", 0.0)?;
    if was == 0.0 || host.nodes()?.len() < 2 {
        return Ok(Vec::new());
    }
    Ok(vec![Found::new("memory", format!("zone_reclaim_mode is {was}"))])
}

fn killed(host: &Host) -> Checked {
    let rows = facts::rows(&host.counted("proc/vmstat")?);
    let killed = rows.get("oom_kill").and_then(|row| row.first());
    let killed =
        killed.ok_or_else(|| Absent::damaged("proc/vmstat", "lacks oom_kill (kernels before 4.13 do)"))?;
    if *killed <= 0.0 {
        return Ok(Vec::new());
    }
    let now = host.rates("proc/vmstat").ok().and_then(|rates| rates.get("oom_kill").copied()).unwrap_or(0.0);
    let (when, per_day) = match host.days_up() {
        Ok(days) => (format!("in the {days:.1} days since boot"), killed / days.max(1.0)),
        Err(_) => ("since boot".to_owned(), 0.0),
    };
    let severity = if now > 0.0 || per_day >= 1.0 { Severity::Medium } else { Severity::Low };
    Ok(vec![Found::new("memory", format!("{killed} processes were killed {when}")).severe(severity)])
}

fn idle_pages(host: &Host) -> Checked {
    let (total, free) = (host.meminfo("HugePages_Total")?, host.meminfo("HugePages_Free")?);
    let idle = (free - host.meminfo("HugePages_Rsvd").unwrap_or(0.0)).max(0.0);
    let bytes = idle * host.meminfo("Hugepagesize")?;
    if bytes <= 0.05 * host.memory()? {
        return Ok(Vec::new());
    }
    let says = format!("{idle} of {total} huge pages are free: {:.1} GiB", bytes / GIB);
    Ok(vec![Found::new("memory", says).with("used", total - idle)])
}

fn ksm(host: &Host) -> Checked {
    let runs = host.number_or("sys/kernel/mm/ksm/run", 0.0)? == 1.0;
    if !runs || host.number_or("sys/kernel/mm/ksm/merge_across_nodes", 1.0)? == 0.0 || host.nodes()?.len() < 2
    {
        return Ok(Vec::new());
    }
    let shared = host.number_or("sys/kernel/mm/ksm/pages_sharing", 0.0)?;
    Ok(vec![Found::new("memory", format!("{shared} pages are shared, across nodes, too"))])
}

fn errors(host: &Host) -> Checked {
    let mut found = Vec::new();
    for path in host.tree().glob("sys/devices/system/edac/mc/mc*/ce_count")? {
        let (corrected, lost) =
            (host.number(&path)?, host.number_or(&path.replace("ce_count", "ue_count"), 0.0)?);
        let since =
            host.number(&path.replace("ce_count", "seconds_since_reset")).map(|seconds| seconds / 86_400.0);
        let days = if corrected > 0.0 { since.or_else(|_| host.days_up())? } else { 1.0 };
        if lost > 0.0 || corrected / days.max(1.0) > 24.0 {
            let severity = if lost > 0.0 { Severity::High } else { Severity::Medium };
            let controller = path.split('/').nth(5).unwrap_or("").to_owned();
            found.push(
                Found::new(
                    controller,
                    format!("{corrected} corrected and {lost} uncorrected errors in {days:.1} days"),
                )
                .severe(severity),
            );
        }
    }
    Ok(found)
}

fn writeback(host: &Host) -> Checked {
    let bytes = host.number_or("proc/sys/vm/dirty_background_bytes", 0.0)?;
    let ratio = host.number("proc/sys/vm/dirty_background_ratio")?;
    let gathered = ratio / 100.0 * host.memory()?;
    if bytes > 0.0 || gathered <= GIB {
        return Ok(Vec::new());
    }
    let databases = !host.running(&["postgres", "mysqld", "mongod"])?.is_empty();
    if !databases && host.search_servers()?.is_empty() {
        return Ok(Vec::new());
    }
    let says = format!("{:.1} GiB may gather before writing begins ({ratio} % of memory)", gathered / GIB);
    Ok(vec![Found::new("memory", says)])
}
