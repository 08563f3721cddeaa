//! The Pareto front of price and speed: every option as a point, and those that no other beats in both
//! joined by a line and listed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use frostline_show::{PAGE_TAIL, grouped};

use super::chart::{Plane, Scale};
use super::text::{both, breaking, escape, of_run, round};
use super::{Language, page};

/// One option.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Dollars a month.
    pub dollars: f64,
    /// MiB/s that it sustains.
    pub mib_per_s: f64,
    /// Its name, such as `4 x st1 2 TiB`.
    pub label: String,
    /// What it is one of, such as `st1`; points of a series have one colour.
    pub series: String,
    /// Whether no other option is both cheaper and faster.
    pub on_front: bool,
    /// Whether it is the one to take.
    pub is_answer: bool,
}

/// Points that are drawn; more would be a blot.
const POINTS_MAX: usize = 400;

/// Colours; series after these share the last.
const COLOURS: usize = 5;

/// A page of its own around [`pareto`], which begins with the answer in words and ends with what a reader must know.
pub fn pareto_page(
    title: &str,
    answer: (&str, &str),
    needed_mib_per_s: Option<f64>,
    points: &[Point],
    notes: &[String],
    language: Language,
) -> String {
    let mut html = page::head(title, language);
    let (answer, title) = (both(&breaking(answer.0), &breaking(answer.1)), escape(title));
    let _ = write!(html, "<h1>{answer}</h1><p class=quiet>{title}</p>{}", pareto(needed_mib_per_s, points));
    if !notes.is_empty() {
        let notes: String =
            notes.iter().map(|note| format!("<li>{}</li>", of_run(&BTreeMap::new(), note))).collect();
        let _ = write!(html, "<h2>{}</h2><ul>{notes}</ul>", both("Notes", "참고"));
    }
    html.push_str(PAGE_TAIL);
    html
}

/// The chart and the list of the front, as a part of a page with the style of [`super::html`].
pub fn pareto(needed_mib_per_s: Option<f64>, points: &[Point]) -> String {
    let dollars = Scale::of_sizes(points.iter().map(|point| point.dollars));
    let speeds = Scale::of_sizes(points.iter().map(|point| point.mib_per_s).chain(needed_mib_per_s));
    let mut front: Vec<&Point> = points.iter().filter(|point| point.on_front).collect();
    front.sort_by(|a, b| a.dollars.total_cmp(&b.dollars));
    let place = |point: &Point| (point.dollars, point.mib_per_s);
    let series: BTreeSet<&str> = points.iter().map(|point| point.series.as_str()).collect();
    let series: Vec<&str> = series.into_iter().collect();
    let colour = |point: &Point| {
        let at = series.iter().position(|series| *series == point.series).unwrap_or(0);
        format!("series s{}", at.min(COLOURS - 1))
    };
    let mut html = format!(
        "<section class=pareto><p class=key>{}</p>",
        both(
            "sustained MiB/s (vertical) over dollars a month (horizontal)",
            "월 비용(달러, 가로)에 따른 지속 처리량(MiB/s, 세로)"
        )
    );
    write_legend(&mut html, &series, needed_mib_per_s.is_some());
    let mut plane = Plane::new(&dollars, &speeds);
    for (from, to) in front.iter().zip(front.iter().skip(1)) {
        // A staircase: between two options one buys the cheaper.
        let corner = (to.dollars, from.mib_per_s);
        plane.path("front", &[place(from), corner, place(to)]);
    }
    if let (Some(first), Some(last), Some(needed)) =
        (dollars.ticks.first(), dollars.ticks.last(), needed_mib_per_s)
    {
        plane.line("one", (*first, needed), (*last, needed));
    }
    let beaten = points.iter().filter(|point| !point.on_front).take(POINTS_MAX);
    for point in beaten.chain(front.iter().copied().take(POINTS_MAX)) {
        plane.dot(&format!("\"{}\"", colour(point)), place(point), if point.on_front { 6 } else { 4 });
    }
    for point in points.iter().filter(|point| point.is_answer) {
        plane.dot("answer", place(point), 10);
    }
    // Numbers on the chart, names in the list: a name has no room on a phone, and a number has some where no other is.
    let mut placed: Vec<(f64, f64)> = Vec::new();
    let mut numbers = Vec::new();
    for (at, point) in front.iter().enumerate() {
        let Some((x, y)) = plane.place(place(point)) else { continue };
        if placed.iter().all(|(a, b)| (x - a).abs() >= APART.0 || (y - b).abs() >= APART.1) {
            placed.push((x, y));
            numbers.push((point.dollars, point.mib_per_s, (at + 1).to_string()));
        }
    }
    html.push_str(&plane.end(&numbers));
    if points.len() > front.len() + POINTS_MAX {
        let _ = write!(
            html,
            "<p class=key>{}</p>",
            both(
                &format!("{POINTS_MAX} of the options off the front are drawn."),
                &format!("최적 경계 밖의 선택지는 {POINTS_MAX}개만 그렸습니다.")
            )
        );
    }
    // From the answer on; without one, what is fast enough.
    let answer = points.iter().find(|point| point.is_answer);
    let first = front.iter().position(|point| match answer {
        Some(answer) => point.dollars >= answer.dollars,
        None => needed_mib_per_s.is_none_or(|needed| point.mib_per_s >= needed),
    });
    write_front(&mut html, &front, first.unwrap_or(front.len()));
    html.push_str("</section>");
    html
}

