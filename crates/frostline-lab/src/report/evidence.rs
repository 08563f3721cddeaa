//! Pages whose tables are made from the files of runs that lie beside them.
//!
//! A block of a page names its file and what to make of it; everything up to its end is made anew by [`fill`]:
//!
//! ```text
//! <!-- lab page: data/measure/postgres.json limits -->
//! <!-- lab page end -->
//! ```
//!
//! A folder of a run has `answer`, `cells`, `table METRIC,…`, `grid METRIC` (a column for each level of the factor with the
//! most) and `fit` (how the model of OpenZFS holds) as tables, `ratios` and `bars METRIC` as charts, the JSON of `lab measure` has `limits` and `curve`. Files are below the
//! page's folder, so that a page goes with its evidence.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use frostline_base::{Error, Result};
use frostline_show::{printable, suggestion};

use super::markdown;
use super::page::varying_factors;
use super::text::{escape_markdown as escape, number, range_confidence, ratio, round};
use crate::measure::Measurement;
use crate::measure::curve::{cpu_share, told};
use crate::record::{Cell, Run, Summary};
use crate::run::virtual_time::{bytes, fit};
use crate::stats;
use crate::study::Study;

const BEGIN: &str = "<!-- lab page: ";
const END: &str = "<!-- lab page end -->";
/// What a block looks like.
const BLOCK: &str = "a block begins with a line such as `<!-- lab page: data/RUN answer -->` and ends with `<!-- lab page end -->`";
const KINDS: [&str; 9] = ["answer", "cells", "table", "bars", "ratios", "limits", "curve", "grid", "fit"];
/// Characters of the longest bar.
const BAR_MAX: f64 = 40.0;

/// The page with every block made anew; `folder` is the page's, `name` stands in errors.
///
/// # Errors
/// Invalid for a page without blocks, or with the line of a block that is wrong, has no end, or names a file outside of the
/// folder; NotFound or Corrupt for files of runs.
pub fn fill(page: &str, folder: &Path, name: &str) -> Result<String> {
    let mut filled = String::with_capacity(page.len());
    let mut lines = page.split_inclusive('\n').enumerate();
    let mut blocks = 0;
    while let Some((at, whole)) = lines.next() {
        filled.push_str(whole);
        let line = without_end(whole);
        let place = format!("{name}: line {}", at + 1);
        let Some(asked) = line.strip_prefix(BEGIN) else {
            if is_meant(line) {
                return Err(Error::invalid(format!("{place}: this does not begin a block: {BLOCK}")));
            }
            continue;
        };
        blocks += 1;
        let table = made(asked, folder).map_err(|error| error.context(place.clone()))?;
        filled.push_str(&format!("\n{table}\n").replace('\n', &whole[line.len()..]));
        // What a line that is almost an end, or the beginning of a block, would follow is not all of this one.
        match lines.by_ref().find(|(_, line)| is_meant(line)) {
            Some((_, end)) if without_end(end) == END => filled.push_str(end),
            Some((at, other)) if !other.starts_with(BEGIN) => {
                let place = format!("{name}: line {}", at + 1);
                return Err(Error::invalid(format!("{place}: this ends no block; `{END}` does")));
            }
            _ => return Err(Error::invalid(format!("{place}: this block has no end; `{END}` is one"))),
        }
    }
    match blocks {
        0 => Err(Error::invalid(format!("{name} has no block: {BLOCK}"))),
        _ => Ok(filled),
    }
}

/// The line without the characters that end it.
fn without_end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// Whether a line is a comment that means the beginning or the end of a block, however it is written.
fn is_meant(line: &str) -> bool {
    let words = line.trim().strip_prefix("<!--").map(|rest| rest.trim_start().to_lowercase());
    words.is_some_and(|words| words.starts_with("lab page"))
}

/// `data/run answer -->` as a table.
fn made(asked: &str, folder: &Path) -> Result<String> {
    let words: Vec<&str> = asked.trim_end().trim_end_matches("-->").split_whitespace().collect();
    let (file, kind, metric) = match words.as_slice() {
        [file, kind @ "bars", metric] => (file, kind, *metric),
        [file, kind @ "table", metrics] => (file, kind, *metrics),
        [file, kind @ "grid", metric] => (file, kind, *metric),
        [file, kind] if !matches!(*kind, "bars" | "table" | "grid") => (file, kind, ""),
        [_, kind @ ("bars" | "grid")] => {
            return Err(Error::invalid(format!("`{kind}` names the metric to draw")));
        }
        [_, "table"] => {
            return Err(Error::invalid("`table` names the metrics of its columns, with commas between"));
        }
        _ => return Err(Error::invalid("a block names a file and what to make of it")),
    };
    let file = Path::new(file);
    if !file.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(Error::invalid(format!("{} is not below the folder of the page", file.display())));
    }
    let path = folder.join(file);
    match *kind {
        "answer" => Ok(markdown::answer(&super::read_run(&path)?)),
        "cells" => Ok(markdown::cells(&super::read_run(&path)?)),
        "table" => table(&super::read_run(&path)?, metric),
        "bars" => bars(&super::read_run(&path)?, metric),
        "grid" => grid(&super::read_run(&path)?, metric),
        "fit" => fit(&path),
        "ratios" => Ok(ratios(&super::read_run(&path)?)),
        "limits" => Ok(limits(&super::read_measurement(&path)?)),
        "curve" => Ok(curve(&super::read_measurement(&path)?)),
        other => Err(Error::invalid(format!("nothing is called `{other}`{}", suggestion(other, KINDS)))),
    }
}

