//! `_cluster` and `_nodes`: the one node, as clients want to see a cluster.

use std::sync::Arc;
use std::time::Duration;

use frostline_base::{IndexName, wildcard_matches};
use frostline_catalog::{Index, Resolve, Wildcards};
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::cat::readable_bytes;
use crate::api::index::settings_of;
use crate::api::info::{BUILD_TYPE, NAME, VERSION, uuid};
use crate::api::settings::nested;
use crate::api::stats::{Wanted, level, of_node, unknown_metric};
use crate::api::{alias, blocks, indices, shards, template};
use crate::error::{ApiError, Result};
use crate::host::{Disk, Host, Memory};
use crate::state::{Call, State, only};

/// What a client waits for, which is there as soon as the indices are.
pub(crate) const WAITS: &[&str] = &[
    "wait_for_events",
    "wait_for_no_initializing_shards",
    "wait_for_no_relocating_shards",
    "wait_for_status",
];

/// What the node does.
const ROLES: [&str; 3] = ["data", "ingest", "master"];

/// How long a request waits for indices that are not there.
const WAIT: Duration = Duration::from_secs(30);
/// How often it looks for them: another server may make them.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The indices that are asked for, once all of them are there; those that are, and false, where that takes too long.
async fn awaited(call: &Call) -> Result<(Vec<IndexName>, bool)> {
    let how = indices::how_of_any(&call.params, Wildcards::ALL)?;
    let longest = call.params.duration("timeout")?.unwrap_or(WAIT);
    let named = |how| indices::names(&call.state, &call.client.scope, call.index(), how);
    let is_missing = |found: &Result<_>| matches!(found, Err(e) if e.status == StatusCode::NOT_FOUND);
    let mut found = named(how).await;
    let there = async {
        while is_missing(&found) {
            tokio::time::sleep(LOOK_EVERY).await;
            found = named(how).await;
        }
    };
    match tokio::time::timeout(longest, there).await {
        Ok(()) => Ok((found?, true)),
        Err(_) => {
            Ok((named(Resolve { ignore_unavailable: true, allow_no_indices: true, ..how }).await?, false))
        }
    }
}

/// `GET /_cluster/health`.
pub(crate) async fn health(call: Call) -> Result<Answer> {
    let (names, are_there) = awaited(&call).await?;
    let shards = |count: usize| {
        json!({
            "status": "green",
            "active_primary_shards": count,
            "active_shards": count,
            "relocating_shards": 0,
            "initializing_shards": 0,
            "unassigned_shards": 0,
            "unassigned_primary_shards": 0,
        })
    };
    // Nothing else that is waited for comes later.
    let is_there = are_there
        && is_met(call.params.get("wait_for_nodes"), 1)?
        && is_met(call.params.get("wait_for_active_shards").filter(|wanted| *wanted != "all"), names.len())?;
    let mut health = Map::from_iter([("cluster_name".to_owned(), json!(NAME))]);
    health.extend(shards(names.len()).as_object().cloned().unwrap_or_default());
    if !are_there {
        health.insert("status".to_owned(), json!("red"));
    }
    let more = json!({
        "timed_out": !is_there,
        "number_of_nodes": 1,
        "number_of_data_nodes": 1,
        "discovered_master": true,
        "discovered_cluster_manager": true,
        "delayed_unassigned_shards": 0,
        "number_of_pending_tasks": 0,
        "number_of_in_flight_fetch": 0,
        "task_max_waiting_in_queue_millis": 0,
        "active_shards_percent_as_number": 100.0,
    });
    health.extend(more.as_object().cloned().unwrap_or_default());
    let level = call.params.get("level").unwrap_or("cluster");
    match level {
        "cluster" => {}
        "indices" | "shards" => {
            let each = names.iter().map(|name| {
                let mut index = shards(1);
                index["number_of_shards"] = json!(1);
                index["number_of_replicas"] = json!(0);
                if level == "shards" {
                    let mut shard = shards(1);
                    shard["primary_active"] = json!(true);
                    index["shards"] = json!({ "0": shard });
                }
                (name.to_string(), index)
            });
            health.insert("indices".to_owned(), Value::Object(each.collect()));
        }
        other => {
            return Err(ApiError::invalid(format!("[level] is cluster, indices or shards, not [{other}]")));
        }
    }
    let status = if is_there { StatusCode::OK } else { StatusCode::REQUEST_TIMEOUT };
    Ok(Answer::json(&health)?.with_status(status))
}

