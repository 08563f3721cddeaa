//! Rank tests: exact for the small samples of a run, including ties, and by normal approximation beyond.
//!
//! The exact distributions are those of the ranks that occurred (so ties are no approximation), counted by
//! dynamic programming over doubled ranks, which are whole numbers even for ties.

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};

/// Up to this many values the distribution is counted, beyond it is normal.
const EXACT_MAX: usize = 60;

/// Two-sided p of the sign test that the median of `differences` is 0. Zeros say nothing and are left out;
/// without any other value, p is 1.
pub fn sign_test(differences: &[f64]) -> f64 {
    let (above, below) = differences.iter().fold((0_u64, 0_u64), |(above, below), difference| {
        (above + u64::from(*difference > 0.0), below + u64::from(*difference < 0.0))
    });
    let heads = Binomial::new(0.5, above + below).expect("one half is a probability");
    (2.0 * heads.cdf(above.min(below))).min(1.0)
}

/// Two-sided p of Wilcoxon's signed rank test that `differences` are symmetric about 0.
///
/// Exact up to 60 values, then normal with correction for ties and continuity. Zeros are left out (Wilcoxon,
/// "Individual comparisons by ranking methods", Biometrics Bulletin 1, 1945); without any other value, p is 1.
pub fn signed_rank(differences: &[f64]) -> f64 {
    let differences: Vec<f64> = differences.iter().copied().filter(|d| d.is_finite() && *d != 0.0).collect();
    let magnitudes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    let ranks = doubled_ranks(&magnitudes);
    let sum: usize = ranks.iter().zip(&differences).filter(|(_, d)| **d > 0.0).map(|(rank, _)| rank).sum();
    if differences.len() > EXACT_MAX {
        let mean = ranks.iter().sum::<usize>() as f64 / 2.0;
        let variance = ranks.iter().map(|rank| (*rank as f64).powi(2)).sum::<f64>() / 4.0;
        return normal_p(sum as f64, mean, variance);
    }
    // Each rank is added or not, with equal odds.
    let mut odds = vec![1.0];
    for rank in ranks {
        odds.resize(odds.len() + rank, 0.0);
        for at in (0..odds.len()).rev() {
            let with = if at >= rank { odds[at - rank] } else { 0.0 };
            odds[at] = (odds[at] + with) / 2.0;
        }
    }
    two_sided(&odds, sum)
}

/// Two-sided p of the test of Mann and Whitney that two samples are of one distribution. Exact up to 60
/// values together, ties included, then normal. Without values on one side, p is 1.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> f64 {
    let both: Vec<f64> = first.iter().chain(second).copied().collect();
    if first.is_empty() || second.is_empty() || both.iter().any(|value| value.is_nan()) {
        return 1.0;
    }
    let ranks = doubled_ranks(&both);
    let sum: usize = ranks[..first.len()].iter().sum();
    let (n, m) = (first.len() as f64, second.len() as f64);
    if both.len() > EXACT_MAX {
        let mean_rank = ranks.iter().sum::<usize>() as f64 / (n + m);
        let spread = ranks.iter().map(|rank| (*rank as f64 - mean_rank).powi(2)).sum::<f64>();
        return normal_p(sum as f64, n * mean_rank, n * m * spread / ((n + m) * (n + m - 1.0)));
    }
    two_sided(&odds_of_rank_sum(&ranks, first.len()), sum)
}

/// How many of the sorted differences between `n` and `m` values to leave out at each end so that the rest
/// holds the shift with at least `confidence`, and the confidence that it then has. Nothing is left out, and
/// the confidence is less, where the samples are too small.
pub(super) fn mann_whitney_cut(n: usize, m: usize, confidence: f64) -> (usize, f64) {
    if n + m > EXACT_MAX {
        let (n, m) = (n as f64, m as f64);
        let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
        let quantile = standard_normal().inverse_cdf((1.0 + confidence) / 2.0);
        let outside = (n * m / 2.0 - quantile * deviation - 0.5).floor().max(0.0);
        return (outside as usize, confidence);
    }
    let ranks: Vec<usize> = (1..=n + m).map(|rank| 2 * rank).collect();
    let odds = odds_of_rank_sum(&ranks, n);
    let least = n * (n + 1);
    // The odds that at most `outside` differences are on one side of the shift.
    let tail = |outside: usize| odds.iter().take(least + 2 * outside + 1).sum::<f64>();
    let covered = |outside: usize| 1.0 - 2.0 * tail(outside);
    let outside = (0..n * m).take_while(|outside| covered(*outside) >= confidence).last().unwrap_or(0);
    (outside, covered(outside).max(0.0))
}

/// The odds of each sum of `chosen` of the ranks, all choices alike.
fn odds_of_rank_sum(ranks: &[usize], chosen: usize) -> Vec<f64> {
    let most: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0_f64; most + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for (seen, rank) in ranks.iter().enumerate() {
        for count in (1..=chosen.min(seen + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(count);
            for (to, from) in more[0][*rank..].iter_mut().zip(&fewer[count - 1]) {
                *to += from;
            }
        }
    }
    let mut ways = ways.swap_remove(chosen);
    let all: f64 = ways.iter().sum();
    ways.iter_mut().for_each(|way| *way /= all);
    ways
}

/// Twice the smaller tail, the value itself in both.
fn two_sided(odds: &[f64], value: usize) -> f64 {
    let below: f64 = odds[..=value].iter().sum();
    let above: f64 = odds[value..].iter().sum();
    (2.0 * below.min(above)).min(1.0)
}

/// The two-sided p of a sum of doubled ranks, which moves in steps of two at most, under the normal curve.
fn normal_p(value: f64, mean: f64, variance: f64) -> f64 {
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((value - mean).abs() - 1.0).max(0.0) / variance.sqrt();
    (2.0 * standard_normal().sf(distance)).min(1.0)
}

fn standard_normal() -> Normal {
    Normal::new(0.0, 1.0).expect("the standard normal distribution exists")
}

/// Twice the rank of each value from 1; equal values share their mean rank.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let (mut ranks, mut before) = (vec![0; values.len()], 0);
    for tied in order.chunk_by(|a, b| values[*a] == values[*b]) {
        tied.iter().for_each(|at| ranks[*at] = 2 * before + tied.len() + 1);
        before += tied.len();
    }
    ranks
}
