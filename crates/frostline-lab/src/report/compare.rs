//! Compares two runs: what changed around them, and each metric of each cell that both have.
//!
//! Blocks of different runs are not pairs, whatever their numbers, so the intervals are those of unpaired
//! samples.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use frostline_base::{Error, Result};
use serde::Serialize;

use super::text::{self, bytes, mode, number, p_value, percent, plain};
use crate::record::{Cell, FORMAT, Run};
use crate::stats::{self, Ratio};

/// Two runs against each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Version of this document, that of the runs' files.
    pub format: u32,
    /// The study of both.
    pub study: String,
    /// When each began.
    pub started: [String; 2],
    /// What differs around the runs: seeds, machine, tools, command. Empty if nothing does.
    pub changes: Vec<Change>,
    /// Metrics of cells that both measured, in the order of the first run.
    pub cells: Vec<CellChange>,
    /// Cells (or metrics, as `cell: metric`) that only the first run measured.
    pub only_first: Vec<String>,
    /// As `only_first`, for the second.
    pub only_second: Vec<String>,
}

/// One thing that differs around two runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What it is, such as `kernel` or `tool fio`.
    pub what: String,
    /// Of the first run.
    pub first: String,
    /// Of the second.
    pub second: String,
}

/// One metric of one cell in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellChange {
    /// Id of the cell.
    pub cell: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Median of the first run.
    pub first: f64,
    /// Median of the second.
    pub second: f64,
    /// How many times larger the second is: median of all ratios of a value to one of the first.
    pub ratio: f64,
    /// 95 % interval of the ratio, or the range of ratios where there are too few values for one.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// What the interval is worth: 0.95 or more, less where there are too few values.
    pub confidence: f64,
    /// Two-sided p of the Mann-Whitney test, Holm-corrected over all cells compared.
    pub p_holm: f64,
    /// The smallest difference, as a part of 1, that these values could have shown; absent if they can show none.
    pub smallest_difference: Option<f64>,
    /// Whether a difference was shown: the interval excludes 1 and `p_holm` is below 0.05.
    pub differs: bool,
}

/// Compares the second run with the first. `Invalid` if they are runs of different studies.
pub fn compare(first: &Run, second: &Run) -> Result<Compared> {
    if first.study != second.study {
        return Err(Error::invalid("runs of different studies have no cells in common")
            .with("first", plain(&first.study))
            .with("second", plain(&second.study)));
    }
    let measured = |run: &Run| -> BTreeSet<(String, String)> {
        let of_cell = |cell: &Cell| {
            let id = cell.id.clone();
            cell.measured.keys().map(move |metric| (id.clone(), metric.clone())).collect::<Vec<_>>()
        };
        run.cells.iter().flat_map(of_cell).collect()
    };
    let (of_first, of_second) = (measured(first), measured(second));
    let only = |these: &BTreeSet<(String, String)>, others: &BTreeSet<(String, String)>| {
        these.difference(others).map(|(cell, metric)| format!("{cell}: {metric}")).collect()
    };
    Ok(Compared {
        format: FORMAT,
        study: first.study.clone(),
        started: [first.started.clone(), second.started.clone()],
        changes: changes(first, second),
        cells: cell_changes(first, second),
        only_first: only(&of_first, &of_second),
        only_second: only(&of_second, &of_first),
    })
}

fn changes(first: &Run, second: &Run) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut note = |what: String, first: String, second: String| {
        if first != second {
            changes.push(Change { what, first, second });
        }
    };
    for ((what, of_first), (_, of_second)) in surroundings(first).into_iter().zip(surroundings(second)) {
        note(what.to_owned(), of_first, of_second);
    }
    let tools: BTreeSet<&String> = first.tools.keys().chain(second.tools.keys()).collect();
    for tool in tools {
        let version = |run: &Run| run.tools.get(tool).cloned().unwrap_or_else(|| "–".to_owned());
        note(format!("tool {tool}"), version(first), version(second));
    }
    let hows: BTreeMap<&String, &Cell> = second.cells.iter().map(|cell| (&cell.id, cell)).collect();
    for cell in &first.cells {
        if let Some(other) = hows.get(&cell.id) {
            note(format!("how of {}", cell.id), format!("{:?}", cell.how), format!("{:?}", other.how));
        }
    }
    changes
}

