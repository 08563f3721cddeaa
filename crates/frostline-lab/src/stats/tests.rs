use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;

/// Scatter of synthetic benchmark values: standard deviation of the logarithm.
const SCATTER: f64 = 0.025;

fn normal(rng: &mut SmallRng) -> f64 {
    let (a, b): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// A distribution and its median.
type Distribution = (&'static str, fn(&mut SmallRng) -> f64, f64);

const DISTRIBUTIONS: [Distribution; 7] = [
    ("normal", normal, 0.0),
    ("uniform", |rng| rng.random(), 0.5),
    ("exponential", |rng| -(1.0 - rng.random::<f64>()).ln(), std::f64::consts::LN_2),
    ("log-normal, 3 %", |rng| (0.03 * normal(rng)).exp(), 1.0),
    ("log-normal, 50 %", |rng| (0.5 * normal(rng)).exp(), 1.0),
    ("Laplace", |rng| (1.0 - rng.random::<f64>()).ln() - (1.0 - rng.random::<f64>()).ln(), 0.0),
    (
        "one value in ten five times as scattered",
        |rng| normal(rng) * if rng.random_bool(0.1) { 5.0 } else { 1.0 },
        0.0,
    ),
];

fn draw(n: usize, rng: &mut SmallRng, value: impl Fn(&mut SmallRng) -> f64) -> Vec<f64> {
    (0..n).map(|_| value(rng)).collect()
}

/// How many in `runs` hold.
fn rate(runs: u32, mut run: impl FnMut() -> bool) -> f64 {
    f64::from((0..runs).map(|_| u32::from(run())).sum::<u32>()) / f64::from(runs)
}

/// Blocks of two cells of which the first is `difference` faster. Blocks drift by 10 %, which pairs undo.
fn blocks(n: usize, difference: f64, rng: &mut SmallRng) -> (Vec<f64>, Vec<f64>) {
    (0..n)
        .map(|_| {
            let block = 500.0 * (0.1 * normal(rng)).exp();
            // A pair's ratio then scatters by SCATTER.
            let mut value = |level: f64| block * level * (SCATTER / 2_f64.sqrt() * normal(rng)).exp();
            (value(1.0 + difference), value(1.0))
        })
        .unzip()
}

#[test]
fn the_interval_of_a_median_holds_it_in_93_to_97_of_100_runs() {
    let mut rng = SmallRng::seed_from_u64(1);
    for (name, value, truth) in DISTRIBUTIONS {
        for n in [5, 6, 7, 8, 9, 10, 12, 15] {
            let covered = rate(10_000, || median_interval(&draw(n, &mut rng, value)).unwrap().covers(truth));
            // 10 000 runs tell the rate to 0.25 % (one standard deviation); five values keep 93.75 % at most.
            let least = 0.93;
            assert!((least..=0.97).contains(&covered), "{name}, n = {n}: {covered}");
        }
    }
}

/// Why the interval is not a bootstrap.
#[test]
fn the_percentile_bootstrap_holds_the_median_of_seven_values_in_fewer_than_90_of_100_runs() {
    let mut rng = SmallRng::seed_from_u64(2);
    let covered = rate(1000, || {
        let values = draw(7, &mut rng, normal);
        let medians =
            draw(300, &mut rng, |rng| median(&draw(7, rng, |rng| values[rng.random_range(0..7)])).unwrap());
        (quantile(&medians, 0.025).unwrap()..=quantile(&medians, 0.975).unwrap()).contains(&0.0)
    });
    assert!((0.84..0.90).contains(&covered), "{covered}");
}

#[test]
fn too_few_values_give_their_range_and_say_what_it_is_worth() {
    let of = |n: usize| median_interval(&(0..n).map(|v| v as f64).collect::<Vec<_>>());
    assert_eq!(of(0), None);
    for (n, confidence) in [(1, 0.0), (2, 0.5), (3, 0.75), (4, 0.875), (5, 0.9375)] {
        let interval = of(n).unwrap();
        assert_eq!((interval.low, interval.high), (0.0, n as f64 - 1.0));
        assert!((interval.confidence - confidence).abs() < 1e-12, "{n}: {}", interval.confidence);
    }
    assert_eq!(of(6).unwrap().confidence, CONFIDENCE);
    // Hettmansperger and Sheather's formula by hand: 0.96875 and 0.78125 around 0.95, weight 0.5 / 1.4.
    assert!((of(6).unwrap().low - 0.5 / 1.4).abs() < 1e-9, "{:?}", of(6));
}

#[test]
fn quantiles_interpolate_and_ignore_what_is_no_number() {
    let values = [4.0, f64::NAN, 1.0, 3.0, f64::INFINITY, 2.0];
    for (part, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 2.5), (1.0, 4.0), (-1.0, 1.0), (9.0, 4.0)] {
        assert_eq!(quantile(&values, part), Some(expected), "{part}");
    }
    assert_eq!(median(&[f64::MAX, f64::MAX]), Some(f64::MAX));
    assert_eq!(median(&[f64::NAN]), None);
}

#[test]
fn a_planted_5_percent_is_found_and_a_planted_0_is_not_in_95_of_100_runs() {
    for n in [10, 12, 15] {
        let mut rng = SmallRng::seed_from_u64(3);
        // 1000 runs, so that the 95 does not hang on the seed.
        let mut found = |difference: f64| {
            rate(1000, || {
                let (above, below) = blocks(n, difference, &mut rng);
                paired_ratio(&above, &below).unwrap().shows_difference()
            })
        };
        let (planted, none) = (found(0.05), found(0.0));
        assert!(planted >= 0.95, "n = {n}: found in {planted}");
        assert!(none <= 0.05, "n = {n}: found something in {none} of runs where there was nothing");
    }
}

#[test]
fn a_null_control_covers_1_as_often_as_promised_even_where_blocks_drift() {
    let mut rng = SmallRng::seed_from_u64(4);
    for n in [6, 10, 15] {
        let covered = rate(2500, || {
            let (above, below) = blocks(n, 0.0, &mut rng);
            paired_ratio(&above, &below).unwrap().interval.covers(1.0)
        });
        assert!((0.93..=0.97).contains(&covered), "n = {n}: {covered}");
    }
}

#[test]
fn the_smallest_difference_is_found_in_about_4_of_5_runs() {
    let mut rng = SmallRng::seed_from_u64(5);
    for n in [6, 8, 10, 12, 15] {
        // With the true scatter, not each run's estimate of it.
        let pairs = n as f64;
        let truth = ((std::f64::consts::PI / 2.0).sqrt() * both_quantiles(pairs - 1.0) * SCATTER
            / pairs.sqrt())
        .exp()
            - 1.0;
        let found = rate(2000, || {
            let (above, below) = blocks(n, truth, &mut rng);
            paired_ratio(&above, &below).unwrap().shows_difference()
        });
        assert!((0.72..=0.9).contains(&found), "n = {n}, {truth:.4}: {found}");
        let mut estimates = draw(500, &mut rng, |rng| {
            let (above, below) = blocks(n, 0.0, rng);
            smallest_difference(&log_ratios(&above, &below)).unwrap()
        });
        estimates.retain(|estimate| estimate.is_finite());
        let typical = median(&estimates).unwrap();
        assert!((typical / truth - 1.0).abs() < 0.12, "n = {n}: {typical} for {truth}");
    }
    assert_eq!(smallest_difference(&[0.1; PAIRS_MIN - 1]), None);
}

#[test]
fn a_ratio_and_its_inverse_are_inverse() {
    let mut rng = SmallRng::seed_from_u64(6);
    let (above, below) = blocks(8, 0.3, &mut rng);
    for ratio in [paired_ratio, unpaired_ratio] {
        let (there, back) = (ratio(&above, &below).unwrap(), ratio(&below, &above).unwrap());
        assert!((there.interval.estimate * back.interval.estimate - 1.0).abs() < 1e-12);
        assert!((there.interval.low * back.interval.high - 1.0).abs() < 1e-12);
        assert!((there.p - back.p).abs() < 1e-12);
    }
}

#[test]
fn pairs_that_are_no_measurements_are_left_out() {
    let ratio =
        paired_ratio(&[2.0, f64::NAN, 0.0, 4.0, -1.0, f64::INFINITY], &[1.0, 1.0, 1.0, 2.0, 1.0, 1.0])
            .unwrap();
    assert_eq!((ratio.pairs, ratio.interval.estimate), (2, 2.0));
    assert_eq!(ratio.smallest_difference, None);
    assert_eq!(paired_ratio(&[1.0], &[]), None);
    assert_eq!(paired_ratio(&[], &[]), None);
    assert_eq!(unpaired_ratio(&[f64::NAN], &[1.0]), None);
}

#[test]
fn the_interval_of_an_unpaired_ratio_holds_it_and_finds_what_it_says_it_can() {
    let mut rng = SmallRng::seed_from_u64(7);
    for (n, m, runs) in [(4, 4, 2000), (5, 5, 2000), (6, 12, 1000), (8, 8, 1000), (12, 12, 500)] {
        let sample = |n: usize, level: f64, rng: &mut SmallRng| {
            draw(n, rng, |rng| level * (SCATTER * normal(rng)).exp())
        };
        let covered = rate(runs, || {
            let (above, below) = (sample(n, 1.1, &mut rng), sample(m, 1.0, &mut rng));
            unpaired_ratio(&above, &below).unwrap().interval.covers(1.1)
        });
        assert!((0.935..=0.985).contains(&covered), "{n}, {m}: {covered}");
    }
    let few = unpaired_ratio(&[1.0, 1.1, 1.2], &[2.0, 2.1, 2.2]).unwrap();
    assert!((few.interval.confidence - 0.9).abs() < 1e-12 && few.smallest_difference.is_none(), "{few:?}");
    let found = rate(1000, || {
        let above = draw(8, &mut rng, |rng| 1.038 * (SCATTER * normal(rng)).exp());
        let below = draw(8, &mut rng, |rng| (SCATTER * normal(rng)).exp());
        unpaired_ratio(&above, &below).unwrap().shows_difference()
    });
    assert!((0.7..0.9).contains(&found), "{found}");
}

#[test]
fn rank_tests_give_published_p_values() {
    let p = |expected: f64, p: f64| assert!((p - expected).abs() < 5e-5, "{p}, expected {expected}");
    // All six on one side; five; W = 3 of eight pairs is 0.0391 in the tables (Wilcoxon and Wilcox 1964).
    p(0.03125, signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    p(0.0625, signed_rank(&[-1.0, -2.0, -3.0, -4.0, -5.0]));
    p(0.0391, signed_rank(&[-1.0, -2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]));
    // Darwin's maize (Fisher 1935): p of the signed rank test is 0.0413.
    let maize = [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];
    p(0.0413, signed_rank(&maize));
    p(0.00739, sign_test(&maize));
    p(1.0, signed_rank(&[0.0, 0.0]));
    p(1.0, sign_test(&[]));
    // Three against three, apart; U = 2 of five against five is 0.0317.
    p(0.1, mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]));
    p(0.0317, mann_whitney(&[1.0, 2.0, 3.0, 4.0, 7.0], &[5.0, 6.0, 8.0, 9.0, 10.0]));
    p(1.0, mann_whitney(&[5.0; 4], &[5.0; 4]));
    p(1.0, mann_whitney(&[], &[1.0]));
}

