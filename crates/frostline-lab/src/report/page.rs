//! The page of a run: one file that needs nothing else, readable on a phone, in light and dark, in English
//! and Korean.
//!
//! All text is HTML, so that it wraps and keeps its size; only marks are drawn. The switch of languages is
//! two radio buttons and a rule of CSS, so that it works where scripts do not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::Language;
use super::chart::{MODEL, PUBLISHED, Scale, Strip};
use super::text::{both, bytes, escape, how, mode, number, p_value, percent, ratio, round};
use crate::record::{Cell, Comparison, How, Mode, Run, Sample};
use crate::stats;

/// Comparisons that get a card; the rest are in a table.
const CARDS_MAX: usize = 60;
/// Charts of one metric; the rest of the cells are in the table.
const PANELS_MAX: usize = 48;
/// Rows of one chart.
const ROWS_MAX: usize = 24;
/// Single values drawn in a row.
const DOTS_MAX: usize = 30;
/// Items of a list of cells with something to say.
const LISTED_MAX: usize = 40;

/// The page of a run. `samples` may be empty; with them, it says what each gate read.
pub fn html(run: &Run, samples: &[Sample], language: Language) -> String {
    let mut page = head(&run.title, language);
    // Writing to a string does not fail.
    let _ = write_page(&mut page, run, samples);
    page.push_str(TAIL);
    page
}

/// The start of a page up to its content.
pub(super) fn head(title: &str, language: Language) -> String {
    let (lang, english, korean) = match language {
        Language::English => ("en", " checked", ""),
        Language::Korean => ("ko", "", " checked"),
    };
    format!(
        "<!doctype html>\n<html lang={lang}><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{}</title>\n<style>{STYLE}</style></head><body>\
         <input type=radio name=language id=english{english}><input type=radio name=language id=korean{korean}>\
         <nav><label for=english lang=en>English</label><label for=korean lang=ko>한국어</label></nav><main>\n",
        escape(title)
    )
}

/// What closes a page.
pub(super) const TAIL: &str = "</main></body></html>\n";

fn write_page(page: &mut String, run: &Run, samples: &[Sample]) -> std::fmt::Result {
    write_question(page, run)?;
    write_warnings(page, run)?;
    write_answer(page, run)?;
    write_charts(page, run)?;
    write_gates(page, run, samples)?;
    write_ways(page, run)?;
    write_table(page, run)?;
    write_notes(page, run)?;
    write_method(page)?;
    write_provenance(page, run)
}

fn write_question(page: &mut String, run: &Run) -> std::fmt::Result {
    let (english, korean) = mode(run.mode);
    writeln!(page, "<h1>{}</h1>", escape(&run.title))?;
    let mut ways: BTreeMap<How, usize> = BTreeMap::new();
    run.cells.iter().for_each(|cell| *ways.entry(cell.how).or_default() += 1);
    let count =
        |way: &How, n: &usize| both(&format!("{n} {}", how(*way).0), &format!("{} {n}개", how(*way).1));
    let ways: Vec<String> = ways.iter().map(|(way, n)| count(way, n)).collect();
    writeln!(
        page,
        "<p class=lead>{}<br>{}: {}</p>",
        both(
            &format!("Study <b>{}</b>, {english}, begun {}", escape(&run.study), escape(&run.started)),
            &format!("연구 <b>{}</b>, {korean}, 시작 시각 {}", escape(&run.study), escape(&run.started))
        ),
        cells(run.cells.len()),
        if ways.is_empty() { "–".to_owned() } else { ways.join(" · ") }
    )
}

/// What a reader must see before any figure.
fn write_warnings(page: &mut String, run: &Run) -> std::fmt::Result {
    let warnings = warnings(run);
    if warnings.is_empty() {
        return writeln!(
            page,
            "<p class=fine>{}</p>",
            both(
                "No sample was voided and every planned sample is there.",
                "무효 처리된 표본이 없고, 계획한 표본이 모두 있습니다."
            )
        );
    }
    page.push_str("<ul class=loud>\n");
    for (english, korean) in warnings {
        writeln!(page, "<li>{}", both(&english, &korean))?;
    }
    writeln!(page, "</ul>")
}