fn surroundings(run: &Run) -> [(&'static str, String); 11] {
    let machine = &run.machine;
    [
        ("command", run.command.clone()),
        ("mode", mode(run.mode).0.to_owned()),
        ("seed", run.seed.to_string()),
        ("time scale", number(run.time_scale)),
        ("complete", run.complete.to_string()),
        ("kernel", machine.kernel.clone()),
        ("CPU", machine.cpu.clone()),
        ("CPUs", machine.cpus.to_string()),
        ("memory", bytes(machine.memory_bytes)),
        ("system", machine.os.clone()),
        ("hypervisor", machine.hypervisor.clone().unwrap_or_else(|| "–".to_owned())),
    ]
}

fn cell_changes(first: &Run, second: &Run) -> Vec<CellChange> {
    let others: BTreeMap<&String, &Cell> = second.cells.iter().map(|cell| (&cell.id, cell)).collect();
    let mut cells = Vec::new();
    let mut p = Vec::new();
    for cell in &first.cells {
        let Some(other) = others.get(&cell.id) else { continue };
        for (metric, before) in &cell.measured {
            let Some(after) = other.measured.get(metric) else { continue };
            // Values that are not positive have no ratio.
            let Some(ratio) = stats::unpaired_ratio(&after.values, &before.values) else { continue };
            let Ratio { interval, smallest_difference, .. } = ratio;
            p.push(ratio.p);
            cells.push(CellChange {
                cell: cell.id.clone(),
                metric: metric.clone(),
                unit: after.unit.clone(),
                first: before.median,
                second: after.median,
                ratio: interval.estimate,
                low: interval.low,
                high: interval.high,
                confidence: interval.confidence,
                p_holm: ratio.p,
                smallest_difference: smallest_difference.filter(|smallest| smallest.is_finite()),
                differs: false,
            });
        }
    }
    for (cell, p) in cells.iter_mut().zip(stats::holm(&p)) {
        cell.p_holm = p;
        cell.differs = p < stats::ALPHA && !(cell.low <= 1.0 && 1.0 <= cell.high);
    }
    cells
}

impl CellChange {
    fn verdict(&self) -> String {
        let test = p_value(self.p_holm);
        let covers_one = self.low <= 1.0 && 1.0 <= self.high;
        match self.smallest_difference {
            None => "too few values to tell".to_owned(),
            Some(_) if self.differs => format!("differs, {test}"),
            // With few values and many cells, no p survives the correction: not the same as no difference.
            Some(_) if !covers_one => format!("interval excludes 1, not confirmed over all cells ({test})"),
            Some(smallest) => format!("no difference shown, {test}; could see {}", percent(smallest)),
        }
    }
}

impl Compared {
    /// For a terminal: what differs first.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        let [first, second] = &self.started;
        writeln!(text, "{}: {} against {}", plain(&self.study), plain(second), plain(first))?;
        for change in &self.changes {
            writeln!(
                text,
                "  {}: {} -> {}",
                plain(&change.what),
                plain(&change.first),
                plain(&change.second)
            )?;
        }
        let (differ, same): (Vec<_>, Vec<_>) = self.cells.iter().partition(|cell| cell.differs);
        for cell in differ.into_iter().chain(same) {
            writeln!(
                text,
                "{} {}: {} -> {} {}, x{} [{} – {}], {}",
                plain(&cell.cell),
                plain(&cell.metric),
                number(cell.first),
                number(cell.second),
                plain(&cell.unit),
                text::ratio(cell.ratio),
                text::ratio(cell.low),
                text::ratio(cell.high),
                cell.verdict()
            )?;
        }
        for (which, only) in [("first", &self.only_first), ("second", &self.only_second)] {
            for cell in only {
                writeln!(text, "only in the {which}: {}", plain(cell))?;
            }
        }
        Ok(())
    }
}
