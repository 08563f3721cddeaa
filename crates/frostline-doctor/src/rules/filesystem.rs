//! File systems: mount options by the use of a mount, free space, and ZFS, btrfs, XFS and FUSE.

use super::database::buffers;
use super::{NOTHING, ROOT, TWO};
use crate::facts::{self, Mount};
use crate::host::{FileSystem, Host, Role};
use crate::rule::{Checked, Confidence, Fix, Found, Rule, Severity, Side};
use crate::setting::{Change, Setting, Want};
use crate::tree::{Absent, Why};

const EXT4: &str = "https://docs.kernel.org/admin-guide/ext4.html";
const ZFS_PROPERTIES: &str = "https://openzfs.github.io/openzfs-docs/man/master/7/zfsprops.7.html";
const ZFS_TUNING: &str =
    "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "F01",
        name: "no-barrier",
        title: "A file system does not flush the disk's cache",
        reads: &["/proc/self/mountinfo", "/proc/fs/ext4/*/options", "/sys/block/*/queue/write_cache"],
        threshold: "ext4 or btrfs with nobarrier on a device that is write back; high for a log or database, low for a cache (--role PATH=cache)",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "fsync returns before the data is durable: a power cut loses acknowledged writes and the ordering of the journal. This is where the whole speed-up of such options comes from. For data with another copy (a cache) that is acceptable; a log loses acknowledged data.",
        fixes: &[Fix::here(
            "Enable barriers (and in fstab)",
            &[Change(Setting::FileSystem("barrier", "nobarrier"), Want::Exactly("barrier"))],
        )],
        gain: "Data survives a power cut; fsyncs become as slow as the disk's flush",
        verify: "`grep POINT /proc/mounts` without nobarrier; the crash test of the lab",
        sources: &[EXT4, "https://docs.kernel.org/block/writeback_cache_control.html"],
        check: nobarrier,
    },
    Rule {
        id: "F02",
        name: "fstab-will-not-mount",
        title: "A line of fstab has options that this kernel refuses",
        reads: &["/etc/fstab", "/proc/sys/kernel/osrelease"],
        threshold: "xfs with barrier or nobarrier on Linux 4.19 or later; ext4 journal_async_commit with data=ordered (or its default)",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "The mount fails at the next boot, and so does the boot, unless nofail is set. XFS lost its barrier options in 4.19.",
        fixes: &[Fix::typed(Side::Service, "Remove the option from /etc/fstab", &["findmnt --verify"], &[])],
        gain: "A host that boots",
        verify: "`findmnt --verify`; `mount -fv -a`",
        sources: &["https://docs.kernel.org/admin-guide/xfs.html#removed-mount-options", EXT4],
        check: will_not_mount,
    },
    Rule {
        id: "F03",
        name: "discard-at-once",
        title: "Every deletion waits for the disk to discard",
        reads: &["/proc/self/mountinfo", "/proc/fs/ext4/*/options"],
        threshold: "ext4 or xfs with discard on a device that is not a loop device",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "With this mount option, blocks are discarded when they are freed, so large deletions keep the disk busy at a bad time. A weekly fstrim does the same at a quiet time. The option is useful on thin volumes of a host that reclaims freed space at once.",
        fixes: &[
            Fix::here(
                "Do not discard at each deletion (and remove it from fstab)",
                &[Change(Setting::FileSystem("nodiscard", "discard"), Want::Exactly("nodiscard"))],
            ),
            Fix::typed(
                Side::Service,
                "Remove it from fstab for the next mount (on XFS, a remount does not change it)",
                &[],
                &[],
            ),
            Fix::typed(
                Side::Service,
                "Discard weekly instead",
                &["systemctl enable --now fstrim.timer"],
                &["systemctl disable --now fstrim.timer"],
            ),
        ],
        gain: "No stalls during deletions",
        verify: "d_await of `iostat -x 1` while deleting",
        sources: &["https://man7.org/linux/man-pages/man8/fstrim.8.html"],
        check: discard,
    },
    Rule {
        id: "F04",
        name: "nearly-full",
        title: "A file system is nearly full",
        reads: &["statvfs of the mounts", "zpool list"],
        threshold: "over 95 % used (btrfs and xfs over 92 %, a ZFS pool over 90 %)",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "Allocation slows down and fragments files before it fails; ZFS switches to a slower method when nearly full. Search nodes stop accepting data at 95 %.",
        fixes: &[Fix::typed(
            Side::Cloud,
            "Grow the volume, then the file system",
            &[
                "aws ec2 modify-volume --volume-id {volume} --size {gib}",
                "resize2fs {device} || xfs_growfs {point}",
            ],
            &[],
        )],
        gain: "Writes at their usual speed",
        verify: "`df {point}`",
        sources: &[ZFS_TUNING],
        check: full,
    },
    Rule {
        id: "F05",
        name: "stale-data-after-crash",
        title: "Data may be written long after its metadata",
        reads: &["/proc/self/mountinfo", "/proc/fs/ext4/*/options"],
        threshold: "ext4 with data=writeback on a mount for a log or a database",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: "the role of the mount, said by --role or read from the services",
        explanation: "After a crash a file may have its new length but contain old blocks. The option has no benefit of its own: in our measurement the whole speed-up of the published options came from nobarrier.",
        fixes: &[Fix::typed(
            Side::Service,
            "data=ordered in fstab and for the next mount (it cannot be remounted)",
            &["tune2fs -o ^journal_data_writeback {device}"],
            &["tune2fs -o journal_data_writeback {device}"],
        )],
        gain: "Files contain what was written to them",
        verify: "`grep POINT /proc/mounts` without data=writeback",
        sources: &[EXT4],
        check: writeback,
    },
    Rule {
        id: "F06",
        name: "access-times",
        title: "Every read of a file writes its access time",
        reads: &["/proc/self/mountinfo", "zfs get atime"],
        threshold: "strictatime on a writable mount of ext4, xfs or btrfs; atime=on without relatime on ZFS",
        severity: Severity::Low,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "Reads become writes. relatime, the default since 2.6.30, writes once a day; noatime gains almost nothing over it.",
        fixes: &[
            Fix::here("relatime", &[Change(Setting::AccessTime, Want::Exactly("relatime"))]),
            Fix::typed(
                Side::Service,
                "On ZFS",
                &["zfs set relatime=on {dataset}"],
                &["zfs set relatime=off {dataset}"],
            ),
        ],
        gain: "No writes for reads",
        verify: "writes of `iostat -x 1` while only reading",
        sources: &["https://man7.org/linux/man-pages/man8/mount.8.html", ZFS_TUNING],
        check: atime,
    },
    Rule {
        id: "F07",
        name: "file-system-errors",
        title: "A file system has recorded errors",
        reads: &["/sys/fs/ext4/*/errors_count"],
        threshold: "errors_count above 0",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "ext4 found its own structures damaged: a disk, memory, or a crash without flushes.",
        fixes: &[Fix::typed(
            Side::Service,
            "Copy what matters, unmount, check",
            &["umount {point}", "e2fsck -f /dev/{dev}"],
            &[],
        )],
        gain: "Data that stays readable",
        verify: "errors_count is 0",
        sources: &["https://docs.kernel.org/admin-guide/abi-testing.html"],
        check: errors,
    },
    Rule {
        id: "F08",
        name: "fstab-not-in-effect",
        title: "A mount has other options than fstab says",
        reads: &["/etc/fstab", "/proc/self/mountinfo", "/proc/fs/ext4/*/options"],
        threshold: "noatime, nobarrier, data= or compress= of a line of fstab that the mount does not have",
        severity: Severity::Low,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "fstab was changed without remounting, or the kernel ignores the option: measurements do not reflect the configuration.",
        fixes: &[Fix::typed(
            Side::Service,
            "Remount with the options of fstab",
            &["mount -o remount {point}"],
            &[],
        )],
        gain: "The configured options are in effect",
        verify: "`findmnt {point}`",
        sources: &["https://man7.org/linux/man-pages/man5/fstab.5.html"],
        check: not_in_effect,
    },
    Rule {
        id: "F09",
        name: "zfs-ashift",
        title: "A ZFS pool writes in sectors smaller than the disk's",
        reads: &["zpool get ashift", "/sys/block/*/queue/physical_block_size"],
        threshold: "ashift below 12 while a disk has physical blocks of 4,096 bytes, or on EC2",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "For each write of 512 bytes the disk reads, modifies and writes 4 KiB. ashift cannot be changed later; EBS reports 512.",
        fixes: &[Fix::typed(
            Side::Service,
            "Create the pool again and send the data to it",
            &[
                "zpool create -o ashift=12 {pool}new {devices}",
                "zfs send -R {pool}@all | zfs receive -F {pool}new",
            ],
            &[],
        )],
        gain: "Up to several times the small writes",
        verify: "`zpool get ashift POOL`",
        sources: &["https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Hardware.html"],
        check: ashift,
    },
    Rule {
        id: "F10",
        name: "zfs-recordsize",
        title: "ZFS records do not fit the requests",
        reads: &["zfs get recordsize", "/etc/postgresql/*/*/postgresql.conf"],
        threshold: "a data set for a database (by --role or PostgreSQL's data directory) with recordsize over 64K",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: "the output of zfs get",
        explanation: "A change of 8 KiB in a record of 128 KiB reads, compresses and writes 128 KiB. For a warm tier with large reads, 128K and more is right.",
        fixes: &[Fix::typed(
            Side::Service,
            "Use smaller records for files written from now on",
            &["zfs set recordsize=32K {dataset}"],
            &["zfs set recordsize={was} {dataset}"],
        )],
        gain: "Up to the ratio of the sizes for random writes; compression is weaker",
        verify: "mean write size of `zpool iostat -r`",
        sources: &[ZFS_TUNING],
        check: recordsize,
    },
    Rule {
        id: "F11",
        name: "zfs-hits-memory",
        title: "Nearly every read of ZFS comes from memory",
        reads: &["/proc/spl/kstat/zfs/arcstats"],
        threshold: "over 98 % of demand data reads hit the ARC, with over 1,000 of them between the samples",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: TWO,
        explanation: "This is good for a service, but invalidates a benchmark: before OpenZFS 2.3, direct=1 is silently answered from the ARC, so a disk test measures memory.",
        fixes: &[Fix::typed(
            Side::Service,
            "To test the disks, use a small ARC (or primarycache=metadata), and export and import the pool between runs",
            &["echo 1073741824 > /sys/module/zfs/parameters/zfs_arc_max"],
            &["echo {was} > /sys/module/zfs/parameters/zfs_arc_max"],
        )],
        gain: "Figures that measure disks",
        verify: "demand_data_hits against demand_data_misses of arcstats",
        sources: &[ZFS_PROPERTIES],
        check: arc,
    },
    Rule {
        id: "F12",
        name: "direct-through-cache",
        title: "Direct I/O on btrfs goes through the page cache",
        reads: &["/proc/mounts", "/proc/sys/kernel/osrelease"],
        threshold: "btrfs with checksums (no nodatasum, no nodatacow), Linux 6.15 or later, on a mount for a database or log",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: "the role of the mount, said by --role or read from the services",
        explanation: "Direct writes to files with checksums fall back to buffered ones, because the buffer could change while it is checksummed. Services and benchmarks that rely on O_DIRECT use the page cache instead.",
        fixes: &[Fix::typed(
            Side::Service,
            "For a database's folder, disable copy-on-write and checksums for new files",
            &["chattr +C {point}"],
            &["chattr -C {point}"],
        )],
        gain: "Direct writes, without checksums and compression of those files",
        verify: "Cached of /proc/meminfo does not grow while writing",
        sources: &["https://btrfs.readthedocs.io/en/latest/ch-checksumming.html"],
        check: btrfs_direct,
    },
    Rule {
        id: "F13",
        name: "fuse-copies",
        title: "A FUSE file system copies every read through a daemon",
        reads: &["/proc/mounts", "/proc/sys/kernel/osrelease", "/proc/*/status"],
        threshold: "a fuse mount (not of a desktop or container runtime) on Linux 6.9 or later",
        severity: Severity::Low,
        confidence: Confidence::Low,
        needs: NOTHING,
        explanation: "Measured: plain FUSE gives 12 % of cached sequential reads and 3 % of cached random ones; with passthrough (Linux 6.9, root) the kernel reads the backing file itself, within 5 % of native.",
        fixes: &[Fix::typed(Side::Service, "Run the daemon as root with passthrough, if it can", &[], &[])],
        gain: "Up to 8 times for sequential and 30 times for random reads of cached data",
        verify: "CPU time of the daemon while files are read",
        sources: &["https://docs.kernel.org/filesystems/fuse/fuse-passthrough.html"],
        check: fuse,
    },
    Rule {
        id: "F14",
        name: "log-in-memory-or-network",
        title: "A log or database is in memory, or in a container's own layer",
        reads: &["/proc/mounts", "/etc/frostline/config.toml"],
        threshold: "a role log or database (given, or read from the configuration of Frostline, PostgreSQL or a search node) on tmpfs, ramfs or overlay",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "tmpfs and ramfs lose everything at a reboot. An overlay, the root of a container, loses everything when the container is replaced. Acknowledged writes are lost with it.",
        fixes: &[Fix::typed(
            Side::Service,
            "Use a folder on a disk: --data for Frostline, data_directory for PostgreSQL, path.data for a search node",
            &[],
            &[],
        )],
        gain: "Acknowledged writes survive",
        verify: "`df FOLDER`",
        sources: &["https://docs.kernel.org/filesystems/tmpfs.html"],
        check: volatile,
    },
    Rule {
        id: "F15",
        name: "zfs-sync-disabled",
        title: "ZFS is told to ignore fsync (sync=disabled)",
        reads: &["/proc/mounts", "zfs get sync"],
        threshold: "a mounted data set with sync=disabled; high for a log, low for a cache (--role PATH=cache)",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: "the output of zfs get",
        explanation: "fsync returns before anything is on disk. ZFS writes a transaction group every five seconds. A power cut or a kernel panic loses up to five seconds of acknowledged writes. The order of writes is kept, so a database starts again, but without its last transactions. A separate log device (SLOG) on a fast disk makes fsync fast without this loss.",
        fixes: &[Fix::typed(
            Side::Service,
            "Let fsync wait for the disk again; if that is too slow, add a log device",
            &["zfs set sync=standard {dataset}"],
            &["zfs set sync=disabled {dataset}"],
        )],
        gain: "Acknowledged writes survive a power cut; fsyncs become as slow as the pool's log",
        verify: "`zfs get sync DATASET`",
        sources: &[ZFS_PROPERTIES],
        check: zfs_sync,
    },
    Rule {
        id: "F16",
        name: "arc-beside-servers",
        title: "ZFS's cache (ARC) and the servers' memory are together larger than the host's",
        reads: &[
            "/proc/spl/kstat/zfs/arcstats",
            "/proc/*/cmdline",
            "/etc/postgresql/*/*/postgresql.conf",
            "/proc/meminfo",
        ],
        threshold: "the ARC's maximum (c_max), heaps of search nodes and buffers of PostgreSQL together over 95 % of memory",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: ROOT,
        explanation: "The ARC caches reads. It may grow to half of memory, from OpenZFS 2.3 on to nearly all of it. It gives memory back only after memory has run short. Until then, servers that allocate theirs wait, or the kernel kills one of them.",
        fixes: &[Fix::typed(
            Side::Service,
            "Limit the ARC to what the servers leave (to make it permanent: zfs_arc_max in /etc/modprobe.d/zfs.conf)",
            &["echo {bytes} > /sys/module/zfs/parameters/zfs_arc_max"],
            &["echo {was} > /sys/module/zfs/parameters/zfs_arc_max"],
        )],
        gain: "No stalls in reclaim, and no killed server",
        verify: "size and c_max of arcstats; allocstall of /proc/vmstat does not grow",
        sources: &[
            "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Module%20Parameters.html",
        ],
        check: arc_beside,
    },
];

