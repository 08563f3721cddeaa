//! Ingest pipelines: put, shown, deleted, tried.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use frostline_catalog::{INDEX_SETTINGS, Records};
use frostline_pipeline::{
    Addresses, Agents, Document, Failure, Map as WrittenMap, Outcome, Pipeline, Pipelines, Status, Trace,
    Value as Written,
};
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::info::uuid;
use crate::api::kept::Kind;
use crate::api::names::parse;
use crate::api::search_body::unwritten;
use crate::api::settings::IndexSettings;
use crate::api::template::compose;
use crate::error::{ApiError, Result};
use crate::state::{Call, State, only, only_in};

const KEPT: Kind = Kind { record: "ingest_pipeline", name: "pipeline" };
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
            let mut counts = self.counts.lock();
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
        let counts = self.counts.lock();
        let total = counts.values().fold(Counts::default(), |sum, counts| Counts {
            documents: sum.documents + counts.documents,
            failed: sum.failed + counts.failed,
            now: sum.now + counts.now,
            took_us: sum.took_us + counts.took_us,
        });
        let known = records.others(KEPT.record).map(|(id, _)| {
            let mut shown = counts.get(id).copied().unwrap_or_default().shown();
            shown["processors"] = json!([]);
            (id.to_owned(), shown)
        });
        json!({ "total": total.shown(), "pipelines": known.collect::<Map<_, _>>() })
    }

    /// The pipeline of an id; none where there is none.
    pub(crate) fn get(&self, records: &Records, id: &str) -> Result<Option<Arc<Pipeline>>> {
        let Some(json) = records.other(KEPT.record, id) else { return Ok(None) };
        let read = |compiled: &HashMap<String, (Value, Arc<Pipeline>)>| {
            let (from, pipeline) = compiled.get(id)?;
            (from == json).then(|| Arc::clone(pipeline))
        };
        let lock = || self.read.lock();
        if let Some(pipeline) = read(&lock()) {
            return Ok(Some(pipeline));
        }
        let pipeline = Arc::new(parsed(&kept(json)?)?);
        let mut compiled = lock();
        compiled.retain(|id, _| records.other(KEPT.record, id).is_some());
        let mut counts = self.counts.lock();
        counts.retain(|id, counts| counts.now > 0 || records.other(KEPT.record, id).is_some());
        compiled.insert(id.to_owned(), (json.clone(), Arc::clone(&pipeline)));
        Ok(Some(pipeline))
    }
}

/// What an error says of the processor that it is about.
const FACTS: [&str; 4] = ["at", "processor_type", "processor_tag", "property_name"];

/// A pipeline as it was put.
fn kept(record: &Value) -> Result<Written> {
    Ok(match record {
        Value::String(text) => Written::read(text.as_bytes())?,
        other => other.clone().into(),
    })
}

/// How a pipeline is kept: as an object, which earlier builds read too, or as its text where that would spell its numbers
/// otherwise.
fn record(pipeline: &Written) -> Value {
    let text = pipeline.to_string();
    let object = serde_json::from_str(&text).ok().filter(|object: &Value| {
        let texts = [object.to_string(), Written::from(object.clone()).to_string()];
        texts.iter().all(|again| *again == text)
    });
    object.unwrap_or(Value::String(text))
}

fn parsed(json: &Written) -> Result<Pipeline> {
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
    let (id, body) = (KEPT.named(&call)?, Written::Object(call.written_object()?));
    let record = record(&body);
    aside({
        let state = Arc::clone(&call.state);
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
    KEPT.put(&call, id, &record).await
}

/// `GET /_ingest/pipeline/{id}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let summary = call.params.flag("summary")?.unwrap_or(false);
    let show = |record: &Value| {
        let pipeline = kept(record)?;
        let shown = match summary {
            true => object([("description", pipeline.get("description").cloned().unwrap_or_default())]),
            false => pipeline,
        };
        RawValue::from_string(shown.to_string()).map_err(unwritten)
    };
    KEPT.get(&call, show).await
}

/// `DELETE /_ingest/pipeline/{id}`.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    KEPT.delete(&call, user_of).await
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
    let mut body = call.written_object()?;
    only(&body, &["docs", "pipeline"])?;
    let records = call.state.node.records().await?;
    let (id, given) = match (call.part("id"), body.shift_remove("pipeline")) {
        (Some(id), None) => (id.to_owned(), None),
        (None, Some(json)) => ("_simulate_pipeline".to_owned(), Some(json)),
        (None, None) => {
            let missing = ApiError::invalid("[pipeline] required property is missing");
            return Err(missing.named("parse_exception").about("property_name", "pipeline"));
        }
        (Some(_), Some(_)) => return Err(ApiError::unparsed("[pipeline] is given in the path already")),
    };
    let docs = docs(&mut body)?;
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
        each(documents, bytes_max, |document| {
            Ok(match verbose {
                true => traced(&known, &id, &pipeline, document),
                false => ran(&known, &id, &pipeline, document),
            })
        })
    });
    shown(object([("docs", Written::Array(tried.await?))]))
}

