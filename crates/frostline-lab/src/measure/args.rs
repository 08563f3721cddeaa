//! `lab measure`: its arguments and output.

use std::path::{Path, PathBuf};

use clap::Args;
use frostline_base::{Clock as _, Error, Result, SystemClock};
use frostline_model::catalogue::Catalogue;

use super::cost::{Cost, cost};
use super::live::Live;
use super::load::{Load, OUTSTANDING};
use super::{Bench as _, Extent, Measured, Measurement, Watching, measure, text};
use crate::host::ledger::{self, Ledger, Thing};
use crate::host::process::Stop;
use crate::host::target::Directory;
use crate::host::{facts, io, tools};
use crate::run::live::live_folder;
use crate::run::rfc3339;

/// Which volumes, under whose load.
#[derive(Args, Clone, Debug)]
pub struct MeasureArgs {
    /// Directories on the volumes to measure; only files of the lab's own are written there, and removed
    #[arg(required = true, value_name = "DIR")]
    pub paths: Vec<PathBuf>,
    /// Whose requests
    #[arg(long = "as", value_enum)]
    pub load: Load,
    /// MiB of data in each directory; more than the caches between this host and the volume
    #[arg(long, default_value_t = 1024, value_name = "MIB", value_parser = at_least::<u64>(64, "MiB"))]
    pub data_mib: u64,
    /// Maximum seconds to watch each volume at its limit; a burst bucket is found if it is empty by then
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = at_least::<u32>(12, "seconds"))]
    pub watch: u32,
    /// Seconds of each load of the curve
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = at_least::<u32>(1, "seconds"))]
    pub step: u32,
    /// Type of the volume, such as gp3 or st1:2TiB, to show its price; once for all, or once for each directory in order
    #[arg(long, value_name = "VOLUME")]
    pub price: Vec<String>,
    /// Region of the prices
    #[arg(long, default_value = "us-east-1")]
    pub region: String,
    /// Name of a built-in catalogue, or a catalogue file
    #[arg(long, value_name = "NAME|FILE")]
    pub catalogue: Option<String>,
    /// Seed for places and data
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write an HTML page with the charts to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Reads a number of at least `least`, or says what to write, with its unit.
fn at_least<T: TryFrom<u64>>(
    least: u64,
    unit: &'static str,
) -> impl Fn(&str) -> std::result::Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| *number >= least);
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("write a whole number of {unit}, at least {least}"))
    }
}

/// Measures with its ledger below `data`. The second is whether a path failed.
///
/// # Errors
/// Of the arguments, by name, before anything is written; Stopped after Ctrl-C; the failure of a path only if all
/// failed. In each case what was made is removed.
pub fn run(args: &MeasureArgs, data: &Path, watching: &mut dyn Watching) -> Result<(Measurement, bool)> {
    let (directories, costs) = check(args)?;
    let fio = tools::need(["fio"])?.remove("fio").unwrap_or_default();
    let stop = Stop::on_signals()?;
    let mut ledger = Ledger::open(&live_folder(data))?;
    let raw = data.join("lab/work").join(ledger.token());
    ledger.note(Thing::Directory(raw.clone()))?;
    std::fs::create_dir_all(&raw).map_err(|e| io(e, "cannot make", &raw))?;
    let extent = Extent {
        data_mib: args.data_mib,
        watch_seconds: f64::from(args.watch),
        step_seconds: f64::from(args.step),
    };
    let mut paths: Vec<Measured> = directories.iter().zip(costs).map(unmeasured).collect();
    let started = rfc3339(SystemClock.now_us())?;
    let folders = vec![None; directories.len()];
    let mut live = Live {
        ledger: &mut ledger,
        stop: &stop,
        directories,
        folders,
        raw,
        load: args.load,
        extent,
        seed: args.seed,
    };
    let measured = measure(&mut live, extent, &mut paths, watching);
    let is_stopped = live.is_stopped();
    let is_left = is_left(&ledger.close(), watching);
    if is_stopped {
        let removed = if is_left { "" } else { ", and the files in the directories are removed" };
        return Err(Error::stopped(format!("stopped; nothing was kept{removed}")));
    }
    measured?;
    if let Some(why) = text::failures(&paths).filter(|_| paths.iter().all(|path| path.failed.is_some())) {
        let causes: Vec<&str> = paths.iter().filter_map(|path| path.failed.as_deref()).collect();
        return Err(Error::unavailable(format!("{why}: {}", causes.join("; "))));
    }
    let is_partial = is_left || paths.iter().any(|path| path.failed.is_some());
    let measurement = Measurement {
        started,
        load: args.load,
        block_bytes: args.load.block_bytes(),
        outstanding: OUTSTANDING,
        extent,
        fio,
        machine: facts::machine(),
        paths,
    };
    Ok((measurement, is_partial))
}

/// The measurement for a person.
pub fn text(measurement: &Measurement) -> String {
    text::text(measurement)
}

/// Whether something could not be undone. Reports it. The measurement is printed all the same: a file system that is gone or
/// became read-only keeps the lab's folder, but must not cost the results of others.
fn is_left(closed: &Result<()>, watching: &mut dyn Watching) -> bool {
    if let Err(error) = closed {
        watching.say(&ledger::left(error));
    }
    closed.is_err()
}

/// All that can be wrong before anything is written.
fn check(args: &MeasureArgs) -> Result<(Vec<Directory>, Vec<Option<Cost>>)> {
    let MeasureArgs { paths, price, .. } = args;
    if price.len() > 1 && price.len() != paths.len() {
        return Err(Error::invalid(format!(
            "--price is there {} times for {} directories: give it once, or once for each",
            price.len(),
            paths.len()
        )));
    }
    let open = |path: &PathBuf| Directory::open(path, args.data_mib);
    let directories = paths.iter().map(open).collect::<Result<Vec<_>>>()?;
    for (at, directory) in directories.iter().enumerate() {
        let same = |other: &&Directory| other.resolved() == directory.resolved();
        if let Some(other) = directories[..at].iter().find(same) {
            let (a, b) = (other.path().display(), directory.path().display());
            return Err(Error::invalid(format!("{a} and {b} are the same directory")));
        }
    }
    let catalogue = args.catalogue.as_deref().map_or_else(|| Ok(Catalogue::latest()), Catalogue::named)?;
    let cost_of = |(at, path): (usize, &PathBuf)| {
        let text = price.get(at).or(price.first().filter(|_| price.len() == 1));
        text.map(|text| cost(&catalogue, &args.region, text, path, args.load)).transpose()
    };
    let costs = paths.iter().enumerate().map(cost_of).collect::<Result<Vec<_>>>()?;
    Ok((directories, costs))
}

fn unmeasured((directory, cost): (&Directory, Option<Cost>)) -> Measured {
    Measured {
        path: directory.path().to_path_buf(),
        volume: directory.description(),
        rounds: Vec::new(),
        watched: None,
        points: Vec::new(),
        knee: None,
        doubt: None,
        cost,
        failed: None,
    }
}

#[cfg(test)]
mod tests;
