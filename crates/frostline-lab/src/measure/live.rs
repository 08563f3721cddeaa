//! Directories of this host as a [`Bench`]: fio, and [requests at set times](super::paced), on a file of our own in each.
//!
//! The files are in the ledger before they are made, and go at the end, on Ctrl-C, and with `lab clean` after a kill.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use std::collections::BTreeMap;

use frostline_base::{Error, Result};

use super::curve::Point;
use super::load::{DATA, Load};
use super::paced::Paced;
use super::watch::Round;
use super::{Bench, Extent};
use crate::host::facts;
use crate::host::ledger::Ledger;
use crate::host::process::{Stop, follow_tool, run_tool};
use crate::host::target::Directory;
use crate::workload::{self, Measured, SoFar};

/// A tool that exceeds its planned time by this much is ended.
const SLACK: Duration = Duration::from_secs(60);
/// Laying out data takes at most this long: a drained HDD volume writes a few MiB a second.
const LAYOUT_MAX: Duration = Duration::from_secs(3600);
/// A round is no shorter: fio's last one is what is left of the runtime.
const ROUND_S_MIN: f64 = 0.5;

/// See the module.
pub(super) struct Live<'a> {
    pub(super) ledger: &'a mut Ledger,
    pub(super) stop: &'a Stop,
    pub(super) directories: Vec<Directory>,
    /// The folder of our own in each, once it is there.
    pub(super) folders: Vec<Option<PathBuf>>,
    /// Where fio's output goes.
    pub(super) raw: PathBuf,
    pub(super) load: Load,
    pub(super) extent: Extent,
    /// Of the places that are read and written; another for each step.
    pub(super) seed: u64,
}

impl Live<'_> {
    /// The folder of path `at`, which must still be there, for one more step.
    fn folder(&mut self, at: usize) -> Result<PathBuf> {
        let folder = self.folders[at].clone().ok_or_else(|| Error::internal("the path has a folder"))?;
        self.directories[at].check_there(&folder)?;
        self.seed += 1;
        Ok(folder)
    }

    /// fio in that folder, and where its output goes.
    fn command(&mut self, at: usize, words: Vec<String>) -> Result<(Command, PathBuf)> {
        let folder = self.folder(at)?;
        let mut command = self.ledger.command("fio");
        command.args(words).current_dir(folder).env("LC_ALL", "C");
        Ok((command, self.raw.join(format!("{at}-{}", self.seed))))
    }

    /// The error of a tool on a path that is no longer there is that it is not.
    fn explained<T>(&self, at: usize, done: Result<T>) -> Result<T> {
        done.map_err(|error| {
            let gone = self.folders[at].as_ref().map(|folder| self.directories[at].check_there(folder));
            match gone {
                Some(Err(gone)) => gone,
                _ => error,
            }
        })
    }
}

impl Bench for Live<'_> {
    fn prepare(&mut self, at: usize) -> Result<()> {
        let directory = &self.directories[at];
        // Once more: its volume may be gone by now, or hold the file of another path.
        directory.check_again(self.extent.data_mib)?;
        self.folders[at] = Some(directory.folder(self.ledger, &at.to_string())?);
        let words = self.load.layout(self.extent.data_mib)?;
        let (command, stem) = self.command(at, words)?;
        let laid_out = run_tool(command, &stem, LAYOUT_MAX, self.stop);
        let what = format!("cannot write {DATA} of {} MiB without the page cache", self.extent.data_mib);
        self.explained(at, laid_out.map_err(|e| e.context(what))).map(drop)
    }

    fn saturate(
        &mut self,
        at: usize,
        seconds: f64,
        enough: &mut dyn FnMut(&[Round]) -> bool,
    ) -> Result<Vec<Round>> {
        let words = self.load.watch(self.extent.data_mib, self.seed, seconds)?;
        let (command, stem) = self.command(at, words)?;
        let limit = Duration::from_secs_f64(seconds) + SLACK;
        let (mut rest, mut before, mut rounds) = (String::new(), SoFar::default(), Vec::new());
        let followed = follow_tool(command, &stem, limit, self.stop, &mut |piece| {
            rest.push_str(piece);
            // What fio prints after the runtime has the requests of its end, which were fewer and fewer at once.
            for moment in workload::so_far(&mut rest)?.into_iter().filter(|moment| moment.seconds <= seconds)
            {
                rounds.extend(round(before, moment));
                before = moment;
            }
            Ok(enough(&rounds))
        });
        self.explained(at, followed)?;
        Ok(rounds)
    }

    fn offer(&mut self, at: usize, iops: Option<f64>, seconds: f64) -> Result<Point> {
        let data_mib = self.extent.data_mib;
        if let Some(iops) = iops.filter(|_| self.load.is_random()) {
            let file = self.folder(at)?.join(DATA);
            let (load, stop) = (self.load, self.stop);
            let paced = Paced { load, data_bytes: data_mib << 20, iops, seconds, seed: self.seed };
            return self.explained(at, paced.to(&file, || stop.is_asked()));
        }
        let words = self.load.step(data_mib, self.seed, seconds, iops)?;
        let (command, stem) = self.command(at, words)?;
        let limit = Duration::from_secs_f64(seconds) + SLACK;
        let done = run_tool(command, &stem, limit, self.stop);
        let printed = self.explained(at, done)?;
        let Measured { values, .. } = workload::read("fio", &BTreeMap::new(), &printed, seconds)?;
        let slower = |name: &str| {
            let each = ["read", "write"].map(|side| values.get(&format!("{side}_{name}_ms")).copied());
            each.into_iter().flatten().fold(0.0, f64::max)
        };
        Ok(Point {
            offered_iops: iops,
            iops: values["iops"],
            mib_per_s: values["mib_per_s"],
            p50_ms: slower("p50"),
            p99_ms: slower("p99"),
            cpu_pressure: facts::cpu_pressure(),
            cpu_wait: None,
        })
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_asked()
    }
}

/// From one moment to the next, unless that is what was left of the runtime.
fn round(from: SoFar, to: SoFar) -> Option<Round> {
    let seconds = to.seconds - from.seconds;
    (seconds >= ROUND_S_MIN).then(|| Round {
        seconds,
        requests: to.requests.saturating_sub(from.requests) as f64,
        mib: to.bytes.saturating_sub(from.bytes) as f64 / frostline_model::MIB,
    })
}

#[cfg(test)]
mod tests;
