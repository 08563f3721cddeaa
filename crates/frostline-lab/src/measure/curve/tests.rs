use super::*;

fn point(iops: f64, p50_ms: f64) -> Point {
    Point { iops, p50_ms, p99_ms: p50_ms * 2.0, ..Point::default() }
}

/// Flat below 3,000 requests a second, 64 outstanding at it.
fn limited() -> Vec<Point> {
    let mut points: Vec<Point> = PARTS.iter().map(|part| point(3000.0 * part, 0.3)).collect();
    points.push(point(3000.0, 64.0 / 3.0));
    points
}

#[test]
fn the_knee_of_a_limit_is_the_last_load_that_it_keeps_up_with() {
    let knee = knee(&limited()).unwrap();
    assert_eq!((knee.iops, knee.p50_ms), (2925.0, 0.3));
    assert!(refined(&limited(), 3000.0).is_empty(), "its neighbours are close enough");
}

#[test]
fn a_slow_point_below_the_knee_does_not_move_it() {
    let mut points = limited();
    points[5].p50_ms = 4.0;
    assert_eq!(knee(&points).unwrap().iops, 2925.0);
}

#[test]
fn a_knee_between_wide_points_is_placed_more_exactly() {
    // Latency rises from half of the limit on.
    let at = |part: f64| point(1000.0 * part, if part <= 0.5 { 1.0 } else { 1.0 + 200.0 * (part - 0.5) });
    let mut points: Vec<Point> = PARTS.iter().map(|part| at(*part)).chain([at(1.0)]).collect();
    for _ in 0..3 {
        points.extend(refined(&points, 1000.0).into_iter().map(at));
    }
    let knee = knee(&points).unwrap();
    assert!((450.0..=560.0).contains(&knee.iops), "{knee:?}");
}

#[test]
fn latency_that_does_not_rise_has_no_knee() {
    let flat: Vec<Point> = PARTS.iter().map(|part| point(1000.0 * part, 0.3)).collect();
    assert_eq!(knee(&flat), None);
    assert!(refined(&flat, 1000.0).is_empty());
    for few in [&[][..], &flat[..2], &[point(f64::NAN, 1.0); 4][..], &[point(1.0, 1.0); 4][..]] {
        assert_eq!(knee(few), None);
    }
}
