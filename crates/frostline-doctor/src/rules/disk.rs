//! Block devices: queues and hints, and what cloud volumes do at their limits.

use super::{NOTHING, TWO};
use crate::facts::{self, Disk};
use crate::host::{Block, Cloud, Host};
use crate::rule::{Checked, Confidence, Fix, Found, Rule, Severity, Side};
use crate::setting::{Change, Setting, Want};
use crate::tree::{Absent, Fact, Why};
use frostline_model::Limits;

const SYSFS_BLOCK: &str = "https://docs.kernel.org/admin-guide/abi-stable.html";
const IOSTATS: &str = "https://docs.kernel.org/admin-guide/iostats.html";
const HDD_VOLUMES: &str = "https://docs.aws.amazon.com/ebs/latest/userguide/hdd-vols.html";
const EBS_STATS: &str =
    "https://docs.aws.amazon.com/ebs/latest/userguide/nvme-detailed-performance-stats.html";
const MIB: f64 = 1024.0 * 1024.0;
/// The part of the time above a limit that counts: bursts of milliseconds are normal.
const EXCEEDED_PART: f64 = 0.01;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "B01",
        name: "scheduler",
        title: "A fast or virtual disk has an I/O scheduler",
        reads: &["/sys/block/*/queue/scheduler"],
        threshold: "mq-deadline, bfq or kyber on NVMe or virtio",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "A scheduler costs a lock and time for each request. NVMe devices and hosts order requests themselves. bfq is worth its cost if processes must share one slow disk fairly.",
        fixes: &[Fix::here(
            "Use none (to make it permanent: a udev rule with ATTR{queue/scheduler}=\"none\")",
            &[Change(Setting::Choice("/sys/block/{dev}/queue/scheduler"), Want::Exactly("none"))],
        )],
        gain: "A few percent of IOPS with mq-deadline, up to half with bfq",
        verify: "`cat /sys/block/DEV/queue/scheduler`; fio randread with iodepth 32",
        sources: &["https://docs.kernel.org/block/switching-sched.html"],
        check: scheduler,
    },
    Rule {
        id: "B02",
        name: "rotational-hint",
        title: "A disk reports wrongly whether it rotates",
        reads: &["/sys/block/*/queue/rotational", "/sys/block/*/device/model"],
        threshold: "rotational 1 on NVMe, or on a virtual disk that the user has not called st1 or sc1; rotational 0 on st1 or sc1 (--volume)",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "File systems, schedulers and databases use this hint: btrfs for its ssd mode, the kernel to decide whether requests are merged for seeks, search nodes for the number of concurrent merges. Virtual disks often report 1 because nobody set it.",
        fixes: &[Fix::here(
            "Set the right value (to make it permanent: a udev rule with ATTR{queue/rotational})",
            &[Change(Setting::File("/sys/block/{dev}/queue/rotational"), Want::Exactly("{right}"))],
        )],
        gain: "Better choices by programs that use the hint; measure the effect",
        verify: "`lsblk -o NAME,ROTA`",
        sources: &[SYSFS_BLOCK],
        check: rotational,
    },
    Rule {
        id: "B03",
        name: "small-read-ahead",
        title: "Read-ahead of a throughput volume is too small",
        reads: &["/sys/block/*/queue/read_ahead_kb"],
        threshold: "st1 or sc1 (--volume DEV=st1) with read_ahead_kb below 1,024",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: "the class of the volume, said by --volume",
        explanation: "st1 and sc1 charge 1 MiB for each request up to 1 MiB. Read-ahead of 128 KiB turns one sequential read into eight charges unless they are merged.",
        fixes: &[Fix::here(
            "Read 1 MiB ahead; undo this if reads are random",
            &[Change(Setting::File("/sys/block/{dev}/queue/read_ahead_kb"), Want::Least("1024"))],
        )],
        gain: "Up to 8 times the sequential throughput",
        verify: "mean read size (rareq-sz) of `iostat -x 1` close to 1,024",
        sources: &[HDD_VOLUMES, "https://docs.aws.amazon.com/ebs/latest/userguide/ebs-performance.html"],
        check: read_ahead,
    },
    Rule {
        id: "B04",
        name: "small-reads-on-throughput-volume",
        title: "A throughput volume is read in small pieces",
        reads: &["/proc/diskstats"],
        threshold: "st1 or sc1 (--volume), over 20 reads a second of under 64 KiB on average",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: "two samples, and the class of the volume",
        explanation: "Every read is charged as 1 MiB: at 16 KiB an st1 volume of 8 TiB gives 5-8 MiB/s. Compression does not help; larger requests and caches do.",
        fixes: &[
            Fix::typed(
                Side::Service,
                "Use larger requests: ZFS recordsize 128K-1M, a larger page size of the database",
                &[],
                &[],
            ),
            Fix::typed(
                Side::Cloud,
                "Use gp3, which charges by 256 KiB and allows 3,000 and more per second",
                &["aws ec2 modify-volume --volume-id {volume} --volume-type gp3"],
                &["aws ec2 modify-volume --volume-id {volume} --volume-type {class}"],
            ),
        ],
        gain: "Throughput grows with the size of requests up to 1 MiB",
        verify: "rareq-sz of `iostat -x 1`",
        sources: &[HDD_VOLUMES],
        check: small_reads,
    },
    Rule {
        id: "B05",
        name: "volume-iops-cap",
        title: "A volume runs at its limit of requests",
        reads: &["/proc/diskstats"],
        threshold: "st1 or sc1 (--volume) within 5 % of the credits a second that its size may spend while it bursts (st1: 250 for each TiB, at most 500), busy over 90 % of the time",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: "two samples, and the class of the volume",
        explanation: "A request costs a credit for each MiB or part of one, unless it continues the one before. A volume spends at most 500 (st1) or 250 (sc1) credits a second, small ones fewer.",
        fixes: &[Fix::typed(
            Side::Cloud,
            "Use several volumes in a stripe (up to 2 TiB each for st1: four of 2 TiB instead of one of 8), or gp3",
            &["aws ec2 create-volume --volume-type st1 --size 2048 --availability-zone {zone}"],
            &["aws ec2 delete-volume --volume-id {volume}"],
        )],
        gain: "Proportional to the number of volumes, up to the instance's limit (B07)",
        verify: "r/s + w/s of `iostat -x 1`",
        sources: &[HDD_VOLUMES],
        check: iops_cap,
    },
    Rule {
        id: "B06",
        name: "drained-bucket",
        title: "A volume runs at its base rate: its burst credits are used up",
        reads: &["/proc/diskstats", "/sys/block/*/size"],
        threshold: "st1 or sc1 (--volume), busy over 90 %, within 10 % of its base rate of 40 (st1) or 12 (sc1) credits a second for each TiB",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: "two samples, and the class of the volume",
        explanation: "A full bucket of a 2 TiB st1 volume lasts 83 minutes at 500 MiB/s; after that it delivers 80. Ten-minute benchmarks never show this.",
        fixes: &[
            Fix::typed(
                Side::Cloud,
                "Set an alarm before it happens",
                &[
                    "aws cloudwatch put-metric-alarm --alarm-name {dev}-burst --namespace AWS/EBS --metric-name BurstBalance --dimensions Name=VolumeId,Value={volume} --statistic Minimum --period 300 --evaluation-periods 1 --threshold 20 --comparison-operator LessThanThreshold",
                ],
                &["aws cloudwatch delete-alarms --alarm-names {dev}-burst"],
            ),
            Fix::typed(
                Side::Cloud,
                "Use gp3, which has no burst bucket for throughput",
                &["aws ec2 modify-volume --volume-id {volume} --volume-type gp3 --throughput {mib}"],
                &["aws ec2 modify-volume --volume-id {volume} --volume-type {class}"],
            ),
        ],
        gain: "From the base rate to the provisioned throughput of gp3",
        verify: "metric BurstBalance; throughput over hours",
        sources: &[HDD_VOLUMES],
        check: drained,
    },
    Rule {
        id: "B07",
        name: "instance-disk-limit",
        title: "The instance, not the volume, limits disk throughput",
        reads: &["nvme amzn stats"],
        threshold: "EBS statistics: over 1 % of the time between the samples above a limit of the instance or the volume; high if over 10 % above the instance's",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: "two samples, root and amazon-ec2-utils' ebsnvme or nvme-cli's amzn plugin, on EC2",
        explanation: "An instance has a limit over all its volumes (156 MB/s for an r7g.xlarge); small ones may exceed it for 30 minutes a day. More volumes add nothing.",
        fixes: &[
            Fix::typed(
                Side::Cloud,
                "Use a larger instance if the instance is the limit",
                &["aws ec2 modify-instance-attribute --instance-id {instance} --instance-type {larger}"],
                &["aws ec2 modify-instance-attribute --instance-id {instance} --instance-type {was}"],
            ),
            Fix::typed(
                Side::Cloud,
                "Provision more IOPS or throughput if the volume is the limit",
                &["aws ec2 modify-volume --volume-id {volume} --iops {iops} --throughput {mib}"],
                &["aws ec2 modify-volume --volume-id {volume} --iops {was_iops} --throughput {was_mib}"],
            ),
        ],
        gain: "The larger limit",
        verify: "the counters do not grow under load",
        sources: &[
            EBS_STATS,
            "https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-type-specifications.html",
        ],
        check: instance_limit,
    },
    Rule {
        id: "B08",
        name: "lazy-volume",
        title: "A volume is as slow as one that is still being loaded from its snapshot",
        reads: &["/proc/diskstats", "/sys/block/*/device/model"],
        threshold: "an EBS volume not called st1 or sc1, at 5-500 reads a second that take over 15 ms on average",
        severity: Severity::Medium,
        confidence: Confidence::Low,
        needs: TWO,
        explanation: "Blocks of a volume created from a snapshot are fetched from the object store on first access, at tens of milliseconds each; 500 GiB took over five hours. A volume at its limits looks the same: see B05 and B07 first.",
        fixes: &[
            Fix::typed(
                Side::Service,
                "Read the whole volume now",
                &[
                    "fio --name=init --filename=/dev/{dev} --rw=read --bs=1M --iodepth=32 --ioengine=libaio --direct=1 --readonly",
                ],
                &[],
            ),
            Fix::typed(
                Side::Cloud,
                "Next time use a volume with an initialization rate, or Fast Snapshot Restore on the snapshot",
                &[
                    "aws ec2 create-volume --snapshot-id {snapshot} --volume-initialization-rate 300 --availability-zone {zone}",
                    "aws ec2 enable-fast-snapshot-restores --availability-zones {zone} --source-snapshot-ids {snapshot}",
                ],
                &[
                    "aws ec2 disable-fast-snapshot-restores --availability-zones {zone} --source-snapshot-ids {snapshot}",
                ],
            ),
        ],
        gain: "From tens of milliseconds to below one",
        verify: "r_await of `iostat -x 1` on blocks that were read before",
        sources: &[
            "https://docs.aws.amazon.com/ebs/latest/userguide/initalize-volume.html",
            "https://docs.aws.amazon.com/ebs/latest/userguide/ebs-fast-snapshot-restore.html",
        ],
        check: lazy,
    },
    Rule {
        id: "B09",
        name: "flushes-of-a-safe-disk",
        title: "A durable cloud disk is flushed unnecessarily",
        reads: &["/sys/block/*/queue/write_cache", "/sys/class/dmi/id/sys_vendor"],
        threshold: "write_cache is write back on EBS, or on a virtual disk of Google or EC2",
        severity: Severity::Low,
        confidence: Confidence::Low,
        needs: NOTHING,
        explanation: "Network volumes of these clouds are documented to be durable when they acknowledge. If the kernel assumes a volatile cache, every fsync waits for a flush. Local SSDs and other hosts' virtual disks do have such caches: never apply this to a disk that you cannot identify.",
        fixes: &[Fix::typed(
            Side::Service,
            "Measure fsync first; if it helps and the provider documents the disk as durable (and only then)",
            &["echo 'write through' > /sys/block/{dev}/queue/write_cache"],
            &["echo 'write back' > /sys/block/{dev}/queue/write_cache"],
        )],
        gain: "Many times the fsyncs per second if flushes are slow, none if the host ignores them",
        verify: "fio --rw=write --bs=4k --fsync=1 before and after",
        sources: &[SYSFS_BLOCK, "https://docs.kernel.org/block/writeback_cache_control.html"],
        check: flushes,
    },
    Rule {
        id: "B10",
        name: "single-queue-disk",
        title: "A virtual disk has one queue for many CPUs",
        reads: &["/sys/block/*/mq", "/proc/interrupts"],
        threshold: "a virtio disk with one queue and 4 or more CPUs",
        severity: Severity::Low,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "All CPUs share one queue, and one CPU handles all completions. One virtual CPU completes about 100,000 requests per second; below that there is no effect.",
        fixes: &[
            Fix::typed(
                Side::Libvirt,
                "Use a queue for each CPU, and I/O threads that serve them (QEMU 9.0, libvirt 10)",
                &["<driver name='qemu' queues='{queues}' iothread='1'/>"],
                &["<driver name='qemu'/>"],
            ),
            Fix::typed(
                Side::Host,
                "On QEMU's command line",
                &["-device virtio-blk-pci,num-queues={queues},..."],
                &["num-queues=1"],
            ),
        ],
        gain: "Up to several times the IOPS of small requests at high queue depth",
        verify: "`ls /sys/block/DEV/mq`; fio randread bs=4k numjobs=CPUs",
        sources: &[
            "https://libvirt.org/formatdomain.html#hard-drives-floppy-disks-cdroms",
            "https://wiki.qemu.org/ChangeLog/9.0",
        ],
        check: single_queue,
    },
    Rule {
        id: "B11",
        name: "saturated-disk",
        title: "A disk is always busy and requests wait",
        reads: &["/proc/diskstats"],
        threshold: "busy over 95 % of the time, over 10 requests a second, over 20 ms each (50 ms if it rotates)",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: TWO,
        explanation: "Requests queue up. For disks that serve many requests at once, being busy alone means little; together with the wait it means that this disk is at its limit.",
        fixes: &[Fix::typed(Side::Here, "Find the processes", &["iostat -xz 1 3", "pidstat -d 1 3"], &[])],
        gain: "Depends on the process",
        verify: "r_await and w_await of `iostat -x 1`",
        sources: &[IOSTATS],
        check: saturated,
    },
    Rule {
        id: "B12",
        name: "slow-link",
        title: "A PCIe device runs below its speed or width",
        reads: &[
            "/sys/bus/pci/devices/*/current_link_speed",
            "/sys/bus/pci/devices/*/max_link_speed",
            "/sys/bus/pci/devices/*/current_link_width",
            "/sys/bus/pci/devices/*/max_link_width",
        ],
        threshold: "a network or storage device (class 01, 02) with a link narrower or slower than its maximum",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "Causes are a badly seated card, a riser, a slot with fewer lanes, or a firmware setting. Some devices lower their speed when idle, and a slot may support less than the card: check under load.",
        fixes: &[Fix::typed(
            Side::Host,
            "Compare with the slot, then reseat it or change the slot",
            &["lspci -s {slot} -vv | grep -i lnk"],
            &[],
        )],
        gain: "The ratio of the links",
        verify: "`lspci -vv`: LnkSta equals LnkCap under load",
        sources: &["https://docs.kernel.org/admin-guide/abi-testing.html"],
        check: link,
    },
    Rule {
        id: "B13",
        name: "nvme-timeout",
        title: "Requests to EBS volumes end in errors when the volume stalls",
        reads: &["/sys/module/nvme_core/parameters/io_timeout", "/sys/block/*/device/model"],
        threshold: "an EBS NVMe volume and io_timeout below 4,294,967,295",
        severity: Severity::Low,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "A network volume may stall for longer than the default of 30 seconds, which suits local disks; then the file system becomes read-only.",
        fixes: &[Fix::typed(
            Side::Service,
            "Set it on the kernel's command line (at runtime it applies only to devices attached later)",
            &["nvme_core.io_timeout=4294967295"],
            &["remove the word"],
        )],
        gain: "A stall remains a stall",
        verify: "`cat /sys/module/nvme_core/parameters/io_timeout`",
        sources: &["https://docs.aws.amazon.com/ebs/latest/userguide/timeout-nvme-ebs-volumes.html"],
        check: nvme_timeout,
    },
    Rule {
        id: "B14",
        name: "unequal-members",
        title: "Members of an array or stripe differ",
        reads: &["/proc/mdstat", "/sys/block/*/slaves", "/sys/block/*/size", "/sys/block/*/queue/rotational"],
        threshold: "members of md or device mapper with several members differ in size by over 5 %, in kind, or in their stated class",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "A stripe is as fast as its slowest member, and in clouds speed depends on size.",
        fixes: &[Fix::typed(
            Side::Cloud,
            "Make the volumes equal: grow the smaller ones, or replace the odd one",
            &["aws ec2 modify-volume --volume-id {volume} --size {gib}"],
            &[],
        )],
        gain: "Up to the ratio between the members",
        verify: "`lsblk -o NAME,SIZE,ROTA`",
        sources: &["https://docs.aws.amazon.com/ebs/latest/userguide/raid-config.html"],
        check: members,
    },
    Rule {
        id: "B15",
        name: "degraded-array",
        title: "An array has lost a member",
        reads: &["/proc/mdstat"],
        threshold: "a failed or missing member",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "Reads are reconstructed from the others, and the next failure loses data.",
        fixes: &[Fix::typed(
            Side::Service,
            "Replace it",
            &["mdadm --detail /dev/{array}", "mdadm /dev/{array} --add {device}"],
            &[],
        )],
        gain: "Redundancy, and full speed",
        verify: "`cat /proc/mdstat`: no underscore",
        sources: &["https://man7.org/linux/man-pages/man8/mdadm.8.html"],
        check: degraded,
    },
    Rule {
        id: "B16",
        name: "parity-on-cloud-volumes",
        title: "A parity array is built of cloud volumes",
        reads: &["/proc/mdstat", "/sys/class/dmi/id/sys_vendor"],
        threshold: "raid4, raid5 or raid6 of md on EC2 or Google",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "Parity writes use 20-30 % of the provisioned IOPS, to protect against failures that the volumes' own replication already covers.",
        fixes: &[Fix::typed(
            Side::Service,
            "Use a stripe without parity, with snapshots and replicas for safety (needs a copy of the data)",
            &["mdadm --create /dev/{array} --level=0 --raid-devices={n} --chunk=128 {devices}"],
            &[],
        )],
        gain: "The parity's share of writes and space",
        verify: "write amplification in `iostat -x 1`",
        sources: &["https://docs.aws.amazon.com/ebs/latest/userguide/raid-config.html"],
        check: parity,
    },
    Rule {
        id: "B17",
        name: "loop-through-cache",
        title: "A loop device copies its file through the page cache",
        reads: &["/sys/block/loop*/loop/dio", "/sys/block/loop*/loop/backing_file"],
        threshold: "a bound loop device with dio 0, mounted and writable",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "Every block is cached twice, once for the file system on the device and once for the file below.",
        fixes: &[Fix::here(
            "Use direct I/O to the file (needs aligned blocks)",
            &[Change(Setting::LoopDirect, Want::Exactly("1"))],
        )],
        gain: "Half the page cache; steadier writes",
        verify: "`losetup -l`: DIO 1",
        sources: &["https://man7.org/linux/man-pages/man8/losetup.8.html"],
        check: loops,
    },
    Rule {
        id: "B18",
        name: "emulated-disk",
        title: "A virtual machine has an emulated disk",
        reads: &["/sys/block/*/device/model", "/sys/block/*/device/vendor"],
        threshold: "a disk of model QEMU HARDDISK with vendor ATA",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "IDE and SATA are emulated register by register, with one request at a time (IDE) or 32 (SATA).",
        fixes: &[
            Fix::typed(
                Side::OpenStack,
                "Use virtio for machines of this image",
                &["openstack image set --property hw_disk_bus=virtio {image}"],
                &["openstack image unset --property hw_disk_bus {image}"],
            ),
            Fix::typed(
                Side::Libvirt,
                "Use virtio (the guest's fstab must name file systems by UUID)",
                &["<target dev='vda' bus='virtio'/>"],
                &["<target dev='{dev}' bus='sata'/>"],
            ),
        ],
        gain: "Several times the IOPS",
        verify: "`lsblk -o NAME,TRAN,MODEL`",
        sources: &["https://libvirt.org/formatdomain.html#hard-drives-floppy-disks-cdroms"],
        check: emulated,
    },
];

