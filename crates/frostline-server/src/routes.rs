//! The table of APIs: which method and path is which, what it is called in Elasticsearch, and what it takes.
//!
//! Everything that depends on which APIs there are comes from [`APIS`]: routing, the methods that a path allows, the
//! check of parameters, and the table in the documentation.

use frostline_ingest::otlp::Encoding;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use percent_encoding::percent_decode_str;

use crate::answer::Answer;
use crate::api::{
    alias, analyze, async_search, blocks, bulk, by_query, cat, cluster, data_stream, disk_usage, document,
    explain, field_caps, field_usage, ilm, index, info, lifecycle, mapping, metrics, msearch, openapi,
    pipeline, pit, resolve, rewrite, scroll, search, search_pipeline, search_template, security, shards,
    shared_cache, snapshot, sql, stats, stream_settings, tasks, template, term_vectors, terms_enum,
};
use crate::body::TREE;
use crate::doors::otlp;
use crate::error::{ApiError, Result};
use crate::state::Call;

/// One API.
#[derive(Debug)]
pub(crate) struct Api {
    /// Its name in Elasticsearch's specification.
    pub(crate) name: &'static str,
    pub(crate) methods: &'static [Method],
    /// Parts in braces stand for one part of a path each.
    pub(crate) paths: &'static [&'static str],
    /// What it needs permission for.
    pub(crate) action: Action,
    /// Parameters that it understands.
    pub(crate) takes: &'static [&'static [&'static str]],
    /// Parameters that Elasticsearch understands and that would change nothing here.
    pub(crate) ignores: &'static [&'static [&'static str]],
    pub(crate) answer: fn(Call) -> BoxFuture<'static, Result<Answer>>,
}

impl Api {
    /// How much memory each byte of a body counts for.
    pub(crate) fn weight(&self, headers: &HeaderMap) -> usize {
        match self.name {
            otlp::API if otlp::encoding(headers).is_ok_and(|encoding| encoding == Encoding::Protobuf) => 1,
            // Of these a line or a document at a time is read.
            "bulk" | "create" | "index" | "msearch" | "msearch_template" => 1,
            _ => TREE,
        }
    }

    /// Whether what it begins takes its turn among the searches, rather than itself.
    pub(crate) fn begins_search(&self) -> bool {
        self.name == "async_search.submit"
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Asks whether the server runs. It is answered also where no other request is.
    Probe,
    /// Reads figures of the server. It is answered also where the limit of requests is reached.
    Observe,
    /// Reads what the server is and does.
    Monitor,
    /// Reads documents.
    Read,
    /// Reads or ends what a search has kept.
    Release,
    /// Reads what is known of an index.
    ViewIndex,
    /// Adds documents.
    Write,
    /// Makes an index.
    CreateIndex,
    /// Deletes an index.
    DeleteIndex,
    /// Changes what is no index.
    Manage,
}

/// Parts of a path, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captures(Vec<(&'static str, String)>);

impl Captures {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, part)| part.as_str())
    }
}

/// What a method and a path ask for.
#[derive(Debug)]
pub(crate) enum Routed {
    Api(&'static Api, Captures),
    /// `OPTIONS`: which methods the path allows.
    Options(String),
}

/// The API of a method and a path.
pub(crate) fn route(method: &Method, path: &str) -> Result<Routed> {
    let parts = parts(path)?;
    let fits = APIS.iter().flat_map(|api| {
        let matching = api.paths.iter().filter_map(|pattern| captures(pattern, &parts));
        matching.map(move |captures| (api, captures))
    });
    let fits: Vec<(&'static Api, Captures)> = fits.collect();
    // A path that is written out is meant rather than one with parts that stand for anything.
    let fewest = fits.iter().map(|(_, captures)| captures.0.len()).min();
    let Some(fewest) = fewest else {
        let instead = instead(&parts).map_or(String::new(), |instead| format!(": {instead}"));
        let reason = format!("no handler found for uri [{path}] and method [{method}]{instead}");
        return Err(ApiError::invalid(reason));
    };
    let fits: Vec<_> = fits.into_iter().filter(|(_, captures)| captures.0.len() == fewest).collect();
    let allowed = allowed(fits.iter().map(|(api, _)| *api));
    if method == Method::OPTIONS {
        return Ok(Routed::Options(allowed));
    }
    let find = |wanted: &Method| fits.iter().find(|(api, _)| api.methods.contains(wanted));
    // The answer to HEAD is that to GET, without its body.
    let found = find(method).or_else(|| (method == Method::HEAD).then(|| find(&Method::GET)).flatten());
    match found {
        Some((api, captures)) => Ok(Routed::Api(api, captures.clone())),
        None => {
            let reason =
                format!("Incorrect HTTP method for uri [{path}] and method [{method}], allowed: [{allowed}]");
            let error = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed_exception", reason);
            Err(ApiError { allow: Some(allowed), ..error })
        }
    }
}

/// What to do instead of what Elasticsearch or OpenSearch has under a path and we do not.
fn instead(parts: &[String]) -> Option<&'static str> {
    const INSTEAD: [(&[&str], &str); 6] = [
        (&["_ism"], "`frostline index retain` and `_lifecycle` of data streams delete old documents"),
        (&["_slm"], "there are no snapshot policies: run `frostline snapshot create` from a timer"),
        (&["_alerting", "_monitors", "_watcher"], "there are no alerts: use those of Grafana, or ElastAlert"),
        (&["_security"], "there are users, and API keys with their roles in `role_descriptors`"),
        (&["_eql", "_ppl", "_query"], "the languages are the query DSL, query strings and SQL"),
        (&["_freeze", "_shrink", "_split", "_unfreeze"], "an index has no shards to change"),
    ];
    let has = |name: &&str| parts.iter().any(|part| part == name);
    INSTEAD.iter().find(|(names, _)| names.iter().any(has)).map(|(_, instead)| *instead)
}

/// The decoded parts of a path.
fn parts(path: &str) -> Result<Vec<String>> {
    let parts = path.split('/').filter(|part| !part.is_empty()).map(|part| {
        let decoded = percent_decode_str(part).decode_utf8();
        let decoded = decoded.map_err(|_| ApiError::invalid(format!("the path [{path}] is not UTF-8")))?;
        Ok(decoded.into_owned())
    });
    parts.collect()
}

/// The parts that a pattern names, if it stands for this path.
fn captures(pattern: &'static str, parts: &[String]) -> Option<Captures> {
    let mut captures = Captures::default();
    let mut parts = parts.iter();
    for wanted in pattern.split('/').filter(|part| !part.is_empty()) {
        let part = parts.next()?;
        match wanted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            // No index and no user begins with an underscore, and every API does.
            Some("index" | "username") if part.starts_with('_') && part != "_all" => return None,
            Some(name) => captures.0.push((name, part.clone())),
            None if wanted == part => {}
            None => return None,
        }
    }
    parts.next().is_none().then_some(captures)
}

fn allowed(apis: impl Iterator<Item = &'static Api>) -> String {
    let mut methods: Vec<&str> = apis.flat_map(|api| api.methods).map(Method::as_str).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.sort_unstable();
    methods.dedup();
    methods.join(",")
}

const GET: &[Method] = &[Method::GET];
const POST: &[Method] = &[Method::POST];
const PUT: &[Method] = &[Method::PUT];
const DELETE: &[Method] = &[Method::DELETE];
const HEAD: &[Method] = &[Method::HEAD];
const GET_OR_POST: &[Method] = &[Method::GET, Method::POST];
const POST_OR_PUT: &[Method] = &[Method::POST, Method::PUT];

