//! The volume model's results for a study's cells: the same stacks and jobs in virtual time.

pub mod fit;

use std::collections::BTreeMap;

use frostline_base::{Error, Result};
use frostline_model::catalogue::Catalogue;
use frostline_model::{Balance, VolumeSpec, best_count};

use super::summary::MetricValues;
use crate::simulate::{Cache, FileSystem, Job, Stack, simulate, simulate_only};
use crate::study::plan::{Plan, PlannedCell};
use crate::study::{Model, Study, fill, word};

const GIB: f64 = 1_073_741_824.0;
/// Seconds after which the rate of slowed volumes is known to about a percent.
const STEADY_S: f64 = 120.0;
/// Nothing beside what a volume takes.
const CACHE_HIT_MS: f64 = 0.05;

/// Metrics by cell, for the cells of the plan that have a model.
///
/// With a `bucket` in the model, `mib_per_s`, `iops` and latencies are of a sample that starts with it.
/// Without, they are of full buckets, and `drained_mib_per_s` of empty ones. `burst_limit_mib_per_s` and
/// `base_limit_mib_per_s` are what the volumes may do in large sequential requests, `burst_hours` how long
/// they may while doing it.
///
/// # Errors
/// Invalid for a class, size or number that cannot be read.
pub fn modelled(study: &Study, plan: &Plan, seed: u64) -> Result<BTreeMap<String, MetricValues>> {
    let catalogue = Catalogue::latest();
    let time_scale = study.variant(plan.mode)?.time_scale;
    let mut all = BTreeMap::new();
    for cell in plan.cells.iter().filter(|cell| cell.control_of.is_none()) {
        let Some(model) = &study.groups[cell.group_index].model else { continue };
        let values = metrics(&catalogue, model, cell, plan.sample_seconds, time_scale, seed)
            .map_err(|error| error.with("cell", &cell.id))?;
        all.insert(cell.id.clone(), values);
    }
    Ok(all)
}

/// What a cell is in the model: with a `bucket`, as it is at the start of a sample.
fn stack_and_job(
    catalogue: &Catalogue,
    model: &Model,
    levels: &BTreeMap<String, String>,
    time_scale: f64,
) -> Result<(Stack, Job)> {
    let text = |template: &str| fill(template, levels);
    let (count, volume) = volumes(&text(&model.class)?, &text(&model.volumes)?)?;
    volume.limits(catalogue)?;
    let mut stack = Stack::new(file_system(model, &text)?, volume, count);
    stack.slowed = model.slowed.unwrap_or(1.0);
    stack.cache = model.cache_gib.map(|gib| Cache { bytes: (gib * GIB) as u64, hit_ms: CACHE_HIT_MS });
    if let Some(stripe) = &model.stripe {
        stack.chunk_bytes = bytes(&text(stripe)?)?;
    }
    if let Some(bucket) = &model.bucket {
        (stack.start, stack.time_scale) = bucket_of(&text(bucket)?, time_scale)?;
    }
    Ok((stack, job(model, &text)?))
}

fn metrics(
    catalogue: &Catalogue,
    model: &Model,
    cell: &PlannedCell,
    seconds: f64,
    time_scale: f64,
    seed: u64,
) -> Result<MetricValues> {
    let (stack, job) = stack_and_job(catalogue, model, &cell.levels, time_scale)?;
    let limits = stack.volume.limits(catalogue)?.slowed(stack.slowed);
    let count = stack.count;
    // A slowed volume serves so few requests in a sample that the model's own chance would show.
    let seconds = if stack.slowed > 1.0 { seconds.max(STEADY_S) } else { seconds };
    let simulate = if model.bucket.is_some() { simulate_only } else { simulate };
    let outcome = simulate(catalogue, &stack, &job, seconds, seed)?;
    let mut values = BTreeMap::from([
        ("mib_per_s", outcome.mib_per_s),
        ("iops", outcome.iops),
        ("p50_ms", outcome.p50_ms),
        ("p99_ms", outcome.p99_ms),
        ("burst_limit_mib_per_s", f64::from(count) * limits.sequential_mib_per_s(false)),
        ("base_limit_mib_per_s", f64::from(count) * limits.sequential_mib_per_s(true)),
    ]);
    if model.bucket.is_none() {
        values.insert("drained_mib_per_s", outcome.drained_mib_per_s);
        if let Some(burst_s) = limits.burst_seconds(limits.burst) {
            values.insert("burst_hours", burst_s / 3600.0);
        }
    }
    Ok(values.into_iter().map(|(metric, value)| (metric.to_owned(), value)).collect())
}

