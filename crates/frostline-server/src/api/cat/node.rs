//! Tables about the one node, and of what there is none here: plugins, attributes, field data, shards that are recovered.

use frostline_base::wildcard_matches;
use frostline_catalog::Wildcards;

use super::{Cell, Column, column, hidden, size, table};
use crate::answer::Answer;
use crate::api::cluster::{host_of, is_the_node};
use crate::api::indices;
use crate::api::info::{NAME, uuid};
use crate::error::Result;
use crate::host::Host;
use crate::state::Call;

/// `GET /_cat/allocation/{node_id}`: the disk is that of the data directory, which has the indices only where the repository
/// is on it.
pub(crate) async fn allocation(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("shards", &["s"], "number of shards on node"),
        column("disk.indices", &["di", "diskIndices"], "disk used by indices"),
        column("disk.used", &["du", "diskUsed"], "disk used (total, not just indices)"),
        column("disk.avail", &["da", "diskAvail"], "disk available"),
        column("disk.total", &["dt", "diskTotal"], "total capacity of all volumes"),
        column("disk.percent", &["dp", "diskPercent"], "percent disk used"),
        column("host", &["h"], "host of node"),
        column("ip", &[], "ip of node"),
        column("node", &["n"], "name of node"),
    ];
    if !call.part("node_id").is_none_or(|asked| is_the_node(&call.state, asked)) {
        return table(COLUMNS, Vec::new(), &call.params);
    }
    let found = indices::named_of_any(&call, Wildcards::ALL).await?;
    let disk = Host::read(&call.state).await.disk;
    let of_disk = match disk {
        Some(disk) => {
            let used = disk.total.saturating_sub(disk.free);
            let percent = u128::from(used) * 100 / u128::from(disk.total.max(1));
            let bytes = [used, disk.available, disk.total].map(Cell::Bytes);
            bytes.into_iter().chain([Cell::Number(percent as u64)]).collect()
        }
        None => vec![Cell::Nothing; 4],
    };
    let mut row =
        vec![Cell::Number(found.len() as u64), Cell::Bytes(found.iter().map(|index| size(index).1).sum())];
    row.extend(of_disk);
    row.extend(host_and_ip(&call));
    row.push(name());
    table(COLUMNS, vec![row], &call.params)
}

/// `GET /_cat/master`.
pub(crate) async fn master(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("id", &[], "node id"),
        column("host", &["h"], "host name"),
        column("ip", &[], "ip address"),
        column("node", &["n"], "node name"),
    ];
    let [host, ip] = host_and_ip(&call);
    table(COLUMNS, vec![vec![Cell::Text(uuid(&call.state)), host, ip, name()]], &call.params)
}

/// `GET /_cat/thread_pool/{thread_pool_patterns}`: searches have one. What Elasticsearch tells of one and nobody counts is left out.
pub(crate) async fn thread_pool(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("node_name", &["nn"], "node name"),
        hidden("node_id", &["id"], "persistent node id"),
        hidden("pid", &["p"], "process id"),
        hidden("host", &["h"], "host name"),
        hidden("ip", &["i"], "ip address"),
        hidden("port", &["po"], "bound transport port"),
        column("name", &["n"], "thread pool name"),
        hidden("type", &["t"], "thread pool type"),
        column("active", &["a"], "number of active threads"),
        hidden("pool_size", &["psz"], "number of threads"),
        column("queue", &["q"], "number of tasks currently in queue"),
        hidden("queue_size", &["qs"], "maximum number of tasks permitted in queue"),
        column("rejected", &["r"], "number of rejected tasks"),
        hidden("size", &["sz"], "number of threads in a fixed thread pool"),
    ];
    const POOL: &str = "search";
    let patterns = call.part("thread_pool_patterns").unwrap_or("*");
    if !patterns.split(',').any(|pattern| wildcard_matches(pattern.trim(), POOL)) {
        return table(COLUMNS, Vec::new(), &call.params);
    }
    let (state, address) = (&call.state, call.published_address());
    let (active, queue) = state.searches.load();
    let threads = Cell::Number(state.settings.searches_max as u64);
    let [host, ip] = host_and_ip(&call);
    let port = address.rsplit_once(':').map_or(Cell::Nothing, |(_, port)| Cell::Text(port.to_owned()));
    let row = vec![
        name(),
        Cell::Text(uuid(state)),
        Cell::Number(u64::from(std::process::id())),
        host,
        ip,
        port,
        Cell::Text(POOL.to_owned()),
        Cell::Text("fixed".to_owned()),
        Cell::Number(active as u64),
        threads.clone(),
        Cell::Number(queue as u64),
        Cell::Number(state.settings.searches_waiting_max as u64),
        Cell::Number(state.searches.refused()),
        threads,
    ];
    table(COLUMNS, vec![row], &call.params)
}

/// `GET /_cat/nodeattrs`: a node has attributes to place shards by, and none is placed.
pub(crate) async fn attributes(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("node", &["name"], "node name"),
        hidden("id", &["nodeId"], "unique node id"),
        hidden("pid", &["p"], "process id"),
        column("host", &["h"], "host name"),
        column("ip", &["i"], "ip address"),
        hidden("port", &["po"], "bound transport port"),
        column("attr", &["attr.name"], "attribute description"),
        column("value", &["attr.value"], "attribute value"),
    ];
    table(COLUMNS, Vec::new(), &call.params)
}