#[test]
fn the_normal_curve_continues_the_exact_tests() {
    let mut rng = SmallRng::seed_from_u64(8);
    let differences = draw(60, &mut rng, |rng| normal(rng) + 0.25);
    let mut more = differences.clone();
    more.push(1e-9);
    assert!((signed_rank(&differences) - signed_rank(&more)).abs() < 2e-3);
}

#[test]
fn rank_tests_err_as_often_as_they_say() {
    let mut rng = SmallRng::seed_from_u64(9);
    for (n, runs) in [(6, 2000), (10, 2000), (12, 600), (70, 2000)] {
        let signed = rate(runs, || signed_rank(&draw(n, &mut rng, normal)) < ALPHA);
        let unpaired =
            rate(runs, || mann_whitney(&draw(n, &mut rng, normal), &draw(n, &mut rng, normal)) < ALPHA);
        assert!(
            (0.02..0.06).contains(&signed) && (0.03..0.06).contains(&unpaired),
            "{n}: {signed}, {unpaired}"
        );
    }
}

#[test]
fn holm_corrects_a_matrix() {
    let corrected = holm(&[0.01, 0.04, f64::NAN, 0.03, 0.005]);
    for (at, expected) in [(0, 0.03), (1, 0.06), (3, 0.06), (4, 0.02)] {
        assert!((corrected[at] - expected).abs() < 1e-12, "{corrected:?}");
    }
    assert!(corrected[2].is_nan());
    assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    assert!(holm(&[]).is_empty());
    // Over a matrix of twenty null comparisons of ten pairs, fewer than one matrix in twenty shows anything.
    let mut rng = SmallRng::seed_from_u64(10);
    let wrong = rate(500, || {
        let p: Vec<f64> = (0..20).map(|_| signed_rank(&draw(10, &mut rng, normal))).collect();
        holm(&p).iter().any(|p| *p < ALPHA)
    });
    assert!(wrong <= 0.06, "{wrong}");
}

