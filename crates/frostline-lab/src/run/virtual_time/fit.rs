//! How well the model of OpenZFS holds: its numbers are fitted to one half of the measured cells, and tested on the
//! other half.
//!
//! Which cells are in which half depends on [`SEED`] and their ids only, so that nobody can choose. The fit is a function of the
//! run's files: the same files give the same numbers.

use std::collections::BTreeMap;

use frostline_base::{Error, Result};
use frostline_model::catalogue::Catalogue;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;

use super::{STEADY_S, stack_and_job};
use crate::guest::kept::RAMP_S;
use crate::record::{Cell, Run};
use crate::simulate::{Group, Job, Stack, simulate_only};
use crate::study::Study;

/// Of the choice of halves.
const SEED: u64 = 1;
/// What the model shall hold, in how much of the held-out half.
pub const ERROR_MAX: f64 = 0.15;
/// What is tried for the bytes that OpenZFS writes for one I/O unit, KiB.
const GATHERED_KIB: [f64; 11] = [32.0, 48.0, 64.0, 80.0, 96.0, 112.0, 128.0, 192.0, 256.0, 512.0, 1024.0];
/// What is tried for the requests of a transaction group to each volume.
const REQUESTS: [f64; 7] = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
/// What is tried for the time that an emulated CPU takes for a request, ms.
const LATENCY_MS: [f64; 9] = [0.0, 5.0, 10.0, 20.0, 40.0, 60.0, 80.0, 160.0, 320.0];
/// Writes of which nothing was seen are taken for this part.
const REACHED_MIN: f64 = 0.01;
const MIB: f64 = 1_048_576.0;
const TRIED: [&[f64]; 3] = [&GATHERED_KIB, &REQUESTS, &LATENCY_MS];
/// Where the search begins among them.
const FIRST: [usize; 3] = [6, 3, 3];

/// The outcome.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Bytes that OpenZFS writes for one I/O unit of a volume.
    pub gathered_bytes: u64,
    /// Requests of a transaction group to each volume beside the data.
    pub group_requests: f64,
    /// Time that a request took beside the volumes', ms: of the emulation, not of OpenZFS.
    pub latency_ms: f64,
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
    /// Part of the written records that had reached the volumes.
    reached: f64,
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
    let modelled = |case: &Case, [gathered_kib, requests, latency_ms]: [f64; 3]| -> Result<f64> {
        let mut stack = case.stack.clone();
        stack.file_system.aggregate_bytes = Some((gathered_kib * 1024.0 / case.reached) as u64);
        stack.file_system.group = stack.file_system.group.map(|group| Group { requests, ..group });
        stack.latency_ms = latency_ms;
        Ok(simulate_only(&catalogue, &stack, &case.job, STEADY_S, SEED)?.mib_per_s)
    };
    let cost = |numbers: [f64; 3]| -> Result<f64> {
        let training = cases.iter().filter(|case| case.is_training);
        let errors = training.map(|case| Ok((modelled(case, numbers)? / case.measured).ln().abs()));
        errors.sum::<Result<f64>>()
    };
    let best = lowest(FIRST, |at| cost(numbers(at)))?;
    let best = numbers(best);
    let tested = cases.iter().map(|case| {
        let modelled = modelled(case, best)?;
        Ok(Tested { id: case.id.clone(), is_training: case.is_training, measured: case.measured, modelled })
    });
    let cells = tested.collect::<Result<_>>()?;
    let [gathered_kib, group_requests, latency_ms] = best;
    Ok(Fit { gathered_bytes: gathered_kib as u64 * 1024, group_requests, latency_ms, cells })
}

fn numbers(at: [usize; 3]) -> [f64; 3] {
    [TRIED[0][at[0]], TRIED[1][at[1]], TRIED[2][at[2]]]
}

/// Goes to the cheapest neighbour, along one axis or several at once, until none is cheaper.
fn lowest(first: [usize; 3], cost: impl Fn([usize; 3]) -> Result<f64>) -> Result<[usize; 3]> {
    let mut known: BTreeMap<[usize; 3], f64> = BTreeMap::new();
    let mut best = (first, cost(first)?);
    loop {
        let centre = best.0;
        for step in 0..27_usize {
            let moved = [0, 1, 2].map(|axis| {
                let by = step / 3_usize.pow(axis as u32) % 3;
                (centre[axis] + by).saturating_sub(1).min(TRIED[axis].len() - 1)
            });
            let cost = match known.get(&moved) {
                Some(cost) => *cost,
                None => cost(moved)?,
            };
            known.insert(moved, cost);
            if cost < best.1 {
                best = (moved, cost);
            }
        }
        if best.0 == centre {
            return Ok(centre);
        }
    }
}

/// How much of the data the cache had in the middle of the sample: it was empty before, and had what was read since.
/// Slowed volumes do not fill it in a sample, and the model's cache is full.
fn cached(cell: &Cell, job: &Job, seconds: f64) -> Option<u64> {
    let read = cell.measured.get("device_read_mib_per_s")?.median * MIB;
    let set = job.set_bytes as f64;
    let by_then = read * (RAMP_S as f64 + seconds / 2.0);
    // Of bytes that are read at random places some are the same.
    Some((set * (1.0 - (-by_then / set).exp())) as u64)
}

/// What part of the written records had reached the volumes. OpenZFS writes them when it closes a transaction group,
/// which on slowed volumes may be after the sample; the model's writes are all paid for.
fn reached(cell: &Cell, job: &Job, record_bytes: u64) -> Option<f64> {
    let rate = |metric: &str| cell.measured.get(metric).map(|summary| summary.median);
    let whole_records = (record_bytes as f64 / job.block_bytes as f64).max(1.0);
    let dirtied = rate("mib_per_s")? * (1.0 - job.read_percent / 100.0) * whole_records;
    Some((rate("device_write_mib_per_s")? / dirtied).clamp(REACHED_MIN, 1.0))
}

/// The measured cells with aged records of random data, each in its half.
fn cases(study: &Study, run: &Run, catalogue: &Catalogue) -> Result<Vec<Case>> {
    let seconds = study.variant(run.mode)?.seconds;
    let mut cases = Vec::new();
    for cell in &run.cells {
        let planned = study.cell(&cell.id);
        let model = planned.and_then(|planned| study.groups[planned.group].model.as_ref());
        let Some((model, measured)) = model.zip(cell.measured.get("mib_per_s")) else { continue };
        let level = |factor: &str| cell.levels.get(factor).map(String::as_str);
        if level("age") != Some("aged") || level("data") != Some("random") || level("class") != Some("st1") {
            continue;
        }
        let (mut stack, job) = stack_and_job(catalogue, model, &cell.levels, run.time_scale)?;
        if let (Some(cache), Some(bytes)) = (&mut stack.cache, cached(cell, &job, seconds)) {
            cache.bytes = cache.bytes.min(bytes);
        }
        let record = stack.file_system.record_bytes;
        let reached = record.and_then(|record| reached(cell, &job, record)).unwrap_or(1.0);
        let (id, measured) = (cell.id.clone(), measured.median);
        cases.push(Case { id, is_training: false, measured, reached, stack, job });
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

#[cfg(test)]
mod tests;
