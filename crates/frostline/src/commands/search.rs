//! `frostline search` and `frostline explain`.

use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use frostline_base::{ErrorKind, wildcard_matches};
use frostline_catalog::Index;
use frostline_node::Node;
use frostline_query::language::{Held, IndexVersion};
use frostline_query::{Json, OpeningCost, QueryCost, Response, Search, SearchOptions, SplitCost, time_name};
use frostline_show::{
    Table, item_progress, json_line, note, printable, say, say_json, say_json_of, show_bytes, show_count,
};
use serde_json::{Value, json};

use super::highlight::Highlight;
use super::hits::Columns;
use super::remote::Remote;
use crate::Outcome;
use crate::args::{self, Format};
use crate::config::Config;

/// Documents per page of an export: the maximum of one search.
const EXPORT_PAGE: usize = 10_000;

pub(crate) async fn run(config: &Config, given: args::Search) -> Result<Outcome> {
    check_quotes(&given)?;
    tell_of_operators(&given);
    if let Some(url) = config.server(given.server.as_deref()) {
        return through(config, &Remote::of(url, &given).await?, &given).await;
    }
    let node = config.node()?;
    if given.all {
        let outcome = export(config, &node, &given).await;
        node.close().await;
        return outcome;
    }
    let (indices, body) = asked(&node, &given).await?;
    let options = node.search_options(!given.no_result_cache, given.strict).await;
    let search = prepared(&node, &indices, &given, &body, &options).await?;
    let (opening, opening_cost) = (config.started.elapsed(), opening_cost(&node));
    let mut response = search.run().await?;
    response.cost.opening.add(&opening_cost);
    node.close().await;
    tell(config, &given, response, opening)
}

/// Asks a server.
async fn through(config: &Config, remote: &Remote, given: &args::Search) -> Result<Outcome> {
    if given.all {
        let time = remote.time_field().await?;
        let pit = remote.keep().await?;
        let source = Source::Server { remote, time: time.as_deref().unwrap_or(TIME) };
        let outcome = export_of(config, &source, Some(pit.clone()), given).await;
        remote.release(&pit).await;
        return outcome;
    }
    let body = match given_body(given)? {
        Some(body) if given.index.is_some() && Held::of_body(&body)?.is_some() => {
            bail!("a point in time says itself what is searched: leave out --index")
        }
        Some(body) => body,
        None if given.since.is_some() || given.until.is_some() => {
            written_body(given, remote.time_field().await?.as_deref().unwrap_or(TIME))
        }
        None => written_body(given, TIME),
    };
    let response = remote.search(&body).await?;
    tell(config, given, response, Duration::ZERO)
}

/// Prints an answer that had to wait so long for the indices to be opened.
fn tell(config: &Config, given: &args::Search, response: Response, opening: Duration) -> Result<Outcome> {
    let waited = Waited { opening, whole: config.started.elapsed() };
    tell_of_warnings(&response);
    let outcome = if response.is_partial() { Outcome::Partial } else { Outcome::Done };
    match given.format.unwrap_or(if config.json { Format::Json } else { Format::Lines }) {
        Format::Json => say_json_of(|out| response.write(out))?,
        Format::Lines => print(&response, &Highlight::of(given.query.as_deref()), &waited)?,
        format => print_hits(&response, given, format, &waited)?,
    }
    Ok(outcome)
}

fn tell_of_warnings(response: &Response) {
    for warning in &response.warnings {
        note!("{}", printable(warning));
    }
}

pub(crate) async fn explain(config: &Config, given: args::Search) -> Result<Outcome> {
    if let Some(option) = given.running() {
        bail!("explain reads the repository itself, and runs nothing: leave out {option}");
    }
    check_quotes(&given)?;
    let node = config.node()?;
    let (indices, body) = asked(&node, &given).await?;
    let options = node.search_options(false, given.strict).await;
    let explained = prepared(&node, &indices, &given, &body, &options).await?.explain().await?;
    if config.json {
        say_json(&explained)?;
        return Ok(Outcome::Done);
    }
    explained.warnings.iter().for_each(|warning| note!("{warning}"));
    if explained.pruned_query > 0 {
        say!(
            "the query rules out {}: no document of it can match",
            show_count(explained.pruned_query, "split")
        )?;
    }
    say!(
        "at most {} of {} splits are opened ({} rows): {} of footers, then dictionaries, postings and columns where they match",
        explained.splits_opened_max,
        explained.splits_live,
        explained.rows_max,
        show_bytes(explained.footer_bytes)
    )?;
    if explained.needle_splits > 0 {
        say!(
            "before that, {} of needle segments may rule out {} of them",
            show_count(explained.needle_pages, "page"),
            explained.needle_splits
        )?;
    }
    for plan in &explained.plans {
        say!("\n{}", plan.trim_end())?;
    }
    Ok(Outcome::Done)
}

