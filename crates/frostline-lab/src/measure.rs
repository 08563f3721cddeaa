//! `lab measure`: what volumes that are there can do, without a study.
//!
//! Each path gets a file of its own. Under as many requests as it takes ([`watch`]) a volume shows the level that it
//! sustains, and the burst before it if its bucket holds credits. Parts of that level are then offered to all paths in
//! turn, so that drift over minutes meets all of them, and give latency over load ([`curve`]).
//!
//! The procedure knows only a [`Bench`]: directories of this host ([`live`]), or volumes of the model in a test's
//! virtual time. A path that fails is named and left out; the others go on.

pub mod args;
pub mod cost;
pub mod curve;
mod live;
pub mod load;
mod paced;
pub(crate) mod text;
pub mod watch;

use std::path::PathBuf;

use frostline_base::{Error, Result, chain};
use serde::{Deserialize, Serialize};

use self::cost::Cost;
use self::curve::{Doubt, Knee, Point};
use self::load::Load;
use self::watch::{Round, Watched};
use crate::record::Machine;

/// Times that the knee's neighbours are moved closer to it.
const REFINEMENTS_MAX: usize = 3;

/// Where load is put.
pub trait Bench {
    /// Makes the data of path `at`.
    ///
    /// # Errors
    /// What is wrong with that path.
    fn prepare(&mut self, at: usize) -> Result<()>;

    /// As many requests as path `at` takes, for at most `seconds` or until `enough` says so of the rounds so far.
    ///
    /// # Errors
    /// What is wrong with that path.
    fn saturate(
        &mut self,
        at: usize,
        seconds: f64,
        enough: &mut dyn FnMut(&[Round]) -> bool,
    ) -> Result<Vec<Round>>;

    /// `iops` requests a second, evenly; without it as many as path `at` takes.
    ///
    /// # Errors
    /// What is wrong with that path.
    fn offer(&mut self, at: usize, iops: Option<f64>, seconds: f64) -> Result<Point>;

    /// Whether nothing more shall be done.
    fn is_stopped(&self) -> bool;
}

/// Who watches.
pub trait Watching {
    /// About so many seconds will be needed.
    fn begin(&mut self, seconds: f64);
    /// So many of them are over.
    fn passed(&mut self, seconds: f64);
    /// What is being done.
    fn doing(&mut self, what: &str);
    /// What a person must know.
    fn say(&mut self, what: &str);
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extent {
    /// MiB of each path's file.
    pub data_mib: u64,
    /// Seconds for which a volume is watched at most.
    pub watch_seconds: f64,
    /// Seconds of a load.
    pub step_seconds: f64,
}

/// What was measured on one path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The path as it was given.
    pub path: PathBuf,
    /// Its file system and what that is on.
    pub volume: String,
    /// The watch, second by second.
    pub rounds: Vec<Round>,
    /// What it says.
    pub watched: Option<Watched>,
    /// Latency over load.
    pub points: Vec<Point>,
    /// Where latency begins to rise steeply.
    pub knee: Option<Knee>,
    /// Why no knee can be told. Earlier measurements have none.
    #[serde(default)]
    pub doubt: Option<Doubt>,
    /// What it costs, if the volume's type was given.
    pub cost: Option<Cost>,
    /// Why the rest is missing.
    pub failed: Option<String>,
}

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// When it began, RFC 3339.
    pub started: String,
    /// The requests.
    #[serde(rename = "as")]
    pub load: Load,
    /// Bytes of a request.
    pub block_bytes: u64,
    /// Requests that were outstanding at most.
    pub outstanding: u32,
    /// How much was measured.
    pub extent: Extent,
    /// fio's version.
    pub fio: String,
    /// The machine.
    pub machine: Machine,
    /// By path, in the order given.
    pub paths: Vec<Measured>,
}

