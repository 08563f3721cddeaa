//! The response of a search, in Elasticsearch's format, with its cost.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use frostline_base::Cost;
use frostline_store::Prices;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::highlight::{Effort, Highlighter};
use crate::answer::show::{Fields, ShownFields};
use crate::exec::order::Document;
use crate::exec::report::{Report, both};
use crate::exec::splits::{RuledOut, Splits};
use crate::json::Json;
use crate::language::{Held, SearchRequest, SourceFilter, TotalHits};
use crate::read::open::Searcher;
use crate::source::Source;
use crate::{Error, Result};

/// The body of an answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Response {
    /// The point in time that was searched: the one that was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pit_id: Option<String>,
    /// Milliseconds from request to answer.
    pub took: u64,
    /// Always false: a search ends or fails.
    pub timed_out: bool,
    /// What became of the splits.
    #[serde(rename = "_shards")]
    pub shards: Shards,
    /// What was found.
    pub hits: Hits,
    /// The aggregations, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregations: Option<Json>,
    /// What whoever asked may have meant otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The position that the next page starts after, where there may be one: that of the last hit, also if its
    /// document could not be read.
    #[serde(skip)]
    pub next: Option<Vec<Value>>,
    /// The same, where the last hit does not show it, for whoever asks through a server.
    #[serde(default, rename = "next", skip_serializing_if = "Option::is_none")]
    pub next_unseen: Option<Vec<Value>>,
    /// What it cost.
    pub cost: QueryCost,
}

/// Splits, as Elasticsearch counts shards. An index without any is one.
#[derive(Debug, Serialize, Deserialize)]
pub struct Shards {
    /// Live splits.
    pub total: u64,
    /// Those that answered or had nothing to say.
    pub successful: u64,
    /// Those that were ruled out before they were opened.
    pub skipped: u64,
    /// Those that could not be read: the answer lacks them.
    pub failed: u64,
    /// Which, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<ShardFailure>,
}

/// A part that the answer lacks.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShardFailure {
    /// The index.
    pub index: String,
    /// The split.
    pub split: String,
    /// The object that could not be read.
    pub object: String,
    /// Why.
    pub reason: Value,
}

/// What was found.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hits {
    /// How many documents match; absent where it was not to be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Total>,
    /// Always null: logs are not scored.
    pub max_score: Option<f64>,
    /// The page that was requested.
    pub hits: Vec<Hit>,
}

/// A number of documents.
#[derive(Debug, Serialize, Deserialize)]
pub struct Total {
    /// The number.
    pub value: u64,
    /// `eq`, or `gte` where counting up to a limit was requested and there are more.
    pub relation: Cow<'static, str>,
}

/// One document.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hit {
    /// The index.
    #[serde(rename = "_index")]
    pub index: String,
    /// What a client called it, else the split and the row in which it first landed.
    #[serde(rename = "_id")]
    pub id: String,
    /// How many documents of its `_id` there were with it, since there was none.
    #[serde(rename = "_version", skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// It grows with each document that is written by its `_id`; 0 where none was.
    #[serde(rename = "_seq_no", skip_serializing_if = "Option::is_none")]
    pub seq_no: Option<i64>,
    /// Always 1.
    #[serde(rename = "_primary_term", skip_serializing_if = "Option::is_none")]
    pub primary_term: Option<i64>,
    /// Always null.
    #[serde(rename = "_score")]
    pub score: Option<f64>,
    /// The document, byte for byte unless a part was requested.
    #[serde(rename = "_source", skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Fields that were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Json>,
    /// Values of these fields that their types cannot hold, as they are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored_field_values: Option<Json>,
    /// What the query matched in its fields, by their names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highlight: Option<Json>,
    /// The names of those clauses of the query that match it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matched_queries: Vec<String>,
    /// The values it was sorted by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<Vec<Value>>,
    /// The objects in it that match nested queries, by the names that these have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_hits: Option<Json>,
}

/// What a query cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueryCost {
    /// Milliseconds.
    pub took_ms: f64,
    /// Reads of the store.
    pub gets: u64,
    /// Bytes fetched from the store.
    pub bytes: u64,
    /// Bytes that the query read, from wherever they came.
    pub bytes_used: u64,
    /// Price of the requests.
    pub usd: f64,
    /// What opening needle segments cost, and the indices before it, where whoever asked says so.
    pub opening: OpeningCost,
    /// Whether the store's latency was simulated.
    pub simulated: bool,
    /// What became of the splits.
    pub splits: SplitCost,
}

/// What it cost to find out what is in the indices.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct OpeningCost {
    /// Reads of the store.
    pub gets: u64,
    /// Listings.
    pub lists: u64,
    /// Bytes fetched.
    pub bytes: u64,
    /// Price of the requests.
    pub usd: f64,
}

