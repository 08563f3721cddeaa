//! Interrupts, queues and the path of a packet through the kernel.

use super::{NOTHING, TWO};
use crate::facts::{self, effective};
use crate::host::{Cloud, Host, Nic};
use crate::rule::{Checked, Confidence, Fix, Found, Rule, Severity, Side};
use crate::setting::{Change, Setting, Want};
use crate::tree::{Absent, Why};

const SCALING: &str = "https://docs.kernel.org/networking/scaling.html";
const ETHTOOL: &str = "https://man7.org/linux/man-pages/man8/ethtool.8.html";
const NET_SYSCTL: &str = "https://docs.kernel.org/admin-guide/sysctl/net.html";
const NOVA_MULTIQUEUE: &str =
    "https://specs.openstack.org/openstack/nova-specs/specs/liberty/implemented/libvirt-virtiomq.html";
const LIBVIRT_DOMAIN: &str = "https://libvirt.org/formatdomain.html#network-interfaces";

/// CPUs from which one queue is too few.
const MANY_CPUS: usize = 4;
/// Interrupts a second from which their place matters.
const BUSY_PER_SECOND: f64 = 5000.0;

/// Steers packets of a device's only queue to all CPUs.
const STEER: &[Change] =
    &[Change(Setting::File("/sys/class/net/{dev}/queues/rx-0/rps_cpus"), Want::Exactly("{mask}"))];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "N01",
        name: "interrupt-imbalance",
        title: "One device interrupts few of the CPUs that it could",
        reads: &["/proc/interrupts", "/sys/class/net/*"],
        threshold: "effective CPUs 1/sum(p^2) of a device with several receive queues below a quarter of its queues (at most the CPUs), at over 5,000 interrupts a second, or a million since boot if there is one sample",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "Each receive queue interrupts one CPU. When few CPUs take nearly all interrupts of a device with many queues, they saturate while the others idle. Few flows (one client, one tunnel) look the same: queues are chosen by a hash of addresses and ports.",
        fixes: &[
            Fix::typed(Side::Here, "First count the flows", &["ss -tn state established | wc -l"], &[]),
            Fix::typed(
                Side::Service,
                "Let irqbalance spread the interrupts, if it does not run",
                &["systemctl enable --now irqbalance"],
                &["systemctl disable --now irqbalance"],
            ),
        ],
        gain: "Up to the number of queues times the throughput, if softirq time is the bottleneck",
        verify: "the doctor's effective CPUs of the device; `mpstat -I SCPU -P ALL 1`",
        sources: &[SCALING],
        check: imbalance,
    },
    Rule {
        id: "N02",
        name: "single-queue-nic",
        title: "A virtual network device has one queue for many CPUs",
        reads: &["/proc/interrupts", "/sys/class/net/*/queues"],
        threshold: "one receive queue, a virtio_net device, 4 or more CPUs",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "libvirt and OpenStack give a machine one pair of queues by default, so that one virtual CPU handles every received packet. Throughput is limited by that CPU (2 Gb/s on a host with 25) while the others idle. Severity is high if that CPU is already busy with it.",
        fixes: &[
            Fix::typed(
                Side::OpenStack,
                "Give machines of this flavor as many queues as CPUs (or hw_vif_multiqueue_enabled on the image), then stop and start the server",
                &["openstack flavor set --property hw:vif_multiqueue_enabled=true {flavor}"],
                &["openstack flavor unset --property hw:vif_multiqueue_enabled {flavor}"],
            ),
            Fix::typed(
                Side::Libvirt,
                "Several queues on the host (virsh edit, then stop and start)",
                &[
                    "<interface type='bridge'> ... <model type='virtio'/> <driver name='vhost' queues='{queues}'/> </interface>",
                ],
                &["<driver name='vhost'/>"],
            ),
            Fix::here(
                "Then enable them in the guest; recent drivers do so automatically",
                &[Change(Setting::Channels, Want::Least("{queues}"))],
            ),
            Fix::here("If the host cannot be changed: spread packets in software (RPS)", STEER),
        ],
        gain: "In the published case 2.0-2.2 Gb/s became 10-12 Gb/s per machine on 25 GbE",
        verify: "`ls -d /sys/class/net/DEV/queues/rx-*` lists several; `iperf3 -c HOST -P 12` before and after",
        sources: &[NOVA_MULTIQUEUE, LIBVIRT_DOMAIN, SCALING],
        check: single_queue,
    },
    Rule {
        id: "N03",
        name: "queues-not-enabled",
        title: "A network device has more queues than are in use",
        reads: &["ethtool -l", "/proc/interrupts", "/sys/class/net/*/queues"],
        threshold: "queues in use fewer than the device's maximum and than the CPUs",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "The device offers more queues than the driver uses. Drivers of old guests start with one, whatever the host offers.",
        fixes: &[Fix::here(
            "Enable them (packets in flight may be lost briefly)",
            &[Change(Setting::Channels, Want::Least("{queues}"))],
        )],
        gain: "Up to the ratio of queues, if softirq time is the bottleneck",
        verify: "`ethtool -l DEV`; the effective CPUs of N01",
        sources: &[ETHTOOL, NOVA_MULTIQUEUE],
        check: queues_not_enabled,
    },
    Rule {
        id: "N04",
        name: "stacked-interrupts",
        title: "Several queues of one device interrupt the same CPU",
        reads: &["/proc/interrupts", "/proc/irq/*/effective_affinity_list", "/proc/irq/*/smp_affinity_list"],
        threshold: "2 or more receive queues allowed on exactly one CPU, the same for all, while there are others",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "Queues only help if they interrupt different CPUs. After manual pinning, restoring a machine or adding CPUs, all may be on one.",
        fixes: &[
            Fix::here(
                "Give each its own CPU",
                &[Change(Setting::File("/proc/irq/{irq}/smp_affinity_list"), Want::Exactly("{cpu}"))],
            ),
            Fix::typed(
                Side::Service,
                "Or let irqbalance spread them, if it does not run",
                &["systemctl enable --now irqbalance"],
                &["systemctl disable --now irqbalance"],
            ),
        ],
        gain: "Up to the number of queues, if softirq time is the bottleneck",
        verify: "`grep . /proc/irq/*/effective_affinity_list`",
        sources: &["https://docs.kernel.org/core-api/irq/irq-affinity.html"],
        check: stacked,
    },
    Rule {
        id: "N05",
        name: "no-packet-steering",
        title: "A single-queue device has no packet steering",
        reads: &[
            "/sys/class/net/*/queues/rx-0/rps_cpus",
            "/sys/class/net/*/statistics/rx_packets",
            "/proc/net/softnet_stat",
            "/proc/softirqs",
            "/proc/stat",
        ],
        threshold: "one receive queue, rps_cpus 0, 2 or more CPUs, over 5,000 interrupts a second, or over 10,000 packets a second while one CPU has over 60 % of all received packets and is over 10 % in softirq; low below 25 %",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: TWO,
        explanation: "Receive packet steering (RPS) hands packets of a queue to other CPUs by their flow. It is off by default, and meant for devices that cannot have more than one queue, such as veth pairs of containers.",
        fixes: &[Fix::here("Spread packets over the CPUs (then see N12)", STEER)],
        gain: "Several times the packets, until the interrupted CPU or memory is the bottleneck",
        verify: "the NET_RX rows of /proc/softirqs grow on all CPUs",
        sources: &[SCALING],
        check: no_steering,
    },
    Rule {
        id: "N06",
        name: "softirq-saturation",
        title: "One CPU is saturated by received packets",
        reads: &["/proc/net/softnet_stat", "/proc/softirqs", "/proc/stat"],
        threshold: "one CPU has over 60 % of received packets (of NET_RX if they are not counted) and spends over 80 % of its time in softirq, with 2 or more CPUs",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: TWO,
        explanation: "Packets are handled in softirq. When one CPU handles all of them and is saturated, throughput cannot grow and processes on that CPU wait. `top` shows an idle machine with one busy CPU.",
        fixes: &[Fix::typed(
            Side::Service,
            "Use several queues (N02, N03, N24), on different CPUs (N04); otherwise packet steering (N05)",
            &[],
            &[],
        )],
        gain: "Up to the number of CPUs",
        verify: "`mpstat -P ALL 1`: %soft is even",
        sources: &[SCALING],
        check: saturation,
    },
    Rule {
        id: "N07",
        name: "backlog-drops",
        title: "Packets are dropped or delayed before the stack processes them",
        reads: &["/proc/net/softnet_stat"],
        threshold: "drops (column 2) grow, or the budget runs out (column 3) over 100 times a second",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: TWO,
        explanation: "Each CPU has a queue of packets to handle and a budget for one round. Drops mean that the queue was full. An exhausted budget means that packets waited for another round.",
        fixes: &[Fix::here(
            "Use a longer queue and a larger budget",
            &[
                Change(Setting::Sysctl("net.core.netdev_max_backlog"), Want::Least("{backlog}")),
                Change(Setting::Sysctl("net.core.netdev_budget"), Want::Least("{budget}")),
                Change(Setting::Sysctl("net.core.netdev_budget_usecs"), Want::Least("{usecs}")),
            ],
        )],
        gain: "No retransmissions of packets dropped here; if one CPU is saturated, see N06 first",
        verify: "columns 2 and 3 of /proc/net/softnet_stat do not grow",
        sources: &[NET_SYSCTL],
        check: backlog,
    },
    Rule {
        id: "N08",
        name: "ring-overrun",
        title: "A network device drops packets because its ring is full",
        reads: &[
            "/sys/class/net/*/statistics/rx_missed_errors",
            "/sys/class/net/*/statistics/rx_fifo_errors",
            "ethtool -g",
        ],
        threshold: "rx_missed_errors or rx_fifo_errors grow",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: TWO,
        explanation: "The device had no free buffer when packets arrived: the CPU that empties the ring is late, or the ring is smaller than the maximum.",
        fixes: &[Fix::here(
            "Use the largest ring of the device (see ethtool -g)",
            &[Change(Setting::Ring, Want::Least("{ring}"))],
        )],
        gain: "Absorbs bursts; latency grows a little",
        verify: "the counters of `ethtool -S DEV | grep -i -e miss -e drop` do not grow",
        sources: &[ETHTOOL],
        check: ring,
    },
    Rule {
        id: "N09",
        name: "irqbalance-against-pins",
        title: "irqbalance moves interrupts on a host with pinned CPUs",
        reads: &[
            "/proc/*/cmdline",
            "/proc/cmdline",
            "/etc/libvirt/qemu/*.xml",
            "/etc/default/irqbalance",
            "/etc/sysconfig/irqbalance",
        ],
        threshold: "irqbalance runs without banned CPUs, and isolcpus, nohz_full or pinned virtual machines are in use",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: ROOT_FOR_XML,
        explanation: "irqbalance moves interrupts to CPUs that are reserved for machines or threads, and overrides affinities that were set manually.",
        fixes: &[Fix::typed(
            Side::Service,
            "Ban those CPUs in /etc/default/irqbalance or /etc/sysconfig/irqbalance",
            &["IRQBALANCE_BANNED_CPULIST={pinned}"],
            &["remove the line"],
        )],
        gain: "Steady latency on the pinned CPUs",
        verify: "their columns in /proc/interrupts do not grow",
        sources: &[
            "https://github.com/Irqbalance/irqbalance/issues/252",
            "https://manpages.debian.org/stable/irqbalance/irqbalance.1.en.html",
        ],
        check: irqbalance,
    },
    Rule {
        id: "N10",
        name: "offloads-off",
        title: "Segmentation or receive offload of a network device is off",
        reads: &["ethtool -k"],
        threshold: "tcp-segmentation-offload or generic-receive-offload is off and not fixed",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "Without offloads the stack handles 1,500-byte packets one by one instead of 64 KiB at once. Offloads are sometimes turned off because of a bug that has long been fixed.",
        fixes: &[Fix::here("Turn them on", &[Change(Setting::Offload, Want::Exactly("on"))])],
        gain: "Less CPU for each byte: often several times",
        verify: "`ethtool -k DEV`; CPU time at the same throughput",
        sources: &["https://docs.kernel.org/networking/segmentation-offloads.html"],
        check: offloads,
    },
    Rule {
        id: "N11",
        name: "mtu-mismatch",
        title: "A bridge and its ports, or a fast link, have different frame sizes",
        reads: &[
            "/sys/class/net/*/mtu",
            "/sys/class/net/*/master",
            "/sys/class/net/*/bridge/stp_state",
            "/sys/class/net/*/bonding/mode",
        ],
        threshold: "a port's MTU differs from its bridge's or bond's",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "A bridge silently drops frames larger than the smallest MTU on the path: connections open and then hang.",
        fixes: &[Fix::here(
            "Set the same size on all of them",
            &[Change(Setting::File("/sys/class/net/{dev}/mtu"), Want::Exactly("{mtu}"))],
        )],
        gain: "No hanging connections",
        verify: "`ping -M do -s SIZE HOST` with the size less 28 bytes",
        sources: &["https://man7.org/linux/man-pages/man8/ip-link.8.html"],
        check: mtu,
    },
    Rule {
        id: "N12",
        name: "flow-steering-without-table",
        title: "Packet steering is on but flows are not steered to their readers",
        reads: &["/sys/class/net/*/queues/rx-0/rps_cpus", "/proc/sys/net/core/rps_sock_flow_entries"],
        threshold: "rps_cpus set and rps_sock_flow_entries 0",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "RPS alone spreads flows by a hash. Receive flow steering (RFS) sends them to the CPU where the process reads, which keeps data in its cache.",
        fixes: &[Fix::here(
            "Turn RFS on",
            &[
                Change(Setting::Sysctl("net.core.rps_sock_flow_entries"), Want::Least("32768")),
                Change(Setting::File("/sys/class/net/{dev}/queues/rx-0/rps_flow_cnt"), Want::Least("32768")),
            ],
        )],
        gain: "Lower latency for request and response traffic; measure it",
        verify: "p99 latency of the service",
        sources: &[SCALING],
        check: no_flow_table,
    },
    Rule {
        id: "N13",
        name: "transmit-steering",
        title: "Several send queues are all used from every CPU",
        reads: &["/sys/class/net/*/queues/tx-*/xps_cpus"],
        threshold: "2 or more send queues, at most one a CPU, all xps_cpus 0",
        severity: Severity::Low,
        confidence: Confidence::Low,
        needs: NOTHING,
        explanation: "Transmit packet steering (XPS) gives each CPU its own send queue, so that CPUs do not contend for a lock and completions return to the CPU that sent.",
        fixes: &[Fix::here(
            "Assign a set of CPUs to each queue",
            &[Change(Setting::File("/sys/class/net/{dev}/queues/{queue}/xps_cpus"), Want::Exactly("{mask}"))],
        )],
        gain: "A few percent of CPU at high packet rates",
        verify: "`perf top`: less time in the queue's lock",
        sources: &[SCALING],
        check: transmit_steering,
    },
    Rule {
        id: "N14",
        name: "listen-overflow",
        title: "Connections are refused because a listen queue is full",
        reads: &["/proc/net/netstat"],
        threshold: "TcpExt ListenOverflows grows",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: TWO,
        explanation: "A service accepts connections more slowly than they arrive. The kernel drops the handshakes, and clients wait a second or more before they retry.",
        fixes: &[
            Fix::here(
                "Allow longer queues",
                &[Change(Setting::Sysctl("net.core.somaxconn"), Want::Least("8192"))],
            ),
            Fix::typed(
                Side::Service,
                "Request a longer queue in the service (backlog= of nginx, listen_backlog, tcp-backlog), and restart it",
                &[],
                &[],
            ),
        ],
        gain: "No one-second waits during bursts of connections",
        verify: "`nstat -z TcpExtListenOverflows` does not grow; `ss -ltn`: Recv-Q below Send-Q",
        sources: &["https://docs.kernel.org/networking/snmp_counter.html"],
        check: listen_overflow,
    },
    Rule {
        id: "N15",
        name: "retransmissions",
        title: "A noticeable share of TCP segments is retransmitted",
        reads: &["/proc/net/snmp"],
        threshold: "RetransSegs over 1 % of OutSegs between the samples, at 100 segments a second or more",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: TWO,
        explanation: "Segments are lost on the path: a full buffer, a bad cable, a rate limit (as in clouds), or an MTU mismatch.",
        fixes: &[Fix::typed(
            Side::Here,
            "Find where they are lost",
            &["ss -ti | grep -B1 retrans", "nstat -z TcpRetransSegs TcpExtTCPTimeouts"],
            &[],
        )],
        gain: "Throughput of one stream falls with the square root of the loss rate",
        verify: "the ratio falls below 0.1 %",
        sources: &["https://docs.kernel.org/networking/snmp_counter.html"],
        check: retransmissions,
    },
    Rule {
        id: "N16",
        name: "connection-table-full",
        title: "The table of tracked connections is nearly full",
        reads: &["/proc/sys/net/netfilter/nf_conntrack_count", "/proc/sys/net/netfilter/nf_conntrack_max"],
        threshold: "over 80 % in use",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "When the table is full, packets of new connections are dropped: 'nf_conntrack: table full, dropping packet'.",
        fixes: &[Fix::here(
            "Use a larger table (about 320 bytes per entry)",
            &[Change(Setting::Sysctl("net.netfilter.nf_conntrack_max"), Want::Least("{twice}"))],
        )],
        gain: "No refused connections",
        verify: "`cat /proc/sys/net/netfilter/nf_conntrack_count`",
        sources: &["https://docs.kernel.org/networking/nf_conntrack-sysctl.html"],
        check: conntrack,
    },
    Rule {
        id: "N17",
        name: "instance-network-limit",
        title: "The cloud instance's network allowance is exceeded",
        reads: &["ethtool -S"],
        threshold: "bw_in_, bw_out_, pps_, conntrack_ or linklocal_allowance_exceeded grows",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: TWO,
        explanation: "The cloud shapes or drops traffic above the instance's allowance. No setting inside the machine helps.",
        fixes: &[Fix::typed(
            Side::Cloud,
            "Use a larger instance, or one optimised for network (name ends in n)",
            &["aws ec2 modify-instance-attribute --instance-id {instance} --instance-type {larger}"],
            &["aws ec2 modify-instance-attribute --instance-id {instance} --instance-type {was}"],
        )],
        gain: "The larger instance's allowance",
        verify: "the counters of `ethtool -S DEV` do not grow",
        sources: &[
            "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-network-performance-ena.html",
        ],
        check: allowance,
    },
    Rule {
        id: "N18",
        name: "emulated-nic",
        title: "A virtual machine has an emulated network device",
        reads: &["/sys/class/net/*/device/driver"],
        threshold: "driver e1000, e1000e, 8139cp, 8139too, ne2k_pci or pcnet32 in a virtual machine",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "For every packet of an emulated device, each register access exits to the host. virtio avoids this.",
        fixes: &[
            Fix::typed(
                Side::OpenStack,
                "Use virtio for machines of this image",
                &["openstack image set --property hw_vif_model=virtio {image}"],
                &["openstack image unset --property hw_vif_model {image}"],
            ),
            Fix::typed(
                Side::Libvirt,
                "Use virtio",
                &["<model type='virtio'/>"],
                &["<model type='{driver}'/>"],
            ),
        ],
        gain: "About ten times the throughput",
        verify: "`ethtool -i DEV`: virtio_net",
        sources: &["https://libvirt.org/formatdomain.html#network-interfaces"],
        check: emulated,
    },
    Rule {
        id: "N19",
        name: "small-socket-buffers",
        title: "TCP's buffers are smaller than what a path holds",
        reads: &[
            "/proc/sys/net/ipv4/tcp_rmem",
            "/proc/sys/net/ipv4/tcp_wmem",
            "/sys/class/net/*/speed",
            "ss -tin",
        ],
        threshold: "a connection that moved 10 MB or more over a path of 1 ms or more (minrtt), with the largest tcp_rmem or tcp_wmem below twice the fastest link's speed times that time",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "A connection sends at most one window for each round trip, and a window is at most about half of the buffer. To fill 10 Gb/s at a round trip of 20 ms it needs a window of 25 MB; the default limit of 6 MiB allows an eighth of that. Buffers grow by themselves up to the limits.",
        fixes: &[Fix::here(
            "Let buffers grow to what the path holds",
            &[
                Change(Setting::Sysctl("net.ipv4.tcp_rmem"), Want::Exactly("{rmem}")),
                Change(Setting::Sysctl("net.ipv4.tcp_wmem"), Want::Exactly("{wmem}")),
            ],
        )],
        gain: "One stream reaches the speed of the link, where both ends allow it and nothing is lost",
        verify: "`iperf3 -c HOST -t 30` of one stream; rwnd_limited and sndbuf_limited of `ss -tin`",
        sources: &["https://docs.kernel.org/networking/ip-sysctl.html"],
        check: socket_buffers,
    },
    Rule {
        id: "N20",
        name: "window-limited-connections",
        title: "Connections wait for a window, not for the network",
        reads: &["ss -tin"],
        threshold: "a connection that had data to send for over a second, over half of that time limited by the receiver's window or its own send buffer",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "rwnd_limited: the other end reads too slowly or has a small buffer. sndbuf_limited: this end's buffer is too small for the path. A connection that is slow because of congestion has neither.",
        fixes: &[
            Fix::typed(
                Side::Here,
                "See which connections",
                &["ss -tin state established | grep -B1 limited"],
                &[],
            ),
            Fix::typed(
                Side::Service,
                "rwnd_limited: examine the other end (N19 there, or a reader that cannot keep up); sndbuf_limited: N19 here, or a service that sets SO_SNDBUF",
                &[],
                &[],
            ),
        ],
        gain: "Up to the speed of the path",
        verify: "the shares in `ss -tin` fall",
        sources: &["https://man7.org/linux/man-pages/man8/ss.8.html"],
        check: limited_connections,
    },
    Rule {
        id: "N21",
        name: "transmit-drops",
        title: "Packets are dropped before they are sent",
        reads: &["/sys/class/net/*/statistics/tx_dropped", "tc -s qdisc"],
        threshold: "tx_dropped or the drops of a queueing discipline grow by over one a second",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: TWO,
        explanation: "The queue in front of the device was full, or a shaper let no more through. TCP takes the loss for congestion on the path. A discipline that shapes (tbf, htb, police) drops what exceeds its rate.",
        fixes: &[
            Fix::typed(Side::Here, "See which discipline drops", &["tc -s qdisc show dev {dev}"], &[]),
            Fix::typed(
                Side::Service,
                "Pace the flows instead of dropping (fq), or use a longer queue",
                &["tc qdisc replace dev {dev} root fq", "ip link set {dev} txqueuelen 10000"],
                &["tc qdisc replace dev {dev} root {was}", "the former txqueuelen"],
            ),
        ],
        gain: "No retransmissions of packets dropped here",
        verify: "`tc -s qdisc show dev DEV`: dropped does not grow",
        sources: &["https://man7.org/linux/man-pages/man8/tc.8.html"],
        check: transmit_drops,
    },
    Rule {
        id: "N22",
        name: "weak-bond",
        title: "A bond does not use all of its links",
        reads: &["/proc/net/bonding/*"],
        threshold: "a member that is down (high), members of different speeds, or a mode that balances by the hash policy layer2 (low)",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "A bond that lost a member has less capacity and redundancy. With the hash policy layer2, all packets to one router take one link; layer3+4 spreads connections.",
        fixes: &[Fix::typed(
            Side::Service,
            "Repair the member; choose the hash policy in the bond's configuration (it can be set while the bond runs)",
            &["echo layer3+4 > /sys/class/net/{dev}/bonding/xmit_hash_policy"],
            &["echo {was} > /sys/class/net/{dev}/bonding/xmit_hash_policy"],
        )],
        gain: "Up to the number of links, over several connections; one connection uses one link",
        verify: "`cat /proc/net/bonding/BOND`; tx_bytes of each member",
        sources: &["https://docs.kernel.org/networking/bonding.html"],
        check: bonds,
    },
    Rule {
        id: "N23",
        name: "slow-network-link",
        title: "A network link runs below its device's speed",
        reads: &["/sys/class/net/*/speed", "/sys/class/net/*/duplex", "ethtool"],
        threshold: "half duplex (high), or a speed below the largest of the supported link modes",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "A cable with a broken pair, a module or a port of the switch limits the link. A device of 25 Gb/s on a switch of 10 Gb/s is no fault.",
        fixes: &[Fix::typed(
            Side::Host,
            "Compare with the switch's port, then the cable and the module",
            &["ethtool {dev}", "ethtool -m {dev}"],
            &[],
        )],
        gain: "The ratio of the speeds",
        verify: "`ethtool DEV`: Speed and Duplex",
        sources: &[ETHTOOL],
        check: slow_link,
    },
    Rule {
        id: "N24",
        name: "single-queue-driver",
        title: "A network device that can have several queues has one for many CPUs",
        reads: &["/sys/class/net/*/queues", "/sys/class/net/*/device/driver", "ethtool -l"],
        threshold: "one receive queue, 4 or more CPUs, a driver with several queues that is not virtio (vmxnet3, hv_netvsc, vif, ena, gve, ixgbevf, iavf, mlx5_core, ice, i40e, ixgbe, igb, bnxt_en)",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "One CPU handles every received packet, as in N02. Such devices start with several queues: a setting, a boot parameter or too few interrupt vectors have left one.",
        fixes: &[
            Fix::here(
                "Enable them (packets in flight may be lost briefly)",
                &[Change(Setting::Channels, Want::Least("{queues}"))],
            ),
            Fix::here("If the device cannot: spread packets in software (RPS)", STEER),
        ],
        gain: "Up to the number of queues, if softirq time is the bottleneck",
        verify: "`ls -d /sys/class/net/DEV/queues/rx-*` lists several",
        sources: &[SCALING, ETHTOOL],
        check: single_queue_driver,
    },
];