/// Whether so many are what a request waits for: a number that is enough, or one with a comparison such as `>=2` or `ge(2)`.
fn is_met(wanted: Option<&str>, there: usize) -> Result<bool> {
    let Some(wanted) = wanted else { return Ok(true) };
    let forms = [("<=", "le("), (">=", "ge("), ("<", "lt("), (">", "gt(")];
    let form = forms.iter().position(|(sign, name)| wanted.starts_with(sign) || wanted.starts_with(name));
    let number = wanted.trim_matches(|c: char| !c.is_ascii_digit());
    let number: usize = number.parse().map_err(|_| {
        ApiError::invalid(format!("[{wanted}] is neither a number nor a comparison such as >=1"))
    })?;
    Ok(match form {
        Some(0) => there <= number,
        Some(2) => there < number,
        Some(3) => there > number,
        _ => there >= number,
    })
}

/// `GET /_cluster/state/{metric}/{index}`: what the repository has, and that the one node serves all of it.
pub(crate) async fn state(call: Call) -> Result<Answer> {
    let asked = call.part("metric").unwrap_or("_all");
    let metrics: Vec<&str> = asked.split(',').collect();
    Answer::json(&state_of(&call, &format!("/_cluster/state/{asked}"), &metrics).await?)
}

/// Those parts of the state. `path` is named where one of them is unknown.
pub(crate) async fn state_of(call: &Call, path: &str, metrics: &[&str]) -> Result<Map<String, Value>> {
    if let Some(other) = metrics.iter().find(|metric| !STATE_METRICS.contains(metric)) {
        return Err(unknown_metric(path, other, STATE_METRICS));
    }
    let default = if call.part("index").is_some() { Wildcards::OPEN } else { Wildcards::ALL };
    let found = indices::named_of_any(call, default).await?;
    let records = call.state.node.records().await?;
    let (id, name) = (uuid(&call.state), |index: &Arc<Index>| index.name().to_string());
    let shard = |index: &Arc<Index>| shards::of_index(&id, index.name());
    let metadata = |index: &Arc<Index>| {
        let aliases = alias::of_index(&records, &call.client.scope, index.name());
        let aliases = aliases.map(|(alias, _)| alias.to_string());
        json!({
            "state": if records.is_closed(index.name()) { "close" } else { "open" },
            "settings": settings_of(&records, index, false, &["*"]),
            "mappings": { "_doc": index.mapping().to_elasticsearch_json() },
            "aliases": aliases.collect::<Vec<_>>(),
        })
    };
    let routed = |index: &Arc<Index>| json!({ "shards": { "0": [shard(index)] } });
    let each = |shown: &dyn Fn(&Arc<Index>) -> Value| {
        found.iter().map(|index| (name(index), shown(index))).collect::<Map<_, _>>()
    };
    let version = records.version();
    let all = [
        ("version", "version", json!(version)),
        ("version", "state_uuid", json!(format!("{id}-{version}"))),
        ("master_node", "master_node", json!(id)),
        ("cluster_manager_node", "cluster_manager_node", json!(id)),
        ("blocks", "blocks", blocks::shown(&records, found.iter().map(|index| index.name()))),
        (
            "nodes",
            "nodes",
            json!({ id.clone(): { "name": NAME, "transport_address": call.published_address(), "attributes": {} } }),
        ),
        (
            "metadata",
            "metadata",
            json!({
                "cluster_uuid": id,
                "templates": template::all_legacy(&records),
                "indices": each(&metadata),
            }),
        ),
        ("routing_table", "routing_table", json!({ "indices": each(&routed) })),
        (
            "routing_nodes",
            "routing_nodes",
            json!({
                "unassigned": [],
                "nodes": { id.clone(): found.iter().map(shard).collect::<Vec<_>>() },
            }),
        ),
    ];
    let mut answer =
        Map::from_iter([("cluster_name".to_owned(), json!(NAME)), ("cluster_uuid".to_owned(), json!(id))]);
    let is_wanted = |metric: &str| metrics.contains(&"_all") || metrics.contains(&metric);
    let wanted = all.into_iter().filter(|(metric, ..)| is_wanted(metric));
    answer.extend(wanted.map(|(_, member, value)| (member.to_owned(), value)));
    Ok(answer)
}