/// In HTML, in both languages.
fn warnings(run: &Run) -> Vec<(String, String)> {
    let mut warnings = Vec::new();
    let mut warn = |english: String, korean: String| warnings.push((english, korean));
    if run.mode == Mode::Simulate {
        warn(
            "<b>Nothing was measured</b>: every figure is the model's.".into(),
            "<b>측정하지 않았습니다</b>: 모든 수치는 모델이 계산한 값입니다.".into(),
        );
    }
    if !run.complete {
        warn(
            "<b>The run is not complete</b>: samples that were planned are missing.".into(),
            "<b>실행이 끝나지 않았습니다</b>: 계획한 표본 중 일부가 없습니다.".into(),
        );
    }
    let voided: u64 = run.cells.iter().map(|cell| u64::from(cell.voided)).sum();
    if voided > 0 {
        let cells = run.cells.iter().filter(|cell| cell.voided > 0).count();
        warn(
            format!(
                "<b>Voided by gates: {voided}</b> of the samples, in {}. They are in no figure.",
                plural(cells, "cell")
            ),
            format!(
                "유효성 검사에서 <b>표본 {voided}개가 무효 처리</b>되었습니다(셀 {cells}개). 어떤 수치에도 들어가지 않았습니다."
            ),
        );
    }
    for null in run.comparisons.iter().filter(|c| c.null_control && is_measured(c) && !covers_one(c)) {
        let name = escape(&null.name);
        warn(
            format!(
                "<b>The null control “{name}” shows a difference where there is none</b>: small differences of this run are not to be trusted."
            ),
            format!(
                "<b>대조군 “{name}”에서 있을 수 없는 차이가 나타났습니다</b>: 이번 실행의 작은 차이는 믿을 수 없습니다."
            ),
        );
    }
    if is_scaled(run) {
        let scale = round(run.time_scale);
        warn(
            format!(
                "Burst buckets were <b>{scale} times smaller</b> than real ones (time scale): rates hold, durations do not."
            ),
            format!(
                "버스트 버킷을 실제보다 <b>{scale}배 작게</b> 만들었습니다(시간 축척). 속도는 유효하지만 지속 시간은 그대로 읽으면 안 됩니다."
            ),
        );
    }
    let skipped = run.cells.iter().filter(|cell| cell.how == How::Skip).count();
    if skipped > 0 {
        warn(
            format!("Left out, because something needed is not here: {}.", plural(skipped, "cell")),
            format!("필요한 것이 없어 셀 {skipped}개를 제외했습니다."),
        );
    }
    warnings
}

/// A scale that is no number is one a reader must see.
fn is_scaled(run: &Run) -> bool {
    run.time_scale != 1.0
}

fn is_measured(comparison: &Comparison) -> bool {
    comparison.pairs > 0 && comparison.ratio.is_finite()
}

fn covers_one(comparison: &Comparison) -> bool {
    comparison.low <= 1.0 && 1.0 <= comparison.high
}

fn write_answer(page: &mut String, run: &Run) -> std::fmt::Result {
    writeln!(page, "<h2>{}</h2>", both("The answer", "결과"))?;
    if run.comparisons.is_empty() {
        return writeln!(
            page,
            "<p>{}</p>",
            both("The study asks for no ratio.", "이 연구는 비율을 묻지 않습니다.")
        );
    }
    writeln!(page, "<p class=key>{}</p>{}", key_text(), key_marks([true; 3]))?;
    let scale = Scale::of_ratios(run.comparisons.iter().flat_map(values_of));
    page.push_str("<div class=cards>\n");
    // Null controls last: they are about the run, not about the question.
    let (controls, asked): (Vec<_>, Vec<_>) = run.comparisons.iter().partition(|c| c.null_control);
    let ordered: Vec<&Comparison> = asked.into_iter().chain(controls).collect();
    for comparison in ordered.iter().take(CARDS_MAX) {
        write_card(page, comparison, &scale)?;
    }
    writeln!(page, "</div>")?;
    if ordered.len() > CARDS_MAX {
        write_more_comparisons(page, &ordered[CARDS_MAX..])?;
    }
    Ok(())
}

fn values_of(comparison: &Comparison) -> impl Iterator<Item = f64> {
    let measured = is_measured(comparison).then_some([comparison.ratio, comparison.low, comparison.high]);
    let expected = comparison.expected.map(|(low, high)| [low, high]);
    measured
        .into_iter()
        .flatten()
        .chain(expected.into_iter().flatten().filter(|end| (1e-3..=1e3).contains(end)))
        .chain(comparison.modelled)
        .chain(comparison.published)
}