const ROOT_FOR_XML: &str = "root, where there are libvirt machines";

/// The CPUs with the largest shares, in words: `CPU15 89.95 %, CPU16 9.82 %`.
fn shares(cpus: &[u32], counts: &[f64]) -> String {
    let total: f64 = counts.iter().sum();
    let mut shares: Vec<(u32, f64)> =
        cpus.iter().zip(counts).map(|(cpu, count)| (*cpu, 100.0 * count / total)).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let top = shares.iter().take(2).filter(|(_, share)| *share >= 0.005);
    top.map(|(cpu, share)| format!("CPU{cpu} {share:.2} %")).collect::<Vec<_>>().join(", ")
}

fn rate_in_words(rate: Option<f64>, total: f64) -> String {
    rate.map_or_else(|| format!("{total:.0} since boot"), |rate| format!("{rate:.0} a second"))
}

fn imbalance(host: &Host) -> Checked {
    let columns = &host.interrupts()?.cpus;
    let mut found = Vec::new();
    for nic in host.nics()?.iter().filter(|nic| nic.vectors > 1) {
        let (counts, rate) = host.interrupts_of(|row| nic.is_receive(row))?;
        let total: f64 = counts.iter().sum();
        let busy = rate.map_or(total >= 1e6, |rate| rate > BUSY_PER_SECOND);
        let could = nic.vectors.min(columns.len());
        let cpus = effective(&counts);
        if busy && could >= MANY_CPUS && cpus < 0.25 * could as f64 {
            let says = format!(
                "{} take its interrupts: {cpus:.2} effective CPUs of {could} possible ({})",
                shares(columns, &counts),
                rate_in_words(rate, total)
            );
            found.push(Found::new(nic.label(), says));
        }
    }
    Ok(found)
}