/// The documents of a body that are to be tried.
fn docs(body: &mut WrittenMap) -> Result<Vec<Written>> {
    match body.shift_remove("docs") {
        Some(Written::Array(docs)) if docs.is_empty() || docs.len() > SIMULATED_MAX => {
            Err(ApiError::invalid(format!("[docs] has 1 to {SIMULATED_MAX} documents")))
        }
        Some(Written::Array(docs)) => Ok(docs),
        _ => Err(ApiError::unparsed("[docs] required property is missing")),
    }
}

/// What becomes of each document, of which the answer holds not too much.
fn each(
    documents: Vec<Simulated>,
    bytes_max: usize,
    mut run: impl FnMut(Simulated) -> Result<Written>,
) -> Result<Vec<Written>> {
    let mut bytes = 0;
    let each = documents.into_iter().map(|document| {
        let shown = run(document)?;
        bytes += shown.to_string().len();
        match bytes > bytes_max {
            true => Err(ApiError::invalid(format!(
                "the answer has more than {bytes_max} bytes: try fewer documents"
            ))),
            false => Ok(shown),
        }
    });
    each.collect()
}

/// `POST /_ingest/{index}/_simulate`: what the pipelines of their indices make of documents, which are not stored.
pub(crate) async fn simulate_ingest(call: Call) -> Result<Answer> {
    let mut body = call.written_object()?;
    const UNSUPPORTED: [&str; 3] =
        ["component_template_substitutions", "index_template_substitutions", "mapping_addition"];
    only(&body, &[&["docs", "pipeline_substitutions"], &UNSUPPORTED[..]].concat())?;
    let is_said =
        |name: &&str| body.get(*name).and_then(Written::as_object).is_some_and(|said| !said.is_empty());
    if let Some(name) = UNSUPPORTED.iter().find(|name| is_said(name)) {
        return Err(ApiError::unsupported(format!(
            "[{name}] is not supported: documents go through pipelines alone"
        )));
    }
    let given = match body.shift_remove("pipeline_substitutions") {
        None => WrittenMap::new(),
        Some(Written::Object(given)) => given,
        Some(_) => return Err(ApiError::unparsed("[pipeline_substitutions] is an object")),
    };
    let now_us = call.state.node.clock().now_us();
    let documents = docs(&mut body)?.into_iter().map(|mut doc| {
        if let (Written::Object(doc), Some(index)) = (&mut doc, call.part("index")) {
            doc.entry("_index".to_owned()).or_insert_with(|| index.into());
        }
        if doc.get("_index").is_none() {
            return Err(ApiError::unparsed("[_index] required property is missing"));
        }
        Simulated::read(doc, now_us)
    });
    let documents = documents.collect::<Result<Vec<_>>>()?;
    let asked = call.params.get("pipeline").map(str::to_owned);
    let known = Known { state: Arc::clone(&call.state), records: call.state.node.records().await? };
    let bytes_max = call.state.settings.body_bytes_max;
    let tried = aside(move || {
        let given = given.iter().map(|(id, json)| Ok((id.clone(), Arc::new(parsed(json)?))));
        let given = given.collect::<Result<HashMap<_, _>>>()?;
        let tried = Tried { known, given, executed: Mutex::default() };
        each(documents, bytes_max, |document| tried.shown(document, asked.as_deref()))
    });
    shown(object([("docs", Written::Array(tried.await?))]))
}

/// How often pipelines may send a document on that is tried.
const REROUTED_MAX: usize = 16;