#[test]
fn steadiness_is_that_of_the_last_five_rounds() {
    let check = |rounds: &[f64], expected: Option<(f64, f64, bool)>| {
        let seen = steadiness(rounds).map(|s| (s.excursion, s.slope_excursion, s.is_steady()));
        match (seen, expected) {
            (Some(seen), Some(expected)) => {
                assert!((seen.0 - expected.0).abs() < 1e-9 && (seen.1 - expected.1).abs() < 1e-9, "{seen:?}");
                assert_eq!(seen.2, expected.2, "{rounds:?}");
            }
            (seen, expected) => assert_eq!(seen, expected),
        }
    };
    check(&[900.0, 100.0, 100.0, 100.0, 100.0, 100.0], Some((0.0, 0.0, true)));
    check(&[94.0, 97.0, 100.0, 103.0, 106.0], Some((0.12, 0.12, false)));
    check(&[96.0, 98.0, 100.0, 102.0, 104.0], Some((0.08, 0.08, true)));
    check(&[90.0, 110.0, 100.0, 90.0, 110.0], Some((0.20, 0.08, true)));
    check(&[100.0, 121.0, 100.0, 100.0, 100.0], Some((21.0 / 104.2, 0.080_614_203, false)));
    check(&[100.0; 4], None);
    check(&[0.0; 5], None);
    check(&[1.0, 1.0, f64::NAN, 1.0, 1.0], None);
}

