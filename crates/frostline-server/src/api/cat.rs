//! `_cat`: tables for people and scripts.

use std::cmp::Ordering;

use frostline_base::wildcard_matches;
use frostline_catalog::{Access, Index, Resolve, Routing, Wildcards};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::cluster::host_of;
use crate::api::index::index_uuid;
use crate::api::info::{NAME, VERSION, uuid};
use crate::api::stats::Figures;
use crate::api::{blocks, indices, snapshot, tasks};
use crate::error::{ApiError, Result};
use crate::host::Host;
use crate::params::Params;
use crate::routes::APIS;
use crate::state::Call;

pub(crate) mod node;

/// A column of a table.
#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    aliases: &'static [&'static str],
    /// What it says, for `help`.
    about: &'static str,
    /// Whether it is shown where no column is asked for.
    shown: bool,
}

const fn column(name: &'static str, aliases: &'static [&'static str], about: &'static str) -> Column {
    Column { name, aliases, about, shown: true }
}

/// A column that is shown only where it is asked for.
const fn hidden(name: &'static str, aliases: &'static [&'static str], about: &'static str) -> Column {
    Column { name, aliases, about, shown: false }
}

/// The value of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Number(u64),
    Bytes(u64),
    /// Microseconds.
    Micros(u64),
    /// There is none to show.
    Nothing,
}

/// `GET /_cat/indices`.
pub(crate) async fn indices(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("health", &["h"], "current health status"),
        column("status", &["s"], "open/close status"),
        column("index", &["i", "idx"], "index name"),
        column("uuid", &["id"], "index uuid"),
        column("pri", &["p", "shards.primary", "shardsPrimary"], "number of primary shards"),
        column("rep", &["r", "shards.replica", "shardsReplica"], "number of replica shards"),
        hidden("creation.date", &["cd"], "index creation date (millisecond value)"),
        hidden("creation.date.string", &["cds"], "index creation date (as string)"),
        column("docs.count", &["dc", "docsCount"], "available docs"),
        column("docs.deleted", &["dd", "docsDeleted"], "deleted docs"),
        column("store.size", &["ss", "storeSize"], "store size of primaries & replicas"),
        column("pri.store.size", &[], "store size of primaries"),
        // The same as the size: a column more is in the way of who reads them by position.
        hidden("dataset.size", &[], "total size of dataset"),
        hidden("splits", &[], "number of splits"),
    ];
    let columns = [COLUMNS, COUNTERS].concat();
    let help = call.params.flag("help")?.unwrap_or(false);
    let health = call.params.get("health").map(str::to_lowercase);
    if let Some(other) = health.as_deref().filter(|health| !["green", "red", "yellow"].contains(health)) {
        return Err(ApiError::invalid(format!("unknown cluster health status [{other}]")));
    }
    let wanted = health.is_none_or(|health| health == "green");
    let found = if help { Vec::new() } else { self::indices::named_of_any(&call, Wildcards::SHOWN).await? };
    let records = call.state.node.catalog().seen_records();
    let figures = Figures::of_each(&call.state, &found);
    let rows = found.iter().zip(&figures).filter(|_| wanted).map(|(index, figures)| {
        let (documents, bytes) = size(index);
        let is_closed = records.as_ref().is_some_and(|records| records.is_closed(index.name()));
        let created = records.as_ref().and_then(|records| records.created_ms(index.name()));
        // Of what is closed nothing is counted.
        let of_open = |cell: Cell| if is_closed { Cell::Nothing } else { cell };
        let mut row = vec![
            Cell::Text("green".to_owned()),
            Cell::Text(if is_closed { "close" } else { "open" }.to_owned()),
            Cell::Text(index.name().to_string()),
            Cell::Text(index_uuid(index.table_id())),
            Cell::Number(1),
            Cell::Number(0),
            created.map_or(Cell::Nothing, |ms| Cell::Number(ms.unsigned_abs())),
            created.map_or(Cell::Nothing, |ms| Cell::Text(snapshot::time(ms))),
            of_open(Cell::Number(documents)),
            of_open(Cell::Number(0)),
            of_open(Cell::Bytes(bytes)),
            of_open(Cell::Bytes(bytes)),
            of_open(Cell::Bytes(bytes)),
            of_open(Cell::Number(index.splits().len() as u64)),
        ];
        row.extend(counters(figures));
        row
    });
    table(&columns, rows.collect(), &call.params)
}

