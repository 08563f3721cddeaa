//! `_stats` and `_segments`: what indices hold, and what this server has done to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use frostline_base::{IndexName, wildcard_matches};
use frostline_catalog::{Index, Resolve, Wildcards};
use frostline_ingest::MergeFigures;
use frostline_query::language::PointInTime;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::cat::{Cell, readable_bytes, readable_time, size};
use crate::api::index::index_uuid;
use crate::api::indices;
use crate::api::info::uuid;
use crate::counts::Count::*;
use crate::counts::Tally;
use crate::error::{ApiError, Result};
use crate::params::Params;
use crate::state::{Call, State};

/// Parameters that say which parts of a metric are shown.
pub(crate) const DETAILS: &[&str] = &["groups", "human", "include_segment_file_sizes"];
/// Of which parts Elasticsearch counts what is in detail, which there is none of.
pub(crate) const DETAILS_IGNORED: &[&str] =
    &["completion_fields", "fielddata_fields", "fields", "include_unloaded_segments"];

/// A part of what is known of indices: how it is asked for and shown, and what is in it.
struct Metric {
    asked: &'static str,
    shown: &'static str,
    members: &'static [Member],
}

/// A number of a metric.
struct Member {
    name: &'static str,
    unit: Unit,
    of: fn(&Figures) -> u64,
}

/// What a number counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Number,
    Bytes,
    /// Microseconds, which are shown as milliseconds.
    Micros,
    /// The same, only for people: a second name of the member after it.
    MicrosAgain,
    /// Whether there is any.
    Flag,
}

const fn number(name: &'static str, of: fn(&Figures) -> u64) -> Member {
    Member { name, unit: Unit::Number, of }
}

const fn bytes(name: &'static str, of: fn(&Figures) -> u64) -> Member {
    Member { name, unit: Unit::Bytes, of }
}

const fn micros(name: &'static str, of: fn(&Figures) -> u64) -> Member {
    Member { name, unit: Unit::Micros, of }
}

/// What there is none of here.
fn none(_: &Figures) -> u64 {
    0
}

