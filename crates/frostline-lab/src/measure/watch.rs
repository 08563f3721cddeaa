//! A volume watched under as much load as it takes: what it sustains, and whether it fell from a burst to that.
//!
//! Pure functions of the rounds. The volume is told nothing about: a burst is a level of throughput that the
//! volume leaves for a lower one and does not return to.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::stats::{self, STEADY_ROUNDS, Steadiness};

/// Seconds of the lower level before a fall is one; what is shorter may be a hiccup of this host.
const SETTLED_S: f64 = 10.0;
/// Rounds of the higher level: the first one also has the start of the tool.
const BURST_ROUNDS_MIN: usize = 2;
/// A fall to more than this part of the level before is scatter.
const FALL_PART_MAX: f64 = 0.85;
/// Slope excursion of a lower level that may still scatter.
const SLOPE_MAX: f64 = 0.2;
/// Rounds on the wrong side of the middle between the levels, as a part of all of a level. A host that stalls for a
/// moment makes a round slow and the next one fast.
const STRAY_PART: f64 = 0.1;

/// A short time under load, about a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Its length.
    pub seconds: f64,
    /// Requests that were done.
    pub requests: f64,
    /// MiB of them.
    pub mib: f64,
}

/// What was served a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Requests a second.
    pub iops: f64,
    /// MiB a second.
    pub mib_per_s: f64,
    /// For how long.
    pub seconds: f64,
}

/// A level that did not last, and what paid for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// The level while it lasted.
    pub level: Level,
    /// Requests that were served beyond the sustained level: what the bucket held when the watch began.
    pub bucket_requests: f64,
    /// MiB of them.
    pub bucket_mib: f64,
}

/// What the rounds say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// The level at the end: the limit for ever if a burst was seen, otherwise the limit of this watch.
    pub sustained: Level,
    /// The level before, if there was a fall.
    pub burst: Option<Burst>,
    /// Whether the sustained level is a steady state by [`Steadiness::is_steady`], and it did not fall at the end.
    pub is_steady: bool,
    /// Whether the throughput fell too late in the watch to tell a new level from a hiccup.
    #[serde(default)]
    pub fell_at_end: bool,
    /// Largest less smallest of five equal parts of the sustained level, as a part of their mean.
    pub excursion: f64,
    /// Rise or fall of the line through them.
    pub slope_excursion: f64,
}

/// Whether `rounds` need no continuation: they fell and settled, or `seconds_max` have passed.
pub fn is_enough(rounds: &[Round], seconds_max: f64) -> bool {
    seconds(rounds) >= seconds_max || fall(rounds, |after| after.is_steady()).is_some()
}

/// `None` for fewer rounds than a steady state has.
pub fn watched(rounds: &[Round]) -> Option<Watched> {
    // A level that scatters is one, too; what still falls is none.
    let fall = fall(rounds, |after| after.slope_excursion <= SLOPE_MAX);
    let sustained_rounds = match fall {
        Some(at) => &rounds[at + 1..],
        // The half in which a volume has most probably settled.
        None => &rounds[rounds.len() / 2..],
    };
    let Steadiness { excursion, slope_excursion } = steadiness(sustained_rounds)?;
    let sustained = level(sustained_rounds)?;
    let burst = fall.and_then(|at| {
        let high = level(&rounds[..at.saturating_sub(1).max(1)]).filter(|high| high.iops > sustained.iops)?;
        let until = &rounds[..=at];
        let beyond = |total: f64, each: f64| (total - each * seconds(until)).max(0.0);
        let bucket_requests = beyond(until.iter().map(|r| r.requests).sum(), sustained.iops);
        Some(Burst {
            level: Level { seconds: bucket_requests / (high.iops - sustained.iops), ..high },
            bucket_requests,
            bucket_mib: beyond(until.iter().map(|r| r.mib).sum(), sustained.mib_per_s),
        })
    });
    let fell_at_end = fall.is_none() && fall_at_end(rounds);
    let is_steady = Steadiness { excursion, slope_excursion }.is_steady() && !fell_at_end;
    Some(Watched { sustained, burst, is_steady, fell_at_end, excursion, slope_excursion })
}

/// The round in which the throughput fell to a level that it then kept.
///
/// The levels are the two that leave the least squares. Hardly a round may be on the other side of their middle, and the
/// lower one must be a level, so that scatter, a hiccup, a slow decline, and the credits of a second are none.
fn fall(rounds: &[Round], is_level: fn(&Steadiness) -> bool) -> Option<usize> {
    // Before the fall, the round of the fall, after it.
    let last = last_start(rounds)?.checked_sub(1)?;
    let at = lower_after(rounds, BURST_ROUNDS_MIN..=last)?;
    is_level(&steadiness(&rounds[at + 1..])?).then_some(at)
}