/// The longest name first, so that the message names the right disk of several.
fn flushable(host: &Host, mount: &Mount) -> Option<String> {
    let disks = host.disks_below(&mount.device);
    disks.into_iter().find(|disk| host.is_written_back(disk).unwrap_or(false))
}

/// Those of the file systems that have an option. A rule that finds none and does not know all options of one is
/// unknown.
fn having<'a>(
    host: &Host,
    file_systems: impl Iterator<Item = &'a FileSystem<'a>>,
    has: impl Fn(&Mount) -> bool,
) -> Vec<&'a FileSystem<'a>> {
    let (with, without): (Vec<_>, Vec<_>) = file_systems.partition(|all| has(all.first));
    without.iter().for_each(|all| note_unknown(host, all.first));
    with
}

/// Notes that not all options of a mount are known.
fn note_unknown(host: &Host, mount: &Mount) {
    if !mount.is_complete {
        let what = format!("lacks the options of {}", mount.device);
        host.tree().note(&Absent::damaged("proc/fs/ext4", &what));
    }
}

fn nobarrier(host: &Host) -> Checked {
    let mut found = Vec::new();
    let file_systems = host.file_systems()?;
    for file_system in having(host, file_systems.iter(), Mount::is_nobarrier) {
        let (role, mount) = (host.role_of_all(file_system), file_system.first);
        let disks = host.disks_below(&mount.device);
        let known = !disks.is_empty() && disks.iter().all(|disk| host.is_written_back(disk).is_ok());
        let cached = flushable(host, mount);
        if known && cached.is_none() {
            continue;
        }
        let (severity, who) = match role {
            Some(Role::Cache) => (Severity::Low, "a cache, which may lose everything"),
            Some(Role::Log) => (Severity::High, "a log: acknowledged writes are lost in a power cut"),
            Some(Role::Database) => {
                (Severity::High, "a database: it may not be consistent after a power cut")
            }
            None => (
                Severity::High,
                "data is lost in a power cut, unless it has another copy (then say --role PATH=cache)",
            ),
        };
        let disk = cached.map_or_else(
            || "a disk of unknown cache".to_owned(),
            |disk| format!("{disk} with a volatile cache"),
        );
        let says = format!("{} without flushes on {disk}: {who}", mount.kind);
        found.push(file_system.found(says).severe(severity));
    }
    Ok(found)
}

