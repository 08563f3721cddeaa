//! `_cluster` and `_nodes`: the one node, as clients want to see a cluster.

use frostline_catalog::Resolve;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::cat::size;
use crate::api::indices;
use crate::api::info::{NAME, VERSION, uuid};
use crate::api::stats::Counts;
use crate::error::{ApiError, Result};
use crate::state::Call;

/// What a client waits for, which is there already.
pub(crate) const WAITS: &[&str] = &[
    "wait_for_events",
    "wait_for_no_initializing_shards",
    "wait_for_no_relocating_shards",
    "wait_for_nodes",
    "wait_for_status",
];

/// What the node does.
const ROLES: [&str; 3] = ["data", "ingest", "master"];

/// `GET /_cluster/health`.
pub(crate) async fn health(call: Call) -> Result<Answer> {
    let names =
        indices::names(&call.state, &call.client.scope, call.index(), indices::how(&call.params)?).await?;
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
    let mut health = Map::from_iter([("cluster_name".to_owned(), json!(NAME))]);
    health.extend(shards(names.len()).as_object().cloned().unwrap_or_default());
    let more = json!({
        "timed_out": false,
        "number_of_nodes": 1,
        "number_of_data_nodes": 1,
        "delayed_unassigned_shards": 0,
        "number_of_pending_tasks": 0,
        "number_of_in_flight_fetch": 0,
        "task_max_waiting_in_queue_millis": 0,
        "active_shards_percent_as_number": 100.0,
    });
    health.extend(more.as_object().cloned().unwrap_or_default());
    match call.params.get("level").unwrap_or("cluster") {
        "cluster" => {}
        "indices" | "shards" => {
            let each = names.iter().map(|name| {
                let mut index = shards(1);
                index["number_of_shards"] = json!(1);
                index["number_of_replicas"] = json!(0);
                (name.to_string(), index)
            });
            health.insert("indices".to_owned(), Value::Object(each.collect()));
        }
        other => {
            return Err(ApiError::invalid(format!("[level] is cluster, indices or shards, not [{other}]")));
        }
    }
    Answer::json(&health)
}

/// `GET /_cluster/stats`.
pub(crate) async fn stats(call: Call) -> Result<Answer> {
    let found = indices::named(&call).await?;
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

/// `GET /_cluster/settings`: none can be set, so that all are as they were.
pub(crate) async fn settings(call: Call) -> Result<Answer> {
    let mut settings = json!({ "persistent": {}, "transient": {} });
    if call.params.flag("include_defaults")?.unwrap_or(false) {
        settings["defaults"] = json!({});
    }
    Answer::json(&settings)
}

/// `GET /_nodes/stats`.
pub(crate) async fn node_stats(call: Call) -> Result<Answer> {
    let state = &call.state;
    let metrics: Vec<&str> = call.part("metric").unwrap_or("_all").split(',').collect();
    let is_wanted = |metric: &str| metrics.contains(&"_all") || metrics.contains(&metric);
    let mut node = Map::from_iter([
        ("timestamp".to_owned(), json!(state.node.clock().now_us() / 1_000)),
        ("name".to_owned(), json!(NAME)),
        ("transport_address".to_owned(), json!(state.address)),
        ("roles".to_owned(), json!(ROLES)),
    ]);
    if is_wanted("indices") {
        let found = indices::open(state, &call.client.scope, "_all", Resolve::default()).await?;
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

/// `GET /_nodes`.
pub(crate) async fn nodes(call: Call) -> Result<Answer> {
    let address = &call.state.address;
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
            "bound_address": [address],
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
