//! A chart of each metric: a row for each cell on one scale, or lines over the levels of a factor.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use frostline_show::show_count;

use super::super::chart::{MODEL, PUBLISHED, Plane, Scale, Strip};
use super::super::text::{both, breaking, escape, number};
use super::cpus::per_cpu;
use crate::record::{Cell, How, Run};
use crate::stats;

/// Charts of lines of one metric; the rest of the cells are in the table.
const PANELS_MAX: usize = 48;
/// Rows of one metric; the rest of the cells are in the table.
const ROWS_MAX: usize = 200;
/// Rows that are not folded.
const ROWS_OPEN: usize = 9;
/// Lines that colours can tell apart in one chart.
const SERIES_MAX: usize = 5;
/// Levels from which on a line says more than a row for each.
const LINE_LEVELS_MIN: usize = 3;
/// What the answer about power cuts names.
const LOST: &str = "lost_acknowledged";
/// Single values drawn in a row.
const DOTS_MAX: usize = 30;

/// What the marks mean, of those `with` says are there: measured, modelled, published, expected.
pub(super) fn key_marks(with: [bool; 4]) -> String {
    let marks = [
        (MEASURED, both("measured, with its interval", "측정값과 구간")),
        (MODEL, both("model", "모델")),
        (PUBLISHED, both("published", "발표값")),
        (EXPECTED, both("expected", "기대 범위")),
    ];
    let mut key = String::from("<p class=marks>");
    for ((svg, text), _) in marks.into_iter().zip(with).filter(|(_, with)| *with) {
        let _ = write!(
            key,
            "<span><svg width=22 height=22 aria-hidden=true><svg x=11 overflow=visible>{svg}</svg></svg>{text}</span> "
        );
    }
    key.push_str("</p>");
    key
}

/// A median with its interval around x = 0.
const MEASURED: &str =
    "<line class=interval x1=-10 x2=10 y1=11 y2=11 /><circle class=median cx=0 cy=11 r=5 />";
/// A range around x = 0.
const EXPECTED: &str = "<rect class=band x=-10 width=20 y=0 height=22 />";

/// Charts of what the study asks about or published; all else folded.
pub(super) fn write_charts(page: &mut String, run: &Run) -> std::fmt::Result {
    let mut metrics: BTreeSet<&String> = run
        .cells
        .iter()
        .flat_map(|cell| cell.measured.keys().chain(cell.modelled.keys()).chain(cell.published.keys()))
        .filter(|metric| per_cpu(metric).is_none())
        .collect();
    let asked = run.comparisons.iter().map(|comparison| &comparison.metric);
    let published = run.cells.iter().flat_map(|cell| cell.published.keys());
    let mut open: Vec<&String> = asked.chain(published).filter(|metric| metrics.remove(metric)).collect();
    let of = |metric: &str| run.cells.iter().filter(|cell| has(cell, metric)).collect::<Vec<&Cell>>();
    if open.is_empty() {
        // What says something about the cells.
        let varies = metrics.iter().find(|metric| only_value(&of(metric), metric).is_none()).copied();
        let first = metrics
            .iter()
            .find(|metric| metric.as_str() == LOST)
            .copied()
            .or(varies)
            .or_else(|| metrics.first().copied());
        open.extend(first.filter(|metric| metrics.remove(*metric)));
    }
    let write = |page: &mut String, metric: &String| write_metric(page, metric, &of(metric));
    // One is drawn, the others are there for who asks.
    let mut seen = BTreeSet::new();
    let mut folded = open.split_off(open.len().min(1));
    folded.retain(|metric| seen.insert(*metric));
    folded.extend(metrics);
    open.into_iter().try_for_each(|metric| write(page, metric))?;
    if folded.is_empty() {
        return Ok(());
    }
    let summary =
        both(&show_count(folded.len() as u64, "other metric"), &format!("다른 지표 {}개", folded.len()));
    writeln!(page, "<details><summary>{summary}</summary>")?;
    folded.into_iter().try_for_each(|metric| write(page, metric))?;
    writeln!(page, "</details>")
}

fn has(cell: &Cell, metric: &str) -> bool {
    cell.measured.contains_key(metric)
        || cell.modelled.contains_key(metric)
        || cell.published.contains_key(metric)
}