impl OpeningCost {
    /// What these requests cost at these prices.
    pub fn new(cost: &Cost, prices: &Prices) -> OpeningCost {
        OpeningCost { gets: cost.gets, lists: cost.lists, bytes: cost.bytes_read, usd: prices.usd(cost) }
    }

    /// Adds what was opened before.
    pub fn add(&mut self, other: &OpeningCost) {
        self.gets += other.gets;
        self.lists += other.lists;
        self.bytes += other.bytes;
        self.usd += other.usd;
    }
}

/// What became of the splits of an index.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct SplitCost {
    /// In the index.
    pub live: u64,
    /// Ruled out by time, from the catalog.
    pub pruned_time: u64,
    /// Ruled out by the query, which no document of the index can match, whatever its splits hold: most likely by a
    /// field that no document has.
    #[serde(default)]
    pub pruned_query: u64,
    /// Ruled out by needle segments: not opened either.
    pub pruned_needle: u64,
    /// Answered by the catalog or the digest, with no data read.
    pub answered_digest: u64,
    /// Opened and searched.
    pub opened: u64,
    /// Those of the opened in which nothing matches.
    pub opened_empty: u64,
}

impl SplitCost {
    /// Ruled out before any was opened.
    pub fn pruned(&self) -> u64 {
        self.pruned_time + self.pruned_query + self.pruned_needle
    }
}

impl Shards {
    /// Adds what a further search of the same splits could not read.
    pub(crate) fn add_failures(&mut self, other: Shards) {
        for failure in other.failures {
            if !self.failures.iter().any(|known| known.split == failure.split) {
                self.failures.push(failure);
                self.failed += 1;
                self.successful = self.successful.saturating_sub(1);
            }
        }
    }
}

impl Response {
    pub(crate) fn new(
        request: &SearchRequest,
        splits: &Splits,
        mut report: Report,
        cost: QueryCost,
        hits: Vec<Hit>,
        aggregations: Option<Json>,
    ) -> Response {
        report.failed.sort_by_key(|failure| failure.ordinal);
        let (shards, failed) = (splits.shards(), report.failed.len() as u64);
        let counted = request.track_total_hits != TotalHits::No;
        let failures = report.failed.into_iter().map(|failure| {
            let index = splits.get(failure.ordinal).map_or("", |(_, index)| index.name.as_str()).to_owned();
            ShardFailure {
                index,
                split: failure.split.to_string(),
                object: failure.object,
                reason: serde_json::json!({ "type": failure.kind, "reason": failure.reason }),
            }
        });
        let pit_id = match &request.held {
            Some(Held::PointInTime(pit, _)) => Some(pit.to_string()),
            _ => None,
        };
        Response {
            pit_id,
            took: cost.took_ms as u64,
            timed_out: false,
            shards: Shards {
                total: shards,
                successful: shards - failed,
                skipped: cost.splits.pruned(),
                failed,
                failures: failures.collect(),
            },
            hits: Hits {
                total: counted.then(|| shown_total(report.matched, request)),
                max_score: None,
                hits,
            },
            aggregations,
            warnings: Vec::new(),
            next: None,
            next_unseen: None,
            cost,
        }
    }

    /// Whether the answer lacks a part.
    pub fn is_partial(&self) -> bool {
        self.shards.failed > 0
    }

    /// Writes it as [`Serialize`] does, but copies documents, which are known to be JSON, where that reads them again.
    pub fn write(mut self, out: &mut (impl io::Write + ?Sized)) -> io::Result<()> {
        // No name of a member is in a text that is written before it: its quotes would be escaped.
        let missing = || io::Error::other("an answer is written without its hits");
        let hits = std::mem::take(&mut self.hits.hits);
        let rest = serde_json::to_string(&self)?;
        let (before, after) = rest.split_once("\"hits\":[]").ok_or_else(missing)?;
        write!(out, "{before}\"hits\":[")?;
        let (mut rest, place) = (Vec::new(), Source::from("0"));
        for (at, mut hit) in hits.into_iter().enumerate() {
            if at > 0 {
                out.write_all(b",")?;
            }
            let source = hit.source.as_mut().map(|source| std::mem::replace(source, place.clone()));
            rest.clear();
            serde_json::to_writer(&mut rest, &hit)?;
            let Some(source) = source else {
                out.write_all(&rest)?;
                continue;
            };
            let rest = std::str::from_utf8(&rest).map_err(io::Error::other)?;
            let (before, after) = rest.split_once("\"_source\":0").ok_or_else(missing)?;
            for part in [before, "\"_source\":", source.get(), after] {
                out.write_all(part.as_bytes())?;
            }
        }
        write!(out, "]{after}")
    }
}

