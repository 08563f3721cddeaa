//! Derives the summary of a run from its samples: medians with intervals for each cell, paired ratios for each
//! comparison. Recomputed from all samples each time.

use std::collections::BTreeMap;

use frostline_show::show_count;

use crate::record::{Cell, Comparison, Mode, Run, Sample, Summary};
use crate::stats::{self, Ratio, StoppingRule};
use crate::study::plan::{Plan, PlannedCell};
use crate::study::{self, Study};
use crate::workload::unit;

/// Value by name of the metric.
pub type MetricValues = BTreeMap<String, f64>;

/// The model is said to hold for a metric of a cell if it is within this part of the measured median.
const MODEL_WITHIN: f64 = 0.10;

/// Value by block, by metric, by cell; of valid samples.
type Values<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeMap<u32, f64>>>;

/// The samples of a run, put in order.
pub struct Summarised<'a> {
    plan: &'a Plan,
    modelled: &'a BTreeMap<String, MetricValues>,
    values: Values<'a>,
    voided: BTreeMap<&'a str, Vec<&'a Sample>>,
    comparisons: Vec<Asked>,
}

/// A comparison with both its cells in the plan.
struct Asked {
    comparison: study::Comparison,
    null_control: bool,
}

impl<'a> Summarised<'a> {
    /// Puts `samples` in order.
    pub fn new(
        study: &'a Study,
        plan: &'a Plan,
        modelled: &'a BTreeMap<String, MetricValues>,
        samples: &'a [Sample],
    ) -> Summarised<'a> {
        let mut values = Values::new();
        let mut voided: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
        for sample in samples {
            if !sample.is_valid() {
                voided.entry(&sample.cell).or_default().push(sample);
                continue;
            }
            let cell = values.entry(&sample.cell).or_default();
            for (metric, value) in &sample.values {
                cell.entry(metric).or_default().insert(sample.block, *value);
            }
        }
        let comparisons = asked(study, plan, &values);
        Summarised { plan, modelled, values, voided, comparisons }
    }

    /// Whether the cell needs no more samples by `rule`.
    pub fn is_settled(&self, cell: &PlannedCell, rule: &StoppingRule) -> bool {
        let of =
            |asked: &&Asked| asked.comparison.numerator == cell.id || asked.comparison.denominator == cell.id;
        let mut ratios = self.comparisons.iter().filter(of).peekable();
        if ratios.peek().is_none() {
            return self.is_known_well(cell, rule);
        }
        ratios.all(|asked| self.ratio(&asked.comparison).is_some_and(|ratio| rule.stop(&ratio).is_some()))
    }

    /// For a cell that is compared with nothing.
    fn is_known_well(&self, cell: &PlannedCell, rule: &StoppingRule) -> bool {
        let Some(metrics) = self.values.get(cell.id.as_str()) else { return false };
        let main = MAIN_METRICS.iter().find_map(|metric| metrics.get(metric));
        let Some(values) = main.or_else(|| metrics.values().next()) else { return false };
        let values: Vec<f64> = values.values().copied().collect();
        values.len() >= rule.pairs_min
            && stats::median_interval(&values).is_some_and(|i| i.half_width() < rule.half_width_max)
    }

    /// The paired ratio, block by block; nothing without a pair.
    fn ratio(&self, comparison: &study::Comparison) -> Option<Ratio> {
        let of = |id: &str| self.values.get(id).and_then(|metrics| metrics.get(comparison.metric.as_str()));
        let (above, below) = (of(&comparison.numerator)?, of(&comparison.denominator)?);
        let pairs = above.iter().filter_map(|(block, value)| Some((*value, *below.get(block)?)));
        let (above, below): (Vec<f64>, Vec<f64>) = pairs.unzip();
        stats::paired_ratio(&above, &below)
    }

    /// The whole of it.
    pub fn into_run(self, header: Run, complete: bool) -> Run {
        let cells: Vec<Cell> = self.plan.cells.iter().map(|cell| self.cell(cell)).collect();
        let comparisons = self.compared();
        let mut notes = header.notes.clone();
        notes.extend(voided_note(&cells));
        notes.extend(model_note(&cells, header.mode));
        Run { cells, comparisons, notes, complete, ..header }
    }

    fn cell(&self, planned: &PlannedCell) -> Cell {
        let measured = self.values.get(planned.id.as_str()).into_iter().flatten();
        let voided = self.voided.get(planned.id.as_str()).map(Vec::as_slice).unwrap_or_default();
        let mut notes: Vec<String> = voided
            .iter()
            .flat_map(|sample| sample.gates.iter().filter(|gate| !gate.passed))
            .map(|gate| format!("voided by {}: {}", gate.name, gate.what))
            .collect();
        notes.sort();
        notes.dedup();
        Cell {
            id: planned.id.clone(),
            levels: planned.levels.clone(),
            how: planned.how,
            why: planned.why.clone(),
            measured: measured
                .filter_map(|(metric, values)| Some(((*metric).to_owned(), summary(metric, values)?)))
                .collect(),
            modelled: self.modelled.get(model_id(planned)).cloned().unwrap_or_default(),
            published: planned.published.clone(),
            voided: voided.len() as u32,
            notes,
        }
    }

    fn compared(&self) -> Vec<Comparison> {
        let ratios: Vec<Option<Ratio>> = self.comparisons.iter().map(|a| self.ratio(&a.comparison)).collect();
        // The null control is no hypothesis of the study.
        let tested: Vec<f64> = ratios
            .iter()
            .zip(&self.comparisons)
            .filter(|(_, asked)| !asked.null_control)
            .filter_map(|(ratio, _)| ratio.as_ref().map(|ratio| ratio.p))
            .collect();
        let mut corrected = stats::holm(&tested).into_iter();
        let mut all = Vec::new();
        for (asked, ratio) in self.comparisons.iter().zip(ratios) {
            let p = if asked.null_control { ratio.as_ref().map(|r| r.p) } else { None };
            let p = p.or_else(|| ratio.as_ref().and_then(|_| corrected.next()));
            all.extend(self.comparison(asked, ratio, p));
        }
        all
    }

    /// Nothing if it was neither measured nor modelled.
    fn comparison(&self, asked: &Asked, ratio: Option<Ratio>, p_holm: Option<f64>) -> Option<Comparison> {
        let wanted = &asked.comparison;
        let of = |id: &str| self.modelled.get(plain_id(id)).and_then(|m| m.get(&wanted.metric)).copied();
        let modelled = of(&wanted.numerator).zip(of(&wanted.denominator)).map(|(a, b)| a / b);
        let modelled = modelled.filter(|ratio| ratio.is_finite());
        let (estimate, low, high) = match &ratio {
            Some(ratio) => (ratio.interval.estimate, ratio.interval.low, ratio.interval.high),
            None => modelled.map(|ratio| (ratio, ratio, ratio))?,
        };
        let expected = if asked.null_control { None } else { wanted.expected };
        let met = match (asked.null_control, &ratio) {
            (true, Some(ratio)) => Some(ratio.interval.covers(1.0)),
            _ => expected.map(|(least, most)| (least..=most).contains(&estimate)),
        };
        Some(Comparison {
            name: wanted.name.clone(),
            numerator: wanted.numerator.clone(),
            denominator: wanted.denominator.clone(),
            metric: wanted.metric.clone(),
            ratio: estimate,
            low,
            high,
            confidence: ratio.as_ref().map(|ratio| ratio.interval.confidence),
            pairs: ratio.as_ref().map_or(0, |ratio| ratio.pairs as u32),
            // Not a number where the pairs are too few to show anything.
            smallest_difference: ratio.as_ref().and_then(|r| r.smallest_difference).unwrap_or(f64::NAN),
            p_holm: p_holm.filter(|p| p.is_finite()),
            modelled,
            published: wanted.published,
            expected,
            null_control: asked.null_control,
            met,
        })
    }
}

