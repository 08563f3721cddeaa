//! PostgreSQL's settings, against the host that it runs on.

use std::collections::BTreeMap;

use super::ROOT;
use crate::facts::Mount;
use crate::facts::config::postgres_bytes;
use crate::host::{Host, Postgres, Role};
use crate::rule::{Checked, Confidence, Fix, Found, Rule, Severity, Side};
use crate::setting::{Change, Setting, Want};
use crate::tree::Fact;

const RESOURCES: &str = "https://www.postgresql.org/docs/current/runtime-config-resource.html";
const WAL: &str = "https://www.postgresql.org/docs/current/runtime-config-wal.html";
const FILES: &[&str] = &[
    "/proc/*/cmdline",
    "/etc/postgresql/*/*/postgresql.conf",
    "/var/lib/pgsql/data/postgresql.conf",
    "/var/lib/pgsql/*/data/postgresql.conf",
    "postgresql.auto.conf of the data directory",
];
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "P01",
        name: "needless-full-pages",
        title: "PostgreSQL logs whole pages on storage that writes them whole",
        reads: &["/etc/postgresql/*/*/postgresql.conf", "/proc/mounts", "zfs get recordsize"],
        threshold: "full_page_writes on, with the data directory (--role PATH=database, or -D) on ZFS",
        severity: Severity::Low,
        confidence: Confidence::Low,
        needs: ROOT,
        explanation: "After each checkpoint the first change of a page logs all 8 KiB of it, against torn writes. A copy-on-write file system with records of 8 KiB or more cannot tear a page. The same is true of disks with atomic writes of 16 KiB (EBS torn write prevention), if the file system and its settings preserve it: verify this first.",
        fixes: &[Fix::typed(
            Side::Service,
            "In postgresql.conf, then reload; only after verification",
            &["full_page_writes = off"],
            &["full_page_writes = on"],
        )],
        gain: "Up to several times less log after checkpoints",
        verify: "wal_fpi of pg_stat_wal",
        sources: &[
            WAL,
            "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html",
        ],
        check: full_pages,
    },
    Rule {
        id: "P02",
        name: "small-shared-buffers",
        title: "PostgreSQL's buffers have the small default size",
        reads: FILES,
        threshold: "shared_buffers under 1 GiB (or not set: 128 MiB) on a host of 8 GiB or more",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: ROOT,
        explanation: "A quarter of memory is the documented starting point for a dedicated server.",
        fixes: &[Fix::typed(
            Side::Service,
            "In postgresql.conf, then restart",
            &["shared_buffers = {quarter}"],
            &["shared_buffers = {was}"],
        )],
        gain: "Fewer reads of the page cache and writes by backends",
        verify: "the hit ratio of pg_stat_database; writes by backends in pg_stat_io",
        sources: &[RESOURCES],
        check: shared_buffers,
    },
    Rule {
        id: "P03",
        name: "unsafe-database",
        title: "PostgreSQL acknowledges data that is not durable",
        reads: FILES,
        threshold: "fsync off (high), full_page_writes off on ext4, xfs or btrfs with nodatacow, synchronous_commit off (low)",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: ROOT,
        explanation: "Without fsync a power cut leaves a database that does not start. Without full pages it may hold torn ones. With synchronous_commit off it loses the last acknowledged transactions but stays consistent.",
        fixes: &[Fix::typed(
            Side::Service,
            "In postgresql.conf, then reload",
            &["{setting} = on"],
            &["{setting} = off"],
        )],
        gain: "Acknowledged data is durable",
        verify: "`SHOW fsync`",
        sources: &[WAL],
        check: not_safe,
    },
    Rule {
        id: "P04",
        name: "buffers-without-huge-pages",
        title: "Large buffers of PostgreSQL use small pages",
        reads: &["/etc/postgresql/*/*/postgresql.conf", "/proc/meminfo"],
        threshold: "shared_buffers of 8 GiB or more, and huge_pages off or no huge pages reserved",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: ROOT,
        explanation: "Each backend has its own page tables for the buffers: 2 MiB for each GiB, times the connections. huge_pages=try silently falls back.",
        fixes: &[
            Fix::here(
                "Reserve them, preferably at boot",
                &[Change(Setting::Sysctl("vm.nr_hugepages"), Want::Least("{pages}"))],
            ),
            Fix::typed(
                Side::Service,
                "Then require them, and restart",
                &["huge_pages = on"],
                &["huge_pages = try"],
            ),
        ],
        gain: "5-10 % of throughput, gigabytes of page tables with many connections",
        verify: "`SHOW huge_pages_status` (17); PageTables of /proc/meminfo",
        sources: &["https://www.postgresql.org/docs/current/kernel-resources.html#LINUX-HUGE-PAGES"],
        check: huge_pages,
    },
    Rule {
        id: "P05",
        name: "small-log-before-checkpoint",
        title: "PostgreSQL's checkpoints are forced by a small log",
        reads: FILES,
        threshold: "max_wal_size at most 1 GiB (the default) on a host of 16 GiB or more",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: ROOT,
        explanation: "Each checkpoint writes all changed pages and makes the next changes log whole pages. Under load 1 GiB of log lasts seconds. Recovery after a crash takes longer with more.",
        fixes: &[Fix::typed(
            Side::Service,
            "In postgresql.conf, then reload",
            &["max_wal_size = 16GB", "checkpoint_timeout = 15min"],
            &["max_wal_size = {was}", "checkpoint_timeout = 5min"],
        )],
        gain: "Less log and fewer stalls: often tens of percent of writes",
        verify: "checkpoints by time, not by request, in pg_stat_checkpointer",
        sources: &[WAL],
        check: wal_size,
    },
    Rule {
        id: "P06",
        name: "costs-of-a-spinning-disk",
        title: "PostgreSQL plans as if random reads were expensive",
        reads: &["/etc/postgresql/*/*/postgresql.conf", "/sys/block/*/queue/rotational"],
        threshold: "random_page_cost of 4 or more (or not set) and no disk of the host rotates",
        severity: Severity::Low,
        confidence: Confidence::Medium,
        needs: ROOT,
        explanation: "The default of 4 suits one spinning disk; on SSD and network volumes it makes the planner prefer sequential scans to indexes.",
        fixes: &[Fix::typed(
            Side::Service,
            "In postgresql.conf, then reload; check the plans of important queries",
            &["random_page_cost = 1.1", "effective_io_concurrency = 64"],
            &["random_page_cost = {was}", "effective_io_concurrency = 16"],
        )],
        gain: "Index scans where they are faster",
        verify: "EXPLAIN (ANALYZE, BUFFERS) of important queries",
        sources: &["https://www.postgresql.org/docs/current/runtime-config-query.html"],
        check: random_cost,
    },
];