/// The cells that measured a metric, with it and what tells them apart.
fn measured<'r>(run: &'r Run, metric: &str) -> Result<Vec<(String, &'r Cell, &'r Summary)>> {
    let cells: Vec<(&Cell, &Summary)> =
        run.cells.iter().filter_map(|cell| Some((cell, cell.measured.get(metric)?))).collect();
    if cells.is_empty() {
        let known = run.cells.iter().flat_map(|cell| cell.measured.keys()).map(String::as_str);
        let near = suggestion(metric, known);
        return Err(Error::invalid(format!("no cell measured `{metric}`{near}")));
    }
    let factors = varying_factors(&cells.iter().map(|(cell, _)| *cell).collect::<Vec<_>>());
    let label = |cell: &Cell| {
        let levels = factors.iter().filter_map(|factor| cell.levels.get(*factor)).map(String::as_str);
        levels.collect::<Vec<_>>().join(", ")
    };
    Ok(cells.into_iter().map(|(cell, summary)| (label(cell), cell, summary)).collect())
}

/// A row for each cell that measured the first of these metrics, and a column for each of them.
fn table(run: &Run, metrics: &str) -> Result<String> {
    let metrics: Vec<&str> = metrics.split(',').collect();
    let rows = measured(run, metrics.first().copied().unwrap_or_default())?;
    let mut heads = Vec::new();
    for metric in &metrics {
        let unit =
            measured(run, metric)?.first().map(|(.., summary)| summary.unit.as_str()).unwrap_or_default();
        heads.push(if unit.is_empty() {
            escape(metric)
        } else {
            format!("{}, {}", escape(metric), escape(unit))
        });
    }
    let mut table = format!("| | {} |\n|---|{}\n", heads.join(" | "), "--:|".repeat(metrics.len()));
    let mut counts = BTreeSet::new();
    for (label, cell, _) in rows {
        let shown = metrics.iter().map(|metric| match cell.measured.get(*metric) {
            Some(summary) => {
                counts.insert(summary.values.len());
                with_interval(summary)
            }
            None => "–".to_owned(),
        });
        let shown: Vec<String> = shown.collect();
        table.push_str(&format!("| {} | {} |\n", escape(&label), shown.join(" | ")));
    }
    Ok(table + &of_few(&counts))
}

/// The median, and in parentheses its interval or the range of several values.
fn with_interval(summary: &Summary) -> String {
    match summary.values.len() {
        0 | 1 => number(summary.median),
        _ => format!("{} ({} – {})", number(summary.median), number(summary.low), number(summary.high)),
    }
}

/// What ranges in parentheses are worth, of the numbers of values that are too few for an interval.
fn of_few(counts: &BTreeSet<usize>) -> String {
    let few = counts.iter().filter(|count| (2..stats::PAIRS_MIN).contains(*count));
    let parts: Vec<String> =
        few.map(|count| format!("{:.0} % for {count}", range_confidence(*count) * 100.0)).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(
            "\nIn parentheses is the range where there are fewer than {} values. It contains the true median with {} values.\n",
            stats::PAIRS_MIN,
            parts.join(", ")
        ),
    }
}

