//! Ingest pipelines: put, shown, deleted, tried.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use frostline_base::wildcard_matches;
use frostline_catalog::{INDEX_SETTINGS, RecordChange, Records};
use frostline_pipeline::{Addresses, Agents, Document, Failure, Outcome, Pipeline, Pipelines, Status, Trace};
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::info::uuid;
use crate::api::settings::IndexSettings;
use crate::error::{ApiError, Result};
use crate::state::{Call, State, only, only_in};

/// The kind of records that pipelines are.
const KIND: &str = "ingest_pipeline";
/// The longest pipeline, which every server holds.
const BYTES_MAX: usize = 1 << 20;
/// The most documents that are tried at once.
const SIMULATED_MAX: usize = 1_000;

/// Pipelines as this server has read them, each with what it was read from.
#[derive(Default)]
pub(crate) struct Compiled {
    read: Mutex<HashMap<String, (Value, Arc<Pipeline>)>>,
    counts: Mutex<BTreeMap<String, Counts>>,
}

/// What a pipeline has done since this server started. What others that it calls do is part of that.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    documents: u64,
    failed: u64,
    /// Documents that it is asked for now.
    now: u64,
    took_us: u64,
}

impl Counts {
    fn shown(self) -> Value {
        json!({
            "count": self.documents, "failed": self.failed, "current": self.now,
            "time_in_millis": self.took_us / 1_000,
        })
    }
}

impl Compiled {
    /// Counts a document that goes through a pipeline, while `run` does what is to be done. Whether that failed is `is_failure`.
    pub(crate) fn counted<T>(&self, id: &str, run: impl FnOnce() -> T, is_failure: impl Fn(&T) -> bool) -> T {
        let change = |change: &dyn Fn(&mut Counts)| {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            match counts.get_mut(id) {
                Some(counts) => change(counts),
                None => change(counts.entry(id.to_owned()).or_default()),
            }
        };
        change(&|counts| counts.now += 1);
        let started = Instant::now();
        let done = run();
        change(&|counts| {
            counts.now -= 1;
            counts.documents += 1;
            counts.failed += u64::from(is_failure(&done));
            counts.took_us += u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        });
        done
    }

    /// What pipelines have done since this server started, as `_nodes/stats` shows it.
    pub(crate) fn stats(&self, records: &Records) -> Value {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let total = counts.values().fold(Counts::default(), |sum, counts| Counts {
            documents: sum.documents + counts.documents,
            failed: sum.failed + counts.failed,
            now: sum.now + counts.now,
            took_us: sum.took_us + counts.took_us,
        });
        let known = records.others(KIND).map(|(id, _)| {
            let mut shown = counts.get(id).copied().unwrap_or_default().shown();
            shown["processors"] = json!([]);
            (id.to_owned(), shown)
        });
        json!({ "total": total.shown(), "pipelines": known.collect::<Map<_, _>>() })
    }

    /// The pipeline of an id; none where there is none.
    pub(crate) fn get(&self, records: &Records, id: &str) -> Result<Option<Arc<Pipeline>>> {
        let Some(json) = records.other(KIND, id) else { return Ok(None) };
        let read = |compiled: &HashMap<String, (Value, Arc<Pipeline>)>| {
            let (from, pipeline) = compiled.get(id)?;
            (from == json).then(|| Arc::clone(pipeline))
        };
        let lock = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipeline) = read(&lock()) {
            return Ok(Some(pipeline));
        }
        let pipeline = Arc::new(parsed(json)?);
        let mut compiled = lock();
        compiled.retain(|id, _| records.other(KIND, id).is_some());
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|id, counts| counts.now > 0 || records.other(KIND, id).is_some());
        compiled.insert(id.to_owned(), (json.clone(), Arc::clone(&pipeline)));
        Ok(Some(pipeline))
    }
}

/// What an error says of the processor that it is about.
const FACTS: [&str; 4] = ["at", "processor_type", "processor_tag", "property_name"];

fn parsed(json: &Value) -> Result<Pipeline> {
    Pipeline::parse(json).map_err(|error| {
        let known = FACTS.into_iter().filter_map(|fact| Some((fact, error.fact(fact)?)));
        let wrong = ApiError::new(StatusCode::BAD_REQUEST, "parse_exception", error.what());
        known.fold(wrong, |wrong, (fact, value)| wrong.about(fact, value))
    })
}

