//! The page of a run: a self-contained file, readable on a phone, with light and dark themes, in English
//! and Korean.
//!
//! All text is HTML, so that it wraps and keeps its size; only marks are drawn. The language switch is
//! two radio buttons and a CSS rule, so it works without scripts. The page's own
//! words and those of runs are in both languages. Names of metrics, factors, levels and cells, and the output of
//! programs, are not translated.

mod answer;
mod charts;
mod cpus;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use frostline_show::{PAGE_TAIL, page_head, show_count};

use super::Language;
use super::korean::korean;
use super::text::{both, breaking, bytes, escape, how, interval, mode, number, of_run, plain, round};
use answer::write_answer;
pub(super) use answer::{expected, is_failed_control, open};
pub(super) use charts::varying_factors;
use charts::write_charts;
use cpus::write_cpus;

use crate::record::{Cell, How, Mode, Run, Sample};

/// Items of a list of cells with something to say.
const LISTED_MAX: usize = 40;

/// Notes that are not folded.
const NOTES_OPEN: usize = 4;

/// The style of the language switch and of charts, also on a phone.
const STYLE: &str = include_str!("page/style.css");

/// The page of a run. `samples` may be empty; with them, it says what each gate read.
pub fn html(run: &Run, samples: &[Sample], language: Language) -> String {
    let title = korean(&run.korean, &run.title).filter(|_| language == Language::Korean);
    let mut page = head(title.as_deref().unwrap_or(&run.title), language);
    // Writing to a string does not fail.
    let _ = write_page(&mut page, run, samples);
    page.push_str(PAGE_TAIL);
    page
}

/// The start of a page up to its content.
pub(super) fn head(title: &str, language: Language) -> String {
    let (lang, english, korean) = match language {
        Language::English => ("en", " checked", ""),
        Language::Korean => ("ko", "", " checked"),
    };
    page_head(lang, &plain(title), STYLE)
        + &format!(
            "<input type=radio name=language id=english{english}><input type=radio name=language id=korean{korean}>\
             <nav><label for=english lang=en>English</label><label for=korean lang=ko>한국어</label></nav><main lang=en>\n"
        )
}

fn write_page(page: &mut String, run: &Run, samples: &[Sample]) -> std::fmt::Result {
    write_question(page, run)?;
    write_warnings(page, run)?;
    write_answer(page, run)?;
    write_charts(page, run)?;
    write_cpus(page, run)?;
    write_gates(page, run, samples)?;
    write_notes(page, run)?;
    folded(page, ("How the cells were had", "셀을 얻은 방법"), |page| write_ways(page, run))?;
    folded(page, ("Every cell", "모든 셀"), |page| write_table(page, run))?;
    folded(page, ("How to read it", "읽는 법"), write_method)?;
    folded(page, ("Provenance", "실행 환경"), |page| write_provenance(page, run))
}

/// What a reader opens to check an answer: its summary is there, its content folded.
fn folded(
    page: &mut String,
    (english, korean): (&str, &str),
    write: impl FnOnce(&mut String) -> std::fmt::Result,
) -> std::fmt::Result {
    let mut content = String::new();
    write(&mut content)?;
    match content.is_empty() {
        true => Ok(()),
        false => writeln!(page, "<details><summary>{}</summary>\n{content}</details>", both(english, korean)),
    }
}

fn write_question(page: &mut String, run: &Run) -> std::fmt::Result {
    let (english, korean) = mode(run.mode);
    writeln!(page, "<h1>{}</h1>", of_run(&run.korean, &run.title))?;
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
                show_count(cells as u64, "cell")
            ),
            format!(
                "유효성 검사에서 <b>표본 {voided}개가 무효 처리</b>되었습니다(셀 {cells}개). 어떤 수치에도 들어가지 않았습니다."
            ),
        );
    }
    for null in run.comparisons.iter().filter(|c| is_failed_control(c)) {
        let name = escape(&null.name);
        let in_korean = korean(&run.korean, &null.name).map_or_else(|| name.clone(), |name| escape(&name));
        warn(
            format!(
                "<b>The null control “{name}” shows a difference where there is none</b>: small differences of this run are not to be trusted."
            ),
            format!(
                "<b>“{in_korean}”에서 있을 수 없는 차이가 나타났습니다</b>: 이번 실행의 작은 차이는 믿을 수 없습니다."
            ),
        );
    }
    if is_scaled(run) {
        let scale = round(run.time_scale);
        warn(
            format!(
                "Where a cell says that its bucket is scaled, it was <b>{scale} times smaller</b> than a real one: rates hold, durations do not."
            ),
            format!(
                "축척이 적용된 셀에서는 버스트 버킷을 실제보다 <b>{scale}배 작게</b> 만들었습니다. 속도는 유효하지만 지속 시간은 그대로 읽으면 안 됩니다."
            ),
        );
    }
    let skipped = run.cells.iter().filter(|cell| cell.how == How::Skip).count();
    if skipped > 0 {
        warn(
            format!(
                "Left out, because something needed is not here: {}.",
                show_count(skipped as u64, "cell")
            ),
            format!("필요한 것이 없어 셀 {skipped}개를 제외했습니다."),
        );
    }
    warnings
}

