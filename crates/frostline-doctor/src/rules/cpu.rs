//! CPU time: stolen, throttled and waiting; CPU frequency and balance.

use super::{NOTHING, TWO};
use crate::facts;
use crate::host::Host;
use crate::rule::{Checked, Confidence, Fix, Found, Rule, Severity, Side};
use crate::setting::{Change, Setting, Want};
use crate::tree::{Absent, Fact, Why};

const PSI: &str = "https://docs.kernel.org/accounting/psi.html";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "C01",
        name: "stolen-time",
        title: "The hypervisor gives this machine's CPUs to others",
        reads: &["/proc/stat"],
        threshold: "steal over 2 % of the time between the samples (since boot if there is one)",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "Stolen time is time in which a virtual CPU was ready but did not run, because more virtual CPUs are active than the host has. A lock held by a CPU that is not running makes all others wait, so a few percent cost much more.",
        fixes: &[
            Fix::typed(
                Side::Host,
                "Run no more virtual CPUs than the host has physical ones; give whole cores to machines that need them",
                &["virsh vcpupin {machine} {vcpu} {cpu}"],
                &["virsh vcpupin {machine} {vcpu} 0-{last}"],
            ),
            Fix::typed(
                Side::OpenStack,
                "Dedicated CPUs for this flavor",
                &["openstack flavor set --property hw:cpu_policy=dedicated {flavor}"],
                &["openstack flavor unset --property hw:cpu_policy {flavor}"],
            ),
            Fix::typed(
                Side::Cloud,
                "Use an instance without CPU credits (not t2, t3, e2-micro)",
                &["aws ec2 modify-instance-attribute --instance-id {instance} --instance-type {larger}"],
                &["aws ec2 modify-instance-attribute --instance-id {instance} --instance-type {was}"],
            ),
        ],
        gain: "At least the stolen share; latencies improve more",
        verify: "column st of `vmstat 1` is 0",
        sources: &["https://man7.org/linux/man-pages/man5/proc_stat.5.html"],
        check: steal,
    },
    Rule {
        id: "C02",
        name: "slow-governor",
        title: "The CPUs' frequency is not governed for performance",
        reads: &["/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"],
        threshold: "a governor other than performance (schedutil counts only as a hint)",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "Powersave and ondemand raise the frequency only after they observe load, which adds latency to short requests. With intel_pstate in active mode, powersave is a dynamic policy and costs less than its name suggests.",
        fixes: &[Fix::here(
            "Use the performance governor",
            &[Change(
                Setting::File("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"),
                Want::Exactly("performance"),
            )],
        )],
        gain: "A few percent of throughput, and more of latency at low load",
        verify: "`grep . /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor`",
        sources: &["https://docs.kernel.org/admin-guide/pm/cpufreq.html"],
        check: governor,
    },
    Rule {
        id: "C03",
        name: "throttled-group",
        title: "A control group is throttled by its CPU quota",
        reads: &["/sys/fs/cgroup/*/cpu.stat", "/sys/fs/cgroup/*/*/cpu.stat", "/sys/fs/cgroup/*/*/*/cpu.stat"],
        threshold: "nr_throttled over 5 % of nr_periods between the samples",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: TWO,
        explanation: "A quota is spent in periods of 100 ms: eight busy threads with a quota of two CPUs run for 25 ms and are then all stopped for 75 ms. The mean looks harmless, but p99 does not.",
        fixes: &[
            Fix::typed(
                Side::Service,
                "A larger quota for the unit",
                &["systemctl set-property {unit} CPUQuota={quota}"],
                &["systemctl set-property {unit} CPUQuota={was}"],
            ),
            Fix::typed(
                Side::Service,
                "Fewer threads: GOMAXPROCS, -XX:ActiveProcessorCount, --threads to the quota; or a cpuset instead of a quota",
                &[],
                &[],
            ),
        ],
        gain: "p99 falls by up to the length of the pause",
        verify: "nr_throttled of cpu.stat does not grow",
        sources: &["https://docs.kernel.org/scheduler/sched-bwc.html"],
        check: throttled,
    },
    Rule {
        id: "C04",
        name: "cpu-pressure",
        title: "Processes wait for a CPU",
        reads: &["/proc/pressure/cpu"],
        threshold: "some avg10 over 10 %",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "For this share of the last ten seconds at least one process was ready but had no CPU.",
        fixes: &[Fix::typed(
            Side::Here,
            "Find the busiest processes, then their groups",
            &["ps -eo pcpu,pid,comm --sort=-pcpu | head", "systemd-cgtop -n 1"],
            &[],
        )],
        gain: "Depends on the process",
        verify: "avg10 of /proc/pressure/cpu",
        sources: &[PSI],
        check: |host| pressure(host, "cpu", "some"),
    },
    Rule {
        id: "C05",
        name: "memory-pressure",
        title: "Processes wait for memory",
        reads: &["/proc/pressure/memory"],
        threshold: "some avg10 over 10 %",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "Processes wait for pages to be freed, read back or swapped in: the working set does not fit.",
        fixes: &[Fix::typed(
            Side::Here,
            "Find the processes that hold it",
            &["ps -eo rss,pid,comm --sort=-rss | head", "systemd-cgtop -m -n 1"],
            &[],
        )],
        gain: "Large: such a host does little else",
        verify: "avg10 of /proc/pressure/memory",
        sources: &[PSI],
        check: |host| pressure(host, "memory", "some"),
    },
    Rule {
        id: "C06",
        name: "io-pressure",
        title: "Everything that runs waits for disks",
        reads: &["/proc/pressure/io"],
        threshold: "full avg10 over 10 %",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "For this share of the last ten seconds all active processes waited for I/O.",
        fixes: &[Fix::typed(
            Side::Here,
            "Find the disk and the processes; then see the rules of that disk (B01-B18)",
            &["iostat -xz 1 3", "pidstat -d 1 3"],
            &[],
        )],
        gain: "Depends on the disk's rule",
        verify: "avg10 of /proc/pressure/io",
        sources: &[PSI],
        check: |host| pressure(host, "io", "full"),
    },
    Rule {
        id: "C07",
        name: "slow-clock",
        title: "Reading the time is a system call or a device access",
        reads: &["/sys/devices/system/clocksource/clocksource0/current_clocksource"],
        threshold: "not tsc, kvm-clock, hyperv_clocksource_tsc_page or arch_sys_counter",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "With hpet, acpi_pm, xen or jiffies each reading of the clock is a system call, and databases read it for every row they time. The kernel abandons tsc if it detects drift: check dmesg before forcing it.",
        fixes: &[Fix::here(
            "Choose the fast clock, if it is available",
            &[Change(
                Setting::File("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
                Want::Exactly("{fast}"),
            )],
        )],
        gain: "A reading costs 20-50 ns instead of a microsecond",
        verify: "`pg_test_timing`, or `perf trace -s` without clock_gettime",
        sources: &[
            "https://docs.kernel.org/timers/timekeeping.html",
            "https://repost.aws/knowledge-center/manage-ec2-linux-clock-source",
        ],
        check: clock,
    },
    Rule {
        id: "C08",
        name: "deep-sleep",
        title: "CPUs may sleep so deeply that waking takes long",
        reads: &[
            "/sys/devices/system/cpu/cpu0/cpuidle/state*/latency",
            "/sys/devices/system/cpu/cpu0/cpuidle/state*/disable",
        ],
        threshold: "an enabled idle state with an exit latency over 100 us",
        severity: Severity::Low,
        confidence: Confidence::Low,
        needs: NOTHING,
        explanation: "A request that finds its CPU asleep waits until it wakes. This matters for single requests at low load, not for throughput. Disabling deep states costs power.",
        fixes: &[Fix::here(
            "Disable the states with over 100 us of latency on all CPUs",
            &[Change(
                Setting::File("/sys/devices/system/cpu/cpu*/cpuidle/{state}/disable"),
                Want::Exactly("1"),
            )],
        )],
        gain: "Tens of microseconds per wake-up",
        verify: "`cpupower idle-info`; p50 of single requests",
        sources: &["https://docs.kernel.org/admin-guide/pm/cpuidle.html"],
        check: idle,
    },
    Rule {
        id: "C09",
        name: "thermal-throttling",
        title: "CPUs are slowed down by heat",
        reads: &["/sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count"],
        threshold: "the counter grows",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: TWO,
        explanation: "The hardware lowers the frequency when a core is too hot: fans, dust, paste, a power limit.",
        fixes: &[Fix::typed(
            Side::Host,
            "Check cooling: sensors and fans",
            &["ipmitool sdr type Temperature", "ipmitool sdr type Fan"],
            &[],
        )],
        gain: "The nominal frequency",
        verify: "the counter does not grow under load",
        sources: &["https://docs.kernel.org/admin-guide/abi-testing.html"],
        check: thermal,
    },
    Rule {
        id: "C10",
        name: "uneven-nodes",
        title: "A busy process may run on all NUMA nodes",
        reads: &["/sys/devices/system/node/node*/cpulist", "/proc/*/status"],
        threshold: "2 or more nodes; a database, search node or virtual machine of over 4 GiB that may run on CPUs of more than one of them, with a remote share of memory over 10 % (M01)",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: TWO,
        explanation: "Memory of the other socket is slower, and the link between the sockets is shared. A process that fits on one node is faster there. For one that does not fit, interleave its memory.",
        fixes: &[Fix::typed(
            Side::Service,
            "In the unit: CPUs and memory of one node",
            &["[Service]", "CPUAffinity=numa", "NUMAPolicy=bind", "NUMAMask={node}"],
            &["remove the lines"],
        )],
        gain: "Lower and steadier latency of memory; measure it",
        verify: "`numastat -p PID`",
        sources: &["https://docs.kernel.org/admin-guide/mm/numa_memory_policy.html"],
        check: spread_process,
    },
];

