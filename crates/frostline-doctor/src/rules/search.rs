//! Elasticsearch and OpenSearch nodes, and limits of all servers.

use super::{NOTHING, ROOT};
use crate::facts::config;
use crate::host::{Host, JVM_FILES};
use crate::rule::{Checked, Confidence, Fix, Found, Rule, Severity, Side};
use crate::setting::{Change, Setting, Want};
use crate::tree::Absent;

const HEAP: &str =
    "https://www.elastic.co/guide/en/elasticsearch/reference/current/advanced-configuration.html";
const BOOTSTRAP: &str =
    "https://www.elastic.co/guide/en/elasticsearch/reference/current/bootstrap-checks.html";
const JVM: &[&str] = &[
    "/etc/elasticsearch/jvm.options",
    "/etc/elasticsearch/jvm.options.d/*.options",
    "/etc/opensearch/jvm.options",
    "/proc/*/cmdline",
];
const YML: &[&str] = &["/etc/elasticsearch/elasticsearch.yml", "/etc/opensearch/opensearch.yml"];
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "E01",
        name: "heap-too-large",
        title: "A search node's heap takes memory from the page cache",
        reads: JVM,
        threshold: "-Xmx over half of memory, or over 31 GiB",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: ROOT,
        explanation: "Segments are read through the page cache, so memory taken by the heap is missing for searches. Above about 31 GiB object pointers double in size, so that 40 GiB hold less than 31.",
        fixes: &[Fix::typed(
            Side::Service,
            "In jvm.options.d/heap.options, then restart the node",
            &["-Xms{right}g", "-Xmx{right}g"],
            &["-Xmx{was}g"],
        )],
        gain: "More searches from memory, shorter garbage-collection pauses",
        verify: "`GET _nodes/stats/jvm,os`; compressed ordinary object pointers true in the log",
        sources: &[HEAP],
        check: heap_size,
    },
    Rule {
        id: "E02",
        name: "heap-grows",
        title: "A search node's heap starts smaller than its maximum",
        reads: JVM,
        threshold: "-Xms differs from -Xmx",
        severity: Severity::Low,
        confidence: Confidence::High,
        needs: ROOT,
        explanation: "Growing the heap pauses the node, and the bootstrap check refuses it in production. Memory that is needed later may no longer be available.",
        fixes: &[Fix::typed(
            Side::Service,
            "Use the same value for both, then restart the node",
            &["-Xms{most}g", "-Xmx{most}g"],
            &["-Xms{was}g"],
        )],
        gain: "No pauses to grow the heap",
        verify: "`GET _nodes/stats/jvm`: heap_committed equals heap_max",
        sources: &[BOOTSTRAP],
        check: heap_grows,
    },
    Rule {
        id: "E03",
        name: "heap-may-be-swapped",
        title: "A search node's heap may be swapped out",
        reads: &["/etc/elasticsearch/elasticsearch.yml", "/etc/opensearch/opensearch.yml", "/proc/swaps"],
        threshold: "swap is on and bootstrap.memory_lock is not true",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: ROOT,
        explanation: "The garbage collector touches the whole heap. If parts are swapped out, a pause of milliseconds becomes minutes, and the node leaves the cluster.",
        fixes: &[
            Fix::typed(
                Side::Service,
                "Lock it: in the yml, with LimitMEMLOCK=infinity in the unit",
                &["bootstrap.memory_lock: true"],
                &["remove the line"],
            ),
            Fix::typed(Side::Service, "Or no swap", &["swapoff -a"], &["swapon -a"]),
        ],
        gain: "No pauses of minutes",
        verify: "`GET _nodes?filter_path=**.mlockall`: true",
        sources: &[BOOTSTRAP],
        check: swapped,
    },
    Rule {
        id: "E04",
        name: "too-few-maps",
        title: "A search node can map too few files",
        reads: &["/proc/sys/vm/max_map_count", "/proc/*/cmdline", "/etc/elasticsearch/elasticsearch.yml"],
        threshold: "vm.max_map_count below 262,144 where a search node runs (or is configured, if no processes are known)",
        severity: Severity::High,
        confidence: Confidence::High,
        needs: NOTHING,
        explanation: "Each segment file is mapped. At the limit, mapping fails with 'Map failed'. In production the node does not start with a lower limit.",
        fixes: &[Fix::here(
            "Raise the limit (also in /etc/sysctl.d)",
            &[Change(Setting::Sysctl("vm.max_map_count"), Want::Least("1048576"))],
        )],
        gain: "The node starts and stays up",
        verify: "`sysctl vm.max_map_count`",
        sources: &[BOOTSTRAP],
        check: maps,
    },
    Rule {
        id: "E05",
        name: "async-translog",
        title: "A search node acknowledges before its translog is durable",
        reads: YML,
        threshold: "index.translog.durability async",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: ROOT,
        explanation: "Up to five seconds of acknowledged documents are lost in a crash. It is often chosen because fsync is slow: use a faster disk, or choose it deliberately for logs that can be sent again.",
        fixes: &[Fix::typed(
            Side::Service,
            "In the yml or the index template",
            &["index.translog.durability: request"],
            &["index.translog.durability: async"],
        )],
        gain: "Acknowledged data is durable",
        verify: "`GET INDEX/_settings`",
        sources: &[
            "https://www.elastic.co/guide/en/elasticsearch/reference/current/index-modules-translog.html",
        ],
        check: translog,
    },
    Rule {
        id: "E06",
        name: "no-snapshot-cache",
        title: "A node may hold searchable snapshots but has no cache for them",
        reads: YML,
        threshold: "node.roles with data_frozen and another data role, and no xpack.searchable.snapshot.shared_cache.size; node.roles with search or warm and another role, and no node.search.cache.size",
        severity: Severity::Medium,
        confidence: Confidence::High,
        needs: ROOT,
        explanation: "An index that is mounted from a snapshot is read from the bucket through a cache on the node's disk. A node that has only this role uses 90 % of its disk for the cache (OpenSearch: 80 %). A node with other roles has no cache until you set its size: Elasticsearch then places no partially mounted index on it, and OpenSearch 3 does not start. Use 1-10 % of the data: in a published study a dashboard over 4 TB took 11 s with a cache of 5 % of the data, and 224 s with 0.5 %.",
        fixes: &[Fix::typed(
            Side::Service,
            "Set the size (Elasticsearch, OpenSearch), such as 5 % of 4 TB of data, then restart",
            &["xpack.searchable.snapshot.shared_cache.size: 200GB", "node.search.cache.size: 200gb"],
            &["remove the line"],
        )],
        gain: "Mounted indices are searched there; up to 20 times for repeated dashboards",
        verify: "`GET _searchable_snapshots/cache/stats` (Elasticsearch), `GET _nodes/stats/file_cache` (OpenSearch)",
        sources: &[
            "https://www.elastic.co/guide/en/elasticsearch/reference/current/searchable-snapshots.html",
            "https://docs.opensearch.org/latest/tuning-your-cluster/availability-and-recovery/snapshots/searchable_snapshot/",
        ],
        check: snapshot_cache,
    },
    Rule {
        id: "E07",
        name: "few-open-files",
        title: "A server has a low limit of open files",
        reads: &["/proc/*/limits"],
        threshold: "a search node, PostgreSQL, MongoDB or Redis with a soft limit below 65,535 (Redis 4,096, PostgreSQL 1,024)",
        severity: Severity::Medium,
        confidence: Confidence::Medium,
        needs: NOTHING,
        explanation: "At the limit, opening a segment or accepting a connection fails, usually at the busiest time.",
        fixes: &[Fix::typed(
            Side::Service,
            "In the unit, then restart",
            &["[Service]", "LimitNOFILE=65535"],
            &["remove the line"],
        )],
        gain: "No 'Too many open files'",
        verify: "`grep 'open files' /proc/PID/limits`",
        sources: &[BOOTSTRAP],
        check: open_files,
    },
];

