//! `frostline search` and `frostline explain`.

use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result};
use frostline_query::{QueryCost, Response, Search, SplitCost};
use frostline_show::{Table, note, printable, say, say_json, show_bytes, show_count};
use serde_json::{Value, json};

use crate::Outcome;
use crate::args;
use crate::config::Config;

pub(crate) async fn run(config: &Config, given: args::Search) -> Result<Outcome> {
    let node = config.node()?;
    let body = body(&given)?;
    let index = node.index(&given.index.parse()?).await?;
    let options = node.search_options(!given.no_result_cache, given.strict).await;
    let search = Search::new(&node.searcher().await?, &index, &body, &options)?;
    for field in search.unknown_fields() {
        note!("no document of {} has the field {}", index.name(), printable(&field));
    }
    let opening = config.started.elapsed();
    let response = search.run().await?;
    node.close().await;
    if config.json {
        say_json(&response)?;
    } else {
        print(&response, &Waited { opening, whole: config.started.elapsed() })?;
    }
    Ok(if response.is_partial() { Outcome::Partial } else { Outcome::Done })
}

pub(crate) async fn explain(config: &Config, given: args::Search) -> Result<Outcome> {
    let node = config.node()?;
    let body = body(&given)?;
    let index = node.index(&given.index.parse()?).await?;
    let options = node.search_options(false, given.strict).await;
    let explained = Search::new(&node.searcher().await?, &index, &body, &options)?.explain()?;
    if config.json {
        say_json(&explained)?;
        return Ok(Outcome::Done);
    }
    for plan in &explained.plans {
        say!("{}", plan.trim_end())?;
    }
    say!(
        "at most {} of {} splits are opened ({} rows): {} of footers, then dictionaries, postings and columns where they match",
        explained.splits_opened_max,
        explained.splits_live,
        explained.rows_max,
        show_bytes(explained.footer_bytes)
    )?;
    Ok(Outcome::Done)
}

/// The Elasticsearch body that the arguments stand for.
fn body(given: &args::Search) -> Result<Vec<u8>> {
    match given.body.as_deref() {
        Some("-") => {
            let mut text = Vec::new();
            std::io::stdin().read_to_end(&mut text).context("cannot read standard input")?;
            return Ok(text);
        }
        Some(body) => {
            return match body.strip_prefix('@') {
                Some(path) => std::fs::read(path).with_context(|| format!("cannot read {path}")),
                None => Ok(body.as_bytes().to_vec()),
            };
        }
        None => {}
    }
    let mut body = json!({});
    if let Some(query) = &given.query {
        body["query"] = json!({ "query_string": { "query": query } });
    }
    if let Some(size) = given.size {
        body["size"] = json!(size);
    }
    if let Some(from) = given.from {
        body["from"] = json!(from);
    }
    if !given.sort.is_empty() {
        let sort = given.sort.iter().map(|key| match key.rsplit_once(':') {
            Some((field, order @ ("asc" | "desc"))) => json!({ field: { "order": order } }),
            _ => json!(key),
        });
        body["sort"] = sort.collect();
    }
    if !given.source.is_empty() {
        body["_source"] = json!(given.source);
    }
    Ok(body.to_string().into_bytes())
}

fn print(response: &Response, waited: &Waited) -> Result<()> {
    for hit in &response.hits.hits {
        match &hit.source {
            Some(source) => say!("{}", printable(source.get()))?,
            None => say!("{}", hit.id)?,
        }
    }
    if let Some(aggregations) = &response.aggregations {
        print_aggregations(aggregations)?;
    }
    for failure in &response.shards.failures {
        let reason = failure.reason.get("reason").and_then(Value::as_str).unwrap_or_default();
        note!("missing from this answer: {}: {reason}", failure.object);
    }
    let cost = &response.cost;
    let total = response.hits.total.as_ref().map_or(String::new(), |total| {
        format!("{}{} matches, ", if total.relation == "gte" { "over " } else { "" }, total.value)
    });
    note!("{total}{}; {}", show_cost(cost, waited), show_splits(&cost.splits));
    Ok(())
}

/// What a person waited for an answer.
pub(crate) struct Waited {
    /// Until the catalog was read and the cache was open.
    pub(crate) opening: Duration,
    /// From the start of the process to the answer.
    pub(crate) whole: Duration,
}

/// What an answer cost, in one line.
pub(crate) fn show_cost(cost: &QueryCost, waited: &Waited) -> String {
    let simulated = if cost.simulated { " (simulated store)" } else { "" };
    let gets = show_count(cost.gets, "GET");
    format!(
        "{} ms ({} opening, {:.0} searching){simulated}, {gets}, {} fetched, ${:.7}",
        waited.whole.as_millis(),
        waited.opening.as_millis(),
        cost.took_ms,
        show_bytes(cost.bytes),
        cost.usd
    )
}

fn show_splits(splits: &SplitCost) -> String {
    let mut text = format!("{} of {} searched", splits.opened, show_count(splits.live, "split"));
    let others = [
        (splits.pruned_time, "ruled out by time"),
        (splits.pruned_stats, "ruled out by index"),
        (splits.answered_digest, "answered by digest"),
    ];
    for (count, what) in others.iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!(", {count} {what}"));
    }
    text
}

/// Aggregations that are one level of buckets as tables, others as JSON.
fn print_aggregations(aggregations: &Value) -> Result<()> {
    for (name, aggregation) in aggregations.as_object().into_iter().flatten() {
        let buckets = aggregation.get("buckets").and_then(Value::as_array);
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