/// Percentages of the chart's width and height that two numbers are apart, one of them at least: room for two digits on
/// a phone.
const APART: (f64, f64) = (8.0, 8.0);
/// Options that are listed without being asked for: the answer, and what is faster for more dollars.
const LISTED_MAX: usize = 6;

/// What the colours and marks are.
fn write_legend(html: &mut String, series: &[&str], has_need: bool) {
    html.push_str("<p class=marks>");
    for (at, name) in series.iter().enumerate() {
        let _ = write!(
            html,
            "<span><svg width=12 height=12 aria-hidden=true><circle class=\"series s{}\" cx=6 cy=6 r=5 /></svg>{}</span>",
            at.min(COLOURS - 1),
            escape(name)
        );
    }
    let marks = [
        ("<circle class=answer cx=6 cy=6 r=5 />", "the answer", "추천"),
        (
            "<line class=front x1=0 x2=12 y1=6 y2=6 />",
            "nothing is cheaper and faster",
            "더 싸면서 빠른 것 없음",
        ),
        ("<line class=one x1=0 x2=12 y1=6 y2=6 />", "needed all day", "하루 종일 필요한 처리량"),
    ];
    let count = if has_need { marks.len() } else { marks.len() - 1 };
    for (mark, english, korean) in marks.into_iter().take(count) {
        let words = both(english, korean);
        let _ = write!(html, "<span><svg width=12 height=12 aria-hidden=true>{mark}</svg>{words}</span>");
    }
    html.push_str("</p>");
}

fn write_front(html: &mut String, front: &[&Point], first: usize) {
    if front.is_empty() {
        let _ = write!(
            html,
            "<p>{}</p>",
            both("No option meets the need.", "조건을 만족하는 선택지가 없습니다.")
        );
        return;
    }
    let _ = write!(
        html,
        "<p>{}</p>",
        both(
            "No other option is both cheaper and faster than these:",
            "아래 선택지보다 더 싸면서 더 빠른 선택지는 없습니다(파레토 최적)."
        )
    );
    let listed = first..front.len().min(first + LISTED_MAX);
    // Numbers as on the chart.
    let list = |html: &mut String, range: std::ops::Range<usize>| {
        let _ = write!(html, "<ol start={}>", range.start + 1);
        for point in &front[range] {
            let dollars = usd(point.dollars);
            let _ = write!(
                html,
                "<li><b>{}</b>: {}, {} MiB/s</li>",
                breaking(&point.label),
                both(&format!("${dollars} a month"), &format!("월 ${dollars}")),
                round(point.mib_per_s)
            );
        }
        html.push_str("</ol>");
    };
    list(html, listed.clone());
    if listed.len() < front.len() {
        let rest = front.len() - listed.len();
        let _ = write!(
            html,
            "<details><summary>{}</summary>",
            both(&format!("{rest} others, slower or dearer"), &format!("더 느리거나 비싼 선택지 {rest}개"))
        );
        list(html, 0..listed.start);
        list(html, listed.end..front.len());
        html.push_str("</details>");
    }
}

/// Dollars and cents.
fn usd(dollars: f64) -> String {
    let cents = (dollars * 100.0).round().max(0.0);
    if cents >= 1e15 {
        return round(dollars);
    }
    format!("{}.{:02}", grouped((cents / 100.0).floor()), (cents % 100.0) as u8)
}
