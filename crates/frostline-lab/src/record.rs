//! The record of a run of a study: `lab run` writes it; `lab report`, `lab compare` and people read it.
//!
//! A run is a folder: `run.json` ([`Run`], rewritten atomically after each sample), `samples.ndjson` (one
//! [`Sample`] per line, appended and synced, from which everything else is derived), and `raw/`
//! (the unmodified output of every tool). An interrupted run is resumed from `samples.ndjson`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::stats;

/// Version of the files of a run. Readers refuse a newer one.
pub const FORMAT: u32 = 1;

/// One run of one study on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`].
    pub format: u32,
    /// Name of the study, such as `warm-tier`.
    pub study: String,
    /// Its title, a sentence.
    pub title: String,
    /// What was typed.
    pub command: String,
    /// What was asked for; runs of earlier builds have it only in `command`.
    #[serde(default)]
    pub asked: Option<Asked>,
    /// When it began, RFC 3339.
    pub started: String,
    /// The seed of every choice of order and data.
    pub seed: u64,
    /// How much was done.
    pub mode: Mode,
    /// Burst buckets were this many times smaller than real ones; 1 is unscaled.
    #[serde(deserialize_with = "number_or_null")]
    pub time_scale: f64,
    /// Where it ran.
    pub machine: Machine,
    /// Version lines of the tools that ran, by name.
    pub tools: BTreeMap<String, String>,
    /// What tells the file systems of the paths that the study names from others (`Directory::identity`), by path.
    /// Earlier runs have none.
    #[serde(default)]
    pub file_systems: BTreeMap<String, String>,
    /// What identifies the block devices that the study names (`Device::identity`), by path. Runs of earlier builds lack it.
    #[serde(default)]
    pub devices: BTreeMap<String, String>,
    /// The cells in the order of the study.
    pub cells: Vec<Cell>,
    /// The ratios that the study asks for.
    pub comparisons: Vec<Comparison>,
    /// Korean of the study's title, notes and names of comparisons.
    #[serde(default)]
    pub korean: BTreeMap<String, String>,
    /// What a reader must know: what was emulated, simplified or could not be had.
    pub notes: Vec<String>,
    /// Whether every sample that was planned is there.
    pub complete: bool,
}

/// What the run was asked for, which a resumed run keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Groups of cells that replace those of the mode; empty if none do.
    pub cells: Vec<String>,
    /// Highest CPU pressure of a sample in percent, in place of the study's limit.
    pub cpu_pressure_max: Option<f64>,
    /// XXH3 of the study's text, 16 hexadecimal digits.
    pub study_hash: String,
}

/// How much of a study was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The model only, in virtual time.
    Simulate,
    /// Real tools, few cells and short samples.
    Quick,
    /// Everything that this machine can do.
    Full,
}

/// The machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// `uname -r`.
    pub kernel: String,
    /// Model name of the first CPU.
    pub cpu: String,
    /// CPUs that are online.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// `PRETTY_NAME` of the operating system.
    pub os: String,
    /// The hypervisor, if one is named.
    pub hypervisor: Option<String>,
}

/// How a cell's figures come about. Never a silent downgrade: `why` of the cell says what decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// On the real thing that the cell names.
    Run,
    /// With real tools on emulated volumes or in an emulated guest.
    Emulate,
    /// By the model in virtual time.
    Simulate,
    /// From a published or captured record.
    Fixture,
    /// Not at all: what it requires is not here.
    Skip,
}

/// One combination of levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Levels in the study's order of factors, as `factor=level,factor=level`; unique in a run.
    pub id: String,
    /// Level by factor.
    pub levels: BTreeMap<String, String>,
    /// How it is measured.
    pub how: How,
    /// What decided how.
    pub why: String,
    /// Measured values by name of the metric; valid samples only.
    pub measured: BTreeMap<String, Summary>,
    /// What the volume model says, by name of the metric.
    pub modelled: BTreeMap<String, f64>,
    /// What the study published, by name of the metric.
    pub published: BTreeMap<String, f64>,
    /// Samples that a gate voided.
    pub voided: u32,
    /// Remarks, such as the reasons of voided samples, each once.
    pub notes: Vec<String>,
}

