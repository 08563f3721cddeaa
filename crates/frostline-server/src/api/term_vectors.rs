//! `_termvectors` and `_mtermvectors`: the terms by which the texts of a document are found, and where in them they are.
//!
//! Statistics are exact: they are counted by reading all documents, and left out of an index that has more than
//! [`COUNTED_MAX`] of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use frostline_base::{IndexName, wildcard_matches};
use frostline_catalog::Index;
use frostline_query::Json;
use frostline_split::{FieldType, Mapping, Placed};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::analyze::Analyzer;
use crate::api::document::{self, check_version, invalid_request, wanted_version};
use crate::api::indices::{self, Filters};
use crate::api::lookup::collect;
use crate::api::search::{self, Manner};
use crate::error::{ApiError, Result};
use crate::params::Params;
use crate::slow::Searched;
use crate::state::{Call, only, only_in};

/// What of the terms is wanted.
pub(crate) const PARAMETERS: &[&str] =
    &["field_statistics", "fields", "offsets", "positions", "term_statistics"];
/// There is nothing beside the tokens.
pub(crate) const IGNORED: &[&str] = &["payloads", "preference", "realtime", "routing"];

/// The same in a body, with the document.
const MEMBERS: [&str; 12] = [
    "doc",
    "field_statistics",
    "fields",
    "filter",
    "offsets",
    "payloads",
    "per_field_analyzer",
    "positions",
    "routing",
    "term_statistics",
    "version",
    "version_type",
];

/// The most tokens of a field of a document.
const TOKENS_MAX: usize = 100_000;
/// The most documents of one request.
const DOCUMENTS_MAX: usize = 1_000;
/// Statistics are those of indices of at most so many documents.
const COUNTED_MAX: u64 = 1_000;

/// `GET /{index}/_termvectors/{id}`.
pub(crate) async fn one(call: Call) -> Result<Answer> {
    let mut body = call.object()?;
    only(&body, &MEMBERS)?;
    body.extend(said(&call.params));
    let of = match (call.part("id"), body.remove("doc")) {
        (Some(_), Some(_)) => return Err(invalid_request("only one of id and doc can be given")),
        (Some(id), None) => Of::Stored(id.to_owned()),
        (None, doc) => Of::given(doc)?,
    };
    let wanted = Wanted::read(&body)?;
    let mut asked = Asked::new(&call);
    let shown = asked.shown(call.index(), &of, &wanted).await?;
    asked.answer(&shown)
}

/// `GET /_mtermvectors`.
pub(crate) async fn several(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["docs", "ids", "parameters"])?;
    let mut common = said(&call.params);
    match body.get("parameters") {
        None => {}
        Some(Value::Object(parameters)) => common.extend(parameters.clone()),
        Some(_) => return Err(ApiError::unparsed("[parameters] is an object")),
    }
    let list = |name: &str| match body.get(name) {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items.iter().collect()),
        Some(_) => Err(ApiError::unparsed(format!("[{name}] is a list"))),
    };
    let mut all = Vec::new();
    let in_url = call.params.list("ids").unwrap_or_default().into_iter().map(|id| json!(id));
    for id in list("ids")?.into_iter().cloned().chain(in_url) {
        all.push((call.part("index"), Map::from_iter([("_id".to_owned(), id)])));
    }
    for document in list("docs")? {
        let Value::Object(members) = document else { return Err(ApiError::unparsed("[docs] holds objects")) };
        only_in("docs", members, &[&["_id", "_index"], &MEMBERS[..]].concat())?;
        let index = members.get("_index").and_then(Value::as_str).or(call.part("index"));
        all.push((index, members.clone()));
    }
    if all.is_empty() || all.len() > DOCUMENTS_MAX {
        return Err(invalid_request(&format!("1 to {DOCUMENTS_MAX} documents can be requested at once")));
    }
    let mut asked = Asked::new(&call);
    let mut documents = Vec::with_capacity(all.len());
    for (index, members) in all {
        let index = index.ok_or_else(|| invalid_request("index is missing"))?;
        let mut body = common.clone();
        body.extend(members);
        let id = match body.remove("_id") {
            Some(Value::String(id)) => Some(id),
            Some(Value::Number(id)) => Some(id.to_string()),
            _ => None,
        };
        let of = match (id, body.remove("doc")) {
            (Some(id), _) => Of::Stored(id),
            (None, doc) => Of::given(doc)?,
        };
        let wanted = Wanted::read(&body)?;
        documents.push(match asked.shown(index, &of, &wanted).await {
            Err(error) if error.status.is_client_error() && error.status.as_u16() != 429 => {
                json!({ "_index": index, "_id": of.id(), "error": error.to_json() })
            }
            shown => shown?,
        });
    }
    asked.answer(&json!({ "docs": documents }))
}

