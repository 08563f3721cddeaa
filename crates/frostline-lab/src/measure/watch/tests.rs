use super::*;

/// A second for each rate.
fn seconds_of(rates: &[f64]) -> Vec<Round> {
    rates.iter().map(|rate| Round { seconds: 1.0, requests: *rate, mib: rate / 8.0 }).collect()
}

/// `high` for `seconds`, a second of both, `low` until 60 s.
fn falling(high: f64, low: f64, seconds: usize) -> Vec<Round> {
    let scatter = |at: usize| [1.0, 1.01, 0.99, 1.02, 0.98][at % 5];
    let rate = |at: usize| match at.cmp(&seconds) {
        std::cmp::Ordering::Less => high,
        std::cmp::Ordering::Equal => (high + low) / 2.0,
        std::cmp::Ordering::Greater => low,
    };
    seconds_of(&(0..60).map(|at| rate(at) * scatter(at)).collect::<Vec<_>>())
}

#[track_caller]
fn check_close(found: f64, expected: f64, part: f64) {
    assert!((found / expected - 1.0).abs() <= part, "{found}, not {expected}");
}

#[test]
fn a_fall_shows_both_levels_and_the_bucket() {
    for (high, low, seconds) in [(500.0, 80.0, 40), (500.0, 80.0, 2), (3000.0, 2400.0, 30), (100.0, 10.0, 45)]
    {
        let found = watched(&falling(high, low, seconds)).unwrap();
        let burst = found.burst.unwrap();
        check_close(found.sustained.iops, low, 0.02);
        check_close(burst.level.iops, high, 0.02);
        let bucket = (high - low) * (seconds as f64 + 0.5);
        check_close(burst.bucket_requests, bucket, 0.08);
        check_close(burst.bucket_mib * 8.0, burst.bucket_requests, 0.01);
        assert!(found.is_steady, "{found:?}");
    }
}

#[test]
fn the_watch_ends_when_the_lower_level_has_settled() {
    let rounds = falling(500.0, 80.0, 20);
    let ended = (1..60).find(|count| is_enough(&rounds[..*count], 300.0));
    // Ten seconds of the lower level.
    assert!((30..=34).contains(&ended.unwrap()), "{ended:?}");
    let flat = seconds_of(&[500.0; 60]);
    assert_eq!((1..=60).find(|count| is_enough(&flat[..*count], 50.0)), Some(50));
}

#[test]
fn what_is_no_fall() {
    let slope: Vec<f64> = (0..60).map(|at| 500.0 - 4.0 * f64::from(at)).collect();
    let mut hiccup = vec![500.0; 60];
    hiccup[30..36].fill(50.0);
    let mut slow_start = vec![500.0; 60];
    slow_start[0] = 100.0;
    // What a drained bucket earned in a pause.
    let mut moment = vec![80.0; 60];
    (moment[0], moment[1]) = (186.0, 82.0);
    let mut small = vec![500.0; 60];
    small[30..].fill(450.0);
    let saw: Vec<f64> = (0..60).map(|at| if at % 2 == 0 { 300.0 } else { 700.0 }).collect();
    for rates in [vec![500.0; 60], slope, hiccup, slow_start, moment, small, saw] {
        let found = watched(&seconds_of(&rates)).unwrap();
        assert_eq!(found.burst, None, "{rates:?}");
    }
}

#[test]
fn a_stall_of_the_host_hides_no_fall() {
    let mut rounds = falling(500.0, 80.0, 30);
    // Nothing for most of a second, then what had waited.
    (rounds[10].requests, rounds[11].requests) = (60.0, 940.0);
    (rounds[50].requests, rounds[51].requests) = (17.0, 142.0);
    let burst = watched(&rounds).unwrap().burst.unwrap();
    check_close(burst.bucket_requests, 420.0 * 30.5, 0.03);
}

#[test]
fn pauses_of_a_file_system_do_not_move_the_lower_level() {
    // Every five seconds a pause, and what was waiting for it; the fall is in such a pause.
    let mut rounds = falling(500.0, 80.0, 30);
    for at in (30..59).step_by(5) {
        (rounds[at].requests, rounds[at + 1].requests) = (20.0, 140.0);
    }
    let ends: Vec<usize> = (40..60).filter(|end| is_enough(&rounds[..*end], 300.0)).collect();
    assert!(ends.first().is_some_and(|first| *first < 60), "{ends:?}");
    for end in ends {
        let found = watched(&rounds[..end]).unwrap();
        check_close(found.sustained.iops, 80.0, 0.04);
        check_close(found.burst.unwrap().bucket_requests, 420.0 * 30.0, 0.03);
    }
}

#[test]
fn a_lower_level_that_scatters_is_one_that_is_not_steady() {
    let mut rounds = falling(500.0, 80.0, 30);
    rounds[42..48].iter_mut().for_each(|round| round.requests = 50.0);
    assert!(!is_enough(&rounds, 300.0));
    let found = watched(&rounds).unwrap();
    assert!(!found.is_steady);
    check_close(found.burst.unwrap().bucket_requests, 420.0 * 30.5, 0.05);
}

#[test]
fn a_fall_in_the_last_seconds_is_no_steady_state() {
    for seconds in [2, 3, 5, 9] {
        let mut rates = vec![500.0; 300];
        rates[300 - seconds..].fill(80.0);
        let found = watched(&seconds_of(&rates)).unwrap();
        assert!(found.fell_at_end && !found.is_steady && found.burst.is_none(), "{seconds}: {found:?}");
    }
    assert!(!watched(&falling(500.0, 80.0, 30)).unwrap().fell_at_end, "that is a level");
    let mut hiccup = vec![500.0; 300];
    (hiccup[200], hiccup[299]) = (80.0, 80.0);
    let found = watched(&seconds_of(&hiccup)).unwrap();
    assert!(found.is_steady && !found.fell_at_end, "{found:?}");
}

#[test]
fn a_level_that_drifts_is_not_steady() {
    let rates: Vec<f64> = (0..60).map(|at| 500.0 - 6.0 * f64::from(at)).collect();
    let found = watched(&seconds_of(&rates)).unwrap();
    assert!(!found.is_steady && found.slope_excursion > 0.1, "{found:?}");
}

#[test]
fn too_few_rounds_say_nothing() {
    for count in 0..8 {
        assert_eq!(watched(&seconds_of(&vec![500.0; count])), None, "{count}");
    }
    // Rounds without a request have no steady state.
    assert_eq!(watched(&seconds_of(&[0.0; 60])), None);
}
