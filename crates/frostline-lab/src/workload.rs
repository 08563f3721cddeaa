//! The tools that cells run, and the parsers of their output.
//!
//! Parsers are pure functions of the output. Unexpected output is an error, never a figure.

mod fio;
mod text;

use std::collections::BTreeMap;
use std::process::Command;

use frostline_base::{Error, Result};

use crate::host::ledger::Ledger;
use crate::host::process::Printed;
use crate::study::{Workload, fill};

pub use self::fio::{SoFar, so_far};

/// Names that a study's workload may have as its tool.
pub const TOOLS: &[&str] = &[
    "fio",
    "dd",
    "sysbench",
    "iperf3",
    "pgbench",
    "command",
    "guest-fio",
    "crash-proof",
    "postgres-restore",
];

/// What was read from what a tool printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Values by metric. The metric's name ends in what it is: see [`unit`].
    pub values: BTreeMap<String, f64>,
    /// Bytes that the application read and wrote, if the tool counts them.
    pub bytes: Option<(u64, u64)>,
    /// Errors after which the tool continued.
    pub errors: u64,
}

impl Measured {
    fn put(&mut self, metric: &str, value: f64) -> Result<()> {
        if !value.is_finite() || value < 0.0 {
            return Err(Error::corrupt(format!("the tool printed {value} as {metric}")));
        }
        self.values.insert(metric.to_owned(), value);
        Ok(())
    }
}

/// Reads what `tool` printed in `seconds` of wall time; `patterns` are for `command`.
///
/// # Errors
/// Corrupt if it is not what the tool prints.
pub fn read(
    tool: &str,
    patterns: &BTreeMap<String, String>,
    printed: &Printed,
    seconds: f64,
) -> Result<Measured> {
    let measured = match tool {
        "fio" => fio::read(&printed.stdout),
        "dd" => text::dd(&printed.stderr),
        "sysbench" => text::sysbench(&printed.stdout),
        "iperf3" => text::iperf3(&printed.stdout),
        "pgbench" => text::pgbench(&printed.stdout),
        "command" => text::command(&printed.stdout, patterns, seconds),
        _ => Err(Error::internal(format!("no reader for {tool}"))),
    };
    measured.map_err(|error| Error::corrupt(format!("cannot read what {tool} printed")).with_source(error))
}

/// The command of a workload, or with `layout` the one that lays out its data. `command` is run by sh; the
/// arguments of the others are split at spaces, after their placeholders are filled.
///
/// # Errors
/// Invalid for a placeholder without a value.
pub fn command(
    workload: &Workload,
    template: &str,
    values: &BTreeMap<String, String>,
    ledger: &Ledger,
) -> Result<Command> {
    let tool = workload.tool.get_ref().as_str();
    let mut command;
    if tool == "command" {
        command = ledger.command("sh");
        command.arg("-c").arg(fill(template, values)?);
    } else {
        command = ledger.command(tool);
        command.args(arguments(tool, template, values)?);
    }
    // Figures are written with points, whatever the user's language.
    command.env("LC_ALL", "C");
    Ok(command)
}

/// The words of the command line after the tool's name.
///
/// # Errors
/// Invalid for a placeholder without a value.
pub fn arguments(tool: &str, template: &str, values: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let words = template.split_whitespace().map(|word| fill(word, values)).collect::<Result<Vec<_>>>()?;
    let machine_readable: &[&str] = match tool {
        "fio" => &["--output-format=json"],
        "iperf3" => &["--json"],
        _ => &[],
    };
    Ok(machine_readable.iter().map(|word| (*word).to_owned()).chain(words).collect())
}

/// Whether fio with these arguments may write: all but plain options of a job that says that it reads. What is not
/// known for sure (a placeholder, a file of jobs) may.
pub fn writes(arguments: &str) -> bool {
    let is_option = |word: &str| word.starts_with("--");
    let pattern = |word: &str| {
        let (name, value) = word.split_once('=')?;
        matches!(name, "--rw" | "--readwrite").then(|| value.to_owned())
    };
    let mut words = arguments.split_whitespace();
    let patterns: Vec<String> = words.clone().filter_map(pattern).collect();
    let reads = |pattern: &String| matches!(pattern.as_str(), "read" | "randread");
    !words.all(is_option) || patterns.is_empty() || !patterns.iter().all(reads)
}

/// The unit of a metric, by how its name ends.
pub fn unit(metric: &str) -> &'static str {
    const ENDS: &[(&str, &str)] = &[
        ("mib_per_s", "MiB/s"),
        ("mb_per_s", "MB/s"),
        ("gbit_per_s", "Gbit/s"),
        ("per_s", "1/s"),
        ("iops", "IOPS"),
        ("tps", "1/s"),
        ("_ms", "ms"),
        ("seconds", "s"),
        ("hours", "h"),
        ("_s", "s"),
        ("percent", "%"),
        ("bytes", "bytes"),
    ];
    ENDS.iter().find(|(end, _)| metric.ends_with(end)).map_or("", |(_, unit)| unit)
}

#[cfg(test)]
mod tests;