/// The parts of the state.
const STATE_METRICS: &[&str] = &[
    "_all",
    "blocks",
    "cluster_manager_node",
    "master_node",
    "metadata",
    "nodes",
    "routing_nodes",
    "routing_table",
    "version",
];

/// `GET /_cluster/stats`.
pub(crate) async fn stats(call: Call) -> Result<Answer> {
    let found = indices::named_of_any(&call, Wildcards::ALL).await?;
    let wanted = Wanted::of(Some(STATS_METRICS), "/_cluster/stats", &call.params)?;
    let mut of_indices = of_node(&call.state, &found, &wanted, "node");
    of_indices["count"] = json!(found.len());
    of_indices["shards"] = json!({ "total": found.len(), "primaries": found.len(), "replication": 0.0 });
    let Host { disk, memory, process, .. } = Host::read(&call.state).await;
    let open = process.files_open.map(|open| json!({ "min": open, "max": open, "avg": open }));
    Answer::json(&json!({
        "_nodes": { "total": 1, "successful": 1, "failed": 0 },
        "cluster_name": NAME,
        "cluster_uuid": uuid(&call.state),
        "timestamp": call.state.node.clock().now_us() / 1_000,
        "status": "green",
        "indices": of_indices,
        "nodes": {
            "count": {
                "total": 1, "coordinating_only": 0, "data": 1, "ingest": 1, "master": 1, "cluster_manager": 1,
            },
            "versions": [VERSION],
            "discovery_types": { "single-node": 1 },
            "packaging_types": [{ "flavor": "default", "type": BUILD_TYPE, "count": 1 }],
            "os": { "mem": memory.map(of_memory) },
            "process": { "count": 1, "open_file_descriptors": open },
            "fs": disk.as_ref().map(of_disk),
            "plugins": [],
        },
    }))
}

/// What is told of all indices together.
const STATS_METRICS: &str = "docs,store,fielddata,query_cache,completion,segments";

fn of_memory(memory: Memory) -> Value {
    let used = memory.total.saturating_sub(memory.free);
    json!({
        "total_in_bytes": memory.total,
        "free_in_bytes": memory.free,
        "available_in_bytes": memory.available,
        "used_in_bytes": used,
        "free_percent": memory.free * 100 / memory.total.max(1),
        "used_percent": used * 100 / memory.total.max(1),
    })
}

fn of_disk(disk: &Disk) -> Value {
    json!({
        "total_in_bytes": disk.total, "free_in_bytes": disk.free, "available_in_bytes": disk.available,
    })
}

fn of_threads(state: &State) -> Value {
    let (active, queue) = state.searches.load();
    json!({ "search": {
        "threads": state.settings.searches_max,
        "active": active,
        "queue": queue,
        "rejected": state.searches.refused(),
    } })
}

fn of_http(state: &State) -> Value {
    json!({
        "current_open": state.metrics.connections(),
        "requests_open": state.settings.requests_max - state.requests.available_permits(),
    })
}

/// `GET /_info/{target}`: what nodes have done, of all of them together.
pub(crate) async fn info(call: Call) -> Result<Answer> {
    const TARGETS: [&str; 4] = ["http", "ingest", "script", "thread_pool"];
    let state = &call.state;
    let targets: Vec<&str> = call.part("target").unwrap_or_default().split(',').collect();
    let is_all = targets == ["_all"];
    if let Some(other) = targets.iter().find(|target| !is_all && !TARGETS.contains(target)) {
        return Err(unknown_metric(&format!("/_info/{}", targets.join(",")), other, &TARGETS));
    }
    let mut shown = Map::from_iter([("cluster_name".to_owned(), json!(NAME))]);
    for target in TARGETS.into_iter().filter(|target| is_all || targets.contains(target)) {
        let value = match target {
            "http" => of_http(state),
            "ingest" => state.pipelines.stats(&state.node.records().await?),
            "thread_pool" => of_threads(state),
            // None are run.
            _ => json!({ "compilations": 0, "cache_evictions": 0, "compilation_limit_triggered": 0 }),
        };
        shown.insert(target.to_owned(), value);
    }
    Answer::json(&shown)
}