fn write_card(page: &mut String, comparison: &Comparison, scale: &Scale) -> std::fmt::Result {
    let (class, verdict) = badge(comparison);
    writeln!(
        page,
        "<article><p class=name><b>{}</b> <span class=\"badge {class}\">{verdict}</span></p>",
        escape(&comparison.name)
    )?;
    writeln!(page, "<p class=ratio>{}</p>", headline(comparison))?;
    let mut strip = Strip::new(scale);
    if let Some((low, high)) = comparison.expected {
        strip.band(low, high);
    }
    strip.vertical("one", 1.0);
    if is_measured(comparison) {
        strip.interval(comparison.low, comparison.high);
    }
    comparison.published.into_iter().for_each(|value| strip.published(value));
    comparison.modelled.into_iter().for_each(|value| strip.model(value));
    if is_measured(comparison) {
        strip.dot("median", comparison.ratio, 5);
    }
    writeln!(page, "{}{}", strip.end(), scale.axis())?;
    let times = |value: f64| format!("{}×", round(value));
    let side = [
        comparison.expected.map(|range| (both("expected", "기대 범위"), expected(range))),
        comparison.modelled.map(|value| (both("model", "모델"), times(value))),
        comparison.published.map(|value| (both("published", "발표값"), times(value))),
    ];
    page.push_str("<p class=side>");
    for (name, value) in side.into_iter().flatten() {
        write!(page, "<span>{name} <b>{value}</b></span> ")?;
    }
    writeln!(page, "</p><p class=quiet>{}</p>", sentence(comparison))?;
    writeln!(
        page,
        "<p class=quiet><code>{}</code> / <code>{}</code>, {}</p></article>",
        escape(&comparison.numerator),
        escape(&comparison.denominator),
        escape(&comparison.metric)
    )
}

fn headline(comparison: &Comparison) -> String {
    if !is_measured(comparison) {
        return match comparison.modelled {
            Some(value) => format!("<b>{}×</b> {}", ratio(value), both("by the model", "모델 계산")),
            None => format!("<b>–</b> {}", both("not measured", "측정하지 않음")),
        };
    }
    format!(
        "<b>{}×</b> [{} – {}], {}",
        ratio(comparison.ratio),
        ratio(comparison.low),
        ratio(comparison.high),
        both(&plural(comparison.pairs as usize, "pair"), &format!("{}쌍", comparison.pairs))
    )
}

pub(super) fn expected((low, high): (f64, f64)) -> String {
    match (low <= 0.0, high >= 1e6) {
        (true, true) => "–".to_owned(),
        (true, false) => format!("≤ {}", round(high)),
        (false, true) => format!("≥ {}", round(low)),
        (false, false) => format!("{} – {}", round(low), round(high)),
    }
}

/// Class and text of a comparison's mark.
fn badge(comparison: &Comparison) -> (&'static str, String) {
    if comparison.null_control {
        return match (is_measured(comparison), covers_one(comparison)) {
            (true, true) => {
                ("good", both("null control: no difference, as it must be", "대조군: 차이 없음(정상)"))
            }
            (true, false) => {
                ("bad", both("null control: a difference that cannot be", "대조군: 있을 수 없는 차이"))
            }
            (false, _) => ("plain", both("null control: not measured", "대조군: 측정하지 않음")),
        };
    }
    match comparison.met {
        Some(true) => ("good", both("as expected", "기대와 일치")),
        Some(false) => ("bad", both("not as expected", "기대와 다름")),
        None => ("plain", both("no expectation", "기대값 없음")),
    }
}

/// What the run says about a difference, and what it could have said.
fn sentence(comparison: &Comparison) -> String {
    if !is_measured(comparison) {
        return String::new();
    }
    if (comparison.pairs as usize) < stats::PAIRS_MIN {
        let (pairs, least) = (comparison.pairs, stats::PAIRS_MIN);
        return both(
            &format!(
                "{pairs} pairs are too few for a test ({least} are needed); the interval is their range."
            ),
            &format!("{pairs}쌍으로는 검정할 수 없습니다(최소 {least}쌍 필요). 구간은 값의 범위입니다."),
        );
    }
    let p = comparison.p_holm.filter(|p| p.is_finite());
    let test = p.map_or_else(String::new, |p| format!(" ({})", escape(&p_value(p))));
    let seen = comparison.smallest_difference;
    let seen = if seen.is_finite() {
        both(
            &format!("This run would have seen a difference of {} or more.", percent(seen)),
            &format!("이번 실행으로 알아낼 수 있는 가장 작은 차이는 {}입니다.", percent(seen)),
        )
    } else {
        String::new()
    };
    let verdict = match (covers_one(comparison), p.is_some_and(|p| p < stats::ALPHA)) {
        (true, _) => {
            both(&format!("No difference was shown{test}."), &format!("차이가 확인되지 않았습니다{test}."))
        }
        (false, true) => {
            both(&format!("The two differ{test}."), &format!("두 셀 사이에 차이가 있습니다{test}."))
        }
        (false, false) => both(
            &format!("The interval excludes 1, but the test over all comparisons does not confirm it{test}."),
            &format!("구간은 1을 벗어나지만, 전체 비교를 함께 본 검정으로는 확인되지 않습니다{test}."),
        ),
    };
    format!("{verdict} {seen}")
}

fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn cells(count: usize) -> String {
    both(&plural(count, "cell"), &format!("셀 {count}개"))
}