fn marks_of(cell: &Cell, metric: &str) -> impl Iterator<Item = f64> {
    let summary = cell.measured.get(metric);
    let values = summary
        .into_iter()
        .flat_map(|s| s.values.iter().copied().take(DOTS_MAX).chain([s.median, s.low, s.high]));
    values.chain(cell.modelled.get(metric).copied()).chain(cell.published.get(metric).copied())
}

/// One chart: a row for each level of the factor that has the most, below each combination of the others.
fn write_metric(page: &mut String, metric: &str, cells: &[&Cell]) -> std::fmt::Result {
    let unit = cells.iter().find_map(|cell| Some(cell.measured.get(metric)?.unit.as_str()));
    let unit = unit.unwrap_or_else(|| crate::workload::unit(metric));
    let unit = if unit.is_empty() { String::new() } else { format!(" <small>{}</small>", escape(unit)) };
    let name = escape(metric);
    writeln!(page, "<h2>{}{unit}</h2>", format_args!("<code>{name}</code>"))?;
    if let Some(value) = only_value(cells, metric) {
        let value = number(value);
        let all = cells.len();
        let (english, korean) =
            (format!("The same in all {all} cells: {value}"), format!("셀 {all}개 모두 같음: {value}"));
        return writeln!(page, "<p>{}</p>", both(&english, &korean));
    }
    let is_marked = |marks: fn(&Cell) -> &BTreeMap<String, f64>| {
        cells.iter().any(|cell| marks(cell).contains_key(metric))
    };
    let is_measured = cells.iter().any(|cell| cell.measured.contains_key(metric));
    let with = [is_measured, is_marked(|cell| &cell.modelled), is_marked(|cell| &cell.published), false];
    writeln!(page, "{}", key_marks(with))?;
    let factors = varying_factors(cells);
    let across = factors.iter().max_by_key(|factor| levels(cells, factor).iter().flatten().count()).copied();
    let scale = Scale::of_sizes(cells.iter().flat_map(|cell| marks_of(cell, metric)));
    if !is_measured && let Some(across) = across {
        let columns: Vec<&str> = ordered_levels(cells, across);
        if columns.len() >= LINE_LEVELS_MIN && cells.iter().all(|cell| cell.modelled.contains_key(metric)) {
            return write_lines(page, metric, cells, &factors, (across, &columns), &scale);
        }
    }
    let groups = panels(cells, &factors, across);
    let mut rows = groups.iter().flat_map(|(title, cells)| {
        // A title of its own only where several rows have it in common.
        cells.iter().enumerate().map(move |(at, cell)| Line {
            title,
            is_alone: cells.len() == 1,
            is_first: at == 0,
            cell,
        })
    });
    let open: Vec<Line<'_>> = rows.by_ref().take(ROWS_OPEN).collect();
    let folded: Vec<Line<'_>> = rows.by_ref().take(ROWS_MAX - ROWS_OPEN).collect();
    let hidden = rows.count();
    write_rows(page, metric, across, &open, &scale)?;
    if !folded.is_empty() {
        let (english, korean) =
            (show_count(folded.len() as u64, "more cell"), format!("셀 {}개 더", folded.len()));
        writeln!(page, "<details><summary>{}</summary>", both(&english, &korean))?;
        write_rows(page, metric, across, &folded, &scale)?;
        writeln!(page, "</details>")?;
    }
    if hidden > 0 {
        let (english, korean) = (
            format!("{hidden} more cells are not drawn; they are in the table below."),
            format!("셀 {hidden}개는 그리지 않았습니다. 아래 표에 있습니다."),
        );
        writeln!(page, "<p class=key>{}</p>", both(&english, &korean))?;
    }
    Ok(())
}

/// The value that several cells share in everything that is known of them.
fn only_value(cells: &[&Cell], metric: &str) -> Option<f64> {
    let mut marks = cells.iter().flat_map(|cell| marks_of(cell, metric));
    let first = marks.next()?;
    (cells.len() > 1 && marks.all(|mark| mark == first)).then_some(first)
}

