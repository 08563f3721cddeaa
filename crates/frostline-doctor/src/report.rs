//! The findings on a host, and their formats: text, JSON, HTML, SARIF, Prometheus, Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::host::Host;
use crate::rule::{Confidence, Fix, Found, Outcome, Rule, Severity, Side, fill};
use crate::setting::Step;
use crate::text::{clean, line};
use crate::tree::Fact;

mod html;
mod machine;
mod rules;
mod together;

pub use rules::{explain, markdown};

type Values = BTreeMap<&'static str, String>;

/// Findings kept of one rule.
const FINDINGS_MAX: usize = 64;

/// What the rules found. All text in it is safe to print.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was examined, in one line.
    pub subject: String,
    /// Seconds between the two samples of counters; 0 when there was one.
    pub seconds: f64,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// Rules that could not run, and why.
    pub unknown: Vec<Unknown>,
    /// Rules that ran and found nothing.
    pub quiet: Vec<&'static str>,
}

/// One thing that a rule found, with what to do.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// `N02`
    pub rule: &'static str,
    /// `single-queue-nic`
    pub name: &'static str,
    /// How bad.
    pub severity: Severity,
    /// How sure.
    pub confidence: Confidence,
    /// What is wrong, in general.
    pub title: &'static str,
    /// On what: a device, a mount, a file.
    pub object: String,
    /// What was seen there.
    pub observed: String,
    /// Why it matters.
    pub explanation: &'static str,
    /// The best fixes first.
    pub fixes: Vec<Remedy>,
    /// What to expect.
    pub gain: &'static str,
    /// How to see that it worked.
    pub verify: String,
    /// Sources.
    pub sources: &'static [&'static str],
}

/// A fix with the names of this host filled in.
#[derive(Clone, Debug, Serialize)]
pub struct Remedy {
    /// Where it is typed.
    pub side: Side,
    /// What it does.
    pub what: &'static str,
    /// Commands or lines.
    pub run: Vec<String>,
    /// What undoes it.
    pub undo: Vec<String>,
    /// Whether the doctor can apply it: what it changes was read here.
    pub applicable: bool,
    /// Why the fix is not possible here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    #[serde(skip)]
    pub(crate) steps: Vec<Step>,
}

/// A rule that could not run.
#[derive(Clone, Debug, Serialize)]
pub struct Unknown {
    /// `N02`
    pub rule: &'static str,
    /// `single-queue-nic`
    pub name: &'static str,
    /// Why.
    pub reason: String,
}

/// A form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For a terminal.
    Text,
    /// One JSON document with `findings`.
    Json,
    /// One page with everything in it: `--html FILE`.
    #[value(skip)]
    Html,
    /// SARIF 2.1.0, for code review tools.
    Sarif,
}

impl Format {
    /// Every form.
    pub const ALL: [Format; 4] = [Format::Text, Format::Json, Format::Html, Format::Sarif];
}

impl Report {
    pub(crate) fn new(host: &Host, rules: impl Iterator<Item = &'static Rule>) -> Report {
        let mut report = Report {
            subject: subject(host),
            seconds: host.seconds,
            findings: Vec::new(),
            unknown: Vec::new(),
            quiet: Vec::new(),
        };
        for rule in rules {
            host.take_trouble();
            let checked = (rule.check)(host);
            // A rule that could not read all that it looked for has not found that nothing is there.
            let checked = match (checked, host.take_trouble()) {
                (Ok(found), Some(absent)) if found.is_empty() => Err(absent),
                (checked, _) => checked,
            };
            match checked {
                Ok(found) if found.is_empty() => report.quiet.push(rule.id),
                Ok(found) => report
                    .findings
                    .extend(found.into_iter().take(FINDINGS_MAX).map(|one| Finding::new(host, rule, one))),
                Err(absent) => {
                    let reason = line(&absent.to_string(), 300);
                    report.unknown.push(Unknown { rule: rule.id, name: rule.name, reason });
                }
            }
        }
        // Stable: within a severity and confidence the order is that of the table.
        report.findings.sort_by_key(|finding| std::cmp::Reverse((finding.severity, finding.confidence)));
        report
    }

    /// The outcome of a rule.
    pub fn outcome(&self, rule: &str) -> Outcome {
        if let Some(unknown) = self.unknown.iter().find(|unknown| unknown.rule == rule) {
            return Outcome::Unknown(unknown.reason.clone());
        }
        match self.findings.iter().filter(|finding| finding.rule == rule).count() {
            0 => Outcome::Quiet,
            count => Outcome::Finding(count),
        }
    }