fn scheduler(host: &Host) -> Checked {
    let mut found = Vec::new();
    for block in host.blocks()?.iter().filter(|block| block.is_nvme() || block.is_virtio()) {
        let path = format!("sys/block/{}/queue/scheduler", block.name);
        let text = host.text(&path)?;
        let was = facts::chosen(&text).ok_or_else(|| Absent::damaged(&path, "names no choice"))?;
        if was != "none" {
            found.push(Found::new(&block.name, format!("the scheduler is {was}")).with("dev", &block.name));
        }
    }
    Ok(found)
}

fn rotational(host: &Host) -> Checked {
    let mut found = Vec::new();
    for block in host.blocks()?.iter().filter(|block| !block.is_stacked()) {
        let was = host.number(&format!("sys/block/{}/queue/rotational", block.name))?;
        let rotates = block.has_throughput_credits();
        let wrong = match was as u8 {
            0 => rotates,
            _ => !rotates && (block.is_nvme() || block.is_virtio()),
        };
        if wrong {
            let right = u8::from(rotates);
            let confidence =
                if block.class.is_some() || block.is_nvme() { "" } else { "; a virtual disk seldom does" };
            let says = format!("says rotational {was}{confidence}");
            found.push(Found::new(&block.name, says).with("dev", &block.name).with("right", right));
        }
    }
    Ok(found)
}