/// The indices that are asked, and the body of the request.
async fn asked(node: &Node, given: &args::Search) -> Result<(Vec<Arc<Index>>, Vec<u8>)> {
    let body = given_body(given)?;
    let indices = indices(node, given, body.as_deref().unwrap_or(b"{}")).await?;
    let body = match body {
        Some(body) => body,
        None if given.since.is_some() || given.until.is_some() => written_body(given, time_name(&indices)?),
        None => written_body(given, TIME),
    };
    Ok((indices, body))
}

/// In the versions that the body is held to, or else the newest.
async fn indices(node: &Node, given: &args::Search, body: &[u8]) -> Result<Vec<Arc<Index>>> {
    let held = Held::of_body(body)?;
    let (names, held) = match (&given.index, held) {
        (Some(expression), None) => return super::indices_of(node, expression).await,
        (Some(expression), Some(held)) => (Some(super::names_of(node, expression, super::READ).await?), held),
        (None, Some(held)) => (None, held),
        (None, None) => bail!("name an index with --index, or a point in time in the body"),
    };
    let other = |version: &IndexVersion| names.as_ref().is_some_and(|names| !names.contains(&version.name));
    match held.versions().into_iter().find(other) {
        Some(other) => bail!("the body continues a search of {}, which --index does not name", other.name),
        None => Ok(node.held(&held).await?),
    }
}

async fn prepared(
    node: &Node,
    indices: &[Arc<Index>],
    given: &args::Search,
    body: &[u8],
    options: &SearchOptions,
) -> Result<Search> {
    let search = Search::new(&node.searcher().await?, indices, body, options);
    search.map_err(|error| match std::error::Error::source(&error) {
        // The user typed only the query string, so the error must not mention the body around it.
        Some(source) if given.query.is_some() && error.kind() == ErrorKind::Invalid => anyhow!("{source}"),
        _ => error.into(),
    })
}

/// The body of `--body`.
fn given_body(given: &args::Search) -> Result<Option<Vec<u8>>> {
    let Some(body) = given.body.as_deref() else { return Ok(None) };
    let body = match body.strip_prefix('@') {
        _ if body == "-" => {
            let mut text = Vec::new();
            std::io::stdin().read_to_end(&mut text).context("cannot read standard input")?;
            text
        }
        Some(path) => std::fs::read(path).with_context(|| format!("cannot read {path}"))?,
        None if Path::new(body).is_file() => {
            bail!("a body is JSON: to read it from the file {body} write --body @{body}")
        }
        None => body.as_bytes().to_vec(),
    };
    Ok(Some(body))
}

/// The Elasticsearch body that is equivalent to the arguments.
fn written_body(given: &args::Search, time_field: &str) -> Vec<u8> {
    let mut body = json!({});
    if let Some(query) = query(given, time_field) {
        body["query"] = query;
    }
    if let Some(size) = given.size {
        body["size"] = json!(size);
    }
    if let Some(from) = given.from {
        body["from"] = json!(from);
    }
    if !given.sort.is_empty() {
        let sort = given.sort.iter().map(|key| json!({ &key.field: { "order": key.order } }));
        body["sort"] = sort.collect();
    }
    if !given.source.is_empty() {
        body["_source"] = json!(given.source);
    }
    body.to_string().into_bytes()
}

/// The name of the documents' time where no other was chosen.
pub(crate) const TIME: &str = "@timestamp";

/// The shell gives each word of a query that is not in quotes as an argument of its own.
fn check_quotes(given: &args::Search) -> Result<()> {
    match (&given.query, given.rest.as_slice()) {
        (Some(query), [_, ..]) => {
            bail!("put a query of several words in quotes: '{query} {}'", given.rest.join(" "))
        }
        _ => Ok(()),
    }
}