/// What is counted of an index, in tables that have it.
const COUNTERS: &[Column] = &[
    hidden("completion.size", &["cs", "completionSize"], "completion size"),
    hidden("fielddata.memory_size", &["fm", "fielddataMemorySize"], "fielddata memory size"),
    hidden("fielddata.evictions", &["fe", "fielddataEvictions"], "fielddata evictions"),
    hidden("query_cache.memory_size", &["qcm", "queryCacheMemorySize"], "query cache memory size"),
    hidden("query_cache.evictions", &["qce", "queryCacheEvictions"], "query cache evictions"),
    hidden("flush.total", &["ft", "flushTotal"], "flush total"),
    hidden("flush.total_time", &["ftt", "flushTotalTime"], "flush total time"),
    hidden("get.current", &["gc", "getCurrent"], "get current"),
    hidden("get.time", &["gti", "getTime"], "get time"),
    hidden("get.total", &["gto", "getTotal"], "get total"),
    hidden("get.exists_time", &["geti", "getExistsTime"], "get exists time"),
    hidden("get.exists_total", &["geto", "getExistsTotal"], "get exists total"),
    hidden("get.missing_time", &["gmti", "getMissingTime"], "get missing time"),
    hidden("get.missing_total", &["gmto", "getMissingTotal"], "get missing total"),
    hidden("indexing.delete_current", &["idc", "indexingDeleteCurrent"], "indexing delete current"),
    hidden("indexing.delete_time", &["idti", "indexingDeleteTime"], "indexing delete time"),
    hidden("indexing.delete_total", &["idto", "indexingDeleteTotal"], "indexing delete total"),
    hidden("indexing.index_current", &["iic", "indexingIndexCurrent"], "indexing index current"),
    hidden("indexing.index_time", &["iiti", "indexingIndexTime"], "indexing index time"),
    hidden("indexing.index_total", &["iito", "indexingIndexTotal"], "indexing index total"),
    hidden("indexing.index_failed", &["iif", "indexingIndexFailed"], "indexing index failed"),
    hidden("merges.current", &["mc", "mergesCurrent"], "merges current"),
    hidden("merges.current_docs", &["mcd", "mergesCurrentDocs"], "merges current docs"),
    hidden("merges.current_size", &["mcs", "mergesCurrentSize"], "merges current size"),
    hidden("merges.total", &["mt", "mergesTotal"], "merges total"),
    hidden("merges.total_docs", &["mtd", "mergesTotalDocs"], "merges total docs"),
    hidden("merges.total_size", &["mts", "mergesTotalSize"], "merges total size"),
    hidden("merges.total_time", &["mtt", "mergesTotalTime"], "merges total time"),
    hidden("refresh.total", &["rto", "refreshTotal"], "refresh total"),
    hidden("refresh.time", &["rti", "refreshTime"], "refresh time"),
    hidden("refresh.external_total", &["reto", "refreshExternalTotal"], "refresh external total"),
    hidden("refresh.external_time", &["reti", "refreshExternalTime"], "refresh external time"),
    hidden("refresh.listeners", &["rli", "refreshListeners"], "refresh listeners"),
    hidden("search.fetch_current", &["sfc", "searchFetchCurrent"], "search fetch current"),
    hidden("search.fetch_time", &["sfti", "searchFetchTime"], "search fetch time"),
    hidden("search.fetch_total", &["sfto", "searchFetchTotal"], "search fetch total"),
    hidden("search.open_contexts", &["so", "searchOpenContexts"], "search open contexts"),
    hidden("search.query_current", &["sqc", "searchQueryCurrent"], "search query current"),
    hidden("search.query_time", &["sqti", "searchQueryTime"], "search query time"),
    hidden("search.query_total", &["sqto", "searchQueryTotal"], "search query total"),
    hidden(
        "search.concurrent_query_current",
        &["scqc", "searchConcurrentQueryCurrent"],
        "search concurrent query current",
    ),
    hidden(
        "search.concurrent_query_time",
        &["scqti", "searchConcurrentQueryTime"],
        "search concurrent query time",
    ),
    hidden(
        "search.concurrent_query_total",
        &["scqto", "searchConcurrentQueryTotal"],
        "search concurrent query total",
    ),
    hidden(
        "search.concurrent_avg_slice_count",
        &["casc", "searchConcurrentAvgSliceCount"],
        "search concurrent avg slice count",
    ),
    hidden("search.scroll_current", &["scc", "searchScrollCurrent"], "search scroll current"),
    hidden("search.scroll_time", &["scti", "searchScrollTime"], "search scroll time"),
    hidden("search.scroll_total", &["scto", "searchScrollTotal"], "search scroll total"),
    hidden(
        "search.point_in_time_current",
        &["spc", "searchPointInTimeCurrent"],
        "search point in time current",
    ),
    hidden("search.point_in_time_time", &["spti", "searchPointInTimeTime"], "search point in time time"),
    hidden("search.point_in_time_total", &["spto", "searchPointInTimeTotal"], "search point in time total"),
    hidden(
        "search.search_idle_reactivate_count_total",
        &["ssirct", "searchSearchIdleReactivateCountTotal"],
        "search search idle reactivate count total",
    ),
    hidden("segments.count", &["sc", "segmentsCount"], "segments count"),
    hidden("segments.memory", &["sm", "segmentsMemory"], "segments memory"),
    hidden(
        "segments.index_writer_memory",
        &["siwm", "segmentsIndexWriterMemory"],
        "segments index writer memory",
    ),
    hidden(
        "segments.version_map_memory",
        &["svmm", "segmentsVersionMapMemory"],
        "segments version map memory",
    ),
    hidden(
        "segments.fixed_bitset_memory",
        &["sfbm", "segmentsFixedBitsetMemory"],
        "segments fixed bitset memory",
    ),
    hidden("seq_no.max", &["sqm", "seqNoMax"], "seq no max"),
    hidden("seq_no.local_checkpoint", &["sql", "seqNoLocalCheckpoint"], "seq no local checkpoint"),
    hidden("seq_no.global_checkpoint", &["sqg", "seqNoGlobalCheckpoint"], "seq no global checkpoint"),
    hidden("warmer.current", &["wc", "warmerCurrent"], "warmer current"),
    hidden("warmer.total", &["wto", "warmerTotal"], "warmer total"),
    hidden("warmer.total_time", &["wtt", "warmerTotalTime"], "warmer total time"),
    hidden("path.data", &["pd", "pathData"], "path data"),
    hidden("path.state", &["ps", "pathState"], "path state"),
    hidden("docs.deleted", &["dd", "docsDeleted"], "docs deleted"),
];