/// What the URL says, as a body would say it.
fn said(params: &Params) -> Map<String, Value> {
    let names = PARAMETERS.iter().chain(document::VERSION).filter(|name| **name != "fields");
    let mut said: Map<String, Value> =
        names.filter_map(|name| Some(((*name).to_owned(), params.scalar(name)?))).collect();
    if let Some(fields) = params.list("fields") {
        said.insert("fields".to_owned(), json!(fields));
    }
    said
}

/// The document whose terms are wanted.
enum Of {
    Stored(String),
    /// The document itself.
    Given(Json),
}

impl Of {
    fn given(doc: Option<Value>) -> Result<Of> {
        match doc {
            Some(Value::Object(doc)) => Ok(Of::Given(Json::of(&Value::Object(doc)))),
            Some(_) => Err(ApiError::unparsed("[doc] is an object")),
            None => Err(invalid_request("id or doc is missing")),
        }
    }

    fn id(&self) -> Option<&str> {
        match self {
            Of::Stored(id) => Some(id),
            Of::Given(_) => None,
        }
    }
}

/// What is wanted of a document.
struct Wanted {
    /// Names, which may have wildcards; none for all text.
    fields: Option<Vec<String>>,
    offsets: bool,
    positions: bool,
    /// None where nothing is said of it.
    field_statistics: Option<bool>,
    term_statistics: Option<bool>,
    /// The names of analyzers, by the names of fields.
    analyzers: BTreeMap<String, String>,
    version: Option<i64>,
}

impl Wanted {
    fn read(body: &Map<String, Value>) -> Result<Wanted> {
        let flag = |name: &str| match body.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(ApiError::unparsed(format!("[{name}] is true or false, not {other}"))),
        };
        if body.get("filter").and_then(Value::as_object).is_some_and(|filter| !filter.is_empty()) {
            return Err(ApiError::unsupported(
                "[filter] chooses terms by their scores, which there are none of: choose among the terms of the answer",
            ));
        }
        let wrong = || ApiError::unparsed("[fields] is a list of names, which may have wildcards");
        let fields = match body.get("fields") {
            None | Some(Value::Null) => None,
            Some(Value::String(names)) => Some(names.split(',').map(|name| name.trim().to_owned()).collect()),
            Some(Value::Array(names)) => {
                let names = names.iter().map(|name| name.as_str().map(str::to_owned));
                Some(names.collect::<Option<Vec<_>>>().ok_or_else(wrong)?)
            }
            Some(_) => return Err(wrong()),
        };
        let mut analyzers = BTreeMap::new();
        match body.get("per_field_analyzer") {
            None | Some(Value::Null) => {}
            Some(Value::Object(given)) => {
                for (name, analyzer) in given {
                    analyzers.insert(name.clone(), analyzer.as_str().unwrap_or_default().to_owned());
                }
            }
            Some(_) => return Err(ApiError::unparsed("[per_field_analyzer] is an object")),
        }
        Ok(Wanted {
            fields,
            offsets: flag("offsets")?.unwrap_or(true),
            positions: flag("positions")?.unwrap_or(true),
            field_statistics: flag("field_statistics")?,
            term_statistics: flag("term_statistics")?,
            analyzers,
            version: wanted_version(|name| body.get(name).cloned())?,
        })
    }

    fn counts_fields(&self) -> bool {
        self.field_statistics.unwrap_or(true)
    }

    fn counts_terms(&self) -> bool {
        self.term_statistics.unwrap_or(false)
    }

    /// The names of the fields of a document that are wanted, and how each is analyzed.
    fn named(&self, mapping: &Mapping, document: &Json, is_given: bool) -> Result<Vec<(String, Analyzer)>> {
        let mut paths = BTreeSet::new();
        text_paths(document, &mut String::new(), &mut paths);
        let with_analyzer = |name: String| {
            let known = Analyzer::of_name(mapping, &name)?;
            let given = self.analyzers.get(&name).map(|given| Analyzer::named(given, mapping.definitions()));
            Some(given.unwrap_or(Ok(known)).map(|analyzer| (name, analyzer)))
        };
        let Some(patterns) = &self.fields else {
            // As in Elasticsearch, of a document that is given all that is of text and keywords.
            let is_meant = |name: &String| {
                let ty = mapping.type_of(name);
                is_given || matches!(ty, None | Some(FieldType::Text | FieldType::MatchOnlyText))
            };
            return paths.into_iter().filter(is_meant).filter_map(with_analyzer).collect();
        };
        let spelled = patterns.iter().filter(|pattern| !pattern.contains('*')).cloned();
        let fits = |path: &String| patterns.iter().any(|pattern| wildcard_matches(pattern, path));
        let names: BTreeSet<String> = paths.into_iter().filter(fits).chain(spelled).collect();
        names.into_iter().filter_map(with_analyzer).collect()
    }
}