/// The query string within `--since` and `--until`.
fn query(given: &args::Search, time_field: &str) -> Option<Value> {
    let query = given.query.as_ref().map(|query| json!({ "query_string": { "query": query } }));
    let mut range = serde_json::Map::new();
    for (bound, time) in [("gte", &given.since), ("lt", &given.until)] {
        if let Some(time) = time {
            range.insert(bound.to_owned(), json!(time.0));
        }
    }
    if range.is_empty() {
        return query;
    }
    let range = json!({ "range": { time_field: range } });
    Some(json!({ "bool": { "filter": query.into_iter().chain([range]).collect::<Value>() } }))
}

/// Notices of words that may have been meant as operators.
fn tell_of_operators(given: &args::Search) {
    let words: Vec<&str> = given.query.as_deref().unwrap_or_default().split_whitespace().collect();
    let between = words.get(1..words.len().saturating_sub(1)).unwrap_or_default();
    for word in ["and", "or", "not"] {
        if between.contains(&word) {
            note!("searching for the word `{word}`; the operator is {}", word.to_uppercase());
        }
    }
}

/// The fields of all these indices, perhaps with duplicates.
fn paths(indices: &[Arc<Index>]) -> impl Iterator<Item = &str> {
    indices.iter().flat_map(|index| {
        let mapping = index.mapping();
        std::iter::once(mapping.time_field()).chain(mapping.fields().keys().map(String::as_str))
    })
}

/// Whether `--source` asks for this field or for an object that has it.
fn is_shown(source: &[String], path: &str) -> bool {
    let objects = path.match_indices('.').filter_map(|(at, _)| path.get(..at));
    let names: Vec<&str> = objects.chain([path]).collect();
    source.is_empty() || source.iter().any(|pattern| names.iter().any(|name| wildcard_matches(pattern, name)))
}

/// Writes every match in the order of time, page after page of one version of each index, which is pinned until the end.
async fn export(config: &Config, node: &Node, given: &args::Search) -> Result<Outcome> {
    let expression = given.index.as_deref().unwrap_or_default();
    let names = super::names_of(node, expression, super::READ).await?;
    let kept = match node.keep(&names).await {
        Ok(kept) => kept,
        // Who may only read pins nothing.
        Err(e) if e.kind() == ErrorKind::Denied => {
            let indices = super::indices_of(node, expression).await?;
            return export_of(config, &Source::repository(node, &indices, given).await, None, given).await;
        }
        Err(e) => return Err(e.into()),
    };
    let source = Source::repository(node, kept.indices(), given).await;
    let outcome = export_of(config, &source, Some(kept.point_in_time().to_string()), given).await;
    kept.release().await;
    outcome
}

/// Where the matches come from.
enum Source<'a> {
    Repository { node: &'a Node, indices: &'a [Arc<Index>], options: SearchOptions },
    Server { remote: &'a Remote, time: &'a str },
}

impl<'a> Source<'a> {
    async fn repository(node: &'a Node, indices: &'a [Arc<Index>], given: &args::Search) -> Source<'a> {
        Source::Repository { node, indices, options: node.search_options(false, given.strict).await }
    }

    async fn page(&self, given: &args::Search, body: &Value) -> Result<Response> {
        match self {
            Source::Repository { node, indices, options } => {
                let body = body.to_string();
                let search = prepared(node, indices, given, body.as_bytes(), options).await?;
                Ok(search.run().await?)
            }
            Source::Server { remote, .. } => remote.page(body.clone()).await,
        }
    }

    /// Documents of a page. An answer over HTTP has a limit.
    fn page_size(&self) -> usize {
        match self {
            Source::Repository { .. } => EXPORT_PAGE,
            Source::Server { .. } => EXPORT_PAGE / 10,
        }
    }
}