/// `GET /_cluster/pending_tasks`: nothing waits for a cluster to change.
pub(crate) async fn pending_tasks(_: Call) -> Result<Answer> {
    Answer::json(&json!({ "tasks": [] }))
}

/// `GET /_cluster/settings`: none can be set, so that all are as they were.
pub(crate) async fn settings(call: Call) -> Result<Answer> {
    let mut settings = json!({ "persistent": {}, "transient": {} });
    if call.params.flag("include_defaults")?.unwrap_or(false) {
        settings["defaults"] = json!({});
    }
    Answer::json(&settings)
}

/// `PUT /_cluster/settings`. There are none to change: resetting them all changes nothing.
pub(crate) async fn put_settings(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["persistent", "transient"])?;
    for kind in ["persistent", "transient"] {
        match body.get(kind) {
            None | Some(Value::Null) => {}
            Some(Value::Object(settings)) => {
                if let Some((name, _)) = settings.iter().find(|(_, value)| !value.is_null()) {
                    return Err(ApiError::invalid(format!(
                        "{kind} setting [{name}] cannot be changed: what concerns the server is given when it starts, and \
                         what concerns an index by PUT /{{index}}/_settings"
                    )));
                }
            }
            Some(other) => return Err(ApiError::unparsed(format!("[{kind}] is {other}, not an object"))),
        }
    }
    Answer::json(&json!({ "acknowledged": true, "persistent": {}, "transient": {} }))
}

/// What Elasticsearch and OpenSearch tell of a node.
const NODE_METRICS: &[&str] = &[
    "_all",
    "adaptive_selection",
    "admission_control",
    "allocations",
    "breaker",
    "caches",
    "cluster_manager_throttling",
    "discovery",
    "file_cache",
    "fs",
    "http",
    "indexing_pressure",
    "indices",
    "ingest",
    "jvm",
    "os",
    "process",
    "remote_store",
    "repositories",
    "resource_usage_stats",
    "script",
    "search_backpressure",
    "search_pipeline",
    "segment_replication_backpressure",
    "shard_indexing_pressure",
    "task_cancellation",
    "thread_pool",
    "transport",
    "weighted_routing",
];