fn steal(host: &Host) -> Checked {
    let parse = |text: &str| facts::rows(text).remove("cpu").unwrap_or_default();
    let (spent, when): (Vec<f64>, &str) = match host.twice_parsed("proc/stat", parse) {
        Ok((before, after)) => {
            (after.iter().zip(&before).map(|(after, before)| (after - before).max(0.0)).collect(), "")
        }
        Err(absent) if absent.why == Why::Once => (parse(&host.counted("proc/stat")?), " since boot"),
        Err(absent) => return Err(absent),
    };
    // user nice system idle iowait irq softirq steal; guest time is in user.
    let [.., steal] =
        spent.get(..8).ok_or_else(|| Absent::damaged("proc/stat", "has no row cpu with eight columns"))?
    else {
        return Ok(Vec::new());
    };
    let share = 100.0 * steal / spent[..8].iter().sum::<f64>().max(1.0);
    Ok(if share > 2.0 {
        vec![Found::new("CPUs", format!("{share:.1} % of CPU time is stolen{when}"))]
    } else {
        Vec::new()
    })
}

fn governor(host: &Host) -> Checked {
    let mut found: Vec<Found> = Vec::new();
    for path in host.tree().glob("sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")? {
        let was = host.word(&path)?;
        if was != "performance" && found.is_empty() {
            let severity =
                if was == "powersave" || was == "conservative" { Severity::Medium } else { Severity::Low };
            found.push(Found::new("CPUs", format!("the governor is {was}")).severe(severity));
        }
    }
    Ok(found)
}

