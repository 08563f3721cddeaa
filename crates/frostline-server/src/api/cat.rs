//! `_cat`: tables for people and scripts.

use std::cmp::Ordering;
use std::time::Instant;

use frostline_catalog::{Access, Index, Resolve, Wildcards};
use frostline_query::language::wildcard_matches;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::info::{NAME, VERSION, uuid};
use crate::api::{blocks, indices, snapshot, tasks};
use crate::error::{ApiError, Result};
use crate::params::Params;
use crate::searches::Task;
use crate::state::Call;

/// A column of a table.
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

/// The value of a cell.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Text(String),
    Number(u64),
    Bytes(u64),
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
        Column {
            name: "creation.date",
            aliases: &["cd"],
            about: "index creation date (millisecond value)",
            shown: false,
        },
        Column {
            name: "creation.date.string",
            aliases: &["cds"],
            about: "index creation date (as string)",
            shown: false,
        },
        column("docs.count", &["dc", "docsCount"], "available docs"),
        column("docs.deleted", &["dd", "docsDeleted"], "deleted docs"),
        column("store.size", &["ss", "storeSize"], "store size of primaries & replicas"),
        column("pri.store.size", &[], "store size of primaries"),
        column("dataset.size", &[], "total size of dataset"),
        Column { name: "splits", aliases: &[], about: "number of splits", shown: false },
    ];
    let help = call.params.flag("help")?.unwrap_or(false);
    let health = call.params.get("health").map(str::to_lowercase);
    if let Some(other) = health.as_deref().filter(|health| !["green", "red", "yellow"].contains(health)) {
        return Err(ApiError::invalid(format!("unknown cluster health status [{other}]")));
    }
    let wanted = health.is_none_or(|health| health == "green");
    let found = if help { Vec::new() } else { self::indices::named_of_any(&call, Wildcards::SHOWN).await? };
    let records = call.state.node.catalog().seen_records();
    let rows = found.iter().filter(|_| wanted).map(|index| {
        let (documents, bytes) = size(index);
        let is_closed = records.as_ref().is_some_and(|records| records.is_closed(index.name()));
        let created = records.as_ref().and_then(|records| records.created_ms(index.name()));
        // Of what is closed nothing is counted.
        let of_open = |cell: Cell| if is_closed { Cell::Nothing } else { cell };
        vec![
            Cell::Text("green".to_owned()),
            Cell::Text(if is_closed { "close" } else { "open" }.to_owned()),
            Cell::Text(index.name().to_string()),
            Cell::Text(index.table_id().to_owned()),
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
        ]
    });
    table(COLUMNS, rows.collect(), &call.params)
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
    table(COLUMNS, vec![row], &call.params)
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
            let cells = [name.to_string(), index.to_string(), filter.into(), "-".into(), "-".into(), writes];
            cells.map(Cell::Text).to_vec()
        })
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
        column("ip", &["i"], "ip address"),
        column("node.role", &["r", "role", "nodeRole"], "m:master eligible node, d:data node, i:ingest node"),
        column("master", &["m"], "*:current master"),
        column("name", &["n"], "node name"),
        Column { name: "version", aliases: &["v"], about: "es version", shown: false },
        Column { name: "http_address", aliases: &["http"], about: "bound http address", shown: false },
    ];
    let address = &call.state.address;
    let ip = address.rsplit_once(':').map_or(address.as_str(), |(ip, _)| ip);
    let row = [ip, "dim", "*", NAME, VERSION, address].map(|text| Cell::Text(text.to_owned()));
    table(COLUMNS, vec![row.to_vec()], &call.params)
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
        column("node", &["n"], "name of node where it lives"),
    ];
    let address = &call.state.address;
    let ip = address.rsplit_once(':').map_or(address.as_str(), |(ip, _)| ip);
    let text = |text: &str| Cell::Text(text.to_owned());
    let found = self::indices::named_of_any(&call, Wildcards::SHOWN).await?;
    let rows = found.iter().map(|index| {
        let (documents, bytes) = size(index);
        let name = text(index.name().as_str());
        let counts = [Cell::Number(documents), Cell::Bytes(bytes)];
        let mut row = vec![name, Cell::Number(0), text("p"), text("STARTED")];
        row.extend(counts);
        row.extend([text(ip), text(NAME)]);
        row
    });
    table(COLUMNS, rows.collect(), &call.params)
}

/// `GET /_cat/segments`: each split is one.
pub(crate) async fn segments(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("index", &["i", "idx"], "index name"),
        column("shard", &["s", "sh"], "shard name"),
        column("prirep", &["p", "pr", "primaryOrReplica"], "primary or replica"),
        column("segment", &["seg"], "segment name"),
        column("docs.count", &["dc", "docsCount"], "number of docs in segment"),
        column("docs.deleted", &["dd", "docsDeleted"], "number of deleted docs in segment"),
        column("size", &["si"], "segment size in bytes"),
        column("committed", &["ic", "isCommitted"], "is segment committed"),
        column("searchable", &["is", "isSearchable"], "is segment searched"),
    ];
    let text = |text: &str| Cell::Text(text.to_owned());
    let found = self::indices::named(&call).await?;
    let rows = found.iter().flat_map(|index| {
        index.splits().iter().map(|split| {
            vec![
                text(index.name().as_str()),
                Cell::Number(0),
                text("p"),
                Cell::Text(split.id.to_string()),
                Cell::Number(split.rows),
                Cell::Number(0),
                Cell::Bytes(split.object.bytes),
                text("true"),
                text("true"),
            ]
        })
    });
    table(COLUMNS, rows.collect(), &call.params)
}

