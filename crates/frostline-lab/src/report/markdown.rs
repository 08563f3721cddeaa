//! The Markdown of a run, for an issue, a pull request or a page of documentation.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::matrix::Matrix;
use super::page::{expected, is_failed_control, open};
use super::text::{
    bytes, escape_markdown as escape, how, interval, mode, number, p_value, percent, ratio, round,
};
use crate::record::{Cell, Comparison, Mode, Run};

/// The run in GitHub's Markdown: question, warnings, answer, every cell, provenance.
pub fn markdown(run: &Run) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_run(&mut text, run);
    text
}

fn write_run(text: &mut String, run: &Run) -> std::fmt::Result {
    writeln!(text, "# {}\n", escape(&run.title))?;
    writeln!(
        text,
        "Study {}, {}, begun {}, seed {}: {} cells.\n",
        escape(&run.study),
        mode(run.mode).0,
        escape(&run.started),
        run.seed,
        run.cells.len()
    )?;
    write_warnings(text, run)?;
    write_comparisons(text, run)?;
    match Matrix::of(run) {
        matrices if run.mode == Mode::Simulate && !matrices.is_empty() => {
            for (at, matrix) in matrices.iter().enumerate() {
                text.push_str(if at > 0 { "\n" } else { "" });
                write_matrix(text, matrix)?;
            }
        }
        _ => write_cells(text, run)?,
    }
    if !run.notes.is_empty() {
        writeln!(text, "\n## Notes\n")?;
        for note in &run.notes {
            writeln!(text, "- {}", escape(note))?;
        }
    }
    write_provenance(text, run)
}

/// The comparisons alone, as a table.
pub(super) fn answer(run: &Run) -> String {
    without_heading(|text| write_comparisons(text, run))
}

/// The cells alone, as a table.
pub(super) fn cells(run: &Run) -> String {
    without_heading(|text| write_cells(text, run))
}

fn without_heading(write: impl Fn(&mut String) -> std::fmt::Result) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text);
    let table = text.split_once("\n\n").map_or("", |(_, table)| table);
    format!("{}\n", table.trim_end())
}

fn write_warnings(text: &mut String, run: &Run) -> std::fmt::Result {
    if run.mode == Mode::Simulate {
        writeln!(text, "> **Nothing was measured**: every figure is the model's.\n")?;
    }
    if !run.complete {
        writeln!(text, "> **The run is not complete.**\n")?;
    }
    let voided: u64 = run.cells.iter().map(|cell| u64::from(cell.voided)).sum();
    if voided > 0 {
        writeln!(text, "> **{voided} samples were voided** by gates; they are in no figure.\n")?;
    }
    for control in run.comparisons.iter().filter(|c| is_failed_control(c)) {
        let name = escape(&control.name);
        writeln!(text, "> **The null control “{name}” shows a difference where there is none.**\n")?;
    }
    if run.time_scale != 1.0 {
        writeln!(
            text,
            "> Where a cell says that its bucket is scaled, it was {} times smaller than a real one.\n",
            round(run.time_scale)
        )?;
    }
    Ok(())
}

fn write_comparisons(text: &mut String, run: &Run) -> std::fmt::Result {
    if run.comparisons.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "## The answer\n\n| comparison | ratio | 95 % | pairs | expected | model | published | verdict |"
    )?;
    writeln!(text, "|---|--:|--:|--:|--:|--:|--:|---|")?;
    let dash = |value: Option<f64>| value.map_or("–".to_owned(), ratio);
    for comparison in &run.comparisons {
        let measured = comparison.pairs > 0;
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            escape(&comparison.name),
            if measured { ratio(comparison.ratio) } else { "–".to_owned() },
            interval(ratio(comparison.low), ratio(comparison.high), comparison.pairs as usize),
            comparison.pairs,
            comparison.expected.map_or("–".to_owned(), expected),
            dash(comparison.modelled),
            dash(comparison.published),
            verdict(comparison)
        )?;
    }
    writeln!(text)
}

