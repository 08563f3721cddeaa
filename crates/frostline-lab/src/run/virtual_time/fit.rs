//! How well the model of OpenZFS holds: its two numbers are fitted to one half of the measured cells, and tested on the
//! other half.
//!
//! Which cells are in which half depends on [`SEED`] and their ids only, so that nobody can choose. The fit is a function of the
//! run's files: the same files give the same numbers.

use frostline_base::{Error, Result};
use frostline_model::catalogue::Catalogue;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;

use super::{STEADY_S, stack_and_job};
use crate::record::Run;
use crate::simulate::{Group, Job, Stack, simulate_only};
use crate::study::Study;

/// Of the choice of halves.
const SEED: u64 = 1;
/// What the model shall hold, in how much of the held-out half.
pub const ERROR_MAX: f64 = 0.15;
/// What is tried for the bytes that OpenZFS writes for one I/O unit, KiB.
const GATHERED_KIB: [u64; 12] = [32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 512, 1024];
/// What is tried for the requests of a transaction group to each volume.
const REQUESTS: [f64; 12] = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 32.0];
/// Where the search begins, and how often it goes along both axes.
const FIRST: (usize, usize) = (6, 4);
const ROUNDS: usize = 2;

/// The outcome.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Bytes that OpenZFS writes for one I/O unit of a volume.
    pub gathered_bytes: u64,
    /// Requests of a transaction group to each volume beside the data.
    pub group_requests: f64,
    /// Every cell that was measured and is modelled.
    pub cells: Vec<Tested>,
}

/// A cell that was measured and is modelled.
#[derive(Clone, Debug)]
pub struct Tested {
    /// Its id.
    pub id: String,
    /// Whether the numbers were fitted to it.
    pub is_training: bool,
    /// MiB/s.
    pub measured: f64,
    /// MiB/s.
    pub modelled: f64,
}

impl Tested {
    /// The model's error as a part of what was measured.
    pub fn error(&self) -> f64 {
        (self.modelled / self.measured - 1.0).abs()
    }
}

struct Case {
    id: String,
    is_training: bool,
    measured: f64,
    stack: Stack,
    job: Job,
}

/// Fits the model to one half of the cells of `run` that have aged records.
///
/// # Errors
/// Invalid if there are too few; as the model.
pub fn fit(study: &Study, run: &Run) -> Result<Fit> {
    let catalogue = Catalogue::latest();
    let cases = cases(study, run, &catalogue)?;
    let modelled = |case: &Case, gathered: u64, requests: f64| -> Result<f64> {
        let mut stack = case.stack.clone();
        stack.file_system.aggregate_bytes = Some(gathered);
        stack.file_system.group = stack.file_system.group.map(|group| Group { requests, ..group });
        Ok(simulate_only(&catalogue, &stack, &case.job, STEADY_S, SEED)?.mib_per_s)
    };
    let cost = |at: (usize, usize)| -> Result<f64> {
        let (gathered, requests) = (GATHERED_KIB[at.0] << 10, REQUESTS[at.1]);
        let training = cases.iter().filter(|case| case.is_training);
        let errors =
            training.map(|case| Ok((modelled(case, gathered, requests)? / case.measured).ln().abs()));
        errors.sum::<Result<f64>>()
    };
    let mut best = FIRST;
    for _ in 0..ROUNDS {
        best.0 = least(GATHERED_KIB.len(), |at| cost((at, best.1)))?;
        best.1 = least(REQUESTS.len(), |at| cost((best.0, at)))?;
    }
    let (gathered_bytes, group_requests) = (GATHERED_KIB[best.0] << 10, REQUESTS[best.1]);
    let tested = cases.iter().map(|case| {
        let modelled = modelled(case, gathered_bytes, group_requests)?;
        Ok(Tested { id: case.id.clone(), is_training: case.is_training, measured: case.measured, modelled })
    });
    Ok(Fit { gathered_bytes, group_requests, cells: tested.collect::<Result<_>>()? })
}

/// The index with the least cost.
fn least(count: usize, cost: impl Fn(usize) -> Result<f64>) -> Result<usize> {
    let costs = (0..count).map(cost).collect::<Result<Vec<f64>>>()?;
    Ok((0..count).min_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap_or(0))
}

/// The measured cells with aged records of random data, each in its half.
fn cases(study: &Study, run: &Run, catalogue: &Catalogue) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for cell in &run.cells {
        let planned = study.cell(&cell.id);
        let model = planned.and_then(|planned| study.groups[planned.group].model.as_ref());
        let Some((model, measured)) = model.zip(cell.measured.get("mib_per_s")) else { continue };
        let level = |factor: &str| cell.levels.get(factor).map(String::as_str);
        if level("age") != Some("aged") || level("data") != Some("random") || level("class") != Some("st1") {
            continue;
        }
        let (stack, job) = stack_and_job(catalogue, model, &cell.levels, run.time_scale)?;
        cases.push(Case { id: cell.id.clone(), is_training: false, measured: measured.median, stack, job });
    }
    if cases.len() < 8 {
        return Err(Error::invalid(format!(
            "{} measured cells with aged records are too few to fit",
            cases.len()
        )));
    }
    cases.sort_by(|a, b| a.id.cmp(&b.id));
    let mut order: Vec<usize> = (0..cases.len()).collect();
    order.shuffle(&mut SmallRng::seed_from_u64(SEED));
    let half = cases.len() / 2;
    order[..half].iter().for_each(|at| cases[*at].is_training = true);
    Ok(cases)
}