fn single_queue(host: &Host) -> Checked {
    let cpus = host.cpus()?;
    let mut found = Vec::new();
    for nic in host.nics()?.iter().filter(|nic| nic.rx_queues == 1 && nic.driver == "virtio_net") {
        // Vectors without queues are the case of N03.
        if cpus.len() < MANY_CPUS || nic.vectors > 1 {
            continue;
        }
        let mut says = format!("one queue pair for {} CPUs", cpus.len());
        let mut severity = Severity::Medium;
        if let Ok((counts, rate)) = host.interrupts_of(|row| nic.is_receive(row)) {
            let total: f64 = counts.iter().sum();
            if total > 0.0 {
                let columns = &host.interrupts()?.cpus;
                let effective = effective(&counts);
                says += &format!(
                    ": {} of receive interrupts, {effective:.2} effective CPUs of {} ({})",
                    shares(columns, &counts),
                    columns.len(),
                    rate_in_words(rate, total)
                );
            }
            if rate.map_or(total >= 1e8, |rate| rate > BUSY_PER_SECOND) {
                severity = Severity::High;
            }
        }
        let found_one = Found::new(nic.label(), says).severe(severity);
        found.push(
            found_one
                .with("dev", nic.shell_name())
                .with("queues", cpus.len())
                .with("mask", facts::mask_of(cpus)),
        );
    }
    Ok(found)
}