fn throttled(host: &Host) -> Checked {
    let mut paths = Vec::new();
    for pattern in ["sys/fs/cgroup/*/cpu.stat", "sys/fs/cgroup/*/*/cpu.stat", "sys/fs/cgroup/*/*/*/cpu.stat"]
    {
        paths.extend(host.tree().glob(pattern)?);
    }
    let mut found = Vec::new();
    for path in paths.iter().take(1024) {
        let rates = match host.rates(path) {
            Ok(rates) => rates,
            // Groups come and go; the ones that stay are judged.
            Err(e) if e.is_missing() => continue,
            Err(e) => return Err(e),
        };
        if !["usage_usec", "nr_periods"].iter().any(|name| rates.contains_key(*name)) {
            return Err(Absent::damaged(path, "has no times"));
        }
        let get = |name: &str| rates.get(name).copied().unwrap_or(0.0);
        let (periods, stopped) = (get("nr_periods"), get("nr_throttled"));
        if stopped > 0.0 && stopped > 0.05 * periods {
            let group = path.trim_start_matches("sys/fs/cgroup").trim_end_matches("/cpu.stat");
            let unit = group.rsplit('/').next().unwrap_or("").to_owned();
            let says = format!("stopped in {:.0} % of its periods", 100.0 * stopped / periods.max(stopped));
            found.push(Found::new(group, says).with("unit", unit));
        }
    }
    Ok(found)
}