impl QueryCost {
    /// What was reported of `asked` splits, and what was ruled out before.
    pub(crate) fn new(
        searcher: &Searcher,
        took: Duration,
        report: &Report,
        ruled_out: &RuledOut,
        asked: u64,
    ) -> QueryCost {
        let counts = &report.counts;
        let cost = both(&report.cost, &ruled_out.asking);
        QueryCost {
            took_ms: took.as_micros() as f64 / 1e3,
            gets: cost.gets,
            bytes: cost.bytes_read,
            bytes_used: cost.bytes_used,
            usd: searcher.prices.usd(&cost),
            opening: OpeningCost::new(&ruled_out.opening, &searcher.prices),
            simulated: searcher.simulated,
            splits: SplitCost {
                live: asked + ruled_out.time + ruled_out.query + ruled_out.needle,
                pruned_time: ruled_out.time,
                pruned_query: ruled_out.query,
                pruned_needle: ruled_out.needle,
                answered_digest: counts.answered_digest,
                opened: counts.opened,
                opened_empty: counts.empty,
            },
        }
    }
}

impl QueryCost {
    /// Adds what a further search of the same splits cost, which took its time within.
    pub(crate) fn add(&mut self, other: &QueryCost) {
        self.gets += other.gets;
        self.bytes += other.bytes;
        self.bytes_used += other.bytes_used;
        self.usd += other.usd;
        self.opening.add(&other.opening);
    }
}

/// What hits show of documents.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) request: &'a SearchRequest,
    pub(crate) highlighter: Option<&'a Highlighter>,
    /// The fields that were requested.
    pub(crate) fields: Option<&'a Fields<'a>>,
    /// What the index shows of its documents, whatever is requested.
    pub(crate) kept: &'a SourceFilter,
}

impl Hit {
    pub(crate) fn new(
        shown: &Shown<'_>,
        index: &str,
        document: Document,
        sort: Option<Vec<Value>>,
        effort: &mut Effort,
    ) -> Result<Hit> {
        let Shown { request, highlighter, fields, kept } = *shown;
        let Document { id, source, numbers } = document;
        let damaged = |e| Error::corrupt(format!("document {id} is not JSON")).with_source(e);
        let parsed: Option<Json> = match &request.source {
            SourceFilter::All | SourceFilter::None
                if fields.is_none() && highlighter.is_none() && *kept == SourceFilter::All =>
            {
                None
            }
            _ => source.as_deref().map(serde_json::from_str).transpose().map_err(damaged)?,
        };
        let part = match kept {
            SourceFilter::Parts { .. } => parsed.as_ref().and_then(|whole| kept.apply(whole)),
            SourceFilter::All | SourceFilter::None => None,
        };
        // Of what is shown, the rest is made.
        let own = if *kept == SourceFilter::All { parsed.as_ref() } else { part.as_ref() };
        let shown = match (&request.source, own) {
            (SourceFilter::All, _) if *kept == SourceFilter::All => source,
            (filter, Some(parsed)) => match filter.apply(parsed) {
                Some(part) => Some(Source::from(serde_json::to_string(&part).map_err(damaged)?.as_str())),
                None => None,
            },
            _ => None,
        };
        let highlight = match (highlighter, own) {
            (Some(highlighter), Some(own)) => highlighter.of(own, effort)?,
            _ => None,
        };
        let shown_fields = fields.zip(parsed.as_ref()).map(|(fields, whole)| fields.of(whole, own));
        let ShownFields { fields, ignored } = shown_fields.unwrap_or_default();
        let (version, seq_no) = numbers.unzip();
        Ok(Hit {
            index: index.to_owned(),
            id,
            version: version.filter(|_| request.version),
            seq_no: seq_no.filter(|_| request.seq_no_primary_term),
            primary_term: request.seq_no_primary_term.then_some(1),
            score: None,
            source: shown,
            fields,
            ignored_field_values: ignored,
            highlight,
            matched_queries: Vec::new(),
            sort,
            inner_hits: None,
        })
    }
}

impl Hit {
    /// The same with the value that it alone of all hits has.
    pub(crate) fn of_group(mut self, field: &str, value: &Value) -> Hit {
        if value.is_null() {
            return self;
        }
        let shown = self.fields.get_or_insert_with(|| Json::Object(Vec::new()));
        if let Json::Object(fields) = shown
            && fields.iter().all(|(name, _)| name != field)
        {
            fields.push((field.to_owned(), Json::Array(vec![Json::of(value)])));
        }
        self
    }
}

fn shown_total(value: u64, request: &SearchRequest) -> Total {
    match request.track_total_hits {
        TotalHits::UpTo(limit) if value > limit => Total { value: limit, relation: Cow::Borrowed("gte") },
        _ => Total { value, relation: Cow::Borrowed("eq") },
    }
}

#[cfg(test)]
mod tests;