fn will_not_mount(host: &Host) -> Checked {
    let text = match host.text("etc/fstab") {
        Err(e) if e.is_missing() && host.tree().has("etc") => return Ok(Vec::new()),
        text => text?,
    };
    let kernel = host.kernel()?;
    let mut found = Vec::new();
    for line in facts::mounts(&text) {
        if line.kind == "xfs" && kernel >= (4, 19) && (line.has("nobarrier") || line.has("barrier")) {
            let says =
                format!("xfs has no barrier options since Linux 4.19; this is {}.{}", kernel.0, kernel.1);
            found.push(Found::new(line.point.clone(), says));
        }
        if line.kind == "ext4"
            && line.has("journal_async_commit")
            && line.value("data").is_none_or(|data| data == "ordered")
        {
            found.push(Found::new(line.point, "ext4 refuses journal_async_commit with data=ordered"));
        }
    }
    Ok(found)
}

fn discard(host: &Host) -> Checked {
    let file_systems = host.file_systems()?;
    let on_disk = file_systems.iter().filter(|all| {
        matches!(all.first.kind.as_str(), "ext4" | "xfs") && !all.first.device.starts_with("/dev/loop")
    });
    let eager = having(host, on_disk, |mount| mount.has("discard"));
    Ok(eager.iter().map(|all| all.found("discards when files are deleted")).collect())
}

