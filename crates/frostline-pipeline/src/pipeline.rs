//! A pipeline: read from JSON, and run over a document.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use frostline_base::{Error, Result};

use crate::agents::Agents;
use crate::condition::Condition;
use crate::document::{Document, Done, Failure, Stop, failure, weight};
use crate::geo::Addresses;
use crate::limits::NESTING_MAX;
use crate::options::{Counts, Options};
use crate::value::Value;
use crate::{
    agents, date, decode, dissect, fields, fingerprint, flow, geo, grok, network, records, redact, reroute,
    script, text,
};

/// Processors in their order, and what is done where one of them fails.
#[derive(Debug)]
pub struct Pipeline {
    steps: Vec<Step>,
    on_failure: Vec<Step>,
    /// The files that its processors cannot do without.
    files: Vec<String>,
}

/// What a pipeline finds by a name: other pipelines by their ids, and what processors look things up in by files.
pub trait Pipelines {
    /// The pipeline of an id, if there is one.
    fn get(&self, id: &str) -> Option<Arc<Pipeline>>;

    /// The database of addresses in a file, if there is one.
    fn addresses(&self, _file: &str) -> Option<Arc<Addresses>> {
        None
    }

    /// The patterns of user agents in a file, if there is one.
    fn agents(&self, _file: &str) -> Option<Arc<Agents>> {
        None
    }
}

impl Pipelines for BTreeMap<String, Arc<Pipeline>> {
    fn get(&self, id: &str) -> Option<Arc<Pipeline>> {
        BTreeMap::get(self, id).cloned()
    }
}

/// What became of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is to be stored as it now is.
    Done,
    /// It goes to another index, and through the pipeline of that one first.
    Rerouted,
    /// It is not to be stored.
    Dropped,
    /// It cannot be stored.
    Failed(Failure),
}

/// What one processor did.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its type.
    pub processor: &'static str,
    /// Its tag.
    pub tag: Option<String>,
    /// What its writer says of it.
    pub description: Option<String>,
    /// Its `if`, and whether that held.
    pub condition: Option<(String, bool)>,
    /// What became of it.
    pub status: Status,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// The document afterwards.
    pub document: Option<Document>,
}

/// What became of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It ran.
    Success,
    /// Its `if` did not hold.
    Skipped,
    /// It dropped the document.
    Dropped,
    /// It failed.
    Error,
    /// It failed, which is ignored.
    ErrorIgnored,
}

/// Pipelines that call each other without an end.
const CYCLE: &str = "graph_structure_exception";

/// What one kind of processor does.
pub(crate) trait Processor: Debug + Send + Sync {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Done;
}

/// A processor with the options that each of them has.
#[derive(Debug)]
pub(crate) struct Step {
    kind: &'static str,
    tag: Option<String>,
    description: Option<String>,
    condition: Option<Condition>,
    ignore_failure: bool,
    on_failure: Vec<Step>,
    processor: Box<dyn Processor>,
}

pub(crate) type Read = fn(&mut Options<'_>) -> Result<Box<dyn Processor>>;

/// Every processor.
pub(crate) const PROCESSORS: &[(&str, Read)] = &[
    ("append", fields::append),
    ("bytes", decode::bytes),
    ("community_id", network::community_id),
    ("convert", fields::convert),
    ("copy", fields::copy),
    ("csv", records::csv),
    ("date", date::date),
    ("date_index_name", date::date_index_name),
    ("dissect", dissect::dissect),
    ("dot_expander", fields::dot_expander),
    ("drop", flow::drop_document),
    ("fail", flow::fail),
    ("fingerprint", fingerprint::fingerprint),
    ("foreach", flow::foreach),
    ("geoip", geo::geoip),
    ("grok", grok::grok),
    ("gsub", text::gsub),
    ("html_strip", decode::html_strip),
    ("ip_location", geo::ip_location),
    ("join", text::join),
    ("json", records::json),
    ("kv", records::kv),
    ("lowercase", text::lowercase),
    ("network_direction", network::network_direction),
    ("pipeline", flow::pipeline),
    ("redact", redact::redact),
    ("remove", fields::remove),
    ("remove_by_pattern", fields::remove_by_pattern),
    ("rename", fields::rename),
    ("reroute", reroute::reroute),
    ("script", script::script),
    ("set", fields::set),
    ("sort", text::sort),
    ("split", text::split),
    ("terminate", flow::terminate),
    ("trim", text::trim),
    ("uppercase", text::uppercase),
    ("uri_parts", decode::uri_parts),
    ("urldecode", decode::urldecode),
    ("user_agent", agents::user_agent),
];

/// The types of all processors.
pub fn processors() -> impl Iterator<Item = &'static str> {
    PROCESSORS.iter().map(|(name, _)| *name)
}