/// Which indices an expression names.
const INDICES: &[&str] = &["allow_no_indices", "expand_wildcards", "ignore_unavailable"];
/// A query in the URL.
const QUERY: &[&str] = &["analyze_wildcard", "analyzer", "default_operator", "df", "lenient", "q"];
/// How a query in the URL is analysed, which one analyser does, and what it may be spread over.
const QUERY_IGNORED: &[&str] = &["ignore_throttled", "preference", "routing"];
/// Who waits for whom: there is one node and no shard to wait for.
const CLUSTER: &[&str] =
    &["cluster_manager_timeout", "local", "master_timeout", "timeout", "wait_for_active_shards"];
/// How tables are shown.
const TABLE: &[&str] = &["bytes", "h", "help", "s", "time", "v"];

/// Every API.
pub(crate) static APIS: &[Api] = &[
    Api {
        name: "info",
        methods: GET,
        paths: &["/"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(info::info(call)),
    },
    Api {
        name: "license.get",
        methods: GET,
        paths: &["/_license"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[&["accept_enterprise", "local"]],
        answer: |call| Box::pin(info::license(call)),
    },
    Api {
        name: "license.get_basic_status",
        methods: GET,
        paths: &["/_license/basic_status"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(info::license_status(call, "basic")),
    },
    Api {
        name: "license.get_trial_status",
        methods: GET,
        paths: &["/_license/trial_status"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(info::license_status(call, "trial")),
    },
    Api {
        name: "xpack.info",
        methods: GET,
        paths: &["/_xpack"],
        action: Action::Monitor,
        takes: &[&["categories"]],
        ignores: &[&["accept_enterprise"]],
        answer: |call| Box::pin(info::xpack(call)),
    },
    Api {
        name: "xpack.usage",
        methods: GET,
        paths: &["/_xpack/usage"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(info::xpack_usage(call)),
    },
    Api {
        name: "health_report",
        methods: GET,
        paths: &["/_health_report", "/_health_report/{feature}"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER, &["size", "verbose"]],
        answer: |call| Box::pin(info::health_report(call)),
    },
    Api {
        name: "cluster.info",
        methods: GET,
        paths: &["/_info/{target}"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(cluster::info(call)),
    },
    Api {
        name: "health",
        methods: GET,
        paths: &["/health"],
        action: Action::Probe,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(info::health(call)),
    },
    Api {
        name: "ready",
        methods: GET,
        paths: &["/ready"],
        action: Action::Probe,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(info::ready(call)),
    },
    Api {
        name: "metrics",
        methods: GET,
        paths: &["/metrics"],
        action: Action::Observe,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(metrics::metrics(call)),
    },
    Api {
        name: "openapi",
        methods: GET,
        paths: &["/_openapi.json"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(openapi::openapi(call)),
    },
    Api {
        name: otlp::API,
        methods: POST,
        paths: &["/v1/logs"],
        action: Action::Write,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(otlp::logs(call)),
    },
    Api {
        name: "search",
        methods: GET_OR_POST,
        paths: &["/_search", "/{index}/_search"],
        action: Action::Read,
        takes: &[INDICES, QUERY, search::PARAMETERS],
        ignores: &[QUERY_IGNORED, search::IGNORED],
        answer: |call| Box::pin(search::search(call)),
    },
    Api {
        name: "msearch",
        methods: GET_OR_POST,
        paths: &["/_msearch", "/{index}/_msearch"],
        action: Action::Read,
        takes: &[INDICES, msearch::PARAMETERS],
        ignores: &[QUERY_IGNORED, search::IGNORED, msearch::IGNORED],
        answer: |call| Box::pin(msearch::msearch(call)),
    },
    Api {
        name: "search_template",
        methods: GET_OR_POST,
        paths: &["/_search/template", "/{index}/_search/template"],
        action: Action::Read,
        takes: &[INDICES, search_template::PARAMETERS],
        ignores: &[QUERY_IGNORED, search::IGNORED],
        answer: |call| Box::pin(search_template::search(call)),
    },
    Api {
        name: "msearch_template",
        methods: GET_OR_POST,
        paths: &["/_msearch/template", "/{index}/_msearch/template"],
        action: Action::Read,
        takes: &[INDICES, msearch::PARAMETERS],
        ignores: &[QUERY_IGNORED, search::IGNORED, msearch::IGNORED],
        answer: |call| Box::pin(search_template::msearch(call)),
    },
    Api {
        name: "render_search_template",
        methods: GET_OR_POST,
        paths: &["/_render/template", "/_render/template/{id}"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(search_template::render(call)),
    },
    Api {
        name: "search_pipeline.put",
        methods: PUT,
        paths: &["/_search/pipeline/{id}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(search_pipeline::put(call)),
    },
    Api {
        name: "search_pipeline.get",
        methods: GET,
        paths: &["/_search/pipeline", "/_search/pipeline/{id}"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(search_pipeline::get(call)),
    },
    Api {
        name: "search_pipeline.delete",
        methods: DELETE,
        paths: &["/_search/pipeline/{id}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(search_pipeline::delete(call)),
    },
    Api {
        name: "put_script",
        methods: POST_OR_PUT,
        paths: &["/_scripts/{id}", "/_scripts/{id}/{context}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER, &["context"]],
        answer: |call| Box::pin(search_template::put(call)),
    },
    Api {
        name: "get_script",
        methods: GET,
        paths: &["/_scripts/{id}"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(search_template::get(call)),
    },
    Api {
        name: "delete_script",
        methods: DELETE,
        paths: &["/_scripts/{id}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(search_template::delete(call)),
    },
    Api {
        name: "count",
        methods: GET_OR_POST,
        paths: &["/_count", "/{index}/_count"],
        action: Action::Read,
        takes: &[INDICES, QUERY, &["min_score", "terminate_after"]],
        ignores: &[QUERY_IGNORED],
        answer: |call| Box::pin(search::count(call)),
    },
    Api {
        name: "indices.validate_query",
        methods: GET_OR_POST,
        paths: &["/_validate/query", "/{index}/_validate/query"],
        action: Action::Read,
        takes: &[INDICES, QUERY, &["explain"]],
        ignores: &[QUERY_IGNORED, &["all_shards", "rewrite"]],
        answer: |call| Box::pin(search::validate(call)),
    },
    Api {
        name: "scroll",
        methods: GET_OR_POST,
        paths: &["/_search/scroll", "/_search/scroll/{scroll_id}"],
        action: Action::Read,
        takes: &[&["rest_total_hits_as_int", "scroll", "scroll_id"]],
        ignores: &[],
        answer: |call| Box::pin(scroll::scroll(call)),
    },
    Api {
        name: "clear_scroll",
        methods: DELETE,
        paths: &["/_search/scroll", "/_search/scroll/{scroll_id}"],
        action: Action::Release,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(scroll::clear(call)),
    },
    Api {
        name: "open_point_in_time",
        methods: POST,
        paths: &["/{index}/_pit", "/{index}/_search/point_in_time"],
        action: Action::Read,
        takes: &[INDICES, &["keep_alive"]],
        ignores: &[&["allow_partial_pit_creation", "allow_partial_search_results", "preference", "routing"]],
        answer: |call| Box::pin(pit::open(call)),
    },
    Api {
        name: "close_point_in_time",
        methods: DELETE,
        paths: &["/_pit", "/_search/point_in_time"],
        action: Action::Release,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(pit::close(call)),
    },
    Api {
        name: "get_all_pits",
        methods: GET,
        paths: &["/_search/point_in_time/_all"],
        action: Action::Release,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(pit::list(call)),
    },
    Api {
        name: "delete_all_pits",
        methods: DELETE,
        paths: &["/_search/point_in_time/_all"],
        action: Action::Release,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(pit::close_all(call)),
    },
    Api {
        name: "async_search.submit",
        methods: POST,
        paths: &["/_async_search", "/{index}/_async_search"],
        action: Action::Read,
        takes: &[INDICES, QUERY, search::PARAMETERS, async_search::PARAMETERS],
        ignores: &[QUERY_IGNORED, search::IGNORED],
        answer: |call| Box::pin(async_search::submit(call)),
    },
    Api {
        name: "async_search.get",
        methods: GET,
        paths: &["/_async_search/{id}"],
        action: Action::Release,
        takes: &[&["keep_alive", "wait_for_completion_timeout"]],
        ignores: &[&["return_intermediate_results", "typed_keys"]],
        answer: |call| Box::pin(async_search::get(call)),
    },
    Api {
        name: "async_search.status",
        methods: GET,
        paths: &["/_async_search/status/{id}"],
        action: Action::Release,
        takes: &[&["keep_alive"]],
        ignores: &[],
        answer: |call| Box::pin(async_search::status(call)),
    },
    Api {
        name: "async_search.delete",
        methods: DELETE,
        paths: &["/_async_search/{id}"],
        action: Action::Release,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(async_search::delete(call)),
    },
    Api {
        name: "explain",
        methods: GET_OR_POST,
        paths: &["/{index}/_explain/{id}"],
        action: Action::Read,
        takes: &[QUERY, &["_source", "_source_excludes", "_source_includes"]],
        ignores: &[&["preference", "routing"]],
        answer: |call| Box::pin(explain::explain(call)),
    },
    Api {
        name: "field_caps",
        methods: GET_OR_POST,
        paths: &["/_field_caps", "/{index}/_field_caps"],
        action: Action::Read,
        takes: &[INDICES, &["fields", "filters", "include_unmapped", "types"]],
        ignores: &[&["include_empty_fields"]],
        answer: |call| Box::pin(field_caps::field_caps(call)),
    },
    Api {
        name: "terms_enum",
        methods: GET_OR_POST,
        paths: &["/{index}/_terms_enum"],
        action: Action::Read,
        takes: &[INDICES],
        ignores: &[QUERY_IGNORED],
        answer: |call| Box::pin(terms_enum::terms_enum(call)),
    },
    Api {
        name: "sql.query",
        methods: GET_OR_POST,
        paths: &["/_sql"],
        action: Action::Read,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(sql::sql(call)),
    },
    Api {
        name: "bulk",
        methods: POST_OR_PUT,
        paths: &["/_bulk", "/{index}/_bulk"],
        action: Action::Write,
        takes: &[bulk::PARAMETERS, document::SOURCE],
        ignores: &[bulk::IGNORED],
        answer: |call| Box::pin(bulk::bulk(call)),
    },
    Api {
        name: "index",
        methods: POST,
        paths: &["/{index}/_doc"],
        action: Action::Write,
        takes: &[bulk::PARAMETERS],
        ignores: &[bulk::IGNORED],
        answer: |call| Box::pin(bulk::index(call)),
    },
    Api {
        name: "index",
        methods: POST_OR_PUT,
        paths: &["/{index}/_doc/{id}"],
        action: Action::Write,
        takes: &[bulk::PARAMETERS, document::WRITE, document::VERSION],
        ignores: &[bulk::IGNORED],
        answer: |call| Box::pin(document::index(call)),
    },
    Api {
        name: "create",
        methods: POST_OR_PUT,
        paths: &["/{index}/_create/{id}"],
        action: Action::Write,
        takes: &[bulk::PARAMETERS, document::VERSION],
        ignores: &[bulk::IGNORED],
        answer: |call| Box::pin(document::create(call)),
    },
    Api {
        name: "update",
        methods: POST,
        paths: &["/{index}/_update/{id}"],
        action: Action::Write,
        takes: &[bulk::PARAMETERS, document::WRITE, document::VERSION, document::SOURCE],
        ignores: &[document::UPDATE_IGNORED],
        answer: |call| Box::pin(document::update(call)),
    },
    Api {
        name: "delete",
        methods: DELETE,
        paths: &["/{index}/_doc/{id}"],
        action: Action::Write,
        takes: &[&["refresh"], document::WRITE, document::VERSION],
        ignores: &[bulk::IGNORED],
        answer: |call| Box::pin(document::delete(call)),
    },
    Api {
        name: "delete_by_query",
        methods: POST,
        paths: &["/{index}/_delete_by_query"],
        action: Action::Write,
        takes: &[INDICES, QUERY, by_query::PARAMETERS],
        ignores: &[by_query::IGNORED],
        answer: |call| Box::pin(by_query::delete(call)),
    },
    Api {
        name: "update_by_query",
        methods: POST,
        paths: &["/{index}/_update_by_query"],
        action: Action::Write,
        takes: &[INDICES, QUERY, by_query::PARAMETERS, &["pipeline"]],
        ignores: &[by_query::IGNORED],
        answer: |call| Box::pin(rewrite::update(call)),
    },
    Api {
        name: "reindex",
        methods: POST,
        paths: &["/_reindex"],
        action: Action::Write,
        takes: &[rewrite::REINDEX],
        ignores: &[rewrite::REINDEX_IGNORED],
        answer: |call| Box::pin(rewrite::reindex(call)),
    },
    Api {
        name: "delete_by_query_rethrottle",
        methods: POST,
        paths: &["/_delete_by_query/{task_id}/_rethrottle"],
        action: Action::Monitor,
        takes: &[&["group_by", "requests_per_second"]],
        ignores: &[],
        answer: |call| Box::pin(tasks::rethrottle(call)),
    },
    Api {
        name: "update_by_query_rethrottle",
        methods: POST,
        paths: &["/_update_by_query/{task_id}/_rethrottle"],
        action: Action::Monitor,
        takes: &[&["group_by", "requests_per_second"]],
        ignores: &[],
        answer: |call| Box::pin(tasks::rethrottle(call)),
    },
    Api {
        name: "reindex_rethrottle",
        methods: POST,
        paths: &["/_reindex/{task_id}/_rethrottle"],
        action: Action::Monitor,
        takes: &[&["group_by", "requests_per_second"]],
        ignores: &[],
        answer: |call| Box::pin(tasks::rethrottle(call)),
    },
    Api {
        name: "get",
        methods: GET,
        paths: &["/{index}/_doc/{id}"],
        action: Action::Read,
        takes: &[document::SOURCE, document::VERSION],
        ignores: &[document::READ_IGNORED],
        answer: |call| Box::pin(document::get(call)),
    },
    Api {
        name: "get_source",
        methods: GET,
        paths: &["/{index}/_source/{id}"],
        action: Action::Read,
        takes: &[document::SOURCE, document::VERSION],
        ignores: &[document::READ_IGNORED],
        answer: |call| Box::pin(document::source(call)),
    },
    Api {
        name: "mget",
        methods: GET_OR_POST,
        paths: &["/_mget", "/{index}/_mget"],
        action: Action::Read,
        takes: &[document::SOURCE],
        ignores: &[document::READ_IGNORED],
        answer: |call| Box::pin(document::mget(call)),
    },
    Api {
        name: "termvectors",
        methods: GET_OR_POST,
        paths: &["/{index}/_termvectors", "/{index}/_termvectors/{id}"],
        action: Action::Read,
        takes: &[document::VERSION, term_vectors::PARAMETERS],
        ignores: &[term_vectors::IGNORED],
        answer: |call| Box::pin(term_vectors::one(call)),
    },
    Api {
        name: "mtermvectors",
        methods: GET_OR_POST,
        paths: &["/_mtermvectors", "/{index}/_mtermvectors"],
        action: Action::Read,
        takes: &[document::VERSION, term_vectors::PARAMETERS, &["ids"]],
        ignores: &[term_vectors::IGNORED],
        answer: |call| Box::pin(term_vectors::several(call)),
    },
    Api {
        name: "indices.create",
        methods: PUT,
        paths: &["/{index}"],
        action: Action::CreateIndex,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(index::create(call)),
    },
    Api {
        name: "indices.clone",
        methods: POST_OR_PUT,
        paths: &["/{index}/_clone/{target}"],
        action: Action::Manage,
        takes: &[&["wait_for_completion"]],
        ignores: &[CLUSTER, &["task_execution_timeout"]],
        answer: |call| Box::pin(index::clone(call)),
    },
    Api {
        name: "indices.delete",
        methods: DELETE,
        paths: &["/{index}"],
        action: Action::DeleteIndex,
        takes: &[INDICES],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(index::delete(call)),
    },
    Api {
        name: "indices.open",
        methods: POST,
        paths: &["/{index}/_open"],
        action: Action::ViewIndex,
        takes: &[INDICES, &["wait_for_completion"]],
        ignores: &[CLUSTER, &["task_execution_timeout"]],
        answer: |call| Box::pin(blocks::open(call)),
    },
    Api {
        name: "indices.close",
        methods: POST,
        paths: &["/{index}/_close"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(blocks::close(call)),
    },
    Api {
        name: "indices.add_block",
        methods: PUT,
        paths: &["/{index}/_block/{block}"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(blocks::add(call)),
    },
    Api {
        name: "indices.remove_block",
        methods: DELETE,
        paths: &["/{index}/_block/{block}"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(blocks::remove(call)),
    },
    Api {
        name: "indices.exists",
        methods: HEAD,
        paths: &["/{index}"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[CLUSTER, &["flat_settings", "include_defaults"]],
        answer: |call| Box::pin(index::exists(call)),
    },
    Api {
        name: "indices.get",
        methods: GET,
        paths: &["/{index}"],
        action: Action::ViewIndex,
        takes: &[INDICES, &["features", "flat_settings"]],
        ignores: &[CLUSTER, &["include_defaults"]],
        answer: |call| Box::pin(index::get(call)),
    },
    Api {
        name: "indices.get_mapping",
        methods: GET,
        paths: &["/_mapping", "/{index}/_mapping"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(mapping::get(call)),
    },
    Api {
        name: "indices.put_mapping",
        methods: POST_OR_PUT,
        paths: &["/_mapping", "/{index}/_mapping"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[CLUSTER, &["write_index_only"]],
        answer: |call| Box::pin(mapping::put(call)),
    },
    Api {
        name: "indices.get_field_mapping",
        methods: GET,
        paths: &["/_mapping/field/{fields}", "/{index}/_mapping/field/{fields}"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[CLUSTER, &["include_defaults"]],
        answer: |call| Box::pin(mapping::get_fields(call)),
    },
    Api {
        name: "indices.get_settings",
        methods: GET,
        paths: &["/_settings", "/_settings/{name}", "/{index}/_settings", "/{index}/_settings/{name}"],
        action: Action::ViewIndex,
        takes: &[INDICES, &["flat_settings"]],
        ignores: &[CLUSTER, &["include_defaults"]],
        answer: |call| Box::pin(index::settings(call)),
    },
    Api {
        name: "indices.put_settings",
        methods: PUT,
        paths: &["/_settings", "/{index}/_settings"],
        action: Action::Manage,
        takes: &[INDICES, &["preserve_existing"]],
        ignores: &[CLUSTER, &["flat_settings", "reopen"]],
        answer: |call| Box::pin(index::put_settings(call)),
    },
    Api {
        name: "indices.analyze",
        methods: GET_OR_POST,
        paths: &["/_analyze", "/{index}/_analyze"],
        action: Action::ViewIndex,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(analyze::of_text(call)),
    },
    Api {
        name: "indices.refresh",
        methods: GET_OR_POST,
        paths: &["/_refresh", "/{index}/_refresh"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[],
        answer: |call| Box::pin(index::refresh(call)),
    },
    Api {
        name: "indices.flush",
        methods: GET_OR_POST,
        paths: &["/_flush", "/{index}/_flush"],
        action: Action::ViewIndex,
        takes: &[INDICES, &["force", "wait_if_ongoing"]],
        ignores: &[],
        answer: |call| Box::pin(index::flush(call)),
    },
    Api {
        name: "indices.clear_cache",
        methods: POST,
        paths: &["/_cache/clear", "/{index}/_cache/clear"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[&["fielddata", "fields", "file", "query", "request"]],
        answer: |call| Box::pin(index::clear_cache(call)),
    },
    Api {
        name: "indices.forcemerge",
        methods: POST,
        paths: &["/_forcemerge", "/{index}/_forcemerge"],
        action: Action::Write,
        takes: &[INDICES, &["max_num_segments", "wait_for_completion"]],
        ignores: &[&["flush", "only_expunge_deletes", "primary_only"]],
        answer: |call| Box::pin(index::force_merge(call)),
    },
    Api {
        name: "indices.stats",
        methods: GET,
        paths: &["/_stats", "/_stats/{metric}", "/{index}/_stats", "/{index}/_stats/{metric}"],
        action: Action::ViewIndex,
        takes: &[INDICES, stats::DETAILS, &["forbid_closed_indices", "level"]],
        ignores: &[stats::DETAILS_IGNORED],
        answer: |call| Box::pin(stats::stats(call)),
    },
    Api {
        name: "indices.segments",
        methods: GET,
        paths: &["/_segments", "/{index}/_segments"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[&["verbose"]],
        answer: |call| Box::pin(stats::segments(call)),
    },
    Api {
        name: "indices.disk_usage",
        methods: POST,
        paths: &["/{index}/_disk_usage"],
        action: Action::Read,
        takes: &[INDICES, &["run_expensive_tasks"]],
        ignores: &[&["flush"]],
        answer: |call| Box::pin(disk_usage::disk_usage(call)),
    },
    Api {
        name: "indices.field_usage_stats",
        methods: GET,
        paths: &["/{index}/_field_usage_stats"],
        action: Action::Read,
        takes: &[INDICES, &["fields"]],
        ignores: &[&["level", "wait_for_active_shards"]],
        answer: |call| Box::pin(field_usage::field_usage(call)),
    },
    Api {
        name: "indices.recovery",
        methods: GET,
        paths: &["/_recovery", "/{index}/_recovery"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[&["active_only", "detailed", "human"]],
        answer: |call| Box::pin(shards::recovery(call)),
    },
    Api {
        name: "indices.shard_stores",
        methods: GET,
        paths: &["/_shard_stores", "/{index}/_shard_stores"],
        action: Action::ViewIndex,
        takes: &[INDICES, &["status"]],
        ignores: &[],
        answer: |call| Box::pin(shards::stores(call)),
    },
    Api {
        name: "search_shards",
        methods: GET_OR_POST,
        paths: &["/_search_shards", "/{index}/_search_shards"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[CLUSTER, &["preference", "routing"]],
        answer: |call| Box::pin(shards::searched(call)),
    },
    Api {
        name: "indices.update_aliases",
        methods: POST,
        paths: &["/_aliases"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(alias::update(call)),
    },
    Api {
        name: "indices.put_alias",
        methods: POST_OR_PUT,
        paths: &[
            "/{index}/_alias/{name}",
            "/{index}/_aliases/{name}",
            "/_alias/{name}",
            "/_aliases/{name}",
            "/{index}/_alias",
            "/{index}/_aliases",
            "/_alias",
        ],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(alias::put(call)),
    },
    Api {
        name: "indices.get_alias",
        methods: GET,
        paths: &["/_alias", "/_alias/{name}", "/{index}/_alias", "/{index}/_alias/{name}"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(alias::get(call)),
    },
    Api {
        name: "indices.delete_alias",
        methods: DELETE,
        paths: &["/{index}/_alias/{name}", "/{index}/_aliases/{name}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(alias::delete(call)),
    },
    Api {
        name: "indices.put_index_template",
        methods: POST_OR_PUT,
        paths: &["/_index_template/{name}"],
        action: Action::Manage,
        takes: &[&["create"]],
        ignores: &[CLUSTER, &["cause"]],
        answer: |call| Box::pin(template::put(call, template::Kind::Index)),
    },
    Api {
        name: "indices.get_index_template",
        methods: GET,
        paths: &["/_index_template", "/_index_template/{name}"],
        action: Action::Monitor,
        takes: &[&["flat_settings"]],
        ignores: &[CLUSTER, &["include_defaults"]],
        answer: |call| Box::pin(template::get(call, template::Kind::Index)),
    },
    Api {
        name: "indices.delete_index_template",
        methods: DELETE,
        paths: &["/_index_template/{name}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(template::delete(call, template::Kind::Index)),
    },
    Api {
        name: "indices.simulate_index_template",
        methods: POST,
        paths: &["/_index_template/_simulate_index/{name}"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER, &["cause", "create", "include_defaults"]],
        answer: |call| Box::pin(template::simulate_index(call)),
    },
    Api {
        name: "indices.simulate_template",
        methods: POST,
        paths: &["/_index_template/_simulate", "/_index_template/_simulate/{name}"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER, &["cause", "create", "include_defaults"]],
        answer: |call| Box::pin(template::simulate(call)),
    },
    Api {
        name: "indices.put_template",
        methods: POST_OR_PUT,
        paths: &["/_template/{name}"],
        action: Action::Manage,
        takes: &[&["create", "order"]],
        ignores: &[CLUSTER, &["cause"]],
        answer: |call| Box::pin(template::put(call, template::Kind::Legacy)),
    },
    Api {
        name: "indices.get_template",
        methods: GET,
        paths: &["/_template", "/_template/{name}"],
        action: Action::Monitor,
        takes: &[&["flat_settings"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(template::get_legacy(call)),
    },
    Api {
        name: "indices.delete_template",
        methods: DELETE,
        paths: &["/_template/{name}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(template::delete(call, template::Kind::Legacy)),
    },
    Api {
        name: "cluster.put_component_template",
        methods: POST_OR_PUT,
        paths: &["/_component_template/{name}"],
        action: Action::Manage,
        takes: &[&["create"]],
        ignores: &[CLUSTER, &["cause"]],
        answer: |call| Box::pin(template::put(call, template::Kind::Component)),
    },
    Api {
        name: "cluster.get_component_template",
        methods: GET,
        paths: &["/_component_template", "/_component_template/{name}"],
        action: Action::Monitor,
        takes: &[&["flat_settings"]],
        ignores: &[CLUSTER, &["include_defaults"]],
        answer: |call| Box::pin(template::get(call, template::Kind::Component)),
    },
    Api {
        name: "cluster.delete_component_template",
        methods: DELETE,
        paths: &["/_component_template/{name}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(template::delete(call, template::Kind::Component)),
    },
    Api {
        name: "ingest.put_pipeline",
        methods: PUT,
        paths: &["/_ingest/pipeline/{id}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(pipeline::put(call)),
    },
    Api {
        name: "ingest.get_pipeline",
        methods: GET,
        paths: &["/_ingest/pipeline", "/_ingest/pipeline/{id}"],
        action: Action::Monitor,
        takes: &[&["summary"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(pipeline::get(call)),
    },
    Api {
        name: "ingest.delete_pipeline",
        methods: DELETE,
        paths: &["/_ingest/pipeline/{id}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(pipeline::delete(call)),
    },
    Api {
        name: "ingest.simulate",
        methods: GET_OR_POST,
        paths: &["/_ingest/pipeline/_simulate", "/_ingest/pipeline/{id}/_simulate"],
        action: Action::Monitor,
        takes: &[&["verbose"]],
        ignores: &[],
        answer: |call| Box::pin(pipeline::simulate(call)),
    },
    Api {
        name: "simulate.ingest",
        methods: GET_OR_POST,
        paths: &["/_ingest/_simulate", "/_ingest/{index}/_simulate"],
        action: Action::Monitor,
        takes: &[&["pipeline"]],
        ignores: &[&["merge_type"]],
        answer: |call| Box::pin(pipeline::simulate_ingest(call)),
    },
    Api {
        name: "ingest.processor_grok",
        methods: GET,
        paths: &["/_ingest/processor/grok"],
        action: Action::Monitor,
        takes: &[&["ecs_compatibility", "s"]],
        ignores: &[],
        answer: |call| Box::pin(pipeline::grok_patterns(call)),
    },
    Api {
        name: "ingest.geo_ip_stats",
        methods: GET,
        paths: &["/_ingest/geoip/stats"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(pipeline::geoip_stats(call)),
    },
    Api {
        name: "indices.create_data_stream",
        methods: PUT,
        paths: &["/_data_stream/{name}"],
        action: Action::CreateIndex,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(data_stream::create(call)),
    },
    Api {
        name: "indices.get_data_stream",
        methods: GET,
        paths: &["/_data_stream", "/_data_stream/{name}"],
        action: Action::ViewIndex,
        takes: &[&["expand_wildcards"]],
        ignores: &[CLUSTER, &["include_defaults", "verbose"]],
        answer: |call| Box::pin(data_stream::get(call)),
    },
    Api {
        name: "indices.data_streams_stats",
        methods: GET,
        paths: &["/_data_stream/_stats", "/_data_stream/{name}/_stats"],
        action: Action::ViewIndex,
        takes: &[&["expand_wildcards"]],
        ignores: &[],
        answer: |call| Box::pin(data_stream::stats(call)),
    },
    Api {
        name: "indices.delete_data_stream",
        methods: DELETE,
        paths: &["/_data_stream/{name}"],
        action: Action::DeleteIndex,
        takes: &[&["expand_wildcards"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(data_stream::delete(call)),
    },
    Api {
        name: "indices.put_data_lifecycle",
        methods: PUT,
        paths: &["/_data_stream/{name}/_lifecycle"],
        action: Action::Manage,
        takes: &[&["expand_wildcards"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(lifecycle::put(call)),
    },
    Api {
        name: "indices.get_data_lifecycle",
        methods: GET,
        paths: &["/_data_stream/{name}/_lifecycle"],
        action: Action::ViewIndex,
        takes: &[&["expand_wildcards"]],
        ignores: &[CLUSTER, &["include_defaults"]],
        answer: |call| Box::pin(lifecycle::get(call)),
    },
    Api {
        name: "indices.delete_data_lifecycle",
        methods: DELETE,
        paths: &["/_data_stream/{name}/_lifecycle"],
        action: Action::Manage,
        takes: &[&["expand_wildcards"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(lifecycle::delete(call)),
    },
    Api {
        name: "indices.explain_data_lifecycle",
        methods: GET,
        paths: &["/{index}/_lifecycle/explain"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[CLUSTER, &["include_defaults"]],
        answer: |call| Box::pin(lifecycle::explain(call)),
    },
    Api {
        name: "indices.get_data_stream_settings",
        methods: GET,
        paths: &["/_data_stream/{name}/_settings"],
        action: Action::ViewIndex,
        takes: &[&["expand_wildcards"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(stream_settings::get(call, stream_settings::Part::Settings)),
    },
    Api {
        name: "indices.put_data_stream_settings",
        methods: PUT,
        paths: &["/_data_stream/{name}/_settings"],
        action: Action::Manage,
        takes: &[&["dry_run", "expand_wildcards"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(stream_settings::put(call, stream_settings::Part::Settings)),
    },
    Api {
        name: "indices.get_data_stream_mappings",
        methods: GET,
        paths: &["/_data_stream/{name}/_mappings"],
        action: Action::ViewIndex,
        takes: &[&["expand_wildcards"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(stream_settings::get(call, stream_settings::Part::Mappings)),
    },
    Api {
        name: "indices.put_data_stream_mappings",
        methods: PUT,
        paths: &["/_data_stream/{name}/_mappings"],
        action: Action::Manage,
        takes: &[&["dry_run", "expand_wildcards"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(stream_settings::put(call, stream_settings::Part::Mappings)),
    },
    Api {
        name: "indices.get_data_stream_options",
        methods: GET,
        paths: &["/_data_stream/{name}/_options"],
        action: Action::ViewIndex,
        takes: &[&["expand_wildcards"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(stream_settings::options(call)),
    },
    Api {
        name: "indices.put_data_stream_options",
        methods: PUT,
        paths: &["/_data_stream/{name}/_options"],
        action: Action::Manage,
        takes: &[&["expand_wildcards"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(stream_settings::put_options(call)),
    },
    Api {
        name: "indices.delete_data_stream_options",
        methods: DELETE,
        paths: &["/_data_stream/{name}/_options"],
        action: Action::Manage,
        takes: &[&["expand_wildcards"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(stream_settings::put_options(call)),
    },
    Api {
        name: "indices.migrate_to_data_stream",
        methods: POST,
        paths: &["/_data_stream/_migrate/{name}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(data_stream::migrate(call)),
    },
    Api {
        name: "indices.modify_data_stream",
        methods: POST,
        paths: &["/_data_stream/_modify"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(data_stream::modify(call)),
    },
    Api {
        name: "indices.rollover",
        methods: POST,
        paths: &["/{index}/_rollover", "/{index}/_rollover/{new_index}"],
        action: Action::CreateIndex,
        takes: &[&["dry_run"]],
        ignores: &[CLUSTER, &["lazy"]],
        answer: |call| Box::pin(data_stream::rollover(call)),
    },
    Api {
        name: "indices.resolve_index",
        methods: GET_OR_POST,
        paths: &["/_resolve/index/{name}"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[&["mode"]],
        answer: |call| Box::pin(resolve::index(call)),
    },
    Api {
        name: "indices.resolve_cluster",
        methods: GET,
        paths: &["/_resolve/cluster", "/_resolve/cluster/{name}"],
        action: Action::ViewIndex,
        takes: &[INDICES],
        ignores: &[&["timeout"]],
        answer: |call| Box::pin(resolve::cluster(call)),
    },
    Api {
        name: "cat.indices",
        methods: GET,
        paths: &["/_cat/indices", "/_cat/indices/{index}"],
        action: Action::ViewIndex,
        takes: &[TABLE, INDICES, &["health"]],
        ignores: &[CLUSTER, &["include_unloaded_segments", "pri"]],
        answer: |call| Box::pin(cat::indices(call)),
    },
    Api {
        name: "cat.count",
        methods: GET_OR_POST,
        paths: &["/_cat/count", "/_cat/count/{index}"],
        action: Action::ViewIndex,
        takes: &[TABLE, INDICES],
        ignores: &[],
        answer: |call| Box::pin(cat::count(call)),
    },
    Api {
        name: "cat.health",
        methods: GET,
        paths: &["/_cat/health"],
        action: Action::Monitor,
        takes: &[TABLE, &["ts"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cat::health(call)),
    },
    Api {
        name: "cat.aliases",
        methods: GET,
        paths: &["/_cat/aliases", "/_cat/aliases/{name}"],
        action: Action::ViewIndex,
        takes: &[TABLE, &["expand_wildcards"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cat::aliases(call)),
    },
    Api {
        name: "cat.repositories",
        methods: GET,
        paths: &["/_cat/repositories"],
        action: Action::Monitor,
        takes: &[TABLE],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cat::repositories(call)),
    },
    Api {
        name: "cat.snapshots",
        methods: GET,
        paths: &["/_cat/snapshots", "/_cat/snapshots/{repository}"],
        action: Action::Monitor,
        takes: &[TABLE, &["ignore_unavailable"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cat::snapshots(call)),
    },
    Api {
        name: "cat.templates",
        methods: GET,
        paths: &["/_cat/templates", "/_cat/templates/{name}"],
        action: Action::Monitor,
        takes: &[TABLE],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cat::templates(call)),
    },
    Api {
        name: "cat.component_templates",
        methods: GET,
        paths: &["/_cat/component_templates", "/_cat/component_templates/{name}"],
        action: Action::Monitor,
        takes: &[TABLE],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cat::component_templates(call)),
    },
    Api {
        name: "cat.help",
        methods: GET,
        paths: &["/_cat"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(cat::help(call)),
    },
    Api {
        name: "cat.nodes",
        methods: GET,
        paths: &["/_cat/nodes"],
        action: Action::Monitor,
        takes: &[TABLE],
        ignores: &[CLUSTER, &["full_id", "include_unloaded_segments"]],
        answer: |call| Box::pin(cat::nodes(call)),
    },
    Api {
        name: "cat.allocation",
        methods: GET,
        paths: &["/_cat/allocation", "/_cat/allocation/{node_id}"],
        action: Action::Monitor,
        takes: &[TABLE],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cat::node::allocation(call)),
    },
    Api {
        name: "cat.master",
        methods: GET,
        paths: &["/_cat/cluster_manager", "/_cat/master"],
        action: Action::Monitor,
        takes: &[TABLE],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cat::node::master(call)),
    },
    Api {
        name: "cat.thread_pool",
        methods: GET,
        paths: &["/_cat/thread_pool", "/_cat/thread_pool/{thread_pool_patterns}"],
        action: Action::Monitor,
        takes: &[TABLE],
        ignores: &[CLUSTER, &["size"]],
        answer: |call| Box::pin(cat::node::thread_pool(call)),
    },
    Api {
        name: "cat.nodeattrs",
        methods: GET,
        paths: &["/_cat/nodeattrs"],
        action: Action::Monitor,
        takes: &[TABLE],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cat::node::attributes(call)),
    },
    Api {
        name: "cat.plugins",
        methods: GET,
        paths: &["/_cat/plugins"],
        action: Action::Monitor,
        takes: &[TABLE],
        ignores: &[CLUSTER, &["include_bootstrap"]],
        answer: |call| Box::pin(cat::node::plugins(call)),
    },
    Api {
        name: "cat.fielddata",
        methods: GET,
        paths: &["/_cat/fielddata", "/_cat/fielddata/{fields}"],
        action: Action::Monitor,
        takes: &[TABLE],
        ignores: &[CLUSTER, &["fields"]],
        answer: |call| Box::pin(cat::node::field_data(call)),
    },
    Api {
        name: "cat.shards",
        methods: GET,
        paths: &["/_cat/shards", "/_cat/shards/{index}"],
        action: Action::ViewIndex,
        takes: &[TABLE, INDICES],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cat::shards(call)),
    },
    Api {
        name: "cat.segments",
        methods: GET,
        paths: &["/_cat/segments", "/_cat/segments/{index}"],
        action: Action::ViewIndex,
        takes: &[TABLE, INDICES],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cat::segments(call)),
    },
    Api {
        name: "cat.recovery",
        methods: GET,
        paths: &["/_cat/recovery", "/_cat/recovery/{index}"],
        action: Action::ViewIndex,
        takes: &[TABLE, INDICES],
        ignores: &[CLUSTER, &["active_only", "detailed"]],
        answer: |call| Box::pin(cat::node::recovery(call)),
    },
    Api {
        name: "cat.tasks",
        methods: GET,
        paths: &["/_cat/tasks"],
        action: Action::Monitor,
        takes: &[TABLE, &["detailed"]],
        ignores: &[CLUSTER, &["actions", "nodes", "parent_task_id"]],
        answer: |call| Box::pin(cat::tasks(call)),
    },
    Api {
        name: "cat.pending_tasks",
        methods: GET,
        paths: &["/_cat/pending_tasks"],
        action: Action::Monitor,
        takes: &[TABLE],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cat::pending_tasks(call)),
    },
    Api {
        name: "cluster.health",
        methods: GET,
        paths: &["/_cluster/health", "/_cluster/health/{index}"],
        action: Action::Monitor,
        takes: &[INDICES, &["level", "timeout", "wait_for_active_shards", "wait_for_nodes"]],
        ignores: &[&["cluster_manager_timeout", "local", "master_timeout"], cluster::WAITS],
        answer: |call| Box::pin(cluster::health(call)),
    },
    Api {
        name: "cluster.state",
        methods: GET,
        paths: &["/_cluster/state", "/_cluster/state/{metric}", "/_cluster/state/{metric}/{index}"],
        action: Action::Monitor,
        takes: &[INDICES],
        ignores: &[CLUSTER, &["flat_settings", "wait_for_metadata_version", "wait_for_timeout"]],
        answer: |call| Box::pin(cluster::state(call)),
    },
    Api {
        name: "cluster.stats",
        methods: GET,
        paths: &["/_cluster/stats"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER, &["include_remotes"]],
        answer: |call| Box::pin(cluster::stats(call)),
    },
    Api {
        name: "cluster.pending_tasks",
        methods: GET,
        paths: &["/_cluster/pending_tasks"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cluster::pending_tasks(call)),
    },
    Api {
        name: "cluster.allocation_explain",
        methods: GET_OR_POST,
        paths: &["/_cluster/allocation/explain"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER, &["include_disk_info", "include_yes_decisions"]],
        answer: |call| Box::pin(shards::explain(call)),
    },
    Api {
        name: "cluster.reroute",
        methods: POST,
        paths: &["/_cluster/reroute"],
        action: Action::Manage,
        takes: &[&["explain", "metric"]],
        ignores: &[CLUSTER, &["dry_run", "retry_failed"]],
        answer: |call| Box::pin(shards::reroute(call)),
    },
    Api {
        name: "cluster.remote_info",
        methods: GET,
        paths: &["/_remote/info"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(shards::remotes(call)),
    },
    Api {
        name: "cluster.get_settings",
        methods: GET,
        paths: &["/_cluster/settings"],
        action: Action::Monitor,
        takes: &[&["flat_settings", "include_defaults"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cluster::settings(call)),
    },
    Api {
        name: "cluster.put_settings",
        methods: PUT,
        paths: &["/_cluster/settings"],
        action: Action::Manage,
        takes: &[&["flat_settings"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cluster::put_settings(call)),
    },
    Api {
        name: "nodes.hot_threads",
        methods: GET,
        paths: &["/_nodes/hot_threads", "/_nodes/{node_id}/hot_threads"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER, &["ignore_idle_threads", "interval", "snapshots", "sort", "threads", "type"]],
        answer: |call| Box::pin(cluster::hot_threads(call)),
    },
    Api {
        name: "nodes.info",
        methods: GET,
        paths: &["/_nodes", "/_nodes/{node_id}", "/_nodes/{node_id}/{metric}"],
        action: Action::Monitor,
        takes: &[&["flat_settings"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(cluster::nodes(call)),
    },
    Api {
        name: "nodes.stats",
        methods: GET,
        paths: &[
            "/_nodes/stats",
            "/_nodes/stats/{metric}",
            "/_nodes/stats/{metric}/{index_metric}",
            "/_nodes/{node_id}/stats",
            "/_nodes/{node_id}/stats/{metric}",
            "/_nodes/{node_id}/stats/{metric}/{index_metric}",
        ],
        action: Action::Monitor,
        takes: &[stats::DETAILS, &["level"]],
        ignores: &[CLUSTER, stats::DETAILS_IGNORED, &["types"]],
        answer: |call| Box::pin(cluster::node_stats(call)),
    },
    Api {
        name: "tasks.list",
        methods: GET,
        paths: &["/_tasks"],
        action: Action::Monitor,
        takes: &[&["actions", "group_by", "nodes"]],
        ignores: &[CLUSTER, &["detailed", "parent_task_id", "wait_for_completion"]],
        answer: |call| Box::pin(tasks::list(call)),
    },
    Api {
        name: "tasks.get",
        methods: GET,
        paths: &["/_tasks/{task_id}"],
        action: Action::Monitor,
        takes: &[&["timeout", "wait_for_completion"]],
        ignores: &[],
        answer: |call| Box::pin(tasks::get(call)),
    },
    Api {
        name: "tasks.cancel",
        methods: POST,
        paths: &["/_tasks/_cancel"],
        action: Action::Manage,
        takes: &[&["actions", "group_by", "nodes"]],
        ignores: &[&["parent_task_id", "wait_for_completion"]],
        answer: |call| Box::pin(tasks::cancel(call)),
    },
    Api {
        name: "tasks.cancel",
        methods: POST,
        paths: &["/_tasks/{task_id}/_cancel"],
        action: Action::Manage,
        takes: &[&["group_by"]],
        ignores: &[&["wait_for_completion"]],
        answer: |call| Box::pin(tasks::cancel_one(call)),
    },
    Api {
        name: "ilm.put_lifecycle",
        methods: PUT,
        paths: &["/_ilm/policy/{policy}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(ilm::put(call)),
    },
    Api {
        name: "ilm.get_lifecycle",
        methods: GET,
        paths: &["/_ilm/policy", "/_ilm/policy/{policy}"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(ilm::get(call)),
    },
    Api {
        name: "ilm.delete_lifecycle",
        methods: DELETE,
        paths: &["/_ilm/policy/{policy}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(ilm::delete(call)),
    },
    Api {
        name: "ilm.get_status",
        methods: GET,
        paths: &["/_ilm/status"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(ilm::status(call)),
    },
    Api {
        name: "ilm.explain_lifecycle",
        methods: GET,
        paths: &["/{index}/_ilm/explain"],
        action: Action::ViewIndex,
        takes: &[INDICES, &["only_errors", "only_managed"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(ilm::explain(call)),
    },
    Api {
        name: "snapshot.get_repository",
        methods: GET,
        paths: &["/_snapshot", "/_snapshot/{repository}"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(snapshot::get_repository(call)),
    },
    Api {
        name: "snapshot.create_repository",
        methods: POST_OR_PUT,
        paths: &["/_snapshot/{repository}"],
        action: Action::Manage,
        takes: &[&["verify"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(snapshot::create_repository(call)),
    },
    Api {
        name: "snapshot.delete_repository",
        methods: DELETE,
        paths: &["/_snapshot/{repository}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(snapshot::delete_repository(call)),
    },
    Api {
        name: "snapshot.verify_repository",
        methods: POST,
        paths: &["/_snapshot/{repository}/_verify"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(snapshot::verify(call)),
    },
    Api {
        name: "snapshot.cleanup_repository",
        methods: POST,
        paths: &["/_snapshot/{repository}/_cleanup"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(snapshot::cleanup(call)),
    },
    Api {
        name: "snapshot.status",
        methods: GET,
        paths: &[
            "/_snapshot/_status",
            "/_snapshot/{repository}/_status",
            "/_snapshot/{repository}/{snapshot}/_status",
        ],
        action: Action::Monitor,
        takes: &[&["ignore_unavailable"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(snapshot::status(call)),
    },
    Api {
        name: "snapshot.get",
        methods: GET,
        paths: &["/_snapshot/{repository}/{snapshot}"],
        action: Action::Monitor,
        takes: &[snapshot::GET],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(snapshot::get(call)),
    },
    Api {
        name: "snapshot.create",
        methods: POST_OR_PUT,
        paths: &["/_snapshot/{repository}/{snapshot}"],
        action: Action::Manage,
        takes: &[&["wait_for_completion"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(snapshot::create(call)),
    },
    Api {
        name: "snapshot.delete",
        methods: DELETE,
        paths: &["/_snapshot/{repository}/{snapshot}"],
        action: Action::Manage,
        takes: &[&["ignore_unavailable"]],
        ignores: &[CLUSTER, &["wait_for_completion"]],
        answer: |call| Box::pin(snapshot::delete(call)),
    },
    Api {
        name: "snapshot.restore",
        methods: POST,
        paths: &["/_snapshot/{repository}/{snapshot}/_restore"],
        action: Action::Manage,
        takes: &[&["wait_for_completion"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(snapshot::restore(call)),
    },
    Api {
        name: "searchable_snapshots.mount",
        methods: POST,
        paths: &["/_snapshot/{repository}/{snapshot}/_mount"],
        action: Action::Manage,
        takes: &[&["storage", "wait_for_completion"]],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(snapshot::mount(call)),
    },
    Api {
        name: "searchable_snapshots.stats",
        methods: GET,
        paths: &["/_searchable_snapshots/stats", "/{index}/_searchable_snapshots/stats"],
        action: Action::Monitor,
        takes: &[INDICES],
        ignores: &[CLUSTER, &["level"]],
        answer: |call| Box::pin(snapshot::stats(call)),
    },
    Api {
        name: "searchable_snapshots.cache_stats",
        methods: GET,
        paths: &["/_searchable_snapshots/cache/stats"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(shared_cache::stats(call)),
    },
    Api {
        name: "searchable_snapshots.clear_cache",
        methods: POST,
        paths: &["/_searchable_snapshots/cache/clear"],
        action: Action::Manage,
        takes: &[],
        ignores: &[CLUSTER],
        answer: |call| Box::pin(shared_cache::clear(call)),
    },
    Api {
        name: "security.authenticate",
        methods: GET,
        paths: &["/_security/_authenticate"],
        action: Action::Monitor,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(security::authenticate(call)),
    },
    Api {
        name: "security.create_api_key",
        methods: POST_OR_PUT,
        paths: &["/_security/api_key"],
        action: Action::Manage,
        takes: &[],
        ignores: &[&["refresh"]],
        answer: |call| Box::pin(security::create_key(call)),
    },
    Api {
        name: "security.get_api_key",
        methods: GET,
        paths: &["/_security/api_key"],
        action: Action::Manage,
        takes: &[&["active_only", "id", "name", "owner", "username"]],
        ignores: &[&["realm_name", "with_limited_by", "with_profile_uid"]],
        answer: |call| Box::pin(security::get_keys(call)),
    },
    Api {
        name: "security.invalidate_api_key",
        methods: DELETE,
        paths: &["/_security/api_key"],
        action: Action::Manage,
        takes: &[],
        ignores: &[],
        answer: |call| Box::pin(security::invalidate_keys(call)),
    },
    Api {
        name: "security.put_user",
        methods: POST_OR_PUT,
        paths: &["/_security/user/{username}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[&["refresh"]],
        answer: |call| Box::pin(security::put_user(call)),
    },
    Api {
        name: "security.get_user",
        methods: GET,
        paths: &["/_security/user", "/_security/user/{username}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[&["with_profile_uid"]],
        answer: |call| Box::pin(security::get_users(call)),
    },
    Api {
        name: "security.delete_user",
        methods: DELETE,
        paths: &["/_security/user/{username}"],
        action: Action::Manage,
        takes: &[],
        ignores: &[&["refresh"]],
        answer: |call| Box::pin(security::delete_user(call)),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(method: &Method, path: &str) -> std::result::Result<(&'static str, Captures), ApiError> {
        match route(method, path)? {
            Routed::Api(api, captures) => Ok((api.name, captures)),
            Routed::Options(allowed) => panic!("{allowed}"),
        }
    }

    #[test]
    fn a_path_is_the_api_that_it_spells_out() {
        let name = |method: Method, path: &str| routed(&method, path).unwrap().0;
        assert_eq!(name(Method::GET, "/"), "info");
        assert_eq!(name(Method::HEAD, "/"), "info");
        assert_eq!(name(Method::GET, "/_search"), "search");
        assert_eq!(name(Method::POST, "/web-*,app/_search/"), "search");
        assert_eq!(name(Method::POST, "/_all/_search"), "search");
        assert_eq!(name(Method::DELETE, "/_search/scroll"), "clear_scroll");
        assert_eq!(name(Method::HEAD, "/web"), "indices.exists");
        assert_eq!(name(Method::GET, "/health"), "health");
        assert_eq!(name(Method::GET, "/web"), "indices.get");
        assert_eq!(name(Method::GET, "/_nodes/_all/http"), "nodes.info");
        let (_, captures) = routed(&Method::GET, "/%3Clogs-%7Bnow%2Fd%7D%3E/_search").unwrap();
        assert_eq!(captures.get("index"), Some("<logs-{now/d}>"));
    }

    #[test]
    fn what_is_no_api_is_refused_with_what_is_allowed() {
        let error = |method: Method, path: &str| routed(&method, path).unwrap_err();
        let unknown = error(Method::GET, "/_serach");
        assert_eq!(unknown.status, StatusCode::BAD_REQUEST);
        assert_eq!(unknown.reason, "no handler found for uri [/_serach] and method [GET]");
        for (path, instead) in [
            ("/_slm/policy/nightly", "`frostline snapshot create`"),
            ("/_plugins/_ism/policies/logs", "`frostline index retain`"),
            ("/_watcher/watch/errors", "no alerts"),
            ("/web/_eql/search", "query strings and SQL"),
            ("/_security/role/reader", "`role_descriptors`"),
            ("/_security/user/_has_privileges", "`role_descriptors`"),
            ("/_security/_query/api_key", "`role_descriptors`"),
            ("/web/_shrink/small", "no shards"),
        ] {
            let reason = error(Method::PUT, path).reason;
            assert!(reason.starts_with("no handler found for uri") && reason.contains(instead), "{reason}");
        }
        let wrong = error(Method::DELETE, "/web/_search");
        assert_eq!(wrong.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(wrong.allow.as_deref(), Some("GET,HEAD,POST"));
        assert_eq!(error(Method::POST, "/web").allow.as_deref(), Some("DELETE,GET,HEAD,PUT"));
        assert_eq!(error(Method::GET, "/%ff").status, StatusCode::BAD_REQUEST);
        assert!(matches!(
            route(&Method::OPTIONS, "/_search"),
            Ok(Routed::Options(allowed)) if allowed == "GET,HEAD,POST"
        ));
    }

    #[test]
    fn no_two_apis_answer_the_same_request() {
        let mut all: Vec<(&Method, String)> = APIS
            .iter()
            .flat_map(|api| {
                api.methods.iter().flat_map(|method| api.paths.iter().map(move |path| (method, *path)))
            })
            .map(|(method, path)| {
                let shape = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
                (method, shape.collect::<Vec<_>>().join("/"))
            })
            .collect();
        let count = all.len();
        all.sort_by(|a, b| (a.0.as_str(), &a.1).cmp(&(b.0.as_str(), &b.1)));
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn the_documentation_lists_every_api() {
        let documented = include_str!("../../../docs/server.md");
        let lines: Vec<String> = APIS
            .iter()
            .map(|api| {
                let methods: Vec<&str> = api.methods.iter().map(Method::as_str).collect();
                let paths: Vec<String> = api.paths.iter().map(|path| format!("`{path}`")).collect();
                format!("| {} | {} | {} |", api.name, methods.join(", "), paths.join(" "))
            })
            .collect();
        let table = lines.join("\n");
        assert!(documented.contains(&format!("|---|---|---|\n{table}\n\n")), "the table is\n{table}");
    }

    #[test]
    fn no_api_both_takes_and_ignores_a_parameter() {
        for api in APIS {
            let takes: Vec<&str> = api.takes.iter().flat_map(|some| some.iter().copied()).collect();
            let both = api.ignores.iter().flat_map(|some| some.iter()).find(|name| takes.contains(name));
            assert_eq!(both, None, "{}", api.name);
        }
    }
}