fn write_more_comparisons(page: &mut String, more: &[&Comparison]) -> std::fmt::Result {
    writeln!(
        page,
        "<details><summary>{}</summary><div class=scroll><table><thead><tr><th>{}<th>{}<th>95 %<th>{}<th>{}<th>{}<th>{}</tr></thead><tbody>",
        both(&format!("{} more comparisons", more.len()), &format!("나머지 비교 {}건", more.len())),
        both("comparison", "비교"),
        both("ratio", "비율"),
        both("pairs", "쌍"),
        both("expected", "기대 범위"),
        both("model", "모델"),
        both("published", "발표값")
    )?;
    let dash = |value: Option<f64>| value.map_or("–".to_owned(), ratio);
    for comparison in more {
        writeln!(
            page,
            "<tr><td>{}<td><b>{}</b><td>{} – {}<td>{}<td>{}<td>{}<td>{}</tr>",
            escape(&comparison.name),
            ratio(comparison.ratio),
            ratio(comparison.low),
            ratio(comparison.high),
            comparison.pairs,
            comparison.expected.map_or("–".to_owned(), expected),
            dash(comparison.modelled),
            dash(comparison.published)
        )?;
    }
    writeln!(page, "</tbody></table></div></details>")
}

fn key_text() -> String {
    both(
        "Ratios are medians over pairs of the same block, with 95 % intervals.",
        "비율은 같은 블록에서 잰 쌍의 중앙값이며, 괄호는 95 % 신뢰구간입니다.",
    )
}

/// What the marks mean: those of measurements, and `with` those of the model, of what was published, and of
/// what is expected.
fn key_marks(with: [bool; 3]) -> String {
    let measured = "<line class=interval x1=-10 x2=10 y1=11 y2=11 /><circle class=median cx=0 cy=11 r=5 />";
    let others = [
        (MODEL, both("model", "모델")),
        (PUBLISHED, both("published", "발표값")),
        (EXPECTED, both("expected", "기대 범위")),
    ];
    let others = others.into_iter().zip(with).filter(|(_, with)| *with).map(|(mark, _)| mark);
    let mut key = String::from("<p class=marks>");
    for (svg, text) in
        std::iter::once((measured, both("measured, 95 % interval", "측정값과 95 % 신뢰구간"))).chain(others)
    {
        let _ = write!(
            key,
            "<span><svg width=22 height=22 aria-hidden=true><svg x=11 overflow=visible>{svg}</svg></svg>{text}</span> "
        );
    }
    key.push_str("</p>");
    key
}

/// A range around x = 0.
const EXPECTED: &str = "<rect class=band x=-10 width=20 y=0 height=22 />";

fn write_charts(page: &mut String, run: &Run) -> std::fmt::Result {
    let metrics: BTreeSet<&String> = run
        .cells
        .iter()
        .flat_map(|cell| cell.measured.keys().chain(cell.modelled.keys()).chain(cell.published.keys()))
        .collect();
    for metric in metrics {
        let cells: Vec<&Cell> = run.cells.iter().filter(|cell| has(cell, metric)).collect();
        write_metric(page, metric, &cells)?;
    }
    Ok(())
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

/// Small multiples: one chart for each combination of the other factors, a row for each level of the factor
/// that has the most.
fn write_metric(page: &mut String, metric: &str, cells: &[&Cell]) -> std::fmt::Result {
    let unit = cells.iter().find_map(|cell| Some(cell.measured.get(metric)?.unit.as_str())).unwrap_or("");
    let unit = if unit.is_empty() { String::new() } else { format!(" <small>{}</small>", escape(unit)) };
    let name = escape(metric);
    writeln!(page, "<h2>{}{unit}</h2>", format_args!("<code>{name}</code>"))?;
    let is_marked = |marks: fn(&Cell) -> &BTreeMap<String, f64>| {
        cells.iter().any(|cell| marks(cell).contains_key(metric))
    };
    let with = [is_marked(|cell| &cell.modelled), is_marked(|cell| &cell.published), false];
    writeln!(page, "{}", key_marks(with))?;
    let factors = varying_factors(cells);
    let across = factors.iter().max_by_key(|factor| levels(cells, factor).len()).copied();
    let scale = Scale::of_sizes(cells.iter().flat_map(|cell| marks_of(cell, metric)));
    let panels = panels(cells, &factors, across);
    page.push_str("<div class=panels>\n");
    for (title, rows) in panels.iter().take(PANELS_MAX) {
        write_panel(page, metric, title, across, rows, &scale)?;
    }
    writeln!(page, "</div>")?;
    let hidden = panels.iter().skip(PANELS_MAX).map(|(_, rows)| rows.len()).sum::<usize>()
        + panels.iter().take(PANELS_MAX).map(|(_, rows)| rows.len().saturating_sub(ROWS_MAX)).sum::<usize>();
    if hidden > 0 {
        let (english, korean) = (
            format!("{hidden} more cells are not drawn; they are in the table below."),
            format!("셀 {hidden}개는 그리지 않았습니다. 아래 표에 있습니다."),
        );
        writeln!(page, "<p class=key>{}</p>", both(&english, &korean))?;
    }
    Ok(())
}

/// Factors with more than one level, in the study's order, which the cells' ids have.
fn varying_factors<'a>(cells: &[&'a Cell]) -> Vec<&'a str> {
    let names: BTreeSet<&str> =
        cells.iter().flat_map(|cell| cell.levels.keys()).map(String::as_str).collect();
    let mut names: Vec<&str> = names.into_iter().filter(|name| levels(cells, name).len() > 1).collect();
    let id = cells.first().map_or("", |cell| cell.id.as_str());
    names.sort_by_key(|name| {
        id.split(',').position(|part| part.split_once('=').is_some_and(|(factor, _)| factor == *name))
    });
    names
}