/// A scale that is no number is one a reader must see.
fn is_scaled(run: &Run) -> bool {
    run.time_scale != 1.0
}

fn write_gates(page: &mut String, run: &Run, samples: &[Sample]) -> std::fmt::Result {
    let mut gates: BTreeMap<&str, Tally> = BTreeMap::new();
    for (sample, gate) in
        samples.iter().flat_map(|sample| sample.gates.iter().map(move |gate| (sample, gate)))
    {
        let tally = gates.entry(&gate.name).or_default();
        tally.passed += u32::from(gate.passed);
        tally.failed += u32::from(!gate.passed);
        if !gate.passed {
            tally.example.get_or_insert((sample, &gate.what));
        }
    }
    let with_voids: Vec<&Cell> = run.cells.iter().filter(|cell| cell.voided > 0).collect();
    if gates.is_empty() && with_voids.is_empty() {
        return Ok(());
    }
    let all_passed = with_voids.is_empty() && gates.values().all(|tally| tally.failed == 0);
    writeln!(page, "<h2>{}</h2>", both("Gates", "유효성 검사"))?;
    if all_passed {
        let count = gates.len();
        let (english, korean) = (
            match count {
                1 => "The gate passed in every sample that it judges.".to_owned(),
                _ => format!("All {count} gates passed in every sample that they judge."),
            },
            format!("검사 {count}가지를 판정 대상 표본이 모두 통과했습니다."),
        );
        writeln!(page, "<details><summary>{}</summary>", both(&english, &korean))?;
    }
    page.push_str("<ul>\n");
    for (name, tally) in &gates {
        let Tally { passed, failed, example } = tally;
        let class = if *failed > 0 { "bad" } else { "good" };
        writeln!(
            page,
            "<li><code>{}</code> <span class=\"badge {class}\">{}</span>",
            escape(name),
            both(&format!("{passed} passed, {failed} voided"), &format!("통과 {passed}, 무효 {failed}"))
        )?;
        if let Some((sample, what)) = example {
            writeln!(page, "<br><code>{}</code>: {}", escape(&sample.cell), of_run(&run.korean, what))?;
        }
    }
    if !with_voids.is_empty() {
        let (english, korean) = (
            format!("{} with voided samples", show_count(with_voids.len() as u64, "cell")),
            format!("무효 표본이 있는 셀 {}개", with_voids.len()),
        );
        writeln!(page, "</ul><details><summary>{}</summary><ul>", both(&english, &korean))?;
    }
    for cell in with_voids.iter().take(LISTED_MAX) {
        let notes: Vec<String> = cell.notes.iter().map(|note| of_run(&run.korean, note)).collect();
        writeln!(
            page,
            "<li class=bad><code>{}</code>: {}. {}",
            escape(&cell.id),
            both(&format!("{} voided", cell.voided), &format!("무효 {}개", cell.voided)),
            notes.join("; ")
        )?;
    }
    write_rest(page, with_voids.len())?;
    writeln!(page, "</ul>{}", if all_passed || !with_voids.is_empty() { "</details>" } else { "" })
}

#[derive(Default)]
struct Tally<'a> {
    passed: u32,
    failed: u32,
    example: Option<(&'a Sample, &'a String)>,
}

