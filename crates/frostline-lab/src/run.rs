//! A run of a study: blocks of all its cells, each in its own order; samples recorded as they
//! are taken; cells that stop when their ratios are known well enough; and the [`summary`].
//!
//! The order of a block, and which cells still run in it, depend only on the seed and on the samples
//! of earlier blocks, so that an interrupted run resumes exactly as it would have continued.

pub mod gates;
pub mod journal;
pub mod live;
pub mod summary;
pub mod virtual_time;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use frostline_base::{Clock, Error, ErrorKind, Result};

use self::journal::Journal;
use self::summary::{MetricValues, Summarised};
use crate::host::facts;
use crate::host::process::Stop;
use crate::record::{Gate, Run, Sample};
use crate::stats::{self, StoppingRule};
use crate::study::Study;
use crate::study::plan::{Plan, PlannedCell};

/// With less space than this under a run, the output of tools cannot be kept.
const FREE_BYTES_MIN: u64 = 1 << 20;

/// What takes samples: the host, or a test.
pub trait Executor {
    /// Takes one sample of `cell`; what tools print goes to files that begin with `stem`.
    ///
    /// # Errors
    /// Internal, a wish to stop and a full disk under the run end the run; any other error voids the sample.
    fn sample(&mut self, cell: &PlannedCell, block: u32, stem: &Path) -> Result<Taken>;
}

/// One sample as it was taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// Values by metric.
    pub values: BTreeMap<String, f64>,
    /// What was judged.
    pub gates: Vec<Gate>,
}

/// Who watches a run.
pub trait Progress {
    /// `done` of at most `total` samples are there.
    fn begin(&mut self, done: u64, total: u64);
    /// A sample of this cell is about to be taken.
    fn taking(&mut self, cell: &str);
    /// It is there. `left` more are planned at most.
    fn taken(&mut self, sample: &Sample, left: u64);
    /// Something that a person must know.
    fn say(&mut self, what: &str);
}

/// Nobody watches.
#[derive(Debug)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn begin(&mut self, _: u64, _: u64) {}
    fn taking(&mut self, _: &str) {}
    fn taken(&mut self, _: &Sample, _: u64) {}
    fn say(&mut self, _: &str) {}
}

/// What a run needs beside its executor.
pub struct Running<'a> {
    /// The study.
    pub study: &'a Study,
    /// Its plan.
    pub plan: &'a Plan,
    /// Says how long samples take.
    pub clock: &'a dyn Clock,
    /// Ends the run early, resumably.
    pub stop: &'a Stop,
    /// What the volume model says, by cell and metric.
    pub modelled: &'a BTreeMap<String, MetricValues>,
}