fn full(host: &Host) -> Checked {
    let text = host.text("commands/df").map_err(|mut e| {
        e.why = if e.is_missing() {
            Why::Unsaid("room can only be asked of a live host; the capture lacks it")
        } else {
            e.why
        };
        e
    })?;
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.rsplitn(4, ' ');
        let (Some(free), Some(total), Some(kind), Some(point)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (Ok(free), Ok(total)) = (free.parse::<f64>(), total.parse::<f64>()) else { continue };
        let limit = match kind {
            "zfs" => 0.90,
            "btrfs" | "xfs" => 0.92,
            _ => 0.95,
        };
        if total > 0.0 && 1.0 - free / total > limit {
            let severity = if free / total < 0.02 { Severity::High } else { Severity::Medium };
            let says =
                format!("{:.1} % of {:.1} GiB are used", 100.0 * (1.0 - free / total), total / 1073741824.0);
            found.push(Found::new(point, says).severe(severity).with("point", point));
        }
    }
    Ok(found)
}

fn writeback(host: &Host) -> Checked {
    let file_systems = host.file_systems()?;
    let durable = file_systems
        .iter()
        .filter(|all| all.first.kind == "ext4")
        .filter(|all| matches!(host.role_of_all(all), Some(Role::Log | Role::Database)));
    let loose = having(host, durable, |mount| mount.value("data") == Some("writeback"));
    Ok(loose
        .iter()
        .map(|all| all.found("files of a log or database may hold old blocks after a crash"))
        .collect())
}