/// What a cell is first asked for.
const MAIN_METRICS: &[&str] =
    &["mib_per_s", "write_iops", "mb_per_s", "iops", "tps", "events_per_s", "gbit_per_s"];

fn asked(study: &Study, plan: &Plan, values: &Values<'_>) -> Vec<Asked> {
    let has = |id: &str| plan.cells.iter().any(|cell| cell.id == id);
    let mut all: Vec<Asked> = study
        .comparisons
        .iter()
        .filter(|c| has(&c.numerator) && has(&c.denominator))
        .map(|comparison| Asked { comparison: comparison.clone(), null_control: false })
        .collect();
    let copies: Vec<_> =
        plan.cells.iter().filter_map(|cell| Some((cell.id.clone(), cell.control_of.clone()?))).collect();
    let is_only = copies.len() == 1;
    for (copy, original) in copies {
        let of = |c: &&study::Comparison| c.numerator == original || c.denominator == original;
        let compared = study.comparisons.iter().find(of).map(|c| c.metric.as_str());
        // A cell that is compared with no other has a main metric nevertheless.
        let has =
            |metric: &&&str| values.get(original.as_str()).is_some_and(|has| has.contains_key(**metric));
        let metric = compared.or_else(|| MAIN_METRICS.iter().find(has).copied()).unwrap_or(MAIN_METRICS[0]);
        let comparison = study::Comparison {
            // Two of a run are told apart by what they measure.
            name: if is_only { "null control".to_owned() } else { format!("null control, {metric}") },
            numerator: copy,
            denominator: original,
            metric: metric.to_owned(),
            published: None,
            expected: None,
        };
        all.push(Asked { comparison, null_control: true });
    }
    all
}

