//! The plan as a page: when each way is ready, and when it is at full speed.

use std::fmt::Write as _;

use frostline_show::{PAGE_TAIL, escape_html, page_head};

use super::{RestorePlan, RestoreWay};

const STYLE: &str = "svg{width:100%;height:auto;min-width:36rem}text{fill:var(--text)}.tick{fill:var(--quiet)}.slow{fill:var(--theirs);opacity:.5}.full{fill:var(--ours)}\
td:last-child,td:first-child{white-space:normal}td:last-child{text-align:left}tr td{border-top:1px solid var(--line)}";
const ROW: f64 = 34.0;
const LEFT: f64 = 210.0;
const WIDTH: f64 = 700.0;

/// One page, complete in itself.
pub fn page(plan: &RestorePlan) -> String {
    let question = &plan.question;
    let title = format!(
        "{} of {:.0} GiB in {} of {}",
        count(question.copies, "volume"),
        question.size_gib,
        count(question.zones, "zone"),
        question.region
    );
    let rows: String = plan.options.iter().map(table_row).collect();
    page_head("en", &title, STYLE)
        + &format!(
            "<main><h1>{}</h1>{}<div class=scroll><table><tr><th>way<th>ready<th>full speed<th>US dollars<th></tr>{rows}</table></div>\
             <p><small>Constants and prices: {} ({}). An empty cell is not published.</small></p>{PAGE_TAIL}",
            escape_html(&title),
            chart(plan),
            escape_html(&plan.catalogue),
            escape_html(&plan.checked)
        )
}

fn count(count: u32, noun: &str) -> String {
    frostline_show::show_count(count.into(), noun)
}

fn table_row(way: &RestoreWay) -> String {
    let usd = way.usd.map_or_else(String::new, dollars);
    let full = way.full_speed_s.map_or_else(String::new, duration);
    format!(
        "<tr><td>{}<td>{}<td>{full}<td>{usd}<td><small>{}</small></tr>",
        escape_html(&way.name),
        way.ready_s.map_or_else(|| "impossible".to_owned(), duration),
        escape_html(&way.note)
    )
}

/// Dollars and cents, rounded half up as bills are.
pub fn dollars(usd: f64) -> String {
    format!("{:.2}", (usd * 100.0 + 1e-9).round() / 100.0)
}

/// Hours, minutes, or seconds.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => "at once".to_owned(),
        s if s < 59.5 => format!("{s:.0} s"),
        s if s < 5_400.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.2} h", s / 3_600.0),
    }
}

/// A row for each way: pale while it is usable but slow, dark from full speed on.
fn chart(plan: &RestorePlan) -> String {
    let ends = plan.options.iter().filter_map(|way| way.full_speed_s);
    let most = ends.fold(60.0, f64::max) * 1.08;
    let at = |seconds: f64| LEFT + (WIDTH - LEFT) * (seconds / most).min(1.0);
    let height = ROW * plan.options.len() as f64 + 24.0;
    let mut svg = format!(
        "<div class=scroll><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"When volumes are ready and at full speed\">"
    );
    for (way, number) in plan.options.iter().zip(0..) {
        let y = ROW * f64::from(number);
        // What is never ready has no bar.
        let ready = way.ready_s.unwrap_or(most);
        let full = way.full_speed_s.unwrap_or(most);
        // Writing to a string does not fail.
        let _ = write!(
            svg,
            "<text x=\"0\" y=\"{:.0}\" font-size=\"13\">{}</text><rect x=\"{:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"16\" class=\"slow\"/>\
<rect x=\"{:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"16\" class=\"full\"/>",
            y + 18.0,
            escape_html(&way.name),
            at(ready),
            y + 6.0,
            at(full) - at(ready),
            at(full),
            y + 6.0,
            at(most) - at(full)
        );
    }
    for tick in 0..=4 {
        let seconds = most * f64::from(tick) / 4.0;
        let (x, y) = (at(seconds), height - 6.0);
        let _ = write!(
            svg,
            "<text x=\"{x:.0}\" y=\"{y:.0}\" font-size=\"11\" text-anchor=\"{}\" class=\"tick\">{}</text>",
            if tick == 4 { "end" } else { "middle" },
            if tick == 0 { "0".to_owned() } else { duration(seconds) }
        );
    }
    svg.push_str(
        "</svg></div><p><small>Pale: usable, but each first read waits. Dark: full speed.</small></p>",
    );
    svg
}
