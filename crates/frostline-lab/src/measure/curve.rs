//! Latency over load: points, and the knee between a volume that keeps up and one that queues.

use serde::{Deserialize, Serialize};

/// Loads at which every path is measured, as parts of what it sustains. Closer where latency rises.
pub const PARTS: [f64; 8] = [0.975, 0.95, 0.9, 0.8, 0.7, 0.5, 0.25, 0.1];
/// Points on both sides of the knee are at most this part of the limit away.
const GAP_MAX: f64 = 0.05;
/// Latency at the limit over that at the least load, below which it did not rise.
const RISE_MIN: f64 = 2.0;
/// A knee at this part of the limit or more is the volume's, however busy this host is.
const AT_LIMIT_MIN: f64 = 0.9;
/// Percent of time spent waiting for a CPU above which latencies are also this host's.
pub const CPU_PRESSURE_MAX: f64 = 25.0;

/// What a load did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Requests that were offered a second, evenly; absent where as many as the volume takes.
    pub offered_iops: Option<f64>,
    /// Requests that were done a second.
    pub iops: f64,
    /// MiB a second.
    pub mib_per_s: f64,
    /// Median latency of reads or of writes, whichever is longer.
    pub p50_ms: f64,
    /// 99th percentile likewise.
    pub p99_ms: f64,
    /// Percent of the last 10 s in which something waited for a CPU of this host.
    pub cpu_pressure: Option<f64>,
    /// Percent of the latencies in which these requests waited for one. Absent where fio offered them.
    #[serde(default)]
    pub cpu_wait: Option<f64>,
}

/// The load beyond which latency rises steeply.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Requests a second.
    pub iops: f64,
    /// MiB a second.
    pub mib_per_s: f64,
    /// Median latency there.
    pub p50_ms: f64,
    /// 99th percentile there.
    pub p99_ms: f64,
}

/// Why the points name no knee although latency may have one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// Where latency bends, requests a second; absent where it hardly rises.
    pub bends_at_iops: Option<f64>,
    /// For how much of the time something waited for a CPU of this host, from there up to the limit: [`cpu_share`].
    pub cpu_pressure: f64,
}

/// The knee, unless it cannot be told from this host's own: while something waits for a CPU, requests queue for that too,
/// so that latency bends at a load that the volume keeps up with. Close to the limit, only the volume bends it.
///
/// # Errors
/// The doubt.
pub fn told(points: &[Point]) -> Result<Option<Knee>, Doubt> {
    let sorted = sorted(points);
    let at = place(&sorted);
    let limit_iops = sorted.last().map_or(f64::NAN, |point| point.iops);
    let is_at_limit = at.is_some_and(|at| sorted[at].iops >= limit_iops * AT_LIMIT_MIN);
    match cpu_share(&sorted[at.unwrap_or(0)..]).filter(|share| *share > CPU_PRESSURE_MAX) {
        Some(cpu_pressure) if !is_at_limit => {
            Err(Doubt { bends_at_iops: at.map(|at| sorted[at].iops), cpu_pressure })
        }
        _ => Ok(knee(points)),
    }
}

/// The largest percentage of time in which these requests waited for a CPU of this host. Where nobody knows that of them,
/// in which anything did.
pub fn cpu_share(points: &[Point]) -> Option<f64> {
    let most = |of: fn(&Point) -> Option<f64>| points.iter().filter_map(of).reduce(f64::max);
    most(|point| point.cpu_wait).or_else(|| most(|point| point.cpu_pressure))
}

/// The point farthest below the line from the least load to the most, both axes taken as parts of the whole
/// (Satopää et al., "Finding a 'Kneedle' in a Haystack", 2011); of several as far, the one of the most load. By the median:
/// a tail is also this host's.
///
/// `None` where latency hardly rises: then the requests that may be outstanding do not bring the volume to its limit.
pub fn knee(points: &[Point]) -> Option<Knee> {
    let sorted = sorted(points);
    let at = place(&sorted)?;
    let Point { iops, mib_per_s, p50_ms, p99_ms, .. } = sorted[at];
    Some(Knee { iops, mib_per_s, p50_ms, p99_ms })
}

/// Loads that would place the knee more exactly, as parts of `limit_iops`; none if it is placed.
pub fn refined(points: &[Point], limit_iops: f64) -> Vec<f64> {
    let sorted = sorted(points);
    let Some(at) = place(&sorted) else { return Vec::new() };
    let between = |from: usize, to: usize| {
        let (low, high) = (sorted.get(from)?.iops / limit_iops, sorted.get(to)?.iops / limit_iops);
        (high - low > GAP_MAX && high < 1.0 + GAP_MAX).then_some((low + high) / 2.0)
    };
    let before = at.checked_sub(1).and_then(|before| between(before, at));
    before.into_iter().chain(between(at, at + 1)).collect()
}

fn sorted(points: &[Point]) -> Vec<Point> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    sorted
}

fn place(sorted: &[Point]) -> Option<usize> {
    let medians = rising(&sorted.iter().map(|point| point.p50_ms).collect::<Vec<_>>());
    let (least, most) = (*medians.first()?, *medians.last()?);
    let (first, last) = (sorted.first()?.iops, sorted.last()?.iops);
    let (width, height) = (last - first, most - least);
    if sorted.len() < 3 || width <= 0.0 || most < least * RISE_MIN {
        return None;
    }
    let below = |at: usize| (sorted[at].iops - first) / width - (medians[at] - least) / height;
    let farthest = (0..sorted.len()).map(below).max_by(f64::total_cmp)?;
    // Loads this far apart are not told apart.
    (0..sorted.len()).rev().find(|at| below(*at) >= farthest - GAP_MAX)
}

/// The closest values that never fall (least squares; pools adjacent violators): no volume is faster under more load, so
/// that what is slower under less is scatter of this host.
fn rising(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for value in values {
        let mut pool = (*value, 1);
        while let Some((sum, count)) =
            pools.pop_if(|(sum, count)| *sum / *count as f64 > pool.0 / pool.1 as f64)
        {
            pool = (pool.0 + sum, pool.1 + count);
        }
        pools.push(pool);
    }
    pools.into_iter().flat_map(|(sum, count)| std::iter::repeat_n(sum / count as f64, count)).collect()
}

#[cfg(test)]
mod tests;