/// `GET /_cat/tasks`: the searches that run or wait, and this request.
pub(crate) async fn tasks(call: Call) -> Result<Answer> {
    let detailed = call.params.flag("detailed")?.unwrap_or(false);
    let hidden = |name, aliases, about| Column { name, aliases, about, shown: false };
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
    let clock = call.state.node.clock();
    let opaque_id = call.headers.get("x-opaque-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let own = Task {
        number: call.state.searches.next_number(),
        api: tasks::CAT,
        about: String::new(),
        opaque_id,
        begun_us: clock.now_us(),
        begun: Instant::now(),
    };
    let (node, address) = (uuid(&call.state), &call.state.address);
    let ip = address.rsplit_once(':').map_or(address.as_str(), |(ip, _)| ip);
    let rows = call.state.searches.tasks().into_iter().chain([own]).map(|task| {
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
        Column { name: "reason", aliases: &["r"], about: "reason for failures", shown: false },
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
        "json" => {
            let objects = rows.iter().map(|row| {
                let cells = chosen.iter().map(|at| (columns[*at].name.to_owned(), unit.to_json(&row[*at])));
                cells.collect::<Map<String, Value>>()
            });
            Answer::json(&objects.collect::<Vec<_>>())
        }
        "text" | "txt" => {
            let right: Vec<bool> = chosen
                .iter()
                .map(|at| !rows.is_empty() && rows.iter().all(|row| !matches!(row[*at], Cell::Text(_))))
                .collect();
            let header = chosen.iter().map(|at| columns[*at].name.to_owned()).collect();
            let header = params.flag("v")?.unwrap_or(false).then_some(header);
            let lines = rows.iter().map(|row| chosen.iter().map(|at| unit.show(&row[*at])).collect());
            let lines: Vec<Vec<String>> = header.into_iter().chain(lines).collect();
            Ok(Answer::text(aligned(&lines, &right, " ")))
        }
        other => Err(ApiError::invalid(format!("the format is text or json, not [{other}]"))),
    }
}

/// The position of the column of that name.
fn find(columns: &[Column], name: &str) -> Option<usize> {
    let exact = columns.iter().position(|column| column.name == name);
    exact.or_else(|| columns.iter().position(|column| column.aliases.contains(&name)))
}

/// The positions of the columns that are shown. What is no column is left out, as scripts are written for many versions.
fn chosen(columns: &[Column], params: &Params) -> Vec<usize> {
    let Some(names) = params.list("h") else {
        return (0..columns.len()).filter(|at| columns[*at].shown).collect();
    };
    let mut all = Vec::new();
    for name in names {
        if name.contains('*') {
            all.extend((0..columns.len()).filter(|at| wildcard_matches(name, columns[*at].name)));
        } else {
            all.extend(find(columns, name));
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
            (Cell::Number(a) | Cell::Bytes(a), Cell::Number(b) | Cell::Bytes(b)) => a.cmp(b),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (Cell::Nothing, Cell::Nothing) => Ordering::Equal,
            (Cell::Nothing, _) => Ordering::Less,
            (_, Cell::Nothing) => Ordering::Greater,
            (Cell::Text(_), _) => Ordering::Greater,
            (_, Cell::Text(_)) => Ordering::Less,
        }
    }
}

/// How bytes are shown.
enum Unit {
    Readable,
    Of(u64),
}

/// Each is 1,024 of the one before.
const UNITS: [&str; 6] = ["b", "kb", "mb", "gb", "tb", "pb"];

impl Unit {
    fn of(params: &Params) -> Result<Unit> {
        let Some(name) = params.get("bytes") else { return Ok(Unit::Readable) };
        let power = UNITS.iter().position(|unit| *unit == name || unit.strip_suffix('b') == Some(name));
        let power = power.ok_or_else(|| {
            ApiError::invalid(format!("[bytes] is one of b, kb, mb, gb, tb and pb, not [{name}]"))
        })?;
        Ok(Unit::Of(1 << (10 * power)))
    }

    /// The same, in JSON.
    fn to_json(&self, cell: &Cell) -> Value {
        if *cell == Cell::Nothing { Value::Null } else { Value::String(self.show(cell)) }
    }

    fn show(&self, cell: &Cell) -> String {
        match (cell, self) {
            (Cell::Nothing, _) => String::new(),
            (Cell::Text(text), _) => text.clone(),
            (Cell::Number(number), _) => number.to_string(),
            (Cell::Bytes(bytes), Unit::Of(unit)) => (bytes / unit).to_string(),
            (Cell::Bytes(bytes), Unit::Readable) => {
                let power = (bytes.max(&1).ilog2() / 10).min(UNITS.len() as u32 - 1);
                let tenths = (*bytes as u128 * 10) >> (10 * power);
                let unit = UNITS[power as usize];
                match tenths % 10 {
                    0 => format!("{}{unit}", tenths / 10),
                    tenth => format!("{}.{tenth}{unit}", tenths / 10),
                }
            }
        }
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
        Column { name: "store.size", aliases: &["ss"], about: "store size", shown: false },
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
        assert_eq!(
            shown("v&s=dc:desc&h=dc,i").unwrap(),
            "docs.count index\n       100 application\n         7 web\n"
        );
        assert_eq!(shown("h=store.*,nothing").unwrap(), "1.5kb\n  10b\n");
        assert_eq!(shown("h=ss&bytes=b").unwrap(), "1536\n  10\n");
        assert_eq!(
            shown("format=json&h=index,docs.count&s=index").unwrap(),
            r#"[{"index":"application","docs.count":"100"},{"index":"web","docs.count":"7"}]"#
        );
        assert!(shown("help").unwrap().starts_with("index      | i  | index name\n"));
        assert!(shown("s=size").unwrap_err().contains("`size`"));
        assert!(shown("bytes=many").is_err() && shown("format=yaml").is_err());
    }
}