fn pressure(host: &Host, of: &str, kind: &str) -> Checked {
    let path = format!("proc/pressure/{of}");
    let text = host.counted(&path)?;
    let share =
        facts::pressure(&text, kind).ok_or_else(|| Absent::damaged(&path, &format!("lacks {kind} avg10")))?;
    let who = if kind == "full" { "everything waited" } else { "something waited" };
    let says = format!("{who} for {share:.0} % of the last ten seconds");
    Ok(if share > 10.0 { vec![Found::new(of, says)] } else { Vec::new() })
}

fn clock(host: &Host) -> Checked {
    const FAST: [&str; 5] =
        ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase"];
    let at = "sys/devices/system/clocksource/clocksource0";
    let was = host.word(&format!("{at}/current_clocksource"))?;
    if FAST.contains(&was.as_str()) {
        return Ok(Vec::new());
    }
    let available = host.word(&format!("{at}/available_clocksource")).unwrap_or_default();
    let fast = available.split_whitespace().find(|clock| FAST.contains(clock)).map(str::to_owned);
    let found = Found::new("clock", format!("the clock is {was}"));
    Ok(vec![match fast {
        Some(fast) => found.with("fast", fast),
        None => found.severe(Severity::Low),
    }])
}

fn idle(host: &Host) -> Checked {
    let mut worst: Option<(f64, String)> = None;
    let mut states = Vec::new();
    for path in host.tree().glob("sys/devices/system/cpu/cpu0/cpuidle/state*/latency")? {
        let state = path.trim_end_matches("/latency");
        let latency = host.number(&path)?;
        let off = host.number_or(&format!("{state}/disable"), 0.0)? != 0.0;
        if !off && latency > 100.0 {
            states.extend(state.rsplit('/').next().map(str::to_owned));
            if worst.as_ref().is_none_or(|(most, _)| latency > *most) {
                worst = Some((latency, host.word(&format!("{state}/name")).unwrap_or_default()));
            }
        }
    }
    let one = |(latency, name): (f64, String)| {
        let found = Found::new("CPUs", format!("idle state {name} takes {latency:.0} us to leave"));
        states.into_iter().fold(found, |found, state| found.row(&[("state", state)]))
    };
    Ok(worst.map(one).into_iter().collect())
}

fn thermal(host: &Host) -> Checked {
    let mut hot = Vec::new();
    for path in host.tree().glob("sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count")? {
        if host.rate_of(&path)? > 0.0 {
            hot.extend(path.split('/').nth(4).map(str::to_owned));
        }
    }
    Ok(if hot.is_empty() {
        Vec::new()
    } else {
        vec![Found::new(hot.join(", "), "slowed down by heat between the samples")]
    })
}

/// The part of the pages that a node gave to processes on another one between the samples, and all that it gave.
pub(super) fn remote_share(host: &Host, node: u32) -> Fact<(f64, f64)> {
    let path = format!("sys/devices/system/node/node{node}/numastat");
    let rates = host.rates(&path)?;
    match (rates.get("local_node"), rates.get("other_node")) {
        (Some(local), Some(other)) => Ok((other / (local + other).max(1.0), (local + other) * host.seconds)),
        _ => Err(Absent::damaged(&path, "lacks local_node and other_node")),
    }
}

fn spread_process(host: &Host) -> Checked {
    let nodes = host.nodes()?;
    if nodes.len() < 2 {
        return Ok(Vec::new());
    }
    let mut remote = 0.0f64;
    for node in nodes.keys() {
        let (share, pages) = remote_share(host, *node)?;
        remote = remote.max(if pages >= 10_000.0 { share } else { 0.0 });
    }
    if remote <= 0.1 {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for process in host.large_servers()? {
        let rss = host.status(process.pid, "VmRSS").unwrap_or_default();
        let kib: f64 = rss.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0.0);
        let Ok(allowed) = host.status(process.pid, "Cpus_allowed_list") else { continue };
        let allowed = facts::cpu_list(&allowed);
        let on: Vec<u32> = nodes
            .iter()
            .filter(|(_, cpus)| cpus.iter().any(|c| allowed.binary_search(c).is_ok()))
            .map(|(n, _)| *n)
            .collect();
        if kib > 4.0 * 1024.0 * 1024.0 && on.len() > 1 {
            let gib = kib / 1024.0 / 1024.0;
            let says = format!(
                "{} ({gib:.1} GiB) may run on {} nodes; {:.0} % of memory is remote",
                process.name,
                on.len(),
                100.0 * remote
            );
            found.push(Found::new(format!("process {}", process.pid), says).with("node", on[0]));
        }
    }
    Ok(found)
}