fn write_rest(page: &mut String, listed: usize) -> std::fmt::Result {
    match listed.saturating_sub(LISTED_MAX) {
        0 => Ok(()),
        rest => writeln!(
            page,
            "<li>{}",
            both(&format!("and {} more", show_count(rest as u64, "cell")), &format!("외 셀 {rest}개"))
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
    writeln!(page, "<ul>")?;
    for ((way, why), cells) in reasons.iter().take(LISTED_MAX) {
        let (english, korean) = how(*way);
        let first = cells.first().map_or("", |cell| cell.id.as_str());
        let cells = self::cells(cells.len());
        writeln!(
            page,
            "<li><b>{}</b>, {cells}: {} <span class=quiet>{} <code>{}</code></span>",
            both(english, korean),
            of_run(&run.korean, why),
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
        "<div class=scroll tabindex=0><table><thead><tr><th>{}<th>{}<th>{}<th>95 %<th>n<th>{}<th>{}<th>{}<th>{}</tr></thead><tbody>",
        both("cell", "셀"),
        both("metric", "지표"),
        both("median", "중앙값"),
        both("model", "모델"),
        both("published", "발표값"),
        both("how", "방법"),
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
    let id = breaking(&cell.id);
    if metrics.is_empty() {
        let how = both(english, korean);
        return writeln!(
            page,
            "<tr class=first><td>{id}<td>–<td>–<td>–<td>0<td>–<td>–<td>{how}<td>{}</tr>",
            cell.voided
        );
    }
    for (at, metric) in metrics.into_iter().enumerate() {
        let class = if at == 0 { " class=first" } else { "" };
        let name = if at == 0 { id.as_str() } else { "" };
        let summary = cell.measured.get(metric);
        let (median, shown, n) = summary.map_or_else(
            || ("–".to_owned(), "–".to_owned(), 0),
            |s| {
                let median = format!("<b>{}</b> {}", number(s.median), escape(&s.unit));
                (median, interval(number(s.low), number(s.high), s.values.len()), s.values.len())
            },
        );
        writeln!(
            page,
            "<tr{class}><td>{name}<td>{}<td>{median}<td>{shown}<td>{n}<td>{}<td>{}<td>{}<td>{}</tr>",
            escape(metric),
            dash(cell.modelled.get(metric)),
            dash(cell.published.get(metric)),
            both(english, korean),
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
    let (open, more) = notes.split_at(notes.len().min(NOTES_OPEN));
    for note in open {
        writeln!(page, "<li>{}", of_run(&run.korean, note))?;
    }
    if !more.is_empty() {
        let (english, korean) =
            (show_count(more.len() as u64, "more note"), format!("참고 {}건 더", more.len()));
        writeln!(page, "</ul><details><summary>{}</summary><ul>", both(&english, &korean))?;
    }
    for note in more.iter().take(LISTED_MAX - NOTES_OPEN) {
        writeln!(page, "<li>{}", of_run(&run.korean, note))?;
    }
    if notes.len() > LISTED_MAX {
        let rest = notes.len() - LISTED_MAX;
        writeln!(
            page,
            "<li>{}",
            both(&format!("and {rest} more, in run.json"), &format!("외 {rest}건은 run.json에 있습니다"))
        )?;
    }
    writeln!(page, "</ul>{}", if more.is_empty() { "" } else { "</details>" })
}

fn write_method(page: &mut String) -> std::fmt::Result {
    writeln!(page, "<ul>")?;
    for (english, korean) in METHOD {
        writeln!(page, "<li>{}", both(english, korean))?;
    }
    writeln!(page, "</ul>")
}

const METHOD: [(&str, &str); 6] = [
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
        "The smallest difference is what this scatter and this number of pairs would show in 4 of 5 runs, for one comparison by itself. A smaller one may exist and not be seen.",
        "알아낼 수 있는 가장 작은 차이란, 이 산포와 쌍의 수로 비교 하나만 볼 때 다섯 번 중 네 번은 확인되는 차이입니다. 그보다 작은 차이는 있어도 보이지 않을 수 있습니다.",
    ),
    (
        "Model is the volume model's calculation; published is what the study's authors reported on their hardware. Neither is a measurement of this machine.",
        "모델은 볼륨 모델로 계산한 값이고, 발표값은 원 저자가 자기 장비에서 얻어 발표한 값입니다. 둘 다 이 장비에서 측정한 값이 아닙니다.",
    ),
    (
        "Names of metrics, factors, levels, cells and gates are those of the study's file and of run.json. They and the output of programs are not translated.",
        "지표, 요인, 수준, 셀, 유효성 검사의 이름은 연구 파일과 run.json에 있는 그대로이고, 프로그램이 출력한 글도 원문 그대로입니다.",
    ),
];

fn write_provenance(page: &mut String, run: &Run) -> std::fmt::Result {
    let machine = &run.machine;
    let hypervisor = machine.hypervisor.as_deref().unwrap_or("–");
    writeln!(page, "<dl>")?;
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

fn cells(count: usize) -> String {
    both(&show_count(count as u64, "cell"), &format!("셀 {count}개"))
}