/// `GET /_ingest/processor/grok`: the patterns that `grok` has.
pub(crate) async fn grok_patterns(call: Call) -> Result<Answer> {
    let is_ecs = match call.params.get("ecs_compatibility") {
        None | Some("disabled") => false,
        Some("v1") => true,
        Some(other) => {
            return Err(ApiError::invalid(format!("[ecs_compatibility] is disabled or v1, not [{other}]")));
        }
    };
    let mut patterns: Vec<_> = frostline_pipeline::grok_patterns(is_ecs).collect();
    if call.params.flag("s")?.unwrap_or(false) {
        patterns.sort_unstable();
    }
    let patterns = patterns.into_iter().map(|(name, pattern)| (name.to_owned(), pattern.into()));
    Answer::json(&json!({ "patterns": patterns.collect::<Map<String, Value>>() }))
}

/// `GET /_ingest/geoip/stats`: the databases of this server, which are put here and not downloaded.
pub(crate) async fn geoip_stats(call: Call) -> Result<Answer> {
    let databases: Vec<Value> =
        call.state.lookups.databases().into_iter().map(|name| json!({ "name": name })).collect();
    let count = databases.len();
    Answer::json(&json!({
        "stats": {
            "successful_downloads": 0, "failed_downloads": 0, "total_download_time": 0,
            "databases_count": count, "skipped_updates": 0, "expired_databases": 0,
        },
        "nodes": { uuid(&call.state): { "databases": databases, "files_in_temp": [] } },
    }))
}

/// The pipelines of a repository at one time.
pub(crate) struct Known {
    pub(crate) state: Arc<State>,
    pub(crate) records: Records,
}

impl Pipelines for Known {
    fn get(&self, id: &str) -> Option<Arc<Pipeline>> {
        self.state.pipelines.get(&self.records, id).ok().flatten()
    }

    fn addresses(&self, file: &str) -> Option<Arc<Addresses>> {
        self.state.lookups.addresses(file)
    }

    fn agents(&self, file: &str) -> Option<Arc<Agents>> {
        self.state.lookups.agents(file)
    }
}

/// Runs what takes long on a thread that answers nobody else meanwhile.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| frostline_base::Error::internal("a pipeline ended early").with_source(e))?
}

/// `PUT /_ingest/pipeline/{id}`.
pub(crate) async fn put(call: Call) -> Result<Answer> {
    let id = call.part("id").unwrap_or_default();
    if id.is_empty() || id.contains(['*', ',', ' ']) || id.starts_with('_') || id.len() > 200 {
        return Err(ApiError::invalid(format!("[{id}] is not the name of a pipeline")));
    }
    if call.body.len() > BYTES_MAX {
        return Err(ApiError::invalid(format!("a pipeline has at most {BYTES_MAX} bytes")));
    }
    let body = Value::Object(call.object()?);
    aside({
        let (body, state) = (body.clone(), Arc::clone(&call.state));
        move || {
            let pipeline = parsed(&body)?;
            match pipeline.files().iter().find(|file| state.lookups.agents(file).is_none()) {
                None => Ok(()),
                Some(file) => Err(ApiError::new(
                    StatusCode::BAD_REQUEST,
                    "parse_exception",
                    format!("[regex_file] regex file [{file}] doesn't exist: put it into the folder of --ingest-files"),
                )),
            }
        }
    })
    .await?;
    let plan = |records: &Records| {
        let put = RecordChange::Other { kind: KIND, name: id.to_owned(), value: Some(body.clone()) };
        Ok(if records.other(KIND, id) == Some(&body) { Vec::new() } else { vec![put] })
    };
    call.state.node.catalog().change_records("pipeline", plan).await?;
    Answer::json(&json!({ "acknowledged": true }))
}

/// The pipelines of these names or patterns.
fn matching<'a>(records: &'a Records, wanted: &str) -> Vec<(&'a str, &'a Value)> {
    let is_wanted = |name: &str| wanted.split(',').any(|pattern| wildcard_matches(pattern, name));
    records.others(KIND).filter(|(name, _)| is_wanted(name)).collect()
}

