//! Documents go through pipelines before they are stored.
//!
//! A document that is added or replaced goes through the pipeline that its request names, else the default one of its
//! index, and then through the final one of the index to which it goes then. A document that fails is an error of its
//! item alone. So does one that an update may add; other updates and deletions go through none.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use frostline_catalog::Records;
use frostline_ingest::{Action, Expected, Operation as IdOperation};
use frostline_pipeline::{Document, Original, Outcome, Pipeline};

use crate::api::bulk::{INDICES_MAX, Named, Operation, Targets, What, find_targets, no_document};
use crate::api::document::Upsert;
use crate::api::names::Target;
use crate::api::pipeline::{Known, aside, existing, failed};
use crate::api::settings::IndexSettings;
use crate::error::{ApiError, Result};
use crate::state::Call;

/// What documents of a request take after their pipelines, besides four times the request.
const BYTES_MAX: usize = 64 << 20;
/// How many indices may send a document on.
const REROUTED_MAX: usize = 16;

/// Changes operations to what pipelines make of their documents. An index that they go to then is one of `targets`.
/// Whether there was any to run.
pub(crate) async fn apply(call: &Call, operations: &mut [Operation], targets: &mut Targets) -> Result<bool> {
    let seen = call.state.node.catalog().seen_records();
    let has_own = |target: &Result<_>| match (target, &seen) {
        (Ok(target), Some(seen)) => settings(seen, target).has_pipeline(),
        _ => false,
    };
    let is_asked =
        operations.iter().any(|operation| operation.pipeline.is_some() && document(operation).is_some());
    if !is_asked && !targets.values().any(has_own) {
        return Ok(false);
    }
    let known = Arc::new(Known {
        state: Arc::clone(&call.state),
        records: call.state.node.catalog().records().await?,
    });
    let mut left = call.body.len().saturating_mul(4).saturating_add(BYTES_MAX);

    let first =
        jobs(operations, targets, &known, |_, operation, settings| match operation.pipeline.as_deref() {
            Some("_none") => None,
            Some(id) => Some(id.to_owned()),
            None => settings.default_pipeline().map(str::to_owned),
        });
    let mut rerouted = run(call, &known, first, operations, &mut left, false).await?;
    // Where each document that is sent on has been.
    let mut visited: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    let known = loop {
        let names: BTreeSet<&str> = operations.iter().map(|operation| operation.index.as_str()).collect();
        if names.len() > INDICES_MAX {
            return Err(ApiError::invalid(format!("a request writes to at most {INDICES_MAX} indices")));
        }
        find_targets(call, operations, targets).await;
        // A template may just have made an index.
        let records = call.state.node.catalog().seen_records().unwrap_or_else(|| known.records.clone());
        let known = Arc::new(Known { state: Arc::clone(&call.state), records });
        if rerouted.is_empty() {
            break known;
        }
        for (place, from) in &rerouted {
            let visited = visited.entry(*place).or_default();
            visited.insert(from.clone());
            let operation = &mut operations[*place];
            if visited.contains(&operation.index) || visited.len() > REROUTED_MAX {
                operation.what = Err(ApiError::invalid(format!(
                    "pipelines send the document from index to index without an end, and again to [{}]",
                    operation.index
                )));
            }
        }
        let places: BTreeSet<usize> = rerouted.into_iter().map(|(place, _)| place).collect();
        let next = jobs(operations, targets, &known, |place, _, settings| {
            settings.default_pipeline().filter(|_| places.contains(&place)).map(str::to_owned)
        });
        rerouted = run(call, &known, next, operations, &mut left, false).await?;
    };
    let last =
        jobs(operations, targets, &known, |_, _, settings| settings.final_pipeline().map(str::to_owned));
    run(call, &known, last, operations, &mut left, true).await?;
    Ok(true)
}

fn settings(records: &Records, target: &Target) -> IndexSettings {
    IndexSettings::of(records, &target.index)
}

/// The document that an operation stores as it is, or may add.
fn document(operation: &Operation) -> Option<Bytes> {
    match operation.what.as_ref().ok()? {
        What::Append(document) => Some(document.clone()),
        What::Edit(IdOperation { action: Action::Index(document) | Action::Create(document), .. }) => {
            Some(document.clone())
        }
        What::Edit(_) => operation.upsert.as_ref().map(Upsert::get),
        What::Nothing => None,
    }
}

/// A document that is to go through a pipeline.
struct Job {
    place: usize,
    id: String,
    index: String,
    document_id: Option<String>,
    document: Bytes,
}

fn jobs(
    operations: &[Operation],
    targets: &Targets,
    known: &Known,
    wanted: impl Fn(usize, &Operation, &IndexSettings) -> Option<String>,
) -> Vec<Job> {
    let of_target = |(name, target): (&Named, &Result<_>)| {
        Some((name.clone(), settings(&known.records, target.as_ref().ok()?)))
    };
    let settings: BTreeMap<Named, IndexSettings> = targets.iter().filter_map(of_target).collect();
    // A pipeline may send a document elsewhere whose name is none that it can go to.
    let none = IndexSettings::default();
    let jobs = operations.iter().enumerate().filter_map(|(place, operation)| {
        let document = document(operation)?;
        let id = wanted(place, operation, settings.get(&operation.name()).unwrap_or(&none))?;
        Some(Job { place, id, index: operation.index.clone(), document_id: operation.id.clone(), document })
    });
    jobs.collect()
}