/// The output of `zfs get -Hp -o name,property,value`: (data set, property, value).
fn zfs_properties(host: &Host) -> Result<Vec<[String; 3]>, Absent> {
    if !host.mounts()?.iter().any(|mount| mount.kind == "zfs") {
        return Ok(Vec::new());
    }
    let text = host.text("commands/zfs-get").map_err(|_| {
        Absent::new("zfs get", Why::Unsaid("zfs is not installed, or the capture lacks its output"))
    })?;
    let row = |line: &str| {
        let mut words = line.split('\t').map(str::to_owned);
        Some([words.next()?, words.next()?, words.next()?])
    };
    Ok(text.lines().filter_map(row).collect())
}

fn atime(host: &Host) -> Checked {
    let strict = |mount: &&Mount| {
        let kind = matches!(mount.kind.as_str(), "ext4" | "xfs" | "btrfs");
        kind && mount.is_visible()
            && mount.has("rw")
            && !["relatime", "noatime", "lazytime"].iter().any(|option| mount.has(option))
    };
    // Each mount has its own.
    let mut found: Vec<Found> = host
        .mounts()?
        .iter()
        .filter(strict)
        .map(|mount| {
            Found::new(&mount.point, "writes the access time at every read").with("point", &mount.point)
        })
        .collect();
    let properties = zfs_properties(host)?;
    let on = |dataset: &str, name: &str| {
        properties.iter().any(|[of, property, value]| of == dataset && property == name && value == "on")
    };
    for [dataset, property, value] in &properties {
        if property == "atime" && value == "on" && !on(dataset, "relatime") {
            found.push(Found::new(dataset, "writes the access time at every read").with("dataset", dataset));
        }
    }
    Ok(found)
}