/// The volumes that the user called st1 or sc1. On EC2, volumes of which nothing was said make it unknown.
fn throughput_volumes(host: &Host) -> Fact<Vec<Block>> {
    let blocks = host.blocks()?;
    if let Some(unsaid) = blocks.iter().find(|block| block.is_ebs() && block.class.is_none()) {
        let why =
            Why::Unsaid("the class of an EBS volume cannot be read from inside: say it, as --volume DEV=st1");
        return Err(Absent::new(&unsaid.name, why));
    }
    Ok(blocks.into_iter().filter(Block::has_throughput_credits).collect())
}

fn read_ahead(host: &Host) -> Checked {
    let mut found = Vec::new();
    for block in throughput_volumes(host)? {
        let was = host.number(&format!("sys/block/{}/queue/read_ahead_kb", block.name))?;
        if was < 1024.0 {
            found.push(Found::new(&block.name, format!("reads {was} KiB ahead")).with("dev", &block.name));
        }
    }
    Ok(found)
}

/// What the throughput volumes did between the samples, per second.
fn throughput_work(host: &Host) -> Fact<Vec<(Block, Disk)>> {
    let volumes = throughput_volumes(host)?;
    if volumes.is_empty() {
        return Ok(Vec::new());
    }
    let disks = host.disks()?;
    let of = |block: Block| {
        let disk = disks.get(&block.name);
        let disk =
            *disk.ok_or_else(|| Absent::damaged("proc/diskstats", &format!("lacks {}", block.name)))?;
        Ok((block, disk))
    };
    volumes.into_iter().map(of).collect()
}