type Settings = BTreeMap<String, String>;

/// Findings of every server for which `says` says something.
fn each(host: &Host, says: impl Fn(&Settings, &Postgres) -> Fact<Option<Found>>) -> Checked {
    let mut found = Vec::new();
    for server in host.postgres()? {
        if let Some(one) = says(&server.settings, &server)? {
            found.push(Found { object: server.config, ..one });
        }
    }
    Ok(found)
}

fn is_off(settings: &Settings, name: &str) -> bool {
    let value = settings.get(name).map(|value| value.to_ascii_lowercase());
    matches!(value.as_deref(), Some("off" | "false" | "no" | "0" | "f" | "n"))
}

pub(super) fn buffers(settings: &Settings) -> f64 {
    settings
        .get("shared_buffers")
        .and_then(|value| postgres_bytes(value, 8192.0))
        .unwrap_or(128.0 * 1024.0 * 1024.0)
}

/// The mounts that hold a server's data; where its directory is not known, all that hold a database.
fn data_mounts<'a>(host: &'a Host, server: &Postgres) -> Fact<Vec<&'a Mount>> {
    match &server.data {
        Some(data) => Ok(host.mount_of(data)?.into_iter().collect()),
        None => {
            Ok(host.mounts()?.iter().filter(|mount| host.role_of(mount) == Some(Role::Database)).collect())
        }
    }
}

