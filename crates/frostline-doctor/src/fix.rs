//! Fixes as a script for review, with its undo; and the application of named fixes.
//!
//! Only fixes that run on the examined machine, have every name filled in and can be undone become commands
//! of the script. All others are comments in it.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use frostline_base::{Error, Result};

use crate::report::{Finding, Remedy, Report};
use crate::rule::Side;
use crate::rules;

impl Remedy {
    /// Whether it can be applied here and taken back.
    fn is_applicable(&self) -> bool {
        self.side == Side::Here && self.complete && !self.run.is_empty() && !self.undo.is_empty()
    }
}

/// The findings of the rules that are named; all when none is.
fn chosen<'a>(report: &'a Report, names: &[String]) -> impl Iterator<Item = &'a Finding> {
    let ids: Vec<&str> = names.iter().filter_map(|name| rules::find(name)).map(|rule| rule.id).collect();
    report.findings.iter().filter(move |finding| ids.is_empty() || ids.contains(&finding.rule))
}

/// A POSIX shell script: without an argument it fixes, with `undo` it brings back what was there, in reverse.
pub(crate) fn script(report: &Report, names: &[String]) -> String {
    let findings: Vec<&Finding> = chosen(report, names).collect();
    let mut out = String::from(
        "#!/bin/sh\n# Made by frostline doctor. Read it before you run it.\n# sh FILE        fixes what is not commented out\n\
         # sh FILE undo   brings back what was there\nset -u\n\nfix() {\n    :\n",
    );
    findings.iter().for_each(|finding| out += &fix_lines(finding));
    out += "}\n\nundo() {\n    :\n";
    findings.iter().rev().for_each(|finding| out += &undo_lines(finding));
    out += "}\n\nif [ \"${1:-}\" = undo ]; then undo; else fix; fi\n";
    out
}

fn fix_lines(finding: &Finding) -> String {
    let mut out = format!(
        "\n    # {} {}: {}\n    # {}\n",
        finding.rule, finding.object, finding.title, finding.observed
    );
    let mut alternatives = Vec::new();
    for fix in &finding.fixes {
        let _ = writeln!(out, "    # {}: {}", fix.side.label(), fix.what);
        if fix.is_applicable() {
            alternatives.push(format!("{{ {}; }}", fix.run.join(" && ")));
        } else {
            fix.run.iter().for_each(|command| out += &format!("    #     {command}\n"));
        }
    }
    if !alternatives.is_empty() {
        // The first that works: what comes later is for hosts where it does not.
        let _ = writeln!(out, "    {} || echo 'not fixed: {}' >&2", alternatives.join(" || "), finding.rule);
    }
    out
}

fn undo_lines(finding: &Finding) -> String {
    let mut out = format!("\n    # {}\n", finding.rule);
    for fix in finding.fixes.iter().filter(|fix| fix.is_applicable()) {
        // Of alternatives only one was applied; the undo of another one may fail.
        fix.undo.iter().for_each(|command| out += &format!("    {command} || :\n"));
    }
    out
}

/// Applies the fixes of the rules that are named, each finding's first that works, and returns what was run.
/// The script with its undo is written to `saved`, which must be new, before anything is run.
pub(crate) fn apply(report: &Report, names: &[String], saved: &Path) -> Result<Vec<String>> {
    if let Some(name) = names.iter().find(|name| rules::find(name).is_none()) {
        return Err(Error::invalid(format!("there is no rule {name}: see doctor rules")));
    }
    let findings: Vec<&Finding> =
        chosen(report, names).filter(|finding| finding.fixes.iter().any(Remedy::is_applicable)).collect();
    if names.is_empty() || findings.is_empty() {
        return Err(Error::invalid(
            "nothing to apply: these rules found nothing that can be fixed and undone here",
        ));
    }
    let file = OpenOptions::new().write(true).create_new(true).open(saved);
    file.and_then(|mut file| file.write_all(script(report, names).as_bytes()).and_then(|()| file.sync_all()))
        .map_err(|e| {
            Error::conflict(format!("cannot write the undo to {}", saved.display())).with_source(e)
        })?;
    let mut ran = Vec::new();
    for finding in findings {
        let applicable = finding.fixes.iter().filter(|fix| fix.is_applicable());
        let worked = applicable.into_iter().find(|fix| fix.run.iter().all(|command| shell(command)));
        let Some(fix) = worked else {
            return Err(Error::invalid(format!(
                "no fix of {} {} worked; sh {} undo",
                finding.rule,
                finding.object,
                saved.display()
            )));
        };
        ran.extend(fix.run.iter().cloned());
    }
    Ok(ran)
}

fn shell(command: &str) -> bool {
    Command::new("/bin/sh").args(["-c", command]).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests;