/// Pipelines that are tried: those that are kept, and what a request has in place of some of them.
struct Tried {
    known: Known,
    given: HashMap<String, Arc<Pipeline>>,
    /// The ids of those that ran.
    executed: Mutex<Vec<String>>,
}

impl Pipelines for Tried {
    fn get(&self, id: &str) -> Option<Arc<Pipeline>> {
        let found = self.given.get(id).cloned().or_else(|| self.known.get(id));
        if found.is_some() {
            self.executed.lock().push(id.to_owned());
        }
        found
    }

    fn addresses(&self, file: &str) -> Option<Arc<Addresses>> {
        self.known.addresses(file)
    }

    fn agents(&self, file: &str) -> Option<Arc<Agents>> {
        self.known.agents(file)
    }
}

impl Tried {
    /// The settings of the index to which documents of a name go, or would.
    fn settings(&self, name: &str) -> Result<IndexSettings> {
        let records = &self.known.records;
        let name = parse(name)?;
        let stream = records.data_streams().get(&name).and_then(|stream| stream.indices.last());
        let alias = records.aliases().get(&name).and_then(|alias| alias.write_index());
        let there = stream.or(alias).or(Some(&name)).filter(|index| records.has_index(index));
        match there {
            Some(index) => Ok(IndexSettings::of(records, index)),
            None => {
                compose(records, name.as_str())?.map_or(Ok(IndexSettings::default()), |c| c.index_settings())
            }
        }
    }

    fn shown(&self, simulated: Simulated, asked: Option<&str>) -> Result<Written> {
        let Simulated { mut document, .. } = simulated;
        self.executed.lock().clear();
        let outcome = self.run(&mut document, asked);
        let executed = std::mem::take(&mut *self.executed.lock());
        let error = match outcome {
            Ok(true) => None,
            Ok(false) => return Ok(Written::Null),
            Err(error) => Some(("error", error.to_json().into())),
        };
        let members = [
            ("_index", document.index().into()),
            ("_id", document.id().map_or(Written::Null, Written::from)),
            ("_version", Written::from(-3)),
            ("_source", document.source().clone()),
            ("executed_pipelines", Written::Array(executed.into_iter().map(Written::from).collect())),
        ];
        Ok(object([("doc", object(members.into_iter().chain(error)))]))
    }

    /// Sends a document through its pipelines; false where one drops it.
    fn run(&self, document: &mut Document, asked: Option<&str>) -> Result<bool> {
        let mut next = match asked {
            Some("_none") => None,
            Some(id) => Some(id.to_owned()),
            None => self.settings(document.index())?.default_pipeline().map(str::to_owned),
        };
        let mut rerouted = 0;
        while let Some(id) = next.take() {
            match self.through(&id, document)? {
                Outcome::Dropped => return Ok(false),
                Outcome::Rerouted if rerouted < REROUTED_MAX => {
                    rerouted += 1;
                    next = self.settings(document.index())?.default_pipeline().map(str::to_owned);
                }
                Outcome::Rerouted => {
                    return Err(ApiError::invalid(
                        "pipelines send the document from index to index without an end",
                    ));
                }
                _ => {}
            }
        }
        let last = self.settings(document.index())?.final_pipeline().map(str::to_owned);
        Ok(match last {
            Some(id) => !matches!(self.through(&id, document)?, Outcome::Dropped),
            None => true,
        })
    }

    fn through(&self, id: &str, document: &mut Document) -> Result<Outcome> {
        let missing = || ApiError::invalid(format!("pipeline with id [{id}] does not exist"));
        let pipeline = self.get(id).ok_or_else(missing)?;
        match frostline_pipeline::run(self, id, &pipeline, document, None) {
            Outcome::Failed(failure) => Err(failed(failure)),
            outcome => Ok(outcome),
        }
    }
}

/// The pipeline of an id, which has to be there.
pub(crate) fn existing(state: &State, records: &Records, id: &str) -> Result<Arc<Pipeline>> {
    let found = state.pipelines.get(records, id)?;
    found.ok_or_else(|| ApiError::invalid(format!("pipeline with id [{id}] does not exist")))
}

/// A document that is tried, and the metadata that no processor changes.
struct Simulated {
    document: Document,
    metadata: WrittenMap,
}