/// The cells of these columns. There are none of what is not counted.
fn counters(figures: &Figures) -> impl Iterator<Item = Cell> {
    COUNTERS.iter().map(|column| figures.cell(column.name).unwrap_or(Cell::Nothing))
}

/// Documents and bytes of an index.
pub(crate) fn size(index: &Index) -> (u64, u64) {
    let splits = index.splits();
    (splits.iter().map(|split| split.rows).sum(), splits.iter().map(|split| split.object.bytes).sum())
}

/// `GET /_cat/count`.
pub(crate) async fn count(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("epoch", &["t", "time"], "seconds since 1970-01-01 00:00:00"),
        column("timestamp", &["ts", "hms", "hhmmss"], "time in HH:MM:SS"),
        column("count", &["dc", "docs.count", "docsCount"], "the document count"),
    ];
    let found = self::indices::named(&call).await?;
    blocks::check(&call.state, found.iter().map(|index| index.name()), Access::Read)?;
    let documents = found.iter().map(|index| size(index).0).sum();
    let [epoch, time] = now(&call);
    table(COLUMNS, vec![vec![epoch, time, Cell::Number(documents)]], &call.params)
}

/// `GET /_cat/health`.
pub(crate) async fn health(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("epoch", &["t", "time"], "seconds since 1970-01-01 00:00:00"),
        column("timestamp", &["ts", "hms", "hhmmss"], "time in HH:MM:SS"),
        column("cluster", &["cl"], "cluster name"),
        column("status", &["st"], "health status"),
        column("node.total", &["nt", "nodeTotal"], "total number of nodes"),
        column("node.data", &["nd", "nodeData"], "number of nodes that can store data"),
        column("shards", &["t", "sh", "shards.total", "shardsTotal"], "total number of shards"),
        column("pri", &["p", "shards.primary", "shardsPrimary"], "number of primary shards"),
        column("relo", &["r", "shards.relocating"], "number of relocating nodes"),
        column("init", &["i", "shards.initializing"], "number of initializing nodes"),
        column("unassign", &["u", "shards.unassigned"], "number of unassigned shards"),
        column("pending_tasks", &["pt", "pendingTasks"], "number of pending tasks"),
        column("max_task_wait_time", &["mtwt"], "wait time of longest task pending"),
        column("active_shards_percent", &["asp"], "active number of shards in percent"),
    ];
    let scope = &call.client.scope;
    let shards = self::indices::names(&call.state, scope, "_all", Resolve::ALL).await?.len() as u64;
    let [epoch, time] = now(&call);
    let text = |text: &str| Cell::Text(text.to_owned());
    let mut row = vec![epoch, time, text(NAME), text("green"), Cell::Number(1), Cell::Number(1)];
    row.extend([shards, shards, 0, 0, 0, 0].map(Cell::Number));
    row.extend([text("-"), text("100.0%")]);
    let with_time = call.params.flag("ts")?.unwrap_or(true);
    let columns: Vec<Column> = COLUMNS
        .iter()
        .map(|column| Column {
            shown: with_time || !["epoch", "timestamp"].contains(&column.name),
            ..*column
        })
        .collect();
    table(&columns, vec![row], &call.params)
}

/// `GET /_cat/aliases`.
pub(crate) async fn aliases(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("alias", &["a"], "alias name"),
        column("index", &["i", "idx"], "index alias points to"),
        column("filter", &["f", "fi"], "filter"),
        column("routing.index", &["ri", "routingIndex"], "index routing"),
        column("routing.search", &["rs", "routingSearch"], "search routing"),
        column("is_write_index", &["w", "isWriteIndex"], "write index"),
    ];
    let records = call.state.node.records().await?;
    let wanted = |name: &str| {
        call.part("name").is_none_or(|names| names.split(',').any(|pattern| wildcard_matches(pattern, name)))
    };
    let expanded = self::indices::how_of_any(&call.params, Wildcards::ALL)?.wildcards;
    let is_spelled =
        |name: &str| call.part("name").is_some_and(|names| names.split(',').any(|part| part == name));
    let found = records.aliases().iter().filter(|(name, alias)| {
        call.client.scope.allows(name)
            && wanted(name.as_str())
            && (expanded.hidden || !alias.hidden || is_spelled(name.as_str()))
    });
    let rows = found.flat_map(|(name, alias)| {
        alias.indices.iter().map(move |index| {
            let writes = alias.write.as_ref().map_or("-".to_owned(), |write| (write == index).to_string());
            let filter = if alias.filters.contains_key(index) { "*" } else { "-" };
            let Routing { index: stored, search } = alias.routing.get(index).cloned().unwrap_or_default();
            let routing = [stored, search].map(|routing| routing.unwrap_or("-".to_owned()));
            let [stored, searched] = routing;
            let cells = [name.to_string(), index.to_string(), filter.into(), stored, searched, writes];
            cells.map(Cell::Text).to_vec()
        })
    });
    table(COLUMNS, rows.collect(), &call.params)
}

/// `GET /_cat`: the tables that there are.
pub(crate) async fn help(_: Call) -> Result<Answer> {
    let paths = APIS.iter().flat_map(|api| api.paths).filter(|path| path.starts_with("/_cat/"));
    let lines: String = paths.map(|path| format!("{path}\n")).collect();
    Ok(Answer::text(format!("=^.^=\n{lines}")))
}

