//! The whole procedure on volumes of the model, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use frostline_model::catalogue::Catalogue;
use frostline_model::{Balance, Io, Limits, Volume, VolumeSpec};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::load::OUTSTANDING;
use super::*;
use crate::run::Unwatched;

/// What a request takes that waits for nothing.
const SERVICE_S: f64 = 0.0004;

impl Watching for Unwatched {
    fn begin(&mut self, _: f64) {}
    fn passed(&mut self, _: f64) {}
    fn doing(&mut self, _: &str) {}
    fn say(&mut self, _: &str) {}
}

struct Modelled {
    load: Load,
    volumes: Vec<Volume>,
    now_s: f64,
    places: SmallRng,
    /// Path that fails from so many steps on.
    failing: Option<(usize, usize)>,
    steps: usize,
    stopped: bool,
}

impl Modelled {
    fn new(load: Load, volumes: &[(&str, Balance, f64)]) -> Modelled {
        let catalogue = Catalogue::latest();
        let volume = |(spec, balance, time_scale): &(&str, Balance, f64)| {
            Volume::new(&catalogue, &VolumeSpec::parse(&catalogue, spec).unwrap(), *balance, *time_scale)
                .unwrap()
        };
        Modelled {
            load,
            volumes: volumes.iter().map(volume).collect(),
            now_s: 0.0,
            places: SmallRng::seed_from_u64(7),
            failing: None,
            steps: 0,
            stopped: false,
        }
    }

    /// Serves requests for `seconds`, `iops` a second or as many as there may be outstanding; when each arrived and was
    /// done, by when it was done, until `enough` of a whole second.
    fn serve(
        &mut self,
        at: usize,
        iops: Option<f64>,
        seconds: f64,
        mut enough: impl FnMut(&[(f64, f64)]) -> bool,
    ) -> Vec<(f64, f64)> {
        let (start, bytes) = (self.now_s, self.load.block_bytes());
        let (mut outstanding, mut done) = (BinaryHeap::new(), Vec::new());
        let mut next = start;
        let mut told = start;
        while next < start + seconds {
            if outstanding.len() == OUTSTANDING as usize {
                let Reverse((ended_ns, began_ns)) = outstanding.pop().unwrap();
                let (began, ended): (u64, u64) = (began_ns, ended_ns);
                done.push((began as f64 / 1e9, ended as f64 / 1e9));
                next = next.max(ended as f64 / 1e9);
            }
            if next >= told + 1.0 {
                told += 1.0;
                if enough(&done) {
                    break;
                }
            }
            let io = Io {
                write: self.places.random_bool(1.0 - self.load.read_percent() / 100.0),
                offset: self.places.random_range(0..1_u64 << 20) * bytes,
                bytes,
            };
            let ended = self.volumes[at].admit(next, io) + SERVICE_S;
            outstanding.push(Reverse(((ended * 1e9) as u64, (next * 1e9) as u64)));
            next += iops.map_or(0.0, |iops| 1.0 / iops);
        }
        self.now_s = next.max(told);
        let rest = outstanding.into_sorted_vec().into_iter().rev();
        done.extend(rest.map(|Reverse((ended, began))| (began as f64 / 1e9, ended as f64 / 1e9)));
        done.retain(|(_, ended)| *ended <= self.now_s);
        done
    }

    fn step(&mut self, at: usize) -> Result<()> {
        self.steps += 1;
        match self.failing {
            Some((path, steps)) if path == at && self.steps >= steps => Err(Error::not_found("it is gone")),
            _ => Ok(()),
        }
    }

    fn rounds(&self, from_s: f64, done: &[(f64, f64)]) -> Vec<Round> {
        let Some(last) = done.last().map(|(_, ended)| ended - from_s) else { return Vec::new() };
        let mut rounds = vec![Round { seconds: 1.0, requests: 0.0, mib: 0.0 }; last as usize + 1];
        for (_, ended) in done {
            rounds[(ended - from_s) as usize].requests += 1.0;
            rounds[(ended - from_s) as usize].mib += self.load.block_bytes() as f64 / frostline_model::MIB;
        }
        // The second that is not over yet.
        rounds.pop();
        rounds
    }
}

impl Bench for Modelled {
    fn prepare(&mut self, at: usize) -> Result<()> {
        self.step(at)
    }

    fn saturate(
        &mut self,
        at: usize,
        seconds: f64,
        enough: &mut dyn FnMut(&[Round]) -> bool,
    ) -> Result<Vec<Round>> {
        self.step(at)?;
        let start = self.now_s;
        let shown = Modelled::new(self.load, &[]);
        let done = self.serve(at, None, seconds, |done| enough(&shown.rounds(start, done)));
        Ok(self.rounds(start, &done))
    }

