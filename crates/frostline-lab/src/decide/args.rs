//! `lab decide`: its arguments and output.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use frostline_base::{Error, Result};
use frostline_model::catalogue::Catalogue;
use frostline_show::parse_bytes;

use super::{Decision, Need, Question, decide, text};
use crate::host::{output_file, write_output};
use crate::report::{Language, Point, pareto_page};

/// Which volumes meet a need, with dollars per month, burst hours, machine limits and annual failure rates.
#[derive(Args, Clone, Debug)]
pub struct DecideArgs {
    /// The workload, such as 'randrw bs=16k,128k mix=75 p99<=20ms 100MiB/s peak=300MiB/s,2h'; `lab need` derives one
    #[arg(long)]
    pub need: String,
    /// Data to hold, such as 8TiB
    #[arg(long, value_name = "SIZE")]
    pub capacity: String,
    /// Region of the prices
    #[arg(long, default_value = "us-east-1")]
    pub region: String,
    /// Machine type whose limits apply, such as r7g.xlarge
    #[arg(long)]
    pub instance: Option<String>,
    /// Hours of each day in which the workload runs [default: 24]
    #[arg(long, value_name = "HOURS")]
    pub hours_per_day: Option<f64>,
    /// Copies of the data, each on volumes of its own
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub copies: u32,
    /// What snapshots hold, such as 2TiB, to price them
    #[arg(long, value_name = "SIZE")]
    pub snapshots: Option<String>,
    /// Maximum number of volumes in a stripe
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub volumes_max: u32,
    /// Name of a built-in catalogue, or a catalogue file
    #[arg(long, value_name = "NAME|FILE")]
    pub catalogue: Option<String>,
    /// Write an HTML page of dollars against MiB/s to this file: all choices, and the Pareto front
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Decides and prints to standard output: text, or with `json` one document.
///
/// # Errors
///
/// As [`decide`]; `Invalid` with the position for a need or a size that cannot be read; `Unavailable` if standard
/// output is closed.
pub fn run(args: &DecideArgs, json: bool) -> Result<()> {
    let page = args.html.as_deref().map(output_file).transpose()?;
    let catalogue = args.catalogue.as_deref().map_or_else(|| Ok(Catalogue::latest()), Catalogue::named)?;
    let size = |option: &str, text: &String| {
        gib(text).map_err(|what| Error::invalid(format!("{option} {text}: {what}")))
    };
    let question = Question {
        need: args.need.parse::<Need>()?,
        data_gib: size("--capacity", &args.capacity)?,
        copies: args.copies,
        snapshot_gib: args.snapshots.as_ref().map(|text| size("--snapshots", text)).transpose()?,
        region: args.region.clone(),
        instance: args.instance.clone(),
        hours_per_day: args.hours_per_day,
        count_max: args.volumes_max,
    };
    let decision = decide(&catalogue, &question)?;
    let printed = match json {
        true => serde_json::to_string_pretty(&decision)
            .map_err(|error| Error::internal("a decision cannot be written as JSON").with_source(error))?,
        false => text::text(&decision).join("\n"),
    };
    writeln!(std::io::stdout().lock(), "{printed}")
        .map_err(|error| Error::unavailable("standard output cannot be written").with_source(error))?;
    if let Some(file) = &page {
        let title = format!("{}, {}, {}", args.need, args.capacity, args.region);
        let page = pareto_page(
            &title,
            (&decision.answer, &decision.answer_korean),
            decision.question.all_day_mib_per_s(),
            &points(&decision),
            &decision.notes,
            Language::English,
        );
        write_output(file, &page)?;
    }
    Ok(())
}

/// A size with its unit, in GiB.
fn gib(text: &str) -> Result<f64, String> {
    if text.parse::<f64>().is_ok() {
        return Err(format!("a unit is missing: write {text}GiB or {text}TB"));
    }
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    Ok(bytes as f64 / (1_u64 << 30) as f64)
}

/// The front, and what meets the need beside it.
fn points(decision: &Decision) -> Vec<Point> {
    let lists = || decision.meets.iter().chain(&decision.while_credits_last);
    let answer = lists().next().map(text::what);
    let is_answer = |label: &String| Some(label) == answer.as_ref();
    let class = |label: &str| {
        let spec = label.split_once(" x ").map_or(label, |(_, spec)| spec);
        spec.split_once(':').map_or(spec, |(class, _)| class).to_owned()
    };
    let front = decision.front.iter().map(|point| Point {
        dollars: point.usd_per_month,
        mib_per_s: point.sustained_mib_per_s,
        series: class(&point.what),
        is_answer: is_answer(&point.what),
        label: point.what.clone(),
        on_front: true,
    });
    let beside = lists()
        .filter(|choice| decision.front.iter().all(|point| point.what != text::what(choice)))
        .filter_map(|choice| {
            let label = text::what(choice);
            Some(Point {
                dollars: choice.usd_per_month?,
                mib_per_s: choice.sustained_mib_per_s,
                series: choice.volume.class.clone(),
                is_answer: is_answer(&label),
                label,
                on_front: false,
            })
        });
    front.chain(beside).collect()
}