/// A column for each level of the factor with the most levels, a row for each combination of the others.
fn grid(run: &Run, metric: &str) -> Result<String> {
    let rows = measured(run, metric)?;
    let cells: Vec<&Cell> = rows.iter().map(|(_, cell, _)| *cell).collect();
    let factors = varying_factors(&cells);
    let levels = |factor: &str| {
        let mut seen: Vec<&str> = Vec::new();
        for level in cells.iter().filter_map(|cell| cell.levels.get(factor)) {
            if !seen.contains(&level.as_str()) {
                seen.push(level);
            }
        }
        seen
    };
    let across = factors.iter().copied().max_by_key(|factor| levels(factor).len());
    let Some(across) = across else { return table(run, metric) };
    // In the order of sizes, not in that of cells.
    let mut columns = levels(across);
    columns.sort_by_key(|level| bytes(level).unwrap_or(u64::MAX));
    let by: Vec<&str> = factors.into_iter().filter(|factor| *factor != across).collect();
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (_, cell, summary) in &rows {
        let label = by.iter().filter_map(|factor| cell.levels.get(*factor)).map(String::as_str);
        let label = label.collect::<Vec<_>>().join(", ");
        let at = lines.iter().position(|(known, _)| *known == label).unwrap_or_else(|| {
            lines.push((label, vec!["–".to_owned(); columns.len()]));
            lines.len() - 1
        });
        let column = cell.levels.get(across).and_then(|level| columns.iter().position(|c| c == level));
        if let Some(column) = column {
            lines[at].1[column] = shown(cell, metric, summary);
        }
    }
    let unit = rows.first().map(|(.., summary)| summary.unit.as_str()).unwrap_or_default();
    let heads: Vec<String> = columns.iter().map(|level| escape(level)).collect();
    let title =
        if unit.is_empty() { escape(metric) } else { format!("{}, {}", escape(metric), escape(unit)) };
    let mut table = format!("| {title} | {} |\n|---|{}\n", heads.join(" | "), "--:|".repeat(columns.len()));
    for (label, values) in lines {
        table.push_str(&format!("| {} | {} |\n", escape(&label), values.join(" | ")));
    }
    Ok(table + &of_few(&rows.iter().map(|(.., summary)| summary.values.len()).collect()))
}

/// The median, with the interval over samples, or of a single one's own stretches.
fn shown(cell: &Cell, metric: &str, summary: &Summary) -> String {
    let own = |end: &str| cell.measured.get(&format!("{end}_{metric}")).map(|summary| summary.median);
    match own("low").zip(own("high")).filter(|_| summary.values.len() == 1) {
        Some((low, high)) => format!("{} ({} – {})", number(summary.median), number(low), number(high)),
        None => with_interval(summary),
    }
}

/// How the model of OpenZFS holds in the half of the cells that it was fitted to, and in the other one.
fn fit(folder: &Path) -> Result<String> {
    let path = folder.join("study.toml");
    let text = std::fs::read_to_string(&path)
        .map_err(|e| Error::not_found(format!("cannot read {}", path.display())).with_source(e))?;
    let study = Study::parse(&text, &path.display().to_string())?;
    let fit = fit::fit(&study, &super::read_run(folder)?)?;
    let mut table = format!(
        "Fitted: {} KiB written for each I/O unit, {} requests of a transaction group to each volume, {} ms of a request beside the volumes.\n\n\
         | half | cells | within {:.0} % | median error | largest |\n|---|--:|--:|--:|--:|\n",
        fit.gathered_bytes >> 10,
        round(fit.group_requests),
        round(fit.latency_ms),
        fit::ERROR_MAX * 100.0
    );
    for (name, is_training) in [("fitted to", true), ("held out", false)] {
        let half = fit.cells.iter().filter(|cell| cell.is_training == is_training);
        let mut errors: Vec<f64> = half.map(fit::Tested::error).collect();
        errors.sort_by(f64::total_cmp);
        let within = errors.iter().filter(|error| **error <= fit::ERROR_MAX).count();
        let percent =
            |error: Option<&f64>| error.map_or("–".to_owned(), |error| format!("{:.0} %", error * 100.0));
        table.push_str(&format!(
            "| {name} | {} | {within} ({:.0} %) | {} | {} |\n",
            errors.len(),
            100.0 * within as f64 / errors.len().max(1) as f64,
            percent(errors.get(errors.len() / 2)),
            percent(errors.last())
        ));
    }
    table.push_str("\n| held out, MiB/s | measured | model | error |\n|---|--:|--:|--:|\n");
    for cell in fit.cells.iter().filter(|cell| !cell.is_training) {
        let name = study.cell(&cell.id).map_or(cell.id.clone(), |known| short(&known.levels));
        table.push_str(&format!(
            "| {} | {} | {} | {:+.0} % |\n",
            escape(&name),
            number(cell.measured),
            number(cell.modelled),
            100.0 * (cell.modelled / cell.measured - 1.0)
        ));
    }
    Ok(table)
}