/// All metrics, in Elasticsearch's order.
static METRICS: &[Metric] = &[
    Metric {
        asked: "docs",
        shown: "docs",
        members: &[
            number("count", |of| of.documents),
            number("deleted", none),
            bytes("total_size", |of| of.bytes),
            number("without_time", |of| of.without_time),
        ],
    },
    Metric { asked: "shard_stats", shown: "shard_stats", members: &[number("total_count", |of| of.indices)] },
    Metric {
        asked: "store",
        shown: "store",
        members: &[
            bytes("size", |of| of.bytes),
            bytes("total_data_set_size", |of| of.bytes),
            bytes("reserved", none),
        ],
    },
    Metric {
        asked: "indexing",
        shown: "indexing",
        members: &[
            number("index_total", |of| of.tally.of(Indexed)),
            micros("index_time", |of| of.tally.of(IndexUs)),
            number("index_current", |of| of.tally.of(IndexingNow)),
            number("index_failed", |of| of.tally.of(IndexFailed)),
            number("delete_total", |of| of.tally.of(Deleted)),
            micros("delete_time", |of| of.tally.of(DeleteUs)),
            number("delete_current", |of| of.tally.of(DeletingNow)),
            number("noop_update_total", |of| of.tally.of(Unchanged)),
            Member { name: "is_throttled", unit: Unit::Flag, of: none },
            micros("throttle_time", none),
        ],
    },
    Metric {
        asked: "get",
        shown: "get",
        members: &[
            number("total", |of| of.tally.of(Found) + of.tally.of(Missing)),
            Member { name: "getTime", unit: Unit::MicrosAgain, of: get_us },
            micros("time", get_us),
            number("exists_total", |of| of.tally.of(Found)),
            micros("exists_time", |of| of.tally.of(FoundUs)),
            number("missing_total", |of| of.tally.of(Missing)),
            micros("missing_time", |of| of.tally.of(MissingUs)),
            number("current", |of| of.tally.of(GetsNow)),
        ],
    },
    Metric { asked: "search", shown: "search", members: SEARCH },
    Metric {
        asked: "merge",
        shown: "merges",
        members: &[
            number("current", |of| of.merges.current),
            number("current_docs", |of| of.merges.current_documents),
            bytes("current_size", |of| of.merges.current_bytes),
            number("total", |of| of.merges.merges),
            micros("total_time", |of| u64::try_from(of.merges.took.as_micros()).unwrap_or(u64::MAX)),
            number("total_docs", |of| of.merges.documents),
            bytes("total_size", |of| of.merges.bytes),
            micros("total_stopped_time", none),
            micros("total_throttled_time", none),
            bytes("total_auto_throttle", none),
        ],
    },
    Metric {
        asked: "refresh",
        shown: "refresh",
        members: &[
            number("total", |of| of.tally.of(Refreshes)),
            micros("total_time", none),
            number("external_total", |of| of.tally.of(Refreshes)),
            micros("external_total_time", none),
            number("listeners", none),
        ],
    },
    Metric {
        asked: "flush",
        shown: "flush",
        members: &[
            number("total", |of| of.tally.of(Flushes)),
            number("periodic", none),
            micros("total_time", none),
        ],
    },
    Metric {
        asked: "warmer",
        shown: "warmer",
        members: &[number("current", none), number("total", none), micros("total_time", none)],
    },
    Metric {
        asked: "query_cache",
        shown: "query_cache",
        members: &[
            bytes("memory_size", none),
            number("total_count", none),
            number("hit_count", none),
            number("miss_count", none),
            number("cache_size", none),
            number("cache_count", none),
            number("evictions", none),
        ],
    },
    Metric {
        asked: "fielddata",
        shown: "fielddata",
        members: &[bytes("memory_size", none), number("evictions", none)],
    },
    Metric { asked: "completion", shown: "completion", members: &[bytes("size", none)] },
    Metric {
        asked: "segments",
        shown: "segments",
        members: &[
            number("count", |of| of.splits),
            bytes("memory", none),
            bytes("terms_memory", none),
            bytes("stored_fields_memory", none),
            bytes("term_vectors_memory", none),
            bytes("norms_memory", none),
            bytes("points_memory", none),
            bytes("doc_values_memory", none),
            bytes("index_writer_memory", none),
            bytes("version_map_memory", none),
            bytes("fixed_bit_set_memory", none),
        ],
    },
    Metric {
        asked: "translog",
        shown: "translog",
        members: &[
            number("operations", none),
            bytes("size", none),
            number("uncommitted_operations", none),
            bytes("uncommitted_size", none),
            number("earliest_last_modified_age", none),
        ],
    },
    Metric {
        asked: "request_cache",
        shown: "request_cache",
        members: &[
            bytes("memory_size", none),
            number("evictions", none),
            number("hit_count", none),
            number("miss_count", none),
        ],
    },
    Metric {
        asked: "recovery",
        shown: "recovery",
        members: &[
            number("current_as_source", none),
            number("current_as_target", none),
            micros("throttle_time", none),
        ],
    },
    Metric {
        asked: "bulk",
        shown: "bulk",
        members: &[
            number("total_operations", |of| of.tally.of(Writes)),
            micros("total_time", |of| of.tally.of(WriteUs)),
            bytes("total_size", |of| of.tally.of(WriteBytes)),
        ],
    },
    Metric { asked: "mappings", shown: "mappings", members: &[number("total_count", |of| of.fields)] },
    Metric { asked: "dense_vector", shown: "dense_vector", members: &[number("value_count", none)] },
    Metric { asked: "sparse_vector", shown: "sparse_vector", members: &[number("value_count", none)] },
];

/// What is counted of searches, and of those of a group.
const SEARCH: &[Member] = &[
    number("open_contexts", |of| of.scrolls + of.pits),
    number("query_total", |of| of.tally.of(Queries)),
    micros("query_time", |of| of.tally.of(QueryUs)),
    number("query_current", |of| of.tally.of(QueriesNow)),
    number("fetch_total", |of| of.tally.of(Fetches)),
    micros("fetch_time", none),
    number("fetch_current", none),
    number("scroll_total", |of| of.tally.of(ScrollsBegun).saturating_sub(of.scrolls)),
    number("scroll_current", |of| of.scrolls),
    number("point_in_time_total", |of| of.tally.of(PitsOpened).saturating_sub(of.pits)),
    number("point_in_time_current", |of| of.pits),
    number("suggest_total", none),
    micros("suggest_time", none),
    number("suggest_current", none),
];

fn get_us(of: &Figures) -> u64 {
    of.tally.of(FoundUs) + of.tally.of(MissingUs)
}

/// What is known of an index, or of several together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    indices: u64,
    documents: u64,
    /// Of them, those that no range of time finds.
    without_time: u64,
    bytes: u64,
    splits: u64,
    /// Of its splits, the bytes of the smallest and of the largest.
    split_bytes: Option<(u64, u64)>,
    fields: u64,
    tally: Tally,
    groups: BTreeMap<String, Tally>,
    merges: MergeFigures,
    /// What holds versions of it now.
    scrolls: u64,
    pits: u64,
}