fn full_pages(host: &Host) -> Checked {
    each(host, |settings, server| {
        let whole = data_mounts(host, server)?.iter().any(|mount| mount.kind == "zfs");
        Ok((whole && !is_off(settings, "full_page_writes"))
            .then(|| Found::new("", "logs whole pages on ZFS, which cannot tear them")))
    })
}

fn shared_buffers(host: &Host) -> Checked {
    each(host, |settings, _| {
        let memory = host.memory()?;
        let now = buffers(settings);
        let quarter = format!("{:.0}GB", (memory / 4.0 / GIB).max(1.0).floor());
        let was = settings.get("shared_buffers").cloned().unwrap_or_else(|| "128MB".to_owned());
        let says = format!("shared_buffers is {was} of {:.0} GiB of memory", memory / GIB);
        Ok((now < GIB && memory >= 8.0 * GIB)
            .then(|| Found::new("", says).with("quarter", quarter).with("was", was)))
    })
}

fn not_safe(host: &Host) -> Checked {
    each(host, |settings, server| {
        if is_off(settings, "fsync") {
            return Ok(Some(
                Found::new("", "fsync is off: a power cut destroys the database").with("setting", "fsync"),
            ));
        }
        if is_off(settings, "full_page_writes") {
            let torn = data_mounts(host, server)?
                .iter()
                .any(|mount| matches!(mount.kind.as_str(), "ext4" | "xfs") || mount.has("nodatacow"));
            if torn {
                let says = "full_page_writes is off on a file system that can tear pages";
                return Ok(Some(Found::new("", says).with("setting", "full_page_writes")));
            }
        }
        let loses = is_off(settings, "synchronous_commit");
        let says = "synchronous_commit is off: the last acknowledged transactions are lost in a crash";
        Ok(loses.then(|| Found::new("", says).severe(Severity::Low).with("setting", "synchronous_commit")))
    })
}

fn huge_pages(host: &Host) -> Checked {
    each(host, |settings, _| {
        let size = buffers(settings);
        if size < 8.0 * GIB {
            return Ok(None);
        }
        let reserved = host.meminfo("HugePages_Total")?;
        let off = is_off(settings, "huge_pages");
        // A twentieth more for what PostgreSQL shares beside its buffers.
        let pages = (size * 1.05 / 2097152.0).ceil();
        let says = format!(
            "{:.0} GiB of buffers, {reserved} huge pages reserved{}",
            size / GIB,
            if off { ", huge_pages is off" } else { "" }
        );
        Ok((off || reserved == 0.0).then(|| Found::new("", says).with("pages", pages)))
    })
}

fn wal_size(host: &Host) -> Checked {
    each(host, |settings, _| {
        let was = settings.get("max_wal_size").cloned().unwrap_or_else(|| "1GB".to_owned());
        let small = postgres_bytes(&was, 1024.0 * 1024.0).is_some_and(|size| size <= GIB);
        Ok((small && host.memory()? >= 16.0 * GIB)
            .then(|| Found::new("", format!("max_wal_size is {was}")).with("was", was)))
    })
}

fn random_cost(host: &Host) -> Checked {
    each(host, |settings, _| {
        let was = settings.get("random_page_cost").cloned().unwrap_or_else(|| "4".to_owned());
        let dear = was.parse::<f64>().is_ok_and(|cost| cost >= 4.0);
        let blocks = host.blocks()?;
        let turns = |name: &str| host.queue(name, "rotational").is_none_or(|hint| hint == "1");
        let still = !blocks.is_empty() && blocks.iter().all(|block| !turns(&block.name));
        Ok((dear && still).then(|| {
            Found::new("", format!("random_page_cost is {was}, and no disk rotates")).with("was", was)
        }))
    })
}