/// `GET /_cat/component_templates`.
pub(crate) async fn component_templates(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("name", &["n"], "component template name"),
        column("version", &["v"], "version"),
        column("alias_count", &["a"], "number of aliases in template"),
        column("mapping_count", &["m"], "number of mappings in template"),
        column("settings_count", &["s"], "number of settings in template"),
        column("metadata_count", &["me"], "number of metadata in template"),
        column("included_in", &["i"], "included in composed index template"),
    ];
    let records = call.state.node.records().await?;
    let wanted = call.part("name").unwrap_or("*");
    let rows = records.others("component_template").filter(|(name, _)| wildcard_matches(wanted, name));
    let rows = rows.map(|(name, template)| {
        let count = |place: &str| {
            Cell::Number(template.pointer(place).and_then(Value::as_object).map_or(0, |all| all.len() as u64))
        };
        let has_it = |(_, template): &(&str, &Value)| {
            let components = template.get("composed_of").and_then(Value::as_array);
            components.is_some_and(|components| components.iter().any(|component| component == name))
        };
        let users: Vec<&str> =
            records.others("index_template").filter(has_it).map(|(name, _)| name).collect();
        vec![
            Cell::Text(name.to_owned()),
            Cell::Text(template.get("version").map_or_else(String::new, Value::to_string)),
            count("/template/aliases"),
            count("/template/mappings/properties"),
            count("/template/settings"),
            count("/_meta"),
            Cell::Text(format!("[{}]", users.join(", "))),
        ]
    });
    table(COLUMNS, rows.collect(), &call.params)
}

/// `GET /_cat/templates`.
pub(crate) async fn templates(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("name", &["n"], "template name"),
        column("index_patterns", &["t"], "template index patterns"),
        column("order", &["o", "p"], "template application order/priority number"),
        column("version", &["v"], "version"),
        column("composed_of", &["c"], "component templates comprising index template"),
    ];
    let records = call.state.node.records().await?;
    let wanted = call.part("name").unwrap_or("*");
    let legacy = records.others("legacy_template").map(|found| (found, "order", Cell::Text(String::new())));
    let composed =
        records.others("index_template").map(|found| (found, "priority", Cell::Text("[]".to_owned())));
    let found = legacy.chain(composed).filter(|((name, _), ..)| wildcard_matches(wanted, name));
    let rows = found.map(|((name, template), order, no_components)| {
        let list = |member: &str| {
            let names = template.get(member).map_or_else(|| json!([]), Clone::clone);
            let names = if names.is_array() { names } else { json!([names]) };
            let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
            Cell::Text(format!("[{}]", names.collect::<Vec<_>>().join(", ")))
        };
        let number = |member: &str, absent: &str| {
            Cell::Text(template.get(member).map_or_else(|| absent.to_owned(), Value::to_string))
        };
        let name = Cell::Text(name.to_owned());
        vec![
            name,
            list("index_patterns"),
            number(order, "0"),
            number("version", ""),
            if template.get("composed_of").is_some() { list("composed_of") } else { no_components },
        ]
    });
    table(COLUMNS, rows.collect(), &call.params)
}

/// `GET /_cat/nodes`.
pub(crate) async fn nodes(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        hidden("id", &["nodeId"], "unique node id"),
        hidden("pid", &["p"], "process id"),
        column("ip", &["i"], "ip address"),
        hidden("port", &["po"], "published transport port"),
        hidden("http_address", &["http"], "published http address"),
        hidden("version", &["v"], "es version"),
        hidden("disk.total", &["dt", "diskTotal"], "total disk space"),
        hidden("disk.used", &["du", "diskUsed"], "used disk space"),
        hidden("disk.avail", &["d", "da", "disk", "diskAvail"], "available disk space"),
        hidden("disk.used_percent", &["dup", "diskUsedPercent"], "used disk space percentage"),
        hidden("ram.current", &["rc", "ramCurrent"], "used machine memory"),
        column("ram.percent", &["rp", "ramPercent"], "used machine memory ratio"),
        hidden("ram.max", &["rm", "ramMax"], "total machine memory"),
        hidden("file_desc.current", &["fdc", "fileDescriptorCurrent"], "used file descriptors"),
        hidden("file_desc.percent", &["fdp", "fileDescriptorPercent"], "used file descriptor ratio"),
        hidden("file_desc.max", &["fdm", "fileDescriptorMax"], "max file descriptors"),
        column("load_1m", &["l"], "1m load avg"),
        column("load_5m", &["l"], "5m load avg"),
        column("load_15m", &["l"], "15m load avg"),
        hidden("uptime", &["u"], "node uptime"),
        column("node.role", &["r", "role", "nodeRole"], "m:master eligible node, d:data node, i:ingest node"),
        column("master", &["m"], "*:current master"),
        column("name", &["n"], "node name"),
    ];
    let (state, address) = (&call.state, call.published_address());
    let (ip, port) = address.rsplit_once(':').unwrap_or((&address, ""));
    let id = uuid(state);
    let id = if call.params.flag("full_id")?.unwrap_or(false) { &id } else { id.get(..4).unwrap_or(&id) };
    let Host { disk, memory, load, process } = Host::read(state).await;
    let text = |text: &str| Cell::Text(text.to_owned());
    let bytes = |bytes: Option<u64>| bytes.map_or(Cell::Nothing, Cell::Bytes);
    let number = |number: Option<u64>| number.map_or(Cell::Nothing, Cell::Number);
    let percent = |part: Option<u64>, of: Option<u64>| Some(part? * 100 / of?.max(1));
    let used = disk.as_ref().map(|disk| disk.total.saturating_sub(disk.free));
    let total = disk.as_ref().map(|disk| disk.total);
    let used_memory = memory.map(|memory| memory.total.saturating_sub(memory.available));
    let all_memory = memory.map(|memory| memory.total);
    let [minute, minutes_5, minutes_15] =
        [0, 1, 2].map(|at| load.map_or(Cell::Nothing, |load| Cell::Text(format!("{:.2}", load[at]))));
    let uptime_us = state.node.clock().now_us().saturating_sub(state.metrics.started_us());
    let row = vec![
        text(id),
        Cell::Number(u64::from(std::process::id())),
        text(ip),
        text(port),
        text(&address),
        text(VERSION),
        bytes(total),
        bytes(used),
        bytes(disk.as_ref().map(|disk| disk.available)),
        match (used, total) {
            (Some(used), Some(total)) => {
                Cell::Text(format!("{:.2}", used as f64 * 100.0 / total.max(1) as f64))
            }
            _ => Cell::Nothing,
        },
        bytes(used_memory),
        number(percent(used_memory, all_memory)),
        bytes(all_memory),
        number(process.files_open),
        number(percent(process.files_open, process.files_max)),
        number(process.files_max),
        minute,
        minutes_5,
        minutes_15,
        Cell::Micros(uptime_us.max(0).unsigned_abs()),
        text("dim"),
        text("*"),
        text(NAME),
    ];
    table(COLUMNS, vec![row], &call.params)
}