fn summary(metric: &str, values: &BTreeMap<u32, f64>) -> Option<Summary> {
    let values: Vec<f64> = values.values().copied().collect();
    let interval = stats::median_interval(&values)?;
    Some(Summary {
        unit: unit(metric).to_owned(),
        values,
        median: interval.estimate,
        low: interval.low,
        high: interval.high,
        confidence: Some(interval.confidence),
    })
}

fn model_id(cell: &PlannedCell) -> &str {
    cell.control_of.as_deref().unwrap_or(&cell.id)
}

fn plain_id(id: &str) -> &str {
    id.strip_suffix(&format!(",control={}", study::CONTROL)).unwrap_or(id)
}

const VOIDED: &str = "VOIDED: ";
const MODEL: &str = "The model is within ";

/// Whether a note of a run is one that [`Summarised::into_run`] adds.
pub fn adds(note: &str) -> bool {
    note.starts_with(VOIDED) || note.starts_with(MODEL)
}

pub(super) fn voided_note(cells: &[Cell]) -> Option<String> {
    let voided: u32 = cells.iter().map(|cell| cell.voided).sum();
    let of = cells.iter().filter(|cell| cell.voided > 0).count();
    let is_busy = cells.iter().flat_map(|cell| &cell.notes).any(|note| note.contains("cpu_pressure"));
    let hint = match is_busy {
        true => " For cpu_pressure, run when this machine is idle, or allow more with --cpu-pressure-max.",
        false => "",
    };
    (voided > 0).then(|| {
        let (voided, of) = (show_count(voided.into(), "sample"), show_count(of as u64, "cell"));
        format!("{VOIDED}{voided} in {of}; they are in no figure. Each cell says why.{hint}")
    })
}

/// How well the model holds, over every throughput that was both measured and modelled.
fn model_note(cells: &[Cell], mode: Mode) -> Option<String> {
    if mode == Mode::Simulate {
        return None;
    }
    let errors: Vec<f64> = cells
        .iter()
        .filter_map(|cell| {
            let (measured, modelled) = (cell.measured.get("mib_per_s")?, cell.modelled.get("mib_per_s")?);
            Some((modelled - measured.median).abs() / measured.median)
        })
        .collect();
    let within = errors.iter().filter(|error| **error <= MODEL_WITHIN).count();
    let worst = errors.iter().copied().fold(0.0, f64::max);
    (!errors.is_empty()).then(|| {
        let percent = 100.0 * within as f64 / errors.len() as f64;
        format!(
            "{MODEL}10 % of the measured MiB/s in {within} of {} cells ({percent:.0} %); the largest error is {:.1} %.",
            errors.len(),
            100.0 * worst
        )
    })
}

#[cfg(test)]
mod tests;
