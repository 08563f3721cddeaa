//! The report as a self-contained page: what to begin with in words, the worst findings in full, the rest folded.

use std::fmt::Write as _;

use super::{Finding, Report};
use crate::rule::Severity;
use frostline_show::{PAGE_TAIL, escape_html, page_head, show_count};

/// The style of severities.
const STYLE: &str = include_str!("page.css");

/// Findings in full; of the next ones a line each, of all others only how many there are.
const FULL_MAX: usize = 3;
const LINES_MAX: usize = 16;

pub(super) fn page(report: &Report) -> String {
    let Report { findings, quiet, unknown, .. } = report;
    let mut out = page_head("en", "Frostline doctor", STYLE);
    let _ = write!(
        out,
        "<main>\n<h1>{}</h1>\n<p class=lead>{}</p>\n<p class=quiet>{}: {} quiet, {} unknown.</p>\n",
        headline(findings),
        escape_html(&answer(report)),
        escape_html(&report.subject),
        show_count(quiet.len() as u64, "rule"),
        unknown.len()
    );
    let (full, rest) = findings.split_at(findings.len().min(FULL_MAX));
    let (lines, more) = rest.split_at(rest.len().min(LINES_MAX));
    full.iter().for_each(|finding| article(&mut out, finding));
    lines.iter().for_each(|finding| folded(&mut out, finding));
    if !more.is_empty() {
        let _ =
            writeln!(out, "<details><summary>{}</summary>", show_count(more.len() as u64, "more finding"));
        more.iter().for_each(|finding| folded(&mut out, finding));
        out += "</details>\n";
    }
    if !unknown.is_empty() {
        let _ = writeln!(out, "<details><summary>Not known: {}</summary>\n<ul>", unknown.len());
        for unknown in unknown {
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
    let _ = writeln!(
        out,
        "<details><summary>Quiet rules: {}</summary>\n<p>{}</p></details>",
        quiet.len(),
        quiet.join(", ")
    );
    out + PAGE_TAIL
}

/// How many findings there are of each severity.
fn headline(findings: &[Finding]) -> String {
    let of = |severity: Severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let counts = [Severity::High, Severity::Medium, Severity::Low].map(|severity| (of(severity), severity));
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> =
        counts.map(|(count, severity)| format!("{count} {}", severity.word())).collect();
    match counts.is_empty() {
        true => "No findings".to_owned(),
        false => format!("{}: {}", show_count(findings.len() as u64, "finding"), counts.join(", ")),
    }
}

/// What to do first. Findings are in the order of their severity.
fn answer(report: &Report) -> String {
    let Some(first) = report.findings.first() else {
        return match report.unknown.is_empty() {
            true => "Nothing to fix was found.".to_owned(),
            false => "Nothing to fix was found in what could be read.".to_owned(),
        };
    };
    let fix = first.fixes.first().map_or(String::new(), |fix| {
        format!(" What to do ({}): {}.", fix.side.label(), fix.what.trim_end_matches('.'))
    });
    format!("Begin with {}: {}.{fix}", first.object, first.title.trim_end_matches('.'))
}

/// A finding in full.
fn article(out: &mut String, finding: &Finding) {
    let severity = finding.severity.word();
    let _ = writeln!(
        out,
        "<article class=\"{severity}\"><h2>{}</h2>\n<p><b>{}</b></p>",
        heading(finding),
        escape_html(&finding.observed)
    );
    details(out, finding);
    out.push_str("</article>\n");
}

/// A finding of which a line is seen.
fn folded(out: &mut String, finding: &Finding) {
    let severity = finding.severity.word();
    let _ = writeln!(
        out,
        "<details class=\"finding {severity}\"><summary><b>{}</b><br>{}</summary>",
        heading(finding),
        escape_html(&finding.observed)
    );
    details(out, finding);
    out.push_str("</details>\n");
}

fn heading(finding: &Finding) -> String {
    format!(
        "{} {}: {} <span class=badge>{}</span>",
        finding.rule,
        escape_html(&finding.object),
        escape_html(finding.title),
        finding.severity.word()
    )
}

fn details(out: &mut String, finding: &Finding) {
    let _ = writeln!(out, "<p>{}</p>", escape_html(finding.explanation));
    for fix in &finding.fixes {
        let typed = fix.refused.as_ref().map_or(fix.run.join("\n"), |why| format!("not possible: {why}"));
        let _ = write!(
            out,
            "<p>{}: {}</p>\n<pre>{}</pre>\n",
            fix.side.label(),
            escape_html(fix.what),
            escape_html(&typed)
        );
        if !fix.undo.is_empty() {
            let _ = writeln!(out, "<small>Undo:</small><pre>{}</pre>", escape_html(&fix.undo.join("\n")));
        }
    }
    let sources: Vec<String> = finding
        .sources
        .iter()
        .map(|source| format!("<a href=\"{0}\">{0}</a>", escape_html(source)))
        .collect();
    let _ = writeln!(
        out,
        "<p><small>Confidence {}. Expect: {}. Verify: {}. {}</small></p>",
        finding.confidence.word(),
        escape_html(finding.gain.trim_end_matches('.')),
        escape_html(finding.verify.trim_end_matches('.')),
        sources.join(" ")
    );
}