/// Writes every match of a point in time, or of these versions where there is none.
async fn export_of(
    config: &Config,
    source: &Source<'_>,
    pit: Option<String>,
    given: &args::Search,
) -> Result<Outcome> {
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    let as_csv = match given.format {
        Some(Format::Csv) => true,
        None | Some(Format::Lines) if !config.json => false,
        _ => bail!("--all supports only --format ndjson and --format csv"),
    };
    let (columns, time) = match (Columns::named(&given.source), source) {
        (named, Source::Repository { indices, .. }) => {
            let shown = paths(indices).filter(|path| is_shown(&given.source, path));
            (named.unwrap_or_else(|| Columns::all(shown)), time_name(indices)?)
        }
        (Some(columns), Source::Server { time, .. }) => (columns, *time),
        (None, Source::Server { .. }) if as_csv => {
            bail!("a server does not say which columns there are: name them with --source")
        }
        (None, Source::Server { time, .. }) => (Columns::all(std::iter::empty()), *time),
    };
    let mut body = json!({
        "size": source.page_size(), "sort": [{ time: { "order": "asc" } }, { "_doc": { "order": "asc" } }],
        "track_total_hits": true, "query": query(given, time).unwrap_or_else(|| json!({ "match_all": {} })),
    });
    if !given.source.is_empty() {
        body["_source"] = json!(given.source);
    }
    if let Some(pit) = &pit {
        body["pit"] = json!({ "id": pit });
        if let Source::Server { .. } = source {
            body["pit"]["keep_alive"] = json!(super::remote::KEEP_ALIVE);
        }
    }
    let bar = item_progress(None, "documents");
    if as_csv {
        columns.write_header(&mut csv::Writer::from_writer(&mut out))?;
    }
    let (mut missing, mut written) = (0, 0);
    loop {
        let response = source.page(given, &body).await?;
        if let Some(total) = &response.hits.total {
            // It is only counted with the first page.
            tell_of_warnings(&response);
            bar.set_length(total.value);
            body["track_total_hits"] = json!(false);
        }
        if response.shards.failed > missing {
            tell_of_failures(&response);
            missing = response.shards.failed;
        }
        let hits = &response.hits.hits;
        if as_csv {
            columns.write(hits, &mut csv::Writer::from_writer(&mut out))?;
        } else {
            for source in hits.iter().filter_map(|hit| hit.source.as_ref()) {
                writeln!(out, "{}", json_line(source.get()))?;
            }
        }
        written += hits.len() as u64;
        bar.set_position(written);
        match response.next {
            Some(next) => {
                if pit.is_none() && body.get("search_after").is_none() {
                    note!(
                        "this repository may only be read, so nothing keeps the version that is exported from vacuum: \
                         end within its --retain-hours"
                    );
                }
                body["search_after"] = json!(next);
            }
            None => break,
        }
    }
    out.flush()?;
    bar.finish_and_clear();
    note!("{} in {:.1} s", show_count(written, "document"), config.started.elapsed().as_secs_f64());
    Ok(if missing > 0 { Outcome::Partial } else { Outcome::Done })
}

fn print(response: &Response, highlight: &Highlight, waited: &Waited) -> Result<()> {
    for hit in &response.hits.hits {
        match (&hit.source, &hit.fields) {
            (Some(source), _) => say!("{}", highlight.mark(&json_line(source.get())))?,
            (None, Some(fields)) => say!("{}", highlight.mark(&json_line(&serde_json::to_string(fields)?)))?,
            (None, None) => say!("{}", hit.id)?,
        }
    }
    if let Some(aggregations) = &response.aggregations {
        print_aggregations(aggregations)?;
    }
    tell_of_cost(response, waited);
    Ok(())
}

fn print_hits(response: &Response, given: &args::Search, format: Format, waited: &Waited) -> Result<()> {
    let hits = &response.hits.hits;
    let columns = match Columns::named(&given.source) {
        Some(columns) => columns,
        None => Columns::of(hits)?,
    };
    if format == Format::Csv {
        let mut out = csv::Writer::from_writer(std::io::stdout().lock());
        columns.write_header(&mut out)?;
        columns.write(hits, &mut out)?;
    } else if !hits.is_empty() {
        say!("{}", columns.table(hits)?)?;
    }
    match &response.aggregations {
        Some(_) if format == Format::Csv => note!("aggregations are not in CSV output: use --format json"),
        Some(aggregations) => print_aggregations(aggregations)?,
        None => {}
    }
    tell_of_cost(response, waited);
    Ok(())
}