/// `GET /_cat/plugins`: there are no plugins.
pub(crate) async fn plugins(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        hidden("id", &[], "unique node id"),
        column("name", &["n"], "node name"),
        column("component", &["c"], "component"),
        column("version", &["v"], "component version"),
        hidden("description", &["d"], "plugin details"),
    ];
    table(COLUMNS, Vec::new(), &call.params)
}

/// `GET /_cat/fielddata/{fields}`: no values of fields are loaded for good.
pub(crate) async fn field_data(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("id", &[], "node id"),
        column("host", &["h"], "host name"),
        column("ip", &[], "ip address"),
        column("node", &["n"], "node name"),
        column("field", &["f"], "field name"),
        column("size", &["s"], "field data usage"),
    ];
    table(COLUMNS, Vec::new(), &call.params)
}

/// `GET /_cat/recovery/{index}`: no index has to be brought to a node before it is searched.
pub(crate) async fn recovery(call: Call) -> Result<Answer> {
    const COLUMNS: &[Column] = &[
        column("index", &["i", "idx"], "index name"),
        column("shard", &["s", "sh"], "shard name"),
        hidden("start_time", &["start"], "recovery start time"),
        hidden("start_time_millis", &["start_millis"], "recovery start time in epoch milliseconds"),
        hidden("stop_time", &["stop"], "recovery stop time"),
        hidden("stop_time_millis", &["stop_millis"], "recovery stop time in epoch milliseconds"),
        column("time", &["t", "ti"], "recovery time"),
        column("type", &["ty"], "recovery type"),
        column("stage", &["st"], "recovery stage"),
        column("source_host", &["shost"], "source host"),
        hidden("source_node", &["snode"], "source node name"),
        column("target_host", &["thost"], "target host"),
        hidden("target_node", &["tnode"], "target node name"),
        column("repository", &["rep"], "repository"),
        column("snapshot", &["snap"], "snapshot"),
        column("files", &["f"], "number of files to recover"),
        column("files_recovered", &["fr"], "files recovered"),
        column("files_percent", &["fp"], "percent of files recovered"),
        column("files_total", &["tf"], "total number of files"),
        column("bytes", &["b"], "number of bytes to recover"),
        column("bytes_recovered", &["br"], "bytes recovered"),
        column("bytes_percent", &["bp"], "percent of bytes recovered"),
        column("bytes_total", &["tb"], "total number of bytes"),
        column("translog_ops", &["to"], "number of translog ops to recover"),
        column("translog_ops_recovered", &["tor"], "translog ops recovered"),
        column("translog_ops_percent", &["top"], "percent of translog ops recovered"),
    ];
    if !call.params.flag("help")?.unwrap_or(false) {
        // What is not there is told.
        indices::named_of_any(&call, Wildcards::SHOWN).await?;
    }
    table(COLUMNS, Vec::new(), &call.params)
}

fn host_and_ip(call: &Call) -> [Cell; 2] {
    let address = call.published_address();
    [host_of(&address), host_of(&address)].map(|host| Cell::Text(host.to_owned()))
}

fn name() -> Cell {
    Cell::Text(NAME.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::testing::Tested;

    #[tokio::test]
    async fn the_one_node_has_all_indices() {
        let tested = Tested::new();
        assert_eq!(tested.get("/_cat/allocation?h=shards,disk.indices,node").await.body, "0 0b frostline\n");
        tested.ingest("web", 3).await;
        let bytes =
            tested.ok("GET", "/web/_stats/store", "").await["_all"]["total"]["store"]["size_in_bytes"]
                .clone();
        let table = tested.ok("GET", "/_cat/allocation?format=json&bytes=b", "").await;
        assert_eq!(
            (&table[0]["shards"], &table[0]["disk.indices"]),
            (&"1".into(), &bytes.to_string().into())
        );
        let number = |name: &str| table[0][name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(number("disk.used") + number("disk.avail") <= number("disk.total"), "{table}");
        assert!(number("disk.percent") <= 100);
        for (node, lines) in [("_master", 1), ("other,frostline", 1), ("*", 1), ("other", 0)] {
            let shown = tested.get(&format!("/_cat/allocation/{node}")).await;
            assert_eq!(shown.body.iter().filter(|byte| **byte == b'\n').count(), lines, "{node}");
        }
        assert_eq!(tested.get("/_cat/master?h=node").await.body, "frostline\n");
    }

    #[tokio::test]
    async fn searches_are_the_one_pool() {
        let tested = Tested::new();
        let _turns = tested.state.searches.turns(1);
        let settings = &tested.state.settings;
        let expected = format!("search 1 0 0 {} {}\n", settings.searches_max, settings.searches_waiting_max);
        let shown = tested.get("/_cat/thread_pool/s*,write?h=n,active,queue,rejected,size,queue_size").await;
        assert_eq!(shown.body, expected);
        assert_eq!(tested.get("/_cat/thread_pool/write").await.body, "");
    }

    #[tokio::test]
    async fn tables_of_what_there_is_none_of_have_their_columns() {
        let tested = Tested::new();
        for (name, columns) in [
            ("fielddata", "id host ip node field size"),
            ("nodeattrs", "node host ip attr value"),
            ("plugins", "name component version"),
        ] {
            assert_eq!(tested.get(&format!("/_cat/{name}")).await.body, "");
            let head = tested.get(&format!("/_cat/{name}?v")).await;
            assert_eq!(head.body, format!("{columns}\n"));
        }
        assert_eq!(tested.get("/_cat/recovery/missing").await.status, 404);
        assert_eq!(tested.get("/_cat/recovery?h=i,st&v").await.body, "i st\n");
    }
}
