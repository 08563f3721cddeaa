//! `_cluster` and `_nodes`: the one node, as clients want to see a cluster.

use std::sync::Arc;

use frostline_catalog::{Index, Resolve, Wildcards};
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::cat::size;
use crate::api::index::settings_of;
use crate::api::info::{NAME, VERSION, uuid};
use crate::api::stats::{Counts, unknown_metric};
use crate::api::{alias, blocks, indices, template};
use crate::error::{ApiError, Result};
use crate::state::{Call, only};

/// What a client waits for, which is there already.
pub(crate) const WAITS: &[&str] = &[
    "wait_for_events",
    "wait_for_no_initializing_shards",
    "wait_for_no_relocating_shards",
    "wait_for_status",
];

/// What the node does.
const ROLES: [&str; 3] = ["data", "ingest", "master"];

/// `GET /_cluster/health`.
pub(crate) async fn health(call: Call) -> Result<Answer> {
    let how = indices::how_of_any(&call.params, Wildcards::ALL)?;
    let names = indices::names(&call.state, &call.client.scope, call.index(), how).await?;
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
    // Nothing that is waited for comes later.
    let is_there = is_met(call.params.get("wait_for_nodes"), 1)?
        && is_met(call.params.get("wait_for_active_shards").filter(|wanted| *wanted != "all"), names.len())?;
    let mut health = Map::from_iter([("cluster_name".to_owned(), json!(NAME))]);
    health.extend(shards(names.len()).as_object().cloned().unwrap_or_default());
    let more = json!({
        "timed_out": !is_there,
        "number_of_nodes": 1,
        "number_of_data_nodes": 1,
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
    if let Some(other) = metrics.iter().find(|metric| !STATE_METRICS.contains(metric)) {
        return Err(unknown_metric(&format!("/_cluster/state/{asked}"), other, STATE_METRICS));
    }
    let default = if call.part("index").is_some() { Wildcards::OPEN } else { Wildcards::ALL };
    let found = indices::named_of_any(&call, default).await?;
    let records = call.state.node.records().await?;
    let (id, name) = (uuid(&call.state), |index: &Arc<Index>| index.name().to_string());
    let shard = |index: &Arc<Index>| {
        json!({
            "state": "STARTED",
            "primary": true,
            "node": id,
            "relocating_node": null,
            "shard": 0,
            "index": index.name(),
        })
    };
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
            json!({ id.clone(): { "name": NAME, "transport_address": call.state.address, "attributes": {} } }),
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
    Answer::json(&answer)
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
    let (mut documents, mut bytes) = (0, 0);
    for (of, stored) in found.iter().map(|index| size(index)) {
        documents += of;
        bytes += stored;
    }
    Answer::json(&json!({
        "_nodes": { "total": 1, "successful": 1, "failed": 0 },
        "cluster_name": NAME,
        "cluster_uuid": uuid(&call.state),
        "timestamp": call.state.node.clock().now_us() / 1_000,
        "status": "green",
        "indices": {
            "count": found.len(),
            "shards": { "total": found.len(), "primaries": found.len(), "replication": 0.0 },
            "docs": { "count": documents, "deleted": 0 },
            "store": { "size_in_bytes": bytes },
            "segments": { "count": found.iter().map(|index| index.splits().len()).sum::<usize>() },
        },
        "nodes": { "count": { "total": 1, "data": 1, "ingest": 1, "master": 1 }, "versions": [VERSION] },
    }))
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
    let is_wanted = |metric: &str| metrics.contains(&"_all") || metrics.contains(&metric);
    let mut node = Map::from_iter([
        ("timestamp".to_owned(), json!(state.node.clock().now_us() / 1_000)),
        ("name".to_owned(), json!(NAME)),
        ("transport_address".to_owned(), json!(state.address)),
        ("roles".to_owned(), json!(ROLES)),
    ]);
    if is_wanted("indices") {
        let found = indices::open(state, &call.client.scope, "_all", Resolve::ALL).await?;
        let counts = found.iter().map(|index| Counts::of(index)).fold(Counts::default(), Counts::add);
        node.insert("indices".to_owned(), counts.shown(&["_all"]));
    }
    if is_wanted("thread_pool") {
        let (active, queue) = state.searches.load();
        let search = json!({ "threads": state.settings.searches_max, "active": active, "queue": queue });
        node.insert("thread_pool".to_owned(), json!({ "search": search }));
    }
    if is_wanted("http") {
        let open = state.settings.requests_max - state.requests.available_permits();
        node.insert("http".to_owned(), json!({ "requests_open": open }));
    }
    answer_of_node(&call, Value::Object(node))
}

/// `GET /_nodes/hot_threads`: no thread belongs to a request, so that none is sampled. What keeps the server busy are requests.
pub(crate) async fn hot_threads(call: Call) -> Result<Answer> {
    let (active, queue) = call.state.searches.load();
    Ok(Answer::text(format!(
        "::: {{{NAME}}}{{{}}}\n   Threads are not sampled: requests share them. {active} searches run and {queue} wait; \
         /_tasks?detailed lists them,\n   /metrics counts time by API, and `top -H` shows the threads of the process.\n",
        call.state.address
    )))
}

/// `GET /_nodes`.
pub(crate) async fn nodes(call: Call) -> Result<Answer> {
    let address = &call.published_address();
    let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
    let node = json!({
        "name": NAME,
        "transport_address": address,
        "host": host,
        "ip": host,
        "version": VERSION,
        "build_flavor": "default",
        "build_type": "frostline",
        "build_hash": "unknown",
        "roles": ROLES,
        "attributes": {},
        "http": {
            "bound_address": [call.state.address],
            "publish_address": address,
            "max_content_length_in_bytes": call.state.settings.body_bytes_max,
        },
    });
    answer_of_node(&call, node)
}

/// The one node, if it is among those that are asked for.
fn answer_of_node(call: &Call, node: Value) -> Result<Answer> {
    let is_it = |wanted: &str| {
        // `/_nodes/http` names a part, not a node.
        matches!(wanted, "_all" | "_local" | "_master" | "*" | "http" | "process" | "os" | "jvm" | "settings")
            || wanted == NAME
            || wanted == uuid(&call.state)
    };
    let asked = call.part("node_id").unwrap_or("_all");
    let found = asked.split(',').any(is_it);
    let nodes = if found { json!({ uuid(&call.state): node }) } else { json!({}) };
    let count = usize::from(found);
    Answer::json(&json!({
        "_nodes": { "total": count, "successful": count, "failed": 0 },
        "cluster_name": NAME,
        "nodes": nodes,
    }))
}