fn queues_not_enabled(host: &Host) -> Checked {
    let cpus = host.cpus()?.len();
    let mut found = Vec::new();
    for nic in host.nics()? {
        let path = format!("commands/ethtool-l.{}", nic.label());
        let said = match host.text(&path) {
            Ok(text) if !text.contains("Current hardware settings") => {
                return Err(Absent::damaged(&path, "lacks the current settings"));
            }
            text => text.ok().and_then(|text| facts::ethtool_pair(&text, "Combined")),
        };
        let virtio = (nic.driver == "virtio_net" && nic.name.is_some())
            .then_some((nic.vectors as u32, nic.rx_queues as u32));
        let Some((most, now)) = said.or(virtio) else { continue };
        let could = most.min(cpus as u32);
        if now < could {
            let says = format!("{now} of {most} queues are used, on {cpus} CPUs");
            found.push(Found::new(nic.label(), says).with("dev", nic.shell_name()).with("queues", could));
        }
    }
    Ok(found)
}

fn stacked(host: &Host) -> Checked {
    let cpus = host.cpus()?;
    let table = host.interrupts()?;
    let mut found = Vec::new();
    for nic in host.nics()? {
        let mut places = Vec::new();
        for row in table.rows.iter().filter(|row| nic.is_receive(row)) {
            let irq = format!("proc/irq/{}", row.id);
            let place = host
                .word(&format!("{irq}/effective_affinity_list"))
                .or_else(|_| host.word(&format!("{irq}/smp_affinity_list")));
            places.push((row.id.clone(), facts::cpu_list(&place?)));
        }
        let Some((_, first)) = places.last() else { continue };
        if places.len() > 1
            && cpus.len() > 1
            && first.len() == 1
            && places.iter().all(|(_, place)| place == first)
        {
            let says = format!("all {} receive queues interrupt CPU{}", places.len(), first[0]);
            let spread = places.iter().zip(cpus.iter().cycle());
            let one = |found: Found, ((irq, _), cpu): (&(String, Vec<u32>), &u32)| {
                found.row(&[("irq", irq.clone()), ("cpu", cpu.to_string())])
            };
            found.push(spread.fold(Found::new(nic.label(), says), one));
        }
    }
    Ok(found)
}