/// Credits a second (MiB) that a volume of throughput credits may be charged: at most a whole unit for each request,
/// at least its bytes, as the volume merges what is sequential.
fn credits(host: &Host, disk: &Disk, limits: &Limits) -> [f64; 2] {
    let requests = disk.reads + disk.writes;
    let bytes = (disk.read_sectors + disk.write_sectors) * 512.0;
    let units = (bytes / requests.max(1.0) / limits.unit_bytes as f64).ceil();
    [requests * units * limits.unit_credits(), bytes / MIB].map(|credits| credits / host.seconds)
}

/// What a volume did, in words.
fn work_in_words(host: &Host, disk: &Disk, credits: f64) -> String {
    let requests = disk.reads + disk.writes;
    let kib = (disk.read_sectors + disk.write_sectors) / 2.0;
    format!(
        "{:.0} requests a second of {:.0} KiB are {:.0} MiB/s and cost {credits:.0} credits a second",
        requests / host.seconds,
        kib / requests.max(1.0),
        kib / 1024.0 / host.seconds
    )
}

fn small_reads(host: &Host) -> Checked {
    let mut found = Vec::new();
    for (block, disk) in throughput_work(host)? {
        let rate = disk.reads / host.seconds;
        let kib = disk.read_sectors / 2.0 / disk.reads.max(1.0);
        if rate > 20.0 && kib < 64.0 {
            let says = format!("{rate:.0} reads a second of {kib:.0} KiB, charged as 1 MiB each");
            found.push(Found::new(&block.name, says).with("class", block.class.unwrap_or_default()));
        }
    }
    Ok(found)
}

