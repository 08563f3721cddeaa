//! The answer of a run: in words, then a chart with a row for each ratio, and a folded card for each with what was
//! expected, published and modelled beside it.

use std::collections::BTreeMap;
use std::fmt::Write;

use frostline_show::show_count;

use super::super::chart::{Scale, Strip};
use super::super::text::{both, breaking, escape, interval, of_run, p_value, percent, ratio, round};
use super::charts::{key_marks, varying_factors};
use crate::record::{Cell, Comparison, Run};
use crate::stats;

/// Comparisons that get a card; the rest are in a table.
const CARDS_MAX: usize = 60;
/// Ratios in the chart that is not folded.
const ROWS_OPEN: usize = 9;
/// Sentences of the answer in words.
const WORDS_MAX: usize = 6;
/// Ratios up to which a sentence has the interval of each.
const INTERVALS_MAX: usize = 3;

fn is_measured(comparison: &Comparison) -> bool {
    comparison.pairs > 0 && comparison.ratio.is_finite()
}

fn covers_one(comparison: &Comparison) -> bool {
    comparison.low <= 1.0 && 1.0 <= comparison.high
}

pub(super) fn write_answer(page: &mut String, run: &Run) -> std::fmt::Result {
    writeln!(page, "<h2>{}</h2>", both("The answer", "결과"))?;
    let has_cuts = write_cuts(page, run)?;
    if run.comparisons.is_empty() {
        return match has_cuts {
            true => Ok(()),
            false => writeln!(
                page,
                "<p>{}</p>",
                both("The study asks for no ratio.", "이 연구는 비율을 묻지 않습니다.")
            ),
        };
    }
    // Null controls last: they are about the run, not about the question.
    let (controls, asked): (Vec<_>, Vec<_>) = run.comparisons.iter().partition(|c| c.null_control);
    write_words(page, run, &asked)?;
    writeln!(
        page,
        "<p class=key>{}</p>{}",
        key_text(),
        key_marks([
            run.comparisons.iter().any(is_measured),
            run.comparisons.iter().any(|comparison| comparison.modelled.is_some()),
            run.comparisons.iter().any(|comparison| comparison.published.is_some()),
            run.comparisons.iter().any(|comparison| comparison.expected.is_some()),
        ])
    )?;
    let scale = Scale::of_ratios(run.comparisons.iter().flat_map(values_of));
    let ordered: Vec<&Comparison> = asked.into_iter().chain(controls).collect();
    let carded = &ordered[..ordered.len().min(CARDS_MAX)];
    let (open, more) = carded.split_at(carded.len().min(ROWS_OPEN));
    write_rows(page, run, open, &scale)?;
    if !more.is_empty() {
        let (english, korean) =
            (show_count(more.len() as u64, "more ratio"), format!("나머지 비율 {}건", more.len()));
        writeln!(page, "<details><summary>{}</summary>", both(&english, &korean))?;
        write_rows(page, run, more, &scale)?;
        writeln!(page, "</details>")?;
    }
    let summary = both("How each ratio came about", "비율마다 자세히");
    writeln!(page, "<details><summary>{summary}</summary><div class=cards>")?;
    carded.iter().try_for_each(|comparison| write_card(page, run, comparison, &scale))?;
    writeln!(page, "</div></details>")?;
    if ordered.len() > CARDS_MAX {
        write_more_comparisons(page, run, &ordered[CARDS_MAX..])?;
    }
    Ok(())
}