fn errors(host: &Host) -> Checked {
    let mut found = Vec::new();
    for path in host.tree().glob("sys/fs/ext4/*/errors_count")? {
        let errors = host.number(&path)?;
        if errors > 0.0 {
            let device = path.split('/').nth(3).unwrap_or("").to_owned();
            found.push(
                Found::new(device.clone(), format!("{errors} errors since the last check"))
                    .with("dev", device),
            );
        }
    }
    Ok(found)
}

fn not_in_effect(host: &Host) -> Checked {
    let text = match host.text("etc/fstab") {
        Err(e) if e.is_missing() && host.tree().has("etc") => return Ok(Vec::new()),
        text => text?,
    };
    let mounts = host.mounts()?;
    let mut found = Vec::new();
    for line in facts::mounts(&text) {
        let Some(mount) = mounts.iter().rfind(|mount| mount.point == line.point && mount.kind == line.kind)
        else {
            continue;
        };
        let lacks = |option: &&String| match option.split_once('=') {
            // The kernel leaves the default out.
            Some(("data", value)) => mount.value("data").unwrap_or("ordered") != value,
            Some(("compress" | "compress-force", value)) => !mount
                .value("compress")
                .or(mount.value("compress-force"))
                .is_some_and(|now| now.starts_with(value.split(':').next().unwrap_or(""))),
            None if option.as_str() == "nobarrier" => !mount.is_nobarrier(),
            None if option.as_str() == "noatime" => !mount.has("noatime"),
            _ => false,
        };
        let is_default = |option: &String| option == "nobarrier" || option.starts_with("data=");
        let (unknown, known): (Vec<_>, Vec<_>) =
            line.options.iter().filter(lacks).partition(|option| !mount.is_complete && is_default(option));
        if !unknown.is_empty() {
            note_unknown(host, mount);
        }
        if let Some(option) = known.first() {
            found.push(
                Found::new(&mount.point, format!("fstab says {option}, the mount does not"))
                    .with("point", &mount.point),
            );
        }
    }
    Ok(found)
}