/// Whether a rate is a limit, to a part of it.
fn near(rate: f64, limit: f64, part: f64) -> bool {
    (rate - limit).abs() <= part * limit
}

fn busy(host: &Host, disk: &Disk) -> f64 {
    disk.busy_ms / (host.seconds * 1000.0)
}

fn iops_cap(host: &Host) -> Checked {
    let mut found = Vec::new();
    for (block, disk) in throughput_work(host)? {
        let limits = block.limits()?;
        let most = limits.burst.max(limits.base).min(limits.iops * limits.unit_credits());
        let charged = credits(host, &disk, &limits).into_iter().find(|charged| near(*charged, most, 0.05));
        if let Some(charged) = charged.filter(|_| busy(host, &disk) > 0.9) {
            let says = format!("{}; its limit is {most:.0}", work_in_words(host, &disk, charged));
            found.push(Found::new(&block.name, says));
        }
    }
    Ok(found)
}

fn drained(host: &Host) -> Checked {
    let mut found = Vec::new();
    for (block, disk) in throughput_work(host)? {
        let limits = block.limits()?;
        let base = limits.base;
        let charged = credits(host, &disk, &limits).into_iter().find(|charged| near(*charged, base, 0.1));
        let bursts = limits.bursts() && !near(base, limits.burst, 0.15);
        if let Some(charged) = charged.filter(|_| bursts && busy(host, &disk) > 0.9) {
            let says = format!(
                "{}, its base rate of {base:.0}; with credits left it would be {:.0}",
                work_in_words(host, &disk, charged),
                limits.burst
            );
            let found_one = Found::new(&block.name, says)
                .with("dev", &block.name)
                .with("class", block.class.unwrap_or_default());
            found.push(found_one.with("mib", (base * 4.0).clamp(125.0, 1000.0).round()));
        }
    }
    Ok(found)
}