/// Whether it fell so late that what came after is too short for a level.
fn fall_at_end(rounds: &[Round]) -> bool {
    let first = last_start(rounds).unwrap_or(0).max(BURST_ROUNDS_MIN);
    let last = rounds.len().saturating_sub(1 + BURST_ROUNDS_MIN);
    lower_after(rounds, first..=last).is_some()
}

/// The one of these rounds that splits the throughput best, if it is lower after it than before it.
fn lower_after(rounds: &[Round], splits: RangeInclusive<usize>) -> Option<usize> {
    let rates: Vec<f64> = rounds.iter().map(rate).collect();
    let at = splits.min_by(|a, b| scatter(&rates, *a).total_cmp(&scatter(&rates, *b)))?;
    // The round of the fall has requests of both levels; it is this one, or the one before, if that is closer to the burst.
    let (before, after) = (&rates[..BURST_ROUNDS_MIN.max(at - 1)], &rates[at + 1..]);
    let (high, low) = (stats::median(before)?, stats::median(after)?);
    let middle = (high + low) / 2.0;
    let strays = |side: &[f64], is_stray: fn(f64, f64) -> bool| {
        let count = side.iter().filter(|rate| is_stray(**rate, middle)).count();
        count as f64 <= side.len() as f64 * STRAY_PART
    };
    let is_apart =
        strays(before, |rate, middle| rate <= middle) && strays(after, |rate, middle| rate >= middle);
    (low <= high * FALL_PART_MAX && is_apart).then_some(at)
}

/// The last round from which on there is as much as a level needs.
fn last_start(rounds: &[Round]) -> Option<usize> {
    let mut left = 0.0;
    let enough = |(_, round): &(usize, &Round)| {
        left += round.seconds;
        left >= SETTLED_S
    };
    let (at, _) = rounds.iter().enumerate().rev().find(enough)?;
    Some(at.min(rounds.len().checked_sub(STEADY_ROUNDS)?))
}

/// Sum of squares around the means on both sides of `split`.
fn scatter(rates: &[f64], split: usize) -> f64 {
    let squares = |side: &[f64]| {
        let mean = side.iter().sum::<f64>() / side.len().max(1) as f64;
        side.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>()
    };
    squares(&rates[..split]) + squares(&rates[split..])
}

/// Of five equal parts: SNIA's rounds are of a minute, and a second of a slow volume has few requests.
fn steadiness(rounds: &[Round]) -> Option<Steadiness> {
    let parts = (0..STEADY_ROUNDS).map(|part| {
        let place = |part: usize| rounds.len() * part / STEADY_ROUNDS;
        Some(level(&rounds[place(part)..place(part + 1)])?.iops)
    });
    stats::steadiness(&parts.collect::<Option<Vec<f64>>>()?)
}

/// By the line through what was done so far, not by the sum: a file system's commits pause a slow volume for a moment,
/// which then catches up, and a sum would have one without the other at its ends.
fn level(rounds: &[Round]) -> Option<Level> {
    let seconds = seconds(rounds);
    (seconds > 0.0).then(|| Level {
        iops: slope(rounds, |round| round.requests),
        mib_per_s: slope(rounds, |round| round.mib),
        seconds,
    })
}

/// The slope of the line of least squares through the running sum of `of` over time.
fn slope(rounds: &[Round], of: fn(&Round) -> f64) -> f64 {
    let mut sums = vec![(0.0, 0.0)];
    let (mut at_s, mut done) = (0.0, 0.0);
    for round in rounds {
        (at_s, done) = (at_s + round.seconds, done + of(round));
        sums.push((at_s, done));
    }
    let count = sums.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| sums.iter().map(of).sum::<f64>() / count;
    let (middle_s, middle) = (mean(|sum| sum.0), mean(|sum| sum.1));
    let along: f64 = sums.iter().map(|(at_s, done)| (at_s - middle_s) * (done - middle)).sum();
    let across: f64 = sums.iter().map(|(at_s, _)| (at_s - middle_s).powi(2)).sum();
    along / across
}

fn seconds(rounds: &[Round]) -> f64 {
    rounds.iter().map(|round| round.seconds).sum()
}

fn rate(round: &Round) -> f64 {
    round.requests / round.seconds.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests;
