//! Machine-readable formats: JSON, SARIF, Prometheus.

use std::fmt::Write as _;

use serde_json::json;

use super::Report;
use crate::rule::Severity;
use crate::rules;

pub(super) fn json(report: &Report) -> String {
    let text = serde_json::to_string_pretty(report).expect("a report has no maps with other keys than text");
    text + "\n"
}

/// SARIF 2.1.0 (OASIS): one run, a rule for each rule that fired, a result for each finding, a notification
/// for each rule that could not run.
pub(super) fn sarif(report: &Report) -> String {
    let fired = rules::all().filter(|rule| report.findings.iter().any(|finding| finding.rule == rule.id));
    let rules: Vec<_> = fired
        .map(|rule| {
            json!({
                "id": rule.id,
                "name": rule.name,
                "shortDescription": {"text": rule.title},
                "fullDescription": {"text": rule.explanation},
                "helpUri": rule.sources.first(),
            })
        })
        .collect();
    let results: Vec<_> = report
        .findings
        .iter()
        .map(|finding| {
            let reads = rules::find(finding.rule).and_then(|rule| rule.reads.first()).copied().unwrap_or("/");
            let uri = if reads.starts_with('/') { reads.trim_start_matches('/') } else { "commands" };
            json!({
                "ruleId": finding.rule,
                "level": level(finding.severity),
                "message": {"text": format!("{}: {}", finding.title, finding.observed)},
                "locations": [{
                    "physicalLocation": {"artifactLocation": {"uri": uri.replace('*', "_")}},
                    "logicalLocations": [{"name": finding.object, "kind": "resource"}],
                }],
                "partialFingerprints": {"object/v1": format!("{}:{}", finding.rule, finding.object)},
            })
        })
        .collect();
    let notes: Vec<_> = report
        .unknown
        .iter()
        .map(|unknown| json!({"descriptor": {"id": unknown.rule}, "level": "note", "message": {"text": unknown.reason}}))
        .collect();
    let sarif = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "frostline doctor", "rules": rules}},
            "invocations": [{"executionSuccessful": true, "toolExecutionNotifications": notes}],
            "results": results,
        }],
    });
    format!("{sarif:#}\n")
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low => "note",
    }
}

/// The text format of Prometheus, version 0.0.4.
pub(super) fn prometheus(report: &Report) -> String {
    let mut out = String::from(
        "# HELP frostline_doctor_finding A finding of the doctor.\n# TYPE frostline_doctor_finding gauge\n",
    );
    let mut seen = std::collections::BTreeSet::new();
    for finding in &report.findings {
        // A series may appear once.
        if seen.insert((finding.rule, &finding.object)) {
            let severity = finding.severity.word();
            let (rule, name, object) = (finding.rule, finding.name, label(&finding.object));
            let _ = writeln!(
                out,
                "frostline_doctor_finding{{rule=\"{rule}\",name=\"{name}\",object=\"{object}\",severity=\"{severity}\"}} 1"
            );
        }
    }
    out += "# HELP frostline_doctor_rules Rules by what came of them.\n# TYPE frostline_doctor_rules gauge\n";
    let mut fired: Vec<_> = report.findings.iter().map(|finding| finding.rule).collect();
    fired.sort_unstable();
    fired.dedup();
    for (outcome, count) in
        [("finding", fired.len()), ("quiet", report.quiet.len()), ("unknown", report.unknown.len())]
    {
        let _ = writeln!(out, "frostline_doctor_rules{{outcome=\"{outcome}\"}} {count}");
    }
    out
}

fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