/// The answer as sentences.
fn write_words(page: &mut String, run: &Run, asked: &[&Comparison]) -> std::fmt::Result {
    let count = |is: fn(&Comparison) -> bool| asked.iter().filter(|comparison| is(comparison)).count();
    let judged = count(|comparison| comparison.met.is_some());
    if judged > 0 {
        let verdicts = [
            (count(|c| c.judged() == Some(true)), "as expected", "기대와 일치"),
            (count(|c| c.judged() == Some(false)), "not as expected", "기대와 다름"),
            (count(|c| c.is_open() && c.is_few()), FEW.0, FEW.1),
            (count(|c| c.is_open() && !c.is_few()), SCATTERED.0, SCATTERED.1),
        ];
        let verdicts = verdicts.into_iter().filter(|(count, ..)| *count > 0);
        let (english, korean): (Vec<_>, Vec<_>) = verdicts
            .map(|(count, english, korean)| (format!("{count} {english}"), format!("{korean} {count}개")))
            .unzip();
        let (english, korean) = (
            format!(
                "Of {} with an expected range: {}.",
                show_count(judged as u64, "ratio"),
                english.join(", ")
            ),
            format!("기대 범위가 있는 비율 {judged}개: {}.", korean.join(", ")),
        );
        writeln!(page, "<p class=lead><b>{}</b></p>", both(&english, &korean))?;
    }
    writeln!(page, "<ul class=words>")?;
    for (name, levels) in sentences(asked).into_iter().take(WORDS_MAX) {
        let (english, korean): (Vec<_>, Vec<_>) = levels
            .iter()
            .enumerate()
            .map(|(at, (level, comparison))| in_words(level, comparison, (at, levels.len())))
            .unzip();
        let published: Vec<Option<f64>> = levels.iter().map(|(_, comparison)| comparison.published).collect();
        let published = match published.first() {
            Some(Some(value)) if published.iter().all(|other| *other == Some(*value)) => {
                let value = round(*value);
                (format!("; {value} was published"), format!(", 발표값은 {value}배"))
            }
            _ => Default::default(),
        };
        let words = both(
            &format!("{}{}.", english.join("; "), published.0),
            &format!("{}{}.", korean.join("; "), published.1),
        );
        writeln!(page, "<li>{}: {words}", of_run(&run.korean, name))?;
    }
    writeln!(page, "</ul>")
}

/// The comparisons of one name, which differ only in levels, such as `bs=16k`: they are one sentence.
fn sentences<'a>(asked: &[&'a Comparison]) -> Vec<(&'a str, Vec<(String, &'a Comparison)>)> {
    let mut sentences: Vec<(&str, Vec<(String, &Comparison)>)> = Vec::new();
    for comparison in asked {
        let name = comparison.name.as_str();
        let parts = || name.match_indices(", ").map(|(at, _)| at);
        let is_levels = |at: &usize| name[at + 2..].split(", ").all(|part| part.contains('='));
        let end = parts().find(is_levels).unwrap_or(name.len());
        let (name, level) = (&name[..end], escape(name[end..].trim_start_matches(", ")));
        match sentences.iter_mut().find(|(known, _)| *known == name) {
            Some((_, levels)) if !level.is_empty() => levels.push((level, comparison)),
            _ => sentences.push((name, vec![(level, comparison)])),
        }
    }
    sentences
}

/// In English and Korean, the one at `at` of `count` in a sentence.
fn in_words(level: &str, comparison: &Comparison, (at, count): (usize, usize)) -> (String, String) {
    let value = ratio(comparison.ratio);
    let times = if at == 0 { " times" } else { "" };
    let (mut english, mut korean) = if is_measured(comparison) {
        let within = match count {
            ..=INTERVALS_MAX => within(comparison),
            _ => Default::default(),
        };
        (format!("<b>{value}</b>{times}{}", within.0), format!("<b>{value}</b>배{}", within.1))
    } else {
        match comparison.modelled.map(ratio) {
            Some(value) => {
                (format!("<b>{value}</b>{times} by the model"), format!("모델로는 <b>{value}</b>배"))
            }
            None => ("not measured".to_owned(), "측정하지 않음".to_owned()),
        }
    };
    if !level.is_empty() {
        english += &format!(" at {level}");
        korean = format!("{level} {korean}");
    }
    let verdict = match (comparison.judged(), is_measured(comparison) && covers_one(comparison)) {
        (Some(true), _) => ("as expected", "기대와 일치"),
        (Some(false), _) => ("not as expected", "기대와 다름"),
        (None, _) if comparison.is_open() => open(comparison),
        (None, true) if comparison.pairs > 1 => ("so no difference was shown", "차이가 확인되지 않음"),
        _ => return (english, korean),
    };
    (format!("{english}, {}", verdict.0), format!("{korean}, {}", verdict.1))
}

/// Why an expectation is not judged, in English and Korean.
const FEW: (&str, &str) = ("too few pairs to tell", "쌍이 적어 판단할 수 없음");
const SCATTERED: (&str, &str) = ("too scattered to tell", "산포가 커서 판단할 수 없음");

pub(in crate::report) fn open(comparison: &Comparison) -> (&'static str, &'static str) {
    if comparison.is_few() { FEW } else { SCATTERED }
}