fn verdict(comparison: &Comparison) -> String {
    let mut words = Vec::new();
    match comparison.judged() {
        _ if comparison.null_control && comparison.pairs > 0 => {
            let least = comparison.high.max(1.0 / comparison.low);
            words.push(format!("null control: this run tells nothing below {} times", ratio(least)));
        }
        _ if comparison.null_control => words.push("null control".to_owned()),
        Some(true) => words.push("as expected".to_owned()),
        Some(false) => words.push("**not as expected**".to_owned()),
        None if comparison.is_open() => words.push(open(comparison).0.to_owned()),
        None => {}
    }
    if let Some(p) = comparison.p_holm.filter(|p| p.is_finite()) {
        words.push(p_value(p).replace('<', "&lt;"));
    }
    if comparison.pairs > 0 && comparison.smallest_difference.is_finite() {
        words.push(format!("could see {}", percent(comparison.smallest_difference)));
    }
    words.join(", ")
}

fn write_cells(text: &mut String, run: &Run) -> std::fmt::Result {
    writeln!(
        text,
        "## Every cell\n\n| cell | metric | how | median | 95 % | n | model | published | voided |"
    )?;
    writeln!(text, "|---|---|---|--:|--:|--:|--:|--:|--:|")?;
    let asked: BTreeSet<&String> = run.comparisons.iter().map(|comparison| &comparison.metric).collect();
    let mut left_out = 0;
    for cell in &run.cells {
        left_out += write_cell(text, cell, &asked)?;
    }
    match left_out {
        0 => Ok(()),
        more => {
            writeln!(text, "\n{more} figures of other metrics are in `run.json` and on the page of `--html`.")
        }
    }
}

fn write_matrix(text: &mut String, matrix: &Matrix<'_>) -> std::fmt::Result {
    writeln!(text, "## By the model: {}, by {}\n", escape(matrix.metric), escape(matrix.across))?;
    let heads = matrix.by.iter().chain(&matrix.columns).map(|head| escape(head)).collect::<Vec<_>>();
    writeln!(text, "| {} |", heads.join(" | "))?;
    writeln!(text, "|{}{}", "---|".repeat(matrix.by.len()), "--:|".repeat(matrix.columns.len()))?;
    for row in &matrix.rows {
        let values = (0..matrix.columns.len())
            .map(|column| row.values.get(&column).map_or("–".to_owned(), |value| number(*value)));
        let cells: Vec<String> = row.labels.iter().map(|label| escape(label)).chain(values).collect();
        writeln!(text, "| {} |", cells.join(" | "))?;
    }
    Ok(())
}

/// Writes the metrics that the study asks for, or all if the cell has none of these; returns how many it left out.
fn write_cell(
    text: &mut String,
    cell: &Cell,
    asked: &BTreeSet<&String>,
) -> std::result::Result<usize, std::fmt::Error> {
    let all: BTreeSet<&String> =
        cell.measured.keys().chain(cell.modelled.keys()).chain(cell.published.keys()).collect();
    let some: BTreeSet<&String> = all.intersection(asked).copied().collect();
    let metrics = if some.is_empty() { &all } else { &some };
    let (id, way) = (escape(&cell.id), how(cell.how).0);
    if metrics.is_empty() {
        writeln!(text, "| {id} | – | {way} | – | – | 0 | – | – | {} |", cell.voided)?;
    }
    let dash = |value: Option<&f64>| value.map_or("–".to_owned(), |value| number(*value));
    for metric in metrics.iter().copied() {
        let (median, shown, n) = cell.measured.get(metric).map_or_else(
            || ("–".to_owned(), "–".to_owned(), 0),
            |s| {
                let median = format!("{} {}", number(s.median), escape(&s.unit));
                (median, interval(number(s.low), number(s.high), s.values.len()), s.values.len())
            },
        );
        writeln!(
            text,
            "| {id} | {} | {way} | {median} | {shown} | {n} | {} | {} | {} |",
            escape(metric),
            dash(cell.modelled.get(metric)),
            dash(cell.published.get(metric)),
            cell.voided
        )?;
    }
    Ok(all.len() - metrics.len())
}

fn write_provenance(text: &mut String, run: &Run) -> std::fmt::Result {
    let machine = &run.machine;
    writeln!(text, "\n## Provenance\n")?;
    writeln!(text, "- command: {}", escape(&run.command))?;
    writeln!(
        text,
        "- machine: {} × {}, {}, {}, kernel {}, hypervisor {}",
        machine.cpus,
        escape(&machine.cpu),
        bytes(machine.memory_bytes),
        escape(&machine.os),
        escape(&machine.kernel),
        escape(machine.hypervisor.as_deref().unwrap_or("–"))
    )?;
    for (name, version) in &run.tools {
        writeln!(text, "- {}: {}", escape(name), escape(version))?;
    }
    Ok(())
}
