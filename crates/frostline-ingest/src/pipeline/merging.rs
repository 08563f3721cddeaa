//! Merges splits while a run goes on.
//!
//! One merge at a time runs beside the committer, which never waits for it: both change the index by commits of their own.
//! When everything is read, merging goes on until nothing is left. Whatever becomes of a merge, what is ingested stays so.

use std::future::pending;
use std::sync::Arc;

use frostline_base::ErrorKind;
use frostline_catalog::Index;
use tokio::task::{JoinError, JoinHandle};

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
    /// It has not merged yet.
    New,
    Idle(Box<Merging>),
    Busy(JoinHandle<Box<Merging>>),
}

impl Merges {
    pub(super) fn new(run: &Arc<Run>, merge: Merge) -> Merges {
        let cancel = run.reading.cancel.of_part();
        let merge = merge.with_cancel(&cancel);
        let state = if run.options.merge.is_some() { State::New } else { State::Off };
        Merges { run: Arc::clone(run), merge, state, cancel }
    }

    /// Merges what `index` has to be merged. Merges that are under way end first: see [`Merges::go_on`].
    pub(super) fn work_on(&mut self, index: &Index) {
        let memory_bytes_max = memory_bytes(&self.run.options);
        self.state = match std::mem::replace(&mut self.state, State::Off) {
            State::New => self
                .begin(index, |policy| MergePolicy { memory_bytes_max, ..policy })
                .map_or(State::Off, |merging| work(merging, index)),
            State::Idle(merging) => work(merging, index),
            state => state,
        };
    }

    /// Waits for the merges that are under way, for ever if none are. Then goes on if `index` is newer than they saw.
    /// Nothing is lost if the future is dropped.
    pub(super) async fn go_on(&mut self, index: Option<&Index>) {
        let (State::Busy(busy), Some(index)) = (&mut self.state, index) else { return pending().await };
        self.state = match ended(busy.await) {
            None => State::Off,
            Some(merging) if merging.index().version() < index.version() => work(merging, index),
            Some(merging) => State::Idle(merging),
        };
    }

    /// Merges until nothing is left, or stops at once; the report counts all merges of the run. The index after them.
    pub(super) async fn end(&mut self, index: Index, report: &mut IngestReport, at_once: bool) -> Index {
        if at_once {
            self.cancel.cancel();
        }
        let merging = match std::mem::replace(&mut self.state, State::Off) {
            State::Off => return index,
            State::New => None,
            State::Idle(merging) => Some(merging),
            State::Busy(busy) => match ended(busy.await) {
                None => return index,
                merging => merging,
            },
        };
        let mut index = match merging {
            None => index,
            Some(mut merging) => {
                merging.continue_at(&index);
                count(&merging, report)
            }
        };
        let memory_bytes_max = self.run.options.memory_bytes_max;
        let last = |policy| MergePolicy { memory_bytes_max, growth: MergePolicy::default().growth, ..policy };
        if let Some(last) = self.begin(&index, last).filter(|_| !at_once) {
            index = count(&*merge_all(last).await, report);
        }
        index
    }

    /// Merges of `index`, by the policy of the run as `adapt` changes it.
    fn begin(&self, index: &Index, adapt: impl FnOnce(MergePolicy) -> MergePolicy) -> Option<Box<Merging>> {
        let policy = adapt(self.run.options.merge.clone()?);
        let terms = self.run.target.known_output().and_then(|output| output.terms.clone());
        Some(Box::new(self.merge.merging(index.clone(), terms, &policy)))
    }
}

/// Goes on in `index`.
fn work(mut merging: Box<Merging>, index: &Index) -> State {
    merging.continue_at(index);
    match merging.next_group() {
        None => State::Idle(merging),
        Some(_) => State::Busy(tokio::spawn(merge_all(merging))),
    }
}

fn ended(merging: Result<Box<Merging>, JoinError>) -> Option<Box<Merging>> {
    merging.inspect_err(|error| tracing::warn!(%error, "merging was cut short")).ok()
}

/// Merges until nothing is left, or the store does not answer: the next commit tries again.
async fn merge_all(mut merging: Box<Merging>) -> Box<Merging> {
    while let Some(group) = merging.next_group() {
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