fn heap_size(host: &Host) -> Checked {
    let mut found = Vec::new();
    for (who, heap) in host.search_heaps()? {
        let Some(most) = heap.most else { continue };
        let memory = host.memory()?;
        if most > 31.0 * GIB || most > 0.5 * memory {
            let right = (memory / 2.0 / GIB).min(30.0).floor().max(1.0);
            let says = format!("a heap of {:.1} GiB of {:.1} GiB of memory", most / GIB, memory / GIB);
            found.push(Found::new(who, says).with("right", right).with("was", (most / GIB).round()));
        }
    }
    Ok(found)
}

fn heap_grows(host: &Host) -> Checked {
    let mut found = Vec::new();
    for (who, heap) in host.search_heaps()? {
        if let (Some(initial), Some(most)) = (heap.initial, heap.most)
            && initial != most
        {
            let says = format!("starts with {:.1} and may grow to {:.1} GiB", initial / GIB, most / GIB);
            found.push(
                Found::new(who, says).with("most", (most / GIB).round()).with("was", (initial / GIB).round()),
            );
        }
    }
    Ok(found)
}

fn swapped(host: &Host) -> Checked {
    let mut found = Vec::new();
    for (path, settings) in host.search_nodes()? {
        let locked = settings.get("bootstrap.memory_lock").is_some_and(|value| value == "true");
        let swaps = host.text("proc/swaps")?;
        if !swaps.starts_with("Filename") {
            return Err(Absent::damaged("proc/swaps", "has no heading"));
        }
        if !locked && swaps.lines().count() > 1 {
            found.push(Found::new(format!("/{path}"), "swap is on and the heap is not locked"));
        }
    }
    Ok(found)
}