impl Figures {
    fn of(state: &State, held: &Held, index: &Index) -> Figures {
        let (documents, bytes) = size(index);
        let (tally, groups) = state.counts.read(index.table_id());
        let sizes = || index.splits().iter().map(|split| split.object.bytes);
        Figures {
            indices: 1,
            documents,
            without_time: index.splits().iter().map(|split| split.rows_without_time).sum(),
            bytes,
            splits: index.splits().len() as u64,
            split_bytes: sizes().min().zip(sizes().max()),
            fields: index.mapping().fields().len() as u64,
            tally,
            groups,
            merges: state.merges.figures(index.table_id()),
            scrolls: held.scrolls.get(index.name()).copied().unwrap_or(0),
            pits: held.pits.get(index.name()).copied().unwrap_or(0),
        }
    }

    /// What is known of each of some indices.
    pub(crate) fn of_each(state: &State, indices: &[Arc<Index>]) -> Vec<Figures> {
        let held = Held::of(state);
        indices.iter().map(|index| Figures::of(state, &held, index)).collect()
    }

    /// What is known of them together.
    pub(crate) fn sum(all: &[Figures]) -> Figures {
        let mut sum = Figures::default();
        for other in all {
            sum.add(other);
        }
        sum
    }

    fn add(&mut self, other: &Figures) {
        for (own, other) in [
            (&mut self.indices, other.indices),
            (&mut self.documents, other.documents),
            (&mut self.without_time, other.without_time),
            (&mut self.bytes, other.bytes),
            (&mut self.splits, other.splits),
            (&mut self.fields, other.fields),
            (&mut self.scrolls, other.scrolls),
            (&mut self.pits, other.pits),
        ] {
            *own += other;
        }
        let least_and_most = [self.split_bytes, other.split_bytes].into_iter().flatten();
        self.split_bytes = least_and_most.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        self.tally.add(&other.tally);
        for (group, tally) in &other.groups {
            self.groups.entry(group.clone()).or_default().add(tally);
        }
        self.merges += other.merges;
    }

    /// The metrics that are asked for.
    pub(crate) fn shown(&self, wanted: &Wanted) -> Value {
        let metrics = METRICS.iter().filter(|metric| wanted.has(metric.asked));
        let shown = metrics.map(|metric| {
            let mut members = self.members(metric.members, wanted);
            match metric.asked {
                "search" if !wanted.groups.is_empty() => {
                    let is_wanted =
                        |name: &str| wanted.groups.iter().any(|group| wildcard_matches(group, name));
                    let groups =
                        self.groups.iter().filter(|(name, _)| is_wanted(name)).map(|(name, tally)| {
                            let group = Figures { tally: *tally, ..Figures::default() };
                            (name.clone(), Value::Object(group.members(SEARCH, wanted)))
                        });
                    let groups: Map<String, Value> = groups.collect();
                    if !groups.is_empty() {
                        members.insert("groups".to_owned(), Value::Object(groups));
                    }
                }
                "indexing" => {
                    let classes = [("2xx", Answered2xx), ("4xx", Answered4xx), ("5xx", Answered5xx)];
                    let classes = classes.map(|(class, count)| (class, self.tally.of(count)));
                    let classes = classes.into_iter().filter(|(_, count)| *count > 0);
                    let classes = classes.map(|(class, count)| (class.to_owned(), json!(count)));
                    members.insert("doc_status".to_owned(), Value::Object(classes.collect()));
                }
                "segments" => {
                    let sizes = self.split_bytes.filter(|_| wanted.file_sizes);
                    let files = sizes.map(|(least, most)| {
                        let of_kind = json!({
                            "description": "splits",
                            "size_in_bytes": self.bytes,
                            "min_size_in_bytes": least,
                            "max_size_in_bytes": most,
                            "average_size_in_bytes": self.bytes / self.splits.max(1),
                            "count": self.splits,
                        });
                        ("parquet".to_owned(), of_kind)
                    });
                    members.insert("file_sizes".to_owned(), Value::Object(files.into_iter().collect()));
                }
                _ => {}
            }
            (metric.shown.to_owned(), Value::Object(members))
        });
        Value::Object(shown.collect())
    }