/// Factors with more than one level (to have none counts as one), in the study's order, which the cells' ids have.
pub(in crate::report) fn varying_factors<'a>(cells: &[&'a Cell]) -> Vec<&'a str> {
    let names: BTreeSet<&str> =
        cells.iter().flat_map(|cell| cell.levels.keys()).map(String::as_str).collect();
    let mut names: Vec<&str> = names.into_iter().filter(|name| levels(cells, name).len() > 1).collect();
    let id = cells.first().map_or("", |cell| cell.id.as_str());
    let place = |name: &str| {
        id.split(',').position(|part| part.split_once('=').is_some_and(|(factor, _)| factor == name))
    };
    names.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
    names
}

fn levels<'a>(cells: &[&'a Cell], factor: &str) -> BTreeSet<Option<&'a str>> {
    cells.iter().map(|cell| cell.levels.get(factor).map(String::as_str)).collect()
}

/// The levels of a factor in the order of cells.
fn ordered_levels<'a>(cells: &[&'a Cell], factor: &str) -> Vec<&'a str> {
    let mut ordered = Vec::new();
    for level in cells.iter().filter_map(|cell| cell.levels.get(factor)) {
        if !ordered.contains(&level.as_str()) {
            ordered.push(level.as_str());
        }
    }
    ordered
}

/// The model's values as lines over the levels of one factor: a line for each level of another one, a chart for each
/// combination of the rest.
fn write_lines(
    page: &mut String,
    metric: &str,
    cells: &[&Cell],
    factors: &[&str],
    (across, columns): (&str, &[&str]),
    scale: &Scale,
) -> std::fmt::Result {
    let others = factors.iter().copied().filter(|factor| *factor != across);
    let many = |factor: &&str| ordered_levels(cells, factor).len();
    let by = others.clone().filter(|factor| many(factor) <= SERIES_MAX).max_by_key(many);
    let series = by.map_or_else(Vec::new, |factor| ordered_levels(cells, factor));
    let rest: Vec<&str> = others.filter(|factor| Some(*factor) != by).chain([across]).collect();
    if let Some(by) = by {
        let mut key = format!("<p class=marks><span>{}</span> ", escape(by));
        for (at, name) in series.iter().enumerate() {
            write!(
                key,
                "<span><svg width=12 height=12 aria-hidden=true><circle class=\"series s{at}\" cx=6 cy=6 r=5 /></svg>{}</span> ",
                escape(name)
            )?;
        }
        writeln!(page, "{key}</p>")?;
    }
    let names = Scale::of_names(columns);
    page.push_str("<div class=panels>\n");
    let panels = panels(cells, &rest, Some(across));
    // A single point is said, not drawn.
    let (drawn, said): (Vec<_>, Vec<_>) = panels.iter().partition(|(_, rows)| rows.len() > 1);
    for (title, rows) in drawn.into_iter().take(PANELS_MAX) {
        let mut plane = Plane::new(&names, scale);
        let place = |cell: &Cell| {
            let column =
                columns.iter().position(|column| cell.levels.get(across).is_some_and(|l| l == column));
            Some((column? as f64, *cell.modelled.get(metric)?))
        };
        let lines: Vec<Option<&str>> =
            if series.is_empty() { vec![None] } else { series.iter().copied().map(Some).collect() };
        for (at, line) in lines.iter().enumerate() {
            let of = |cell: &&&Cell| by.is_none_or(|by| cell.levels.get(by).map(String::as_str) == *line);
            let points: Vec<(f64, f64)> = rows.iter().filter(of).filter_map(|cell| place(cell)).collect();
            plane.path(&format!("\"line l{at}\""), &points);
            points.iter().for_each(|point| plane.dot(&format!("\"series s{at}\""), *point, 4));
        }
        let title = if title.is_empty() { String::new() } else { format!("<h3>{}</h3>", escape(title)) };
        let axis = escape(across);
        writeln!(
            page,
            "<section class=\"panel load\">{title}{}<p class=\"key below\">{axis}</p></section>",
            plane.end(&[])
        )?;
    }
    writeln!(page, "</div>")?;
    let value = |cell: &Cell| cell.modelled.get(metric).copied().unwrap_or(f64::NAN);
    for (title, cell) in said.iter().flat_map(|(title, rows)| rows.iter().map(move |cell| (title, cell))) {
        let level = cell.levels.get(across).map_or(String::new(), |level| format!(" · {across} {level}"));
        writeln!(page, "<p class=key>{}: {}</p>", escape(&format!("{title}{level}")), number(value(cell)))?;
    }
    Ok(())
}

