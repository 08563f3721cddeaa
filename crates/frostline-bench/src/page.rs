//! The HTML page of a benchmark: self-contained, readable on a phone, with light and dark themes.
//!
//! All text is HTML, so that it wraps and keeps its size; only the bars are drawn, and they stretch.

use std::fmt::Write;

use crate::report::{Cell, show_ms};
use crate::study::Row;
use crate::tiers::{Check, Report};
use frostline_show::{PAGE_TAIL, escape_html, grouped, page_head, show_bytes};

/// The scale of all charts: from 1 ms to 10^7 ms, in powers of ten.
pub(crate) const DECADES: [&str; 8] = ["1 ms", "10 ms", "0.1 s", "1 s", "10 s", "100 s", "17 min", "2.8 h"];

/// The page of a report.
pub(crate) fn html(report: &Report) -> String {
    let mut page = String::with_capacity(64 << 10);
    page.push_str(&head("Frostline: searching hot, cold and frozen", "Searching hot, cold and frozen"));
    // Writing to a string does not fail.
    let _ = write_page(&mut page, report);
    page.push_str(PAGE_TAIL);
    page
}

fn write_page(page: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(
        page,
        "<p class=lead>{} generated web server log documents, {} in {} splits, searched hot, cold and frozen. \
         Times are medians of {}; the object store is <b>simulated</b> (profile {}), its requests and bytes are counted.</p>",
        grouped(report.documents),
        show_bytes(report.data_bytes),
        report.splits,
        report.runs,
        escape_html(&report.profile)
    )?;
    page.push_str("<p class=key><span class=ours></span>measured here <span class=theirs></span>published (other data, other hardware)</p>\n");
    for row in Row::ALL {
        let cells: Vec<&Cell> = report.cells.iter().filter(|cell| cell.row == row).collect();
        if !cells.is_empty() {
            write_chart(page, row, &cells)?;
        }
    }
    write_table(page, report)?;
    write_checks(page, &report.checks)?;
    write_method(page, report)
}

fn write_chart(page: &mut String, row: Row, cells: &[&Cell]) -> std::fmt::Result {
    writeln!(page, "<section><h2>{}</h2>", escape_html(row.name()))?;
    for cell in cells {
        let published = cell.published_ms.map(|ms| format!("<i>published {}</i>", show_ms(ms)));
        writeln!(
            page,
            "<div class=bar><p><b>{}</b> <span>{} · {} GETs · {} fetched</span>{}</p>{}</div>",
            escape_html(cell.tier.name()),
            show_ms(cell.median.ms),
            cell.median.gets,
            show_bytes(cell.median.bytes_fetched),
            published.unwrap_or_default(),
            bars(cell)
        )?;
    }
    write_axis(page)?;
    page.push_str("</section>\n");
    Ok(())
}

/// The scale below a chart.
pub(crate) fn write_axis(page: &mut String) -> std::fmt::Result {
    page.push_str("<div class=axis aria-hidden=true>");
    for (at, label) in DECADES.iter().enumerate() {
        let percent = 100.0 * at as f64 / (DECADES.len() - 1) as f64;
        write!(page, "<span style=\"left:{percent:.2}%\">{label}</span>")?;
    }
    page.push_str("</div>");
    Ok(())
}

/// Our bar with its least and most, the published one below it, lines at powers of ten behind.
fn bars(cell: &Cell) -> String {
    let mut svg = String::from("<svg viewBox=\"0 0 700 22\" preserveAspectRatio=none role=img aria-label=\"");
    let published = cell.published_ms.map_or(String::new(), |ms| format!(", published {}", show_ms(ms)));
    let _ = write!(svg, "{}: {}{published}\">", escape_html(cell.tier.name()), show_ms(cell.median.ms));
    for decade in 0..DECADES.len() {
        let _ = write!(svg, "<path class=grid d=\"M{0} 0V22\"/>", decade * 100);
    }
    let width = position(cell.median.ms);
    let _ = write!(svg, "<rect class=ours width=\"{width:.1}\" y=1 height=11 />");
    let (from, to) = (position(cell.ms_min), position(cell.ms_max));
    let _ = write!(svg, "<path class=range d=\"M{from:.1} 6.5H{to:.1}\"/>");
    if let Some(ms) = cell.published_ms {
        let _ = write!(svg, "<rect class=theirs width=\"{:.1}\" y=14 height=7 />", position(ms));
    }
    svg.push_str("</svg>");
    svg
}

/// Where a time stands on the scale of 700.
pub(crate) fn position(ms: f64) -> f64 {
    (ms.max(1.0).log10() * 100.0).clamp(2.0, 700.0)
}