/// Those of Elasticsearch that are not among them.
const OF_ELASTICSEARCH: &[&str] = &[
    "attachment",
    "circle",
    "enrich",
    "geo_grid",
    "inference",
    "normalize_for_stream",
    "recover_failure_document",
    "registered_domain",
    "set_security_user",
];

impl Pipeline {
    /// Reads a pipeline as Elasticsearch writes it. `Invalid` with its place where something is not understood.
    pub fn parse(json: &Value) -> Result<Pipeline> {
        let counts = &mut Counts::default();
        let mut options = Options::new("pipeline".to_owned(), 0, json, counts)?;
        for about in ["_meta", "deprecated", "description", "version"] {
            options.take_any(about);
        }
        options.one_of("field_access_pattern", &[("classic", ())])?;
        let steps = options.take("processors");
        let steps = options.required("processors", steps)?;
        let on_failure = handlers(&mut options)?;
        options.finish()?;
        Ok(Pipeline {
            steps: read_steps(&steps, "processors", 0, counts)?,
            on_failure: match on_failure {
                Some(json) => read_steps(&json, "on_failure", 0, counts)?,
                None => Vec::new(),
            },
            files: std::mem::take(&mut counts.files),
        })
    }

    /// The files of patterns that its processors cannot do without.
    pub fn files(&self) -> &[String] {
        &self.files
    }
}

fn handlers(options: &mut Options<'_>) -> Result<Option<Value>> {
    let on_failure = options.take("on_failure");
    match on_failure.as_ref().and_then(Value::as_array).is_some_and(Vec::is_empty) {
        true => Err(options.wrong("on_failure", "processors list cannot be empty")),
        false => Ok(on_failure),
    }
}

fn read_steps(json: &Value, place: &str, depth: usize, counts: &mut Counts) -> Result<Vec<Step>> {
    let Value::Array(all) = json else {
        return Err(Error::invalid("expected a list of processors").with("at", place));
    };
    let steps =
        all.iter().enumerate().map(|(n, json)| read_step(json, &format!("{place}[{n}]"), depth, counts));
    steps.collect()
}

/// Reads a processor that is inside of `depth` others.
pub(crate) fn read_step(json: &Value, place: &str, depth: usize, counts: &mut Counts) -> Result<Step> {
    let wrong = |what: String| Error::invalid(what).with("at", place);
    counts.processor(place)?;
    if depth >= NESTING_MAX {
        return Err(wrong(format!("processors are at most {NESTING_MAX} inside each other")));
    }
    let mut members = json.as_object().into_iter().flatten();
    let (Some((kind, json)), None) = (members.next(), members.next()) else {
        return Err(wrong("a processor is an object with one member, its type".to_owned()));
    };
    let Some((kind, read)) = PROCESSORS.iter().find(|(known, _)| known == kind) else {
        return Err(wrong(match kind.as_str() {
            kind if OF_ELASTICSEARCH.contains(&kind) => {
                format!("the processor [{kind}] is not supported: Frostline has no such processor")
            }
            kind => format!("no processor type exists with name [{kind}]"),
        }));
    };
    let place = format!("{place}.{kind}");
    let mut options = Options::new(place.clone(), depth, json, counts)?;
    options.kind = Some(kind);
    let tag = options.text("tag")?;
    options.tag.clone_from(&tag);
    let description = options.text("description")?;
    let ignore_failure = options.flag("ignore_failure", false)?;
    let condition = options.take("if").map(|json| condition(&mut options, &json)).transpose()?;
    let on_failure = handlers(&mut options)?;
    let processor = read(&mut options)?;
    options.finish()?;
    let on_failure = match on_failure {
        Some(json) => read_steps(&json, &format!("{place}.on_failure"), depth + 1, counts)?,
        None => Vec::new(),
    };
    Ok(Step { kind, tag, description, condition, ignore_failure, on_failure, processor })
}