fn ashift(host: &Host) -> Checked {
    if !host.mounts()?.iter().any(|mount| mount.kind == "zfs") {
        return Ok(Vec::new());
    }
    let text = host.text("commands/zpool-ashift").map_err(|_| {
        Absent::new(
            "zpool get ashift",
            Why::Unsaid("zpool is not installed, or the capture lacks its output"),
        )
    })?;
    let large = host.blocks()?.iter().any(|block| {
        block.is_ebs()
            || host
                .queue(&block.name, "physical_block_size")
                .and_then(|size| size.parse::<u32>().ok())
                .is_some_and(|size| size >= 4096)
    });
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split('\t');
        let (Some(pool), Some("ashift"), Some(value)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        // 0 means that each disk was asked.
        if large && value.parse::<u32>().is_ok_and(|ashift| (1..12).contains(&ashift)) {
            found.push(Found::new(pool, format!("ashift is {value}")).with("pool", pool));
        }
    }
    Ok(found)
}

fn recordsize(host: &Host) -> Checked {
    let properties = zfs_properties(host)?;
    let mut found = Vec::new();
    for mount in host
        .mounts()?
        .iter()
        .filter(|mount| mount.kind == "zfs" && host.role_of(mount) == Some(Role::Database))
    {
        let size = properties
            .iter()
            .find(|[dataset, property, _]| *dataset == mount.device && property == "recordsize");
        let bytes = size.and_then(|[.., value]| value.parse::<f64>().ok());
        if let Some(bytes) = bytes.filter(|bytes| *bytes > 65536.0) {
            let says = format!("records of {:.0} KiB for a database", bytes / 1024.0);
            found.push(Found::new(&mount.device, says).with("dataset", &mount.device).with("was", bytes));
        }
    }
    Ok(found)
}

fn zfs_sync(host: &Host) -> Checked {
    let properties = zfs_properties(host)?;
    let mut found = Vec::new();
    for mount in host.mounts()?.iter().filter(|mount| mount.kind == "zfs") {
        let mut of =
            properties.iter().filter(|[dataset, property, _]| *dataset == mount.device && property == "sync");
        let Some([.., value]) = of.next() else {
            // Captures before this rule.
            return Err(Absent::new("zfs get", Why::Unsaid("its output lacks sync")));
        };
        if value == "disabled" {
            let (severity, who) = match host.role_of(mount) {
                Some(Role::Cache) => (Severity::Low, "a cache, which may lose everything"),
                Some(Role::Log) => (Severity::High, "a log: acknowledged writes are lost in a power cut"),
                Some(Role::Database) => {
                    (Severity::Medium, "a database: it loses transactions that it acknowledged")
                }
                None => (Severity::Medium, "files that programs believe to be durable"),
            };
            let says = format!("sync=disabled for {who}");
            found.push(Found::new(&mount.device, says).severe(severity).with("dataset", &mount.device));
        }
    }
    Ok(found)
}

const ARCSTATS: &str = "proc/spl/kstat/zfs/arcstats";

/// A value of arcstats: rows of a name, a type and a value.
fn arcstat(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(2)?.parse().ok()
}