/// `GET /_ingest/pipeline/{id}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let records = call.state.node.records().await?;
    let summary = call.params.flag("summary")?.unwrap_or(false);
    let wanted = call.part("id").unwrap_or("*");
    let found = matching(&records, wanted);
    let is_missing = found.is_empty() && !wanted.contains('*');
    let shown = found.into_iter().map(|(id, body)| {
        let shown = match summary {
            true => json!({ "description": body.get("description") }),
            false => body.clone(),
        };
        (id.to_owned(), shown)
    });
    let answer = Answer::json(&shown.collect::<Map<_, _>>())?;
    Ok(if is_missing { answer.with_status(StatusCode::NOT_FOUND) } else { answer })
}

/// `DELETE /_ingest/pipeline/{id}`.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let wanted = call.part("id").unwrap_or_default();
    let catalog = call.state.node.catalog();
    if matching(&catalog.records().await?, wanted).is_empty() && wanted != "*" {
        let reason = format!("pipeline [{wanted}] is missing");
        return Err(ApiError::new(StatusCode::NOT_FOUND, "resource_not_found_exception", reason));
    }
    let plan = |records: &Records| {
        let found = matching(records, wanted);
        if let Some(reason) = found.iter().find_map(|(id, _)| user_of(records, id)) {
            return Err(frostline_base::Error::invalid(reason));
        }
        let gone =
            |(id, _): (&str, &Value)| RecordChange::Other { kind: KIND, name: id.to_owned(), value: None };
        Ok(found.into_iter().map(gone).collect())
    };
    catalog.change_records("delete pipeline", plan).await?;
    Answer::json(&json!({ "acknowledged": true }))
}

/// Why a pipeline cannot be deleted: an index has it.
fn user_of(records: &Records, id: &str) -> Option<String> {
    let indices = records.others(INDEX_SETTINGS).filter_map(|(index, _)| index.parse().ok());
    indices.map(|index| (IndexSettings::of(records, &index), index)).find_map(|(settings, index)| {
        let what = match Some(id) {
            id if id == settings.default_pipeline() => "default",
            id if id == settings.final_pipeline() => "final",
            _ => return None,
        };
        Some(format!(
            "pipeline [{id}] cannot be deleted because it is the {what} pipeline of the index [{index}]"
        ))
    })
}

/// `POST /_ingest/pipeline/_simulate`: what a pipeline makes of documents, which are not stored.
pub(crate) async fn simulate(call: Call) -> Result<Answer> {
    let mut body = call.object()?;
    only(&body, &["docs", "pipeline"])?;
    let records = call.state.node.records().await?;
    let (id, given) = match (call.part("id"), body.remove("pipeline")) {
        (Some(id), None) => (id.to_owned(), None),
        (None, Some(json)) => ("_simulate_pipeline".to_owned(), Some(json)),
        (None, None) => {
            let missing = ApiError::invalid("[pipeline] required property is missing");
            return Err(missing.named("parse_exception").about("property_name", "pipeline"));
        }
        (Some(_), Some(_)) => return Err(ApiError::unparsed("[pipeline] is given in the path already")),
    };
    let Some(Value::Array(docs)) = body.remove("docs") else {
        return Err(ApiError::unparsed("[docs] required property is missing"));
    };
    if docs.is_empty() || docs.len() > SIMULATED_MAX {
        return Err(ApiError::invalid(format!("[docs] has 1 to {SIMULATED_MAX} documents")));
    }
    let now_us = call.state.node.clock().now_us();
    let documents = docs.into_iter().map(|doc| Simulated::read(doc, now_us)).collect::<Result<Vec<_>>>()?;
    let verbose = call.params.flag("verbose")?.unwrap_or(false);
    let known = Known { state: Arc::clone(&call.state), records };
    let bytes_max = call.state.settings.body_bytes_max;
    let tried = aside(move || {
        let pipeline = match &given {
            Some(json) => Arc::new(parsed(json)?),
            None => existing(&known.state, &known.records, &id)?,
        };
        let mut tried = Vec::new();
        let mut bytes = 0;
        for document in documents {
            let shown = if verbose {
                traced(&known, &id, &pipeline, document)
            } else {
                ran(&known, &id, &pipeline, document)
            };
            bytes += shown.to_string().len();
            if bytes > bytes_max {
                return Err(ApiError::invalid(format!(
                    "the answer has more than {bytes_max} bytes: try fewer documents"
                )));
            }
            tried.push(shown);
        }
        Ok(tried)
    });
    Answer::json(&json!({ "docs": tried.await? }))
}