fn file_system(model: &Model, text: &dyn Fn(&str) -> Result<String>) -> Result<FileSystem> {
    let name = text(&model.file_system)?;
    match name.as_str() {
        "ext4" => Ok(FileSystem::ext4()),
        "xfs" => Ok(FileSystem::xfs()),
        "btrfs" => Ok(FileSystem::btrfs(model.compress)),
        "openzfs" => {
            let record = bytes(&text(model.record.as_deref().unwrap_or("128k"))?)?;
            match &model.age {
                None => Ok(FileSystem::zfs(record, model.compress)),
                Some(age) => {
                    let scattered = word(&text(age)?, &[("fresh", false), ("aged", true)])?;
                    Ok(FileSystem::zfs_measured(record, model.compress, scattered))
                }
            }
        }
        _ => Err(Error::invalid(format!(
            "the model has no file system `{name}`; it has ext4, xfs, btrfs, openzfs"
        ))),
    }
}

fn job(model: &Model, text: &dyn Fn(&str) -> Result<String>) -> Result<Job> {
    Ok(Job {
        read_percent: model.read_percent,
        block_bytes: bytes(&text(&model.block)?)?,
        outstanding: model.outstanding,
        threads: model.threads,
        sequential: model.sequential,
        compression_ratio: model.compression_ratio.unwrap_or(1.0),
        set_bytes: (model.set_gib * GIB) as u64,
    })
}

/// The balance and time scale of `full`, `empty` and `cliff`.
///
/// # Errors
/// Invalid for another word.
pub fn bucket_of(word: &str, time_scale: f64) -> Result<(Balance, f64)> {
    match word {
        "full" => Ok((Balance::Full, 1.0)),
        "empty" => Ok((Balance::Empty, 1.0)),
        "cliff" => Ok((Balance::Full, time_scale)),
        _ => Err(Error::invalid(format!("a bucket is full, empty or cliff, not `{word}`"))),
    }
}

/// Reads `COUNTxSIZE[,iops=N][,mbps=N]`, such as `4x2TiB`.
///
/// # Errors
/// Invalid for anything else.
pub fn volumes(class: &str, text: &str) -> Result<(u32, VolumeSpec)> {
    let wrong = || Error::invalid(format!("volumes are COUNTxSIZE, such as 4x2TiB, not `{text}`"));
    let (count, size) = text.split_once('x').ok_or_else(wrong)?;
    let count: u32 = count.parse().ok().filter(|count| (1..=64).contains(count)).ok_or_else(wrong)?;
    Ok((count, VolumeSpec::parse(&Catalogue::latest(), &format!("{class}:{size}"))?))
}

/// Reads `128k` or `1m`.
///
/// # Errors
/// Invalid for anything else.
pub fn bytes(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => 0,
    };
    let number: Option<u64> = digits.parse().ok();
    number
        .and_then(|number| number.checked_mul(unit))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| Error::invalid(format!("`{text}` is not a size such as 128k")))
}

/// What the model answers beside the cells: the questions that the published warm-tier study left open.
pub fn notes(study: &Study, plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    let uses_st1 = study.groups.iter().any(|g| g.model.as_ref().is_some_and(|m| m.class == "st1"));
    if uses_st1 {
        notes.extend(counts(&Catalogue::latest()));
    }
    let scale = study.variant(plan.mode).map_or(1.0, |variant| variant.time_scale);
    let cliff = plan.cells.iter().any(|cell| cell.is_run() && cell.levels.values().any(|l| l == "cliff"));
    if cliff && scale > 1.0 {
        notes.push(format!("Time scale {scale}: the buckets of the cells with bucket=cliff are {scale} times smaller than real ones, and so is the time until they are empty; rates are real. All other cells are unscaled."));
    }
    notes
}

fn counts(catalogue: &Catalogue) -> Vec<String> {
    let best = |class: &str| {
        let (count, burst) = best_count(catalogue, class, 8192.0, 8)?;
        let limits = VolumeSpec::new(class, 8192.0 / f64::from(count)).limits(catalogue).ok()?;
        let hours = limits.burst_seconds(limits.burst)? / 3600.0;
        let base = f64::from(count) * limits.sequential_mib_per_s(true);
        Some(format!(
            "8 TiB of {class}: {count} volumes are the fewest with the highest burst, {burst:.0} MiB/s for {hours:.2} h from full buckets, then {base:.0} MiB/s. More volumes add nothing."
        ))
    };
    ["st1", "sc1"].into_iter().filter_map(best).collect()
}

#[cfg(test)]
mod tests;