fn condition(options: &mut Options<'_>, json: &Value) -> Result<Condition> {
    let source = match json {
        Value::String(source) => source,
        Value::Object(script) => {
            let is_known = |(name, value): (&String, &Value)| match name.as_str() {
                "source" => true,
                "lang" => value.as_str() == Some("painless"),
                _ => false,
            };
            match script.get("source") {
                Some(Value::String(source)) if script.iter().all(is_known) => source,
                _ => return Err(options.wrong("if", "has a [source] and a [lang], which is painless")),
            }
        }
        _ => return Err(options.wrong("if", "is neither a text nor an object")),
    };
    let condition = Condition::parse(source).map_err(|error| options.wrong("if", error.what()))?;
    options.count_patterns("if", condition.patterns())?;
    Ok(condition)
}

/// Runs a pipeline over a document, with those that it calls. `trace` takes what each processor did.
pub fn run(
    pipelines: &dyn Pipelines,
    id: &str,
    pipeline: &Pipeline,
    document: &mut Document,
    trace: Option<&mut Vec<Trace>>,
) -> Outcome {
    let mut run = Run { pipelines, running: Vec::new(), trace };
    match run.pipeline(id, pipeline, document) {
        Ok(()) | Err(Stop::Terminate) => Outcome::Done,
        Err(Stop::Drop) => Outcome::Dropped,
        Err(Stop::Reroute) => Outcome::Rerouted,
        Err(Stop::Fail(failure)) => Outcome::Failed(*failure),
    }
}

/// A run over a document.
pub(crate) struct Run<'a> {
    pub(crate) pipelines: &'a dyn Pipelines,
    /// The pipelines that have called each other.
    running: Vec<String>,
    trace: Option<&'a mut Vec<Trace>>,
}