/// What each CPU received between the samples: packets, or rounds of NET_RX where packets are not counted.
fn received(host: &Host) -> Result<Vec<(u32, f64)>, Absent> {
    if let Ok((before, after)) = host.twice_parsed("proc/net/softnet_stat", facts::softnet)
        && !after.is_empty()
        && after.len() == before.len()
    {
        let since = |(now, was): (&facts::Softnet, &facts::Softnet)| {
            (now.cpu, f64::from(now.packets.wrapping_sub(was.packets)))
        };
        return Ok(after.iter().zip(&before).map(since).collect());
    }
    let table = |text: &str| facts::interrupts::Interrupts::parse(text).unwrap_or_default();
    let (before, after) = host.twice_parsed("proc/softirqs", table)?;
    if after.cpus.is_empty() {
        return Err(Absent::damaged("proc/softirqs", "has no header of CPUs"));
    }
    let counts = after.since(&before).sum(|row| row.id == "NET_RX");
    Ok(after.cpus.into_iter().zip(counts).collect())
}

/// The share of received packets on their busiest CPU, that CPU, and the softirq part of its time.
fn receive_work(host: &Host) -> Result<Option<(f64, u32, f64)>, Absent> {
    let received = received(host)?;
    let total: f64 = received.iter().map(|(_, count)| count).sum();
    let Some((cpu, most)) = received.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)) else { return Ok(None) };
    // Too few packets to judge by.
    if total / host.seconds < 1000.0 {
        return Ok(None);
    }
    let (before, after) = host.twice_parsed("proc/stat", facts::rows)?;
    let row = format!("cpu{cpu}");
    let (Some(before), Some(after)) = (before.get(&row), after.get(&row)) else {
        return Err(Absent::damaged("proc/stat", "lacks a CPU"));
    };
    let spent: Vec<f64> =
        after.iter().zip(before).take(8).map(|(after, before)| (after - before).max(0.0)).collect();
    let all: f64 = spent.iter().sum();
    let Some(softirq) = spent.get(6) else {
        return Err(Absent::damaged("proc/stat", &format!("has no softirq time of {row}")));
    };
    Ok(Some((most / total, cpu, if all > 0.0 { softirq / all } else { 0.0 })))
}

/// The devices that packets come in by: with hardware, and virtual pairs.
fn receivers(host: &Host) -> Result<Vec<String>, Absent> {
    let names = host.tree().list("sys/class/net")?;
    Ok(names.into_iter().filter(|name| name != "lo").collect())
}

fn no_steering(host: &Host) -> Checked {
    let cpus = host.cpus()?;
    let work = receive_work(host)?;
    let one_busy = work.is_some_and(|(share, _, softirq)| share > 0.6 && softirq > 0.1);
    let nics = host.nics()?;
    let mut found = Vec::new();
    for name in receivers(host)? {
        let queues = host.tree().list(&format!("sys/class/net/{name}/queues")).unwrap_or_default();
        let single = queues.iter().filter(|queue| queue.starts_with("rx-")).count() == 1;
        let Ok(was) = host.word(&format!("sys/class/net/{name}/queues/rx-0/rps_cpus")) else { continue };
        if !single || cpus.len() < 2 || !facts::cpu_mask(&was).is_empty() {
            continue;
        }
        let received = match host.rate_of(&format!("sys/class/net/{name}/statistics/rx_packets")) {
            // Devices of containers come and go between the samples.
            Err(e) if e.is_missing() => continue,
            received => received?,
        };
        let nic = nics.iter().find(|nic| nic.name.as_deref() == Some(&name));
        let rate = nic.and_then(|nic| host.interrupts_of(|row| nic.is_receive(row)).ok()?.1);
        let interrupts = rate.is_some_and(|rate| rate > BUSY_PER_SECOND);
        if interrupts || (one_busy && received > 10_000.0) {
            let place = work.map_or(String::new(), |(share, cpu, softirq)| {
                let (share, softirq) = (100.0 * share, 100.0 * softirq);
                format!("; CPU{cpu} receives {share:.0} % of all packets and is {softirq:.0} % in softirq")
            });
            let says = format!("one queue, no steering, {received:.0} packets a second{place}");
            let mask = facts::mask_of(cpus);
            let hot = interrupts || work.is_some_and(|(_, _, softirq)| softirq > 0.25);
            let severity = if hot { Severity::Medium } else { Severity::Low };
            let found_one = Found::new(name.clone(), says).severe(severity).with("dev", name);
            found.push(found_one.with("mask", mask));
        }
    }
    Ok(found)
}

