//! The report as a self-contained page.

use std::fmt::Write as _;

use super::{Finding, Report};
use frostline_show::escape_html;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}\
article{border:1px solid #ccc;border-left-width:6px;border-radius:4px;padding:.5rem 1rem;margin:1rem 0}\
.high{border-left-color:#b3261e}.medium{border-left-color:#b06000}.low{border-left-color:#5f6368}\
pre{background:#f4f4f4;padding:.5rem;overflow-x:auto}h2{font-size:1.1rem;margin:.3rem 0}small{color:#555}\
@media(prefers-color-scheme:dark){body{color:#e8e8e8;background:#181818}pre{background:#262626}small{color:#aaa}article{border-color:#444}}";

pub(super) fn page(report: &Report) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Frostline doctor</title><style>{STYLE}</style></head><body>\n<h1>Frostline doctor</h1>\n\
         <p>{}: {} findings, {} rules quiet, {} unknown.</p>\n",
        escape_html(&report.subject),
        report.findings.len(),
        report.quiet.len(),
        report.unknown.len()
    );
    report.findings.iter().for_each(|finding| out += &article(finding));
    if !report.unknown.is_empty() {
        out += "<h2>Not known</h2>\n<ul>\n";
        for unknown in &report.unknown {
            let _ = writeln!(
                out,
                "<li><b>{} {}</b>: {}</li>",
                unknown.rule,
                unknown.name,
                escape_html(&unknown.reason)
            );
        }
        out += "</ul>\n";
    }
    let _ = writeln!(out, "<h2>Quiet</h2>\n<p>{}</p>\n</body></html>", report.quiet.join(", "));
    out
}

fn article(finding: &Finding) -> String {
    let severity = format!("{:?}", finding.severity).to_lowercase();
    let confidence = format!("{:?}", finding.confidence).to_lowercase();
    let mut out = format!(
        "<article class=\"{severity}\"><h2>{} {}: {}</h2>\n<p><b>{}</b></p>\n<p>{}</p>\n",
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