fn instance_limit(host: &Host) -> Checked {
    let volumes: Vec<Block> = host.blocks()?.into_iter().filter(Block::is_ebs).collect();
    let mut found = Vec::new();
    for block in volumes {
        let path = format!("commands/ebs-stats.{}", block.name);
        let (before, after) =
            host.twice_parsed(&path, facts::ebs_exceeded).map_err(|absent| match absent.why {
                Why::Missing => Absent::new(
                    &format!("EBS statistics of {}", block.name),
                    Why::Unsaid("need root and ebsnvme or nvme amzn stats"),
                ),
                _ => absent,
            })?;
        let (Some(before), Some(after)) = (before, after) else {
            return Err(Absent::damaged(&path, "lacks the counters"));
        };
        // Microseconds of the time between the samples.
        let share = |now: f64, was: f64| ((now - was).max(0.0) / 1e6 / host.seconds).min(1.0);
        let (volume, instance) = (share(after.0, before.0), share(after.1, before.1));
        if volume <= EXCEEDED_PART && instance <= EXCEEDED_PART {
            continue;
        }
        let says = format!(
            "the instance's limit was exceeded {:.0} % of the time, the volume's {:.0} %",
            100.0 * instance,
            100.0 * volume
        );
        let severity = if instance > 0.1 { Severity::High } else { Severity::Medium };
        found.push(Found::new(block.name, says).severe(severity));
    }
    Ok(found)
}

