//! The report as a self-contained page.

use std::fmt::Write as _;

use super::{Finding, Report};
use frostline_show::escape_html;

/// The look of the lab's pages: the same colours in both themes, and the room of a phone.
const STYLE: &str = include_str!("page.css");

pub(super) fn page(report: &Report) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>Frostline doctor</title><style>{STYLE}</style></head><body><main>\n<h1>Frostline doctor</h1>\n\
         <p class=lead><b>{}</b></p>\n<p class=quiet>{}: {} findings, {} rules quiet, {} unknown.</p>\n",
        escape_html(&answer(report)),
        escape_html(&report.subject),
        report.findings.len(),
        report.quiet.len(),
        report.unknown.len()
    );
    report.findings.iter().for_each(|finding| out += &article(finding));
    if !report.unknown.is_empty() {
        let count = report.unknown.len();
        let _ = writeln!(out, "<details><summary>Not known: {count}</summary>\n<ul>");
        for unknown in &report.unknown {
            let _ = writeln!(
                out,
                "<li><b>{} {}</b>: {}</li>",
                unknown.rule,
                unknown.name,
                escape_html(&unknown.reason)
            );
        }
        out += "</ul></details>\n";
    }
    let (count, quiet) = (report.quiet.len(), report.quiet.join(", "));
    let _ = writeln!(
        out,
        "<details><summary>Quiet rules: {count}</summary>\n<p>{quiet}</p></details>\n</main></body></html>"
    );
    out
}

/// What to do first, in words. Findings are in the order of their severity.
fn answer(report: &Report) -> String {
    let Some(first) = report.findings.first() else {
        return match report.unknown.is_empty() {
            true => "Nothing to fix was found.".to_owned(),
            false => "Nothing to fix was found in what could be read.".to_owned(),
        };
    };
    let fix =
        first.fixes.first().map_or(String::new(), |fix| format!(" {}: {}.", fix.side.label(), fix.what));
    let of = format!("{:?}", first.severity).to_lowercase();
    format!("First, of {of} severity: {} ({}).{fix}", first.title.trim_end_matches('.'), first.object)
}

fn article(finding: &Finding) -> String {
    let severity = format!("{:?}", finding.severity).to_lowercase();
    let confidence = format!("{:?}", finding.confidence).to_lowercase();
    let mut out = format!(
        "<article class=\"{severity}\"><h2>{} {}: {} <span class=badge>{severity}</span></h2>\n<p><b>{}</b></p>\n<p>{}</p>\n",
        finding.rule,
        escape_html(&finding.object),
        escape_html(finding.title),
        escape_html(&finding.observed),
        escape_html(finding.explanation)
    );
    for fix in &finding.fixes {
        let _ = write!(
            out,
            "<p>{}: {}</p>\n<pre>{}</pre>\n",
            fix.side.label(),
            escape_html(fix.what),
            escape_html(&fix.run.join("\n"))
        );
        if !fix.undo.is_empty() {
            let _ = writeln!(out, "<small>Undo:</small><pre>{}</pre>", escape_html(&fix.undo.join("\n")));
        }
    }
    let _ = writeln!(
        out,
        "<p><small>{severity}, confidence {confidence}. Expect: {}. Verify: {}. {}</small></p></article>",
        escape_html(finding.gain),
        escape_html(&finding.verify),
        finding
            .sources
            .iter()
            .map(|source| format!("<a href=\"{0}\">{0}</a>", escape_html(source)))
            .collect::<Vec<_>>()
            .join(" ")
    );
    out
}