fn write_table(page: &mut String, report: &Report) -> std::fmt::Result {
    page.push_str(
        "<h2>Every figure</h2><div class=scroll><table><thead><tr><th>question<th>tier<th>published<th>here<th>least – most\
         <th>GETs<th>fetched<th>used</tr></thead><tbody>\n",
    );
    let mut last = None;
    for cell in &report.cells {
        let name = if last == Some(cell.row) { "" } else { cell.row.name() };
        let class = if name.is_empty() { "" } else { " class=first" };
        last = Some(cell.row);
        writeln!(
            page,
            "<tr{class}><td>{}<td>{}<td>{}<td><b>{}</b><td>{} – {}<td>{}<td>{}<td>{}</tr>",
            escape_html(name),
            escape_html(cell.tier.name()),
            cell.published_ms.map_or("–".to_owned(), show_ms),
            show_ms(cell.median.ms),
            show_ms(cell.ms_min),
            show_ms(cell.ms_max),
            cell.median.gets,
            show_bytes(cell.median.bytes_fetched),
            show_bytes(cell.median.bytes_used)
        )?;
    }
    page.push_str("</tbody></table></div>\n");
    Ok(())
}

/// Which promises were held.
pub(crate) fn write_checks(page: &mut String, checks: &[Check]) -> std::fmt::Result {
    page.push_str("<h2>Promises about the counts</h2><ul>\n");
    for check in checks {
        let verdict = if check.holds { "held" } else { "not held" };
        writeln!(
            page,
            "<li><b>{verdict}</b>: {}: {:.2}, at most {}",
            escape_html(&check.what),
            check.measured,
            check.limit
        )?;
    }
    page.push_str("</ul>\n");
    Ok(())
}

fn write_method(page: &mut String, report: &Report) -> std::fmt::Result {
    let os = if report.os_cache_dropped {
        "The operating system is made to forget the files first."
    } else {
        "The operating system may still hold the files."
    };
    let memory = report.memory_bytes_peak.map_or("unknown".to_owned(), show_bytes);
    writeln!(
        page,
        "<h2>How it was measured</h2><ul>\
         <li><b>Needle</b>: all documents of one client address, newest first. <b>Dashboard</b>: {}.\
         <b>For one country</b>: the same charts with a country as one more filter.\
         <li><b>First</b>: nothing of the index is open; reading the catalog is included. Frozen: nothing is near. {os} \
         <b>Repeat</b>: the same question once more, without the result cache unless the row says so.\
         <li><b>Hot</b>: a copy in a local directory, no cache; its reads are not requests. <b>Cold</b>: a cache that holds everything; only the \
         catalog is read from the store. <b>Frozen</b>: a cache of a part of the data.\
         <li><b>Restore</b>: hot, copying every object out of the store; cold, fetching every byte into the cache.\
         <li>All tiers gave the same answers in every run, and the needle its known number of documents.\
         <li><b>Used</b>: bytes that the answers were made of, each counted once.\
         <li>The store's waiting is made up by a model (profile {}, seeds from {}); no cloud was used. One node, generated data.\
         <li>Published: {}.</ul>\
         <p class=foot>frostline {} · <code>frostline bench tiers --documents {} --seed {} --runs {} --profile {}</code> · {:.0} s in all, peak memory {memory}</p>",
        escape_html(report.dashboard),
        escape_html(&report.profile),
        report.seed,
        escape_html(report.published),
        escape_html(report.version),
        report.documents,
        report.seed,
        report.runs,
        escape_html(&report.profile),
        report.total_s
    )
}

/// The head of a page, up to its first paragraph. Title and heading are our own words.
pub(crate) fn head(title: &str, heading: &str) -> String {
    page_head("en", title, STYLE) + &format!("<main>\n<h1>{heading}</h1>\n")
}

/// The style of bars.
const STYLE: &str = include_str!("page.css");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Tier;
    use crate::trial::Sample;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape_html("<b onclick=\"x\">&'"), "&lt;b onclick=&quot;x&quot;&gt;&amp;&#39;");
        assert_eq!(escape_html("5 % – é"), "5 % – é");
    }

    #[test]
    fn the_scale_is_logarithmic_and_bounded() {
        for (ms, at) in [(0.0, 2.0), (1.0, 2.0), (10.0, 100.0), (1e6, 600.0), (1e9, 700.0)] {
            assert!((position(ms) - at).abs() < 1e-9, "{ms}");
        }
    }

    #[test]
    fn a_page_needs_nothing_else_and_holds_every_cell() {
        let sample = |ms| Sample { ms, gets: 7, bytes_fetched: 1_000, bytes_used: 900 };
        let cells = vec![
            Cell::of(Row::NeedleFirst, Tier::Frozen5, vec![sample(12.0), sample(34.0)]).unwrap(),
            Cell::of(Row::Mount, Tier::Cold, vec![sample(5.0)]).unwrap(),
        ];
        let report = Report {
            version: "1",
            documents: 1_234,
            seed: 1,
            profile: "<measured>".into(),
            runs: 2,
            splits: 1,
            data_bytes: 10,
            ingest: Default::default(),
            published: "p",
            dashboard: "d",
            os_cache_dropped: true,
            cells,
            checks: Vec::new(),
            total_s: 1.0,
            memory_bytes_peak: None,
        };
        let page = html(&report);
        for outside in ["http:", "https:", "src=", "href=", "url(", "<script", "<measured>"] {
            assert!(!page.contains(outside), "{outside}");
        }
        for text in ["needle, first", "frozen, 5 % cache", "23.0 ms", "6.26 s", "&lt;measured&gt;", "1,234"] {
            assert!(page.contains(text), "{text}");
        }
        assert_eq!(page.matches("<svg").count(), 2);
    }
}