/// Between which values the truth is, and how far that can be believed of so few.
fn within(comparison: &Comparison) -> (String, String) {
    let (low, high) = (ratio(comparison.low), ratio(comparison.high));
    match comparison.pairs as usize {
        1 => (" (one pair)".to_owned(), "(1쌍)".to_owned()),
        few if few < stats::PAIRS_MIN => (
            format!(" ({low} to {high}, the range of {few} pairs)"),
            format!("({low}–{high}, {few}쌍의 범위)"),
        ),
        _ => (format!(" ({low} to {high})"), format!("({low}–{high})")),
    }
}

/// What power cuts took, as a sentence for each outcome; whether there is any.
fn write_cuts(page: &mut String, run: &Run) -> Result<bool, std::fmt::Error> {
    let count = |cell: &Cell, metric: &str| cell.measured.get(metric).map(|summary| summary.median as u64);
    let cells: Vec<&Cell> =
        run.cells.iter().filter(|cell| count(cell, "lost_acknowledged").is_some()).collect();
    let factors = varying_factors(&cells);
    let mut outcomes: BTreeMap<Vec<u64>, Vec<String>> = BTreeMap::new();
    for cell in &cells {
        let metrics = std::iter::once("cuts").chain(LOSSES.map(|(metric, ..)| metric));
        let outcome = metrics.map(|metric| count(cell, metric).unwrap_or(0)).collect();
        let levels: Vec<String> = factors
            .iter()
            .filter_map(|factor| cell.levels.get(*factor))
            .map(|level| breaking(level))
            .collect();
        outcomes.entry(outcome).or_default().push(levels.join(" · "));
    }
    if outcomes.is_empty() {
        return Ok(false);
    }
    writeln!(page, "<ul class=words>")?;
    for (outcome, cells) in outcomes.into_iter().take(WORDS_MAX) {
        let (cuts, losses) = outcome.split_first().map_or((0, &[][..]), |(cuts, losses)| (*cuts, losses));
        let (english, korean): (Vec<_>, Vec<_>) = LOSSES
            .iter()
            .zip(losses)
            .filter(|(_, states)| **states > 0)
            .map(|((_, english, korean), states)| {
                (format!("<b>{states}</b> {english}"), format!("{korean} <b>{states}</b>번"))
            })
            .unzip();
        let of = show_count(cuts, "power cut");
        let words = match english.is_empty() {
            true => both(&format!("{of}, nothing lost."), &format!("전원 차단 {cuts}번에 잃은 것 없음.")),
            false => both(
                &format!("of {of}, {}.", english.join(", ")),
                &format!("전원 차단 {cuts}번 중 {}.", korean.join(", ")),
            ),
        };
        writeln!(page, "<li>{}: {words}", cells.join(", "))?;
    }
    writeln!(page, "</ul>")?;
    Ok(true)
}

/// Metrics of what a power cut may have taken.
const LOSSES: [(&str, &str, &str); 5] = [
    ("lost_acknowledged", "lost data that fsync had acknowledged", "fsync로 확인된 데이터를 잃음"),
    ("unmountable", "left a file system that could not be mounted", "마운트할 수 없음"),
    ("wrong_content", "changed its content", "내용이 바뀜"),
    ("stale_exposed", "exposed content of deleted files", "삭제한 파일의 내용이 드러남"),
    ("fsck_damaged", "left damage that fsck found", "fsck가 손상을 발견"),
];

/// One chart: a row for each ratio, all on one scale.
fn write_rows(page: &mut String, run: &Run, rows: &[&Comparison], scale: &Scale) -> std::fmt::Result {
    writeln!(page, "<section class=rows>")?;
    for comparison in rows {
        let (class, verdict) = badge(comparison);
        let verdict = match class {
            "plain" if !comparison.is_open() && !comparison.null_control => String::new(),
            _ => format!(" <span class=\"badge {class}\">{verdict}</span>"),
        };
        writeln!(
            page,
            "<div class=entry><p>{}{verdict}</p>{}<p>{}</p></div>",
            name(run, comparison),
            strip_of(comparison, scale),
            headline(comparison)
        )?;
    }
    writeln!(page, "<div class=entry><p></p>{}<p></p></div></section>", scale.axis())
}

fn strip_of(comparison: &Comparison, scale: &Scale) -> String {
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
    strip.end()
}