/// `GET /_cat/shards`: each index is one.
pub(crate) async fn shards(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("index", &["i", "idx"], "index name"),
        column("shard", &["s", "sh"], "shard name"),
        column("prirep", &["p", "pr", "primaryOrReplica"], "primary or replica"),
        column("state", &["st"], "shard state"),
        column("docs", &["d", "dc"], "number of docs in shard"),
        column("store", &["sto"], "store size of shard"),
        column("ip", &[], "ip of node where it lives"),
        hidden("id", &[], "unique id of node where it lives"),
        column("node", &["n"], "name of node where it lives"),
        hidden("sync_id", &["sync_id"], "sync id"),
        hidden("unassigned.reason", &["ur"], "reason shard became unassigned"),
        hidden("unassigned.at", &["ua"], "time shard became unassigned"),
        hidden("unassigned.for", &["uf"], "time has been unassigned"),
        hidden("unassigned.details", &["ud"], "additional details as to why the shard became unassigned"),
        hidden("recoverysource.type", &["rs"], "recovery source type"),
    ];
    let columns = [COLUMNS, COUNTERS].concat();
    let address = call.published_address();
    let ip = host_of(&address);
    let text = |text: &str| Cell::Text(text.to_owned());
    let found = self::indices::named_of_any(&call, Wildcards::SHOWN).await?;
    let id = uuid(&call.state);
    let figures = Figures::of_each(&call.state, &found);
    let rows = found.iter().zip(&figures).map(|(index, figures)| {
        let (documents, bytes) = size(index);
        let name = text(index.name().as_str());
        let counts = [Cell::Number(documents), Cell::Bytes(bytes)];
        let mut row = vec![name, Cell::Number(0), text("p"), text("STARTED")];
        row.extend(counts);
        row.extend([text(ip), text(&id), text(NAME)]);
        row.extend([const { Cell::Nothing }; 6]);
        row.extend(counters(figures));
        row
    });
    table(&columns, rows.collect(), &call.params)
}

/// `GET /_cat/segments`: each split is one.
pub(crate) async fn segments(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("index", &["i", "idx"], "index name"),
        column("shard", &["s", "sh"], "shard name"),
        column("prirep", &["p", "pr", "primaryOrReplica"], "primary or replica"),
        column("ip", &[], "ip of node where it lives"),
        hidden("id", &[], "unique id of node where it lives"),
        column("segment", &["seg"], "segment name"),
        column("generation", &["g", "gen"], "segment generation"),
        column("docs.count", &["dc", "docsCount"], "number of docs in segment"),
        column("docs.deleted", &["dd", "docsDeleted"], "number of deleted docs in segment"),
        column("size", &["si"], "segment size in bytes"),
        column("size.memory", &["sm", "sizeMemory"], "segment memory in bytes"),
        column("committed", &["ic", "isCommitted"], "is segment committed"),
        column("searchable", &["is", "isSearchable"], "is segment searched"),
        column("version", &["v", "ver"], "version"),
        column("compound", &["ico", "isCompound"], "is segment compound"),
    ];
    let (id, address) = (uuid(&call.state), call.published_address());
    let ip = host_of(&address);
    let text = |text: &str| Cell::Text(text.to_owned());
    let found = self::indices::named(&call).await?;
    let rows = found.iter().flat_map(|index| {
        index.splits().iter().enumerate().map(|(generation, split)| {
            vec![
                text(index.name().as_str()),
                Cell::Number(0),
                text("p"),
                text(ip),
                text(&id),
                Cell::Text(split.id.to_string()),
                Cell::Number(generation as u64),
                Cell::Number(split.rows),
                Cell::Number(0),
                Cell::Bytes(split.object.bytes),
                Cell::Bytes(0),
                text("true"),
                text("true"),
                Cell::Nothing,
                text("true"),
            ]
        })
    });
    table(COLUMNS, rows.collect(), &call.params)
}