    fn members(&self, members: &[Member], wanted: &Wanted) -> Map<String, Value> {
        let mut shown = Map::new();
        for Member { name, unit, of } in members {
            let value = of(self);
            let readable = match unit {
                Unit::Bytes => Some(readable_bytes(value)),
                Unit::Micros | Unit::MicrosAgain => Some(readable_time(value)),
                Unit::Number | Unit::Flag => None,
            };
            if let Some(readable) = readable.filter(|_| wanted.human) {
                shown.insert((*name).to_owned(), json!(readable));
            }
            match unit {
                Unit::Number => shown.insert((*name).to_owned(), json!(value)),
                Unit::Flag => shown.insert((*name).to_owned(), json!(value > 0)),
                Unit::Bytes => shown.insert(format!("{name}_in_bytes"), json!(value)),
                Unit::Micros => shown.insert(format!("{name}_in_millis"), json!(value / 1_000)),
                Unit::MicrosAgain => None,
            };
        }
        shown
    }

    /// The number of a column such as `merges.total`; none where nothing is counted under that name.
    pub(crate) fn cell(&self, name: &str) -> Option<Cell> {
        let (metric, member) = name.split_once('.')?;
        let metric = METRICS.iter().find(|known| known.shown == metric)?;
        let known = |name: &str| metric.members.iter().find(|known| known.name == name);
        // Some are called otherwise in tables.
        let found = known(member).or_else(|| known(&format!("total_{member}"))).or_else(|| match member {
            "external_time" => known("external_total_time"),
            "fixed_bitset_memory" => known("fixed_bit_set_memory"),
            _ => None,
        })?;
        let value = (found.of)(self);
        Some(match found.unit {
            Unit::Bytes => Cell::Bytes(value),
            Unit::Micros | Unit::MicrosAgain => Cell::Micros(value),
            Unit::Number | Unit::Flag => Cell::Number(value),
        })
    }
}

/// How many scrolls and points in time of this server hold versions of an index now.
struct Held {
    scrolls: BTreeMap<IndexName, u64>,
    pits: BTreeMap<IndexName, u64>,
}

impl Held {
    fn of(state: &State) -> Held {
        let now_us = state.node.clock().now_us();
        Held {
            scrolls: by_index(state.scrolls.open(now_us)),
            pits: by_index(state.pits.open(now_us).into_iter().map(|open| open.pit)),
        }
    }
}

fn by_index(pits: impl IntoIterator<Item = PointInTime>) -> BTreeMap<IndexName, u64> {
    let mut counts = BTreeMap::new();
    for version in pits.into_iter().flat_map(|pit| pit.versions()) {
        *counts.entry(version.name).or_default() += 1;
    }
    counts
}

/// Which metrics a request asks for, and in which detail.
pub(crate) struct Wanted {
    metrics: Vec<String>,
    groups: Vec<String>,
    file_sizes: bool,
    human: bool,
}

impl Wanted {
    /// The metrics of a list with commas; none means all. `path` is named where one of them is unknown.
    pub(crate) fn of(metrics: Option<&str>, path: &str, params: &Params) -> Result<Wanted> {
        let metrics: Vec<String> = metrics.unwrap_or("_all").split(',').map(str::to_owned).collect();
        let known: Vec<&str> = METRICS.iter().map(|metric| metric.asked).chain(["_all"]).collect();
        if let Some(other) = metrics.iter().find(|metric| !known.contains(&metric.as_str())) {
            return Err(unknown_metric(path, other, &known));
        }
        let groups = params.list("groups").unwrap_or_default();
        Ok(Wanted {
            metrics,
            groups: groups.into_iter().map(str::to_owned).collect(),
            file_sizes: params.flag("include_segment_file_sizes")?.unwrap_or(false),
            human: params.flag("human")?.unwrap_or(false),
        })
    }

    fn has(&self, metric: &str) -> bool {
        self.metrics.iter().any(|wanted| wanted == "_all" || wanted == metric)
    }
}

/// In which parts figures are shown.
pub(crate) fn level<'a>(params: &'a Params, levels: [&str; 3], default: &'a str) -> Result<&'a str> {
    match params.get("level").unwrap_or(default) {
        known if levels.contains(&known) => Ok(known),
        other => {
            let [a, b, c] = levels;
            Err(ApiError::invalid(format!("[level] is {a}, {b} or {c}, not [{other}]")))
        }
    }
}