/// The paths of texts in a document.
fn text_paths(json: &Json, path: &mut String, paths: &mut BTreeSet<String>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| text_paths(item, path, paths)),
        Json::Object(members) => {
            for (name, json) in members {
                let above = path.len();
                if above > 0 {
                    path.push('.');
                }
                path.push_str(name);
                text_paths(json, path, paths);
                path.truncate(above);
            }
        }
        scalar if scalar.as_text().is_some() => drop(paths.insert(path.clone())),
        Json::Scalar(_) => {}
    }
}

/// What a name means in a document, as tokens.
fn tokens(mapping: &Mapping, name: &str, analyzer: &Analyzer, document: &Json) -> Result<Vec<Placed>> {
    let resolved = mapping.resolve(name);
    let mut values = Vec::new();
    match resolved.paths.as_slice() {
        [] => collect(document, name, &mut values),
        paths => paths.iter().for_each(|(path, _)| collect(document, path, &mut values)),
    }
    let texts: Vec<String> =
        values.iter().map(|value| value.as_text().unwrap_or_else(|| value.to_value().to_string())).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    analyzer.tokens(&texts, TOKENS_MAX).ok_or_else(|| {
        ApiError::invalid(format!(
            "the field [{name}] has more than {TOKENS_MAX} tokens: name other [fields]"
        ))
    })
}

/// What all documents of an index have in a field.
#[derive(Default)]
struct Statistics {
    documents: u64,
    document_terms: u64,
    tokens: u64,
    /// In how many documents each term is, and how often.
    terms: BTreeMap<String, (u64, u64)>,
}

impl Statistics {
    fn of(mapping: &Mapping, name: &str, analyzer: &Analyzer, documents: &[Json]) -> Result<Statistics> {
        let mut statistics = Statistics::default();
        for document in documents {
            let tokens = tokens(mapping, name, analyzer, document)?;
            statistics.documents += u64::from(!tokens.is_empty());
            statistics.tokens += tokens.len() as u64;
            let mut of_document: BTreeMap<String, u64> = BTreeMap::new();
            for token in tokens {
                *of_document.entry(token.text).or_default() += 1;
            }
            statistics.document_terms += of_document.len() as u64;
            for (term, count) in of_document {
                let (documents, tokens) = statistics.terms.entry(term).or_default();
                (*documents, *tokens) = (*documents + 1, *tokens + count);
            }
        }
        Ok(statistics)
    }
}

/// An index, and its documents if they are counted.
struct Counted {
    index: Arc<Index>,
    /// None if there are too many.
    documents: Option<Vec<Json>>,
    fields: BTreeMap<(String, String), Statistics>,
}

/// A request, and what it has read.
struct Asked<'a> {
    call: &'a Call,
    begun: Instant,
    indices: BTreeMap<IndexName, Counted>,
    searched: Searched,
    warnings: BTreeSet<String>,
}

