//! A [`Rule`] and its outcome: findings, quiet, or the reason why it is unknown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::setting::Change;
use crate::text::shell_word;
use crate::tree::Fact;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Low,
    /// Costs part of the machine's performance.
    Medium,
    /// Costs most of the machine's performance, or data.
    High,
}

impl Severity {
    /// As it is written in reports.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
        }
    }
}

/// How certain the rule is when it fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// A hint: measure before changing anything.
    Low,
    /// Likely; another cause is possible.
    Medium,
    /// The files state it directly.
    High,
}

impl Confidence {
    /// As it is written in reports.
    pub fn word(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

/// Where a fix is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// In a shell on the machine that was examined: the only kind that the doctor can apply.
    Here,
    /// On the host that runs the examined machine.
    Host,
    /// With the `openstack` client.
    OpenStack,
    /// In the machine's libvirt XML.
    Libvirt,
    /// With the cloud's client.
    Cloud,
    /// In the configuration of a service, or by a person.
    Service,
}

impl Side {
    /// Its name in text output.
    pub fn label(self) -> &'static str {
        match self {
            Side::Here => "here",
            Side::Host => "host",
            Side::OpenStack => "OpenStack",
            Side::Libvirt => "libvirt",
            Side::Cloud => "cloud",
            Side::Service => "configuration",
        }
    }
}

/// One way to fix a finding. In commands, `{name}` is a value of the finding.
#[derive(Clone, Copy, Debug)]
pub struct Fix {
    /// Where it is typed.
    pub side: Side,
    /// What it does, in a sentence.
    pub what: &'static str,
    /// Settings that it changes: the doctor can do that, and undo it.
    pub changes: &'static [Change],
    /// Commands, or lines of a file, for a person.
    pub run: &'static [&'static str],
    /// What undoes them.
    pub undo: &'static [&'static str],
}

impl Fix {
    /// A fix that changes settings of the examined machine.
    pub(crate) const fn here(what: &'static str, changes: &'static [Change]) -> Fix {
        Fix { side: Side::Here, what, changes, run: &[], undo: &[] }
    }

    /// A fix for a person.
    pub(crate) const fn typed(
        side: Side,
        what: &'static str,
        run: &'static [&'static str],
        undo: &'static [&'static str],
    ) -> Fix {
        Fix { side, what, changes: &[], run, undo }
    }

    /// What to type, with `{names}`.
    pub(crate) fn commands(&self) -> Vec<String> {
        let changes = self.changes.iter().map(|change| change.run());
        changes.chain(self.run.iter().map(|text| (*text).to_owned())).collect()
    }

    /// What undoes it, with `{names}`, in the order in which to type it.
    pub(crate) fn undo_commands(&self) -> Vec<String> {
        let changes = self.changes.iter().rev().map(|change| change.undo());
        changes.chain(self.undo.iter().map(|text| (*text).to_owned())).collect()
    }
}

/// A rule: what it reads, when it fires, what to do.
#[derive(Clone, Copy)]
pub struct Rule {
    /// `N02`.
    pub id: &'static str,
    /// `single-queue-nic`.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// Files, with `*` for any name.
    pub reads: &'static [&'static str],
    /// When it fires.
    pub threshold: &'static str,
    /// Unless a finding says otherwise.
    pub severity: Severity,
    /// How sure it is when it fires.
    pub confidence: Confidence,
    /// What it needs: root, two samples.
    pub needs: &'static str,
    /// Why it matters.
    pub explanation: &'static str,
    /// The best fixes first.
    pub fixes: &'static [Fix],
    /// What can be expected of the fix.
    pub gain: &'static str,
    /// How to see that it worked.
    pub verify: &'static str,
    /// Sources.
    pub sources: &'static [&'static str],
    pub(crate) check: fn(&Host) -> Checked,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rule({})", self.id)
    }
}

/// What a rule's check gives: findings, none, or why it could not run.
pub(crate) type Checked = Fact<Vec<Found>>;

/// One thing that a rule found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) object: String,
    pub(crate) observed: String,
    pub(crate) severity: Option<Severity>,
    pub(crate) values: BTreeMap<&'static str, String>,
    /// Values of several settings, one row for each; none means one row without more.
    pub(crate) rows: Vec<BTreeMap<&'static str, String>>,
}

impl Found {
    /// A finding on `object`; `observed` is a sentence without a full stop.
    pub(crate) fn new(object: impl Into<String>, observed: impl Into<String>) -> Found {
        Found { object: object.into(), observed: observed.into(), ..Found::default() }
    }

    /// With a value for the commands.
    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Found {
        self.values.insert(name, value.to_string());
        self
    }

    /// With the values of one of several settings.
    pub(crate) fn row(mut self, values: &[(&'static str, String)]) -> Found {
        self.rows.push(values.iter().cloned().collect());
        self
    }

    pub(crate) fn severe(mut self, severity: Severity) -> Found {
        self.severity = Some(severity);
        self
    }
}

/// The outcome of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It fired, this many times.
    Finding(usize),
    /// It ran and found nothing.
    Quiet,
    /// It could not run, and why.
    Unknown(String),
}

/// `template` with its `{names}` replaced; names without a value are written in capitals, for the reader to
/// replace. With `shell`, values are quoted.
pub(crate) fn fill(template: &str, values: &BTreeMap<&'static str, String>, shell: bool) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let name = after.split('}').next().unwrap_or("");
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        out.push_str(before);
        if !is_name || !after.contains('}') {
            out.push('{');
            rest = after;
            continue;
        }
        match values.get(name) {
            // Ours, and made for a shell to read: the name of a device that is only known by its bus.
            Some(value) if is_bus_lookup(value) => out.push_str(value),
            Some(value) if shell => out.push_str(&shell_word(value)),
            Some(value) => out.push_str(value),
            None => out.push_str(&name.to_ascii_uppercase()),
        }
        rest = &after[name.len() + 1..];
    }
    out.push_str(rest);
    out
}

/// Exactly `$(ls /sys/bus/virtio/devices/virtio<digits>/net)`.
fn is_bus_lookup(value: &str) -> bool {
    let digits =
        value.strip_prefix("$(ls /sys/bus/virtio/devices/virtio").and_then(|rest| rest.strip_suffix("/net)"));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