fn saturation(host: &Host) -> Checked {
    let cpus = host.cpus()?;
    let Some((share, cpu, softirq)) = receive_work(host)? else { return Ok(Vec::new()) };
    if cpus.len() < 2 || share <= 0.6 || softirq <= 0.8 {
        return Ok(Vec::new());
    }
    let (share, softirq) = (100.0 * share, 100.0 * softirq);
    let says = format!("receives {share:.0} % of all packets and is {softirq:.0} % in softirq");
    Ok(vec![Found::new(format!("CPU{cpu}"), says)])
}

fn backlog(host: &Host) -> Checked {
    let path = "proc/net/softnet_stat";
    let (before, after) = host.twice_parsed(path, facts::softnet)?;
    if after.is_empty() {
        return Err(Absent::damaged(path, "has no rows"));
    }
    let grown = |of: fn(&facts::Softnet) -> u32| -> f64 {
        let rows = after.iter().zip(&before);
        rows.map(|(now, was)| f64::from(of(now).wrapping_sub(of(was)))).sum::<f64>() / host.seconds
    };
    let (dropped, squeezed) = (grown(|row| row.dropped), grown(|row| row.squeezed));
    if dropped <= 0.0 && squeezed <= 100.0 {
        return Ok(Vec::new());
    }
    // Only what runs out is made larger.
    let backlog = match dropped > 0.0 {
        true => (4.0 * host.number("proc/sys/net/core/netdev_max_backlog").unwrap_or(1000.0)).max(4000.0),
        false => 0.0,
    };
    let (budget, usecs) = if squeezed > 100.0 { (600, 8000) } else { (0, 0) };
    let says = format!(
        "{dropped:.0} packets a second are dropped, the budget runs out {squeezed:.0} times a second"
    );
    let found = Found::new("softnet", says).with("backlog", backlog);
    Ok(vec![found.with("budget", budget).with("usecs", usecs)])
}

fn ring(host: &Host) -> Checked {
    let mut found = Vec::new();
    for nic in host.nics()?.iter().filter(|nic| nic.name.is_some()) {
        let statistics = format!("sys/class/net/{}/statistics", nic.label());
        let missed = host.rate_of(&format!("{statistics}/rx_missed_errors"))?;
        let lost = missed + host.rate_of(&format!("{statistics}/rx_fifo_errors"))?;
        if lost > 0.0 {
            let says = format!("{lost:.0} packets a second are lost for want of a buffer");
            let one = Found::new(nic.label(), says).with("dev", nic.shell_name());
            let sizes = host.text(&format!("commands/ethtool-g.{}", nic.label())).ok();
            let sizes = sizes.and_then(|text| facts::ethtool_pair(&text, "RX"));
            found.push(match sizes {
                Some((most, _)) => one.with("ring", most),
                None => one,
            });
        }
    }
    Ok(found)
}

fn irqbalance(host: &Host) -> Checked {
    if host.running(&["irqbalance"])?.is_empty() {
        return Ok(Vec::new());
    }
    for file in ["etc/default/irqbalance", "etc/sysconfig/irqbalance"] {
        let settings = host.text(file).unwrap_or_default();
        if settings.lines().any(|line| line.trim_start().starts_with("IRQBALANCE_BANNED_CPU")) {
            return Ok(Vec::new());
        }
    }
    let line = host.text("proc/cmdline")?;
    let isolated = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix("isolcpus=").or(word.strip_prefix("nohz_full=")));
    let pinned = host.machines()?.iter().filter(|(_, machine)| machine.pinned_vcpus > 0).count();
    let says = match (isolated, pinned) {
        (None, 0) => return Ok(Vec::new()),
        (Some(cpus), _) => format!("runs, and CPUs {cpus} are isolated"),
        (None, pinned) => format!("runs beside {pinned} machines with pinned CPUs"),
    };
    let found = Found::new("irqbalance", says);
    Ok(vec![match isolated {
        Some(cpus) => found.with("pinned", cpus),
        None => found,
    }])
}

fn unsaid(option: &str, nic: &Nic) -> Absent {
    let path = format!("ethtool -{option} {}", nic.label());
    Absent::new(&path, Why::Unsaid("ethtool is not installed, or the capture lacks its output"))
}

/// The files that live commands left for network devices, by device.
fn said_by_ethtool(host: &Host, option: &str) -> Result<Vec<(Nic, String)>, Absent> {
    let mut said = Vec::new();
    for nic in host.nics()?.into_iter().filter(|nic| nic.name.is_some()) {
        match host.text(&format!("commands/ethtool-{option}.{}", nic.label())) {
            Ok(text) => said.push((nic, text)),
            Err(e) if e.is_missing() => return Err(unsaid(option, &nic)),
            Err(e) => return Err(e),
        }
    }
    Ok(said)
}

fn offloads(host: &Host) -> Checked {
    let mut found = Vec::new();
    for (nic, text) in said_by_ethtool(host, "k")? {
        for feature in ["tcp-segmentation-offload", "generic-receive-offload"] {
            let off = format!("{feature}: off");
            // Its kinds are indented below it; the device may have none of them.
            let mut lines = text.lines().skip_while(|line| line.trim() != off);
            let is_off = lines.next().is_some();
            let mut kinds = lines.take_while(|line| line.starts_with([' ', '\t'])).peekable();
            let is_fixed = kinds.peek().is_some() && kinds.all(|kind| kind.trim_end().ends_with("[fixed]"));
            if is_off && !is_fixed {
                found.push(
                    Found::new(nic.label(), format!("{feature} is off"))
                        .with("dev", nic.label())
                        .with("feature", feature),
                );
            }
        }
    }
    Ok(found)
}

fn mtu(host: &Host) -> Checked {
    let mut found = Vec::new();
    for name in host.tree().list("sys/class/net")? {
        let Ok(master) = host.tree().link(&format!("sys/class/net/{name}/master")) else { continue };
        let master = master.rsplit('/').next().unwrap_or("").to_owned();
        // Other masters, such as a VRF, pass no frames between their ports.
        let is_one = |file: &str| host.tree().has(&format!("sys/class/net/{master}/{file}"));
        if !is_one("bridge/stp_state") && !is_one("bonding/mode") {
            continue;
        }
        let mine = host.number(&format!("sys/class/net/{name}/mtu"))?;
        let bridge = host.number(&format!("sys/class/net/{master}/mtu"))?;
        if mine != bridge {
            let says = format!("takes frames of {mine} bytes, its {master} of {bridge}");
            found.push(Found::new(name.clone(), says).with("dev", name).with("mtu", bridge));
        }
    }
    Ok(found)
}

