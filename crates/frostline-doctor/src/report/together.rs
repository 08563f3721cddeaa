//! A guest and the host that runs it in one report, with what on the host explains what was found in the guest.

use std::collections::BTreeSet;

use frostline_base::{Error, Result};

use super::{Report, Unknown};
use crate::host::Host;
use crate::rule::{Outcome, Side};
use crate::rules;

/// A rule of the guest, and the rules of the host whose findings would explain it.
const CAUSES: &[(&str, &[&str])] = &[
    ("N02", &["V01"]),
    ("N05", &["V01", "V10"]),
    ("N06", &["V01", "V10"]),
    ("N08", &["V10", "C04"]),
    ("N15", &["N07", "N08", "N21", "N22", "N23"]),
    ("N18", &["V06"]),
    ("N21", &["V10", "N21"]),
    ("C01", &["V09", "V02", "C04"]),
    ("C07", &["V11"]),
    ("M01", &["V02"]),
    ("B10", &["V05"]),
    ("B11", &["B11", "V04", "V05"]),
    ("B18", &["V06"]),
];

impl Report {
    /// The report of a guest with that of its host, of which `machine` is the name that it has there; needed if
    /// there are several.
    pub(crate) fn with_host(mut self, host: &Host, machine: Option<&str>) -> Result<Report> {
        let mut names: Vec<&str> =
            host.machines().unwrap_or_default().iter().map(|(_, machine)| machine.name.as_str()).collect();
        names.dedup();
        let machine = match (machine, &names[..]) {
            (Some(machine), known) if known.contains(&machine) => Some(machine.to_owned()),
            (Some(_), []) => return Err(Error::not_found("the host defines no machines")),
            (Some(machine), known) => {
                return Err(Error::not_found(format!(
                    "the host defines no machine {machine}, only: {}",
                    known.join(", ")
                )));
            }
            (None, [_, _, ..]) => {
                return Err(Error::invalid(format!(
                    "the host has several machines: say with --machine which one this is: {}",
                    names.join(", ")
                )));
            }
            (None, only) => only.first().map(|name| (*name).to_owned()),
        };
        let of_host = crate::examine(host);
        for finding in &mut self.findings {
            finding.observed += &of_host.explain(finding.rule, machine.as_deref());
            finding.object = format!("guest {}", finding.object);
        }
        let quiet: BTreeSet<&str> = of_host.quiet.iter().copied().collect();
        self.quiet.retain(|rule| quiet.contains(rule));
        let named = |unknown: Unknown, whose: &str| Unknown {
            reason: format!("{whose}: {}", unknown.reason),
            ..unknown
        };
        let unknown = std::mem::take(&mut self.unknown).into_iter().map(|unknown| named(unknown, "guest"));
        self.unknown =
            unknown.chain(of_host.unknown.into_iter().map(|unknown| named(unknown, "host"))).collect();
        for mut finding in of_host.findings {
            finding.object = format!("host {}", finding.object);
            for fix in finding.fixes.iter_mut().filter(|fix| fix.side == Side::Here) {
                // It is not typed on the examined machine.
                (fix.side, fix.applicable) = (Side::Host, false);
                fix.steps.clear();
            }
            self.findings.push(finding);
        }
        self.findings.sort_by_key(|finding| std::cmp::Reverse((finding.severity, finding.confidence)));
        self.subject = format!("guest: {}; host: {}", self.subject, of_host.subject);
        Ok(self)
    }

    /// What this report of a host says of the causes of a guest's finding, to be added to it.
    fn explain(&self, rule: &str, machine: Option<&str>) -> String {
        let Some((_, causes)) = CAUSES.iter().find(|(of, _)| *of == rule) else { return String::new() };
        let is_mine = |object: &str| {
            machine.is_none_or(|machine| object == machine || object.starts_with(&format!("{machine} ")))
        };
        let found: Vec<String> = self
            .findings
            .iter()
            .filter(|finding| causes.contains(&finding.rule))
            // Rules of machines name one; it has to be this one.
            .filter(|finding| !rules::is_of_a_machine(finding.rule) || is_mine(&finding.object))
            .map(|finding| format!("{} {}: {}", finding.rule, finding.object, finding.observed))
            .collect();
        if !found.is_empty() {
            return format!("; on the host {}", found.join(", "));
        }
        let unknown = causes.iter().any(|cause| matches!(self.outcome(cause), Outcome::Unknown(_)));
        let causes = causes.join(", ");
        match unknown {
            true => format!("; whether the host is the cause ({causes}) is unknown"),
            false => format!("; the host is not the cause ({causes} found nothing for it)"),
        }
    }
}