fn levels<'a>(cells: &[&'a Cell], factor: &str) -> BTreeSet<&'a str> {
    cells.iter().filter_map(|cell| cell.levels.get(factor)).map(String::as_str).collect()
}

/// Titles and rows, in the order of cells.
fn panels<'a>(cells: &[&'a Cell], factors: &[&str], across: Option<&str>) -> Vec<(String, Vec<&'a Cell>)> {
    let mut panels: Vec<(String, Vec<&Cell>)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for cell in cells {
        let others = factors.iter().filter(|factor| Some(**factor) != across);
        let title: Vec<String> = others
            .map(|factor| format!("{factor} {}", cell.levels.get(*factor).map_or("–", String::as_str)))
            .collect();
        let title = title.join(" · ");
        let at = *places.entry(title.clone()).or_insert_with(|| {
            panels.push((title, Vec::new()));
            panels.len() - 1
        });
        panels[at].1.push(cell);
    }
    panels
}

fn write_panel(
    page: &mut String,
    metric: &str,
    title: &str,
    across: Option<&str>,
    rows: &[&Cell],
    scale: &Scale,
) -> std::fmt::Result {
    page.push_str("<section class=panel>");
    if !title.is_empty() {
        write!(page, "<h3>{}</h3>", escape(title))?;
    }
    if let Some(across) = across {
        write!(page, "<p class=key>{}</p>", escape(across))?;
    }
    page.push('\n');
    for cell in rows.iter().take(ROWS_MAX) {
        let level = across.and_then(|factor| cell.levels.get(factor)).unwrap_or(&cell.id);
        writeln!(page, "<div class=row><p><b>{}</b> {}</p>", escape(level), row_text(cell, metric))?;
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
        writeln!(page, "{}</div>", strip.end())?;
    }
    writeln!(page, "{}</section>", scale.axis())
}