fn lazy(host: &Host) -> Checked {
    let volumes: Vec<Block> =
        host.blocks()?.into_iter().filter(|b| b.is_ebs() && !b.has_throughput_credits()).collect();
    if volumes.is_empty() {
        return Ok(Vec::new());
    }
    let disks = host.disks()?;
    let mut found = Vec::new();
    for block in volumes {
        let Some(disk) = disks.get(&block.name) else { continue };
        let (rate, wait) = (disk.reads / host.seconds, disk.read_ms / disk.reads.max(1.0));
        if (5.0..500.0).contains(&rate) && wait > 15.0 {
            let says = format!("{rate:.0} reads a second take {wait:.0} ms each");
            found.push(Found::new(&block.name, says).with("dev", &block.name));
        }
    }
    Ok(found)
}

fn flushes(host: &Host) -> Checked {
    let durable_cloud = matches!(host.cloud(), Some(Cloud::Amazon | Cloud::Google));
    let mut found = Vec::new();
    for block in host.blocks()? {
        let local = block.model.contains("Instance Storage") || block.model.contains("nvme_card");
        let durable = block.is_ebs() || (durable_cloud && !local && !block.is_stacked());
        if durable && host.is_written_back(&block.name)? {
            found.push(
                Found::new(
                    &block.name,
                    "the kernel flushes a cache that this disk is documented not to lose",
                )
                .with("dev", &block.name),
            );
        }
    }
    Ok(found)
}

fn single_queue(host: &Host) -> Checked {
    let cpus = host.cpus()?.len();
    let mut found = Vec::new();
    let one = |name: &str, more: String| {
        Found::new(name, format!("one queue for {cpus} CPUs{more}")).with("queues", cpus)
    };
    match host.blocks() {
        Ok(blocks) => {
            for block in blocks.iter().filter(|block| block.is_virtio() && block.queues == 1 && cpus >= 4) {
                found.push(one(&block.name, String::new()));
            }
        }
        // Without /sys the interrupts still name the queues: virtio1-req.0 without a virtio1-req.1.
        Err(e) if e.is_missing() => {
            let table = host.interrupts()?;
            for row in &table.rows {
                let Some(bus) = row.action().strip_suffix("-req.0") else { continue };
                let second = format!("{bus}-req.1");
                if cpus >= 4
                    && bus.starts_with("virtio")
                    && !table.rows.iter().any(|row| row.action() == second)
                {
                    let counts = table.sum(|other| other.id == row.id);
                    let total: f64 = counts.iter().sum();
                    let most = counts.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
                    let more = most.filter(|_| total > 0.0).map_or(String::new(), |(at, most)| {
                        format!(
                            "; CPU{} takes {:.1} % of its completions",
                            table.cpus[at],
                            100.0 * most / total
                        )
                    });
                    found.push(one(bus, more));
                }
            }
        }
        Err(e) => return Err(e),
    }
    Ok(found)
}

fn saturated(host: &Host) -> Checked {
    let disks = host.disks()?;
    let mut found = Vec::new();
    for block in host.blocks()? {
        let Some(disk) = disks.get(&block.name) else { continue };
        let requests = disk.reads + disk.writes;
        let (rate, wait) = (requests / host.seconds, (disk.read_ms + disk.write_ms) / requests.max(1.0));
        let rotates =
            host.queue(&block.name, "rotational").is_some_and(|hint| hint == "1") && !block.is_virtio();
        if busy(host, disk) > 0.95 && rate > 10.0 && wait > if rotates { 50.0 } else { 20.0 } {
            let says = format!(
                "busy {:.0} % of the time; {rate:.0} requests a second take {wait:.0} ms each",
                100.0 * busy(host, disk)
            );
            found.push(Found::new(block.name, says));
        }
    }
    Ok(found)
}

fn link(host: &Host) -> Checked {
    let mut found = Vec::new();
    // None where there is no such file, or where the device is unplugged.
    let gts = |path: String| match host.word(&path) {
        Ok(text) if text.starts_with("Unknown") => Ok(None),
        Ok(_) => host.number(&path).map(Some),
        Err(e) if e.is_missing() => Ok(None),
        Err(e) => Err(e),
    };
    for path in host.tree().glob("sys/bus/pci/devices/*/class")? {
        let class = host.word(&path)?;
        let device = path.trim_end_matches("/class").to_owned();
        if !class.starts_with("0x01") && !class.starts_with("0x02") {
            continue;
        }
        let pair = |what: &str| {
            let now = gts(format!("{device}/current_link_{what}"))?;
            Ok(now.zip(gts(format!("{device}/max_link_{what}"))?))
        };
        let (Some(speed), Some(width)) = (pair("speed")?, pair("width")?) else { continue };
        // 255 lanes and 0 are what virtual devices say.
        if width.1 <= 32.0 && width.0 >= 1.0 && (speed.0 < speed.1 || width.0 < width.1) {
            let slot = device.rsplit('/').next().unwrap_or("").to_owned();
            let says = format!("{} GT/s x{} of {} GT/s x{}", speed.0, width.0, speed.1, width.1);
            found.push(Found::new(slot.clone(), says).with("slot", slot));
        }
    }
    Ok(found)
}