/// `GET /{index}/_stats/{metric}`.
pub(crate) async fn stats(call: Call) -> Result<Answer> {
    let metrics = call.part("metric");
    let path = match call.part("index") {
        Some(index) => format!("/{index}/_stats/{}", metrics.unwrap_or_default()),
        None => format!("/_stats/{}", metrics.unwrap_or_default()),
    };
    let wanted = Wanted::of(metrics, &path, &call.params)?;
    let level = level(&call.params, ["cluster", "indices", "shards"], "indices")?;
    let how = indices::how_of_any(&call.params, Wildcards::OPEN)?;
    let how = Resolve { closed: call.params.flag("forbid_closed_indices")? == Some(false), ..how };
    let found = indices::open(&call.state, &call.client.scope, call.index(), how).await?;
    let records = call.state.node.catalog().seen_records();
    let is_closed = |index: &Index| records.as_ref().is_some_and(|records| records.is_closed(index.name()));
    let figures = Figures::of_each(&call.state, &found);
    let of_index = |figures: &Figures| {
        let shown = figures.shown(&wanted);
        json!({ "primaries": shown, "total": shown })
    };
    let mut answer = json!({
        "_shards": { "total": found.len(), "successful": found.len(), "failed": 0 },
        "_all": of_index(&Figures::sum(&figures)),
    });
    if level != "cluster" {
        let each = found.iter().zip(&figures).map(|(index, figures)| {
            let mut shown = of_index(figures);
            shown["uuid"] = json!(index_uuid(index.table_id()));
            shown["health"] = json!("green");
            shown["status"] = json!(if is_closed(index) { "close" } else { "open" });
            if level == "shards" {
                shown["shards"] = json!({ "0": [shard(&call.state, index, figures, &wanted)] });
            }
            (index.name().to_string(), shown)
        });
        answer["indices"] = Value::Object(each.collect());
    }
    Answer::json(&answer)
}

/// The one shard of an index.
fn shard(state: &State, index: &Index, figures: &Figures, wanted: &Wanted) -> Value {
    let mut shard = figures.shown(wanted);
    shard["routing"] =
        json!({ "state": "STARTED", "primary": true, "node": uuid(state), "relocating_node": null });
    shard["commit"] = json!({
        "id": format!("{}-{}", index.table_id(), index.version()),
        "generation": index.version(),
        "user_data": {},
        "num_docs": figures.documents,
    });
    shard
}

/// What a node tells of the indices at a level.
pub(crate) fn of_node(state: &State, found: &[Arc<Index>], wanted: &Wanted, level: &str) -> Value {
    let figures = Figures::of_each(state, found);
    let mut shown = Figures::sum(&figures).shown(wanted);
    let each = || found.iter().zip(&figures);
    let name = |index: &Arc<Index>| index.name().to_string();
    match level {
        "indices" => {
            let each = each().map(|(index, figures)| (name(index), figures.shown(wanted)));
            shown["indices"] = Value::Object(each.collect());
        }
        "shards" => {
            let each = each().map(|(index, figures)| {
                (name(index), json!([{ "0": shard(state, index, figures, wanted) }]))
            });
            shown["shards"] = Value::Object(each.collect());
        }
        _ => {}
    }
    shown
}

/// The error of a metric that nobody knows.
pub(crate) fn unknown_metric(path: &str, metric: &str, known: &[&str]) -> ApiError {
    let meant = frostline_show::nearest(metric, known.iter().copied());
    let meant = meant.map_or(String::new(), |known| format!(" -> did you mean [{known}]?"));
    ApiError::invalid(format!("request [{path}] contains unrecognized metric: [{metric}]{meant}"))
}

/// `GET /{index}/_segments`: a split is a segment.
pub(crate) async fn segments(call: Call) -> Result<Answer> {
    let found = indices::named(&call).await?;
    let each = found.iter().map(|index| {
        let segments = index.splits().iter().enumerate().map(|(generation, split)| {
            let segment = json!({
                "generation": generation,
                "num_docs": split.rows,
                "deleted_docs": 0,
                "size_in_bytes": split.object.bytes,
                "committed": true,
                "search": true,
                "compound": true,
            });
            (split.id.to_string(), segment)
        });
        let segments: Map<String, Value> = segments.collect();
        let shard = json!({
            "routing": { "state": "STARTED", "primary": true, "node": uuid(&call.state) },
            "num_committed_segments": segments.len(),
            "num_search_segments": segments.len(),
            "segments": segments,
        });
        (index.name().to_string(), json!({ "shards": { "0": [shard] } }))
    });
    let each: Map<String, Value> = each.collect();
    let count = each.len();
    Answer::json(&json!({ "_shards": { "total": count, "successful": count, "failed": 0 }, "indices": each }))
}