fn row_text(cell: &Cell, metric: &str) -> String {
    let mut text = String::new();
    if let Some(summary) = cell.measured.get(metric) {
        let (median, low, high) = (number(summary.median), number(summary.low), number(summary.high));
        let _ = write!(text, "<span>{median} [{low} – {high}]</span> ");
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

fn write_gates(page: &mut String, run: &Run, samples: &[Sample]) -> std::fmt::Result {
    let mut gates: BTreeMap<&str, Tally> = BTreeMap::new();
    for (sample, gate) in
        samples.iter().flat_map(|sample| sample.gates.iter().map(move |gate| (sample, gate)))
    {
        let tally = gates.entry(&gate.name).or_default();
        tally.passed += u32::from(gate.passed);
        tally.failed += u32::from(!gate.passed);
        if !gate.passed && tally.examples.len() < 3 {
            tally.examples.push((sample, &gate.what));
        }
    }
    let with_voids: Vec<&Cell> = run.cells.iter().filter(|cell| cell.voided > 0).collect();
    if gates.is_empty() && with_voids.is_empty() {
        return Ok(());
    }
    writeln!(page, "<h2>{}</h2><ul>", both("Gates", "유효성 검사"))?;
    for (name, tally) in &gates {
        let Tally { passed, failed, examples } = tally;
        let class = if *failed > 0 { "bad" } else { "good" };
        writeln!(
            page,
            "<li><b>{}</b> <span class=\"badge {class}\">{}</span>",
            escape(name),
            both(&format!("{passed} passed, {failed} voided"), &format!("통과 {passed}, 무효 {failed}"))
        )?;
        for (sample, what) in examples {
            writeln!(page, "<br><code>{}</code>: {}", escape(&sample.cell), escape(what))?;
        }
    }
    for cell in with_voids.iter().take(LISTED_MAX) {
        let notes: Vec<String> = cell.notes.iter().map(|note| escape(note)).collect();
        writeln!(
            page,
            "<li class=bad><code>{}</code>: {}. {}",
            escape(&cell.id),
            both(&format!("{} voided", cell.voided), &format!("무효 {}개", cell.voided)),
            notes.join("; ")
        )?;
    }
    write_rest(page, with_voids.len())?;
    writeln!(page, "</ul>")
}

#[derive(Default)]
struct Tally<'a> {
    passed: u32,
    failed: u32,
    examples: Vec<(&'a Sample, &'a String)>,
}

fn write_rest(page: &mut String, listed: usize) -> std::fmt::Result {
    match listed.saturating_sub(LISTED_MAX) {
        0 => Ok(()),
        rest => writeln!(
            page,
            "<li>{}",
            both(&format!("and {} more", plural(rest, "cell")), &format!("외 셀 {rest}개"))
        ),
    }
}

/// How cells were had and why, one line for each reason.
fn write_ways(page: &mut String, run: &Run) -> std::fmt::Result {
    let mut reasons: BTreeMap<(How, &str), Vec<&Cell>> = BTreeMap::new();
    for cell in &run.cells {
        reasons.entry((cell.how, &cell.why)).or_default().push(cell);
    }
    if reasons.is_empty() {
        return Ok(());
    }
    writeln!(page, "<h2>{}</h2><ul>", both("How the cells were had", "셀을 얻은 방법"))?;
    for ((way, why), cells) in reasons.iter().take(LISTED_MAX) {
        let (english, korean) = how(*way);
        let first = cells.first().map_or("", |cell| cell.id.as_str());
        let cells = self::cells(cells.len());
        writeln!(
            page,
            "<li><b>{}</b>, {cells}: {} <span class=quiet>{} <code>{}</code></span>",
            both(english, korean),
            escape(why),
            both("such as", "예:"),
            escape(first)
        )?;
    }
    write_rest(page, reasons.len())?;
    writeln!(page, "</ul>")
}

fn write_table(page: &mut String, run: &Run) -> std::fmt::Result {
    writeln!(
        page,
        "<h2>{}</h2><div class=scroll tabindex=0><table><thead><tr><th>{}<th>{}<th>{}<th>{}<th>95 %<th>n<th>{}<th>{}<th>{}</tr></thead><tbody>",
        both("Every cell", "모든 셀"),
        both("cell", "셀"),
        both("metric", "지표"),
        both("how", "방법"),
        both("median", "중앙값"),
        both("model", "모델"),
        both("published", "발표값"),
        both("voided", "무효")
    )?;
    for cell in &run.cells {
        write_cell(page, cell)?;
    }
    writeln!(page, "</tbody></table></div>")
}

fn write_cell(page: &mut String, cell: &Cell) -> std::fmt::Result {
    let metrics: BTreeSet<&String> =
        cell.measured.keys().chain(cell.modelled.keys()).chain(cell.published.keys()).collect();
    let (english, korean) = how(cell.how);
    let dash = |value: Option<&f64>| value.map_or("–".to_owned(), |value| number(*value));
    let id = escape(&cell.id);
    if metrics.is_empty() {
        let how = both(english, korean);
        return writeln!(
            page,
            "<tr class=first><td>{id}<td>–<td>{how}<td>–<td>–<td>0<td>–<td>–<td>{}</tr>",
            cell.voided
        );
    }
    for (at, metric) in metrics.into_iter().enumerate() {
        let class = if at == 0 { " class=first" } else { "" };
        let name = if at == 0 { id.as_str() } else { "" };
        let summary = cell.measured.get(metric);
        let (median, interval, n) = summary.map_or_else(
            || ("–".to_owned(), "–".to_owned(), 0),
            |s| {
                let median = format!("<b>{}</b> {}", number(s.median), escape(&s.unit));
                (median, format!("{} – {}", number(s.low), number(s.high)), s.values.len())
            },
        );
        writeln!(
            page,
            "<tr{class}><td>{name}<td>{}<td>{}<td>{median}<td>{interval}<td>{n}<td>{}<td>{}<td>{}</tr>",
            escape(metric),
            both(english, korean),
            dash(cell.modelled.get(metric)),
            dash(cell.published.get(metric)),
            cell.voided
        )?;
    }
    Ok(())
}

/// Notes of the run, then those of cells without voids, each once: those with voids are with the gates.
fn write_notes(page: &mut String, run: &Run) -> std::fmt::Result {
    let of_cells = run.cells.iter().filter(|cell| cell.voided == 0).flat_map(|cell| &cell.notes);
    let mut seen = BTreeSet::new();
    let notes: Vec<&String> = run.notes.iter().chain(of_cells).filter(|note| seen.insert(*note)).collect();
    if notes.is_empty() {
        return Ok(());
    }
    writeln!(page, "<h2>{}</h2><ul>", both("Notes", "참고"))?;
    for note in notes.iter().take(LISTED_MAX) {
        writeln!(page, "<li lang=en>{}", escape(note))?;
    }
    if notes.len() > LISTED_MAX {
        let rest = notes.len() - LISTED_MAX;
        writeln!(
            page,
            "<li>{}",
            both(&format!("and {rest} more, in run.json"), &format!("외 {rest}건은 run.json에 있습니다"))
        )?;
    }
    writeln!(page, "</ul>")
}

fn write_method(page: &mut String) -> std::fmt::Result {
    writeln!(page, "<h2>{}</h2><ul>", both("How to read it", "읽는 법"))?;
    for (english, korean) in METHOD {
        writeln!(page, "<li>{}", both(english, korean))?;
    }
    writeln!(page, "</ul>")
}

const METHOD: [(&str, &str); 5] = [
    (
        "Cells run in blocks: each once in every block, in a random order from the seed. A ratio compares two cells within a block, so that what drifts between blocks cancels out.",
        "셀은 블록 단위로 실행합니다. 블록마다 모든 셀을 한 번씩, 시드로 정한 무작위 순서로 실행합니다. 비율은 같은 블록의 두 셀을 비교하므로 블록 사이의 변동은 상쇄됩니다.",
    ),
    (
        "Intervals of medians are those of the sign test, interpolated (Hettmansperger and Sheather 1986): in synthetic runs they hold the truth 93 to 97 times in 100. Below 6 values they are the range of the values: 94 % for 5, 75 % for 3, nothing for 1.",
        "중앙값의 신뢰구간은 부호검정에 기반해 보간한 구간(Hettmansperger–Sheather, 1986)입니다. 합성 데이터로 확인한 포함 확률은 93–97 %입니다. 값이 6개보다 적으면 구간은 값의 범위이며, 신뢰수준은 5개일 때 94 %, 3개일 때 75 %, 1개이면 의미가 없습니다.",
    ),
    (
        "p is that of Wilcoxon's signed rank test (exact, two-sided) after Holm's correction over all comparisons of the run.",
        "p값은 윌콕슨 부호순위검정(정확, 양측)의 값을 이 실행의 모든 비교에 대해 Holm 방법으로 보정한 것입니다.",
    ),
    (
        "The smallest difference is what this scatter and this number of pairs would show in 4 of 5 runs. A smaller one may exist and not be seen.",
        "알아낼 수 있는 가장 작은 차이란, 이 산포와 쌍의 수로 다섯 번 중 네 번은 확인되는 차이입니다. 그보다 작은 차이는 있어도 보이지 않을 수 있습니다.",
    ),
    (
        "Model is the volume model's calculation; published is what the study's authors reported on their hardware. Neither is a measurement of this machine.",
        "모델은 볼륨 모델로 계산한 값이고, 발표값은 원 저자가 자기 장비에서 얻어 발표한 값입니다. 둘 다 이 장비에서 측정한 값이 아닙니다.",
    ),
];

fn write_provenance(page: &mut String, run: &Run) -> std::fmt::Result {
    let machine = &run.machine;
    let hypervisor = machine.hypervisor.as_deref().unwrap_or("–");
    writeln!(page, "<h2>{}</h2><dl>", both("Provenance", "실행 환경"))?;
    let mut line = |english: &str, korean: &str, value: String| {
        writeln!(page, "<dt>{}<dd>{value}", both(english, korean))
    };
    line("command", "명령", format!("<code>{}</code>", escape(&run.command)))?;
    line("seed", "시드", run.seed.to_string())?;
    line("time scale", "시간 축척", round(run.time_scale))?;
    line("CPU", "CPU", format!("{} × {}", machine.cpus, escape(&machine.cpu)))?;
    line("memory", "메모리", bytes(machine.memory_bytes))?;
    line("system", "운영체제", format!("{}, {}", escape(&machine.os), escape(&machine.kernel)))?;
    line("hypervisor", "하이퍼바이저", escape(hypervisor))?;
    for (name, version) in &run.tools {
        writeln!(page, "<dt>{}<dd>{}", escape(name), escape(version))?;
    }
    writeln!(page, "</dl>")
}

const STYLE: &str = "
:root{--page:#fff;--text:#1b2430;--quiet:#5b6675;--line:#dde3ea;--ours:#0b6bcb;--range:#052f5f;--theirs:#8b96a3;--model:#b4540a;--band:#e4edf7;--good:#12703f;--bad:#b3261e;--loud:#fdecea}
@media(prefers-color-scheme:dark){:root{--page:#12161c;--text:#e6ebf2;--quiet:#98a4b3;--line:#2b333e;--ours:#4aa3ff;--range:#d8ebff;--theirs:#8b99a9;--model:#ffab5e;--band:#1d2a3a;--good:#5fd08f;--bad:#ff8a80;--loud:#3a1d1b}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,sans-serif}
main,nav{max-width:60rem;margin:0 auto;padding:1.25rem}
nav{padding-bottom:0;display:flex;justify-content:flex-end;gap:.5rem}
body>input{position:absolute;opacity:0;pointer-events:none}
label{padding:.35rem .8rem;border:1px solid var(--line);border-radius:1rem;font-size:.85rem;color:var(--quiet);cursor:pointer}
#english:checked~nav label[for=english],#korean:checked~nav label[for=korean]{color:var(--text);border-color:var(--ours);font-weight:600}
#english:focus-visible~nav label[for=english],#korean:focus-visible~nav label[for=korean]{outline:2px solid var(--ours)}
#english:checked~main .ko,#korean:checked~main .en{display:none}
main{padding-top:.5rem;overflow-wrap:anywhere}
:lang(ko){word-break:keep-all}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}
h2{font-size:1.1rem;margin:2rem 0 .5rem}
h3{font-size:.95rem;margin:0}
small{font-weight:400;color:var(--quiet)}
.lead{max-width:46rem}
.key,.quiet{color:var(--quiet);font-size:.85rem}
.key{margin:0 0 .4rem}
.loud{background:var(--loud);border-left:4px solid var(--bad);padding:.6rem 1rem .6rem 2rem;margin:1rem 0}
.fine{color:var(--good);font-size:.9rem}
.cards,.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(24rem,100%),1fr));gap:1rem}
.panels{grid-template-columns:repeat(auto-fill,minmax(min(21rem,100%),1fr))}
article,.panel{border:1px solid var(--line);border-radius:.5rem;padding:.8rem 1.1rem;min-width:0}
article p{margin:.2rem 0}
.ratio b{font-size:1.4rem}
.side{display:flex;flex-wrap:wrap;gap:0 1rem;font-size:.9rem}
.badge{display:inline-block;font-size:.8rem;padding:0 .5rem;border:1px solid currentColor;border-radius:1rem}
.good{color:var(--good)}
.bad,em{color:var(--bad)}
li.bad{color:inherit}
.plain{color:var(--quiet)}
em{font-style:normal}
.marks{display:flex;flex-wrap:wrap;gap:0 1rem;color:var(--quiet);font-size:.85rem;margin:.2rem 0 .6rem}
.marks span{display:inline-flex;align-items:center;gap:.3rem}
.marks svg{flex:none}
.marks>span{gap:.35rem}
.row{margin:.45rem 0}
.row p{margin:0;font-size:.9rem;display:flex;flex-wrap:wrap;gap:0 .6rem}
.row i{font-style:normal;color:var(--quiet)}
.strip{display:block;width:100%;height:22px;overflow:visible}
.grid{stroke:var(--line)}
.one{stroke:var(--quiet);stroke-dasharray:3 3}
.interval{stroke:var(--range);stroke-width:3}
.median{fill:var(--ours);stroke:var(--page);stroke-width:1}
.value{fill:none;stroke:var(--ours);opacity:.7}
.model{fill:none;stroke:var(--model);stroke-width:2}
.published{fill:var(--theirs)}
.band{fill:var(--band)}
.beaten{fill:var(--theirs);opacity:.6}
.front{stroke:var(--ours);stroke-width:2}
.axis{position:relative;height:1.2rem;font-size:.7rem;color:var(--quiet)}
.axis span{position:absolute;transform:translateX(-50%);white-space:nowrap}
.axis .left{transform:none}
.axis .right{transform:translateX(-100%)}
.pareto .axis{margin-left:3rem}
.plot{position:relative;height:22rem;margin:.6rem .6rem 0 3rem;border-left:1px solid var(--line);border-bottom:1px solid var(--line)}
.plot>svg{width:100%;height:100%;overflow:visible;display:block}
.plot .y{position:absolute;left:-.4rem;transform:translate(-100%,-50%);font-size:.7rem;color:var(--quiet)}
.plot b{position:absolute;transform:translate(.45rem,-1.5rem);font-size:.8rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;white-space:nowrap;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;text-align:right}
th:first-child,td:first-child,th:nth-child(2),td:nth-child(2){text-align:left}
th:first-child,td:first-child{padding-left:0}
td:first-child{max-width:22rem;white-space:normal;min-width:12rem}
th{color:var(--quiet);font-weight:600}
tr.first td{border-top:1px solid var(--line)}
li{margin:.3rem 0}
code{font-size:.85em}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;font-size:.9rem;margin:0}
dt{color:var(--quiet)}
dd{margin:0;min-width:0}
";