/// `GET /_cat/tasks`: the searches that run or wait, and this request.
pub(crate) async fn tasks(call: Call) -> Result<Answer> {
    let detailed = call.params.flag("detailed")?.unwrap_or(false);
    let columns = [
        column("action", &["ac"], "task action"),
        column("task_id", &["ti"], "unique task id"),
        column("parent_task_id", &["pti"], "parent task id"),
        column("type", &["ty"], "task type"),
        column("start_time", &["start"], "start time in ms"),
        column("timestamp", &["ts", "hms", "hhmmss"], "start time in HH:MM:SS"),
        column("running_time", &["time"], "running time"),
        column("ip", &["i"], "ip address"),
        column("node", &["n"], "node name"),
        Column { shown: detailed, ..column("description", &["desc"], "task action description") },
        hidden("x_opaque_id", &["x"], "X-Opaque-ID header"),
    ];
    let (node, address) = (uuid(&call.state), call.published_address());
    let ip = host_of(&address);
    let rows = tasks::with_own(&call).into_iter().map(|task| {
        let cells = [
            tasks::action(&task),
            format!("{node}:{}", task.number),
            "-".to_owned(),
            "transport".to_owned(),
            (task.begun_us / 1_000).to_string(),
            hms(task.begun_us),
            format!("{}ms", task.begun.elapsed().as_millis()),
            ip.to_owned(),
            NAME.to_owned(),
            task.about,
            task.opaque_id.unwrap_or_else(|| "-".to_owned()),
        ];
        cells.map(Cell::Text).to_vec()
    });
    table(&columns, rows.collect(), &call.params)
}

/// `GET /_cat/repositories`.
pub(crate) async fn repositories(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("id", &["id", "repoId"], "unique repository id"),
        column("type", &["t", "type"], "repository type"),
    ];
    let names = snapshot::repositories(&call.state.node.records().await?, "_all")?;
    let rows = names.into_iter().map(|name| [name, snapshot::BUILT_IN.to_owned()].map(Cell::Text).to_vec());
    table(COLUMNS, rows.collect(), &call.params)
}

/// `GET /_cat/snapshots`.
pub(crate) async fn snapshots(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("id", &["snapshot"], "unique snapshot"),
        column("repository", &["re", "repo"], "repository name"),
        column("status", &["s"], "snapshot name"),
        column("start_epoch", &["ste", "startEpoch"], "start time in seconds since 1970-01-01 00:00:00"),
        column("start_time", &["sti", "startTime"], "start time in HH:MM:SS"),
        column("end_epoch", &["ete", "endEpoch"], "end time in seconds since 1970-01-01 00:00:00"),
        column("end_time", &["eti", "endTime"], "end time in HH:MM:SS"),
        column("duration", &["dur"], "duration"),
        column("indices", &["i"], "number of indices"),
        column("successful_shards", &["ss"], "number of successful shards"),
        column("failed_shards", &["fs"], "number of failed shards"),
        column("total_shards", &["ts"], "number of total shards"),
        hidden("reason", &["r"], "reason for failures"),
    ];
    let help = call.params.flag("help")?.unwrap_or(false);
    let found = if help { Vec::new() } else { snapshot::named(&call, "_all").await? };
    let rows = found.into_iter().map(|seen| {
        let (count, took_ms) = (seen.indices.len() as u64, seen.took_ms());
        let [started_ms, ended_ms] = [seen.snapshot.started_ms, seen.snapshot.ended_ms];
        let epoch = |ms: i64| Cell::Text((ms / 1_000).to_string());
        let time = |ms: i64| Cell::Text(hms(ms.saturating_mul(1_000)));
        let took = if took_ms < 1_000 { format!("{took_ms}ms") } else { format!("{}s", took_ms / 1_000) };
        let mut cells = [seen.name, seen.repository, "SUCCESS".to_owned()].map(Cell::Text).to_vec();
        cells.extend([
            epoch(started_ms),
            time(started_ms),
            epoch(ended_ms),
            time(ended_ms),
            Cell::Text(took),
        ]);
        cells.extend([count, count, 0, count].map(Cell::Number));
        cells.push(Cell::Nothing);
        cells
    });
    table(COLUMNS, rows.collect(), &call.params)
}

/// `GET /_cat/pending_tasks`: nothing waits for a cluster to change.
pub(crate) async fn pending_tasks(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("insertOrder", &["o"], "task insertion order"),
        column("timeInQueue", &["t"], "how long task has been in queue"),
        column("priority", &["p"], "task priority"),
        column("source", &["s"], "task source"),
    ];
    table(COLUMNS, Vec::new(), &call.params)
}

fn now(call: &Call) -> [Cell; 2] {
    let now_us = call.state.node.clock().now_us();
    [Cell::Text((now_us.max(0) / 1_000_000).to_string()), Cell::Text(hms(now_us))]
}

/// The time of the day, in UTC.
fn hms(us: i64) -> String {
    let of_day = us.max(0) / 1_000_000 % 86_400;
    format!("{:02}:{:02}:{:02}", of_day / 3_600, of_day / 60 % 60, of_day % 60)
}

