//! Merges splits while a run goes on.
//!
//! One merge at a time runs beside the committer, which never waits for it: both change the index by commits of their own.
//! When everything is read, merging goes on until nothing is left. Whatever becomes of a merge, what is ingested stays so.

use std::sync::Arc;

use frostline_base::ErrorKind;
use frostline_catalog::Index;
use tokio::task::JoinHandle;

use super::{Cancel, IngestOptions, IngestReport, Run};
use crate::merge::{Merge, MergePolicy, Merging};

/// The memory of merging beside a run.
pub(super) fn memory_bytes(options: &IngestOptions) -> u64 {
    options.memory_bytes_max / 4
}

/// The merges of a run.
pub(super) struct Merges {
    run: Arc<Run>,
    merge: Merge,
    state: State,
    /// Stops the merges that are under way.
    cancel: Cancel,
}

enum State {
    /// The run does not merge.
    Off,
    Idle(Box<Merging>),
    Busy(JoinHandle<Box<Merging>>),
}

impl Merges {
    pub(super) fn new(run: &Arc<Run>, merge: Merge) -> Merges {
        let cancel = run.cancel.of_part();
        let merge = merge.with_cancel(&cancel);
        let state = match &run.options.merge {
            None => State::Off,
            Some(policy) => {
                let policy = MergePolicy { memory_bytes_max: memory_bytes(&run.options), ..policy.clone() };
                State::Idle(Box::new(merge.merging(
                    run.output.index.clone(),
                    run.output.terms.clone(),
                    &policy,
                )))
            }
        };
        Merges { run: Arc::clone(run), merge, state, cancel }
    }

    /// Merges what `index` has to be merged, unless merges are under way.
    pub(super) async fn work_on(&mut self, index: &Index) {
        self.state = match std::mem::replace(&mut self.state, State::Off) {
            State::Busy(busy) if !busy.is_finished() => State::Busy(busy),
            state => match state.ended().await {
                None => State::Off,
                Some(mut merging) => {
                    merging.continue_at(index);
                    match merging.next() {
                        None => State::Idle(merging),
                        Some(_) => State::Busy(tokio::spawn(merge_all(merging))),
                    }
                }
            },
        };
    }

    /// Merges until nothing is left, or stops at once; the report counts all merges of the run. The index after them.
    pub(super) async fn end(&mut self, index: Index, report: &mut IngestReport, at_once: bool) -> Index {
        if at_once {
            self.cancel.cancel();
        }
        let Some(mut merging) = std::mem::replace(&mut self.state, State::Off).ended().await else {
            return index;
        };
        merging.continue_at(&index);
        let mut index = count(&merging, report);
        if let (false, Some(policy)) = (at_once, &self.run.options.merge) {
            let memory_bytes_max = self.run.options.memory_bytes_max;
            let policy =
                MergePolicy { memory_bytes_max, growth: MergePolicy::default().growth, ..policy.clone() };
            let last = self.merge.merging(index, self.run.output.terms.clone(), &policy);
            let last = merge_all(Box::new(last)).await;
            index = count(&last, report);
        }
        index
    }
}

impl State {
    async fn ended(self) -> Option<Box<Merging>> {
        match self {
            State::Off => None,
            State::Idle(merging) => Some(merging),
            State::Busy(busy) => {
                busy.await.inspect_err(|error| tracing::warn!(%error, "merging was cut short")).ok()
            }
        }
    }
}

/// Merges until nothing is left, or the store does not answer: the next commit tries again.
async fn merge_all(mut merging: Box<Merging>) -> Box<Merging> {
    while let Some(group) = merging.next() {
        if let Err(error) = merging.merge(&group).await {
            tracing::warn!(?error, "splits are not merged: a later run does it");
            if error.kind() == ErrorKind::Unavailable {
                break;
            }
        }
    }
    merging
}

fn count(merging: &Merging, report: &mut IngestReport) -> Index {
    let merged = merging.report();
    report.merges += merged.merges;
    report.merge_bytes += merged.bytes_written;
    merging.index().clone()
}

#[cfg(test)]
mod tests;