impl Running<'_> {
    /// Takes all samples that `journal` lacks and returns the run with its summaries, which is also in
    /// `run.json`.
    ///
    /// # Errors
    /// As the executor and the journal. What was taken stays and can be resumed.
    pub fn run(
        &self,
        header: Run,
        journal: &mut Journal,
        executor: &mut dyn Executor,
        progress: &mut dyn Progress,
    ) -> Result<Run> {
        let began = self.clock.now_us();
        let earlier_s = journal.samples().iter().map(|s| s.at_s + s.seconds).fold(0.0, f64::max);
        progress.begin(
            journal.samples().len() as u64,
            self.left(journal, 0, &BTreeSet::new()) + journal.samples().len() as u64,
        );
        for block in 0..self.plan.blocks.1 {
            let settled = self.settled(block, journal.samples());
            for (position, at) in self.plan.block(block).into_iter().enumerate() {
                let cell = &self.plan.cells[at];
                if settled.contains(cell.id.as_str()) || journal.has(&cell.id, block) {
                    continue;
                }
                self.stop.check()?;
                progress.taking(&cell.id);
                let at_s = earlier_s + self.seconds_since(began);
                let sample = self.take(cell, block, position as u32, at_s, journal, executor)?;
                journal.append(sample.clone())?;
                journal.write_run(&self.summarised(&header, journal, false))?;
                progress.taken(&sample, self.left(journal, block, &settled));
            }
        }
        let run = self.summarised(&header, journal, true);
        journal.write_run(&run)?;
        Ok(run)
    }

    fn take(
        &self,
        cell: &PlannedCell,
        block: u32,
        position: u32,
        at_s: f64,
        journal: &Journal,
        executor: &mut dyn Executor,
    ) -> Result<Sample> {
        let began = self.clock.now_us();
        let raw = raw_name(cell, block, position);
        let taken = match executor.sample(cell, block, &journal.raw(&raw)) {
            Ok(taken) => taken,
            Err(error) if self.stop.is_asked() || error.kind() == ErrorKind::Internal => return Err(error),
            // What the tool said could not be kept: that is not the sample's fault.
            Err(error) if facts::free_bytes(journal.folder())? < FREE_BYTES_MIN => {
                let folder = journal.folder().display();
                return Err(Error::exhausted(format!(
                    "the disk of {folder} is full: free space there, then continue with --resume {folder}"
                ))
                .with_source(error));
            }
            Err(error) => Taken { gates: vec![gates::failed(&error)], ..Taken::default() },
        };
        let Taken { values, gates } = taken;
        let seconds = self.seconds_since(began);
        Ok(Sample { cell: cell.id.clone(), block, position, at_s, seconds, values, gates, raw })
    }

    fn seconds_since(&self, began_us: i64) -> f64 {
        (self.clock.now_us() - began_us).max(0) as f64 / 1e6
    }

    fn summarised(&self, header: &Run, journal: &Journal, complete: bool) -> Run {
        let summarised = Summarised::new(self.study, self.plan, self.modelled, journal.samples());
        summarised.into_run(header.clone(), complete)
    }

    /// Samples that may still be taken from `block` on.
    fn left(&self, journal: &Journal, block: u32, settled: &BTreeSet<String>) -> u64 {
        let later = block..self.plan.blocks.1;
        later
            .map(|block| {
                let cells = self.plan.block(block).into_iter().map(|at| &self.plan.cells[at].id);
                cells.filter(|id| !settled.contains(*id) && !journal.has(id, block)).count() as u64
            })
            .sum()
    }

    /// The cells that need no sample in `block`, by the samples of earlier blocks.
    ///
    /// A cell is settled when all its ratios are: their 95 % interval is tight. A cell in no ratio is
    /// settled when the interval of its own main metric is.
    fn settled(&self, block: u32, samples: &[Sample]) -> BTreeSet<String> {
        let variant_min = self.plan.blocks.0;
        if block < variant_min {
            return BTreeSet::new();
        }
        let Ok(variant) = self.study.variant(self.plan.mode) else { return BTreeSet::new() };
        let rule = StoppingRule {
            // With fewer pairs there is no interval of 95 %.
            pairs_min: stats::PAIRS_MIN.max(variant_min as usize),
            pairs_max: usize::MAX,
            half_width_max: variant.half_width,
        };
        let earlier: Vec<Sample> = samples.iter().filter(|s| s.block < block).cloned().collect();
        let summarised = Summarised::new(self.study, self.plan, self.modelled, &earlier);
        let run = self.plan.cells.iter().filter(|cell| cell.is_run());
        run.filter(|cell| summarised.is_settled(cell, &rule)).map(|cell| cell.id.clone()).collect()
    }
}

/// A name for a sample's raw output: short, unique in the run, and safe as a file name.
fn raw_name(cell: &PlannedCell, block: u32, position: u32) -> String {
    let plain: String = cell
        .levels
        .values()
        .flat_map(|level| level.chars().chain(['_']))
        .map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' })
        .take(100)
        .collect();
    format!("{block:03}-{position:03}-{}", plain.trim_end_matches('_'))
}

/// Where the runs of `study` go when no folder is named: `<data>/lab/runs/<study>-<started>`.
///
/// # Errors
/// Internal if the time cannot be written.
pub fn default_folder(data: &Path, study: &str, started: &str) -> PathBuf {
    let stamp: String = started.chars().filter(|c| c.is_ascii_alphanumeric()).take(15).collect();
    data.join("lab/runs").join(format!("{study}-{stamp}"))
}

/// `now_us` as RFC 3339 in UTC, to the second.
///
/// # Errors
/// Invalid beyond the calendar.
pub fn rfc3339(now_us: i64) -> Result<String> {
    jiff::Timestamp::from_second(now_us.div_euclid(1_000_000))
        .map(|time| time.to_string())
        .map_err(|e| Error::invalid("the clock is beyond the calendar").with_source(e))
}

#[cfg(test)]
mod tests;