    fn offer(&mut self, at: usize, iops: Option<f64>, seconds: f64) -> Result<Point> {
        self.step(at)?;
        self.serve(at, iops, 1.0, |_| false);
        let done = self.serve(at, iops, seconds, |_| false);
        let latencies: Vec<f64> = done.iter().map(|(began, ended)| (ended - began) * 1000.0).collect();
        let served = done.len() as f64 / seconds;
        Ok(Point {
            offered_iops: iops,
            iops: served,
            mib_per_s: served * self.load.block_bytes() as f64 / frostline_model::MIB,
            p50_ms: crate::stats::quantile(&latencies, 0.5).unwrap_or(0.0),
            p99_ms: crate::stats::quantile(&latencies, 0.99).unwrap_or(0.0),
            cpu_pressure: None,
            cpu_wait: None,
        })
    }

    fn is_stopped(&self) -> bool {
        self.stopped
    }
}

const EXTENT: Extent = Extent { data_mib: 1024, watch_seconds: 90.0, step_seconds: 5.0 };

fn unmeasured(count: usize) -> Vec<Measured> {
    let path = |at: usize| Measured {
        path: PathBuf::from(format!("/mnt/{at}")),
        volume: "modelled".to_owned(),
        rounds: Vec::new(),
        watched: None,
        points: Vec::new(),
        knee: None,
        doubt: None,
        cost: None,
        failed: None,
    };
    (0..count).map(path).collect()
}

fn measured(bench: &mut Modelled) -> Vec<Measured> {
    let mut paths = unmeasured(bench.volumes.len());
    measure(bench, EXTENT, &mut paths, &mut Unwatched).unwrap();
    paths
}

#[track_caller]
fn check_within_5_percent(what: &str, found: f64, configured: f64) {
    assert!((found / configured - 1.0).abs() <= 0.05, "{what}: {found}, configured {configured}");
}

fn limits(spec: &str) -> Limits {
    let catalogue = Catalogue::latest();
    VolumeSpec::parse(&catalogue, spec).unwrap().limits(&catalogue).unwrap()
}

#[test]
fn limit_bucket_and_knee_are_found_without_being_told() {
    const TIME_SCALE: f64 = 100.0;
    for load in [Load::Elasticsearch, Load::Postgres, Load::FrostlineCache] {
        let volumes = [
            ("st1:2TiB", Balance::Empty, TIME_SCALE),
            ("gp3:500GiB", Balance::Full, 1.0),
            ("st1:2TiB", Balance::Full, TIME_SCALE),
        ];
        let paths = measured(&mut Modelled::new(load, &volumes));
        for (path, (spec, ..)) in paths.iter().zip(&volumes) {
            let configured = limits(spec).random_iops(load.block_bytes(), true);
            let watched = path.watched.unwrap();
            check_within_5_percent("limit", watched.sustained.iops, configured);
            check_within_5_percent("knee", path.knee.unwrap().iops, configured);
            assert!(watched.is_steady, "{watched:?}");
        }
        assert_eq!(paths[0].watched.unwrap().burst, None, "an empty bucket");
        assert_eq!(paths[1].watched.unwrap().burst, None, "no bucket");
        let burst = paths[2].watched.unwrap().burst.unwrap();
        check_within_5_percent("burst", burst.level.iops, 500.0);
        check_within_5_percent("bucket", burst.bucket_requests, limits("st1:2TiB").bucket / TIME_SCALE);
    }
}

#[test]
fn a_burst_that_outlasts_the_watch_is_the_limit_of_the_watch() {
    let paths = measured(&mut Modelled::new(Load::Elasticsearch, &[("st1:2TiB", Balance::Full, 1.0)]));
    let watched = paths[0].watched.unwrap();
    check_within_5_percent("burst", watched.sustained.iops, 500.0);
    assert_eq!(watched.burst, None);
}

#[test]
fn a_path_that_disappears_is_named_and_the_others_go_on() {
    let volumes = [("gp3:500GiB", Balance::Full, 1.0), ("gp3:100GiB", Balance::Full, 1.0)];
    // While it is prepared, while it is watched, and in the middle of the curve.
    for steps in [1, 2, 10] {
        let mut bench = Modelled::new(Load::Elasticsearch, &volumes);
        bench.failing = Some((0, steps));
        let paths = measured(&mut bench);
        assert_eq!(paths[0].failed.as_deref(), Some("it is gone"));
        assert_eq!(paths[1].failed, None);
        assert_eq!(paths[1].points.len(), curve::PARTS.len() + 1);
        check_within_5_percent("knee", paths[1].knee.unwrap().iops, 1000.0);
    }
}

#[test]
fn a_stop_ends_all() {
    let mut bench = Modelled::new(Load::Elasticsearch, &[("gp3:100GiB", Balance::Full, 1.0)]);
    bench.stopped = true;
    let stopped = measure(&mut bench, EXTENT, &mut unmeasured(1), &mut Unwatched).unwrap_err();
    assert_eq!(stopped.kind(), frostline_base::ErrorKind::Stopped);
}