/// The samples of one metric in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Its unit, such as `MiB/s`, `IOPS` or `ms`.
    pub unit: String,
    /// The values in the order of blocks.
    pub values: Vec<f64>,
    /// Their median.
    #[serde(deserialize_with = "number_or_null")]
    pub median: f64,
    /// Interval of the median (`stats::median_interval`); equal to it when there is one value.
    #[serde(deserialize_with = "number_or_null")]
    pub low: f64,
    /// See `low`.
    #[serde(deserialize_with = "number_or_null")]
    pub high: f64,
    /// How often such an interval holds the truth: 0.95, or less for the range of few values. Earlier runs have none.
    #[serde(default)]
    pub confidence: Option<f64>,
}

/// One execution of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Id of the cell.
    pub cell: String,
    /// The block: every cell runs once in each, in an order of its own.
    pub block: u32,
    /// Place within the block.
    pub position: u32,
    /// Seconds since the run began.
    pub at_s: f64,
    /// How long it took.
    pub seconds: f64,
    /// Measured values by name of the metric.
    pub values: BTreeMap<String, f64>,
    /// What the gates read.
    pub gates: Vec<Gate>,
    /// File below `raw/` with what the tool printed.
    pub raw: String,
}

impl Sample {
    /// Whether no gate voids it.
    pub fn is_valid(&self) -> bool {
        self.gates.iter().all(|gate| gate.passed)
    }
}

/// One check that a sample measured what it says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Its name, such as `device_bytes`.
    pub name: String,
    /// What it read and against what, in words.
    pub what: String,
    /// Whether the sample stands.
    pub passed: bool,
}

/// A paired ratio of two cells: numerator over denominator, block by block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Its name in the study.
    pub name: String,
    /// Id of the cell above the line.
    pub numerator: String,
    /// Id of the cell below the line.
    pub denominator: String,
    /// The metric.
    pub metric: String,
    /// Median of the paired ratios, with its interval (`stats::paired_ratio`).
    #[serde(deserialize_with = "number_or_null")]
    pub ratio: f64,
    /// See `ratio`.
    #[serde(deserialize_with = "number_or_null")]
    pub low: f64,
    /// See `ratio`.
    #[serde(deserialize_with = "number_or_null")]
    pub high: f64,
    /// How often such an interval holds the truth; absent without measurement and in earlier runs.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// Pairs it stands on.
    pub pairs: u32,
    /// The smallest difference, as a part of 1, that this many pairs with this scatter could have shown; not
    /// a number for too few pairs.
    #[serde(deserialize_with = "number_or_null")]
    pub smallest_difference: f64,
    /// Two-sided p of the paired test, Holm-corrected over the run's comparisons; absent without measurement.
    pub p_holm: Option<f64>,
    /// What the model says, if it says anything.
    pub modelled: Option<f64>,
    /// What was published.
    pub published: Option<f64>,
    /// What the study file expects, as an inclusive range.
    pub expected: Option<(f64, f64)>,
    /// Whether the cells are the same under two labels: what differs is noise.
    pub null_control: bool,
    /// Whether the expectation is met; absent without one.
    pub met: Option<bool>,
}

impl Comparison {
    /// Whether the expectation is met; as recorded if nothing was measured. None if the measured interval contains an end of
    /// the expected range, or if there are too few pairs for an interval of 95 %.
    pub fn judged(&self) -> Option<bool> {
        let Some((least, most)) = self.expected.filter(|_| self.pairs > 0 && !self.null_control) else {
            return self.met;
        };
        if self.is_few() {
            None
        } else if least <= self.low && self.high <= most {
            Some(true)
        } else if self.high < least || most < self.low {
            Some(false)
        } else {
            None
        }
    }

    /// Whether it was measured against an expectation, and the run cannot judge it.
    pub fn is_open(&self) -> bool {
        self.expected.is_some() && self.pairs > 0 && !self.null_control && self.judged().is_none()
    }

    /// Whether its pairs are too few for an interval of 95 %.
    pub fn is_few(&self) -> bool {
        (self.pairs as usize) < stats::PAIRS_MIN
    }
}

/// JSON has no NaN: what was not a number is written as null, and must not make a run unreadable.
fn number_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}