/// What tells the cells of the matrix apart.
fn short(levels: &std::collections::BTreeMap<String, String>) -> String {
    let of = |factor: &&str| levels.get(*factor).cloned();
    ["volumes", "recordsize", "bs", "compression"].iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

/// A bar for each cell that measured the metric, the longest as long as there is room.
fn bars(run: &Run, metric: &str) -> Result<String> {
    let cells = measured(run, metric)?;
    let unit = cells.first().map(|(.., summary)| summary.unit.as_str()).unwrap_or_default();
    let lines =
        cells.iter().map(|(label, _, summary)| (label.clone(), summary.median, with_interval(summary)));
    let title = if unit.is_empty() { metric.to_owned() } else { format!("{metric}, {unit}") };
    let counts = cells.iter().map(|(.., summary)| summary.values.len()).collect();
    Ok(drawn(&title, &lines.collect::<Vec<_>>()) + &of_few(&counts))
}

/// A bar for each comparison that was measured; null controls last.
fn ratios(run: &Run) -> String {
    let (controls, asked): (Vec<_>, Vec<_>) =
        run.comparisons.iter().filter(|c| c.pairs > 0).partition(|c| c.null_control);
    let lines = asked.into_iter().chain(controls).map(|c| {
        let text = match c.pairs {
            1 => ratio(c.ratio),
            _ => format!("{} ({} – {})", ratio(c.ratio), ratio(c.low), ratio(c.high)),
        };
        (c.name.clone(), c.ratio, text)
    });
    let counts = run.comparisons.iter().map(|comparison| comparison.pairs as usize).collect();
    drawn("ratio", &lines.collect::<Vec<_>>()) + &of_few(&counts)
}

/// Label, bar and text of each line.
fn drawn(title: &str, lines: &[(String, f64, String)]) -> String {
    let most = lines.iter().map(|(_, value, _)| *value).filter(|v| v.is_finite()).fold(0.0, f64::max);
    let width = lines.iter().map(|(label, ..)| label.chars().count()).max().unwrap_or(0);
    let mut chart = format!("```text\n{}\n", printable(title));
    for (label, value, text) in lines {
        let length = if most > 0.0 { (value / most * BAR_MAX).round().clamp(0.0, BAR_MAX) } else { 0.0 };
        let bar = "█".repeat(length as usize);
        chart.push_str(&format!("{:<width$} {bar:<40} {text}\n", printable(label)));
    }
    chart + "```\n"
}

/// What each path sustains, what its bucket held, and where its knee is.
fn limits(measured: &Measurement) -> String {
    let mut table = format!(
        "Requests: {}, at most {} outstanding, over {} MiB in each path; {}.\n\n{}\n|---|--:|--:|--:|--:|--:|--:|\n",
        escape(&measured.load.words()),
        measured.outstanding,
        measured.extent.data_mib,
        escape(&measured.fio),
        "| path | limit, IOPS | the class has | knee, IOPS | p99 there, ms | bucket, requests | waiting for CPUs |"
    );
    for path in &measured.paths {
        let dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
        let watched = path.watched.as_ref();
        // Of the points, as all figures of a page: also of measurements that found it in another way.
        let told = told(&path.points);
        let (is_doubtful, knee) = (told.is_err(), told.ok().flatten());
        let share = cpu_share(&path.points);
        let cells = [
            escape(&path.path.display().to_string()),
            dash(watched.map(|watched| number(watched.sustained.iops))),
            dash(path.cost.as_ref().map(|cost| round(cost.promised_iops))),
            if is_doubtful { "cannot tell".to_owned() } else { dash(knee.map(|knee| number(knee.iops))) },
            dash(knee.map(|knee| number(knee.p99_ms))),
            dash(
                watched
                    .and_then(|watched| watched.burst)
                    .map(|burst| format!("{:.0}", burst.bucket_requests)),
            ),
            dash(share.map(|share| format!("{share:.0} %"))),
        ];
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    table
}

/// Latency over load, a column for each path.
fn curve(measured: &Measurement) -> String {
    let mut table = String::from("| part of the limit |");
    let mut rule = String::from("|--:|");
    for path in &measured.paths {
        let name = escape(&path.path.display().to_string());
        table.push_str(&format!(" {name}: IOPS | median, ms | p99, ms |"));
        rule.push_str("--:|--:|--:|");
    }
    table.push_str(&format!("\n{rule}\n"));
    let mut parts = crate::measure::curve::PARTS.to_vec();
    parts.sort_by(f64::total_cmp);
    for part in parts.iter().copied().map(Some).chain([None]) {
        let name = part.map_or("all".to_owned(), |part| format!("{} %", round(part * 100.0)));
        table.push_str(&format!("| {name} |"));
        for path in &measured.paths {
            let limit = path.watched.map_or(f64::NAN, |watched| watched.sustained.iops);
            let point = path.points.iter().find(|point| match (point.offered_iops, part) {
                (Some(offered), Some(part)) => (offered / limit - part).abs() < 1e-6,
                (offered, part) => offered.is_none() && part.is_none(),
            });
            table.push_str(&match point {
                Some(point) => {
                    let figures = [point.iops, point.p50_ms, point.p99_ms].map(number);
                    format!(" {} |", figures.join(" | "))
                }
                None => " – | – | – |".to_owned(),
            });
        }
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests;