/// Titles and rows, in the order of cells.
fn panels<'a>(cells: &[&'a Cell], factors: &[&str], across: Option<&str>) -> Vec<(String, Vec<&'a Cell>)> {
    let mut panels: Vec<(String, Vec<&Cell>)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for cell in cells {
        let others = factors.iter().filter(|factor| Some(**factor) != across);
        let title: Vec<String> =
            others.filter_map(|factor| Some(format!("{factor} {}", cell.levels.get(*factor)?))).collect();
        let title = title.join(" · ");
        let at = *places.entry(title.clone()).or_insert_with(|| {
            panels.push((title, Vec::new()));
            panels.len() - 1
        });
        panels[at].1.push(cell);
    }
    panels
}

/// A row of a chart: a cell, below the title of those that differ in one factor only.
struct Line<'a> {
    title: &'a str,
    is_alone: bool,
    is_first: bool,
    cell: &'a Cell,
}

fn write_rows(
    page: &mut String,
    metric: &str,
    across: Option<&str>,
    rows: &[Line<'_>],
    scale: &Scale,
) -> std::fmt::Result {
    writeln!(page, "<section class=rows>")?;
    for (at, Line { title, is_alone, is_first, cell }) in rows.iter().enumerate() {
        if !is_alone && (*is_first || at == 0) && !title.is_empty() {
            writeln!(page, "<h3>{}</h3>", breaking(title))?;
        }
        let level = across.and_then(|factor| Some(format!("{factor} {}", cell.levels.get(factor)?)));
        let label = match (is_alone, level) {
            (true, level) if !title.is_empty() => {
                level.map_or((*title).to_owned(), |level| format!("{title} · {level}"))
            }
            (_, Some(level)) => level,
            (_, None) => cell.id.clone(),
        };
        let mut strip = Strip::new(scale);
        if let Some(summary) = cell.measured.get(metric) {
            strip.interval(summary.low, summary.high);
            summary.values.iter().take(DOTS_MAX).for_each(|value| strip.dot("value", *value, 3));
        }
        cell.published.get(metric).into_iter().for_each(|value| strip.published(*value));
        cell.modelled.get(metric).into_iter().for_each(|value| strip.model(*value));
        if let Some(summary) = cell.measured.get(metric) {
            strip.dot("median", summary.median, 5);
        }
        let text = row_text(cell, metric);
        writeln!(page, "<div class=entry><p>{}</p>{}<p>{text}</p></div>", breaking(&label), strip.end())?;
    }
    writeln!(page, "<div class=entry><p></p>{}<p></p></div></section>", scale.axis())
}

fn row_text(cell: &Cell, metric: &str) -> String {
    let mut text = String::new();
    if let Some(summary) = cell.measured.get(metric) {
        let (median, low, high) = (number(summary.median), number(summary.low), number(summary.high));
        let _ = match summary.values.len() {
            1 => write!(text, "<span>{median}</span> <i>{}</i> ", both("one value", "값 1개")),
            few if few < stats::PAIRS_MIN => {
                let range = both(&format!("range of {few}"), &format!("{few}개의 범위"));
                write!(text, "<span>{median} [{low} – {high}]</span> <i>{range}</i> ")
            }
            _ => write!(text, "<span>{median} [{low} – {high}]</span> "),
        };
    }
    for (name, value) in [
        (both("model", "모델"), cell.modelled.get(metric)),
        (both("published", "발표값"), cell.published.get(metric)),
    ] {
        if let Some(value) = value {
            let _ = write!(text, "<i>{name} {}</i> ", number(*value));
        }
    }
    if cell.how == How::Skip {
        let _ = write!(text, "<em>{}</em>", both("left out", "제외"));
    }
    if cell.voided > 0 {
        let _ = write!(
            text,
            "<em>{}</em>",
            both(&format!("{} voided", cell.voided), &format!("무효 {}개", cell.voided))
        );
    }
    text
}