fn name(run: &Run, comparison: &Comparison) -> String {
    of_run(&run.korean, &comparison.name)
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

fn write_card(page: &mut String, run: &Run, comparison: &Comparison, scale: &Scale) -> std::fmt::Result {
    let (class, verdict) = badge(comparison);
    writeln!(
        page,
        "<article><p class=name><b>{}</b> <span class=\"badge {class}\">{verdict}</span></p>",
        name(run, comparison)
    )?;
    writeln!(page, "<p class=ratio>{}</p>", headline(comparison))?;
    writeln!(page, "{}{}", strip_of(comparison, scale), scale.axis())?;
    let times = |value: f64| format!("{}×", round(value));
    let side = [
        comparison.expected.map(|range| (both("expected", "기대 범위"), expected(range))),
        comparison
            .modelled
            .filter(|_| is_measured(comparison))
            .map(|value| (both("model", "모델"), times(value))),
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
    let pairs = comparison.pairs as usize;
    let (value, low, high) = (ratio(comparison.ratio), ratio(comparison.low), ratio(comparison.high));
    let count = both(&show_count(pairs as u64, "pair"), &format!("{pairs}쌍"));
    match pairs {
        1 => format!("<b>{value}×</b>, {count}"),
        few if few < stats::PAIRS_MIN => {
            let range = both(&format!("range of {few} pairs"), &format!("{few}쌍의 범위"));
            format!("<b>{value}×</b> [{low} – {high}], {range}")
        }
        _ => format!("<b>{value}×</b> [{low} – {high}], {count}"),
    }
}

pub(in crate::report) fn expected((low, high): (f64, f64)) -> String {
    match (low <= 0.0, high >= 1e6) {
        (true, true) => "–".to_owned(),
        (true, false) => format!("≤ {}", round(high)),
        (false, true) => format!("≥ {}", round(low)),
        (false, false) if low == high => round(low),
        (false, false) => format!("{} – {}", round(low), round(high)),
    }
}

/// Whether the same cell under two labels seems to differ. Below [`stats::PAIRS_MIN`] pairs that is chance: the
/// range of three misses the truth in one run of four.
pub(in crate::report) fn is_failed_control(comparison: &Comparison) -> bool {
    comparison.null_control && is_measured(comparison) && !comparison.is_few() && !covers_one(comparison)
}

/// Class and text of a comparison's mark.
fn badge(comparison: &Comparison) -> (&'static str, String) {
    if comparison.null_control {
        return if is_failed_control(comparison) {
            ("bad", both("null control: a difference that cannot be", "대조군: 있을 수 없는 차이"))
        } else if !is_measured(comparison) {
            ("plain", both("null control: not measured", "대조군: 측정하지 않음"))
        } else if covers_one(comparison) && !comparison.is_few() {
            ("good", both("null control: no difference, as it must be", "대조군: 차이 없음(정상)"))
        } else {
            ("plain", both("null control: too few pairs", "대조군: 쌍이 부족함"))
        };
    }
    match comparison.judged() {
        Some(true) => ("good", both("as expected", "기대와 일치")),
        Some(false) => ("bad", both("not as expected", "기대와 다름")),
        None if comparison.is_open() => ("plain", both(open(comparison).0, open(comparison).1)),
        None => ("plain", both("no expectation", "기대값 없음")),
    }
}

/// What the run says about a difference, and what it could have said.
fn sentence(comparison: &Comparison) -> String {
    if !is_measured(comparison) {
        return String::new();
    }
    if comparison.is_few() {
        let (pairs, least) = (comparison.pairs, stats::PAIRS_MIN);
        return both(
            &format!(
                "{} too few for a test ({least} are needed); the interval is their range.",
                if pairs == 1 { "1 pair is".to_owned() } else { format!("{pairs} pairs are") }
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

fn write_more_comparisons(page: &mut String, run: &Run, more: &[&Comparison]) -> std::fmt::Result {
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
            "<tr><td>{}<td><b>{}</b><td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            name(run, comparison),
            ratio(comparison.ratio),
            interval(ratio(comparison.low), ratio(comparison.high), comparison.pairs as usize),
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
        "Ratios are medians over pairs of the same block, with 95 % intervals, or with the range where pairs are fewer than 6.",
        "비율은 같은 블록에서 잰 쌍의 중앙값이며, 괄호는 95 % 신뢰구간이고 6쌍보다 적으면 값의 범위입니다.",
    )
}