/// What became of a document: None where it was dropped.
type Ran = Result<Option<Changed>>;

struct Changed {
    index: String,
    /// Where it was sent on from, to go through the default pipeline of its index.
    rerouted_from: Option<String>,
    id: Option<String>,
    document: Bytes,
}

/// Runs pipelines, and changes the operations to what they made. The places of those that are sent on, and from where.
async fn run(
    call: &Call,
    known: &Arc<Known>,
    jobs: Vec<Job>,
    operations: &mut [Operation],
    left: &mut usize,
    is_final: bool,
) -> Result<Vec<(usize, String)>> {
    let mut rerouted = Vec::new();
    if jobs.is_empty() {
        return Ok(rerouted);
    }
    let (known, now_us, mut still_left) = (Arc::clone(known), call.state.node.clock().now_us(), *left);
    let ran = aside(move || {
        let mut pipelines: HashMap<String, Result<Arc<Pipeline>>> = HashMap::new();
        let ran = jobs.into_iter().map(|job| {
            let place = job.place;
            let pipeline = pipelines
                .entry(job.id.clone())
                .or_insert_with(|| existing(&known.state, &known.records, &job.id));
            let ran = pipeline.clone().and_then(|pipeline| {
                let id = job.id.clone();
                let run = || one(&known, job, &pipeline, now_us, is_final);
                known.state.pipelines.counted(&id, run, Result::is_err)
            });
            (place, ran.and_then(|ran| fitting(ran, &mut still_left)))
        });
        Ok((ran.collect::<Vec<(usize, Ran)>>(), still_left))
    });
    let (ran, still_left) = ran.await?;
    *left = still_left;
    for (place, ran) in ran {
        let operation = &mut operations[place];
        match ran {
            Err(error) => operation.what = Err(error),
            Ok(None) => operation.what = Ok(What::Nothing),
            Ok(Some(mut changed)) => {
                rerouted.extend(changed.rerouted_from.take().map(|from| (place, from)));
                operation.becomes(changed);
            }
        }
    }
    Ok(rerouted)
}

/// Counts what a document takes.
fn fitting(ran: Option<Changed>, left: &mut usize) -> Ran {
    let bytes = ran.as_ref().map_or(0, |changed| changed.document.len());
    *left = left.checked_sub(bytes).ok_or_else(|| {
        ApiError::busy("the documents of the request are too large after their pipelines: send fewer")
    })?;
    Ok(ran)
}

fn one(known: &Known, job: Job, pipeline: &Pipeline, now_us: i64, is_final: bool) -> Ran {
    let read = Original::read(&job.document);
    let (original, source) = read.map_err(|error| no_document(error.what()))?;
    let mut document = Document::new(&job.index, job.document_id.as_deref(), source, now_us);
    let outcome = frostline_pipeline::run(known, &job.id, pipeline, &mut document, None);
    let is_elsewhere = document.index() != job.index;
    match outcome {
        Outcome::Dropped => Ok(None),
        Outcome::Failed(failure) => Err(failed(failure)),
        _ if is_final && is_elsewhere => Err(ApiError::invalid(format!(
            "final pipeline [{}] can't change the target index from [{}] to [{}]",
            job.id,
            job.index,
            document.index()
        ))),
        Outcome::Done | Outcome::Rerouted => {
            let rerouted_from = (outcome == Outcome::Rerouted && is_elsewhere).then_some(job.index);
            let (index, id) = (document.index().to_owned(), document.id().map(str::to_owned));
            let written = original.write(document.source());
            Ok(Some(Changed { index, rerouted_from, id, document: written.into() }))
        }
    }
}

impl Operation {
    /// The same with a document as a pipeline left it.
    fn becomes(&mut self, Changed { index, id, document, .. }: Changed) {
        let expected = match &self.what {
            Ok(What::Edit(operation)) => operation.expected,
            _ => Expected::Any,
        };
        self.index = index;
        self.id.clone_from(&id);
        if let (Some(upsert), Ok(What::Edit(operation))) = (&self.upsert, &mut self.what) {
            upsert.set(document);
            match id {
                Some(id) => operation.id = id,
                None => self.what = Err(ApiError::invalid("an update is of a document with an [_id]")),
            }
            return;
        }
        self.what = Ok(match id {
            None if expected != Expected::Any => {
                self.what =
                    Err(ApiError::invalid("a document without [_id] has no [if_seq_no] and no [version]"));
                return;
            }
            None => What::Append(document),
            Some(id) => {
                let action =
                    if self.action == "create" { Action::Create(document) } else { Action::Index(document) };
                What::Edit(IdOperation { id, action, expected })
            }
        });
    }
}

#[cfg(test)]
mod tests;