#[test]
fn a_cell_is_measured_until_it_is_tight_or_has_the_most_pairs() {
    let rule = StoppingRule::default();
    let ratio = |pairs: usize, width: f64| Ratio {
        interval: Interval { estimate: 2.0, low: 2.0 - width, high: 2.0 + width, confidence: 0.95 },
        pairs,
        p: 0.01,
        smallest_difference: None,
    };
    assert_eq!(rule.stop(&ratio(5, 0.0)), None);
    assert_eq!(rule.stop(&ratio(6, 0.059)), Some(Stop::Tight));
    assert_eq!(rule.stop(&ratio(14, 0.061)), None);
    assert_eq!(rule.stop(&ratio(15, 0.061)), Some(Stop::Most));
    assert_eq!(rule.stop(&ratio(15, f64::NAN)), Some(Stop::Most));
}

#[test]
fn stopping_early_costs_little_of_what_the_interval_promises() {
    let mut rng = SmallRng::seed_from_u64(11);
    let rule = StoppingRule::default();
    let covered = rate(3000, || {
        // Scatter for which some runs stop early and others late.
        let logs = draw(rule.pairs_max, &mut rng, |rng| 0.03 * normal(rng));
        let stopped = (1..=rule.pairs_max).find_map(|pairs| {
            let above: Vec<f64> = logs[..pairs].iter().map(|log| log.exp()).collect();
            let ratio = paired_ratio(&above, &vec![1.0; pairs])?;
            rule.stop(&ratio).map(|_| ratio)
        });
        stopped.unwrap().interval.covers(1.0)
    });
    assert!((0.92..=0.95).contains(&covered), "{covered}");
}