impl Run<'_> {
    pub(crate) fn pipeline(&mut self, id: &str, pipeline: &Pipeline, document: &mut Document) -> Done {
        if self.running.iter().any(|running| running == id) {
            return Err(failure(CYCLE, format!("Cycle detected for pipeline: {id}")));
        }
        if self.running.len() >= NESTING_MAX {
            let reason = format!("pipelines call at most {NESTING_MAX} others inside each other");
            return Err(failure(CYCLE, reason));
        }
        self.running.push(id.to_owned());
        let outer = document.set_ingest("pipeline", Some(id.into()));
        let done = match self.all(&pipeline.steps, document) {
            Err(Stop::Fail(failure)) => self.handle(&pipeline.on_failure, failure, document),
            done => done,
        };
        let done = match done {
            Err(Stop::Terminate) => Ok(()),
            done => done,
        };
        document.set_ingest("pipeline", outer);
        self.running.pop();
        done
    }

    fn all(&mut self, steps: &[Step], document: &mut Document) -> Done {
        steps.iter().try_for_each(|step| self.step(step, document))
    }

    /// Runs what is to be done after a failure; without that it stays one.
    fn handle(&mut self, handlers: &[Step], failure: Box<Failure>, document: &mut Document) -> Done {
        if handlers.is_empty() || failure.is_limit {
            return Err(Stop::Fail(failure));
        }
        let tag = failure.tag.map(Into::into);
        let about = [
            ("on_failure_message", Some(failure.reason.into())),
            ("on_failure_processor_type", Some(failure.processor.into())),
            ("on_failure_processor_tag", tag),
            ("on_failure_pipeline", Some(failure.pipeline.into())),
        ];
        let outer = about.map(|(name, value)| (name, document.set_ingest(name, value)));
        let done = self.all(handlers, document);
        outer.into_iter().for_each(|(name, value)| drop(document.set_ingest(name, value)));
        done
    }

    /// Runs a processor that is part of another one, of which alone a trace tells.
    pub(crate) fn part(&mut self, step: &Step, document: &mut Document) -> Done {
        let trace = self.trace.take();
        let done = self.step(step, document);
        self.trace = trace;
        done
    }

    /// Runs one processor, if its condition holds.
    fn step(&mut self, step: &Step, document: &mut Document) -> Done {
        let named = |stop: Stop, pipeline: Option<&String>| match stop {
            Stop::Fail(mut failure) => {
                if failure.processor.is_empty() {
                    failure.processor = step.kind;
                    failure.tag.clone_from(&step.tag);
                    failure.pipeline = pipeline.cloned().unwrap_or_default();
                }
                Stop::Fail(failure)
            }
            other => other,
        };
        document.step().map_err(|stop| named(stop, self.running.last()))?;
        let holds = step.condition.as_ref().map_or(Ok(true), |condition| condition.holds(document));
        let holds = holds.map_err(|stop| match named(stop, self.running.last()) {
            // As Elasticsearch calls it, whatever processor it is of.
            Stop::Fail(failure) => Stop::Fail(Box::new(Failure { processor: "conditional", ..*failure })),
            other => other,
        });
        let (status, done) = match holds {
            Ok(false) => (Status::Skipped, Ok(())),
            Err(stop) => (Status::Error, Err(stop)),
            Ok(true) if step.kind == "pipeline" && self.trace.is_some() => {
                let place = self.trace.as_ref().map_or(0, |trace| trace.len());
                self.trace(step, Status::Success, None, document)?;
                let done = step.processor.run(document, self).map_err(|s| named(s, self.running.last()));
                return self.called(step, place, done, document);
            }
            Ok(true) => match step.processor.run(document, self).map_err(|s| named(s, self.running.last())) {
                Ok(()) => (Status::Success, Ok(())),
                Err(Stop::Drop) => (Status::Dropped, Err(Stop::Drop)),
                Err(stop @ (Stop::Reroute | Stop::Terminate)) => (Status::Success, Err(stop)),
                Err(Stop::Fail(failure)) if step.ignore_failure && !failure.is_limit => {
                    self.trace(step, Status::ErrorIgnored, Some(&failure), document)?;
                    return Ok(());
                }
                Err(Stop::Fail(failure)) => {
                    self.trace(step, Status::Error, Some(&failure), document)?;
                    return self.handle(&step.on_failure, failure, document);
                }
            },
        };
        let failed = match &done {
            Err(Stop::Fail(failure)) => Some(failure.as_ref()),
            _ => None,
        };
        self.trace(step, status, failed, document)?;
        done
    }

    /// What comes after the call of a pipeline, of which a trace tells before what it did.
    fn called(&mut self, step: &Step, place: usize, done: Done, document: &mut Document) -> Done {
        let Err(Stop::Fail(failure)) = done else { return done };
        let is_ignored = step.ignore_failure && !failure.is_limit;
        if let Some(trace) = &mut self.trace {
            // A pipeline that is not there or calls itself has done nothing.
            let has_run = trace.len() > place + 1 && failure.kind != CYCLE;
            if !has_run {
                trace.truncate(place + 1);
            }
            if let Some(call) = trace.get_mut(place).filter(|_| !has_run) {
                call.status = if is_ignored { Status::ErrorIgnored } else { Status::Error };
                call.failure = Some(Failure::clone(&failure));
            }
        }
        if is_ignored { Ok(()) } else { self.handle(&step.on_failure, failure, document) }
    }

    fn trace(&mut self, step: &Step, status: Status, failed: Option<&Failure>, document: &Document) -> Done {
        let Some(trace) = &mut self.trace else { return Ok(()) };
        document.spend(weight(document.source()) + weight(document.ingest()))?;
        let held = !matches!(status, Status::Skipped);
        // What a pipeline that is called makes of it is told after that.
        let shows = matches!(status, Status::Success | Status::ErrorIgnored) && step.kind != "pipeline";
        trace.push(Trace {
            processor: step.kind,
            tag: step.tag.clone(),
            description: step.description.clone(),
            condition: step.condition.as_ref().map(|condition| (condition.source().to_owned(), held)),
            status,
            failure: failed.cloned(),
            document: shows.then(|| document.clone()),
        });
        Ok(())
    }
}