/// Measures all paths of `bench`, `paths.len()` of them; fills in what is measured.
///
/// # Errors
/// Conflict if it was stopped. The failure of a path is in [`Measured::failed`].
pub fn measure(
    bench: &mut dyn Bench,
    extent: Extent,
    paths: &mut [Measured],
    watching: &mut dyn Watching,
) -> Result<()> {
    let loads = curve::PARTS.len() as f64 + 1.0;
    watching.begin(paths.len() as f64 * (extent.watch_seconds + loads * extent.step_seconds));
    for (at, path) in paths.iter_mut().enumerate() {
        let done = to_its_limit(bench, extent, at, path, watching);
        settle(bench, done, path, watching)?;
    }
    // Parts of the limit: all paths at one part, then all at the next, never the same one first.
    for (turn, part) in curve::PARTS.into_iter().enumerate() {
        let count = paths.len();
        for at in (0..count).map(|at| (at + turn) % count) {
            offer_part(bench, extent, at, part, &mut paths[at], watching)?;
        }
    }
    for _ in 0..REFINEMENTS_MAX {
        for (at, path) in paths.iter_mut().enumerate() {
            for part in curve::refined(&path.points, limit_iops(path)) {
                offer_part(bench, extent, at, part, path, watching)?;
            }
        }
    }
    for path in paths {
        match curve::told(&path.points) {
            Ok(knee) => path.knee = knee,
            Err(doubt) => path.doubt = Some(doubt),
        }
    }
    Ok(())
}

/// Data, the watch, and the latency at the limit, without a pause in which a bucket would fill.
fn to_its_limit(
    bench: &mut dyn Bench,
    extent: Extent,
    at: usize,
    path: &mut Measured,
    watching: &mut dyn Watching,
) -> Result<()> {
    let name = path.path.display().to_string();
    watching.doing(&format!("{name}: laying out {} MiB", extent.data_mib));
    bench.prepare(at)?;
    let seconds_max = extent.watch_seconds;
    let mut told = 0.0;
    path.rounds = bench.saturate(at, seconds_max, &mut |rounds| {
        let seconds: f64 = rounds.iter().map(|round| round.seconds).sum();
        watching.passed(seconds - told);
        told = seconds;
        if let Some(last) = rounds.last() {
            let iops = last.requests / last.seconds;
            watching.doing(&format!("{name}: {iops:.0} IOPS after {seconds:.0} s at its limit"));
        }
        watch::is_enough(rounds, seconds_max)
    })?;
    watching.passed(seconds_max - told);
    path.watched = watch::watched(&path.rounds);
    let Some(Watched { sustained, .. }) = path.watched else {
        return Err(Error::invalid("the watch was too short to say anything: --watch takes more seconds"));
    };
    // The rate is the watch's: between both the bucket got the credits of a moment.
    let at_the_limit = bench.offer(at, None, extent.step_seconds)?;
    path.points.push(Point { iops: sustained.iops, mib_per_s: sustained.mib_per_s, ..at_the_limit });
    watching.passed(extent.step_seconds);
    Ok(())
}

fn offer_part(
    bench: &mut dyn Bench,
    extent: Extent,
    at: usize,
    part: f64,
    path: &mut Measured,
    watching: &mut dyn Watching,
) -> Result<()> {
    if path.failed.is_some() {
        return Ok(());
    }
    let iops = limit_iops(path) * part;
    watching.doing(&format!("{}: {:.0} % of its limit", path.path.display(), part * 100.0));
    let done = bench.offer(at, Some(iops), extent.step_seconds).map(|point| path.points.push(point));
    watching.passed(extent.step_seconds);
    settle(bench, done, path, watching)
}

/// Keeps the failure with its path, unless all shall end.
fn settle(
    bench: &dyn Bench,
    done: Result<()>,
    path: &mut Measured,
    watching: &mut dyn Watching,
) -> Result<()> {
    if bench.is_stopped() {
        return Err(Error::stopped("stopped; nothing was kept"));
    }
    if let Err(error) = done {
        let why = chain(&error);
        watching.say(&format!("{}: {why}; it is left out from here on", path.path.display()));
        path.failed = Some(why);
    }
    Ok(())
}

fn limit_iops(path: &Measured) -> f64 {
    path.watched.map_or(0.0, |watched| watched.sustained.iops)
}

#[cfg(test)]
mod tests;