fn nvme_timeout(host: &Host) -> Checked {
    let volumes: Vec<Block> =
        host.blocks()?.into_iter().filter(|block| block.is_ebs() && block.is_nvme()).collect();
    let Some(first) = volumes.first() else { return Ok(Vec::new()) };
    let seconds = host.number("sys/module/nvme_core/parameters/io_timeout")?;
    Ok(if seconds < 4_294_967_295.0 {
        vec![Found::new(&first.name, format!("requests end in an error after {seconds} s"))]
    } else {
        Vec::new()
    })
}

fn members(host: &Host) -> Checked {
    let blocks = host.blocks()?;
    let mut found = Vec::new();
    for block in blocks.iter().filter(|block| block.is_stacked()) {
        let members = host.tree().list(&format!("sys/block/{}/slaves", block.name)).unwrap_or_default();
        let of: Vec<&Block> =
            members.iter().filter_map(|name| blocks.iter().find(|block| block.name == *name)).collect();
        let sizes = || of.iter().map(|block| block.bytes);
        let (least, most) = (sizes().fold(f64::MAX, f64::min), sizes().fold(0.0, f64::max));
        let kinds = |of: &dyn Fn(&Block) -> String| {
            let mut kinds: Vec<String> =
                members.iter().filter_map(|name| blocks.iter().find(|b| b.name == *name)).map(of).collect();
            kinds.sort();
            kinds.dedup();
            kinds
        };
        let spins = kinds(&|block| host.queue(&block.name, "rotational").unwrap_or_default());
        let classes = kinds(&|block| block.class.clone().unwrap_or_default());
        let gib = |bytes: f64| bytes / (1024.0 * MIB);
        if of.len() > 1 && least < 0.95 * most {
            let says = format!("members of {:.0} and {:.0} GiB", gib(least), gib(most));
            found.push(Found::new(&block.name, says).with("gib", gib(most).ceil()));
        } else if spins.len() > 1 || classes.len() > 1 {
            found.push(Found::new(&block.name, "members of different kinds"));
        }
    }
    Ok(found)
}

/// The arrays of `/proc/mdstat`; none where md is not there.
fn arrays(host: &Host) -> Fact<Vec<facts::Array>> {
    match host.text("proc/mdstat") {
        Ok(text) => {
            let arrays = facts::mdstat(&text);
            if arrays.is_empty() && !text.starts_with("Personalities") {
                return Err(Absent::damaged("proc/mdstat", "names no personalities"));
            }
            match arrays.iter().find(|array| array.members.is_empty()) {
                Some(array) => {
                    Err(Absent::damaged("proc/mdstat", &format!("names no member of {}", array.name)))
                }
                None => Ok(arrays),
            }
        }
        // A kernel without md has no such file; a tree without any of /proc says nothing.
        Err(e) if e.is_missing() && host.tree().has("proc/mounts") => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

fn degraded(host: &Host) -> Checked {
    let one = |array: facts::Array| {
        Found::new(&array.name, format!("{} has lost a member", array.level)).with("array", array.name)
    };
    Ok(arrays(host)?.into_iter().filter(|array| array.degraded).map(one).collect())
}

fn parity(host: &Host) -> Checked {
    let arrays = arrays(host)?;
    let parity =
        arrays.into_iter().filter(|array| matches!(array.level.as_str(), "raid4" | "raid5" | "raid6"));
    if !matches!(host.cloud(), Some(Cloud::Amazon | Cloud::Google)) {
        return Ok(Vec::new());
    }
    let one = |array: facts::Array| {
        let n = array.members.len();
        Found::new(&array.name, format!("{} over {n} volumes", array.level))
            .with("array", array.name)
            .with("n", n)
    };
    Ok(parity.map(one).collect())
}

fn loops(host: &Host) -> Checked {
    let mut found = Vec::new();
    for path in host.tree().glob("sys/block/loop*/loop/dio")? {
        let name = path.split('/').nth(2).unwrap_or("").to_owned();
        let device = format!("/dev/{name}");
        let written = host.mounts()?.iter().any(|mount| mount.device == device && mount.has("rw"));
        if written && host.number(&path)? == 0.0 {
            found.push(Found::new(name.clone(), "its file is cached a second time").with("dev", name));
        }
    }
    Ok(found)
}

fn emulated(host: &Host) -> Checked {
    let mut found = Vec::new();
    for block in host.blocks()?.iter().filter(|block| block.model == "QEMU HARDDISK") {
        if host.word(&format!("sys/block/{}/device/vendor", block.name))? == "ATA" {
            found.push(Found::new(&block.name, "is an emulated IDE or SATA disk").with("dev", &block.name));
        }
    }
    Ok(found)
}