/// A table as it is asked for.
fn table(columns: &[Column], mut rows: Vec<Vec<Cell>>, params: &Params) -> Result<Answer> {
    if params.flag("help")?.unwrap_or(false) {
        let lines = columns
            .iter()
            .map(|column| vec![column.name.to_owned(), column.aliases.join(","), column.about.to_owned()]);
        let lines: Vec<Vec<String>> = lines.collect();
        return Ok(Answer::text(aligned(&lines, &[false; 3], " | ")));
    }
    let unit = Unit::of(params)?;
    sort(columns, &mut rows, params)?;
    let chosen = chosen(columns, params);
    match params.get("format").unwrap_or("text") {
        "json" | "yaml" => {
            let objects = rows.iter().map(|row| {
                let cells = chosen.iter().map(|(at, name)| ((*name).to_owned(), unit.to_json(&row[*at])));
                cells.collect::<Map<String, Value>>()
            });
            Answer::json(&objects.collect::<Vec<_>>())
        }
        "text" | "txt" => {
            let right: Vec<bool> = chosen
                .iter()
                .map(|(at, _)| !rows.is_empty() && rows.iter().all(|row| !matches!(row[*at], Cell::Text(_))))
                .collect();
            let header = chosen.iter().map(|(_, name)| (*name).to_owned()).collect();
            let header = params.flag("v")?.unwrap_or(false).then_some(header);
            let lines = rows.iter().map(|row| chosen.iter().map(|(at, _)| unit.show(&row[*at])).collect());
            let lines: Vec<Vec<String>> = header.into_iter().chain(lines).collect();
            Ok(Answer::text(aligned(&lines, &right, " ")))
        }
        other => Err(ApiError::invalid(format!("the format is text, json or yaml, not [{other}]"))),
    }
}

/// The position of the column of that name.
fn find(columns: &[Column], name: &str) -> Option<usize> {
    let exact = columns.iter().position(|column| column.name == name);
    exact.or_else(|| columns.iter().position(|column| column.aliases.contains(&name)))
}

/// The positions of the columns that are shown, each with the name that it is asked for by. What is no column is left out, as scripts are written for many versions.
fn chosen<'a>(columns: &'a [Column], params: &'a Params) -> Vec<(usize, &'a str)> {
    let own = |at: usize| (at, columns[at].name);
    let Some(names) = params.list("h") else {
        return (0..columns.len()).filter(|at| columns[*at].shown).map(own).collect();
    };
    let mut all = Vec::new();
    for name in names {
        if name.contains('*') {
            all.extend((0..columns.len()).filter(|at| wildcard_matches(name, columns[*at].name)).map(own));
        } else {
            all.extend(find(columns, name).map(|at| (at, name)));
        }
    }
    all
}

fn sort(columns: &[Column], rows: &mut [Vec<Cell>], params: &Params) -> Result<()> {
    let mut keys = Vec::new();
    for key in params.list("s").unwrap_or_default() {
        let (name, descending) = match key.rsplit_once(':') {
            Some((name, "desc")) => (name, true),
            Some((name, "asc")) => (name, false),
            _ => (key, false),
        };
        let at = find(columns, name);
        keys.push((
            at.ok_or_else(|| ApiError::invalid(format!("Unable to sort by unknown sort key `{name}`")))?,
            descending,
        ));
    }
    rows.sort_by(|a, b| {
        let compared = keys.iter().map(|(at, descending)| {
            let order = a[*at].compare(&b[*at]);
            if *descending { order.reverse() } else { order }
        });
        compared.fold(Ordering::Equal, Ordering::then)
    });
    Ok(())
}

impl Cell {
    fn compare(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (
                Cell::Number(a) | Cell::Bytes(a) | Cell::Micros(a),
                Cell::Number(b) | Cell::Bytes(b) | Cell::Micros(b),
            ) => a.cmp(b),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (Cell::Nothing, Cell::Nothing) => Ordering::Equal,
            (Cell::Nothing, _) => Ordering::Less,
            (_, Cell::Nothing) => Ordering::Greater,
            (Cell::Text(_), _) => Ordering::Greater,
            (_, Cell::Text(_)) => Ordering::Less,
        }
    }
}

/// How bytes and times are shown: in so many bytes and microseconds, or as people read them best.
struct Unit {
    bytes: Option<u64>,
    micros: Option<u64>,
}