/// `GET /_nodes/stats`.
pub(crate) async fn node_stats(call: Call) -> Result<Answer> {
    let state = &call.state;
    let metrics: Vec<&str> = call.part("metric").unwrap_or("_all").split(',').collect();
    if let Some(other) = metrics.iter().find(|metric| !NODE_METRICS.contains(metric)) {
        return Err(unknown_metric(&format!("/_nodes/stats/{}", metrics.join(",")), other, NODE_METRICS));
    }
    let of_indices = call.part("index_metric");
    let path = format!("/_nodes/stats/{}/{}", metrics.join(","), of_indices.unwrap_or_default());
    let wanted = Wanted::of(of_indices, &path, &call.params)?;
    let level = level(&call.params, ["node", "indices", "shards"], "node")?;
    let mut node = about_node(&call);
    node.insert("timestamp".to_owned(), json!(state.node.clock().now_us() / 1_000));
    let is_wanted = |metric: &str| metrics.contains(&"_all") || metrics.contains(&metric);
    if is_wanted("indices") {
        let found = indices::open(state, &call.client.scope, "_all", Resolve::ALL).await?;
        node.insert("indices".to_owned(), of_node(state, &found, &wanted, level));
    }
    if is_wanted("ingest") {
        node.insert("ingest".to_owned(), state.pipelines.stats(&state.node.records().await?));
    }
    let Host { disk, memory, load, process } = Host::read(state).await;
    let live = state.live.figures();
    let writing = json!({
        "combined_coordinating_and_primary_in_bytes": live.held_bytes,
        "coordinating_in_bytes": live.held_bytes,
        "primary_in_bytes": 0,
        "replica_in_bytes": 0,
        "all_in_bytes": live.held_bytes,
    });
    let written = json!({
        "combined_coordinating_and_primary_in_bytes": live.bytes,
        "coordinating_in_bytes": live.bytes,
        "primary_in_bytes": 0,
        "replica_in_bytes": 0,
        "all_in_bytes": live.bytes,
        "coordinating_rejections": live.requests_refused,
        "primary_rejections": 0,
        "replica_rejections": 0,
    });
    let os = json!({
        "cpu": load.map(|[one, five, fifteen]| json!({ "load_average": { "1m": one, "5m": five, "15m": fifteen } })),
        "mem": memory.map(of_memory),
    });
    let fs = disk.map(|disk| {
        let of_disk = of_disk(&disk);
        let mut data = json!({ "path": disk.path, "mount": disk.mount, "type": disk.kind });
        for (name, value) in of_disk.as_object().into_iter().flatten() {
            data[name] = value.clone();
        }
        json!({ "total": of_disk, "data": [data] })
    });
    let others = [
        ("os", os),
        (
            "process",
            json!({
                "open_file_descriptors": process.files_open,
                "max_file_descriptors": process.files_max,
                "cpu": { "total_in_millis": process.cpu_s.map(|seconds| (seconds * 1_000.0) as u64) },
                "mem": {
                    "total_virtual_in_bytes": process.virtual_bytes, "resident_in_bytes": process.resident_bytes,
                },
                "threads": process.threads,
            }),
        ),
        ("thread_pool", of_threads(state)),
        ("fs", json!(fs)),
        ("transport", Value::Object(TRANSPORT.iter().map(|name| ((*name).to_owned(), json!(0))).collect())),
        ("http", of_http(state)),
        (
            "discovery",
            json!({
                "cluster_state_queue": { "total": 0, "pending": 0, "committed": 0 },
                "published_cluster_states": { "full_states": 0, "incompatible_diffs": 0, "compatible_diffs": 0 },
            }),
        ),
        (
            "indexing_pressure",
            json!({ "memory": {
                "current": writing, "total": written, "limit_in_bytes": state.settings.live_bytes_max,
            } }),
        ),
    ];
    let wanted = others.into_iter().filter(|(name, value)| is_wanted(name) && !value.is_null());
    node.extend(wanted.map(|(name, value)| (name.to_owned(), value)));
    answer_of_node(&call, call.part("node_id"), node)
}

/// What a node counts of its messages to others, of which there are none.
const TRANSPORT: &[&str] = &[
    "server_open",
    "total_outbound_connections",
    "rx_count",
    "rx_size_in_bytes",
    "tx_count",
    "tx_size_in_bytes",
];

/// `GET /_nodes/hot_threads`: no thread belongs to a request, so that none is sampled. What keeps the server busy are requests.
pub(crate) async fn hot_threads(call: Call) -> Result<Answer> {
    let (active, queue) = call.state.searches.load();
    Ok(Answer::text(format!(
        "::: {{{NAME}}}{{{}}}\n   Threads are not sampled: requests share them. {active} searches run and {queue} wait; \
         /_tasks?detailed lists them,\n   /metrics counts time by API, and `top -H` shows the threads of the process.\n",
        call.published_address()
    )))
}

/// What Elasticsearch tells of a node that does not change.
const NODE_PARTS: &[&str] = &[
    "_all",
    "aggregations",
    "http",
    "indices",
    "ingest",
    "jvm",
    "os",
    "plugins",
    "process",
    "settings",
    "thread_pool",
    "transport",
];

