//! Which CPUs took the work: a column for each CPU, a row for each cell that counted them.

use std::collections::BTreeMap;
use std::fmt::Write;

use frostline_show::show_count;

use super::super::text::{both, escape, number};
use super::charts::varying_factors;
use crate::record::{Cell, Run};

/// More CPUs than this make columns that cannot be distinguished.
const CPUS_MAX: u32 = 512;
/// Rows of a section.
const ROWS_MAX: usize = 48;

/// Rows of a section that are not folded.
const ROWS_OPEN: usize = 1;
/// CPUs of a row that are named.
const NAMED_MAX: usize = 3;

/// Percent by CPU.
type Shares = BTreeMap<u32, f64>;

struct Row<'a> {
    cell: &'a Cell,
    published: bool,
    shares: Shares,
}

/// The name before `_cpuN_percent` and N.
pub(super) fn per_cpu(metric: &str) -> Option<(&str, u32)> {
    let (name, cpu) = metric.strip_suffix("_percent")?.rsplit_once("_cpu")?;
    cpu.parse().ok().filter(|cpu| *cpu < CPUS_MAX).map(|cpu| (name, cpu))
}

/// A section for every kind of work that was counted by CPU.
pub(super) fn write_cpus(page: &mut String, run: &Run) -> std::fmt::Result {
    let mut sections: BTreeMap<&str, Vec<Row<'_>>> = BTreeMap::new();
    for cell in &run.cells {
        let measured = shares(cell.measured.iter().map(|(metric, summary)| (metric, summary.median)));
        let published = shares(cell.published.iter().map(|(metric, value)| (metric, *value)));
        for (kinds, published) in [(measured, false), (published, true)] {
            for (name, shares) in kinds {
                sections.entry(name).or_default().push(Row { cell, published, shares });
            }
        }
    }
    sections.iter().try_for_each(|(name, rows)| write_section(page, name, rows))
}

fn shares<'a>(metrics: impl Iterator<Item = (&'a String, f64)>) -> BTreeMap<&'a str, Shares> {
    let mut all: BTreeMap<&str, Shares> = BTreeMap::new();
    for (metric, percent) in metrics.filter(|(_, percent)| percent.is_finite()) {
        if let Some((name, cpu)) = per_cpu(metric) {
            all.entry(name).or_default().insert(cpu, percent.clamp(0.0, 100.0));
        }
    }
    all
}

fn write_section(page: &mut String, name: &str, rows: &[Row<'_>]) -> std::fmt::Result {
    let name = escape(name);
    let (english, korean) = (format!("<code>{name}</code> by CPU"), format!("CPU별 <code>{name}</code>"));
    writeln!(page, "<h2>{} <small>%</small></h2>\n<div class=panels>", both(&english, &korean))?;
    let cells: Vec<&Cell> = rows.iter().map(|row| row.cell).collect();
    let factors = varying_factors(&cells);
    let drawn = &rows[..rows.len().min(ROWS_MAX)];
    let (open, folded) = drawn.split_at(drawn.len().min(ROWS_OPEN));
    open.iter().try_for_each(|row| write_row(page, row, &factors))?;
    writeln!(page, "</div>")?;
    if !folded.is_empty() {
        let (english, korean) =
            (show_count(folded.len() as u64, "more cell"), format!("셀 {}개 더", folded.len()));
        writeln!(page, "<details><summary>{}</summary><div class=panels>", both(&english, &korean))?;
        folded.iter().try_for_each(|row| write_row(page, row, &factors))?;
        writeln!(page, "</div></details>")?;
    }
    match rows.len().saturating_sub(ROWS_MAX) {
        0 => Ok(()),
        more => {
            let (english, korean) =
                (format!("{more} more cells are not drawn."), format!("셀 {more}개는 그리지 않았습니다."));
            writeln!(page, "<p class=key>{}</p>", both(&english, &korean))
        }
    }
}

fn write_row(
    page: &mut String,
    Row { cell, published, shares }: &Row<'_>,
    factors: &[&str],
) -> std::fmt::Result {
    let levels = factors.iter().filter_map(|factor| Some(format!("{factor} {}", cell.levels.get(*factor)?)));
    let label = escape(&levels.collect::<Vec<_>>().join(" · "));
    let source = if *published { both("published", "발표값") } else { String::new() };
    let mut busiest: Vec<(&u32, &f64)> = shares.iter().filter(|(_, percent)| **percent > 0.0).collect();
    busiest.sort_by(|a, b| b.1.total_cmp(a.1));
    let busiest: Vec<String> = busiest
        .iter()
        .take(NAMED_MAX)
        .map(|(cpu, percent)| format!("CPU{cpu} {} %", number(**percent)))
        .collect();
    let busiest = busiest.join(", ");
    writeln!(
        page,
        "<section class=panel><div class=row><p><b>{label}</b> <span>{busiest}</span> <i>{source}</i></p>"
    )?;
    let columns = shares.keys().next_back().map_or(1, |last| last + 1);
    write!(page, "<svg class=cpus viewBox=\"0 0 {columns} 100\" preserveAspectRatio=none role=img>")?;
    for cpu in 0..columns {
        let percent = shares.get(&cpu).copied().unwrap_or(0.0);
        let top = 100.0 - percent;
        write!(
            page,
            "<rect class=band x={cpu}.05 width=.9 y=0 height=100 />\
             <rect class=share x={cpu}.05 width=.9 y={top:.1} height={percent:.1} />"
        )?;
    }
    writeln!(page, "</svg></div></section>")
}
