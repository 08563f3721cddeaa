//! The outcome of each split that a leaf was to search. It travels with the answer, as a column.

use frostline_base::{Cost, Meter, SplitId};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The report of a leaf.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The numbers of the splits that were searched, or did not need to be.
    pub(crate) answered: Vec<u32>,
    /// The splits that could not be read.
    pub(crate) failed: Vec<Failure>,
    /// Rows that match; more than the limit if counting stopped early.
    pub(crate) matched: u64,
    pub(crate) counts: Counts,
    pub(crate) cost: Cost,
}

/// The sources from which the splits were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// The catalog or the digest.
    pub(crate) answered_digest: u64,
    /// Postings and columns.
    pub(crate) opened: u64,
    /// Those of the opened in which nothing matches.
    pub(crate) empty: u64,
}

/// A split that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) ordinal: u32,
    pub(crate) split: SplitId,
    pub(crate) object: String,
    /// Elasticsearch's name for the kind of error.
    pub(crate) kind: String,
    pub(crate) reason: String,
}

/// The sum of two costs.
pub(crate) fn both(one: &Cost, other: &Cost) -> Cost {
    let sum = Meter::default();
    sum.add_cost(one);
    sum.add_cost(other);
    sum.cost()
}

/// Reports what a leaf has done so far.
pub(crate) type Told = Box<dyn Fn() -> Report + Send>;

impl Report {
    /// Adds the report of another leaf on other splits, or of a further step of the same leaf.
    pub(crate) fn add(&mut self, other: Report) {
        self.answered.extend(other.answered);
        for failure in other.failed {
            if !self.failed.iter().any(|known| known.ordinal == failure.ordinal) {
                self.failed.push(failure);
            }
        }
        self.matched += other.matched;
        self.counts.answered_digest += other.counts.answered_digest;
        self.counts.opened += other.counts.opened;
        self.counts.empty += other.counts.empty;
        self.cost = both(&self.cost, &other.cost);
    }

    /// Checks that each of `targets` splits was answered or failed, and none twice. Anything else is our bug,
    /// and would be a wrong count.
    pub(crate) fn check(&self, targets: &[u32]) -> Result<()> {
        let failed = self.failed.iter().map(|failure| failure.ordinal);
        let mut told: Vec<u32> = self.answered.iter().copied().chain(failed).collect();
        told.sort_unstable();
        if told == targets {
            return Ok(());
        }
        let (told, wanted) = (told.len(), targets.len());
        Err(Error::internal(format!(
            "{wanted} splits were to be searched, but {told} splits, or others, were reported"
        )))
    }

    pub(crate) fn write(&self) -> Result<Vec<u8>> {
        postcard::to_allocvec(self).map_err(|e| Error::internal("a report cannot be written").with_source(e))
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Report> {
        postcard::from_bytes(bytes).map_err(|e| Error::corrupt("a report cannot be read").with_source(e))
    }
}

#[cfg(test)]
mod tests;