fn no_flow_table(host: &Host) -> Checked {
    let steered: Vec<String> = receivers(host)?
        .into_iter()
        .filter(|name| {
            let mask = host.word(&format!("sys/class/net/{name}/queues/rx-0/rps_cpus"));
            mask.is_ok_and(|mask| !facts::cpu_mask(&mask).is_empty())
        })
        .collect();
    if steered.is_empty() || host.number_or("proc/sys/net/core/rps_sock_flow_entries", 0.0)? > 0.0 {
        return Ok(Vec::new());
    }
    let one = |name: String| {
        Found::new(name.clone(), "packets are steered by hash, not to their reader").with("dev", name)
    };
    Ok(steered.into_iter().map(one).collect())
}

fn transmit_steering(host: &Host) -> Checked {
    let cpus = host.cpus()?;
    let mut found = Vec::new();
    for nic in host.nics()?.iter().filter(|nic| nic.tx_queues > 1 && nic.tx_queues <= cpus.len()) {
        let masks = host.tree().glob(&format!("sys/class/net/{}/queues/tx-*/xps_cpus", nic.label()))?;
        let set = masks
            .iter()
            .filter(|path| host.word(path).is_ok_and(|mask| !facts::cpu_mask(&mask).is_empty()))
            .count();
        if !masks.is_empty() && set == 0 {
            let says = format!("{} send queues, none assigned to CPUs", nic.tx_queues);
            let one = |found: Found, queue: usize| {
                let mine: Vec<u32> = cpus.iter().skip(queue).step_by(nic.tx_queues).copied().collect();
                found.row(&[("queue", format!("tx-{queue}")), ("mask", facts::mask_of(&mine))])
            };
            found.push((0..nic.tx_queues).fold(Found::new(nic.label(), says).with("dev", nic.label()), one));
        }
    }
    Ok(found)
}

/// The growth of a counter of `/proc/net/snmp` or `netstat`, per second.
fn protocol_rate(host: &Host, path: &str, name: &str) -> Result<f64, Absent> {
    let (before, after) = host.twice_parsed(path, facts::paired_lines)?;
    match (before.get(name), after.get(name)) {
        (Some(before), Some(after)) => Ok((after - before).max(0.0) / host.seconds),
        _ => Err(Absent::damaged(path, &format!("lacks {name}"))),
    }
}

fn listen_overflow(host: &Host) -> Checked {
    let rate = protocol_rate(host, "proc/net/netstat", "TcpExt.ListenOverflows")?;
    if rate <= 0.0 {
        return Ok(Vec::new());
    }
    Ok(vec![Found::new("TCP", format!("{rate:.0} handshakes a second are dropped at full listen queues"))])
}

fn retransmissions(host: &Host) -> Checked {
    let sent = protocol_rate(host, "proc/net/snmp", "Tcp.OutSegs")?;
    let again = protocol_rate(host, "proc/net/snmp", "Tcp.RetransSegs")?;
    if sent < 100.0 || again <= 0.01 * sent {
        return Ok(Vec::new());
    }
    Ok(vec![Found::new(
        "TCP",
        format!("{:.1} % of {sent:.0} segments a second are sent again", 100.0 * again / sent),
    )])
}

fn conntrack(host: &Host) -> Checked {
    let at = "proc/sys/net/netfilter/nf_conntrack";
    let most = host.number_or(&format!("{at}_max"), 0.0)?;
    let now = host.number_or(&format!("{at}_count"), 0.0)?;
    if most <= 0.0 || now <= 0.8 * most {
        return Ok(Vec::new());
    }
    let says = format!("{now} of {most} entries are in use");
    Ok(vec![Found::new("nf_conntrack", says).with("twice", most * 2.0)])
}

fn allowance(host: &Host) -> Checked {
    if host.cloud() != Some(Cloud::Amazon) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for nic in host.nics()?.into_iter().filter(|nic| nic.name.is_some()) {
        let path = format!("commands/ethtool-S.{}", nic.label());
        let (before, after) =
            host.twice_parsed(&path, facts::counters).map_err(|absent| match absent.why {
                Why::Missing => unsaid("S", &nic),
                _ => absent,
            })?;
        if after.is_empty() {
            return Err(Absent::damaged(&path, "has no counters"));
        }
        let exceeded: Vec<String> = after
            .iter()
            .filter(|(name, _)| name.ends_with("_allowance_exceeded"))
            .filter_map(|(name, now)| Some((name, now - before.get(name)?)))
            .filter(|(_, grown)| *grown > 0.0)
            .map(|(name, grown)| format!("{name} {:.0} a second", (grown / host.seconds).ceil()))
            .collect();
        if !exceeded.is_empty() {
            found.push(Found::new(nic.label(), exceeded.join(", ")));
        }
    }
    Ok(found)
}

fn emulated(host: &Host) -> Checked {
    const EMULATED: [&str; 6] = ["e1000", "e1000e", "8139cp", "8139too", "ne2k_pci", "pcnet32"];
    let nics = host.nics()?;
    let mut emulated = nics.iter().filter(|nic| EMULATED.contains(&nic.driver.as_str())).peekable();
    if emulated.peek().is_none() || !host.is_guest()? {
        return Ok(Vec::new());
    }
    let one = |nic: &Nic| {
        Found::new(nic.label(), format!("is an emulated {}", nic.driver)).with("driver", &nic.driver)
    };
    Ok(emulated.map(one).collect())
}

/// The speed of the fastest network device, Mb/s.
fn link_speed(host: &Host) -> Result<f64, Absent> {
    let mut fastest = 0.0f64;
    for nic in host.nics()?.iter().filter(|nic| nic.name.is_some()) {
        // A link that is down has none; a virtual one says -1.
        fastest = fastest.max(host.number_or(&format!("sys/class/net/{}/speed", nic.label()), 0.0)?);
    }
    if fastest <= 0.0 {
        let why = Why::Unsaid(
            "no device says its speed, as virtio devices do not: compare tcp_rmem with the path yourself",
        );
        return Err(Absent::new("the speed of the link", why));
    }
    Ok(fastest)
}

fn connections(host: &Host) -> Result<Vec<facts::Connection>, Absent> {
    match host.text("commands/ss") {
        Ok(text) => facts::connections(&text)
            .ok_or_else(|| Absent::damaged("commands/ss", "has no connections that can be read")),
        Err(e) if e.is_missing() => {
            Err(Absent::new("ss -tin", Why::Unsaid("ss is not installed, or the capture lacks its output")))
        }
        Err(e) => Err(e),
    }
}