/// The pipeline of an id, which has to be there.
pub(crate) fn existing(state: &State, records: &Records, id: &str) -> Result<Arc<Pipeline>> {
    let found = state.pipelines.get(records, id)?;
    found.ok_or_else(|| ApiError::invalid(format!("pipeline with id [{id}] does not exist")))
}

/// A document that is tried, and the metadata that no processor changes.
struct Simulated {
    document: Document,
    metadata: Map<String, Value>,
}

impl Simulated {
    fn read(doc: Value, now_us: i64) -> Result<Simulated> {
        let Value::Object(mut doc) = doc else { return Err(ApiError::unparsed("[docs] hold objects")) };
        let mut text = |name: &str| match doc.remove(name) {
            None => Ok(name.to_owned()),
            Some(Value::String(text)) => Ok(text),
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(_) => Err(ApiError::unparsed(format!("[{name}] property isn't a string"))),
        };
        let (index, id) = (text("_index")?, text("_id")?);
        let Some(Value::Object(source)) = doc.remove("_source") else {
            return Err(ApiError::unparsed("[_source] required property is missing"));
        };
        only_in("docs", &doc, &["_if_primary_term", "_if_seq_no", "_routing", "_version", "_version_type"])?;
        let mut metadata = Map::from_iter([("_version".to_owned(), json!("-3"))]);
        for (name, value) in doc {
            let is_whole = !matches!(name.as_str(), "_routing" | "_version_type");
            if is_whole && !value.is_i64() {
                let reason = format!("Failed to parse parameter [{name}], only int or long is accepted");
                return Err(ApiError::invalid(reason));
            }
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            metadata.insert(name, shown.into());
        }
        Ok(Simulated { document: Document::new(&index, Some(&id), source, now_us), metadata })
    }
}

fn shown(document: &Document, metadata: &Map<String, Value>) -> Value {
    let mut shown = json!({
        "_index": document.index(), "_id": document.id(), "_source": document.source(), "_ingest": document.ingest(),
    });
    for (name, value) in metadata {
        shown[name] = value.clone();
    }
    shown
}

fn ran(known: &Known, id: &str, pipeline: &Pipeline, simulated: Simulated) -> Value {
    let Simulated { mut document, metadata } = simulated;
    match frostline_pipeline::run(known, id, pipeline, &mut document, None) {
        Outcome::Done | Outcome::Rerouted => json!({ "doc": shown(&document, &metadata) }),
        Outcome::Dropped => Value::Null,
        Outcome::Failed(failure) => json!({ "error": failed(failure).to_json() }),
    }
}

fn traced(known: &Known, id: &str, pipeline: &Pipeline, simulated: Simulated) -> Value {
    let Simulated { mut document, metadata } = simulated;
    let mut trace = Vec::new();
    frostline_pipeline::run(known, id, pipeline, &mut document, Some(&mut trace));
    json!({ "processor_results": trace.into_iter().map(|done| step(done, &metadata)).collect::<Vec<_>>() })
}

fn step(step: Trace, metadata: &Map<String, Value>) -> Value {
    let Trace { processor, tag, description, condition, status, failure, document } = step;
    let status_name = match status {
        Status::Success => "success",
        Status::Skipped => "skipped",
        Status::Dropped => "dropped",
        Status::Error => "error",
        Status::ErrorIgnored => "error_ignored",
    };
    let mut shown = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        value.map(|value| shown.insert(name.to_owned(), value));
    };
    add("processor_type", Some(json!(processor)));
    add("status", Some(json!(status_name)));
    add("description", description.map(Value::from));
    add("tag", tag.map(Value::from));
    add("if", condition.map(|(condition, result)| json!({ "condition": condition, "result": result })));
    let error = failure.map(|failure| failed(failure).to_json());
    match status {
        Status::ErrorIgnored => add("ignored_error", error.map(|error| json!({ "error": error }))),
        _ => add("error", error),
    }
    add("doc", document.as_ref().map(|document| self::shown(document, metadata)));
    Value::Object(shown)
}

/// The error of a document that a pipeline refused.
pub(crate) fn failed(failure: Failure) -> ApiError {
    let Failure { kind, reason, processor, tag, pipeline, .. } = failure;
    let error = ApiError::new(StatusCode::BAD_REQUEST, kind, reason);
    let error = error.about("processor_type", processor).about("pipeline_origin", json!([pipeline]));
    match tag {
        Some(tag) => error.about("processor_tag", tag),
        None => error,
    }
}

#[cfg(test)]
mod tests;
