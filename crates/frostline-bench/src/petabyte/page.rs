//! The HTML page: a chart of first and repeated times, every figure, and what is real.

use std::fmt::Write;

use frostline_show::{PAGE_TAIL, escape_html, grouped};

use super::report::{COLUMNS, Cell, Report, row};
use crate::page::{DECADES, head, position, write_axis, write_checks};
use crate::report::show_ms;

pub(super) fn html(report: &Report) -> String {
    let mut page = head("Frostline: a needle in a petabyte", "A needle in a petabyte");
    // Writing to a string does not fail.
    let _ = write_page(&mut page, report);
    page.push_str(PAGE_TAIL);
    page
}

fn write_page(page: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(page, "<p class=lead>{}</p>", escape_html(&report.setting()))?;
    writeln!(page, "<p class=lead>{}</p>", escape_html(&report.segments()))?;
    page.push_str("<p class=key><span class=ours></span>first question: nothing is near <span class=theirs></span>the same again</p>\n");
    let mut shown: Vec<&str> = Vec::new();
    for cell in &report.cells {
        if !shown.contains(&cell.what.as_str()) {
            shown.push(&cell.what);
            write_chart(page, &cell.what, &report.cells)?;
        }
    }
    write_table(page, "Every question", &report.cells)?;
    write_table(page, "Beside the questions", &report.steps)?;
    write_checks(page, &report.checks)?;
    page.push_str("<h2>The published design</h2><ul>\n");
    for line in report.judgements() {
        writeln!(page, "<li>{}", escape_html(&line))?;
    }
    writeln!(
        page,
        "</ul><h2>What is real</h2><ul>\
         <li>Splits, catalogs and segments are real. All but {} splits are others under names of their own, each with its own identity and place in the bucket.\
         <li>The store's waiting is made up by a model; no cloud was used. Its requests and bytes are counted, and each prefix of the bucket has the limits of S3.\
         <li><b>First</b>: opening the catalog is a row of its own; nothing else is near. <b>Repeat</b>: the same question in the same process, without results kept.\
         <li><b>Rounds</b>: reads of which each waited for the one before, be it for what that said or for its turn. <b>Splits</b>: those of which anything was read.\
         <li>Processor and memory are of the whole process, the simulated store included.\
         <li>Every answer had the known number of documents, and was the same in all designs and runs.</ul>\
         <p class=foot>frostline {} · <code>frostline bench petabyte --splits {} --documents {} --seed {} --runs {} --profile {}</code> · {} documents · {:.0} s in all</p>",
        report.bases,
        escape_html(report.version),
        report.splits,
        report.base_documents,
        report.seed,
        report.runs,
        escape_html(&report.profile),
        grouped(report.documents),
        report.total_s
    )
}

fn write_chart(page: &mut String, what: &str, cells: &[Cell]) -> std::fmt::Result {
    writeln!(page, "<section><h2>{}</h2>", escape_html(what))?;
    let of = |cell: &&Cell| cell.what == what;
    for first in cells.iter().filter(of).filter(|cell| cell.pass == "first") {
        let again = cells.iter().filter(of).find(|cell| cell.pass == "repeat" && cell.design == first.design);
        let again_ms = again.map(|cell| cell.median.ms);
        writeln!(
            page,
            "<div class=bar><p><b>{}</b> <span>{} · {} GETs · {} splits</span><i>repeat {}</i></p>{}</div>",
            escape_html(first.design),
            show_ms(first.median.ms),
            first.median.gets,
            first.median.splits,
            again_ms.map_or("–".to_owned(), show_ms),
            bars(first, again_ms)
        )?;
    }
    write_axis(page)?;
    page.push_str("</section>\n");
    Ok(())
}

fn bars(first: &Cell, again_ms: Option<f64>) -> String {
    let mut svg = String::from("<svg viewBox=\"0 0 700 22\" preserveAspectRatio=none role=img aria-label=\"");
    let _ = write!(svg, "{}: {}\">", escape_html(first.design), show_ms(first.median.ms));
    for decade in 0..DECADES.len() {
        let _ = write!(svg, "<path class=grid d=\"M{0} 0V22\"/>", decade * 100);
    }
    let (from, to) = (position(first.ms_min), position(first.ms_max));
    let _ = write!(svg, "<rect class=ours width=\"{:.1}\" y=1 height=11 />", position(first.median.ms));
    let _ = write!(svg, "<path class=range d=\"M{from:.1} 6.5H{to:.1}\"/>");
    if let Some(ms) = again_ms {
        let _ = write!(svg, "<rect class=theirs width=\"{:.1}\" y=14 height=7 />", position(ms));
    }
    svg.push_str("</svg>");
    svg
}

fn write_table(page: &mut String, title: &str, cells: &[Cell]) -> std::fmt::Result {
    write!(page, "<h2>{title}</h2><div class=scroll><table><thead><tr>")?;
    for column in COLUMNS {
        write!(page, "<th>{}", column.trim_end_matches('>'))?;
    }
    page.push_str("</tr></thead><tbody>\n");
    let mut last = None;
    for cell in cells {
        let is_new = last.replace(&cell.what) != Some(&cell.what);
        page.push_str(if is_new { "<tr class=first>" } else { "<tr>" });
        for text in row(cell) {
            write!(page, "<td>{}", escape_html(&text))?;
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::report::{Figures, published};
    use super::super::segments::Size;
    use super::*;

    #[test]
    fn a_page_needs_nothing_else_and_holds_every_question() {
        let cell = |what: &str, pass, ms| {
            let figures = Figures { ms, gets: 13, ..Figures::default() };
            Cell::of(what.to_owned(), "needle segments", pass, vec![figures]).unwrap()
        };
        let report = Report {
            version: "1",
            splits: 800,
            bases: 36,
            base_documents: 2_000,
            base_bytes: 700_000,
            footer_bytes: 9_000,
            documents: 1_600_000,
            data_bytes: 560_000_000,
            seed: 1,
            profile: "<measured>".into(),
            runs: 1,
            cache_bytes: 1 << 30,
            steps: vec![cell("open the catalog", "", 300.0)],
            cells: vec![cell("a needle", "first", 321.0), cell("a needle", "repeat", 4.5)],
            published: published(),
            judged: Vec::new(),
            segments: Size { segments: 1, ..Size::default() },
            checks: Vec::new(),
            total_s: 1.0,
        };
        let page = html(&report);
        for outside in ["http:", "https:", "src=", "href=", "url(", "<script", "<measured>"] {
            assert!(!page.contains(outside), "{outside}");
        }
        for text in ["a needle", "321 ms", "4.50 ms", "554 s", "open the catalog", "1,600,000"] {
            assert!(page.contains(text), "{text}");
        }
        assert_eq!(page.matches("<svg").count(), 1);
    }
}