/// `GET /_nodes`.
pub(crate) async fn nodes(call: Call) -> Result<Answer> {
    // `/_nodes/http` names a part, not a node.
    let are_parts = |names: &&str| names.split(',').all(|name| name != "_all" && NODE_PARTS.contains(&name));
    let named = call.part("node_id");
    let parts = call.part("metric").or(named.filter(are_parts)).unwrap_or("_all");
    let node_id = named.filter(|names| !are_parts(names));
    let parts: Vec<&str> = parts.split(',').collect();
    if let Some(other) = parts.iter().find(|part| !NODE_PARTS.contains(part)) {
        return Err(unknown_metric(&format!("/_nodes/{}", parts.join(",")), other, NODE_PARTS));
    }
    let state = &call.state;
    let human = call.params.flag("human")?.unwrap_or(false);
    let mut node = about_node(&call);
    node.extend([
        ("version".to_owned(), json!(VERSION)),
        ("build_flavor".to_owned(), json!("default")),
        ("build_type".to_owned(), json!(BUILD_TYPE)),
        ("build_hash".to_owned(), json!("unknown")),
    ]);
    let bound = json!({ "bound_address": [state.address], "publish_address": call.published_address(), "profiles": {} });
    let mut http = bound.clone();
    http["max_content_length_in_bytes"] = json!(state.settings.body_bytes_max);
    let settings = [("client.type", "node"), ("cluster.name", NAME), ("node.name", NAME)];
    let settings = settings.map(|(name, value)| (name.to_owned(), json!(value)));
    let flat = call.params.flag("flat_settings")?.unwrap_or(false);
    let aggregations = frostline_query::agg::aggregation_names();
    let aggregations = aggregations.map(|name| (name.to_owned(), json!({ "types": ["other"] })));
    let processors = frostline_pipeline::processors().map(|name| json!({ "type": name }));
    let all = [
        ("settings", nested(settings.into_iter().collect(), flat)),
        ("os", json!({ "name": std::env::consts::OS, "arch": std::env::consts::ARCH })),
        ("process", json!({ "id": std::process::id() })),
        ("transport", bound),
        ("http", http),
        ("aggregations", Value::Object(aggregations.collect())),
        ("ingest", json!({ "processors": processors.collect::<Vec<_>>() })),
    ];
    let is_wanted = |part: &str| parts.contains(&"_all") || parts.contains(&part);
    if is_wanted("indices") {
        let bytes = state.settings.live_bytes_max;
        if human {
            node.insert("total_indexing_buffer".to_owned(), json!(readable_bytes(bytes)));
        }
        node.insert("total_indexing_buffer_in_bytes".to_owned(), json!(bytes));
    }
    let wanted = all.into_iter().filter(|(part, _)| is_wanted(part));
    node.extend(wanted.map(|(part, value)| (part.to_owned(), value)));
    answer_of_node(&call, node_id, node)
}

/// An address without its port.
pub(crate) fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// What every answer about the node begins with.
pub(crate) fn about_node(call: &Call) -> Map<String, Value> {
    let address = call.published_address();
    let host = host_of(&address);
    let about = [
        ("name", json!(NAME)),
        ("transport_address", json!(address)),
        ("host", json!(host)),
        ("ip", json!(host)),
        ("roles", json!(ROLES)),
        ("attributes", json!({})),
    ];
    about.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Whether the one node is among those of a list: of names, ids and roles such as `data:true`, of which a later one that is
/// false takes away.
pub(crate) fn is_the_node(state: &State, asked: &str) -> bool {
    asked.split(',').map(str::trim).fold(false, |is_it, wanted| match wanted.rsplit_once(':') {
        Some((role, flag @ ("true" | "false"))) => {
            let has_role = ROLES.contains(&role) || role == "cluster_manager";
            if has_role { flag == "true" } else { is_it }
        }
        _ => {
            let others = ["_all", "_local", "_master", "_cluster_manager"];
            let is_named = |name: &str| wildcard_matches(wanted, name);
            is_it || others.contains(&wanted) || is_named(NAME) || is_named(&uuid(state))
        }
    })
}

/// The one node, if it is among those that are asked for.
fn answer_of_node(call: &Call, asked: Option<&str>, node: Map<String, Value>) -> Result<Answer> {
    let found = asked.is_none_or(|asked| is_the_node(&call.state, asked));
    let nodes = if found { json!({ uuid(&call.state): node }) } else { json!({}) };
    let count = usize::from(found);
    Answer::json(&json!({
        "_nodes": { "total": count, "successful": count, "failed": 0 },
        "cluster_name": NAME,
        "nodes": nodes,
    }))
}