/// Each is 1,024 of the one before.
const UNITS: [&str; 6] = ["b", "kb", "mb", "gb", "tb", "pb"];
/// Units of time, and their microseconds.
const TIMES: [(&str, u64); 6] = [
    ("micros", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

impl Unit {
    fn of(params: &Params) -> Result<Unit> {
        let bytes = params.get("bytes").map(|name| {
            let power = UNITS.iter().position(|unit| *unit == name || unit.strip_suffix('b') == Some(name));
            let power = power.ok_or_else(|| {
                ApiError::invalid(format!("[bytes] is one of b, kb, mb, gb, tb and pb, not [{name}]"))
            })?;
            Ok::<_, ApiError>(1 << (10 * power))
        });
        let micros = params.get("time").map(|name| {
            let unit = TIMES.iter().find(|(unit, _)| *unit == name);
            unit.map(|(_, micros)| *micros).ok_or_else(|| {
                ApiError::invalid(format!("[time] is one of d, h, m, s, ms and micros, not [{name}]"))
            })
        });
        Ok(Unit { bytes: bytes.transpose()?, micros: micros.transpose()? })
    }

    /// The same, in JSON.
    fn to_json(&self, cell: &Cell) -> Value {
        if *cell == Cell::Nothing { Value::Null } else { Value::String(self.show(cell)) }
    }

    fn show(&self, cell: &Cell) -> String {
        match cell {
            Cell::Nothing => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Number(number) => number.to_string(),
            Cell::Bytes(bytes) => {
                self.bytes.map_or_else(|| readable_bytes(*bytes), |unit| (bytes / unit).to_string())
            }
            Cell::Micros(us) => {
                self.micros.map_or_else(|| readable_time(*us), |unit| (us / unit).to_string())
            }
        }
    }
}

/// Bytes as Elasticsearch shows them to people: `1.5kb`.
pub(crate) fn readable_bytes(bytes: u64) -> String {
    let power = (bytes.max(1).ilog2() / 10).min(UNITS.len() as u32 - 1);
    tenths((u128::from(bytes) * 10) >> (10 * power), UNITS[power as usize])
}

/// Whole milliseconds of a time as Elasticsearch shows them to people: `1.5s`.
pub(crate) fn readable_time(us: u64) -> String {
    let ms = us / 1_000;
    match TIMES.iter().rev().find(|(_, unit)| ms * 1_000 >= *unit) {
        Some((unit, micros)) if ms > 0 => tenths(u128::from(ms) * 10_000 / u128::from(*micros), unit),
        _ => "0s".to_owned(),
    }
}

fn tenths(tenths: u128, unit: &str) -> String {
    match tenths % 10 {
        0 => format!("{}{unit}", tenths / 10),
        tenth => format!("{}.{tenth}{unit}", tenths / 10),
    }
}

/// Lines whose cells stand below one another, some of them to the right.
fn aligned(lines: &[Vec<String>], right: &[bool], between: &str) -> String {
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..right.len()).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let last = line.len().saturating_sub(1);
        let cells = line.iter().zip(&widths).zip(right).enumerate().map(|(at, ((cell, width), right))| {
            match (right, at == last) {
                (true, _) => format!("{cell:>width$}"),
                (false, false) => format!("{cell:<width$}"),
                // Nothing follows it.
                (false, true) => cell.clone(),
            }
        });
        text.push_str(&cells.collect::<Vec<String>>().join(between));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tested;

    #[tokio::test]
    async fn the_list_of_tasks_has_itself() {
        let tested = Tested::new();
        let request =
            http::Request::builder().uri("/_cat/tasks?h=action,x_opaque_id").header("x-opaque-id", "me");
        let listed = tested.request(request.body(http_body_util::Full::from("")).unwrap()).await;
        assert_eq!(listed.body, "cluster:monitor/tasks/lists me\n");
        let columns = async |path: &str| {
            let listed = tested.ok("GET", path, "").await;
            listed[0].as_object().unwrap().keys().len()
        };
        assert_eq!(columns("/_cat/tasks?format=json").await, 9);
        assert_eq!(columns("/_cat/tasks?format=json&detailed").await, 10);
        assert_eq!(tested.get("/_cat/pending_tasks").await.body, "");
        assert_eq!(tested.ok("GET", "/_cluster/pending_tasks", "").await, json!({ "tasks": [] }));
    }

    const COLUMNS: &[Column] = &[
        column("index", &["i"], "index name"),
        column("docs.count", &["dc"], "available docs"),
        hidden("store.size", &["ss"], "store size"),
    ];

    fn shown(params: &str) -> std::result::Result<String, String> {
        let row = |name: &str, count, bytes| {
            vec![Cell::Text(name.to_owned()), Cell::Number(count), Cell::Bytes(bytes)]
        };
        let rows = vec![row("web", 7, 1_536), row("application", 100, 10)];
        match table(COLUMNS, rows, &Params::parse(params)) {
            Ok(Answer { content: crate::answer::Content::Text { text, .. }, .. }) => Ok(text),
            Ok(Answer { content: crate::answer::Content::Json(json), .. }) => {
                Ok(String::from_utf8(json).unwrap())
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.reason),
        }
    }

    #[test]
    fn a_table_has_the_columns_and_the_order_that_are_asked_for() {
        assert_eq!(shown("").unwrap(), "web           7\napplication 100\n");
        assert_eq!(shown("v&s=dc:desc&h=dc,i").unwrap(), " dc i\n100 application\n  7 web\n");
        assert_eq!(shown("h=store.*,nothing").unwrap(), "1.5kb\n  10b\n");
        assert_eq!(shown("h=ss&bytes=b").unwrap(), "1536\n  10\n");
        assert_eq!(
            shown("format=json&h=index,docs.count&s=index").unwrap(),
            r#"[{"index":"application","docs.count":"100"},{"index":"web","docs.count":"7"}]"#
        );
        assert!(shown("help").unwrap().starts_with("index      | i  | index name\n"));
        assert!(shown("s=size").unwrap_err().contains("`size`"));
        assert!(shown("bytes=many").is_err() && shown("format=xml").is_err());
        assert_eq!(shown("v&h=ss,i&s=i:desc").unwrap(), "   ss i\n1.5kb web\n  10b application\n");
    }

    #[test]
    fn times_and_bytes_are_shown_as_people_read_them() {
        for (us, shown) in [
            (999, "0s"),
            (1_000, "1ms"),
            (999_999, "999ms"),
            (1_500_000, "1.5s"),
            (90_000_000, "1.5m"),
            (7_200_000_000, "2h"),
            (u64::MAX, "213503982.3d"),
        ] {
            assert_eq!(readable_time(us), shown, "{us}");
        }
        assert_eq!([0, 1_023, 1_536, u64::MAX].map(readable_bytes), ["0b", "1023b", "1.5kb", "16383.9pb"]);
    }
}