impl Asked<'_> {
    fn new(call: &Call) -> Asked<'_> {
        let (indices, warnings) = (BTreeMap::new(), BTreeSet::new());
        Asked { call, begun: Instant::now(), indices, searched: Searched::default(), warnings }
    }

    fn answer(self, answer: &Value) -> Result<Answer> {
        Ok(Answer::json(answer)?.that_searched(self.searched).with_warnings(self.warnings))
    }

    /// What is answered of a document.
    async fn shown(&mut self, index: &str, of: &Of, wanted: &Wanted) -> Result<Value> {
        let (state, scope) = (&self.call.state, &self.call.client.scope);
        let holder = document::holder(self.call, index).await?;
        let (document, version) = match of {
            Of::Given(document) => (Some(document.clone()), 0),
            Of::Stored(id) => {
                let mut stored =
                    document::stored(state, scope, &holder, std::slice::from_ref(id), true).await?;
                match stored.remove(id).transpose()? {
                    None => (None, 0),
                    Some(stored) => {
                        wanted.version.map_or(Ok(()), |version| check_version(&stored, version))?;
                        let damaged =
                            |e| frostline_base::Error::corrupt("a stored document is no JSON").with_source(e);
                        // Its index may show nothing of it.
                        let text = stored.text.unwrap_or_else(|| Bytes::from_static(b"{}"));
                        let document = serde_json::from_slice(&text).map_err(damaged)?;
                        (Some(document), stored.numbers.version)
                    }
                }
            }
        };
        let mut shown = json!({ "_index": holder, "_version": version, "found": document.is_some() });
        if let Some(id) = of.id() {
            shown["_id"] = json!(id);
        }
        if let Some(document) = document {
            self.open(&holder, wanted.counts_fields() || wanted.counts_terms()).await?;
            let is_given = matches!(of, Of::Given(_));
            shown["term_vectors"] = self.vectors(&holder, &document, wanted, is_given)?;
        }
        shown["took"] = json!(self.begun.elapsed().as_millis() as u64);
        Ok(shown)
    }

    /// Opens an index as it is seen, and reads its documents if they are to be counted.
    async fn open(&mut self, name: &IndexName, counts: bool) -> Result<()> {
        let (state, scope) = (&self.call.state, &self.call.client.scope);
        if !self.indices.contains_key(name) {
            let index = indices::as_seen(state, scope, vec![state.node.index(name).await?])?;
            let Some(index) = index.into_iter().next() else {
                return Err(ApiError::no_such_index(name.as_str()));
            };
            let counted = Counted { index, documents: None, fields: BTreeMap::new() };
            self.indices.insert(name.clone(), counted);
        }
        let Some(counted) = self.indices.get_mut(name) else { return Ok(()) };
        let rows: u64 = counted.index.splits().iter().map(|split| split.rows).sum();
        if !counts || counted.documents.is_some() || rows > COUNTED_MAX {
            return Ok(());
        }
        let body = json!({ "size": COUNTED_MAX, "sort": "_doc" }).to_string();
        let index = vec![Arc::clone(&counted.index)];
        let found = search::run(state, &index, Filters::new(), body.as_bytes(), Manner::default()).await?;
        self.searched = self.searched.and(Searched::from(&found.cost));
        let sources = found.hits.hits.iter().filter_map(|hit| hit.source.as_ref());
        let damaged = |e| frostline_base::Error::corrupt("a stored document is no JSON").with_source(e);
        let documents = sources.map(|source| serde_json::from_str(source.get()).map_err(damaged));
        counted.documents = Some(documents.collect::<std::result::Result<_, _>>()?);
        Ok(())
    }

    /// The terms of the fields of a document.
    fn vectors(
        &mut self,
        name: &IndexName,
        document: &Json,
        wanted: &Wanted,
        is_given: bool,
    ) -> Result<Value> {
        let Some(counted) = self.indices.get_mut(name) else { return Ok(json!({})) };
        let Counted { index, documents, fields } = counted;
        let mapping = index.mapping();
        if documents.is_none() && (wanted.field_statistics == Some(true) || wanted.counts_terms()) {
            self.warnings.insert(format!(
                "statistics of [{name}] are left out: they are counted in indices of at most {COUNTED_MAX} documents"
            ));
        }
        let mut vectors = Map::new();
        for (field, analyzer) in wanted.named(mapping, document, is_given)? {
            let tokens = tokens(mapping, &field, &analyzer, document)?;
            if tokens.is_empty() {
                continue;
            }
            let key = (field.clone(), analyzer.name().to_owned());
            if let Some(documents) = documents.as_deref()
                && !fields.contains_key(&key)
            {
                fields.insert(key.clone(), Statistics::of(mapping, &field, &analyzer, documents)?);
            }
            vectors.insert(field, vector(tokens, fields.get(&key), wanted));
        }
        Ok(Value::Object(vectors))
    }
}

/// The terms of a field, as they are shown.
fn vector(tokens: Vec<Placed>, statistics: Option<&Statistics>, wanted: &Wanted) -> Value {
    let mut terms: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for Placed { text, position, start, end, .. } in tokens {
        let mut place = Map::new();
        if wanted.positions {
            place.insert("position".to_owned(), json!(position));
        }
        if wanted.offsets {
            place.insert("start_offset".to_owned(), json!(start));
            place.insert("end_offset".to_owned(), json!(end));
        }
        terms.entry(text).or_default().push(Value::Object(place));
    }
    let terms = terms.into_iter().map(|(term, places)| {
        let mut shown = Map::new();
        if let Some(statistics) = statistics.filter(|_| wanted.counts_terms()) {
            // A document that is given may have terms that no stored one has.
            let (documents, tokens) = statistics.terms.get(&term).copied().unwrap_or_default();
            shown.insert("doc_freq".to_owned(), json!(documents));
            shown.insert("ttf".to_owned(), json!(tokens));
        }
        shown.insert("term_freq".to_owned(), json!(places.len()));
        if wanted.positions || wanted.offsets {
            shown.insert("tokens".to_owned(), json!(places));
        }
        (term, Value::Object(shown))
    });
    let mut shown = json!({ "terms": terms.collect::<Map<_, _>>() });
    if let Some(statistics) = statistics.filter(|_| wanted.counts_fields()) {
        shown["field_statistics"] = json!({
            "sum_doc_freq": statistics.document_terms, "doc_count": statistics.documents,
            "sum_ttf": statistics.tokens,
        });
    }
    shown
}

#[cfg(test)]
mod tests;