impl Simulated {
    fn read(doc: Written, now_us: i64) -> Result<Simulated> {
        let Written::Object(mut doc) = doc else { return Err(ApiError::unparsed("[docs] hold objects")) };
        let mut text = |name: &str| match doc.shift_remove(name) {
            None => Ok(name.to_owned()),
            Some(Written::String(text)) => Ok(text),
            Some(Written::Number(number)) => Ok(number.to_string()),
            Some(_) => Err(ApiError::unparsed(format!("[{name}] property isn't a string"))),
        };
        let (index, id) = (text("_index")?, text("_id")?);
        let Some(Written::Object(source)) = doc.shift_remove("_source") else {
            return Err(ApiError::unparsed("[_source] required property is missing"));
        };
        only_in("docs", &doc, &["_if_primary_term", "_if_seq_no", "_routing", "_version", "_version_type"])?;
        let mut metadata = WrittenMap::from_iter([("_version".to_owned(), Written::from("-3"))]);
        for (name, value) in doc {
            let is_whole = !matches!(name.as_str(), "_routing" | "_version_type");
            if is_whole && value.as_i64().is_none() {
                let reason = format!("Failed to parse parameter [{name}], only int or long is accepted");
                return Err(ApiError::invalid(reason));
            }
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            metadata.insert(name, shown.into());
        }
        Ok(Simulated { document: Document::new(&index, Some(&id), source, now_us), metadata })
    }
}

fn object<'a>(members: impl IntoIterator<Item = (&'a str, Written)>) -> Written {
    Written::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// An answer whose numbers keep their spelling.
fn shown(answer: Written) -> Result<Answer> {
    Answer::written(|bytes| write!(bytes, "{answer}"))
}

fn shown_document(document: &Document, metadata: &WrittenMap) -> Written {
    let members = [
        ("_index", document.index().into()),
        ("_id", document.id().map_or(Written::Null, Written::from)),
        ("_source", document.source().clone()),
        ("_ingest", document.ingest().clone()),
    ];
    let metadata = metadata.iter().map(|(name, value)| (name.as_str(), value.clone()));
    object(members.into_iter().chain(metadata))
}

fn ran(known: &Known, id: &str, pipeline: &Pipeline, simulated: Simulated) -> Written {
    let Simulated { mut document, metadata } = simulated;
    match frostline_pipeline::run(known, id, pipeline, &mut document, None) {
        Outcome::Done | Outcome::Rerouted => object([("doc", shown_document(&document, &metadata))]),
        Outcome::Dropped => Written::Null,
        Outcome::Failed(failure) => object([("error", failed(failure).to_json().into())]),
    }
}

fn traced(known: &Known, id: &str, pipeline: &Pipeline, simulated: Simulated) -> Written {
    let Simulated { mut document, metadata } = simulated;
    let mut trace = Vec::new();
    frostline_pipeline::run(known, id, pipeline, &mut document, Some(&mut trace));
    let steps = trace.into_iter().map(|done| step(done, &metadata)).collect();
    object([("processor_results", Written::Array(steps))])
}

fn step(step: Trace, metadata: &WrittenMap) -> Written {
    let Trace { processor, tag, description, condition, status, failure, document } = step;
    let status_name = match status {
        Status::Success => "success",
        Status::Skipped => "skipped",
        Status::Dropped => "dropped",
        Status::Error => "error",
        Status::ErrorIgnored => "error_ignored",
    };
    let mut shown = WrittenMap::new();
    let mut add = |name: &str, value: Option<Written>| {
        value.map(|value| shown.insert(name.to_owned(), value));
    };
    add("processor_type", Some(processor.into()));
    add("status", Some(status_name.into()));
    add("description", description.map(Written::from));
    add("tag", tag.map(Written::from));
    add(
        "if",
        condition
            .map(|(condition, result)| object([("condition", condition.into()), ("result", result.into())])),
    );
    let error = failure.map(|failure| Written::from(failed(failure).to_json()));
    match status {
        Status::ErrorIgnored => add("ignored_error", error.map(|error| object([("error", error)]))),
        _ => add("error", error),
    }
    add("doc", document.as_ref().map(|document| shown_document(document, metadata)));
    Written::Object(shown)
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