fn tell_of_failures(response: &Response) {
    for failure in &response.shards.failures {
        let reason = failure.reason.get("reason").and_then(Value::as_str).unwrap_or_default();
        note!("missing from this answer: {}: {reason}", failure.object);
    }
}

fn tell_of_cost(response: &Response, waited: &Waited) {
    tell_of_failures(response);
    let cost = &response.cost;
    let total = response.hits.total.as_ref().map_or(String::new(), |total| {
        let over = if total.relation == "gte" { "over " } else { "" };
        format!("{over}{} {}, ", total.value, if total.value == 1 { "match" } else { "matches" })
    });
    note!("{total}{}; {}", show_cost(cost, waited), show_splits(&cost.splits));
}

/// How long the user waited for an answer.
pub(crate) struct Waited {
    /// Until the catalog was read and the cache was open.
    pub(crate) opening: Duration,
    /// From the start of the process to the answer.
    pub(crate) whole: Duration,
}

/// What opening the indices cost: all that a process asked of the repository before it searched.
pub(crate) fn opening_cost(node: &Node) -> OpeningCost {
    OpeningCost::new(&node.repository().meter().cost(), node.repository().prices())
}

/// What an answer cost, in one line. The dollars are those of the search and of opening its indices.
pub(crate) fn show_cost(cost: &QueryCost, waited: &Waited) -> String {
    let simulated = if cost.simulated { " (simulated store)" } else { "" };
    let opening = &cost.opening;
    format!(
        "{} ms ({} opening, {:.0} searching){simulated}, {}, {} fetched (opening: {}, {}, {}), ${:.7}",
        waited.whole.as_millis(),
        waited.opening.as_millis(),
        cost.took_ms,
        show_count(cost.gets, "GET"),
        show_bytes(cost.bytes),
        show_count(opening.gets, "GET"),
        show_count(opening.lists, "LIST"),
        show_bytes(opening.bytes),
        cost.usd + opening.usd
    )
}

fn show_splits(splits: &SplitCost) -> String {
    let mut text = format!("{} of {} searched", splits.opened, show_count(splits.live, "split"));
    let others = [
        (splits.opened_empty, "of them without a match"),
        (splits.pruned_time, "ruled out by time"),
        (splits.pruned_query, "ruled out by the query"),
        (splits.pruned_needle, "ruled out by needle"),
        (splits.answered_digest, "answered by digest"),
    ];
    for (count, what) in others.iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!(", {count} {what}"));
    }
    text
}

/// Aggregations that are one level of buckets as tables, others as JSON.
fn print_aggregations(aggregations: &Json) -> Result<()> {
    let Json::Object(aggregations) = aggregations else { return Ok(()) };
    for (name, aggregation) in aggregations {
        let read = aggregation.to_value();
        let buckets = read.get("buckets").and_then(Value::as_array);
        let is_flat = |bucket: &Value| {
            bucket
                .as_object()
                .is_some_and(|b| b.values().all(|v| !v.get("buckets").is_some_and(Value::is_array)))
        };
        match buckets.filter(|buckets| buckets.iter().all(is_flat)) {
            Some(buckets) => print_buckets(name, buckets)?,
            None => say!("{name}: {}", serde_json::to_string_pretty(aggregation)?)?,
        }
    }
    Ok(())
}

fn print_buckets(name: &str, buckets: &[Value]) -> Result<()> {
    let mut metrics: Vec<&String> = Vec::new();
    for bucket in buckets {
        for (key, value) in bucket.as_object().into_iter().flatten() {
            if value.get("value").is_some() && !metrics.contains(&key) {
                metrics.push(key);
            }
        }
    }
    let headers: Vec<String> = metrics.iter().map(|metric| format!("{metric}>")).collect();
    let mut columns = vec![name, "documents>"];
    columns.extend(headers.iter().map(String::as_str));
    let mut table = Table::new(&columns);
    for bucket in buckets {
        let key = bucket.get("key_as_string").or_else(|| bucket.get("key")).unwrap_or(&Value::Null);
        let mut row = vec![printable(&text(key)), text(bucket.get("doc_count").unwrap_or(&Value::Null))];
        row.extend(metrics.iter().map(|metric| text(&bucket[metric.as_str()]["value"])));
        table.row(row);
    }
    Ok(say!("{table}")?)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
