//! Figures of a load: transactions second by second, and when they are steady.

use std::collections::BTreeMap;

use frostline_base::{Error, Result};

/// Seconds that are told together.
const WINDOW_S: usize = 10;
/// The last seconds, which the others are compared with.
const LAST_S: usize = 30;
/// How far from the mean of the last seconds a window of a steady load is.
const STEADY_PART: f64 = 0.2;

/// What pgbench with `-P 1` says of each second.
pub(super) fn tps(progress: &str) -> Result<Vec<f64>> {
    let second = |line: &str| {
        let mut words = line.strip_prefix("progress: ")?.split_whitespace();
        words.nth(2)?.parse::<f64>().ok().filter(|tps| tps.is_finite() && *tps >= 0.0)
    };
    let seconds: Vec<f64> = progress.lines().filter_map(second).collect();
    match seconds.is_empty() {
        true => Err(Error::corrupt("pgbench told no progress")),
        false => Ok(seconds),
    }
}

pub(super) fn mean(seconds: &[f64]) -> f64 {
    seconds.iter().sum::<f64>() / seconds.len().max(1) as f64
}

/// The mean of each ten seconds, of the last thirty, and from which second on it is steady, if it is.
pub(super) fn figures(seconds: &[f64]) -> BTreeMap<String, f64> {
    let windows: Vec<f64> = seconds.chunks_exact(WINDOW_S).map(mean).collect();
    let last = mean(&seconds[seconds.len().saturating_sub(LAST_S)..]);
    let named = |(at, tps): (usize, &f64)| (format!("from_{:03}_s_tps", at * WINDOW_S), *tps);
    let mut figures: BTreeMap<String, f64> = windows.iter().enumerate().map(named).collect();
    figures.insert("last_30_s_tps".to_owned(), last);
    let is_near = |tps: &f64| (tps / last - 1.0).abs() <= STEADY_PART;
    let unsteady = windows.iter().rposition(|tps| !is_near(tps)).map_or(0, |at| at + 1);
    // It has to be so for longer than what it is compared with.
    if (windows.len() - unsteady) * WINDOW_S > LAST_S || unsteady == 0 {
        figures.insert("steady_after_s".to_owned(), (unsteady * WINDOW_S) as f64);
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_is_read() {
        let text = "pgbench (15.18)\nprogress: 1.0 s, 22.0 tps, lat 180.9 ms stddev 3.1, 0 failed\n\
            progress: 2.0 s, 41.5 tps, lat 96 ms stddev 3, 0 failed\nnumber of failed transactions: 0\n";
        assert_eq!(tps(text).unwrap(), [22.0, 41.5]);
        tps("pgbench: error").unwrap_err();
    }

    #[test]
    fn a_load_is_steady_from_where_it_stays_near_its_end() {
        let steady = |levels: &[f64]| {
            let seconds: Vec<f64> = levels.iter().flat_map(|tps| [*tps; WINDOW_S]).collect();
            let figures = figures(&seconds);
            assert_eq!(figures["from_000_s_tps"], levels[0]);
            figures.get("steady_after_s").copied()
        };
        assert_eq!(steady(&[20.0, 300.0, 380.0, 400.0, 390.0, 400.0, 410.0]), Some(20.0));
        assert_eq!(steady(&[400.0, 390.0, 400.0]), Some(0.0));
        // Only its end is near its end.
        assert_eq!(steady(&[20.0, 40.0, 60.0, 390.0, 400.0, 410.0]), None);
        assert_eq!(steady(&[20.0, 40.0, 64.0]), None);
    }
}