fn maps(host: &Host) -> Checked {
    let runs = match host.search_servers() {
        // Without processes the files say whether there is a node.
        Err(e) if e.is_missing() => {
            let configured =
                !host.search_nodes()?.is_empty() || JVM_FILES.iter().any(|path| host.tree().has(path));
            if configured { Ok(true) } else { Err(e) }
        }
        servers => servers.map(|servers| !servers.is_empty()),
    };
    if !runs? {
        return Ok(Vec::new());
    }
    let was = host.number("proc/sys/vm/max_map_count")?;
    Ok(if was < 262_144.0 { vec![Found::new("vm.max_map_count", format!("is {was}"))] } else { Vec::new() })
}

fn translog(host: &Host) -> Checked {
    let is_async = |settings: &std::collections::BTreeMap<String, String>| {
        settings.get("index.translog.durability").is_some_and(|value| value.eq_ignore_ascii_case("async"))
    };
    let nodes = host.search_nodes()?;
    let lossy = nodes.iter().filter(|(_, settings)| is_async(settings));
    Ok(lossy.map(|(path, _)| Found::new(format!("/{path}"), "index.translog.durability is async")).collect())
}

fn snapshot_cache(host: &Host) -> Checked {
    let mut found = Vec::new();
    for (path, settings) in host.search_nodes()? {
        let text = settings.get("node.roles").map_or("", String::as_str);
        let roles = config::items(text);
        let is_warm = |role: &&str| matches!(*role, "search" | "warm");
        let has_other_data = || roles.iter().any(|role| role.starts_with("data") && *role != "data_frozen");
        let lacks = |name: &str| !settings.contains_key(name);
        let frozen = roles.contains(&"data_frozen")
            && has_other_data()
            && lacks("xpack.searchable.snapshot.shared_cache.size");
        let warm = roles.iter().any(is_warm) && !roles.iter().all(is_warm) && lacks("node.search.cache.size");
        if frozen || warm {
            let says = format!("node.roles {text} without a size of its cache");
            found.push(Found::new(format!("/{path}"), says));
        }
    }
    Ok(found)
}

fn open_files(host: &Host) -> Checked {
    let mut found: Vec<Found> = Vec::new();
    // Where there are limits at all, a process without has ended meanwhile.
    let has_limits = host.tree().has("proc/1/limits") || !host.tree().glob("proc/*/limits")?.is_empty();
    for process in host.large_servers()? {
        let least = match process.name.as_str() {
            "java" | "mongod" => 65_535.0,
            "redis-server" => 4096.0,
            // It opens at most max_files_per_process (1,000), and reuses them.
            "postgres" => 1024.0,
            _ => continue,
        };
        let path = format!("proc/{}/limits", process.pid);
        let text = match host.text(&path) {
            Err(e) if e.is_missing() && has_limits => continue,
            text => text?,
        };
        let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
        let soft = line
            .and_then(|line| line.split_whitespace().next())
            .ok_or_else(|| Absent::damaged(&path, "lacks Max open files"))?;
        let few = soft.parse::<f64>().is_ok_and(|soft| soft < least);
        if few && !found.iter().any(|one| one.object == process.name) {
            found.push(Found::new(&process.name, format!("process {} may open {soft} files", process.pid)));
        }
    }
    Ok(found)
}