    /// The worst that was found.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// The report in a form.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Text => self.text(),
            Format::Json => machine::json(self),
            Format::Html => html::page(self),
            Format::Sarif => machine::sarif(self),
        }
    }

    /// The findings as metrics, for the textfile collector of node_exporter.
    pub fn prometheus(&self) -> String {
        machine::prometheus(self)
    }

    fn text(&self) -> String {
        let mut out = String::new();
        for finding in &self.findings {
            out += &finding.text();
        }
        for unknown in &self.unknown {
            let _ = writeln!(out, "unknown  {} {}: {}", unknown.rule, unknown.name, unknown.reason);
        }
        let _ = writeln!(
            out,
            "{}: {} findings, {} rules quiet, {} unknown",
            self.subject,
            self.findings.len(),
            self.quiet.len(),
            self.unknown.len()
        );
        out
    }
}

impl Finding {
    pub(crate) fn new(host: &Host, rule: &'static Rule, found: Found) -> Finding {
        let fixes = rule.fixes.iter().filter_map(|fix| Remedy::new(host, fix, &found)).collect();
        Finding {
            rule: rule.id,
            name: rule.name,
            severity: found.severity.unwrap_or(rule.severity),
            confidence: rule.confidence,
            title: rule.title,
            object: line(&found.object, 200),
            observed: line(&found.observed, 500),
            explanation: rule.explanation,
            fixes,
            gain: rule.gain,
            verify: line(&fill(rule.verify, &found.values, true), 4096),
            sources: rule.sources,
        }
    }

    /// The finding for a terminal: what, where, and the fixes.
    fn text(&self) -> String {
        let severity = self.severity.word();
        let mut out = format!(
            "{severity:<8} {} {}: {}\n         {}\n",
            self.rule, self.object, self.title, self.observed
        );
        for fix in &self.fixes {
            let _ = writeln!(out, "         {}: {}", fix.side.label(), fix.what);
            for command in &fix.run {
                let _ = writeln!(out, "             {command}");
            }
            if let Some(why) = &fix.refused {
                let _ = writeln!(out, "             not possible: {why}");
            }
        }
        let _ = writeln!(out, "         expect: {}\n", self.gain);
        out
    }
}

impl Remedy {
    /// The fix with what is known of the host; none where all of its settings are as advised.
    fn new(host: &Host, fix: &Fix, found: &Found) -> Option<Remedy> {
        let with = |row: &Values| -> Values {
            found.values.iter().chain(row).map(|(name, value)| (*name, value.clone())).collect()
        };
        let mut rows: Vec<Values> = found.rows.iter().map(with).collect();
        if rows.is_empty() {
            rows.push(found.values.clone());
        }
        let steps: Fact<Vec<Vec<Step>>> =
            rows.iter().flat_map(|row| fix.changes.iter().map(|change| change.steps(host, row))).collect();
        let steps = steps.map(|steps| steps.concat());
        if !fix.changes.is_empty() && steps.as_ref().is_ok_and(Vec::is_empty) {
            return None;
        }
        let of_mount = fix.changes.iter().any(|change| change.is_of_mount());
        let refused = steps.as_ref().err().filter(|_| of_mount).map(|absent| line(&absent.to_string(), 4096));
        let steps = steps.unwrap_or_default();
        let shell = fix.side == Side::Here;
        let filled = |texts: Vec<String>| -> Vec<String> {
            let of_row = |row| texts.iter().map(move |text| fill(text, row, shell));
            rows.iter().flat_map(of_row).collect()
        };
        let (run, undo) = match steps.is_empty() {
            true if refused.is_some() => (Vec::new(), Vec::new()),
            true => (filled(fix.commands()), filled(fix.undo_commands())),
            false => (
                steps.iter().map(|step| step.run.clone()).collect(),
                steps.iter().rev().map(|step| step.undo.clone()).collect(),
            ),
        };
        let clean = |texts: Vec<String>| texts.iter().map(|text| line(text, 4096)).collect();
        let applicable = !steps.is_empty();
        let (run, undo) = (clean(run), clean(undo));
        Some(Remedy { side: fix.side, what: fix.what, run, undo, applicable, refused, steps })
    }
}

/// `Linux 6.18, 2 CPUs, 23.5 GiB`, of what is known.
fn subject(host: &Host) -> String {
    let mut parts = Vec::new();
    if let Ok(release) = host.word("proc/sys/kernel/osrelease") {
        parts.push(format!("Linux {}", line(&release, 80)));
    }
    if let Ok(cpus) = host.cpus() {
        parts.push(format!("{} CPUs", cpus.len()));
    }
    if let Ok(memory) = host.memory() {
        parts.push(format!("{:.1} GiB", memory / 1073741824.0));
    }
    if parts.is_empty() { "this tree".to_owned() } else { clean(&parts.join(", ")) }
}