fn arc_beside(host: &Host) -> Checked {
    if !host.mounts()?.iter().any(|mount| mount.kind == "zfs") {
        return Ok(Vec::new());
    }
    let most = arcstat(&host.counted(ARCSTATS)?, "c_max");
    let most = most.ok_or_else(|| Absent::damaged(ARCSTATS, "lacks c_max"))?;
    let memory = host.memory()?;
    let heaps: f64 = host.search_heaps()?.iter().filter_map(|(_, heap)| heap.most).sum();
    let buffers: f64 = host.postgres()?.iter().map(|server| buffers(&server.settings)).sum();
    let servers = heaps + buffers;
    if servers == 0.0 || most + servers <= 0.95 * memory {
        return Ok(Vec::new());
    }
    let gib = |bytes: f64| bytes / 1_073_741_824.0;
    let says = format!(
        "the ARC may grow to {:.1} GiB beside {:.1} GiB of servers, of {:.1} GiB of memory",
        gib(most),
        gib(servers),
        gib(memory)
    );
    // A tenth for everything else; ZFS ignores less than 64 MiB.
    let bytes = (0.9 * memory - servers).max(67_108_864.0).floor();
    let was = host.number_or("sys/module/zfs/parameters/zfs_arc_max", 0.0)?;
    Ok(vec![Found::new("ARC", says).with("bytes", bytes).with("was", was)])
}

fn arc(host: &Host) -> Checked {
    if !host.mounts()?.iter().any(|mount| mount.kind == "zfs") {
        return Ok(Vec::new());
    }
    let parse = |text: &str| Some((arcstat(text, "demand_data_hits")?, arcstat(text, "demand_data_misses")?));
    let path = ARCSTATS;
    let (Some(before), Some(after)) = host.twice_parsed(path, parse)? else {
        return Err(Absent::damaged(path, "lacks demand_data_hits"));
    };
    let (hits, misses) = ((after.0 - before.0).max(0.0), (after.1 - before.1).max(0.0));
    let share = hits / (hits + misses).max(1.0);
    if hits + misses < 1000.0 || share <= 0.98 {
        return Ok(Vec::new());
    }
    let was = host.number_or("sys/module/zfs/parameters/zfs_arc_max", 0.0)?;
    Ok(vec![Found::new("ARC", format!("{:.1} % of reads came from memory", 100.0 * share)).with("was", was)])
}

fn btrfs_direct(host: &Host) -> Checked {
    let checksummed =
        |mount: &&Mount| mount.kind == "btrfs" && !mount.has("nodatasum") && !mount.has("nodatacow");
    let mut mounts = host.mounts()?.iter().filter(checksummed).peekable();
    if mounts.peek().is_none() || host.kernel()? < (6, 15) {
        return Ok(Vec::new());
    }
    let wanted = mounts.filter(|mount| matches!(host.role_of(mount), Some(Role::Log | Role::Database)));
    Ok(wanted
        .map(|mount| Found::new(&mount.point, "direct writes are buffered").with("point", &mount.point))
        .collect())
}

fn fuse(host: &Host) -> Checked {
    const OTHERS: [&str; 6] = ["gvfsd", "portal", "lxcfs", "fuse-overlayfs", "rclone", "sshfs"];
    let ours = |mount: &&Mount| {
        let fuse = mount.kind == "fuse" || mount.kind.starts_with("fuse.");
        fuse && !OTHERS.iter().any(|other| mount.kind.contains(other) || mount.device.contains(other))
    };
    let mut mounts = host.mounts()?.iter().filter(ours).peekable();
    if mounts.peek().is_none() || host.kernel()? < (6, 9) {
        return Ok(Vec::new());
    }
    Ok(mounts.map(|mount| Found::new(&mount.point, format!("{} may copy every read", mount.kind))).collect())
}

fn volatile(host: &Host) -> Checked {
    let mut found = Vec::new();
    for mount in host.mounts()?.iter().filter(|m| matches!(m.kind.as_str(), "tmpfs" | "ramfs" | "overlay")) {
        if let Some(role @ (Role::Log | Role::Database)) = host.role_of(mount) {
            let what = if role == Role::Log { "a log" } else { "a database" };
            found.push(Found::new(&mount.point, format!("{what} is on {}", mount.kind)));
        }
    }
    Ok(found)
}