fn socket_buffers(host: &Host) -> Checked {
    const MOVED: f64 = 10e6;
    let connections = connections(host)?;
    let far =
        connections.iter().filter(|connection| connection.moved >= MOVED && connection.minrtt_ms >= 1.0);
    let Some(far) = far.max_by(|a, b| a.minrtt_ms.total_cmp(&b.minrtt_ms)) else { return Ok(Vec::new()) };
    let mbit = link_speed(host)?;
    let holds = mbit * 1e6 / 8.0 * far.minrtt_ms / 1000.0;
    // Half of a buffer is overhead; more than 1 GiB no socket has.
    let wanted = (2.0 * holds / 1_048_576.0).ceil().min(1024.0) * 1_048_576.0;
    let mut found = Found::new("TCP", "");
    let mut small = Vec::new();
    for (name, value) in [("tcp_rmem", "rmem"), ("tcp_wmem", "wmem")] {
        let path = format!("proc/sys/net/ipv4/{name}");
        let text = host.text(&path)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let [least, start, most] = words[..] else {
            return Err(Absent::damaged(&path, "has no three sizes"));
        };
        let size: f64 = most.parse().map_err(|_| Absent::damaged(&path, "is not a size"))?;
        let right = if size < wanted { format!("{wanted:.0}") } else { most.to_owned() };
        if size < wanted {
            small.push(format!("{name} grows to {:.1} MiB", size / 1_048_576.0));
        }
        found = found.with(value, format!("{least} {start} {right}"));
    }
    found.observed = format!(
        "{}; {:.1} ms at {:.0} Mb/s hold {:.1} MiB",
        small.join(", "),
        far.minrtt_ms,
        mbit,
        holds / 1_048_576.0
    );
    Ok(if small.is_empty() { Vec::new() } else { vec![found] })
}

fn limited_connections(host: &Host) -> Checked {
    let connections = connections(host)?;
    let share = |limited: f64, connection: &facts::Connection| limited / connection.busy_ms.max(1.0);
    let busy = || connections.iter().filter(|connection| connection.busy_ms > 1000.0);
    let count = |of: fn(&facts::Connection) -> f64| busy().filter(|one| share(of(one), one) > 0.5).count();
    let (receiver, sender) = (count(|one| one.rwnd_limited_ms), count(|one| one.sndbuf_limited_ms));
    if receiver + sender == 0 {
        return Ok(Vec::new());
    }
    let says = format!(
        "of {} busy connections {receiver} wait for the receiver's window and {sender} for their own buffer",
        busy().count()
    );
    Ok(vec![Found::new("TCP", says)])
}

fn transmit_drops(host: &Host) -> Checked {
    let mut found = Vec::new();
    for name in receivers(host)? {
        let path = format!("sys/class/net/{name}/statistics/tx_dropped");
        let rate = match host.rate_of(&path) {
            Err(e) if e.is_missing() => continue,
            rate => rate?,
        };
        if rate > 1.0 {
            let says = format!("the device drops {rate:.0} packets a second");
            found.push(Found::new(name.clone(), says).with("dev", name));
        }
    }
    let path = "commands/tc-qdisc";
    let disciplines = match host.twice_parsed(path, facts::qdiscs) {
        // Without tc the counters of the devices are all there is.
        Err(e) if e.is_missing() => return Ok(found),
        disciplines => disciplines?,
    };
    let (Some(before), Some(after)) = disciplines else {
        return Err(Absent::damaged(path, "names no discipline"));
    };
    for (key, (kind, dev, dropped)) in &after {
        let Some((.., was)) = before.get(key) else { continue };
        let rate = (dropped - was).max(0.0) / host.seconds;
        if rate > 1.0 && !found.iter().any(|one| one.object == *dev) {
            let says = format!("{kind} drops {rate:.0} packets a second");
            found.push(Found::new(dev, says).with("dev", dev).with("was", kind));
        }
    }
    Ok(found)
}

fn bonds(host: &Host) -> Checked {
    let mut found = Vec::new();
    for path in host.tree().glob("proc/net/bonding/*")? {
        let name = path.rsplit('/').next().unwrap_or("").to_owned();
        let bond = facts::bond(&host.text(&path)?).ok_or_else(|| Absent::damaged(&path, "names no mode"))?;
        let down: Vec<&str> =
            bond.members.iter().filter(|member| !member.up).map(|member| member.name.as_str()).collect();
        let mut speeds: Vec<&str> = bond.members.iter().map(|member| member.speed.as_str()).collect();
        speeds.sort_unstable();
        speeds.dedup();
        let balances = bond.mode.contains("802.3ad") || bond.mode.contains("xor");
        let policy = bond.policy.as_deref().and_then(|policy| policy.split(' ').next()).unwrap_or("layer2");
        let one =
            |says: String, severity: Severity| Found::new(&name, says).severe(severity).with("dev", &name);
        if !down.is_empty() {
            found.push(one(
                format!("{} of {} members down: {}", down.len(), bond.members.len(), down.join(", ")),
                Severity::High,
            ));
        } else if bond.members.is_empty() {
            found.push(one("has no members".to_owned(), Severity::High));
        } else if speeds.len() > 1 {
            found.push(one(format!("members of {}", speeds.join(" and ")), Severity::Medium));
        } else if balances && policy == "layer2" && bond.members.len() > 1 {
            found.push(
                one("connections are spread by MAC addresses (layer2)".to_owned(), Severity::Low)
                    .with("was", policy),
            );
        }
    }
    Ok(found)
}

fn slow_link(host: &Host) -> Checked {
    let mut found = Vec::new();
    for nic in host.nics()?.iter().filter(|nic| nic.name.is_some()) {
        let at = format!("sys/class/net/{}", nic.label());
        let speed = host.number_or(&format!("{at}/speed"), 0.0)?;
        if speed <= 0.0 {
            continue;
        }
        let half = match host.word(&format!("{at}/duplex")) {
            Err(e) if e.is_missing() => false,
            duplex => duplex? == "half",
        };
        let most = match host.text(&format!("commands/ethtool.{}", nic.label())) {
            Err(e) if e.is_missing() => 0.0,
            text => facts::supported_speed(&text?).unwrap_or(0.0),
        };
        if half || speed < most {
            let (says, severity) = match half {
                true => (format!("{speed:.0} Mb/s, half duplex"), Severity::High),
                false => (format!("{speed:.0} of {most:.0} Mb/s"), Severity::Medium),
            };
            found.push(Found::new(nic.label(), says).severe(severity).with("dev", nic.label()));
        }
    }
    Ok(found)
}

fn single_queue_driver(host: &Host) -> Checked {
    const DRIVERS: [&str; 13] = [
        "vmxnet3",
        "hv_netvsc",
        "vif",
        "ena",
        "gve",
        "ixgbevf",
        "iavf",
        "mlx5_core",
        "ice",
        "i40e",
        "ixgbe",
        "igb",
        "bnxt_en",
    ];
    let cpus = host.cpus()?;
    let nics = host.nics()?;
    let single = nics.iter().filter(|nic| nic.rx_queues == 1 && DRIVERS.contains(&nic.driver.as_str()));
    let one = |nic: &Nic| {
        let says = format!("one queue of {} for {} CPUs", nic.driver, cpus.len());
        let found = Found::new(nic.label(), says).with("dev", nic.shell_name());
        found.with("queues", cpus.len()).with("mask", facts::mask_of(cpus))
    };
    Ok(if cpus.len() >= MANY_CPUS { single.map(one).collect() } else { Vec::new() })
}
